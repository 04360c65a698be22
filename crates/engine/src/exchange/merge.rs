//! Merges sorted streams of batches into one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Poll, Waker};

use arrow::array::{ArrayRef, UInt32Array};
use arrow_row::{OwnedRow, RowConverter, Rows, SortField};
use diligence_base::Result;
use diligence_storage::foreign_error::from_arrow;

use super::port::Receiver;
use crate::batch::floats::canonical_floats;
use crate::batch::{Batch, to_logical};
use crate::plan::SortKey;

/// Turns sort keys of batches into rows of bytes that compare like the keys.
pub(super) struct KeyRows {
    keys: Arc<[SortKey]>,
    converter: RowConverter,
}

impl KeyRows {
    /// For these keys.
    pub(super) fn new(keys: Arc<[SortKey]>) -> Result<Self> {
        let fields = keys
            .iter()
            .map(|key| SortField::new_with_options(key.expression.data_type().clone(), key.options))
            .collect();
        Ok(Self { keys, converter: RowConverter::new(fields).map_err(from_arrow)? })
    }

    /// One row of bytes per row of the batch.
    pub(super) fn rows(&self, batch: &Batch) -> Result<Rows> {
        let arrays = self
            .keys
            .iter()
            .map(|key| {
                let array = to_logical(&key.expression.evaluate(batch)?.flat()?, key.expression.data_type())?;
                canonical_floats(&array)
            })
            .collect::<Result<Vec<ArrayRef>>>()?;
        self.converter.convert_columns(&arrays).map_err(from_arrow)
    }
}

struct Head {
    batch: Batch,
    rows: Rows,
    next: usize,
}

/// Merges the streams behind some ports, each sorted by the same keys.
///
/// Output is cut where the winning stream changes or a batch ends: as many rows as possible go on as one slice, which
/// is what sorted streams that hardly overlap (ranges) allow.
pub struct Merger {
    keys: KeyRows,
    inputs: Vec<Receiver>,
    heads: Vec<Option<Head>>,
    /// Inputs that have said that there is nothing more.
    ended: Vec<bool>,
    batch_rows: usize,
    ready: VecDeque<Batch>,
}

impl Merger {
    /// A merger of these inputs.
    pub fn new(keys: Arc<[SortKey]>, inputs: Vec<Receiver>, batch_rows: usize) -> Result<Self> {
        let count = inputs.len();
        Ok(Self {
            keys: KeyRows::new(keys)?,
            inputs,
            heads: (0..count).map(|_| None).collect(),
            ended: vec![false; count],
            batch_rows,
            ready: VecDeque::new(),
        })
    }

    /// The next rows in order; `None` at the end. Pending while an input that is needed has nothing.
    pub fn next(&mut self, waker: &Waker) -> Poll<Option<Result<Batch>>> {
        if let Some(batch) = self.ready.pop_front() {
            return Poll::Ready(Some(Ok(batch)));
        }
        match self.fill(waker) {
            Ok(true) => {}
            Ok(false) => return Poll::Pending,
            Err(error) => return Poll::Ready(Some(Err(error))),
        }
        match self.take_run() {
            Ok(Some(batch)) => Poll::Ready(Some(Ok(batch))),
            Ok(None) => Poll::Ready(None),
            Err(error) => Poll::Ready(Some(Err(error))),
        }
    }

    /// Gives every input that has not ended a head. False if one is pending.
    fn fill(&mut self, waker: &Waker) -> Result<bool> {
        for index in 0..self.inputs.len() {
            if self.heads[index].is_some() || self.ended[index] {
                continue;
            }
            match self.inputs[index].receive(waker) {
                Poll::Pending => return Ok(false),
                Poll::Ready(None) => self.ended[index] = true,
                Poll::Ready(Some(batch)) => {
                    let batch = batch?;
                    let rows = self.keys.rows(&batch)?;
                    self.heads[index] = Some(Head { batch, rows, next: 0 });
                }
            }
        }
        Ok(true)
    }

    /// The longest run of rows from the input with the least head that stays at most the second least head.
    fn take_run(&mut self) -> Result<Option<Batch>> {
        let mut order: Vec<usize> = (0..self.heads.len()).filter(|&index| self.heads[index].is_some()).collect();
        let key = |index: usize| -> Option<OwnedRow> {
            self.heads[index].as_ref().map(|head| head.rows.row(head.next).owned())
        };
        order.sort_by_cached_key(|&index| key(index));
        let Some(&winner) = order.first() else { return Ok(None) };
        let bound = order.get(1).and_then(|&index| key(index));
        let Some(head) = self.heads[winner].as_mut() else { return Ok(None) };
        let end = match &bound {
            None => head.rows.num_rows(),
            Some(bound) => {
                let mut end = head.next + 1;
                while end < head.rows.num_rows() && head.rows.row(end) <= bound.row() {
                    end += 1;
                }
                end
            }
        };
        let end = end.min(head.next + self.batch_rows);
        let picks = UInt32Array::from_iter_values(head.next as u32..end as u32);
        let run = if end - head.next == head.batch.rows() { head.batch.clone() } else { head.batch.pick(&picks)? };
        head.next = end;
        if end == head.rows.num_rows() {
            self.heads[winner] = None;
        }
        Ok(Some(run))
    }
}
