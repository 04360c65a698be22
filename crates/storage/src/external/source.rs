//! One foreign file: where it is, how long it was when it was found, and how ranges of it come into memory.
//!
//! A source is either a path in the file system of the [`Disk`] seam or an object in an object store. Nothing here
//! knows a format.
//!
//! Invariant: a file that is shorter or longer than when it was found is an error, never a half-read answer.

use std::fmt;
use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use diligence_base::seams::{Disk, DiskFile, FileMeta, OpenMode};
use diligence_base::{Error, ErrorKind, Result};
use diligence_disk::BufferedFile;
use futures::lock::Mutex;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};

use super::stores::store_error;
use crate::{Fetch, Fetched};

/// Ranges nearer to each other than this are read as one: a seek on a disk or one more round trip costs more than the
/// bytes between them (256 KiB is about 0.1 ms of a fast disk).
const GAP_BYTES_MAX: u64 = 256 * 1024;

/// A joined read is at most this long, so that one huge column chunk does not need twice its memory to be cut up.
const READ_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// A file is read as a whole, and kept, if its server does not give parts of it; up to this length.
const WHOLE_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// A foreign file.
pub(crate) struct Source {
    /// What errors and EXPLAIN call it: the path or the URL.
    pub name: String,
    /// Its length in bytes when it was found.
    pub bytes: u64,
    /// Changes when the content may have changed: from the length and the time of the last change, or the entity tag.
    pub version: u64,
    place: SourcePlace,
}

enum SourcePlace {
    /// What came through a pipe.
    Held(Bytes),
    Local {
        files: Arc<dyn Disk>,
        path: PathBuf,
    },
    Object {
        store: Arc<dyn ObjectStore>,
        path: object_store::path::Path,
        /// All of it, once its server would not give a part.
        whole: Mutex<Option<Bytes>>,
    },
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.name, self.bytes)
    }
}

impl Source {
    /// A file of the local file system.
    pub fn local(meta: FileMeta, files: Arc<dyn Disk>) -> Self {
        let mut hasher = DefaultHasher::new();
        meta.path.hash(&mut hasher);
        meta.bytes.hash(&mut hasher);
        meta.modified.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().hash(&mut hasher);
        Self {
            name: meta.path.display().to_string(),
            bytes: meta.bytes,
            version: hasher.finish(),
            place: SourcePlace::Local { files, path: meta.path },
        }
    }

    /// What came through a pipe.
    pub fn held(name: String, bytes: Vec<u8>) -> Self {
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        let length = bytes.len() as u64;
        Self { name, bytes: length, version: hasher.finish(), place: SourcePlace::Held(Bytes::from(bytes)) }
    }

    /// An object of an object store; `name` is its URL.
    pub fn object(name: String, meta: ObjectMeta, store: Arc<dyn ObjectStore>) -> Self {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        meta.size.hash(&mut hasher);
        meta.e_tag.hash(&mut hasher);
        meta.version.hash(&mut hasher);
        meta.last_modified.timestamp_nanos_opt().hash(&mut hasher);
        let place = SourcePlace::Object { store, path: meta.location, whole: Mutex::default() };
        Self { name, bytes: meta.size, version: hasher.finish(), place }
    }

    /// True if reading it blocks a thread rather than waiting for a network.
    pub fn is_local(&self) -> bool {
        matches!(self.place, SourcePlace::Local { .. } | SourcePlace::Held(_))
    }

    /// An error about this file.
    pub fn error(&self, what: impl fmt::Display) -> Error {
        Error::file(format!("{}: {what}", self.name))
    }

    /// The same error, with the file's name in front and the kind that says "repair the file".
    pub fn blame(&self, error: Error) -> Error {
        match error.kind() {
            ErrorKind::Cancelled | ErrorKind::Resource | ErrorKind::Bug | ErrorKind::Unsupported => {
                error.context(&self.name)
            }
            _ => self.error(error.message()),
        }
    }

