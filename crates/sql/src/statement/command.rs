//! Changes of the catalog, and how they are done.

use std::sync::Arc;

use diligence_base::ids::ObjectVersion;
use diligence_base::{Error, Result};
use diligence_catalog::authority::RoleChange;
use diligence_catalog::locks::TableLock;
use diligence_catalog::sequence::{Sequence, SequenceOptions, SequenceState};
use diligence_catalog::{
    Catalog, CompositeDefinition, DomainDefinition, EnumChange, EnumDefinition, FileRelation, LockWay, Object,
    ObjectRef, Relation, RelationName, Routine, SessionCatalogs, TableAlteration, View, may_change, no_schema,
};
use diligence_engine::stages::Message;
use diligence_memory::QueryMemory;
use diligence_remote::{Server, Servers};
use diligence_types::collation::TextOrder;

use crate::following::NewName;
use crate::renaming;
use crate::write::triggers::TableTriggers;

/// What a DROP is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DroppedKind {
    /// A table.
    Table,
    /// A view.
    View,
    /// A materialized view.
    MaterializedView,
    /// A sequence.
    Sequence,
}

impl DroppedKind {
    /// What it is called.
    pub fn word(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::View => "view",
            Self::MaterializedView => "materialized view",
            Self::Sequence => "sequence",
        }
    }

    fn tag(self) -> &'static str {
        match self {
            Self::Table => "DROP TABLE",
            Self::View => "DROP VIEW",
            Self::MaterializedView => "DROP MATERIALIZED VIEW",
            Self::Sequence => "DROP SEQUENCE",
        }
    }
}

/// A table, the version that its change is of, and what it becomes.
pub type AlteredTable = (ObjectRef, ObjectVersion, TableAlteration);

