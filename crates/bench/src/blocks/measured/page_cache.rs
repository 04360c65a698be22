//! A page cache of a given size, for real files: temp files whose pages leave memory as they would if there were no
//! more of it.
//!
//! The system limits the page cache of a group of processes, which takes rights on the machine that a benchmark need
//! not have. So the limit is kept here: a file notes which of its pages were read or written last. Beyond the limit the
//! pages that were used the longest ago are written to the disk (`sync_file_range`) and dropped (`posix_fadvise`), and
//! beyond the limit for dirty ones those that are dirty the longest are sent to the disk. These are the rules of the
//! simulated [`cache`](super::super::cache). What else the system does stays as it is: read-ahead, flushing of what is
//! dirty for half a minute, merging of requests.
//!
//! Invariant: what is dropped or sent is only ever a copy of what the file holds, so whatever is noted wrongly costs
//! time, not rows.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use diligence_disk::{LocalTempFiles, TempFile, TempFiles};

use super::extents::{self, Extents};

/// How large the page cache of a file is.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// Bytes that stay in memory.
    pub cache_bytes: u64,
    /// Bytes of them that may be dirty.
    pub dirty_bytes: u64,
    /// Bytes that are written or dropped together.
    pub batch_bytes: u64,
    /// The unit in which use is noted: the clusters of temp space.
    pub page_bytes: u64,
}

/// Temp files with a limited page cache each. One directory is meant.
#[derive(Debug)]
pub struct LimitedFiles {
    limit: Limit,
    extents: Arc<Mutex<Extents>>,
}

impl LimitedFiles {
    pub fn new(limit: Limit) -> Self {
        Self { limit, extents: Arc::default() }
    }

