//! A complete build side at rest: in memory, where the probe side reads it, until it is done or somebody else needs the
//! memory.
//!
//! ```text
//!   Coming ----> Ready ------------------------------> Done      the probe side has ended
//!                  |                                     ^
//!                  +--> Leaving --------> Going ---------+        all rows are in temp space
//!                       (packets of the    (its rows are
//!                        probe side let     being written)
//!                        go of it)
//! ```
//! From `Leaving` on all partitions count as spilled: rows of the probe side are written as well. Nobody has to read a
//! table for it to go: it may be one that the probe side has not come to yet.
//!
//! A table that another query reads stays where it is: it is not this query's any more
//! ([`table_share`](super::table_share)).
//!
//! Invariant: a row's mark, that it has found a partner, is written with it: so the table goes only when nobody marks
//! rows any more.

use std::sync::Arc;
use std::task::{Poll, Waker};

use diligence_base::{Error, Result};
use diligence_memory::Reclaim;

use super::config::Config;
use super::shared::{AtRest, Shared};
use super::spill::dump::Dump;
use crate::sync::atomic::Ordering;

/// A join's table as something that can give memory back.
pub(super) struct TableAtRest {
    pub config: Arc<Config>,
    pub shared: Arc<Shared>,
}

impl Reclaim for TableAtRest {
    fn reclaimable_bytes(&self) -> usize {
        let can_spill = self.shared.can_spill();
        match &*self.shared.at_rest.lock() {
            AtRest::Ready(built) if can_spill && self.shared.is_published() && !built.is_lent() => built.bytes(),
            AtRest::Leaving(built, _) => built.bytes(),
            AtRest::Going(dump) => dump.bytes(),
            _ => 0,
        }
    }

    fn poll_reclaim(&self, _: usize, waker: &Waker) -> Poll<Result<()>> {
        let (is_ready, is_lent) = match &*self.shared.at_rest.lock() {
            AtRest::Ready(built) => (true, built.is_lent()),
            _ => (false, false),
        };
        if is_lent {
            return Poll::Ready(Ok(()));
        }
        if is_ready {
            // Reserving asks others, and whoever is asked looks at this table: so not with its lock held.
            self.shared.buffers();
        }
        let mut at_rest = self.shared.at_rest.lock();
        if let AtRest::Ready(built) = &*at_rest {
            let Some(partitions) = self.shared.partition(&self.config, built.bytes(), None) else {
                return Poll::Ready(Ok(()));
            };
            if !self.shared.is_published() || !built.leave() {
                // The probe side has ended, and its rows are on their way out; or another query reads it.
                return Poll::Ready(Ok(()));
            }
            self.shared.offered.lock().take();
            if self.shared.published.held.lock().take().is_none() {
                return Poll::Ready(Ok(()));
            }
            partitions.spill_all();
            // Whatever it has rows of.
            (0..partitions.len()).for_each(|partition| partitions.belong(partition));
            *at_rest = AtRest::Leaving(built.clone(), None);
            self.shared.is_leaving.store(true, Ordering::Release);
        }
        if let AtRest::Leaving(built, waiting) = &mut *at_rest {
            if Arc::strong_count(built) > 1 {
                *waiting = Some(waker.clone());
                return Poll::Pending;
            }
            *at_rest = AtRest::Going(Dump::new(built.clone(), self.config.table.clone(), self.shared.next_owner()));
        }
        let AtRest::Going(dump) = &mut *at_rest else { return Poll::Ready(Ok(())) };
        let partitions = self.shared.partitions.get().ok_or_else(|| Error::bug("a table is written nowhere"))?;
        let written = dump.poll(partitions, waker);
        if let Poll::Ready(Ok(())) = written {
            *at_rest = AtRest::Done;
            partitions.close_clusters();
        }
        written
    }
}
