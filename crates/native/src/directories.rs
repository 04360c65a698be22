//! Directories of other disks that have segments of a database, beside the folder's own part for them.
//!
//! ```text
//!   folder/     directories     a line for each directory: whether segments are written there, and its path
//!               segments/       the first place
//!   directory/  diligence-1/    the second place: segments, and
//!                               OWNER, the path of the folder that they belong to
//! ```
//!
//! Fragments take turns: the first one lies in the first place, the second in the second, and so on. A directory that
//! is given up is remembered until nothing is in it any more.
//!
//! Invariants: a segment is written into a directory only if the file `directories` names it; a directory that is named
//! and not there ends the opening of the database, for rows would be missing.

use std::io::ErrorKind as IoErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diligence_base::seams::{Disk, OpenMode};
use diligence_base::{Error, Result};
use parking_lot::RwLock;

use crate::files::failed;

/// The file in the database's folder that names the directories.
const LIST: &str = "directories";
/// The list while it is written.
const LIST_NEW: &str = "directories.new";
/// What a database's part of a directory is called, with a number behind it.
const PART: &str = "diligence-";
/// The file in it that says whose it is.
const OWNER: &str = "OWNER";
/// Databases that may have a part in one directory.
const PARTS_MAX: usize = 1000;

/// A database's part of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    path: PathBuf,
    /// Whether segments are written there from now on.
    is_used: bool,
}

impl Place {
    /// The directory that it is in.
    fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }
}

/// The places of a database's segments. Used from any thread.
pub(crate) struct Directories {
    database: PathBuf,
    disk: Arc<dyn Disk>,
    /// The first one, in the database's folder.
    first: PathBuf,
    others: RwLock<Vec<Place>>,
}

/// What a file says; `None` if it is not there. Fails with kind `File`, with code XX001 if it is no text.
pub(crate) fn read_text(disk: &dyn Disk, path: &Path) -> Result<Option<String>> {
    let file = match disk.open(path, OpenMode::READ) {
        Ok(file) => file,
        Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(path, &error)),
    };
    let read = file.bytes().and_then(|bytes| {
        let mut text = vec![0; bytes as usize];
        file.read_exact_at(&mut text, 0).map(|()| text)
    });
    let text = String::from_utf8(read.map_err(|error| failed(path, &error))?);
    text.map(Some).map_err(|_| Error::file(format!("{}: it is damaged", path.display())).with_code("XX001"))
}

/// Writes a file under another name and gives it its own at the end, so that it is whole or as it was.
pub(crate) fn write_text(disk: &dyn Disk, unfinished: &Path, path: &Path, text: &str) -> Result<()> {
    // One that a crash has left.
    let _ = disk.remove_file(unfinished);
    let written = disk.open(unfinished, OpenMode::CREATE_NEW).and_then(|file| {
        file.write_all_at(text.as_bytes(), 0)?;
        file.sync()?;
        disk.rename(unfinished, path)?;
        disk.sync_folder(path.parent().unwrap_or(path))
    });
    written.map_err(|error| failed(path, &error))
}

impl Directories {
    /// Those of a database; `first` is its own part for segments. Fails with kind `File` and code 58P01 if one is not
    /// there, with 55000 if it belongs to another database, and with XX001 if the list is damaged.
    pub fn open(database: &Path, first: PathBuf, disk: Arc<dyn Disk>) -> Result<Self> {
        let path = database.join(LIST);
        let list = read_text(&*disk, &path)?.unwrap_or_default();
        let place = |line: &str| {
            let damaged = || Error::file(format!("{}: it is damaged", path.display())).with_code("XX001");
            let (word, path) = line.split_once(' ').ok_or_else(damaged)?;
            let is_used = match word {
                "used" => true,
                "left" => false,
                _ => return Err(damaged()),
            };
            Ok(Place { path: PathBuf::from(path), is_used })
        };
        let others = list.lines().map(place).collect::<Result<Vec<_>>>()?;
        let directories = Self { database: database.to_owned(), disk, first, others: RwLock::new(others) };
        for place in &*directories.others.read() {
            directories.check(place)?;
        }
        Ok(directories)
    }

    fn check(&self, place: &Place) -> Result<()> {
        let (path, database) = (place.path.display(), self.database.display());
        if !self.disk.is_folder(&place.path) {
            let error = Error::file(format!("{path}: the directory is missing; it has segments of {database}"));
            return Err(error
                .with_code("58P01")
                .with_hint("mount its disk again, or restore a backup of the database"));
        }
        let owner = read_text(&*self.disk, &place.path.join(OWNER))?;
        if owner.as_deref() != Some(&self.owner()?) {
            let whose = owner.unwrap_or_else(|| "nobody".to_owned());
            let error = Error::file(format!("{path}: the directory belongs to {whose}, not to {database}"));
            let hint = format!(
                "if the database has moved, write its new path into {path}/{OWNER}; a copy has no directories of its \
                 own: restore a backup"
            );
            return Err(error.with_code("55000").with_hint(hint));
        }
        Ok(())
    }

    /// The database's path, as directories have it.
    fn owner(&self) -> Result<String> {
        let path = self.disk.resolve(&self.database).map_err(|error| failed(&self.database, &error))?;
        Ok(path.display().to_string())
    }

    /// All places that may have segments, the database's own first.
    pub fn all(&self) -> Vec<PathBuf> {
        let others = self.others.read();
        std::iter::once(&self.first).chain(others.iter().map(|place| &place.path)).cloned().collect()
    }

