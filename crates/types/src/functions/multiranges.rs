//! Functions and operators of multiranges (manual, section 9.20). A range among the operands is the multirange of it
//! alone.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, ListBuilder, StringViewArray, StringViewBuilder,
};
use arrow::datatypes::{DataType, Field};
use datafusion_expr::ColumnarValue;
use diligence_base::{Error, Result};

use super::catalog::Catalog;
use super::columns::Columns;
use super::errors::value_error;
use super::ranges::Ranges;
use super::{Body, Call, Kernel};
use crate::SqlType;
use crate::range_type::RangeKind;
use crate::text::{self, Bound, Multirange, Range, ReadOptions};

/// Declares the functions.
pub(super) fn declare(catalog: &mut Catalog) {
    for kind in RangeKind::ALL {
        let (range, name) = (kind.name(), kind.multirange_name());
        let element = kind.element().to_string();
        let signature = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
        let mut add =
            |text: String, kernel: Kernel| catalog.add(signature(text), Body::Kernel(kernel)).is_strict = true;
        let tests: [(&str, Kernel); 8] = [
            ("@>", |given, call| tested(given, call, Multirange::contains)),
            ("<@", |given, call| tested(given, call, |left, right| right.contains(left))),
            ("&&", |given, call| tested(given, call, Multirange::overlaps)),
            ("<<", |given, call| tested(given, call, Multirange::is_before)),
            (">>", |given, call| tested(given, call, |left, right| right.is_before(left))),
            ("&<", |given, call| tested(given, call, Multirange::ends_within)),
            ("&>", |given, call| tested(given, call, Multirange::begins_within)),
            ("-|-", |given, call| tested(given, call, Multirange::is_adjacent)),
        ];
        for (sign, kernel) in tests {
            for (left, right) in [(name, name), (name, range), (range, name)] {
                add(format!("{sign}({left}, {right}) -> boolean"), kernel);
            }
        }
        add(format!("@>({name}, {element}) -> boolean"), |given, call| tested(given, call, Multirange::contains));
        add(format!("<@({element}, {name}) -> boolean"), |given, call| {
            tested(given, call, |one, many| many.contains(one))
        });
        let made: [(&str, Kernel); 3] = [
            ("+", |given, call| computed(given, call, Multirange::union)),
            ("*", |given, call| computed(given, call, Multirange::intersection)),
            ("-", |given, call| computed(given, call, Multirange::difference)),
        ];
        for (sign, kernel) in made {
            add(format!("{sign}({name}, {name}) -> {name}"), kernel);
        }
        let asked: [(&str, Kernel); 5] = [
            ("isempty", |given, call| asked(given, call, |one| one.ranges().is_empty())),
            ("lower_inc", |given, call| asked(given, call, |one| lower(one).is_some_and(|bound| bound.is_inclusive))),
            ("upper_inc", |given, call| asked(given, call, |one| upper(one).is_some_and(|bound| bound.is_inclusive))),
            ("lower_inf", |given, call| {
                asked(given, call, |one| lower(one).is_some_and(|bound| bound.value.is_none()))
            }),
            ("upper_inf", |given, call| {
                asked(given, call, |one| upper(one).is_some_and(|bound| bound.value.is_none()))
            }),
        ];
        for (function, kernel) in asked {
            add(format!("{function}({name}) -> boolean"), kernel);
        }
        add(format!("lower({name}) -> {element}"), |given, call| end(given, call, lower));
        add(format!("upper({name}) -> {element}"), |given, call| end(given, call, upper));
        add(format!("range_merge({name}) -> {range}"), |given, call| {
            texts(given, call, |one| Ok(Some(one.span()?.text())))
        });
        add(format!("multirange({range}) -> {name}"), |given, call| texts(given, call, |one| Ok(Some(one.text()))));
        add(format!("multirange_ranges({name}) -> {range}[]"), ranges);
        add(format!("multirange_order_key({name}) -> bytea"), order_keys);
        for signs in ["=", "<>", "<", "<=", ">", ">="] {
            let kernel = super::comparisons::kernel_of_sign(signs);
            catalog.add(signature(format!("{signs}({name}, {name}) -> boolean")), kernel);
        }
        catalog.add(signature(format!("{name}() -> {name}")), Body::Kernel(built));
        let constructor = format!("{name}(variadic {range}) -> {name}");
        catalog.add(signature(constructor), Body::Kernel(built)).lenient();
        for (values, result) in [(range, name), (name, name)] {
            let whole = format!("range_agg_of_values({values}[]) -> {result}");
            catalog.add(signature(whole), Body::Kernel(|given, call| folded(given, call, union)));
        }
        for values in [range, name] {
            let common = format!("range_intersect_agg_of_values({values}[]) -> {values}");
            catalog.add(signature(common), Body::Kernel(|given, call| folded(given, call, intersection)));
        }
    }
}