    /// The I/O that brings these ranges into memory and hands them, in this order, to `finish`.
    pub fn fetch(
        self: &Arc<Self>,
        ranges: Vec<Range<u64>>,
        finish: impl FnOnce(Vec<Bytes>) -> Result<Fetched> + Send + 'static,
    ) -> Fetch {
        let source = self.clone();
        if self.is_local() {
            return Fetch::Blocking(Box::new(move || finish(source.read_local(&ranges)?)));
        }
        Fetch::Waiting(Box::pin(async move { finish(source.read_object(&ranges).await?) }))
    }

    /// Like [`fetch`](Self::fetch), with each range in memory of its own: none keeps what lies between them, nor the
    /// others.
    pub fn fetch_apart(
        self: &Arc<Self>,
        ranges: Vec<Range<u64>>,
        finish: impl FnOnce(Vec<Bytes>) -> Result<Fetched> + Send + 'static,
    ) -> Fetch {
        let source = self.clone();
        if self.is_local() {
            return Fetch::Blocking(Box::new(move || finish(source.read_local_apart(&ranges)?)));
        }
        Fetch::Waiting(Box::pin(async move {
            let read = source.read_object(&ranges).await?;
            finish(read.iter().map(|bytes| Bytes::copy_from_slice(bytes)).collect())
        }))
    }

    /// Like [`fetch`](Self::fetch) for one range, of which the end is not known: reads `beyond` more bytes, and twice
    /// as many again, until `enough` or the file ends. More than `beyond_max` is an error.
    pub fn fetch_until(
        self: &Arc<Self>,
        range: Range<u64>,
        beyond: u64,
        beyond_max: u64,
        enough: impl Fn(&[u8]) -> bool + Send + 'static,
        finish: impl FnOnce(Bytes) -> Result<Fetched> + Send + 'static,
    ) -> Fetch {
        let source = self.clone();
        let longer = move |source: &Self, beyond: u64| {
            if beyond > beyond_max {
                return Err(source.error(format!("a record is longer than {beyond_max} bytes")));
            }
            Ok(range.start..range.end.saturating_add(beyond).min(source.bytes))
        };
        let one = |mut parts: Vec<Bytes>| parts.pop().ok_or_else(|| Error::bug("a read of one range gave none"));
        if self.is_local() {
            return Fetch::Blocking(Box::new(move || {
                let mut beyond = beyond;
                loop {
                    let range = longer(&source, beyond)?;
                    let last = range.end == source.bytes;
                    let bytes = one(source.read_local(&[range])?)?;
                    if last || enough(&bytes) {
                        return finish(bytes);
                    }
                    beyond *= 2;
                }
            }));
        }
        Fetch::Waiting(Box::pin(async move {
            let mut beyond = beyond;
            loop {
                let range = longer(&source, beyond)?;
                let last = range.end == source.bytes;
                let bytes = one(source.read_object(&[range]).await?)?;
                if last || enough(&bytes) {
                    return finish(bytes);
                }
                beyond *= 2;
            }
        }))
    }

    /// Reads ranges now, blocking the calling thread: while a table is opened or planned. While it is scanned, only
    /// local files are read so, where memory is short.
    pub fn read_now(self: &Arc<Self>, ranges: Vec<Range<u64>>) -> Result<Vec<Bytes>> {
        if self.is_local() {
            return self.read_local(&ranges);
        }
        let source = self.clone();
        wait(async move { source.read_object(&ranges).await })
    }

    /// Reads one range now.
    pub fn read_one_now(self: &Arc<Self>, range: Range<u64>) -> Result<Bytes> {
        let mut read = self.read_now(vec![range])?;
        read.pop().ok_or_else(|| Error::bug("a read of one range gave none"))
    }

