//! Two joins of three tables that differ in one range, the second some time after the first: how long until both are
//! answered, over the time between them, with and without sharing (Harizopoulos, "Staged Database Systems", section
//! 4.2.2, Figure 8, which has QPipe beside the engine that it was made of).
//!
//! The tables follow the Wisconsin benchmark (DeWitt, "The Wisconsin Benchmark: Past, Present, and Future", 1993), with
//! 9 of its 16 columns; `ten_percent` is not derived from `unique1`, so that it can be a foreign key of the small
//! table. They are larger than the paper's, because machines have become faster. As there, both queries begin in an
//! engine that has nothing of theirs yet. The paper's plans sort the tables for merge joins, and QPipe shares these
//! sorts; here the plans have hash joins, and there is no index scan.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use diligence_base::{Error, Result};
use diligence_db::{Database, DatabaseOptions, Session};
use serde_json::{Value, json};

use super::lines;
use crate::report::{median, print_table};
use crate::{cpu, curve, setup};

/// What to run.
#[derive(Args)]
pub struct OverlapArguments {
    /// Rows of each of the two large tables; the small one has a tenth.
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// Worker threads.
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Our modes of sharing.
    #[arg(long, value_delimiter = ',', default_value = "off,all")]
    sharing: Vec<String>,
    /// The times between the two, in percent of what the first takes alone.
    #[arg(long, value_delimiter = ',', default_value = "0,10,20,30,40,50,60,70,80,90,100")]
    interarrival: Vec<u64>,
    /// Rounds; the modes take turns, medians are shown.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Draw the curve into this file.
    #[arg(long)]
    svg: Option<PathBuf>,
}

/// What QPipe saved at most, in percent of the time without sharing.
const PAPER_SAVES_PERCENT: f64 = 25.0;

/// The parts of the large table that the two queries want, in percent of its rows.
const RANGES: [(u64, u64); 2] = [(0, 50), (25, 75)];

/// Runs the benchmark, prints its table and draws its curve.
pub fn run(arguments: &OverlapArguments, root: &Path) -> Result<Value> {
    let folder = tables(root, arguments.rows)?;
    let queries = RANGES.map(|(low, high)| query(arguments.rows * low / 100, arguments.rows * high / 100));
    let expected = alone(&folder, arguments, &queries)?;
    // By mode: seconds of the first query alone, and of both by the time between them.
    let mut lone = vec![Vec::new(); arguments.sharing.len()];
    let mut both = vec![vec![Vec::new(); arguments.interarrival.len()]; arguments.sharing.len()];
    let mut processor = both.clone();
    for _ in 0..arguments.rounds.max(1) {
        for (mode, lone) in arguments.sharing.iter().zip(&mut lone) {
            let [first, _] = sessions(&folder, arguments, mode, &queries)?;
            let start = Instant::now();
            first.execute(&queries[0])?.collect()?;
            lone.push(start.elapsed().as_secs_f64());
        }
        for (place, percent) in arguments.interarrival.iter().enumerate() {
            for (index, mode) in arguments.sharing.iter().enumerate() {
                let gap = Duration::from_secs_f64(median(&lone[index]) * *percent as f64 / 100.0);
                let sessions = sessions(&folder, arguments, mode, &queries)?;
                let before = cpu::seconds();
                both[index][place].push(apart(&sessions, &queries, gap, &expected)?);
                processor[index][place].push(cpu::seconds() - before);
            }
        }
    }
    let medians = |all: &[Vec<Vec<f64>>]| -> Vec<Vec<f64>> {
        all.iter().map(|places| places.iter().map(|times| median(times)).collect()).collect()
    };
    let lone: Vec<_> = lone.iter().map(|times| median(times)).collect();
    report(arguments, &lone, &medians(&both), &medians(&processor))
}

/// Seconds by mode: of the first query alone, and by the time between them, until both are answered and of processors.
fn report(arguments: &OverlapArguments, lone: &[f64], both: &[Vec<f64>], processor: &[Vec<f64>]) -> Result<Value> {
    let mut header = vec!["interarrival".to_owned()];
    header.extend(arguments.sharing.iter().map(|mode| format!("{mode} ms")));
    header.extend(arguments.sharing[1..].iter().map(|mode| format!("{mode} saves")));
    header.extend(arguments.sharing.iter().map(|mode| format!("{mode} cpu ms")));
    header.extend(arguments.sharing[1..].iter().map(|mode| format!("{mode} saves of cpu")));
    let mut rows = Vec::new();
    for (place, percent) in arguments.interarrival.iter().enumerate() {
        let mut row = vec![format!("{percent} %")];
        for all in [both, processor] {
            row.extend(all.iter().map(|times| format!("{:.1}", times[place] * 1e3)));
            row.extend(all[1..].iter().map(|times| format!("{:.0} %", (1.0 - times[place] / all[0][place]) * 100.0)));
        }
        rows.push(row);
    }
    let lone_ms: Vec<_> = lone.iter().map(|seconds| format!("{:.1}", seconds * 1e3)).collect();
    println!(
        "two joins of tables with {}, {} and {} rows, {} workers, medians of {} rounds; QPipe saves up to {PAPER_SAVES_PERCENT} %",
        arguments.rows,
        arguments.rows,
        arguments.rows / 10,
        arguments.workers,
        arguments.rounds
    );
    println!("the first alone: {} ms", lone_ms.join(", "));
    print_table(&header, &rows);
    if let Some(path) = &arguments.svg {
        let names: Vec<_> = arguments.interarrival.iter().map(|percent| format!("{percent} %")).collect();
        let milliseconds =
            |times: &[f64], share: f64| times.iter().map(|seconds| Some(seconds * share * 1e3)).collect::<Vec<_>>();
        let own = arguments.sharing.iter().zip(both);
        let mut curves: Vec<_> = own.map(|(mode, times)| (mode.clone(), milliseconds(times, 1.0))).collect();
        let paper = format!("{} less {PAPER_SAVES_PERCENT} %", arguments.sharing[0]);
        curves.push((paper, milliseconds(&both[0], 1.0 - PAPER_SAVES_PERCENT / 100.0)));
        let svg = curve::draw_even(
            "two joins: time until both are answered, over the time between them",
            "ms",
            &names,
            &curves,
        );
        std::fs::write(path, svg).map_err(|error| Error::file(format!("cannot write {}: {error}", path.display())))?;
    }
    let curves = arguments.sharing.iter().zip(both.iter().zip(processor)).zip(lone);
    let curves: Vec<_> = curves
        .map(|((mode, (times, processor)), lone)| {
            json!({"sharing": mode, "lone_s": lone, "both_s": times, "processor_s": processor})
        })
        .collect();
    Ok(json!({
        "benchmark": "overlap", "rows": arguments.rows, "workers": arguments.workers,
        "interarrival_percent": arguments.interarrival, "curves": curves, "paper_saves_percent": PAPER_SAVES_PERCENT,
    }))
}

