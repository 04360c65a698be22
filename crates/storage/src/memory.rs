//! Tables whose rows are in memory: one immutable state of a list of record batches.
//!
//! Each batch is a cluster, so that a scan of a large one runs in parallel. Not here: who changes the rows. A change
//! makes a new [`MemoryTable`] with another version; readers keep theirs.
//!
//! Statements that change rows find them by number: a [numbered](MemoryTable::numbered) table has the numbers as one
//! more column, which is made where a cluster is decoded.
//!
//! Invariant: every batch has the table's schema and at least one row.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::compute::{filter as keep_rows, prep_null_mask_filter, take};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion_common::stats::Precision;
use datafusion_common::{ColumnStatistics, Statistics};
use diligence_base::ids::{TableIdentity, TableVersion};
use diligence_base::{Error, Result};

use crate::foreign_error::from_arrow;
use crate::{Chunk, Cluster, Decode, DecodeRequest, Decoded, Fetch, Fetched, RowFilter, ScanRequest, Table, TableScan};

/// The column of a [numbered](MemoryTable::numbered) table that has the numbers of the rows.
pub const ROW_NUMBERS: &str = "\u{1}row";

/// The numbers of some rows. A row keeps its number as long as it lives, and no other row ever has it.
#[derive(Clone, Debug)]
pub enum RowNumbers {
    /// One after another, from this one on.
    From(i64),
    /// These, which ascend.
    Listed(Arc<[i64]>),
    /// These, of rows that lie in another order.
    Moved {
        /// By position.
        numbers: Arc<[i64]>,
        /// The positions, by ascending number.
        order: Arc<[u32]>,
    },
}

impl PartialEq for RowNumbers {
    /// Versions of a table share most of their lists: those are not looked at.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::From(first), Self::From(other)) => first == other,
            (Self::Listed(numbers), Self::Listed(other))
            | (Self::Moved { numbers, .. }, Self::Moved { numbers: other, .. }) => {
                Arc::ptr_eq(numbers, other) || numbers == other
            }
            _ => false,
        }
    }
}

impl RowNumbers {
    /// These numbers, each once, in as few bytes as they need.
    pub fn of(numbers: Vec<i64>) -> Self {
        let ascends = |step: &dyn Fn(i64, i64) -> bool| numbers.windows(2).all(|pair| step(pair[0], pair[1]));
        if let Some(first) = numbers.first()
            && ascends(&|left, right| left + 1 == right)
        {
            return Self::From(*first);
        }
        if ascends(&|left, right| left < right) {
            return Self::Listed(numbers.into());
        }
        let mut order = (0..numbers.len() as u32).collect::<Vec<_>>();
        order.sort_unstable_by_key(|at| numbers[*at as usize]);
        Self::Moved { numbers: numbers.into(), order: order.into() }
    }

    /// The number of the row at a position.
    pub fn at(&self, position: usize) -> i64 {
        match self {
            Self::From(first) => first + position as i64,
            Self::Listed(numbers) | Self::Moved { numbers, .. } => numbers[position],
        }
    }

    /// The smallest one.
    pub fn least(&self) -> i64 {
        match self {
            Self::From(first) => *first,
            Self::Listed(numbers) => numbers.first().copied().unwrap_or_default(),
            Self::Moved { numbers, order } => order.first().map_or(0, |at| numbers[*at as usize]),
        }
    }

