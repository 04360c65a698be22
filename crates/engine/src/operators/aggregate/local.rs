//! What one packet does: every batch goes into its own table (Gamma's local aggregation).
//!
//! ```text
//!   GATHERING --a full table had hardly brought rows together--> SPREADING --some flushes--> GATHERING
//! ```
//!
//! *Gathering* looks every key up in a table that fits the L2 cache. When it is full it is flushed, sorted by partition.
//! *Spreading* does not look up anything: rows go to their partitions as groups of one, because a look would cost more
//! than it saves; now and then it is tried again.
//!
//! Chunks stay with the packet. When they hold many bytes the packet merges them partition by partition, one piece per
//! batch (*consolidation*): so a packet holds at most some times what its groups need, however many rows there are. Long
//! strings are copied then, each once, and those of the merged chunks are given back.

use std::sync::Arc;
use std::task::Waker;

use arrow::array::UInt32Array;
use diligence_base::Result;

use super::direct::DirectGroups;
use super::group_table::{Chunk, GroupTable, PARTITIONS};
use super::key_encoding::EncodedKeys;
use super::program::{Inputs, Program, evaluate_groups};
use super::sink::{Handed, Shared};
use super::states::{Placement, State};
use crate::batch::{Batch, Column};
use crate::memory::{QueryMemory, Reservation};
use crate::pipeline::{Accept, Setup, SinkState};

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
            local_groups: 32 * 1024,
            handed_groups: 16 * 1024,
            part_groups: 32 * 1024,
            spread_flushes: 16,
            consolidated_bytes: 64 * 1024 * 1024,
        }
    }
}

/// One packet's groups.
pub(super) struct LocalGroups {
    shared: Arc<Shared>,
    program: Arc<Program>,
    memory: QueryMemory,
    packets: usize,
    table: GroupTable,
    reservation: Reservation,
    direct: DirectGroups,
    encoded: EncodedKeys,
    ids: Vec<u32>,
    /// Rows in the table.
    rows: usize,
    /// Spreading: flushes still to come before gathering again.
    spread: usize,
    chunks: Vec<Chunk>,
    chunk_bytes: usize,
    /// Bytes of chunks at which to consolidate next.
    consolidated_bytes: usize,
    consolidation: Option<Consolidation>,
    finished: bool,
}

/// Chunks that are being merged, piece by piece.
struct Consolidation {
    chunks: Vec<Chunk>,
    /// Partitions below this are merged.
    next: usize,
    /// Partitions in a piece.
    width: usize,
    merged: Vec<Chunk>,
}

impl LocalGroups {
    pub fn new(shared: Arc<Shared>, setup: &Setup) -> Result<Self> {
        let program = shared.program.clone();
        Ok(Self {
            table: GroupTable::new(program.clone())?,
            reservation: setup.memory.reservation("Aggregate"),
            memory: setup.memory.clone(),
            packets: setup.packets,
            direct: DirectGroups::default(),
            encoded: EncodedKeys::default(),
            ids: Vec::new(),
            rows: 0,
            spread: 0,
            chunks: Vec::new(),
            chunk_bytes: 0,
            consolidated_bytes: shared.tuning.consolidated_bytes,
            consolidation: None,
            finished: false,
            program,
            shared,
        })
    }

    fn add(&mut self, batch: &Batch) -> Result<()> {
        let rows = batch.rows();
        self.reserve(rows * self.program.sets.len().max(1))?;
        let inputs = self.program.evaluate(batch)?;
        if !self.program.grouped {
            let placement = Placement { ids: None, rows, before: 1, groups: 1, appended: false };
            self.program.update(&mut self.table.states, &inputs, placement)?;
            return self.settle();
        }
        let columns = evaluate_groups(&self.program, batch)?;
        for set in 0..self.program.sets.len() {
            self.add_set(set, &columns, rows, &inputs)?;
        }
        self.rows += rows * self.program.sets.len();
        self.settle()?;
        // Nothing is looked up while spreading, so a table need not stay in the cache, and longer runs of a partition are
        // merged faster.
        let full = self.shared.tuning.local_groups * if self.spread > 0 { 4 } else { 1 };
        if self.table.groups() >= full && !self.program.has_foreign {
            self.make_room()?;
        }
        self.consolidate()
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
        let ahead = self.table.bytes_ahead(rows) + self.direct.bytes();
        if ahead > self.reservation.bytes() {
            self.reservation.resize(ahead)?;
        }
        Ok(())
    }

    /// Counts what could not be foreseen: bytes of long strings, accumulators of DataFusion.
    fn settle(&mut self) -> Result<()> {
        let unforeseen = self.program.layout.bytes_slots > 0
            || self.table.states.iter().any(|state| matches!(state, State::Foreign(_) | State::Distinct(_)));
        if unforeseen {
            let held = self.table.bytes();
            if held > self.reservation.bytes() {
                self.reservation.resize(held)?;
            }
        }
        Ok(())
    }

