//! What a database in a folder has when it is opened again, and copies of it.

use std::path::Path;

use arrow::array::ArrayRef;
use diligence_native::SegmentSizes;

use crate::test_sessions::{in_folder, number, run, shown};
use crate::{Database, DatabaseOptions};

fn open(folder: &Path) -> Database {
    let options = DatabaseOptions { folder: Some(folder.into()), workers: Some(1), ..DatabaseOptions::default() };
    Database::open(options).unwrap()
}

fn lines(database: &Database, sql: &str) -> String {
    let rows = database.session().execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}")).collect().unwrap();
    arrow::util::pretty::pretty_format_batches(&rows).unwrap().to_string()
}

#[test]
fn rules_and_sequences_are_there_when_the_database_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let code = |database: &Database, sql: &str| {
        database.session().execute(sql).map(|_| ()).unwrap_err().code().unwrap_or("none").to_owned()
    };
    {
        let database = open(&path);
        let session = database.session();
        for statement in [
            "CREATE TABLE p (id SERIAL PRIMARY KEY, k TEXT UNIQUE, n INT CHECK (n > 0), g INT GENERATED ALWAYS AS (n + 1) STORED)",
            "CREATE TABLE c (x INT REFERENCES p ON DELETE CASCADE, i INT GENERATED ALWAYS AS IDENTITY)",
            "INSERT INTO p (k, n) SELECT 'k' || g, g FROM generate_series(1, 100) g",
            "INSERT INTO c (x) VALUES (1), (2), (NULL)",
            "UPDATE p SET id = id + 1000 WHERE id > 50",
            "DELETE FROM p WHERE id = 1",
            "ALTER TABLE p ADD COLUMN later TEXT",
            "ALTER TABLE p ALTER COLUMN n TYPE BIGINT",
            "ALTER TABLE c RENAME COLUMN x TO y",
            "ALTER TABLE c RENAME TO d",
            "CREATE SEQUENCE s START 10",
            "BEGIN",
            "CREATE TABLE t (a SERIAL PRIMARY KEY)",
            "INSERT INTO t DEFAULT VALUES",
            "COMMIT",
        ] {
            session.execute(statement).map(|_| ()).unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
        assert!(lines(&database, "SELECT nextval('s')").contains("10"));
    }
    for checkpoint in [false, true, false] {
        let database = open(&path);
        assert_eq!(code(&database, "INSERT INTO p (id) VALUES (7)"), "23505");
        assert_eq!(code(&database, "INSERT INTO p (k) VALUES ('k7')"), "23505");
        assert_eq!(code(&database, "INSERT INTO p (n) VALUES (0)"), "23514");
        assert_eq!(code(&database, "INSERT INTO p (g) VALUES (0)"), "428C9");
        assert_eq!(code(&database, "INSERT INTO d (y) VALUES (51)"), "23503");
        assert_eq!(code(&database, "DROP TABLE p"), "2BP01");
        let found = lines(&database, "SELECT count(*), count(DISTINCT id), max(id), sum(g), count(later) FROM p");
        assert!(found.contains("| 99    | 99    | 1100 | 5148 | 0     |"), "{found}");
        let found = lines(&database, "SELECT count(*) AS c, max(i) AS i FROM d");
        assert!(found.contains("| 2 | 3 |"), "{found}");
        if checkpoint {
            database.checkpoint().unwrap();
        }
    }
    // Numbers go on where they were, and what refers goes with what it refers to.
    let database = open(&path);
    assert!(lines(&database, "SELECT nextval('s')").contains("11"));
    assert!(lines(&database, "INSERT INTO t DEFAULT VALUES RETURNING a").contains("2"));
    database.session().execute("DELETE FROM p WHERE id = 2").unwrap();
    assert!(lines(&database, "SELECT count(*) AS c FROM d").contains("| 1 |"));
}

#[test]
fn types_views_with_rows_and_what_is_not_validated_are_there_when_the_database_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let code = |database: &Database, sql: &str| {
        let error = database.session().execute(sql).and_then(|result| result.collect()).unwrap_err();
        error.code().unwrap_or("none").to_owned()
    };
    let questions = [
        "SELECT id, m, l FROM t ORDER BY m, id",
        "SELECT enum_range(NULL::mood)::text AS labels",
        "SELECT n FROM totals ORDER BY n",
        "SELECT matviewname, ispopulated FROM pg_matviews ORDER BY 1",
        "SELECT conname, convalidated FROM pg_constraint WHERE contype = 'c'",
        "SELECT increment_by, max_value FROM pg_sequences WHERE sequencename = 's'",
        "SELECT typname, oid FROM pg_type WHERE typtype IN ('e', 'd')",
        "SELECT d, a, m FROM held ORDER BY a",
        "SELECT v, q, c, v @@ q AS found FROM documents ORDER BY v",
        "SELECT domain_name, domain_default FROM information_schema.domains",
        "SELECT name, g FROM logins ORDER BY g",
        "SELECT oid, collname, colliculocale, collisdeterministic FROM pg_collation WHERE oid > 16383",
    ];
    let answers = {
        let database = open(&path);
        let session = database.session();
        for statement in [
            "CREATE TYPE mood AS ENUM ('sad', 'ok')",
            "CREATE TABLE t (id INT PRIMARY KEY, m mood DEFAULT 'ok', l mood[])",
            "INSERT INTO t VALUES (1, 'sad', '{ok,sad}'), (2, DEFAULT, NULL), (3, NULL, '{}')",
            "ALTER TYPE mood ADD VALUE 'angry' BEFORE 'sad'",
            "INSERT INTO t VALUES (4, 'angry', '{angry}')",
            "ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'",
            "CREATE MATERIALIZED VIEW totals AS SELECT count(*) AS n FROM t",
            "CREATE UNIQUE INDEX ON totals (n)",
            "CREATE MATERIALIZED VIEW later AS SELECT 1 AS a WITH NO DATA",
            "ALTER TABLE t ADD CONSTRAINT small CHECK (id < 3) NOT VALID",
            "CREATE DOMAIN small AS INT DEFAULT 5 NOT NULL CHECK (VALUE < 10)",
            "CREATE DOMAIN tiny AS small CONSTRAINT is_tiny CHECK (VALUE < 7)",
            "CREATE TABLE held (d tiny, a inet PRIMARY KEY, m int4multirange)",
            "INSERT INTO held VALUES (1, '10.0.0.1/8', '{[1,3),[5,8)}'), (DEFAULT, '::1', '{}')",
            "CREATE TABLE documents (v tsvector PRIMARY KEY, q tsquery DEFAULT 'cat & !dog', c regconfig)",
            "INSERT INTO documents VALUES ('cat:1A fat:2', DEFAULT, 'english'), ('dog', 'dog:*', NULL)",
            "CREATE COLLATION no_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
            "CREATE TABLE logins (name text COLLATE no_case PRIMARY KEY, g text COLLATE \"de-x-icu\")",
            "INSERT INTO logins VALUES ('Anna', 'Zoo'), ('BERTA', 'ähnlich'), ('carl', 'b')",
            "ALTER DOMAIN small RENAME TO little",
            "ALTER DOMAIN tiny SET DEFAULT 2",
            "CREATE SEQUENCE s",
            "ALTER SEQUENCE s INCREMENT 5 MAXVALUE 100 RESTART WITH 50",
            "WITH gone AS (DELETE FROM t WHERE id = 3 RETURNING id) INSERT INTO t SELECT id - 3, 'fine' FROM gone",
        ] {
            session.execute(statement).map(|_| ()).unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
        questions.map(|question| lines(&database, question))
    };
    for checkpoint in [false, true, false] {
        let database = open(&path);
        assert_eq!(questions.map(|question| lines(&database, question)), answers);
        assert_eq!(code(&database, "INSERT INTO t VALUES (2, 'ok')"), "22P02");
        assert_eq!(code(&database, "INSERT INTO t VALUES (7)"), "23514");
        assert_eq!(code(&database, "INSERT INTO held VALUES (7, '::2')"), "23514");
        assert_eq!(code(&database, "INSERT INTO held VALUES (NULL, '::2')"), "23502");
        assert_eq!(code(&database, "INSERT INTO held VALUES (3, '10.0.0.1/8')"), "23505");
        assert_eq!(code(&database, "SELECT 10::little"), "23514");
        assert_eq!(code(&database, "INSERT INTO logins VALUES ('ANNA')"), "23505");
        assert_eq!(code(&database, "DROP COLLATION no_case"), "2BP01");
        assert!(lines(&database, "SELECT name FROM logins WHERE name = 'berta'").contains("BERTA"));
        assert_eq!(code(&database, "INSERT INTO totals VALUES (7)"), "42809");
        assert_eq!(code(&database, "SELECT * FROM later"), "55000");
        if checkpoint {
            database.checkpoint().unwrap();
        }
    }
    let database = open(&path);
    assert!(lines(&database, "SELECT nextval('s')").contains("50"));
    assert!(lines(&database, "SELECT nextval('s')").contains("55"));
    assert_eq!(code(&database, "DROP TYPE mood"), "2BP01");
    database.session().execute("REFRESH MATERIALIZED VIEW later").unwrap();
    assert!(lines(&database, "SELECT a FROM later").contains("| 1 |"));
}

