//! The rows that a FILTER leaves, counted through: a function over them knows no others.

use std::collections::VecDeque;

use diligence_base::Result;

use super::frames::{Reach, Stretch};
use crate::batch::{Batch, Selection};
use crate::expressions::Expr;

/// Turns positions into numbers of kept rows.
pub(super) struct Kept {
    condition: Expr,
    reach: Reach,
    /// The positions of kept rows, from number `first` on.
    positions: VecDeque<u64>,
    first: u64,
    /// The newest frame's start, and the number of its first kept row.
    pinned: (u64, u64),
    /// A partition has begun of which no row was kept so far.
    begins: bool,
}

/// What is kept of a batch.
pub(super) struct KeptRows {
    pub selection: Selection,
    /// The number of the first kept row, and how many are kept.
    pub first: u64,
    pub rows: usize,
    /// Where partitions begin among them.
    pub starts: Vec<u32>,
}

impl Kept {
    pub fn new(condition: Expr, reach: Reach) -> Self {
        Self { condition, reach, positions: VecDeque::new(), first: 0, pinned: (0, 0), begins: false }
    }

    /// Takes the batch from position `first` on, in which partitions begin at `starts`.
    pub fn push(&mut self, batch: &Batch, first: u64, starts: &[u32]) -> Result<KeptRows> {
        let selection = self.condition.select(batch)?;
        let number = self.first + self.positions.len() as u64;
        let mut kept_starts = Vec::new();
        let mut starts = starts.iter().peekable();
        let mut rows = 0;
        let mut keep = |row: u32| {
            while starts.next_if(|&&start| start <= row).is_some() {
                self.begins = true;
            }
            if std::mem::take(&mut self.begins) {
                kept_starts.push(rows);
            }
            self.positions.push_back(first + u64::from(row));
            rows += 1;
        };
        match &selection {
            Selection::All => (0..batch.rows() as u32).for_each(&mut keep),
            Selection::None => {}
            Selection::Rows(rows) => rows.values().iter().copied().for_each(&mut keep),
        }
        self.begins |= starts.next().is_some();
        Ok(KeptRows { selection, first: number, rows: rows as usize, starts: kept_starts })
    }

    /// Frames among the kept rows.
    pub fn stretches(&mut self, stretches: &[Stretch]) -> Vec<Stretch> {
        let mut kept = Vec::with_capacity(stretches.len());
        for stretch in stretches {
            if self.pinned.0 != stretch.start {
                self.pinned = (stretch.start, self.number(stretch.start));
            }
            let start = self.pinned.1;
            kept.push(Stretch { start, end: self.number(stretch.end).max(start), rows: stretch.rows });
        }
        if let Some(last) = stretches.last() {
            let keep = if self.reach == Reach::Growing { last.end } else { last.start };
            while self.positions.front().is_some_and(|&position| position < keep) {
                self.positions.pop_front();
                self.first += 1;
            }
        }
        kept
    }

    /// How many rows before a position were kept.
    fn number(&self, position: u64) -> u64 {
        self.first + self.positions.partition_point(|&kept| kept < position) as u64
    }

    pub fn bytes(&self) -> usize {
        self.positions.capacity() * size_of::<u64>()
    }
}
