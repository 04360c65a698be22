//! Rows of a version by their keys.

use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::SchemaRef;
use diligence_base::{Error, Result};
use diligence_memory::Reservation;
use diligence_storage::foreign_error::from_arrow;

use crate::excluded::Exclusion;
use crate::index::KeyIndex;
use crate::key_store::KeyStore;
use crate::keys::{KeyReader, KeyValues, SortedKeys};
use crate::pieces::{Piece, RowFinder};
use crate::rules::KeyKind;
use crate::run::Run;
use crate::run_writer::{merged, merged_in_file};
use crate::{RelationName, rules};

/// Keys that are sorted at once where many rows get an index.
const SORTED_ROWS: usize = 1 << 19;
/// Bytes that a key takes while it is sorted, beside its own: its place in the order, and where it is.
const SORTED_KEY_BYTES: usize = 32;
/// Bytes of an index in memory, about, with which a statement that makes more of it moves it to a file, at most.
const MOVED_BYTES_MAX: usize = 32 << 20;
/// And the part of its memory that this is at most, as its divisor; as much is sorted at once, at most.
const MOVED_PART: usize = 8;

/// The rows of a version by a key.
pub(crate) struct KeyLookup<'a> {
    pub(crate) reader: KeyReader<'a>,
    pub(crate) finder: RowFinder<'a>,
    pub(crate) index: &'a KeyIndex,
}

impl KeyLookup<'_> {
    /// Whether a row of the version has one of these keys, if it is one that no two rows may have.
    pub(crate) fn finds(&self, values: &KeyValues, row: usize) -> Result<bool> {
        self.found(values, row).map(|found| found.is_some())
    }

    /// The number of the row of the version that has one of these keys, if it is one that no two rows may have.
    pub(crate) fn found(&self, values: &KeyValues, row: usize) -> Result<Option<i64>> {
        let Some(key) = values.compared(row) else { return Ok(None) };
        self.index.check()?;
        for number in self.index.candidates(&key)? {
            if has_key(&self.finder, &self.reader, number, values, row)? {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }
}

/// Where the keys of an index go.
#[derive(Clone, Copy)]
pub(crate) struct KeySpace<'a> {
    /// What those in memory are counted beside.
    pub(crate) memory: &'a Reservation,
    /// Where they go when they are many; they stay in memory, if `None`.
    pub(crate) store: Option<&'a dyn KeyStore>,
    /// All rows have smaller numbers.
    pub(crate) covered: i64,
}

impl KeySpace<'_> {
    /// Bytes in memory with which an index is moved to a file.
    fn moved_bytes(&self) -> usize {
        MOVED_BYTES_MAX.min(self.memory.most_bytes() / MOVED_PART)
    }
}

/// The keys of many rows, some of them at a time.
struct KeySource<'a> {
    reader: &'a KeyReader<'a>,
    pieces: &'a [Piece],
    /// Rows with smaller numbers are left out.
    first: i64,
    /// What keys are counted beside while they are sorted.
    memory: &'a Reservation,
}

impl KeySource<'_> {
    /// Calls `take` with the keys of some rows and the rows' numbers, by batch, until all rows were there. Fails as it
    /// does, and with kind `File` if rows cannot be read.
    fn each(&self, mut take: impl FnMut(&[KeyValues], &[Vec<i64>]) -> Result<()>) -> Result<()> {
        let (mut keys, mut numbers, mut rows) = (Vec::new(), Vec::new(), 0);
        let mut counted = self.memory.sibling();
        for piece in self.pieces.iter().filter(|piece| piece.last() >= self.first) {
            let columns = piece.read_columns(self.reader.places())?;
            let mut own = piece.live_numbers().collect::<Vec<_>>();
            let columns = match own.iter().filter(|number| **number < self.first).count() {
                0 => columns,
                before if own.iter().skip(before).all(|number| *number >= self.first) => {
                    own.drain(..before);
                    columns.slice(before, columns.num_rows() - before)
                }
                // In the order of a clustering key, numbers are in none.
                _ => {
                    let is_wanted = own.iter().map(|number| Some(*number >= self.first)).collect::<BooleanArray>();
                    own.retain(|number| *number >= self.first);
                    filter_record_batch(&columns, &is_wanted).map_err(from_arrow)?
                }
            };
            let values = self.reader.values_of(columns.columns(), columns.num_rows())?;
            let bytes = values.bytes() + own.len() * SORTED_KEY_BYTES;
            let is_much = counted.bytes() + bytes > self.memory.most_bytes() / MOVED_PART;
            if !keys.is_empty() && (is_much || counted.grow_if_free(bytes).is_err()) {
                take(&keys, &numbers)?;
                (keys, numbers, rows) = (Vec::new(), Vec::new(), 0);
                counted.shrink(counted.bytes());
                counted.grow(bytes)?;
            } else if keys.is_empty() {
                counted.grow(bytes)?;
            }
            keys.push(values);
            rows += own.len();
            numbers.push(own);
            if rows >= SORTED_ROWS {
                take(&keys, &numbers)?;
                (keys, numbers, rows) = (Vec::new(), Vec::new(), 0);
                counted.shrink(counted.bytes());
            }
        }
        if keys.is_empty() { Ok(()) } else { take(&keys, &numbers) }
    }
}

