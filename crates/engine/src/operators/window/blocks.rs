//! What is known of a frame's rows by what is known of parts of it: sums of floats, or moments.
//!
//! What was added to a float cannot be taken away again: it may have rounded others off, or be infinite. So a frame
//! that slides is summed up anew, out of *blocks*: summaries of 8 rows, of 8 such summaries, and so on, at fixed
//! places. A frame of n rows costs some 16 log n merges (the segment tree of Leis et al., "Efficient Processing of
//! Window Functions in Analytical SQL Queries", PVLDB 8(10), 2015, section 4).
//!
//! Only summaries of [`FAR`] rows are kept for the whole frame. Of the block in which it begins and of the one in which
//! it ends, the summaries of fewer rows are made when the rows come to these sides.

use std::collections::VecDeque;
use std::ops::Range;

use super::frames::{Reach, Stretch};
use super::function::{Arrival, Need, Side};
use super::pieces::Sliding;
use super::sums::takes;

/// Rows, or blocks, in a block: a power of two.
const BLOCK: u64 = 8;

/// Levels that are kept only around the two ends of frames: rows, and blocks of them.
const NEAR_LEVELS: u32 = 4;

/// Rows of a block whose summary is kept as long as it lies in a frame.
const FAR: u64 = BLOCK.pow(NEAR_LEVELS);

/// What is known of rows side by side; of no rows by default.
pub(super) trait Summary: Copy + Default + Send {
    /// What it takes of a row.
    type Row: Copy + Send;

    /// With the next row.
    fn add(self, row: Self::Row) -> Self;
    /// With the rows right behind.
    fn merge(self, behind: Self) -> Self;
}

/// The summaries of frames.
pub(super) struct Summaries<T: Summary> {
    reach: Reach,
    kept: KeptBlocks<T>,
}

enum KeptBlocks<T: Summary> {
    /// Of each partition, from its first row on.
    Whole(VecDeque<(u64, T)>),
    /// Of the rows of a partition up to some row, and the rows behind that.
    Growing {
        start: u64,
        end: u64,
        summary: T,
        rows: Sliding<T::Row>,
    },
    Blocks(Box<Ends<T>>),
}

/// What is known of frames that slide, or end with their partition.
struct Ends<T: Summary> {
    start: Near<T>,
    /// Where frames end, or where rows come.
    end: Near<T>,
    /// By the number of `FAR` rows.
    between: Levels<T>,
    /// Where frames end with their partition: the position of each start of one, and the summary of the rows before in
    /// the same block.
    partitions: VecDeque<(u64, T)>,
}

impl<T: Summary> Summaries<T> {
    pub fn new(reach: Reach) -> Self {
        let kept = match reach {
            Reach::Whole => KeptBlocks::Whole(VecDeque::new()),
            Reach::Growing => KeptBlocks::Growing { start: 0, end: 0, summary: T::default(), rows: Sliding::new() },
            Reach::Sliding | Reach::Rest => KeptBlocks::Blocks(Box::new(Ends {
                start: Near::new(),
                end: Near::new(),
                between: Levels::new(u32::MAX),
                partitions: VecDeque::new(),
            })),
        };
        Self { reach, kept }
    }

    pub fn takes(&self, side: Side) -> bool {
        takes(self.reach, side)
    }

