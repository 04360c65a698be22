//! Statements phase by phase.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, Date32Array, Decimal128Array, Int64Array, RecordBatch, StringArray, StringViewArray,
    TimestampNanosecondArray,
};
use arrow::datatypes::{DataType, Int64Type, Schema};
use diligence_base::ErrorKind;
use diligence_catalog::types::{field_type, origin};
use diligence_catalog::{Rights, SessionSnapshot};

use crate::plans::GenericPlan;
use crate::{CancelToken, Database, DatabaseOptions, Needs, PlannedStatement, Session, SessionOptions, Short};

fn numbers(session: &Session, planned: PlannedStatement) -> Vec<i64> {
    let batches = session.start_planned(planned).unwrap().collect().unwrap();
    batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
}

fn session() -> Session {
    let session = Database::in_memory().unwrap().session();
    session.execute("CREATE TABLE t AS SELECT * FROM (VALUES (1::BIGINT, 'one'), (2, 'two')) AS v(a, b)").unwrap();
    session
}

#[test]
fn a_plan_is_used_again_until_its_table_changes() {
    let session = session();
    let parsed = session.parse("SELECT a FROM t ORDER BY a").unwrap();
    let planned = session.plan(&parsed, &[]).unwrap();
    assert!(planned.is_current(&session) && planned.is_read_only());
    assert_eq!(numbers(&session, planned.again().unwrap()), [1, 2]);
    assert_eq!(numbers(&session, planned.again().unwrap()), [1, 2]);
    let before = planned.fingerprint().unwrap();
    session.execute("INSERT INTO t VALUES (3, 'three')").unwrap();
    assert!(!planned.is_current(&session));
    let anew = session.plan(&parsed, &[]).unwrap();
    assert_ne!(anew.fingerprint().unwrap(), before);
    assert_eq!(numbers(&session, anew), [1, 2, 3]);
    // What is kept of it has no rows, and gets those of now.
    let renewed = planned.kept().unwrap().renewed(&session).unwrap();
    assert_ne!(renewed.fingerprint().unwrap(), before);
    assert_eq!(numbers(&session, renewed), [1, 2, 3]);
    assert!(session.start_planned(planned.kept().unwrap()).and_then(|result| result.collect()).is_err());
    session.execute("ALTER TABLE t ALTER COLUMN a TYPE INT").unwrap();
    assert!(planned.renewed(&session).is_none());
}

#[test]
fn a_generic_plan_answers_as_a_plan_for_the_values_does() {
    let session = session();
    session
        .execute(
            "CREATE TABLE s AS SELECT CAST(value % 100 AS SMALLINT) AS a, value::BIGINT AS b FROM generate_series(1, 1000) AS g(value)",
        )
        .unwrap();
    let value = |value: Option<i64>| Arc::new(Int64Array::from(vec![value])) as ArrayRef;
    let statements = [
        "SELECT b FROM s WHERE b = $1 AND a < $2",
        "SELECT b FROM s WHERE a = $1 OR a BETWEEN $1 AND $2 ORDER BY b",
        "SELECT b FROM s WHERE a IN ($1, $2, 7) ORDER BY b",
        "SELECT count(*) FROM s AS x JOIN s AS y ON x.b = y.b WHERE x.a > $1 + 1 AND y.a <= $2",
        "SELECT b FROM s WHERE b = (SELECT max(b) FROM s WHERE a = $1) AND $2 > a",
        "SELECT count(*) FROM s WHERE NOT (a < $1) AND a <> $2",
        "WITH c AS (SELECT * FROM s WHERE a >= $1) SELECT count(*) FROM c AS x, c AS y WHERE x.b = y.b AND x.b < $2",
    ];
    let sets = [(5, 50), (50, 5), (0, 1 << 40), (-1, 99), (7, 7)].map(|(a, b)| [value(Some(a)), value(Some(b))]);
    let sets = sets.into_iter().chain([[value(None), value(Some(3))], [value(Some(3)), value(None)]]);
    let sets = sets.collect::<Vec<_>>();
    let types = [DataType::Int64, DataType::Int64];
    let mut answers = 0;
    for sql in statements {
        let parsed = session.parse(sql).unwrap();
        let generic =
            session.plan_generic(&parsed, &types).unwrap().unwrap_or_else(|| panic!("no generic plan: {sql}"));
        for values in &sets {
            let with = numbers(&session, generic.with(values, &session).unwrap().unwrap());
            assert_eq!(with, numbers(&session, session.plan(&parsed, values).unwrap()), "{sql} {values:?}");
            answers += with.len();
        }
        assert!(generic.with(&sets[0][..1], &session).is_err());
    }
    assert!(answers > 500, "{answers}");
    let one = session.parse(statements[1]).unwrap();
    let generic = session.plan_generic(&one, &types).unwrap().unwrap();
    session.execute("INSERT INTO s VALUES (5, 1001)").unwrap();
    let renewed = generic.with(&sets[0], &session).unwrap().unwrap();
    assert_eq!(numbers(&session, renewed), numbers(&session, session.plan(&one, &sets[0]).unwrap()));
    session.execute("ALTER TABLE s ADD COLUMN c INT").unwrap();
    assert!(generic.with(&sets[0], &session).unwrap().is_none());
}

