//! Rows that go into files: COPY … TO, and INSERT into a folder.
//!
//! The life of a row: a packet's [`FilePart`](output::FilePart) encodes it (`format`, `csv`, `row_groups`), the
//! [`OutputFile`](output::OutputFile) that it shares with the other packets puts what is encoded in order and cuts it
//! into blocks (`blocks`), which go to the disk (`local`) or to an object store. Where files come to are folders beside
//! the target (`staging`): so nothing takes the target's place before all rows are written and synced, and nothing is
//! left of a statement that fails. Objects of a store appear when they are complete.
//!
//! Rows with partition columns go to a file for each of their values, in folders with these names. Packets share files,
//! so a statement writes one for each folder, or a few where it would have very many rows.

mod blocks;
#[cfg(test)]
mod crash_tests;
mod csv;
mod format;
mod in_order;
mod local;
mod names;
mod output;
mod parquet_forms;
mod plain;
mod row_groups;
mod staging;
#[cfg(test)]
mod tests;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use arrow::array::{Array, AsArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::{CastOptions, cast_with_options, take_record_batch};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use diligence_base::seams::Disk;
use diligence_base::{Error, Result};
use object_store::ObjectStore;
use object_store::path::{Path as StorePath, PathPart};
use parking_lot::Mutex;
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;
use tokio::runtime::Handle;

pub use format::{Frame, Packing, WriteExtras, WriteFormat};
pub use names::FileNames;
pub(crate) use plain::{EncodedFile, unwritable_file};
pub use staging::{FolderFiles, Staging};

use self::blocks::Due;
use self::local::{CACHED_BYTES, LocalOutput};
use self::output::{FilePart, ObjectOutput, OutputFile, OutputPlace, keeps_order, unwritable};
use self::parquet_forms::{stored_field, stored_values};
use self::row_groups::{DICTIONARIES_BYTES_MAX, RowGroupBounds, leaf_count};
use super::partitions::NULL_NAME;
use crate::foreign_error::from_arrow;
use crate::writer::{PartIo, WriteIo, WriteOperation, WritePart, WriteRequest, Writer};

/// A row group has one part in so many of what the query may have: each packet has one, beside what is on its way.
const ROW_GROUP_PART: usize = 24;
/// And within these bounds.
const ROW_GROUP_BYTES_MIN: usize = 1 << 20;
const ROW_GROUP_BYTES_MAX: usize = 64 << 20;
/// Of wide rows, a row group has so many bytes of each column, or one part in so many of what the query may have: what
/// the file says of a column of a row group takes about a kilobyte, and is held to the end.
const COLUMN_BYTES_MIN: usize = 16 << 10;
const WIDE_ROW_GROUP_PART: usize = 8;
/// Dictionaries may have one part in so many of a row group before there are rows.
const DICTIONARY_PART: usize = 2;

/// Files of a table that take the place of others when they are committed.
pub trait FileSet: Send + Sync + std::fmt::Debug {
    /// Moves new files to the others; with `replace`, in the place of all that are there. The next statement sees them.
    /// Fails with kind `File`; then all is as it was.
    fn add(&self, staging: Staging, replace: bool) -> Result<()>;
}

/// Where rows go.
#[derive(Clone, Debug)]
pub enum Destination {
    /// One local file, which takes the place of what is there.
    File(PathBuf),
    /// A pipe or a device, such as the standard output.
    Pipe(PathBuf),
    /// New files in a local folder, whose names end so.
    Folder(PathBuf, String),
    /// New files of a table over a local folder, whose names end so.
    Table {
        /// The folder.
        folder: PathBuf,
        /// How their names end.
        ending: String,
        /// The table.
        files: Arc<dyn FileSet>,
        /// Whether all that the table has gives way.
        replace: bool,
    },
    /// One object of a store.
    Object(Arc<dyn ObjectStore>, StorePath),
    /// New objects of a store whose names begin and end so.
    Objects(Arc<dyn ObjectStore>, StorePath, String),
}

/// Writes rows into files.
#[derive(Clone, Debug)]
pub struct FileWriter {
    /// As the statement names it, or where the table is.
    pub name: String,
    /// How files are written.
    pub format: WriteFormat,
    /// What is said besides.
    pub extras: WriteExtras,
    /// Where they go.
    pub destination: Destination,
    /// Columns whose values are in the names of folders, outermost first.
    pub partition_columns: Vec<String>,
    /// Whether these columns are in the files, too.
    pub keeps_partition_columns: bool,
    /// Columns that allow no NULL.
    pub required_columns: Vec<String>,
    /// Another file of a folder is begun when one has so many rows.
    pub file_rows_max: u64,
    /// The file system.
    pub disk: Arc<dyn Disk>,
}

impl Writer for FileWriter {
    fn begin(&self, request: &WriteRequest) -> Result<Arc<dyn WriteOperation>> {
        FileOperation::begin(self, request).map(|operation| operation as _)
    }

