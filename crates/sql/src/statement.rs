//! What a statement asks for, ready to be done.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use diligence_base::{Error, Result};
use diligence_catalog::{
    Catalog, FileRelation, Isolation, ObjectRef, Relation, RelationName, SessionCatalogs, View, may_change, no_schema,
};
use diligence_engine::plan::Plan;
use diligence_storage::Writer;

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
    /// Changes the catalog.
    Command(Command),
    /// A transaction begins, ends, or goes back.
    Transaction(TransactionStep),
    /// Changes a setting of the session.
    Set {
        /// The setting.
        name: String,
        /// Its value as text.
        value: String,
    },
    /// Gives a setting its default back; all of them if `None`.
    Reset {
        /// The setting.
        name: Option<String>,
    },
    /// Shows a setting; all of them if `None`.
    Show {
        /// The setting.
        name: Option<String>,
    },
}

impl Statement {
    /// The columns of EXPLAIN: one of lines.
    pub fn plan_schema() -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("plan", DataType::Utf8View, false)]))
    }
}

/// Something that gives rows.
#[derive(Clone, Debug)]
pub struct Query {
    /// What the engine runs.
    pub plan: Plan,
}

impl Query {
    /// The columns that come out.
    pub fn schema(&self) -> &SchemaRef {
        &self.plan.schema
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
}

impl Write {
    /// Gives the rows of a query to a writer.
    pub(crate) fn new(tag: &'static str, rows: Query, writer: Arc<dyn Writer>) -> Self {
        let is_undoable = writer.is_undoable();
        Self { tag, query: Query { plan: Plan::write(rows.plan, writer) }, is_undoable }
    }
}

/// The schema with every column nullable: CREATE TABLE AS takes types from its query, not promises.
pub(crate) fn nullable(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| Field::clone(field).with_nullable(true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
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
    /// DROP TABLE, DROP VIEW.
    Drop {
        /// The relations' names.
        names: Vec<RelationName>,
        /// Whether views are meant.
        view: bool,
        /// Whether it is fine if one is not there.
        if_exists: bool,
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
    },
    /// TRUNCATE.
    Truncate(ObjectRef),
    /// Done already, or nothing to do; the tag.
    Nothing(&'static str),
}

impl Command {
    /// Makes the change, and gives the command's tag. Fails with kind `Input` where the catalog has what is to be made,
    /// or has not what is to be changed.
    pub fn apply(self, catalogs: &SessionCatalogs) -> Result<&'static str> {
        let catalog = &*catalogs.catalog();
        match self {
            Command::CreateExternalTable { name, relation, or_replace, if_not_exists } => {
                if if_not_exists && catalog.snapshot().get(&name).is_some() {
                    return Ok("CREATE EXTERNAL TABLE");
                }
                // Opened now, so that a wrong location or option is an error of this statement.
                relation.table()?;
                catalog.create(&name, Relation::Files(relation), or_replace)?;
                Ok("CREATE EXTERNAL TABLE")
            }
            Command::CreateView { name, view, or_replace } => {
                catalog.create(&name, Relation::View(view), or_replace)?;
                Ok("CREATE VIEW")
            }
            Command::Drop { names, view, if_exists } => {
                if !if_exists {
                    names.iter().try_for_each(|name| droppable(catalogs, name, view))?;
                }
                names.iter().try_for_each(|name| drop_one(catalogs, name, view, if_exists))?;
                Ok(if view { "DROP VIEW" } else { "DROP TABLE" })
            }
            Command::CreateSchema { name, if_not_exists } => {
                if !catalog.create_schema(&name)? && !if_not_exists {
                    return Err(Error::input(format!("a schema named '{name}' exists already")).with_code("42P06"));
                }
                Ok("CREATE SCHEMA")
            }
            Command::DropSchema { name, if_exists, cascade } => {
                if !catalog.drop_schema(&name, cascade)? && !if_exists {
                    return Err(Error::input(format!("no schema is named '{name}'")).with_code("3F000"));
                }
                Ok("DROP SCHEMA")
            }
            Command::Truncate(table) => {
                catalog.truncate(&table)?;
                Ok("TRUNCATE TABLE")
            }
            Command::Nothing(tag) => Ok(tag),
        }
    }
}

/// Fails if there is nothing of this name, so that nothing is dropped by a statement that names it among others.
fn droppable(catalogs: &SessionCatalogs, name: &RelationName, view: bool) -> Result<()> {
    let snapshot = catalogs.snapshot();
    if snapshot.get(name).is_some() {
        return Ok(());
    }
    if !snapshot.catalog.has_schema(&name.schema) {
        return Err(no_schema(&name.schema));
    }
    let readable = snapshot.catalog.objects().map(|object| &object.name);
    let names = readable.filter(|name| catalogs.rights.may_read(name)).map(ToString::to_string).collect::<Vec<_>>();
    let wanted = if view { "view" } else { "table" };
    let error = Error::input(format!("no {wanted} is named '{name}'")).with_code("42P01");
    Err(crate::errors::suggest(error, &name.to_string(), &names))
}

fn drop_one(catalogs: &SessionCatalogs, name: &RelationName, view: bool, if_exists: bool) -> Result<()> {
    let catalog: &Catalog = &catalogs.catalog();
    may_change(&name.schema, &format!("'{name}' cannot be dropped"))?;
    let wanted = if view { "view" } else { "table" };
    let dropped = catalog.drop(name, |relation| match relation {
        Relation::View(_) if view => Ok(()),
        Relation::Files(_) | Relation::Table(_) | Relation::Memory(_) if !view => Ok(()),
        other => {
            let error = Error::input(format!("'{name}' is {}, not a {wanted}", other.a_kind()));
            Err(error.with_code("42809"))
        }
    })?;
    if dropped || if_exists { Ok(()) } else { droppable(catalogs, name, view) }
}
