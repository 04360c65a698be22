//! Tables of lakes: files that are left out, tables of very many files, and damaged logs.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use datafusion_common::ScalarValue;
use datafusion_common::stats::Precision;
use datafusion_expr::Operator;
use datafusion_physical_expr::expressions::{BinaryExpr, col, lit};
use diligence_base::seams::{Disk, LocalDisk};
use diligence_base::{ErrorKind, Result};

use crate::external::testing::{all, quietly, read_all, try_read_all};
use crate::external::{Discovered, ExternalTable, Format, LakeMoment, OpenOptions, discover, open};
use crate::{ScanRequest, Table};

fn made(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/slt/data/lakes").join(name)
}

fn open_at(folder: &Path, moment: Option<LakeMoment>) -> Result<Arc<ExternalTable>> {
    let options = OpenOptions { moment, ..OpenOptions::default() };
    open(&folder.to_string_lossy(), &options, Arc::new(LocalDisk))
}

fn condition(table: &ExternalTable, column: &str, operator: Operator, value: ScalarValue) -> ScanRequest {
    let column = col(column, &table.schema()).unwrap();
    let predicate = Arc::new(BinaryExpr::new(column, operator, lit(value)));
    ScanRequest { columns: all(table), predicate: Some(predicate) }
}

/// How many clusters are read for a condition, and how many are left out.
fn scanned(table: &ExternalTable, column: &str, operator: Operator, value: ScalarValue) -> (usize, usize) {
    let scan = table.scan(&condition(table, column, operator, value)).unwrap();
    (scan.clusters.len(), scan.clusters_pruned)
}

#[test]
fn files_are_left_out_by_what_the_log_knows() {
    let number = |number| ScalarValue::Int64(Some(number));
    let plain = open_at(&made("delta/plain"), None).unwrap();
    assert_eq!(scanned(&plain, "id", Operator::GtEq, number(20)), (1, 1));
    assert_eq!(scanned(&plain, "id", Operator::Gt, number(1000)), (0, 2));
    let text = ScalarValue::Utf8View(Some("name 20".to_owned()));
    assert!(scanned(&plain, "name", Operator::Eq, text).0 >= 1);
    let parts = open_at(&made("delta/parts"), None).unwrap();
    let year = ScalarValue::Int32(Some(2023));
    assert_eq!(scanned(&parts, "year", Operator::Eq, year), (2, 6));
    let vectors = open_at(&made("delta/vectors"), None).unwrap();
    assert_eq!(scanned(&vectors, "n", Operator::Gt, number(999)), (1, 1));
    assert_eq!(vectors.statistics().num_rows, Precision::Exact(205));

    let plain = open_at(&made("iceberg/plain"), None).unwrap();
    assert_eq!(scanned(&plain, "id", Operator::Lt, number(5)), (1, 2));
    let parts = open_at(&made("iceberg/parts"), None).unwrap();
    let (read, left_out) = scanned(&parts, "kind", Operator::Eq, ScalarValue::Utf8View(Some("x".to_owned())));
    assert!(read == 4 && left_out > 8, "{read} {left_out}");
    let positions = open_at(&made("iceberg/positions"), None).unwrap();
    assert_eq!(positions.statistics().num_rows, Precision::Inexact(110));
    let vectors = open_at(&made("iceberg/vectors"), None).unwrap();
    assert_eq!(vectors.statistics().num_rows, Precision::Exact(105));
}

