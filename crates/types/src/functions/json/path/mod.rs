//! Functions of SQL/JSON paths (manual, sections 9.16.1 and 9.16.2).
//!
//! * [`read`]: a path's text as a tree.
//! * [`follow`]: the values to which a tree leads.
//! * [`moments`]: dates and times within a path.
//! * [`show`]: the text of a tree.

mod follow;
mod moments;
mod read;
mod show;

use diligence_base::{Error, Result};

use self::follow::{Found, follow};
use self::read::{Path, read_path};
use super::super::catalog::Catalog;
use super::super::columns::{List, kernel};
use super::super::errors::{invalid_argument, value_error};
use super::super::zones::Zones;
use crate::text::Zone;
use crate::text::json::{Json, parse, write};

/// The path that was read last, and the zone of moments that have none.
#[derive(Default)]
struct Paths {
    last: Option<(String, Path)>,
    zones: Zones,
    zone: Option<Zone>,
}

impl Paths {
    /// From now on moments without a zone are in the session's. Fails with 22023 if there is no such zone.
    fn in_zone(&mut self, name: &str) -> Result<()> {
        self.zone = Some(self.zones.session(name)?);
        Ok(())
    }

    /// The values to which a path leads. Fails with 42601 if it is none, and with 42704 for a variable that is not
    /// there: no silence hides these.
    fn follow(&mut self, json: &str, path: &str, variables: Option<&str>) -> Result<Found> {
        let known = self.last.as_ref().is_some_and(|(text, _)| text == path);
        if !known {
            self.last = Some((path.to_owned(), read_path(path)?));
        }
        let variables = match variables.map(parse).transpose()? {
            None => vec![],
            Some(Json::Object(variables)) => variables,
            Some(_) => {
                let hint = "Jsonpath parameters should be encoded as key-value pairs of \"vars\" object.";
                return Err(invalid_argument("\"vars\" argument is not an object").with_hint(hint));
            }
        };
        let root = parse(json)?;
        let (_, path) = self.last.as_ref().ok_or_else(|| Error::bug("a path was read"))?;
        follow(path, &root, &variables, self.zone)
    }
}

/// A path's text as PostgreSQL shows it. Fails with 42601 if it is no path, and with 2201B for a regular expression
/// that is none.
pub fn path_text(path: &str) -> Result<String> {
    read_path(path).map(|path| show::shown(&path))
}

fn text_of(json: &Json) -> String {
    let mut out = String::new();
    write(&mut out, json);
    out
}

fn listed(values: &[Json]) -> List<String> {
    List(values.iter().map(text_of).collect())
}

/// The truth of a predicate's value. Fails with 22038 if there is none, unless errors are silent.
fn truth(values: &[Json], is_silent: bool) -> Result<Option<bool>> {
    match values {
        [Json::Boolean(value)] => Ok(Some(*value)),
        [Json::Null] => Ok(None),
        _ if is_silent => Ok(None),
        _ => Err(value_error("single boolean result is expected", "22038")),
    }
}

