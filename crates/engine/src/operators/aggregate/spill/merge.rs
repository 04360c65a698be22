//! A partition out of temp space, brought together; or split, if it does not fit.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Poll, Waker};

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::UInt16Type;
use diligence_base::{Error, ErrorKind, Result};
use diligence_memory::Reservation;

use super::super::finished::FinishedGroups;
use super::super::group_table::GroupTable;
use super::super::key_encoding::EncodedKeys;
use super::super::key_table::KeyTable;
use super::super::states::Placement;
use super::board::{Board, Resident};
use super::files::{Partition, PartitionFiles};
use super::outgoing::Outgoing;
use super::resolve::Resolve;
use super::{LEVELS_MAX, Spill};
use crate::batch::Batch;
use crate::temp::BatchReader;

/// A partition is split when what has been brought together of it has so many clusters, and not before.
const PARTS_CLUSTERS_MIN: usize = 2;

/// Rows that are looked up at once.
const STEP_ROWS: usize = 4096;

/// What has been read so far.
enum ReadSoFar {
    Groups(Box<GroupTable>),
    Pairs(VecDeque<(usize, KeyTable)>),
}

/// What became of a partition.
pub(in super::super) enum Merged {
    /// More is to be done: call again, now or in the next quantum.
    Again,
    /// It has been split.
    Parts(Vec<Partition>),
    /// All its groups.
    Groups(Box<FinishedGroups>),
    /// All its pairs.
    Pairs(Box<Resolve>),
}

/// A piece that stayed in memory, while it is merged.
pub(in super::super) struct Gather {
    spill: Arc<Spill>,
    resident: Resident,
    table: GroupTable,
    /// On their way to temp space, to make room.
    outgoing: VecDeque<Outgoing>,
    /// Whether it is going there itself.
    given_up: bool,
    reservation: Reservation,
}

impl Gather {
    pub fn new(spill: &Arc<Spill>, mut resident: Resident) -> Result<Self> {
        resident.chunks.iter_mut().for_each(|chunk| chunk.reservation.hold_firm());
        let table = GroupTable::new(spill.program.clone())?;
        let reservation = spill.memory.revocable("Aggregate");
        let outgoing = VecDeque::new();
        Ok(Self { spill: spill.clone(), resident, table, reservation, outgoing, given_up: false })
    }

    /// Merges a chunk. After `Pending` the waker is woken when it is worth going on. Not called after the last answer.
    pub fn poll(&mut self, board: &Board, waker: &Waker) -> Poll<Result<Merged>> {
        while let Some(outgoing) = self.outgoing.front_mut() {
            match outgoing.poll(waker) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(written) => written?,
            }
            self.outgoing.pop_front();
        }
        if self.given_up {
            return Poll::Ready(Ok(Merged::Parts(Vec::new())));
        }
        Poll::Ready(if self.reservation.is_asked() { self.make_room(board) } else { self.step(board) })
    }

    fn step(&mut self, board: &Board) -> Result<Merged> {
        let Some(chunk) = self.resident.chunks.last() else { return self.end(board) };
        let counting = &self.resident.counting;
        let ahead = counting.iter().map(|partitions| self.table.merge_chunk_ahead(chunk, partitions));
        let ahead = ahead.sum::<usize>() + self.table.bytes();
        if self.reservation.grow(ahead.saturating_sub(self.reservation.bytes())).is_err() {
            return self.make_room(board);
        }
        for partitions in counting {
            self.table.merge_chunk(chunk, partitions.clone(), &mut |_| Ok(()))?;
        }
        self.resident.chunks.pop();
        Ok(Merged::Again)
    }

    fn end(&mut self, board: &Board) -> Result<Merged> {
        self.table.resize_states()?;
        let held = self.table.bytes() + self.table.finishing_bytes();
        if self.reservation.grow(held.saturating_sub(self.reservation.bytes())).is_err() {
            return self.make_room(board);
        }
        let (table, reservation) = self.take_table()?;
        Ok(Merged::Groups(Box::new(FinishedGroups::new(table, reservation)?)))
    }

    fn take_table(&mut self) -> Result<(GroupTable, Reservation)> {
        let table = std::mem::replace(&mut self.table, GroupTable::new(self.spill.program.clone())?);
        let empty = self.reservation.sibling();
        Ok((table, std::mem::replace(&mut self.reservation, empty)))
    }

    /// There is no memory to go on: another piece is written, or this one if it is the last.
    fn make_room(&mut self, board: &Board) -> Result<Merged> {
        self.outgoing = board.evict();
        if self.outgoing.is_empty() {
            self.given_up = true;
            let (table, reservation) = self.take_table()?;
            self.outgoing.extend(std::mem::take(&mut self.resident).outgoing(&self.spill));
            self.outgoing.push_back(Outgoing::of_table(&self.spill, table, reservation)?);
        }
        Ok(Merged::Again)
    }
}

