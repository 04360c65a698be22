//! Functions in WebAssembly, and closures of whoever embeds the library, through the front door. Without
//! `diligence-wasm` the tests of the first say so and are done.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{ArrayRef, AsArray, Int64Array, StringArray};
use arrow::datatypes::Int64Type;

use crate::test_sessions::{error, rows};
use crate::{Database, DatabaseOptions, Result, SessionOptions};

const PLUS: &str = "(module (func (export \"plus\") (param i64 i64) (result i64) (i64.add (local.get 0) (local.get 1)))
  (func (export \"twice\") (param f64) (result f64) (f64.add (local.get 0) (local.get 0))))";
const LENGTH: &str = include_str!("../../../wasm/examples/length.wat");
/// `PLUS` without `twice`, compiled.
const COMPILED: &str = "0061736d0100000001070160027e7e017e030201000708010470 6c757300000a09010700200020017c0b";

pub(crate) fn database() -> Option<Database> {
    let database = Database::open(DatabaseOptions { workers: Some(2), ..DatabaseOptions::default() }).unwrap();
    has_machine(&database).then_some(database)
}

fn has_machine(database: &Database) -> bool {
    let made = database.session().execute(&plus("plus", PLUS)).map(drop);
    match made {
        Err(error) if error.code() == Some("58P01") => {
            eprintln!("not tested: {error}");
            false
        }
        made => {
            made.unwrap();
            database.session().execute("DROP FUNCTION plus").unwrap();
            true
        }
    }
}

fn plus(name: &str, module: &str) -> String {
    format!("CREATE FUNCTION {name}(x bigint, y bigint) RETURNS bigint LANGUAGE wasm IMMUTABLE AS '{module}', 'plus'")
}

#[test]
fn a_module_is_text_digits_base64_or_a_file() {
    let Some(database) = database() else { return };
    let session = database.session();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.display().to_string()
    };
    let digits = COMPILED.replace(' ', "");
    let bytes = (0..digits.len() / 2).map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap());
    let bytes = bytes.collect::<Vec<_>>();
    let base64 = "AGFzbQEAAAABBwFgAn5+AX4DAgEABwgBBHBsdXMAAAoJAQcAIAAgAXwL";
    let written =
        [PLUS.to_owned(), digits, base64.to_owned(), path("plus.wasm", &bytes), path("plus.wat", PLUS.as_bytes())];
    for (place, module) in written.iter().enumerate() {
        session.execute(&plus(&format!("plus{place}"), module)).unwrap_or_else(|error| panic!("{module}: {error}"));
    }
    // What was read from a file needs it no more.
    drop(folder);
    assert_eq!(
        rows(&session, "SELECT plus0(1, 2), plus1(3, 4), plus2(5, 6), plus3(7, 8), plus4(9, 10)"),
        ["3 7 11 15 19"]
    );
    session.execute("CREATE TABLE t AS SELECT value AS x FROM generate_series(1, 100000) g(value)").unwrap();
    session.execute("INSERT INTO t VALUES (NULL)").unwrap();
    assert_eq!(
        rows(&session, "SELECT sum(plus0(x, 1)), count(plus1(x, x)) FROM t"),
        ["5000150000 100000"],
        "NULL is NULL"
    );
    assert_eq!(rows(&session, "SELECT count(*) FROM t WHERE plus3(x, -3) < 0"), ["2"]);
    let missing = error(&session, &plus("none", "/no/such/module.wasm"));
    assert_eq!(missing.code(), Some("58P01"), "{missing}");
    let pool = rows(&session, "SELECT DISTINCT language FROM system.pool");
    assert_eq!(pool, ["wasm"]);
}

#[test]
fn texts_are_whole_columns() {
    let Some(database) = database() else { return };
    let session = database.session();
    let made = format!(
        "CREATE FUNCTION bytes_of(s text) RETURNS bigint LANGUAGE wasm IMMUTABLE AS '{}'",
        LENGTH.replace('\'', "''")
    );
    session.execute(&made).unwrap();
    session
        .execute("CREATE TABLE t AS SELECT * FROM (VALUES (1, 'a'), (2, 'bä'), (3, NULL), (4, '')) v(x, s)")
        .unwrap();
    assert_eq!(rows(&session, "SELECT bytes_of(s) FROM t ORDER BY x"), ["1", "3", "", "0"]);
    assert_eq!(
        rows(
            &session,
            "SELECT sum(bytes_of(repeat('x', value::integer % 50))) FROM generate_series(1, 20000) g(value)"
        ),
        ["490000"]
    );
}

