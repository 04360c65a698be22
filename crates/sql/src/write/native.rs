//! The writer of tables: CREATE TABLE, with or without AS, INSERT, UPDATE, DELETE, MERGE, and ALTER TABLE where it
//! makes other rows.
//!
//! Rows come into memory. Where a database is kept, those that come in great number go on into segments, cluster by
//! cluster, each packet into its own; so a statement may bring more rows than memory has room for. Rows are counted as
//! the tables' from the beginning, since they stay: a statement that does not end gives them back with its operation.
//! The catalog has them with the commit.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Int32Type, Int64Type, SchemaRef};
use datafusion_common::ScalarValue;
use diligence_base::ids::ObjectVersion;
use diligence_base::{About, Error, Result};
use diligence_catalog::distribution::Distribution;
use diligence_catalog::locks::{LockOwner, RowLock};
use diligence_catalog::rules::{RowFunction, TableRules};
use diligence_catalog::transaction::Transaction;
use diligence_catalog::{
    Catalog, Declaration, LockWay, NativeTable, NewRows, ObjectRef, OwnedSequence, Relation, RelationName, RowChange,
    TableAlteration, failing_row,
};
use diligence_engine::batch::bytes_needed;
use diligence_memory::{QueryMemory, Reservation};
use diligence_storage::foreign_error::{from_arrow, from_datafusion};
use diligence_storage::segment::SegmentWriter;
use diligence_storage::{WriteIo, WriteOperation, WritePart, WriteRequest, Writer};
use diligence_types::{SqlType, functions};
use parking_lot::Mutex;

use super::divided::{Divided, Rest};
use super::load::Load;
use super::triggers::{ComputedLater, Triggers};
use crate::view_shape::OF_VIEW;

/// Who holds the memory of rows in tables.
const HOLDER: &str = "a table in memory";

mod part;
mod triggered;

use self::part::NativePart;

/// Writes rows into a table of the database.
#[derive(Clone, Debug)]
pub struct NativeWriter {
    target: NativeTarget,
    /// What the rows are counted in.
    memory: QueryMemory,
    catalog: Arc<Catalog>,
    /// Who owns what it makes, if that is not whoever runs the database.
    maker: Option<String>,
    /// What the table calls when its rows change.
    triggers: Option<Arc<Triggers>>,
    /// Who locks what changes.
    owner: LockOwner,
    returned: Arc<Returned>,
    /// Whether it is one of several of a statement: rows that another one has taken away are left alone.
    is_part: bool,
    /// What the table was declared as when the statement was planned.
    planned: Option<Declaration>,
}

/// Which table takes the rows.
#[derive(Clone, Debug)]
pub(crate) enum NativeTarget {
    /// CREATE TABLE, with or without AS.
    Create(NewTable),
    /// ALTER TABLE: the rows take the places of all rows of a table.
    Rewrite {
        /// The table.
        table: ObjectRef,
        /// The version that the rows were made of.
        built_on: ObjectVersion,
        /// What it becomes. Its sequences go on behind as many numbers as there are rows.
        new: NewTable,
        /// The rows' columns.
        layout: Layout,
        /// The names of those that have other values in rows that were there.
        changed: Vec<String>,
    },
    /// INSERT, UPDATE, DELETE and MERGE.
    Change {
        /// The table.
        table: ObjectRef,
        /// The rows' columns.
        layout: Layout,
        /// What is done with them.
        way: ChangeWay,
    },
}

/// What is done with the rows of a statement that changes a table.
#[derive(Clone, Debug)]
pub(crate) enum ChangeWay {
    /// They come.
    Insert {
        /// In the place of all that are there.
        replace: bool,
    },
    /// Those come whose keys are new; by the keys of these names, or all.
    InsertNew(Vec<String>),
    /// Those of their numbers go, and they come, if they have values. The first one of a number counts.
    Replace,
    /// One of these is done with each row, by its number. `twice` is the error for a row that goes twice.
    Steps {
        /// By number.
        steps: Vec<Step>,
        /// The message.
        twice: &'static str,
        /// By which rows that come are different; those that are not would go twice.
        key: Option<ConflictKey>,
    },
    /// They are proposed: triggers see them, and only then it is asked which are there already.
    Proposed(Proposed),
}

/// What becomes of rows that INSERT … ON CONFLICT DO UPDATE proposes.
#[derive(Clone, Debug)]
pub(crate) struct Proposed {
    /// The columns of rows that something is done with.
    pub(crate) layout: Layout,
    /// By number.
    pub(crate) steps: Vec<Step>,
    /// The message for a row that goes twice.
    pub(crate) twice: &'static str,
    /// By which rows that come are different.
    pub(crate) key: ConflictKey,
    /// The name of that key.
    pub(crate) key_name: String,
    /// Says what is done with each.
    pub(crate) judged: Arc<ComputedLater>,
}

