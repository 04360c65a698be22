//! Rows of the build side in the three forms that they have on their way: evaluated from a batch, as a chunk in memory,
//! and as a batch that goes to temp space.
//!
//! A *spilled batch* has the kept columns, one column of words for each key that has words (NULL where the key is),
//! and, where the join type asks, whether the row has found a partner. Byte strings of keys are among the kept columns
//! already. Hashes are not written: they are made again from the keys, which costs less than eight bytes per row of
//! reading and writing.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryViewArray, BooleanArray, UInt32Array, UInt64Array};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{DataType, Field, Schema};
use diligence_base::{Error, Result};

use super::chunk::Chunk;
use super::spec::{StoredSource, TableKey, TableSpec};
use crate::batch::{Batch, Column};
use crate::operators::key_words::{KeyColumn, KeyData, KeyKind};

/// Some rows of the build side.
pub(in super::super) struct BuildRows {
    pub rows: usize,
    pub keys: Vec<KeyColumn>,
    /// Rows that can match, if not all.
    pub valid: Option<NullBuffer>,
    /// The kept columns.
    pub columns: Vec<Column>,
    /// Rows that have found a partner, if it is not none.
    pub matched: Option<BooleanBuffer>,
}

impl TableSpec {
    /// The rows of an input batch that may come out; `None` if there are none.
    pub fn build_rows(&self, mut batch: Batch) -> Result<Option<BuildRows>> {
        let evaluated = self.keys.iter().map(|key| key.kind.column(&key.expression.evaluate(&batch)?.flat()?));
        let mut keys = evaluated.collect::<Result<Vec<_>>>()?;
        let mut valid = self.valid(&keys);
        if let Some(rows) = valid.as_ref().filter(|_| !self.keeps_unmatchable) {
            let rows: UInt32Array = rows.valid_indices().map(|row| row as u32).collect::<Vec<_>>().into();
            if rows.is_empty() {
                return Ok(None);
            }
            batch = batch.pick(&rows)?;
            keys = keys.into_iter().map(|key| key.take(&rows)).collect::<Result<_>>()?;
            valid = None;
        }
        let columns = self.stored.iter().map(|(source, _)| match source {
            StoredSource::Input(index) => Ok(batch.column(*index).clone()),
            StoredSource::Key(index) => byte_strings(&keys[*index]),
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        keys.iter_mut().for_each(without_bytes);
        Ok(Some(BuildRows { rows: batch.rows(), keys, valid, columns, matched: None }))
    }

    /// The rows of a spilled batch.
    pub fn unspilled(&self, batch: &Batch) -> Result<BuildRows> {
        let mut word_columns = self.stored.len()..;
        let keys = self
            .keys
            .iter()
            .zip(&self.key_columns)
            .map(|(key, kept)| self.read_key(key, *kept, batch, || word_columns.next().unwrap_or(0)));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let matched = match self.marks_rows {
            true => Some(batch.flat(batch.columns().len() - 1)?.as_boolean().values().clone()),
            false => None,
        };
        Ok(BuildRows {
            rows: batch.rows(),
            valid: self.valid(&keys),
            keys,
            columns: batch.columns()[..self.stored.len()].to_vec(),
            matched: matched.filter(|matched| matched.count_set_bits() > 0),
        })
    }

    /// The columns of a [spilled batch](self).
    pub fn spilled_schema(&self) -> Schema {
        let stored = self.stored.iter().map(|(_, logical)| logical.clone());
        let words = self.keys.iter().filter(|key| key.kind.is_word()).map(|_| DataType::UInt64);
        let marks = self.marks_rows.then_some(DataType::Boolean);
        let types = stored.chain(words).chain(marks);
        Schema::new(
            types.enumerate().map(|(i, logical)| Field::new(format!("c{i}"), logical, true)).collect::<Vec<_>>(),
        )
    }

    fn read_key(
        &self,
        key: &TableKey,
        kept: Option<usize>,
        batch: &Batch,
        word_column: impl FnOnce() -> usize,
    ) -> Result<KeyColumn> {
        let Some(kept) = kept else { return key.kind.column(&batch.flat(word_column())?) };
        let mut column = KeyKind::Bytes.column(&batch.flat(kept)?)?;
        without_bytes(&mut column);
        Ok(column)
    }

    fn valid(&self, keys: &[KeyColumn]) -> Option<NullBuffer> {
        let valid = NullBuffer::union_many(keys.iter().map(|key| key.nulls.as_ref()));
        valid.filter(|valid| !self.null_equal && valid.null_count() > 0)
    }
}

impl BuildRows {
    /// Rows that can match.
    pub fn matchable(&self) -> usize {
        self.valid.as_ref().map_or(self.rows, |valid| self.rows - valid.null_count())
    }

    /// The rows of a chunk with its columns.
    pub fn of_chunk(chunk: Chunk, columns: Vec<ArrayRef>) -> Self {
        let Chunk { rows, keys, valid, matched, .. } = chunk;
        Self { rows, keys, valid, columns: columns.into_iter().map(Column::flat_array).collect(), matched }
    }

    /// The batch that goes to temp space.
    pub fn into_spilled(self, spec: &TableSpec) -> Batch {
        let Self { rows, keys, mut columns, matched, .. } = self;
        for key in keys {
            if let KeyData::Words(words) = key.data {
                columns.push(Column::flat_array(Arc::new(UInt64Array::new(words.into(), key.nulls))));
            }
        }
        if spec.marks_rows {
            let matched = matched.unwrap_or_else(|| BooleanBuffer::new_unset(rows));
            columns.push(Column::flat_array(Arc::new(BooleanArray::new(matched, None))));
        }
        Batch::new(columns, rows)
    }

    /// Bytes that the keys hold as a chunk.
    pub fn key_bytes(&self) -> usize {
        8 * self.keys.len() * self.rows + size_of::<Chunk>()
    }
}

/// The hashes are wanted; the values are in the kept columns, and would hold whole buffers here.
fn without_bytes(key: &mut KeyColumn) {
    if let KeyData::Bytes(values, _) = &mut key.data {
        *values = BinaryViewArray::from_iter_values(std::iter::empty::<&[u8]>());
    }
}

/// A key's byte strings as a column; NULL where the key is.
fn byte_strings(key: &KeyColumn) -> Result<Column> {
    match &key.data {
        KeyData::Bytes(values, _) => {
            let (views, buffers, _) = values.clone().into_parts();
            // SAFETY: the views and buffers are those of a valid array; only the NULLs are the key's own.
            let array = unsafe { BinaryViewArray::new_unchecked(views, buffers, key.nulls.clone()) };
            Ok(Column::flat_array(Arc::new(array)))
        }
        KeyData::Words(_) => Err(Error::bug("a key of words was asked for its bytes")),
    }
}
