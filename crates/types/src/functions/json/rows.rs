//! JSON values taken apart: elements, members, keys, their number and kind.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StringViewArray, StructArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::DataType;
use datafusion_expr::ColumnarValue;
use diligence_base::{Error, Result};

use super::super::catalog::Catalog;
use super::super::columns::{Columns, List, kernel, too_large};
use super::super::errors::invalid_argument;
use super::super::{Body, Call};
use super::access::{Path, found};
use crate::SqlType;
use crate::sql_type::RecordField;
use crate::text::json::{self, JsonKind, JsonPart};

/// Declares the functions.
pub(super) fn declare(catalog: &mut Catalog) {
    catalog.add_all(
        &["json_array_elements(json) -> json[]", "jsonb_array_elements(jsonb) -> jsonb[]"],
        kernel!(try |json: &str| Ok(List(elements(json)?.map(JsonPart::text).collect()))),
    );
    catalog.add_all(
        &["json_array_elements_text(json) -> text[]", "jsonb_array_elements_text(jsonb) -> text[]"],
        kernel!(try |json: &str| Ok(List(elements(json)?.map(JsonPart::shown).collect::<Result<Vec<_>>>()?))),
    );
    catalog.add_all(
        &["json_array_length(json) -> integer", "jsonb_array_length(jsonb) -> integer"],
        kernel!(try |json: &str| {
            let part = JsonPart::new(json);
            match part.kind() {
                JsonKind::Array => Ok(part.elements().count() as i32),
                JsonKind::Object => Err(invalid_argument("cannot get array length of a non-array")),
                _ => Err(invalid_argument("cannot get array length of a scalar")),
            }
        }),
    );
    catalog.add(
        "duckdb json_array_length(text) -> bigint",
        kernel!(try |text: &str| {
            json::check(text)?;
            Ok(JsonPart::new(text).elements().count() as i64)
        }),
    );
    catalog.add_all(
        &["json_object_keys(json) -> text[]", "jsonb_object_keys(jsonb) -> text[]"],
        kernel!(of call; |json: &str| keys(json, call.arguments.first() == Some(&SqlType::Jsonb))),
    );
    let duckdb_keys = kernel!(try |text: &str| {
        json::check(text)?;
        JsonPart::new(text).members().map(|(key, _)| key.unquoted()).collect::<Result<Vec<_>>>().map(List)
    });
    catalog.add_all(&["json_keys(text) -> text[]", "json_keys(json) -> text[]"], duckdb_keys);
    let keys_at = kernel!(try |text: &str, path: &str| {
        json::check(text)?;
        let part = found(JsonPart::new(text), &Path::read(path)?).first().copied();
        let keys = |part: JsonPart<'_>| {
            part.members().map(|(key, _)| key.unquoted().map(Cow::into_owned)).collect::<Result<Vec<_>>>().map(List)
        };
        part.map(keys).transpose()
    });
    catalog.add_all(&["json_keys(text, text) -> text[]", "json_keys(json, text) -> text[]"], keys_at);
    catalog.add_all(
        &["json_typeof(json) -> text", "jsonb_typeof(jsonb) -> text"],
        kernel!(|json: &str| kind_name(JsonPart::new(json).kind())),
    );
    for (signature, value) in [
        ("json_each(json) -> text", SqlType::Json),
        ("jsonb_each(jsonb) -> text", SqlType::Jsonb),
        ("json_each_text(json) -> text", SqlType::Text),
        ("jsonb_each_text(jsonb) -> text", SqlType::Text),
    ] {
        catalog.add(signature, Body::Kernel(members)).gives(match value {
            SqlType::Json => |_, _| Ok(pairs(SqlType::Json)),
            SqlType::Jsonb => |_, _| Ok(pairs(SqlType::Jsonb)),
            _ => |_, _| Ok(pairs(SqlType::Text)),
        });
    }
}

