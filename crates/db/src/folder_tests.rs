//! Tests of databases on disk: several processes, repair, the past, bounds of fragments, and changes of definitions
//! beside changes of rows.

use std::fs;
use std::path::Path;

use arrow::array::{Array, AsArray};
use diligence_native::SegmentSizes;

use crate::test_sessions::{code, in_folder, number, run};
use crate::{Database, DatabaseOptions, Holder, Session};

/// Segments of few rows.
const SMALL: SegmentSizes = SegmentSizes { rows_min: 100, cluster_rows: 1000, keys_min: 20 };

fn options(folder: &Path) -> DatabaseOptions {
    DatabaseOptions { segments: SMALL, ..in_folder(folder) }
}

fn open(folder: &Path) -> Database {
    Database::open(options(folder)).unwrap()
}

#[test]
fn others_read_the_last_checkpoint_and_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let writer = open(&path);
    let writing = writer.session();
    run(&writing, "CREATE TABLE t (a INT PRIMARY KEY)");
    run(&writing, "INSERT INTO t SELECT generate_series(1, 500)");
    writer.checkpoint().unwrap();
    run(&writing, "INSERT INTO t VALUES (1000)");
    run(&writing, "CREATE TABLE later (a INT)");
    assert_eq!(Database::open(options(&path)).map(|_| ()).unwrap_err().code(), Some("55006"));
    let holder = Holder::of_folder(&path).unwrap().unwrap();
    assert_eq!((holder.door.clone(), holder.process), (None, format!("process {}", std::process::id())));
    writer.has_door("postgres://127.0.0.1:5433/diligence").unwrap();
    let door = Holder::of_folder(&path).unwrap().unwrap().door;
    assert_eq!(door.as_deref(), Some("postgres://127.0.0.1:5433/diligence"));
    let reader = Database::open(DatabaseOptions { read_only: true, ..options(&path) }).unwrap();
    let reading = reader.session();
    assert!(reader.is_read_only() && !writer.is_read_only());
    assert_eq!(number(&reading, "SELECT count(*) FROM t"), 500);
    for refused in ["INSERT INTO t VALUES (7000)", "CREATE TABLE mine (a INT)", "DROP TABLE t", "DELETE FROM t"] {
        assert_eq!(code(&reading, refused), "25006", "{refused}");
    }
    assert_eq!(code(&reading, "SELECT * FROM later"), "42P01");
    run(&reading, "CREATE TEMP TABLE mine AS SELECT a FROM t");
    run(&reading, "DELETE FROM mine WHERE a > 10");
    assert_eq!(number(&reading, "SELECT count(*) FROM mine"), 10);
    // What the reader has stays, whatever becomes of it.
    run(&writing, "DELETE FROM t WHERE a % 2 = 0");
    writer.checkpoint().unwrap();
    run(&writing, "TRUNCATE t");
    writer.checkpoint().unwrap();
    assert_eq!(number(&reading, "SELECT sum(a) FROM t"), 125_250);
    let segments = || fs::read_dir(path.join("segments")).unwrap().count();
    assert!(segments() > 0);
    drop((reading, reader));
    run(&writing, "INSERT INTO t VALUES (1)");
    writer.checkpoint().unwrap();
    assert_eq!((number(&writing, "SELECT count(*) FROM t"), segments()), (1, 0));
    drop((writing, writer));
    assert_eq!(Holder::of_folder(&path).unwrap(), None);
}

/// Changes the bytes in the middle of a file.
fn damage(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 8].iter_mut().for_each(|byte| *byte ^= 0x5a);
    fs::write(path, bytes).unwrap();
}

fn only_file(folder: &Path, stem: &str) -> std::path::PathBuf {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let named = |path: &std::path::PathBuf| path.file_name().unwrap().to_str().unwrap().contains(stem);
    let mut files = files.filter(named).collect::<Vec<_>>();
    files.sort();
    files.pop().unwrap()
}

