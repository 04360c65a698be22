//! A state of a lake's table as a table: its files, what is known of them, and clusters over their Parquet files.
//!
//! Files that cannot have a wanted row are left out by what the log says of them, before any of them is opened. What is
//! left is opened when it is scanned first, and kept: footers, and which rows are gone. Where very many small files are
//! left, each is opened when its rows are read.

use std::cmp::Ordering;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, UInt64Array, new_null_array};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{Fields, Schema, SchemaRef};
use datafusion_common::stats::Precision;
use datafusion_common::{ColumnStatistics, ScalarValue, Statistics};
use diligence_base::ids::TableVersion;
use diligence_base::{Error, Result};

use super::cluster::{DataFiles, LakeCluster, WholeFile};
use super::fields::{By, LakeField};
use super::place::Place;
use crate::external::options::Format;
use crate::external::parquet::{MappedColumn, ParquetTable, extreme};
use crate::external::partitions::Partitions;
use crate::external::schema::nulls;
use crate::foreign_error::from_datafusion;
use crate::zones::{ZoneMap, may_be_true};
use crate::{Cluster, RowFilter, ScanRequest, TableScan};

/// So many files are opened before the first row is read, at most, unless they are large.
const FILES_OPENED_AHEAD_MAX: usize = 1000;

/// A file of more bytes is opened ahead: its row groups are worth being shared among the workers.
const WHOLE_FILE_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Threads that open files at once: object stores need several reads under way.
const OPENING_THREADS: usize = 8;

/// Files whose footers are read to know how many rows they have, at most.
const FILES_COUNTED_MAX: usize = 1000;

/// Columns have statistics for the order of joins in tables of so many files, at most: beyond that only columns that a
/// condition names are looked at.
const FILES_SUMMED_MAX: usize = 10_000;

/// Rows that a file with rows that are gone may have: a bit is held for each.
const BITMAP_ROWS_MAX: u64 = 1 << 32;

/// What a table's log tells, for whoever makes a [`LakeTable`] of it.
pub(super) trait Lake: Send + Sync {
    /// What is known of a column's values in each file, in the table's type; `None` if nothing is.
    fn bounds(&self, column: usize) -> Option<Bounds>;
    /// Which rows of a file with so many are gone; `None` if none are.
    fn deleted(&self, place: &Place, file: usize, rows: u64) -> Result<Option<BooleanBuffer>>;
    /// What else tells rows of a file that are gone: filters over the table's columns.
    fn filters(&self, place: &Place, file: usize) -> Result<Vec<Arc<dyn RowFilter>>>;
}

/// What is known of a column's values: one of each for each file, NULL where it is not known.
pub(super) struct Bounds {
    pub least: ArrayRef,
    pub greatest: ArrayRef,
    pub nulls: UInt64Array,
}

/// A data file.
pub(super) struct LakeFile {
    /// In the table's folder, or absolute.
    pub path: String,
    pub bytes: u64,
    /// Its rows, those that are gone included; `None` if the log does not say.
    pub rows: Option<u64>,
    /// How many rows are gone; `None` if that is not known.
    pub rows_gone: Option<u64>,
    /// Columns that have one value in all of its rows, by their positions.
    pub constants: Vec<(usize, ScalarValue)>,
    /// The values that columns have if the file does not have them.
    pub fallbacks: Vec<(usize, ScalarValue)>,
}

/// What a table is made of.
pub(super) struct LakeParts {
    pub format: Format,
    pub place: Place,
    /// What it is called in EXPLAIN.
    pub state: String,
    pub version: TableVersion,
    pub fields: Vec<LakeField>,
    pub by: By,
    pub files: Vec<LakeFile>,
    pub lake: Box<dyn Lake>,
    /// Folders and files that change when the table does, in the table's folder.
    pub watched: Vec<&'static str>,
}

