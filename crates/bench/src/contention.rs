//! What threads wait for: the engine's latches with 1 to 64 workers.
//!
//! The study of Graefe and Thakkar ("Tuning a Parallel Database Algorithm on a Shared-Memory Multiprocessor", 1992,
//! Figures 4 to 6, Tables II to V), who found the one lock of their buffer pool by a monitor of the hardware. Here
//! packets hand batches to each other, and small queries start and end; [`latches`] says what that costs. What Amdahl
//! allows follows from the latch that is held longest: no number of workers does more than one turn in the time for
//! which a turn holds it.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use clap::Args;
use diligence_base::sync::{Latch, LatchInfo, Mutex, latches};
use diligence_base::{Error, Result};
use diligence_engine::plan::{Node, Pact, Plan};
use diligence_engine::tuning::TuningMode;
use diligence_engine::{Engine, EngineOptions, QueryOptions};
use diligence_memory::default_budget_bytes;
use serde_json::{Value, json};

use crate::report::{median, print_table};

/// What to run.
#[derive(Args)]
pub struct ContentionArguments {
    /// Worker threads.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16, 32, 64])]
    workers: Vec<usize>,
    /// Rows of a batch that is handed on: the fewer, the more of the work is handing on.
    #[arg(long, value_delimiter = ',', default_values_t = [16, 1024])]
    rows: Vec<usize>,
    /// Seconds for each measurement.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Rounds: the numbers of workers take turns.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Measure with each worker on one core, too.
    #[arg(long)]
    pin_workers: bool,
}

/// Latches of which an engine has one: these are what Amdahl's law is about. Of the others each query, port or packet
/// has its own.
const ONLY: [&str; 10] = [
    "stages",
    "sharing",
    "retained states",
    "join tables",
    "decoded columns",
    "memory accounts",
    "memory waiting",
    "io",
    "temp space",
    "transfers",
];

/// Batches of a plan's input.
const BATCHES: usize = 2000;

/// What is done again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ContentionLoad {
    /// Batches of so many rows pass two exchanges.
    Batches(usize),
    /// Queries over nothing start and end.
    Queries,
}

/// What was measured of a load with so many workers.
#[derive(Clone, Default)]
struct Measured {
    /// Batches or queries in a second, of each round.
    per_second: Vec<f64>,
    seconds: f64,
    turns: u64,
    service_ns: u64,
    latches: Vec<LatchInfo>,
}

/// Runs the benchmark and prints its tables.
pub fn run(arguments: &ContentionArguments) -> Result<Value> {
    let (plain_ns, named_ns) = (lock_ns(&Mutex::new(0)), lock_ns(&Mutex::named(&COST, 0)));
    println!("taking a lock that nobody has: {plain_ns:.1} ns, counted: {named_ns:.1} ns");
    let loads = arguments.rows.iter().map(|&rows| ContentionLoad::Batches(rows)).chain([ContentionLoad::Queries]);
    let mut results = Vec::new();
    for load in loads {
        let pins = if arguments.pin_workers { vec![false, true] } else { vec![false] };
        let cases: Vec<_> = pins.iter().flat_map(|&pin| arguments.workers.iter().map(move |&one| (one, pin))).collect();
        let mut all = vec![Measured::default(); cases.len()];
        for _ in 0..arguments.rounds {
            for ((workers, is_pinned), measured) in cases.iter().zip(&mut all) {
                measure(load, *workers, *is_pinned, Duration::from_secs_f64(arguments.seconds), measured)?;
            }
        }
        let what = match load {
            ContentionLoad::Batches(rows) => format!("batches of {rows} rows through two exchanges"),
            ContentionLoad::Queries => "queries of 3 exchanges over nothing, two clients for each worker".to_owned(),
        };
        results.push(json!({"load": what, "workers": table(&what, &cases, &all)}));
    }
    Ok(json!({"benchmark": "contention", "lock_ns": plain_ns, "counted_lock_ns": named_ns, "loads": results}))
}

static COST: Latch = Latch::new("bench");

/// Nanoseconds for taking and giving a lock that nobody else wants.
fn lock_ns(mutex: &Mutex<u64>) -> f64 {
    const LOCKS: u32 = 1_000_000;
    let times = (0..11).map(|_| {
        let start = Instant::now();
        for _ in 0..LOCKS {
            *black_box(mutex).lock() += 1;
        }
        start.elapsed().as_nanos() as f64 / f64::from(LOCKS)
    });
    median(&times.collect::<Vec<_>>())
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]))
}

/// Batches that pass exchanges to so many packets each.
fn plan(batches: usize, rows: usize, exchanges: usize, consumers: usize) -> Result<Plan> {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
    let batch = RecordBatch::try_new(schema(), vec![numbers]).map_err(|error| Error::bug(error.to_string()))?;
    let values = Plan::new(Node::Values { batches: vec![batch; batches] }, schema());
    Ok((0..exchanges).fold(values, |input, _| {
        let node = Node::Exchange { input: Box::new(input), pact: Pact::RoundRobin, consumers };
        Plan::new(node, schema())
    }))
}

/// Runs a plan to its end.
fn drain(engine: &Arc<Engine>, plan: &Plan, packets: usize) -> Result<()> {
    let mut stream = engine.run(plan, QueryOptions { packets: Some(packets), ..QueryOptions::default() })?;
    while let Some(batch) = stream.next_blocking() {
        batch?;
    }
    Ok(())
}

