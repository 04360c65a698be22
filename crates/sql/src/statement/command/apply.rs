//! How the catalog is changed by a command: in one block, if several objects change together or not at all.

use std::sync::Arc;

use diligence_base::ids::ObjectVersion;
use diligence_base::{Error, Result};
use diligence_catalog::{
    Catalog, FileRelation, IndexesAhead, LockGuard, Object, ObjectRef, Relation, RelationName, SessionCatalogs,
    TableAlteration, may_change, no_schema,
};
use diligence_memory::QueryMemory;

use super::{AlteredTable, Command, DroppedKind};
use crate::errors::suggest;
use crate::following::NewName;
use crate::renaming;

impl Command {
    /// Makes the change, and gives the command's tag. Fails with kind `Input` where the catalog has what is to be made,
    /// or has not what is to be changed.
    ///
    /// Fails with code 55P03 if another transaction has a lock; then it can be applied again when that has ended.
    pub fn apply(&self, catalogs: &SessionCatalogs) -> Result<&'static str> {
        if let Command::Noted { command, .. } = self {
            return command.apply(catalogs);
        }
        let taken = self.taken_names();
        let named = (!taken.is_empty()).then(|| catalogs.catalog().lock_names(catalogs.owner(), &taken));
        let _named = named.transpose()?;
        match catalogs.maker().filter(|_| self.makes_something()) {
            Some(maker) => self.apply_as(&maker, catalogs)?,
            None if self.needs_block(&catalogs.catalog()) => {
                let block = catalogs.begin_block();
                self.apply_within(&block.catalog(), catalogs)?;
                block.commit()?;
            }
            None => self.apply_within(&catalogs.catalog(), catalogs)?,
        }
        Ok(self.tag())
    }

    /// Of a change that others go on beside (CREATE INDEX CONCURRENTLY), the indexes that it makes, of the rows that
    /// are there now; `None` of any other. Fails as making them does.
    pub fn indexes_ahead(&self, catalogs: &SessionCatalogs) -> Result<Option<IndexesAhead>> {
        let Command::Alter { table, alteration, memory, is_concurrent: true, .. } = self else { return Ok(None) };
        let memory = memory.reservation("a table in memory");
        catalogs.catalog().indexes_ahead(table, alteration, &memory).map(Some)
    }

    /// As [`apply`](Self::apply), with indexes that were made before.
    pub fn apply_ahead(&self, catalogs: &SessionCatalogs, ahead: &IndexesAhead) -> Result<&'static str> {
        let Command::Alter { table, built_on, alteration, memory, is_concurrent: true, .. } = self else {
            return self.apply(catalogs);
        };
        let (catalog, owner) = (catalogs.catalog(), catalogs.owner());
        let _named = catalog.lock_names(owner, &self.taken_names())?;
        let _locked = catalog.lock_definitions(owner, std::iter::once(table))?;
        let memory = memory.reservation("a table in memory");
        catalog.alter_with(table, *built_on, TableAlteration::clone(alteration), ahead, &memory)?;
        Ok(self.tag())
    }

    /// Has nobody else change the table of a change that others go on beside. Fails as applying it does.
    pub fn lock_altered(&self, catalogs: &SessionCatalogs) -> Result<Option<LockGuard>> {
        let Command::Alter { table, is_concurrent: true, .. } = self else { return Ok(None) };
        catalogs.catalog().lock_definitions(catalogs.owner(), std::iter::once(table)).map(Some)
    }

    /// What it makes is its maker's, or is not made.
    fn apply_as(&self, maker: &str, catalogs: &SessionCatalogs) -> Result<()> {
        let block = catalogs.begin_block();
        let inside = block.catalog();
        self.apply_within(&inside, catalogs)?;
        let mut names = Vec::new();
        self.made(&mut names);
        inside.own_new(&names, maker)?;
        if let Command::CreateSchema { name, .. } = self {
            inside.own_new_schema(name, maker)?;
        }
        block.commit()
    }

    /// Whether several objects change, all of them or none.
    fn needs_block(&self, catalog: &Catalog) -> bool {
        match self {
            Command::Rename { .. } => !catalog.is_of_transaction(),
            Command::DropSchema { cascade, also, .. } => *cascade || !also.is_empty(),
            Command::Attach { .. }
            | Command::All { .. }
            | Command::ChangeEnum { .. }
            | Command::RenameComposite { .. }
            | Command::ChangeComposite { .. }
            | Command::ChangeDomain { .. }
            | Command::DropTypes { .. } => true,
            Command::Noted { command, .. } => command.needs_block(catalog),
            _ => false,
        }
    }

    /// Makes the change in a catalog, perhaps as one of several that are made together or not at all.
    fn apply_within(&self, inside: &Catalog, catalogs: &SessionCatalogs) -> Result<()> {
        match self {
            Command::All { commands, .. } => {
                commands.iter().try_for_each(|command| command.apply_within(inside, catalogs))
            }
            Command::Noted { command, .. } => command.apply_within(inside, catalogs),
            Command::Nothing(_) => Ok(()),
            Command::CreateExternalTable { name, relation, or_replace, if_not_exists } => {
                create_external_table(inside, name, relation, (*or_replace, *if_not_exists))
            }
            Command::CreateView { name, view, or_replace, stands_on } => {
                inside.lock_named(stands_on)?;
                inside.create(name, Relation::View(view.clone()), *or_replace)
            }
            Command::CreateSequence { name, sequence } => {
                inside.create(name, Relation::Sequence(sequence.clone()), false)
            }
            Command::CreateRoutine { name, routine, or_replace, others, .. } => {
                drop_each(inside, others.iter().filter(|other| *other != name))?;
                inside.create(name, Relation::Routine(routine.clone()), *or_replace)
            }
            Command::CreateEnum { name, definition } => inside.create(name, Relation::Enum(definition.clone()), false),
            Command::CreateComposite { name, definition } => {
                inside.create(name, Relation::Composite(definition.clone()), false)
            }
            Command::CreateCollation { name, order } => inside.create(name, Relation::Collation(order.clone()), false),
            Command::CreateDomain { name, definition } => {
                inside.create(name, Relation::Domain(definition.clone()), false)
            }
            Command::CreateSchema { name, if_not_exists } => create_schema(inside, name, *if_not_exists),
            Command::OwnSchema { name, owner } => inside.own_new_schema(name, owner),
            Command::Attach { schema, tables } => attach(inside, schema, tables),
            Command::Alter { table, built_on, alteration, memory, .. } => {
                let _locked = inside.lock_definitions(catalogs.owner(), std::iter::once(table))?;
                alter(inside, (table, *built_on, alteration), memory)
            }
            Command::Truncate { tables, restarts, cascade, .. } => {
                let all = inside.emptied_with(tables, *cascade)?;
                let _locked = inside.lock_definitions(catalogs.owner(), all.iter())?;
                inside.check_all_seen(&all)?;
                inside.truncate(tables, *restarts, *cascade)
            }
            Command::Lock { tables, mode, way } => {
                tables.iter().try_for_each(|table| inside.lock_table(table, *mode, *way))
            }
            Command::Rename { object, to, .. } => {
                let _locked = inside.lock_definitions(catalogs.owner(), std::iter::once(object))?;
                inside.rename_with_defaults(object, to)
            }
            Command::RenameSchema { from, to, memory } => rename_schema(catalogs, from, to, memory),
            Command::Follow { new, memory } => follow(inside, catalogs, new, memory),
            Command::AlterSequence { sequence, options, state, .. } => {
                inside.change_sequence(sequence, options.clone(), *state)
            }
            Command::ChangeEnum { object, change, memory } => inside.change_enum(object, change, memory),
            Command::RenameComposite { object, name, memory } => inside.rename_composite(object, name, memory),
            Command::ChangeComposite { object, definition } => inside.change_composite(object, definition),
            Command::ChangeDomain { object, definition, name, memory } => {
                inside.change_domain(object, definition, name, memory)
            }
            Command::Drop { names, kind, also, if_exists, cascade } => {
                if !*if_exists {
                    names.iter().try_for_each(|name| droppable(catalogs, name, *kind))?;
                }
                drop_relations(inside, catalogs, (names, *kind), also, *cascade)
            }
            Command::DropSchema { name, if_exists, cascade, also } => {
                match drop_schema(inside, catalogs, (name, *cascade), also)? || *if_exists {
                    true => Ok(()),
                    false => Err(Error::input(format!("no schema is named '{name}'")).with_code("3F000")),
                }
            }
            Command::DropTypes { names, altered, memory, .. } => drop_types(inside, catalogs, (names, altered), memory),
            Command::DropRoutines { names, .. } => drop_each(inside, names),
            Command::DropSequence(name) => drop_each(inside, [name]),
            Command::Roles { change, .. } => inside.change_roles(change, &catalogs.speaker()),
            Command::SetRole { role, is_authorization: true, .. } => catalogs.set_authorization(role.as_deref()),
            Command::SetRole { role, is_authorization: false, .. } => catalogs.set_role(role.as_deref()),
            Command::SetConstraints { names, is_deferred } => catalogs.set_deferred(names, *is_deferred),
            Command::AttachServer { server, servers } => {
                servers.put(server.clone());
                Ok(())
            }
            Command::DetachServer { name, servers } => {
                servers.remove(name);
                Ok(())
            }
        }
    }
}

