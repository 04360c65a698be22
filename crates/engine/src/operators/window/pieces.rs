//! Values of rows that frames to come look at, in the arrays that they came in.

use std::collections::VecDeque;
use std::ops::Range;

use arrow::array::{Array, ArrayRef};
use diligence_base::Result;

use crate::batch::{bytes_needed, compacted};

/// Columns of rows side by side.
#[derive(Default)]
pub(super) struct Pieces {
    pieces: VecDeque<WindowPiece>,
    bytes: usize,
}

struct WindowPiece {
    first: u64,
    columns: Vec<ArrayRef>,
    rows: usize,
    bytes: usize,
}

impl Pieces {
    /// Adds the columns of the rows from `first` on: those that come next. A slice of something large is copied.
    pub fn push(&mut self, first: u64, rows: usize, columns: &[ArrayRef]) -> Result<()> {
        if rows == 0 {
            return Ok(());
        }
        let columns = columns.iter().map(compacted).collect::<Result<Vec<_>>>()?;
        let bytes = columns.iter().map(|column| bytes_needed(column.as_ref())).sum();
        self.bytes += bytes;
        self.pieces.push_back(WindowPiece { first, columns, rows, bytes });
        Ok(())
    }

    /// The number of the piece with this row, and the row in it. Pieces are numbered from the oldest that is kept.
    pub fn find(&self, position: u64) -> Option<(usize, usize)> {
        let number = self.pieces.partition_point(|piece| piece.first + piece.rows as u64 <= position);
        let piece = self.pieces.get(number).filter(|piece| piece.first <= position)?;
        Some((number, (position - piece.first) as usize))
    }

    /// One column of each piece.
    pub fn column(&self, index: usize) -> impl Iterator<Item = &ArrayRef> {
        self.pieces.iter().map(move |piece| &piece.columns[index])
    }

    /// The columns of rows, piece by piece.
    pub fn slices(&self, rows: Range<u64>) -> impl Iterator<Item = Vec<ArrayRef>> {
        let (start, end) = (rows.start, rows.end);
        let from = self.pieces.partition_point(|piece| piece.first + piece.rows as u64 <= rows.start);
        let within = move |piece: &&WindowPiece| !rows.is_empty() && piece.first < rows.end;
        self.pieces.iter().skip(from).take_while(within).map(move |piece| {
            let start = start.max(piece.first) - piece.first;
            let end = end.min(piece.first + piece.rows as u64) - piece.first;
            piece.columns.iter().map(|column| column.slice(start as usize, (end - start) as usize)).collect()
        })
    }

    /// Forgets whole pieces before a position.
    pub fn forget_before(&mut self, position: u64) {
        while let Some(piece) = self.pieces.front()
            && piece.first + piece.rows as u64 <= position
        {
            self.bytes -= piece.bytes;
            self.pieces.pop_front();
        }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Values at positions side by side, the first of which are forgotten by and by.
pub(super) struct Sliding<T> {
    first: u64,
    values: Vec<T>,
}

impl<T: Copy> Sliding<T> {
    pub fn new() -> Self {
        Self { first: 0, values: Vec::new() }
    }

    pub fn push(&mut self, value: T) {
        self.values.push(value);
    }

    pub fn extend(&mut self, values: impl Iterator<Item = T>) {
        self.values.extend(values);
    }

    /// The position behind the last value.
    pub fn end(&self) -> u64 {
        self.first + self.values.len() as u64
    }

    pub fn get(&self, position: u64) -> T {
        self.values[(position - self.first) as usize]
    }

    pub fn slice(&self, positions: Range<u64>) -> &[T] {
        &self.values[(positions.start - self.first) as usize..(positions.end - self.first) as usize]
    }

    /// Forgets what lies before a position; moves what is left once that is no more than what is forgotten.
    pub fn forget_before(&mut self, position: u64) {
        let dead = (position.saturating_sub(self.first) as usize).min(self.values.len());
        if dead * 2 >= self.values.len() {
            self.values.drain(..dead);
            self.first += dead as u64;
        }
    }

    pub fn map<U>(self, change: impl Fn(T) -> U) -> Sliding<U> {
        Sliding { first: self.first, values: self.values.into_iter().map(change).collect() }
    }

    pub fn bytes(&self) -> usize {
        self.values.capacity() * size_of::<T>()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::Int64Type;

    use super::*;

    #[test]
    fn rows_are_found_over_the_borders_of_pieces() {
        let mut pieces = Pieces::default();
        for (first, values) in [(0, 0..3), (3, 3..5), (5, 5..9)] {
            let array: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
            pieces.push(first, array.len(), &[array]).unwrap();
        }
        let read = |pieces: &Pieces, rows: Range<u64>| {
            let slices = pieces.slices(rows).map(|slice| slice[0].as_primitive::<Int64Type>().values().to_vec());
            slices.flatten().collect::<Vec<i64>>()
        };
        assert_eq!(read(&pieces, 2..6), [2, 3, 4, 5]);
        assert_eq!(read(&pieces, 4..4), Vec::<i64>::new());
        let whole = pieces.bytes();
        pieces.forget_before(4);
        assert_eq!((pieces.find(3), pieces.find(6), pieces.find(9)), (Some((0, 0)), Some((1, 1)), None));
        assert!(pieces.find(1).is_none() && pieces.bytes() < whole);
        pieces.forget_before(9);
        assert_eq!(pieces.bytes(), 0);
    }

    #[test]
    fn what_slides_keeps_its_positions() {
        let mut sliding = Sliding::new();
        for position in 0..1000_u64 {
            sliding.push(position);
            sliding.forget_before(position.saturating_sub(9));
            assert_eq!(sliding.slice(position.saturating_sub(9)..position + 1).len(), 10.min(position as usize + 1));
            assert_eq!(sliding.get(position), position);
            assert!(sliding.values.len() <= 20);
        }
        assert_eq!(sliding.end(), 1000);
    }
}
