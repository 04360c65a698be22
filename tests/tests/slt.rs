//! Runs the SQL scripts in their weathers; see `diligence_tests::slt`.

use std::path::Path;

fn main() -> std::process::ExitCode {
    diligence_tests::slt::main(Path::new(env!("CARGO_TARGET_TMPDIR")))
}
