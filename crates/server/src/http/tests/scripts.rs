//! Scripts that are one transaction, alone and with others beside them.

use futures::future::join_all;
use serde_json::json;

use super::Door;

const ADDS: &str = "-- endpoint: POST /add\n-- isolation: serializable\nSELECT n FROM counter;\n\
                    UPDATE counter SET n = (SELECT n FROM counter) + 1 RETURNING n";

/// Two rows in an order that the caller chooses.
const MOVES: &str = "-- endpoint: POST /move\n-- param: from integer\n-- param: to integer\n\
                     UPDATE accounts SET money = money - 1 WHERE id = $from;\n\
                     UPDATE accounts SET money = money + 1 WHERE id = $to";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_that_meet_are_run_again() {
    let door = Door::open(true, &[("add.sql", ADDS), ("move.sql", MOVES)], None).await;
    door.run(&["CREATE TABLE counter AS SELECT 0::bigint AS n"]);
    door.run(&["CREATE TABLE accounts AS SELECT i AS id, 100::bigint AS money FROM generate_series(1, 2) AS s(i)"]);
    let added = join_all((0..4).map(async |_| {
        let mut added = Vec::new();
        for _ in 0..5 {
            let answer = door.send("POST /add", "").await;
            match answer.status {
                200 => added.push(answer.rows()[0][0].as_i64().unwrap()),
                _ => assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")), "{answer:?}"),
            }
        }
        added
    }));
    let mut added = added.await.concat();
    added.sort_unstable();
    assert!(added.len() >= 4, "one comes through each time");
    assert_eq!(added, (1..=added.len() as i64).collect::<Vec<_>>(), "each saw what the others had done");
    // They lock the rows in different orders, and wait for each other.
    let moves = join_all((0..4).map(async |place| {
        let body = if place % 2 == 0 { r#"{"from": 1, "to": 2}"# } else { r#"{"from": 2, "to": 1}"# };
        let mut done = 0;
        for _ in 0..5 {
            let answer = door.send("POST /move", body).await;
            assert!(matches!(answer.status, 200 | 503), "{answer:?}");
            done += i64::from(answer.status == 200);
        }
        if place % 2 == 0 { done } else { -done }
    }));
    let moved: i64 = moves.await.iter().sum();
    let answer = door.send("POST /v1/sql", r#"{"sql": "SELECT money FROM accounts ORDER BY id"}"#).await;
    assert_eq!(answer.rows(), json!([[100 - moved], [100 + moved]]));
    door.close().await;
}

#[tokio::test]
async fn a_script_over_sql_is_one_transaction_if_it_says_so() {
    for is_kept in [false, true] {
        let door = Door::open(is_kept, &[], None).await;
        door.run(&["CREATE TABLE t (a BIGINT PRIMARY KEY, b TEXT)"]);
        let count =
            async || door.send("POST /v1/sql", r#"{"sql": "SELECT count(*) FROM t"}"#).await.rows()[0][0].clone();
        let script = r#"{"sql": "INSERT INTO t VALUES ($1, $2); UPDATE t SET b = b || $2; SELECT a, b FROM t",
                         "parameters": [1, "x"], "transaction": true}"#;
        let answer = door.send("POST /v1/sql", script).await;
        assert_eq!((answer.status, answer.rows()), (200, json!([[1, "xx"]])), "{answer:?}");
        // The first statement goes with the last.
        let again = r#"{"sql": "INSERT INTO t VALUES (2, 'y'); INSERT INTO t VALUES (1, 'z')",
                        "transaction": "repeatable read"}"#;
        let answer = door.send("POST /v1/sql", again).await;
        assert_eq!((answer.status, answer.code()), (409, "23505".to_owned()), "{answer:?}");
        assert_eq!(count().await, json!(1));
        let sql = ("Content-Type", "application/sql");
        let csv = ("Accept", "text/csv");
        let script =
            "INSERT INTO t VALUES (2, NULL), (3, 'y'); DELETE FROM t WHERE a = 1 RETURNING a; SET timezone = 'UTC'";
        let answer = door.ask("POST /v1/sql", &[sql, csv, ("Diligence-Transaction", "true")], script).await;
        assert_eq!((answer.status, answer.body.as_str()), (200, "a\n1\n"));
        let answer = door.ask("POST /v1/sql", &[sql, ("Diligence-Transaction", "serializable")], "DELETE FROM t").await;
        assert_eq!(answer.json(), json!({ "command": "DELETE", "rows": 2 }));
        door.close().await;
    }
}

#[tokio::test]
async fn what_is_no_transaction_is_told() {
    let door = Door::open(false, &[], None).await;
    door.run(&["CREATE TABLE t (a BIGINT)"]);
    let sql = ("Content-Type", "application/sql");
    let header = |value| vec![sql, ("Diligence-Transaction", value)];
    for (headers, script, status, code) in [
        (vec![sql], "INSERT INTO t VALUES (1); SELECT 1", 400, "42000"),
        (header("chaos"), "SELECT 1", 400, "22023"),
        (header("false"), "SELECT 1; SELECT 2", 400, "42000"),
        (header("true"), "", 400, "42601"),
        (header("true"), "INSERT INTO t VALUES (1); COMMIT", 501, "0A000"),
        (header("true"), "BEGIN; INSERT INTO t VALUES (1)", 501, "0A000"),
        (header("true"), "INSERT INTO t VALUES (1); SELECT $1", 400, "08P01"),
        (header("true"), "INSERT INTO t VALUES (1); SELECT 1 / (a - 1) FROM t", 400, "22012"),
        (header("true"), "INSERT INTO t VALUES (1); SELECT nonsense", 400, "42703"),
        (
            header("true"),
            "INSERT INTO t VALUES (1); SELECT repeat('x', 1000) FROM generate_series(1, 20000)",
            400,
            "54000",
        ),
    ] {
        let answer = door.ask("POST /v1/sql", &headers, script).await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{script} {answer:?}");
    }
    let both = r#"{"sql": "SELECT 1", "transaction": true}"#;
    let json = ("Content-Type", "application/json");
    let answer = door.ask("POST /v1/sql", &[json, ("Diligence-Transaction", "true")], both).await;
    assert_eq!((answer.status, answer.code().as_str()), (400, "22023"));
    let answer = door.ask("POST /v1/sql", &[sql], "SELECT count(*) FROM t").await;
    assert_eq!(answer.rows(), json!([[0]]), "nothing was left");
    door.close().await;
}
