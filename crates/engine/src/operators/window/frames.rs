//! Which rows each row's frame has.
//!
//! Frames come as *stretches*: rows side by side that have the same frame. A frame is found as soon as its end is
//! certain: it lies among the rows that have come, or the partition has ended. Offsets of RANGE are in `range`.
//!
//! Invariant: starts and ends of frames never go back from row to row, over all partitions; a frame lies in its row's
//! partition.

use std::collections::VecDeque;
use std::task::{Poll, ready};

use datafusion_common::ScalarValue;
use datafusion_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};
use diligence_base::{Error, Result};

use super::range::{RangeKeys, offset};
use super::rows::Rows;
use super::turn::Turn;
use crate::batch::Batch;
use crate::plan::{Exclusion, SortKey};

/// Rows with the same frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    /// The position of the frame's first row.
    pub start: u64,
    /// The position behind its last row.
    pub end: u64,
    /// How many rows have it.
    pub rows: u64,
    /// The first of these rows.
    pub row: u64,
    /// What is left out of the frame; if anything is, the stretch is of one row.
    pub hole: Hole,
}

/// Rows side by side that a frame leaves out, where it has them: none, if it ends where it begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Hole {
    /// The position of the first.
    pub start: u64,
    /// The position behind the last.
    pub end: u64,
    /// Whether the stretch's own row stays.
    pub keeps_row: bool,
}

/// How frames of one kind lie to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// A frame is its whole partition.
    Whole,
    /// Frames begin where their partition does.
    Growing,
    /// Frames end where their partition does.
    Rest,
    /// Rows enter and leave.
    Sliding,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bound {
    /// The end of the partition on this side.
    Unbounded,
    /// So many rows, or groups of peers, before the row's own.
    Before(u64),
    /// So many behind.
    After(u64),
    /// At a value's distance.
    Distance,
}

enum Units {
    Whole,
    Rows,
    Groups,
    Range(RangeKeys),
}

/// Finds the frames of row after row.
pub(super) struct Frames {
    units: Units,
    excludes: Exclusion,
    /// Whether each row is a stretch of its own.
    row_by_row: bool,
    start: Bound,
    end: Bound,
    /// The first row without a frame.
    next: u64,
    /// The number of its partition.
    partition: u64,
    /// The number of its group of peers, and that of its partition's first one.
    group: u64,
    first_group: u64,
}

impl Frames {
    /// For a frame as planned; `row_by_row`: each row is a stretch of its own. Fails if the frame is none, or has
    /// offsets that the order key's type cannot have.
    pub fn new(frame: &WindowFrame, excludes: Exclusion, row_by_row: bool, order_by: &[SortKey]) -> Result<Self> {
        let row_by_row = row_by_row || excludes != Exclusion::NoOthers;
        let reach = reach(frame, order_by);
        let bounds = [&frame.start_bound, &frame.end_bound];
        let units = match frame.units {
            _ if reach == Reach::Whole => Units::Whole,
            WindowFrameUnits::Rows => Units::Rows,
            WindowFrameUnits::Groups => Units::Groups,
            WindowFrameUnits::Range if bounds.into_iter().all(|bound| offset(bound).is_none()) => Units::Groups,
            WindowFrameUnits::Range => Units::Range(RangeKeys::new(frame, order_by)?),
        };
        let bound = |bound: &WindowFrameBound| match (offset(bound), bound) {
            (None, WindowFrameBound::CurrentRow) => Ok(Bound::Before(0)),
            (None, _) => Ok(Bound::Unbounded),
            (Some(_), _) if matches!(units, Units::Range(_)) => Ok(Bound::Distance),
            (Some(ScalarValue::UInt64(Some(offset))), WindowFrameBound::Preceding(_)) => Ok(Bound::Before(*offset)),
            (Some(ScalarValue::UInt64(Some(offset))), _) => Ok(Bound::After(*offset)),
            (Some(other), _) => Err(Error::bug(format!("a frame was planned with an offset of {other}"))),
        };
        let (start, end) = (bound(&frame.start_bound)?, bound(&frame.end_bound)?);
        Ok(Self { units, excludes, row_by_row, start, end, next: 0, partition: 0, group: 0, first_group: 0 })
    }

