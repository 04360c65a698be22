//! Rows of the held side that come out after all probe packets have finished: those without a partner (left, full and
//! anti joins), those with one (semi joins), or all with their marks.

use std::sync::Arc;
use std::task::Waker;

use datafusion_common::JoinType;
use diligence_base::{Error, Result};

use crate::flow::{Pull, QueryContext, Source, SourceState};
use crate::operators::hash_join::output::PairJoin;
use crate::operators::hash_join::table::held::{Held, Published};
use crate::sync::atomic::Ordering;

/// Rows that a packet looks at before it asks for more: about the work of a batch.
const CLAIM_ROWS: usize = if cfg!(test) { 50 } else { 16 << 10 };

/// Rows for which another packet is worth starting.
const PACKET_ROWS: usize = if cfg!(test) { 100 } else { 128 << 10 };

/// The source of such rows.
pub(in super::super) struct Unmatched {
    pub name: &'static str,
    pub pairs: Arc<PairJoin>,
    pub published: Arc<Published>,
    /// `NOT IN` without a further condition.
    pub null_aware: bool,
}

impl Source for Unmatched {
    fn name(&self) -> &'static str {
        self.name
    }

    fn packets_max(&self) -> usize {
        // Taken, so that it does not leave for temp space any more.
        let held = self.published.held.lock().take();
        let rows = held.as_ref().map_or(0, |held| held.rows);
        *self.published.remaining.lock() = held;
        rows.div_ceil(PACKET_ROWS)
    }

    fn open(&self, context: &QueryContext) -> Result<Box<dyn SourceState>> {
        let (pairs, published) = (self.pairs.clone(), self.published.clone());
        let held = self.published.remaining.lock().clone();
        let held =
            held.ok_or_else(|| Error::bug("a join's unmatched rows were asked for before its build side was in"))?;
        Ok(Box::new(UnmatchedState::new(held, pairs, published, self.null_aware, context.batch_rows)))
    }
}

/// One packet's share of them.
pub(in super::super) struct UnmatchedState {
    held: Arc<Held>,
    pairs: Arc<PairJoin>,
    published: Arc<Published>,
    null_aware: bool,
    batch_rows: usize,
    /// Rows that come out, and how many of them have.
    rows: Vec<u32>,
    taken: usize,
}

impl SourceState for UnmatchedState {
    fn pull(&mut self, _waker: &Waker) -> Result<Pull> {
        self.next()
    }
}

impl UnmatchedState {
    pub fn new(
        held: Arc<Held>,
        pairs: Arc<PairJoin>,
        published: Arc<Published>,
        null_aware: bool,
        batch_rows: usize,
    ) -> Self {
        Self { held, pairs, published, null_aware, batch_rows, rows: vec![], taken: 0 }
    }

    /// The next batch.
    pub fn next(&mut self) -> Result<Pull> {
        if self.taken == self.rows.len() {
            if self.null_aware && self.published.seen.null.load(Ordering::Relaxed) {
                return Ok(Pull::Done);
            }
            let start = self.published.cursor.fetch_add(CLAIM_ROWS, Ordering::Relaxed);
            if start >= self.held.rows {
                return Ok(Pull::Done);
            }
            self.look(start..self.held.rows.min(start + CLAIM_ROWS))?;
        }
        if self.rows.is_empty() {
            return Ok(Pull::Again);
        }
        let end = self.rows.len().min(self.taken + self.batch_rows);
        let rows = self.rows[self.taken..end].to_vec();
        self.taken = end;
        self.pairs.held_batch(&self.held, rows).map(Pull::Batch)
    }

    fn look(&mut self, range: std::ops::Range<usize>) -> Result<()> {
        let matched = self.held.matched.as_ref();
        let matched = matched.ok_or_else(|| Error::bug("a join did not note which rows have a partner"))?;
        self.rows.clear();
        self.taken = 0;
        // NULL is not known to be absent from a list, unless the list is empty.
        let valid = self.held.valid.as_ref();
        let valid = valid.filter(|_| self.null_aware && self.published.seen.row.load(Ordering::Relaxed));
        let wanted = |row: &usize| match self.pairs.join_type {
            JoinType::LeftMark => true,
            JoinType::LeftSemi => matched.get(*row),
            _ => !matched.get(*row) && valid.is_none_or(|valid| valid.is_valid(*row)),
        };
        self.rows.extend(range.filter(wanted).map(|row| row as u32));
        Ok(())
    }
}
