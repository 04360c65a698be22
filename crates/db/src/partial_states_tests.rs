//! Aggregates whose steps and combining processes compute, through the front door. Without an interpreter, or
//! `diligence-wasm`, these tests say so and are done.

use crate::Session;
use crate::python_tests::{make, session};
use crate::test_sessions::{error, rows};

/// What calls of functions in processes there were so far.
fn calls(session: &Session) -> u64 {
    rows(session, "SELECT coalesce(sum(calls), 0)::bigint FROM system.pool")[0].parse().unwrap()
}

fn make_table(session: &Session) {
    let table = "CREATE TABLE t AS SELECT value AS x, value % 1000 AS g FROM generate_series(1, 200000) g(value)";
    session.execute(table).unwrap();
}

fn make_total(session: &Session) {
    make(
        session,
        "CREATE FUNCTION plus(s bigint, x bigint) RETURNS bigint STRICT IMMUTABLE LANGUAGE python AS 'return s + x'",
    );
    make(session, "CREATE AGGREGATE total(bigint) (SFUNC = plus, STYPE = bigint, COMBINEFUNC = plus, INITCOND = '0')");
}

/// What an aggregate `total` of bigints gives, whatever its functions are written in.
fn look_at_total(session: &Session) {
    let before = calls(session);
    assert_eq!(rows(session, "SELECT total(x), sum(x) FROM t"), ["20000100000 20000100000"]);
    let both = "SELECT count(*), count(*) FILTER (WHERE own = theirs)
                FROM (SELECT g, total(x) AS own, sum(x) AS theirs FROM t GROUP BY g) both_of_them";
    assert_eq!(rows(session, both), ["1000 1000"]);
    let made = calls(session) - before;
    assert!(made < 20_000, "{made} calls: states go to processes one by one");
    // Each row a group.
    let each =
        "SELECT count(*), sum(own)::bigint FROM (SELECT total(x) AS own FROM t WHERE x <= 50000 GROUP BY x) each";
    assert_eq!(rows(session, each), ["50000 1250025000"]);
    assert_eq!(rows(session, "SELECT total(x) FILTER (WHERE x < 3), total(NULL), count(*) FROM t"), ["3 0 200000"]);
    assert_eq!(
        rows(session, "SELECT g, total(x) FILTER (WHERE g = 1) FROM t WHERE x <= 2 GROUP BY g ORDER BY g"),
        ["1 1", "2 0"]
    );
    assert_eq!(rows(session, "SELECT total(x) FROM t WHERE false"), ["0"], "the first state");
    assert_eq!(
        rows(
            session,
            "SELECT k, (SELECT total(x) FROM t WHERE g = k AND x < 1000) FROM (VALUES (1), (5000)) o(k) ORDER BY k"
        ),
        ["1 1", "5000 0"]
    );
    assert_eq!(rows(session, "SELECT g FROM t WHERE x < 5 GROUP BY g HAVING total(x) > 3"), ["4"]);
    assert_eq!(
        rows(session, "SELECT g % 2, total(x) FROM t WHERE x <= 4 GROUP BY ROLLUP (g % 2) ORDER BY 1 NULLS LAST"),
        ["0 6", "1 4", " 10"]
    );
    // What says more than arguments and FILTER is computed of all rows of a group.
    assert_eq!(rows(session, "SELECT total(DISTINCT x % 10) FROM t WHERE x < 100"), ["45"]);
    assert_eq!(
        rows(session, "SELECT x, total(x) OVER (ORDER BY x) FROM t WHERE x < 4 ORDER BY x"),
        ["1 1", "2 3", "3 6"]
    );
    assert_eq!(error(session, "SELECT x FROM t WHERE total(x) > 1").code(), Some("42803"));
    assert_eq!(error(session, "SELECT total(total(x)) FROM t").code(), Some("42803"));
}

#[test]
fn states_of_an_aggregate_in_python_are_combined() {
    let Some(session) = session() else { return };
    make_table(&session);
    make_total(&session);
    look_at_total(&session);
    session.execute("DROP AGGREGATE total(bigint)").unwrap();
    let parts = "SFUNC = plus, STYPE = bigint, COMBINEFUNC = plus";
    let made = session.execute(&format!("CREATE AGGREGATE other_total(bigint) ({parts})")).unwrap();
    assert!(matches!(made.kind(), crate::ResultKind::Command { tag: "CREATE AGGREGATE", .. }));
    assert_eq!(error(&session, "SELECT total(x) FROM t").code(), Some("42883"));
}

