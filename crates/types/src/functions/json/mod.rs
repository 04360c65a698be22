//! Functions of JSON (manual, section 9.16). Here are those that make JSON of other values.

mod access;
mod change;
mod path;
mod rows;
mod structure;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use datafusion_expr::ColumnarValue;
use diligence_base::{Error, Result};

pub(super) use self::access::Steps;
pub use self::path::path_text;
use super::catalog::Catalog;
use super::columns::Columns;
use super::errors::value_error;
use super::strings::texts_of;
use super::{Body, Call};
use crate::SqlType;
use crate::text::Zone;
use crate::text::json::{self, write_text};

/// Declares the functions.
pub(super) fn declare(catalog: &mut Catalog) {
    for signature in ["json_build_object(variadic any) -> json", "jsonb_build_object(variadic any) -> jsonb"] {
        catalog.add(signature, Body::Kernel(object)).zoned().lenient();
    }
    for signature in ["json_build_array(variadic any) -> json", "jsonb_build_array(variadic any) -> jsonb"] {
        catalog.add(signature, Body::Kernel(array)).zoned().lenient();
    }
    for signature in ["json_build_object() -> json", "jsonb_build_object() -> jsonb"] {
        catalog.add(signature, Body::Kernel(object)).zoned().lenient();
    }
    for signature in ["json_build_array() -> json", "jsonb_build_array() -> jsonb"] {
        catalog.add(signature, Body::Kernel(array)).zoned().lenient();
    }
    for signature in ["to_json(any) -> json", "to_jsonb(any) -> jsonb", "row_to_json(anyrecord) -> json"] {
        catalog.add(signature, Body::Kernel(value)).zoned();
    }
    catalog.add("array_to_json(anyarray) -> json", Body::Kernel(value)).zoned();
    for signature in ["array_to_json(anyarray, boolean) -> json", "row_to_json(anyrecord, boolean) -> json"] {
        catalog.add(signature, Body::Kernel(in_lines)).zoned();
    }
    catalog.add("duckdb json_object(variadic any) -> json", Body::Kernel(object)).zoned().lenient();
    catalog.add("json_array(variadic any) -> json", Body::Kernel(array)).zoned().lenient();
    catalog.add("json_quote(any) -> json", Body::Kernel(value)).zoned();
    for signature in ["json_object(text[]) -> json", "json_object(text[], text[]) -> json"] {
        catalog.add(signature, Body::Kernel(object_of_texts));
    }
    for signature in ["jsonb_object(text[]) -> jsonb", "jsonb_object(text[], text[]) -> jsonb"] {
        catalog.add(signature, Body::Kernel(object_of_texts));
    }
    // What `json_agg` and `json_object_agg` make of the arrays that hold a group's values.
    for signature in ["json_of_values(anyarray) -> json", "jsonb_of_values(anyarray) -> jsonb"] {
        catalog.add(signature, Body::Kernel(of_values)).zoned();
    }
    for signature in ["json_of_pairs(anyarray) -> json", "jsonb_of_pairs(anyarray) -> jsonb"] {
        catalog.add(signature, Body::Kernel(of_pairs)).zoned();
    }
    access::declare(catalog);
    change::declare(catalog);
    rows::declare(catalog);
    path::declare(catalog);
    structure::declare(catalog);
}

/// A moment as ISO 8601 writes it. An offset has minutes, also where there are none: `2024-02-29T12:00:00+00:00`.
fn iso_moment(text: &str, has_zone: bool) -> String {
    let (moment, era) = text.strip_suffix(" BC").map_or((text, ""), |moment| (moment, " BC"));
    let mut written = moment.replacen(' ', "T", 1);
    let offset = moment.rfind(['+', '-']).map(|at| moment.len() - at);
    if has_zone && offset == Some(3) && moment.contains(':') {
        written.push_str(":00");
    }
    written + era
}

/// The values of a column as JSON.
struct Writer {
    kind: Kind,
    nulls: Option<arrow::buffer::NullBuffer>,
    step: usize,
}

