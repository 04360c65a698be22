//! Changes of what relations are declared as: tables with the sequences that they own, other columns, other rules,
//! other names; and the numbers of sequences.

use std::sync::Arc;

use diligence_base::ids::ObjectVersion;
use diligence_base::{Error, Result};
use diligence_memory::Reservation;

use crate::catalog::{gone, not_in_memory, objects_mut, put};
use crate::counted::{counted_by, losing_defaults, whole_name};
use crate::enums::with_literal;
use crate::journal::{Entry, Staged};
use crate::pieces::conflict;
use crate::references;
use crate::rules::{Reference, TableRules};
use crate::sequence::{Sequence, SequenceOptions, SequenceState};
use crate::snapshot::Root;
use crate::{
    Catalog, CatalogChange, IndexesAhead, NativeTable, Object, ObjectRef, Relation, RelationName, TableAlteration,
    may_change, no_schema,
};

/// A sequence that a new table's column owns.
#[derive(Clone, Debug)]
pub struct OwnedSequence {
    /// Its name.
    pub name: RelationName,
    /// The column.
    pub column: String,
    /// How it counts.
    pub options: SequenceOptions,
}

/// Fails with code 23503 if, in a table that has become another one, a row refers to nothing: by a reference that was
/// not held against all rows before, or by columns that have other values now. The same of rows of other tables that
/// refer to it by these.
fn rows_refer_well(root: &Root, before: &Object, after: &Arc<Object>, changed: &[String]) -> Result<()> {
    let (Relation::Native(was), Relation::Native(rows)) = (&before.relation, &after.relation) else { return Ok(()) };
    let proven = |rules: &TableRules, name: &String| {
        rules.references.iter().any(|one| one.name == *name) && !rules.unproven.contains(name)
    };
    let have_changed = |columns: &[String]| columns.iter().any(|column| changed.contains(column));
    let (old, new) = (was.rules(), rows.rules());
    let is_due = |one: &&Reference| proven(new, &one.name) && (!proven(old, &one.name) || have_changed(&one.columns));
    for reference in new.references.iter().filter(is_due) {
        references::all_refer_well(root, after, rows, reference)?;
    }
    for (other, reference) in references::referring(root, after.id) {
        let Relation::Native(rows) = &other.relation else { continue };
        if have_changed(&reference.referred) && proven(rows.rules(), &reference.name) {
            references::all_refer_well(root, other, rows, reference)?;
        }
    }
    Ok(())
}

impl Catalog {
    /// As [`create`](Self::create), for a table with the sequences that it owns: all are made, or none. Fails as that
    /// does, with code 42P07 also if the name of a sequence is taken, and 23503 if a row refers to nothing.
    pub fn create_table(
        &self,
        name: &RelationName,
        table: NativeTable,
        or_replace: bool,
        sequences: Vec<OwnedSequence>,
    ) -> Result<()> {
        may_change(&name.schema, &format!("'{name}' cannot be made"))?;
        let staged = self.staged(&table.new_rows())?;
        let (position, before) = self.append(vec![staged], |root| {
            let mut table = Arc::new(table);
            let mut told = self.created(root, name, Relation::Native(table.clone()), or_replace)?;
            let mut object = root.get(name).cloned().ok_or_else(|| Error::bug("a table is not there"))?;
            if table.rules().references.iter().any(|reference| reference.table == Reference::ITSELF) {
                let mut rules = table.rules().clone();
                for reference in rules.references.iter_mut().filter(|one| one.table == Reference::ITSELF) {
                    reference.table = object.id;
                }
                let memory = table.counted().map(Reservation::sibling);
                table = Arc::new(table.with_own_rules(rules, memory.as_ref(), self.next_table_version())?);
                put(root, Object { relation: Relation::Native(table.clone()), ..Object::clone(&object) })?;
                object = root.get(name).cloned().ok_or_else(|| Error::bug("a table is not there"))?;
            }
            for reference in &table.rules().references {
                references::all_refer_well(root, &object, &table, reference)?;
            }
            let mut entries = vec![(None, Some(Entry::Create(object.clone())))];
            for OwnedSequence { name, column, options } in sequences {
                let options = SequenceOptions { owner: Some((object.id, column)), ..options };
                told.extend(self.created(root, &name, Relation::Sequence(Arc::new(Sequence::new(options))), false)?);
                let made = root.get(&name).cloned().ok_or_else(|| Error::bug("a sequence is not there"))?;
                entries.push((Some(Staged::default()), Some(Entry::Create(made))));
            }
            Ok((told, entries))
        })?;
        drop(before);
        self.settle(position)
    }

