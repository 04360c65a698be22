//! Rows of a result that are kept beyond their query: those of cursors, and those that procedures read.
//!
//! A few are held as they are. More are reserved in an account of their own and lie in memory, in a small part of the
//! budget, or in temp space: there may be many cursors, each of any number of rows.

use std::collections::VecDeque;
use std::task::{Poll, Waker, ready};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use diligence_base::{Error, Result};
use diligence_disk::TempSpace;
use diligence_memory::QueryMemory;

use super::stream::Unpark;
use crate::batch::{Batch, bytes_needed, compacted};
use crate::operators::work_table::{Storage, TableWriter, WorkTable};
use crate::sync::thread;
use crate::temp::BatchReader;

/// The name in `system.memory` and in errors.
const HOLDER: &str = "kept rows";

/// Bytes of rows that are held without being reserved: a procedure asks for one row after another, and reserving each
/// would cost more than it has.
const FEW_BYTES: usize = 16 << 10;

/// As many of these as are expected to hold rows at the same time: each has its part of the memory of one table.
const AT_ONCE: usize = 16;

/// Clusters that rows in temp space have: one that is written, two that are read, and one more.
const CLUSTERS_MIN: usize = 4;

/// A reader that goes back begins so many rows before the one that is wanted: it may go back further.
const ROWS_BACK: u64 = 1024;

/// A sleep until the disk has done something; who waits is woken earlier.
const SLEEP: Duration = Duration::from_millis(20);

/// Rows that can be read any number of times, in any order. Those of its methods that wait
/// for the disk are not for async code.
pub struct KeptRows {
    schema: SchemaRef,
    storage: Storage,
    place: Place,
    rows: u64,
    reading: Option<Reading>,
}

enum Place {
    /// With their bytes.
    Few(VecDeque<RecordBatch>, usize),
    /// With those that were few, until they are written, too.
    Written(Box<TableWriter>, VecDeque<RecordBatch>),
    /// With the number of the first row of each batch in memory.
    Ready(Box<WorkTable>, Vec<u64>),
}

/// A reader of the file, and what it has read last.
struct Reading {
    reader: BatchReader,
    /// The number of its first row.
    first: u64,
    batch: RecordBatch,
}

impl KeptRows {
    pub(crate) fn new(schema: SchemaRef, memory: &QueryMemory, temp: &TempSpace) -> Self {
        let storage = Storage::outside(memory, temp, HOLDER, CLUSTERS_MIN).of_writers(AT_ONCE);
        Self { schema, storage, place: Place::Few(VecDeque::new(), 0), rows: 0, reading: None }
    }

    /// The columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// How many rows there are.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Takes rows, behind those that are there; waits for the disk. Fails with kind `Resource` if there is neither
    /// memory nor temp space for them, and if some were [read](Self::rows_from) already.
    pub fn push(&mut self, rows: &RecordBatch) -> Result<()> {
        wait_for(|waker| self.poll_push(rows, waker))
    }

    /// The same, without waiting. After `Pending`, call it again with the same rows when the waker was woken. Fails as
    /// [`push`](Self::push) does.
    pub fn poll_push(&mut self, rows: &RecordBatch, waker: &Waker) -> Poll<Result<()>> {
        if rows.num_rows() == 0 {
            return Poll::Ready(Ok(()));
        }
        if let Place::Few(few, bytes) = &mut self.place {
            let added = rows.columns().iter().map(|column| bytes_needed(column)).sum::<usize>();
            if *bytes + added <= FEW_BYTES {
                let columns = rows.columns().iter().map(compacted).collect::<Result<Vec<_>>>()?;
                few.push_back(Batch::from_arrays(columns, rows.num_rows()).to_record_batch(&self.schema)?);
                *bytes += added;
                self.rows += rows.num_rows() as u64;
                return Poll::Ready(Ok(()));
            }
            self.place = Place::Written(Box::new(TableWriter::new(&self.storage)), std::mem::take(few));
        }
        let Place::Written(writer, before) = &mut self.place else {
            return Poll::Ready(Err(Error::bug("rows are kept after some were read")));
        };
        while let Some(batch) = before.front() {
            ready!(writer.poll_push(&Batch::from_record_batch(batch), waker))?;
            before.pop_front();
        }
        ready!(writer.poll_push(&Batch::from_record_batch(rows), waker))?;
        self.rows += rows.num_rows() as u64;
        Poll::Ready(Ok(()))
    }

    /// Rows from one on, counted from 0: as many as are at hand, at least one; `None` behind the last. Waits for the
    /// disk. Fails if they cannot be read.
    pub fn rows_from(&mut self, row: u64) -> Result<Option<RecordBatch>> {
        wait_for(|waker| self.poll_rows_from(row, waker))
    }

    /// The same, without waiting. After `Pending`, call it again with the same number when the waker was woken. Fails
    /// as [`rows_from`](Self::rows_from) does.
    pub fn poll_rows_from(&mut self, row: u64, waker: &Waker) -> Poll<Result<Option<RecordBatch>>> {
        if row >= self.rows {
            return Poll::Ready(Ok(None));
        }
        if matches!(self.place, Place::Written(..)) {
            self.finish();
        }
        Poll::Ready(match &self.place {
            Place::Few(few, _) => {
                let mut first = 0;
                let mut found = None;
                for batch in few {
                    if row < first + batch.num_rows() as u64 {
                        found = Some(behind(batch, row - first));
                        break;
                    }
                    first += batch.num_rows() as u64;
                }
                Ok(found)
            }
            Place::Ready(table, firsts) if !firsts.is_empty() => {
                let index = firsts.partition_point(|first| *first <= row).saturating_sub(1);
                let batch = table.batches()[index].to_record_batch(&self.schema)?;
                Ok(Some(behind(&batch, row - firsts[index])))
            }
            Place::Ready(..) => Ok(Some(ready!(self.poll_file(row, waker))?)),
            Place::Written(..) => Err(Error::bug("rows are still written")),
        })
    }

