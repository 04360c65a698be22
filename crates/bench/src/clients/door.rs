//! What the door itself costs: a statement that asks for nothing, and a million rows that only have to get out.

use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::time::Instant;

use arrow::ipc::reader::StreamReader;
use arrow_flight::FlightData;
use arrow_flight::sql::client::FlightSqlServiceClient;
use arrow_flight::utils::flight_data_to_batches;
use diligence_base::{Error, Result};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tonic::transport::Channel;

use super::contestants::WireServer;
use super::http;
use super::load::{Asks, Clients, Load, Protocol, failed, open};
use super::{ClientsArguments, runtime};
use crate::mixes::Mix;
use crate::report::{median, print_table, quantile};

/// Clients of `SELECT 1`.
const COUNTS: [usize; 2] = [1, 64];

/// Rounds, of which the medians are printed; contestants take turns.
const ROUNDS: usize = 5;

/// Ten columns of every kind that TPC-H has, and a million rows: TPC-H uses 8 of 32 keys, with 4 lines each on average.
const ROWS: &str = "SELECT l_orderkey, l_partkey, l_suppkey, l_linenumber, l_quantity, l_extendedprice, l_discount, l_shipdate, \
                    l_returnflag, l_shipmode FROM lineitem WHERE l_orderkey <= 1000000";

/// How Arrow is asked for over HTTP.
const ARROW: &str =
    "POST /v1/sql HTTP/1.1\r\nContent-Type: application/sql\r\nAccept: application/vnd.apache.arrow.stream\r\n";

/// Such rows in a table in memory, so that files are not what is measured.
const TABLE: &str = "door_rows";

/// Runs both parts.
pub fn run(arguments: &ClientsArguments, data: &Path) -> Result<Value> {
    let own = WireServer::diligence(arguments.program.as_deref(), data, arguments.workers, &arguments.server)?;
    let mut servers = vec![own];
    if arguments.rivals.iter().any(|rival| rival == "postgres") {
        servers.push(WireServer::postgres(data)?);
    }
    let one = select_one(&servers, arguments)?;
    println!();
    let rows = rows(&servers)?;
    Ok(json!({"benchmark": "door", "select_1": one, "rows": rows}))
}

fn select_one(servers: &[WireServer], arguments: &ClientsArguments) -> Result<Value> {
    let mut table = Vec::new();
    let mut results = Vec::new();
    for count in COUNTS {
        let contestants: Vec<_> = servers
            .iter()
            .flat_map(|server| [(server, false), (server, true)])
            .filter(|(server, local)| !local || server.local.is_some())
            .collect();
        let mut latencies = vec![Vec::new(); contestants.len()];
        let mut rates = vec![Vec::new(); contestants.len()];
        for _ in 0..ROUNDS {
            for (position, &(server, local)) in contestants.iter().enumerate() {
                let load = Load {
                    server,
                    local,
                    pools: &[Clients { asks: Asks::Mix(Mix::One), count, starts: None }],
                    seconds: arguments.seconds / ROUNDS as f64,
                    protocol: Protocol::Prepared,
                    binary: arguments.binary,
                    scale_factor: arguments.sf,
                    seed: arguments.seed,
                };
                let seen = load.run()?;
                if let Some(failure) = seen.failure {
                    return Err(Error::value(format!("{}: {failure}", server.name())));
                }
                rates[position].push(seen.records.len() as f64 / seen.seconds);
                latencies[position].extend(seen.records.iter().map(|record| record.latency_ms * 1e3));
            }
        }
        for (position, (server, local)) in contestants.iter().enumerate() {
            let socket = if *local { "local" } else { "TCP" };
            let rate = median(&rates[position]);
            let shares = [0.5, 0.99].map(|share| quantile(&latencies[position], share));
            let mut row = vec![server.name().to_owned(), socket.to_owned(), count.to_string(), format!("{rate:.0}")];
            row.extend(shares.map(|share| format!("{share:.0}")));
            table.push(row);
            results.push(json!({
                "contestant": server.name(), "socket": socket, "clients": count, "per_s": rate, "latency_us": shares,
            }));
        }
    }
    println!("SELECT 1, prepared, {ROUNDS} rounds");
    print_table(&["contestant", "socket", "clients", "per s", "p50 us", "p99 us"].map(str::to_owned), &table);
    Ok(json!(results))
}

