//! Functions of lists that DuckDB has and PostgreSQL has not, and what aggregates make of the list of their values.
//!
//! `list_sum` and its like are aggregates of the rows that the list unnests to, and lambdas expressions of those rows:
//! the binder makes subqueries of them.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, ListArray, MapArray, StructArray, UInt64Array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::take;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion_expr::ColumnarValue;
use diligence_base::{Error, Result};

use super::catalog::Catalog;
use super::columns::{Columns, kernel, lists, too_large};
use super::comparisons::comparer;
use super::errors::invalid_argument;
use super::{Body, Call};
use crate::SqlType;
use crate::sql_type::RecordField;
use crate::sql_type::record_type::RecordType;

/// Elements that a list is resized to at most.
const ELEMENTS_MAX: i64 = 1 << 24;

/// Declares the functions.
pub(super) fn declare(catalog: &mut Catalog) {
    for signature in ["array_sort(anyarray, text?, text?) -> anyarray", "list_sort(anyarray, text?, text?) -> anyarray"]
    {
        catalog.add(signature, Body::Kernel(|arguments, call| sorted(arguments, call, false)));
    }
    for signature in
        ["array_reverse_sort(anyarray, text?) -> anyarray", "list_reverse_sort(anyarray, text?) -> anyarray"]
    {
        catalog.add(signature, Body::Kernel(|arguments, call| sorted(arguments, call, true)));
    }
    for signature in
        ["list_grade_up(anyarray, text?, text?) -> bigint[]", "array_grade_up(anyarray, text?, text?) -> bigint[]"]
    {
        catalog.add(signature, Body::Kernel(grades));
    }
    catalog.add_all(
        &["list_unique(anyarray) -> bigint", "array_unique(anyarray) -> bigint"],
        Body::Kernel(count_of_different),
    );
    for signature in ["list_select(anyarray, bigint[]) -> anyarray", "array_select(anyarray, bigint[]) -> anyarray"] {
        catalog.add(signature, Body::Kernel(selected));
    }
    for signature in ["list_where(anyarray, boolean[]) -> anyarray", "array_where(anyarray, boolean[]) -> anyarray"] {
        catalog.add(signature, Body::Kernel(chosen));
    }
    for signature in
        ["list_resize(anyarray, bigint, any?) -> anyarray", "array_resize(anyarray, bigint, any?) -> anyarray"]
    {
        catalog.add(signature, Body::Kernel(resized)).lenient();
    }
    catalog.add("array_with_element(anyarray, bigint, anyelement) -> anyarray", Body::Kernel(with_element)).lenient();
    for signature in ["list_zip(variadic any) -> text", "array_zip(variadic any) -> text"] {
        catalog.add(signature, Body::Kernel(zipped)).lenient().gives(|types, _| {
            let field = |(index, list): (usize, &SqlType)| {
                let sql_type =
                    list.element().cloned().ok_or_else(|| Error::input("list_zip takes lists").with_code("42883"))?;
                let sql_type = if sql_type == SqlType::Unknown { SqlType::Text } else { sql_type };
                Ok(RecordField { name: format!("f{}", index + 1), sql_type })
            };
            let fields = types.iter().enumerate().map(field).collect::<Result<Vec<_>>>()?;
            Ok(SqlType::array_of(SqlType::Record(RecordType::row(fields))))
        });
    }
    catalog.add("map_from_entries(anyarray) -> text", Body::Kernel(map_of_entries)).gives(|types, _| {
        match types.first().and_then(SqlType::element) {
            Some(SqlType::Record(fields)) if fields.len() == 2 => {
                Ok(SqlType::Map(Arc::new((fields[0].sql_type.clone(), fields[1].sql_type.clone()))))
            }
            _ => Err(Error::input("map_from_entries takes a list of pairs").with_code("42883")),
        }
    });
    of_values(catalog);
}

