//! Functions that give several rows, by name.

use diligence_base::{Error, Result};

use super::Binder;
use super::scope::Level;

/// The function that gives the channels to which the session listens.
pub(crate) const LISTENING: &str = "pg_listening_channels";

/// Functions that give a row per element of the array that the catalog's function of that name gives.
pub(super) const ROW_FUNCTIONS: [&str; 26] = [
    "generate_series",
    "generate_subscripts",
    "json_array_elements",
    "json_array_elements_text",
    "json_each",
    "json_each_text",
    "json_object_keys",
    "json_tree",
    "jsonb_array_elements",
    "jsonb_array_elements_text",
    "jsonb_each",
    "jsonb_each_text",
    "jsonb_object_keys",
    "jsonb_path_query",
    "jsonb_path_query_tz",
    "pg_expandarray",
    "_pg_expandarray",
    LISTENING,
    "pg_timezone_names",
    "regexp_matches",
    "regexp_split_to_table",
    "string_to_table",
    "ts_debug",
    "ts_parse",
    "ts_token_type",
    "unnest",
];

impl Binder<'_> {
    /// What `bind` gives. Fails with 0A000 if it calls functions that give rows: of CASE and COALESCE, which compute
    /// only some of their values, nobody could say how many rows there are.
    pub(super) fn without_rows<T>(&self, what: &str, level: &Level<'_>, bind: impl FnOnce() -> Result<T>) -> Result<T> {
        let count = || level.row_functions.borrow().iter().map(Vec::len).sum::<usize>();
        let before = count();
        let bound = bind()?;
        if count() == before {
            return Ok(bound);
        }
        let error = Error::input(format!("set-returning functions are not allowed in {what}")).with_code("0A000");
        Err(error.with_hint("put it into FROM, with LATERAL if it reads columns"))
    }
}
