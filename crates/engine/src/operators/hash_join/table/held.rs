//! The held side of a join when it is in: its columns, which of its rows have found a partner, and what is said about
//! the rows that come to it.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::buffer::NullBuffer;

use super::paid::Paid;
use crate::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

/// The held side of a join, complete.
pub(in super::super) struct Held {
    pub rows: usize,
    pub columns: Vec<ArrayRef>,
    /// Which rows have found a partner, where the join type asks.
    pub matched: Option<Bits>,
    /// Rows without a NULL key, if not all, where the join is null-aware.
    pub valid: Option<NullBuffer>,
    /// Whether these are all held rows there are.
    pub is_complete: bool,
    /// Set if these are not all held rows that the probe rows may find partners among.
    pub later: Option<Later>,
    /// Pays for all of it, until it is dropped; of another query's table only for what is not that one's.
    pub paid: Option<Arc<Paid>>,
    /// Whose it is, if another query has made it: dropped last.
    pub _lent: Option<Arc<dyn Send + Sync>>,
}

/// Which rows of the probe side have found a partner so far, where they meet the held side block by block: those
/// without one, and all of which only that matters, come out when they have met all blocks.
pub(in super::super) struct Later {
    pub matched: Arc<Bits>,
    /// The number of the present batch's first row.
    pub first_row: AtomicUsize,
}

impl Later {
    pub fn new(matched: Arc<Bits>) -> Self {
        Self { matched, first_row: AtomicUsize::new(0) }
    }

    pub fn set(&self, rows: &[u32]) {
        let first = self.first_row.load(Ordering::Relaxed) as u32;
        let rows: Vec<u32> = rows.iter().map(|row| first + row).collect();
        self.matched.set(&rows);
    }
}

/// The held side as probe packets and the source of unmatched rows see it.
#[derive(Default)]
pub(in super::super) struct Published {
    /// `None` before it is complete, after it went to temp space, and once the probe side has ended: who takes it out
    /// decides.
    pub held: Mutex<Option<Arc<Held>>>,
    /// From the end of the probe side on: for the source of unmatched rows.
    pub remaining: Mutex<Option<Arc<Held>>>,
    /// The next row that nobody has looked at for unmatched rows.
    pub cursor: AtomicUsize,
    pub seen: Arc<ProbeSeen>,
}

impl Published {
    /// For the unmatched rows of a pair.
    pub fn reading(seen: &Arc<ProbeSeen>) -> Self {
        Self { seen: seen.clone(), ..Self::default() }
    }
}

/// What the probe side has seen. Only for null-aware joins without a filter.
#[derive(Default)]
pub(in super::super) struct ProbeSeen {
    /// The probe side had a row.
    pub row: AtomicBool,
    /// It had one with a NULL key.
    pub null: AtomicBool,
}

/// Bits that several packets set.
pub(in super::super) struct Bits(Vec<AtomicU64>);

impl Bits {
    pub fn new(len: usize) -> Self {
        Self((0..len.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    #[inline(always)]
    pub fn get(&self, row: usize) -> bool {
        self.0[row / 64].load(Ordering::Relaxed) >> (row % 64) & 1 == 1
    }

    /// Sets the bits of rows. Neighbours are set together, and it looks before it writes: most bits are set many times,
    /// and a write takes the cache line from the other workers.
    pub fn set(&self, rows: &[u32]) {
        let write = |at: usize, bits: u64| {
            if self.0[at].load(Ordering::Relaxed) & bits != bits {
                self.0[at].fetch_or(bits, Ordering::Relaxed);
            }
        };
        let Some(&first) = rows.first() else { return };
        let (mut at, mut bits) = (first as usize / 64, 0);
        for &row in rows {
            if row as usize / 64 != at {
                write(at, bits);
                (at, bits) = (row as usize / 64, 0);
            }
            bits |= 1 << (row % 64);
        }
        write(at, bits);
    }

    pub fn set_all(&self) {
        self.0.iter().for_each(|word| word.store(u64::MAX, Ordering::Relaxed));
    }
}
