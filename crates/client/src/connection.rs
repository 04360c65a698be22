//! A connection, and statements over it.
//!
//! Every method that awaits the server fails with [`Error::Lost`] when the connection ends, and with
//! [`Error::Protocol`] when the server sends something that does not belong there.

use std::fmt;
use std::io;

use md5::{Digest, Md5};

use crate::encryption;
use crate::message::{self, Column, Failure, Message};
use crate::scram::{ClientSide, MECHANISM};
use crate::socket::{Address, Socket};
use crate::url::Url;

/// Bytes read at once: as much of a large answer as the socket holds.
const READ_BYTES: usize = 256 * 1024;

/// Bytes of the first read buffer. It is small because hundreds of idle connections have one each.
const FIRST_READ_BYTES: usize = 8 * 1024;

/// Why a call failed.
#[derive(Debug)]
pub enum Error {
    /// The client gives up: the server cannot be reached in the way the URL demands, or did not prove its identity.
    Refused(diligence_base::Error),
    /// The server requires a password, and none was given.
    PasswordWanted,
    /// The connection was lost.
    Lost(io::Error),
    /// The server reported an error. The connection stays usable unless the severity is FATAL.
    Server(Failure),
    /// The server sent something that does not belong there.
    Protocol(String),
}

impl Error {
    /// The SQLSTATE, if the server gave one.
    pub fn code(&self) -> Option<&str> {
        match self {
            Error::Server(failure) => Some(&failure.code),
            Error::Refused(_) | Error::PasswordWanted | Error::Lost(_) | Error::Protocol(_) => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Refused(error) => error.fmt(f),
            Error::PasswordWanted => f.write_str("the server requires a password"),
            Error::Lost(error) => write!(f, "the connection was lost: {error}"),
            Error::Server(failure) => write!(f, "{} {}: {}", failure.severity, failure.code, failure.message),
            Error::Protocol(what) => write!(f, "the server violated the protocol: {what}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<diligence_base::Error> for Error {
    fn from(error: diligence_base::Error) -> Self {
        Error::Refused(error)
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Error::Lost(error)
    }
}

/// The answer to one statement of a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The columns; empty for a command.
    pub columns: Vec<Column>,
    /// The rows; a `None` value is NULL.
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
    /// The command tag, such as `SELECT 3`.
    pub tag: String,
}

/// The size of the answer to a prepared statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// The number of rows.
    pub rows: u64,
    /// The bytes of all rows, as received.
    pub bytes: u64,
}

/// A connection to a server.
#[derive(Debug)]
pub struct Connection {
    socket: Socket,
    /// What was read; the bytes from `next` to `end` were not parsed yet.
    buffer: Vec<u8>,
    next: usize,
    end: usize,
    /// The messages to send; reused to keep the allocation.
    output: Vec<u8>,
    process: i32,
    key: Vec<u8>,
}

impl Connection {
    /// Connects and logs in without a password.
    ///
    /// Fails with [`Error::PasswordWanted`] if the server requires one, and with [`Error::Server`] if it rejects the
    /// user.
    pub async fn open(address: &Address, user: &str, database: &str, settings: &[(&str, &str)]) -> Result<Self, Error> {
        let mut connection = Self::open_silently(address).await?;
        connection.log_in(user, database, settings, None).await?;
        Ok(connection)
    }

    /// Connects and logs in as the URL says.
    ///
    /// Fails with [`Error::Refused`] if the server cannot be reached, does not offer the encryption that the URL
    /// demands, or does not prove its identity; with [`Error::PasswordWanted`] if it requires a password that the URL
    /// does not have; and with [`Error::Server`] if it rejects the user or the password.
    pub async fn open_url(url: &Url, settings: &[(&str, &str)]) -> Result<Self, Error> {
        let mut connection = Self::open_url_silently(url).await?;
        connection.log_in(&url.user, &url.database, settings, url.password.as_deref()).await?;
        Ok(connection)
    }

