//! New files of a folder: written where no table sees them, then moved among the others, or into the place of one.
//!
//! ```text
//! folder/_insert-<number>/year=2024/<any name>.parquet  --commit-->      folder/year=2024/part-<number>.parquet
//! folder/_insert-<number>/<any name>                    --commit_as-->   folder/name.parquet
//! ```
//!
//! Names that begin with `_` are part of no table. Writing goes to the machine's file system, as COPY's does; this only
//! makes room and moves.
//!
//! Invariants: a file appears whole or not at all; what is not committed is removed, at the latest when the last writer
//! that holds a [`StagingGuard`] has ended; no file is overwritten but by `commit_as`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use diligence_base::{Error, Result};

/// Files that are being written for a folder. Dropped without [`commit`](Self::commit), they are removed.
#[derive(Debug)]
pub struct Staging {
    room: Arc<Room>,
    /// Differs from that of any other staging, and grows with time.
    number: String,
    ending: String,
}

/// A writer's hold on a staging folder. A writer that is given up may still be busy in it, or make it anew: when the
/// last guard is dropped, the folder is cleared again.
#[derive(Clone, Debug)]
pub struct StagingGuard {
    _room: Arc<Room>,
}

/// The folder of a staging. Dropped, it is cleared.
#[derive(Debug)]
struct Room {
    /// Where the files belong.
    folder: PathBuf,
    /// Where they are until then.
    path: PathBuf,
    /// Whether the folder was there before.
    had_folder: bool,
    /// Whether it stays as it is, because it holds files that could not be moved back.
    kept: AtomicBool,
}

impl Staging {
    /// Room for new files of a folder, whose names will have this ending. Nothing is made yet.
    pub fn new(folder: &Path, ending: String) -> Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let folder = std::path::absolute(folder).map_err(|error| failed("finding", folder, &error))?;
        let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let number = format!("{now_ns:016x}-{:x}-{count:x}", std::process::id());
        let path = folder.join(format!("_insert-{number}"));
        let had_folder = folder.is_dir();
        let room = Room { folder, path, had_folder, kept: AtomicBool::new(false) };
        Ok(Self { room: Arc::new(room), number, ending })
    }

    /// The folder to write into. It is not there before [`make`](Self::make). Files may have any name, and be in
    /// folders in it.
    pub fn path(&self) -> &Path {
        &self.room.path
    }

    /// For a writer, as long as it may be busy in the folder.
    pub fn guard(&self) -> StagingGuard {
        StagingGuard { _room: self.room.clone() }
    }

    /// Makes the folder to write into, so that one that cannot be written to is known before the work.
    pub fn make(&self) -> io::Result<()> {
        fs::create_dir_all(self.path())
    }

    /// Moves the one file `written` to `target`, in the place of what is there.
    pub fn commit_as(self, written: &str, target: &Path) -> io::Result<()> {
        // Whoever made it a link, or gave it permissions, meant it.
        let target = match fs::canonicalize(target) {
            Ok(target) => target,
            Err(_) => target.to_owned(),
        };
        let written = self.path().join(written);
        if let Ok(old) = fs::metadata(&target) {
            fs::set_permissions(&written, old.permissions())?;
        }
        fs::rename(written, target)
    }

    /// Moves the files to their folder. `replaced` are files of the folder that give way to them: on failure they are
    /// where they were.
    pub fn commit(self, replaced: &[PathBuf]) -> Result<()> {
        let mut written = Vec::new();
        files_below(self.path(), &mut written).map_err(|error| failed("listing", self.path(), &error))?;
        written.sort();
        let mut moves = Vec::with_capacity(replaced.len() + written.len());
        let trash = self.path().join("_replaced");
        for (index, path) in replaced.iter().enumerate() {
            let path = std::path::absolute(path).map_err(|error| failed("finding", path, &error))?;
            moves.push((path, trash.join(index.to_string())));
        }
        for (index, path) in written.into_iter().enumerate() {
            let below = path.strip_prefix(self.path()).ok().and_then(Path::parent).unwrap_or(Path::new(""));
            let name = match index {
                0 => format!("part-{}{}", self.number, self.ending),
                _ => format!("part-{}-{index}{}", self.number, self.ending),
            };
            let target = self.room.folder.join(below).join(name);
            moves.push((path, target));
        }
        for (done, (from, to)) in moves.iter().enumerate() {
            if let Err(error) = rename(from, to) {
                // What cannot be moved back stays in the staging folder, which then is kept.
                let undone = moves[..done].iter().rev().try_for_each(|(from, to)| rename(to, from));
                let moved = failed("moving", from, &error);
                return Err(match undone {
                    Ok(()) => moved,
                    Err(_) => {
                        self.room.kept.store(true, Ordering::Relaxed);
                        moved.with_hint(format!("files of the table are left in {}", self.path().display()))
                    }
                });
            }
        }
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        self.room.clear();
    }
}

