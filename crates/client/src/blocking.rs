//! A client for those who have no runtime: the shell and the terminal board. One statement as text, its rows as
//! batches.
//!
//! It is a [`Connection`](crate::Connection) that is driven as long as somebody waits for it, with a time limit, so
//! that whoever waits can look at other things in between. Not for use within a runtime.
//!
//! Invariant: a statement is sent only when the one before it is over for the server, too.

use std::task::Poll;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use diligence_base::{Error, ErrorKind, Result, Span};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::connection::{self, Connection as Wire};
use crate::message::{self, Failure, Message};
use crate::rows;
use crate::url::Url;

/// How long connecting may take, and logging in.
const GREETING_TIME_MAX: Duration = Duration::from_secs(60);
/// How long the server may take to hear a request to cancel.
const CANCEL_TIME_MAX: Duration = Duration::from_secs(3);
/// How long somebody who leaves tries to say so.
const FAREWELL_TIME_MAX: Duration = Duration::from_secs(1);
/// How often whoever waits for all rows looks up.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// Rows of a batch at most. One is given sooner when no more rows have arrived.
const BATCH_ROWS_MAX: usize = 1024;

/// What a server says about a statement.
#[derive(Debug)]
pub enum Answer {
    /// The columns of the rows to come.
    Columns(SchemaRef),
    /// Rows.
    Rows(RecordBatch),
    /// The statement is done; what it was, as `INSERT 0 3`.
    Done(String),
    /// Something that people should know.
    Notice(String),
    /// The server takes the next statement.
    Ready,
}

/// A session on a server.
pub struct Connection {
    runtime: Runtime,
    wire: Wire,
    canceller: Canceller,
    statement: String,
    schema: Option<SchemaRef>,
    rows: Vec<Vec<Option<String>>>,
    /// What came after rows that were given first.
    after: Option<Result<Answer>>,
    /// Whether the server takes a statement.
    ready: bool,
    /// Whether nothing comes of this connection any more.
    broken: bool,
}

/// Ends what a connection's server does, from elsewhere.
#[derive(Clone)]
pub struct Canceller {
    url: Url,
    request: Vec<u8>,
}

impl Canceller {
    /// Asks the server to end the statement that runs, and waits until it has heard it, so that a late request cannot
    /// hit the next statement. Whether the statement ends is seen on the connection.
    pub fn cancel(&self) -> Result<()> {
        runtime()?
            .block_on(async {
                let connect = timeout(GREETING_TIME_MAX, Wire::open_url_silently(&self.url)).await;
                let mut wire = connect.unwrap_or_else(|_| Err(late()))?;
                wire.send(&self.request).await?;
                // The server closes without an answer. One that takes too long is not waited for.
                let _ = timeout(CANCEL_TIME_MAX, wire.read()).await;
                Ok(())
            })
            .map_err(|error| of_server(error, ""))
    }
}

impl Connection {
    /// Connects and logs in. `password` is asked when the server wants one that the URL does not have.
    pub fn open(url: &Url, application: &str, password: impl FnOnce() -> Option<String>) -> Result<Self> {
        let runtime = runtime()?;
        let connect = |url: &Url| {
            let settings = [("application_name", application)];
            let connected =
                runtime.block_on(async { timeout(GREETING_TIME_MAX, Wire::open_url(url, &settings)).await });
            connected.unwrap_or_else(|_| Err(late()))
        };
        let mut connected = connect(url);
        // As libpq does: nobody is asked for a password before it is known that one is wanted, and then it is a new
        // connection's.
        if matches!(connected, Err(connection::Error::PasswordWanted))
            && let Some(password) = password()
        {
            connected = connect(&Url { password: Some(password), ..url.clone() });
        }
        let wire = connected.map_err(|error| match error {
            connection::Error::PasswordWanted => {
                Error::input(format!("{url} wants a password")).with_hint("put it into the address, or into PGPASSWORD")
            }
            error => of_server(error, ""),
        })?;
        Ok(Self {
            canceller: Canceller { url: url.clone(), request: wire.cancel_message() },
            runtime,
            wire,
            statement: String::new(),
            schema: None,
            rows: Vec::new(),
            after: None,
            ready: true,
            broken: false,
        })
    }

