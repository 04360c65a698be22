//! Triggers of a table that run while a statement changes its rows.
//!
//! ```text
//!   BEFORE … STATEMENT ─▶ BEFORE … ROW, for each row ─▶ the rows change ─▶ AFTER … ROW ─▶ AFTER … STATEMENT
//! ```
//! A function before the change may give another row, or none, which leaves the row alone. All of it is part of the
//! statement's transaction, in which the functions' own statements run.

use std::fmt::Debug;
use std::sync::{Arc, Weak};

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, StringViewArray, StructArray};
use arrow::compute::{cast, concat, filter_record_batch, interleave_record_batch};
use arrow::datatypes::DataType;
use diligence_base::{Error, Result};
use diligence_catalog::{Catalog, ObjectRef, SessionCatalogs};
use diligence_storage::foreign_error::from_arrow;
use diligence_types::SqlType;

use crate::procedural::Procedure;

/// Runs the functions of triggers.
pub trait TriggerRunner: Send + Sync + Debug {
    /// What a trigger's function gives for these arguments, each an array of one value, for whoever has sent the
    /// statement that runs. Fails as a statement of its body does.
    fn fire(&self, procedure: &Arc<Procedure>, arguments: Vec<ArrayRef>) -> Result<Vec<ArrayRef>>;
}

/// What a statement does with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// It comes.
    Insert,
    /// It changes.
    Update,
    /// It goes.
    Delete,
}

impl Operation {
    /// What a function is told of it.
    fn word(self) -> &'static str {
        match self {
            Self::Insert => "INSERT",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// A trigger with what it runs.
#[derive(Debug)]
pub(crate) struct Fired {
    pub(crate) name: String,
    pub(crate) is_before: bool,
    pub(crate) is_row: bool,
    /// For what it runs in this statement.
    pub(crate) operations: Vec<Operation>,
    /// For each of them, what runs.
    pub(crate) procedure: Arc<Procedure>,
    pub(crate) arguments: Vec<String>,
}

/// The triggers of a table that a statement runs.
#[derive(Debug)]
pub(crate) struct Triggers {
    pub(crate) table: ObjectRef,
    pub(crate) columns: Vec<(String, SqlType)>,
    /// In the order of their names.
    pub(crate) fired: Vec<Fired>,
    /// What the statement does, whether any row is concerned or not.
    pub(crate) operations: Vec<Operation>,
    /// The columns that RETURNING gives, where rows may be others than those that the plan has computed them of.
    pub(crate) returned: Option<Vec<usize>>,
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
            fired.is_before == is_before && fired.is_row == is_row && fired.operations.contains(&operation)
        };
        self.fired.iter().filter(fits)
    }

    /// Runs those that are for the whole statement.
    pub(crate) fn statement(&self, is_before: bool) -> Result<()> {
        for operation in &self.operations {
            for fired in self.of(*operation, is_before, false) {
                self.run(fired, *operation, None, None)?;
            }
        }
        Ok(())
    }

    /// Runs those before rows: the rows as they are to be, and which of them nothing is done with (false). `rows` are
    /// what comes or, of DELETE, what goes; `old` are what changes.
    pub(crate) fn before(
        &self,
        operation: Operation,
        old: Option<&RecordBatch>,
        rows: RecordBatch,
    ) -> Result<(RecordBatch, BooleanArray)> {
        let all = BooleanArray::from(vec![true; rows.num_rows()]);
        if self.of(operation, true, true).next().is_none() || rows.num_rows() == 0 {
            return Ok((rows, all));
        }
        let mut made = Vec::with_capacity(rows.num_rows());
        let mut kept = Vec::with_capacity(rows.num_rows());
        for row in 0..rows.num_rows() {
            let mut now = rows.slice(row, 1);
            let mut is_kept = true;
            for fired in self.of(operation, true, true) {
                let before = old.map(|old| old.slice(row, 1));
                let given = match operation {
                    Operation::Delete => self.run(fired, operation, None, Some(&now))?,
                    _ => self.run(fired, operation, Some(&now), before.as_ref())?,
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
        let rows = filter_record_batch(&rows, &kept).map_err(from_arrow)?;
        if operation == Operation::Delete || rows.num_rows() == 0 {
            return Ok((rows, kept));
        }
        // What follows from the values, and what they have to fulfill.
        let names = self.columns.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        let settled = self.catalog().settled(&self.table, rows, &names)?;
        Ok((settled, kept))
    }

    /// Runs those behind rows.
    pub(crate) fn after(
        &self,
        operation: Operation,
        old: Option<&RecordBatch>,
        new: Option<&RecordBatch>,
    ) -> Result<()> {
        let rows = old.or(new).map_or(0, RecordBatch::num_rows);
        for row in 0..rows {
            for fired in self.of(operation, false, true) {
                let (new, old) = (new.map(|rows| rows.slice(row, 1)), old.map(|rows| rows.slice(row, 1)));
                self.run(fired, operation, new.as_ref(), old.as_ref())?;
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
    ) -> Result<Option<Vec<ArrayRef>>> {
        let text = |text: &str| Arc::new(StringViewArray::from_iter_values([text])) as ArrayRef;
        let name = &self.table.name;
        let timing = if fired.is_before { "BEFORE" } else { "AFTER" };
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
        let given = runner.fire(&fired.procedure, arguments)?;
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