impl Room {
    fn clear(&self) {
        if self.kept.load(Ordering::Relaxed) {
            return;
        }
        // It may not be there, or a writer may put a file into it meanwhile: then it is cleared again.
        let _ = fs::remove_dir_all(&self.path);
        if !self.had_folder {
            // Only if it is empty: then nothing was inserted.
            let _ = fs::remove_dir(&self.folder);
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.clear();
    }
}

fn rename(from: &Path, to: &Path) -> io::Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::rename(from, to)
}

fn files_below(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            files_below(&path, found)?;
        } else {
            found.push(path);
        }
    }
    Ok(())
}

fn failed(what: &str, path: &Path, error: &io::Error) -> Error {
    Error::file(format!("{}: {what} it failed: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut found = Vec::new();
        files_below(folder, &mut found).unwrap();
        found.sort();
        found.iter().map(|path| path.strip_prefix(folder).unwrap().display().to_string()).collect()
    }

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn files_appear_when_committed_and_else_never() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("t");
        let staging = Staging::new(&folder, ".csv".to_owned()).unwrap();
        write(&staging.path().join("y=1/a.csv"), "1");
        write(&staging.path().join("b"), "2");
        let number = staging.number.clone();
        staging.commit(&[]).unwrap();
        assert_eq!(names(&folder), [format!("part-{number}.csv"), format!("y=1/part-{number}-1.csv")]);
        let dropped = Staging::new(&folder, ".csv".to_owned()).unwrap();
        write(&dropped.path().join("a.csv"), "3");
        drop(dropped);
        assert_eq!(names(&folder).len(), 2);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
        let elsewhere = root.path().join("u");
        let dropped = Staging::new(&elsewhere, String::new()).unwrap();
        write(&dropped.path().join("a"), "3");
        drop(dropped);
        assert!(!elsewhere.exists());
    }

    #[test]
    fn what_a_late_writer_leaves_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let staging = Staging::new(&root.path().join("t"), String::new()).unwrap();
        let late = staging.path().join("b=1/late");
        write(&staging.path().join("early"), "1");
        let (guard, other) = (staging.guard(), staging.guard());
        drop(staging);
        assert!(!root.path().join("t").exists());
        write(&late, "2");
        drop(guard);
        assert!(late.exists(), "the other still writes");
        drop(other);
        assert!(!root.path().join("t").exists());
    }

    #[test]
    fn one_file_takes_the_place_of_another() {
        let root = tempfile::tempdir().unwrap();
        let (file, link) = (root.path().join("a.csv"), root.path().join("link.csv"));
        write(&file, "old");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let staging = Staging::new(root.path(), String::new()).unwrap();
        staging.make().unwrap();
        write(&staging.path().join("rows"), "new");
        assert_eq!(fs::read_to_string(&file).unwrap(), "old");
        staging.commit_as("rows", &link).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(names(root.path()), ["a.csv", "link.csv"]);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(Staging::new(&file, String::new()).unwrap().make().is_err(), "a file is no folder");
    }

    #[test]
    fn replaced_files_come_back_if_the_new_ones_do_not_fit() {
        let folder = tempfile::tempdir().unwrap();
        let old = folder.path().join("old.csv");
        write(&old, "old");
        let staging = Staging::new(folder.path(), ".csv".to_owned()).unwrap();
        write(&staging.path().join("x/a.csv"), "new");
        // A file where a folder must be.
        write(&folder.path().join("x"), "");
        assert!(staging.commit(std::slice::from_ref(&old)).is_err());
        assert_eq!(names(folder.path()), ["old.csv", "x"]);
        let staging = Staging::new(folder.path(), ".csv".to_owned()).unwrap();
        write(&staging.path().join("a.csv"), "new");
        let number = staging.number.clone();
        staging.commit(&[old]).unwrap();
        assert_eq!(names(folder.path()), [format!("part-{number}.csv"), "x".to_owned()]);
    }
}
