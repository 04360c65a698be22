//! Pairs that no key brings together: each of some probe rows with each of some held rows, or with those in a range, a
//! batch of them at a time.

use std::sync::Arc;

use crate::operators::hash_join::table::ranges::Ranges;

/// Pairs of all of some probe rows with all of some held rows.
pub(super) struct CrossPairs {
    probe: Vec<u32>,
    held: CrossHeld,
    /// The next pair: the position in `probe`, and in `held` or in the order of its rows.
    next: (usize, usize),
}

/// See [`CrossPairs`].
pub(super) enum CrossHeld {
    /// All of so many rows.
    All(usize),
    /// These.
    Rows(Arc<[u32]>),
    /// For each probe row the rows in a range.
    Ranges(Ranges),
}

impl CrossPairs {
    pub fn new(probe: Vec<u32>, held: CrossHeld) -> Self {
        Self { probe, held, next: (0, 0) }
    }

    fn held_len(&self) -> usize {
        match &self.held {
            CrossHeld::All(rows) => *rows,
            CrossHeld::Rows(rows) => rows.len(),
            CrossHeld::Ranges(_) => usize::MAX,
        }
    }

    /// Whether pairs are left.
    pub fn is_done(&self) -> bool {
        self.next.0 == self.probe.len() || self.held_len() == 0
    }

    /// The probe row of the next pair: all pairs of the rows before it have been given.
    pub fn next_probe(&self) -> Option<u32> {
        if self.is_done() { None } else { self.probe.get(self.next.0).copied() }
    }

    /// Leaves out the rest of the probe row of the next pair.
    pub fn skip_probe(&mut self) {
        self.next = (self.next.0 + 1, 0);
    }

    /// Appends pairs until there are `pairs`.
    pub fn fill(&mut self, pairs: usize, probe: &mut Vec<u32>, build: &mut Vec<u32>) {
        let held_len = self.held_len();
        if let (CrossHeld::All(1), true) = (&self.held, build.is_empty()) {
            let to = self.probe.len().min(self.next.0 + pairs);
            probe.extend_from_slice(&self.probe[self.next.0..to]);
            build.resize(probe.len(), 0);
            self.next.0 = to;
            return;
        }
        while !self.is_done() && build.len() < pairs {
            let (row, from) = self.next;
            if let CrossHeld::Ranges(ranges) = &self.held {
                let next = ranges.append(row, from, pairs - build.len(), build);
                probe.resize(build.len(), self.probe[row]);
                self.next = next.map_or((row + 1, 0), |place| (row, place));
                continue;
            }
            let to = held_len.min(from + pairs - build.len());
            match &self.held {
                CrossHeld::All(_) => build.extend(from as u32..to as u32),
                CrossHeld::Rows(rows) => build.extend_from_slice(&rows[from..to]),
                CrossHeld::Ranges(_) => {}
            }
            probe.resize(build.len(), self.probe[row]);
            self.next = if to == held_len { (row + 1, 0) } else { (row, to) };
        }
    }
}
