//! The embedded database: a library and a folder of files.
//!
//! The life of a statement:
//! 1. [`Database::open`] starts an engine and makes a table of every file in a folder; [`Database::session`] gives a session.
//! 2. [`Session::execute`] plans one statement with the session's [planner](diligence_sql::Planner).
//! 3. Statements that change something (tables, settings) are done at once; queries are started on the engine.
//! 4. [`QueryResult`] hands out batches as they appear. Dropping it cancels the query.
//!
//! ```
//! use diligence_db::Database;
//!
//! let database = Database::in_memory()?;
//! let session = database.session();
//! session.execute("CREATE TABLE t AS VALUES (1, 'a'), (2, 'b')")?.collect()?;
//! let batches = session.execute("SELECT count(*) FROM t")?.collect()?;
//! assert_eq!(batches[0].num_rows(), 1);
//! # Ok::<(), diligence_base::Error>(())
//! ```

mod database;
mod result;
mod session;
mod settings;
mod system;

pub use database::{Database, DatabaseOptions, TableInfo};
pub use diligence_base::{Error, ErrorKind, Result};
pub use diligence_engine::query::{CancelToken, Progress};
pub use result::{QueryResult, ResultKind};
pub use session::Session;
pub use settings::SettingInfo;