/// The key by which ON CONFLICT finds rows.
#[derive(Clone, Debug)]
pub(crate) struct ConflictKey {
    /// The places of the columns that it takes.
    pub(crate) places: Vec<usize>,
    /// Computes its values from them; they are its values, if `None`.
    pub(crate) function: Option<Arc<dyn RowFunction>>,
    /// The values' types.
    pub(crate) sql_types: Vec<SqlType>,
    /// Whether NULL is a value like others: NULLS NOT DISTINCT.
    pub(crate) nulls_are_equal: bool,
}

impl ConflictKey {
    /// The values of rows, whose first value is in a place, such that equal ones are the same; and which rows have a
    /// key, all if `None`.
    fn values(&self, rows: &RecordBatch, first: usize) -> Result<(Vec<ArrayRef>, Option<BooleanArray>)> {
        let columns = self.places.iter().map(|place| rows.column(first + place).clone()).collect::<Vec<_>>();
        let (values, wanted) = match &self.function {
            Some(function) => function.compute(&columns, rows.num_rows())?,
            None => (columns, None),
        };
        let values = values.iter().zip(&self.sql_types);
        let values = values.map(|(values, sql_type)| functions::distinct_values(sql_type, values));
        Ok((values.collect::<Result<Vec<_>>>()?, wanted))
    }
}

/// What is done with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It comes.
    Insert,
    /// That of its number goes, and it comes.
    Update,
    /// That of its number goes.
    Delete,
    /// That of its number stays as it is, and nobody else changes it.
    Lock,
}

/// Fails with code 23514 if a condition is false for a row, and with 44000 if one of a view is not true: a row for
/// which it is NULL would not be seen in the view. `values` gives the rows, for the message.
pub(crate) fn check_holds(
    holds: &BooleanArray,
    name: &str,
    table: &RelationName,
    values: impl FnOnce() -> Result<RecordBatch>,
) -> Result<()> {
    let view = name.strip_prefix(OF_VIEW);
    let is_broken = |row: &usize| if holds.is_valid(*row) { !holds.value(*row) } else { view.is_some() };
    let Some(row) = (0..holds.len()).find(is_broken) else { return Ok(()) };
    if let Some(view) = view {
        let error = Error::value(format!("new row violates check option for view \"{view}\"")).with_code("44000");
        return Err(error.with_detail(failing_row(&values()?, row)));
    }
    let message = format!("new row for relation \"{}\" violates check constraint \"{name}\"", table.name);
    let about = About {
        schema: Some(table.schema.clone()),
        table: Some(table.name.clone()),
        constraint: Some(name.to_owned()),
        ..About::default()
    };
    let error = Error::value(message).with_code("23514").with_about(about);
    Err(error.with_detail(failing_row(&values()?, row)))
}

/// The error of a row that was there before the condition that it breaks.
fn of_old_row(error: Error, name: &str, table: &RelationName) -> Error {
    let message = format!("check constraint \"{name}\" of relation \"{}\" is violated by some row", table.name);
    Error::value(message).with_code("23514").with_about(error.about().clone())
}

/// The columns of rows that are written, in this order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    /// Whether the numbers of rows that go are the first.
    pub(crate) has_numbers: bool,
    /// Whether steps come then.
    pub(crate) has_steps: bool,
    /// How many values a new row has.
    pub(crate) values: usize,
    /// The names of conditions, which are truth values; NULL is well, too, but for those of views.
    pub(crate) checks: Vec<String>,
    /// Whether the rows were there before the conditions.
    pub(crate) is_old: bool,
}

impl Layout {
    fn first_value(&self) -> usize {
        usize::from(self.has_numbers) + usize::from(self.has_steps)
    }

    /// The rows without the columns of their conditions, whatever these say.
    fn unchecked(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let first = self.first_value() + self.values;
        let others = (0..rows.num_columns()).filter(|place| !(first..first + self.checks.len()).contains(place));
        rows.project(&others.collect::<Vec<_>>()).map_err(from_arrow)
    }

