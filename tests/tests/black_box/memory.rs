//! What queries and tables hold counts against the budget, and is free again when they have ended.

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{DataType, Int64Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use diligence_base::{Error, ErrorKind};
use diligence_db::{Database, DatabaseOptions, Session, TempOptions};
use diligence_engine::query::QueryState;

fn database(memory_bytes: Option<usize>) -> Database {
    // An answer that is kept for the next time would be counted, and not be computed again.
    let settings = vec![("sharing_retained".to_owned(), "0".to_owned())];
    Database::open(DatabaseOptions { memory_bytes, workers: Some(2), settings, ..DatabaseOptions::default() }).unwrap()
}

fn run(session: &Session, sql: &str) -> Result<Vec<RecordBatch>, Error> {
    session.execute(sql)?.collect()
}

fn number(batches: &[RecordBatch]) -> i64 {
    batches.iter().find(|batch| batch.num_rows() > 0).unwrap().column(0).as_primitive::<Int64Type>().value(0)
}

#[test]
fn a_query_that_takes_most_of_the_budget_runs_again_at_once() {
    let sql = "SELECT count(*) FROM (SELECT value, count(*) FROM generate_series(1::BIGINT, 1000000) AS g(value) GROUP BY value)";
    let mut result = database(None).session().execute(sql).unwrap();
    while let Some(batch) = result.next_blocking() {
        batch.unwrap();
    }
    let peak = result.profile().unwrap().memory_peak_bytes;
    assert!(peak > 1 << 20, "{peak}");

    let database = database(Some(peak * 10 / 6));
    let session = database.session();
    for turn in 0..20 {
        let groups = run(&session, sql).unwrap_or_else(|error| panic!("turn {turn}: {error}"));
        assert_eq!(number(&groups), 1_000_000);
        assert_eq!(database.engine().broker().reserved_bytes(), 0, "turn {turn}");
    }
    let states = database.engine().queries().into_iter().map(|query| (query.state, query.memory_bytes));
    assert!(states.eq(std::iter::repeat_n((QueryState::Finished, 0), 20)));
}

#[test]
fn a_failed_query_has_let_go_when_its_error_comes() {
    let temp = TempOptions { quota_bytes: Some(64 << 20), ..TempOptions::default() };
    let options = DatabaseOptions { workers: Some(2), temp: Some(temp), ..DatabaseOptions::default() };
    let database = Database::open(options).unwrap();
    let session = database.session();
    session.set("query_memory", "16MiB").unwrap();
    let sql = "SELECT value, count(*) FROM generate_series(1::BIGINT, 10000000) AS g(value) GROUP BY value";
    for _ in 0..5 {
        let error = run(&session, sql).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Resource, "{error}");
        // Only clusters on their way to the disk may still be there for a moment.
        diligence_tests::idle::wait(&database).unwrap();
        assert_eq!(database.engine().broker().reserved_bytes(), 0);
    }
    // What fits goes on.
    let sql = sql.replace("10000000", "1000");
    assert_eq!(number(&run(&session, &format!("SELECT count(*) FROM ({sql})")).unwrap()), 1000);
}

#[test]
fn what_does_not_fit_goes_on_in_temp_space() {
    let database = database(None);
    let session = database.session();
    session.set("query_memory", "16MiB").unwrap();
    for (sql, expected) in [
        (
            "SELECT count(*) FROM (SELECT value, count(*) FROM generate_series(1::BIGINT, 3000000) AS g(value) GROUP BY value)",
            3_000_000,
        ),
        (
            "SELECT count(*) FROM generate_series(1::BIGINT, 3000000) a(value) JOIN generate_series(2::BIGINT, 3000001) b(value) ON a.value = b.value",
            2_999_999,
        ),
        (
            "SELECT max(r) FROM (SELECT row_number() OVER (ORDER BY -value) AS r FROM generate_series(1::BIGINT, 3000000) AS g(value))",
            3_000_000,
        ),
        ("SELECT count(DISTINCT value) FROM generate_series(1::BIGINT, 3000000) AS g(value)", 3_000_000),
    ] {
        let mut result = session.execute(sql).unwrap();
        let mut batches = Vec::new();
        while let Some(batch) = result.next_blocking() {
            batches.push(batch.unwrap_or_else(|error| panic!("{sql}: {error}")));
        }
        let found = cast(&arrow::compute::concat_batches(&batches[0].schema(), &batches).unwrap());
        assert_eq!(found, expected, "{sql}");
        let profile = result.profile().unwrap();
        assert!(profile.to_string().contains(", spilled "), "{sql}: {profile}");
        assert_eq!(database.engine().broker().reserved_bytes(), 0, "{sql}");
    }
}

