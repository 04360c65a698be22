//! Changes of the catalog: what each is of, what it makes and what it is called.

mod apply;

use std::sync::Arc;

use diligence_base::ids::ObjectVersion;
use diligence_catalog::authority::RoleChange;
use diligence_catalog::locks::TableLock;
use diligence_catalog::sequence::{Sequence, SequenceOptions, SequenceState};
use diligence_catalog::{
    CompositeDefinition, DomainDefinition, EnumChange, EnumDefinition, FileRelation, LockWay, ObjectRef, RelationName,
    Routine, TableAlteration, View,
};
use diligence_engine::stages::Message;
use diligence_memory::QueryMemory;
use diligence_remote::{Server, Servers};
use diligence_types::collation::TextOrder;

use crate::following::NewName;
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
        /// What it names that is to stay as it is until the transaction ends.
        stands_on: Vec<ObjectRef>,
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
        /// Whether others go on changing the table while its indexes are made.
        is_concurrent: bool,
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

    /// The names that something gets which had another one, or was not there; those of schemas are in none.
    fn taken_names(&self) -> Vec<RelationName> {
        let mut names = Vec::new();
        self.made(&mut names);
        match self {
            Command::CreateSchema { name, .. } => names.push(RelationName::new("", name)),
            Command::Rename { to, .. } => names.push(to.clone()),
            _ => {}
        }
        names
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

    /// The tag with which it is acknowledged.
    fn tag(&self) -> &'static str {
        match self {
            Command::Alter { tag, .. }
            | Command::Rename { tag, .. }
            | Command::Roles { tag, .. }
            | Command::SetRole { tag, .. }
            | Command::CreateRoutine { tag, .. }
            | Command::AlterSequence { tag, .. }
            | Command::All { tag, .. }
            | Command::DropTypes { tag, .. }
            | Command::DropRoutines { tag, .. }
            | Command::Nothing(tag) => tag,
            Command::Drop { kind, .. } => kind.tag(),
            Command::CreateExternalTable { .. } => "CREATE EXTERNAL TABLE",
            Command::CreateView { .. } => "CREATE VIEW",
            Command::CreateSequence { .. } => "CREATE SEQUENCE",
            Command::CreateSchema { .. } | Command::OwnSchema { .. } => "CREATE SCHEMA",
            Command::CreateEnum { .. } | Command::CreateComposite { .. } => "CREATE TYPE",
            Command::CreateCollation { .. } => "CREATE COLLATION",
            Command::CreateDomain { .. } => "CREATE DOMAIN",
            Command::Attach { .. } | Command::AttachServer { .. } => "ATTACH",
            Command::DetachServer { .. } => "DETACH",
            Command::DropSchema { .. } => "DROP SCHEMA",
            Command::DropSequence(_) => "DROP SEQUENCE",
            Command::SetConstraints { .. } => "SET CONSTRAINTS",
            Command::Truncate { .. } => "TRUNCATE TABLE",
            Command::ChangeEnum { .. } | Command::RenameComposite { .. } | Command::ChangeComposite { .. } => {
                "ALTER TYPE"
            }
            Command::RenameSchema { .. } => "ALTER SCHEMA",
            Command::Follow { .. } => "ALTER",
            Command::ChangeDomain { .. } => "ALTER DOMAIN",
            Command::Lock { .. } => "LOCK TABLE",
            Command::Noted { command, .. } => command.tag(),
        }
    }

    /// Whether it makes the moment that a transaction sees the present one. LOCK TABLE does not: what is locked first
    /// is then seen as those have left it that were waited for.
    pub fn depends_on_moment(&self) -> bool {
        !matches!(self, Command::Lock { .. } | Command::SetRole { .. } | Command::SetConstraints { .. })
    }

    /// What it is called while others are in its way.
    pub fn waiting_tag(&self) -> &'static str {
        match self {
            Command::Alter { tag, .. } | Command::All { tag, .. } | Command::DropTypes { tag, .. } => tag,
            Command::Rename { tag, .. } => tag,
            Command::CreateView { .. } => "CREATE VIEW",
            Command::Drop { kind, .. } => kind.tag(),
            Command::Truncate { .. } => "TRUNCATE TABLE",
            Command::Noted { command, .. } => command.waiting_tag(),
            _ => "LOCK TABLE",
        }
    }
}
