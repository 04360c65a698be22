//! Where partitions and groups of peers begin: positions that ascend, two bytes each where they are dense, and next to
//! nothing where they are side by side.
//!
//! A partition of which every row is a group of its own has as many starts as rows, and where a function wants the
//! partition's end they are all kept.

use std::collections::VecDeque;
use std::ops::Range;

/// Positions that are packed together.
const BLOCK: usize = 512;

/// Ascending positions, numbered from the first of the input. The first ones may be forgotten.
#[derive(Default)]
pub(super) struct Starts {
    /// The number of the first one that is kept.
    first: u64,
    /// `BLOCK` positions each.
    packed: VecDeque<Block>,
    /// Fewer than that, behind them.
    newest: Vec<u64>,
    bytes: usize,
}

/// Positions by their distance to the first of them.
enum Block {
    /// All rows from the first one on.
    SideBySide(u64),
    Near(u64, Box<[u16]>),
    Far(Box<[u64]>),
}

impl Block {
    fn new(positions: &[u64]) -> Self {
        let first = positions[0];
        if positions[BLOCK - 1] - first == BLOCK as u64 - 1 {
            return Self::SideBySide(first);
        }
        let near = positions.iter().map(|position| u16::try_from(position - first));
        match near.collect::<Result<_, _>>() {
            Ok(near) => Self::Near(first, near),
            Err(_) => Self::Far(positions.into()),
        }
    }

    fn get(&self, index: usize) -> u64 {
        match self {
            Self::SideBySide(first) => first + index as u64,
            Self::Near(first, distances) => first + u64::from(distances[index]),
            Self::Far(positions) => positions[index],
        }
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::SideBySide(_) => 0,
                Self::Near(_, distances) => size_of_val(&distances[..]),
                Self::Far(positions) => size_of_val(&positions[..]),
            }
    }
}

impl Starts {
    pub fn push(&mut self, position: u64) {
        self.newest.push(position);
        if self.newest.len() == BLOCK {
            let block = Block::new(&self.newest);
            self.bytes += block.bytes();
            self.packed.push_back(block);
            self.newest.clear();
        }
    }

    fn len(&self) -> usize {
        self.packed.len() * BLOCK + self.newest.len()
    }

    fn at(&self, index: usize) -> Option<u64> {
        match self.packed.get(index / BLOCK) {
            Some(block) => Some(block.get(index % BLOCK)),
            None => self.newest.get(index - self.packed.len() * BLOCK).copied(),
        }
    }

    /// The start with this number, if it is known.
    pub fn get(&self, number: u64) -> Option<u64> {
        debug_assert!(number >= self.first, "a start that was forgotten");
        self.at((number - self.first) as usize)
    }

    /// The number of the last start at or before a position, at `from` or behind it.
    pub fn number_at(&self, from: u64, position: u64) -> u64 {
        let mut number = from;
        while self.get(number + 1).is_some_and(|start| start <= position) {
            number += 1;
        }
        number
    }

    /// Those among some rows, counted from the first of these.
    pub fn within(&self, rows: Range<u64>) -> Vec<u32> {
        let (mut from, mut to) = (0, self.len());
        while from < to {
            let middle = from.midpoint(to);
            match self.at(middle).is_some_and(|position| position < rows.start) {
                true => from = middle + 1,
                false => to = middle,
            }
        }
        let starts = (from..).map_while(|index| self.at(index)).take_while(|position| *position < rows.end);
        starts.map(|position| (position - rows.start) as u32).collect()
    }

    /// Forgets starts with lower numbers, as soon as all of a block may go.
    pub fn forget_before(&mut self, number: u64) {
        while self.first + BLOCK as u64 <= number
            && let Some(block) = self.packed.pop_front()
        {
            self.bytes -= block.bytes();
            self.first += BLOCK as u64;
        }
        if self.packed.is_empty() {
            let forgotten = (number.saturating_sub(self.first)).min(self.newest.len() as u64);
            self.newest.drain(..forgotten as usize);
            self.first += forgotten;
        }
    }

    pub fn bytes(&self) -> usize {
        self.bytes + self.newest.len() * size_of::<u64>()
    }

    /// All that are kept.
    #[cfg(test)]
    pub fn kept(&self) -> Vec<u64> {
        (0..self.len()).filter_map(|index| self.at(index)).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn starts_are_those_that_were_pushed(
            steps in prop::collection::vec(prop_oneof![8 => 1_u64..4, 1 => 1_u64..400, 1 => 60_000_u64..70_000], 0..3000),
            forgotten in prop::collection::vec(0_usize..3000, 0..4),
        ) {
            let mut position = 0;
            let all: Vec<u64> = steps.iter().map(|step| { position += step; position }).collect();
            let mut starts = Starts::default();
            all.iter().for_each(|position| starts.push(*position));
            let mut least = 0;
            for before in forgotten {
                starts.forget_before(before as u64);
                least = least.max(before.min(all.len()));
                for number in least..all.len() + 2 {
                    prop_assert_eq!(starts.get(number as u64), all.get(number).copied());
                }
                if let Some(&from) = all.get(least) {
                    prop_assert_eq!(starts.number_at(least as u64, from), least as u64);
                    let range = from..from + 500;
                    let within: Vec<u32> =
                        all[least..].iter().filter(|at| range.contains(at)).map(|at| (at - from) as u32).collect();
                    prop_assert_eq!(starts.within(range), within);
                }
            }
        }
    }

    #[test]
    fn dense_starts_take_two_bytes_and_forgotten_ones_none() {
        for (step, bytes_max) in [(1, 70_000), (2, 2_200_000)] {
            let mut starts = Starts::default();
            (0..1_000_000).for_each(|number| starts.push(number * step));
            assert!(starts.bytes() < bytes_max, "{} bytes", starts.bytes());
            assert!((0..1_000_000).step_by(997).all(|number| starts.get(number) == Some(number * step)));
            assert_eq!(starts.within(5000 * step..5003 * step), [0, step as u32, 2 * step as u32]);
            starts.forget_before(u64::MAX);
            assert_eq!((starts.bytes(), starts.kept()), (0, Vec::new()));
            starts.push(1_000_000 * step);
            assert_eq!(starts.get(1_000_000), Some(1_000_000 * step));
        }
    }
}