#[test]
fn states_of_an_aggregate_in_a_module_are_combined() {
    let Some(database) = crate::wasm_tests::database() else { return };
    let session = database.session();
    make_table(&session);
    let number = "(param i64 i64) (result i64) (i64.add (local.get 0) (local.get 1))";
    let most = "(param i64 i64) (result i64)
      (select (local.get 0) (local.get 1) (i64.gt_s (local.get 0) (local.get 1)))";
    for (name, body) in [("plus", number), ("greater", most)] {
        let module = format!("(module (func (export \"{name}\") {body}))");
        let function =
            format!("CREATE FUNCTION {name}(s bigint, x bigint) RETURNS bigint LANGUAGE wasm IMMUTABLE AS '{module}'");
        make(&session, &function);
    }
    make(&session, "CREATE AGGREGATE total(bigint) (SFUNC = plus, STYPE = bigint, COMBINEFUNC = plus, INITCOND = '0')");
    make(&session, "CREATE AGGREGATE most(bigint) (SFUNC = greater, STYPE = bigint, COMBINEFUNC = greater)");
    look_at_total(&session);
    // Without a first state, the first value is it.
    assert_eq!(rows(&session, "SELECT most(-x), most(x) FROM t"), ["-1 200000"]);
    assert_eq!(rows(&session, "SELECT most(x) IS NULL FROM t WHERE false"), ["true"]);
}

#[test]
fn states_of_texts_and_times_in_a_module_are_combined() {
    let Some(database) = crate::wasm_tests::database() else { return };
    let session = database.session();
    make_table(&session);
    let module = include_str!("../../../wasm/examples/greater.wat").replace('\'', "''");
    for (name, sql_type, value) in [
        ("greatest_text", "text", "x::text"),
        ("latest", "timestamp", "timestamp '2024-01-01' + x * interval '7 minutes'"),
        ("latest_day", "date", "date '2024-01-01' + (x % 5000)::integer"),
    ] {
        let step = format!("greater_{name}");
        make(
            &session,
            &format!(
                "CREATE FUNCTION {step}(s {sql_type}, x {sql_type}) RETURNS {sql_type} LANGUAGE wasm IMMUTABLE STRICT
                 AS '{module}', 'greater'"
            ),
        );
        let parts = format!("SFUNC = {step}, STYPE = {sql_type}, COMBINEFUNC = {step}");
        make(&session, &format!("CREATE AGGREGATE {name}({sql_type}) ({parts})"));
        let before = calls(&session);
        let whole = format!("SELECT {name}({value}) = max({value}), {name}(NULL) IS NULL FROM t");
        assert_eq!(rows(&session, &whole), ["true true"], "{name}");
        let groups = format!(
            "SELECT count(*), count(*) FILTER (WHERE own = theirs)
             FROM (SELECT g, {name}({value}) AS own, max({value}) AS theirs FROM t GROUP BY g) both_of_them"
        );
        assert_eq!(rows(&session, &groups), ["1000 1000"], "{name}");
        let made = calls(&session) - before;
        assert!(made < 20_000, "{made} calls: states go to processes one by one");
        assert_eq!(rows(&session, &format!("SELECT {name}({value}) IS NULL FROM t WHERE false")), ["true"]);
    }
    // A first state, which groups without rows have.
    let parts = "SFUNC = greater_greatest_text, STYPE = text, COMBINEFUNC = greater_greatest_text, INITCOND = '55'";
    make(&session, &format!("CREATE AGGREGATE from_55(text) ({parts})"));
    assert_eq!(rows(&session, "SELECT from_55(x::text), from_55('9'), from_55(NULL) FROM t WHERE x < 6"), ["55 9 55"]);
}

