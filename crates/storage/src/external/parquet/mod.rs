//! Parquet files as clusters.
//!
//! The footer of every file is read once, when the table is opened, and kept. A cluster is a row group, or a part of a
//! large one where the offset index shows pages of all columns that begin at the same row. Fetching reads the column
//! chunks (or the pages of the part) that were asked for; decoding works on those bytes alone.
//!
//! Invariant: nothing a footer says is believed before it is checked against the length of the file.

mod bytes;
mod cluster;
mod columns;
mod footer;
mod pruning;
mod statistics;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::datatypes::SchemaRef;
use datafusion_common::Statistics;
use diligence_base::limits::MORSEL_ROWS_MAX;
use diligence_base::{Error, Result};
use parquet::file::metadata::ParquetMetaData;

use super::schema::{Merged, logical_schema, merge};
use super::source::Source;
use crate::{Cluster, ScanRequest, TableScan};

/// The files of a table, opened.
pub(crate) struct ParquetTable {
    pub(super) schema: SchemaRef,
    files: Vec<ParquetFile>,
    statistics: OnceLock<Statistics>,
}

/// One file with its footer.
struct ParquetFile {
    source: Arc<Source>,
    metadata: Arc<ParquetMetaData>,
    /// Arrow's view of the file's columns: one field per root of its schema.
    schema: SchemaRef,
    /// For each root column the positions of its leaves.
    leaves: Vec<Range<usize>>,
    /// For each column of the table its root in this file.
    roots: Vec<Option<usize>>,
    /// What becomes a cluster, in file order.
    pieces: Vec<Piece>,
}

/// A row group, or some consecutive rows of one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    row_group: usize,
    rows: Range<usize>,
    /// True if these are all rows of the row group.
    whole: bool,
}

impl ParquetTable {
    /// Reads the footers of all files.
    pub fn open(sources: &[Arc<Source>]) -> Result<Self> {
        let footers = footer::read_all(sources)?;
        let names = sources.iter().map(|source| source.name.as_str()).collect::<Vec<_>>();
        let logical = footers.iter().map(|footer| Arc::new(logical_schema(&footer.schema))).collect::<Vec<_>>();
        let Merged { schema, positions } = merge(&names, &logical)?;
        let files = sources.iter().zip(footers).zip(positions).map(|((source, footer), roots)| {
            let pieces = cut(&footer.metadata);
            ParquetFile {
                source: source.clone(),
                metadata: footer.metadata,
                schema: footer.schema,
                leaves: footer.leaves,
                roots,
                pieces,
            }
        });
        Ok(Self { files: files.collect(), schema, statistics: OnceLock::new() })
    }

    /// What the footers know.
    pub fn statistics(&self) -> Statistics {
        self.statistics.get_or_init(|| statistics::collect(self)).clone()
    }

    /// The clusters that may hold rows for which the predicate is true.
    pub fn scan(self: &Arc<Self>, request: &ScanRequest) -> Result<TableScan> {
        let pruner = pruning::Pruner::new(self, request.predicate.as_ref());
        let mut clusters: Vec<Arc<dyn Cluster>> = Vec::new();
        let mut clusters_pruned = 0;
        for (index, file) in self.files.iter().enumerate() {
            let keep = pruner.row_groups(file)?;
            for piece in &file.pieces {
                if piece.rows.is_empty() {
                    continue;
                }
                if !keep.get(piece.row_group).copied().unwrap_or(true) {
                    clusters_pruned += 1;
                    continue;
                }
                clusters.push(Arc::new(cluster::ParquetCluster::new(self.clone(), index, piece.clone())));
            }
        }
        Ok(TableScan { clusters, clusters_pruned })
    }
}

impl ParquetFile {
    /// The column's name in the file, for messages.
    fn column_name(&self, root: usize) -> &str {
        self.schema.fields().get(root).map_or("?", |field| field.name())
    }

    fn error(&self, row_group: usize, what: impl std::fmt::Display) -> Error {
        self.source.error(format!("row group {row_group}: {what}"))
    }
}

/// Cuts the row groups of a file into pieces of about [`MORSEL_ROWS_MAX`] rows where pages allow.
fn cut(metadata: &ParquetMetaData) -> Vec<Piece> {
    let mut pieces = Vec::with_capacity(metadata.num_row_groups());
    for (row_group, group) in metadata.row_groups().iter().enumerate() {
        let rows = group.num_rows() as usize;
        let mut start = 0;
        for end in cuts(metadata, row_group, rows) {
            pieces.push(Piece { row_group, rows: start..end, whole: false });
            start = end;
        }
        pieces.push(Piece { row_group, rows: start..rows, whole: start == 0 });
    }
    pieces
}

/// The rows at which a row group is cut: pages of all columns begin there, so no page is decompressed twice.
fn cuts(metadata: &ParquetMetaData, row_group: usize, rows: usize) -> Vec<usize> {
    if rows < MORSEL_ROWS_MAX * 3 / 2 {
        return Vec::new();
    }
    let Some(columns) = metadata.offset_index().and_then(|index| index.get(row_group)) else { return Vec::new() };
    let Some((first, others)) = columns.split_first() else { return Vec::new() };
    let starts = |index: &parquet::file::page_index::offset_index::OffsetIndexMetaData| {
        index.page_locations().iter().map(|page| page.first_row_index as usize).collect::<Vec<_>>()
    };
    let mut common = starts(first);
    for other in others {
        let other = starts(other);
        common.retain(|row| other.binary_search(row).is_ok());
    }
    let pieces = rows.div_ceil(MORSEL_ROWS_MAX);
    let target = rows.div_ceil(pieces);
    let mut cuts: Vec<usize> = Vec::new();
    let mut last = 0;
    for window in common.windows(2) {
        // Cut before the page that would lead further from the target than stopping here.
        if window[0] > last && window[1] - last > target && window[0] - last >= target / 2 {
            cuts.push(window[0]);
            last = window[0];
        }
    }
    if let Some(&end) = common.last()
        && end > last
        && rows - last > target + target / 2
    {
        cuts.push(end);
    }
    cuts
}
