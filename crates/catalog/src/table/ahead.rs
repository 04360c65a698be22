//! Indexes that are made before a table is altered, from its rows as they are: nobody is kept from changing the table
//! meanwhile. What has come since then is added when the table gets them, which is short.
//!
//! Rows get other numbers when they change. So those that are not in such an index are those with numbers that nobody
//! had when it was made, and what it has of rows that are gone is not found any more.

use super::*;
use crate::rules::Key;

/// Indexes that a table is about to get.
#[derive(Debug, Default)]
pub struct IndexesAhead {
    /// Of which rows they are: those of a table that has not been rewritten since, with numbers below one.
    of: Option<(TableVersion, i64)>,
    /// How often changes had been lost: their numbers are given again.
    losses: u64,
    made: Vec<(Key, KeyIndex)>,
}

impl IndexesAhead {
    /// Whether what they are of has not been lost since.
    pub(crate) fn are_good(&self, losses: u64) -> bool {
        self.losses == losses
    }

    /// The index of a key with all rows of a table, if there is one to begin with. Fails with code 23505 if a row that
    /// has come since has a unique key that another one has, 23P01 if it may not stand beside another one.
    pub(crate) fn caught_up(
        &self,
        key: &Key,
        table: &NativeTable,
        pieces: &[Piece],
        space: Option<KeySpace<'_>>,
    ) -> Result<Option<KeyIndex>> {
        let (Some((origin, first)), Some(space)) = (self.of, space) else { return Ok(None) };
        let made = self.made.iter().find(|(made, _)| made == key).filter(|_| origin == table.origin());
        let Some((_, index)) = made else { return Ok(None) };
        let (schema, name, is_checked) = (table.schema(), table.name(), key.kind.keeps_apart());
        index_with(index, key, is_checked, schema, name, (pieces, first), space).map(Some)
    }
}

impl NativeTable {
    /// The indexes that it gets by an alteration, of its present rows; `losses` says how often changes had been lost.
    /// Fails with code 23505 if two rows have one key that is unique, 23P01 if two may not stand beside each other, and
    /// with kind `Resource` if memory is short.
    pub(crate) fn indexes_ahead(
        &self,
        alteration: &TableAlteration,
        losses: u64,
        memory: &Reservation,
    ) -> Result<IndexesAhead> {
        let has_same_columns = alteration.columns.fields() == self.schema().fields()
            && alteration.places.iter().enumerate().all(|(at, place)| *place == Some(at));
        if !has_same_columns {
            return Ok(IndexesAhead::default());
        }
        let new = alteration.rules.keys.iter().filter(|key| !self.rules().keys.contains(key));
        let made = new.map(|key| {
            let index = indexed(key, self.schema(), self.name(), self.pieces(), self.key_space(Some(memory)))?;
            Ok((key.clone(), index))
        });
        let made = made.collect::<Result<_>>()?;
        Ok(IndexesAhead { of: Some((self.origin(), self.next_number())), losses, made })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use diligence_memory::QueryMemory;

    use super::*;
    use crate::rules::{KeyKind, TableRules};
    use crate::{Catalog, DEFAULT_SCHEMA, Object, ObjectRef, Relation};

    fn batch(values: &[i64]) -> RecordBatch {
        RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from(values.to_vec())) as ArrayRef)]).unwrap()
    }

    fn memory() -> Reservation {
        QueryMemory::unbounded().reservation("a table in memory")
    }

    fn code<T>(result: Result<T>) -> Option<&'static str> {
        result.err().and_then(|error| error.code())
    }

    /// A catalog with a table of these values, and what gives it a unique index.
    fn scene(values: &[i64]) -> (Catalog, Arc<Object>, TableAlteration) {
        let (catalog, name, rows) = (Catalog::default(), RelationName::new(DEFAULT_SCHEMA, "t"), batch(values));
        let table = NativeTable::new(&name, &rows.schema(), &[rows], memory(), TableVersion(1)).unwrap();
        let columns = table.schema().clone();
        catalog.create(&name, Relation::Native(Arc::new(table)), false).unwrap();
        let key = Key::of_columns("t_a", vec!["a".to_owned()], KeyKind::UniqueIndex, false);
        let rules = TableRules { keys: vec![key], ..TableRules::default() };
        let object = catalog.snapshot().get(&name).unwrap().clone();
        (catalog, object, TableAlteration { name, columns, places: vec![Some(0)], rules })
    }

    fn change(catalog: &Catalog, table: &ObjectRef, deleted: &[i64], inserted: &[i64]) -> Result<()> {
        let inserted = vec![NewRows::Memory(batch(inserted))];
        catalog.change(table, RowChange { deleted: deleted.to_vec(), inserted, memory: memory(), pairs: 0 })
    }

    #[test]
    fn what_comes_and_goes_while_an_index_is_made_is_in_it_or_not() {
        let (catalog, object, alteration) = scene(&[1, 2, 3]);
        let table = object.reference();
        let ahead = catalog.indexes_ahead(&table, &alteration, &memory()).unwrap();
        change(&catalog, &table, &[0], &[10, 11]).unwrap();
        let now = catalog.snapshot().get(&table.name).unwrap().version;
        let old = catalog.alter_with(&table, object.version, alteration.clone(), &ahead, &memory());
        assert_eq!(code(old), Some("40001"));
        catalog.alter_with(&table, now, alteration, &ahead, &memory()).unwrap();
        for there in [2, 3, 10, 11] {
            assert_eq!(code(change(&catalog, &table, &[], &[there])), Some("23505"), "{there}");
        }
        change(&catalog, &table, &[], &[1]).unwrap();
    }

    #[test]
    fn a_key_that_comes_twice_while_an_index_is_made_leaves_none() {
        let (catalog, object, alteration) = scene(&[1, 2]);
        let table = object.reference();
        let ahead = catalog.indexes_ahead(&table, &alteration, &memory()).unwrap();
        change(&catalog, &table, &[], &[2]).unwrap();
        let version = || catalog.snapshot().get(&table.name).unwrap().version;
        let altered = catalog.alter_with(&table, version(), alteration.clone(), &ahead, &memory());
        assert_eq!(code(altered), Some("23505"));
        assert_eq!(code(catalog.indexes_ahead(&table, &alteration, &memory())), Some("23505"));
        change(&catalog, &table, &[0], &[]).unwrap();
        change(&catalog, &table, &[1], &[]).unwrap();
        // What was made of rows that are gone is as good.
        catalog.alter_with(&table, version(), alteration, &ahead, &memory()).unwrap();
        assert_eq!(code(change(&catalog, &table, &[], &[2])), Some("23505"));
    }
}
