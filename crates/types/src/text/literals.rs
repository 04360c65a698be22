//! The text form of arrays, records and maps: braces and parentheses, quotes and escapes.

use diligence_base::{Error, Result};

use super::datetime::is_space;
use super::trim;
use crate::SqlType;

/// Cuts an array's text `{a,"b c",NULL}` into its elements: `None` for NULL. A nested array is one element, with its
/// braces, and said to be so. Bounds are read and dropped. DuckDB's form, `[a, 'b c', NULL]`, is read as well.
pub(crate) fn split_array(text: &str, mut element: impl FnMut(Option<&str>, bool)) -> Result<()> {
    let fail = || malformed("array", text);
    if let Some(inside) = inside_brackets(text) {
        return split_list(inside, element).ok_or_else(fail);
    }
    let inside = inside_braces(text).ok_or_else(fail)?;
    let expected = bounds(text)?;
    let mut count = 0_i64;
    let mut has_nested = None;
    let mut cutter = Cutter { bytes: inside.as_bytes(), at: 0, value: String::new() };
    cutter.skip_spaces();
    if cutter.peek().is_none() {
        return if expected.is_some() { Err(fail()) } else { Ok(()) };
    }
    loop {
        cutter.skip_spaces();
        cutter.value.clear();
        let is_nested = cutter.peek() == Some(b'{');
        let item = match cutter.peek() {
            Some(b'{') => Some(cutter.nested().ok_or_else(fail)?),
            Some(b'"') => {
                cutter.quoted().ok_or_else(fail)?;
                Some(cutter.value.as_str())
            }
            _ => {
                let has_escape = cutter.unquoted().ok_or_else(fail)?;
                let is_null = !has_escape && cutter.value.eq_ignore_ascii_case("null");
                (!is_null).then_some(cutter.value.as_str())
            }
        };
        // Either all elements are arrays or none is.
        if *has_nested.get_or_insert(is_nested) != is_nested {
            return Err(fail());
        }
        element(item, is_nested);
        count += 1;
        cutter.skip_spaces();
        match cutter.next() {
            Some(b',') => {}
            None if expected.is_none_or(|expected| expected == count) => return Ok(()),
            _ => return Err(fail()),
        }
    }
}

fn malformed(kind: &str, text: &str) -> Error {
    Error::input(format!("malformed {kind} literal: \"{text}\"")).with_code("22P02")
}

/// What stands between an array's outermost braces.
fn inside_braces(text: &str) -> Option<&str> {
    let text = trim(text);
    let text = if text.starts_with('[') { trim(text.split_once('=')?.1) } else { text };
    text.strip_prefix('{')?.strip_suffix('}')
}

/// What stands between the brackets of DuckDB's form of an array. Behind PostgreSQL's bounds there are braces.
fn inside_brackets(text: &str) -> Option<&str> {
    Some(trim(trim(text).strip_prefix('[')?.strip_suffix(']')?))
}

/// The elements of DuckDB's form of an array; `None` if quotes or brackets are open at its end, or an element is
/// missing.
fn split_list(inside: &str, mut element: impl FnMut(Option<&str>, bool)) -> Option<()> {
    for item in items_of(inside, false)? {
        match quoted_part(item) {
            Some(quoted) => element(Some(&without_escapes(quoted)), false),
            None if item.is_empty() => return None,
            None if item.eq_ignore_ascii_case("null") => element(None, false),
            None => element(Some(item), item.starts_with('[')),
        }
    }
    Some(())
}

/// The parts with commas between them of what stands in DuckDB's brackets, values or pairs of a name and a value.
/// `None` if quotes or brackets are open at its end.
fn items_of(inside: &str, are_pairs: bool) -> Option<Vec<&str>> {
    let mut items = Vec::new();
    let mut rest = trim(inside);
    if rest.is_empty() {
        return Some(items);
    }
    while let Some((item, behind)) = split_at(rest, ',', are_pairs)? {
        items.push(trim(item));
        rest = behind;
    }
    items.push(trim(rest));
    Some(items)
}

/// What stands in front of the first of these signs and behind it, outside of quotes and brackets. The outer `None` if
/// these are open at the end, the inner one if there is no such sign.
fn split_at(text: &str, sign: char, are_pairs: bool) -> Option<Option<(&str, &str)>> {
    let (mut depth, mut quote, mut is_escaped, mut word) = (0_u32, None, false, 0);
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            _ if is_escaped => is_escaped = false,
            (_, '\\') => is_escaped = true,
            (Some(open), letter) if letter == open => quote = None,
            (Some(_), _) => {}
            // In the middle of a word it is an apostrophe.
            (None, '\'' | '"') if depth > 0 || trim(&text[word..at]).is_empty() => quote = Some(letter),
            (None, letter) if letter == sign && depth == 0 => return Some(Some((&text[..at], &text[at + 1..]))),
            (None, '[' | '{' | '(') => depth += 1,
            (None, ']' | '}' | ')') => depth = depth.checked_sub(1)?,
            // A value begins behind its name.
            (None, ':' | '=') if depth == 0 && are_pairs => word = at + 1,
            _ => {}
        }
    }
    if quote.is_some() || is_escaped || depth > 0 { None } else { Some(None) }
}

