//! Exclusion constraints: which rows may not stand beside each other.
//!
//! The index of such a key begins with the columns that are compared by `=`. So the rows that may exclude a row are
//! found by the bytes of these columns, and are then compared with it by all operators. A row with a NULL among the
//! key's values excludes none.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt64Array};
use arrow::compute::{concat_batches, interleave, take};
use arrow::datatypes::SchemaRef;
use diligence_base::{About, Error, Result};
use diligence_storage::foreign_error::from_arrow;

use crate::RelationName;
use crate::index::{KeyIndex, KeyRange};
use crate::keys::KeyReader;
use crate::pieces::{Piece, RowFinder};
use crate::rules::{Key, RowFunction};
use crate::run::Bound;

/// Rows that are compared with one at once.
const COMPARED_ROWS: usize = 1024;

/// How the rows of an exclusion constraint are compared.
pub(crate) struct Exclusion<'a> {
    key: &'a Key,
    function: &'a dyn RowFunction,
    reader: KeyReader<'a>,
    /// How many of the first columns are compared by `=`.
    equal: usize,
}

/// Rows that are compared with others.
pub(crate) struct ExcludingRows {
    /// The columns of the table that the key takes.
    columns: Vec<ArrayRef>,
    /// The key's values.
    values: Vec<ArrayRef>,
    /// By row: the bytes with which those begin in the index that it is compared with; `None` if it excludes none.
    begins: Vec<Option<Vec<u8>>>,
}

/// Rows that came before others, by the bytes with which the index has them: their batches and places.
#[derive(Default)]
pub(crate) struct MetRows(HashMap<Vec<u8>, Vec<(usize, usize)>>);

impl ExcludingRows {
    /// Hashes that rows have in common which may exclude each other.
    pub(crate) fn hashes(&self) -> impl Iterator<Item = u64> + '_ {
        self.begins.iter().flatten().map(|begin| {
            let mut hasher = DefaultHasher::new();
            begin.hash(&mut hasher);
            hasher.finish()
        })
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.begins.len()
    }
}

impl<'a> Exclusion<'a> {
    /// Fails as [`KeyReader::new`] does.
    pub(crate) fn new(key: &'a Key, schema: &SchemaRef) -> Result<Self> {
        let computed = key.computed.as_ref().ok_or_else(|| Error::bug("an exclusion constraint compares nothing"))?;
        let equal = key.operators().iter().take_while(|operator| *operator == "=").count();
        Ok(Self { key, function: &*computed.function, reader: KeyReader::new(key, schema)?, equal })
    }

    /// Where the columns that it takes are in the table.
    pub(crate) fn places(&self) -> &[usize] {
        self.reader.places()
    }

    /// Rows of the table. Fails with kind `Value` if a value of the key cannot be computed.
    pub(crate) fn rows(&self, batch: &RecordBatch) -> Result<ExcludingRows> {
        let columns = self.places().iter().map(|place| batch.column(*place).clone()).collect();
        self.rows_of(columns, batch.num_rows())
    }