/// A change of the catalog.
#[derive(Debug)]
pub enum Command {
    /// CREATE EXTERNAL TABLE.
    CreateExternalTable {
        /// The table's name.
        name: RelationName,
        /// Its files.
        relation: Arc<FileRelation>,
        /// Whether an existing table gives way.
        or_replace: bool,
        /// Whether an existing table is left alone.
        if_not_exists: bool,
    },
    /// CREATE VIEW.
    CreateView {
        /// The view's name.
        name: RelationName,
        /// The view.
        view: Arc<View>,
        /// Whether an existing view gives way.
        or_replace: bool,
    },
    /// CREATE SEQUENCE.
    CreateSequence {
        /// Its name.
        name: RelationName,
        /// The sequence.
        sequence: Arc<Sequence>,
    },
    /// ALTER TABLE and its kin, where the rows stay as they are.
    Alter {
        /// The table.
        table: ObjectRef,
        /// The version that the change is of.
        built_on: ObjectVersion,
        /// What it becomes.
        alteration: Box<TableAlteration>,
        /// What new indexes are counted in.
        memory: QueryMemory,
        /// The statement's tag.
        tag: &'static str,
    },
    /// ALTER … RENAME TO of what has no rows of its own.
    Rename {
        /// The object.
        object: ObjectRef,
        /// Its name from now on.
        to: RelationName,
        /// The statement's tag.
        tag: &'static str,
    },
    /// DROP TABLE, DROP VIEW, DROP SEQUENCE.
    Drop {
        /// The relations' names.
        names: Vec<RelationName>,
        /// What is meant.
        kind: DroppedKind,
        /// Views that go with them.
        also: Vec<RelationName>,
        /// Whether it is fine if one is not there.
        if_exists: bool,
        /// Whether what depends on them goes, too.
        cascade: bool,
    },
    /// ATTACH.
    Attach {
        /// The schema that is made.
        schema: String,
        /// Its tables.
        tables: Vec<(RelationName, Arc<FileRelation>)>,
    },
    /// ATTACH of a server.
    AttachServer {
        /// The server.
        server: Arc<Server>,
        /// Where it comes to.
        servers: Arc<Servers>,
    },
    /// DETACH of a server.
    DetachServer {
        /// Its name.
        name: String,
        /// Where it is.
        servers: Arc<Servers>,
    },
    /// CREATE SCHEMA.
    CreateSchema {
        /// The schema's name.
        name: String,
        /// Whether it is fine if there is one.
        if_not_exists: bool,
    },
    /// DROP SCHEMA.
    DropSchema {
        /// The schema's name.
        name: String,
        /// Whether it is fine if there is none.
        if_exists: bool,
        /// Whether its relations go with it.
        cascade: bool,
        /// Views in other schemas that go with them.
        also: Vec<RelationName>,
    },
    /// A schema gets its owner.
    OwnSchema {
        /// The schema's name.
        name: String,
        /// The role.
        owner: String,
    },
    /// Changes roles, owners or grants.
    Roles {
        /// What becomes of them.
        change: Arc<RoleChange>,
        /// The statement's tag.
        tag: &'static str,
    },
    /// SET ROLE and SET SESSION AUTHORIZATION.
    SetRole {
        /// The role; the one that has logged in, if `None`.
        role: Option<String>,
        /// Whether it is the session's user from now on.
        is_authorization: bool,
        /// Whether it lasts as long as the transaction.
        is_local: bool,
        /// The statement's tag.
        tag: &'static str,
    },
    /// SET CONSTRAINTS, of the transaction.
    SetConstraints {
        /// Their names; all if there are none.
        names: Vec<String>,
        /// Whether they are looked at when the transaction ends, or after each statement.
        is_deferred: bool,
    },
    /// TRUNCATE.
    Truncate {
        /// The tables.
        tables: Vec<ObjectRef>,
        /// Whether their sequences begin again.
        restarts: bool,
        /// Whether tables that refer to them lose their rows, too.
        cascade: bool,
        /// What runs before it, and behind.
        triggers: TableTriggers,
    },
    /// CREATE FUNCTION and CREATE MACRO.
    CreateRoutine {
        /// Its name among the objects of its schema.
        name: RelationName,
        /// The function.
        routine: Arc<Routine>,
        /// Whether an existing one gives way.
        or_replace: bool,
        /// Others that give way.
        others: Vec<RelationName>,
        /// The statement's tag.
        tag: &'static str,
    },
    /// ALTER SEQUENCE.
    AlterSequence {
        /// The sequence.
        sequence: ObjectRef,
        /// How it counts from now on.
        options: SequenceOptions,
        /// Where it goes on, if not where it is.
        state: Option<SequenceState>,
        /// The statement's tag.
        tag: &'static str,
    },
    /// A sequence goes whose column counts no more.
    DropSequence(RelationName),
    /// Several, all or none.
    All {
        /// In this order.
        commands: Vec<Command>,
        /// The statement's tag.
        tag: &'static str,
    },
    /// CREATE TYPE … AS ENUM.
    CreateEnum {
        /// The type's name.
        name: RelationName,
        /// Its labels.
        definition: Arc<EnumDefinition>,
    },
    /// CREATE TYPE … AS (…).
    CreateComposite {
        /// The type's name.
        name: RelationName,
        /// Its columns.
        definition: Arc<CompositeDefinition>,
    },
    /// ALTER TYPE.
    ChangeEnum {
        /// The type.
        object: ObjectRef,
        /// What becomes of it.
        change: Box<EnumChange>,
        /// What rows that change are counted in.
        memory: QueryMemory,
    },
    /// ALTER SCHEMA … RENAME TO.
    RenameSchema {
        /// Its name.
        from: String,
        /// Its name from now on.
        to: String,
        /// What indexes of tables are counted in.
        memory: QueryMemory,
    },
    /// Has definitions say what a function, a type or a label is called from now on.
    Follow {
        /// The new name.
        new: NewName,
        /// What indexes of tables are counted in.
        memory: QueryMemory,
    },
    /// ALTER TYPE … RENAME TO and SET SCHEMA of a composite type.
    RenameComposite {
        /// The type.
        object: ObjectRef,
        /// Its name from now on.
        name: RelationName,
        /// What indexes of tables are counted in.
        memory: QueryMemory,
    },
    /// ALTER TYPE … ATTRIBUTE of a composite type.
    ChangeComposite {
        /// The type.
        object: ObjectRef,
        /// What it is from now on.
        definition: Arc<CompositeDefinition>,
    },
    /// CREATE COLLATION.
    CreateCollation {
        /// The name under which the catalog has it.
        name: RelationName,
        /// How texts are compared.
        order: Arc<TextOrder>,
    },
    /// CREATE DOMAIN.
    CreateDomain {
        /// The domain's name.
        name: RelationName,
        /// What it demands.
        definition: Arc<DomainDefinition>,
    },
    /// ALTER DOMAIN.
    ChangeDomain {
        /// The domain.
        object: ObjectRef,
        /// What it demands from now on.
        definition: Arc<DomainDefinition>,
        /// Its name from now on.
        name: RelationName,
        /// What indexes of tables are counted in.
        memory: QueryMemory,
    },
    /// DROP TYPE and DROP DOMAIN.
    DropTypes {
        /// The types' names.
        names: Vec<RelationName>,
        /// Tables that lose columns.
        altered: Vec<AlteredTable>,
        /// What new indexes are counted in.
        memory: QueryMemory,
        /// The statement's tag.
        tag: &'static str,
    },
    /// DROP FUNCTION, DROP PROCEDURE and DROP MACRO.
    DropRoutines {
        /// Their names among the objects of their schemas.
        names: Vec<RelationName>,
        /// The statement's tag.
        tag: &'static str,
    },
    /// LOCK TABLE.
    Lock {
        /// The tables.
        tables: Vec<ObjectRef>,
        /// How.
        mode: TableLock,
        /// What is done where another transaction has one of them.
        way: LockWay,
    },
    /// Done already, or nothing to do; the tag.
    Nothing(&'static str),
    /// A command with what its client is told beside the result.
    Noted {
        /// The command.
        command: Box<Command>,
        /// What is told when it is done.
        notices: Vec<Message>,
    },
}

impl Command {
    /// Drops views, materialized ones too, that go along with what they stand on.
    pub fn drop_views(views: Vec<RelationName>) -> Self {
        Self::Drop { names: vec![], kind: DroppedKind::View, also: views, if_exists: true, cascade: true }
    }

