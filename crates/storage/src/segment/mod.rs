//! Segments: rows of the database's own tables that lie on disk.
//!
//! A segment is one immutable file of some rows of a table, in clusters. Its columns are named by the ids that the
//! table's columns have, so a table that gets other columns reads its old segments as they are: a column that a segment
//! does not have is NULL there, and one that went is not read. The numbers of the rows are not in the file; who keeps
//! the segment's place in the table keeps them.
//!
//! A file is in one of two [formats](SegmentFormat): Parquet, where each row group is a cluster, or one of our own
//! (`packed`; `layout` has its bytes).
//!
//! ```text
//!   SegmentWriter ─ rows, row group by row group ─▶ finish (synced) ─▶ Segment ─ columns of a table ─▶ SegmentView
//! ```
//!
//! What is read of files of our own format stays in the [buffer](BufferPool) of clusters, if the segment was given one.
//!
//! Each column's part of each cluster has a checksum in the file; that of the footer, its [`Seal`], belongs to whoever
//! keeps the segment's place.
//!
//! Invariant: a file that has a segment's name is whole, and never changes.

mod bounds;
mod layout;
mod packed;
mod packing;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_empty_array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::concat;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use bytes::Bytes;
use datafusion_common::Statistics;
use datafusion_common::config::TableParquetOptions;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::Column;
use datafusion_physical_expr::utils::collect_columns;
use diligence_base::Result;
use diligence_base::limits::{BATCH_ROWS_MAX, MORSEL_ROWS_MAX};
use diligence_base::seams::{Disk, DiskFile, OpenMode};
use parking_lot::RwLock;

use self::packed::PackedFile;
use self::packing::PackedOutput;
pub use crate::external::Seal;
use crate::external::{ColumnFile, EncodedFile, unwritable_file};
use crate::foreign_error::from_arrow;
use crate::memory::RowNumbers;
use crate::{BufferPool, Cluster, Decode, DecodeRequest, DeletedRows, Fetch, Fetched, Hint, Zone};

/// Rows of a cluster at most.
pub const CLUSTER_ROWS_MAX: usize = MORSEL_ROWS_MAX;

/// The format of a segment's file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SegmentFormat {
    /// Parquet, with checksums.
    Parquet,
    /// Our own: packed columns, of which some rows are read without the others.
    #[default]
    Diligence,
}

impl SegmentFormat {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Parquet, Self::Diligence];

    /// What it is called in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Diligence => "diligence",
        }
    }

    /// That of a name; `None` if none has it.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name().eq_ignore_ascii_case(name.trim()))
    }

    /// The ending of the names of files, without the dot.
    pub fn ending(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Diligence => "seg",
        }
    }

    /// This one, or our own for columns of types that Parquet has no form for.
    pub fn for_columns(self, columns: &Schema) -> Self {
        let is_in_parquet = |field: &FieldRef| is_in_parquet(field.data_type());
        if columns.fields().iter().all(is_in_parquet) { self } else { Self::Diligence }
    }

    /// That of a file, by its name.
    fn of(path: &Path) -> Self {
        let is_own = path.extension().is_some_and(|ending| ending == Self::Diligence.ending());
        if is_own { Self::Diligence } else { Self::Parquet }
    }
}

/// The format of segments from now on, which may be changed while they are written.
#[derive(Debug, Default)]
pub struct FormatChoice(RwLock<SegmentFormat>);

impl FormatChoice {
    /// This one for the time being.
    pub fn new(format: SegmentFormat) -> Self {
        Self(RwLock::new(format))
    }

    /// The format.
    pub fn get(&self) -> SegmentFormat {
        *self.0.read()
    }

    /// Another one.
    pub fn set(&self, format: SegmentFormat) {
        *self.0.write() = format;
    }
}