    /// No rows come any more.
    fn finish(&mut self) {
        let nothing = Place::Few(VecDeque::new(), 0);
        if let Place::Written(writer, _) = std::mem::replace(&mut self.place, nothing) {
            let table = writer.finish();
            let firsts = table.batches().iter().scan(0, |next, batch| {
                let first = *next;
                *next += batch.rows() as u64;
                Some(first)
            });
            let firsts = firsts.collect();
            self.place = Place::Ready(Box::new(table), firsts);
        }
    }

    fn poll_file(&mut self, row: u64, waker: &Waker) -> Poll<Result<RecordBatch>> {
        let Place::Ready(table, _) = &self.place else { return Poll::Ready(Err(Error::bug("rows are in no file"))) };
        let is_near = |reading: &Reading| row >= reading.first && row <= reading.next();
        if !self.reading.as_ref().is_some_and(is_near) {
            let mut reader = match self.reading.take() {
                Some(reading) => reading.reader,
                None => table.reader(0).ok_or_else(|| Error::bug("kept rows have no file"))?,
            };
            let first = row.saturating_sub(ROWS_BACK);
            reader.seek(first);
            self.reading = Some(Reading { reader, first, batch: RecordBatch::new_empty(self.schema.clone()) });
        }
        let Some(reading) = &mut self.reading else { return Poll::Ready(Err(Error::bug("nobody reads"))) };
        while row >= reading.next() {
            let next = ready!(reading.reader.poll_next(waker));
            let next = next.ok_or_else(|| Error::bug("a file of kept rows ends early"))??;
            reading.first = reading.next();
            reading.batch = next.to_record_batch(&self.schema)?;
        }
        Poll::Ready(Ok(behind(&reading.batch, row - reading.first)))
    }
}

impl Reading {
    /// The number of the row behind its last.
    fn next(&self) -> u64 {
        self.first + self.batch.num_rows() as u64
    }
}

/// The rows of a batch but for so many.
fn behind(batch: &RecordBatch, rows: u64) -> RecordBatch {
    let rows = rows as usize;
    batch.slice(rows, batch.num_rows() - rows)
}

fn wait_for<T>(mut poll: impl FnMut(&Waker) -> Poll<T>) -> T {
    let waker = Waker::from(Unpark::new());
    loop {
        match poll(&waker) {
            Poll::Ready(ready) => return ready,
            Poll::Pending => thread::park_timeout(SLEEP),
        }
    }
}

impl std::fmt::Debug for KeptRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KeptRows({})", self.rows)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use arrow::array::{ArrayRef, AsArray, Int64Array, StringViewArray};
    use arrow::datatypes::{DataType, Field, Int64Type, Schema};
    use diligence_base::limits::MEMORY_BYTES_MIN;

    use super::*;
    use crate::{Engine, EngineOptions};

    fn rows(numbers: std::ops::Range<i64>) -> RecordBatch {
        let texts =
            StringViewArray::from_iter_values(numbers.clone().map(|number| format!("the text of {number:060}")));
        let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from_iter_values(numbers)), Arc::new(texts)];
        let fields = vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Utf8View, true)];
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
    }

    #[test]
    fn rows_are_read_from_anywhere_wherever_they_lie() {
        let engine =
            Engine::start(EngineOptions { memory_bytes: MEMORY_BYTES_MIN, ..EngineOptions::default() }).unwrap();
        for (count, lies_in) in [(40_i64, "few"), (400, "memory"), (200_000, "file")] {
            let mut kept = engine.keep_rows(rows(0..0).schema());
            assert!(kept.rows_from(0).unwrap().is_none());
            for first in (0..count).step_by(777) {
                kept.push(&rows(first..(first + 777).min(count))).unwrap();
            }
            assert_eq!(kept.rows(), count as u64);
            let mut next = 0;
            while let Some(batch) = kept.rows_from(next).unwrap() {
                assert_eq!(batch.column(0).as_primitive::<Int64Type>().value(0), next as i64);
                next += batch.num_rows() as u64;
            }
            assert_eq!(next, count as u64);
            let place = match &kept.place {
                Place::Few(..) => "few",
                Place::Ready(_, firsts) if firsts.is_empty() => "file",
                Place::Ready(..) => "memory",
                Place::Written(..) => "writer",
            };
            assert_eq!(place, lies_in);
            // Backwards, and hither and thither.
            let back = (0..count.min(3_000)).map(|back| count - 1 - back);
            for row in back.chain((0..200).map(|step| step * 7_919 % count)) {
                let batch = kept.rows_from(row as u64).unwrap().unwrap();
                assert_eq!(batch.column(0).as_primitive::<Int64Type>().value(0), row);
                assert_eq!(batch.column(1).as_string_view().value(0), format!("the text of {row:060}"));
            }
            assert!(kept.rows_from(count as u64).unwrap().is_none());
            if lies_in != "few" {
                assert!(engine.broker().holders().iter().any(|holder| holder.operator == HOLDER && holder.bytes > 0));
                assert!(kept.push(&rows(0..1)).is_err());
            }
            drop(kept);
            // A read that is under way gives its buffer back when it is done.
            let end = Instant::now() + Duration::from_secs(20);
            while engine.broker().holders().iter().any(|holder| holder.operator == HOLDER && holder.bytes > 0) {
                assert!(Instant::now() < end, "its memory is still held");
                std::thread::yield_now();
            }
        }
    }
}
