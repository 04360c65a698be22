//! A local file that is written in blocks, the larger part of it past the page cache.
//!
//! What goes through the page cache is copied, into pages that the system has to find first, and takes memory beside
//! our budget: a sort of 2 GB within 1 GB spent a sixth of its processor time there. So what is behind the beginning of
//! a file goes to the disk directly, as far as it is whole pages, in memory and in the file. Small files stay in the
//! page cache, where whoever reads them next finds them; and so does what follows for a while if the disk turns out to
//! be slow, because then memory is the better place to wait.
//!
//! Invariant: no page is written both ways, so neither order nor the page cache decides what is in the file.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use diligence_base::seams::{Disk, DiskFile, OpenMode};
use parking_lot::Mutex;

use super::staging::StagingGuard;

/// Addresses, offsets and lengths of what goes past the page cache are multiples of this.
pub(super) const PAGE_BYTES: usize = 4096;

/// The beginning of each file stays in the page cache.
pub(super) const CACHED_BYTES: u64 = 32 << 20;

/// A disk that takes less in a second is slow; copying into the page cache takes about a gigabyte.
const SLOW_BYTES_PER_SECOND: u64 = 200_000_000;
/// So many bytes are written before that is decided.
const TRIED_BYTES: u64 = 64 << 20;
/// So many bytes go into the page cache before a slow disk is tried again: it may only have been busy with something
/// else.
const GIVEN_UP_BYTES: u64 = 256 << 20;

/// A file that is written for the first time. It is made with its first block.
#[derive(Debug)]
pub(super) struct LocalOutput {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    cached_bytes: u64,
    opened: Mutex<Option<Arc<Opened>>>,
    /// Whoever still writes keeps the folder from being cleared for the last time.
    _guard: StagingGuard,
}

/// The file, open for both ways.
#[derive(Debug)]
struct Opened {
    cached: Arc<dyn DiskFile>,
    /// None where the file system has no other way.
    direct: OnceLock<Option<Arc<dyn DiskFile>>>,
    began: Instant,
    pace: Mutex<Pace>,
}

/// How fast the disk is, while something is written to it past the page cache.
#[derive(Debug, Default)]
struct Pace {
    /// Writes under way.
    writes: usize,
    /// When the first of them began, or it was last looked; as all times, since any beginning.
    since: Duration,
    /// What was written in this trial, and how long something was under way.
    bytes: u64,
    busy: Duration,
    /// So many bytes are still to go into the page cache.
    given_up_bytes: u64,
}

impl Pace {
    /// Whether so many bytes are to go past the page cache; then their write begins.
    fn begin(&mut self, bytes: usize, now: Duration) -> bool {
        if self.given_up_bytes > 0 {
            self.given_up_bytes = self.given_up_bytes.saturating_sub(bytes as u64);
            return false;
        }
        if self.writes == 0 {
            self.since = now;
        }
        self.writes += 1;
        true
    }

    /// A write ends that wrote so many bytes.
    fn end(&mut self, bytes: usize, now: Duration) {
        self.writes -= 1;
        self.bytes += bytes as u64;
        self.busy += now.saturating_sub(self.since);
        self.since = now;
        if self.bytes >= TRIED_BYTES {
            if (self.bytes as f64) < self.busy.as_secs_f64() * SLOW_BYTES_PER_SECOND as f64 {
                self.given_up_bytes = GIVEN_UP_BYTES;
            }
            (self.bytes, self.busy) = (0, Duration::ZERO);
        }
    }

    /// The file system wants something else, and will.
    fn give_up(&mut self) {
        self.writes -= 1;
        self.given_up_bytes = u64::MAX;
    }
}

impl LocalOutput {
    /// A file at this path, which is not there yet. So many bytes at its beginning go through the page cache.
    pub fn new(path: PathBuf, disk: Arc<dyn Disk>, cached_bytes: u64, guard: StagingGuard) -> Self {
        Self { path, disk, cached_bytes, opened: Mutex::default(), _guard: guard }
    }

    /// Writes a part of the file. Fails with what the disk says.
    pub fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let opened = self.opened()?;
        let is_late = offset >= self.cached_bytes;
        if is_late && opened.write_direct(bytes, offset, || self.open_direct())? {
            return Ok(());
        }
        opened.cached.write_all_at(bytes, offset)
    }

    /// Has all bytes where a crash leaves them, and closes the file. Fails with what the disk says.
    pub fn sync(&self) -> io::Result<()> {
        let opened = self.opened()?;
        opened.cached.sync()?;
        *self.opened.lock() = None;
        Ok(())
    }

    fn opened(&self) -> io::Result<Arc<Opened>> {
        let mut opened = self.opened.lock();
        if let Some(opened) = opened.as_ref() {
            return Ok(opened.clone());
        }
        if let Some(folder) = self.path.parent() {
            self.disk.create_folders(folder)?;
        }
        let cached = self.disk.open(&self.path, OpenMode::CREATE_NEW)?;
        let new = Opened { cached, direct: OnceLock::new(), began: Instant::now(), pace: Mutex::default() };
        Ok(opened.insert(Arc::new(new)).clone())
    }

    fn open_direct(&self) -> Option<Arc<dyn DiskFile>> {
        self.disk.open(Path::new(&self.path), OpenMode::WRITE.direct()).ok()
    }
}