#[test]
fn a_statement_that_changes_rows_has_one_plan_for_all_values_and_states() {
    let database = Database::in_memory().unwrap();
    let [session, other] = [(); 2].map(|()| database.session());
    session.execute("CREATE TABLE k (id BIGINT PRIMARY KEY, a BIGINT CHECK (a < 1000), t TEXT DEFAULT 'x')").unwrap();
    let value = |value: i64| Arc::new(Int64Array::from(vec![value])) as ArrayRef;
    let generic = |sql: &str, count: usize| {
        let parsed = session.parse(sql).unwrap();
        let plan = session.plan_generic(&parsed, &vec![DataType::Int64; count]).unwrap();
        plan.unwrap_or_else(|| panic!("no generic plan: {sql}"))
    };
    let insert = generic("INSERT INTO k (id, a) VALUES ($1, $2 * 2) ON CONFLICT (id) DO UPDATE SET a = k.a + $2", 2);
    let update = generic("UPDATE k SET a = a + $2 WHERE id = $1 RETURNING a", 2);
    let delete = generic("DELETE FROM k WHERE id = $1", 1);
    let shorts = std::cell::Cell::new(0);
    let run = |session: &Session, plan: &Arc<GenericPlan>, values: &[i64]| {
        let values = values.iter().map(|number| value(*number)).collect::<Vec<_>>();
        let planned = plan.with(&values, session).unwrap().unwrap();
        // Those that find their row by its key are short; what joins is not.
        match session.run_short(planned)? {
            Short::Done(result) => {
                shorts.set(shorts.get() + 1);
                result.collect()
            }
            Short::Not(planned) => session.start_planned(planned)?.collect(),
        }
    };
    for session in [&session, &other, &session] {
        run(session, &insert, &[1, 5]).unwrap();
        run(session, &insert, &[2, 7]).unwrap();
    }
    let sum = |session: &Session| {
        numbers(session, session.plan(&session.parse("SELECT a FROM k ORDER BY id").unwrap(), &[]).unwrap())
    };
    assert_eq!(sum(&session), [20, 28]);
    assert_eq!(run(&other, &update, &[2, 2]).unwrap()[0].num_rows(), 1);
    assert_eq!(run(&other, &update, &[2, 1000]).unwrap_err().code(), Some("23514"));
    // In a transaction it sees and changes what that sees.
    session.execute("BEGIN").unwrap();
    run(&session, &update, &[1, 100]).unwrap();
    run(&session, &delete, &[2]).unwrap();
    assert_eq!((sum(&session), sum(&other)), (vec![120], vec![20, 30]));
    session.execute("COMMIT").unwrap();
    assert_eq!(sum(&other), [120]);
    assert_eq!(shorts.get(), 3);
    session.execute("ALTER TABLE k DROP COLUMN t").unwrap();
    assert!(delete.with(&[value(1)], &session).unwrap().is_none());
}

