//! Functions of texts (manual, section 9.4). Positions and lengths count characters.

use std::borrow::Cow;

use arrow::array::{Array, AsArray, Int64Array, StringViewArray};
use datafusion_expr::ColumnarValue;
use diligence_base::{Error, Result};

use super::catalog::Catalog;
use super::columns::{Columns, List, Read, Strided, VALUE_BYTES_MAX, kernel, too_large};
use super::errors::{invalid_argument, value_error};
use super::printing::braced;
use super::{Body, Call};
use crate::quoted::quoted_name;
use crate::sql_type::Category;
use crate::{SqlType, text};

/// Declares the functions.
pub(super) fn declare(catalog: &mut Catalog) {
    cases(catalog);
    parts(catalog);
    padded(catalog);
    searched(catalog);
    codes(catalog);
    joined(catalog);
    quoted(catalog);
}

/// The byte at which a character begins, or the end of the text.
fn byte_of(text: &str, character: usize) -> usize {
    if text.is_ascii() {
        return character.min(text.len());
    }
    text.char_indices().nth(character).map_or(text.len(), |(byte, _)| byte)
}

fn count(text: &str) -> i64 {
    match text.is_ascii() {
        true => text.len() as i64,
        false => text.chars().count() as i64,
    }
}

fn as_integer(number: i64) -> Result<i32> {
    i32::try_from(number).map_err(|_| too_large())
}

/// The characters from the start, counted from 1, on; the start may be before the text. Fails with 22011 for a negative
/// length.
fn substring(text: &str, start: i64, length: Option<i64>) -> Result<&str> {
    let end = match length {
        Some(length) if length < 0 => return Err(value_error("negative substring length not allowed", "22011")),
        Some(length) => start.saturating_add(length),
        None => i64::MAX,
    };
    let (from, to) = ((start - 1).max(0), (end - 1).max(0));
    let from = byte_of(text, usize::try_from(from).unwrap_or(usize::MAX));
    let to = byte_of(text, usize::try_from(to).unwrap_or(usize::MAX)).max(from);
    Ok(&text[from..to])
}

/// The first characters; with a negative count all but the last.
fn left(text: &str, length: i64) -> &str {
    let length = if length < 0 { (count(text) + length).max(0) } else { length };
    &text[..byte_of(text, usize::try_from(length).unwrap_or(usize::MAX))]
}

/// The last characters; with a negative count all but the first.
fn right(text: &str, length: i64) -> &str {
    let skipped = if length < 0 { -length } else { (count(text) - length).max(0) };
    &text[byte_of(text, usize::try_from(skipped).unwrap_or(usize::MAX))..]
}

/// Letters after anything but letters and digits large, the others small.
fn initcap(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut is_inside = false;
    for character in text.chars() {
        match is_inside {
            true => result.push(lower_char(character)),
            false => result.push(upper_char(character)),
        }
        is_inside = character.is_alphanumeric();
    }
    result
}

/// One character for one, as the C library's `towupper` does.
fn upper_char(character: char) -> char {
    let mut upper = character.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(only), None) => only,
        _ => character,
    }
}

fn lower_char(character: char) -> char {
    let mut lower = character.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(only), None) => only,
        _ => character,
    }
}

fn upper(text: &str) -> String {
    if text.is_ascii() { text.to_ascii_uppercase() } else { text.chars().map(upper_char).collect() }
}

/// The text in small letters, one for one.
pub(super) fn lower(text: &str) -> String {
    if text.is_ascii() { text.to_ascii_lowercase() } else { text.chars().map(lower_char).collect() }
}

