//! The slow judges: plain versions of join, sort, aggregate and window that tests compare with.

pub mod aggregate;
pub mod join;
pub mod sort;
pub mod window;
