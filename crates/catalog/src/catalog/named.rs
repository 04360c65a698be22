//! Names that are given and taken away: relations and schemas.

use arrow::datatypes::SchemaRef;

use super::*;
use crate::rules::TableRules;

/// What becomes of an object that says the name of a schema which has another one.
#[derive(Debug)]
pub enum RenamedObject {
    /// A table with its columns, and what it is declared with.
    Table {
        /// Its columns.
        columns: SchemaRef,
        /// What it is declared with.
        rules: Box<TableRules>,
    },
    /// Something else.
    Other(Relation),
}

impl Catalog {
    /// Gives a relation a name. A view in the place of another one is a new version of the same object; anything else
    /// is a new object. Fails with kind `Input` if there is no such schema, the schema shows the engine, the name is
    /// taken and may not be replaced, or a view is to replace a table or a table a view.
    pub fn create(&self, name: &RelationName, relation: Relation, or_replace: bool) -> Result<()> {
        may_change(&name.schema, &format!("'{name}' cannot be made"))?;
        let is_kept = relation.is_kept();
        let staged = match &relation {
            Relation::Native(memory) if is_kept => self.staged(&memory.new_rows())?,
            _ => Staged::default(),
        };
        self.commit(staged, |root| {
            let told = self.created(root, name, relation, or_replace)?;
            Ok((told, root.get(name).filter(|_| is_kept).cloned().map(Entry::Create)))
        })
    }

    pub(crate) fn created(
        &self,
        root: &mut Arc<Root>,
        name: &RelationName,
        relation: Relation,
        or_replace: bool,
    ) -> Result<Vec<CatalogChange>> {
        if !root.schemas.contains_key(&name.schema) {
            return Err(no_schema(&name.schema));
        }
        let existing = root.get(name).cloned();
        let mut id = None;
        if let Some(existing) = &existing {
            let before = &existing.relation;
            if !or_replace {
                let name = name.routine().map_or_else(|| name.to_string(), str::to_owned);
                let error = Error::input(format!("{} named '{name}' exists already", before.a_kind()));
                let error = match before {
                    Relation::Routine(_) => error.with_code("42723"),
                    _ => error.with_code("42P07"),
                };
                return Err(error.with_hint("drop it first, or write CREATE OR REPLACE"));
            }
            let views = [before, &relation].map(|relation| matches!(relation, Relation::View(_)));
            // Replacing a view by a table is more often a slip than a wish.
            if views[0] != views[1] {
                return Err(Error::input(format!("'{name}' is {}, not {}", before.a_kind(), relation.a_kind()))
                    .with_code("42809")
                    .with_hint(format!("drop the {} first", before.kind())));
            }
            let is_routine = matches!(before, Relation::Routine(_));
            id = (views[0] || is_routine).then_some(existing.id);
        }
        let id = id.unwrap_or_else(|| self.next_id());
        self.keep_keys_of(name, &relation);
        put(root, Object { id, version: self.next_version(), name: name.clone(), relation, writer: Arc::default() })?;
        let replaced = existing.map(|existing| existing.id).filter(|replaced| *replaced != id);
        let change = |object| CatalogChange { name: name.clone(), object, is_naming: true };
        Ok(replaced.into_iter().chain([id]).map(change).collect())
    }

    /// Takes a name away if `wanted` agrees to what it stands for; false if there is no such name. Fails if `wanted`
    /// does.
    pub fn drop(&self, name: &RelationName, wanted: impl FnOnce(&Relation) -> Result<()>) -> Result<bool> {
        let mut is_there = false;
        self.commit(Staged::default(), |root| {
            let Some(object) = root.get(name).cloned() else { return Ok((vec![], None)) };
            wanted(&object.relation)?;
            is_there = true;
            if let Some(objects) = objects_mut(root, &name.schema) {
                objects.remove(&name.name);
            }
            let entry = object.relation.is_kept().then(|| Entry::Drop { name: name.clone() });
            Ok((vec![CatalogChange { name: name.clone(), object: object.id, is_naming: true }], entry))
        })?;
        Ok(is_there)
    }

    /// Makes a schema; false if there is one already. Fails with kind `File` if it cannot be kept.
    pub fn create_schema(&self, name: &str) -> Result<bool> {
        if SHOWN_SCHEMAS.contains(&name) {
            return Ok(false);
        }
        let id = self.next_id();
        let mut is_new = false;
        self.commit(Staged::default(), |root| {
            if root.schemas.contains_key(name) {
                return Ok((vec![], None));
            }
            is_new = true;
            Arc::make_mut(root).schemas.insert(name.to_owned(), Schema::new(id));
            Ok((vec![], Some(Entry::CreateSchema { id, name: name.to_owned() })))
        })?;
        Ok(is_new)
    }

