//! Temp files in memory, which can fail at a chosen operation: for tests.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::{Bell, Completion, TempFile, TempFiles, TempQueue, Transfer};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The disk is full from then on, until [`MemoryTempFiles::heal`]: nothing grows, nothing is written.
    Full,
    /// The operation fails with an I/O error.
    Broken,
    /// Half of the bytes are read or written, and the operation says so.
    Short,
    /// No bytes are read or written, and the operation says so.
    Empty,
    /// One bit is wrong in what is read or in what is written, and nobody says so.
    Flip,
    /// The operation takes so long.
    Slow(Duration),
}

/// Temp files in memory. Operations (leftovers, create, grow, truncate, read, write) are counted from 0; one of them
/// may fail. Clones are the same files.
#[derive(Clone, Debug, Default)]
pub struct MemoryTempFiles(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    fault: Option<(Fault, u64)>,
    is_healed: AtomicUsize,
    operations: AtomicU64,
    files: AtomicUsize,
    bytes: AtomicU64,
}

struct MemoryTempFile {
    shared: Arc<Shared>,
    content: std::sync::Mutex<Content>,
    is_direct: bool,
}

/// Bytes of a page: what is never written takes no memory.
const PAGE_BYTES: u64 = 4096;

#[derive(Default)]
struct Content {
    bytes: u64,
    pages: BTreeMap<u64, Vec<u8>>,
}

impl Content {
    /// Calls `visit` with each stretch of a page between two bytes of the file: where it is in the stretch, and where
    /// in the file.
    fn stretches(from: u64, bytes: usize, mut visit: impl FnMut(std::ops::Range<usize>, u64)) {
        let (mut at, end) = (from, from + bytes as u64);
        while at < end {
            let next = ((at / PAGE_BYTES + 1) * PAGE_BYTES).min(end);
            visit((at - from) as usize..(next - from) as usize, at);
            at = next;
        }
    }

    fn read(&self, buffer: &mut [u8], from: u64) {
        Self::stretches(from, buffer.len(), |part, at| {
            let (page, offset) = (at / PAGE_BYTES, (at % PAGE_BYTES) as usize);
            match self.pages.get(&page) {
                Some(page) => buffer[part.clone()].copy_from_slice(&page[offset..offset + part.len()]),
                None => buffer[part].fill(0),
            }
        });
    }

    fn write(&mut self, bytes: &[u8], from: u64) {
        Self::stretches(from, bytes.len(), |part, at| {
            let page = self.pages.entry(at / PAGE_BYTES).or_insert_with(|| vec![0; PAGE_BYTES as usize]);
            let offset = (at % PAGE_BYTES) as usize;
            page[offset..offset + part.len()].copy_from_slice(&bytes[part]);
        });
    }
}

impl MemoryTempFiles {
    /// Files whose operation number `at` goes wrong.
    pub fn failing(fault: Fault, at: u64) -> Self {
        Self(Arc::new(Shared { fault: Some((fault, at)), ..Shared::default() }))
    }

    /// Operations so far.
    pub fn operations(&self) -> u64 {
        self.0.operations.load(Ordering::SeqCst)
    }

    /// Files that exist.
    pub fn files(&self) -> usize {
        self.0.files.load(Ordering::SeqCst)
    }

    /// Bytes that the files have.
    pub fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::SeqCst)
    }

    /// Nothing goes wrong any more.
    pub fn heal(&self) {
        self.0.is_healed.store(1, Ordering::SeqCst);
    }
}

impl Shared {
    /// Counts an operation; what goes wrong in it.
    fn operate(&self) -> Option<Fault> {
        let now = self.operations.fetch_add(1, Ordering::SeqCst);
        let (fault, at) = self.fault.filter(|_| self.is_healed.load(Ordering::SeqCst) == 0)?;
        match fault {
            Fault::Full => (now >= at).then_some(fault),
            Fault::Slow(time) if now == at => {
                std::thread::sleep(time);
                None
            }
            _ => (now == at).then_some(fault),
        }
    }

    /// The same for operations that read and write nothing: they are done whole or not at all.
    fn operate_whole(&self) -> io::Result<()> {
        match self.operate() {
            Some(Fault::Broken) => Err(broken()),
            _ => Ok(()),
        }
    }
}

fn broken() -> io::Error {
    io::Error::from_raw_os_error(libc::EIO)
}

fn full() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOSPC)
}

impl TempFiles for MemoryTempFiles {
    fn remove_leftovers(&self, _directory: &Path) -> io::Result<usize> {
        self.0.operate_whole().map(|()| 0)
    }

    fn create(&self, _directory: &Path, direct: bool) -> io::Result<Arc<dyn TempFile>> {
        self.0.operate_whole()?;
        self.0.files.fetch_add(1, Ordering::SeqCst);
        Ok(Arc::new(MemoryTempFile { shared: self.0.clone(), content: Default::default(), is_direct: direct }))
    }

    fn queue(&self, _depth: usize) -> io::Result<Box<dyn TempQueue>> {
        Ok(Box::new(MemoryQueue::default()))
    }
}

/// Does what was begun last when it is waited for: nobody can count on an order. What goes wrong in a file does so
/// here, too.
#[derive(Default)]
struct MemoryQueue(Vec<Box<dyn Transfer>>);

impl TempQueue for MemoryQueue {
    fn under_way(&self) -> usize {
        self.0.len()
    }

    fn begin(&mut self, transfer: Box<dyn Transfer>) {
        self.0.push(transfer);
    }