/// An index of some pieces, in the place of another one, if there was one. Fails with code 23505 if two rows have one
/// key that is unique, 23P01 if two may not stand beside each other.
pub(crate) fn indexed(
    key: &rules::Key,
    schema: &SchemaRef,
    name: &RelationName,
    pieces: &[Piece],
    space: Option<KeySpace<'_>>,
) -> Result<KeyIndex> {
    let reader = KeyReader::new(key, schema)?;
    let Some(space) = space else {
        return match pieces.is_empty() {
            true => Ok(KeyIndex::default()),
            false => Err(Error::bug("rows are counted nowhere")),
        };
    };
    let KeySpace { memory, store, covered } = space;
    let (mut runs, mut in_files, mut bytes) = (Vec::<Arc<Run>>::new(), Vec::new(), 0);
    KeySource { reader: &reader, pieces, first: i64::MIN, memory }.each(|keys, numbers| {
        let run = SortedKeys::new(keys, |batch, row| numbers[batch][row]).run(memory)?;
        bytes += run.as_ref().map_or(0, |run| run.bytes());
        runs.extend(run.map(Arc::new));
        if let Some(store) = store.filter(|_| bytes >= space.moved_bytes()) {
            in_files.extend(in_file(&std::mem::take(&mut runs), memory, store)?);
            bytes = 0;
        }
        Ok(())
    })?;
    let is_in_file = !in_files.is_empty();
    runs.splice(..0, in_files);
    runs = match store.filter(|_| is_in_file) {
        Some(store) => in_file(&runs, memory, store)?.into_iter().collect(),
        None if runs.len() > 1 => merged(&runs, memory, None)?.map(Arc::new).into_iter().collect(),
        None => runs,
    };
    if let Some(run) = runs.first().filter(|_| key.kind.is_unique()) {
        let finder = RowFinder::new(pieces, reader.places().to_vec());
        run.duplicates(|bytes, numbers| {
            if !key.nulls_are_equal && reader.has_null(bytes) == Some(true) {
                return Ok(());
            }
            for (index, number) in numbers.iter().enumerate() {
                let Some(row) = finder.find(*number)? else { continue };
                let values = reader.values_of(row.columns(), 1)?;
                for other in &numbers[..index] {
                    if values.is_comparable(0) && has_key(&finder, &reader, *other, &values, 0)? {
                        let error = reader.duplicate_of(name, row.columns(), 0);
                        let message = format!("could not create unique index \"{}\"", key.name);
                        let detail = format!("Key {} is duplicated.", reader.shown_of(row.columns(), 0));
                        let about = error.about().clone();
                        return Err(Error::value(message).with_code("23505").with_detail(detail).with_about(about));
                    }
                }
            }
            Ok(())
        })?;
    }
    let index = if is_in_file { KeyIndex::of_files(runs, covered) } else { KeyIndex::of_runs(runs, None) };
    if key.kind == KeyKind::Exclusion {
        Exclusion::new(key, schema)?.check_pieces(&index, (pieces, i64::MIN), name).map_err(|error| {
            let Some("23P01") = error.code() else { return error };
            let message = format!("could not create exclusion constraint \"{}\"", key.name);
            let detail = error.detail().unwrap_or_default().replace("with existing key", "with key");
            Error::value(message).with_code("23P01").with_detail(detail).with_about(error.about().clone())
        })?;
    }
    Ok(index)
}

