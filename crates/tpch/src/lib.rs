//! The TPC-H workload: its eight tables as Parquet files, and its 22 queries.
//!
//! The rows come from the `tpchgen` crates and are byte for byte those of the TPC's `dbgen`; this crate decides only
//! how they are laid out in files: row groups of about [`ROW_GROUP_ROWS`] rows, dictionaries, Snappy, statistics for
//! every column. The same scale factor gives the same files whatever the number of threads.
//!
//! It knows no engine, so that the command, the tests and the benchmarks can all use it.

mod generate;
mod queries;
mod table;

pub use generate::{Options, Outcome, Progress, ROW_GROUP_ROWS, TableFile, generate};
pub use queries::QUERIES;
pub use table::TpchTable;
