//! What is allocated against what is reserved: an operator that holds more than it says is found out.
//!
//! One test in this file, because it counts the allocations of the whole process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};
use std::time::Duration;

use diligence_db::{Database, DatabaseOptions};
use diligence_tests::idle;

/// The system's allocator, which counts bytes. Reads and writes of temp space count, too: their buffers are allocated.
struct Counting;

static ALLOCATED: AtomicIsize = AtomicIsize::new(0);

// SAFETY: everything is done by the system's allocator; counting touches no memory of anybody's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        ALLOCATED.fetch_add(bytes as isize - layout.size() as isize, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What may be allocated beside what is reserved: the plan, a few batches on their way between operators, and what one
/// operator makes of one batch. It does not grow with the rows.
const BESIDE_BYTES: isize = 12 << 20;
/// The same where Parquet is written: what its encoders hold of a row group is estimated while they are at work.
const ENCODED_BYTES: isize = 32 << 20;

/// How often memory is looked at.
const LOOK: Duration = Duration::from_micros(200);

const BUDGETS: [usize; 3] = [16 << 20, 48 << 20, 1 << 30];

/// Each has some 100 MB of rows, groups or pairs.
const QUERIES: [(&str, &str); 16] = [
    (
        "sort",
        "SELECT * FROM (SELECT value, lpad(CAST(value * 7919 % 1000000 AS VARCHAR), 80, 'x') AS s FROM generate_series(1::BIGINT, 1000000) AS g(value)) ORDER BY s",
    ),
    (
        "join",
        "SELECT count(*), max(b.s) FROM generate_series(1::BIGINT, 1000000) a(value) JOIN (SELECT value, lpad(CAST(value AS VARCHAR), 80, 'x') AS s FROM generate_series(1::BIGINT, 1000000) AS g(value)) b ON a.value = b.value",
    ),
    (
        "groups",
        "SELECT count(*), max(s) FROM (SELECT lpad(CAST(value % 800000 AS VARCHAR), 80, 'x') AS s, count(*) AS n FROM generate_series(1::BIGINT, 1000000) AS g(value) GROUP BY s)",
    ),
    (
        "distinct",
        "SELECT count(DISTINCT value), count(DISTINCT lpad(CAST(value AS VARCHAR), 80, 'x')) FROM generate_series(1::BIGINT, 600000) AS g(value)",
    ),
    (
        "lists of 12 kB, as documents",
        "SELECT count(*), max(n) FROM (SELECT value % 1000 AS k, cardinality(array_agg(value)) AS n FROM generate_series(1::BIGINT, 1500000) AS g(value) GROUP BY k)",
    ),
    (
        "window",
        "SELECT count(w) FROM (SELECT lead(s, 10) OVER (ORDER BY s) AS w FROM (SELECT lpad(CAST(value * 7919 % 600000 AS VARCHAR), 80, 'x') AS s FROM generate_series(1::BIGINT, 600000) AS g(value)))",
    ),
    (
        "whole window",
        "SELECT count(w), max(s) FROM (SELECT s, count(*) OVER () AS w FROM (SELECT lpad(CAST(value AS VARCHAR), 80, 'x') AS s FROM generate_series(1::BIGINT, 600000) AS g(value)))",
    ),
    (
        "recursion",
        "WITH RECURSIVE r AS (SELECT value AS n, lpad(CAST(value AS VARCHAR), 80, 'x') AS s FROM generate_series(1::BIGINT, 200000) AS g(value) UNION SELECT n + 100000, s FROM r WHERE n <= 400000) SELECT count(*), max(s) FROM r",
    ),
    (
        "union",
        "SELECT count(*) FROM (SELECT value FROM generate_series(1::BIGINT, 2000000) AS g(value) UNION SELECT value FROM generate_series(1000000::BIGINT, 3000000) AS g(value))",
    ),
    (
        "pairs",
        "SELECT count(*), max(length(a.s)) FROM (SELECT value, lpad(CAST(value AS VARCHAR), 400, 'x') AS s FROM generate_series(1::BIGINT, 30000) AS g(value)) a JOIN (SELECT value, lpad(CAST(value AS VARCHAR), 400, 'y') AS s FROM generate_series(1::BIGINT, 30000) AS g(value)) b ON a.value < b.value - 29900 AND a.s < b.s",
    ),
    (
        "all pairs",
        "SELECT count(*), max(a.s), max(b.s) FROM (SELECT lpad(CAST(value AS VARCHAR), 400, 'x') AS s FROM generate_series(1::BIGINT, 2000) AS g(value)) a CROSS JOIN (SELECT lpad(CAST(value AS VARCHAR), 400, 'y') AS s FROM generate_series(1::BIGINT, 30000) AS g(value)) b",
    ),
    (
        "first rows",
        "SELECT * FROM (SELECT value, lpad(CAST(value * 7919 % 1000000 AS VARCHAR), 80, 'x') AS s FROM generate_series(1::BIGINT, 1000000) AS g(value)) ORDER BY s LIMIT 500000",
    ),
    (
        "except",
        "SELECT count(*) FROM (SELECT lpad(CAST(value AS VARCHAR), 80, 'x') AS s FROM generate_series(1::BIGINT, 600000) AS g(value) EXCEPT SELECT lpad(CAST(value * 2 AS VARCHAR), 80, 'x') FROM generate_series(1::BIGINT, 600000) AS g(value))",
    ),
    (
        "intersect",
        "SELECT count(*) FROM (SELECT lpad(CAST(value AS VARCHAR), 80, 'x') AS s FROM generate_series(1::BIGINT, 600000) AS g(value) INTERSECT SELECT lpad(CAST(value * 2 AS VARCHAR), 80, 'x') FROM generate_series(1::BIGINT, 600000) AS g(value))",
    ),
    (
        "common part",
        "WITH d AS (SELECT lpad(CAST(value % 400000 AS VARCHAR), 80, 'x') AS s, count(*) AS n FROM generate_series(1::BIGINT, 1000000) AS g(value) GROUP BY 1) SELECT count(*), max(a.s) FROM d a JOIN d b ON a.s = b.s AND a.n <= b.n",
    ),
    (
        "median",
        "SELECT median(v), percentile_cont(0.9) WITHIN GROUP (ORDER BY v) FROM (SELECT CAST(value * 7919 % 3000000 AS DOUBLE) AS v FROM generate_series(1::BIGINT, 3000000) AS g(value))",
    ),
];

