//! What is around one statement while it is bound: the session, the names, and what binding has met and decided.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use chrono::Utc;
use datafusion_common::ScalarValue;
use diligence_base::{Error, Result};
use diligence_catalog::authority::Subject;
use diligence_catalog::rights::DENIED;
use diligence_catalog::rules::KeyKind;
use diligence_catalog::{
    CATALOG_NAME, Object, ObjectRef, Relation, RelationName, Resolved, declared_oid, sequence_schema,
};
use diligence_engine::stages::Message;
use diligence_remote::Moment;
use diligence_storage::Table;
use diligence_storage::foreign_error::from_arrow;
use diligence_storage::memory::MemoryTable;
use diligence_types::SqlType;
use sqlparser::ast;

use super::names::Names;
use super::{Planner, Planning};
use crate::algebra::Numbers;
use crate::binder::Named;
use crate::information;
use crate::parse::lower;
pub(super) use crate::parse::parts_of;
use crate::write::triggers::ComputedLater;
use crate::written::WrittenParts;

/// The snapshots in which a statement reads servers, by their names.
pub(super) type Moments = HashMap<String, Arc<Moment>>;

/// What is around one statement.
pub(super) struct Around<'a> {
    pub(super) planner: &'a Planner,
    pub(super) at: &'a Planning<'a>,
    pub(super) names: &'a Names,
    pub(super) numbers: Numbers,
    pub(super) zone: String,
    /// The times of the transaction's and of the statement's begin.
    pub(super) now: i64,
    pub(super) statement_time: i64,
    /// The parameter that has the first of them.
    pub(super) now_parameter: Option<usize>,
    /// The types of the parameters' values.
    pub(super) parameters: Vec<SqlType>,
    /// Their values, where they are known.
    pub(super) values: Vec<ScalarValue>,
    /// Whether only the columns count.
    pub(super) is_without_rows: bool,
    /// Whether a moment of the past was missing for that.
    pub(super) lacks_moment: Cell<bool>,
    /// Those that statements of the WITH have decided.
    pub(super) decided: RefCell<Vec<Option<SqlType>>>,
    /// What statements of the WITH give.
    pub(super) written: RefCell<WrittenParts>,
    pub(super) tables: RefCell<HashMap<RelationName, Arc<dyn Table>>>,
    /// The snapshots in which it reads servers.
    pub(super) moments: RefCell<Moments>,
    /// A function that counts as gone.
    pub(super) without_routine: RefCell<Option<RelationName>>,
    /// The views met.
    views: RefCell<HashSet<RelationName>>,
    /// The table that the statement changes, with the numbers of its rows.
    changed: RefCell<Option<Arc<dyn Table>>>,
    /// Whether the statement locks something that it keeps until its transaction ends.
    pub(super) is_locking: Cell<bool>,
    /// Whether it calls procedures.
    pub(super) is_calling: Cell<bool>,
    /// Whether it has asked for numbers of rows that were not given, and whether they are.
    pub(super) misses_numbers: Cell<bool>,
    pub(super) gives_numbers: Cell<bool>,
    /// The schemas of the views whose queries are being bound, the innermost last.
    pub(super) around_views: RefCell<Vec<String>>,
    /// What is changed through a view, and under whose rights; `None` for the session's.
    pub(super) through: RefCell<Option<(RelationName, Option<String>)>>,
    /// What new rows have to fulfill for the views, by name, and whether those behind count as well.
    pub(super) view_checks: RefCell<Vec<(String, ast::Expr)>>,
    pub(super) cascades: Cell<bool>,
    /// Under whose rights names behind those views are looked up; `None` for the session's.
    pub(super) behind: RefCell<Vec<Option<String>>>,
    /// The view whose triggers do what the statement says.
    pub(super) changed_view: RefCell<Option<Arc<Object>>>,
    /// The table that the statement changes, by its name.
    pub(super) changed_name: RefCell<Option<RelationName>>,
    /// What the statement reads of which it may not read all that it does.
    pub(super) denied: RefCell<Option<String>>,
    /// The columns that a COPY from files wants.
    pub(super) copied: RefCell<Option<SchemaRef>>,
    /// What RETURNING gives of rows that triggers may change, before it is planned.
    pub(super) later: RefCell<Vec<Arc<ComputedLater>>>,
    /// What its client is told beside the result.
    pub(super) notices: RefCell<Vec<Message>>,
}

impl<'a> Around<'a> {
    pub(super) fn new(planner: &'a Planner, at: &'a Planning<'a>, names: &'a Names, parameters: Vec<SqlType>) -> Self {
        let zone = at.session.zone();
        Self {
            planner,
            at,
            names,
            numbers: Numbers::default(),
            zone,
            now: planner.catalogs().now(),
            statement_time: Utc::now().timestamp_micros(),
            now_parameter: None,
            parameters,
            values: vec![],
            is_without_rows: false,
            lacks_moment: Cell::new(false),
            decided: RefCell::default(),
            written: RefCell::default(),
            tables: RefCell::default(),
            moments: RefCell::default(),
            without_routine: RefCell::default(),
            views: RefCell::default(),
            changed: RefCell::default(),
            is_locking: Cell::new(false),
            is_calling: Cell::new(false),
            misses_numbers: Cell::new(false),
            gives_numbers: Cell::new(false),
            around_views: RefCell::default(),
            behind: RefCell::default(),
            through: RefCell::default(),
            view_checks: RefCell::default(),
            cascades: Cell::new(false),
            changed_view: RefCell::default(),
            changed_name: RefCell::default(),
            denied: RefCell::default(),
            copied: RefCell::default(),
            later: RefCell::default(),
            notices: RefCell::default(),
        }
    }

