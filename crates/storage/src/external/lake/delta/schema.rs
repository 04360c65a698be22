//! The columns of a Delta Lake table, from the JSON that its log has.

use arrow::datatypes::{DataType, TimeUnit};
use diligence_base::{Error, Result};
use serde_json::Value;

use crate::external::lake::fields::{LakeField, LakeType, TYPE_DEPTH_MAX};
use crate::external::lake::unsupported;

/// The depth of a column's own type.
const COLUMN_DEPTH: usize = 1;

/// The columns of a table. With `is_mapped`, files have the names and numbers that are noted at each.
pub(super) fn fields(table: &str, schema: &str, is_mapped: bool) -> Result<Vec<LakeField>> {
    let reading = Reading { table, is_mapped };
    let schema: Value = serde_json::from_str(schema).map_err(|error| reading.damaged(error))?;
    reading.fields(&schema, 0)
}

struct Reading<'a> {
    table: &'a str,
    is_mapped: bool,
}

impl Reading<'_> {
    fn damaged(&self, what: impl std::fmt::Display) -> Error {
        Error::file(format!("{}: the schema in its log cannot be read: {what}", self.table))
    }

    fn fields(&self, ty: &Value, depth: usize) -> Result<Vec<LakeField>> {
        let fields = ty.get("fields").and_then(Value::as_array).ok_or_else(|| self.damaged("there are no fields"))?;
        fields.iter().map(|field| self.field(field, depth)).collect()
    }

    fn field(&self, field: &Value, depth: usize) -> Result<LakeField> {
        let name = field.get("name").and_then(Value::as_str).ok_or_else(|| self.damaged("a field has no name"))?;
        let metadata = |key: &str| field.get("metadata").and_then(|metadata| metadata.get(key));
        let (mut id, mut in_files) = (None, name);
        if self.is_mapped {
            let missing = || self.damaged(format!("the field '{name}' has no name for files"));
            in_files = metadata("delta.columnMapping.physicalName").and_then(Value::as_str).ok_or_else(missing)?;
            let number = metadata("delta.columnMapping.id").and_then(Value::as_i64);
            id = number.and_then(|number| i32::try_from(number).ok());
        }
        let ty = field.get("type").ok_or_else(|| self.damaged(format!("the field '{name}' has no type")))?;
        let ty = self.ty(name, ty, depth + 1)?;
        Ok(LakeField { name: name.to_owned(), ty, id, names: vec![in_files.to_owned()], default: None })
    }

    fn ty(&self, column: &str, ty: &Value, depth: usize) -> Result<LakeType> {
        if depth > TYPE_DEPTH_MAX {
            return Err(self.damaged("types are nested too deeply"));
        }
        if let Some(name) = ty.as_str() {
            // Inside of others they would be left as they are in files.
            if name == "variant" && depth <= COLUMN_DEPTH {
                return Ok(LakeType::Variant);
            }
            return self.plain(column, name).map(LakeType::Plain);
        }
        let inner = |key: &str, name: &str| {
            let inner = ty.get(key).ok_or_else(|| self.damaged(format!("the type of '{column}' has no {key}")))?;
            let ty = self.ty(column, inner, depth + 1)?;
            // Parts of lists and maps are found by where they are.
            Ok(Box::new(LakeField { name: name.to_owned(), ty, id: None, names: Vec::new(), default: None }))
        };
        match ty.get("type").and_then(Value::as_str) {
            Some("struct") => Ok(LakeType::Struct(self.fields(ty, depth + 1)?)),
            Some("array") => Ok(LakeType::List(inner("elementType", "element")?)),
            Some("map") => Ok(LakeType::Map(inner("keyType", "key")?, inner("valueType", "value")?)),
            other => Err(unsupported(self.table, format!("the type {} of column '{column}'", other.unwrap_or("?")))),
        }
    }

    fn plain(&self, column: &str, name: &str) -> Result<DataType> {
        Ok(match name {
            "string" => DataType::Utf8View,
            "long" => DataType::Int64,
            "integer" => DataType::Int32,
            "short" => DataType::Int16,
            "byte" => DataType::Int8,
            "float" => DataType::Float32,
            "double" => DataType::Float64,
            "boolean" => DataType::Boolean,
            "binary" => DataType::BinaryView,
            "date" => DataType::Date32,
            "timestamp" => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            "timestamp_ntz" => DataType::Timestamp(TimeUnit::Microsecond, None),
            _ => {
                let digits = name.strip_prefix("decimal(").and_then(|rest| rest.strip_suffix(')'));
                let digits = digits.and_then(|digits| digits.split_once(','));
                let digits = digits.and_then(|(p, s)| Some((p.trim().parse().ok()?, s.trim().parse().ok()?)));
                match digits {
                    Some((precision @ 1..=38, scale)) if (0..=precision as i8).contains(&scale) => {
                        DataType::Decimal128(precision, scale)
                    }
                    _ => return Err(unsupported(self.table, format!("the type {name} of column '{column}'"))),
                }
            }
        })
    }
}