fn create_external_table(
    catalog: &Catalog,
    name: &RelationName,
    relation: &Arc<FileRelation>,
    (or_replace, if_not_exists): (bool, bool),
) -> Result<()> {
    if if_not_exists && catalog.snapshot().get(name).is_some() {
        return Ok(());
    }
    // Opened now, so that a wrong location or option is an error of this statement.
    relation.table()?;
    catalog.create(name, Relation::Files(relation.clone()), or_replace)
}

fn create_schema(catalog: &Catalog, name: &str, if_not_exists: bool) -> Result<()> {
    match catalog.create_schema(name)? || if_not_exists {
        true => Ok(()),
        false => Err(Error::input(format!("a schema named '{name}' exists already")).with_code("42P06")),
    }
}

fn attach(catalog: &Catalog, schema: &str, tables: &[(RelationName, Arc<FileRelation>)]) -> Result<()> {
    catalog.create_schema(schema)?;
    tables.iter().try_for_each(|(name, relation)| catalog.create(name, Relation::Files(relation.clone()), false))
}

fn alter(
    catalog: &Catalog,
    (table, built_on, alteration): (&ObjectRef, ObjectVersion, &TableAlteration),
    memory: &QueryMemory,
) -> Result<()> {
    catalog.alter(table, built_on, alteration.clone(), &memory.reservation("a table in memory"))
}

