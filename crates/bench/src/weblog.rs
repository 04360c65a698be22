//! `diligence-bench web-log`: 43 questions about a web log at several memory budgets, one after the other and by many
//! clients at once, beside rivals.
//!
//! Every contestant is a process of its own per budget. Each query of ours has to end, with the answer that it has at
//! the first budget; and the process has to stay within its memory.

use std::path::{Path, PathBuf};

use clap::Args;
use diligence_base::{Error, Result};
use diligence_weblog::{Layout, QUERIES, WebLog};
use serde_json::{Value, json};

use crate::answers::{agree, is_same};
use crate::budget::{Budget, resident_allowed_bytes};
use crate::report::{geometric_mean, median, print_table};
use crate::rivals::{Limits, Rival};

/// What to run.
#[derive(Args)]
pub struct WebLogArguments {
    /// Rows of the log.
    #[arg(long, default_value_t = 5_000_000)]
    rows: u64,
    /// Rows of a row group.
    #[arg(long, default_value_t = 500_000)]
    row_group_rows: usize,
    /// Write a page index.
    #[arg(long)]
    page_index: bool,
    /// What the rows follow from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The memory that queries may use, such as 256MB; several make a sweep. The first one's answers count.
    #[arg(long = "budget", value_delimiter = ',', required = true)]
    budgets: Vec<Budget>,
    /// Rivals to compare with: duckdb-parquet, duckdb, datafusion.
    #[arg(long, value_delimiter = ',')]
    rivals: Vec<String>,
    /// Only these queries, counted from 1.
    #[arg(long, value_delimiter = ',')]
    queries: Vec<usize>,
    /// Worker threads.
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Rounds that count, after one that does not; 0 for answers only.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// Clients that ask all at once, after each has asked alone; 0 for none.
    #[arg(long, default_value_t = 0)]
    clients: usize,
    /// How long they ask.
    #[arg(long, default_value_t = 20.0)]
    seconds: f64,
}

/// What came of a contestant at a budget: milliseconds for each query, or what went wrong.
type Times = Vec<std::result::Result<f64, String>>;