    /// The rows without the columns of their conditions. Fails with code 23514 if one does not hold.
    fn checked(&self, rows: &RecordBatch, table: &RelationName) -> Result<RecordBatch> {
        if self.checks.is_empty() {
            return Ok(rows.clone());
        }
        let first = self.first_value() + self.values;
        for (index, name) in self.checks.iter().enumerate() {
            let holds = rows.columns().get(first + index).and_then(|column| column.as_boolean_opt());
            let holds = holds.ok_or_else(|| Error::bug("a condition is no truth value"))?;
            let of_new = self.has_steps && name.starts_with(OF_VIEW) && holds.null_count() > 0;
            let of_new = of_new.then(|| self.without_gone(rows, holds)).transpose()?;
            let holds = of_new.as_ref().unwrap_or(holds);
            let held = check_holds(holds, name, table, || rows.project(&self.value_places()).map_err(from_arrow));
            held.map_err(|error| if self.is_old { of_old_row(error, name, table) } else { error })?;
        }
        self.unchecked(rows)
    }

    /// What a condition says of rows with steps, true of those that only go: they have a number and no values.
    fn without_gone(&self, rows: &RecordBatch, holds: &BooleanArray) -> Result<BooleanArray> {
        let numbers = rows.columns().first().ok_or_else(|| Error::bug("rows that change have no numbers"))?;
        let values = self.values(rows)?;
        let goes = |row: usize| numbers.is_valid(row) && values.columns().iter().all(|column| column.is_null(row));
        let says = |row: usize| match holds.is_valid(row) {
            true => Some(holds.value(row)),
            false => goes(row).then_some(true),
        };
        Ok((0..holds.len()).map(says).collect())
    }

    fn value_places(&self) -> Vec<usize> {
        (self.first_value()..self.first_value() + self.values).collect()
    }

    /// The new rows.
    fn values(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        rows.project(&self.value_places()).map_err(from_arrow)
    }

    /// What the statement gives back of them.
    fn returned(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let places = (self.first_value() + self.values..rows.num_columns()).collect::<Vec<_>>();
        rows.project(&places).map_err(from_arrow)
    }
}

/// What a statement gives back, once it is done.
#[derive(Debug, Default)]
pub struct Returned(Mutex<Vec<RecordBatch>>);

impl Returned {
    /// These are the rows.
    pub(crate) fn give(&self, rows: Vec<RecordBatch>) {
        *self.0.lock() = rows.into_iter().filter(|rows| rows.num_columns() > 0).collect();
    }

    /// The rows. They are given once.
    pub fn take(&self) -> Vec<RecordBatch> {
        std::mem::take(&mut self.0.lock())
    }
}

/// A table as declared.
#[derive(Clone, Debug)]
pub(crate) struct NewTable {
    /// Its name.
    pub(crate) name: RelationName,
    /// Whether an existing table gives way.
    pub(crate) or_replace: bool,
    /// Whether an existing table is left alone.
    pub(crate) if_not_exists: bool,
    /// The columns.
    pub(crate) schema: SchemaRef,
    /// What it is declared with beside them.
    pub(crate) rules: TableRules,
    /// The sequences of its columns.
    pub(crate) sequences: Vec<OwnedSequence>,
}

impl NativeWriter {
    pub(crate) fn new(target: NativeTarget, memory: QueryMemory, catalog: Arc<Catalog>, owner: LockOwner) -> Self {
        let (returned, is_part) = (Arc::default(), false);
        Self { target, memory, catalog, owner, maker: None, triggers: None, returned, is_part, planned: None }
    }

    /// The same for a statement that was planned for this table.
    pub(crate) fn planned_for(self, table: Option<&NativeTable>) -> Self {
        Self { planned: table.map(NativeTable::declaration), ..self }
    }

    /// The same for a table that calls these.
    pub(crate) fn calling(self, triggers: Option<Arc<Triggers>>) -> Self {
        Self { triggers, ..self }
    }

    /// The same for a session of a role that owns what it makes.
    pub(crate) fn made_by(self, maker: Option<String>) -> Self {
        Self { maker, ..self }
    }

    /// A writer that does the same in another run.
    pub(crate) fn anew(&self, catalog: Arc<Catalog>, owner: LockOwner) -> Self {
        Self { catalog, owner, returned: Arc::default(), ..self.clone() }
    }

    /// The same as one of several of a statement.
    pub(crate) fn into_part(self) -> Self {
        Self { is_part: true, ..self }
    }

