//! The text of JSON: whether it is valid, and the form that `jsonb` gives it.

mod key;
mod parts;

use std::fmt::Write;

use diligence_base::{Error, Result};

pub(crate) use self::key::{order_key, write_key};
pub(crate) use self::parts::{JsonKind, JsonPart};
use super::datetime::is_space;
use super::decimals::{self, Zeros};
use crate::sql_type::{NUMERIC_PRECISION, NUMERIC_SCALE};

/// How deep values may be nested: the reader calls itself.
const DEPTH_MAX: u32 = 1_000;

/// A value of JSON.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Boolean(bool),
    /// As `numeric` writes it.
    Number(String),
    Text(String),
    Array(Vec<Json>),
    /// Its keys are sorted by length, then by bytes.
    Object(Vec<(String, Json)>),
}

/// Checks that a text is JSON. Fails with kind `Input` (22P02) if not.
pub(crate) fn check(text: &str) -> Result<()> {
    let mut reader = Reader { text, at: 0, depth: 0, keeps: false };
    reader.document().map(|_| ())
}

/// Reads a text as `jsonb` does: of equal keys the last one counts. Fails with kind `Input` (22P02, 22P05) if it is no
/// JSON.
pub(crate) fn parse(text: &str) -> Result<Json> {
    Reader { text, at: 0, depth: 0, keeps: true }.document()
}

/// Writes the normal form of `jsonb`.
pub(crate) fn write(out: &mut String, json: &Json) {
    match json {
        Json::Null => out.push_str("null"),
        Json::Boolean(value) => out.push_str(if *value { "true" } else { "false" }),
        Json::Number(number) => out.push_str(number),
        Json::Text(text) => write_text(out, text),
        Json::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                write(out, item);
            }
            out.push(']');
        }
        Json::Object(members) => {
            out.push('{');
            for (index, (key, value)) in members.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                write_text(out, key);
                out.push_str(": ");
                write(out, value);
            }
            out.push('}');
        }
    }
}

/// Writes a text between quotes, with JSON's escapes.
pub(crate) fn write_text(out: &mut String, text: &str) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            letter if letter < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
    /// Whether values are wanted, or only whether they are valid.
    keeps: bool,
}