impl Opened {
    /// Whether bytes could be written past the page cache, and were.
    fn write_direct(
        &self,
        bytes: &[u8],
        offset: u64,
        open: impl FnOnce() -> Option<Arc<dyn DiskFile>>,
    ) -> io::Result<bool> {
        let is_aligned = bytes.as_ptr().addr().is_multiple_of(PAGE_BYTES)
            && bytes.len().is_multiple_of(PAGE_BYTES)
            && offset.is_multiple_of(PAGE_BYTES as u64);
        if !is_aligned {
            return Ok(false);
        }
        let Some(direct) = self.direct.get_or_init(open) else { return Ok(false) };
        if !self.pace.lock().begin(bytes.len(), self.began.elapsed()) {
            return Ok(false);
        }
        let written = direct.write_all_at(bytes, offset);
        let mut pace = self.pace.lock();
        match written {
            Ok(()) => pace.end(bytes.len(), self.began.elapsed()),
            // It wants larger pages, or cannot do it after all.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                pace.give_up();
                return Ok(false);
            }
            Err(error) => {
                pace.end(0, self.began.elapsed());
                return Err(error);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use diligence_base::seams::{CrashDisk, LocalDisk};

    use super::super::staging::Staging;
    use super::*;

    /// So many bytes from a number on, at an address that is a multiple of a page and so much; and where they begin.
    fn numbered(first: usize, count: usize, beside: usize) -> (Vec<u8>, usize) {
        let mut bytes: Vec<u8> = Vec::with_capacity(count + 2 * PAGE_BYTES);
        let start = bytes.as_ptr().align_offset(PAGE_BYTES) + beside;
        bytes.resize(start, 0);
        bytes.extend((first..first + count).map(|number| (number / 7) as u8));
        (bytes, start)
    }

    #[test]
    fn a_file_has_the_same_bytes_whichever_way_its_parts_went() {
        let root = tempfile::tempdir().unwrap();
        let disks: [(Arc<dyn Disk>, &Path); 2] =
            [(Arc::new(LocalDisk), root.path()), (Arc::new(CrashDisk::default()), Path::new("/"))];
        for (disk, folder) in disks {
            for cached_bytes in [0, 3 * PAGE_BYTES as u64, u64::MAX] {
                let staging = Staging::new(folder, String::new(), disk.clone()).unwrap();
                let path = staging.add_file(Path::new("below"));
                let file = LocalOutput::new(path.clone(), disk.clone(), cached_bytes, staging.guard());
                let mut length = 0;
                let mut parts = Vec::new();
                // Whole pages, at addresses of pages and at others, then no whole pages, then whole ones at no page of
                // the file.
                for (pages, beside, bytes) in [(2, 0, 0), (3, 8, 0), (4, 0, 0), (0, 0, 10), (2, 0, 0), (1, 0, 100)] {
                    let count = pages * PAGE_BYTES + bytes;
                    parts.push((length, numbered(length, count / 2, beside)));
                    parts.push((length + count / 2, numbered(length + count / 2, count - count / 2, 0)));
                    length += count;
                }
                // In any order, as they are when several are under way.
                for (offset, (bytes, start)) in parts.into_iter().rev() {
                    file.write(&bytes[start..], offset as u64).unwrap();
                }
                file.sync().unwrap();
                let mut written = vec![0; length];
                disk.open(&path, OpenMode::READ).unwrap().read_exact_at(&mut written, 0).unwrap();
                let (bytes, start) = numbered(0, length, 0);
                assert!(written == bytes[start..], "with {cached_bytes} bytes in the page cache");
            }
        }
    }

    #[test]
    fn a_slow_disk_is_given_up_for_a_while() {
        let (mut pace, mut ms) = (Pace::default(), 0);
        // Whether a write of a megabyte that takes so long went past the page cache; two at once take as long as one.
        let mut write = |count: usize, takes_ms: u64| {
            let now = Duration::from_millis(ms);
            ms += takes_ms;
            let begun = (0..count).filter(|_| pace.begin(1 << 20, now)).count();
            (0..begun).for_each(|_| pace.end(1 << 20, now + Duration::from_millis(takes_ms)));
            begun
        };
        assert!((0..100).all(|_| write(2, 9) == 2), "two times 110 MB in a second");
        assert!((0..56).all(|_| write(1, 1) == 1));
        assert!((0..63).all(|_| write(1, 20) == 1), "it was not tried long enough");
        assert_eq!(write(1, 20), 1);
        assert!((0..256).all(|_| write(1, 0) == 0), "50 MB in a second");
        assert_eq!(write(1, 20), 1, "it is tried again");
    }
}
