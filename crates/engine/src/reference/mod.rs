//! The slow judges: plain versions of join, sort and aggregate that tests compare with.

pub mod aggregate;
pub mod join;
pub mod sort;
