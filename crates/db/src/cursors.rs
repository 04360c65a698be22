//! The cursors that are open in a session: those of DECLARE, whose rows the server reads, and those of procedures.
//!
//! A cursor ends with the transaction that has opened it, unless it was declared WITH HOLD.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use arrow::array::{RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::{Schema, SchemaRef};
use diligence_base::{Error, Result};
use diligence_catalog::{FollowedSince, ObjectRef};
use diligence_engine::query::KeptRows;
use diligence_storage::foreign_error::from_arrow;
use parking_lot::Mutex;

/// Rows that are turned around at once, when a cursor goes back.
const ROWS_TURNED: u64 = 1024;

/// What is known of a cursor: a row of `pg_cursors`.
#[derive(Clone, Debug)]
pub struct CursorInfo {
    /// The statement that has opened it.
    pub statement: String,
    /// Whether it outlives its transaction.
    pub is_holdable: bool,
    /// Whether its rows are sent in binary form.
    pub is_binary: bool,
    /// Whether it goes back.
    pub is_scrollable: bool,
    /// When it was opened.
    pub opened: SystemTime,
}

/// Where a cursor goes: FETCH and MOVE of PostgreSQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CursorWay {
    /// So many rows on, or back if negative; with 0 the row on which it stands comes again.
    By(i64),
    /// Behind the last row.
    All,
    /// Before the first row.
    AllBackward,
    /// To the row of this number, from 1 on; from the last one on if negative. 0 is before the first.
    To(i64),
    /// To the row so many further on, or back.
    Relative(i64),
}

/// Rows that a cursor has passed, in the order in which it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// The number of the first of them in the result, from 0 on.
    first: u64,
    rows: u64,
    is_backward: bool,
}

impl Passed {
    const NONE: Self = Self { first: 0, rows: 0, is_backward: false };

    /// How many rows were passed.
    pub fn rows(&self) -> u64 {
        self.rows
    }
}

/// Where a cursor of so many rows stands, from 0 (before the first) to one more than there are.
fn gone(at: i64, rows: i64, way: CursorWay) -> (i64, Passed) {
    let one = |to: i64| {
        let to = to.clamp(0, rows + 1);
        let is_on_row = (1..=rows).contains(&to);
        let passed = Passed { first: (to - 1).max(0) as u64, rows: u64::from(is_on_row), is_backward: false };
        (to, if is_on_row { passed } else { Passed::NONE })
    };
    let by = match way {
        CursorWay::By(0) => return one(at),
        CursorWay::By(by) => by,
        CursorWay::All => i64::MAX,
        CursorWay::AllBackward => i64::MIN,
        CursorWay::To(to) if to < 0 => return one((rows + 1).saturating_add(to)),
        CursorWay::To(to) => return one(to),
        CursorWay::Relative(by) => return one(at.saturating_add(by)),
    };
    let to = at.saturating_add(by).clamp(0, rows + 1);
    // The rows between the two, with the one to which it goes.
    let (low, high) = if by > 0 { (at + 1, to.min(rows)) } else { (to.max(1), at - 1) };
    let passed = match high >= low {
        true => Passed { first: (low - 1) as u64, rows: (high - low + 1) as u64, is_backward: by < 0 },
        false => Passed::NONE,
    };
    (to, passed)
}

/// The rows of a cursor, and where it stands. Its methods wait for the disk.
#[derive(Debug)]
pub struct CursorRows {
    rows: KeptRows,
    /// Those that are shown, the first ones: others are numbers of rows.
    shown: SchemaRef,
    at: i64,
}

impl CursorRows {
    /// A cursor before the first of these rows.
    pub fn new(rows: KeptRows) -> Self {
        Self { shown: rows.schema().clone(), rows, at: 0 }
    }

    /// The same, whose last columns nobody sees.
    pub(crate) fn hiding(self, columns: usize) -> Self {
        let seen = self.shown.fields().len().saturating_sub(columns);
        let shown = Schema::new_with_metadata(self.shown.fields()[..seen].to_vec(), self.shown.metadata().clone());
        Self { shown: Arc::new(shown), ..self }
    }

