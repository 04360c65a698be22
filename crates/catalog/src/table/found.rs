//! Rows that are found by their keys and numbers.

use arrow::array::Int64Array;
use arrow::compute::interleave_record_batch;
use arrow::datatypes::{DataType, Field};

use super::*;

impl NativeTable {
    /// The rows of these numbers, in their order. Fails with code 40001 if one is gone, and as rows are read.
    pub fn rows_of(&self, numbers: &[i64]) -> Result<RecordBatch> {
        let wanted = numbers.iter().copied().zip(0..).collect::<HashMap<_, usize>>();
        let (mut batches, mut places) = (Vec::new(), vec![None; numbers.len()]);
        for piece in self.pieces() {
            let found = piece.live_numbers().enumerate().filter_map(|(row, number)| Some((row, *wanted.get(&number)?)));
            let found = found.collect::<Vec<_>>();
            if found.is_empty() {
                continue;
            }
            for (row, place) in found {
                places[place] = Some((batches.len(), row));
            }
            batches.push(piece.read()?);
        }
        let places = places.into_iter().collect::<Option<Vec<_>>>().ok_or_else(conflict)?;
        if batches.is_empty() {
            return Ok(RecordBatch::new_empty(self.schema().clone()));
        }
        let batches = batches.iter().collect::<Vec<_>>();
        interleave_record_batch(&batches, &places).map_err(from_arrow)
    }

