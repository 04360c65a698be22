//! What it costs to start a query.
//!
//! The experiment of Bortvedt's thesis, chapter 5: plans of 1, 3 and 5 exchanges with 1 to 8 packets each over empty
//! inputs, on primed workers; beside it, what the same number of threads or processes would cost to start.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use arrow::datatypes::{DataType, Field, Schema};
use clap::Args;
use diligence_base::{Error, Result};
use diligence_db::Database;
use diligence_engine::QueryOptions;
use diligence_engine::plan::Pact;
use diligence_engine::plan::{Node, Plan};
use diligence_engine::{Engine, EngineOptions};
use serde_json::{Value, json};

use crate::report::{median, print_table};

/// What to run.
#[derive(Args)]
pub struct StartupArguments {
    /// Worker threads.
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Runs of each plan; medians are printed.
    #[arg(long, default_value_t = 301)]
    runs: usize,
    /// Runs of each thread and process experiment.
    #[arg(long, default_value_t = 51)]
    spawn_runs: usize,
}

/// Runs the benchmark and prints its tables.
pub fn run(arguments: &StartupArguments) -> Result<Value> {
    let engine = Engine::start(EngineOptions { workers: arguments.workers, ..EngineOptions::default() })?;
    let header = ["exchanges", "packets each", "packets", "primed us", "us/packet", "threads us", "processes us"];
    let mut rows = Vec::new();
    let mut results = Vec::new();
    for exchanges in [1, 3, 5] {
        for each in [1, 2, 4, 8] {
            // Every exchange has `each` consumers; one more packet gathers, one reads the empty input.
            let packets = exchanges * each + 1;
            let plan = plan(exchanges, each);
            let primed = measured(arguments.runs, || {
                let mut stream = engine.run(&plan, QueryOptions { packets: Some(each), ..QueryOptions::default() })?;
                while let Some(batch) = stream.next_blocking() {
                    batch?;
                }
                Ok(())
            })?;
            let threads = measured(arguments.spawn_runs, || spawn_threads(packets))?;
            let processes = measured(arguments.spawn_runs.min(11), || spawn_processes(packets))?;
            let each_us = primed / packets as f64;
            rows.push(vec![
                exchanges.to_string(),
                each.to_string(),
                packets.to_string(),
                format!("{primed:.0}"),
                format!("{each_us:.1}"),
                format!("{threads:.0}"),
                format!("{processes:.0}"),
            ]);
            results.push(json!({
                "exchanges": exchanges, "packets_each": each, "packets": packets, "primed_us": primed,
                "primed_us_per_packet": each_us, "threads_us": threads, "processes_us": processes,
            }));
        }
    }
    println!("starting and ending a query over empty inputs, {} workers, medians", arguments.workers);
    print_table(&header.map(str::to_owned), &rows);

    let session = Database::in_memory()?.session();
    let select_one = measured(arguments.runs * 3, || session.execute("SELECT 1")?.collect().map(|_| ()))?;
    println!("SELECT 1 through the library: {select_one:.0} us");
    Ok(json!({"benchmark": "startup", "workers": arguments.workers, "plans": results, "select_1_us": select_one}))
}

/// A chain of round-robin exchanges over nothing.
fn plan(exchanges: usize, consumers: usize) -> Plan {
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
    (0..exchanges).fold(Plan::new(Node::Values { batches: Vec::new() }, schema.clone()), |input, _| {
        let node = Node::Exchange { input: Box::new(input), pact: Pact::RoundRobin, consumers };
        Plan::new(node, schema.clone())
    })
}

/// The median time of a run in microseconds, after some that do not count.
fn measured(runs: usize, mut body: impl FnMut() -> Result<()>) -> Result<f64> {
    for _ in 0..runs / 10 + 1 {
        body()?;
    }
    let mut times = Vec::with_capacity(runs);
    for _ in 0..runs {
        let start = Instant::now();
        body()?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    Ok(median(&times))
}

/// Starts so many threads that do nothing, and waits for them.
fn spawn_threads(count: usize) -> Result<()> {
    let threads: Vec<_> = (0..count).map(|_| std::thread::spawn(|| {})).collect();
    for thread in threads {
        thread.join().map_err(|_| Error::bug("an empty thread panicked"))?;
    }
    Ok(())
}

/// Starts so many processes that do nothing, and waits for them.
fn spawn_processes(count: usize) -> Result<()> {
    let failed = |error: std::io::Error| Error::resource(format!("cannot start 'true': {error}"));
    let processes = (0..count)
        .map(|_| Command::new("true").stdin(Stdio::null()).spawn())
        .collect::<std::io::Result<Vec<_>>>()
        .map_err(failed)?;
    for mut process in processes {
        process.wait().map_err(failed)?;
    }
    Ok(())
}
