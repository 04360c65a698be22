//! The sort benchmark's records: 100 bytes, of which 10 are a random key (as in the Datamation sort and its
//! successors), as Parquet files; and the judge of a sorted file.

use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch, StringArray};
use arrow::buffer::{Buffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema};
use clap::Args;
use diligence_base::seams::Random;
use diligence_base::{Error, Result};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use serde_json::{Value, json};

use super::disk::Bandwidth;
use super::{Common, Task, measure};

const KEY_BYTES: usize = 10;
const PAYLOAD_BYTES: usize = 90;
/// Bytes of a record.
pub const RECORD_BYTES: u64 = (KEY_BYTES + PAYLOAD_BYTES) as u64;
/// Rows of a row group, and of a batch when it is read again.
const ROW_GROUP_ROWS: usize = 120_000;
const READ_ROWS: usize = 8192;
/// Records are the same each time.
const SEED: u64 = 20;
/// The file in its folder: the table `records` with the columns `key` and `payload`.
const FILE: &str = "records.parquet";
const QUERY: &str = "SELECT * FROM records ORDER BY key";

/// What to run.
#[derive(Args)]
pub struct SortArguments {
    /// Records of 100 bytes.
    #[arg(long, default_value_t = 20_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    rows: u64,
    #[command(flatten)]
    common: Common,
}

/// `diligence-bench sort`: Parquet in, Parquet out, both with Snappy.
pub fn run(arguments: &SortArguments, root: &Path) -> Result<Value> {
    let folder = folder(root, arguments.rows)?;
    let path = folder.join(FILE);
    let expected = Content::of(&path, false)?;
    let bandwidth = Bandwidth::of(&folder)?;
    // DuckDB reads the Parquet file like everybody else.
    let parquet = |rival: &String| if rival == "duckdb" { "duckdb-parquet".to_owned() } else { rival.clone() };
    let task = Task {
        name: "sort",
        data: &folder,
        query: QUERY,
        copy_to: Some(root.join(format!("sorted-{}.parquet", arguments.rows))),
        rivals: arguments.common.rivals.iter().map(parquet).collect(),
        verify: &|sorted| {
            let content = Content::of(sorted, true)?;
            (content == expected).then_some(()).ok_or_else(|| Error::value("it has other rows than the input"))
        },
    };
    let mut report = measure(&task, &arguments.common)?;
    if let Some(path) = &task.copy_to {
        // It is not there if everybody failed.
        let _ = std::fs::remove_file(path);
    }
    let file_bytes = std::fs::metadata(&path).map_err(|error| unusable(&path, &error))?.len();
    let data_bytes = arguments.rows * RECORD_BYTES;
    println!(
        "the disk reads {:.0} MB/s and writes {:.0} MB/s past the page cache; the input has {} MB",
        bandwidth.read / 1e6,
        bandwidth.write / 1e6,
        file_bytes / 1_000_000
    );
    let mut limits = Vec::new();
    for budget in &arguments.common.budgets {
        // Read once and written once; what the budget cannot hold goes out and comes back besides.
        let overflow = data_bytes.saturating_sub(budget.bytes);
        let moved = 2 * file_bytes + 2 * overflow;
        let seconds = bandwidth.seconds(file_bytes + overflow, file_bytes + overflow);
        println!("at {} {} MB must move: {seconds:.1} s of the disk", budget.name, moved / 1_000_000);
        limits.push(json!({"budget_bytes": budget.bytes, "must_move_bytes": moved, "disk_s": seconds}));
    }
    report["rows"] = json!(arguments.rows);
    report["disk_read_bytes_per_s"] = json!(bandwidth.read);
    report["disk_write_bytes_per_s"] = json!(bandwidth.write);
    report["physical_limits"] = json!(limits);
    Ok(report)
}

/// The folder with so many records, made if it is missing.
pub fn folder(root: &Path, rows: u64) -> Result<PathBuf> {
    let folder = root.join(format!("records-{rows}"));
    let path = folder.join(FILE);
    if !path.exists() {
        std::fs::create_dir_all(&folder).map_err(|error| unusable(&folder, &error))?;
        let unfinished = folder.join(".records.unfinished");
        let written = generate(&unfinished, rows).map_err(|error| unusable(&unfinished, &error));
        written.and_then(|()| std::fs::rename(&unfinished, &path).map_err(|error| unusable(&path, &error)))?;
    }
    Ok(folder)
}

fn unusable(path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::file(format!("cannot use {}: {error}", path.display()))
}

