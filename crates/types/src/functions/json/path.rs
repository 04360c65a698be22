//! Functions of SQL/JSON paths (manual, section 9.16).

use diligence_base::Result;

use super::super::catalog::Catalog;
use super::super::columns::{List, kernel};
use super::super::errors::value_error;
use crate::text::json::{Json, JsonPath, parse, read_path, write};

/// The path that was read last.
#[derive(Default)]
struct Paths(Option<(String, JsonPath)>);

impl Paths {
    fn follow(&mut self, json: &str, path: &str) -> Result<Vec<Json>> {
        let known = self.0.as_ref().is_some_and(|(text, _)| text == path);
        if !known {
            self.0 = Some((path.to_owned(), read_path(path)?));
        }
        let root = parse(json)?;
        Ok(self.0.as_ref().map(|(_, path)| path.follow(&root)).unwrap_or_default())
    }
}

fn text_of(json: &Json) -> String {
    let mut out = String::new();
    write(&mut out, json);
    out
}

/// Declares the functions.
pub(super) fn declare(catalog: &mut Catalog) {
    catalog.add(
        "jsonb_path_query(jsonb, text) -> jsonb[]",
        kernel!(with paths: Paths; |json: &str, path: &str| {
            Ok(List(paths.follow(json, path)?.iter().map(text_of).collect()))
        }),
    );
    catalog.add(
        "jsonb_path_query_array(jsonb, text) -> jsonb",
        kernel!(with paths: Paths; |json: &str, path: &str| Ok(text_of(&Json::Array(paths.follow(json, path)?)))),
    );
    catalog.add(
        "jsonb_path_query_first(jsonb, text) -> jsonb",
        kernel!(with paths: Paths; |json: &str, path: &str| Ok(paths.follow(json, path)?.first().map(text_of))),
    );
    for signature in ["jsonb_path_exists(jsonb, text) -> boolean", "@?(jsonb, text) -> boolean"] {
        catalog.add(
            signature,
            kernel!(with paths: Paths; |json: &str, path: &str| Ok(!paths.follow(json, path)?.is_empty())),
        );
    }
    catalog.add(
        "jsonb_path_match(jsonb, text) -> boolean",
        kernel!(with paths: Paths; |json: &str, path: &str| match paths.follow(json, path)?.as_slice() {
            [Json::Boolean(value)] => Ok(Some(*value)),
            [Json::Null] => Ok(None),
            _ => Err(value_error("single boolean result is expected", "22038")),
        }),
    );
    catalog.add(
        "@@(jsonb, text) -> boolean",
        kernel!(with paths: Paths; |json: &str, path: &str| match paths.follow(json, path)?.as_slice() {
            [Json::Boolean(value)] => Ok(Some(*value)),
            _ => Ok(None),
        }),
    );
}
