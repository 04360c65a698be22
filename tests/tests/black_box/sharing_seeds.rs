//! Queries from a generator that come, read and leave at random get what each would get alone: over Parquet files,
//! which scans share by clusters, and over tables in memory, with everything that can be shared, one thread and an
//! order given by a seed.
//!
//! `DILIGENCE_SHARING_SEEDS` says how many seeds (300; 10,000 for a night), `DILIGENCE_SEED` which is the first.

use std::collections::HashMap;
use std::path::Path;

use arrow::array::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use diligence_base::seams::Random;
use diligence_db::{Database, DatabaseOptions, QueryResult, Session};
use diligence_tests::data::tpch;

const SEEDS: u64 = 300;
const SEEDS_ON_THREADS: u64 = 12;
const QUERIES: usize = 14;
const CLIENTS: usize = 10;
const SHAPES: usize = 22;

/// Files are the same for all seeds: a table like the Wisconsin benchmark's, in row groups of which each has a part of
/// every value, and TPC-H's.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let session = Database::open(DatabaseOptions::default()).unwrap().session();
    for part in 0..6 {
        let copy = format!(
            "COPY (SELECT (value * 7919) % 12000 AS unique1, value AS unique2, value % 2 AS two, value % 10 AS ten, \
                   CAST(value % 100 / 4.0 AS DECIMAL(9, 2)) AS onepercent, 'string ' || (value % 17) AS string4, \
                   CASE WHEN value % 5 = 0 THEN NULL ELSE value % 1000 END AS tenthous \
                   FROM generate_series({}, {}) AS g(value)) TO '{}'",
            part * 2000,
            part * 2000 + 1999,
            folder.path().join(format!("wisconsin/{part}.parquet")).display()
        );
        std::fs::create_dir_all(folder.path().join("wisconsin")).unwrap();
        session.execute(&copy).unwrap().collect().unwrap();
    }
    for table in ["lineitem", "orders", "customer"] {
        let from = tpch(Path::new(env!("CARGO_TARGET_TMPDIR")), 0.01).unwrap().join(format!("{table}.parquet"));
        std::os::unix::fs::symlink(from, folder.path().join(format!("{table}.parquet"))).unwrap();
    }
    folder
}

fn database(folder: &Path, inline_seed: Option<u64>, seed: u64) -> Database {
    let settings = vec![("sharing_rows".to_owned(), "0".to_owned())];
    let data = Some(folder.to_owned());
    let database = DatabaseOptions {
        data: data.into_iter().collect(),
        workers: Some(2),
        inline_seed,
        settings,
        ..DatabaseOptions::default()
    };
    let database = Database::open(database).unwrap();
    let session = database.session();
    // Some with what is kept for later, some without; some with so little memory that it must go.
    session.set("sharing_retained", ["0", "10"][seed as usize % 2]).unwrap();
    session.set("sharing_columns", ["30", "0", "80"][seed as usize % 3]).unwrap();
    if seed % 5 == 4 {
        session.set("memory", "24MB").unwrap();
    }
    for sql in [
        "CREATE TABLE small AS SELECT value AS ten, 'group ' || (value % 3) AS name FROM generate_series(0::BIGINT, 8) AS g(value)",
        "CREATE TABLE numbers AS SELECT value AS k, value % 10 AS ten, CAST(value % 777 AS DECIMAL(9, 2)) AS amount FROM generate_series(1::BIGINT, 3000) AS g(value)",
    ] {
        session.execute(sql).unwrap().collect().unwrap();
    }
    database
}