fn pairs(value: SqlType) -> SqlType {
    let field = |name: &str, sql_type| RecordField { name: name.to_owned(), sql_type };
    SqlType::array_of(SqlType::Record([field("key", SqlType::Text), field("value", value)].into()))
}

/// PostgreSQL's name of a kind.
pub(super) fn kind_name(kind: JsonKind) -> &'static str {
    match kind {
        JsonKind::Null => "null",
        JsonKind::Boolean => "boolean",
        JsonKind::Number => "number",
        JsonKind::Text => "string",
        JsonKind::Array => "array",
        JsonKind::Object => "object",
    }
}

fn elements(json: &str) -> Result<impl Iterator<Item = JsonPart<'_>>> {
    let part = JsonPart::new(json);
    match part.kind() {
        JsonKind::Array => Ok(part.elements()),
        JsonKind::Object => Err(invalid_argument("cannot extract elements from an object")),
        _ => Err(invalid_argument("cannot extract elements from a scalar")),
    }
}

fn keys(json: &str, is_binary: bool) -> Result<List<std::borrow::Cow<'_, str>>> {
    let part = JsonPart::new(json);
    let name = if is_binary { "jsonb_object_keys" } else { "json_object_keys" };
    match part.kind() {
        JsonKind::Object => Ok(List(part.members().map(|(key, _)| key.unquoted()).collect::<Result<_>>()?)),
        JsonKind::Array => Err(invalid_argument(format!("cannot call {name} on an array"))),
        _ => Err(invalid_argument(format!("cannot call {name} on a scalar"))),
    }
}

/// The members of each row's object, as records of key and value.
fn members(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let DataType::List(item) = call.returns.arrow() else { return Err(Error::bug("members are a list")) };
    let DataType::Struct(fields) = item.data_type().clone() else { return Err(Error::bug("members are records")) };
    let of_value = fields.get(1).and_then(|field| SqlType::of_field(field));
    let (is_text, takes_arrays) = (of_value == Some(SqlType::Text), of_value == Some(SqlType::Json));
    let texts = columns.arrays().first().and_then(|array| array.as_string_view_opt());
    let texts = texts.ok_or_else(|| Error::bug("JSON that is no text"))?;
    let (mut keys, mut values, mut ends, mut nulls) = (vec![], vec![], vec![0_i32], vec![]);
    for row in 0..columns.rows() {
        let row = if texts.len() == 1 { 0 } else { row };
        let text = texts.is_valid(row).then(|| texts.value(row));
        nulls.push(text.is_some());
        let part = JsonPart::new(text.unwrap_or("{}"));
        match part.kind() {
            JsonKind::Object => {}
            JsonKind::Array if takes_arrays => {}
            JsonKind::Array => return Err(invalid_argument("cannot deconstruct an array as an object")),
            _ => return Err(invalid_argument("cannot deconstruct a scalar")),
        }
        for (key, value) in part.members() {
            keys.push(Some(key.unquoted()?));
            values.push(if is_text { value.shown()? } else { Some(value.text().into()) });
        }
        // Of an array, DuckDB's json_each gives the elements with their places.
        for (place, value) in part.elements().enumerate() {
            keys.push(Some(Cow::Owned(place.to_string())));
            values.push(Some(value.text().into()));
        }
        ends.push(i32::try_from(keys.len()).map_err(|_| too_large())?);
    }
    let parts: Vec<ArrayRef> =
        vec![Arc::new(keys.iter().collect::<StringViewArray>()), Arc::new(values.iter().collect::<StringViewArray>())];
    let bug = |error: arrow::error::ArrowError| Error::bug(error.to_string());
    let records = StructArray::try_new(fields, parts, None).map_err(bug)?;
    let nulls = Some(NullBuffer::from(nulls));
    let list = ListArray::try_new(item, OffsetBuffer::new(ends.into()), Arc::new(records), nulls).map_err(bug)?;
    columns.result(Arc::new(list))
}
