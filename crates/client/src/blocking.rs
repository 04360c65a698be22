//! A blocking client for callers without a runtime: the shell and the terminal dashboard. Statements are sent as text,
//! and their rows come back as batches.
//!
//! It drives a [`Connection`](crate::Connection) while a caller waits, with a time limit, so that the caller can do
//! other things in between. It must not be used within a runtime.
//!
//! Invariant: a statement is sent only after the server has finished the one before it.

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

/// The time limit for connecting and logging in.
const GREETING_TIME_MAX: Duration = Duration::from_secs(60);
/// The time limit for the server to receive a request to cancel.
const CANCEL_TIME_MAX: Duration = Duration::from_secs(3);
/// The time limit for sending the message that ends the session.
const FAREWELL_TIME_MAX: Duration = Duration::from_secs(1);
/// The time limit of each wait when all rows are collected.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// The most rows in a batch. A batch is returned sooner when no more rows have arrived.
const BATCH_ROWS_MAX: usize = 1024;

/// An event in the execution of a statement.
#[derive(Debug)]
pub enum Answer {
    /// The columns of the rows to come.
    Columns(SchemaRef),
    /// Rows.
    Rows(RecordBatch),
    /// Bytes of a COPY … TO STDOUT, as the server sends them. Only after [`Connection::start_copy`].
    Data(Vec<u8>),
    /// The server awaits the bytes of a COPY … FROM STDIN: [`Connection::send_data`], and [`Connection::end_data`] or
    /// [`Connection::refuse_data`] at the end. Only after [`Connection::start_copy`].
    WantsData,
    /// The statement is done, with its command tag, such as `INSERT 0 3`.
    Done(String),
    /// A notice or warning for the user.
    Notice(String),
    /// The server is ready for the next statement.
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
    /// The event that follows the rows returned first.
    after: Option<Result<Answer>>,
    /// Whether the server is ready for a statement.
    ready: bool,
    /// Whether the caller takes and gives the bytes of a COPY.
    copies: bool,
    /// Whether the connection was lost.
    broken: bool,
}

/// Cancels the running statement of a connection, from any thread.
#[derive(Clone)]
pub struct Canceller {
    url: Url,
    request: Vec<u8>,
}

impl Canceller {
    /// Asks the server to cancel the running statement, and waits until the request was received, so that a late
    /// request cannot hit the next statement. The outcome is seen on the connection.
    ///
    /// Fails with kind `Resource` if the server cannot be reached.
    pub fn cancel(&self) -> Result<()> {
        runtime()?
            .block_on(async {
                let connect = timeout(GREETING_TIME_MAX, Wire::open_url_silently(&self.url)).await;
                let mut wire = connect.unwrap_or_else(|_| Err(late()))?;
                wire.send(&self.request).await?;
                // The server closes without an answer; it is not waited for beyond the limit.
                let _ = timeout(CANCEL_TIME_MAX, wire.read()).await;
                Ok(())
            })
            .map_err(|error| of_server(error, ""))
    }
}

impl Connection {
    /// Connects and logs in. `password` is called if the server requires a password that the URL does not have.
    ///
    /// Fails with kind `Resource` if the server cannot be reached or encryption cannot be agreed on, and with kind
    /// `Input` if it rejects the login.
    pub fn open(url: &Url, application: &str, password: impl FnOnce() -> Option<String>) -> Result<Self> {
        let runtime = runtime()?;
        let connect = |url: &Url| {
            let settings = [("application_name", application)];
            let connected =
                runtime.block_on(async { timeout(GREETING_TIME_MAX, Wire::open_url(url, &settings)).await });
            connected.unwrap_or_else(|_| Err(late()))
        };
        let mut connected = connect(url);
        // As in libpq, the user is asked for a password only once it is known to be needed. It is then used on a new
        // connection.
        if matches!(connected, Err(connection::Error::PasswordWanted))
            && let Some(password) = password()
        {
            connected = connect(&Url { password: Some(password), ..url.clone() });
        }
        let wire = connected.map_err(|error| match error {
            connection::Error::PasswordWanted => Error::input(format!("{url} requires a password"))
                .with_hint("put it into the URL, or into the environment variable PGPASSWORD"),
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
            copies: false,
            broken: false,
        })
    }

