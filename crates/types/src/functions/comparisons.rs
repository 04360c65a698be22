//! Comparisons, and the order that sorting, grouping and joining see.
//!
//! Most types are compared by the engine's own kernels ([`Special`]). The others have a kernel here: intervals count by
//! their length, `char(n)` without blanks at the end, arrays element by element, maps entry by entry,
//! records field by field.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int32Array, ListArray, MapArray, make_comparator};
use arrow::compute::{SortOptions, interleave};
use arrow::datatypes::{Field, IntervalMonthDayNano, IntervalMonthDayNanoType};
use datafusion_expr::ColumnarValue;
use diligence_base::{Error, Result};

use super::catalog::Catalog;
use super::columns::{Columns, kernel};
use super::decimal::Decimal;
use super::udf::held_as;
use super::{Body, Call, Special, collated};
use crate::SqlType;
use crate::network_type::NetworkKind;
use crate::search::{Query, SearchKind, Vector};
use crate::sql_type::RecordField;
use crate::text::networks::Address;
use crate::text::{Multirange, Range, ZonedTime};

/// Types that the engine's kernels compare as PostgreSQL does.
const NATIVE: [&str; 20] = [
    "boolean",
    "smallint",
    "integer",
    "bigint",
    "numeric",
    "real",
    "double precision",
    "text",
    "name",
    "bytea",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "uuid",
    "oid",
    "bits",
    "varbit",
    "macaddr",
    "macaddr8",
];

/// Declares the operators.
pub(super) fn declare(catalog: &mut Catalog) {
    for (sign, special) in [
        ("=", Special::Equal),
        ("<>", Special::NotEqual),
        ("<", Special::Less),
        ("<=", Special::LessOrEqual),
        (">", Special::Greater),
        (">=", Special::GreaterOrEqual),
    ] {
        for name in NATIVE {
            catalog.add(signature(sign, name, name), Body::Special(special));
        }
        catalog.add(signature(sign, "real", "double precision"), Body::Special(special));
        catalog.add(signature(sign, "double precision", "real"), Body::Special(special));
        let compares = kernel_of(special);
        for name in ["interval", "bpchar", "jsonb", "anyenum", "anyarray", "anyrecord", "anymap"] {
            catalog.add(signature(sign, name, name), compares.clone());
        }
    }
    catalog
        .add("interval_order_key(interval) -> numeric", kernel!(|a: IntervalMonthDayNano| Decimal::integer(length(a))))
        .gives(|_, _| Ok(SqlType::decimal(38, 0)));
    catalog.add("bpchar_order_key(bpchar) -> text", kernel!(|a: &str| a.trim_end_matches(' ')));
    catalog.add("jsonb_order_key(jsonb) -> bytea", kernel!(try |a: &str| crate::text::json::order_key(a)));
    catalog.add("enum_order_key(anyenum) -> integer", Body::Kernel(enum_places));
    catalog.add("greatest(variadic anycompatible) -> anycompatible", Body::Kernel(greatest)).lenient();
    catalog.add("least(variadic anycompatible) -> anycompatible", Body::Kernel(least)).lenient();
}

/// A signature with names that are known at compile time; there are some 130 of them, made once.
fn signature(sign: &str, left: &str, right: &str) -> &'static str {
    Box::leak(format!("{sign}({left}, {right}) -> boolean").into_boxed_str())
}

/// The length by which intervals are compared, in microseconds: months of 30 days, days of 24 hours.
pub(super) fn length(interval: IntervalMonthDayNano) -> i128 {
    let days = i128::from(interval.months) * 30 + i128::from(interval.days);
    days * i128::from(super::calendar::DAY) + i128::from(interval.nanoseconds / 1000)
}

/// How a row of one column compares with a row of another. NULLs are equal and come last.
type Comparer = Box<dyn Fn(usize, usize) -> Ordering + Send + Sync>;

