//! Functions in Python, through the front door. Without an interpreter these tests say so and are done.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use diligence_base::seams::Random;
use diligence_catalog::Rights;

use crate::test_sessions::{error, rows, shown};
use crate::{Database, DatabaseOptions, ErrorKind, Session, SessionOptions};

fn has_python() -> bool {
    let mut python = Command::new("python3");
    let found = python.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let is_there = found.is_ok_and(|status| status.success());
    if !is_there {
        eprintln!("not tested: there is no python3 here");
    }
    is_there
}

fn database() -> Option<Database> {
    has_python().then(|| Database::open(DatabaseOptions { workers: Some(2), ..DatabaseOptions::default() }).unwrap())
}

pub(crate) fn session() -> Option<Session> {
    database().map(|database| database.session())
}

pub(crate) fn make(session: &Session, function: &str) {
    session.execute(function).unwrap_or_else(|error| panic!("{function}: {error}"));
}

#[test]
fn a_function_is_made_called_replaced_and_dropped() {
    let Some(session) = session() else { return };
    make(&session, "CREATE FUNCTION twice(x bigint, s text) RETURNS text LANGUAGE python AS $$ return s * x $$");
    session.execute("CREATE TABLE t AS SELECT * FROM (VALUES (2, 'a'), (3, 'bä'), (NULL, 'c')) v(x, s)").unwrap();
    assert_eq!(error(&session, "SELECT twice(x, s) FROM t").code(), Some("38000"), "NULL is None");
    assert_eq!(rows(&session, "SELECT x, twice(x, s) FROM t WHERE x > 0 ORDER BY x"), ["2 aa", "3 bäbäbä"]);
    assert_eq!(rows(&session, "SELECT twice(s => 'z', x => 2), twice(1, 'y')"), ["zz y"]);
    assert_eq!(
        error(&session, "CREATE FUNCTION twice(x bigint, s text) RETURNS text LANGUAGE python AS 'x'").code(),
        Some("42723")
    );
    make(
        &session,
        "CREATE OR REPLACE FUNCTION twice(x bigint, s text) RETURNS text STRICT LANGUAGE plpython3u AS
         'return s + str(x)'",
    );
    assert_eq!(rows(&session, "SELECT twice(x, s) FROM t ORDER BY x"), ["a2", "bä3", ""]);
    assert_eq!(rows(&session, "SELECT * FROM twice(1, 'a')"), ["a1"]);
    assert_eq!(rows(&session, "SELECT max(twice(x, s)), count(*) FROM t WHERE twice(x, s) <> 'a2'"), ["bä3 1"]);
    assert_eq!(
        rows(&session, "SELECT proname, prosrc LIKE '%return s + str(x)%' FROM pg_proc WHERE proname = 'twice'"),
        ["twice true"]
    );
    session.execute("DROP FUNCTION twice(bigint, text)").unwrap();
    assert_eq!(error(&session, "SELECT twice(1, 'a')").code(), Some("42883"));
}

#[test]
fn values_of_all_types_go_there_and_back() {
    let Some(session) = session() else { return };
    for (sql_type, literal, python) in [
        ("boolean", "true", "bool"),
        ("smallint", "-7", "int"),
        ("integer", "70000", "int"),
        ("bigint", "9223372036854775807", "int"),
        ("real", "1.5", "float"),
        ("double precision", "0.1", "float"),
        ("numeric", "12345678901234567890.123450", "Decimal"),
        ("numeric(10, 2)", "1.25", "Decimal"),
        ("text", "'Grüße'", "str"),
        ("varchar(5)", "'abc'", "str"),
        ("bytea", "'\\x00ff'", "bytes"),
        ("date", "'2024-02-29'", "str"),
        ("time", "'12:34:56'", "str"),
        ("timestamp", "'2024-02-29 12:34:56.789'", "str"),
        ("timestamptz", "'2024-02-29 12:34:56+00'", "str"),
        ("interval", "'1 day 02:00:00'", "str"),
        ("uuid", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "str"),
        ("json", "'{\"a\": 1}'", "str"),
        ("jsonb", "'{\"a\": [1, null]}'", "str"),
    ] {
        make(
            &session,
            &format!("CREATE OR REPLACE FUNCTION same(v {sql_type}) RETURNS {sql_type} LANGUAGE python AS 'return v'"),
        );
        make(
            &session,
            &format!(
                "CREATE OR REPLACE FUNCTION kind(v {sql_type}) RETURNS text LANGUAGE python AS 'return type(v).__name__'"
            ),
        );
        let value = format!("CAST({literal} AS {sql_type})");
        let both = rows(&session, &format!("SELECT {value}, kind({value}), same(NULL) IS NULL"));
        let same = rows(&session, &format!("SELECT same({value}), kind({value}), same(NULL) IS NULL"));
        assert_eq!(both, same, "{sql_type}");
        assert!(same[0].ends_with(&format!(" {python} true")), "{sql_type}: {same:?}");
        session.execute(&format!("DROP FUNCTION same({sql_type})")).unwrap();
        session.execute(&format!("DROP FUNCTION kind({sql_type})")).unwrap();
    }
    let refused = error(&session, "CREATE FUNCTION f(a MAP(TEXT, INT)) RETURNS int LANGUAGE python AS 'return 1'");
    assert_eq!(refused.code(), Some("0A000"), "{refused}");
}