    /// The directories beside the database's own, as they were given.
    pub fn used(&self) -> Vec<PathBuf> {
        let others = self.others.read();
        others.iter().filter(|place| place.is_used).map(|place| place.directory().to_owned()).collect()
    }

    /// Makes a file where the segments of a fragment are written. The place is not given up before it is there.
    pub fn make_file<T>(&self, fragment: u16, name: &str, make: impl FnOnce(&Path) -> T) -> T {
        let others = self.others.read();
        let used = others.iter().filter(|place| place.is_used).map(|place| &place.path);
        let places = std::iter::once(&self.first).chain(used).collect::<Vec<_>>();
        make(&places[usize::from(fragment) % places.len()].join(name))
    }

    /// Has segments be written into these directories as well from now on, and into no others. Segments that are there
    /// stay where they are. Fails with code 42P17 for a path that is not absolute, with 58P01 for a directory that is
    /// not there, and with kind `File` if it cannot be written; then all is as it was.
    pub fn set(&self, directories: &[PathBuf]) -> Result<()> {
        for (at, directory) in directories.iter().enumerate() {
            let shown = directory.display();
            if !directory.is_absolute() || shown.to_string().contains('\n') {
                let error = Error::input(format!("{shown}: the directory must be an absolute path")).with_code("42P17");
                return Err(error.with_hint("write it from the root on, like /disk2/database"));
            }
            if !self.disk.is_folder(directory) {
                let error = Error::file(format!("{shown}: there is no such directory")).with_code("58P01");
                return Err(error.with_hint("make it, so that the database may write into it"));
            }
            if directories[..at].contains(directory) {
                let error = Error::input(format!("{shown}: the directory is named twice")).with_code("42710");
                return Err(error.with_hint("name each disk once"));
            }
        }
        let mut others = self.others.write();
        let mut next = Vec::with_capacity(directories.len());
        for directory in directories {
            let known = others.iter().find(|place| place.directory() == directory);
            let path = match known {
                Some(place) => place.path.clone(),
                None => self.make(directory)?,
            };
            next.push(Place { path, is_used: true });
        }
        let left = others.iter().filter(|place| next.iter().all(|next| next.path != place.path));
        let left = left.map(|place| Place { is_used: false, ..place.clone() }).collect::<Vec<_>>();
        next.extend(left);
        // If that fails the list may be there all the same, so the parts that it names stay.
        self.write(&next)?;
        *others = next;
        Ok(())
    }

    /// Makes the database's part of a directory, or finds one that it has left there.
    fn make(&self, directory: &Path) -> Result<PathBuf> {
        let owner = self.owner()?;
        for number in 1..=PARTS_MAX {
            let path = directory.join(format!("{PART}{number}"));
            match self.disk.create_folder(&path) {
                Err(error) if error.kind() == IoErrorKind::AlreadyExists => {
                    match read_text(&*self.disk, &path.join(OWNER))? {
                        Some(whose) if whose == owner => return self.emptied(directory, path),
                        _ => continue,
                    }
                }
                made => made.map_err(|error| failed(&path, &error))?,
            }
            let written = write_text(&*self.disk, &path.join("OWNER.new"), &path.join(OWNER), &owner);
            let synced = self.disk.sync_folder(directory).map_err(|error| failed(directory, &error));
            return match written.and(synced) {
                Ok(()) => Ok(path),
                Err(error) => {
                    self.remove(&path);
                    Err(error)
                }
            };
        }
        let error = Error::file(format!("{}: it has parts of too many databases", directory.display()));
        Err(error.with_code("53000").with_hint("choose another directory, or remove parts of databases that are gone"))
    }

    /// A part that was there, without files that nobody refers to.
    fn emptied(&self, directory: &Path, path: PathBuf) -> Result<PathBuf> {
        let entries = self.disk.list(&path).map_err(|error| failed(&path, &error))?;
        for entry in entries.iter().filter(|entry| entry.file_name().is_none_or(|name| name != OWNER)) {
            self.disk.remove_file(entry).map_err(|error| failed(entry, &error))?;
        }
        // Whoever made it may have failed before a crash would have left it.
        let synced = self.disk.sync_folder(&path).and_then(|()| self.disk.sync_folder(directory));
        synced.map_err(|error| failed(&path, &error))?;
        Ok(path)
    }

    /// Removes a part in which no segment is. What cannot be removed stays; nobody refers to it.
    fn remove(&self, path: &Path) {
        let _ = self.disk.remove_file(&path.join(OWNER));
        let _ = self.disk.remove_folder(path);
    }

    fn write(&self, places: &[Place]) -> Result<()> {
        let line =
            |place: &Place| format!("{} {}\n", if place.is_used { "used" } else { "left" }, place.path.display());
        let text = places.iter().map(line).collect::<String>();
        write_text(&*self.disk, &self.database.join(LIST_NEW), &self.database.join(LIST), &text)
    }

    /// Forgets the directories that were given up, and in which no segment is any more. What fails is done the next
    /// time.
    pub fn forget_left(&self) {
        let mut others = self.others.write();
        let is_empty = |place: &Place| {
            let is_segment = |entry: &PathBuf| entry.file_name().is_some_and(|name| name != OWNER);
            self.disk.list(&place.path).is_ok_and(|entries| !entries.iter().any(is_segment))
        };
        let (left, kept): (Vec<_>, Vec<_>) =
            others.iter().cloned().partition(|place| !place.is_used && is_empty(place));
        if !left.is_empty() && self.write(&kept).is_ok() {
            left.iter().for_each(|place| self.remove(&place.path));
            *others = kept;
        }
    }
}
