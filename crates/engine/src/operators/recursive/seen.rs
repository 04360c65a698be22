//! The rows that a recursive query has given, for UNION to leave them out when they come again.
//!
//! ```text
//!   the set           files
//!   in memory   -->   in temp space, without order
//! ```
//!
//! Invariant: each row given is in the set or in one of the files, once.

use std::task::{Poll, Waker, ready};

use arrow::array::UInt32Array;
use arrow::datatypes::Schema;
use arrow_row::{RowConverter, Rows, SortField};
use datafusion_common::hash_utils::RandomState;
use diligence_base::Result;
use diligence_base::limits::BATCH_ROWS_MAX;
use diligence_memory::Reservation;
use diligence_storage::foreign_error::from_arrow;
use hashbrown::HashSet;

use crate::batch::floats::canonical_floats;
use crate::batch::{Batch, to_logical};
use crate::operators::work_table::Storage;
use crate::temp::{BatchFile, BatchWriter};

/// Bytes of a row in the set beside its own: its place in a table that is half full, and what an allocation costs.
const ROW_OVERHEAD_BYTES: usize = 64;

/// A smaller set does not go to temp space because it cannot grow: files of a few rows each would help nobody.
const SET_BYTES_MIN: usize = 256 << 10;

pub(super) struct Seen {
    converter: RowConverter,
    set: HashSet<Box<[u8]>, RandomState>,
    files: Vec<BatchFile>,
    storage: Storage,
    leaving: Option<LeavingRows>,
    reservation: Reservation,
}

/// Rows on their way to temp space.
struct LeavingRows {
    writer: BatchWriter,
    rows: Vec<Box<[u8]>>,
    /// The last of them, as they are written.
    batch: Option<Batch>,
    bytes: usize,
}

fn row_bytes(bytes: usize) -> usize {
    bytes + ROW_OVERHEAD_BYTES
}

impl Seen {
    pub fn new(schema: &Schema, storage: &Storage) -> Result<Self> {
        let fields = schema.fields().iter().map(|field| SortField::new(field.data_type().clone()));
        Ok(Self {
            converter: RowConverter::new(fields.collect()).map_err(from_arrow)?,
            set: HashSet::default(),
            reservation: storage.memory().revocable("the rows that a recursive query has seen"),
            files: Vec::new(),
            storage: storage.clone(),
            leaving: None,
        })
    }

    /// What is in temp space. Empty: the set has all.
    pub fn files(&self) -> &[BatchFile] {
        &self.files
    }

    fn rows(&self, batch: &Batch, schema: &Schema) -> Result<Rows> {
        let columns = schema
            .fields()
            .iter()
            .enumerate()
            .map(|(index, field)| canonical_floats(&to_logical(&batch.flat(index)?, field.data_type())?));
        self.converter.convert_columns(&columns.collect::<Result<Vec<_>>>()?).map_err(from_arrow)
    }

    /// The rows of a batch that are not in the set, which may be in a file.
    pub fn unseen(&self, batch: &Batch, schema: &Schema) -> Result<Batch> {
        let rows = self.rows(batch, schema)?;
        let picks = (0..batch.rows()).filter(|&row| !self.set.contains(rows.row(row).as_ref()));
        pick(batch, picks)
    }

    /// Puts the rows of a batch that are not in the set into it, and gives them back. `None`: the set had to leave for
    /// temp space, and whether rows are new is no longer known from it; unless they are `known_as_new`. After
    /// `Pending`, call it again with the same batch.
    pub fn poll_insert(
        &mut self,
        batch: &Batch,
        schema: &Schema,
        known_as_new: bool,
        waker: &Waker,
    ) -> Poll<Result<Option<Batch>>> {
        ready!(self.poll_leave(waker))?;
        if !known_as_new && !self.files.is_empty() {
            return Poll::Ready(Ok(None));
        }
        let rows = self.rows(batch, schema)?;
        let bytes = (0..batch.rows()).map(|row| row_bytes(rows.row(row).as_ref().len())).sum();
        if let Err(refusal) = self.reservation.grow(bytes) {
            if self.reservation.bytes() < SET_BYTES_MIN {
                self.reservation.overdraw(bytes);
            } else if self.leave()? {
                // Comes back here when that is done.
                return self.poll_insert(batch, schema, known_as_new, waker);
            } else {
                return Poll::Ready(Err(refusal));
            }
        }
        let mut unused = 0;
        let picks = (0..batch.rows()).filter(|&row| {
            let row = rows.row(row);
            let row: &[u8] = row.as_ref();
            let is_new = !self.set.contains(row);
            if is_new {
                self.set.insert(row.into());
            } else {
                unused += row_bytes(row.len());
            }
            is_new
        });
        let new = pick(batch, picks);
        self.reservation.shrink(unused);
        self.storage.prepare(self.reservation.bytes());
        Poll::Ready(new.map(Some))
    }

    /// Whether somebody needs its memory, or it is on its way to temp space.
    pub fn must_leave(&self) -> bool {
        let is_asked = self.reservation.is_asked() && self.storage.has_temp();
        self.leaving.is_some() || is_asked && !self.set.is_empty()
    }

    /// Begins to write the set to temp space. False if there is no such space.
    pub fn leave(&mut self) -> Result<bool> {
        if self.leaving.is_some() {
            return Ok(true);
        }
        let Some(writer) = self.storage.writer()? else { return Ok(false) };
        let rows = std::mem::take(&mut self.set).into_iter().collect();
        self.leaving = Some(LeavingRows { writer, rows, batch: None, bytes: 0 });
        Ok(true)
    }

    /// Goes on with that.
    pub fn poll_leave(&mut self, waker: &Waker) -> Poll<Result<()>> {
        let Some(leaving) = &mut self.leaving else { return Poll::Ready(Ok(())) };
        loop {
            if let Some(batch) = &leaving.batch {
                ready!(leaving.writer.poll_write(batch, waker))?;
                leaving.batch = None;
                self.reservation.shrink(std::mem::take(&mut leaving.bytes));
            }
            if leaving.rows.is_empty() {
                break;
            }
            let rows = leaving.rows.split_off(leaving.rows.len().saturating_sub(BATCH_ROWS_MAX));
            let parser = self.converter.parser();
            let columns = self.converter.convert_rows(rows.iter().map(|row| parser.parse(row)));
            leaving.bytes = rows.iter().map(|row| row_bytes(row.len())).sum();
            leaving.batch = Some(Batch::from_arrays(columns.map_err(from_arrow)?, rows.len()));
        }
        if let Some(leaving) = self.leaving.take() {
            self.files.push(leaving.writer.finish());
        }
        Poll::Ready(Ok(()))
    }
}

fn pick(batch: &Batch, rows: impl Iterator<Item = usize>) -> Result<Batch> {
    let rows: Vec<u32> = rows.map(|row| row as u32).collect();
    if rows.len() == batch.rows() { Ok(batch.clone()) } else { batch.pick(&UInt32Array::from(rows))?.flatten() }
}