    /// A handle that cancels the running statement from any thread.
    pub fn canceller(&self) -> Canceller {
        self.canceller.clone()
    }

    /// Whether the connection was lost.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Whether the previous statement is over, so that the next one may be sent.
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// Sends a statement. Fails with kind `Bug` if the previous one is not over, with kind `Input` if the text contains
    /// a zero byte, and with kind `Resource` if the connection is lost.
    pub fn start(&mut self, statement: &str) -> Result<()> {
        if !self.ready {
            return Err(Error::bug("a statement was sent while another one was running"));
        }
        if statement.contains('\0') {
            return Err(Error::input("a statement cannot contain a zero byte"));
        }
        statement.clone_into(&mut self.statement);
        (self.schema, self.ready, self.copies) = (None, false, false);
        self.rows.clear();
        self.after = None;
        let mut query = Vec::new();
        message::query(&mut query, statement);
        self.send(&query)
    }

    /// Sends a COPY … TO STDOUT or FROM STDIN whose bytes the caller takes or gives. Fails as [`start`](Self::start)
    /// does.
    pub fn start_copy(&mut self, statement: &str) -> Result<()> {
        self.start(statement)?;
        self.copies = true;
        Ok(())
    }

    /// Sends bytes that the server [awaits](Answer::WantsData). Fails with kind `Resource` if the connection is lost.
    pub fn send_data(&mut self, bytes: &[u8]) -> Result<()> {
        let mut data = Vec::with_capacity(bytes.len() + 5);
        message::put(&mut data, b'd', |body| body.extend(bytes));
        self.send(&data)
    }

    /// Ends the bytes that the server awaits. Fails with kind `Resource` if the connection is lost.
    pub fn end_data(&mut self) -> Result<()> {
        let mut end = Vec::new();
        message::put(&mut end, b'c', |_| {});
        self.send(&end)
    }

    /// Tells the server, which awaits bytes, that there will be no more and why. The statement fails. Fails with kind
    /// `Resource` if the connection is lost.
    pub fn refuse_data(&mut self, reason: &str) -> Result<()> {
        let mut refusal = Vec::new();
        message::fail_copy(&mut refusal, &reason.replace('\0', " "));
        self.send(&refusal)
    }