/// A file of clusters, as columns of a table.
trait SegmentFile: Send + Sync + fmt::Debug {
    /// The file's length.
    fn bytes(&self) -> u64;
    /// The same file with these columns, which have these names in it; those that it does not have are NULL.
    fn with_columns(&self, columns: &SchemaRef, names: &[String]) -> Arc<dyn SegmentFile>;
    /// The columns.
    fn schema(&self) -> &SchemaRef;
    /// The rows of a cluster.
    fn rows(&self, cluster: usize) -> Option<usize>;
    /// What is known without looking at rows.
    fn statistics(&self) -> Statistics;
    /// Which rows may be such for which the predicate is true.
    fn candidates(&self, predicate: &Arc<dyn PhysicalExpr>) -> Candidates;
    /// A cluster; with numbers, they are one more column.
    fn cluster(&self, cluster: usize, numbers: Option<RowNumbers>) -> Result<Arc<dyn Cluster>>;
    /// A decoded column in the column's own type.
    fn as_declared(&self, array: ArrayRef, field: &Field) -> Result<ArrayRef>;
    /// Has it be read through a buffer from now on, if it can be.
    fn read_through(&self, _buffer: &Arc<BufferPool>) {}
    /// The same file, read from the disk each time; `None` if it is so read anyway.
    fn unbuffered(&self) -> Option<Arc<dyn SegmentFile>> {
        None
    }
}

impl SegmentFile for ColumnFile {
    fn bytes(&self) -> u64 {
        self.bytes()
    }

    fn with_columns(&self, columns: &SchemaRef, names: &[String]) -> Arc<dyn SegmentFile> {
        Arc::new(self.with_columns(columns, names))
    }

    fn schema(&self) -> &SchemaRef {
        self.schema()
    }

    fn rows(&self, cluster: usize) -> Option<usize> {
        self.rows(cluster)
    }

    fn statistics(&self) -> Statistics {
        self.statistics()
    }

    fn candidates(&self, predicate: &Arc<dyn PhysicalExpr>) -> Candidates {
        let is_asked = is_asked_of(predicate, self.schema());
        let clusters = if is_asked { self.candidates(predicate) } else { Vec::new() };
        Candidates { clusters, rows: HashMap::new() }
    }

    fn cluster(&self, cluster: usize, numbers: Option<RowNumbers>) -> Result<Arc<dyn Cluster>> {
        self.cluster(cluster, numbers)
    }

    fn as_declared(&self, array: ArrayRef, field: &Field) -> Result<ArrayRef> {
        self.as_declared(array, field)
    }
}

/// Rows of a segment for which a predicate may be true.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Candidates {
    /// For each cluster whether it may have one; all may, if it is empty.
    clusters: Vec<bool>,
    /// Of clusters that may have one, those of whose rows only some may be one: a bit for each row.
    rows: HashMap<usize, BooleanBuffer>,
}

impl Candidates {
    /// Whether a cluster may have such a row.
    pub fn has(&self, cluster: usize) -> bool {
        self.clusters.get(cluster) != Some(&false)
    }

    /// Which of a cluster's rows may be such, if not all may.
    pub fn rows(&self, cluster: usize) -> Option<&BooleanBuffer> {
        self.rows.get(&cluster)
    }
}

/// Whether a predicate is about these columns alone. What is asked of the numbers of rows says nothing about the file.
fn is_asked_of(predicate: &Arc<dyn PhysicalExpr>, schema: &SchemaRef) -> bool {
    let is_of_file =
        |column: &Column| schema.fields().get(column.index()).is_some_and(|field| field.name() == column.name());
    collect_columns(predicate).iter().all(is_of_file)
}

/// A segment, opened. Its file may be removed when nothing has it any more.
pub struct Segment {
    number: u64,
    seal: Seal,
    format: SegmentFormat,
    file: Arc<dyn SegmentFile>,
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Segment({})", self.number)
    }
}

/// A segment as a table with certain columns reads it.
#[derive(Debug)]
pub struct SegmentView {
    segment: Arc<Segment>,
    file: Arc<dyn SegmentFile>,
}

/// Whether a segment has a form for all values of a type.
pub fn is_storable(data_type: &DataType) -> bool {
    match data_type {
        DataType::Null | DataType::Union(..) => false,
        DataType::Struct(fields) => !fields.is_empty() && parts_of(data_type).all(is_storable),
        _ => parts_of(data_type).all(is_storable),
    }
}

/// Whether Parquet has a form for all values of a type. It counts intervals in milliseconds.
fn is_in_parquet(data_type: &DataType) -> bool {
    !matches!(data_type, DataType::Interval(_) | DataType::Duration(_)) && parts_of(data_type).all(is_in_parquet)
}

/// The types of what is in a nested value.
fn parts_of(data_type: &DataType) -> impl Iterator<Item = &DataType> {
    let (fields, item) = match data_type {
        DataType::Struct(fields) => (Some(fields), None),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => (None, Some(item)),
        _ => (None, None),
    };
    fields.into_iter().flatten().chain(item).map(|field| field.data_type())
}