/// The one number.
fn cast(batch: &RecordBatch) -> i64 {
    let column = arrow::compute::cast(batch.column(0), &DataType::Int64).unwrap();
    column.as_primitive::<Int64Type>().value(0)
}

#[test]
fn a_window_over_too_much_goes_on_in_temp_space() {
    let database = database(None);
    let session = database.session();
    session.set("query_memory", "16MiB").unwrap();
    for window in [
        "sum(value) OVER ()",
        "lead(value, 1000000) OVER ()",
        "sum(CAST(value AS DOUBLE)) OVER (ROWS BETWEEN 1000000 PRECEDING AND CURRENT ROW)",
        "min(CAST(value AS VARCHAR)) OVER (ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
        "count(value) OVER (ORDER BY value RANGE BETWEEN 1000000 PRECEDING AND 1000000 FOLLOWING)",
    ] {
        let sql =
            format!("SELECT max(w) FROM (SELECT {window} AS w FROM generate_series(1::BIGINT, 3000000) AS g(value))");
        run(&session, &sql).unwrap_or_else(|error| panic!("{window}: {error}"));
        assert_eq!(database.engine().broker().reserved_bytes(), 0);
    }
    // A window that gives rows back as it goes needs little, however many there are.
    let sql =
        "SELECT max(w) FROM (SELECT row_number() OVER () AS w FROM generate_series(1::BIGINT, 10000000) AS g(value))";
    let rows = run(&session, sql).unwrap();
    assert_eq!(cast(&rows[0]), 10_000_000);
    assert_eq!(database.engine().broker().reserved_bytes(), 0);
}

/// Of 2,500,000 values, which are 20 MB, all are of one group of each statement.
#[test]
fn a_percentile_of_too_many_values_goes_on_in_temp_space() {
    let database = database(None);
    let session = database.session();
    session.set("query_memory", "16MiB").unwrap();
    let values = "(SELECT value * 7919 % 2500000 AS n, CAST(value * 7919 % 2500000 AS DOUBLE) AS v
                   FROM generate_series(1::BIGINT, 2500000) AS g(value))";
    for (query, expected) in [
        // Both halves, then all.
        (
            "SELECT median(v), count(*) FROM VALUES GROUP BY ROLLUP (n < 1250000) ORDER BY 1",
            "624999.5 1250000, 1249999.5 2500000, 1874999.5 1250000",
        ),
        (
            "SELECT median(DISTINCT u), percentile_cont(0.25) WITHIN GROUP (ORDER BY u), median(u), count(*)
             FROM (SELECT CASE WHEN n < 500000 THEN 0 ELSE v END AS u FROM VALUES)",
            "1499999.0 624999.75 1249999.5 2500000",
        ),
        ("SELECT median(v), count(*) FROM VALUES GROUP BY [n / 2500000, NULL]", "1249999.5 2500000"),
        ("SELECT median(CAST(n AS DECIMAL(40, 1))), count(*) FROM VALUES", "1249999.5 2500000"),
    ] {
        let sql = query.replace("VALUES", values);
        let mut result = session.execute(&sql).unwrap();
        let mut rows = Vec::new();
        while let Some(batch) = result.next_blocking() {
            let batch = batch.unwrap_or_else(|error| panic!("{query}: {error}"));
            let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &FormatOptions::new()));
            let columns = columns.collect::<Result<Vec<_>, _>>().unwrap();
            let text = |row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join(" ");
            rows.extend((0..batch.num_rows()).map(text));
        }
        assert_eq!(rows.join(", "), expected, "{query}");
        let profile = result.profile().unwrap();
        assert!(profile.to_string().contains(", spilled "), "{query}: {profile}");
        assert_eq!(database.engine().broker().reserved_bytes(), 0, "{query}");
    }
}