    /// Ends its statements from elsewhere.
    pub fn canceller(&self) -> Canceller {
        self.canceller.clone()
    }

    /// Whether the connection was lost.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Whether the statement before is over and the next one may be sent.
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// Sends a statement. The one before must be over.
    pub fn start(&mut self, statement: &str) -> Result<()> {
        if !self.ready {
            return Err(Error::bug("a statement was sent while another one runs"));
        }
        if statement.contains('\0') {
            return Err(Error::input("a statement cannot have a zero byte"));
        }
        statement.clone_into(&mut self.statement);
        (self.schema, self.ready) = (None, false);
        self.rows.clear();
        self.after = None;
        let mut query = Vec::new();
        message::query(&mut query, statement);
        self.send(&query)
    }

    /// What the server says next, if it does within the time. An error of the statement is an `Err`, and the connection
    /// goes on until it is [ready](Self::is_ready).
    pub fn next_within(&mut self, time: Duration) -> Poll<Result<Answer>> {
        let end = Instant::now() + time;
        if let Some(after) = self.after.take() {
            return Poll::Ready(after);
        }
        loop {
            let told = match self.wire.arrived() {
                Ok(Some(message)) => told(message, &self.statement),
                Ok(None) if !self.rows.is_empty() => return Poll::Ready(self.batch()),
                Ok(None) => {
                    let left = end.saturating_duration_since(Instant::now());
                    match self.runtime.block_on(async { timeout(left, self.wire.read()).await }) {
                        Ok(Ok(())) => continue,
                        Ok(Err(error)) => return Poll::Ready(Err(self.lost(error))),
                        Err(_) => return Poll::Pending,
                    }
                }
                Err(error) => return Poll::Ready(Err(self.lost(error))),
            };
            match told.and_then(|told| self.answer(told)) {
                Ok(None) if self.rows.len() >= BATCH_ROWS_MAX => return Poll::Ready(self.batch()),
                Ok(None) => {}
                // Rows come before what follows them.
                answer if !self.rows.is_empty() => {
                    self.after = answer.transpose();
                    return Poll::Ready(self.batch());
                }
                Ok(Some(answer)) => return Poll::Ready(Ok(answer)),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// All rows of a statement that has some; waits for them.
    pub fn rows(&mut self, statement: &str) -> Result<Vec<RecordBatch>> {
        self.start(statement)?;
        let mut batches = Vec::new();
        let mut failed = None;
        while !self.ready {
            match self.next_within(LOOK_EVERY) {
                Poll::Ready(Ok(Answer::Rows(batch))) => batches.push(batch),
                Poll::Ready(Err(error)) if self.broken => return Err(error),
                Poll::Ready(Err(error)) => failed = Some(error),
                Poll::Ready(Ok(_)) | Poll::Pending => {}
            }
        }
        failed.map_or(Ok(batches), Err)
    }

    /// What a message comes to; rows are collected, so most give no answer.
    fn answer(&mut self, told: Told) -> Result<Option<Answer>> {
        Ok(match told {
            Told::Columns(schema) => {
                self.schema = Some(schema.clone());
                Some(Answer::Columns(schema))
            }
            Told::Row(row) => {
                self.rows.push(row);
                None
            }
            Told::WantsData => {
                let mut refusal = Vec::new();
                message::fail_copy(&mut refusal, "this client sends no data");
                self.send(&refusal)?;
                None
            }
            Told::Ready => {
                self.ready = true;
                Some(Answer::Ready)
            }
            Told::Answer(answer) => Some(answer),
            Told::Nothing => None,
        })
    }

    fn batch(&mut self) -> Result<Answer> {
        let rows = std::mem::take(&mut self.rows);
        let schema = self.schema.as_ref().ok_or_else(malformed)?;
        rows::batch(schema, &rows).map(Answer::Rows)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        let sent = self.runtime.block_on(self.wire.send(bytes));
        sent.map_err(|error| self.lost(error))
    }

    /// The connection's end.
    fn lost(&mut self, error: connection::Error) -> Error {
        self.broken = true;
        of_server(error, &self.statement)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if !self.broken {
            let mut farewell = Vec::new();
            message::terminate(&mut farewell);
            // A server that has gone needs none.
            let _ = self.runtime.block_on(async { timeout(FAREWELL_TIME_MAX, self.wire.send(&farewell)).await });
        }
    }
}

/// A message, as far as it concerns whoever waits for a statement.
enum Told {
    Columns(SchemaRef),
    Row(Vec<Option<String>>),
    WantsData,
    Ready,
    Answer(Answer),
    Nothing,
}

fn told(message: Message<'_>, statement: &str) -> Result<Told> {
    Ok(match message.kind {
        b'T' => Told::Columns(rows::schema(&message.columns().ok_or_else(malformed)?)),
        b'D' => Told::Row(rows::texts(&message.values().ok_or_else(malformed)?)?),
        b'C' => Told::Answer(Answer::Done(message.text().ok_or_else(malformed)?.to_owned())),
        b'I' => Told::Answer(Answer::Done(String::new())),
        b'E' => return Err(error(message.failure().ok_or_else(malformed)?, statement)),
        b'N' => {
            let notice = error(message.failure().ok_or_else(malformed)?, statement);
            Told::Answer(Answer::Notice(notice.to_string()))
        }
        b'G' => Told::WantsData,
        b'H' => return Err(Error::unsupported("COPY TO STDOUT is for programs; here a query shows its rows")),
        b'Z' => Told::Ready,
        _ => Told::Nothing,
    })
}

fn runtime() -> Result<Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Error::resource(format!("no connection can be made: {error}")))
}

fn late() -> connection::Error {
    connection::Error::Lost(std::io::ErrorKind::TimedOut.into())
}

fn malformed() -> Error {
    Error::resource("the server's answer is malformed").with_hint("is it a server that speaks PostgreSQL's protocol?")
}

/// The error as people are shown it.
fn of_server(error: connection::Error, statement: &str) -> Error {
    match error {
        connection::Error::Refused(error) => error,
        connection::Error::Server(failure) => self::error(failure, statement),
        connection::Error::Protocol(_) => malformed(),
        connection::Error::PasswordWanted => Error::input("the server wants a password"),
        connection::Error::Lost(error) => {
            let what = match error.kind() {
                std::io::ErrorKind::UnexpectedEof => "the server has closed it".to_owned(),
                std::io::ErrorKind::TimedOut => "the server does not answer".to_owned(),
                _ => error.to_string(),
            };
            Error::resource(format!("the connection to the server was lost: {what}"))
        }
    }
}

/// What a server says of an error, with its place in the statement.
fn error(failure: Failure, statement: &str) -> Error {
    let kind = match failure.code.as_str() {
        "57014" => ErrorKind::Cancelled,
        "53300" | "57P01" => ErrorKind::Retry,
        "0A000" => ErrorKind::Unsupported,
        code if code.starts_with("22") => ErrorKind::Value,
        code if code.starts_with("53") || code.starts_with("54") => ErrorKind::Resource,
        code if code.starts_with("XX") => ErrorKind::Bug,
        _ => ErrorKind::Input,
    };
    let mut error = Error::new(kind, failure.message);
    if !failure.hint.is_empty() {
        error = error.with_hint(failure.hint);
    }
    if let Some(position) = failure.position {
        error = error.with_span(span(statement, position));
    }
    error
}

/// The line and column of the character with this number, from 1.
fn span(statement: &str, position: usize) -> Span {
    let before = statement.chars().take(position.saturating_sub(1));
    let (line, column) = before.fold((1, 1), |(line, column), character| match character {
        '\n' => (line + 1, 1),
        _ => (line, column + 1),
    });
    Span { line, column }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_its_place() {
        let body = b"SERROR\0VERROR\0C42703\0Mno column is named 'x'\0Hdid you mean 'y'?\0P15\0\0";
        let said = |body| error(Message { kind: b'E', body }.failure().unwrap(), "SELECT 'é',\n  x");
        let error = said(body);
        assert_eq!(error.span(), Some(Span { line: 2, column: 3 }));
        assert_eq!((error.message(), error.hint()), ("no column is named 'x'", Some("did you mean 'y'?")));
        assert_eq!(said(b"C57014\0Mcancelled\0\0").kind(), ErrorKind::Cancelled);
    }
}