/// Renames a schema, in a block of its own that keeps its locks until it has ended.
fn rename_schema(catalogs: &SessionCatalogs, from: &str, to: &str, memory: &QueryMemory) -> Result<()> {
    let block = catalogs.begin_block();
    let catalog = &*block.catalog();
    let within = names_of(catalog, |object| object.name.schema == *from);
    let tables = tables_of(catalog, &within);
    let _locked = catalog.lock_definitions(catalogs.owner(), tables.iter())?;
    let memory = memory.reservation("a table in memory");
    catalog.rename_schema(from, to, &|object| renaming::renamed(object, from, to), &memory)?;
    block.commit()
}

/// Has definitions say a new name.
fn follow(catalog: &Catalog, catalogs: &SessionCatalogs, new: &NewName, memory: &QueryMemory) -> Result<()> {
    let saying = names_of(catalog, |object| matches!(new.followed(object), Ok(Some(_))));
    let tables = tables_of(catalog, &saying);
    let _locked = catalog.lock_definitions(catalogs.owner(), tables.iter())?;
    let memory = memory.reservation("a table in memory");
    catalog.follow_names(&|object| new.followed(object), &memory)
}

/// Drops relations of a kind, and views that go with them.
fn drop_relations(
    catalog: &Catalog,
    catalogs: &SessionCatalogs,
    (names, kind): (&[RelationName], DroppedKind),
    also: &[RelationName],
    cascade: bool,
) -> Result<()> {
    for name in names {
        may_change(&name.schema, &format!("'{name}' cannot be dropped"))?;
    }
    let all = names.iter().chain(also).cloned().collect::<Vec<_>>();
    let tables = tables_of(catalog, &all);
    let _locked = catalog.lock_definitions(catalogs.owner(), tables.iter())?;
    let is_meant = |name: &RelationName, relation: &Relation| match also.contains(name) {
        true => Ok(()),
        false => of_kind(name, relation, kind),
    };
    catalog.drop_all(&all, cascade, is_meant).map(|_| ())
}