    fn keeps_order(&self) -> bool {
        let is_one = matches!(self.destination, Destination::File(_) | Destination::Pipe(_) | Destination::Object(..));
        is_one && self.partition_columns.is_empty() && keeps_order(&self.format)
    }

    fn describe(&self) -> String {
        let format = self.format.format().name();
        match self.partition_columns.as_slice() {
            [] => format!("{format} to {}", self.name),
            columns => format!("{format} to {} by {}", self.name, columns.join(", ")),
        }
    }
}

/// One run of a [`FileWriter`].
struct FileOperation {
    name: Arc<str>,
    writer: FileWriter,
    /// The columns of the files, by place in the rows.
    columns: Vec<usize>,
    schema: SchemaRef,
    /// The columns that are in the names of folders, by place in the rows.
    partitions: Vec<usize>,
    /// The columns that allow no NULL, by place in the rows.
    required: Vec<usize>,
    bounds: RowGroupBounds,
    /// `None` when it is committed, or for objects.
    staging: Mutex<Option<Staging>>,
    files: Mutex<OperationFiles>,
    rows: AtomicU64,
    held: Arc<AtomicUsize>,
    is_prepared: AtomicBool,
    /// For what is to be dropped in a store.
    runtime: Option<Handle>,
}

/// Fails where files cannot be called as the statement wants.
fn check_names(writer: &FileWriter) -> Result<()> {
    let Some(names) = &writer.extras.file_names else { return Ok(()) };
    match &writer.destination {
        Destination::File(_) | Destination::Pipe(_) | Destination::Object(..) => {
            let error = Error::input("FILENAME_PATTERN names the files of a folder, and this is one file");
            Err(error.with_code("42601").with_hint("PARTITION_BY and PER_THREAD_OUTPUT write folders"))
        }
        // What is there already is not known without asking for each name.
        Destination::Objects(..) if !names.are_unique() => {
            let error = Error::unsupported("files in an object store are not numbered");
            Err(error.with_code("0A000").with_hint("FILENAME_PATTERN 'name_{uuid}' gives them names of their own"))
        }
        _ => Ok(()),
    }
}

#[derive(Default)]
struct OperationFiles {
    /// The file of each folder that takes rows.
    open: HashMap<PathBuf, Arc<OutputFile>>,
    /// All of them.
    all: Vec<Arc<OutputFile>>,
}

/// Bytes of a row group of these columns, where a query may have so much memory.
fn row_group_bytes(schema: &SchemaRef, memory_bytes: usize) -> usize {
    let wide = leaf_count(schema).saturating_mul(COLUMN_BYTES_MIN).min(memory_bytes / WIDE_ROW_GROUP_PART);
    (memory_bytes / ROW_GROUP_PART).max(wide).clamp(ROW_GROUP_BYTES_MIN, ROW_GROUP_BYTES_MAX)
}

impl FileOperation {
    fn begin(writer: &FileWriter, request: &WriteRequest) -> Result<Arc<Self>> {
        let place = |name: &String| {
            let place = request.schema.index_of(name);
            place.map_err(|_| Error::input(format!("the rows have no column '{name}'")))
        };
        let partitions = writer.partition_columns.iter().map(place).collect::<Result<Vec<_>>>()?;
        let required = writer.required_columns.iter().map(place).collect::<Result<Vec<_>>>()?;
        let is_in_files = |index: &usize| writer.keeps_partition_columns || !partitions.contains(index);
        let columns = (0..request.schema.fields().len()).filter(is_in_files).collect::<Vec<_>>();
        let is_parquet = matches!(writer.format, WriteFormat::Parquet(_));
        let field = |&column: &usize| {
            let field = request.schema.field(column);
            let field = field.clone().with_nullable(field.is_nullable() && !required.contains(&column));
            let field = if is_parquet { stored_field(&field) } else { field };
            let Some(id) = writer.extras.field_ids.get(field.name()).filter(|_| is_parquet) else { return field };
            let mut said = field.metadata().clone();
            said.insert(PARQUET_FIELD_ID_META_KEY.to_owned(), id.to_string());
            field.with_metadata(said)
        };
        let fields = columns.iter().map(field).collect::<Vec<_>>();
        let schema = Arc::new(Schema::new_with_metadata(fields, request.schema.metadata().clone()));
        check_names(writer)?;
        let disk = || writer.disk.clone();
        let staging = match &writer.destination {
            Destination::File(path) => {
                Some(Staging::new(path.parent().unwrap_or(Path::new("")), String::new(), disk())?)
            }
            Destination::Pipe(_) => Some(Staging::new(&std::env::temp_dir(), String::new(), disk())?),
            Destination::Folder(folder, ending) | Destination::Table { folder, ending, .. } => {
                Some(Staging::new(folder, ending.clone(), disk())?.named(writer.extras.file_names.clone()))
            }
            Destination::Object(..) | Destination::Objects(..) => None,
        };
        if let Some(staging) = &staging {
            staging.make().map_err(|error| unwritable(&writer.name, &error))?;
        }
        let rows = match &writer.format {
            WriteFormat::Parquet(options) => options.global.max_row_group_size.max(1),
            _ => usize::MAX,
        };
        let bytes = row_group_bytes(&schema, request.memory_bytes);
        let bytes = writer.extras.row_group_bytes_max.map_or(bytes, |most| bytes.min(most.max(1)));
        let dictionary_bytes = (bytes / DICTIONARY_PART).min(DICTIONARIES_BYTES_MAX);
        let operation = Arc::new(Self {
            name: writer.name.as_str().into(),
            writer: writer.clone(),
            columns,
            schema,
            partitions,
            required,
            bounds: RowGroupBounds { rows, bytes, dictionary_bytes },
            staging: Mutex::new(staging),
            files: Mutex::default(),
            rows: AtomicU64::new(0),
            held: Arc::default(),
            is_prepared: AtomicBool::new(false),
            runtime: Handle::try_current().ok(),
        });
        if matches!(writer.destination, Destination::File(_) | Destination::Pipe(_) | Destination::Object(..)) {
            // Of no rows, there is a file without any.
            operation.file(Path::new(""))?;
        }
        Ok(operation)
    }