fn cases(catalog: &mut Catalog) {
    catalog.add("lower(text) -> text", kernel!(|a: &str| lower(a)));
    catalog.add("upper(text) -> text", kernel!(|a: &str| upper(a)));
    catalog.add("initcap(text) -> text", kernel!(|a: &str| initcap(a)));
    catalog.add("reverse(text) -> text", kernel!(|a: &str| a.chars().rev().collect::<String>()));
    // Blanks at the end of a `char(n)` are not part of it.
    catalog.add_all(
        &["length(bpchar) -> integer", "char_length(bpchar) -> integer", "character_length(bpchar) -> integer"],
        kernel!(try |a: &str| as_integer(count(a.trim_end_matches(' ')))),
    );
    catalog.add_all(
        &["length(text) -> integer", "char_length(text) -> integer", "character_length(text) -> integer"],
        kernel!(try |a: &str| as_integer(count(a))),
    );
    catalog.add_all(
        &["octet_length(text) -> integer", "octet_length(bpchar) -> integer"],
        kernel!(try |a: &str| as_integer(a.len() as i64)),
    );
    catalog.add("bit_length(text) -> integer", kernel!(try |a: &str| as_integer(a.len() as i64 * 8)));
}

fn parts(catalog: &mut Catalog) {
    catalog.add_all(
        &["substring(text, integer) -> text", "substr(text, integer) -> text"],
        kernel!(try |a: &str, start: i32| substring(a, start.into(), None)),
    );
    catalog.add_all(
        &["substring(text, integer, integer) -> text", "substr(text, integer, integer) -> text"],
        kernel!(try |a: &str, start: i32, length: i32| substring(a, start.into(), Some(length.into()))),
    );
    catalog.add("left(text, integer) -> text", kernel!(|a: &str, length: i32| left(a, length.into())));
    catalog.add("right(text, integer) -> text", kernel!(|a: &str, length: i32| right(a, length.into())));
    catalog.add(
        "overlay(text, text, integer) -> text",
        kernel!(try |a: &str, by: &str, start: i32| overlay(a, by, start.into(), count(by))),
    );
    catalog.add(
        "overlay(text, text, integer, integer) -> text",
        kernel!(try |a: &str, by: &str, start: i32, length: i32| overlay(a, by, start.into(), length.into())),
    );
    catalog.add(
        "split_part(text, text, integer) -> text",
        kernel!(try |a: &str, by: &str, part: i32| split_part(a, by, part)),
    );
    for (names, blanks, given) in TRIMS {
        for name in names {
            catalog.add(leaked(name, "(text) -> text"), blanks.clone());
            catalog.add(leaked(name, "(text, text) -> text"), given.clone());
        }
    }
}

/// A signature made of parts that are known at compile time.
fn leaked(name: &str, rest: &str) -> &'static str {
    Box::leak(format!("{name}{rest}").into_boxed_str())
}

fn in_set(set: &str) -> impl Fn(char) -> bool + '_ {
    move |character| set.contains(character)
}

const TRIMS: [(&[&str], Body, Body); 3] = [
    (
        &["btrim", "trim"],
        kernel!(|a: &str| a.trim_matches(' ')),
        kernel!(|a: &str, set: &str| a.trim_matches(in_set(set))),
    ),
    (
        &["ltrim"],
        kernel!(|a: &str| a.trim_start_matches(' ')),
        kernel!(|a: &str, set: &str| a.trim_start_matches(in_set(set))),
    ),
    (
        &["rtrim"],
        kernel!(|a: &str| a.trim_end_matches(' ')),
        kernel!(|a: &str, set: &str| a.trim_end_matches(in_set(set))),
    ),
];

fn overlay(text: &str, by: &str, start: i64, length: i64) -> Result<String> {
    if start <= 0 {
        return Err(value_error("negative substring length not allowed", "22011"));
    }
    let before = substring(text, 1, Some(start - 1))?;
    let after = substring(text, start.saturating_add(length), None)?;
    Ok([before, by, after].concat())
}

fn split_part<'a>(text: &'a str, by: &str, part: i32) -> Result<&'a str> {
    if part == 0 {
        return Err(invalid_argument("field position must not be zero"));
    }
    let whole = if part == 1 || part == -1 { text } else { "" };
    if by.is_empty() || text.is_empty() {
        return Ok(whole);
    }
    let skipped = usize::try_from(part.unsigned_abs() - 1).unwrap_or(usize::MAX);
    Ok(match part > 0 {
        true => text.split(by).nth(skipped).unwrap_or(""),
        false => text.rsplit(by).nth(skipped).unwrap_or(""),
    })
}