/// The same for files, of some 100 MB: what is written, and what is read. `FILE` is one, `OTHER` another one.
const FILE_QUERIES: [(&str, &str); 4] = [
    (
        "copy",
        "COPY (SELECT value, lpad(CAST(value * 7919 % 1000000 AS VARCHAR), 80, 'x') AS s FROM generate_series(1::BIGINT, 1000000) AS g(value)) TO 'FILE'",
    ),
    ("scan", "SELECT count(*), max(s) FROM 'FILE'"),
    ("sorted copy", "COPY (SELECT * FROM 'FILE' ORDER BY s) TO 'OTHER'"),
    ("join of files", "SELECT count(*), max(b.s) FROM 'FILE' a JOIN 'OTHER' b ON a.s = b.s"),
];

/// The same for documents of 20 kB, 160 MB of them in `WIDE`.
const WIDE_QUERIES: [(&str, &str); 5] = [
    ("scan of documents", "SELECT count(*), max(doc) FROM 'WIDE'"),
    ("sort of documents", "SELECT * FROM 'WIDE' ORDER BY doc"),
    ("join of documents", "SELECT count(*), max(b.doc) FROM 'WIDE' a JOIN 'WIDE' b ON a.value = b.value"),
    ("groups of documents", "SELECT count(*), max(n) FROM (SELECT doc, count(*) AS n FROM 'WIDE' GROUP BY doc)"),
    ("window of documents", "SELECT count(w) FROM (SELECT lead(doc) OVER (ORDER BY value) AS w FROM 'WIDE')"),
];

