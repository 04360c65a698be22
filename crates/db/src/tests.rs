//! Statements from text to rows, through the front door.

use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use arrow::util::pretty::pretty_format_batches;
use diligence_engine::plan::bytes;
use diligence_sql::{Planned, Query, SqlFunctions};
use futures::StreamExt;

use crate::test_sessions::{error, rows};
use crate::{Database, DatabaseOptions, ErrorKind, ResultKind, Session};

fn session() -> Session {
    Database::open(DatabaseOptions { workers: Some(2), ..DatabaseOptions::default() }).unwrap().session()
}

fn command(session: &Session, sql: &str) -> (String, Option<u64>) {
    match session.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}")).kind() {
        ResultKind::Command { tag, rows } => (tag.to_owned(), rows),
        ResultKind::Rows => panic!("{sql} gave rows"),
    }
}

/// Reads a plan that another session has written, as the session sees the database.
fn read_again(session: &Session, bytes: &[u8]) -> diligence_base::Result<Query> {
    let snapshot = session.snapshot();
    let live = session.planner().live(&snapshot);
    let plan = bytes::read(bytes, &SqlFunctions, &live)?;
    let tables = live.tables(&plan)?;
    Ok(Query::new(plan, tables))
}

#[test]
fn a_plan_of_bytes_runs_in_a_session_that_has_its_tables() {
    let first = session();
    for sql in [
        "CREATE TABLE t AS SELECT g AS a, g || 'x' AS s FROM generate_series(1, 1000) t(g)",
        "CREATE SEQUENCE s",
        "CREATE ROLE other",
    ] {
        first.execute(sql).unwrap();
    }
    let sql =
        "SELECT count(*), sum(a) FILTER (WHERE s LIKE '%5x'), nextval('s') FROM t WHERE a > (SELECT min(a) FROM t)";
    let parsed = first.planner().parse(sql).unwrap();
    let Planned::Query(query, _) = first.planner().plan(&first.snapshot(), &parsed, &[]).unwrap() else {
        panic!("{sql}")
    };
    let (bytes, beside) = bytes::write(&query.plan, &SqlFunctions).unwrap();
    drop((beside, query));
    let second = first.database().session();
    let plan = read_again(&second, &bytes).unwrap();
    let ran = second.run_query(&plan, second.query_options("")).unwrap();
    let batches = futures::executor::block_on_stream(ran).collect::<diligence_base::Result<Vec<_>>>().unwrap();
    let shown = pretty_format_batches(&batches).unwrap().to_string();
    assert!(shown.contains("| 999 "), "{shown}");
    assert_eq!(rows(&second, "SELECT currval('s')"), ["1"], "the sequence is that of whoever runs the plan");
    // Whoever may not read the table does not get it by a plan.
    second.execute("SET ROLE other").unwrap();
    assert_eq!(read_again(&second, &bytes).map(|_| ()).unwrap_err().code(), Some("42501"));
    second.execute("RESET ROLE").unwrap();
    second.execute("INSERT INTO t VALUES (0, '')").unwrap();
    assert_eq!(read_again(&second, &bytes).map(|_| ()).unwrap_err().code(), Some("42P01"), "other rows are not these");
}

/// The groups of a query share the memory of their text; a table made of them counts, and keeps, what its rows need.
#[test]
fn a_table_of_grouped_text_needs_the_memory_of_its_rows() {
    let session = session();
    let text = "lpad(CAST(value AS VARCHAR), 60, 'x') AS s FROM generate_series(1, 200000) t(value)";
    session.execute(&format!("CREATE TABLE many AS SELECT {text}")).unwrap();
    session.execute("SET query_memory = '150MB'").unwrap();
    let made = command(&session, "CREATE TABLE grouped AS SELECT s, count(*) AS n FROM many GROUP BY s");
    assert_eq!(made, ("CREATE TABLE AS".to_owned(), Some(200_000)));
    assert_eq!(command(&session, "INSERT INTO grouped SELECT DISTINCT s, 2 FROM many").1, Some(200_000));
    assert_eq!(rows(&session, "SELECT count(DISTINCT s), sum(n), min(length(s)) FROM grouped"), ["200000 600000 60"]);
}

#[test]
fn tables_in_memory_are_made_filled_and_dropped() {
    let session = session();
    assert_eq!(
        command(&session, "CREATE TABLE t (a INT NOT NULL, b TEXT DEFAULT 'none')"),
        ("CREATE TABLE".to_owned(), Some(0))
    );
    assert_eq!(command(&session, "INSERT INTO t VALUES (1, 'one'), (2, NULL)"), ("INSERT".to_owned(), Some(2)));
    assert_eq!(command(&session, "INSERT INTO t (a) VALUES (3)"), ("INSERT".to_owned(), Some(1)));
    assert_eq!(rows(&session, "SELECT a, b FROM t ORDER BY a"), ["1 one", "2 ", "3 none"]);
    assert_eq!(error(&session, "INSERT INTO t VALUES (NULL, 'x')").kind(), ErrorKind::Value);
    assert_eq!(rows(&session, "SELECT count(*) FROM t"), ["3"]);
    assert_eq!(
        command(&session, "CREATE TABLE u AS SELECT a * 2 AS a FROM t"),
        ("CREATE TABLE AS".to_owned(), Some(3))
    );
    assert_eq!(command(&session, "CREATE TABLE IF NOT EXISTS u AS SELECT 1"), ("CREATE TABLE AS".to_owned(), None));
    assert!(error(&session, "CREATE TABLE u AS SELECT 1 AS x").message().contains("exists already"));
    assert_eq!(
        command(&session, "CREATE OR REPLACE TABLE u AS SELECT 7 AS a"),
        ("CREATE TABLE AS".to_owned(), Some(1))
    );
    assert_eq!(command(&session, "INSERT OVERWRITE u SELECT a FROM t"), ("INSERT".to_owned(), Some(3)));
    assert_eq!(command(&session, "TRUNCATE TABLE u").0, "TRUNCATE TABLE");
    assert_eq!(rows(&session, "SELECT count(*) FROM u"), ["0"]);
    assert_eq!(command(&session, "DROP TABLE u").0, "DROP TABLE");
    assert_eq!(command(&session, "DROP TABLE IF EXISTS u").0, "DROP TABLE");
    assert_eq!(error(&session, "DROP TABLE tt").hint(), Some("did you mean 't'?"));
    assert!(error(&session, "DROP VIEW t").message().contains("not a view"));
}

