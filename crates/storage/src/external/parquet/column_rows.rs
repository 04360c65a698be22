//! What the columns of a cluster have in common, however they are decoded.

use arrow::array::ArrayRef;
use arrow::buffer::BooleanBuffer;
use bytes::Bytes;
use diligence_base::{Error, Result};

/// The rows of a column, from the first to the last, each passed once.
pub(super) trait ColumnRows: Send {
    /// Passes rows without decoding them where possible.
    fn skip(&mut self, rows: usize) -> Result<()>;
    /// The next rows; an error if there are fewer.
    fn read(&mut self, rows: usize) -> Result<ArrayRef>;
    /// Of the next `selected.len()` rows the selected ones.
    fn read_selected(&mut self, selected: &BooleanBuffer) -> Result<ArrayRef>;
    /// With `pass` passes what was skipped, and looks for the next `rows` rows in what has been read. For columns that
    /// are read in steps.
    fn look_ahead(&mut self, _rows: usize, _pass: bool) -> Result<ColumnAhead> {
        Err(Error::bug("a column is read in steps that cannot be"))
    }
    /// Takes the bytes that come next of one that is read in steps.
    fn feed(&mut self, _bytes: &Bytes) {}
}

/// How a column that is read in steps stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ColumnAhead {
    /// Bytes behind what has been read that were passed with their page, and are not to be fed.
    pub passed_bytes: usize,
    /// Bytes that are missing behind them of the rows that were asked for, at least.
    pub missing_bytes: usize,
    /// Bytes of what has been read and not passed, as it is in the file.
    pub held_bytes: usize,
    /// Bytes of the dictionary, as it is kept, and of the longest page so far, when they are not compressed.
    pub decoded_bytes: usize,
    /// Bytes more while a dictionary that is ahead is taken: of one column at a time.
    pub passing_bytes: usize,
}

/// A column of which `at` rows are behind.
pub(super) struct OpenColumn {
    pub rows: Box<dyn ColumnRows>,
    pub at: usize,
}

impl OpenColumn {
    /// Passes the rows before `start`.
    pub fn skip_to(&mut self, start: usize) -> Result<()> {
        if self.at < start {
            self.rows.skip(start - self.at)?;
            self.at = start;
        }
        Ok(())
    }
}