fn measure(
    load: ContentionLoad,
    workers: usize,
    pin_workers: bool,
    time: Duration,
    measured: &mut Measured,
) -> Result<()> {
    // Each packet of a query may hold some batches; the budget is not what is measured.
    let memory_bytes = default_budget_bytes();
    let tuning = TuningMode::Off;
    let engine =
        Engine::start(EngineOptions { workers, pin_workers, memory_bytes, tuning, ..EngineOptions::default() })?;
    let (plan, clients, each) = match load {
        ContentionLoad::Batches(rows) => (plan(BATCHES, rows, 2, workers)?, 1, BATCHES),
        ContentionLoad::Queries => (plan(0, 0, 3, 2)?, 2 * workers, 1),
    };
    let packets = if load == ContentionLoad::Queries { 2 } else { workers };
    drain(&engine, &plan, packets)?;
    let stages = || {
        let stages = engine.stages();
        let sum = |value: fn(&diligence_engine::stages::StageInfo) -> u64| stages.iter().map(value).sum::<u64>();
        (sum(|stage| stage.turns_total), sum(|stage| stage.service_ns_total))
    };
    let ((turns, service_ns), before, start) = (stages(), latches(), Instant::now());
    let client = || -> Result<usize> {
        let mut done = 0;
        while start.elapsed() < time {
            drain(&engine, &plan, packets)?;
            done += each;
        }
        Ok(done)
    };
    let done = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..clients).map(|_| scope.spawn(client)).collect();
        let done = threads.into_iter().map(|thread| thread.join().map_err(|_| Error::bug("a client panicked"))?);
        done.sum::<Result<usize>>()
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let after = stages();
    measured.per_second.push(done as f64 / seconds);
    measured.seconds += seconds;
    measured.turns += after.0 - turns;
    measured.service_ns += after.1 - service_ns;
    for latch in latches() {
        let old = before.iter().find(|old| old.name == latch.name).cloned().unwrap_or_default();
        let place = measured.latches.iter().position(|known| known.name == latch.name).unwrap_or_else(|| {
            measured.latches.push(LatchInfo { name: latch.name, ..LatchInfo::default() });
            measured.latches.len() - 1
        });
        let sum = &mut measured.latches[place];
        sum.acquisitions_total += latch.acquisitions_total - old.acquisitions_total;
        sum.contended_total += latch.contended_total - old.contended_total;
        sum.wait_ns_total += latch.wait_ns_total - old.wait_ns_total;
        sum.hold_ns_total += latch.hold_ns_total.saturating_sub(old.hold_ns_total);
    }
    Ok(())
}

/// Prints what was measured with each number of workers, and returns it.
fn table(what: &str, cases: &[(usize, bool)], all: &[Measured]) -> Vec<Value> {
    let header = [
        "workers",
        "per second",
        "speedup",
        "turns/s",
        "us/turn",
        "latches/turn",
        "wait us/turn",
        "hold us/turn",
        "held longest",
        "of the time",
        "contended",
        "Amdahl allows",
    ];
    let (mut rows, mut results) = (Vec::new(), Vec::new());
    for ((workers, is_pinned), measured) in cases.iter().zip(all) {
        let turns = measured.turns.max(1) as f64;
        let sum = |value: fn(&LatchInfo) -> u64| measured.latches.iter().map(value).sum::<u64>() as f64;
        let per_turn_us = |ns: f64| ns / 1e3 / turns;
        // What a packet does is under its own latch, which nobody else wants while it runs.
        let others = measured.latches.iter().filter(|latch| latch.name != "packet");
        let only = others.clone().filter(|latch| ONLY.contains(&latch.name));
        let longest = only.max_by_key(|latch| latch.hold_ns_total).cloned().unwrap_or_default();
        let hold_ns = others.map(|latch| latch.hold_ns_total).sum::<u64>() as f64;
        let held_share = longest.hold_ns_total as f64 / 1e9 / measured.seconds;
        let contended = longest.contended_total as f64 / longest.acquisitions_total.max(1) as f64;
        let (per_second, service_us) = (median(&measured.per_second), per_turn_us(measured.service_ns as f64));
        // A turn takes so long, and of that it has the latch for so long, which only one can.
        let longest_us = per_turn_us(longest.hold_ns_total as f64);
        let amdahl = (service_us + longest_us) / longest_us.max(f64::MIN_POSITIVE);
        let speedup = per_second / median(&all[0].per_second);
        rows.push(vec![
            format!("{workers}{}", if *is_pinned { " pinned" } else { "" }),
            format!("{per_second:.0}"),
            format!("{speedup:.2}"),
            format!("{:.0}", turns / measured.seconds),
            format!("{service_us:.1}"),
            format!("{:.1}", sum(|latch| latch.acquisitions_total) / turns),
            format!("{:.2}", per_turn_us(sum(|latch| latch.wait_ns_total))),
            format!("{:.2}", per_turn_us(hold_ns)),
            longest.name.to_owned(),
            format!("{:.1} %", 100.0 * held_share),
            format!("{:.1} %", 100.0 * contended),
            format!("{amdahl:.0}"),
        ]);
        let latches = measured.latches.iter().filter(|latch| latch.acquisitions_total > 0).map(|latch| {
            json!({
                "name": latch.name, "acquisitions": latch.acquisitions_total, "contended": latch.contended_total,
                "wait_us": latch.wait_ns_total / 1000, "hold_us": latch.hold_ns_total / 1000,
            })
        });
        results.push(json!({
            "workers": workers, "pinned": is_pinned, "per_second": per_second, "speedup": speedup,
            "turns_per_second": turns / measured.seconds, "service_us_per_turn": service_us,
            "wait_us_per_turn": per_turn_us(sum(|latch| latch.wait_ns_total)),
            "hold_us_per_turn": per_turn_us(hold_ns), "held_longest": longest.name, "held_share": held_share,
            "contended_share": contended, "amdahl_speedup": amdahl, "latches": latches.collect::<Vec<_>>(),
        }));
    }
    println!("\n{what}");
    print_table(&header.map(str::to_owned), &rows);
    results
}