fn column_name(id: u32) -> String {
    format!("c{id}")
}

impl Segment {
    /// Opens the file of a segment: reads its footer. Its format follows from its name. Fails with kind `File` if it
    /// cannot be read, with code XX001 if it is not what was written.
    pub fn open(disk: &Arc<dyn Disk>, path: &Path, number: u64, seal: Seal) -> Result<Arc<Self>> {
        let format = SegmentFormat::of(path);
        let file: Arc<dyn SegmentFile> = match format {
            SegmentFormat::Parquet => Arc::new(ColumnFile::open(disk.clone(), path, seal)?),
            SegmentFormat::Diligence => Arc::new(PackedFile::open(disk.clone(), path, seal)?),
        };
        Ok(Arc::new(Self { number, seal, format, file }))
    }

    /// Has it be read through a buffer from now on, if its format is our own.
    pub fn read_through(&self, buffer: &Arc<BufferPool>) {
        self.file.read_through(buffer);
    }

    /// The format of its file.
    pub fn format(&self) -> SegmentFormat {
        self.format
    }

    /// What tells whether the end of its file is what was written.
    pub fn seal(&self) -> Seal {
        self.seal
    }

    /// Its number: no other segment of the database has had it.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// How many rows a cluster has; `None` if there is no such cluster.
    pub fn rows(&self, cluster: usize) -> Option<usize> {
        self.file.rows(cluster)
    }

    /// Its file's length.
    pub fn bytes(&self) -> u64 {
        self.file.bytes()
    }

    /// How a table reads it whose columns have these ids.
    pub fn view(self: &Arc<Self>, columns: &SchemaRef, ids: &[u32]) -> Arc<SegmentView> {
        let names = ids.iter().map(|id| column_name(*id)).collect::<Vec<_>>();
        Arc::new(SegmentView { file: self.file.with_columns(columns, &names), segment: self.clone() })
    }
}

impl SegmentView {
    /// The segment.
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// How many columns the table has.
    pub fn columns(&self) -> usize {
        self.file.schema().fields().len()
    }

    /// How many rows a cluster has, those that are deleted included; `None` if there is no such cluster.
    pub fn rows(&self, cluster: usize) -> Option<usize> {
        self.file.rows(cluster)
    }

    /// What is known of the columns of the whole segment.
    pub fn statistics(&self) -> Statistics {
        self.file.statistics()
    }

    /// Which rows may be such for which a predicate over the table's columns is true, as far as the file tells without
    /// being read.
    pub fn candidates(&self, predicate: &Arc<dyn PhysicalExpr>) -> Candidates {
        self.file.candidates(predicate)
    }

    /// A cluster, to be scanned, without the rows that are deleted; with the numbers of its rows in one more column, if
    /// they are given. Fails with kind `File` if there is no such cluster.
    pub fn cluster(
        self: &Arc<Self>,
        cluster: usize,
        deleted: Option<Arc<DeletedRows>>,
        numbers: Option<RowNumbers>,
    ) -> Result<Arc<dyn Cluster>> {
        let inner = self.file.cluster(cluster, numbers)?;
        Ok(Arc::new(SegmentCluster { inner, view: self.clone(), cluster, deleted }))
    }

    /// Reads a column of a cluster's rows, without those that are deleted, and holds it against its checksum: how many
    /// rows there are, and how many NULLs. Blocks the calling thread. Fails with kind `File` if it cannot be read, with
    /// code XX001 if it is not what was written.
    pub fn verify(&self, cluster: usize, column: usize, deleted: Option<Arc<DeletedRows>>) -> Result<(usize, usize)> {
        // What is in memory says nothing about the disk.
        let unbuffered = self.file.unbuffered();
        let file = unbuffered.as_ref().unwrap_or(&self.file);
        let mut decode = decode(file.as_ref(), cluster, &[column], deleted)?;
        let (mut rows, mut nulls) = (0, 0);
        while let Some(chunk) = decode.next()? {
            rows += chunk.rows;
            nulls += chunk.columns.iter().map(|column| column.logical_null_count()).sum::<usize>();
        }
        Ok((rows, nulls))
    }