#[test]
fn values_take_the_type_that_the_plan_has_for_them() {
    let session = session();
    session.execute("SET TIME ZONE 'UTC'").unwrap();
    let columns = "CAST('2026-01-01 00:00:00' AS TIMESTAMP) AS p, CAST('a' AS VARCHAR) AS t, CAST(1.5 AS DECIMAL(9, 2)) AS d, DATE '2026-01-01' AS day";
    session.execute(&format!("CREATE TABLE k AS SELECT now() AS at, {columns}")).unwrap();
    let number = |session: &Session, planned| {
        let rows = session.start_planned(planned).unwrap().collect().unwrap();
        rows.iter().map(|rows| rows.num_rows()).sum::<usize>()
    };
    // A client's timestamp has an offset, not the session's name for it.
    let midnight = 1_767_225_600_000_000_000;
    let zoned = TimestampNanosecondArray::from(vec![midnight]).with_timezone("+00:00");
    let values: [(&str, ArrayRef); 5] = [
        ("at", Arc::new(zoned)),
        ("p", Arc::new(TimestampNanosecondArray::from(vec![midnight]))),
        ("t", Arc::new(StringArray::from(vec!["a"]))),
        ("d", Arc::new(Decimal128Array::from(vec![150]).with_precision_and_scale(9, 2).unwrap())),
        ("day", Arc::new(Date32Array::from(vec![20_454]))),
    ];
    for (column, value) in values {
        for condition in ["= $1", "IN ($1, $1)", ">= $1"] {
            let parsed = session.parse(&format!("SELECT {column} FROM k WHERE {column} {condition}")).unwrap();
            let generic = session.plan_generic(&parsed, &[value.data_type().clone()]).unwrap();
            let generic = generic.unwrap_or_else(|| panic!("no generic plan: {column} {condition}"));
            let values = [value.clone()];
            let with = number(&session, generic.with(&values, &session).unwrap().unwrap());
            assert_eq!(with, number(&session, session.plan(&parsed, &values).unwrap()), "{column} {condition}");
            assert_eq!(with, usize::from(column != "at" || condition == ">= $1"), "{column} {condition}");
        }
    }
}

#[test]
fn a_plan_that_depends_on_values_is_not_generic() {
    let session = session();
    for sql in [
        "SELECT a FROM t LIMIT $1",
        "SELECT sum(a + $1) FROM t GROUP BY a",
        "SELECT a FROM t ORDER BY a + $1",
        "SELECT a FROM t WHERE a = $1 AND random() < 2",
        "SELECT x.a FROM t AS x LEFT JOIN t AS y ON x.a = y.a + $1",
        "SELECT i FROM generate_series(1, $1) AS i",
        "SELECT i FROM generate_series(1, 10 + $1) AS i WHERE i = $1",
        "SELECT nothing FROM t WHERE a = $1",
        "INSERT INTO t SELECT $1, 'x' FROM generate_series(1, $1)",
        "SELECT a FROM t",
    ] {
        let parsed = session.parse(sql).unwrap();
        assert!(!matches!(session.plan_generic(&parsed, &[DataType::Int64]), Ok(Some(_))), "{sql}");
    }
}

#[test]
fn what_depends_on_when_or_who_is_planned_each_time() {
    let session = session();
    for sql in ["SELECT now()", "SELECT random() FROM t", "SELECT current_user", "SELECT * FROM system.settings"] {
        let planned = session.plan(&session.parse(sql).unwrap(), &[]).unwrap();
        assert!(planned.again().is_none() && planned.fingerprint().is_none(), "{sql}");
    }
    assert!(!session.plan(&session.parse("CREATE TABLE u (a INT)").unwrap(), &[]).unwrap().is_read_only());
}

#[test]
fn a_view_behind_a_plan_counts_as_what_it_uses() {
    let session = session();
    session.execute("CREATE VIEW v AS SELECT a FROM t").unwrap();
    let planned = session.plan(&session.parse("SELECT a FROM v").unwrap(), &[]).unwrap();
    assert!(planned.is_current(&session));
    session.execute("CREATE OR REPLACE VIEW v AS SELECT a + 1 AS a FROM t").unwrap();
    assert!(!planned.is_current(&session));
}

