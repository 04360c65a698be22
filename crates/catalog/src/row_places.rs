//! The rows that a transaction changes while somebody follows them: see [`moved`](crate::moved).

use diligence_base::Result;
use diligence_base::ids::ObjectId;

use crate::moved::{FollowedSince, RowNow, unknown};
use crate::pieces::conflict;
use crate::references::ChangedTable;
use crate::{Catalog, ObjectRef, Relation};

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
    use crate::{DEFAULT_SCHEMA, NativeTable, NewRows, RelationName, RowChange};

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
