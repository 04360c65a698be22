//! What DuckDB tells of JSON values: their structure, their parts as a tree of rows, and their text on several lines.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray, StringViewArray, StructArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::DataType;
use datafusion_expr::ColumnarValue;
use diligence_base::{Error, Result};

use super::super::catalog::Catalog;
use super::super::columns::{Columns, kernel, too_large};
use super::super::{Body, Call};
use super::access::{Path, duckdb_kind, found};
use crate::SqlType;
use crate::sql_type::RecordField;
use crate::text::json::{self, JsonKind, JsonPart, write_text};

/// Declares the functions.
pub(super) fn declare(catalog: &mut Catalog) {
    let structure = kernel!(try |json: &str| {
        json::check(json)?;
        let mut out = String::new();
        Structure::of(JsonPart::new(json))?.write(&mut out);
        Ok(out)
    });
    catalog.add_all(&["json_structure(text) -> json", "json_structure(json) -> json"], structure);
    let pretty = kernel!(try |json: &str| {
        json::check(json)?;
        let mut out = String::new();
        pretty(&mut out, JsonPart::new(json), 0);
        Ok(out)
    });
    catalog.add_all(&["json_pretty(text) -> text", "json_pretty(json) -> text"], pretty);
    for signature in ["json_tree(text, text?) -> text", "json_tree(json, text?) -> text"] {
        catalog.add(signature, Body::Kernel(tree)).gives(|_, _| Ok(SqlType::array_of(row_type())));
    }
    // PostgreSQL has json_each of `json` alone, with two columns.
    for signature in ["duckdb json_each(text, text?) -> text", "duckdb json_each(json, text) -> text"] {
        catalog.add(signature, Body::Kernel(each)).gives(|_, _| Ok(SqlType::array_of(row_type())));
    }
}

/// What values are alike. Objects and arrays nest as deep as their text, which is bounded.
#[derive(Clone, Debug, PartialEq)]
enum Structure {
    /// No value, or NULL: nothing is known.
    Null,
    Boolean,
    /// A whole number below zero.
    Negative,
    /// Another whole number.
    Whole,
    /// Whole numbers of both kinds.
    Huge,
    Double,
    Text,
    Array(Box<Structure>),
    Object(Vec<(String, Structure)>),
    /// Values of several kinds.
    Mixed,
}

impl Structure {
    fn of(part: JsonPart<'_>) -> Result<Self> {
        Ok(match part.kind() {
            JsonKind::Null => Self::Null,
            JsonKind::Boolean => Self::Boolean,
            JsonKind::Text => Self::Text,
            JsonKind::Number => {
                let text = part.text();
                match (text.parse::<u64>().is_ok(), text.parse::<i64>().is_ok()) {
                    (true, _) => Self::Whole,
                    (false, true) => Self::Negative,
                    (false, false) => Self::Double,
                }
            }
            JsonKind::Array => {
                let mut common = Self::Null;
                for element in part.elements() {
                    common = common.merged(Self::of(element)?);
                }
                Self::Array(Box::new(common))
            }
            JsonKind::Object => {
                let mut fields = Vec::new();
                for (key, value) in part.members() {
                    add_field(&mut fields, key.unquoted()?.into_owned(), Self::of(value)?);
                }
                Self::Object(fields)
            }
        })
    }

    /// What values of both are alike.
    fn merged(self, other: Self) -> Self {
        use Structure::{Array, Double, Huge, Mixed, Negative, Null, Object, Whole};
        match (self, other) {
            (Null, one) | (one, Null) => one,
            (Array(own), Array(other)) => Array(Box::new(own.merged(*other))),
            (Object(mut fields), Object(others)) => {
                for (name, value) in others {
                    add_field(&mut fields, name, value);
                }
                Object(fields)
            }
            (one, other) if one == other => one,
            (Double, Whole | Negative | Huge) | (Whole | Negative | Huge, Double) => Double,
            (Whole | Negative | Huge, Whole | Negative | Huge) => Huge,
            _ => Mixed,
        }
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Array(element) => {
                out.push('[');
                element.write(out);
                out.push(']');
            }
            Self::Object(fields) if !fields.is_empty() => {
                for (index, (name, value)) in fields.iter().enumerate() {
                    out.push(if index > 0 { ',' } else { '{' });
                    write_text(out, name);
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
            scalar => {
                out.push('"');
                out.push_str(scalar.name());
                out.push('"');
            }
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Null => "NULL",
            Self::Boolean => "BOOLEAN",
            Self::Negative => "BIGINT",
            Self::Whole => "UBIGINT",
            Self::Huge => "HUGEINT",
            Self::Double => "DOUBLE",
            Self::Text => "VARCHAR",
            Self::Array(_) | Self::Object(_) | Self::Mixed => "JSON",
        }
    }
}

fn add_field(fields: &mut Vec<(String, Structure)>, name: String, value: Structure) {
    match fields.iter_mut().find(|(known, _)| *known == name) {
        Some((_, known)) => *known = std::mem::replace(known, Structure::Null).merged(value),
        None => fields.push((name, value)),
    }
}

/// A value over several lines, as it is written; what is empty stays on one.
fn pretty(out: &mut String, part: JsonPart<'_>, level: usize) {
    let line = |out: &mut String, level: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("    ", level));
    };
    let (open, close) = match part.kind() {
        JsonKind::Object => ('{', '}'),
        JsonKind::Array => ('[', ']'),
        _ => return out.push_str(part.text()),
    };
    out.push(open);
    let mut count = 0;
    let begin = |out: &mut String, count: &mut usize| {
        out.push_str(if *count > 0 { "," } else { "" });
        line(out, level + 1);
        *count += 1;
    };
    for (key, value) in part.members() {
        begin(out, &mut count);
        out.push_str(key.text());
        out.push_str(": ");
        pretty(out, value, level + 1);
    }
    for element in part.elements() {
        begin(out, &mut count);
        pretty(out, element, level + 1);
    }
    if count > 0 {
        line(out, level);
    }
    out.push(close);
}