/// Runs it. Fails if the log cannot be written or a contestant does not start.
pub fn run(arguments: &WebLogArguments, root: &Path) -> Result<Value> {
    let data = log(arguments, root)?;
    let temp = data.with_file_name("temp");
    std::fs::create_dir_all(&temp).map_err(|error| Error::file(format!("cannot make {}: {error}", temp.display())))?;
    let chosen = |number: &usize| arguments.queries.is_empty() || arguments.queries.contains(number);
    let numbers = (1..=QUERIES.len()).filter(chosen).collect::<Vec<_>>();
    let mut expected: Vec<Option<Vec<Vec<Value>>>> = vec![None; QUERIES.len() + 1];
    let (mut disagreements, mut report, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for budget in &arguments.budgets {
        let limits = Limits { memory_bytes: budget.bytes, temp: temp.clone() };
        let mut contestants = vec![Rival::start_own(&data, arguments.workers, &limits, false)?];
        for name in &arguments.rivals {
            contestants.push(Rival::start_limited(name, &data, arguments.workers, &limits)?);
        }
        let mut times: Vec<Times> = vec![Vec::new(); contestants.len()];
        for &number in &numbers {
            for (index, contestant) in contestants.iter_mut().enumerate() {
                let (took, answer) = ask(contestant, QUERIES[number - 1], arguments.rounds);
                if let Some(rows) = answer {
                    let wrong = match &expected[number] {
                        None => {
                            expected[number] = Some(rows);
                            false
                        }
                        Some(expected) if index == 0 => !is_same(expected, &rows) && !agree(expected, &rows),
                        Some(expected) => !agree(expected, &rows),
                    };
                    if wrong {
                        disagreements.push(format!("query {number} at {} by {}", budget.name, contestant.name()));
                    }
                }
                if let Err(error) = &took {
                    println!("query {number} at {} by {}: {error}", budget.name, contestant.name());
                }
                times[index].push(took);
            }
        }
        let crowd = match arguments.clients {
            0 => Value::Null,
            clients => crowd(&mut contestants[0], budget, clients, arguments.seconds)?,
        };
        let resident_bytes = contestants[0].peak_resident_bytes();
        let first = |times: &Times| times.iter().find_map(|took| took.clone().err());
        let failed = times.iter().map(first).chain(crowd["first_error"].as_str().map(|text| Some(text.to_owned())));
        report.push(json!({
            "budget_bytes": budget.bytes,
            "errors": times.iter().map(|times| times.iter().filter(|took| took.is_err()).count()).collect::<Vec<_>>(),
            "failed": failed.collect::<Vec<_>>(),
            "crowd": crowd,
            "resident_bytes": resident_bytes,
            "resident_is_allowed": resident_bytes <= resident_allowed_bytes(budget.bytes),
        }));
        all.push(times);
    }
    print(arguments, &numbers, &all, &report);
    disagreements.iter().for_each(|wrong| println!("WRONG: {wrong}"));
    Ok(json!({ "benchmark": "weblog", "rows": arguments.rows, "budgets": report, "disagreements": disagreements }))
}

/// The folder of the log, which is written if it is missing.
fn log(arguments: &WebLogArguments, root: &Path) -> Result<PathBuf> {
    let WebLogArguments { rows, row_group_rows, page_index, seed, .. } = *arguments;
    let index = if page_index { "-indexed" } else { "" };
    let folder = root.join(format!("weblog-{rows}-{row_group_rows}-{seed}{index}"));
    let path = folder.join("weblog.parquet");
    if !path.exists() {
        let failed = |error| Error::file(format!("cannot make {}: {error}", folder.display()));
        std::fs::create_dir_all(&folder).map_err(failed)?;
        eprintln!("writing {}", path.display());
        diligence_weblog::write(&WebLog::new(seed), Layout { rows, row_group_rows, page_index }, &path)?;
    }
    Ok(folder)
}

/// Asks once for the answer, and some more times for the time.
fn ask(
    contestant: &mut Rival,
    sql: &str,
    rounds: usize,
) -> (std::result::Result<f64, String>, Option<Vec<Vec<Value>>>) {
    let first = match contestant.run(sql, true) {
        Ok(answer) => answer,
        Err(error) => return (Err(error.to_string()), None),
    };
    let mut ms = Vec::new();
    for _ in 0..rounds {
        match contestant.run(sql, false) {
            Ok(answer) => ms.push(answer.ms),
            Err(error) => return (Err(error.to_string()), Some(first.rows)),
        }
    }
    let took = if ms.is_empty() { first.ms } else { median(&ms) };
    (Ok(took), Some(first.rows))
}

/// Many clients at once, each with all queries in an order of its own.
fn crowd(own: &mut Rival, budget: &Budget, clients: usize, seconds: f64) -> Result<Value> {
    let came = own.run_crowd(&QUERIES.map(str::to_owned), clients, seconds)?;
    println!(
        "{clients} clients at {} for {seconds} s: {} answers, {} errors",
        budget.name, came["answers"], came["errors"]
    );
    if let Some(error) = came["first_error"].as_str() {
        println!("  {error}");
    }
    Ok(came)
}

fn print(arguments: &WebLogArguments, numbers: &[usize], all: &[Vec<Times>], report: &[Value]) {
    println!("web log of {} rows, {} workers, milliseconds", arguments.rows, arguments.workers);
    let mut header = vec!["query".to_owned()];
    for budget in &arguments.budgets {
        header.push(budget.name.clone());
        header.extend(arguments.rivals.iter().map(|rival| format!("/ {rival}")));
    }
    let mut rows = Vec::new();
    for (place, number) in numbers.iter().enumerate() {
        let mut row = vec![format!("Q{number}")];
        for times in all {
            let own = &times[0][place];
            row.push(own.as_ref().map_or("-".to_owned(), |ms| format!("{ms:.1}")));
            row.extend(times[1..].iter().map(|rival| match (own, &rival[place]) {
                (Ok(own), Ok(rival)) => format!("{:.2}", own / rival),
                _ => "-".to_owned(),
            }));
        }
        rows.push(row);
    }
    let mut means = vec!["geomean".to_owned()];
    for times in all {
        let ended = |times: &Times| times.iter().flatten().copied().collect::<Vec<_>>();
        means.push(format!("{:.1}", geometric_mean(&ended(&times[0]))));
        means.extend(times[1..].iter().map(|rival| {
            let both = times[0].iter().zip(rival);
            let ratios = both.filter_map(|pair| match pair {
                (Ok(own), Ok(rival)) => Some(own / rival),
                _ => None,
            });
            format!("{:.2}", geometric_mean(&ratios.collect::<Vec<_>>()))
        }));
    }
    rows.push(means);
    print_table(&header, &rows);
    for (budget, report) in arguments.budgets.iter().zip(report) {
        println!(
            "at {}: {} errors, {} MB resident of {} allowed",
            budget.name,
            report["errors"][0],
            report["resident_bytes"].as_u64().unwrap_or(0) / 1_000_000,
            resident_allowed_bytes(budget.bytes) / 1_000_000
        );
    }
}
