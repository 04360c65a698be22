//! Tests of what definitions say: names mean what they meant when a definition was made, follow what is called
//! otherwise, and hold no database shut when what they name is gone.

use arrow::array::Array;

use crate::Database;
use crate::test_sessions::{code, number, open, rows, run};

/// The functions, types and tables of two schemas, of which one uses what the other has.
const TWO_SCHEMAS: [&str; 15] = [
    "CREATE SCHEMA lab",
    "CREATE SCHEMA shop",
    "SET search_path = lab",
    "CREATE FUNCTION f(a INT) RETURNS INT LANGUAGE sql IMMUTABLE AS 'SELECT a + 1'",
    "CREATE TYPE mood AS ENUM ('sad', 'ok')",
    "CREATE SEQUENCE numbers",
    "CREATE TABLE base (a INT)",
    "INSERT INTO base VALUES (7)",
    "CREATE TABLE shop.t (x INT DEFAULT f(1), y INT CHECK (f(y) > 0), z INT GENERATED ALWAYS AS (f(y)) STORED, \
     m mood DEFAULT 'sad'::mood CHECK (m <> 'ok' OR y > 5), n INT DEFAULT nextval('numbers'))",
    "CREATE INDEX by_f ON shop.t (f(y))",
    "CREATE INDEX by_m ON shop.t (y) WHERE m = 'sad'::mood",
    "CREATE DOMAIN shop.positive AS INT CHECK (f(VALUE) > 1)",
    "CREATE TABLE shop.u (p shop.positive)",
    "CREATE VIEW shop.v AS WITH own AS (SELECT a FROM base) SELECT f(a) AS b, 'ok'::mood AS m FROM own",
    "CREATE MATERIALIZED VIEW shop.w AS SELECT f(a) AS b FROM base",
];

fn uses_two_schemas(database: &Database, rows: i64) {
    let session = database.session();
    run(&session, "INSERT INTO shop.t (y) VALUES (3)");
    assert_eq!(number(&session, "SELECT count(*) FROM shop.t WHERE x = 2 AND z = 4"), rows);
    assert_eq!(number(&session, "SELECT count(DISTINCT n) FROM shop.t"), rows);
    assert_eq!(code(&session, "INSERT INTO shop.t (y) VALUES (-3)"), "23514");
    assert_eq!(code(&session, "INSERT INTO shop.u VALUES (0)"), "23514");
    assert_eq!(number(&session, "SELECT b FROM shop.v"), 8);
    run(&session, "REFRESH MATERIALIZED VIEW shop.w");
    assert_eq!(number(&session, "SELECT b FROM shop.w"), 8);
    assert_eq!(number(&session, "SELECT count(*) FROM pg_indexes WHERE indexname IN ('by_f', 'by_m')"), 2);
}

#[test]
fn names_mean_what_they_meant_when_a_definition_was_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let database = open(&path);
    let session = database.session();
    TWO_SCHEMAS.iter().for_each(|sql| run(&session, sql));
    uses_two_schemas(&database, 1);
    drop((session, database));
    // Of the log, and of an image in which the table comes before what it calls.
    let database = open(&path);
    assert!(database.lost_indexes().is_empty());
    uses_two_schemas(&database, 2);
    database.checkpoint().unwrap();
    drop(database);
    let database = open(&path);
    assert!(database.lost_indexes().is_empty());
    uses_two_schemas(&database, 3);
    let export = folder.path().join("export");
    run(&database.session(), &format!("EXPORT DATABASE '{}'", export.display()));
    let other = open(&folder.path().join("other"));
    run(&other.session(), &format!("IMPORT DATABASE '{}'", export.display()));
    uses_two_schemas(&other, 4);
}

