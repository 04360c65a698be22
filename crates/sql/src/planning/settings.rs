//! Settings of a session's statements, and SET. Their values are kept as DataFusion's options, with which its functions
//! and the writers of files are called.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use datafusion_common::config::ConfigOptions;
use diligence_base::limits::PARQUET_ROW_GROUP_ROWS;
use diligence_base::{Error, Result};
use diligence_types::search::Configuration;
use diligence_types::text::{Styles, Zone};
use sqlparser::ast;

use super::path::{DEFAULT_PATH, SEARCH_PATH, SearchPath};
use super::{Planner, SessionParts};
use crate::default_order::{NullsOrder, is_descending};
use crate::kept_order::KeptOrder;
use crate::statement::Statement;

/// The setting for the session's time zone.
const TIME_ZONE: &str = "timezone";

/// The setting for how dates are read and written.
const DATE_STYLE: &str = "datestyle";

/// The setting for how intervals are.
const INTERVAL_STYLE: &str = "intervalstyle";
/// How bytes are written.
const BYTES_STYLE: &str = "bytea_output";

/// The setting for access by an index, which PostgreSQL has under this name.
const INDEX_SCAN: &str = "enable_indexscan";

/// The setting for the order of rows that a statement says no order for.
const PRESERVE_ORDER: &str = "preserve_order";

/// DuckDB's settings for the order that ORDER BY does not say.
const DEFAULT_DIRECTION: &str = "default_order";
const DEFAULT_NULLS: &str = "default_null_order";

/// The setting for the configuration of text search.
const SEARCH_CONFIGURATION: &str = "default_text_search_config";

/// Its value in a session that has changed nothing.
const DEFAULT_CONFIGURATION: &str = "pg_catalog.english";

/// The settings: their names, the names that DataFusion's options have for them, and what they do.
const SETTINGS: [(&str, &str, &str); 7] = [
    ("csv_header", "datafusion.catalog.has_header", "Whether COPY writes a line of names into CSV files"),
    (
        "file_rows",
        "datafusion.execution.soft_max_rows_per_output_file",
        "Rows after which COPY into a folder begins another file",
    ),
    (
        "keep_partition_columns",
        "datafusion.execution.keep_partition_by_columns",
        "Whether COPY leaves the columns of PARTITIONED BY in the files, too",
    ),
    (
        "parquet_compression",
        "datafusion.execution.parquet.compression",
        "How pages of Parquet are packed: uncompressed, snappy, lz4_raw, gzip(LEVEL), brotli(LEVEL), zstd(LEVEL)",
    ),
    ("parquet_row_group_rows", "datafusion.execution.parquet.max_row_group_size", "Rows of a row group at most"),
    (
        "parquet_statistics",
        "datafusion.execution.parquet.statistics_enabled",
        "Which statistics Parquet files get: none, chunk or page",
    ),
    ("timezone", "datafusion.execution.time_zone", "The zone in which timestamps with a time zone are read and shown"),
];

/// The options of a session that has changed none.
pub(super) fn built_in() -> ConfigOptions {
    let mut options = ConfigOptions::default();
    options.execution.time_zone = Some("UTC".to_owned());
    // As most writers of Parquet do: Zstandard was a third of the CPU time of sorting a file into a file. Row groups
    // are what scans share out among packets, and what a writer holds in memory.
    let parquet = &mut options.execution.parquet;
    parquet.compression = Some("snappy".to_owned());
    parquet.max_row_group_size = PARQUET_ROW_GROUP_ROWS;
    options
}

/// The configuration of text search of a session that has changed nothing.
pub(super) fn search_configuration() -> Configuration {
    Configuration::of_name(DEFAULT_CONFIGURATION).expect("there is a configuration for English")
}

/// A setting of a session's statements.
#[derive(Clone, Debug)]
pub struct PlannerOption {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// The value that RESET gives it.
    pub default: String,
    /// What it does.
    pub description: &'static str,
}