/// What aggregates make of the array of a group's values: the binder calls these for the aggregate of the name.
fn of_values(catalog: &mut Catalog) {
    catalog.add("histogram_of_values(anyarray) -> text", Body::Kernel(histogram)).gives(|types, _| {
        let key = types.first().and_then(SqlType::element).cloned().unwrap_or(SqlType::Text);
        Ok(SqlType::Map(Arc::new((key, SqlType::BigInt))))
    });
    catalog.add("top_of_values(anyarray, bigint) -> anyarray", Body::Kernel(top));
    catalog.add("entropy_of_values(anyarray) -> double precision", Body::Kernel(entropy));
    catalog.add(
        "product_of_values(double precision[]) -> double precision",
        kernel!(|values: ArrayRef| {
            let values = values.as_primitive::<Float64Type>();
            (values.null_count() < values.len()).then(|| values.iter().flatten().product::<f64>())
        }),
    );
    catalog.add(
        "mad_of_values(double precision[]) -> double precision",
        kernel!(|values: ArrayRef| {
            let mut values = values.as_primitive::<Float64Type>().iter().flatten().collect::<Vec<_>>();
            median(&mut values).and_then(|middle| {
                values.iter_mut().for_each(|value| *value = (*value - middle).abs());
                median(&mut values)
            })
        }),
    );
    catalog.add(
        "skewness_of_sums(bigint, double precision, double precision, double precision) -> double precision",
        kernel!(|count: i64, sum: f64, squares: f64, cubes: f64| {
            let (n, mean) = (count as f64, sum / count as f64);
            let variance = squares / n - mean * mean;
            let third = cubes / n - 3.0 * mean * squares / n + 2.0 * mean.powi(3);
            let skewness = (n * (n - 1.0)).sqrt() / (n - 2.0) * third / variance.max(0.0).powf(1.5);
            (count > 2 && variance > 0.0).then_some(skewness)
        }),
    );
    catalog.add(
        "kurtosis_pop_of_sums(bigint, double precision, double precision, double precision, double precision) \
         -> double precision",
        kernel!(|count: i64, sum: f64, squares: f64, cubes: f64, fourths: f64| {
            kurtosis(count, sum, squares, cubes, fourths).filter(|_| count > 1).map(|value| value - 3.0)
        }),
    );
    catalog.add(
        "kurtosis_of_sums(bigint, double precision, double precision, double precision, double precision) \
         -> double precision",
        kernel!(|count: i64, sum: f64, squares: f64, cubes: f64, fourths: f64| {
            let n = count as f64;
            let scaled = |value: f64| (n - 1.0) * ((n + 1.0) * value - 3.0 * (n - 1.0)) / ((n - 2.0) * (n - 3.0));
            kurtosis(count, sum, squares, cubes, fourths).filter(|_| count > 3).map(scaled)
        }),
    );
}

/// The fourth moment by the square of the variance.
fn kurtosis(count: i64, sum: f64, squares: f64, cubes: f64, fourths: f64) -> Option<f64> {
    let (n, mean) = (count as f64, sum / count as f64);
    let variance = squares / n - mean * mean;
    let fourth = (fourths - 4.0 * cubes * mean + 6.0 * squares * mean * mean) / n - 3.0 * mean.powi(4);
    (variance > 0.0).then(|| fourth / (variance * variance))
}

fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => None,
        length if length % 2 == 1 => Some(values[half]),
        _ => Some((values[half - 1] + values[half]) / 2.0),
    }
}

fn bug(error: arrow::error::ArrowError) -> Error {
    Error::bug(error.to_string())
}

/// The lists of a call's first argument.
struct Lists<'a> {
    list: &'a ListArray,
    element: &'a SqlType,
    step: usize,
}

impl<'a> Lists<'a> {
    fn of(columns: &'a Columns<'_>, call: &'a Call<'_>) -> Result<Self> {
        let array = columns.arrays().first().ok_or_else(|| Error::bug("a function of lists without one"))?;
        let element = call.arguments.first().and_then(SqlType::element);
        let element = element.ok_or_else(|| Error::bug("an argument that is no array"))?;
        Ok(Self { list: lists(array)?, element, step: usize::from(array.len() != 1) })
    }

