//! The rows of one version of a table, as scans read them.

use std::any::Any;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion_common::stats::Precision;
use datafusion_common::{ColumnStatistics, ScalarValue, Statistics};
use datafusion_physical_expr::PhysicalExpr;
use diligence_base::Result;
use diligence_base::ids::TableVersion;
use diligence_storage::memory::ROW_NUMBERS;
use diligence_storage::segment::Candidates;
use diligence_storage::{ScanRequest, Table, TableScan};

use crate::access;
use crate::declared::Declared;
use crate::keys::{KeyIndex, KeyReader};
use crate::pieces::{Piece, PieceRows, piece_of};
use crate::sampled::Sampled;

/// The rows of one version.
#[derive(Debug)]
pub(crate) struct TableRows {
    pub(crate) pieces: Vec<Piece>,
    /// How many rows there are.
    pub(crate) rows: usize,
    /// Whether their numbers ascend from piece to piece.
    pub(crate) ascends: bool,
    pub(crate) version: TableVersion,
    /// The number that the next new row gets.
    pub(crate) next_number: i64,
    /// The rows by each of the table's keys.
    pub(crate) indexes: Vec<KeyIndex>,
    /// For access by key.
    pub(crate) declared: Arc<Declared>,
}

impl Table for TableRows {
    fn schema(&self) -> SchemaRef {
        self.declared.schema.clone()
    }

    fn version(&self) -> TableVersion {
        self.version
    }

    fn lineage(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        Some(self.declared.clone())
    }

    fn statistics(&self) -> Statistics {
        let mut statistics = self.known();
        // A key of one column tells its values apart.
        for key in self.declared.rules.keys.iter().filter(|key| key.kind.is_unique() && key.is_whole()) {
            if let [column] = key.columns.as_slice()
                && let Ok(place) = self.declared.schema.index_of(column)
                && let Some(column) = statistics.column_statistics.get_mut(place)
            {
                column.distinct_count = Precision::Inexact(self.rows);
            }
        }
        statistics
    }

    fn scan(&self, request: &ScanRequest) -> Result<TableScan> {
        self.clusters(request, false)
    }

    fn fragments(&self, predicate: Option<&Arc<dyn PhysicalExpr>>) -> Option<(usize, usize)> {
        let placement = &self.declared.placement;
        let all = usize::from(placement.fragments());
        let wanted = predicate.and_then(|predicate| placement.wanted(predicate));
        let wanted = wanted.map_or(all, |wanted| wanted.into_iter().filter(|wanted| *wanted).count());
        (all > 1).then_some((wanted, all))
    }

    fn describe(&self) -> String {
        match self.pieces.iter().any(|piece| piece.batch().is_none()) {
            true => "on disk".into(),
            false => "in memory".into(),
        }
    }
}

/// Rows with their numbers.
#[derive(Debug)]
pub(crate) struct NumberedRows(pub(crate) Arc<TableRows>);

impl Table for NumberedRows {
    fn schema(&self) -> SchemaRef {
        let mut fields = self.0.declared.schema.fields().to_vec();
        fields.push(Arc::new(Field::new(ROW_NUMBERS, DataType::Int64, false)));
        Arc::new(Schema::new(fields))
    }

    fn version(&self) -> TableVersion {
        self.0.version
    }

    fn lineage(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.0.lineage()
    }

    fn statistics(&self) -> Statistics {
        let mut statistics = self.0.statistics();
        let numbers = ColumnStatistics { null_count: Precision::Exact(0), ..ColumnStatistics::new_unknown() };
        statistics.column_statistics.push(numbers);
        statistics
    }

    fn scan(&self, request: &ScanRequest) -> Result<TableScan> {
        self.0.clusters(request, true)
    }