#[test]
fn a_state_may_be_of_any_type_that_processes_take() {
    let Some(session) = session() else { return };
    make_table(&session);
    make(
        &session,
        "CREATE FUNCTION mean_step(s text, x double precision) RETURNS text LANGUAGE python IMMUTABLE STRICT AS $$
count, total = s.split()
return f'{int(count) + 1} {float(total) + x!r}'
$$",
    );
    make(
        &session,
        "CREATE FUNCTION mean_of_both(a text, b text) RETURNS text LANGUAGE python IMMUTABLE STRICT AS $$
(one, left), (other, right) = a.split(), b.split()
return f'{int(one) + int(other)} {float(left) + float(right)!r}'
$$",
    );
    make(
        &session,
        "CREATE FUNCTION mean_last(s text) RETURNS double precision LANGUAGE python IMMUTABLE STRICT AS $$
count, total = s.split()
return float(total) / int(count) if count != '0' else None
$$",
    );
    make(
        &session,
        "CREATE AGGREGATE own_mean(double precision)
         (SFUNC = mean_step, STYPE = text, COMBINEFUNC = mean_of_both, FINALFUNC = mean_last, INITCOND = '0 0')",
    );
    assert_eq!(rows(&session, "SELECT own_mean(x), own_mean(NULL) FROM t"), ["100000.5 "]);
    assert_eq!(rows(&session, "SELECT g, own_mean(x) FROM t WHERE x <= 2 GROUP BY g ORDER BY g"), ["1 1.0", "2 2.0"]);

    // In the order of the rows, with NULLs, in states that begin as NULL.
    make(
        &session,
        "CREATE FUNCTION joined(s text, x text) RETURNS text LANGUAGE python IMMUTABLE
         AS $$ return (s or '') + (x or '-') $$",
    );
    make(
        &session,
        "CREATE FUNCTION both(a text, b text) RETURNS text LANGUAGE python IMMUTABLE STRICT AS 'return a + b'",
    );
    make(&session, "CREATE AGGREGATE all_of(text) (SFUNC = joined, STYPE = text, COMBINEFUNC = both)");
    assert_eq!(rows(&session, "SELECT all_of(x) FROM (VALUES ('a'), (NULL), ('c')) v(x)"), ["a-c"]);
    assert_eq!(rows(&session, "SELECT all_of(x) IS NULL FROM (VALUES ('a')) v(x) WHERE x > 'b'"), ["true"]);

    for (sql_type, first, values, expected) in [
        ("numeric", "1.5", "(1), (2.25)", "4.75"),
        ("integer", "-5", "(1), (2)", "-2"),
        ("double precision", "Infinity", "(1), (2)", "Infinity"),
    ] {
        make(
            &session,
            &format!(
                "CREATE FUNCTION add(s {sql_type}, x {sql_type}) RETURNS {sql_type} LANGUAGE python IMMUTABLE STRICT
                      AS 'return s + x'"
            ),
        );
        make(
            &session,
            &format!(
                "CREATE AGGREGATE of_all({sql_type})
                      (SFUNC = add, STYPE = {sql_type}, COMBINEFUNC = add, INITCOND = '{first}')"
            ),
        );
        let sql = format!("SELECT of_all(x)::text FROM (VALUES {values}) v(x)");
        assert_eq!(rows(&session, &sql), [expected], "{sql_type}");
        session.execute(&format!("DROP AGGREGATE of_all({sql_type})")).unwrap();
        session.execute("DROP FUNCTION add").unwrap();
    }
}

#[test]
fn what_steps_raise_ends_the_query_alone() {
    let Some(session) = session() else { return };
    make_table(&session);
    make(
        &session,
        "CREATE FUNCTION picky(s bigint, x bigint) RETURNS bigint STRICT LANGUAGE python AS $$
if x == 150000:
    raise ValueError('not this one')
return s + x
$$",
    );
    make(&session, "CREATE FUNCTION plus(s bigint, x bigint) RETURNS bigint STRICT LANGUAGE python AS 'return s + x'");
    make(
        &session,
        "CREATE AGGREGATE total(bigint) (SFUNC = picky, STYPE = bigint, COMBINEFUNC = plus, INITCOND = '0')",
    );
    let raised = error(&session, "SELECT total(x) FROM t");
    assert_eq!((raised.message(), raised.code()), ("ValueError: not this one", Some("38000")), "{raised}");
    assert_eq!(rows(&session, "SELECT total(x) FROM t WHERE x < 10"), ["45"]);
    make(
        &session,
        "CREATE OR REPLACE FUNCTION plus(s bigint, x bigint) RETURNS bigint STRICT LANGUAGE python
         AS 'return \"no number\"'",
    );
    assert_eq!(error(&session, "SELECT total(x) FROM t WHERE x <> 150000").code(), Some("22P02"));
    let wrong = error(&session, "SELECT total(x, x) FROM t");
    assert_eq!(wrong.code(), Some("42883"), "{wrong}");
}

/// Groups that do not fit in memory: their states go to temp space and come back.
#[test]
fn states_go_to_temp_space_and_come_back() {
    let Some(session) = session() else { return };
    make_total(&session);
    session.execute("SET memory_limit = '48MB'").unwrap();
    let many = "SELECT count(*), sum(own)::bigint FROM (
                  SELECT total(value) AS own FROM generate_series(1, 600000) g(value) GROUP BY value % 300000) each";
    assert_eq!(rows(&session, many), ["300000 180000300000"]);
}
