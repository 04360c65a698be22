//! How long planning takes: the statements of TPC-H, the smallest one, and statements that programs write.
//!
//! Each is explained through the library, so that nothing is remembered and nothing runs. The goals hold on a quiet
//! machine; a miss is printed and fails nothing.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use clap::Args;
use diligence_base::Result;
use diligence_db::Session;
use serde_json::{Value, json};

use crate::report::{median, print_table};
use crate::setup::{data, session};

/// The scale of TPC-H's files, whose rows are not read.
const SCALE: f64 = 0.01;
/// Terms of the long sums.
const TERMS: usize = 2000;
/// Common table expressions, each a join of the one before with itself.
const CHAINED: usize = 12;
/// Tables of the long join.
const TABLES: usize = 64;

/// What to run.
#[derive(Args)]
pub struct PlanningArguments {
    /// Times that each statement is planned; medians are printed.
    #[arg(long, default_value_t = 21)]
    runs: usize,
}

/// A statement, or several that count together.
struct Case {
    name: &'static str,
    statements: Vec<String>,
    goal_ms: f64,
}

/// Runs the benchmark and prints its table.
pub fn run(arguments: &PlanningArguments, root: &Path) -> Result<Value> {
    let session = session(&data(root, SCALE)?, 2)?;
    for statement in definitions() {
        session.execute(&statement)?.collect()?;
    }
    let mut rows = Vec::new();
    let mut results = Vec::new();
    for case in cases() {
        let mut times = Vec::with_capacity(arguments.runs);
        for run in 0..=arguments.runs {
            let slowest = slowest_ms(&session, &case.statements)?;
            // The first one warms up.
            if run > 0 {
                times.push(slowest);
            }
        }
        let ms = median(&times);
        let is_reached = if ms <= case.goal_ms { "" } else { "missed" };
        rows.push(vec![case.name.to_owned(), format!("{ms:.2}"), format!("{}", case.goal_ms), is_reached.to_owned()]);
        results.push(json!({"case": case.name, "ms": ms, "goal_ms": case.goal_ms}));
    }
    println!("planning through the library, medians of {} runs", arguments.runs);
    print_table(&["statement", "ms", "goal ms", ""].map(str::to_owned), &rows);
    Ok(json!({"benchmark": "planning", "runs": arguments.runs, "cases": results}))
}

/// The time of the statement that takes longest.
fn slowest_ms(session: &Session, statements: &[String]) -> Result<f64> {
    let mut slowest = 0f64;
    for statement in statements {
        let start = Instant::now();
        session.execute(&format!("EXPLAIN {statement}"))?.collect()?;
        slowest = slowest.max(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(slowest)
}

/// Empty tables: one of numbers, and those of the long join.
fn definitions() -> Vec<String> {
    let numbers = "CREATE TABLE numbers (i bigint, n numeric(12, 2), wide numeric, s text)".to_owned();
    let chained = (0..TABLES).map(|table| format!("CREATE TABLE t{table} (a integer, b integer)"));
    std::iter::once(numbers).chain(chained).collect()
}

fn cases() -> Vec<Case> {
    let sum = |term: &dyn Fn(usize) -> String| {
        let terms = (0..TERMS).map(term).collect::<Vec<_>>().join(" + ");
        vec![format!("SELECT {terms} FROM numbers")]
    };
    let mut chain = "WITH c0 AS (SELECT i, s FROM numbers)".to_owned();
    for next in 1..=CHAINED {
        let before = next - 1;
        // Writing to a text cannot fail.
        let _ = write!(chain, ", c{next} AS (SELECT p.i, q.s FROM c{before} p JOIN c{before} q ON p.i = q.i)");
    }
    let _ = write!(chain, " SELECT * FROM c{CHAINED}");
    let tables = (0..TABLES).map(|table| format!("t{table}")).collect::<Vec<_>>().join(", ");
    let joined = (1..TABLES).map(|table| format!("t{}.b = t{table}.a", table - 1)).collect::<Vec<_>>().join(" AND ");
    let any = (0..TERMS / 4).map(|term| format!("i = {term} AND s = 'x'")).collect::<Vec<_>>().join(" OR ");
    let tpch = diligence_tpch::QUERIES.iter().map(|text| (*text).to_owned()).collect();
    vec![
        Case { name: "SELECT 1", statements: vec!["SELECT 1".to_owned()], goal_ms: 0.03 },
        Case { name: "the slowest of TPC-H", statements: tpch, goal_ms: 1.0 },
        Case { name: "a sum of 2,000 terms: bigint", statements: sum(&|_| "i".to_owned()), goal_ms: 10.0 },
        Case { name: "products of bigint", statements: sum(&|term| format!("i * {term}")), goal_ms: 10.0 },
        Case { name: "numeric(12, 2)", statements: sum(&|_| "n".to_owned()), goal_ms: 10.0 },
        Case { name: "numeric", statements: sum(&|_| "wide".to_owned()), goal_ms: 10.0 },
        Case { name: "aggregates", statements: sum(&|_| "sum(i)".to_owned()), goal_ms: 10.0 },
        Case {
            name: "500 alternatives",
            statements: vec![format!("SELECT * FROM numbers WHERE {any}")],
            goal_ms: 10.0,
        },
        Case { name: "12 chained self-joins", statements: vec![chain], goal_ms: 5.0 },
        Case {
            name: "a join of 64 tables",
            statements: vec![format!("SELECT * FROM {tables} WHERE {joined}")],
            goal_ms: 100.0,
        },
    ]
}
