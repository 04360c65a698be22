//! Functions of numbers, lists, paths and formats that DuckDB has and PostgreSQL has not.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::Float64Type;
use datafusion_expr::ColumnarValue;
use diligence_base::Result;

use super::calendar::checked_date;
use super::catalog::Catalog;
use super::columns::{Date, List, Timestamp, kernel};
use super::errors::{invalid_argument, value_error};
use super::printing::{WIDTH_MAX, specified};
use super::strings::{Texts, written};
use super::{Body, Call};

/// Declares the functions whose names nothing else has taken.
pub(super) fn declare(catalog: &mut Catalog) {
    numbers(catalog);
    vectors(catalog);
    paths(catalog);
    catalog.add("printf(text) -> text", Body::Kernel(printf)).zoned().lenient();
    catalog.add("printf(text, variadic any) -> text", Body::Kernel(printf)).zoned().lenient();
    catalog.add("epoch_ms(bigint) -> timestamp", kernel!(try |milliseconds: i64| moment(milliseconds, 1000)));
    catalog.add("make_timestamp(bigint) -> timestamp", kernel!(try |microseconds: i64| moment(microseconds, 1)));
    catalog.add("make_timestamptz(bigint) -> timestamptz", kernel!(try |microseconds: i64| moment(microseconds, 1)));
    catalog.add("make_date(integer) -> date", kernel!(try |days: i32| checked_date(days.into()).map(Date)));
    catalog.add("make_timestamp_ms(bigint) -> timestamp", kernel!(try |milliseconds: i64| moment(milliseconds, 1000)));
    catalog.add("make_timestamp_ns(bigint) -> timestamp", kernel!(|count: i64| Timestamp(count.div_euclid(1000))));
}

fn moment(count: i64, microseconds: i64) -> Result<Timestamp> {
    let moment = count.checked_mul(microseconds).map(Timestamp);
    moment.ok_or_else(|| value_error("timestamp out of range", "22008"))
}

fn quotient(left: i64, right: i64) -> Result<i64> {
    match right {
        0 => Err(value_error("division by zero", "22012")),
        _ => left.checked_div(right).ok_or_else(|| value_error("bigint out of range", "22003")),
    }
}

fn numbers(catalog: &mut Catalog) {
    catalog.add_all(&["//(bigint, bigint) -> bigint"], kernel!(try |left: i64, right: i64| quotient(left, right)));
    catalog.add(
        "//(integer, integer) -> integer",
        kernel!(try |left: i32, right: i32| {
            i32::try_from(quotient(left.into(), right.into())?).map_err(|_| value_error("integer out of range", "22003"))
        }),
    );
    catalog.add(
        "//(double precision, double precision) -> double precision",
        kernel!(|left: f64, right: f64| (left / right).floor()),
    );
    catalog.add("xor(integer, integer) -> integer", kernel!(|left: i32, right: i32| left ^ right));
    catalog.add("xor(bigint, bigint) -> bigint", kernel!(|left: i64, right: i64| left ^ right));
    catalog.add("bit_count(integer) -> integer", kernel!(|value: i32| value.count_ones() as i32));
    catalog.add("bit_count(bigint) -> integer", kernel!(|value: i64| value.count_ones() as i32));
    catalog.add("isnan(double precision) -> boolean", kernel!(|value: f64| value.is_nan()));
    catalog.add("isinf(double precision) -> boolean", kernel!(|value: f64| value.is_infinite()));
    catalog.add("isfinite(double precision) -> boolean", kernel!(|value: f64| value.is_finite()));
    catalog.add("signbit(double precision) -> boolean", kernel!(|value: f64| value.is_sign_negative()));
    catalog.add(
        "fmod(double precision, double precision) -> double precision",
        // The rest has the divisor's sign.
        kernel!(|left: f64, right: f64| match left % right {
            rest if rest != 0.0 && (rest < 0.0) != (right < 0.0) => rest + right,
            rest => rest,
        }),
    );
    // PostgreSQL's functions of these names take no floats; were these overloads of them, it would be them that take
    // integers.
    catalog.add(
        "mod of floats(double precision, double precision) -> double precision",
        kernel!(|left: f64, right: f64| left % right),
    );
    catalog.add(
        "trunc of floats(double precision, integer) -> double precision",
        kernel!(|value: f64, digits: i32| {
            let scale = 10f64.powi(digits.saturating_abs().min(330));
            let scaled = if digits < 0 { (value / scale).trunc() * scale } else { (value * scale).trunc() / scale };
            // What has no such digits is whole already.
            if scaled.is_finite() {
                scaled
            } else if digits < 0 {
                0.0
            } else {
                value
            }
        }),
    );
    catalog.add(
        "nextafter(double precision, double precision) -> double precision",
        kernel!(|from: f64, to: f64| match from.partial_cmp(&to) {
            Some(std::cmp::Ordering::Less) => from.next_up(),
            Some(std::cmp::Ordering::Greater) => from.next_down(),
            Some(std::cmp::Ordering::Equal) => to,
            None => f64::NAN,
        }),
    );
    catalog.add(
        "even(double precision) -> double precision",
        kernel!(|value: f64| (value.abs() / 2.0).ceil() * 2.0 * value.signum()),
    );
    catalog.add(
        "round_even(double precision, integer) -> double precision",
        kernel!(|value: f64, digits: i32| {
            let power = 10_f64.powi(digits);
            (value * power).round_ties_even() / power
        }),
    );
    catalog.add("hex(bigint) -> text", kernel!(|value: i64| format!("{value:X}")));
    catalog.add("bin(bigint) -> text", kernel!(|value: i64| format!("{value:b}")));
    catalog.add("to_base(bigint, integer) -> text", kernel!(try |value: i64, base: i32| in_base(value, base, 0)));
    catalog.add(
        "to_base(bigint, integer, integer) -> text",
        kernel!(try |value: i64, base: i32, width: i32| in_base(value, base, width)),
    );
    catalog.add(
        "bar(double precision, double precision, double precision, double precision) -> text",
        kernel!(try |value: f64, least: f64, most: f64, width: f64| bar(value, least, most, width)),
    );
    catalog.add(
        "bar(double precision, double precision, double precision) -> text",
        kernel!(try |value: f64, least: f64, most: f64| bar(value, least, most, 80.0)),
    );
    catalog.add("parse_formatted_bytes(text) -> bigint", kernel!(try |size: &str| bytes_of(size)));
    catalog.add_all(
        &["formatreadabledecimalsize(bigint) -> text", "format_bytes_decimal(bigint) -> text"],
        kernel!(|bytes: i64| decimal_size(bytes)),
    );
}

