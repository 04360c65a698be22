//! Many clients at once: throughput, latencies and processor time, with and without sharing, beside rivals that give
//! each client a connection of its own in one process. In a closed loop each has one statement at a time; in an open
//! one statements fall [`due`](crate::due).

pub mod overlap;
pub mod satellites;

use std::path::Path;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use clap::Args;
use diligence_base::{Error, Result};
use diligence_db::{Database, DatabaseOptions};
use serde_json::{Value, json};

use crate::due::{Due, schedule};
use crate::mixes::{Mix, Statements};
use crate::report::{print_table, quantile};
use crate::rivals::{Outcome, Pool, Rival};
use crate::{cpu, setup};

/// What to run.
#[derive(Args)]
pub struct ConcurrentArguments {
    /// Scale factor of the TPC-H data.
    #[arg(long, default_value_t = 1.0)]
    sf: f64,
    /// Worker threads, ours and theirs.
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Clients at once.
    #[arg(long, value_delimiter = ',', default_value = "1,4,16,64")]
    clients: Vec<usize>,
    /// What they ask: same, template:q1 (or another of the dashboard's queries), dash, adhoc (all 22 queries), lists,
    /// joins, disjoint, apart, lookup or one.
    #[arg(long, default_value = "dash")]
    mix: Mix,
    /// Our modes of sharing.
    #[arg(long, value_delimiter = ',', default_value = "off,all")]
    sharing: Vec<String>,
    /// The part of our memory budget, in percent, for states that are kept for later queries; 0: no answer is read
    /// twice.
    #[arg(long, default_value_t = 0)]
    retained: usize,
    /// After the closed loop, open ones at these multiples of each contestant's best throughput.
    #[arg(long, value_delimiter = ',')]
    open: Vec<f64>,
    /// Clients of an open loop [default: the most of --clients].
    #[arg(long)]
    open_clients: Option<usize>,
    /// Rivals: duckdb (its own file), duckdb-parquet, hyper.
    #[arg(long, value_delimiter = ',')]
    rivals: Vec<String>,
    /// Seconds per number of clients and contestant.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Answers per number of clients that are compared with those of lone runs, two of a client at most.
    #[arg(long, default_value_t = 1000)]
    checked: usize,
    /// Where constants come from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Statements that a rival's client gets; it begins again if it needs more.
const RIVAL_STATEMENTS: usize = 100;

/// Of each client, so many answers at most are compared with those of lone runs.
const CHECKED_PER_CLIENT: usize = 2;

/// Whom clients ask.
enum ConcurrentContestant {
    /// Ourselves, with a mode of sharing.
    Own(String),
    Rival(Rival),
}

impl ConcurrentContestant {
    fn name(&self) -> String {
        match self {
            ConcurrentContestant::Own(mode) => format!("diligence {mode}"),
            ConcurrentContestant::Rival(rival) => rival.name().to_owned(),
        }
    }
}

/// A number of clients, and when they send.
struct Load {
    clients: usize,
    /// Of an open loop, seconds from the start.
    starts: Option<Vec<f64>>,
}

/// What the clients of one contestant saw.
#[derive(Default)]
struct Seen {
    /// Milliseconds since they were due, of all clients.
    latencies: Vec<f64>,
    /// Milliseconds from when they were due until they were sent.
    queues: Vec<f64>,
    seconds: f64,
    /// Due and not sent.
    left: usize,
    /// Seconds of processor time, of our own.
    cpu_seconds: Option<f64>,
    /// Different queries for each run that was shared.
    queries_per_run: Option<f64>,
    /// Some statements with their answers.
    answers: Vec<(String, Vec<String>)>,
}

impl Seen {
    /// Answers a second.
    fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.seconds.max(1e-9)
    }

