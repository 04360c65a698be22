//! Bytes of values in binary form, taken from the front.

use diligence_base::{Error, Result};

/// Bytes that are taken from the front.
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

impl<'a> Cursor<'a> {
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(|| malformed("it is too short"))?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn i16(&mut self) -> Result<i16> {
        Ok(i16::from_be_bytes(self.take(2)?.try_into().map_err(|_| malformed("a number"))?))
    }

    pub(super) fn i32(&mut self) -> Result<i32> {
        Ok(i32::from_be_bytes(self.take(4)?.try_into().map_err(|_| malformed("a number"))?))
    }

    pub(super) fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_be_bytes(self.take(8)?.try_into().map_err(|_| malformed("a number"))?))
    }

    pub(super) fn end(&self) -> Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(malformed("it is too long")) }
    }
}

/// What does not read as a value's binary form: code 22P03.
pub(super) fn malformed(what: &str) -> Error {
    Error::input(format!("a parameter in binary form is malformed: {what}")).with_code("22P03")
}

/// Bytes as a text. Fails with code 22021 if they are none, or have a zero byte.
pub(super) fn text(bytes: &[u8]) -> Result<&str> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| Error::input("a parameter's text is not valid UTF-8").with_code("22021"))?;
    without_zero(text)
}

/// A text as it is. Fails with code 22021 if it has a zero byte, which no text of SQL has.
pub fn without_zero(text: &str) -> Result<&str> {
    match text.contains('\0') {
        true => Err(Error::input("a parameter's text contains a zero byte").with_code("22021")),
        false => Ok(text),
    }
}
