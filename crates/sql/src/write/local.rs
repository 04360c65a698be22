//! The store behind a staging folder: local files whose larger part goes past the page cache.
//!
//! What goes through the page cache is copied, into pages that the system has to find first, and takes memory beside
//! our budget: a sort of 2 GB within 1 GB spent a sixth of its processor time there. So what is behind the beginning of
//! a file goes to the disk directly, as far as it is whole pages, in memory and in the file. Small files stay in the
//! page cache, where whoever reads them next finds them; and so does what follows for a while if the disk turns out to
//! be slow, because then memory is the better place to wait.
//!
//! Invariant: no page is written both ways, so neither order nor the page cache decides what is in the file.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use object_store::local::LocalFileSystem;
use object_store::path::Path as StorePath;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use parking_lot::Mutex;

/// Addresses, offsets and lengths of what goes past the page cache are multiples of this.
pub(super) const PAGE_BYTES: usize = 4096;

/// The beginning of each file stays in the page cache.
const CACHED_BYTES: u64 = 32 << 20;

/// A disk that takes less in a second is slow; copying into the page cache takes about a gigabyte.
const SLOW_BYTES_PER_SECOND: u64 = 200_000_000;
/// So many bytes are written before that is decided.
const TRIED_BYTES: u64 = 64 << 20;
/// So many bytes go into the page cache before a slow disk is tried again: it may only have been busy with something
/// else.
const GIVEN_UP_BYTES: u64 = 256 << 20;

/// A local folder that files are written to, each at once under its name.
#[derive(Debug)]
pub(super) struct StagingStore {
    inner: LocalFileSystem,
    cached_bytes: u64,
}

impl StagingStore {
    /// The folder must be there.
    pub(super) fn new(folder: &Path) -> Result<Self> {
        Ok(Self { inner: LocalFileSystem::new_with_prefix(folder)?, cached_bytes: CACHED_BYTES })
    }
}

impl fmt::Display for StagingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for StagingStore {
    async fn put_opts(&self, path: &StorePath, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.inner.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        path: &StorePath,
        _options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let path = self.inner.path_to_filesystem(path)?;
        let cached_bytes = self.cached_bytes;
        let file = blocking(move || Growing::create(&path, cached_bytes)).await?;
        Ok(Box::new(Upload { file: Arc::new(file), offset: 0 }))
    }

    async fn get_opts(&self, path: &StorePath, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(path, options).await
    }

    async fn get_ranges(&self, path: &StorePath, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.inner.get_ranges(path, ranges).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<StorePath>>) -> BoxStream<'static, Result<StorePath>> {
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&StorePath>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&StorePath>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &StorePath, to: &StorePath, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

/// Runs what blocks where it may.
async fn blocking<T: Send + 'static>(operation: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(operation).await?;
    done.map_err(|source| object_store::Error::Generic { store: "copy", source: source.into() })
}

/// A file that is written part by part. Whoever clears the staging folder removes what was not completed.
#[derive(Debug)]
struct Upload {
    file: Arc<Growing>,
    offset: u64,
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (file, offset) = (self.file.clone(), self.offset);
        self.offset += data.content_length() as u64;
        Box::pin(blocking(move || file.write(&data, offset)))
    }

    async fn complete(&mut self) -> Result<PutResult> {
        Ok(PutResult { e_tag: None, version: None })
    }

    async fn abort(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A file, open for both ways.
#[derive(Debug)]
struct Growing {
    cached: File,
    /// None where the file system has no other way.
    direct: Option<File>,
    cached_bytes: u64,
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

impl Growing {
    fn create(path: &Path, cached_bytes: u64) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let cached = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
        Ok(Self { cached, direct: open_direct(path), cached_bytes, began: Instant::now(), pace: Mutex::default() })
    }

    /// Writes a part of the file.
    fn write(&self, data: &PutPayload, mut offset: u64) -> io::Result<()> {
        for bytes in data {
            if !self.write_direct(bytes, offset)? {
                self.cached.write_all_at(bytes, offset)?;
            }
            offset += bytes.len() as u64;
        }
        Ok(())
    }

    /// Whether bytes could be written past the page cache, and were.
    fn write_direct(&self, bytes: &[u8], offset: u64) -> io::Result<bool> {
        let Some(direct) = &self.direct else { return Ok(false) };
        let is_aligned = bytes.as_ptr().addr().is_multiple_of(PAGE_BYTES)
            && bytes.len().is_multiple_of(PAGE_BYTES)
            && offset.is_multiple_of(PAGE_BYTES as u64);
        let is_direct =
            is_aligned && offset >= self.cached_bytes && self.pace.lock().begin(bytes.len(), self.began.elapsed());
        if !is_direct {
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

#[cfg(target_os = "linux")]
fn open_direct(path: &Path) -> Option<File> {
    use std::os::unix::fs::OpenOptionsExt;
    OpenOptions::new().write(true).custom_flags(libc::O_DIRECT).open(path).ok()
}

#[cfg(not(target_os = "linux"))]
fn open_direct(_: &Path) -> Option<File> {
    None
}

#[cfg(test)]
mod tests {
    use object_store::ObjectStoreExt;

    use super::*;

    /// So many bytes from a number on, at an address that is a multiple of a page and so much.
    fn numbered(first: usize, count: usize, beside: usize) -> Bytes {
        let mut bytes: Vec<u8> = Vec::with_capacity(count + 2 * PAGE_BYTES);
        let start = bytes.as_ptr().align_offset(PAGE_BYTES) + beside;
        bytes.resize(start, 0);
        bytes.extend((first..first + count).map(|number| (number / 7) as u8));
        Bytes::from(bytes).slice(start..)
    }

    #[tokio::test]
    async fn a_file_has_the_same_bytes_whichever_way_its_parts_went() {
        let folder = std::env::temp_dir().join(format!("diligence-staging-store-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for cached_bytes in [0, 3 * PAGE_BYTES as u64, u64::MAX] {
            let mut store = StagingStore::new(&folder).unwrap();
            store.cached_bytes = cached_bytes;
            let path = StorePath::from("below/rows");
            let mut upload = store.put_multipart(&path).await.unwrap();
            let mut length = 0;
            let mut parts = Vec::new();
            // Whole pages, at addresses of pages and at others, then no whole pages, then whole ones at no page of the
            // file.
            for (pages, beside, bytes) in [(2, 0, 0), (3, 8, 0), (4, 0, 0), (0, 0, 10), (2, 0, 0), (1, 0, 100)] {
                let count = pages * PAGE_BYTES + bytes;
                let halves = [numbered(length, count / 2, beside), numbered(length + count / 2, count - count / 2, 0)];
                parts.push(upload.put_part(PutPayload::from_iter(halves)));
                length += count;
            }
            // In any order, as they are when several are under way.
            for part in parts.into_iter().rev() {
                part.await.unwrap();
            }
            upload.complete().await.unwrap();
            let written = std::fs::read(folder.join("below/rows")).unwrap();
            assert!(written == numbered(0, length, 0), "with {cached_bytes} bytes in the page cache");
        }
        std::fs::remove_dir_all(&folder).unwrap();
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
