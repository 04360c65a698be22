//! Where the packets' groups come together (Gamma's global aggregation), and what the source reads.
//!
//! Small tables are merged one into another. Large ones arrive as chunks sorted by partition; every piece of merging
//! takes some partitions of all chunks, so pieces share nothing and run on any workers at the same time.
//!
//! If groups are in temp space, or as far as there is no memory for merging, the source merges what is left (see
//! [`spill`](super::spill)), a piece at a time. What is complete, or left, is at rest until the source comes to it: it
//! goes to temp space if its memory is needed.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Poll, Waker};

use diligence_base::{Error, Result};
use diligence_disk::TempSpace;
use diligence_memory::{QueryMemory, Reclaim, Reservation};

use super::finished::{FinishedGroups, FinishedParts, RetiredBuffers, Retiring};
use super::group_table::{Chunk, GroupTable, PARTITIONS};
use super::groups::{Groups, Handed, Tuning};
use super::program::Program;
use super::spill::board::{Board, Resident};
use super::spill::outgoing::Outgoing;
use super::spill::{Division, Spill};
use crate::flow::QueryContext;
use crate::flow::profile::Spills;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Pieces of the partitions where there is no temp space.
const PIECES: usize = 16;

/// What the packets, the pieces of merging and the source have in common.
pub(super) struct SharedAggregate {
    pub program: Arc<Program>,
    pub tuning: Tuning,
    pub spills: Arc<Spills>,
    /// Of the first packet; those of the others are the same.
    pub context: OnceLock<QueryContext>,
    /// Of the packets that are at work.
    working: Mutex<Vec<Weak<Mutex<Groups>>>>,
    handed: Mutex<Vec<Handed>>,
    pub spill: OnceLock<Arc<Spill>>,
    spill_starts: Mutex<()>,
    division: OnceLock<Division>,
    /// Pieces of the partitions that have spilled, as bits.
    spilled: Arc<AtomicU64>,
    has_spilled: AtomicBool,
    pub merging: OnceLock<Merging>,
    pub finished: OnceLock<Finished>,
    reclaiming: Mutex<Option<Reclaiming>>,
    pub retired: RetiredBuffers,
}

/// The work of merging, once all packets are done.
pub(super) struct Merging {
    /// Merged by the only part.
    tables: Mutex<Vec<(GroupTable, Reservation)>>,
    /// Merged by partition, or none: by piece, each with how many parts still need it.
    chunks: Vec<Mutex<(usize, Vec<Arc<Chunk>>)>>,
    pub parts: Vec<Range<usize>>,
    pub results: Vec<Mutex<Option<FinishedGroups>>>,
}

/// What the source reads.
pub(super) struct Finished {
    /// Groups that are there.
    pub parts: FinishedParts,
    /// Work that is left.
    pub board: Option<Board>,
}

/// What is on its way to temp space because somebody else needs its memory.
enum Reclaiming {
    Part(Box<Retiring>),
    Piece(VecDeque<Outgoing>),
}

impl SharedAggregate {
    pub fn new(program: Arc<Program>, tuning: Tuning) -> Self {
        Self {
            program,
            tuning,
            spills: Arc::default(),
            context: OnceLock::new(),
            working: Mutex::default(),
            handed: Mutex::default(),
            spill: OnceLock::new(),
            spill_starts: Mutex::default(),
            division: OnceLock::new(),
            spilled: Arc::default(),
            has_spilled: AtomicBool::new(false),
            merging: OnceLock::new(),
            finished: OnceLock::new(),
            reclaiming: Mutex::default(),
            retired: RetiredBuffers::default(),
        }
    }

    /// The groups of a packet that begins, none yet.
    pub fn groups(&self, context: &QueryContext) -> Result<Groups> {
        let pieces = self.pieces(context);
        Groups::new(self.program.clone(), self.tuning.clone(), pieces, self.spilled.clone(), context)
    }

    /// A packet begins.
    pub fn register(&self, groups: &Arc<Mutex<Groups>>) {
        self.working.lock().push(Arc::downgrade(groups));
    }

    pub fn hand_over(&self, handed: Handed) {
        self.handed.lock().push(handed);
    }

