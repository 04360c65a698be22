//! What the binder asks about the session and the names around a statement.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use chrono::Utc;
use datafusion_common::ScalarValue;
use datafusion_expr::{AggregateUDF, ScalarUDF};
use diligence_base::{Error, Result};
use diligence_catalog::authority::{Language, Privilege, Subject};
use diligence_catalog::locks::RowLock;
use diligence_catalog::rights::DENIED;
use diligence_catalog::rules::KeyKind;
use diligence_catalog::system_catalogs::SYSTEM_CATALOGS;
use diligence_catalog::{
    CATALOG_NAME, DEFAULT_SCHEMA, DomainDefinition, INFORMATION_SCHEMA, LockWay, Object, POSTGRES_SCHEMA, Relation,
    RelationName, Resolved, declared_oid, looks_like_path, sequence_schema,
};
use diligence_engine::stages::Message;
use diligence_pool::Runtime;
use diligence_storage::Table;
use diligence_storage::external::{LakeMoment, OpenOptions};
use diligence_storage::foreign_error::from_arrow;
use diligence_storage::memory::{MemoryTable, ROW_NUMBERS};
use diligence_types::SqlType;
use diligence_types::collation::Collation;
use diligence_types::domain_type::DomainType;
use diligence_types::functions::has_function;
use diligence_types::sql_type::OidKind;
use sqlparser::ast;

use super::attach::Moments;
use super::file_functions;
use super::names::Names;
use super::several::WrittenParts;
use super::{Planner, Planning};
use crate::algebra::{Constant, Numbers, Scalar};
use crate::binder::{CHANGED, Context, LISTENING, Lockable, Named, bind_query};
use crate::external::OptionValue;
use crate::information;
use crate::kept_order::KeptOrder;
use crate::lowering::{self, LoweringOptions};
use crate::parse::lower;
pub(super) use crate::parse::parts_of;
use crate::procedural::Procedure;
use crate::programs::{CombinedCall, ProgramCall};
use crate::quoting::unquoted;
use crate::routines::Definition;
use crate::statement::Query;
use crate::write::triggers::ComputedLater;
use crate::written::WrittenRows;
use crate::{
    catalog_functions, facts, privileges, procedures, row_locks, sequences, session_functions, sleeping, type_names,
};

