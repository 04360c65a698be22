//! The columns of an Iceberg table, and the values that its metadata have of them.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::ScalarValue;
use diligence_base::{Error, Result};
use serde_json::Value as Json;

use super::avro::Value;
use crate::external::lake::fields::{LakeField, LakeType, TYPE_DEPTH_MAX};
use crate::external::lake::unsupported;

/// The depth of a column's own type.
const COLUMN_DEPTH: usize = 1;

/// The columns of a schema.
pub(super) fn fields(table: &str, schema: &Json) -> Result<Vec<LakeField>> {
    Reading { table }.fields(schema, 0)
}

/// Gives fields the names that a table's name mapping has for them, for files without numbers.
pub(super) fn map_names(fields: &mut [LakeField], mapping: &Json) {
    for entry in mapping.as_array().into_iter().flatten() {
        let id = entry.get("field-id").and_then(Json::as_i64);
        let Some(field) = fields.iter_mut().find(|field| id.is_some() && field.id.map(i64::from) == id) else {
            continue;
        };
        let names = entry.get("names").and_then(Json::as_array).into_iter().flatten();
        field.names = names.filter_map(Json::as_str).map(str::to_owned).collect();
        if let (LakeType::Struct(fields), Some(inner)) = (&mut field.ty, entry.get("fields")) {
            map_names(fields, inner);
        }
    }
}

struct Reading<'a> {
    table: &'a str,
}

