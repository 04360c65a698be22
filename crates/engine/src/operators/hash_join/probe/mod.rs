//! The probe side: each batch [looks its keys up](lookups) and gives picks; at the end come build rows
//! [without a partner](unmatched).

mod cross_pairs;
pub(super) mod lookups;
pub(super) mod unmatched;

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Poll;

use arrow::buffer::NullBuffer;
use diligence_base::{Error, Result};

use self::lookups::Lookups;
use super::config::Config;
use super::shared::{Borrowed, Shared};
use super::spill::partitions::{Partitions, Side};
use crate::batch::Batch;
use crate::flow::profile::Spills;
use crate::flow::{Flow, Operator, OperatorState, Output, QueryContext};

/// The operator.
pub(super) struct Probe {
    pub config: Arc<Config>,
    pub shared: Arc<Shared>,
}

impl Operator for Probe {
    fn name(&self) -> &'static str {
        "HashJoin"
    }

    fn open(&self, context: &QueryContext) -> Result<Box<dyn OperatorState>> {
        let lookups = Lookups::new(self.config.clone(), self.shared.published.seen.clone(), context.batch_rows);
        let owner = self.shared.next_owner();
        Ok(Box::new(ProbeState {
            config: self.config.clone(),
            lookups,
            table: Borrowed::new(&self.shared),
            shared: self.shared.clone(),
            owner,
            writes: VecDeque::new(),
            resident: None,
        }))
    }

    fn spills(&self) -> Option<Arc<Spills>> {
        Some(self.shared.counts.spills().clone())
    }
}

/// One packet of the probe side.
///
/// While no partition is in temp space, each batch is looked up and that is all. Otherwise its rows are told apart:
/// those of partitions in temp space are written, the others looked up.
struct ProbeState {
    config: Arc<Config>,
    lookups: Lookups,
    shared: Arc<Shared>,
    table: Borrowed,
    owner: u64,
    /// Rows that go to temp space before anything else.
    writes: VecDeque<(usize, Batch)>,
    /// The rest of their batch, to be looked up.
    resident: Option<Batch>,
}

impl OperatorState for ProbeState {
    fn push(&mut self, input: Batch, out: &mut Output) -> Result<Flow> {
        let table = self.table.look();
        let Some(partitions) = self.shared.partitions.get().cloned() else {
            return self.lookups.push(table.ok_or_else(no_table)?, input, out);
        };
        if self.config.is_void(&self.shared.published.seen) || self.lookups.probe_has_null(&input)? {
            return Ok(Flow::Done);
        }
        self.resident = self.tell_apart(input, &partitions)?;
        self.more(out)
    }

    fn more(&mut self, out: &mut Output) -> Result<Flow> {
        if let Some(partitions) = self.shared.partitions.get() {
            while let Some((partition, batch)) = self.writes.front() {
                match partitions.poll_write(Side::Probe, *partition, batch, self.owner, out.waker()) {
                    Poll::Pending => return Ok(Flow::Wait),
                    Poll::Ready(written) => written?,
                }
                self.writes.pop_front();
            }
        }
        let table = self.table.get();
        match self.resident.take() {
            Some(batch) => self.lookups.push(table.ok_or_else(no_table)?, batch, out),
            None if self.lookups.is_busy() => self.lookups.more(table.ok_or_else(no_table)?, out),
            None => Ok(Flow::NeedInput),
        }
    }
}

fn no_table() -> Error {
    Error::bug("a join was probed before its build side was in")
}

impl ProbeState {
    /// Puts aside the rows of partitions in temp space that may have a partner there. The others, if there are any,
    /// find what they find in the table, which is nothing for those that have no partner at all.
    fn tell_apart(&mut self, input: Batch, partitions: &Partitions) -> Result<Option<Batch>> {
        let config = self.config.clone();
        let (keys, hashes) = config.probe_hashes(&input)?;
        let valid = NullBuffer::union_many(keys.iter().map(|key| key.nulls.as_ref()));
        let valid = valid.filter(|_| self.table.get().is_some() && !config.table.null_equal && config.can_partition());
        let mut is_away = vec![false; partitions.len()];
        for (partition, is_away) in is_away.iter_mut().enumerate() {
            *is_away = partitions.is_spilled(partition) && partitions.has_build_rows(partition);
        }
        // Without a table at hand, all rows must go where the build rows are.
        let filters = self.shared.filters.get().filter(|_| self.table.get().is_some() && config.can_partition());
        let mut away = vec![vec![]; partitions.len()];
        for (row, &hash) in hashes.iter().enumerate() {
            let partition = partitions.of(hash);
            if is_away[partition] && valid.as_ref().is_none_or(|valid| valid.is_valid(row)) {
                away[partition].push(row as u32);
            }
        }
        if let Some(filters) = filters {
            away.iter_mut().filter(|rows| !rows.is_empty()).for_each(|rows| filters.retain(rows, &hashes));
        }
        let mut stays = vec![true; input.rows()];
        away.iter().flatten().for_each(|&row| stays[row as usize] = false);
        let stay = (0..input.rows() as u32).filter(|&row| stays[row as usize]).collect::<Vec<_>>();
        if stay.len() == input.rows() {
            return Ok(Some(input));
        }
        for (partition, rows) in away.into_iter().enumerate().filter(|(_, rows)| !rows.is_empty()) {
            self.writes.push_back((partition, input.pick(&rows.into())?));
        }
        if stay.is_empty() { Ok(None) } else { input.pick(&stay.into()).map(Some) }
    }
}