    /// Makes the change, and gives the command's tag. Fails with kind `Input` where the catalog has what is to be made,
    /// or has not what is to be changed.
    ///
    /// Fails with code 55P03 if another transaction has a lock; then it can be applied again when that has ended.
    pub fn apply(&self, catalogs: &SessionCatalogs) -> Result<&'static str> {
        if let Command::Noted { command, .. } = self {
            return command.apply(catalogs);
        }
        let Some(maker) = catalogs.maker().filter(|_| self.makes_something()) else {
            return self.apply_to(&catalogs.catalog(), catalogs);
        };
        // What it makes is its maker's, or is not made.
        let block = catalogs.begin_block();
        let inside = block.catalog();
        let tag = match self {
            Command::All { commands, tag } => {
                commands.iter().try_for_each(|command| command.apply_within(&inside, catalogs))?;
                *tag
            }
            _ => self.apply_to(&inside, catalogs)?,
        };
        let mut names = Vec::new();
        self.made(&mut names);
        inside.own_new(&names, &maker)?;
        if let Command::CreateSchema { name, .. } = self {
            inside.own_new_schema(name, &maker)?;
        }
        block.commit()?;
        Ok(tag)
    }

    /// The same, as one of several that are done together or not at all.
    fn apply_within(&self, inside: &Catalog, catalogs: &SessionCatalogs) -> Result<()> {
        match self {
            Command::ChangeDomain { object, definition, name, memory } => {
                inside.change_domain(object, definition, name, memory)
            }
            Command::ChangeEnum { object, change, memory } => inside.change_enum(object, change, memory),
            Command::RenameComposite { object, name, memory } => inside.rename_composite(object, name, memory),
            Command::DropTypes { names, altered, memory, .. } => drop_types(inside, catalogs, (names, altered), memory),
            Command::DropSchema { name, if_exists, cascade, also } => {
                let mut going = also.clone();
                if *cascade {
                    // Tables elsewhere lose what refers to these, and defaults that count by them.
                    let is_within = |object: &&Arc<Object>| {
                        let is_kind = matches!(object.relation, Relation::Native(_) | Relation::Sequence(_));
                        is_kind && object.name.schema == *name
                    };
                    going.extend(inside.snapshot().all_objects().filter(is_within).map(|object| object.name.clone()));
                }
                if !going.is_empty() {
                    let tables = tables_of(inside, &going);
                    let _locked = inside.lock_definitions(catalogs.owner(), tables.iter())?;
                    inside.drop_all(&going, true, |_, _| Ok(()))?;
                }
                match inside.drop_schema(name, *cascade)? || *if_exists {
                    true => Ok(()),
                    false => Err(Error::input(format!("no schema is named '{name}'")).with_code("3F000")),
                }
            }
            command => command.apply_to(inside, catalogs).map(|_| ()),
        }
    }

