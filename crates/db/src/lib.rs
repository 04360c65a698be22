//! The embedded database: open one, ask it SQL, read Arrow batches.
//!
//! ```
//! use diligence_db::Database;
//!
//! # fn main() -> diligence_base::Result<()> {
//! let session = Database::in_memory()?.session();
//! session.execute("CREATE TABLE t AS SELECT * FROM (VALUES (1, 'one'), (2, 'two')) AS v(a, b)")?;
//! let batches = session.execute("SELECT b FROM t WHERE a = 2")?.collect()?;
//! assert_eq!(batches[0].num_rows(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! The life of a statement: [`Session::execute`] plans it (`diligence_sql`), the engine starts it, and its rows come
//! out of a
//! [`QueryResult`] as they appear. Dropping the result cancels the query. Statements that change something are done
//! when `execute` returns. A text that comes again is not planned again while its tables are as they were.
//!
//! Servers take a statement's steps one by one ([`Session::parse`], [`Session::plan`], [`Session::start_planned`]), and
//! find the catalog as PostgreSQL's clients look at it in [`postgres`].
//!
//! Not here: clients over a network, and files that are more than other people's.

mod beginning;
mod database;
mod plan_json;
mod plans;
pub mod postgres;
mod result;
mod session;
mod settings;
mod steps;
mod system;
#[cfg(test)]
mod tests;

pub use beginning::Beginning;
pub use database::{Database, DatabaseOptions, TableInfo, WaitingQuery};
pub use diligence_base::{Error, ErrorKind, Result};
pub use diligence_catalog::{CatalogChange, CatalogObserver, ComputedTable, SessionSnapshot, rights};
pub use diligence_engine::plan::Needs;
pub use diligence_engine::query::Progress;
pub use diligence_engine::temp::{Compression, TempIo, TempOptions};
pub use diligence_sql::Facts;
pub use result::{CancelToken, QueryResult, ResultKind, Used};
pub use session::{Session, SessionOptions};
pub use settings::memory_budget;
pub use steps::{Description, GenericPlan, ParsedStatement, PlannedStatement};