    /// These columns of a cluster's rows, or of some of them, now: blocks the calling thread. Fails with kind `File` if
    /// they cannot be read.
    pub fn read(&self, cluster: usize, columns: &[usize], rows: Option<&BooleanBuffer>) -> Result<RecordBatch> {
        let deleted = rows.map(|rows| Arc::new(DeletedRows::of(rows.clone())));
        let mut decode = decode(self.file.as_ref(), cluster, columns, deleted)?;
        let (mut pieces, mut count) = (vec![Vec::<ArrayRef>::new(); columns.len()], 0);
        while let Some(chunk) = decode.next()? {
            count += chunk.rows;
            pieces.iter_mut().zip(chunk.columns).for_each(|(pieces, column)| pieces.push(column));
        }
        let schema = self.file.schema().project(columns).map_err(from_arrow)?;
        let column = |(pieces, field): (Vec<ArrayRef>, &Arc<Field>)| {
            let pieces = pieces.iter().map(|piece| self.file.as_declared(piece.clone(), field));
            let pieces = pieces.collect::<Result<Vec<_>>>()?;
            match pieces.as_slice() {
                [] => Ok(new_empty_array(field.data_type())),
                [one] => Ok(one.clone()),
                many => {
                    concat(&many.iter().map(|piece| &**piece as &dyn Array).collect::<Vec<_>>()).map_err(from_arrow)
                }
            }
        };
        let columns = pieces.into_iter().zip(schema.fields()).map(column).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        RecordBatch::try_new_with_options(Arc::new(schema), columns, &options).map_err(from_arrow)
    }
}

/// Columns of a cluster, now.
fn decode(
    file: &dyn SegmentFile,
    cluster: usize,
    columns: &[usize],
    deleted: Option<Arc<DeletedRows>>,
) -> Result<Box<dyn Decode>> {
    let inner = file.cluster(cluster, None)?;
    let fetched = match inner.fetch(columns) {
        Fetch::Ready(fetched) => fetched,
        Fetch::Blocking(read) => read()?,
        Fetch::Buffered(read) => read.wait()?,
        Fetch::Waiting(read) => futures::executor::block_on(read)?,
    };
    let request =
        DecodeRequest { columns: columns.to_vec(), batch_rows: BATCH_ROWS_MAX, deleted, ..Default::default() };
    inner.decode(fetched, &request)
}

/// A cluster of a segment in one version of its table.
struct SegmentCluster {
    inner: Arc<dyn Cluster>,
    view: Arc<SegmentView>,
    cluster: usize,
    deleted: Option<Arc<DeletedRows>>,
}

impl fmt::Debug for SegmentCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}

impl SegmentCluster {
    /// The columns that are in the file.
    fn in_file(&self, columns: &[usize]) -> Vec<usize> {
        columns.iter().copied().filter(|column| self.holds(*column)).collect()
    }
}

impl Cluster for SegmentCluster {
    fn rows(&self) -> Option<usize> {
        let deleted = self.deleted.as_ref().map_or(0, |deleted| deleted.count());
        self.inner.rows().map(|rows| rows.saturating_sub(deleted))
    }

    fn bytes(&self, columns: &[usize]) -> usize {
        self.inner.bytes(&self.in_file(columns))
    }

    fn fetch(&self, columns: &[usize]) -> Fetch {
        self.inner.fetch(&self.in_file(columns))
    }

    fn fetch_hinted(&self, columns: &[usize], hint: Hint) -> Fetch {
        self.inner.fetch_hinted(&self.in_file(columns), hint)
    }

    fn is_buffered(&self) -> bool {
        self.inner.is_buffered()
    }

    fn decode(&self, fetched: Fetched, request: &DecodeRequest) -> Result<Box<dyn Decode>> {
        self.inner.decode(fetched, &DecodeRequest { deleted: self.deleted.clone(), ..request.clone() })
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn place(&self) -> Option<u64> {
        Some(self.view.segment.number << 24 | self.cluster as u64)
    }

    fn zone(&self, column: usize) -> Option<Zone> {
        if self.holds(column) { self.inner.zone(column) } else { None }
    }

    fn holds(&self, column: usize) -> bool {
        column < self.view.file.schema().fields().len()
    }
}

/// Makes a segment. One that is dropped before its end leaves no file.
pub struct SegmentWriter {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    number: u64,
    /// `None` once the segment has ended.
    file: Option<Arc<dyn DiskFile>>,
    encoded: Encoded,
    schema: SchemaRef,
    /// Bytes that have been encoded.
    end: u64,
    clusters: usize,
}

/// Bytes of a file in the making.
enum Encoded {
    Parquet(EncodedFile),
    Packed(PackedOutput),
}

impl Encoded {
    fn append(&mut self, rows: &[RecordBatch]) -> Result<()> {
        match self {
            Self::Parquet(file) => file.append(rows),
            Self::Packed(file) => file.append(rows),
        }
    }