/// What stands within quotes.
fn quoted_part(item: &str) -> Option<&str> {
    ['\'', '"'].into_iter().find_map(|quote| item.strip_prefix(quote)?.strip_suffix(quote))
}

/// A value of DuckDB's form of a struct or a map: `None` for NULL.
fn value_of(item: &str) -> Option<String> {
    match quoted_part(item) {
        Some(quoted) => Some(without_escapes(quoted)),
        None if item.eq_ignore_ascii_case("null") => None,
        None => Some(item.to_owned()),
    }
}

/// Cuts DuckDB's form of a struct, `{a: 1, 'b': x}`, or of a map, `{a=1}`, into names and values, which are `None` for
/// NULL. `None` if it is no such form. Of a struct no sign is `=`.
pub(crate) fn split_pairs(text: &str, is_map: bool) -> Option<Vec<(String, Option<String>)>> {
    let inside = trim(text).strip_prefix('{')?.strip_suffix('}')?;
    let pair = |item: &str| {
        let equal = if is_map { split_at(item, '=', true)? } else { None };
        let (name, value) = match equal {
            Some(pair) => pair,
            None => split_at(item, ':', true)??,
        };
        let (name, value) = (trim(name), trim(value));
        Some((quoted_part(name).map_or_else(|| name.to_owned(), without_escapes), value_of(value)))
    };
    items_of(inside, true)?.into_iter().map(pair).collect()
}

fn without_escapes(text: &str) -> String {
    let mut letters = text.chars();
    let mut plain = String::with_capacity(text.len());
    while let Some(letter) = letters.next() {
        plain.extend(if letter == '\\' { letters.next() } else { Some(letter) });
    }
    plain
}

/// How many elements the bounds before an array (`[1:2][-1:3]=`) give its first dimension. `None` without bounds.
fn bounds(text: &str) -> Result<Option<i64>> {
    let fail = || malformed("array", text);
    if !trim(text).starts_with('[') {
        return Ok(None);
    }
    let mut rest = text.split_once('=').map(|(bounds, _)| trim(bounds)).ok_or_else(fail)?;
    let mut first = None;
    while !rest.is_empty() {
        let (bound, after) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')).ok_or_else(fail)?;
        let (lower, upper) = bound.split_once(':').unwrap_or(("1", bound));
        let number = |text: &str| text.trim().parse::<i32>().map(i64::from).map_err(|_| fail());
        let (lower, upper) = (number(lower)?, number(upper)?);
        if lower > upper {
            return Err(Error::input("upper bound cannot be less than lower bound").with_code("2202E"));
        }
        first.get_or_insert(upper - lower + 1);
        rest = trim(after);
    }
    Ok(first)
}

/// The type of an array whose text has perhaps more dimensions than a type says: `{{1,2},{3,4}}` as `integer[]` is an
/// array of arrays.
pub fn array_type_of(text: &str, sql_type: &SqlType) -> SqlType {
    if sql_type.element().is_none() {
        return sql_type.clone();
    }
    let mut dimensions = 0;
    let is_list = inside_brackets(text).is_some();
    let mut inside = inside_brackets(text).or_else(|| inside_braces(text)).map(trim);
    while let Some(text) = inside {
        dimensions += 1;
        inside = text.strip_prefix(if is_list { '[' } else { '{' }).map(trim);
    }
    (0..dimensions.max(1)).fold(sql_type.innermost().clone(), |element, _| SqlType::array_of(element))
}

struct Cutter<'a> {
    bytes: &'a [u8],
    at: usize,
    value: String,
}