fn repeated(text: &str, times: i32) -> Result<String> {
    let times = usize::try_from(times).unwrap_or(0);
    match text.len().checked_mul(times) {
        Some(bytes) if bytes <= VALUE_BYTES_MAX => Ok(text.repeat(times)),
        _ => Err(too_large()),
    }
}

/// The text with as many fill characters that it has a length; cut if it is longer.
fn padding<'a>(text: &'a str, length: i32, fill: &str) -> Result<(&'a str, String)> {
    let length = i64::from(length.max(0));
    let missing = length - count(text);
    if missing <= 0 || fill.is_empty() {
        return Ok((left(text, length), String::new()));
    }
    if usize::try_from(missing).unwrap_or(usize::MAX) > VALUE_BYTES_MAX / 4 {
        return Err(too_large());
    }
    Ok((text, fill.chars().cycle().take(missing as usize).collect()))
}

fn padded(catalog: &mut Catalog) {
    catalog.add("repeat(text, integer) -> text", kernel!(try |a: &str, times: i32| repeated(a, times)));
    catalog.add(
        "lpad(text, integer) -> text",
        kernel!(try |a: &str, length: i32| {
            padding(a, length, " ").map(|(text, fill)| fill + text)
        }),
    );
    catalog.add(
        "lpad(text, integer, text) -> text",
        kernel!(try |a: &str, length: i32, fill: &str| {
            padding(a, length, fill).map(|(text, fill)| fill + text)
        }),
    );
    catalog.add(
        "rpad(text, integer) -> text",
        kernel!(try |a: &str, length: i32| {
            padding(a, length, " ").map(|(text, fill)| text.to_owned() + &fill)
        }),
    );
    catalog.add(
        "rpad(text, integer, text) -> text",
        kernel!(try |a: &str, length: i32, fill: &str| {
            padding(a, length, fill).map(|(text, fill)| text.to_owned() + &fill)
        }),
    );
}

fn position(text: &str, part: &str) -> Result<i32> {
    match text.find(part) {
        Some(byte) => as_integer(count(&text[..byte]) + 1),
        None => Ok(0),
    }
}

fn searched(catalog: &mut Catalog) {
    catalog.add_all(
        &["position(text, text) -> integer", "strpos(text, text) -> integer"],
        kernel!(try |a: &str, part: &str| position(a, part)),
    );
    catalog.add_all(
        &["starts_with(text, text) -> boolean", "^@(text, text) -> boolean"],
        kernel!(|a: &str, start: &str| a.starts_with(start)),
    );
    catalog.add(
        "replace(text, text, text) -> text",
        kernel!(|a: &str, from: &str, to: &str| match from.is_empty() || !a.contains(from) {
            true => Cow::Borrowed(a),
            false => Cow::Owned(a.replace(from, to)),
        }),
    );
    catalog.add("translate(text, text, text) -> text", kernel!(|a: &str, from: &str, to: &str| translate(a, from, to)));
    catalog
        .add(
            "string_to_array(text, text) -> text[]",
            kernel!(|a: Option<&str>, by: Option<&str>| a.map(|a| List(split(a, by, None)))),
        )
        .lenient();
    catalog
        .add(
            "string_to_array(text, text, text) -> text[]",
            kernel!(|a: Option<&str>, by: Option<&str>, null: Option<&str>| a.map(|a| List(split(a, by, null)))),
        )
        .lenient();
    // The table is the array's rows: the front unnests it.
    let table = kernel!(|a: Option<&str>, by: Option<&str>| a.map(|a| List(split(a, by, None))));
    catalog.add("string_to_table(text, text) -> text[]", table).lenient();
    let table = kernel!(|a: Option<&str>, by: Option<&str>, null: Option<&str>| a.map(|a| List(split(a, by, null))));
    catalog.add("string_to_table(text, text, text) -> text[]", table).lenient();
}

