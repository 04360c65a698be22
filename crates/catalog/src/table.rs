//! A table that statements change, in one version.
//!
//! A change makes another [`NativeTable`], which the catalog puts in the place of this one; a statement that began
//! before it goes on reading the old one. Every row has a number, by which statements that change it find it: rows get
//! them in the order in which they come, and keep them as long as they live.
//!
//! Invariant: the memory of a batch is reserved as long as any version that has the batch lives, in the catalog, in a
//! snapshot or in a statement that reads it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, BooleanBufferBuilder, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::compute::{concat_batches, take};
use arrow::datatypes::{Schema, SchemaRef};
use diligence_base::ids::TableVersion;
use diligence_base::limits::BATCH_ROWS_MAX;
use diligence_base::{About, Error, ErrorKind, Result};
use diligence_memory::Reservation;
use diligence_storage::foreign_error::from_arrow;
use diligence_storage::memory::RowNumbers;
use diligence_storage::segment::{Segment, SegmentView};
use diligence_storage::{DeletedRows, Table};

use crate::conformed::{conform, gathered, moved, table_schema};
use crate::declared::{ColumnIds, Declared};
use crate::distribution::{Distribution, FragmentRows, Placement, Strategy};
use crate::index::{IndexState, KeyIndex};
use crate::keyed::{KeyLookup, has_key, index_with, indexed, starts, there_already};
use crate::keys::{KeyReader, KeyValues, SortedKeys, Together};
use crate::pieces::{NewRows, Piece, PieceRows, RowFinder, StoredCluster, StoredRows, conflict, piece_of, settle};
use crate::rows::{RowsView, TableRows};
use crate::rules::TableRules;
use crate::{RelationName, rules};

/// A table that the database keeps: what it was declared with, and its rows in one version, in memory and on disk.
#[derive(Debug)]
pub struct NativeTable {
    declared: Arc<Declared>,
    rows: Arc<TableRows>,
}

/// Other columns and rules of a table, whose rows stay.
#[derive(Clone, Debug)]
pub struct TableAlteration {
    /// The table's name from now on.
    pub name: RelationName,
    /// Its columns.
    pub columns: SchemaRef,
    /// For each of them the column that it was; NULL in all rows, if `None`.
    pub places: Vec<Option<usize>>,
    /// Its rules.
    pub rules: TableRules,
}

/// A piece as it was written down.
#[derive(Clone, Debug)]
pub struct RestoredPiece {
    /// Its rows.
    pub rows: NewRows,
    /// Their numbers.
    pub numbers: RowNumbers,
    /// The fragment that they belong to.
    pub fragment: u16,
}

/// What a statement does to the rows of a table.
#[derive(Debug)]
pub struct RowChange {
    /// The numbers of rows that go; in any order, each once.
    pub deleted: Vec<i64>,
    /// Rows that come, with the table's columns.
    pub inserted: Vec<NewRows>,
    /// What the new rows are counted in.
    pub memory: Reservation,
    /// So many of the first rows that come take the places of the first that go, one by one.
    pub pairs: usize,
}

impl NativeTable {
    /// A table of these rows, which are counted in `memory`, in a version that no table has had. The columns take the
    /// logical types that all tables have (see [`table_schema`]). Fails with kind `Value` if a value does not fit its
    /// column or is a NULL that the column does not allow.
    pub fn new(
        name: &RelationName,
        schema: &Schema,
        batches: &[RecordBatch],
        memory: Reservation,
        version: TableVersion,
    ) -> Result<Self> {
        let rows = batches.iter().cloned().map(NewRows::Memory).collect();
        Self::of_rows(name, schema, rows, memory, version)
    }

    /// As [`new`](Self::new), where the rows may lie on disk. Fails as that does.
    pub fn of_rows(
        name: &RelationName,
        schema: &Schema,
        rows: Vec<NewRows>,
        memory: Reservation,
        version: TableVersion,
    ) -> Result<Self> {
        let schema = table_schema(schema);
        let columns = ColumnIds::of_new(schema.fields().len());
        let (own_name, rules) = (name.clone(), TableRules::default());
        let declared = Arc::new(Declared::new(own_name, schema, rules, columns, version)?);
        let memory = Arc::new(memory);
        let (mut pieces, mut next_number) = (Vec::new(), 0);
        let mut views = Views::default();
        for rows in rows {
            let numbers = RowNumbers::From(next_number);
            let piece = match rows {
                NewRows::Memory(batch) if batch.num_rows() == 0 => continue,
                NewRows::Memory(batch) => {
                    Piece::in_memory(conform(&batch, &declared.schema, name)?, numbers, memory.clone())
                }
                NewRows::Stored(stored) => Piece::stored(views.rows_of(stored, &declared), numbers, memory.clone()),
            };
            next_number += piece.total() as i64;
            pieces.push(piece);
        }
        Ok(Self::of(declared, pieces, next_number, version, Vec::new()))
    }

    /// As [`of_rows`](Self::of_rows), of a table under these rules: its rows are divided as they say. Indexes are
    /// counted as the rows are. Fails as that does, and as [`with_rules`](Self::with_rules).
    pub fn of_rows_under(
        name: &RelationName,
        schema: &Schema,
        rows: Vec<NewRows>,
        rules: TableRules,
        memory: Reservation,
        version: TableVersion,
    ) -> Result<Self> {
        let counted = memory.sibling();
        if rules.distribution == Distribution::default() {
            return Self::of_rows(name, schema, rows, memory, version)?.with_rules(rules, &counted, version);
        }
        let empty = Self::of_rows(name, schema, Vec::new(), memory.sibling(), version)?;
        let divided = TableRules { distribution: rules.distribution.clone(), ..TableRules::default() };
        let divided = empty.with_own_rules(divided, None, version)?.with_rows(&rows, memory, true, version)?;
        // Where bounds come from rows, they are known now.
        let distribution = divided.rules().distribution.clone();
        divided.with_rules(TableRules { distribution, ..rules }, &counted, version)
    }

    /// Rows with exactly the types of a table of these columns. Fails with kind `Value` if a value does not fit its
    /// column or is a NULL that the column does not allow.
    pub fn conformed(name: &RelationName, columns: &SchemaRef, rows: &RecordBatch) -> Result<RecordBatch> {
        conform(rows, columns, name)
    }

