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
use diligence_base::ids::{TableId, TableVersion};
use diligence_base::limits::BATCH_ROWS_MAX;
use diligence_base::{About, Error, ErrorKind, Result};
use diligence_memory::Reservation;
use diligence_storage::foreign_error::from_arrow;
use diligence_storage::memory::RowNumbers;
use diligence_storage::segment::{Segment, SegmentView};
use diligence_storage::{DeletedRows, Table};

use crate::conformed::{conform, gathered, moved, table_schema};
use crate::declared::{ColumnIds, Declared, KeyStoreSlot};
use crate::distribution::{Distribution, FragmentRows, Placement, Strategy};
use crate::excluded::{ExcludingRows, Exclusion, MetRows};
use crate::index::{IndexState, KeyIndex};
use crate::key_store::KeyStore;
use crate::keyed::{KeyLookup, KeySpace, has_key, index_with, indexed, starts, there_already};
use crate::keys::{KeyReader, KeyValues, SortedKeys, Together};
use crate::pieces::{NewRows, Piece, PieceRows, RowFinder, StoredCluster, StoredRows, conflict, piece_of, settle};
use crate::rows::{RowsView, TableRows};
use crate::rules::{KeyKind, TableRules};
use crate::{RelationName, rules};

mod ahead;
mod altered;
mod arrived;
mod found;
mod keys_moved;
mod stored;
#[cfg(test)]
mod tests;

pub use ahead::IndexesAhead;
pub use keys_moved::{KeyFiles, MovedKeys, RestoredKeys};
pub use stored::StoredPiece;

/// A table that the database keeps: what it was declared with, and its rows in one version, in memory and on disk.
#[derive(Debug)]
pub struct NativeTable {
    declared: Arc<Declared>,
    rows: Arc<TableRows>,
}

/// Columns and rules of a table, without its rows: what a statement that writes was planned for.
#[derive(Clone, Debug)]
pub struct Declaration(Arc<Declared>);

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
        let declared = Arc::new(Declared::new(own_name, schema, rules, columns, version, KeyStoreSlot::default())?);
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
    /// counted as the rows are; where there is a `key_store`, they go there if they are large. Fails as that does, and
    /// as [`with_rules`](Self::with_rules).
    pub fn of_rows_under(
        name: &RelationName,
        schema: &Schema,
        rows: Vec<NewRows>,
        rules: TableRules,
        memory: Reservation,
        key_store: Option<&Arc<dyn KeyStore>>,
        version: TableVersion,
    ) -> Result<Self> {
        let counted = memory.sibling();
        if rules.distribution == Distribution::default() {
            let table = Self::of_rows(name, schema, rows, memory, version)?;
            key_store.into_iter().for_each(|store| table.keep_keys_in(store));
            return table.with_rules(rules, &counted, version);
        }
        let empty = Self::of_rows(name, schema, Vec::new(), memory.sibling(), version)?;
        key_store.into_iter().for_each(|store| empty.keep_keys_in(store));
        let divided = TableRules { distribution: rules.distribution.clone(), ..TableRules::default() };
        let divided = empty.with_own_rules(divided, None, version)?.with_rows(&rows, memory, true, None, version)?;
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

    /// Some columns of rows that have come. Fails as [`read_new`](Self::read_new) does.
    pub(crate) fn new_columns(&self, rows: &NewRows, columns: &[usize]) -> Result<RecordBatch> {
        match rows {
            NewRows::Memory(batch) => batch.project(columns).map_err(from_arrow),
            NewRows::Stored(stored) => {
                let StoredRows { view, cluster, deleted } = Views::default().rows_of(stored.clone(), &self.declared);
                view.read(cluster, columns, deleted.as_ref().map(|deleted| deleted.live()))
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
        let declared = Arc::new(Declared::new(name, schema, rules, columns, version, KeyStoreSlot::default())?);
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
                None => indexed(key, schema, name, self.pieces(), self.key_space(memory))?,
            });
        }
        let Declared { columns, origin, key_store, .. } = &*self.declared;
        let (columns, key_store) = (columns.clone(), key_store.clone());
        let declared = Declared::new(name.clone(), schema.clone(), rules, columns, *origin, key_store)?;
        Ok(Self::of(Arc::new(declared), self.pieces().to_vec(), self.rows.next_number, version, indexes))
    }

    /// What all versions with the same columns and rules share.
    pub(crate) fn declared(&self) -> &Arc<Declared> {
        &self.declared
    }

    /// Whether rows that were made for another version of the table are rows of this one: columns, conditions and what
    /// is generated are the same. Keys and references are looked at when rows come.
    pub(crate) fn takes_rows_of(&self, other: &Self) -> bool {
        self.takes_values_for(&other.declared) && self.rules().distribution == other.rules().distribution
    }

    /// What a statement makes rows for.
    pub fn declaration(&self) -> Declaration {
        Declaration(self.declared.clone())
    }

    /// Whether a statement that was planned for a declaration may have rows come here and go: columns, conditions, what
    /// is generated and triggers are the same, and, for rows in segments, fragments.
    pub fn takes_rows_for(&self, planned: &Declaration, in_segments: bool) -> bool {
        let Declaration(planned) = planned;
        self.declared.id == planned.id
            || self.takes_values_for(planned)
                && self.rules().triggers == planned.rules.triggers
                && (!in_segments || self.rules().distribution == planned.rules.distribution)
    }

    fn takes_values_for(&self, other: &Declared) -> bool {
        if self.declared.id == other.id {
            return true;
        }
        let (own, others) = (self.rules(), &other.rules);
        let checks = |rules: &TableRules| {
            rules.checks.iter().map(|check| (check.name.clone(), check.condition.clone())).collect::<Vec<_>>()
        };
        self.columns().ids == other.columns.ids
            && *self.schema() == other.schema
            && self.origin() == other.origin
            && own.generated == others.generated
            && checks(own) == checks(others)
    }

    /// Whether both have the same columns and rules: one is the other with other rows.
    pub(crate) fn is_declared_as(&self, other: &Self) -> bool {
        self.declared.id == other.declared.id
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

    /// What its versions have in common, as long as it is declared in one way.
    pub fn id(&self) -> TableId {
        self.declared.id
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

/// Rows whose values are looked at where bounds of fragments are chosen, about.
const SAMPLED_ROWS: usize = 1 << 20;