enum Kind {
    /// The text is JSON.
    Plain(StringViewArray),
    /// The text is JSON, unless it is NaN or an infinity, which stand between quotes.
    Number(StringViewArray),
    /// The text stands between quotes.
    Quoted(StringViewArray),
    Boolean(arrow::array::BooleanArray),
    List(arrow::array::ListArray, Box<Writer>),
    Record(Vec<(String, Writer)>),
    /// The keys' texts, and the values.
    Map(arrow::array::MapArray, StringViewArray, Box<Writer>),
}

impl Writer {
    fn new(array: &ArrayRef, sql_type: &SqlType, zone: &str, step: usize) -> Result<Self> {
        let wrong = || Error::bug(format!("{} is not how {sql_type} is held", array.data_type()));
        let kind = match sql_type {
            SqlType::Boolean => Kind::Boolean(array.as_boolean_opt().ok_or_else(wrong)?.clone()),
            SqlType::Numeric(_) => Kind::Number(texts_of(array, sql_type, zone)?),
            SqlType::SmallInt
            | SqlType::Integer
            | SqlType::BigInt
            | SqlType::Oid(_)
            | SqlType::Json
            | SqlType::Jsonb => Kind::Plain(texts_of(array, sql_type, zone)?),
            SqlType::Real | SqlType::Double => Kind::Number(texts_of(array, sql_type, zone)?),
            SqlType::Array(element) => {
                let list = array.as_list_opt::<i32>().ok_or_else(wrong)?.clone();
                let values = Self::new(list.values(), element, zone, 1)?;
                Kind::List(list, Box::new(values))
            }
            SqlType::Record(fields) => {
                let record = array.as_struct_opt().ok_or_else(wrong)?;
                let columns = fields.iter().zip(record.columns());
                let columns = columns
                    .map(|(field, column)| Ok((field.name.clone(), Self::new(column, &field.sql_type, zone, step)?)));
                Kind::Record(columns.collect::<Result<_>>()?)
            }
            SqlType::Map(pair) => {
                let map = array.as_map_opt().ok_or_else(wrong)?.clone();
                let keys = texts_of(map.keys(), &pair.0, zone)?;
                let values = Self::new(map.values(), &pair.1, zone, 1)?;
                Kind::Map(map, keys, Box::new(values))
            }
            // Moments have a T between day and time, as ISO 8601 wants it.
            SqlType::Timestamp | SqlType::TimestampTz => {
                let texts = texts_of(array, sql_type, zone)?;
                let has_zone = *sql_type == SqlType::TimestampTz;
                Kind::Quoted(texts.iter().map(|text| text.map(|text| iso_moment(text, has_zone))).collect())
            }
            _ => Kind::Quoted(texts_of(array, sql_type, zone)?),
        };
        Ok(Self { kind, nulls: array.logical_nulls(), step })
    }

    fn write(&self, row: usize, out: &mut String) {
        self.write_parts(",", row, out);
    }

    /// A value whose own parts have this between them.
    fn write_parts(&self, between: &str, row: usize, out: &mut String) {
        let row = row * self.step;
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return out.push_str("null");
        }
        match &self.kind {
            Kind::Plain(texts) => out.push_str(texts.value(row)),
            Kind::Number(texts) => match texts.value(row) {
                text if text.ends_with(['N', 'y']) => write_text(out, text),
                text => out.push_str(text),
            },
            Kind::Quoted(texts) => write_text(out, texts.value(row)),
            Kind::Boolean(values) => out.push_str(if values.value(row) { "true" } else { "false" }),
            Kind::List(list, values) => {
                let ends = list.value_offsets();
                parts(out, ['[', ']'], between, ends[row] as usize..ends[row + 1] as usize, |out, place| {
                    values.write(place, out);
                });
            }
            Kind::Record(fields) => parts(out, ['{', '}'], between, 0..fields.len(), |out, place| {
                write_text(out, &fields[place].0);
                out.push(':');
                // A record's columns have as many rows as it has.
                fields[place].1.write(if self.step == 0 { 0 } else { row }, out);
            }),
            Kind::Map(map, keys, values) => {
                let ends = map.value_offsets();
                parts(out, ['{', '}'], between, ends[row] as usize..ends[row + 1] as usize, |out, place| {
                    write_text(out, keys.value(place));
                    out.push(':');
                    values.write(place, out);
                });
            }
        }
    }
}

