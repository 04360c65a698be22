//! Cuts a date, a time or an interval into fields, before anybody knows which it is (PostgreSQL's `ParseDateTime`).

use super::words;

/// What a field looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldKind {
    /// Digits, perhaps with a point.
    Number,
    /// Letters.
    Word,
    /// Several parts with `-`, `/` or `.` between them: a date, or the name of a zone.
    Date,
    /// Several parts with `:` between them.
    Time,
    /// A sign and a number: a zone's offset, or a number of an interval.
    Signed,
    /// A sign and letters.
    Special,
}

/// A piece of the text, in lower case.
#[derive(Clone, Debug)]
pub(crate) struct TextField {
    pub(crate) kind: FieldKind,
    pub(crate) text: String,
}

/// More fields than any date or interval has.
const FIELDS_MAX: usize = 25;

/// The fields of a text. `None` if it cannot be any date, time or interval.
pub(crate) fn split(text: &str) -> Option<Vec<TextField>> {
    let mut cutter = Cutter { rest: text.as_bytes(), field: String::new() };
    let mut fields = Vec::with_capacity(4);
    while let Some(first) = cutter.peek() {
        let kind = match first {
            _ if is_space(first) => {
                cutter.skip();
                continue;
            }
            b'0'..=b'9' => cutter.number(),
            b'.' => {
                cutter.take();
                cutter.take_while(|byte| byte.is_ascii_digit());
                FieldKind::Number
            }
            _ if first.is_ascii_alphabetic() => cutter.word(),
            b'+' | b'-' => cutter.signed()?,
            _ if first.is_ascii_punctuation() => {
                cutter.skip();
                continue;
            }
            _ => return None,
        };
        if fields.len() == FIELDS_MAX {
            return None;
        }
        fields.push(TextField { kind, text: std::mem::take(&mut cutter.field) });
    }
    Some(fields)
}

/// Space as C's `isspace` knows it.
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

struct Cutter<'a> {
    rest: &'a [u8],
    field: String,
}

impl Cutter<'_> {
    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    fn skip(&mut self) {
        self.rest = &self.rest[1..];
    }

    fn take(&mut self) {
        if let Some(byte) = self.peek() {
            self.field.push(char::from(byte.to_ascii_lowercase()));
            self.skip();
        }
    }

    fn take_while(&mut self, mut wanted: impl FnMut(u8) -> bool) {
        while self.peek().is_some_and(&mut wanted) {
            self.take();
        }
    }

    /// A field that begins with a digit.
    fn number(&mut self) -> FieldKind {
        self.take_while(|byte| byte.is_ascii_digit());
        match self.peek() {
            Some(b':') => {
                self.take_while(|byte| byte.is_ascii_digit() || matches!(byte, b':' | b'.'));
                FieldKind::Time
            }
            Some(delimiter @ (b'-' | b'/' | b'.')) => {
                self.take();
                if !self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                    self.take_while(|byte| byte.is_ascii_alphanumeric() || byte == delimiter);
                    return FieldKind::Date;
                }
                self.take_while(|byte| byte.is_ascii_digit());
                if self.peek() == Some(delimiter) {
                    self.take_while(|byte| byte.is_ascii_digit() || byte == delimiter);
                    return FieldKind::Date;
                }
                if delimiter == b'.' { FieldKind::Number } else { FieldKind::Date }
            }
            _ => FieldKind::Number,
        }
    }

    /// A field that begins with a letter.
    fn word(&mut self) -> FieldKind {
        self.take_while(|byte| byte.is_ascii_alphabetic());
        let is_date = match self.peek() {
            Some(b'-' | b'/' | b'.') => true,
            Some(byte) if byte == b'+' || byte.is_ascii_digit() => words::of_date(&self.field).is_none(),
            _ => false,
        };
        if !is_date {
            return FieldKind::Word;
        }
        self.take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'/' | b'_' | b'.' | b':'));
        FieldKind::Date
    }

    /// A field that begins with a sign.
    fn signed(&mut self) -> Option<FieldKind> {
        self.take();
        while self.peek().is_some_and(is_space) {
            self.skip();
        }
        match self.peek()? {
            b'0'..=b'9' => {
                self.take_while(|byte| byte.is_ascii_digit() || matches!(byte, b':' | b'.' | b'-'));
                Some(FieldKind::Signed)
            }
            byte if byte.is_ascii_alphabetic() => {
                self.take_while(|byte| byte.is_ascii_alphabetic());
                Some(FieldKind::Special)
            }
            _ => None,
        }
    }
}