    /// Takes names away, with the sequences that belong to them and, if `cascade`, the references of other tables and
    /// the defaults that count by these sequences. All or nothing. `wanted` looks at each of them first. Gives the
    /// number of names that stood for something. Fails if `wanted` does, and with code 2BP01 if another table refers to
    /// one of them, or counts by one, and not `cascade`, or if an identity column counts by one.
    pub fn drop_all(
        &self,
        names: &[RelationName],
        cascade: bool,
        wanted: impl Fn(&RelationName, &Relation) -> Result<()>,
    ) -> Result<usize> {
        let mut count = 0;
        let (position, before) = self.append(vec![], |root| {
            let (mut told, mut entries) = (Vec::new(), Vec::new());
            for name in names {
                let Some(object) = root.get(name).cloned() else { continue };
                wanted(name, &object.relation)?;
                for (table, columns) in losing_defaults(root, &object, names, cascade)? {
                    // One that counts by several sequences may have lost some before.
                    let table = root.get(&table.name).cloned().unwrap_or(table);
                    let Relation::Native(rows) = &table.relation else { continue };
                    let mut rules = rows.rules().clone();
                    rules.defaults.retain(|column, _| !columns.contains(column));
                    let (change, entry) = self.altered(root, &table, rules_only(rows, rules), (None, None))?;
                    told.push(change);
                    entries.push((Some(Staged::default()), Some(entry)));
                }
                count += 1;
                let referring = references::referring(root, object.id)
                    .filter(|(other, _)| !names.contains(&other.name))
                    .map(|(other, reference)| (other.clone(), reference.name.clone()))
                    .collect::<Vec<_>>();
                if !referring.is_empty() && !cascade {
                    let error = Error::input(format!("cannot drop table {name} because other objects depend on it"));
                    let constraint = |(other, reference): &(Arc<Object>, String)| {
                        format!("constraint {reference} on table {} depends on table {name}", other.name)
                    };
                    let detail = referring.iter().map(constraint).collect::<Vec<_>>().join("\n");
                    let hint = "Use DROP ... CASCADE to drop the dependent objects too.";
                    return Err(error.with_code("2BP01").with_detail(detail).with_hint(hint));
                }
                for (other, _) in referring {
                    let Relation::Native(rows) = &other.relation else { continue };
                    let mut rules = rows.rules().clone();
                    rules.references.retain(|reference| reference.table != object.id);
                    let (change, entry) = self.altered(root, &other, rules_only(rows, rules), (None, None))?;
                    told.push(change);
                    entries.push((Some(Staged::default()), Some(entry)));
                }
                let mut gone = vec![object.clone()];
                gone.extend(root.owned_by(object.id));
                for object in gone {
                    if let Some(objects) = objects_mut(root, &object.name.schema) {
                        objects.remove(&object.name.name);
                    }
                    told.push(CatalogChange { name: object.name.clone(), object: object.id, is_naming: true });
                    let entry = object.relation.is_kept().then(|| Entry::Drop { name: object.name.clone() });
                    entries.push((Some(Staged::default()), entry));
                }
            }
            Ok((told, entries))
        })?;
        drop(before);
        self.settle(position)?;
        Ok(count)
    }

    /// Gives a table other columns or rules. New indexes are counted in `memory`. Fails with kind `Input` if the table
    /// has been dropped or replaced or its new name is taken, with code 40001 if it is not of version `built_on` any
    /// more, 23502 or 23505 if the rows do not fit, and as a log fails.
    pub fn alter(
        &self,
        table: &ObjectRef,
        built_on: ObjectVersion,
        alteration: TableAlteration,
        memory: &Reservation,
    ) -> Result<()> {
        if self.object(table)?.version != built_on {
            return Err(conflict());
        }
        // While indexes are made, others may change other tables.
        let ahead = self.indexes_ahead(table, &alteration, memory)?;
        self.alter_with(table, built_on, alteration, &ahead, memory)
    }