/// A way of getting rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Text,
    Binary,
    Arrow,
    PlainSocket,
    Flight,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Text => "text",
            Way::Binary => "binary",
            Way::Arrow => "Arrow over HTTP",
            Way::PlainSocket => "the same bytes over a plain socket",
            Way::Flight => "Arrow over Flight SQL",
        }
    }
}

fn rows(servers: &[WireServer]) -> Result<Value> {
    let runtime = runtime()?;
    let count = runtime.block_on(prepare(servers))?;
    let mut contestants = Vec::new();
    for server in servers {
        contestants.push((server, Way::Text));
        contestants.push((server, Way::Binary));
        if server.http.is_some() {
            contestants.push((server, Way::Arrow));
            contestants.push((server, Way::PlainSocket));
            contestants.push((server, Way::Flight));
        }
    }
    let mut seconds = vec![Vec::new(); contestants.len()];
    let mut bytes = vec![0; contestants.len()];
    // The first round warms up.
    for round in 0..=ROUNDS {
        for (position, &(server, way)) in contestants.iter().enumerate() {
            // As many bytes as Arrow had, which goes before it.
            let plain = if way == Way::PlainSocket { bytes[position - 1] } else { 0 };
            let (took, got) = runtime.block_on(fetch(server, way, count, plain))?;
            bytes[position] = got;
            if round > 0 {
                seconds[position].push(took);
            }
        }
    }
    let mut table = Vec::new();
    let mut results = Vec::new();
    for (position, (server, way)) in contestants.iter().enumerate() {
        let took = median(&seconds[position]);
        let megabytes = bytes[position] as f64 / 1e6;
        table.push(vec![
            format!("{}, {}", server.name(), way.name()),
            format!("{megabytes:.0}"),
            format!("{:.0}", took * 1e3),
            format!("{:.0}", megabytes / took),
            format!("{:.2}", count as f64 / took / 1e6),
        ]);
        results.push(json!({
            "contestant": server.name(), "way": way.name(), "bytes": bytes[position], "seconds": took, "rows": count,
        }));
    }
    println!("{count} rows of 10 columns from a table in memory, medians of {ROUNDS} rounds");
    print_table(&["way", "MB", "ms", "MB/s", "million rows/s"].map(str::to_owned), &table);
    Ok(json!(results))
}

/// Makes the tables; how many rows they have.
async fn prepare(servers: &[WireServer]) -> Result<u64> {
    let mut counts = Vec::new();
    for server in servers {
        let mut connection = open(server, false).await?;
        let kind = if server.name() == "postgres" { "UNLOGGED TABLE" } else { "TABLE" };
        for sql in [format!("DROP TABLE IF EXISTS {TABLE}"), format!("CREATE {kind} {TABLE} AS {ROWS}")] {
            connection.simple(&sql).await.map_err(|error| failed(server, &error))?;
        }
        let answers = connection.simple(&format!("SELECT count(*) FROM {TABLE}")).await;
        let answers = answers.map_err(|error| failed(server, &error))?;
        let count = answers.first().and_then(|answer| answer.rows.first()?.first()?.clone());
        let count = count.and_then(|text| String::from_utf8(text).ok()?.parse::<u64>().ok());
        counts.push(count.ok_or_else(|| Error::bug("a count that is no number"))?);
    }
    match counts.iter().all(|count| *count == counts[0] && *count > 0) {
        true => Ok(counts[0]),
        false => Err(Error::bug(format!("the tables differ: {counts:?} rows"))),
    }
}

