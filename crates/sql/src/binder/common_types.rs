//! The type that values have in common of which some are literals or parameters.
//!
//! A type with numbers in its parentheses is never forced on what is only written beside it: in
//! `COALESCE(v, 'a long text')` the text stays whole, however few characters the type of `v` has, and
//! `c IN ('1.504')` compares all digits.

use std::sync::Arc;

use datafusion_common::ScalarValue;
use diligence_base::{Error, Result};
use diligence_types::SqlType;
use diligence_types::coercion::common_type;
use diligence_types::functions::{ScalarCall, resolve_scalar};
use diligence_types::sql_type::{NUMERIC_PRECISION, NUMERIC_SCALE};

use super::Binder;
use super::literals::number;
use crate::algebra::{Constant, Scalar};

/// The type that all become. Fails with 42804 if there is none.
pub(super) fn common_of(types: &[SqlType], what: &str) -> Result<SqlType> {
    if let Some(common) = common_type(types) {
        return Ok(if common == SqlType::Unknown { SqlType::Text } else { common });
    }
    if let Some(maps) = types.iter().map(pair_of).collect::<Option<Vec<_>>>()
        && maps.iter().any(Option::is_some)
    {
        let (keys, values): (Vec<_>, Vec<_>) = maps.into_iter().flatten().cloned().unzip();
        return Ok(SqlType::Map(Arc::new((common_of(&keys, what)?, common_of(&values, what)?))));
    }
    let mut known = types.iter().filter(|sql_type| **sql_type != SqlType::Unknown);
    let first = known.next().cloned().unwrap_or(SqlType::Text);
    let other = known.find(|other| common_type(&[first.clone(), (*other).clone()]).is_none());
    let other = other.cloned().unwrap_or_else(|| first.clone());
    let (first, other) = (first.without_modifier(), other.without_modifier());
    Err(Error::input(format!("{what} types {first} and {other} cannot be matched")).with_code("42804"))
}

/// The types of a map's keys and values; nothing of what has no type yet, `None` for other types.
fn pair_of(sql_type: &SqlType) -> Option<Option<&(SqlType, SqlType)>> {
    match sql_type {
        SqlType::Map(pair) => Some(Some(pair.as_ref())),
        SqlType::Unknown => Some(None),
        _ => None,
    }
}

/// The type that all of these values become. Fails with 42804 if there is none: `what` is CASE, UNION, …
pub(super) fn common_of_values(values: &[&Scalar], what: &str) -> Result<SqlType> {
    let types = values.iter().map(|value| value.sql_type()).collect::<Vec<_>>();
    let common = common_of(&types, what)?;
    let takes_parameters = values.iter().any(|value| is_open_parameter(value)) && has_length(&common);
    Ok(if takes_parameters { common.without_modifier() } else { beside_literals(common, values) })
}

/// A common type with room for the literals among the values, and for the digits of parameters. Texts that parameters
/// stand for may be longer.
pub(super) fn beside_literals(common: SqlType, values: &[&Scalar]) -> SqlType {
    match &common {
        SqlType::Numeric(Some(_)) if values.iter().any(|value| is_open_parameter(value)) => SqlType::NUMERIC,
        SqlType::Numeric(Some(_)) => {
            let types = values.iter().map(|value| literal_number(value).unwrap_or_else(|| value.sql_type()));
            let types = types.map(|sql_type| sql_type.uncollated()).collect::<Vec<_>>();
            common_type(&types).unwrap_or(common)
        }
        SqlType::Array(_) if is_sized(common.innermost()) => {
            if values.iter().any(|value| has_open_elements(value)) {
                common.without_modifier()
            } else {
                common
            }
        }
        sized if has_length(sized) => {
            let fits = |value: &&Scalar| literal_of(value).is_none_or(|text| has_room(sized, text));
            if values.iter().all(fits) { common } else { common.without_modifier() }
        }
        _ => common,
    }
}

/// The common type of the rows of VALUES and UNION: `numeric` with digits of each value's own, where they are literals
/// with other numbers of digits behind the point, so that `VALUES (1.5), (2.25)` gives `1.5`. Zeros at the end are not
/// kept then; where a literal has such, all have as many digits.
pub(super) fn with_own_digits(common: SqlType, values: &[&Scalar]) -> SqlType {
    if !matches!(common, SqlType::Numeric(Some(_))) {
        return common;
    }
    let scales = values.iter().filter(|value| !is_null(value)).map(|value| own_scale(value));
    match scales.collect::<Option<Vec<_>>>() {
        Some(scales) if scales.windows(2).any(|pair| pair[0] != pair[1]) => SqlType::NUMERIC,
        _ => common,
    }
}

/// The digits behind the point of a literal; `None` if the last one is a zero, there are too many for a `numeric` of
/// any digits, or it is no number's literal.
fn own_scale(value: &Scalar) -> Option<i8> {
    let number = match value {
        Scalar::Constant(Constant { sql_type: SqlType::Unknown, .. }) => number_in_quotes(value)?,
        Scalar::Constant(constant) => constant.clone(),
        _ => return None,
    };
    let is_short = |precision: u8, scale: i8| {
        scale <= NUMERIC_SCALE
            && i16::from(precision) - i16::from(scale) <= i16::from(NUMERIC_PRECISION) - i16::from(NUMERIC_SCALE)
    };
    match (&number.value, &number.sql_type) {
        (_, SqlType::SmallInt | SqlType::Integer | SqlType::BigInt) => Some(0),
        (ScalarValue::Decimal128(Some(digits), precision, scale), SqlType::Numeric(Some(_))) => {
            let is_shortest = *scale <= 0 || digits % 10 != 0;
            (is_shortest && is_short(*precision, *scale)).then_some(*scale)
        }
        _ => None,
    }
}