    async fn log_in(
        &mut self,
        user: &str,
        database: &str,
        settings: &[(&str, &str)],
        password: Option<&str>,
    ) -> Result<(), Error> {
        self.send(&message::startup(user, database, settings)).await?;
        let mut proof: Option<ClientSide> = None;
        let mut proved = false;
        let is_private = self.socket.is_private();
        loop {
            let message = self.next().await?;
            let mut answer = Vec::new();
            match message.kind {
                b'R' => match message.log_in().ok_or_else(|| malformed(b'R'))? {
                    // A server that asked for a proof must give one as well.
                    (0, _) if proof.is_some() && !proved => return Err(not_proved()),
                    (0, _) => {}
                    (10, offered) => {
                        if !offered.split('\0').any(|name| name == MECHANISM) {
                            return Err(unsupported(format!("the server does not offer {MECHANISM}")));
                        }
                        let (side, first) = ClientSide::begin(password.ok_or(Error::PasswordWanted)?)?;
                        message::log_in(&mut answer, MECHANISM, &first);
                        proof = Some(side);
                    }
                    (11, challenge) => {
                        let side = proof.as_mut().ok_or_else(|| malformed(b'R'))?;
                        message::proof(&mut answer, &side.prove(challenge)?);
                    }
                    (12, last) => {
                        proved = proof.as_ref().is_some_and(|side| side.server_is_right(last));
                        if !proved {
                            return Err(not_proved());
                        }
                    }
                    // A proof is worth more: who has asked for one gets nothing less.
                    (5, _) if proof.is_none() => {
                        let salt = message.salt().ok_or_else(|| malformed(b'R'))?;
                        let password = password.ok_or(Error::PasswordWanted)?;
                        message::password(&mut answer, &hashed(user, password, salt));
                    }
                    (3, _) if proof.is_none() && is_private => {
                        message::password(&mut answer, password.ok_or(Error::PasswordWanted)?);
                    }
                    (3, _) => {
                        let error = diligence_base::Error::resource("the server wants the password in the clear");
                        return Err(Error::Refused(error.with_hint("encrypt the connection: sslmode=require")));
                    }
                    _ => {
                        return Err(unsupported(format!(
                            "the server requires another authentication method than {MECHANISM}, MD5 and a password"
                        )));
                    }
                },
                b'K' => {
                    let (process, key) = message.key().ok_or_else(|| malformed(b'K'))?;
                    let key = key.to_vec();
                    (self.process, self.key) = (process, key);
                }
                b'Z' => return Ok(()),
                b'E' => return Err(failed(message)),
                _ => {}
            }
            if !answer.is_empty() {
                self.send(&answer).await?;
            }
        }
    }

    /// Connects without sending anything. Fails with [`Error::Lost`] if the address cannot be reached.
    pub async fn open_silently(address: &Address) -> Result<Self, Error> {
        Ok(Self::over(Socket::connect(address).await?))
    }

    /// Connects as the URL says, with the encryption that it demands, without logging in.
    ///
    /// Fails with [`Error::Refused`] if the server cannot be reached or encryption cannot be agreed on.
    pub async fn open_url_silently(url: &Url) -> Result<Self, Error> {
        Ok(Self::over(encryption::connect(url).await?))
    }

    fn over(socket: Socket) -> Self {
        Self {
            socket,
            buffer: vec![0; FIRST_READ_BYTES],
            next: 0,
            end: 0,
            output: Vec::new(),
            process: 0,
            key: Vec::new(),
        }
    }

    /// The process ID of the session at the server.
    pub fn process(&self) -> i32 {
        self.process
    }

    /// The message that cancels the running statement of this session when another connection sends it.
    pub fn cancel_message(&self) -> Vec<u8> {
        message::cancel(self.process, &self.key)
    }

    /// Sends any bytes. Fails with [`Error::Lost`] if the connection has ended.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<(), Error> {
        Ok(self.socket.write_all(bytes).await?)
    }

    /// Closes the sending side; the server may still answer. Fails with [`Error::Lost`] if the connection has ended.
    pub async fn finish_sending(&mut self) -> Result<(), Error> {
        Ok(self.socket.shutdown().await?)
    }