#[test]
fn what_statements_make_is_there_when_the_database_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("some file.csv");
    std::fs::write(&csv, "x;y\n1;2\n").unwrap();
    let path = folder.path().join("db");
    let statements = [
        "CREATE SCHEMA lab".to_owned(),
        "CREATE TABLE lab.\"A b\" (i INTEGER NOT NULL, t VARCHAR DEFAULT 'it''s ' || 1, n NUMERIC(7, 2), l INT[], \
         ts TIMESTAMPTZ, r DATE)"
            .to_owned(),
        "INSERT INTO lab.\"A b\" (i, n, l) VALUES (1, 1.25, ARRAY[1, NULL]), (2, NULL, NULL)".to_owned(),
        "CREATE TABLE made AS SELECT g AS g, 'text ' || g AS t, {'a': g} AS s FROM generate_series(1, 30000) u(g)"
            .to_owned(),
        "CREATE VIEW v AS WITH w AS (SELECT g FROM made WHERE g % 7 = 3) SELECT count(*) AS c, max(g) FROM w"
            .to_owned(),
        format!(
            "CREATE EXTERNAL TABLE e (x SMALLINT, y VARCHAR) STORED AS CSV LOCATION '{}' OPTIONS ('format.delimiter' ';', \
             'format.has_header' 'true')",
            csv.display()
        ),
        "CREATE TABLE gone AS SELECT 1 AS a".to_owned(),
        "DROP TABLE gone".to_owned(),
    ];
    let questions = [
        "SELECT * FROM lab.\"A b\" ORDER BY i",
        "SELECT count(*), sum(g), min(t), max(s.a) FROM made",
        "SELECT * FROM v",
        "SELECT x, y, pg_typeof(x), pg_typeof(y) FROM e",
        "SELECT table_schema, table_name, table_type FROM information_schema.tables ORDER BY 1, 2",
        "SELECT oid, relname FROM pg_class WHERE relname IN ('made', 'v', 'e', 'A b') ORDER BY 2",
        "SELECT column_name, data_type, is_nullable, column_default FROM information_schema.columns \
         WHERE table_name = 'A b' ORDER BY ordinal_position",
    ];
    let answers = {
        let database = open(&path);
        for statement in &statements {
            database.session().execute(statement).unwrap();
        }
        assert!(Database::open(DatabaseOptions { folder: Some(path.clone()), ..Default::default() }).is_err());
        questions.map(|question| lines(&database, question))
    };
    for checkpoint in [false, true, false] {
        let database = open(&path);
        assert_eq!(questions.map(|question| lines(&database, question)), answers);
        if checkpoint {
            database.checkpoint().unwrap();
        }
    }
    // Defaults are there, ids are not given again, and statements go on.
    let database = open(&path);
    database.session().execute("INSERT INTO lab.\"A b\" (i) VALUES (3)").unwrap();
    let found = lines(&database, "SELECT t FROM lab.\"A b\" WHERE i = 3");
    assert!(found.contains("it's 1"), "{found}");
    let error = database.session().execute("INSERT INTO lab.\"A b\" (n) VALUES (3)").map(|_| ()).unwrap_err();
    assert_eq!(error.code(), Some("23502"), "{error}");
    database.session().execute("CREATE TABLE later AS SELECT 1 AS a").unwrap();
    let oids = lines(&database, "SELECT count(DISTINCT oid) = count(*) AS distinct FROM pg_class");
    assert!(oids.contains("true"), "{oids}");
}

/// The rows of a statement as texts, NULL as nothing.
fn table(database: &Database, sql: &str) -> Vec<Vec<String>> {
    let rows = database.session().execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}")).collect().unwrap();
    let mut lines = Vec::new();
    for batch in rows {
        for row in 0..batch.num_rows() {
            let cell = |column: &ArrayRef| arrow::util::display::array_value_to_string(column, row).unwrap();
            lines.push(batch.columns().iter().map(cell).collect());
        }
    }
    lines
}

