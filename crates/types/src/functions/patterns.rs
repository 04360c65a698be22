//! Pattern matching (manual, section 9.7): LIKE, SIMILAR TO and regular expressions.

use std::borrow::Cow;

use diligence_base::Result;

use super::Body;
use super::catalog::Catalog;
use super::columns::{List, kernel};
use super::errors::{invalid_argument, value_error};
use super::matcher::{Found, Part};
use super::regexes::{Compiled, Patterns};
use super::strings;

/// Declares the operators and functions.
pub(super) fn declare(catalog: &mut Catalog) {
    like(catalog);
    similar(catalog);
    matches(catalog);
    counted(catalog);
    replaced(catalog);
    split(catalog);
}

/// Whether a text is like a pattern, whose escape character is a backslash. Fails with 22025 if the pattern ends with
/// it.
fn is_like(text: &[u8], pattern: &[u8]) -> Result<bool> {
    // The place after the last `%` and the place in the text that it reaches to so far: where it is taken up again.
    let (mut at, mut place) = (0, 0);
    let mut again: Option<(usize, usize)> = None;
    loop {
        let matched = match pattern.get(place) {
            Some(b'%') => {
                again = Some((place + 1, at));
                place += 1;
                continue;
            }
            None if at == text.len() => return Ok(true),
            None => false,
            Some(_) if at >= text.len() => return Ok(false),
            Some(b'_') => {
                let width = character_width(text[at]);
                (at, place) = ((at + width).min(text.len()), place + 1);
                true
            }
            Some(b'\\') => {
                let next = pattern
                    .get(place + 1)
                    .ok_or_else(|| value_error("LIKE pattern must not end with escape character", "22025"))?;
                let is_same = *next == text[at];
                if is_same {
                    (at, place) = (at + 1, place + 2);
                }
                is_same
            }
            Some(byte) => {
                let is_same = *byte == text[at];
                if is_same {
                    (at, place) = (at + 1, place + 1);
                }
                is_same
            }
        };
        if matched {
            continue;
        }
        // The last `%` takes one character more.
        match &mut again {
            Some((after, reached)) if *reached < text.len() => {
                *reached += character_width(text[*reached]);
                *reached = (*reached).min(text.len());
                (place, at) = (*after, *reached);
            }
            _ => return Ok(false),
        }
    }
}

fn character_width(first: u8) -> usize {
    match first {
        0..0xc0 => 1,
        0xc0..0xe0 => 2,
        0xe0..0xf0 => 3,
        _ => 4,
    }
}

fn is_ilike(text: &str, pattern: &str) -> Result<bool> {
    is_like(strings::lower(text).as_bytes(), strings::lower(pattern).as_bytes())
}

/// The pattern with a backslash in place of its own escape character. Fails with 22025 if that is more than one.
fn with_backslash(pattern: &str, escape: &str) -> Result<String> {
    let mut characters = escape.chars();
    let (escape, more) = (characters.next(), characters.next());
    if more.is_some() {
        return Err(
            value_error("invalid escape string", "22025").with_hint("Escape string must be empty or one character.")
        );
    }
    if escape == Some('\\') {
        return Ok(pattern.to_owned());
    }
    let mut result = String::with_capacity(pattern.len() + 8);
    let mut is_escaped = false;
    for character in pattern.chars() {
        match character {
            character if Some(character) == escape && !is_escaped => {
                result.push('\\');
                is_escaped = true;
                continue;
            }
            '\\' if !is_escaped => result.push_str("\\\\"),
            other => result.push(other),
        }
        is_escaped = false;
    }
    Ok(result)
}

