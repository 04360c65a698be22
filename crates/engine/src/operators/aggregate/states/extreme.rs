//! What the least and the greatest values of a column have in common, whatever their type.

use std::any::Any;
use std::ops::Range;

use arrow::array::ArrayRef;
use diligence_base::Result;

use super::Placement;

/// The extremes of a column, for all groups.
pub(in super::super) trait MinMaxState: Send + Sync {
    /// Looks at a batch's values.
    fn update(&mut self, values: &ArrayRef, placement: Placement<'_>) -> Result<()>;
    /// Looks at another vector's extremes.
    fn merge(&mut self, other: &dyn MinMaxState, range: Range<usize>, placement: Placement<'_>) -> Result<()>;
    /// Groups up to `groups` exist.
    fn resize(&mut self, groups: usize);
    /// The extremes of `order`'s groups, in that order.
    fn permuted(&self, order: &[u32]) -> Box<dyn MinMaxState>;
    /// Forgets all groups.
    fn clear(&mut self);
    /// The extremes of groups `range`.
    fn output(&self, range: Range<usize>) -> Result<ArrayRef>;
    /// Extremes of the same kind out of what `output` gave.
    fn of_column(&self, column: &ArrayRef) -> Result<Box<dyn MinMaxState>>;
    /// Bytes that merging groups `range` into others adds at most, beside those of every group.
    fn text_bytes(&self, _range: Range<usize>) -> usize {
        0
    }
    /// Bytes held.
    fn bytes(&self) -> usize;
    /// Bytes held at most with so many groups, long strings that are still to come not included.
    fn bytes_ahead(&self, groups: usize) -> usize {
        (groups * self.bytes_per_group()).max(self.bytes())
    }
    /// Bytes of one more group.
    fn bytes_per_group(&self) -> usize;
    /// For merging with its like.
    fn as_any(&self) -> &dyn Any;
}
