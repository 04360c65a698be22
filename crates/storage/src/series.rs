//! Series of integers as tables: `generate_series(from, to, step)`.
//!
//! Nothing is held: a cluster makes its rows when it is decoded, a batch at a time, so that a series of any length
//! costs a batch of memory and its clusters are scanned in parallel.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion_common::stats::Precision;
use datafusion_common::{ColumnStatistics, ScalarValue, Statistics};
use diligence_base::ids::{TableId, TableIdentity, TableVersion};
use diligence_base::{Error, Result};

use crate::foreign_error::from_arrow;
use crate::memory::filtered;
use crate::{Cluster, Decode, DecodeRequest, Decoded, Fetch, Fetched, ScanRequest, Table, TableScan};

/// Rows of a cluster, unless the series would have too many of them.
const CLUSTER_ROWS: u64 = 65_536;
/// Clusters of a series at most; those of longer ones have more rows.
const CLUSTERS_MAX: u64 = 16_384;

/// The integers from a first one on, with equal steps between them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Series {
    first: i64,
    step: i64,
    rows: u64,
    /// Whether its column is an `Int64`, and not an `Int32`.
    is_wide: bool,
}

/// A table of one column with the integers from a first one to a last one.
#[derive(Clone)]
pub struct SeriesTable {
    id: TableId,
    series: Series,
    schema: SchemaRef,
}

impl SeriesTable {
    /// `first`, `first + step`, … as far as `last` does not stop them: a column of `Int64` if `is_wide`, else of
    /// `Int32`. Empty if `last` lies in the other direction. Fails with 22023 if the step is zero.
    pub fn new(first: i64, last: i64, step: i64, is_wide: bool) -> Result<Self> {
        if step == 0 {
            return Err(Error::input("step size cannot equal zero").with_code("22023"));
        }
        let apart = i128::from(last) - i128::from(first);
        let is_empty = apart != 0 && (apart > 0) != (step > 0);
        let rows = if is_empty { 0 } else { (apart / i128::from(step)) as u128 + 1 };
        let rows =
            u64::try_from(rows).map_err(|_| Error::input("the series has too many values").with_code("54000"))?;
        let data_type = if is_wide { DataType::Int64 } else { DataType::Int32 };
        let schema = Arc::new(Schema::new(vec![Field::new("generate_series", data_type, false)]));
        Ok(Self { id: TableId::next(), series: Series { first, step, rows, is_wide }, schema })
    }

    /// How many values it has.
    pub fn rows(&self) -> u64 {
        self.series.rows
    }
}

impl fmt::Debug for SeriesTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SeriesTable({}, {} rows)", self.describe(), self.series.rows)
    }
}

impl Series {
    /// The value at a place. Not beyond the last, so it does not overflow.
    fn value(&self, place: u64) -> i64 {
        self.first.wrapping_add(self.step.wrapping_mul(place as i64))
    }

    fn scalar(&self, place: u64) -> Precision<ScalarValue> {
        let value = self.value(place);
        Precision::Exact(match self.is_wide {
            true => ScalarValue::Int64(Some(value)),
            false => ScalarValue::Int32(Some(value as i32)),
        })
    }

    fn values(&self, places: std::ops::Range<u64>) -> ArrayRef {
        match self.is_wide {
            true => Arc::new(Int64Array::from_iter_values(places.map(|place| self.value(place)))),
            false => Arc::new(Int32Array::from_iter_values(places.map(|place| self.value(place) as i32))),
        }
    }
}

impl Table for SeriesTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// The version is the same for equal series.
    fn identity(&self) -> TableIdentity {
        let mut hasher = DefaultHasher::new();
        self.series.hash(&mut hasher);
        TableIdentity::of(self.id, TableVersion(hasher.finish()))
    }

    fn rows_of_one_file(&self) -> Option<usize> {
        usize::try_from(self.series.rows).ok()
    }

    fn statistics(&self) -> Statistics {
        let rows = self.series.rows;
        let ends = rows.checked_sub(1).map(|last| (self.series.scalar(0), self.series.scalar(last)));
        let (min_value, max_value) = match ends {
            Some((first, last)) if self.series.step > 0 => (first, last),
            Some((first, last)) => (last, first),
            None => (Precision::Absent, Precision::Absent),
        };
        let column = ColumnStatistics {
            null_count: Precision::Exact(0),
            distinct_count: Precision::Exact(rows as usize),
            min_value,
            max_value,
            ..ColumnStatistics::new_unknown()
        };
        let width = if self.series.is_wide { 8 } else { 4 };
        Statistics {
            num_rows: Precision::Exact(rows as usize),
            total_byte_size: Precision::Inexact((rows as usize).saturating_mul(width)),
            column_statistics: vec![column],
        }
    }

    fn scan(&self, _request: &ScanRequest) -> Result<TableScan> {
        let rows = self.series.rows;
        let size = CLUSTER_ROWS.max(rows.div_ceil(CLUSTERS_MAX));
        let clusters = (0..rows.div_ceil(size)).map(|index| {
            let places = index * size..((index + 1).saturating_mul(size)).min(rows);
            Arc::new(SeriesCluster { table: self.clone(), places }) as Arc<dyn Cluster>
        });
        Ok(TableScan { clusters: clusters.collect(), clusters_pruned: 0 })
    }

    fn describe(&self) -> String {
        let Series { first, step, rows, .. } = self.series;
        match rows.checked_sub(1) {
            Some(last) => format!("integers from {first} to {} by {step}", self.series.value(last)),
            None => "no integers".into(),
        }
    }
}

