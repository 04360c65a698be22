//! Empty: its presence has the build dependencies of this package built.

fn main() {}
