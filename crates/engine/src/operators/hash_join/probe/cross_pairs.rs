//! Pairs that no key brings together: each of some probe rows with each of some held rows, a batch of them at a time.

use std::sync::Arc;

/// Pairs of all of some probe rows with all of some held rows.
pub(super) struct CrossPairs {
    probe: Vec<u32>,
    held: CrossHeld,
    /// The next pair: the position in `probe` and in `held`.
    next: (usize, usize),
}

/// See [`CrossPairs`].
pub(super) enum CrossHeld {
    /// All of so many rows.
    All(usize),
    /// These.
    Rows(Arc<[u32]>),
}

impl CrossPairs {
    pub fn new(probe: Vec<u32>, held: CrossHeld) -> Self {
        Self { probe, held, next: (0, 0) }
    }

    fn held_len(&self) -> usize {
        match &self.held {
            CrossHeld::All(rows) => *rows,
            CrossHeld::Rows(rows) => rows.len(),
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
            let to = held_len.min(from + pairs - build.len());
            match &self.held {
                CrossHeld::All(_) => build.extend(from as u32..to as u32),
                CrossHeld::Rows(rows) => build.extend_from_slice(&rows[from..to]),
            }
            probe.resize(build.len(), self.probe[row]);
            self.next = if to == held_len { (row + 1, 0) } else { (row, to) };
        }
    }
}
