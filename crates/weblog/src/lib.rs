//! A workload that nobody tuned for: a table like the log of a web server, and questions about it.
//!
//! The table has 23 columns: skewed numbers, texts of 40 to 80 bytes most of which occur once, texts that are nearly
//! always empty, few values that repeat. It is one file whose row groups are large and have no page index, as pyarrow
//! writes them. The same seed gives the same rows, however many are made at once.
//!
//! It knows no engine, so that the tests and the benchmarks can both use it.

mod file;
mod queries;
mod rows;

pub use file::{Layout, write};
pub use queries::{QUERIES, TABLE};
pub use rows::WebLog;
