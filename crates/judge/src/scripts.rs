//! Statements of sqllogictest scripts: those of `tests/slt`, and SQLite's corpus. What the scripts expect does not
//! count; PostgreSQL is asked.

use std::path::{Path, PathBuf};

use diligence_base::{Error, Result};
use sqllogictest::{Condition, DefaultColumnType, Record, SortMode};

use crate::findings::Findings;
use crate::order::RowOrder;
use crate::shrink::is_query;
use crate::sides::Sides;
use crate::tokens::{self, Node};

/// What the judge is called in `skipif` and `onlyif`.
const LABELS: [&str; 2] = ["postgresql", "pgwire"];

/// Statements whose answers are about a server rather than about data.
const LEFT_OUT: [&str; 8] = ["EXPLAIN", "SHOW", "COPY", "DESCRIBE", "ANALYZE", "VACUUM", "REINDEX", "PRAGMA"];

/// What makes an answer depend on the time, on chance or on the server.
const UNDECIDED: [&str; 11] = [
    "random",
    "uuid(",
    "now(",
    "current_",
    "version(",
    "clock_timestamp",
    "pg_",
    "information_schema",
    "system.",
    "localtime",
    "ctid",
];

/// The dialect of scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptDialect {
    /// Ours: `nosort` says that ORDER BY decides the order of all rows.
    Ours,
    /// SQLite's: `nosort` says nothing.
    Sqlite,
}

/// Judges all scripts with an ending below a folder whose path contains `part`.
///
/// Fails with kind `Input` if a script cannot be read, and with kind `Resource` if a server is lost and does not come
/// back.
pub fn run(
    sides: &mut Sides,
    findings: &mut Findings,
    root: &Path,
    part: &str,
    dialect: ScriptDialect,
    progress: &mut dyn FnMut(&str),
) -> Result<()> {
    let ending = if dialect == ScriptDialect::Ours { "slt" } else { "test" };
    let mut paths = Vec::new();
    collect(root, ending, &mut paths)?;
    paths.sort();
    for path in paths {
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        if name.contains(part) {
            progress(&name);
            run_script(sides, findings, &path, &name, dialect)?;
        }
    }
    Ok(())
}

fn collect(folder: &Path, ending: &str, paths: &mut Vec<PathBuf>) -> Result<()> {
    let failed = |error: std::io::Error| Error::input(format!("{}: {error}", folder.display()));
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            collect(&path, ending, paths)?;
        } else if path.extension().is_some_and(|extension| extension == ending) {
            paths.push(path);
        }
    }
    Ok(())
}

fn run_script(
    sides: &mut Sides,
    findings: &mut Findings,
    path: &Path,
    name: &str,
    dialect: ScriptDialect,
) -> Result<()> {
    let text = std::fs::read_to_string(path).map_err(|error| Error::input(format!("{name}: {error}")))?;
    let text = text.lines().map(plain_line).collect::<Vec<_>>().join("\n");
    let records = sqllogictest::parse_with_name::<DefaultColumnType>(&text, name.to_owned());
    let records = records.map_err(|error| Error::input(format!("{name}: {error}")))?;
    let mut made = Vec::new();
    for record in records {
        match record {
            Record::Halt { .. } => break,
            Record::Statement { sql, conditions, loc, .. } => {
                if is_left_out(&sql, &conditions) {
                    findings.leave_out();
                    continue;
                }
                for statement in in_postgres_words(&sql) {
                    if is_query(&statement) {
                        // A statement that must fail.
                        findings.judge(sides, &statement, &RowOrder::of(&statement), &loc.to_string())?;
                    } else {
                        findings.prepare(sides, &statement, &loc.to_string())?;
                        made.push(statement);
                    }
                }
            }
            Record::Query { sql, conditions, expected, loc, .. } => {
                if is_left_out(&sql, &conditions) {
                    findings.leave_out();
                    continue;
                }
                let is_sorted = matches!(
                    expected,
                    sqllogictest::QueryExpect::Results { sort_mode: Some(SortMode::RowSort | SortMode::ValueSort), .. }
                );
                let order = match dialect {
                    ScriptDialect::Ours if !is_sorted && sql.to_ascii_lowercase().contains("order by") => {
                        RowOrder::Total
                    }
                    _ => RowOrder::of(&sql),
                };
                if is_query(&sql) {
                    findings.judge(sides, &sql, &order, &loc.to_string())?;
                } else {
                    findings.prepare(sides, &sql, &loc.to_string())?;
                    made.push(sql);
                }
            }
            _ => {}
        }
    }
    sides.clean(&made)
}