    /// Makes a table, which is its maker's.
    fn create(&self, new: &NewTable, table: NativeTable) -> Result<()> {
        let make = |catalog: &Catalog| catalog.create_table(&new.name, table, new.or_replace, new.sequences.clone());
        let sequences = new.sequences.iter().map(|sequence| sequence.name.clone());
        let names = sequences.chain([new.name.clone()]).collect::<Vec<_>>();
        let _named = self.catalog.lock_names(self.owner, &names)?;
        let Some(maker) = &self.maker else { return make(&self.catalog) };
        if self.catalog.is_of_transaction() {
            make(&self.catalog)?;
            return self.catalog.own_new(&names, maker);
        }
        let both = Transaction::begin(self.catalog.clone());
        make(both.catalog())?;
        both.catalog().own_new(&names, maker)?;
        both.commit(false)
    }

    /// Whether triggers run for its rows.
    pub(crate) fn calls_triggers(&self) -> bool {
        self.triggers.is_some()
    }

    /// The table whose rows it changes.
    pub(crate) fn changed_table(&self) -> Option<&RelationName> {
        match &self.target {
            NativeTarget::Change { table, .. } | NativeTarget::Rewrite { table, .. } => Some(&table.name),
            NativeTarget::Create(_) => None,
        }
    }

    /// Whether rows that are there go or change.
    pub(crate) fn takes_rows_away(&self) -> bool {
        match &self.target {
            NativeTarget::Change { way: ChangeWay::Insert { .. } | ChangeWay::InsertNew(_), .. } => false,
            NativeTarget::Create(_) | NativeTarget::Rewrite { .. } | NativeTarget::Change { .. } => true,
        }
    }

    /// What RETURNING gives, when the statement is done.
    pub(crate) fn returned(&self) -> Arc<Returned> {
        self.returned.clone()
    }
}

impl Writer for NativeWriter {
    fn begin(&self, _request: &WriteRequest) -> Result<Arc<dyn WriteOperation>> {
        let rows = NativeRows::new(self.memory.reservation(HOLDER));
        let load = Load::of(self);
        let divided = match &load {
            Some(load) => {
                let (distribution, is_new) = match (&self.target, &load.table) {
                    (NativeTarget::Create(new) | NativeTarget::Rewrite { new, .. }, _) => {
                        (new.rules.distribution.clone(), true)
                    }
                    // The first rows of a table decide, as in CREATE TABLE AS.
                    (NativeTarget::Change { way: ChangeWay::Insert { replace: false }, .. }, Some(table)) => {
                        (table.rules().distribution.clone(), table.rows() == 0)
                    }
                    (_, Some(table)) => (table.rules().distribution.clone(), false),
                    (_, None) => (Distribution::default(), false),
                };
                Divided::new(&distribution, load, is_new, self.memory.reservation(HOLDER))?
            }
            None => None,
        };
        Ok(Arc::new(NativeOperation {
            writer: self.clone(),
            load,
            divided,
            written: Mutex::default(),
            rows: Mutex::new(Some(rows)),
        }))
    }

    fn is_undoable(&self) -> bool {
        true
    }

    fn is_temporary(&self) -> bool {
        matches!(&self.target, NativeTarget::Change { table, .. } if table.name.is_temporary())
    }

    fn describe(&self) -> String {
        match &self.target {
            NativeTarget::Create(table) => format!("new table {}", table.name),
            NativeTarget::Rewrite { table, .. } => format!("all rows of table {}", table.name),
            NativeTarget::Change { table, way: ChangeWay::Insert { replace: false }, .. } => {
                format!("table {}", table.name)
            }
            NativeTarget::Change { table, way: ChangeWay::Insert { replace: true }, .. } => {
                format!("table {}, in place of its rows", table.name)
            }
            NativeTarget::Change { table, way: ChangeWay::InsertNew(_), .. } => {
                format!("table {}, where the keys are new", table.name)
            }
            NativeTarget::Change { table, .. } => format!("rows of table {}", table.name),
        }
    }
}

/// One run of a [`NativeWriter`].
struct NativeOperation {
    writer: NativeWriter,
    /// Where rows go that are many; `None` if they stay in memory.
    load: Option<Load>,
    /// Its fragments, where rows go to one of several, or are put in an order.
    divided: Option<Divided>,
    /// Segments whose blocks are written, with the fragments that their rows belong to.
    written: Mutex<Vec<(u16, SegmentWriter)>>,
    /// What the parts that have ended had; `None` once they are committed.
    rows: Mutex<Option<NativeRows>>,
}

/// Rows, and what those in memory are counted in.
struct NativeRows {
    /// Clusters, which come before the batches.
    stored: Vec<NewRows>,
    /// How many rows they have.
    stored_rows: u64,
    batches: Vec<RecordBatch>,
    memory: Reservation,
}

impl NativeRows {
    fn new(memory: Reservation) -> Self {
        Self { stored: Vec::new(), stored_rows: 0, batches: Vec::new(), memory }
    }
}

