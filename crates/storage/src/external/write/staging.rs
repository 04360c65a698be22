//! New files of a folder: written where no table sees them, then moved among the others, or into the place of one.
//!
//! ```text
//! folder/_insert-<number>/year=2024/0.parquet  --commit-->      folder/year=2024/part-<number>.parquet
//! folder/_insert-<number>/0                    --commit_as-->   folder/name.parquet
//! ```
//!
//! Names that begin with `_` are part of no table.
//!
//! Invariants: a file appears whole or not at all; when a commit has returned, the files and their names are where a
//! crash leaves them, if the files were synced before. What is not committed is removed, at the latest when the last
//! writer that holds a [`StagingGuard`] has ended. No file is overwritten but by `commit_as`. Files that give way go
//! when the new ones are there: a crash in between leaves both, and one while several files are moved some of them.
//! Only files whose names new ones get go before.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use diligence_base::seams::{Disk, OpenMode};
use diligence_base::{Error, Result};
use parking_lot::Mutex;

use super::FileSet;
use super::names::FileNames;

/// Files that are being written for a folder. Dropped without [`commit`](Self::commit), they are removed.
#[derive(Debug)]
pub struct Staging {
    room: Arc<StagingFolder>,
    /// Differs from that of any other staging, and grows with time.
    number: String,
    ending: String,
    /// How the files are called, if the statement says so.
    names: Option<FileNames>,
    /// Where each file is, and in which folder of the target it belongs.
    files: Mutex<Vec<(PathBuf, PathBuf)>>,
}

/// A writer's hold on a staging folder. A writer that is given up may still be busy in it, or make it anew: when the
/// last guard is dropped, the folder is cleared again.
#[derive(Clone, Debug)]
pub struct StagingGuard {
    _room: Arc<StagingFolder>,
}

/// The folder of a staging. Dropped, it is cleared.
#[derive(Debug)]
struct StagingFolder {
    disk: Arc<dyn Disk>,
    /// Where the files belong.
    folder: PathBuf,
    /// Where they are until then.
    path: PathBuf,
    /// The folders above it that were made for it, from the top.
    made: Mutex<Vec<PathBuf>>,
    /// Whether the folder stays as it is, because it holds files that could not be moved back.
    kept: AtomicBool,
}