/// Compares values of a type. Fails with kind `Bug` if the columns do not hold it.
pub(super) fn comparer(sql_type: &SqlType, left: &ArrayRef, right: &ArrayRef) -> Result<Comparer> {
    let nulls = (left.clone(), right.clone());
    let values: Comparer = match sql_type {
        SqlType::Interval => {
            let (a, b) = (intervals(left)?, intervals(right)?);
            Box::new(move |i, j| length(a[i]).cmp(&length(b[j])))
        }
        SqlType::Char(_) => {
            let (a, b) = (texts(left)?, texts(right)?);
            Box::new(move |i, j| a.value(i).trim_end_matches(' ').cmp(b.value(j).trim_end_matches(' ')))
        }
        SqlType::Jsonb => by_key(left, right, crate::text::json::order_key)?,
        SqlType::Enum(one) => {
            let (a, b) = (one.places(&texts(left)?), one.places(&texts(right)?));
            Box::new(move |i, j| a[i].cmp(&b[j]))
        }
        SqlType::TimeTz => by_key(left, right, |text| ZonedTime::held(text).map(ZonedTime::order_key))?,
        SqlType::Range(kind) => by_key(left, right, |text| Range::held(text, *kind).map(|range| range.order_key()))?,
        SqlType::Network(kind) if kind.is_internet() => {
            by_key(left, right, |text| Address::read(text, NetworkKind::Inet).map(|one| one.order_key()))?
        }
        SqlType::Search(kind @ (SearchKind::Vector | SearchKind::Query)) => {
            by_key(left, right, |text| search_key(text, *kind))?
        }
        SqlType::Multirange(kind) => {
            by_key(left, right, |text| Multirange::held(text, *kind).map(|one| one.order_key()))?
        }
        SqlType::Collated(one) => match one.collation.collator()? {
            None => comparer(&one.base, left, right)?,
            Some(_) => {
                let (a, b) = (collated::keys_of(sql_type, left)?, collated::keys_of(sql_type, right)?);
                comparer(&SqlType::Bytea, &a, &b)?
            }
        },
        SqlType::Array(element) => {
            let (a, b) = (super::columns::lists(left)?.clone(), super::columns::lists(right)?.clone());
            let elements = comparer(element, a.values(), b.values())?;
            Box::new(move |i, j| {
                let (a, b) = (a.value_offsets(), b.value_offsets());
                let (a, b) = (a[i] as usize..a[i + 1] as usize, b[j] as usize..b[j + 1] as usize);
                let first = a.clone().zip(b.clone()).map(|(i, j)| elements(i, j)).find(|order| order.is_ne());
                first.unwrap_or_else(|| a.len().cmp(&b.len()))
            })
        }
        SqlType::Map(pair) => {
            let (a, b) = (left.as_map_opt(), right.as_map_opt());
            let (a, b) = a.zip(b).ok_or_else(|| Error::bug("no maps to compare"))?;
            let list = |map: &MapArray| -> Result<ArrayRef> {
                let item = Field::new(Field::LIST_FIELD_DEFAULT_NAME, map.entries().data_type().clone(), true);
                let entries = Arc::new(map.entries().clone());
                let list = ListArray::try_new(Arc::new(item), map.offsets().clone(), entries, map.nulls().cloned());
                Ok(Arc::new(list.map_err(|error| Error::bug(error.to_string()))?))
            };
            comparer(&entries_type(pair), &list(a)?, &list(b)?)?
        }
        SqlType::Record(fields) => {
            let (a, b) = (left.as_struct_opt(), right.as_struct_opt());
            let (a, b) = a.zip(b).ok_or_else(|| Error::bug("no records to compare"))?;
            let columns = fields.iter().zip(a.columns().iter().zip(b.columns()));
            let columns = columns.map(|(field, (a, b))| comparer(&field.sql_type, a, b)).collect::<Result<Vec<_>>>()?;
            Box::new(move |i, j| {
                columns.iter().map(|compare| compare(i, j)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
            })
        }
        _ => {
            let options = SortOptions { descending: false, nulls_first: false };
            return make_comparator(left, right, options).map_err(|error| Error::bug(error.to_string()));
        }
    };
    Ok(Box::new(move |i, j| match (nulls.0.is_null(i), nulls.1.is_null(j)) {
        (false, false) => values(i, j),
        (left, right) => left.cmp(&right),
    }))
}

/// The type of the list of a map's entries, by which maps compare.
pub(super) fn entries_type((key, value): &(SqlType, SqlType)) -> SqlType {
    let field = |name: &str, sql_type: &SqlType| RecordField { name: name.to_owned(), sql_type: sql_type.clone() };
    SqlType::array_of(SqlType::Record(vec![field("key", key), field("value", value)].into()))
}

/// Compares texts by the keys that they have. Fails if one has none.
fn by_key<K: Ord + Send + Sync + 'static>(
    left: &ArrayRef,
    right: &ArrayRef,
    key: impl Fn(&str) -> Result<K>,
) -> Result<Comparer> {
    let keys = |array: &ArrayRef| {
        let texts = texts(array)?;
        texts.iter().map(|text| text.map(&key).transpose()).collect::<Result<Vec<Option<K>>>>()
    };
    let (a, b) = (keys(left)?, keys(right)?);
    Ok(Box::new(move |i, j| a[i].cmp(&b[j])))
}