    /// Does not wait: there must be something under way.
    fn wait(&mut self, done: &mut Vec<Completion>) {
        let mut transfer = self.0.pop().unwrap_or_else(|| panic!("nothing is under way"));
        let result = transfer.request().run();
        done.push((transfer, result));
    }

    fn bell(&self) -> Arc<dyn Bell> {
        Arc::new(Silent)
    }
}

/// The bell of a queue in which nobody waits.
struct Silent;

impl Bell for Silent {
    fn ring(&self) {}
}

impl MemoryTempFile {
    fn content(&self) -> std::sync::MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What direct I/O demands of an offset and a length.
    fn check(&self, offset: u64, bytes: usize) -> io::Result<()> {
        let is_aligned = offset.is_multiple_of(4096) && bytes.is_multiple_of(4096);
        if self.is_direct && !is_aligned { Err(io::Error::from_raw_os_error(libc::EINVAL)) } else { Ok(()) }
    }
}

impl TempFile for MemoryTempFile {
    fn is_direct(&self) -> bool {
        self.is_direct
    }

    fn is_named(&self) -> bool {
        false
    }

    fn grow(&self, from: u64, to: u64) -> io::Result<()> {
        match self.shared.operate() {
            Some(Fault::Full) => return Err(full()),
            Some(Fault::Broken) => return Err(broken()),
            _ => {}
        }
        let mut content = self.content();
        assert_eq!(content.bytes, from, "a file grows from its end");
        content.bytes = to;
        self.shared.bytes.fetch_add(to - from, Ordering::SeqCst);
        Ok(())
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.shared.operate_whole()?;
        let mut content = self.content();
        self.shared.bytes.fetch_sub(content.bytes - bytes, Ordering::SeqCst);
        content.bytes = bytes;
        content.pages.retain(|page, _| page * PAGE_BYTES < bytes);
        Ok(())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.check(offset, buffer.len())?;
        let fault = self.shared.operate();
        let content = self.content();
        let mut bytes = buffer.len().min(content.bytes.saturating_sub(offset) as usize);
        match fault {
            Some(Fault::Broken) => return Err(broken()),
            Some(Fault::Short) => bytes /= 2,
            Some(Fault::Empty) => bytes = 0,
            _ => {}
        }
        content.read(&mut buffer[..bytes], offset);
        if fault == Some(Fault::Flip) && bytes > 0 {
            buffer[0] ^= 4;
        }
        Ok(bytes)
    }

    fn write_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let wanted = slices.iter().map(|slice| slice.len()).sum::<usize>();
        self.check(offset, wanted)?;
        let fault = self.shared.operate();
        let bytes = match fault {
            Some(Fault::Full) => return Err(full()),
            Some(Fault::Broken) => return Err(broken()),
            Some(Fault::Short) => wanted / 2,
            Some(Fault::Empty) => 0,
            _ => wanted,
        };
        let mut content = self.content();
        assert!(offset + wanted as u64 <= content.bytes, "nothing is written behind the end");
        let mut written = 0;
        for slice in slices {
            let part = slice.len().min(bytes - written);
            content.write(&slice[..part], offset + written as u64);
            written += part;
        }
        if fault == Some(Fault::Flip) && bytes > 0 {
            let mut first = [0];
            content.read(&mut first, offset);
            content.write(&[first[0] ^ 4], offset);
        }
        Ok(bytes)
    }
}

impl Drop for MemoryTempFile {
    fn drop(&mut self) {
        self.shared.bytes.fetch_sub(self.content().bytes, Ordering::SeqCst);
        self.shared.files.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_does_what_it_says_and_only_once() {
        let write = |file: &dyn TempFile| file.write_at(&[IoSlice::new(b"abcd"), IoSlice::new(b"efgh")], 0);
        let run = |fault| {
            let files = MemoryTempFiles::failing(fault, 2);
            let file = files.create(Path::new("/"), false).unwrap();
            file.grow(0, 8).unwrap();
            let first = write(file.as_ref()).map_err(|error| error.raw_os_error());
            let second = write(file.as_ref()).map_err(|error| error.raw_os_error());
            assert_eq!((files.operations(), files.files(), files.bytes()), (4, 1, 8));
            drop(file);
            assert_eq!((files.files(), files.bytes()), (0, 0));
            (first, second)
        };
        assert_eq!(run(Fault::Full), (Err(Some(libc::ENOSPC)), Err(Some(libc::ENOSPC))));
        assert_eq!(run(Fault::Broken), (Err(Some(libc::EIO)), Ok(8)));
        assert_eq!(run(Fault::Short), (Ok(4), Ok(8)));
        assert_eq!(run(Fault::Empty), (Ok(0), Ok(8)));
        assert_eq!(run(Fault::Slow(Duration::ZERO)), (Ok(8), Ok(8)));
        let files = MemoryTempFiles::failing(Fault::Flip, 3);
        let file = files.create(Path::new("/"), false).unwrap();
        file.grow(0, 8).unwrap();
        write(file.as_ref()).unwrap();
        let mut back = [0; 8];
        file.read_at(&mut back, 0).unwrap();
        assert_eq!(&back, b"ebcdefgh");
        file.read_at(&mut back, 0).unwrap();
        assert_eq!(&back, b"abcdefgh");
        let healed = MemoryTempFiles::failing(Fault::Full, 0);
        healed.heal();
        healed.create(Path::new("/"), false).unwrap().grow(0, 8).unwrap();
    }
}
