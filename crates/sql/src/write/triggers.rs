//! Triggers of a table that run while a statement changes its rows.
//!
//! ```text
//!   BEFORE … STATEMENT ─▶ BEFORE … ROW, for each row ─▶ the rows change ─▶ AFTER … ROW ─▶ AFTER … STATEMENT
//! ```
//! A function before the change may give another row, or none, which leaves the row alone. All of it is part of the
//! statement's transaction, in which the functions' own statements run.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, OnceLock, Weak};

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, StringViewArray, StructArray};
use arrow::compute::{cast, concat, filter_record_batch, interleave_record_batch};
use arrow::datatypes::DataType;
use diligence_base::ids::ObjectId;
use diligence_base::{Error, Result};
use diligence_catalog::rules::Deferral;
use diligence_catalog::{Catalog, ObjectRef, SessionCatalogs, Trigger, TriggerEvent};
use diligence_storage::Table;
use diligence_storage::foreign_error::from_arrow;
use diligence_types::SqlType;
use parking_lot::Mutex;

use crate::binder::Bound;
use crate::procedural::Procedure;
use crate::query::Query;
use crate::written::WrittenRows;

/// Runs the functions of triggers.
pub trait TriggerRunner: Send + Sync + Debug {
    /// What a trigger's function gives for these arguments, each an array of one value, for whoever has sent the
    /// statement that runs. Statements of its body see these tables. Fails as such a statement does.
    fn fire(
        &self,
        procedure: &Arc<Procedure>,
        arguments: Vec<ArrayRef>,
        tables: Vec<(String, RecordBatch)>,
    ) -> Result<Vec<ArrayRef>>;

    /// Has a trigger run when the transaction ends, or SET CONSTRAINTS says so.
    fn defer(&self, trigger: DeferredTrigger);

    /// The rows of a query that is a part of the statement that runs, in their order. Fails as the query does.
    fn returned(&self, query: &Query) -> Result<Vec<RecordBatch>>;
}

/// What a statement does with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Operation {
    /// It comes.
    Insert,
    /// It changes.
    Update,
    /// It goes.
    Delete,
    /// All go.
    Truncate,
}

/// The rows of a statement, before it and after it, as far as it has such.
#[derive(Clone, Copy, Default)]
pub(crate) struct Transition<'a> {
    pub(crate) old: Option<&'a RecordBatch>,
    pub(crate) new: Option<&'a RecordBatch>,
}

impl Operation {
    /// Whether a trigger is for it, by statements that set any column.
    pub(crate) fn is_meant_by(self, trigger: &Trigger) -> bool {
        self.is_meant_with(trigger, None)
    }

    /// Whether a trigger is for it, by statements that set these columns; all, if `None`.
    pub(crate) fn is_meant_with(self, trigger: &Trigger, assigned: Option<&[String]>) -> bool {
        trigger.events.iter().any(|event| match (event, self) {
            (TriggerEvent::Insert, Self::Insert)
            | (TriggerEvent::Delete, Self::Delete)
            | (TriggerEvent::Truncate, Self::Truncate) => true,
            (TriggerEvent::Update(columns), Self::Update) => {
                let is_set = |column: &String| assigned.is_none_or(|assigned| assigned.contains(column));
                columns.is_empty() || columns.iter().any(is_set)
            }
            _ => false,
        })
    }

    /// What a function is told of it.
    fn word(self) -> &'static str {
        match self {
            Self::Insert => "INSERT",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Truncate => "TRUNCATE",
        }
    }
}

/// A trigger with what it runs.
#[derive(Debug)]
pub(crate) struct Fired {
    pub(crate) name: String,
    pub(crate) is_before: bool,
    pub(crate) is_instead: bool,
    pub(crate) is_row: bool,
    /// For what it runs in this statement.
    pub(crate) operations: Vec<Operation>,
    /// For each of them, what runs.
    pub(crate) procedure: Arc<Procedure>,
    pub(crate) arguments: Vec<String>,
    /// What it calls the statement's rows before it, and after it.
    pub(crate) tables: (Option<String>, Option<String>),
    /// If it may run at the end of the transaction: when it does, and what says for which rows.
    pub(crate) deferral: Deferral,
    pub(crate) condition: Option<Arc<Procedure>>,
}

