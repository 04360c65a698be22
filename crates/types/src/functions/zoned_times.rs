//! Functions of `time with time zone` (manual, section 9.9).

use std::sync::Arc;

use arrow::array::{AsArray, BinaryViewArray};
use datafusion_expr::ColumnarValue;
use diligence_base::{Error, Result};

use super::catalog::Catalog;
use super::columns::{Columns, Date, Interval, Timestamp, kernel};
use super::datetime::{Units, time_part};
use super::decimal::Decimal;
use super::intervals::time_plus;
use super::zones::Zones;
use super::{Body, Call};
use crate::text::ZonedTime;
use crate::text::calendar::DAY;

/// Declares the functions.
pub(super) fn declare(catalog: &mut Catalog) {
    for sign in ["=", "<>", "<", "<=", ">", ">="] {
        let signature = Box::leak(format!("{sign}(timetz, timetz) -> boolean").into_boxed_str());
        catalog.add(signature, super::comparisons::kernel_of_sign(sign));
    }
    catalog.add("timetz_order_key(timetz) -> bytea", Body::Kernel(order_keys));
    catalog
        .add(
            "extract(text, timetz) -> numeric",
            kernel!(with units: Units; |field: &str, a: &str| part(&mut units, field, ZonedTime::held(a)?)),
        )
        .gives(super::datetime::part_type);
    catalog.add(
        "date_part(text, timetz) -> double precision",
        kernel!(with units: Units; |field: &str, a: &str| {
            part(&mut units, field, ZonedTime::held(a)?).map(Decimal::to_f64)
        }),
    );
    catalog.add(
        "timezone(text, timetz) -> timetz",
        kernel!(with zones: Zones; |zone: &str, a: &str| {
            let offset = zones.argument(zone)?.offset_at(super::datetime::now());
            Ok(ZonedTime::held(a)?.at(offset).text())
        }),
    );
    catalog.add(
        "timezone(interval, timetz) -> timetz",
        kernel!(try |zone: Interval, a: &str| {
            let offset = super::datetime::offset(zone)?.offset_at(0);
            Ok(ZonedTime::held(a)?.at(offset).text())
        }),
    );
    catalog.add(
        "+(timetz, interval) -> timetz",
        kernel!(try |a: &str, b: Interval| {
            let time = ZonedTime::held(a)?;
            Ok(ZonedTime { time: time_plus(time.time, b.nanoseconds / 1000), ..time }.text())
        }),
    );
    catalog.add(
        "-(timetz, interval) -> timetz",
        kernel!(try |a: &str, b: Interval| {
            let time = ZonedTime::held(a)?;
            Ok(ZonedTime { time: time_plus(time.time, -(b.nanoseconds / 1000)), ..time }.text())
        }),
    );
    catalog.add("+(date, timetz) -> timestamptz", kernel!(try |day: Date, time: &str| on_day(day, time)));
    catalog.add("+(timetz, date) -> timestamptz", kernel!(try |time: &str, day: Date| on_day(day, time)));
}

fn on_day(day: Date, time: &str) -> Result<Timestamp> {
    let time = ZonedTime::held(time)?;
    let moment = i64::from(day.0).checked_mul(DAY).and_then(|day| day.checked_add(time.in_greenwich()));
    moment.map(Timestamp).ok_or_else(|| super::errors::value_error("timestamp out of range", "22008"))
}

/// A field: of the zone, of the moment, or as of a time without a zone.
fn part(units: &mut Units, field: &str, time: ZonedTime) -> Result<Decimal> {
    let offset = i64::from(time.offset);
    Ok(match field.to_ascii_lowercase().as_str() {
        "timezone" => Decimal::integer(offset),
        "timezone_hour" => Decimal::integer(offset / 3600),
        "timezone_minute" => Decimal::integer(offset / 60 % 60),
        "epoch" => Decimal::new(arrow::datatypes::i256::from_i128(time.in_greenwich().into()), 6),
        _ => return time_part(units, field, time.time),
    })
}

fn order_keys(given: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(given, call);
    let [array] = columns.arrays() else { return Err(Error::bug("other than one time")) };
    let texts = array.as_string_view_opt().ok_or_else(|| Error::bug("such times are held as texts"))?;
    let keys = texts.iter().map(|text| text.map(key).transpose()).collect::<Result<Vec<_>>>()?;
    columns.result(Arc::new(keys.into_iter().collect::<BinaryViewArray>()))
}

/// Bytes that sort as the time does.
fn key(text: &str) -> Result<Vec<u8>> {
    let (moment, west) = ZonedTime::held(text)?.order_key();
    let moment = (moment as u64 ^ (1 << 63)).to_be_bytes();
    Ok(moment.into_iter().chain((west as u32 ^ (1 << 31)).to_be_bytes()).collect())
}
