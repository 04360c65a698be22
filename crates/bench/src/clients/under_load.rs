//! What a busy server still does at once: a cancelled query frees the workers, somebody who wants one row gets it; and
//! what sessions cost that only sit there.

use std::path::Path;
use std::thread;
use std::time::Duration;

use diligence_base::seams::Random;
use diligence_base::{Error, Result};
use diligence_client::{self as wire, Connection, message};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::contestants::WireServer;
use super::http;
use super::load::{Asks, Clients, Load, Protocol, failed, open};
use super::{ClientsArguments, runtime};
use crate::mixes::{Mix, Statements};
use crate::report::{print_table, quantile};

/// Clients that keep the server busy while queries are cancelled.
const BUSY_BESIDE_CANCELS: usize = 4;
/// Clients that keep it busy while others want one row.
const BUSY_BESIDE_FIRST_ROWS: usize = 64;
/// Queries are cancelled so many milliseconds after they were sent.
const CANCEL_AFTER_MS: (usize, usize) = (20, 400);
/// Sessions that only sit there.
const IDLE: usize = 1000;
/// Before the server's memory is looked at, it may give back what it does not need.
const REST: Duration = Duration::from_secs(3);
/// The SQLSTATE of what was cancelled.
const CANCELLED: &str = "57014";
/// How often it is asked whether a cancelled query still has packets.
const LOOK_EVERY: Duration = Duration::from_micros(500);
/// Somebody who wants one row asks again after so long.
const PAUSE: Duration = Duration::from_millis(20);

/// Runs all parts.
pub fn run(arguments: &ClientsArguments, data: &Path) -> Result<Value> {
    let server = WireServer::diligence(arguments.program.as_deref(), data, arguments.workers, &arguments.server)?;
    let idle_bytes = runtime()?.block_on(idle(&server))?;
    let cancels = beside(&server, BUSY_BESIDE_CANCELS, arguments, cancels)?;
    let first_rows = beside(&server, BUSY_BESIDE_FIRST_ROWS, arguments, first_rows)?;
    let mut table = Vec::new();
    let mut results = serde_json::Map::new();
    let [answers, frees] = &cancels;
    let measured = [
        ("from a cancel request to the client's error", BUSY_BESIDE_CANCELS, answers),
        ("from a cancel request to no packet left of the query", BUSY_BESIDE_CANCELS, frees),
        ("first row of SELECT * FROM lineitem LIMIT 1", BUSY_BESIDE_FIRST_ROWS, &first_rows),
    ];
    for (what, clients, times) in measured {
        let shares = [0.5, 0.95, 0.99, 1.0].map(|share| quantile(times, share));
        let mut row = vec![what.to_owned(), clients.to_string(), times.len().to_string()];
        row.extend(shares.map(|share| format!("{share:.1}")));
        table.push(row);
        results.insert(what.to_owned(), json!({"clients": clients, "times": times.len(), "ms": shares}));
    }
    println!("TPC-H SF{}, {} workers, beside clients with the dashboard's queries", arguments.sf, arguments.workers);
    print_table(&["", "clients", "times", "p50 ms", "p95 ms", "p99 ms", "max ms"].map(str::to_owned), &table);
    println!("{IDLE} idle sessions: {:.1} KiB of the server's resident memory each", idle_bytes / 1024.0);
    Ok(json!({"benchmark": "under load", "sf": arguments.sf, "results": results, "idle_session_bytes": idle_bytes}))
}

/// Has something measured while clients keep the server busy.
fn beside<T>(
    server: &WireServer,
    busy: usize,
    arguments: &ClientsArguments,
    measure: impl AsyncFnOnce(&WireServer, &ClientsArguments) -> Result<T>,
) -> Result<T> {
    let load = Load {
        server,
        local: false,
        pools: &[Clients { asks: Asks::Mix(Mix::Dash), count: busy, starts: None }],
        // The measurement ends before the load does.
        seconds: arguments.seconds + 2.0,
        protocol: Protocol::Prepared,
        binary: false,
        scale_factor: arguments.sf,
        seed: arguments.seed,
    };
    thread::scope(|scope| {
        let clients = scope.spawn(|| load.run());
        thread::sleep(Duration::from_secs(1));
        let measured = runtime()?.block_on(measure(server, arguments))?;
        let seen = clients.join().map_err(|_| Error::bug("the clients that keep the server busy panicked"))??;
        match seen.failure {
            Some(failure) => Err(Error::value(format!("beside the measurement: {failure}"))),
            None => Ok(measured),
        }
    })
}

