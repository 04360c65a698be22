//! A batch: columns of equal length, at most [`BATCH_ROWS_MAX`](diligence_base::limits::BATCH_ROWS_MAX) rows.
//!
//! A column is an Arrow array, seen through *picks* (a selection vector) where rows were selected: row `i` of the
//! column is value `picks[i]` of the array, or NULL where the pick is NULL. A filter or a join only makes new picks;
//! values move when somebody asks for the flat array, and columns that nobody asks for never move. Columns that were
//! picked together share their picks, so picking again composes one array of row numbers per group of columns.
//!
//! Invariants:
//! * The physical type of a column may be narrower than its logical type: `Decimal64(min(p, 18), s)` for `Decimal128(p,
//!   s)` where the values fit in 64 bits (the scale is always the same; the narrow precision says nothing about the
//!   values), a dictionary for its values. It may differ from batch to batch. [`to_logical`] widens. Everything that
//!   crosses into DataFusion is logical.
//! * A batch passed between operators has at least one row.

mod bytes;
mod column;
pub(crate) mod floats;
mod magnitude;
mod nested;
mod nulls;
pub(crate) mod prefetch;
pub(crate) mod views;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::datatypes::SchemaRef;
use diligence_base::{Error, Result};
use diligence_storage::Chunk;
use diligence_storage::foreign_error::from_arrow;

pub use bytes::{bytes_needed, compacted};
pub(crate) use bytes::{estimated_bytes, has_known_width};
pub use column::{Column, Picks, concat_arrays, to_logical};
pub(crate) use magnitude::magnitude_bound;
pub(crate) use nulls::{nulls_of, without_nulls};

/// Columns of equal length.
#[derive(Clone, Debug)]
pub struct Batch {
    columns: Vec<Column>,
    rows: usize,
}

/// Which rows of a batch a condition keeps.
#[derive(Clone, Debug)]
pub enum Selection {
    /// Every row.
    All,
    /// No row.
    None,
    /// These rows, ascending.
    Rows(UInt32Array),
}

impl Batch {
    /// A batch of columns, each with `rows` rows.
    pub fn new(columns: Vec<Column>, rows: usize) -> Self {
        debug_assert!(columns.iter().all(|column| column.len() == rows), "columns of unequal length");
        Self { columns, rows }
    }

    /// A batch of flat arrays.
    pub fn from_arrays(arrays: Vec<ArrayRef>, rows: usize) -> Self {
        Self::new(arrays.into_iter().map(Column::flat_array).collect(), rows)
    }

    /// The batch of a record batch's columns.
    pub fn from_record_batch(batch: &RecordBatch) -> Self {
        Self::from_arrays(batch.columns().to_vec(), batch.num_rows())
    }

    /// The record batch of these columns in their logical types. Fails if the types do not fit the schema.
    pub fn to_record_batch(&self, schema: &SchemaRef) -> Result<RecordBatch> {
        if schema.fields().len() != self.columns.len() {
            return Err(Error::bug(format!(
                "a batch of {} columns met a schema of {}",
                self.columns.len(),
                schema.fields().len()
            )));
        }
        let arrays = schema
            .fields()
            .iter()
            .zip(&self.columns)
            .map(|(field, column)| to_logical(&column.flat()?, field.data_type()))
            .collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        RecordBatch::try_new_with_options(schema.clone(), arrays, &options).map_err(from_arrow)
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// All columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// One column.
    pub fn column(&self, index: usize) -> &Column {
        &self.columns[index]
    }

    /// One column with its picks applied, in its physical type. Computed at most once per batch.
    pub fn flat(&self, index: usize) -> Result<ArrayRef> {
        self.columns[index].flat()
    }

    /// These columns, in this order.
    pub fn project(&self, columns: &[usize]) -> Self {
        Self { columns: columns.iter().map(|&index| self.columns[index].clone()).collect(), rows: self.rows }
    }

    /// The rows with these numbers, in this order; a NULL pick gives a row of NULLs. No value moves.
    pub fn pick(&self, picks: &UInt32Array) -> Result<Self> {
        Ok(Self { columns: column::pick_all(&self.columns, picks)?, rows: arrow::array::Array::len(picks) })
    }

    /// The rows that a selection keeps, or `None` if it keeps none.
    pub fn select(self, selection: &Selection) -> Result<Option<Self>> {
        match selection {
            Selection::All => Ok(Some(self)),
            Selection::None => Ok(None),
            Selection::Rows(rows) => self.pick(rows).map(Some),
        }
    }

    /// `rows` rows from `offset`. No value moves.
    pub fn slice(&self, offset: usize, rows: usize) -> Self {
        Self { columns: self.columns.iter().map(|column| column.slice(offset, rows)).collect(), rows }
    }

    /// This batch's columns followed by another's.
    pub fn beside(mut self, other: Self) -> Self {
        debug_assert_eq!(self.rows, other.rows);
        self.columns.extend(other.columns);
        self
    }

    /// The same rows with every column flat: what is stored must not keep other rows alive.
    pub fn flatten(&self) -> Result<Self> {
        let arrays = self.columns.iter().map(Column::flat).collect::<Result<Vec<_>>>()?;
        Ok(Self::from_arrays(arrays, self.rows))
    }

    /// Bytes of the flat columns when they are stored on their own.
    pub fn bytes(&self) -> usize {
        self.columns.iter().map(Column::bytes).sum()
    }

    /// Bytes that the columns will have once they are flat which are only seen through picks so far.
    pub fn picked_bytes(&self) -> usize {
        self.columns.iter().filter(|column| !column.is_flat()).map(Column::bytes).sum()
    }

    /// About how many bytes the flat columns have; what a profile shows. Strings are not looked at one by one.
    pub fn bytes_estimated(&self) -> usize {
        self.columns.iter().map(Column::bytes_estimated).sum()
    }
}

impl From<Chunk> for Batch {
    fn from(chunk: Chunk) -> Self {
        Self::from_arrays(chunk.columns, chunk.rows)
    }
}

impl Selection {
    /// The rows where the mask is true; NULL counts as false.
    pub fn from_mask(mask: &arrow::array::BooleanArray) -> Self {
        use arrow::array::Array;
        let merged;
        let bits = match mask.nulls() {
            Some(nulls) if nulls.null_count() > 0 => {
                merged = mask.values() & nulls.inner();
                &merged
            }
            _ => mask.values(),
        };
        let kept = bits.count_set_bits();
        if kept == 0 {
            Selection::None
        } else if kept == bits.len() {
            Selection::All
        } else {
            let mut rows = Vec::with_capacity(kept);
            rows.extend(bits.set_indices_u32());
            Selection::Rows(UInt32Array::from(rows))
        }
    }