#[test]
fn repair_saves_what_can_be_read() {
    for format in ["parquet", "diligence"] {
        let folder = tempfile::tempdir().unwrap();
        let (path, saved) = (folder.path().join("db"), folder.path().join("saved"));
        {
            let database = open(&path);
            let session = database.session();
            run(&session, &format!("SET segment_format = {format}"));
            run(&session, "CREATE TABLE small (a INT PRIMARY KEY, b TEXT)");
            run(&session, "INSERT INTO small VALUES (1, 'one')");
            run(&session, "CREATE TABLE large (a BIGINT PRIMARY KEY, b TEXT)");
            run(&session, "INSERT INTO large SELECT g, md5(g::text) FROM generate_series(1, 900) g");
            database.checkpoint().unwrap();
            run(&session, "INSERT INTO small VALUES (2, 'two')");
            run(&session, "INSERT INTO large VALUES (5000, 'later')");
        }
        // Nothing is wrong.
        let repaired = Database::repair(&path, &saved, None).unwrap();
        assert_eq!((repaired.findings, repaired.rows_lost, repaired.tables, repaired.rows), (vec![], 0, 2, 903));
        assert_eq!(Database::repair(&path, &saved, None).unwrap_err().code(), Some("58P02"));
        fs::remove_dir_all(&saved).unwrap();
        // A cluster is damaged.
        let ending = if format == "parquet" { ".parquet" } else { ".seg" };
        damage(&only_file(&path.join("segments"), ending));
        let repaired = Database::repair(&path, &saved, None).unwrap();
        assert_eq!((repaired.rows_lost, repaired.tables, repaired.rows), (900, 2, 3), "{:?}", repaired.findings);
        assert!(repaired.findings.iter().any(|finding| finding.contains("large: 900 rows are lost")));
        {
            let database = open(&saved);
            let session = database.session();
            assert_eq!(number(&session, "SELECT max(a) FROM large"), 5000);
            run(&session, "INSERT INTO large VALUES (1, 'again')");
            assert_eq!(code(&session, "INSERT INTO large VALUES (5000, 'twice')"), "23505");
            assert_eq!(number(&session, "SELECT count(*) FROM small"), 2);
        }
        fs::remove_dir_all(&saved).unwrap();
        // Its file is missing, and so it does not open at all.
        fs::remove_file(only_file(&path.join("segments"), ending)).unwrap();
        assert!(Database::open(options(&path)).is_err());
        let repaired = Database::repair(&path, &saved, None).unwrap();
        assert_eq!((repaired.tables, repaired.rows), (2, 3), "{:?}", repaired.findings);
        assert_eq!(number(&open(&saved).session(), "SELECT count(*) FROM large"), 1);
    }
}

#[test]
fn repair_applies_the_log_up_to_the_first_record_that_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let (path, saved) = (folder.path().join("db"), folder.path().join("saved"));
    {
        let database = open(&path);
        let session = database.session();
        run(&session, "CREATE TABLE t (a INT, b TEXT)");
        for a in 0..100 {
            run(&session, &format!("INSERT INTO t VALUES ({a}, repeat('x', 100))"));
        }
    }
    // A log is longer than its records; the middle of those is damaged.
    let log = only_file(&path, "log-");
    let mut bytes = fs::read(&log).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[end / 2] ^= 0x5a;
    fs::write(&log, bytes).unwrap();
    let before = fs::read(&log).unwrap();
    let error = Database::open(options(&path)).unwrap_err();
    assert_eq!(error.code(), Some("XX001"), "{error}");
    assert!(error.hint().unwrap().contains("diligence repair"), "{error}");
    let repaired = Database::repair(&path, &saved, None).unwrap();
    assert_eq!(repaired.findings.len(), 1, "{:?}", repaired.findings);
    assert!(repaired.findings[0].contains("the records from it on are left out"));
    assert_eq!(before, fs::read(&log).unwrap());
    let session = open(&saved).session();
    let rows = number(&session, "SELECT count(*) FROM t");
    assert!((20..80).contains(&rows), "{rows}");
    assert_eq!(number(&session, "SELECT max(a) FROM t"), rows - 1);
}