    /// The places of a row's elements; `None` for NULL.
    fn range(&self, row: usize) -> Option<std::ops::Range<usize>> {
        let row = row * self.step;
        let ends = self.list.value_offsets();
        self.list.is_valid(row).then(|| ends[row] as usize..ends[row + 1] as usize)
    }

    fn compare(&self) -> Result<impl Fn(usize, usize) -> Ordering + use<'a>> {
        let compare = comparer(self.element, self.list.values(), self.list.values())?;
        let values = self.list.values();
        Ok(move |a: usize, b: usize| match (values.is_valid(a), values.is_valid(b)) {
            (true, true) => compare(a, b),
            (a, b) => b.cmp(&a),
        })
    }

    /// The places of a row's elements that are not NULL, in order.
    fn in_order(&self, row: usize, compare: &impl Fn(usize, usize) -> Ordering) -> Option<Vec<usize>> {
        let mut places = self.range(row)?.filter(|place| self.list.values().is_valid(*place)).collect::<Vec<_>>();
        places.sort_by(|a, b| compare(*a, *b));
        Some(places)
    }
}

/// Lists of the elements of these places; a place that is `None` is NULL.
fn taken(
    call: &Call<'_>,
    columns: &Columns<'_>,
    from: &ArrayRef,
    rows: Vec<Option<Vec<Option<u64>>>>,
) -> Result<ColumnarValue> {
    let DataType::List(item) = call.returns.arrow() else { return Err(Error::bug("a list is wanted")) };
    let (mut places, mut ends) = (Vec::new(), vec![0_i32]);
    for row in &rows {
        places.extend(row.iter().flatten().copied());
        ends.push(i32::try_from(places.len()).map_err(|_| too_large())?);
    }
    let elements = take(from, &UInt64Array::from(places), None).map_err(bug)?;
    let nulls = Some(NullBuffer::from_iter(rows.iter().map(Option::is_some)));
    columns.result(Arc::new(ListArray::try_new(item, OffsetBuffer::new(ends.into()), elements, nulls).map_err(bug)?))
}

/// A word of a row's argument.
fn word(columns: &Columns<'_>, argument: usize, row: usize) -> Option<String> {
    let texts = columns.arrays().get(argument)?.as_string_view_opt()?;
    let row = if texts.len() == 1 { 0 } else { row };
    texts.is_valid(row).then(|| texts.value(row).to_uppercase())
}

/// Sorted by `ASC` or `DESC`, and `NULLS FIRST` or `NULLS LAST`, which is so without a word.
fn sorted(arguments: &[ColumnarValue], call: &Call<'_>, is_reverse: bool) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let lists = Lists::of(&columns, call)?;
    let compare = lists.compare()?;
    let order = |row: usize| {
        let places = sorted_places(&columns, &lists, row, is_reverse, &compare)?;
        Ok(places.map(|places| places.into_iter().map(|place| Some(place as u64)).collect()))
    };
    let rows = (0..columns.rows()).map(order).collect::<Result<_>>()?;
    taken(call, &columns, lists.list.values(), rows)
}

/// The places of a row's elements in the order that the call says; `None` for NULL.
fn sorted_places(
    columns: &Columns<'_>,
    lists: &Lists<'_>,
    row: usize,
    is_reverse: bool,
    compare: &impl Fn(usize, usize) -> Ordering,
) -> Result<Option<Vec<usize>>> {
    let Some(range) = lists.range(row) else { return Ok(None) };
    let nulls_argument = if is_reverse { 1 } else { 2 };
    let descending = match (is_reverse, word(columns, 1, row).as_deref()) {
        (true, _) => true,
        (false, None | Some("ASC")) => false,
        (false, Some("DESC")) => true,
        (false, Some(other)) => return Err(invalid_argument(format!("a list is sorted ASC or DESC, not {other}"))),
    };
    let nulls_first = match word(columns, nulls_argument, row).as_deref() {
        None | Some("NULLS LAST") => false,
        Some("NULLS FIRST") => true,
        Some(other) => {
            return Err(invalid_argument(format!("NULLs of a list are NULLS FIRST or NULLS LAST, not {other}")));
        }
    };
    let (mut there, nulls) = range.partition::<Vec<_>, _>(|place| lists.list.values().is_valid(*place));
    there.sort_by(|a, b| if descending { compare(*b, *a) } else { compare(*a, *b) });
    Ok(Some(if nulls_first { [nulls, there].concat() } else { [there, nulls].concat() }))
}