impl Staging {
    /// Room for new files of a folder, whose names will have this ending. Nothing is made yet. Fails with kind `File`
    /// if the process has no folder that it works in.
    pub fn new(folder: &Path, ending: String, disk: Arc<dyn Disk>) -> Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let folder = std::path::absolute(folder).map_err(|error| failed("finding", folder, &error))?;
        let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let number = format!("{now_ns:016x}-{:x}-{count:x}", std::process::id());
        let path = folder.join(format!("_insert-{number}"));
        let room = StagingFolder { disk, folder, path, made: Mutex::default(), kept: AtomicBool::new(false) };
        Ok(Self { room: Arc::new(room), number, ending, names: None, files: Mutex::default() })
    }

    /// The same, whose files are called so.
    pub fn named(mut self, names: Option<FileNames>) -> Self {
        self.names = names;
        self
    }

    /// The folder that files are written into. It is not there before [`make`](Self::make).
    pub fn path(&self) -> &Path {
        &self.room.path
    }

    /// For a writer, as long as it may be busy in the folder.
    pub fn guard(&self) -> StagingGuard {
        StagingGuard { _room: self.room.clone() }
    }

    /// Makes the folder to write into, so that one that cannot be written to is known before the work. Fails with what
    /// the disk says.
    pub fn make(&self) -> io::Result<()> {
        let made = self.room.disk.create_folders(self.path())?;
        self.room.made.lock().extend(made.into_iter().filter(|folder| folder != self.path()));
        Ok(())
    }

    /// Where to write a new file that belongs into this folder of the target; the target itself if that is empty.
    pub fn add_file(&self, below: &Path) -> PathBuf {
        let mut files = self.files.lock();
        let path = self.path().join(below).join(files.len().to_string());
        files.push((path.clone(), below.to_owned()));
        path
    }

    /// Moves the one file to `target`, in the place of what is there. Fails with what the disk says; then the target is
    /// as it was, unless the disk does not say whether it is.
    pub fn commit_as(self, target: &Path) -> io::Result<()> {
        let disk = &self.room.disk;
        let target = std::path::absolute(target)?;
        // Whoever made it a link, or gave it permissions, meant it.
        let target = disk.resolve(&target).unwrap_or(target);
        let written = self.files.lock().first().map(|(path, _)| path.clone());
        let written = written.ok_or(io::ErrorKind::NotFound)?;
        if disk.meta(&target).is_ok() {
            disk.copy_permissions(&target, &written)?;
        }
        disk.rename(&written, &target)?;
        let mut changed = self.room.changed_by_making();
        changed.extend(target.parent().map(Path::to_owned));
        changed.iter().try_for_each(|folder| disk.sync_folder(folder))
    }

    /// Writes the one file into a pipe. Fails with what the disk says.
    pub fn commit_into(self, pipe: &Path) -> io::Result<()> {
        let disk = &self.room.disk;
        let written = self.files.lock().first().map(|(path, _)| path.clone());
        let file = disk.open(&written.ok_or(io::ErrorKind::NotFound)?, OpenMode::READ)?;
        let length = file.bytes()?;
        let mut output = disk.write_pipe(pipe)?;
        let mut at = 0;
        while at < length {
            let mut piece = vec![0; PIPE_BYTES.min((length - at) as usize)];
            file.read_exact_at(&mut piece, at)?;
            output.write_all(&piece)?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    /// The folders of the target that get new files.
    fn folders(&self) -> BTreeSet<PathBuf> {
        self.files.lock().iter().map(|(_, below)| self.room.folder.join(below)).collect()
    }

    /// Moves the files to their folder. `replaced` are files of the folder that give way to them. Fails with kind
    /// `File`; then all is where it was, unless the disk refuses that, too.
    pub fn commit(self, replaced: &[PathBuf]) -> Result<()> {
        let files = std::mem::take(&mut *self.files.lock());
        let trash = self.path().join("_replaced");
        let mut old = Vec::with_capacity(replaced.len());
        for (index, path) in replaced.iter().enumerate() {
            let path = std::path::absolute(path).map_err(|error| failed("finding", path, &error))?;
            old.push((path, trash.join(index.to_string())));
        }
        let new = self.targets(files, &old);
        let names = new.iter().map(|(_, target)| target).collect::<BTreeSet<_>>();
        let (first, old): (Vec<_>, Vec<_>) = old.into_iter().partition(|(path, _)| names.contains(path));
        let mut done = Vec::with_capacity(first.len() + new.len() + old.len());
        let mut changed = self.room.changed_by_making();
        let moved = self.move_all(&first, &mut BTreeSet::new(), &mut done);
        let moved = moved.and_then(|()| self.move_all(&new, &mut changed, &mut done));
        let moved = moved.and_then(|()| self.move_all(&old, &mut BTreeSet::new(), &mut done));
        moved.map_err(|error| {
            // What cannot be moved back stays in the staging folder, which then is kept.
            match done.iter().rev().try_for_each(|(from, to)| self.room.disk.rename(to, from)) {
                Ok(()) => error,
                Err(_) => {
                    self.room.kept.store(true, Ordering::Relaxed);
                    error.with_hint(format!("files of the table are left in {}", self.path().display()))
                }
            }
        })
    }

    /// Where the new files go: names that no file has but those that give way.
    fn targets(&self, files: Vec<(PathBuf, PathBuf)>, old: &[(PathBuf, PathBuf)]) -> Vec<(PathBuf, PathBuf)> {
        let given_up = old.iter().map(|(path, _)| path).collect::<BTreeSet<_>>();
        // The number of the next file of each folder.
        let mut next = BTreeMap::<PathBuf, usize>::new();
        let mut targets = Vec::with_capacity(files.len());
        for (index, (path, below)) in files.into_iter().enumerate() {
            let folder = self.room.folder.join(below);
            let Some(names) = &self.names else {
                let name = match index {
                    0 => format!("part-{}{}", self.number, self.ending),
                    _ => format!("part-{}-{index}{}", self.number, self.ending),
                };
                targets.push((path, folder.join(name)));
                continue;
            };
            let number = next.entry(folder.clone()).or_default();
            loop {
                let target = folder.join(format!("{}{}", names.name(*number), self.ending));
                *number += 1;
                if given_up.contains(&target) || self.room.disk.meta(&target).is_err() {
                    targets.push((path, target));
                    break;
                }
            }
        }
        targets
    }

    /// Moves files, and has that where a crash leaves it: `changed` are folders that have changed before.
    fn move_all(
        &self,
        moves: &[(PathBuf, PathBuf)],
        changed: &mut BTreeSet<PathBuf>,
        done: &mut Vec<(PathBuf, PathBuf)>,
    ) -> Result<()> {
        let disk = &self.room.disk;
        for (from, to) in moves {
            let moved = |error| failed("moving", from, &error);
            let folder = to.parent().unwrap_or(&self.room.folder);
            if !folder.starts_with(self.path()) {
                let made = disk.create_folders(folder).map_err(moved)?;
                changed.extend(made.iter().filter_map(|made| made.parent()).map(Path::to_owned));
                changed.insert(folder.to_owned());
            } else {
                disk.create_folders(folder).map_err(moved)?;
                changed.extend(from.parent().into_iter().chain([folder]).map(Path::to_owned));
            }
            disk.rename(from, to).map_err(moved)?;
            done.push((from.clone(), to.clone()));
        }
        changed
            .iter()
            .try_for_each(|folder| disk.sync_folder(folder).map_err(|error| failed("syncing", folder, &error)))
    }
}

/// Bytes written into a pipe at once.
const PIPE_BYTES: usize = 1 << 20;

/// The files of a folder that give way to new ones.
#[derive(Clone, Debug)]
pub struct FolderFiles {
    /// The folder.
    pub folder: PathBuf,
    /// Whether only files in folders that get new ones give way.
    pub is_by_folder: bool,
    /// The file system.
    pub disk: Arc<dyn Disk>,
}

impl FolderFiles {
    /// The files below a folder that tables over it would have.
    pub fn files(&self, folder: &Path, is_deep: bool) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for entry in self.disk.list(folder).unwrap_or_default() {
            let name = entry.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with(['.', '_']) {
                continue;
            }
            if !self.disk.is_folder(&entry) {
                files.push(entry);
            } else if is_deep {
                files.extend(self.files(&entry, true));
            }
        }
        files
    }
}

