//! What one packet does: every batch goes into its own table (Gamma's local aggregation).
//!
//! ```text
//!   GATHERING --a full table had hardly brought rows together--> SPREADING --some flushes--> GATHERING
//! ```
//!
//! *Gathering* looks every key up in a table that fits the L2 cache. When it is full it is flushed, sorted by
//! partition. *Spreading* does not look up anything: rows go to their partitions as groups of one, because a look would
//! cost more than it saves; now and then it is tried again.
//!
//! A flush makes a chunk for each *piece* of the partitions, and chunks stay with the packet. When they hold many bytes
//! the packet merges those of one piece after another, one per batch (*consolidation*): so a packet holds at most some
//! times what its groups need, however many rows there are.
//!
//! Where memory is refused, or somebody else needs it, the largest piece goes to temp space ([`spill`](super::spill)),
//! and from then on what is flushed of it does so at once; the other pieces stay.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Poll, Waker};

use arrow::array::UInt32Array;
use diligence_base::{Error, ErrorKind, Result};
use diligence_memory::Reservation;

use super::direct::DirectGroups;
use super::group_table::{Chunk, GroupTable, PARTITIONS};
use super::key_encoding::EncodedKeys;
use super::program::{Inputs, Program, evaluate_groups};
use super::sink::{Handed, SharedAggregate};
use super::spill::outgoing::Outgoing;
use super::states::{Placement, State};
use crate::batch::{Batch, Column};
use crate::flow::{Accept, QueryContext, SinkState};
use crate::operators::widening::Widening;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Latch, Mutex};

/// Groups of one packet, which others may have to write to temp space.
static GROUPS: Latch = Latch::new("aggregate");

/// The share of a query's memory that chunks of all packets may have before they are merged: one in so many.
const CONSOLIDATED_SHARE: usize = 4;
/// The same of tables before they are flushed, for which they need as much again.
const TABLES_SHARE: usize = 8;
/// A table of so few bytes is not flushed for its size.
const TABLE_BYTES_MIN: usize = 32 * 1024;

/// Somewhat fewer than a power of two, and a number of full batches: so the arrays of a flush's pieces, all of about
/// the same size, fit what allocators have blocks for, which are powers of two and quarters between them. With the
/// power of two itself half of them are a little larger.
const LOCAL_GROUPS: usize = 26 * 1024;

/// When tables are flushed and how work is split. Tests make everything small.
#[derive(Clone, Debug)]
pub(super) struct Tuning {
    /// Groups in a packet's table before it is flushed: with keys of one word and one or two states, a table of so many
    /// and another batch's takes about half of an L2 cache of 2 MiB.
    pub local_groups: usize,
    /// Groups in a table above which a packet sorts it by partition itself when its input ends.
    pub handed_groups: usize,
    /// Groups that one piece of merging has, about.
    pub part_groups: usize,
    /// Flushes of a spreading packet before it tries to gather again.
    pub spread_flushes: usize,
    /// Bytes of a packet's chunks above which it merges them.
    pub consolidated_bytes: usize,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            local_groups: LOCAL_GROUPS,
            handed_groups: 16 * 1024,
            part_groups: 32 * 1024,
            spread_flushes: 16,
            consolidated_bytes: 64 * 1024 * 1024,
        }
    }
}

/// One packet's part of the sink.
pub(super) struct LocalGroups {
    shared: Arc<SharedAggregate>,
    context: QueryContext,
    groups: Arc<Mutex<Groups>>,
    /// Rows that have been accepted but not looked at.
    pending: VecDeque<Batch>,
    /// Groups on their way to temp space: their memory is what the next rows need.
    outgoing: VecDeque<Outgoing>,
    /// Whether it has just been refused memory for what is pending.
    is_refused: bool,
    finished: bool,
}

/// One packet's groups. Another packet that is refused memory may take them out, between two batches.
pub(super) struct Groups {
    program: Arc<Program>,
    tuning: Tuning,
    packets: usize,
    table: GroupTable,
    direct: DirectGroups,
    encoded: EncodedKeys,
    ids: Vec<u32>,
    widening: Option<Widening>,
    /// Rows in the table.
    rows: usize,
    /// Spreading: flushes still to come before gathering again.
    spread: usize,
    /// Bytes of a table above which it is flushed.
    table_bytes_max: usize,
    /// By piece.
    chunks: Vec<Vec<Chunk>>,
    chunk_bytes: usize,
    /// Pieces that have spilled, as bits; those of all packets.
    spilled: Arc<AtomicU64>,
    /// Chunks of such pieces.
    leaving: Vec<Chunk>,
    /// Bytes of chunks at which to consolidate next.
    consolidated_bytes: usize,
    consolidation: Option<Consolidation>,
    reservation: Reservation,
}