    /// The columns that the reader of the cursor sees.
    pub fn schema(&self) -> &SchemaRef {
        &self.shown
    }

    /// On which row it stands, counted from 1; 0 in front of the first.
    pub fn place(&self) -> i64 {
        self.at
    }

    /// How many rows there are in all.
    pub fn rows(&self) -> u64 {
        self.rows.rows()
    }

    /// Goes somewhere. What it has passed can be [read](Self::read).
    pub fn go(&mut self, way: CursorWay) -> Passed {
        let (to, passed) = gone(self.at, self.rows.rows() as i64, way);
        self.at = to;
        passed
    }

    /// The row on which it stands, as a batch of one row; `None` before the first and behind the last. Fails with kind
    /// `File` if it is in temp space and cannot be read, and with kind `Resource` if there is no memory for it.
    pub fn current(&mut self) -> Result<Option<RecordBatch>> {
        let row = self.current_whole()?;
        row.map(|row| self.seen(&row)).transpose()
    }

    fn seen(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let columns = rows.columns()[..self.shown.fields().len()].to_vec();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        RecordBatch::try_new_with_options(self.shown.clone(), columns, &options).map_err(from_arrow)
    }

    /// The same, with the columns that nobody sees.
    pub(crate) fn current_whole(&mut self) -> Result<Option<RecordBatch>> {
        match u64::try_from(self.at - 1) {
            Ok(row) => Ok(self.rows.rows_from(row)?.map(|rows| rows.slice(0, 1))),
            Err(_) => Ok(None),
        }
    }

    /// The next batch of the rows that were passed, in the direction in which they were passed, and those that are
    /// left; `None` if there are none. Fails as [`current`](Self::current) does.
    pub fn read(&mut self, passed: Passed) -> Result<Option<(RecordBatch, Passed)>> {
        if passed.rows == 0 {
            return Ok(None);
        }
        if !passed.is_backward {
            let rows = self.some(passed.first, passed.rows)?;
            let read = rows.num_rows() as u64;
            return Ok(Some((rows, Passed { first: passed.first + read, rows: passed.rows - read, ..passed })));
        }
        let count = passed.rows.min(ROWS_TURNED);
        let left = passed.rows - count;
        let (mut parts, mut next, end) = (Vec::new(), passed.first + left, passed.first + passed.rows);
        while next < end {
            let rows = self.some(next, end - next)?;
            next += rows.num_rows() as u64;
            parts.push(rows);
        }
        let rows = concat_batches(&self.shown, &parts).map_err(from_arrow)?;
        let turned = UInt32Array::from_iter_values((0..rows.num_rows() as u32).rev());
        let rows = take_record_batch(&rows, &turned).map_err(from_arrow)?;
        Ok(Some((rows, Passed { rows: left, ..passed })))
    }

    fn some(&mut self, first: u64, most: u64) -> Result<RecordBatch> {
        let rows = self.rows.rows_from(first)?.ok_or_else(|| Error::bug("a cursor has passed rows that are not"))?;
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        self.seen(&if rows.num_rows() > most { rows.slice(0, most) } else { rows })
    }
}

/// How the rows of a cursor are found again in their tables.
#[derive(Debug)]
pub(crate) struct Found {
    /// The tables whose rows they are made of, with the columns of their numbers.
    pub(crate) tables: Vec<(ObjectRef, usize)>,
    /// Whether its query locks rows.
    pub(crate) is_locking: bool,
    pub(crate) since: Option<FollowedSince>,
}

impl Found {
    /// How many columns are numbers of rows.
    pub(crate) fn numbers(&self) -> usize {
        self.tables.len()
    }
}

/// A cursor whose rows are there.
#[derive(Clone)]
pub(crate) struct OpenCursor {
    pub(crate) rows: Arc<Mutex<CursorRows>>,
    /// How its rows are found again, if that may be asked for.
    pub(crate) found: Option<Arc<Found>>,
}

/// The cursors of a session.
#[derive(Default)]
pub(crate) struct Cursors(Mutex<BTreeMap<String, (CursorInfo, Option<OpenCursor>)>>, AtomicU64);

