//! The pages of a database: of a write-ahead log, as far as its transactions have ended, before those of the file.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use diligence_base::seams::{Disk, FileKind};
use diligence_base::{Error, Result};

use super::values::Encoding;
use crate::external::source::{Source, describe_io};

/// What a database begins with.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Bytes of the header of the file.
const HEADER_BYTES: u64 = 100;

/// Bytes of the headers of the log and of each of its pages.
const LOG_HEADER_BYTES: u64 = 32;
const FRAME_HEADER_BYTES: u64 = 24;

/// The pages of a database.
pub(super) struct Pages {
    source: Arc<Source>,
    /// The log, and where pages are in it.
    log: Option<(Arc<Source>, HashMap<u32, u64>)>,
    pub page_bytes: usize,
    /// Bytes at the end of each page that others use.
    reserved: usize,
    /// How many pages the database has.
    count: u32,
    pub encoding: Encoding,
    watched: Vec<PathBuf>,
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).fold(0, |number, byte| number << 8 | u32::from(*byte))
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

impl Pages {
    /// Opens a database. Fails with kind `File` if it is none, or a transaction has to be rolled back in it first.
    pub fn open(path: &Path, disk: &Arc<dyn Disk>) -> Result<Self> {
        let failed = |error| Error::file(format!("{}: {}", path.display(), describe_io(&error)));
        let meta = disk.meta(path).map_err(failed)?;
        if meta.kind != FileKind::File {
            return Err(Error::file(format!("{}: this is no file of SQLite", path.display())));
        }
        let source = Arc::new(Source::local(meta, disk.clone()));
        if source.bytes < HEADER_BYTES {
            return Err(source.error("this is no database of SQLite: it is too short"));
        }
        let header = source.read_one_now(0..HEADER_BYTES)?;
        if &header[..16] != MAGIC {
            return Err(source.error("this is no database of SQLite: it does not begin like one"));
        }
        let page_bytes = match u16::from_be_bytes([header[16], header[17]]) {
            1 => 65_536,
            bytes => usize::from(bytes),
        };
        let reserved = usize::from(header[20]);
        if !page_bytes.is_power_of_two() || page_bytes < 512 || reserved + 480 > page_bytes {
            return Err(source.error("the length of its pages makes no sense; the database is damaged"));
        }
        let journal = beside(path, "-journal");
        if disk.meta(&journal).is_ok_and(|meta| meta.bytes > 0) {
            return Err(source
                .error("a transaction has not ended in it, or has to be rolled back")
                .with_hint("sqlite3 does that when it opens the database"));
        }
        let log_path = beside(path, "-wal");
        let mut log = None;
        let mut count = u32::try_from(source.bytes / page_bytes as u64).unwrap_or(u32::MAX);
        if let Ok(meta) = disk.meta(&log_path)
            && meta.bytes > LOG_HEADER_BYTES
        {
            let log_source = Arc::new(Source::local(meta, disk.clone()));
            let (places, pages) = committed(&log_source, page_bytes)?;
            count = pages.unwrap_or(count);
            log = Some((log_source, places));
        }
        let mut pages = Self {
            source,
            log,
            page_bytes,
            reserved,
            count,
            encoding: Encoding::Utf8,
            watched: vec![path.to_owned(), log_path, journal],
        };
        let first = pages.page(1)?;
        pages.encoding = match number(&first[56..60]) {
            0 | 1 => Encoding::Utf8,
            2 => Encoding::Utf16,
            3 => Encoding::Utf16BigEndian,
            _ => return Err(pages.error("its texts have an encoding that is not known")),
        };
        Ok(pages)
    }

    pub fn name(&self) -> &str {
        &self.source.name
    }

    pub fn error(&self, what: impl std::fmt::Display) -> Error {
        self.source.error(what)
    }

    pub fn sources(&self) -> Vec<Arc<Source>> {
        let log = self.log.iter().map(|(log, _)| log.clone());
        std::iter::once(self.source.clone()).chain(log).collect()
    }

    pub fn watched(&self) -> Vec<PathBuf> {
        self.watched.clone()
    }

