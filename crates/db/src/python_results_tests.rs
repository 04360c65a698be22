//! What functions in Python take and give: types, rows, nothing; and what they say of their errors.

use crate::Session;
use crate::python_tests::{make, session};
use crate::test_sessions::{error, rows};

/// A function of a body.
fn made(session: &Session, declared: &str, body: &str) {
    make(session, &format!("CREATE FUNCTION {declared} LANGUAGE python AS $body$\n{body}\n$body$"));
}

#[test]
fn json_comes_back_as_it_is_in_python() {
    let Some(session) = session() else { return };
    for (place, (body, expected)) in [
        ("return {'a': [1, None, True, 1.5], 'é': 'x'}", "{\"a\": [1, null, true, 1.5], \"é\": \"x\"}"),
        ("return '[1, 2]'", "[1, 2]"),
        ("return True", "true"),
        ("return 7", "7"),
        ("return None", ""),
        ("yield 1\nyield 'a'", "[1, \"a\"]"),
        (
            "import datetime, decimal\nreturn [datetime.date(2024, 1, 2), decimal.Decimal('1.5')]",
            "[\"2024-01-02\", 1.5]",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        made(&session, &format!("j{place}() RETURNS jsonb"), body);
        assert_eq!(rows(&session, &format!("SELECT j{place}()")), [expected], "{body}");
    }
    made(&session, "no_json() RETURNS json", "return 'hello'");
    assert_eq!(error(&session, "SELECT no_json()").code(), Some("22P02"));
    // The state of an aggregate is text for the next step, wherever that is taken.
    made(&session, "add(s jsonb, x integer) RETURNS jsonb IMMUTABLE", "import json\nreturn json.loads(s) + [x]");
    made(
        &session,
        "united(a jsonb, b jsonb) RETURNS jsonb IMMUTABLE",
        "import json\nreturn json.loads(a) + json.loads(b)",
    );
    make(
        &session,
        "CREATE AGGREGATE listed(integer) (SFUNC = add, STYPE = jsonb, COMBINEFUNC = united, INITCOND = '[]')",
    );
    let sql = "SELECT jsonb_array_length(listed(x::integer)), listed(x::integer) FILTER (WHERE x = 7) FROM
               generate_series(1, 1000) AS g(x)";
    assert_eq!(rows(&session, sql), ["1000 [7]"]);
}

#[test]
fn types_without_one_in_python_are_texts() {
    let Some(session) = session() else { return };
    session.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')").unwrap();
    made(&session, "better(m mood) RETURNS mood", "return {'sad': 'ok', None: None}.get(m, 'bad')");
    assert_eq!(rows(&session, "SELECT better('sad'), better(NULL) IS NULL FROM (VALUES (1)) v"), ["ok true"]);
    let wrong = error(&session, "SELECT better('ok')");
    assert_eq!(wrong.code(), Some("22P02"), "{wrong}");
    for (place, (sql_type, value)) in [
        ("int4range", "[1,5)"),
        ("tstzrange", "empty"),
        ("inet", "10.0.0.1/8"),
        ("macaddr", "08:00:2b:01:02:03"),
        ("varbit", "1"),
        ("timetz", "10:00:00+02"),
    ]
    .into_iter()
    .enumerate()
    {
        made(
            &session,
            &format!("t{place}(x {sql_type}) RETURNS {sql_type}"),
            "assert x is None or type(x) is str\nreturn x",
        );
        let sql = format!("SELECT t{place}('{value}') = '{value}'::{sql_type}, t{place}(NULL) IS NULL");
        assert_eq!(rows(&session, &sql), ["true true"], "{sql_type}");
    }
}

#[test]
fn arrays_of_several_dimensions_go_to_parameters_of_any() {
    let Some(session) = session() else { return };
    made(&session, "shown(a integer[]) RETURNS text", "return str(a)");
    session.execute("CREATE TABLE t AS SELECT '{{1,2},{3,NULL}}'::integer[][] AS a").unwrap();
    assert_eq!(rows(&session, "SELECT shown(a), shown('{1}') FROM t"), ["[[1, 2], [3, None]] [1]"]);
}

#[test]
fn rows_may_be_those_of_a_type_or_of_a_table() {
    let Some(session) = session() else { return };
    session.execute("CREATE TYPE point_named AS (x integer, name text)").unwrap();
    session.execute("CREATE TABLE t (k integer, v numeric(4, 1))").unwrap();
    session.execute("INSERT INTO t VALUES (1, 2.5)").unwrap();
    made(&session, "points(n integer) RETURNS SETOF point_named", "return [(i, str(i)) for i in range(n)]");
    assert_eq!(rows(&session, "SELECT x, name FROM points(2) ORDER BY x"), ["0 0", "1 1"]);
    assert_eq!(rows(&session, "SELECT (points(2)).x ORDER BY 1"), ["0", "1"]);
    made(&session, "like_t() RETURNS SETOF t", "yield {'k': 3, 'v': '1.25'}");
    assert_eq!(rows(&session, "SELECT k, v FROM like_t()"), ["3 1.3"]);
    made(&session, "doubled(r t) RETURNS numeric", "return r['v'] * 2");
    assert_eq!(rows(&session, "SELECT doubled(t) = 5 FROM t"), ["true"]);
    let side_by_side =
        "SELECT x, name, f.n FROM ROWS FROM (points(2), generate_series(5, 7)) AS f(x, name, n) ORDER BY n";
    assert_eq!(rows(&session, side_by_side), ["0 0 5", "1 1 6", "  7"]);
    made(&session, "any_rows() RETURNS SETOF record", "return [(1, 'a')]");
    assert_eq!(rows(&session, "SELECT a, b FROM any_rows() AS t(a integer, b text)"), ["1 a"]);
    assert_eq!(error(&session, "SELECT any_rows()").code(), Some("0A000"));
    assert_eq!(
        error(&session, "CREATE FUNCTION f() RETURNS SETOF absent LANGUAGE python AS 'x'").code(),
        Some("42704")
    );
}

#[test]
fn a_function_gives_a_row_by_its_out_parameters_or_nothing() {
    let Some(session) = session() else { return };
    made(&session, "parts(a integer, OUT half integer, OUT is_odd boolean)", "return a // 2, a % 2 == 1");
    assert_eq!(rows(&session, "SELECT half, is_odd FROM parts(7)"), ["3 true"]);
    assert_eq!(rows(&session, "SELECT (parts(a)).half FROM (VALUES (8)) AS v(a)"), ["4"]);
    made(&session, "says(a integer) RETURNS void", "print('it is', a)");
    let mut result = session.execute("SELECT says(7), 1 AS one").unwrap();
    let mut count = 0;
    while let Some(batch) = result.next_blocking() {
        count += batch.unwrap().num_rows();
    }
    assert_eq!(count, 1);
    let procedure = error(&session, "CREATE PROCEDURE p() LANGUAGE python AS 'print(1)'");
    assert!(procedure.code() == Some("0A000") && procedure.hint().unwrap().contains("void"), "{procedure}");
}

#[test]
fn errors_say_what_the_function_says_of_them() {
    let Some(session) = session() else { return };
    let body = "plpy.error('no good', detail='It is odd.', hint='Add one.', sqlstate='MY001')";
    made(&session, "own_error(x integer) RETURNS integer", body);
    let own = error(&session, "SELECT own_error(1)");
    assert_eq!((own.message(), own.code(), own.hint()), ("plpy.Error: no good", Some("MY001"), Some("Add one.")));
    assert_eq!(own.detail(), Some(format!("It is odd.\nfunction own_error, line 2: {body}").as_str()));
    for (declared, body, hint) in [
        ("b() RETURNS bytea", "return 'text'", "encode()"),
        ("g() RETURNS integer", "yield 1", "RETURNS SETOF"),
        ("r() RETURNS TABLE (x integer)", "return 5", "yield each row"),
        ("s() RETURNS integer", "return plpy.execute('SELECT 1')", "pass them as arguments"),
    ] {
        made(&session, declared, body);
        let name = declared.split('(').next().unwrap();
        let wrong = error(&session, &format!("SELECT * FROM {name}()"));
        assert!(wrong.hint().is_some_and(|given| given.contains(hint)), "{declared}: {wrong:?}");
    }
    made(&session, "w(x integer) RETURNS integer", "return 'no number'");
    let wrong = error(&session, "SELECT w(1)");
    assert_eq!((wrong.code(), wrong.detail()), (Some("22P02"), Some("function w")));
    // What calls itself without an end is told in some lines.
    made(&session, "deep() RETURNS integer", "def f(n):\n    return f(n + 1)\nreturn f(0)");
    let deep = error(&session, "SELECT deep()");
    let lines = deep.detail().unwrap().lines().count();
    assert!(deep.message().starts_with("RecursionError") && lines < 30, "{lines} lines");
}

#[test]
fn the_examples_of_the_docs_work() {
    const PAGE: &str = include_str!("../../../docs/functions.md");
    let Some(session) = session() else { return };
    for needed in [
        "CREATE TABLE titles AS SELECT * FROM (VALUES (1, 'Über den Wolken'), (2, 'b')) AS v(id, title)",
        "CREATE TABLE measured (station text, degrees double precision)",
        "INSERT INTO measured VALUES ('a', 1), ('a', 2), ('b', NULL)",
        "CREATE ROLE analyst",
    ] {
        session.execute(needed).unwrap();
    }
    // Those of pyarrow and of modules need what may not be there.
    let needs_more = |text: &str| ["python_arrow", "LANGUAGE wasm", "most("].iter().any(|other| text.contains(other));
    let blocks = PAGE.split("```sql\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let mut done = 0;
    for statement in blocks.flat_map(|block| Session::split(block).unwrap()) {
        if needs_more(&statement) {
            continue;
        }
        let ran = session.execute(&statement).and_then(|result| result.collect());
        ran.unwrap_or_else(|error| panic!("docs/functions.md: {statement}: {error}"));
        done += 1;
    }
    assert!(done > 15, "{done} statements");
    assert_eq!(rows(&session, "SELECT slug('Über den Wolken')"), ["uber-den-wolken"]);
    assert_eq!(
        rows(&session, "SELECT id, word FROM titles, words(title) WHERE place = 1 ORDER BY 1"),
        ["1 Über", "2 b"]
    );
}