#[test]
fn arrays_are_lists_and_rows_are_dictionaries() {
    let Some(session) = session() else { return };
    make(
        &session,
        "CREATE FUNCTION total(x bigint[]) RETURNS bigint LANGUAGE python AS $$
return None if x is None else sum(value for value in x if value is not None)
$$",
    );
    assert_eq!(rows(&session, "SELECT total(ARRAY[1, 2, NULL]), total('{}'), total(NULL)"), ["3 0 "]);
    for (place, (element, value, in_python)) in [
        ("text", "ARRAY['a', NULL, 'b\"c\\d', 'ä,{} NULL', '']", "str"),
        ("integer", "ARRAY[[1, 2], [3, NULL]]", "list"),
        ("boolean", "ARRAY[true, NULL, false]", "bool"),
        ("double precision", "ARRAY['1.5', 'NaN', '-Infinity', NULL, '3']::double precision[]", "float"),
        ("numeric", "ARRAY[1.5, 2, 12345678901234567890.123]::numeric[]", "Decimal"),
        ("bytea", "ARRAY['\\x01ff', '\\x', NULL]::bytea[]", "bytes"),
        ("date", "ARRAY['2024-02-29', NULL]::date[]", "str"),
        ("timestamp", "ARRAY['2024-02-29 10:00:00.5', NULL]::timestamp[]", "str"),
        ("uuid", "ARRAY['a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11']::uuid[]", "str"),
    ]
    .into_iter()
    .enumerate()
    {
        let dimensions = if in_python == "list" { "[][]" } else { "[]" };
        let (array, turned) = (format!("{element}{dimensions}"), format!("turned_{place}"));
        make(
            &session,
            &format!(
                "CREATE FUNCTION {turned}(x {array}) RETURNS {array} LANGUAGE python AS $$
if type(x[0]).__name__ != '{in_python}':
    raise TypeError(type(x[0]).__name__)
return reversed(x)
$$"
            ),
        );
        make(
            &session,
            &format!("CREATE FUNCTION same_{place}(x {array}) RETURNS {array} LANGUAGE python AS 'return x'"),
        );
        let same = format!("SELECT same_{place}({value}) IS NOT DISTINCT FROM ({value})::{array}");
        assert_eq!(rows(&session, &same), ["true"], "{element}");
        let back = format!("SELECT same_{place}({turned}({value}))::text <> '{{}}', same_{place}(NULL) IS NULL");
        assert_eq!(rows(&session, &back), ["true true"], "{element}");
    }
    assert_eq!(
        rows(&session, "SELECT turned_0(ARRAY['x', 'y'])::text, turned_1(ARRAY[[1], [2]])::text"),
        ["{y,x} {{2},{1}}"]
    );

    session.execute("CREATE TYPE pair AS (a int, b text)").unwrap();
    make(
        &session,
        "CREATE FUNCTION shown(p pair, more pair[]) RETURNS text LANGUAGE python AS $$
return ' '.join(f\"{one['b']}{one['a']}\" for one in [p, *more])
$$",
    );
    let pairs = "SELECT shown(ROW(1, 'x')::pair, ARRAY[ROW(2, 'y')::pair, ROW(NULL, 'z')::pair])";
    assert_eq!(rows(&session, pairs), ["x1 y2 zNone"]);

    session
        .execute("CREATE TABLE t AS SELECT * FROM (VALUES (1, ARRAY[1, 2]), (1, ARRAY[3]), (2, NULL)) v(g, x)")
        .unwrap();
    make(
        &session,
        "CREATE FUNCTION longest(x int[]) RETURNS int[] LANGUAGE python_aggregate AS $$
return max((one or [] for one in x), key=len)
$$",
    );
    assert_eq!(rows(&session, "SELECT g, longest(x)::text FROM t GROUP BY g ORDER BY g"), ["1 {1,2}", "2 {}"]);

    make(
        &session,
        "CREATE FUNCTION wrong(x int) RETURNS int[] LANGUAGE python AS 'return [{}, 7, \"{1,x}\", \"{4}\"][x]'",
    );
    assert_eq!(error(&session, "SELECT wrong(0)").code(), Some("39000"));
    assert_eq!(error(&session, "SELECT wrong(1)").code(), Some("39000"));
    assert_eq!(error(&session, "SELECT wrong(2)").code(), Some("22P02"));
    assert_eq!(rows(&session, "SELECT wrong(3)::text"), ["{4}"], "a text is read");
    let refused = error(&session, "CREATE FUNCTION f(a pair) RETURNS int LANGUAGE python_arrow AS 'return a'");
    assert_eq!(refused.code(), Some("0A000"), "{refused}");
}

#[test]
fn rows_are_results_in_every_form_that_python_has() {
    let Some(session) = session() else { return };
    session.execute("CREATE TYPE pair AS (a int, b text, c int[])").unwrap();
    make(
        &session,
        "CREATE FUNCTION made(x int) RETURNS pair LANGUAGE python AS $$
from types import SimpleNamespace
return [(x, 'q\"\\\\,', [1, None]), [x, '', []], {'b': 'only'}, SimpleNamespace(a=x, b=None, c=None), '(5,read,{})', None,
        (1, 2), {'z': 1}, 7, ('y', 1, [])][x]
$$",
    );
    let texts = ["(0,\"q\"\"\\\\,\",\"{1,NULL}\")", "(1,\"\",{})", "(,only,)", "(3,,)", "(5,read,{})", ""];
    let shown = rows(&session, "SELECT made(x)::text FROM generate_series(0, 5) g(x)");
    assert_eq!(shown, texts);
    assert_eq!(rows(&session, "SELECT (made(0)).b, (made(0)).c[1], (made(2)).a IS NULL"), ["q\"\\, 1 true"]);
    for (x, code) in [(6, "39000"), (7, "39000"), (8, "39000"), (9, "22P02")] {
        let failed = error(&session, &format!("SELECT made({x})"));
        assert_eq!(failed.code(), Some(code), "{failed}");
    }
}

#[test]
fn what_a_function_returns_is_read_as_postgresql_reads_it() {
    let Some(session) = session() else { return };
    for (sql_type, python, expected) in [
        ("integer", "'42'", Ok("42")),
        ("integer", "4.0", Err("22P02")),
        ("integer", "True", Err("22P02")),
        ("integer", "2 ** 40", Err("22003")),
        ("smallint", "40000", Err("22003")),
        ("bigint", "2 ** 80", Err("22003")),
        ("real", "1e300", Err("22003")),
        ("boolean", "[0]", Ok("true")),
        ("boolean", "''", Ok("false")),
        ("double precision", "3", Ok("3.0")),
        ("text", "1.5", Ok("1.5")),
        ("numeric", "'x'", Err("22P02")),
        ("date", "'2024-02-30'", Err("22008")),
        ("jsonb", "'{'", Err("22P02")),
        ("bytea", "'text'", Err("39000")),
        ("text", "'a\\0b'", Err("22021")),
        ("text", "None", Ok("")),
    ] {
        session.execute("DROP FUNCTION IF EXISTS f()").unwrap();
        make(&session, &format!("CREATE FUNCTION f() RETURNS {sql_type} LANGUAGE python AS $$return {python}$$"));
        match expected {
            Ok(expected) => assert_eq!(rows(&session, "SELECT f()"), [expected], "{sql_type} {python}"),
            Err(code) => {
                let found = error(&session, "SELECT f()");
                assert_eq!(found.code(), Some(code), "{sql_type} {python}: {found}");
            }
        }
    }
}

#[test]
fn a_function_is_called_only_for_rows_that_need_it() {
    let Some(session) = session() else { return };
    make(
        &session,
        "CREATE FUNCTION inverse(x bigint) RETURNS double precision IMMUTABLE LANGUAGE python AS 'return 1 / x'",
    );
    session.execute("CREATE TABLE t AS SELECT value AS x FROM generate_series(0, 20000) g(value)").unwrap();
    assert_eq!(
        rows(&session, "SELECT count(CASE WHEN x = 0 THEN NULL ELSE inverse(x) END), min(x) FROM t"),
        ["20000 0"]
    );
    assert_eq!(rows(&session, "SELECT count(*) FROM t WHERE x > 0 AND inverse(x) < 0.5"), ["19998"]);
    let raised = error(&session, "SELECT sum(inverse(x)) FROM t");
    assert_eq!((raised.message(), raised.code()), ("ZeroDivisionError: division by zero", Some("38000")));
    assert_eq!(raised.detail(), Some("function inverse, line 1: return 1 / x"));
    // In a join, an aggregate, a sort and a table that is written.
    assert_eq!(
        rows(
            &session,
            "SELECT a.x, round(inverse(a.x)::numeric, 3) FROM t a JOIN t b ON a.x = b.x + 1 AND inverse(b.x + 1) > 0.3
             ORDER BY inverse(a.x) DESC LIMIT 2"
        ),
        ["1 1.000", "2 0.500"]
    );
    session.execute("CREATE TABLE u AS SELECT x, inverse(x + 1) AS y FROM t").unwrap();
    assert_eq!(rows(&session, "SELECT count(y), max(y) FROM u"), ["20001 1.0"]);
    session.execute("UPDATE u SET y = inverse(x) WHERE x = 4").unwrap();
    assert_eq!(rows(&session, "SELECT y FROM u WHERE x = 4"), ["0.25"]);
}

#[test]
fn only_who_may_do_everything_makes_functions_in_python() {
    let Some(database) = database() else { return };
    let function = "CREATE FUNCTION f(x bigint) RETURNS bigint LANGUAGE python AS 'return x + 1'";
    for (files, engine_settings) in [(true, false), (false, true), (false, false)] {
        let options = SessionOptions { files, engine_settings, ..SessionOptions::default() };
        let session = database.session_with(options);
        assert_eq!(error(&session, function).code(), Some("42501"));
        assert_eq!(error(&session, "SET python = '/bin/sh'").code(), Some("42501"));
    }
    let rights = Arc::new(Rights::only(vec![], vec!["public.*".parse().unwrap()]));
    let options = SessionOptions { rights, engine_settings: false, ..SessionOptions::default() };
    let stranger = database.session_with(options);
    assert_eq!(error(&stranger, function).code(), Some("42501"));
    make(&database.session(), function);
    assert_eq!(rows(&stranger, "SELECT f(1)"), ["2"], "it may be called");
}

#[test]
fn a_role_may_be_granted_a_language() {
    let Some(database) = database() else { return };
    let session = database.session();
    for statement in [
        "CREATE ROLE coder",
        "CREATE ROLE guest",
        "GRANT CREATE ON SCHEMA public TO coder, guest",
        "GRANT USAGE ON LANGUAGE plpython3u TO coder",
    ] {
        session.execute(statement).unwrap();
    }
    let function = "CREATE FUNCTION f(x bigint) RETURNS bigint LANGUAGE python AS 'return x + 1'";
    session.execute("SET ROLE guest").unwrap();
    let refused = error(&session, function);
    assert_eq!(refused.code(), Some("42501"));
    assert!(refused.hint().unwrap().contains("GRANT USAGE ON LANGUAGE python"), "{refused}");
    assert_eq!(error(&session, "GRANT USAGE ON LANGUAGE python TO guest").code(), Some("42501"));
    session.execute("SET ROLE coder").unwrap();
    make(&session, function);
    assert_eq!(rows(&session, "SELECT f(1)"), ["2"]);
    let wasm = "CREATE FUNCTION g() RETURNS bigint LANGUAGE wasm AS '(module)'";
    assert_eq!(error(&session, wasm).code(), Some("42501"), "nor another language");
    session.execute("RESET ROLE").unwrap();
    let listed = "SELECT lanacl::text FROM pg_language WHERE lanname = 'python'";
    assert_eq!(rows(&session, listed), ["{diligence=U/diligence,coder=U/diligence}"]);
    let asked = "SELECT has_language_privilege('coder', 'python', 'USAGE'), \
                 has_language_privilege('guest', 'python', 'USAGE'), has_language_privilege('guest', 'sql', 'USAGE')";
    assert_eq!(rows(&session, asked), ["true false true"]);
    session.execute("REVOKE USAGE ON LANGUAGE python FROM coder").unwrap();
    session.execute("SET ROLE coder").unwrap();
    assert_eq!(error(&session, &function.replace(" f(", " h(")).code(), Some("42501"));
    session.execute("RESET ROLE").unwrap();
    // Who may do everything but make such functions does not grant them to itself.
    let options = SessionOptions { files: false, ..SessionOptions::default() };
    let other = database.session_with(options);
    assert_eq!(error(&other, "GRANT USAGE ON LANGUAGE python TO coder").code(), Some("42501"));
    for (statement, code) in [
        ("GRANT USAGE ON LANGUAGE cobol TO coder", "42704"),
        ("GRANT USAGE ON LANGUAGE plpgsql TO coder", "0A000"),
        ("GRANT SELECT ON LANGUAGE python TO coder", "0LP01"),
    ] {
        assert_eq!(error(&session, statement).code(), Some(code), "{statement}");
    }
}

#[test]
fn a_function_may_have_less_time_than_others() {
    let Some(session) = session() else { return };
    let body = "AS 'while True: pass'";
    make(
        &session,
        &format!("CREATE FUNCTION spin() RETURNS bigint LANGUAGE python SET function_time = '200ms' {body}"),
    );
    let late = error(&session, "SELECT spin()");
    assert_eq!(late.code(), Some("57014"));
    assert!(late.hint().unwrap().contains("ALTER FUNCTION spin"), "{late}");
    assert_eq!(rows(&session, "SELECT proconfig::text FROM pg_proc WHERE proname = 'spin'"), ["{function_time=200ms}"]);
    session.execute("ALTER FUNCTION spin() RESET function_time").unwrap();
    session.execute("SET function_time = '100ms'").unwrap();
    assert!(error(&session, "SELECT spin()").hint().unwrap().contains("all functions"));
    for (set, code) in
        [("search_path = public", "0A000"), ("function_time = 'soon'", "22023"), ("function_time = 0", "22023")]
    {
        let statement = format!("CREATE FUNCTION g() RETURNS bigint LANGUAGE python SET {set} AS 'return 1'");
        assert_eq!(error(&session, &statement).code(), Some(code), "{set}");
    }
}

#[test]
fn a_function_may_have_less_memory_and_fewer_ways_out_than_others() {
    let Some(session) = session() else { return };
    let body = "AS 'return len([bytes(1 << 20) for _ in range(100)])'";
    make(
        &session,
        &format!("CREATE FUNCTION hoard() RETURNS bigint LANGUAGE python SET function_memory = '32MB' {body}"),
    );
    let refused = error(&session, "SELECT hoard()");
    assert_eq!(refused.code(), Some("53200"), "{refused}");
    session.execute("ALTER FUNCTION hoard() SET function_memory = '256MB'").unwrap();
    assert_eq!(rows(&session, "SELECT hoard()"), ["100"]);
    session.execute("ALTER FUNCTION hoard() SET function_files = 'off'").unwrap();
    assert_eq!(
        rows(&session, "SELECT proconfig::text FROM pg_proc WHERE proname = 'hoard'"),
        ["{function_memory=256MB,function_files=off}"]
    );
    for (set, code) in [
        ("function_memory = '1kB'", "22023"),
        ("function_fuel = 'much'", "22023"),
        ("function_network = 'some'", "22023"),
        ("lock_timeout = '1s'", "0A000"),
    ] {
        let statement = format!("CREATE FUNCTION g() RETURNS bigint LANGUAGE python SET {set} AS 'return 1'");
        assert_eq!(error(&session, &statement).code(), Some(code), "{set}");
    }
}

#[test]
fn a_role_may_have_less_than_others() {
    let Some(database) = database() else { return };
    let admin = database.session();
    make(&admin, "CREATE FUNCTION spin() RETURNS bigint LANGUAGE python AS 'while True: pass'");
    let body = "AS 'return len([bytes(1 << 20) for _ in range(100)])'";
    make(&admin, &format!("CREATE FUNCTION hoard() RETURNS bigint LANGUAGE python IMMUTABLE {body}"));
    for statement in [
        "CREATE ROLE ann LOGIN",
        "ALTER ROLE ann SET function_time = '200ms'",
        "ALTER ROLE ann SET function_memory TO '32MB'",
    ] {
        admin.execute(statement).unwrap();
    }
    let settings = "SELECT rolconfig::text FROM pg_roles WHERE rolname = 'ann'";
    assert_eq!(rows(&admin, settings), ["{function_memory=32MB,function_time=200ms}"]);
    let user = || Some("ann".to_owned());
    let ann =
        database.session_with(SessionOptions { engine_settings: false, user: user(), ..SessionOptions::default() });
    for (call, code) in [("spin", "57014"), ("hoard", "53200")] {
        let refused = error(&ann, &format!("SELECT {call}()"));
        assert_eq!(refused.code(), Some(code), "{call}: {refused}");
        assert!(refused.hint().unwrap().contains("ALTER ROLE"), "{call}: {refused}");
        // What is limited next has time, however busy the machine is.
        admin.execute("ALTER ROLE ann SET function_time = '50s'").unwrap();
    }
    assert_eq!(rows(&admin, "SELECT hoard()"), ["100"], "others have what they had");
    // It does not give itself more, nor by forgetting its settings.
    for statement in ["ALTER ROLE ann SET function_time = '1h'", "ALTER ROLE ann RESET function_time"] {
        assert_eq!(error(&ann, statement).code(), Some("42501"), "{statement}");
    }
    ann.execute("ALTER ROLE ann SET search_path TO public").unwrap();
    ann.execute("ALTER ROLE ann RESET ALL").unwrap();
    assert_eq!(rows(&admin, settings), ["{function_memory=32MB,function_time=50s}"]);
    for wrong in ["function_time = 'soon'", "function_memory = '1kB'", "function_files = 'some'"] {
        assert_eq!(error(&admin, &format!("ALTER ROLE ann SET {wrong}")).code(), Some("22023"), "{wrong}");
    }
    // Limits of a role are not settings of all, even if it may change those.
    let other = database.session_with(SessionOptions { user: user(), ..SessionOptions::default() });
    assert_eq!(rows(&other, "SELECT current_setting('function_time')"), ["1min"]);
    // They hold from the next query on, also in sessions that have begun.
    admin.execute("ALTER ROLE ann RESET function_memory").unwrap();
    assert_eq!(rows(&ann, "SELECT hoard()"), ["100"]);
}

#[test]
fn a_function_may_give_rows() {
    let Some(session) = session() else { return };
    make(
        &session,
        "CREATE FUNCTION words(s text) RETURNS TABLE (place integer, word text, long boolean) LANGUAGE python AS $$
for place, word in enumerate((s or '').split(), 1):
    yield place, word, len(word) > 4 if word != 'none' else None
$$",
    );
    let expected = ["1 many false", "2 „words\"' true", "3 none "];
    assert_eq!(rows(&session, "SELECT * FROM words('many „words\"'' none')"), expected);
    assert!(rows(&session, "SELECT * FROM words(NULL)").is_empty());
    session.execute("CREATE TABLE t AS SELECT * FROM (VALUES (1, 'a b'), (2, ''), (3, 'c')) v(x, s)").unwrap();
    assert_eq!(
        rows(&session, "SELECT x, w.word, w.place FROM t, words(s) AS w ORDER BY 1, 3"),
        ["1 a 1", "1 b 2", "3 c 1"],
        "it is called for each row of what stands before it"
    );
    assert_eq!(
        rows(&session, "SELECT x, word FROM t LEFT JOIN LATERAL words(s) ON true ORDER BY 1, 2"),
        ["1 a", "1 b", "2 ", "3 c"]
    );
    make(&session, "CREATE FUNCTION up_to(n bigint) RETURNS SETOF bigint STRICT LANGUAGE python AS 'return range(n)'");
    assert_eq!(rows(&session, "SELECT count(*), sum(up_to) FROM up_to(10000)"), ["10000 49995000"]);
    assert!(rows(&session, "SELECT * FROM up_to(NULL)").is_empty());
    make(
        &session,
        "CREATE FUNCTION kinds() RETURNS TABLE (a numeric, b bytea, c jsonb, d date, e double precision) LANGUAGE python AS $$
from decimal import Decimal
return [(Decimal('1.50'), b'\\x00\\xff', {'k': [1, None]}, '2024-02-29', 0.1), {'d': None, 'a': 7}]
$$",
    );
    assert_eq!(
        rows(&session, "SELECT a = 1.5, b = '\\x00ff', c, d, e FROM kinds()"),
        ["true true {\"k\": [1, null]} 2024-02-29 0.1", "false    "]
    );
    for (body, code) in [
        ("return [(1, 2)]", "39000"),
        ("return 5", "39000"),
        ("return \"text\"", "39000"),
        ("return [{\"other\": 1}]", "39000"),
        ("return [\"no number\"]", "22P02"),
        ("yield 1\nraise ValueError(1)", "38000"),
    ] {
        make(&session, &format!("CREATE FUNCTION bad() RETURNS TABLE (x bigint) LANGUAGE python AS '{body}'"));
        assert_eq!(error(&session, "SELECT * FROM bad()").code(), Some(code), "{body}");
        session.execute("DROP FUNCTION bad").unwrap();
    }
    assert_eq!(rows(&session, "SELECT up_to(3) + 1 ORDER BY 1"), ["1", "2", "3"], "rows may stand in the list as well");
    assert_eq!(rows(&session, "SELECT x, up_to(x) FROM t WHERE x < 3 ORDER BY 1, 2"), ["1 0", "2 0", "2 1"]);
}

#[test]
fn a_function_may_be_an_aggregate() {
    let Some(session) = session() else { return };
    make(
        &session,
        "CREATE FUNCTION product(x double precision, times integer DEFAULT 1) RETURNS double precision STRICT
         LANGUAGE python_aggregate AS $$
import math
return math.prod(value ** count for value, count in zip(x, times))
$$",
    );
    session
        .execute(
            "CREATE TABLE t AS SELECT * FROM (VALUES ('a', 2.5, 1), ('b', 3, 2), ('a', 4, 1), ('c', NULL, 1), ('a', 4, 1))
             v(g, x, n)",
        )
        .unwrap();
    assert_eq!(rows(&session, "SELECT g, product(x, n) FROM t GROUP BY g ORDER BY g"), ["a 40.0", "b 9.0", "c "]);
    assert_eq!(
        rows(&session, "SELECT product(x), product(DISTINCT x), product(x) FILTER (WHERE g = 'a') FROM t"),
        ["120.0 30.0 40.0"]
    );
    assert_eq!(rows(&session, "SELECT g FROM t GROUP BY g HAVING product(x) > 10 ORDER BY product(x) + 1"), ["a"]);
    assert_eq!(rows(&session, "SELECT product(x), count(*) FROM t WHERE false"), [" 0"]);
    make(&session, "CREATE FUNCTION listed(v text) RETURNS text LANGUAGE python_aggregate AS 'return repr(v)'");
    assert_eq!(
        rows(&session, "SELECT listed(x::text ORDER BY x DESC NULLS LAST) FROM t WHERE g <> 'b'"),
        ["['4', '4', '2.5', None]"]
    );
    assert_eq!(rows(&session, "SELECT listed(g) FROM t WHERE false"), ["[]"], "one that is not strict is called");
    for (sql_type, value, expected) in [
        ("bigint", "9223372036854775807", "[9223372036854775807, None]"),
        ("numeric", "1.5", "[Decimal('1.5'), None]"),
        ("bytea", "'\\x00ff'", "[b'\\x00\\xff', None]"),
        ("boolean", "true", "[True, None]"),
        ("date", "'2024-02-29'", "['2024-02-29', None]"),
        ("double precision", "'Infinity'", "[inf, None]"),
    ] {
        let function =
            format!("CREATE FUNCTION shown(v {sql_type}) RETURNS text LANGUAGE python_aggregate AS 'return repr(v)'");
        make(&session, &function);
        let sql = format!("SELECT shown(v) FROM (VALUES (1, {value}::{sql_type}), (2, NULL)) AS given(place, v)");
        assert_eq!(rows(&session, &sql), [expected], "{sql_type}");
        session.execute("DROP FUNCTION shown").unwrap();
    }
    assert_eq!(error(&session, "SELECT g FROM t WHERE product(x) > 1").code(), Some("42803"));
    assert_eq!(error(&session, "SELECT g, product(x) FROM t").code(), Some("42803"));
}

#[test]
fn functions_are_kept_with_the_database() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let folder = Some(folder.path().join("db"));
        Database::open(DatabaseOptions { folder, workers: Some(2), ..DatabaseOptions::default() }).unwrap()
    };
    for _ in 0..2 {
        let database = open();
        let session = database.session();
        make(
            &session,
            "CREATE OR REPLACE FUNCTION kept(x bigint) RETURNS text IMMUTABLE STRICT LANGUAGE python AS $body$
# It has 'quotes', \"others\", a \\ and a $$.
if x > 1:
    return f\"it's {x}\"
return 'less'
$body$",
        );
        database.checkpoint().unwrap();
    }
    let session = open().session();
    assert_eq!(rows(&session, "SELECT kept(2), kept(1), kept(NULL) IS NULL"), ["it's 2 less true"]);
}