    /// The command alone, and what its client is told.
    pub fn parted(self) -> (Command, Vec<Message>) {
        match self {
            Command::Noted { command, notices } => (*command, notices),
            command => (command, vec![]),
        }
    }

    /// Whether something new comes of it.
    fn makes_something(&self) -> bool {
        let mut names = Vec::new();
        self.made(&mut names);
        !names.is_empty() || matches!(self, Command::CreateSchema { .. })
    }

    /// The names of what it makes.
    fn made(&self, names: &mut Vec<RelationName>) {
        match self {
            Command::CreateExternalTable { name, .. }
            | Command::CreateView { name, .. }
            | Command::CreateSequence { name, .. }
            | Command::CreateRoutine { name, .. }
            | Command::CreateEnum { name, .. }
            | Command::CreateComposite { name, .. }
            | Command::CreateCollation { name, .. }
            | Command::CreateDomain { name, .. } => names.push(name.clone()),
            Command::All { commands, .. } => commands.iter().for_each(|command| command.made(names)),
            Command::Noted { command, .. } => command.made(names),
            _ => {}
        }
    }

    /// The tables that it changes as a whole, and what it does with them, as messages have it.
    pub fn changed_as_a_whole(&self) -> (Vec<RelationName>, &'static str) {
        match self {
            Command::Drop { names, kind, .. } => (names.clone(), kind.tag()),
            Command::Truncate { tables, .. } => (tables.iter().map(|table| table.name.clone()).collect(), "TRUNCATE"),
            Command::Alter { table, tag, .. } => (vec![table.name.clone()], tag),
            Command::Noted { command, .. } => command.changed_as_a_whole(),
            _ => (vec![], ""),
        }
    }