#[test]
fn parameters_have_types_from_the_client_a_cast_or_what_is_around_them() {
    let session = session();
    let described = |sql: &str, given: &[Option<DataType>]| {
        let description = session.describe(&session.parse(sql).unwrap(), given).unwrap();
        (description.parameters, description.schema.map(|schema| schema.fields().len()))
    };
    assert_eq!(described("SELECT b FROM t WHERE a = $1", &[]), (vec![DataType::Int64], Some(1)));
    assert_eq!(described("SELECT $1::BIGINT + 1, $2", &[]).0, [DataType::Int64, DataType::Utf8View]);
    let given = [Some(DataType::Int16), Some(DataType::Int16)];
    assert_eq!(described("SELECT $1 + $2", &given).0, [DataType::Int16, DataType::Int16]);
    assert_eq!(described("INSERT INTO t VALUES ($1, $2)", &[]).1, None);
    let parsed = session.parse("SELECT a FROM t WHERE b = $1 AND a >= $2").unwrap();
    let values: [ArrayRef; 2] =
        [Arc::new(StringViewArray::from_iter_values(["two"])), Arc::new(Int64Array::from(vec![1]))];
    assert_eq!(numbers(&session, session.plan(&parsed, &values).unwrap()), [2]);
    assert!(session.plan(&parsed, &values[..1]).is_err());
}

#[test]
fn rows_are_appended_all_or_none() {
    let session = session();
    let column = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
    let batch = |values| RecordBatch::try_from_iter([("a", column(values))]).unwrap();
    let columns = ["a".to_owned()];
    assert_eq!(session.append(None, "t", &columns, &[batch(vec![3]), batch(vec![4, 5])]).unwrap(), 3);
    let parsed = session.parse("SELECT count(*) FROM t WHERE b IS NULL").unwrap();
    assert_eq!(numbers(&session, session.plan(&parsed, &[]).unwrap()), [3]);
    assert_eq!(session.append(None, "nowhere", &columns, &[]).unwrap_err().code(), Some("42P01"));
    assert_eq!(session.append(None, "t", &["x".to_owned()], &[]).unwrap_err().code(), Some("42703"));
}

#[test]
fn a_session_without_files_can_name_none() {
    let database = Database::in_memory().unwrap();
    let stranger = database.session_with(SessionOptions { files: false, ..SessionOptions::default() });
    for sql in ["COPY (SELECT 1) TO '/tmp/x.csv'", "CREATE EXTERNAL TABLE e STORED AS CSV LOCATION '/tmp'"] {
        assert_eq!(stranger.execute(sql).err().unwrap().code(), Some("42501"), "{sql}");
    }
    assert_eq!(stranger.execute("SELECT * FROM '/etc/hosts.csv'").err().unwrap().code(), Some("42P01"));
}

/// Somebody who may read `public.open` and change `public.own`.
fn limited(database: &Database) -> Session {
    let patterns = |text: &str| vec![text.parse().unwrap()];
    let rights = Arc::new(Rights::only(patterns("open"), patterns("own")));
    database.session_with(SessionOptions { rights, engine_settings: false, ..SessionOptions::default() })
}