fn in_base(value: i64, base: i32, width: i32) -> Result<String> {
    if value < 0 {
        return Err(invalid_argument("to_base takes a number that is not negative"));
    }
    let known = u64::try_from(base).ok().filter(|base| (2..=36).contains(base));
    let base = known.ok_or_else(|| invalid_argument("to_base takes a base from 2 to 36"))?;
    let width = usize::try_from(width).ok().filter(|width| *width <= WIDTH_MAX);
    let width = width.ok_or_else(|| invalid_argument(format!("to_base takes a width from 0 to {WIDTH_MAX}")))?;
    let (mut digits, mut rest) = (Vec::new(), value.unsigned_abs());
    while rest > 0 || digits.is_empty() {
        digits.push(char::from_digit((rest % base) as u32, base as u32).unwrap_or('0').to_ascii_uppercase());
        rest /= base;
    }
    digits.resize(digits.len().max(width), '0');
    Ok(digits.into_iter().rev().collect())
}

/// A bar of blocks, each in eighths, with blanks behind it.
fn bar(value: f64, least: f64, most: f64, width: f64) -> Result<String> {
    const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    if least.partial_cmp(&most) != Some(std::cmp::Ordering::Less) {
        return Err(invalid_argument("bar takes a least value that is below the most"));
    }
    if !(1.0..=1000.0).contains(&width) {
        return Err(invalid_argument("bar takes a width from 1 to 1000"));
    }
    let share = if value.is_nan() { 0.0 } else { ((value - least) / (most - least)).clamp(0.0, 1.0) };
    let eighths = (share * width * 8.0).floor() as usize;
    let mut text = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        text.push(EIGHTHS[eighths % 8]);
    }
    let blanks = (width as usize).saturating_sub(text.chars().count());
    text.extend(std::iter::repeat_n(' ', blanks));
    Ok(text)
}

/// `1.5 MB`, `16KiB`: a number and a unit of it. Fails with 22023 for anything else.
fn bytes_of(size: &str) -> Result<i64> {
    let size = size.trim();
    let end = size.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(size.len());
    let (number, unit) = size.split_at(end);
    let unit = unit.trim().to_lowercase();
    let base: f64 = if unit.contains('i') { 1024.0 } else { 1000.0 };
    let power = match unit.as_str() {
        "b" | "byte" | "bytes" => Some(0),
        "k" | "kb" | "kib" => Some(1),
        "m" | "mb" | "mib" => Some(2),
        "g" | "gb" | "gib" => Some(3),
        "t" | "tb" | "tib" => Some(4),
        _ => None,
    };
    let bytes = number.parse::<f64>().ok().zip(power).map(|(number, power)| number * base.powi(power));
    let bytes = bytes.filter(|bytes| *bytes < i64::MAX as f64).map(|bytes| bytes as i64);
    bytes.ok_or_else(|| invalid_argument(format!("'{size}' is no size; write one like 1.5 GB or 16 KiB")))
}