#[test]
fn a_function_that_spins_is_cancelled_and_is_in_nobodys_way() {
    let Some(database) = database() else { return };
    let session = database.session();
    make(&session, "CREATE FUNCTION spin(x bigint) RETURNS bigint LANGUAGE python AS 'while True: pass'");
    session.execute("CREATE TABLE t AS SELECT value AS x FROM generate_series(1, 100000) g(value)").unwrap();
    // More of them than there are workers.
    let mut spinning = (0..4).map(|_| session.start("SELECT sum(spin(x)) FROM t").unwrap()).collect::<Vec<_>>();
    let active = || rows(&session, "SELECT count(*) FROM system.pool WHERE state = 'active' AND functions = 'spin'");
    while active()[0].parse::<usize>().unwrap() < 4 {
        for query in &mut spinning {
            assert!(matches!(query.next_within(Duration::from_millis(1)), Poll::Pending));
        }
    }
    assert_eq!(rows(&session, "SELECT count(*), sum(x) FROM t"), ["100000 5000050000"], "others go on");
    for query in &spinning {
        query.cancel_token().cancel();
    }
    for query in spinning {
        assert_eq!(query.collect().unwrap_err().kind(), ErrorKind::Cancelled);
    }
    assert_eq!(rows(&session, "SELECT count(*) FROM t"), ["100000"]);
    session.execute("SET function_time = '200ms'").unwrap();
    let late = error(&session, "SELECT spin(1)");
    assert_eq!(
        (late.code(), late.message()),
        (Some("57014"), "the function spin took longer than function_time allows")
    );
}

