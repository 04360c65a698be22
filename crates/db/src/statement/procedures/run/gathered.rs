//! The rows that a procedure gives.

use arrow::array::{Array, ArrayRef};
use arrow::compute::concat;
use diligence_base::Result;
use diligence_memory::Reservation;
use diligence_storage::foreign_error::from_arrow;

/// Rows that are given one by one are put together when they are so many.
const ROWS_TOGETHER: usize = 1024;

/// Rows, as columns of any number of them, in the order in which they are given.
pub(super) struct Gathered {
    parts: Vec<Vec<ArrayRef>>,
    /// How many parts, the last ones, are of one row.
    single: usize,
    reservation: Reservation,
}

impl Gathered {
    /// None yet. What they hold is reserved here.
    pub(super) fn new(reservation: Reservation) -> Self {
        Self { parts: Vec::new(), single: 0, reservation }
    }

    /// The columns of the first part, if there is any.
    pub(super) fn first(&self) -> Option<&Vec<ArrayRef>> {
        self.parts.first()
    }

    /// More rows. Fails with kind `Resource` if there is no memory for them.
    pub(super) fn push(&mut self, columns: Vec<ArrayRef>) -> Result<()> {
        let is_single = columns.first().is_some_and(|column| column.len() == 1);
        if !is_single {
            self.put_together()?;
            self.reserve(&columns)?;
        }
        self.parts.push(columns);
        self.single = if is_single { self.single + 1 } else { 0 };
        if self.single == ROWS_TOGETHER {
            self.put_together()?;
        }
        Ok(())
    }

    fn put_together(&mut self) -> Result<()> {
        if self.single > 1 {
            let rows = self.parts.split_off(self.parts.len() - self.single);
            let columns = together(&rows)?;
            self.reserve(&columns)?;
            self.parts.push(columns);
        }
        self.single = 0;
        Ok(())
    }

    fn reserve(&mut self, columns: &[ArrayRef]) -> Result<()> {
        self.reservation.grow(columns.iter().map(|column| column.get_array_memory_size()).sum())
    }

    /// All of them; `None` if nothing was given.
    pub(super) fn columns(&self) -> Result<Option<Vec<ArrayRef>>> {
        if self.parts.is_empty() { Ok(None) } else { together(&self.parts).map(Some) }
    }
}

fn together(parts: &[Vec<ArrayRef>]) -> Result<Vec<ArrayRef>> {
    let width = parts.first().map_or(0, Vec::len);
    let column = |place: usize| {
        let values = parts.iter().map(|columns| columns[place].as_ref()).collect::<Vec<&dyn Array>>();
        concat(&values).map_err(from_arrow)
    };
    (0..width).map(column).collect()
}
