//! Functions of texts that DuckDB has and PostgreSQL has not (DuckDB's manual, "Text Functions").

use std::collections::BTreeSet;
use std::fmt::Write;

use diligence_base::Result;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use super::Body;
use super::catalog::Catalog;
use super::columns::{Columns, List, kernel};
use super::decimal::Decimal;
use super::errors::{invalid_argument, out_of_range, value_error};
use super::json::Steps;
use super::regexes::Patterns;
use super::strings::{Texts, formatted, too_few_arguments, written};

/// Declares the functions whose names nothing else has taken.
pub(super) fn declare(catalog: &mut Catalog) {
    patterns(catalog);
    similarities(catalog);
    let split = kernel!(|text: &str, by: &str| {
        List(match by {
            "" => text.chars().map(String::from).collect::<Vec<_>>(),
            by => text.split(by).map(str::to_owned).collect(),
        })
    });
    catalog.add_all(
        &["string_split(text, text) -> text[]", "str_split(text, text) -> text[]", "split(text, text) -> text[]"],
        split,
    );
    // `format(pattern, VARIADIC array)`.
    catalog.add(
        "format of array(text, text[]) -> text",
        kernel!(try |pattern: &str, given: Steps| {
            let argument = |at: usize| match at.checked_sub(1).and_then(|at| given.0.get(at)) {
                Some(given) => Ok(given.as_deref()),
                None => Err(too_few_arguments()),
            };
            formatted(pattern, &argument)
        }),
    );
    catalog.add("prefix(text, text) -> boolean", kernel!(|text: &str, start: &str| text.starts_with(start)));
    catalog.add("suffix(text, text) -> boolean", kernel!(|text: &str, end: &str| text.ends_with(end)));
    catalog.add("lcase(text) -> text", kernel!(|text: &str| super::strings::lower(text)));
    catalog.add("ucase(text) -> text", kernel!(|text: &str| text.to_uppercase()));
    catalog.add("strlen(text) -> bigint", kernel!(|text: &str| text.len() as i64));
    catalog.add_all(
        &["unicode(text) -> integer", "ord(text) -> integer"],
        kernel!(|text: &str| text.chars().next().map_or(-1, |letter| letter as i32)),
    );
    catalog.add("pg_size_pretty(bigint) -> text", kernel!(|bytes: i64| size_shown(i128::from(bytes))));
    catalog.add(
        "pg_size_pretty(numeric) -> text",
        kernel!(|bytes: Decimal| size_shown(bytes.truncated(0).to_integer().map_or(i128::from(i64::MAX), i128::from))),
    );
    catalog.add("pg_size_bytes(text) -> bigint", kernel!(try |text: &str| size_of_text(text)));
    catalog.add_all(
        &["format_bytes(bigint) -> text", "formatreadablesize(bigint) -> text"],
        kernel!(|bytes: i64| bytes_shown(bytes)),
    );
    catalog.add(
        "url_encode(text) -> text",
        kernel!(|text: &str| {
            let mut out = String::with_capacity(text.len());
            for byte in text.bytes() {
                match byte {
                    b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
                    byte => {
                        let _ = write!(out, "%{byte:02X}");
                    }
                }
            }
            out
        }),
    );
    catalog.add(
        "url_decode(text) -> text",
        kernel!(try |text: &str| {
            let (mut bytes, mut at) = (Vec::with_capacity(text.len()), 0);
            while let Some(byte) = text.as_bytes().get(at) {
                let code = text.get(at + 1..at + 3).filter(|_| *byte == b'%');
                match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
                    Some(byte) => (bytes.push(byte), at += 3).0,
                    None => (bytes.push(*byte), at += 1).0,
                }
            }
            String::from_utf8(bytes).map_err(|_| value_error("what the URL encodes is no text", "22021"))
        }),
    );
    catalog
        .add(
            "normalize(text, text?) -> text",
            Body::Kernel(|arguments, call| {
                written(arguments, call, |texts, row| match texts.at(0, row) {
                    Some(text) => normalized(text, form(texts, row)?).map(Some),
                    None => Ok(None),
                })
            }),
        )
        .zoned();
    catalog
        .add(
            "is_normalized(text, text?) -> boolean",
            Body::Kernel(|arguments, call| {
                let columns = Columns::new(arguments, call);
                let texts = Texts::of(arguments, call, &columns)?;
                let row = |row: usize| match texts.at(0, row) {
                    Some(text) => Ok(Some(normalized(text, form(&texts, row)?)? == text)),
                    None => Ok(None),
                };
                let rows = (0..texts.rows).map(row).collect::<Result<Vec<_>>>()?;
                columns.result(std::sync::Arc::new(rows.into_iter().collect::<arrow::array::BooleanArray>()))
            }),
        )
        .zoned();
    catalog.add("~~~(text, text) -> boolean", kernel!(|text: &str, pattern: &str| is_glob(text, pattern)));
    catalog.add("nfc_normalize(text) -> text", kernel!(|text: &str| text.nfc().collect::<String>()));
    catalog.add_all(
        &["strip_accents(text) -> text", "unaccent(text) -> text"],
        kernel!(|text: &str| text.nfd().filter(|letter| !is_combining_mark(*letter)).nfc().collect::<String>()),
    );
    let hex = kernel!(try |text: &str| {
        let padded = if text.len() % 2 == 1 { format!("0{text}") } else { text.to_owned() };
        let digits = padded.as_bytes().chunks(2).map(|pair| {
            std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok())
        });
        digits.collect::<Option<Vec<u8>>>().ok_or_else(|| invalid_argument(format!("\"{text}\" is not hexadecimal")))
    });
    catalog.add_all(&["from_hex(text) -> bytea", "unhex(text) -> bytea"], hex);
}

