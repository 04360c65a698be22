//! JSON text: where values begin and end, without making anything of them.

use std::borrow::Cow;

/// Levels of nesting at most.
const DEPTH_MAX: usize = 256;

/// Why a value cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// The text ends before the value does.
    Incomplete,
    /// It is no JSON at this position.
    Malformed { at: usize, what: &'static str },
    /// It is no value of its column: the path of the key, and what is wrong.
    Misfit { key: String, what: String },
}

fn malformed<T>(at: usize, what: &'static str) -> Result<T, Flaw> {
    Err(Flaw::Malformed { at, what })
}

/// What a value is, as its first byte shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    Boolean,
    Number,
    Text,
    List,
    Object,
}

/// The position of the first byte that is no space.
pub(super) fn skip_space(text: &[u8], mut at: usize) -> usize {
    while matches!(text.get(at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
        at += 1;
    }
    at
}

/// What the value at a position is. Fails if none can begin there.
pub(super) fn kind(text: &[u8], at: usize) -> Result<Kind, Flaw> {
    Ok(match text.get(at) {
        None => return Err(Flaw::Incomplete),
        Some(b'n') => Kind::Null,
        Some(b't' | b'f') => Kind::Boolean,
        Some(b'"') => Kind::Text,
        Some(b'[') => Kind::List,
        Some(b'{') => Kind::Object,
        // NaN and the infinities, which JSON does not have, but several programs write.
        Some(b'-' | b'0'..=b'9' | b'N' | b'I') => Kind::Number,
        Some(_) => return malformed(at, "expected a value"),
    })
}

/// The end of the value at a position.
pub(super) fn value_end(text: &[u8], at: usize, depth: usize) -> Result<usize, Flaw> {
    match kind(text, at)? {
        Kind::Null => word_end(text, at, b"null"),
        Kind::Boolean if text[at] == b't' => word_end(text, at, b"true"),
        Kind::Boolean => word_end(text, at, b"false"),
        Kind::Number if text[at] == b'N' => word_end(text, at, b"NaN"),
        Kind::Number if text[at] == b'I' => word_end(text, at, b"Infinity"),
        Kind::Number if text.get(at + 1) == Some(&b'I') => word_end(text, at, b"-Infinity"),
        Kind::Number => number_end(text, at),
        Kind::Text => string_end(text, at),
        Kind::List => each_item(text, at, depth, |at| value_end(text, at, depth + 1)),
        Kind::Object => each_member(text, at, depth, |_, at| value_end(text, at, depth + 1)),
    }
}

fn word_end(text: &[u8], at: usize, word: &[u8]) -> Result<usize, Flaw> {
    let rest = &text[at..text.len().min(at + word.len())];
    if rest == word {
        Ok(at + word.len())
    } else if word.starts_with(rest) {
        Err(Flaw::Incomplete)
    } else {
        malformed(at, "expected a value")
    }
}

fn number_end(text: &[u8], start: usize) -> Result<usize, Flaw> {
    let digits = |mut at: usize| {
        let from = at;
        while matches!(text.get(at), Some(b'0'..=b'9')) {
            at += 1;
        }
        if at == text.len() {
            Ok(at)
        } else if at == from {
            malformed(at, "expected a digit")
        } else {
            Ok(at)
        }
    };
    let mut at = start + usize::from(text[start] == b'-');
    if text.get(at) == Some(&b'0') && matches!(text.get(at + 1), Some(b'0'..=b'9')) {
        // Programs read it as 7, as an octal number or as a text.
        return malformed(at, "a number begins with 0");
    }
    at = digits(at)?;
    if text.get(at) == Some(&b'.') {
        at = digits(at + 1)?;
    }
    if matches!(text.get(at), Some(b'e' | b'E')) {
        at += 1;
        at += usize::from(matches!(text.get(at), Some(b'+' | b'-')));
        at = digits(at)?;
    }
    if at < text.len() && !matches!(text[at], b' ' | b'\n' | b'\r' | b'\t' | b',' | b']' | b'}') {
        return malformed(at, "a number does not end here");
    }
    Ok(at)
}

/// The position behind the closing quote.
fn string_end(text: &[u8], start: usize) -> Result<usize, Flaw> {
    let mut at = start + 1;
    loop {
        let rest = text.get(at..).ok_or(Flaw::Incomplete)?;
        at += memchr::memchr2(b'"', b'\\', rest).ok_or(Flaw::Incomplete)?;
        if text[at] == b'"' {
            return Ok(at + 1);
        }
        at += 2;
    }
}

/// Hands the position of each item of a list to `item`, which gives its end.
pub(super) fn each_item(
    text: &[u8],
    start: usize,
    depth: usize,
    mut item: impl FnMut(usize) -> Result<usize, Flaw>,
) -> Result<usize, Flaw> {
    if depth > DEPTH_MAX {
        return malformed(start, "values are nested too deeply");
    }
    let mut at = skip_space(text, start + 1);
    if text.get(at) == Some(&b']') {
        return Ok(at + 1);
    }
    loop {
        at = skip_space(text, item(at)?);
        match text.get(at) {
            Some(b',') => at = skip_space(text, at + 1),
            Some(b']') => return Ok(at + 1),
            None => return Err(Flaw::Incomplete),
            Some(_) => return malformed(at, "expected ',' or ']'"),
        }
    }
}

/// Hands each key of an object and the position of its value to `member`, which gives the value's end. The key is as
/// written, with its quotes.
pub(super) fn each_member<'t>(
    text: &'t [u8],
    start: usize,
    depth: usize,
    mut member: impl FnMut(&'t [u8], usize) -> Result<usize, Flaw>,
) -> Result<usize, Flaw> {
    if depth > DEPTH_MAX {
        return malformed(start, "values are nested too deeply");
    }
    let mut at = skip_space(text, start + 1);
    if text.get(at) == Some(&b'}') {
        return Ok(at + 1);
    }
    loop {
        match text.get(at) {
            Some(b'"') => {}
            None => return Err(Flaw::Incomplete),
            Some(_) => return malformed(at, "expected a key in quotes"),
        }
        let end = string_end(text, at)?;
        let key = &text[at..end];
        at = skip_space(text, end);
        match text.get(at) {
            Some(b':') => at = skip_space(text, at + 1),
            None => return Err(Flaw::Incomplete),
            Some(_) => return malformed(at, "expected ':'"),
        }
        at = skip_space(text, member(key, at)?);
        match text.get(at) {
            Some(b',') => at = skip_space(text, at + 1),
            Some(b'}') => return Ok(at + 1),
            None => return Err(Flaw::Incomplete),
            Some(_) => return malformed(at, "expected ',' or '}'"),
        }
    }
}

/// What a string in quotes means. Fails if it is no UTF-8 or has an escape that there is not.
pub(super) fn string(quoted: &[u8], at: usize) -> Result<Cow<'_, str>, Flaw> {
    let inner = &quoted[1..quoted.len() - 1];
    if memchr::memchr(b'\\', inner).is_none() {
        let text = std::str::from_utf8(inner);
        return text.map(Cow::Borrowed).or_else(|_| malformed(at, "a text is not UTF-8"));
    }
    // The library knows all escapes and pairs of them.
    let text = serde_json::from_slice::<String>(quoted);
    text.map(Cow::Owned).or_else(|_| malformed(at, "a text has an escape that there is not, or is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_end_where_they_end() {
        for text in ["null", "true", "-1.5e+3", r#""a\"b""#, r#"{"a":[1,{"b":null}],"c":""}"#, "[]", "{}", "[ 1 , 2 ]"]
        {
            assert_eq!(value_end(text.as_bytes(), 0, 0), Ok(text.len()), "{text}");
            let with_more = format!("{text} x");
            assert_eq!(value_end(with_more.as_bytes(), 0, 0), Ok(text.len()), "{text}");
        }
        for text in ["{\"a\":1", "[1,", "\"a", "tru", "{\"a\"", "{\"a\":"] {
            assert_eq!(value_end(text.as_bytes(), 0, 0), Err(Flaw::Incomplete), "{text}");
        }
        for text in ["{a:1}", "[1 2]", "1x", "{\"a\" 1}", "nulk", "-x", "{\"a\":}", "007", "-01", "[00]"] {
            assert!(matches!(value_end(text.as_bytes(), 0, 0), Err(Flaw::Malformed { .. })), "{text}");
        }
        assert!(value_end("[".repeat(100_000).as_bytes(), 0, 0).is_err());
        assert_eq!(string(br#""\ud83d\ude00\n""#, 0).unwrap(), "\u{1f600}\n");
    }
}
