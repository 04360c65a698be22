//! Reads segments in the format of our own: clusters of chunks, each under a checksum.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{Field, Schema, SchemaRef};
use bytes::Bytes;
use datafusion_common::stats::Precision;
use datafusion_common::{ColumnStatistics, ScalarValue, Statistics};
use datafusion_physical_expr::PhysicalExpr;
use diligence_base::seams::Disk;
use diligence_base::{Error, Result};
use diligence_disk::{Failure, FileInBuffer, Gone, Wanted};
use diligence_segment::{Chunk, Damaged};

use super::bounds::{Seen, Side};
use super::layout::{self, ChunkEntry, Footer, HEAD_BYTES};
use super::{Candidates, SegmentFile, is_asked_of};
use crate::external::{
    NumberedWindows, Seal, SeenValues, SharedWindows, Sieve, Source, Windows, conform, conform_column, distinct_values,
    extreme, nulls, numbered_schema, true_rows,
};
use crate::memory::RowNumbers;
use crate::{
    BufferPool, BufferedFetch, Cluster, Decode, DecodeRequest, Fetch, FetchDone, Fetched, Hint, RowFilter, Zone,
};

/// A file, opened, as columns of a table.
#[derive(Clone)]
pub(super) struct PackedFile {
    source: Arc<Source>,
    footer: Arc<Footer>,
    /// The table's columns.
    schema: SchemaRef,
    /// For each of them the file's.
    roots: Arc<[Option<usize>]>,
    /// Where its chunks stay when they have been read; `None` if they are to be read from the disk each time.
    buffer: Option<Arc<OnceLock<Arc<FileInBuffer>>>>,
}

impl fmt::Debug for PackedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

fn corrupt(source: &Source, what: impl fmt::Display) -> Error {
    source.error(format!("{what}; the file is corrupt")).with_code("XX001")
}

impl PackedFile {
    /// Reads head and end. Its columns are all of the file's. Fails with kind `File` if it cannot be read, with code
    /// XX001 if it is not what was written.
    pub fn open(disk: Arc<dyn Disk>, path: &Path, seal: Seal) -> Result<Self> {
        let meta = disk.meta(path).map_err(|error| Error::file(format!("{}: {error}", path.display())))?;
        let source = Arc::new(Source::local(meta, disk));
        if seal.start < HEAD_BYTES || seal.start > source.bytes {
            return Err(corrupt(&source, "it does not end where it should"));
        }
        let mut read = source.read_now(vec![0..HEAD_BYTES, seal.start..source.bytes])?.into_iter();
        let (Some(head), Some(end)) = (read.next(), read.next()) else {
            return Err(Error::bug("a read brought fewer parts than it had ranges"));
        };
        layout::check_head(&head).map_err(|error| source.error(error).with_code("XX001"))?;
        if crc32fast::hash(&end) != seal.checksum {
            return Err(corrupt(&source, "the checksum of its end is wrong"));
        }
        let footer = Arc::new(layout::read_end(end, seal.start).map_err(|error| corrupt(&source, error))?);
        let roots = (0..footer.schema.fields().len()).map(Some).collect();
        Ok(Self { source, schema: footer.schema.clone(), footer, roots, buffer: Some(Arc::default()) })
    }

