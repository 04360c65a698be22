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
//! The life of a statement is told in `statement`: [`Session::execute`] plans it (`diligence_sql`), the engine starts
//! it, and its rows come out of a [`QueryResult`] as they appear. Dropping the result cancels the query. Statements
//! that change something are done when `execute` returns. A text that comes again is not planned again while its tables
//! are as they were ([`plans`]).
//!
//! Servers take a statement's phases one by one ([`Session::parse`], [`Session::plan`], [`Session::start_planned`]),
//! use the same plan cache ([`Database::plan_cache`]), show what happens ([`status`]), and find the catalog as
//! PostgreSQL's clients look at it in [`postgres`].
//!
//! The rooms, of which each imports only those before it: `sqlstate`, `cursors`, `channels`, `sender`,
//! `known_settings`, `settings_of_duckdb`, `setting`, `settings`, `settings_of_folder`, `status`, `system`,
//! `plan_json`, `activity`, `postgres`, `plans`, `kept`, `put_off`, `remembered`, `data`, `data_folder`, `database`,
//! `session`, `words`, `statement`.
//!
//! Not here: clients over a network, and files that are more than other people's.

mod activity;
mod channels;
mod cursors;
mod data;
mod data_folder;
mod database;
#[cfg(test)]
mod definition_tests;
#[cfg(test)]
mod folder_tests;
#[cfg(test)]
mod forms;
#[cfg(test)]
mod fragment_tests;
#[cfg(test)]
mod isolation;
mod kept;
mod known_settings;
#[cfg(test)]
mod partial_states_tests;
mod plan_json;
pub mod plans;
pub mod postgres;
mod put_off;
#[cfg(test)]
mod python_results_tests;
#[cfg(test)]
mod python_tests;
mod remembered;
mod sender;
mod session;
#[cfg(test)]
mod sessions_tests;
mod setting;
mod settings;
mod settings_of_duckdb;
mod settings_of_folder;
mod sqlstate;
mod statement;
pub mod status;
mod system;
#[cfg(test)]
mod system_documents_tests;
#[cfg(test)]
mod test_sessions;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod wasm_tests;
mod words;

pub use activity::Activity;
pub use channels::Notification;
pub use cursors::{CursorInfo, CursorRows, CursorWay, Passed};
pub use data_folder::DataChanges;
pub use database::{Database, DatabaseOptions, TableInfo};
pub use diligence_base::units::bytes;
pub use diligence_base::{Error, ErrorKind, Result, duration};
pub use diligence_catalog::Isolation;
pub use diligence_catalog::authority::RoleDefinition;
pub use diligence_catalog::{CATALOG_NAME, ComputedTable, PlanningIdentity, SessionSnapshot, rights};
pub use diligence_disk::{Compression, TempIo, TempOptions};
pub use diligence_engine::plan::Needs;
pub use diligence_engine::query::Printed;
pub use diligence_engine::{SharingKey, SharingOffer};
pub use diligence_native::{Holder, Repaired, SegmentSizes};
pub use diligence_remote::without_passwords;
pub use diligence_sql::{Description, Facts};
pub use diligence_types::SqlType;
pub use diligence_types::network_type::NetworkKind;
pub use diligence_types::range_type::RangeKind;
pub use diligence_types::search::SearchKind;
pub use diligence_types::text::networks::{Address, mac_text, read_mac};
pub use diligence_types::text::{
    Forms, Multirange, Printer, Range, ReadOptions, Styles, Zone, ZonedTime, array_type_of, parse_array,
};
pub use plans::{GenericPlan, ParsedStatement, PlanCache, PlannedStatement, Used};
pub use remembered::SessionMark;
pub use session::client_settings::{AskedSetting, SettingCheck};
pub use session::{Session, SessionOptions};
pub use settings::memory_budget;
pub use sqlstate::sqlstate;
pub use statement::{
    Append, CancelToken, FollowedQuery, PendingStatement, QueryResult, ResultKind, Short, StatementAtRow,
};
pub use status::Progress;
pub use system::WaitingQuery;
