//! Files as a seam: all that the process asks of a file system.
//!
//! ```text
//!   readers and writers of files ──▶ Disk ──▶ LocalDisk    the machine's file systems
//!                                         ├─▶ FaultyDisk   another one, with operations that fail, are short or slow
//!                                         └─▶ CrashDisk    in memory, and what a power failure leaves of it
//! ```
//!
//! What a crash leaves: a file's bytes and length as of its last [`DiskFile::sync`], an entry of a folder (a file or
//! folder that was made, renamed or removed there) as of the folder's last [`Disk::sync_folder`]. Of all that came
//! later anything may be there or not, in any order, and a write also in part. A rename is whole or not there.
//!
//! A sync that failed is not tried again: the system may have dropped what it could not write, and would say that all
//! is well the second time.

mod crash;
mod faulty;
mod local;

use std::fmt::Debug;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

pub use crash::CrashDisk;
pub use faulty::{DiskFault, FaultyDisk};
pub use local::{LocalDisk, preallocate};

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A file of bytes.
    File,
    /// A folder.
    Folder,
    /// Something else, such as a device.
    Other,
}

/// What is known of a file without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileMeta {
    /// Where it is.
    pub path: PathBuf,
    /// What it is.
    pub kind: FileKind,
    /// Its length in bytes.
    pub bytes: u64,
    /// When it was last changed; with the length, the file's version.
    pub modified: SystemTime,
}

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading a file that is there.
    Read,
    /// Reading and writing a file that is there.
    Write,
    /// Reading and writing a file that is made now; fails if there is one.
    CreateNew,
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenMode {
    /// What for.
    pub access: Access,
    /// Whether it goes past the page cache: then addresses, offsets and lengths are multiples of a page.
    pub is_direct: bool,
}

impl OpenMode {
    /// For reading, through the page cache.
    pub const READ: Self = Self { access: Access::Read, is_direct: false };
    /// For writing what is there, through the page cache.
    pub const WRITE: Self = Self { access: Access::Write, is_direct: false };
    /// A new file, through the page cache.
    pub const CREATE_NEW: Self = Self { access: Access::CreateNew, is_direct: false };

    /// The same, past the page cache.
    pub fn direct(self) -> Self {
        Self { is_direct: true, ..self }
    }
}

/// An open file. Used from several threads at once. Offsets and lengths are bytes. Every call may fail with the error
/// of the system.
pub trait DiskFile: Send + Sync + Debug {
    /// Its length now. Fails if the system does not know it.
    fn bytes(&self) -> io::Result<u64>;
    /// Reads up to a buffer from `offset` and says how many bytes; 0 is the end of the file. Fails with `Interrupted`
    /// where it is worth asking again.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes some bytes of the slices, one after another, to `offset` and says how many. Fails with `Interrupted`
    /// where it is worth asking again, with `StorageFull` if there is no room.
    fn write_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<usize>;
    /// Makes the file longer, from `from` to `to` bytes, with the space taken from the disk now where the file system
    /// can do that. After an error the file has `from` bytes.
    fn preallocate(&self, from: u64, to: u64) -> io::Result<()>;
    /// Makes the file shorter and gives the space back. Fails if the file was not opened for writing.
    fn truncate(&self, bytes: u64) -> io::Result<()>;
    /// Returns when the bytes and the length are where a crash leaves them. Says nothing about the file's name. If it
    /// fails, it is unknown which of the bytes are there.
    fn sync(&self) -> io::Result<()>;

