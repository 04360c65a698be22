//! What one packet does: every batch goes into its own table (Gamma's local aggregation).
//!
//! ```text
//!   GATHERING --table full, hardly a row met its group--> SPREADING --some flushes--> GATHERING
//! ```
//!
//! *Gathering* looks every key up. When the table is full it is flushed, sorted by partition, or made larger if that
//! promises to bring rows together that a flush would keep apart. *Spreading* does not look up anything: rows go to their
//! partitions as groups of one, because looking would cost more than it saves; now and then it is tried again.

use std::sync::Arc;
use std::task::Waker;

use arrow::array::UInt32Array;
use diligence_base::Result;

use super::direct::DirectGroups;
use super::group_table::GroupTable;
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
    /// Groups in a packet's table before it is flushed: keys, slots and two or three states of so many fit the L2 cache.
    pub local_groups: usize,
    /// Groups up to which a table may grow instead, where rows come in no order and groups repeat.
    pub grown_groups: usize,
    /// Groups in a table above which a packet sorts it by partition itself when its input ends.
    pub handed_groups: usize,
    /// Groups that one piece of merging has, about.
    pub part_groups: usize,
    /// Flushes of a spreading packet before it tries to gather again.
    pub spread_flushes: usize,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            local_groups: 64 * 1024,
            grown_groups: 2 * 1024 * 1024,
            handed_groups: 16 * 1024,
            part_groups: 32 * 1024,
            spread_flushes: 32,
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
    /// Groups at which the table is flushed or grown.
    full: usize,
    rows: usize,
    /// Spreading: flushes still to come before gathering again.
    spread: usize,
    finished: bool,
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
            full: shared.tuning.local_groups,
            rows: 0,
            spread: 0,
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
            let placement = Placement { ids: None, rows, before: 1, groups: 1 };
            self.program.update(&mut self.table.states, &inputs, placement)?;
            return self.settle();
        }
        let columns = evaluate_groups(&self.program, batch)?;
        let before = self.table.groups();
        for set in 0..self.program.sets.len() {
            self.add_set(set, &columns, rows, &inputs)?;
        }
        self.rows += rows;
        self.settle()?;
        if self.table.groups() >= self.full && !self.program.has_foreign {
            self.make_room(self.table.groups() - before, rows)?;
        }
        Ok(())
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
        let placement = Placement { ids: Some(&ids), rows, before, groups: self.table.groups() };
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

    /// The table is full. `new_groups` of the last `last_rows` rows met no group.
    fn make_room(&mut self, new_groups: usize, last_rows: usize) -> Result<()> {
        let groups = self.table.groups();
        if self.spread == 0 && groups < self.shared.tuning.grown_groups {
            // If rows come in no order, the share of rows with a new group falls as the groups run out.
            let average = groups as f64 / self.rows as f64;
            let lately = new_groups as f64 / last_rows as f64;
            // Of G groups drawn at random, g are met after about g (1 + g / 2G) draws.
            let excess = self.rows as f64 / groups as f64 - 1.0;
            let expected_groups = groups as f64 / (2.0 * excess.max(1e-9));
            let repeats_at_random = excess < 0.5 && expected_groups < self.shared.tuning.grown_groups as f64;
            if lately < average * 0.5 || repeats_at_random {
                self.full = groups * 2;
                return Ok(());
            }
        }
        let gathered = self.rows as f64 / groups as f64;
        self.flush()?;
        match self.spread {
            0 if gathered < 1.3 => self.spread = self.shared.tuning.spread_flushes,
            0 => {}
            _ => self.spread -= 1,
        }
        self.full = self.shared.tuning.local_groups;
        Ok(())
    }

    /// Sorts the table by partition and hands it over.
    fn flush(&mut self) -> Result<()> {
        let mut reservation = self.memory.reservation("Aggregate");
        // The sorted copy is made beside the table, so for a moment both are held.
        reservation.grow(self.table.bytes())?;
        let mut chunk = self.table.take_chunk(reservation)?;
        let held = chunk.keys.bytes() + chunk.states.iter().map(State::bytes).sum::<usize>();
        chunk.reservation.resize(held)?;
        self.direct.forget();
        self.rows = 0;
        self.shared.hand_over(Handed::Chunk(chunk));
        Ok(())
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
        if self.program.grouped && (large || self.table.repeats) {
            self.flush()?;
            return Ok(Accept::More);
        }
        if self.program.grouped && self.table.groups() == 0 {
            return Ok(Accept::More);
        }
        let empty = GroupTable::new(self.program.clone())?;
        let table = std::mem::replace(&mut self.table, empty);
        let reservation = std::mem::replace(&mut self.reservation, self.memory.reservation("Aggregate"));
        self.shared.hand_over(Handed::Table(table, reservation));
        Ok(Accept::More)
    }
}