    /// The largest one of so many, at least one.
    pub fn greatest(&self, rows: usize) -> i64 {
        match self {
            Self::From(first) => first + rows.saturating_sub(1) as i64,
            Self::Listed(numbers) => numbers.last().copied().unwrap_or_default(),
            Self::Moved { numbers, order } => order.last().map_or(0, |at| numbers[*at as usize]),
        }
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> usize {
        match self {
            Self::From(_) => 0,
            Self::Listed(numbers) => size_of_val(&**numbers),
            Self::Moved { numbers, order } => size_of_val(&**numbers) + size_of_val(&**order),
        }
    }

    /// Where the row with a number is among `rows` rows; `None` if it is not among them.
    pub fn position(&self, number: i64, rows: usize) -> Option<usize> {
        match self {
            Self::From(first) => usize::try_from(number - first).ok().filter(|position| *position < rows),
            Self::Listed(numbers) => numbers.binary_search(&number).ok(),
            Self::Moved { numbers, order } => {
                let found = order.binary_search_by_key(&number, |at| numbers[*at as usize]).ok()?;
                Some(order[found] as usize)
            }
        }
    }

    /// The numbers of rows side by side.
    fn part(&self, from: usize, rows: usize) -> Self {
        match self {
            Self::From(first) => Self::From(first + from as i64),
            Self::Listed(numbers) => Self::Listed(numbers[from..from + rows].into()),
            Self::Moved { numbers, .. } => Self::of(numbers[from..from + rows].to_vec()),
        }
    }

    /// The numbers of some of the rows.
    pub(crate) fn slice(&self, offset: usize, rows: usize) -> Int64Array {
        (offset..offset + rows).map(|position| self.at(position)).collect::<Vec<_>>().into()
    }
}

/// One state of a table in memory.
#[derive(Clone)]
pub struct MemoryTable {
    name: String,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    /// By batch; empty if the table does not show them.
    numbers: Vec<RowNumbers>,
    identity: TableIdentity,
}

impl MemoryTable {
    /// A table of these batches; empty ones are left out. Fails if a batch does not have the schema's types.
    pub fn new(
        name: impl Into<String>,
        schema: SchemaRef,
        batches: Vec<RecordBatch>,
        version: TableVersion,
    ) -> Result<Self> {
        let batches = batches
            .into_iter()
            .filter(|batch| batch.num_rows() > 0)
            .map(|batch| {
                // Most batches of a version come from the one before it.
                if Arc::ptr_eq(&batch.schema(), &schema) {
                    return Ok(batch);
                }
                let rows = batch.num_rows();
                let options = RecordBatchOptions::new().with_row_count(Some(rows));
                RecordBatch::try_new_with_options(schema.clone(), batch.columns().to_vec(), &options)
                    .map_err(from_arrow)
            })
            .collect::<Result<Vec<_>>>()?;
        let identity = TableIdentity::of_new(version);
        Ok(Self { name: name.into(), schema, batches, numbers: Vec::new(), identity })
    }

    /// The same table with one more column, [`ROW_NUMBERS`], a BIGINT. `numbers` has an element for each batch.
    #[must_use]
    pub fn numbered(&self, numbers: Vec<RowNumbers>) -> Self {
        let mut fields = self.schema.fields().to_vec();
        fields.push(Arc::new(Field::new(ROW_NUMBERS, DataType::Int64, false)));
        let mut identity = self.identity;
        identity.view.is_numbered = true;
        Self { schema: Arc::new(Schema::new(fields)), numbers, identity, ..self.clone() }
    }

    /// The rows.
    pub fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// Bytes that the rows hold.
    pub fn bytes(&self) -> usize {
        self.batches.iter().map(RecordBatch::get_array_memory_size).sum()
    }
}

impl fmt::Debug for MemoryTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryTable({}, {} rows)", self.name, self.rows())
    }
}

impl Table for MemoryTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn identity(&self) -> TableIdentity {
        self.identity
    }

    fn statistics(&self) -> Statistics {
        let columns = (0..self.schema.fields().len()).map(|index| {
            let nulls =
                self.batches.iter().map(|batch| batch.columns().get(index).map_or(0, |column| column.null_count()));
            let nulls = nulls.sum();
            ColumnStatistics { null_count: Precision::Exact(nulls), ..ColumnStatistics::new_unknown() }
        });
        Statistics {
            num_rows: Precision::Exact(self.rows()),
            total_byte_size: Precision::Inexact(self.bytes()),
            column_statistics: columns.collect(),
        }
    }

    fn scan(&self, _request: &ScanRequest) -> Result<TableScan> {
        let clusters = self.batches.iter().enumerate().map(|(index, batch)| {
            let numbers = self.numbers.get(index).cloned();
            Arc::new(MemoryCluster::new(&self.name, index, batch.clone(), numbers)) as Arc<dyn Cluster>
        });
        Ok(TableScan { clusters: clusters.collect(), clusters_pruned: 0 })
    }

    fn describe(&self) -> String {
        "in memory".into()
    }
}