fn decimal_size(bytes: i64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    let size = bytes.unsigned_abs();
    let sign = if bytes < 0 { "-" } else { "" };
    if size < 1000 {
        return format!("{sign}{size} {}", if size == 1 { "byte" } else { "bytes" });
    }
    let power = size.ilog10() / 3;
    let tenths = u128::from(size) * 10 / 1000_u128.pow(power);
    format!("{sign}{}.{} {}", tenths / 10, tenths % 10, UNITS[power as usize - 1])
}

/// Functions of two lists of numbers.
fn vectors(catalog: &mut Catalog) {
    fn pairs(left: &ArrayRef, right: &ArrayRef) -> Result<Option<Vec<(f64, f64)>>> {
        if left.len() != right.len() {
            return Err(invalid_argument(format!(
                "the lists have the lengths {} and {}; they are to be equally long",
                left.len(),
                right.len()
            )));
        }
        let (left, right) = (left.as_primitive::<Float64Type>(), right.as_primitive::<Float64Type>());
        if left.null_count() + right.null_count() > 0 {
            return Err(value_error("a list of a distance has no NULL", "22004"));
        }
        Ok((!left.is_empty()).then(|| left.values().iter().copied().zip(right.values().iter().copied()).collect()))
    }
    fn product(pairs: &[(f64, f64)]) -> f64 {
        pairs.iter().map(|(left, right)| left * right).sum()
    }
    fn similarity(pairs: &[(f64, f64)]) -> f64 {
        let (left, right): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        let squares = |of: &[f64]| of.iter().map(|value| value * value).sum::<f64>();
        (product(pairs) / (squares(&left) * squares(&right)).sqrt()).clamp(-1.0, 1.0)
    }
    fn distance(pairs: &[(f64, f64)]) -> f64 {
        pairs.iter().map(|(left, right)| (left - right).powi(2)).sum::<f64>().sqrt()
    }
    macro_rules! of_pairs {
        ($function:expr, $($name:literal),+) => {$(
            catalog.add(
                concat!($name, "(double precision[], double precision[]) -> double precision"),
                kernel!(try |left: ArrayRef, right: ArrayRef| {
                    Ok(pairs(&left, &right)?.map(|pairs: Vec<(f64, f64)>| $function(&pairs)))
                }),
            );
        )+};
    }
    of_pairs!(similarity, "list_cosine_similarity", "array_cosine_similarity");
    of_pairs!(|pairs: &[(f64, f64)]| 1.0 - similarity(pairs), "list_cosine_distance", "array_cosine_distance");
    of_pairs!(distance, "list_distance", "array_distance");
    of_pairs!(product, "list_inner_product", "list_dot_product", "array_inner_product", "array_dot_product");
    of_pairs!(
        |pairs: &[(f64, f64)]| -product(pairs),
        "list_negative_inner_product",
        "list_negative_dot_product",
        "array_negative_inner_product",
        "array_negative_dot_product"
    );
    catalog.add(
        "array_cross_product(double precision[], double precision[]) -> double precision[]",
        kernel!(try |left: ArrayRef, right: ArrayRef| match pairs(&left, &right)?.as_deref() {
            Some([(a, x), (b, y), (c, z)]) => Ok(List(vec![b * z - c * y, c * x - a * z, a * y - b * x])),
            _ => Err(invalid_argument("a cross product is of lists of three numbers")),
        }),
    );
}

/// What stands between the parts of a path: DuckDB's name of it. Fails with 22023 for another name.
fn separators(kind: &str) -> Result<&'static [char]> {
    let separators: &'static [char] = match kind {
        "both_slash" => BOTH,
        "forward_slash" => &['/'],
        "backslash" => &['\\'],
        "system" => &[std::path::MAIN_SEPARATOR],
        other => {
            return Err(invalid_argument(format!(
                "\"{other}\" is no separator: there are both_slash, forward_slash, backslash and system"
            )));
        }
    };
    Ok(separators)
}

/// What stands between the parts of a path where nothing is said.
const BOTH: &[char] = &['/', '\\'];

