//! What a function over frames must do.
//!
//! Where frames begin and where they end only moves forward. So a function gets its rows on two sides: once when they
//! enter frames, and once more when they leave them, and keeps only what lies around these two places; of the rows
//! between them it knows no more than sums, or so. Whatever depends on where a partition ends gets them when they come.

use arrow::array::ArrayRef;
use diligence_base::Result;

use super::frames::Stretch;

/// Where a function takes rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// When they come.
    Arrival,
    /// Where frames begin.
    Start,
    /// Where frames end.
    End,
    /// All rows of one frame, for this frame alone.
    Frame,
}

/// What a function needs before it can give a frame's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// The next rows on the side of the starts.
    Start,
    /// The next rows on the side of the ends.
    End,
    /// Rows of the frame, from this position on.
    Frame(u64),
}

/// Rows that a function takes.
pub(super) struct Arrival<'a> {
    /// The position of the first.
    pub first: u64,
    pub rows: usize,
    /// The rows among them at which a partition begins, ascending.
    pub starts: &'a [u32],
    /// The rows that a FILTER leaves, for functions that ask for them: values are of those only. Other functions find
    /// NULLs instead of the values of the rest.
    pub kept: Option<&'a [u32]>,
    /// The function's arguments, in their logical type or a narrow form of it.
    pub values: &'a [ArrayRef],
}

/// A function of the rows in a frame.
pub(super) trait FrameFunction: Send {
    /// Whether it takes rows on a side. On each side that it takes, they come in their order, from the first row of the
    /// input on; only those of single frames do not.
    fn takes(&self, side: Side) -> bool;
    /// Takes the next rows of a side.
    fn push(&mut self, side: Side, arrival: &Arrival<'_>) -> Result<()>;
    /// Forgets what neither this frame nor a later one needs. What is between rows that the frame has and rows that are
    /// to come is taken in, so that it need not be kept either.
    fn advance(&mut self, stretch: &Stretch) -> Result<()>;
    /// What it needs before the value of a frame can be asked for. If that is nothing, it needs nothing for the frames
    /// before, either.
    fn lacks(&self, stretch: &Stretch) -> Option<Need>;
    /// One value for each stretch, of which it lacks nothing. Starts and ends of frames never go back, from call to
    /// call either.
    fn evaluate(&mut self, stretches: &[Stretch]) -> Result<ArrayRef>;
    /// Whether it may take rows of single frames: then they stay.
    fn may_read_frames(&self) -> bool {
        false
    }
    /// Whether it wants only the rows that a FILTER leaves, instead of NULLs in place of the others.
    fn wants_kept(&self) -> bool {
        false
    }
    /// Bytes held.
    fn bytes(&self) -> usize;
}
