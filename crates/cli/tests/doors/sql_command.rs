//! `diligence sql`: where SQL comes from, what comes out, and how it fails.

use std::io::Read;
use std::path::Path;
use std::process::Stdio;

use crate::support::{Ran, diligence, run};

fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("tables")).unwrap();
    std::fs::write(home.path().join("tables/people.csv"), "id,name\n1,Ada\n2,\n3,Grace\n").unwrap();
    home
}

fn sql(home: &Path, arguments: &[&str]) -> Ran {
    run(home, &[&["sql"], arguments].concat(), "")
}

#[test]
fn statements_come_from_arguments_files_and_standard_input() {
    let home = home();
    let csv = ["--format", "csv"];
    let ran = sql(home.path(), &[&csv[..], &["SELECT 1 AS a; SELECT 2 AS b"]].concat());
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "a\n1\nb\n2\n", ""));

    std::fs::write(home.path().join("q.sql"), "-- a comment\nSELECT 3 AS c;\n").unwrap();
    let ran = sql(home.path(), &[&csv[..], &["-f", "q.sql", "SELECT 4 AS d"]].concat());
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "c\n3\nd\n4\n"));

    let ran = run(home.path(), &["sql", "--format", "csv"], "SELECT 5\nAS e;");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "e\n5\n"));

    for dash in [&["-"][..], &["-f", "-"]] {
        let ran = run(home.path(), &[&["sql", "--format", "csv"], dash].concat(), "SELECT 5\nAS e;");
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "e\n5\n"), "{}", ran.stderr);
    }
    let ran = run(home.path(), &["sql", "-"], "SELECT 1;\nSELECT x");
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("standard input:2:8"), "{}", ran.stderr);

    let ran = sql(home.path(), &[&csv[..], &["-- no flag\nSELECT 6 AS f"]].concat());
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "f\n6\n"), "{}", ran.stderr);

    let ran = run(home.path(), &["sql"], "  \n-- nothing\n");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""));
}

#[test]
fn files_of_a_folder_are_tables() {
    let home = home();
    let ran = sql(home.path(), &["--data", "tables", "--format", "csv", "SELECT * FROM people ORDER BY id"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "id,name\n1,Ada\n2,\n3,Grace\n"), "{}", ran.stderr);
    let ran = sql(home.path(), &["--format", "csv", "SELECT count(*) AS n FROM 'tables/people.csv'"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "n\n3\n"), "{}", ran.stderr);
    // What comes meanwhile is a table as well.
    let script = "COPY (SELECT 1 AS a) TO 'tables/fresh.csv'; SELECT * FROM fresh; SELECT * FROM frsh";
    let ran = sql(home.path(), &["--data", "tables", "--format", "csv", script]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), "a\n1\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("no table is named 'frsh'"), "{}", ran.stderr);
}

#[test]
fn statements_and_files_need_no_subcommand() {
    let home = home();
    let ran = run(home.path(), &["-c", "SELECT 1 AS a", "--format", "csv", "-c", "SELECT 2 AS b"], "");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "a\n1\nb\n2\n"), "{}", ran.stderr);
    let ran = run(home.path(), &["tables/people.csv", "--format", "csv", "SELECT count(*) AS n FROM people"], "");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "n\n3\n"), "{}", ran.stderr);
    let ran =
        run(home.path(), &["tables/people.csv", "--format", "csv"], "SELECT max(id) AS m FROM people;\n\\dance\n");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), "m\n3\n"), "a shell: {}", ran.stderr);
    let ran = run(home.path(), &["nowhere.csv", "-c", "SELECT 1"], "");
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("nowhere.csv does not exist"), "{}", ran.stderr);
    let ran = run(home.path(), &["tables/people.csv", "--format", "csv", "-c", "\\dt", "-c", "SELECT 1 AS a"], "");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(ran.stdout, "table_schema,table_name,table_type\npublic,people,BASE TABLE\na\n1\n");
    let ran = run(home.path(), &["sql", "-c", "\\dt"], "");
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("works only in 'diligence shell'"), "{}", ran.stderr);
}