/// A state of a lake's table.
pub(in crate::external) struct LakeTable {
    pub schema: SchemaRef,
    pub version: TableVersion,
    pub format: Format,
    parts: LakeParts,
    /// The folder of its log in an object store, and what was in it when it was opened.
    seen: Option<(&'static str, u64)>,
    bounds: Vec<OnceLock<Option<Bounds>>>,
    opened: Vec<OnceLock<OpenedFile>>,
    statistics: OnceLock<Statistics>,
}

/// A data file whose footer is read.
#[derive(Clone)]
struct OpenedFile {
    table: Arc<ParquetTable>,
    /// If it has not all of the table's columns.
    columns: Option<Arc<Partitions>>,
    live: Option<BooleanBuffer>,
    filters: Vec<Arc<dyn RowFilter>>,
}

impl LakeTable {
    pub(super) fn new(parts: LakeParts) -> Self {
        let fields = parts.fields.iter().map(|field| field.arrow(true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Self {
            version: parts.version,
            format: parts.format,
            bounds: schema.fields().iter().map(|_| OnceLock::new()).collect(),
            opened: parts.files.iter().map(|_| OnceLock::new()).collect(),
            statistics: OnceLock::new(),
            seen: None,
            schema,
            parts,
        }
    }

    /// The table of a log in which that was when it was opened.
    pub(super) fn seen(self, seen: Option<(&'static str, u64)>) -> Self {
        Self { seen, ..self }
    }

    /// Whether the log of a table in an object store is as it was when the table was opened. True for a local table,
    /// whose folders are [watched](Self::watched). Blocks while the log is listed.
    pub fn is_current(&self) -> bool {
        self.seen.is_none_or(|(log, names)| self.parts.place.names_in(log).is_ok_and(|now| now == names))
    }

    /// What EXPLAIN shows.
    pub fn describe(&self) -> String {
        let (format, name, state) = (self.parts.format.name(), &self.parts.place.name, &self.parts.state);
        match self.parts.files.len() {
            1 => format!("{format} {name} ({state}, 1 file)"),
            files => format!("{format} {name} ({state}, {files} files)"),
        }
    }

    /// The bytes of its files.
    pub fn bytes(&self) -> u64 {
        self.parts.files.iter().map(|file| file.bytes).sum()
    }

    /// The local folders and files that change when it does; empty if it is not local.
    pub fn watched(&self) -> Vec<PathBuf> {
        let Some(folder) = self.parts.place.folder() else { return Vec::new() };
        self.parts.watched.iter().map(|below| folder.join(below)).collect()
    }

    /// A data file with its footer and its deletions. Blocks the calling thread.
    fn open_file(&self, file: usize) -> Result<OpenedFile> {
        match self.opened[file].get() {
            Some(opened) => Ok(opened.clone()),
            None => {
                let opened = self.open_now(file)?;
                Ok(self.opened[file].get_or_init(|| opened).clone())
            }
        }
    }

    fn open_now(&self, file: usize) -> Result<OpenedFile> {
        let of_log = &self.parts.files[file];
        let source = self.parts.place.source(&of_log.path, Some(of_log.bytes))?;
        let constant = |column: usize| {
            let found = of_log.constants.iter().find(|(constant, _)| *constant == column);
            found.map(|(_, value)| value.clone())
        };
        let mut columns = Vec::with_capacity(self.parts.fields.len());
        let table = ParquetTable::mapped(&source, |schema: &Schema| {
            let fields: &Fields = schema.fields();
            let by = self.parts.by.in_file(fields);
            let mut mapped = Vec::with_capacity(self.parts.fields.len());
            for (column, field) in self.parts.fields.iter().enumerate() {
                let table_field = self.schema.field(column);
                if let Some(value) = constant(column) {
                    columns.push(Err(value));
                    continue;
                }
                let Some(root) = field.place(fields, by) else {
                    let fallback = of_log.fallbacks.iter().find(|(fallback, _)| *fallback == column);
                    let missing = match (fallback, &field.default) {
                        (Some((_, value)), _) | (None, Some(value)) => Ok(value.clone()),
                        (None, None) => ScalarValue::try_from_array(&nulls(table_field.data_type(), 1), 0),
                    };
                    columns.push(Err(missing.map_err(from_datafusion)?));
                    continue;
                };
                let is = fields[root].data_type();
                let renamed = field.renamed(is, by);
                columns.push(Ok(mapped.len()));
                let renamed = (renamed != *is).then_some(renamed);
                mapped.push(MappedColumn { field: table_field.clone(), root, renamed });
            }
            // Nothing but NULLs would come of a file whose columns have other names.
            let is_strange = mapped.is_empty() && !fields.is_empty() && of_log.constants.len() < columns.len();
            if is_strange && self.parts.format == Format::Delta {
                return Err(source.error("it has none of the table's columns under the names that the log gives them"));
            }
            Ok(mapped)
        })?;
        let rows = table.rows();
        if of_log.rows.is_some_and(|told| told != rows) {
            let told = of_log.rows.unwrap_or_default();
            return Err(source.error(format!("it has {rows} rows, but the table's log says {told}")));
        }
        let is_whole = columns.iter().enumerate().all(|(column, found)| *found == Ok(column));
        let columns = (!is_whole).then(|| Arc::new(Partitions::of_file(self.schema.clone(), columns)));
        if rows > BITMAP_ROWS_MAX && of_log.rows_gone != Some(0) {
            return Err(Error::resource(format!("{}: it has too many rows to leave some out", source.name)));
        }
        let live = self.parts.lake.deleted(&self.parts.place, file, rows)?;
        let filters = self.parts.lake.filters(&self.parts.place, file)?;
        Ok(OpenedFile { table: Arc::new(table), columns, live, filters })
    }

    /// Opens these files, several at once.
    fn open_all(&self, files: &[usize]) -> Result<()> {
        let missing = files.iter().copied().filter(|file| self.opened[*file].get().is_none()).collect::<Vec<_>>();
        if missing.len() < OPENING_THREADS {
            return missing.iter().try_for_each(|file| self.open_file(*file).map(drop));
        }
        let share = missing.len().div_ceil(OPENING_THREADS);
        std::thread::scope(|scope| {
            let open = |share: &[usize]| share.iter().try_for_each(|file| self.open_file(*file).map(drop));
            let shares = missing.chunks(share).map(|share| scope.spawn(move || open(share))).collect::<Vec<_>>();
            let mut result = Ok(());
            for share in shares {
                let opened = share.join().unwrap_or_else(|_| Err(Error::bug("opening a lake's files panicked")));
                result = result.and(opened);
            }
            result
        })
    }

    /// The clusters of files that may have rows for which the request's predicate is true.
    pub fn scan(self: &Arc<Self>, request: &ScanRequest) -> Result<TableScan> {
        let keep = self.may_have_rows(request);
        let wanted = (0..self.parts.files.len()).filter(|file| keep.get(*file).copied().unwrap_or(true));
        let wanted = wanted.collect::<Vec<_>>();
        let mut scan = TableScan { clusters_pruned: self.parts.files.len() - wanted.len(), ..TableScan::default() };
        let is_whole = |file: &usize| {
            wanted.len() > FILES_OPENED_AHEAD_MAX && self.parts.files[*file].bytes <= WHOLE_FILE_BYTES_MAX
        };
        let ahead = wanted.iter().copied().filter(|file| !is_whole(file)).collect::<Vec<_>>();
        self.open_all(&ahead)?;
        for file in wanted.iter().copied() {
            match self.opened[file].get() {
                Some(opened) => {
                    let (clusters, pruned) = opened.clusters(file, request);
                    scan.clusters.extend(clusters);
                    scan.clusters_pruned += pruned;
                }
                None => {
                    scan.clusters.push(Arc::new(WholeFile { table: self.clone(), file, request: request.clone() }));
                }
            }
        }
        Ok(scan)
    }

    /// For each file whether it may have a wanted row. Empty: all may.
    fn may_have_rows(&self, request: &ScanRequest) -> Vec<bool> {
        let Some(predicate) = request.predicate.as_ref().filter(|_| !self.parts.files.is_empty()) else {
            return Vec::new();
        };
        may_be_true(predicate, &self.schema, &Known(self)).unwrap_or_default()
    }

    fn known(&self, column: usize) -> Option<&Bounds> {
        self.bounds.get(column)?.get_or_init(|| self.known_now(column)).as_ref()
    }

    fn known_now(&self, column: usize) -> Option<Bounds> {
        let files = &self.parts.files;
        let ty = self.schema.field(column).data_type();
        fn value_in(file: &LakeFile, column: usize) -> Option<&ScalarValue> {
            file.constants.iter().find(|(constant, _)| *constant == column).map(|(_, value)| value)
        }
        // A column of partitions has one value in each file.
        if !files.is_empty() && files.iter().all(|file| value_in(file, column).is_some()) {
            let values = files.iter().filter_map(|file| value_in(file, column)).cloned();
            let values = ScalarValue::iter_to_array(values).ok()?;
            let count = |(file, of_log): (usize, &LakeFile)| if values.is_null(file) { of_log.rows } else { Some(0) };
            let nulls = files.iter().enumerate().map(count).collect();
            return Some(Bounds { least: values.clone(), greatest: values, nulls });
        }
        if ty.is_nested() {
            return None;
        }
        let bounds = self.parts.lake.bounds(column)?;
        let fits = |array: &ArrayRef| array.data_type() == ty && array.len() == files.len();
        (fits(&bounds.least) && fits(&bounds.greatest) && bounds.nulls.len() == files.len()).then_some(bounds)
    }

    /// What the log knows.
    pub fn statistics(&self) -> Statistics {
        self.statistics.get_or_init(|| self.collect_statistics()).clone()
    }

    fn collect_statistics(&self) -> Statistics {
        let files = &self.parts.files;
        let is_told = files.iter().all(|file| file.rows.is_some());
        let all = (0..files.len()).collect::<Vec<_>>();
        // A file that cannot be opened says so when it is read.
        let is_counted = is_told || files.len() <= FILES_COUNTED_MAX && self.open_all(&all).is_ok();
        let rows = |file: usize| match files[file].rows {
            Some(rows) => Some(rows),
            None => self.opened[file].get().map(|opened| opened.table.rows()),
        };
        let num_rows = if is_counted {
            let rows_gone = files.iter().map(|file| file.rows_gone).sum::<Option<u64>>();
            let total = all.iter().filter_map(|file| rows(*file)).sum::<u64>();
            match rows_gone {
                Some(gone) => Precision::Exact(total.saturating_sub(gone) as usize),
                None => Precision::Inexact(total as usize),
            }
        } else {
            Precision::Absent
        };
        Statistics {
            num_rows,
            total_byte_size: Precision::Inexact(self.bytes() as usize),
            column_statistics: (0..self.schema.fields().len()).map(|column| self.column_statistics(column)).collect(),
        }
    }

    fn column_statistics(&self, column: usize) -> ColumnStatistics {
        let mut statistics = ColumnStatistics::new_unknown();
        if self.parts.files.len() > FILES_SUMMED_MAX {
            return statistics;
        }
        let Some(bounds) = self.known(column) else { return statistics };
        if let Some(least) = extreme(std::slice::from_ref(&bounds.least), Ordering::Less) {
            statistics.min_value = Precision::Inexact(least);
        }
        if let Some(greatest) = extreme(std::slice::from_ref(&bounds.greatest), Ordering::Greater) {
            statistics.max_value = Precision::Inexact(greatest);
        }
        if bounds.nulls.null_count() == 0 {
            statistics.null_count = Precision::Inexact(bounds.nulls.values().iter().sum::<u64>() as usize);
        }
        statistics
    }
}

impl DataFiles for LakeTable {
    fn live_rows(&self, file: usize) -> Option<usize> {
        let file = &self.parts.files[file];
        file.rows?.checked_sub(file.rows_gone?).map(|rows| rows as usize)
    }

    fn file_bytes(&self, file: usize) -> u64 {
        self.parts.files[file].bytes
    }

    fn file_name(&self, file: usize) -> String {
        let path = &self.parts.files[file].path;
        match path.starts_with('/') || path.contains(":/") {
            true => path.clone(),
            false => format!("{}/{path}", self.parts.place.name.trim_end_matches('/')),
        }
    }

    fn clusters(&self, file: usize, request: &ScanRequest) -> Result<Vec<Arc<dyn Cluster>>> {
        Ok(self.open_file(file)?.clusters(file, request).0)
    }
}

impl OpenedFile {
    /// The clusters that may have wanted rows, and how many do not.
    fn clusters(&self, file: usize, request: &ScanRequest) -> (Vec<Arc<dyn Cluster>>, usize) {
        let inner = match &self.columns {
            Some(columns) => columns.inner_request(request),
            None => request.clone(),
        };
        let (pieces, mut pruned) = self.table.scan_file(&inner);
        let mut clusters: Vec<Arc<dyn Cluster>> = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let rows = piece.cluster.rows().unwrap_or_default();
            let live = self.live.as_ref().map(|live| live.slice(piece.first_row as usize, rows));
            if live.as_ref().is_some_and(|live| live.count_set_bits() == 0) {
                pruned += 1;
                continue;
            }
            let inner = match &self.columns {
                Some(columns) => columns.wrap(0, piece.cluster),
                None => piece.cluster,
            };
            let place = (file as u64) << 32 | piece.position as u64;
            clusters.push(Arc::new(LakeCluster { inner, place, live, filters: self.filters.clone() }));
        }
        (clusters, pruned)
    }
}

/// What the log knows of each file.
struct Known<'a>(&'a LakeTable);

impl ZoneMap for Known<'_> {
    fn zones(&self) -> usize {
        self.0.parts.files.len()
    }

    fn least(&self, column: usize) -> Option<ArrayRef> {
        self.0.known(column).map(|bounds| bounds.least.clone())
    }

    fn greatest(&self, column: usize) -> Option<ArrayRef> {
        self.0.known(column).map(|bounds| bounds.greatest.clone())
    }

    fn nulls(&self, column: usize) -> Option<UInt64Array> {
        self.0.known(column).map(|bounds| bounds.nulls.clone())
    }

    fn rows(&self) -> Option<UInt64Array> {
        Some(self.0.parts.files.iter().map(|file| file.rows).collect())
    }
}

/// Bounds of which nothing is known.
pub(super) fn unknown(ty: &arrow::datatypes::DataType, files: usize) -> ArrayRef {
    new_null_array(ty, files)
}