    /// Rows of which these are the columns at [`places`](Self::places).
    fn rows_of(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<ExcludingRows> {
        let (values, begins) = self.reader.begun(&columns, rows, self.equal)?;
        Ok(ExcludingRows { columns, values, begins })
    }

    /// A row of an index that excludes one of `rows`, of those whose numbers count; its columns at
    /// [`places`](Self::places). `finder` looks at these. Fails with kind `File` if rows cannot be read.
    pub(crate) fn excluding(
        &self,
        (index, finder): (&KeyIndex, &RowFinder<'_>),
        rows: &ExcludingRows,
        row: usize,
        counts: impl Fn(i64) -> bool,
    ) -> Result<Option<RecordBatch>> {
        let Some(begin) = &rows.begins[row] else { return Ok(None) };
        index.check()?;
        let bound = |is_behind| Bound { bytes: begin.clone(), is_behind };
        let range = KeyRange { from: bound(false), to: bound(true) };
        let (mut others, mut met) = (Vec::new(), Ok(None));
        index.walk(&range, false, |_, number| {
            if !counts(number) {
                return true;
            }
            met = finder.find(number).and_then(|other| {
                others.extend(other);
                match others.len() < COMPARED_ROWS {
                    true => Ok(None),
                    false => self.first_of(rows, row, &std::mem::take(&mut others)),
                }
            });
            matches!(met, Ok(None))
        })?;
        match met? {
            None => self.first_of(rows, row, &others),
            found => Ok(found),
        }
    }

    /// The first of these rows that excludes one of `rows`.
    fn first_of(&self, rows: &ExcludingRows, row: usize, others: &[RecordBatch]) -> Result<Option<RecordBatch>> {
        let Some(first) = others.first() else { return Ok(None) };
        let others = concat_batches(&first.schema(), others).map_err(from_arrow)?;
        let (values, _) = self.function.compute(others.columns(), others.num_rows())?;
        let found = self.first(rows, row, &values, others.num_rows())?;
        Ok(found.map(|place| others.slice(place, 1)))
    }

    /// The place of the first of so many rows with these values that excludes one of `rows`.
    fn first(&self, rows: &ExcludingRows, row: usize, values: &[ArrayRef], count: usize) -> Result<Option<usize>> {
        let places = UInt64Array::from(vec![row as u64; count]);
        let own = rows.values.iter().map(|column| take(column, &places, None).map_err(from_arrow));
        let excludes: BooleanArray = self.function.excludes(&own.collect::<Result<Vec<_>>>()?, values, count)?;
        Ok((0..count).find(|place| excludes.is_valid(*place) && excludes.value(*place)))
    }

    /// Of rows that were met before, one that excludes a row: its batch and its place. `all` are the rows by batch.
    pub(crate) fn among(
        &self,
        all: &[ExcludingRows],
        (batch, row): (usize, usize),
        met: &MetRows,
    ) -> Result<Option<(usize, usize)>> {
        let rows = &all[batch];
        let met = rows.begins[row].as_ref().and_then(|begin| met.0.get(begin));
        for others in met.map_or(&[][..], Vec::as_slice).chunks(COMPARED_ROWS) {
            let values = (0..rows.values.len()).map(|column| {
                let columns = all.iter().map(|rows| &*rows.values[column]).collect::<Vec<_>>();
                interleave(&columns, others).map_err(from_arrow)
            });
            let values = values.collect::<Result<Vec<_>>>()?;
            if let Some(place) = self.first(rows, row, &values, others.len())? {
                return Ok(Some(others[place]));
            }
        }
        Ok(None)
    }

    /// Fails with code 23P01 if one of these rows may not stand beside one of an index, or beside another one of them.
    pub(crate) fn check(
        &self,
        found: (&KeyIndex, &RowFinder<'_>),
        batches: &[RecordBatch],
        table: &RelationName,
    ) -> Result<()> {
        let all = batches.iter().map(|batch| self.rows(batch)).collect::<Result<Vec<_>>>()?;
        let mut met = MetRows::default();
        for (batch, rows) in all.iter().enumerate() {
            for row in 0..rows.len() {
                let other = match self.excluding(found, rows, row, |_| true)? {
                    Some(other) => Some(self.reader.shown_of(other.columns(), 0)),
                    None => {
                        let other = self.among(&all, (batch, row), &met)?;
                        other.map(|(batch, row)| self.reader.shown_of(&all[batch].columns, row))
                    }
                };
                if let Some(other) = other {
                    return Err(self.error(table, &self.reader.shown_of(&rows.columns, row), &other));
                }
                met.meet(rows, (batch, row));
            }
        }
        Ok(())
    }

    /// Fails with code 23P01 if a row of these pieces, of those with numbers from `first` on, may not stand beside
    /// another one. The index has all of their rows.
    pub(crate) fn check_pieces(
        &self,
        index: &KeyIndex,
        (pieces, first): (&[Piece], i64),
        table: &RelationName,
    ) -> Result<()> {
        let finder = RowFinder::new(pieces, self.places().to_vec());
        for piece in pieces.iter().filter(|piece| piece.last() >= first) {
            let columns = piece.read_columns(self.places())?;
            let rows = self.rows_of(columns.columns().to_vec(), columns.num_rows())?;
            for (row, number) in piece.live_numbers().enumerate().filter(|(_, number)| *number >= first) {
                // Of two rows, the later one is compared with the one before it.
                if let Some(other) = self.excluding((index, &finder), &rows, row, |other| other < number)? {
                    let own = self.reader.shown_of(&rows.columns, row);
                    return Err(self.error(table, &own, &self.reader.shown_of(other.columns(), 0)));
                }
            }
        }
        Ok(())
    }

    fn error(&self, table: &RelationName, own: &str, other: &str) -> Error {
        let message = format!("conflicting key value violates exclusion constraint \"{}\"", self.key.name);
        let about = About {
            schema: Some(table.schema.clone()),
            table: Some(table.name.clone()),
            constraint: Some(self.key.name.clone()),
            ..About::default()
        };
        let detail = format!("Key {own} conflicts with existing key {other}.");
        Error::value(message).with_code("23P01").with_detail(detail).with_about(about)
    }
}

impl MetRows {
    /// Remembers a row.
    pub(crate) fn meet(&mut self, rows: &ExcludingRows, (batch, row): (usize, usize)) {
        if let Some(begin) = &rows.begins[row] {
            self.0.entry(begin.clone()).or_default().push((batch, row));
        }
    }
}
