//! Rows of tables that come and go, and that move to segments.

use super::*;

impl Catalog {
    /// Adds rows to a table in memory, or puts them in the place of all present ones. All or nothing. The new rows are
    /// counted in `memory`. Fails with kind `Input` if the table has been dropped or replaced, `Value` if a value does
    /// not fit its column or a constraint refuses a row (23502, 23503, 23505), `Resource` if memory is short.
    pub fn insert(&self, table: &ObjectRef, rows: &[NewRows], memory: Reservation, replace: bool) -> Result<()> {
        if self.is_referring(table) {
            let deleted = if replace { self.numbers_of(table)? } else { Vec::new() };
            return self.change(table, RowChange { deleted, inserted: rows.to_vec(), memory, pairs: 0 });
        }
        let entry = Entry::Change { table: table.id, name: table.name.clone(), deleted: Vec::new(), replace };
        let version = self.next_table_version();
        self.change_rows(table, rows, entry, |present| {
            let deferred = self.deferred();
            present.with_rows(rows, memory, replace, deferred.as_deref(), version)
        })
    }

    /// As [`insert`](Self::insert), for the rows only whose keys no other row has, of the table or before them.
    /// `keys` are the names of the keys that count; all, if empty. Gives those rows, by batch. Fails as that does, and
    /// as [`wait_for_keys`](Self::wait_for_keys) does, where another transaction takes away what is in a row's way.
    pub fn insert_new(
        &self,
        locked: &LockGuard,
        table: &ObjectRef,
        rows: &[RecordBatch],
        memory: Reservation,
        keys: &[String],
    ) -> Result<Vec<BooleanArray>> {
        let mut memory = Some(memory);
        loop {
            let present = self.object(table)?;
            let Relation::Native(relation) = &present.relation else { return Err(not_in_memory(&present)) };
            if let Some(inside) = self.inside() {
                inside.reads.lock().insert(relation.id());
            }
            let masks = relation.new_keys(rows, keys)?;
            let are_left_out = masks.iter().any(|mask| mask.true_count() < mask.len());
            if are_left_out && locked.meets_others(self, table) {
                self.wait_for_keys(locked, table, rows, keys)?;
            }
            let new = rows.iter().zip(&masks).map(|(rows, mask)| filter_record_batch(rows, mask).map_err(from_arrow));
            let new = new.collect::<Result<Vec<_>>>()?;
            drop(present);
            let counted = memory.as_ref().map(Reservation::sibling).map_or_else(
                || Err(Error::bug("rows are counted nowhere")),
                |mut counted| {
                    counted.grow(new.iter().map(RecordBatch::get_array_memory_size).sum())?;
                    Ok(counted)
                },
            )?;
            if new.iter().all(|rows| rows.num_rows() == 0) {
                return Ok(masks);
            }
            match self.insert(table, &new.into_iter().map(NewRows::Memory).collect::<Vec<_>>(), counted, false) {
                Ok(()) => {
                    drop(memory.take());
                    return Ok(masks);
                }
                // Somebody else was faster; then the row is there now, unless another key refuses it.
                Err(error) if matches!(error.code(), Some("23505" | "23P01")) => {
                    let again = self.object(table)?;
                    let Relation::Native(relation) = &again.relation else { return Err(error) };
                    if relation.new_keys(rows, keys)? == masks {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes rows of a table in memory away and adds others; rows of other tables that refer to them go or change as
    /// well. All or nothing. Fails as [`insert`](Self::insert) does, and with code 40001 if another statement has taken
    /// one of the rows away first.
    pub fn change(&self, table: &ObjectRef, change: RowChange) -> Result<()> {
        if self.is_referring(table) {
            let object = self.object(table)?;
            return self.commit_all(vec![Carried::Rows(object, change)]);
        }
        let RowChange { mut deleted, inserted, memory, pairs } = change;
        let in_order = deleted[..pairs.min(deleted.len())].to_vec();
        deleted.sort_unstable();
        let entry =
            Entry::Change { table: table.id, name: table.name.clone(), deleted: deleted.clone(), replace: false };
        let version = self.next_table_version();
        let mut first = 0;
        self.change_rows(table, &inserted, entry, |present| {
            let deferred = self.deferred();
            first = present.next_number();
            present.changed(&deleted, &inserted, memory, deferred.as_deref(), version)
        })?;
        self.note_moved(table.id, &in_order, pairs, first);
        Ok(())
    }

    /// Takes all rows of tables in memory away; with `cascade`, also of those that refer to them. With `restarts`,
    /// their columns count from the beginning. Fails with kind `Input` if one has been dropped or replaced, with code
    /// 0A000 if one is referred to by another table that is not among them and not `cascade`.
    pub fn truncate(&self, tables: &[ObjectRef], restarts: bool, cascade: bool) -> Result<()> {
        let newest = self.newest();
        for table in &self.emptied_with(tables, cascade)? {
            let entry = Entry::Change { table: table.id, name: table.name.clone(), deleted: Vec::new(), replace: true };
            self.change_rows(table, &[], entry, |present| present.without_rows(self.next_table_version()))?;
            for sequence in newest.owned_by(table.id).iter().filter(|_| restarts) {
                self.restart(&sequence.reference())?;
            }
        }
        Ok(())
    }

    /// The tables that lose their rows with these: those that refer to them, and to those. Fails with code 0A000 if
    /// there are others than these, and not `cascade`.
    pub fn emptied_with(&self, tables: &[ObjectRef], cascade: bool) -> Result<Vec<ObjectRef>> {
        let newest = self.newest();
        let mut all = tables.to_vec();
        let mut next = 0;
        while next < all.len() {
            let table = all[next].clone();
            next += 1;
            for (other, _) in references::referring(&newest, table.id) {
                if all.iter().any(|known| known.id == other.id) {
                    continue;
                }
                if cascade {
                    all.push(other.reference());
                    continue;
                }
                let error = Error::unsupported("cannot truncate a table referenced in a foreign key constraint");
                let other = &other.name.name;
                let detail = format!("Table \"{other}\" references \"{}\".", table.name.name);
                let hint = format!("Truncate table \"{other}\" at the same time, or use TRUNCATE ... CASCADE.");
                return Err(error.with_code("0A000").with_detail(detail).with_hint(hint));
            }
        }
        Ok(all)
    }

    fn numbers_of(&self, table: &ObjectRef) -> Result<Vec<i64>> {
        let object = self.object(table)?;
        let Relation::Native(rows) = &object.relation else { return Err(not_in_memory(&object)) };
        Ok(rows.pieces().iter().flat_map(|piece| piece.live_numbers()).collect())
    }

    /// Whether rows of a table and of others depend on each other.
    fn is_referring(&self, table: &ObjectRef) -> bool {
        let newest = self.newest();
        let object = newest.get(&table.name);
        let refers = object.is_some_and(|object| match &object.relation {
            Relation::Native(rows) => !rows.rules().references.is_empty(),
            _ => false,
        });
        refers || references::referring(&newest, table.id).next().is_some()
    }

    /// Publishes other rows of a table in memory, computed from the present ones. One writer of a table follows
    /// another; readers wait for none. Fails with kind `Input` if the table has been dropped or replaced, and if
    /// `change` does.
    pub(super) fn change_rows(
        &self,
        table: &ObjectRef,
        rows: &[NewRows],
        entry: Entry,
        change: impl FnOnce(&NativeTable) -> Result<NativeTable>,
    ) -> Result<()> {
        let writer = self.object(table)?.writer.clone();
        let staged = self.staged(rows)?;
        let writing = writer.lock();
        let present = self.object(table)?;
        let Relation::Native(rows) = &present.relation else { return Err(not_in_memory(&present)) };
        let next = Object {
            relation: Relation::Native(Arc::new(change(rows)?)),
            version: self.next_version(),
            ..Object::clone(&present)
        };
        let built_on = present.version;
        drop(present);
        let (position, before) = self.append(vec![staged], |root| {
            let now = root.get(&table.name).filter(|object| object.id == table.id).ok_or_else(|| gone(table))?;
            // What it builds on may have been lost meanwhile: nobody else makes a version while this writes.
            if now.version != built_on {
                return Err(conflict());
            }
            put(root, next)?;
            Ok((
                vec![CatalogChange { name: table.name.clone(), object: table.id, is_naming: false }],
                vec![(None, Some(entry))],
            ))
        })?;
        drop((writing, before));
        self.settle(position)
    }

    /// Makes the indexes of a table, or the one of a name, of its rows again. The rows are the same, so nothing is
    /// written down, and no plan is obsolete. Fails with kind `File` if rows cannot be read, `Resource` if memory is
    /// short, and 23505 if two rows have one key that is unique.
    pub fn reindex(&self, table: &ObjectRef, only: Option<&str>) -> Result<()> {
        let writer = self.object(table)?.writer.clone();
        let writing = writer.lock();
        let present = self.object(table)?;
        let Relation::Native(rows) = &present.relation else { return Err(not_in_memory(&present)) };
        let next = Object { relation: Relation::Native(Arc::new(rows.reindexed(only)?)), ..Object::clone(&present) };
        let (position, before) = self.append(vec![], |root| {
            let now = root.get(&table.name).filter(|object| object.id == table.id).ok_or_else(|| gone(table))?;
            if now.version != present.version {
                return Err(conflict());
            }
            put(root, next)?;
            Ok((vec![], vec![]))
        })?;
        drop((writing, before));
        self.settle(position)
    }

    /// Has rows and keys of a table lie on disk from now on: statements that begin later read them there. The rows are
    /// the same, so nothing is written down, and no plan is obsolete. Does nothing if the table is not of this
    /// [origin](NativeTable::origin) any more. The pieces ascend. Fails with kind `Resource` if memory is short.
    pub fn store_rows(
        &self,
        table: &ObjectRef,
        origin: TableVersion,
        stored: &[crate::StoredPiece],
        keys: &crate::MovedKeys,
    ) -> Result<()> {
        let Ok(object) = self.object(table) else { return Ok(()) };
        let writer = object.writer.clone();
        drop(object);
        let writing = writer.lock();
        let (position, before) = self.append(vec![], |root| {
            let now = root.get(&table.name).filter(|object| object.id == table.id).cloned();
            if let Some(now) = now
                && let Relation::Native(rows) = &now.relation
                && rows.origin() == origin
            {
                let rows = rows.with_stored(stored)?.with_moved_keys(keys);
                let relation = Relation::Native(Arc::new(rows));
                put(root, Object { relation, ..Object::clone(&now) })?;
            }
            Ok((vec![], vec![]))
        })?;
        drop((writing, before));
        self.settle(position)
    }
}
