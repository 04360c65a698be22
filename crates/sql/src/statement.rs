//! What a statement asks for, ready to be done.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use diligence_base::ids::ObjectVersion;
use diligence_base::{Error, Result};
use diligence_catalog::authority::{Privilege, RoleChange};
use diligence_catalog::locks::{LockOwner, TableLock};
use diligence_catalog::sequence::{Sequence, SequenceOptions, SequenceState};
use diligence_catalog::{
    Catalog, CompositeDefinition, DomainDefinition, EnumChange, EnumDefinition, FileRelation, Isolation, LockWay,
    Object, ObjectRef, Relation, RelationName, Routine, SessionCatalogs, SessionSnapshot, TableAlteration, View,
    may_change, no_schema,
};
use diligence_engine::plan::{Needs, Node, Plan};
use diligence_memory::QueryMemory;
use diligence_remote::{Server, Servers};
use diligence_storage::Writer;
use diligence_types::collation::TextOrder;

use crate::procedural::{Gives, Procedure};
pub use crate::query::Query;
use crate::renaming;
use crate::write::native::{NativeWriter, Returned};
use crate::write::triggers::TableTriggers;
use crate::written::WrittenRows;

/// A planned statement.
#[derive(Debug)]
pub enum Statement {
    /// Gives rows.
    Query(Query),
    /// Shows a plan; with `analyze` after running it.
    Explain {
        /// What is explained.
        query: Query,
        /// Whether it runs.
        analyze: bool,
        /// Whether it is shown as JSON, for programs.
        json: bool,
        /// The query's forms on the way to its plan, for EXPLAIN VERBOSE.
        details: Option<String>,
    },
    /// Writes the rows of a query: COPY … TO, INSERT, CREATE TABLE.
    Write(Write),
    /// Several that are one: those of its WITH that write, then itself.
    Several(Several),
    /// Changes the catalog.
    Command(Command),
    /// Runs a procedure: CALL and DO.
    Call(Called),
    /// Looks after the database.
    Maintain(Maintenance),
    /// A transaction begins, ends, or goes back.
    Transaction(TransactionStep),
    /// LISTEN, UNLISTEN and NOTIFY.
    Channel(ChannelStep),
    /// Changes a setting of the session.
    Set {
        /// The setting.
        name: String,
        /// Its value as text.
        value: String,
        /// Whether it lasts as long as the transaction.
        is_local: bool,
    },
    /// Gives a setting its default back; all of them if `None`.
    Reset {
        /// The setting.
        name: Option<String>,
        /// Whether it lasts as long as the transaction.
        is_local: bool,
    },
    /// Shows a setting; all of them if `None`.
    Show {
        /// The setting.
        name: Option<String>,
    },
}

/// What a session does with channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChannelStep {
    /// It hears what is said in one.
    Listen(String),
    /// It hears one no more, or any.
    Unlisten(Option<String>),
    /// It says something in one.
    Notify {
        /// The channel.
        channel: String,
        /// What; may be empty.
        payload: String,
    },
}

impl ChannelStep {
    /// Its tag.
    pub fn tag(&self) -> &'static str {
        match self {
            Self::Listen(_) => "LISTEN",
            Self::Unlisten(_) => "UNLISTEN",
            Self::Notify { .. } => "NOTIFY",
        }
    }
}

/// A procedure that is run.
#[derive(Clone, Debug)]
pub struct Called {
    /// What the statement is called when it is done.
    pub tag: &'static str,
    /// The procedure.
    pub procedure: Arc<Procedure>,
    /// A query of one row with its arguments; none if it takes none.
    pub arguments: Option<Query>,
}

impl Called {
    /// The columns that come out; `None` if it gives no row.
    pub fn schema(&self) -> Option<SchemaRef> {
        match &self.procedure.gives {
            Gives::Row(columns) => {
                let fields = columns.iter().map(|(name, sql_type)| sql_type.field(name, true));
                Some(Arc::new(Schema::new(fields.collect::<Vec<_>>())))
            }
            _ => None,
        }
    }
}

/// What is done for a database by those who keep it. Each takes as long as the database is large.
#[derive(Clone, Debug)]
pub enum Maintenance {
    /// A database on disk writes down what it holds, so that it is opened faster.
    Checkpoint,
    /// A folder is made that opens as the database is now.
    BackUp {
        /// The folder, which is not there.
        to: PathBuf,
        /// That of an earlier backup, of which files may be taken.
        earlier: Option<PathBuf>,
    },
    /// A folder is made with statements and files that make the database again.
    Export {
        /// The folder, which is not there.
        to: PathBuf,
        /// Of the files.
        format: ExportFormat,
    },
    /// The statements of such a folder are run.
    Import {
        /// The folder.
        from: PathBuf,
    },
    /// All rows of these tables are read, and held against what the tables promise.
    Check {
        /// The tables.
        tables: Vec<Arc<Object>>,
    },
}