/// A batch as a cluster.
#[derive(Debug)]
pub struct MemoryCluster {
    table: String,
    index: usize,
    batch: RecordBatch,
    numbers: Option<RowNumbers>,
    /// Which of the rows are wanted, in order; all if `None`.
    places: Option<Arc<[usize]>>,
}

impl MemoryCluster {
    /// The batch `index` of a table; with the numbers of its rows in one more column, if they are given.
    pub fn new(table: &str, index: usize, batch: RecordBatch, numbers: Option<RowNumbers>) -> Self {
        Self { table: table.to_owned(), index, batch, numbers, places: None }
    }

    /// The cluster with the rows at these places only, which ascend.
    #[must_use]
    pub fn only(self, places: &[usize]) -> Self {
        match places {
            // Rows side by side need not be gathered.
            [first, .., last] | [first @ last] if last - first + 1 == places.len() => {
                let numbers = self.numbers.as_ref().map(|numbers| numbers.part(*first, places.len()));
                Self { batch: self.batch.slice(*first, places.len()), numbers, ..self }
            }
            _ => Self { places: Some(places.into()), ..self },
        }
    }
}

impl Cluster for MemoryCluster {
    fn rows(&self) -> Option<usize> {
        Some(self.places.as_ref().map_or(self.batch.num_rows(), |places| places.len()))
    }

    fn bytes(&self, _columns: &[usize]) -> usize {
        0
    }

    fn fetch(&self, _columns: &[usize]) -> Fetch {
        Fetch::Ready(Fetched { bytes: 0, content: Box::new(()) })
    }

    fn decode(&self, _fetched: Fetched, request: &DecodeRequest) -> Result<Box<dyn Decode>> {
        let (batch, numbers, places) = (self.batch.clone(), self.numbers.clone(), self.places.clone());
        Ok(Box::new(MemoryDecode { batch, numbers, places, request: request.clone(), offset: 0 }))
    }

    fn describe(&self) -> String {
        format!("table {} in memory, batch {}", self.table, self.index)
    }
}

struct MemoryDecode {
    batch: RecordBatch,
    numbers: Option<RowNumbers>,
    places: Option<Arc<[usize]>>,
    request: DecodeRequest,
    offset: usize,
}

impl MemoryDecode {
    /// As a step, of rows at some places.
    fn gather(&mut self, places: &[usize]) -> Result<Decoded> {
        let rows = (places.len() - self.offset).min(self.request.batch_rows.max(1));
        if rows == 0 {
            return Ok(Decoded::Done);
        }
        let places = &places[self.offset..self.offset + rows];
        self.offset += rows;
        let picks = UInt64Array::from_iter_values(places.iter().map(|place| *place as u64));
        let filters = self.request.filters.iter().flat_map(|filter| filter.columns());
        let wanted = self.request.columns.iter().chain(filters).collect::<HashSet<_>>();
        let columns = self.batch.columns().iter().enumerate().map(|(index, column)| match wanted.contains(&index) {
            true => take(column.as_ref(), &picks, None).map_err(from_arrow),
            // Nobody looks at it.
            false => Ok(column.clone()),
        });
        let mut columns = columns.collect::<Result<Vec<_>>>()?;
        columns.extend(self.numbers.as_ref().map(|numbers| {
            let numbers = places.iter().map(|place| numbers.at(*place)).collect::<Vec<_>>();
            Arc::new(Int64Array::from(numbers)) as ArrayRef
        }));
        let chunk = filtered(columns, rows, &self.request.columns, &self.request.filters)?;
        Ok(chunk.map_or(Decoded::Again, Decoded::Chunk))
    }
}

impl Decode for MemoryDecode {
    fn step(&mut self) -> Result<Decoded> {
        if let Some(places) = self.places.clone() {
            return self.gather(&places);
        }
        let rows = (self.batch.num_rows() - self.offset).min(self.request.batch_rows.max(1));
        if rows == 0 {
            return Ok(Decoded::Done);
        }
        let mut columns = self.batch.slice(self.offset, rows).columns().to_vec();
        columns.extend(self.numbers.as_ref().map(|numbers| Arc::new(numbers.slice(self.offset, rows)) as ArrayRef));
        self.offset += rows;
        let chunk = filtered(columns, rows, &self.request.columns, &self.request.filters)?;
        Ok(chunk.map_or(Decoded::Again, Decoded::Chunk))
    }
}