    /// Takes the next rows of a side; `row`: by their number in the arrival.
    pub fn push(&mut self, side: Side, arrival: &Arrival<'_>, row: impl Fn(usize) -> T::Row) {
        let mut starts = arrival.starts.iter().peekable();
        let mut begins = |number: usize| starts.next_if(|&&start| start as usize == number).is_some();
        match &mut self.kept {
            KeptBlocks::Whole(partitions) => {
                for number in 0..arrival.rows {
                    if begins(number) {
                        partitions.push_back((arrival.first + number as u64, T::default()));
                    }
                    if let Some((_, summary)) = partitions.back_mut() {
                        *summary = summary.add(row(number));
                    }
                }
            }
            KeptBlocks::Growing { rows, .. } => rows.extend((0..arrival.rows).map(row)),
            KeptBlocks::Blocks(ends) if side == Side::Start => {
                for number in 0..arrival.rows {
                    ends.start.push(row(number));
                }
            }
            KeptBlocks::Blocks(ends) => {
                for number in 0..arrival.rows {
                    if begins(number) && side == Side::Arrival {
                        let position = arrival.first + number as u64;
                        ends.partitions.push_back((position, ends.end.of_block(position)));
                    }
                    if let Some(block) = ends.end.push(row(number)) {
                        ends.between.push(block);
                    }
                }
                if side == Side::Arrival {
                    ends.end.forget_before(ends.end.rows());
                }
            }
        }
    }

    pub fn advance(&mut self, stretch: &Stretch) {
        match &mut self.kept {
            KeptBlocks::Whole(partitions) => {
                while partitions.pop_front_if(|(start, _)| *start < stretch.start).is_some() {}
            }
            KeptBlocks::Growing { start, end, summary, rows } => {
                if *start != stretch.start {
                    (*start, *end, *summary) = (stretch.start, stretch.start, T::default());
                }
                let known = stretch.end.min(rows.end());
                if known > *end {
                    *summary = added(*summary, rows.slice(*end..known));
                    *end = known;
                }
                rows.forget_before(*end);
            }
            KeptBlocks::Blocks(ends) => {
                ends.start.forget_before(stretch.start);
                ends.between.forget_before(stretch.start / FAR);
                if self.reach == Reach::Sliding {
                    ends.end.forget_before(stretch.end);
                }
                while ends.partitions.pop_front_if(|(start, _)| *start < stretch.end).is_some() {}
            }
        }
    }

    pub fn lacks(&self, stretch: &Stretch) -> Option<Need> {
        match &self.kept {
            KeptBlocks::Whole(_) => None,
            KeptBlocks::Growing { rows, .. } => (stretch.end > rows.end()).then_some(Need::End),
            KeptBlocks::Blocks(ends) => {
                // A frame within a block, and what it has of the block in which it begins.
                let block_end = (stretch.start / FAR + 1) * FAR;
                if stretch.end.min(block_end) > ends.start.rows() {
                    return Some(Need::Start);
                }
                (self.reach == Reach::Sliding && stretch.end > ends.end.rows()).then_some(Need::End)
            }
        }
    }

    /// The summary of a frame.
    pub fn of(&mut self, stretch: &Stretch) -> T {
        if stretch.start == stretch.end {
            return T::default();
        }
        match &mut self.kept {
            KeptBlocks::Whole(partitions) => {
                while partitions.pop_front_if(|(start, _)| *start < stretch.start).is_some() {}
                partitions.front().map_or_else(T::default, |(_, summary)| *summary)
            }
            KeptBlocks::Growing { start, end, summary, rows } => {
                if *start != stretch.start {
                    (*start, *end, *summary) = (stretch.start, stretch.start, T::default());
                }
                *summary = added(*summary, rows.slice(*end..stretch.end));
                *end = stretch.end;
                *summary
            }
            KeptBlocks::Blocks(ends) => ends.of(stretch.start, stretch.end, self.reach),
        }
    }

    pub fn bytes(&self) -> usize {
        match &self.kept {
            KeptBlocks::Whole(partitions) => partitions.len() * size_of::<(u64, T)>(),
            KeptBlocks::Growing { rows, .. } => rows.bytes(),
            KeptBlocks::Blocks(ends) => {
                ends.start.bytes()
                    + ends.end.bytes()
                    + ends.between.bytes()
                    + ends.partitions.len() * size_of::<(u64, T)>()
            }
        }
    }
}