    /// The next message. Cancel safe: it may be dropped and called again.
    ///
    /// Fails with [`Error::Lost`] if the connection ends first, and with [`Error::Protocol`] if the bytes are no
    /// message.
    pub async fn next(&mut self) -> Result<Message<'_>, Error> {
        while !self.has_message()? {
            self.read().await?;
        }
        self.arrived()?.ok_or_else(|| Error::Protocol("a message came and went".to_owned()))
    }

    /// Whether a whole message has been received.
    fn has_message(&self) -> Result<bool, Error> {
        Ok(Message::first(&self.buffer[self.next..self.end]).map_err(Error::Protocol)?.is_some())
    }

    /// The next message, if all of it has been received. Fails with [`Error::Protocol`] if the bytes are no message.
    pub fn arrived(&mut self) -> Result<Option<Message<'_>>, Error> {
        let length = match Message::first(&self.buffer[self.next..self.end]).map_err(Error::Protocol)? {
            Some((_, length)) => length,
            None => return Ok(None),
        };
        let at = self.next;
        self.next += length;
        Ok(Some(Message { kind: self.buffer[at], body: &self.buffer[at + 5..at + length] }))
    }

    /// The single byte that answers a request for encryption. Fails with [`Error::Lost`] if the connection ends first.
    pub async fn letter(&mut self) -> Result<u8, Error> {
        while self.next == self.end {
            self.read().await?;
        }
        self.next += 1;
        Ok(self.buffer[self.next - 1])
    }

    /// Reads more. Cancel safe: it may be dropped and called again.
    pub(crate) async fn read(&mut self) -> Result<(), Error> {
        if self.next == self.end {
            (self.next, self.end) = (0, 0);
        }
        if self.end == self.buffer.len() {
            if self.next > 0 {
                self.buffer.copy_within(self.next..self.end, 0);
                (self.next, self.end) = (0, self.end - self.next);
            } else {
                // The message is larger than the buffer, or much data is waiting.
                self.buffer.resize((self.buffer.len() * 2).max(READ_BYTES), 0);
            }
        }
        let read = self.socket.read(&mut self.buffer[self.end..]).await?;
        if read == 0 {
            return Err(Error::Lost(io::ErrorKind::UnexpectedEof.into()));
        }
        self.end += read;
        Ok(())
    }

    /// Runs a script, with one answer for each statement.
    ///
    /// Fails with [`Error::Server`] if a statement fails; the answers of those before it are lost.
    pub async fn simple(&mut self, sql: &str) -> Result<Vec<Answer>, Error> {
        self.output.clear();
        message::query(&mut self.output, sql);
        self.socket.write_all(&self.output).await?;
        let (mut answers, mut answer) = (Vec::new(), Answer::default());
        let mut failure = None;
        loop {
            let message = self.next().await?;
            match message.kind {
                b'T' => answer.columns = message.columns().ok_or_else(|| malformed(b'T'))?,
                b'D' => {
                    let values = message.values().ok_or_else(|| malformed(b'D'))?;
                    answer.rows.push(values.into_iter().map(|value| value.map(<[u8]>::to_vec)).collect());
                }
                b'C' => {
                    answer.tag = message.text().ok_or_else(|| malformed(b'C'))?.to_owned();
                    answers.push(std::mem::take(&mut answer));
                }
                b'I' => answers.push(Answer::default()),
                b'E' => {
                    let error = failed(message);
                    if is_fatal(&error) {
                        return Err(error);
                    }
                    failure = Some(error);
                }
                b'Z' => return failure.map_or(Ok(answers), Err),
                b'N' | b'S' => {}
                kind => return Err(Error::Protocol(format!("'{}' answers a script", kind.escape_ascii()))),
            }
        }
    }

    /// Prepares a statement under a name. Fails with [`Error::Server`] if the server rejects it.
    pub async fn prepare(&mut self, name: &str, sql: &str) -> Result<(), Error> {
        self.output.clear();
        message::parse(&mut self.output, name, sql);
        message::sync(&mut self.output);
        self.answered(|_| {}).await.map(|_| ())
    }

    /// Runs a prepared statement; `row` is called with the body of each DataRow message.
    ///
    /// Fails with [`Error::Server`] if the statement fails, possibly after some rows.
    pub async fn run(
        &mut self,
        name: &str,
        values: &[Option<&str>],
        binary: bool,
        row: impl FnMut(&[u8]),
    ) -> Result<Done, Error> {
        self.output.clear();
        message::bind(&mut self.output, name, values, binary);
        message::execute(&mut self.output, 0);
        message::sync(&mut self.output);
        self.answered(row).await
    }

    /// Parses, binds and runs a statement in one round trip.
    ///
    /// Fails with [`Error::Server`] if the statement fails, possibly after some rows.
    pub async fn run_once(&mut self, sql: &str, binary: bool, row: impl FnMut(&[u8])) -> Result<Done, Error> {
        self.output.clear();
        message::parse(&mut self.output, "", sql);
        message::bind(&mut self.output, "", &[], binary);
        message::describe(&mut self.output);
        message::execute(&mut self.output, 0);
        message::sync(&mut self.output);
        self.answered(row).await
    }

    /// Sends the collected messages and reads up to ReadyForQuery.
    async fn answered(&mut self, mut row: impl FnMut(&[u8])) -> Result<Done, Error> {
        self.socket.write_all(&self.output).await?;
        let mut done = Done::default();
        let mut failure = None;
        loop {
            let message = self.next().await?;
            match message.kind {
                b'D' => {
                    done.rows += 1;
                    done.bytes += message.body.len() as u64 + 5;
                    row(message.body);
                }
                b'E' => {
                    let error = failed(message);
                    if is_fatal(&error) {
                        return Err(error);
                    }
                    failure = Some(error);
                }
                b'Z' => return failure.map_or(Ok(done), Err),
                b'1' | b'2' | b'3' | b'C' | b'I' | b'N' | b'S' | b'T' | b'n' | b's' | b't' => {}
                kind => return Err(Error::Protocol(format!("'{}' answers a statement", kind.escape_ascii()))),
            }
        }
    }

    /// Ends the session and waits until the server has closed the connection. Fails with [`Error::Lost`] if it breaks
    /// instead.
    pub async fn close(mut self) -> Result<(), Error> {
        self.output.clear();
        message::terminate(&mut self.output);
        self.socket.write_all(&self.output).await?;
        // The server closes its side once the session has been torn down.
        while self.socket.read(&mut self.buffer).await? > 0 {}
        Ok(())
    }
}