/// A row of [`tree`].
fn row_type() -> SqlType {
    let field = |(name, sql_type): (&str, SqlType)| RecordField { name: name.to_owned(), sql_type };
    let fields = [
        ("key", SqlType::Text),
        ("value", SqlType::Json),
        ("type", SqlType::Text),
        ("atom", SqlType::Json),
        ("id", SqlType::BigInt),
        ("parent", SqlType::BigInt),
        ("fullkey", SqlType::Text),
        ("path", SqlType::Text),
    ];
    SqlType::Record(fields.map(field).into())
}

/// The columns of the rows.
#[derive(Default)]
struct Tree {
    texts: [Vec<Option<String>>; 6],
    ids: Vec<i64>,
    parents: Vec<Option<i64>>,
    /// Whether the rows are only those in a value that is wanted, and not those in them: `json_each`.
    is_flat: bool,
}

/// A value on the way down a tree.
struct Node<'a> {
    part: JsonPart<'a>,
    key: Option<String>,
    parent: Option<i64>,
    path: String,
    full: String,
    /// Whether it is in a value that is wanted.
    is_wanted: bool,
}

impl Tree {
    /// Adds a value and what is in it, if it is one of those that are `wanted` or in one of them. Values and keys are
    /// counted by `next`.
    fn add(&mut self, node: Node<'_>, wanted: &[&str], next: &mut i64) -> Result<()> {
        let Node { part, mut key, mut parent, mut path, full, is_wanted } = node;
        let id = *next;
        *next += 1;
        // They are parts of one text.
        let is_root = !is_wanted && wanted.iter().any(|root| std::ptr::eq(*root, part.text()));
        if is_root {
            (key, parent, path) = (None, None, full.clone());
        }
        let is_atom = !matches!(part.kind(), JsonKind::Array | JsonKind::Object);
        if is_wanted || is_root && (!self.is_flat || is_atom) {
            let parent = parent.filter(|_| !self.is_flat);
            self.row(part, key, (id, parent), (path, full.clone()));
        }
        let is_wanted = is_root || is_wanted && !self.is_flat;
        for (name, part) in part.members() {
            let name = name.unquoted()?.into_owned();
            *next += 1;
            let full_name = match name.chars().all(|letter| letter.is_alphanumeric() || letter == '_') {
                true => format!("{full}.{name}"),
                false => format!("{full}.\"{name}\""),
            };
            let (key, path) = (Some(name), full.clone());
            self.add(Node { part, key, parent: Some(id), path, full: full_name, is_wanted }, wanted, next)?;
        }
        for (place, part) in part.elements().enumerate() {
            let (key, path, full) = (Some(place.to_string()), full.clone(), format!("{full}[{place}]"));
            self.add(Node { part, key, parent: Some(id), path, full, is_wanted }, wanted, next)?;
        }
        Ok(())
    }

    fn row(
        &mut self,
        part: JsonPart<'_>,
        key: Option<String>,
        (id, parent): (i64, Option<i64>),
        (path, full): (String, String),
    ) {
        let is_atom = !matches!(part.kind(), JsonKind::Array | JsonKind::Object);
        let atom = is_atom.then(|| part.text().to_owned());
        let value = Some(part.text().to_owned());
        let kind = Some(duckdb_kind(part).to_owned());
        let row = [key, value, kind, atom, Some(full), Some(path)];
        self.texts.iter_mut().zip(row).for_each(|(column, text)| column.push(text));
        self.ids.push(id);
        self.parents.push(parent);
    }