    /// Fails with kind `Value` and 23502 if a column that allows no NULL has one: in the name of a folder, NULL is a
    /// word.
    fn refuse_nulls(&self, rows: &RecordBatch) -> Result<()> {
        let has_null = |index: &&usize| {
            let column = rows.column(**index);
            let is_word =
                || column.as_string_view_opt().is_some_and(|names| names.iter().any(|n| n == Some(NULL_NAME)));
            column.logical_null_count() > 0 || self.partitions.contains(index) && is_word()
        };
        self.required.iter().find(has_null).map_or(Ok(()), |index| {
            let name = rows.schema_ref().field(*index).name().clone();
            Err(Error::value(format!("the column '{name}' does not allow NULL")).with_code("23502"))
        })
    }

    /// The file of a folder that takes rows at present.
    fn file(&self, below: &Path) -> Result<Arc<OutputFile>> {
        let mut files = self.files.lock();
        if let Some(file) = files.open.get(below)
            && !self.is_full(file)
        {
            return Ok(file.clone());
        }
        let place = self.place(below, files.all.len())?;
        let file =
            OutputFile::new(self.name.clone(), place, self.said(), &self.schema, self.bounds, self.held.clone())?;
        let file = Arc::new(file);
        files.open.insert(below.to_owned(), file.clone());
        files.all.push(file.clone());
        Ok(file)
    }

    fn place(&self, below: &Path, index: usize) -> Result<OutputPlace> {
        let object = |store: &Arc<dyn ObjectStore>, path| {
            let object = ObjectOutput::new(self.name.clone(), store.clone(), path, self.held.clone());
            OutputPlace::Object(Arc::new(object))
        };
        Ok(match &self.writer.destination {
            Destination::Object(store, path) => object(store, path.clone()),
            Destination::Objects(store, path, ending) => {
                let mut path = path.clone();
                for part in below.iter().filter_map(OsStr::to_str) {
                    let part = PathPart::parse(part);
                    path = path.join(part.map_err(|error| Error::bug(format!("a folder's name: {error}")))?);
                }
                let name = match &self.writer.extras.file_names {
                    Some(names) => names.name(index),
                    None => format!("part-{}-{index}", new_number()),
                };
                object(store, path.join(format!("{name}{ending}")))
            }
            _ => {
                let staging = self.staging.lock();
                let staging = staging.as_ref().ok_or_else(|| Error::bug("rows are written after the commit"))?;
                let path = staging.add_file(below);
                let output = LocalOutput::new(path, self.writer.disk.clone(), CACHED_BYTES, staging.guard());
                OutputPlace::Local(Arc::new(output))
            }
        })
    }

