//! What statements say beside their rows, in each form of an answer.

use serde_json::json;

use super::Door;

const LOUD: &str = "CREATE FUNCTION loud(x bigint) RETURNS bigint LANGUAGE plpgsql AS $$
    BEGIN RAISE NOTICE 'saw %', x; IF x < 0 THEN RAISE EXCEPTION 'below 0'; END IF; RETURN x; END $$";

#[tokio::test]
async fn answers_have_what_was_said() {
    let door =
        Door::open(false, &[("loud.sql", "-- endpoint: POST /loud\nINSERT INTO t VALUES (5) RETURNING loud(a)")], None)
            .await;
    door.run(&[LOUD, "CREATE TABLE t (a BIGINT)"]);
    let said =
        |text: &str| json!([{ "severity": "NOTICE", "code": "00000", "message": text, "detail": null, "hint": null }]);
    let sql = ("Content-Type", "application/sql");
    let rows = door.ask("POST /v1/sql", &[sql], "SELECT loud(3)").await;
    assert_eq!((rows.rows(), &rows.json()["notices"]), (json!([[3]]), &said("saw 3")), "{rows:?}");
    assert_eq!(rows.header("diligence-notices"), None, "the body has them");
    let command = door.ask("POST /v1/sql", &[sql], "DROP TABLE IF EXISTS nothing").await.json();
    assert_eq!(command["notices"][0]["message"], "table \"nothing\" does not exist, skipping", "{command}");
    let set = door.ask("POST /v1/sql", &[sql], "SET timezone = 'UTC'").await.json();
    assert_eq!((&set["command"], &set["notices"][0]["severity"]), (&json!("SET"), &json!("WARNING")), "{set}");
    let quiet = door.ask("POST /v1/sql", &[sql], "SELECT 1").await;
    assert!(quiet.json().get("notices").is_none() && quiet.header("diligence-notices").is_none(), "{quiet:?}");
    let in_header = json!([{ "severity": "NOTICE", "code": "00000", "message": "saw 4" }]);
    for accept in ["text/csv", "application/x-ndjson"] {
        let answer = door.ask("POST /v1/sql", &[sql, ("Accept", accept)], "SELECT loud(4) AS x").await;
        let header = answer.header("diligence-notices").unwrap_or_else(|| panic!("{answer:?}"));
        assert_eq!(serde_json::from_str::<serde_json::Value>(header).unwrap(), in_header);
        assert!(answer.body.ends_with(if accept == "text/csv" { "x\n4\n" } else { "{\"x\":4}\n" }), "{answer:?}");
    }
    let failed = door.ask("POST /v1/sql", &[sql], "SELECT loud(-1)").await;
    assert_eq!(failed.code(), "P0001", "{failed:?}");
    assert!(failed.header("diligence-notices").is_some_and(|header| header.contains("saw -1")), "{failed:?}");
    let script = r#"{"sql": "DROP TABLE IF EXISTS nothing; SELECT loud(6)", "transaction": true}"#;
    let script = door.send("POST /v1/sql", script).await.json();
    let texts = script["notices"].as_array().unwrap().iter().map(|notice| notice["message"].clone());
    assert_eq!(texts.collect::<Vec<_>>(), ["table \"nothing\" does not exist, skipping", "saw 6"], "{script}");
    let endpoint = door.ask("POST /loud", &[("Content-Type", "application/json"), ("Accept", "text/csv")], "").await;
    assert!(endpoint.header("diligence-notices").is_some_and(|header| header.contains("saw 5")), "{endpoint:?}");
    door.close().await;
}
