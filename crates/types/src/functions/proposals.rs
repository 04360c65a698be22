//! What looks whether a row may be one of a table before it is known what becomes of it: the rows that INSERT … ON
//! CONFLICT proposes.

use datafusion_expr::ColumnarValue;
use diligence_base::{About, Error, Result};

use super::catalog::Catalog;
use super::columns::Columns;
use super::domains::tested;
use super::{Body, Call};
use crate::text::messages::{failing_row, shown_as};

/// Arguments before the values of the row.
const LEADING: usize = 4;

/// Declares the functions: of whether a value is NULL, the schema and the name of the table and that of the column; of
/// whether a condition holds, the same of the table, and the name of the constraint. The values of the row follow.
pub(super) fn declare(catalog: &mut Catalog) {
    catalog
        .add("proposed_not_null(boolean, text, text, text, variadic any) -> boolean", Body::Kernel(not_null))
        .lenient();
    catalog.add("proposed_check(boolean, text, text, text, variadic any) -> boolean", Body::Kernel(check)).lenient();
}

/// Fails with 23502 where the first argument is true.
fn not_null(given: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    tested(given, call, true, |row, texts, about| {
        let (table, column) = (texts[1].clone(), texts[2].clone());
        let message = format!("null value in column \"{column}\" of relation \"{table}\" violates not-null constraint");
        let about = About { table: Some(table), column: Some(column), ..about };
        Error::value(message).with_code("23502").with_detail(detail(given, call, row)).with_about(about)
    })
}

/// Fails with 23514 where the first argument is false; NULL is well.
fn check(given: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    tested(given, call, false, |row, texts, about| {
        let (table, name) = (texts[1].clone(), texts[2].clone());
        let message = format!("new row for relation \"{table}\" violates check constraint \"{name}\"");
        let about = About { table: Some(table), constraint: Some(name), ..about };
        Error::value(message).with_code("23514").with_detail(detail(given, call, row)).with_about(about)
    })
}

/// What is said of the row.
fn detail(given: &[ColumnarValue], call: &Call<'_>, row: usize) -> String {
    let columns = Columns::new(given, call);
    let values = columns.arrays().iter().zip(call.arguments).skip(LEADING);
    failing_row(values.map(|(values, sql_type)| {
        let row = if values.len() == 1 { 0 } else { row };
        shown_as(values, row, Some(sql_type))
    }))
}
