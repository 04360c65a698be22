//! The 22 TPC-H queries on the same Parquet files, hot, interleaved with rivals, and with ourselves in little memory.

use std::path::Path;
use std::time::Instant;

use arrow::array::RecordBatch;
use clap::Args;
use diligence_base::{Error, Result};
use diligence_db::Session;
use serde_json::{Value, json};

use crate::answers::{agree, is_same, values};
use crate::budget::{Budget, resident_allowed_bytes};
use crate::report::{geometric_mean, median, print_table};
use crate::rivals::{Limits, Rival};
use crate::setup::{data, session};

/// What to run.
#[derive(Args)]
pub struct TpchArguments {
    /// Scale factor: 1 is about 1 GB of raw data.
    #[arg(long, default_value_t = 1.0)]
    sf: f64,
    /// Rivals: duckdb (on Parquet and on its own file), datafusion, hyper.
    #[arg(long, value_delimiter = ',')]
    rivals: Vec<String>,
    /// Worker threads, ours and theirs.
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Also run ourselves with this many workers, as one more column.
    #[arg(long)]
    also_workers: Vec<usize>,
    /// Also run each query twice at once, one worker each, and give half the time: what a second worker could bring
    /// here.
    #[arg(long)]
    also_apart: bool,
    /// Also run ourselves with so much memory, such as 64MB, as a process of its own. Answers must be those without a
    /// limit to the last digit: otherwise the benchmark fails.
    #[arg(long = "budget", value_delimiter = ',')]
    budgets: Vec<Budget>,
    /// Rounds that count, after one that does not.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Only these queries.
    #[arg(long, value_delimiter = ',')]
    queries: Vec<usize>,
}

/// A contestant: ourselves or a rival.
enum TpchContestant {
    Own(String, Session),
    /// Ourselves twice at once, with one worker each.
    Apart([Session; 2]),
    Rival(Rival),
    /// Ourselves with a memory budget.
    Limited(String, Rival, Budget),
}

impl TpchContestant {
    fn name(&self) -> String {
        match self {
            TpchContestant::Own(name, _) | TpchContestant::Limited(name, ..) => name.clone(),
            TpchContestant::Apart(_) => "2 x 1w, half".to_owned(),
            TpchContestant::Rival(rival) => rival.name().to_owned(),
        }
    }

    /// Milliseconds, and the rows if asked for.
    fn run(&mut self, sql: &str, rows: bool) -> Result<(f64, Vec<Vec<Value>>)> {
        match self {
            TpchContestant::Rival(rival) | TpchContestant::Limited(_, rival, _) => {
                rival.run(sql, rows).map(|answer| (answer.ms, answer.rows))
            }
            TpchContestant::Own(_, session) => {
                let (ms, batches) = timed(session, sql)?;
                Ok((ms, if rows { values(&batches)? } else { Vec::new() }))
            }
            TpchContestant::Apart([first, second]) => std::thread::scope(|scope| {
                let other = scope.spawn(|| timed(second, sql));
                let (ms, batches) = timed(first, sql)?;
                let (other_ms, _) = other.join().map_err(|_| Error::bug("a run panicked"))??;
                Ok((ms.max(other_ms) / 2.0, if rows { values(&batches)? } else { Vec::new() }))
            }),
        }
    }
}

impl TpchContestant {
    /// Whether its answer is the right one. Rivals may round otherwise than we do.
    fn agrees(&self, expected: &[Vec<Value>], rows: &[Vec<Value>]) -> bool {
        match self {
            TpchContestant::Limited(..) => is_same(expected, rows),
            _ => agree(expected, rows),
        }
    }
}

/// Milliseconds and rows of one run.
fn timed(session: &Session, sql: &str) -> Result<(f64, Vec<RecordBatch>)> {
    let start = Instant::now();
    let batches = session.execute(sql)?.collect()?;
    Ok((start.elapsed().as_secs_f64() * 1e3, batches))
}