#[test]
fn rights_hold_in_views_and_for_plans_that_others_made() {
    let database = Database::in_memory().unwrap();
    let owner = database.session();
    owner.execute("CREATE TABLE hidden AS SELECT 1::BIGINT AS a").unwrap();
    owner.execute("CREATE TABLE open AS SELECT 2::BIGINT AS a").unwrap();
    owner.execute("CREATE VIEW own AS SELECT a FROM hidden").unwrap();
    let limited = limited(&database);
    for sql in ["SELECT a FROM hidden", "SELECT a FROM own", "SELECT 1 FROM system.queries", "CREATE TABLE x (a INT)"] {
        assert_eq!(limited.execute(sql).err().unwrap().code(), Some("42501"), "{sql}");
    }
    let planned = owner.plan(&owner.parse("SELECT a FROM hidden").unwrap(), &[]).unwrap();
    assert!(planned.is_current(&owner) && !planned.is_current(&limited));
    let planned = owner.plan(&owner.parse("SELECT a FROM open").unwrap(), &[]).unwrap();
    assert_eq!(numbers(&limited, planned.again().filter(|planned| planned.is_current(&limited)).unwrap()), [2]);
    assert_eq!(limited.relation_names(), ["open", "own"]);
    let described = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'";
    assert_eq!(numbers(&limited, limited.plan(&limited.parse(described).unwrap(), &[]).unwrap()), [2]);
    assert!(limited.execute("SELECT count(*) FROM pg_class").is_ok());
    limited.execute("DROP VIEW own").unwrap();
    limited.execute("CREATE TABLE own AS SELECT a FROM open").unwrap();
    let batch = RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from(vec![3])) as ArrayRef)]).unwrap();
    let columns = ["a".to_owned()];
    assert_eq!(limited.append(None, "own", &columns, std::slice::from_ref(&batch)).unwrap(), 1);
    assert_eq!(limited.append(None, "open", &columns, &[batch]).unwrap_err().code(), Some("42501"));
}

/// The first column as text.
fn texts(session: &Session, sql: &str) -> Vec<String> {
    let batches = session.execute(sql).unwrap().collect().unwrap();
    let text = |batch: &RecordBatch| {
        let column = arrow::compute::cast(batch.column(0), &DataType::Utf8).unwrap();
        column.as_string::<i32>().iter().map(|value| value.unwrap_or("NULL").to_owned()).collect::<Vec<_>>()
    };
    batches.iter().flat_map(text).collect()
}

#[test]
fn privileges_are_those_of_the_sessions_role() {
    let database = Database::in_memory().unwrap();
    let owner = database.session();
    for name in ["hidden", "open", "own", "\"Odd\""] {
        owner.execute(&format!("CREATE TABLE {name} AS SELECT 1::BIGINT AS a")).unwrap();
    }
    let limited = limited(&database);
    for (question, owners, limiteds) in [
        ("has_table_privilege('open', 'SELECT')", "true", "true"),
        ("has_table_privilege('open', 'INSERT')", "true", "false"),
        ("has_table_privilege('own', 'INSERT, DELETE')", "true", "true"),
        ("has_table_privilege(current_user, 'public.hidden', 'select')", "true", "false"),
        ("pg_catalog.has_table_privilege('\"Odd\"', 'SELECT')", "true", "false"),
        ("has_table_privilege('hidden'::regclass, 'SELECT')", "true", "false"),
        ("has_table_privilege(1, 'SELECT')", "NULL", "NULL"),
        ("has_table_privilege(NULL, 'SELECT')", "NULL", "NULL"),
        ("has_table_privilege('pg_class', 'SELECT')", "true", "true"),
        ("has_table_privilege('system.queries', 'SELECT')", "true", "false"),
        ("has_column_privilege('own', 'a', 'UPDATE')", "true", "true"),
        ("has_column_privilege('hidden', 1, 'SELECT')", "true", "false"),
        ("has_any_column_privilege('open', 'SELECT')", "true", "true"),
        ("has_schema_privilege('public', 'USAGE')", "true", "true"),
        ("has_schema_privilege('public', 'CREATE')", "true", "false"),
        ("has_database_privilege('diligence', 'CREATE')", "true", "false"),
        ("pg_has_role('diligence', 'USAGE')", "true", "true"),
    ] {
        let sql = format!("SELECT {question}");
        assert_eq!((texts(&owner, &sql), texts(&limited, &sql)), (vec![owners.into()], vec![limiteds.into()]), "{sql}");
    }
    let readable = "SELECT c.relname FROM pg_class c WHERE pg_table_is_visible(c.oid) \
                    AND has_table_privilege(c.oid, 'SELECT') ORDER BY c.relname";
    assert_eq!(texts(&owner, readable), ["Odd", "hidden", "open", "own"]);
    assert_eq!(texts(&limited, readable), ["open", "own"]);
    let quoted = "SELECT has_table_privilege('\"' || n.nspname || '\".\"' || c.relname || '\"', 'INSERT') FROM pg_class c \
                  JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public' ORDER BY c.relname";
    assert_eq!(texts(&limited, quoted), ["false", "false", "false", "true"]);
    for (question, code) in [
        ("has_table_privilege('nowhere', 'SELECT')", "42P01"),
        ("has_table_privilege('open', 'EXECUTE')", "22023"),
        ("has_table_privilege('nobody', 'open', 'SELECT')", "42704"),
        ("has_column_privilege('open', 'b', 'SELECT')", "42703"),
    ] {
        let error = owner.execute(&format!("SELECT {question}")).and_then(|result| result.collect()).unwrap_err();
        assert_eq!(error.code(), Some(code), "{question}: {error}");
    }
    let planned = owner.plan(&owner.parse("SELECT has_table_privilege('open', 'SELECT')").unwrap(), &[]).unwrap();
    assert!(planned.again().is_none(), "another session's answer may be another");
}