    /// What is there, after the sink is complete.
    pub fn finished(&self) -> Result<&Finished> {
        match self.finished.get() {
            Some(finished) => Ok(finished),
            None => Err(Error::bug("groups were read before they were complete")),
        }
    }

    /// Whether groups are in temp space, so that the source merges them.
    pub fn has_spilled(&self) -> bool {
        self.has_spilled.load(Ordering::Acquire)
    }

    /// Reserves what spilling needs before the aggregate holds much more than that: later there may be no memory for
    /// it.
    pub fn prepare_spill(&self, context: &QueryContext, held_bytes: usize) -> Result<()> {
        match &context.temp {
            Some(temp) if self.spill.get().is_none() && held_bytes > 2 * self.spill_bytes(context, temp) => {
                self.spill(context, false).map(|_| ())
            }
            _ => Ok(()),
        }
    }

    /// Whether it can have many groups, or many values of one group.
    pub fn may_spill(&self) -> bool {
        self.program.grouped || self.program.has_distinct()
    }

    pub fn spill_bytes(&self, context: &QueryContext, temp: &TempSpace) -> usize {
        self.division(context).clusters_min() * temp.cluster_bytes()
    }

    /// What spilling needs; `None` without temp space. If memory is refused and it `must` be, it is overdrawn, unless
    /// the query is better started again.
    fn spill(&self, context: &QueryContext, must: bool) -> Result<Option<&Arc<Spill>>> {
        let Some(temp) = &context.temp else { return Ok(None) };
        let _starting = self.spill_starts.lock();
        if self.spill.get().is_none() {
            let mut reservation = context.memory.reservation("Aggregate");
            let bytes = self.spill_bytes(context, temp);
            match reservation.grow(bytes) {
                Ok(()) => {}
                Err(_) if !must => return Ok(None),
                Err(error) if reservation.should_wait(bytes) => return Err(error),
                Err(_) => reservation.overdraw(bytes),
            }
            let spill = Spill::new(&self.program, context, temp, self.division(context), reservation, &self.spills)?;
            self.spill.get_or_init(|| Arc::new(spill));
        }
        Ok(self.spill.get())
    }

    /// Into how many pieces the partitions are cut: as many as there are files, so that one has only rows of one piece.
    pub fn pieces(&self, context: &QueryContext) -> usize {
        self.division(context).fan_out
    }

    /// Once and for all: what it can count on changes with the budget and the other queries.
    fn division(&self, context: &QueryContext) -> Division {
        let without_temp = Division { fan_out: PIECES, packets: context.packets };
        *self.division.get_or_init(|| context.temp.as_ref().map_or(without_temp, |temp| Spill::division(context, temp)))
    }

    /// Whether groups are being written.
    pub fn is_spilling(&self) -> bool {
        self.spill.get().is_some_and(|spill| spill.is_underway())
    }

    /// Pending while groups are being written; then the waker is woken when some have been.
    pub fn poll_spilling(&self, waker: &Waker) -> Poll<()> {
        self.spill.get().map_or(Poll::Ready(()), |spill| spill.poll_underway(waker))
    }

    /// Takes out the groups of the largest piece, whoever holds them, to be written; if there are only tables, the
    /// largest of these. `None` if nobody holds anything, or there is no temp space.
    pub fn evict(&self, context: &QueryContext) -> Result<Option<VecDeque<Outgoing>>> {
        let Some(spill) = self.spill(context, true)? else { return Ok(None) };
        let working = self.working.lock().iter().filter_map(Weak::upgrade).collect::<Vec<_>>();
        let (outgoing, given_back) = match self.program.grouped {
            true => match self.evict_piece(spill, &working)? {
                outgoing if outgoing.is_empty() => self.evict_table(spill, working)?,
                outgoing => (outgoing, true),
            },
            false => (self.evict_pairs(spill, working)?, false),
        };
        if !outgoing.is_empty() {
            self.has_spilled.store(true, Ordering::Release);
        }
        Ok((given_back || !outgoing.is_empty()).then_some(outgoing))
    }

