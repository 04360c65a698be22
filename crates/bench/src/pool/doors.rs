//! Functions over both ways in: sessions of the library, and a server's connections, with one client and several.
//!
//! Every client calls the same function again and again with a number of its own, and takes turns with `SELECT 1`. What
//! is between the two is what a primed process adds; how it grows with the clients is what the pool makes of them.

use std::path::Path;
use std::sync::Barrier;
use std::time::Instant;

use diligence_base::{Error, Result};
use diligence_db::{Database, DatabaseOptions};
use serde_json::{Value, json};

use crate::clients::contestants::WireServer;
use crate::clients::load::{failed, open};
use crate::clients::runtime;
use crate::report::{median, print_table};

/// Languages, and bodies of a function that adds 1.
const LANGUAGES: [(&str, &str); 2] = [
    (
        "wasm",
        "LANGUAGE wasm AS '(module (func (export \"f\") (param i64) (result i64) \
         (i64.add (local.get 0) (i64.const 1))))', 'f'",
    ),
    ("python", "LANGUAGE python AS 'return x + 1'"),
];

/// What a client took, in microseconds.
#[derive(Clone, Default)]
struct Took {
    /// To connect, or to begin a session, and for a first `SELECT 1`.
    connect: Vec<f64>,
    /// For `SELECT 1`.
    one: Vec<f64>,
    /// For a call of each language.
    calls: [Vec<f64>; LANGUAGES.len()],
}

impl Took {
    fn and(mut self, other: Self) -> Self {
        self.connect.extend(other.connect);
        self.one.extend(other.one);
        for (all, more) in self.calls.iter_mut().zip(other.calls) {
            all.extend(more);
        }
        self
    }
}

/// What asks a statement, and waits for its rows.
type Asker<'a> = &'a mut dyn FnMut(&str) -> Result<()>;

fn timed(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    work().map(|()| start.elapsed().as_secs_f64() * 1e6)
}

/// The rounds of one client, which took so long to connect.
fn rounds(client: usize, rounds: usize, connect: f64, asker: Asker<'_>) -> Result<Took> {
    let mut took = Took { connect: vec![connect], ..Took::default() };
    for round in 0..=rounds {
        let one = timed(|| asker("SELECT 1"))?;
        let mut calls = [0.0; LANGUAGES.len()];
        for ((language, _), call) in LANGUAGES.iter().zip(&mut calls) {
            *call = timed(|| asker(&format!("SELECT plus_{language}({client})")))?;
        }
        // In the first round processes start and load.
        if round > 0 {
            took.one.push(one);
            took.calls.iter_mut().zip(calls).for_each(|(all, call)| all.push(call));
        }
    }
    Ok(took)
}

/// Runs `client` for so many clients at once. Each connects, waits for the others, whether it could or not, and begins.
fn all_of(clients: usize, client: impl Fn(usize, &Barrier) -> Result<Took> + Sync) -> Result<Took> {
    let begin = Barrier::new(clients);
    std::thread::scope(|scope| {
        let (begin, client) = (&begin, &client);
        let threads = (0..clients).map(|number| scope.spawn(move || client(number, begin))).collect::<Vec<_>>();
        let ended = threads.into_iter().map(|thread| thread.join().map_err(|_| Error::bug("a client panicked")));
        ended.collect::<Result<Vec<_>>>()?.into_iter().try_fold(Took::default(), |all, took| Ok(all.and(took?)))
    })
}

fn of_sessions(database: &Database, clients: usize, count: usize) -> Result<Took> {
    all_of(clients, |client, begin| {
        let start = Instant::now();
        let session = database.session();
        let mut asker = |sql: &str| session.execute(sql)?.collect().map(drop);
        let connected = asker("SELECT 1").map(|()| start.elapsed().as_secs_f64() * 1e6);
        begin.wait();
        rounds(client, count, connected?, &mut asker)
    })
}

fn of_connections(server: &WireServer, clients: usize, count: usize) -> Result<Took> {
    all_of(clients, |client, begin| {
        let opened = runtime().and_then(|runtime| {
            let start = Instant::now();
            let mut connection = runtime.block_on(open(server, false))?;
            runtime.block_on(connection.simple("SELECT 1")).map_err(|error| failed(server, &error))?;
            Ok((runtime, connection, start.elapsed().as_secs_f64() * 1e6))
        });
        begin.wait();
        let (runtime, mut connection, connect) = opened?;
        let mut asker =
            |sql: &str| runtime.block_on(connection.simple(sql)).map(drop).map_err(|error| failed(server, &error));
        rounds(client, count, connect, &mut asker)
    })
}

/// Measures both ways for these numbers of clients. `program` serves; without one, the one beside this benchmark's own.
pub fn run(clients: &[usize], count: usize, program: Option<&Path>) -> Result<Value> {
    let database = Database::open(DatabaseOptions::default())?;
    let empty = tempfile::tempdir().map_err(|error| Error::resource(format!("no folder: {error}")))?;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let server = WireServer::diligence(program, empty.path(), cores, &[])?;
    for (language, body) in LANGUAGES {
        let make = format!("CREATE OR REPLACE FUNCTION plus_{language}(x bigint) RETURNS bigint {body}");
        database.session().execute(&make)?;
        let runtime = runtime()?;
        runtime.block_on(async {
            let mut connection = open(&server, false).await?;
            connection.simple(&make).await.map(drop).map_err(|error| failed(&server, &error))
        })?;
    }
    let (mut table, mut results) = (Vec::new(), Vec::new());
    for &clients in clients {
        let ways = [
            ("library", of_sessions(&database, clients, count)?),
            ("server", of_connections(&server, clients, count)?),
        ];
        for (way, took) in ways {
            let medians = [&took.connect, &took.one].into_iter().chain(&took.calls).map(|times| median(times));
            let medians = medians.collect::<Vec<_>>();
            results.push(json!({"way": way, "clients": clients, "us": medians}));
            let row = [way.to_owned(), clients.to_string()].into_iter();
            table.push(row.chain(medians.iter().map(|us| format!("{us:.0}"))).collect());
        }
    }
    println!("\nfunctions over both ways, microseconds, medians of {count} rounds of each client");
    let header = ["way", "clients", "connect and SELECT 1", "SELECT 1", "call (wasm)", "call (python)"];
    print_table(&header.map(str::to_owned), &table);
    Ok(json!(results))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_asks_in_every_round() {
        let asked = std::sync::atomic::AtomicUsize::new(0);
        let took = all_of(3, |client, begin| {
            let mut asker = |_: &str| {
                asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                Ok(())
            };
            begin.wait();
            rounds(client, 4, 1.0, &mut asker)
        });
        let took = took.unwrap();
        assert_eq!((took.connect.len(), took.one.len()), (3, 12));
        assert!(took.calls.iter().all(|calls| calls.len() == 12));
        assert_eq!(asked.into_inner(), 3 * 5 * 3);
    }
}
