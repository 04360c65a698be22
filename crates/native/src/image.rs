//! An image: all names and rows at one moment, as the records that make them.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use diligence_base::Result;
use diligence_base::ids::ObjectId;
use diligence_base::seams::{Disk, DiskFile};
use diligence_catalog::{CatalogSnapshot, DEFAULT_SCHEMA, NativeTable, Object, PieceRows, Relation, StoredRows};

use crate::files::{FILE_HEAD_BYTES, Purpose, create, failed, frame};
use crate::record::{
    encode_authority, encode_end, encode_keys, encode_moment, encode_relation, encode_rows, encode_schema,
    encode_stored,
};

/// Bytes that are written at once.
const WRITE_BYTES: usize = 4 << 20;

/// Writes the image of this number, in the place of none, and gives its length in bytes. Under its name it is complete.
/// `moved` has tables whose rows lie elsewhere since the snapshot, and `moment` says when that was, if the past is
/// retained.
/// Fails with kind `File`; then there is nothing of it.
pub fn write(
    disk: &dyn Disk,
    folder: &Path,
    number: u64,
    snapshot: &CatalogSnapshot,
    next_object: u64,
    moved: &HashMap<ObjectId, Arc<NativeTable>>,
    moment: Option<i64>,
) -> Result<u64> {
    let path = Purpose::Image.path(folder, number);
    let unfinished = folder.join("image.new");
    // One that a crash has left.
    let _ = disk.remove_file(&unfinished);
    let written = || {
        let file = create(disk, &unfinished, Purpose::Image, number, 0).map_err(|error| failed(&unfinished, &error))?;
        let mut image = ImageFile { file, path: &unfinished, frames: Vec::new(), end: FILE_HEAD_BYTES, next: 0 };
        moment.into_iter().try_for_each(|moment| image.put(&encode_moment(moment)))?;
        image.put_all(snapshot, next_object, moved)?;
        let renamed = image.file.sync().and_then(|()| disk.rename(&unfinished, &path));
        renamed.and_then(|()| disk.sync_folder(folder)).map_err(|error| failed(&path, &error))?;
        Ok(image.end)
    };
    written().inspect_err(|_| {
        let _ = disk.remove_file(&unfinished);
    })
}

fn is_kept(object: &Object) -> bool {
    object.relation.is_kept() && !object.name.is_temporary()
}

struct ImageFile<'a> {
    file: Arc<dyn DiskFile>,
    path: &'a Path,
    frames: Vec<u8>,
    end: u64,
    next: u64,
}

impl ImageFile<'_> {
    fn put_all(
        &mut self,
        snapshot: &CatalogSnapshot,
        next_object: u64,
        moved: &HashMap<ObjectId, Arc<NativeTable>>,
    ) -> Result<()> {
        for (name, id) in snapshot.kept_schemas().filter(|(name, _)| *name != DEFAULT_SCHEMA) {
            self.put(&encode_schema(id.0, name))?;
        }
        // Tables come last: what their indexes call is there when these are read.
        let is_table = |object: &&Arc<Object>| matches!(object.relation, Relation::Native(_));
        let kept = || snapshot.all_objects().filter(|object| is_kept(object));
        let objects = kept().filter(|object| !is_table(object)).chain(kept().filter(is_table));
        for (statement, object) in (1..).zip(objects) {
            match moved.get(&object.id) {
                Some(table) => self.put_relation(object, &Relation::Native(table.clone()), statement)?,
                None => self.put_relation(object, &object.relation, statement)?,
            }
        }
        if !snapshot.authority().is_empty() {
            self.put(&encode_authority(snapshot.authority()))?;
        }
        self.put(&encode_end(next_object))?;
        self.flush()
    }

    fn put_relation(&mut self, object: &Object, relation: &Relation, statement: u64) -> Result<()> {
        if let Relation::Native(table) = relation {
            for piece in table.pieces() {
                match piece.rows() {
                    PieceRows::Memory(rows) => self.put(&encode_rows(statement, rows)?)?,
                    PieceRows::Stored(StoredRows { view, cluster, deleted }) => {
                        self.put(&encode_stored(statement, view.segment(), *cluster, deleted.as_deref(), 0))?;
                    }
                }
            }
        }
        if let Relation::Native(table) = relation {
            for (key, files) in table.key_files().iter().enumerate().filter(|(_, keys)| !keys.files.is_empty()) {
                self.put(&encode_keys(statement, key, files))?;
            }
        }
        self.put(&encode_relation(object.id, &object.name, relation, statement)?)
    }

    fn put(&mut self, record: &[u8]) -> Result<()> {
        frame(&mut self.frames, self.next, record)?;
        self.next += 1;
        if self.frames.len() >= WRITE_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        self.file.write_all_at(&self.frames, self.end).map_err(|error| failed(self.path, &error))?;
        self.end += self.frames.len() as u64;
        self.frames.clear();
        Ok(())
    }
}