fn parts(
    out: &mut String,
    [open, close]: [char; 2],
    between: &str,
    places: std::ops::Range<usize>,
    mut write: impl FnMut(&mut String, usize),
) {
    out.push(open);
    let first = places.start;
    for place in places {
        if place > first {
            out.push_str(between);
        }
        write(out, place);
    }
    out.push(close);
}

/// Calls `make` for each row with writers of the arguments but the zone, which is the last.
fn written(
    arguments: &[ColumnarValue],
    call: &Call<'_>,
    make: impl Fn(&[Writer], usize) -> Result<Option<String>>,
) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let Some((zone, values)) = columns.arrays().split_last() else { return Err(Error::bug("a zone is missing")) };
    let zone = zone.as_string_view_opt().filter(|zone| !zone.is_empty() && zone.is_valid(0));
    // Dates in JSON are ISO 8601's, whatever the session's style is.
    let zone = Zone::setting_with_iso_dates(zone.map_or("UTC", |zone| zone.value(0)))?;
    let writers = values
        .iter()
        .zip(call.arguments)
        .map(|(array, sql_type)| Writer::new(array, sql_type, &zone, usize::from(array.len() != 1)));
    let writers = writers.collect::<Result<Vec<_>>>()?;
    let text = |row: usize| {
        let text = make(&writers, row)?;
        // `jsonb` is held as it is shown.
        match (text, call.returns) {
            (Some(text), SqlType::Jsonb) => {
                let mut out = String::with_capacity(text.len());
                json::write(&mut out, &json::parse(&text)?);
                Ok(Some(out))
            }
            (text, _) => Ok(text),
        }
    };
    let texts = (0..columns.rows()).map(text).collect::<Result<StringViewArray>>()?;
    columns.result(Arc::new(texts))
}

/// The values of an array, those that have parts in lines of their own.
fn of_values(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    written(arguments, call, |writers, row| {
        let [Writer { kind: Kind::List(list, values), nulls, step }] = writers else {
            return Err(Error::bug("json_of_values takes an array"));
        };
        let row = row * step;
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return Ok(None);
        }
        let (ends, mut out) = (list.value_offsets(), String::from("["));
        let between = if matches!(values.kind, Kind::List(..) | Kind::Record(_)) { ", \n " } else { ", " };
        for place in ends[row] as usize..ends[row + 1] as usize {
            out.push_str(if place > ends[row] as usize { between } else { "" });
            values.write(place, &mut out);
        }
        out.push(']');
        Ok(Some(out))
    })
}

/// An object of an array's pairs of a key and a value.
fn of_pairs(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    written(arguments, call, |writers, row| {
        let [Writer { kind: Kind::List(list, pairs), nulls, step }] = writers else {
            return Err(Error::bug("json_of_pairs takes an array"));
        };
        let Kind::Record(fields) = &pairs.kind else { return Err(Error::bug("json_of_pairs takes pairs")) };
        let [(_, keys), (_, values)] = fields.as_slice() else { return Err(Error::bug("a pair has two parts")) };
        let row = row * step;
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return Ok(None);
        }
        let (ends, mut out) = (list.value_offsets(), String::from("{ "));
        for place in ends[row] as usize..ends[row + 1] as usize {
            out.push_str(if place > ends[row] as usize { ", " } else { "" });
            write_key(keys, place, &mut out, "field name must not be null")?;
            out.push_str(" : ");
            values.write(place, &mut out);
        }
        out.push_str(" }");
        Ok(Some(out))
    })
}