#[test]
fn tables_are_read_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let database = open(&path);
    let session = database.session();
    run(&session, "CREATE TABLE t (a INT PRIMARY KEY, b INT)");
    run(&session, "INSERT INTO t SELECT g, g FROM generate_series(1, 500) g");
    let time = || {
        let rows = session.execute("SELECT clock_timestamp()::text").unwrap().collect().unwrap();
        rows[0].column(0).as_string_view().value(0).to_owned()
    };
    let at = |time: &str, sql: &str| number(&session, &sql.replace("$", &format!("t FOR SYSTEM_TIME AS OF '{time}'")));
    assert_eq!(code(&session, "SELECT * FROM t FOR SYSTEM_TIME AS OF now()"), "72000");
    let before = time();
    run(&session, "SET history_retention = '1h'");
    let first = time();
    run(&session, "DELETE FROM t WHERE a > 100");
    run(&session, "UPDATE t SET b = 0");
    let second = time();
    database.checkpoint().unwrap();
    run(&session, "ALTER TABLE t ADD COLUMN c INT DEFAULT 7");
    run(&session, "DELETE FROM t");
    let third = time();
    run(&session, "DROP TABLE t");
    database.checkpoint().unwrap();
    assert_eq!(at(&first, "SELECT count(*) FROM $"), 500);
    assert_eq!(at(&first, "SELECT sum(b) FROM $ WHERE a <= 10"), 55);
    assert_eq!(at(&second, "SELECT count(*) + sum(b) FROM $"), 100);
    assert_eq!(at(&third, "SELECT count(c) FROM $"), 0);
    let both = format!(
        "SELECT count(*) FROM t AT (TIMESTAMP => '{first}') AS x JOIN t AT (TIMESTAMP => '{second}') y ON x.a = y.a"
    );
    assert_eq!(number(&session, &both), 100);
    assert_eq!(code(&session, &format!("SELECT * FROM t FOR SYSTEM_TIME AS OF '{before}'")), "72000");
    assert_eq!(code(&session, "SELECT * FROM t FOR SYSTEM_TIME AS OF '2999-01-01'"), "22023");
    assert_eq!(code(&session, "SELECT * FROM nowhere FOR SYSTEM_TIME AS OF now()"), "42P01");
    // The moment may be a parameter.
    run(&session, "CREATE TABLE u (a INT)");
    run(&session, "INSERT INTO u VALUES (1), (2)");
    let filled = time();
    run(&session, "DELETE FROM u");
    run(
        &session,
        "PREPARE earlier (timestamptz, int) AS SELECT count(*) FROM u FOR SYSTEM_TIME AS OF $1 WHERE a >= $2",
    );
    for (moment, least, expected) in [(&filled, 1, 2), (&filled, 2, 1), (&time(), 1, 0)] {
        let rows = session.execute(&format!("EXECUTE earlier('{moment}', {least})")).unwrap().collect().unwrap();
        let count = rows[0].column(0).as_primitive::<arrow::datatypes::Int64Type>().value(0);
        assert_eq!(count, expected, "{moment}, {least}");
    }
    assert_eq!(code(&session, &format!("EXECUTE earlier('{before}', 1)")), "72000");
    let statement = session.parse("SELECT count(*) FROM u FOR SYSTEM_TIME AS OF $1::timestamptz").unwrap();
    let moment: arrow::array::ArrayRef =
        std::sync::Arc::new(arrow::array::StringViewArray::from(vec![filled.as_str()]));
    let planned = session.plan(&statement, &[moment]).unwrap();
    let rows = session.start_planned(planned).and_then(|result| result.collect()).unwrap();
    assert_eq!(rows[0].column(0).as_primitive::<arrow::datatypes::Int64Type>().value(0), 2);
    assert_eq!(number(&session, "SELECT retention_ms FROM system.history"), 3_600_000);
    assert!(number(&session, "SELECT states FROM system.history") > 4);
    // Another table of its name does not stand in its way.
    run(&session, "CREATE TABLE t (x INT)");
    assert_eq!(at(&first, "SELECT count(*) FROM $"), 500);
    assert_eq!(at(&time(), "SELECT count(x) FROM $"), 0);
    // Names that were words of the clause before.
    run(&session, "CREATE TABLE at (before INT)");
    assert_eq!(number(&session, "SELECT count(*) FROM at at WHERE at.before IS NULL"), 0);
    run(&session, "SET history_retention = 0");
    assert_eq!(number(&session, "SELECT states FROM system.history"), 0);
}

/// Copies a folder as it is, as a crash of the process would leave it.
fn copied(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match from.is_dir() {
            true => copied(&from, &to),
            false => assert!(fs::copy(&from, &to).is_ok()),
        }
    }
}

#[test]
fn settings_for_all_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let shown = |session: &Session, name: &str| session.setting(name).unwrap();
    let check = |database: &Database, sharing: &str, fragments: &str| {
        let session = database.session();
        assert_eq!(shown(&session, "sharing_columns"), sharing);
        assert_eq!(shown(&session, "fragment_wise"), fragments);
        assert_eq!(shown(&session, "query_memory"), "65.0 MiB");
    };
    {
        let database = open(&path);
        let session = database.session();
        run(&session, "ALTER SYSTEM SET sharing_columns = 11");
        run(&session, "ALTER SYSTEM SET fragment_wise = off");
        run(&session, "ALTER ROLE ALL SET query_memory = '65MiB'");
        assert_eq!(code(&session, "ALTER SYSTEM SET fragment_wise = perhaps"), "22023");
        assert_eq!(shown(&session, "fragment_wise"), "on");
        check(&database, "11", "off");
    }
    // From the log, then from an image.
    let database = open(&path);
    check(&database, "11", "off");
    database.checkpoint().unwrap();
    drop(database);
    let database = open(&path);
    check(&database, "11", "off");
    // What is said when the database is opened comes first.
    drop(database);
    let settings = vec![("sharing_columns".to_owned(), "12".to_owned()), ("fragment_wise".to_owned(), "on".to_owned())];
    let database = Database::open(DatabaseOptions { settings, ..options(&path) }).unwrap();
    check(&database, "12", "on");
    let export = folder.path().join("export");
    run(&database.session(), &format!("EXPORT DATABASE '{}'", export.display()));
    let other = open(&folder.path().join("other"));
    run(&other.session(), &format!("IMPORT DATABASE '{}'", export.display()));
    check(&other, "30", "off");
    run(&other.session(), "ALTER SYSTEM RESET fragment_wise");
    assert_eq!(shown(&other.session(), "fragment_wise"), "on");
}