/// Gets all rows; seconds and bytes.
async fn fetch(server: &WireServer, way: Way, count: u64, plain: u64) -> Result<(f64, u64)> {
    let sql = format!("SELECT * FROM {TABLE}");
    let wrong = |rows: u64| Err(Error::bug(format!("{} sent {rows} rows of {count}", server.name())));
    match way {
        Way::Text | Way::Binary => {
            let mut connection = open(server, false).await?;
            let start = Instant::now();
            let done = connection.run_once(&sql, way == Way::Binary, |_| {}).await;
            let done = done.map_err(|error| failed(server, &error))?;
            let took = start.elapsed().as_secs_f64();
            if done.rows == count { Ok((took, done.bytes)) } else { wrong(done.rows) }
        }
        Way::Arrow => {
            let address = server.http.ok_or_else(|| Error::bug("a server without HTTP"))?;
            let mut body = Vec::new();
            let took = http::ask(address, ARROW, &sql, 256 << 20, &mut body).await?;
            let batches = StreamReader::try_new(body.as_slice(), None);
            let batches = batches.map_err(|error| Error::bug(format!("no Arrow stream: {error}")))?;
            let mut rows = 0;
            for batch in batches {
                rows += batch.map_err(|error| Error::bug(format!("a broken Arrow stream: {error}")))?.num_rows() as u64;
            }
            if rows == count { Ok((took, body.len() as u64)) } else { wrong(rows) }
        }
        Way::PlainSocket => plain_socket(plain).await,
        Way::Flight => {
            let (took, messages) = flight(server, &sql).await?;
            let bytes = messages.iter().map(|message| message.data_header.len() + message.data_body.len());
            let bytes = bytes.sum::<usize>() as u64;
            let batches = flight_data_to_batches(&messages);
            let batches = batches.map_err(|error| Error::bug(format!("broken messages of rows: {error}")))?;
            let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>();
            if rows == count { Ok((took, bytes)) } else { wrong(rows) }
        }
    }
}

/// Gets all messages of a query over Flight SQL, without looking into them; seconds from the question to the last one.
async fn flight(server: &WireServer, sql: &str) -> Result<(f64, Vec<FlightData>)> {
    let lost = |error: &dyn std::fmt::Display| Error::resource(format!("{} over Flight SQL: {error}", server.name()));
    let address = server.flight.ok_or_else(|| Error::bug("a server without Flight SQL"))?;
    let channel = Channel::from_shared(format!("http://{address}")).map_err(|error| lost(&error))?;
    // As Go's and C++'s clients do.
    let channel = channel.http2_adaptive_window(true).connect().await.map_err(|error| lost(&error))?;
    let mut client = FlightSqlServiceClient::new(channel);
    let start = Instant::now();
    let info = client.execute(sql.to_owned(), None).await.map_err(|error| lost(&error))?;
    let ticket = info.endpoint.into_iter().find_map(|endpoint| endpoint.ticket);
    let ticket = ticket.ok_or_else(|| Error::bug("a statement without a ticket"))?;
    let stream = client.inner_mut().do_get(ticket).await.map_err(|error| lost(&error))?;
    let (mut stream, mut messages) = (stream.into_inner(), Vec::new());
    while let Some(message) = stream.message().await.map_err(|error| lost(&error))? {
        messages.push(message);
    }
    Ok((start.elapsed().as_secs_f64(), messages))
}

/// Moves so many bytes from a thread to this one over a socket.
async fn plain_socket(bytes: u64) -> Result<(f64, u64)> {
    let lost = |error: std::io::Error| Error::resource(format!("a plain socket: {error}"));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(lost)?;
    let address = listener.local_addr().map_err(lost)?;
    let sender = std::thread::spawn(move || -> std::io::Result<()> {
        let (mut stream, _) = listener.accept()?;
        let piece = vec![7; 256 * 1024];
        let mut left = bytes as usize;
        while left > 0 {
            let now = left.min(piece.len());
            stream.write_all(&piece[..now])?;
            left -= now;
        }
        Ok(())
    });
    let mut stream = TcpStream::connect(address).await.map_err(lost)?;
    let start = Instant::now();
    // Into memory of the same size, as the answer over HTTP.
    let mut raw = Vec::with_capacity(256 << 20);
    while stream.read_buf(&mut raw).await.map_err(lost)? > 0 {}
    let took = start.elapsed().as_secs_f64();
    sender.join().map_err(|_| Error::bug("the sender panicked"))?.map_err(lost)?;
    Ok((took, raw.len() as u64))
}