fn translate(text: &str, from: &str, to: &str) -> String {
    let to: Vec<char> = to.chars().collect();
    let from: Vec<char> = from.chars().collect();
    text.chars()
        .filter_map(|character| match from.iter().position(|known| *known == character) {
            Some(place) => to.get(place).copied(),
            None => Some(character),
        })
        .collect()
}

/// The parts between separators; each character without one (NULL), the whole if the separator is empty.
fn split(text: &str, by: Option<&str>, null: Option<&str>) -> Vec<Option<String>> {
    let kept = |part: &str| (null != Some(part)).then(|| part.to_owned());
    match by {
        _ if text.is_empty() => vec![],
        None => text.chars().map(|character| kept(character.encode_utf8(&mut [0; 4]))).collect(),
        Some("") => vec![kept(text)],
        Some(by) => text.split(by).map(kept).collect(),
    }
}

fn codes(catalog: &mut Catalog) {
    catalog.add("ascii(text) -> integer", kernel!(|a: &str| a.chars().next().map_or(0, |first| first as i32)));
    catalog.add(
        "chr(integer) -> text",
        kernel!(try |a: i32| match a {
            0 => Err(value_error("null character not permitted", "54000")),
            ..0 => Err(invalid_argument("character number must be positive")),
            a => match u32::try_from(a).ok().and_then(char::from_u32) {
                Some(character) => Ok(character.to_string()),
                None => Err(value_error(format!("requested character too large for encoding: {a}"), "54000")),
            },
        }),
    );
    catalog.add("unistr(text) -> text", kernel!(try |a: &str| unistr(a)));
}

/// `\0041`, `\+000041`, `\u0041`, `\U00000041` and `\\`.
fn unistr(text: &str) -> Result<String> {
    let wrong = || value_error("invalid Unicode escape", "42601");
    let mut result = String::with_capacity(text.len());
    let mut units: Vec<u16> = Vec::new();
    let mut rest = text;
    let flush = |units: &mut Vec<u16>, result: &mut String| {
        result
            .push_str(&String::from_utf16(units).map_err(|_| value_error("invalid Unicode surrogate pair", "42601"))?);
        units.clear();
        Ok::<(), Error>(())
    };
    while let Some(first) = rest.chars().next() {
        if first != '\\' {
            flush(&mut units, &mut result)?;
            result.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        rest = &rest[1..];
        let (skipped, digits) = match rest.chars().next() {
            Some('\\') => {
                flush(&mut units, &mut result)?;
                result.push('\\');
                rest = &rest[1..];
                continue;
            }
            Some('+') => (1, 6),
            Some('u') => (1, 4),
            Some('U') => (1, 8),
            _ => (0, 4),
        };
        let code = rest.get(skipped..skipped + digits).ok_or_else(wrong)?;
        let code = u32::from_str_radix(code, 16).map_err(|_| wrong())?;
        rest = &rest[skipped + digits..];
        match u16::try_from(code) {
            Ok(unit) => units.push(unit),
            Err(_) => {
                flush(&mut units, &mut result)?;
                result.push(char::from_u32(code).ok_or_else(wrong)?);
            }
        }
    }
    flush(&mut units, &mut result)?;
    Ok(result)
}

/// The texts of a column of any type, as its type shows them. The zone is the session's. Fails if a type has no text.
pub(super) fn texts_of(array: &arrow::array::ArrayRef, sql_type: &SqlType, zone: &str) -> Result<StringViewArray> {
    match array.as_string_view_opt() {
        Some(texts) if !matches!(sql_type, SqlType::Char(_)) => Ok(texts.clone()),
        _ => text::format(array, sql_type, zone),
    }
}

/// The zone that the binder appends.
fn zone_of(arguments: &[ColumnarValue]) -> Result<String> {
    use datafusion_common::ScalarValue;
    match arguments.last() {
        Some(ColumnarValue::Scalar(ScalarValue::Utf8View(Some(zone)))) => Ok(zone.clone()),
        Some(ColumnarValue::Scalar(ScalarValue::Utf8(Some(zone)))) => Ok(zone.clone()),
        Some(ColumnarValue::Array(zones)) if zones.len() > zones.null_count() => {
            let zones = zones.as_string_view_opt().ok_or_else(|| Error::bug("a time zone that is no text"))?;
            Ok(zones.iter().flatten().next().unwrap_or("UTC").to_owned())
        }
        _ => Ok("UTC".to_owned()),
    }
}

/// All arguments but the zone, as texts; each with how far apart its rows are.
pub(super) struct Texts {
    columns: Vec<Strided<StringViewArray>>,
    /// The rows to compute.
    pub rows: usize,
}

impl Texts {
    /// The arguments of a call that takes the zone. Fails if one has no text.
    pub(super) fn of(arguments: &[ColumnarValue], call: &Call<'_>, columns: &Columns<'_>) -> Result<Self> {
        let zone = zone_of(arguments)?;
        let given = columns.arrays().iter().zip(call.arguments).take(arguments.len() - 1);
        let texts = given.map(|(array, sql_type)| {
            let step = usize::from(array.len() != 1);
            texts_of(array, sql_type, &zone).map(|texts| Strided::new(texts, step))
        });
        Ok(Self { columns: texts.collect::<Result<_>>()?, rows: columns.rows() })
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.columns.len()
    }

    /// An argument's text; `None` for NULL.
    pub(super) fn at(&self, column: usize, row: usize) -> Option<&str> {
        let column = &self.columns[column];
        <&str>::at(&column.column(), row * column.step())
    }
}

/// The texts that a function makes of each row's texts.
pub(super) fn written(
    arguments: &[ColumnarValue],
    call: &Call<'_>,
    of: impl Fn(&Texts, usize) -> Result<Option<String>>,
) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let texts = Texts::of(arguments, call, &columns)?;
    let rows: Vec<Option<String>> = (0..texts.rows).map(|row| of(&texts, row)).collect::<Result<_>>()?;
    columns.result(std::sync::Arc::new(rows.into_iter().collect::<StringViewArray>()))
}