/// Whether a text is as a pattern says: `*` is any letters, `?` one, `[a-z]` and `[!a-z]` one of a set or none of it,
/// and what follows a backslash is meant as it is.
fn is_glob(text: &str, pattern: &str) -> bool {
    let (text, pattern) = (text.chars().collect::<Vec<_>>(), pattern.chars().collect::<Vec<_>>());
    let (mut at, mut place) = (0, 0);
    // Where to go on behind the last star if what follows it does not fit.
    let mut again = None;
    loop {
        if pattern.get(place) == Some(&'*') {
            place += 1;
            again = Some((place, at));
            continue;
        }
        let fits = match text.get(at) {
            None if place == pattern.len() => return true,
            None => return false,
            Some(letter) => one_of_glob(&pattern[place..], *letter),
        };
        match (fits, again) {
            (Some(length), _) => (at, place) = (at + 1, place + length),
            (None, Some((behind, from))) => {
                (at, place) = (from + 1, behind);
                again = Some((behind, from + 1));
            }
            (None, None) => return false,
        }
    }
}

/// How many letters of a pattern stand for a letter of a text; `None` if they do not.
fn one_of_glob(pattern: &[char], letter: char) -> Option<usize> {
    match pattern {
        ['?', ..] => Some(1),
        ['\\', own, ..] => (*own == letter).then_some(2),
        ['[', rest @ ..] => {
            let is_negated = rest.first() == Some(&'!');
            let set = &rest[usize::from(is_negated)..];
            // A bracket that is the first of the set is one of it.
            let end = set.iter().skip(1).position(|one| *one == ']')? + 1;
            let (mut is_in, mut place) = (false, 0);
            while place < end {
                match &set[place..end] {
                    [low, '-', high, ..] => {
                        is_in |= (*low..=*high).contains(&letter);
                        place += 3;
                    }
                    [one, ..] => {
                        is_in |= *one == letter;
                        place += 1;
                    }
                    [] => break,
                }
            }
            (is_in != is_negated).then_some(1 + usize::from(is_negated) + end + 1)
        }
        [own, ..] => (*own == letter).then_some(1),
        [] => None,
    }
}

/// The form that a text is to have: the second argument, before the zone; NFC without one.
fn form(texts: &Texts, row: usize) -> Result<&str> {
    if texts.len() < 2 {
        return Ok("NFC");
    }
    Ok(texts.at(1, row).unwrap_or("NFC"))
}

fn normalized(text: &str, form: &str) -> Result<String> {
    Ok(match form.to_ascii_uppercase().as_str() {
        "NFC" => text.nfc().collect(),
        "NFD" => text.nfd().collect(),
        "NFKC" => text.nfkc().collect(),
        "NFKD" => text.nfkd().collect(),
        other => return Err(invalid_argument(format!("invalid normalization form: {other}"))),
    })
}