#[test]
fn a_recursive_query_that_does_not_fit_goes_on_in_temp_space() {
    let database = database(None);
    let session = database.session();
    // Each step doubles the rows; and each row comes again from a later one.
    let doubling = "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r, (VALUES (1), (2)) d WHERE n < 22)
                    SELECT count(*) FROM r";
    let distinct = "WITH RECURSIVE r AS (SELECT value AS n FROM generate_series(1::BIGINT, 300000) AS g(value)
                    UNION SELECT n + d FROM r, (VALUES (-1), (200000)) d(d) WHERE n + d BETWEEN 1 AND 1000000)
                    SELECT count(*) FROM r";
    for (sql, rows, memory) in [(doubling, (1 << 22) - 1, "16MiB"), (distinct, 1_000_000, "40MiB")] {
        session.set("query_memory", memory).unwrap();
        assert_eq!(number(&run(&session, sql).unwrap()), rows, "{sql}");
        let written = database.engine().temp().info().written_bytes_total;
        assert!(written > 0, "{sql}");
        assert_eq!(database.engine().broker().reserved_bytes(), 0);
    }
}

#[test]
fn tables_count_until_they_are_dropped() {
    let database = database(Some(64 << 20));
    let session = database.session();
    let held = || database.engine().table_memory().reserved_bytes();
    let fill = |name: &str| {
        run(
            &session,
            &format!("CREATE TABLE {name} AS SELECT value FROM generate_series(1::BIGINT, 1000000) AS g(value)"),
        )
    };
    fill("t0").unwrap();
    let each = held();
    assert!(each >= 8_000_000, "{each}");

    let refused = (1..10).find_map(|table| fill(&format!("t{table}")).err()).expect("the budget is never exceeded");
    assert_eq!(refused.kind(), ErrorKind::Resource);
    assert!(refused.message().contains("the tables in memory hold"), "{refused}");
    assert_eq!(held() % each, 0, "a table that was refused holds nothing");

    run(&session, "DROP TABLE t0").unwrap();
    fill("t0").unwrap();
    run(&session, "CREATE OR REPLACE TABLE t1 AS SELECT 1 AS value").unwrap();
    run(&session, "INSERT OVERWRITE t2 SELECT 1").unwrap();
    run(&session, "TRUNCATE TABLE t3").unwrap();
    let before = held();
    run(&session, "INSERT INTO t3 SELECT value FROM generate_series(1::BIGINT, 1000000) AS g(value)").unwrap();
    assert!(held() >= before + 8_000_000);

    // Who still reads a table keeps it.
    let reader = session.execute("SELECT a.value FROM t0 a, t0 b").unwrap();
    let before = held();
    run(&session, "DROP TABLE t0").unwrap();
    assert_eq!(held(), before);
    drop(reader);
    diligence_tests::idle::wait(&database).unwrap();
    assert_eq!(held(), before - each);
    for table in database.tables() {
        run(&session, &format!("DROP TABLE {}", table.name)).unwrap();
    }
    assert_eq!((held(), database.engine().broker().reserved_bytes()), (0, 0));
}

#[test]
fn a_union_of_many_scans_needs_no_more_than_a_few() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("words.parquet").display().to_string();
    let session = database(None).session();
    let words = "md5(CAST(value AS VARCHAR)) || md5(CAST(value + 1 AS VARCHAR)) || md5(CAST(value + 2 AS VARCHAR))";
    run(
        &session,
        &format!("COPY (SELECT {words} AS s FROM generate_series(1::BIGINT, 300000) AS g(value)) TO '{file}'"),
    )
    .unwrap();
    let all = vec![format!("SELECT s FROM '{file}'"); 12].join(" UNION ALL ");
    for budget in [24 << 20, 48 << 20] {
        let session = database(Some(budget)).session();
        let sql = format!("SELECT max(n) FROM (SELECT row_number() OVER (ORDER BY s) AS n FROM ({all}))");
        let rows = run(&session, &sql).unwrap();
        assert_eq!(cast(rows.iter().find(|batch| batch.num_rows() > 0).unwrap()), 12 * 300_000);
    }
}