/// The kind that a type is about.
fn kind_of(sql_type: &SqlType) -> Option<RangeKind> {
    match sql_type {
        SqlType::Range(kind) | SqlType::Multirange(kind) => Some(*kind),
        SqlType::Array(element) => kind_of(element),
        _ => None,
    }
}

fn called_kind(call: &Call<'_>) -> Result<RangeKind> {
    let mut types = call.arguments.iter().chain([call.returns]);
    types.find_map(kind_of).ok_or_else(|| Error::bug("no range in a function of multiranges"))
}

fn lower(one: &Multirange) -> Option<Bound> {
    one.ranges().first()?.bounds.map(|(lower, _)| lower)
}

fn upper(one: &Multirange) -> Option<Bound> {
    one.ranges().last()?.bounds.map(|(_, upper)| upper)
}

/// The multiranges of an argument of whatever type.
enum Multiranges {
    Held(StringViewArray, RangeKind),
    /// Of ranges, and of values.
    Single(Ranges),
}

impl Multiranges {
    fn of(array: &ArrayRef, sql_type: &SqlType, kind: RangeKind) -> Result<Self> {
        Ok(match sql_type {
            SqlType::Multirange(_) => {
                let texts = array.as_string_view_opt().cloned();
                Self::Held(texts.ok_or_else(|| Error::bug("multiranges are held as texts"))?, kind)
            }
            _ => Self::Single(Ranges::of(array, sql_type, kind)?),
        })
    }

    fn at(&self, row: usize) -> Result<Option<Multirange>> {
        match self {
            Self::Held(texts, kind) => {
                let row = if texts.len() == 1 { 0 } else { row };
                match texts.is_null(row) {
                    true => Ok(None),
                    false => Multirange::held(texts.value(row), *kind).map(Some),
                }
            }
            Self::Single(ranges) => ranges.at(row)?.map(|range| Multirange::new(range.kind, vec![range])).transpose(),
        }
    }
}

/// What is told of two arguments, row by row; `None` where one is NULL.
fn pairs<T>(
    columns: &Columns<'_>,
    call: &Call<'_>,
    of: impl Fn(&Multirange, &Multirange) -> Result<T>,
) -> Result<Vec<Option<T>>> {
    let kind = called_kind(call)?;
    let [left, right] = columns.arrays() else { return Err(Error::bug("other than two multiranges")) };
    let left = Multiranges::of(left, &call.arguments[0], kind)?;
    let right = Multiranges::of(right, &call.arguments[1], kind)?;
    let row = |row: usize| match (left.at(row)?, right.at(row)?) {
        (Some(left), Some(right)) => of(&left, &right).map(Some),
        _ => Ok(None),
    };
    (0..columns.rows()).map(row).collect()
}

fn tested(
    given: &[ColumnarValue],
    call: &Call<'_>,
    test: impl Fn(&Multirange, &Multirange) -> bool,
) -> Result<ColumnarValue> {
    let columns = Columns::new(given, call);
    let rows = pairs(&columns, call, |left, right| Ok(test(left, right)))?;
    columns.result(Arc::new(rows.into_iter().collect::<BooleanArray>()))
}

fn computed(
    given: &[ColumnarValue],
    call: &Call<'_>,
    of: impl Fn(&Multirange, &Multirange) -> Result<Multirange>,
) -> Result<ColumnarValue> {
    let columns = Columns::new(given, call);
    let rows = pairs(&columns, call, |left, right| of(left, right).map(|one| one.text()))?;
    columns.result(Arc::new(rows.into_iter().collect::<StringViewArray>()))
}

/// What is told of each value of the only argument.
fn singles<T>(columns: &Columns<'_>, call: &Call<'_>, of: impl Fn(&Multirange) -> Result<T>) -> Result<Vec<Option<T>>> {
    let [array] = columns.arrays() else { return Err(Error::bug("other than one multirange")) };
    let all = Multiranges::of(array, &call.arguments[0], called_kind(call)?)?;
    (0..columns.rows()).map(|row| all.at(row)?.map(|one| of(&one)).transpose()).collect()
}

fn asked(given: &[ColumnarValue], call: &Call<'_>, of: impl Fn(&Multirange) -> bool) -> Result<ColumnarValue> {
    let columns = Columns::new(given, call);
    let rows = singles(&columns, call, |one| Ok(of(one)))?;
    columns.result(Arc::new(rows.into_iter().collect::<BooleanArray>()))
}

