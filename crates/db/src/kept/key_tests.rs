//! Indexes whose keys are in files.

use std::path::{Path, PathBuf};

use diligence_native::SegmentSizes;

use crate::{Database, DatabaseOptions};

const SIZES: SegmentSizes = SegmentSizes { rows_min: 1, cluster_rows: 10_000, keys_min: 1000 };

fn open(folder: &Path) -> Database {
    let (workers, folder) = (Some(2), Some(folder.to_owned()));
    Database::open(DatabaseOptions { folder, segments: SIZES, workers, ..DatabaseOptions::default() }).unwrap()
}

fn run(database: &Database, sql: &str) {
    database
        .session()
        .execute(sql)
        .and_then(|result| result.collect())
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
}

fn code(database: &Database, sql: &str) -> String {
    let failed = database.session().execute(sql).and_then(|result| result.collect()).map(|_| ());
    failed.unwrap_err().code().unwrap_or_default().to_owned()
}

/// The values of one row.
fn row(database: &Database, sql: &str) -> Vec<String> {
    let rows = database.session().execute(sql).and_then(|result| result.collect()).unwrap();
    let batch = rows.iter().find(|batch| batch.num_rows() > 0).unwrap_or_else(|| panic!("no row: {sql}"));
    let value = |column: &arrow::array::ArrayRef| arrow::util::display::array_value_to_string(column, 0).unwrap();
    batch.columns().iter().map(value).collect()
}

fn key_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.join("segments")).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|ending| ending == "keys")).collect()
}

/// Changes a byte of a file.
fn damage(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 0x20;
    std::fs::write(path, bytes).unwrap();
}

const STATE: &str = "SELECT entries, runs, bytes, file_bytes > 0 FROM system.indexes WHERE name = 't_pkey'";

/// A table of 50,000 rows with two indexes, all of whose keys are in files.
fn filled(folder: &Path) -> Database {
    let database = open(folder);
    run(&database, "CREATE TABLE t (id BIGINT PRIMARY KEY, s TEXT)");
    run(&database, "INSERT INTO t SELECT g * 7919 % 50000, 'text ' || g FROM generate_series(1, 50000) u(g)");
    run(&database, "CREATE INDEX by_text ON t (s)");
    database.checkpoint().unwrap();
    database
}

#[test]
fn keys_in_files_need_next_to_no_memory_and_are_there_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let mut database = filled(&path);
    for round in 0..3 {
        let [entries, runs, bytes, has_file] = row(&database, STATE).try_into().unwrap();
        assert_eq!((entries.as_str(), has_file.as_str()), ("50000", "true"), "round {round}");
        assert_eq!(runs, "1");
        assert!(bytes.parse::<usize>().unwrap() < 75_000, "{bytes} bytes for 50,000 keys");
        assert_eq!(row(&database, "SELECT s FROM t WHERE id = 7919"), ["text 1"]);
        assert_eq!(row(&database, "SELECT min(id), max(id) FROM t"), ["0", "49999"]);
        assert_eq!(row(&database, "SELECT id FROM t WHERE s = 'text 2'"), ["15838"]);
        assert_eq!(row(&database, "SELECT count(*) FROM t WHERE id BETWEEN 100 AND 120"), ["21"]);
        assert_eq!(row(&database, "SELECT id FROM t ORDER BY id DESC LIMIT 1"), ["49999"]);
        assert_eq!(code(&database, "INSERT INTO t VALUES (77)"), "23505");
        drop(database);
        database = open(&path);
    }
    // Few keys stay in memory, and are found beside the others, also when the database is opened again.
    run(&database, "INSERT INTO t SELECT 100000 + g, 'new' FROM generate_series(1, 500) u(g)");
    run(&database, "DELETE FROM t WHERE id < 10");
    database.checkpoint().unwrap();
    drop(database);
    let database = open(&path);
    assert_eq!(row(&database, STATE)[..2], ["50500".to_owned(), "2".to_owned()]);
    assert_eq!(code(&database, "INSERT INTO t VALUES (100200)"), "23505");
    run(&database, "INSERT INTO t VALUES (5, 'again')");
    assert_eq!(row(&database, "SELECT s FROM t WHERE id = 5"), ["again"]);
    // Of rows that are gone nothing stays, and files that nobody has go.
    run(&database, "DELETE FROM t WHERE id > 9");
    database.checkpoint().unwrap();
    database.checkpoint().unwrap();
    assert_eq!(row(&database, "SELECT entries FROM system.indexes WHERE name = 't_pkey'"), ["1"]);
    assert!(key_files(&path).len() <= 2, "{:?}", key_files(&path));
}

#[test]
fn a_backup_has_the_files_of_keys() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let database = filled(&path("db"));
    run(&database, &format!("BACKUP DATABASE TO '{}'", path("copy").display()));
    drop(database);
    assert_eq!(key_files(&path("copy")).len(), 2);
    let copy = open(&path("copy"));
    assert_eq!(row(&copy, STATE)[3], "true");
    assert_eq!(row(&copy, "SELECT s FROM t WHERE id = 7919"), ["text 1"]);
}

