//! Values of records, as arrays of the type that their column was declared with.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryViewBuilder, BooleanBuilder, Float64Builder, Int64Builder, StringViewBuilder};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::DataType;

use super::declared::{DeclaredColumn, Literal};
use crate::external::schema::type_name;

/// How texts are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Utf8,
    Utf16,
    Utf16BigEndian,
}

/// A value of a record.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Whole(i64),
    Real(f64),
    /// In the database's encoding.
    Text(Vec<u8>),
    Blob(Vec<u8>),
}

/// A row: its number and its values.
pub(super) struct Cell {
    pub row: i64,
    pub values: Vec<Value>,
}

impl Value {
    fn of_literal(literal: &Literal, encoding: Encoding) -> Self {
        match literal {
            Literal::Whole(number) => Value::Whole(*number),
            Literal::Real(number) => Value::Real(*number),
            Literal::Blob(bytes) => Value::Blob(bytes.clone()),
            Literal::Text(text) => Value::Text(match encoding {
                Encoding::Utf8 => text.clone().into_bytes(),
                Encoding::Utf16 => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
                Encoding::Utf16BigEndian => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
            }),
        }
    }

    pub fn whole(&self) -> Option<i64> {
        match self {
            Value::Whole(number) => Some(*number),
            _ => None,
        }
    }

    /// The text of a value that is one; `None` also if it is none of the encoding.
    pub fn text(&self, encoding: Encoding) -> Option<String> {
        let Value::Text(bytes) = self else { return None };
        let units = |of: fn([u8; 2]) -> u16| {
            let units = bytes.chunks_exact(2).map(|pair| of([pair[0], pair[1]])).collect::<Vec<_>>();
            String::from_utf16(&units).ok()
        };
        match encoding {
            Encoding::Utf8 => std::str::from_utf8(bytes).ok().map(str::to_owned),
            Encoding::Utf16 => units(u16::from_le_bytes),
            Encoding::Utf16BigEndian => units(u16::from_be_bytes),
        }
    }

    /// The value as a text: numbers as SQLite writes them.
    fn as_text(&self, encoding: Encoding) -> Option<String> {
        match self {
            Value::Null => None,
            Value::Whole(number) => Some(number.to_string()),
            Value::Real(number) if number.fract() == 0.0 && number.abs() < 1e15 => Some(format!("{number:.1}")),
            Value::Real(number) => Some(number.to_string()),
            Value::Text(_) => self.text(encoding),
            Value::Blob(bytes) => String::from_utf8(bytes.clone()).ok(),
        }
    }
}

/// A column of these rows. The error says which value is none of the column's type.
pub(super) fn array(
    column: &DeclaredColumn,
    place: usize,
    cells: &[Cell],
    encoding: Encoding,
) -> Result<ArrayRef, String> {
    let wrong = |row: i64, value: &Value| {
        let shown = match value {
            Value::Blob(bytes) => format!("a blob of {} bytes", bytes.len()),
            other => format!("'{}'", other.as_text(encoding).unwrap_or_default()),
        };
        let (name, ty) = (&column.name, type_name(&column.ty));
        format!(
            "row {row}: column '{name}': {shown} is no {ty}; the option all_varchar = true reads all columns as texts"
        )
    };
    let default = column.default.as_ref().map_or(Value::Null, |literal| Value::of_literal(literal, encoding));
    let values = cells.iter().map(|cell| {
        // A column that was added later has no value in older records: there it has its default.
        let value = match column.is_row_number {
            true => Value::Whole(cell.row),
            false => cell.values.get(place).cloned().unwrap_or_else(|| default.clone()),
        };
        (cell.row, value)
    });
    macro_rules! built {
        ($builder:expr, $of:expr) => {{
            let mut builder = $builder;
            for (row, value) in values {
                match value {
                    Value::Null => builder.append_null(),
                    value => match $of(&value) {
                        Some(found) => builder.append_value(found),
                        None => return Err(wrong(row, &value)),
                    },
                }
            }
            Ok(Arc::new(builder.finish()) as ArrayRef)
        }};
    }
    let parsed = |value: &Value| value.as_text(encoding).map(|text| text.trim().to_owned());
    match &column.ty {
        DataType::Int64 => built!(Int64Builder::new(), |value: &Value| match value {
            Value::Whole(number) => Some(*number),
            Value::Real(number) if number.fract() == 0.0 && number.abs() < 9.0e18 => Some(*number as i64),
            Value::Text(_) => parsed(value)?.parse().ok(),
            _ => None,
        }),
        DataType::Float64 => built!(Float64Builder::new(), |value: &Value| match value {
            Value::Whole(number) => Some(*number as f64),
            Value::Real(number) => Some(*number),
            Value::Text(_) => parsed(value)?.parse().ok(),
            _ => None,
        }),
        DataType::Boolean => built!(BooleanBuilder::new(), |value: &Value| match value {
            Value::Whole(number @ 0..=1) => Some(*number == 1),
            Value::Text(_) => match parsed(value)?.to_ascii_lowercase().as_str() {
                "true" | "t" | "1" => Some(true),
                "false" | "f" | "0" => Some(false),
                _ => None,
            },
            _ => None,
        }),
        DataType::BinaryView => built!(BinaryViewBuilder::new(), |value: &Value| match value {
            Value::Blob(bytes) | Value::Text(bytes) => Some(bytes.clone()),
            _ => None,
        }),
        DataType::Utf8View => built!(StringViewBuilder::new(), |value: &Value| value.as_text(encoding)),
        other => {
            let is_one = |text: &ArrayRef| {
                let options = CastOptions { safe: false, ..CastOptions::default() };
                cast_with_options(text, other, &options)
            };
            let mut texts = StringViewBuilder::new();
            for (row, value) in values {
                match &value {
                    Value::Null => texts.append_null(),
                    Value::Text(_) => {
                        let text = value.text(encoding).unwrap_or_default();
                        let mut one = StringViewBuilder::new();
                        one.append_value(&text);
                        let one: ArrayRef = Arc::new(one.finish());
                        if is_one(&one).is_err() {
                            return Err(wrong(row, &value));
                        }
                        texts.append_value(text);
                    }
                    _ => return Err(wrong(row, &value)),
                }
            }
            let texts: ArrayRef = Arc::new(texts.finish());
            is_one(&texts).map_err(|error| error.to_string())
        }
    }
}
