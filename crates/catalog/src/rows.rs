//! The rows of one version of a table, as scans read them.

mod first;

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion_common::stats::Precision;
use datafusion_common::{ColumnStatistics, ScalarValue, Statistics};
use datafusion_physical_expr::PhysicalExpr;
use diligence_base::Result;
use diligence_base::ids::{TableId, TableIdentity, TableVersion, TableView};
use diligence_storage::memory::ROW_NUMBERS;
use diligence_storage::segment::Candidates;
use diligence_storage::{Declustering, FirstRows, ScanRequest, Table, TableScan};

use self::first::first_numbers;
use crate::access::Conditions;
use crate::declared::Declared;
use crate::index::{Found, KeyIndex};
use crate::keys::key_types;
use crate::pieces::{Piece, PieceRows, piece_of};
use crate::rules::Key;
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

    fn identity(&self) -> TableIdentity {
        TableIdentity::of(self.declared.id, self.version)
    }

    fn lineage(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        Some(self.declared.clone())
    }

    fn statistics(&self) -> Statistics {
        let mut statistics = self.known();
        // A key of one column tells its values apart.
        for key in self.declared.rules.keys.iter().filter(|key| key.tells_apart() && key.is_whole()) {
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
        self.clusters(request, false, true, None)
    }

    fn declustering(&self) -> Option<Declustering> {
        let placement = &self.declared.placement;
        let (columns, rule) = placement.rule()?;
        Some(Declustering { columns, fragments: usize::from(placement.fragments()), rule })
    }

    fn fragment(self: Arc<Self>, fragment: usize) -> Option<Arc<dyn Table>> {
        Arc::new(RowsView::new(self, false)).fragment(fragment)
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

    fn access(&self, condition: &Arc<dyn PhysicalExpr>) -> Option<String> {
        let (key, found) = self.by_index(condition)?;
        let rows = found.entries();
        Some(format!("index {}: {rows} {}", key.name, if rows == 1 { "row" } else { "rows" }))
    }

    fn without_index(self: Arc<Self>) -> Option<Arc<dyn Table>> {
        Some(Arc::new(RowsView { uses_index: false, ..RowsView::new(self, false) }))
    }

    fn first_rows(
        self: Arc<Self>,
        condition: Option<&Arc<dyn PhysicalExpr>>,
        wanted: &[FirstRows],
    ) -> Option<Arc<dyn Table>> {
        Arc::new(RowsView::new(self, false)).first_rows(condition, wanted)
    }
}

/// Rows as some statements read them.
#[derive(Debug)]
pub(crate) struct RowsView {
    rows: Arc<TableRows>,
    /// With their numbers, in one more column.
    is_numbered: bool,
    /// Whether an index may find them.
    uses_index: bool,
    /// Some that an index has found; all rows if `None`.
    found: Option<Choice>,
    /// Those of one fragment only.
    fragment: Option<u16>,
}

/// Rows that an index has found.
#[derive(Debug)]
struct Choice {
    /// No other one has it.
    number: u64,
    /// The numbers of the rows.
    rows: Vec<i64>,
    /// The index's name, and how many rows, for EXPLAIN.
    shown: String,
}

impl RowsView {
    /// All rows; with their numbers, if `is_numbered`.
    pub(crate) fn new(rows: Arc<TableRows>, is_numbered: bool) -> Self {
        Self { rows, is_numbered, uses_index: true, found: None, fragment: None }
    }
}

impl Table for RowsView {
    fn schema(&self) -> SchemaRef {
        let schema = &self.rows.declared.schema;
        if !self.is_numbered {
            return schema.clone();
        }
        let mut fields = schema.fields().to_vec();
        fields.push(Arc::new(Field::new(ROW_NUMBERS, DataType::Int64, false)));
        Arc::new(Schema::new(fields))
    }

    fn identity(&self) -> TableIdentity {
        let view = TableView {
            is_numbered: self.is_numbered,
            is_without_index: !self.uses_index,
            fragment: self.fragment,
            choice: self.found.as_ref().map(|choice| choice.number),
        };
        TableIdentity { view, ..self.rows.identity() }
    }

    fn lineage(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.rows.lineage()
    }

    fn origin(&self) -> Option<Arc<dyn Table>> {
        Some(self.rows.clone())
    }

    fn statistics(&self) -> Statistics {
        let mut statistics = self.rows.statistics();
        if self.is_numbered {
            let numbers = ColumnStatistics { null_count: Precision::Exact(0), ..ColumnStatistics::new_unknown() };
            statistics.column_statistics.push(numbers);
        }
        statistics
    }

    fn scan(&self, request: &ScanRequest) -> Result<TableScan> {
        match &self.found {
            Some(choice) => self.rows.clusters_of(&choice.rows, self.is_numbered, self.fragment),
            None => self.rows.clusters(request, self.is_numbered, self.uses_index, self.fragment),
        }
    }

    fn declustering(&self) -> Option<Declustering> {
        if self.found.is_some() || self.fragment.is_some() { None } else { self.rows.declustering() }
    }

    fn fragment(self: Arc<Self>, fragment: usize) -> Option<Arc<dyn Table>> {
        let all = usize::from(self.rows.declared.placement.fragments());
        if self.found.is_some() || self.fragment.is_some() || fragment >= all {
            return None;
        }
        let fragment = Some(fragment as u16);
        Some(Arc::new(Self { uses_index: self.uses_index, fragment, ..Self::new(self.rows.clone(), self.is_numbered) }))
    }

    fn fragments(&self, predicate: Option<&Arc<dyn PhysicalExpr>>) -> Option<(usize, usize)> {
        self.rows.fragments(predicate)
    }

    fn describe(&self) -> String {
        match &self.found {
            Some(Choice { shown, .. }) => format!("{}, {shown}", self.rows.describe()),
            None => self.rows.describe(),
        }
    }

    fn access(&self, condition: &Arc<dyn PhysicalExpr>) -> Option<String> {
        self.rows.access(condition).filter(|_| self.uses_index && self.found.is_none())
    }

    fn without_index(self: Arc<Self>) -> Option<Arc<dyn Table>> {
        let (fragment, rows) = (self.fragment, self.rows.clone());
        let plain = || Self { uses_index: false, fragment, ..Self::new(rows, self.is_numbered) };
        self.uses_index.then(|| Arc::new(plain()) as Arc<dyn Table>)
    }

    fn first_rows(
        self: Arc<Self>,
        condition: Option<&Arc<dyn PhysicalExpr>>,
        wanted: &[FirstRows],
    ) -> Option<Arc<dyn Table>> {
        if !self.uses_index || self.found.is_some() || self.fragment.is_some() {
            return None;
        }
        let (names, numbers) = first_numbers(&self.rows, condition, wanted)?;
        let rows = if numbers.len() == 1 { "row" } else { "rows" };
        let shown = format!("index {names}: first {} {rows}", numbers.len());
        let found = Some(Choice { number: TableId::next().0, rows: numbers, shown });
        Some(Arc::new(Self { found, ..Self::new(self.rows.clone(), self.is_numbered) }))
    }

    fn uses_index(&self) -> bool {
        self.uses_index
    }
}

/// What is known of the pieces for a condition without looking at rows.
struct Fitting {
    /// For each fragment whether it may have a row; all may if `None`.
    fragments: Option<Vec<bool>>,
    /// By the numbers of segments.
    segments: HashMap<u64, Candidates>,
}

impl Fitting {
    fn has_fragment(&self, piece: &Piece) -> bool {
        self.fragments.as_ref().is_none_or(|wanted| wanted.get(usize::from(piece.fragment())) != Some(&false))
    }

    /// Which rows of a piece may fit, all if they are `None`; `None` if none may.
    fn rows(&self, piece: &Piece) -> Option<Option<&BooleanBuffer>> {
        if !self.has_fragment(piece) {
            return None;
        }
        let PieceRows::Stored(stored) = piece.rows() else { return Some(None) };
        let Some(candidates) = self.segments.get(&stored.view.segment().number()) else { return Some(None) };
        candidates.has(stored.cluster).then(|| candidates.rows(stored.cluster))
    }
}

impl TableRows {
    /// What is read for a request: of the rows that an index finds for its condition the pieces that have them, or the
    /// pieces of which it is not known that no row fits. Those of one fragment only, if there is one.
    fn clusters(
        &self,
        request: &ScanRequest,
        is_numbered: bool,
        uses_index: bool,
        fragment: Option<u16>,
    ) -> Result<TableScan> {
        let found = request.predicate.as_ref().filter(|_| uses_index).and_then(|predicate| self.by_index(predicate));
        if let Some((_, found)) = found {
            return self.clusters_of(&found.numbers()?, is_numbered, fragment);
        }
        let name = self.declared.name.to_string();
        let fitting = self.fitting(request.predicate.as_ref());
        let mut scan = TableScan::default();
        let is_of = |piece: &Piece| fragment.is_none_or(|fragment| piece.fragment() == fragment);
        for (index, piece) in self.pieces.iter().enumerate().filter(|(_, piece)| is_of(piece)) {
            match fitting.rows(piece) {
                Some(some) => scan.clusters.push(piece.cluster(&name, index, None, some, is_numbered)?),
                None => scan.clusters_pruned += 1,
            }
        }
        Ok(scan)
    }

    /// The pieces with the rows of these numbers; of those only that are there.
    fn clusters_of(&self, numbers: &[i64], is_numbered: bool, fragment: Option<u16>) -> Result<TableScan> {
        let name = self.declared.name.to_string();
        let mut places = BTreeMap::<usize, Vec<usize>>::new();
        for number in numbers {
            let found = piece_of(&self.pieces, *number);
            if let Some((piece, at)) = found.and_then(|piece| Some((piece, self.pieces[piece].position(*number)?))) {
                places.entry(piece).or_default().push(at);
            }
        }
        let mut scan = TableScan::default();
        let is_of = |piece: &Piece| fragment.is_none_or(|fragment| piece.fragment() == fragment);
        for (index, mut places) in places.into_iter().filter(|(index, _)| is_of(&self.pieces[*index])) {
            places.sort_unstable();
            scan.clusters.push(self.pieces[index].cluster(&name, index, Some(&places), None, is_numbered)?);
        }
        scan.clusters_pruned = self.pieces.iter().filter(|piece| is_of(piece)).count() - scan.clusters.len();
        Ok(scan)
    }

    /// Which pieces may have rows that a condition is true of: those of fragments that may, and among them those in
    /// memory, and of those on disk the ones whose values may fit.
    fn fitting(&self, predicate: Option<&Arc<dyn PhysicalExpr>>) -> Fitting {
        let fragments = predicate.and_then(|predicate| self.declared.placement.wanted(predicate));
        let mut fitting = Fitting { fragments, segments: HashMap::new() };
        for piece in self.pieces.iter().filter(|piece| fitting.has_fragment(piece)).collect::<Vec<_>>() {
            if let (PieceRows::Stored(stored), Some(predicate)) = (piece.rows(), predicate) {
                let segment = stored.view.segment().number();
                fitting.segments.entry(segment).or_insert_with(|| stored.view.candidates(predicate));
            }
        }
        fitting
    }

    /// The key by which the fewest rows are found for a condition, and the rows, if it is cheaper to look at them alone
    /// than at all that may fit.
    fn by_index(&self, condition: &Arc<dyn PhysicalExpr>) -> Option<(&Key, Found<'_>)> {
        if self.indexes.is_empty() {
            return None;
        }
        let Declared { schema, rules, .. } = &*self.declared;
        let conditions = Conditions::of(condition);
        let mut best = None::<(&Key, Found<'_>)>;
        for (key, index) in rules.keys.iter().zip(&self.indexes).filter(|(_, index)| !index.is_broken()) {
            let (types, _) = key_types(key, schema).ok()?;
            let Some(ranges) = conditions.ranges(key, &types, schema) else { continue };
            // Where the index cannot be read, the rows can.
            let Ok(found) = index.find(&ranges) else { continue };
            if best.as_ref().is_none_or(|(_, best)| found.entries() < best.entries()) {
                best = Some((key, found));
            }
            if best.as_ref().is_some_and(|(_, best)| best.entries() <= 1) {
                break;
            }
        }
        let (key, found) = best?;
        let is_cheaper = |rows: usize, factor: usize| found.entries().saturating_mul(factor) <= rows;
        let stored = || self.pieces.iter().filter(|piece| piece.batch().is_none());
        if found.entries() > FEW_ROWS && !is_cheaper(self.rows, MEMORY_ROWS_PER_ROW) {
            return None;
        }
        if found.entries() > FEW_ROWS && stored().next().is_some() {
            let fitting = self.fitting(Some(condition));
            let may_fit = |piece: &&Piece| fitting.rows(piece).is_some();
            let rows = self.pieces.iter().filter(may_fit).map(Piece::len).sum::<usize>();
            if !is_cheaper(rows, STORED_ROWS_PER_ROW) {
                return None;
            }
        }
        Some((key, found))
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
            let bytes = batches.clone().map(|batch| batch.column(column).get_array_memory_size()).sum();
            let (null_count, byte_size) = (Precision::Exact(nulls), Precision::Inexact(bytes));
            let mut all = ColumnStatistics { null_count, byte_size, ..sampled };
            let mut rows = in_memory;
            for known in segments.values() {
                let Some(stored) = known.column_statistics.get(column) else { continue };
                let more = stored.null_count.get_value().copied();
                let both = all.null_count.get_value().zip(more.as_ref()).map(|(all, more)| all + more);
                all.null_count = both.map_or(Precision::Absent, Precision::Inexact);
                all.byte_size = all.byte_size.add(&stored.byte_size);
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

/// So few rows are always taken from an index.
pub(crate) const FEW_ROWS: usize = 64;

/// Rows in memory that a scan is taken to look at in the time in which one row is found by an index. Of selections by
/// an index that is not clustered, Gamma found one of 1 % cheaper than a scan, and one of 10 % dearer.
pub(crate) const MEMORY_ROWS_PER_ROW: usize = 16;

/// The same of rows on disk.
const STORED_ROWS_PER_ROW: usize = 16;

/// A column is most likely a key if all but one in so many of its values are different.
const KEY_PARTS: usize = 10;
