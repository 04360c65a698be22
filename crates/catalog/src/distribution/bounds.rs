//! Bounds between fragments as statistics: which of them a condition may want.

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array, UInt64Array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Int64Type};
use diligence_storage::zones::ZoneMap;

use super::values::STRICT;

/// What bounds say of the fragments between them.
pub(super) struct RangeStatistics<'a> {
    /// The column of the key.
    pub(super) place: usize,
    /// The least value of the second fragment and of those behind it.
    pub(super) bounds: &'a ArrayRef,
}

impl RangeStatistics<'_> {
    /// The bounds as those of the fragments at `places`; floats have none, since nothing is beyond NaN.
    fn at(&self, column: usize, places: impl Iterator<Item = Option<usize>>) -> Option<ArrayRef> {
        if column != self.place || self.bounds.data_type().is_floating() {
            return None;
        }
        let places = UInt32Array::from_iter(places.map(|place| place.map(|place| place as u32)));
        arrow::compute::take(self.bounds, &places, None).ok()
    }
}

impl ZoneMap for RangeStatistics<'_> {
    fn zones(&self) -> usize {
        self.bounds.len() + 1
    }

    fn least(&self, column: usize) -> Option<ArrayRef> {
        self.at(column, (0..self.zones()).map(|fragment| fragment.checked_sub(1)))
    }

    fn greatest(&self, column: usize) -> Option<ArrayRef> {
        let last = self.bounds.len();
        let bounds = self.at(column, (0..=last).map(|fragment| (fragment < last).then_some(fragment)))?;
        // All values are less than the bound; of whole numbers the largest one is known.
        let below = |bounds: &ArrayRef| {
            let numbers = cast_with_options(bounds, &DataType::Int64, &STRICT).ok()?;
            let below = numbers.as_primitive::<Int64Type>().unary_opt::<_, Int64Type>(|bound| bound.checked_sub(1));
            cast_with_options(&below, bounds.data_type(), &CastOptions::default()).ok()
        };
        match bounds.data_type().is_integer() {
            true => below(&bounds).or(Some(bounds)),
            false => Some(bounds),
        }
    }

    fn nulls(&self, _column: usize) -> Option<UInt64Array> {
        None
    }

    fn rows(&self) -> Option<UInt64Array> {
        None
    }
}
