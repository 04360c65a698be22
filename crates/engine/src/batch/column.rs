//! One column of a batch: an array, seen through picks where rows were selected.

use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, UInt32Array, new_empty_array};
use arrow::compute::{CastOptions, cast_with_options, concat, take};
use arrow::datatypes::{DataType, Decimal64Type};
use diligence_base::Result;
use diligence_storage::foreign_error::from_arrow;

use super::bytes::{estimated_bytes, picked_bytes};

/// Row numbers into an array. NULL stands for a row of NULLs (an outer join's padding).
pub type Picks = Arc<UInt32Array>;

/// An array, or some rows of one.
#[derive(Clone, Debug)]
pub struct Column {
    values: ArrayRef,
    picks: Option<Picks>,
    /// The picked rows, once somebody asked for them; shared by the clones of this column.
    flat: Arc<OnceLock<ArrayRef>>,
}

impl Column {
    /// A column that is the array itself.
    pub fn flat_array(values: ArrayRef) -> Self {
        Self { values, picks: None, flat: Arc::default() }
    }

    /// The rows `picks` of an array.
    pub fn picked(values: ArrayRef, picks: Picks) -> Self {
        Self { values, picks: Some(picks), flat: Arc::default() }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.picks.as_ref().map_or(self.values.len(), |picks| picks.len())
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The physical type.
    pub fn data_type(&self) -> &DataType {
        self.values.data_type()
    }

    /// The array under the picks, and the picks: for operators that can work on values once and look results up by
    /// pick.
    pub fn parts(&self) -> (&ArrayRef, Option<&Picks>) {
        (&self.values, self.picks.as_ref())
    }

    /// The rows as an array of the physical type.
    pub fn flat(&self) -> Result<ArrayRef> {
        let Some(picks) = &self.picks else { return Ok(self.values.clone()) };
        if let Some(flat) = self.flat.get() {
            return Ok(flat.clone());
        }
        let flat = take(self.values.as_ref(), picks.as_ref(), None).map_err(from_arrow)?;
        Ok(self.flat.get_or_init(|| flat).clone())
    }

    /// Whether the rows are an array by themselves.
    pub fn is_flat(&self) -> bool {
        self.picks.is_none() || self.flat.get().is_some()
    }

    /// `rows` rows from `offset`.
    pub fn slice(&self, offset: usize, rows: usize) -> Self {
        if let (Some(picks), None) = (&self.picks, self.flat.get()) {
            return Self::picked(self.values.clone(), Arc::new(picks.slice(offset, rows)));
        }
        let values = self.flat.get().unwrap_or(&self.values);
        Self::flat_array(values.slice(offset, rows))
    }

    /// Bytes of the rows when flat: what a reservation counts.
    pub fn bytes(&self) -> usize {
        let (values, picks) = self.known();
        picked_bytes(values, picks)
    }

    /// About the same, without looking at every string.
    pub fn bytes_estimated(&self) -> usize {
        let (values, picks) = self.known();
        estimated_bytes(values, picks)
    }

    fn known(&self) -> (&ArrayRef, Option<&UInt32Array>) {
        match self.flat.get() {
            Some(flat) => (flat, None),
            None => (&self.values, self.picks.as_deref()),
        }
    }
}

/// Picks the same rows of several columns; picks that columns share are composed once.
pub(super) fn pick_all(columns: &[Column], rows: &UInt32Array) -> Result<Vec<Column>> {
    let fresh: Picks = Arc::new(rows.clone());
    let mut composed: Vec<(Picks, Picks)> = Vec::new();
    columns
        .iter()
        .map(|column| {
            let Some(picks) = &column.picks else { return Ok(Column::picked(column.values.clone(), fresh.clone())) };
            if let Some(flat) = column.flat.get() {
                return Ok(Column::picked(flat.clone(), fresh.clone()));
            }
            if let Some((_, done)) = composed.iter().find(|(old, _)| Arc::ptr_eq(old, picks)) {
                return Ok(Column::picked(column.values.clone(), done.clone()));
            }
            let both = take(picks.as_ref(), rows, None).map_err(from_arrow)?;
            let both: Picks = Arc::new(arrow::array::AsArray::as_primitive(both.as_ref()).clone());
            composed.push((picks.clone(), both.clone()));
            Ok(Column::picked(column.values.clone(), both))
        })
        .collect()
}

/// The array in its logical type: unchanged if it has it, widened or decoded if it is a narrow form of it.
pub fn to_logical(array: &ArrayRef, logical: &DataType) -> Result<ArrayRef> {
    if array.data_type() == logical {
        return Ok(array.clone());
    }
    if let (DataType::Decimal64(_, narrow_scale), DataType::Decimal128(precision, scale)) = (array.data_type(), logical)
        && narrow_scale == scale
    {
        // The narrow precision says nothing about the values, so they are not measured against either precision.
        let wide: Decimal128Array = array.as_primitive::<Decimal64Type>().unary(i128::from);
        return Ok(Arc::new(wide.with_precision_and_scale(*precision, *scale).map_err(from_arrow)?));
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(array, logical, &options).map_err(from_arrow)
}

/// The arrays one after another. Arrays of one column may come in different physical forms; then all are made logical.
pub fn concat_arrays(arrays: &[ArrayRef], logical: &DataType) -> Result<ArrayRef> {
    let Some(first) = arrays.first() else { return Ok(new_empty_array(logical)) };
    if arrays.len() == 1 {
        return Ok(first.clone());
    }
    let same = arrays.iter().all(|array| array.data_type() == first.data_type());
    let mixed;
    let arrays = if same && !matches!(first.data_type(), DataType::Dictionary(..)) {
        arrays
    } else {
        mixed = arrays.iter().map(|array| to_logical(array, logical)).collect::<Result<Vec<_>>>()?;
        &mixed
    };
    let views = arrays.iter().map(|array| array.as_ref()).collect::<Vec<_>>();
    concat(&views).map_err(from_arrow)
}
