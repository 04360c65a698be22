//! Clients of a server: throughput, latencies, queueing and refusals, beside rivals.
//!
//! Ours and PostgreSQL are servers of their own, asked over their protocol by the same compiled clients. DuckDB and
//! Hyper are asked in the process of their driver, a connection per thread; what it costs to get there over a network
//! is not in their numbers.

pub mod contestants;
mod door;
mod http;
pub mod load;
mod single_rows;
mod under_load;

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use diligence_base::{Error, Result};
use serde_json::{Value, json};

use self::contestants::WireServer;
use self::load::{Asks, Clients, Load, Protocol};
use crate::due::schedule;
use crate::mixes::Mix;
use crate::report::{print_table, quantile};
use crate::rivals::{Outcome, Pool, Record, Rival};
use crate::setup;

/// What to run.
#[derive(Args)]
pub struct ClientsArguments {
    /// Scale factor of the TPC-H data.
    #[arg(long, default_value_t = 1.0)]
    sf: f64,
    /// Worker threads, ours and theirs.
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Clients at once, of each mix.
    #[arg(long, value_delimiter = ',', default_value = "1,4,16,64,256")]
    clients: Vec<usize>,
    /// What they ask: same, dash, adhoc, lists, joins, disjoint, apart, lookup, one, template:q1 (or another of the
    /// dashboard's queries). Several mixes are asked at the same time, each by clients of its own. With a rate, as
    /// lookup@50, it is asked so many times a second however busy the others are.
    #[arg(long, value_delimiter = ',', default_value = "dash")]
    mix: Vec<Asked>,
    /// After the closed loop, open ones at these multiples of its best throughput; 0 for what has a rate of its own
    /// alone.
    #[arg(long, value_delimiter = ',')]
    open: Vec<f64>,
    /// Connections of an open loop, of each mix [default: the most of --clients].
    #[arg(long)]
    open_clients: Option<usize>,
    /// How statements are sent.
    #[arg(long, value_enum, default_value_t = Protocol::Prepared)]
    protocol: Protocol,
    /// Rows in binary rather than as text.
    #[arg(long)]
    binary: bool,
    /// Over local sockets rather than TCP, where a server has one.
    #[arg(long)]
    local: bool,
    /// Rivals: postgres; duckdb (its own file), duckdb-parquet, hyper.
    #[arg(long, value_delimiter = ',')]
    rivals: Vec<String>,
    /// Seconds per number of clients and contestant.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Where constants and times come from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The diligence to serve with [default: the one beside this program].
    #[arg(long)]
    program: Option<PathBuf>,
    /// More arguments for `diligence serve`, such as --server --memory=2GiB.
    #[arg(long = "server", allow_hyphen_values = true)]
    server: Vec<String>,
    /// Measure the door instead: `SELECT 1`, and a million rows as text, in binary and as Arrow.
    #[arg(long)]
    door: bool,
    /// Measure what others get beside busy clients instead: cancels, first rows; and what idle sessions cost.
    #[arg(long, conflicts_with = "door")]
    under_load: bool,
    /// Measure INSERT, UPDATE and SELECT of single rows by key in a native table instead, over local sockets.
    #[arg(long, conflicts_with_all = ["door", "under_load"])]
    single_rows: bool,
}

/// A mix, and how often it is asked a second if that is always the same.
#[derive(Clone, Copy)]
struct Asked {
    mix: Mix,
    rate: Option<f64>,
}

impl FromStr for Asked {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let Some((mix, rate)) = text.split_once('@') else { return Ok(Self { mix: text.parse()?, rate: None }) };
        let known = rate.parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate > 0.0);
        let rate = known.ok_or_else(|| Error::input(format!("expected statements a second, found '{rate}'")))?;
        Ok(Self { mix: mix.parse()?, rate: Some(rate) })
    }
}

impl Asked {
    /// Its clients; when statements are due is by its own rate, or else by this one, if there is one.
    fn clients(&self, position: usize, count: usize, rate: Option<f64>, arguments: &ClientsArguments) -> Clients {
        let seed = arguments.seed.wrapping_add(position as u64);
        let starts = self.rate.or(rate).map(|rate| schedule(rate, arguments.seconds, seed));
        Clients { asks: Asks::Mix(self.mix), count, starts }
    }
}

