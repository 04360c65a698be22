//! A disk that fails at the n-th operation, for n from the first to the last: one query ends with an error that says
//! why, or with the right rows; nothing is left of it; and the next query runs.
//!
//! `DILIGENCE_FAULT_POINTS` says at how many operations of each query (12 unless given), more of the first ones than of
//! the last: what reads again and again, as pairs do, has written early. `all` says at every one, which takes hours
//! (`.ci/nightly`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use diligence_base::{Error, ErrorKind};
use diligence_db::{Database, DatabaseOptions, Session, TempIo, TempOptions};
use diligence_disk::{Fault, MemoryTempFiles};
use diligence_tests::idle;

/// Less than a user may say, so that few rows are enough.
const BUDGETS: [usize; 9] = [4 << 20, 4 << 20, 4 << 20, 8 << 20, 4 << 20, 4 << 20, 4 << 20, 12 << 20, 4 << 20];

/// Operations of each query that fail unless the environment says otherwise.
const POINTS: u64 = 12;

/// How many of a query's operations fail, each in a run of its own.
fn points(operations: u64) -> u64 {
    match std::env::var("DILIGENCE_FAULT_POINTS") {
        Err(_) => POINTS.min(operations),
        Ok(all) if all == "all" => operations,
        Ok(number) => match number.parse::<u64>() {
            Ok(number) if number > 0 => number.min(operations),
            _ => panic!("DILIGENCE_FAULT_POINTS is '{number}', and should be a number or all"),
        },
    }
}

/// Each spills: a sort, a join, groups, a window, a recursive query whose rounds and seen rows do, pairs of rows
/// without equal keys, distinct values and arrays, a part that is read twice, and a median.
const QUERIES: [&str; 9] = [
    "SELECT value, lpad(CAST(value * 7919 % 60000 AS VARCHAR), 60, 'x') AS s FROM generate_series(1::BIGINT, 60000) AS g(value) ORDER BY s, value",
    "SELECT count(*), sum(a.value), max(b.s) FROM generate_series(1::BIGINT, 90000) a(value)
     JOIN (SELECT value, lpad(CAST(value AS VARCHAR), 60, 'x') AS s FROM generate_series(1::BIGINT, 90000) AS g(value)) b ON a.value = b.value",
    "SELECT count(*), sum(n), max(s) FROM
     (SELECT lpad(CAST(value % 50000 AS VARCHAR), 60, 'x') AS s, count(*) AS n FROM generate_series(1::BIGINT, 100000) AS g(value) GROUP BY s)",
    "SELECT count(*), sum(r), max(w) FROM (SELECT rank() OVER (ORDER BY s) AS r, max(s) OVER () AS w FROM
     (SELECT lpad(CAST(value AS VARCHAR), 60, 'x') AS s FROM generate_series(1::BIGINT, 120000) AS g(value)))",
    "WITH RECURSIVE r AS (SELECT value AS n FROM generate_series(1::BIGINT, 40000) AS g(value)
     UNION SELECT n + 20000 FROM r WHERE n <= 60000) SELECT count(*), sum(n) FROM r",
    "SELECT count(*), max(a.s) FROM (SELECT value, lpad(CAST(value AS VARCHAR), 3000, 'x') AS s FROM generate_series(1::BIGINT, 2500) AS g(value)) a
     JOIN (SELECT value, lpad(CAST(value AS VARCHAR), 3000, 'x') AS s FROM generate_series(1::BIGINT, 2500) AS g(value)) b ON a.value < b.value - 2400 AND a.s < b.s",
    "SELECT count(*), sum(d), sum(n) FROM (SELECT value % 100 AS k, count(DISTINCT value) AS d, cardinality(array_agg(value)) AS n
     FROM generate_series(1::BIGINT, 300000) AS g(value) GROUP BY k)",
    "WITH d AS (SELECT lpad(CAST(value % 40000 AS VARCHAR), 60, 'x') AS s, count(*) AS n FROM generate_series(1::BIGINT, 90000) AS g(value) GROUP BY 1)
     SELECT count(*), max(a.s), sum(b.n) FROM d a JOIN d b ON a.s = b.s",
    "SELECT median(v), count(*) FROM (SELECT CAST(value * 7919 % 400000 AS DOUBLE) AS v FROM generate_series(1::BIGINT, 400000) AS g(value))",
];

/// How a query is run.
#[derive(Clone, Copy, Debug)]
enum Run {
    /// In one thread, the same way each time.
    Seeded(u64),
    /// With workers: the n-th operation may be another one each time.
    Threads(TempIo),
}

/// A small database, deterministic but for its temp space's threads, if it has any.
fn database(files: &MemoryTempFiles, budget_bytes: usize, run: Run) -> Result<(Database, Session), Error> {
    let (seed, io) = match run {
        Run::Seeded(seed) => (Some(seed), TempIo::Threads),
        Run::Threads(io) => (None, io),
    };
    let temp = TempOptions {
        directories: vec!["/temp".into()],
        cluster_bytes: 32 << 10,
        threads: 2,
        io,
        files: Arc::new(files.clone()),
        ..TempOptions::default()
    };
    let options =
        DatabaseOptions { workers: Some(2), inline_seed: seed, temp: Some(temp), ..DatabaseOptions::default() };
    let database = Database::open(options)?;
    database.engine().broker().set_budget_bytes(budget_bytes);
    let session = database.session();
    session.set("batch_rows", "1000")?;
    Ok((database, session))
}