#[test]
fn a_statement_sees_one_snapshot_of_all_its_names() {
    let database = Database::in_memory().unwrap();
    let session = database.session();
    session.execute("CREATE TABLE a AS SELECT 1 AS x").unwrap();
    session.execute("CREATE TABLE b AS SELECT 1 AS x").unwrap();
    let parsed = session.parse("SELECT (SELECT count(*) FROM a) * 10 + (SELECT count(*) FROM b)").unwrap();
    let before = session.snapshot();
    let planned = |snapshot: &SessionSnapshot| {
        let planned = session.in_runtime(|| session.planner().plan(snapshot, parsed.tree(), &[])).unwrap();
        numbers(&session, PlannedStatement::new(parsed.text(), planned))
    };
    session.execute("INSERT INTO b VALUES (2)").unwrap();
    session.execute("INSERT INTO a VALUES (2), (3)").unwrap();
    assert_eq!((planned(&before), planned(&session.snapshot())), (vec![11], vec![32]));
    session.execute("DROP TABLE b").unwrap();
    session.execute("CREATE TABLE b AS SELECT x FROM generate_series(1, 5) AS x").unwrap();
    assert_eq!((planned(&before), planned(&session.snapshot())), (vec![11], vec![35]));
    let listed = "SELECT count(*) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid WHERE c.relname = 'b'";
    assert_eq!(texts(&session, listed), ["1"]);
}

#[test]
fn what_is_everybodys_is_not_for_everybody() {
    let database = Database::in_memory().unwrap();
    let limited = limited(&database);
    assert_eq!(limited.set("memory", "64MB").unwrap_err().code(), Some("42501"));
    let before = database.session().setting("memory").unwrap();
    limited.reset_all().unwrap();
    assert_eq!(limited.setting("memory").unwrap(), before);
    let bounded = SessionOptions { query_memory_bytes: Some(32 << 20), ..SessionOptions::default() };
    let bounded = database.session_with(bounded);
    for (wanted, shown) in [("none", "32.0 MiB"), ("1GB", "32.0 MiB"), ("16MB", "16.0 MiB")] {
        bounded.set("query_memory", wanted).unwrap();
        assert_eq!(bounded.setting("query_memory").unwrap(), shown);
    }
}

#[test]
fn plans_say_what_they_are_expected_to_need_and_queries_what_they_used() {
    let session = session();
    let plan = |sql: &str| session.plan(&session.parse(sql).unwrap(), &[]).unwrap();
    assert_eq!(plan("SET sharing = 'off'").needs(), Needs::default());
    let pairs = plan("SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b");
    assert!(pairs.needs().rows > 1_000_000_000, "{:?}", pairs.needs());
    assert!(plan("SELECT * FROM generate_series(1, 1000000) LIMIT 1").needs().rows < 1_000_000);
    let mut result = session.start_planned(plan("SELECT a FROM t ORDER BY a").needing_little()).unwrap();
    while let Some(batch) = result.next_blocking() {
        batch.unwrap();
    }
    assert!(result.used().unwrap().worked > std::time::Duration::ZERO);
}