#[test]
fn a_backup_is_the_database_of_one_moment() {
    let folder = tempfile::tempdir().unwrap();
    let sizes = SegmentSizes { rows_min: 100, cluster_rows: 100, keys_min: 20 };
    let path = |name: &str| folder.path().join(name);
    let open = |name: &str| {
        let (workers, folder) = (Some(2), Some(path(name)));
        Database::open(DatabaseOptions { folder, segments: sizes, workers, ..DatabaseOptions::default() }).unwrap()
    };
    let database = open("db");
    let session = database.session();
    let run = |sql: &str| session.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}")).collect().unwrap();
    run("CREATE TABLE accounts (id INT PRIMARY KEY, balance INT NOT NULL CHECK (balance > -1000000))");
    run("CREATE TABLE log (id INT REFERENCES accounts, amount INT, note TEXT)");
    run("INSERT INTO accounts SELECT g, 0 FROM generate_series(1, 1000) u(g)");
    run("CREATE VIEW rich AS SELECT * FROM accounts WHERE balance > 0");
    run("CREATE SEQUENCE s START 7");
    // What transactions keep true, backups have true, whenever they are made.
    let is_true = |database: &Database| {
        let sums = "SELECT (SELECT sum(balance) FROM accounts), (SELECT coalesce(sum(amount), 0) FROM log)";
        let sums = table(database, sums);
        assert_eq!(sums[0][0], sums[0][1]);
    };
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let database = &database;
            scope.spawn(move || {
                let session = database.session();
                let run = |sql: &str| session.execute(sql).unwrap().collect().unwrap();
                for step in 1..=100 {
                    let id = writer * 500 + step;
                    run("BEGIN");
                    run(&format!("UPDATE accounts SET balance = balance + {step} WHERE id = {id}"));
                    run(&format!("INSERT INTO log SELECT {id}, {step}, 'as a text' FROM generate_series(1, 1)"));
                    run("COMMIT");
                }
            });
        }
        for round in 0..5 {
            run(&format!("BACKUP DATABASE TO '{}'", path(&format!("backup-{round}")).display()));
            run("CHECKPOINT");
        }
    });
    for round in 0..5 {
        let backup = open(&format!("backup-{round}"));
        is_true(&backup);
        let problems = table(&backup, "CHECK DATABASE");
        assert!(problems.iter().all(|line| line[2].is_empty()) && problems.len() >= 5, "{problems:?}");
    }
    let last = path("last");
    run(&format!("BACKUP DATABASE TO '{}'", last.display()));
    // The database goes on, and its files go; the backup stays as it was.
    run("DELETE FROM log");
    run("UPDATE accounts SET balance = 0");
    run("CHECKPOINT");
    run("DROP TABLE log");
    run("CHECKPOINT");
    let next = path("next");
    run(&format!("BACKUP DATABASE TO '{}' INCREMENTAL FROM '{}'", next.display(), last.display()));
    let next = open("next");
    assert_eq!(table(&next, "SELECT count(*), sum(balance) FROM accounts"), [["1000", "0"]]);
    let restored = open("last");
    is_true(&restored);
    assert_eq!(table(&restored, "SELECT count(*), sum(amount) FROM log"), [["200", "10100"]]);
    assert_eq!(table(&restored, "SELECT count(*) FROM rich"), [["200"]]);
    assert_eq!(table(&restored, "SELECT nextval('s')"), [["7"]]);
    let error = |sql: &str| session.execute(sql).and_then(|result| result.collect()).map(|_| ()).unwrap_err();
    let again = error(&format!("BACKUP DATABASE TO '{}'", last.display()));
    assert_eq!(again.code(), Some("58P02"), "{again}");
    let nowhere = error(&format!("BACKUP DATABASE TO '{}'", path("no/such").display()));
    assert_eq!(nowhere.code(), Some("58P01"), "{nowhere}");
    assert_eq!(error("BACKUP DATABASE TO 7").code(), Some("42601"));
    let memory = Database::open(DatabaseOptions { workers: Some(1), ..DatabaseOptions::default() }).unwrap();
    let error = memory.session().execute("BACKUP DATABASE TO 'x'").and_then(|result| result.collect()).unwrap_err();
    assert_eq!(error.code(), Some("55000"), "{error}");
}