/// The same for documents of 20 kB that functions make (`DOC` is one of `value`), and for lists.
const MADE_QUERIES: [(&str, &str); 13] = [
    ("result of made documents", "SELECT DOC FROM generate_series(1::BIGINT, 8000) AS g(value)"),
    (
        "constants in documents",
        "SELECT repeat('x', 20000) || CAST(value AS VARCHAR) FROM generate_series(1::BIGINT, 8000) AS g(value)",
    ),
    (
        "sort of made documents",
        "SELECT * FROM (SELECT value, DOC AS doc FROM generate_series(1::BIGINT, 8000) AS g(value)) ORDER BY doc",
    ),
    (
        "join of made documents",
        "SELECT count(*), max(b.doc) FROM generate_series(1::BIGINT, 8000) a(value) JOIN (SELECT value, DOC AS doc FROM generate_series(1::BIGINT, 8000) AS g(value)) b ON a.value = b.value",
    ),
    (
        "copies of made documents",
        "SELECT count(*), max(b.doc || 'x') FROM generate_series(1::BIGINT, 20000) a(value) JOIN (SELECT value, DOC AS doc FROM generate_series(1::BIGINT, 100) AS g(value)) b ON a.value % 100 + 1 = b.value",
    ),
    (
        "sorted copies of made documents",
        "SELECT * FROM (SELECT a.value, b.doc FROM generate_series(1::BIGINT, 8000) a(value) JOIN (SELECT value, DOC AS doc FROM generate_series(1::BIGINT, 100) AS g(value)) b ON a.value % 100 + 1 = b.value) ORDER BY value DESC",
    ),
    (
        "groups of made documents",
        "SELECT count(*), max(n) FROM (SELECT DOC AS doc, count(*) AS n FROM generate_series(1::BIGINT, 8000) AS g(value) GROUP BY DOC)",
    ),
    (
        "aggregate of made documents",
        "SELECT max(DOC), min(DOC || 'x') FROM generate_series(1::BIGINT, 8000) AS g(value)",
    ),
    (
        "window of made documents",
        "SELECT count(w) FROM (SELECT lead(doc) OVER (ORDER BY value) AS w FROM (SELECT value, DOC AS doc FROM generate_series(1::BIGINT, 8000) AS g(value)))",
    ),
    (
        "unnested lists beside documents",
        "SELECT max(doc), count(n) FROM (SELECT DOC AS doc, unnest(range(0, 50)) AS n FROM generate_series(1::BIGINT, 500) AS g(value))",
    ),
    (
        "lists of frames as documents",
        "SELECT max(cardinality(w)) FROM (SELECT array_agg(value) OVER (ORDER BY value) AS w FROM generate_series(1::BIGINT, 6000) AS g(value))",
    ),
    (
        "lists of groups as documents",
        "SELECT value % 1000 AS k, array_agg(value) FROM generate_series(1::BIGINT, 400000) AS g(value) GROUP BY k",
    ),
    (
        "copies of lists as documents",
        "SELECT count(*), max(array_length(list)) FROM generate_series(1::BIGINT, 20000) a(value) JOIN (SELECT value % 100 AS k, array_agg(value) AS list FROM generate_series(1::BIGINT, 200000) AS g(value) GROUP BY k) b ON a.value % 100 = b.k",
    ),
];

/// A document of 20 kB.
const DOC: &str = "repeat(lpad(CAST(value * 7919 % 10000 AS VARCHAR), 10, 'x'), 2000)";

/// Files of text with such documents behind 2 MB of short ones, which is more than anybody looks at before they are
/// read.
const TEXT_FILES: [(&str, &str); 4] = [
    ("CSV documents", "documents.csv"),
    ("packed CSV documents", "documents.csv.gz"),
    ("JSON documents", "documents.jsonl"),
    ("packed JSON documents", "documents.jsonl.gz"),
];

/// What of them may be on its way beside: a batch of 4 MiB at most that a packet has read, and what is made of it.
const WIDE_BYTES: isize = 24 << 20;

