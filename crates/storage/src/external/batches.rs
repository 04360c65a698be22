//! Windows over decoded batches, for formats that decode all wanted columns at once.

use arrow::array::{Array, ArrayRef};
use arrow::buffer::BooleanBuffer;
use diligence_base::{Error, Result};

use super::selection::filter_array;
use super::sieve::{Windows, columns_of};
use crate::{DecodeRequest, SharedItem};

/// Decodes batch after batch.
pub(crate) trait BatchSource: Send {
    /// The next batch: the columns that the source was made for, in that order, in the table's types, and its rows.
    fn next_batch(&mut self) -> Result<Option<(Vec<ArrayRef>, usize)>>;
}

/// The batches of a source, window by window.
pub(crate) struct BatchWindows<S> {
    source: S,
    /// The columns of the batches, by position in the table's schema.
    columns: Vec<usize>,
    batch: Vec<ArrayRef>,
    batch_rows: usize,
    /// The window within the batch.
    start: usize,
    rows: usize,
}

impl<S: BatchSource> BatchWindows<S> {
    /// Windows over a source made for these columns.
    pub fn new(source: S, columns: Vec<usize>) -> Self {
        Self { source, columns, batch: Vec::new(), batch_rows: 0, start: 0, rows: 0 }
    }
}

impl<S: BatchSource> Windows for BatchWindows<S> {
    fn advance(&mut self, rows_max: usize) -> Result<usize> {
        self.start += self.rows;
        self.rows = 0;
        while self.start >= self.batch_rows {
            let Some((batch, rows)) = self.source.next_batch()? else { return Ok(0) };
            (self.batch, self.batch_rows, self.start) = (batch, rows, 0);
        }
        self.rows = rows_max.min(self.batch_rows - self.start);
        Ok(self.rows)
    }

    fn column(&mut self, column: usize, selected: Option<&BooleanBuffer>) -> Result<ArrayRef> {
        let position = self.columns.iter().position(|&c| c == column);
        let position = position.ok_or_else(|| Error::bug(format!("column {column} was not decoded")))?;
        let array = &self.batch[position];
        let window = if self.rows == array.len() { array.clone() } else { array.slice(self.start, self.rows) };
        match selected {
            None => Ok(window),
            Some(selected) => filter_array(&window, selected),
        }
    }
}

/// Of these columns, those that are not decoded already.
pub(crate) fn missing_columns_of(request: &DecodeRequest) -> Vec<usize> {
    let is_missing = |column: &usize| {
        let item = SharedItem::Column(*column);
        request.shared.as_ref().is_none_or(|shared| shared.windows(item).is_none())
    };
    columns_of(request).into_iter().filter(is_missing).collect()
}
