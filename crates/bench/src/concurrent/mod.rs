//! Many clients at once, each with one statement at a time (a closed loop): throughput and latencies, with and without sharing, beside
//! rivals that give each client a connection of its own in one process.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use clap::Args;
use diligence_base::{Error, Result};
use diligence_db::{Database, DatabaseOptions};
use serde_json::{Value, json};

use crate::mixes::{Mix, Statements};
use crate::report::{print_table, quantile};
use crate::rivals::{Outcome, Pool, Rival};
use crate::tpch;

/// What to run.
#[derive(Args)]
pub struct Arguments {
    /// Scale factor of the TPC-H data.
    #[arg(long, default_value_t = 1.0)]
    sf: f64,
    /// Worker threads, ours and theirs.
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Clients at once.
    #[arg(long, value_delimiter = ',', default_value = "1,4,16,64")]
    clients: Vec<usize>,
    /// What they ask: same, template:q1 (or another of the dashboard's queries), dash, adhoc (all 22 queries), disjoint, lookup or one.
    #[arg(long, default_value = "dash")]
    mix: Mix,
    /// Our modes of sharing.
    #[arg(long, value_delimiter = ',', default_value = "off,all")]
    sharing: Vec<String>,
    /// The part of our memory budget, in percent, for states that are kept for later queries; 0: no answer is read twice.
    #[arg(long, default_value_t = 0)]
    retained: usize,
    /// Rivals: duckdb (its own file), duckdb-parquet, hyper.
    #[arg(long, value_delimiter = ',')]
    rivals: Vec<String>,
    /// Seconds per number of clients and contestant.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Where constants come from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Statements that a rival's client gets; it begins again if it needs more.
const RIVAL_STATEMENTS: usize = 100;

/// Of each client, so many answers are compared with those of lone runs.
const CHECKED_PER_CLIENT: usize = 2;

/// What the clients of one contestant saw.
#[derive(Default)]
struct Seen {
    /// Milliseconds, of all clients.
    latencies: Vec<f64>,
    seconds: f64,
    /// Some statements with their answers.
    answers: Vec<(String, Vec<String>)>,
}

impl Seen {
    fn row(&self, contestant: &str, clients: usize) -> Vec<String> {
        let numbers = self.numbers();
        let numbers = numbers.iter().map(|number| format!("{number:.1}"));
        [contestant.to_owned(), clients.to_string()].into_iter().chain(numbers).collect()
    }

