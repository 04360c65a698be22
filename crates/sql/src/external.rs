//! Foreign files as tables: the options of CREATE EXTERNAL TABLE, and names that are paths.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::Constraints;
use diligence_base::{Error, Result};
use diligence_storage::Table;

use crate::catalog::RelationName;

/// What CREATE EXTERNAL TABLE says.
#[derive(Debug)]
pub struct ExternalTable {
    /// The table's name.
    pub name: RelationName,
    /// Paths, folders, patterns or URLs.
    pub locations: Vec<String>,
    /// The format's name.
    pub format: String,
    /// The columns, where the statement lists them.
    pub schema: Option<SchemaRef>,
    /// OPTIONS, names in lower case without `format.`.
    pub options: HashMap<String, String>,
    /// Whether an existing table is left alone.
    pub if_not_exists: bool,
    /// Whether an existing table gives way.
    pub or_replace: bool,
    /// As declared.
    pub constraints: Constraints,
    /// The statement's text.
    pub definition: String,
}

/// Opens the files of a CREATE EXTERNAL TABLE.
pub fn open(table: &ExternalTable) -> Result<Arc<dyn Table>> {
    Err(Error::unsupported(format!("external tables are not built in: {}", table.name)))
}

/// Opens a path, a folder, a pattern or a URL, finding out the format by itself.
pub fn open_path(path: &str) -> Result<Arc<dyn Table>> {
    Err(Error::unsupported(format!("files are not built in: {path}")))
}