    /// The indexes that a table gets by an alteration, of its rows as all changes have left them; none if it is gone.
    /// They are counted in `memory`. Fails with code 23505 if two rows have one key that is unique, 23P01 if two may
    /// not stand beside each other, and with kind `Resource` if memory is short.
    pub fn indexes_ahead(
        &self,
        table: &ObjectRef,
        alteration: &TableAlteration,
        memory: &Reservation,
    ) -> Result<IndexesAhead> {
        let root = self.newest();
        match root.get(&table.name).filter(|object| object.id == table.id).map(|object| &object.relation) {
            Some(Relation::Native(rows)) => rows.indexes_ahead(alteration, root.losses, memory),
            _ => Ok(IndexesAhead::default()),
        }
    }

    /// The same with indexes that were made before. Fails as [`alter`](Self::alter) does.
    pub fn alter_with(
        &self,
        table: &ObjectRef,
        built_on: ObjectVersion,
        alteration: TableAlteration,
        ahead: &IndexesAhead,
        memory: &Reservation,
    ) -> Result<()> {
        let writer = self.object(table)?.writer.clone();
        let writing = writer.lock();
        let (position, before) = self.append(vec![], |root| {
            let now = root.get(&table.name).filter(|object| object.id == table.id).cloned();
            let now = now.ok_or_else(|| gone(table))?;
            if now.version != built_on {
                return Err(conflict());
            }
            let name = alteration.name.clone();
            let ahead = Some(ahead).filter(|ahead| ahead.are_good(root.losses));
            let (change, entry) = self.altered(root, &now, alteration, (Some(memory), ahead))?;
            let after = root.get(&name).cloned().ok_or_else(|| gone(table))?;
            rows_refer_well(root, &now, &after, &[])?;
            Ok((vec![change], vec![(Some(Staged::default()), Some(entry))]))
        })?;
        drop((writing, before));
        self.settle(position)
    }

    /// Puts an altered table into the names.
    fn altered(
        &self,
        root: &mut Arc<Root>,
        now: &Arc<Object>,
        alteration: TableAlteration,
        (memory, ahead): (Option<&Reservation>, Option<&IndexesAhead>),
    ) -> Result<(CatalogChange, Entry)> {
        let Relation::Native(rows) = &now.relation else { return Err(not_in_memory(now)) };
        let version = self.next_table_version();
        let next = rows.altered(&alteration, ahead, memory.or(rows.counted()), version)?;
        let relation = Relation::Native(Arc::new(next));
        let name = alteration.name.clone();
        if name != now.name {
            if !root.schemas.contains_key(&name.schema) {
                return Err(no_schema(&name.schema));
            }
            if let Some(there) = root.get(&name) {
                let error = Error::input(format!("{} named '{name}' exists already", there.relation.a_kind()));
                return Err(error.with_code("42P07"));
            }
            if let Some(objects) = objects_mut(root, &now.name.schema) {
                objects.remove(&now.name.name);
            }
        }
        put(root, Object { relation, version: self.next_version(), name: name.clone(), ..Object::clone(now) })?;
        let entry = Entry::Alter { table: now.id, name: now.name.clone(), alteration: Arc::new(alteration) };
        Ok((CatalogChange { name, object: now.id, is_naming: true }, entry))
    }