impl NativeOperation {
    /// What a table was declared as when the statement was planned, if it is the one that the statement changes.
    fn planned(&self, table: &ObjectRef) -> Option<&Declaration> {
        let is_changed =
            matches!(&self.writer.target, NativeTarget::Change { table: changed, .. } if changed.id == table.id);
        self.writer.planned.as_ref().filter(|_| is_changed)
    }

    /// Rows as the table has them.
    fn values(&self, load: &Load, batch: RecordBatch) -> Result<RecordBatch> {
        let values = match &self.writer.target {
            NativeTarget::Create(_) => batch,
            NativeTarget::Rewrite { layout, .. } | NativeTarget::Change { layout, .. } => layout.values(&batch)?,
        };
        NativeTable::conformed(&load.name, &load.columns, &values)
    }

    fn commit_rows(&self) -> Result<u64> {
        let rows = self.rows.lock().take().ok_or_else(|| Error::bug("a table's rows are committed twice"))?;
        let NativeRows { stored, stored_rows, batches, memory } = rows;
        let count = stored_rows + batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>();
        let all =
            |batches: Vec<RecordBatch>| stored.into_iter().chain(batches.into_iter().map(NewRows::Memory)).collect();
        let catalog = &self.writer.catalog;
        match &self.writer.target {
            NativeTarget::Create(new) => {
                let table = self.made(new, all(batches), memory)?;
                match self.writer.create(new, table) {
                    // Somebody else made it while our query ran.
                    Err(_) if new.if_not_exists && catalog.snapshot().get(&new.name).is_some() => Ok(0),
                    made => made.map(|()| count),
                }
            }
            NativeTarget::Rewrite { table, built_on, new, layout, changed } => {
                let values = batches.iter().map(|rows| layout.values(rows)).collect::<Result<Vec<_>>>()?;
                let next = self.made(new, all(values), memory)?;
                let _locked = catalog.lock_definitions(self.writer.owner, std::iter::once(table))?;
                catalog.rewrite(table, *built_on, next, changed, (new.sequences.clone(), count))?;
                Ok(count)
            }
            NativeTarget::Change { table, layout, way: way @ (ChangeWay::Insert { .. } | ChangeWay::InsertNew(_)) }
                if let Some(triggers) = &self.writer.triggers =>
            {
                self.insert_triggered(triggers, table, layout, way, &batches, memory)
            }
            NativeTarget::Change { table, layout, way: ChangeWay::Insert { replace } } => {
                let values = batches.iter().map(|rows| layout.values(rows)).collect::<Result<Vec<_>>>()?;
                let returned = batches.iter().map(|rows| layout.returned(rows)).collect::<Result<Vec<_>>>()?;
                let mut memory = memory;
                keep(&mut memory, &values);
                let rows: Vec<_> = all(values);
                if let Some(distribution) = self.taken_bounds() {
                    self.insert_divided(table, distribution, rows, memory)?;
                    self.give_back(returned);
                    return Ok(count);
                }
                let locked = catalog.lock_change(self.writer.owner, table, self.planned(table), &[], &rows)?;
                let inserted = catalog.insert(table, &rows, memory, *replace);
                inserted.map_err(|error| catalog.refused(&locked, table, &rows, error))?;
                self.give_back(returned);
                Ok(count)
            }
            NativeTarget::Change { table, layout, way } => self.change(table, layout, way, &batches, memory),
        }
    }

    /// A table of these rows.
    fn made(&self, new: &NewTable, rows: Vec<NewRows>, memory: Reservation) -> Result<NativeTable> {
        let version = self.writer.catalog.next_table_version();
        let mut rules = new.rules.clone();
        if let Some(divided) = &self.divided {
            rules.distribution = divided.distribution();
        }
        let key_store = self.writer.catalog.key_store_of(&new.name);
        NativeTable::of_rows_under(&new.name, &new.schema, rows, rules, memory, key_store, version)
    }