fn like(catalog: &mut Catalog) {
    let text_like: Body = kernel!(try |a: &str, pattern: &str| is_like(a.as_bytes(), pattern.as_bytes()));
    catalog.add_all(&["~~(text, text) -> boolean", "like(text, text) -> boolean"], text_like);
    catalog.add_all(
        &["!~~(text, text) -> boolean", "notlike(text, text) -> boolean"],
        kernel!(try |a: &str, pattern: &str| is_like(a.as_bytes(), pattern.as_bytes()).map(|found| !found)),
    );
    catalog.add_all(&["~~*(text, text) -> boolean"], kernel!(try |a: &str, pattern: &str| is_ilike(a, pattern)));
    catalog.add(
        "!~~*(text, text) -> boolean",
        kernel!(try |a: &str, pattern: &str| is_ilike(a, pattern).map(|found| !found)),
    );
    catalog.add_all(
        &["~~(bytea, bytea) -> boolean", "like(bytea, bytea) -> boolean"],
        kernel!(try |a: &[u8], pattern: &[u8]| bytes_like(a, pattern)),
    );
    catalog.add_all(
        &["!~~(bytea, bytea) -> boolean", "notlike(bytea, bytea) -> boolean"],
        kernel!(try |a: &[u8], pattern: &[u8]| bytes_like(a, pattern).map(|found| !found)),
    );
    catalog.add(
        "like_escape(text, text) -> text",
        kernel!(try |pattern: &str, escape: &str| with_backslash(pattern, escape)),
    );
}

/// LIKE of bytes, of which `_` is each one: high bytes are no beginnings of characters.
fn bytes_like(text: &[u8], pattern: &[u8]) -> Result<bool> {
    let wide = |bytes: &[u8]| bytes.iter().map(|byte| char::from(*byte)).collect::<String>();
    is_like(wide(text).as_bytes(), wide(pattern).as_bytes())
}

/// `similar_to_escape`: a SIMILAR TO pattern as a regular expression.
fn similar_pattern(pattern: &str, escape: Option<&str>) -> Result<String> {
    let mut characters = escape.unwrap_or("\\").chars();
    let (escape, more) = (characters.next(), characters.next());
    if more.is_some() {
        return Err(
            value_error("invalid escape string", "22025").with_hint("Escape string must be empty or one character.")
        );
    }
    let mut result = String::from("^(?:");
    let (mut is_escaped, mut in_class, mut separators) = (false, false, 0);
    for character in pattern.chars() {
        if is_escaped {
            is_escaped = false;
            if character == '"' && !in_class {
                // SUBSTRING … SIMILAR: the part between two separators is what is wanted.
                separators += 1;
                result.push_str(match separators {
                    1 => "){1,1}?(",
                    2 => "){1,1}(?:",
                    _ => {
                        let message =
                            "SQL regular expression may not contain more than two escape-double-quote separators";
                        return Err(value_error(message, "2200C"));
                    }
                });
            } else {
                result.extend(['\\', character]);
            }
            continue;
        }
        match character {
            character if Some(character) == escape => is_escaped = true,
            ']' if in_class => {
                in_class = false;
                result.push(']');
            }
            '\\' => result.push_str("\\\\"),
            other if in_class => result.push(other),
            '[' => {
                in_class = true;
                result.push('[');
            }
            '%' => result.push_str(".*"),
            '_' => result.push('.'),
            // A group is not to be caught.
            '(' => result.push_str("(?:"),
            '.' | '^' | '$' => result.extend(['\\', character]),
            other => result.push(other),
        }
    }
    result.push_str(")$");
    Ok(result)
}

/// SUBSTRING … SIMILAR … ESCAPE: the part between separators, each part as short or as long as SQL says.
fn similar_part(patterns: &mut Patterns, text: &str, pattern: &str, escape: &str) -> Result<Option<String>> {
    let similar = similar_pattern(pattern, Some(escape))?;
    // A bound of exactly one does not say which part is shortest in the crate's expressions: the first one is.
    let parts: Vec<&str> = similar.split("){1,1}?(").collect();
    let translated = match parts[..] {
        [first, rest] => {
            let lazy = first.replace(".*", ".*?");
            format!("{lazy})({}", rest.replace("){1,1}(?:", ")(?:"))
        }
        _ => similar,
    };
    let compiled = patterns.get(&translated, "")?;
    Ok(caught(&compiled, text)?.map(str::to_owned))
}