    /// Fills the whole buffer from `offset`. Fails with `UnexpectedEof` where the file ends before.
    fn read_exact_at(&self, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.read_at(buffer, offset) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    buffer = &mut buffer[read..];
                    offset += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes all bytes to `offset`. After an error any part of them may be there.
    fn write_all_at(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write_at(&[IoSlice::new(bytes)], offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    bytes = &bytes[written..];
                    offset += written as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A file system. Used from several threads at once; every call blocks, and may fail with the error of the system.
pub trait Disk: Send + Sync + Debug {
    /// Opens a file. Fails with `IsADirectory` for a folder.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>>;
    /// What is known of a file or folder, following links. Fails for a pipe: opening one might wait for ever.
    fn meta(&self, path: &Path) -> io::Result<FileMeta>;
    /// All that comes through a pipe, or from a device, until its end. Fails if the disk has none.
    fn read_pipe(&self, path: &Path) -> io::Result<Vec<u8>> {
        let _ = path;
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Opens a pipe or a device to write into it; a pipe's reader sees its end when what is returned is dropped. Waits
    /// until a pipe has a reader. Fails if the disk has none.
    fn write_pipe(&self, path: &Path) -> io::Result<Box<dyn io::Write>> {
        let _ = path;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The entries of a folder, sorted by name. Fails with `NotFound` or `NotADirectory` if there is no folder.
    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>>;
    /// Makes a folder in one that is there. Fails with `AlreadyExists` if there is something.
    fn create_folder(&self, path: &Path) -> io::Result<()>;
    /// Gives a file or folder another path, in the place of a file there; in one step for all who look. Durable when
    /// the folder of `to` is synced. Fails if the two paths are on different file systems, and changes nothing then.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives a file a second name: both have its bytes from now on. Durable when the folder of `to` is synced. Fails
    /// with `AlreadyExists` if there is something, and where the file system has no such names or the two are on
    /// different ones.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file or link. Fails with `NotFound` if there is none, and for a folder.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes a folder in which there is nothing. Fails with `DirectoryNotEmpty` if there is something.
    fn remove_folder(&self, path: &Path) -> io::Result<()>;
    /// Returns when the folder's entries are where a crash leaves them. If it fails, it is unknown which of them are.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
    /// The absolute path of what is at a path, behind all links. Fails with `NotFound` if there is nothing.
    fn resolve(&self, path: &Path) -> io::Result<PathBuf>;
    /// Gives the file `to` the permissions of the file `from`. Fails if the process may not.
    fn copy_permissions(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// The text of a whole file. Fails with `InvalidData` if it is not UTF-8, and as opening and reading do.
    fn read_text(&self, path: &Path) -> io::Result<String> {
        let file = self.open(path, OpenMode::READ)?;
        let bytes = usize::try_from(file.bytes()?).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        let mut text = vec![0; bytes];
        file.read_exact_at(&mut text, 0)?;
        String::from_utf8(text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// Whether there is a file of bytes at a path.
    fn is_file(&self, path: &Path) -> bool {
        self.meta(path).is_ok_and(|meta| meta.kind == FileKind::File)
    }

    /// Whether there is a folder at a path.
    fn is_folder(&self, path: &Path) -> bool {
        self.meta(path).is_ok_and(|meta| meta.kind == FileKind::Folder)
    }

    /// Makes a folder and those above it, as far as they are not there. Gives those that it made, from the top. Fails
    /// with `NotADirectory` if a file is in the way.
    fn create_folders(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !self.is_folder(path);
        let missing = path.ancestors().take_while(is_missing).map(Path::to_owned).collect::<Vec<_>>();
        let mut made = Vec::with_capacity(missing.len());
        for folder in missing.into_iter().rev() {
            match self.create_folder(&folder) {
                Ok(()) => made.push(folder),
                // Another thread has made it meanwhile.
                Err(_) if self.is_folder(&folder) => {}
                // A file is where a folder should be.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    return Err(io::Error::new(io::ErrorKind::NotADirectory, "Not a directory"));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(made)
    }

    /// Removes a folder and all that is in it; links in it, but not what they lead to. Fails at the first entry that
    /// cannot be removed; those before it are gone then.
    fn remove_tree(&self, folder: &Path) -> io::Result<()> {
        for entry in self.list(folder)? {
            match self.remove_file(&entry) {
                Err(_) if self.is_folder(&entry) => self.remove_tree(&entry)?,
                removed => removed?,
            }
        }
        self.remove_folder(folder)
    }
}
