//! What types of times with a modifier, such as `timestamp(3)` and `interval hour`, do to a value.

use std::sync::Arc;

use arrow::array::{Array, ListArray};
use arrow::datatypes::{DataType, IntervalMonthDayNano};
use datafusion_common::ScalarValue;
use datafusion_expr::ColumnarValue;
use diligence_base::{Error, Result};

use super::calendar::is_infinite;
use super::catalog::Catalog;
use super::columns::{Columns, Interval, Time, Timestamp, kernel, lists};
use super::errors::datetime_overflow;
use super::register::scalars;
use super::{Argument, Body, Call};
use crate::SqlType;
use crate::text::ZonedTime;

/// Microseconds from 1970 to 2000.
const MICROSECONDS_TO_2000: i64 = 946_684_800_000_000;

/// Declares the functions.
pub(super) fn declare(catalog: &mut Catalog) {
    let moments = kernel!(try |a: Timestamp, digits: i32| rounded_moment(a, digits));
    catalog.add_all(
        &["seconds_digits(timestamp, integer) -> timestamp", "seconds_digits(timestamptz, integer) -> timestamptz"],
        moments,
    );
    catalog.add("seconds_digits(time, integer) -> time", kernel!(|a: Time, digits: i32| Time(rounded(a.0, digits))));
    catalog.add(
        "seconds_digits(timetz, integer) -> timetz",
        kernel!(try |a: &str, digits: i32| {
            let time = ZonedTime::held(a)?;
            Ok(ZonedTime { time: rounded(time.time, digits), ..time }.text())
        }),
    );
    catalog
        .add("interval_up_to(interval, text) -> interval", kernel!(|a: Interval, fields: &str| up_to_field(a, fields)));
    catalog.add(
        "seconds_digits(interval, integer) -> interval",
        kernel!(|a: Interval, digits: i32| {
            let nanoseconds = rounded(a.nanoseconds / 1000, digits).saturating_mul(1000);
            IntervalMonthDayNano { nanoseconds, ..a }
        }),
    );
    catalog.add(
        "seconds_digits(anyarray, integer) -> anyarray",
        Body::Kernel(|arguments, call| each_element("seconds_digits", arguments, call)),
    );
    catalog.add(
        "interval_up_to(anyarray, text) -> anyarray",
        Body::Kernel(|arguments, call| each_element("interval_up_to", arguments, call)),
    );
}

/// A function of each element of arrays, with one second argument for all rows: the binder gives a constant. Fails as
/// the function does, and with 42883 if there is none of such elements.
fn each_element(name: &str, arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let [array, said] = columns.arrays() else { return Err(Error::bug(format!("{name} takes two arguments"))) };
    let list = lists(array)?;
    let Some(element) = call.arguments[0].element() else { return Err(Error::bug(format!("{name} of no array"))) };
    if said.is_empty() {
        return columns.result(array.clone());
    }
    let said = ScalarValue::try_from_array(said, 0).map_err(|error| Error::bug(error.to_string()))?;
    let fits = |argument: Option<&Argument>| match argument {
        Some(Argument::Exact(known)) => known.is_same(element),
        Some(Argument::AnyArray) => element.element().is_some(),
        _ => false,
    };
    let overload = scalars(name).iter().find(|overload| fits(overload.arguments.first()));
    let Some(Body::Kernel(kernel)) = overload.map(|overload| &overload.body) else {
        let message = format!("function {name}({element}[], {}) does not exist", call.arguments[1]);
        return Err(Error::input(message).with_code("42883"));
    };
    let types: [SqlType; 2] = [element.clone(), call.arguments[1].clone()];
    let of_elements = Call { rows: list.values().len(), arguments: &types, returns: element };
    let values = kernel(&[ColumnarValue::Array(list.values().clone()), ColumnarValue::Scalar(said)], &of_elements)?;
    let values = values.into_array(of_elements.rows).map_err(|error| Error::bug(error.to_string()))?;
    let DataType::List(item) = call.returns.arrow() else { return Err(Error::bug("an array becomes an array")) };
    let made = ListArray::try_new(item, list.offsets().clone(), values, list.nulls().cloned());
    columns.result(Arc::new(made.map_err(|error| Error::bug(error.to_string()))?))
}

/// Microseconds rounded to so many digits behind the seconds' point, half away from zero.
fn rounded(microseconds: i64, digits: i32) -> i64 {
    let scale = 10_i64.pow(6 - digits.clamp(0, 6).unsigned_abs());
    let whole = microseconds.unsigned_abs().saturating_add(scale.unsigned_abs() / 2) / scale.unsigned_abs();
    i64::try_from(whole).unwrap_or(i64::MAX).saturating_mul(scale) * microseconds.signum()
}

/// A moment rounded as PostgreSQL does, which counts from 2000. Fails with 22008 if the last one does not fit.
fn rounded_moment(moment: Timestamp, digits: i32) -> Result<Timestamp> {
    if is_infinite(moment.0) {
        return Ok(moment);
    }
    let since = moment.0.checked_sub(MICROSECONDS_TO_2000);
    let rounded = since.and_then(|since| rounded(since, digits).checked_add(MICROSECONDS_TO_2000));
    rounded.map(Timestamp).ok_or_else(|| datetime_overflow("timestamp"))
}

/// An interval without what is smaller than the last of some fields: what `interval hour` and `interval day to hour` do
/// to a value.
fn up_to_field(whole: Interval, fields: &str) -> Interval {
    const MINUTE: i64 = 60_000_000_000;
    let IntervalMonthDayNano { months, days, nanoseconds } = whole;
    let (months, days, nanoseconds) = match fields.rsplit(' ').next().unwrap_or(fields) {
        "year" => (months - months % 12, 0, 0),
        "month" => (months, 0, 0),
        "day" => (months, days, 0),
        "hour" => (months, days, nanoseconds - nanoseconds % (60 * MINUTE)),
        "minute" => (months, days, nanoseconds - nanoseconds % MINUTE),
        _ => (months, days, nanoseconds),
    };
    IntervalMonthDayNano { months, days, nanoseconds }
}