    /// Puts other rows, with other columns and rules, in the place of a table's. `changed` are the columns that have
    /// other values in rows that were there: what refers to something by these or by them is looked at. Sequences that
    /// its columns own from now on go on behind `count` numbers, and those of columns that are gone go, unless a
    /// default counts by one. Fails as [`alter`](Self::alter) does, and with 23503 if a row refers to nothing.
    pub fn rewrite(
        &self,
        table: &ObjectRef,
        built_on: ObjectVersion,
        next: NativeTable,
        changed: &[String],
        (sequences, count): (Vec<OwnedSequence>, u64),
    ) -> Result<()> {
        let writer = self.object(table)?.writer.clone();
        let staged = self.staged(&next.new_rows())?;
        let writing = writer.lock();
        let (position, before) = self.append(vec![staged], |root| {
            let now = root.get(&table.name).filter(|object| object.id == table.id).cloned();
            let now = now.ok_or_else(|| gone(table))?;
            if now.version != built_on {
                return Err(conflict());
            }
            let relation = Relation::Native(Arc::new(next));
            put(root, Object { relation, version: self.next_version(), ..Object::clone(&now) })?;
            let object = root.get(&table.name).cloned().ok_or_else(|| Error::bug("a table is not there"))?;
            rows_refer_well(root, &now, &object, changed)?;
            let mut told = vec![CatalogChange { name: table.name.clone(), object: table.id, is_naming: true }];
            let mut entries = vec![(None, Some(Entry::Create(object.clone())))];
            let has = |column: &String| match &object.relation {
                Relation::Native(rows) => rows.schema().index_of(column).is_ok(),
                _ => false,
            };
            let of_gone = |own: &Arc<Object>| match &own.relation {
                Relation::Sequence(sequence) => sequence.options.owner.as_ref().is_some_and(|(_, column)| !has(column)),
                _ => false,
            };
            for own in root.owned_by(table.id).into_iter().filter(of_gone) {
                if !counted_by(root, &own.name, &[]).is_empty() {
                    continue;
                }
                if let Some(objects) = objects_mut(root, &own.name.schema) {
                    objects.remove(&own.name.name);
                }
                told.push(CatalogChange { name: own.name.clone(), object: own.id, is_naming: true });
                let entry = own.relation.is_kept().then(|| Entry::Drop { name: own.name.clone() });
                entries.push((Some(Staged::default()), entry));
            }
            for OwnedSequence { name, column, options } in sequences {
                let options = SequenceOptions { owner: Some((table.id, column)), ..options };
                let sequence = Sequence::behind(options, count);
                told.extend(self.created(root, &name, Relation::Sequence(Arc::new(sequence)), false)?);
                let made = root.get(&name).cloned().ok_or_else(|| Error::bug("a sequence is not there"))?;
                entries.push((Some(Staged::default()), Some(Entry::Create(made))));
            }
            Ok((told, entries))
        })?;
        drop((writing, before));
        self.settle(position)
    }

    /// Puts another definition in the place of an object's. Fails with kind `Input` if it has been dropped, and as a
    /// log fails.
    pub(crate) fn replace(&self, object: &ObjectRef, relation: Relation) -> Result<()> {
        self.commit(Staged::default(), |root| {
            let now = root.get(&object.name).filter(|now| now.id == object.id).cloned().ok_or_else(|| gone(object))?;
            put(root, Object { relation, version: self.next_version(), ..Object::clone(&now) })?;
            let told = CatalogChange { name: object.name.clone(), object: object.id, is_naming: true };
            let entry = root.get(&object.name).filter(|now| now.relation.is_kept()).cloned().map(Entry::Create);
            Ok((vec![told], entry))
        })
    }

    /// Gives a relation that is no table in memory another name. Fails with kind `Input` if the name is taken.
    pub fn rename(&self, object: &ObjectRef, name: &RelationName) -> Result<()> {
        self.commit(Staged::default(), |root| {
            let now = root.get(&object.name).filter(|now| now.id == object.id).cloned().ok_or_else(|| gone(object))?;
            if let Some(there) = root.get(name) {
                let error = Error::input(format!("{} named '{name}' exists already", there.relation.a_kind()));
                return Err(error.with_code("42P07"));
            }
            if let Some(objects) = objects_mut(root, &object.name.schema) {
                objects.remove(&object.name.name);
            }
            put(root, Object { name: name.clone(), version: self.next_version(), ..Object::clone(&now) })?;
            let told = CatalogChange { name: name.clone(), object: object.id, is_naming: true };
            let before = CatalogChange { name: object.name.clone(), object: object.id, is_naming: true };
            let entry = root.get(name).filter(|now| now.relation.is_kept()).cloned().map(Entry::Create);
            Ok((vec![before, told], entry))
        })
    }