/// One partition while it is merged.
pub(in super::super) struct Merge {
    spill: Arc<Spill>,
    level: u32,
    is_pairs: bool,
    reader: BatchReader,
    held: ReadSoFar,
    /// Rows that have been read but not looked at, from this one on.
    batch: Option<(Batch, usize)>,
    /// Where the parts go, once it has turned out that it does not fit.
    split: Option<(Arc<PartitionFiles>, Outgoing)>,
    /// Other pieces on their way to temp space, to make room.
    outgoing: VecDeque<Outgoing>,
    reservation: Reservation,
}

impl Merge {
    pub fn new(spill: &Arc<Spill>, partition: Partition) -> Result<Self> {
        let Partition { file, level, is_pairs } = partition;
        Ok(Self {
            level,
            is_pairs,
            reader: file.into_reader(&spill.buffers),
            held: ReadSoFar::new(spill, is_pairs)?,
            reservation: spill.memory.revocable("Aggregate"),
            batch: None,
            split: None,
            outgoing: VecDeque::new(),
            spill: spill.clone(),
        })
    }

    /// Works on one cluster's rows or so. After `Pending` the waker is woken when it is worth going on. Not called
    /// after the last answer.
    pub fn poll(&mut self, board: &Board, waker: &Waker) -> Poll<Result<Merged>> {
        while let Some(outgoing) = self.outgoing.front_mut() {
            match outgoing.poll(waker) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(written) => written?,
            }
            self.outgoing.pop_front();
        }
        if let Some((files, outgoing)) = &mut self.split {
            match outgoing.poll(waker) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(written) => written?,
            }
            if let Some((batch, first)) = self.batch.take() {
                outgoing.route(batch.slice(first, batch.rows() - first), self.is_pairs)?;
                return Poll::Ready(Ok(Merged::Again));
            }
            let files = files.clone();
            return self.poll_batch(waker).map_ok(|more| match more {
                true => Merged::Again,
                false => Merged::Parts(files.finish().into_iter().map(|file| Partition::of(&files, file)).collect()),
            });
        }
        if self.batch.is_none() {
            match self.poll_batch(waker) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(true)) => {}
                Poll::Ready(Ok(false)) => return Poll::Ready(self.end()),
            }
        }
        Poll::Ready(self.absorb_batch(board).map(|()| Merged::Again))
    }

    /// Reads rows, if there are any.
    fn poll_batch(&mut self, waker: &Waker) -> Poll<Result<bool>> {
        let batch = match self.spill.poll_read(&mut self.reader, waker) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(batch) => batch.transpose()?,
        };
        self.batch = batch.map(|batch| (batch, 0));
        Poll::Ready(Ok(self.batch.is_some()))
    }

    /// Looks the rows at hand up, as far as memory allows; if it does not, a piece that is in memory is written, and if
    /// there is none, the partition is split.
    fn absorb_batch(&mut self, board: &Board) -> Result<()> {
        let Some((batch, mut first)) = self.batch.take() else { return Ok(()) };
        let mut step = STEP_ROWS;
        while first < batch.rows() {
            let rows = step.min(batch.rows() - first);
            let some = batch.slice(first, rows);
            let reservation = &mut self.reservation;
            let reserve = &mut |bytes: usize| reservation.grow(bytes.saturating_sub(reservation.bytes()));
            match self.held.absorb(&self.spill, &some, reserve) {
                Ok(()) => first += rows,
                Err(error) if error.kind() != ErrorKind::Resource => return Err(error),
                Err(_) if self.makes_room(board) => {
                    self.batch = Some((batch, first));
                    return Ok(());
                }
                Err(_) if !self.is_large() && self.absorb_all_the_same(&some)? => first += rows,
                Err(_) if self.can_split() => {
                    self.batch = Some((batch, first));
                    return self.begin_split();
                }
                Err(_) if rows > 1 => step = rows / 2,
                Err(_) => {
                    let reservation = &mut self.reservation;
                    self.held.absorb(&self.spill, &some, &mut |bytes| {
                        reservation.grow_for_one_row(bytes.saturating_sub(reservation.bytes()))
                    })?;
                    first += rows;
                }
            }
        }
        // Accumulators say afterwards how much they have taken.
        let more = self.held.bytes().saturating_sub(self.reservation.bytes());
        if self.is_refused(more) {
            if self.can_split() {
                self.reservation.overdraw(more);
                return self.begin_split();
            }
            self.reservation.grow_for_one_row(more)?;
        }
        Ok(())
    }

    /// Whether it holds so much that its parts are worth a file each. Where others have all of the memory, nothing else
    /// fits either, however often it is split.
    fn is_large(&self) -> bool {
        self.held.bytes() >= PARTS_CLUSTERS_MIN * self.spill.buffers.space().cluster_bytes()
    }

    /// Looks rows up that memory was refused for, and takes it beyond the budget. False if that is too much.
    fn absorb_all_the_same(&mut self, some: &Batch) -> Result<bool> {
        let reservation = &mut self.reservation;
        let reserve = &mut |bytes: usize| reservation.grow_to_free(bytes.saturating_sub(reservation.bytes()));
        match self.held.absorb(&self.spill, some, reserve) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::Resource => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether there is no memory for so many bytes more, not even beyond the budget for what is small.
    fn is_refused(&mut self, more: usize) -> bool {
        self.reservation.grow(more).is_err() && (self.is_large() || self.reservation.grow_to_free(more).is_err())
    }

    /// Whether a piece that is in memory goes to temp space first.
    fn makes_room(&mut self, board: &Board) -> bool {
        self.outgoing = board.evict();
        !self.outgoing.is_empty()
    }

    /// Whether its parts would be smaller.
    fn can_split(&self) -> bool {
        self.level < LEVELS_MAX && self.held.len() > 1
    }

    /// From now on rows go to the parts; those that have been brought together first.
    fn begin_split(&mut self) -> Result<()> {
        let files = self.spill.split(self.level + 1, self.is_pairs);
        let mut outgoing = Outgoing::to_parts(&self.spill, &files);
        let held = std::mem::replace(&mut self.held, ReadSoFar::new(&self.spill, self.is_pairs)?);
        let empty = self.reservation.sibling();
        let mut reservation = std::mem::replace(&mut self.reservation, empty);
        match held {
            ReadSoFar::Groups(table) => outgoing.add_table(*table, reservation)?,
            ReadSoFar::Pairs(tables) => {
                for (state, table) in tables {
                    let rest = reservation.sibling();
                    outgoing.add_read_pairs(state, table, std::mem::replace(&mut reservation, rest));
                }
            }
        }
        self.split = Some((files, outgoing));
        Ok(())
    }

    /// All rows have been read.
    fn end(&mut self) -> Result<Merged> {
        if let ReadSoFar::Groups(table) = &mut self.held {
            table.resize_states()?;
            let more = (table.bytes() + table.finishing_bytes()).saturating_sub(self.reservation.bytes());
            if self.is_refused(more) {
                if self.can_split() {
                    self.begin_split()?;
                    return Ok(Merged::Again);
                }
                self.reservation.grow_for_one_row(more)?;
            }
        }
        let empty = self.reservation.sibling();
        let reservation = std::mem::replace(&mut self.reservation, empty);
        Ok(match std::mem::replace(&mut self.held, ReadSoFar::Pairs(VecDeque::new())) {
            ReadSoFar::Groups(table) => Merged::Groups(Box::new(FinishedGroups::new(*table, reservation)?)),
            ReadSoFar::Pairs(pairs) => Merged::Pairs(Box::new(Resolve::new(&self.spill, pairs, reservation)?)),
        })
    }
}

