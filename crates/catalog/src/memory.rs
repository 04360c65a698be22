//! The rows of a table in memory that statements change, in one version.
//!
//! A change makes another [`MemoryRelation`], which the catalog puts in the place of this one; a statement that began
//! before it goes on reading the old one. Every row has a number, by which statements that change it find it: rows get
//! them in the order in which they come, and keep them as long as they live.
//!
//! Invariant: the memory of a batch is reserved as long as any version that has the batch lives, in the catalog, in a
//! snapshot or in a statement that reads it.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::{CastOptions, cast_with_options, concat_batches, filter_record_batch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion_common::Statistics;
use datafusion_common::stats::Precision;
use diligence_base::ids::TableVersion;
use diligence_base::limits::BATCH_ROWS_MAX;
use diligence_base::{About, Error, Result};
use diligence_memory::Reservation;
use diligence_storage::foreign_error::from_arrow;
use diligence_storage::memory::{MemoryTable, RowNumbers};
use diligence_storage::{ScanRequest, Table, TableScan};

use crate::access;
use crate::keys::{KeyIndex, KeyReader, KeyValues, Together, shown_value};
use crate::rules::TableRules;
use crate::{RelationName, rules};

/// A table in memory: what it was declared with, and its rows in one version.
#[derive(Debug)]
pub struct MemoryRelation {
    declared: Arc<Declared>,
    rows: Arc<MemoryRows>,
}

/// What a table was declared with. All its versions share it.
#[derive(Debug)]
struct Declared {
    name: RelationName,
    schema: SchemaRef,
    rules: TableRules,
}

/// The rows of one version.
#[derive(Debug)]
struct MemoryRows {
    table: MemoryTable,
    /// The numbers of each batch's rows. Those of a batch are larger than those of the batches before it.
    numbers: Vec<RowNumbers>,
    /// The number that the next new row gets.
    next_number: i64,
    /// What each of the table's batches is counted in. Batches of one statement share a reservation.
    memory: Vec<Arc<Reservation>>,
    /// The rows by each of the table's keys.
    indexes: Vec<KeyIndex>,
    /// For access by key.
    declared: Arc<Declared>,
}

/// The rows of a version by a key.
pub(crate) struct KeyLookup<'a> {
    pub(crate) reader: KeyReader<'a>,
    table: &'a MemoryRelation,
    index: &'a KeyIndex,
}