#[test]
fn definitions_follow_other_names_of_functions_types_and_labels() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let database = open(&path);
    let session = database.session();
    TWO_SCHEMAS.iter().for_each(|sql| run(&session, sql));
    run(&session, "ALTER FUNCTION f(INT) RENAME TO \"Next\"");
    run(&session, "ALTER FUNCTION \"Next\"(INT) SET SCHEMA shop");
    run(&session, "ALTER TYPE mood RENAME TO feeling");
    assert_eq!(code(&session, "ALTER TYPE feeling RENAME VALUE 'sad' TO 'blue'"), "0A000");
    run(&session, "DROP INDEX shop.by_m");
    run(&session, "ALTER TYPE feeling RENAME VALUE 'sad' TO 'blue'");
    run(&session, "ALTER TYPE feeling RENAME VALUE 'ok' TO 'fine'");
    run(&session, "ALTER SCHEMA shop RENAME TO store");
    drop((session, database));
    for round in 1..=2 {
        let database = open(&path);
        assert!(database.lost_indexes().is_empty());
        let session = database.session();
        run(&session, "INSERT INTO store.t (y) VALUES (3)");
        let fit = "SELECT count(*) FROM store.t WHERE x = 2 AND z = 4 AND m = 'blue'";
        assert_eq!(number(&session, fit), round);
        assert_eq!(code(&session, "INSERT INTO store.t (y, m) VALUES (3, 'fine')"), "23514");
        assert_eq!(number(&session, "SELECT b FROM store.v WHERE m = 'fine'"), 8);
        run(&session, "REFRESH MATERIALIZED VIEW store.w");
        assert_eq!(number(&session, "SELECT b FROM store.w"), 8);
        assert_eq!(code(&session, "INSERT INTO store.u VALUES (0)"), "23514");
        database.checkpoint().unwrap();
    }
}

#[test]
fn functions_of_indexes_go_with_them() {
    let database = Database::in_memory().unwrap();
    let session = database.session();
    for sql in [
        "CREATE FUNCTION f(a INT) RETURNS INT LANGUAGE sql IMMUTABLE AS 'SELECT a + 1'",
        "CREATE SCHEMA lab",
        "CREATE FUNCTION lab.f(a INT) RETURNS INT LANGUAGE sql IMMUTABLE AS 'SELECT a + 2'",
        "CREATE TABLE t (a INT, b INT DEFAULT lab.f(1), c INT DEFAULT f(1))",
        "CREATE INDEX one ON t (f(a))",
        "CREATE INDEX two ON t (a) WHERE lab.f(a) > 0",
    ] {
        run(&session, sql);
    }
    assert_eq!(code(&session, "DROP FUNCTION f(INT)"), "2BP01");
    run(&session, "DROP SCHEMA lab CASCADE");
    assert_eq!(number(&session, "SELECT count(*) FROM pg_indexes WHERE tablename = 't'"), 1);
    run(&session, "INSERT INTO t (a) VALUES (1)");
    assert_eq!(number(&session, "SELECT count(*) FROM t WHERE b IS NULL AND c = 2"), 1);
    run(&session, "DROP FUNCTION f(INT) CASCADE");
    assert_eq!(number(&session, "SELECT count(*) FROM pg_indexes WHERE tablename = 't'"), 0);
    run(&session, "INSERT INTO t (a) VALUES (1)");
}

#[test]
fn a_database_opens_without_an_index_that_nothing_computes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let database = open(&path);
    let session = database.session();
    for sql in [
        "CREATE FUNCTION g(a INT) RETURNS INT LANGUAGE sql IMMUTABLE AS 'SELECT a + 1'",
        "CREATE FUNCTION f(a INT) RETURNS INT LANGUAGE sql IMMUTABLE AS 'SELECT g(a)'",
        "CREATE TABLE t (a INT PRIMARY KEY, b INT)",
        "INSERT INTO t VALUES (1, 1), (2, 2)",
        "CREATE INDEX computed ON t (f(b))",
        "CREATE INDEX plain ON t (b)",
        // Bodies are texts: nothing knows that one names the other.
        "DROP FUNCTION g(INT)",
    ] {
        run(&session, sql);
    }
    database.checkpoint().unwrap();
    drop((session, database));
    let database = open(&path);
    let lost = database.lost_indexes();
    assert!(lost.len() == 1 && lost[0].contains("'computed'"), "{lost:?}");
    let session = database.session();
    run(&session, "INSERT INTO t VALUES (3, 3)");
    assert_eq!(number(&session, "SELECT sum(a) FROM t WHERE b > 1"), 5);
    assert_eq!(code(&session, "INSERT INTO t VALUES (3, 3)"), "23505");
    assert_eq!(number(&session, "SELECT count(*) FROM pg_indexes WHERE tablename = 't'"), 2);
    database.checkpoint().unwrap();
    drop((session, database));
    let database = open(&path);
    assert!(database.lost_indexes().is_empty());
    assert_eq!(number(&database.session(), "SELECT sum(a) FROM t WHERE b > 1"), 5);
}