    /// Whether further rows go to another file.
    fn is_full(&self, file: &OutputFile) -> bool {
        let is_single =
            matches!(self.writer.destination, Destination::File(_) | Destination::Pipe(_) | Destination::Object(..));
        let is_large = || self.writer.extras.file_bytes_max.is_some_and(|most| file.bytes() >= most);
        !is_single && (file.rows() >= self.writer.file_rows_max || is_large())
    }

    /// What is said about how files are written.
    fn said(&self) -> (&WriteFormat, &WriteExtras) {
        (&self.writer.format, &self.writer.extras)
    }

    fn new_part(&self, below: &Path) -> Result<FilePart> {
        Ok(FilePart::new(self.file(below)?, self.said(), self.bounds))
    }

    fn is_remote(&self) -> bool {
        matches!(self.writer.destination, Destination::Object(..) | Destination::Objects(..))
    }

    fn objects(&self) -> Vec<Arc<ObjectOutput>> {
        self.files.lock().all.iter().filter_map(|file| file.object()).collect()
    }

    /// Rows by the folder that they go to, with the columns that the files have.
    fn divided(&self, rows: &RecordBatch) -> Result<Vec<(PathBuf, RecordBatch)>> {
        let in_files = rows.project(&self.columns).map_err(from_arrow)?;
        // Columns that allow no NULL have none: that was looked at before.
        let count = RecordBatchOptions::new().with_row_count(Some(in_files.num_rows()));
        let columns = in_files.columns().iter().zip(self.schema.fields());
        let columns = columns.map(|(array, field)| stored_values(array, field));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let in_files = RecordBatch::try_new_with_options(self.schema.clone(), columns, &count).map_err(from_arrow)?;
        if self.partitions.is_empty() {
            return Ok(vec![(PathBuf::new(), in_files)]);
        }
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let text = |&column: &usize| cast_with_options(rows.column(column), &DataType::Utf8, &options);
        let texts = self.partitions.iter().map(text).collect::<Result<Vec<_>, _>>().map_err(from_arrow)?;
        let texts = texts.iter().map(|text| text.as_string::<i32>()).collect::<Vec<_>>();
        let mut places: HashMap<Vec<Option<&str>>, usize> = HashMap::new();
        let mut groups: Vec<(PathBuf, Vec<u32>)> = Vec::new();
        for row in 0..rows.num_rows() {
            let values = texts.iter().map(|text| text.is_valid(row).then(|| text.value(row))).collect::<Vec<_>>();
            let place = *places.entry(values).or_insert_with_key(|values| {
                let names = self.writer.partition_columns.iter().zip(values);
                // Readers cut a name at a `=`.
                let part = |text: &str| PathPart::from(text).as_ref().replace('=', "%3D");
                let names = names.map(|(name, value)| format!("{}={}", part(name), part(value.unwrap_or(NULL_NAME))));
                groups.push((names.collect(), Vec::new()));
                groups.len() - 1
            });
            groups[place].1.push(row as u32);
        }
        let taken = groups.into_iter().map(|(below, rows)| {
            Ok((below, take_record_batch(&in_files, &UInt32Array::from(rows)).map_err(from_arrow)?))
        });
        taken.collect()
    }

