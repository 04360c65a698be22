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
use crate::pieces::conflict;
use crate::references::ChangedTable;
use crate::snapshot::Root;
use crate::{Catalog, NativeTable, ObjectRef, Relation};

/// When somebody began to follow rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowedSince {
    age: usize,
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
    ages: Vec<Age>,
}

/// The time in which numbers stay what they are.
#[derive(Debug, Default)]
struct Age {
    /// The numbers that changed rows have got.
    moved: HashMap<(ObjectId, i64), i64>,
    /// The same in order, to be taken back.
    order: Vec<(ObjectId, i64)>,
    /// The numbers of the next age, of tables that have new rows.
    next: HashMap<ObjectId, Renumbered>,
}

/// How the new rows of a table get their numbers of the next age.
#[derive(Debug)]
struct Renumbered {
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
    fn follow(&mut self) -> FollowedSince {
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

    fn note(&mut self, table: ObjectId, deleted: &[i64], pairs: usize, first: i64) {
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
    fn next(&self, number: i64) -> Result<Option<i64>> {
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
fn unknown() -> Error {
    let error = Error::value("a row that a cursor stands on was changed, and others have committed meanwhile");
    error.with_code("40001").with_hint("run the transaction again; SELECT … FOR UPDATE keeps others away")
}

impl Catalog {
    /// From now on it is written down where rows go that the transaction changes. `None` outside of one.
    pub fn follow_rows(&self) -> Option<FollowedSince> {
        self.inside().map(|inside| inside.moved.lock().follow())
    }

    /// The row of a table that had this number when somebody began to follow; `None` if the transaction
    /// has taken it away. Fails with code 40001 if others have taken it away or changed it.
    pub fn row_now(&self, table: &ObjectRef, mut number: i64, since: &FollowedSince) -> Result<Option<RowNow>> {
        let own = self.object(table)?;
        let (Relation::Native(rows), Some(inside)) = (&own.relation, self.inside()) else { return Err(conflict()) };
        let moved = inside.moved.lock();
        let last = moved.ages.len().saturating_sub(1);
        for (place, age) in moved.ages.iter().enumerate().skip(since.age) {
            // A row that is there has not moved on.
            while let Some(next) = age.moved.get(&(table.id, number)).filter(|_| place < last || !rows.has_row(number))
            {
                number = *next;
            }
            if let Some(renumbered) = age.next.get(&table.id).filter(|_| place < last) {
                match renumbered.next(number)? {
                    Some(next) => number = next,
                    None => return Ok(None),
                }
            }
        }
        drop(moved);
        let start = inside.start.lock().clone();
        let seen = match start.get(&table.name).filter(|object| object.id == table.id).map(|object| &object.relation) {
            Some(Relation::Native(seen)) => Some(seen),
            _ => None,
        };
        let is_own = seen.is_none_or(|seen| number >= seen.next_number());
        match rows.has_row(number) {
            true => Ok(Some(RowNow { number, is_own })),
            // All saw it, and it is not there any more.
            false if !is_own && !seen.is_some_and(|seen| seen.has_row(number)) => Err(unknown()),
            false => Ok(None),
        }
    }

    /// So many of the first rows of a table that went have their places taken by new ones, whose numbers begin with
    /// this one.
    pub(crate) fn note_moved(&self, table: ObjectId, deleted: &[i64], pairs: usize, first: i64) {
        if let Some(inside) = self.inside().filter(|_| pairs > 0) {
            inside.moved.lock().note(table, deleted, pairs, first);
        }
    }

    /// The same for changes that were made.
    pub(crate) fn note_changed<'c>(&self, changes: impl IntoIterator<Item = &'c ChangedTable>) {
        for change in changes.into_iter().filter(|change| !change.is_carried) {
            if let Relation::Native(before) = &change.before.relation {
                self.note_moved(change.before.id, &change.deleted, change.pairs, before.next_number());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use diligence_base::ids::TableVersion;
    use diligence_memory::QueryMemory;

    use super::*;
    use crate::transaction::Transaction;
    use crate::{DEFAULT_SCHEMA, NewRows, RelationName, RowChange};

    fn batch(values: &[i64]) -> RecordBatch {
        RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from(values.to_vec())) as ArrayRef)]).unwrap()
    }

    fn change(deleted: &[i64], inserted: &[i64]) -> RowChange {
        let inserted = vec![NewRows::Memory(batch(inserted))];
        let memory = QueryMemory::unbounded().reservation("rows");
        RowChange { deleted: deleted.to_vec(), inserted, memory, pairs: deleted.len() }
    }

    #[test]
    fn rows_are_found_where_they_have_gone() {
        let catalog = Arc::new(Catalog::default());
        let name = RelationName::new(DEFAULT_SCHEMA, "t");
        let (rows, memory) = (batch(&[10, 11, 12, 13]), QueryMemory::unbounded().reservation("rows"));
        let table = NativeTable::new(&name, &rows.schema(), &[rows], memory, TableVersion(1)).unwrap();
        catalog.create(&name, Relation::Native(Arc::new(table)), false).unwrap();
        let table = catalog.snapshot().get(&name).unwrap().reference();
        let own = Transaction::begin(catalog.clone());
        let since = own.catalog().follow_rows().unwrap();
        let now = |number: i64| own.catalog().row_now(&table, number, &since).map(|row| row.map(|row| row.number));
        // Two rows become others, one of them twice; the third goes.
        own.catalog().change(&table, change(&[2, 0], &[22, 20])).unwrap();
        own.catalog().change(&table, change(&[4], &[32])).unwrap();
        own.catalog().change(&table, RowChange { pairs: 0, ..change(&[1], &[]) }).unwrap();
        assert_eq!([now(0), now(1), now(2), now(3)].map(Result::unwrap), [Some(5), None, Some(6), Some(3)]);
        // What is taken back has not happened.
        let mark = own.mark();
        own.catalog().change(&table, change(&[6], &[42])).unwrap();
        assert_eq!(now(2).unwrap(), Some(7));
        own.back_to(&mark);
        assert_eq!(now(2).unwrap(), Some(6));
        // Others bring rows, and take one away: the own ones get other numbers.
        catalog.change(&table, change(&[3], &[50, 51])).unwrap();
        own.refresh().unwrap();
        let later = own.catalog().follow_rows().unwrap();
        assert_eq!([now(0), now(1), now(2)].map(Result::unwrap), [Some(6), None, Some(7)]);
        assert_eq!(now(3).unwrap_err().code(), Some("40001"));
        let found = own.catalog().row_now(&table, 7, &later).unwrap();
        assert_eq!(found, Some(RowNow { number: 7, is_own: true }));
        own.back_to(&mark);
        assert_eq!([now(0), now(2), now(3)].map(Result::unwrap), [Some(5), Some(6), Some(3)]);
    }
}