#[test]
fn a_lake_in_a_folder_is_one_table() {
    let disk: Arc<dyn Disk> = Arc::new(LocalDisk);
    let Discovered { tables, left_out } = discover(&made("delta"), &disk).unwrap();
    let names = tables.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>();
    assert!(names.contains(&"plain") && names.contains(&"mapped_by_id"), "{names:?}");
    assert_eq!(left_out.len(), 1, "{left_out:?}");
    let Discovered { tables, .. } = discover(&made("iceberg/plain"), &disk).unwrap();
    assert_eq!(tables.len(), 1);
    assert_eq!(tables[0].0, "plain");
    let plain = open(&tables[0].1, &OpenOptions::default(), disk.clone()).unwrap();
    assert_eq!(plain.format(), Format::Iceberg);
    let parquet = OpenOptions { format: Some(Format::Parquet), ..OpenOptions::default() };
    for folder in ["iceberg/plain", "iceberg/plain/data", "iceberg", "delta/parts/year=2023"] {
        let error = open(&made(folder).to_string_lossy(), &parquet, disk.clone()).unwrap_err();
        assert!(error.message().contains("is a table of"), "{error}");
    }
    let past = open(
        &made("../hive").to_string_lossy(),
        &OpenOptions { moment: Some(LakeMoment::Version(1)), ..OpenOptions::default() },
        disk,
    );
    assert!(past.unwrap_err().message().contains("has no past states"));
}

#[test]
fn versions_are_told_apart() {
    let newest = open_at(&made("delta/plain"), None).unwrap();
    let third = open_at(&made("delta/plain"), Some(LakeMoment::Version(3))).unwrap();
    let second = open_at(&made("delta/plain"), Some(LakeMoment::Version(2))).unwrap();
    assert_eq!(newest.version(), third.version());
    assert_ne!(newest.version(), second.version());
    assert!(newest.describe().contains("version 3"), "{}", newest.describe());
}

/// How many files of a table of very many are there.
const FILES_THERE: usize = 2000;

/// A table of so many files, all of which are one file under many names, as a log has them.
fn very_many_files(folder: &Path, files: usize) {
    let log = folder.join("_delta_log");
    fs::create_dir_all(&log).unwrap();
    let first = made("delta/vectors/b.parquet");
    fs::copy(&first, folder.join("part.parquet")).unwrap();
    let bytes = fs::metadata(&first).unwrap().len();
    let text = fs::read_to_string(made("delta/vectors/_delta_log/00000000000000000000.json")).unwrap();
    let mut lines = text.lines().filter(|line| !line.contains("\"add\"")).map(str::to_owned).collect::<Vec<_>>();
    for file in 0..files {
        // Different paths of one file; those of greater numbers are of none.
        let path = match file < FILES_THERE {
            true => format!("{}part.parquet", "./".repeat(file + 1)),
            false => format!("gone-{file}.parquet"),
        };
        let (least, greatest) = (file * 10, file * 10 + 9);
        lines.push(format!(
            r#"{{"add":{{"path":"{path}","partitionValues":{{}},"size":{bytes},"modificationTime":0,"dataChange":true,"stats":"{{\"numRecords\":10,\"minValues\":{{\"n\":{least}}},\"maxValues\":{{\"n\":{greatest}}},\"nullCount\":{{\"n\":0}}}}"}}}}"#
        ));
    }
    fs::write(log.join("00000000000000000000.json"), lines.join("\n")).unwrap();
}

#[test]
fn files_of_very_many_are_opened_when_they_are_read() {
    let folder = tempfile::tempdir().unwrap();
    very_many_files(folder.path(), 1500);
    let table = open_at(folder.path(), None).unwrap();
    assert_eq!(table.statistics().num_rows, Precision::Exact(15_000));
    let request = ScanRequest { columns: vec![0], predicate: None };
    let read = read_all(&table, &request, &[], 1000, true);
    assert_eq!(read.num_rows(), 15_000);
    assert_eq!(read.column(0).as_primitive::<Int64Type>().value(0), 1000);
    assert_eq!(read_all(&table, &ScanRequest::default(), &[], 1000, true).num_rows(), 15_000);
}

#[test]
fn a_file_that_is_gone_is_missed_only_by_who_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    very_many_files(folder.path(), 3000);
    let table = open_at(folder.path(), None).unwrap();
    let number = |number| ScalarValue::Int64(Some(number));
    // The files from the number 2000 on are not there.
    // Five may have such a row by the log, and have none by what they say themselves.
    let few = table.scan(&condition(&table, "n", Operator::Lt, number(50))).unwrap();
    assert_eq!((few.clusters.len(), few.clusters_pruned), (0, 3000));
    let gone = condition(&table, "n", Operator::Gt, number(29_990));
    assert_eq!(table.scan(&gone).unwrap_err().kind(), ErrorKind::File);
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

