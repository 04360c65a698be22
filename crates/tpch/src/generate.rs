//! Writes the tables as Parquet files: parts are generated and encoded by several threads, and appended in order.
//!
//! One part is one row group. Thread k makes the parts k, k + threads, k + 2 threads, ... and hands each over through a
//! channel of one place; the caller's thread takes them in turn and writes. So the files are the same for every number
//! of threads, and at most two row groups per thread are in memory.
//!
//! Invariant: a file with a table's final name is complete. It is written under another name, synced, and renamed.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;

use arrow::array::RecordBatchReader;
use diligence_base::{Error, Result};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowRowGroupWriterFactory, ArrowWriterOptions, compute_leaves};
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, ParquetMetaDataReader};
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use crate::TpchTable;

/// Rows of a row group, about. A row group is a cluster, the unit of scan scheduling: small enough that scale factor 1
/// has some dozens of them in `lineitem` to share out between workers, large enough that its columns compress and its
/// footer is small.
pub const ROW_GROUP_ROWS: usize = 122_880;

/// The scale factors that make sense: below, tables come out empty; above, keys of the specification overflow.
const SCALE_FACTORS: std::ops::RangeInclusive<f64> = 0.001..=100_000.0;

/// The key in a file's footer that says which scale factor it holds.
const SCALE_FACTOR_KEY: &str = "diligence.tpch.scale_factor";

/// How to generate.
#[derive(Clone, Debug)]
pub struct Options {
    /// 1 is about 1 GB of text, 250 MB of Parquet.
    pub scale_factor: f64,
    /// Replace files that exist.
    pub force: bool,
    /// Threads that generate and encode.
    pub threads: usize,
    /// The tables wanted.
    pub tables: Vec<TpchTable>,
}

impl Options {
    /// All tables, keeping files that exist, with one thread per core.
    pub fn new(scale_factor: f64) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        Self { scale_factor, force: false, threads, tables: TpchTable::ALL.to_vec() }
    }
}

/// How far a table is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Which.
    pub table: TpchTable,
    /// Rows written so far.
    pub rows_done: usize,
    /// Rows expected in all; within some thousandths for `lineitem`.
    pub rows_total: usize,
}

/// What happened to a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The file was there already, with the same scale factor.
    Kept,
    /// The file was written.
    Written {
        /// Rows in it.
        rows: usize,
        /// Its length.
        bytes: u64,
    },
}

/// A table's file.
#[derive(Clone, Debug)]
pub struct TableFile {
    /// Which table.
    pub table: TpchTable,
    /// `DIRECTORY/<table>.parquet`.
    pub path: PathBuf,
    /// Kept or written.
    pub outcome: Outcome,
}

/// Writes the tables into `directory`, which is made if missing. `progress` is called on the caller's thread after
/// every row group.
///
/// A file that exists is kept if it holds the same scale factor; else, without [`Options::force`], it is an
/// [`Input`](diligence_base::ErrorKind::Input) error.
pub fn generate(options: &Options, directory: &Path, mut progress: impl FnMut(Progress)) -> Result<Vec<TableFile>> {
    if !SCALE_FACTORS.contains(&options.scale_factor) {
        return Err(Error::input(format!(
            "scale factor {} is not between {} and {}",
            options.scale_factor,
            SCALE_FACTORS.start(),
            SCALE_FACTORS.end()
        )));
    }
    std::fs::create_dir_all(directory).map_err(|error| at(directory, error))?;
    let mut files = Vec::with_capacity(options.tables.len());
    for &table in &options.tables {
        let path = directory.join(format!("{}.parquet", table.name()));
        let outcome = if !options.force && is_there(&path, options.scale_factor)? {
            Outcome::Kept
        } else {
            write_table(table, options, &path, &mut progress)?
        };
        files.push(TableFile { table, path, outcome });
    }
    Ok(files)
}

/// True if the file exists and holds the scale factor; an error if it holds something else.
fn is_there(path: &Path, scale_factor: f64) -> Result<bool> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(at(path, error)),
    };
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&file).ok();
    let pairs = metadata.as_ref().and_then(|metadata| metadata.file_metadata().key_value_metadata());
    let found = pairs
        .and_then(|pairs| pairs.iter().find(|pair| pair.key == SCALE_FACTOR_KEY))
        .and_then(|pair| pair.value.as_deref());
    if found.and_then(|text| text.parse().ok()) == Some(scale_factor) {
        return Ok(true);
    }
    let what = match found {
        Some(other) => format!("TPC-H data of scale factor {other}"),
        None => "no TPC-H data made by this command".to_owned(),
    };
    Err(Error::input(format!("{} exists and holds {what}", path.display()))
        .with_hint("choose another directory, or replace the files with --force"))
}

