//! A disk of which a chosen operation goes wrong: for tests.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::{Access, Disk, DiskFile, FileMeta, OpenMode};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// The operation, if it takes space, and all later ones that do fail with ENOSPC, until [`FaultyDisk::heal`].
    Full,
    /// The operation fails with EIO.
    Broken,
    /// The operation and all later ones fail with EIO, until [`FaultyDisk::heal`]: the disk is gone.
    Gone,
    /// Half of the bytes are read or written, and the operation says so. Others than reads and writes are done.
    Short,
    /// The operation takes so long.
    Slow(Duration),
}

/// Another disk of which an operation goes wrong. Operations are counted from 0: all calls of [`Disk`] and of
/// [`DiskFile`]. Clones are the same disk.
#[derive(Clone, Debug)]
pub struct FaultyDisk {
    inner: Arc<dyn Disk>,
    faults: Arc<Faults>,
}

#[derive(Debug)]
struct Faults {
    fault: Option<(DiskFault, u64)>,
    is_healed: AtomicBool,
    operations: AtomicU64,
    /// What the operation was that first went wrong.
    first: Mutex<Option<String>>,
}

impl FaultyDisk {
    /// A disk whose operation number `at` goes wrong.
    pub fn failing(inner: Arc<dyn Disk>, fault: DiskFault, at: u64) -> Self {
        Self::new(inner, Some((fault, at)))
    }

    /// A disk that only counts.
    pub fn counting(inner: Arc<dyn Disk>) -> Self {
        Self::new(inner, None)
    }

    fn new(inner: Arc<dyn Disk>, fault: Option<(DiskFault, u64)>) -> Self {
        let faults = Faults { fault, is_healed: false.into(), operations: AtomicU64::new(0), first: Mutex::new(None) };
        Self { inner, faults: Arc::new(faults) }
    }

    /// Operations so far.
    pub fn operations(&self) -> u64 {
        self.faults.operations.load(Ordering::SeqCst)
    }

    /// What the operation was that first went wrong, for messages of tests; `None` if none has.
    pub fn first_fault(&self) -> Option<String> {
        self.faults.first.lock().clone()
    }

    /// Nothing goes wrong any more.
    pub fn heal(&self) {
        self.faults.is_healed.store(true, Ordering::SeqCst);
    }
}

/// What an operation does to the disk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// It takes space.
    Takes,
    /// It reads or writes bytes, and takes space in the second case.
    Moves { takes: bool },
    /// Neither.
    Other,
}

impl Faults {
    /// Counts an operation. Fails if it is to fail; true if it is to be short.
    fn operate(&self, what: &str, path: &Path, effect: Effect) -> io::Result<bool> {
        let now = self.operations.fetch_add(1, Ordering::SeqCst);
        let fault = self.fault.filter(|_| !self.is_healed.load(Ordering::SeqCst));
        let Some((fault, at)) = fault.filter(|(_, at)| now >= *at) else { return Ok(false) };
        let takes = matches!(effect, Effect::Takes | Effect::Moves { takes: true });
        let error = match fault {
            DiskFault::Full if takes => Some(libc::ENOSPC),
            DiskFault::Gone => Some(libc::EIO),
            DiskFault::Broken if now == at => Some(libc::EIO),
            _ => None,
        };
        let is_short = fault == DiskFault::Short && now == at && matches!(effect, Effect::Moves { .. });
        let delay = match fault {
            DiskFault::Slow(delay) if now == at => Some(delay),
            _ => None,
        };
        if error.is_some() || is_short || delay.is_some() {
            self.first.lock().get_or_insert_with(|| format!("{what} {}", path.display()));
        }
        if let Some(delay) = delay {
            std::thread::sleep(delay);
        }
        error.map_or(Ok(is_short), |code| Err(io::Error::from_raw_os_error(code)))
    }
}

