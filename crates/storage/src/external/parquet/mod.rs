//! Parquet files as clusters.
//!
//! The footer of every file is read once, when the table is opened, and kept. A cluster is a row group, or a part of a
//! large one where the offset index shows pages of all columns that begin at the same row. Fetching reads the column
//! chunks (or the pages of the part) that were asked for; decoding works on those bytes alone.
//!
//! Before any page is decoded, `survey` goes through the headers of all: what they need is known, and bounded, by then.
//! Most columns are neither lists nor structs and hold values or codes of a dictionary: `page` and `snappy` give the
//! text of their pages, `runs` the levels and codes in it, `flat` makes arrays of rows, with `fixed` and `strings` for
//! the kinds of values. Everything else goes through Parquet's own reader (`columns`), and
//! what that gives of a VARIANT becomes JSON (`variant`). Where memory is short, flat
//! columns are read in `steps`, a part of each chunk at a time, and those for Parquet's own reader are `pulled` by it.
//!
//! Invariant: nothing a footer says is believed before it is checked against the length of the file.

mod bytes;
mod cluster;
mod column_rows;
mod columns;
#[cfg(test)]
mod crafted;
mod encryption;
mod fixed;
mod flat;
mod footer;
mod guard;
mod header;
mod infinities;
mod intervals;
mod large_page;
mod numbered;
mod page;
mod pruning;
mod pulled;
mod runs;
mod snappy;
mod statistics;
mod steps;
mod stored;
mod strings;
mod survey;
#[cfg(test)]
mod tests;
mod variant;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion_common::{ColumnStatistics, Statistics};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::utils::{collect_columns, conjunction, split_conjunction};
use diligence_base::limits::MORSEL_ROWS_MAX;
use diligence_base::{Error, Result};
use parquet::file::metadata::ParquetMetaData;

use super::file_scan::FileScan;
use super::schema::{Merged, logical_schema, merge};
use super::source::Source;
use crate::memory::RowNumbers;
use crate::{Cluster, ScanRequest};

pub(in crate::external) use footer::chunk_range;
pub(crate) use numbered::{NumberedWindows, numbered_schema};
pub(crate) use statistics::{SeenValues, distinct_values, extreme};
pub use stored::Seal;
pub(crate) use stored::{CHECKSUMS_KEY, ColumnFile};

/// The files of a table, opened.
pub(crate) struct ParquetTable {
    pub(super) schema: SchemaRef,
    files: Vec<ParquetFile>,
    statistics: OnceLock<Statistics>,
    /// The columns with the numbers of the rows in their files behind them, if these are one more column.
    with_row_numbers: Option<SchemaRef>,
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
    /// For each column of the table its type in this file with other names of fields, where they are others; empty if
    /// none are.
    renamed: Vec<Option<DataType>>,
    /// What becomes a cluster, in file order.
    pieces: Vec<Piece>,
    /// The checksums of its columns' parts, row group by row group, where they are known.
    checksums: Option<Arc<[u32]>>,
    /// For each leaf whether it is encrypted; empty if none is.
    encrypted: Arc<[bool]>,
}

/// A column of a table, and where a file has it.
pub(in crate::external) struct MappedColumn {
    /// The table's column.
    pub field: Field,
    /// Its place among the columns of the file.
    pub root: usize,
    /// Its type in the file with the names of fields that the table has, if those in the file are others.
    pub renamed: Option<DataType>,
}

/// A cluster of a single file.
pub(in crate::external) struct FilePiece {
    /// Its number in the file.
    pub position: usize,
    /// Its first row, counted from the begin of the file.
    pub first_row: u64,
    /// The cluster.
    pub cluster: Arc<dyn Cluster>,
}

/// A row group, or some consecutive rows of one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    row_group: usize,
    rows: Range<usize>,
    /// True if these are all rows of the row group.
    whole: bool,
}

impl Piece {
    /// Rows of the whole row group.
    fn group_rows(&self, metadata: &ParquetMetaData) -> usize {
        usize::try_from(metadata.row_group(self.row_group).num_rows()).unwrap_or(0)
    }
}

impl ParquetTable {
    /// Reads the footers of all files. Columns of which `is_told` says that their type will be declared may have any
    /// types.
    pub fn open(sources: &[Arc<Source>], declared: Option<&Schema>, is_told: impl Fn(&str) -> bool) -> Result<Self> {
        let footers = footer::read_all(sources)?;
        let names = sources.iter().map(|source| source.name.as_str()).collect::<Vec<_>>();
        let logical = footers.iter().map(|footer| Arc::new(logical_schema(&footer.schema))).collect::<Vec<_>>();
        let Merged { schema, positions } = merge(&names, &logical, declared, is_told)?;
        let files = sources.iter().zip(footers).zip(positions).map(|((source, footer), roots)| {
            let pieces = cut(&footer.metadata);
            ParquetFile {
                source: source.clone(),
                metadata: footer.metadata,
                schema: footer.schema,
                leaves: footer.leaves,
                roots,
                renamed: Vec::new(),
                pieces,
                checksums: None,
                encrypted: footer.encrypted,
            }
        });
        Ok(Self { files: files.collect(), schema, statistics: OnceLock::new(), with_row_numbers: None })
    }