/// A statement of one of the shapes, whose rows have one order at most.
fn statement(shape: usize, random: &mut Random) -> String {
    let mut number = |bound: usize| random.below(bound);
    let (low, width) = (number(12_000), 500 + number(6000));
    let range = format!("unique1 BETWEEN {low} AND {}", low + width);
    let (ten, two) = (number(10), number(2));
    let day = format!("date '199{}-0{}-01'", 3 + number(5), 1 + number(9));
    let sum = ["sum(onepercent)", "max(unique2)", "count(tenthous)", "min(string4)"][number(4)];
    match shape {
        0 => format!("SELECT {sum}, count(*) FROM wisconsin WHERE {range}"),
        1 => format!(
            "SELECT ten, {sum}, count(*) FROM wisconsin WHERE two = {two} AND {range} GROUP BY ten ORDER BY ten"
        ),
        2 => format!(
            "SELECT name, sum(onepercent), count(DISTINCT tenthous) FROM wisconsin JOIN small ON wisconsin.ten = small.ten \
             WHERE {range} GROUP BY name ORDER BY name"
        ),
        3 => format!(
            "SELECT unique1, string4 FROM wisconsin WHERE {range} AND ten IN ({ten}, 3) ORDER BY unique1 LIMIT {}",
            1 + ten * 20
        ),
        4 => format!(
            "SELECT l_returnflag, sum(l_quantity), sum(l_extendedprice * (1 - l_discount)), avg(l_quantity), count(*) FROM lineitem \
             WHERE l_shipdate <= {day} GROUP BY l_returnflag ORDER BY l_returnflag"
        ),
        5 => format!(
            "SELECT o_orderpriority, count(*), sum(o_totalprice) FROM orders JOIN customer ON o_custkey = c_custkey \
             WHERE o_orderdate >= {day} AND c_mktsegment = '{}' GROUP BY o_orderpriority ORDER BY o_orderpriority",
            ["BUILDING", "MACHINERY", "AUTOMOBILE"][number(3)]
        ),
        6 => format!(
            "SELECT count(*), max(l_shipdate) FROM lineitem WHERE l_orderkey IN (SELECT o_orderkey FROM orders WHERE o_orderdate > {day})"
        ),
        7 => format!(
            "SELECT ten, sum(amount) FROM numbers WHERE k > {} AND ten <> {ten} GROUP BY ten ORDER BY ten",
            low / 5
        ),
        8 => format!(
            "SELECT unique2, rank() OVER (PARTITION BY two ORDER BY unique1) FROM wisconsin WHERE {range} ORDER BY unique2 LIMIT 50"
        ),
        // A common part, in a subquery and beside itself.
        11 => format!(
            "WITH d AS (SELECT ten, two, sum(unique2) AS total FROM wisconsin WHERE {range} GROUP BY ten, two) \
             SELECT ten, two, total FROM d WHERE total >= (SELECT avg(total) FROM d) ORDER BY ten, two"
        ),
        12 => format!(
            "WITH d AS (SELECT ten, count(*) AS n FROM wisconsin WHERE {range} GROUP BY ten) \
             SELECT a.ten, b.ten AS other, a.n FROM d a FULL JOIN d b ON a.ten = b.ten + 3 ORDER BY a.ten, b.ten"
        ),
        13 => format!(
            "SELECT small.name, count(unique1), sum(tenthous) FROM small LEFT JOIN wisconsin ON wisconsin.ten = small.ten AND {range} \
             GROUP BY small.name ORDER BY small.name"
        ),
        14 => format!(
            "SELECT count(*), max(total) FROM (SELECT string4, sum(unique2) AS total FROM wisconsin WHERE {range} GROUP BY string4 \
             HAVING count(*) > {})",
            ten * 20
        ),
        15 => format!(
            "SELECT count(*), sum(unique2) FROM wisconsin WHERE unique1 < (SELECT avg(unique1) FROM wisconsin WHERE two = {two}) AND ten = {ten}"
        ),
        16 => format!(
            "SELECT count(*), min(k) FROM numbers WHERE NOT EXISTS (SELECT 1 FROM wisconsin WHERE unique1 = k AND {range})"
        ),
        17 => format!(
            "SELECT c_mktsegment, sum(l_quantity), count(*) FROM customer JOIN orders ON c_custkey = o_custkey \
             JOIN lineitem ON o_orderkey = l_orderkey WHERE l_shipdate > {day} AND o_totalprice < {} \
             GROUP BY c_mktsegment ORDER BY c_mktsegment",
            100_000 + 1000 * low
        ),
        // Lists in an order, whose last key is never the same twice: of few different rows, with longer and shorter
        // keys, whole and in pages.
        18 | 19 => {
            let rows = ["two = 1 AND unique1 < 9000", "unique1 < 3000"][shape - 18];
            let keys = [
                "ten, unique2",
                "ten, two, unique2",
                "ten, unique2, string4",
                "ten DESC, unique2",
                "tenthous, unique2",
            ];
            let keys = [keys[number(5)], keys[shape % 2]][number(2)];
            let limit =
                ["", "LIMIT 10", "LIMIT 100", "LIMIT 20 OFFSET 5", "LIMIT 7 OFFSET 70", "OFFSET 300", "LIMIT 9999"];
            format!("SELECT unique2, ten, string4 FROM wisconsin WHERE {rows} ORDER BY {keys} {}", limit[number(7)])
        }
        // Conditions that are no comparisons of a column, at scans and above a join.
        20 => format!(
            "SELECT name, count(*), avg(CAST(unique2 AS INT)), max(string4) FROM wisconsin JOIN small ON wisconsin.ten = small.ten \
             WHERE (string4 LIKE 'string {ten}%' OR unique1 < {low}) AND NOT (two = {two} AND small.ten < {ten}) \
             GROUP BY name ORDER BY name"
        ),
        21 => format!(
            "SELECT l_returnflag, count(DISTINCT l_linenumber), sum(l_quantity), avg(CAST(l_linenumber AS SMALLINT)) FROM lineitem \
             WHERE l_shipmode NOT IN ('{}', 'RAIL') AND (l_shipdate <= {day} OR l_quantity > {ten}) \
             GROUP BY l_returnflag ORDER BY l_returnflag",
            ["AIR", "SHIP", "MAIL"][number(3)]
        ),
        // Fails for whoever meets the number.
        9 => format!("SELECT sum(100 / (unique1 - {})) FROM wisconsin WHERE {range}", 6000),
        _ => format!(
            "SELECT count(*), sum(unique1) FROM (SELECT unique1 FROM wisconsin WHERE ten = {ten} UNION ALL SELECT k FROM numbers WHERE ten = {ten})"
        ),
    }
}