#[test]
fn what_is_exported_is_imported() {
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str| open(&folder.path().join(name));
    let database = open("db");
    let session = database.session();
    for sql in [
        "CREATE SCHEMA \"My lab\"",
        "CREATE TABLE p (id SERIAL PRIMARY KEY, k TEXT UNIQUE, n NUMERIC(9, 3) CHECK (n > 0), at TIMESTAMPTZ DEFAULT now(), b BYTEA)",
        "COMMENT ON COLUMN p.k IS 'it''s the key'",
        "COMMENT ON CONSTRAINT p_pkey ON p IS 'the \\ key'",
        "COMMENT ON SCHEMA \"My lab\" IS 'not yours'",
        "CREATE UNIQUE INDEX by_lower ON p (lower(k)) WHERE n < 1000",
        "CREATE INDEX latest ON p USING btree (at DESC NULLS LAST, k text_pattern_ops) INCLUDE (n) WITH (fillfactor = 70)",
        "CREATE TABLE \"My lab\".\"C/d\" (i BIGINT GENERATED ALWAYS AS IDENTITY, p INT REFERENCES p ON DELETE CASCADE \
         DEFERRABLE INITIALLY DEFERRED, g INT GENERATED ALWAYS AS (p * 2) STORED, \
         j JSONB, l INT[], v VARCHAR(7), u UUID, s INTERVAL NOT NULL, d DATE, f REAL)",
        "CREATE TABLE nothing (a INT)",
        "CREATE TABLE divided (a INT, \"B\" TEXT) DISTRIBUTED BY RANGE (\"B\") VALUES ('it''s', 'x') CLUSTERED BY (a)",
        "INSERT INTO divided VALUES (1, 'a'), (2, 'it''s'), (3, 'z'), (4, NULL)",
        "CREATE TYPE mood AS ENUM ('sad', 'it''s ok', 'happy')",
        "CREATE DOMAIN \"My lab\".few AS INT DEFAULT 3 NOT NULL CONSTRAINT \"is few\" CHECK (VALUE < 10)",
        "CREATE TABLE addresses (f \"My lab\".few, i inet, c cidr, a macaddr, n nummultirange, t tsvector, q tsquery)",
        "INSERT INTO addresses VALUES (1, '10.0.0.1/8', '10/8', '08002b010203', '{[1,2],(5,)}', 'cat:1A rat', 'cat & !dog'), (DEFAULT, NULL, NULL, NULL, NULL, NULL, NULL)",
        "CREATE TABLE moods (m mood NOT NULL DEFAULT 'sad', l mood[])",
        "INSERT INTO moods VALUES ('happy', ARRAY['sad', 'happy']::mood[]), (DEFAULT, NULL)",
        "CREATE COLLATION \"My lab\".\"No case\" (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
        "CREATE TABLE logins (name text COLLATE \"My lab\".\"No case\" UNIQUE, g text[] COLLATE \"de-x-icu\")",
        "INSERT INTO logins VALUES ('Anna', ARRAY['a'])",
        "CREATE MATERIALIZED VIEW by_mood AS SELECT m, count(*) AS c FROM moods GROUP BY m",
        "CREATE UNIQUE INDEX ON by_mood (m)",
        "CREATE SEQUENCE counts AS SMALLINT INCREMENT BY 5 START WITH 100 MAXVALUE 1000 CYCLE",
        "CREATE FUNCTION twice(a INT) RETURNS INT LANGUAGE sql AS 'SELECT a * 2'",
        "SET search_path = \"My lab\", public",
        "CREATE VIEW of_lab AS SELECT count(*) AS c, sum(twice(p)) AS t FROM \"C/d\"",
        "RESET search_path",
        "CREATE VIEW above AS SELECT c FROM \"My lab\".of_lab",
        "COMMENT ON VIEW above IS 'of it'",
        "COMMENT ON COLUMN above.c IS 'how many'",
        "COMMENT ON FUNCTION twice(INT) IS 'two times'",
        "COMMENT ON TYPE mood IS 'how one is'",
        "COMMENT ON SEQUENCE counts IS 'counts'",
        "COMMENT ON DOMAIN \"My lab\".few IS 'not many'",
        "COMMENT ON CONSTRAINT \"is few\" ON DOMAIN \"My lab\".few IS 'below ten'",
        "COMMENT ON MATERIALIZED VIEW by_mood IS 'seldom'",
        "COMMENT ON INDEX by_lower IS 'whatever the case'",
        "INSERT INTO p (k, n, at, b) SELECT 'k' || g, g, '2020-01-01 12:00+00', '\\x00ff' FROM generate_series(1, 500) u(g)",
        "INSERT INTO \"My lab\".\"C/d\" (p, j, l, v, u, s, d, f) SELECT g, jsonb_build_object('a', g), ARRAY[g, NULL], \
         'v' || g, '00000000-0000-0000-0000-000000000001', interval '1 month 2 days 3 hours', '2021-02-03', g / 4.0 \
         FROM generate_series(1, 300) u(g)",
        "SELECT nextval('counts')",
        "DELETE FROM p WHERE id = 500",
    ] {
        session.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}")).collect().unwrap();
    }
    let questions = [
        "SELECT * FROM p ORDER BY id",
        "SELECT * FROM \"My lab\".\"C/d\" ORDER BY i",
        "SELECT * FROM nothing",
        "SELECT fragment, bounds, clustered_by, rows FROM system.fragments WHERE \"table\" = 'divided'",
        "SELECT * FROM moods ORDER BY m",
        "SELECT * FROM by_mood ORDER BY m",
        "SELECT * FROM addresses ORDER BY f",
        "SELECT * FROM above, \"My lab\".of_lab",
        "SELECT table_schema, table_name, column_name, data_type, is_nullable, column_default, is_identity, \
         is_generated, collation_schema, collation_name FROM information_schema.columns WHERE table_schema IN ('public', 'My lab') ORDER BY 1, 2, ordinal_position",
        "SELECT conname, contype, pg_get_constraintdef(oid) FROM pg_constraint ORDER BY 1",
        "SELECT indexname, indexdef FROM pg_indexes ORDER BY 1",
        "SELECT col_description('p'::regclass, 2)",
        "SELECT classoid, objsubid, description FROM pg_description ORDER BY description",
        "SELECT nextval('counts'), nextval('p_id_seq'), currval('counts')",
    ];
    for (format, name) in [("", "one"), (" (FORMAT csv)", "two")] {
        let to = folder.path().join(format!("export {name}"));
        session.execute(&format!("EXPORT DATABASE '{}'{format}", to.display())).unwrap().collect().unwrap();
        let imported = open(name);
        let import = format!("IMPORT DATABASE '{}'", to.display());
        imported.session().execute(&import).unwrap().collect().unwrap();
        let (counted, others) = questions.split_last().unwrap();
        for question in others {
            assert_eq!(table(&imported, question), table(&database, question), "{name}: {question}");
        }
        assert_eq!(table(&imported, counted), [["105", "501", "105"]]);
        let code = |sql: &str| imported.session().execute(sql).map(|_| ()).unwrap_err().code().map(str::to_owned);
        assert_eq!(code("INSERT INTO addresses VALUES (11)").as_deref(), Some("23514"));
        assert_eq!(code("INSERT INTO p (k, n) VALUES ('K7', 1)").as_deref(), Some("23505"));
        assert_eq!(code("INSERT INTO logins VALUES ('ANNA')").as_deref(), Some("23505"));
        assert_eq!(code("INSERT INTO \"My lab\".\"C/d\" (p, s) VALUES (9999, '1 day')").as_deref(), Some("23503"));
        // A second time there is something in the way, and all stays as it is.
        let again = imported.session().execute(&import).and_then(|result| result.collect()).unwrap_err();
        assert_eq!(again.code(), Some("42P06"), "{again}");
        assert_eq!(table(&imported, "SELECT count(*) FROM p"), [["499"]]);
    }
    let code =
        |sql: &str| session.execute(sql).and_then(|result| result.collect()).unwrap_err().code().map(str::to_owned);
    session.execute("CREATE TABLE mixed AS SELECT ARRAY[1] AS l, '\\x00ff'::BYTEA AS b").unwrap().collect().unwrap();
    let mixed = folder.path().join("mixed");
    session.execute(&format!("EXPORT DATABASE '{}'", mixed.display())).unwrap().collect().unwrap();
    let imported = open("mixed db");
    imported.session().execute(&format!("IMPORT DATABASE '{}'", mixed.display())).unwrap().collect().unwrap();
    assert_eq!(table(&imported, "SELECT l::text, b::text FROM mixed"), [["{1}", "\\x00ff"]]);
    let there = folder.path().join("export one");
    assert_eq!(code(&format!("EXPORT DATABASE '{}'", there.display())).as_deref(), Some("58P02"));
    assert_eq!(code("EXPORT DATABASE 'x' (FORMAT excel)").as_deref(), Some("42601"));
    assert_eq!(code(&format!("IMPORT DATABASE '{}'", folder.path().display())).as_deref(), Some("58030"));
}

