//! Runs being merged, from front to back, in ranges.
//!
//! Of each run some *pieces* are in memory: of a run on the disk the piece that is worked on, of a run in memory all of
//! it. The rows up to the *frontier* are those that nothing can come before any more: the frontier is the first among
//! the last rows that are in memory of those runs that go on on the disk. These rows are a *range*: a merge of its own
//! that anybody can do, at the same time as others. Ranges follow one another as in memory (merge.rs), and are cut in
//! the same way where they are large.
//!
//! ```text
//!     run 0   ====|=======                piece of rows 0..11, the run goes on        <- its last row is the frontier
//!     run 1   ==|=========:======         goes on; more than a piece is in memory
//!     run 2   ======|=====:====           in memory to its end
//!                  ^      ^
//!          last range    frontier: what lies between is the next range
//! ```
//!
//! So the quantiles that a range partitioned merge needs (Graefe & Thakkar 1992, section 2.3) are not sampled
//! beforehand: they are the ends of clusters. Each cluster is read once, and a range needs no more than a piece of each
//! run, even if all keys are equal.
//!
//! Invariants:
//! * No row of a range comes after one of a later range.
//! * A range finishes at least the piece whose last row is the frontier.
//! * What is in memory of runs that never left it can be taken out between two ranges, and come back as a run on the
//!   disk.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Poll, Waker};

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use diligence_base::Result;
use diligence_memory::Reservation;

use super::Run;
use super::gather::{Pick, Text, gather};
use super::keys::SortedKeys;
use super::merge::{self, Bounds, Splitter};
use super::run_file::RunReader;
use crate::batch::Batch;

/// Ranges that are cut at once at most: each costs a search in every piece.
const CUT_RANGES_MAX: usize = 64;

/// Rows of a run that are in memory, and what they have reserved beside the buffers of temp space.
pub(super) struct Piece {
    pub run: Run,
    /// Of a run that never left memory.
    reservation: Option<Reservation>,
}

/// A piece, and how many of its rows were given already.
pub(super) type Rest = (Arc<Piece>, u32);

impl Piece {
    /// A run that never left memory, with what it has reserved.
    pub fn of_memory(run: Run, reservation: Reservation) -> Self {
        Self { run, reservation: Some(reservation) }
    }

    /// What is reserved belongs to a state at rest from now on.
    pub fn rest(&mut self) {
        self.reservation.iter_mut().for_each(Reservation::rest);
    }
}

/// Runs that are merged.
pub(super) struct Front {
    inputs: Vec<Input>,
    /// Ranges that were cut but not given yet.
    cut: VecDeque<MergeRange>,
    /// Rows of a range at most, about.
    range_rows: usize,
}

/// One run.
#[derive(Default)]
struct Input {
    /// Where it goes on.
    reader: Option<RunReader>,
    /// What is in memory of it.
    pieces: VecDeque<Rest>,
}

impl Input {
    /// The run, if all of it is in memory and always was.
    fn memory_bytes(&self) -> Option<usize> {
        let reserved = |(piece, _): &Rest| piece.reservation.as_ref().map(Reservation::bytes);
        self.pieces.iter().map(reserved).sum::<Option<usize>>().filter(|_| self.reader.is_none())
    }
}

impl Front {
    /// Runs on the disk and in memory.
    pub fn new(disk: Vec<RunReader>, memory: Vec<Piece>, range_rows: usize) -> Self {
        let on_disk = disk.into_iter().map(|reader| Input { reader: Some(reader), ..Input::default() });
        let in_memory = memory.into_iter().map(|piece| Input { reader: None, pieces: [(Arc::new(piece), 0)].into() });
        Self { inputs: on_disk.chain(in_memory).collect(), cut: VecDeque::new(), range_rows: range_rows.max(1) }
    }

