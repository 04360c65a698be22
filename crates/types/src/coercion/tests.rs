//! Casts that PostgreSQL was asked for, common types, and what files have.

use std::sync::Arc;

use arrow::array::{
    Date64Array, DictionaryArray, DurationSecondArray, FixedSizeBinaryArray, Float16Array, Int8Array, Int32Array,
    Int64Array, LargeStringArray, StringArray, StringViewArray, Time32SecondArray, TimestampMillisecondArray,
    TimestampNanosecondArray, TimestampSecondArray, UInt64Array,
};
use arrow::compute::{CastOptions as ArrowOptions, cast_with_options};
use arrow::datatypes::Int32Type;

use super::*;
use crate::sql_type::RecordField;

const EXPLICIT: CastOptions = CastOptions { zone: String::new(), is_explicit: true, is_try: false };

fn named(name: &str) -> SqlType {
    SqlType::parse(name).unwrap_or_else(|| panic!("no type is named {name}"))
}

/// The values that texts stand for.
fn values(texts: &[&str], sql_type: &SqlType, options: &CastOptions) -> Result<ArrayRef> {
    let texts: ArrayRef = Arc::new(StringViewArray::from(texts.to_vec()));
    cast_array(&texts, &SqlType::Unknown, sql_type, options)
}

fn shown(array: Result<ArrayRef>, sql_type: &SqlType, options: &CastOptions) -> Vec<String> {
    match array.and_then(|array| cast_array(&array, sql_type, &SqlType::Text, options)) {
        Ok(texts) => texts.as_string_view().iter().map(|text| text.unwrap_or("NULL").to_owned()).collect(),
        Err(error) => vec![format!("!{}", error.code().unwrap_or_default())],
    }
}