/// Milliseconds from cancel requests until the client has its error, and until no packet of its query is left.
async fn cancels(server: &WireServer, arguments: &ClientsArguments) -> Result<[Vec<f64>; 2]> {
    let mut random = Random::new(arguments.seed);
    let mut statements = Statements::new(Mix::Adhoc, arguments.sf, arguments.seed, 1);
    let mut asking = open(server, false).await?;
    // What is shared goes on for others: here a query is to end.
    asking.simple("SET sharing = 'off'").await.map_err(|error| failed(server, &error))?;
    let end = Instant::now() + Duration::from_secs_f64(arguments.seconds);
    let [mut answers, mut frees] = [Vec::new(), Vec::new()];
    let mut number = 0;
    while Instant::now() < end {
        let Some(statement) = statements.next() else { break };
        number += 1;
        let mark = format!("/* {number} */");
        let text = format!("{mark} {}", statement.text);
        let cancel = asking.cancel_message();
        let after = CANCEL_AFTER_MS.0 + random.below(CANCEL_AFTER_MS.1 - CANCEL_AFTER_MS.0);
        let answered = async {
            let done = asking.simple(&text).await;
            (done, Instant::now())
        };
        let cancelled = async {
            sleep(Duration::from_millis(after as u64)).await;
            let lost = |error| failed(server, &error);
            let mut canceller = Connection::open_silently(&server.tcp).await.map_err(lost)?;
            let began = Instant::now();
            canceller.send(&cancel).await.map_err(lost)?;
            while packets(server, &mark).await? > 0 {
                sleep(LOOK_EVERY).await;
            }
            Ok::<_, Error>((began, Instant::now()))
        };
        let ((done, answered), cancelled) = tokio::join!(answered, cancelled);
        let (began, free) = cancelled?;
        match done {
            // It had ended before.
            Ok(_) => {}
            Err(error) if error.code() == Some(CANCELLED) => {
                answers.push(answered.saturating_duration_since(began).as_secs_f64() * 1e3);
                frees.push(free.saturating_duration_since(began).as_secs_f64() * 1e3);
            }
            Err(error) => return Err(failed(server, &error)),
        }
    }
    Ok([answers, frees])
}

/// Packets that are left of queries whose statement begins so. Asked without a query, which would wait for a worker
/// itself.
async fn packets(server: &WireServer, mark: &str) -> Result<u64> {
    let address = server.http.ok_or_else(|| Error::bug("a server without HTTP"))?;
    let mut body = Vec::new();
    http::ask(address, "GET /v1/queries HTTP/1.1\r\n", "", 1 << 20, &mut body).await?;
    let listed: Value = serde_json::from_slice(&body).map_err(|error| Error::bug(format!("no JSON: {error}")))?;
    let queries = listed["queries"].as_array().ok_or_else(|| Error::bug("no queries are listed"))?;
    let marked = queries.iter().filter(|query| query["statement"].as_str().is_some_and(|text| text.starts_with(mark)));
    Ok(marked.filter_map(|query| query["packets"].as_u64()).sum())
}

/// Milliseconds until the first row is there, again and again.
async fn first_rows(server: &WireServer, arguments: &ClientsArguments) -> Result<Vec<f64>> {
    let mut connection = open(server, false).await?;
    let end = Instant::now() + Duration::from_secs_f64(arguments.seconds);
    let mut times = Vec::new();
    let mut query = Vec::new();
    message::query(&mut query, "SELECT * FROM lineitem LIMIT 1");
    while Instant::now() < end {
        let began = Instant::now();
        connection.send(&query).await.map_err(|error| failed(server, &error))?;
        let mut first = None;
        loop {
            let message = connection.next().await.map_err(|error| failed(server, &error))?;
            match message.kind {
                b'D' => first = first.or(Some(began.elapsed())),
                b'E' => {
                    let failure = message.failure().unwrap_or_default();
                    return Err(failed(server, &wire::Error::Server(failure)));
                }
                b'Z' => break,
                _ => {}
            }
        }
        let first = first.ok_or_else(|| Error::bug("SELECT ... LIMIT 1 gave no row"))?;
        times.push(first.as_secs_f64() * 1e3);
        sleep(PAUSE).await;
    }
    Ok(times)
}

/// Bytes of the server's resident memory for each session that has asked something and only sits there since.
async fn idle(server: &WireServer) -> Result<f64> {
    let mut warm = open(server, false).await?;
    warm.simple("SELECT 1").await.map_err(|error| failed(server, &error))?;
    sleep(REST).await;
    let before = server.resident_bytes()?;
    let mut sessions = Vec::with_capacity(IDLE);
    for _ in 0..IDLE {
        let mut session = open(server, false).await?;
        session.simple("SELECT 1").await.map_err(|error| failed(server, &error))?;
        sessions.push(session);
    }
    sleep(REST).await;
    let after = server.resident_bytes()?;
    Ok((after - before) as f64 / IDLE as f64)
}