    fn change(
        &self,
        table: &ObjectRef,
        layout: &Layout,
        way: &ChangeWay,
        batches: &[RecordBatch],
        mut memory: Reservation,
    ) -> Result<u64> {
        let catalog = &self.writer.catalog;
        let returned = batches.iter().map(|rows| layout.returned(rows)).collect::<Result<Vec<_>>>()?;
        let returned = returned.into_iter();
        let (count, returned) = match way {
            ChangeWay::Insert { .. } => return Err(Error::bug("rows that come take another way")),
            ChangeWay::InsertNew(keys) => {
                let values = batches.iter().map(|rows| layout.values(rows)).collect::<Result<Vec<_>>>()?;
                keep(&mut memory, &values);
                let (owner, planned) = (self.writer.owner, self.planned(table));
                let locked = catalog.lock_change(owner, table, planned, &[], &as_new(&values))?;
                let new = catalog.insert_new(&locked, table, &values, memory, keys);
                let new = new.map_err(|error| catalog.refused(&locked, table, &as_new(&values), error))?;
                let count = new.iter().map(|new| new.true_count() as u64).sum();
                let returned = returned.zip(&new).map(|(rows, new)| filter_record_batch(&rows, new));
                (count, returned.collect::<Result<Vec<_>, _>>().map_err(from_arrow)?)
            }
            ChangeWay::Replace => {
                let mut met = Met { numbers: self.gone(table, batches)?, ..Met::default() };
                let change = RowSteps::of(batches, layout, |_| Step::Update, &mut met, None, None)?;
                self.apply(table, change, layout.values > 0, memory, returned)?
            }
            ChangeWay::Steps { steps, twice, key } => {
                let step = |number: i32| steps.get(number as usize).copied().unwrap_or(Step::Delete);
                let mut met = Met { numbers: self.gone(table, batches)?, ..Met::default() };
                let change = RowSteps::of(batches, layout, step, &mut met, Some(twice), key.as_ref())?;
                self.apply(table, change, true, memory, returned)?
            }
            ChangeWay::Proposed(proposed) => {
                let values = batches.iter().map(|rows| layout.values(rows)).collect::<Result<Vec<_>>>()?;
                self.propose(table, proposed, values, memory)?
            }
        };
        self.give_back(returned);
        Ok(count)
    }

    /// The numbers of rows that another part of the statement has taken away.
    fn gone(&self, table: &ObjectRef, batches: &[RecordBatch]) -> Result<HashSet<i64>> {
        if !self.writer.is_part {
            return Ok(HashSet::new());
        }
        let numbers = batches.iter().filter_map(|rows| rows.columns().first()?.as_primitive_opt::<Int64Type>());
        self.writer.catalog.own_taken(table, numbers.flat_map(|numbers| numbers.iter().flatten()))
    }

    fn give_back(&self, returned: Vec<RecordBatch>) {
        self.writer.returned.give(returned);
    }

    /// How a table that had no rows is divided from now on, if its first ones have decided that on their way to
    /// segments.
    fn taken_bounds(&self) -> Option<Distribution> {
        let before = self.load.as_ref()?.table.as_ref()?;
        let taken = self.divided.as_ref()?.distribution();
        (taken != before.rules().distribution).then_some(taken)
    }

    /// Adds the first rows of a table, which are divided as it is from now on. Fails with code 40001 if others have
    /// come first.
    fn insert_divided(
        &self,
        table: &ObjectRef,
        distribution: Distribution,
        rows: Vec<NewRows>,
        memory: Reservation,
    ) -> Result<()> {
        let NativeWriter { catalog, owner, .. } = &self.writer;
        let _locked = catalog.lock_definitions(*owner, std::iter::once(table))?;
        let own = (!catalog.is_of_transaction()).then(|| Transaction::begin_as(catalog.clone(), *owner));
        let on = own.as_ref().map_or(catalog, Transaction::catalog);
        let now = || {
            let object = on.snapshot().get(&table.name).filter(|object| object.id == table.id).cloned();
            let version = object.as_ref().map(|object| object.version);
            match object.map(|object| object.relation.clone()) {
                Some(Relation::Native(rows)) => version.map(|version| (rows, version)),
                _ => None,
            }
        };
        let others = || Error::value("other rows have come into the table first").with_code("40001");
        let (before, built_on) = now().ok_or_else(others)?;
        let is_as_planned = self.load.as_ref().and_then(|load| load.table.as_ref()).is_some_and(|planned| {
            planned.origin() == before.origin() && planned.rules().distribution == before.rules().distribution
        });
        if before.rows() > 0 || !is_as_planned {
            return Err(others());
        }
        let columns = before.schema().clone();
        let places = (0..columns.fields().len()).map(Some).collect();
        let rules = TableRules { distribution, ..before.rules().clone() };
        let alteration = TableAlteration { name: table.name.clone(), columns, places, rules };
        on.alter(table, built_on, alteration, &memory.sibling())?;
        let (after, _) = now().ok_or_else(others)?;
        let rows = rows.into_iter().map(|rows| after.as_own(rows)).collect::<Vec<_>>();
        on.insert(table, &rows, memory, false)?;
        own.map_or(Ok(()), |own| own.commit(false))
    }

