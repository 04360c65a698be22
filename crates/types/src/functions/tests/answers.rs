//! Expressions with the answers that PostgreSQL 15 gives.
//!
//! `answers.txt` has one a line: `expression => answer`. To ask again, `SELECT` the expression with `SET TimeZone TO
//! 'Europe/Berlin'`. An answer `ERROR 22012` is the SQLSTATE. Zeros at the end of a `numeric` do not count.

use std::sync::Arc;

use arrow::datatypes::Field;
use datafusion_common::ScalarValue;
use datafusion_common::config::ConfigOptions;
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs};
use diligence_base::Error;

use super::literals::{ZONE, shown, type_of, value};
use crate::SqlType;
use crate::functions::{Body, Candidate, ScalarCall, resolve_scalar};

/// A call as it is written: `name(type 'text', ..)`, `type 'text' sign type 'text'` or `sign type 'text'`.
fn parsed(expression: &str) -> (String, Vec<(SqlType, String)>) {
    let mut literals = Vec::new();
    let mut name = String::new();
    let mut rest = expression;
    if let Some((before, arguments)) = expression.strip_suffix(')').and_then(|call| call.split_once('('))
        && !before.contains('\'')
        && !before.contains(' ')
    {
        name = before.to_owned();
        rest = arguments;
    }
    while !rest.trim().is_empty() {
        rest = rest.trim_start_matches([',', ' ']);
        // An operator's sign stands before a type's name.
        let sign: String = rest.chars().take_while(|c| !c.is_alphanumeric()).collect();
        if !sign.is_empty() {
            name = sign.trim().to_owned();
            rest = &rest[sign.len()..];
        }
        let (type_name, after) = rest.split_once(" '").expect("a literal");
        let mut end = 0;
        while let Some(found) = after[end..].find('\'') {
            end += found;
            if !after[end + 1..].starts_with('\'') {
                break;
            }
            end += 2;
        }
        let text = after[..end].replace("''", "'");
        literals.push((type_of(type_name, &text), text));
        rest = &after[end + 1..];
    }
    (name, literals)
}

/// A call's value of constants, as PostgreSQL shows it, and whether it is a float.
fn answer(expression: &str) -> Result<(String, bool), Error> {
    let (name, literals) = parsed(expression);
    let candidates: Vec<Candidate> = literals
        .iter()
        .map(|(sql_type, text)| Candidate { sql_type: sql_type.clone(), literal: Some(text.clone()) })
        .collect();
    let call = resolve_scalar(&name, &candidates)?;
    let mut values: Vec<ScalarValue> =
        literals.iter().zip(&call.arguments).map(|((_, text), sql_type)| value(sql_type, text)).collect();
    if call.overload.takes_zone {
        values.push(ScalarValue::Utf8View(Some(ZONE.to_owned())));
    }
    let array = evaluated(&call, values)?;
    Ok((shown(&array, 0, &call.returns), call.returns == SqlType::Double))
}

/// The column that a call gives for constants.
fn evaluated(call: &ScalarCall, values: Vec<ScalarValue>) -> Result<arrow::array::ArrayRef, Error> {
    let Some(udf) = call.udf() else {
        let Body::Special(special) = &call.overload.body else { panic!("no function for {call:?}") };
        panic!("{special:?} is the engine's");
    };
    let fields = call.arguments.iter().map(|sql_type| Arc::new(sql_type.field("argument", true))).collect();
    let arguments = ScalarFunctionArgs {
        args: values.into_iter().map(ColumnarValue::Scalar).collect(),
        arg_fields: fields,
        number_rows: 1,
        return_field: Arc::new(Field::new("result", call.arrow(), true)),
        config_options: Arc::new(ConfigOptions::default()),
    };
    let result = udf.invoke_with_args(arguments).map_err(|error| match error {
        datafusion_common::DataFusionError::External(error) => match error.downcast::<Error>() {
            Ok(error) => *error,
            Err(error) => panic!("{error}"),
        },
        other => panic!("{other}"),
    })?;
    let array = result.into_array(1).expect("an array");
    assert_eq!(*array.data_type(), call.arrow(), "{}", call.overload.name);
    Ok(array)
}

/// Whether two floats are the same but for the last digit.
fn is_same(ours: &str, theirs: &str) -> bool {
    if ours == theirs {
        return true;
    }
    match (ours.parse::<f64>(), theirs.parse::<f64>()) {
        (Ok(ours), Ok(theirs)) if ours.is_finite() => (ours - theirs).abs() <= theirs.abs() * 1e-15,
        _ => false,
    }
}

/// A `numeric` without zeros at the end, as ours is shown.
fn trimmed(answer: &str) -> &str {
    let is_number =
        answer.contains('.') && answer.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-'));
    if is_number { answer.trim_end_matches('0').trim_end_matches('.') } else { answer }
}

#[test]
fn postgresqls_answers() {
    let mut wrong = Vec::new();
    let lines = include_str!("answers.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    for line in lines {
        let (expression, theirs) = line.rsplit_once(" => ").expect("an answer");
        let (ours, is_float) = match answer(expression) {
            Ok(answer) => answer,
            Err(error) => (format!("ERROR {}", error.code().unwrap_or(error.message())), false),
        };
        if ours != theirs && ours != trimmed(theirs) && !(is_float && is_same(&ours, theirs)) {
            wrong.push(format!("{expression} is {theirs:?}, not {ours:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
