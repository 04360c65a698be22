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
