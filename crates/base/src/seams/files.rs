//! Files as a seam: what a scan needs of a file system, and nothing else.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// What is known of a file without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileMeta {
    /// Where it is.
    pub path: PathBuf,
    /// Its length in bytes.
    pub bytes: u64,
    /// When it was last changed; with the length, the file's version.
    pub modified: SystemTime,
}

/// A file opened for positioned reads. Called from several threads at once.
pub trait ReadAt: Send + Sync {
    /// Fills the whole buffer from `offset`, or fails with `UnexpectedEof`.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
    /// The length in bytes when it was opened.
    fn bytes(&self) -> u64;
}

/// A file system.
pub trait Files: Send + Sync + std::fmt::Debug {
    /// Opens a file for reading.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadAt>>;
    /// What is known of a file, following links.
    fn meta(&self, path: &Path) -> io::Result<FileMeta>;
    /// True if the path is a directory.
    fn is_dir(&self, path: &Path) -> bool;
    /// The entries of a directory, sorted by name.
    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>>;
}

/// The machine's file system.
#[derive(Debug, Default, Clone, Copy)]
pub struct LocalFiles;

struct LocalFile {
    file: std::fs::File,
    bytes: u64,
}

impl ReadAt for LocalFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.file, buffer, offset)
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Files for LocalFiles {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadAt>> {
        let file = std::fs::File::open(path)?;
        let meta = file.metadata()?;
        if meta.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory"));
        }
        Ok(Arc::new(LocalFile { bytes: meta.len(), file }))
    }

    fn meta(&self, path: &Path) -> io::Result<FileMeta> {
        let meta = std::fs::metadata(path)?;
        // Opening a pipe that nobody writes to would wait for ever.
        if meta.file_type().is_fifo() || meta.file_type().is_socket() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a pipe, not a file"));
        }
        Ok(FileMeta { path: path.to_owned(), bytes: meta.len(), modified: meta.modified()? })
    }

    fn is_dir(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let mut paths = std::fs::read_dir(directory)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<io::Result<Vec<_>>>()?;
        paths.sort();
        Ok(paths)
    }
}