    /// The chunks of the largest piece.
    fn evict_piece(&self, spill: &Arc<Spill>, working: &[Arc<Mutex<Groups>>]) -> Result<VecDeque<Outgoing>> {
        let mut bytes = vec![0; spill.files()];
        for handed in self.handed.lock().iter() {
            if let Handed::Chunk(chunk) = handed {
                bytes[chunk.piece(spill.files())] += chunk.bytes();
            }
        }
        working.iter().for_each(|groups| groups.lock().add_piece_bytes(&mut bytes));
        let largest = bytes.iter().enumerate().max_by_key(|(_, bytes)| **bytes);
        let Some((piece, _)) = largest.filter(|(_, bytes)| **bytes > 0) else { return Ok(VecDeque::new()) };
        self.spilled.fetch_or(1 << piece, Ordering::AcqRel);
        let mut chunks = working.iter().flat_map(|groups| groups.lock().take_piece(piece)).collect::<Vec<_>>();
        let is_of_piece = |handed: &mut Handed| match handed {
            Handed::Chunk(chunk) => chunk.piece(spill.files()) == piece,
            Handed::Table(..) => false,
        };
        let handed = self.handed.lock().extract_if(.., is_of_piece).collect::<Vec<_>>();
        chunks.extend(handed.into_iter().filter_map(|handed| match handed {
            Handed::Chunk(chunk) => Some(chunk),
            Handed::Table(..) => None,
        }));
        self.outgoing_of(chunks)
    }

    /// The tables of the packets that have ended, or else the largest; and whether memory was given back.
    fn evict_table(&self, spill: &Arc<Spill>, working: Vec<Arc<Mutex<Groups>>>) -> Result<(VecDeque<Outgoing>, bool)> {
        let handed = std::mem::take(&mut *self.handed.lock());
        let mut outgoing = self.outgoing(spill, handed)?;
        let mut given_back = !outgoing.is_empty();
        let mut working = by_bytes(working);
        while outgoing.is_empty()
            && let Some((bytes, groups)) = working.pop()
        {
            // A table that has just been flushed has memory, but no groups.
            given_back |= bytes > 0;
            let handed = groups.lock().take_table()?;
            outgoing = self.outgoing(spill, handed.into_iter().collect())?;
        }
        Ok((outgoing, given_back))
    }

    /// DISTINCT's pairs of those that have ended, or else of the packet that has most.
    fn evict_pairs(&self, spill: &Arc<Spill>, working: Vec<Arc<Mutex<Groups>>>) -> Result<VecDeque<Outgoing>> {
        let mut outgoing = VecDeque::new();
        for handed in self.handed.lock().iter_mut() {
            if let Handed::Table(table, reservation) = handed
                && let Some(states) = table.take_pairs()?
            {
                let held = std::mem::replace(reservation, reservation.sibling());
                reservation.settle(table.bytes());
                outgoing.push_back(Outgoing::of_pairs(spill, states, held));
            }
        }
        let mut working = by_bytes(working);
        while outgoing.is_empty()
            && let Some((_, groups)) = working.pop()
        {
            if let Some((states, held)) = groups.lock().take_pairs()? {
                outgoing.push_back(Outgoing::of_pairs(spill, states, held));
            }
        }
        Ok(outgoing)
    }

    /// Chunks of pieces that have spilled, to be written.
    pub fn outgoing_of(&self, chunks: Vec<Chunk>) -> Result<VecDeque<Outgoing>> {
        if chunks.is_empty() {
            return Ok(VecDeque::new());
        }
        let spill = self.spill.get().ok_or_else(|| Error::bug("groups spill without temp space"))?;
        self.outgoing(spill, chunks.into_iter().map(Handed::Chunk).collect())
    }

    fn outgoing(&self, spill: &Arc<Spill>, handed: Vec<Handed>) -> Result<VecDeque<Outgoing>> {
        let outgoing = handed.into_iter().map(|handed| match handed {
            Handed::Table(table, reservation) => Outgoing::of_table(spill, table, reservation),
            Handed::Chunk(chunk) => Ok(Outgoing::of_chunk(spill, chunk, &[0..PARTITIONS])),
        });
        outgoing.collect()
    }

