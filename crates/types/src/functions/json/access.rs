//! Parts of JSON values: PostgreSQL's operators and `json_extract_path`, DuckDB's `json_extract` with its paths.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StringViewArray};
use datafusion_expr::ColumnarValue;
use diligence_base::{Error, Result};

use super::super::catalog::Catalog;
use super::super::columns::{Columns, List, Read, Strided, kernel};
use super::super::errors::invalid_argument;
use super::super::{Body, Call};
use crate::SqlType;
use crate::text::json::{self, JsonKind, JsonPart};

/// Declares the functions.
pub(super) fn declare(catalog: &mut Catalog) {
    catalog.add_all(
        &["->(json, text) -> json", "->(jsonb, text) -> jsonb"],
        kernel!(|json: &str, key: &str| JsonPart::new(json).member(key).map(JsonPart::text)),
    );
    catalog.add(
        "->(json, integer) -> json",
        kernel!(|json: &str, place: i32| JsonPart::new(json).element(place.into()).map(JsonPart::text)),
    );
    catalog.add(
        "->(jsonb, integer) -> jsonb",
        kernel!(|json: &str, place: i32| binary_element(json, place).map(JsonPart::text)),
    );
    catalog.add_all(
        &["->>(json, text) -> text", "->>(jsonb, text) -> text"],
        kernel!(try |json: &str, key: &str| shown(JsonPart::new(json).member(key))),
    );
    catalog.add(
        "->>(json, integer) -> text",
        kernel!(try |json: &str, place: i32| shown(JsonPart::new(json).element(place.into()))),
    );
    catalog
        .add("->>(jsonb, integer) -> text", kernel!(try |json: &str, place: i32| shown(binary_element(json, place))));
    for signature in ["#>(json, text[]) -> json", "#>(jsonb, text[]) -> jsonb"] {
        catalog.add(signature, kernel!(|json: &str, path: Steps| followed(json, &path).map(JsonPart::text)));
    }
    for signature in ["#>>(json, text[]) -> text", "#>>(jsonb, text[]) -> text"] {
        catalog.add(signature, kernel!(try |json: &str, path: Steps| shown(followed(json, &path))));
    }
    for signature in
        ["json_extract_path(json, variadic text) -> json", "jsonb_extract_path(jsonb, variadic text) -> jsonb"]
    {
        catalog.add(signature, Body::Kernel(extract_path));
    }
    for signature in
        ["json_extract_path_text(json, variadic text) -> text", "jsonb_extract_path_text(jsonb, variadic text) -> text"]
    {
        catalog.add(signature, Body::Kernel(extract_path_text));
    }
    duckdb(catalog);
}

/// An element of a `jsonb` array; a scalar counts as an array of itself, as it does in PostgreSQL.
fn binary_element(json: &str, place: i32) -> Option<JsonPart<'_>> {
    let part = JsonPart::new(json);
    match part.kind() {
        JsonKind::Array | JsonKind::Object => part.element(place.into()),
        _ => matches!(place, 0 | -1).then_some(part),
    }
}

