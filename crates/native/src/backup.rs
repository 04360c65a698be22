//! Backups: a folder that opens as the database was at one moment, made while statements go on.
//!
//! ```text
//!   names and rows in memory ── written ──▶ folder/image-000001
//!   segments ── a second name, else a copy ──▶ folder/segments/
//! ```
//!
//! Segments never change, so a second name of a file is as good as a copy, and costs nothing. On another disk they are
//! copied, except those that an earlier backup there has.
//!
//! Invariant: under its name a backup is whole, and synced.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diligence_base::seams::{Disk, OpenMode};
use diligence_base::{Error, Result};
use diligence_catalog::CatalogSnapshot;
use diligence_storage::segment::Segment;

use crate::files::{failed, parent_of};
use crate::image;
use crate::segments::{FOLDER, Segments, file_name, key_file_name};
use crate::store::{Store, key_files_of, segments_of};

/// The number of a backup's image: a database goes on with a log of this number.
const FIRST: u64 = 1;
/// Bytes that are copied at once.
const COPY_BYTES: usize = 1 << 20;

/// What a backup has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backup {
    /// Bytes of names, and of rows that are in no segment.
    pub image_bytes: u64,
    /// How many segments and key files there are.
    pub segments: u64,
    /// Their bytes.
    pub segment_bytes: u64,
    /// How many of these bytes were copied: the others have a second name.
    pub copied_bytes: u64,
}

impl Store {
    /// Makes a folder that opens as the database is now; statements go on. `earlier` is another backup, of which
    /// segments are taken that are the same. Blocks the calling thread. Fails with code 58P02 if there is something at
    /// the path, and with kind `File` if the folder cannot be written; then there is none, or a whole one that a crash
    /// may take away.
    pub fn back_up(&self, to: &Path, earlier: Option<&Path>) -> Result<Backup> {
        let disk = &self.options.disk;
        if disk.meta(to).is_ok() {
            let error = Error::file(format!("{}: there is something already", to.display())).with_code("58P02");
            return Err(error.with_hint("a backup makes its folder: name one that is not there"));
        }
        let parent = parent_of(to);
        if !disk.is_folder(parent) {
            let error = Error::file(format!("{}: there is no such folder", parent.display())).with_code("58P01");
            return Err(error.with_hint("make it first: a backup makes one folder only"));
        }
        if let Some(earlier) = earlier
            && !disk.is_folder(&earlier.join(FOLDER))
        {
            let error = Error::file(format!("{}: this is no backup", earlier.display())).with_code("58P01");
            return Err(error.with_hint("INCREMENTAL FROM names the folder of an earlier backup"));
        }
        let unfinished = unfinished(to)?;
        // One that a crash has left.
        let _ = disk.remove_tree(&unfinished);
        let made = self.fill(&unfinished, earlier).and_then(|backup| {
            disk.rename(&unfinished, to).map_err(|error| failed(to, &error))?;
            disk.sync_folder(parent).map_err(|error| failed(parent, &error))?;
            Ok(backup)
        });
        made.inspect_err(|_| {
            let _ = disk.remove_tree(&unfinished);
        })
    }

    fn fill(&self, folder: &Path, earlier: Option<&Path>) -> Result<Backup> {
        // The snapshot has its segments: no checkpoint removes them meanwhile.
        let (snapshot, next_object) = self.catalog.at_rest(|snapshot| Ok((snapshot, self.catalog.next_object())))?;
        fill(&self.options.disk, &self.segments, folder, (&snapshot, next_object), earlier)
    }
}

/// Makes a folder that has what a snapshot has, whose segments are those of another one. Fails with kind `File` if it
/// cannot be written.
pub(crate) fn fill(
    disk: &Arc<dyn Disk>,
    own: &Segments,
    folder: &Path,
    (snapshot, next_object): (&CatalogSnapshot, u64),
    earlier: Option<&Path>,
) -> Result<Backup> {
    let segments = folder.join(FOLDER);
    for folder in [folder, &segments] {
        disk.create_folder(folder).map_err(|error| failed(folder, &error))?;
    }
    let mut backup = Backup::default();
    for segment in segments_of(snapshot, &HashMap::new()).values() {
        let (name, bytes) = (file_name(segment.number(), segment.format()), segment.bytes());
        let to = segments.join(&name);
        backup.segments += 1;
        backup.segment_bytes += bytes;
        let same = earlier.map(|earlier| earlier.join(FOLDER).join(&name)).filter(|path| is_same(disk, path, segment));
        let from = own.found(segment.number());
        let sources = [Some(from.clone()), same];
        if sources.iter().flatten().any(|from| disk.link(from, &to).is_ok()) {
            continue;
        }
        copy(&**disk, &from, &to)?;
        backup.copied_bytes += bytes;
    }
    for file in key_files_of(snapshot, &HashMap::new()).values() {
        let (from, to) = (own.found(file.number()), segments.join(key_file_name(file.number())));
        backup.segments += 1;
        backup.segment_bytes += file.bytes();
        if disk.link(&from, &to).is_err() {
            copy(&**disk, &from, &to)?;
            backup.copied_bytes += file.bytes();
        }
    }
    disk.sync_folder(&segments).map_err(|error| failed(&segments, &error))?;
    backup.image_bytes = image::write(&**disk, folder, FIRST, snapshot, next_object, &HashMap::new(), None)?;
    Ok(backup)
}

/// Where a backup is made before it has its name.
fn unfinished(to: &Path) -> Result<PathBuf> {
    let mut name = to.file_name().map(ToOwned::to_owned).ok_or_else(|| {
        let error = Error::file(format!("{}: a backup cannot have this name", to.display())).with_code("22023");
        error.with_hint("name a folder that is not there")
    })?;
    name.push(".unfinished");
    Ok(to.with_file_name(name))
}

/// Whether a file of an earlier backup is this segment: another database may have used its number.
fn is_same(disk: &Arc<dyn Disk>, path: &Path, segment: &Segment) -> bool {
    let found = disk.meta(path).is_ok_and(|meta| meta.bytes == segment.bytes());
    found && Segment::open(disk, path, segment.number(), segment.seal()).is_ok()
}

/// Copies a file; the copy is synced.
fn copy(disk: &dyn Disk, from: &Path, to: &Path) -> Result<()> {
    let source = disk.open(from, OpenMode::READ).map_err(|error| failed(from, &error))?;
    let target = disk.open(to, OpenMode::CREATE_NEW).map_err(|error| failed(to, &error))?;
    let (mut buffer, mut offset) = (vec![0; COPY_BYTES], 0);
    loop {
        let read = match source.read_at(&mut buffer, offset) {
            Ok(0) => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            read => read.map_err(|error| failed(from, &error))?,
        };
        target.write_all_at(&buffer[..read], offset).map_err(|error| failed(to, &error))?;
        offset += read as u64;
    }
    target.sync().map_err(|error| failed(to, &error))
}