#[test]
fn the_past_outlives_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let time = |session: &Session| {
        let rows = session.execute("SELECT clock_timestamp()::text").unwrap().collect().unwrap();
        rows[0].column(0).as_string_view().value(0).to_owned()
    };
    let at = |session: &Session, time: &str, sql: &str| {
        number(session, &sql.replace("$", &format!("t FOR SYSTEM_TIME AS OF '{time}'")))
    };
    let database = open(&path);
    let session = database.session();
    run(&session, "CREATE FUNCTION half(a INT) RETURNS INT LANGUAGE sql IMMUTABLE AS 'SELECT a / 2'");
    run(&session, "CREATE TABLE t (a INT PRIMARY KEY, b INT, m INT GENERATED ALWAYS AS (half(b)) STORED)");
    run(&session, "CREATE INDEX halves ON t (half(a))");
    run(&session, "INSERT INTO t SELECT g, g FROM generate_series(1, 3000) g");
    let before = time(&session);
    run(&session, "SET history_retention = '1h'");
    let first = time(&session);
    run(&session, "DELETE FROM t WHERE a > 100");
    run(&session, "UPDATE t SET b = 0");
    let second = time(&session);
    database.checkpoint().unwrap();
    run(&session, "ALTER TABLE t ADD COLUMN c INT DEFAULT 7");
    run(&session, "BEGIN");
    run(&session, "DELETE FROM t WHERE a > 50");
    let inside = time(&session);
    run(&session, "DELETE FROM t WHERE a > 10");
    run(&session, "COMMIT");
    let third = time(&session);
    run(&session, "DROP TABLE t");
    run(&session, "CREATE TABLE u (a INT)");
    let check = |session: &Session, setting: &str| {
        assert_eq!(number(session, "SELECT retention_ms FROM system.history"), 3_600_000, "{setting}");
        assert_eq!(at(session, &first, "SELECT count(*) FROM $"), 3000, "{setting}");
        assert_eq!(at(session, &first, "SELECT sum(m) FROM $ WHERE a <= 10"), 25, "{setting}");
        assert_eq!(at(session, &first, "SELECT b FROM $ WHERE half(a) = 40 AND a % 2 = 1"), 81, "{setting}");
        assert_eq!(at(session, &second, "SELECT count(*) + sum(b) FROM $"), 100, "{setting}");
        assert_eq!(at(session, &inside, "SELECT sum(c) FROM $"), 700, "{setting}");
        assert_eq!(at(session, &third, "SELECT sum(c) FROM $"), 70, "{setting}");
        assert_eq!(code(session, &format!("SELECT * FROM t AT (TIMESTAMP => '{before}')")), "72000", "{setting}");
        assert_eq!(code(session, "SELECT * FROM t FOR SYSTEM_TIME AS OF now()"), "42P01", "{setting}");
        let both = format!(
            "SELECT count(*) FROM t AT (TIMESTAMP => '{first}') x JOIN t AT (TIMESTAMP => '{third}') y \
                            ON x.a = y.a"
        );
        assert_eq!(number(session, &both), 10, "{setting}");
    };
    check(&session, "the same process");
    let crashed = folder.path().join("crashed");
    copied(&path, &crashed);
    drop((session, database));
    for (folder, setting) in [(&path, "closed and opened"), (&crashed, "after a crash")] {
        let database = open(folder);
        let session = database.session();
        check(&session, setting);
        // Checkpoints take nothing of it, and RESET ALL does not end it.
        database.checkpoint().unwrap();
        run(&session, "INSERT INTO u VALUES (1)");
        run(&session, "RESET ALL");
        database.checkpoint().unwrap();
        check(&session, setting);
        drop((session, database));
        let database = open(folder);
        let session = database.session();
        check(&session, setting);
        // A backup begins without a past.
        let backup = folder.with_extension("backup");
        run(&session, &format!("BACKUP DATABASE TO '{}'", backup.display()));
        let restored = open(&backup).session();
        assert_eq!(number(&restored, "SELECT retention_ms FROM system.history"), 0);
        assert_eq!(number(&restored, "SELECT count(*) FROM u"), 1);
        run(&session, "SET history_retention = 0");
        drop((session, database));
        let session = open(folder).session();
        assert_eq!(number(&session, "SELECT retention_ms FROM system.history"), 0);
        assert_eq!(code(&session, &format!("SELECT * FROM t AT (TIMESTAMP => '{first}')")), "72000");
    }
}

#[test]
fn a_large_first_insert_chooses_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    for is_in_block in [false, true] {
        {
            let database = open(&path);
            let session = database.session();
            run(&session, "CREATE TABLE t (a INT PRIMARY KEY, b TEXT) DISTRIBUTED BY RANGE (a) UNIFORM FRAGMENTS 4");
            if is_in_block {
                run(&session, "BEGIN");
            }
            run(&session, "INSERT INTO t SELECT g, 'x' FROM generate_series(1, 20000) g");
            if is_in_block {
                run(&session, "COMMIT");
            }
            assert_eq!(number(&session, "SELECT count(*) FROM system.fragments WHERE rows > 1000"), 4);
            assert_eq!(code(&session, "INSERT INTO t VALUES (7, 'twice')"), "23505");
        }
        let database = open(&path);
        let session = database.session();
        assert_eq!(number(&session, "SELECT count(*) FROM system.fragments WHERE rows > 1000"), 4);
        assert_eq!(number(&session, "SELECT sum(a) FROM t"), 200_010_000);
        run(&session, "DROP TABLE t");
    }
}