/// A number that is the same for the same texts, and not negative (FNV-1a, its bits mixed in the end).
fn hashed<'a>(texts: impl Iterator<Item = Option<&'a str>>) -> Option<i64> {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut take = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    for text in texts {
        // No byte of a text is one of these.
        take(if text.is_some() { 0xff } else { 0xfe });
        text.unwrap_or_default().bytes().for_each(&mut take);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    Some((hash >> 1) as i64)
}

fn joined(catalog: &mut Catalog) {
    catalog.add("||(text, text) -> text", Body::Special(super::Special::Concatenate));
    catalog.add("textcat(text, text) -> text", kernel!(|a: &str, b: &str| [a, b].concat()));
    // Anything but an array beside a text becomes one.
    let with_zone: super::Kernel = |arguments, call| {
        written(arguments, call, |texts, row| {
            Ok(texts.at(0, row).zip(texts.at(1, row)).map(|(left, right)| [left, right].concat()))
        })
    };
    fn worded(value: bool) -> &'static str {
        if value { "true" } else { "false" }
    }
    catalog.add("||(text, boolean) -> text", kernel!(|a: &str, b: bool| [a, worded(b)].concat()));
    catalog.add("||(boolean, text) -> text", kernel!(|a: bool, b: &str| [worded(a), b].concat()));
    catalog.add("||(text, anynonarray) -> text", Body::Kernel(with_zone)).zoned();
    catalog.add("||(anynonarray, text) -> text", Body::Kernel(with_zone)).zoned();
    let concat: super::Kernel = |arguments, call| {
        written(arguments, call, |texts, row| {
            Ok(Some((0..texts.len()).filter_map(|column| texts.at(column, row)).collect()))
        })
    };
    catalog.add("concat(variadic any) -> text", Body::Kernel(concat)).zoned().lenient();
    let hash: super::Kernel = |arguments, call| {
        let columns = Columns::new(arguments, call);
        let texts = Texts::of(arguments, call, &columns)?;
        let values = (0..texts.rows).map(|row| hashed((0..texts.len()).map(|column| texts.at(column, row))));
        columns.result(std::sync::Arc::new(values.collect::<Int64Array>()))
    };
    catalog.add("hash(variadic any) -> bigint", Body::Kernel(hash)).zoned().lenient();
    let concat_ws: super::Kernel = |arguments, call| {
        written(arguments, call, |texts, row| {
            let Some(by) = texts.at(0, row) else { return Ok(None) };
            let parts: Vec<&str> = (1..texts.len()).filter_map(|column| texts.at(column, row)).collect();
            Ok(Some(parts.join(by)))
        })
    };
    catalog.add("concat_ws(text, variadic any) -> text", Body::Kernel(concat_ws)).zoned().lenient();
    let format: super::Kernel = |arguments, call| {
        written(arguments, call, |texts, row| match texts.at(0, row) {
            Some(pattern) => match braced(pattern, texts.len() - 1, |place| shown_value(texts, call, place + 1, row)) {
                Some(printed) => printed,
                None => formatted(pattern, &|at| argument(texts, at, row)).map(Some),
            },
            None => Ok(None),
        })
    };
    catalog.add("format(text) -> text", Body::Kernel(format)).zoned().lenient();
    catalog.add("format(text, variadic any) -> text", Body::Kernel(format)).zoned().lenient();
}

