//! Functions of enums (manual, section 9.10).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int32Array, ListBuilder, StringViewArray, StringViewBuilder};
use arrow::datatypes::{DataType, Field};
use datafusion_expr::ColumnarValue;
use diligence_base::{Error, Result};

use super::catalog::Catalog;
use super::columns::Columns;
use super::{Body, Call};
use crate::SqlType;
use crate::enum_type::EnumType;

/// Declares the functions. The value of an argument says nothing, where only its type is asked for.
pub(super) fn declare(catalog: &mut Catalog) {
    catalog.add("enum_first(anyenum) -> anyenum", Body::Kernel(|given, call| end(given, call, <[_]>::first))).lenient();
    catalog.add("enum_last(anyenum) -> anyenum", Body::Kernel(|given, call| end(given, call, <[_]>::last))).lenient();
    catalog.add("enum_code(anyenum) -> integer", Body::Kernel(code));
    catalog.add("enum_range(anyenum) -> anyarray", Body::Kernel(range)).lenient();
    catalog.add("enum_range(anyenum, anyenum) -> anyarray", Body::Kernel(range)).lenient();
}

fn enum_of<'a>(call: &Call<'a>) -> Result<&'a EnumType> {
    match call.arguments.first() {
        Some(SqlType::Enum(one)) => Ok(one),
        _ => Err(Error::bug("no enum to ask for its labels")),
    }
}

/// A label, for all rows.
fn end(arguments: &[ColumnarValue], call: &Call<'_>, which: fn(&[String]) -> Option<&String>) -> Result<ColumnarValue> {
    let one = enum_of(call)?;
    let label =
        which(&one.labels).ok_or_else(|| Error::input(format!("enum {one} contains no values")).with_code("55000"))?;
    let columns = Columns::new(arguments, call);
    let labels: ArrayRef = Arc::new(StringViewArray::from_iter_values(std::iter::repeat_n(label, columns.rows())));
    columns.result(labels)
}

/// The place of a value among the labels, from 0 on.
fn code(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let one = enum_of(call)?;
    let columns = Columns::new(arguments, call);
    let texts = columns.arrays().first().and_then(|array| array.as_any().downcast_ref::<StringViewArray>());
    let places = one.places(texts.ok_or_else(|| Error::bug("labels are no texts"))?);
    let code = |row: usize| {
        let place = places.get(if places.len() == 1 { 0 } else { row }).copied().flatten()?;
        Some(place.unsigned_abs() as i32)
    };
    columns.result(Arc::new((0..columns.rows()).map(code).collect::<Int32Array>()))
}

/// The labels from one to another; NULL is the first, and the last.
fn range(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let one = enum_of(call)?;
    let columns = Columns::new(arguments, call);
    let ends = columns.arrays().iter().map(|array| {
        let texts = array.as_any().downcast_ref::<StringViewArray>();
        texts.map(|texts| one.places(texts)).ok_or_else(|| Error::bug("labels are no texts"))
    });
    let ends = if columns.arrays().len() == 2 { ends.collect::<Result<Vec<_>>>()? } else { vec![] };
    let at = |side: usize, row: usize| {
        let places = ends.get(side)?;
        places.get(if places.len() == 1 { 0 } else { row }).copied().flatten()
    };
    let item = Arc::new(Field::new("item", DataType::Utf8View, true));
    let mut lists = ListBuilder::new(StringViewBuilder::new()).with_field(item);
    for row in 0..columns.rows() {
        let first = at(0, row).map_or(0, |place| place.unsigned_abs() as usize);
        let last = at(1, row).map_or(one.labels.len(), |place| place.unsigned_abs() as usize + 1);
        for label in one.labels.iter().take(last).skip(first) {
            lists.values().append_value(label);
        }
        lists.append(true);
    }
    columns.result(Arc::new(lists.finish()))
}