#[test]
fn a_damaged_file_of_keys_is_found_and_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    drop(filled(&path));
    // A page: the rows are all there, and what needs the index to be right says which file it is.
    key_files(&path).iter().for_each(|file| damage(file, 200));
    let database = open(&path);
    assert_eq!(row(&database, "SELECT count(*), sum(id) FROM t"), ["50000", "1249975000"]);
    assert_eq!(code(&database, "INSERT INTO t SELECT g, '' FROM generate_series(0, 49999) u(g)"), "XX001");
    let rows = database.session().execute("CHECK TABLE t").and_then(|result| result.collect()).unwrap();
    let found = arrow::util::pretty::pretty_format_batches(&rows).unwrap().to_string();
    assert!(found.contains("the checksum of page 0 is wrong") && found.contains(".keys"), "{found}");
    // One index alone, and then whatever the schema has.
    run(&database, "REINDEX INDEX t_pkey");
    assert_eq!(code(&database, "INSERT INTO t SELECT g, '' FROM generate_series(0, 49999) u(g)"), "23505");
    let rows = database.session().execute("CHECK TABLE t").and_then(|result| result.collect()).unwrap();
    let found = arrow::util::pretty::pretty_format_batches(&rows).unwrap().to_string();
    assert!(found.contains("the checksum of page 0 is wrong"), "the other index: {found}");
    run(&database, "REINDEX SCHEMA public");
    let rows = database.session().execute("CHECK TABLE t").and_then(|result| result.collect()).unwrap();
    let found = arrow::util::pretty::pretty_format_batches(&rows).unwrap().to_string();
    assert!(!found.contains("checksum"), "{found}");
    assert_eq!(code(&database, "INSERT INTO t SELECT g, '' FROM generate_series(0, 49999) u(g)"), "23505");
    database.checkpoint().unwrap();
    drop(database);
    // The end: the index is made of the rows when the database is opened.
    for file in key_files(&path) {
        let last = std::fs::metadata(&file).unwrap().len() as usize - 3;
        damage(&file, last);
    }
    let database = open(&path);
    assert_eq!(code(&database, "INSERT INTO t VALUES (77)"), "23505");
    assert_eq!(row(&database, "SELECT id FROM t WHERE s = 'text 2'"), ["15838"]);
    database.checkpoint().unwrap();
    assert_eq!(row(&database, STATE)[3], "true");
}

#[test]
fn who_loads_many_rows_keeps_the_keys_that_they_refer_to() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(&folder.path().join("db"));
    run(&database, "CREATE TABLE p (id INT PRIMARY KEY)");
    run(&database, "CREATE TABLE c (id INT PRIMARY KEY, p INT REFERENCES p)");
    run(&database, "INSERT INTO p SELECT g FROM generate_series(1, 1000) u(g)");
    let [loads, takes] = [database.session(), database.session()];
    let outcome = |session: &crate::Session, sql: &str| {
        let done = session.execute(sql).and_then(|result| result.collect());
        done.err().map_or("", |error| error.code().unwrap_or("no code"))
    };
    assert_eq!(outcome(&takes, "SET lock_timeout = '50ms'"), "");
    for (end, expected) in [("ROLLBACK", ""), ("COMMIT", "23503")] {
        run(&database, "INSERT INTO p VALUES (5) ON CONFLICT DO NOTHING");
        assert_eq!(outcome(&loads, "BEGIN"), "");
        // Keys of the first rows are in segments, those of the last ones may be in memory.
        let load = "INSERT INTO c SELECT g, 1 + g / 200 FROM generate_series(1, 150000) u(g)";
        assert_eq!(outcome(&loads, load), "");
        for taken in ["DELETE FROM p WHERE id = 5", "UPDATE p SET id = -5 WHERE id = 5"] {
            assert_eq!(outcome(&takes, taken), "55P03", "{taken}");
        }
        assert_eq!(outcome(&takes, "DELETE FROM p WHERE id = 999"), "");
        assert_eq!(outcome(&loads, end), "");
        assert_eq!(outcome(&takes, "DELETE FROM p WHERE id = 5"), expected);
    }
}

/// A folder as a process that ends now would leave it.
fn copied(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(|entry| entry.unwrap().path()) {
        let own = to.join(entry.file_name().unwrap());
        match entry.is_dir() {
            true => copied(&entry, &own),
            false if own.ends_with("LOCK") => {}
            false => {
                std::fs::copy(&entry, &own).unwrap();
            }
        }
    }
}

#[test]
fn a_database_at_rest_leaves_no_numbers_out_if_its_process_just_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let database = open(&path("db"));
    run(&database, "CREATE SEQUENCE s");
    assert_eq!(row(&database, "SELECT nextval('s')"), ["1"]);
    copied(&path("db"), &path("crashed"));
    database.rest().unwrap();
    copied(&path("db"), &path("rested"));
    assert_eq!(row(&open(&path("rested")), "SELECT nextval('s')"), ["2"]);
    let next = row(&open(&path("crashed")), "SELECT nextval('s')")[0].parse::<i64>().unwrap();
    assert!(next > 1, "{next}");
    // It goes on.
    assert_eq!(row(&database, "SELECT nextval('s')"), ["2"]);
}