impl Reading<'_> {
    fn damaged(&self, what: impl std::fmt::Display) -> Error {
        Error::file(format!("{}: the schema in its metadata cannot be read: {what}", self.table))
    }

    fn fields(&self, ty: &Json, depth: usize) -> Result<Vec<LakeField>> {
        let fields = ty.get("fields").and_then(Json::as_array).ok_or_else(|| self.damaged("there are no fields"))?;
        fields.iter().map(|field| self.field(field, depth)).collect()
    }

    fn id(&self, ty: &Json, key: &str) -> Result<i32> {
        let id = ty.get(key).and_then(Json::as_i64).and_then(|id| i32::try_from(id).ok());
        id.ok_or_else(|| self.damaged(format!("a field has no number '{key}'")))
    }

    fn field(&self, field: &Json, depth: usize) -> Result<LakeField> {
        let name = field.get("name").and_then(Json::as_str).ok_or_else(|| self.damaged("a field has no name"))?;
        let ty = field.get("type").ok_or_else(|| self.damaged(format!("the field '{name}' has no type")))?;
        let ty = self.ty(name, ty, depth + 1)?;
        let default = match field.get("initial-default") {
            None | Some(Json::Null) => None,
            Some(value) => Some(self.default(name, &ty, value)?),
        };
        let id = Some(self.id(field, "id")?);
        Ok(LakeField { name: name.to_owned(), ty, id, names: vec![name.to_owned()], default })
    }

    fn default(&self, name: &str, ty: &LakeType, value: &Json) -> Result<ScalarValue> {
        let text = match value {
            Json::String(text) => text.clone(),
            Json::Number(number) => number.to_string(),
            Json::Bool(truth) => truth.to_string(),
            _ => return Err(unsupported(self.table, format!("the default of column '{name}'"))),
        };
        match ty {
            LakeType::Plain(DataType::BinaryView | DataType::FixedSizeBinary(_)) => {
                Err(unsupported(self.table, format!("the default of column '{name}'")))
            }
            LakeType::Plain(ty) => {
                let value = ScalarValue::Utf8(Some(text)).cast_to(ty).ok().filter(|value| !value.is_null());
                value.ok_or_else(|| self.damaged(format!("the default of column '{name}' is none of its type")))
            }
            LakeType::Uuid => Ok(ScalarValue::Utf8View(Some(text))),
            _ => Err(unsupported(self.table, format!("the default of column '{name}'"))),
        }
    }

    fn ty(&self, column: &str, ty: &Json, depth: usize) -> Result<LakeType> {
        if depth > TYPE_DEPTH_MAX {
            return Err(self.damaged("types are nested too deeply"));
        }
        if let Some(name) = ty.as_str() {
            return self.plain(column, name, depth);
        }
        let inner = |key: &str, id: &str| {
            let inner = ty.get(key).ok_or_else(|| self.damaged(format!("the type of '{column}' has no {key}")))?;
            let (ty, id) = (self.ty(column, inner, depth + 1)?, Some(self.id(ty, id)?));
            Ok::<_, Error>(Box::new(LakeField { name: key.to_owned(), ty, id, names: Vec::new(), default: None }))
        };
        match ty.get("type").and_then(Json::as_str) {
            Some("struct") => Ok(LakeType::Struct(self.fields(ty, depth + 1)?)),
            Some("list") => Ok(LakeType::List(inner("element", "element-id")?)),
            Some("map") => Ok(LakeType::Map(inner("key", "key-id")?, inner("value", "value-id")?)),
            other => Err(unsupported(self.table, format!("the type {} of column '{column}'", other.unwrap_or("?")))),
        }
    }

    fn plain(&self, column: &str, name: &str, depth: usize) -> Result<LakeType> {
        let utc = || Some("UTC".into());
        let plain = match name {
            "boolean" => DataType::Boolean,
            "int" => DataType::Int32,
            "long" => DataType::Int64,
            "float" => DataType::Float32,
            "double" => DataType::Float64,
            "date" => DataType::Date32,
            "time" => DataType::Time64(TimeUnit::Microsecond),
            "timestamp" => DataType::Timestamp(TimeUnit::Microsecond, None),
            "timestamptz" => DataType::Timestamp(TimeUnit::Microsecond, utc()),
            "timestamp_ns" => DataType::Timestamp(TimeUnit::Nanosecond, None),
            "timestamptz_ns" => DataType::Timestamp(TimeUnit::Nanosecond, utc()),
            "string" => DataType::Utf8View,
            "binary" => DataType::BinaryView,
            "uuid" => return Ok(LakeType::Uuid),
            // Inside of others they would be left as they are in files.
            "variant" if depth <= COLUMN_DEPTH => return Ok(LakeType::Variant),
            _ => self
                .with_length(name)
                .ok_or_else(|| unsupported(self.table, format!("the type {name} of column '{column}'")))?,
        };
        Ok(LakeType::Plain(plain))
    }

    /// `decimal(9, 2)` and `fixed[16]`.
    fn with_length(&self, name: &str) -> Option<DataType> {
        if let Some(length) = name.strip_prefix("fixed[").and_then(|rest| rest.strip_suffix(']')) {
            return length.trim().parse().ok().filter(|length| *length >= 0).map(DataType::FixedSizeBinary);
        }
        let digits = name.strip_prefix("decimal(")?.strip_suffix(')')?;
        let (precision, scale) = digits.split_once(',')?;
        let (precision, scale): (u8, i8) = (precision.trim().parse().ok()?, scale.trim().parse().ok()?);
        let is_right = (1..=38).contains(&precision) && (0..=precision as i8).contains(&scale);
        is_right.then_some(DataType::Decimal128(precision, scale))
    }
}

