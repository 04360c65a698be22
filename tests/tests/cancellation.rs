//! Queries cancelled at a hundred random moments leave nothing behind: no packet, no reservation, no file.
//!
//! One test in this file, because it looks at the temporary files of the whole process.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use diligence_base::ErrorKind;
use diligence_base::seams::Random;
use diligence_db::{Database, DatabaseOptions, Session};
use diligence_tests::{data, idle};
use diligence_tpch::QUERIES;

const MOMENTS: usize = 100;

/// A query may have to finish a quantum per worker and an I/O request.
const CANCEL_WITHIN: Duration = Duration::from_secs(5);

/// Numbers of TPC-H queries with scans, joins of every kind, large and small aggregations.
const TPCH: [usize; 6] = [1, 5, 9, 13, 18, 21];

/// What one query takes when nobody interrupts it, and how it is interrupted, is drawn at random.
#[test]
fn a_cancelled_query_leaves_nothing_behind() {
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let scratch = tempfile::Builder::new().prefix("cancel-").tempdir_in(temporary).unwrap();
    let passing = scratch.path().join("passing");
    let written = scratch.path().join("written");
    std::fs::create_dir(&passing).unwrap();
    std::fs::create_dir(&written).unwrap();
    // SAFETY: this is the only test of this process, and no other thread runs yet.
    unsafe { std::env::set_var("TMPDIR", &passing) };

    let tables = data::tpch(temporary, 0.1).unwrap();
    let options = DatabaseOptions { data: vec![tables], workers: Some(4), ..DatabaseOptions::default() };
    let database = Database::open(options).unwrap();
    let session = database.session();
    let mut statements: Vec<String> = TPCH.iter().map(|query| QUERIES[query - 1].to_owned()).collect();
    statements.push("SELECT * FROM lineitem ORDER BY l_comment, l_orderkey".to_owned());
    statements.push("SELECT *, rank() OVER (PARTITION BY o_custkey ORDER BY o_totalprice) FROM orders".to_owned());
    statements.push(
        "SELECT DISTINCT l_orderkey, l_partkey FROM lineitem UNION SELECT o_orderkey, o_custkey FROM orders".to_owned(),
    );
    statements.push(format!("COPY orders TO '{}' STORED AS PARQUET", written.join("orders.parquet").display()));

    let durations: Vec<Duration> = statements.iter().map(|statement| uninterrupted(&session, statement)).collect();
    idle::wait(&database).unwrap();
    let answer = session.execute(&statements[0]).unwrap().collect().unwrap();
    let files_before = files_in(&passing);

    let seed = 20_260_701;
    let mut random = Random::new(seed);
    let mut cancelled = 0;
    for moment in 0..MOMENTS {
        let which = random.below(statements.len());
        let delay = Duration::from_nanos(random.below(durations[which].as_nanos() as usize + 1) as u64);
        std::fs::remove_file(written.join("orders.parquet")).ok();
        let what = format!("moment {moment} of seed {seed}: {}, after {delay:?}", statements[which]);
        cancelled += usize::from(interrupted(&session, &statements[which], delay, random.below(3), &what));
        if let Err(left) = idle::wait(&database) {
            panic!("{left}; {what}");
        }
        assert_eq!(files_in(&passing), files_before, "temporary files; {what}");
        // A writer that is in the middle of an operation of the file system clears up when that has ended.
        let partial = || files_in(&written).into_iter().find(|path| !path.ends_with("orders.parquet"));
        let begun = Instant::now();
        while let Some(left) = partial() {
            assert!(begun.elapsed() < CANCEL_WITHIN, "{} is left; {what}", left.display());
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    assert!(cancelled > MOMENTS / 4, "only {cancelled} were still running when cancelled");
    assert_eq!(session.execute(&statements[0]).unwrap().collect().unwrap(), answer, "the engine still answers");
}

/// How long it takes.
fn uninterrupted(session: &Session, statement: &str) -> Duration {
    let begun = Instant::now();
    let mut result = session.execute(statement).unwrap();
    while let Some(batch) = result.next_blocking() {
        batch.unwrap();
    }
    begun.elapsed()
}

/// Runs it, reads for `delay`, and interrupts it in one of three ways. True if it was still running.
fn interrupted(session: &Session, statement: &str, delay: Duration, way: usize, what: &str) -> bool {
    let mut result = session.start(statement).unwrap();
    let end = Instant::now() + delay;
    if way == 0 {
        // Somebody who does not read at all, and goes away.
        std::thread::sleep(delay);
        return true;
    }
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        if let std::task::Poll::Ready(batch) = result.next_within(left) {
            match batch {
                Some(batch) => drop(batch.unwrap()),
                None => return false,
            }
        }
    }
    if way == 1 {
        return true;
    }
    let begun = Instant::now();
    result.cancel_token().cancel();
    let mut was_cancelled = false;
    // Batches that were ready before the cancellation may still come.
    while let Some(batch) = result.next_blocking() {
        if let Err(error) = batch {
            assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}; {what}");
            was_cancelled = true;
        }
    }
    assert!(begun.elapsed() < CANCEL_WITHIN, "{:?} to cancel; {what}", begun.elapsed());
    was_cancelled
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}