    pub fn plan_merging(&self) -> Result<Merging> {
        let (mut tables, mut chunks) = (Vec::new(), Vec::new());
        for handed in std::mem::take(&mut *self.handed.lock()) {
            match handed {
                Handed::Table(table, reservation) => tables.push((table, reservation)),
                Handed::Chunk(chunk) => chunks.push(chunk),
            }
        }
        let pieces = self.context.get().map_or(1, |context| self.pieces(context));
        let table_groups = tables.iter().map(|(table, _)| table.groups()).sum::<usize>();
        let repeats = tables.iter().any(|(table, ..)| table.repeats);
        let one_part = chunks.is_empty() && !repeats && (tables.len() <= 1 || table_groups <= self.tuning.part_groups);
        if !one_part && self.program.grouped {
            while let Some((mut table, reservation)) = tables.pop() {
                let mut copy = reservation.sibling();
                match copy.grow(table.bytes()) {
                    Ok(()) => chunks.extend(table.take_chunks(pieces, copy)?),
                    Err(_) if self.has_temp() => {
                        // Everything as it was: the source will do it.
                        tables.push((table, reservation));
                        self.has_spilled.store(true, Ordering::Release);
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        if self.has_spilled() {
            let mut handed = self.handed.lock();
            handed.extend(tables.into_iter().map(|(table, reservation)| Handed::Table(table, reservation)));
            handed.extend(chunks.into_iter().map(Handed::Chunk));
            return Ok(Merging::nothing());
        }
        let parts = if chunks.is_empty() {
            vec![0..PARTITIONS]
        } else {
            let groups = chunks.iter().map(|chunk| chunk.keys.groups).sum::<usize>();
            let wanted = groups.div_ceil(self.tuning.part_groups.max(1)).next_power_of_two().min(PARTITIONS);
            let width = PARTITIONS / wanted;
            (0..wanted).map(|part| part * width..(part + 1) * width).collect()
        };
        let results = parts.iter().map(|_| Mutex::default()).collect();
        let mut by_piece = (0..pieces).map(|_| (0, Vec::new())).collect::<Vec<_>>();
        for part in &parts {
            pieces_of(part, pieces).for_each(|piece| by_piece[piece].0 += 1);
        }
        for mut chunk in chunks {
            // Nobody can give it back until the parts are done.
            chunk.reservation.hold_firm();
            by_piece[chunk.piece(pieces)].1.push(Arc::new(chunk));
        }
        let chunks = by_piece.into_iter().map(Mutex::new).collect();
        Ok(Merging { tables: Mutex::new(tables), chunks, parts, results })
    }

    fn has_temp(&self) -> bool {
        self.context.get().is_some_and(|context| context.temp.is_some())
    }

    pub fn merging(&self) -> Result<&Merging> {
        self.merging.get().ok_or_else(|| Error::bug("groups were merged before they were all in"))
    }

    /// Merges a part. If that fails for lack of memory, what it was to be made of is still there.
    pub fn merge_part(&self, index: usize, memory: &QueryMemory) -> Result<FinishedGroups> {
        let merging = self.merging()?;
        let partitions = merging.parts[index].clone();
        let pieces = pieces_of(&partitions, merging.chunks.len());
        let chunks = pieces.clone().flat_map(|piece| merging.chunks[piece].lock().1.clone()).collect::<Vec<_>>();
        if merging.parts.len() == 1 && chunks.is_empty() {
            return self.merge_tables(merging, memory);
        }
        let mut table = GroupTable::new(self.program.clone())?;
        let mut reservation = memory.revocable("Aggregate");
        let mut reserve = |bytes: usize| reservation.grow(bytes.saturating_sub(reservation.bytes()));
        for chunk in chunks {
            table.merge_chunk(&chunk, partitions.clone(), &mut reserve)?;
        }
        reserve(table.bytes() + table.finishing_bytes())?;
        let finished = FinishedGroups::new(table, reservation)?;
        for piece in pieces {
            let mut piece = merging.chunks[piece].lock();
            piece.0 -= 1;
            if piece.0 == 0 {
                // Nobody needs them any more.
                piece.1.clear();
            }
        }
        Ok(finished)
    }

    fn merge_tables(&self, merging: &Merging, memory: &QueryMemory) -> Result<FinishedGroups> {
        let mut tables = std::mem::take(&mut *merging.tables.lock());
        // The largest takes in the others.
        tables.sort_by_key(|(table, _)| table.groups());
        let (mut table, mut reservation) = match tables.pop() {
            Some(first) => first,
            None => (GroupTable::new(self.program.clone())?, memory.revocable("Aggregate")),
        };
        let mut reserve = |bytes: usize| reservation.grow(bytes.saturating_sub(reservation.bytes()));
        let mut merged = Ok(());
        while merged.is_ok()
            && let Some((mut other, other_reservation)) = tables.pop()
        {
            other.freeze()?;
            merged = table.merge_table(&other, &mut reserve);
            match merged {
                // Before what it has reserved: of two variables the later one goes first.
                Ok(()) => drop(other),
                Err(_) => tables.push((other, other_reservation)),
            }
        }
        if merged.is_ok() {
            table.add_empty_sets()?;
            merged = reserve(table.bytes() + table.finishing_bytes());
        }
        if let Err(error) = merged {
            tables.push((table, reservation));
            *merging.tables.lock() = tables;
            return Err(error);
        }
        FinishedGroups::new(table, reservation)
    }

    /// The parts that have been merged, and the work that is left.
    pub fn finish(&self) -> Result<Finished> {
        let merging = self.merging()?;
        let mut handed = std::mem::take(&mut *self.handed.lock());
        let tables = std::mem::take(&mut *merging.tables.lock());
        handed.extend(tables.into_iter().map(|(table, held)| Handed::Table(table, held)));
        let mut parts = Vec::new();
        let mut left = Vec::new();
        for (result, partitions) in merging.results.iter().zip(&merging.parts) {
            match result.lock().take() {
                Some(finished) => parts.push(finished),
                None => left.push(partitions.clone()),
            }
        }
        let parts = FinishedParts::new(parts, self.has_temp());
        if !self.has_spilled() && handed.is_empty() && left.is_empty() {
            return Ok(Finished { parts, board: None });
        }
        let context = self.context.get().ok_or_else(|| Error::bug("groups of no packet"))?;
        let spill = self.spill(context, true)?.ok_or_else(|| Error::bug("parts are left without temp space"))?;
        let mut writes = VecDeque::new();
        let mut residents = (0..spill.files()).map(|_| Resident::default()).collect::<Vec<_>>();
        let mut keep = |chunk: Chunk| residents[chunk.piece(spill.files())].chunks.push(chunk);
        let mut all_spill = !self.program.grouped;
        for handed in handed {
            match handed {
                Handed::Chunk(chunk) => keep(chunk),
                Handed::Table(mut table, held) if self.program.grouped && !self.program.has_foreign => {
                    // A table is a small part of the memory.
                    let mut copy = held.sibling();
                    copy.settle(table.bytes());
                    table.take_chunks(spill.files(), copy)?.into_iter().for_each(&mut keep);
                }
                Handed::Table(table, held) => {
                    all_spill = true;
                    writes.push_back(Outgoing::of_table(spill, table, held)?);
                }
            }
        }
        for chunks in &merging.chunks {
            let chunks = std::mem::take(&mut chunks.lock().1);
            chunks.into_iter().try_for_each(|chunk| alone(chunk).map(&mut keep))?;
        }
        let counting = if merging.parts.is_empty() { vec![0..PARTITIONS] } else { left };
        let spilled = self.spilled.load(Ordering::Acquire);
        let mut stay = VecDeque::new();
        for (piece, mut resident) in residents.into_iter().enumerate().filter(|(_, r)| !r.chunks.is_empty()) {
            resident.counting = counting.clone();
            if all_spill || spilled >> piece & 1 == 1 || !spill.is_untouched(piece) {
                writes.extend(resident.outgoing(spill));
            } else {
                resident.chunks.iter_mut().for_each(|chunk| chunk.reservation.rest());
                stay.push_back(resident);
            }
        }
        Ok(Finished { parts, board: Some(Board::new(spill, writes, stay)) })
    }
}

/// Packets by the bytes that they hold.
fn by_bytes(working: Vec<Arc<Mutex<Groups>>>) -> Vec<(usize, Arc<Mutex<Groups>>)> {
    let held = working.iter().map(|groups| groups.lock().held_bytes()).collect::<Vec<_>>();
    let mut working = held.into_iter().zip(working).collect::<Vec<_>>();
    working.sort_by_key(|(bytes, _)| *bytes);
    working
}

/// The pieces that some partitions are in.
fn pieces_of(partitions: &Range<usize>, pieces: usize) -> Range<usize> {
    let width = PARTITIONS / pieces.max(1);
    partitions.start / width..partitions.end.div_ceil(width).min(pieces)
}

/// A chunk that nobody shares any more.
fn alone(chunk: Arc<Chunk>) -> Result<Chunk> {
    Arc::try_unwrap(chunk).map_err(|_| Error::bug("a chunk is still being merged"))
}

impl Merging {
    pub fn nothing() -> Self {
        Self { tables: Mutex::default(), chunks: Vec::new(), parts: Vec::new(), results: Vec::new() }
    }
}

impl Reclaim for SharedAggregate {
    fn reclaimable_bytes(&self) -> usize {
        let Some(Finished { parts, board }) = self.finished.get() else { return 0 };
        let is_under_way = self.reclaiming.try_lock().is_none_or(|reclaiming| reclaiming.is_some());
        usize::from(is_under_way) + parts.reclaimable_bytes() + board.as_ref().map_or(0, Board::resident_bytes)
    }

    fn poll_reclaim(&self, _bytes: usize, waker: &Waker) -> Poll<Result<()>> {
        let (Some(Finished { parts, board }), Some(context)) = (self.finished.get(), self.context.get()) else {
            return Poll::Ready(Ok(()));
        };
        let Some(temp) = &context.temp else { return Poll::Ready(Ok(())) };
        let mut reclaiming = self.reclaiming.lock();
        if reclaiming.is_none() {
            let pieces = board.as_ref().map(Board::evict_at_rest).unwrap_or_default();
            *reclaiming = match pieces.is_empty() {
                true if parts.reclaimable_bytes() == 0 => None,
                true => parts.retire(self.retired.get(context, temp)?).map(|part| Reclaiming::Part(Box::new(part))),
                false => {
                    board.iter().for_each(|board| board.spill.begin_giving());
                    Some(Reclaiming::Piece(pieces))
                }
            };
        }
        self.poll_begun(&mut reclaiming, waker)
    }
}

impl SharedAggregate {
    /// A packet is to read: the buffers are there for all that will. Fails if the groups could not be finished.
    pub fn begin_reading(&self, context: &QueryContext) -> Result<()> {
        if let Some(board) = &self.finished()?.board {
            board.spill.wake();
        }
        self.retired.wake(context);
        Ok(())
    }

    /// Nobody reads any more: no buffers are kept.
    pub fn end_reading(&self) {
        if let Some(Finished { board, .. }) = self.finished.get() {
            board.iter().for_each(|board| board.spill.rest());
        }
        self.retired.end();
    }

    /// Goes on with what is on its way to temp space: whoever began it may have been told that it is not needed any
    /// more, but a reader waits for it. Pending as well if there is nothing: then the reader is woken by others.
    pub fn poll_reclaimed(&self, waker: &Waker) -> Poll<Result<()>> {
        let mut reclaiming = self.reclaiming.lock();
        if reclaiming.is_none() {
            return Poll::Pending;
        }
        self.poll_begun(&mut reclaiming, waker)
    }

    fn poll_begun(&self, reclaiming: &mut Option<Reclaiming>, waker: &Waker) -> Poll<Result<()>> {
        let (Some(Finished { parts, board }), Some(context)) = (self.finished.get(), self.context.get()) else {
            return Poll::Ready(Ok(()));
        };
        loop {
            match reclaiming {
                None => return Poll::Ready(Ok(())),
                Some(Reclaiming::Part(retiring)) => match retiring.poll(&self.program, context, waker)? {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(false) => {}
                    Poll::Ready(true) => {
                        if let Some(Reclaiming::Part(retiring)) = reclaiming.take() {
                            parts.retired(*retiring, &self.spills);
                        }
                        self.retired.rest();
                        return Poll::Ready(Ok(()));
                    }
                },
                Some(Reclaiming::Piece(pieces)) => match pieces.front_mut() {
                    Some(outgoing) => match outgoing.poll(waker)? {
                        Poll::Pending => return Poll::Pending,
                        Poll::Ready(()) => drop(pieces.pop_front()),
                    },
                    None => {
                        *reclaiming = None;
                        board.iter().for_each(|board| {
                            board.spill.end_giving();
                            board.done(Vec::new());
                        });
                        return Poll::Ready(Ok(()));
                    }
                },
            }
        }
    }
}
