//! Statements that are sent together, as a client sees them.

use diligence_client::{Connection, message};

use super::tests::{connect, said, serve, told};

/// The values that the table has, in their order.
async fn there(connection: &mut Connection) -> String {
    said(connection, "SELECT string_agg(a::text, ',' ORDER BY a) FROM t").await[1].clone()
}

/// Executes statements one after the other, with one Sync behind them all.
async fn together(connection: &mut Connection, statements: &[&str]) -> Vec<String> {
    let mut messages = Vec::new();
    for sql in statements {
        message::parse(&mut messages, "", sql);
        message::bind(&mut messages, "", &[], false);
        message::execute(&mut messages, 0);
    }
    message::sync(&mut messages);
    told(connection, &messages).await.into_iter().filter(|said| !["1", "2"].contains(&said.as_str())).collect()
}

#[tokio::test]
async fn a_script_is_one_transaction() {
    let (_server, address) = serve().await;
    let (mut ann, mut bob) = (connect(&address).await, connect(&address).await);
    let made = "CREATE TABLE t (a INT PRIMARY KEY); INSERT INTO t VALUES (1); SELECT a FROM t";
    let tags = ["C CREATE TABLE", "C INSERT 0 1", "T a:23", "D 1", "C SELECT 1", "Z I"];
    assert_eq!(said(&mut ann, made).await, tags);
    // (a script, its answers, what the table has then)
    for (script, answers, values) in [
        (
            "INSERT INTO t VALUES (2); SELECT 1 / 0",
            &["C INSERT 0 1", "T ?column?:23", "E ERROR 22012", "Z I"][..],
            "D 1",
        ),
        ("INSERT INTO t VALUES (2); INSERT INTO t VALUES (1)", &["C INSERT 0 1", "E ERROR 23505", "Z I"], "D 1"),
        ("INSERT INTO t VALUES (2); SAVEPOINT s", &["C INSERT 0 1", "E ERROR 25P01", "Z I"], "D 1"),
        ("INSERT INTO t VALUES (2); COMMIT AND CHAIN", &["C INSERT 0 1", "E ERROR 25P01", "Z I"], "D 1"),
        ("INSERT INTO t VALUES (2); VACUUM t", &["C INSERT 0 1", "E ERROR 25001", "Z I"], "D 1"),
        ("VACUUM t; INSERT INTO t VALUES (2)", &["C VACUUM", "C INSERT 0 1", "Z I"], "D 1,2"),
        // COMMIT and ROLLBACK are of what was before them.
        (
            "INSERT INTO t VALUES (3); COMMIT; INSERT INTO t VALUES (4); SELECT 1 / 0",
            &["C INSERT 0 1", "N WARNING 25P01", "C COMMIT", "C INSERT 0 1", "T ?column?:23", "E ERROR 22012", "Z I"],
            "D 1,2,3",
        ),
        (
            "INSERT INTO t VALUES (4); ROLLBACK; INSERT INTO t VALUES (5)",
            &["C INSERT 0 1", "N WARNING 25P01", "C ROLLBACK", "C INSERT 0 1", "Z I"],
            "D 1,2,3,5",
        ),
        // BEGIN takes in what was before it.
        (
            "DELETE FROM t WHERE a > 2; BEGIN; DELETE FROM t; ROLLBACK",
            &["C DELETE 2", "C BEGIN", "C DELETE 2", "C ROLLBACK", "Z I"],
            "D 1,2,3,5",
        ),
        ("SET LOCAL work_mem = '1MB'; DELETE FROM t WHERE a > 1", &["C SET", "C DELETE 3", "Z I"], "D 1"),
    ] {
        assert_eq!(said(&mut ann, script).await, answers, "{script}");
        assert_eq!(there(&mut bob).await, values, "{script}");
    }
    let open = said(&mut ann, "INSERT INTO t VALUES (2); BEGIN; SELECT 1 / 0").await;
    assert_eq!(open.last().unwrap(), "Z E");
    said(&mut ann, "ROLLBACK").await;
    assert_eq!(there(&mut bob).await, "D 1");
}

#[tokio::test]
async fn what_stands_before_one_sync_is_one_transaction() {
    let (_server, address) = serve().await;
    let (mut ann, mut bob) = (connect(&address).await, connect(&address).await);
    said(&mut ann, "CREATE TABLE t (a INT PRIMARY KEY)").await;
    let insert = |value: i32| format!("INSERT INTO t VALUES ({value})");
    let inserted = together(&mut ann, &[&insert(1), &insert(2)]).await;
    assert_eq!(inserted, ["C INSERT 0 1", "C INSERT 0 1", "Z I"]);
    let failed = together(&mut ann, &[&insert(3), &insert(1), &insert(4)]).await;
    assert_eq!(failed, ["C INSERT 0 1", "E ERROR 23505", "Z I"]);
    assert_eq!(there(&mut bob).await, "D 1,2");
    // BEGIN makes it a block that goes on behind Sync.
    let begun = together(&mut ann, &["BEGIN", &insert(3)]).await;
    assert_eq!(begun, ["C BEGIN", "C INSERT 0 1", "Z T"]);
    assert_eq!(there(&mut bob).await, "D 1,2");
    assert_eq!(together(&mut ann, &["COMMIT", &insert(4)]).await, ["C COMMIT", "C INSERT 0 1", "Z I"]);
    // What is checked at the end is told at Sync.
    said(&mut ann, "CREATE TABLE r (b INT REFERENCES t DEFERRABLE INITIALLY DEFERRED)").await;
    let deferred = together(&mut ann, &["INSERT INTO r VALUES (9)", &insert(5)]).await;
    assert_eq!(deferred, ["C INSERT 0 1", "C INSERT 0 1", "E ERROR 23503", "Z I"]);
    assert_eq!(together(&mut ann, &["INSERT INTO r VALUES (9)", &insert(9)]).await[2..], ["Z I"]);
    // At the end of a script its last statement is the one that fails.
    let script = said(&mut ann, "INSERT INTO r VALUES (8); SELECT 1 AS a").await;
    assert_eq!(script, ["C INSERT 0 1", "T a:23", "D 1", "E ERROR 23503", "Z I"]);
    assert_eq!(there(&mut bob).await, "D 1,2,3,4,9");
}
