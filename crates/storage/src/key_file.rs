//! Key files: blocks of an index's keys that lie on disk.
//!
//! A key file is one immutable file beside the segments of a database. What is in a block is the affair of whoever
//! writes it; here blocks are bytes, some kilobytes each. They are put together in pages, which are read through the
//! [buffer](BufferPool) of clusters, each under a checksum.
//!
//! ```text
//!   "DLGKEY\r\n" ─ version (4 bytes) ─ 52 zeros │ page │ page │ … │ end
//!
//!   end: pages (4) ─ blocks (4)
//!        for each page:  bytes (4) ─ CRC-32 (4) ─ blocks (4)
//!        for each block: where it ends in its page (4)
//!        what the writer says of the whole: to the end of the file
//! ```
//!
//! Numbers are little-endian. The checksum of the end, its [`Seal`], belongs to whoever keeps the file's place.
//!
//! Invariant: a file that has a key file's name is whole, and never changes.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use diligence_base::seams::{Disk, DiskFile, OpenMode};
use diligence_base::{Error, Result};
use diligence_disk::{Failure, FileInBuffer, Wanted};

use crate::external::{Seal, Source, unwritable_file};
use crate::{BufferPool, Hint};

/// The ending of the names of key files, without the dot.
pub const KEY_FILE_ENDING: &str = "keys";

const MAGIC: &[u8; 8] = b"DLGKEY\r\n";
/// The version of what is written.
const VERSION: u32 = 2;
/// The versions that are read. Since 2, more may follow what a writer said of the whole in 1.
const VERSIONS_READ: [u32; 2] = [1, VERSION];
/// Bytes before the first page.
const HEAD_BYTES: u64 = 64;
/// A page is full when it has so many bytes: what one lookup reads.
const PAGE_BYTES: usize = 16 << 10;
/// Bytes that are written at once.
const WRITE_BYTES: usize = 1 << 20;

/// A key file, opened. Used from any thread.
pub struct KeyFile {
    source: Arc<Source>,
    number: u64,
    seal: Seal,
    pages: Vec<Page>,
    /// By block: where it ends in its page.
    ends: Vec<u32>,
    buffer: OnceLock<Arc<FileInBuffer>>,
}

#[derive(Clone, Copy, Debug)]
struct Page {
    offset: u64,
    bytes: u32,
    checksum: u32,
    /// Its first block.
    first: u32,
}

impl Page {
    fn wanted(&self) -> Wanted {
        Wanted { offset: self.offset, bytes: self.bytes as usize, checksum: self.checksum }
    }
}

impl fmt::Debug for KeyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyFile({})", self.number)
    }
}

impl KeyFile {
    /// Opens a file; gives what its writer has said of the whole as well. Blocks the calling thread. Fails with kind
    /// `File` if it cannot be read, with code XX001 if it is not what was written.
    pub fn open(disk: &Arc<dyn Disk>, path: &Path, number: u64, seal: Seal) -> Result<(Arc<Self>, Bytes)> {
        let meta = disk.meta(path).map_err(|error| Error::file(format!("{}: {error}", path.display())))?;
        let source = Arc::new(Source::local(meta, disk.clone()));
        if seal.start < HEAD_BYTES || seal.start > source.bytes {
            return Err(corrupt(&source, "it does not end where it should"));
        }
        let mut read = source.read_now(vec![0..HEAD_BYTES, seal.start..source.bytes])?.into_iter();
        let (Some(head), Some(end)) = (read.next(), read.next()) else {
            return Err(Error::bug("a read brought fewer parts than it had ranges"));
        };
        if !VERSIONS_READ.iter().any(|version| head[..] == self::head(*version)[..]) {
            return Err(corrupt(&source, "it does not begin as a key file of a version that is known"));
        }
        if crc32fast::hash(&end) != seal.checksum {
            return Err(corrupt(&source, "the checksum of its end is wrong"));
        }
        let (pages, ends, said) =
            read_end(&end, seal.start).ok_or_else(|| corrupt(&source, "its end is not what it should be"))?;
        let said = Bytes::copy_from_slice(said);
        let buffer = OnceLock::new();
        Ok((Arc::new(Self { source, number, seal, pages, ends, buffer }), said))
    }

    /// Its number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// What proves that the file's end is the one that was written.
    pub fn seal(&self) -> Seal {
        self.seal
    }

