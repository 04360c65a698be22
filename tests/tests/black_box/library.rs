//! The library as an embedding program uses it: open, execute, stream, cancel by dropping.

use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use diligence_base::ErrorKind;
use diligence_db::{Database, DatabaseOptions, ResultKind};
use diligence_tests::idle;

fn number(batches: &[RecordBatch]) -> i64 {
    batches.iter().find(|batch| batch.num_rows() > 0).unwrap().column(0).as_primitive::<Int64Type>().value(0)
}

#[test]
fn a_database_in_memory_answers() {
    let database = Database::in_memory().unwrap();
    let session = database.session();
    let created = session
        .execute("CREATE TABLE t AS SELECT value AS v FROM generate_series(1::BIGINT, 100000) AS g(value)")
        .unwrap();
    created.collect().unwrap();

    let mut result = session.execute("SELECT v FROM t WHERE v % 3 = 0").unwrap();
    assert!(matches!(result.kind(), ResultKind::Rows));
    assert_eq!(result.schema().field(0).name(), "v");
    let mut rows = 0;
    while let Some(batch) = result.next_blocking() {
        rows += batch.unwrap().num_rows();
    }
    assert_eq!(rows, 33_333);
    assert_eq!(result.progress().rows_out, 33_333);

    // A table is seen by every session of its database, and by no other database.
    let other = database.session();
    assert_eq!(number(&other.execute("SELECT count(*) FROM t").unwrap().collect().unwrap()), 100_000);
    let elsewhere = Database::in_memory().unwrap();
    let error = elsewhere.session().execute("SELECT count(*) FROM t").err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Input);
}

#[test]
fn a_database_over_a_folder_knows_its_files() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("people.csv"), "id,name\n1,Ada\n2,Grace\n").unwrap();
    std::fs::write(folder.path().join("events.json"), "{\"at\": 1}\n{\"at\": 2}\n{\"at\": 3}\n").unwrap();
    let options = DatabaseOptions { data: vec![folder.path().to_owned()], workers: Some(2), ..Default::default() };
    let session = Database::open(options).unwrap().session();
    let query = "SELECT count(*) FROM people, events WHERE id < at";
    assert_eq!(number(&session.execute(query).unwrap().collect().unwrap()), 3);
    let completions = session.completions();
    for word in ["people", "events", "name"] {
        assert!(completions.iter().any(|completion| completion == word), "{word} in {completions:?}");
    }
}

#[test]
fn a_result_is_all_that_must_be_kept() {
    let sql = "SELECT count(*) FROM generate_series(1::BIGINT, 1000000) a(value) WHERE a.value % 2 = 0";
    let result = Database::in_memory().unwrap().session().execute(sql).unwrap();
    assert_eq!(number(&result.collect().unwrap()), 500_000);
}

#[test]
fn a_database_dropped_with_running_queries_leaves_nothing() {
    let slow = "SELECT a.value, count(*) FROM generate_series(1::BIGINT, 1000000) a(value), generate_series(1::BIGINT, 1000000) b(value) GROUP BY 1";
    for queries in [1, 2, 5, 5, 5] {
        let options = DatabaseOptions { workers: Some(2), ..DatabaseOptions::default() };
        let database = Database::open(options).unwrap();
        let session = database.session();
        let mut results: Vec<_> = (0..queries).map(|_| session.execute(slow).unwrap()).collect();
        assert!(results.iter_mut().all(|result| result.next_within(Duration::from_millis(10)).is_pending()));
        // Workers hold the scheduler, and reservations hold the broker.
        let scheduler = Arc::downgrade(database.engine().scheduler());
        let broker = Arc::downgrade(database.engine().broker());
        drop((results, session, database));
        let end = Instant::now() + Duration::from_secs(10);
        while scheduler.strong_count() + broker.strong_count() > 0 {
            let left = (scheduler.strong_count(), broker.upgrade().map(|broker| broker.reserved_bytes()));
            assert!(Instant::now() < end, "{left:?} of {queries} queries");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn dropping_a_result_cancels_its_query() {
    let database = Database::in_memory().unwrap();
    let session = database.session();
    let mut result =
        session.execute("SELECT a.value FROM generate_series(1::BIGINT, 1000000) a(value), generate_series(1::BIGINT, 1000000) b(value)").unwrap();
    assert!(result.next_blocking().unwrap().unwrap().num_rows() > 0);
    drop(result);
    idle::wait(&database).unwrap();
    assert_eq!(number(&session.execute("SELECT 7::BIGINT").unwrap().collect().unwrap()), 7);
}

#[test]
fn a_token_cancels_from_another_thread() {
    let database = Database::in_memory().unwrap();
    let session = database.session();
    let slow = "SELECT count(*) FROM generate_series(1::BIGINT, 1000000) a(value), generate_series(1::BIGINT, 1000000) b(value) WHERE a.value * b.value = 7";
    let mut result = session.execute(slow).unwrap();
    assert!(matches!(result.next_within(Duration::from_millis(50)), Poll::Pending));
    let token = result.cancel_token();
    let canceller = std::thread::spawn(move || token.cancel());
    let begun = Instant::now();
    let error = result.next_blocking().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    canceller.join().unwrap();
    idle::wait(&database).unwrap();
}
