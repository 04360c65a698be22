//! One process has a database open.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::Path;

use diligence_base::{Error, Result};

/// The name of the file that is locked.
const NAME: &str = "LOCK";

/// A folder that no other process opens as a database, as long as this value lives. The system lets go of it when the
/// process ends, however that is.
#[derive(Debug)]
pub struct FolderLock {
    file: File,
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        // To close the file is not enough: a process that is just being started has it, too, for a moment.
        let _ = self.file.unlock();
    }
}

impl FolderLock {
    /// Takes a folder that is there. Fails with kind `File` and code 55006 if another process has it.
    pub fn take(folder: &Path) -> Result<Self> {
        let path = folder.join(NAME);
        let failed = |error: std::io::Error| Error::file(format!("{}: {error}", path.display())).with_code("58030");
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = options.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = file.read_to_string(&mut holder);
                let holder = if holder.trim().is_empty() { "another process".to_owned() } else { holder };
                let message = format!("the database {} is open in {}", folder.display(), holder.trim());
                let error = Error::file(message).with_code("55006");
                return Err(error.with_hint("connect to that process, or end it first"));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let name = format!("process {}\n", std::process::id());
        file.set_len(0).and_then(|()| file.write_all(name.as_bytes())).map_err(failed)?;
        Ok(Self { file })
    }
}