/// A bound of a column as metadata have it; `None` if it is none of a kind that leaves files out.
pub(super) fn bound(bytes: &[u8], ty: &DataType) -> Option<ScalarValue> {
    let whole = match bytes.len() {
        4 => Some(i64::from(i32::from_le_bytes(bytes.try_into().ok()?))),
        8 => Some(i64::from_le_bytes(bytes.try_into().ok()?)),
        _ => None,
    };
    Some(match ty {
        DataType::Int32 => ScalarValue::Int32(Some(i32::try_from(whole?).ok()?)),
        DataType::Int64 => ScalarValue::Int64(Some(whole?)),
        DataType::Date32 if bytes.len() == 4 => ScalarValue::Date32(Some(i32::try_from(whole?).ok()?)),
        DataType::Time64(TimeUnit::Microsecond) if bytes.len() == 8 => ScalarValue::Time64Microsecond(whole),
        DataType::Timestamp(TimeUnit::Microsecond, zone) if bytes.len() == 8 => {
            ScalarValue::TimestampMicrosecond(whole, zone.clone())
        }
        DataType::Timestamp(TimeUnit::Nanosecond, zone) if bytes.len() == 8 => {
            ScalarValue::TimestampNanosecond(whole, zone.clone())
        }
        DataType::Utf8View => ScalarValue::Utf8View(Some(std::str::from_utf8(bytes).ok()?.to_owned())),
        DataType::Decimal128(precision, scale) => ScalarValue::Decimal128(Some(decimal(bytes)?), *precision, *scale),
        _ => return None,
    })
}

/// A number in two's complement, the most significant byte first.
fn decimal(bytes: &[u8]) -> Option<i128> {
    let sign = if *bytes.first()? & 0x80 == 0 { 0 } else { 0xff };
    if bytes.len() > 16 {
        return None;
    }
    let mut whole = [sign; 16];
    whole[16 - bytes.len()..].copy_from_slice(bytes);
    Some(i128::from_be_bytes(whole))
}

/// The value of an identity partition as metadata have it; `None` if it is none of the column's type.
pub(super) fn partition_value(value: &Value, ty: &DataType) -> Option<ScalarValue> {
    Some(match (value, ty) {
        (Value::Null, _) => ScalarValue::try_from(ty).ok()?,
        (Value::Truth(truth), DataType::Boolean) => ScalarValue::Boolean(Some(*truth)),
        (Value::Whole(number), DataType::Int32) => ScalarValue::Int32(Some(i32::try_from(*number).ok()?)),
        (Value::Whole(number), DataType::Int64) => ScalarValue::Int64(Some(*number)),
        (Value::Whole(number), DataType::Date32) => ScalarValue::Date32(Some(i32::try_from(*number).ok()?)),
        (Value::Whole(number), DataType::Time64(TimeUnit::Microsecond)) => {
            ScalarValue::Time64Microsecond(Some(*number))
        }
        (Value::Whole(number), DataType::Timestamp(TimeUnit::Microsecond, zone)) => {
            ScalarValue::TimestampMicrosecond(Some(*number), zone.clone())
        }
        (Value::Float(number), DataType::Float32) => ScalarValue::Float32(Some(*number as f32)),
        (Value::Float(number), DataType::Float64) => ScalarValue::Float64(Some(*number)),
        (Value::Text(text), DataType::Utf8View) => ScalarValue::Utf8View(Some(text.clone())),
        (Value::Bytes(bytes), DataType::BinaryView) => ScalarValue::BinaryView(Some(bytes.clone())),
        (Value::Bytes(bytes), DataType::Decimal128(precision, scale)) => {
            ScalarValue::Decimal128(Some(decimal(bytes)?), *precision, *scale)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_read_in_their_types() {
        assert_eq!(bound(&[7, 0, 0, 0], &DataType::Int64), Some(ScalarValue::Int64(Some(7))));
        assert_eq!(bound(&[0xff; 8], &DataType::Int64), Some(ScalarValue::Int64(Some(-1))));
        assert_eq!(bound(&[1, 2, 3], &DataType::Int64), None);
        assert_eq!(bound(&[0xff], &DataType::Utf8View), None);
        let decimal = DataType::Decimal128(9, 2);
        assert_eq!(bound(&[0xff, 0x38], &decimal), Some(ScalarValue::Decimal128(Some(-200), 9, 2)));
        assert_eq!(bound(&[], &decimal), None);
        assert_eq!(bound(&[0; 8], &DataType::Float64), None);
    }
}
