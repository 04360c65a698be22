//! Batches in the types that the readers of Arrow's streams know. DuckDB and Polars refuse a stream with a decimal of
//! 256 bits, which an average is.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use diligence_base::{Error, Result};
use diligence_db::postgres::UNBOUNDED_NUMERIC;

/// Digits of a `numeric` without parentheses in Arrow's streams, and those behind the point: as in Parquet files.
const NUMERIC: (u8, i8) = (38, 18);

/// The columns as a stream has them: a `numeric` without parentheses has 38 digits, 18 of them behind the point.
pub fn exchanged_schema(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(exchanged_field);
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}

fn exchanged_field(field: &FieldRef) -> FieldRef {
    match exchanged_type(field.data_type()) {
        Some(ty) => Arc::new(Field::clone(field).with_data_type(ty)),
        None => field.clone(),
    }
}

/// The type that a stream has for a type, if it is another one.
fn exchanged_type(ty: &DataType) -> Option<DataType> {
    let inside = |field: &FieldRef| exchanged_type(field.data_type()).map(|_| exchanged_field(field));
    match ty {
        DataType::Decimal256(precision, scale) if (*precision, *scale) == UNBOUNDED_NUMERIC => {
            Some(DataType::Decimal128(NUMERIC.0, NUMERIC.1))
        }
        DataType::List(item) => inside(item).map(DataType::List),
        DataType::Map(entries, is_sorted) => inside(entries).map(|entries| DataType::Map(entries, *is_sorted)),
        DataType::Struct(fields) => {
            let is_other = fields.iter().any(|field| exchanged_type(field.data_type()).is_some());
            is_other.then(|| DataType::Struct(fields.iter().map(exchanged_field).collect()))
        }
        _ => None,
    }
}

/// The batch with these columns, whose types are its own or those of [`exchanged_schema`]. What is behind the digits of
/// a `numeric` is rounded. Fails with kind `Value` and 22003 if a value is too large.
pub fn exchanged(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    if batch.schema_ref() == schema {
        return Ok(batch.clone());
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let columns = batch.columns().iter().zip(schema.fields()).map(|(column, field)| {
        if column.data_type() == field.data_type() {
            return Ok(column.clone());
        }
        cast_with_options(column, field.data_type(), &options).map_err(|error| {
            let message = format!("a value of column '{}' cannot be written: {error}", field.name());
            let (digits, behind) = NUMERIC;
            let hint = format!(
                "a numeric without parentheses has {digits} digits in Arrow, {behind} of them behind the point; \
                 cast it to a numeric with others, or to text"
            );
            Error::value(message).with_code("22003").with_hint(hint)
        })
    });
    let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
        .map_err(|error| Error::value(format!("a value cannot be written: {error}")))
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Decimal256Array, ListArray, StructArray};
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::{Decimal128Type, i256};

    use super::*;

    fn numerics(values: &[Option<(i128, u32)>]) -> ArrayRef {
        let value = |(digits, zeros): (i128, u32)| {
            i256::from_i128(digits).wrapping_mul(i256::from_i128(10).wrapping_pow(zeros))
        };
        let values = Decimal256Array::from(values.iter().map(|said| said.map(value)).collect::<Vec<_>>());
        Arc::new(values.with_precision_and_scale(UNBOUNDED_NUMERIC.0, UNBOUNDED_NUMERIC.1).unwrap())
    }

    #[test]
    fn numerics_have_38_digits_also_within_lists_and_structs() {
        let plain = numerics(&[Some((15, 37)), None, Some((-25, 19))]);
        let item = Arc::new(Field::new("item", plain.data_type().clone(), true));
        let lists = ListArray::new(item, OffsetBuffer::from_lengths([1, 0, 2]), plain.clone(), None);
        let field = Arc::new(Field::new("x", plain.data_type().clone(), true));
        let structs = StructArray::new(vec![field].into(), vec![plain.clone()], None);
        let columns: [(&str, ArrayRef); 3] = [("n", plain), ("l", Arc::new(lists)), ("s", Arc::new(structs))];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let schema = exchanged_schema(&batch.schema());
        let read = exchanged(&batch, &schema).unwrap();
        // The third is 2.5 of the last digit that is kept, and rounded away from zero.
        let expected: [Option<i128>; 3] = [Some(1_500_000_000_000_000_000), None, Some(-3)];
        let of = |array: &ArrayRef| array.as_primitive::<Decimal128Type>().iter().collect::<Vec<_>>();
        assert_eq!(of(read.column(0)), expected);
        assert_eq!(of(read.column(1).as_list::<i32>().values()), expected);
        assert_eq!(of(read.column(2).as_struct().column(0)), expected);
        assert_eq!(read.schema(), exchanged_schema(&read.schema()));
    }

    #[test]
    fn numerics_that_are_too_large_say_what_to_do() {
        let batch = RecordBatch::try_from_iter([("n", numerics(&[Some((1, 38 + 20))]))]).unwrap();
        let error = exchanged(&batch, &exchanged_schema(&batch.schema())).unwrap_err();
        assert_eq!(error.code(), Some("22003"));
        assert!(error.hint().unwrap().contains("cast it"), "{error}");
        let explicit = DataType::Decimal256(50, 2);
        let batch = RecordBatch::new_empty(Arc::new(Schema::new(vec![Field::new("n", explicit.clone(), true)])));
        assert_eq!(exchanged_schema(&batch.schema()).field(0).data_type(), &explicit);
    }
}