/// The same with its columns in another order, or without the last one.
fn otherwise(sql: &str, leave_out: bool) -> String {
    let Some((columns, rest)) = sql.strip_prefix("SELECT ").and_then(|sql| sql.split_once(" FROM ")) else {
        return sql.to_owned();
    };
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for letter in columns.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        match parts.last_mut() {
            Some(part) if letter != ',' || depth > 0 => part.push(letter),
            _ => parts.push(String::new()),
        }
    }
    let mut parts: Vec<_> = parts.iter().map(|part| part.trim()).collect();
    match parts.pop() {
        Some(last) if !leave_out || parts.is_empty() => parts.insert(0, last),
        _ => {}
    }
    format!("SELECT {} FROM {rest}", parts.join(", "))
}

#[test]
fn columns_move_and_go() {
    let sql =
        "SELECT unique2, rank() OVER (PARTITION BY two, ten ORDER BY unique1), count(*) FROM (SELECT 1, 2 FROM t)";
    let moved =
        "SELECT count(*), unique2, rank() OVER (PARTITION BY two, ten ORDER BY unique1) FROM (SELECT 1, 2 FROM t)";
    assert_eq!(otherwise(sql, false), moved);
    assert_eq!(otherwise("SELECT a, sum(b) FROM t", true), "SELECT a FROM t");
    assert_eq!(otherwise("SELECT a FROM t", true), "SELECT a FROM t");
}

type Answer = Result<String, String>;

fn text(batches: &[RecordBatch]) -> String {
    pretty_format_batches(batches).unwrap().to_string()
}

fn alone(session: &Session, sql: &str) -> Answer {
    let answer = session.execute(sql).and_then(|result| result.collect());
    answer.map(|batches| text(&batches)).map_err(|error| error.message().to_owned())
}

/// What each statement gives alone: many seeds have the same.
struct Lone {
    session: Session,
    known: HashMap<String, Answer>,
}

impl Lone {
    fn answer(&mut self, sql: &str) -> Answer {
        self.known.entry(sql.to_owned()).or_insert_with(|| alone(&self.session, sql)).clone()
    }
}

struct Open {
    sql: String,
    result: QueryResult,
    batches: Vec<RecordBatch>,
}