/// What DuckDB has: paths such as `$.a[0].b`, `/a/0/b` and `a`, of JSON and of texts that are JSON.
fn duckdb(catalog: &mut Catalog) {
    for signature in [
        "json_extract(text, text) -> json",
        "json_extract(json, text) -> json",
        "json_extract(jsonb, text) -> json",
        "duckdb ->(text, text) -> json",
    ] {
        catalog.add(signature, Body::Kernel(extracted)).gives(|_, literals| Ok(each(literals, SqlType::Json)));
    }
    for signature in [
        "json_extract_string(text, text) -> text",
        "json_extract_string(json, text) -> text",
        "json_extract_string(jsonb, text) -> text",
        "duckdb json_extract_path_text(text, text) -> text",
        "duckdb ->>(text, text) -> text",
    ] {
        catalog.add(signature, Body::Kernel(extracted_text)).gives(|_, literals| Ok(each(literals, SqlType::Text)));
    }
    let by_place = kernel!(try |json: &str, place: i32| {
        json::check(json)?;
        Ok(JsonPart::new(json).element(place.into()).map(JsonPart::text))
    });
    catalog.add_all(&["json_extract(text, integer) -> json", "json_extract(json, integer) -> json"], by_place.clone());
    catalog.add("duckdb ->(text, integer) -> json", by_place);
    let text_by_place = kernel!(try |json: &str, place: i32| {
        json::check(json)?;
        shown(JsonPart::new(json).element(place.into()))
    });
    catalog.add("json_extract_string(json, integer) -> text", text_by_place.clone());
    catalog.add("duckdb ->>(text, integer) -> text", text_by_place);
    let exists = kernel!(try |json: &str, path: &str| {
        json::check(json)?;
        Ok(!found(JsonPart::new(json), &Path::read(path)?).is_empty())
    });
    catalog.add_all(&["json_exists(text, text) -> boolean", "json_exists(json, text) -> boolean"], exists);
    let kind = kernel!(try |json: &str| {
        json::check(json)?;
        Ok(duckdb_kind(JsonPart::new(json)))
    });
    catalog.add_all(&["json_type(text) -> text", "json_type(json) -> text"], kind);
    let kind = kernel!(try |json: &str, path: &str| {
        json::check(json)?;
        Ok(found(JsonPart::new(json), &Path::read(path)?).first().map(|part| duckdb_kind(*part)))
    });
    catalog.add_all(&["json_type(text, text) -> text", "json_type(json, text) -> text"], kind);
    let length = kernel!(try |json: &str, path: &str| {
        json::check(json)?;
        let found = found(JsonPart::new(json), &Path::read(path)?);
        Ok(found.first().map(|part| part.elements().count() as i64))
    });
    catalog.add_all(
        &["duckdb json_array_length(text, text) -> bigint", "duckdb json_array_length(json, text) -> bigint"],
        length,
    );
    catalog.add("json_valid(text) -> boolean", kernel!(|text: &str| json::check(text).is_ok()));
    catalog.add("json_valid(json) -> boolean", kernel!(|_json: &str| true));
}

/// One value, or a list of them if the path has a `*`.
fn each(literals: &[Option<String>], one: SqlType) -> SqlType {
    let path = literals.get(1).and_then(Option::as_deref);
    match path.is_some_and(|path| path.starts_with(['$', '/']) && path.contains('*')) {
        true => SqlType::array_of(one),
        false => one,
    }
}

fn shown(part: Option<JsonPart<'_>>) -> Result<Option<Cow<'_, str>>> {
    match part {
        Some(part) => part.shown(),
        None => Ok(None),
    }
}

/// The steps of a path that is an array of texts; `None` for a NULL among them.
pub(in super::super) struct Steps(pub Vec<Option<String>>);

impl<'a> Read<'a> for Steps {
    type Column = &'a ListArray;

    fn column(array: &'a ArrayRef) -> Option<Self::Column> {
        array.as_list_opt::<i32>()
    }

    fn at(column: &Self::Column, row: usize) -> Option<Self> {
        if column.is_null(row) {
            return None;
        }
        let steps = column.value(row);
        let steps = steps.as_string_view_opt()?;
        Some(Self(steps.iter().map(|step| step.map(str::to_owned)).collect()))
    }
}

fn followed<'a>(json: &'a str, path: &Steps) -> Option<JsonPart<'a>> {
    path.0.iter().try_fold(JsonPart::new(json), |part, step| part.step(step.as_deref()?))
}

/// The part that a path of several arguments leads to.
fn by_arguments<'a>(
    columns: &'a Columns<'_>,
    call: &Call<'_>,
) -> Result<impl Iterator<Item = Option<JsonPart<'a>>> + use<'a>> {
    let texts: Vec<Strided<_>> = columns
        .arrays()
        .iter()
        .take(call.arguments.len())
        .map(|array| {
            let texts = array.as_string_view_opt();
            let texts = texts.ok_or_else(|| Error::bug("a step of a path that is no text"))?;
            Ok(Strided::new(texts, usize::from(texts.len() != 1)))
        })
        .collect::<Result<_>>()?;
    Ok((0..columns.rows()).map(move |row| {
        let mut values = texts.iter().map(|texts| {
            let row = row * texts.step();
            texts.column().is_valid(row).then(|| texts.column().value(row))
        });
        let json = values.next().flatten()?;
        values.try_fold(JsonPart::new(json), |part, step| part.step(step?))
    }))
}

fn extract_path(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let texts = by_arguments(&columns, call)?.map(|part| part.map(JsonPart::text));
    columns.result(Arc::new(texts.collect::<StringViewArray>()))
}

fn extract_path_text(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let texts = by_arguments(&columns, call)?.map(shown).collect::<Result<StringViewArray>>()?;
    columns.result(Arc::new(texts))
}

/// A step of DuckDB's paths.
enum ExtractStep {
    Member(String),
    Element(i64),
    Members,
    Elements,
}

/// One of DuckDB's paths.
pub(super) struct Path(Vec<ExtractStep>);