#[test]
fn what_is_not_valid_is_kept_and_exported_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let database = open(&path);
    let session = database.session();
    for sql in [
        "CREATE TABLE p (id INT PRIMARY KEY)",
        "CREATE TABLE c (a INT, p INT, cube INT[][])",
        "INSERT INTO c VALUES (-1, 7, '{{1,2},{3,4}}')",
        "ALTER TABLE c ADD CONSTRAINT positive CHECK (a > 0) NOT VALID",
        "ALTER TABLE c ADD CONSTRAINT known FOREIGN KEY (p) REFERENCES p NOT VALID",
        "CREATE VIEW first AS SELECT a FROM c",
        "ALTER VIEW first RENAME TO \"Second\"",
    ] {
        run(&session, sql);
    }
    let export = folder.path().join("export");
    run(&session, &format!("EXPORT DATABASE '{}'", export.display()));
    let other = open(&folder.path().join("other"));
    run(&other.session(), &format!("IMPORT DATABASE '{}'", export.display()));
    let session = other.session();
    assert_eq!(number(&session, "SELECT cube[2][1] FROM c"), 3);
    assert_eq!(number(&session, "SELECT a FROM \"Second\""), -1);
    assert_eq!(number(&session, "SELECT count(*) FROM pg_constraint WHERE NOT convalidated"), 2);
    assert_eq!(code(&session, "INSERT INTO c VALUES (1, 8)"), "23503");
    assert_eq!(code(&session, "ALTER TABLE c VALIDATE CONSTRAINT positive"), "23514");
    let found = session.execute("CHECK TABLE c").and_then(|result| result.collect()).unwrap();
    let problems = found.iter().map(|batch| batch.column(2).len() - batch.column(2).null_count()).sum::<usize>();
    assert_eq!(problems, 0, "rows from before NOT VALID are no fault");
}

/// A definition that is shown, exported or listed can be read again, whichever words are names in it.
#[test]
fn words_of_sql_are_names_in_definitions() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::in_memory().unwrap();
    let session = database.session();
    let words = rows(&session, "SELECT word FROM pg_get_keywords() UNION SELECT 'struct' ORDER BY 1");
    assert!(words.len() > 400, "{words:?}");
    for word in &words {
        for sql in [
            format!("CREATE TABLE \"{word}\" (\"{word}\" INT, CONSTRAINT \"{word}\" PRIMARY KEY (\"{word}\"))"),
            format!(
                "CREATE TABLE \"of {word}\" (\"{word}\" INT REFERENCES \"{word}\" DEFERRABLE, UNIQUE (\"{word}\"))"
            ),
            format!("CREATE INDEX \"by {word}\" ON \"{word}\" (\"{word}\" DESC)"),
        ] {
            run(&session, &sql);
        }
    }
    let listed = "SELECT pg_get_indexdef(indexrelid) FROM pg_index UNION ALL SELECT pg_get_constraintdef(oid) \
                  FROM pg_constraint ORDER BY 1";
    let before = rows(&session, listed);
    let export = folder.path().join("export");
    run(&session, &format!("EXPORT DATABASE '{}'", export.display()));
    let other = Database::in_memory().unwrap();
    run(&other.session(), &format!("IMPORT DATABASE '{}'", export.display()));
    assert_eq!(rows(&other.session(), listed), before);
    // What is listed can be run again.
    for sql in rows(&session, "SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE NOT indisunique") {
        let dropped = sql.strip_prefix("CREATE INDEX ").and_then(|rest| rest.split_once(" ON ")).unwrap().0;
        run(&session, &format!("DROP INDEX {dropped}"));
        run(&session, &sql);
    }
}

#[test]
fn the_catalog_says_which_tables_others_refer_to() {
    let database = Database::in_memory().unwrap();
    let session = database.session();
    run(&session, "CREATE TABLE parents (a INT PRIMARY KEY)");
    run(&session, "CREATE TABLE children (a INT REFERENCES parents)");
    run(&session, "CREATE TABLE others (a INT)");
    let triggers = "SELECT relname, relhastriggers, relhasindex FROM pg_class WHERE relkind = 'r' ORDER BY 1";
    assert_eq!(rows(&session, triggers), ["children true false", "others false false", "parents true true"]);
}