#[test]
fn limits_are_settings() {
    let Some(session) = session() else { return };
    session.execute("SET function_memory = '200MB'").unwrap();
    make(&session, "CREATE FUNCTION grow() RETURNS bigint LANGUAGE python AS 'return len(bytearray(10 ** 9))'");
    assert_eq!(error(&session, "SELECT grow()").code(), Some("53200"));
    session.execute("SET function_memory = '4GB'").unwrap();
    assert_eq!(rows(&session, "SELECT grow()"), ["1000000000"]);
    session.execute("SET pool_threshold = 5").unwrap();
    session.execute("SET pool_minimum = 6").unwrap();
    assert_eq!(rows(&session, "SELECT grow()"), ["1000000000"]);
    assert!(rows(&session, "SELECT count(*) FROM system.pool")[0].parse::<usize>().unwrap() >= 6);
    session.execute("RESET function_memory").unwrap();
    assert_eq!(rows(&session, "SHOW function_memory"), ["function_memory 1.0 GiB"]);
    for wrong in ["function_memory = '1MB'", "function_time = 0", "pool_maximum = 0", "python = ''"] {
        assert_eq!(error(&session, &format!("SET {wrong}")).code(), Some("22023"), "{wrong}");
    }
    session.execute("SET python = 'no-such-python'").unwrap();
    let missing = error(&session, "SELECT grow()");
    assert_eq!(missing.code(), Some("58P01"));
    assert!(missing.hint().unwrap().contains("apt install python3"), "{missing}");
}

