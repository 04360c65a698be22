//! Windows with one more column: the numbers of their rows.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use diligence_base::Result;

use crate::external::selection::filter_array;
use crate::external::sieve::Windows;
use crate::memory::{ROW_NUMBERS, RowNumbers};
use crate::{Fetch, Fetched, RowFilter};

/// A table's columns with the numbers of its rows behind them.
pub(crate) fn numbered_schema(schema: &SchemaRef) -> SchemaRef {
    let mut fields = schema.fields().to_vec();
    fields.push(Arc::new(Field::new(ROW_NUMBERS, DataType::Int64, false)));
    Arc::new(Schema::new(fields))
}

/// Windows with the numbers of their rows.
pub(crate) struct NumberedWindows<W> {
    pub inner: W,
    pub numbers: RowNumbers,
    /// Which column they are.
    pub column: usize,
    pub start: usize,
    pub rows: usize,
}

impl<W: Windows> Windows for NumberedWindows<W> {
    fn advance(&mut self, rows_max: usize) -> Result<usize> {
        self.start += self.rows;
        self.rows = self.inner.advance(rows_max)?;
        Ok(self.rows)
    }

    fn column(&mut self, column: usize, selected: Option<&BooleanBuffer>) -> Result<ArrayRef> {
        if column != self.column {
            return self.inner.column(column, selected);
        }
        let numbers: ArrayRef = Arc::new(self.numbers.slice(self.start, self.rows));
        selected.map_or(Ok(numbers.clone()), |selected| filter_array(&numbers, selected))
    }

    fn judged(&mut self, place: usize, filter: &dyn RowFilter, left: usize) -> Result<Option<BooleanBuffer>> {
        if filter.columns() == [self.column] { Ok(None) } else { self.inner.judged(place, filter, left) }
    }

    fn bytes(&self) -> usize {
        self.inner.bytes()
    }

    fn missing(&mut self, rows_max: usize, columns: &[usize]) -> Result<Option<Fetch>> {
        self.inner.missing(rows_max, columns)
    }

    fn missing_here(&mut self, columns: &[usize]) -> Result<Option<Fetch>> {
        self.inner.missing_here(columns)
    }

    fn bring(&mut self, read: Fetched) -> Result<()> {
        self.inner.bring(read)
    }

    const MAY_TRY_AGAIN: bool = W::MAY_TRY_AGAIN;
}