/// The text of an argument as DuckDB's `format` shows it, and whether it is a number.
fn shown_value<'t>(texts: &'t Texts, call: &Call<'_>, at: usize, row: usize) -> Option<(&'t str, bool)> {
    let text = texts.at(at, row)?;
    match call.arguments.get(at) {
        Some(SqlType::Boolean) => Some((if text.starts_with('t') { "true" } else { "false" }, false)),
        told => Some((text, told.is_some_and(|told| told.category() == Category::Numeric))),
    }
}

/// `format`: `%[position$][flags][width]type` with types s, I, L.
/// `argument` gives the arguments, which are counted from 1; NULL is `None`.
pub(super) fn formatted<'t>(pattern: &str, argument: &dyn Fn(usize) -> Result<Option<&'t str>>) -> Result<String> {
    let wrong = |message: &str| invalid_argument(message);
    let ended = || wrong("unterminated format() type specifier");
    let mut result = String::new();
    let mut rest = pattern.chars().peekable();
    let mut next = 1;
    while let Some(character) = rest.next() {
        if character != '%' {
            result.push(character);
            continue;
        }
        if rest.peek() == Some(&'%') {
            rest.next();
            result.push('%');
            continue;
        }
        let mut number = digits(&mut rest)?;
        let mut place = None;
        if number.is_some() && rest.peek() == Some(&'$') {
            rest.next();
            place = number.take();
            if place == Some(0) {
                return Err(wrong("format specifies argument 0, but arguments are numbered from 1"));
            }
        }
        let mut is_left = false;
        while number.is_none() && rest.peek() == Some(&'-') {
            rest.next();
            is_left = true;
        }
        if number.is_none() && rest.peek() == Some(&'*') {
            rest.next();
            let given = digits(&mut rest)?;
            let at = match given {
                Some(given) => {
                    rest.next_if_eq(&'$').ok_or_else(|| wrong("width argument position must be ended by \"$\""))?;
                    next = given.saturating_add(1);
                    given
                }
                None => {
                    next += 1;
                    next - 1
                }
            };
            let width = argument(at)?;
            let width: i64 = width.unwrap_or("0").parse().map_err(|_| wrong("invalid width"))?;
            is_left |= width < 0;
            number = Some(usize::try_from(width.unsigned_abs()).unwrap_or(usize::MAX));
        } else if number.is_none() {
            number = digits(&mut rest)?;
        }
        let kind = rest.next().ok_or_else(ended)?;
        let at = place.unwrap_or(next);
        // Later arguments follow the one that was named.
        next = at + 1;
        let value = argument(at)?;
        let text = match (kind, value) {
            ('s', value) => Cow::Borrowed(value.unwrap_or("")),
            ('I', Some(value)) => quoted_name(value),
            ('I', None) => return Err(value_error("null values cannot be formatted as an SQL identifier", "22004")),
            ('L', Some(value)) => Cow::Owned(quote_literal(value)),
            ('L', None) => Cow::Borrowed("NULL"),
            (other, _) => return Err(wrong(&format!("unrecognized format() type specifier \"{other}\""))),
        };
        let width = number.unwrap_or(0);
        if width > VALUE_BYTES_MAX {
            return Err(too_large());
        }
        let fill = " ".repeat(width.saturating_sub(text.chars().count()));
        let (before, after) = if is_left { ("", fill.as_str()) } else { (fill.as_str(), "") };
        result.extend([before, &text, after]);
    }
    Ok(result)
}