/// Where each element of the sorted list is in the list, from 1.
fn grades(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let lists = Lists::of(&columns, call)?;
    let compare = lists.compare()?;
    let order = |row: usize| {
        let first = lists.range(row).map_or(0, |range| range.start);
        let places = sorted_places(&columns, &lists, row, false, &compare)?;
        let numbered = |places: Vec<usize>| places.into_iter().map(|place| Some((place - first) as i64 + 1)).collect();
        Ok(places.map(numbered))
    };
    let rows = (0..columns.rows()).map(order).collect::<Result<Vec<Option<Vec<Option<i64>>>>>>()?;
    columns.result(Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(rows)))
}

/// How many elements are different; NULL does not count.
fn count_of_different(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let lists = Lists::of(&columns, call)?;
    let compare = lists.compare()?;
    let count = |row: usize| {
        let mut places = lists.in_order(row, &compare)?;
        places.dedup_by(|a, b| compare(*a, *b) == Ordering::Equal);
        Some(places.len() as i64)
    };
    columns.result(Arc::new((0..columns.rows()).map(count).collect::<Int64Array>()))
}

/// The elements of the places that a second list says, from 1; NULL beyond the list.
fn selected(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let from = Lists::of(&columns, call)?;
    let wanted = lists(&columns.arrays()[1])?;
    let picks = |row: usize| {
        let range = from.range(row)?;
        let row = if wanted.len() == 1 { 0 } else { row };
        let places = wanted.is_valid(row).then(|| wanted.value(row))?;
        let place = |place: Option<i64>| {
            let place = usize::try_from(place?.checked_sub(1)?).ok()?;
            (place < range.len()).then_some((range.start + place) as u64)
        };
        Some(places.as_primitive::<Int64Type>().iter().map(place).collect::<Vec<_>>())
    };
    taken(call, &columns, from.list.values(), (0..columns.rows()).map(picks).collect())
}

/// The elements where a second list is true.
fn chosen(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let from = Lists::of(&columns, call)?;
    let masks = lists(&columns.arrays()[1])?;
    let picks = |row: usize| {
        let range = from.range(row)?;
        let row = if masks.len() == 1 { 0 } else { row };
        let mask = masks.is_valid(row).then(|| masks.value(row))?;
        let mask: &BooleanArray = mask.as_boolean_opt()?;
        let kept = range.zip(mask.iter()).filter(|(_, is_kept)| *is_kept == Some(true));
        Some(kept.map(|(place, _)| Some(place as u64)).collect::<Vec<_>>())
    };
    taken(call, &columns, from.list.values(), (0..columns.rows()).map(picks).collect())
}

/// The list with so many elements: the first ones, or with the value behind them.
fn resized(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let from = Lists::of(&columns, call)?;
    let at = |array: &ArrayRef, row: usize| if array.len() == 1 { 0 } else { row };
    let sizes = columns.arrays()[1].as_primitive::<Int64Type>();
    if sizes.iter().flatten().any(|size| size > ELEMENTS_MAX) {
        return Err(super::errors::value_error(format!("a list of more than {ELEMENTS_MAX} elements"), "54000"));
    }
    let fill = match columns.arrays().get(2) {
        // Cast by hand: the value may be of any type that becomes the elements'.
        Some(fill) => Some(
            arrow::compute::cast(fill, from.list.values().data_type())
                .map_err(|_| invalid_argument("the value that fills a list up is of the type of its elements"))?,
        ),
        None => None,
    };
    let values = match &fill {
        Some(fill) => arrow::compute::concat(&[from.list.values().as_ref(), fill.as_ref()]).map_err(bug)?,
        None => from.list.values().clone(),
    };
    let behind = from.list.values().len();
    let picks = |row: usize| {
        let range = from.range(row)?;
        let size_row = at(&columns.arrays()[1], row);
        let size = if sizes.is_valid(size_row) { sizes.value(size_row) } else { 0 };
        let size = usize::try_from(size).unwrap_or(0);
        let filler = fill.as_ref().map(|fill| (behind + at(fill, row)) as u64);
        Some((0..size).map(|place| (place < range.len()).then_some((range.start + place) as u64).or(filler)).collect())
    };
    taken(call, &columns, &values, (0..columns.rows()).map(picks).collect())
}