    /// What is left of runs in memory.
    pub fn of_rests(rests: Vec<Rest>, range_rows: usize) -> Self {
        let inputs = rests.into_iter().map(|rest| Input { reader: None, pieces: [rest].into() });
        Self { inputs: inputs.collect(), cut: VecDeque::new(), range_rows: range_rows.max(1) }
    }

    /// Bytes of runs that never left memory.
    pub fn memory_bytes(&self) -> usize {
        self.inputs.iter().filter_map(Input::memory_bytes).sum()
    }

    /// Takes out what is left of the runs that never left memory. No range may be asked for before it is back.
    pub fn take_memory(&mut self) -> Vec<Rest> {
        self.put_back_cut();
        let (memory, others) =
            std::mem::take(&mut self.inputs).into_iter().partition(|input| input.memory_bytes().is_some());
        self.inputs = others;
        let memory: Vec<Input> = memory;
        memory.into_iter().flat_map(|input| input.pieces).collect()
    }

    /// Adds a run whose rows all come after those that were given.
    pub fn add(&mut self, reader: RunReader) {
        self.inputs.push(Input { reader: Some(reader), ..Input::default() });
    }

    /// Ranges that nobody has taken become rows that were not given.
    fn put_back_cut(&mut self) {
        while let Some(MergeRange { pieces, inputs, from, .. }) = self.cut.pop_back() {
            for ((piece, input), row) in pieces.into_iter().zip(inputs).zip(from).rev() {
                let pieces = &mut self.inputs[input].pieces;
                match pieces.iter_mut().find(|(other, _)| Arc::ptr_eq(other, &piece)) {
                    Some((_, given)) => *given = row,
                    // It was cut to its end: those behind it are there.
                    None => pieces.push_front((piece, row)),
                }
            }
        }
    }

    /// The next range; `None` at the end. After `Pending` the waker is woken when it is worth asking again.
    pub fn poll_range(&mut self, waker: &Waker) -> Poll<Result<Option<MergeRange>>> {
        loop {
            if let Some(range) = self.cut.pop_front() {
                return Poll::Ready(Ok(Some(range)));
            }
            match self.poll_load(waker) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(loaded) => loaded?,
            }
            if self.inputs.is_empty() {
                return Poll::Ready(Ok(None));
            }
            self.advance();
        }
    }

    /// Ready when every run has a piece; runs that have ended are gone.
    fn poll_load(&mut self, waker: &Waker) -> Poll<Result<()>> {
        let mut is_waiting = false;
        for input in &mut self.inputs {
            let Some(reader) = input.reader.as_mut().filter(|_| input.pieces.is_empty()) else { continue };
            match reader.poll_next(waker) {
                // The others are asked nevertheless: they shall all be on their way.
                Poll::Pending => is_waiting = true,
                Poll::Ready(None) => input.reader = None,
                Poll::Ready(Some(run)) => {
                    input.pieces.push_back((Arc::new(Piece { run: run?, reservation: None }), 0));
                }
            }
        }
        if is_waiting {
            return Poll::Pending;
        }
        self.inputs.retain(|input| !input.pieces.is_empty());
        Poll::Ready(Ok(()))
    }

    /// Cuts ranges up to the frontier.
    fn advance(&mut self) {
        let numbered = self.inputs.iter().enumerate();
        let pieces: Vec<(Arc<Piece>, usize)> = numbered
            .flat_map(|(number, input)| input.pieces.iter().map(move |(piece, _)| (piece.clone(), number)))
            .collect();
        let keys: Vec<&SortedKeys> = pieces.iter().map(|(piece, _)| &piece.run.keys).collect();
        let from: Bounds = self.inputs.iter().flat_map(|input| input.pieces.iter().map(|(_, row)| *row)).collect();
        let mut to = later(&from, &self.frontier(&keys));
        if let Some(splitter) = Self::splitters(&keys, &from, &to, CUT_RANGES_MAX * self.range_rows).first() {
            to = later(&from, &merge::bounds(&keys, Some(*splitter)));
        }
        let mut begin = from.clone();
        for splitter in Self::splitters(&keys, &from, &to, self.range_rows) {
            let end = later(&begin, &merge::bounds(&keys, Some(splitter)));
            self.cut.extend(MergeRange::new(&pieces, &begin, &end));
            begin = end;
        }
        self.cut.extend(MergeRange::new(&pieces, &begin, &to));
        let mut given = to.into_iter();
        for input in &mut self.inputs {
            for (piece, row) in &mut input.pieces {
                *row = given.next().unwrap_or_else(|| piece.run.keys.len() as u32);
            }
            while input.pieces.front().is_some_and(|(piece, row)| *row as usize == piece.run.keys.len()) {
                input.pieces.pop_front();
            }
        }
    }

    /// Cuts what lies between two bounds into ranges of so many rows, about.
    fn splitters(keys: &[&SortedKeys], from: &Bounds, to: &Bounds, rows: usize) -> Vec<Splitter> {
        let all: usize = from.iter().zip(to).map(|(from, to)| (to - from) as usize).sum();
        if all <= rows { Vec::new() } else { merge::splitters(keys, from, to, all.div_ceil(rows)) }
    }

    /// Where the rows end that nothing can come before any more.
    fn frontier(&self, keys: &[&SortedKeys]) -> Bounds {
        let mut ends = Vec::new();
        let mut piece = 0;
        for input in &self.inputs {
            piece += input.pieces.len() as u32;
            if input.reader.is_some() {
                let last = piece - 1;
                ends.push(Splitter { run: last, row: keys[last as usize].len() as u32 - 1 });
            }
        }
        match merge::first_of(keys, &ends) {
            None => merge::bounds(keys, None),
            Some(first) => {
                let end = ends[first];
                let mut bounds = merge::bounds(keys, Some(end));
                bounds[end.run as usize] = end.row + 1;
                bounds
            }
        }
    }
}