    /// Whether the statement locks something that it keeps until its transaction ends.
    pub(super) fn is_locking(&self) -> bool {
        self.is_locking.get()
    }

    /// Whether binding once more may help: tables give the numbers of their rows from now on, which were missed.
    pub(super) fn gives_numbers_now(&self) -> bool {
        self.misses_numbers.get() && !self.gives_numbers.replace(true)
    }

    /// Whether the statement calls procedures.
    pub(super) fn is_calling(&self) -> bool {
        self.is_calling.get()
    }

    /// The same, for a plan in which this parameter, counted from 0, has the time of the transaction's begin.
    pub(super) fn with_now(mut self, parameter: usize) -> Self {
        self.now_parameter = Some(parameter);
        self
    }

    /// The same, where these are the values of the parameters.
    pub(super) fn with_values(mut self, values: &[ScalarValue]) -> Self {
        self.values = values.to_vec();
        self
    }

    /// The same, where only the columns count: parameters have no values yet.
    pub(super) fn without_rows(mut self) -> Self {
        self.is_without_rows = true;
        self
    }

    /// The number of an index.
    pub(super) fn index_number(&self, name: &RelationName) -> Option<i64> {
        let mut tables = self.at.snapshot.catalog.objects().filter(|object| object.name.schema == name.schema);
        tables.find_map(|object| match &object.relation {
            Relation::Native(table) if self.at.snapshot.sees(&object.name) => {
                let place = table.rules().keys.iter().position(|key| key.name == name.name)?;
                Some(declared_oid(object.oid(), 0, place))
            }
            _ => None,
        })
    }

    /// The relation that a text names.
    pub(super) fn named(&self, text: &str) -> Option<RelationName> {
        let name = RelationName::parse(text)?;
        // One without a schema is looked for along the path.
        Some(if text.contains('.') { name } else { self.in_path(&name.name) })
    }

    /// The types of the parameters of all that was bound; texts, where nothing has decided.
    pub(super) fn decided_parameters(&self) -> Vec<SqlType> {
        self.decided.borrow().iter().map(|sql_type| sql_type.clone().unwrap_or(SqlType::Text)).collect()
    }

    pub(super) fn set_changed(&self, rows: Arc<dyn Table>) {
        self.changed_view.take();
        *self.changed.borrow_mut() = Some(rows);
    }

    pub(super) fn changed_rows(&self) -> Option<Arc<dyn Table>> {
        self.changed.borrow().clone()
    }

    /// A name stands for this table, whatever the catalog has.
    pub(super) fn knows(&self, name: &RelationName, table: Arc<dyn Table>) {
        self.tables.borrow_mut().insert(name.clone(), table);
    }

    /// The table that a name stands for in this statement, if that is known.
    pub(super) fn known_table(&self, name: &RelationName) -> Option<Arc<dyn Table>> {
        self.tables.borrow().get(name).cloned()
    }

    /// Whether the statement has met a relation.
    pub(super) fn has_met(&self, name: &RelationName) -> bool {
        self.tables.borrow().contains_key(name) || self.views.borrow().contains(name)
    }

    /// The tables and views that the statement has met.
    pub(super) fn met(&self) -> Vec<ObjectRef> {
        let (tables, views) = (self.tables.borrow(), self.views.borrow());
        let found = tables.keys().chain(views.iter()).filter_map(|name| self.at.snapshot.catalog.get(name));
        found.map(|object| object.reference()).collect()
    }

    pub(super) fn object(&self, name: &RelationName, object: &Object) -> Result<Named> {
        let table = match &object.relation {
            Relation::Files(files) => {
                let table: Arc<dyn Table> = files.table()?;
                table
            }
            Relation::Table(table) => table.clone(),
            Relation::Native(memory) => {
                if object.relation.materialized().is_some_and(|view| !view.is_populated) {
                    let error = Error::input(format!("materialized view \"{name}\" has not been populated"));
                    return Err(error.with_code("55000").with_hint("Use the REFRESH MATERIALIZED VIEW command."));
                }
                // Also if no plan reads it after all: that it has no rows is something that was read.
                self.planner.catalogs().note_read(std::iter::once(memory.id()));
                if self.gives_numbers.get() { memory.numbered() } else { memory.table() }
            }
            Relation::Sequence(sequence) => {
                let state = sequence.state();
                let columns: Vec<ArrayRef> = vec![
                    Arc::new(Int64Array::from(vec![state.last])),
                    Arc::new(Int64Array::from(vec![0])),
                    Arc::new(BooleanArray::from(vec![state.is_called])),
                ];
                return self.computed(name, RecordBatch::try_new(sequence_schema(), columns).map_err(from_arrow)?);
            }
            Relation::Routine(_)
            | Relation::Enum(_)
            | Relation::Composite(_)
            | Relation::Domain(_)
            | Relation::Collation(_) => {
                return Err(Error::bug("a function or a type has the name of a relation"));
            }
            Relation::View(view) => {
                self.names.uses_object(name, object);
                self.views.borrow_mut().insert(name.clone());
                return Ok(Named::View {
                    query: view.query()?,
                    columns: view.column_names(),
                    made: view.schema.fields().iter().map(|field| field.name().clone()).collect(),
                    name: name.name.clone(),
                    schema: name.schema.clone(),
                });
            }
        };
        self.names.uses_table(name, object, &table);
        self.tables.borrow_mut().insert(name.clone(), table.clone());
        Ok(Named::Table { table, name: name.name.clone(), key: primary_key(&object.relation) })
    }