fn similar(catalog: &mut Catalog) {
    catalog.add("similar_to_escape(text) -> text", kernel!(try |pattern: &str| similar_pattern(pattern, None)));
    catalog.add(
        "similar_to_escape(text, text) -> text",
        kernel!(try |pattern: &str, escape: &str| similar_pattern(pattern, Some(escape))),
    );
    catalog.add(
        "substring(text, text, text) -> text",
        kernel!(with patterns: Patterns; |a: &str, pattern: &str, escape: &str| {
            similar_part(&mut patterns, a, pattern, escape)
        }),
    );
}

/// What a pattern catches: its first group if it has one, else the whole match.
fn caught<'t>(compiled: &Compiled, text: &'t str) -> Result<Option<&'t str>> {
    let Some(captures) = compiled.regex.first(text)? else { return Ok(None) };
    let group = usize::from(captures.len() > 1);
    Ok(captures.get(group).map(|found| found.as_str()))
}

fn groups(captures: &Found<'_>) -> List<Option<String>> {
    let text = |group: usize| captures.get(group).map(|found| found.as_str().to_owned());
    match captures.len() {
        1 => List(vec![text(0)]),
        count => List((1..count).map(text).collect()),
    }
}

fn not_global(compiled: &Compiled, function: &str) -> Result<()> {
    match compiled.is_global {
        true => Err(invalid_argument(format!("{function}() does not support the \"global\" option"))),
        false => Ok(()),
    }
}

fn matches(catalog: &mut Catalog) {
    catalog.add(
        "~(text, text) -> boolean",
        kernel!(with patterns: Patterns; |a: &str, p: &str| patterns.get(p, "")?.regex.is_match(a)),
    );
    catalog.add(
        "!~(text, text) -> boolean",
        kernel!(with patterns: Patterns; |a: &str, p: &str| Ok(!patterns.get(p, "")?.regex.is_match(a)?)),
    );
    catalog.add(
        "~*(text, text) -> boolean",
        kernel!(with patterns: Patterns; |a: &str, p: &str| patterns.get(p, "i")?.regex.is_match(a)),
    );
    catalog.add(
        "!~*(text, text) -> boolean",
        kernel!(with patterns: Patterns; |a: &str, p: &str| Ok(!patterns.get(p, "i")?.regex.is_match(a)?)),
    );
    catalog.add(
        "regexp_like(text, text) -> boolean",
        kernel!(with patterns: Patterns; |a: &str, p: &str| patterns.get(p, "")?.regex.is_match(a)),
    );
    catalog.add(
        "regexp_like(text, text, text) -> boolean",
        kernel!(with patterns: Patterns; |a: &str, p: &str, options: &str| {
            let compiled = patterns.get(p, options)?;
            not_global(&compiled, "regexp_like")?;
            compiled.regex.is_match(a)
        }),
    );
    catalog.add(
        "substring(text, text) -> text",
        kernel!(with patterns: Patterns; |a: &str, p: &str| Ok(caught(&*patterns.farthest(p, "")?, a)?.map(str::to_owned))),
    );
    catalog.add(
        "regexp_match(text, text) -> text[]",
        kernel!(with patterns: Patterns; |a: &str, p: &str| {
            Ok(patterns.farthest(p, "")?.regex.first(a)?.map(|found| groups(&found)))
        }),
    );
    catalog.add(
        "regexp_match(text, text, text) -> text[]",
        kernel!(with patterns: Patterns; |a: &str, p: &str, options: &str| {
            let compiled = patterns.farthest(p, options)?;
            not_global(&compiled, "regexp_match")?;
            Ok(compiled.regex.first(a)?.map(|found| groups(&found)))
        }),
    );
    // One array per match; the front makes rows of them.
    catalog.add(
        "regexp_matches(text, text) -> text[][]",
        kernel!(with patterns: Patterns; |a: &str, p: &str| {
            Ok(List(patterns.farthest(p, "")?.regex.first(a)?.iter().map(groups).collect()))
        }),
    );
    catalog.add(
        "regexp_matches(text, text, text) -> text[][]",
        kernel!(with patterns: Patterns; |a: &str, p: &str, options: &str| {
            let compiled = patterns.farthest(p, options)?;
            let most = if compiled.is_global { usize::MAX } else { 1 };
            Ok(List(compiled.regex.all(a, 0, most)?.iter().map(groups).collect()))
        }),
    );
}