impl<'a> Cutter<'a> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek();
        self.at += usize::from(byte.is_some());
        byte
    }

    fn skip_spaces(&mut self) {
        while self.peek().is_some_and(is_space) {
            self.at += 1;
        }
    }

    /// The text from a place on to where the cutter is. Both are at characters of ASCII.
    fn since(&self, start: usize) -> Option<&'a str> {
        std::str::from_utf8(&self.bytes[start..self.at]).ok()
    }

    /// A nested array, braces included.
    fn nested(&mut self) -> Option<&'a str> {
        let start = self.at;
        let (mut depth, mut is_quoted) = (0_u32, false);
        loop {
            match self.next()? {
                b'\\' => {
                    self.next()?;
                }
                b'"' => is_quoted = !is_quoted,
                b'{' if !is_quoted => depth += 1,
                b'}' if !is_quoted => {
                    depth -= 1;
                    if depth == 0 {
                        return self.since(start);
                    }
                }
                _ => {}
            }
        }
    }

    /// Copies bytes up to one of ASCII's that ends them.
    fn copy_until(&mut self, is_end: impl Fn(u8) -> bool) -> Option<()> {
        let start = self.at;
        while self.peek().is_some_and(|byte| !is_end(byte)) {
            self.at += 1;
        }
        let copied = self.since(start)?;
        self.value.push_str(copied);
        Some(())
    }

    /// Copies the character after a backslash.
    fn escaped(&mut self) -> Option<()> {
        self.at += 1;
        let start = self.at;
        self.next()?;
        while self.peek().is_some_and(|byte| byte & 0xC0 == 0x80) {
            self.at += 1;
        }
        let copied = self.since(start)?;
        self.value.push_str(copied);
        Some(())
    }

    fn quoted(&mut self) -> Option<()> {
        self.at += 1;
        loop {
            self.copy_until(|byte| matches!(byte, b'"' | b'\\'))?;
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return Some(());
                }
                _ => self.escaped()?,
            }
        }
    }

    /// An element without quotes, without the spaces at its end; says whether it has a backslash. `None` if there is
    /// none.
    fn unquoted(&mut self) -> Option<bool> {
        let mut kept = 0;
        let mut has_escape = false;
        loop {
            self.copy_until(|byte| matches!(byte, b',' | b'"' | b'\\' | b'{' | b'}'))?;
            match self.peek() {
                Some(b'\\') => {
                    self.escaped()?;
                    kept = self.value.len();
                    has_escape = true;
                }
                None | Some(b',') => break,
                Some(_) => return None,
            }
        }
        let trimmed = self.value.trim_end_matches(|letter: char| u8::try_from(letter).is_ok_and(is_space)).len();
        self.value.truncate(trimmed.max(kept));
        (!self.value.is_empty()).then_some(has_escape)
    }
}

/// Cuts a record's text `(a,"b c",)` into its fields: `None` for NULL.
pub(crate) fn split_record(text: &str) -> Result<Vec<Option<String>>> {
    let fail = || malformed("record", text);
    let inside = trim(text).strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).ok_or_else(fail)?;
    let mut fields = vec![];
    let mut value: Option<String> = None;
    let mut is_quoted = false;
    let mut letters = inside.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => value.get_or_insert_default().push(letters.next().ok_or_else(fail)?),
            '"' if is_quoted && letters.peek() == Some(&'"') => {
                value.get_or_insert_default().push('"');
                letters.next();
            }
            '"' => {
                value.get_or_insert_default();
                is_quoted = !is_quoted;
            }
            ',' if !is_quoted => fields.push(value.take()),
            '(' | ')' if !is_quoted => return Err(fail()),
            _ => value.get_or_insert_default().push(letter),
        }
    }
    if is_quoted {
        return Err(fail());
    }
    fields.push(value);
    Ok(fields)
}

/// Puts an array's element, written from `start` on, into quotes if it needs them.
pub(crate) fn quote_element(out: &mut String, start: usize) {
    let written = &out[start..];
    let needs_quotes = written.is_empty()
        || written.eq_ignore_ascii_case("null")
        || written.bytes().any(|byte| matches!(byte, b'"' | b'\\' | b'{' | b'}' | b',') || is_space(byte));
    if needs_quotes {
        quote(out, start, |out, letter| {
            out.push('\\');
            out.push(letter);
        });
    }
}

/// Puts a record's field, written from `start` on, into quotes if it needs them.
pub(crate) fn quote_field(out: &mut String, start: usize) {
    let written = &out[start..];
    let needs_quotes = written.is_empty()
        || written.bytes().any(|byte| matches!(byte, b'"' | b'\\' | b'(' | b')' | b',') || is_space(byte));
    if needs_quotes {
        quote(out, start, |out, letter| {
            out.push(letter);
            out.push(letter);
        });
    }
}

fn quote(out: &mut String, start: usize, escape: impl Fn(&mut String, char)) {
    let written = out.split_off(start);
    out.push('"');
    for letter in written.chars() {
        match letter {
            '"' | '\\' => escape(out, letter),
            _ => out.push(letter),
        }
    }
    out.push('"');
}