    /// What it is called while others are in its way.
    pub fn waiting_tag(&self) -> &'static str {
        match self {
            Command::Alter { tag, .. } | Command::All { tag, .. } | Command::DropTypes { tag, .. } => tag,
            Command::Drop { kind, .. } => kind.tag(),
            Command::Truncate { .. } => "TRUNCATE TABLE",
            Command::Noted { command, .. } => command.waiting_tag(),
            _ => "LOCK TABLE",
        }
    }

    fn apply_to(&self, catalog: &Catalog, catalogs: &SessionCatalogs) -> Result<&'static str> {
        match self {
            Command::CreateExternalTable { name, relation, or_replace, if_not_exists } => {
                if *if_not_exists && catalog.snapshot().get(name).is_some() {
                    return Ok("CREATE EXTERNAL TABLE");
                }
                // Opened now, so that a wrong location or option is an error of this statement.
                relation.table()?;
                catalog.create(name, Relation::Files(relation.clone()), *or_replace)?;
                Ok("CREATE EXTERNAL TABLE")
            }
            Command::CreateView { name, view, or_replace } => {
                catalog.create(name, Relation::View(view.clone()), *or_replace)?;
                Ok("CREATE VIEW")
            }
            Command::CreateSequence { name, sequence } => {
                catalog.create(name, Relation::Sequence(sequence.clone()), false)?;
                Ok("CREATE SEQUENCE")
            }
            Command::Alter { table, built_on, alteration, memory, tag } => {
                let memory = memory.reservation("a table in memory");
                let _locked = catalog.lock_definitions(catalogs.owner(), std::iter::once(table))?;
                catalog.alter(table, *built_on, TableAlteration::clone(alteration), &memory)?;
                Ok(tag)
            }
            Command::Rename { object, to, tag } if catalog.is_of_transaction() => {
                catalog.rename_with_defaults(object, to)?;
                Ok(tag)
            }
            Command::Rename { object, to, tag } => {
                let block = catalogs.begin_block();
                block.catalog().rename_with_defaults(object, to)?;
                block.commit()?;
                Ok(tag)
            }
            Command::Drop { names, kind, also, if_exists, cascade } => {
                if !*if_exists {
                    names.iter().try_for_each(|name| droppable(catalogs, name, *kind))?;
                }
                for name in names {
                    may_change(&name.schema, &format!("'{name}' cannot be dropped"))?;
                }
                let all = names.iter().chain(also).cloned().collect::<Vec<_>>();
                let tables = tables_of(catalog, &all);
                let _locked = catalog.lock_definitions(catalogs.owner(), tables.iter())?;
                catalog.drop_all(&all, *cascade, |name, relation| match (kind, relation) {
                    _ if also.contains(name) => Ok(()),
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
                })?;
                Ok(kind.tag())
            }
            Command::Attach { schema, tables } => {
                let block = catalogs.begin_block();
                block.catalog().create_schema(schema)?;
                for (name, relation) in tables {
                    block.catalog().create(name, Relation::Files(relation.clone()), false)?;
                }
                block.commit()?;
                Ok("ATTACH")
            }
            Command::AttachServer { server, servers } => {
                servers.put(server.clone());
                Ok("ATTACH")
            }
            Command::DetachServer { name, servers } => {
                servers.remove(name);
                Ok("DETACH")
            }
            Command::CreateSchema { name, if_not_exists } => {
                if !catalog.create_schema(name)? && !if_not_exists {
                    return Err(Error::input(format!("a schema named '{name}' exists already")).with_code("42P06"));
                }
                Ok("CREATE SCHEMA")
            }
            Command::DropSchema { cascade: false, also, .. } if also.is_empty() => {
                self.apply_within(catalog, catalogs)?;
                Ok("DROP SCHEMA")
            }
            Command::DropSchema { .. } => {
                let block = catalogs.begin_block();
                self.apply_within(&block.catalog(), catalogs)?;
                block.commit()?;
                Ok("DROP SCHEMA")
            }
            Command::OwnSchema { name, owner } => {
                catalog.own_new_schema(name, owner)?;
                Ok("CREATE SCHEMA")
            }
            Command::Roles { change, tag } => {
                catalog.change_roles(change, &catalogs.speaker())?;
                Ok(tag)
            }
            Command::SetRole { role, is_authorization: true, tag, .. } => {
                catalogs.set_authorization(role.as_deref())?;
                Ok(tag)
            }
            Command::SetRole { role, is_authorization: false, tag, .. } => {
                catalogs.set_role(role.as_deref())?;
                Ok(tag)
            }
            Command::SetConstraints { names, is_deferred } => {
                catalogs.set_deferred(names, *is_deferred)?;
                Ok("SET CONSTRAINTS")
            }
            Command::Truncate { tables, restarts, cascade, .. } => {
                let all = catalog.emptied_with(tables, *cascade)?;
                let _locked = catalog.lock_definitions(catalogs.owner(), all.iter())?;
                catalog.check_all_seen(&all)?;
                catalog.truncate(tables, *restarts, *cascade)?;
                Ok("TRUNCATE TABLE")
            }
            Command::CreateRoutine { name, routine, or_replace, others, tag } => {
                for other in others.iter().filter(|other| *other != name) {
                    catalog.drop(other, |_| Ok(()))?;
                }
                catalog.create(name, Relation::Routine(routine.clone()), *or_replace)?;
                Ok(tag)
            }
            Command::AlterSequence { sequence, options, state, tag } => {
                catalog.change_sequence(sequence, options.clone(), *state)?;
                Ok(tag)
            }
            Command::DropSequence(name) => {
                catalog.drop(name, |_| Ok(()))?;
                Ok("DROP SEQUENCE")
            }
            Command::All { commands, tag } => {
                let block = catalogs.begin_block();
                let inside = block.catalog();
                commands.iter().try_for_each(|command| command.apply_within(&inside, catalogs))?;
                block.commit()?;
                Ok(tag)
            }
            Command::CreateEnum { name, definition } => {
                catalog.create(name, Relation::Enum(definition.clone()), false)?;
                Ok("CREATE TYPE")
            }
            Command::CreateComposite { name, definition } => {
                catalog.create(name, Relation::Composite(definition.clone()), false)?;
                Ok("CREATE TYPE")
            }
            Command::ChangeEnum { object, change, memory } => {
                let block = catalogs.begin_block();
                block.catalog().change_enum(object, change, memory)?;
                block.commit()?;
                Ok("ALTER TYPE")
            }
            Command::RenameSchema { from, to, memory } => {
                let block = catalogs.begin_block();
                let catalog = &*block.catalog();
                let snapshot = catalog.snapshot();
                let within = snapshot.all_objects().filter(|object| object.name.schema == *from);
                let within = within.map(|object| object.name.clone()).collect::<Vec<_>>();
                let tables = tables_of(catalog, &within);
                let _locked = catalog.lock_definitions(catalogs.owner(), tables.iter())?;
                let memory = memory.reservation("a table in memory");
                catalog.rename_schema(from, to, &|object| renaming::renamed(object, from, to), &memory)?;
                block.commit()?;
                Ok("ALTER SCHEMA")
            }
            Command::Follow { new, memory } => {
                let snapshot = catalog.snapshot();
                let says = |object: &&Arc<Object>| matches!(new.followed(object), Ok(Some(_)));
                let saying = snapshot.all_objects().filter(says).map(|object| object.name.clone());
                let tables = tables_of(catalog, &saying.collect::<Vec<_>>());
                let _locked = catalog.lock_definitions(catalogs.owner(), tables.iter())?;
                let memory = memory.reservation("a table in memory");
                catalog.follow_names(&|object| new.followed(object), &memory)?;
                Ok("ALTER")
            }
            Command::RenameComposite { object, name, memory } => {
                let block = catalogs.begin_block();
                block.catalog().rename_composite(object, name, memory)?;
                block.commit()?;
                Ok("ALTER TYPE")
            }
            Command::ChangeComposite { object, definition } => {
                catalog.change_composite(object, definition)?;
                Ok("ALTER TYPE")
            }
            Command::CreateCollation { name, order } => {
                catalog.create(name, Relation::Collation(order.clone()), false)?;
                Ok("CREATE COLLATION")
            }
            Command::CreateDomain { name, definition } => {
                catalog.create(name, Relation::Domain(definition.clone()), false)?;
                Ok("CREATE DOMAIN")
            }
            Command::ChangeDomain { .. } => {
                let block = catalogs.begin_block();
                self.apply_within(&block.catalog(), catalogs)?;
                block.commit()?;
                Ok("ALTER DOMAIN")
            }
            Command::DropTypes { names, altered, memory, tag } => {
                let block = catalogs.begin_block();
                drop_types(&block.catalog(), catalogs, (names, altered), memory)?;
                block.commit()?;
                Ok(tag)
            }
            Command::DropRoutines { names, tag } => {
                for name in names {
                    catalog.drop(name, |_| Ok(()))?;
                }
                Ok(tag)
            }
            Command::Lock { tables, mode, way } => {
                tables.iter().try_for_each(|table| catalog.lock_table(table, *mode, *way))?;
                Ok("LOCK TABLE")
            }
            Command::Nothing(tag) => Ok(tag),
            Command::Noted { command, .. } => command.apply_to(catalog, catalogs),
        }
    }
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
        let memory = memory.reservation("a table in memory");
        catalog.alter(table, *built_on, alteration.clone(), &memory)?;
    }
    names.iter().try_for_each(|name| catalog.drop(name, |_| Ok(())).map(|_| ()))
}

/// The tables among what these names stand for.
fn tables_of(catalog: &Catalog, names: &[RelationName]) -> Vec<ObjectRef> {
    let snapshot = catalog.snapshot();
    let found = names.iter().filter_map(|name| snapshot.get(name));
    found.filter(|object| matches!(object.relation, Relation::Native(_))).map(|object| object.reference()).collect()
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
    Err(crate::errors::suggest(error, &name.to_string(), &names))
}