/// The byte at which matching begins. Fails with 22023 unless the start is above zero.
fn start_of(text: &str, start: i32) -> Result<usize> {
    let before = usize::try_from(i64::from(start) - 1)
        .map_err(|_| invalid_argument(format!("invalid value for parameter \"start\": {start}")))?;
    Ok(text.char_indices().nth(before).map_or(text.len(), |(byte, _)| byte))
}

/// A parameter that must be as large as `least`.
fn parameter(name: &str, value: i32, least: i32) -> Result<usize> {
    match usize::try_from(value) {
        Ok(number) if value >= least => Ok(number),
        _ => Err(invalid_argument(format!("invalid value for parameter \"{name}\": {value}"))),
    }
}

/// A match and the groups in it: of the n-th match, the group.
fn nth<'t>(compiled: &Compiled, text: &'t str, start: i32, occurrence: i32, group: i32) -> Result<Option<Part<'t>>> {
    let occurrence = parameter("n", occurrence, 1)?;
    let group = parameter("subexpr", group, 0)?;
    let start = start_of(text, start)?;
    let found = compiled.regex.all(text, start, occurrence)?;
    Ok(found.get(occurrence - 1).and_then(|captures| captures.get(group)))
}

fn instr(compiled: &Compiled, text: &str, start: i32, occurrence: i32, end: i32, group: i32) -> Result<i32> {
    not_global(compiled, "regexp_instr")?;
    if !(0..=1).contains(&end) {
        return Err(invalid_argument(format!("invalid value for parameter \"endoption\": {end}")));
    }
    let found = nth(compiled, text, start, occurrence, group)?;
    let byte = found.map(|found| if end == 1 { found.end() } else { found.start() });
    Ok(byte.map_or(0, |byte| text[..byte].chars().count() as i32 + 1))
}