#[test]
fn a_definition_changes_when_those_who_change_rows_have_ended() {
    let database = Database::open(DatabaseOptions { workers: Some(2), ..DatabaseOptions::default() }).unwrap();
    let [one, two] = [(); 2].map(|()| database.session());
    for (change, then) in [
        ("ALTER TABLE t ADD COLUMN c INT", "SELECT count(*) - count(c) FROM t"),
        ("ALTER TABLE t ADD COLUMN c INT DEFAULT 7", "SELECT sum(c) - 12 FROM t"),
        ("ALTER TABLE t ALTER COLUMN a TYPE BIGINT", "SELECT sum(a) - 1 FROM t"),
        ("ALTER TABLE t DROP COLUMN b", "SELECT count(*) FROM t"),
        ("CREATE INDEX i ON t (b)", "SELECT count(*) FROM t WHERE b > 0"),
        ("TRUNCATE t", "SELECT 2 + count(*) FROM t"),
        ("ALTER TABLE t RENAME TO u", "SELECT count(*) FROM u"),
    ] {
        run(&one, "DROP TABLE IF EXISTS t, u");
        run(&one, "CREATE TABLE t (a INT, b INT)");
        run(&one, "INSERT INTO t VALUES (1, 1)");
        run(&one, "BEGIN");
        run(&one, "INSERT INTO t VALUES (2, 2)");
        std::thread::scope(|scope| {
            scope.spawn(|| run(&two, change));
            run(&one, "INSERT INTO t VALUES (3, 3)");
            run(&one, "DELETE FROM t WHERE a = 3");
            run(&one, "COMMIT");
        });
        assert_eq!(number(&two, then), 2, "{change}");
    }
    // In a block as well.
    run(&one, "DROP TABLE IF EXISTS t, u");
    run(&one, "CREATE TABLE t (a INT)");
    run(&one, "BEGIN");
    run(&one, "INSERT INTO t VALUES (1)");
    run(&two, "BEGIN");
    std::thread::scope(|scope| {
        scope.spawn(|| run(&two, "ALTER TABLE t ADD COLUMN b INT"));
        run(&one, "INSERT INTO t VALUES (2)");
        run(&one, "COMMIT");
    });
    run(&two, "COMMIT");
    assert_eq!(number(&one, "SELECT count(*) - count(b) FROM t"), 2);
    // Of two who would wait for each other, one does not.
    run(&one, "CREATE TABLE other (a INT)");
    run(&one, "BEGIN");
    run(&one, "INSERT INTO t (a) VALUES (3)");
    run(&two, "BEGIN");
    run(&two, "INSERT INTO other VALUES (1)");
    let change = |session: &Session, sql: &str| {
        let done = session.execute(sql).and_then(|result| result.collect());
        run(session, if done.is_ok() { "COMMIT" } else { "ROLLBACK" });
        done.err().map(|error| error.code().unwrap_or_default())
    };
    let codes = std::thread::scope(|scope| {
        let other = scope.spawn(|| change(&two, "ALTER TABLE t DROP COLUMN b"));
        [change(&one, "DROP TABLE other"), other.join().unwrap()]
    });
    assert!(codes == [Some("40P01"), None] || codes == [None, Some("40P01")], "{codes:?}");
}

#[test]
fn rows_that_come_while_a_table_is_altered_are_rows_of_what_it_is_then() {
    let database = Database::open(DatabaseOptions { workers: Some(2), ..DatabaseOptions::default() }).unwrap();
    let [one, two] = [(); 2].map(|()| database.session());
    run(&one, "CREATE TABLE t (a INT, b INT)");
    let done = |session: &Session, sql: &str| {
        let done = session.execute(sql).and_then(|result| result.collect());
        done.err().map(|error| error.code().unwrap_or_default())
    };
    for round in 0..20 {
        // Either the row is there first, and the condition is refused, or the other way around.
        let insert = format!("INSERT INTO t SELECT count(*), {round} FROM generate_series(1, 200000) AS g WHERE g > 0");
        let add = format!("ALTER TABLE t ADD CONSTRAINT c{round} CHECK (b <> {round})");
        let codes = std::thread::scope(|scope| {
            let other = scope.spawn(|| done(&two, &insert));
            std::thread::sleep(std::time::Duration::from_millis(round % 4));
            [done(&one, &add), other.join().unwrap()]
        });
        assert!(codes == [Some("23514"), None] || codes == [None, Some("23514")], "{round}: {codes:?}");
        let there = number(&one, &format!("SELECT count(*) FROM t WHERE b = {round}"));
        assert_eq!(there, i64::from(codes[1].is_none()), "{round}");
        // Columns that come and go hinder nobody.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                run(&two, "ALTER TABLE t ADD COLUMN c INT DEFAULT 7");
                run(&two, "ALTER TABLE t DROP COLUMN c, ADD COLUMN d TEXT");
                run(&two, "ALTER TABLE t DROP COLUMN d");
            });
            for _ in 0..10 {
                run(&one, "INSERT INTO t (a, b) VALUES (-1, -1)");
                run(&one, "UPDATE t SET a = a - 1 WHERE b = -1");
            }
        });
    }
    assert_eq!(number(&one, "SELECT count(*) FROM t WHERE b = -1"), 200);
    assert_eq!(number(&one, "SELECT count(*) FROM t WHERE b = -1 AND a < -1"), 200);
    run(&one, "DELETE FROM t WHERE b >= 0");
    assert_eq!(number(&one, "SELECT count(*) FROM t"), 200);
}

