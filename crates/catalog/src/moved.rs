//! Where rows have gone that a transaction has changed. A changed row is another one, with a number of its own; who
//! stood on the first of them, as a cursor does, stands on the last.
//!
//! ```text
//!   follow_rows ──▶ a place in time       changes are written down from now on
//!   row_now     ──▶ the row of a number that was known at that time: its number now, or that it is gone
//! ```
//! What a transaction sees of others may change between two of its statements. Then its own new rows get other numbers,
//! behind those of the others: an age ends, and another begins.
//!
//! Invariant: nothing is written down of a transaction that nobody follows.

use std::collections::HashMap;

use diligence_base::ids::ObjectId;
use diligence_base::{Error, Result};

use crate::carried::Carried;
use crate::snapshot::Root;
use crate::{NativeTable, Relation};

/// When somebody began to follow rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowedSince {
    pub(crate) age: usize,
}

/// A row, where it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowNow {
    /// Its number.
    pub number: i64,
    /// Whether the transaction has made it, so that its number may be another one when others have committed.
    pub is_own: bool,
}

/// What a transaction has done with rows.
#[derive(Debug, Default)]
pub(crate) struct MovedRows {
    /// The ages; none, if nobody follows.
    pub(crate) ages: Vec<Age>,
}

/// The time in which numbers stay what they are.
#[derive(Debug, Default)]
pub(crate) struct Age {
    /// The numbers that changed rows have got.
    pub(crate) moved: HashMap<(ObjectId, i64), i64>,
    /// The same in order, to be taken back.
    order: Vec<(ObjectId, i64)>,
    /// The numbers of the next age, of tables that have new rows.
    pub(crate) next: HashMap<ObjectId, Renumbered>,
}

/// How the new rows of a table get their numbers of the next age.
#[derive(Debug)]
pub(crate) struct Renumbered {
    /// The first number of this age that a new row may have.
    first: i64,
    /// So many numbers in a row, from one on, become those from another one on; ascending. `None` if nobody knows.
    runs: Option<Vec<(i64, i64, i64)>>,
}

/// How rows of tables get other numbers.
pub(crate) struct RenumberedRows(HashMap<ObjectId, Renumbered>);

/// Up to where rows have been followed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MovedMark {
    ages: usize,
    moves: usize,
}

impl MovedRows {
    pub(crate) fn follow(&mut self) -> FollowedSince {
        if self.ages.is_empty() {
            self.ages.push(Age::default());
        }
        FollowedSince { age: self.ages.len() - 1 }
    }

    pub(crate) fn mark(&self) -> MovedMark {
        MovedMark { ages: self.ages.len(), moves: self.ages.last().map_or(0, |age| age.order.len()) }
    }

    /// Forgets what has happened since. Who has begun to follow since then knows of nothing before.
    pub(crate) fn back_to(&mut self, mark: MovedMark) {
        self.ages.truncate(mark.ages.max(1));
        let Some(age) = self.ages.last_mut() else { return };
        for moved in age.order.drain(mark.moves..) {
            age.moved.remove(&moved);
        }
        age.next.clear();
    }

    pub(crate) fn note(&mut self, table: ObjectId, deleted: &[i64], pairs: usize, first: i64) {
        let Some(age) = self.ages.last_mut() else { return };
        for (number, next) in deleted.iter().take(pairs).zip(first..) {
            age.moved.insert((table, *number), next);
            age.order.push((table, *number));
        }
    }

    /// How rows get other numbers when these changes of a transaction are put on top of others; `None` if nobody
    /// follows.
    pub(crate) fn renumbered(&self, changes: &[Carried], start: &Root, now: &Root) -> Option<RenumberedRows> {
        self.ages.last()?;
        let mut renumbered = HashMap::new();
        for change in changes {
            let Carried::Rows(own, _) = change else { continue };
            let first = |root: &Root| match &root.get(&own.name)?.relation {
                Relation::Native(table) => Some(table.next_number()),
                _ => None,
            };
            if let (Relation::Native(rows), Some(before), Some(after)) = (&own.relation, first(start), first(now)) {
                renumbered.insert(own.id, Renumbered::of(rows, before, after));
            }
        }
        Some(RenumberedRows(renumbered))
    }

    /// Rows have got other numbers.
    pub(crate) fn age(&mut self, renumbered: RenumberedRows) {
        if let Some(age) = self.ages.last_mut() {
            age.next = renumbered.0;
            self.ages.push(Age::default());
        }
    }
}

impl Renumbered {
    /// Of the rows of a table that are new from a number on, which get their numbers from another one on.
    fn of(table: &NativeTable, first: i64, mut next: i64) -> Self {
        let new = || table.pieces().iter().filter(move |piece| piece.last() >= first);
        // Rows of segments keep their places, those that are gone as well.
        if new().any(|piece| piece.batch().is_none()) {
            return Self { first, runs: None };
        }
        let mut numbers =
            new().flat_map(|piece| piece.live_numbers()).filter(|number| *number >= first).collect::<Vec<_>>();
        numbers.sort_unstable();
        let mut runs = Vec::<(i64, i64, i64)>::new();
        for number in numbers {
            match runs.last_mut() {
                Some((from, _, count)) if *from + *count == number => *count += 1,
                _ => runs.push((number, next, 1)),
            }
            next += 1;
        }
        Self { first, runs: Some(runs) }
    }

    /// The number of the next age; `None` if the row is gone. Fails with code 40001 if nobody knows.
    pub(crate) fn next(&self, number: i64) -> Result<Option<i64>> {
        if number < self.first {
            return Ok(Some(number));
        }
        let runs = self.runs.as_ref().ok_or_else(unknown)?;
        let after = runs.partition_point(|(from, ..)| *from <= number);
        let run = after.checked_sub(1).map(|place| runs[place]);
        Ok(run.filter(|(from, _, count)| number < from + count).map(|(from, to, _)| to + number - from))
    }
}

/// The error for a row that may be anywhere.
pub(crate) fn unknown() -> Error {
    let error = Error::value("a row that a cursor stands on was changed, and others have committed meanwhile");
    error.with_code("40001").with_hint("run the transaction again; SELECT … FOR UPDATE keeps others away")
}
