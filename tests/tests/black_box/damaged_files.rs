//! Files that are missing, cut short or damaged: an error that names the file, never a panic, and never a wrong count
//! where the format can tell.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use arrow::ipc::writer::FileWriter;
use diligence_base::seams::Random;
use diligence_base::{Error, ErrorKind, Result};
use diligence_db::{Database, Session};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

const ROWS: i64 = 20_000;

fn rows() -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..ROWS).map(|row| format!("text {}", row % 1_000))));
    RecordBatch::try_from_iter([("n", numbers), ("t", texts)]).unwrap()
}

fn parquet(path: &Path) -> Vec<u8> {
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(5_000)).build();
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), rows().schema(), Some(properties)).unwrap();
    writer.write(&rows()).unwrap();
    writer.close().unwrap();
    std::fs::read(path).unwrap()
}

fn arrow(path: &Path) -> Vec<u8> {
    let mut writer = FileWriter::try_new(File::create(path).unwrap(), &rows().schema()).unwrap();
    writer.write(&rows()).unwrap();
    writer.finish().unwrap();
    std::fs::read(path).unwrap()
}

/// Reads every value of the file: the count of rows, or the error.
fn read(session: &Session, path: &Path) -> Result<i64> {
    let query = format!("SELECT count(*), sum(n), max(t) FROM '{}'", path.display());
    let batches = session.execute(&query)?.collect()?;
    Ok(batches[0].column(0).as_primitive::<Int64Type>().value(0))
}

fn assert_names_the_file(error: &Error, path: &Path, what: &str) {
    let name = path.file_name().unwrap().to_string_lossy();
    assert!(error.to_string().contains(name.as_ref()), "{what}: {error:?}");
    assert_eq!(error.kind(), ErrorKind::File, "{what}: {error:?}");
}

#[test]
fn a_missing_file_is_named() {
    let session = Database::in_memory().unwrap().session();
    for path in ["/nowhere/a.parquet", "/nowhere/a.csv", "/nowhere/*.json", "/nowhere/folder/"] {
        let error =
            session.execute(&format!("SELECT * FROM '{path}'")).and_then(|result| result.collect()).unwrap_err();
        assert!(error.to_string().contains("/nowhere"), "{path}: {error}");
    }
}

#[test]
fn a_file_cut_short_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let session = Database::in_memory().unwrap().session();
    for (name, whole) in [
        ("cut.parquet", parquet(&folder.path().join("whole.parquet"))),
        ("cut.arrow", arrow(&folder.path().join("whole.arrow"))),
    ] {
        let path = folder.path().join(name);
        for part in [0, 1, 4, 8, whole.len() / 10, whole.len() / 2, whole.len() - 9, whole.len() - 1] {
            std::fs::write(&path, &whole[..part]).unwrap();
            let what = format!("{name}, {part} of {} bytes", whole.len());
            match read(&session, &path) {
                Ok(count) => panic!("{what}: {count} rows"),
                Err(error) => assert_names_the_file(&error, &path, &what),
            }
        }
    }
}

#[test]
fn a_file_that_is_cut_short_after_it_was_opened_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shrinking.parquet");
    let whole = parquet(&path);
    let session = Database::in_memory().unwrap().session();
    let create = format!("CREATE EXTERNAL TABLE s STORED AS PARQUET LOCATION '{}'", path.display());
    session.execute(&create).unwrap().collect().unwrap();
    std::fs::write(&path, &whole[..whole.len() / 3]).unwrap();
    let error = session.execute("SELECT count(*), max(t) FROM s").and_then(|result| result.collect()).unwrap_err();
    assert_names_the_file(&error, &path, "cut after it was opened");
    std::fs::remove_file(&path).unwrap();
    let error = session.execute("SELECT count(*), max(t) FROM s").and_then(|result| result.collect()).unwrap_err();
    assert_names_the_file(&error, &path, "removed after it was opened");
}

#[test]
fn a_damaged_file_gives_rows_or_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let session = Database::in_memory().unwrap().session();
    let text: Vec<u8> = (0..2_000).flat_map(|row| format!("{row},text {row}\n").into_bytes()).collect();
    let lines: Vec<u8> =
        (0..2_000).flat_map(|row| format!("{{\"n\": {row}, \"t\": \"text {row}\"}}\n").into_bytes()).collect();
    let samples = [
        ("damaged.parquet", parquet(&folder.path().join("whole.parquet"))),
        ("damaged.arrow", arrow(&folder.path().join("whole.arrow"))),
        ("damaged.csv", [b"n,t\n".to_vec(), text].concat()),
        ("damaged.json", lines),
    ];
    let seed = 7;
    let mut random = Random::new(seed);
    for (name, whole) in &samples {
        let path = folder.path().join(name);
        for attempt in 0..60 {
            let mut bytes = whole.clone();
            for _ in 0..=random.below(4) {
                let at = random.below(bytes.len());
                bytes[at] = random.below(256) as u8;
            }
            std::fs::write(&path, &bytes).unwrap();
            if let Err(error) = read(&session, &path) {
                let what = format!("{name}, attempt {attempt} of seed {seed}");
                // A number that became a word makes another column type, and `sum` of it a mistake of the statement.
                if error.kind() != ErrorKind::Input {
                    assert_names_the_file(&error, &path, &what);
                }
                assert_ne!(error.kind(), ErrorKind::Bug, "{what}: {error:?}");
            }
        }
    }
}