    /// Gives a schema another name, with all that is in it; `renamed` says what becomes of objects that say its name,
    /// `None` of one that does not. To be called in a block: it makes several changes. Fails with code 3F000 if there
    /// is no such schema, 42P06 if there is one of the new name, as `renamed` does, and as a log fails.
    pub fn rename_schema(
        &self,
        from: &str,
        to: &str,
        renamed: &dyn Fn(&Object) -> Result<Option<RenamedObject>>,
        memory: &Reservation,
    ) -> Result<()> {
        may_change(from, "it cannot get another name")?;
        self.commit(Staged::default(), |root| {
            let id = root.schemas.get(from).ok_or_else(|| no_schema(from))?.id;
            if root.schemas.contains_key(to) || SHOWN_SCHEMAS.contains(&to) {
                return Err(Error::input(format!("schema \"{to}\" already exists")).with_code("42P06"));
            }
            Arc::make_mut(root).schemas.insert(to.to_owned(), Schema::new(id));
            Ok((vec![], Some(Entry::CreateSchema { id, name: to.to_owned() })))
        })?;
        for object in self.snapshot().all_objects() {
            let mut name = object.name.clone();
            if name.schema == from {
                to.clone_into(&mut name.schema);
            }
            match (renamed(object)?, &object.relation) {
                (Some(RenamedObject::Table { columns, rules }), _) => {
                    let places = (0..columns.fields().len()).map(Some).collect();
                    let alteration = TableAlteration { name, columns, places, rules: *rules };
                    self.alter(&object.reference(), object.version, alteration, memory)?;
                }
                (None, Relation::Native(table)) if name != object.name => {
                    let (columns, rules) = (table.schema().clone(), table.rules().clone());
                    let places = (0..columns.fields().len()).map(Some).collect();
                    let alteration = TableAlteration { name, columns, places, rules };
                    self.alter(&object.reference(), object.version, alteration, memory)?;
                }
                (other, _) => {
                    if name != object.name {
                        self.rename(&object.reference(), &name)?;
                    }
                    if let Some(RenamedObject::Other(relation)) = other {
                        self.replace(&ObjectRef { id: object.id, name }, relation)?;
                    }
                }
            }
        }
        self.drop_schema(from, false).map(drop)
    }

    /// Has objects say another name than they did; `renamed` says what becomes of one, `None` of one that stays as it
    /// is. To be called in a block: it makes several changes. Fails as `renamed` does, and as a log fails.
    pub fn follow_names(
        &self,
        renamed: &dyn Fn(&Object) -> Result<Option<RenamedObject>>,
        memory: &Reservation,
    ) -> Result<()> {
        for object in self.snapshot().all_objects() {
            match renamed(object)? {
                None => {}
                Some(RenamedObject::Other(relation)) => self.replace(&object.reference(), relation)?,
                Some(RenamedObject::Table { columns, rules }) => {
                    let places = (0..columns.fields().len()).map(Some).collect();
                    let alteration = TableAlteration { name: object.name.clone(), columns, places, rules: *rules };
                    self.alter(&object.reference(), object.version, alteration, memory)?;
                }
            }
        }
        Ok(())
    }

    /// Takes a schema away; false if there is none. Fails with kind `Input` on one that is always there, and on one
    /// with relations unless `cascade`.
    pub fn drop_schema(&self, name: &str, cascade: bool) -> Result<bool> {
        may_change(name, "it cannot be dropped")?;
        if name == DEFAULT_SCHEMA {
            return Err(Error::input(format!("the schema '{name}' cannot be dropped")));
        }
        let mut is_there = false;
        self.commit(Staged::default(), |root| {
            let Some(schema) = root.schemas.get(name).cloned() else { return Ok((vec![], None)) };
            is_there = true;
            if !schema.objects.is_empty() && !cascade {
                return Err(Error::input(format!(
                    "the schema '{name}' is not empty: it has {}",
                    schema.objects.values().map(|object| shown_name(&object.name)).collect::<Vec<_>>().join(", ")
                ))
                .with_code("2BP01")
                .with_hint("write DROP SCHEMA … CASCADE to drop them too"));
            }
            Arc::make_mut(root).schemas.remove(name);
            let change =
                |object: &Arc<Object>| CatalogChange { name: object.name.clone(), object: object.id, is_naming: true };
            let told = schema.objects.values().map(change).collect();
            Ok((told, Some(Entry::DropSchema { name: name.to_owned() })))
        })?;
        Ok(is_there)
    }
}

/// An object's name in messages.
fn shown_name(name: &RelationName) -> &str {
    name.routine().unwrap_or(&name.name)
}
