//! DataFusion's options as a session's settings, and SET.

use std::collections::HashMap;

use datafusion_common::config::ConfigOptions;
use sqlparser::ast;
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_datafusion;

use super::{Planner, SessionParts};
use crate::statement::Statement;

/// Rows of a row group that is written.
const PARQUET_ROW_GROUP_ROWS: usize = 128 * 1024;

/// The options that have an effect, by the beginnings of their names.
const USED: [&str; 5] = [
    "datafusion.catalog.has_header",
    "datafusion.execution.keep_partition_by_columns",
    "datafusion.execution.parquet.",
    "datafusion.execution.soft_max_rows_per_output_file",
    "datafusion.execution.time_zone",
];

/// The options of a session that has changed none.
pub(super) fn built_in() -> ConfigOptions {
    let mut options = ConfigOptions::default();
    // As most writers of Parquet do: Zstandard was a third of the CPU time of sorting a file into a file. Row groups
    // are what scans share out among packets, and what a writer holds in memory.
    let parquet = &mut options.execution.parquet;
    parquet.compression = Some("snappy".to_owned());
    parquet.max_row_group_size = PARQUET_ROW_GROUP_ROWS;
    options
}

/// One of DataFusion's options.
#[derive(Clone, Debug)]
pub struct PlannerOption {
    /// Its name, `datafusion.…`.
    pub name: String,
    /// Its value, if it has one.
    pub value: Option<String>,
    /// The value that RESET gives it.
    pub default: Option<String>,
    /// What it does.
    pub description: &'static str,
}

impl Planner {
    /// DataFusion's options with their values.
    pub fn datafusion_options(&self) -> Vec<PlannerOption> {
        let session = self.session();
        let built_in = built_in();
        let defaults = built_in.entries().into_iter().map(|entry| (entry.key, entry.value)).collect::<HashMap<_, _>>();
        let is_used = |name: &str| USED.iter().any(|used| name.starts_with(used));
        let entries = session.options.entries().into_iter().filter(|entry| is_used(&entry.key));
        let options = entries.map(|entry| PlannerOption {
            default: defaults.get(&entry.key).cloned().flatten(),
            name: entry.key,
            value: entry.value,
            description: entry.description,
        });
        options.collect()
    }

    /// Changes one of DataFusion's options, for statements planned from now on.
    pub fn set_datafusion_option(&self, name: &str, value: &str) -> Result<()> {
        let mut session = self.session.write();
        let mut options = ConfigOptions::clone(&session.options);
        options.set(name, value).map_err(from_datafusion)?;
        *session = SessionParts::new(options);
        Ok(())
    }

    /// Gives one of DataFusion's options its default back.
    pub fn reset_datafusion_option(&self, name: &str) -> Result<()> {
        let default = self.datafusion_options().into_iter().find(|option| option.name == name);
        self.set_datafusion_option(name, &default.and_then(|option| option.default).unwrap_or_default())
    }
}

pub(super) fn setting_name(name: &ast::ObjectName) -> String {
    name.to_string().replace('"', "").to_lowercase()
}

pub(super) fn set_statement(set: ast::Set) -> Result<Statement> {
    let (name, values) = match set {
        ast::Set::SingleAssignment { variable, values, .. } => (setting_name(&variable), values),
        ast::Set::SetTimeZone { value, .. } => ("datafusion.execution.time_zone".to_owned(), vec![value]),
        other => {
            return Err(Error::unsupported(format!("{other} is not supported")).with_hint("write SET name = value"));
        }
    };
    let name = if name == "timezone" || name == "time.zone" { "datafusion.execution.time_zone".into() } else { name };
    let [value] = values.as_slice() else {
        return Err(Error::input(format!("expected one value for '{name}', found {}", values.len())));
    };
    let value = match value {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::SingleQuotedString(text) | ast::Value::DoubleQuotedString(text) => text.clone(),
            other => other.to_string(),
        },
        ast::Expr::Identifier(word) => word.value.clone(),
        other => other.to_string(),
    };
    if value.eq_ignore_ascii_case("default") {
        return Ok(Statement::Reset { name: Some(name) });
    }
    Ok(Statement::Set { name, value })
}
