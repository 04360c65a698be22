//! Procedures as functions that expressions call: each row's values go to whoever runs procedures for the session.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use arrow::array::{Array, ArrayRef, ListArray, NullArray, StructArray, new_null_array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{cast, concat};
use arrow::datatypes::DataType;
use datafusion_expr::{ScalarUDF, Volatility};
use diligence_base::{Error, Result};
use diligence_engine::expressions::{Outside, outside_function};
use diligence_engine::stages::Caller;
use diligence_storage::foreign_error::from_arrow;
use diligence_types::SqlType;

use crate::procedural::{Gives, Procedure, record_of};
use crate::session_functions::QueryRunner;

impl Procedure {
    /// The type of a call of it: an array of its rows, if it gives any number of them.
    pub(crate) fn value_type(&self) -> SqlType {
        match &self.gives {
            Gives::Nothing => SqlType::Void,
            Gives::Value(one) => one.clone(),
            Gives::Row(columns) => record_of(columns),
            Gives::Values(one) => SqlType::array_of(one.clone()),
            Gives::Rows(columns) => SqlType::array_of(record_of(columns)),
            Gives::Trigger { .. } => SqlType::Void,
        }
    }
}

/// The function that expressions call.
pub(crate) fn function(procedure: Arc<Procedure>, is_strict: bool, runner: Weak<dyn QueryRunner>) -> Arc<ScalarUDF> {
    static NEXT: AtomicU64 = AtomicU64::new(1 << 32);
    let is_strict = is_strict && !procedure.parameters.is_empty();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    outside_function(Arc::new(ProcedureFunction { procedure, is_strict, runner, number }))
}

#[derive(Debug)]
struct ProcedureFunction {
    procedure: Arc<Procedure>,
    is_strict: bool,
    runner: Weak<dyn QueryRunner>,
    number: u64,
}

impl Outside for ProcedureFunction {
    fn name(&self) -> &str {
        &self.procedure.name
    }

    fn identity(&self) -> u64 {
        self.number
    }

    fn returns(&self) -> DataType {
        self.procedure.value_type().arrow()
    }

    fn volatility(&self) -> Volatility {
        Volatility::Volatile
    }

    fn is_strict(&self) -> bool {
        self.is_strict
    }

    fn call(&self, arguments: &[ArrayRef], rows: usize, caller: &dyn Caller) -> Result<ArrayRef> {
        let runner = self.runner.upgrade().ok_or_else(Error::cancelled)?;
        let mut given = Vec::with_capacity(rows);
        for row in 0..rows {
            let arguments = arguments.iter().map(|argument| argument.slice(row, 1)).collect();
            given.push(runner.call(&self.procedure, arguments, caller)?);
        }
        let wanted = self.returns();
        match &self.procedure.gives {
            Gives::Nothing | Gives::Trigger { .. } => Ok(Arc::new(NullArray::new(rows))),
            Gives::Value(_) => concatenated(given.iter().filter_map(|columns| columns.first()), &wanted),
            Gives::Row(_) => structs(&given, &wanted),
            Gives::Values(_) | Gives::Rows(_) => self.lists(&given, &wanted),
        }
    }
}

impl ProcedureFunction {
    fn lists(&self, given: &[Vec<ArrayRef>], wanted: &DataType) -> Result<ArrayRef> {
        let DataType::List(item) = wanted else { return Err(Error::bug("rows are no list")) };
        let lengths = given.iter().map(|columns| columns.first().map_or(0, |column| column.len()));
        let offsets = OffsetBuffer::from_lengths(lengths);
        let values = match &self.procedure.gives {
            Gives::Rows(_) => structs(given, item.data_type())?,
            _ => concatenated(given.iter().filter_map(|columns| columns.first()), item.data_type())?,
        };
        let list = ListArray::try_new(item.clone(), offsets, values, None::<NullBuffer>).map_err(from_arrow)?;
        Ok(Arc::new(list))
    }
}

/// Arrays as one of a type.
fn concatenated<'a>(arrays: impl Iterator<Item = &'a ArrayRef>, wanted: &DataType) -> Result<ArrayRef> {
    let arrays = arrays.map(|array| cast(array, wanted).map_err(from_arrow)).collect::<Result<Vec<_>>>()?;
    let arrays = arrays.iter().map(AsRef::as_ref).collect::<Vec<_>>();
    if arrays.is_empty() {
        return Ok(new_null_array(wanted, 0));
    }
    concat(&arrays).map_err(from_arrow)
}

/// The columns of several calls as one array of rows.
fn structs(given: &[Vec<ArrayRef>], wanted: &DataType) -> Result<ArrayRef> {
    let DataType::Struct(fields) = wanted else { return Err(Error::bug("a row is no struct")) };
    let column =
        |place: usize| concatenated(given.iter().filter_map(|columns| columns.get(place)), fields[place].data_type());
    let columns = (0..fields.len()).map(column).collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(StructArray::try_new(fields.clone(), columns, None).map_err(from_arrow)?))
}
