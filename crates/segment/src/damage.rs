//! What is wrong with bytes that do not say what a chunk says; and reading them front to back.

use std::fmt;

use bytes::Bytes;

/// Bytes that no encoder here has written: why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged(pub String);

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Damaged {}

/// The result of reading bytes.
pub type Result<T, E = Damaged> = std::result::Result<T, E>;

/// The error for a reason.
pub(crate) fn damaged<T>(why: impl Into<String>) -> Result<T> {
    Err(Damaged(why.into()))
}

/// Bytes, front to back.
#[derive(Clone)]
pub(crate) struct Reader {
    bytes: Bytes,
    at: usize,
}

impl Reader {
    pub fn new(bytes: Bytes) -> Self {
        Self { bytes, at: 0 }
    }

    /// The next so many bytes.
    pub fn take(&mut self, count: usize) -> Result<Bytes> {
        if count > self.bytes.len() - self.at {
            return damaged("it ends too early");
        }
        self.at += count;
        Ok(self.bytes.slice(self.at - count..self.at))
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        match self.bytes[self.at..].first_chunk() {
            Some(found) => {
                self.at += N;
                Ok(*found)
            }
            None => damaged("it ends too early"),
        }
    }

    pub fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A part whose length in bytes stands before it, as 64 bits.
    pub fn part(&mut self) -> Result<Reader> {
        let length = usize::try_from(self.u64()?).map_err(|_| Damaged("it ends too early".to_owned()))?;
        Ok(Reader::new(self.take(length)?))
    }

    /// All that is left.
    pub fn rest(self) -> Bytes {
        self.bytes.slice(self.at..)
    }

    /// Fails if something is left.
    pub fn end(&self) -> Result<()> {
        if self.at == self.bytes.len() { Ok(()) } else { damaged("something is behind its end") }
    }
}

/// Appends a part, as [`Reader::part`] reads it.
pub(crate) fn put_part(out: &mut Vec<u8>, part: &[u8]) {
    out.extend_from_slice(&(part.len() as u64).to_le_bytes());
    out.extend_from_slice(part);
}
