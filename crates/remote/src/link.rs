//! Connections to a server: made, kept for the next statement, and broken off.
//!
//! They belong to a runtime of their own, so that one that was made while a statement was planned is good for its scan.

use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use diligence_base::{Error, ErrorKind, Result};
use diligence_client::message::{self, Column};
use diligence_client::{Answer, Connection, Error as ClientError, Failure, Url};
use parking_lot::Mutex;
use tokio::runtime::Runtime;

/// Connections that are kept of one server, and for how long.
const KEPT_MAX: usize = 4;
const KEPT_TIME: Duration = Duration::from_secs(60);

/// How long rows that have come wait for more of their piece.
const PATIENCE: Duration = Duration::from_millis(50);

/// How long a request to cancel may take.
const CANCEL_TIME_MAX: Duration = Duration::from_secs(5);

/// What sessions at a server are set to: values come as they are read here, and nothing is changed.
const SETTINGS: [(&str, &str); 6] = [
    ("application_name", "diligence"),
    ("client_encoding", "UTF8"),
    ("DateStyle", "ISO"),
    ("IntervalStyle", "postgres"),
    ("TimeZone", "UTC"),
    ("default_transaction_read_only", "on"),
];

/// The runtime of all connections. Fails with kind `Resource` if the system refuses its thread.
fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<std::result::Result<Runtime, String>> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let builder = builder.worker_threads(1).thread_name("diligence-remote").enable_all();
        builder.build().map_err(|error| error.to_string())
    });
    runtime.as_ref().map_err(|error| Error::resource(format!("no runtime for other servers: {error}")))
}

/// Runs a future to its end while the calling thread waits: for planning. Works inside and outside of other runtimes.
pub(crate) fn wait<T: Send + 'static>(future: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    runtime()?.spawn(async move {
        let _ = sender.send(future.await);
    });
    receiver.recv().unwrap_or_else(|_| Err(Error::bug("what asks another server has panicked")))
}

/// A server, and connections to it that nobody uses.
pub(crate) struct Place {
    /// What statements call it.
    pub name: String,
    url: Url,
    kept: Mutex<Vec<(Connection, Instant)>>,
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.name, self.url)
    }
}

impl Place {
    pub fn new(name: &str, url: Url) -> Arc<Self> {
        Arc::new(Self { name: name.to_owned(), url, kept: Mutex::default() })
    }

    /// Its address, without the password.
    pub fn address(&self) -> String {
        self.url.to_string()
    }

    /// What errors call it.
    fn called(&self) -> String {
        format!("the server \"{}\" ({})", self.name, self.url)
    }

    fn take_kept(&self) -> Option<Connection> {
        let mut kept = self.kept.lock();
        kept.retain(|(_, since)| since.elapsed() < KEPT_TIME);
        kept.pop().map(|(connection, _)| connection)
    }

    /// The error for whoever runs a statement.
    fn failed(&self, error: ClientError) -> Error {
        match error {
            ClientError::Refused(error) if error.hint().is_none() && error.kind() == ErrorKind::Resource => error
                .with_code("08001")
                .with_hint("check the address of the ATTACH, and that the server runs and may be reached from here"),
            ClientError::Refused(error) => error.with_code("08001"),
            ClientError::PasswordWanted => Error::input(format!("{} asks for a password", self.called()))
                .with_code("28P01")
                .with_hint("say password=… in the ATTACH, or set PGPASSWORD in the environment of this process"),
            ClientError::Lost(error) => {
                let what = match error.kind() {
                    std::io::ErrorKind::UnexpectedEof => "it closed the connection".to_owned(),
                    _ => error.to_string(),
                };
                Error::resource(format!("the connection to {} was lost: {what}", self.called()))
                    .with_code("08006")
                    .with_hint("run the statement again")
            }
            ClientError::Protocol(what) => {
                let error = Error::resource(format!("{} does not speak PostgreSQL's protocol: {what}", self.called()));
                error.with_code("08P01")
            }
            ClientError::Server(failure) => self.refused(failure),
        }
    }

