//! Files of the server that COPY reads and writes in the forms in which it talks to clients.
//!
//! All of it blocks, and runs where that is allowed. A file that is written is complete before it gets its name.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use diligence_base::{Error, Result};

/// A file that is read from its beginning to its end.
pub(crate) struct FileSource {
    file: File,
    path: PathBuf,
}

impl FileSource {
    /// Fails with code 58P01 if there is no such file, 42501 if it may not be read, 42809 if it is a directory.
    pub(crate) fn open(path: &str) -> Result<Self> {
        let path = PathBuf::from(path);
        let file = File::open(&path).map_err(|error| failed("open", &path, " for reading", &error))?;
        if file.metadata().is_ok_and(|about| about.is_dir()) {
            let error = Error::input(format!("\"{}\" is a directory", path.display())).with_code("42809");
            return Err(error.with_hint("name one file"));
        }
        Ok(Self { file, path })
    }

    /// The next bytes, at most so many, and whether they are the last.
    pub(crate) fn next(mut self, most: usize) -> Result<(Self, Bytes, bool)> {
        let mut bytes = Vec::with_capacity(most);
        let mut part = Read::by_ref(&mut self.file).take(most as u64);
        let read = part.read_to_end(&mut bytes).map_err(|error| failed("read from", &self.path, "", &error))?;
        Ok((self, Bytes::from(bytes), read < most))
    }
}

/// A file that is written beside the place where it will be. Dropped before it is finished, nothing of it is left.
pub(crate) struct FileTarget {
    file: File,
    path: PathBuf,
    /// Its name until it is complete; none if it is written in place, as pipes are.
    beside: Option<PathBuf>,
}

impl FileTarget {
    /// Fails with code 58P01 if its directory is not there, 42501 if it may not be written, 42809 if it is a directory.
    pub(crate) fn create(path: &str) -> Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let path = PathBuf::from(path);
        let about = path.metadata().ok();
        if about.as_ref().is_some_and(|about| about.is_dir()) {
            let error = Error::input(format!("\"{}\" is a directory", path.display())).with_code("42809");
            return Err(error.with_hint("name a file"));
        }
        let opened = |file: io::Result<File>| file.map_err(|error| failed("open", &path, " for writing", &error));
        if about.is_some_and(|about| !about.is_file()) {
            let file = opened(OpenOptions::new().write(true).open(&path))?;
            return Ok(Self { file, path, beside: None });
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}-{number}.partial", std::process::id()));
        let beside = PathBuf::from(name);
        let file = opened(OpenOptions::new().write(true).create_new(true).open(&beside))?;
        Ok(Self { file, path, beside: Some(beside) })
    }

    /// Adds bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| failed("write to", &self.path, "", &error))
    }

    /// Puts the file where it belongs, on the disk and not only in memory.
    pub(crate) fn finish(mut self) -> Result<()> {
        let Some(beside) = self.beside.as_ref() else { return Ok(()) };
        let directory = match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let put = || {
            self.file.sync_all()?;
            std::fs::rename(beside, &self.path)?;
            File::open(directory)?.sync_all()
        };
        let done = put();
        if done.is_ok() {
            self.beside = None;
        }
        done.map_err(|error| failed("write to", &self.path, "", &error))
    }
}

impl Drop for FileTarget {
    fn drop(&mut self) {
        if let Some(beside) = &self.beside {
            let _ = std::fs::remove_file(beside);
        }
    }
}

/// What went wrong with a file, as PostgreSQL says it.
fn failed(what: &str, path: &Path, whereto: &str, error: &io::Error) -> Error {
    let text = error.to_string();
    let reason = text.split(" (os error").next().unwrap_or(&text);
    let message = format!("could not {what} file \"{}\"{whereto}: {reason}", path.display());
    match error.kind() {
        io::ErrorKind::NotFound => Error::input(message).with_code("58P01"),
        io::ErrorKind::PermissionDenied => Error::input(message).with_code("42501"),
        _ => Error::file(message).with_code("58030"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_there_when_it_is_complete() {
        let folder = std::env::temp_dir().join(format!("copied-file-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("rows.txt");
        let name = path.to_str().unwrap();
        let mut given_up = FileTarget::create(name).unwrap();
        given_up.write(b"x").unwrap();
        drop(given_up);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        assert_eq!(FileSource::open(name).err().and_then(|error| error.code().map(str::to_owned)).unwrap(), "58P01");
        let mut target = FileTarget::create(name).unwrap();
        target.write(b"one\ntwo\n").unwrap();
        assert!(!path.exists());
        target.finish().unwrap();
        let (source, first, done) = FileSource::open(name).unwrap().next(4).unwrap();
        assert_eq!((&first[..], done), (&b"one\n"[..], false));
        let (_, second, done) = source.next(40).unwrap();
        assert_eq!((&second[..], done), (&b"two\n"[..], true));
        assert!(FileSource::open(folder.to_str().unwrap()).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
