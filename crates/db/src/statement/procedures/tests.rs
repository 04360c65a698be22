//! Triggers whose functions run statements: many within each other, of many sessions, and ended from outside.

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;

use crate::{Database, Session};

const NEXT: &str = "CREATE FUNCTION next() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF NEW.depth < 30 THEN INSERT INTO t VALUES (NEW.id, NEW.depth + 1); END IF;
    RETURN NULL;
END $$";

fn run(session: &Session, statements: &[&str]) {
    for statement in statements {
        let result = session.execute(statement).and_then(|result| result.collect());
        result.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

fn one(session: &Session, sql: &str) -> i64 {
    let rows = session.execute(sql).unwrap().collect().unwrap();
    rows[0].column(0).as_primitive::<Int64Type>().value(0)
}

fn error(session: &Session, sql: &str) -> diligence_base::Error {
    session.execute(sql).and_then(|result| result.collect()).map(|_| ()).unwrap_err()
}

/// A database with a table whose trigger goes deeper with each row.
fn nesting() -> Database {
    let database = Database::in_memory().unwrap();
    let trigger = "CREATE TRIGGER next AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION next()";
    run(&database.session(), &["CREATE TABLE t (id INTEGER, depth INTEGER)", NEXT, trigger]);
    database
}

#[test]
fn triggers_of_many_sessions_nest_deeper_than_there_are_threads() {
    let database = nesting();
    std::thread::scope(|scope| {
        for id in 0..8 {
            let session = database.session();
            scope.spawn(move || run(&session, &[&format!("INSERT INTO t VALUES ({id}, 1), ({id}, 25)")]));
        }
    });
    let session = database.session();
    assert_eq!(one(&session, "SELECT count(*) FROM t"), 8 * (30 + 6));
    assert_eq!(one(&session, "SELECT count(*) FROM t WHERE depth = 30"), 8 * 2);
}

#[test]
fn a_statement_that_is_cancelled_leaves_nothing_of_its_triggers() {
    let database = nesting();
    // Others see by its lock that it has begun.
    let slow = "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        PERFORM pg_advisory_xact_lock(1);
        FOR i IN 1..1000000 LOOP INSERT INTO log VALUES (i); PERFORM pg_sleep(0.005); END LOOP;
        RETURN NULL;
    END $$";
    let trigger = "CREATE TRIGGER slow AFTER INSERT ON t FOR EACH ROW WHEN (NEW.depth = 30) EXECUTE FUNCTION slow()";
    let session = database.session();
    run(&session, &["CREATE TABLE log (i INTEGER)", slow, trigger]);
    for depth in [30, 20] {
        let result = session.start(&format!("INSERT INTO t VALUES (1, {depth})")).unwrap();
        let (token, watching) = (result.cancel_token(), database.session());
        let canceller = std::thread::spawn(move || {
            while one(&watching, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0 {}
            token.cancel();
        });
        assert_eq!(result.collect().unwrap_err().kind(), diligence_base::ErrorKind::Cancelled);
        canceller.join().unwrap();
        // At once: nothing of it goes on.
        assert_eq!((one(&session, "SELECT count(*) FROM t"), one(&session, "SELECT count(*) FROM log")), (0, 0));
        run(&session, &["INSERT INTO log VALUES (7)", "DELETE FROM log"]);
    }
    run(&session, &["DROP TRIGGER slow ON t", "INSERT INTO t VALUES (1, 25)"]);
    assert_eq!(one(&session, "SELECT count(*) FROM t"), 6);
}

#[test]
fn triggers_that_nest_without_end_fail_and_others_go_on() {
    let database = nesting();
    let session = database.session();
    let again = "CREATE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO t VALUES (NEW.id, 1); RETURN NULL;
    END $$";
    run(&session, &[again, "CREATE TRIGGER again AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION again()"]);
    assert_eq!(error(&session, "INSERT INTO t VALUES (1, 30)").code(), Some("54001"));
    run(&session, &["DROP TRIGGER again ON t", "INSERT INTO t VALUES (1, 25)"]);
    assert_eq!(one(&session, "SELECT count(*) FROM t"), 6);
}

#[test]
fn statements_of_one_session_that_call_procedures_take_turns() {
    let database = Database::in_memory().unwrap();
    let session = database.session();
    let moment = "CREATE FUNCTION moment(n INTEGER) RETURNS bigint LANGUAGE plpgsql AS $$ DECLARE began timestamptz := now(); BEGIN
        FOR i IN 1..n LOOP INSERT INTO log VALUES (i); PERFORM pg_sleep(0.002); END LOOP;
        IF n = 7 THEN RAISE EXCEPTION 'seven'; END IF;
        RETURN CASE WHEN now() = began THEN n ELSE -1 END;
    END $$";
    run(&session, &["CREATE TABLE log (i INTEGER)", moment]);
    let started = (1..=8).map(|n| session.start(&format!("SELECT moment({n})")).unwrap()).collect::<Vec<_>>();
    let mut given = started
        .into_iter()
        .map(|result| result.collect().map(|rows| rows[0].column(0).as_primitive::<Int64Type>().value(0)));
    for n in 1..=8 {
        let given = given.next().unwrap();
        if n == 7 { assert_eq!(given.unwrap_err().code(), Some("P0001")) } else { assert_eq!(given.unwrap(), n) }
    }
    // Each was committed by itself, but the one that failed.
    assert_eq!(one(&session, "SELECT count(*) FROM log"), (1..=8).filter(|n| *n != 7).sum::<i64>());
}