/// What is around one statement.
pub(super) struct Around<'a> {
    pub(super) planner: &'a Planner,
    pub(super) at: &'a Planning<'a>,
    pub(super) names: &'a Names,
    pub(super) numbers: Numbers,
    pub(super) zone: String,
    /// The times of the transaction's and of the statement's begin.
    now: i64,
    statement_time: i64,
    /// The parameter that has the first of them.
    now_parameter: Option<usize>,
    /// The types of the parameters' values.
    parameters: Vec<SqlType>,
    /// Their values, where they are known.
    values: Vec<ScalarValue>,
    /// Whether only the columns count.
    is_without_rows: bool,
    /// Whether a moment of the past was missing for that.
    pub(super) lacks_moment: Cell<bool>,
    /// Those that statements of the WITH have decided.
    decided: RefCell<Vec<Option<SqlType>>>,
    /// What statements of the WITH give.
    pub(super) written: RefCell<WrittenParts>,
    tables: RefCell<HashMap<RelationName, Arc<dyn Table>>>,
    /// The snapshots in which it reads servers.
    pub(super) moments: RefCell<Moments>,
    /// The views met.
    views: RefCell<HashSet<RelationName>>,
    /// The table that the statement changes, with the numbers of its rows.
    changed: RefCell<Option<Arc<dyn Table>>>,
    /// Whether the statement locks something that it keeps until its transaction ends.
    is_locking: Cell<bool>,
    /// Whether it calls procedures.
    is_calling: Cell<bool>,
    /// Whether it has asked for numbers of rows that were not given, and whether they are.
    misses_numbers: Cell<bool>,
    pub(super) gives_numbers: Cell<bool>,
    /// The schemas of the views whose queries are being bound, the innermost last.
    pub(super) around_views: RefCell<Vec<String>>,
    /// What is changed through a view, and under whose rights; `None` for the session's.
    pub(super) through: RefCell<Option<(RelationName, Option<String>)>>,
    /// What new rows have to fulfill for the views, by name, and whether those behind count as well.
    pub(super) view_checks: RefCell<Vec<(String, ast::Expr)>>,
    pub(super) cascades: Cell<bool>,
    /// Under whose rights names behind those views are looked up; `None` for the session's.
    behind: RefCell<Vec<Option<String>>>,
    /// The view whose triggers do what the statement says.
    pub(super) changed_view: RefCell<Option<Arc<Object>>>,
    /// The table that the statement changes, by its name.
    pub(super) changed_name: RefCell<Option<RelationName>>,
    /// What the statement reads of which it may not read all that it does.
    denied: RefCell<Option<String>>,
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
    fn index_number(&self, name: &RelationName) -> Option<i64> {
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
    fn named(&self, text: &str) -> Option<RelationName> {
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
    fn information(&self, name: &RelationName) -> Result<Option<Named>> {
        let rows = information::rows(&name.name, self.at.snapshot, &self.planner.current_user())?;
        rows.map(|rows| self.computed(name, rows)).transpose()
    }
}

/// The tables of what was left out of files: the records, and how the files were read.
const REJECTS: [&str; 2] = ["reject_errors", "reject_scans"];

/// The columns of a table's primary key; none without one.
fn primary_key(relation: &Relation) -> Vec<String> {
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
    fn seen_table(&self, name: &ast::ObjectName) -> Option<Named> {
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

/// The error for what has no past.
fn no_past(name: &RelationName) -> Error {
    let error =
        Error::unsupported(format!("\"{name}\" has no past: only tables of the database have")).with_code("0A000");
    error.with_hint("ask for the tables behind it")
}

impl Context for Around<'_> {
    fn misses_row_numbers(&self) -> bool {
        self.misses_numbers.set(true);
        !self.gives_numbers.get()
    }

    fn row_columns(&self, name: &ast::ObjectName) -> Result<Option<Vec<(String, SqlType)>>> {
        let Some((relation, _)) = self.relation_named(name) else { return Ok(None) };
        let found = self.at.snapshot.get(&relation).filter(|_| self.at.snapshot.sees(&relation));
        let Some(Resolved::Object(object)) = found else { return Ok(None) };
        if !matches!(object.relation, Relation::Native(_) | Relation::View(_) | Relation::Table(_)) {
            return Ok(None);
        }
        self.names.uses_object(&relation, &object);
        super::triggers::columns_of(&object).map(Some)
    }

    fn table(&self, name: &ast::ObjectName) -> Result<Option<Named>> {
        if let Some(changed) = self.changed_table(name) {
            return Ok(Some(changed));
        }
        if let Some(seen) = self.seen_table(name) {
            self.names.not_reusable();
            return Ok(Some(seen));
        }
        if let Some(attached) = self.attached_table(name)? {
            return Ok(Some(attached));
        }
        let Some((relation, bare)) = self.relation_named(name) else { return Ok(None) };
        let known = self.tables.borrow().get(&relation).cloned();
        if let Some(table) = known {
            // It may have been found behind a view, by the rights of its owner.
            if relation.schema != INFORMATION_SCHEMA {
                self.readable(&relation)?;
            }
            let native = match self.at.snapshot.get(&relation) {
                Some(Resolved::Object(object)) if matches!(object.relation, Relation::Native(_)) => Some(object),
                _ => None,
            };
            let is_numbered = table.schema().fields().last().is_some_and(|field| field.name() == ROW_NUMBERS);
            // Numbers of rows, and names of files, are given when the statement is bound once more.
            let is_numerable = native.is_some() || bare && looks_like_path(&relation.name);
            if is_numbered || !is_numerable || !self.gives_numbers.get() {
                let key = native.map_or_else(Vec::new, |object| primary_key(&object.relation));
                return Ok(Some(Named::Table { table, name: relation.name, key }));
            }
        }
        if relation.schema == INFORMATION_SCHEMA {
            return self.information(&relation);
        }
        // Tables of the catalog need no schema.
        let catalog = RelationName::new(POSTGRES_SCHEMA, &relation.name);
        let found = match self.readable(&relation)? {
            None if bare && relation.name.starts_with("pg_") => self.readable(&catalog)?,
            found => found,
        };
        match found {
            Some(Resolved::Object(object)) => self.object(&relation, &object).map(Some),
            Some(Resolved::Computed(computed)) => {
                let rows = computed.rows(self.at.snapshot)?;
                self.computed(&relation, rows).map(Some)
            }
            None if bare && REJECTS.contains(&relation.name.as_str()) && self.planner.rejects.is_used() => {
                let rejects = &self.planner.rejects;
                let rows = if relation.name == REJECTS[0] { rejects.errors()? } else { rejects.scans()? };
                self.computed(&relation, rows).map(Some)
            }
            None => {
                let text = name.0.last().and_then(|part| part.as_ident()).map(|ident| ident.value.clone());
                let path = text.filter(|text| bare && self.planner.names_files() && looks_like_path(text));
                let Some(path) = path else {
                    self.names.uses_nothing(&relation);
                    return Ok(None);
                };
                if let Some(table) = self.with_file_names(&path, OpenOptions::default()) {
                    self.names.not_reusable();
                    return Ok(Some(Named::Table { table, name: path, key: vec![] }));
                }
                let relation = RelationName::new(DEFAULT_SCHEMA, &path);
                if let Some(table) = self.tables.borrow().get(&relation) {
                    return Ok(Some(Named::Table { table: table.clone(), name: path, key: vec![] }));
                }
                let files = self.planner.catalogs().catalog().path(&path, &self.at.options.files);
                let table: Arc<dyn Table> = files.table()?;
                self.names.uses_path(&relation, &table);
                self.tables.borrow_mut().insert(relation, table.clone());
                Ok(Some(Named::Table { table, name: path, key: vec![] }))
            }
        }
    }

    fn withheld(&self, name: &ast::ObjectName) -> (String, Vec<String>) {
        let nothing = (String::new(), vec![]);
        if self.at.snapshot.rights.are_all() && self.behind().is_none() {
            return nothing;
        }
        let is_changed = matches!(name.0.as_slice(), [part] if part.as_ident().is_some_and(|id| id.value == CHANGED));
        let changed = self.changed_name.borrow().clone().filter(|_| is_changed);
        let (relation, rights) = match (changed, self.relation_named(name)) {
            (Some(changed), _) => (changed.clone(), self.rights_for(&changed)),
            (None, Some((relation, _))) => (relation, self.at.snapshot.rights_behind(self.behind().as_deref())),
            (None, None) => return nothing,
        };
        let Some(Resolved::Object(object)) = self.at.snapshot.get(&relation) else { return nothing };
        if rights.may_read(&relation) || self.is_through(&relation) {
            return nothing;
        }
        let Ok(schema) = object.relation.schema() else { return nothing };
        let names = schema.fields().iter().map(|field| field.name().clone());
        let names = names.filter(|column| !rights.may_column(&relation, column, Privilege::Select));
        (format!("{} {}", object.relation.kind(), relation.name), names.collect())
    }

    fn denies(&self, relation: &str) {
        self.denied.borrow_mut().get_or_insert_with(|| relation.to_owned());
    }

    fn table_at(&self, name: &ast::ObjectName, moment: i64) -> Result<Option<Named>> {
        let Some((relation, _)) = self.relation_named(name) else { return Ok(None) };
        // What is asked for is another state each time.
        self.names.not_reusable();
        let now = match self.readable(&relation)? {
            Some(Resolved::Object(object)) => Some(object),
            Some(Resolved::Computed(_)) => return Err(no_past(&relation)),
            None => None,
        };
        if let Some(Relation::Files(files)) = now.as_ref().map(|now| &now.relation) {
            return self.files_at(files, LakeMoment::Time(moment), relation.name).map(Some);
        }
        let past = self.planner.catalogs().catalog().at_moment(moment)?;
        // One that was dropped since: what it was granted then is not known now.
        let dropped = |then: &&Arc<Object>| {
            let is_gone = !self.at.snapshot.catalog.all_objects().any(|now| now.id == then.id);
            let owner = past.authority().owner_of(Subject::Object(then.id));
            is_gone && (self.at.snapshot.rights.are_all() || owner == self.planner.current_user())
        };
        let then = match &now {
            Some(now) => {
                let same = past.all_objects().find(|then| then.id == now.id);
                same.or_else(|| past.get(&relation).filter(dropped))
            }
            None => past.get(&relation).filter(|_| self.at.snapshot.rights.may_read(&relation)),
        };
        match then.map(|then| &then.relation) {
            Some(then @ Relation::Native(rows)) => {
                Ok(Some(Named::Table { table: rows.table(), name: relation.name, key: primary_key(then) }))
            }
            Some(_) => Err(no_past(&relation)),
            None if now.is_some_and(|now| !matches!(now.relation, Relation::Native(_))) => Err(no_past(&relation)),
            None => {
                let error = Error::input(format!("there was no table \"{relation}\" at that time"));
                Err(error.with_code("42P01"))
            }
        }
    }

    fn value_now(&self, time: &Scalar) -> Result<Option<i64>> {
        let options = LoweringOptions {
            zone: self.zone.clone(),
            options: self.at.session.options.clone(),
            keeps_parameters: false,
        };
        let bad = || {
            let error = Error::unsupported("the time of a table of the past is one for all rows").with_code("0A000");
            error.with_hint("write a literal, or what is computed from now()")
        };
        let valued = match self.values.as_slice() {
            [] => None,
            values => Some(crate::front::scalar_with_values(time, values)?),
        };
        let value = match lowering::value_of(valued.as_ref().unwrap_or(time), &options) {
            // Its columns are those of now.
            Err(error) if self.is_without_rows && error.code() == Some("08P01") => {
                self.lacks_moment.set(true);
                return Ok(Some(self.statement_time));
            }
            Err(error) if error.kind() == diligence_base::ErrorKind::Bug => return Err(bad()),
            value => value?,
        };
        match value {
            Constant { value: ScalarValue::TimestampMicrosecond(moment, _), .. } => Ok(moment),
            _ => Err(bad()),
        }
    }

    fn enter_view(&self, schema: &str, name: &str) {
        self.around_views.borrow_mut().push(schema.to_owned());
        let view = self.at.snapshot.catalog.get(&RelationName::new(schema, name));
        let owner = view.and_then(|view| self.owner_behind(view));
        self.names.look_behind(owner.as_deref());
        self.behind.borrow_mut().push(owner);
    }

    fn leave_view(&self) {
        self.around_views.borrow_mut().pop();
        self.behind.borrow_mut().pop();
        self.names.look_behind(self.behind().as_deref());
    }

    fn is_file_function(&self, name: &str) -> bool {
        file_functions::is_one(name)
    }

    fn file_function(&self, name: &str, arguments: &[(Option<String>, OptionValue)]) -> Result<Option<Named>> {
        self.files_of(name, arguments).map(Some)
    }

    fn zone(&self) -> &str {
        &self.zone
    }

    fn uses_index(&self) -> bool {
        self.at.session.uses_index
    }

    fn kept_order(&self) -> KeptOrder {
        self.at.session.kept_order
    }

    fn search_configuration(&self) -> &'static str {
        self.at.session.search_configuration.name()
    }

    fn now(&self) -> i64 {
        self.now
    }

    fn statement_time(&self) -> i64 {
        self.statement_time
    }

    fn now_parameter(&self) -> Option<usize> {
        self.now_parameter
    }

    fn fact(&self, name: &str) -> Option<Constant> {
        let facts = &self.at.facts;
        let name_of =
            |value: &str| Constant { value: ScalarValue::Utf8View(Some(value.to_owned())), sql_type: SqlType::Name };
        Some(match name {
            "session_user" => name_of(&self.planner.session_user()),
            "current_user" | "user" | "current_role" | "getpgusername" => name_of(&self.planner.current_user()),
            "current_catalog" | "current_database" => name_of(CATALOG_NAME),
            "current_schema" => match self.current_schema() {
                Some(schema) => name_of(&schema),
                None => Constant::null(SqlType::Name),
            },
            "version" => Constant::text(facts::version()),
            "pg_backend_pid" => Constant::integer(facts.process_id),
            "inet_client_addr" | "inet_server_addr" => Constant::null(SqlType::Text),
            _ => return None,
        })
    }

    fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    fn template(&self, name: &str, arguments: usize) -> Option<Arc<ast::Expr>> {
        if name == "current_schemas" {
            self.names.not_reusable();
            return self.current_schemas().ok().map(Arc::new);
        }
        if has_function(name) {
            return None;
        }
        catalog_functions::template(name, arguments, || self.visible()).map(Arc::new)
    }

    fn question(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        let counting = || sequences::function(name, self.planner.catalogs(), &self.schemas());
        if name == "set_config" {
            return self.planner.settings_sink.get().map(session_functions::set_config);
        }
        if matches!(name, session_functions::CANCEL | session_functions::TERMINATE) {
            let is_end = name == session_functions::TERMINATE;
            return self.planner.settings_sink.get().map(|sink| session_functions::stop_session(sink, is_end));
        }
        if name == session_functions::DEPTH {
            return self.planner.settings_sink.get().map(session_functions::trigger_depth);
        }
        if name == LISTENING {
            return self.planner.settings_sink.get().map(session_functions::listening_channels);
        }
        if name == "pg_notify" {
            return self.planner.settings_sink.get().map(session_functions::pg_notify);
        }
        let locking = || {
            let function = row_locks::advisory_function(name, self.planner.catalogs())?;
            self.is_locking.set(true);
            Some(function)
        };
        let waiting = || sleeping::function(name).inspect(|_| self.names.not_reusable());
        let asking = privileges::function(name, self.at.snapshot, &self.planner.current_user(), self.schemas());
        let naming = || type_names::function(name, self.at.snapshot);
        asking.or_else(naming).or_else(counting).or_else(locking).or_else(waiting)
    }

    fn routines(&self, name: &ast::ObjectName) -> Result<Vec<Definition>> {
        self.found_routines(name)
    }

    fn program(&self, call: &ProgramCall<'_>) -> Result<Arc<ScalarUDF>> {
        Ok(call.function(&self.planner.options.pool))
    }

    fn combined_program(&self, call: &CombinedCall<'_>) -> Result<Arc<AggregateUDF>> {
        Ok(call.function(&self.planner.options.pool))
    }

    fn procedure(&self, procedure: Procedure, is_strict: bool) -> Result<Arc<ScalarUDF>> {
        self.is_calling.set(true);
        let runner = self.planner.query_runner.get().cloned();
        let runner = runner.ok_or_else(|| Error::unsupported("there is no session to run procedures in"))?;
        Ok(procedures::function(Arc::new(procedure), is_strict, runner))
    }

    fn check_program(&self, call: &ProgramCall<'_>) -> Result<()> {
        self.may_program_in(match call.program.form.runtime() {
            Runtime::Python => Language::Python,
            Runtime::Wasm => Language::Wasm,
        })?;
        call.check(&self.planner.options.pool)
    }

    fn lockable(&self, name: &ast::ObjectName, mode: RowLock, way: LockWay) -> Result<Lockable> {
        let name = self.granted(name, Privilege::Update)?;
        let found = self.at.snapshot.readable(&name)?.ok_or_else(|| self.unknown(&name))?;
        let refused = || {
            let error = Error::unsupported(format!("cannot lock rows in '{name}': it is {}", found.a_kind()));
            error.with_code("42809").with_hint("FOR UPDATE OF names the tables that are meant")
        };
        let Resolved::Object(object) = &found else { return Err(refused()) };
        let Relation::Native(memory) = &object.relation else { return Err(refused()) };
        if object.relation.materialized().is_some() {
            return Err(refused());
        }
        self.is_locking.set(true);
        let function = row_locks::row_function(object.reference(), mode, way, self.planner.catalogs());
        Ok(Lockable { table: memory.numbered(), function })
    }

    fn made_type(&self, name: &ast::ObjectName) -> Result<Option<SqlType>> {
        Around::made_type(self, name)
    }

    fn collation(&self, name: &ast::ObjectName) -> Result<Collation> {
        Around::collation(self, name)
    }

    fn domain(&self, domain: &DomainType) -> Result<Arc<DomainDefinition>> {
        let object = self.at.snapshot.catalog.domain_of(domain.oid);
        let found = object.and_then(|object| Some((object, object.domain()?.1.clone())));
        let missing = || Error::input(format!("type {domain} does not exist")).with_code("42704");
        let (object, definition) = found.ok_or_else(missing)?;
        self.names.uses_object(&object.name, object);
        Ok(definition)
    }

    fn variable(&self, name: &str) -> Option<Constant> {
        self.planner.variables.lock().get(name).cloned()
    }

    fn variables(&self) -> Vec<(String, Constant)> {
        self.planner.variables.lock().iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    fn setting(&self, name: &str) -> Option<String> {
        // An application's own setting has a value only if somebody has given it one.
        let others = || self.planner.settings_sink.get().filter(|_| !name.contains('.'))?.upgrade()?.setting(name);
        self.at.facts.settings.get(name).cloned().or_else(others)
    }

    fn settings(&self) -> Vec<(String, String)> {
        self.at.facts.settings.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    fn object(&self, kind: OidKind, name: &str) -> Option<i64> {
        match kind {
            OidKind::Class => {
                let is_bare = !name.contains('.');
                let name = self.named(name)?;
                // What describes the catalog needs no schema, whatever the path is.
                let described = || self.at.snapshot.get(&RelationName::new(DEFAULT_SCHEMA, &name.name));
                let found = self.at.snapshot.get(&name).or_else(|| described().filter(|_| is_bare));
                let Some(found) = found else { return self.index_number(&name) };
                match found {
                    Resolved::Object(object) => Some(i64::from(object.oid())),
                    Resolved::Computed(_) => {
                        let known = SYSTEM_CATALOGS.iter().find(|(known, _)| *known == name.name);
                        let known = known.map(|(_, oid)| i64::from(*oid));
                        let mut system = self.at.snapshot.system_tables();
                        let shown = || system.find(|(table, ..)| *table == name.name).map(|(_, oid, _)| i64::from(oid));
                        known.or_else(shown)
                    }
                }
            }
            OidKind::Type => {
                let known = SqlType::parse(&unquoted(name.strip_prefix("pg_catalog.").unwrap_or(name)));
                let made = || {
                    let (element, is_array) = name.strip_suffix("[]").map_or((name, false), |element| (element, true));
                    let name = RelationName::parse(element)?;
                    let bare = |part: &str| ast::Ident::with_quote('"', part);
                    let parts = match element.contains('.') {
                        true => vec![bare(&name.schema), bare(&name.name)],
                        false => vec![bare(&name.name)],
                    };
                    let found = Around::made_type(self, &ast::ObjectName::from(parts)).ok().flatten()?;
                    Some(if is_array { SqlType::array_of(found) } else { found })
                };
                known.or_else(made).map(|sql_type| match &sql_type {
                    SqlType::Domain(domain) => i64::from(domain.oid),
                    other => i64::from(other.oid()),
                })
            }
            OidKind::Namespace => self.at.snapshot.schema_oid(&unquoted(name)).map(i64::from),
            OidKind::Role => {
                // Names without quotes are in lower case.
                let bare = name.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
                let name = bare.map_or_else(|| name.to_lowercase(), |bare| bare.replace("\"\"", "\""));
                self.at.snapshot.role_oid(&name).map(i64::from)
            }
            _ => None,
        }
    }

    fn routine_number(&self, name: &str, kind: OidKind) -> Result<Option<i64>> {
        self.number_of_routine(name, kind == OidKind::Signature)
    }

    fn instead_of(&self, name: &str) -> Option<(String, String)> {
        if let Some((_, why)) = self.at.snapshot.catalog.left_out().find(|(left_out, _)| *left_out == name) {
            let hint = format!("name files of one format by a pattern: '…/{name}/*.parquet'");
            return Some((format!("the folder '{name}' is no table: {why}"), hint));
        }
        if !self.planner.names_files() {
            return None;
        }
        if looks_like_path(name) {
            return Some((format!("no table is named '{name}'"), format!("a file's name stands in quotes: '{name}'")));
        }
        let path = Path::new(name);
        if self.at.options.files.is_folder(path) {
            let hint = format!("to read the files of a folder, write its name with a slash: '{name}/'");
            return Some((format!("no table is named '{name}'; there is a folder of this name"), hint));
        }
        self.at.options.files.meta(path).ok()?;
        let is_spreadsheet = [".xlsx", ".xls", ".ods"].iter().any(|end| name.to_ascii_lowercase().ends_with(end));
        let hint = match is_spreadsheet {
            true => "spreadsheets are not read: save it as CSV".to_owned(),
            false => format!(
                "if it holds a table, say how: read_csv('{name}'), read_json('{name}') or read_parquet('{name}')"
            ),
        };
        Some((format!("no table is named '{name}'; there is a file of this name, which does not show a format"), hint))
    }

    fn relations(&self) -> Vec<String> {
        self.at.snapshot.names().iter().map(RelationName::to_string).collect()
    }

    fn texts_of(&self, query: &ast::Query) -> Result<Vec<Vec<Option<String>>>> {
        let runner = self.planner.query_runner.get().and_then(std::sync::Weak::upgrade);
        let runner = runner.ok_or_else(|| Error::bug("nothing runs queries while others are planned"))?;
        self.names.not_reusable();
        let around = Around::new(self.planner, self.at, self.names, vec![]);
        let bound = bind_query(query, &around)?;
        let planned = around.front(bound, &[], false)?;
        let mut rows = Vec::new();
        for batch in runner.rows(&Query::new(planned.plan, planned.tables))? {
            let columns = batch.columns().iter().map(|column| column.as_string_view_opt());
            let columns = columns.collect::<Option<Vec<_>>>().ok_or_else(|| Error::bug("values are no texts"))?;
            for row in 0..batch.num_rows() {
                let text = |column: &&arrow::array::StringViewArray| {
                    column.is_valid(row).then(|| column.value(row).to_owned())
                };
                rows.push(columns.iter().map(text).collect());
            }
        }
        Ok(rows)
    }

    fn parameter(&self, index: usize) -> Option<SqlType> {
        let given = self.parameters.get(index).filter(|sql_type| **sql_type != SqlType::Unknown).cloned();
        given.or_else(|| self.decided.borrow().get(index).cloned().flatten())
    }

    fn decides(&self, parameters: &[Option<SqlType>]) {
        let mut decided = self.decided.borrow_mut();
        let count = decided.len().max(parameters.len());
        decided.resize(count, None);
        for (decided, sql_type) in decided.iter_mut().zip(parameters) {
            *decided = decided.take().or_else(|| sql_type.clone());
        }
    }

    fn written(&self, cte: &ast::Cte) -> Option<Arc<WrittenRows>> {
        self.written.borrow().of(cte)
    }
}