#[test]
fn a_view_reads_its_tables_and_they_stay() {
    let session = session();
    session.execute("CREATE TABLE t AS SELECT 1 AS a").unwrap();
    assert_eq!(command(&session, "CREATE VIEW v AS SELECT a + 1 AS b FROM t").0, "CREATE VIEW");
    session.execute("INSERT INTO t VALUES (5)").unwrap();
    assert_eq!(rows(&session, "SELECT b FROM v ORDER BY b"), ["2", "6"]);
    session.execute("CREATE OR REPLACE VIEW w (c) AS SELECT b FROM v WHERE b > 2").unwrap();
    assert_eq!(rows(&session, "SELECT c FROM w"), ["6"]);
    assert!(error(&session, "CREATE OR REPLACE VIEW v AS SELECT c AS b FROM w").message().contains("from itself"));
    let refused = error(&session, "DROP TABLE t");
    assert_eq!(
        (refused.code(), refused.detail()),
        (Some("2BP01"), Some("view v depends on table t\nview w depends on view v"))
    );
    session.execute("DROP TABLE t CASCADE").unwrap();
    assert!(error(&session, "SELECT * FROM w").message().contains("no table is named 'w'"));
}

#[test]
fn views_nest_until_it_is_said_that_they_do_not() {
    let session = session();
    session.execute("CREATE VIEW v0 AS SELECT 1 AS a").unwrap();
    let refused = (1..1000).find_map(|level| {
        let view = format!("CREATE VIEW v{level} AS SELECT a + 1 AS a FROM v{} WHERE a > 0", level - 1);
        session.execute(&view).err().map(|error| (level, error))
    });
    let (level, error) = refused.unwrap();
    assert!(error.message().contains("nest too deep"), "{error}");
    assert!(level > 60, "only {level} levels");
    assert_eq!(rows(&session, "SELECT a FROM v50"), ["51"]);
    assert_eq!(rows(&session, &format!("SELECT a FROM v{}", level - 2)), [(level - 1).to_string()]);
}