/// A text of JSON for each row: a list of rows, which are lists of values.
#[test]
fn a_module_may_give_rows() {
    let Some(database) = database() else { return };
    let session = database.session();
    let module = r#"(module (memory (export "memory") 8)
      (data (i32.const 0) "[[1,\22one\22],[2,null]]")
      (func (export "diligence_alloc") (param i32) (result i32) (i32.const 4096))
      (func (export "pairs") (param $rows i32) (param $columns i32) (param $result i32) (result i32)
        (local $row i32)
        (block $done (loop $next
          (i32.store (i32.add (i32.const 131072) (i32.mul (local.get $row) (i32.const 4)))
            (i32.mul (local.get $row) (i32.const 20)))
          (br_if $done (i32.ge_u (local.get $row) (local.get $rows)))
          (memory.copy (i32.add (i32.const 262144) (i32.mul (local.get $row) (i32.const 20)))
            (i32.const 0) (i32.const 20))
          (local.set $row (i32.add (local.get $row) (i32.const 1)))
          (br $next)))
        (i32.store offset=12 (local.get $result) (i32.const 131072))
        (i32.store offset=16 (local.get $result) (i32.const 262144))
        (i32.const 0)))"#;
    let make = |returns: &str| {
        format!("CREATE FUNCTION pairs(x bigint) RETURNS {returns} LANGUAGE wasm STRICT AS $$ {module} $$")
    };
    session.execute(&make("TABLE (number integer, word text)")).unwrap();
    assert_eq!(rows(&session, "SELECT * FROM pairs(7)"), ["1 one", "2 "]);
    let joined = "SELECT sum(x), sum(number), count(word) FROM generate_series(1, 1000) t(x), pairs(x)";
    assert_eq!(rows(&session, joined), ["1001000 3000 1000"]);
    assert!(rows(&session, "SELECT * FROM pairs(NULL)").is_empty(), "it is strict");
    assert_eq!(rows(&session, "SELECT count(*) FROM (SELECT pairs(7)) t"), ["2"]);
    session.execute("DROP FUNCTION pairs").unwrap();
    session.execute(&make("SETOF bigint")).unwrap();
    assert_eq!(rows(&session, "SELECT * FROM pairs(7)"), ["1", "2"]);
}

/// The example in C, as clang compiles it.
#[test]
fn a_module_in_c_has_functions_of_rows_and_of_columns() {
    let Some(database) = database() else { return };
    let session = database.session();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../wasm/examples/c/shout.wasm");
    for function in ["plus(x bigint, y bigint) RETURNS bigint", "shout(s text) RETURNS text"] {
        session.execute(&format!("CREATE FUNCTION {function} LANGUAGE wasm IMMUTABLE AS '{path}'")).unwrap();
    }
    session
        .execute("CREATE TABLE t AS SELECT value AS x, repeat('ab' || value, value::integer % 40) AS s FROM generate_series(1, 30000) g(value)")
        .unwrap();
    session.execute("INSERT INTO t VALUES (NULL, NULL)").unwrap();
    assert_eq!(
        rows(
            &session,
            "SELECT count(*), count(shout(s)), sum(plus(x, 1)) FROM t WHERE shout(s) IS NOT DISTINCT FROM upper(s)"
        ),
        ["30001 30000 450045000"]
    );
    assert_eq!(rows(&session, "SELECT shout('Größe'), shout(NULL), shout('')"), ["GRößE  "]);
    let functions = rows(&session, "SELECT DISTINCT functions FROM system.pool WHERE calls > 0");
    assert!(functions.iter().any(|names| names.contains("plus") || names.contains("shout")), "{functions:?}");
}

