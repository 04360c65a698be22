//! What a statement of a block gave.

use std::cell::{OnceCell, RefCell};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{Field, SchemaRef};
use diligence_base::{Error, Result};
use diligence_engine::query::KeptRows;
use diligence_types::SqlType;
use parking_lot::Mutex;

use crate::cursors::{CursorRows, Found, OpenCursor};
use crate::statement::procedures::variables::Typed;

/// The rows of a statement, and how many it has written or given.
pub(super) struct Ran {
    schema: SchemaRef,
    types: OnceCell<Vec<SqlType>>,
    given: RefCell<Given>,
    count: u64,
    /// Whether the rows are those that the statement has written or taken away.
    writes: bool,
}

enum Given {
    One(RecordBatch),
    Any(KeptRows),
}

impl Ran {
    pub(super) fn new(rows: KeptRows, count: u64, writes: bool) -> Self {
        let (schema, given) = (rows.schema().clone(), RefCell::new(Given::Any(rows)));
        Self { schema, types: OnceCell::new(), given, count, writes }
    }

    /// A row that was computed.
    pub(super) fn one(row: RecordBatch) -> Self {
        let (schema, given) = (row.schema(), RefCell::new(Given::One(row)));
        Self { schema, types: OnceCell::new(), given, count: 1, writes: false }
    }

    /// Its rows as those of a cursor that stands before them.
    pub(super) fn into_cursor(self, found: Option<Found>) -> Result<OpenCursor> {
        let rows = match self.given.into_inner() {
            Given::Any(rows) => rows,
            Given::One(_) => return Err(Error::bug("a cursor is opened for a row that was computed")),
        };
        let hidden = found.as_ref().map_or(0, Found::numbers);
        let rows = Arc::new(Mutex::new(CursorRows::new(rows).hiding(hidden)));
        Ok(OpenCursor { rows, found: found.map(Arc::new) })
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Whether they are what RETURNING gives.
    pub(super) fn writes(&self) -> bool {
        self.writes
    }

    pub(super) fn row_count(&self) -> u64 {
        match &*self.given.borrow() {
            Given::One(_) => 1,
            Given::Any(rows) => rows.rows(),
        }
    }

    /// The types of its columns.
    pub(super) fn types(&self) -> &[SqlType] {
        self.types.get_or_init(|| self.schema.fields().iter().map(|field| type_of(field)).collect())
    }

    /// Rows from one on, counted from 0: some of them; `None` behind the last. Fails if they cannot be read.
    pub(super) fn rows_from(&self, row: u64) -> Result<Option<RecordBatch>> {
        match &mut *self.given.borrow_mut() {
            Given::One(only) => Ok((row == 0).then(|| only.clone())),
            Given::Any(rows) => rows.rows_from(row),
        }
    }

    /// The values of a row, counted from 0, with their names; `None` behind the last. Fails if it cannot be read.
    pub(super) fn row(&self, row: u64) -> Result<Option<Vec<(String, Typed)>>> {
        let Some(rows) = self.rows_from(row)? else { return Ok(None) };
        let columns = self.schema.fields().iter().zip(self.types()).zip(rows.columns());
        let columns = columns.map(|((field, sql_type), column)| (field.name().clone(), first_of(sql_type, column)));
        Ok(Some(columns.collect()))
    }

    /// A row of NULLs.
    pub(super) fn nulls(&self) -> Vec<(String, Typed)> {
        let columns = self.schema.fields().iter().zip(self.types());
        columns.map(|(field, sql_type)| (field.name().clone(), Typed::null(sql_type.clone()))).collect()
    }

    /// Its one value. Fails with 21000 if there are several rows, and with 42601 if there are several columns or none.
    pub(super) fn value(&self) -> Result<Typed> {
        if self.row_count() > 1 {
            return Err(Error::value("query returned more than one row").with_code("21000"));
        }
        if self.schema.fields().len() > 1 {
            let count = self.schema.fields().len();
            return Err(Error::input(format!("query returned {count} columns")).with_code("42601"));
        }
        let value = self.row(0)?.unwrap_or_else(|| self.nulls()).pop();
        value.map(|(_, value)| value).ok_or_else(|| Error::input("query did not return data").with_code("42601"))
    }
}

/// The SQL type of the values of a result's column.
pub(super) fn type_of(field: &Field) -> SqlType {
    SqlType::of_field(field).map_or(SqlType::Text, SqlType::untimed)
}

/// The first value of a column.
pub(super) fn first_of(sql_type: &SqlType, column: &ArrayRef) -> Typed {
    let value = if column.len() == 1 { column.clone() } else { column.slice(0, 1) };
    let wanted = sql_type.arrow();
    let value = if *value.data_type() == wanted { value } else { cast(&value, &wanted).unwrap_or(value) };
    Typed { sql_type: sql_type.clone(), value }
}
