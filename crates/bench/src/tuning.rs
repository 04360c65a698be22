//! A load that changes, with fixed settings and with the tuner: who does how much of it.
//!
//! Four phases follow each other: lookups, a dashboard, large joins in little memory, and the same with temp space on a
//! slow disk. Contestants do all of them, each in a database of its own, and take turns, phase by phase, so that what
//! else the machine does is everybody's. A number is the queries of a phase in a second, beside those of the settings
//! as they come.

use std::fs;
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use diligence_base::{Error, Result};
use diligence_db::{Database, DatabaseOptions, TempOptions};
use diligence_disk::{LocalTempFiles, TempFile, TempFiles};
use diligence_engine::QueryOptions;
use serde_json::{Value, json};

use crate::report::{geometric_mean, median, print_table};
use crate::setup;

/// What to run.
#[derive(Args)]
pub struct TuningArguments {
    /// Scale factor of the TPC-H data.
    #[arg(long, default_value_t = 0.1)]
    sf: f64,
    /// Worker threads.
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Clients, each of which sends its next query when it has the answer to the last.
    #[arg(long, default_value_t = 8)]
    clients: usize,
    /// Seconds of a phase, in each round. The tuner needs some for each change that it tries.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Rounds.
    #[arg(long, default_value_t = 2)]
    rounds: usize,
    /// Memory of the phases with large joins, in MB.
    #[arg(long, default_value_t = 48)]
    memory_mb: usize,
    /// Also settings of contestants, like quantum=500us; several with commas. May be repeated.
    #[arg(long, default_values_t = ["quantum=500us".to_owned(), "packets=1".to_owned(), "read_ahead=8,io_threads=8".to_owned()])]
    fixed: Vec<String>,
    /// Record what the tuner looks at into this directory, a file for each contestant and round.
    #[arg(long)]
    record: Option<std::path::PathBuf>,
}

/// The phases.
const PHASES: [&str; 4] = ["lookups", "dashboard", "joins in little memory", "and a slow disk"];

/// Queries of a dashboard, short ones between long ones.
const DASHBOARD: [usize; 6] = [6, 14, 12, 1, 4, 3];

/// Joins whose tables do not fit into little memory.
const JOINS: [&str; 2] = [
    "SELECT count(*), sum(l_extendedprice) FROM lineitem JOIN orders ON l_orderkey = o_orderkey",
    "SELECT count(*), max(c_name) FROM orders JOIN customer ON o_custkey = c_custkey JOIN lineitem ON l_orderkey = o_orderkey",
];

/// What each answer of a slow disk takes, and a megabyte of it.
const SLOW_ANSWER: Duration = Duration::from_millis(2);
const SLOW_MEGABYTE: Duration = Duration::from_millis(5);

/// Temp files whose disk is slow while it is said so.
#[derive(Debug)]
struct SlowFiles(Arc<AtomicBool>);

struct SlowFile(Arc<dyn TempFile>, Arc<AtomicBool>);

impl TempFiles for SlowFiles {
    fn remove_leftovers(&self, directory: &Path) -> io::Result<usize> {
        LocalTempFiles.remove_leftovers(directory)
    }

    fn create(&self, directory: &Path, direct: bool) -> io::Result<Arc<dyn TempFile>> {
        Ok(Arc::new(SlowFile(LocalTempFiles.create(directory, direct)?, self.0.clone())))
    }
}

impl SlowFile {
    fn wait(&self, bytes: usize) {
        if self.1.load(Ordering::Relaxed) {
            std::thread::sleep(SLOW_ANSWER + SLOW_MEGABYTE.mul_f64(bytes as f64 / 1e6));
        }
    }
}

impl TempFile for SlowFile {
    fn is_direct(&self) -> bool {
        self.0.is_direct()
    }

    fn is_named(&self) -> bool {
        self.0.is_named()
    }

    fn grow(&self, from: u64, to: u64) -> io::Result<()> {
        self.0.grow(from, to)
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.0.truncate(bytes)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.wait(buffer.len());
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        self.wait(slices.iter().map(|slice| slice.len()).sum());
        self.0.write_at(slices, offset)
    }
}

struct Contestant {
    name: String,
    database: Database,
    is_slow: Arc<AtomicBool>,
    /// Queries in a second, of each phase and round.
    per_second: Vec<Vec<f64>>,
}

fn contestant(
    name: &str,
    settings: &[(String, String)],
    data: &Path,
    arguments: &TuningArguments,
) -> Result<Contestant> {
    let is_slow = Arc::new(AtomicBool::new(false));
    let temp =
        TempOptions { files: Arc::new(SlowFiles(is_slow.clone())), ..TempOptions::within(arguments.memory_mb << 20) };
    let settings = setup::settings().into_iter().chain(settings.iter().cloned()).collect();
    let (workers, data, temp) = (Some(arguments.workers), Some(data.to_owned()), Some(temp));
    let database = Database::open(DatabaseOptions {
        data: data.into_iter().collect(),
        workers,
        temp,
        settings,
        ..DatabaseOptions::default()
    })?;
    database.session().execute("CREATE TABLE looked_up AS SELECT * FROM orders")?.collect()?;
    if arguments.record.is_some() {
        database.engine().tuning().record(true);
    }
    Ok(Contestant { name: name.to_owned(), database, is_slow, per_second: vec![Vec::new(); PHASES.len()] })
}

