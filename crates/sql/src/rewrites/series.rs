//! Series of integers with known ends are tables: their rows are made where they are scanned, and never all at once.

use std::sync::Arc;

use datafusion_common::ScalarValue;
use diligence_base::Result;
use diligence_storage::series::SeriesTable;
use diligence_types::SqlType;

use crate::algebra::{Relation, Scalar, Scan, TableFunction};

/// Functions that give series. They are not computed while a statement is planned: there may be any number of values.
const SERIES: [&str; 2] = ["generate_series", "range"];

/// Whether a function gives a series.
pub(super) fn gives_series(name: &str) -> bool {
    SERIES.contains(&name)
}

/// The scan that gives the same rows as a function, if it gives a series of integers with known ends; else the
/// function. Fails with 22023 if the step is zero.
pub(super) fn scanned(function: TableFunction) -> Result<Relation> {
    let [item] = function.items.as_slice() else { return Ok(Relation::TableFunction(function)) };
    let is_alone = *function.input == Relation::one_row() && function.ordinality.is_none() && !function.keeps_all;
    let (true, [column], Some(table)) = (is_alone, item.columns.as_slice(), table(&item.array)?) else {
        return Ok(Relation::TableFunction(function));
    };
    let columns = vec![(0, column.clone())];
    Ok(Relation::Scan(Scan { table: Arc::new(table), name: column.name.clone(), columns, sample: None }))
}

fn table(array: &Scalar) -> Result<Option<SeriesTable>> {
    let Scalar::Call { call, arguments } = array else { return Ok(None) };
    let is_wide = match array.sql_type().element() {
        Some(SqlType::BigInt) => true,
        Some(SqlType::Integer) => false,
        _ => return Ok(None),
    };
    let known = arguments.iter().map(|argument| match argument.as_constant()?.value {
        ScalarValue::Int32(value) => value.map(i64::from),
        ScalarValue::Int64(value) => value,
        _ => None,
    });
    let Some(known) = known.collect::<Option<Vec<_>>>() else { return Ok(None) };
    let (first, last, step) = match known[..] {
        [last] => (0, last, 1),
        [first, last] => (first, last, 1),
        [first, last, step] => (first, last, step),
        _ => return Ok(None),
    };
    match call.overload.name {
        "generate_series" if known.len() > 1 => SeriesTable::new(first, last, step, is_wide).map(Some),
        // The end is not a value of a range.
        "range" => match last.checked_sub(step.signum()) {
            Some(last) => SeriesTable::new(first, last, step, is_wide).map(Some),
            None => Ok(None),
        },
        _ => Ok(None),
    }
}