    /// A cluster as rows for this table, which no table takes that is declared otherwise.
    pub fn as_own(&self, rows: NewRows) -> NewRows {
        match rows {
            NewRows::Stored(stored) => {
                NewRows::Stored(StoredCluster { declared: Some(self.declared.clone()), ..stored })
            }
            NewRows::Memory(_) => rows,
        }
    }

    /// All columns of rows that have come. Fails with kind `File` if they cannot be read.
    pub(crate) fn read_new(&self, rows: &NewRows) -> Result<RecordBatch> {
        match rows {
            NewRows::Memory(batch) => Ok(batch.clone()),
            NewRows::Stored(stored) => {
                let rows = Views::default().rows_of(stored.clone(), &self.declared);
                let counted = self.counted().ok_or_else(|| Error::bug("rows are counted nowhere"))?;
                Piece::stored(rows, RowNumbers::From(0), Arc::new(counted.sibling())).read()
            }
        }
    }

    /// The rows, as they come into another table.
    pub(crate) fn new_rows(&self) -> Vec<NewRows> {
        self.pieces().iter().map(Piece::as_new).collect()
    }

    /// A table as it was written down: its pieces, and the number of the next row. Fails with kind `File` if they do
    /// not fit.
    pub fn restored(
        name: &RelationName,
        schema: &Schema,
        columns: ColumnIds,
        pieces: Vec<RestoredPiece>,
        next_number: i64,
        memory: Reservation,
        version: TableVersion,
    ) -> Result<Self> {
        let misfit = || Error::file("a table's rows and their numbers do not fit").with_code("XX001");
        let schema = table_schema(schema);
        if columns.ids.len() != schema.fields().len() {
            return Err(misfit());
        }
        let memory = Arc::new(memory);
        let (name, rules) = (name.clone(), TableRules::default());
        let declared = Arc::new(Declared::new(name, schema, rules, columns, version)?);
        let mut views = Views::default();
        let pieces = pieces.into_iter().map(|RestoredPiece { rows, numbers, fragment }| {
            let piece = match rows {
                NewRows::Memory(batch) => {
                    let batch = conform(&batch, &declared.schema, &declared.name)?;
                    Piece::in_memory(batch, numbers, memory.clone())
                }
                NewRows::Stored(stored) => {
                    let rows = views.rows_of(stored, &declared);
                    rows.total()?;
                    Piece::stored(rows, numbers, memory.clone())
                }
            };
            let piece = piece.in_fragment(fragment);
            match piece.numbers() {
                RowNumbers::Listed(numbers) | RowNumbers::Moved { numbers, .. } if numbers.len() != piece.total() => {
                    Err(misfit())
                }
                _ if piece.is_empty() => Err(misfit()),
                _ => Ok(piece),
            }
        });
        let pieces = pieces.collect::<Result<Vec<_>>>()?;
        let place = |piece: &Piece| (piece.fragment(), piece.first());
        if pieces.windows(2).any(|pair| place(&pair[0]) >= place(&pair[1])) {
            return Err(misfit());
        }
        Ok(Self::of(declared, pieces, next_number, version, Vec::new()))
    }

    /// The same rows under other rules, in another version. Fails with code 23505 if two rows have one key, 0A000 if a
    /// column cannot be part of a key, and with kind `Resource` if memory is short. Conditions are not looked at.
    pub fn with_rules(&self, rules: TableRules, memory: &Reservation, version: TableVersion) -> Result<Self> {
        self.with_own_rules(rules, Some(memory), version)
    }

    /// As [`with_rules`](Self::with_rules), of a table that is restored: where rows cannot be read, it has no index,
    /// and takes no more rows. Fails as that does.
    pub fn with_restored_rules(&self, rules: TableRules, memory: &Reservation, version: TableVersion) -> Result<Self> {
        let Declared { name, schema, columns, origin, .. } = &*self.declared;
        let indexes = rules.keys.iter().map(|key| match indexed(key, schema, name, self.pieces(), Some(memory)) {
            Err(error) if error.kind() == ErrorKind::File => Ok(KeyIndex::broken(error)),
            made => made,
        });
        let indexes = indexes.collect::<Result<Vec<_>>>()?;
        let declared = Declared::new(name.clone(), schema.clone(), rules, columns.clone(), *origin)?;
        if self.pieces().iter().any(|piece| piece.fragment() >= declared.placement.fragments()) {
            return Err(Error::file("a table's rows and its fragments do not fit").with_code("XX001"));
        }
        Ok(Self::of(Arc::new(declared), self.pieces().to_vec(), self.rows.next_number, version, indexes))
    }

    /// As [`with_rules`](Self::with_rules); without memory, for a table that has no rows or no other keys.
    pub(crate) fn with_own_rules(
        &self,
        rules: TableRules,
        memory: Option<&Reservation>,
        version: TableVersion,
    ) -> Result<Self> {
        let Declared { name, schema, rules: before, .. } = &*self.declared;
        if rules.distribution != before.distribution && !self.pieces().is_empty() {
            return Err(Error::bug("rows are divided where they come"));
        }
        let mut indexes = Vec::with_capacity(rules.keys.len());
        for key in &rules.keys {
            let known = before.keys.iter().position(|known| known == key);
            indexes.push(match known.and_then(|place| self.rows.indexes.get(place)) {
                Some(index) => index.clone(),
                None => indexed(key, schema, name, self.pieces(), memory)?,
            });
        }
        let Declared { columns, origin, .. } = &*self.declared;
        let (columns, origin) = (columns.clone(), *origin);
        let declared = Declared::new(name.clone(), schema.clone(), rules, columns, origin)?;
        Ok(Self::of(Arc::new(declared), self.pieces().to_vec(), self.rows.next_number, version, indexes))
    }