#[derive(Debug)]
struct SeriesCluster {
    table: SeriesTable,
    places: std::ops::Range<u64>,
}

impl Cluster for SeriesCluster {
    fn rows(&self) -> Option<usize> {
        Some((self.places.end - self.places.start) as usize)
    }

    fn bytes(&self, _columns: &[usize]) -> usize {
        0
    }

    fn fetch(&self, _columns: &[usize]) -> Fetch {
        Fetch::Ready(Fetched { bytes: 0, content: Box::new(()) })
    }

    fn decode(&self, _fetched: Fetched, request: &DecodeRequest) -> Result<Box<dyn Decode>> {
        let (table, places) = (self.table.clone(), self.places.clone());
        Ok(Box::new(SeriesDecode { table, places, request: request.clone() }))
    }

    fn describe(&self) -> String {
        format!("a series, values {} to {}", self.places.start + 1, self.places.end)
    }
}

struct SeriesDecode {
    table: SeriesTable,
    /// Those that are still to be made.
    places: std::ops::Range<u64>,
    request: DecodeRequest,
}

impl Decode for SeriesDecode {
    fn step(&mut self) -> Result<Decoded> {
        let end = self.places.end.min(self.places.start.saturating_add(self.request.batch_rows.max(1) as u64));
        if end == self.places.start {
            return Ok(Decoded::Done);
        }
        let values = self.table.series.values(self.places.start..end);
        self.places.start = end;
        let slice = RecordBatch::try_new(self.table.schema.clone(), vec![values]).map_err(from_arrow)?;
        let chunk = filtered(slice.columns().to_vec(), slice.num_rows(), &self.request.columns, &self.request.filters)?;
        Ok(chunk.map_or(Decoded::Again, Decoded::Chunk))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;

    use super::*;

    fn all(table: &SeriesTable, batch_rows: usize) -> Vec<i64> {
        let mut values = Vec::new();
        for cluster in table.scan(&ScanRequest::default()).unwrap().clusters {
            let Fetch::Ready(fetched) = cluster.fetch(&[0]) else { panic!("a series needs no reading") };
            let request = DecodeRequest { columns: vec![0], batch_rows, ..DecodeRequest::default() };
            let mut decode = cluster.decode(fetched, &request).unwrap();
            while let Some(chunk) = decode.next().unwrap() {
                assert!(chunk.rows <= batch_rows);
                let wide = arrow::compute::cast(&chunk.columns[0], &DataType::Int64).unwrap();
                values.extend_from_slice(wide.as_primitive::<Int64Type>().values());
            }
        }
        values
    }

    #[test]
    fn series_end_where_they_are_told_to() {
        let series = |first, last, step| all(&SeriesTable::new(first, last, step, true).unwrap(), 3);
        assert_eq!(series(1, 5, 1), [1, 2, 3, 4, 5]);
        assert_eq!(series(1, 6, 2), [1, 3, 5]);
        assert_eq!(series(5, 1, -2), [5, 3, 1]);
        assert_eq!(series(3, 3, -7), [3]);
        assert_eq!(series(5, 1, 1), [0_i64; 0]);
        assert_eq!(series(i64::MAX - 1, i64::MAX, 1), [i64::MAX - 1, i64::MAX]);
        assert_eq!(series(i64::MIN, i64::MAX, i64::MAX), [i64::MIN, -1, i64::MAX - 1]);
        assert_eq!(SeriesTable::new(1, 5, 0, true).unwrap_err().code(), Some("22023"));
    }

    #[test]
    fn long_series_are_many_clusters_and_know_their_ends() {
        let table = SeriesTable::new(1, 200_000, 1, false).unwrap();
        assert_eq!(table.scan(&ScanRequest::default()).unwrap().clusters.len(), 4);
        assert_eq!(all(&table, 8192), (1..=200_000).collect::<Vec<_>>());
        let column = &table.statistics().column_statistics[0];
        assert_eq!(column.max_value, Precision::Exact(ScalarValue::Int32(Some(200_000))));
        let endless = SeriesTable::new(0, i64::MAX - 1, 1, true).unwrap();
        assert_eq!(endless.rows(), i64::MAX as u64);
        assert!(endless.scan(&ScanRequest::default()).unwrap().clusters.len() as u64 <= CLUSTERS_MAX);
    }
}