    fn fragments(&self, predicate: Option<&Arc<dyn PhysicalExpr>>) -> Option<(usize, usize)> {
        self.0.fragments(predicate)
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

impl TableRows {
    /// What is read for a request: the pieces that may have a row of the key that its condition names, and of those on
    /// disk the ones whose values may fit.
    fn clusters(&self, request: &ScanRequest, is_numbered: bool) -> Result<TableScan> {
        let named = request.predicate.as_ref().and_then(|predicate| self.named(predicate.as_ref()));
        let places = named.map(|numbers| {
            let mut places = HashMap::<usize, Vec<usize>>::new();
            for number in numbers {
                let found = piece_of(&self.pieces, number);
                if let Some((piece, at)) = found.and_then(|piece| Some((piece, self.pieces[piece].position(number)?))) {
                    places.entry(piece).or_default().push(at);
                }
            }
            places
        });
        let wanted = request.predicate.as_ref().and_then(|predicate| self.declared.placement.wanted(predicate));
        let is_wanted = |piece: &Piece| {
            wanted.as_ref().is_none_or(|wanted| wanted.get(usize::from(piece.fragment())) != Some(&false))
        };
        let mut candidates = HashMap::<u64, Candidates>::new();
        let mut scan = TableScan { clusters: Vec::new(), clusters_pruned: 0 };
        let name = self.declared.name.to_string();
        for (index, piece) in self.pieces.iter().enumerate() {
            let only = places.as_ref().map(|places| places.get(&index));
            let mut some = None;
            let is_out = match (piece.rows(), &request.predicate) {
                _ if only == Some(None) || !is_wanted(piece) => true,
                (PieceRows::Stored(stored), Some(predicate)) if only.is_none() => {
                    let segment = stored.view.segment().number();
                    if let Entry::Vacant(place) = candidates.entry(segment) {
                        place.insert(stored.view.candidates(predicate));
                    }
                    some = candidates[&segment].rows(stored.cluster);
                    !candidates[&segment].has(stored.cluster)
                }
                _ => false,
            };
            if is_out {
                scan.clusters_pruned += 1;
                continue;
            }
            let only = only.flatten().map(Vec::as_slice);
            scan.clusters.push(piece.cluster(&name, index, only, some, is_numbered)?);
        }
        Ok(scan)
    }

    /// The numbers of the rows that may have the key that a condition names; `None` if it names none.
    fn named(&self, predicate: &dyn PhysicalExpr) -> Option<Vec<i64>> {
        if self.indexes.is_empty() {
            return None;
        }
        let equal = access::equal_columns(predicate, &self.declared.schema);
        let whole = self
            .declared
            .rules
            .keys
            .iter()
            .zip(&self.indexes)
            .filter(|(key, index)| key.is_whole() && !index.is_broken());
        whole.into_iter().find_map(|(key, index)| {
            let columns = key.columns.iter().map(|column| equal.get(column).cloned()).collect::<Option<Vec<_>>>()?;
            let reader = KeyReader::new(key, &self.declared.schema).ok()?;
            let values = reader.values_of(&columns, 1).ok()?;
            // Rows whose key has a NULL are in no index, and no condition is true of them.
            Some(values.hash(0).map_or_else(Vec::new, |hash| index.candidates(hash).collect()))
        })
    }

    /// What is known of the rows without looking at them.
    fn known(&self) -> Statistics {
        let (mut bytes, mut segments) = (0, HashMap::new());
        for piece in &self.pieces {
            match piece.rows() {
                PieceRows::Memory(batch) => bytes += batch.get_array_memory_size(),
                PieceRows::Stored(stored) => {
                    segments.entry(stored.view.segment().number()).or_insert_with(|| stored.view.statistics());
                }
            }
        }
        let batches = self.pieces.iter().filter_map(Piece::batch);
        let in_memory = batches.clone().map(RecordBatch::num_rows).sum::<usize>();
        let fields = self.declared.schema.fields().len();
        let sampled = self
            .declared
            .sampled(in_memory, self.next_number, || Sampled::of(batches.clone(), fields, self.next_number));
        let columns = sampled.into_iter().enumerate().map(|(column, sampled)| {
            let nulls = batches.clone().map(|batch| batch.column(column).null_count()).sum();
            let mut all = ColumnStatistics { null_count: Precision::Exact(nulls), ..sampled };
            let mut rows = in_memory;
            for known in segments.values() {
                let Some(stored) = known.column_statistics.get(column) else { continue };
                let more = stored.null_count.get_value().copied();
                let both = all.null_count.get_value().zip(more.as_ref()).map(|(all, more)| all + more);
                all.null_count = both.map_or(Precision::Absent, Precision::Inexact);
                let inexact = |value: &Precision<ScalarValue>| value.clone().to_inexact();
                let (min, max) = (inexact(&stored.min_value), inexact(&stored.max_value));
                let distinct = stored.distinct_count.to_inexact();
                let own = known.num_rows.get_value().copied().unwrap_or(0);
                if rows == 0 {
                    (all.min_value, all.max_value, all.distinct_count) = (min, max, distinct);
                } else {
                    all.min_value = all.min_value.min(&min);
                    all.max_value = all.max_value.max(&max);
                    // The values of keys are others.
                    let is_key = |distinct: &Precision<usize>, rows: usize| {
                        distinct.get_value().is_some_and(|distinct| distinct * KEY_PARTS >= rows * (KEY_PARTS - 1))
                    };
                    all.distinct_count = match is_key(&all.distinct_count, rows) && is_key(&distinct, own) {
                        true => all.distinct_count.add(&distinct),
                        false => all.distinct_count.max(&distinct),
                    };
                }
                rows += own;
            }
            all
        });
        let columns = columns.collect();
        bytes += segments.values().filter_map(|known| known.total_byte_size.get_value()).sum::<usize>();
        let num_rows = Precision::Exact(self.rows);
        Statistics { num_rows, total_byte_size: Precision::Inexact(bytes), column_statistics: columns }
    }
}

/// A column is most likely a key if all but one in so many of its values are different.
const KEY_PARTS: usize = 10;
