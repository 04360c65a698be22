//! Values read and written as PostgreSQL does, as far as the tests need it.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNano, IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType, i256,
};
use datafusion_common::ScalarValue;
use datafusion_common::utils::SingleRowListArrayBuilder;

use crate::SqlType;
use crate::functions::calendar::{Day, HOUR, MINUTE, SECOND, split};
use crate::functions::decimal::Decimal;
use crate::functions::zones::offset_text;
use crate::text::Zone;

/// The session's time zone in all tests.
pub(super) const ZONE: &str = "Europe/Berlin";

/// The type of a literal: a `numeric` has the digits that it is written with.
pub(super) fn type_of(name: &str, text: &str) -> SqlType {
    match SqlType::parse(name).unwrap_or_else(|| panic!("no type {name}")) {
        SqlType::Numeric(None) if text != "NULL" => {
            let value = Decimal::parse(text).expect("a decimal");
            SqlType::decimal(value.digits().max(value.scale + 1) as u8, value.scale as i8)
        }
        other => other,
    }
}

/// The value of a literal.
pub(super) fn value(sql_type: &SqlType, text: &str) -> ScalarValue {
    if text == "NULL" {
        return ScalarValue::try_new_null(&sql_type.arrow()).expect("a NULL");
    }
    let wall = |text: &str| timestamp(text);
    match sql_type {
        SqlType::Boolean => ScalarValue::Boolean(Some(text == "t")),
        SqlType::SmallInt => ScalarValue::Int16(Some(text.parse().expect(text))),
        SqlType::Integer => ScalarValue::Int32(Some(text.parse().expect(text))),
        SqlType::BigInt => ScalarValue::Int64(Some(text.parse().expect(text))),
        SqlType::Real => ScalarValue::Float32(Some(text.parse().expect(text))),
        SqlType::Double => ScalarValue::Float64(Some(text.parse().expect(text))),
        SqlType::Numeric(_) => {
            let decimal = Decimal::parse(text).expect(text);
            match sql_type.arrow() {
                DataType::Decimal128(precision, scale) => ScalarValue::Decimal128(
                    decimal.held_as(precision, scale.into()).unwrap().to_i128(),
                    precision,
                    scale,
                ),
                DataType::Decimal256(precision, scale) => {
                    ScalarValue::Decimal256(Some(decimal.held_as(precision, scale.into()).unwrap()), precision, scale)
                }
                other => panic!("{other}"),
            }
        }
        SqlType::Bytea => ScalarValue::BinaryView(Some(
            (2..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect(text)).collect(),
        )),
        SqlType::Date => ScalarValue::Date32(Some(match text {
            "infinity" => i32::MAX,
            "-infinity" => i32::MIN,
            text => day_of(text) as i32,
        })),
        SqlType::Time => ScalarValue::Time64Microsecond(Some(time(text))),
        SqlType::Timestamp => ScalarValue::TimestampMicrosecond(Some(wall(text)), None),
        SqlType::TimestampTz => {
            let instant = Zone::of_setting(ZONE).unwrap().to_instant(wall(text)).unwrap();
            let instant = if wall(text) == i64::MAX { i64::MAX } else { instant };
            ScalarValue::TimestampMicrosecond(Some(instant), Some("UTC".into()))
        }
        SqlType::Interval => ScalarValue::IntervalMonthDayNano(Some(interval(text))),
        SqlType::Array(element) => {
            let inner = text.trim_start_matches('{').trim_end_matches('}');
            let values: Vec<ScalarValue> =
                inner.split(',').filter(|part| !part.is_empty()).map(|part| value(element, part)).collect();
            let array = match values.is_empty() {
                true => arrow::array::new_empty_array(&element.arrow()),
                false => ScalarValue::iter_to_array(values).unwrap(),
            };
            ScalarValue::List(std::sync::Arc::new(SingleRowListArrayBuilder::new(array).build_list_array()))
        }
        _ => ScalarValue::Utf8View(Some(text.to_owned())),
    }
}