#[test]
fn what_functions_do_wrong_ends_their_query_alone() {
    let Some(session) = session() else { return };
    session.execute("CREATE TABLE t AS SELECT value AS x FROM generate_series(1, 3000) g(value)").unwrap();
    make(&session, "CREATE FUNCTION good(x bigint) RETURNS bigint LANGUAGE python AS 'return x + 1'");
    for (body, code) in [
        ("import os; os._exit(1)", "38000"),
        ("import sys; sys.exit()", "38000"),
        ("import ctypes; ctypes.string_at(0)", "38000"),
        (
            "import os; [os.write(fd, b'junk' * 100) for fd in range(3, 100) if os.path.exists(f'/proc/self/fd/{fd}') and fd >= 64]",
            "39000",
        ),
        ("raise KeyboardInterrupt()", "38000"),
        ("a = 'x'; return a * 10 ** 9 * 100", "53200"),
        ("def f(): return f()\n\nreturn f()", "38000"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "38000"),
        ("return undefined", "38000"),
    ] {
        make(
            &session,
            &format!("CREATE OR REPLACE FUNCTION bad(x bigint) RETURNS text LANGUAGE python AS $$\n{body}\n$$"),
        );
        let found = error(&session, "SELECT count(bad(x)) FROM t");
        assert_eq!(found.code(), Some(code), "{body}: {found}");
        assert_eq!(rows(&session, "SELECT sum(good(x)) FROM t"), ["4504500"], "{body}");
    }
    let syntax = error(&session, "CREATE FUNCTION worse() RETURNS int LANGUAGE python AS 'return ('");
    assert_eq!((syntax.code(), syntax.message()), (Some("42601"), "could not compile the function worse"));
}

