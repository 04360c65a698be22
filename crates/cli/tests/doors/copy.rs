//! COPY … TO: what is there afterwards, whether it succeeds or fails.

use std::fs;
use std::path::Path;

use crate::support::{Ran, run};

fn sql(home: &Path, statements: &str) -> Ran {
    run(home, &["sql", "--format", "csv", statements], "")
}

fn entries(folder: &Path) -> Vec<String> {
    let mut names = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name != "diligence")
        .collect::<Vec<_>>();
    names.sort();
    names
}

#[test]
fn a_copy_that_fails_leaves_everything_as_it_was() {
    let home = tempfile::tempdir().unwrap();
    for name in ["p.csv", "p.parquet", "p.json", "p.arrow"] {
        fs::write(home.path().join(name), "precious\n").unwrap();
        // The error comes when rows have been written already.
        let failing = "SELECT 1 / (value - 900000) AS x FROM generate_series(1::BIGINT, 1000000) AS s(value)";
        let ran = sql(home.path(), &format!("COPY ({failing}) TO '{name}'"));
        assert_eq!(ran.code, Some(1), "{name}: {}", ran.stderr);
        assert!(ran.stderr.contains("division by zero") || ran.stderr.contains("Divide by zero"), "{}", ran.stderr);
        assert_eq!(fs::read_to_string(home.path().join(name)).unwrap(), "precious\n", "{name}");
    }
    let ran = sql(home.path(), "COPY (SELECT interval '-1 month' AS i) TO 'p.parquet'");
    assert!(ran.stderr.contains("Parquet has no negative intervals"), "{}", ran.stderr);
    assert_eq!(entries(home.path()), ["p.arrow", "p.csv", "p.json", "p.parquet"]);
    let ran =
        sql(home.path(), "COPY (SELECT 1 / (value - 9) FROM generate_series(1::BIGINT, 10) s(value)) TO 'new/x.csv'");
    assert_eq!(ran.code, Some(1));
    assert_eq!(entries(home.path()), ["p.arrow", "p.csv", "p.json", "p.parquet"], "no folder is left either");
}

#[test]
fn a_copy_replaces_what_was_there() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("p.csv"), "old\n").unwrap();
    let ran = sql(home.path(), "COPY (SELECT 1 AS a) TO 'p.csv'");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(fs::read_to_string(home.path().join("p.csv")).unwrap(), "a\n1\n");
    // A folder for a file is not made: its name may be a slip.
    let ran = sql(home.path(), "COPY (SELECT 2 AS a) TO 'deep/er/p.csv'");
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("there is no folder 'deep/er'"), "{}", ran.stderr);
    assert_eq!(entries(home.path()), ["p.csv"]);
}

#[test]
fn what_cannot_be_written_is_named_with_the_reason_at_once() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("file"), "").unwrap();
    for (target, reason) in [
        ("/proc/x.csv", "cannot be written"),
        ("file/x.csv", "there is no folder 'file'"),
        ("/dev/full", "its name does not show what to write"),
    ] {
        let ran = sql(home.path(), &format!("COPY (SELECT 1 AS a) TO '{target}'"));
        assert_eq!(ran.code, Some(1), "{target}");
        assert!(ran.stderr.contains(target) && ran.stderr.contains(reason), "{}", ran.stderr);
    }
    let ran = sql(home.path(), "COPY (SELECT 1 AS a) TO 'x.csv' OPTIONS (delimitr ';')");
    assert!(ran.stderr.contains("did you mean 'delimiter'?"), "{}", ran.stderr);
}

#[test]
fn what_is_read_by_its_ending_is_written_by_it() {
    let home = tempfile::tempdir().unwrap();
    let endings = [
        "csv",
        "csv.gz",
        "csv.zst",
        "csv.bz2",
        "csv.xz",
        "tsv",
        "tsv.gz",
        "psv",
        "json",
        "jsonl",
        "ndjson.gz",
        "json.zst",
        "parquet",
        "pq",
        "arrow",
        "feather",
    ];
    for ending in endings {
        let copy = format!("COPY (SELECT 7 AS a, 'x,y' AS b) TO 'f.{ending}'");
        let ran = sql(home.path(), &format!("{copy}; SELECT a, b FROM 'f.{ending}'"));
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "a,b\n7,\"x,y\"\n"), "{ending}: {}", ran.stderr);
        let bytes = fs::read(home.path().join(format!("f.{ending}"))).unwrap();
        assert_eq!(ending.ends_with("gz"), bytes.starts_with(&[0x1f, 0x8b]), "{ending}");
    }
    assert_eq!(fs::read_to_string(home.path().join("f.tsv")).unwrap(), "a\tb\n7\tx,y\n");
}

#[test]
fn nested_values_are_text_in_csv() {
    let home = tempfile::tempdir().unwrap();
    let query = "SELECT [1, NULL] AS l, {'a': 1} AS s, 2 AS n UNION ALL SELECT NULL, NULL, 3 ORDER BY n";
    let ran = sql(home.path(), &format!("COPY ({query}) TO 'n.csv'"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    // As PostgreSQL's COPY writes them.
    assert_eq!(fs::read_to_string(home.path().join("n.csv")).unwrap(), "l,s,n\n\"{1,NULL}\",(1),2\n,,3\n");
}

#[test]
fn rows_come_in_and_go_out_through_pipes() {
    let home = tempfile::tempdir().unwrap();
    let statements = "CREATE TABLE t (a INT, b TEXT); COPY t FROM STDIN; SELECT * FROM t ORDER BY a";
    let ran = run(home.path(), &["sql", "--format", "csv", statements], "1\tx\\ty\n2\t\\N\n");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "a,b\n1,x\ty\n2,\n"), "{}", ran.stderr);
    let ran = sql(home.path(), "COPY (SELECT 1 AS a, 'x' AS b) TO STDOUT (FORMAT csv, HEADER)");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "a,b\n1,x\n"), "{}", ran.stderr);
    let ran = sql(home.path(), "COPY (SELECT 1 AS a, NULL AS b) TO STDOUT");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "1\t\\N\n"), "{}", ran.stderr);
    let ran = sql(home.path(), "COPY nothing TO STDOUT");
    assert_eq!(ran.code, Some(1), "{}", ran.stdout);
    assert!(ran.stderr.contains("nothing"), "{}", ran.stderr);
}