#[test]
fn schemas_hold_tables() {
    let session = session();
    session.execute("CREATE SCHEMA lab").unwrap();
    session.execute("CREATE TABLE lab.t AS SELECT 1 AS a").unwrap();
    assert_eq!(rows(&session, "SELECT a FROM lab.t"), ["1"]);
    assert!(error(&session, "SELECT a FROM t").message().contains("no table is named 't'"));
    let error_of_schema = error(&session, "SELECT a FROM labb.t");
    assert_eq!(error_of_schema.message(), "no table is named 'labb.t'");
    assert_eq!(error_of_schema.hint(), Some("did you mean 'lab.t'?"));
    assert!(error(&session, "DROP SCHEMA lab").hint().is_some());
    session.execute("DROP SCHEMA lab CASCADE").unwrap();
    assert_eq!(
        rows(&session, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'system' ORDER BY 1"),
        [
            "attached",
            "buffer",
            "checkpoints",
            "client_settings",
            "cursors",
            "fragments",
            "history",
            "indexes",
            "latches",
            "locks",
            "log",
            "memory",
            "pool",
            "pool_numbers",
            "prepared_statements",
            "queries",
            "segments",
            "settings",
            "sharing",
            "stages",
            "tables",
            "temp",
            "tuning",
            "workers"
        ]
    );
}

#[test]
fn prepared_statements_see_the_tables_of_their_execution() {
    let session = session();
    session.execute("CREATE TABLE t AS SELECT * FROM (VALUES (1), (2), (3)) AS v(a)").unwrap();
    assert_eq!(command(&session, "PREPARE above (INT) AS SELECT a FROM t WHERE a > $1 ORDER BY a").0, "PREPARE");
    assert_eq!(rows(&session, "EXECUTE above(1)"), ["2", "3"]);
    session.execute("INSERT INTO t VALUES (4)").unwrap();
    assert_eq!(rows(&session, "EXECUTE above(1 + 1)"), ["3", "4"]);
    assert!(error(&session, "EXECUTE above").message().contains("wrong number of parameters"));
    assert_eq!(error(&session, "EXECUTE abov(1)").hint(), Some("did you mean 'above'?"));
    assert_eq!(command(&session, "PREPARE add AS INSERT INTO t VALUES ($1)").0, "PREPARE");
    assert_eq!(command(&session, "EXECUTE add(9)"), ("INSERT".to_owned(), Some(1)));
    let listed = "SELECT name, parameter_types, from_sql, prepare_time <= now() FROM pg_prepared_statements ORDER BY 1";
    assert_eq!(rows(&session, listed), ["above [integer] true true", "add [integer] true true"]);
    assert_eq!(
        rows(&session, "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE 'PREPARE add AS %'"),
        ["1"]
    );
    assert_eq!(command(&session, "DEALLOCATE above").0, "DEALLOCATE");
    assert_eq!(rows(&session, "SELECT name FROM system.prepared_statements"), ["add"]);
    session.client_prepares("by_client", "SELECT $1", &[25, 1007]);
    let listed = "SELECT name, statement, parameter_types FROM pg_prepared_statements WHERE NOT from_sql";
    assert_eq!(rows(&session, listed), ["by_client SELECT $1 [text, integer[]]"]);
    session.client_forgets(None);
    assert_eq!(rows(&session, "SELECT count(*) FROM pg_prepared_statements"), ["0"]);
    assert!(error(&session, "EXECUTE above(1)").message().contains("no prepared statement"));
}

#[test]
fn settings_are_set_shown_and_reset() {
    let session = session();
    session.execute("SET batch_rows = 100").unwrap();
    assert_eq!(rows(&session, "SHOW batch_rows"), ["batch_rows 100"]);
    session.execute("SET query_memory = '512MB'").unwrap();
    assert_eq!(rows(&session, "SELECT value FROM system.settings WHERE name = 'query_memory'"), ["512.0 MiB"]);
    for setting in ["memory", "query_memory"] {
        let refused = error(&session, &format!("SET {setting} = '16000000'"));
        assert!(refused.message().contains("15.3 MiB is too small: the minimum is 16.0 MiB"), "{refused}");
        session.execute(&format!("SET {setting} = '16MiB'")).unwrap();
        session.execute(&format!("RESET {setting}")).unwrap();
    }
    session.execute("SET stage_policy = t_gated(3)").unwrap();
    assert_eq!(rows(&session, "SHOW stage_policy"), ["stage_policy t_gated(3)"]);
    session.execute("SET stage_policy = 'fcfs, Scan: t_gated(2), sort: ps'").unwrap();
    assert_eq!(rows(&session, "SHOW stage_policy"), ["stage_policy fcfs, scan: t_gated(2), sort: processor_sharing"]);
    session.execute("SET sort_plan = mms(1)").unwrap();
    assert_eq!(rows(&session, "SHOW sort_plan"), ["sort_plan mms(1)"]);
    session.execute("SET sort_plan = 'ems-nr'").unwrap();
    session.execute("SET parquet_compression = 'zstd(3)'").unwrap();
    assert_eq!(rows(&session, "SHOW parquet_compression"), ["parquet_compression zstd(3)"]);
    session.execute("RESET parquet_compression").unwrap();
    assert_eq!(rows(&session, "SHOW parquet_compression"), ["parquet_compression snappy"]);
    session.execute("SET TIME ZONE = '+02:00'").unwrap();
    assert_eq!(rows(&session, "SHOW TIME ZONE"), ["timezone +02:00"]);
    session.execute("RESET ALL").unwrap();
    assert_eq!(rows(&session, "SHOW batch_rows"), ["batch_rows 8192"]);
    assert_eq!(rows(&session, "SHOW stage_policy"), ["stage_policy two_level(6)"]);
    assert_eq!(rows(&session, "SHOW sort_plan"), ["sort_plan cost"]);
    assert!(rows(&session, "SHOW ALL").len() > 15);
    assert!(error(&session, "SET batch_rows = 0").message().contains("from 1 to 8192"));
    assert_eq!(error(&session, "SET batch_row = 5").hint(), Some("did you mean 'batch_rows'?"));
    assert!(error(&session, "SET workers = 5").hint().is_some());
    assert!(error(&session, "SET parquet_row_group_rows = 'many'").message().contains("parquet_row_group_rows"));
    assert!(error(&session, "SET stage_policy = lifo").hint().is_some());
    let no_stage = error(&session, "SET stage_policy = 'fcfs, scans: fcfs'");
    assert_eq!((no_stage.code(), no_stage.hint().unwrap().contains("scan, join")), (Some("22023"), true), "{no_stage}");
    for wrong in ["scan: 0", "scans: 1", "memory: 1", "2"] {
        let refused = error(&session, &format!("SET stage_workers = '{wrong}'"));
        assert_eq!(refused.code(), Some("22023"), "{refused}");
        assert!(refused.hint().unwrap().contains("'scan: 1, sort: 2'"), "{refused}");
    }
    assert!(error(&session, "SET sort_plan = bubble").hint().is_some());
}

#[test]
fn a_database_opens_with_settings_for_all_sessions() {
    let settings = vec![("batch_rows".to_owned(), "7".to_owned())];
    let database = Database::open(DatabaseOptions { settings, ..DatabaseOptions::default() }).unwrap();
    let session = database.session();
    assert_eq!(rows(&session, "SHOW batch_rows"), ["batch_rows 7"]);
    session.execute("SET batch_rows = 9").unwrap();
    session.execute("RESET batch_rows").unwrap();
    assert_eq!(rows(&session, "SHOW batch_rows"), ["batch_rows 7"]);
    let settings = vec![("no_such".to_owned(), "7".to_owned())];
    let refused = Database::open(DatabaseOptions { settings, ..DatabaseOptions::default() });
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Input);
}

#[test]
fn errors_say_where_and_what_else() {
    let session = session();
    session.execute("CREATE TABLE items AS SELECT 1 AS price, 'x' AS label").unwrap();
    let cases = [
        ("SELECT prise FROM items", "no column is named 'prise' (line 1, column 8)\nhint: did you mean 'price'?"),
        ("SELECT 1\nFROM itms", "no table is named 'itms' (line 2, column 6)\nhint: did you mean 'items'?"),
        (
            "SELECT upperr(label) FROM items",
            "function upperr(text) does not exist (line 1, column 8)\nhint: did you mean 'upper'?",
        ),
        ("SELECT i.price FROM items j", "no table or alias is named 'i' here"),
        ("SELECT * FROM items WHERE", "expected an expression, found the end of the statement"),
        ("SELECT price FROM items, items k", "the column 'price' is ambiguous"),
    ];
    for (sql, expected) in cases {
        let error = error(&session, sql);
        assert_eq!(error.kind(), ErrorKind::Input, "{sql}");
        assert!(error.to_string().starts_with(expected), "{sql}: {error}");
    }
    assert_eq!(error(&session, "SELECT 1 / 0").kind(), ErrorKind::Value);
    assert_eq!(error(&session, "SELECT price / (price - 1) FROM items").kind(), ErrorKind::Value);
    assert_eq!(error(&session, "SELECT * FROM 'no/such/file.parquet'").kind(), ErrorKind::File);
    assert_eq!(
        error(&session, "INSERT INTO items VALUES (1) ON DUPLICATE KEY UPDATE price = 1").kind(),
        ErrorKind::Unsupported
    );
    assert!(error(&session, "SELECT * FROM items.parquet").hint().is_some_and(|hint| hint.contains("quotes")));
}