    fn check(&self, ranges: &[Range<u64>]) -> Result<()> {
        match ranges.iter().find(|range| range.end > self.bytes || range.start > range.end) {
            None => Ok(()),
            Some(range) => Err(self.error(format!(
                "the bytes {} to {} are wanted, but the file has {}; it is truncated or corrupt",
                range.start, range.end, self.bytes
            ))),
        }
    }

    fn read_local(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.check(ranges)?;
        let joined = join(ranges);
        let read = self.read_local_apart(&joined)?;
        cut(ranges, &joined.into_iter().zip(read).collect::<Vec<_>>())
    }

    fn read_local_apart(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.check(ranges)?;
        let (files, path) = match &self.place {
            SourcePlace::Local { files, path } => (files, path),
            SourcePlace::Held(bytes) => return cut(ranges, &[(0..self.bytes, bytes.clone())]),
            SourcePlace::Object { .. } => return Err(Error::bug("an object was read as a local file")),
        };
        let failed = |error: std::io::Error| self.error(describe_io(&error));
        let file = self.open_local(files.as_ref(), path)?;
        let read = ranges.iter().map(|range| {
            let mut buffer = vec![0u8; (range.end - range.start) as usize];
            file.read_exact_at(&mut buffer, range.start).map_err(failed)?;
            Ok(Bytes::from(buffer))
        });
        read.collect()
    }

    fn open_local(&self, files: &dyn Disk, path: &Path) -> Result<Arc<dyn DiskFile>> {
        let failed = |error: std::io::Error| self.error(describe_io(&error));
        let file = files.open(path, OpenMode::READ).map_err(failed)?;
        let bytes = file.bytes().map_err(failed)?;
        if bytes == self.bytes { Ok(file) } else { Err(self.changed(bytes)) }
    }

    async fn read_object(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let SourcePlace::Object { store, path, whole } = &self.place else {
            return Err(Error::bug("a local file was read as an object"));
        };
        self.check(ranges)?;
        let wanted = join(ranges);
        // Whoever comes while the whole file is read waits here.
        let kept = whole.lock().await.clone();
        if let Some(all) = kept {
            return cut(ranges, &[(0..self.bytes, all)]);
        }
        let read = match store.get_ranges(path, &wanted).await {
            Err(object_store::Error::NotSupported { .. }) => {
                let all = self.read_whole(store.as_ref(), path, whole).await?;
                return cut(ranges, &[(0..self.bytes, all)]);
            }
            read => read.map_err(|error| store_error(&self.name, &error))?,
        };
        let mut joined = Vec::with_capacity(read.len());
        for (range, bytes) in wanted.into_iter().zip(read) {
            if bytes.len() as u64 != range.end - range.start {
                return Err(self.error(format!(
                    "the bytes {} to {} were asked for, but only {} came; it changed since it was opened",
                    range.start,
                    range.end,
                    bytes.len()
                )));
            }
            joined.push((range, bytes));
        }
        cut(ranges, &joined)
    }

    async fn read_whole(
        &self,
        store: &dyn ObjectStore,
        path: &object_store::path::Path,
        whole: &Mutex<Option<Bytes>>,
    ) -> Result<Bytes> {
        let mut kept = whole.lock().await;
        if let Some(all) = &*kept {
            return Ok(all.clone());
        }
        if self.bytes > WHOLE_BYTES_MAX {
            return Err(Error::resource(format!(
                "{}: its server gives no parts of files, and as a whole it has {} bytes, which is too much",
                self.name, self.bytes
            ))
            .with_hint("download it first"));
        }
        let failed = |error| store_error(&self.name, &error);
        let all = store.get(path).await.map_err(failed)?.bytes().await.map_err(failed)?;
        if all.len() as u64 != self.bytes {
            return Err(self.changed(all.len() as u64));
        }
        Ok(kept.insert(all).clone())
    }

    fn changed(&self, bytes: u64) -> Error {
        self.error(format!("the file changed since it was opened: it had {} bytes and now has {bytes}", self.bytes))
            .with_hint("run the statement again to read the new content")
    }
}