#[test]
fn what_indexes_and_references_were_declared_with_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let questions = [
        "SELECT indexdef FROM pg_indexes ORDER BY indexname",
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint ORDER BY conname",
    ];
    let before = {
        let database = open(folder.path());
        for sql in [
            "CREATE TABLE p (a INT, b INT, PRIMARY KEY (a, b), UNIQUE (b) INCLUDE (a))",
            "CREATE TABLE t (a INT, b INT, c TEXT, \
             CONSTRAINT r FOREIGN KEY (a, b) REFERENCES p MATCH FULL ON DELETE SET NULL (b))",
            "CREATE INDEX i ON t (a DESC, c text_pattern_ops) INCLUDE (b) WITH (fillfactor = 70)",
            "COMMENT ON COLUMN t.a IS 'a comment'",
            "COMMENT ON INDEX i IS 'of t'",
            "COMMENT ON CONSTRAINT r ON t IS 'to p'",
            "COMMENT ON SCHEMA public IS 'all\t''of it''\n'",
            "CREATE TABLE gone (a INT CONSTRAINT few CHECK (a < 3))",
            "COMMENT ON CONSTRAINT few ON gone IS 'goes with it'",
            "DROP TABLE gone",
        ] {
            database.session().execute(sql).unwrap().collect().unwrap();
        }
        questions.map(|question| table(&database, question))
    };
    let index =
        "CREATE INDEX i ON public.t USING btree (a DESC, c text_pattern_ops) INCLUDE (b) WITH (fillfactor='70')";
    assert_eq!(before[0][0], [index]);
    let reference = "FOREIGN KEY (a, b) REFERENCES p(a, b) MATCH FULL ON DELETE SET NULL (b)";
    assert_eq!(before[1].last().unwrap(), &[reference]);
    let database = open(folder.path());
    assert_eq!(questions.map(|question| table(&database, question)), before);
    let comments = "SELECT classoid, description FROM pg_description ORDER BY description";
    let kept = [["2615", "all\t'of it'\n"], ["1259", "a comment"], ["1259", "of t"], ["2606", "to p"]];
    let of_kind = |rows: Vec<Vec<String>>| rows.into_iter().collect::<std::collections::BTreeSet<_>>();
    let kept = of_kind(kept.map(|row| row.map(str::to_owned).to_vec()).to_vec());
    assert_eq!(of_kind(table(&database, comments)), kept);
    // Also where an image has them, and the log is gone.
    database.checkpoint().unwrap();
    drop(database);
    let database = open(folder.path());
    assert_eq!(of_kind(table(&database, comments)), kept);
    let ask =
        "SELECT obj_description('i'::regclass, 'pg_class'), obj_description('public'::regnamespace, 'pg_namespace')";
    assert_eq!(table(&database, ask), [["of t", "all\t'of it'\n"]]);
}

#[test]
fn a_check_names_what_is_wrong() {
    ["parquet", "diligence"].into_iter().for_each(check_names_what_is_wrong);
}

/// The settings of a database that writes segments in this format.
fn in_format(format: &str) -> Vec<(String, String)> {
    vec![("segment_format".to_owned(), format.to_owned())]
}

fn check_names_what_is_wrong(format: &str) {
    let settings = in_format(format);
    let folder = tempfile::tempdir().unwrap();
    // Keys are made of the rows.
    let sizes = SegmentSizes { rows_min: 1, cluster_rows: 1000, keys_min: usize::MAX };
    let open = || {
        let (workers, folder) = (Some(1), Some(folder.path().to_owned()));
        let options = DatabaseOptions { folder, segments: sizes, workers, ..DatabaseOptions::default() };
        Database::open(DatabaseOptions { settings: settings.clone(), ..options }).unwrap()
    };
    {
        let database = open();
        let session = database.session();
        for sql in [
            "CREATE TABLE p (id INT PRIMARY KEY, t TEXT NOT NULL)",
            "CREATE TABLE \"C d\" (a INT REFERENCES p, \"n n\" INT CHECK (\"n n\" > 0), UNIQUE NULLS NOT DISTINCT (a))",
            "INSERT INTO p SELECT g, 'text ' || g FROM generate_series(1, 5000) u(g)",
            "INSERT INTO \"C d\" SELECT g, g FROM generate_series(1, 10) u(g)",
            "CREATE VIEW v AS SELECT 1 AS one",
            "CHECKPOINT",
        ] {
            session.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}")).collect().unwrap();
        }
        let found = table(&database, "CHECK DATABASE");
        let names = found.iter().map(|line| (line[0].as_str(), line[1].as_str())).collect::<Vec<_>>();
        let of_c = [("C d", "rows"), ("C d", "C d_n n_check"), ("C d", "C d_a_key"), ("C d", "C d_a_fkey")];
        assert_eq!(names, [&of_c[..], &[("p", "rows"), ("p", "p_pkey")]].concat());
        assert!(found.iter().all(|line| line[2].is_empty()), "{found:?}");
        assert_eq!(table(&database, "CHECK TABLE p").len(), 2);
        let code = |sql: &str| database.session().execute(sql).map(|_| ()).unwrap_err().code().map(str::to_owned);
        assert_eq!(code("CHECK TABLE v").as_deref(), Some("42809"));
        assert_eq!(code("CHECK TABLE nothing").as_deref(), Some("42P01"));
    }
    // A byte of the largest segment, in a key or in a text.
    let largest = segments(folder.path()).into_iter().max_by_key(|entry| entry.metadata().unwrap().len()).unwrap();
    let file = largest.file_name().to_str().unwrap().to_owned();
    let whole = std::fs::read(largest.path()).unwrap();
    let (mut refused, mut accepted) = (0, 0);
    for part in 0..9 {
        let mut bytes = whole.clone();
        // The first keys lie at the beginning.
        let at = if part == 0 { 100 } else { bytes.len() * part / 16 };
        bytes[at] ^= 1;
        std::fs::write(largest.path(), bytes).unwrap();
        let database = open();
        let found = table(&database, "CHECK DATABASE");
        let problems = found.iter().filter(|line| !line[2].is_empty()).collect::<Vec<_>>();
        let is_found = |line: &&Vec<String>| line[0] == "p" && line[1] == "rows" && line[2].contains(&file);
        assert!(problems.iter().any(is_found), "{problems:?}");
        // Everything else goes on.
        assert_eq!(table(&database, "SELECT count(*) FROM \"C d\""), [["10"]]);
        database.session().execute("INSERT INTO \"C d\" VALUES (NULL, 1)").unwrap();
        database.session().execute("DELETE FROM \"C d\" WHERE a IS NULL").unwrap();
        database.checkpoint().unwrap();
        // Whether a key is there is not known if keys cannot be read.
        match database.session().execute("INSERT INTO p VALUES (0, 'new')").map(|_| ()) {
            Ok(()) => {
                accepted += 1;
                database.session().execute("DELETE FROM p WHERE id = 0").unwrap();
            }
            Err(error) => {
                refused += 1;
                assert_eq!(error.code(), Some("XX001"), "{error}");
            }
        }
    }
    assert!(refused > 0 && accepted > 0, "{refused} refused, {accepted} accepted");
    std::fs::write(largest.path(), whole).unwrap();
    let found = table(&open(), "CHECK DATABASE");
    assert!(found.iter().all(|line| line[2].is_empty()), "{found:?}");
}