/// How EXPORT DATABASE writes rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExportFormat {
    /// As Parquet, where it has a form for all values of a table, else as text.
    #[default]
    Parquet,
    /// As text.
    Csv,
}

impl Maintenance {
    /// Its tag.
    pub fn tag(&self) -> &'static str {
        match self {
            Self::Checkpoint => "CHECKPOINT",
            Self::BackUp { .. } => "BACKUP",
            Self::Export { .. } => "EXPORT",
            Self::Import { .. } => "IMPORT",
            Self::Check { .. } => "CHECK",
        }
    }

    /// The columns that come out; `None` if it gives no rows.
    pub fn schema(&self) -> Option<SchemaRef> {
        let field = |name: &str, nullable| Field::new(name, DataType::Utf8View, nullable);
        match self {
            Self::Checkpoint | Self::BackUp { .. } | Self::Export { .. } | Self::Import { .. } => None,
            Self::Check { .. } => {
                Some(Arc::new(Schema::new(vec![field("table", false), field("check", false), field("problem", true)])))
            }
        }
    }
}

impl Statement {
    /// The columns of EXPLAIN: one of lines.
    pub fn plan_schema() -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("plan", DataType::Utf8View, false)]))
    }
}

/// A step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionStep {
    /// BEGIN.
    Begin(Isolation),
    /// COMMIT.
    Commit,
    /// ROLLBACK.
    RollBack,
    /// SAVEPOINT name.
    Savepoint(String),
    /// RELEASE name.
    Release(String),
    /// ROLLBACK TO name.
    RollBackTo(String),
}

/// A query that writes its rows, and gives one row with their number.
#[derive(Debug)]
pub struct Write {
    /// What the statement is called when it is done, as PostgreSQL says it.
    pub tag: &'static str,
    /// What writes.
    pub query: Query,
    /// Whether a rollback undoes it.
    pub is_undoable: bool,
    /// What RETURNING gives, when it is done.
    pub returning: Option<(SchemaRef, Arc<Returned>)>,
}

impl Write {
    /// Gives the rows of a query to a writer.
    pub(crate) fn new(tag: &'static str, mut rows: Query, writer: Arc<dyn Writer>) -> Self {
        let is_undoable = writer.is_undoable();
        keep_listed_order(&mut rows.plan);
        let query = Query { plan: Plan::write(rows.plan, writer), ..rows };
        Self { tag, query, is_undoable, returning: None }
    }
}

/// Rows that a statement lists are written in the order in which it lists them: of two with one key the first counts
/// (ON CONFLICT DO NOTHING), and numbers are given in that order. Whether the rows are listed.
fn keep_listed_order(plan: &mut Plan) -> bool {
    let is_listed = match &mut plan.node {
        Node::Values { .. } => true,
        Node::Project { input, .. } | Node::Filter { input, .. } => keep_listed_order(input),
        _ => false,
    };
    plan.ordered |= is_listed;
    is_listed
}

/// What a statement that writes does with its rows, in any run.
#[derive(Debug)]
pub(crate) struct AnyWrite {
    tag: &'static str,
    writer: Arc<NativeWriter>,
    returning: Option<SchemaRef>,
}

impl AnyWrite {
    pub(crate) fn new(tag: &'static str, writer: Arc<NativeWriter>, returning: Option<SchemaRef>) -> Self {
        Self { tag, writer, returning }
    }

    /// Whether a session that sees this snapshot may do it.
    pub(crate) fn is_allowed(&self, snapshot: &SessionSnapshot) -> bool {
        let needed: &[Privilege] = match self.tag {
            "INSERT" => &[Privilege::Insert],
            "DELETE" => &[Privilege::Delete],
            "UPDATE" => &[Privilege::Update],
            _ => &[Privilege::Insert, Privilege::Update, Privilege::Delete],
        };
        let may = |name: &RelationName| needed.iter().all(|privilege| snapshot.rights.may(name, *privilege));
        self.writer.changed_table().is_none_or(may)
    }