/// The array with another element at a place; one behind its end makes it longer, with NULLs between. Fails with 22004
/// for no place, 2202E for one before the first.
fn with_element(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let from = Lists::of(&columns, call)?;
    let [_, places, elements] = columns.arrays() else { return Err(Error::bug("an element of other arguments")) };
    let at = |array: &ArrayRef, row: usize| if array.len() == 1 { 0 } else { row };
    let numbers = places.as_primitive::<Int64Type>();
    let elements = arrow::compute::cast(elements, from.list.values().data_type()).map_err(bug)?;
    let values = arrow::compute::concat(&[from.list.values().as_ref(), elements.as_ref()]).map_err(bug)?;
    let behind = from.list.values().len();
    let picks = |row: usize| {
        let range = from.range(row).unwrap_or(0..0);
        let place = at(places, row);
        if numbers.is_null(place) {
            return Err(super::errors::value_error("array subscript in assignment must not be null", "22004"));
        }
        let place =
            usize::try_from(numbers.value(place)).ok().filter(|place| (1..=ELEMENTS_MAX as usize).contains(place));
        let place = place.ok_or_else(|| super::errors::value_error("array subscript out of range", "2202E"))? - 1;
        let pick = |index: usize| match index {
            index if index == place => Some((behind + at(&elements, row)) as u64),
            index => (index < range.len()).then_some((range.start + index) as u64),
        };
        Ok(Some((0..range.len().max(place + 1)).map(pick).collect::<Vec<_>>()))
    };
    let rows = (0..columns.rows()).map(picks).collect::<Result<Vec<_>>>()?;
    taken(call, &columns, &values, rows)
}

/// The elements of lists side by side, as many as the longest has.
fn zipped(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let sides = columns.arrays().iter().map(lists).collect::<Result<Vec<_>>>()?;
    let mut ends = vec![0_i32];
    let mut places = vec![Vec::new(); sides.len()];
    for row in 0..columns.rows() {
        let range = |list: &ListArray| {
            let row = if list.len() == 1 { 0 } else { row };
            let offsets = list.value_offsets();
            if list.is_valid(row) { offsets[row] as u64..offsets[row + 1] as u64 } else { 0..0 }
        };
        let longest = sides.iter().map(|list| range(list)).map(|range| range.end - range.start).max().unwrap_or(0);
        for (list, places) in sides.iter().zip(&mut places) {
            let range = range(list);
            places.extend((0..longest).map(|place| Some(range.start + place).filter(|place| *place < range.end)));
        }
        ends.push(places.first().and_then(|places| i32::try_from(places.len()).ok()).ok_or_else(too_large)?);
    }
    let DataType::List(item) = call.returns.arrow() else { return Err(Error::bug("a list is wanted")) };
    let DataType::Struct(fields) = item.data_type().clone() else { return Err(Error::bug("rows are structs")) };
    let picked = sides.iter().zip(places).map(|(list, places)| take(list.values(), &UInt64Array::from(places), None));
    let picked = picked.collect::<std::result::Result<Vec<_>, _>>().map_err(bug)?;
    let rows = StructArray::try_new(fields, picked, None).map_err(bug)?;
    let list = ListArray::try_new(item, OffsetBuffer::new(ends.into()), Arc::new(rows), None).map_err(bug)?;
    columns.result(Arc::new(list))
}