    /// The error for what the server refuses.
    pub fn refused(&self, failure: Failure) -> Error {
        let Failure { code, message, hint, .. } = failure;
        let kind = match code.as_str() {
            "53300" | "57P01" | "57P03" | "40001" | "40P01" => ErrorKind::Retry,
            "0A000" => ErrorKind::Unsupported,
            code if code.starts_with("22") => ErrorKind::Value,
            code if code.starts_with("53") || code.starts_with("54") || code.starts_with("57") => ErrorKind::Resource,
            _ => ErrorKind::Input,
        };
        let known = CODES.iter().find(|known| **known == code);
        let error = Error::new(kind, format!("{}: {message}", self.called()));
        let error = error.with_code(known.copied().unwrap_or(FOREIGN));
        let own_hint = match code.as_str() {
            "53300" => "it has no more connections to give: SET packets = 1, or raise its max_connections",
            "42501" => "grant SELECT there to the user of the ATTACH",
            "28P01" | "28000" => "check user and password of the ATTACH",
            _ => "",
        };
        match if hint.is_empty() { own_hint } else { hint.as_str() } {
            "" => error,
            hint => error.with_hint(hint),
        }
    }
}

/// SQLSTATEs that a server's errors keep here.
const CODES: [&str; 22] = [
    "0A000", "22003", "22007", "22008", "22012", "22023", "22P02", "28000", "28P01", "3D000", "3F000", "40001",
    "40P01", "42501", "42601", "42703", "42804", "42883", "42P01", "53300", "57014", "57P01",
];

/// The SQLSTATE of all others: an error of a foreign server.
const FOREIGN: &str = "HV000";

/// A connection in use. Dropped while the server is at work for it, that is cancelled there.
pub(crate) struct Link {
    place: Arc<Place>,
    connection: Option<Connection>,
    /// Whether the server owes an answer.
    is_busy: bool,
}

impl Link {
    /// One that is kept, or a new one. Fails with 08001 if the server cannot be reached, and as it refuses the user.
    pub async fn open(place: &Arc<Place>) -> Result<Self> {
        while let Some(connection) = place.take_kept() {
            let mut link = Self { place: place.clone(), connection: Some(connection), is_busy: false };
            // The server may have ended it since.
            if link.run("").await.is_ok() {
                return Ok(link);
            }
        }
        let own = place.clone();
        // What waits for its socket is the runtime of all connections, whoever asks.
        let opened = runtime()?.spawn(async move { Connection::open_url(&own.url, &SETTINGS).await });
        let opened = opened.await.map_err(|_| Error::bug("connecting to another server has panicked"))?;
        let connection = opened.map_err(|error| place.failed(error))?;
        Ok(Self { place: place.clone(), connection: Some(connection), is_busy: false })
    }

    fn connection(&mut self) -> Result<&mut Connection> {
        self.connection.as_mut().ok_or_else(|| Error::bug("a connection to another server is used after its end"))
    }

    /// The error for whoever runs a statement; the connection is not used any more if it is broken.
    fn failed(&mut self, error: ClientError) -> Error {
        match &error {
            ClientError::Server(failure) if failure.severity != "FATAL" => self.is_busy = false,
            _ => {
                self.connection = None;
                self.is_busy = false;
            }
        }
        self.place.failed(error)
    }

    /// Runs a script. Fails as its first statement that fails.
    pub async fn run(&mut self, sql: &str) -> Result<Vec<Answer>> {
        self.is_busy = true;
        let answers = self.connection()?.simple(sql).await;
        let answers = answers.map_err(|error| self.failed(error))?;
        self.is_busy = false;
        Ok(answers)
    }

    /// The columns of a query. Fails as the server refuses it.
    pub async fn describe(&mut self, sql: &str) -> Result<Vec<Column>> {
        let mut out = Vec::new();
        message::parse(&mut out, "", sql);
        message::put(&mut out, b'D', |body| body.extend(b"S\0"));
        message::sync(&mut out);
        self.is_busy = true;
        let connection = self.connection()?;
        let described = described(connection, &out).await;
        let described = described.map_err(|error| self.failed(error))?;
        self.is_busy = false;
        Ok(described)
    }