#[test]
fn sessions_share_plans_until_one_changes_the_planner() {
    let zone = "timezone";
    let settings = vec![(zone.to_owned(), "+00:00".to_owned()), ("batch_rows".to_owned(), "7".to_owned())];
    let database = Database::open(DatabaseOptions { settings, ..DatabaseOptions::default() }).unwrap();
    let (first, second) = (database.session(), database.session());
    assert_eq!(first.planning_identity(), second.planning_identity());
    assert_eq!((first.setting(zone).unwrap(), first.setting("batch_rows").unwrap()), ("+00:00".into(), "7".into()));
    second.set(zone, "+01:00").unwrap();
    assert_ne!(first.planning_identity(), second.planning_identity());
    second.reset(zone).unwrap();
    assert_eq!(second.setting(zone).unwrap(), "+00:00");
}

#[test]
fn clients_of_postgres_find_tables_columns_and_types() {
    let session = session();
    let texts = |sql: &str| texts(&session, sql);
    let columns = "SELECT pg_catalog.format_type(a.atttypid, a.atttypmod) FROM pg_catalog.pg_attribute a \
                   WHERE a.attrelid = 't'::regclass AND a.attnum > 0 ORDER BY a.attnum";
    assert_eq!(texts(columns), ["bigint", "text"]);
    assert_eq!(texts("SELECT nspname FROM pg_namespace WHERE oid = 2200"), ["public"]);
    assert_eq!(texts("SELECT relname FROM pg_class WHERE pg_table_is_visible(oid)"), ["t"]);
    let none = "SELECT (SELECT pg_catalog.pg_get_expr(d.adbin, d.adrelid, true) FROM pg_catalog.pg_attrdef d \
                WHERE d.adrelid = c.oid) FROM pg_catalog.pg_class c WHERE c.relname = 't'";
    assert_eq!(texts(none), ["NULL"]);
}

#[test]
fn what_is_skipped_and_what_goes_along_is_told() {
    let session = session();
    let told = |sql: &str| {
        let result = session.start(sql).unwrap();
        let printed = result.printed();
        result.collect().unwrap();
        let all = printed.take();
        let told = all.iter().map(|message| format!("{} {}", message.said.code().unwrap_or("-"), message.text()));
        told.collect::<Vec<_>>()
    };
    assert_eq!(
        told("DROP TABLE IF EXISTS x, nowhere.y"),
        ["00000 table \"x\" does not exist, skipping", "00000 schema \"nowhere\" does not exist, skipping"]
    );
    assert_eq!(told("DROP INDEX IF EXISTS x"), ["00000 index \"x\" does not exist, skipping"]);
    assert_eq!(told("DROP FUNCTION IF EXISTS x"), ["00000 function x() does not exist, skipping"]);
    assert_eq!(told("CREATE TABLE IF NOT EXISTS t (a INT)"), ["42P07 relation \"t\" already exists, skipping"]);
    assert_eq!(told("CREATE SCHEMA IF NOT EXISTS public"), ["42P06 schema \"public\" already exists, skipping"]);
    assert!(told("CREATE VIEW v AS SELECT a FROM t").is_empty());
    assert!(told("CREATE VIEW w AS SELECT a FROM v").is_empty());
    assert_eq!(told("DROP VIEW v CASCADE"), ["00000 drop cascades to view w"]);
    assert!(told("CREATE VIEW v AS SELECT a FROM t").is_empty());
    assert!(told("CREATE VIEW w AS SELECT b FROM t").is_empty());
    assert_eq!(told("DROP TABLE t CASCADE"), ["00000 drop cascades to 2 other objects"]);
    assert!(told("DROP TABLE IF EXISTS t").len() == 1);
}