fn is_null(scalar: &Scalar) -> bool {
    matches!(scalar, Scalar::Constant(constant) if constant.is_null())
}

/// A call whose types have room for the literals among its arguments: `array_append(c, '1.504')` appends all digits,
/// whatever the type of `c` has in its parentheses. Fails if no overload takes the number that a literal is.
pub(super) fn with_room(name: &str, call: ScalarCall, arguments: Vec<Scalar>) -> Result<(ScalarCall, Vec<Scalar>)> {
    let mut has_numbers = false;
    let mut given = Vec::with_capacity(arguments.len());
    for (index, argument) in arguments.into_iter().enumerate() {
        given.push(match number_in_quotes(&argument) {
            Some(number) if call.arguments.get(index).is_some_and(|to| !has_digits(to, &number)) => {
                has_numbers = true;
                Scalar::Constant(number)
            }
            _ => argument,
        });
    }
    let mut call = match has_numbers {
        true => resolve_scalar(name, &given.iter().map(Binder::candidate).collect::<Vec<_>>())?,
        false => call,
    };
    let is_narrow = given.iter().zip(&call.arguments).any(|(argument, to)| match to {
        SqlType::Array(_) => is_sized(to.innermost()) && has_open_elements(argument),
        to if has_length(to) => {
            is_open_parameter(argument) || literal_of(argument).is_some_and(|text| !has_room(to, text))
        }
        _ => false,
    });
    if is_narrow {
        for sql_type in call.arguments.iter_mut().chain([&mut call.returns]) {
            if is_sized(sql_type.innermost()) {
                *sql_type = sql_type.without_modifier();
            }
        }
    }
    Ok((call, given))
}

/// Whether a type holds all digits of a number.
fn has_digits(sql_type: &SqlType, number: &Constant) -> bool {
    let SqlType::Numeric(Some((precision, scale))) = sql_type else { return true };
    let (before, behind) = match (&number.sql_type, &number.value) {
        (SqlType::Numeric(Some((precision, scale))), _) => (i16::from(*precision) - i16::from(*scale), *scale),
        (_, value) => (i16::try_from(value.to_string().trim_start_matches('-').len()).unwrap_or(i16::MAX), 0),
    };
    behind <= *scale && before <= i16::from(*precision) - i16::from(*scale)
}

/// Whether a parameter's type is decided by what stands beside it.
pub(super) fn is_open_parameter(scalar: &Scalar) -> bool {
    matches!(scalar, Scalar::Parameter { sql_type: SqlType::Unknown, .. })
}

/// Whether a type says how many characters or bits its values have.
pub(super) fn has_length(sql_type: &SqlType) -> bool {
    matches!(
        sql_type,
        SqlType::Varchar(Some(_)) | SqlType::Char(Some(_)) | SqlType::Bit(Some(_)) | SqlType::VarBit(Some(_))
    )
}

/// Whether a type says how many characters, bits or digits its values have.
pub(super) fn is_sized(sql_type: &SqlType) -> bool {
    has_length(sql_type) || matches!(sql_type, SqlType::Numeric(Some(_)))
}

/// Whether a text is a value of a type with a length.
fn has_room(sql_type: &SqlType, text: &str) -> bool {
    let is_within = |text: &str, most: u32| text.chars().count() <= most as usize;
    match sql_type {
        SqlType::Varchar(Some(most)) | SqlType::VarBit(Some(most)) => is_within(text, *most),
        SqlType::Char(Some(most)) => is_within(text.trim_end_matches(' '), *most),
        SqlType::Bit(Some(bits)) => text.chars().count() == *bits as usize,
        _ => true,
    }
}

/// The text of a literal that has no type yet.
fn literal_of(scalar: &Scalar) -> Option<&str> {
    match scalar {
        Scalar::Constant(Constant { value, sql_type: SqlType::Unknown }) => value.try_as_str().flatten(),
        _ => None,
    }
}

/// Whether an array has elements whose type is decided by what stands beside it.
fn has_open_elements(array: &Scalar) -> bool {
    match array {
        Scalar::Constant(_) => literal_of(array).is_some_and(|text| text.trim() != "{}"),
        Scalar::Array { elements, .. } if elements.is_empty() => false,
        other => has_unknown(&other.sql_type()),
    }
}

/// The type of the number that a literal in quotes is, with the digits that are written.
fn literal_number(scalar: &Scalar) -> Option<SqlType> {
    let constant = number_in_quotes(scalar)?;
    Some(constant.sql_type)
}

/// The number that a literal in quotes is, if it is one with all its digits.
pub(super) fn number_in_quotes(scalar: &Scalar) -> Option<Constant> {
    let constant = number(literal_of(scalar)?.trim(), false).ok()?;
    (constant.sql_type != SqlType::Double).then_some(constant)
}

/// Whether a part of a type is not decided.
pub(super) fn has_unknown(sql_type: &SqlType) -> bool {
    match sql_type {
        SqlType::Unknown => true,
        SqlType::Array(element) => has_unknown(element),
        SqlType::Record(fields) => fields.iter().any(|field| has_unknown(&field.sql_type)),
        _ => false,
    }
}