fn time(text: &str) -> i64 {
    let (sign, text) = match text.strip_prefix('-') {
        Some(text) => (-1, text),
        None => (1, text.trim_start_matches('+')),
    };
    let mut parts = text.split(':');
    let mut next = || parts.next().unwrap_or("0");
    let (hours, minutes, seconds) = (next(), next(), next());
    let (seconds, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
    let number = |text: &str| text.parse::<i64>().expect(text);
    sign * (number(hours) * HOUR
        + number(minutes) * MINUTE
        + number(seconds) * SECOND
        + number(&format!("{fraction:0<6}")))
}

fn timestamp(text: &str) -> i64 {
    match text {
        "infinity" => return i64::MAX,
        "-infinity" => return i64::MIN,
        _ => {}
    }
    let (text, is_bc) = match text.strip_suffix(" BC") {
        Some(text) => (text, true),
        None => (text, false),
    };
    let (date, clock) = text.split_once(' ').unwrap_or((text, "0:0:0"));
    let era = if is_bc { " BC" } else { "" };
    day_of(&format!("{date}{era}")) * crate::functions::calendar::DAY + time(clock)
}

fn day_of(text: &str) -> i64 {
    let (date, is_bc) = match text.strip_suffix(" BC") {
        Some(date) => (date, true),
        None => (text, false),
    };
    let mut parts = date.splitn(3, '-').map(|part| part.parse::<i64>().expect(date));
    let mut next = || parts.next().expect(text);
    let (year, month, day) = (next(), next(), next());
    Day { year: if is_bc { 1 - year } else { year }, month, day }.days()
}

fn interval(text: &str) -> IntervalMonthDayNano {
    let (mut months, mut days, mut microseconds) = (0, 0, 0);
    let mut words = text.split(' ').peekable();
    while let Some(word) = words.next() {
        if word.contains(':') {
            microseconds += time(word);
            continue;
        }
        let number: i32 = word.parse().expect(text);
        match words.next().expect(text).trim_end_matches('s') {
            "year" => months += number * 12,
            "mon" | "month" => months += number,
            "day" => days += number,
            "hour" => microseconds += i64::from(number) * HOUR,
            other => panic!("{other}"),
        }
    }
    IntervalMonthDayNano { months, days, nanoseconds: microseconds * 1000 }
}

fn clock(time: i64) -> String {
    let (hours, minutes, seconds) = (time / HOUR, time / MINUTE % 60, time / SECOND % 60);
    let fraction = match time % SECOND {
        0 => String::new(),
        fraction => format!(".{fraction:06}").trim_end_matches('0').to_owned(),
    };
    format!("{hours:02}:{minutes:02}:{seconds:02}{fraction}")
}

fn date(days: i64) -> (String, &'static str) {
    let day = Day::of(days);
    let era = if day.year > 0 { "" } else { " BC" };
    (format!("{:04}-{:02}-{:02}", day.shown_year().abs(), day.month, day.day), era)
}

fn stamp(wall: i64, offset: &str) -> String {
    match wall {
        i64::MAX => "infinity".to_owned(),
        i64::MIN => "-infinity".to_owned(),
        wall => {
            let (days, time) = split(wall);
            let (date, era) = date(days);
            format!("{date} {}{offset}{era}", clock(time))
        }
    }
}

fn span(value: IntervalMonthDayNano) -> String {
    let mut parts = Vec::new();
    let mut was_negative = false;
    let units = [(value.months / 12, "year"), (value.months % 12, "mon"), (value.days, "day")];
    for (number, unit) in units.into_iter().filter(|(number, _)| *number != 0) {
        let plus = if was_negative && number > 0 { "+" } else { "" };
        parts.push(format!("{plus}{number} {unit}{}", if number == 1 { "" } else { "s" }));
        was_negative = number < 0;
    }
    let time = value.nanoseconds / 1000;
    if time != 0 || parts.is_empty() {
        let sign = if time < 0 {
            "-"
        } else if was_negative {
            "+"
        } else {
            ""
        };
        parts.push(format!("{sign}{}", clock(time.abs())));
    }
    parts.join(" ")
}

fn float(value: f64) -> String {
    match value {
        f64::INFINITY => "Infinity".to_owned(),
        f64::NEG_INFINITY => "-Infinity".to_owned(),
        value => value.to_string(),
    }
}

/// A row of a column as PostgreSQL shows it.
pub(super) fn shown(array: &ArrayRef, row: usize, sql_type: &SqlType) -> String {
    if array.is_null(row) {
        return "NULL".to_owned();
    }
    match sql_type {
        SqlType::Boolean => if array.as_boolean().value(row) { "t" } else { "f" }.to_owned(),
        SqlType::SmallInt => array.as_primitive::<Int16Type>().value(row).to_string(),
        SqlType::Integer => array.as_primitive::<Int32Type>().value(row).to_string(),
        SqlType::BigInt => array.as_primitive::<Int64Type>().value(row).to_string(),
        SqlType::Real => array.as_primitive::<Float32Type>().value(row).to_string(),
        SqlType::Double => float(array.as_primitive::<Float64Type>().value(row)),
        SqlType::Numeric(_) => match array.data_type() {
            DataType::Decimal128(_, scale) => {
                let value = i256::from_i128(array.as_primitive::<Decimal128Type>().value(row));
                Decimal::new(value, (*scale).into()).normalized().to_string()
            }
            DataType::Decimal256(_, scale) => {
                Decimal::new(array.as_primitive::<Decimal256Type>().value(row), (*scale).into())
                    .normalized()
                    .to_string()
            }
            other => panic!("{other}"),
        },
        SqlType::Bytea => {
            let digits: String = array.as_binary_view().value(row).iter().map(|byte| format!("{byte:02x}")).collect();
            format!("\\x{digits}")
        }
        SqlType::Date => match array.as_primitive::<Date32Type>().value(row) {
            i32::MAX => "infinity".to_owned(),
            i32::MIN => "-infinity".to_owned(),
            days => {
                let (date, era) = date(days.into());
                date + era
            }
        },
        SqlType::Time => clock(array.as_primitive::<Time64MicrosecondType>().value(row)),
        SqlType::Timestamp => stamp(array.as_primitive::<TimestampMicrosecondType>().value(row), ""),
        SqlType::TimestampTz => {
            let instant = array.as_primitive::<TimestampMicrosecondType>().value(row);
            let offset = i64::from(Zone::of_setting(ZONE).unwrap().offset_at(instant));
            let seconds = match offset % 60 {
                0 => String::new(),
                seconds => format!(":{:02}", seconds.abs()),
            };
            stamp(instant.saturating_add(offset * SECOND), &(offset_text(offset) + &seconds))
        }
        SqlType::Interval => span(array.as_primitive::<IntervalMonthDayNanoType>().value(row)),
        SqlType::Array(element) => {
            let list = array.as_list::<i32>().value(row);
            let parts: Vec<String> = (0..list.len()).map(|row| quoted(&list, row, element)).collect();
            format!("{{{}}}", parts.join(","))
        }
        _ => array.as_string_view().value(row).to_owned(),
    }
}

fn quoted(list: &ArrayRef, row: usize, element: &SqlType) -> String {
    let text = shown(list, row, element);
    let is_plain = list.is_null(row) || matches!(element, SqlType::Array(_));
    match !is_plain && (text.is_empty() || text.contains([' ', ',', '"', '\\', '{', '}']) || text == "NULL") {
        true => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
        false => text,
    }
}