impl<T: Summary> Ends<T> {
    /// The summary of the rows from `start` to `end`: it depends on nothing but these rows and their places.
    fn of(&self, start: u64, end: u64, reach: Reach) -> T {
        let (first, last) = (start.next_multiple_of(FAR), end / FAR * FAR);
        if first > last {
            // Within a block.
            return self.start.of(start..end);
        }
        let rest = match reach {
            Reach::Sliding => self.end.of_block(end),
            // No partition has begun there: it is where the rows end.
            _ if end == self.end.rows() => self.end.of_block(end),
            _ => {
                let place = self.partitions.partition_point(|(start, _)| *start < end);
                self.partitions.get(place).map_or_else(T::default, |(_, summary)| *summary)
            }
        };
        self.start.of(start..first).merge(self.between.of(first / FAR..last / FAR)).merge(rest)
    }
}

fn added<T: Summary>(summary: T, rows: &[T::Row]) -> T {
    rows.iter().fold(summary, |summary, row| summary.add(*row))
}

fn merged<T: Summary>(blocks: &[T]) -> T {
    blocks.iter().fold(T::default(), |summary, block| summary.merge(*block))
}

/// Rows around one end of frames, and the blocks that they make.
struct Near<T: Summary> {
    rows: Sliding<T::Row>,
    blocks: Levels<T>,
}

impl<T: Summary> Near<T> {
    fn new() -> Self {
        Self { rows: Sliding::new(), blocks: Levels::new(NEAR_LEVELS - 1) }
    }

    fn rows(&self) -> u64 {
        self.rows.end()
    }

    /// Adds a row. Returns the summary of `FAR` rows that it completes.
    fn push(&mut self, row: T::Row) -> Option<T> {
        self.rows.push(row);
        let end = self.rows.end();
        if !end.is_multiple_of(BLOCK) {
            return None;
        }
        self.blocks.push(added(T::default(), self.rows.slice(end - BLOCK..end)))
    }

    /// The summary of some rows.
    fn of(&self, rows: Range<u64>) -> T {
        let of_rows = |rows: Range<u64>| added(T::default(), self.rows.slice(rows));
        let (first, last) = (rows.start.next_multiple_of(BLOCK), rows.end / BLOCK * BLOCK);
        if first >= last {
            return of_rows(rows);
        }
        let blocks = self.blocks.of(first / BLOCK..last / BLOCK);
        of_rows(rows.start..first).merge(blocks).merge(of_rows(last..rows.end))
    }

    /// The summary of the rows before a position in the same block of `FAR` rows.
    fn of_block(&self, end: u64) -> T {
        self.of(end / FAR * FAR..end)
    }

    /// Forgets what lies before the block of `FAR` rows with this position.
    fn forget_before(&mut self, position: u64) {
        let position = position / FAR * FAR;
        // The block that is not full yet is still to be summed up.
        self.rows.forget_before(position.min(self.rows.end() / BLOCK * BLOCK));
        self.blocks.forget_before(position / BLOCK);
    }

    fn bytes(&self) -> usize {
        self.rows.bytes() + self.blocks.bytes()
    }
}

/// Summaries of blocks, and on each level above those of the blocks below.
struct Levels<T> {
    levels: Vec<Sliding<T>>,
    levels_max: u32,
}

impl<T: Summary> Levels<T> {
    fn new(levels_max: u32) -> Self {
        Self { levels: vec![Sliding::new()], levels_max }
    }

    /// Adds a block. Returns the summary of one that would belong to the level above the last one.
    fn push(&mut self, block: T) -> Option<T> {
        let mut block = block;
        for level in 0..self.levels_max as usize {
            if level == self.levels.len() {
                self.levels.push(Sliding::new());
            }
            self.levels[level].push(block);
            let end = self.levels[level].end();
            if !end.is_multiple_of(BLOCK) {
                return None;
            }
            block = merged(self.levels[level].slice(end - BLOCK..end));
        }
        Some(block)
    }

    /// The summary of some blocks.
    fn of(&self, blocks: Range<u64>) -> T {
        self.of_level(0, blocks)
    }