/// Statements that a rival's client gets; it begins again if it needs more.
const RIVAL_STATEMENTS: usize = 500;

/// A server, or an engine in the process of its driver.
enum ClientsContestant {
    Wire(WireServer),
    InProcess(Rival),
}

impl ClientsContestant {
    fn name(&self) -> &str {
        match self {
            ClientsContestant::Wire(server) => server.name(),
            ClientsContestant::InProcess(rival) => rival.name(),
        }
    }
}

/// Runs the benchmark and prints its tables.
pub fn run(arguments: &ClientsArguments, data: &Path) -> Result<Value> {
    let directory = setup::data(data, arguments.sf)?;
    if arguments.door {
        return door::run(arguments, &directory);
    }
    if arguments.under_load {
        return under_load::run(arguments, &directory);
    }
    if arguments.single_rows {
        return single_rows::run(arguments, &directory);
    }
    let program = arguments.program.as_deref();
    let own = WireServer::diligence(program, &directory, arguments.workers, &arguments.server)?;
    let mut contestants = vec![ClientsContestant::Wire(own)];
    for name in &arguments.rivals {
        contestants.push(match name.as_str() {
            "postgres" => ClientsContestant::Wire(WireServer::postgres(&directory)?),
            name => ClientsContestant::InProcess(Rival::start(name, &directory, arguments.workers)?),
        });
    }
    let mut table = Table::default();
    // By contestant, the best throughput of each mix.
    let mut best = vec![vec![0.0f64; arguments.mix.len()]; contestants.len()];
    for &count in &arguments.clients {
        for (contestant, best) in contestants.iter_mut().zip(&mut best) {
            let pools = arguments.mix.iter().enumerate();
            let pools: Vec<_> = pools.map(|(number, asked)| asked.clients(number, count, None, arguments)).collect();
            let seen = ask(contestant, &pools, arguments)?;
            let rates = table.add(contestant.name(), "closed", &pools, &seen);
            if rates.iter().sum::<f64>() > best.iter().sum::<f64>() {
                *best = rates;
            }
        }
    }
    let most = arguments.clients.iter().copied().max().unwrap_or(1);
    let count = arguments.open_clients.unwrap_or(most);
    for &multiple in &arguments.open {
        for (contestant, best) in contestants.iter_mut().zip(&best) {
            let pools = arguments.mix.iter().zip(best).enumerate();
            let pools =
                pools.map(|(position, (asked, rate))| asked.clients(position, count, Some(rate * multiple), arguments));
            let pools: Vec<_> = pools.collect();
            let seen = ask(contestant, &pools, arguments)?;
            table.add(contestant.name(), &format!("open {multiple}x"), &pools, &seen);
        }
    }
    println!(
        "TPC-H SF{}, {} workers, {:?} statements, {} rows, {} s each; {} answers compared with lone runs",
        arguments.sf,
        arguments.workers,
        arguments.protocol,
        if arguments.binary { "binary" } else { "text" },
        arguments.seconds,
        table.checked
    );
    let header = [
        "contestant",
        "loop",
        "mix",
        "clients",
        "due/s",
        "answered/s",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "queue p50 ms",
        "queue p99 ms",
        "refused",
        "failed",
        "not sent",
    ];
    print_table(&header.map(str::to_owned), &table.rows);
    for failure in &table.failures {
        println!("FAILED: {failure}");
    }
    Ok(json!({
        "benchmark": "clients", "sf": arguments.sf, "workers": arguments.workers, "seconds": arguments.seconds,
        "results": table.results,
    }))
}

/// What a contestant's clients saw.
struct Observed {
    records: Vec<Record>,
    seconds: f64,
    left: Vec<usize>,
    checked: usize,
    failure: Option<String>,
}