/// A trigger that runs at the end of a transaction, for a row.
#[derive(Debug)]
pub struct DeferredTrigger {
    triggers: Arc<Triggers>,
    /// Its place among those.
    place: usize,
    operation: Operation,
    new: Option<RecordBatch>,
    old: Option<RecordBatch>,
}

impl DeferredTrigger {
    /// Whether it is still to wait.
    pub fn is_deferred(&self) -> bool {
        let fired = &self.triggers.fired[self.place];
        self.triggers.catalogs.is_deferred(&fired.name, fired.deferral)
    }

    /// The table of the row.
    pub fn table(&self) -> &ObjectRef {
        &self.triggers.table
    }

    /// Runs it. Fails as its function does.
    pub fn run(&self) -> Result<()> {
        let fired = &self.triggers.fired[self.place];
        let (new, old) = (self.new.as_ref(), self.old.as_ref());
        self.triggers.run(fired, self.operation, new, old, Transition::default()).map(drop)
    }
}

/// A query of rows that triggers may have given other values: RETURNING, and what becomes of rows that an INSERT
/// proposes.
#[derive(Debug)]
pub(crate) struct ComputedLater {
    from: Arc<WrittenRows>,
    bound: Mutex<Option<Bound>>,
    query: OnceLock<Query>,
}

impl ComputedLater {
    /// A query of rows that are there when the statement has changed them.
    pub(crate) fn new(rows: Bound, from: Arc<WrittenRows>) -> Self {
        Self { from, bound: Mutex::new(Some(rows)), query: OnceLock::new() }
    }

    /// The query before it is planned; once.
    pub(crate) fn take_bound(&self) -> Option<Bound> {
        self.bound.lock().take()
    }

    /// How it runs.
    pub(crate) fn is_planned(&self, query: Query) {
        let _ = self.query.set(query);
    }

    /// What it gives of rows: each has the columns of the table, and others in the same order as those of `beside`.
    fn of(&self, rows: &[RecordBatch], beside: &[RecordBatch], runner: &dyn TriggerRunner) -> Result<Vec<RecordBatch>> {
        let schema = self.from.schema();
        let read = rows.iter().enumerate().map(|(place, rows)| {
            let beside = beside.get(place).into_iter().flat_map(RecordBatch::columns);
            let columns = rows.columns().iter().chain(beside).zip(schema.fields());
            let columns = columns.map(|(column, field)| cast(column, field.data_type()));
            let columns = columns.collect::<Result<Vec<_>, _>>().map_err(from_arrow)?;
            let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
            RecordBatch::try_new_with_options(schema.clone(), columns, &options).map_err(from_arrow)
        });
        self.from.become_others(read.collect::<Result<_>>()?)?;
        let query = self.query.get().ok_or_else(|| Error::bug("what comes later was not planned"))?;
        runner.returned(query)
    }
}

/// Triggers that run while rows follow those which they refer to: by the table that refers and the name of its
/// reference.
pub(crate) type Followers = HashMap<(ObjectId, String), Arc<Triggers>>;

/// The triggers of a table that a statement runs.
#[derive(Debug)]
pub(crate) struct Triggers {
    pub(crate) table: ObjectRef,
    pub(crate) columns: Vec<(String, SqlType)>,
    /// In the order of their names.
    pub(crate) fired: Vec<Fired>,
    /// What the statement does, whether any row is concerned or not.
    pub(crate) operations: Vec<Operation>,
    /// RETURNING, where rows may be others than those that the plan could compute it of.
    pub(crate) returned: Option<Arc<ComputedLater>>,
    /// Those of tables whose rows follow the table's.
    pub(crate) followers: Followers,
    pub(crate) catalogs: SessionCatalogs,
    pub(crate) runner: Weak<dyn TriggerRunner>,
}