    fn of_level(&self, level: usize, blocks: Range<u64>) -> T {
        let of_blocks = |blocks: Range<u64>| merged(self.levels[level].slice(blocks));
        let (first, last) = (blocks.start.next_multiple_of(BLOCK), blocks.end / BLOCK * BLOCK);
        if first >= last || level + 1 == self.levels.len() {
            return of_blocks(blocks);
        }
        let above = self.of_level(level + 1, first / BLOCK..last / BLOCK);
        of_blocks(blocks.start..first).merge(above).merge(of_blocks(last..blocks.end))
    }

    /// Forgets blocks before this one.
    fn forget_before(&mut self, block: u64) {
        let mut block = block;
        for level in &mut self.levels {
            // The block that is not full yet is still to be summed up.
            level.forget_before(block.min(level.end() / BLOCK * BLOCK));
            block /= BLOCK;
        }
    }

    fn bytes(&self) -> usize {
        self.levels.iter().map(Sliding::bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which rows these are: whoever leaves one out, or takes them out of order, is found out.
    #[derive(Clone, Copy, Default)]
    struct Rows(Option<(u64, u64)>);

    impl Summary for Rows {
        type Row = u64;

        fn add(self, row: u64) -> Self {
            self.merge(Self(Some((row, row + 1))))
        }

        fn merge(self, behind: Self) -> Self {
            let (Some((start, end)), Some((next, last))) = (self.0, behind.0) else {
                return Self(self.0.or(behind.0));
            };
            assert_eq!(end, next, "{start} to {end}, then {next} to {last}");
            Self(Some((start, last)))
        }
    }

    #[test]
    fn levels_sum_up_any_stretch_of_what_is_kept() {
        let mut levels = Levels::new(u32::MAX);
        for block in 0..2000_u64 {
            levels.push(Rows(Some((block, block + 1))));
            let start = block.saturating_sub(700);
            levels.forget_before(start);
            for from in [start, (start + block) / 2, block] {
                assert_eq!(levels.of(from..block + 1).0, Some((from, block + 1)));
            }
            assert_eq!(levels.of(block + 1..block + 1).0, None);
        }
        assert!(levels.bytes() < 8 * 4096 * 3, "{} bytes", levels.bytes());
    }

    /// Frames of any length over many blocks, with nothing kept but what lies around their ends.
    #[test]
    fn frames_that_slide_are_summed_up_from_their_ends() {
        const ROWS: u64 = 60_000;
        for reach in [Reach::Sliding, Reach::Rest] {
            for length in [1, 7, 4095, 4096, 4097, 20_000, ROWS] {
                let mut summaries = Summaries::<Rows>::new(reach);
                let mut sent = [0_u64; 2];
                let mut send = |summaries: &mut Summaries<Rows>, side: Side| {
                    let first = &mut sent[usize::from(side == Side::Start)];
                    let rows = 1000.min(ROWS - *first);
                    let starts: &[u32] = if *first == 0 { &[0] } else { &[] };
                    let arrival = Arrival { first: *first, rows: rows as usize, starts, kept: None, values: &[] };
                    summaries.push(side, &arrival, |row| arrival.first + row as u64);
                    *first += rows;
                };
                if reach == Reach::Rest {
                    (0..60).for_each(|_| send(&mut summaries, Side::Arrival));
                }
                let mut most = 0;
                for row in (0..ROWS).step_by(509) {
                    let (start, end) = match reach {
                        Reach::Rest => (row, ROWS),
                        _ => ((row + 1).saturating_sub(length), row + 1),
                    };
                    let stretch = Stretch { start, end, rows: 1, row: start, hole: Default::default() };
                    summaries.advance(&stretch);
                    while let Some(need) = summaries.lacks(&stretch) {
                        send(&mut summaries, if need == Need::Start { Side::Start } else { Side::End });
                        summaries.advance(&stretch);
                    }
                    most = most.max(summaries.bytes());
                    assert_eq!(summaries.of(&stretch).0, Some((start, end)), "{stretch:?}");
                }
                assert!(most < 600_000, "{most} bytes for {length}");
            }
        }
    }
}
