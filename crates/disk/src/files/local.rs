//! Files of the operating system: each belongs to the process that made it, and nobody finds it after that.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use diligence_base::seams::preallocate;

use super::{SLICES_MAX, TempFile, TempFiles, TempQueue};

/// How the names of temp files begin, where they have one.
pub const TEMP_FILE_PREFIX: &str = "diligence-temp-";

/// How often a name is tried again that another process has just taken for a leftover.
const NAME_TRIES: usize = 16;

/// Temp files of the machine's file systems.
///
/// A file has no name from the beginning where the file system can do that (`O_TMPFILE`). Otherwise it is named,
/// locked, and its name removed at once. Where even that fails the name stays until the file is dropped. The lock dies
/// with its process, so whoever gets the lock of a file has found a leftover. That also holds for processes in other
/// containers, whose numbers say nothing here.
#[derive(Debug, Default, Clone, Copy)]
pub struct LocalTempFiles;

struct LocalTempFile {
    file: File,
    is_direct: bool,
    /// Where it is, if its name could not be removed.
    path: Option<PathBuf>,
    /// Held by whoever writes through the page cache: the system lets one do that at a time, and the others would spin.
    writing: Mutex<()>,
}

impl TempFiles for LocalTempFiles {
    fn remove_leftovers(&self, directory: &Path) -> io::Result<usize> {
        let entries = match std::fs::read_dir(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            entries => entries?,
        };
        let mut removed = 0;
        for entry in entries {
            let entry = entry?;
            let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(TEMP_FILE_PREFIX));
            if !is_ours || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
                continue;
            }
            // What another user left cannot be opened, and is not ours to remove.
            let Ok(file) = OpenOptions::new().read(true).write(true).open(entry.path()) else { continue };
            if file.try_lock().is_ok() && std::fs::remove_file(entry.path()).is_ok() {
                removed += 1;
            }
        }
        Ok(removed)
    }

    fn create(&self, directory: &Path, direct: bool) -> io::Result<Arc<dyn TempFile>> {
        std::fs::create_dir_all(directory)?;
        let flags = if direct { direct_flag() } else { 0 };
        let created = match create_file(directory, flags) {
            // A file system without direct I/O says so when a file is opened.
            Err(error) if flags != 0 && error.raw_os_error() == Some(libc::EINVAL) => {
                (create_file(directory, 0)?, false)
            }
            created => (created?, flags != 0),
        };
        let ((file, path), is_direct) = created;
        Ok(Arc::new(LocalTempFile { file, is_direct, path, writing: Mutex::new(()) }))
    }

    /// An io_uring, where the system has one and allows it.
    #[cfg(target_os = "linux")]
    fn queue(&self, depth: usize) -> io::Result<Box<dyn TempQueue>> {
        Ok(Box::new(super::ring::RingQueue::new(depth)?))
    }
}

fn direct_flag() -> i32 {
    #[cfg(target_os = "linux")]
    return libc::O_DIRECT;
    #[cfg(not(target_os = "linux"))]
    return 0;
}

/// A file, and its path if it keeps its name.
fn create_file(directory: &Path, flags: i32) -> io::Result<(File, Option<PathBuf>)> {
    #[cfg(target_os = "linux")]
    {
        let nameless =
            OpenOptions::new().read(true).write(true).mode(0o600).custom_flags(flags | libc::O_TMPFILE).open(directory);
        match nameless {
            Ok(file) => return Ok((file, None)),
            Err(error) if is_unsupported(&error) || error.kind() == io::ErrorKind::IsADirectory => {}
            Err(error) => return Err(error),
        }
    }
    create_named(directory, flags)
}

fn create_named(directory: &Path, flags: i32) -> io::Result<(File, Option<PathBuf>)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    for _ in 0..NAME_TRIES {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!("{TEMP_FILE_PREFIX}{}-{number}", std::process::id()));
        let opened =
            OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).custom_flags(flags).open(&path);
        let file = match opened {
            // A leftover of a process that had our number and could not be removed.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(error) => {
                // Where direct I/O is refused the file has been made all the same.
                if flags != 0 && error.raw_os_error() == Some(libc::EINVAL) {
                    let _ = std::fs::remove_file(&path);
                }
                return Err(error);
            }
            Ok(file) => file,
        };
        match file.try_lock() {
            Ok(()) => {}
            // Another process has found it before it was locked, takes it for a leftover and removes it.
            Err(TryLockError::WouldBlock) => continue,
            // A file system without locks: the name is removed now or never found out about.
            Err(TryLockError::Error(_)) => {}
        }
        let keeps_name = std::fs::remove_file(&path).is_err_and(|error| error.kind() != io::ErrorKind::NotFound);
        return Ok((file, keeps_name.then_some(path)));
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "other processes take the names of all new temp files"))
}

fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL))
}

impl TempFile for LocalTempFile {
    fn is_direct(&self) -> bool {
        self.is_direct
    }

    fn is_named(&self) -> bool {
        self.path.is_some()
    }

    fn grow(&self, from: u64, to: u64) -> io::Result<()> {
        let grown = match preallocate(&self.file, from, to) {
            // Then the file has holes, and a full disk shows when they are written.
            Err(error) if is_unsupported(&error) => self.file.set_len(to),
            grown => grown,
        };
        // What was taken before the disk was full is given back.
        grown.inspect_err(|_| drop(self.file.set_len(from)))
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let Ok(offset) = libc::off_t::try_from(offset) else { return Err(io::Error::from_raw_os_error(libc::EFBIG)) };
        let count = slices.len().min(SLICES_MAX) as i32;
        let _one = (!self.is_direct).then(|| self.writing.lock());
        // SAFETY: `IoSlice` has the layout of `iovec` (its documentation promises so); the slices are borrowed for the
        // call.
        let written = unsafe { libc::pwritev(self.file.as_raw_fd(), slices.as_ptr().cast(), count, offset) };
        usize::try_from(written).map_err(|_| io::Error::last_os_error())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}

impl Drop for LocalTempFile {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(test: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("diligence-seam-{}-{test}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        path
    }

    #[test]
    fn a_temp_file_is_found_by_nobody_and_reads_back_what_was_written() {
        let directory = directory("round");
        for direct in [false, true] {
            let file = LocalTempFiles.create(&directory, direct).unwrap();
            assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0, "no name");
            file.grow(0, 1 << 20).unwrap();
            if !file.is_direct() {
                let written = file.write_at(&[IoSlice::new(b"one"), IoSlice::new(b"two")], 4096).unwrap();
                assert_eq!(written, 6);
                let mut back = [0; 6];
                assert_eq!(file.read_at(&mut back, 4096).unwrap(), 6);
                assert_eq!(&back, b"onetwo");
            }
            assert_eq!(file.read_at(&mut [0; 10], 1 << 20).unwrap(), 0, "the end");
            file.truncate(4096).unwrap();
            assert_eq!(file.read_at(&mut [0; 10], 4096).unwrap(), 0);
        }
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn leftovers_go_and_files_of_the_living_stay() {
        let directory = directory("leftovers");
        assert_eq!(LocalTempFiles.remove_leftovers(&directory).unwrap(), 0, "no directory");
        std::fs::create_dir_all(&directory).unwrap();
        // As of a process that could not remove the name of its file: one that lives and one that was killed.
        let living = directory.join(format!("{TEMP_FILE_PREFIX}1-0"));
        let lock = File::create(&living).unwrap();
        lock.lock().unwrap();
        std::fs::write(directory.join(format!("{TEMP_FILE_PREFIX}2-0")), "left").unwrap();
        std::fs::write(directory.join("somebody else's"), "stays").unwrap();
        assert_eq!(LocalTempFiles.remove_leftovers(&directory).unwrap(), 1);
        assert!(living.exists() && directory.join("somebody else's").exists());
        drop(lock);
        assert_eq!(LocalTempFiles.remove_leftovers(&directory).unwrap(), 1);
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_named_file_loses_its_name_at_once_or_when_it_is_dropped() {
        let directory = directory("named");
        std::fs::create_dir_all(&directory).unwrap();
        let (file, path) = create_named(&directory, 0).unwrap();
        assert!(path.is_none() && std::fs::read_dir(&directory).unwrap().count() == 0);
        // As on a file system that does not remove the names of open files.
        let kept = directory.join(format!("{TEMP_FILE_PREFIX}3-0"));
        std::fs::write(&kept, "").unwrap();
        drop(LocalTempFile { file, is_direct: false, path: Some(kept.clone()), writing: Mutex::new(()) });
        assert!(!kept.exists());
        std::fs::remove_dir_all(directory).unwrap();
    }
}