/// `postgres.tsv` has in each line a zone, a type, a text, another type and PostgreSQL 15's answer to
/// `SET timezone = 'zone'; SELECT (('text'::type)::other)::text`, an error as `!` and its SQLSTATE.
#[test]
fn values_are_cast_as_postgresql_does() {
    let mut wrong = vec![];
    for line in include_str!("postgres.tsv").lines().filter(|line| !line.starts_with('#')) {
        let [zone, from, text, to, expected] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let (from, to) = (named(from), named(to));
        let options = CastOptions { zone: zone.to_owned(), ..EXPLICIT };
        let cast = values(&[text], &from, &options).and_then(|array| cast_array(&array, &from, &to, &options));
        let answer = shown(cast, &to, &options).remove(0);
        if answer != expected || (expected == "!42846") != cast_context(&from, &to).is_none() {
            wrong.push(format!("{line}: {answer}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// `SELECT castcontext FROM pg_cast WHERE castsource = '…'::regtype AND casttarget = '…'::regtype`, and
/// `SELECT pg_typeof(coalesce(NULL::one, NULL::other))`; casts by way of texts are not in `pg_cast`.
#[test]
fn contexts_and_common_types_are_postgresqls() {
    for line in include_str!("types.tsv").lines().filter(|line| !line.starts_with('#')) {
        let [one, other, context, common] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let (one, other) = (named(one), named(other));
        let found = match cast_context(&one, &other) {
            Some(CastContext::Implicit) => "i",
            Some(CastContext::Assignment) => "a",
            Some(CastContext::Explicit) => "e",
            None => "none",
        };
        assert_eq!(found, context, "{line}");
        let found = common_type(&[one, other]).map(|common| common.without_modifier());
        assert_eq!(found, SqlType::parse(common), "{line}");
    }
}

#[test]
fn numerics_meet_in_one_that_holds_both() {
    for (types, expected) in [
        (vec!["numeric(10,2)", "integer"], Some("numeric(12,2)")),
        (vec!["numeric(4,2)", "numeric(3,0)", "unknown"], Some("numeric(5,2)")),
        (vec!["smallint", "numeric(20,0)", "bigint"], Some("numeric(20,0)")),
        (vec!["numeric(70,30)", "numeric(76,0)"], Some("numeric")),
        (vec!["numeric", "numeric(5,2)"], Some("numeric")),
        (vec!["numeric(5,2)", "real"], Some("real")),
        (vec!["integer", "double precision"], Some("double precision")),
        (vec!["date", "timestamp"], Some("timestamp")),
        (vec!["unknown", "unknown"], Some("text")),
        (vec!["varchar(3)", "varchar(5)"], Some("varchar")),
        (vec!["varchar(3)", "varchar(3)"], Some("varchar(3)")),
        (vec!["integer[]", "numeric(5,2)[]"], Some("numeric(12,2)[]")),
        (vec!["integer", "text"], None),
        (vec!["integer[]", "integer"], None),
        (vec!["time", "timestamp"], None),
    ] {
        let given: Vec<SqlType> = types.iter().map(|name| named(name)).collect();
        assert_eq!(common_type(&given), expected.map(named), "{types:?}");
    }
    assert_eq!(common_type(&[]), None);
}

#[test]
fn assignments_refuse_what_casts_cut() {
    let assignment = CastOptions { is_explicit: false, ..EXPLICIT };
    // CREATE TABLE t (v varchar(3), c char(3)); INSERT INTO t VALUES ('abcd', 'abcd'), ('abc  ', 'abc  ')
    for (name, text, cast, stored) in [
        ("varchar(3)", "abcd", "abc", "!22001"),
        ("varchar(3)", "abc  ", "abc", "abc"),
        ("varchar(3)", "äöüß", "äöü", "!22001"),
        ("char(3)", "abcd", "abc", "!22001"),
        ("char(3)", "abc  ", "abc", "abc"),
        ("char(3)", "a  d", "a", "!22001"),
    ] {
        let sql_type = named(name);
        assert_eq!(shown(values(&[text], &sql_type, &EXPLICIT), &sql_type, &EXPLICIT), [cast], "{name} {text}");
        assert_eq!(shown(values(&[text], &sql_type, &assignment), &sql_type, &assignment), [stored], "{name} {text}");
    }
}

#[test]
fn tried_casts_give_null() {
    let tried = CastOptions { is_try: true, ..EXPLICIT };
    for (from, texts, to, expected) in [
        ("text", ["1", "x", "99999"], "smallint", ["1", "NULL", "NULL"]),
        ("text", ["{1,2}", "{1,x}", "{"], "integer[]", ["{1,2}", "NULL", "NULL"]),
        ("double precision", ["1.5", "1e30", "NaN"], "integer", ["2", "NULL", "NULL"]),
        ("numeric(10,2)", ["1.55", "-99.99", "1000"], "numeric(3,1)", ["1.6", "NULL", "NULL"]),
        ("bigint", ["1", "40000", "-40000"], "smallint", ["1", "NULL", "NULL"]),
        ("jsonb", ["1", "\"x\"", "null"], "integer", ["1", "NULL", "NULL"]),
        ("timestamp", ["2024-01-05 10:00", "infinity", "-infinity"], "time", ["10:00:00", "NULL", "NULL"]),
        ("text", ["[1,5)", "[a,5)", "[1,99999999999)"], "int4range", ["[1,5)", "NULL", "NULL"]),
        ("text", ["[2024-01-01,)", "[oops,)", "(,2024-13-01)"], "daterange", ["[2024-01-01,)", "NULL", "NULL"]),
        ("text", ["{[1,5)}", "{[1,b)}", "{[1,5),[x,)}"], "int8multirange", ["{[1,5)}", "NULL", "NULL"]),
    ] {
        let (from, to) = (named(from), named(to));
        let array = values(&texts, &from, &EXPLICIT).unwrap();
        assert_eq!(shown(cast_array(&array, &from, &to, &tried), &to, &tried), expected, "{from} to {to}");
    }
}

#[test]
fn distinct_values_of_a_dictionary_are_cast_once() {
    let array: ArrayRef =
        Arc::new(vec![Some("1"), None, Some("2"), Some("1")].into_iter().collect::<DictionaryArray<Int32Type>>());
    let cast = cast_array(&array, &SqlType::Text, &SqlType::Integer, &EXPLICIT).unwrap();
    assert_eq!(*cast, Int32Array::from(vec![Some(1), None, Some(2), Some(1)]));
}

#[test]
fn what_lies_under_null_does_not_fail() {
    let texts = SqlType::array_of(SqlType::Text);
    let elements: ArrayRef = Arc::new(StringViewArray::from(vec!["x", "1", "2"]));
    let offsets = arrow::buffer::OffsetBuffer::from_lengths([1, 2]);
    let nulls = Some(vec![false, true].into());
    let list: ArrayRef = Arc::new(arrow::array::ListArray::new(text::field_of(&texts), offsets, elements, nulls));
    let integers = SqlType::array_of(SqlType::Integer);
    let cast = cast_array(&list, &texts, &integers, &EXPLICIT);
    assert_eq!(shown(cast, &integers, &EXPLICIT), ["NULL", "{1,2}"]);
    // A slice of a list is cast like the whole.
    let cast = cast_array(&list.slice(1, 1), &texts, &integers, &EXPLICIT);
    assert_eq!(shown(cast, &integers, &EXPLICIT), ["{1,2}"]);
}

#[test]
fn records_are_cast_by_their_places() {
    let record = |types: [SqlType; 2]| {
        let field = |(index, sql_type)| RecordField { name: format!("f{index}"), sql_type };
        SqlType::Record(types.into_iter().enumerate().map(field).collect())
    };
    let (from, to) = (record([SqlType::Integer, SqlType::Text]), record([SqlType::Text, SqlType::Double]));
    let array = values(&["(1,2.5)", "(,)"], &from, &EXPLICIT).unwrap();
    assert_eq!(shown(cast_array(&array, &from, &to, &EXPLICIT), &to, &EXPLICIT), ["(1,2.5)", "(,)"]);
    assert_eq!(cast_context(&from, &to), Some(CastContext::Explicit));
}

/// Where Arrow's cast is said to do, it gives what ours gives.
#[test]
fn arrows_casts_are_ours() {
    let samples: [(&str, &[&str]); 9] = [
        ("smallint", &["0", "-1", "32767", "-32768"]),
        ("integer", &["0", "16777217", "2147483647", "-2147483648"]),
        ("bigint", &["0", "9007199254740993", "9223372036854775807", "-9223372036854775808"]),
        ("numeric(10,2)", &["0.01", "-99999999.99", "12345.67"]),
        ("numeric(30,10)", &["0.0000000001", "-12345678901234567890.0123456789"]),
        ("real", &["0.1", "-3.4e38", "NaN", "Infinity"]),
        ("text", &["a", "ä", ""]),
        ("varchar(3)", &["abc"]),
        ("jsonb", &["{\"a\": 1}"]),
    ];
    let targets =
        ["integer", "bigint", "real", "double precision", "numeric(12,2)", "numeric(38,18)", "numeric(60,20)"];
    let targets = targets.into_iter().chain(["text", "varchar", "json", "numeric", "timestamp", "numeric(19,0)"]);
    let mut compared = 0;
    for (to, (from, texts)) in targets.flat_map(|to| samples.iter().map(move |sample| (to, *sample))) {
        let (from, to) = (named(from), named(to));
        if !is_arrows(&from, &to) {
            continue;
        }
        let array = values(texts, &from, &EXPLICIT).unwrap();
        let ours = cast_array(&array, &from, &to, &EXPLICIT).unwrap();
        let strict = ArrowOptions { safe: false, ..ArrowOptions::default() };
        assert_eq!(*ours, *cast_with_options(&array, &to.arrow(), &strict).unwrap(), "{from} to {to}");
        compared += 1;
    }
    assert!(compared >= 20, "{compared}");
}

#[test]
fn files_types_become_sqls() {
    let dictionary = vec!["a", "b", "a"].into_iter().collect::<DictionaryArray<Int32Type>>();
    let bytes = FixedSizeBinaryArray::try_from_iter([[0x12_u8; 16]].into_iter()).unwrap();
    let list = arrow::array::FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1), None])], 2);
    let files: Vec<(ArrayRef, &str, &[&str])> = vec![
        (Arc::new(Int8Array::from(vec![-128])), "smallint", &["-128"]),
        (Arc::new(UInt64Array::from(vec![u64::MAX])), "numeric(20,0)", &["18446744073709551615"]),
        (Arc::new(Float16Array::from(vec![half(1.5)])), "real", &["1.5"]),
        (Arc::new(StringArray::from(vec!["a"])), "text", &["a"]),
        (Arc::new(LargeStringArray::from(vec!["a"])), "char(3)", &["a"]),
        (Arc::new(dictionary), "text", &["a", "b", "a"]),
        (Arc::new(Date64Array::from(vec![-1, 86_400_000])), "date", &["1969-12-31", "1970-01-02"]),
        (Arc::new(Time32SecondArray::from(vec![3_600])), "time", &["01:00:00"]),
        (Arc::new(TimestampSecondArray::from(vec![253_402_300_799])), "timestamp", &["9999-12-31 23:59:59"]),
        (Arc::new(TimestampMillisecondArray::from(vec![1])), "timestamp", &["1970-01-01 00:00:00.001"]),
        (Arc::new(TimestampNanosecondArray::from(vec![-1])), "timestamp", &["1969-12-31 23:59:59.999999"]),
        (
            Arc::new(TimestampNanosecondArray::from(vec![0]).with_timezone("+02:00")),
            "timestamptz",
            &["1970-01-01 00:00:00+00"],
        ),
        (Arc::new(DurationSecondArray::from(vec![90])), "interval", &["00:01:30"]),
        (Arc::new(bytes.clone()), "bytea", &["\\x12121212121212121212121212121212"]),
        (Arc::new(bytes), "uuid", &["12121212-1212-1212-1212-121212121212"]),
        (Arc::new(list), "integer[]", &["{1,NULL}"]),
        (Arc::new(Int64Array::from(vec![7])), "integer", &["7"]),
    ];
    for (array, name, expected) in files {
        let sql_type = named(name);
        let normal = normalize(&array, &sql_type).unwrap();
        assert_eq!(*normal.data_type(), sql_type.arrow());
        assert_eq!(shown(Ok(normal), &sql_type, &EXPLICIT), expected, "{} as {name}", array.data_type());
    }
    let beyond: [(ArrayRef, &str, &str); 3] = [
        (Arc::new(TimestampSecondArray::from(vec![i64::MAX])), "timestamp", "22008"),
        (Arc::new(Int64Array::from(vec![i64::MAX])), "integer", "22003"),
        (Arc::new(DurationSecondArray::from(vec![i64::MAX])), "interval", "22008"),
    ];
    for (array, name, code) in beyond {
        assert_eq!(normalize(&array, &named(name)).unwrap_err().code(), Some(code), "{name}");
    }
}

fn half(value: f32) -> <arrow::datatypes::Float16Type as ArrowPrimitiveType>::Native {
    let wide: ArrayRef = Arc::new(arrow::array::Float32Array::from(vec![value]));
    arrow::compute::cast(&wide, &DataType::Float16).unwrap().as_primitive::<arrow::datatypes::Float16Type>().value(0)
}