    /// Beside each of these rows the row that has the same key, of this name, and its number; NULLs where none has.
    /// Fails with code 23502 for a NULL where none may be, and 40001 if the key is gone.
    pub fn rows_with_key(&self, key: &str, rows: &RecordBatch) -> Result<RecordBatch> {
        let rows = conform(rows, self.schema(), self.name())?;
        let key = self.rules().keys.iter().find(|known| known.name == key).ok_or_else(conflict)?;
        let lookup = self.lookup(key)?.ok_or_else(|| Error::bug("a key has no index"))?;
        let values = lookup.reader.values(&rows)?;
        let found = (0..rows.num_rows()).map(|row| lookup.found(&values, row)).collect::<Result<Vec<_>>>()?;
        let mut numbers = found.iter().flatten().copied().collect::<Vec<_>>();
        numbers.sort_unstable();
        numbers.dedup();
        let there = match numbers.as_slice() {
            [one] => self.row(*one)?.ok_or_else(conflict)?,
            all => self.rows_of(all)?,
        };
        let place = |number: &Option<i64>| number.and_then(|number| numbers.binary_search(&number).ok());
        let places = found.iter().map(|number| place(number).map(|place| place as u64));
        let places = UInt64Array::from_iter(places);
        let columns = there.columns().iter().map(|column| take(column, &places, None).map_err(from_arrow));
        let mut columns = columns.collect::<Result<Vec<_>>>()?;
        let fields = self.schema().fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        let mut fields = fields.collect::<Vec<_>>();
        columns.push(Arc::new(Int64Array::from(found)));
        fields.push(Field::new("number", DataType::Int64, true));
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options).map_err(from_arrow)
    }

    /// Finds rows by a key; `None` if the table does not have it.
    pub(crate) fn lookup<'a>(&'a self, key: &'a rules::Key) -> Result<Option<KeyLookup<'a>>> {
        let place = self.rules().keys.iter().position(|known| known == key);
        let Some(index) = place.and_then(|place| self.rows.indexes.get(place)) else { return Ok(None) };
        let reader = KeyReader::new(key, self.schema())?;
        let finder = RowFinder::new(self.pieces(), reader.places().to_vec());
        Ok(Some(KeyLookup { reader, finder, index }))
    }

    /// The hashes of the unique keys of these rows, in order, each different for every key; and of what rows have in
    /// common that may exclude each other.
    pub(crate) fn key_hashes(&self, rows: &[RecordBatch]) -> Result<Vec<u64>> {
        let mut hashes = self.unique_hashes(rows)?;
        self.each_excluding(rows, &[], |key, _, exclusion, batch| {
            let rows = exclusion.rows(batch)?;
            hashes.extend(rows.hashes().map(|hash| key.number() ^ hash));
            Ok(())
        })?;
        hashes.sort_unstable();
        hashes.dedup();
        Ok(hashes)
    }

    /// The hashes of the unique keys of these rows, in order, each different for every key.
    pub(crate) fn unique_hashes(&self, rows: &[RecordBatch]) -> Result<Vec<u64>> {
        let mut hashes = Vec::new();
        self.each_unique(rows, &[], |_, key, hash, _, _| {
            hashes.push(key ^ hash);
            Ok(())
        })?;
        hashes.sort_unstable();
        hashes.dedup();
        Ok(hashes)
    }

    /// The hashes of unique keys that go with these rows, where rows with these hashes come. Fails as
    /// [`rows_of`](Self::rows_of) does.
    pub(crate) fn gone_hashes(&self, deleted: &[i64], come: &[u64]) -> Result<Vec<u64>> {
        let mut hashes = self.unique_hashes(&[self.rows_of(deleted)?])?;
        hashes.retain(|hash| come.binary_search(hash).is_err());
        Ok(hashes)
    }

    /// Whether a row whose number counts has a unique key of one of these rows, or excludes one of them; by the keys of
    /// these names, or all.
    pub(crate) fn has_beside(
        &self,
        rows: &[RecordBatch],
        keys: &[String],
        counts: impl Fn(i64) -> bool,
    ) -> Result<bool> {
        let mut is_met = false;
        self.each_unique(rows, keys, |(index, reader), _, _, values, row| {
            let Some(key) = values.compared(row) else { return Ok(()) };
            for number in index.candidates(&key)?.into_iter().filter(|number| counts(*number)) {
                let finder = RowFinder::new(self.pieces(), reader.places().to_vec());
                is_met = is_met || has_key(&finder, reader, number, values, row)?;
            }
            Ok(())
        })?;
        self.each_excluding(rows, keys, |_, index, exclusion, batch| {
            let finder = RowFinder::new(self.pieces(), exclusion.places().to_vec());
            let rows = exclusion.rows(batch)?;
            for row in 0..rows.len() {
                let other = exclusion.excluding((index, &finder), &rows, row, &counts)?;
                is_met |= other.is_some();
            }
            Ok(())
        })?;
        Ok(is_met)
    }

    /// Calls `each` with every exclusion constraint of these names, or all, and every batch of these rows.
    fn each_excluding(
        &self,
        rows: &[RecordBatch],
        names: &[String],
        mut each: impl FnMut(&rules::Key, &KeyIndex, &Exclusion<'_>, &RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let keys = self.rules().keys.iter().zip(&self.rows.indexes);
        let keys = keys.filter(|(key, _)| names.is_empty() || names.contains(&key.name));
        for (key, index) in keys.filter(|(key, _)| key.kind == KeyKind::Exclusion) {
            let exclusion = Exclusion::new(key, self.schema())?;
            for batch in rows {
                each(key, index, &exclusion, &conform(batch, self.schema(), self.name())?)?;
            }
        }
        Ok(())
    }

    /// Calls `each` with every unique key of these rows, of these names or all: where it is, a number for the key, the
    /// hash, and the row.
    fn each_unique(
        &self,
        rows: &[RecordBatch],
        names: &[String],
        mut each: impl FnMut((&KeyIndex, &KeyReader<'_>), u64, u64, &KeyValues, usize) -> Result<()>,
    ) -> Result<()> {
        let unique = self.rules().keys.iter().zip(&self.rows.indexes).filter(|(key, _)| key.kind.is_unique());
        let unique = unique.filter(|(key, _)| names.is_empty() || names.contains(&key.name)).collect::<Vec<_>>();
        if unique.is_empty() || rows.is_empty() {
            return Ok(());
        }
        let rows = rows.iter().map(|batch| conform(batch, self.schema(), self.name())).collect::<Result<Vec<_>>>()?;
        for (key, index) in unique {
            index.check()?;
            let reader = KeyReader::new(key, self.schema())?;
            let number = key.number();
            for batch in &rows {
                let values = reader.values(batch)?;
                for row in 0..batch.num_rows() {
                    if let Some(hash) = values.hash(row) {
                        each((index, &reader), number, hash, &values, row)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Fails with code 23505 if two rows have one key that is unique, 23P01 if two may not stand beside each other.
    pub(crate) fn check_unique(&self, key: &rules::Key) -> Result<()> {
        let Some(memory) = self.counted() else { return Ok(()) };
        let memory = memory.sibling();
        let made = indexed(key, self.schema(), self.name(), self.pieces(), self.key_space(Some(&memory)));
        made.map(drop).map_err(|error| match error.code() {
            Some("23505") => {
                let message = format!("duplicate key value violates unique constraint \"{}\"", key.name);
                let detail = error.detail().unwrap_or_default().replace("is duplicated.", "already exists.");
                Error::value(message).with_code("23505").with_detail(detail).with_about(error.about().clone())
            }
            Some("23P01") => {
                let message = format!("conflicting key value violates exclusion constraint \"{}\"", key.name);
                let detail = error.detail().unwrap_or_default().replace("with key", "with existing key");
                Error::value(message).with_code("23P01").with_detail(detail).with_about(error.about().clone())
            }
            _ => error,
        })
    }

    /// Whether the version has a row of this number.
    pub(crate) fn has_row(&self, number: i64) -> bool {
        let piece = piece_of(self.pieces(), number);
        piece.is_some_and(|piece| self.pieces()[piece].position(number).is_some())
    }

    /// The row of a number, as a batch of one; `None` if it is not in this version. Fails with kind `File` if it cannot
    /// be read.
    pub(crate) fn row(&self, number: i64) -> Result<Option<RecordBatch>> {
        let Some(piece) = piece_of(self.pieces(), number).map(|piece| &self.pieces()[piece]) else { return Ok(None) };
        piece.position(number).map(|position| piece.row(position)).transpose()
    }

    /// Which of these rows have no key that a row of this version has, or one before them: by batch. `keys` are the
    /// names of the keys that count; all unique ones, if empty.
    pub(crate) fn new_keys(&self, rows: &[RecordBatch], keys: &[String]) -> Result<Vec<BooleanArray>> {
        let rows = rows.iter().map(|batch| conform(batch, self.schema(), self.name())).collect::<Result<Vec<_>>>()?;
        let mut masks = rows.iter().map(|batch| vec![true; batch.num_rows()]).collect::<Vec<_>>();
        let (mut readers, mut exclusions) = (Vec::new(), Vec::new());
        for (key, index) in self.rules().keys.iter().zip(&self.rows.indexes) {
            if !key.kind.keeps_apart() || !keys.is_empty() && !keys.contains(&key.name) {
                continue;
            }
            index.check()?;
            if key.kind == KeyKind::Exclusion {
                exclusions.push(self.not_excluded(key, index, &rows, &mut masks)?);
                continue;
            }
            let reader = KeyReader::new(key, self.schema())?;
            let finder = RowFinder::new(self.pieces(), reader.places().to_vec());
            let values = rows.iter().map(|batch| reader.values(batch)).collect::<Result<Vec<_>>>()?;
            for (mask, values) in masks.iter_mut().zip(&values) {
                for (row, is_new) in mask.iter_mut().enumerate().filter(|(_, is_new)| **is_new) {
                    if let Some(key) = values.compared(row) {
                        for number in index.candidates(&key)? {
                            *is_new &= !has_key(&finder, &reader, number, values, row)?;
                        }
                    }
                }
            }
            readers.push((values, Together::default()));
        }
        // Of rows that come together, the first that stays by all keys counts.
        for (batch, mask) in masks.iter_mut().enumerate() {
            for (row, is_new) in mask.iter_mut().enumerate().filter(|(_, is_new)| **is_new) {
                *is_new = !readers.iter_mut().any(|(values, together)| together.is_met(values, batch, row));
                for (exclusion, all, met) in &exclusions {
                    *is_new = *is_new && exclusion.among(all, (batch, row), met)?.is_none();
                }
                if *is_new {
                    readers.iter_mut().for_each(|(values, together)| together.meet(values, batch, row));
                    exclusions.iter_mut().for_each(|(_, all, met)| met.meet(&all[batch], (batch, row)));
                }
            }
        }
        Ok(masks.into_iter().map(BooleanArray::from).collect())
    }

    /// Takes from `masks` the rows that may not stand beside rows of this version, and begins to compare the others
    /// with each other.
    fn not_excluded<'a>(
        &self,
        key: &'a rules::Key,
        index: &KeyIndex,
        rows: &[RecordBatch],
        masks: &mut [Vec<bool>],
    ) -> Result<(Exclusion<'a>, Vec<ExcludingRows>, MetRows)> {
        let exclusion = Exclusion::new(key, self.schema())?;
        let finder = RowFinder::new(self.pieces(), exclusion.places().to_vec());
        let all = rows.iter().map(|batch| exclusion.rows(batch)).collect::<Result<Vec<_>>>()?;
        for (mask, rows) in masks.iter_mut().zip(&all) {
            for (row, is_new) in mask.iter_mut().enumerate().filter(|(_, is_new)| **is_new) {
                *is_new = exclusion.excluding((index, &finder), rows, row, |_| true)?.is_none();
            }
        }
        Ok((exclusion, all, MetRows::default()))
    }
}