    /// Whether triggers would run that its plan does not know of.
    pub(crate) fn misses_triggers(&self, snapshot: &SessionSnapshot) -> bool {
        let table = self.writer.changed_table().filter(|_| self.writer.takes_rows_away());
        let object = table.and_then(|name| snapshot.catalog.get(name));
        object.is_some_and(|object| snapshot.catalog.has_followers_with_triggers(object.id))
    }

    /// The statement for a run of a session.
    pub(crate) fn of(&self, rows: Query, catalogs: &SessionCatalogs) -> Write {
        self.in_run(rows, self.writer.anew(catalogs.catalog(), catalogs.owner()))
    }

    /// The statement as one of several.
    fn part(&self, rows: Query, catalog: Arc<Catalog>, owner: LockOwner) -> Write {
        self.in_run(rows, self.writer.anew(catalog, owner).into_part())
    }

    fn in_run(&self, rows: Query, writer: NativeWriter) -> Write {
        let writer = Arc::new(writer);
        let returning = self.returning.clone().map(|schema| (schema, writer.returned()));
        Write { returning, ..Write::new(self.tag, rows, writer) }
    }
}

/// Several statements that are one: they run one after the other, over the names and rows that the first one sees.
#[derive(Debug)]
pub struct Several {
    /// Those of the WITH.
    pub before: Vec<Part>,
    /// The statement itself.
    pub last: Part,
}

/// One of several statements.
#[derive(Debug)]
pub struct Part {
    /// What others call it.
    pub(crate) name: String,
    /// Its rows.
    pub(crate) rows: Query,
    /// What is done with them; they are given if that is nothing.
    pub(crate) write: Option<AnyWrite>,
    /// What others read of it.
    pub(crate) gives: Option<Arc<WrittenRows>>,
}

impl Several {
    /// What the statement itself is called when it is done; `None` if it only gives rows.
    pub fn tag(&self) -> Option<&'static str> {
        self.last.write.as_ref().map(|write| write.tag)
    }

    /// The columns of its rows.
    pub fn schema(&self) -> Option<SchemaRef> {
        match &self.last.write {
            None => Some(self.last.rows.schema().clone()),
            Some(write) => write.returning.clone(),
        }
    }

    /// Whether one of them calls procedures, such as those of triggers.
    pub fn is_calling(&self) -> bool {
        self.before.iter().chain([&self.last]).any(|part| part.rows.is_calling)
    }

    /// What running it is expected to need, at most at once.
    pub fn needs(&self) -> Needs {
        let mut all = Needs::default();
        for part in self.before.iter().chain([&self.last]) {
            let Needs { rows, memory_bytes } = part.rows.needs();
            all = Needs { rows: all.rows.saturating_add(rows), memory_bytes: all.memory_bytes.max(memory_bytes) };
        }
        all
    }

    /// The plan of the statement itself.
    pub(crate) fn last_query(&self) -> Query {
        self.last.shown()
    }

    /// The plans of those before it.
    pub(crate) fn shown_before(&self) -> String {
        let shown = self.before.iter().map(|part| {
            let Query { plan, tables, .. } = part.shown();
            format!("{}:\n{}", part.name, plan.shown(&tables))
        });
        shown.collect::<Vec<_>>().join("\n")
    }
}

impl Part {
    /// What the engine runs where the changes go into this catalog, and what comes of it. No other part may run with
    /// it.
    pub fn begin(&self, catalog: Arc<Catalog>, owner: LockOwner) -> (Query, Option<Arc<Returned>>) {
        match &self.write {
            None => (self.rows.clone(), None),
            Some(write) => {
                let write = write.part(self.rows.clone(), catalog, owner);
                (write.query, write.returning.map(|(_, returned)| returned))
            }
        }
    }

    /// Whether it writes.
    pub fn is_writing(&self) -> bool {
        self.write.is_some()
    }

    /// These rows came of it. Fails if they are not such as it gives.
    pub fn gave(&self, rows: Vec<RecordBatch>) -> Result<()> {
        self.gives.as_ref().map_or(Ok(()), |gives| gives.become_rows(rows))
    }

    fn shown(&self) -> Query {
        match &self.write {
            None => self.rows.clone(),
            Some(write) => write.in_run(self.rows.clone(), NativeWriter::clone(&write.writer)).query,
        }
    }
}

