//! The 22 TPC-H queries on the same Parquet files, hot, interleaved with rivals, and with ourselves in little memory.

use std::path::{Path, PathBuf};
use std::time::Instant;

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use clap::Args;
use diligence_base::{Error, Result};
use diligence_db::{Database, DatabaseOptions, Session};
use serde_json::{Value, json};

use crate::budgets::{Budget, resident_allowed_bytes};
use crate::report::{geometric_mean, median, print_table};
use crate::rivals::{Limits, Rival};

/// What to run.
#[derive(Args)]
pub struct Arguments {
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
enum Contestant {
    Own(String, Session),
    /// Ourselves twice at once, with one worker each.
    Apart([Session; 2]),
    Rival(Rival),
    /// Ourselves with a memory budget.
    Limited(String, Rival, Budget),
}

impl Contestant {
    fn name(&self) -> String {
        match self {
            Contestant::Own(name, _) | Contestant::Limited(name, ..) => name.clone(),
            Contestant::Apart(_) => "2 x 1w, half".to_owned(),
            Contestant::Rival(rival) => rival.name().to_owned(),
        }
    }

    /// Milliseconds, and the rows if asked for.
    fn run(&mut self, sql: &str, rows: bool) -> Result<(f64, Vec<Vec<Value>>)> {
        match self {
            Contestant::Rival(rival) | Contestant::Limited(_, rival, _) => {
                rival.run(sql, rows).map(|answer| (answer.ms, answer.rows))
            }
            Contestant::Own(_, session) => {
                let (ms, batches) = timed(session, sql)?;
                Ok((ms, if rows { values(&batches)? } else { Vec::new() }))
            }
            Contestant::Apart([first, second]) => std::thread::scope(|scope| {
                let other = scope.spawn(|| timed(second, sql));
                let (ms, batches) = timed(first, sql)?;
                let (other_ms, _) = other.join().map_err(|_| Error::bug("a run panicked"))??;
                Ok((ms.max(other_ms) / 2.0, if rows { values(&batches)? } else { Vec::new() }))
            }),
        }
    }
}

impl Contestant {
    /// Whether its answer is the right one. Rivals may round otherwise than we do.
    fn agrees(&self, expected: &[Vec<Value>], rows: &[Vec<Value>]) -> bool {
        match self {
            Contestant::Limited(..) => is_same(expected, rows),
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

/// Makes the data if it is missing; returns its folder.
pub fn data(root: &Path, sf: f64) -> Result<PathBuf> {
    let directory = root.join(format!("tpch-sf{sf}"));
    let bar = indicatif::ProgressBar::no_length();
    diligence_tpch::generate(&diligence_tpch::Options::new(sf), &directory, |progress| {
        bar.set_message(format!("{} {} of {}", progress.table.name(), progress.rows_done, progress.rows_total));
    })?;
    bar.finish_and_clear();
    Ok(directory)
}

/// What every database that is measured begins with: no answer is kept for the next time that it is asked for.
pub fn settings() -> Vec<(String, String)> {
    vec![("sharing_retained".to_owned(), "0".to_owned())]
}

/// A session over a folder.
pub fn session(directory: &Path, workers: usize) -> Result<Session> {
    let (data, workers) = (Some(directory.to_owned()), Some(workers));
    let options = DatabaseOptions { data, workers, settings: settings(), ..DatabaseOptions::default() };
    Ok(Database::open(options)?.session())
}

/// Runs the benchmark and prints its table.
pub fn run(arguments: &Arguments, root: &Path) -> Result<Value> {
    let directory = data(root, arguments.sf)?;
    let mut contestants = vec![Contestant::Own("diligence".into(), session(&directory, arguments.workers)?)];
    for &workers in &arguments.also_workers {
        contestants.push(Contestant::Own(format!("diligence-{workers}w"), session(&directory, workers)?));
    }
    if arguments.also_apart {
        contestants.push(Contestant::Apart([session(&directory, 1)?, session(&directory, 1)?]));
    }
    for rival in &arguments.rivals {
        let names: &[&str] = if rival == "duckdb" { &["duckdb-parquet", "duckdb"] } else { &[rival] };
        for name in names {
            contestants.push(Contestant::Rival(Rival::start(name, &directory, arguments.workers)?));
        }
    }
    let temp = root.join("temp");
    for budget in &arguments.budgets {
        std::fs::create_dir_all(&temp)
            .map_err(|error| Error::file(format!("cannot make {}: {error}", temp.display())))?;
        let limits = Limits { memory_bytes: budget.bytes, temp: temp.clone() };
        let own = Rival::start_own(&directory, arguments.workers, &limits, false)?;
        contestants.push(Contestant::Limited(format!("at {}", budget.name), own, budget.clone()));
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
fn limited(contestants: &[Contestant]) -> Vec<Value> {
    let limited = contestants.iter().filter_map(|contestant| match contestant {
        Contestant::Limited(name, own, budget) => {
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
    arguments: &Arguments,
    contestants: &[Contestant],
    chosen: &[usize],
    times: &[Vec<Vec<f64>>],
    disagreements: &[String],
    limited: &[Value],
) -> Value {
    let names: Vec<String> = contestants.iter().map(Contestant::name).collect();
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

/// The rows of batches as JSON values: numbers as numbers, the rest as text.
pub fn values(batches: &[RecordBatch]) -> Result<Vec<Vec<Value>>> {
    let options = FormatOptions::new();
    let mut rows = Vec::new();
    for batch in batches {
        let columns = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| Error::bug(error.to_string()))?;
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().zip(&columns).map(|(array, formatter)| {
                if array.is_null(row) {
                    return Value::Null;
                }
                let text = formatter.value(row).to_string();
                match text.parse::<f64>() {
                    Ok(number) if array.data_type().is_numeric() => json!(number),
                    _ => Value::String(text),
                }
            });
            rows.push(cells.collect());
        }
    }
    Ok(rows)
}

/// True if two answers have the same rows in any order, numbers equal to six digits or to a hundredth.
pub fn agree(ours: &[Vec<Value>], theirs: &[Vec<Value>]) -> bool {
    let key = |row: &Vec<Value>| {
        row.iter()
            .map(|value| match value {
                Value::Number(number) => format!("{:.0}", number.as_f64().unwrap_or(f64::NAN)),
                other => other.to_string(),
            })
            .collect::<Vec<_>>()
    };
    let sorted = |rows: &[Vec<Value>]| {
        let mut rows = rows.to_vec();
        rows.sort_by_cached_key(key);
        rows
    };
    let same = |a: &Value, b: &Value| match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => (a - b).abs() <= 0.01f64.max(a.abs().max(b.abs()) * 1e-6),
        _ => a.as_str().map(str::trim_end) == b.as_str().map(str::trim_end) && a.is_null() == b.is_null(),
    };
    ours.len() == theirs.len()
        && sorted(ours)
            .iter()
            .zip(sorted(theirs))
            .all(|(a, b)| a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| same(a, b)))
}

/// True if two answers of ours have the same rows in any order.
fn is_same(expected: &[Vec<Value>], rows: &[Vec<Value>]) -> bool {
    let sorted = |rows: &[Vec<Value>]| {
        let mut rows = rows.iter().map(|row| Value::from(row.clone()).to_string()).collect::<Vec<_>>();
        rows.sort_unstable();
        rows
    };
    // What came from another process was text in between.
    let read = |row: &String| serde_json::from_str::<Value>(row).map(|row| row.to_string()).ok();
    let mut expected = sorted(expected).iter().filter_map(read).collect::<Vec<_>>();
    expected.sort_unstable();
    expected == sorted(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_ours_are_the_same_to_the_last_digit() {
        let expected = vec![vec![json!("A"), json!(1.0)], vec![json!("B"), json!(2_000_000.0)]];
        let rows = vec![vec![json!("B"), json!(2_000_000.0)], vec![json!("A"), json!(1.0)]];
        assert!(is_same(&expected, &rows));
        assert!(!is_same(&expected, &rows[..1]));
        assert!(!is_same(&expected, &[rows[0].clone(), vec![json!("A"), json!(1.000_000_1)]]));
    }

    #[test]
    fn answers_agree_in_any_order_and_to_six_digits() {
        let ours = vec![vec![json!("A"), json!(1.0)], vec![json!("B"), json!(2_000_000.0)]];
        let theirs = vec![vec![json!("B "), json!(2_000_000.5)], vec![json!("A"), json!(1)]];
        assert!(agree(&ours, &theirs));
        assert!(!agree(&ours, &theirs[..1]));
        assert!(!agree(&ours, &[vec![json!("B"), json!(2_000_900.0)], vec![json!("A"), json!(1)]]));
    }
}