    /// The file's length.
    pub fn bytes(&self) -> u64 {
        self.source.bytes
    }

    /// How many blocks it has.
    pub fn blocks(&self) -> usize {
        self.ends.len()
    }

    /// Bytes that it takes in memory, but for what the buffer has of it.
    pub fn directory_bytes(&self) -> usize {
        size_of_val(self.pages.as_slice()) + size_of_val(self.ends.as_slice())
    }

    /// Has its pages be read through a buffer from now on.
    pub fn read_through(&self, buffer: &Arc<BufferPool>) {
        self.buffer.get_or_init(|| buffer.add(self.source.clone()));
    }

    /// How pages are best read by somebody who goes along the whole file.
    pub fn scan_hint(&self) -> Hint {
        Hint::Scan { bytes: usize::try_from(self.source.bytes).unwrap_or(usize::MAX) }
    }

    /// A block. Blocks the calling thread if its page is not in the buffer. Fails with kind `File` if it cannot be
    /// read, with code XX001 if it is not what was written.
    pub fn block(&self, block: usize, hint: Hint) -> Result<Bytes> {
        let missing = || Error::bug(format!("a key file has no block {block}"));
        let end = *self.ends.get(block).ok_or_else(missing)? as usize;
        let place = self.pages.partition_point(|page| page.first as usize <= block) - 1;
        let start = match self.pages[place].first as usize == block {
            true => 0,
            false => self.ends[block - 1] as usize,
        };
        Ok(self.page(place, hint)?.slice(start..end))
    }

    /// Reads all pages from the disk and holds them against their checksums. Blocks the calling thread. Fails as
    /// [`block`](Self::block) does.
    pub fn verify(&self) -> Result<()> {
        (0..self.pages.len()).try_for_each(|place| self.read(place).map(drop))
    }

    fn page(&self, place: usize, hint: Hint) -> Result<Bytes> {
        let Some(buffer) = self.buffer.get() else { return self.read(place) };
        let (wanted, cluster) = ([self.pages[place].wanted()], place as u32);
        if let Some(mut found) = buffer.find(cluster, &wanted, hint) {
            return found.pop().ok_or_else(|| Error::bug("the buffer has found nothing"));
        }
        match buffer.read_here(cluster, &wanted, hint) {
            Ok(mut read) => read.pop().ok_or_else(|| Error::bug("the buffer has read nothing")),
            Err(Failure::Checksum(_)) => Err(self.wrong(place)),
            Err(Failure::Read(error)) => Err(error),
        }
    }

    fn read(&self, place: usize) -> Result<Bytes> {
        let Page { offset, bytes, checksum, .. } = self.pages[place];
        let read = self.source.read_one_now(offset..offset + u64::from(bytes))?;
        if crc32fast::hash(&read) == checksum { Ok(read) } else { Err(self.wrong(place)) }
    }

    fn wrong(&self, place: usize) -> Error {
        let error = corrupt(&self.source, format!("the checksum of page {place} is wrong"));
        error.with_hint("the rows are not in it: REINDEX TABLE makes the indexes of the table again")
    }
}

fn corrupt(source: &Source, what: impl fmt::Display) -> Error {
    source.error(format!("{what}; the file is corrupt")).with_code("XX001")
}

fn head(version: u32) -> [u8; HEAD_BYTES as usize] {
    let mut head = [0; HEAD_BYTES as usize];
    head[..8].copy_from_slice(MAGIC);
    head[8..12].copy_from_slice(&version.to_le_bytes());
    head
}

/// Pages, blocks and what the writer said; `None` if the bytes do not say what belongs together.
fn read_end(end: &[u8], pages_end: u64) -> Option<(Vec<Page>, Vec<u32>, &[u8])> {
    let (counts, rest) = end.split_at_checked(8)?;
    let (pages, blocks) = (number(counts, 0) as usize, number(counts, 1) as usize);
    let (page_bytes, rest) = rest.split_at_checked(pages.checked_mul(12)?)?;
    let (block_bytes, said) = rest.split_at_checked(blocks.checked_mul(4)?)?;
    let ends = (0..blocks).map(|block| number(block_bytes, block)).collect::<Vec<_>>();
    let (mut offset, mut first, mut all) = (HEAD_BYTES, 0_u32, Vec::with_capacity(pages));
    for page in 0..pages {
        let field = |field: usize| number(page_bytes, page * 3 + field);
        let (bytes, checksum, count) = (field(0), field(1), field(2));
        let next = first.checked_add(count)?;
        let own = ends.get(first as usize..next as usize)?;
        if !own.is_sorted() || own.last() != Some(&bytes) {
            return None;
        }
        all.push(Page { offset, bytes, checksum, first });
        (offset, first) = (offset + u64::from(bytes), next);
    }
    (offset == pages_end && first as usize == blocks).then_some((all, ends, said))
}