    /// Has the segments that were written be where a crash leaves them.
    fn end_segments(&self) -> Result<()> {
        let Some(load) = &self.load else { return Ok(()) };
        let mut written = std::mem::take(&mut *self.written.lock());
        let too_late = || Error::bug("a table's rows are committed before their end");
        if let Some(divided) = &self.divided {
            let Rest { segments, batches, memory } = divided.end(load)?;
            written.extend(segments);
            let mut rows = self.rows.lock();
            let rows = rows.as_mut().ok_or_else(too_late)?;
            rows.batches.extend(batches);
            memory.into_iter().for_each(|memory| rows.memory.absorb(memory));
        }
        for (fragment, writer) in written {
            let count = writer.clusters();
            let segment = load.row_store.finish(writer)?;
            let mut rows = self.rows.lock();
            let rows = rows.as_mut().ok_or_else(too_late)?;
            rows.stored_rows += (0..count).filter_map(|cluster| segment.rows(cluster)).sum::<usize>() as u64;
            rows.stored.extend(load.clusters(&segment, count, fragment));
        }
        Ok(())
    }

    /// Has nobody else change rows that were met and stay. Fails as [`Catalog::lock_row`] does.
    fn lock_met(&self, catalog: &Catalog, table: &ObjectRef, steps: &RowSteps) -> Result<()> {
        let (owner, mode, way) = (self.writer.owner, RowLock::NoKeyUpdate, LockWay::Wait);
        steps.locked.iter().try_for_each(|row| catalog.lock_row(owner, table, *row, mode, way).map(drop))
    }

    /// Has rows go and come; gives their number, and what is given back of them.
    fn apply(
        &self,
        table: &ObjectRef,
        steps: RowSteps,
        has_values: bool,
        mut memory: Reservation,
        returned: impl Iterator<Item = RecordBatch>,
    ) -> Result<(u64, Vec<RecordBatch>)> {
        if let Some(triggers) = &self.writer.triggers {
            return self.apply_triggered(triggers, table, steps, has_values, memory, returned);
        }
        self.lock_met(&self.writer.catalog, table, &steps)?;
        let RowSteps { updated, removed, updates, inserts, done, .. } = steps;
        let pairs = if has_values { updated.len() } else { 0 };
        let count = (updated.len() + removed.len() + inserts.iter().map(RecordBatch::num_rows).sum::<usize>()) as u64;
        let mut deleted = updated;
        deleted.extend(removed);
        let mut inserted = if has_values { updates } else { vec![] };
        inserted.extend(inserts);
        inserted.retain(|rows| rows.num_rows() > 0);
        keep(&mut memory, &inserted);
        if count > 0 {
            let NativeWriter { catalog, owner, .. } = &self.writer;
            let inserted = as_new(&inserted);
            let locked = catalog.lock_change(*owner, table, self.planned(table), &deleted, &inserted)?;
            let changed = catalog.change(table, RowChange { deleted, inserted: inserted.clone(), memory, pairs });
            changed.map_err(|error| catalog.refused(&locked, table, &inserted, error))?;
        }
        let returned = returned.zip(&done).map(|(rows, done)| filter_record_batch(&rows, done).map_err(from_arrow));
        Ok((count, returned.collect::<Result<_>>()?))
    }
}

fn as_new(rows: &[RecordBatch]) -> Vec<NewRows> {
    rows.iter().cloned().map(NewRows::Memory).collect()
}

/// Only these rows stay of what is counted.
fn keep(memory: &mut Reservation, rows: &[RecordBatch]) {
    let kept = rows.iter().flat_map(RecordBatch::columns).map(|column| bytes_needed(column)).sum::<usize>();
    memory.shrink(memory.bytes().saturating_sub(kept));
}

/// What is done with rows.
struct RowSteps {
    /// The numbers of rows that others take the places of, and the others.
    updated: Vec<i64>,
    updates: Vec<RecordBatch>,
    /// The numbers of rows that only go.
    removed: Vec<i64>,
    /// Rows that only come.
    inserts: Vec<RecordBatch>,
    /// The numbers of rows that stay and are locked.
    locked: Vec<i64>,
    /// Which rows something is done with, by batch.
    done: Vec<BooleanArray>,
    /// What is done with them, row by row.
    order: Vec<Step>,
}

/// The rows that a statement has met.
#[derive(Default)]
struct Met {
    /// The numbers of those that are there.
    numbers: HashSet<i64>,
    /// The keys of those that come.
    keys: HashSet<Vec<ScalarValue>>,
}

