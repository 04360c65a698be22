//! The machine's file systems.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Access, Disk, DiskFile, FileKind, FileMeta, OpenMode};

/// The machine's file systems.
#[derive(Debug, Default, Clone, Copy)]
pub struct LocalDisk;

#[derive(Debug)]
struct LocalFile {
    file: File,
    is_direct: bool,
    /// Held while something is written through the page cache: the system lets one thread do that at a time, and the
    /// others would spin.
    writing: Mutex<()>,
}

/// Slices that the system takes in one call.
const SLICES_MAX: usize = 1024;

fn direct_flag() -> i32 {
    #[cfg(target_os = "linux")]
    return libc::O_DIRECT;
    #[cfg(not(target_os = "linux"))]
    return 0;
}

impl Disk for LocalDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        if mode.is_direct && direct_flag() == 0 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let mut options = OpenOptions::new();
        options.read(true).write(mode.access != Access::Read).create_new(mode.access == Access::CreateNew);
        let file = options.custom_flags(if mode.is_direct { direct_flag() } else { 0 }).open(path)?;
        // The system opens a folder for reading.
        if mode.access == Access::Read && file.metadata()?.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory"));
        }
        Ok(Arc::new(LocalFile { file, is_direct: mode.is_direct, writing: Mutex::new(()) }))
    }

    fn meta(&self, path: &Path) -> io::Result<FileMeta> {
        let meta = std::fs::metadata(path)?;
        let kind = meta.file_type();
        // Opening a pipe that nobody writes to would wait for ever.
        if kind.is_fifo() || kind.is_socket() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a pipe, not a file"));
        }
        let kind = match (kind.is_file(), kind.is_dir()) {
            (true, _) => FileKind::File,
            (_, true) => FileKind::Folder,
            _ => FileKind::Other,
        };
        Ok(FileMeta { path: path.to_owned(), kind, bytes: meta.len(), modified: meta.modified()? })
    }

    fn read_pipe(&self, path: &Path) -> io::Result<Vec<u8>> {
        // Standard input ends once: whoever asks again gets the same.
        static STANDARD_INPUT: Mutex<Option<Vec<u8>>> = Mutex::new(None);
        if path != Path::new("/dev/stdin") {
            return std::fs::read(path);
        }
        let mut held = STANDARD_INPUT.lock();
        if held.is_none() {
            let mut bytes = Vec::new();
            io::Read::read_to_end(&mut io::stdin().lock(), &mut bytes)?;
            *held = Some(bytes);
        }
        Ok(held.clone().unwrap_or_default())
    }

    fn write_pipe(&self, path: &Path) -> io::Result<Box<dyn io::Write>> {
        use std::os::fd::AsFd;
        // Not through the library's lock: whoever runs the statement may hold it.
        let output = match path.to_str() {
            Some("/dev/stdout") => io::stdout().as_fd().try_clone_to_owned()?,
            Some("/dev/stderr") => io::stderr().as_fd().try_clone_to_owned()?,
            _ => return Ok(Box::new(OpenOptions::new().write(true).open(path)?)),
        };
        Ok(Box::new(File::from(output)))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let entries = std::fs::read_dir(folder)?;
        let mut paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()?;
        paths.sort();
        Ok(paths)
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        std::fs::create_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::hard_link(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_dir(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let synced = match File::open(folder) {
            // One may write into a folder that one may not list: then there is nothing to sync by.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
            opened => opened?.sync_all(),
        };
        match synced {
            // Some file systems have no sync of folders; what they do instead is up to them.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EBADF)) => Ok(()),
            synced => synced,
        }
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        std::fs::canonicalize(path)
    }

    fn copy_permissions(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::set_permissions(to, std::fs::metadata(from)?.permissions())
    }
}

impl DiskFile for LocalFile {
    fn bytes(&self) -> io::Result<u64> {
        self.file.metadata().map(|meta| meta.len())
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

    fn preallocate(&self, from: u64, to: u64) -> io::Result<()> {
        let is_unsupported =
            |error: &io::Error| matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL));
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

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// Takes the space of a part of a file from the disk.
///
/// Fails if the disk is full, and with `EOPNOTSUPP` where the file system cannot do it.
#[cfg(target_os = "linux")]
pub fn preallocate(file: &File, from: u64, to: u64) -> io::Result<()> {
    let (Ok(from), Ok(bytes)) = (i64::try_from(from), i64::try_from(to - from)) else {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    };
    loop {
        // SAFETY: a call of the system without pointers, on a descriptor that is open.
        if unsafe { libc::fallocate(file.as_raw_fd(), 0, from, bytes) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Takes the space of a part of a file from the disk.
///
/// Fails with `EOPNOTSUPP`: only Linux has it.
#[cfg(not(target_os = "linux"))]
pub fn preallocate(_file: &File, _from: u64, _to: u64) -> io::Result<()> {
    Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_folders_are_made_moved_listed_and_removed() {
        let root = std::env::temp_dir().join(format!("diligence-local-disk-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        let below = root.join("a/b");
        assert_eq!(LocalDisk.create_folders(&below).unwrap(), [root.clone(), root.join("a"), below.clone()]);
        assert_eq!(LocalDisk.create_folders(&below).unwrap(), Vec::<PathBuf>::new());
        let file = LocalDisk.open(&below.join("x"), OpenMode::CREATE_NEW).unwrap();
        file.preallocate(0, 4096).unwrap();
        assert_eq!(file.write_at(&[IoSlice::new(b"one"), IoSlice::new(b"two")], 10).unwrap(), 6);
        file.truncate(16).unwrap();
        file.sync().unwrap();
        LocalDisk.sync_folder(&below).unwrap();
        let mut back = [0; 6];
        file.read_exact_at(&mut back, 10).unwrap();
        assert_eq!((&back, file.bytes().unwrap()), (b"onetwo", 16));
        assert_eq!(file.read_exact_at(&mut back, 11).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        let again = LocalDisk.open(&below.join("x"), OpenMode::CREATE_NEW).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        LocalDisk.rename(&below.join("x"), &root.join("y")).unwrap();
        assert_eq!(LocalDisk.list(&root).unwrap(), [root.join("a"), root.join("y")]);
        assert_eq!(LocalDisk.meta(&root.join("y")).unwrap().kind, FileKind::File);
        for mode in [OpenMode::READ, OpenMode::WRITE] {
            assert_eq!(LocalDisk.open(&root, mode).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        }
        std::os::unix::fs::symlink(&root, below.join("link")).unwrap();
        LocalDisk.remove_tree(&root.join("a")).unwrap();
        assert_eq!(LocalDisk.list(&root).unwrap(), [root.join("y")], "links are not followed");
        LocalDisk.remove_tree(&root).unwrap();
        assert!(!LocalDisk.is_folder(&root));
    }
}