/// A function of a value and a path, with variables, and with whether errors are silent.
macro_rules! of_path {
    ($catalog:ident, $name:literal, $returns:literal, |$found:ident, $is_silent:ident| $result:expr) => {
        $catalog.add(
            concat!($name, "(jsonb, text) -> ", $returns),
            kernel!(with paths: Paths; |json: &str, path: &str| {
                let ($found, $is_silent) = (paths.follow(json, path, None)?, false);
                $result
            }),
        );
        $catalog.add(
            concat!($name, "(jsonb, text, jsonb) -> ", $returns),
            kernel!(with paths: Paths; |json: &str, path: &str, variables: &str| {
                let ($found, $is_silent) = (paths.follow(json, path, Some(variables))?, false);
                $result
            }),
        );
        $catalog.add(
            concat!($name, "(jsonb, text, jsonb, boolean) -> ", $returns),
            kernel!(with paths: Paths; |json: &str, path: &str, variables: &str, is_silent: bool| {
                let ($found, $is_silent) = (paths.follow(json, path, Some(variables))?, is_silent);
                $result
            }),
        );
        // The same with the session's zone.
        $catalog
            .add(
                concat!($name, "_tz(jsonb, text) -> ", $returns),
                kernel!(with paths: Paths; |json: &str, path: &str, zone: &str| {
                    paths.in_zone(zone)?;
                    let ($found, $is_silent) = (paths.follow(json, path, None)?, false);
                    $result
                }),
            )
            .zoned();
        $catalog
            .add(
                concat!($name, "_tz(jsonb, text, jsonb) -> ", $returns),
                kernel!(with paths: Paths; |json: &str, path: &str, variables: &str, zone: &str| {
                    paths.in_zone(zone)?;
                    let ($found, $is_silent) = (paths.follow(json, path, Some(variables))?, false);
                    $result
                }),
            )
            .zoned();
        $catalog
            .add(
                concat!($name, "_tz(jsonb, text, jsonb, boolean) -> ", $returns),
                kernel!(with paths: Paths; |json: &str, path: &str, variables: &str, is_silent: bool, zone: &str| {
                    paths.in_zone(zone)?;
                    let ($found, $is_silent) = (paths.follow(json, path, Some(variables))?, is_silent);
                    $result
                }),
            )
            .zoned();
    };
}

/// The errors of functions with clauses, in PostgreSQL's words.
fn failed(failure: &str) -> Error {
    match failure {
        "nothing" => value_error("no SQL/JSON item found for specified path", "22035"),
        "many items" => {
            let message = "JSON path expression in JSON_QUERY must return single item when no wrapper is requested";
            let hint = "Use the WITH WRAPPER clause to wrap SQL/JSON items into an array.";
            value_error(message, "22034").with_hint(hint)
        }
        "many values" => value_error("JSON path expression in JSON_VALUE must return single scalar item", "22034"),
        _ => value_error("JSON path expression in JSON_VALUE must return single scalar item", "2203F"),
    }
}

/// Declares the functions.
pub(super) fn declare(catalog: &mut Catalog) {
    of_path!(catalog, "jsonb_path_query", "jsonb[]", |found, is_silent| {
        found.values(is_silent).map(|values| Some(listed(&values)))
    });
    of_path!(catalog, "jsonb_path_query_array", "jsonb", |found, is_silent| {
        found.values(is_silent).map(|values| Some(text_of(&Json::Array(values))))
    });
    of_path!(catalog, "jsonb_path_query_first", "jsonb", |found, is_silent| {
        found.values(is_silent).map(|values| values.first().map(text_of))
    });
    of_path!(catalog, "jsonb_path_exists", "boolean", |found, is_silent| found.exists(is_silent));
    of_path!(catalog, "jsonb_path_match", "boolean", |found, is_silent| {
        found.values(is_silent).and_then(|values| truth(&values, is_silent))
    });
    catalog.add("jsonpath of text(text) -> text", kernel!(try |path: &str| path_text(path).map(Some)));
    // What the clauses ERROR ON EMPTY and ERROR ON ERROR say, under a condition.
    catalog.add(
        "json_failure(boolean, text) -> text",
        kernel!(try |fails: bool, failure: &str| if fails { Err(failed(failure)) } else { Ok(None::<String>) }),
    );
    // The operators are silent.
    catalog.add(
        "@?(jsonb, text) -> boolean",
        kernel!(with paths: Paths; |json: &str, path: &str| {
            paths.follow(json, path, None)?.exists(true)
        }),
    );
    catalog.add(
        "@@(jsonb, text) -> boolean",
        kernel!(with paths: Paths; |json: &str, path: &str| {
            paths.follow(json, path, None)?.values(true).and_then(|values| truth(&values, true))
        }),
    );
}