    /// The same with a column of this name behind the others: the number of the row in its file, from 0 on. Fails with
    /// kind `Input` if the files have a column of that name.
    pub fn with_row_numbers(self, name: &str) -> Result<Self> {
        if self.schema.fields().iter().any(|field| field.name().eq_ignore_ascii_case(name)) {
            let error = format!("the option {name} adds the column '{name}', and the files have one of that name");
            return Err(Error::input(error).with_code("42701"));
        }
        let mut fields = self.schema.fields().to_vec();
        fields.push(Arc::new(Field::new(name, DataType::Int64, false)));
        Ok(Self { with_row_numbers: Some(Arc::new(Schema::new(fields))), ..self })
    }

    /// The columns, with the numbers of rows if these are one.
    pub fn all_columns(&self) -> SchemaRef {
        self.with_row_numbers.as_ref().unwrap_or(&self.schema).clone()
    }

    /// One file whose columns are found otherwise than by their names: `map` chooses them of those that the file has.
    pub fn mapped(source: &Arc<Source>, map: impl FnOnce(&Schema) -> Result<Vec<MappedColumn>>) -> Result<Self> {
        let footer = footer::read_as_parquet(source)?;
        let columns = map(&footer.schema)?;
        let pieces = cut(&footer.metadata);
        let file = ParquetFile {
            source: source.clone(),
            metadata: footer.metadata,
            schema: footer.schema,
            leaves: footer.leaves,
            roots: columns.iter().map(|column| Some(column.root)).collect(),
            renamed: columns.iter().map(|column| column.renamed.clone()).collect(),
            pieces,
            checksums: None,
            encrypted: footer.encrypted,
        };
        let schema = Arc::new(Schema::new(columns.into_iter().map(|column| column.field).collect::<Vec<_>>()));
        Ok(Self { files: vec![file], schema, statistics: OnceLock::new(), with_row_numbers: None })
    }

    /// The rows of all files.
    pub fn rows(&self) -> u64 {
        let groups = self.files.iter().flat_map(|file| file.metadata.row_groups());
        groups.map(|group| group.num_rows() as u64).sum()
    }

    /// The clusters of the only file that may hold rows for which the predicate is true, and how many may not.
    pub fn scan_file(self: &Arc<Self>, request: &ScanRequest) -> (Vec<FilePiece>, usize) {
        let (mut pieces, mut pruned) = (Vec::new(), 0);
        let Some(file) = self.files.first() else { return (pieces, pruned) };
        let keep = pruning::Pruner::new(self, request.predicate.as_ref()).row_groups(file);
        let begins = file.begins();
        for (position, piece) in file.pieces.iter().enumerate().filter(|(_, piece)| !piece.rows.is_empty()) {
            if !keep.get(piece.row_group).copied().unwrap_or(true) {
                pruned += 1;
                continue;
            }
            let first_row = begins[piece.row_group] + piece.rows.start as u64;
            let cluster = Arc::new(cluster::ParquetCluster::new(self.clone(), 0, position));
            pieces.push(FilePiece { position, first_row, cluster });
        }
        (pieces, pruned)
    }

    /// What the footers know.
    pub fn statistics(&self) -> Statistics {
        let mut statistics = self.statistics.get_or_init(|| statistics::collect(self)).clone();
        if self.with_row_numbers.is_some() {
            statistics.column_statistics.push(ColumnStatistics::new_unknown());
        }
        statistics
    }

    /// The clusters that may hold rows for which the predicate is true, of the files that are wanted.
    pub fn scan(self: &Arc<Self>, request: &ScanRequest, is_wanted: impl Fn(usize) -> bool) -> Result<FileScan> {
        let predicate = self.over_columns_of_files(request);
        let pruner = pruning::Pruner::new(self, predicate.as_ref());
        let mut scan = FileScan::default();
        for (index, file) in self.files.iter().enumerate() {
            if !is_wanted(index) {
                scan.clusters_pruned += file.pieces.len();
                continue;
            }
            let keep = pruner.row_groups(file);
            let begins = self.with_row_numbers.as_ref().map(|_| file.begins());
            for (position, piece) in file.pieces.iter().enumerate() {
                if piece.rows.is_empty() {
                    continue;
                }
                if !keep.get(piece.row_group).copied().unwrap_or(true) {
                    scan.clusters_pruned += 1;
                    continue;
                }
                let first = |begins: &Vec<u64>| (begins[piece.row_group] + piece.rows.start as u64) as i64;
                let numbers = begins.as_ref().map(|begins| RowNumbers::From(first(begins)));
                let cluster = cluster::ParquetCluster::new(self.clone(), index, position).with_numbers(numbers);
                scan.clusters.push((index, Arc::new(cluster)));
            }
        }
        Ok(scan)
    }

