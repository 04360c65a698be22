//! A page of ten charts over one filter: what it costs beside its dearest chart.
//!
//! The charts group and compute different things of the same rows, as a dashboard does. Each has a connection of its
//! own over PostgreSQL's protocol, to a server with default settings that keeps no answers. In each round, each chart
//! is asked alone, and then all are asked at once, with and without sharing; the filter has other constants each time.

use std::path::Path;
use std::time::Instant;

use clap::Args;
use diligence_base::seams::Random;
use diligence_base::{Error, Result};
use diligence_client::{Answer, Connection};
use serde_json::{Value, json};

use crate::clients::contestants::WireServer;
use crate::clients::load::{failed, open};
use crate::clients::runtime;
use crate::report::{median, print_table};
use crate::setup;

/// What to run.
#[derive(Args)]
pub struct PageArguments {
    /// Scale factor of the TPC-H data.
    #[arg(long, default_value_t = 1.0)]
    sf: f64,
    /// Rounds of each page; the first warms up.
    #[arg(long, default_value_t = 10)]
    rounds: usize,
    /// The first seed of the filters' constants.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Worker threads.
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// The program to serve with [default: the one beside this program].
    #[arg(long)]
    program: Option<std::path::PathBuf>,
}

/// The charts of a page.
struct PageOfCharts {
    name: &'static str,
    /// What follows FROM, up to the constants of the filter.
    rows: &'static str,
    /// Of each chart: what it groups by, and what it computes.
    charts: [(&'static str, &'static str); 10],
}

/// Over one table, over a join along keys, and over a join with few groups and many.
const PAGES: [PageOfCharts; 3] = [
    PageOfCharts {
        name: "lineitem",
        rows: "lineitem WHERE",
        charts: [
            ("l_returnflag, l_linestatus", "sum(l_quantity), sum(l_extendedprice), avg(l_discount), count(*)"),
            ("l_shipmode", "sum(l_extendedprice * (1 - l_discount))"),
            ("date_trunc('month', l_shipdate)", "sum(l_extendedprice), count(*)"),
            ("l_shipinstruct", "avg(l_extendedprice), max(l_extendedprice)"),
            ("l_linenumber", "count(*)"),
            ("l_discount", "sum(l_quantity)"),
            ("extract(year from l_receiptdate)", "sum(l_extendedprice * l_discount)"),
            ("l_shipmode, l_returnflag", "count(*), min(l_shipdate), max(l_commitdate)"),
            ("", "sum(l_extendedprice), sum(l_tax), count(*)"),
            ("l_tax", "avg(l_quantity)"),
        ],
    },
    PageOfCharts {
        name: "orders",
        rows: "lineitem JOIN orders ON l_orderkey = o_orderkey WHERE",
        charts: [
            ("o_orderpriority", "sum(l_extendedprice), count(*)"),
            ("l_shipmode", "sum(l_extendedprice * (1 - l_discount))"),
            ("date_trunc('month', o_orderdate)", "sum(l_extendedprice)"),
            ("o_orderstatus", "count(*), avg(o_totalprice)"),
            ("extract(year from o_orderdate)", "sum(l_quantity)"),
            ("l_returnflag", "sum(l_extendedprice * l_tax)"),
            ("o_orderpriority, l_shipmode", "count(*)"),
            ("l_linenumber", "sum(l_quantity), max(o_orderdate)"),
            ("", "sum(l_extendedprice), count(*), min(o_orderdate)"),
            ("o_shippriority", "avg(l_discount)"),
        ],
    },
    PageOfCharts {
        name: "customers",
        rows: "lineitem JOIN orders ON l_orderkey = o_orderkey JOIN customer ON o_custkey = c_custkey \
               JOIN nation ON c_nationkey = n_nationkey WHERE",
        charts: [
            ("n_name", "sum(l_extendedprice * (1 - l_discount))"),
            ("c_mktsegment", "sum(l_extendedprice), count(*)"),
            ("n_name, c_mktsegment", "count(*)"),
            ("o_orderpriority", "avg(l_quantity)"),
            ("date_trunc('month', l_shipdate)", "sum(l_extendedprice)"),
            ("c_custkey", "sum(l_extendedprice)"),
            ("n_regionkey", "max(o_totalprice), min(o_totalprice)"),
            ("l_shipmode", "count(*)"),
            ("", "sum(l_extendedprice), avg(c_acctbal), count(*)"),
            ("extract(year from o_orderdate), n_name", "sum(l_quantity)"),
        ],
    },
];

impl PageOfCharts {
    /// The charts over the lines that were shipped in a year or two.
    fn statements(&self, random: &mut Random) -> Vec<String> {
        let (first, days) = (random.below(1500) as u64, 365 + random.below(365) as u64);
        let day = |days: u64| format!("date '1993-01-01' + {days}");
        let (from, to) = (day(first), day(first + days));
        let filter = format!("l_shipdate >= {from} AND l_shipdate < {to} AND l_quantity < {}", 25 + random.below(20));
        let chart = |(keys, values): &(&str, &str)| match *keys {
            "" => format!("SELECT {values} FROM {} {filter}", self.rows),
            keys => format!("SELECT {keys}, {values} FROM {} {filter} GROUP BY {keys} ORDER BY {keys}", self.rows),
        };
        self.charts.iter().map(chart).collect()
    }
}