fn counted(catalog: &mut Catalog) {
    catalog.add(
        "regexp_count(text, text) -> integer",
        kernel!(with patterns: Patterns; |a: &str, p: &str| Ok(patterns.farthest(p, "")?.regex.all(a, 0, usize::MAX)?.len() as i32)),
    );
    catalog.add(
        "regexp_count(text, text, integer) -> integer",
        kernel!(with patterns: Patterns; |a: &str, p: &str, start: i32| {
            Ok(patterns.farthest(p, "")?.regex.all(a, start_of(a, start)?, usize::MAX)?.len() as i32)
        }),
    );
    catalog.add(
        "regexp_count(text, text, integer, text) -> integer",
        kernel!(with patterns: Patterns; |a: &str, p: &str, start: i32, options: &str| {
            let compiled = patterns.farthest(p, options)?;
            not_global(&compiled, "regexp_count")?;
            Ok(compiled.regex.all(a, start_of(a, start)?, usize::MAX)?.len() as i32)
        }),
    );
    catalog.add(
        "regexp_instr(text, text) -> integer",
        kernel!(with patterns: Patterns; |a: &str, p: &str| instr(&*patterns.farthest(p, "")?, a, 1, 1, 0, 0)),
    );
    catalog.add(
        "regexp_instr(text, text, integer) -> integer",
        kernel!(with patterns: Patterns; |a: &str, p: &str, start: i32| instr(&*patterns.farthest(p, "")?, a, start, 1, 0, 0)),
    );
    catalog.add(
        "regexp_instr(text, text, integer, integer) -> integer",
        kernel!(with patterns: Patterns; |a: &str, p: &str, start: i32, n: i32| {
            instr(&*patterns.farthest(p, "")?, a, start, n, 0, 0)
        }),
    );
    catalog.add(
        "regexp_instr(text, text, integer, integer, integer) -> integer",
        kernel!(with patterns: Patterns; |a: &str, p: &str, start: i32, n: i32, end: i32| {
            instr(&*patterns.farthest(p, "")?, a, start, n, end, 0)
        }),
    );
    catalog.add(
        "regexp_instr(text, text, integer, integer, integer, text) -> integer",
        kernel!(with patterns: Patterns; |a: &str, p: &str, start: i32, n: i32, end: i32, options: &str| {
            instr(&*patterns.farthest(p, options)?, a, start, n, end, 0)
        }),
    );
    catalog.add(
        "regexp_instr(text, text, integer, integer, integer, text, integer) -> integer",
        kernel!(with patterns: Patterns; |a: &str, p: &str, start: i32, n: i32, end: i32, options: &str, group: i32| {
            instr(&*patterns.farthest(p, options)?, a, start, n, end, group)
        }),
    );
    catalog.add(
        "regexp_substr(text, text) -> text",
        kernel!(with patterns: Patterns; |a: &str, p: &str| substr(&*patterns.farthest(p, "")?, a, 1, 1, 0)),
    );
    catalog.add(
        "regexp_substr(text, text, integer) -> text",
        kernel!(with patterns: Patterns; |a: &str, p: &str, start: i32| substr(&*patterns.farthest(p, "")?, a, start, 1, 0)),
    );
    catalog.add(
        "regexp_substr(text, text, integer, integer) -> text",
        kernel!(with patterns: Patterns; |a: &str, p: &str, start: i32, n: i32| {
            substr(&*patterns.farthest(p, "")?, a, start, n, 0)
        }),
    );
    catalog.add(
        "regexp_substr(text, text, integer, integer, text) -> text",
        kernel!(with patterns: Patterns; |a: &str, p: &str, start: i32, n: i32, options: &str| {
            substr(&*patterns.farthest(p, options)?, a, start, n, 0)
        }),
    );
    catalog.add(
        "regexp_substr(text, text, integer, integer, text, integer) -> text",
        kernel!(with patterns: Patterns; |a: &str, p: &str, start: i32, n: i32, options: &str, group: i32| {
            substr(&*patterns.farthest(p, options)?, a, start, n, group)
        }),
    );
}

fn substr<'t>(compiled: &Compiled, text: &'t str, start: i32, occurrence: i32, group: i32) -> Result<Option<&'t str>> {
    not_global(compiled, "regexp_substr")?;
    Ok(nth(compiled, text, start, occurrence, group)?.map(|found| found.as_str()))
}

/// The text with matches replaced: all of them, or only the n-th.
fn replace<'t>(compiled: &Compiled, text: &'t str, by: &str, start: i32, only: Option<usize>) -> Result<Cow<'t, str>> {
    let mut result = String::new();
    let mut copied = 0;
    let found = compiled.regex.all(text, start_of(text, start)?, only.unwrap_or(usize::MAX))?;
    for (index, captures) in found.iter().enumerate() {
        if only.is_some_and(|only| index + 1 < only) {
            continue;
        }
        let Some(whole) = captures.get(0) else { break };
        result.push_str(&text[copied..whole.start()]);
        expand(&mut result, by, captures);
        copied = whole.end();
        if only.is_some() {
            break;
        }
    }
    if copied == 0 && result.is_empty() {
        return Ok(Cow::Borrowed(text));
    }
    result.push_str(&text[copied..]);
    Ok(Cow::Owned(result))
}