fn ask(contestant: &mut ClientsContestant, pools: &[Clients], arguments: &ClientsArguments) -> Result<Observed> {
    match contestant {
        ClientsContestant::Wire(server) => {
            let load = Load {
                server,
                local: arguments.local && server.local.is_some(),
                pools,
                seconds: arguments.seconds,
                protocol: arguments.protocol,
                binary: arguments.binary,
                scale_factor: arguments.sf,
                seed: arguments.seed,
            };
            let seen = load.run()?;
            let checked = load.check(&seen)?;
            let failure = seen.failure.map(|failure| format!("{}: {failure}", server.name()));
            Ok(Observed { records: seen.records, seconds: seen.seconds, left: seen.left, checked, failure })
        }
        ClientsContestant::InProcess(rival) => {
            let theirs: Vec<_> =
                pools.iter().enumerate().map(|(pool, group)| of_rival(pool, group, arguments)).collect();
            let (records, seconds) = rival.run_clients(&theirs, arguments.seconds)?;
            let left = pools.iter().enumerate().map(|(number, pool)| {
                let sent = records.iter().filter(|record| record.pool == number).count();
                pool.starts.as_ref().map_or(0, |starts| starts.len().saturating_sub(sent))
            });
            Ok(Observed { left: left.collect(), records, seconds, checked: 0, failure: None })
        }
    }
}

fn of_rival(pool: usize, group: &Clients, arguments: &ClientsArguments) -> Pool {
    let clients = (0..group.count).map(|number| {
        let statements = group.asks.statements(arguments.sf, arguments.seed, pool << 16 | number);
        statements.take(RIVAL_STATEMENTS).map(|statement| statement.text).collect()
    });
    Pool { clients: clients.collect(), starts: group.starts.clone() }
}

#[derive(Default)]
struct Table {
    rows: Vec<Vec<String>>,
    results: Vec<Value>,
    failures: Vec<String>,
    checked: usize,
}

impl Table {
    /// Adds a row for each pool; returns the answers a second of each.
    fn add(&mut self, contestant: &str, kind: &str, pools: &[Clients], seen: &Observed) -> Vec<f64> {
        self.checked += seen.checked;
        self.failures.extend(seen.failure.clone());
        let mut rates = Vec::new();
        for (number, pool) in pools.iter().enumerate() {
            let records: Vec<_> = seen.records.iter().filter(|record| record.pool == number).collect();
            let with = |outcome| records.iter().filter(move |record| record.outcome == outcome);
            let latencies: Vec<_> = with(Outcome::Answered).map(|record| record.latency_ms).collect();
            let queues: Vec<_> = with(Outcome::Answered).map(|record| record.queue_ms).collect();
            let rate = latencies.len() as f64 / seen.seconds;
            let due = pool.starts.as_ref().map(|starts| starts.len() as f64 / seen.seconds);
            let shares = [0.5, 0.95, 0.99].map(|share| quantile(&latencies, share));
            let queueing = pool.starts.as_ref().map(|_| [0.5, 0.99].map(|share| quantile(&queues, share)));
            let (refused, failed) = (with(Outcome::Refused).count(), with(Outcome::Failed).count());
            let shown = |number: Option<f64>| number.map_or("-".to_owned(), |number| format!("{number:.1}"));
            let mut row = vec![contestant.to_owned(), kind.to_owned(), pool.asks.to_string(), pool.count.to_string()];
            row.extend([due, Some(rate)].map(shown));
            // Short statements take less than a tenth of a millisecond.
            row.extend(shares.map(|share| format!("{share:.2}")));
            row.extend([0, 1].map(|which| shown(queueing.map(|both| both[which]))));
            row.extend([refused, failed, seen.left[number]].map(|count| count.to_string()));
            self.rows.push(row);
            self.results.push(json!({
                "contestant": contestant, "loop": kind, "mix": pool.asks.to_string(), "clients": pool.count, "due_per_s": due,
                "answered_per_s": rate, "latency_ms": shares, "queue_ms": queueing, "refused": refused, "failed": failed,
                "not_sent": seen.left[number],
            }));
            rates.push(rate);
        }
        rates
    }
}

/// A runtime for one thread.
pub fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::resource(format!("no runtime: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_have_rates_or_none() {
        let asked: Asked = "lookup@50".parse().unwrap();
        assert_eq!((asked.mix, asked.rate), (Mix::Lookup, Some(50.0)));
        let asked: Asked = "template:q6".parse().unwrap();
        assert_eq!((asked.mix, asked.rate), (Mix::Template(6), None));
        for wrong in ["lookup@", "lookup@0", "lookup@nan", "nothing@5", "@5"] {
            assert!(wrong.parse::<Asked>().is_err(), "{wrong}");
        }
    }
}