#[test]
fn columns_have_other_names_only_where_the_protocol_says_so() {
    let folder = tempfile::tempdir().unwrap();
    copy(&made("delta/mapped_by_name"), folder.path());
    let log = folder.path().join("_delta_log/00000000000000000000.json");
    let text = fs::read_to_string(&log).unwrap();
    let request = |table: &ExternalTable| ScanRequest { columns: all(table), predicate: None };
    let table = open_at(folder.path(), None).unwrap();
    assert!(try_read_all(&table, &request(&table), &[], 1000, true).unwrap().num_rows() > 0);
    // Without the feature the files have none of the columns, which is no reason for NULLs.
    let without = text.replacen("\"readerFeatures\":[\"columnMapping\"]", "\"readerFeatures\":[]", 1);
    assert_ne!(without, text);
    fs::write(&log, without).unwrap();
    let table = open_at(folder.path(), None).unwrap();
    let error = try_read_all(&table, &request(&table), &[], 1000, true).unwrap_err();
    assert!(error.message().contains("none of the table's columns"), "{error}");
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(files_in(&path)),
            false => files.push(path),
        }
    }
    files.sort();
    files
}

/// Numbers that look like chance: the same for the same seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound.max(1)
    }
}

/// The bytes with some of them changed, cut off, or copied elsewhere.
fn damaged(bytes: &[u8], chance: &mut Chance) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=chance.below(3) {
        if bytes.is_empty() {
            break;
        }
        let at = chance.below(bytes.len());
        match chance.below(6) {
            0 => bytes[at] = chance.below(256) as u8,
            1 => bytes[at] ^= 1 << chance.below(8),
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..(at + chance.below(20)).min(bytes.len()))),
            4 => {
                let from = chance.below(bytes.len());
                let copied = bytes[from..(from + chance.below(20)).min(bytes.len())].to_vec();
                bytes.splice(at..at, copied);
            }
            // A digit of a number, where there is one.
            _ => {
                if let Some(digit) = bytes[at..].iter().position(u8::is_ascii_digit) {
                    bytes[at + digit] = b'0' + chance.below(10) as u8;
                }
            }
        }
    }
    bytes
}

#[test]
fn a_damaged_log_is_an_error_and_never_a_panic() {
    let mut chance = Chance(30);
    let tables = [
        "delta/plain",
        "delta/parts",
        "delta/vectors",
        "delta/mapped_by_id",
        "delta/checkpointed",
        "delta/second_checkpoint",
        "iceberg/plain",
        "iceberg/parts",
        "iceberg/evolved",
        "iceberg/positions",
        "iceberg/values",
        "iceberg/vectors",
    ];
    let (mut read, mut refused) = (0, 0);
    for name in tables {
        let folder = tempfile::tempdir().unwrap();
        copy(&made(name), folder.path());
        let is_log = |path: &PathBuf| {
            let text = path.to_string_lossy();
            ["_delta_log", "metadata", "deletion_vector", "puffin", "deletes", "by_"]
                .iter()
                .any(|part| text.contains(part))
        };
        let files = files_in(folder.path()).into_iter().filter(is_log).collect::<Vec<_>>();
        assert!(!files.is_empty());
        for _ in 0..60 {
            let path = &files[chance.below(files.len())];
            let whole = fs::read(path).unwrap();
            fs::write(path, damaged(&whole, &mut chance)).unwrap();
            let result = quietly(|| {
                let table = open_at(folder.path(), None)?;
                let request = ScanRequest { columns: all(&table), predicate: None };
                try_read_all(&table, &request, &[], 1000, true)
            });
            match result {
                Ok(_) => read += 1,
                Err(error) => {
                    assert_ne!(error.kind(), ErrorKind::Bug, "{name}: {error}");
                    refused += 1;
                }
            }
            fs::write(path, whole).unwrap();
        }
    }
    assert!(read > 50 && refused > 50, "{read} read, {refused} refused");
}
