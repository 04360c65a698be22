//! What tests of databases do again and again: open one, run a statement, look at what it gives.

use std::path::Path;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use arrow::util::pretty::pretty_format_batches;
use diligence_base::Error;

use crate::{Database, DatabaseOptions, Session};

/// What a database in a folder is opened with: two workers.
pub(crate) fn in_folder(folder: &Path) -> DatabaseOptions {
    DatabaseOptions { folder: Some(folder.into()), workers: Some(2), ..DatabaseOptions::default() }
}

/// A database in a folder.
pub(crate) fn open(folder: &Path) -> Database {
    Database::open(in_folder(folder)).unwrap()
}

/// Runs a statement to its end.
pub(crate) fn run(session: &Session, sql: &str) {
    session.execute(sql).and_then(|result| result.collect()).unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// The error that a statement ends with.
pub(crate) fn error(session: &Session, sql: &str) -> Error {
    session.execute(sql).and_then(|result| result.collect()).expect_err(sql)
}

/// The code of that error; empty if it has none.
pub(crate) fn code(session: &Session, sql: &str) -> &'static str {
    error(session, sql).code().unwrap_or_default()
}

/// The number that a query without FROM or in parentheses gives.
pub(crate) fn number(session: &Session, sql: &str) -> i64 {
    let sql = format!("SELECT ({sql})::bigint");
    let rows = session.execute(&sql).and_then(|result| result.collect());
    let rows = rows.unwrap_or_else(|error| panic!("{sql}: {error}"));
    rows[0].column(0).as_primitive::<Int64Type>().value(0)
}

/// The rows of batches, the values of each with a space between them.
pub(crate) fn shown(batches: &[RecordBatch]) -> Vec<String> {
    let table = pretty_format_batches(batches).unwrap().to_string();
    let lines = table.lines().filter(|line| line.starts_with('|')).skip(1);
    lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>().join(" ")).collect()
}

/// The rows of a query, as [`shown`].
pub(crate) fn rows(session: &Session, sql: &str) -> Vec<String> {
    let rows = session.execute(sql).and_then(|result| result.collect());
    shown(&rows.unwrap_or_else(|error| panic!("{sql}: {error}")))
}
