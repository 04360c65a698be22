//! The words of a body.

use diligence_base::{Error, Result};

/// A word of a body, a sign, or a literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word<'t> {
    /// What it is.
    pub kind: Kind,
    /// As it was written.
    pub text: &'t str,
    /// Where it begins, in bytes.
    pub at: usize,
}

/// What a word is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name or a keyword without quotes, in lower case.
    Name(String),
    /// A name in quotes.
    Quoted(String),
    /// A literal of text, with what it says.
    Text(String),
    /// A number, a placeholder, or any other sign.
    Sign,
}

/// Signs of two characters.
const PAIRS: [&str; 7] = [":=", "..", "<<", ">>", "::", "=>", "||"];

/// The words of a text, without blanks and comments. Fails with 42601 where something is not closed.
pub(super) fn words(text: &str) -> Result<Vec<Word<'_>>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        let first = bytes[at];
        if first.is_ascii_whitespace() {
            at += 1;
            continue;
        }
        if rest.starts_with("--") {
            at += rest.find('\n').unwrap_or(rest.len());
            continue;
        }
        if rest.starts_with("/*") {
            at += comment(rest)?;
            continue;
        }
        let (kind, length) = one(rest, first)?;
        found.push(Word { kind, text: &rest[..length], at });
        at += length;
    }
    Ok(found)
}

fn one(rest: &str, first: u8) -> Result<(Kind, usize)> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    if (first == b'e' || first == b'E') && rest[1..].starts_with('\'') {
        let (text, length) = quoted(&rest[1..], '\'', true)?;
        return Ok((Kind::Text(text), length + 1));
    }
    if first == b'\'' {
        let (text, length) = quoted(rest, '\'', false)?;
        return Ok((Kind::Text(text), length));
    }
    if first == b'"' {
        let (name, length) = quoted(rest, '"', false)?;
        return Ok((Kind::Quoted(name), length));
    }
    if first == b'$' {
        let tag = rest[1..].find('$').filter(|end| {
            let tag = &rest[1..=*end];
            !tag.starts_with(|c: char| c.is_ascii_digit()) && tag.chars().all(|c| c.is_alphanumeric() || c == '_')
        });
        if let Some(end) = tag {
            let mark = &rest[..end + 2];
            let body = &rest[mark.len()..];
            let close = body.find(mark).ok_or_else(|| unclosed(mark))?;
            return Ok((Kind::Text(body[..close].to_owned()), close + 2 * mark.len()));
        }
        let digits = rest[1..].bytes().take_while(u8::is_ascii_digit).count();
        return Ok((Kind::Sign, 1 + digits));
    }
    if first.is_ascii_digit() {
        return Ok((Kind::Sign, number(rest.as_bytes())));
    }
    if let Some(c) = rest.chars().next()
        && (c.is_alphabetic() || c == '_')
    {
        let length = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        return Ok((Kind::Name(rest[..length].to_lowercase()), length));
    }
    let length = match PAIRS.iter().find(|pair| rest.starts_with(**pair)) {
        Some(_) => 2,
        None => rest.chars().next().map_or(1, char::len_utf8),
    };
    Ok((Kind::Sign, length))
}

/// The length of a number, which does not end in the two points of a range.
fn number(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let is_point = *byte == b'.' && bytes.get(at + 1) != Some(&b'.');
        let is_sign = matches!(byte, b'+' | b'-') && matches!(bytes.get(at.wrapping_sub(1)), Some(b'e' | b'E'));
        if !byte.is_ascii_alphanumeric() && *byte != b'_' && !is_point && !is_sign {
            break;
        }
        at += 1;
    }
    at
}

/// A literal in quotes, and how long it is written.
fn quoted(rest: &str, quote: char, has_escapes: bool) -> Result<(String, usize)> {
    let mut text = String::new();
    let mut chars = rest.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c == quote {
            if chars.peek().is_some_and(|(_, next)| *next == quote) {
                chars.next();
                text.push(quote);
                continue;
            }
            return Ok((text, at + quote.len_utf8()));
        }
        if c == '\\' && has_escapes {
            match chars.next() {
                Some((_, 'n')) => text.push('\n'),
                Some((_, 't')) => text.push('\t'),
                Some((_, other)) => text.push(other),
                None => {}
            }
            continue;
        }
        text.push(c);
    }
    Err(unclosed(&quote.to_string()))
}

/// The length of a comment, in which others may be.
fn comment(rest: &str) -> Result<usize> {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        let here = &rest.as_bytes()[at..];
        if here.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if here.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return Ok(at);
            }
        } else {
            at += 1;
        }
    }
    Err(unclosed("/*"))
}

fn unclosed(what: &str) -> Error {
    Error::input(format!("unterminated {what} in the function's body")).with_code("42601")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_cut_into_words() {
        let found =
            words("FOR i IN 1..n LOOP -- all\n x := E'a\\'b' || $q$;$q$ || \"A\"\"b\" /* /* */ */; $1 1.5e-3").unwrap();
        let texts = found.iter().map(|word| word.text).collect::<Vec<_>>();
        let expected = [
            "FOR",
            "i",
            "IN",
            "1",
            "..",
            "n",
            "LOOP",
            "x",
            ":=",
            "E'a\\'b'",
            "||",
            "$q$;$q$",
            "||",
            "\"A\"\"b\"",
            ";",
            "$1",
            "1.5e-3",
        ];
        assert_eq!(texts, expected);
        assert_eq!(found[9].kind, Kind::Text("a'b".to_owned()));
        assert_eq!(found[13].kind, Kind::Quoted("A\"b".to_owned()));
        for open in ["'a", "$$ a", "/* a", "\"a"] {
            assert_eq!(words(open).unwrap_err().code(), Some("42601"), "{open}");
        }
    }
}