/// A line without what the readers of the corpus overlook: spaces at its end, and remarks behind conditions.
fn plain_line(line: &str) -> &str {
    let is_condition = ["skipif", "onlyif", "halt"].iter().any(|word| line.starts_with(word));
    let line = if is_condition { line.split('#').next().unwrap_or_default() } else { line };
    line.trim_end()
}

fn is_left_out(sql: &str, conditions: &[Condition]) -> bool {
    let skips = |condition: &Condition| match condition {
        Condition::OnlyIf { label } => !LABELS.contains(&label.as_str()),
        Condition::SkipIf { label } => LABELS.contains(&label.as_str()),
    };
    let lower = sql.to_ascii_lowercase();
    let first = lower.split_whitespace().next().unwrap_or_default();
    conditions.iter().any(skips)
        || LEFT_OUT.iter().any(|word| first.eq_ignore_ascii_case(word))
        || UNDECIDED.iter().any(|word| lower.contains(word))
}

/// `CREATE TABLE t (columns with types) AS query`, which PostgreSQL does not have, as a CREATE TABLE and an INSERT.
fn in_postgres_words(sql: &str) -> Vec<String> {
    let nodes = tokens::parse(sql);
    let columns = nodes.iter().position(|node| node.inside().is_some());
    let parts = columns.and_then(|columns| {
        let is_create = nodes.first()?.is("CREATE") && nodes.get(1)?.is("TABLE");
        let has_types = nodes[columns].inside()?.split(|node| node.is(",")).all(|column| column.len() > 1);
        let has_query = nodes.get(columns + 1)?.is("AS");
        (is_create && has_types && has_query).then_some((columns, &nodes[columns + 2..]))
    });
    let Some((columns, query)) = parts else { return vec![sql.to_owned()] };
    let names = |node: &Node| !["CREATE", "TABLE", "IF", "NOT", "EXISTS"].iter().any(|word| node.is(word));
    let name: Vec<_> = nodes[..columns].iter().filter(|node| names(node)).cloned().collect();
    vec![tokens::text(&nodes[..=columns]), format!("INSERT INTO {} {}", tokens::text(&name), tokens::text(query))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_with_types_and_rows_are_made_in_two_steps() {
        let words = in_postgres_words("CREATE TABLE t (a INT, b DECIMAL(4, 2)) AS VALUES (1, 2.5), (NULL, 'x')");
        assert_eq!(words, ["CREATE TABLE t (a INT, b DECIMAL(4, 2))", "INSERT INTO t VALUES (1, 2.5), (NULL, 'x')"]);
        for other in ["CREATE TABLE t AS SELECT (1)", "CREATE TABLE t (a INT)", "CREATE TABLE t (a, b) AS SELECT 1, 2"]
        {
            assert_eq!(in_postgres_words(other), [other]);
        }
    }

    #[test]
    fn what_is_not_about_data_is_left_out() {
        assert!(is_left_out("EXPLAIN SELECT 1", &[]) && is_left_out("SELECT now()", &[]));
        assert!(!is_left_out("SELECT 1", &[Condition::SkipIf { label: "mysql".to_owned() }]));
        assert!(is_left_out("SELECT 1", &[Condition::OnlyIf { label: "mysql".to_owned() }]));
    }
}