/// The files of a folder's segments.
fn segments(folder: &Path) -> Vec<std::fs::DirEntry> {
    std::fs::read_dir(folder.join("segments")).unwrap().map(|entry| entry.unwrap()).collect()
}

#[test]
fn what_a_transaction_has_altered_it_changes() {
    let folder = tempfile::tempdir().unwrap();
    let sizes = SegmentSizes { rows_min: 1, cluster_rows: 100, keys_min: 1 };
    let (workers, kept) = (Some(2), Some(folder.path().to_owned()));
    let kept = DatabaseOptions { folder: kept, segments: sizes, workers, ..DatabaseOptions::default() };
    for options in [DatabaseOptions { workers, ..DatabaseOptions::default() }, kept] {
        let is_kept = options.folder.is_some();
        let database = Database::open(options).unwrap();
        let session = database.session();
        for statement in [
            "CREATE TABLE t (id INT PRIMARY KEY, k INT, u INT)",
            "INSERT INTO t SELECT g, g, g FROM generate_series(1, 1000) AS s(g)",
            "DELETE FROM t WHERE id > 500",
            "BEGIN",
            "ALTER TABLE t ADD COLUMN x INT",
            "UPDATE t SET k = k + 1, x = 5 WHERE id <= 250",
            "INSERT INTO t VALUES (501, 1, 1, 1), (1, 1, 1, 1) ON CONFLICT (id) DO UPDATE SET x = 6",
            "ALTER TABLE t DROP COLUMN u",
            "INSERT INTO t VALUES (502, 2, 2)",
            "UPDATE t SET k = 0 WHERE id = 2",
            "ALTER TABLE t ALTER COLUMN k TYPE NUMERIC(12, 2)",
            "INSERT INTO t SELECT g, g FROM generate_series(1001, 141000) AS s(g)",
            "UPDATE t SET x = 7 WHERE id > 140000",
            "DELETE FROM t WHERE id BETWEEN 600 AND 100000",
            "ALTER TABLE t ADD CHECK (k >= 0)",
            "UPDATE t SET k = k WHERE id > 140500",
            "COMMIT",
        ] {
            session.execute(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
            if is_kept {
                database.checkpoint().unwrap();
            }
        }
        let question = "SELECT count(*), sum(k), sum(x) FROM t";
        let rows = session.execute(question).unwrap().collect().unwrap();
        let shown = arrow::util::pretty::pretty_format_batches(&rows).unwrap().to_string();
        // 1 to 500 with 249 that grew by one (2 is 0), 501, 502, and 100001 to 141000.
        let sum = (1..=500).sum::<i64>() + 250 - 3 + 1 + 2 + (100_001..=141_000).sum::<i64>();
        let x = 249 * 5 + 6 + 1 + 2 + 1000 * 7;
        assert!(shown.contains(&format!("| {} ", 502 + 41_000)), "{shown}");
        assert!(shown.contains(&format!("| {sum}.00 ")) && shown.contains(&format!("| {x} ")), "{shown}");
    }
}

#[test]
fn rows_in_segments_answer_as_rows_in_memory() {
    ["parquet", "diligence"].into_iter().for_each(|format| answer_as_rows_in_memory(format, ["", "", ""]));
}

#[test]
fn rows_in_fragments_answer_as_rows_in_memory() {
    answer_as_rows_in_memory(
        "diligence",
        [
            "DISTRIBUTED BY HASH (g) FRAGMENTS 3 CLUSTERED BY (s)",
            "DISTRIBUTED BY RANGE (id) VALUES (1000, 5000)",
            "DISTRIBUTED BY RANGE (id) UNIFORM FRAGMENTS 4 CLUSTERED BY (g, d)",
        ],
    );
}

#[test]
fn ordered_rows_answer_as_rows_in_memory() {
    answer_as_rows_in_memory(
        "parquet",
        [
            "CLUSTERED BY (g, id)",
            "DISTRIBUTED BY ROUND ROBIN FRAGMENTS 2 CLUSTERED BY (n)",
            "DISTRIBUTED BY HASH (s) CLUSTERED BY (d)",
        ],
    );
}

/// The same statements with rows in memory, and with rows in segments of a format, in clusters of a hundred rows;
/// `clauses` are those of the three tables.
fn answer_as_rows_in_memory(format: &str, clauses: [&str; 3]) {
    let settings = in_format(format);
    let folder = tempfile::tempdir().unwrap();
    let sizes = SegmentSizes { rows_min: 1, cluster_rows: 100, keys_min: 1 };
    let open = || {
        let (workers, folder) = (Some(2), Some(folder.path().to_owned()));
        let options = DatabaseOptions { folder, segments: sizes, workers, ..DatabaseOptions::default() };
        Database::open(DatabaseOptions { settings: settings.clone(), ..options }).unwrap()
    };
    let mut kept = open();
    let memory = Database::open(DatabaseOptions { workers: Some(2), ..DatabaseOptions::default() }).unwrap();
    let statements = [
        "CREATE TABLE t (id BIGINT PRIMARY KEY, g INT NOT NULL, s TEXT, d NUMERIC(9, 2), l INT[], x FLOAT DEFAULT 5)",
        "INSERT INTO t SELECT g, g % 10, 'text ' || g, g / 3.0, ARRAY[g, NULL] FROM generate_series(1, 20000) u(g)",
        "INSERT INTO t VALUES (7, 1)",
        "INSERT INTO t SELECT g, 1 FROM generate_series(19999, 50000) u(g)",
        "UPDATE t SET s = NULL, g = g + 1 WHERE id % 7 = 0",
        "DELETE FROM t WHERE id BETWEEN 500 AND 1500 OR id % 11 = 3",
        "CREATE TABLE r (id BIGINT REFERENCES t ON DELETE CASCADE, n INT)",
        "INSERT INTO r SELECT id, g FROM t WHERE id < 12000",
        "INSERT INTO r SELECT g, 1 FROM generate_series(1, 15000) u(g)",
        "DELETE FROM t WHERE id < 100",
        "BEGIN",
        "INSERT INTO t SELECT g, 2, 'new' FROM generate_series(30001, 36000) u(g)",
        "UPDATE t SET g = 77 WHERE id > 35990",
        "DELETE FROM t WHERE id = 35995",
        "ALTER TABLE t ADD COLUMN later INT DEFAULT 3",
        "COMMIT",
        "BEGIN",
        "DELETE FROM t",
        "INSERT INTO t SELECT g, 3 FROM generate_series(1, 9000) u(g)",
        "ROLLBACK",
        "BEGIN",
        "INSERT INTO t SELECT g, 4 FROM generate_series(50001, 53000) u(g)",
        "DELETE FROM t WHERE id BETWEEN 51000 AND 51010",
        "COMMIT",
        "ALTER TABLE t DROP COLUMN l",
        "ALTER TABLE t ALTER COLUMN g TYPE BIGINT",
        "CREATE TABLE copy AS SELECT * FROM t",
        "INSERT INTO copy SELECT * FROM copy",
        "CREATE UNIQUE INDEX twice ON copy (id)",
        "TRUNCATE r",
        "INSERT INTO t VALUES (1000, 9) ON CONFLICT (id) DO UPDATE SET g = 1000",
    ];
    let questions = [
        "SELECT count(*), sum(id), sum(g), min(s), max(d), count(s), sum(x) FROM t",
        "SELECT * FROM t WHERE id IN (5, 7, 770, 35991, 35995, 51005, 52999) ORDER BY id",
        "SELECT g, count(*), max(s) FROM t GROUP BY g ORDER BY g",
        "SELECT count(*), sum(n) FROM r JOIN t USING (id)",
    ];
    let outcome = |session: &crate::Session, sql: &str| match session.execute(sql).and_then(|result| result.collect()) {
        Ok(rows) => arrow::util::pretty::pretty_format_batches(&rows).unwrap().to_string(),
        // Of several rows that are wrong any may be the one that it names.
        Err(error) => error.message().to_owned(),
    };
    let in_memory = memory.session();
    let mut session = kept.session();
    let mut is_inside = false;
    for (number, statement) in statements.iter().enumerate() {
        let [t, r, copy] = clauses;
        let own = match () {
            () if statement.starts_with("CREATE TABLE t ") => format!("{statement} {t}"),
            () if statement.starts_with("CREATE TABLE r ") => format!("{statement} {r}"),
            () => statement.replace("TABLE copy AS", &format!("TABLE copy {copy} AS")),
        };
        assert_eq!(outcome(&session, &own), outcome(&in_memory, statement), "{own}");
        is_inside = (is_inside || *statement == "BEGIN") && !["COMMIT", "ROLLBACK"].contains(statement);
        kept.checkpoint().unwrap();
        if number % 3 == 0 && !is_inside {
            drop(session);
            drop(kept);
            kept = open();
            session = kept.session();
        }
        for question in questions {
            let found = outcome(&session, question);
            assert_eq!(found, outcome(&in_memory, question), "{question} after {statement}");
        }
    }
    assert!(!segments(folder.path()).is_empty());
    // What no table has any more goes with the next checkpoint.
    for table in ["r", "t", "copy"] {
        session.execute(&format!("DROP TABLE {table}")).unwrap();
    }
    drop(session);
    kept.checkpoint().unwrap();
    kept.checkpoint().unwrap();
    assert_eq!(segments(folder.path()).len(), 0);
}

/// How many clusters a query reads.
fn clusters_read(database: &Database, sql: &str) -> usize {
    let profile = lines(database, &format!("EXPLAIN ANALYZE {sql}"));
    let read = profile.split(" clusters read").next().and_then(|before| before.rsplit(' ').next());
    read.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{profile}"))
}

#[test]
fn fragments_and_clusters_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let sizes = SegmentSizes { rows_min: 1, cluster_rows: 100, keys_min: 1 };
    let open = || {
        let (workers, folder) = (Some(2), Some(folder.path().to_owned()));
        Database::open(DatabaseOptions { folder, segments: sizes, workers, ..DatabaseOptions::default() }).unwrap()
    };
    let mut database = open();
    let run = |database: &Database, sql: &str| drop(lines(database, sql));
    // Rows whose keys lie all over, so that only their order tells clusters apart.
    let rows = "SELECT i AS id, i * 7919 % 10007 AS k, i % 8 AS g FROM generate_series(1, 8000) AS u(i)";
    run(&database, "CREATE TABLE plain (id INT, k INT, g INT)");
    run(&database, "CREATE TABLE ordered (id INT, k INT, g INT) DISTRIBUTED BY HASH (g) CLUSTERED BY (k)");
    run(
        &database,
        &format!("CREATE TABLE made DISTRIBUTED BY RANGE (k) UNIFORM FRAGMENTS 4 CLUSTERED BY (id) AS {rows}"),
    );
    // Few at a time, so that they come by checkpoints.
    for part in 0..80 {
        for table in ["plain", "ordered"] {
            run(&database, &format!("INSERT INTO {table} SELECT * FROM ({rows}) AS r WHERE id % 80 = {part}"));
        }
    }
    database.checkpoint().unwrap();
    for round in 0..2 {
        for (question, plain, ordered, made) in [
            ("SELECT count(*) FROM t WHERE k BETWEEN 3000 AND 3010", 80, 16, 25),
            ("SELECT count(*) FROM t WHERE g = 3", 80, 30, 85),
            ("SELECT count(*) FROM t WHERE g = 3 AND k < 500", 80, 2, 25),
            ("SELECT count(*) FROM t WHERE g IN (1, 2) AND k < 500", 80, 8, 25),
            ("SELECT count(*) FROM t WHERE id > 7990", 80, 85, 8),
            ("SELECT count(*) FROM t WHERE k = 5 AND id < 100", 80, 16, 2),
        ] {
            let of = |table: &str| question.replace("FROM t ", &format!("FROM {table} "));
            let expected = table(&database, &of("plain"));
            for (name, most) in [("plain", plain), ("ordered", ordered), ("made", made)] {
                let (read, sql) = (clusters_read(&database, &of(name)), of(name));
                assert!(read <= most, "{round}: {read} clusters of {most}: {sql}");
                assert_eq!(table(&database, &sql), expected, "{sql}");
            }
        }
        let plan = lines(&database, "EXPLAIN SELECT * FROM ordered WHERE g = 3");
        assert!(plan.contains("fragments: 1 of 8"), "{plan}");
        let plan = lines(&database, "EXPLAIN SELECT * FROM made WHERE k < 5");
        assert!(plan.contains("fragments: 1 of 4"), "{plan}");
        let plan = lines(&database, "EXPLAIN SELECT * FROM plain WHERE k < 5");
        assert!(!plan.contains("fragments"), "{plan}");
        // Segments are of one fragment each.
        let fragments = "SELECT sum(segments) = (SELECT count(DISTINCT segment) FROM system.segments), \
                         sum(rows) FROM system.fragments";
        assert_eq!(table(&database, fragments), [["true", "24000"]]);
        drop(database);
        database = open();
    }
    // Another distribution while a reader goes on with the rows as they were.
    let session = database.session();
    session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ").unwrap();
    let before = session.execute("SELECT count(*), sum(id) FROM made WHERE k < 5000").unwrap().collect().unwrap();
    run(&database, "ALTER TABLE made SET DISTRIBUTED BY HASH (id) FRAGMENTS 5 CLUSTERED BY (k)");
    run(&database, "DELETE FROM made WHERE g = 0");
    let after = session.execute("SELECT count(*), sum(id) FROM made WHERE k < 5000").unwrap().collect().unwrap();
    assert_eq!(before, after);
    assert_eq!(table(&database, "SELECT count(*), count(DISTINCT id) FROM made"), [["7000", "7000"]]);
    let read = clusters_read(&database, "SELECT count(*) FROM made WHERE k BETWEEN 3000 AND 3010");
    assert!(read <= 10, "{read}");
}

