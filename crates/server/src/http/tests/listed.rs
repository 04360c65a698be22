//! The server's tables, and what docs say of them.

use super::Door;

#[tokio::test]
async fn every_column_of_the_server_s_tables_is_documented() {
    const DOCUMENT: &str = include_str!("../../../../../docs/sql.md");
    let door = Door::open(false, &[], None).await;
    for (table, least) in [("server", 10), ("sessions", 7)] {
        let sql = format!(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = 'system' AND table_name = '{table}'"
        );
        let answer = door.send("POST /v1/sql", &format!("{{\"sql\": \"{sql}\"}}")).await;
        let rows = answer.rows();
        let columns = rows.as_array().unwrap();
        assert!(columns.len() >= least, "{columns:?}");
        let start = format!("| `system.{table}` | ");
        let line = DOCUMENT.lines().find(|line| line.starts_with(&start)).unwrap_or_else(|| panic!("no line {start}"));
        for column in columns {
            let name = format!("`{}`", column[0].as_str().unwrap());
            assert!(line.contains(&name), "docs/sql.md: say what {name} of system.{table} is");
        }
    }
    door.close().await;
}