fn number(bytes: &[u8], place: usize) -> u32 {
    let mut own = [0; 4];
    own.copy_from_slice(&bytes[place * 4..place * 4 + 4]);
    u32::from_le_bytes(own)
}

/// Makes a key file. One that is dropped before its end leaves no file.
pub struct KeyFileWriter {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    number: u64,
    /// `None` once it has ended.
    file: Option<Arc<dyn DiskFile>>,
    pages: Vec<Page>,
    ends: Vec<u32>,
    /// Bytes that are not written yet: whole pages, and the one that is filled from `page` on.
    waiting: Vec<u8>,
    page: usize,
    /// The first block of that page.
    first: u32,
    /// Bytes that are written.
    written: u64,
}

impl fmt::Debug for KeyFileWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyFileWriter({})", self.number)
    }
}

impl KeyFileWriter {
    /// Begins a file. Fails with kind `File` if it cannot be made.
    pub fn create(disk: &Arc<dyn Disk>, path: &Path, number: u64) -> Result<Self> {
        let file = disk.open(path, OpenMode::CREATE_NEW).map_err(|error| unwritable_file(path, &error))?;
        let waiting = head(VERSION).to_vec();
        Ok(Self {
            disk: disk.clone(),
            path: path.to_owned(),
            number,
            file: Some(file),
            pages: Vec::new(),
            ends: Vec::new(),
            page: waiting.len(),
            waiting,
            first: 0,
            written: 0,
        })
    }

    /// Its number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The next block, which is not empty. Fails with kind `File` if it cannot be written.
    pub fn push(&mut self, block: &[u8]) -> Result<()> {
        self.waiting.extend_from_slice(block);
        let bytes = u32::try_from(self.waiting.len() - self.page);
        self.ends.push(bytes.map_err(|_| Error::bug("a block of keys is too long"))?);
        if self.waiting.len() - self.page >= PAGE_BYTES {
            self.end_page();
        }
        if self.waiting.len() >= WRITE_BYTES && self.page == self.waiting.len() { self.write() } else { Ok(()) }
    }

    fn end_page(&mut self) {
        let bytes = &self.waiting[self.page..];
        if bytes.is_empty() {
            return;
        }
        self.pages.push(Page {
            offset: self.written + self.page as u64,
            bytes: bytes.len() as u32,
            checksum: crc32fast::hash(bytes),
            first: self.first,
        });
        (self.page, self.first) = (self.waiting.len(), self.ends.len() as u32);
    }

    fn write(&mut self) -> Result<()> {
        let Some(file) = &self.file else { return Err(Error::bug("a key file has ended")) };
        file.write_all_at(&self.waiting, self.written).map_err(|error| unwritable_file(&self.path, &error))?;
        self.written += self.waiting.len() as u64;
        self.waiting.clear();
        self.page = 0;
        Ok(())
    }

    /// Ends the file, of which the writer says something; it is synced when this returns, its folder not. Fails with
    /// kind `File` if it cannot be written.
    pub fn finish(mut self, said: &[u8]) -> Result<(Arc<KeyFile>, Bytes)> {
        self.end_page();
        let start = self.written + self.waiting.len() as u64;
        let mut end = Vec::with_capacity(8 + self.pages.len() * 12 + self.ends.len() * 4 + said.len());
        let mut put = |number: u32| end.extend_from_slice(&number.to_le_bytes());
        put(self.pages.len() as u32);
        put(self.ends.len() as u32);
        for (place, page) in self.pages.iter().enumerate() {
            let next = self.pages.get(place + 1).map_or(self.ends.len() as u32, |next| next.first);
            [page.bytes, page.checksum, next - page.first].into_iter().for_each(&mut put);
        }
        self.ends.iter().copied().for_each(put);
        end.extend_from_slice(said);
        let seal = Seal { start, checksum: crc32fast::hash(&end) };
        self.waiting.extend_from_slice(&end);
        self.write()?;
        if let Some(file) = &self.file {
            file.sync().map_err(|error| unwritable_file(&self.path, &error))?;
        }
        let opened = KeyFile::open(&self.disk, &self.path, self.number, seal)?;
        self.file = None;
        Ok(opened)
    }
}

