//! Column chunks that are read in steps, for when memory is short: of each column what the next window needs.
//!
//! A chunk of a large row group has tens of megabytes, and a scan would hold those of all its columns until the last
//! row. Here a column has a part of its chunk: the pages that the next window needs, and what was read with them.
//! Before each window the filters' columns say which bytes they lack, and one read brings those of all. The other
//! columns do so for windows of which the filters leave rows; of what they lag behind, whole pages are passed without
//! being decompressed, and the rest of a page of which the header has been read without being read.
//!
//! Invariant: such a column of a window is decoded only when all of its pages are there, so nothing reads in the
//! middle. The others of a cluster are [pulled](super::pulled): they read when they are decoded.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use diligence_base::{Error, Result};

use super::bytes::{ChunkBegins, ChunkBytes, ParquetBytes};
use super::column_rows::{ColumnAhead, OpenColumn};
use super::pulled::PulledBytes;
use super::survey::VALUE_BYTES;

/// What the first read brings.
pub(super) struct FirstParts {
    /// The beginnings of the leaves.
    pub bytes: ParquetBytes,
    /// What is read of each leaf later.
    pub unread: HashMap<usize, VecDeque<Range<u64>>>,
    /// Columns that are read when they are decoded.
    pub pulled: Vec<usize>,
    pub step_bytes: usize,
}

/// What a later read brings: parts of the leaves of these columns.
pub(super) struct LaterParts(Vec<(usize, Bytes)>);

/// The columns of a cluster that are read in steps.
pub(super) struct Steps {
    /// A read has so many bytes of a column, if no page is longer.
    step_bytes: usize,
    /// Bytes of the first parts, which whoever decodes has reserved.
    first_bytes: usize,
    columns: HashMap<usize, StepColumn>,
    /// What the other columns take, which are read when they are decoded.
    pulled: Vec<Arc<PulledBytes>>,
    /// Bytes that the read asked for will take.
    asked_bytes: usize,
    batch_rows: usize,
    /// Rows of the window that is next.
    rows: usize,
}

struct StepColumn {
    unread: VecDeque<Range<u64>>,
    ahead: ColumnAhead,
}

impl FirstParts {
    /// Of each leaf, which is read in these ranges, the first bytes, in one read: its ranges, and what makes the parts
    /// of what it brings. The columns that are `pulled` have none of them.
    pub fn plan(
        leaves: Vec<(usize, usize, VecDeque<Range<u64>>)>,
        pulled: Vec<usize>,
        step_bytes: usize,
    ) -> (Vec<Range<u64>>, impl FnOnce(Vec<Bytes>) -> Result<Self> + Send + 'static) {
        let mut unread = HashMap::with_capacity(leaves.len());
        let (mut ranges, mut read) = (Vec::with_capacity(leaves.len()), Vec::with_capacity(leaves.len()));
        for (leaf, first_row, mut left) in leaves {
            if let Some(range) = take(&mut left, step_bytes) {
                ranges.push(range);
                read.push((leaf, first_row));
            }
            unread.insert(leaf, left);
        }
        let finish = move |parts: Vec<Bytes>| {
            let chunk = |((leaf, first_row), pages)| {
                (leaf, ChunkBytes { dictionary: None, pages, first_row, begins: ChunkBegins::default() })
            };
            let leaves = read.into_iter().zip(parts).map(chunk).collect();
            Ok(Self { bytes: ParquetBytes { leaves }, unread, pulled, step_bytes })
        };
        (ranges, finish)
    }
}

impl Steps {
    /// The columns, opened, of which the first parts are there. Each has the ranges that are read later.
    pub fn new(
        step_bytes: usize,
        first_bytes: usize,
        batch_rows: usize,
        unread: HashMap<usize, VecDeque<Range<u64>>>,
        pulled: Vec<Arc<PulledBytes>>,
        open: &mut HashMap<usize, OpenColumn>,
    ) -> Result<Self> {
        let ahead = ColumnAhead::default();
        let columns = unread.into_iter().map(|(column, unread)| (column, StepColumn { unread, ahead })).collect();
        let asked_bytes = 0;
        let mut steps = Self { step_bytes, first_bytes, columns, pulled, asked_bytes, batch_rows, rows: batch_rows };
        for (column, step) in &mut steps.columns {
            step.ahead = opened(open, *column)?.rows.look_ahead(batch_rows, false)?;
        }
        Ok(steps)
    }

