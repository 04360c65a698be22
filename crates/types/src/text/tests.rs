//! Texts that PostgreSQL was asked for, and values that survive being written and read.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, Decimal256Array, Float32Array,
    Float64Array, Int16Array, Int32Array, Int64Array, IntervalMonthDayNanoArray, StringViewArray,
    Time64MicrosecondArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{IntervalMonthDayNano, i256};
use proptest::prelude::*;

use super::*;
use crate::sql_type::RecordField;

/// Reads a text as a type and writes what was read; an error as `!` and its code.
fn answer(zone: &str, sql_type: &SqlType, text: &str) -> String {
    let options = ReadOptions { zone: Zone::of_setting(zone).unwrap(), ..ReadOptions::default() };
    let written = parse_array(&StringViewArray::from(vec![text]), sql_type, &options)
        .and_then(|array| format(&array, sql_type, zone));
    match written {
        Ok(texts) => texts.value(0).to_owned(),
        Err(error) => format!("!{}", error.code().unwrap_or_default()),
    }
}

fn unescaped(text: &str) -> String {
    text.replace("\\\\", "\0").replace("\\n", "\n").replace("\\t", "\t").replace('\0', "\\")
}

/// `postgres.tsv` has in each line a zone, a type, a text and PostgreSQL 15's answer to
/// `SET timezone = 'zone'; SELECT (E'text'::type)::text`, an error as `!` and its SQLSTATE.
#[test]
fn texts_are_read_and_written_as_postgresql_does() {
    let mut wrong = vec![];
    for line in include_str!("postgres.tsv").lines().filter(|line| !line.starts_with('#')) {
        let [zone, name, text, expected] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let (text, expected) = (unescaped(text), unescaped(expected));
        let sql_type = array_type_of(&text, &SqlType::parse(name).unwrap());
        let mut answer = answer(zone, &sql_type, &text);
        if sql_type == SqlType::Boolean {
            // A cast to text has words, the text form letters.
            answer = answer.replace('t', "true").replace('f', "false");
        }
        if let SqlType::Char(_) = sql_type {
            // A cast to text has no blanks at the end, the text form has.
            answer.truncate(answer.trim_end_matches(' ').len());
        }
        if answer != expected {
            wrong.push(format!("{line}: {answer}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is not as in PostgreSQL, and why.
#[test]
fn differences_from_postgresql() {
    for (sql_type, text, expected) in [
        // `numeric` without parentheses has one scale for all values, so zeros at the end are not kept (PostgreSQL:
        // 1.50).
        (SqlType::NUMERIC, "1.50", "1.5"),
        // NaN and the infinities of numeric are not held (PostgreSQL: NaN).
        (SqlType::NUMERIC, "NaN", "!0A000"),
        // 64 bits of microseconds from 1970 on end in 294247 (PostgreSQL counts from 2000).
        (SqlType::Timestamp, "294247-01-10 04:00:54.775806", "294247-01-10 04:00:54.775806"),
        (SqlType::Timestamp, "294247-01-10 04:00:54.775807", "!22008"),
        // The time of an interval is held in nanoseconds: up to 292 years (PostgreSQL: 292,000).
        (SqlType::Interval, "2562047 hours", "2562047:00:00"),
        (SqlType::Interval, "2562048 hours", "!22008"),
        // Bounds of arrays are dropped (PostgreSQL: [2:3]={1,2}).
        (SqlType::array_of(SqlType::Integer), "[2:3]={1,2}", "{1,2}"),
        // The time of the statement is told by the caller (PostgreSQL: the transaction's).
        (SqlType::Date, "today", "!0A000"),
    ] {
        assert_eq!(answer("UTC", &sql_type, text), expected, "{text}");
    }
}

/// `SET timezone = 'America/New_York'; SELECT 'now'::timestamptz, 'today'::date, 'tomorrow 10:00'::timestamp` at
/// 2023-11-15 03:13:20+00.
#[test]
fn words_for_times_depend_on_the_statement() {
    let zone = Zone::of_setting("America/New_York").unwrap();
    let options = ReadOptions { zone, now: Some(1_700_018_000_000_000), ..ReadOptions::default() };
    for (sql_type, text, expected) in [
        (SqlType::TimestampTz, "now", "2023-11-14 22:13:20-05"),
        (SqlType::Date, "today", "2023-11-14"),
        (SqlType::Date, "yesterday", "2023-11-13"),
        (SqlType::Timestamp, "tomorrow 10:00", "2023-11-15 10:00:00"),
        (SqlType::Time, "now", "22:13:20"),
    ] {
        let value = parse_with(text, &sql_type, &options).unwrap().to_array().unwrap();
        assert_eq!(format(&value, &sql_type, "America/New_York").unwrap().value(0), expected, "{text}");
    }
}

/// `SET timezone = '…'; SHOW timezone; SELECT '2024-01-05 10:00'::timestamptz`.
#[test]
fn zones_of_settings() {
    for (setting, name, shown) in [
        ("+02", "<+02>-02", "2024-01-05 10:00:00+02"),
        ("+02:00", "+02:00", "2024-01-05 10:00:00-02"),
        ("-5.5", "<-05:30>+05:30", "2024-01-05 10:00:00-05:30"),
        ("UTC+3", "UTC+3", "2024-01-05 10:00:00-03"),
        ("<+02>-02", "<+02>-02", "2024-01-05 10:00:00+02"),
        ("EST", "EST", "2024-01-05 10:00:00-05"),
        ("europe/berlin", "Europe/Berlin", "2024-01-05 10:00:00+01"),
    ] {
        assert_eq!(Zone::name_of_setting(setting).unwrap(), name);
        assert_eq!(answer(setting, &SqlType::TimestampTz, "2024-01-05 10:00"), shown, "{setting}");
        assert_eq!(Zone::of_setting(setting).unwrap(), Zone::of_setting(name).unwrap());
    }
    for unknown in ["PST", "Z", "Nowhere/City", "foo"] {
        assert_eq!(Zone::of_setting(unknown).unwrap_err().code(), Some("22023"), "{unknown}");
    }
    // SELECT now() AT TIME ZONE '…' - now() AT TIME ZONE 'utc'
    for (argument, seconds) in [("+02", -7200), ("+02:00", -7200), ("foo3", -10800), ("PST", -28800)] {
        assert_eq!(Zone::of_argument(argument).unwrap(), Zone::fixed(seconds), "{argument}");
    }
}

#[test]
fn literals_have_the_tightest_numeric() {
    for (text, expected) in [
        ("1", "numeric(1,0)"),
        ("1.50", "numeric(3,2)"),
        ("0.001", "numeric(3,3)"),
        ("00.5", "numeric(1,1)"),
        ("1e3", "numeric(4,0)"),
        ("1.5e-3", "numeric(4,4)"),
        ("0", "numeric(1,0)"),
        ("0.00", "numeric(2,2)"),
        ("12345678901234567890123456789012345678901", "numeric(41,0)"),
    ] {
        assert_eq!(numeric_type_of(text).to_string(), expected, "{text}");
        assert!(!answer("UTC", &numeric_type_of(text), text).starts_with('!'), "{text}");
    }
}

#[test]
fn records_and_maps() {
    let field = |name: &str, sql_type| RecordField { name: name.to_owned(), sql_type };
    let record = SqlType::Record(vec![field("a", SqlType::Integer), field("b", SqlType::Text)].into());
    // SELECT ROW(1, 'b c'), ROW(NULL, ''), ROW(2, 'q"\'), ROW(3, NULL)
    for (text, expected) in [
        ("(1,\"b c\")", "(1,\"b c\")"),
        ("(,\"\")", "(,\"\")"),
        (r#"(2,"q""\\")"#, r#"(2,"q""\\")"#),
        ("( 3 ,)", "(3,)"),
        ("(1)", "!22P02"),
        ("1,2", "!22P02"),
        ("(1,(2))", "!22P02"),
    ] {
        assert_eq!(answer("UTC", &record, text), expected, "{text}");
    }
    // SELECT ARRAY[ROW(1, 'a')]
    assert_eq!(answer("UTC", &SqlType::array_of(record), "{\"(1,a)\"}"), "{\"(1,a)\"}");
}

fn array_of<T>(values: Vec<T>) -> ArrayRef
where
    T: Held,
{
    T::array(values)
}

/// What a property test holds its values in.
trait Held: Sized {
    fn array(values: Vec<Self>) -> ArrayRef;
}

macro_rules! held {
    ($($native:ty => $array:ty),*) => {
        $(impl Held for $native {
            fn array(values: Vec<Self>) -> ArrayRef {
                Arc::new(<$array>::from(values))
            }
        })*
    };
}

held!(i16 => Int16Array, i32 => Int32Array, i64 => Int64Array, f32 => Float32Array, f64 => Float64Array,
    bool => BooleanArray, IntervalMonthDayNano => IntervalMonthDayNanoArray);

/// Whether values come out of their texts again.
fn round_trips(array: ArrayRef, sql_type: &SqlType, zone: &str) {
    let texts = format(&array, sql_type, zone).unwrap();
    let options = ReadOptions { zone: Zone::of_setting(zone).unwrap(), ..ReadOptions::default() };
    let read = parse_array(&texts, sql_type, &options).unwrap_or_else(|error| panic!("{texts:?}: {error}"));
    assert_eq!(*read, *array, "{texts:?}");
}

const ZONES: [&str; 5] = ["UTC", "America/New_York", "Australia/Lord_Howe", "<+05:30>-05:30", "Africa/Casablanca"];

proptest! {
    #[test]
    fn integers_round_trip(small: i16, middle: i32, large: i64, oid: u32, truth: bool) {
        round_trips(array_of(vec![small]), &SqlType::SmallInt, "UTC");
        round_trips(array_of(vec![middle]), &SqlType::Integer, "UTC");
        round_trips(array_of(vec![large]), &SqlType::BigInt, "UTC");
        round_trips(array_of(vec![i64::from(oid)]), &SqlType::OID, "UTC");
        round_trips(array_of(vec![truth]), &SqlType::Boolean, "UTC");
    }

    #[test]
    fn floats_round_trip(double in any::<f64>(), real in any::<f32>(), mantissa in 1_u64..1000, exponent in 15..40) {
        prop_assume!(!double.is_nan() && !real.is_nan());
        round_trips(array_of(vec![double]), &SqlType::Double, "UTC");
        round_trips(array_of(vec![real]), &SqlType::Real, "UTC");
        // Where decimals lie between floats.
        let near: f64 = format!("{mantissa}e{exponent}").parse().unwrap();
        round_trips(array_of(vec![near]), &SqlType::Double, "UTC");
    }

    #[test]
    fn numerics_round_trip(value: i64, high: i128, scale in 0_i8..30) {
        let narrow = Decimal128Array::from(vec![i128::from(value)]).with_precision_and_scale(38, scale).unwrap();
        round_trips(Arc::new(narrow), &SqlType::decimal(38, scale), "UTC");
        let wide = i256::from_i128(high).wrapping_mul(i256::from_i128(i128::from(value)));
        let wide = Decimal256Array::from(vec![wide]).with_precision_and_scale(76, 38).unwrap();
        round_trips(Arc::new(wide), &SqlType::NUMERIC, "UTC");
    }

    #[test]
    fn dates_and_times_round_trip(
        day in calendar::FIRST_DAY..=calendar::LAST_DAY,
        time in 0..=calendar::DAY,
        instant in calendar::FIRST_INSTANT + calendar::DAY..calendar::LAST_INSTANT - calendar::DAY,
        near in -3_000_000_000_000_000_i64..6_000_000_000_000_000,
        zone in 0..ZONES.len(),
    ) {
        round_trips(Arc::new(Date32Array::from(vec![day as i32, i32::MAX, i32::MIN])), &SqlType::Date, "UTC");
        round_trips(Arc::new(Time64MicrosecondArray::from(vec![time])), &SqlType::Time, "UTC");
        let instants = TimestampMicrosecondArray::from(vec![instant, near, i64::MAX, i64::MIN]);
        round_trips(Arc::new(instants.clone()), &SqlType::Timestamp, "UTC");
        let instants = instants.with_data_type(SqlType::TimestampTz.arrow());
        round_trips(Arc::new(instants), &SqlType::TimestampTz, ZONES[zone]);
    }

    #[test]
    fn intervals_round_trip(months: i32, days: i32, micros in -9_000_000_000_000_000_i64..9_000_000_000_000_000) {
        round_trips(array_of(vec![IntervalMonthDayNano::new(months, days, micros * 1_000)]), &SqlType::Interval, "UTC");
    }

    #[test]
    fn texts_in_arrays_and_records_round_trip(texts in prop::collection::vec(prop::option::of(".*"), 0..5)) {
        let array = SqlType::array_of(SqlType::Text);
        let elements = StringViewArray::from_iter(texts.iter().map(|text| text.as_deref()));
        let offsets = arrow::buffer::OffsetBuffer::from_lengths([elements.len()]);
        let list = arrow::array::ListArray::new(field_of(&array), offsets, Arc::new(elements.clone()), None);
        round_trips(Arc::new(list), &array, "UTC");
        let fields: Vec<RecordField> = (0..texts.len())
            .map(|index| RecordField { name: index.to_string(), sql_type: SqlType::Text })
            .collect();
        prop_assume!(fields.len() > 1);
        let record = SqlType::Record(fields.into());
        let arrow::datatypes::DataType::Struct(arrow_fields) = record.arrow() else { panic!("{record}") };
        let columns = (0..elements.len()).map(|index| Arc::new(elements.slice(index, 1)) as ArrayRef).collect();
        round_trips(Arc::new(arrow::array::StructArray::new(arrow_fields, columns, None)), &record, "UTC");
    }

    #[test]
    fn bytes_round_trip(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        round_trips(Arc::new(BinaryViewArray::from(vec![bytes.as_slice()])), &SqlType::Bytea, "UTC");
    }

    #[test]
    fn normal_json_stays(text in ".*", number: i64) {
        let mut quoted = String::new();
        json::write_text(&mut quoted, &text.replace('\0', ""));
        let text = format!("{{\"b\": [{quoted}, {number}], \"a\": {{}}, \"a\": null}}");
        let normal = answer("UTC", &SqlType::Jsonb, &text);
        prop_assert!(!normal.starts_with('!'), "{}", normal);
        prop_assert_eq!(answer("UTC", &SqlType::Jsonb, &normal), normal);
    }

    /// No text makes a reader panic.
    #[test]
    fn nothing_panics(text in r#"[-+0-9a-zA-Z:./ {}\[\]()"\\,=éT]{0,24}"#) {
        for name in [
            "boolean", "smallint", "bigint", "real", "double precision", "numeric", "numeric(5,2)", "bytea", "uuid", "date",
            "time", "timestamp", "timestamptz", "interval", "json", "jsonb", "integer[]", "text[]", "varchar(3)", "char(2)",
            "name", "oid",
        ] {
            let sql_type = array_type_of(&text, &SqlType::parse(name).unwrap());
            let first = answer("America/New_York", &sql_type, &text);
            // What was read and written can be read again, and is the same.
            if !first.starts_with('!') {
                prop_assert_eq!(&answer("America/New_York", &sql_type, &first), &first, "{} {}", name, text);
            }
        }
    }
}