#[test]
fn what_a_function_prints_is_the_query_s() {
    let Some(session) = session() else { return };
    make(
        &session,
        "CREATE FUNCTION say(x bigint) RETURNS bigint LANGUAGE python AS $$
import os
print('x is', x)
os.write(2, b'and more\\n')
return x
$$",
    );
    let mut result = session.start("SELECT say(7)").unwrap();
    let printed = result.printed();
    while let Some(batch) = result.next_blocking() {
        batch.unwrap();
    }
    let texts = printed.take().iter().map(|message| message.text().to_owned()).collect::<Vec<_>>();
    assert_eq!(texts, ["x is 7\nand more\n"]);
}

/// Processes are killed while queries run: each gives what it is to, or the error of its own process.
#[test]
fn kills_end_single_queries() {
    let Some(database) = database() else { return };
    let session = database.session();
    make(&session, "CREATE FUNCTION slow(x bigint) RETURNS bigint LANGUAGE python AS 'return sum(range(500)) * 0 + x'");
    session.execute("CREATE TABLE t AS SELECT value AS x FROM generate_series(1, 3000) g(value)").unwrap();
    let clients = (0..4).map(|_| {
        let session = database.session();
        std::thread::spawn(move || {
            let outcomes = (0..8).map(|_| match session.execute("SELECT sum(slow(x)) FROM t").unwrap().collect() {
                Ok(batches) => {
                    assert_eq!(shown(&batches), ["4501500"]);
                    0
                }
                Err(error) => {
                    assert_eq!(error.code(), Some("38000"), "{error}");
                    1
                }
            });
            outcomes.sum::<usize>()
        })
    });
    let clients = clients.collect::<Vec<_>>();
    let mut kills = 0;
    while clients.iter().any(|client| !client.is_finished()) {
        let active = database.status().pool();
        if let Some(process) = active.iter().find(|process| process.calls > 8)
            && kills < 12
        {
            let killed = Command::new("kill").args(["-9", &process.pid.to_string()]).status().unwrap();
            kills += usize::from(killed.success());
        }
        assert_eq!(rows(&session, "SELECT count(*) FROM t"), ["3000"]);
    }
    let failed = clients.into_iter().map(|client| client.join().unwrap()).sum::<usize>();
    assert!(failed <= kills, "{failed} failed by {kills} kills");
    assert_eq!(rows(&session, "SELECT sum(slow(x)) FROM t"), ["4501500"]);
}

