//! Many queries at once, each of which wants more than the whole budget: all finish, with the right answers.

use std::sync::Barrier;

use arrow::util::pretty::pretty_format_batches;
use diligence_base::seams::Random;
use diligence_db::{Database, DatabaseOptions, Session};
use diligence_tests::idle;

const QUERIES_AT_ONCE: usize = 16;

/// Each has more bytes than the largest budget here: rows of a sort, of both sides of a join, groups, windows, rounds.
const STATEMENTS: [&str; 6] = [
    "SELECT count(*), sum(r * value) FROM (SELECT value, row_number() OVER (ORDER BY s) AS r FROM
     (SELECT value, lpad(CAST(value * 7919 % 250000 AS VARCHAR), 100, 'x') AS s FROM generate_series(1::BIGINT, 250000) AS g(value)))",
    "SELECT s, value FROM (SELECT value, lpad(CAST(value * 7919 % 250000 AS VARCHAR), 100, 'x') AS s
     FROM generate_series(1::BIGINT, 250000) AS g(value)) ORDER BY s LIMIT 3 OFFSET 200000",
    "SELECT count(*), sum(a.value), max(b.s) FROM generate_series(1::BIGINT, 300000) a(value)
     JOIN (SELECT value, lpad(CAST(value AS VARCHAR), 100, 'x') AS s FROM generate_series(1::BIGINT, 300000) AS g(value)) b ON a.value = b.value",
    "SELECT count(*), sum(n), max(s) FROM
     (SELECT lpad(CAST(value % 200000 AS VARCHAR), 100, 'x') AS s, count(*) AS n FROM generate_series(1::BIGINT, 400000) AS g(value) GROUP BY s)",
    "SELECT count(*), count(w), sum(value) FROM (SELECT value, lead(s, 1000) OVER () AS w FROM
     (SELECT value, lpad(CAST(value AS VARCHAR), 100, 'x') AS s FROM generate_series(1::BIGINT, 300000) AS g(value)))",
    "WITH RECURSIVE r AS (SELECT value AS n, lpad(CAST(value AS VARCHAR), 100, 'x') AS s FROM generate_series(1::BIGINT, 100000) AS g(value)
     UNION ALL SELECT n + 50000, s FROM r WHERE n <= 100000) SELECT count(*), sum(n), max(s) FROM r",
];

fn answer(session: &Session, sql: &str) -> Result<String, String> {
    let batches =
        session.execute(sql).and_then(|result| result.collect()).map_err(|error| format!("{sql}: {error}"))?;
    Ok(pretty_format_batches(&batches).unwrap().to_string())
}

fn crowd(budget_bytes: usize, workers: usize, seed: u64) {
    let options = DatabaseOptions { workers: Some(workers), ..DatabaseOptions::default() };
    let alone = Database::open(options.clone()).unwrap();
    let expected = STATEMENTS.map(|sql| answer(&alone.session(), sql).unwrap());
    drop(alone);

    let database = Database::open(DatabaseOptions { memory_bytes: Some(budget_bytes), ..options }).unwrap();
    let start = Barrier::new(QUERIES_AT_ONCE);
    let mut random = Random::new(seed);
    let failures: Vec<String> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..QUERIES_AT_ONCE)
            .map(|_| {
                let which = random.below(STATEMENTS.len());
                let (database, start, expected) = (&database, &start, &expected);
                scope.spawn(move || {
                    let session = database.session();
                    start.wait();
                    match answer(&session, STATEMENTS[which]) {
                        Ok(found) if found == expected[which] => None,
                        Ok(found) => {
                            Some(format!("{}\nexpected\n{}\nfound\n{found}", STATEMENTS[which], expected[which]))
                        }
                        Err(error) => Some(error),
                    }
                })
            })
            .collect();
        clients.into_iter().filter_map(|client| client.join().unwrap()).collect()
    });
    idle::wait(&database).unwrap();
    let what = format!("budget {budget_bytes}, {workers} workers, seed {seed}");
    assert!(failures.is_empty(), "{what}: {} failures\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn sixteen_queries_in_the_smallest_budget_finish() {
    crowd(16 << 20, 2, 1);
}

#[test]
fn sixteen_queries_in_a_small_budget_finish() {
    crowd(40 << 20, 4, 2);
}

#[test]
fn sixteen_queries_on_one_worker_finish() {
    crowd(24 << 20, 1, 3);
}