impl BufferedFile for Source {
    fn open(&self) -> Result<Arc<dyn DiskFile>> {
        match &self.place {
            SourcePlace::Local { files, path } => self.open_local(files.as_ref(), path),
            SourcePlace::Held(_) | SourcePlace::Object { .. } => {
                Err(Error::bug("what is no local file was read as one"))
            }
        }
    }

    fn error(&self, error: &std::io::Error) -> Error {
        self.error(describe_io(error))
    }
}

/// What an operating system error means, in words.
pub(crate) fn describe_io(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file or folder".to_owned(),
        std::io::ErrorKind::PermissionDenied => "reading it is not permitted".to_owned(),
        std::io::ErrorKind::UnexpectedEof => "it ends earlier than expected; it is truncated".to_owned(),
        _ => format!("it cannot be read: {error}"),
    }
}

/// The ranges sorted, with near ones joined.
fn join(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut sorted = ranges.iter().filter(|range| !range.is_empty()).cloned().collect::<Vec<_>>();
    sorted.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::with_capacity(sorted.len());
    for range in sorted {
        match joined.last_mut() {
            Some(last)
                if range.start <= last.end.saturating_add(GAP_BYTES_MAX)
                    && (range.end <= last.end
                        || range.end - last.start <= READ_BYTES_MAX
                        || range.start < last.end) =>
            {
                last.end = last.end.max(range.end);
            }
            _ => joined.push(range),
        }
    }
    joined
}

/// The wanted ranges out of the joined ones.
fn cut(ranges: &[Range<u64>], joined: &[(Range<u64>, Bytes)]) -> Result<Vec<Bytes>> {
    ranges
        .iter()
        .map(|range| {
            if range.is_empty() {
                return Ok(Bytes::new());
            }
            let after = joined.partition_point(|(read, _)| read.start <= range.start);
            match after.checked_sub(1).map(|index| &joined[index]) {
                Some((read, bytes)) if read.end >= range.end => {
                    Ok(bytes.slice((range.start - read.start) as usize..(range.end - read.start) as usize))
                }
                _ => Err(Error::bug("a wanted range is in none of the joined ones")),
            }
        })
        .collect()
}

/// Runs a future to its end on the calling thread: for opening tables in object stores. Works inside and outside of
/// another runtime, because the future runs on a thread and a runtime of its own.
pub(crate) fn wait<T: Send + 'static>(future: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    let thread = std::thread::Builder::new().name("diligence-open".to_owned()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Error::resource(format!("no runtime for reading an object store: {error}")))?;
        runtime.block_on(future)
    });
    let thread = thread.map_err(|error| Error::resource(format!("no thread for reading an object store: {error}")))?;
    thread.join().unwrap_or_else(|_| Err(Error::bug("opening an object store panicked")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_ranges_are_read_together_and_cut_apart() {
        let near = [100..200, 0..50, 300..300, 1_000_000..1_000_010];
        let joined = join(&near);
        assert_eq!(joined, vec![0..200, 1_000_000..1_000_010]);
        let bytes = joined
            .iter()
            .map(|range| (range.clone(), Bytes::from((range.start..range.end).map(|b| b as u8).collect::<Vec<_>>())))
            .collect::<Vec<_>>();
        let cut = cut(&near, &bytes).unwrap();
        assert_eq!(cut[0].len(), 100);
        assert_eq!(cut[0][0], 100);
        assert_eq!(cut[1][49], 49);
        assert!(cut[2].is_empty());
        assert_eq!(cut[3].len(), 10);
    }

    #[test]
    fn a_joined_read_is_bounded() {
        let far = [0..READ_BYTES_MAX, READ_BYTES_MAX..READ_BYTES_MAX + 10];
        assert_eq!(join(&far).len(), 2);
    }
}
