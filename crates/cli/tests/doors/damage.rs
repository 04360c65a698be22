//! What must not look like a crash, nor be one: damaged files, absurd numbers, outputs that take nothing.

use std::fs::{self, File, OpenOptions};
use std::process::Stdio;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch};
use arrow::ipc::writer::StreamWriter;

use crate::support::{Ran, diligence, run};

#[test]
fn a_damaged_file_is_an_error_and_no_panic() {
    let home = tempfile::tempdir().unwrap();
    let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3]));
    let batch = RecordBatch::try_from_iter([("i", numbers)]).unwrap();
    let mut bytes = Vec::new();
    let mut writer = StreamWriter::try_new(&mut bytes, &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    drop(writer);
    // Where it says that integers have 32 bits, 33: the library panics.
    let places = (0..bytes.len() - 4).filter(|&at| bytes[at..at + 4] == [32, 0, 0, 0]).collect::<Vec<_>>();
    let mut corrupt = 0;
    for place in places {
        let mut damaged = bytes.clone();
        damaged[place] = 33;
        fs::write(home.path().join("odd.arrows"), damaged).unwrap();
        let ran = run(home.path(), &["sql", "SELECT * FROM 'odd.arrows'"], "");
        assert!(!ran.stderr.contains("panicked") && !ran.stderr.contains("RUST_BACKTRACE"), "{}", ran.stderr);
        if ran.code == Some(1) {
            assert!(ran.stderr.starts_with("error: odd.arrows: "), "{}", ran.stderr);
            corrupt += usize::from(ran.stderr.contains("cannot be read; the file is corrupt"));
        }
    }
    assert!(corrupt > 0, "one of the places is the width of an integer");
}

#[test]
fn too_many_workers_are_a_mistake_of_the_command_line() {
    let home = tempfile::tempdir().unwrap();
    let ran = run(home.path(), &["sql", "--workers", "100000", "SELECT 1"], "");
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("100000 worker threads are too many; at most 1024"), "{}", ran.stderr);
}

#[test]
fn an_error_that_cannot_be_shown_has_its_exit_code() {
    let home = tempfile::tempdir().unwrap();
    for (arguments, code) in [(["sql", "SELECT nope"], 1), (["sql", ".tables"], 2)] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let status = diligence(home.path()).args(arguments).stderr(full).stdin(Stdio::null()).status().unwrap();
        assert_eq!(status.code(), Some(code));
    }
    let full = File::options().write(true).open("/dev/full").unwrap();
    let child = diligence(home.path()).args(["sql", "SELECT 1"]).stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    let ran: Ran = child.wait_with_output().unwrap().into();
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("cannot write the output"), "{}", ran.stderr);
}

#[test]
fn absurdly_long_values_are_refused() {
    let home = tempfile::tempdir().unwrap();
    for (query, message) in [
        ("SELECT length(repeat('x', 2000000000))", "requested length too large"),
        ("SELECT length(rpad('x', 2000000000))", "requested length too large"),
        ("SELECT array_length(range(1000000000000))", "a series gives too many values at once"),
        ("SELECT length(repeat(repeat('x', 100000), 100000))", "requested length too large"),
    ] {
        let ran = run(home.path(), &["sql", query], "");
        assert_eq!(ran.code, Some(1), "{query}: {}", ran.stderr);
        assert!(ran.stderr.contains(message), "{query}: {}", ran.stderr);
    }
    let query =
        "SELECT count(*), sum(x) FROM (SELECT unnest(range(3000000)) AS x); SELECT length(repeat('ab', 1000000))";
    let ran = run(home.path(), &["sql", "--format", "csv", query], "");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("3000000,4499998500000") && ran.stdout.ends_with("\n2000000\n"), "{}", ran.stdout);
}

#[test]
fn a_mark_before_the_sql_is_skipped() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("q.sql"), "\u{feff}SELECT 1 AS a;").unwrap();
    for (arguments, input) in [
        (&["sql", "--format", "csv", "-f", "q.sql"][..], ""),
        (&["sql", "--format", "csv"][..], "\u{feff}SELECT 1 AS a"),
        (&["sql", "--format", "csv", "-f", "-"][..], "SELECT 1 AS a"),
    ] {
        let ran = run(home.path(), arguments, input);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "a\n1\n"), "{}", ran.stderr);
    }
}

#[test]
fn what_is_no_table_is_explained() {
    let home = tempfile::tempdir().unwrap();
    for (path, text) in
        [("d/mixed/a.csv", "a\n1\n"), ("d/mixed/b.json", "{\"a\":1}\n"), ("d/bad.parquet", "bad"), ("notes", "")]
    {
        let path = home.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    for (query, message) in [
        ("SELECT * FROM mixed", "the folder 'mixed' is no table: its files have several formats (CSV and JSON)"),
        ("SELECT * FROM 'notes'", "there is a file of this name"),
        ("SELECT * FROM 'd'", "there is a folder of this name"),
        ("DROP TABLE system.queries", "shows the engine, and cannot be changed"),
        ("CREATE TABLE system.x (a INT)", "shows the engine, and cannot be changed"),
    ] {
        let ran = run(home.path(), &["sql", "--data", "d", query], "");
        assert_eq!(ran.code, Some(1), "{query}");
        assert!(ran.stderr.contains(message), "{query}: {}", ran.stderr);
    }
    let ran = run(home.path(), &["sql", "--data", "d", "SHOW TABLES"], "");
    assert!(ran.stdout.contains(" bad "), "files that cannot be opened are listed: {}{}", ran.stdout, ran.stderr);
}

#[test]
fn a_database_is_checked() {
    let home = tempfile::tempdir().unwrap();
    let ran = run(home.path(), &["check", "shop"], "");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{}", ran.stderr);
    let made = "CREATE TABLE t (id INT PRIMARY KEY, s TEXT); \
                INSERT INTO t SELECT g, 'text ' || g FROM generate_series(1, 200000) u(g); CHECKPOINT";
    assert_eq!(run(home.path(), &["sql", "--db", "shop", made], "").code, Some(0));
    let ran = run(home.path(), &["check", "shop"], "");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "2 checks, no problem\n"), "{}", ran.stderr);
    let files = fs::read_dir(home.path().join("shop/segments")).unwrap().map(|file| file.unwrap().path());
    let segment = files.into_iter().find(|file| file.extension().is_some_and(|ext| ext == "seg")).unwrap();
    let mut bytes = fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let ran = run(home.path(), &["check", "shop"], "");
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stdout.starts_with("t: rows: ") && ran.stdout.contains("00000001.seg"), "{}", ran.stdout);
    assert!(ran.stderr.contains("1 problem found in shop"), "{}", ran.stderr);
}
