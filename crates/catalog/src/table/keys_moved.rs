//! Keys that move to files, and come back from them when the database is opened.

use bytes::Bytes;
use diligence_storage::key_file::KeyFile;

use super::*;
use crate::index::MovedRuns;
use crate::run_writer::run_of_file;

/// Keys of a table that have moved to files.
#[derive(Clone, Debug, Default)]
pub struct MovedKeys(Vec<MovedRuns>);

impl MovedKeys {
    /// Whether none have.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many files were written.
    pub fn files(&self) -> usize {
        self.0.iter().filter(|moved| moved.has_file()).count()
    }
}

/// The files of an index.
#[derive(Clone, Debug)]
pub struct KeyFiles {
    /// They, in the order in which they were written.
    pub files: Vec<Arc<KeyFile>>,
    /// They have all rows with smaller numbers, and no others.
    pub covered: i64,
}

/// The files of an index when they have been opened.
#[derive(Debug)]
pub struct RestoredKeys {
    /// They, in the order in which they were written, each with what its end says.
    pub files: Vec<(Arc<KeyFile>, Bytes)>,
    /// They have all rows with smaller numbers, and no others.
    pub covered: i64,
}

impl NativeTable {
    /// Has keys that [`move_keys`](Self::move_keys) will move stay as they are until then, in all versions that have
    /// them.
    pub fn fix_keys(&self, entries_min: usize) {
        self.rows.indexes.iter().for_each(|index| index.fix(self.rows(), entries_min));
    }

    /// Writes the keys of indexes to files, where so many are in memory, or a third of those in files are of rows that
    /// are gone. Blocks the calling thread. Fails with kind `File` if they cannot be written or read, and `Resource` if
    /// memory is short.
    pub fn move_keys(&self, store: &dyn KeyStore, entries_min: usize) -> Result<MovedKeys> {
        let Some(memory) = self.counted() else { return Ok(MovedKeys::default()) };
        let finder = RowFinder::new(self.pieces(), Vec::new());
        let (sizes, covered) = ((self.rows(), entries_min), self.rows.next_number);
        let moved =
            self.rows.indexes.iter().filter_map(|index| {
                index.moved(store, sizes, covered, memory, &|number| finder.has(number)).transpose()
            });
        moved.collect::<Result<_>>().map(MovedKeys)
    }

    /// The same version with keys in files: of those indexes that still have what was moved.
    #[must_use]
    pub fn with_moved_keys(&self, keys: &MovedKeys) -> Self {
        let moved = |index: &KeyIndex| keys.0.iter().fold(index.clone(), |index, moved| index.with_moved(moved));
        let indexes = self.rows.indexes.iter().map(moved).collect();
        Self::of(self.declared.clone(), self.pieces().to_vec(), self.rows.next_number, *self.version(), indexes)
    }

    /// The same version with indexes that are made of its rows: all of them, or the one of a name. Fails with kind
    /// `File` if these cannot be read, `Resource` if memory is short, and 23505 if two rows have one key that is
    /// unique.
    pub(crate) fn reindexed(&self, only: Option<&str>) -> Result<Self> {
        let memory = self.counted().map(Reservation::sibling);
        let keys = self.rules().keys.iter().zip(&self.rows.indexes);
        let indexes = keys.map(|(key, present)| match only {
            Some(only) if only != key.name => Ok(present.clone()),
            _ => indexed(key, self.schema(), self.name(), self.pieces(), self.key_space(memory.as_ref())),
        });
        let indexes = indexes.collect::<Result<_>>()?;
        Ok(Self::of(self.declared.clone(), self.pieces().to_vec(), self.rows.next_number, *self.version(), indexes))
    }

    /// The files of each index, in the order of the table's keys.
    pub fn key_files(&self) -> Vec<KeyFiles> {
        let files = self.rows.indexes.iter().map(KeyIndex::files);
        files.map(|(files, covered)| KeyFiles { files, covered }).collect()
    }

    /// As [`with_rules`](Self::with_rules), of a table that is restored: where rows cannot be read, it has no index,
    /// and takes no more rows. `keys` are the files of each key; where they are not what they should be, the index is
    /// made of the rows. Fails as that does.
    pub fn with_restored_rules(
        &self,
        rules: TableRules,
        keys: Vec<Option<RestoredKeys>>,
        memory: &Reservation,
        version: TableVersion,
    ) -> Result<Self> {
        let Declared { name, schema, columns, origin, key_store, .. } = &*self.declared;
        let mut keys = keys.into_iter();
        let indexes = rules.keys.iter().map(|key| {
            let stored = match keys.next().flatten() {
                Some(stored) => self.index_of_files(key, stored, memory).map(Some),
                None => Ok(None),
            };
            let made = match stored {
                Ok(Some(index)) => Ok(index),
                Err(error) if error.kind() == ErrorKind::Resource => Err(error),
                // What rows exclude each other was looked at when they came.
                _ if key.kind == KeyKind::Exclusion => {
                    let key = rules::Key { kind: KeyKind::Index, ..key.clone() };
                    indexed(&key, schema, name, self.pieces(), self.key_space(Some(memory)))
                }
                _ => indexed(key, schema, name, self.pieces(), self.key_space(Some(memory))),
            };
            match made {
                Err(error) if error.kind() == ErrorKind::File => Ok(KeyIndex::broken(error)),
                made => made,
            }
        });
        let indexes = indexes.collect::<Result<Vec<_>>>()?;
        let (columns, key_store) = (columns.clone(), key_store.clone());
        let declared = Declared::new(name.clone(), schema.clone(), rules, columns, *origin, key_store)?;
        if self.pieces().iter().any(|piece| piece.fragment() >= declared.placement.fragments()) {
            return Err(Error::file("a table's rows and its fragments do not fit").with_code("XX001"));
        }
        Ok(Self::of(Arc::new(declared), self.pieces().to_vec(), self.rows.next_number, version, indexes))
    }

    /// The index of these files, and of the rows that are in none of them.
    fn index_of_files(&self, key: &rules::Key, stored: RestoredKeys, memory: &Reservation) -> Result<KeyIndex> {
        let RestoredKeys { files, covered } = stored;
        let runs = files.into_iter().map(|(file, said)| run_of_file(file, &said, memory).map(Arc::new));
        let index = KeyIndex::of_files(runs.collect::<Result<_>>()?, covered);
        let rows = (self.pieces(), covered);
        let space = self.key_space(Some(memory)).ok_or_else(|| Error::bug("keys are counted nowhere"))?;
        index_with(&index, key, false, self.schema(), self.name(), rows, space)
    }

    /// Has keys that come in great number go into files from now on, whatever becomes of the table. Only the first call
    /// counts.
    pub fn keep_keys_in(&self, store: &Arc<dyn KeyStore>) {
        self.declared.key_store.get_or_init(|| store.clone());
    }

    /// Where keys go that are counted beside a reservation, in a version with the same rows.
    pub(crate) fn key_space<'a>(&'a self, memory: Option<&'a Reservation>) -> Option<KeySpace<'a>> {
        let store = self.declared.key_store.get().map(|store| &**store);
        memory.map(|memory| KeySpace { memory, store, covered: self.rows.next_number })
    }

    fn version(&self) -> &TableVersion {
        &self.rows.version
    }
}