    /// Begins a COPY TO STDOUT; [`piece`](Self::piece) gives what comes. Fails with what the server says before the
    /// first row.
    pub async fn copy(&mut self, sql: &str) -> Result<()> {
        let mut out = Vec::new();
        message::query(&mut out, sql);
        self.is_busy = true;
        let connection = self.connection()?;
        let begun = begun(connection, &out).await;
        begun.map_err(|error| self.failed(error))
    }

    /// What comes next of a COPY, about so many bytes, and whether that was the last.
    pub async fn piece(&mut self, bytes: usize) -> Result<(Vec<u8>, bool)> {
        let connection = self.connection()?;
        let piece = copied(connection, bytes).await;
        let (piece, is_last) = piece.map_err(|error| self.failed(error))?;
        self.is_busy = !is_last;
        Ok((piece, is_last))
    }

    /// Nobody uses it any more: it is kept for others, unless it is in the middle of something.
    pub fn keep(mut self) {
        if self.is_busy {
            return;
        }
        let Some(connection) = self.connection.take() else { return };
        let mut kept = self.place.kept.lock();
        if kept.len() < KEPT_MAX {
            kept.push((connection, Instant::now()));
        }
    }
}

async fn described(connection: &mut Connection, out: &[u8]) -> std::result::Result<Vec<Column>, ClientError> {
    connection.send(out).await?;
    let (mut columns, mut failure) = (Vec::new(), None);
    loop {
        let message = connection.next().await?;
        match message.kind {
            b'T' => columns = message.columns().ok_or_else(|| malformed(b'T'))?,
            b'E' => failure = Some(message.failure().ok_or_else(|| malformed(b'E'))?),
            b'Z' => return failure.map_or(Ok(columns), |failure| Err(ClientError::Server(failure))),
            _ => {}
        }
    }
}

async fn begun(connection: &mut Connection, out: &[u8]) -> std::result::Result<(), ClientError> {
    connection.send(out).await?;
    let mut failure = None;
    loop {
        let message = connection.next().await?;
        match message.kind {
            b'H' => return Ok(()),
            b'E' => failure = Some(message.failure().ok_or_else(|| malformed(b'E'))?),
            b'Z' => return Err(failure.map_or_else(|| malformed(b'Z'), ClientError::Server)),
            _ => {}
        }
    }
}

async fn copied(connection: &mut Connection, bytes: usize) -> std::result::Result<(Vec<u8>, bool), ClientError> {
    let (mut piece, mut failure) = (Vec::with_capacity(bytes), None);
    loop {
        let next = connection.next();
        let message = match piece.is_empty() {
            true => next.await?,
            // Rows that come slowly are not kept back for others.
            false => match tokio::time::timeout(PATIENCE, next).await {
                Ok(message) => message?,
                Err(_) => return Ok((piece, false)),
            },
        };
        match message.kind {
            b'd' => {
                piece.extend_from_slice(message.body);
                if piece.len() >= bytes {
                    return Ok((piece, false));
                }
            }
            b'E' => failure = Some(message.failure().ok_or_else(|| malformed(b'E'))?),
            b'Z' => return failure.map_or(Ok((piece, true)), |failure| Err(ClientError::Server(failure))),
            _ => {}
        }
    }
}

fn malformed(kind: u8) -> ClientError {
    ClientError::Protocol(format!("a message of kind '{}' is not expected, or malformed", kind.escape_ascii()))
}

impl Drop for Link {
    fn drop(&mut self) {
        let (Some(connection), Ok(runtime)) = (self.connection.take(), runtime()) else { return };
        let (place, is_busy) = (self.place.clone(), self.is_busy);
        runtime.spawn(async move {
            if !is_busy {
                let _ = tokio::time::timeout(CANCEL_TIME_MAX, connection.close()).await;
                return;
            }
            let cancel = async {
                let mut other = Connection::open_url_silently(&place.url).await.ok()?;
                other.send(&connection.cancel_message()).await.ok()?;
                // The server answers by closing it.
                other.letter().await.ok()
            };
            let _ = tokio::time::timeout(CANCEL_TIME_MAX, cancel).await;
            drop(connection);
        });
    }
}
