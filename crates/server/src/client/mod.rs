//! The other side of PostgreSQL's protocol: a small client for the shell and the terminal board.
//!
//! It speaks the simple protocol: one statement as text, rows as text. Nothing here needs a runtime: a connection is a socket
//! that is read with a time limit, so that whoever waits can look at other things in between.
//!
//! Invariants:
//! * What is sent in the clear is decided by the [`Address`], never by the server.
//! * A statement is sent only when the one before it is over for the server, too.

mod address;
mod channel;
mod message;
mod rows;

use std::io::{ErrorKind as IoErrorKind, Read, Write};
use std::task::Poll;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use diligence_base::{Error, Result};

pub use address::{Address, Encryption};
use channel::Channel;
use message::{Body, message};

use crate::scram::{ClientSide, MECHANISM};

const PROTOCOL: u32 = 3 << 16;
const CANCEL_REQUEST: u32 = 80_877_102;
/// How long connecting may take, answer by answer.
const GREETING_TIME_MAX: Duration = Duration::from_secs(30);
/// How long the server may take to hear a request to cancel.
const CANCEL_TIME_MAX: Duration = Duration::from_secs(3);
/// Bytes of a message at most: what is longer is no PostgreSQL server.
const MESSAGE_BYTES_MAX: usize = 1 << 30;
/// Rows of a batch at most. One is given sooner when no more rows have arrived.
const BATCH_ROWS_MAX: usize = 1024;
const READ_BYTES: usize = 64 << 10;

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
    channel: Channel,
    /// Bytes that were read and are not used yet.
    buffer: Vec<u8>,
    used: usize,
    canceller: Canceller,
    statement: String,
    schema: Option<SchemaRef>,
    rows: Vec<Vec<Option<String>>>,
    /// Whether the server takes a statement.
    ready: bool,
    /// Whether nothing comes of this connection any more.
    broken: bool,
}

/// Ends what a connection's server does, from elsewhere.
#[derive(Clone)]
pub struct Canceller {
    address: Address,
    /// The session's number and key.
    key: Vec<u8>,
}

impl Canceller {
    /// Asks the server to end the statement that runs, and waits until it has heard it, so that a late request cannot hit the
    /// next statement. Whether the statement ends is seen on the connection.
    pub fn cancel(&self) -> Result<()> {
        let mut channel = Channel::open(&self.address)?;
        let mut request = ((8 + self.key.len()) as u32).to_be_bytes().to_vec();
        request.extend(CANCEL_REQUEST.to_be_bytes());
        request.extend(&self.key);
        channel.write_all(&request).and_then(|()| channel.flush()).map_err(|error| lost(&error))?;
        // The server closes without an answer. One that takes too long is not waited for.
        let _ = channel.wait_at_most(CANCEL_TIME_MAX).and_then(|()| channel.read(&mut [0]));
        Ok(())
    }
}

impl Connection {
    /// Connects and logs in. `password` is asked when the server wants one that the address does not have.
    pub fn open(address: &Address, application: &str, password: impl FnOnce() -> Option<String>) -> Result<Self> {
        let mut connection = Self {
            channel: Channel::open(address)?,
            buffer: Vec::new(),
            used: 0,
            canceller: Canceller { address: address.clone(), key: Vec::new() },
            statement: String::new(),
            schema: None,
            rows: Vec::new(),
            ready: false,
            broken: false,
        };
        let mut body = PROTOCOL.to_be_bytes().to_vec();
        let parameters =
            [("user", address.user.as_str()), ("database", &address.database), ("application_name", application)];
        for text in parameters.iter().flat_map(|(name, value)| [*name, *value]).chain([""]) {
            body.extend(text.as_bytes());
            body.push(0);
        }
        let mut startup = ((body.len() + 4) as u32).to_be_bytes().to_vec();
        startup.extend(body);
        connection.send(&startup)?;
        connection.log_in(address, password)?;
        Ok(connection)
    }

