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

use diligence_base::Result;

use super::groups::{Added, Groups};
use super::shared::SharedAggregate;
use super::spill::outgoing::Outgoing;
use crate::batch::Batch;
use crate::flow::{Accept, QueryContext, SinkState};
use crate::operators::widening::Widening;
use crate::sync::{Latch, Mutex};

/// Groups of one packet, which others may have to write to temp space.
static GROUPS: Latch = Latch::new("aggregate");

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

/// Rows that are so few that there must be memory for them.
const FEW_ROWS: usize = 512;

impl LocalGroups {
    pub fn new(shared: Arc<SharedAggregate>, context: &QueryContext) -> Result<Self> {
        let groups = Arc::new(Mutex::named(&GROUPS, shared.groups(context)?));
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