impl Reader<'_> {
    fn document(&mut self) -> Result<Json> {
        let value = self.value()?;
        self.skip_spaces();
        if self.peek().is_some() { Err(self.invalid()) } else { Ok(value) }
    }

    fn invalid(&self) -> Error {
        let hint = match self.text[self.text.floor_char_boundary(self.at)..].chars().next() {
            Some(letter) => format!("Character {} (\"{letter}\") was not expected", self.at + 1),
            None => "The input string ended unexpectedly".to_owned(),
        };
        Error::input("invalid input syntax for type json").with_code("22P02").with_hint(hint)
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_spaces(&mut self) {
        while self.peek().is_some_and(|byte| is_space(byte) && !matches!(byte, 0x0b | 0x0c)) {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8) -> Result<()> {
        self.skip_spaces();
        match self.peek() == Some(byte) {
            true => {
                self.at += 1;
                Ok(())
            }
            false => Err(self.invalid()),
        }
    }

    fn value(&mut self) -> Result<Json> {
        self.skip_spaces();
        match self.peek() {
            Some(b'{' | b'[') => {
                self.depth += 1;
                if self.depth > DEPTH_MAX {
                    return Err(Error::input("stack depth limit exceeded").with_code("54001"));
                }
                let value = if self.peek() == Some(b'{') { self.object()? } else { self.array()? };
                self.depth -= 1;
                Ok(value)
            }
            Some(b'"') => Ok(Json::Text(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => {
                for (word, value) in
                    [("null", Json::Null), ("true", Json::Boolean(true)), ("false", Json::Boolean(false))]
                {
                    let rest = &self.text.as_bytes()[self.at..];
                    let follows = rest.get(word.len()).is_some_and(|byte| byte.is_ascii_alphanumeric());
                    if rest.starts_with(word.as_bytes()) && !follows {
                        self.at += word.len();
                        return Ok(value);
                    }
                }
                Err(self.invalid())
            }
        }
    }

    fn array(&mut self) -> Result<Json> {
        self.at += 1;
        let mut items = vec![];
        self.skip_spaces();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Json::Array(items));
        }
        loop {
            let item = self.value()?;
            if self.keeps {
                items.push(item);
            }
            self.skip_spaces();
            if self.peek() == Some(b',') {
                self.at += 1;
                continue;
            }
            self.expect(b']')?;
            return Ok(Json::Array(items));
        }
    }

    fn object(&mut self) -> Result<Json> {
        self.at += 1;
        let mut members: Vec<(String, Json)> = vec![];
        self.skip_spaces();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Json::Object(members));
        }
        loop {
            self.skip_spaces();
            if self.peek() != Some(b'"') {
                return Err(self.invalid());
            }
            let key = self.string()?;
            self.expect(b':')?;
            let value = self.value()?;
            if self.keeps {
                members.push((key, value));
            }
            self.skip_spaces();
            if self.peek() == Some(b',') {
                self.at += 1;
                continue;
            }
            self.expect(b'}')?;
            return Ok(Json::Object(unique(members)));
        }
    }

    fn number(&mut self) -> Result<Json> {
        let start = self.at;
        let digits = |reader: &mut Self| {
            let start = reader.at;
            while reader.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                reader.at += 1;
            }
            reader.at > start
        };
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let whole = self.at;
        if !digits(self) || (self.at > whole + 1 && self.text.as_bytes()[whole] == b'0') {
            return Err(self.invalid());
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            if !digits(self) {
                return Err(self.invalid());
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if !digits(self) {
                return Err(self.invalid());
            }
        }
        if self.peek().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'.') {
            return Err(self.invalid());
        }
        match self.keeps {
            true => Ok(Json::Number(normal_number(&self.text[start..self.at])?)),
            false => Ok(Json::Null),
        }
    }

    fn string(&mut self) -> Result<String> {
        self.at += 1;
        let mut value = String::new();
        loop {
            let start = self.at;
            while self.peek().is_some_and(|byte| !matches!(byte, b'"' | b'\\' | 0..=31)) {
                self.at += 1;
            }
            if self.keeps {
                value.push_str(&self.text[start..self.at]);
            }
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(value);
                }
                Some(b'\\') => {
                    self.at += 1;
                    value.extend(self.escape()?);
                }
                _ => return Err(self.invalid()),
            }
        }
    }

    /// The character that follows a backslash means.
    fn escape(&mut self) -> Result<Option<char>> {
        let letter = match self.peek() {
            Some(b'n') => '\n',
            Some(b't') => '\t',
            Some(b'r') => '\r',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'u') => {
                self.at += 1;
                return self.unicode();
            }
            _ => return Err(self.invalid()),
        };
        self.at += 1;
        Ok(Some(letter))
    }

    /// `\u` and four digits, or two of them that are one character. `json` only checks that they are digits.
    fn unicode(&mut self) -> Result<Option<char>> {
        let first = self.four_digits()?;
        if !self.keeps {
            return Ok(None);
        }
        let invalid = |reader: &Self| reader.invalid().with_hint("A Unicode surrogate stands without its other half");
        match first {
            0 => Err(Error::input("unsupported Unicode escape sequence")
                .with_code("22P05")
                .with_hint("\\u0000 cannot be converted to text")),
            0xD800..=0xDBFF => {
                if !self.text.as_bytes()[self.at..].starts_with(b"\\u") {
                    return Err(invalid(self));
                }
                self.at += 2;
                match self.four_digits()? {
                    second @ 0xDC00..=0xDFFF => {
                        Ok(char::from_u32(0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00)))
                    }
                    _ => Err(invalid(self)),
                }
            }
            _ => char::from_u32(first).map(Some).ok_or_else(|| invalid(self)),
        }
    }

    fn four_digits(&mut self) -> Result<u32> {
        let mut value = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16)).ok_or_else(|| self.invalid())?;
            value = value * 16 + digit;
            self.at += 1;
        }
        Ok(value)
    }
}

/// Sorts members as `jsonb` does; of equal keys the last one stays.
pub(crate) fn unique(mut members: Vec<(String, Json)>) -> Vec<(String, Json)> {
    let by_key = |left: &(String, Json), right: &(String, Json)| {
        left.0.len().cmp(&right.0.len()).then_with(|| left.0.cmp(&right.0))
    };
    // A stable sort of the reversed members puts the last of equal keys first.
    members.reverse();
    members.sort_by(by_key);
    members.dedup_by(|later, first| later.0 == first.0);
    members
}

/// A number as `numeric` writes it, with the zeros that it was written with.
fn normal_number(text: &str) -> Result<String> {
    let mut out = String::with_capacity(text.len());
    let (precision, scale) = match decimals::numeric_type_of(text) {
        crate::SqlType::Numeric(Some(digits)) => digits,
        _ => (NUMERIC_PRECISION, NUMERIC_SCALE),
    };
    let value = decimals::parse_decimal(text, precision, scale)?;
    decimals::write_wide_decimal(&mut out, value, scale, Zeros::Kept);
    Ok(out)
}
