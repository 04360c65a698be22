//! Statements that differ in constants only, as a client sees them.

use super::tests::{connect, said, serve};

#[tokio::test]
async fn statements_that_differ_in_constants_answer_as_each_by_itself() {
    let (server, address) = serve().await;
    let (mut ann, mut bob) = (connect(&address).await, connect(&address).await);
    said(
        &mut ann,
        "CREATE TABLE t (k bigint PRIMARY KEY, s smallint, r real, d date, x text, b boolean, n numeric(6, 2));
         INSERT INTO t SELECT g, g, g, date '2026-01-01' + g, 'x' || g, g % 2 = 0, g FROM generate_series(1, 50) g;
         CREATE TABLE u (x text PRIMARY KEY, v bigint); INSERT INTO u SELECT 'k' || g, g FROM generate_series(1, 50) g",
    )
    .await;
    // Behind a comment, a text is planned with its constants.
    for (one, others) in [
        ("SELECT * FROM t WHERE k = 1", &["SELECT * FROM t WHERE k = 2", "SELECT * FROM t WHERE k = -7"][..]),
        ("SELECT x FROM t WHERE k = 3", &["SELECT x FROM t WHERE k = 3000000000", "SELECT x FROM t WHERE k = 'seven'"]),
        ("SELECT x, s + 1 FROM t WHERE k = 3", &["SELECT x, s + 2 FROM t WHERE k = 4"]),
        ("SELECT v FROM u WHERE x = 'k1'", &["SELECT v FROM u WHERE x = 'k''2'", "SELECT v FROM u WHERE x = 'k3'"]),
        ("SELECT v FROM u WHERE x = 1", &["SELECT v FROM u WHERE x = 2"]),
        ("SELECT b FROM t WHERE k = 1 AND r = 1", &["SELECT b FROM t WHERE k = 2 AND r = 3"]),
        ("SELECT b FROM t WHERE k = 1 AND d = '2026-01-02'", &["SELECT b FROM t WHERE k = 2 AND d = 'soon'"]),
    ] {
        for text in [one, one].into_iter().chain(others.iter().copied()).chain([one]) {
            let alone = said(&mut bob, &format!("{text} -- alone")).await;
            assert_eq!(said(&mut ann, text).await, alone, "{text}");
        }
    }
    for number in 51..60 {
        let inserted = format!("INSERT INTO t VALUES ({number}, 1, 2, '2026-05-05', 'it''s {number}', 't', 1)");
        assert_eq!(said(&mut ann, &inserted).await, ["C INSERT 0 1", "Z I"]);
        assert_eq!(said(&mut ann, &inserted).await, ["E ERROR 23505", "Z I"]);
        let updated = format!("UPDATE t SET s = s + {number}, n = -{number} WHERE k = {number}");
        assert_eq!(said(&mut ann, &updated).await, ["C UPDATE 1", "Z I"]);
    }
    let wrong = said(&mut ann, "INSERT INTO t VALUES (99, 70000, 2, '2026-05-05', 'x', 't', 1)").await;
    assert_eq!(wrong, ["E ERROR 22003", "Z I"]);
    let rows = said(&mut bob, "SELECT count(*), sum(s), sum(n), min(x) FROM t WHERE k > 50").await;
    assert_eq!(rows[1], "D 9,504,-495.00,it's 51");
    assert!(server.execution().plan_cache().info().hits_total > 20);
    // Within a block, and rolled back.
    said(&mut ann, "BEGIN").await;
    for number in 51..55 {
        assert_eq!(said(&mut ann, &format!("DELETE FROM t WHERE k = {number}")).await, ["C DELETE 1", "Z T"]);
    }
    said(&mut ann, "ROLLBACK").await;
    assert_eq!(said(&mut ann, "SELECT x FROM t WHERE k = 53").await, ["T x:25", "D it's 53", "C SELECT 1", "Z I"]);
}

#[tokio::test]
async fn a_change_of_a_table_changes_what_constants_are() {
    let (_server, address) = serve().await;
    let (mut ann, mut bob) = (connect(&address).await, connect(&address).await);
    let make = async |bob: &mut diligence_client::Connection, ty: &str, value: &str| {
        let script =
            format!("DROP TABLE IF EXISTS t; CREATE TABLE t (k {ty} PRIMARY KEY); INSERT INTO t VALUES ({value})");
        bob.simple(&script).await.unwrap();
    };
    for (ty, value, oid) in [("bigint", "7", 20), ("text", "'7'", 25), ("date", "'2026-01-07'", 1082), ("int", "7", 23)]
    {
        make(&mut bob, ty, value).await;
        for text in ["SELECT * FROM t WHERE k = '7'", "SELECT * FROM t WHERE k = '8'"].repeat(3) {
            let alone = said(&mut bob, &format!("{text} -- alone")).await;
            assert_eq!(said(&mut ann, text).await, alone, "{ty}: {text}");
            assert!(ty == "date" || alone[0] == format!("T k:{oid}"), "{alone:?}");
        }
    }
    said(&mut bob, "ALTER TABLE t ADD COLUMN more int DEFAULT 3").await;
    assert_eq!(said(&mut ann, "SELECT * FROM t WHERE k = '7'").await[1], "D 7,3");
}