/// 32 clients, every fourth of which calls no function. Processes are killed at random moments: only queries for which
/// they worked end with an error.
#[test]
fn kills_at_random_moments_are_noticed_by_no_other_client() {
    const CLIENTS: usize = 32;
    const KILLS_MAX: usize = 40;
    let Some(database) = database() else { return };
    let session = database.session();
    session.execute("SET pool_maximum = 8").unwrap();
    make(&session, "CREATE FUNCTION slow(x bigint) RETURNS bigint LANGUAGE python AS 'return sum(range(500)) * 0 + x'");
    session.execute("CREATE TABLE t AS SELECT value AS x FROM generate_series(1, 3000) g(value)").unwrap();
    let clients = (0..CLIENTS).map(|client| {
        let session = database.session();
        std::thread::spawn(move || {
            let calls = client % 4 > 0;
            let (sql, count) = if calls { ("SELECT sum(slow(x)) FROM t", 4) } else { ("SELECT sum(x) FROM t", 40) };
            let outcomes = (0..count).map(|_| match session.execute(sql).and_then(crate::QueryResult::collect) {
                Ok(batches) => {
                    assert_eq!(shown(&batches), ["4501500"]);
                    0
                }
                Err(error) => {
                    assert!(calls && error.code() == Some("38000"), "{sql}: {error}");
                    1
                }
            });
            outcomes.sum::<usize>()
        })
    });
    let clients = clients.collect::<Vec<_>>();
    let (mut kills, mut random) = (0, Random::new(32));
    while clients.iter().any(|client| !client.is_finished()) {
        std::thread::sleep(Duration::from_millis(random.between(1, 30)));
        let mut processes = database.status().pool();
        processes.retain(|process| process.calls > 0);
        if kills < KILLS_MAX && !processes.is_empty() {
            let pid = processes[random.below(processes.len())].pid.to_string();
            // It may have gone by itself.
            kills += usize::from(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
        }
    }
    let failed = clients.into_iter().map(|client| client.join().unwrap()).sum::<usize>();
    assert!(kills > 0 && failed <= kills, "{failed} failed by {kills} kills");
    assert_eq!(rows(&session, "SELECT sum(slow(x)) FROM t"), ["4501500"]);
    assert_eq!(rows(&session, "SELECT active FROM system.pool_numbers WHERE language = 'python'"), ["0"]);
}

#[test]
fn volatile_functions_are_called_anew_and_constants_are_no_folded_at_planning() {
    let Some(session) = session() else { return };
    make(
        &session,
        "CREATE FUNCTION next() RETURNS bigint LANGUAGE python AS $$GD['n'] = GD.get('n', 0) + 1; return GD['n']$$",
    );
    session.execute("SET pool_maximum = 1").unwrap();
    assert_eq!(rows(&session, "SELECT next() FROM generate_series(1, 3)"), ["1", "2", "3"]);
    assert_eq!(rows(&session, "SELECT next() FROM generate_series(1, 1)"), ["4"]);
    assert_eq!(rows(&session, "SELECT next()"), ["5"]);
    make(&session, "CREATE FUNCTION fails() RETURNS bigint IMMUTABLE LANGUAGE python AS 'return 1 // 0'");
    assert!(rows(&session, "EXPLAIN SELECT fails()").iter().any(|line| line.contains("fails()")));
    assert_eq!(rows(&session, "SELECT CASE WHEN true THEN 1 ELSE fails() END"), ["1"]);
    assert_eq!(error(&session, "SELECT fails()").code(), Some("38000"));
}

/// An interpreter that has pyarrow: `DILIGENCE_PYTHON`, or what there is.
fn python_with_arrow() -> Option<String> {
    let names = [std::env::var("DILIGENCE_PYTHON").ok(), Some("python3".to_owned())];
    names.into_iter().flatten().find(|python| {
        let mut python = Command::new(python);
        let python = python.args(["-I", "-c", "import pyarrow"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
        python.is_ok_and(|status| status.success())
    })
}

#[test]
fn functions_of_whole_columns_get_arrow_arrays() {
    let Some(session) = session() else { return };
    let function = "CREATE OR REPLACE FUNCTION hypotenuse(x double precision, y bigint) RETURNS double precision
                    LANGUAGE python_arrow IMMUTABLE STRICT AS
                    'return pc.sqrt(pc.add(pc.multiply(x, x), pc.multiply(y, y)))'";
    let Some(python) = python_with_arrow() else {
        eprintln!("not tested: there is no pyarrow here, nor what DILIGENCE_PYTHON names");
        let missing = error(&session, function);
        assert_eq!(missing.code(), Some("58P01"), "{missing}");
        assert!(missing.hint().unwrap().contains("pip install pyarrow"), "{missing}");
        return;
    };
    session.execute(&format!("SET python = '{python}'")).unwrap();
    make(&session, function);
    session.execute("CREATE TABLE t AS SELECT value AS x FROM generate_series(1, 50000) g(value)").unwrap();
    assert_eq!(rows(&session, "SELECT hypotenuse(3, 4), hypotenuse(3, NULL) IS NULL"), ["5.0 true"]);
    assert_eq!(rows(&session, "SELECT round(sum(hypotenuse(3 * x, 4 * x))) = 5 * sum(x) FROM t"), ["true"]);
    for (sql_type, literal) in [
        ("boolean", "true"),
        ("smallint", "-7"),
        ("bigint", "9223372036854775807"),
        ("real", "1.5"),
        ("numeric", "12345678901234567890.123450"),
        ("text", "'Grüße'"),
        ("bytea", "'\\x00ff'"),
        ("date", "'2024-02-29'"),
        ("timestamp", "'2024-02-29 12:34:56.789'"),
        ("timestamptz", "'2024-02-29 12:34:56+00'"),
        ("uuid", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"),
        ("jsonb", "'{\"a\": [1, null]}'"),
        ("integer[]", "'{1,NULL,3}'"),
        ("text[]", "'{Grüße,NULL,b}'"),
        ("double precision[]", "'{}'"),
        ("date[]", "'{2024-02-29}'"),
        ("bigint[][]", "'{{1,2},{3,NULL}}'"),
    ] {
        make(
            &session,
            &format!("CREATE FUNCTION same(v {sql_type}) RETURNS {sql_type} LANGUAGE python_arrow AS 'return v'"),
        );
        let value = format!("CAST({literal} AS {sql_type})");
        let same = rows(&session, &format!("SELECT same({value}) = {value}, same(NULL) IS NULL"));
        assert_eq!(same, ["true true"], "{sql_type}");
        session.execute(&format!("DROP FUNCTION same({sql_type})")).unwrap();
    }
    for (body, returns, expected) in [
        ("return pc.add(x, 1)", "bigint", Ok("2")),
        ("return pc.sum(x)", "bigint", Ok("1")),
        ("return [None]", "bigint", Ok("")),
        ("return pc.cast(x, pa.string())", "bigint", Ok("1")),
        ("return pc.cast(x, pa.string())", "date", Err("22007")),
        ("return pa.array([70000])", "smallint", Err("22003")),
        ("return pa.array([1, 2])", "bigint", Err("39000")),
        ("return pc.divide(x, 0)", "bigint", Err("38000")),
        ("return x.dictionary_encode()", "bigint", Ok("1")),
        ("return pc.cast(x, pa.string()).dictionary_encode()", "text", Ok("1")),
        ("return None", "bigint", Err("39000")),
        ("return pa.array([[1]])", "bigint", Err("42804")),
        ("return pa.array([[1, 2]])", "integer[]", Ok("[1, 2]")),
        ("return pa.array([[70000]])", "smallint[]", Err("22003")),
        ("return pa.array([[\"7\"]])", "integer[]", Err("42804")),
        ("return pa.array([[\"a\\0\"]])", "text[]", Err("22021")),
        ("return 1.5", "bigint", Err("39000")),
        ("return [1.5]", "bigint", Ok("2")),
    ] {
        session.execute("DROP FUNCTION IF EXISTS f(bigint)").unwrap();
        make(&session, &format!("CREATE FUNCTION f(x bigint) RETURNS {returns} LANGUAGE python_arrow AS '{body}'"));
        match expected {
            Ok(expected) => assert_eq!(rows(&session, "SELECT f(1)"), [expected], "{body}"),
            Err(code) => {
                let found = error(&session, "SELECT f(1)");
                assert_eq!(found.code(), Some(code), "{body} {returns}: {found}");
            }
        }
    }
}

#[test]
fn processes_are_started_for_functions_before_one_is_called() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let folder = Some(folder.path().join("db"));
        Database::open(DatabaseOptions { workers: Some(2), folder, ..DatabaseOptions::default() }).unwrap()
    };
    let total = "SELECT total FROM system.pool_numbers WHERE language = 'python'";
    let database = open();
    database.prime_functions().unwrap();
    assert_eq!(rows(&database.session(), total), ["0"], "there is no function");
    make(&database.session(), "CREATE FUNCTION one() RETURNS int LANGUAGE python AS 'return 1'");
    drop(database);
    let database = open();
    assert_eq!(rows(&database.session(), total), ["0"]);
    database.prime_functions().unwrap();
    database.prime_functions().unwrap();
    assert_eq!(rows(&database.session(), total), ["2"], "as many as are started at once");
    assert_eq!(rows(&database.session(), "SELECT one()"), ["1"]);
}