/// What is granted, in the words of statements.
fn authority_of(database: &Database) -> String {
    let session = database.session();
    let mut all = Vec::new();
    for sql in [
        "SELECT rolname || rolsuper || rolcanlogin || rolinherit || coalesce(rolconfig[1], '') FROM pg_roles \
         WHERE rolname NOT LIKE 'pg%' ORDER BY 1",
        "SELECT m.rolname || r.rolname || a.admin_option FROM pg_auth_members a JOIN pg_roles m ON m.oid = a.member \
         JOIN pg_roles r ON r.oid = a.roleid ORDER BY 1",
        "SELECT relname || pg_get_userbyid(relowner) || coalesce(array_to_string(relacl, ' '), '') FROM pg_class \
         WHERE relnamespace IN (SELECT oid FROM pg_namespace WHERE nspname IN ('public', 'lab')) ORDER BY 1",
        "SELECT proname || coalesce(array_to_string(proacl, ' '), '') FROM pg_proc WHERE prosrc IS NOT NULL ORDER BY 1",
        "SELECT nspname || pg_get_userbyid(nspowner) || coalesce(array_to_string(nspacl, ' '), '') FROM pg_namespace ORDER BY 1",
        "SELECT defaclobjtype || array_to_string(defaclacl, ' ') FROM pg_default_acl ORDER BY 1",
    ] {
        let rows = session.execute(sql).and_then(|result| result.collect());
        let rows = rows.unwrap_or_else(|error| panic!("{sql}: {error}"));
        for batch in rows {
            let texts = arrow::compute::cast(batch.column(0), &arrow::datatypes::DataType::Utf8).unwrap();
            all.extend(texts.as_string::<i32>().iter().map(|text| text.unwrap_or_default().to_owned()));
        }
    }
    all.join("\n")
}

#[test]
fn roles_and_grants_are_kept_copied_and_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let database = open(&path);
    let session = database.session();
    for sql in [
        "CREATE ROLE team NOINHERIT",
        "CREATE USER ann PASSWORD 'secret' VALID UNTIL '2031-05-06 07:08:09+00'",
        "GRANT team TO ann WITH ADMIN OPTION",
        "ALTER ROLE ann SET search_path TO lab, public",
        "CREATE SCHEMA lab AUTHORIZATION ann",
        "CREATE TABLE t (a INT, b INT)",
        "GRANT SELECT, INSERT ON t TO team WITH GRANT OPTION",
        "CREATE FUNCTION f(a INT) RETURNS INT LANGUAGE sql AS 'SELECT a'",
        "REVOKE EXECUTE ON FUNCTION f(INT) FROM PUBLIC",
        "ALTER DEFAULT PRIVILEGES FOR ROLE ann IN SCHEMA lab GRANT SELECT ON TABLES TO team",
        "SET ROLE team",
        "GRANT SELECT ON t TO ann",
        "RESET ROLE",
        "SET ROLE ann",
        "CREATE TABLE lab.own (a SERIAL)",
        "RESET ROLE",
        "BEGIN",
        "CREATE ROLE nobody",
        "GRANT DELETE ON t TO ann",
        "ROLLBACK",
    ] {
        run(&session, sql);
    }
    let before = authority_of(&database);
    for part in ["team=a*r*/diligence", "ann=r/team", "ownann", "labann", "search_path=lab, public", "team=r/ann"] {
        assert!(before.contains(part), "{part}\n{before}");
    }
    assert!(!before.contains("nobody") && !before.contains("d/diligence"), "{before}");
    // The log alone, then an image.
    drop((session, database));
    let database = open(&path);
    assert_eq!(authority_of(&database), before);
    database.checkpoint().unwrap();
    let backup = folder.path().join("backup");
    run(&database.session(), &format!("BACKUP DATABASE TO '{}'", backup.display()));
    let export = folder.path().join("export");
    run(&database.session(), &format!("EXPORT DATABASE '{}'", export.display()));
    drop(database);
    assert_eq!(authority_of(&open(&path)), before);
    assert_eq!(authority_of(&open(&backup)), before);
    let other = open(&folder.path().join("other"));
    run(&other.session(), &format!("IMPORT DATABASE '{}'", export.display()));
    assert_eq!(authority_of(&other), before);
    // What is dropped is forgotten.
    let session = other.session();
    run(&session, "DROP TABLE t");
    run(&session, "DROP OWNED BY ann, team CASCADE");
    run(&session, "DROP ROLE ann, team");
    assert!(!authority_of(&other).contains("ann"));
}