    fn row(&self, contestant: &str, kind: &str, load: &Load) -> Vec<String> {
        let some =
            |number: Option<f64>, digits: usize| number.map_or("-".to_owned(), |number| format!("{number:.digits$}"));
        let due = load.starts.as_ref().map(|starts| starts.len() as f64 / self.seconds.max(1e-9));
        let queue = load.starts.as_ref().map(|_| quantile(&self.queues, 0.99));
        let cpu_ms = self.cpu_seconds.map(|seconds| seconds * 1e3 / self.latencies.len().max(1) as f64);
        let latency = |share| format!("{:.1}", quantile(&self.latencies, share));
        vec![
            contestant.to_owned(),
            kind.to_owned(),
            load.clients.to_string(),
            some(due, 1),
            format!("{:.1}", self.rate()),
            latency(0.5),
            latency(0.99),
            some(queue, 1),
            self.left.to_string(),
            some(self.queries_per_run, 1),
            some(cpu_ms, 2),
        ]
    }

    fn json(&self, contestant: &str, kind: &str, load: &Load) -> Value {
        json!({
            "contestant": contestant, "loop": kind, "clients": load.clients, "due": load.starts.as_ref().map(Vec::len),
            "answered_per_s": self.rate(), "seconds": self.seconds, "not_sent": self.left,
            "latency_ms": [quantile(&self.latencies, 0.5), quantile(&self.latencies, 0.99)],
            "queue_ms": [quantile(&self.queues, 0.5), quantile(&self.queues, 0.99)],
            "queries_per_run": self.queries_per_run, "cpu_s": self.cpu_seconds,
        })
    }
}

/// What is printed.
#[derive(Default)]
struct Table {
    rows: Vec<Vec<String>>,
    results: Vec<Value>,
    checked: usize,
}

/// Runs the benchmark and prints its table.
pub fn run(arguments: &ConcurrentArguments, data: &Path) -> Result<Value> {
    let directory = setup::data(data, arguments.sf)?;
    let options = DatabaseOptions {
        data: vec![directory.clone()],
        workers: Some(arguments.workers),
        settings: vec![("sharing_retained".to_owned(), arguments.retained.to_string())],
        ..DatabaseOptions::default()
    };
    let database = Database::open(options)?;
    let mut contestants: Vec<_> = arguments.sharing.iter().cloned().map(ConcurrentContestant::Own).collect();
    for name in &arguments.rivals {
        contestants.push(ConcurrentContestant::Rival(Rival::start(name, &directory, arguments.workers)?));
    }
    let mut table = Table::default();
    let mut best = vec![0.0f64; contestants.len()];
    for &clients in &arguments.clients {
        for (contestant, best) in contestants.iter_mut().zip(&mut best) {
            let load = Load { clients, starts: None };
            *best = best.max(table.ask(&database, contestant, "closed", &load, arguments)?);
        }
    }
    let most = arguments.clients.iter().copied().max().unwrap_or(1);
    let clients = arguments.open_clients.unwrap_or(most);
    for &multiple in &arguments.open {
        for (contestant, best) in contestants.iter_mut().zip(&best) {
            let starts = Some(schedule(best * multiple, arguments.seconds as f64, arguments.seed));
            let kind = format!("open {multiple}x");
            table.ask(&database, contestant, &kind, &Load { clients, starts }, arguments)?;
        }
    }
    println!(
        "{:?}, TPC-H SF{}, {} workers, {} s each; {} answers compared with lone runs",
        arguments.mix, arguments.sf, arguments.workers, arguments.seconds, table.checked
    );
    let header = [
        "contestant",
        "loop",
        "clients",
        "due/s",
        "queries/s",
        "p50 ms",
        "p99 ms",
        "queue p99 ms",
        "not sent",
        "queries/run",
        "cpu ms/query",
    ];
    print_table(&header.map(str::to_owned), &table.rows);
    Ok(json!({"benchmark": "concurrent", "sf": arguments.sf, "workers": arguments.workers, "results": table.results}))
}