    fn move_in(&self) -> Result<u64> {
        let rows = self.rows.load(Ordering::Acquire);
        let staging = self.staging.lock().take().ok_or_else(|| Error::bug("an operation is committed twice"))?;
        match &self.writer.destination {
            Destination::File(path) => {
                staging.commit_as(path).map_err(|error| unwritable(&self.name, &error))?;
            }
            Destination::Pipe(path) => {
                staging.commit_into(path).map_err(|error| unwritable(&self.name, &error))?;
            }
            Destination::Folder(..) => staging.commit(&[])?,
            // Of no rows, no file is left; only OVERWRITE has something to do.
            Destination::Table { files, replace, .. } if rows > 0 || *replace => files.add(staging, *replace)?,
            Destination::Table { .. } | Destination::Object(..) | Destination::Objects(..) => {}
        }
        Ok(rows)
    }
}

/// A number that no other file's name has had.
fn new_number() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("{:016x}-{:x}-{:x}", now.as_nanos() as u64, std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

impl WriteOperation for FileOperation {
    fn part(self: Arc<Self>) -> Result<Box<dyn WritePart>> {
        if self.is_prepared.load(Ordering::Acquire) {
            return Err(Error::bug("a part is begun after the operation was prepared"));
        }
        Ok(Box::new(FilesPart { operation: self, parts: HashMap::new(), held: 0, due: VecDeque::new() }))
    }

    fn held_bytes(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    fn prepare(self: Arc<Self>) -> WriteIo<()> {
        self.is_prepared.store(true, Ordering::Release);
        let files = self.files.lock().all.clone();
        if self.is_remote() {
            return WriteIo::Waiting(Box::pin(async move {
                for file in files {
                    file.finish(self.bounds)?;
                    for due in file.due(Due::All) {
                        if let WriteIo::Waiting(send) = due.io {
                            send.await?;
                        }
                    }
                }
                Ok(())
            }));
        }
        WriteIo::Blocking(Box::new(move || {
            files.iter().try_for_each(|file| {
                file.finish(self.bounds)?;
                file.sync()
            })
        }))
    }

    fn commit(self: Arc<Self>) -> WriteIo<u64> {
        if !self.is_remote() {
            return WriteIo::Blocking(Box::new(move || self.move_in()));
        }
        WriteIo::Waiting(Box::pin(async move {
            for object in self.objects() {
                object.complete().await?;
            }
            Ok(self.rows.load(Ordering::Acquire))
        }))
    }
}

impl Drop for FileOperation {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        for object in self.objects() {
            runtime.spawn(async move { object.abort().await });
        }
    }
}

/// What one packet writes.
struct FilesPart {
    operation: Arc<FileOperation>,
    /// By the folder that the file is in.
    parts: HashMap<PathBuf, FilePart>,
    /// What they hold.
    held: usize,
    due: VecDeque<PartIo>,
}

impl FilesPart {
    fn write_to(&mut self, below: PathBuf, rows: &RecordBatch) -> Result<()> {
        let Self { operation, parts, held, due } = self;
        let part = match parts.entry(below) {
            Entry::Occupied(part) => {
                let (below, part) = (part.key().clone(), part.into_mut());
                if operation.is_full(part.file()) {
                    *held -= part.bytes();
                    part.hand_over(true)?;
                    due.extend(part.due(Due::Full));
                    *part = operation.new_part(&below)?;
                }
                part
            }
            Entry::Vacant(place) => {
                let part = operation.new_part(place.key())?;
                place.insert(part)
            }
        };
        *held -= part.bytes();
        let written = part.write(rows);
        *held += part.bytes();
        due.extend(part.due(Due::Full));
        written
    }

    fn hand_over(&mut self, is_end: bool, due: Due) -> Result<()> {
        for part in self.parts.values_mut() {
            part.hand_over(is_end)?;
            self.due.extend(part.due(due));
        }
        self.held = 0;
        Ok(())
    }
}

impl WritePart for FilesPart {
    fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        self.operation.refuse_nulls(rows)?;
        self.operation.rows.fetch_add(rows.num_rows() as u64, Ordering::AcqRel);
        let divided = self.operation.divided(rows)?;
        divided.into_iter().try_for_each(|(below, rows)| self.write_to(below, &rows))
    }

    fn at(&mut self, place: Option<usize>) -> Result<()> {
        let Self { operation, parts, held, due } = self;
        let part = match parts.entry(PathBuf::new()) {
            Entry::Occupied(part) => part.into_mut(),
            Entry::Vacant(empty) => empty.insert(operation.new_part(Path::new(""))?),
        };
        *held -= part.bytes();
        let said = part.at(place);
        *held += part.bytes();
        due.extend(part.due(Due::Full));
        said
    }

    fn held_bytes(&self) -> usize {
        self.held + self.due.iter().map(|due| due.bytes).sum::<usize>()
    }

    fn revoke(&mut self) -> Result<()> {
        self.hand_over(false, Due::Pages)
    }

    fn next_io(&mut self) -> Option<PartIo> {
        self.due.pop_front()
    }

    fn finish(&mut self) -> Result<()> {
        self.hand_over(true, Due::Full)
    }
}