/// The bytes of a size as PostgreSQL reads it: a number, and a unit or none. Fails with 22023 for what is no size, and
/// 22003 if it is too large.
fn size_of_text(text: &str) -> Result<i64> {
    const UNITS: [(&str, i64); 7] =
        [("", 1), ("bytes", 1), ("kB", 1 << 10), ("MB", 1 << 20), ("GB", 1 << 30), ("TB", 1 << 40), ("PB", 1 << 50)];
    let invalid = || value_error(format!("invalid size: \"{text}\""), "22023");
    let size = text.trim();
    let digits_of = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let unsigned = size.strip_prefix(['-', '+']).unwrap_or(size);
    let whole = digits_of(unsigned);
    let fraction = unsigned[whole..].strip_prefix('.').map_or(0, |rest| 1 + digits_of(rest));
    if whole + fraction.saturating_sub(1) == 0 {
        return Err(invalid());
    }
    let mut end = size.len() - unsigned.len() + whole + fraction;
    let exponent = size[end..].strip_prefix(['e', 'E']);
    let exponent = exponent.map(|rest| rest.strip_prefix(['-', '+']).unwrap_or(rest)).unwrap_or_default();
    if digits_of(exponent) > 0 {
        end = size.len() - exponent.len() + digits_of(exponent);
    }
    let (number, unit) = (&size[..end], size[end..].trim());
    let Some((_, factor)) = UNITS.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(unit)) else {
        let error = invalid().with_detail(format!("Invalid size unit: \"{unit}\"."));
        return Err(error.with_hint("Valid units are \"bytes\", \"kB\", \"MB\", \"GB\", \"TB\", and \"PB\"."));
    };
    let too_large = || out_of_range("bigint");
    if let Ok(number) = number.parse::<i64>() {
        return number.checked_mul(factor).ok_or_else(too_large);
    }
    let bytes = (number.parse::<f64>().map_err(|_| invalid())? * factor as f64).round();
    // The largest number of 64 bits has no double of its own.
    let is_within = (-9.223_372_036_854_776e18..9.223_372_036_854_776e18).contains(&bytes);
    is_within.then_some(bytes as i64).ok_or_else(too_large)
}

/// As PostgreSQL shows a size: in the largest unit of which there are not less than ten, rounded.
fn size_shown(bytes: i128) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if bytes.abs() < 10 * 1024 {
        return format!("{bytes} bytes");
    }
    // One bit more than is shown, by which it is rounded.
    let mut size = bytes / 512;
    for (index, unit) in UNITS.into_iter().enumerate() {
        if size.abs() < 20 * 1024 - 1 || index + 1 == UNITS.len() {
            return format!("{} {unit}", (size + size.signum()) / 2);
        }
        size /= 1024;
    }
    format!("{bytes} bytes")
}

fn bytes_shown(bytes: i64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let size = bytes.unsigned_abs();
    let sign = if bytes < 0 { "-" } else { "" };
    if size < 1024 {
        return format!("{sign}{size} {}", if size == 1 { "byte" } else { "bytes" });
    }
    let power = (size.ilog2() / 10).min(6);
    // Tenths are cut, not rounded.
    let tenths = u128::from(size) * 10 / (1_u128 << (10 * power));
    format!("{sign}{}.{} {}", tenths / 10, tenths % 10, UNITS[power as usize - 1])
}