/// Maps with these places of keys and values as entries.
pub(super) fn maps(
    call: &Call<'_>,
    columns: &Columns<'_>,
    keys: ArrayRef,
    values: ArrayRef,
    ends: Vec<i32>,
    nulls: NullBuffer,
) -> Result<ColumnarValue> {
    let DataType::Map(entries, _) = call.returns.arrow() else { return Err(Error::bug("a map is wanted")) };
    let DataType::Struct(fields) = entries.data_type().clone() else { return Err(Error::bug("entries are records")) };
    let records = StructArray::try_new(fields, vec![keys, values], None).map_err(bug)?;
    let map = MapArray::try_new(entries, OffsetBuffer::new(ends.into()), records, Some(nulls), false);
    columns.result(Arc::new(map.map_err(bug)?))
}

fn map_of_entries(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let list = lists(&columns.arrays()[0])?;
    let records = list.values().as_struct_opt().ok_or_else(|| Error::bug("entries that are no records"))?;
    if records.column(0).null_count() > 0 || records.null_count() > 0 {
        return Err(invalid_argument("a key of a map must not be NULL"));
    }
    let ends = list.value_offsets().to_vec();
    let nulls = list.nulls().cloned().unwrap_or_else(|| NullBuffer::new_valid(list.len()));
    maps(call, &columns, records.column(0).clone(), records.column(1).clone(), ends, nulls)
}

/// The stretches of equal elements of a row: the first one's place, and how many there are.
fn counts(lists: &Lists<'_>, row: usize, compare: &impl Fn(usize, usize) -> Ordering) -> Option<Vec<(usize, i64)>> {
    let mut counts: Vec<(usize, i64)> = Vec::new();
    for place in lists.in_order(row, compare)? {
        match counts.last_mut() {
            Some((first, count)) if compare(*first, place) == Ordering::Equal => *count += 1,
            _ => counts.push((place, 1)),
        }
    }
    Some(counts)
}

fn histogram(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let lists = Lists::of(&columns, call)?;
    let compare = lists.compare()?;
    let (mut keys, mut values, mut ends, mut valid) = (vec![], vec![], vec![0_i32], vec![]);
    for row in 0..columns.rows() {
        let counts = counts(&lists, row, &compare).filter(|counts| !counts.is_empty());
        valid.push(counts.is_some());
        for (first, count) in counts.into_iter().flatten() {
            keys.push(first as u64);
            values.push(count);
        }
        ends.push(i32::try_from(keys.len()).map_err(|_| too_large())?);
    }
    let keys = take(lists.list.values(), &UInt64Array::from(keys), None).map_err(bug)?;
    maps(call, &columns, keys, Arc::new(Int64Array::from(values)), ends, valid.into())
}

/// The most frequent elements, those that come first go first among equals.
fn top(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let lists = Lists::of(&columns, call)?;
    let compare = lists.compare()?;
    let limits: &Int64Array =
        columns.arrays()[1].as_primitive_opt::<Int64Type>().ok_or_else(|| Error::bug("a number that is none"))?;
    let most = |row: usize| {
        let limit = limits.value(if limits.len() == 1 { 0 } else { row });
        let Ok(limit) = usize::try_from(limit) else { return Err(invalid_argument("a number of values is negative")) };
        let Some(mut counts) = counts(&lists, row, &compare) else { return Ok(None) };
        counts.sort_by_key(|(first, count)| (std::cmp::Reverse(*count), *first));
        Ok(Some(counts.into_iter().take(limit).map(|(first, _)| Some(first as u64)).collect::<Vec<_>>()))
    };
    let rows = (0..columns.rows()).map(most).collect::<Result<_>>()?;
    taken(call, &columns, lists.list.values(), rows)
}

/// The entropy of the elements' frequencies, in bits.
fn entropy(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let lists = Lists::of(&columns, call)?;
    let compare = lists.compare()?;
    let value = |row: usize| {
        let counts = counts(&lists, row, &compare)?;
        let all = counts.iter().map(|(_, count)| *count).sum::<i64>() as f64;
        Some(counts.iter().map(|(_, count)| *count as f64 / all).map(|share| -share * share.log2()).sum::<f64>() + 0.0)
    };
    columns.result(Arc::new((0..columns.rows()).map(value).collect::<arrow::array::Float64Array>()))
}