    /// Queries a second, median and 99th percentile of the latency in milliseconds.
    fn numbers(&self) -> [f64; 3] {
        let rate = self.latencies.len() as f64 / self.seconds.max(1e-9);
        [rate, quantile(&self.latencies, 0.5), quantile(&self.latencies, 0.99)]
    }
}

/// Runs the benchmark and prints its table.
pub fn run(arguments: &Arguments, data: &Path) -> Result<Value> {
    let directory = tpch::data(data, arguments.sf)?;
    let options = DatabaseOptions {
        data: Some(directory.clone()),
        workers: Some(arguments.workers),
        settings: vec![("sharing_retained".to_owned(), arguments.retained.to_string())],
        ..DatabaseOptions::default()
    };
    let database = Database::open(options)?;
    let mut rivals = Vec::new();
    for name in &arguments.rivals {
        rivals.push(Rival::start(name, &directory, arguments.workers)?);
    }
    let (mut rows, mut results) = (Vec::new(), Vec::new());
    let mut checked = 0;
    for &clients in &arguments.clients {
        for mode in &arguments.sharing {
            let before = database.engine().sharing();
            let seen = own(&database, mode, clients, arguments)?;
            checked += check(&database, &seen)?;
            let after = database.engine().sharing();
            let mut row = seen.row(&format!("diligence {mode}"), clients);
            let builds = after.builds_total - before.builds_total;
            let queries = after.queries_total - before.queries_total;
            row.push(if builds == 0 { "-".into() } else { format!("{:.1}", queries as f64 / builds as f64) });
            rows.push(row);
            results.push(json!({"contestant": mode, "clients": clients, "numbers": seen.numbers()}));
        }
        for rival in &mut rivals {
            let seen = theirs(rival, clients, arguments)?;
            let mut row = seen.row(rival.name(), clients);
            row.push("-".into());
            rows.push(row);
            results.push(json!({"contestant": rival.name(), "clients": clients, "numbers": seen.numbers()}));
        }
    }
    println!(
        "{:?}, TPC-H SF{}, {} workers; {checked} answers compared with lone runs",
        arguments.mix, arguments.sf, arguments.workers
    );
    let header = ["contestant", "clients", "queries/s", "p50 ms", "p99 ms", "queries/run"].map(str::to_owned);
    print_table(&header, &rows);
    Ok(json!({"benchmark": "concurrent", "sf": arguments.sf, "workers": arguments.workers, "results": results}))
}

/// Our clients, each on a thread with a session of its own.
fn own(database: &Database, mode: &str, clients: usize, arguments: &Arguments) -> Result<Seen> {
    let stop = AtomicBool::new(false);
    let client = |number: usize| -> Result<Seen> {
        let session = database.session();
        session.set("sharing", mode)?;
        let mut seen = Seen::default();
        for statement in Statements::new(arguments.mix, arguments.sf, arguments.seed, number) {
            let sql = statement.text;
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let start = Instant::now();
            let batches = session.execute(&sql)?.collect()?;
            seen.latencies.push(start.elapsed().as_secs_f64() * 1e3);
            if seen.answers.len() < CHECKED_PER_CLIENT {
                seen.answers.push((sql, lines(&batches)?));
            }
        }
        Ok(seen)
    };
    let start = Instant::now();
    std::thread::scope(|scope| {
        let client = &client;
        let threads: Vec<_> = (0..clients).map(|number| scope.spawn(move || client(number))).collect();
        std::thread::sleep(Duration::from_secs(arguments.seconds));
        stop.store(true, Ordering::Relaxed);
        let mut all = Seen::default();
        for thread in threads {
            let seen = thread.join().map_err(|_| Error::bug("a client panicked"))??;
            all.latencies.extend(seen.latencies);
            all.answers.extend(seen.answers);
        }
        all.seconds = start.elapsed().as_secs_f64();
        Ok(all)
    })
}

/// A rival's clients, each with a connection of its own.
fn theirs(rival: &mut Rival, clients: usize, arguments: &Arguments) -> Result<Seen> {
    let statements = (0..clients).map(|client| {
        let statements = Statements::new(arguments.mix, arguments.sf, arguments.seed, client);
        statements.take(RIVAL_STATEMENTS).map(|statement| statement.text).collect::<Vec<_>>()
    });
    let pool = Pool { clients: statements.collect(), starts: None };
    let (records, seconds) = rival.run_clients(&[pool], arguments.seconds as f64)?;
    if records.iter().any(|record| record.outcome != Outcome::Answered) {
        return Err(Error::value(format!("{} does not answer every statement", rival.name())));
    }
    let latencies = records.iter().map(|record| record.latency_ms).collect();
    Ok(Seen { latencies, seconds, answers: Vec::new() })
}

/// Compares answers with those of the same statements run alone. Returns how many.
fn check(database: &Database, seen: &Seen) -> Result<usize> {
    let session = database.session();
    session.set("sharing", "off")?;
    for (sql, answer) in &seen.answers {
        let alone = lines(&session.execute(sql)?.collect()?)?;
        if *answer != alone {
            return Err(Error::bug(format!("another answer than alone:\n{sql}\n{answer:?}\n{alone:?}")));
        }
    }
    Ok(seen.answers.len())
}

/// The rows as text, digit by digit, in an order of their own.
fn lines(batches: &[RecordBatch]) -> Result<Vec<String>> {
    let options = FormatOptions::new().with_null("NULL");
    let mut lines = Vec::new();
    for batch in batches {
        let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options));
        let columns = columns.collect::<Result<Vec<_>, _>>().map_err(|error| Error::bug(error.to_string()))?;
        for row in 0..batch.num_rows() {
            lines.push(columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("|"));
        }
    }
    lines.sort();
    Ok(lines)
}
