//! Files of records.
//!
//! ```text
//!   file:    magic (8) | version (4) | number (8) | first record (8) | checksum (4) | records …
//!   record:  length (4) | checksum (4) | place in the order (8) | bytes
//!   mark:    0 (4)      | checksum (4) | place of the next record (8)
//! ```
//! A checksum is CRC-32 of what follows it (of what precedes it, in the file's head). A length of 0 that is no mark is
//! the end of a file whose space was taken in advance.
//!
//! A *mark* stands in a log, and was written when everything before it was synced. Its checksum is of the file's number
//! and its own offset, too, so no other bytes are taken for one. That is how damage is told from a write that a crash
//! has torn: what cannot be read in front of a mark was whole once, and is damaged; behind the last mark nothing may
//! have been acknowledged, and the log ends at the first record that is not whole, whatever lies behind it. (Records
//! behind that one tell nothing: of a group that was never synced any sectors may have arrived.)

use std::io::{self, ErrorKind as IoErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diligence_base::seams::{Disk, DiskFile, OpenMode};
use diligence_base::{Error, Result};

/// Bytes before the first record.
pub const FILE_HEAD_BYTES: u64 = 32;
/// Bytes before a record's own.
const RECORD_HEAD_BYTES: usize = 16;
/// Bytes of a mark.
pub const MARK_BYTES: u64 = 16;
/// Bytes that are searched for a mark at once.
const SEARCH_BYTES: usize = 1 << 20;

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

    /// The version of the format. Earlier ones are read: logs of version 1 have no marks, and before these versions
    /// numbers of rows were not packed.
    fn version(self) -> u32 {
        match self {
            Self::Log => 3,
            Self::Image => 2,
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
    head.extend_from_slice(&purpose.version().to_le_bytes());
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

/// What says at an offset of a log that everything before it is synced, and that the record of this place comes next.
pub fn mark(log: u64, offset: u64, place: u64) -> [u8; MARK_BYTES as usize] {
    let mut checksum = crc32fast::Hasher::new();
    [log, offset, place].iter().for_each(|number| checksum.update(&number.to_le_bytes()));
    let mut mark = [0; MARK_BYTES as usize];
    mark[4..8].copy_from_slice(&checksum.finalize().to_le_bytes());
    mark[8..].copy_from_slice(&place.to_le_bytes());
    mark
}

/// Reads the records of a file, one after another.
pub struct RecordFile {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    /// The file's number, if it has marks.
    marked: Option<u64>,
    offset: u64,
    bytes: u64,
    /// The place of the next record.
    pub next: u64,
}

impl RecordFile {
    /// Opens a file. `None` if its head is not complete: then it has no record, as the head is synced before the first.
    /// Fails with kind `File` if it cannot be read, or is of another version, with code XX001 if it is a log whose head
    /// is damaged.
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
            // It grows for its first record, and its head was synced before.
            return if purpose == Purpose::Log && bytes > FILE_HEAD_BYTES { Err(damaged(path, 0)) } else { Ok(None) };
        }
        if !content.starts_with(purpose.magic()) {
            return Err(Error::file(format!("{}: this is not what its name says", path.display())));
        }
        let number = |range: std::ops::Range<usize>| content[range].try_into().map_or(0, u64::from_le_bytes);
        let version = content[8..12].try_into().map_or(0, u32::from_le_bytes);
        if !(1..=purpose.version()).contains(&version) {
            let error = Error::file(format!("{}: the file is of another version of the format", path.display()));
            return Err(error.with_hint("open the database with the version that wrote it"));
        }
        let marked = (purpose == Purpose::Log && version >= 2).then(|| number(12..20));
        Ok(Some(Self { path: path.to_owned(), file, marked, offset: FILE_HEAD_BYTES, bytes, next: number(20..28) }))
    }

    /// The next record; `None` where there is none that is complete. Fails with kind `File` if the file cannot be read.
    pub fn read(&mut self) -> Result<Option<Vec<u8>>> {
        let mut head = [0; RECORD_HEAD_BYTES];
        while let Some(log) = self.marked.filter(|_| self.offset + MARK_BYTES <= self.bytes) {
            self.fill(&mut head, self.offset)?;
            if head != mark(log, self.offset, self.next) {
                break;
            }
            self.offset += MARK_BYTES;
        }
        let mut found = self.read_at(self.offset)?;
        if found.is_none() && self.marked.is_some() {
            // A mark that cannot be read has nothing that is missed.
            found = self.read_at(self.offset + MARK_BYTES)?;
        }
        let Some((record, end)) = found else { return Ok(None) };
        (self.offset, self.next) = (end, self.next + 1);
        Ok(Some(record))
    }

    /// The next record, if it is at an offset, and where it ends.
    fn read_at(&self, offset: u64) -> Result<Option<(Vec<u8>, u64)>> {
        let mut head = [0; RECORD_HEAD_BYTES];
        let from = offset + head.len() as u64;
        if from > self.bytes {
            return Ok(None);
        }
        self.fill(&mut head, offset)?;
        let number = |range: std::ops::Range<usize>| head[range].try_into().map_or(0, u32::from_le_bytes);
        let (length, checksum) = (number(0..4), number(4..8));
        let place = head[8..].try_into().map_or(0, u64::from_le_bytes);
        let end = from + u64::from(length);
        if length == 0 || place != self.next || end > self.bytes {
            return Ok(None);
        }
        let mut record = vec![0; length as usize];
        self.fill(&mut record, from)?;
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&head[8..]);
        hasher.update(&record);
        Ok((hasher.finalize() == checksum).then_some((record, end)))
    }

    /// Fails with code XX001 if what lies where the records end was whole once: a mark behind it says so. Fails with
    /// kind `File` if the file cannot be read.
    pub fn check_end(&self) -> Result<()> {
        let Some(log) = self.marked else { return Ok(()) };
        // No record is shorter than its head.
        let places = self.next..self.next + (self.bytes - self.offset) / RECORD_HEAD_BYTES as u64 + 1;
        let mut buffer = vec![0; SEARCH_BYTES];
        let mut from = self.offset;
        while from + MARK_BYTES <= self.bytes {
            let part = &mut buffer[..SEARCH_BYTES.min((self.bytes - from) as usize)];
            self.fill(part, from)?;
            for (offset, found) in (from..).zip(part.windows(MARK_BYTES as usize)) {
                let place = found[8..].try_into().map_or(0, u64::from_le_bytes);
                if offset > self.offset
                    && found[..4] == [0; 4]
                    && places.contains(&place)
                    && *found == mark(log, offset, place)
                {
                    return Err(damaged(&self.path, self.offset));
                }
            }
            from += part.len() as u64 + 1 - MARK_BYTES;
        }
        Ok(())
    }

    /// The error for records that were here once, as what follows them says.
    pub fn damaged(&self) -> Error {
        damaged(&self.path, self.offset)
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

    /// Has the disk keep what is in the file. Fails with kind `File`.
    pub fn sync(&self) -> Result<()> {
        self.file.sync().map_err(|error| failed(&self.path, &error))
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

/// The folder that a path is in.
pub fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The error for a file of which a part cannot be read that was there once.
pub fn damaged(path: &Path, offset: u64) -> Error {
    let what = "what was written here cannot be read any more, and others follow it";
    let what = if offset == 0 { "its beginning cannot be read any more" } else { what };
    let error = Error::file(format!("{}, byte {offset}: {what}", path.display())).with_code("XX001");
    let hint =
        "restore the folder from a backup, or save what can be saved with 'diligence repair'; nothing was changed";
    error.with_hint(hint)
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
