//! Functions and operators of ranges (manual, section 9.20).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, StringViewArray};
use datafusion_expr::ColumnarValue;
use diligence_base::{Error, Result};

use super::catalog::Catalog;
use super::columns::Columns;
use super::errors::value_error;
use super::{Body, Call, Kernel};
use crate::SqlType;
use crate::range_type::RangeKind;
use crate::text::{self, Bound, Range, ReadOptions};

/// Declares the functions.
pub(super) fn declare(catalog: &mut Catalog) {
    for kind in RangeKind::ALL {
        let name = kind.name();
        let element = kind.element().to_string();
        let signature = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
        let mut add =
            |text: String, kernel: Kernel| catalog.add(signature(text), Body::Kernel(kernel)).is_strict = true;
        let tests: [(&str, Kernel); 8] = [
            ("@>", |given, call| tested(given, call, Range::contains)),
            ("<@", |given, call| tested(given, call, |left, right| right.contains(left))),
            ("&&", |given, call| tested(given, call, Range::overlaps)),
            ("<<", |given, call| tested(given, call, Range::is_before)),
            (">>", |given, call| tested(given, call, |left, right| right.is_before(left))),
            ("&<", |given, call| tested(given, call, Range::ends_within)),
            ("&>", |given, call| tested(given, call, Range::begins_within)),
            ("-|-", |given, call| tested(given, call, Range::is_adjacent)),
        ];
        for (sign, kernel) in tests {
            add(format!("{sign}({name}, {name}) -> boolean"), kernel);
        }
        add(format!("@>({name}, {element}) -> boolean"), |given, call| tested(given, call, has));
        add(format!("<@({element}, {name}) -> boolean"), |given, call| {
            tested(given, call, |one, range| has(range, one))
        });
        let made: [(&str, Kernel); 4] = [
            ("+", |given, call| computed(given, call, Range::union)),
            ("*", |given, call| computed(given, call, Range::intersection)),
            ("-", |given, call| computed(given, call, Range::difference)),
            ("range_merge", |given, call| computed(given, call, Range::merged)),
        ];
        for (sign, kernel) in made {
            add(format!("{sign}({name}, {name}) -> {name}"), kernel);
        }
        let asked: [(&str, Kernel); 5] = [
            ("isempty", |given, call| asked(given, call, |range| range.bounds.is_none())),
            ("lower_inc", |given, call| asked(given, call, |range| lower(range).is_some_and(|one| one.is_inclusive))),
            ("upper_inc", |given, call| asked(given, call, |range| upper(range).is_some_and(|one| one.is_inclusive))),
            ("lower_inf", |given, call| {
                asked(given, call, |range| lower(range).is_some_and(|one| one.value.is_none()))
            }),
            ("upper_inf", |given, call| {
                asked(given, call, |range| upper(range).is_some_and(|one| one.value.is_none()))
            }),
        ];
        for (function, kernel) in asked {
            add(format!("{function}({name}) -> boolean"), kernel);
        }
        add(format!("lower({name}) -> {element}"), |given, call| end(given, call, lower));
        add(format!("upper({name}) -> {element}"), |given, call| end(given, call, upper));
        add(format!("range_order_key({name}) -> bytea"), order_keys);
        for signs in ["=", "<>", "<", "<=", ">", ">="] {
            let kernel = super::comparisons::kernel_of_sign(signs);
            catalog.add(signature(format!("{signs}({name}, {name}) -> boolean")), kernel);
        }
        for bounds in ["", ", text"] {
            let text = format!("{name}({element}, {element}{bounds}) -> {name}");
            catalog.add(signature(text), Body::Kernel(built)).lenient();
        }
    }
}

fn kind_of(sql_type: Option<&SqlType>) -> Option<RangeKind> {
    match sql_type {
        Some(SqlType::Range(kind)) => Some(*kind),
        _ => None,
    }
}

/// The kind that a call is about.
fn called_kind(call: &Call<'_>) -> Result<RangeKind> {
    let types = call.arguments.iter().chain([call.returns]);
    types.map(Some).find_map(kind_of).ok_or_else(|| Error::bug("no range in a function of ranges"))
}

fn lower(range: &Range) -> Option<Bound> {
    range.bounds.map(|(lower, _)| lower)
}

fn upper(range: &Range) -> Option<Bound> {
    range.bounds.map(|(_, upper)| upper)
}

/// Whether a range has a value, which is read as the range of it alone.
fn has(range: &Range, one: &Range) -> bool {
    lower(one).and_then(|bound| bound.value).is_some_and(|value| range.has(value))
}

/// The ranges of an argument; those of a value have it as both of their bounds.
pub(super) struct Ranges {
    texts: StringViewArray,
    kind: RangeKind,
    is_value: bool,
}

impl Ranges {
    pub(super) fn of(array: &ArrayRef, sql_type: &SqlType, kind: RangeKind) -> Result<Self> {
        let is_value = !matches!(sql_type, SqlType::Range(_));
        let texts = match is_value {
            true => text::format(array, sql_type, "UTC")?,
            false => array.as_string_view_opt().cloned().ok_or_else(|| Error::bug("ranges are held as texts"))?,
        };
        Ok(Self { texts, kind, is_value })
    }