    /// Where on the disk the file has been so far.
    pub fn extents(&self) -> Extents {
        self.extents.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl TempFiles for LimitedFiles {
    fn remove_leftovers(&self, directory: &Path) -> io::Result<usize> {
        LocalTempFiles.remove_leftovers(directory)
    }

    fn create(&self, directory: &Path, _direct: bool) -> io::Result<Arc<dyn TempFile>> {
        std::fs::create_dir_all(directory)?;
        let file =
            OpenOptions::new().read(true).write(true).mode(0o600).custom_flags(libc::O_TMPFILE).open(directory)?;
        let pages = Mutex::new(Pages::new(&self.limit));
        Ok(Arc::new(LimitedFile { file, page_bytes: self.limit.page_bytes, pages, extents: self.extents.clone() }))
    }
}

struct LimitedFile {
    file: File,
    page_bytes: u64,
    pages: Mutex<Pages>,
    extents: Arc<Mutex<Extents>>,
}

impl LimitedFile {
    /// Notes that bytes were used, and does what follows from it.
    fn used(&self, offset: u64, bytes: usize, is_write: bool) -> io::Result<()> {
        let pages = offset / self.page_bytes..(offset + bytes as u64).div_ceil(self.page_bytes);
        let excess = self.pages.lock().unwrap_or_else(PoisonError::into_inner).touch(pages, is_write);
        let in_bytes =
            |range: &Range<u64>| (range.start * self.page_bytes, (range.end - range.start) * self.page_bytes);
        // All are sent before any is waited for, so that the system can put neighbours together.
        for (offset, bytes) in excess.flush.iter().chain(&excess.drop).map(in_bytes) {
            self.sync(offset, bytes, libc::SYNC_FILE_RANGE_WRITE)?;
        }
        let and_wait =
            libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
        for (offset, bytes) in excess.drop.iter().map(in_bytes) {
            self.sync(offset, bytes, and_wait)?;
            // SAFETY: a call of the system without pointers, on a descriptor that is open.
            let failed = unsafe {
                libc::posix_fadvise(self.file.as_raw_fd(), offset as i64, bytes as i64, libc::POSIX_FADV_DONTNEED)
            };
            if failed != 0 {
                return Err(io::Error::from_raw_os_error(failed));
            }
        }
        Ok(())
    }

    fn sync(&self, offset: u64, bytes: u64, flags: libc::c_uint) -> io::Result<()> {
        // SAFETY: a call of the system without pointers, on a descriptor that is open.
        match unsafe { libc::sync_file_range(self.file.as_raw_fd(), offset as i64, bytes as i64, flags) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl TempFile for LimitedFile {
    fn is_direct(&self) -> bool {
        false
    }

    fn is_named(&self) -> bool {
        false
    }

    fn grow(&self, from: u64, to: u64) -> io::Result<()> {
        // SAFETY: a call of the system without pointers, on a descriptor that is open.
        if unsafe { libc::fallocate(self.file.as_raw_fd(), 0, from as i64, (to - from) as i64) } != 0 {
            let error = io::Error::last_os_error();
            let _ = self.file.set_len(from);
            return Err(error);
        }
        // A file system that does not say where its files are has no extents to show.
        if let Ok(found) = extents::of_file(&self.file, from, to) {
            self.extents.lock().unwrap_or_else(PoisonError::into_inner).extend(found);
        }
        Ok(())
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner).truncate(bytes.div_ceil(self.page_bytes));
        self.file.set_len(bytes)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = self.file.read_at(buffer, offset)?;
        self.used(offset, read, false)?;
        Ok(read)
    }

    fn write_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        // One slice at a time: what is written is put together by the cache, not by the call.
        let Some(first) = slices.iter().find(|slice| !slice.is_empty()) else { return Ok(0) };
        let written = self.file.write_at(first, offset)?;
        self.used(offset, written, true)?;
        Ok(written)
    }
}

/// Which pages of a file are in memory, by when they were used, and which of them are dirty, by when they became so.
struct Pages {
    pages_max: usize,
    dirty_max: usize,
    batch: usize,
    time: u64,
    /// When a page was used last, and since when it is dirty.
    pages: HashMap<u64, (u64, Option<u64>)>,
    by_use: BTreeMap<u64, u64>,
    by_dirt: BTreeMap<u64, u64>,
}

/// What has to leave, as ranges of pages in ascending order.
#[derive(Debug, Default, PartialEq, Eq)]
struct Excess {
    /// To the disk; they stay in memory.
    flush: Vec<Range<u64>>,
    /// Out of memory, and to the disk first if they are dirty.
    drop: Vec<Range<u64>>,
}

impl Pages {
    fn new(limit: &Limit) -> Self {
        let pages = |bytes: u64| (bytes / limit.page_bytes).max(1) as usize;
        Self {
            pages_max: pages(limit.cache_bytes),
            dirty_max: pages(limit.dirty_bytes),
            batch: pages(limit.batch_bytes),
            time: 0,
            pages: HashMap::new(),
            by_use: BTreeMap::new(),
            by_dirt: BTreeMap::new(),
        }
    }

    /// Pages are used.
    fn touch(&mut self, pages: Range<u64>, is_write: bool) -> Excess {
        for page in pages {
            self.time += 1;
            let (used, dirty) = self.pages.entry(page).or_insert((0, None));
            self.by_use.remove(used);
            self.by_use.insert(self.time, page);
            *used = self.time;
            if is_write && dirty.is_none() {
                *dirty = Some(self.time);
                self.by_dirt.insert(self.time, page);
            }
        }
        let mut excess = Excess::default();
        if self.pages.len() > self.pages_max {
            let oldest: Vec<u64> = self.by_use.values().copied().take(self.batch).collect();
            oldest.iter().for_each(|page| self.forget(*page));
            excess.drop = ranges(oldest);
        }
        if self.by_dirt.len() > self.dirty_max {
            let oldest: Vec<u64> = self.by_dirt.values().copied().take(self.batch).collect();
            oldest.iter().for_each(|page| self.clean(*page));
            excess.flush = ranges(oldest);
        }
        excess
    }

    fn clean(&mut self, page: u64) {
        if let Some(since) = self.pages.get_mut(&page).and_then(|(_, dirty)| dirty.take()) {
            self.by_dirt.remove(&since);
        }
    }

    fn forget(&mut self, page: u64) {
        self.clean(page);
        if let Some((used, _)) = self.pages.remove(&page) {
            self.by_use.remove(&used);
        }
    }

    /// The file has so many pages now: those beyond are gone, whether they were written or not.
    fn truncate(&mut self, pages: u64) {
        let beyond: Vec<u64> = self.pages.keys().copied().filter(|page| *page >= pages).collect();
        beyond.into_iter().for_each(|page| self.forget(page));
    }
}

/// Pages as ranges.
fn ranges(mut pages: Vec<u64>) -> Vec<Range<u64>> {
    pages.sort_unstable();
    pages.chunk_by(|a, b| a + 1 == *b).map(|run| run[0]..run[run.len() - 1] + 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(cache: u64, dirty: u64, batch: u64) -> Pages {
        Pages::new(&Limit { cache_bytes: cache, dirty_bytes: dirty, batch_bytes: batch, page_bytes: 1 })
    }

    #[test]
    fn what_was_used_the_longest_ago_leaves_in_batches() {
        let mut cache = pages(4, 4, 2);
        assert_eq!(cache.touch(0..4, false), Excess::default());
        cache.touch(0..1, false);
        assert_eq!(cache.touch(9..10, false), Excess { flush: vec![], drop: vec![1..3] });
        assert_eq!(cache.pages.len(), 3);
        assert_eq!(cache.touch(20..22, false), Excess { flush: vec![], drop: vec![0..1, 3..4] });
    }

    #[test]
    fn what_is_dirty_the_longest_is_flushed_once_and_overwriting_does_not_count() {
        let mut cache = pages(10, 2, 2);
        assert_eq!(cache.touch(5..7, true), Excess::default());
        // Recycled pages: they are dirty already, and nothing has to be written for it.
        assert_eq!(cache.touch(5..7, true), Excess::default());
        assert_eq!(cache.touch(2..3, true), Excess { flush: vec![5..7], drop: vec![] });
        assert_eq!((cache.pages.len(), cache.by_dirt.len()), (3, 1));
        cache.truncate(5);
        assert_eq!((cache.pages.len(), cache.by_dirt.len(), cache.by_use.len()), (1, 1, 1));
    }

    #[test]
    fn a_file_beyond_its_cache_reads_back_what_was_written() {
        const PAGE: usize = 4096;
        let limit = Limit {
            cache_bytes: 4 * PAGE as u64,
            dirty_bytes: 2 * PAGE as u64,
            batch_bytes: PAGE as u64,
            page_bytes: PAGE as u64,
        };
        let files = LimitedFiles::new(limit);
        // Not where `/tmp` may be memory: files without a name are not known to every file system of memory.
        let directory = std::env::current_dir().unwrap().join("target");
        let Ok(file) = files.create(&directory, false) else { return };
        file.grow(0, 16 * PAGE as u64).unwrap();
        let content = |page: usize| vec![page as u8 + 1; PAGE];
        for page in 0..16 {
            let halves = content(page);
            let (first, second) = halves.split_at(PAGE / 2);
            let slices = [IoSlice::new(first), IoSlice::new(second)];
            assert_eq!(file.write_at(&slices, (page * PAGE) as u64).unwrap(), PAGE / 2);
            assert_eq!(file.write_at(&slices[1..], (page * PAGE + PAGE / 2) as u64).unwrap(), PAGE / 2);
        }
        for page in [0, 15, 3, 8] {
            let mut back = vec![0; PAGE];
            assert_eq!(file.read_at(&mut back, (page * PAGE) as u64).unwrap(), PAGE);
            assert!(back == content(page), "page {page}");
        }
    }
}