/// Random printable text in rows of equal length.
struct RandomText(Random);

impl RandomText {
    fn column(&mut self, rows: usize, width: usize) -> Result<StringArray, ParquetError> {
        let mut bytes = Vec::with_capacity(rows * width + size_of::<u64>());
        while bytes.len() < rows * width {
            // 64 characters from '0' on: none of them needs an escape anywhere.
            bytes.extend(self.0.bits().to_le_bytes().map(|byte| b'0' + (byte & 63)));
        }
        bytes.truncate(rows * width);
        let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(width, rows));
        StringArray::try_new(offsets, Buffer::from(bytes), None).map_err(ParquetError::from)
    }
}

fn generate(path: &Path, rows: u64) -> Result<(), ParquetError> {
    let fields = ["key", "payload"].map(|name| Field::new(name, DataType::Utf8, false));
    let schema = Arc::new(Schema::new(fields.to_vec()));
    // Nothing is twice in these columns.
    let properties =
        WriterProperties::builder().set_compression(Compression::SNAPPY).set_dictionary_enabled(false).build();
    let mut writer = ArrowWriter::try_new(File::create(path)?, schema.clone(), Some(properties))?;
    let mut text = RandomText(Random::new(SEED));
    let mut left = rows;
    while left > 0 {
        let some = left.min(ROW_GROUP_ROWS as u64) as usize;
        let columns = [text.column(some, KEY_BYTES)?, text.column(some, PAYLOAD_BYTES)?];
        writer.write(&RecordBatch::try_new(schema.clone(), columns.map(|column| Arc::new(column) as _).to_vec())?)?;
        writer.flush()?;
        left -= some as u64;
    }
    writer.close().map(|_| ())
}

/// What a file of records has, in any order: two files with the same are taken to have the same records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Content {
    rows: u64,
    /// The sum of the records' hashes.
    checksum: u64,
}

impl Content {
    /// Reads a file; `sorted`: an error if its keys are not in order.
    fn of(path: &Path, sorted: bool) -> Result<Self> {
        Self::read(path, sorted).map_err(|error| unusable(path, &error))?
    }

    fn read(path: &Path, sorted: bool) -> Result<Result<Self>, ParquetError> {
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path)?)?.with_batch_size(READ_ROWS).build()?;
        let mut content = Self::default();
        let mut last = Vec::new();
        for batch in reader {
            let batch = batch?;
            let text = |index: usize| cast(batch.column(index), &DataType::Binary).map_err(ParquetError::from);
            let (keys, payloads) = (text(0)?, text(1)?);
            let (keys, payloads) = (keys.as_binary::<i32>(), payloads.as_binary::<i32>());
            for row in 0..keys.len() {
                let (key, payload) = (keys.value(row), payloads.value(row));
                if sorted && *last > *key {
                    let row = content.rows + row as u64;
                    return Ok(Err(Error::value(format!("row {row} is smaller than the one before"))));
                }
                last.clear();
                last.extend_from_slice(key);
                content.checksum = content.checksum.wrapping_add(hash(key, payload));
            }
            content.rows += keys.len() as u64;
        }
        Ok(Ok(content))
    }
}

/// The hash of a record.
fn hash(key: &[u8], payload: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(key);
    hasher.write(payload);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("diligence-bench-{name}-{}.parquet", std::process::id()))
    }

    #[test]
    fn records_have_ten_bytes_of_key_and_are_the_same_each_time() {
        let (first, second) = (file("first"), file("second"));
        generate(&first, 1000).unwrap();
        generate(&second, 1000).unwrap();
        let content = Content::of(&first, false).unwrap();
        assert_eq!((content.rows, content), (1000, Content::of(&second, false).unwrap()));
        assert!(Content::of(&first, true).unwrap_err().message().contains("smaller than the one before"));
        [first, second].iter().for_each(|path| std::fs::remove_file(path).unwrap());
    }

    #[test]
    fn a_record_that_was_changed_is_noticed_and_the_order_is_not() {
        let sum = |records: [(&str, &str); 2]| {
            records
                .map(|(key, payload)| hash(key.as_bytes(), payload.as_bytes()))
                .into_iter()
                .fold(0, u64::wrapping_add)
        };
        let right = sum([("a", "one"), ("b", "two")]);
        assert_eq!(right, sum([("b", "two"), ("a", "one")]));
        assert_ne!(right, sum([("a", "two"), ("b", "one")]));
        assert_ne!(right, sum([("a", "one"), ("a", "one")]));
    }
}