impl ReadSoFar {
    fn new(spill: &Spill, is_pairs: bool) -> Result<Self> {
        Ok(match is_pairs {
            true => Self::Pairs(VecDeque::new()),
            false => Self::Groups(Box::new(GroupTable::new(spill.program.clone())?)),
        })
    }

    fn len(&self) -> usize {
        match self {
            Self::Groups(table) => table.groups(),
            Self::Pairs(tables) => tables.iter().map(|(_, table)| table.groups()).sum(),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Groups(table) => table.bytes(),
            Self::Pairs(tables) => tables.iter().map(|(_, table)| table.bytes()).sum(),
        }
    }

    /// Adds rows. `reserve` is told how many bytes will be held at most; if it fails, nothing has been done.
    fn absorb(&mut self, spill: &Spill, batch: &Batch, reserve: &mut dyn FnMut(usize) -> Result<()>) -> Result<()> {
        let columns = (0..batch.columns().len()).map(|index| batch.flat(index)).collect::<Result<Vec<_>>>()?;
        match self {
            Self::Groups(table) => absorb_groups(table, &columns, batch.rows(), reserve),
            Self::Pairs(tables) => absorb_pairs(tables, spill, &columns, batch.rows(), reserve),
        }
    }
}

fn absorb_groups(
    table: &mut GroupTable,
    columns: &[ArrayRef],
    rows: usize,
    reserve: &mut dyn FnMut(usize) -> Result<()>,
) -> Result<()> {
    let program = table.program.clone();
    let slots = program.layout.bytes_slots;
    let (keys, columns) = columns.split_at(if program.grouped { 1 + slots } else { 0 });
    let mut encoded = match keys {
        [words, long @ ..] => EncodedKeys::stored(words.as_fixed_size_binary(), long),
        [] => EncodedKeys::default(),
    };
    let mut from = 0;
    let mut stored = Vec::with_capacity(table.states.len());
    for state in &table.states {
        let to = from + state.column_count();
        stored.push(state.of_columns(columns.get(from..to).ok_or_else(too_few)?)?);
        from = to;
    }
    reserve(table.bytes_ahead(rows) + encoded.stored_text() + table.merge_bytes_ahead(&stored, 0..rows))?;
    let before = table.groups();
    let mut ids = Vec::new();
    if program.grouped {
        table.lookup(&mut encoded, &mut ids)?;
    }
    let ids = program.grouped.then_some(ids.as_slice());
    // Rows of no GROUP BY all belong to the one group; each is a partial result.
    let placement = Placement { ids, rows, before, groups: table.groups(), appended: false };
    table.states.iter_mut().zip(&stored).try_for_each(|(state, stored)| state.merge(stored, 0..rows, placement))
}

fn absorb_pairs(
    tables: &mut VecDeque<(usize, KeyTable)>,
    spill: &Spill,
    columns: &[ArrayRef],
    rows: usize,
    reserve: &mut dyn FnMut(usize) -> Result<()>,
) -> Result<()> {
    let [tags, words, long @ ..] = columns else { return Err(too_few()) };
    let state = tags.as_primitive::<UInt16Type>().values().first().map_or(0, |tag| usize::from(*tag));
    let keys = EncodedKeys::stored(words.as_fixed_size_binary(), long);
    let index = match tables.iter().position(|(other, _)| *other == state) {
        Some(index) => index,
        None => {
            let layout = spill.pair_layouts.get(state).cloned().flatten().ok_or_else(too_few)?;
            tables.push_back((state, KeyTable::new(layout)));
            tables.len() - 1
        }
    };
    let others = tables.iter().map(|(_, table)| table.bytes()).sum::<usize>() - tables[index].1.bytes();
    reserve(others + tables[index].1.bytes_ahead(rows) + keys.stored_text())?;
    tables[index].1.lookup(&keys.words, keys.rows, &keys, &mut Vec::new())
}

fn too_few() -> Error {
    Error::bug("rows came out of temp space with other columns than they had")
}
