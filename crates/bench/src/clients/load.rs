//! Many connections to one server, on one thread: each is a future, so that clients cost the server's cores little.
//!
//! When they send is said in [`due`](crate::due).

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use diligence_base::{Error, Result};
use diligence_client::{self as wire, Connection};
use tokio::time::Instant;

use super::contestants::WireServer;
use super::runtime;
use crate::due::Due;
use crate::mixes::{Mix, Statement, Statements};
use crate::rivals::{Outcome, Record};

/// So many answers are compared with those of lone runs.
const CHECKED: usize = 64;

/// Statements of a mix among which each of its templates is.
const TEMPLATES_WITHIN: usize = 200;

/// The SQLSTATE of a server that has too much to do.
const TOO_MANY: &str = "53300";

/// How statements are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Protocol {
    /// Prepared once per connection, then with other parameters
    Prepared,
    /// Parsed, bound and executed each time, constants in the text
    Extended,
}

/// What clients ask.
#[derive(Clone)]
pub enum Asks {
    /// Of TPC-H.
    Mix(Mix),
    /// What somebody else makes of a seed, for each client by its number; and what it is called.
    Made(&'static str, Maker),
}

/// Makes one client's endless list of statements of a seed and its number. Equal ones give equal lists.
pub type Maker = Arc<dyn Fn(u64, usize) -> Box<dyn Iterator<Item = Statement>> + Send + Sync>;

impl Asks {
    /// One client's endless list of statements. Equal seeds give equal lists.
    pub fn statements(&self, scale_factor: f64, seed: u64, client: usize) -> Box<dyn Iterator<Item = Statement>> {
        match self {
            Asks::Mix(mix) => Box::new(Statements::new(*mix, scale_factor, seed, client)),
            Asks::Made(_, make) => make(seed, client),
        }
    }
}

impl fmt::Display for Asks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Asks::Mix(mix) => mix.fmt(f),
            Asks::Made(name, _) => f.write_str(name),
        }
    }
}

/// Clients with the same kind of questions.
#[derive(Clone)]
pub struct Clients {
    /// What they ask.
    pub asks: Asks,
    /// How many there are.
    pub count: usize,
    /// When statements are due, in seconds from the start, if this is an open loop.
    pub starts: Option<Vec<f64>>,
}

/// A load.
pub struct Load<'a> {
    /// Whom it is for.
    pub server: &'a WireServer,
    /// Over the local socket rather than TCP.
    pub local: bool,
    /// The pools.
    pub pools: &'a [Clients],
    /// How long.
    pub seconds: f64,
    /// How.
    pub protocol: Protocol,
    /// Rows in binary rather than as text.
    pub binary: bool,
    /// The scale of the data.
    pub scale_factor: f64,
    /// Where constants come from.
    pub seed: u64,
}

/// What clients saw.
#[derive(Default)]
pub struct Seen {
    /// One for each statement.
    pub records: Vec<Record>,
    /// Until the last statement had ended.
    pub seconds: f64,
    /// Statements of each pool that were due and not sent.
    pub left: Vec<usize>,
    /// The first failure.
    pub failure: Option<String>,
    /// Some statements with their rows.
    answers: Vec<(Statement, Vec<Vec<u8>>)>,
}

impl Load<'_> {
    /// Runs it to its end.
    pub fn run(&self) -> Result<Seen> {
        let runtime = runtime()?;
        tokio::task::LocalSet::new().block_on(&runtime, self.all())
    }

    async fn all(&self) -> Result<Seen> {
        let mut clients = Vec::new();
        let mut dues = Vec::new();
        for (pool, group) in self.pools.iter().enumerate() {
            let due = Due::new(group.starts.clone());
            dues.push(due.clone());
            for number in 0..group.count {
                let (connection, names) = self.connect(&group.asks).await?;
                let statements = group.asks.statements(self.scale_factor, self.seed, pool << 16 | number);
                clients.push(Client {
                    pool,
                    connection,
                    names,
                    statements,
                    due: due.clone(),
                    protocol: self.protocol,
                    binary: self.binary,
                });
            }
        }
        let seen = Rc::new(RefCell::new(Seen::default()));
        let start = Instant::now();
        let end = start + Duration::from_secs_f64(self.seconds);
        let tasks: Vec<_> =
            clients.into_iter().map(|client| tokio::task::spawn_local(client.work(start, end, seen.clone()))).collect();
        for task in tasks {
            task.await.map_err(|error| Error::bug(format!("a client panicked: {error}")))?;
        }
        let mut seen = seen.take();
        seen.seconds = start.elapsed().as_secs_f64();
        seen.left = dues.iter().map(|due| due.left()).collect();
        Ok(seen)
    }

    /// A connection, with the mix's templates prepared: by their text, the names that they have there.
    async fn connect(&self, asks: &Asks) -> Result<(Connection, HashMap<String, String>)> {
        let mut connection = open(self.server, self.local).await?;
        let mut names = HashMap::new();
        if self.protocol == Protocol::Prepared {
            for statement in asks.statements(self.scale_factor, self.seed, 0).take(TEMPLATES_WITHIN) {
                let name = format!("s{}", names.len());
                if let Entry::Vacant(place) = names.entry(statement.template) {
                    let prepared = connection.prepare(&name, place.key()).await;
                    prepared.map_err(|error| failed(self.server, &error))?;
                    place.insert(name);
                }
            }
        }
        Ok((connection, names))
    }

    /// Compares answers that were seen under load with those of the same statements alone, nothing shared. Returns how
    /// many.
    pub fn check(&self, seen: &Seen) -> Result<usize> {
        let runtime = runtime()?;
        runtime.block_on(async {
            let mut alone = open(self.server, self.local).await?;
            if self.server.name() == "diligence" {
                alone.simple("SET sharing = 'off'").await.map_err(|error| failed(self.server, &error))?;
            }
            for (statement, rows) in &seen.answers {
                let mut expected = Vec::new();
                let run = match self.protocol {
                    Protocol::Prepared => {
                        let prepared = alone.prepare("s", &statement.template).await;
                        prepared.map_err(|error| failed(self.server, &error))?;
                        let done = send(&mut alone, Some("s"), statement, self.binary, &mut expected).await;
                        alone.simple("DEALLOCATE s").await.map_err(|error| failed(self.server, &error))?;
                        done
                    }
                    Protocol::Extended => send(&mut alone, None, statement, self.binary, &mut expected).await,
                };
                run.map_err(|error| failed(self.server, &error))?;
                let sorted = |rows: &[Vec<u8>]| {
                    let mut rows = rows.to_vec();
                    rows.sort();
                    rows
                };
                if sorted(&expected) != sorted(rows) {
                    let text = format!("{} gives another answer than alone:\n{}", self.server.name(), statement.text);
                    return Err(Error::bug(text));
                }
            }
            Ok(seen.answers.len())
        })
    }
}