    /// Whether frames depend on where peers begin.
    pub fn wants_peers(&self) -> bool {
        matches!(self.units, Units::Groups | Units::Range(_)) || self.excludes_peers()
    }

    fn excludes_peers(&self) -> bool {
        matches!(self.excludes, Exclusion::Group | Exclusion::Ties)
    }

    /// What the next row's frame leaves out; `None` if that is not certain.
    fn hole(&self, rows: &Rows) -> Option<Hole> {
        let row = self.next;
        Some(match self.excludes {
            Exclusion::NoOthers => Hole::default(),
            Exclusion::CurrentRow => Hole { start: row, end: row + 1, keeps_row: false },
            Exclusion::Group | Exclusion::Ties => Hole {
                start: rows.peers.get(self.group)?,
                end: rows.peers.get(self.group + 1)?,
                keeps_row: self.excludes == Exclusion::Ties,
            },
        })
    }

    /// Notes the rows from `first` on, whose frames are looked for next.
    pub fn look_at(&mut self, batch: &Batch, first: u64) -> Result<()> {
        match &mut self.units {
            Units::Range(keys) => keys.look_at(batch, first),
            _ => Ok(()),
        }
    }

    /// Whether rows have to be looked at to find their frames.
    pub fn looks_at_rows(&self) -> bool {
        matches!(self.units, Units::Range(_))
    }

    /// Adds the frames of the rows before `until`, as far as they are certain. True if all are.
    pub fn poll_find(
        &mut self,
        turn: &mut Turn<'_>,
        until: u64,
        stretches: &mut VecDeque<Stretch>,
    ) -> Poll<Result<bool>> {
        let rows = turn.rows;
        while self.next < until {
            self.partition = rows.partitions.number_at(self.partition, self.next);
            let begin = rows.partitions.get(self.partition).ok_or_else(unknown)?;
            let end = rows.partitions.get(self.partition + 1);
            if self.wants_peers() {
                self.group = rows.peers.number_at(self.group, self.next);
                if self.next == begin {
                    self.first_group = self.group;
                }
            }
            let Some(hole) = self.hole(rows) else { return Poll::Ready(Ok(false)) };
            let found = match self.units {
                Units::Whole => end.map(|end| self.stretch(begin, end, end)),
                Units::Rows if self.row_by_row => {
                    let before = stretches.len();
                    if !self.find_rows(begin, end, rows.arrived, self.next + 1, stretches) {
                        return Poll::Ready(Ok(false));
                    }
                    stretches.range_mut(before..).for_each(|stretch| stretch.hole = hole);
                    continue;
                }
                Units::Rows => {
                    if !self.find_rows(begin, end, rows.arrived, until, stretches) {
                        return Poll::Ready(Ok(false));
                    }
                    continue;
                }
                Units::Groups => self.find_group(rows, begin, end),
                Units::Range(_) => ready!(self.poll_range(turn, begin, end))?,
            };
            let Some(stretch) = found else { return Poll::Ready(Ok(false)) };
            let rows = if self.row_by_row { 1 } else { stretch.rows };
            self.next += rows;
            stretches.push_back(Stretch { end: stretch.end.max(stretch.start), rows, hole, ..stretch });
        }
        Poll::Ready(Ok(true))
    }

    /// The frame of the next row and all before `behind`.
    fn stretch(&self, start: u64, end: u64, behind: u64) -> Stretch {
        Stretch { start, end, rows: behind - self.next, row: self.next, hole: Hole::default() }
    }

    /// Frames of rows of one partition, each its own. False if one is not certain.
    fn find_rows(
        &mut self,
        begin: u64,
        end: Option<u64>,
        arrived: u64,
        until: u64,
        stretches: &mut VecDeque<Stretch>,
    ) -> bool {
        let known = end.unwrap_or(arrived);
        while self.next < until.min(known) {
            let row = self.next;
            let from = match self.start {
                Bound::Before(rows) => row.saturating_sub(rows).max(begin),
                Bound::After(rows) => row.saturating_add(rows),
                Bound::Unbounded | Bound::Distance => begin,
            };
            let to = match self.end {
                Bound::Before(rows) => (row + 1).saturating_sub(rows).max(begin),
                Bound::After(rows) => (row + 1).saturating_add(rows),
                Bound::Unbounded | Bound::Distance => u64::MAX,
            };
            if from.max(to) > known && end.is_none() {
                return false;
            }
            let (from, to) = (from.min(known), to.min(known));
            stretches.push_back(self.stretch(from, to.max(from), self.next + 1));
            self.next += 1;
        }
        true
    }