impl Disk for FaultyDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let effect = if mode.access == Access::CreateNew { Effect::Takes } else { Effect::Other };
        self.faults.operate("open", path, effect)?;
        let inner = self.inner.open(path, mode)?;
        Ok(Arc::new(FaultyFile { inner, path: path.to_owned(), faults: self.faults.clone() }))
    }

    fn meta(&self, path: &Path) -> io::Result<FileMeta> {
        self.faults.operate("meta", path, Effect::Other)?;
        self.inner.meta(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        self.faults.operate("list", folder, Effect::Other)?;
        self.inner.list(folder)
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        self.faults.operate("create folder", path, Effect::Takes)?;
        self.inner.create_folder(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        // A folder's entry takes space.
        self.faults.operate("rename to", to, Effect::Takes)?;
        self.inner.rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.faults.operate("link", to, Effect::Takes)?;
        self.inner.link(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.faults.operate("remove file", path, Effect::Other)?;
        self.inner.remove_file(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.faults.operate("remove folder", path, Effect::Other)?;
        self.inner.remove_folder(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.faults.operate("sync folder", folder, Effect::Other)?;
        self.inner.sync_folder(folder)
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        self.faults.operate("resolve", path, Effect::Other)?;
        self.inner.resolve(path)
    }

    fn copy_permissions(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.faults.operate("copy permissions to", to, Effect::Other)?;
        self.inner.copy_permissions(from, to)
    }
}

#[derive(Debug)]
struct FaultyFile {
    inner: Arc<dyn DiskFile>,
    path: PathBuf,
    faults: Arc<Faults>,
}

impl FaultyFile {
    fn operate(&self, what: &str, effect: Effect) -> io::Result<bool> {
        self.faults.operate(what, &self.path, effect)
    }
}

impl DiskFile for FaultyFile {
    fn bytes(&self) -> io::Result<u64> {
        self.operate("length of", Effect::Other)?;
        self.inner.bytes()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let is_short = self.operate("read", Effect::Moves { takes: false })?;
        let bytes = if is_short { buffer.len().div_ceil(2) } else { buffer.len() };
        self.inner.read_at(&mut buffer[..bytes], offset)
    }

    fn write_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        if !self.operate("write", Effect::Moves { takes: true })? {
            return self.inner.write_at(slices, offset);
        }
        let bytes = slices.iter().map(|slice| slice.len()).sum::<usize>().div_ceil(2);
        let half = slices.iter().flat_map(|slice| slice.iter().copied()).take(bytes).collect::<Vec<_>>();
        self.inner.write_at(&[IoSlice::new(&half)], offset)
    }

    fn preallocate(&self, from: u64, to: u64) -> io::Result<()> {
        self.operate("preallocate", Effect::Takes)?;
        self.inner.preallocate(from, to)
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.operate("truncate", Effect::Other)?;
        self.inner.truncate(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        // What has no place yet gets one: a full disk may show only now.
        self.operate("sync", Effect::Takes)?;
        self.inner.sync()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seams::CrashDisk;

    #[test]
    fn each_fault_does_what_it_says() {
        let path = Path::new("/x");
        // The system's number of the error of each operation, or how many bytes there were.
        let run = |fault| {
            let disk = FaultyDisk::failing(Arc::new(CrashDisk::default()), fault, 1);
            let code = |error: io::Error| error.raw_os_error().unwrap_or(-1);
            let file = disk.open(path, OpenMode::CREATE_NEW).unwrap();
            let write = || file.write_at(&[IoSlice::new(b"abc"), IoSlice::new(b"def")], 0).map_err(code);
            let answers = [write(), write(), file.read_at(&mut [0; 6], 0).map_err(code)];
            assert_eq!(disk.operations(), 4);
            assert_eq!(disk.first_fault().as_deref(), Some("write /x"));
            disk.heal();
            file.sync().unwrap();
            answers
        };
        assert_eq!(run(DiskFault::Full), [Err(libc::ENOSPC), Err(libc::ENOSPC), Ok(0)]);
        assert_eq!(run(DiskFault::Broken), [Err(libc::EIO), Ok(6), Ok(6)]);
        assert_eq!(run(DiskFault::Gone), [Err(libc::EIO); 3]);
        assert_eq!(run(DiskFault::Short), [Ok(3), Ok(6), Ok(6)]);
        assert_eq!(run(DiskFault::Slow(Duration::ZERO)), [Ok(6); 3]);
    }

    #[test]
    fn short_reads_and_writes_are_gone_on_with() {
        for at in 1..3 {
            let disk = FaultyDisk::failing(Arc::new(CrashDisk::default()), DiskFault::Short, at);
            let file = disk.open(Path::new("/x"), OpenMode::CREATE_NEW).unwrap();
            file.write_all_at(b"hello", 3).unwrap();
            let mut back = [0; 5];
            file.read_exact_at(&mut back, 3).unwrap();
            assert_eq!((&back, disk.operations()), (b"hello", 4));
        }
    }
}