/// Bytes that sort as documents or queries do.
pub(super) fn search_key(text: &str, kind: SearchKind) -> Result<Vec<u8>> {
    match kind {
        SearchKind::Query => Query::read(text).map(|query| query.order_key()),
        _ => Vector::read(text).map(|vector| vector.order_key()),
    }
}

fn intervals(array: &ArrayRef) -> Result<arrow::buffer::ScalarBuffer<IntervalMonthDayNano>> {
    let intervals = array.as_primitive_opt::<IntervalMonthDayNanoType>();
    Ok(intervals.ok_or_else(|| Error::bug("no intervals to compare"))?.values().clone())
}

fn texts(array: &ArrayRef) -> Result<arrow::array::StringViewArray> {
    array.as_string_view_opt().cloned().ok_or_else(|| Error::bug("no texts to compare"))
}

/// The places of labels.
fn enum_places(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let [SqlType::Enum(one)] = call.arguments else { return Err(Error::bug("no enum to find a label of")) };
    let columns = Columns::new(arguments, call);
    let [labels] = columns.arrays() else { return Err(Error::bug("the place of other than one label")) };
    columns.result(Arc::new(Int32Array::from(one.places(&texts(labels)?))))
}

/// A comparison by its sign, of a type that has an order of its own.
pub(super) fn kernel_of_sign(sign: &str) -> Body {
    kernel_of(match sign {
        "=" => Special::Equal,
        "<>" => Special::NotEqual,
        "<" => Special::Less,
        "<=" => Special::LessOrEqual,
        ">" => Special::Greater,
        _ => Special::GreaterOrEqual,
    })
}

fn kernel_of(special: Special) -> Body {
    Body::Kernel(match special {
        Special::Equal => |arguments, call| compare(arguments, call, Ordering::is_eq),
        Special::NotEqual => |arguments, call| compare(arguments, call, Ordering::is_ne),
        Special::Less => |arguments, call| compare(arguments, call, Ordering::is_lt),
        Special::LessOrEqual => |arguments, call| compare(arguments, call, Ordering::is_le),
        Special::Greater => |arguments, call| compare(arguments, call, Ordering::is_gt),
        _ => |arguments, call| compare(arguments, call, Ordering::is_ge),
    })
}

fn compare(arguments: &[ColumnarValue], call: &Call<'_>, holds: fn(Ordering) -> bool) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let [left, right] = columns.arrays() else { return Err(Error::bug("a comparison of other than two values")) };
    let order = comparer(&call.arguments[0], left, right)?;
    let (left_step, right_step) = (usize::from(left.len() != 1), usize::from(right.len() != 1));
    let value = |row: usize| {
        let (i, j) = (row * left_step, row * right_step);
        (left.is_valid(i) && right.is_valid(j)).then(|| holds(order(i, j)))
    };
    columns.result(Arc::new((0..columns.rows()).map(value).collect::<BooleanArray>()))
}

fn greatest(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    furthest(arguments, call, Ordering::is_gt)
}

fn least(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    furthest(arguments, call, Ordering::is_lt)
}

/// Of each row the value that is beyond the others; NULLs do not count.
fn furthest(arguments: &[ColumnarValue], call: &Call<'_>, is_beyond: fn(Ordering) -> bool) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    // Numbers in quotes have digits of their own.
    let wanted = call.returns.arrow();
    let arrays = columns.arrays().iter().map(|array| held_as(array, &wanted));
    let arrays = arrays.collect::<std::result::Result<Vec<_>, _>>().map_err(|error| Error::bug(error.to_string()))?;
    let mut comparers = Vec::new();
    for left in &arrays {
        let row: Result<Vec<Comparer>> = arrays.iter().map(|right| comparer(call.returns, left, right)).collect();
        comparers.push(row?);
    }
    let place = |column: usize, row: usize| if arrays[column].len() == 1 { 0 } else { row };
    let chosen = (0..columns.rows()).map(|row| {
        let mut best = 0;
        for column in 1..arrays.len() {
            let (i, j) = (place(column, row), place(best, row));
            let is_better = arrays[best].is_null(j) || is_beyond(comparers[column][best](i, j));
            if arrays[column].is_valid(i) && is_better {
                best = column;
            }
        }
        (best, place(best, row))
    });
    let chosen: Vec<(usize, usize)> = chosen.collect();
    let values: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
    let array = match chosen.is_empty() {
        true => arrow::array::new_empty_array(&call.returns.arrow()),
        false => interleave(&values, &chosen).map_err(|error| Error::bug(error.to_string()))?,
    };
    columns.result(array)
}
