//! What docs say of the system tables is what the tables have.

use crate::test_sessions::rows;
use crate::{Database, DatabaseOptions};

const SQL: &str = include_str!("../../../docs/sql.md");
/// Pages that rows of the list lead to, by the links.
const PAGES: [(&str, &str); 3] = [
    ("](databases.md", include_str!("../../../docs/databases.md")),
    ("](sharing.md", include_str!("../../../docs/sharing.md")),
    ("](#tuning)", SQL),
];

/// The rows of the documented lists that are about a table.
fn lines(table: &str) -> Vec<&'static str> {
    let name = format!("`system.{table}`");
    let names = |line: &&str| line.starts_with("| `system.") && line.split(" | ").next().unwrap_or("").contains(&name);
    SQL.lines().filter(names).collect()
}

#[test]
fn every_column_of_a_system_table_is_documented_and_there() {
    let session = Database::open(DatabaseOptions { workers: Some(1), ..DatabaseOptions::default() }).unwrap().session();
    let columns = |table: &str| {
        let sql = format!(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = 'system' AND table_name = '{table}'"
        );
        rows(&session, &sql)
    };
    let tables = rows(&session, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'system'");
    assert!(tables.len() > 20, "{tables:?}");
    for table in &tables {
        let lines = lines(table);
        assert!(lines.len() >= 2 || table == "latches", "docs/sql.md: list system.{table} and its columns");
        let pages =
            PAGES.iter().filter(|(link, _)| lines.iter().any(|line| line.contains(link))).map(|(_, page)| *page);
        let told = lines.iter().copied().chain(pages).collect::<Vec<_>>().join("\n");
        let columns = columns(table);
        for column in &columns {
            assert!(told.contains(&format!("`{column}`")), "docs/sql.md: say what {column} of system.{table} is");
        }
        // Words that can only be columns are columns.
        let words = lines.iter().flat_map(|line| line.split('`').skip(1).step_by(2));
        let ends = ["_total", "_us", "_ms", "_bytes"];
        for word in words.filter(|word| ends.iter().any(|end| word.ends_with(end))) {
            assert!(
                columns.iter().any(|column| column == word) || word.starts_with('_'),
                "docs/sql.md: {word} of system.{table}"
            );
        }
    }
}