/// Of `rows` rows with these columns the wanted columns of those that all filters keep; `None` if no row is kept. A
/// filter sees only rows that the ones before it kept, as in the statement's own order of conditions. Columns that
/// neither a filter nor the reader looks at may be anything of that length. Fails as the filters do.
pub fn filtered(
    mut arrays: Vec<ArrayRef>,
    mut rows: usize,
    columns: &[usize],
    filters: &[Arc<dyn RowFilter>],
) -> Result<Option<Chunk>> {
    // Columns that neither a later filter nor the reader looks at need not be filtered.
    let mut wanted = vec![false; arrays.len()];
    for &index in columns.iter().chain(filters.iter().flat_map(|filter| filter.columns())) {
        if let Some(wanted) = wanted.get_mut(index) {
            *wanted = true;
        }
    }
    for filter in filters {
        if !filter.is_worthwhile() {
            continue;
        }
        let inputs = filter.columns().iter().map(|&index| column(&arrays, index)).collect::<Result<Vec<_>>>()?;
        let mask = filter.keep(&inputs)?;
        let kept = mask.true_count();
        if kept == 0 {
            return Ok(None);
        }
        if kept < rows {
            let mask = if mask.null_count() > 0 { prep_null_mask_filter(&mask) } else { mask };
            for (array, _) in arrays.iter_mut().zip(&wanted).filter(|(_, wanted)| **wanted) {
                *array = keep_rows(array.as_ref(), &mask).map_err(from_arrow)?;
            }
            rows = kept;
        }
    }
    let columns = columns.iter().map(|&index| column(&arrays, index)).collect::<Result<Vec<_>>>()?;
    Ok(Some(Chunk { columns, rows }))
}

fn column(arrays: &[ArrayRef], index: usize) -> Result<ArrayRef> {
    arrays.get(index).cloned().ok_or_else(|| Error::bug(format!("a table has no column {index}")))
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, BooleanArray, Int64Array, StringViewArray};
    use arrow::compute::kernels::cmp::gt;
    use arrow::datatypes::{DataType, Field, Int64Type, Schema};

    use super::*;

    struct Above(i64);

    impl RowFilter for Above {
        fn columns(&self) -> &[usize] {
            &[0]
        }

        fn keep(&self, columns: &[ArrayRef]) -> Result<BooleanArray> {
            gt(&columns[0], &Int64Array::new_scalar(self.0)).map_err(from_arrow)
        }
    }

    #[test]
    fn a_scan_filters_rows_and_cuts_chunks() {
        let schema = Arc::new(Schema::new(vec![
            Field::new("a", DataType::Int64, true),
            Field::new("b", DataType::Utf8View, true),
        ]));
        let a: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(5), Some(7), Some(9)]));
        let b: ArrayRef = Arc::new(StringViewArray::from(vec!["p", "q", "r", "s", "t"]));
        let batch = RecordBatch::try_new(schema.clone(), vec![a, b]).unwrap();
        let table = MemoryTable::new("t", schema, vec![batch], TableVersion(1)).unwrap();
        assert_eq!(table.statistics().num_rows, Precision::Exact(5));
        let scan = table.scan(&ScanRequest::default()).unwrap();
        let request = DecodeRequest {
            columns: vec![1, 0],
            filters: vec![Arc::new(Above(4))],
            batch_rows: 3,
            narrow: false,
            ..DecodeRequest::default()
        };
        let Fetch::Ready(fetched) = scan.clusters[0].fetch(&[0, 1]) else { panic!("memory needs no reading") };
        let mut decode = scan.clusters[0].decode(fetched, &request).unwrap();
        let mut seen = Vec::new();
        while let Some(chunk) = decode.next().unwrap() {
            assert_eq!(chunk.columns[0].len(), chunk.rows);
            seen.push(chunk.columns[1].as_primitive::<Int64Type>().values().to_vec());
        }
        assert_eq!(seen, vec![vec![5], vec![7, 9]]);
    }
}