impl Drop for KeyFileWriter {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // What stays is removed when the database is opened.
            let _ = self.disk.remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use diligence_base::seams::{CrashDisk, Random};

    use super::*;

    const PATH: &str = "/file.keys";

    fn blocks(random: &mut Random) -> Vec<Vec<u8>> {
        let bytes = |random: &mut Random| {
            let most = if random.below(20) == 0 { 50_000 } else { 4000 };
            let count = 1 + random.below(most);
            (0..count).map(|_| random.below(256) as u8).collect()
        };
        (0..random.below(200)).map(|_| bytes(random)).collect()
    }

    fn written(disk: &Arc<dyn Disk>, blocks: &[Vec<u8>]) -> (Arc<KeyFile>, Bytes) {
        let mut writer = KeyFileWriter::create(disk, Path::new(PATH), 7).unwrap();
        blocks.iter().for_each(|block| writer.push(block).unwrap());
        writer.finish(b"said").unwrap()
    }

    #[test]
    fn blocks_are_read_as_they_were_written() {
        for seed in 0..20 {
            let blocks = blocks(&mut Random::new(seed));
            let disk: Arc<dyn Disk> = Arc::new(CrashDisk::default());
            let (file, said) = written(&disk, &blocks);
            assert_eq!((said.as_ref(), file.blocks(), file.number()), (b"said".as_slice(), blocks.len(), 7));
            for (place, block) in blocks.iter().enumerate() {
                assert_eq!(file.block(place, Hint::Keep).unwrap(), block);
            }
            assert!(file.block(blocks.len(), Hint::Keep).is_err());
            file.verify().unwrap();
        }
    }

    /// Every byte of a file is under a checksum.
    #[test]
    fn a_byte_that_differs_is_an_error() {
        let disk: Arc<dyn Disk> = Arc::new(CrashDisk::default());
        let blocks = [vec![1; 300], vec![2; 20_000], vec![3; 10]];
        let (file, _) = written(&disk, &blocks);
        let (seal, bytes) = (file.seal(), file.bytes());
        let mut whole = vec![0; bytes as usize];
        disk.open(Path::new(PATH), OpenMode::READ).unwrap().read_exact_at(&mut whole, 0).unwrap();
        for at in (0..whole.len()).filter(|at| at % 97 == 0 || *at < 64 || *at as u64 >= seal.start) {
            let mut other = whole.clone();
            other[at] ^= 0x40;
            let disk: Arc<dyn Disk> = Arc::new(CrashDisk::holding([(PATH, other)]));
            let read = KeyFile::open(&disk, Path::new(PATH), 7, seal).and_then(|(file, _)| file.verify());
            assert_eq!(read.unwrap_err().code(), Some("XX001"), "byte {at}");
        }
        for cut in [0, 10, 64, seal.start as usize, whole.len() - 1] {
            let disk: Arc<dyn Disk> = Arc::new(CrashDisk::holding([(PATH, whole[..cut].to_vec())]));
            assert!(KeyFile::open(&disk, Path::new(PATH), 7, seal).is_err(), "{cut} bytes");
        }
    }

    #[test]
    fn files_of_an_earlier_version_are_read() {
        let disk: Arc<dyn Disk> = Arc::new(CrashDisk::default());
        let (file, _) = written(&disk, &[vec![1; 300]]);
        let seal = file.seal();
        let mut whole = vec![0; file.bytes() as usize];
        disk.open(Path::new(PATH), OpenMode::READ).unwrap().read_exact_at(&mut whole, 0).unwrap();
        for (version, is_read) in [(0, false), (1, true), (2, true), (3, false)] {
            whole[8] = version;
            let disk: Arc<dyn Disk> = Arc::new(CrashDisk::holding([(PATH, whole.clone())]));
            let opened = KeyFile::open(&disk, Path::new(PATH), 7, seal);
            assert_eq!(opened.is_ok(), is_read, "version {version}");
        }
    }
}
