//! A connection, and statements over it.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;

use crate::encryption;
use crate::message::{self, Column, Failure, Message};
use crate::scram::{ClientSide, MECHANISM};
use crate::url::Url;

/// What is read at once: as much as a large answer has in the socket.
const READ_BYTES: usize = 256 * 1024;

/// The first buffer: hundreds of connections at rest have one each.
const FIRST_READ_BYTES: usize = 8 * 1024;

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A port.
    Tcp(SocketAddr),
    /// A local socket.
    Local(PathBuf),
}

impl FromStr for Address {
    type Err = String;

    /// `127.0.0.1:5433`, or the path of a local socket.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(address) => Ok(Address::Tcp(address)),
            Err(_) if text.starts_with('/') => Ok(Address::Local(PathBuf::from(text))),
            Err(_) => Err(format!("'{text}' is neither an address with a port nor the path of a socket")),
        }
    }
}

/// What may go wrong.
#[derive(Debug)]
pub enum Error {
    /// This client goes no further: the server cannot be reached as it should, or does not prove who it is.
    Refused(diligence_base::Error),
    /// The server wants a password, and none was given.
    PasswordWanted,
    /// The connection is over.
    Lost(io::Error),
    /// The server says no. The connection goes on, if the failure is not fatal.
    Server(Failure),
    /// The server sends what does not belong there.
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
            Error::PasswordWanted => f.write_str("the server wants a password"),
            Error::Lost(error) => write!(f, "the connection is lost: {error}"),
            Error::Server(failure) => write!(f, "{} {}: {}", failure.severity, failure.code, failure.message),
            Error::Protocol(what) => write!(f, "the server breaks the protocol: {what}"),
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

/// What a statement answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The columns; none of a command.
    pub columns: Vec<Column>,
    /// The rows; `None` within is NULL.
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
    /// What was done: `SELECT 3`.
    pub tag: String,
}

/// What a prepared statement came to, its rows apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Rows.
    pub rows: u64,
    /// Bytes of the rows, as they came.
    pub bytes: u64,
}

/// A connection that is let in.
#[derive(Debug)]
pub struct Connection {
    socket: Socket,
    /// What was read; of it, the bytes from `next` to `end` were not looked at.
    buffer: Vec<u8>,
    next: usize,
    end: usize,
    /// What is sent next; kept, so that it is not made anew for each statement.
    output: Vec<u8>,
    process: i32,
    key: Vec<u8>,
}

/// Bytes to and from a server.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Local(UnixStream),
    Encrypted(Box<TlsStream<TcpStream>>),
}

impl Socket {
    async fn connect(address: &Address) -> io::Result<Self> {
        Ok(match address {
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Socket::Tcp(stream)
            }
            Address::Local(path) => Socket::Local(UnixStream::connect(path).await?),
        })
    }

    async fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.read(into).await,
            Socket::Local(stream) => stream.read(into).await,
            Socket::Encrypted(stream) => stream.read(into).await,
        }
    }

    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.write_all(bytes).await,
            Socket::Local(stream) => stream.write_all(bytes).await,
            Socket::Encrypted(stream) => {
                stream.write_all(bytes).await?;
                // Encrypted bytes may be kept back otherwise.
                stream.flush().await
            }
        }
    }

    async fn shutdown(&mut self) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.shutdown().await,
            Socket::Local(stream) => stream.shutdown().await,
            Socket::Encrypted(stream) => stream.shutdown().await,
        }
    }
}

impl Connection {
    /// Connects and is let in, without a password.
    pub async fn open(address: &Address, user: &str, database: &str, settings: &[(&str, &str)]) -> Result<Self, Error> {
        let mut connection = Self::open_silently(address).await?;
        connection.log_in(user, database, settings, None).await?;
        Ok(connection)
    }