    fn log_in(&mut self, address: &Address, password: impl FnOnce() -> Option<String>) -> Result<()> {
        let mut password = Some(password);
        let mut proof: Option<ClientSide> = None;
        let mut proved = false;
        loop {
            let (kind, bytes) = self.wait()?;
            let mut body = Body(&bytes);
            match kind {
                b'R' => match body.u32()? {
                    // A server that asked for a proof has to give one, too.
                    0 if proof.is_some() && !proved => return Err(not_proved()),
                    0 => {}
                    10 => {
                        let offered = std::str::from_utf8(body.0).map_err(|_| malformed())?;
                        if !offered.split('\0').any(|name| name == MECHANISM) {
                            return Err(Error::unsupported(format!("the server does not offer {MECHANISM}")));
                        }
                        let given = address.password.clone().or_else(|| password.take().and_then(|ask| ask()));
                        let given = given.ok_or_else(|| {
                            Error::input(format!("{address} wants a password"))
                                .with_hint("put it into the address, or into PGPASSWORD")
                        })?;
                        let (side, first) = ClientSide::begin(&given)?;
                        let mut answer = format!("{MECHANISM}\0").into_bytes();
                        answer.extend((first.len() as u32).to_be_bytes());
                        answer.extend(first.as_bytes());
                        self.send(&message(b'p', &answer))?;
                        proof = Some(side);
                    }
                    11 => {
                        let challenge = std::str::from_utf8(body.0).map_err(|_| malformed())?;
                        let answer = proof.as_mut().ok_or_else(malformed)?.prove(challenge)?;
                        self.send(&message(b'p', answer.as_bytes()))?;
                    }
                    12 => {
                        let last = std::str::from_utf8(body.0).map_err(|_| malformed())?;
                        proved = proof.as_ref().is_some_and(|side| side.server_is_right(last));
                        if !proved {
                            return Err(not_proved());
                        }
                    }
                    _ => {
                        return Err(Error::unsupported(format!("the server wants a log-in other than {MECHANISM}")));
                    }
                },
                b'K' => self.canceller.key = bytes,
                b'E' => return Err(message::error(body, "")?),
                b'Z' => {
                    self.ready = true;
                    return Ok(());
                }
                _ => {}
            }
        }
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
        statement.clone_into(&mut self.statement);
        (self.schema, self.ready) = (None, false);
        self.rows.clear();
        let mut body = statement.as_bytes().to_vec();
        if body.contains(&0) {
            self.ready = true;
            return Err(Error::input("a statement cannot have a zero byte"));
        }
        body.push(0);
        self.send(&message(b'Q', &body))
    }