/// Gives the column that it gets.
const SAME: &str = "(module (memory (export \"memory\") 40)
  (func (export \"diligence_alloc\") (param i32) (result i32) (i32.const 64))
  (func (export \"same\") (param i32 i32 i32) (result i32)
    (i32.store offset=8 (local.get 2) (i32.load offset=8 (local.get 1)))
    (i64.store offset=12 (local.get 2) (i64.load offset=12 (local.get 1)))
    (i32.const 0)))";

#[test]
fn arrays_go_in_columns_and_rows_as_texts() {
    let Some(database) = database() else { return };
    let session = database.session();
    let make = |declared: &str, module: &str, export: &str| {
        let module = module.replace('\'', "''");
        let made = format!("CREATE FUNCTION {declared} LANGUAGE wasm IMMUTABLE AS '{module}', '{export}'");
        session.execute(&made).unwrap_or_else(|error| panic!("{made}: {error}"));
    };
    let in_c = concat!(env!("CARGO_MANIFEST_DIR"), "/../../wasm/examples/c/shout.wasm");
    make("total(x bigint[]) RETURNS bigint", in_c, "total");
    assert_eq!(rows(&session, "SELECT total(ARRAY[1, 2, NULL]), total('{}'), total(NULL)"), ["3 0 "]);
    session
        .execute("CREATE TABLE t AS SELECT CASE WHEN i % 5 <> 0 THEN ARRAY[i, NULL, i + 1] END AS x FROM generate_series(1, 20000) g(i)")
        .unwrap();
    let sums = "SELECT sum(total(x)), sum(2 * x[1] + 1), count(total(x)) FROM t";
    assert_eq!(rows(&session, sums), ["320016000 320016000 16000"]);
    for (place, (element, value)) in [
        ("text", "ARRAY['a', NULL, 'b\"c\\d', 'ä,{} NULL', '']"),
        ("boolean", "ARRAY[true, NULL, false]"),
        ("smallint", "ARRAY[-1, 32767, NULL]::smallint[]"),
        ("integer", "'{}'::integer[]"),
        ("real", "ARRAY['1.5', 'NaN', NULL]::real[]"),
        ("double precision", "ARRAY['1.5', 'NaN', '-Infinity', NULL]::double precision[]"),
        ("numeric", "ARRAY[1.5, 2, 12345678901234567890.123]::numeric[]"),
        ("bytea", "ARRAY['\\x01ff', '\\x', NULL]::bytea[]"),
        ("date", "ARRAY['2024-02-29', NULL]::date[]"),
        ("uuid", "ARRAY['a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11']::uuid[]"),
    ]
    .into_iter()
    .enumerate()
    {
        make(&format!("same_{place}(x {element}[]) RETURNS {element}[]"), SAME, "same");
        let same = format!("SELECT same_{place}({value}) IS NOT DISTINCT FROM ({value}), same_{place}(NULL) IS NULL");
        assert_eq!(rows(&session, &same), ["true true"], "{element}");
    }
    session.execute("CREATE TYPE pair AS (a int, b text)").unwrap();
    make("bytes_of(x integer[][]) RETURNS bigint", LENGTH, "bytes_of");
    make("bytes_of(x pair) RETURNS bigint", LENGTH, "bytes_of");
    make("read(x text) RETURNS pair", SAME, "same");
    make("read_all(x text) RETURNS integer[][]", SAME, "same");
    let lengths = "SELECT bytes_of(ARRAY[[1, 2], [3, NULL]]), bytes_of(ROW(1, 'ä')::pair)";
    assert_eq!(rows(&session, lengths), [format!("{} {}", "[[1,2],[3,null]]".len(), "{\"a\":1,\"b\":\"ä\"}".len())]);
    let read = "SELECT (read('(7,\"x,y\")')).b, read(NULL) IS NULL, read_all('{{1,2},{3,4}}')::text";
    assert_eq!(rows(&session, read), ["x,y true {{1,2},{3,4}}"]);
    assert_eq!(error(&session, "SELECT read('x')").code(), Some("22P02"));
    // States that are arrays are made row by row.
    make("joined(s bigint[], x bigint[]) RETURNS bigint[]", SAME, "same");
    session.execute("CREATE AGGREGATE first_of(bigint[]) (SFUNC = joined, STYPE = bigint[], COMBINEFUNC = joined, INITCOND = '{7}')").unwrap();
    assert_eq!(rows(&session, "SELECT first_of(x)::text FROM (SELECT x FROM t LIMIT 50)"), ["{7}"]);
}

#[test]
fn modules_are_made_by_who_may_and_kept_with_the_database() {
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let folder = Some(folder.path().join("db"));
        Database::open(DatabaseOptions { folder, workers: Some(2), ..DatabaseOptions::default() }).unwrap()
    };
    {
        let database = open();
        if !has_machine(&database) {
            return;
        }
        let stranger = SessionOptions { engine_settings: false, ..SessionOptions::default() };
        let stranger = database.session_with(stranger);
        for module in [PLUS, "/etc/passwd"] {
            assert_eq!(error(&stranger, &plus("plus", module)).code(), Some("42501"), "{module}");
        }
        assert_eq!(error(&stranger, "SET wasm = '/bin/sh'").code(), Some("42501"));
        database.session().execute(&plus("plus", COMPILED)).unwrap();
        assert_eq!(rows(&stranger, "SELECT plus(1, 1)"), ["2"], "it may be called");
        database.checkpoint().unwrap();
    }
    let session = open().session();
    assert_eq!(
        rows(&session, "SELECT plus(40, 2), prosrc LIKE '%0061736d%' FROM pg_proc WHERE proname = 'plus'"),
        ["42 true"]
    );
}

#[test]
fn what_a_module_does_wrong_ends_its_query_alone() {
    let Some(database) = database() else { return };
    let session = database.session();
    session.execute("CREATE TABLE t AS SELECT value AS x FROM generate_series(1, 30000) g(value)").unwrap();
    session.execute(&plus("plus", PLUS)).unwrap();
    session.execute("SET function_fuel = 5000000").unwrap();
    let bodies = [
        ("(i64.div_s (local.get 0) (i64.const 0))", "38000"),
        ("(unreachable)", "38000"),
        ("(loop $again (br $again)) (local.get 0)", "57014"),
    ];
    for (body, code) in bodies {
        let module = format!("(module (func (export \"bad\") (param i64) (result i64) {body}))");
        session.execute(&format!("CREATE FUNCTION bad(x bigint) RETURNS bigint LANGUAGE wasm AS '{module}'")).unwrap();
        let ended = error(&session, "SELECT sum(bad(x)) FROM t");
        assert_eq!(ended.code(), Some(code), "{body}: {ended}");
        assert_eq!(rows(&session, "SELECT sum(plus(x, 0)) FROM t"), ["450015000"]);
        session.execute("DROP FUNCTION bad").unwrap();
    }
    let refused = |statement: &str| error(&session, statement).code();
    let other = PLUS.replace("plus", "other");
    assert_eq!(refused(&plus("none", &other)), Some("42P13"));
    assert_eq!(refused("CREATE FUNCTION f(a MAP(TEXT, INT)) RETURNS int LANGUAGE wasm AS '(module)'"), Some("0A000"));
    assert_eq!(refused("CREATE FUNCTION f(a int) RETURNS int LANGUAGE wasm AS '(modul)'"), Some("42601"));
    assert_eq!(refused("SET function_fuel = 5"), Some("22023"));
    assert_eq!(refused("SET wasm = ''"), Some("22023"));
    session.execute("SET wasm = 'no-such-machine'").unwrap();
    let missing = error(&session, "SELECT plus(1, 2)");
    assert_eq!(missing.code(), Some("58P01"), "{missing}");
    session.execute("RESET wasm").unwrap();
    assert_eq!(rows(&session, "SELECT plus(1, 2)"), ["3"]);
}

#[test]
fn closures_of_the_library_are_functions() {
    let database = Database::open(DatabaseOptions { workers: Some(2), ..DatabaseOptions::default() }).unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let plus = move |columns: &[ArrayRef], rows: usize| -> Result<ArrayRef> {
        counted.fetch_add(rows, Ordering::Relaxed);
        let [x, y] = [0, 1].map(|place| columns[place].as_primitive::<Int64Type>());
        Ok(Arc::new(Int64Array::from_iter((0..rows).map(|row| x.value(row).checked_add(y.value(row))))))
    };
    database.register_function("plus(x bigint, y bigint) RETURNS bigint STRICT", plus).unwrap();
    let shout = |columns: &[ArrayRef], _: usize| -> Result<ArrayRef> {
        let texts = columns[0].as_string_view();
        Ok(Arc::new(StringArray::from_iter(
            texts.iter().map(|text| Some(text.map_or("NULL".into(), str::to_uppercase))),
        )))
    };
    database.register_function("shout(s text DEFAULT 'x') RETURNS text IMMUTABLE", shout).unwrap();
    let session = database.session();
    session.execute("CREATE TABLE t AS SELECT value AS x FROM generate_series(1, 50000) g(value)").unwrap();
    session.execute("INSERT INTO t VALUES (NULL)").unwrap();
    assert_eq!(rows(&session, "SELECT sum(plus(x, 1)), count(plus(y => x, x => 1)) FROM t"), ["1250075000 50000"]);
    assert_eq!(calls.load(Ordering::Relaxed), 100_000, "a strict one is not called for NULL");
    assert_eq!(
        rows(&session, "SELECT shout('ä'), shout(NULL), shout(), count(*) FROM t GROUP BY shout('ä')"),
        ["Ä NULL X 50001"]
    );
    let constant = |length: usize| {
        move |_: &[ArrayRef], _: usize| -> Result<ArrayRef> {
            Ok(Arc::new(StringArray::from_iter_values((0..length).map(|_| "7"))))
        }
    };
    database.register_function("one(x bigint) RETURNS bigint", constant(1)).unwrap();
    assert_eq!(rows(&session, "SELECT one(1)"), ["7"], "values of other types are cast");
    assert_eq!(error(&session, "SELECT one(x) FROM t").code(), Some("39000"));
    database.register_function("bad() RETURNS date", |_, _| panic!("so not")).unwrap();
    let panicked = error(&session, "SELECT bad()");
    assert_eq!((panicked.code(), panicked.message()), (Some("38000"), "the function bad panicked: so not"));
    database
        .register_function("list() RETURNS boolean", |_, rows| {
            Ok(Arc::new(arrow::array::Date32Array::from_iter_values((0..rows).map(|_| 1))))
        })
        .unwrap();
    assert_eq!(error(&session, "SELECT list()").code(), Some("42804"));
    let again = database.register_function("one(z bigint) RETURNS text", constant(1)).unwrap_err();
    assert_eq!(again.code(), Some("42723"));
    assert_eq!(database.register_function("no signature", constant(1)).unwrap_err().code(), Some("42601"));
    assert!(rows(&session, "SELECT pid FROM system.pool").is_empty(), "no process is started for them");
}

/// Machines are killed at any time while many clients call functions: each gets its sum, or is told that its process
/// was killed.
#[test]
fn kills_end_single_queries_of_many_clients() {
    let Some(database) = database() else { return };
    let session = database.session();
    session.execute(&plus("plus", PLUS)).unwrap();
    session.execute("CREATE TABLE t AS SELECT value AS x FROM generate_series(1, 20000) g(value)").unwrap();
    let database = Arc::new(database);
    let clients = (0..32).map(|_| {
        let database = database.clone();
        std::thread::spawn(move || {
            let session = database.session();
            let mut killed = 0;
            for _ in 0..6 {
                match session.execute("SELECT sum(plus(x, 1)) FROM t").and_then(|result| result.collect()) {
                    Ok(_) => assert_eq!(rows(&session, "SELECT sum(x) FROM t"), ["200010000"]),
                    Err(error) => {
                        assert_eq!(error.code(), Some("38000"), "{error}");
                        killed += 1;
                    }
                }
            }
            killed
        })
    });
    let clients = clients.collect::<Vec<_>>();
    let mut kills = 0_usize;
    while clients.iter().any(|client| !client.is_finished()) {
        let pids = rows(&session, "SELECT pid FROM system.pool WHERE calls > 2");
        if let Some(pid) = pids.get(kills % pids.len().max(1)).filter(|_| kills < 60) {
            let killed = std::process::Command::new("kill").args(["-9", pid]).status();
            kills += usize::from(killed.is_ok_and(|status| status.success()));
        }
        std::thread::yield_now();
    }
    let killed = clients.into_iter().map(|client| client.join().unwrap()).sum::<usize>();
    assert!(killed <= kills, "{killed} queries ended by {kills} kills");
}
