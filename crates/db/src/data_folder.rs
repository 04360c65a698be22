//! The folder of data: every file in it that has a format, and every folder of such files, is a table.
//!
//! It is looked at when the database opens, and by [`look`](DataFolder::look) again later: what has come is a table
//! then, and what has gone is none any more. Nothing is opened by that.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use diligence_base::seams::Disk;
use diligence_base::{Error, Result};
use diligence_catalog::{Catalog, DEFAULT_SCHEMA, FileRelation, Relation, RelationName};
use diligence_storage::external::{Discovered, OpenOptions};
use parking_lot::Mutex;

use crate::data::tables_of;

/// What a look at the folder of data has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataChanges {
    /// Tables that are there now.
    pub appeared: Vec<String>,
    /// Tables that are not there any more.
    pub gone: Vec<String>,
    /// What cannot be a table, and why.
    pub left_out: Vec<(String, String)>,
}

impl DataChanges {
    /// Whether no table has come or gone, and nothing else has changed.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// The folder.
pub(crate) struct DataFolder {
    folders: Vec<PathBuf>,
    /// Single files.
    files: Vec<PathBuf>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    tables: BTreeMap<String, (String, Arc<FileRelation>)>,
    left_out: BTreeMap<String, String>,
}

impl DataFolder {
    /// Places that have not been looked at. Fails as [`tables_of`] does.
    pub(crate) fn new(places: &[PathBuf], files: &Arc<dyn Disk>) -> Result<Self> {
        tables_of(places, files)?;
        let (folders, files) = places.iter().cloned().partition(|place| files.is_folder(place));
        Ok(Self { folders, files, known: Mutex::default() })
    }

    /// Makes tables of what has come since the last look, and takes those away that have gone. Fails if the folder, or
    /// one in it, cannot be listed; then nothing is changed.
    pub(crate) fn look(&self, catalog: &Catalog, files: &Arc<dyn Disk>) -> Result<DataChanges> {
        let mut known = self.known.lock();
        // A single file that has gone is no mistake any more.
        let there = self.files.iter().filter(|file| files.resolve(file).is_ok());
        let places = self.folders.iter().chain(there).cloned().collect::<Vec<_>>();
        if let Some(gone) = self.folders.iter().find(|folder| !files.is_folder(folder)) {
            return Err(Error::input(format!("{}: there is no such folder", gone.display())));
        }
        let Discovered { tables, left_out } = tables_of(&places, files)?;
        let mut changes = DataChanges::default();
        let found = tables.into_iter().collect::<BTreeMap<_, _>>();
        let mut left_out = left_out.into_iter().collect::<BTreeMap<_, _>>();
        let is_gone = |name: &String, location: &String| found.get(name) != Some(location);
        let gone = known.tables.iter().filter(|(name, (location, _))| is_gone(name, location));
        for name in gone.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            let Some((_, relation)) = known.tables.remove(&name) else { continue };
            // Somebody may have given the name to something else meanwhile.
            let own = |there: &Relation| match there {
                Relation::Files(there) if Arc::ptr_eq(there, &relation) => Ok(()),
                _ => Err(Error::input("it is another one")),
            };
            if catalog.drop(&RelationName::new(DEFAULT_SCHEMA, name.clone()), own).unwrap_or(false) {
                changes.gone.push(name);
            }
        }
        for (name, location) in found {
            if known.tables.contains_key(&name) {
                continue;
            }
            let full = RelationName::new(DEFAULT_SCHEMA, name.clone());
            let relation = Arc::new(FileRelation::new(location.clone(), OpenOptions::default(), files.clone()));
            let is_taken = catalog.snapshot().get(&full).is_some();
            if is_taken || catalog.create(&full, Relation::Files(relation.clone()), false).is_err() {
                left_out.insert(name, "the database has a relation of this name".to_owned());
                continue;
            }
            known.tables.insert(name.clone(), (location, relation));
            changes.appeared.push(name);
        }
        let is_new = |(name, why): &(&String, &String)| known.left_out.get(*name) != Some(*why);
        let news = left_out.iter().filter(is_new).map(|(name, why)| (name.clone(), why.clone()));
        changes.left_out = news.collect();
        if !changes.left_out.is_empty() {
            catalog.leave_out(changes.left_out.clone());
        }
        known.left_out = left_out;
        Ok(changes)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Database, DatabaseOptions};

    #[test]
    fn files_that_come_are_tables_and_those_that_go_are_none() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("a.csv", "x\n1\n");
        let data = vec![folder.path().to_owned()];
        let database = Database::open(DatabaseOptions { data, ..DatabaseOptions::default() }).unwrap();
        let session = database.session();
        let rows = |sql: &str| {
            let rows = session.execute(sql).and_then(crate::QueryResult::collect);
            rows.map(|rows| rows.iter().map(arrow::array::RecordBatch::num_rows).sum::<usize>())
        };
        assert_eq!(rows("SELECT * FROM a").unwrap(), 1);
        assert!(database.look_at_data().unwrap().is_nothing());

        write("b.csv", "x\n1\n2\n");
        std::fs::create_dir(folder.path().join("c")).unwrap();
        write("c/part.csv", "x\n1\n2\n3\n");
        session.execute("CREATE TABLE d (x INTEGER)").unwrap();
        write("d.csv", "x\n1\n");
        let changes = database.look_at_data().unwrap();
        assert_eq!((changes.appeared, changes.left_out.len()), (vec!["b".to_owned(), "c".to_owned()], 1));
        assert!(database.look_at_data().unwrap().is_nothing());
        assert_eq!((rows("SELECT * FROM b").unwrap(), rows("SELECT * FROM c").unwrap()), (2, 3));
        assert_eq!(rows("SELECT * FROM d").unwrap(), 0);

        std::fs::remove_file(folder.path().join("a.csv")).unwrap();
        std::fs::remove_file(folder.path().join("d.csv")).unwrap();
        assert_eq!(database.look_at_data().unwrap().gone, ["a"]);
        assert_eq!(rows("SELECT * FROM a").unwrap_err().code(), Some("42P01"));
        assert_eq!(rows("SELECT * FROM d").unwrap(), 0);

        // A folder that is not there, as one of a disk that is away, takes nothing with it.
        let away = folder.path().with_extension("away");
        std::fs::rename(folder.path(), &away).unwrap();
        assert!(database.look_at_data().is_err());
        std::fs::rename(&away, folder.path()).unwrap();
        assert_eq!(rows("SELECT * FROM b").unwrap(), 2);
    }
}