impl Met {
    /// Whether a row that comes is the first one with its key, or has none: those with keys are `wanted`.
    fn is_new(
        &mut self,
        keys: &[ArrayRef],
        wanted: Option<&BooleanArray>,
        row: usize,
        key: Option<&ConflictKey>,
    ) -> Result<bool> {
        if wanted.is_some_and(|wanted| !wanted.is_valid(row) || !wanted.value(row)) {
            return Ok(true);
        }
        let value = |key: &ArrayRef| ScalarValue::try_from_array(key, row);
        let values = keys.iter().map(value).collect::<Result<Vec<_>, _>>().map_err(from_datafusion)?;
        let nulls_are_equal = key.is_some_and(|key| key.nulls_are_equal);
        let is_free = !nulls_are_equal && values.iter().any(ScalarValue::is_null);
        Ok(is_free || self.keys.insert(values))
    }
}

impl RowSteps {
    /// Of several rows with one number the first counts: a row that joins with several others is changed once, and one
    /// that was `met` not at all. With `twice`, that is an error with code 21000.
    fn of(
        batches: &[RecordBatch],
        layout: &Layout,
        step: impl Fn(i32) -> Step,
        met: &mut Met,
        twice: Option<&str>,
        key: Option<&ConflictKey>,
    ) -> Result<Self> {
        let (updated, removed, locked, order) = (vec![], vec![], vec![], vec![]);
        let mut all = Self { updated, updates: vec![], removed, inserts: vec![], locked, done: vec![], order };
        for rows in batches {
            let numbers = rows.columns().first().and_then(|column| column.as_primitive_opt::<Int64Type>());
            let numbers = numbers.ok_or_else(|| Error::bug("rows that change have no numbers"))?;
            let own = rows.columns().get(1).filter(|_| layout.has_steps);
            let own = own.map(|column| column.as_primitive::<Int32Type>());
            let (mut done, mut updates, mut inserts) = (vec![], vec![], vec![]);
            let keys = key.map(|key| key.values(rows, layout.first_value())).transpose()?;
            for row in 0..rows.num_rows() {
                let step = step(own.map_or(0, |own| own.value(row)));
                let is_first = match step {
                    Step::Insert => match &keys {
                        Some((keys, wanted)) => met.is_new(keys, wanted.as_ref(), row, key)?,
                        None => true,
                    },
                    Step::Update | Step::Delete => met.numbers.insert(numbers.value(row)),
                    Step::Lock => {
                        all.locked.push(numbers.value(row));
                        false
                    }
                };
                if let (false, Some(message)) = (is_first || step == Step::Lock, twice) {
                    let hint = match key {
                        Some(_) => {
                            "Ensure that no rows proposed for insertion within the same command have duplicate \
                             constrained values."
                        }
                        None => "Ensure that not more than one source row matches any one target row.",
                    };
                    return Err(Error::value(message).with_code("21000").with_hint(hint));
                }
                done.push(is_first);
                all.order.extend(is_first.then_some(step));
                updates.push(is_first && step == Step::Update);
                inserts.push(step == Step::Insert);
                match step {
                    Step::Update if is_first => all.updated.push(numbers.value(row)),
                    Step::Delete if is_first => all.removed.push(numbers.value(row)),
                    _ => {}
                }
            }
            let values = layout.values(rows)?;
            let chosen = |mask: Vec<bool>| filter_record_batch(&values, &BooleanArray::from(mask)).map_err(from_arrow);
            all.updates.push(chosen(updates)?);
            all.inserts.push(chosen(inserts)?);
            all.done.push(BooleanArray::from(done));
        }
        Ok(all)
    }
}

impl WriteOperation for NativeOperation {
    fn part(self: Arc<Self>) -> Result<Box<dyn WritePart>> {
        let memory = self.writer.memory.reservation(HOLDER);
        let rows = Some(NativeRows::new(memory));
        Ok(Box::new(NativePart { operation: self, rows, count: 0, segment: None, due: VecDeque::new() }))
    }

    /// They are counted as the tables', not the query's.
    fn held_bytes(&self) -> usize {
        0
    }

    fn prepare(self: Arc<Self>) -> WriteIo<()> {
        match self.divided.is_none() && self.written.lock().is_empty() {
            true => WriteIo::Ready(Ok(())),
            false => WriteIo::Blocking(Box::new({
                let own = self.clone();
                move || own.end_segments()
            })),
        }
    }

    fn commit(self: Arc<Self>) -> WriteIo<u64> {
        WriteIo::Blocking(Box::new(move || self.commit_rows()))
    }
}