#[test]
fn results_have_the_modifiers_of_columns_and_casts_alone() {
    let session = session();
    session.execute("CREATE TABLE priced (price numeric(8, 2), name varchar(20))").unwrap();
    let modifiers = |sql: &str| {
        let result = session.start(sql).unwrap();
        let schema = result.schema();
        result.collect().unwrap();
        schema.fields().iter().map(|field| field_type(field).modifier).collect::<Vec<_>>()
    };
    let sql = "SELECT price, price * 2, sum(price) OVER (), price::numeric(10, 4), 1.5, '2'::numeric(3, 1), \
               coalesce(price, 0), name, coalesce(name, '-'), max(price) OVER () FROM priced";
    assert_eq!(modifiers(sql), [524_294, -1, -1, 655_368, -1, 196_613, -1, 24, -1, -1]);
    assert_eq!(modifiers("SELECT price, sum(price) FROM priced GROUP BY price ORDER BY 2 LIMIT 3"), [524_294, -1]);
    assert_eq!(modifiers("SELECT price FROM priced UNION ALL SELECT price / 2 FROM priced"), [-1]);
    assert_eq!(modifiers("SELECT 1.5"), [-1]);
    // A view's columns are those of its query.
    session.execute("CREATE VIEW doubled AS SELECT price, price * 2 AS twice FROM priced").unwrap();
    assert_eq!(modifiers("SELECT * FROM doubled"), [524_294, -1]);
}

#[test]
fn results_say_which_columns_of_tables_and_views_they_have() {
    let session = session();
    session.execute("CREATE TABLE told (a integer, b text)").unwrap();
    session.execute("CREATE VIEW shown AS SELECT b AS c, a, a + 1 AS d FROM told").unwrap();
    let number = |name: &str| {
        let parsed = session.parse(&format!("SELECT '{name}'::regclass::oid::int8")).unwrap();
        numbers(&session, session.plan(&parsed, &[]).unwrap())[0]
    };
    let (told, shown) = (number("told") as u32, number("shown") as u32);
    let origins = |sql: &str| {
        let described = session.describe(&session.parse(sql).unwrap(), &[]).unwrap().schema.unwrap();
        let result = session.start(sql).unwrap();
        let schema = result.schema();
        result.collect().unwrap();
        let origins = |schema: &Schema| schema.fields().iter().map(|field| origin(field)).collect::<Vec<_>>();
        assert_eq!(origins(&described), origins(&schema), "{sql}");
        origins(&schema)
    };
    let none = (0, 0);
    assert_eq!(origins("SELECT b AS x, a + 1, a FROM told"), [(told, 2), none, (told, 1)]);
    assert_eq!(origins("SELECT * FROM shown"), [(shown, 1), (shown, 2), (shown, 3)]);
    assert_eq!(origins("WITH w AS (SELECT a, sum(a) FROM told GROUP BY a) SELECT * FROM w"), [(told, 1), none]);
    assert_eq!(
        origins("SELECT x.a, y.b FROM told x JOIN shown USING (a) JOIN told y USING (a)"),
        [(told, 1), (told, 2)]
    );
    assert_eq!(origins("SELECT a FROM told UNION ALL SELECT a FROM told"), [none]);
    assert_eq!(origins("SELECT a::bigint, coalesce(a, 1), 1 FROM told"), [none; 3]);
}

#[test]
fn a_commit_that_waits_for_another_transaction_is_cancelled() {
    let database = Database::in_memory().unwrap();
    let (one, two) = (database.session(), database.session());
    one.execute("CREATE TABLE held (k integer UNIQUE DEFERRABLE INITIALLY DEFERRED)").unwrap();
    one.execute("INSERT INTO held VALUES (1)").unwrap();
    for sql in ["BEGIN", "DELETE FROM held WHERE k = 1"] {
        one.execute(sql).unwrap();
    }
    for sql in ["BEGIN", "INSERT INTO held VALUES (1)"] {
        two.execute(sql).unwrap();
    }
    let token = CancelToken::default();
    let (own, waiting) = (token.clone(), two.clone());
    let committing = std::thread::spawn(move || waiting.commit_unless(&own));
    token.cancel();
    let error = committing.join().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
    // Nothing of it is there, and the session goes on.
    one.execute("COMMIT").unwrap();
    two.execute("INSERT INTO held VALUES (2)").unwrap();
    let planned = two.plan(&two.parse("SELECT k::int8 FROM held ORDER BY k").unwrap(), &[]).unwrap();
    assert_eq!(numbers(&two, planned), [2]);
}
