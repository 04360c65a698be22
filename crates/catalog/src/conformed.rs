//! Rows as a table has them: its types, its columns, no NULL where none may be, texts in few buffers.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use diligence_base::{About, Error, Result};
use diligence_storage::foreign_error::from_arrow;
use diligence_types::SqlType;
use diligence_types::text::messages::{self, shown_as};

use crate::RelationName;

/// The error for a NULL where none may be.
fn null_in(column: &str, table: &RelationName, batch: &RecordBatch, row: usize) -> Error {
    let message =
        format!("null value in column \"{column}\" of relation \"{}\" violates not-null constraint", table.name);
    let about = About {
        schema: Some(table.schema.clone()),
        table: Some(table.name.clone()),
        column: Some(column.to_owned()),
        ..About::default()
    };
    Error::value(message).with_code("23502").with_detail(failing_row(batch, row)).with_about(about)
}

/// What a message says of a row that a constraint refuses.
pub fn failing_row(batch: &RecordBatch, row: usize) -> String {
    let schema = batch.schema();
    let columns = batch.columns().iter().zip(schema.fields());
    messages::failing_row(columns.map(|(column, field)| shown_as(column, row, SqlType::of_field(field).as_ref())))
}

/// The logical types that a table's columns have: `Utf8View` for strings, plain values for dictionaries and run-end
/// encodings, `Decimal128` for narrow decimals. Binaries stay as they are: DataFusion does not mix them with views
/// everywhere.
pub fn table_schema(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| {
        let data_type = table_type(field.data_type());
        Field::new(field.name(), data_type, field.is_nullable()).with_metadata(field.metadata().clone())
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn table_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::Dictionary(_, values) => table_type(values),
        DataType::RunEndEncoded(_, values) => table_type(values.data_type()),
        other => other.clone(),
    }
}

/// Bytes of texts that a buffer of views has, at least, where there are several.
const BUFFER_BYTES_MIN: usize = 64 << 10;

/// Texts in few buffers. Views that are put behind others bring theirs along, also those of which they need little or
/// nothing: rows that are changed again and again would gather ever more.
pub(crate) fn gathered(column: &ArrayRef) -> ArrayRef {
    let long = |views: &[u128]| {
        let lengths = views.iter().map(|view| *view as u32 as usize);
        lengths.filter(|length| *length > INLINE_BYTES_MAX).sum::<usize>()
    };
    if let Some(texts) = column.as_string_view_opt()
        && texts.data_buffers().len() > 1 + long(texts.views()) / BUFFER_BYTES_MIN
    {
        return Arc::new(texts.gc());
    }
    if let Some(bytes) = column.as_binary_view_opt()
        && bytes.data_buffers().len() > 1 + long(bytes.views()) / BUFFER_BYTES_MIN
    {
        return Arc::new(bytes.gc());
    }
    column.clone()
}

/// Bytes that a view has in itself, at most.
const INLINE_BYTES_MAX: usize = 12;

/// The batch with exactly the schema's types. Fails where a value does not fit.
pub(crate) fn conform(batch: &RecordBatch, schema: &SchemaRef, name: &RelationName) -> Result<RecordBatch> {
    if batch.num_columns() != schema.fields().len() {
        return Err(Error::bug(format!(
            "rows of {} columns for a table of {}",
            batch.num_columns(),
            schema.fields().len()
        )));
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let columns = batch.columns().iter().zip(schema.fields()).map(|(column, field)| {
        if !field.is_nullable()
            && let Some(row) = (0..column.len()).find(|row| column.null_count() > 0 && column.is_null(*row))
        {
            return Err(null_in(field.name(), name, batch, row));
        }
        if column.data_type() == field.data_type() {
            return Ok(gathered(column));
        }
        cast_with_options(column, field.data_type(), &options).map(|column| gathered(&column)).map_err(from_arrow)
    });
    let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options).map_err(from_arrow)
}

/// A batch with other columns: those of these places, or NULL.
pub(crate) fn moved(batch: &RecordBatch, places: &[Option<usize>], schema: &SchemaRef) -> Result<RecordBatch> {
    let rows = batch.num_rows();
    let column = |(place, field): (&Option<usize>, &Arc<Field>)| match place {
        Some(place) => batch.column(*place).clone(),
        None => new_null_array(field.data_type(), rows),
    };
    let columns = places.iter().zip(schema.fields()).map(column).collect::<Vec<_>>();
    let fields = columns.iter().zip(schema.fields());
    let fields = fields.map(|(column, field)| Field::new(field.name(), column.data_type().clone(), true));
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let nullable = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    RecordBatch::try_new_with_options(nullable, columns, &options).map_err(from_arrow)
}

#[cfg(test)]
mod tests {
    use arrow::array::StringViewArray;

    use super::*;

    #[test]
    fn texts_that_are_joined_again_and_again_keep_few_buffers() {
        let long = |text: &str| StringViewArray::from_iter_values([text.repeat(20).as_str(), "short"]);
        let mut texts: ArrayRef = Arc::new(long("a"));
        for round in 0..12 {
            let joined = arrow::compute::concat(&[&*texts, &*texts.slice(0, 1), &long("b")]).unwrap();
            let expected = joined.as_string_view().iter().map(|text| text.unwrap().to_owned()).collect::<Vec<_>>();
            texts = gathered(&joined);
            let now = texts.as_string_view();
            assert!(now.iter().map(Option::unwrap).eq(expected.iter()), "{round}");
            assert!(now.data_buffers().len() <= 1, "{round}: {}", now.data_buffers().len());
        }
        // Those that need their buffers keep them.
        let large = StringViewArray::from_iter_values((0..2).map(|_| "x".repeat(BUFFER_BYTES_MIN)));
        let joined = arrow::compute::concat(&[&large as &dyn Array, &large]).unwrap();
        let buffers = joined.as_string_view().data_buffers().len();
        assert_eq!(gathered(&joined).as_string_view().data_buffers().len(), buffers);
    }
}