#[test]
fn what_tables_need_is_exported_before_them() {
    let folder = tempfile::tempdir().unwrap();
    let (path, export) = (folder.path().join("db"), folder.path().join("export"));
    let database = open(&path);
    let session = database.session();
    for sql in [
        "CREATE TYPE mood AS ENUM ('sad', 'happy')",
        "CREATE FUNCTION next_to(a INT) RETURNS INT LANGUAGE sql IMMUTABLE AS 'SELECT a + 1'",
        "CREATE FUNCTION twice(a INT) RETURNS INT LANGUAGE sql IMMUTABLE AS 'SELECT 2 * next_to(a - 1)'",
        "CREATE FUNCTION is_well(m mood) RETURNS BOOLEAN LANGUAGE sql IMMUTABLE AS $$ SELECT m = 'happy' $$",
        "CREATE DOMAIN even AS INT CHECK (twice(VALUE / 2) = VALUE)",
        "CREATE TABLE t (id INT GENERATED ALWAYS AS IDENTITY (START WITH 10 INCREMENT BY 5), s SERIAL, a INT DEFAULT twice(21), \
         m mood CHECK (is_well(m)), g INT GENERATED ALWAYS AS (twice(a)) STORED, e even)",
        "INSERT INTO t (m, e) VALUES ('happy', 4)",
        "CREATE FUNCTION half(a INT) RETURNS INT LANGUAGE sql IMMUTABLE AS 'SELECT a / 2'",
        "CREATE INDEX halves ON t (half(a))",
        "ALTER SEQUENCE t_id_seq RENAME TO counts",
        "ALTER TABLE t RENAME COLUMN s TO serial",
        "CREATE FUNCTION all_of() RETURNS SETOF t LANGUAGE sql AS 'SELECT * FROM t'",
        "CREATE PROCEDURE fill(n INT) LANGUAGE plpgsql SET search_path = public AS $$ BEGIN \
         FOR i IN 1..n LOOP INSERT INTO t (m) VALUES ('happy'); END LOOP; END $$",
    ] {
        run(&session, sql);
    }
    run(&session, &format!("EXPORT DATABASE '{}'", export.display()));
    let written = fs::read_to_string(export.join("load.sql")).unwrap();
    assert!(written.contains("CREATE PROCEDURE") && !written.contains("\"procedure\""), "{written}");
    let other = open(&folder.path().join("other"));
    run(&other.session(), &format!("IMPORT DATABASE '{}'", export.display()));
    for database in [&database, &other] {
        let session = database.session();
        run(&session, "CALL fill(2)");
        let sums = "SELECT sum(id) * 10000 + sum(serial) * 1000 + sum(a) + sum(g) FROM all_of()";
        assert_eq!(number(&session, sums), 456_378);
        assert_eq!(code(&session, "INSERT INTO t (m) VALUES ('sad')"), "23514");
        assert_eq!(code(&session, "INSERT INTO t (e) VALUES (3)"), "23514");
        let own = "SELECT (pg_get_serial_sequence('t', 'serial') = 'public.t_s_seq')::int";
        assert_eq!(number(&session, own), 1);
        run(&session, "DROP FUNCTION all_of()");
        run(&session, "DROP TABLE t");
        assert_eq!(number(&session, "SELECT count(*) FROM pg_class WHERE relkind = 'S'"), 0);
    }
}

#[test]
fn triggers_are_kept_and_copied() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let database = open(&path);
    let session = database.session();
    for sql in [
        "CREATE TABLE t (a INT, b TEXT)",
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.b := TG_ARGV[0] || NEW.a; RETURN NEW; END $$",
        "CREATE TRIGGER one BEFORE INSERT OR UPDATE OF a ON t FOR EACH ROW WHEN (NEW.a > 1) EXECUTE FUNCTION f('it''s ')",
        "CREATE TRIGGER two BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f('two')",
        "CREATE TRIGGER three BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f('three')",
        "ALTER TABLE t DISABLE TRIGGER two",
        "ALTER TABLE t ENABLE REPLICA TRIGGER three",
        "ALTER TABLE t ENABLE ALWAYS TRIGGER one",
        "BEGIN",
        "DROP TRIGGER one ON t",
        "ROLLBACK",
        "ALTER FUNCTION f() RENAME TO g",
        "INSERT INTO t VALUES (1, 'x'), (2, 'y')",
    ] {
        run(&session, sql);
    }
    let state = |database: &Database| {
        let session = database.session();
        run(&session, "INSERT INTO t VALUES (3, 'z')");
        let count = number(&session, "SELECT count(*) FROM t WHERE b IN ('x', 'it''s 2', 'it''s 3')");
        run(&session, "DELETE FROM t WHERE a = 3");
        let called = "SELECT count(*) FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid WHERE p.proname = 'g'";
        let called = number(&session, called);
        let letters = "SELECT count(*) FROM pg_trigger WHERE tgname || tgenabled IN ('oneA', 'twoD', 'threeR')";
        (count, called, number(&session, letters))
    };
    assert_eq!(state(&database), (3, 3, 3));
    let export = folder.path().join("export");
    run(&session, &format!("EXPORT DATABASE '{}'", export.display()));
    drop((session, database));
    let database = open(&path);
    assert_eq!(state(&database), (3, 3, 3));
    database.checkpoint().unwrap();
    drop(database);
    assert_eq!(state(&open(&path)), (3, 3, 3));
    let other = open(&folder.path().join("other"));
    run(&other.session(), &format!("IMPORT DATABASE '{}'", export.display()));
    assert_eq!(state(&other), (3, 3, 3));
}