/// The most by which what is allocated is above what is reserved while a query runs, and who had reserved what then.
fn most_beside(database: &Database, sql: &str) -> (isize, String) {
    let before = ALLOCATED.load(Ordering::Relaxed);
    let broker = database.engine().broker();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let (mut most, mut holders) = (0, String::new());
            while !done.load(Ordering::Relaxed) {
                // Two looks at what is reserved around that at what is allocated: what happens in between is nobody's
                // fault.
                let reserved = broker.reserved_bytes();
                let allocated = ALLOCATED.load(Ordering::Relaxed) - before;
                let reserved = reserved.max(broker.reserved_bytes()) as isize;
                if allocated - reserved > most {
                    most = allocated - reserved;
                    let held = broker.holders().into_iter().map(|held| format!("{} {}", held.operator, held.bytes));
                    holders = held.collect::<Vec<_>>().join(", ");
                }
                std::thread::sleep(LOOK);
            }
            (most, holders)
        });
        let ended = database.session().execute(sql).and_then(|mut result| {
            while let Some(batch) = result.next_blocking() {
                batch?;
            }
            Ok(())
        });
        // Before anything can panic: the scope waits for the watcher.
        done.store(true, Ordering::Relaxed);
        let most = watcher.join().unwrap();
        ended.unwrap_or_else(|error| panic!("{sql}: {error}"));
        most
    })
}

/// Writes a text file.
fn write_text(database: &Database, path: &str) {
    let session = database.session();
    session.set("batch_rows", "64").unwrap();
    let sql = format!(
        "COPY (SELECT value, CASE WHEN value <= 150000 THEN 'short' ELSE {DOC} END AS doc \
         FROM generate_series(1::BIGINT, 158000) AS g(value) ORDER BY value) TO '{path}'"
    );
    session.execute(&sql).unwrap().collect().unwrap();
}

#[test]
fn what_is_held_is_reserved() {
    let text_folder = tempfile::tempdir().unwrap();
    let texts = TEXT_FILES.map(|(name, file)| (name, text_folder.path().join(file).display().to_string()));
    let database = Database::open(DatabaseOptions::default()).unwrap();
    texts.iter().for_each(|(_, path)| write_text(&database, path));
    drop(database);
    let mut wrong = Vec::new();
    for budget in BUDGETS {
        let options = DatabaseOptions { memory_bytes: Some(budget), workers: Some(2), ..DatabaseOptions::default() };
        let database = Database::open(options).unwrap();
        // Threads and caches are made once.
        most_beside(
            &database,
            "SELECT count(*) FROM generate_series(1::BIGINT, 100000) a(value) JOIN generate_series(1::BIGINT, 1000) b(value) USING (value)",
        );
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let of_files = FILE_QUERIES.map(|(name, sql)| {
            (name, sql.replace("FILE", &path("file.parquet")).replace("OTHER", &path("other.parquet")))
        });
        let session = database.session();
        // What a function makes of a row is known to nobody before.
        session.set("batch_rows", "64").unwrap();
        let documents = format!(
            "COPY (SELECT value, {DOC} AS doc FROM generate_series(1::BIGINT, 8000) AS g(value)) TO '{}'",
            path("wide.parquet")
        );
        session.execute(&documents).unwrap().collect().unwrap();
        let of_documents = WIDE_QUERIES.map(|(name, sql)| (name, sql.replace("WIDE", &path("wide.parquet"))));
        let made = MADE_QUERIES.map(|(name, sql)| (name, sql.replace("DOC", DOC)));
        let of_texts = texts.iter().map(|(name, path)| (*name, format!("SELECT count(*), max(doc) FROM '{path}'")));
        let all = QUERIES.map(|(name, sql)| (name, sql.to_owned())).into_iter().chain(of_files).chain(of_documents);
        for (name, sql) in all.chain(made).chain(of_texts) {
            let (most, holders) = most_beside(&database, &sql);
            idle::wait(&database).unwrap();
            let text = format!(
                "{name} at {} MiB: {:.1} MiB beside what is reserved by {holders:?}",
                budget >> 20,
                most as f64 / 1048576.0
            );
            println!("{text}");
            let beside = match name {
                _ if name.ends_with("documents") => WIDE_BYTES,
                _ if sql.starts_with("COPY") => ENCODED_BYTES,
                _ => BESIDE_BYTES,
            };
            if most > beside {
                wrong.push(text);
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