impl Cursors {
    /// Opens one; `cursor` is its rows, if they are there. Fails with 42P03 if one of its name is open.
    pub(crate) fn open(&self, name: &str, info: CursorInfo, cursor: Option<OpenCursor>) -> Result<()> {
        let mut cursors = self.0.lock();
        if cursors.contains_key(name) {
            return Err(Error::input(format!("cursor \"{name}\" already exists")).with_code("42P03"));
        }
        cursors.insert(name.to_owned(), (info, cursor));
        Ok(())
    }

    /// A name for a cursor that has none.
    pub(crate) fn next_name(&self) -> String {
        format!("<unnamed portal {}>", self.1.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Whether one of a name is open.
    pub(crate) fn is_open(&self, name: &str) -> bool {
        self.0.lock().contains_key(name)
    }

    /// The rows of one; `None` if none of the name is open. Fails with 0A000 if its rows are on their way to a client.
    pub(crate) fn get(&self, name: &str) -> Result<Option<OpenCursor>> {
        match self.0.lock().get(name) {
            None => Ok(None),
            Some((_, Some(cursor))) => Ok(Some(cursor.clone())),
            Some((_, None)) => {
                let message = format!("cursor \"{name}\" is read by the client and not by a procedure");
                let error = Error::unsupported(message).with_code("0A000");
                Err(error.with_hint("DECLARE … SCROLL CURSOR keeps its rows for both"))
            }
        }
    }

    /// Its rows are there, from now on.
    pub(crate) fn keep(&self, name: &str, cursor: OpenCursor) {
        if let Some((_, rows)) = self.0.lock().get_mut(name) {
            *rows = Some(cursor);
        }
    }

    /// Closes one; whether it was open.
    pub(crate) fn close(&self, name: &str) -> bool {
        self.0.lock().remove(name).is_some()
    }

    /// Closes all.
    pub(crate) fn close_all(&self) {
        self.0.lock().clear();
    }

    /// The transaction has ended.
    pub(crate) fn end_transaction(&self) {
        self.0.lock().retain(|_, (info, _)| info.is_holdable);
    }

    /// All of them, by name.
    pub(crate) fn infos(&self) -> Vec<(String, CursorInfo)> {
        self.0.lock().iter().map(|(name, (info, _))| (name.clone(), info.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where a cursor of ten rows goes from a place, and the numbers of the rows that it passes, from 1 on.
    fn went(at: i64, way: CursorWay) -> (i64, Vec<u64>) {
        let (to, passed) = gone(at, 10, way);
        let rows = passed.first + 1..passed.first + 1 + passed.rows;
        (to, if passed.is_backward { rows.rev().collect() } else { rows.collect() })
    }

    #[test]
    fn a_cursor_goes_as_in_postgresql() {
        assert_eq!(went(0, CursorWay::By(2)), (2, vec![1, 2]));
        assert_eq!(went(2, CursorWay::By(-1)), (1, vec![1]));
        assert_eq!(went(2, CursorWay::By(-5)), (0, vec![1]));
        assert_eq!(went(9, CursorWay::By(5)), (11, vec![10]));
        assert_eq!(went(11, CursorWay::By(5)), (11, vec![]));
        assert_eq!(went(11, CursorWay::By(-2)), (9, vec![10, 9]));
        assert_eq!(went(3, CursorWay::By(0)), (3, vec![3]));
        assert_eq!(went(0, CursorWay::By(0)), (0, vec![]));
        assert_eq!(went(8, CursorWay::All), (11, vec![9, 10]));
        assert_eq!(went(4, CursorWay::AllBackward), (0, vec![3, 2, 1]));
        assert_eq!(went(4, CursorWay::To(7)), (7, vec![7]));
        assert_eq!(went(4, CursorWay::To(-1)), (10, vec![10]));
        assert_eq!(went(4, CursorWay::To(-11)), (0, vec![]));
        assert_eq!(went(4, CursorWay::To(0)), (0, vec![]));
        assert_eq!(went(4, CursorWay::To(12)), (11, vec![]));
        assert_eq!(went(4, CursorWay::Relative(-2)), (2, vec![2]));
        assert_eq!(went(4, CursorWay::Relative(20)), (11, vec![]));
    }
}
