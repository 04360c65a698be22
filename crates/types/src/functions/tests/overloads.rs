//! Every overload called with nothing, one row, NULLs and constants: it gives its declared type and never panics.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, new_empty_array, new_null_array};
use arrow::datatypes::Field;
use datafusion_common::ScalarValue;
use datafusion_common::config::ConfigOptions;
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs};

use super::literals::{ZONE, value};
use crate::SqlType;
use crate::enum_type::EnumType;
use crate::functions::{Argument, Candidate, Overload, ScalarCall, names, resolve_scalar, scalars};
use crate::search::SearchKind;

/// A type for each argument of an overload.
fn types(overload: &Overload) -> Vec<SqlType> {
    let numbers = || SqlType::array_of(SqlType::Integer);
    match overload.name {
        "map" | "list_zip" | "array_zip" => return vec![numbers(), numbers()],
        "flatten" | "all elements" => return vec![SqlType::array_of(numbers())],
        "bit_and_of_values" | "bit_or_of_values" | "bit_xor_of_values" => {
            return vec![SqlType::array_of(SqlType::VarBit(None))];
        }
        "map_from_entries" | "json_of_pairs" | "jsonb_of_pairs" => {
            let field = |name: &str| crate::sql_type::RecordField { name: name.to_owned(), sql_type: SqlType::Text };
            return vec![SqlType::array_of(SqlType::Record([field("key"), field("value")].into()))];
        }
        _ => {}
    }
    let of = |argument: &Argument| match argument {
        Argument::Exact(SqlType::Numeric(_)) => SqlType::decimal(10, 2),
        Argument::Exact(SqlType::Char(_)) => SqlType::Char(Some(3)),
        Argument::Exact(sql_type) => sql_type.clone(),
        Argument::AnyElement | Argument::AnyCompatible | Argument::AnyNonArray | Argument::Any => SqlType::Integer,
        Argument::AnyArray | Argument::AnyCompatibleArray => SqlType::array_of(SqlType::Integer),
        Argument::AnyEnum => moods(),
        Argument::AnyMap => SqlType::Map(Arc::new((SqlType::Integer, SqlType::Text))),
        Argument::AnyRecord => {
            SqlType::Record([crate::sql_type::RecordField { name: "a".to_owned(), sql_type: SqlType::Integer }].into())
        }
    };
    let variadic = overload.variadic.iter().flat_map(|argument| [argument, argument]);
    overload.arguments.iter().chain(variadic).map(of).collect()
}

fn moods() -> SqlType {
    let labels = ["sad", "ok", "happy"].map(str::to_owned).to_vec();
    SqlType::Enum(Arc::new(EnumType { oid: 1, array_oid: 2, schema: None, name: "mood".to_owned(), labels }))
}

/// Texts of some values of a type, those at its ends among them.
fn samples(sql_type: &SqlType) -> &'static [&'static str] {
    match sql_type {
        SqlType::Boolean => &["t"],
        SqlType::Enum(_) => &["happy", "sad"],
        SqlType::Bit(_) | SqlType::VarBit(_) => &["", "101", "0"],
        SqlType::SmallInt => &["-32768", "0", "7", "32767"],
        SqlType::Integer => &["-2147483648", "0", "3", "2147483647"],
        SqlType::BigInt => &["-9223372036854775808", "0", "3", "9223372036854775807"],
        SqlType::Numeric(_) => &["-99999999.99", "0.00", "1.50"],
        SqlType::Real | SqlType::Double => &["-1e30", "0", "0.5", "inf", "NaN"],
        SqlType::Bytea => &["\\x", "\\x00ff41"],
        SqlType::Date => &["-infinity", "4713-11-24 BC", "2024-02-29", "5874897-12-31"],
        SqlType::Time => &["00:00:00", "23:59:59.999999"],
        SqlType::Timestamp | SqlType::TimestampTz => &["infinity", "4713-11-24 BC", "2024-02-29 12:34:56.789"],
        SqlType::Interval => &["-2147483647 mons", "1 mon 2 days 03:04:05.6", "0 days"],
        SqlType::Range(_) => &["empty", "(,)"],
        SqlType::Search(SearchKind::Vector) => &["", "'a':1A,2 'abc':3", "'x' 'é''\\\\'"],
        SqlType::Search(SearchKind::Query) => &["", "'a':*A & !'b' <-> ( 'c' | 'abc' )", "'x'"],
        SqlType::Search(SearchKind::Configuration) => &["simple", "english", "russian"],
        SqlType::Search(SearchKind::Dictionary) => &["simple", "english_stem"],
        SqlType::Network(kind) if kind.is_internet() => &["0.0.0.0/0", "10.1.0.0/16", "::1"],
        SqlType::Network(_) => &["08:00:2b:ff:fe:01:02:03", "08:00:2b:01:02:03"],
        SqlType::Multirange(_) => &["{}", "{(,)}"],
        SqlType::TimeTz => &["00:00:00-12", "23:59:59.999999+05:30"],
        SqlType::Array(element) if **element == SqlType::VarBit(None) => &["{}", "{101,100}", "{1,NULL}"],
        SqlType::Array(_) => &["{}", "{3,1}"],
        _ => &["", "abc é", "%\\", "YYYY-MM-DD 99.9", "hex", "day"],
    }
}