    /// What a request asks of columns that files have: footers know nothing of the numbers of rows.
    fn over_columns_of_files(&self, request: &ScanRequest) -> Option<Arc<dyn PhysicalExpr>> {
        let predicate = request.predicate.as_ref()?;
        if self.with_row_numbers.is_none() {
            return Some(predicate.clone());
        }
        let count = self.schema.fields().len();
        let parts = split_conjunction(predicate).into_iter();
        let parts = parts.filter(|part| collect_columns(part).iter().all(|column| column.index() < count)).cloned();
        let parts = parts.collect::<Vec<_>>();
        (!parts.is_empty()).then(|| conjunction(parts))
    }
}

impl ParquetFile {
    /// For each row group the number of its first row, counted from the begin of the file.
    fn begins(&self) -> Vec<u64> {
        let mut rows = 0;
        let begins = self.metadata.row_groups().iter().map(|group| {
            let begin = rows;
            rows += group.num_rows() as u64;
            begin
        });
        begins.collect()
    }

    /// Whether DuckDB has written it, which has another -infinity.
    fn is_by_duckdb(&self) -> bool {
        self.metadata.file_metadata().created_by().is_some_and(|writer| writer.starts_with(infinities::WRITER))
    }

    /// Fails with kind `Unsupported` if a leaf is encrypted.
    fn check_readable(&self, leaf: usize) -> Result<()> {
        if !self.encrypted.get(leaf).copied().unwrap_or(false) {
            return Ok(());
        }
        let root = self.leaves.iter().position(|leaves| leaves.contains(&leaf));
        let name = root.map_or("?", |root| self.column_name(root));
        let what =
            format!("{}: column '{name}' is encrypted; encrypted Parquet columns cannot be read", self.source.name);
        Err(Error::unsupported(what).with_code("0A000").with_hint("columns that are not encrypted can be read"))
    }

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

/// The rows at which a row group is cut into about equal parts of at most [`MORSEL_ROWS_MAX`] rows, give or take
/// [`CUT_SLACK_PERCENT`]. A page in which a cut falls is decompressed by both sides, so each cut goes where the fewest
/// bytes of pages lie across it.
fn cuts(metadata: &ParquetMetaData, row_group: usize, rows: usize) -> Vec<usize> {
    let parts = rows.div_ceil(MORSEL_ROWS_MAX);
    let columns = match metadata.offset_index().and_then(|index| index.get(row_group)) {
        Some(columns) if parts > 1 => columns,
        _ => return Vec::new(),
    };
    let pages = columns.iter().map(|column| column.page_locations()).collect::<Vec<_>>();
    // Without pages to choose from, every part would read the whole chunk.
    if pages.iter().any(|pages| pages.len() < parts) {
        return Vec::new();
    }
    let across = |row: usize| {
        let bytes = pages.iter().map(|pages| {
            let after = pages.partition_point(|page| page.first_row_index as usize <= row);
            let page = &pages[after.saturating_sub(1)];
            if page.first_row_index as usize == row { 0 } else { page.compressed_page_size as u64 }
        });
        bytes.sum::<u64>()
    };
    let slack = rows / parts * CUT_SLACK_PERCENT / 100;
    let cut = |part: usize| {
        let target = rows / parts * part;
        let near = pages.iter().flat_map(|pages| {
            let first = pages.partition_point(|page| (page.first_row_index as usize) < target - slack);
            pages[first..].iter().map(|page| page.first_row_index as usize).take_while(|&row| row <= target + slack)
        });
        near.min_by_key(|&row| (across(row), row.abs_diff(target), row)).unwrap_or(target)
    };
    (1..parts).map(cut).collect()
}

/// The text of a Snappy block of at most so many bytes; `None` if it is damaged.
pub(in crate::external) fn unpack_snappy(block: &[u8], bytes_max: usize) -> Option<Vec<u8>> {
    let (length, _) = snappy::text_length(block).ok()?;
    // Three bytes are 64 at most.
    if length > bytes_max || length > block.len().saturating_mul(64 / 3 + 1) {
        return None;
    }
    let mut text = Vec::new();
    snappy::decompress(block, length, &mut text).ok()?;
    Some(text)
}

/// How far from equal parts a cut may be.
const CUT_SLACK_PERCENT: usize = 20;

/// The footers of files, with their columns.
pub(super) fn footers(sources: &[Arc<Source>]) -> Result<Vec<(Arc<ParquetMetaData>, SchemaRef)>> {
    let footers = footer::read_all(sources)?;
    Ok(footers.into_iter().map(|footer| (footer.metadata, footer.schema)).collect())
}