    /// Bytes of the database: no record has more.
    pub fn bytes(&self) -> u64 {
        u64::from(self.count) * self.page_bytes as u64
    }

    /// Bytes of a page that trees use.
    pub fn usable(&self) -> usize {
        self.page_bytes - self.reserved
    }

    /// A page by its number, which begins with 1.
    pub fn page(&self, page: u32) -> Result<Bytes> {
        let mut pages = self.pages(&[page])?;
        pages.pop().map(|(_, bytes)| bytes).ok_or_else(|| Error::bug("a page was asked for and none came"))
    }

    /// Pages by their numbers, in this order.
    pub fn pages(&self, pages: &[u32]) -> Result<Vec<(u32, Bytes)>> {
        if let Some(page) = pages.iter().find(|page| **page == 0 || **page > self.count) {
            return Err(self.error(format!("page {page} is wanted of {}; the database is damaged", self.count)));
        }
        let length = self.page_bytes as u64;
        let in_log = |page: &u32| self.log.as_ref().and_then(|(_, places)| places.get(page).copied());
        let range = |start: u64| start..start + length;
        let of_file = pages.iter().filter(|page| in_log(page).is_none());
        let of_file = of_file.map(|page| range(u64::from(page - 1) * length)).collect::<Vec<_>>();
        let mut of_file = self.source.read_now(of_file)?.into_iter();
        let mut of_log = match &self.log {
            Some((log, _)) => log.read_now(pages.iter().filter_map(in_log).map(range).collect())?,
            None => Vec::new(),
        }
        .into_iter();
        let missing = || Error::bug("fewer pages came than were read");
        let found = pages.iter().map(|page| {
            let bytes = if in_log(page).is_some() { of_log.next() } else { of_file.next() };
            Ok((*page, bytes.ok_or_else(missing)?))
        });
        found.collect()
    }
}

/// Where the pages of ended transactions are in a log, and how many pages the database has by it.
fn committed(log: &Arc<Source>, page_bytes: usize) -> Result<(HashMap<u32, u64>, Option<u32>)> {
    let header = log.read_one_now(0..LOG_HEADER_BYTES)?;
    let is_big_endian = match number(&header[0..4]) {
        0x377f_0682 => false,
        0x377f_0683 => true,
        _ => return Ok((HashMap::new(), None)),
    };
    let mut sums = summed((0, 0), &header[..24], is_big_endian);
    if number(&header[8..12]) as usize != page_bytes || sums != (number(&header[24..28]), number(&header[28..32])) {
        return Ok((HashMap::new(), None));
    }
    let salt = &header[16..24];
    let (mut ended, mut pending, mut count) = (HashMap::new(), HashMap::new(), None);
    let mut at = LOG_HEADER_BYTES;
    let frame_bytes = FRAME_HEADER_BYTES + page_bytes as u64;
    while at + frame_bytes <= log.bytes {
        let frame = log.read_one_now(at..at + frame_bytes)?;
        let (head, page) = frame.split_at(FRAME_HEADER_BYTES as usize);
        sums = summed(summed(sums, &head[..8], is_big_endian), page, is_big_endian);
        // What follows is of a log before this one.
        if &head[8..16] != salt || sums != (number(&head[16..20]), number(&head[20..24])) {
            break;
        }
        pending.insert(number(&head[..4]), at + FRAME_HEADER_BYTES);
        let pages = number(&head[4..8]);
        if pages > 0 {
            ended.extend(pending.drain());
            count = Some(pages);
        }
        at += frame_bytes;
    }
    Ok((ended, count))
}

/// The checksums of a log, with these bytes as well.
fn summed(before: (u32, u32), bytes: &[u8], is_big_endian: bool) -> (u32, u32) {
    let (mut first, mut second) = before;
    for pair in bytes.chunks_exact(8) {
        let word = |bytes: &[u8]| {
            let word = number(bytes);
            if is_big_endian { word } else { word.swap_bytes() }
        };
        first = first.wrapping_add(word(&pair[..4])).wrapping_add(second);
        second = second.wrapping_add(word(&pair[4..])).wrapping_add(first);
    }
    (first, second)
}