/// A connection to a server.
pub async fn open(server: &WireServer, local: bool) -> Result<Connection> {
    let address = if local { server.local.as_ref() } else { Some(&server.tcp) };
    let address = address.ok_or_else(|| Error::unsupported(format!("{} has no local socket", server.name())))?;
    let (user, database) = server.user();
    Connection::open(address, user, database, &[]).await.map_err(|error| failed(server, &error))
}

/// An error that ends the benchmark.
pub fn failed(server: &WireServer, error: &wire::Error) -> Error {
    Error::resource(format!("{}: {error}", server.name()))
}

/// Sends a statement and keeps the rows.
async fn send(
    connection: &mut Connection,
    name: Option<&str>,
    statement: &Statement,
    binary: bool,
    rows: &mut Vec<Vec<u8>>,
) -> std::result::Result<wire::Done, wire::Error> {
    let row = |row: &[u8]| rows.push(row.to_vec());
    match name {
        Some(name) => {
            let values: Vec<_> = statement.values.iter().map(|value| Some(value.as_str())).collect();
            connection.run(name, &values, binary, row).await
        }
        None => connection.run_once(&statement.text, binary, row).await,
    }
}

struct Client {
    pool: usize,
    connection: Connection,
    names: HashMap<String, String>,
    statements: Box<dyn Iterator<Item = Statement>>,
    due: Arc<Due>,
    protocol: Protocol,
    binary: bool,
}

impl Client {
    async fn work(mut self, start: Instant, end: Instant, seen: Rc<RefCell<Seen>>) {
        let mut rows = Vec::new();
        while Instant::now() < end {
            let Some(wanted) = self.wanted(start).await else { return };
            let began = Instant::now();
            if began >= end {
                // It was due, but there was no time for it.
                return;
            }
            self.due.note_sent();
            let Some(statement) = self.statements.next() else { return };
            let name = match self.protocol {
                Protocol::Prepared => self.names.get(&statement.template).map(String::as_str),
                Protocol::Extended => None,
            };
            rows.clear();
            let done = send(&mut self.connection, name, &statement, self.binary, &mut rows).await;
            let ms = |from: Instant, to: Instant| to.saturating_duration_since(from).as_secs_f64() * 1e3;
            let (latency_ms, queue_ms) = (ms(wanted, Instant::now()), ms(wanted, began));
            let mut seen = seen.borrow_mut();
            let outcome = match &done {
                Ok(_) => Outcome::Answered,
                Err(error) if error.code() == Some(TOO_MANY) => Outcome::Refused,
                Err(error) => {
                    seen.failure.get_or_insert_with(|| format!("{error}\n{}", statement.text));
                    Outcome::Failed
                }
            };
            seen.records.push(Record { pool: self.pool, queue_ms, latency_ms, outcome });
            if done.is_ok() && seen.answers.len() < CHECKED {
                seen.answers.push((statement, rows.clone()));
            }
            if matches!(done, Err(wire::Error::Lost(_) | wire::Error::Protocol(_))) {
                return;
            }
        }
    }

    /// Waits until the next statement is due; when that is. `None` if nothing more is.
    async fn wanted(&self, start: Instant) -> Option<Instant> {
        let wanted = start + Duration::from_secs_f64(self.due.take(start.elapsed().as_secs_f64())?);
        // Timers are exact to a millisecond: what is due already must not wait for one.
        if Instant::now() < wanted {
            tokio::time::sleep_until(wanted).await;
        }
        Some(wanted)
    }
}