/// Runs as one in a file; a single one that is in a file stays where it is.
fn in_file(runs: &[Arc<Run>], memory: &Reservation, store: &dyn KeyStore) -> Result<Option<Arc<Run>>> {
    if let [one] = runs
        && one.file().is_some()
    {
        return Ok(Some(one.clone()));
    }
    let run = merged_in_file(runs, memory, store.begin_keys()?, None)?.map(Arc::new);
    if let Some(file) = run.as_ref().and_then(|run| run.file()) {
        store.finish_keys(file)?;
    }
    Ok(run)
}

/// An index with the rows of these pieces that have numbers from `first` on. Where they are many, all of it goes into
/// files. Fails with code 23505 if one of them has a unique key that another row has, or 23P01 if it may not stand
/// beside another one, and `is_checked`.
pub(crate) fn index_with(
    index: &KeyIndex,
    key: &rules::Key,
    is_checked: bool,
    schema: &SchemaRef,
    name: &RelationName,
    (pieces, first): (&[Piece], i64),
    space: KeySpace<'_>,
) -> Result<KeyIndex> {
    let reader = KeyReader::new(key, schema)?;
    let finder = RowFinder::new(pieces, reader.places().to_vec());
    let KeySpace { memory, store, covered } = space;
    let (mut index, mut is_moved) = (index.clone(), false);
    KeySource { reader: &reader, pieces, first, memory }.each(|keys, numbers| {
        let sorted = SortedKeys::new(keys, |batch, row| numbers[batch][row]);
        if is_checked && key.kind.is_unique() {
            let is_there = |place| finder.find(sorted.number(place));
            if let Some(place) = there_already(&index, &reader, &finder, keys, &sorted)? {
                let row = is_there(place)?.ok_or_else(|| Error::bug("a row that came is not there"))?;
                return Err(reader.duplicate_of(name, row.columns(), 0));
            }
        }
        index = index.with(&sorted, memory)?;
        if let Some(store) = store.filter(|_| index.bytes_in_memory() >= space.moved_bytes()) {
            index = index.all_moved(store, index.files().1, memory)?;
            is_moved = true;
        }
        Ok(())
    })?;
    // Files have all rows up to a number, so what is left follows.
    let index = match store.filter(|_| is_moved) {
        Some(store) => index.all_moved(store, covered, memory)?,
        None => index,
    };
    if is_checked && key.kind == KeyKind::Exclusion {
        Exclusion::new(key, schema)?.check_pieces(&index, (pieces, first), name)?;
    }
    Ok(index)
}

/// The place of a key that another row has, among the rows themselves or those of the index; `None` if all are unique.
/// Fails with kind `File` if rows cannot be read.
pub(crate) fn there_already(
    index: &KeyIndex,
    reader: &KeyReader<'_>,
    finder: &RowFinder<'_>,
    keys: &[KeyValues],
    sorted: &SortedKeys<'_>,
) -> Result<Option<usize>> {
    if let Some(place) = sorted.duplicate() {
        return Ok(Some(place));
    }
    // In the order of the rows that are there, so that each cluster is read once, if at all.
    let mut met = Vec::new();
    index.meet(sorted, |number, place| met.push((number, place)))?;
    met.sort_unstable();
    for (number, place) in met {
        let (batch, row) = sorted.row(place);
        if has_key(finder, reader, number, &keys[batch], row)? {
            return Ok(Some(place));
        }
    }
    Ok(None)
}

/// How many rows are before each batch.
pub(crate) fn starts(rows: &[RecordBatch]) -> Vec<usize> {
    let start = |next: &mut usize, batch: &RecordBatch| {
        let start = *next;
        *next += batch.num_rows();
        Some(start)
    };
    rows.iter().scan(0, start).collect()
}

/// Whether the row of a number, which an index has found by a key, is there and has the key.
pub(crate) fn has_key(
    finder: &RowFinder<'_>,
    reader: &KeyReader<'_>,
    number: i64,
    values: &KeyValues,
    row: usize,
) -> Result<bool> {
    if values.is_whole(row) {
        return Ok(finder.has(number));
    }
    let Some(found) = finder.find(number)? else { return Ok(false) };
    Ok(values.is_equal(row, &reader.values_of(found.columns(), 1)?, 0))
}