    /// The ranges that must be read before these columns can be decoded for a window of `rows` rows from `start` on,
    /// with their columns: those of the others are not looked at.
    pub fn missing(
        &mut self,
        start: usize,
        rows: usize,
        wanted: &[usize],
        open: &mut HashMap<usize, OpenColumn>,
    ) -> Result<(Vec<Range<u64>>, Vec<usize>)> {
        self.rows = rows;
        let (mut ranges, mut columns) = (Vec::new(), Vec::new());
        let (mut read_bytes, mut joined_bytes) = (0, 0);
        for column in wanted {
            let Some(step) = self.columns.get_mut(column) else { continue };
            let open = opened(open, *column)?;
            open.skip_to(start)?;
            step.ahead = open.rows.look_ahead(rows, true)?;
            pass(&mut step.unread, step.ahead.passed_bytes);
            let ColumnAhead { missing_bytes, held_bytes, .. } = step.ahead;
            if missing_bytes > 0
                && let Some(range) = take(&mut step.unread, missing_bytes.max(self.step_bytes))
            {
                let bytes = (range.end - range.start) as usize;
                read_bytes += bytes;
                // One column after the other joins what it holds with what came, in a copy.
                joined_bytes = joined_bytes.max(if held_bytes > 0 { held_bytes + bytes } else { 0 });
                ranges.push(range);
                columns.push(*column);
            }
        }
        self.asked_bytes = read_bytes + joined_bytes;
        Ok((ranges, columns))
    }

    /// Takes what was missing.
    pub fn bring(&mut self, LaterParts(parts): LaterParts, open: &mut HashMap<usize, OpenColumn>) -> Result<()> {
        for (column, bytes) in parts {
            let open = opened(open, column)?;
            open.rows.feed(&bytes);
            let step = self.columns.get_mut(&column);
            let step = step.ok_or_else(|| Error::bug("a column was read in steps that is not"))?;
            step.ahead = open.rows.look_ahead(self.rows, false)?;
        }
        self.asked_bytes = 0;
        Ok(())
    }

    /// Bytes that decoding holds besides what was fetched at first: of each column what has been read, the dictionary,
    /// the longest page, and the values of a batch; of one column the text of a dictionary that becomes values; and
    /// what the columns take that are read when they are decoded.
    pub fn bytes(&self) -> usize {
        let values = self.batch_rows.saturating_mul(VALUE_BYTES);
        let columns = self.columns.values().map(|step| {
            let ColumnAhead { held_bytes, decoded_bytes, .. } = step.ahead;
            held_bytes.saturating_add(decoded_bytes).saturating_add(values)
        });
        let passing_bytes = self.columns.values().map(|step| step.ahead.passing_bytes).max().unwrap_or(0);
        let asked_bytes = self.asked_bytes.saturating_add(passing_bytes);
        let pulled = self.pulled.iter().map(|column| column.total());
        columns.chain(pulled).fold(asked_bytes, usize::saturating_add).saturating_sub(self.first_bytes)
    }
}

impl LaterParts {
    /// What a read for these columns brought.
    pub fn new(columns: Vec<usize>, parts: Vec<Bytes>) -> Self {
        Self(columns.into_iter().zip(parts).collect())
    }
}

fn opened(open: &mut HashMap<usize, OpenColumn>, column: usize) -> Result<&mut OpenColumn> {
    open.get_mut(&column).ok_or_else(|| Error::bug("a column that is read in steps is not open"))
}

/// Leaves out so many bytes.
fn pass(unread: &mut VecDeque<Range<u64>>, mut bytes: usize) {
    while bytes > 0
        && let Some(range) = take(unread, bytes)
    {
        bytes -= (range.end - range.start) as usize;
    }
}

/// The next range of at most so many bytes.
fn take(unread: &mut VecDeque<Range<u64>>, bytes: usize) -> Option<Range<u64>> {
    let first = unread.front_mut()?;
    let range = first.start..first.end.min(first.start + bytes as u64);
    first.start = range.end;
    if first.is_empty() {
        unread.pop_front();
    }
    Some(range)
}
