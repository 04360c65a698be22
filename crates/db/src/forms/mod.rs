//! What becomes of statements on their way to a plan, as text: one file per topic in this folder, each a list of
//! statements with the forms below that EXPLAIN VERBOSE shows. They are the relation without correlated subqueries
//! (`Unnested`), the rewritten one with its joins in order (`Rewritten`; `the same` if nothing was to do), and the
//! engine's plan (`Plan`). What statements are bound to is in the golden scripts of `diligence-sql`.
//!
//! `UPDATE_GOLDEN=1 cargo test --release -p diligence-db forms` writes the files anew; look at the difference before
//! committing it.

use std::path::PathBuf;

use arrow::array::cast::AsArray;
use arrow::compute::cast;
use arrow::datatypes::DataType;

use crate::{Database, DatabaseOptions, Session};

/// Tables of several sizes: their statistics decide the order of joins.
const TABLES: &str = "
    CREATE TABLE people (id integer PRIMARY KEY, name text, born date NOT NULL);
    INSERT INTO people SELECT i, 'name ' || i, DATE '1950-01-01' + i * 20 FROM generate_series(1, 1000) AS g(i);
    CREATE TABLE places (place integer PRIMARY KEY, city text NOT NULL, open boolean);
    INSERT INTO places SELECT i, 'city ' || i % 5, i % 2 = 0 FROM generate_series(1, 20) AS g(i);
    CREATE TABLE visits (person integer NOT NULL, place integer, at date NOT NULL, price numeric(10, 2));
    INSERT INTO visits SELECT i % 1000 + 1, i % 20 + 1, DATE '2024-01-01' + i % 365, i % 50 FROM \
        generate_series(1, 20000) AS g(i);
    CREATE TABLE totals (place integer PRIMARY KEY, visits bigint DEFAULT 0, price numeric(12, 2));";

fn session() -> Session {
    let options = DatabaseOptions { workers: Some(2), ..DatabaseOptions::default() };
    let session = Database::open(options).unwrap().session();
    for statement in Session::split(TABLES).unwrap() {
        session.execute(&statement).and_then(crate::QueryResult::collect).unwrap();
    }
    session
}

/// The lines of an answer of one column of text.
fn lines(session: &Session, sql: &str) -> Result<Vec<String>, String> {
    let batches = session.execute(sql).and_then(crate::QueryResult::collect).map_err(|error| {
        let code = error.code().unwrap_or("?");
        format!("error {code}: {error}")
    })?;
    let texts = batches.iter().flat_map(|batch| {
        let column = cast(batch.column(0), &DataType::Utf8).unwrap();
        column.as_string::<i32>().iter().map(|line| line.unwrap_or_default().to_owned()).collect::<Vec<_>>()
    });
    Ok(texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect())
}

/// The forms of a statement, or its error.
fn forms(session: &Session, sql: &str) -> String {
    let lines = match lines(session, &format!("EXPLAIN VERBOSE {sql}")) {
        Ok(lines) => lines,
        Err(error) => return error,
    };
    // The lines up to one that begins with `end`, without empty ones. Names of our own begin with a character that is
    // not printed.
    let until = |lines: &[String], end: &str| {
        let lines = lines.iter().take_while(|line| !line.starts_with(end));
        let lines = lines.map(|line| line.trim_end().replace('\u{1}', "~")).filter(|line| !line.is_empty());
        lines.collect::<Vec<_>>().join("\n")
    };
    let behind = |title: &str| {
        let place = lines.iter().position(|line| line == title);
        &lines[place.map_or(lines.len(), |place| place + 1)..]
    };
    let plan = until(&lines, "Pipeline 0");
    let (unnested, rewritten) = (until(behind("Unnested:"), "Rewritten:"), until(behind("Rewritten:"), "Bound:"));
    let rewritten = if rewritten == unnested { "the same".to_owned() } else { rewritten };
    assert!(!plan.is_empty() && !unnested.is_empty() && !rewritten.is_empty(), "{sql}: {lines:?}");
    format!("Unnested:\n{unnested}\nRewritten:\n{rewritten}\nPlan:\n{plan}")
}

/// Runs one file: blocks of comments and a statement, `----`, the expected text, an empty line.
fn golden(topic: &str) {
    let session = session();
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("src/forms/{topic}.txt"));
    let script = std::fs::read_to_string(&path).unwrap();
    let mut seen = String::new();
    for block in script.split("\n\n").map(str::trim).filter(|block| !block.is_empty()) {
        let question = block.split("\n----").next().unwrap_or(block).trim();
        let sql = question.lines().filter(|line| !line.starts_with("--")).collect::<Vec<_>>().join("\n");
        seen += &format!("{question}\n----\n{}\n\n", forms(&session, &sql));
    }
    let seen = format!("{}\n", seen.trim_end());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, seen).unwrap();
        return;
    }
    for (line, (seen, expected)) in seen.lines().zip(script.lines()).enumerate() {
        assert_eq!(seen, expected, "{topic}.txt, line {}", line + 1);
    }
    assert_eq!(seen.lines().count(), script.lines().count(), "{topic}.txt has another number of lines");
}

#[test]
fn correlated_subqueries_become_joins() {
    golden("subqueries");
}

#[test]
fn conditions_go_down_and_expressions_get_simple() {
    golden("rewrites");
}

#[test]
fn joins_get_an_order() {
    golden("joins");
}

#[test]
fn groups_and_windows_are_planned() {
    golden("groups");
}

#[test]
fn sets_and_common_tables_are_planned() {
    golden("sets");
}

#[test]
fn statements_that_write_are_planned() {
    golden("changes");
}
