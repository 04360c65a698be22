//! Files of records.
//!
//! ```text
//!   file:    magic (8) | version (4) | number (8) | first record (8) | checksum (4) | records …
//!   record:  length (4) | checksum (4) | place in the order (8) | bytes
//! ```
//! A checksum is CRC-32 of what follows it (of what precedes it, in the file's head). A length of 0 is the end of a
//! file whose space was taken in advance.

use std::io::{self, ErrorKind as IoErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diligence_base::seams::{Disk, DiskFile, OpenMode};
use diligence_base::{Error, Result};

/// Bytes before the first record.
pub const FILE_HEAD_BYTES: u64 = 32;
/// Bytes before a record's own.
const RECORD_HEAD_BYTES: usize = 16;
/// The version of the format.
const FORMAT_VERSION: u32 = 1;

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Changes, as they come.
    Log,
    /// Everything at one moment.
    Image,
}

impl Purpose {
    fn magic(self) -> &'static [u8; 8] {
        match self {
            Self::Log => b"DLGLOG\r\n",
            Self::Image => b"DLGIMG\r\n",
        }
    }

    fn stem(self) -> &'static str {
        match self {
            Self::Log => "log-",
            Self::Image => "image-",
        }
    }

    /// The file's path.
    pub fn path(self, folder: &Path, number: u64) -> PathBuf {
        folder.join(format!("{}{number:06}", self.stem()))
    }

    /// The numbers of such files in a folder, in order.
    pub fn numbers(self, disk: &dyn Disk, folder: &Path) -> Result<Vec<u64>> {
        let entries = disk.list(folder).map_err(|error| failed(folder, &error))?;
        let number = |path: &PathBuf| path.file_name()?.to_str()?.strip_prefix(self.stem())?.parse().ok();
        let mut numbers = entries.iter().filter_map(number).collect::<Vec<u64>>();
        numbers.sort_unstable();
        Ok(numbers)
    }
}

/// Makes a file with its head, which is not synced. `first` is the place of its first record in the order.
pub fn create(
    disk: &dyn Disk,
    path: &Path,
    purpose: Purpose,
    number: u64,
    first: u64,
) -> io::Result<Arc<dyn DiskFile>> {
    let file = disk.open(path, OpenMode::CREATE_NEW)?;
    let mut head = Vec::with_capacity(FILE_HEAD_BYTES as usize);
    head.extend_from_slice(purpose.magic());
    head.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    head.extend_from_slice(&number.to_le_bytes());
    head.extend_from_slice(&first.to_le_bytes());
    head.extend_from_slice(&crc32fast::hash(&head).to_le_bytes());
    file.write_all_at(&head, 0)?;
    Ok(file)
}

/// Puts a record behind others that are on their way to a file.
pub fn frame(frames: &mut Vec<u8>, place: u64, record: &[u8]) -> Result<()> {
    let length = u32::try_from(record.len()).map_err(|_| {
        let error = Error::unsupported("more than 4 GiB of rows that came at once cannot be written down");
        error.with_code("54000").with_hint("write them with several statements")
    })?;
    let place = place.to_le_bytes();
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&place);
    checksum.update(record);
    frames.extend_from_slice(&length.to_le_bytes());
    frames.extend_from_slice(&checksum.finalize().to_le_bytes());
    frames.extend_from_slice(&place);
    frames.extend_from_slice(record);
    Ok(())
}

/// Reads the records of a file, one after another.
pub struct RecordFile {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    offset: u64,
    bytes: u64,
    /// The place of the next record.
    pub next: u64,
}

impl RecordFile {
    /// Opens a file. `None` if its head is not complete: then it has no record, as the head is synced before the first.
    /// Fails with kind `File` if it cannot be read, or is of another version.
    pub fn open(disk: &dyn Disk, path: &Path, purpose: Purpose) -> Result<Option<Self>> {
        let file = disk.open(path, OpenMode::READ).map_err(|error| failed(path, &error))?;
        let bytes = file.bytes().map_err(|error| failed(path, &error))?;
        let mut head = [0; FILE_HEAD_BYTES as usize];
        match file.read_exact_at(&mut head, 0) {
            Err(error) if error.kind() == IoErrorKind::UnexpectedEof => return Ok(None),
            read => read.map_err(|error| failed(path, &error))?,
        }
        let (content, checksum) = head.split_at(head.len() - 4);
        if checksum != crc32fast::hash(content).to_le_bytes() {
            return Ok(None);
        }
        if !content.starts_with(purpose.magic()) {
            return Err(Error::file(format!("{}: this is not what its name says", path.display())));
        }
        if content[8..12] != FORMAT_VERSION.to_le_bytes() {
            let error = Error::file(format!("{}: the file is of another version of the format", path.display()));
            return Err(error.with_hint("open the database with the version that wrote it"));
        }
        let next = content[20..28].try_into().map_or(0, u64::from_le_bytes);
        Ok(Some(Self { path: path.to_owned(), file, offset: FILE_HEAD_BYTES, bytes, next }))
    }

    /// The next record; `None` where there is none that is complete. Fails with kind `File` if the file cannot be read.
    pub fn read(&mut self) -> Result<Option<Vec<u8>>> {
        let mut head = [0; RECORD_HEAD_BYTES];
        if self.offset + head.len() as u64 > self.bytes {
            return Ok(None);
        }
        self.fill(&mut head, self.offset)?;
        let number = |range: std::ops::Range<usize>| head[range].try_into().map_or(0, u32::from_le_bytes);
        let (length, checksum) = (number(0..4), number(4..8));
        let from = self.offset + head.len() as u64;
        let place = head[8..].try_into().map_or(0, u64::from_le_bytes);
        if length == 0 || place != self.next || from + u64::from(length) > self.bytes {
            return Ok(None);
        }
        let mut record = vec![0; length as usize];
        self.fill(&mut record, from)?;
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&head[8..]);
        hasher.update(&record);
        if hasher.finalize() != checksum {
            return Ok(None);
        }
        self.offset = from + u64::from(length);
        self.next += 1;
        Ok(Some(record))
    }

    /// Passes a record that cannot be read, if the one behind it can. Fails with kind `File` if the file cannot be
    /// read.
    pub fn skip(&mut self) -> Result<bool> {
        let mut head = [0; RECORD_HEAD_BYTES];
        let before = (self.offset, self.next);
        if self.offset + head.len() as u64 > self.bytes {
            return Ok(false);
        }
        self.fill(&mut head, self.offset)?;
        let length = head[..4].try_into().map_or(0, u32::from_le_bytes);
        (self.offset, self.next) = (self.offset + head.len() as u64 + u64::from(length), self.next + 1);
        let behind = (self.offset, self.next);
        let is_there = length > 0 && self.read()?.is_some();
        (self.offset, self.next) = if is_there { behind } else { before };
        Ok(is_there)
    }

    /// The file, in messages.
    pub fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Where the records end that were read.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    fn fill(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_exact_at(buffer, offset).map_err(|error| failed(&self.path, &error))
    }
}

/// The error for a file that cannot be read or written; of a full disk, one that says what to do.
pub fn failed(path: &Path, error: &io::Error) -> Error {
    let said = Error::file(format!("{}: {error}", path.display()));
    match error.kind() {
        IoErrorKind::StorageFull | IoErrorKind::QuotaExceeded | IoErrorKind::FileTooLarge => {
            said.with_code("53100").with_hint("make room on the disk; nothing of this statement was kept")
        }
        _ => said.with_code("58030"),
    }
}
