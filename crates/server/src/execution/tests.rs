//! Statement execution without a network.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use diligence_base::{ErrorKind, Result};
use diligence_db::{Database, DatabaseOptions, Session};

use super::running::{RunningStatement, StartedStatement};
use super::{Allowed, ExecutionOptions, StatementExecution};
use crate::admission::{Asker, Class, Query};
use crate::roles::Role;

pub(super) fn execution(memory_bytes: usize, rows_max: Option<u64>) -> (Arc<StatementExecution>, Session, Asker) {
    let options = DatabaseOptions { memory_bytes: Some(memory_bytes), workers: Some(2), ..DatabaseOptions::default() };
    let database = Database::open(options).unwrap();
    let session = database.session();
    let execution = StatementExecution::open(database, ExecutionOptions::default(), rows_max).unwrap();
    (execution, session, Asker::new("ann", Arc::new(Role::none(false))))
}

async fn start(execution: &StatementExecution, session: &Session, asker: &Asker, sql: &str) -> RunningStatement {
    let parsed = execution.parse(session, sql.to_owned()).await.unwrap();
    execution.start(session, asker, &parsed, vec![], Allowed::Anything).await.unwrap()
}

async fn rows(running: &mut RunningStatement) -> Result<Vec<RecordBatch>> {
    let mut batches = Vec::new();
    while let Some(batch) = running.next().await {
        batches.push(batch?);
    }
    Ok(batches)
}