fn argument(texts: &Texts, at: usize, row: usize) -> Result<Option<&str>> {
    if at < texts.len() { Ok(texts.at(at, row)) } else { Err(too_few_arguments()) }
}

/// The error of a pattern of `format` with more places than arguments.
pub(super) fn too_few_arguments() -> Error {
    invalid_argument("too few arguments for format()")
}

fn digits(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<Option<usize>> {
    let mut number = None;
    while let Some(digit) = rest.peek().and_then(|digit| digit.to_digit(10)) {
        rest.next();
        let next = number.unwrap_or(0_usize).checked_mul(10).and_then(|number| number.checked_add(digit as usize));
        number = Some(next.ok_or_else(|| value_error("number is out of range", "22003"))?);
    }
    Ok(number)
}

fn quote_literal(text: &str) -> String {
    let escape = if text.contains('\\') { "E" } else { "" };
    format!("{escape}'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

fn quoted(catalog: &mut Catalog) {
    catalog.add("quote_ident(text) -> text", kernel!(|a: &str| quoted_name(a)));
    catalog.add("quote_literal(text) -> text", kernel!(|a: &str| quote_literal(a)));
    catalog
        .add("quote_nullable(text) -> text", kernel!(|a: Option<&str>| a.map_or("NULL".to_owned(), quote_literal)))
        .lenient();
    let any_literal: super::Kernel =
        |arguments, call| written(arguments, call, |texts, row| Ok(texts.at(0, row).map(quote_literal)));
    catalog.add("quote_literal(anyelement) -> text", Body::Kernel(any_literal)).zoned();
    let any_nullable: super::Kernel = |arguments, call| {
        written(arguments, call, |texts, row| Ok(Some(texts.at(0, row).map_or("NULL".to_owned(), quote_literal))))
    };
    catalog.add("quote_nullable(anyelement) -> text", Body::Kernel(any_nullable)).zoned().lenient();
    catalog.add("parse_ident(text) -> text[]", kernel!(try |a: &str| parse_ident(a, true).map(List)));
    catalog.add(
        "parse_ident(text, boolean) -> text[]",
        kernel!(try |a: &str, is_strict: bool| parse_ident(a, is_strict).map(List)),
    );
}

/// The parts of a name. Fails with 22023 for what is none, and for what stands behind it, if that is asked for.
fn parse_ident(text: &str, is_strict: bool) -> Result<Vec<String>> {
    let wrong = || invalid_argument(format!("string is not a valid identifier: \"{text}\""));
    let mut names = Vec::new();
    let mut rest = text.trim();
    loop {
        let (name, after) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let mut end = 0;
                loop {
                    end += quoted.get(end..).and_then(|left| left.find('"')).ok_or_else(wrong)?;
                    match quoted[end + 1..].starts_with('"') {
                        true => end += 2,
                        false => break,
                    }
                }
                (quoted[..end].replace("\"\"", "\""), &quoted[end + 1..])
            }
            None => {
                let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
                let end = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
                if rest.starts_with(|c: char| c.is_ascii_digit() || c == '$') {
                    return Err(wrong());
                }
                (rest[..end].to_lowercase(), &rest[end..])
            }
        };
        if name.is_empty() {
            return Err(wrong());
        }
        names.push(name);
        rest = after.trim_start();
        match rest.strip_prefix('.') {
            Some(more) => rest = more.trim_start(),
            None if rest.is_empty() || !is_strict => return Ok(names),
            None => return Err(wrong()),
        }
    }
}