fn texts(
    given: &[ColumnarValue],
    call: &Call<'_>,
    of: impl Fn(&Multirange) -> Result<Option<String>>,
) -> Result<ColumnarValue> {
    let columns = Columns::new(given, call);
    let rows = singles(&columns, call, of)?;
    columns.result(Arc::new(rows.into_iter().map(Option::flatten).collect::<StringViewArray>()))
}

fn end(given: &[ColumnarValue], call: &Call<'_>, which: fn(&Multirange) -> Option<Bound>) -> Result<ColumnarValue> {
    let columns = Columns::new(given, call);
    let rows = singles(&columns, call, |one| Ok(which(one).and_then(|bound| bound.text(one.kind))))?;
    let texts = rows.into_iter().map(Option::flatten).collect::<StringViewArray>();
    columns.result(text::parse_array(&texts, call.returns, &ReadOptions::default())?)
}

fn order_keys(given: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(given, call);
    let keys = singles(&columns, call, |one| Ok(one.order_key()))?;
    columns.result(Arc::new(keys.into_iter().collect::<BinaryViewArray>()))
}

/// The ranges, as an array.
fn ranges(given: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(given, call);
    let rows = singles(&columns, call, |one| Ok(one.ranges().iter().map(Range::text).collect::<Vec<_>>()))?;
    let item = match call.returns.arrow() {
        DataType::List(item) => item,
        _ => Arc::new(Field::new("item", DataType::Utf8View, true)),
    };
    let mut lists = ListBuilder::new(StringViewBuilder::new()).with_field(item);
    for row in rows {
        for text in row.iter().flatten() {
            lists.values().append_value(text);
        }
        lists.append(row.is_some());
    }
    columns.result(Arc::new(lists.finish()))
}

/// `int4multirange(a, b, …)`.
fn built(given: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(given, call);
    let kind = called_kind(call)?;
    let given = columns.arrays().iter().zip(call.arguments);
    let given = given.map(|(array, sql_type)| Ranges::of(array, sql_type, kind)).collect::<Result<Vec<_>>>()?;
    let row = |row: usize| {
        let ranges = given.iter().map(|ranges| ranges.at(row)).collect::<Result<Vec<_>>>()?;
        if let [None] = ranges.as_slice() {
            return Ok(None);
        }
        let ranges = ranges.into_iter().collect::<Option<Vec<_>>>();
        let null = || value_error("multirange values cannot contain null members", "22004");
        Ok(Some(Multirange::new(kind, ranges.ok_or_else(null)?)?.text()))
    };
    let rows = (0..columns.rows()).map(row).collect::<Result<StringViewArray>>()?;
    columns.result(Arc::new(rows))
}

/// What some multiranges, at least one, make together.
type Fold = fn(RangeKind, &[Multirange]) -> Result<Multirange>;

fn union(kind: RangeKind, all: &[Multirange]) -> Result<Multirange> {
    Multirange::new(kind, all.iter().flat_map(|one| one.ranges().iter().cloned()).collect())
}

fn intersection(kind: RangeKind, all: &[Multirange]) -> Result<Multirange> {
    let Some((first, others)) = all.split_first() else { return Multirange::new(kind, vec![]) };
    others.iter().try_fold(first.clone(), |common, one| common.intersection(one))
}

/// What all values of each array make together; NULL of none. NULLs do not count.
fn folded(given: &[ColumnarValue], call: &Call<'_>, fold: Fold) -> Result<ColumnarValue> {
    let columns = Columns::new(given, call);
    let kind = called_kind(call)?;
    let [lists] = columns.arrays() else { return Err(Error::bug("other than one array of ranges")) };
    let lists = lists.as_list_opt::<i32>().ok_or_else(|| Error::bug("no array of ranges"))?;
    let element = call.arguments[0].element().ok_or_else(|| Error::bug("no array of ranges"))?;
    let row = |row: usize| {
        let row = if lists.len() == 1 { 0 } else { row };
        if lists.is_null(row) {
            return Ok(None);
        }
        let values = lists.value(row);
        let given = Multiranges::of(&values, element, kind)?;
        let all = (0..values.len()).filter_map(|index| given.at(index).transpose()).collect::<Result<Vec<_>>>()?;
        if all.is_empty() {
            return Ok(None);
        }
        let whole = fold(kind, &all)?;
        Ok(Some(match call.returns {
            SqlType::Range(_) => whole.span()?.text(),
            _ => whole.text(),
        }))
    };
    let rows = (0..columns.rows()).map(row).collect::<Result<StringViewArray>>()?;
    columns.result(Arc::new(rows))
}