fn paths(catalog: &mut Catalog) {
    fn parts<'p>(path: &'p str, by: &[char]) -> Vec<&'p str> {
        let root = path.starts_with('/').then_some("/");
        root.into_iter().chain(path.split(by).filter(|part| !part.is_empty())).collect()
    }
    fn owned(path: &str, by: &[char]) -> List<String> {
        List(parts(path, by).into_iter().map(str::to_owned).collect())
    }
    fn file_name(path: &str, is_trimmed: bool, by: &[char]) -> String {
        let name = path.rsplit(by).next().unwrap_or_default();
        let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        (if is_trimmed { stem } else { name }).to_owned()
    }
    fn first(path: &str, by: &[char]) -> String {
        match parts(path, by).as_slice() {
            [first, _, ..] => (*first).to_owned(),
            _ => String::new(),
        }
    }
    fn folder(path: &str, by: &[char]) -> String {
        path.rfind(by).map_or_else(String::new, |end| path[..end].to_owned())
    }
    catalog.add("parse_path(text) -> text[]", kernel!(|path: &str| owned(path, BOTH)));
    catalog
        .add("parse_path(text, text) -> text[]", kernel!(try |path: &str, by: &str| Ok(owned(path, separators(by)?))));
    catalog.add("parse_filename(text) -> text", kernel!(|path: &str| file_name(path, false, BOTH)));
    catalog.add(
        "parse_filename(text, boolean) -> text",
        kernel!(|path: &str, is_trimmed: bool| file_name(path, is_trimmed, BOTH)),
    );
    catalog.add(
        "parse_filename(text, boolean, text) -> text",
        kernel!(try |path: &str, is_trimmed: bool, by: &str| Ok(file_name(path, is_trimmed, separators(by)?))),
    );
    catalog.add("parse_dirname(text) -> text", kernel!(|path: &str| first(path, BOTH)));
    catalog
        .add("parse_dirname(text, text) -> text", kernel!(try |path: &str, by: &str| Ok(first(path, separators(by)?))));
    catalog.add("parse_dirpath(text) -> text", kernel!(|path: &str| folder(path, BOTH)));
    catalog.add(
        "parse_dirpath(text, text) -> text",
        kernel!(try |path: &str, by: &str| Ok(folder(path, separators(by)?))),
    );
}

/// `printf`: `%[flags][width][.precision]` and `d`, `i`, `s`, `f`, `e`, `g`, `x`, `X`, `o`, `b`, `c` or `%`.
fn printf(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    written(arguments, call, |texts, row| match texts.at(0, row) {
        Some(pattern) => printed(pattern, texts, row).map(Some),
        None => Ok(None),
    })
}

fn printed(pattern: &str, texts: &Texts, row: usize) -> Result<String> {
    let mut out = String::new();
    let mut rest = pattern.chars().peekable();
    let mut next = 1;
    while let Some(letter) = rest.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        if rest.next_if_eq(&'%').is_some() {
            out.push('%');
            continue;
        }
        let flags = std::iter::from_fn(|| rest.next_if(|next| "-+ 0#,'_".contains(*next))).collect::<String>();
        let number = |rest: &mut std::iter::Peekable<std::str::Chars<'_>>| {
            let digits = std::iter::from_fn(|| rest.next_if(char::is_ascii_digit)).collect::<String>();
            digits.parse::<usize>().ok().map(|digits| digits.min(WIDTH_MAX))
        };
        let width = number(&mut rest).unwrap_or(0);
        let precision = if rest.next_if_eq(&'.').is_some() { Some(number(&mut rest).unwrap_or(0)) } else { None };
        while rest.next_if(|next| matches!(next, 'l' | 'h')).is_some() {}
        let kind = rest.next().ok_or_else(|| invalid_argument("printf: a specifier ends too early"))?;
        if next >= texts.len() {
            return Err(invalid_argument("printf: there are fewer values than specifiers"));
        }
        let value = texts.at(next, row);
        next += 1;
        let shown = match value {
            None => "NULL".to_owned(),
            Some(value) => specified(kind, value, precision, &flags)?,
        };
        let missing = width.saturating_sub(shown.chars().count());
        if flags.contains('-') {
            out.push_str(&shown);
            out.extend(std::iter::repeat_n(' ', missing));
        } else if flags.contains('0') && kind != 's' {
            let (sign, digits) = shown.split_at(usize::from(shown.starts_with(['-', '+'])));
            out.push_str(sign);
            out.extend(std::iter::repeat_n('0', missing));
            out.push_str(digits);
        } else {
            out.extend(std::iter::repeat_n(' ', missing));
            out.push_str(&shown);
        }
    }
    Ok(out)
}