#[test]
fn what_is_read_of_segments_stays_in_the_buffer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let database = open(&path);
    let session = database.session();
    // Decoded columns stay too, and would be found first.
    run(&session, "SET sharing_columns = 0");
    run(&session, "CREATE TABLE t AS SELECT i AS a, i % 7 AS b FROM generate_series(1, 5000) g(i)");
    database.checkpoint().unwrap();
    let total = |column: &str| number(&session, &format!("SELECT sum({column}) FROM system.buffer"));
    let read = || number(&session, "SELECT sum(a) FROM t");
    assert_eq!(number(&session, "SELECT count(*) FROM system.buffer"), 4);
    assert_eq!(read(), 12_502_500);
    let (misses, hits) = (total("misses_total"), total("hits_total"));
    assert!(misses > 0 && total("bytes") > 0 && total("reading") == 0, "{misses} {hits}");
    assert_eq!(total("pinned_bytes"), 0);
    assert_eq!(read(), 12_502_500);
    assert_eq!((total("misses_total"), total("hits_total")), (misses, hits + misses));
    // CHECK TABLE reads the disk, not what is in memory.
    let file = fs::read_dir(path.join("segments")).unwrap().next().unwrap().unwrap().path();
    let whole = fs::read(&file).unwrap();
    let mut damaged = whole.clone();
    damaged[200] ^= 1;
    fs::write(&file, damaged).unwrap();
    assert_eq!(read(), 12_502_500);
    let found = session.execute("CHECK TABLE t").and_then(|result| result.collect()).unwrap();
    let problem = found[0].column(2).as_string_view();
    assert!(problem.is_valid(0) && problem.value(0).contains("checksum"), "{found:?}");
    // Where nothing stays, it is found.
    run(&session, "SET segment_buffer = 0");
    assert_eq!((total("bytes"), total("ranges")), (0, 0));
    assert_eq!(code(&session, "SELECT sum(a), sum(b) FROM t"), "XX001");
    fs::write(&file, whole).unwrap();
    assert_eq!(read(), 12_502_500);
    let shown = "SELECT count(*) FROM system.settings WHERE name = 'segment_buffer' AND value = '0'";
    assert_eq!(number(&session, shown), 1);
    run(&session, "SET segment_buffer = DEFAULT");
    assert_eq!(read(), 12_502_500);
    assert!(total("bytes") > 0);
    run(&session, "DROP TABLE t");
    drop(session);
}

#[test]
fn vacuum_gives_back_the_room_of_deleted_rows() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(&folder.path().join("db"));
    let session = database.session();
    let gone = || number(&session, "SELECT sum(rows_gone) FROM system.segments WHERE \"table\" = 't'");
    for (statement, left) in [("VACUUM", 100), ("VACUUM FULL u", 100), ("VACUUM (FULL) t", 0), ("OPTIMIZE TABLE t", 0)]
    {
        run(&session, "DROP TABLE IF EXISTS t");
        run(&session, "DROP TABLE IF EXISTS u");
        run(&session, "CREATE TABLE t (a INT, span INTERVAL)");
        run(&session, "CREATE TABLE u (a INT)");
        run(&session, "INSERT INTO t SELECT g, make_interval(days => g) FROM generate_series(1, 5000) g");
        database.checkpoint().unwrap();
        run(&session, "DELETE FROM t WHERE a % 50 = 0");
        assert_eq!(gone(), 100, "too few in a cluster for a checkpoint");
        run(&session, statement);
        assert_eq!(gone(), left, "{statement}");
        assert_eq!(number(&session, "SELECT count(*) FROM t WHERE span = make_interval(days => a)"), 4900);
        // Half of the rows: then a checkpoint is enough.
        run(&session, "DELETE FROM t WHERE a % 2 = 0");
        run(&session, "VACUUM");
        assert_eq!(gone(), 0, "{statement}");
    }
    assert_eq!(code(&session, "VACUUM FULL nothing"), "42P01");
    assert_eq!(code(&session, "OPTIMIZE nothing"), "42P01");
}