    /// How many of `total` rows are kept.
    pub fn rows(&self, total: usize) -> usize {
        match self {
            Selection::All => total,
            Selection::None => 0,
            Selection::Rows(rows) => arrow::array::Array::len(rows),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Array, AsArray, BooleanArray, Decimal64Array, Int64Array, StringArray};
    use arrow::datatypes::{DataType, Decimal128Type, Field, Int64Type, Schema};

    use super::*;

    fn numbers() -> Batch {
        let a: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3), Some(4)]));
        let b: ArrayRef = Arc::new(StringArray::from(vec!["w", "x", "y", "z"]));
        Batch::from_arrays(vec![a, b], 4)
    }

    #[test]
    fn picks_compose_and_a_null_pick_is_a_null_row() {
        let once = numbers().pick(&UInt32Array::from(vec![3, 1, 0])).unwrap();
        let twice = once.pick(&UInt32Array::from(vec![Some(2), None, Some(0)])).unwrap();
        let a = twice.flat(0).unwrap();
        assert_eq!(a.as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), vec![Some(1), None, Some(4)]);
        let b = twice.flat(1).unwrap();
        assert_eq!(b.as_string::<i32>().iter().collect::<Vec<_>>(), vec![Some("w"), None, Some("z")]);
    }

    #[test]
    fn a_mask_with_nulls_selects_only_true() {
        let mask = BooleanArray::from(vec![Some(true), None, Some(false), Some(true)]);
        let Selection::Rows(rows) = Selection::from_mask(&mask) else { panic!("some rows are kept") };
        assert_eq!(rows.values().to_vec(), vec![0, 3]);
        assert!(matches!(Selection::from_mask(&BooleanArray::from(vec![true, true])), Selection::All));
        assert!(matches!(Selection::from_mask(&BooleanArray::from(vec![None, Some(false)])), Selection::None));
    }

    #[test]
    fn a_narrow_decimal_widens_on_the_way_out() {
        let narrow = Decimal64Array::from(vec![Some(123), None]).with_precision_and_scale(15, 2).unwrap();
        let schema = Arc::new(Schema::new(vec![Field::new("d", DataType::Decimal128(15, 2), true)]));
        let out = Batch::from_arrays(vec![Arc::new(narrow)], 2).to_record_batch(&schema).unwrap();
        let wide = out.column(0).as_primitive::<Decimal128Type>();
        assert_eq!(wide.value(0), 123);
        assert!(wide.is_null(1));
    }

    #[test]
    fn values_beyond_the_narrow_precision_widen_unharmed() {
        let values = vec![i64::MAX, i64::MIN, 0];
        let narrow = Decimal64Array::from(values.clone()).with_precision_and_scale(18, 4).unwrap();
        let wide = to_logical(&(Arc::new(narrow) as ArrayRef), &DataType::Decimal128(38, 4)).unwrap();
        assert_eq!(*wide.data_type(), DataType::Decimal128(38, 4));
        let expected = values.into_iter().map(i128::from).collect::<Vec<_>>();
        assert_eq!(wide.as_primitive::<Decimal128Type>().values().to_vec(), expected);
    }

    #[test]
    fn a_slice_of_picked_columns_keeps_its_rows() {
        let picked = numbers().pick(&UInt32Array::from(vec![0, 2, 3])).unwrap().slice(1, 2);
        assert_eq!(picked.rows(), 2);
        let a = picked.flat(0).unwrap();
        assert_eq!(a.as_primitive::<Int64Type>().values().to_vec(), vec![3, 4]);
    }
}