/// `\1` to `\9` are groups, `\&` the match, `\\` a backslash; anything else stands for itself.
fn expand(result: &mut String, by: &str, captures: &Found<'_>) {
    let mut rest = by.chars();
    while let Some(character) = rest.next() {
        if character != '\\' {
            result.push(character);
            continue;
        }
        match rest.clone().next() {
            Some('&') => result.push_str(captures.get(0).map_or("", |found| found.as_str())),
            Some(digit @ '1'..='9') => {
                let group = digit.to_digit(10).unwrap_or(0) as usize;
                result.push_str(captures.get(group).map_or("", |found| found.as_str()));
            }
            Some('\\') => result.push('\\'),
            _ => {
                result.push('\\');
                continue;
            }
        }
        rest.next();
    }
}

fn replaced(catalog: &mut Catalog) {
    catalog.add(
        "regexp_replace(text, text, text) -> text",
        kernel!(with patterns: Patterns; |a: &str, p: &str, by: &str| replace(&*patterns.farthest(p, "")?, a, by, 1, Some(1))),
    );
    catalog.add(
        "regexp_replace(text, text, text, text) -> text",
        kernel!(with patterns: Patterns; |a: &str, p: &str, by: &str, options: &str| {
            if options.starts_with(|first: char| first.is_ascii_digit()) {
                return Err(invalid_argument(format!("invalid regular expression option: \"{options}\"")));
            }
            let compiled = patterns.farthest(p, options)?;
            replace(&compiled, a, by, 1, (!compiled.is_global).then_some(1))
        }),
    );
    catalog.add(
        "regexp_replace(text, text, text, integer) -> text",
        kernel!(with patterns: Patterns; |a: &str, p: &str, by: &str, start: i32| {
            replace(&*patterns.farthest(p, "")?, a, by, start, Some(1))
        }),
    );
    catalog.add(
        "regexp_replace(text, text, text, integer, integer) -> text",
        kernel!(with patterns: Patterns; |a: &str, p: &str, by: &str, start: i32, n: i32| {
            let n = parameter("n", n, 0)?;
            replace(&*patterns.farthest(p, "")?, a, by, start, (n > 0).then_some(n))
        }),
    );
    catalog.add(
        "regexp_replace(text, text, text, integer, integer, text) -> text",
        kernel!(with patterns: Patterns; |a: &str, p: &str, by: &str, start: i32, n: i32, options: &str| {
            let n = parameter("n", n, 0)?;
            replace(&*patterns.farthest(p, options)?, a, by, start, (n > 0).then_some(n))
        }),
    );
}

/// The parts between matches; a match of nothing separates characters, but not at the ends.
fn parts(compiled: &Compiled, text: &str) -> Result<List<String>> {
    let mut result = Vec::new();
    let mut from = 0;
    for captures in compiled.regex.all(text, 0, usize::MAX)? {
        let Some(found) = captures.get(0) else { break };
        if found.start() == found.end() && (found.start() == from || found.end() == text.len()) {
            continue;
        }
        result.push(text[from..found.start()].to_owned());
        from = found.end();
    }
    result.push(text[from..].to_owned());
    Ok(List(result))
}

fn split(catalog: &mut Catalog) {
    // The table is the array's rows: the front unnests it.
    for name in ["regexp_split_to_array", "regexp_split_to_table"] {
        let signature = |rest: &str| -> &'static str { Box::leak(format!("{name}{rest}").into_boxed_str()) };
        catalog.add(
            signature("(text, text) -> text[]"),
            kernel!(with patterns: Patterns; |a: &str, p: &str| parts(&*patterns.farthest(p, "")?, a)),
        );
        catalog.add(
            signature("(text, text, text) -> text[]"),
            kernel!(with patterns: Patterns; |a: &str, p: &str, options: &str| {
                let compiled = patterns.farthest(p, options)?;
                not_global(&compiled, "regexp_split_to_array")?;
                parts(&compiled, a)
            }),
        );
    }
}