    fn columns(self) -> Vec<ArrayRef> {
        let texts = |column: Vec<Option<String>>| Arc::new(column.into_iter().collect::<StringViewArray>()) as ArrayRef;
        let [key, value, kind, atom, full, path] = self.texts.map(texts);
        let ids: ArrayRef = Arc::new(Int64Array::from(self.ids));
        let parents: ArrayRef = Arc::new(Int64Array::from(self.parents));
        vec![key, value, kind, atom, ids, parents, full, path]
    }
}

/// The parts of each row's value, each with what it is in, before what is in it; with a path, those of the part that
/// it leads to.
fn tree(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    rows(arguments, call, false)
}

/// The same without what is in the parts; a value without parts is one itself.
fn each(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    rows(arguments, call, true)
}

fn rows(arguments: &[ColumnarValue], call: &Call<'_>, is_flat: bool) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let DataType::List(item) = call.returns.arrow() else { return Err(Error::bug("a tree is a list")) };
    let DataType::Struct(fields) = item.data_type().clone() else { return Err(Error::bug("a tree has records")) };
    let text_at = |argument: usize, row: usize| -> Option<String> {
        let texts = columns.arrays().get(argument)?.as_string_view_opt()?;
        let row = if texts.len() == 1 { 0 } else { row };
        texts.is_valid(row).then(|| texts.value(row).to_owned())
    };
    let mut tree = Tree { is_flat, ..Tree::default() };
    let (mut ends, mut valid) = (vec![0_i32], vec![]);
    for row in 0..columns.rows() {
        let json = text_at(0, row);
        let path = if arguments.len() > 1 { text_at(1, row) } else { Some("$".to_owned()) };
        valid.push(json.is_some() && path.is_some());
        if let (Some(json), Some(path)) = (json, path) {
            json::check(&json)?;
            let part = JsonPart::new(&json);
            let parts = found(part, &Path::read(&path)?);
            let wanted = parts.iter().map(|part| part.text()).collect::<Vec<_>>();
            let (path, full) = ("$".to_owned(), "$".to_owned());
            tree.add(Node { part, key: None, parent: None, path, full, is_wanted: false }, &wanted, &mut 0)?;
        }
        ends.push(i32::try_from(tree.ids.len()).map_err(|_| too_large())?);
    }
    let bug = |error: arrow::error::ArrowError| Error::bug(error.to_string());
    let records = StructArray::try_new(fields, tree.columns(), None).map_err(bug)?;
    let nulls = Some(NullBuffer::from(valid));
    let list = ListArray::try_new(item, OffsetBuffer::new(ends.into()), Arc::new(records), nulls).map_err(bug)?;
    columns.result(Arc::new(list))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn structure(text: &str) -> String {
        let mut out = String::new();
        Structure::of(JsonPart::new(text)).unwrap().write(&mut out);
        out
    }

    #[test]
    fn structures_are_those_of_duckdb() {
        for (json, expected) in [
            (
                r#"{"a":1,"b":[1,2],"c":{"d":"x","e":null},"f":1.5,"g":true}"#,
                r#"{"a":"UBIGINT","b":["UBIGINT"],"c":{"d":"VARCHAR","e":"NULL"},"f":"DOUBLE","g":"BOOLEAN"}"#,
            ),
            (r#"[1,null,"a"]"#, r#"["JSON"]"#),
            (r#"[{"b":1},{"a":2},null]"#, r#"[{"b":"UBIGINT","a":"UBIGINT"}]"#),
            ("[]", r#"["NULL"]"#),
            ("null", r#""NULL""#),
            ("-1", r#""BIGINT""#),
            ("[1,-1]", r#"["HUGEINT"]"#),
            ("[1,-1,2.5]", r#"["DOUBLE"]"#),
            ("[[1],[-2]]", r#"[["HUGEINT"]]"#),
            ("12345678901234567890123", r#""DOUBLE""#),
            ("{}", r#""JSON""#),
            (r#"[{},{"a":1}]"#, r#"[{"a":"UBIGINT"}]"#),
            (r#"[{"a":1},2]"#, r#"["JSON"]"#),
        ] {
            assert_eq!(structure(json), expected, "{json}");
        }
    }

    #[test]
    fn what_is_empty_stays_on_a_line() {
        let mut out = String::new();
        pretty(&mut out, JsonPart::new(r#"{"a": [1, {"b": 2}], "c": {}}"#), 0);
        let expected =
            "{\n    \"a\": [\n        1,\n        {\n            \"b\": 2\n        }\n    ],\n    \"c\": {}\n}";
        assert_eq!(out, expected);
    }
}