impl FileSet for FolderFiles {
    fn add(&self, staging: Staging, _replace: bool) -> Result<()> {
        let replaced = if self.is_by_folder {
            staging.folders().iter().flat_map(|folder| self.files(folder, false)).collect::<Vec<_>>()
        } else {
            self.files(&self.folder, true)
        };
        staging.commit(&replaced)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        self.room.clear();
    }
}

impl StagingFolder {
    /// The folders that have got folders of ours.
    fn changed_by_making(&self) -> BTreeSet<PathBuf> {
        self.made.lock().iter().filter_map(|made| made.parent()).map(Path::to_owned).collect()
    }

    fn clear(&self) {
        if self.kept.load(Ordering::Relaxed) {
            return;
        }
        // It may not be there, or a writer may put a file into it meanwhile: then it is cleared again.
        let _ = self.disk.remove_tree(&self.path);
        for made in self.made.lock().iter().rev() {
            // Only if it is empty: then nothing was committed.
            let _ = self.disk.remove_folder(made);
        }
    }
}

impl Drop for StagingFolder {
    fn drop(&mut self) {
        self.clear();
    }
}

fn failed(what: &str, path: &Path, error: &io::Error) -> Error {
    Error::file(format!("{}: {what} it failed: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use diligence_base::seams::{LocalDisk, OpenMode};

    use super::*;

    fn staging(folder: &Path, ending: &str) -> Staging {
        Staging::new(folder, ending.to_owned(), Arc::new(LocalDisk)).unwrap()
    }

    /// The files below a folder, in order.
    fn names(folder: &Path) -> Vec<String> {
        fn find(folder: &Path, found: &mut Vec<PathBuf>) {
            for path in LocalDisk.list(folder).unwrap() {
                if path.is_dir() { find(&path, found) } else { found.push(path) }
            }
        }
        let mut found = Vec::new();
        find(folder, &mut found);
        found.sort();
        found.iter().map(|path| path.strip_prefix(folder).unwrap().display().to_string()).collect()
    }

    fn write(path: &Path, text: &str) {
        LocalDisk.create_folders(path.parent().unwrap()).unwrap();
        LocalDisk.open(path, OpenMode::CREATE_NEW).unwrap().write_all_at(text.as_bytes(), 0).unwrap();
    }

    #[test]
    fn files_have_the_names_that_are_wanted_and_overwrite_none() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("t");
        let commit = |replaced: &[PathBuf], texts: &[(&str, &str)]| {
            let staging = staging(&folder, ".csv").named(Some(FileNames::parse("a_{i}").unwrap()));
            staging.make().unwrap();
            texts.iter().for_each(|(below, text)| write(&staging.add_file(Path::new(below)), text));
            staging.commit(replaced).unwrap();
        };
        commit(&[], &[("", "1"), ("", "2"), ("y=1", "3")]);
        assert_eq!(names(&folder), ["a_0.csv", "a_1.csv", "y=1/a_0.csv"]);
        commit(&[], &[("y=1", "4")]);
        assert_eq!(names(&folder), ["a_0.csv", "a_1.csv", "y=1/a_0.csv", "y=1/a_1.csv"]);
        // Files that give way leave their names.
        commit(&[folder.join("a_0.csv"), folder.join("y=1/a_1.csv")], &[("", "5")]);
        assert_eq!(names(&folder), ["a_0.csv", "a_1.csv", "y=1/a_0.csv"]);
        assert_eq!(LocalDisk.read_text(&folder.join("a_0.csv")).unwrap(), "5");
    }

    #[test]
    fn files_appear_when_committed_and_else_never() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("t");
        let begun = staging(&folder, ".csv");
        begun.make().unwrap();
        write(&begun.add_file(Path::new("")), "2");
        write(&begun.add_file(Path::new("y=1")), "1");
        let number = begun.number.clone();
        begun.commit(&[]).unwrap();
        assert_eq!(names(&folder), [format!("part-{number}.csv"), format!("y=1/part-{number}-1.csv")]);
        let dropped = staging(&folder, ".csv");
        dropped.make().unwrap();
        write(&dropped.add_file(Path::new("")), "3");
        drop(dropped);
        assert_eq!(names(&folder).len(), 2);
        assert_eq!(LocalDisk.list(&folder).unwrap().len(), 2);
        let elsewhere = root.path().join("u/v");
        let dropped = staging(&elsewhere, "");
        dropped.make().unwrap();
        write(&dropped.add_file(Path::new("")), "3");
        drop(dropped);
        assert!(!root.path().join("u").exists());
    }

    #[test]
    fn what_a_late_writer_leaves_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let begun = staging(&root.path().join("t"), "");
        begun.make().unwrap();
        let late = begun.path().join("b=1/late");
        write(&begun.path().join("early"), "1");
        let (guard, other) = (begun.guard(), begun.guard());
        drop(begun);
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
        let text = || String::from_utf8(std::fs::read(&file).unwrap()).unwrap();
        write(&file, "old");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let begun = staging(root.path(), "");
        begun.make().unwrap();
        write(&begun.add_file(Path::new("")), "new");
        assert_eq!(text(), "old");
        begun.commit_as(&link).unwrap();
        assert_eq!(text(), "new");
        assert_eq!(names(root.path()), ["a.csv", "link.csv"]);
        assert!(link.is_symlink());
        assert!(staging(&file, "").make().is_err(), "a file is no folder");
    }

    #[test]
    fn replaced_files_come_back_if_the_new_ones_do_not_fit() {
        let folder = tempfile::tempdir().unwrap();
        let old = folder.path().join("old.csv");
        write(&old, "old");
        let begun = staging(folder.path(), ".csv");
        begun.make().unwrap();
        write(&begun.add_file(Path::new("")), "new");
        write(&begun.add_file(Path::new("x")), "new");
        // A file where a folder must be.
        write(&folder.path().join("x"), "");
        assert!(begun.commit(std::slice::from_ref(&old)).is_err());
        assert_eq!(names(folder.path()), ["old.csv", "x"]);
        let begun = staging(folder.path(), ".csv");
        begun.make().unwrap();
        write(&begun.add_file(Path::new("")), "new");
        let number = begun.number.clone();
        begun.commit(&[old]).unwrap();
        assert_eq!(names(folder.path()), [format!("part-{number}.csv"), "x".to_owned()]);
    }
}