#[test]
fn deep_statements_neither_fail_nor_crash() {
    let session = session();
    assert_eq!(rows(&session, &format!("SELECT {}1{} AS x", "(".repeat(1000), ")".repeat(1000))), ["1"]);
    assert_eq!(rows(&session, &format!("SELECT x{} FROM (VALUES (1)) AS v(x)", "+1".repeat(2000))), ["2001"]);
    let too_deep = error(&session, &format!("SELECT 1{}", "+1".repeat(100_000)));
    assert!(too_deep.message().contains("levels"));
    for count in [50, 500] {
        let tables = format!("{}SELECT 1 AS a{}", "SELECT * FROM (".repeat(count), ") AS x".repeat(count));
        assert_eq!(rows(&session, &tables), ["1"]);
    }
    for count in [10, 60] {
        let values = format!("SELECT {}1{}", "(SELECT ".repeat(count), ")".repeat(count));
        assert_eq!(rows(&session, &values), ["1"]);
        let exists = format!("{}SELECT 1{}", "SELECT 1 WHERE EXISTS (".repeat(count), ")".repeat(count));
        assert_eq!(rows(&session, &exists), ["1"]);
    }
}

#[test]
fn explain_shows_pipelines_and_analyze_what_they_did() {
    let session = session();
    session.execute("CREATE TABLE t AS SELECT * FROM (VALUES (1), (2)) AS v(a)").unwrap();
    let explained = rows(&session, "EXPLAIN SELECT a, count(*) FROM t GROUP BY a").join("\n");
    assert!(explained.contains("Aggregate") && explained.contains("Pipeline"), "{explained}");
    let analyzed = rows(&session, "EXPLAIN ANALYZE SELECT a, count(*) FROM t GROUP BY a").join("\n");
    assert!(analyzed.contains("Aggregate"), "{analyzed}");
    let verbose = rows(&session, "EXPLAIN VERBOSE SELECT a FROM t").join("\n");
    for form in ["Bound:", "Unnested:", "Rewritten:"] {
        assert!(verbose.contains(form), "{verbose}");
    }
    assert!(error(&session, "EXPLAIN SET batch_rows = 1").message().contains("only queries"));
    for tree in ["EXPLAIN FORMAT tree SELECT 1", "EXPLAIN (FORMAT graphviz) SELECT 1"] {
        assert!(error(&session, tree).message().contains("TEXT or JSON"));
    }
    let text = rows(&session, "EXPLAIN (FORMAT TEXT) SELECT a, count(*) FROM t GROUP BY a").join("\n");
    assert_eq!(text, explained);
}

#[test]
fn conditions_find_rows_by_indexes() {
    let session = session();
    let columns = "id bigint PRIMARY KEY, a int, b int, s text, v varchar(20), d date, n numeric(10, 2), k smallint, \
                   z timestamp, c boolean";
    let values = "i, i % 100, i / 100, 'text ' || i, 'text ' || i, DATE '2024-01-01' + i, i / 4.0, i % 1000, \
                  TIMESTAMP '2024-01-01' + make_interval(hours => i), i % 2 = 0";
    for statement in [
        format!("CREATE TABLE t ({columns})"),
        format!("INSERT INTO t SELECT {values} FROM generate_series(1, 10000) AS g(i)"),
        "CREATE INDEX t_a_b ON t (a, b)".to_owned(),
        "CREATE INDEX t_upper ON t (upper(s))".to_owned(),
        "CREATE INDEX t_k ON t (k) WHERE c".to_owned(),
        "CREATE TABLE few AS SELECT * FROM (VALUES (7), (77), (5000000)) AS few(x)".to_owned(),
    ] {
        session.execute(&statement).unwrap();
    }
    for column in ["s", "v", "d", "n", "z"] {
        session.execute(&format!("CREATE INDEX t_{column} ON t ({column})")).unwrap();
    }
    let scan_of = |sql: &str| {
        let explained = rows(&session, &format!("EXPLAIN {sql}"));
        explained.into_iter().find(|line| line.contains("Scan t ")).unwrap()
    };
    for (condition, index) in [
        ("id = 5", "t_pkey: 1 row"),
        ("5 = id AND s <> ''", "t_pkey: 1 row"),
        ("id IN (5, 6, 70000)", "t_pkey: 2 rows"),
        ("id BETWEEN 11 AND 20", "t_pkey: 10 rows"),
        ("id > 9990", "t_pkey: 10 rows"),
        ("id = 3 OR id = 4", "t_pkey: 2 rows"),
        ("a = 7 AND b = 3", "t_a_b: 1 row"),
        ("a = 7", "t_a_b: 100 rows"),
        ("a = 7 AND b >= 98", "t_a_b: 2 rows"),
        ("a IS NULL", "t_a_b: 0 rows"),
        ("s = 'text 12'", "t_s: 1 row"),
        ("s LIKE 'text 12%'", "t_s: 111 rows"),
        ("v = 'text 12'", "t_v: 1 row"),
        ("d = DATE '2024-02-01'", "t_d: 1 row"),
        ("d < '2024-01-11'", "t_d: 9 rows"),
        ("z >= '2024-01-02 00:00' AND z < '2024-01-02 06:00'", "t_z: 6 rows"),
    ] {
        let scan = scan_of(&format!("SELECT * FROM t WHERE {condition}"));
        assert!(scan.contains(&format!("index {index}")), "{condition}: {scan}");
        let count = format!("SELECT count(*) FROM t WHERE {condition}");
        let by_index = rows(&session, &count);
        session.execute("SET enable_indexscan = off").unwrap();
        assert!(!scan_of(&count).contains("index"), "{condition}");
        assert_eq!(rows(&session, &count), by_index, "{condition}");
        session.execute("RESET enable_indexscan").unwrap();
    }
    for condition in ["id <> 5", "id > 5", "b = 3", "k = 12", "lower(s) = 'text 12'", "s LIKE '%12'", "a + 1 = 8"] {
        let scan = scan_of(&format!("SELECT * FROM t WHERE {condition}"));
        assert!(!scan.contains("index"), "{condition}: {scan}");
    }
    for (sql, index) in [
        ("SELECT id FROM t ORDER BY id DESC LIMIT 3", "t_pkey: first 3 rows"),
        ("SELECT b FROM t WHERE a = 7 ORDER BY b LIMIT 5", "t_a_b: first 5 rows"),
        ("SELECT * FROM t WHERE id > 50 ORDER BY id LIMIT 5", "t_pkey: first 5 rows"),
    ] {
        let scan = scan_of(sql);
        assert!(scan.contains(&format!("index {index}")), "{sql}: {scan}");
    }
    // Answers are right where a join looks keys up, and where UPDATE and DELETE find their rows.
    let found = || {
        let sql = "SELECT rows_found FROM system.indexes WHERE name = 't_pkey'";
        rows(&session, sql)[0].parse::<usize>().unwrap()
    };
    let before = found();
    assert_eq!(rows(&session, "SELECT t.a FROM few JOIN t ON t.id = few.x ORDER BY 1"), ["7", "77"]);
    session.execute("UPDATE t SET a = 1 WHERE id = 5").unwrap();
    session.execute("DELETE FROM t WHERE id BETWEEN 6 AND 8").unwrap();
    assert!(found() >= before + 4);
    assert_eq!(
        rows(&session, "SELECT count(*), min(id) FILTER (WHERE a = 1 AND id > 1) FROM t WHERE id < 20"),
        ["16 5"]
    );
    assert!(error(&session, "SET enable_indexscan = maybe").message().contains("Boolean"));
    assert_eq!(rows(&session, "SHOW enable_indexscan"), ["enable_indexscan on"]);
}

