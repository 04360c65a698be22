//! One process has a database open, and others read it as it was at its last checkpoint.
//!
//! ```text
//!   LOCK      locked by the process that has the database; its number, and behind that where it can be spoken to
//!   READERS   locked together by all that read; who has the database removes no segment meanwhile
//! ```

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

use diligence_base::{Error, Result};
use parking_lot::Mutex;

/// The name of the file that is locked.
const NAME: &str = "LOCK";
/// The name of the file that readers lock together.
const READERS: &str = "READERS";
/// What stands before the place where the process can be spoken to.
const DOOR: &str = "door ";

/// A folder that no other process opens as a database, as long as this value lives. The system lets go of it when the
/// process ends, however that is.
#[derive(Debug)]
pub struct FolderLock {
    file: Mutex<File>,
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        // To close the file is not enough: a process that is just being started has it, too, for a moment.
        let _ = self.file.get_mut().unlock();
    }
}

/// The process that has a database open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// How messages name it: `process 4711`.
    pub process: String,
    /// The URL at which it can be spoken to, in PostgreSQL's protocol; `None` if it has no door.
    pub door: Option<String>,
}

impl Holder {
    /// What a file says that somebody has locked.
    fn of(text: &str) -> Self {
        let mut lines = text.lines();
        let process = lines.next().map(str::trim).filter(|process| !process.is_empty());
        let process = process.unwrap_or("another process").to_owned();
        Self { process, door: lines.find_map(|line| line.strip_prefix(DOOR)).map(|door| door.trim().to_owned()) }
    }

    /// Who has a folder; `None` if nobody has. Fails with kind `File` and code 58030 if that cannot be told.
    pub fn of_folder(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(NAME);
        let Ok(mut file) = File::open(&path) else { return Ok(None) };
        match file.try_lock_shared() {
            Ok(()) => {
                let _ = file.unlock();
                Ok(None)
            }
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let _ = file.read_to_string(&mut text);
                Ok(Some(Self::of(&text)))
            }
            Err(TryLockError::Error(error)) => Err(failed(&path, &error)),
        }
    }
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    Error::file(format!("{}: {error}", path.display())).with_code("58030")
}

impl FolderLock {
    /// Takes a folder that is there. Fails with kind `File` and code 55006 if another process has it.
    pub fn take(folder: &Path) -> Result<Self> {
        let path = folder.join(NAME);
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = options.map_err(|error| failed(&path, &error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let _ = file.read_to_string(&mut text);
                let holder = Holder::of(&text).process;
                let message = format!("the database {} is open in {holder}", folder.display());
                let error = Error::file(message).with_code("55006");
                return Err(error.with_hint("connect to that process, or end it first"));
            }
            Err(TryLockError::Error(error)) => return Err(failed(&path, &error)),
        }
        let lock = Self { file: Mutex::new(file) };
        lock.says("").map_err(|error| failed(&path, &error))?;
        Ok(lock)
    }

    /// Says where the process can be spoken to: a URL. Fails with kind `File` if it cannot be written.
    pub fn has_door(&self, url: &str) -> Result<()> {
        self.says(&format!("{DOOR}{url}\n")).map_err(|error| failed(Path::new(NAME), &error))
    }

    fn says(&self, more: &str) -> std::io::Result<()> {
        let mut file = self.file.lock();
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(format!("process {}\n{more}", std::process::id()).as_bytes())
    }
}

/// What parts those who read a folder from the one that removes files there.
#[derive(Debug)]
pub struct ReadersLock {
    file: File,
}

impl ReadersLock {
    /// That of a folder; nobody has it yet. Fails with kind `File` if it cannot be made.
    pub fn of(folder: &Path) -> Result<Self> {
        let path = folder.join(READERS);
        let made = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let file = made.or_else(|_| File::open(&path)).map_err(|error| failed(&path, &error))?;
        Ok(Self { file })
    }

    /// Reads, as long as the value lives: no file goes. Waits while some are removed. Fails with kind `File`.
    pub fn read(self) -> Result<Self> {
        self.file.lock_shared().map_err(|error| failed(Path::new(READERS), &error))?;
        Ok(self)
    }

    /// Does something if nobody reads, and nobody begins to meanwhile; `None` if somebody reads.
    pub fn alone<T>(&self, body: impl FnOnce() -> T) -> Option<T> {
        self.file.try_lock().ok()?;
        let done = body();
        let _ = self.file.unlock();
        Some(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_says_who_has_it_and_where() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Holder::of_folder(folder.path()).unwrap(), None);
        let lock = FolderLock::take(folder.path()).unwrap();
        let process = format!("process {}", std::process::id());
        let holder = |door: Option<&str>| Some(Holder { process: process.clone(), door: door.map(str::to_owned) });
        assert_eq!(Holder::of_folder(folder.path()).unwrap(), holder(None));
        lock.has_door("postgres://%2Ftmp:5433/diligence").unwrap();
        assert_eq!(Holder::of_folder(folder.path()).unwrap(), holder(Some("postgres://%2Ftmp:5433/diligence")));
        assert_eq!(FolderLock::take(folder.path()).unwrap_err().code(), Some("55006"));
        drop(lock);
        assert_eq!(Holder::of_folder(folder.path()).unwrap(), None);
    }

    #[test]
    fn nothing_is_removed_while_somebody_reads() {
        let folder = tempfile::tempdir().unwrap();
        let writer = ReadersLock::of(folder.path()).unwrap();
        assert_eq!(writer.alone(|| 7), Some(7));
        let readers = [(); 2].map(|()| ReadersLock::of(folder.path()).unwrap().read().unwrap());
        assert_eq!(writer.alone(|| 7), None);
        drop(readers);
        assert_eq!(writer.alone(|| 7), Some(7));
    }
}
