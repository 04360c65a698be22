//! A session on a server, PostgreSQL's or ours: a statement goes in, an answer comes out.

use std::time::Duration;

use diligence_base::{Error, Result};
use diligence_client::{Column, Connection, Error as WireError, Failure, Url};
use tokio::runtime::Runtime;
use tokio::time::timeout;

/// How long a server may work on a statement, in milliseconds. Both are told.
const STATEMENT_MS_MAX: u64 = 10_000;

/// How long an answer may take. Longer than a statement may, because the server should end it first.
const ANSWER_TIME_MAX: Duration = Duration::from_millis(2 * STATEMENT_MS_MAX);

/// How long connecting may take.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

/// Settings on which answers depend. A server may refuse those that it does not have.
const SETTINGS: [&str; 3] = ["SET TimeZone = 'UTC'", "SET jit = off", "SET max_parallel_workers_per_gather = 0"];

/// A value in text form; `None` is NULL.
pub type Value = Option<String>;

/// What a server says to a statement.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Rows, or none for a command.
    Rows {
        /// The columns; empty for a command.
        columns: Vec<Column>,
        /// The rows.
        rows: Vec<Vec<Value>>,
    },
    /// An error.
    Refused(Failure),
    /// No answer within the time limit.
    Late,
    /// The connection was lost, or what came over it was not the protocol.
    Lost(String),
}

/// A session, connected when it is needed.
pub struct Session {
    runtime: Runtime,
    url: Url,
    wire: Option<Connection>,
}

impl Session {
    /// A session on the server at this URL.
    ///
    /// Fails with kind `Input` if the URL is not one, and with kind `Resource` if the server cannot be reached.
    pub fn open(url: &str) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Error::resource(format!("no runtime: {error}")))?;
        let mut session = Self { runtime, url: Url::parse(url)?, wire: None };
        session.connect()?;
        Ok(session)
    }

    /// Connects anew: settings and temporary objects are gone.
    ///
    /// Fails with kind `Resource` if the server cannot be reached.
    pub fn connect(&mut self) -> Result<()> {
        self.wire = None;
        let url = &self.url;
        let open = async { timeout(CONNECT_TIME_MAX, Connection::open_url(url, &[])).await };
        let wire = match self.runtime.block_on(open) {
            Ok(Ok(wire)) => wire,
            Ok(Err(error)) => return Err(Error::resource(format!("{url}: {error}"))),
            Err(_) => return Err(Error::resource(format!("{url}: no answer"))),
        };
        self.wire = Some(wire);
        for setting in SETTINGS {
            self.ask(setting);
        }
        self.ask(&format!("SET statement_timeout = {STATEMENT_MS_MAX}"));
        Ok(())
    }

    /// Whether the session still has its connection.
    pub fn is_connected(&self) -> bool {
        self.wire.is_some()
    }

    /// Sends a statement, or a script, and waits for the answer to its last statement. A connection that is lost, or
    /// whose answer is late, is given up.
    pub fn ask(&mut self, statement: &str) -> Reply {
        let Some(wire) = &mut self.wire else { return Reply::Lost("not connected".to_owned()) };
        let answered = self.runtime.block_on(async { timeout(ANSWER_TIME_MAX, wire.simple(statement)).await });
        let lost = match answered {
            Ok(Ok(mut answers)) => {
                let last = answers.pop().unwrap_or_default();
                let value = |value: Option<Vec<u8>>| value.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
                let rows = last.rows.into_iter().map(|row| row.into_iter().map(value).collect()).collect();
                return Reply::Rows { columns: last.columns, rows };
            }
            Ok(Err(WireError::Server(failure))) if !matches!(failure.severity.as_str(), "FATAL" | "PANIC") => {
                return Reply::Refused(failure);
            }
            Ok(Err(error)) => Reply::Lost(error.to_string()),
            Err(_) => Reply::Late,
        };
        self.wire = None;
        lost
    }
}