#[test]
fn many_sorts_and_groups_side_by_side_need_no_more_than_a_few() {
    const ROWS: i64 = 60_000;
    const PARTS: i64 = 20;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("words.parquet").display().to_string();
    let session = database(None).session();
    let words = "md5(CAST(value AS VARCHAR)) || md5(CAST(value + 1 AS VARCHAR))";
    let rows = format!("SELECT value AS v, {words} AS s FROM generate_series(1::BIGINT, {ROWS}) AS g(value)");
    run(&session, &format!("COPY ({rows}) TO '{file}'")).unwrap();
    let groups = "SELECT count(*) FROM (SELECT s, count(*) AS n FROM";
    let sorts = "SELECT max(n) FROM (SELECT row_number() OVER (ORDER BY s) AS n FROM";
    for (budget, select, end) in
        [(24 << 20, sorts, ""), (48 << 20, groups, "GROUP BY s"), (24 << 20, groups, "GROUP BY s")]
    {
        let session = database(Some(budget)).session();
        // No two are the same, so each is computed.
        let part = |part: i64| format!("({select} '{file}' WHERE v % {PARTS} <> {part} {end}))");
        let sql = format!("SELECT {}", (0..PARTS).map(part).collect::<Vec<_>>().join(" + "));
        let rows = run(&session, &sql).unwrap_or_else(|error| panic!("{budget}, {end}: {error}"));
        let count = cast(rows.iter().find(|batch| batch.num_rows() > 0).unwrap());
        assert_eq!(count, ROWS / PARTS * (PARTS - 1) * PARTS);
    }
}

/// Each of them has room alone. Those that are refused memory start again, and wait for it.
#[test]
fn queries_that_do_not_fit_together_all_end() {
    let database = database(Some(24 << 20));
    let sql = "SELECT k, count(DISTINCT v), min(t) FROM (SELECT x % 20000 AS k, x % 7 AS v, repeat('text', 20) || x AS t \
               FROM generate_series(1::BIGINT, 60000) AS g(x)) GROUP BY k ORDER BY min(t) DESC, k LIMIT 20";
    let expected = run(&database.session(), sql).unwrap();
    std::thread::scope(|scope| {
        for client in 0..24 {
            let (session, expected) = (database.session(), &expected);
            scope.spawn(move || {
                // Nothing is shared: each has its own.
                session.set("sharing", "off").unwrap();
                for _ in 0..2 {
                    let rows = run(&session, sql).unwrap_or_else(|error| panic!("client {client}: {error}"));
                    assert!(rows == *expected, "client {client}");
                }
            });
        }
    });
}

#[test]
fn many_joins_side_by_side_need_no_more_than_a_few() {
    const ROWS: i64 = 100_000;
    const PARTS: i64 = 12;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("words.parquet").display().to_string();
    let session = database(None).session();
    let words = "md5(CAST(value AS VARCHAR)) || md5(CAST(value + 1 AS VARCHAR))";
    let rows = format!("SELECT value AS v, {words} AS s FROM generate_series(1::BIGINT, {ROWS}) AS g(value)");
    run(&session, &format!("COPY ({rows}) TO '{file}'")).unwrap();
    for budget in [24 << 20, 48 << 20] {
        let session = database(Some(budget)).session();
        // No two are the same, so each has a table of its own.
        let part = |part: i64| {
            format!(
                "(SELECT count(*) FROM '{file}' a JOIN '{file}' b ON a.v = b.v + {part} AND a.s <= b.s || 'x' || a.s)"
            )
        };
        let sql = format!("SELECT {}", (0..PARTS).map(part).collect::<Vec<_>>().join(" + "));
        let rows = run(&session, &sql).unwrap_or_else(|error| panic!("{budget}: {error}"));
        assert!(cast(rows.iter().find(|batch| batch.num_rows() > 0).unwrap()) > ROWS);
    }
}