/// One seed: statements of a few shapes come, and whoever is there reads a batch, or waits, or leaves.
fn run(database: &Database, seed: u64, lone: &mut Lone) {
    let mut random = Random::new(seed);
    let shapes = (0..1 + random.below(3)).map(|_| random.below(SHAPES)).collect::<Vec<_>>();
    let session = database.session();
    session.set("sharing", ["all", "all", "states", "scans"][random.below(4)]).unwrap();
    session.set("batch_rows", ["8192", "8192", "700"][random.below(3)]).unwrap();
    let mut open: Vec<Open> = Vec::new();
    let (mut come, mut slow) = (0, None);
    while come < QUERIES || !open.is_empty() {
        let choice = random.below(10);
        if come < QUERIES && (choice < 4 || open.is_empty()) {
            come += 1;
            let again = random.below(4) == 0 && !open.is_empty();
            let sql = if again {
                let sql = open[random.below(open.len())].sql.clone();
                match random.below(4) {
                    0 => otherwise(&sql, false),
                    1 => otherwise(&sql, true),
                    _ => sql,
                }
            } else {
                statement(shapes[random.below(shapes.len())], &mut random)
            };
            let result = session.start(&sql).unwrap_or_else(|error| panic!("seed {seed}: {sql}: {error}"));
            open.push(Open { sql, result, batches: Vec::new() });
            continue;
        }
        let reader = random.below(open.len());
        // One reads nothing as long as others are there.
        if slow.is_none() {
            slow = Some(open[reader].sql.clone());
        }
        if open.len() > 1 && come < QUERIES && slow.as_ref() == Some(&open[reader].sql) {
            continue;
        }
        if choice == 9 {
            drop(open.swap_remove(reader));
            continue;
        }
        let got = match open[reader].result.next_blocking() {
            Some(Ok(batch)) => {
                open[reader].batches.push(batch);
                continue;
            }
            Some(Err(error)) => Err(error.message().to_owned()),
            None => Ok(text(&open[reader].batches)),
        };
        let Open { sql, batches, .. } = open.swap_remove(reader);
        let expected = lone.answer(&sql);
        // A result of no rows has no batch, or an empty one.
        let is_empty = |answer: &Answer| answer.as_ref().is_ok_and(|text| text.lines().count() <= 4);
        assert!(
            got == expected || batches.is_empty() && is_empty(&expected),
            "seed {seed}: {sql}\n{got:?}\n{expected:?}"
        );
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn whoever_comes_gets_what_he_would_get_alone() {
    let folder = folder();
    let lonely = database(folder.path(), None, 1);
    let session = lonely.session();
    session.set("sharing", "off").unwrap();
    let mut lone = Lone { session, known: HashMap::new() };
    let (first, mut shared) = (number("DILIGENCE_SEED", 0), [0; 6]);
    for seed in first..first + number("DILIGENCE_SHARING_SEEDS", SEEDS) {
        let database = database(folder.path(), Some(seed), seed);
        run(&database, seed, &mut lone);
        let sharing = database.engine().sharing();
        for (sum, more) in shared.iter_mut().zip([
            sharing.columns_read_total,
            sharing.cohort_reads_total,
            sharing.satellites_total,
            sharing.merged_queries_total,
            sharing.retained_hits_total,
            sharing.tables_read_total,
        ]) {
            *sum += more;
        }
        // What was given up is dropped by whoever runs it.
        while database.engine().scheduler().run_one() {}
        diligence_tests::idle::wait(&database).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    println!("columns, clusters in cohorts, satellites, merged queries, retained states and hash tables: {shared:?}");
    assert!(shared.iter().all(|shared| *shared > 0), "{shared:?}");
}

#[test]
fn and_on_many_threads() {
    let folder = folder();
    let lonely = database(folder.path(), None, 1);
    lonely.session();
    let first = number("DILIGENCE_SEED", 0);
    for seed in first..first + number("DILIGENCE_SHARING_SEEDS", SEEDS) * SEEDS_ON_THREADS / SEEDS {
        let database = database(folder.path(), None, seed);
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                let (session, lonely) = (database.session(), lonely.session());
                lonely.set("sharing", "off").unwrap();
                let mut random = Random::new(seed * 1000 + client as u64);
                let shapes = [random.below(SHAPES), seed as usize % SHAPES];
                scope.spawn(move || {
                    for _ in 0..QUERIES {
                        let sql = statement(shapes[random.below(2)], &mut random);
                        match random.below(8) {
                            // Leaves at once, or after a batch.
                            0 => drop(session.start(&sql)),
                            2 => drop(session.start(&sql).map(|mut result| result.next_blocking())),
                            // Has its rows wait.
                            3 => {
                                let Ok(mut result) = session.start(&sql) else { continue };
                                std::thread::sleep(std::time::Duration::from_micros(random.below(5000) as u64));
                                while let Some(Ok(_)) = result.next_blocking() {}
                            }
                            1 => std::thread::sleep(std::time::Duration::from_micros(random.below(3000) as u64)),
                            _ => {}
                        }
                        assert_eq!(alone(&session, &sql), alone(&lonely, &sql), "seed {seed}: {sql}");
                    }
                });
            }
        });
        diligence_tests::idle::wait(&database).unwrap();
    }
}
