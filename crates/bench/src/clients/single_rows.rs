//! Statements of one row each, by key, in native tables: INSERT, UPDATE and SELECT, durable as the defaults are.

use std::path::Path;
use std::sync::Arc;

use diligence_base::seams::Random;
use diligence_base::{Error, Result};
use serde_json::{Value, json};

use super::contestants::WireServer;
use super::load::{Asks, Clients, Load, Maker, failed, open};
use super::{ClientsArguments, runtime};
use crate::mixes::Statement;
use crate::report::{median, print_table, quantile};

/// Rounds, of which the medians are printed; contestants take turns.
const ROUNDS: usize = 3;

/// Rows of the table before anything is measured.
const ROWS: usize = 200_000;

const SETUP: [&str; 4] = [
    "DROP TABLE IF EXISTS single_rows",
    "CREATE TABLE single_rows (k bigint PRIMARY KEY, v bigint NOT NULL, t text)",
    "INSERT INTO single_rows SELECT k, k * 7, 'row number ' || k FROM generate_series(0, 199999) s(k)",
    "ANALYZE single_rows",
];

/// What clients do to rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Insert,
    Update,
    Select,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Insert => "insert",
            Kind::Update => "update",
            Kind::Select => "select",
        }
    }

    fn template(self) -> &'static str {
        match self {
            Kind::Insert => "INSERT INTO single_rows VALUES ($1, $2, $3)",
            Kind::Update => "UPDATE single_rows SET v = v + $1 WHERE k = $2",
            Kind::Select => "SELECT v, t FROM single_rows WHERE k = $1",
        }
    }

    /// The endless list of one client's statements; keys that are inserted differ by round and client.
    fn maker(self) -> Maker {
        Arc::new(move |round, client| {
            let mut random = Random::new(round.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ ((client as u64) << 32));
            let mut next = (round << 40 | (client as u64) << 24) + ROWS as u64;
            Box::new(std::iter::repeat_with(move || {
                next += 1;
                let key = random.below(ROWS).to_string();
                let values = match self {
                    Kind::Insert => vec![next.to_string(), key, "a new row".to_owned()],
                    Kind::Update => vec!["1".to_owned(), key],
                    Kind::Select => vec![key],
                };
                self.statement(values)
            }))
        })
    }

    fn statement(self, values: Vec<String>) -> Statement {
        let template = self.template().to_owned();
        let mut text = template.clone();
        for (place, value) in values.iter().enumerate() {
            let shown = if value.contains(' ') { format!("'{value}'") } else { value.clone() };
            text = text.replacen(&format!("${}", place + 1), &shown, 1);
        }
        Statement { text, template, values }
    }
}

/// Runs all kinds at all numbers of clients, over local sockets.
pub fn run(arguments: &ClientsArguments, data: &Path) -> Result<Value> {
    let folder = tempfile::tempdir_in(data.parent().unwrap_or(data));
    let folder = folder.map_err(|error| Error::resource(format!("no folder for the database: {error}")))?;
    let mut more = vec!["--db".to_owned(), folder.path().join("db").display().to_string()];
    more.extend(arguments.server.iter().cloned());
    let mut servers = vec![WireServer::diligence(arguments.program.as_deref(), data, arguments.workers, &more)?];
    if arguments.rivals.iter().any(|rival| rival == "postgres") {
        servers.push(WireServer::postgres(data)?);
    }
    let runtime = runtime()?;
    for server in &servers {
        runtime.block_on(async {
            let mut connection = open(server, true).await?;
            for sql in SETUP {
                connection.simple(sql).await.map_err(|error| failed(server, &error))?;
            }
            Ok::<_, Error>(())
        })?;
    }
    let mut table = Vec::new();
    let mut results = Vec::new();
    for (number, kind) in [Kind::Select, Kind::Update, Kind::Insert].into_iter().enumerate() {
        for (place, &count) in arguments.clients.iter().enumerate() {
            let first = ((number * arguments.clients.len() + place) * ROUNDS) as u64;
            let measured = measure(&servers, kind, count, first, arguments)?;
            let own = measured[0].0;
            for (server, (rate, shares)) in servers.iter().zip(measured) {
                let mut row = vec![kind.name().to_owned(), count.to_string(), server.name().to_owned()];
                row.push(format!("{rate:.0}"));
                row.extend(shares.map(|share| format!("{share:.0}")));
                row.push(format!("{:.2}", own / rate));
                table.push(row);
                results.push(json!({
                    "kind": kind.name(), "clients": count, "contestant": server.name(), "per_s": rate,
                    "latency_us": shares,
                }));
            }
        }
    }
    println!("One row of {ROWS} by its key, {:?} statements, local sockets, {ROUNDS} rounds", arguments.protocol);
    let header = ["statement", "clients", "contestant", "per s", "p50 us", "p99 us", "ours / theirs"];
    print_table(&header.map(str::to_owned), &table);
    Ok(json!({"benchmark": "single rows", "results": results}))
}

/// For each server, the median rate, and the median and the 99th percentile of latencies in microseconds.
fn measure(
    servers: &[WireServer],
    kind: Kind,
    count: usize,
    first: u64,
    arguments: &ClientsArguments,
) -> Result<Vec<(f64, [f64; 2])>> {
    let mut rates = vec![Vec::new(); servers.len()];
    let mut latencies = vec![Vec::new(); servers.len()];
    for round in 0..ROUNDS as u64 {
        for (place, server) in servers.iter().enumerate() {
            let load = Load {
                server,
                local: true,
                pools: &[Clients { asks: Asks::Made(kind.name(), kind.maker()), count, starts: None }],
                seconds: arguments.seconds / ROUNDS as f64,
                protocol: arguments.protocol,
                binary: arguments.binary,
                scale_factor: arguments.sf,
                seed: first + round + 1,
            };
            let seen = load.run()?;
            if let Some(failure) = seen.failure {
                return Err(Error::value(format!("{}: {failure}", server.name())));
            }
            rates[place].push(seen.records.len() as f64 / seen.seconds);
            latencies[place].extend(seen.records.iter().map(|record| record.latency_ms * 1e3));
        }
    }
    let shares = |latencies: &Vec<f64>| [0.5, 0.99].map(|share| quantile(latencies, share));
    Ok(rates.iter().zip(&latencies).map(|(rates, latencies)| (median(rates), shares(latencies))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_inserted_differ_and_texts_have_the_values() {
        let keys = |round, client| Kind::Insert.maker()(round, client).take(100).map(|made| made.values[0].clone());
        let mut all = (1..4).flat_map(|round| (0..3).flat_map(move |client| keys(round, client))).collect::<Vec<_>>();
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
        let made = Kind::Insert.statement(vec!["1".to_owned(), "2".to_owned(), "a row".to_owned()]);
        assert_eq!(made.text, "INSERT INTO single_rows VALUES (1, 2, 'a row')");
    }
}
