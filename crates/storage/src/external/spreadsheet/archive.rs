//! The files within a zip archive, which is what a spreadsheet is.

use std::collections::HashMap;
use std::io::Read;

use diligence_base::{Error, Result};
use flate2::read::DeflateDecoder;

/// Bytes of one file of an archive at most: it is in memory as a whole.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// What begins the list of an archive's files, each entry of it, and each file.
const END: &[u8] = b"PK\x05\x06";
const ENTRY: &[u8] = b"PK\x01\x02";
const FILE: &[u8] = b"PK\x03\x04";

/// Bytes of the end of an archive with its longest comment.
const END_BYTES_MAX: usize = 22 + 65_535;

/// An archive in memory.
pub(super) struct Archive {
    bytes: Vec<u8>,
    entries: HashMap<String, ArchiveEntry>,
}

/// Where a file of an archive is, and how it is packed.
struct ArchiveEntry {
    is_deflated: bool,
    is_encrypted: bool,
    checksum: u32,
    packed_bytes: usize,
    bytes: u64,
    start: usize,
}

impl Archive {
    /// Reads the list of files. Fails with kind `Input` if there is none, or if it is damaged.
    pub fn open(bytes: Vec<u8>) -> Result<Self> {
        let tail = bytes.len().saturating_sub(END_BYTES_MAX);
        let end = memchr::memmem::rfind(&bytes[tail..], END).map(|at| tail + at).ok_or_else(no_spreadsheet)?;
        let count = short(&bytes, end + 10)?;
        let mut at = number(&bytes, end + 16)? as usize;
        let mut entries = HashMap::new();
        for _ in 0..count {
            if bytes.get(at..at + 4) != Some(ENTRY) {
                return Err(damaged());
            }
            let (flags, method) = (short(&bytes, at + 8)?, short(&bytes, at + 10)?);
            let lengths = [at + 28, at + 30, at + 32].map(|place| short(&bytes, place));
            let [name, extra, comment] = lengths;
            let name_bytes = name? as usize;
            let name = bytes.get(at + 46..at + 46 + name_bytes).ok_or_else(damaged)?;
            if !matches!(method, 0 | 8) {
                return Err(Error::unsupported(format!("a file in it is packed by method {method}")).with_code("0A000"));
            }
            let entry = ArchiveEntry {
                is_deflated: method == 8,
                is_encrypted: flags & 1 == 1,
                checksum: number(&bytes, at + 16)?,
                packed_bytes: number(&bytes, at + 20)? as usize,
                bytes: u64::from(number(&bytes, at + 24)?),
                start: number(&bytes, at + 42)? as usize,
            };
            // Some writers have names with backslashes.
            entries.insert(String::from_utf8_lossy(name).replace('\\', "/").to_ascii_lowercase(), entry);
            at += 46 + name_bytes + extra? as usize + comment? as usize;
        }
        Ok(Self { bytes, entries })
    }

    /// A file of the archive as text; `None` if it is not there. Names are compared without case, as spreadsheets do.
    /// Fails with kind `Input` if it is damaged or no text, `Resource` if it is too large.
    pub fn text(&self, name: &str) -> Result<Option<String>> {
        let name = name.trim_start_matches('/').to_ascii_lowercase();
        let Some(entry) = self.entries.get(&name) else { return Ok(None) };
        if entry.is_encrypted {
            return Err(Error::unsupported("it is protected by a password").with_code("0A000"));
        }
        if entry.bytes > FILE_BYTES_MAX || entry.packed_bytes >= u32::MAX as usize {
            return Err(Error::resource(format!("the sheet has more than {FILE_BYTES_MAX} bytes")).with_code("54000"));
        }
        if self.bytes.get(entry.start..entry.start + 4) != Some(FILE) {
            return Err(damaged());
        }
        let (name_bytes, extra) = (short(&self.bytes, entry.start + 26)?, short(&self.bytes, entry.start + 28)?);
        let start = entry.start + 30 + name_bytes as usize + extra as usize;
        let packed = self.bytes.get(start..start + entry.packed_bytes).ok_or_else(damaged)?;
        let mut content = Vec::new();
        let read = match entry.is_deflated {
            true => DeflateDecoder::new(packed).take(entry.bytes + 1).read_to_end(&mut content),
            false => packed.take(entry.bytes + 1).read_to_end(&mut content),
        };
        let is_whole = read.is_ok() && content.len() as u64 == entry.bytes;
        if !is_whole || crc32fast::hash(&content) != entry.checksum {
            return Err(damaged());
        }
        String::from_utf8(content).map(Some).map_err(|_| damaged())
    }
}

fn short(bytes: &[u8], at: usize) -> Result<u16> {
    let found = bytes.get(at..at + 2).and_then(|two| two.try_into().ok());
    found.map(u16::from_le_bytes).ok_or_else(damaged)
}

fn number(bytes: &[u8], at: usize) -> Result<u32> {
    let found = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
    found.map(u32::from_le_bytes).ok_or_else(damaged)
}

/// The error for what is no archive.
fn no_spreadsheet() -> Error {
    Error::input("this is no spreadsheet in the format of Excel 2007 and later").with_code("22000").with_hint(
        "files of older versions, and those that a password protects, are saved as .xlsx without a password first",
    )
}

/// The error for bytes that contradict the format.
pub(super) fn damaged() -> Error {
    Error::input("the spreadsheet is damaged").with_code("22000")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_archives_are_errors() {
        assert!(Archive::open(b"a,b\n1,2\n".to_vec()).is_err());
        assert!(Archive::open(vec![]).is_err());
        let mut end = END.to_vec();
        end.extend([0; 6]);
        // One file, where there is none.
        end.extend([1, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0]);
        assert!(Archive::open(end).is_err());
    }
}
