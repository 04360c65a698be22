//! Which rows of a batch come before a given one, found key by key: no code is made of a row about which an earlier key
//! decides.

use std::cmp::Ordering;

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::take;
use diligence_base::Result;
use diligence_storage::foreign_error::from_arrow;

use super::encoding::KeyEncoder;

impl KeyEncoder {
    /// The places of those of the rows that come before a row whose keys have these [`values`](Self::values).
    pub fn rows_before(&self, values: &[ArrayRef], columns: &[ArrayRef], rows: &[u32]) -> Result<Vec<u32>> {
        let (mut before, mut open) = (Vec::new(), (0..rows.len() as u32).collect::<Vec<_>>());
        for (key, (column, value)) in columns.iter().zip(values).enumerate() {
            if open.is_empty() {
                break;
            }
            let looked_at = open.iter().map(|&place| rows[place as usize]).collect::<Vec<_>>();
            let orders = self.compared(key, &rows_of(column, &looked_at)?, value)?;
            let places_of = |order: Ordering| rows_where(&orders, |&found| found == order);
            before.extend(places_of(Ordering::Less).into_iter().map(|place| open[place as usize]));
            open = places_of(Ordering::Equal).into_iter().map(|place| open[place as usize]).collect();
        }
        before.sort_unstable();
        Ok(before)
    }
}

/// The values of a column in these rows, which are different ones in ascending order.
pub(super) fn rows_of(column: &ArrayRef, rows: &[u32]) -> Result<ArrayRef> {
    if rows.len() == column.len() {
        return Ok(column.clone());
    }
    take(column.as_ref(), &UInt32Array::from(rows.to_vec()), None).map_err(from_arrow)
}

/// The numbers of the values that fulfil a condition, without a branch per value.
pub(super) fn rows_where<T>(values: &[T], condition: impl Fn(&T) -> bool) -> Vec<u32> {
    let mut rows = vec![0; values.len()];
    let mut kept = 0;
    for (row, value) in values.iter().enumerate() {
        rows[kept] = row as u32;
        kept += usize::from(condition(value));
    }
    rows.truncate(kept);
    rows
}