/// The answer to a request for MD5: two hashes, the inner one that which the server keeps.
fn hashed(user: &str, password: &str, salt: [u8; 4]) -> String {
    let hex = |parts: &[&[u8]]| {
        let mut hash = Md5::new();
        parts.iter().for_each(|part| hash.update(part));
        hash.finalize().iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
    };
    let kept = hex(&[password.as_bytes(), user.as_bytes()]);
    format!("md5{}", hex(&[kept.as_bytes(), &salt]))
}

fn malformed(kind: u8) -> Error {
    Error::Protocol(format!("a message of kind '{}' is malformed", kind.escape_ascii()))
}

fn not_proved() -> Error {
    let text = "the server did not prove that it knows the password; it may be an impostor";
    Error::Refused(diligence_base::Error::resource(text))
}

fn unsupported(text: String) -> Error {
    Error::Refused(diligence_base::Error::unsupported(text))
}

fn failed(message: Message<'_>) -> Error {
    message.failure().map_or_else(|| malformed(message.kind), Error::Server)
}

fn is_fatal(error: &Error) -> bool {
    match error {
        Error::Server(failure) => failure.severity == "FATAL",
        Error::Refused(_) | Error::PasswordWanted | Error::Lost(_) | Error::Protocol(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn md5_is_that_of_the_protocol() {
        // SELECT 'md5' || md5(md5('secret' || 'ann') || 'salt')
        assert_eq!(hashed("ann", "secret", *b"salt"), "md5b8f5ba9f485dba302ec0963f7ee9ba8f");
    }
}
