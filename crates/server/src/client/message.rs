//! Messages of PostgreSQL's protocol, as the client reads them.

use diligence_base::{Error, ErrorKind, Result, Span};

use super::malformed;
use crate::sqlstate;

/// Reads a message's body from front to back.
pub(super) struct Body<'a>(pub(super) &'a [u8]);

impl<'a> Body<'a> {
    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or_else(malformed)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(super) fn u8(&mut self) -> Result<u8> {
        Ok(self.bytes(1)?[0])
    }

    pub(super) fn u16(&mut self) -> Result<u16> {
        let bytes = self.bytes(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        let bytes = self.bytes(4)?;
        Ok(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// A number of things that follow.
    pub(super) fn count(&mut self) -> Result<usize> {
        self.u16().map(usize::from)
    }

    /// A text that ends with a zero.
    pub(super) fn text(&mut self) -> Result<&'a str> {
        let length = self.0.iter().position(|byte| *byte == 0).ok_or_else(malformed)?;
        let text = std::str::from_utf8(self.bytes(length)?).map_err(|_| malformed())?;
        self.u8()?;
        Ok(text)
    }
}

/// A message: its kind, its length, its body.
pub(super) fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend(((body.len() + 4) as u32).to_be_bytes());
    bytes.extend(body);
    bytes
}

/// `ErrorResponse` or `NoticeResponse`: the error, with its place in the statement.
pub(super) fn error(mut body: Body<'_>, statement: &str) -> Result<Error> {
    let (mut code, mut text, mut hint, mut place) = (String::new(), String::new(), None, None);
    loop {
        match body.u8()? {
            0 => break,
            b'C' => code = body.text()?.to_owned(),
            b'M' => text = body.text()?.to_owned(),
            b'H' => hint = Some(body.text()?.to_owned()),
            b'P' => place = body.text()?.parse().ok(),
            _ => {
                body.text()?;
            }
        }
    }
    let kind = match code.as_str() {
        sqlstate::CANCELLED => ErrorKind::Cancelled,
        sqlstate::TOO_MANY | sqlstate::SHUTDOWN => ErrorKind::Retry,
        sqlstate::UNSUPPORTED => ErrorKind::Unsupported,
        code if code.starts_with("22") => ErrorKind::Value,
        code if code.starts_with("53") || code.starts_with("54") => ErrorKind::Resource,
        code if code.starts_with("XX") => ErrorKind::Bug,
        _ => ErrorKind::Input,
    };
    let mut error = Error::new(kind, text);
    if let Some(hint) = hint {
        error = error.with_hint(hint);
    }
    if let Some(place) = place {
        error = error.with_span(span(statement, place));
    }
    Ok(error)
}

/// The line and column of the character with this number, from 1.
fn span(statement: &str, place: usize) -> Span {
    let before = statement.chars().take(place.saturating_sub(1));
    let (line, column) = before.fold((1, 1), |(line, column), character| match character {
        '\n' => (line + 1, 1),
        _ => (line, column + 1),
    });
    Span { line, column }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_its_place() {
        let body = b"SERROR\0VERROR\0C42703\0Mno column is named 'x'\0Hdid you mean 'y'?\0P15\0\0";
        let error = error(Body(body), "SELECT 'é',\n  x").unwrap();
        assert_eq!(error.span(), Some(Span { line: 2, column: 3 }));
        assert_eq!((error.message(), error.hint()), ("no column is named 'x'", Some("did you mean 'y'?")));
        let cancelled = super::error(Body(b"C57014\0Mcancelled\0\0"), "").unwrap();
        assert_eq!(cancelled.kind(), ErrorKind::Cancelled);
    }

    #[test]
    fn what_is_cut_off_is_an_error() {
        for body in [&b"C42703"[..], b"C42703\0", b"\xff\0"] {
            assert!(error(Body(body), "").is_err(), "{body:?}");
        }
        assert!(Body(&[0, 0]).u32().is_err());
    }
}