impl Planner {
    /// The settings with their values.
    pub fn settings(&self) -> Vec<PlannerOption> {
        static BUILT_IN: LazyLock<HashMap<String, String>> = LazyLock::new(|| values_of(&built_in()));
        let session = self.session();
        let values = values_of(&session.options);
        let value_in = |values: &HashMap<String, String>, key: &str| values.get(key).cloned().unwrap_or_default();
        let settings = SETTINGS.iter().map(|(name, key, description)| PlannerOption {
            name,
            value: value_in(&values, key),
            default: value_in(&BUILT_IN, key),
            description,
        });
        let path = PlannerOption {
            name: SEARCH_PATH,
            value: session.path.text.clone(),
            default: DEFAULT_PATH.to_owned(),
            description: "The schemas in which names without one are looked up, in order; the first one takes what is made",
        };
        let index_scan = PlannerOption {
            name: INDEX_SCAN,
            value: if session.uses_index { "on" } else { "off" }.to_owned(),
            default: "on".to_owned(),
            description: "Whether a scan may find rows by an index, where that is cheaper: on or off",
        };
        let order = PlannerOption {
            name: PRESERVE_ORDER,
            value: session.kept_order.name().to_owned(),
            default: KeptOrder::default().name().to_owned(),
            description: "Whether rows of one table come in its order where a statement asks for none: on, off, or auto, for \
                          files where it costs little",
        };
        let direction = PlannerOption {
            name: DEFAULT_DIRECTION,
            value: if session.default_order.descending { "desc" } else { "asc" }.to_owned(),
            default: "asc".to_owned(),
            description: "The direction of ORDER BY where a statement does not say it: asc or desc",
        };
        let nulls = PlannerOption {
            name: DEFAULT_NULLS,
            value: session.default_order.nulls.name().to_owned(),
            default: NullsOrder::default().name().to_owned(),
            description: "Where ORDER BY puts NULLs if a statement does not say it: nulls_first, nulls_last, \
                          nulls_first_on_asc_last_on_desc or nulls_last_on_asc_first_on_desc",
        };
        let configuration = PlannerOption {
            name: SEARCH_CONFIGURATION,
            value: format!("pg_catalog.{}", session.search_configuration.name()),
            default: DEFAULT_CONFIGURATION.to_owned(),
            description: "How texts become lexemes where text search is not told: simple, english or another language",
        };
        let dates = PlannerOption {
            name: DATE_STYLE,
            value: session.styles.shown_dates(),
            default: Styles::default().shown_dates(),
            description: "How dates are written, ISO, SQL, Postgres or German, and what comes first: MDY, DMY or YMD",
        };
        let intervals = PlannerOption {
            name: INTERVAL_STYLE,
            value: session.styles.shown_intervals().to_owned(),
            default: Styles::default().shown_intervals().to_owned(),
            description: "How intervals are written: postgres, postgres_verbose, sql_standard or iso_8601",
        };
        let bytes = PlannerOption {
            name: BYTES_STYLE,
            value: session.styles.shown_bytes().to_owned(),
            default: Styles::default().shown_bytes().to_owned(),
            description: "How bytes are written: hex, or escape, with the characters of ASCII as they are",
        };
        let orders = [order, direction, nulls];
        settings.chain([path, index_scan]).chain(orders).chain([configuration, dates, intervals, bytes]).collect()
    }

    /// Temporary objects come first from now on.
    pub(super) fn use_temporary(&self) {
        let mut session = self.session.write();
        if !session.path.has_temporary() {
            *session = session.changed(|parts| parts.path = parts.path.with_temporary(true));
        }
    }

    /// The time zone in which timestamps with a time zone are read and shown.
    pub fn time_zone(&self) -> Zone {
        Zone::of_setting(&self.zone_setting()).unwrap_or(Zone::UTC)
    }

    /// Its name, with how dates are read and written, as [`Zone::of_setting`] takes it.
    pub fn zone_setting(&self) -> String {
        self.session().zone()
    }

    /// Changes a setting, for statements planned from now on. Fails with kind `Input` if there is none of the name, or
    /// it cannot have the value.
    pub fn set_setting(&self, name: &str, given: &str) -> Result<()> {
        if name == SEARCH_PATH {
            let mut session = self.session.write();
            let path = SearchPath::of(given)?.with_temporary(session.path.has_temporary());
            *session = session.changed(|parts| parts.path = path);
            return Ok(());
        }
        if name == INDEX_SCAN {
            let uses_index = truth(given).ok_or_else(|| {
                let error = Error::input(format!("parameter \"{name}\" requires a Boolean value"));
                error.with_code("22023").with_hint("give it on or off")
            })?;
            let mut session = self.session.write();
            *session = session.changed(|parts| parts.uses_index = uses_index);
            return Ok(());
        }
        if name == PRESERVE_ORDER {
            let kept_order = KeptOrder::of_setting(given, truth(given)).ok_or_else(|| {
                let error = Error::input(format!("invalid value for parameter \"{name}\": \"{given}\""));
                error.with_code("22023").with_hint("give it on, off or auto")
            })?;
            let mut session = self.session.write();
            *session = session.changed(|parts| parts.kept_order = kept_order);
            return Ok(());
        }
        if [DEFAULT_DIRECTION, DEFAULT_NULLS].contains(&name) {
            let mut session = self.session.write();
            let mut order = session.default_order;
            let is_known = match name {
                DEFAULT_NULLS => NullsOrder::of_setting(given).map(|nulls| order.nulls = nulls),
                _ => is_descending(given).map(|descending| order.descending = descending),
            };
            if is_known.is_none() {
                let error = Error::input(format!("invalid value for parameter \"{name}\": \"{given}\""));
                return Err(error.with_code("22023"));
            }
            *session = session.changed(|parts| parts.default_order = order);
            return Ok(());
        }
        if [DATE_STYLE, INTERVAL_STYLE, BYTES_STYLE].contains(&name) {
            let mut session = self.session.write();
            let styles = match name {
                DATE_STYLE => session.styles.with_dates(given)?,
                INTERVAL_STYLE => session.styles.with_intervals(given)?,
                _ => session.styles.with_bytes(given)?,
            };
            *session = session.changed(|parts| parts.styles = styles);
            return Ok(());
        }
        if name == SEARCH_CONFIGURATION {
            let configuration = Configuration::of_name(given).map_err(|error| {
                let message = format!("invalid value for parameter \"{name}\": \"{given}\"");
                Error::input(message).with_code("22023").with_hint(error.message().to_owned())
            })?;
            let mut session = self.session.write();
            *session = session.changed(|parts| parts.search_configuration = configuration);
            return Ok(());
        }
        let Some((_, key, _)) = SETTINGS.iter().find(|(known, _, _)| *known == name) else {
            return Err(Error::input(format!("no setting is named '{name}'")));
        };
        let mut session = self.session.write();
        let mut options = ConfigOptions::clone(&session.options);
        let wrong = |_| Error::input(format!("the setting '{name}' cannot be '{given}'")).with_code("22023");
        let value = if name == TIME_ZONE { Zone::name_of_setting(given)? } else { given.to_owned() };
        options.set(key, &value).map_err(wrong)?;
        *session = session.changed(|parts| parts.options = Arc::new(options));
        Ok(())
    }