impl Table {
    /// Has a contestant asked, and adds its row; returns its answers a second.
    fn ask(
        &mut self,
        database: &Database,
        contestant: &mut ConcurrentContestant,
        kind: &str,
        load: &Load,
        arguments: &ConcurrentArguments,
    ) -> Result<f64> {
        let seen = match contestant {
            ConcurrentContestant::Own(mode) => {
                let seen = own(database, mode, load, arguments)?;
                self.checked += check(database, &seen)?;
                seen
            }
            ConcurrentContestant::Rival(rival) => theirs(rival, load, arguments)?,
        };
        self.rows.push(seen.row(&contestant.name(), kind, load));
        self.results.push(seen.json(&contestant.name(), kind, load));
        Ok(seen.rate())
    }
}

/// Our clients, each on a thread with a session of its own.
fn own(database: &Database, mode: &str, load: &Load, arguments: &ConcurrentArguments) -> Result<Seen> {
    let due = Due::new(load.starts.clone());
    let (before, cpu_before) = (database.engine().sharing(), cpu::seconds());
    let start = Instant::now();
    let now = || start.elapsed().as_secs_f64();
    let client = |number: usize| -> Result<Seen> {
        let session = database.session();
        session.set("sharing", mode)?;
        // The first clients take the rest.
        let checked = (arguments.checked + load.clients - 1 - number) / load.clients;
        let checked = checked.min(CHECKED_PER_CLIENT);
        let mut seen = Seen::default();
        for statement in Statements::new(arguments.mix, arguments.sf, arguments.seed, number) {
            let Some(wanted) = due.take(now()) else { break };
            std::thread::sleep(Duration::from_secs_f64((wanted - now()).max(0.0)));
            let began = now();
            if began >= arguments.seconds as f64 {
                break;
            }
            due.note_sent();
            let batches = session.execute(&statement.text)?.collect()?;
            seen.latencies.push((now() - wanted) * 1e3);
            seen.queues.push((began - wanted) * 1e3);
            if seen.answers.len() < checked {
                seen.answers.push((statement.text, lines(&batches)?));
            }
        }
        Ok(seen)
    };
    let mut all = Seen::default();
    std::thread::scope(|scope| -> Result<()> {
        let client = &client;
        let threads: Vec<_> = (0..load.clients).map(|number| scope.spawn(move || client(number))).collect();
        for thread in threads {
            let seen = thread.join().map_err(|_| Error::bug("a client panicked"))??;
            all.latencies.extend(seen.latencies);
            all.queues.extend(seen.queues);
            all.answers.extend(seen.answers);
        }
        Ok(())
    })?;
    all.seconds = now();
    all.left = due.left();
    all.cpu_seconds = Some(cpu::seconds() - cpu_before);
    let after = database.engine().sharing();
    let (builds, queries) = (after.builds_total - before.builds_total, after.queries_total - before.queries_total);
    all.queries_per_run = (builds > 0).then(|| queries as f64 / builds as f64);
    Ok(all)
}

/// A rival's clients, each with a connection of its own.
fn theirs(rival: &mut Rival, load: &Load, arguments: &ConcurrentArguments) -> Result<Seen> {
    let statements = (0..load.clients).map(|client| {
        let statements = Statements::new(arguments.mix, arguments.sf, arguments.seed, client);
        statements.take(RIVAL_STATEMENTS).map(|statement| statement.text).collect::<Vec<_>>()
    });
    let pool = Pool { clients: statements.collect(), starts: load.starts.clone() };
    let (records, seconds) = rival.run_clients(&[pool], arguments.seconds as f64)?;
    if records.iter().any(|record| record.outcome != Outcome::Answered) {
        return Err(Error::value(format!("{} does not answer every statement", rival.name())));
    }
    let left = load.starts.as_ref().map_or(0, |starts| starts.len().saturating_sub(records.len()));
    let latencies = records.iter().map(|record| record.latency_ms).collect();
    let queues = records.iter().map(|record| record.queue_ms).collect();
    Ok(Seen { latencies, queues, seconds, left, ..Seen::default() })
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
