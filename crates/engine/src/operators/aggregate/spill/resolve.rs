//! Pairs of DISTINCT that are alone with their likes, turned into counts and sums of their groups.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Poll, Waker};

use diligence_base::{Error, Result};
use diligence_memory::Reservation;

use super::super::group_table::GroupTable;
use super::super::key_table::{KeyTable, MergedBytes};
use super::super::states::{Placement, State};
use super::Spill;
use super::outgoing::Outgoing;

/// Pairs that are looked at at once.
const PAIRS: usize = 4096;
/// Groups that are gathered before they are written.
const GROUPS: usize = 4096;

/// All pairs of a partition, each once.
pub(in super::super) struct Resolve {
    spill: Arc<Spill>,
    pairs: VecDeque<(usize, KeyTable)>,
    next: usize,
    table: GroupTable,
    outgoing: Option<Outgoing>,
    _held: Reservation,
}

impl Resolve {
    /// The tables of pairs by state.
    pub fn new(spill: &Arc<Spill>, pairs: VecDeque<(usize, KeyTable)>, held: Reservation) -> Result<Self> {
        let table = GroupTable::new(spill.program.clone())?;
        Ok(Self { spill: spill.clone(), pairs, next: 0, table, outgoing: None, _held: held })
    }

    /// Writes what they say of their groups. After `Pending` the waker is woken when it is worth going on.
    pub fn poll(&mut self, waker: &Waker) -> Poll<Result<()>> {
        loop {
            if let Some(outgoing) = &mut self.outgoing {
                match outgoing.poll(waker) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(written) => written?,
                }
                self.outgoing = None;
            }
            let any = self.gather()?;
            if !any && (!self.spill.program.grouped || self.table.groups() == 0) {
                return Poll::Ready(Ok(()));
            }
            let fresh = GroupTable::new(self.spill.program.clone())?;
            let table = std::mem::replace(&mut self.table, fresh);
            let mut held = self.spill.memory.reservation("Aggregate");
            held.settle(table.bytes());
            self.outgoing = Some(Outgoing::of_table(&self.spill, table, held)?);
        }
    }

    /// Looks at pairs until there are enough groups. False if there was no pair left.
    fn gather(&mut self) -> Result<bool> {
        let mut any = false;
        while let Some((state, pairs)) = self.pairs.front() {
            let rows = PAIRS.min(pairs.groups() - self.next);
            if rows == 0 {
                self.next = 0;
                self.pairs.pop_front();
                continue;
            }
            any = true;
            let (keys, range) = (&pairs.keys, self.next..self.next + rows);
            let before = self.table.groups();
            let mut ids = Vec::new();
            if self.spill.program.grouped {
                let key_words = self.spill.program.layout.words_max();
                self.table.keys.keys.widen(key_words);
                let words = range.clone().flat_map(|pair| &keys.key(pair)[..key_words]).copied().collect::<Vec<_>>();
                let bytes = MergedBytes { keys, first: self.next };
                self.table.keys.lookup(&words, rows, &bytes, &mut ids)?;
            }
            let groups = self.table.groups();
            let ids = self.spill.program.grouped.then_some(ids.as_slice());
            let placement = Placement { ids, rows, before, groups, appended: false };
            let (State::Distinct(distinct), Some(value)) =
                (&mut self.table.states[*state], pairs.layout.columns.last())
            else {
                return Err(Error::bug("pairs of a state that has none"));
            };
            distinct.resolve(keys, value, range, placement)?;
            self.next += rows;
            if groups >= GROUPS {
                break;
            }
        }
        Ok(any)
    }
}