/// Rows that are so few that there must be memory for them.
const FEW_ROWS: usize = 512;

/// What became of a batch.
enum Added {
    /// It has been added.
    Done,
    /// It has been added, but there is no memory for what should come next.
    Pressed(Error),
    /// Nothing of it has been added: there is no memory for it.
    Refused(Error),
}

/// How far the merging of chunks is.
#[derive(Default)]
struct Consolidation {
    /// The piece that is next.
    next: usize,
    /// Groups that chunks had, and have.
    before: usize,
    after: usize,
}

impl LocalGroups {
    pub fn new(shared: Arc<SharedAggregate>, context: &QueryContext) -> Result<Self> {
        let groups = Arc::new(Mutex::named(&GROUPS, Groups::new(&shared, context)?));
        shared.register(&groups);
        let (pending, outgoing) = (VecDeque::new(), VecDeque::new());
        Ok(Self { shared, context: context.clone(), groups, pending, outgoing, is_refused: false, finished: false })
    }

    /// Adds what is pending; writes groups where memory is refused.
    fn work(&mut self, waker: &Waker) -> Result<Accept> {
        // Whether the next batch has what it needs, as firmly as can be: to ask for that may have asked for what is
        // held here.
        let mut is_sure = false;
        self.is_refused = false;
        loop {
            if let Some(outgoing) = self.outgoing.front_mut() {
                match outgoing.poll(waker) {
                    Poll::Pending => return Ok(Accept::Wait),
                    Poll::Ready(written) => written?,
                }
                self.outgoing.pop_front();
                continue;
            }
            let Some(batch) = self.pending.pop_front() else { return Ok(Accept::More) };
            // Not held while groups are taken out, from this packet as well.
            let is_asked = self.groups.lock().reservation.is_asked();
            if is_asked && !is_sure && !self.shared.is_spilling() && self.evict()? {
                self.pending.push_front(batch);
                continue;
            }
            is_sure = false;
            let (added, held_bytes, leaving) = {
                let mut groups = self.groups.lock();
                (groups.add(&batch)?, groups.held_bytes(), std::mem::take(&mut groups.leaving))
            };
            self.shared.prepare_spill(&self.context, held_bytes)?;
            self.outgoing = self.shared.outgoing_of(leaving)?;
            match added {
                Added::Done => {}
                Added::Pressed(error) => {
                    // If nobody holds anything, what comes next finds the memory, or is refused it.
                    if !self.evict()? && self.context.temp.is_none() {
                        return Err(error);
                    }
                }
                Added::Refused(error) => {
                    if self.evict()? {
                        self.pending.push_front(batch);
                    } else if self.shared.poll_spilling(waker).is_pending() {
                        self.pending.push_front(batch);
                        return Ok(Accept::Wait);
                    } else if batch.rows() <= FEW_ROWS && self.groups.lock().reserve_firm(&batch).is_ok() {
                        self.pending.push_front(batch);
                        is_sure = true;
                    } else if batch.rows() > 1 && self.context.temp.is_some() {
                        // Nobody holds anything: what a few rows need may be there.
                        let half = batch.rows() / 2;
                        self.pending.push_front(batch.slice(half, batch.rows() - half));
                        self.pending.push_front(batch.slice(0, half));
                    } else {
                        self.pending.push_front(batch);
                        self.is_refused = true;
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Takes the groups of the largest piece, to be written. False if nobody holds any, or there is no temp space.
    fn evict(&mut self) -> Result<bool> {
        let evicted = self.shared.evict(&self.context)?;
        let any = evicted.is_some();
        self.outgoing.extend(evicted.unwrap_or_default());
        Ok(any)
    }
}

impl Groups {
    fn new(shared: &SharedAggregate, context: &QueryContext) -> Result<Self> {
        let program = shared.program.clone();
        let mut tuning = shared.tuning.clone();
        if context.temp.is_some() {
            // Better to bring groups together than to write them twice.
            let share = context.memory.limit_bytes() / (CONSOLIDATED_SHARE * context.packets.max(1));
            tuning.consolidated_bytes = tuning.consolidated_bytes.min(share);
        }
        let share = context.memory.limit_bytes() / (TABLES_SHARE * context.packets.max(1));
        Ok(Self {
            table: GroupTable::new(program.clone())?,
            reservation: match program.grouped || program.has_distinct() {
                true => context.memory.revocable("Aggregate"),
                // It cannot be spilled: an error should say that it is one row that is so large.
                false => context.memory.reservation("Aggregate of one row"),
            },
            table_bytes_max: share.max(TABLE_BYTES_MIN),
            packets: context.packets,
            direct: DirectGroups::default(),
            encoded: EncodedKeys::default(),
            ids: Vec::new(),
            widening: Widening::of(program.made_types(), context.batch_bytes()),
            rows: 0,
            spread: 0,
            chunks: (0..shared.pieces(context)).map(|_| Vec::new()).collect(),
            chunk_bytes: 0,
            spilled: shared.spilled.clone(),
            leaving: Vec::new(),
            consolidated_bytes: tuning.consolidated_bytes,
            consolidation: None,
            tuning,
            program,
        })
    }

    fn add(&mut self, batch: &Batch) -> Result<Added> {
        let rows = batch.rows();
        if let Err(error) = self.reserve(rows * self.program.sets.len().max(1)) {
            return Ok(Added::Refused(error));
        }
        let inputs = self.program.evaluate(batch)?;
        let columns = evaluate_groups(&self.program, batch)?;
        if let Some(widening) = &mut self.widening {
            widening.note(rows, self.program.made_bytes(&columns, &inputs));
        }
        if !self.program.grouped {
            let placement = Placement { ids: None, rows, before: 1, groups: 1, appended: false };
            self.program.update(&mut self.table.states, &inputs, placement)?;
            return Ok(self.settle().map_or_else(Added::Pressed, |()| Added::Done));
        }
        for set in 0..self.program.sets.len() {
            self.add_set(set, &columns, rows, &inputs)?;
        }
        self.rows += rows * self.program.sets.len();
        if let Err(error) = self.settle() {
            return Ok(Added::Pressed(error));
        }
        // Nothing is looked up while spreading, so a table need not stay in the cache, and longer runs of a partition
        // are merged faster.
        let full = self.tuning.local_groups * if self.spread > 0 { 4 } else { 1 };
        let mut tidied = Ok(());
        let is_full = self.table.groups() >= full || self.table.bytes() >= self.table_bytes_max;
        if is_full && self.table.groups() > 0 && !self.program.has_foreign {
            tidied = self.make_room();
        }
        match tidied.and_then(|()| self.consolidate()) {
            Ok(()) => Ok(Added::Done),
            Err(error) if error.kind() == ErrorKind::Resource => Ok(Added::Pressed(error)),
            Err(error) => Err(error),
        }
    }

    fn add_set(&mut self, set: usize, columns: &[Column], rows: usize, inputs: &Inputs) -> Result<()> {
        let program = self.program.clone();
        let set = &program.sets[set];
        let before = self.table.groups();
        let mut ids = std::mem::take(&mut self.ids);
        if self.spread > 0 {
            self.encoded.encode_set(&program.layout, columns, set, rows, self.table.keys.keys.stride)?;
            self.table.append(&mut self.encoded, &mut ids)?;
        } else if !program.has_grouping_id && self.direct.code(columns, rows)? {
            let unknown = self.direct.find(&mut ids);
            if !unknown.is_empty() {
                let picks = UInt32Array::from(unknown.clone());
                let some = Batch::new(columns.to_vec(), rows).pick(&picks)?;
                let stride = self.table.keys.keys.stride;
                self.encoded.encode_set(&program.layout, some.columns(), set, unknown.len(), stride)?;
                let mut groups = Vec::new();
                self.table.lookup(&mut self.encoded, &mut groups)?;
                self.direct.learn(&unknown, &groups, &mut ids);
            }
        } else {
            self.encoded.encode_set(&program.layout, columns, set, rows, self.table.keys.keys.stride)?;
            self.table.lookup(&mut self.encoded, &mut ids)?;
        }
        let appended = self.spread > 0;
        let placement = Placement { ids: Some(&ids), rows, before, groups: self.table.groups(), appended };
        program.update(&mut self.table.states, inputs, placement)?;
        self.ids = ids;
        Ok(())
    }

    /// Reserves what the next rows can need at most.
    fn reserve(&mut self, rows: usize) -> Result<()> {
        let ahead = self.bytes_ahead(rows);
        if ahead > self.reservation.bytes() {
            self.reservation.resize(ahead)?;
        }
        Ok(())
    }

    /// The same for rows without which the query cannot go on.
    fn reserve_firm(&mut self, batch: &Batch) -> Result<()> {
        let ahead = self.bytes_ahead(batch.rows() * self.program.sets.len().max(1));
        self.reservation.grow_firm(ahead.saturating_sub(self.reservation.bytes()))
    }

    fn bytes_ahead(&self, rows: usize) -> usize {
        self.table.bytes_ahead(rows) + self.direct.bytes() + self.encoded.bytes() + self.ids.capacity() * 4
    }

    /// Counts what could not be foreseen: bytes of long strings, accumulators of DataFusion. Fails if they had to be
    /// overdrawn.
    fn settle(&mut self) -> Result<()> {
        let more = self.table.bytes().saturating_sub(self.reservation.bytes());
        if !self.program.grouped && !self.program.has_distinct() {
            // One value for the user: nothing of it can be spilled.
            return self.reservation.grow_for_one_row(more);
        }
        self.reservation.grow(more).inspect_err(|_| self.reservation.overdraw(more))
    }

    /// The table is full: flushes it, and decides whether the next rows are looked up.
    fn make_room(&mut self) -> Result<()> {
        let gathered = self.rows as f64 / self.table.groups() as f64;
        self.flush()?;
        match self.spread {
            0 if gathered < 1.3 => self.spread = self.tuning.spread_flushes,
            0 => {}
            _ => self.spread -= 1,
        }
        Ok(())
    }

    /// Sorts the table by partition; it is empty afterwards.
    fn flush(&mut self) -> Result<()> {
        let mut reservation = self.reservation.sibling();
        // The sorted copy is made beside the table, so for a moment both are held.
        reservation.grow(self.table.bytes())?;
        let chunks = self.table.take_chunks(self.chunks.len(), reservation)?;
        self.direct.forget();
        self.rows = 0;
        chunks.into_iter().for_each(|chunk| self.keep(chunk));
        Ok(())
    }

    fn keep(&mut self, chunk: Chunk) {
        let piece = piece_of(&chunk, self.chunks.len());
        if self.spilled.load(Ordering::Acquire) >> piece & 1 == 1 {
            self.leaving.push(chunk);
        } else {
            self.chunk_bytes += chunk.bytes();
            self.chunks[piece].push(chunk);
        }
    }

    /// Merges the packet's own chunks of one piece, if chunks have become too many.
    fn consolidate(&mut self) -> Result<()> {
        let Some(progress) = &mut self.consolidation else {
            if self.chunk_bytes >= self.consolidated_bytes {
                self.consolidation = Some(Consolidation::default());
            }
            return Ok(());
        };
        let (piece, pieces) = (progress.next, self.chunks.len());
        if self.chunks[piece].len() > 1 {
            let mut table = GroupTable::new(self.program.clone())?;
            let mut reservation = self.reservation.sibling();
            for chunk in &self.chunks[piece] {
                let mut reserve = |bytes: usize| reservation.grow(bytes.saturating_sub(reservation.bytes()));
                table.merge_chunk(chunk, 0..PARTITIONS, &mut reserve)?;
            }
            let after = table.groups();
            let mut merged = self.reservation.sibling();
            merged.grow(table.bytes())?;
            let merged = table.take_chunks(pieces, merged)?;
            let chunks = std::mem::replace(&mut self.chunks[piece], merged);
            progress.before += chunks.iter().map(|chunk| chunk.keys.groups).sum::<usize>();
            progress.after += after;
            let bytes = |chunks: &[Chunk]| chunks.iter().map(Chunk::bytes).sum::<usize>();
            self.chunk_bytes = self.chunk_bytes + bytes(&self.chunks[piece]) - bytes(&chunks);
        }
        progress.next += 1;
        // Where hardly any group repeats, the rest is left alone.
        let in_vain = progress.after * 4 > progress.before * 3;
        if progress.next == pieces || in_vain && progress.before > 0 {
            // What merging cannot make smaller is not merged again soon.
            let factor = if progress.before < progress.after * 2 { 8 } else { 3 };
            self.consolidated_bytes = self.tuning.consolidated_bytes.max(self.chunk_bytes * factor);
            self.consolidation = None;
        }
        Ok(())
    }

    /// Bytes that are reserved here.
    pub fn held_bytes(&self) -> usize {
        self.reservation.bytes() + self.chunk_bytes + self.leaving.iter().map(Chunk::bytes).sum::<usize>()
    }

    /// Adds the bytes of each piece.
    pub fn add_piece_bytes(&self, bytes: &mut [usize]) {
        for (bytes, chunks) in bytes.iter_mut().zip(&self.chunks) {
            *bytes += chunks.iter().map(Chunk::bytes).sum::<usize>();
        }
    }

    /// Takes the chunks of a piece.
    pub fn take_piece(&mut self, piece: usize) -> Vec<Chunk> {
        let chunks = std::mem::take(&mut self.chunks[piece]);
        self.chunk_bytes -= chunks.iter().map(Chunk::bytes).sum::<usize>();
        chunks
    }

    /// Takes the table, with its memory; `None` if it has no groups.
    pub fn take_table(&mut self) -> Result<Option<Handed>> {
        let table = std::mem::replace(&mut self.table, GroupTable::new(self.program.clone())?);
        let empty = self.reservation.sibling();
        let reservation = std::mem::replace(&mut self.reservation, empty);
        self.direct = DirectGroups::default();
        self.rows = 0;
        let is_some = !self.program.grouped || table.groups() > 0;
        Ok(is_some.then_some(Handed::Table(table, reservation)))
    }

    /// Gives everything away, with all memory.
    fn take_out(&mut self) -> Result<Vec<Handed>> {
        let any_chunk = self.chunks.iter().any(|chunks| !chunks.is_empty()) || self.spilled.load(Ordering::Acquire) > 0;
        let large = self.packets > 1 && self.table.groups() > self.tuning.handed_groups;
        if self.program.grouped && self.table.groups() > 0 && (large || any_chunk || self.table.repeats) {
            match self.flush() {
                Err(error) if error.kind() != ErrorKind::Resource => return Err(error),
                // The refusal has changed nothing: the table goes as it is.
                _ => {}
            }
        }
        self.consolidation = None;
        self.chunk_bytes = 0;
        let chunks = self.chunks.iter_mut().flat_map(std::mem::take).chain(std::mem::take(&mut self.leaving));
        let mut handed = chunks.map(Handed::Chunk).collect::<Vec<_>>();
        handed.extend(self.take_table()?);
        Ok(handed)
    }

    /// Takes DISTINCT's pairs out of the one group of no GROUP BY, with what is reserved for them.
    pub fn take_pairs(&mut self) -> Result<Option<(Vec<State>, Reservation)>> {
        let Some(states) = self.table.take_pairs()? else { return Ok(None) };
        let empty = self.reservation.sibling();
        let reservation = std::mem::replace(&mut self.reservation, empty);
        self.reservation.settle(self.table.bytes());
        Ok(Some((states, reservation)))
    }
}

impl SinkState for LocalGroups {
    fn rows_max(&self) -> usize {
        self.groups.lock().widening.as_ref().map_or(usize::MAX, Widening::rows)
    }

    fn push(&mut self, batch: Batch, waker: &Waker) -> Result<Accept> {
        self.pending.push_back(batch);
        if self.work(waker)? == Accept::Wait {
            return Ok(Accept::Wait);
        }
        let program = &self.shared.program;
        let enough = program.limit.is_some_and(|limit| {
            let groups = self.groups.lock();
            program.outputs.is_empty() && groups.spread == 0 && groups.table.groups() >= limit
        });
        Ok(if enough { Accept::Enough } else { Accept::More })
    }

    fn ready(&mut self, waker: &Waker) -> Result<Accept> {
        self.work(waker)
    }

    fn give_back(&mut self, waker: &Waker) -> Result<Accept> {
        let is_asked = self.groups.lock().reservation.is_asked();
        if is_asked && self.outgoing.is_empty() && !self.shared.is_spilling() {
            self.evict()?;
        }
        self.work(waker)
    }

    fn may_ask_again(&self) -> bool {
        self.is_refused
    }

    fn finish(&mut self, waker: &Waker) -> Result<Accept> {
        if self.work(waker)? == Accept::Wait {
            return Ok(Accept::Wait);
        }
        if !std::mem::replace(&mut self.finished, true) {
            let handed = self.groups.lock().take_out()?;
            handed.into_iter().for_each(|handed| self.shared.hand_over(handed));
        }
        Ok(Accept::More)
    }
}

/// Which of so many pieces of the partitions a chunk belongs to.
pub(super) fn piece_of(chunk: &Chunk, pieces: usize) -> usize {
    chunk.partitions.start / (PARTITIONS / pieces)
}
