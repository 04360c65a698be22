//! Rows of a version by their keys.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use diligence_base::{Error, Result};
use diligence_memory::Reservation;

use crate::keys::{KeyIndex, KeyReader, KeyValues};
use crate::pieces::{Piece, RowFinder};
use crate::{RelationName, rules};

/// The rows of a version by a key.
pub(crate) struct KeyLookup<'a> {
    pub(crate) reader: KeyReader<'a>,
    pub(crate) finder: RowFinder<'a>,
    pub(crate) index: &'a KeyIndex,
}

impl KeyLookup<'_> {
    /// Whether a row of the version has one of these keys.
    pub(crate) fn finds(&self, values: &KeyValues, row: usize) -> Result<bool> {
        let Some(hash) = values.hash(row) else { return Ok(false) };
        self.index.check()?;
        for number in self.index.candidates(hash) {
            if has_key(&self.finder, &self.reader, number, values, row)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// An index of some pieces. Fails with code 23505 if two rows have one key that is unique: `has_come` says that a row
/// came, not the key.
pub(crate) fn indexed(
    key: &rules::Key,
    schema: &SchemaRef,
    name: &RelationName,
    pieces: &[Piece],
    memory: Option<&Reservation>,
    has_come: bool,
) -> Result<KeyIndex> {
    let reader = KeyReader::new(key, schema)?;
    let mut entries = Vec::new();
    for piece in pieces {
        let columns = piece.read_columns(reader.places())?;
        let values = reader.values_of(columns.columns(), columns.num_rows())?;
        entries.extend(piece.live_numbers().enumerate().filter_map(|(row, number)| Some((values.hash(row)?, number))));
    }
    entries.sort_unstable();
    if key.kind.is_unique() {
        let finder = RowFinder::new(pieces, reader.places().to_vec());
        for same in entries.chunk_by(|left, right| left.0 == right.0).filter(|same| same.len() > 1) {
            for (index, (_, number)) in same.iter().enumerate() {
                let Some(row) = finder.find(*number)? else { continue };
                let values = reader.values_of(row.columns(), 1)?;
                for (_, other) in &same[..index] {
                    if has_key(&finder, &reader, *other, &values, 0)? {
                        let error = reader.duplicate_of(name, row.columns(), 0);
                        if has_come {
                            return Err(error);
                        }
                        let message = format!("could not create unique index \"{}\"", key.name);
                        let detail = format!("Key {} is duplicated.", reader.shown_of(row.columns(), 0));
                        let about = error.about().clone();
                        return Err(Error::value(message).with_code("23505").with_detail(detail).with_about(about));
                    }
                }
            }
        }
    }
    match memory {
        Some(memory) => KeyIndex::default().with(entries, memory),
        None if entries.is_empty() => Ok(KeyIndex::default()),
        None => Err(Error::bug("rows are counted nowhere")),
    }
}

/// The entries of rows that are numbered one after another, in order.
pub(crate) fn entries(values: &[KeyValues], rows: &[RecordBatch], number: impl Fn(usize) -> i64) -> Vec<(u64, i64)> {
    let mut entries = Vec::with_capacity(rows.iter().map(RecordBatch::num_rows).sum());
    let mut place = 0;
    for (values, batch) in values.iter().zip(rows) {
        for row in 0..batch.num_rows() {
            entries.extend(values.hash(row).map(|hash| (hash, number(place + row))));
        }
        place += batch.num_rows();
    }
    entries.sort_unstable();
    entries
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

/// Whether the row of a number is there and has a key.
pub(crate) fn has_key(
    finder: &RowFinder<'_>,
    reader: &KeyReader<'_>,
    number: i64,
    values: &KeyValues,
    row: usize,
) -> Result<bool> {
    let Some(found) = finder.find(number)? else { return Ok(false) };
    Ok(values.is_equal(row, &reader.values_of(found.columns(), 1)?, 0))
}