    /// The same rows with other columns, under other rules. Fails as [`with_rules`](Self::with_rules) does, and with
    /// code 23502 if a column has NULL that may not.
    pub(crate) fn altered(
        &self,
        alteration: &TableAlteration,
        memory: Option<&Reservation>,
        version: TableVersion,
    ) -> Result<Self> {
        let TableAlteration { name, columns, places, rules } = alteration;
        let schema = table_schema(columns);
        let ColumnIds { ids, next } = &self.declared.columns;
        let mut ids = ColumnIds { ids: ids.clone(), next: *next };
        ids.ids = places
            .iter()
            .map(|place| place.and_then(|place| self.declared.columns.ids.get(place)).copied())
            .map(|known| {
                known.unwrap_or_else(|| {
                    ids.next += 1;
                    ids.next - 1
                })
            })
            .collect();
        let (own_name, own_rules) = (name.clone(), rules.clone());
        let origin = self.declared.origin;
        let declared = Declared::new(own_name, schema.clone(), own_rules, ids, origin)?;
        let mut views = Views::default();
        let null_in = |column: &str| {
            let message = format!("column \"{column}\" of relation \"{}\" contains null values", name.name);
            let about = About {
                schema: Some(name.schema.clone()),
                table: Some(name.name.clone()),
                column: Some(column.to_owned()),
                ..About::default()
            };
            Error::value(message).with_code("23502").with_about(about)
        };
        let mut pieces = self.pieces().to_vec();
        for piece in &mut pieces {
            let stored = match piece.rows() {
                PieceRows::Memory(batch) => {
                    let batch = moved(batch, places, &schema)?;
                    let batch = conform(&batch, &schema, name).map_err(|error| match &error.about().column {
                        Some(column) => null_in(column),
                        None => error,
                    })?;
                    *piece = piece.with_rows(PieceRows::Memory(batch));
                    continue;
                }
                PieceRows::Stored(stored) => stored.clone(),
            };
            let view = views.of(stored.view.segment(), &declared);
            *piece = piece.with_rows(PieceRows::Stored(StoredRows { view, ..stored }));
            for (column, (field, place)) in schema.fields().iter().zip(places).enumerate() {
                let was_required = place.is_some_and(|place| !self.schema().field(place).is_nullable());
                if !field.is_nullable() && !was_required && piece.read_columns(&[column])?.column(0).null_count() > 0 {
                    return Err(null_in(field.name()));
                }
            }
        }
        // A key's index is that of the same columns before.
        let old = |column: &String| {
            let place = places.get(schema.index_of(column).ok()?).copied().flatten()?;
            self.schema().fields().get(place).map(|field| field.name().clone())
        };
        let mut indexes = Vec::with_capacity(rules.keys.len());
        for key in &rules.keys {
            let columns = key.columns.iter().map(old).collect::<Option<Vec<_>>>();
            // What is computed is the same only if nothing that it is computed from has got another name.
            let is_as_it_was = |known: &rules::Key| match (&known.computed, &key.computed) {
                (None, None) => Some(&known.columns) == columns.as_ref(),
                (Some(before), Some(now)) => {
                    let kept = |column: &String| old(column).as_ref() == Some(column);
                    known.columns == key.columns && before == now && now.function.columns().iter().all(kept)
                }
                _ => false,
            };
            let same = |known: &rules::Key| {
                is_as_it_was(known)
                    && known.nulls_are_equal == key.nulls_are_equal
                    && known.kind.is_unique() == key.kind.is_unique()
            };
            let known = self.rules().keys.iter().position(same);
            indexes.push(match known.and_then(|place| self.rows.indexes.get(place)) {
                Some(index) => index.clone(),
                None => indexed(key, &schema, name, &pieces, memory)?,
            });
        }
        Ok(Self::of(Arc::new(declared), pieces, self.rows.next_number, version, indexes))
    }

    /// What all versions with the same columns and rules share.
    pub(crate) fn declared(&self) -> &Arc<Declared> {
        &self.declared
    }