    fn seen(&self) -> Seen<'_> {
        Seen { footer: &self.footer, schema: &self.schema, roots: &self.roots }
    }

    fn column_statistics(&self, column: usize, rows: usize) -> ColumnStatistics {
        let Some(root) = self.roots[column] else {
            let unknown = ColumnStatistics::new_unknown().with_byte_size(Precision::Inexact(0));
            return unknown.with_null_count(Precision::Exact(rows));
        };
        let chunks = || self.footer.clusters.iter().map(move |cluster| (cluster.rows, &cluster.chunks[root]));
        let bytes = chunks().map(|(_, chunk)| chunk.bytes_in_memory as usize).sum();
        let missing = chunks().map(|(_, chunk)| chunk.nulls as usize).sum::<usize>();
        let mut statistics = ColumnStatistics::new_unknown().with_byte_size(Precision::Inexact(bytes));
        statistics.null_count = Precision::Exact(missing);
        let clusters = self.footer.clusters.len();
        let sides = |side| self.seen().side(column, side).map(|values| values.slice(0, clusters));
        let (least, greatest) = (sides(Side::Least), sides(Side::Greatest));
        let bounds = self.footer.bounds[root].as_ref();
        if let (Some(least), Some(greatest), Some(bounds)) = (&least, &greatest, bounds) {
            let is_known = |values: &ArrayRef| {
                chunks().enumerate().all(|(at, (rows, chunk))| values.is_valid(at) || chunk.nulls as usize == rows)
            };
            if is_known(least) && is_known(greatest) {
                let precise = |value| if bounds.is_exact { Precision::Exact(value) } else { Precision::Inexact(value) };
                let (least, greatest) = (std::slice::from_ref(least), std::slice::from_ref(greatest));
                statistics.min_value = extreme(least, std::cmp::Ordering::Less).map_or(Precision::Absent, precise);
                statistics.max_value =
                    extreme(greatest, std::cmp::Ordering::Greater).map_or(Precision::Absent, precise);
            }
        }
        let seen = chunks()
            .map(|(rows, chunk)| Some(SeenValues { values: f64::from(chunk.distinct?), rows: rows.max(1) as f64 }));
        let least = least.as_ref().map(std::slice::from_ref);
        if let Some(distinct) = distinct_values(seen, least, greatest.as_ref().map(std::slice::from_ref)) {
            let values = rows.saturating_sub(missing);
            statistics.distinct_count = Precision::Inexact(distinct.clamp(1, values.max(1)));
        }
        statistics
    }
}

impl SegmentFile for PackedFile {
    fn bytes(&self) -> u64 {
        self.source.bytes
    }