fn patterns(catalog: &mut Catalog) {
    // DuckDB's have no option but those of PostgreSQL that mean the same: i, c, n, s.
    fn group_of(patterns: &mut Patterns, text: &str, pattern: &str, group: i32, options: &str) -> Result<String> {
        let compiled = patterns.get(pattern, options)?;
        let group = usize::try_from(group).map_err(|_| invalid_argument("a group's number is negative"))?;
        let found = compiled.regex.first(text)?.and_then(|captures| captures.get(group));
        Ok(found.map_or_else(String::new, |found| found.as_str().to_owned()))
    }
    catalog.add(
        "regexp_extract(text, text) -> text",
        kernel!(with patterns: Patterns; |text: &str, pattern: &str| group_of(&mut patterns, text, pattern, 0, "")),
    );
    catalog.add(
        "regexp_extract(text, text, integer) -> text",
        kernel!(with patterns: Patterns; |text: &str, pattern: &str, group: i32| {
            group_of(&mut patterns, text, pattern, group, "")
        }),
    );
    catalog.add(
        "regexp_extract(text, text, integer, text) -> text",
        kernel!(with patterns: Patterns; |text: &str, pattern: &str, group: i32, options: &str| {
            group_of(&mut patterns, text, pattern, group, options)
        }),
    );
    fn all(patterns: &mut Patterns, text: &str, pattern: &str, group: i32, options: &str) -> Result<List<String>> {
        let compiled = patterns.get(pattern, options)?;
        let group = usize::try_from(group).map_err(|_| invalid_argument("a group's number is negative"))?;
        if group >= compiled.regex.groups() {
            return Err(invalid_argument(format!("the pattern has no group {group}")));
        }
        let found = compiled.regex.all(text, 0, usize::MAX)?.into_iter();
        let found = found.map(|captures| captures.get(group).map_or_else(String::new, |found| found.as_str().into()));
        Ok(List(found.collect()))
    }
    catalog.add(
        "regexp_extract_all(text, text) -> text[]",
        kernel!(with patterns: Patterns; |text: &str, pattern: &str| all(&mut patterns, text, pattern, 0, "")),
    );
    catalog.add(
        "regexp_extract_all(text, text, integer) -> text[]",
        kernel!(with patterns: Patterns; |text: &str, pattern: &str, group: i32| {
            all(&mut patterns, text, pattern, group, "")
        }),
    );
    catalog.add(
        "regexp_extract_all(text, text, integer, text) -> text[]",
        kernel!(with patterns: Patterns; |text: &str, pattern: &str, group: i32, options: &str| {
            all(&mut patterns, text, pattern, group, options)
        }),
    );
    catalog.add(
        "regexp_full_match(text, text) -> boolean",
        kernel!(with patterns: Patterns; |text: &str, pattern: &str| {
            let whole = format!("^(?:{pattern})$");
            patterns.get(&whole, "")?.regex.is_match(text)
        }),
    );
    fn split(patterns: &mut Patterns, text: &str, pattern: &str, options: &str) -> Result<List<String>> {
        let (mut parts, mut from) = (Vec::new(), 0);
        let found = patterns.get(pattern, options)?.regex.all(text, 0, usize::MAX)?;
        for whole in found.iter().filter_map(|one| one.get(0)) {
            parts.push(text[from..whole.start()].to_owned());
            from = whole.end();
        }
        parts.push(text[from..].to_owned());
        Ok(List(parts))
    }
    for signature in ["string_split_regex(text, text) -> text[]", "str_split_regex(text, text) -> text[]"] {
        catalog.add(
            signature,
            kernel!(with patterns: Patterns; |text: &str, pattern: &str| split(&mut patterns, text, pattern, "")),
        );
    }
    for signature in ["string_split_regex(text, text, text) -> text[]", "str_split_regex(text, text, text) -> text[]"] {
        catalog.add(
            signature,
            kernel!(with patterns: Patterns; |text: &str, pattern: &str, options: &str| {
                split(&mut patterns, text, pattern, options)
            }),
        );
    }
    catalog.add(
        "regexp_full_match(text, text, text) -> boolean",
        kernel!(with patterns: Patterns; |text: &str, pattern: &str, options: &str| {
            let whole = format!("^(?:{pattern})$");
            patterns.get(&whole, options)?.regex.is_match(text)
        }),
    );
    catalog.add("regexp_escape(text) -> text", kernel!(|text: &str| regex::escape(text)));
}

/// The trigrams of a text's words, as pg_trgm has them: of letters and digits in lower case, with two blanks in front
/// of each word and one behind it.
fn trigrams(text: &str) -> BTreeSet<String> {
    let lower = text.to_lowercase();
    let words = lower.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    words
        .flat_map(|word| {
            let letters = format!("  {word} ").chars().collect::<Vec<_>>();
            letters.windows(3).map(|three| three.iter().collect::<String>()).collect::<Vec<_>>()
        })
        .collect()
}

/// How many of the trigrams that two texts have are in both.
fn similarity(a: &str, b: &str) -> f32 {
    let (a, b) = (trigrams(a), trigrams(b));
    let both = a.intersection(&b).count();
    let all = a.len() + b.len() - both;
    if all == 0 { 0.0 } else { both as f32 / all as f32 }
}

fn similarities(catalog: &mut Catalog) {
    catalog.add_all(
        &["hamming(text, text) -> bigint", "mismatches(text, text) -> bigint"],
        kernel!(try |a: &str, b: &str| match a.chars().count() == b.chars().count() {
            true => Ok(a.chars().zip(b.chars()).filter(|(a, b)| a != b).count() as i64),
            false => Err(invalid_argument("texts of different lengths have no number of mismatches")),
        }),
    );
    catalog.add(
        "jaccard(text, text) -> double precision",
        kernel!(try |a: &str, b: &str| {
            use std::collections::HashSet;
            let (a, b) = (a.chars().collect::<HashSet<_>>(), b.chars().collect::<HashSet<_>>());
            if a.is_empty() || b.is_empty() {
                return Err(invalid_argument("an empty text has no Jaccard similarity"));
            }
            let both = a.intersection(&b).count() as f64;
            Ok(both / (a.len() as f64 + b.len() as f64 - both))
        }),
    );
    catalog.add("damerau_levenshtein(text, text) -> bigint", kernel!(try |a: &str, b: &str| edits(a, b)));
    catalog.add("similarity(text, text) -> real", kernel!(|a: &str, b: &str| similarity(a, b)));
    catalog
        .add("show_trgm(text) -> text[]", kernel!(|text: &str| List(trigrams(text).into_iter().collect::<Vec<_>>())));
    catalog.add("jaro_similarity(text, text) -> double precision", kernel!(|a: &str, b: &str| jaro(a, b)));
    catalog
        .add("jaro_winkler_similarity(text, text) -> double precision", kernel!(|a: &str, b: &str| jaro_winkler(a, b)));
    catalog.add(
        "jaro_similarity(text, text, double precision) -> double precision",
        kernel!(|a: &str, b: &str, least: f64| at_least(jaro(a, b), least)),
    );
    catalog.add(
        "jaro_winkler_similarity(text, text, double precision) -> double precision",
        kernel!(|a: &str, b: &str, least: f64| at_least(jaro_winkler(a, b), least)),
    );
}