    /// The range of a row.
    pub(super) fn at(&self, row: usize) -> Result<Option<Range>> {
        let row = if self.texts.len() == 1 { 0 } else { row };
        if self.texts.is_null(row) {
            return Ok(None);
        }
        match self.is_value {
            false => Range::held(self.texts.value(row), self.kind).map(Some),
            true => self.bound(row).map(|bound| {
                Some(Range { kind: self.kind, bounds: Some((bound, Bound { is_inclusive: true, ..bound })) })
            }),
        }
    }

    /// A value as a bound that includes it; NULL is no bound.
    fn bound(&self, row: usize) -> Result<Bound> {
        let row = if self.texts.len() == 1 { 0 } else { row };
        let value = match self.texts.is_null(row) {
            true => None,
            false => Some(text::range_value(self.texts.value(row), self.kind, &ReadOptions::default())?),
        };
        Ok(Bound { value, is_inclusive: true })
    }
}

/// The ranges of two arguments, row by row; `None` where one is NULL.
fn pairs<T>(
    columns: &Columns<'_>,
    call: &Call<'_>,
    of: impl Fn(&Range, &Range) -> Result<T>,
) -> Result<Vec<Option<T>>> {
    let kind = called_kind(call)?;
    let [left, right] = columns.arrays() else { return Err(Error::bug("other than two ranges")) };
    let left = Ranges::of(left, &call.arguments[0], kind)?;
    let right = Ranges::of(right, &call.arguments[1], kind)?;
    let row = |row: usize| match (left.at(row)?, right.at(row)?) {
        (Some(left), Some(right)) => of(&left, &right).map(Some),
        _ => Ok(None),
    };
    (0..columns.rows()).map(row).collect()
}

fn tested(given: &[ColumnarValue], call: &Call<'_>, test: impl Fn(&Range, &Range) -> bool) -> Result<ColumnarValue> {
    let columns = Columns::new(given, call);
    let rows = pairs(&columns, call, |left, right| Ok(test(left, right)))?;
    columns.result(Arc::new(rows.into_iter().collect::<BooleanArray>()))
}

fn computed(
    given: &[ColumnarValue],
    call: &Call<'_>,
    of: impl Fn(&Range, &Range) -> Result<Range>,
) -> Result<ColumnarValue> {
    let columns = Columns::new(given, call);
    let rows = pairs(&columns, call, |left, right| of(left, right).map(|range| range.text()))?;
    columns.result(Arc::new(rows.into_iter().collect::<StringViewArray>()))
}

/// What is told of each range of the only argument.
fn singles<T>(columns: &Columns<'_>, call: &Call<'_>, of: impl Fn(&Range) -> T) -> Result<Vec<Option<T>>> {
    let kind = called_kind(call)?;
    let [array] = columns.arrays() else { return Err(Error::bug("other than one range")) };
    let ranges = Ranges::of(array, &call.arguments[0], kind)?;
    (0..columns.rows()).map(|row| Ok(ranges.at(row)?.map(|range| of(&range)))).collect()
}

fn asked(given: &[ColumnarValue], call: &Call<'_>, of: impl Fn(&Range) -> bool) -> Result<ColumnarValue> {
    let columns = Columns::new(given, call);
    let rows = singles(&columns, call, of)?;
    columns.result(Arc::new(rows.into_iter().collect::<BooleanArray>()))
}

fn end(given: &[ColumnarValue], call: &Call<'_>, which: fn(&Range) -> Option<Bound>) -> Result<ColumnarValue> {
    let columns = Columns::new(given, call);
    let rows = singles(&columns, call, |range| which(range)?.text(range.kind))?;
    let texts = rows.into_iter().map(Option::flatten).collect::<StringViewArray>();
    columns.result(text::parse_array(&texts, call.returns, &ReadOptions::default())?)
}

fn order_keys(given: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(given, call);
    let keys = singles(&columns, call, Range::order_key)?;
    columns.result(Arc::new(keys.into_iter().collect::<BinaryViewArray>()))
}

/// `int4range(1, 5, '[]')`.
fn built(given: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(given, call);
    let kind = called_kind(call)?;
    let [from, to, more @ ..] = columns.arrays() else { return Err(Error::bug("a range of two bounds")) };
    let from = Ranges::of(from, &call.arguments[0], kind)?;
    let to = Ranges::of(to, &call.arguments[1], kind)?;
    let forms = match more {
        [] => None,
        [forms, ..] => Some(forms.as_string_view_opt().ok_or_else(|| Error::bug("a form that is no text"))?),
    };
    let row = |row: usize| {
        let form = match forms {
            None => "[)",
            Some(forms) => {
                let row = if forms.len() == 1 { 0 } else { row };
                if forms.is_null(row) {
                    return Err(value_error("range constructor flags argument must not be null", "22000"));
                }
                forms.value(row)
            }
        };
        let (is_lower_in, is_upper_in) = match form {
            "[]" => (true, true),
            "[)" => (true, false),
            "(]" => (false, true),
            "()" => (false, false),
            _ => {
                let error = value_error("invalid range bound flags", "42601");
                return Err(error.with_hint("Valid values are \"[]\", \"[)\", \"(]\", and \"()\"."));
            }
        };
        let lower = Bound { is_inclusive: is_lower_in, ..from.bound(row)? };
        let upper = Bound { is_inclusive: is_upper_in, ..to.bound(row)? };
        Ok(Range::new(kind, lower, upper)?.text())
    };
    let rows = (0..columns.rows()).map(row).collect::<Result<Vec<_>>>()?;
    columns.result(Arc::new(StringViewArray::from_iter_values(rows)))
}