/// The schema with every column nullable: CREATE TABLE AS takes types from its query, not promises.
pub(crate) fn nullable(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| Field::clone(field).with_nullable(true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

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
    fn word(self) -> &'static str {
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
    /// ALTER TYPE … RENAME TO and SET SCHEMA of a composite type.
    RenameComposite {
        /// The type.
        object: ObjectRef,
        /// Its name from now on.
        name: RelationName,
        /// What indexes of tables are counted in.
        memory: QueryMemory,
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
        altered: Vec<(ObjectRef, ObjectVersion, TableAlteration)>,
        /// What new indexes are counted in.
        memory: QueryMemory,
        /// The statement's tag.
        tag: &'static str,
    },
    /// DROP FUNCTION and DROP MACRO, by their names among the objects of their schemas.
    DropRoutines(Vec<RelationName>),
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
}

impl Command {
    /// Makes the change, and gives the command's tag. Fails with kind `Input` where the catalog has what is to be made,
    /// or has not what is to be changed.
    ///
    /// Fails with code 55P03 if another transaction has a lock; then it can be applied again when that has ended.
    pub fn apply(&self, catalogs: &SessionCatalogs) -> Result<&'static str> {
        let Some(maker) = catalogs.maker().filter(|_| self.makes_something()) else {
            return self.apply_to(&catalogs.catalog(), catalogs);
        };
        // What it makes is its maker's, or is not made.
        let block = catalogs.begin_block();
        let inside = block.catalog();
        let tag = match self {
            Command::All { commands, tag } => {
                commands.iter().try_for_each(|command| command.apply_to(&inside, catalogs).map(|_| ()))?;
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
            _ => {}
        }
    }

    /// The tables that it changes as a whole, and what it does with them, as messages have it.
    pub fn changed_as_a_whole(&self) -> (Vec<RelationName>, &'static str) {
        match self {
            Command::Drop { names, kind, .. } => (names.clone(), kind.tag()),
            Command::Truncate { tables, .. } => (tables.iter().map(|table| table.name.clone()).collect(), "TRUNCATE"),
            Command::Alter { table, tag, .. } => (vec![table.name.clone()], tag),
            _ => (vec![], ""),
        }
    }

    /// What it is called while others are in its way.
    pub fn waiting_tag(&self) -> &'static str {
        match self {
            Command::Alter { tag, .. } | Command::All { tag, .. } | Command::DropTypes { tag, .. } => tag,
            Command::Drop { kind, .. } => kind.tag(),
            Command::Truncate { .. } => "TRUNCATE TABLE",
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
            Command::DropSchema { name, if_exists, cascade, also } => {
                let is_gone = match also.is_empty() {
                    true => catalog.drop_schema(name, *cascade)?,
                    false => {
                        let block = catalogs.begin_block();
                        block.catalog().drop_all(also, true, |_, _| Ok(()))?;
                        let is_gone = block.catalog().drop_schema(name, *cascade)?;
                        block.commit()?;
                        is_gone
                    }
                };
                if !is_gone && !if_exists {
                    return Err(Error::input(format!("no schema is named '{name}'")).with_code("3F000"));
                }
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
                let _locked = catalog.lock_definitions(catalogs.owner(), tables.iter())?;
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
                commands.iter().try_for_each(|command| command.apply_to(&inside, catalogs).map(|_| ()))?;
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
            Command::RenameComposite { object, name, memory } => {
                let block = catalogs.begin_block();
                block.catalog().rename_composite(object, name, memory)?;
                block.commit()?;
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
            Command::ChangeDomain { object, definition, name, memory } => {
                let block = catalogs.begin_block();
                block.catalog().change_domain(object, definition, name, memory)?;
                block.commit()?;
                Ok("ALTER DOMAIN")
            }
            Command::DropTypes { names, altered, memory, tag } => {
                let block = catalogs.begin_block();
                let catalog = &*block.catalog();
                let _locked = catalog.lock_definitions(catalogs.owner(), altered.iter().map(|(table, ..)| table))?;
                for (table, built_on, alteration) in altered {
                    let memory = memory.reservation("a table in memory");
                    catalog.alter(table, *built_on, alteration.clone(), &memory)?;
                }
                for name in names {
                    catalog.drop(name, |_| Ok(()))?;
                }
                block.commit()?;
                Ok(tag)
            }
            Command::DropRoutines(names) => {
                for name in names {
                    catalog.drop(name, |_| Ok(()))?;
                }
                Ok("DROP FUNCTION")
            }
            Command::Lock { tables, mode, way } => {
                tables.iter().try_for_each(|table| catalog.lock_table(table, *mode, *way))?;
                Ok("LOCK TABLE")
            }
            Command::Nothing(tag) => Ok(tag),
        }
    }
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