/// A measure of how alike texts are; 0 of those that are less alike.
fn at_least(score: f64, least: f64) -> f64 {
    if score < least { 0.0 } else { score }
}

fn jaro_winkler(a: &str, b: &str) -> f64 {
    let jaro = jaro(a, b);
    // A common start counts where the texts are alike already.
    let start = a.chars().zip(b.chars()).take(4).take_while(|(a, b)| a == b).count() as f64;
    if jaro > 0.7 { jaro + start * 0.1 * (1.0 - jaro) } else { jaro }
}

/// Pairs of letters of two texts that are compared at most.
const EDITS_MAX: usize = 1 << 24;

/// The fewest letters that are put in, taken out, changed, or swapped with their neighbor to make one text the other.
fn edits(a: &str, b: &str) -> Result<i64> {
    let (a, b) = (a.chars().collect::<Vec<_>>(), b.chars().collect::<Vec<_>>());
    if (a.len() + 2).saturating_mul(b.len() + 2) > EDITS_MAX {
        return Err(invalid_argument("the texts are too long for a number of edits"));
    }
    let most = a.len() + b.len();
    // A row and a column more than the usual ones hold the largest distance.
    let width = b.len() + 2;
    let mut table = vec![0_usize; (a.len() + 2) * width];
    let at = |row: usize, column: usize| row * width + column;
    table[at(0, 0)] = most;
    for row in 0..=a.len() {
        (table[at(row + 1, 0)], table[at(row + 1, 1)]) = (most, row);
    }
    for column in 0..=b.len() {
        (table[at(0, column + 1)], table[at(1, column + 1)]) = (most, column);
    }
    let mut last_rows = std::collections::HashMap::new();
    for row in 1..=a.len() {
        let mut last_column = 0;
        for column in 1..=b.len() {
            let swapped_row = last_rows.get(&b[column - 1]).copied().unwrap_or(0);
            let swapped_column = last_column;
            let is_same = a[row - 1] == b[column - 1];
            if is_same {
                last_column = column;
            }
            let changed = table[at(row, column)] + usize::from(!is_same);
            let added = table[at(row + 1, column)].min(table[at(row, column + 1)]) + 1;
            let between = (row - swapped_row - 1) + 1 + (column - swapped_column - 1);
            let swapped = table[at(swapped_row, swapped_column)] + between;
            table[at(row + 1, column + 1)] = changed.min(added).min(swapped);
        }
        last_rows.insert(a[row - 1], row);
    }
    Ok(table[at(a.len() + 1, b.len() + 1)] as i64)
}

fn jaro(a: &str, b: &str) -> f64 {
    let (a, b) = (a.chars().collect::<Vec<_>>(), b.chars().collect::<Vec<_>>());
    if a.is_empty() && b.is_empty() {
        return 1.0;
    }
    let reach = (a.len().max(b.len()) / 2).saturating_sub(1);
    let mut taken = vec![false; b.len()];
    let mut matched = Vec::new();
    for (at, letter) in a.iter().enumerate() {
        let from = at.saturating_sub(reach);
        let found = (from..b.len().min(at + reach + 1)).find(|place| !taken[*place] && b[*place] == *letter);
        if let Some(place) = found {
            taken[place] = true;
            matched.push(*letter);
        }
    }
    if matched.is_empty() {
        return 0.0;
    }
    let theirs = b.iter().zip(&taken).filter(|(_, taken)| **taken).map(|(letter, _)| letter);
    let swapped = matched.iter().zip(theirs).filter(|(a, b)| a != b).count() as f64 / 2.0;
    let count = matched.len() as f64;
    (count / a.len() as f64 + count / b.len() as f64 + (count - swapped) / count) / 3.0
}