/// Runs the benchmark and prints its table.
pub fn run(arguments: &TpchArguments, root: &Path) -> Result<Value> {
    let directory = data(root, arguments.sf)?;
    let mut contestants = vec![TpchContestant::Own("diligence".into(), session(&directory, arguments.workers)?)];
    for &workers in &arguments.also_workers {
        contestants.push(TpchContestant::Own(format!("diligence-{workers}w"), session(&directory, workers)?));
    }
    if arguments.also_apart {
        contestants.push(TpchContestant::Apart([session(&directory, 1)?, session(&directory, 1)?]));
    }
    for rival in &arguments.rivals {
        let names: &[&str] = if rival == "duckdb" { &["duckdb-parquet", "duckdb"] } else { &[rival] };
        for name in names {
            contestants.push(TpchContestant::Rival(Rival::start(name, &directory, arguments.workers)?));
        }
    }
    let temp = root.join("temp");
    for budget in &arguments.budgets {
        std::fs::create_dir_all(&temp)
            .map_err(|error| Error::file(format!("cannot make {}: {error}", temp.display())))?;
        let limits = Limits { memory_bytes: budget.bytes, temp: temp.clone() };
        let own = Rival::start_own(&directory, arguments.workers, &limits, false)?;
        contestants.push(TpchContestant::Limited(format!("at {}", budget.name), own, budget.clone()));
    }
    let chosen: Vec<usize> = if arguments.queries.is_empty() { (1..=22).collect() } else { arguments.queries.clone() };
    if let Some(wrong) = chosen.iter().find(|&&query| !(1..=22).contains(&query)) {
        return Err(Error::input(format!("there is no TPC-H query {wrong}: they are 1 to 22")));
    }

    // times[query][contestant][round]
    let mut times = vec![vec![Vec::new(); contestants.len()]; chosen.len()];
    let mut disagreements = Vec::new();
    for round in 0..=arguments.rounds {
        for (index, &query) in chosen.iter().enumerate() {
            let sql = diligence_tpch::QUERIES[query - 1];
            let mut expected: Option<Vec<Vec<Value>>> = None;
            for (contestant, times) in contestants.iter_mut().zip(&mut times[index]) {
                let (ms, rows) = contestant.run(sql, round == 0)?;
                if round > 0 {
                    times.push(ms);
                    continue;
                }
                // The first round warms up, and compares answers.
                match &expected {
                    None => expected = Some(rows),
                    Some(expected) if !contestant.agrees(expected, &rows) => {
                        disagreements.push(format!("query {query}: {} disagrees with us", contestant.name()));
                    }
                    Some(_) => {}
                }
            }
        }
    }
    let limited = limited(&contestants);
    Ok(print(arguments, &contestants, &chosen, &times, &disagreements, &limited))
}

/// What the processes with a memory budget were like.
fn limited(contestants: &[TpchContestant]) -> Vec<Value> {
    let limited = contestants.iter().filter_map(|contestant| match contestant {
        TpchContestant::Limited(name, own, budget) => {
            let (resident, allowed) = (own.peak_resident_bytes(), resident_allowed_bytes(budget.bytes));
            Some(json!({
                "contestant": name, "budget_bytes": budget.bytes, "resident_bytes": resident, "resident_allowed_bytes": allowed,
                "is_allowed": resident <= allowed, "written_bytes": own.io_bytes().1,
            }))
        }
        _ => None,
    });
    limited.collect()
}

fn print(
    arguments: &TpchArguments,
    contestants: &[TpchContestant],
    chosen: &[usize],
    times: &[Vec<Vec<f64>>],
    disagreements: &[String],
    limited: &[Value],
) -> Value {
    let names: Vec<String> = contestants.iter().map(TpchContestant::name).collect();
    let medians: Vec<Vec<f64>> =
        times.iter().map(|contestants| contestants.iter().map(|rounds| median(rounds)).collect()).collect();
    let mut header = vec!["query".to_owned()];
    header.extend(names.iter().map(|name| format!("{name} ms")));
    header.extend(names[1..].iter().map(|name| format!("/ {name}")));
    let row = |label: String, values: &[f64]| {
        let mut cells = vec![label];
        cells.extend(values.iter().map(|value| format!("{value:.1}")));
        cells.extend(values[1..].iter().map(|value| format!("{:.2}", values[0] / value)));
        cells
    };
    let mut rows: Vec<Vec<String>> =
        chosen.iter().zip(&medians).map(|(query, values)| row(format!("Q{query}"), values)).collect();
    let column = |contestant: usize| medians.iter().map(|values| values[contestant]).collect::<Vec<f64>>();
    let sums: Vec<f64> = (0..names.len()).map(|contestant| column(contestant).iter().sum()).collect();
    let means: Vec<f64> = (0..names.len()).map(|contestant| geometric_mean(&column(contestant))).collect();
    rows.push(row("sum".into(), &sums));
    rows.push(row("geomean".into(), &means));
    println!(
        "TPC-H SF{} on Parquet, {} workers, medians of {} rounds",
        arguments.sf, arguments.workers, arguments.rounds
    );
    print_table(&header, &rows);
    if disagreements.is_empty() {
        println!("all answers agree");
    }
    for disagreement in disagreements {
        println!("WRONG: {disagreement}");
    }
    for limited in limited {
        let megabytes = |name: &str| limited[name].as_u64().unwrap_or(0) / 1_000_000;
        println!(
            "{}: {} MB resident of {} allowed, {} MB written",
            limited["contestant"].as_str().unwrap_or_default(),
            megabytes("resident_bytes"),
            megabytes("resident_allowed_bytes"),
            megabytes("written_bytes"),
        );
        if limited["is_allowed"] == false {
            println!("OVER: we held more than we may");
        }
    }
    json!({
        "benchmark": "tpch", "sf": arguments.sf, "workers": arguments.workers, "rounds": arguments.rounds,
        "contestants": names, "queries": chosen, "median_ms": medians, "sum_ms": sums, "geomean_ms": means,
        "disagreements": disagreements, "limited": limited,
    })
}