/// A join of three tables whose rows of the second large one are from `low` to before `high`.
fn query(low: u64, high: u64) -> String {
    format!(
        "SELECT big1.one_percent, count(*), sum(big2.unique1), max(small.unique2) FROM big1, big2, small \
         WHERE big1.unique1 = big2.unique1 AND big2.ten_percent = small.unique1 AND big2.unique2 >= {low} AND big2.unique2 < {high} \
         GROUP BY big1.one_percent ORDER BY big1.one_percent"
    )
}

/// Makes the tables if they are missing; returns their folder.
fn tables(root: &Path, rows: u64) -> Result<PathBuf> {
    let folder = root.join(format!("wisconsin-{rows}"));
    let made = |name: &str| folder.join(format!("{name}.parquet"));
    if made("small").exists() {
        return Ok(folder);
    }
    let session = Database::open(DatabaseOptions::default())?.session();
    // The small one last: when it is there, all are.
    for (name, rows, step) in [("big1", rows, 7919), ("big2", rows, 104_729), ("small", rows / 10, 7919)] {
        std::fs::create_dir_all(&folder)
            .map_err(|error| Error::file(format!("cannot make {}: {error}", folder.display())))?;
        let path = made(name);
        // A step that shares no factor with the number of rows gives each number once, in no order.
        let copy = format!(
            "COPY (SELECT (value * {step}) % {rows} AS unique1, value AS unique2, value % 2 AS two, value % 10 AS ten, \
             value % 100 AS one_percent, value % {} AS ten_percent, 'A' || lpad(CAST((value * {step}) % {rows} AS VARCHAR), 51, 'x') AS stringu1, \
             'B' || lpad(CAST(value AS VARCHAR), 51, 'x') AS stringu2, 'C' || lpad(CAST(value % 4 AS VARCHAR), 51, 'x') AS string4 \
             FROM generate_series(0::BIGINT, {}) AS g(value)) TO '{}'",
            rows / 10,
            rows - 1,
            path.display()
        );
        session.execute(&copy)?.collect()?;
    }
    Ok(folder)
}

/// Two sessions of an engine that has read nothing yet but the queries' text and what files say of themselves.
fn sessions(folder: &Path, arguments: &OverlapArguments, mode: &str, queries: &[String; 2]) -> Result<[Session; 2]> {
    let (data, workers) = (Some(folder.to_owned()), Some(arguments.workers));
    let options = DatabaseOptions {
        data: data.into_iter().collect(),
        workers,
        settings: setup::settings(),
        ..DatabaseOptions::default()
    };
    let database = Database::open(options)?;
    let sessions = [database.session(), database.session()];
    for session in &sessions {
        session.set("sharing", mode)?;
        for query in queries {
            session.execute(&format!("EXPLAIN {query}"))?.collect()?;
        }
    }
    Ok(sessions)
}

/// The answers, each of an engine of its own.
fn alone(folder: &Path, arguments: &OverlapArguments, queries: &[String; 2]) -> Result<Vec<Vec<String>>> {
    let [session, _] = sessions(folder, arguments, "off", queries)?;
    queries.iter().map(|query| lines(&session.execute(query)?.collect()?)).collect()
}

/// Seconds from when the first query comes until both are answered; the second comes so much later.
fn apart(sessions: &[Session; 2], queries: &[String; 2], gap: Duration, expected: &[Vec<String>]) -> Result<f64> {
    let start = Instant::now();
    let client = |number: usize| -> Result<()> {
        std::thread::sleep((gap * number as u32).saturating_sub(start.elapsed()));
        let answer = lines(&sessions[number].execute(&queries[number])?.collect()?)?;
        if answer != expected[number] {
            return Err(Error::bug(format!("another answer than alone:\n{}\n{answer:?}", queries[number])));
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let client = &client;
        let both = [0, 1].map(|number| scope.spawn(move || client(number)));
        both.into_iter().try_for_each(|one| one.join().map_err(|_| Error::bug("a client panicked"))?)
    })?;
    Ok(start.elapsed().as_secs_f64())
}
