//! The groups of one packet: a table, and the chunks that were flushed of it. See [`local`](super::local).

use std::sync::Arc;

use arrow::array::UInt32Array;
use diligence_base::{Error, ErrorKind, Result};
use diligence_memory::Reservation;

use super::direct::DirectGroups;
use super::group_table::{Chunk, GroupTable, PARTITIONS};
use super::key_encoding::EncodedKeys;
use super::program::{Inputs, Program, evaluate_groups};
use super::states::{Placement, State};
use crate::batch::{Batch, Column};
use crate::flow::QueryContext;
use crate::operators::widening::Widening;
use crate::sync::atomic::{AtomicU64, Ordering};

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

/// Grouping sets at most that are looked up in arrays, of which each has its own.
const DIRECT_SETS_MAX: usize = 16;

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

/// What a packet leaves behind.
pub(super) enum Handed {
    Table(GroupTable, Reservation),
    Chunk(Chunk),
}

/// One packet's groups. Another packet that is refused memory may take them out, between two batches.
pub(super) struct Groups {
    program: Arc<Program>,
    tuning: Tuning,
    packets: usize,
    pub table: GroupTable,
    /// By grouping set.
    direct: Vec<DirectGroups>,
    encoded: EncodedKeys,
    ids: Vec<u32>,
    pub widening: Option<Widening>,
    /// Rows in the table.
    rows: usize,
    /// Spreading: flushes still to come before gathering again.
    pub spread: usize,
    /// Bytes of a table above which it is flushed.
    table_bytes_max: usize,
    /// By piece.
    chunks: Vec<Vec<Chunk>>,
    chunk_bytes: usize,
    /// Pieces that have spilled, as bits; those of all packets.
    spilled: Arc<AtomicU64>,
    /// Chunks of such pieces.
    pub leaving: Vec<Chunk>,
    /// Bytes of chunks at which to consolidate next.
    consolidated_bytes: usize,
    consolidation: Option<Consolidation>,
    pub reservation: Reservation,
}

/// What became of a batch.
pub(super) enum Added {
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

impl Groups {
    /// Groups of a packet, in so many pieces; `spilled`: those that have spilled, as bits, of all packets.
    pub fn new(
        program: Arc<Program>,
        mut tuning: Tuning,
        pieces: usize,
        spilled: Arc<AtomicU64>,
        context: &QueryContext,
    ) -> Result<Self> {
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
            direct: program.sets.iter().map(|_| DirectGroups::default()).collect(),
            encoded: EncodedKeys::default(),
            ids: Vec::new(),
            widening: Widening::of(program.made_types(), context.batch_bytes()),
            rows: 0,
            spread: 0,
            chunks: (0..pieces).map(|_| Vec::new()).collect(),
            chunk_bytes: 0,
            spilled,
            leaving: Vec::new(),
            consolidated_bytes: tuning.consolidated_bytes,
            consolidation: None,
            tuning,
            program,
        })
    }

    /// Adds the rows of a batch, if there is memory for them.
    pub fn add(&mut self, batch: &Batch) -> Result<Added> {
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
        let (set, direct) = (&program.sets[set], &mut self.direct[set]);
        let before = self.table.groups();
        let bytes_max = self.table_bytes_max / 2 / program.sets.len();
        let mut ids = std::mem::take(&mut self.ids);
        if self.spread > 0 {
            self.encoded.encode_set(&program.layout, columns, set, rows, self.table.keys.keys.stride)?;
            self.table.append(&mut self.encoded, &mut ids)?;
        } else if program.sets.len() <= DIRECT_SETS_MAX && direct.code(&set.seen(columns), rows, bytes_max)? {
            let unknown = direct.find(&mut ids);
            if !unknown.is_empty() {
                let picks = UInt32Array::from(unknown.clone());
                let some = Batch::new(columns.to_vec(), rows).pick(&picks)?;
                let stride = self.table.keys.keys.stride;
                self.encoded.encode_set(&program.layout, some.columns(), set, unknown.len(), stride)?;
                let mut groups = Vec::new();
                self.table.lookup(&mut self.encoded, &mut groups)?;
                direct.learn(&unknown, &groups, &mut ids);
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
    pub fn reserve_firm(&mut self, batch: &Batch) -> Result<()> {
        let ahead = self.bytes_ahead(batch.rows() * self.program.sets.len().max(1));
        self.reservation.grow_firm(ahead.saturating_sub(self.reservation.bytes()))
    }

    fn bytes_ahead(&self, rows: usize) -> usize {
        let direct = self.direct.iter().map(DirectGroups::bytes).sum::<usize>();
        self.table.bytes_ahead(rows) + direct + self.encoded.bytes() + self.ids.capacity() * 4
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
        self.direct.iter_mut().for_each(DirectGroups::forget);
        self.rows = 0;
        chunks.into_iter().for_each(|chunk| self.keep(chunk));
        Ok(())
    }

    fn keep(&mut self, chunk: Chunk) {
        let piece = chunk.piece(self.chunks.len());
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
        self.direct.fill_with(DirectGroups::default);
        self.rows = 0;
        let is_some = !self.program.grouped || table.groups() > 0;
        Ok(is_some.then_some(Handed::Table(table, reservation)))
    }

    /// Gives everything away, with all memory.
    pub fn take_out(&mut self) -> Result<Vec<Handed>> {
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
