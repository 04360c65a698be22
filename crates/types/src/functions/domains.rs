//! What looks whether a value may be one of a domain. The value itself stands behind it in a CASE.

use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray};
use datafusion_expr::ColumnarValue;
use diligence_base::{About, Error, Result};

use super::catalog::Catalog;
use super::columns::Columns;
use super::{Body, Call};

/// Declares the functions: of whether a value is NULL and the domain's schema and name; of whether it fits, the
/// domain's schema and name, and the constraint's name.
pub(super) fn declare(catalog: &mut Catalog) {
    catalog.add("domain_not_null(boolean, text, text) -> boolean", Body::Kernel(not_null)).lenient();
    catalog.add("domain_check(boolean, text, text, text) -> boolean", Body::Kernel(check)).lenient();
}

/// Fails with 23502 where the first argument is true.
fn not_null(given: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    tested(given, call, true, |_, texts, about| {
        let message = format!("domain {} does not allow null values", texts[1]);
        Error::value(message).with_code("23502").with_about(about)
    })
}

/// Fails with 23514 where the first argument is false; NULL is well.
fn check(given: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    tested(given, call, false, |_, texts, about| {
        let message = format!("value for domain {} violates check constraint \"{}\"", texts[1], texts[2]);
        let about = About { constraint: Some(texts[2].clone()), ..about };
        Error::value(message).with_code("23514").with_about(about)
    })
}

/// TRUE for all rows. Fails where the first argument has a value, with an error of the row and the texts behind it.
pub(super) fn tested(
    given: &[ColumnarValue],
    call: &Call<'_>,
    wrong: bool,
    error: impl Fn(usize, &[String], About) -> Error,
) -> Result<ColumnarValue> {
    let columns = Columns::new(given, call);
    let [tests, texts @ ..] = columns.arrays() else { return Err(Error::bug("a test of nothing")) };
    let tests = tests.as_boolean_opt().ok_or_else(|| Error::bug("a test that is no truth value"))?;
    if let Some(row) = (0..tests.len()).find(|row| tests.is_valid(*row) && tests.value(*row) == wrong) {
        let text = |array: &arrow::array::ArrayRef| {
            let row = if array.len() == 1 { 0 } else { row };
            let texts = array.as_string_view_opt().filter(|texts| row < texts.len() && texts.is_valid(row));
            texts.map(|texts| texts.value(row).to_owned()).unwrap_or_default()
        };
        let texts = texts.iter().map(text).collect::<Vec<_>>();
        let about = About { schema: texts.first().cloned(), ..About::default() };
        return Err(error(row, &texts, about));
    }
    columns.result(Arc::new(BooleanArray::from(vec![true; columns.rows()])))
}