impl Path {
    /// Reads `$.a[0]."b c"[*]`, `/a/0`, or the name of a member. Fails with 22023.
    pub(super) fn read(text: &str) -> Result<Self> {
        let invalid = || invalid_argument(format!("invalid path of JSON: '{text}'"));
        if let Some(pointer) = text.strip_prefix('/') {
            let step = |step: &str| match step {
                "*" => ExtractStep::Members,
                step => ExtractStep::Member(step.replace("~1", "/").replace("~0", "~")),
            };
            return Ok(Self(pointer.split('/').map(step).collect()));
        }
        let Some(mut rest) = text.strip_prefix('$') else {
            return Ok(Self(vec![ExtractStep::Member(text.to_owned())]));
        };
        let mut steps = Vec::new();
        while !rest.is_empty() {
            if let Some(behind) = rest.strip_prefix('.') {
                let (name, behind) = match behind.strip_prefix('"') {
                    Some(quoted) => {
                        let (name, behind) = quoted.split_once('"').ok_or_else(invalid)?;
                        (ExtractStep::Member(name.to_owned()), behind)
                    }
                    None => {
                        let (name, behind) = behind.split_at(behind.find(['.', '[']).unwrap_or(behind.len()));
                        match name {
                            "" => return Err(invalid()),
                            "*" => (ExtractStep::Members, behind),
                            name => (ExtractStep::Member(name.to_owned()), behind),
                        }
                    }
                };
                steps.push(name);
                rest = behind;
            } else if let Some(behind) = rest.strip_prefix('[') {
                let (place, behind) = behind.split_once(']').ok_or_else(invalid)?;
                steps.push(match place.trim() {
                    "*" => ExtractStep::Elements,
                    place => match place.strip_prefix("#-") {
                        Some(back) => ExtractStep::Element(-back.parse::<u32>().map(i64::from).map_err(|_| invalid())?),
                        None => ExtractStep::Element(place.parse().map_err(|_| invalid())?),
                    },
                });
                rest = behind;
            } else {
                return Err(invalid());
            }
        }
        Ok(Self(steps))
    }
}

/// All parts that a path leads to.
pub(super) fn found<'a>(json: JsonPart<'a>, path: &Path) -> Vec<JsonPart<'a>> {
    let mut parts = vec![json];
    for step in &path.0 {
        parts = parts
            .into_iter()
            .flat_map(|part| match step {
                ExtractStep::Member(name) => part.step(name).into_iter().collect(),
                ExtractStep::Element(place) => part.element(*place).into_iter().collect(),
                ExtractStep::Members => part.members().map(|(_, value)| value).collect(),
                ExtractStep::Elements => part.elements().collect::<Vec<_>>(),
            })
            .collect();
    }
    parts
}

fn extracted(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let parts = |json: &str, path: &str| -> Result<Vec<String>> {
        json::check(json)?;
        Ok(found(JsonPart::new(json), &Path::read(path)?).iter().map(|part| part.text().to_owned()).collect())
    };
    let columns = Columns::new(arguments, call);
    match call.returns {
        SqlType::Array(_) => columns.map(|(json, path): (&str, &str)| Ok(List(parts(json, path)?))),
        _ => columns.map(|(json, path): (&str, &str)| Ok(parts(json, path)?.into_iter().next())),
    }
}

fn extracted_text(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let parts = |json: &str, path: &str| -> Result<Vec<Option<String>>> {
        json::check(json)?;
        let found = found(JsonPart::new(json), &Path::read(path)?);
        found.into_iter().map(|part| Ok(part.shown()?.map(Cow::into_owned))).collect()
    };
    let columns = Columns::new(arguments, call);
    match call.returns {
        SqlType::Array(_) => columns.map(|(json, path): (&str, &str)| Ok(List(parts(json, path)?))),
        _ => columns.map(|(json, path): (&str, &str)| Ok(parts(json, path)?.into_iter().next().flatten())),
    }
}

/// DuckDB's name of a kind.
pub(super) fn duckdb_kind(part: JsonPart<'_>) -> &'static str {
    match part.kind() {
        JsonKind::Null => "NULL",
        JsonKind::Boolean => "BOOLEAN",
        JsonKind::Text => "VARCHAR",
        JsonKind::Array => "ARRAY",
        JsonKind::Object => "OBJECT",
        JsonKind::Number if part.text().contains(['.', 'e', 'E']) => "DOUBLE",
        JsonKind::Number if part.text().starts_with('-') => "BIGINT",
        JsonKind::Number => "UBIGINT",
    }
}
