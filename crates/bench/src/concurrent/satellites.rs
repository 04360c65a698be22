//! What a query costs that comes together with others: processor time for each one more, and how that grows.
//!
//! All clients of a round send one statement each, at the same moment. The process is measured until the last has its
//! answer, so the clients' own work, planning included, is in the numbers.

use std::path::Path;
use std::sync::Barrier;
use std::time::Instant;

use clap::Args;
use diligence_base::{Error, Result};
use diligence_db::{Database, DatabaseOptions};
use serde_json::{Value, json};

use crate::mixes::{Mix, Statements};
use crate::report::{median, print_table};
use crate::{cpu, setup};

/// What to run.
#[derive(Args)]
pub struct SatellitesArguments {
    /// Scale factor of the TPC-H data.
    #[arg(long, default_value_t = 1.0)]
    sf: f64,
    /// Worker threads.
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Clients that come at once. The first number is what the others are compared with.
    #[arg(long, value_delimiter = ',', default_value = "1,4,16,64,256")]
    clients: Vec<usize>,
    /// What they ask, as in `concurrent`.
    #[arg(long, value_delimiter = ',', default_value = "same,template:q1,template:q6,dash")]
    mix: Vec<Mix>,
    /// Our modes of sharing.
    #[arg(long, value_delimiter = ',', default_value = "off,all")]
    sharing: Vec<String>,
    /// Rounds that count, after some that do not; medians are shown.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Where constants come from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Rounds that do not count: a column's first scan leaves nothing, the second leaves what it decodes, the third finds
/// it.
const ROUNDS_BEFORE: usize = 2;

/// What a round took, in milliseconds.
#[derive(Clone, Copy)]
struct Taken {
    elapsed: f64,
    processor: f64,
}

/// Runs the benchmark and prints its table.
pub fn run(arguments: &SatellitesArguments, root: &Path) -> Result<Value> {
    let (data, workers) = (Some(setup::data(root, arguments.sf)?), Some(arguments.workers));
    let options = DatabaseOptions {
        data: data.into_iter().collect(),
        workers,
        settings: setup::settings(),
        ..DatabaseOptions::default()
    };
    let database = Database::open(options)?;
    let (mut rows, mut results) = (Vec::new(), Vec::new());
    for &mix in &arguments.mix {
        for mode in &arguments.sharing {
            // Clients, and milliseconds of processor time, of the round before and of the first.
            let mut points: Vec<(usize, f64)> = Vec::new();
            for &clients in &arguments.clients {
                let mut taken = Vec::new();
                for round in 0..ROUNDS_BEFORE + arguments.rounds.max(1) {
                    taken.push(burst(&database, mode, mix, clients, round, arguments)?);
                }
                taken.drain(..ROUNDS_BEFORE);
                let of = |value: fn(&Taken) -> f64| median(&taken.iter().map(value).collect::<Vec<_>>());
                let (elapsed, processor) = (of(|taken| taken.elapsed), of(|taken| taken.processor));
                // Of each query that one point has more than another.
                let added = |from: Option<&(usize, f64)>| {
                    let (before, cost) = from.filter(|(before, _)| *before < clients)?;
                    Some((processor - cost) / (clients - before) as f64)
                };
                let (since_first, since_last) = (added(points.first()), added(points.last()));
                let shown = |number: Option<f64>| number.map_or("-".to_owned(), |number| format!("{number:.2}"));
                rows.push(vec![
                    mix.to_string(),
                    mode.clone(),
                    clients.to_string(),
                    format!("{elapsed:.1}"),
                    format!("{processor:.1}"),
                    shown(since_first),
                    shown(since_last),
                ]);
                results.push(json!({
                    "mix": mix.to_string(), "sharing": mode, "clients": clients, "elapsed_ms": elapsed, "cpu_ms": processor,
                    "cpu_ms_per_added": since_first, "cpu_ms_per_added_since_last": since_last,
                }));
                points.push((clients, processor));
            }
        }
    }
    println!(
        "clients that come at once, TPC-H SF{}, {} workers, medians of {} rounds",
        arguments.sf, arguments.workers, arguments.rounds
    );
    let header = ["mix", "sharing", "clients", "elapsed ms", "cpu ms", "cpu ms/added", "cpu ms/added since last"];
    print_table(&header.map(str::to_owned), &rows);
    Ok(json!({"benchmark": "satellites", "sf": arguments.sf, "workers": arguments.workers, "results": results}))
}

/// One round: each client's statement, at once. The statements are the same in all modes, and others in each round.
fn burst(
    database: &Database,
    mode: &str,
    mix: Mix,
    clients: usize,
    round: usize,
    arguments: &SatellitesArguments,
) -> Result<Taken> {
    // The clients, and whoever measures.
    let (ready, begin) = (Barrier::new(clients + 1), Barrier::new(clients + 1));
    let client = |number: usize| -> Result<()> {
        let session = database.session();
        let set = session.set("sharing", mode);
        let statement = Statements::new(mix, arguments.sf, arguments.seed.wrapping_add(round as u64), number).next();
        ready.wait();
        begin.wait();
        set?;
        statement.map_or(Ok(()), |statement| session.execute(&statement.text)?.collect().map(drop))
    };
    std::thread::scope(|scope| {
        let client = &client;
        let threads: Vec<_> = (0..clients).map(|number| scope.spawn(move || client(number))).collect();
        ready.wait();
        let (start, before) = (Instant::now(), cpu::seconds());
        begin.wait();
        threads.into_iter().try_for_each(|one| one.join().map_err(|_| Error::bug("a client panicked"))?)?;
        let processor = (cpu::seconds() - before) * 1e3;
        Ok(Taken { elapsed: start.elapsed().as_secs_f64() * 1e3, processor })
    })
}