#[test]
fn equal_values_that_are_held_as_texts_are_found_by_indexes() {
    let session = session();
    for statement in [
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "CREATE DOMAIN positive AS integer CHECK (VALUE > 0)",
        "CREATE TABLE t (i inet, r int4range, m mood, p positive, v tsvector, q tsquery)",
        "INSERT INTO t SELECT '10.0.0.0'::inet + i, int4range(i, i + 1), \
         (CASE WHEN i = 7 THEN 'ok' ELSE 'sad' END)::mood, i, to_tsvector('simple', 'n' || i), \
         to_tsquery('simple', 'n' || i) FROM generate_series(1, 5000) AS g(i)",
        "CREATE INDEX t_i ON t (i)",
        "CREATE INDEX t_r ON t (r)",
        "CREATE INDEX t_m ON t (m)",
        "CREATE INDEX t_p ON t (p)",
        "CREATE INDEX t_v ON t (v)",
    ] {
        session.execute(statement).map(|_| ()).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    for (condition, index) in [
        ("i = '10.0.0.7/32'", "t_i: 1 row"),
        ("i IN ('10.0.0.7', '10.0.0.8')", "t_i: 2 rows"),
        ("r = '[7,7]'", "t_r: 1 row"),
        ("m = 'ok'", "t_m: 1 row"),
        ("p = 7", "t_p: 1 row"),
        ("v = to_tsvector('simple', 'n7')", "t_v: 1 row"),
    ] {
        let explained = rows(&session, &format!("EXPLAIN SELECT * FROM t WHERE {condition}"));
        let scan = explained.into_iter().find(|line| line.contains("Scan t ")).unwrap();
        assert!(scan.contains(&format!("index {index}")), "{condition}: {scan}");
    }
    // What asks for the order of values does not.
    assert_eq!(rows(&session, "SELECT count(*) FROM t WHERE i > '10.0.19.0'"), ["136"]);
    assert_eq!(rows(&session, "SELECT p FROM t ORDER BY i DESC LIMIT 2"), ["5000", "4999"]);
    // A query is equal to one with other weights.
    session.execute("CREATE UNIQUE INDEX t_q ON t (q)").unwrap();
    assert_eq!(rows(&session, "SELECT p FROM t WHERE q = 'n7:A'"), ["7"]);
    assert_eq!(error(&session, "INSERT INTO t (q) VALUES ('n7:B')").code(), Some("23505"));
}

#[test]
fn plans_are_json_for_programs() {
    let session = session();
    session.execute("CREATE TABLE t AS SELECT 1 AS a UNION ALL SELECT 2").unwrap();
    let query = "SELECT a, count(*) FROM t GROUP BY a ORDER BY a";
    let document = |explain: &str| -> serde_json::Value {
        let batches = session.execute(&format!("{explain} {query}")).unwrap().collect().unwrap();
        assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 1, "one row");
        serde_json::from_str(batches[0].column(0).as_string_view().value(0)).unwrap()
    };
    let planned = document("EXPLAIN (FORMAT JSON)");
    let aggregate = &planned["plan"]["inputs"][0];
    assert!(aggregate["operator"].as_str().unwrap().starts_with("Aggregate by a"), "{planned}");
    assert!(planned.get("pipelines").is_none());
    let could_share = planned["could_share"].as_str().unwrap();
    assert!(could_share.contains("because it is expected to touch fewer than 50000 rows"), "{planned}");
    for explain in
        ["EXPLAIN (ANALYZE, FORMAT JSON)", "explain analyze format json", "EXPLAIN (FORMAT json, ANALYZE ON)"]
    {
        let ran = document(explain);
        let name = format!("=> {}", ran["plan"]["inputs"][0]["operator"].as_str().unwrap());
        let pipelines = ran["pipelines"].as_array().unwrap();
        let mut operators = pipelines.iter().flat_map(|pipeline| pipeline["operators"].as_array().unwrap());
        let sink = operators.find(|operator| operator["name"] == name.as_str()).unwrap();
        assert_eq!(sink["rows"], 2);
        assert!(ran["query"]["elapsed_us"].as_u64().is_some() && ran["query"]["sharing"].is_array());
    }
}