    /// Whether both have the same columns and rules: one is the other with other rows.
    pub(crate) fn is_declared_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.declared, &other.declared)
    }

    /// Finds rows by a key; `None` if the table does not have it.
    pub(crate) fn lookup<'a>(&'a self, key: &'a rules::Key) -> Result<Option<KeyLookup<'a>>> {
        let place = self.rules().keys.iter().position(|known| known == key);
        let Some(index) = place.and_then(|place| self.rows.indexes.get(place)) else { return Ok(None) };
        let reader = KeyReader::new(key, self.schema())?;
        let finder = RowFinder::new(self.pieces(), reader.places().to_vec());
        Ok(Some(KeyLookup { reader, finder, index }))
    }

    /// The hashes of the unique keys of these rows, in order, each different for every key.
    pub(crate) fn key_hashes(&self, rows: &[RecordBatch]) -> Result<Vec<u64>> {
        let mut hashes = Vec::new();
        self.each_unique(rows, |_, key, hash, _, _| {
            hashes.push(key ^ hash);
            Ok(())
        })?;
        hashes.sort_unstable();
        hashes.dedup();
        Ok(hashes)
    }

    /// Whether a row from this number on has a unique key of one of these rows.
    pub(crate) fn has_newer(&self, rows: &[RecordBatch], first: i64) -> Result<bool> {
        let mut is_met = false;
        self.each_unique(rows, |(index, reader), _, _, values, row| {
            let Some(key) = values.compared(row) else { return Ok(()) };
            for number in index.candidates(&key).into_iter().filter(|number| *number >= first) {
                let finder = RowFinder::new(self.pieces(), reader.places().to_vec());
                is_met = is_met || has_key(&finder, reader, number, values, row)?;
            }
            Ok(())
        })?;
        Ok(is_met)
    }

    /// Calls `each` with every unique key of these rows: where it is, a number for the key, the hash, and the row.
    fn each_unique(
        &self,
        rows: &[RecordBatch],
        mut each: impl FnMut((&KeyIndex, &KeyReader<'_>), u64, u64, &KeyValues, usize) -> Result<()>,
    ) -> Result<()> {
        let unique = self.rules().keys.iter().zip(&self.rows.indexes).filter(|(key, _)| key.kind.is_unique());
        let unique = unique.collect::<Vec<_>>();
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

    /// A version of these pieces, which have at least one row each.
    fn of(
        declared: Arc<Declared>,
        mut pieces: Vec<Piece>,
        next_number: i64,
        version: TableVersion,
        indexes: Vec<KeyIndex>,
    ) -> Self {
        let (count, ascends) = (pieces.iter().map(Piece::len).sum(), settle(&mut pieces));
        let rows =
            TableRows { pieces, rows: count, ascends, version, next_number, indexes, declared: declared.clone() };
        Self { declared, rows: Arc::new(rows) }
    }

    /// Its name.
    pub fn name(&self) -> &RelationName {
        &self.declared.name
    }

    /// The columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.declared.schema
    }

    /// What it was declared with beside its columns.
    pub fn rules(&self) -> &TableRules {
        &self.declared.rules
    }

    /// The rows, to be scanned.
    pub fn table(&self) -> Arc<dyn Table> {
        self.rows.clone()
    }

    /// The rows, piece by piece.
    pub fn pieces(&self) -> &[Piece] {
        &self.rows.pieces
    }

    /// Whether the numbers of rows ascend from piece to piece.
    pub(crate) fn ascends(&self) -> bool {
        self.rows.ascends
    }

    /// Which fragment rows belong to.
    pub fn placement(&self) -> &Placement {
        &self.declared.placement
    }

    /// The ids of its columns.
    pub fn columns(&self) -> &ColumnIds {
        &self.declared.columns
    }

    /// What has the same value in two versions, if rows have the same numbers in both.
    pub fn origin(&self) -> TableVersion {
        self.declared.origin
    }

    /// Values of a column: all, or those of so many rows, spread over the table, as tell where the others lie. Fails
    /// with kind `File` if they cannot be read, 42703 if there is no such column.
    pub fn sampled_values(&self, column: &str) -> Result<Vec<ArrayRef>> {
        let missing = || Error::input(format!("column \"{column}\" does not exist")).with_code("42703");
        let place = self.schema().index_of(column).map_err(|_| missing())?;
        let every = self.rows().div_ceil(SAMPLED_ROWS).max(1);
        let values = self.pieces().iter().map(|piece| {
            let values = piece.read_columns(&[place])?.column(0).clone();
            if every == 1 {
                return Ok(values);
            }
            let chosen = UInt64Array::from_iter_values((0..values.len() as u64).step_by(every));
            take(&values, &chosen, None).map_err(from_arrow)
        });
        values.collect()
    }

    /// The number that the next new row gets.
    pub fn next_number(&self) -> i64 {
        self.rows.next_number
    }

    /// A reservation that counts some of its rows; `None` if it has no rows.
    pub(crate) fn counted(&self) -> Option<&Reservation> {
        self.pieces().first().map(|piece| &**piece.memory())
    }

    /// Its indexes, those of its constraints included.
    pub fn indexes(&self) -> Vec<IndexState<'_>> {
        self.rules().keys.iter().zip(&self.rows.indexes).map(|(key, index)| index.state(key)).collect()
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows.rows
    }

    /// The rows with their numbers, in the column [`ROW_NUMBERS`](diligence_storage::memory::ROW_NUMBERS) behind the
    /// others.
    pub fn numbered(&self) -> Arc<dyn Table> {
        Arc::new(RowsView::new(self.rows.clone(), true))
    }

    /// Which of these rows have no key that a row of this version has, or one before them: by batch. `keys` are the
    /// names of the keys that count; all unique ones, if empty.
    pub(crate) fn new_keys(&self, rows: &[RecordBatch], keys: &[String]) -> Result<Vec<BooleanArray>> {
        let rows = rows.iter().map(|batch| conform(batch, self.schema(), self.name())).collect::<Result<Vec<_>>>()?;
        let mut masks = rows.iter().map(|batch| vec![true; batch.num_rows()]).collect::<Vec<_>>();
        let mut readers = Vec::new();
        for (key, index) in self.rules().keys.iter().zip(&self.rows.indexes) {
            if !key.kind.is_unique() || !keys.is_empty() && !keys.contains(&key.name) {
                continue;
            }
            index.check()?;
            let reader = KeyReader::new(key, self.schema())?;
            let finder = RowFinder::new(self.pieces(), reader.places().to_vec());
            let values = rows.iter().map(|batch| reader.values(batch)).collect::<Result<Vec<_>>>()?;
            for (mask, values) in masks.iter_mut().zip(&values) {
                for (row, is_new) in mask.iter_mut().enumerate().filter(|(_, is_new)| **is_new) {
                    if let Some(key) = values.compared(row) {
                        for number in index.candidates(&key) {
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
                if *is_new {
                    readers.iter_mut().for_each(|(values, together)| together.meet(values, batch, row));
                }
            }
        }
        Ok(masks.into_iter().map(BooleanArray::from).collect())
    }

    /// The version with these rows behind the present ones, or in their place. The new rows are counted in `memory`.
    pub(crate) fn with_rows(
        &self,
        rows: &[NewRows],
        memory: Reservation,
        replace: bool,
        version: TableVersion,
    ) -> Result<Self> {
        let pieces = if replace { Vec::new() } else { self.pieces().to_vec() };
        self.appended(pieces, rows, memory, version)
    }

    /// The version after a change. Fails with code 40001 if a row that is to go has gone already, `Value` if a new
    /// value does not fit its column or is a NULL that the column does not allow, `Resource` if memory is short.
    /// `deleted` ascends.
    pub(crate) fn changed(
        &self,
        deleted: &[i64],
        inserted: &[NewRows],
        memory: Reservation,
        version: TableVersion,
    ) -> Result<Self> {
        let (mut kept, mut gone) = (Vec::with_capacity(self.pieces().len() + 1), deleted);
        if !self.ascends() {
            let mut count = 0;
            for piece in self.pieces() {
                let here = piece.among(deleted);
                count += here.len();
                kept.extend(piece.without(&here)?);
            }
            if count < deleted.len() {
                return Err(conflict());
            }
            return self.appended(kept, inserted, memory, version);
        }
        for piece in self.pieces() {
            let end = gone.partition_point(|number| *number <= piece.last());
            let (here, later) = gone.split_at(end);
            gone = later;
            kept.extend(piece.without(here)?);
        }
        if !gone.is_empty() {
            return Err(conflict());
        }
        self.appended(kept, inserted, memory, version)
    }

    /// The version of these pieces with rows behind them.
    fn appended(
        &self,
        pieces: Vec<Piece>,
        rows: &[NewRows],
        memory: Reservation,
        version: TableVersion,
    ) -> Result<Self> {
        let counted = memory.sibling();
        let is_in_memory = rows.iter().all(|rows| rows.batch().is_some());
        let batches = rows.iter().filter_map(NewRows::batch).filter(|batch| batch.num_rows() > 0);
        let batches = batches.map(|batch| conform(batch, self.schema(), self.name())).collect::<Result<Vec<_>>>()?;
        let indexes = if is_in_memory { Some(self.with_keys(&pieces, &batches, &memory)?) } else { None };
        let declared = match self.with_bounds_of(&pieces, rows, &batches)? {
            Some(declared) => Arc::new(declared),
            None => self.declared.clone(),
        };
        let (pieces, next_number) = self.behind(&declared, pieces, rows, batches, memory)?;
        let indexes = match indexes {
            Some(indexes) => indexes,
            None => {
                let (declared, came) = (&self.declared, (pieces.as_slice(), self.rows.next_number));
                let live = pieces.iter().map(Piece::len).sum::<usize>();
                let finder = RowFinder::new(&pieces, Vec::new());
                let indexes = self.rules().keys.iter().zip(&self.rows.indexes).map(|(key, index)| {
                    let index = match index.is_mostly_gone(live) {
                        false => index.clone(),
                        true => index.swept(&counted, &|number| finder.has(number))?,
                    };
                    index_with(&index, key, &declared.schema, &declared.name, came, &counted)
                });
                indexes.collect::<Result<_>>()?
            }
        };
        Ok(Self::of(declared, pieces, next_number, version, indexes))
    }

    /// What the table is declared with from now on, if these are its first rows, and bounds of fragments come from
    /// them.
    fn with_bounds_of(&self, kept: &[Piece], rows: &[NewRows], batches: &[RecordBatch]) -> Result<Option<Declared>> {
        let distribution = &self.rules().distribution;
        let Strategy::Uniform { column, bounds: None, .. } = &distribution.strategy else { return Ok(None) };
        if !kept.is_empty() || batches.is_empty() || rows.iter().any(|rows| rows.batch().is_none()) {
            return Ok(None);
        }
        let values = batches.iter().filter_map(|batch| batch.column_by_name(column).cloned()).collect::<Vec<_>>();
        let divided = distribution.with_bounds_of(&values)?;
        if divided == *distribution {
            return Ok(None);
        }
        let Declared { name, schema, rules, columns, origin, .. } = &*self.declared;
        let rules = TableRules { distribution: divided, ..rules.clone() };
        Declared::new(name.clone(), schema.clone(), rules, columns.clone(), *origin).map(Some)
    }

    /// These pieces with those of new rows behind them, each in its fragment, and the number of the next row. `batches`
    /// are the new rows that are in memory.
    fn behind(
        &self,
        declared: &Arc<Declared>,
        pieces: Vec<Piece>,
        rows: &[NewRows],
        batches: Vec<RecordBatch>,
        mut memory: Reservation,
    ) -> Result<(Vec<Piece>, i64)> {
        let mut next_number = self.rows.next_number;
        let mut arriving = BTreeMap::<u16, Vec<Arriving>>::new();
        let mut batches = batches.into_iter();
        let mut views = Views::default();
        for rows in rows {
            let numbers = RowNumbers::From(next_number);
            match rows {
                NewRows::Memory(batch) if batch.num_rows() == 0 => {}
                NewRows::Memory(_) => {
                    let batch = batches.next().ok_or_else(|| Error::bug("a batch is not there"))?;
                    for FragmentRows { fragment, rows, places } in declared.placement.split(&batch, next_number)? {
                        let own = |places: Vec<u32>| {
                            RowNumbers::of(places.into_iter().map(|place| next_number + i64::from(place)).collect())
                        };
                        let numbers = places.map_or_else(|| numbers.clone(), own);
                        let rows = Arriving { rows: PieceRows::Memory(rows), numbers, counted: None };
                        arriving.entry(fragment).or_default().push(rows);
                    }
                    next_number += batch.num_rows() as i64;
                }
                NewRows::Stored(stored) => {
                    if stored.declared.as_ref().is_some_and(|known| !Arc::ptr_eq(known, &self.declared)) {
                        return Err(conflict());
                    }
                    if stored.fragment >= declared.placement.fragments() {
                        return Err(Error::file("rows are of a fragment that their table does not have"));
                    }
                    memory.grow(rows.bytes_in_memory())?;
                    let fragment = arriving.entry(stored.fragment).or_default();
                    let rows = views.rows_of(stored.clone(), declared);
                    next_number += rows.total()? as i64;
                    fragment.push(Arriving { rows: PieceRows::Stored(rows), numbers, counted: None });
                }
            }
        }
        // Small batches behind what stays are joined with the new ones; the pieces before them stay as they are.
        let mut kept = pieces.into_iter().peekable();
        let (mut all, mut copied_bytes) = (Vec::with_capacity(kept.len() + arriving.len()), 0);
        for (fragment, rows) in arriving {
            while let Some(piece) = kept.next_if(|piece| piece.fragment() <= fragment) {
                all.push(Uncounted::Piece(piece));
            }
            let joined = self.joined(fragment, &mut all, rows, &memory, &mut copied_bytes)?;
            all.extend(joined);
        }
        all.extend(kept.map(Uncounted::Piece));
        memory.shrink(copied_bytes.min(memory.bytes()));
        let rest = Arc::new(memory);
        let counted = all.into_iter().map(|piece: Uncounted| match piece {
            Uncounted::Piece(piece) => piece,
            Uncounted::New(fragment, Arriving { rows, numbers, counted }) => {
                let counted = counted.unwrap_or_else(|| rest.clone());
                let piece = match rows {
                    PieceRows::Memory(batch) => Piece::in_memory(batch, numbers, counted),
                    PieceRows::Stored(stored) => Piece::stored(stored, numbers, counted),
                };
                piece.in_fragment(fragment)
            }
        });
        let mut pieces = counted.collect::<Vec<_>>();
        settle(&mut pieces);
        Ok((pieces, next_number))
    }

    /// New rows of a fragment, where batches are small joined with each other, and with the last piece of the fragment,
    /// which is taken from `kept`. Many small INSERTs must not leave many small batches behind, nor copy the rows
    /// before them each time.
    fn joined(
        &self,
        fragment: u16,
        kept: &mut Vec<Uncounted>,
        rows: Vec<Arriving>,
        memory: &Reservation,
        copied_bytes: &mut usize,
    ) -> Result<Vec<Uncounted>> {
        let mut all = Vec::<Arriving>::with_capacity(rows.len() + 1);
        for arriving in rows {
            let is_batch = matches!(arriving.rows, PieceRows::Memory(_));
            all.push(arriving);
            if !is_batch {
                continue;
            }
            loop {
                if let [Arriving { rows: PieceRows::Memory(first), .. }] = all.as_slice()
                    && let Some(Uncounted::Piece(piece)) = kept.pop_if(|piece| match piece {
                        Uncounted::Piece(piece) if piece.fragment() == fragment => {
                            piece.batch().is_some_and(|last| joins(last, first))
                        }
                        _ => false,
                    })
                {
                    let (rows, numbers) = (piece.rows().clone(), piece.numbers().clone());
                    all.insert(0, Arriving { rows, numbers, counted: Some(piece.memory().clone()) });
                }
                let [.., Arriving { rows: PieceRows::Memory(last), .. }, Arriving { rows: PieceRows::Memory(new), .. }] =
                    all.as_slice()
                else {
                    break;
                };
                if !joins(last, new) {
                    break;
                }
                let (last, new) = (last.clone(), new.clone());
                let (Some(Arriving { numbers, counted: new_counted, .. }), Some(before)) = (all.pop(), all.last_mut())
                else {
                    break;
                };
                let (before_bytes, new_bytes) = (last.get_array_memory_size(), new.get_array_memory_size());
                let joined_rows = concat_batches(self.schema(), [&last, &new]).map_err(from_arrow)?;
                let columns = joined_rows.columns().iter().map(gathered).collect();
                let options = RecordBatchOptions::new().with_row_count(Some(joined_rows.num_rows()));
                let joined_rows =
                    RecordBatch::try_new_with_options(joined_rows.schema(), columns, &options).map_err(from_arrow)?;
                let mut both = memory.sibling();
                both.grow(joined_rows.get_array_memory_size())?;
                before.numbers = joined(&before.numbers, last.num_rows(), &numbers, new.num_rows());
                before.rows = PieceRows::Memory(joined_rows);
                if new_counted.is_none() {
                    *copied_bytes += new_bytes;
                }
                if before.counted.replace(Arc::new(both)).is_none() {
                    *copied_bytes += before_bytes;
                }
            }
        }
        Ok(all.into_iter().map(|rows| Uncounted::New(fragment, rows)).collect())
    }

    /// The indexes with the keys of rows that come behind these pieces. Fails with code 23505 if a unique key is there
    /// already.
    fn with_keys(&self, kept: &[Piece], rows: &[RecordBatch], memory: &Reservation) -> Result<Vec<KeyIndex>> {
        let name = self.name();
        let live = kept.iter().map(Piece::len).sum::<usize>();
        let keys = self.rules().keys.iter().zip(&self.rows.indexes).map(|(key, index)| {
            if index.is_broken() {
                // Statements that add rows were refused.
                return Ok(index.clone());
            }
            let reader = KeyReader::new(key, self.schema())?;
            let finder = RowFinder::new(kept, reader.places().to_vec());
            let index = match index.is_mostly_gone(live) {
                false => index.clone(),
                true => index.swept(memory, &|number| finder.has(number))?,
            };
            if rows.is_empty() {
                return Ok(index);
            }
            let values = rows.iter().map(|batch| reader.values(batch)).collect::<Result<Vec<_>>>()?;
            let (first, starts) = (self.rows.next_number, starts(rows));
            let sorted = SortedKeys::new(&values, |batch, row| first + (starts[batch] + row) as i64);
            if key.kind.is_unique()
                && let Some(place) = there_already(&index, &reader, &finder, &values, &sorted)?
            {
                let (batch, row) = sorted.row(place);
                return Err(reader.duplicate(name, &rows[batch], row));
            }
            index.with(&sorted, memory)
        });
        keys.collect()
    }

    /// The version without rows.
    pub(crate) fn without_rows(&self, version: TableVersion) -> Result<Self> {
        let indexes = self.rows.indexes.iter().map(KeyIndex::emptied).collect();
        Ok(Self::of(self.declared.clone(), Vec::new(), self.rows.next_number, version, indexes))
    }

    /// The same version with rows elsewhere: those whose numbers one of these pieces has are in its cluster from now
    /// on. Fails with kind `Resource` if memory is short.
    pub fn with_stored(&self, stored: &[StoredPiece]) -> Result<Self> {
        let mut pieces = self.pieces().to_vec();
        let mut views = Views::default();
        for run in stored.chunk_by(|left, right| left.run == right.run) {
            pieces = self.with_run(pieces, run, &mut views)?;
        }
        pieces.sort_by_key(|piece| (piece.fragment(), piece.first()));
        let is_between = |pair: &[Piece]| pair[0].fragment() != pair[1].fragment() || pair[0].last() < pair[1].first();
        if self.placement().clustered().is_empty() && !pieces.windows(2).all(is_between) {
            return Err(Error::bug("rows that were stored do not lie between others"));
        }
        let TableRows { version, next_number, indexes, .. } = &*self.rows;
        Ok(Self::of(self.declared.clone(), pieces, *next_number, *version, indexes.clone()))
    }

    /// These pieces in any order, where rows that were moved together are in their clusters.
    fn with_run(&self, pieces: Vec<Piece>, run: &[StoredPiece], views: &mut Views) -> Result<Vec<Piece>> {
        let mut clusters = Vec::with_capacity(run.len());
        for StoredPiece { segment, cluster, numbers, .. } in run {
            let rows = StoredRows { view: views.of(segment, &self.declared), cluster: *cluster, deleted: None };
            let total = rows.total()?;
            let mut live = BooleanBufferBuilder::new(total);
            live.append_n(total, false);
            let (first, last) = (numbers.least(), numbers.greatest(total));
            clusters.push(MovedRows { rows, numbers, total, first, last, live });
        }
        let ascends = clusters.windows(2).all(|pair| pair[0].last < pair[1].first);
        let (Some(first), Some(last)) =
            (clusters.iter().map(|rows| rows.first).min(), clusters.iter().map(|rows| rows.last).max())
        else {
            return Ok(pieces);
        };
        let fragment = run.first().map_or(0, |piece| piece.fragment);
        let mut mark = |number: i64| {
            let begin = if ascends { clusters.partition_point(|rows| rows.last < number) } else { 0 };
            for rows in clusters[begin..].iter_mut().take_while(|rows| !ascends || rows.first <= number) {
                let is_within = rows.first <= number && number <= rows.last;
                if let Some(at) = is_within.then(|| rows.numbers.position(number, rows.total)).flatten() {
                    rows.live.set_bit(at, true);
                    return true;
                }
            }
            false
        };
        let (mut others, mut memory) = (Vec::with_capacity(pieces.len()), None);
        for piece in pieces {
            if piece.fragment() != fragment || piece.last() < first || piece.first() > last {
                others.push(piece);
                continue;
            }
            let live = piece.live_numbers().collect::<Vec<_>>();
            let mut gone = Vec::new();
            for number in &live {
                match mark(*number) {
                    true => gone.push(*number),
                    // A cluster was moved as a whole, or stays.
                    false if piece.batch().is_none() && gone.is_empty() => break,
                    false if piece.batch().is_none() => return Err(Error::bug("a part of a cluster was moved")),
                    // A batch was joined with those behind it meanwhile.
                    false => {}
                }
            }
            if !gone.is_empty() {
                memory.get_or_insert_with(|| piece.memory().clone());
            }
            match gone.len() == live.len() {
                true => {}
                false => {
                    gone.sort_unstable();
                    others.extend(piece.without(&gone)?);
                }
            }
        }
        let Some(memory) = memory else { return Ok(others) };
        for MovedRows { rows, numbers, total, mut live, .. } in clusters {
            let deleted = DeletedRows::of(live.finish());
            if deleted.count() == total {
                continue;
            }
            let deleted = (deleted.count() > 0).then(|| Arc::new(deleted));
            let mut own = memory.sibling();
            let piece = Piece::stored(StoredRows { deleted: deleted.clone(), ..rows }, numbers.clone(), memory.clone());
            own.grow(piece.own_bytes() + deleted.map_or(0, |deleted| deleted.bytes()))?;
            others.push(piece.in_fragment(fragment).counted_in(Arc::new(own)));
        }
        Ok(others)
    }
}

/// A cluster that rows have moved to.
struct MovedRows<'a> {
    rows: StoredRows,
    numbers: &'a RowNumbers,
    total: usize,
    first: i64,
    last: i64,
    /// Which of them are still there.
    live: BooleanBufferBuilder,
}

/// Rows on their way to a piece.
struct Arriving {
    rows: PieceRows,
    numbers: RowNumbers,
    /// What has no reservation is counted in the statement's.
    counted: Option<Arc<Reservation>>,
}

/// A piece, or what becomes one of a fragment.
enum Uncounted {
    Piece(Piece),
    New(u16, Arriving),
}

/// A cluster that holds rows of a table from now on.
#[derive(Clone, Debug)]
pub struct StoredPiece {
    /// The fragment that its rows belong to.
    pub fragment: u16,
    /// What clusters have in common whose rows were moved together, next to each other in the list.
    pub run: usize,
    /// The segment.
    pub segment: Arc<Segment>,
    /// Which of its clusters.
    pub cluster: usize,
    /// The numbers of the cluster's rows.
    pub numbers: RowNumbers,
}

/// Segments as a table reads them.
#[derive(Default)]
struct Views(HashMap<u64, Arc<SegmentView>>);

impl Views {
    fn of(&mut self, segment: &Arc<Segment>, declared: &Declared) -> Arc<SegmentView> {
        let view = || segment.view(&declared.schema, &declared.columns.ids);
        self.0.entry(segment.number()).or_insert_with(view).clone()
    }

    fn rows_of(&mut self, stored: StoredCluster, declared: &Declared) -> StoredRows {
        let StoredCluster { segment, cluster, deleted, .. } = stored;
        StoredRows { view: self.of(&segment, declared), cluster, deleted }
    }
}

/// Whether a batch is joined with the one before it.
fn joins(last: &RecordBatch, new: &RecordBatch) -> bool {
    last.num_rows() + new.num_rows() <= BATCH_ROWS_MAX && last.num_rows() <= JOIN_GROWTH * new.num_rows()
}

/// Rows whose values are looked at where bounds of fragments are chosen, about.
const SAMPLED_ROWS: usize = 1 << 20;

/// A batch is joined with the one before it unless that has so many times as many rows.
const JOIN_GROWTH: usize = 2;

/// The numbers of rows that are put behind others.
fn joined(first: &RowNumbers, first_rows: usize, second: &RowNumbers, second_rows: usize) -> RowNumbers {
    // Numbers ascend: those of the second are without gaps if the last one says so.
    if let RowNumbers::From(number) = first
        && second.at(0) == number + first_rows as i64
        && second.at(second_rows - 1) == second.at(0) + second_rows as i64 - 1
    {
        return first.clone();
    }
    let first = (0..first_rows).map(|position| first.at(position));
    RowNumbers::of(first.chain((0..second_rows).map(|position| second.at(position))).collect())
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Int64Array, StringArray};
    use arrow::datatypes::{DataType, Field};
    use diligence_memory::QueryMemory;

    use super::*;
    use crate::rules::{Key, KeyKind};
    use crate::{Catalog, DEFAULT_SCHEMA, Relation, RelationName};

    fn batch(values: &[i64]) -> RecordBatch {
        let schema = Schema::new(vec![Field::new("a", DataType::Int64, true), Field::new("s", DataType::Utf8, true)]);
        let texts = values.iter().map(|value| value.to_string()).collect::<Vec<_>>();
        let columns: Vec<ArrayRef> =
            vec![Arc::new(Int64Array::from(values.to_vec())), Arc::new(StringArray::from(texts))];
        RecordBatch::try_new(Arc::new(schema), columns).unwrap()
    }

    #[test]
    fn a_reader_keeps_its_rows_while_others_insert() {
        let catalog = Catalog::default();
        let first = batch(&[1, 2]);
        let memory = QueryMemory::unbounded();
        let counted = |bytes| {
            let mut reservation = memory.reservation("a table in memory");
            reservation.grow(bytes).unwrap();
            reservation
        };
        let name = RelationName::new(DEFAULT_SCHEMA, "t");
        let relation =
            NativeTable::new(&name, &first.schema(), std::slice::from_ref(&first), counted(500), TableVersion(1))
                .unwrap();
        assert_eq!(relation.schema().field(1).data_type(), &DataType::Utf8View);
        catalog.create(&name, Relation::Native(Arc::new(relation)), false).unwrap();
        let table = catalog.snapshot().get(&name).unwrap().reference();
        let now = || match &catalog.snapshot().get(&name).unwrap().relation {
            Relation::Native(memory) => (memory.rows(), memory.table()),
            other => panic!("{other:?}"),
        };
        let clusters = || now().1.scan(&Default::default()).unwrap().clusters.len();
        let (_, before) = now();
        catalog.insert(&table, &[batch(&[3]).into()], counted(300), false).unwrap();
        assert_eq!(now().0, 3);
        assert_eq!(clusters(), 1, "small batches are joined");
        assert_eq!(before.statistics().num_rows.get_value(), Some(&2));
        assert_ne!(before.version(), now().1.version());
        assert!(memory.reserved_bytes() > 500, "the old rows, which somebody reads, and the new ones");
        let after = memory.reserved_bytes() - 500;
        drop(before);
        assert_eq!(memory.reserved_bytes(), after, "the new rows only; the statement's own are part of them");
        catalog.truncate(std::slice::from_ref(&table), false, false).unwrap();
        assert_eq!((now().0, memory.reserved_bytes()), (0, 0));
        catalog.insert(&table, &[first.into()], counted(500), false).unwrap();
        catalog.insert(&table, &[batch(&[7]).into()], counted(40), true).unwrap();
        assert_eq!((now().0, memory.reserved_bytes()), (1, 40));
        // A large batch stays what it is; the small ones behind it are put together, and counted as that.
        let large = batch(&(0..BATCH_ROWS_MAX as i64).collect::<Vec<_>>());
        let rows = [large.clone(), batch(&[1]), batch(&[2])];
        let bytes = rows.iter().map(RecordBatch::get_array_memory_size).sum::<usize>();
        catalog.insert(&table, &rows.map(NewRows::Memory), counted(bytes), true).unwrap();
        assert_eq!(clusters(), 2);
        assert!(memory.reserved_bytes().abs_diff(bytes) < bytes / 10, "{} of {bytes}", memory.reserved_bytes());
        catalog.drop(&name, |_| Ok(())).unwrap();
        assert_eq!(memory.reserved_bytes(), 0);
    }

    #[test]
    fn keys_are_unique_as_in_a_set_whatever_changes() {
        let mut random = diligence_base::seams::Random::new(7);
        for round in 0..40 {
            let catalog = Arc::new(Catalog::default());
            let memory = QueryMemory::unbounded();
            let reservation = || memory.reservation("a table in memory");
            let name = RelationName::new(DEFAULT_SCHEMA, "t");
            let empty = batch(&[]);
            let table = NativeTable::new(&name, &empty.schema(), &[], reservation(), TableVersion(1)).unwrap();
            let key = |kind, columns: &[&str]| Key {
                name: columns.join("_"),
                columns: columns.iter().map(|column| (*column).to_owned()).collect(),
                kind,
                nulls_are_equal: false,
                computed: None,
            };
            let keys = vec![key(KeyKind::Primary, &["a"]), key(KeyKind::Index, &["s", "a"])];
            let rules = TableRules { keys, ..TableRules::default() };
            let table = table.with_rules(rules, &reservation(), TableVersion(2)).unwrap();
            catalog.create(&name, Relation::Native(Arc::new(table)), false).unwrap();
            let reference = catalog.snapshot().get(&name).unwrap().reference();
            let mut model = std::collections::BTreeSet::new();
            for step in 0..60 {
                let at = || format!("round {round}, step {step}");
                // Rows that go, and values that come, of which some are there already.
                let numbered = rows_of(&catalog, &name);
                let gone = numbered.iter().filter(|_| random.below(4) == 0).copied().collect::<Vec<_>>();
                let new = (0..random.below(60)).map(|_| random.below(200) as i64).collect::<Vec<_>>();
                let mut after = model.clone();
                after.retain(|value| !gone.iter().any(|(_, gone)| gone == value));
                let is_well = new.iter().all(|value| after.insert(*value));
                let deleted = gone.iter().map(|(number, _)| *number).collect();
                let change = RowChange { deleted, inserted: vec![batch(&new).into()], memory: reservation(), pairs: 0 };
                let done = match random.below(2) {
                    0 => catalog.change(&reference, change),
                    _ => {
                        let transaction = crate::transaction::Transaction::begin(catalog.clone());
                        transaction.catalog().change(&reference, change).and_then(|()| transaction.commit(false))
                    }
                };
                match done {
                    Ok(()) => assert!(is_well, "{}", at()),
                    Err(error) => assert!(!is_well && error.code() == Some("23505"), "{error}: {}", at()),
                }
                if is_well {
                    model = after;
                }
                let found = rows_of(&catalog, &name).into_iter().map(|(_, value)| value);
                assert_eq!(found.collect::<std::collections::BTreeSet<_>>(), model, "{}", at());
            }
        }
    }

    /// The numbers of a table's rows with their first values.
    fn rows_of(catalog: &Catalog, name: &RelationName) -> Vec<(i64, i64)> {
        let snapshot = catalog.snapshot();
        let Relation::Native(rows) = &snapshot.get(name).unwrap().relation else { panic!("no table") };
        let mut all = Vec::new();
        for piece in rows.pieces() {
            let batch = piece.read().unwrap();
            let values = batch.column(0).as_primitive::<arrow::datatypes::Int64Type>().values().to_vec();
            all.extend(piece.live_numbers().zip(values));
        }
        all
    }
}
