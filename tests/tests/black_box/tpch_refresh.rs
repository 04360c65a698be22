//! TPC-H's refresh functions on tables on disk: RF1 brings orders with their items, RF2 takes orders with their items
//! away. Behind each pair the 22 queries have the answers that they have on tables made anew, also when the database
//! was opened again; and nobody sees an order without items meanwhile.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use arrow::util::pretty::pretty_format_batches;
use diligence_db::{Database, DatabaseOptions, Session};
use diligence_tests::data::tpch;
use diligence_tpch::QUERIES;

/// The tables that never change.
const OTHERS: [&str; 6] = ["region", "nation", "supplier", "customer", "part", "partsupp"];
const PAIRS: usize = 3;
/// Orders that are brought and taken away in transactions of their own; the rest of a pair goes at once.
const ALONE: usize = 10;

fn run(session: &Session, sql: &str) -> Vec<RecordBatch> {
    let done = session.execute(sql).and_then(|result| result.collect());
    done.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// The numbers in the first column.
fn numbers(session: &Session, sql: &str) -> Vec<i64> {
    let batches = run(session, sql);
    batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
}

/// Rows as text, in an order of their own: some queries leave it open.
fn answers(session: &Session) -> Vec<Vec<String>> {
    let answer = |sql: &&str| {
        let text = pretty_format_batches(&run(session, sql)).unwrap().to_string();
        let mut rows = text.lines().map(str::to_owned).collect::<Vec<_>>();
        rows.sort_unstable();
        rows
    };
    QUERIES.iter().map(answer).collect()
}

/// The numbers of the queries whose answers differ.
fn differing(found: &[Vec<String>], expected: &[Vec<String>]) -> Vec<usize> {
    let pairs = (1..).zip(found.iter().zip(expected));
    pairs.filter(|(_, (found, expected))| found != expected).map(|(number, _)| number).collect()
}

/// The new orders of a pair. Of each 32 numbers, TPC-H's data use the first eight.
fn new_orders(folder: &Path, pair: usize) -> String {
    let file = folder.join("orders.parquet");
    format!(
        "SELECT * REPLACE (o_orderkey + {} AS o_orderkey, (o_totalprice + {pair})::DECIMAL(15, 2) AS o_totalprice) \
         FROM '{}' WHERE o_orderkey % 100 = {pair}",
        8 * pair,
        file.display()
    )
}

fn new_items(folder: &Path, pair: usize) -> String {
    let file = folder.join("lineitem.parquet");
    format!(
        "SELECT * REPLACE (l_orderkey + {} AS l_orderkey, (l_quantity + {pair})::DECIMAL(15, 2) AS l_quantity) \
         FROM '{}' WHERE l_orderkey % 100 = {pair}",
        8 * pair,
        file.display()
    )
}

/// Which orders a pair takes away.
fn gone(pair: usize, key: &str) -> String {
    format!("{key} % 100 = {}", 50 + pair)
}

/// The tables as they are behind some pairs, made anew.
fn made_anew(folder: &Path, pairs: usize) -> Database {
    let database = Database::open(DatabaseOptions { workers: Some(2), ..DatabaseOptions::default() }).unwrap();
    let session = database.session();
    for table in OTHERS {
        run(&session, &format!("CREATE TABLE {table} AS SELECT * FROM '{}/{table}.parquet'", folder.display()));
    }
    let new: [(&str, &str, fn(&Path, usize) -> String); 2] =
        [("orders", "o_orderkey", new_orders), ("lineitem", "l_orderkey", new_items)];
    for (table, key, new) in new {
        let kept = (1..=pairs).map(|pair| format!("NOT ({})", gone(pair, key))).chain(["true".to_owned()]);
        let kept = kept.collect::<Vec<_>>().join(" AND ");
        let mut sql =
            format!("CREATE TABLE {table} AS SELECT * FROM '{}/{table}.parquet' WHERE {kept}", folder.display());
        for pair in 1..=pairs {
            sql += &format!(" UNION ALL ({})", new(folder, pair));
        }
        run(&session, &sql);
    }
    database
}

fn in_folder(folder: &Path) -> Database {
    let options = DatabaseOptions { folder: Some(folder.into()), workers: Some(2), ..DatabaseOptions::default() };
    Database::open(options).unwrap()
}

/// Tables with keys that refer to each other.
fn declare(session: &Session, folder: &Path) {
    for table in OTHERS.into_iter().chain(["orders", "lineitem"]) {
        run(session, &format!("CREATE TABLE {table} AS SELECT * FROM '{}/{table}.parquet'", folder.display()));
    }
    for key in [
        "customer ADD PRIMARY KEY (c_custkey)",
        "partsupp ADD PRIMARY KEY (ps_partkey, ps_suppkey)",
        "orders ADD PRIMARY KEY (o_orderkey)",
        "orders ADD FOREIGN KEY (o_custkey) REFERENCES customer",
        "lineitem ADD PRIMARY KEY (l_orderkey, l_linenumber)",
        "lineitem ADD FOREIGN KEY (l_orderkey) REFERENCES orders",
        "lineitem ADD FOREIGN KEY (l_partkey, l_suppkey) REFERENCES partsupp",
    ] {
        run(session, &format!("ALTER TABLE {key}"));
    }
}

/// RF1: some orders one by one, then all others.
fn bring(session: &Session, folder: &Path, pair: usize) {
    let (orders, items) = (new_orders(folder, pair), new_items(folder, pair));
    let keys = numbers(session, &format!("SELECT o_orderkey FROM ({orders}) ORDER BY 1 LIMIT {ALONE}"));
    for key in &keys {
        run(session, "BEGIN");
        run(session, &format!("INSERT INTO orders SELECT * FROM ({orders}) WHERE o_orderkey = {key}"));
        run(session, &format!("INSERT INTO lineitem SELECT * FROM ({items}) WHERE l_orderkey = {key}"));
        run(session, "COMMIT");
    }
    let last = keys.last().unwrap();
    run(session, "BEGIN");
    run(session, &format!("INSERT INTO orders SELECT * FROM ({orders}) WHERE o_orderkey > {last}"));
    run(session, &format!("INSERT INTO lineitem SELECT * FROM ({items}) WHERE l_orderkey > {last}"));
    run(session, "COMMIT");
}

/// RF2: some orders one by one, then all others.
fn take_away(session: &Session, pair: usize) {
    let sql = format!("SELECT o_orderkey FROM orders WHERE {} ORDER BY 1 LIMIT {ALONE}", gone(pair, "o_orderkey"));
    let alone = numbers(session, &sql).into_iter();
    let alone = alone.map(|key| [format!("l_orderkey = {key}"), format!("o_orderkey = {key}")]);
    for [items, orders] in alone.chain([[gone(pair, "l_orderkey"), gone(pair, "o_orderkey")]]) {
        run(session, "BEGIN");
        run(session, &format!("DELETE FROM lineitem WHERE {items}"));
        run(session, &format!("DELETE FROM orders WHERE {orders}"));
        run(session, "COMMIT");
    }
}

/// Looks for orders without items as long as it may; how often it has looked.
fn look(session: &Session, is_done: &AtomicBool) -> usize {
    let mut looks = 0;
    while !is_done.load(Ordering::Acquire) || looks == 0 {
        let without = "SELECT count(*) FROM orders WHERE o_orderkey NOT IN (SELECT l_orderkey FROM lineitem)";
        assert_eq!(numbers(session, without), [0]);
        looks += 1;
    }
    looks
}

#[test]
fn answers_follow_the_refresh_functions() {
    let folder = tpch(Path::new(env!("CARGO_TARGET_TMPDIR")), 0.01).unwrap();
    let own = tempfile::tempdir().unwrap();
    let mut database = in_folder(own.path());
    declare(&database.session(), &folder);
    for pair in 1..=PAIRS {
        let (session, other, is_done) = (database.session(), database.session(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let looking = scope.spawn(|| look(&other, &is_done));
            let refreshing = scope.spawn(|| {
                bring(&session, &folder, pair);
                take_away(&session, pair);
            });
            let refreshed = refreshing.join();
            is_done.store(true, Ordering::Release);
            println!("pair {pair}: {} looks", looking.join().unwrap());
            refreshed.unwrap();
        });
        let expected = answers(&made_anew(&folder, pair).session());
        assert_eq!(differing(&answers(&session), &expected), [0; 0], "behind pair {pair}");
        drop((session, other, database));
        database = in_folder(own.path());
        let session = database.session();
        assert_eq!(differing(&answers(&session), &expected), [0; 0], "behind pair {pair}, opened again");
        run(&session, "CHECKPOINT");
    }
}