/// A file under its temporary name; deleted unless it is given its final name.
struct Unfinished {
    path: PathBuf,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // It is gone after a successful rename; otherwise nobody can do anything about a failure here.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn write_table(
    table: TpchTable,
    options: &Options,
    path: &Path,
    progress: &mut impl FnMut(Progress),
) -> Result<Outcome> {
    let scale_factor = options.scale_factor;
    let rows_total = table.rows_estimate(scale_factor);
    let parts = i32::try_from(rows_total.div_ceil(ROW_GROUP_ROWS).max(1)).unwrap_or(i32::MAX);
    // The leading dot hides it from whoever takes every Parquet file of the folder for a table.
    let unfinished =
        Unfinished { path: path.with_file_name(format!(".{}.{}.unfinished", table.name(), std::process::id())) };
    let file = File::create(&unfinished.path).map_err(|error| at(&unfinished.path, error))?;

    let schema = table.batches(scale_factor, 1, parts).schema();
    let writer_options = ArrowWriterOptions::new().with_properties(properties(scale_factor));
    let writer = ArrowWriter::try_new_with_options(BufWriter::new(file), schema, writer_options);
    let (mut writer, factory) =
        writer.and_then(ArrowWriter::into_serialized_writer).map_err(|error| unwritable(path, &error))?;

    let threads = i32::try_from(options.threads.max(1)).unwrap_or(i32::MAX).min(parts);
    let rows = std::thread::scope(|scope| {
        let mut makers = Vec::new();
        for first in 1..=threads {
            let (hand_over, taken) = sync_channel(1);
            let factory = &factory;
            scope.spawn(move || {
                for part in (first..=parts).step_by(threads as usize) {
                    let made = encode(factory, table.batches(scale_factor, part, parts), (part - 1) as usize);
                    let failed = made.is_err();
                    // The taker is gone when writing failed: nobody wants the rest.
                    if hand_over.send(made).is_err() || failed {
                        return;
                    }
                }
            });
            makers.push(taken);
        }
        let mut rows = 0;
        for part in 0..parts {
            let Ok(made) = makers[(part % threads) as usize].recv() else {
                return Err(Error::bug(format!("a thread that generates {} ended too early", table.name())));
            };
            rows += append(&mut writer, made).map_err(|error| unwritable(path, &error))?;
            progress(Progress { table, rows_done: rows, rows_total });
        }
        Ok(rows)
    })?;

    let file = writer.into_inner().map_err(|error| unwritable(path, &error))?;
    let file = file.into_inner().map_err(|error| at(path, error.into_error()))?;
    file.sync_all().map_err(|error| at(path, error))?;
    let bytes = file.metadata().map_err(|error| at(path, error))?.len();
    std::fs::rename(&unfinished.path, path).map_err(|error| at(path, error))?;
    Ok(Outcome::Written { rows, bytes })
}

fn properties(scale_factor: f64) -> WriterProperties {
    WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_dictionary_enabled(true)
        .set_statistics_enabled(EnabledStatistics::Page)
        // Row groups are cut by the parts; the writer must not cut them again.
        .set_max_row_group_row_count(None)
        .set_created_by(format!("diligence-tpch {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(vec![KeyValue::new(SCALE_FACTOR_KEY.to_owned(), scale_factor.to_string())]))
        .build()
}

/// An encoded row group.
struct RowGroup {
    columns: Vec<ArrowColumnChunk>,
    rows: usize,
}

fn encode(
    factory: &ArrowRowGroupWriterFactory,
    batches: Box<dyn RecordBatchReader + Send>,
    row_group: usize,
) -> Result<RowGroup, ParquetError> {
    let schema = batches.schema();
    let mut writers = factory.create_column_writers(row_group)?;
    let mut rows = 0;
    for batch in batches {
        let batch = batch?;
        rows += batch.num_rows();
        let leaves = schema.fields().iter().zip(batch.columns()).map(|(field, column)| compute_leaves(field, column));
        let mut writers = writers.iter_mut();
        for leaves in leaves {
            for (leaf, writer) in leaves?.iter().zip(&mut writers) {
                writer.write(leaf)?;
            }
        }
    }
    let columns = writers.into_iter().map(|writer| writer.close()).collect::<Result<_, _>>()?;
    Ok(RowGroup { columns, rows })
}

fn append(
    writer: &mut parquet::file::writer::SerializedFileWriter<BufWriter<File>>,
    made: Result<RowGroup, ParquetError>,
) -> Result<usize, ParquetError> {
    let made = made?;
    let mut row_group = writer.next_row_group()?;
    for column in made.columns {
        column.append_to_row_group(&mut row_group)?;
    }
    row_group.close()?;
    Ok(made.rows)
}

fn at(path: &Path, error: std::io::Error) -> Error {
    Error::file(format!("{}: {error}", path.display()))
}

fn unwritable(path: &Path, error: &ParquetError) -> Error {
    Error::file(format!("{}: cannot write: {error}", path.display()))
}
