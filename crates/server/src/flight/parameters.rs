//! Values of parameters: rows of a client's columns, in the types that the statement wants.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use diligence_base::{Error, Result};

use crate::sqlstate;

/// Bytes of values that wait for a query at most.
const BOUND_BYTES_MAX: usize = 64 << 20;

/// Rows of values. A statement is run once with each.
#[derive(Clone)]
pub(super) struct Parameters(Vec<RecordBatch>);

impl Parameters {
    /// One row without values: a statement without parameters is run once.
    pub(super) fn none() -> Self {
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let empty = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options);
        Self(empty.into_iter().collect())
    }

    /// Rows of batches in the types that the statement wants.
    pub(super) fn new(batches: Vec<RecordBatch>) -> Self {
        Self(batches)
    }

    /// Fails with code 54000 if batches have too many bytes to wait for a query.
    pub(super) fn check(batches: &[RecordBatch]) -> Result<()> {
        if batches.iter().map(RecordBatch::get_array_memory_size).sum::<usize>() <= BOUND_BYTES_MAX {
            return Ok(());
        }
        let error = Error::resource("the values for one query have more than 64 MiB");
        Err(error.with_code(sqlstate::LIMIT).with_hint("ingest them into a temporary table, and join with that"))
    }

    /// The types of the values.
    pub(super) fn types(&self) -> Vec<DataType> {
        let fields = self.0.first().map(|batch| batch.schema());
        fields.iter().flat_map(|schema| schema.fields().iter()).map(|field| field.data_type().clone()).collect()
    }

    /// How many rows there are.
    pub(super) fn count(&self) -> usize {
        self.0.iter().map(RecordBatch::num_rows).sum()
    }

    /// The values of a row, as arrays of one row.
    pub(super) fn row(&self, mut number: usize) -> Option<Vec<ArrayRef>> {
        for batch in &self.0 {
            if number < batch.num_rows() {
                return Some(batch.columns().iter().map(|column| column.slice(number, 1)).collect());
            }
            number -= batch.num_rows();
        }
        None
    }
}

/// The type of values that the engine computes with, for those that clients have.
pub(super) fn of_engine(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Int8 | DataType::UInt8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 => DataType::Int64,
        DataType::UInt64 => DataType::Decimal128(20, 0),
        DataType::Float16 => DataType::Float32,
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::Null | DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => DataType::Binary,
        DataType::Date64 => DataType::Date32,
        DataType::Time32(_) | DataType::Time64(_) => DataType::Time64(TimeUnit::Nanosecond),
        DataType::Timestamp(_, None) => DataType::Timestamp(TimeUnit::Nanosecond, None),
        DataType::Timestamp(_, Some(_)) => DataType::Timestamp(TimeUnit::Nanosecond, Some("+00:00".into())),
        DataType::Duration(_) | DataType::Interval(_) => {
            DataType::Interval(arrow::datatypes::IntervalUnit::MonthDayNano)
        }
        DataType::Dictionary(_, values) => of_engine(values),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            DataType::List(Arc::new(Field::new("item", of_engine(item.data_type()), true)))
        }
        other => other.clone(),
    }
}

fn is_decimal(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Decimal128(..) | DataType::Decimal256(..))
}

/// A batch of values in these types. Fails with code 22P02 or 22003 if one has no value of its type.
pub(super) fn converted(batch: &RecordBatch, wanted: &[DataType]) -> Result<RecordBatch> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let columns = batch.columns().iter().zip(wanted).enumerate().map(|(index, (column, wanted))| {
        let own = of_engine(column.data_type());
        // A decimal's digits are its own: a statement cannot know how many a value has.
        let wanted = if is_decimal(wanted) && is_decimal(&own) { &own } else { wanted };
        if column.data_type() == wanted {
            return Ok(column.clone());
        }
        cast_with_options(column, wanted, &options).map_err(|error| {
            let code = if wanted.is_integer() && column.data_type().is_numeric() { "22003" } else { "22P02" };
            Error::value(format!("a value of ${} is no {wanted}: {error}", index + 1)).with_code(code)
        })
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let fields = columns
        .iter()
        .enumerate()
        .map(|(index, column)| Field::new(format!("${}", index + 1), column.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema, columns, &options)
        .map_err(|error| Error::bug(format!("values of parameters: {error}")))
}

/// Parameters as their clients are told of them.
pub(super) fn told(parameters: &[DataType]) -> Schema {
    let field = |(index, known): (usize, &DataType)| Field::new(format!("${}", index + 1), known.clone(), true);
    Schema::new(parameters.iter().enumerate().map(field).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Int64Array, StringArray};
    use arrow::datatypes::Int32Type;

    use super::*;

    #[test]
    fn values_take_the_types_that_are_wanted() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["2024-02-29", "2024-03-01"]));
        let batch = RecordBatch::try_from_iter_with_nullable([("a", numbers, true), ("b", texts, true)]).unwrap();
        let rows = Parameters::new(vec![converted(&batch, &[DataType::Int32, DataType::Date32]).unwrap()]);
        assert_eq!(rows.count(), 2);
        let first = rows.row(0).unwrap();
        assert_eq!((first[0].as_primitive::<Int32Type>().value(0), first[1].data_type()), (7, &DataType::Date32));
        assert!(rows.row(1).unwrap()[0].is_null(0) && rows.row(2).is_none());
        let error = converted(&batch, &[DataType::Int32, DataType::Int32]).unwrap_err();
        assert!(error.code() == Some("22P02") && error.message().contains("$2"), "{error}");
        let none = Parameters::none();
        assert_eq!((none.count(), none.row(0).map(|row| row.len())), (1, Some(0)));
    }
}