    /// As [`rename`](Self::rename), with the defaults of columns that count by the name of a sequence. To be called in
    /// a block: it makes several changes. Fails as that does.
    pub fn rename_with_defaults(&self, object: &ObjectRef, name: &RelationName) -> Result<()> {
        self.rename(object, name)?;
        let (old, new) = (whole_name(&object.name), whole_name(name));
        let snapshot = self.snapshot();
        for table in snapshot.all_objects() {
            let Relation::Native(rows) = &table.relation else { continue };
            let mut rules = rows.rules().clone();
            let mut is_other = false;
            for default in rules.defaults.values_mut() {
                let changed = with_literal(default, &old, &new);
                is_other |= changed != *default;
                *default = changed;
            }
            if is_other {
                let alteration = rules_only(rows, rules);
                self.commit(Staged::default(), |root| {
                    let (change, entry) = self.altered(root, table, alteration, (None, None))?;
                    Ok((vec![change], Some(entry)))
                })?;
            }
        }
        Ok(())
    }

    /// Has a sequence count otherwise, from where it is or from a state. Fails with kind `Input` if it has been
    /// dropped, and as a log fails.
    pub fn change_sequence(
        &self,
        object: &ObjectRef,
        options: SequenceOptions,
        state: Option<SequenceState>,
    ) -> Result<()> {
        let state = match state {
            Some(state) => state,
            None => self.sequence(object)?.state(),
        };
        self.replace(object, Relation::Sequence(Arc::new(Sequence::at(options, state))))
    }

    /// The next number of a sequence. May wait for a disk. Fails with code 42P01 if there is no such sequence, 2200H
    /// behind its last number, and as a log fails.
    pub fn next_value(&self, sequence: &ObjectRef) -> Result<i64> {
        let counted = self.sequence(sequence)?;
        counted.next(&sequence.name.name, |state| self.count(sequence, state))
    }

    /// Has a sequence go on from a state. Fails as [`next_value`](Self::next_value) does, with code 22003 for a number
    /// outside of its own.
    pub fn set_value(&self, sequence: &ObjectRef, state: SequenceState) -> Result<()> {
        let counted = self.sequence(sequence)?;
        counted.set(&sequence.name.name, state, |state| self.count(sequence, state))
    }

    /// Has all sequences written down as they are, so that no number is left out when the database is opened again.
    /// Fails as a log fails.
    pub fn rest_sequences(&self) -> Result<()> {
        let newest = self.newest();
        let objects = newest.schemas.values().flat_map(|schema| schema.objects.values());
        for object in objects {
            if let Relation::Sequence(sequence) = &object.relation {
                sequence.rest(|state| self.count(&object.reference(), state))?;
            }
        }
        Ok(())
    }

    /// Has a sequence begin again: a change as others are, which ends with a transaction that is rolled back.
    pub(crate) fn restart(&self, sequence: &ObjectRef) -> Result<()> {
        let options = self.sequence(sequence)?.options.clone();
        let first = options.first();
        self.change_sequence(sequence, options, Some(first))
    }

    fn count(&self, sequence: &ObjectRef, state: SequenceState) -> Result<()> {
        let entry = Entry::Count { sequence: sequence.id, name: sequence.name.clone(), state };
        self.commit(Staged::default(), |_| Ok((vec![], Some(entry))))
    }

    fn sequence(&self, wanted: &ObjectRef) -> Result<Arc<Sequence>> {
        let object = self.object(wanted)?;
        match &object.relation {
            Relation::Sequence(sequence) => Ok(sequence.clone()),
            other => {
                let error = Error::input(format!("\"{}\" is {}, not a sequence", wanted.name, other.a_kind()));
                Err(error.with_code("42809"))
            }
        }
    }
}

/// The same table under other rules.
fn rules_only(rows: &NativeTable, rules: TableRules) -> TableAlteration {
    let columns = rows.schema().clone();
    let places = (0..columns.fields().len()).map(Some).collect();
    TableAlteration { name: rows.name().clone(), columns, places, rules }
}

/// The name of a key that a table may have: PostgreSQL's choice, with a number behind it if that is taken.
pub fn free_name(wanted: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let mut name = wanted.to_owned();
    let mut number = 0;
    while is_taken(&name) {
        number += 1;
        name = format!("{wanted}{number}");
    }
    name
}