/// Runs the benchmark and prints its table.
pub fn run(arguments: &TuningArguments, data: &Path) -> Result<Value> {
    let directory = setup::data(data, arguments.sf)?;
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let mut contestants = Vec::new();
    for mode in ["off", "on", "observe"] {
        contestants.push(contestant(&format!("tuning={mode}"), &[pair("tuning", mode)], &directory, arguments)?);
    }
    for fixed in &arguments.fixed {
        let wrong = || Error::input(format!("expected settings like quantum=500us, found '{fixed}'"));
        let own = fixed.split(',').map(|one| one.split_once('=').map(|(name, value)| pair(name, value)));
        let mut settings = own.collect::<Option<Vec<_>>>().ok_or_else(wrong)?;
        settings.push(pair("tuning", "off"));
        contestants.push(contestant(fixed, &settings, &directory, arguments)?);
    }
    for round in 0..arguments.rounds {
        for phase in 0..PHASES.len() {
            for contestant in &mut contestants {
                let per_second = play(contestant, phase, arguments)?;
                println!("round {} {}: {}: {per_second:.1}/s", round + 1, PHASES[phase], contestant.name);
                contestant.per_second[phase].push(per_second);
            }
        }
        if let Some(folder) = &arguments.record {
            contestants.iter().try_for_each(|contestant| record(contestant, folder, round))?;
        }
    }
    report(&contestants, arguments)
}

/// All clients in one phase; the queries in a second.
fn play(contestant: &Contestant, phase: usize, arguments: &TuningArguments) -> Result<f64> {
    let database = &contestant.database;
    let is_short_of_memory = phase >= 2;
    let memory = if is_short_of_memory { format!("{}MB", arguments.memory_mb) } else { "2GB".to_owned() };
    database.session().execute(&format!("SET memory = '{memory}'"))?;
    contestant.is_slow.store(phase == 3, Ordering::Relaxed);
    let (done, start) = (AtomicUsize::new(0), Instant::now());
    let time = Duration::from_secs(arguments.seconds);
    let client = |number: usize| -> Result<()> {
        let session = database.session();
        let mut next = number;
        while start.elapsed() < time {
            match phase {
                0 => {
                    // A query of the engine: what is answered at once has no packets.
                    let key = next * 7919 % 100_000;
                    let sql = format!("SELECT count(*), max(o_totalprice) FROM looked_up WHERE o_custkey = {key}");
                    session.execute(&sql)?.collect()?;
                }
                1 => drop(session.execute(diligence_tpch::QUERIES[DASHBOARD[next % DASHBOARD.len()] - 1])?.collect()?),
                _ => drop(session.execute(JOINS[next % JOINS.len()])?.collect()?),
            }
            done.fetch_add(1, Ordering::Relaxed);
            next += 1;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..arguments.clients).map(|number| scope.spawn(move || client(number))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| Error::bug("a client panicked"))?)
    })?;
    Ok(done.into_inner() as f64 / start.elapsed().as_secs_f64())
}

fn record(contestant: &Contestant, folder: &Path, round: usize) -> Result<()> {
    let counters = contestant.database.engine().tuning().record(true);
    let lines = counters.iter().map(|one| format!("{one}\n")).collect::<String>();
    let path = folder.join(format!("{}-{round}.txt", contestant.name.replace(['=', ','], "-")));
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(&path, lines));
    written.map_err(|error| Error::file(format!("cannot write {}: {error}", path.display())))
}

fn report(contestants: &[Contestant], arguments: &TuningArguments) -> Result<Value> {
    let mut header = vec!["queries per second beside tuning=off".to_owned()];
    header.extend(PHASES.map(str::to_owned));
    header.push("all".to_owned());
    let (mut rows, mut results) = (Vec::new(), Vec::new());
    for contestant in contestants {
        // Rounds are compared one by one: what the machine did meanwhile was the same for both.
        let ratios: Vec<f64> = (0..PHASES.len())
            .map(|phase| {
                let own = contestant.per_second[phase].iter().zip(&contestants[0].per_second[phase]);
                median(&own.map(|(own, first)| own / first).collect::<Vec<_>>())
            })
            .collect();
        let mut row = vec![contestant.name.clone()];
        row.extend(ratios.iter().map(|ratio| format!("{ratio:.3}")));
        row.push(format!("{:.3}", geometric_mean(&ratios)));
        rows.push(row);
        let decisions = contestant.database.engine().tuning().decisions();
        let decisions: Vec<_> = decisions
            .iter()
            .map(|one| {
                json!({
                    "at_s": one.at_ns as f64 / 1e9, "knob": one.knob.name(), "from": one.knob.shown(one.from),
                    "to": one.knob.shown(one.to), "reason": one.reason, "took_ns": one.took_ns,
                    "outcome": one.outcome.name(),
                })
            })
            .collect();
        results.push(json!({
            "contestant": contestant.name, "per_second": contestant.per_second, "ratios": ratios,
            "decisions": decisions,
        }));
    }
    println!(
        "\n{} clients, TPC-H SF{}, {} workers, {} s a phase, {} rounds, {} MB for joins, batches of {} rows",
        arguments.clients,
        arguments.sf,
        arguments.workers,
        arguments.seconds,
        arguments.rounds,
        arguments.memory_mb,
        QueryOptions::default().batch_rows
    );
    print_table(&header, &rows);
    Ok(json!({"benchmark": "tuning", "sf": arguments.sf, "workers": arguments.workers, "contestants": results}))
}