/// Fails with 42809 if a relation is not of the kind that a DROP names.
fn of_kind(name: &RelationName, relation: &Relation, kind: DroppedKind) -> Result<()> {
    match (kind, relation) {
        (DroppedKind::MaterializedView, relation) if relation.materialized().is_some() => Ok(()),
        (DroppedKind::Table, relation) if relation.materialized().is_some() => {
            let error = Error::input(format!("\"{name}\" is not a table")).with_code("42809");
            Err(error.with_hint("Use DROP MATERIALIZED VIEW to remove a materialized view."))
        }
        (DroppedKind::View, Relation::View(_)) | (DroppedKind::Sequence, Relation::Sequence(_)) => Ok(()),
        (DroppedKind::Table, Relation::Files(_) | Relation::Table(_) | Relation::Native(_)) => Ok(()),
        (_, other) => {
            let message = format!("'{name}' is {}, not a {}", other.a_kind(), kind.word());
            Err(Error::input(message).with_code("42809"))
        }
    }
}

/// Drops a schema, with its relations if they go, too, and views in other schemas. `false` if there is none.
fn drop_schema(
    catalog: &Catalog,
    catalogs: &SessionCatalogs,
    (name, cascade): (&str, bool),
    also: &[RelationName],
) -> Result<bool> {
    let mut going = also.to_vec();
    if cascade {
        // Tables elsewhere lose what refers to these, and defaults that count by them.
        going.extend(names_of(catalog, |object| {
            let is_kind = matches!(object.relation, Relation::Native(_) | Relation::Sequence(_));
            is_kind && object.name.schema == *name
        }));
    }
    if !going.is_empty() {
        let tables = tables_of(catalog, &going);
        let _locked = catalog.lock_definitions(catalogs.owner(), tables.iter())?;
        catalog.drop_all(&going, true, |_, _| Ok(()))?;
    }
    catalog.drop_schema(name, cascade)
}

/// Drops types, and the columns of tables that are of them.
fn drop_types(
    catalog: &Catalog,
    catalogs: &SessionCatalogs,
    (names, altered): (&[RelationName], &[AlteredTable]),
    memory: &QueryMemory,
) -> Result<()> {
    let _locked = catalog.lock_definitions(catalogs.owner(), altered.iter().map(|(table, ..)| table))?;
    for (table, built_on, alteration) in altered {
        alter(catalog, (table, *built_on, alteration), memory)?;
    }
    drop_each(catalog, names)
}

/// Drops objects of whatever kind.
fn drop_each<'n>(catalog: &Catalog, names: impl IntoIterator<Item = &'n RelationName>) -> Result<()> {
    names.into_iter().try_for_each(|name| catalog.drop(name, |_| Ok(())).map(|_| ()))
}

/// The names of the objects for which something holds.
fn names_of(catalog: &Catalog, holds: impl Fn(&Object) -> bool) -> Vec<RelationName> {
    let snapshot = catalog.snapshot();
    snapshot.all_objects().filter(|object| holds(object)).map(|object| object.name.clone()).collect()
}

/// The tables and views among what these names stand for.
fn tables_of(catalog: &Catalog, names: &[RelationName]) -> Vec<ObjectRef> {
    let snapshot = catalog.snapshot();
    let found = names.iter().filter_map(|name| snapshot.get(name));
    let is_locked = |object: &&Arc<Object>| matches!(object.relation, Relation::Native(_) | Relation::View(_));
    found.filter(is_locked).map(|object| object.reference()).collect()
}

/// Fails if there is nothing of this name, so that nothing is dropped by a statement that names it among others.
fn droppable(catalogs: &SessionCatalogs, name: &RelationName, kind: DroppedKind) -> Result<()> {
    let snapshot = catalogs.snapshot();
    if snapshot.get(name).is_some() {
        return Ok(());
    }
    if !snapshot.catalog.has_schema(&name.schema) {
        return Err(no_schema(&name.schema));
    }
    let readable = snapshot.catalog.objects().map(|object| &object.name);
    let rights = catalogs.rights();
    let names = readable.filter(|name| rights.may_read(name)).map(ToString::to_string).collect::<Vec<_>>();
    let wanted = kind.word();
    let error = Error::input(format!("no {wanted} is named '{name}'")).with_code("42P01");
    Err(suggest(error, &name.to_string(), &names))
}