    /// Connects and is let in as the URL says.
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
        loop {
            let message = self.next().await?;
            let mut answer = Vec::new();
            match message.kind {
                b'R' => match message.log_in().ok_or_else(|| malformed(b'R'))? {
                    // A server that asked for a proof has to give one, too.
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
                    _ => return Err(unsupported(format!("the server wants a log-in other than {MECHANISM}"))),
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

    /// Connects and says nothing.
    pub async fn open_silently(address: &Address) -> Result<Self, Error> {
        Ok(Self::over(Socket::connect(address).await?))
    }

    /// Connects as the URL says, and says nothing.
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

    /// The session's number at the server.
    pub fn process(&self) -> i32 {
        self.process
    }

    /// The message with which another connection cancels what this one runs.
    pub fn cancel_message(&self) -> Vec<u8> {
        message::cancel(self.process, &self.key)
    }

    /// Sends bytes, whatever they are.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<(), Error> {
        Ok(self.socket.write_all(bytes).await?)
    }

    /// Sends no more; the server may still answer.
    pub async fn finish_sending(&mut self) -> Result<(), Error> {
        Ok(self.socket.shutdown().await?)
    }

    /// The next message. May be dropped and called again.
    pub async fn next(&mut self) -> Result<Message<'_>, Error> {
        while !self.has_message()? {
            self.read().await?;
        }
        self.arrived()?.ok_or_else(|| Error::Protocol("a message came and went".to_owned()))
    }

    /// Whether a whole message is there already.
    fn has_message(&self) -> Result<bool, Error> {
        Ok(Message::first(&self.buffer[self.next..self.end]).map_err(Error::Protocol)?.is_some())
    }

    /// The next message, if all of it is there already.
    pub fn arrived(&mut self) -> Result<Option<Message<'_>>, Error> {
        let length = match Message::first(&self.buffer[self.next..self.end]).map_err(Error::Protocol)? {
            Some((_, length)) => length,
            None => return Ok(None),
        };
        let at = self.next;
        self.next += length;
        Ok(Some(Message { kind: self.buffer[at], body: &self.buffer[at + 5..at + length] }))
    }

    /// The single byte that answers a request for encryption.
    pub async fn letter(&mut self) -> Result<u8, Error> {
        while self.next == self.end {
            self.read().await?;
        }
        self.next += 1;
        Ok(self.buffer[self.next - 1])
    }

    /// Reads more. May be dropped and called again.
    pub(crate) async fn read(&mut self) -> Result<(), Error> {
        if self.next == self.end {
            (self.next, self.end) = (0, 0);
        }
        if self.end == self.buffer.len() {
            if self.next > 0 {
                self.buffer.copy_within(self.next..self.end, 0);
                (self.next, self.end) = (0, self.end - self.next);
            } else {
                // The message is larger than the buffer, or there is a lot to come.
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

    /// Runs a script; an answer for each statement.
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

    /// Has a statement parsed, under a name.
    pub async fn prepare(&mut self, name: &str, sql: &str) -> Result<(), Error> {
        self.output.clear();
        message::parse(&mut self.output, name, sql);
        message::sync(&mut self.output);
        self.answered(|_| {}).await.map(|_| ())
    }

    /// Runs a prepared statement; `row` sees each row as the body of its message.
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

    /// Parses, binds and runs a statement in one go.
    pub async fn run_once(&mut self, sql: &str, binary: bool, row: impl FnMut(&[u8])) -> Result<Done, Error> {
        self.output.clear();
        message::parse(&mut self.output, "", sql);
        message::bind(&mut self.output, "", &[], binary);
        message::describe(&mut self.output);
        message::execute(&mut self.output, 0);
        message::sync(&mut self.output);
        self.answered(row).await
    }

    /// Sends what is to be sent and reads up to the end of the series.
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

    /// Says good-bye.
    pub async fn close(mut self) -> Result<(), Error> {
        self.output.clear();
        message::terminate(&mut self.output);
        self.socket.write_all(&self.output).await?;
        // The server closes its side when nothing of the session is left.
        while self.socket.read(&mut self.buffer).await? > 0 {}
        Ok(())
    }
}

fn malformed(kind: u8) -> Error {
    Error::Protocol(format!("a message of kind '{}' is malformed", kind.escape_ascii()))
}

fn not_proved() -> Error {
    let text = "the server did not prove that it knows the password: it may be somebody else";
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
    fn addresses_are_ports_or_sockets() {
        assert_eq!("127.0.0.1:5433".parse(), Ok(Address::Tcp(SocketAddr::from(([127, 0, 0, 1], 5433)))));
        assert_eq!("/tmp/.s.PGSQL.5432".parse(), Ok(Address::Local(PathBuf::from("/tmp/.s.PGSQL.5432"))));
        assert!("localhost".parse::<Address>().is_err());
    }
}