impl Triggers {
    /// Where the statement's changes are made, and those of its functions.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        self.catalogs.catalog()
    }

    /// Whether rows may be others than the statement says.
    pub(crate) fn change_rows(&self) -> bool {
        self.fired.iter().any(|fired| fired.is_before && fired.is_row)
    }

    fn of(&self, operation: Operation, is_before: bool, is_row: bool) -> impl Iterator<Item = &Fired> {
        let fits = move |fired: &&Fired| {
            fired.is_before == is_before
                && fired.is_row == is_row
                && !fired.is_instead
                && fired.operations.contains(&operation)
        };
        self.fired.iter().filter(fits)
    }

    /// Runs those before the whole statement.
    pub(crate) fn before_statement(&self) -> Result<()> {
        self.operations.iter().try_for_each(|operation| self.before_statement_of(*operation))
    }

    /// Runs those before a whole statement that does this.
    pub(crate) fn before_statement_of(&self, operation: Operation) -> Result<()> {
        let mut all = self.of(operation, true, false);
        all.try_for_each(|fired| self.run(fired, operation, None, None, Transition::default()).map(|_| ()))
    }

    /// Runs those behind a whole statement that has done this.
    pub(crate) fn after_statement(&self, operation: Operation, rows: Transition<'_>) -> Result<()> {
        let mut all = self.of(operation, false, false);
        all.try_for_each(|fired| self.run(fired, operation, None, None, rows).map(|_| ()))
    }

    /// What RETURNING gives of rows, and of what the plan has beside them.
    pub(crate) fn given(&self, rows: &[RecordBatch], beside: Vec<RecordBatch>) -> Result<Vec<RecordBatch>> {
        let Some(returned) = &self.returned else { return Ok(beside) };
        let runner = self.runner.upgrade().ok_or_else(Error::cancelled)?;
        returned.of(rows, &beside, &*runner)
    }

    /// What becomes of proposed rows, beside which stand those that have their keys, and the numbers of these.
    pub(crate) fn judged(
        &self,
        judged: &ComputedLater,
        rows: &RecordBatch,
        beside: RecordBatch,
    ) -> Result<Vec<RecordBatch>> {
        let runner = self.runner.upgrade().ok_or_else(Error::cancelled)?;
        judged.of(std::slice::from_ref(rows), &[beside], &*runner)
    }

    /// Whether any runs before such a change of a row.
    pub(crate) fn is_before_rows(&self, operation: Operation) -> bool {
        self.of(operation, true, true).next().is_some()
    }

    /// Runs those before rows: the rows as they are to be, and which of them nothing is done with (false). `rows` are
    /// what comes or, of DELETE, what goes; `old` are what changes.
    pub(crate) fn before(
        &self,
        operation: Operation,
        old: Option<&RecordBatch>,
        rows: RecordBatch,
    ) -> Result<(RecordBatch, BooleanArray)> {
        let fired = self.of(operation, true, true).collect::<Vec<_>>();
        let all = || BooleanArray::from(vec![true; rows.num_rows()]);
        if fired.is_empty() && !self.change_rows() {
            return Ok((rows.clone(), all()));
        }
        let (rows, kept) = match fired.is_empty() {
            // Others of the statement change theirs, so that none were looked at when they came.
            true => (rows.clone(), all()),
            false => self.passed_through(&fired, operation, old, rows)?,
        };
        if operation == Operation::Delete || rows.num_rows() == 0 {
            return Ok((rows, kept));
        }
        // What follows from the values, and what they have to fulfill.
        let names = self.columns.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        let settled = self.catalog().settled(&self.table, rows, &names)?;
        Ok((settled, kept))
    }

    /// Runs those in the place of changes of a view's rows: the rows as they give them, and for which they have done
    /// nothing (false). `old` are what is there, `new` what is to be.
    pub(crate) fn instead(
        &self,
        operation: Operation,
        old: Option<&RecordBatch>,
        new: Option<RecordBatch>,
    ) -> Result<(RecordBatch, BooleanArray)> {
        let fired = self.fired.iter().filter(|fired| fired.is_instead && fired.operations.contains(&operation));
        let fired = fired.collect::<Vec<_>>();
        match new {
            Some(new) => self.passed_through(&fired, operation, old, new),
            None => {
                let old = old.cloned().ok_or_else(|| Error::bug("rows that go are not there"))?;
                self.passed_through(&fired, operation, None, old)
            }
        }
    }

    /// Rows as functions give them, one after the other, and which of them nothing is done with (false).
    fn passed_through(
        &self,
        fired: &[&Fired],
        operation: Operation,
        old: Option<&RecordBatch>,
        rows: RecordBatch,
    ) -> Result<(RecordBatch, BooleanArray)> {
        if rows.num_rows() == 0 {
            return Ok((rows, BooleanArray::from(Vec::<bool>::new())));
        }
        let mut made = Vec::with_capacity(rows.num_rows());
        let mut kept = Vec::with_capacity(rows.num_rows());
        for row in 0..rows.num_rows() {
            let mut now = rows.slice(row, 1);
            let mut is_kept = true;
            for fired in fired {
                let before = old.map(|old| old.slice(row, 1));
                let given = match operation {
                    Operation::Delete => self.run(fired, operation, None, Some(&now), Transition::default())?,
                    _ => self.run(fired, operation, Some(&now), before.as_ref(), Transition::default())?,
                };
                match given {
                    // Of a row that goes only whether there is one counts.
                    Some(_) if operation == Operation::Delete => {}
                    Some(columns) => now = self.row_of(columns, &rows)?,
                    None => {
                        is_kept = false;
                        break;
                    }
                }
            }
            made.push(now);
            kept.push(is_kept);
        }
        let places = (0..made.len()).map(|batch| (batch, 0)).collect::<Vec<_>>();
        let made = made.iter().collect::<Vec<_>>();
        let rows = interleave_record_batch(&made, &places).map_err(from_arrow)?;
        let kept = BooleanArray::from(kept);
        Ok((filter_record_batch(&rows, &kept).map_err(from_arrow)?, kept))
    }

    /// Runs those behind one of the rows that something was done with.
    pub(crate) fn after(self: &Arc<Self>, operation: Operation, all: Transition<'_>, row: usize) -> Result<()> {
        for (place, fired) in self.fired.iter().enumerate() {
            let fits = !fired.is_before && !fired.is_instead && fired.is_row;
            if !fits || !fired.operations.contains(&operation) {
                continue;
            }
            let one = |rows: Option<&RecordBatch>| rows.map(|rows| rows.slice(row, 1));
            let (new, old) = (one(all.new), one(all.old));
            if let Some(condition) = &fired.condition
                && self.run_as(fired, condition, operation, (new.as_ref(), old.as_ref()), all)?.is_none()
            {
                continue;
            }
            match self.catalogs.is_deferred(&fired.name, fired.deferral) {
                true => {
                    let runner = self.runner.upgrade().ok_or_else(Error::cancelled)?;
                    runner.defer(DeferredTrigger { triggers: self.clone(), place, operation, new, old });
                }
                false => drop(self.run(fired, operation, new.as_ref(), old.as_ref(), all)?),
            }
        }
        Ok(())
    }

    /// A row that a function has given, in the columns of the others.
    fn row_of(&self, columns: Vec<ArrayRef>, like: &RecordBatch) -> Result<RecordBatch> {
        let schema = like.schema();
        let fields = schema.fields().iter().zip(&columns).map(|(field, column)| {
            cast(column, field.data_type()).map(|column| (field.as_ref().clone().with_nullable(true), column))
        });
        let both = fields.collect::<Result<Vec<_>, _>>().map_err(from_arrow)?;
        let (fields, columns): (Vec<_>, Vec<_>) = both.into_iter().unzip();
        let schema = Arc::new(arrow::datatypes::Schema::new(fields));
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        RecordBatch::try_new_with_options(schema, columns, &options).map_err(from_arrow)
    }

    /// Rows as a table that statements see.
    fn table(&self, rows: Option<&RecordBatch>) -> Result<RecordBatch> {
        let fields = self.columns.iter().map(|(name, sql_type)| sql_type.field(name, true)).collect::<Vec<_>>();
        let schema = Arc::new(arrow::datatypes::Schema::new(fields));
        let Some(rows) = rows else { return Ok(RecordBatch::new_empty(schema)) };
        let columns = rows.columns().iter().zip(schema.fields()).map(|(column, field)| cast(column, field.data_type()));
        let columns = columns.collect::<Result<Vec<_>, _>>().map_err(from_arrow)?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        RecordBatch::try_new_with_options(schema, columns, &options).map_err(from_arrow)
    }

    /// A row as a value; NULL without one.
    fn record(&self, row: Option<&RecordBatch>) -> Result<ArrayRef> {
        let record = crate::procedural::record_of(&self.columns).arrow();
        let DataType::Struct(fields) = &record else { return Err(Error::bug("a row is no struct")) };
        let Some(row) = row else { return Ok(arrow::array::new_null_array(&record, 1)) };
        let columns = row.columns().iter().zip(fields).map(|(column, field)| cast(column, field.data_type()));
        let columns = columns.collect::<Result<Vec<_>, _>>().map_err(from_arrow)?;
        Ok(Arc::new(StructArray::try_new(fields.clone(), columns, None).map_err(from_arrow)?))
    }

    /// The columns of the row that a function gives; `None` if it gives none.
    fn run(
        &self,
        fired: &Fired,
        operation: Operation,
        new: Option<&RecordBatch>,
        old: Option<&RecordBatch>,
        all: Transition<'_>,
    ) -> Result<Option<Vec<ArrayRef>>> {
        self.run_as(fired, &fired.procedure, operation, (new, old), all)
    }

    /// The same of another body that the trigger has.
    fn run_as(
        &self,
        fired: &Fired,
        procedure: &Arc<Procedure>,
        operation: Operation,
        (new, old): (Option<&RecordBatch>, Option<&RecordBatch>),
        all: Transition<'_>,
    ) -> Result<Option<Vec<ArrayRef>>> {
        let text = |text: &str| Arc::new(StringViewArray::from_iter_values([text])) as ArrayRef;
        let name = &self.table.name;
        let timing = match (fired.is_instead, fired.is_before) {
            (true, _) => "INSTEAD OF",
            (_, true) => "BEFORE",
            (_, false) => "AFTER",
        };
        let level = if fired.is_row { "ROW" } else { "STATEMENT" };
        let oid = i64::from(diligence_catalog::oid_of(self.table.id));
        let mut texts = fired.arguments.iter().map(|argument| text(argument)).collect::<Vec<_>>();
        let count = texts.len() as i32;
        if texts.is_empty() {
            texts.push(Arc::new(StringViewArray::from_iter_values(Vec::<&str>::new())));
        }
        let texts = concat(&texts.iter().map(AsRef::as_ref).collect::<Vec<_>>()).map_err(from_arrow)?;
        let lengths = arrow::buffer::OffsetBuffer::from_lengths([count as usize]);
        let item = Arc::new(arrow::datatypes::Field::new("item", DataType::Utf8View, true));
        let list = arrow::array::ListArray::try_new(item, lengths, texts, None).map_err(from_arrow)?;
        let arguments: Vec<ArrayRef> = vec![
            self.record(new)?,
            self.record(old)?,
            text(&fired.name),
            text(timing),
            text(level),
            text(operation.word()),
            Arc::new(arrow::array::Int64Array::from(vec![oid])),
            text(&name.name),
            text(&name.name),
            text(&name.schema),
            Arc::new(arrow::array::Int32Array::from(vec![count])),
            Arc::new(list),
        ];
        let runner = self.runner.upgrade().ok_or_else(Error::cancelled)?;
        let tables = [(&fired.tables.0, all.old), (&fired.tables.1, all.new)];
        let tables = tables.into_iter().filter_map(|(name, rows)| Some((name.clone()?, rows)));
        let tables =
            tables.map(|(name, rows)| self.table(rows).map(|rows| (name, rows))).collect::<Result<Vec<_>>>()?;
        let given = runner.fire(procedure, arguments, tables)?;
        Ok((!given.is_empty()).then_some(given))
    }

    /// The names and types of what functions get, in the order of [`run`](Self::run).
    pub(crate) fn parameters(columns: &[(String, SqlType)]) -> Vec<(String, SqlType)> {
        let record = crate::procedural::record_of(columns);
        let named = |name: &str, sql_type: SqlType| (name.to_owned(), sql_type);
        vec![
            named("new", record.clone()),
            named("old", record),
            named("tg_name", SqlType::Text),
            named("tg_when", SqlType::Text),
            named("tg_level", SqlType::Text),
            named("tg_op", SqlType::Text),
            named("tg_relid", SqlType::BigInt),
            named("tg_relname", SqlType::Text),
            named("tg_table_name", SqlType::Text),
            named("tg_table_schema", SqlType::Text),
            named("tg_nargs", SqlType::Integer),
            named("tg_argv", SqlType::array_of(SqlType::Text)),
        ]
    }
}

/// The triggers of tables whose rows all go.
#[derive(Debug)]
pub struct TableTriggers(pub(crate) Vec<Arc<Triggers>>);

impl TableTriggers {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Runs those before it. Fails as their functions do.
    pub fn run_before(&self) -> Result<()> {
        self.0.iter().try_for_each(|triggers| triggers.before_statement_of(Operation::Truncate))
    }

    /// Runs those behind it. Fails as their functions do.
    pub fn run_behind(&self) -> Result<()> {
        self.0.iter().try_for_each(|triggers| triggers.after_statement(Operation::Truncate, Transition::default()))
    }
}