    fn find_group(&self, rows: &Rows, begin: u64, end: Option<u64>) -> Option<Stretch> {
        let (group, first) = (self.group, self.first_group);
        let behind = rows.peers.get(group + 1)?;
        // Where a group begins that may be in a later partition, or not have come.
        let start_of = |group: u64| match rows.peers.get(group) {
            Some(start) => Some(end.map_or(start, |end| start.min(end))),
            None => end,
        };
        let from = match self.start {
            Bound::Before(groups) => rows.peers.get(group.saturating_sub(groups).max(first)),
            Bound::After(groups) => start_of(group.saturating_add(groups)),
            Bound::Unbounded | Bound::Distance => Some(begin),
        };
        let to = match self.end {
            Bound::Before(groups) if group - first < groups => Some(begin),
            Bound::Before(groups) => rows.peers.get(group - groups + 1),
            Bound::After(groups) => start_of(group.saturating_add(groups).saturating_add(1)),
            Bound::Unbounded | Bound::Distance => end,
        };
        Some(self.stretch(from?, to?, behind))
    }

    fn poll_range(&mut self, turn: &mut Turn<'_>, begin: u64, end: Option<u64>) -> Poll<Result<Option<Stretch>>> {
        let Units::Range(keys) = &mut self.units else { return Poll::Ready(Err(unknown())) };
        let peers = &turn.rows.peers;
        let (Some(start), Some(behind)) = (peers.get(self.group), peers.get(self.group + 1)) else {
            return Poll::Ready(Ok(None));
        };
        keys.begin(begin);
        let known = end.unwrap_or(turn.rows.arrived);
        let certain = |found: u64| if found < known { Some(found) } else { end };
        let from = match self.start {
            Bound::Distance => certain(ready!(keys.poll_first_row(self.next, known, turn))?),
            Bound::Unbounded => Some(begin),
            Bound::Before(_) | Bound::After(_) => Some(start),
        };
        let to = match self.end {
            Bound::Distance => certain(ready!(keys.poll_end_row(self.next, known, turn))?),
            Bound::Unbounded => end,
            Bound::Before(_) | Bound::After(_) => Some(behind),
        };
        let (Some(from), Some(to)) = (from, to) else { return Poll::Ready(Ok(None)) };
        Poll::Ready(Ok(Some(self.stretch(from, to, behind))))
    }

    /// What rows bounds may still have to read.
    pub fn range(&self) -> Option<&RangeKeys> {
        if let Units::Range(keys) = &self.units { Some(keys) } else { None }
    }

    /// Forgets what no frame to come looks at. Returns the numbers of the first partition and the first peers that one
    /// does.
    pub fn forget(&self) -> (u64, u64) {
        if !self.wants_peers() {
            return (self.partition, u64::MAX);
        }
        let before = |bound: Bound| if let Bound::Before(groups) = bound { groups } else { 0 };
        let groups = if matches!(self.units, Units::Groups) { before(self.start).max(before(self.end)) } else { 0 };
        (self.partition, self.group.saturating_sub(groups).max(self.first_group.min(self.group)))
    }

    pub fn bytes(&self) -> usize {
        match &self.units {
            Units::Range(keys) => keys.bytes(),
            _ => 0,
        }
    }
}

/// How the frames lie to each other.
pub(super) fn reach(frame: &WindowFrame, order_by: &[SortKey]) -> Reach {
    // Without an order all rows of a partition are peers.
    let all_peers = frame.units != WindowFrameUnits::Rows && order_by.is_empty();
    let open = |bound: &WindowFrameBound| {
        offset(bound).is_none() && (all_peers || !matches!(bound, WindowFrameBound::CurrentRow))
    };
    match (open(&frame.start_bound), open(&frame.end_bound)) {
        (true, true) => Reach::Whole,
        (true, false) => Reach::Growing,
        (false, true) => Reach::Rest,
        (false, false) => Reach::Sliding,
    }
}

fn unknown() -> Error {
    Error::bug("a row's partition is not known")
}
