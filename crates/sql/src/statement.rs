//! What a statement asks for, ready to be done.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use diligence_base::Result;
use diligence_catalog::authority::Privilege;
use diligence_catalog::locks::LockOwner;
use diligence_catalog::{Catalog, Isolation, Object, RelationName, SessionCatalogs, SessionSnapshot};
use diligence_engine::plan::{Needs, Node, Plan};
use diligence_storage::Writer;

mod command;

pub use self::command::{Command, DroppedKind};
use crate::procedural::{Gives, Procedure};
pub use crate::query::Query;
use crate::write::native::{NativeWriter, Returned};
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
    /// VACUUM and OPTIMIZE: a checkpoint, which gives back the room of rows that are gone.
    Vacuum {
        /// The tables that are written anew wherever any row is gone; of others, where many are.
        whole: Vec<Arc<Object>>,
        /// Its tag.
        tag: &'static str,
    },
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
    /// Indexes of tables are made of their rows again.
    Reindex {
        /// The tables.
        tables: Vec<Arc<Object>>,
        /// The name of the index; all of the tables', if `None`.
        only: Option<String>,
    },
    /// ALTER SYSTEM: what all sessions begin with, or what is everybody's.
    SetForAll {
        /// The setting; all that are set in this way, if `None`.
        setting: Option<String>,
        /// Its value; its own default from now on, if `None`.
        value: Option<String>,
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
            Self::Vacuum { tag, .. } => tag,
            Self::BackUp { .. } => "BACKUP",
            Self::Export { .. } => "EXPORT",
            Self::Import { .. } => "IMPORT",
            Self::Reindex { .. } => "REINDEX",
            Self::SetForAll { .. } => "ALTER SYSTEM",
            Self::Check { .. } => "CHECK",
        }
    }

    /// The columns that come out; `None` if it gives no rows.
    pub fn schema(&self) -> Option<SchemaRef> {
        let field = |name: &str, nullable| Field::new(name, DataType::Utf8View, nullable);
        match self {
            Self::Checkpoint
            | Self::Vacuum { .. }
            | Self::BackUp { .. }
            | Self::Export { .. }
            | Self::Import { .. }
            | Self::Reindex { .. }
            | Self::SetForAll { .. } => None,
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
    /// COMMIT AND CHAIN and ROLLBACK AND CHAIN: another one like it begins.
    Chain {
        /// Whether its changes stay.
        commits: bool,
    },
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
    /// Whether it changes rows of a temporary table, as a transaction may that only reads.
    pub is_temporary: bool,
    /// What RETURNING gives, when it is done.
    pub returning: Option<(SchemaRef, Arc<Returned>)>,
}

impl Write {
    /// Gives the rows of a query to a writer.
    pub(crate) fn new(tag: &'static str, mut rows: Query, writer: Arc<dyn Writer>) -> Self {
        let (is_undoable, is_temporary) = (writer.is_undoable(), writer.is_temporary());
        keep_listed_order(&mut rows.plan);
        let query = Query { plan: Plan::write(rows.plan, writer), ..rows };
        Self { tag, query, is_undoable, is_temporary, returning: None }
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
