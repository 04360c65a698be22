//! Objects, rows and counts as they were written down.

use super::*;

impl Catalog {
    /// Gives an object the name and the id that it had when it was written down. No id is given again.
    /// Fails with code 3F000 if there is no such schema.
    pub fn restore(&self, id: ObjectId, name: &RelationName, relation: Relation) -> Result<()> {
        self.shared.ids.fetch_max(id.0 + 1, Ordering::Relaxed);
        let version = self.next_version();
        self.commit(Staged::default(), |root| {
            // It may have had another name before.
            if let Some(objects) = objects_mut(root, &name.schema) {
                objects.retain(|_, object| object.id != id);
            }
            self.keep_keys_of(name, &relation);
            put(root, Object { id, version, name: name.clone(), relation, writer: Arc::default() })?;
            Ok((vec![CatalogChange { name: name.clone(), object: id, is_naming: true }], None))
        })
    }

    /// As [`restore`](Self::restore), for a schema. Fails never, as nothing is kept yet.
    pub fn restore_schema(&self, id: ObjectId, name: &str) -> Result<()> {
        self.shared.ids.fetch_max(id.0 + 1, Ordering::Relaxed);
        self.commit(Staged::default(), |root| {
            Arc::make_mut(root).schemas.entry(name.to_owned()).or_insert_with(|| Schema::new(id));
            Ok((vec![], None))
        })
    }

    /// As [`change`](Self::change) or, with `replace`, [`insert`](Self::insert), for what was written down: what
    /// follows from it in other tables was written down, too. Fails as they do.
    pub fn restore_rows(&self, table: &ObjectRef, change: RowChange, replace: bool) -> Result<()> {
        let RowChange { deleted, inserted, memory, .. } = change;
        let (version, name) = (self.next_table_version(), table.name.clone());
        let entry = Entry::Change { table: table.id, name, deleted: deleted.clone(), replace };
        self.change_rows(table, &inserted, entry, |present| match replace {
            true => present.with_rows(&inserted, memory, true, None, version),
            false => present.changed(&deleted, &inserted, memory, None, version),
        })
    }

    /// As [`alter`](Self::alter), for what was written down. Fails as that does.
    pub fn restore_alteration(
        &self,
        table: &ObjectRef,
        alteration: TableAlteration,
        memory: &Reservation,
    ) -> Result<()> {
        let version = self.object(table)?.version;
        self.alter(table, version, alteration, memory)
    }

    /// Where a sequence was when it was written down; nothing, if there is no such sequence. Fails never, as nothing is
    /// kept yet.
    pub fn restore_count(&self, sequence: &ObjectRef, state: SequenceState) -> Result<()> {
        let Ok(object) = self.object(sequence) else { return Ok(()) };
        let Relation::Sequence(before) = &object.relation else { return Ok(()) };
        let next = Sequence::at(before.options.clone(), state);
        self.restore(object.id, &object.name, Relation::Sequence(Arc::new(next)))
    }

    /// Gives no id below this one from now on.
    pub fn reserve_ids(&self, next: u64) {
        self.shared.ids.fetch_max(next, Ordering::Relaxed);
    }

    /// The id that the next object gets.
    pub fn next_object(&self) -> u64 {
        self.shared.ids.load(Ordering::Relaxed)
    }
}