    /// Gives a setting its default back. Fails with kind `Input` if there is none of the name.
    pub fn reset_setting(&self, name: &str) -> Result<()> {
        let setting = self.settings().into_iter().find(|setting| setting.name == name);
        self.set_setting(name, &setting.map(|setting| setting.default).unwrap_or_default())
    }
}

impl SessionParts {
    /// The time zone's name, with how dates are read and written, as [`Zone::of_setting`] takes it.
    pub(super) fn zone(&self) -> String {
        let zone = self.options.execution.time_zone.as_deref().filter(|zone| !zone.is_empty());
        Zone::setting_with(zone.unwrap_or("UTC"), &self.styles)
    }
}

/// A truth value as PostgreSQL reads one, by any beginning that says which.
fn truth(given: &str) -> Option<bool> {
    let given = given.trim().to_lowercase();
    let is_one_of =
        |words: &[&str], least: usize| given.len() >= least && words.iter().any(|word| word.starts_with(&given));
    match given.as_str() {
        "1" => Some(true),
        "0" => Some(false),
        _ if is_one_of(&["on"], 2) || is_one_of(&["true", "yes"], 1) => Some(true),
        _ if is_one_of(&["off"], 2) || is_one_of(&["false", "no"], 1) => Some(false),
        _ => None,
    }
}

/// The values of options by their keys. To list them takes longer than a short statement does.
fn values_of(options: &ConfigOptions) -> HashMap<String, String> {
    options.entries().into_iter().filter_map(|entry| Some((entry.key, entry.value?))).collect()
}

pub(super) fn setting_name(name: &ast::ObjectName) -> String {
    name.to_string().replace('"', "").to_lowercase()
}

pub(super) fn set_statement(set: ast::Set) -> Result<Statement> {
    let (name, values, is_local) = match set {
        ast::Set::SingleAssignment { variable, values, scope, .. } => {
            (setting_name(&variable), values, scope == Some(ast::ContextModifier::Local))
        }
        ast::Set::SetTimeZone { value, local } => (TIME_ZONE.to_owned(), vec![value], local),
        other => {
            return Err(Error::unsupported(format!("{other} is not supported")).with_hint("write SET name = value"));
        }
    };
    let name = if name == "time.zone" { TIME_ZONE.to_owned() } else { name };
    if (name == SEARCH_PATH || name == DATE_STYLE) && values.len() != 1 {
        let value = values.iter().map(word_of).collect::<Vec<_>>().join(", ");
        return Ok(Statement::Set { name, value, is_local });
    }
    let [value] = values.as_slice() else {
        return Err(Error::input(format!("expected one value for '{name}', found {}", values.len())));
    };
    let value = if name == SEARCH_PATH { word_of(value) } else { plain(value) };
    let is_local_zone = name == TIME_ZONE && value.eq_ignore_ascii_case("local");
    if is_local_zone || value.eq_ignore_ascii_case("default") {
        return Ok(Statement::Reset { name: Some(name), is_local });
    }
    Ok(Statement::Set { name, value, is_local })
}

/// A value as it is written, without quotes.
fn plain(value: &ast::Expr) -> String {
    match value {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::SingleQuotedString(text) | ast::Value::DoubleQuotedString(text) => text.clone(),
            other => other.to_string(),
        },
        ast::Expr::Identifier(word) => word.value.clone(),
        other => other.to_string(),
    }
}

/// A schema in a list: names with capitals stay in quotes.
fn word_of(value: &ast::Expr) -> String {
    match value {
        ast::Expr::Identifier(word) if word.quote_style.is_some() => format!("\"{}\"", word.value),
        other => plain(other),
    }
}