    /// A table of rows that are computed for this statement.
    pub(super) fn computed(&self, name: &RelationName, rows: RecordBatch) -> Result<Named> {
        self.names.not_reusable();
        let version = self.planner.catalogs().catalog().next_table_version();
        let table = MemoryTable::new(name.to_string(), rows.schema(), vec![rows], version)?;
        let table: Arc<dyn Table> = Arc::new(table);
        self.tables.borrow_mut().insert(name.clone(), table.clone());
        Ok(Named::Table { table, name: name.name.clone(), key: vec![] })
    }

    /// A table of `information_schema`.
    pub(super) fn information(&self, name: &RelationName) -> Result<Option<Named>> {
        let rows = information::rows(&name.name, self.at.snapshot, &self.planner.current_user())?;
        rows.map(|rows| self.computed(name, rows)).transpose()
    }
}

/// The columns of a table's primary key; none without one.
pub(super) fn primary_key(relation: &Relation) -> Vec<String> {
    let Relation::Native(table) = relation else { return vec![] };
    let key = table.rules().keys.iter().find(|key| key.kind == KeyKind::Primary);
    key.map_or_else(Vec::new, |key| key.columns.clone())
}

impl Around<'_> {
    /// The owner of a function, if it runs as that.
    pub(super) fn owner_acting(&self, object: &Object) -> Option<String> {
        match &object.relation {
            Relation::Routine(routine) if routine.acts_as_owner() => {
                // It may have another owner the next time.
                self.names.not_reusable();
                Some(self.at.snapshot.catalog.authority().owner_of(Subject::Object(object.id)).to_owned())
            }
            _ => None,
        }
    }

    /// The statement calls procedures.
    pub(super) fn calls(&self) {
        self.is_calling.set(true);
    }

    /// Under whose rights names are looked up now; `None` for the session's.
    pub(super) fn behind(&self) -> Option<String> {
        self.behind.borrow().last().cloned().flatten()
    }

    /// What a name stands for, for whoever reads it now. Fails with 42501.
    pub(super) fn readable(&self, relation: &RelationName) -> Result<Option<Resolved>> {
        let behind = self.behind();
        let denied = match self.at.snapshot.readable_by(behind.as_deref(), relation) {
            Err(denied) => denied,
            found => return found,
        };
        let found = self.at.snapshot.readable_in_part(behind.as_deref(), relation).ok_or(denied)?;
        // Who reads all of it, or other columns, has other plans.
        self.names.not_reusable();
        Ok(Some(found))
    }

    /// Fails with 42501 if the statement reads what it may not read.
    pub(super) fn check_read(&self) -> Result<()> {
        let Some(relation) = self.denied.take() else { return Ok(()) };
        let error = Error::input(format!("permission denied for {relation}")).with_code(DENIED);
        Err(error.with_hint("only some of its columns may be read: GRANT SELECT (column) allows others"))
    }

    /// A table that only statements of the procedure see; names of views do not mean such.
    pub(super) fn seen_table(&self, name: &ast::ObjectName) -> Option<Named> {
        let [part] = name.0.as_slice() else { return None };
        if !self.around_views.borrow().is_empty() {
            return None;
        }
        let name = part.as_ident().map(lower)?;
        let seen = self.planner.seen.lock();
        let (name, table) = seen.last()?.iter().find(|(known, _)| *known == name)?;
        Some(Named::Table { table: table.clone(), name: name.clone(), key: vec![] })
    }

    /// The relation that a name in FROM names, and whether it has no schema; `None` if it can name none.
    pub(super) fn relation_named(&self, name: &ast::ObjectName) -> Option<(RelationName, bool)> {
        let parts = parts_of(name)?;
        let relation = match parts.as_slice() {
            [name] => self.in_path(name),
            [schema, name] if schema == "pg_temp" => {
                RelationName::new(self.planner.catalogs().temporary_schema(), name)
            }
            [schema, name] => self.in_schema(schema, name),
            [catalog, schema, name] if catalog == CATALOG_NAME => self.in_schema(schema, name),
            _ => return None,
        };
        Some((relation, parts.len() == 1))
    }
}