    /// The next event, or `Pending` if there is none within the time.
    ///
    /// An error of the statement is an `Err` with the kind that its SQLSTATE maps to; the connection then goes on until
    /// it is [ready](Self::is_ready). A lost connection is an `Err` with kind `Resource`, and
    /// [broken](Self::is_broken).
    pub fn next_within(&mut self, time: Duration) -> Poll<Result<Answer>> {
        let end = Instant::now() + time;
        if let Some(after) = self.after.take() {
            return Poll::Ready(after);
        }
        loop {
            let received = match self.wire.arrived() {
                Ok(Some(message)) => received(message, &self.statement),
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
            match received.and_then(|received| self.answer(received)) {
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

    /// Runs a query and waits for all of its rows. Fails as [`start`](Self::start) and
    /// [`next_within`](Self::next_within) do.
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

    /// Handles a message. Rows are collected, so most messages give no event.
    fn answer(&mut self, received: Received) -> Result<Option<Answer>> {
        Ok(match received {
            Received::Columns(schema) => {
                self.schema = Some(schema.clone());
                Some(Answer::Columns(schema))
            }
            Received::Row(row) => {
                self.rows.push(row);
                None
            }
            Received::WantsData if self.copies => Some(Answer::WantsData),
            Received::WantsData => {
                self.refuse_data("this statement has no data; '\\copy' of the shell sends a file")?;
                None
            }
            Received::GivesData if self.copies => None,
            Received::GivesData => {
                let error = Error::unsupported("COPY … TO STDOUT has nobody here who takes its bytes");
                return Err(error.with_hint("'\\copy' of the shell writes a file; or run the query itself"));
            }
            Received::Data(bytes) => self.copies.then_some(Answer::Data(bytes)),
            Received::Ready => {
                self.ready = true;
                Some(Answer::Ready)
            }
            Received::Answer(answer) => Some(answer),
            Received::Nothing => None,
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

    /// Marks the connection as lost.
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
            // A server that is gone needs no message.
            let _ = self.runtime.block_on(async { timeout(FAREWELL_TIME_MAX, self.wire.send(&farewell)).await });
        }
    }
}

/// A parsed message.
enum Received {
    Columns(SchemaRef),
    Row(Vec<Option<String>>),
    WantsData,
    GivesData,
    Data(Vec<u8>),
    Ready,
    Answer(Answer),
    Nothing,
}

fn received(message: Message<'_>, statement: &str) -> Result<Received> {
    Ok(match message.kind {
        b'T' => Received::Columns(rows::schema(&message.columns().ok_or_else(malformed)?)),
        b'D' => Received::Row(rows::texts(&message.values().ok_or_else(malformed)?)?),
        b'C' => Received::Answer(Answer::Done(message.text().ok_or_else(malformed)?.to_owned())),
        b'I' => Received::Answer(Answer::Done(String::new())),
        b'E' => return Err(error(message.failure().ok_or_else(malformed)?, statement)),
        b'N' => {
            let notice = error(message.failure().ok_or_else(malformed)?, statement);
            Received::Answer(Answer::Notice(notice.to_string()))
        }
        b'G' => Received::WantsData,
        b'H' => Received::GivesData,
        b'd' => Received::Data(message.body.to_vec()),
        b'Z' => Received::Ready,
        _ => Received::Nothing,
    })
}

fn runtime() -> Result<Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Error::resource(format!("cannot start a connection: {error}")))
}

fn late() -> connection::Error {
    connection::Error::Lost(std::io::ErrorKind::TimedOut.into())
}

fn malformed() -> Error {
    Error::resource("the server sent a malformed message")
        .with_hint("check that the server speaks the PostgreSQL protocol")
}

/// The error as it is shown to the user.
fn of_server(error: connection::Error, statement: &str) -> Error {
    match error {
        connection::Error::Refused(error) => error,
        connection::Error::Server(failure) => self::error(failure, statement),
        connection::Error::Protocol(_) => malformed(),
        connection::Error::PasswordWanted => Error::input("the server requires a password"),
        connection::Error::Lost(error) => {
            let what = match error.kind() {
                std::io::ErrorKind::UnexpectedEof => "the server closed it".to_owned(),
                std::io::ErrorKind::TimedOut => "the server does not answer".to_owned(),
                _ => error.to_string(),
            };
            Error::resource(format!("the connection to the server was lost: {what}"))
        }
    }
}

/// SQLSTATEs that errors keep, since scripts ask for them; others are those of the kinds of errors.
const CODES: [&str; 24] = [
    "22003", "22012", "22023", "22P02", "23502", "23503", "23505", "23514", "25001", "25006", "25P02", "3F000",
    "40001", "40P01", "42501", "42601", "42701", "42703", "42704", "42710", "42804", "42883", "42P01", "42P07",
];

/// The error that the server reported, with its position in the statement.
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
    if let Some(&code) = CODES.iter().find(|code| **code == failure.code) {
        error = error.with_code(code);
    }
    if !failure.hint.is_empty() {
        error = error.with_hint(failure.hint);
    }
    if let Some(position) = failure.position {
        error = error.with_span(span(statement, position));
    }
    error
}

/// The line and column of the character at this position. All count from 1.
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
        assert_eq!((error.span(), error.code()), (Some(Span { line: 2, column: 3 }), Some("42703")));
        assert_eq!((error.message(), error.hint()), ("no column is named 'x'", Some("did you mean 'y'?")));
        assert_eq!(said(b"C57014\0Mcancelled\0\0").kind(), ErrorKind::Cancelled);
    }
}