/// Milliseconds of each round.
#[derive(Default)]
struct Times {
    /// Of each chart alone.
    alone: Vec<Vec<f64>>,
    page: Vec<f64>,
    unshared: Vec<f64>,
}

/// Runs the benchmark. Fails if the server does, or if a chart of a page has other rows than alone.
pub fn run(arguments: &PageArguments, root: &Path) -> Result<Value> {
    let folder = setup::data(root, arguments.sf)?;
    let server = WireServer::diligence(arguments.program.as_deref(), &folder, arguments.workers, &[])?;
    let runtime = runtime()?;
    let mut report = Vec::new();
    let mut rows = Vec::new();
    for page in &PAGES {
        let times = runtime.block_on(measured(&server, page, arguments))?;
        let alone: Vec<_> = times.alone.iter().map(|times| median(times)).collect();
        let dearest = alone.iter().copied().fold(0.0, f64::max);
        let (together, unshared) = (median(&times.page), median(&times.unshared));
        let cells = [dearest, alone.iter().sum(), together, unshared].map(|ms: f64| format!("{ms:.1}"));
        let ratios = [together / dearest, unshared / dearest].map(|ratio| format!("{ratio:.2}"));
        rows.push([page.name.to_owned()].into_iter().chain(cells).chain(ratios).collect());
        report.push(json!({
            "page": page.name, "alone_ms": alone, "page_ms": together, "unshared_ms": unshared,
            "over_dearest": together / dearest,
        }));
    }
    println!("Pages of ten charts over one filter, TPC-H SF{}, medians of {} rounds", arguments.sf, arguments.rounds);
    let header = ["page", "dearest ms", "sum ms", "page ms", "sharing off ms", "/ dearest", "off / dearest"];
    print_table(&header.map(str::to_owned), &rows);
    Ok(json!({ "benchmark": "page", "sf": arguments.sf, "rounds": arguments.rounds, "pages": report }))
}

async fn measured(server: &WireServer, page: &PageOfCharts, arguments: &PageArguments) -> Result<Times> {
    let mut shared = connections(server, page.charts.len(), "all").await?;
    let mut unshared = connections(server, page.charts.len(), "off").await?;
    let mut random = Random::new(arguments.seed);
    let mut times = Times { alone: vec![Vec::new(); page.charts.len()], ..Times::default() };
    for round in 0..=arguments.rounds {
        // Nothing is asked twice with the same constants, but for the comparison of the answers.
        let lone = page.statements(&mut random);
        for (chart, statement) in lone.iter().enumerate() {
            let began = Instant::now();
            shared[chart].simple(statement).await.map_err(|error| failed(server, &error))?;
            times.alone[chart].push(began.elapsed().as_secs_f64() * 1e3);
        }
        let together = page.statements(&mut random);
        let (ms, answers) = at_once(server, &mut shared, &together).await?;
        times.page.push(ms);
        let (ms, expected) = at_once(server, &mut unshared, &together).await?;
        times.unshared.push(ms);
        if let Some(chart) = (0..answers.len()).find(|chart| answers[*chart] != expected[*chart]) {
            return Err(Error::value(format!("a chart of a page has other rows than alone: {}", together[chart])));
        }
        if round == 0 {
            times = Times { alone: vec![Vec::new(); page.charts.len()], ..Times::default() };
        }
    }
    Ok(times)
}

async fn connections(server: &WireServer, count: usize, sharing: &str) -> Result<Vec<Connection>> {
    let mut connections = Vec::new();
    for _ in 0..count {
        let mut connection = open(server, false).await?;
        let settings = format!("SET sharing_retained = 0; SET sharing = '{sharing}'");
        connection.simple(&settings).await.map_err(|error| failed(server, &error))?;
        connections.push(connection);
    }
    Ok(connections)
}

/// Sends a statement on each connection, and waits for all answers. Returns milliseconds until the last, and the rows.
async fn at_once(
    server: &WireServer,
    connections: &mut Vec<Connection>,
    statements: &[String],
) -> Result<(f64, Vec<Rows>)> {
    let began = Instant::now();
    let mut running = tokio::task::JoinSet::new();
    for (number, (mut connection, statement)) in connections.drain(..).zip(statements.iter().cloned()).enumerate() {
        running.spawn(async move {
            let answers = connection.simple(&statement).await;
            (number, connection, answers)
        });
    }
    let mut ended = running.join_all().await;
    let ms = began.elapsed().as_secs_f64() * 1e3;
    ended.sort_by_key(|(number, ..)| *number);
    let mut rows = Vec::new();
    for (_, connection, answers) in ended {
        connections.push(connection);
        let answers = answers.map_err(|error| failed(server, &error))?;
        rows.push(answers.into_iter().flat_map(|answer: Answer| answer.rows).collect());
    }
    Ok((ms, rows))
}

/// Values as text.
type Rows = Vec<Vec<Option<Vec<u8>>>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_charts_of_a_page_have_one_filter() {
        let mut random = Random::new(1);
        for page in &PAGES {
            let statements = page.statements(&mut random);
            let filter = |statement: &String| {
                let rest = statement.split(" WHERE ").nth(1).unwrap_or_default().to_owned();
                rest.split(" GROUP BY").next().unwrap_or_default().to_owned()
            };
            assert!(statements.iter().all(|statement| filter(statement) == filter(&statements[0])), "{statements:?}");
            assert_ne!(page.statements(&mut random), statements);
        }
    }
}