    fn take(&mut self) -> Vec<Bytes> {
        match self {
            Self::Parquet(file) => file.take(),
            Self::Packed(file) => file.take(),
        }
    }

    fn finish(&mut self) -> Result<Seal> {
        match self {
            Self::Parquet(file) => file.finish(),
            Self::Packed(file) => file.finish(),
        }
    }
}

impl fmt::Debug for SegmentWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SegmentWriter({})", self.number)
    }
}

/// Bytes of a segment, and where they belong. They may be written in any order.
pub struct SegmentBlock {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    offset: u64,
    bytes: Bytes,
}

impl SegmentBlock {
    /// How many there are.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Writes them. Blocks the calling thread. Fails with kind `File`.
    pub fn write(self) -> Result<()> {
        self.file.write_all_at(&self.bytes, self.offset).map_err(|error| unwritable_file(&self.path, &error))
    }
}

impl SegmentWriter {
    /// Begins the file of a segment with these columns, which have these ids. Its format follows from its name. Fails
    /// with kind `File` if it cannot be made.
    pub fn create(disk: &Arc<dyn Disk>, path: &Path, number: u64, columns: &Schema, ids: &[u32]) -> Result<Self> {
        let fields = columns.fields().iter().zip(ids);
        let fields = fields.map(|(field, id)| Field::new(column_name(*id), field.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let encoded = match SegmentFormat::of(path) {
            SegmentFormat::Parquet => {
                let mut options = TableParquetOptions::default();
                options.global.compression = Some("snappy".to_owned());
                Encoded::Parquet(EncodedFile::new(&schema, &options)?)
            }
            SegmentFormat::Diligence => Encoded::Packed(PackedOutput::new(&schema)),
        };
        let file = disk.open(path, OpenMode::CREATE_NEW).map_err(|error| unwritable_file(path, &error))?;
        let (disk, path, file) = (disk.clone(), path.to_owned(), Some(file));
        Ok(Self { disk, path, number, file, encoded, schema, end: 0, clusters: 0 })
    }

    /// The segment's number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// How many clusters it has.
    pub fn clusters(&self) -> usize {
        self.clusters
    }

    /// Encodes a cluster of these rows, [`CLUSTER_ROWS_MAX`] at most. Fails with kind `Unsupported` if the format has
    /// no form for a value.
    pub fn encode_cluster(&mut self, rows: &[RecordBatch]) -> Result<()> {
        let of_file = rows.iter().map(|batch| {
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            let columns = batch.columns().to_vec();
            RecordBatch::try_new_with_options(self.schema.clone(), columns, &options).map_err(from_arrow)
        });
        self.encoded.append(&of_file.collect::<Result<Vec<_>>>()?)?;
        self.clusters += 1;
        Ok(())
    }

    /// What has been encoded and is to be written.
    pub fn due(&mut self) -> Vec<SegmentBlock> {
        let Some(file) = &self.file else { return Vec::new() };
        let blocks = self.encoded.take().into_iter().map(|bytes| {
            let offset = self.end;
            self.end += bytes.len() as u64;
            SegmentBlock { path: self.path.clone(), file: file.clone(), offset, bytes }
        });
        blocks.collect()
    }

    /// Encodes a cluster and writes it. Fails as both do.
    pub fn write_cluster(&mut self, rows: &[RecordBatch]) -> Result<()> {
        self.encode_cluster(rows)?;
        self.due().into_iter().try_for_each(SegmentBlock::write)
    }

    /// Ends the file, all of whose blocks are written; it is synced when this returns, its folder not. Fails with kind
    /// `File` if it cannot be written.
    pub fn finish(mut self) -> Result<Arc<Segment>> {
        let seal = self.encoded.finish()?;
        self.due().into_iter().try_for_each(SegmentBlock::write)?;
        if let Some(file) = &self.file {
            file.sync().map_err(|error| unwritable_file(&self.path, &error))?;
        }
        let segment = Segment::open(&self.disk, &self.path, self.number, seal)?;
        self.file = None;
        Ok(segment)
    }
}

impl Drop for SegmentWriter {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // What stays is removed when the database is opened.
            let _ = self.disk.remove_file(&self.path);
        }
    }
}