#[test]
fn a_dropped_or_cancelled_result_stops_its_query() {
    let session = session();
    session.execute("CREATE TABLE n AS SELECT a FROM generate_series(1, 3000) AS a").unwrap();
    let endless = "SELECT count(*) FROM n x, n y, n z WHERE x.a + y.a + z.a = 0";
    drop(session.execute(endless).unwrap());
    let mut result = session.execute(endless).unwrap();
    result.cancel_token().cancel();
    let cancelled = std::iter::from_fn(|| result.next_blocking()).find_map(Result::err).unwrap();
    assert_eq!(cancelled.kind(), ErrorKind::Cancelled);
    let states = "SELECT count(*) FROM system.queries WHERE statement LIKE '%x.a + y.a%' AND state = 'running'";
    for _ in 0..200 {
        if rows(&session, &format!("{states} AND statement NOT LIKE '%system%'")) == ["0"] {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("a query still runs");
}

#[test]
fn files_are_tables_by_their_path_and_in_a_folder() {
    let folder = std::env::temp_dir().join(format!("diligence-db-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = |name: &str| folder.join(name).display().to_string();
    let first = session();
    let copied = format!("COPY (SELECT a FROM generate_series(1, 10) AS a) TO '{}'", path("numbers.parquet"));
    assert_eq!(command(&first, &copied), ("COPY".to_owned(), Some(10)));
    assert_eq!(rows(&first, &format!("SELECT sum(a) FROM '{}'", path("numbers.parquet"))), ["55"]);
    assert_eq!(rows(&first, &format!("SELECT count(*) FROM '{}'", path("*.parquet"))), ["10"]);
    first
        .execute(&format!("CREATE EXTERNAL TABLE e STORED AS PARQUET LOCATION '{}'", path("numbers.parquet")))
        .unwrap();
    assert_eq!(rows(&first, "SELECT max(a) FROM e"), ["10"]);
    assert_eq!(error(&first, "INSERT INTO e VALUES (1)").kind(), ErrorKind::Unsupported);

    let options = DatabaseOptions { data: vec![folder.clone()], ..DatabaseOptions::default() };
    let second = Database::open(options).unwrap();
    assert_eq!(rows(&second.session(), "SELECT count(*) FROM numbers"), ["10"]);
    assert_eq!(second.tables()[0].name, "numbers");
    // A file that is replaced is read anew.
    std::fs::remove_file(folder.join("numbers.parquet")).unwrap();
    command(&first, &copied.replace("(1, 10)", "(1, 20)"));
    assert_eq!(rows(&second.session(), "SELECT count(*) FROM numbers"), ["20"]);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Scans of one file, many at once and one after the other, with conditions on columns that others did not decode,
/// folders' columns, a LIMIT, text in dictionaries and not, NULLs, and all sizes of batches.
#[test]
fn scans_share_what_they_decode_and_answer_the_same() {
    ["PARQUET", "CSV", "JSON"].into_iter().for_each(scans_share);
}

fn scans_share(format: &str) {
    let folder = std::env::temp_dir().join(format!("diligence-scans-{format}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let session = session();
    let make = |rows: u64| {
        let columns = "value AS k, value % 100 AS g, CASE WHEN value % 7 = 0 THEN NULL ELSE value * 3 END AS n, \
                       CAST(value AS DECIMAL(12, 2)) AS d, 'town ' || (value % 5) AS few, 'the name of number ' || value AS many, \
                       value % 3 AS part";
        let location = folder.join("t").display().to_string();
        let copy = format!(
            "COPY (SELECT {columns} FROM generate_series(1, {rows}) AS s(value)) TO '{location}/' STORED AS {format} PARTITIONED BY (part)"
        );
        session.execute(&copy).unwrap();
    };
    make(400_000);
    session
        .execute(&format!("CREATE EXTERNAL TABLE t STORED AS {format} LOCATION '{}/'", folder.join("t").display()))
        .unwrap();
    let queries = [
        "SELECT count(*), sum(n), max(many), min(few) FROM t WHERE g < 10",
        "SELECT few, part, count(n), sum(d) FROM t WHERE k > 1000 AND many LIKE '%7%' GROUP BY few, part ORDER BY few, part",
        "SELECT k, many FROM t WHERE g = 3 AND few = 'town 3' ORDER BY k LIMIT 5",
        "SELECT count(*) FROM (SELECT * FROM t LIMIT 10)",
        "SELECT sum(k) FROM t WHERE part = 1 AND n > 500000",
        "SELECT count(*), sum(a.d) FROM t a JOIN t b ON a.k = b.n WHERE b.g > 50",
    ];
    let alone = session.database().session();
    alone.set("sharing", "off").unwrap();
    let expected = queries.map(|query| rows(&alone, query));
    assert_eq!(session.database().engine().sharing().columns_left_total, 0);
    std::thread::scope(|scope| {
        for client in 0..6 {
            let (session, expected, queries) = (session.database().session(), &expected, &queries);
            session.set("sharing", "scans").unwrap();
            // Windows of some are parts of those of others.
            session.set("batch_rows", ["8192", "8192", "8192", "512", "4096", "1000"][client]).unwrap();
            scope.spawn(move || {
                for turn in 0..8 {
                    let number = (client * 5 + turn) % queries.len();
                    assert_eq!(&rows(&session, queries[number]), &expected[number], "{}", queries[number]);
                }
            });
        }
    });
    let sharing = session.database().engine().sharing();
    assert!(sharing.columns_left_total > 0 && sharing.columns_read_total > sharing.columns_left_total, "{sharing:?}");
    let shown =
        rows(&session, "SELECT DISTINCT state, bytes > 0, uses > 0 FROM system.sharing WHERE state = 'decoded'");
    assert_eq!(shown, ["decoded true true"]);
    // Without what was left in windows of other sizes.
    session.execute("SET sharing_columns = 0").unwrap();
    session.execute("SET sharing_columns = 30").unwrap();
    session.set("sharing", "scans").unwrap();
    for _asked_before_it_is_worth_leaving in 0..2 {
        assert_eq!(rows(&session, queries[0]), expected[0]);
    }
    let analyzed = rows(&session, &format!("EXPLAIN ANALYZE {}", queries[0])).join("\n");
    assert!(analyzed.contains("columns of clusters were decoded already, by other scans; "), "{analyzed}");
    assert!(analyzed.contains(" less to read"), "{analyzed}");
    assert!(analyzed.contains("an equal condition of another scan"), "{analyzed}");
    assert!(analyzed.contains(", 0 B fetched"), "{analyzed}");
    // Other files are another table.
    std::fs::remove_dir_all(folder.join("t")).unwrap();
    make(1000);
    assert_eq!(rows(&session, "SELECT count(*), max(k) FROM t"), ["1000 1000"]);
    session.execute("SET sharing_columns = 0").unwrap();
    assert_eq!(session.database().engine().sharing().columns_bytes, 0);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn files_of_a_folder_are_added_whole_or_not_at_all() {
    let folder = std::env::temp_dir().join(format!("diligence-insert-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let location = folder.join("t");
    let session = session();
    let create = "CREATE EXTERNAL TABLE t (a BIGINT, b INT) STORED AS PARQUET";
    session.execute(&format!("{create} PARTITIONED BY (b) LOCATION '{}/'", location.display())).unwrap();
    assert_eq!(rows(&session, "SELECT count(*) FROM t"), ["0"]);
    let insert = "INSERT INTO t SELECT value, value % 3 FROM generate_series(1, 100) AS s(value)";
    std::thread::scope(|scope| {
        let add = || (0..5).for_each(|_| assert_eq!(command(&session, insert), ("INSERT".to_owned(), Some(100))));
        let adding = (0..3).map(|_| scope.spawn(add)).collect::<Vec<_>>();
        for thread in adding {
            thread.join().unwrap();
        }
    });
    assert_eq!(rows(&session, "SELECT count(*), sum(a), max(b) FROM t"), ["1500 75750 2"]);
    assert_eq!(rows(&session, &format!("SELECT count(*) FROM '{}/b=*/*.parquet'", location.display())), ["1500"]);
    let entries = || {
        let entries = std::fs::read_dir(&location).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names = entries.map(|name| name.to_string_lossy().into_owned()).collect::<Vec<_>>();
        names.sort();
        names
    };
    assert_eq!(entries(), ["b=0", "b=1", "b=2"]);
    // One that fails, one that nobody reads, one that is not run.
    let failing = "INSERT INTO t SELECT 10 / (value - 9000), 7 FROM generate_series(1, 9000) AS s(value)";
    error(&session, failing);
    for _ in 0..20 {
        drop(session.start(insert).unwrap());
    }
    session.execute(&format!("EXPLAIN {insert}")).unwrap().collect().unwrap();
    assert_eq!(rows(&session, "SELECT count(*) FROM t"), ["1500"]);
    let mut tries = 0;
    while entries() != ["b=0", "b=1", "b=2"] && tries < 1000 {
        std::thread::sleep(Duration::from_millis(5));
        tries += 1;
    }
    assert_eq!(entries(), ["b=0", "b=1", "b=2"]);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn results_are_streams_too() {
    let session = session();
    let count = futures::executor::block_on(async {
        session.execute_async("CREATE TABLE t AS SELECT a FROM generate_series(1::BIGINT, 20000) AS a").await?;
        let mut result = session.execute_async("SELECT a FROM t WHERE a % 2 = 0").await?;
        let mut count = 0;
        while let Some(batch) = result.next().await {
            let batch = batch?;
            count += batch.column(0).as_primitive::<Int64Type>().len();
        }
        Ok::<usize, diligence_base::Error>(count)
    });
    assert_eq!(count.unwrap(), 10_000);
}

#[test]
fn the_same_seed_gives_the_same_rows() {
    let run = |seed| {
        let options = DatabaseOptions { inline_seed: Some(seed), ..DatabaseOptions::default() };
        let session = Database::open(options).unwrap().session();
        session.execute("CREATE TABLE t AS SELECT a FROM generate_series(1, 50000) AS a").unwrap();
        rows(&session, "SELECT a % 7 AS g, count(*) FROM t GROUP BY 1")
    };
    assert_eq!(run(3), run(3));
    let mut sorted = (run(3), run(4));
    sorted.0.sort();
    sorted.1.sort();
    assert_eq!(sorted.0, sorted.1);
}

#[test]
fn descriptions_of_the_catalog() {
    let session = session();
    session.execute("CREATE TABLE \"Sales\" (a INT NOT NULL, b TEXT)").unwrap();
    assert_eq!(rows(&session, "DESCRIBE \"Sales\""), ["a integer NO   ", "b text YES   "]);
    assert_eq!(rows(&session, "SELECT count(*) FROM Sales"), ["0"]);
    assert!(rows(&session, "SHOW TABLES").iter().any(|row| row.contains("Sales")));
    let columns = "SELECT column_name FROM information_schema.columns WHERE table_name = 'Sales' ORDER BY 1";
    assert_eq!(rows(&session, columns), ["a", "b"]);
    assert_eq!(rows(&session, "SELECT count(*) > 3 FROM system.stages"), ["true"]);
    session.execute("SET stage_policy = 'fcfs, scan: t_gated(2)'").unwrap();
    let policies = "SELECT name, policy FROM system.stages WHERE name IN ('join', 'scan') ORDER BY name";
    assert_eq!(rows(&session, policies), ["join fcfs", "scan t_gated(2)"]);
    session.execute("RESET stage_policy").unwrap();
    session.execute("SET stage_workers = 'Sort: 9, scan: 1'").unwrap();
    assert_eq!(rows(&session, "SHOW stage_workers"), ["stage_workers scan: 1, sort: 9"]);
    let workers = "SELECT name, workers FROM system.stages WHERE name IN ('join', 'scan', 'sort') ORDER BY name";
    assert_eq!(rows(&session, workers), ["join ", "scan 1", "sort 9"]);
    assert_eq!(rows(&session, "SELECT count(*) FROM range(100000) r(a) JOIN range(10) s(a) USING (a)"), ["10"]);
    session.execute("RESET stage_workers").unwrap();
    assert_eq!(rows(&session, "SHOW stage_workers"), ["stage_workers all"]);
    assert_eq!(rows(&session, "SELECT count(*) FROM system.stages WHERE policy IS NULL"), ["2"], "threads for I/O");
    assert_eq!(rows(&session, "SELECT count(*) FROM system.workers WHERE serves = 'all'"), ["2"]);
}

#[test]
fn knobs_of_the_engine_are_settings() {
    let session = session();
    let knobs = [("quantum", "2ms", "500us", "1s"), ("port_credits", "4", "8", "0"), ("read_ahead", "2", "16", "17")];
    for (name, default, value, wrong) in knobs.into_iter().chain([("io_threads", "4", "9", "none")]) {
        let shown = || rows(&session, &format!("SELECT value, \"default\" FROM system.settings WHERE name = '{name}'"));
        assert_eq!(shown(), [format!("{default} {default}")]);
        session.execute(&format!("SET {name} = '{value}'")).unwrap();
        assert_eq!(shown(), [format!("{value} {default}")]);
        assert_eq!(error(&session, &format!("SET {name} = '{wrong}'")).code(), Some("22023"), "{name}");
        // What is read with these is the same.
        assert_eq!(rows(&session, "SELECT sum(i) FROM range(100000) AS r(i)"), ["4999950000"]);
        session.execute(&format!("RESET {name}")).unwrap();
        assert_eq!(shown(), [format!("{default} {default}")]);
    }
}

#[test]
fn tuning_is_a_setting_and_tells_what_it_did() {
    let session = session();
    assert_eq!(rows(&session, "SHOW tuning"), ["tuning observe"]);
    for mode in ["on", "off", "observe"] {
        session.execute(&format!("SET tuning = {mode}")).unwrap();
        assert_eq!(rows(&session, "SHOW tuning"), [format!("tuning {mode}")]);
    }
    assert_eq!(error(&session, "SET tuning = perhaps").code(), Some("22023"));
    let columns = "SELECT string_agg(column_name, ',' ORDER BY ordinal_position) FROM information_schema.columns \
                   WHERE table_schema = 'system' AND table_name = 'tuning'";
    assert_eq!(rows(&session, columns), ["at_us,knob,old_value,new_value,reason,before_us,after_us,outcome"]);
    assert_eq!(rows(&session, "SELECT count(*) FROM system.tuning WHERE outcome <> 'observed'"), ["0"]);
}

#[test]
fn latches_count_what_queries_take() {
    let session = session();
    let taken = || {
        let sql = "SELECT acquisitions_total FROM system.locks WHERE name = 'stages'";
        rows(&session, sql)[0].parse::<u64>().unwrap()
    };
    rows(&session, "SELECT count(*) FROM range(100000)");
    let before = taken();
    rows(&session, "SELECT count(*) FROM range(100000)");
    assert!(taken() >= before + 2, "a packet enters a queue and leaves it");
    let wrong = "SELECT name FROM system.locks WHERE contended_total > acquisitions_total OR wait_us_total < 0";
    assert_eq!(rows(&session, wrong), [""; 0]);
    assert_eq!(
        rows(&session, "SELECT count(*) > 10, count(DISTINCT name) = count(*) FROM system.locks"),
        ["true true"]
    );
    let of_former_name = "SELECT count(*) > 10 FROM system.latches WHERE acquisitions_total >= contended_total";
    assert_eq!(rows(&session, of_former_name), ["true"]);
}

#[test]
fn completions_know_keywords_relations_columns_and_functions() {
    let session = session();
    session.execute("CREATE TABLE coaches AS SELECT 1 AS horses").unwrap();
    let words = session.completions();
    for word in ["SELECT", "coaches", "horses", "system.queries", "upper", "stage_policy"] {
        assert!(words.iter().any(|known| known == word), "{word}");
    }
}

#[test]
fn a_statement_that_is_given_up_does_nothing() {
    let session = session();
    let started = session.start_pending("SELECT 40 + 2").wait(Duration::from_secs(60));
    let std::task::Poll::Ready(Ok(result)) = started else { panic!("it starts") };
    assert_eq!(result.collect().unwrap()[0].num_rows(), 1);
    let given_up = std::sync::atomic::AtomicBool::new(true);
    let error = session.start_unless("SET batch_rows = 7", &given_up).err().expect("it is given up");
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert_ne!(rows(&session, "SHOW batch_rows"), ["batch_rows 7"]);
}

#[test]
fn too_many_workers_are_refused() {
    let options = DatabaseOptions { workers: Some(100_000), ..DatabaseOptions::default() };
    let error = Database::open(options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);
    assert!(error.message().contains("at most 1024"), "{error}");
}

#[test]
fn a_text_that_comes_again_sees_what_has_changed_and_keeps_no_table_that_is_gone() {
    let session = session();
    let engine = session.database().engine().clone();
    let before = engine.table_memory().reserved_bytes();
    session.execute("CREATE TABLE t AS SELECT a FROM generate_series(1, 100000) AS a").unwrap();
    let count = || rows(&session, "SELECT count(*) FROM t");
    assert_eq!([count(), count()], [["100000"], ["100000"]]);
    session.execute("INSERT INTO t VALUES (1)").unwrap();
    assert_eq!([count(), count()], [["100001"], ["100001"]]);
    session.execute("CREATE OR REPLACE TABLE t AS SELECT 1 AS a").unwrap();
    assert_eq!([count(), count()], [["1"], ["1"]]);
    session.execute("SET timezone = 'UTC'").unwrap();
    assert_eq!(count(), ["1"]);
    let now = || rows(&session, "SELECT now()");
    assert_ne!(now(), now(), "a plan with the time in it was used again");
    session.execute("DROP TABLE t").unwrap();
    assert!(session.execute("SELECT count(*) FROM t").is_err());
    assert_eq!(engine.table_memory().reserved_bytes(), before);
}