#[test]
fn a_statement_may_bring_more_rows_than_there_is_memory() {
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let (memory_bytes, folder) = (Some(64 << 20), Some(folder.path().to_owned()));
        Database::open(DatabaseOptions { folder, memory_bytes, workers: Some(2), ..DatabaseOptions::default() })
            .unwrap()
    };
    let question = "SELECT count(*) AS c, sum(length(s)) AS l, min(g) AS i, max(g) AS a FROM t";
    let expected = "| 2500000 | 100000000 | 1 | 2500000 |";
    {
        let database = open();
        let made = "CREATE TABLE t AS SELECT g, lpad(g::text, 40, 'x') AS s FROM generate_series(1, 2000000) u(g)";
        database.session().execute(made).unwrap();
        let more = "INSERT INTO t SELECT g, lpad(g::text, 40, 'x') FROM generate_series(2000001, 2500000) u(g)";
        database.session().execute(more).unwrap();
        let found = lines(&database, question);
        assert!(found.contains(expected), "{found}");
        let tables =
            "SELECT name, rows, rows_in_memory < 131072 AS few, clusters >= 18 AS many, rows_gone FROM system.tables";
        let found = lines(&database, tables);
        assert!(found.contains("| t    | 2500000 | true | true | 0         |"), "{found}");
        let found = lines(&database, "SELECT sum(rows) > 2300000 AS most FROM system.segments WHERE segment_bytes > 0");
        assert!(found.contains("true"), "{found}");
        // So may one whose rows are divided by bounds that they decide, and ordered.
        let divided = "CREATE TABLE d DISTRIBUTED BY RANGE (g) UNIFORM FRAGMENTS 16 CLUSTERED BY (s) AS \
                       SELECT g, lpad(g::text, 40, 'x') AS s FROM t";
        database.session().execute(divided).unwrap();
        let found = lines(&database, "SELECT count(*) AS c, sum(length(s)) AS l, min(g) AS i, max(g) AS a FROM d");
        assert!(found.contains(expected), "{found}");
        let even = "SELECT count(*) AS n, min(rows) > 130000 AS few, max(rows) < 180000 AS many FROM system.fragments \
                    WHERE \"table\" = 'd'";
        let found = lines(&database, even);
        assert!(found.contains("| 16 | true | true |"), "{found}");
        database.session().execute("DROP TABLE d").unwrap();
        database.checkpoint().unwrap();
        // What is not there after all leaves nothing.
        let before = segments(folder.path()).len();
        let failing = "INSERT INTO t SELECT 1 / (2000000 - g), 'y' FROM generate_series(1, 2000000) u(g)";
        assert!(database.session().execute(failing).and_then(|result| result.collect()).is_err());
        assert_eq!(segments(folder.path()).len(), before);
    }
    let database = open();
    let found = lines(&database, question);
    assert!(found.contains(expected), "{found}");
}