fn run(session: &Session, sql: &str) -> Result<RecordBatch, Error> {
    let mut result = session.execute(sql)?;
    let schema = result.schema();
    let mut batches = Vec::new();
    while let Some(batch) = result.next_blocking() {
        batches.push(batch?);
    }
    Ok(concat_batches(&schema, &batches).unwrap())
}

/// Waits until no packet, reservation, spill file or cluster is left.
fn is_free(database: &Database, what: &str) {
    idle::wait(database).unwrap_or_else(|left| panic!("{what}: {left}"));
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let info = database.engine().temp().info();
        let used = info.directories.iter().map(|directory| directory.clusters_used).sum::<usize>();
        if (info.files, used) == (0, 0) {
            return;
        }
        assert!(Instant::now() < end, "{what}: {info:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What a database does with its temp space before the first query. If that fails, it does not open.
fn opening_operations() -> u64 {
    let files = MemoryTempFiles::default();
    let opened = database(&files, BUDGETS[0], Run::Seeded(0)).unwrap();
    let operations = files.operations();
    drop(opened);
    operations
}

/// Runs a query with one fault, and again without it.
fn fails_once(query: usize, expected: &RecordBatch, fault: Fault, at: u64, how: Run) -> bool {
    let sql = QUERIES[query];
    let what = format!("{fault:?} at operation {at}, {how:?}, {sql}");
    let files = MemoryTempFiles::failing(fault, at);
    let (database, session) = match database(&files, BUDGETS[query], how) {
        Ok(opened) => opened,
        Err(error) => {
            assert!(at < opening_operations() && error.kind() != ErrorKind::Bug, "{what}: {error}");
            return true;
        }
    };
    let failed = match run(&session, sql) {
        Ok(rows) => {
            assert!(rows == *expected, "{what}: other rows");
            false
        }
        Err(error) => {
            // What is wrong with the disk is nobody's bug, and says so.
            assert_ne!(error.kind(), ErrorKind::Bug, "{what}: {error}");
            let text = error.to_string();
            let is_clear = ["temp space", "temporary", "disk", "/temp"].iter().any(|word| text.contains(word));
            assert!(is_clear, "{what}: {text}");
            true
        }
    };
    is_free(&database, &what);
    files.heal();
    let rows = run(&session, sql).unwrap_or_else(|error| panic!("the query after {what}: {error}"));
    assert!(rows == *expected, "the query after {what}: other rows");
    is_free(&database, &what);
    drop((session, database));
    assert_eq!((files.files(), files.bytes()), (0, 0), "{what}");
    failed
}

fn sweep(query: usize) {
    let sql = QUERIES[query];
    let seeded = Run::Seeded(query as u64);
    let files = MemoryTempFiles::default();
    let (database, session) = database(&files, BUDGETS[query], seeded).unwrap();
    let expected = run(&session, sql).unwrap();
    is_free(&database, sql);
    drop((session, database));
    let operations = files.operations();
    assert!(operations > 50, "{operations} operations do not spill much: {sql}");

    let count = points(operations);
    let reads_again = sql.contains("a.value <");
    let slow = Fault::Slow(Duration::from_millis(20));
    for fault in [Fault::Full, Fault::Broken, Fault::Short, Fault::Empty, Fault::Flip, slow] {
        let points =
            (0..count).map(|point| if count == operations { point } else { point.pow(2) * operations / count.pow(2) });
        let failures = points.filter(|at| fails_once(query, &expected, fault, *at, seeded)).count() as u64;
        let (least, most) = match fault {
            Fault::Full => (if reads_again { 2 } else { count / 2 }, count),
            Fault::Broken | Fault::Flip => (1, count),
            // What is short goes on behind what was done; what is late comes.
            Fault::Short | Fault::Slow(_) => (0, 0),
            Fault::Empty => (0, count),
        };
        assert!(
            (least..=most).contains(&failures),
            "{failures} of {count} queries failed after {fault:?}, of {operations} operations: {sql}"
        );
        for io in [TempIo::Threads, TempIo::Ring] {
            for at in [operations / 7, operations / 3] {
                fails_once(query, &expected, fault, at, Run::Threads(io));
            }
        }
    }
}

#[test]
fn a_sort_on_a_failing_disk() {
    sweep(0);
}

#[test]
fn a_join_on_a_failing_disk() {
    sweep(1);
}

#[test]
fn groups_on_a_failing_disk() {
    sweep(2);
}

#[test]
fn windows_on_a_failing_disk() {
    sweep(3);
}

#[test]
fn a_recursive_query_on_a_failing_disk() {
    sweep(4);
}

#[test]
fn pairs_on_a_failing_disk() {
    sweep(5);
}

#[test]
fn distinct_values_and_arrays_on_a_failing_disk() {
    sweep(6);
}

#[test]
fn a_common_part_on_a_failing_disk() {
    sweep(7);
}

#[test]
fn a_median_on_a_failing_disk() {
    sweep(8);
}