    fn with_columns(&self, columns: &SchemaRef, names: &[String]) -> Arc<dyn SegmentFile> {
        let roots = names.iter().map(|name| self.footer.schema.index_of(name).ok()).collect();
        let fields = columns.fields().iter().map(|field| Field::clone(field).with_nullable(true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Arc::new(Self { schema, roots, ..self.clone() })
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn rows(&self, cluster: usize) -> Option<usize> {
        self.footer.clusters.get(cluster).map(|cluster| cluster.rows)
    }

    fn statistics(&self) -> Statistics {
        let rows = self.footer.clusters.iter().map(|cluster| cluster.rows).sum();
        let columns = (0..self.schema.fields().len()).map(|column| self.column_statistics(column, rows));
        let columns = columns.collect::<Vec<_>>();
        let bytes = columns.iter().filter_map(|column| column.byte_size.get_value().copied()).sum();
        let total_byte_size = Precision::Inexact(bytes);
        Statistics { num_rows: Precision::Exact(rows), total_byte_size, column_statistics: columns }
    }

    fn candidates(&self, predicate: &Arc<dyn PhysicalExpr>) -> Candidates {
        if is_asked_of(predicate, &self.schema) { self.seen().candidates(predicate) } else { Candidates::default() }
    }

    fn cluster(&self, cluster: usize, numbers: Option<RowNumbers>) -> Result<Arc<dyn Cluster>> {
        if self.rows(cluster).is_none() {
            return Err(self.source.error(format!("it has no cluster {cluster}")));
        }
        Ok(Arc::new(PackedCluster { file: self.clone(), cluster, numbers }))
    }

    fn read_through(&self, buffer: &Arc<BufferPool>) {
        if let Some(own) = &self.buffer {
            own.get_or_init(|| buffer.add(self.source.clone()));
        }
    }

    fn unbuffered(&self) -> Option<Arc<dyn SegmentFile>> {
        Some(Arc::new(Self { buffer: None, ..self.clone() }))
    }

    fn as_declared(&self, array: ArrayRef, field: &Field) -> Result<ArrayRef> {
        let array = conform_column(array, field, false).map_err(|error| self.source.blame(error))?;
        if array.data_type() == field.data_type() { Ok(array) } else { conform(array, field.data_type(), false) }
    }
}

/// A cluster of a file.
struct PackedCluster {
    file: PackedFile,
    cluster: usize,
    /// The numbers of its rows, if they are one more column.
    numbers: Option<RowNumbers>,
}

impl fmt::Debug for PackedCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}

/// What was fetched: chunks by the file's columns.
struct PackedBytes(HashMap<usize, Bytes>);

/// Chunks of a cluster that are read, by the file's columns.
struct ChunkRead {
    source: Arc<Source>,
    cluster: usize,
    footer: Arc<Footer>,
    chunks: Vec<(usize, ChunkEntry)>,
}

impl ChunkRead {
    /// The same for a buffer.
    fn wanted(&self) -> Vec<Wanted> {
        let wanted = self.chunks.iter().map(|(_, chunk)| {
            let range = chunk.range();
            Wanted { offset: range.start, bytes: (range.end - range.start) as usize, checksum: chunk.checksum }
        });
        wanted.collect()
    }

    /// What was read of each of them is what was written.
    fn check(&self, parts: &[Bytes]) -> Result<()> {
        let wrong =
            self.chunks.iter().zip(parts).position(|((_, chunk), part)| crc32fast::hash(part) != chunk.checksum);
        wrong.map_or(Ok(()), |part| Err(self.wrong(part)))
    }

    fn wrong(&self, part: usize) -> Error {
        let name = self.footer.schema.field(self.chunks[part].0).name();
        corrupt(&self.source, format!("cluster {}: the checksum of column '{name}' is wrong", self.cluster))
    }

    fn fetched(&self, parts: Vec<Bytes>) -> Fetched {
        let bytes = parts.iter().map(Bytes::len).sum();
        let own = |((root, chunk), part): (&(usize, ChunkEntry), Bytes)| (*root, part.slice(..chunk.bytes as usize));
        Fetched { bytes, content: Box::new(PackedBytes(self.chunks.iter().zip(parts).map(own).collect())) }
    }
}

/// A fetch through the buffer.
struct PackedFetch {
    buffer: Arc<FileInBuffer>,
    read: ChunkRead,
    wanted: Vec<Wanted>,
    hint: Hint,
}

impl PackedFetch {
    fn done(read: &ChunkRead, parts: Result<Vec<Bytes>, Failure>) -> Result<Fetched> {
        match parts {
            Ok(parts) => Ok(read.fetched(parts)),
            Err(Failure::Checksum(part)) => Err(read.wrong(part)),
            Err(Failure::Read(error)) => Err(error),
        }
    }
}

impl BufferedFetch for PackedFetch {
    fn begin(self: Box<Self>, gone: Arc<Gone>, done: FetchDone) {
        let Self { buffer, read, wanted, hint } = *self;
        let cluster = read.cluster as u32;
        let done = Box::new(move |parts, counted| done(Self::done(&read, parts), counted));
        buffer.read(cluster, &wanted, hint, gone, done);
    }

    fn wait(self: Box<Self>) -> Result<Fetched> {
        let Self { buffer, read, wanted, hint } = *self;
        Self::done(&read, buffer.read_here(read.cluster as u32, &wanted, hint))
    }
}

impl PackedCluster {
    /// The chunks of these columns of the table, by the file's columns.
    fn chunks(&self, columns: &[usize]) -> Vec<(usize, ChunkEntry)> {
        let roots = columns.iter().filter_map(|&column| self.file.roots.get(column).copied().flatten());
        let mut roots = roots.collect::<Vec<_>>();
        roots.sort_unstable();
        roots.dedup();
        let entries = &self.file.footer.clusters[self.cluster].chunks;
        roots.into_iter().map(|root| (root, entries[root])).collect()
    }

    fn rows(&self) -> usize {
        self.file.footer.clusters[self.cluster].rows
    }

    fn buffer(&self) -> Option<&Arc<FileInBuffer>> {
        self.file.buffer.as_ref()?.get()
    }

    fn sieve(&self, windows: impl Windows + 'static, request: &DecodeRequest) -> Box<dyn Decode> {
        let schema = &self.file.schema;
        let Some(numbers) = &self.numbers else {
            return Box::new(Sieve::new(windows, request.clone(), schema.clone()));
        };
        let (numbers, column) = (numbers.clone(), schema.fields().len());
        let windows = NumberedWindows { inner: windows, numbers, column, start: 0, rows: 0 };
        Box::new(Sieve::new(windows, request.clone(), numbered_schema(schema)))
    }
}

impl Cluster for PackedCluster {
    fn rows(&self) -> Option<usize> {
        Some(PackedCluster::rows(self))
    }

    fn bytes(&self, columns: &[usize]) -> usize {
        let bytes =
            self.chunks(columns).into_iter().map(|(_, chunk)| chunk.range()).map(|range| range.end - range.start);
        bytes.sum::<u64>() as usize
    }

    fn fetch(&self, columns: &[usize]) -> Fetch {
        self.fetch_hinted(columns, Hint::Keep)
    }

    fn fetch_hinted(&self, columns: &[usize], hint: Hint) -> Fetch {
        let chunks = self.chunks(columns);
        let (source, cluster, footer) = (self.file.source.clone(), self.cluster, self.file.footer.clone());
        let read = ChunkRead { source, cluster, footer, chunks };
        if read.chunks.is_empty() {
            return Fetch::Ready(read.fetched(Vec::new()));
        }
        let Some(buffer) = self.buffer() else {
            let ranges = read.chunks.iter().map(|(_, chunk)| chunk.range()).collect();
            return self.file.source.fetch(ranges, move |parts| {
                read.check(&parts)?;
                Ok(read.fetched(parts))
            });
        };
        let wanted = read.wanted();
        match buffer.find(cluster as u32, &wanted, hint) {
            Some(parts) => Fetch::Ready(Fetched { bytes: 0, ..read.fetched(parts) }),
            None => Fetch::Buffered(Box::new(PackedFetch { buffer: buffer.clone(), read, wanted, hint })),
        }
    }

    fn zone(&self, column: usize) -> Option<Zone> {
        let root = (*self.file.roots.get(column)?)?;
        let entry = &self.file.footer.clusters[self.cluster];
        let nulls = entry.chunks[root].nulls as usize;
        let end = |side| {
            let values = self.file.seen().side(column, side)?;
            ScalarValue::try_from_array(&values, self.cluster).ok().filter(|value| !value.is_null())
        };
        let bounds = match nulls < entry.rows {
            true => Some((end(Side::Least)?, end(Side::Greatest)?)),
            false => None,
        };
        Some(Zone { bounds, may_have_nulls: nulls > 0 })
    }

    fn is_buffered(&self) -> bool {
        self.buffer().is_some()
    }

    fn decode(&self, fetched: Fetched, request: &DecodeRequest) -> Result<Box<dyn Decode>> {
        if fetched.is_nothing() {
            return Ok(self.sieve(SharedWindows::of(request)?, request));
        }
        let PackedBytes(found) = *fetched
            .content
            .downcast::<PackedBytes>()
            .map_err(|_| Error::bug("what was fetched from another cluster came to a segment's"))?;
        let mut chunks = HashMap::with_capacity(found.len());
        for (root, bytes) in found {
            let field = self.file.footer.schema.field(root);
            let chunk = Chunk::open(bytes, field.data_type(), PackedCluster::rows(self));
            chunks.insert(root, chunk.map_err(|error| self.damaged(root, &error))?);
        }
        let (file, cluster) = (self.file.clone(), self.cluster);
        let cluster = PackedCluster { file, cluster, numbers: None };
        let batch_rows = request.batch_rows.max(1);
        let (is_narrow, answers) = (request.narrow, HashMap::new());
        let windows = PackedWindows { cluster, chunks, batch_rows, is_narrow, answers, start: 0, rows: 0 };
        Ok(self.sieve(windows, request))
    }

    fn place(&self) -> Option<u64> {
        Some(self.cluster as u64)
    }

    fn describe(&self) -> String {
        format!("{}, cluster {}", self.file.source.name, self.cluster)
    }
}

impl PackedCluster {
    fn damaged(&self, root: usize, error: &Damaged) -> Error {
        let name = self.file.footer.schema.field(root).name();
        corrupt(&self.file.source, format!("cluster {}: column '{name}' cannot be read ({error})", self.cluster))
    }
}

/// Bytes of a value while it is on its way: a view, or a wide number.
const VALUE_BYTES: usize = size_of::<u128>();

/// The rows of a cluster, window by window.
struct PackedWindows {
    cluster: PackedCluster,
    /// By the file's columns.
    chunks: HashMap<usize, Chunk>,
    batch_rows: usize,
    is_narrow: bool,
    /// By filter: for each of a chunk's values that are stored once whether it is kept; `None` if rows must be asked.
    answers: HashMap<usize, Option<BooleanBuffer>>,
    start: usize,
    rows: usize,
}

/// A filter is asked of values that are stored once if they are so many times as many as rows are wanted of a window,
/// at most: there are more windows.
const VALUES_PER_ROW_MAX: usize = 4;

impl Windows for PackedWindows {
    fn advance(&mut self, rows_max: usize) -> Result<usize> {
        self.start += self.rows;
        self.rows = rows_max.min(self.cluster.rows() - self.start);
        Ok(self.rows)
    }

    fn column(&mut self, column: usize, selected: Option<&BooleanBuffer>) -> Result<ArrayRef> {
        let file = &self.cluster.file;
        let field = file.schema.field(column);
        let Some(root) = file.roots.get(column).copied().flatten() else {
            return Ok(nulls(field.data_type(), selected.map_or(self.rows, BooleanBuffer::count_set_bits)));
        };
        let missing = || Error::bug(format!("column {column} was not fetched"));
        let chunk = self.chunks.get_mut(&root).ok_or_else(missing)?;
        // Codes and short decimals are narrow forms of the table's type only if that is the file's.
        let is_narrow = self.is_narrow && file.footer.schema.field(root).data_type() == field.data_type();
        let read = chunk.read(self.start..self.start + self.rows, selected, is_narrow);
        let array = read.map_err(|error| self.cluster.damaged(root, &error))?;
        conform_column(array, field, self.is_narrow).map_err(|error| self.cluster.file.source.blame(error))
    }

    fn judged(&mut self, place: usize, filter: &dyn RowFilter, left: usize) -> Result<Option<BooleanBuffer>> {
        let file = &self.cluster.file;
        let &[column] = filter.columns() else { return Ok(None) };
        let Some(root) = file.roots.get(column).copied().flatten() else { return Ok(None) };
        // The values of a column that got another type are not the table's.
        if file.footer.schema.field(root).data_type() != file.schema.field(column).data_type() {
            return Ok(None);
        }
        let (rows, Some(chunk)) = (self.start..self.start + self.rows, self.chunks.get(&root)) else { return Ok(None) };
        if let Some(ranges) = filter.ranges()
            && let Some(keep) = chunk.are_within(rows.clone(), ranges.ranges())
        {
            return Ok(Some(keep));
        }
        let few = |count: usize| count <= left.saturating_mul(VALUES_PER_ROW_MAX);
        if !filter.is_of_values() || !chunk.values_count().is_some_and(few) {
            return Ok(None);
        }
        let answers = match self.answers.entry(place) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let values = chunk.values(self.is_narrow).map_err(|error| self.cluster.damaged(root, &error))?;
                // Some value may be one for which it fails, without being that of a row that is left.
                let kept = values.and_then(|values| filter.keep(&[values]).ok());
                unknown.insert(kept.map(|kept| true_rows(&kept)))
            }
        };
        Ok(answers.as_ref().and_then(|answers| chunk.are_among(rows, answers)))
    }

    fn bytes(&self) -> usize {
        let entries = &self.cluster.file.footer.clusters[self.cluster.cluster];
        let window = |bytes: u64| {
            (u128::from(bytes) * self.batch_rows.min(entries.rows) as u128).div_ceil(entries.rows.max(1) as u128)
        };
        let chunks = self.chunks.iter().map(|(root, chunk)| {
            let values = usize::try_from(window(entries.chunks[*root].bytes_in_memory)).unwrap_or(usize::MAX);
            chunk.own_bytes().saturating_add(values).saturating_add(self.batch_rows.saturating_mul(VALUE_BYTES))
        });
        chunks.fold(0, usize::saturating_add)
    }
}
