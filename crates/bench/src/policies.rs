//! Short and long queries together under each policy: throughput and latencies of each class.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use diligence_base::{Error, Result};
use diligence_db::{Database, DatabaseOptions};
use diligence_engine::stages::PolicyKind;
use serde_json::{Value, json};

use crate::report::{print_table, quantile};
use crate::setup;

/// What to run.
#[derive(Args)]
pub struct PoliciesArguments {
    /// Scale factor of the TPC-H data.
    #[arg(long, default_value_t = 1.0)]
    sf: f64,
    /// Worker threads.
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Clients that send short queries, one after another.
    #[arg(long, default_value_t = 4)]
    short_clients: usize,
    /// Clients that send long queries, one after another.
    #[arg(long, default_value_t = 4)]
    long_clients: usize,
    /// Seconds per policy and round.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Rounds: the policies take turns.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

/// A few rows of a small table.
const SHORT: &str = "SELECT n_name, count(*) FROM nation, supplier WHERE n_nationkey = s_nationkey GROUP BY n_name";
/// TPC-H queries with large scans, joins and groups.
const LONG: [usize; 4] = [1, 9, 18, 21];

/// Latencies in milliseconds.
#[derive(Default)]
struct Latencies {
    short: Vec<f64>,
    long: Vec<f64>,
}

/// Runs the benchmark and prints its table.
pub fn run(arguments: &PoliciesArguments, data: &Path) -> Result<Value> {
    let directory = setup::data(data, arguments.sf)?;
    let (data, workers) = (Some(directory), Some(arguments.workers));
    let options = DatabaseOptions {
        data: data.into_iter().collect(),
        workers,
        settings: setup::settings(),
        ..DatabaseOptions::default()
    };
    let database = Database::open(options)?;
    let mut all: Vec<(PolicyKind, Latencies)> =
        PolicyKind::ALL.into_iter().map(|kind| (kind, Latencies::default())).collect();
    for _ in 0..arguments.rounds {
        for (kind, latencies) in &mut all {
            database.engine().set_policy(*kind);
            let round = mixed(&database, arguments)?;
            latencies.short.extend(round.short);
            latencies.long.extend(round.long);
        }
    }
    let seconds = (arguments.seconds * arguments.rounds as u64) as f64;
    let header = ["policy", "short/s", "short p50 ms", "short p99 ms", "long/s", "long p50 ms", "long p99 ms"]
        .map(str::to_owned);
    let mut rows = Vec::new();
    let mut results = Vec::new();
    for (kind, latencies) in &all {
        let class = |times: &[f64]| [times.len() as f64 / seconds, quantile(times, 0.5), quantile(times, 0.99)];
        let (short, long) = (class(&latencies.short), class(&latencies.long));
        let mut row = vec![kind.to_string()];
        row.extend(short.iter().chain(&long).map(|value| format!("{value:.1}")));
        rows.push(row);
        results.push(json!({"policy": kind.to_string(), "short": short, "long": long}));
    }
    println!(
        "{} clients with short and {} with long queries, TPC-H SF{}, {} workers",
        arguments.short_clients, arguments.long_clients, arguments.sf, arguments.workers
    );
    print_table(&header, &rows);
    Ok(json!({"benchmark": "policies", "sf": arguments.sf, "workers": arguments.workers, "policies": results}))
}

/// All clients for some seconds.
fn mixed(database: &Database, arguments: &PoliciesArguments) -> Result<Latencies> {
    let stop = Arc::new(AtomicBool::new(false));
    let client = |number: usize, short: bool| {
        let (session, stop) = (database.session(), stop.clone());
        std::thread::spawn(move || -> Result<(bool, Vec<f64>)> {
            let mut times = Vec::new();
            let mut next = number;
            while !stop.load(Ordering::Relaxed) {
                let sql = if short { SHORT } else { diligence_tpch::QUERIES[LONG[next % LONG.len()] - 1] };
                let start = Instant::now();
                session.execute(sql)?.collect()?;
                times.push(start.elapsed().as_secs_f64() * 1e3);
                next += 1;
            }
            Ok((short, times))
        })
    };
    let clients: Vec<_> = (0..arguments.short_clients)
        .map(|number| client(number, true))
        .chain((0..arguments.long_clients).map(|number| client(number, false)))
        .collect();
    std::thread::sleep(Duration::from_secs(arguments.seconds));
    stop.store(true, Ordering::Relaxed);
    let mut latencies = Latencies::default();
    for client in clients {
        let (short, times) = client.join().map_err(|_| Error::bug("a client panicked"))??;
        if short { latencies.short.extend(times) } else { latencies.long.extend(times) }
    }
    Ok(latencies)
}