#[test]
fn the_log_and_the_checkpoints_are_tables() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let database = open(&path);
    let session = database.session();
    let asked = |sql: &str| shown(&session.execute(sql).and_then(|result| result.collect()).unwrap());
    let log = "SELECT number, bytes > 0 AS has, records > 0 AS some, synced_records = records AS synced, covered \
               FROM system.log ORDER BY number";
    run(&session, "CREATE TABLE t (a INT)");
    run(&session, "INSERT INTO t SELECT * FROM generate_series(1, 1000)");
    assert_eq!(asked(log), ["1 true true true no"]);
    assert!(asked("SELECT * FROM system.checkpoints").is_empty());
    run(&session, "CHECKPOINT");
    assert_eq!(asked(log), ["2 false false true no"], "the log before the image is gone");
    let checkpoints = "SELECT number, state, image_bytes > 0 AS image, log_bytes > 0 AS log, error IS NULL AS well, \
                       made_total, failed_total, now() - began::timestamptz < INTERVAL '1 hour' AS lately \
                       FROM system.checkpoints ORDER BY number";
    assert_eq!(asked(checkpoints), ["1 made true true true 1 0 true"]);
    // Something is in the way of the image.
    std::fs::create_dir(path.join("image.new")).unwrap();
    run(&session, "INSERT INTO t VALUES (1)");
    assert!(database.checkpoint().is_err());
    assert_eq!(asked(log), ["2  true true no", "3 false false true no"]);
    std::fs::remove_dir(path.join("image.new")).unwrap();
    run(&session, "CHECKPOINT");
    let last = asked(checkpoints);
    assert_eq!(last[1], "2 failed   false 1 1 true");
    assert_eq!(last[2], "3 made true true true 2 1 true");
    // As long as the past is retained, logs stay that no opening reads.
    run(&session, "SET history_retention = '1h'");
    run(&session, "INSERT INTO t VALUES (2)");
    run(&session, "CHECKPOINT");
    let covered = asked("SELECT covered, synced_records = records AS synced FROM system.log ORDER BY number");
    assert_eq!(covered, ["yes true", "no true"]);
    drop(session);
    drop(database);
    let reader = Database::open(DatabaseOptions { read_only: true, ..in_folder(&path) }).unwrap();
    for table in ["log", "checkpoints"] {
        assert_eq!(number(&reader.session(), &format!("SELECT count(*) FROM system.{table}")), 0, "{table}");
    }
}