    /// The table is full: flushes it, and decides whether the next rows are looked up.
    fn make_room(&mut self) -> Result<()> {
        let gathered = self.rows as f64 / self.table.groups() as f64;
        let chunk = self.flush()?;
        self.keep(chunk);
        match self.spread {
            0 if gathered < 1.3 => self.spread = self.shared.tuning.spread_flushes,
            0 => {}
            _ => self.spread -= 1,
        }
        Ok(())
    }

    /// Sorts the table by partition; it is empty afterwards.
    fn flush(&mut self) -> Result<Chunk> {
        let chunk = self.table.take_chunk(&self.memory)?;
        self.direct.forget();
        self.rows = 0;
        Ok(chunk)
    }

    fn keep(&mut self, chunk: Chunk) {
        self.chunk_bytes += chunk.bytes();
        self.chunks.push(chunk);
    }

    /// One piece of merging the packet's own chunks, if they have become too many.
    fn consolidate(&mut self) -> Result<()> {
        if self.consolidation.is_none() {
            if self.chunk_bytes < self.consolidated_bytes {
                return Ok(());
            }
            let groups = self.chunks.iter().map(|chunk| chunk.keys.groups).sum::<usize>();
            let pieces = (groups / self.shared.tuning.part_groups.max(1)).next_power_of_two().min(PARTITIONS);
            let (chunks, width) = (std::mem::take(&mut self.chunks), PARTITIONS / pieces);
            self.chunk_bytes = 0;
            self.consolidation = Some(Consolidation { chunks, next: 0, width, merged: Vec::new() });
        }
        let Some(consolidation) = &mut self.consolidation else { return Ok(()) };
        let partitions = consolidation.next..consolidation.next + consolidation.width;
        let mut table = GroupTable::copying(self.program.clone())?;
        let mut reservation = self.memory.reservation("Aggregate");
        for chunk in &consolidation.chunks {
            table.merge_chunk(chunk, partitions.clone(), &mut |bytes| {
                if bytes > reservation.bytes() { reservation.resize(bytes) } else { Ok(()) }
            })?;
        }
        if table.groups() > 0 {
            consolidation.merged.push(table.take_chunk(&self.memory)?);
        }
        consolidation.next = partitions.end;
        if consolidation.next == PARTITIONS
            && let Some(done) = self.consolidation.take()
        {
            let before = done.chunks.iter().map(|chunk| chunk.keys.groups).sum::<usize>();
            let after = done.merged.iter().map(|chunk| chunk.keys.groups).sum::<usize>();
            let bytes = done.merged.iter().map(Chunk::bytes).sum::<usize>();
            // What merging cannot make smaller is not merged again soon.
            let factor = if before < after * 2 { 8 } else { 3 };
            self.consolidated_bytes = self.shared.tuning.consolidated_bytes.max(bytes * factor);
            done.merged.into_iter().for_each(|chunk| self.keep(chunk));
        }
        Ok(())
    }

    /// Gives all chunks to the sink.
    fn hand_over_chunks(&mut self) {
        if let Some(Consolidation { chunks, next, merged, .. }) = self.consolidation.take() {
            chunks.into_iter().for_each(|chunk| self.shared.hand_over(Handed::Chunk(chunk, next..PARTITIONS)));
            merged.into_iter().for_each(|chunk| self.shared.hand_over(Handed::Chunk(chunk, 0..PARTITIONS)));
        }
        let chunks = std::mem::take(&mut self.chunks);
        chunks.into_iter().for_each(|chunk| self.shared.hand_over(Handed::Chunk(chunk, 0..PARTITIONS)));
    }
}

impl SinkState for LocalGroups {
    fn push(&mut self, batch: Batch, _waker: &Waker) -> Result<Accept> {
        self.add(&batch)?;
        let enough = self
            .program
            .limit
            .is_some_and(|limit| self.program.outputs.is_empty() && self.spread == 0 && self.table.groups() >= limit);
        Ok(if enough { Accept::Enough } else { Accept::More })
    }

    fn finish(&mut self, _waker: &Waker) -> Result<Accept> {
        if std::mem::replace(&mut self.finished, true) {
            return Ok(Accept::More);
        }
        let large = self.packets > 1 && self.table.groups() > self.shared.tuning.handed_groups;
        let chunked = !self.chunks.is_empty() || self.consolidation.is_some();
        if self.program.grouped && (large || chunked || self.table.repeats) {
            let chunk = self.flush()?;
            self.keep(chunk);
            self.hand_over_chunks();
            return Ok(Accept::More);
        }
        if self.program.grouped && self.table.groups() == 0 {
            return Ok(Accept::More);
        }
        let empty = GroupTable::new(self.program.clone())?;
        let table = std::mem::replace(&mut self.table, empty);
        let reservation = std::mem::replace(&mut self.reservation, self.memory.reservation("Aggregate"));
        self.shared.hand_over(Handed::Table(table, reservation, self.memory.clone()));
        Ok(Accept::More)
    }
}