#[test]
fn data_comes_from_several_places() {
    let home = home();
    std::fs::create_dir(home.path().join("more")).unwrap();
    std::fs::write(home.path().join("more/towns.csv"), "town\nKyiv\n").unwrap();
    std::fs::write(home.path().join("more.notes.csv"), "note\nhi\n").unwrap();
    let several = ["--data", "tables", "--data", "more", "--data", "more.notes.csv", "--format", "csv"];
    let ran = sql(
        home.path(),
        &[&several[..], &["SELECT name, town, note FROM people, towns, \"more.notes\" WHERE id = 1"]].concat(),
    );
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "name,town,note\nAda,Kyiv,hi\n"), "{}", ran.stderr);

    std::fs::write(home.path().join("people.json"), "{\"a\":1}\n").unwrap();
    let ran = sql(home.path(), &["--data", "tables", "--data", "people.json", "SELECT 1"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    assert!(ran.stderr.contains("both have a table named 'people'"), "{}", ran.stderr);
    let ran = sql(home.path(), &["--data", "q.sql", "SELECT 1"]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
}

/// A pipe with a name.
fn pipe(path: &Path) {
    let path = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: the text ends with a zero byte and lives longer than the call.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
}

#[test]
fn standard_input_and_pipes_are_files() {
    let home = home();
    let csv = ["sql", "--format", "csv"];
    for name in ["-", "/dev/stdin"] {
        let query = format!("SELECT sum(a) AS s FROM read_csv('{name}')");
        let ran = run(home.path(), &[&csv[..], &[&query]].concat(), "a,b\n1,x\n2,y\n");
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "s\n3\n"), "{}", ran.stderr);
        let query = format!("SELECT sum(a) AS s FROM read_json('{name}')");
        let ran = run(home.path(), &[&csv[..], &[&query]].concat(), "{\"a\":1}\n{\"a\":5}\n");
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "s\n6\n"), "{}", ran.stderr);
        let script = format!(
            "CREATE TABLE t (a INT, b TEXT); COPY t FROM '{name}' (FORMAT csv, HEADER); SELECT sum(a) AS s FROM t"
        );
        let ran = run(home.path(), &[&csv[..], &[&script]].concat(), "a,b\n1,x\n2,y\n");
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(ran.stdout.ends_with("s\n3\n"), "{}", ran.stdout);
    }
    for name in ["-", "/dev/stdout", "/dev/fd/1"] {
        let copy = format!("COPY (SELECT 1 AS a) TO '{name}' (FORMAT csv, HEADER)");
        // Nothing stands behind the rows, whatever the format of results is.
        for format in ["none", "table"] {
            let ran = sql(home.path(), &["--format", format, &copy]);
            assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "a\n1\n"), "{name}: {}", ran.stderr);
        }
    }
    let ran = sql(home.path(), &["--format", "none", "COPY (SELECT 1 AS a) TO '/dev/null' (FORMAT csv)"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
}

#[test]
fn what_one_run_writes_into_a_named_pipe_another_reads() {
    let home = home();
    pipe(&home.path().join("rows"));
    let mut writer = diligence(home.path())
        .args(["sql", "COPY (SELECT i FROM generate_series(1, 500000) s(i)) TO 'rows' (FORMAT csv, HEADER)"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let ran = sql(home.path(), &["--format", "csv", "SELECT count(*) AS n, max(i) AS m FROM read_csv('rows')"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "n,m\n500000,500000\n"), "{}", ran.stderr);
    assert!(writer.wait().unwrap().success());
}

#[test]
fn every_format_writes_the_rows() {
    let home = home();
    let query = "SELECT id, name FROM 'tables/people.csv' WHERE id < 3 ORDER BY id";
    let written = |format: &str| {
        let ran = sql(home.path(), &["--format", format, query]);
        assert_eq!(ran.code, Some(0), "{format}: {}", ran.stderr);
        ran.stdout
    };
    assert!(written("table").contains("│  1 │ Ada"), "{}", written("table"));
    assert!(written("table").ends_with("2 rows\n"));
    let json: serde_json::Value = serde_json::from_str(&written("json")).unwrap();
    assert_eq!(json[0], serde_json::json!({"id": 1, "name": "Ada"}));
    assert_eq!(written("jsonl").lines().count(), 2);
    assert_eq!(written("none"), "");

    let output = diligence(home.path()).args(["sql", "--format", "arrow", query]).output().unwrap();
    let reader = arrow::ipc::reader::StreamReader::try_new(output.stdout.as_slice(), None).unwrap();
    assert_eq!(reader.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 2);
}

#[test]
fn commands_say_what_they_did() {
    let home = home();
    let ran =
        sql(home.path(), &["CREATE TABLE t AS SELECT 1 AS a; INSERT INTO t VALUES (2), (3); SELECT sum(a) FROM t"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.starts_with("CREATE TABLE"), "{}", ran.stdout);
    assert!(ran.stdout.contains("INSERT") && ran.stdout.contains(" 6 │"), "{}", ran.stdout);
}

#[test]
fn a_plan_is_no_table() {
    let home = home();
    let ran = sql(home.path(), &["EXPLAIN SELECT count(*) FROM 'tables/people.csv'"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("Scan") && !ran.stdout.contains('│'), "{}", ran.stdout);
}

#[test]
fn the_timer_speaks_on_standard_error() {
    let home = home();
    let ran = sql(home.path(), &["--timer", "--format", "csv", "SELECT 1 AS a"]);
    assert_eq!(ran.stdout, "a\n1\n");
    assert!(ran.stderr.starts_with("1 row in ") && ran.stderr.ends_with(" s\n"), "{}", ran.stderr);
}

#[test]
fn a_table_is_cut_only_when_asked() {
    let home = home();
    let query = "SELECT * FROM generate_series(1::BIGINT, 5000) AS g(value)";
    let ran = sql(home.path(), &[query]);
    assert_eq!(ran.stdout.lines().count(), 5005, "no limit without a terminal");
    let ran = sql(home.path(), &["--max-rows", "10", query]);
    assert!(ran.stdout.ends_with("the first 10 rows; there are more (see --max-rows)\n"), "{}", ran.stdout);
}

#[test]
fn a_failed_statement_shows_its_place_and_exits_with_1() {
    let home = home();
    let ran = sql(home.path(), &["--data", "tables", "SELECT nam FROM people"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.contains("\n  SELECT nam FROM people\n         ^"), "{}", ran.stderr);
    assert!(ran.stderr.contains("name"), "the nearest name: {}", ran.stderr);

    // The first failure ends the run, after the rows that came before.
    std::fs::write(home.path().join("q.sql"), "SELECT 1 AS a;\n\n  SELECT 1 +;\nSELECT 2;").unwrap();
    let ran = sql(home.path(), &["--format", "csv", "-f", "q.sql"]);
    assert_eq!(ran.code, Some(1));
    assert!(!ran.stdout.contains('2'), "{}", ran.stdout);
    assert!(ran.stderr.contains("q.sql:3"), "{}", ran.stderr);

    let ran = sql(home.path(), &["SELECT 1 / 0"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.to_lowercase().contains("division by zero") || ran.stderr.to_lowercase().contains("divide by zero"),
        "{}",
        ran.stderr
    );

    let ran = sql(home.path(), &["SELECT * FROM 'no/such.parquet'"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("no/such.parquet"), "{}", ran.stderr);
}

#[test]
fn an_invalid_command_line_exits_with_2() {
    let home = home();
    let cases: &[&[&str]] = &[
        &["sql", "--format", "yaml", "SELECT 1"],
        &["sql", "--data", "nowhere", "SELECT 1"],
        &["sql", "-f", "nowhere.sql"],
        &["sql", "--workers", "0", "SELECT 1"],
        &["sql", "--memory", "lots", "SELECT 1"],
        &["sql", "--set", "nonsense=1", "SELECT 1"],
        &["sql", ".tables"],
        &["dance"],
        &[],
    ];
    for arguments in cases {
        let ran = run(home.path(), arguments, "");
        assert_eq!(ran.code, Some(2), "{arguments:?}: {}{}", ran.stdout, ran.stderr);
        assert!(!ran.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn options_reach_the_engine() {
    let home = home();
    let query = "SELECT name, value FROM system.settings WHERE name = 'batch_rows'";
    let ran = sql(home.path(), &["--format", "csv", "--set", "batch_rows=77", "--workers", "1", query]);
    assert_eq!(ran.stdout, "name,value\nbatch_rows,77\n", "{}", ran.stderr);
    let ran = sql(
        home.path(),
        &[
            "--format",
            "csv",
            "--workers",
            "3",
            "SELECT serves, count(*) AS n FROM system.workers GROUP BY 1 ORDER BY 1",
        ],
    );
    assert_eq!(ran.stdout, "serves,n\nall,3\nshort queries,1\n", "{}", ran.stderr);
}

#[test]
fn a_closed_output_is_no_error() {
    let home = home();
    for format in ["csv", "jsonl", "table", "arrow"] {
        let mut child = diligence(home.path())
            .args(["sql", "--format", format, "SELECT * FROM generate_series(1::BIGINT, 10000000) AS g(value)"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = [0; 100];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        let ran: Ran = child.wait_with_output().unwrap().into();
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{format}");
    }
}

#[test]
fn it_tells_its_version() {
    let home = home();
    let ran = run(home.path(), &["--version"], "");
    assert_eq!((ran.code, ran.stdout), (Some(0), format!("diligence {}\n", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn an_interrupt_cancels_the_statement() {
    let home = home();
    // Billions of pairs: it would run for minutes. Its first rows tell that it is running and handles interrupts.
    let query = "SELECT x, y FROM generate_series(1::BIGINT, 300000) a(x), generate_series(1::BIGINT, 300000) b(y) WHERE x * y % 7 = 3";
    let mut child = diligence(home.path())
        .args(["sql", "--format", "csv", query])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 100];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    // SAFETY: the child has not been waited for, so its number is its own.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let ran: Ran = child.wait_with_output().unwrap().into();
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("cancelled"), "{}", ran.stderr);
}