/// In each run the later one of two places.
fn later(a: &Bounds, b: &Bounds) -> Bounds {
    a.iter().zip(b).map(|(a, b)| *a.max(b)).collect()
}

/// Some rows of some pieces: those that come next.
pub(super) struct MergeRange {
    pieces: Vec<Arc<Piece>>,
    /// The input that each piece is of.
    inputs: Vec<usize>,
    from: Bounds,
    to: Bounds,
    rows: usize,
}

impl MergeRange {
    /// What lies between two bounds, if anything does.
    fn new(pieces: &[(Arc<Piece>, usize)], from: &Bounds, to: &Bounds) -> Option<Self> {
        let mut range = Self { pieces: Vec::new(), inputs: Vec::new(), from: Vec::new(), to: Vec::new(), rows: 0 };
        for (((piece, input), from), to) in pieces.iter().zip(from).zip(to) {
            if from < to {
                range.pieces.push(piece.clone());
                range.inputs.push(*input);
                range.from.push(*from);
                range.to.push(*to);
                range.rows += (to - from) as usize;
            }
        }
        (range.rows > 0).then_some(range)
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The order of the first `count` rows.
    pub fn merge(&self, count: usize) -> Vec<Pick> {
        merge::merge(&self.keys(), &self.from, &self.to, count)
    }

    /// The codes of picked rows as a column.
    pub fn codes(&self, picks: &[Pick]) -> Result<ArrayRef> {
        SortedKeys::column(&self.keys(), picks)
    }

    /// The payload of picked rows, copied: it does not keep the range's pieces.
    pub fn payload(&self, picks: &[Pick], schema: &SchemaRef) -> Result<Batch> {
        let blocks: Vec<Batch> = self.pieces.iter().map(|piece| piece.run.payload.clone()).collect();
        gather(&blocks, picks, Text::Copy, schema)
    }

    fn keys(&self) -> Vec<&SortedKeys> {
        self.pieces.iter().map(|piece| &piece.run.keys).collect()
    }
}
