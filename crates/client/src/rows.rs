//! Rows in text format as Arrow batches, typed as far as displaying them needs.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use diligence_base::{Error, Result};

use crate::message::Column;

/// The values of a row as text. Fails with kind `Value` if one is not UTF-8.
pub(crate) fn texts(values: &[Option<&[u8]>]) -> Result<Vec<Option<String>>> {
    let text = |bytes: &[u8]| match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(Error::value("the server sent a text that is not UTF-8")),
    };
    values.iter().map(|value| value.map(text).transpose()).collect()
}

/// The Arrow schema in which the columns are shown.
pub(crate) fn schema(columns: &[Column]) -> SchemaRef {
    let fields = columns.iter().map(|column| {
        let field = Field::new(&column.name, data_type(column), true);
        match sql_type(column) {
            Some(known) => field.with_metadata([(SQL_TYPE.to_owned(), known.to_owned())].into()),
            None => field,
        }
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Where a field says which type of SQL its texts are of.
const SQL_TYPE: &str = "sql_type";

/// The SQL type of texts which writers write otherwise than texts: numbers of any length, and JSON.
fn sql_type(column: &Column) -> Option<&'static str> {
    match column.oid {
        114 => Some("json"),
        3802 => Some("jsonb"),
        1700 if data_type(column) == DataType::Utf8 => Some("numeric"),
        _ => None,
    }
}

/// Numbers and booleans have types of their own; all else is text as the server writes it.
fn data_type(column: &Column) -> DataType {
    match column.oid {
        16 => DataType::Boolean,
        21 => DataType::Int16,
        23 => DataType::Int32,
        // Numbers of objects and transactions, too.
        20 | 26 | 28 => DataType::Int64,
        700 => DataType::Float32,
        701 => DataType::Float64,
        1700 if column.modifier >= 4 => {
            let (precision, scale) = ((column.modifier - 4) >> 16, (column.modifier - 4) & 0xffff);
            match (u8::try_from(precision), i8::try_from(scale)) {
                (Ok(precision @ 1..=38), Ok(scale)) => DataType::Decimal128(precision, scale),
                (Ok(precision @ 39..=76), Ok(scale)) => DataType::Decimal256(precision, scale),
                _ => DataType::Utf8,
            }
        }
        _ => DataType::Utf8,
    }
}

/// Rows as a batch. Fails with kind `Resource` if a row has another number of values than the schema, and with kind
/// `Value` if a value does not parse as its column's type.
pub(crate) fn batch(schema: &SchemaRef, rows: &[Vec<Option<String>>]) -> Result<RecordBatch> {
    if rows.iter().any(|row| row.len() != schema.fields().len()) {
        return Err(Error::resource("the server sent a row that does not match its column descriptions"));
    }
    let columns = schema.fields().iter().enumerate().map(|(index, field)| {
        let values = rows.iter().map(|row| row[index].as_deref());
        array(field.data_type(), values)
    });
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(schema.clone(), columns.collect::<Result<_>>()?, &options)
        .map_err(|error| Error::bug(error.to_string()))
}

fn array<'a>(data_type: &DataType, values: impl Iterator<Item = Option<&'a str>>) -> Result<ArrayRef> {
    if *data_type == DataType::Boolean {
        return Ok(Arc::new(BooleanArray::from_iter(values.map(|value| value.map(|value| value == "t")))));
    }
    let texts = StringArray::from_iter(values);
    let nulls = arrow::array::Array::null_count(&texts);
    let array = cast(&texts, data_type).map_err(|error| Error::value(error.to_string()))?;
    // The cast turns text that is not a number into NULL.
    if array.null_count() != nulls {
        return Err(Error::value(format!("the server sent a value that is not of type {data_type}")));
    }
    Ok(array)
}

#[cfg(test)]
mod tests {
    use arrow::util::display::array_value_to_string;

    use super::*;

    #[test]
    fn values_are_what_the_server_wrote() {
        let column = |name: &str, oid, modifier| Column { name: name.to_owned(), oid, modifier };
        let columns = [
            column("whole", 20, -1),
            column("flag", 16, -1),
            column("price", 1700, ((15 << 16) | 2) + 4),
            column("any", 1700, -1),
            column("double", 701, -1),
            column("text", 25, -1),
        ];
        let schema = schema(&columns);
        let told = schema.fields().iter().map(|field| field.metadata().get(SQL_TYPE).map(String::as_str));
        assert_eq!(told.collect::<Vec<_>>(), [None, None, None, Some("numeric"), None, None]);
        let texts = |values: [&str; 6]| values.map(|value| (value != "-").then(|| value.to_owned())).to_vec();
        let rows = [texts(["-7", "t", "1.50", "0.10", "NaN", ""]), texts(["-"; 6])];
        let batch = batch(&schema, &rows).unwrap();
        let shown = batch.columns().iter().map(|column| array_value_to_string(column, 0).unwrap()).collect::<Vec<_>>();
        assert_eq!(shown, ["-7", "true", "1.50", "0.10", "NaN", ""]);
        assert!(batch.columns().iter().all(|column| column.is_null(1)));
        assert!(super::batch(&schema, &[vec![]]).is_err());
        let wrong = texts(["x", "t", "1", "1", "1", ""]);
        assert!(super::batch(&schema, &[wrong]).is_err());
    }
}