fn invoke(call: &ScalarCall, arguments: Vec<ColumnarValue>, rows: usize) -> Option<ArrayRef> {
    let udf = call.udf()?;
    let fields = call.arguments.iter().map(|sql_type| Arc::new(sql_type.field("argument", true))).collect();
    let arguments = ScalarFunctionArgs {
        args: arguments,
        arg_fields: fields,
        number_rows: rows,
        return_field: Arc::new(Field::new("result", call.arrow(), true)),
        config_options: Arc::new(ConfigOptions::default()),
    };
    // An error is an answer; a broken invariant is not.
    match udf.invoke_with_args(arguments) {
        Ok(result) => Some(result.into_array(rows).expect("an array")),
        Err(error) => {
            let text = error.to_string();
            let is_bug = text.contains("Internal error") || text.contains("a kernel does not");
            assert!(!is_bug, "{}({:?}): {text}", call.overload.name, call.arguments);
            None
        }
    }
}

fn zoned(call: &ScalarCall, mut arguments: Vec<ColumnarValue>) -> Vec<ColumnarValue> {
    if call.overload.takes_zone {
        arguments.push(ColumnarValue::Scalar(ScalarValue::Utf8View(Some(ZONE.to_owned()))));
    }
    if call.overload.takes_configuration {
        arguments.push(ColumnarValue::Scalar(ScalarValue::Utf8View(Some("english".to_owned()))));
    }
    arguments
}

fn check(call: &ScalarCall, result: Option<ArrayRef>, rows: usize) {
    if let Some(array) = result {
        // Fields may say more of their type than the array does.
        let (is, declared) = (array.data_type(), call.arrow());
        assert!(is.equals_datatype(&declared), "{}({:?}): {is}, {declared}", call.overload.name, call.arguments);
        assert_eq!(array.len(), rows, "{}({:?})", call.overload.name, call.arguments);
    }
}

#[test]
fn every_overload_takes_what_it_declares() {
    let mut count = 0;
    for name in names() {
        for overload in scalars(name) {
            let candidates: Vec<Candidate> =
                types(overload).into_iter().map(|sql_type| Candidate { sql_type, literal: None }).collect();
            let call = resolve_scalar(name, &candidates).unwrap_or_else(|error| panic!("{overload:?}: {error}"));
            let given: Vec<SqlType> = call.arguments.iter().take(candidates.len()).cloned().collect();
            if call.udf().is_none() || name == "pg_sleep" {
                continue;
            }
            count += 1;
            let columns = |of: &dyn Fn(&SqlType) -> ArrayRef| -> Vec<ColumnarValue> {
                given.iter().map(|sql_type| ColumnarValue::Array(of(sql_type))).collect()
            };
            let empty = columns(&|sql_type| new_empty_array(&sql_type.arrow()));
            if !given.is_empty() {
                check(&call, invoke(&call, zoned(&call, empty), 0), 0);
            }
            for rows in [1, 3] {
                let nulls = columns(&|sql_type| new_null_array(&sql_type.arrow(), rows));
                let result = invoke(&call, zoned(&call, nulls), rows);
                if let (true, Some(array)) = (overload.is_strict && !given.is_empty(), &result) {
                    assert_eq!(array.logical_null_count(), rows, "{name} of NULLs");
                }
                check(&call, result, rows);
            }
            // What makes as many values as it is told is not told to make a billion.
            let is_large =
                matches!(name, "generate_series" | "range" | "repeat" | "lpad" | "rpad" | "array_fill" | "factorial");
            let has_text = |sql_type: &SqlType| !matches!(sql_type, SqlType::Record(_) | SqlType::Map(_));
            if is_large || !given.iter().all(has_text) {
                continue;
            }
            let most = given.iter().map(|sql_type| samples(sql_type).len()).max().unwrap_or(1);
            for round in 0..most * 2 {
                let sample = |index: usize, sql_type: &SqlType| {
                    let samples = samples(sql_type);
                    value(sql_type, samples[(round + index * (round / most)) % samples.len()])
                };
                let constants: Vec<ScalarValue> =
                    given.iter().enumerate().map(|(index, sql_type)| sample(index, sql_type)).collect();
                let scalars = constants.iter().cloned().map(ColumnarValue::Scalar).collect();
                check(&call, invoke(&call, zoned(&call, scalars), 2), 2);
                let arrays = constants.iter().map(|value| ColumnarValue::Array(value.to_array_of_size(3).unwrap()));
                check(&call, invoke(&call, zoned(&call, arrays.collect()), 3), 3);
            }
        }
    }
    assert!(count > 400, "{count} overloads");
}