/// A value as the key of a member. Fails with 22023 if it is NULL.
fn write_key(writer: &Writer, row: usize, out: &mut String, message: &str) -> Result<()> {
    let mut key = String::new();
    writer.write(row, &mut key);
    match key.as_str() {
        "null" => return Err(value_error(message, "22023")),
        quoted if quoted.starts_with('"') => out.push_str(quoted),
        plain => write_text(out, plain),
    }
    Ok(())
}

/// An object of texts: keys and values in turn in one array, or in two.
fn object_of_texts(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let made = |keys: &[Option<String>], values: &mut dyn Iterator<Item = &Option<String>>| {
        let mut out = String::from("{");
        for (index, (key, value)) in keys.iter().zip(values).enumerate() {
            let key = key.as_ref().ok_or_else(|| value_error("null value not allowed for object key", "22004"))?;
            out.push_str(if index > 0 { ", " } else { "" });
            write_text(&mut out, key);
            out.push_str(" : ");
            match value {
                Some(value) => write_text(&mut out, value),
                None => out.push_str("null"),
            }
        }
        out.push('}');
        match call.returns {
            SqlType::Jsonb => {
                let mut normal = String::new();
                json::write(&mut normal, &json::parse(&out)?);
                Ok(normal)
            }
            _ => Ok(out),
        }
    };
    let columns = Columns::new(arguments, call);
    match arguments.len() {
        1 => columns.map(|(pairs,): (access::Steps,)| {
            if pairs.0.len() % 2 != 0 {
                return Err(value_error("array must have even number of elements", "2202E"));
            }
            let keys = pairs.0.iter().step_by(2).cloned().collect::<Vec<_>>();
            made(&keys, &mut pairs.0.iter().skip(1).step_by(2))
        }),
        _ => columns.map(|(keys, values): (access::Steps, access::Steps)| {
            if keys.0.len() != values.0.len() {
                return Err(value_error("mismatched array dimensions", "2202E"));
            }
            made(&keys.0, &mut values.0.iter())
        }),
    }
}

fn value(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    written(arguments, call, |writers, row| {
        let [writer, ..] = writers else { return Err(Error::bug("a value is missing")) };
        let is_null = writer.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row * writer.step));
        let mut out = String::new();
        writer.write(row, &mut out);
        Ok((!is_null).then_some(out))
    })
}

/// A value whose parts stand in lines of their own, if the second argument says so.
fn in_lines(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    written(arguments, call, |writers, row| {
        let [writer, Writer { kind: Kind::Boolean(wanted), nulls, step }] = writers else {
            return Err(Error::bug("a value and a boolean are missing"));
        };
        let is_null = |nulls: &Option<arrow::buffer::NullBuffer>, step: usize| {
            nulls.as_ref().is_some_and(|nulls| nulls.is_null(row * step))
        };
        if is_null(&writer.nulls, writer.step) || is_null(nulls, *step) {
            return Ok(None);
        }
        let mut out = String::new();
        writer.write_parts(if wanted.value(row * step) { ",\n " } else { "," }, row, &mut out);
        Ok(Some(out))
    })
}

fn array(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    written(arguments, call, |writers, row| {
        let mut out = String::from("[");
        for (index, writer) in writers.iter().enumerate() {
            if index > 0 {
                out.push_str(", ");
            }
            writer.write(row, &mut out);
        }
        out.push(']');
        Ok(Some(out))
    })
}

fn object(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    written(arguments, call, |writers, row| {
        if writers.len() % 2 != 0 {
            return Err(value_error("argument list must have even number of elements", "22023"));
        }
        let mut out = String::from("{");
        for (index, pair) in writers.chunks(2).enumerate() {
            if index > 0 {
                out.push_str(", ");
            }
            write_key(&pair[0], row, &mut out, "null value not allowed for object key")?;
            out.push_str(" : ");
            pair[1].write(row, &mut out);
        }
        out.push('}');
        Ok(Some(out))
    })
}