/// What a stage has done when it is at rest.
fn done(execution: &StatementExecution, name: &str) -> u64 {
    loop {
        let stages = execution.stages();
        let stage = stages.iter().find(|stage| stage.name == name).unwrap();
        if stage.queued + stage.running == 0 {
            return execution.stages().iter().find(|stage| stage.name == name).unwrap().done_total;
        }
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn the_rows_of_constant_statements_are_known_after_they_have_run() {
    let (execution, session, asker) = execution(256 << 20, Some(3));
    let mut answers = Vec::new();
    for is_known in [false, false, true, true] {
        let mut running =
            start(&execution, &session, &asker, "SELECT 40 + x AS n FROM (VALUES (1::BIGINT), (2)) AS t(x)").await;
        assert_eq!(running.id().is_none(), is_known);
        assert_eq!(running.schema().field(0).name(), "n");
        let answer = rows(&mut running).await.unwrap();
        assert!(running.next().await.is_none());
        answers.push(arrow::compute::concat_batches(running.schema(), &answer).unwrap());
    }
    assert_eq!(answers[0].column(0).as_primitive::<Int64Type>().values(), &[41, 42]);
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    session.execute("CREATE TABLE t AS SELECT 1 AS a").unwrap();
    let long = format!("SELECT '{}'", "x".repeat(10_000));
    let four = "SELECT * FROM (VALUES (1), (2), (3), (4)) AS t(x)";
    for sql in ["SELECT random() < 2", "SELECT now() IS NULL", "SELECT a FROM t", &long, four] {
        for _ in 0..4 {
            let mut running = start(&execution, &session, &asker, sql).await;
            assert!(running.id().is_some(), "{sql}");
            assert_eq!(rows(&mut running).await.is_ok(), sql != four);
        }
    }
}

#[tokio::test]
async fn cheap_statements_that_are_planned_every_time_do_not_wait_for_memory() {
    let (execution, session, asker) = execution(32 << 20, None);
    let all = "SELECT i, repeat('x', 100) FROM generate_series(1, 10000000) AS i";
    let mut readers = [session.execute(all).unwrap(), session.execute(all).unwrap()];
    readers[0].next_blocking().unwrap().unwrap();
    // The second does not even start: what the first is sure of leaves too little.
    assert!(readers[1].next_within(Duration::from_millis(50)).is_pending());
    let answered = async {
        let mut running = start(&execution, &session, &asker, "SELECT count(*) FROM system.queries").await;
        rows(&mut running).await.unwrap()
    };
    let answer = tokio::time::timeout(Duration::from_secs(20), answered).await.expect("it waits for others' readers");
    assert_eq!(answer.iter().map(RecordBatch::num_rows).sum::<usize>(), 1);
    // A reader that says that he rests lets others start.
    let end = std::time::Instant::now() + Duration::from_secs(20);
    let begun = loop {
        assert!(std::time::Instant::now() < end, "nothing was given up");
        readers[0].pause();
        if let std::task::Poll::Ready(batch) = readers[1].next_within(Duration::from_millis(5)) {
            break batch;
        }
    };
    assert!(begun.unwrap().unwrap().num_rows() > 0);
}

#[tokio::test]
async fn other_values_of_a_cheap_statement_need_no_planning() {
    let (execution, session, asker) = execution(256 << 20, None);
    session.execute("CREATE TABLE t AS SELECT i AS a, i * 2 AS b FROM generate_series(1::BIGINT, 1000) AS i").unwrap();
    let parsed = execution.parse(&session, "SELECT b FROM t WHERE a = $1".to_owned()).await.unwrap();
    let asks = async |n: i64| {
        let before = done(&execution, "optimize");
        let value: ArrayRef = Arc::new(Int64Array::from(vec![n]));
        let mut running = execution.start(&session, &asker, &parsed, vec![value], Allowed::Anything).await.unwrap();
        let answer = rows(&mut running).await.unwrap();
        let answer: Vec<i64> =
            answer.iter().flat_map(|rows| rows.column(0).as_primitive::<Int64Type>().values().to_vec()).collect();
        (answer, done(&execution, "optimize") - before)
    };
    // The first is planned with its value, the second has the generic plan made.
    assert_eq!(asks(1).await, (vec![2], 1));
    assert_eq!(asks(2).await, (vec![4], 1));
    for n in 3..20 {
        assert_eq!(asks(n).await, (vec![2 * n], 0));
    }
    session.execute("INSERT INTO t VALUES (20, 7)").unwrap();
    assert_eq!(asks(20).await, (vec![40, 7], 0), "of the table as it is");
    session.execute("ALTER TABLE t ADD COLUMN c INT").unwrap();
    assert_eq!(asks(21).await, (vec![42], 1));
    assert_eq!(asks(22).await, (vec![44], 1));
    assert_eq!(asks(23).await, (vec![46], 0));
}

#[tokio::test]
async fn a_text_that_comes_again_is_not_parsed_or_planned_again() {
    let (execution, session, asker) = execution(256 << 20, None);
    session.execute("CREATE TABLE t AS SELECT 1 AS a").unwrap();
    let done = |name: &str| done(&execution, name);
    for (sql, name) in [("SELECT a AS x FROM t", "x"), ("SELECT 2 AS y", "y")] {
        for turn in 0..4 {
            let before = (done("parse"), done("optimize"));
            let parsed = execution.parse(&session, sql.to_owned()).await.unwrap();
            let described = execution.describe(&session, &parsed, vec![]).await.unwrap();
            assert_eq!(described.schema.unwrap().field(0).name(), name);
            let mut running = execution.start(&session, &asker, &parsed, vec![], Allowed::Anything).await.unwrap();
            assert_eq!(rows(&mut running).await.unwrap().len(), 1);
            let work = (done("parse") - before.0, done("optimize") - before.1);
            assert_eq!(work, if turn == 0 { (1, 1) } else { (0, 0) }, "{sql}");
        }
    }
    // Of another table it is another plan.
    let parsed = execution.parse(&session, "SELECT a AS x FROM t".to_owned()).await.unwrap();
    session.execute("CREATE OR REPLACE TABLE t AS SELECT 1 AS a, 2 AS b").unwrap();
    let before = done("optimize");
    execution.describe(&session, &parsed, vec![]).await.unwrap();
    assert_eq!(done("optimize"), before + 1);
}

#[tokio::test]
async fn what_is_behind_a_remembered_plan_is_told_at_once() {
    let (execution, session, asker) = execution(256 << 20, None);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("f.csv"), "a\n1\n").unwrap();
    for statement in
        ["CREATE TABLE t AS SELECT 1 AS a", "CREATE TABLE u AS SELECT 1 AS a", "CREATE VIEW v AS SELECT a FROM t"]
    {
        session.execute(statement).unwrap();
    }
    let files = format!("SELECT a FROM '{}/f.csv'", folder.path().display());
    for (sql, is_told) in [
        ("SELECT a FROM t", true),
        ("SELECT a FROM v", true),
        ("SELECT a FROM t, system.sharing", false),
        (&files, false),
    ] {
        let parsed = execution.parse(&session, sql.to_owned()).await.unwrap();
        let states = || execution.states_behind(&session, &parsed, &[]);
        assert_eq!(states(), None, "{sql} has no plan yet");
        rows(&mut start(&execution, &session, &asker, sql).await).await.unwrap();
        let first = states();
        assert_eq!(first.is_some(), is_told, "{sql}");
        if !is_told {
            continue;
        }
        let planned = execution.plan(&session, &parsed, vec![]).await.unwrap().planned.fingerprint();
        assert_eq!(planned, first);
        session.execute("INSERT INTO u VALUES (2)").unwrap();
        session.execute("UPDATE t SET a = 3 WHERE a > 100").unwrap();
        assert_eq!(states(), first, "{sql}");
        session.execute("INSERT INTO t VALUES (2)").unwrap();
        assert!(states().is_some_and(|now| Some(now) != first), "{sql}");
        session.execute("ALTER TABLE t ADD COLUMN b INT").unwrap();
        assert_eq!(states(), None, "{sql} is to be planned anew");
        session.execute("ALTER TABLE t DROP COLUMN b").unwrap();
    }
}

#[tokio::test]
async fn queries_that_can_share_a_run_need_one_place() {
    let options = DatabaseOptions { memory_bytes: Some(2 << 30), workers: Some(1), ..DatabaseOptions::default() };
    let database = Database::open(options).unwrap();
    let session = database.session();
    session
        .execute("CREATE TABLE t AS SELECT i AS a, i % 10 AS b FROM generate_series(1::BIGINT, 20000000) AS i")
        .unwrap();
    let options = ExecutionOptions { heavy_max: 1, ..ExecutionOptions::default() };
    let execution = StatementExecution::open(database, options, None).unwrap();
    let asker = Asker::new("ann", Arc::new(Role::none(false)));
    // The run must not have ended when the last one comes: what it leaves behind needs no place.
    let sql = |bound: u32| {
        format!("SELECT b, count(*) AS n, sum(a % 97 * (a % 89)) AS s FROM t WHERE a <= {bound} GROUP BY b")
    };
    let mut members = Vec::new();
    // Nobody reads, so the first keeps its place: one that needed another would wait for ever.
    for bound in [19_000_000, 12_000_000, 19_000_000, 1_000_000] {
        let sql = sql(bound);
        let begun = tokio::time::timeout(Duration::from_secs(20), start(&execution, &session, &asker, &sql));
        let running = begun.await.expect("it waits for a place");
        assert_eq!((running.passed().class, running.passed().place.is_none()), (Class::Heavy, true));
        members.push((bound, running));
    }
    assert_eq!(execution.admission().info().heavy.running, 1);
    // What shares nothing with them waits, and is listed.
    let other = "SELECT a % 7 AS c, max(b) AS most FROM t GROUP BY a % 7";
    let parsed = execution.parse(&session, other.to_owned()).await.unwrap();
    let mut waits = Box::pin(execution.start(&session, &asker, &parsed, vec![], Allowed::Anything));
    while execution.admission().waiting().is_empty() {
        assert!(futures::poll!(&mut waits).is_pending());
        tokio::task::yield_now().await;
    }
    assert_eq!(execution.admission().waiting()[0].1.reason, "of heavy queries: one runs, and no more may");
    for (bound, running) in &mut members {
        let answer = rows(running).await.unwrap();
        let counts = answer.iter().flat_map(|rows| rows.column(1).as_primitive::<Int64Type>().values().to_vec());
        assert_eq!(counts.sum::<i64>(), i64::from(*bound));
    }
    drop(members);
    let mut running = waits.await.unwrap();
    assert_eq!(rows(&mut running).await.unwrap().iter().map(RecordBatch::num_rows).sum::<usize>(), 7);
}

#[tokio::test]
async fn a_query_that_was_cancelled_before_it_had_a_number_ends() {
    let (execution, session, asker) = execution(256 << 20, None);
    let sql = "SELECT count(*) FROM generate_series(1, 100000000000)";
    let parsed = execution.parse(&session, sql.to_owned()).await.unwrap();
    let planned = session.plan(&parsed, &[]).unwrap();
    let query = Query::new(sql, planned.needs(), None);
    let (admitted, passed) = execution.admission().enter(&asker, &query).await.unwrap();
    assert!(!execution.cancel(admitted.ticket().number(), |user| user == Some("bob")));
    assert!(execution.cancel(admitted.ticket().number(), |user| user == Some("ann")));
    let started = StartedStatement::start(&session, planned, query.expected).unwrap();
    let mut running = RunningStatement::new(&execution.runner, &asker, started, admitted, passed, None);
    assert_eq!(rows(&mut running).await.unwrap_err().kind(), ErrorKind::Cancelled);
}