    /// What the server says next, if it does within the time. An error of the statement is an `Err`, and the connection goes on
    /// until it is [ready](Self::is_ready).
    pub fn next_within(&mut self, time: Duration) -> Poll<Result<Answer>> {
        let end = Instant::now() + time;
        loop {
            let taken = match self.take() {
                Ok(taken) => taken,
                Err(error) => return Poll::Ready(Err(error)),
            };
            let answered = match taken {
                Some((kind, bytes)) => self.answer(kind, bytes),
                None => {
                    if !self.rows.is_empty() {
                        return Poll::Ready(self.batch());
                    }
                    let left = end.saturating_duration_since(Instant::now());
                    match self.fill(left) {
                        Ok(true) => continue,
                        Ok(false) => return Poll::Pending,
                        Err(error) => return Poll::Ready(Err(error)),
                    }
                }
            };
            match answered {
                Ok(None) if self.rows.len() >= BATCH_ROWS_MAX => return Poll::Ready(self.batch()),
                Ok(None) => {}
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
            match self.next_within(GREETING_TIME_MAX) {
                Poll::Ready(Ok(Answer::Rows(batch))) => batches.push(batch),
                Poll::Ready(Err(error)) if self.broken => return Err(error),
                Poll::Ready(Err(error)) => failed = Some(error),
                Poll::Ready(Ok(_)) | Poll::Pending => {}
            }
        }
        failed.map_or(Ok(batches), Err)
    }

    /// Handles a message; rows are collected, so most give no answer.
    fn answer(&mut self, kind: u8, bytes: Vec<u8>) -> Result<Option<Answer>> {
        let mut body = Body(&bytes);
        // Rows come before what follows them.
        if kind != b'D' && !self.rows.is_empty() {
            self.used -= bytes.len() + 5;
            return self.batch().map(Some);
        }
        Ok(match kind {
            b'T' => {
                let schema = rows::schema(&rows::columns(body)?);
                self.schema = Some(schema.clone());
                Some(Answer::Columns(schema))
            }
            b'D' => {
                self.rows.push(rows::row(body)?);
                None
            }
            b'C' => Some(Answer::Done(body.text()?.to_owned())),
            b'I' => Some(Answer::Done(String::new())),
            b'E' => return Err(message::error(body, &self.statement)?),
            b'N' => Some(Answer::Notice(message::error(body, &self.statement)?.to_string())),
            b'G' => {
                let mut reason = b"this client sends no data".to_vec();
                reason.push(0);
                self.send(&message(b'f', &reason))?;
                None
            }
            b'H' => return Err(Error::unsupported("COPY TO STDOUT is for programs; here a query shows its rows")),
            b'Z' => {
                self.ready = true;
                Some(Answer::Ready)
            }
            _ => None,
        })
    }

    fn batch(&mut self) -> Result<Answer> {
        let schema = self.schema.as_ref().ok_or_else(malformed)?;
        let batch = rows::batch(schema, &self.rows);
        self.rows.clear();
        batch.map(Answer::Rows)
    }

    /// A whole message of those that were read.
    fn take(&mut self) -> Result<Option<(u8, Vec<u8>)>> {
        let rest = &self.buffer[self.used..];
        let Some(head) = rest.first_chunk::<5>() else { return Ok(None) };
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if !(4..=MESSAGE_BYTES_MAX).contains(&length) {
            self.broken = true;
            return Err(malformed());
        }
        let Some(bytes) = rest.get(5..length + 1) else { return Ok(None) };
        let message = (head[0], bytes.to_vec());
        self.used += length + 1;
        Ok(Some(message))
    }

    /// Reads more; false if nothing came within the time.
    fn fill(&mut self, time: Duration) -> Result<bool> {
        self.buffer.drain(..self.used);
        self.used = 0;
        let filled = self.buffer.len();
        self.buffer.resize(filled + READ_BYTES, 0);
        let read = self.channel.wait_at_most(time).and_then(|()| self.channel.read(&mut self.buffer[filled..]));
        self.buffer.truncate(filled + read.as_ref().copied().unwrap_or(0));
        match read {
            Ok(0) => {
                self.broken = true;
                Err(lost(&"the server has closed it"))
            }
            Ok(_) => Ok(true),
            Err(error)
                if matches!(
                    error.kind(),
                    IoErrorKind::WouldBlock | IoErrorKind::TimedOut | IoErrorKind::Interrupted
                ) =>
            {
                Ok(false)
            }
            Err(error) => {
                self.broken = true;
                Err(lost(&error))
            }
        }
    }

    /// A whole message; waits for it.
    fn wait(&mut self) -> Result<(u8, Vec<u8>)> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(message);
            }
            if !self.fill(GREETING_TIME_MAX)? {
                self.broken = true;
                return Err(lost(&"the server does not answer"));
            }
        }
    }

    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        let sent = self.channel.write_all(bytes).and_then(|()| self.channel.flush());
        sent.map_err(|error| {
            self.broken = true;
            lost(&error)
        })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if !self.broken {
            // A server that has gone needs no farewell.
            let _ = self.send(&message(b'X', &[]));
        }
    }
}

fn lost(error: &dyn std::fmt::Display) -> Error {
    Error::resource(format!("the connection to the server was lost: {error}"))
}

fn malformed() -> Error {
    Error::resource("the server's answer is malformed").with_hint("is it a server that speaks PostgreSQL's protocol?")
}

fn not_proved() -> Error {
    Error::resource("the server did not prove that it knows the password: it may be somebody else")
}