impl KeyLookup<'_> {
    /// Whether a row of the version has one of these keys.
    pub(crate) fn finds(&self, values: &KeyValues, row: usize) -> Result<bool> {
        let Some(hash) = values.hash(row) else { return Ok(false) };
        for number in self.index.candidates(hash) {
            if let Some(found) = self.table.row(number)
                && values.is_equal(row, &self.reader.values(&found)?, 0)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
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

/// Some rows of a version.
#[derive(Clone)]
struct Piece {
    rows: RecordBatch,
    numbers: RowNumbers,
    memory: Arc<Reservation>,
}

/// What a statement does to the rows of a table.
#[derive(Debug)]
pub struct RowChange {
    /// The numbers of rows that go; in any order, each once.
    pub deleted: Vec<i64>,
    /// Rows that come, with the table's columns.
    pub inserted: Vec<RecordBatch>,
    /// What the new rows are counted in.
    pub memory: Reservation,
    /// So many of the first rows that come take the places of the first that go, one by one.
    pub pairs: usize,
}

impl Table for MemoryRows {
    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn version(&self) -> TableVersion {
        self.table.version()
    }

    fn statistics(&self) -> Statistics {
        let mut statistics = self.table.statistics();
        // A key of one column tells its values apart.
        for key in self.declared.rules.keys.iter().filter(|key| key.kind.is_unique()) {
            if let [column] = key.columns.as_slice()
                && let Ok(place) = self.declared.schema.index_of(column)
                && let Some(column) = statistics.column_statistics.get_mut(place)
            {
                column.distinct_count = Precision::Inexact(self.table.rows());
            }
        }
        statistics
    }

    fn scan(&self, request: &ScanRequest) -> Result<TableScan> {
        Ok(self.reduced(self.table.scan(request)?, request))
    }

    fn describe(&self) -> String {
        self.table.describe()
    }
}

/// Rows with their numbers, and what they are counted in.
#[derive(Debug)]
struct NumberedRows(MemoryTable, Arc<MemoryRows>);

impl Table for NumberedRows {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }

    fn version(&self) -> TableVersion {
        self.1.version()
    }

    fn statistics(&self) -> Statistics {
        let numbers = self.0.statistics().column_statistics.pop();
        let mut statistics = self.1.statistics();
        statistics.column_statistics.extend(numbers);
        statistics
    }

    fn scan(&self, request: &ScanRequest) -> Result<TableScan> {
        Ok(self.1.reduced(self.0.scan(request)?, request))
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

impl MemoryRelation {
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
        let schema = table_schema(schema);
        let memory = Arc::new(memory);
        let (mut pieces, mut next_number) = (Vec::new(), 0);
        for rows in filled(batches, &schema, name)? {
            let numbers = RowNumbers::From(next_number);
            next_number += rows.num_rows() as i64;
            pieces.push(Piece { rows, numbers, memory: memory.clone() });
        }
        let declared = Arc::new(Declared { name: name.clone(), schema, rules: TableRules::default() });
        Self::of(declared, pieces, next_number, version, Vec::new())
    }

    /// The same table with rows of these numbers, one element for each batch, and the number of the next row: as they
    /// were when the table was written down. Fails with kind `File` if they do not fit the rows.
    pub fn with_numbers(self, numbers: Vec<RowNumbers>, next_number: i64) -> Result<Self> {
        let MemoryRows { table, .. } = &*self.rows;
        if numbers.len() != table.batches().len() {
            return Err(Error::file("a table's rows and their numbers do not fit"));
        }
        let mut pieces = self.pieces();
        for (piece, numbers) in pieces.iter_mut().zip(numbers) {
            piece.numbers = numbers;
        }
        Self::of(self.declared.clone(), pieces, next_number, table.version(), Vec::new())
    }

    /// The same rows under other rules, in another version. Fails with code 23505 if two rows have one key, 0A000 if a
    /// column cannot be part of a key, and with kind `Resource` if memory is short. Conditions are not looked at.
    pub fn with_rules(&self, rules: TableRules, memory: &Reservation, version: TableVersion) -> Result<Self> {
        self.with_own_rules(rules, Some(memory), version)
    }

    /// As [`with_rules`](Self::with_rules); without memory, for a table that has no rows or no other keys.
    pub(crate) fn with_own_rules(
        &self,
        rules: TableRules,
        memory: Option<&Reservation>,
        version: TableVersion,
    ) -> Result<Self> {
        let Declared { name, schema, rules: before } = &*self.declared;
        let mut indexes = Vec::with_capacity(rules.keys.len());
        for key in &rules.keys {
            let known = before.keys.iter().position(|known| known == key);
            indexes.push(match known.and_then(|place| self.rows.indexes.get(place)) {
                Some(index) => index.clone(),
                None => indexed(key, schema, name, &self.pieces(), memory)?,
            });
        }
        let declared = Declared { name: name.clone(), schema: schema.clone(), rules };
        Self::of(Arc::new(declared), self.pieces(), self.rows.next_number, version, indexes)
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
        let mut pieces = self.pieces();
        for piece in &mut pieces {
            let rows = piece.rows.num_rows();
            let column = |(place, field): (&Option<usize>, &Arc<Field>)| match place {
                Some(place) => piece.rows.column(*place).clone(),
                None => new_null_array(field.data_type(), rows),
            };
            let columns = places.iter().zip(schema.fields()).map(column).collect::<Vec<_>>();
            let all_nullable = schema.fields().iter().map(|field| Field::clone(field).with_nullable(true));
            let nullable = Arc::new(Schema::new(all_nullable.collect::<Vec<_>>()));
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            let batch = RecordBatch::try_new_with_options(nullable, columns, &options).map_err(from_arrow)?;
            piece.rows = conform(&batch, &schema, name).map_err(|error| match error.about().column.clone() {
                Some(column) => {
                    let message = format!("column \"{column}\" of relation \"{}\" contains null values", name.name);
                    Error::value(message).with_code("23502").with_about(error.about().clone())
                }
                None => error,
            })?;
        }
        // A key's index is that of the same columns before.
        let old = |column: &String| {
            let place = places.get(schema.index_of(column).ok()?).copied().flatten()?;
            self.schema().fields().get(place).map(|field| field.name().clone())
        };
        let mut indexes = Vec::with_capacity(rules.keys.len());
        for key in &rules.keys {
            let columns = key.columns.iter().map(old).collect::<Option<Vec<_>>>();
            let same = |known: &rules::Key| {
                Some(&known.columns) == columns.as_ref()
                    && known.nulls_are_equal == key.nulls_are_equal
                    && known.kind.is_unique() == key.kind.is_unique()
            };
            let known = self.rules().keys.iter().position(same);
            indexes.push(match known.and_then(|place| self.rows.indexes.get(place)) {
                Some(index) => index.clone(),
                None => indexed(key, &schema, name, &pieces, memory)?,
            });
        }
        let declared = Declared { name: name.clone(), schema, rules: rules.clone() };
        Self::of(Arc::new(declared), pieces, self.rows.next_number, version, indexes)
    }

    /// Whether both have the same columns and rules: one is the other with other rows.
    pub(crate) fn is_declared_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.declared, &other.declared)
    }

    /// Finds rows by a key; `None` if the table does not have it.
    pub(crate) fn lookup<'a>(&'a self, key: &'a rules::Key) -> Result<Option<KeyLookup<'a>>> {
        let place = self.rules().keys.iter().position(|known| known == key);
        let Some(index) = place.and_then(|place| self.rows.indexes.get(place)) else { return Ok(None) };
        Ok(Some(KeyLookup { reader: KeyReader::new(key, self.schema())?, table: self, index }))
    }

    /// The row of a number, as a batch of one; `None` if it is not in this version.
    pub(crate) fn row(&self, number: i64) -> Option<RecordBatch> {
        let after = self.rows.numbers.partition_point(|known| known.at(0) <= number);
        let batch = after.checked_sub(1)?;
        let rows = &self.batches()[batch];
        let at = self.rows.numbers[batch].position(number, rows.num_rows())?;
        Some(rows.slice(at, 1))
    }

    /// A version of these pieces, which have at least one row each.
    fn of(
        declared: Arc<Declared>,
        pieces: Vec<Piece>,
        next_number: i64,
        version: TableVersion,
        indexes: Vec<KeyIndex>,
    ) -> Result<Self> {
        let (mut batches, mut numbers, mut memory) = (Vec::new(), Vec::new(), Vec::new());
        for piece in pieces {
            batches.push(piece.rows);
            numbers.push(piece.numbers);
            memory.push(piece.memory);
        }
        let table = MemoryTable::new(declared.name.to_string(), declared.schema.clone(), batches, version)?;
        let rows = MemoryRows { table, numbers, next_number, memory, indexes, declared: declared.clone() };
        Ok(Self { declared, rows: Arc::new(rows) })
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

    /// The rows, batch by batch.
    pub fn batches(&self) -> &[RecordBatch] {
        self.rows.table.batches()
    }

    /// The numbers of each batch's rows.
    pub fn numbers(&self) -> &[RowNumbers] {
        &self.rows.numbers
    }

    /// The number that the next new row gets.
    pub fn next_number(&self) -> i64 {
        self.rows.next_number
    }

    /// A reservation that counts some of its rows; `None` if it has no rows.
    pub(crate) fn counted(&self) -> Option<&Reservation> {
        self.rows.memory.first().map(Arc::as_ref)
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows.table.rows()
    }

    /// The rows with their numbers, in the column [`ROW_NUMBERS`](diligence_storage::memory::ROW_NUMBERS) behind the
    /// others.
    pub fn numbered(&self) -> Arc<dyn Table> {
        Arc::new(NumberedRows(self.rows.table.numbered(self.rows.numbers.clone()), self.rows.clone()))
    }

    fn pieces(&self) -> Vec<Piece> {
        let MemoryRows { table, numbers, memory, .. } = &*self.rows;
        let pieces = table.batches().iter().zip(numbers).zip(memory);
        let piece = |((rows, numbers), memory): ((&RecordBatch, &RowNumbers), &Arc<Reservation>)| Piece {
            rows: rows.clone(),
            numbers: numbers.clone(),
            memory: memory.clone(),
        };
        pieces.map(piece).collect()
    }

    /// Which of these rows have no key that a row of this version has, or one before them: by batch. `keys` are the
    /// names of the keys that count; all unique ones, if empty.
    pub(crate) fn new_keys(&self, rows: &[RecordBatch], keys: &[String]) -> Result<Vec<BooleanArray>> {
        let rows = rows.iter().map(|batch| conform(batch, self.schema(), self.name())).collect::<Result<Vec<_>>>()?;
        let mut masks = rows.iter().map(|batch| vec![true; batch.num_rows()]).collect::<Vec<_>>();
        let pieces = self.pieces();
        let mut readers = Vec::new();
        for (key, index) in self.rules().keys.iter().zip(&self.rows.indexes) {
            if !key.kind.is_unique() || !keys.is_empty() && !keys.contains(&key.name) {
                continue;
            }
            let reader = KeyReader::new(key, self.schema())?;
            let values = rows.iter().map(|batch| reader.values(batch)).collect::<Result<Vec<_>>>()?;
            for (mask, values) in masks.iter_mut().zip(&values) {
                for (row, is_new) in mask.iter_mut().enumerate().filter(|(_, is_new)| **is_new) {
                    if let Some(hash) = values.hash(row) {
                        for number in index.candidates(hash) {
                            *is_new &= !has_key(&pieces, &reader, number, values, row)?;
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
        rows: &[RecordBatch],
        memory: Reservation,
        replace: bool,
        version: TableVersion,
    ) -> Result<Self> {
        let pieces = if replace { Vec::new() } else { self.pieces() };
        self.appended(pieces, rows, memory, version)
    }

    /// The version after a change. Fails with code 40001 if a row that is to go has gone already, `Value` if a new
    /// value does not fit its column or is a NULL that the column does not allow, `Resource` if memory is short.
    /// `deleted` ascends.
    pub(crate) fn changed(
        &self,
        deleted: &[i64],
        inserted: &[RecordBatch],
        memory: Reservation,
        version: TableVersion,
    ) -> Result<Self> {
        let (mut kept, mut gone) = (Vec::new(), deleted);
        for piece in self.pieces() {
            let end = gone.partition_point(|number| *number <= piece.numbers.at(piece.rows.num_rows() - 1));
            let (here, later) = gone.split_at(end);
            gone = later;
            kept.extend(if here.is_empty() { Some(piece) } else { piece.without(here)? });
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
        rows: &[RecordBatch],
        mut memory: Reservation,
        version: TableVersion,
    ) -> Result<Self> {
        let schema = self.schema();
        let mut next_number = self.rows.next_number;
        let rows = filled(rows, schema, self.name())?;
        let indexes = self.with_keys(&pieces, &rows, &memory)?;
        // A batch without a reservation is counted in the statement's.
        let mut all = Vec::from_iter(pieces.into_iter().map(|piece| (piece.rows, piece.numbers, Some(piece.memory))));
        let mut copied_bytes = 0;
        for batch in rows {
            let numbers = RowNumbers::From(next_number);
            next_number += batch.num_rows() as i64;
            // Many small INSERTs must not leave many small batches behind.
            match all.last_mut() {
                Some((last, known, counted)) if last.num_rows() + batch.num_rows() <= BATCH_ROWS_MAX => {
                    let (before_bytes, batch_bytes) = (last.get_array_memory_size(), batch.get_array_memory_size());
                    let mut both = memory.sibling();
                    both.grow(before_bytes + batch_bytes)?;
                    *known = joined(known, last.num_rows(), &numbers, batch.num_rows());
                    *last = concat_batches(schema, [&*last, &batch]).map_err(from_arrow)?;
                    copied_bytes += batch_bytes;
                    if counted.replace(Arc::new(both)).is_none() {
                        copied_bytes += before_bytes;
                    }
                }
                _ => all.push((batch, numbers, None)),
            }
        }
        memory.shrink(copied_bytes);
        let rest = Arc::new(memory);
        let piece = |(rows, numbers, memory): (RecordBatch, RowNumbers, Option<Arc<Reservation>>)| Piece {
            rows,
            numbers,
            memory: memory.unwrap_or_else(|| rest.clone()),
        };
        Self::of(self.declared.clone(), all.into_iter().map(piece).collect(), next_number, version, indexes)
    }

    /// The indexes with the keys of rows that come behind these pieces. Fails with code 23505 if a unique key is there
    /// already.
    fn with_keys(&self, kept: &[Piece], rows: &[RecordBatch], memory: &Reservation) -> Result<Vec<KeyIndex>> {
        let name = self.name();
        let live = kept.iter().map(|piece| piece.rows.num_rows()).sum::<usize>();
        let keys = self.rules().keys.iter().zip(&self.rows.indexes).map(|(key, index)| {
            let index = match index.len() > 2 * live + INDEX_REST_ROWS {
                false => index.clone(),
                // Most of its rows are gone.
                true => indexed(key, self.schema(), name, kept, Some(memory))?,
            };
            if rows.is_empty() {
                return Ok(index);
            }
            let reader = KeyReader::new(key, self.schema())?;
            let values = rows.iter().map(|batch| reader.values(batch)).collect::<Result<Vec<_>>>()?;
            let first = self.rows.next_number;
            let entries = entries(&values, rows, |place| first + place as i64);
            if key.kind.is_unique() {
                let starts = starts(rows);
                let place = |number: i64| {
                    let at = (number - first) as usize;
                    let batch = starts.partition_point(|start| *start <= at) - 1;
                    (batch, at - starts[batch])
                };
                // Rows with the same hash are neighbors.
                for same in entries.chunk_by(|left, right| left.0 == right.0).filter(|same| same.len() > 1) {
                    for (index, (_, number)) in same.iter().enumerate() {
                        let (batch, row) = place(*number);
                        let is_same = |other: &(u64, i64)| {
                            let (other, other_row) = place(other.1);
                            values[batch].is_equal(row, &values[other], other_row)
                        };
                        if same[..index].iter().any(is_same) {
                            return Err(reader.duplicate(name, &rows[batch], row));
                        }
                    }
                }
                index.meet(&entries, |number, own| {
                    let (batch, row) = place(own);
                    match has_key(kept, &reader, number, &values[batch], row)? {
                        true => Err(reader.duplicate(name, &rows[batch], row)),
                        false => Ok(()),
                    }
                })?;
            }
            index.with(entries, memory)
        });
        keys.collect()
    }

    /// The version without rows.
    pub(crate) fn without_rows(&self, version: TableVersion) -> Result<Self> {
        let indexes = vec![KeyIndex::default(); self.rules().keys.len()];
        Self::of(self.declared.clone(), Vec::new(), self.rows.next_number, version, indexes)
    }
}

impl MemoryRows {
    /// A scan without the clusters that have no row of the key that a condition names.
    fn reduced(&self, scan: TableScan, request: &ScanRequest) -> TableScan {
        let Some(predicate) = &request.predicate else { return scan };
        if self.indexes.is_empty() {
            return scan;
        }
        let equal = access::equal_columns(predicate.as_ref(), &self.declared.schema);
        let found = self.declared.rules.keys.iter().zip(&self.indexes).find_map(|(key, index)| {
            let columns = key.columns.iter().map(|column| equal.get(column).cloned()).collect::<Option<Vec<_>>>()?;
            let reader = KeyReader::new(key, &self.declared.schema).ok()?;
            let values = reader.values_of(&columns, 1).ok()?;
            // Rows whose key has a NULL are in no index, and no condition is true of them.
            Some(values.hash(0).map_or_else(Vec::new, |hash| index.candidates(hash).collect()))
        });
        let Some(numbers) = found else { return scan };
        let mut wanted = vec![false; scan.clusters.len()];
        for number in numbers {
            let after = self.numbers.partition_point(|known| known.at(0) <= number);
            if let Some(wanted) = after.checked_sub(1).and_then(|batch| wanted.get_mut(batch)) {
                *wanted = true;
            }
        }
        let before = scan.clusters.len();
        let clusters = scan.clusters.into_iter().zip(wanted).filter(|(_, wanted)| *wanted).map(|(cluster, _)| cluster);
        let clusters = clusters.collect::<Vec<_>>();
        TableScan { clusters_pruned: scan.clusters_pruned + before - clusters.len(), clusters }
    }
}

/// Entries of an index are thrown away once they are twice as many as the rows and so many.
const INDEX_REST_ROWS: usize = 4096;

/// An index of some pieces. Fails with code 23505 if two rows have one key that is unique.
fn indexed(
    key: &rules::Key,
    schema: &SchemaRef,
    name: &RelationName,
    pieces: &[Piece],
    memory: Option<&Reservation>,
) -> Result<KeyIndex> {
    let reader = KeyReader::new(key, schema)?;
    let mut entries = Vec::new();
    for piece in pieces {
        let values = reader.values(&piece.rows)?;
        let rows = (0..piece.rows.num_rows()).filter_map(|row| Some((values.hash(row)?, piece.numbers.at(row))));
        entries.extend(rows);
    }
    entries.sort_unstable();
    if key.kind.is_unique() {
        for same in entries.chunk_by(|left, right| left.0 == right.0).filter(|same| same.len() > 1) {
            for (index, (_, number)) in same.iter().enumerate() {
                let Some((piece, row)) = found(pieces, *number) else { continue };
                let rows = piece.rows.slice(row, 1);
                let values = reader.values(&rows)?;
                for (_, other) in &same[..index] {
                    if has_key(pieces, &reader, *other, &values, 0)? {
                        let error = reader.duplicate(name, &rows, 0);
                        let message = format!("could not create unique index \"{}\"", key.name);
                        let detail = format!("Key {} is duplicated.", reader.shown(&rows, 0));
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
fn entries(values: &[KeyValues], rows: &[RecordBatch], number: impl Fn(usize) -> i64) -> Vec<(u64, i64)> {
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
fn starts(rows: &[RecordBatch]) -> Vec<usize> {
    let start = |next: &mut usize, batch: &RecordBatch| {
        let start = *next;
        *next += batch.num_rows();
        Some(start)
    };
    rows.iter().scan(0, start).collect()
}

/// The row of a number, if it is among these.
fn found(pieces: &[Piece], number: i64) -> Option<(&Piece, usize)> {
    let after = pieces.partition_point(|piece| piece.numbers.at(0) <= number);
    let piece = pieces.get(after.checked_sub(1)?)?;
    Some((piece, piece.numbers.position(number, piece.rows.num_rows())?))
}

/// Whether the row of a number is among these and has a key.
fn has_key(pieces: &[Piece], reader: &KeyReader<'_>, number: i64, values: &KeyValues, row: usize) -> Result<bool> {
    let Some((piece, at)) = found(pieces, number) else { return Ok(false) };
    Ok(values.is_equal(row, &reader.values(&piece.rows.slice(at, 1))?, 0))
}

impl Piece {
    /// The piece without the rows of these numbers, which ascend; `None` if no row is left. Fails with code 40001 if
    /// one of them is not there.
    fn without(&self, gone: &[i64]) -> Result<Option<Self>> {
        let rows = self.rows.num_rows();
        let mut keeps = vec![true; rows];
        for number in gone {
            let position = self.numbers.position(*number, rows).ok_or_else(conflict)?;
            if !std::mem::replace(&mut keeps[position], false) {
                return Err(Error::bug("a row is deleted twice"));
            }
        }
        let numbers = (0..rows).filter(|&position| keeps[position]).map(|position| self.numbers.at(position));
        let numbers = numbers.collect::<Arc<[i64]>>();
        if numbers.is_empty() {
            return Ok(None);
        }
        let rows = filter_record_batch(&self.rows, &BooleanArray::from(keeps)).map_err(from_arrow)?;
        let mut memory = self.memory.sibling();
        memory.grow(rows.get_array_memory_size())?;
        Ok(Some(Self { rows, numbers: RowNumbers::Listed(numbers), memory: Arc::new(memory) }))
    }
}

/// The numbers of rows that are put behind others.
fn joined(first: &RowNumbers, first_rows: usize, second: &RowNumbers, second_rows: usize) -> RowNumbers {
    if let RowNumbers::From(number) = first
        && second.at(0) == number + first_rows as i64
    {
        return first.clone();
    }
    let first = (0..first_rows).map(|position| first.at(position));
    RowNumbers::Listed(first.chain((0..second_rows).map(|position| second.at(position))).collect())
}

/// The error for a row that another statement has changed first.
pub(crate) fn conflict() -> Error {
    let error = Error::input("could not serialize access due to concurrent update").with_code("40001");
    error.with_hint("run the statement again")
}

/// The batches that have rows, in the table's types.
fn filled(batches: &[RecordBatch], schema: &SchemaRef, name: &RelationName) -> Result<Vec<RecordBatch>> {
    batches.iter().filter(|batch| batch.num_rows() > 0).map(|batch| conform(batch, schema, name)).collect()
}

/// The error for a NULL where none may be.
fn null_in(column: &str, table: &RelationName, batch: &RecordBatch, row: usize) -> Error {
    let message =
        format!("null value in column \"{column}\" of relation \"{}\" violates not-null constraint", table.name);
    let about = About {
        schema: Some(table.schema.clone()),
        table: Some(table.name.clone()),
        column: Some(column.to_owned()),
        ..About::default()
    };
    Error::value(message).with_code("23502").with_detail(failing_row(batch, row)).with_about(about)
}

/// What a message says of a row that a constraint refuses.
pub fn failing_row(batch: &RecordBatch, row: usize) -> String {
    let values = batch.columns().iter().map(|column| shown_value(column, row)).collect::<Vec<_>>();
    format!("Failing row contains ({}).", values.join(", "))
}

/// The logical types that a table's columns have: `Utf8View` for strings, plain values for dictionaries and run-end
/// encodings, `Decimal128` for narrow decimals. Binaries stay as they are: DataFusion does not mix them with views
/// everywhere.
pub fn table_schema(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| {
        let data_type = table_type(field.data_type());
        Field::new(field.name(), data_type, field.is_nullable()).with_metadata(field.metadata().clone())
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn table_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::Dictionary(_, values) => table_type(values),
        DataType::RunEndEncoded(_, values) => table_type(values.data_type()),
        other => other.clone(),
    }
}

/// The batch with exactly the schema's types. Fails where a value does not fit.
fn conform(batch: &RecordBatch, schema: &SchemaRef, name: &RelationName) -> Result<RecordBatch> {
    if batch.num_columns() != schema.fields().len() {
        return Err(Error::bug(format!(
            "rows of {} columns for a table of {}",
            batch.num_columns(),
            schema.fields().len()
        )));
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let columns = batch.columns().iter().zip(schema.fields()).map(|(column, field)| {
        if !field.is_nullable()
            && let Some(row) = (0..column.len()).find(|row| column.null_count() > 0 && column.is_null(*row))
        {
            return Err(null_in(field.name(), name, batch, row));
        }
        if column.data_type() == field.data_type() {
            return Ok(column.clone());
        }
        cast_with_options(column, field.data_type(), &options).map_err(from_arrow)
    });
    let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options).map_err(from_arrow)
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Int64Array, StringArray};
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
            MemoryRelation::new(&name, &first.schema(), std::slice::from_ref(&first), counted(500), TableVersion(1))
                .unwrap();
        assert_eq!(relation.schema().field(1).data_type(), &DataType::Utf8View);
        catalog.create(&name, Relation::Memory(Arc::new(relation)), false).unwrap();
        let table = catalog.snapshot().get(&name).unwrap().reference();
        let now = || match &catalog.snapshot().get(&name).unwrap().relation {
            Relation::Memory(memory) => (memory.rows(), memory.table()),
            other => panic!("{other:?}"),
        };
        let clusters = || now().1.scan(&Default::default()).unwrap().clusters.len();
        let (_, before) = now();
        catalog.insert(&table, &[batch(&[3])], counted(300), false).unwrap();
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
        catalog.insert(&table, &[first], counted(500), false).unwrap();
        catalog.insert(&table, &[batch(&[7])], counted(40), true).unwrap();
        assert_eq!((now().0, memory.reserved_bytes()), (1, 40));
        // A large batch stays what it is; the small ones behind it are put together, and counted as that.
        let large = batch(&(0..BATCH_ROWS_MAX as i64).collect::<Vec<_>>());
        let rows = [large.clone(), batch(&[1]), batch(&[2])];
        let bytes = rows.iter().map(RecordBatch::get_array_memory_size).sum::<usize>();
        catalog.insert(&table, &rows, counted(bytes), true).unwrap();
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
            let table = MemoryRelation::new(&name, &empty.schema(), &[], reservation(), TableVersion(1)).unwrap();
            let key = |kind, columns: &[&str]| Key {
                name: columns.join("_"),
                columns: columns.iter().map(|column| (*column).to_owned()).collect(),
                kind,
                nulls_are_equal: false,
            };
            let keys = vec![key(KeyKind::Primary, &["a"]), key(KeyKind::Index, &["s", "a"])];
            let rules = TableRules { keys, ..TableRules::default() };
            let table = table.with_rules(rules, &reservation(), TableVersion(2)).unwrap();
            catalog.create(&name, Relation::Memory(Arc::new(table)), false).unwrap();
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
                let change = RowChange { deleted, inserted: vec![batch(&new)], memory: reservation(), pairs: 0 };
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
        let Relation::Memory(rows) = &snapshot.get(name).unwrap().relation else { panic!("no table") };
        let mut all = Vec::new();
        for (batch, numbers) in rows.batches().iter().zip(rows.numbers()) {
            let values = batch.column(0).as_primitive::<arrow::datatypes::Int64Type>();
            all.extend((0..batch.num_rows()).map(|row| (numbers.at(row), values.value(row))));
        }
        all
    }
}
