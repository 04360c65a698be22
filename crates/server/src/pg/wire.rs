//! Messages in and out: pgwire's forms of them over a socket, with limits, and without a thread while waiting.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use diligence_base::panics::caught_quietly;
use diligence_base::{Error, ErrorKind};
use pgwire::error::PgWireError;
use pgwire::messages::response::{ErrorResponse, NoticeResponse};
use pgwire::messages::startup::ParameterStatus;
use pgwire::messages::{DecodeContext, PgWireBackendMessage, PgWireFrontendMessage, ProtocolVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::accepting::Socket;
use crate::execution::STALLED_AFTER;
use crate::sqlstate;

/// Bytes that are read ahead while a statement runs: enough for a driver's pipeline. More stays in the socket.
const AHEAD_BYTES_MAX: usize = 64 * 1024;
/// A buffer at rest is given back when it is larger.
const RESTING_BYTES_MAX: usize = 4 * 1024;

/// What a client sends.
pub(super) enum Received {
    /// What pgwire has a form of.
    Message(PgWireFrontendMessage),
    /// A call of a function by its number. Clients have long had queries for that, so pgwire has no form of it.
    FunctionCall,
}

/// The kind of a [`Received::FunctionCall`].
const FUNCTION_CALL: u8 = b'F';

/// The kind of a Sync.
const SYNC: u8 = b'S';

/// Why a connection cannot go on.
#[derive(Debug)]
pub(super) enum Broken {
    /// The client is gone, or takes nothing.
    Gone,
    /// It sends what is no message: it is told so, and then it is over.
    Malformed(Error),
}

impl From<io::Error> for Broken {
    fn from(_: io::Error) -> Self {
        Broken::Gone
    }
}

/// How long after it was seen that a client sends no more it is asked again whether it is there; doubled each time.
const ASK_AFTER: Duration = Duration::from_millis(50);
/// Until that has become so long.
const ASK_AFTER_MAX: Duration = Duration::from_secs(5);

/// The way to the client.
///
/// What is read ends in the same way when a client has left and when it only sends no more, which it may do while it
/// waits for its answer. PostgreSQL does not notice either until it writes. Here something is written: a message that
/// says nothing new, which the system of a client that has left refuses.
pub(super) struct Line {
    way: Mutex<Way>,
    /// Whether what the [`Outbox`] wrote ends with a whole message, so that another may follow.
    is_whole: AtomicBool,
}

struct Way {
    writer: WriteHalf<Box<dyn Socket>>,
    /// What is left of a message that was begun here. It goes out before anything else.
    rest: BytesMut,
}

impl Line {
    pub(super) fn new(writer: WriteHalf<Box<dyn Socket>>) -> Arc<Self> {
        let way = Mutex::new(Way { writer, rest: BytesMut::new() });
        Arc::new(Self { way, is_whole: AtomicBool::new(true) })
    }

    /// Asks whether somebody is there. What is wrong with an answer is known when it is asked again. May be dropped.
    async fn ask(&self) -> io::Result<()> {
        // While somebody writes, he sees himself whether he can.
        let Ok(mut way) = self.way.try_lock() else { return Ok(()) };
        if !self.is_whole.load(Ordering::Relaxed) {
            return Ok(());
        }
        let Way { writer, rest } = &mut *way;
        let encoding = ParameterStatus::new("server_encoding".to_owned(), "UTF8".to_owned());
        if rest.is_empty() && PgWireBackendMessage::ParameterStatus(encoding).encode(rest).is_err() {
            rest.clear();
        }
        while rest.has_remaining() {
            if writer.write_buf(rest).await? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        writer.flush().await
    }
}

/// What comes from the client.
pub(super) struct Inbox {
    reader: ReadHalf<Box<dyn Socket>>,
    line: Arc<Line>,
    /// When a client that sends no more is asked next whether it is there, and how long after the last time that is.
    ask: Option<(Instant, Duration)>,
    buffer: BytesMut,
    context: DecodeContext,
    message_bytes_max: usize,
}

impl Inbox {
    pub(super) fn new(
        reader: ReadHalf<Box<dyn Socket>>,
        line: Arc<Line>,
        buffer: BytesMut,
        version: ProtocolVersion,
        message_bytes_max: usize,
    ) -> Self {
        let mut context = DecodeContext::new(version);
        context.awaiting_frontend_ssl = false;
        context.awaiting_frontend_startup = false;
        Self { reader, line, ask: None, buffer, context, message_bytes_max }
    }

    /// Takes messages of so many bytes from now on: less is enough for strangers.
    pub(super) fn allow(&mut self, message_bytes_max: usize) {
        self.message_bytes_max = message_bytes_max;
    }

    /// Whether a whole message is there already.
    pub(super) fn has_message(&self) -> bool {
        self.message_bytes().is_ok_and(|bytes| bytes.is_some_and(|bytes| self.buffer.len() >= bytes))
    }

    /// Whether the next message is there, and is a Sync.
    pub(super) fn has_sync_next(&self) -> bool {
        self.buffer.first() == Some(&SYNC)
    }

    /// The bytes of the next message, once its length is there.
    fn message_bytes(&self) -> Result<Option<usize>, Broken> {
        let Some(head) = self.buffer.get(..5) else { return Ok(None) };
        let length = i32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let length = usize::try_from(length).ok().filter(|length| *length >= 4);
        let Some(length) = length else {
            return Err(Broken::Malformed(
                Error::input("a message has an impossible length").with_code(sqlstate::PROTOCOL),
            ));
        };
        if length > self.message_bytes_max {
            let text = format!("a message has {length} bytes; at most {} are taken", self.message_bytes_max);
            return Err(Broken::Malformed(Error::resource(text).with_code(sqlstate::LIMIT)));
        }
        Ok(Some(length + 1))
    }

    /// The next message. May be dropped and called again.
    pub(super) async fn next(&mut self) -> Result<Received, Broken> {
        loop {
            if let Some(bytes) = self.message_bytes()? {
                if self.buffer.len() >= bytes {
                    return self.decode(bytes);
                }
                self.buffer.reserve(bytes - self.buffer.len());
            } else if self.buffer.is_empty() && self.buffer.capacity() > RESTING_BYTES_MAX {
                self.buffer = BytesMut::new();
            }
            if self.reader.read_buf(&mut self.buffer).await? == 0 {
                return Err(Broken::Gone);
            }
        }
    }

    fn decode(&mut self, bytes: usize) -> Result<Received, Broken> {
        let kind = self.buffer[0];
        let mut message = self.buffer.split_to(bytes);
        if kind == FUNCTION_CALL {
            return Ok(Received::FunctionCall);
        }
        // pgwire's decoders trust the lengths within a message.
        let text = match caught_quietly(|| PgWireFrontendMessage::decode(&mut message, &self.context)) {
            Some(Ok(Some(decoded))) => return Ok(Received::Message(decoded)),
            Some(Err(PgWireError::InvalidMessageType(_))) => {
                format!("there are no messages of kind '{}'", kind.escape_ascii())
            }
            Some(Ok(None) | Err(_)) | None => format!("a message of kind '{}' is malformed", kind.escape_ascii()),
        };
        Err(Broken::Malformed(Error::input(text).with_code(sqlstate::PROTOCOL)))
    }

    /// Ends when the client has left; reads ahead a little meanwhile. May be dropped and called again.
    pub(super) async fn left(&mut self) {
        while self.ask.is_none() {
            if self.buffer.len() >= AHEAD_BYTES_MAX {
                std::future::pending::<()>().await;
            }
            match self.reader.read_buf(&mut self.buffer).await {
                Ok(0) => self.ask = Some((Instant::now(), ASK_AFTER)),
                Err(_) => return,
                Ok(_) => {}
            }
        }
        while let Some((next, wait)) = self.ask {
            tokio::time::sleep_until(next).await;
            self.ask = Some((Instant::now() + wait, (2 * wait).min(ASK_AFTER_MAX)));
            if self.line.ask().await.is_err() {
                return;
            }
        }
    }
}

/// What goes to the client.
pub(super) struct Outbox {
    line: Arc<Line>,
    pub(super) buffer: BytesMut,
    stall_time_max: Duration,
    /// The rank of the least messages that the client is told beside errors.
    least: AtomicU8,
}

/// How much a message of a level says that is none of an error. INFO is always told.
fn rank(level: &str) -> u8 {
    match level.to_ascii_lowercase().as_str() {
        "log" => 1,
        "warning" => 3,
        "error" | "fatal" | "panic" => 4,
        "info" => 5,
        other if other.starts_with("debug") => 0,
        _ => 2,
    }
}

impl Outbox {
    pub(super) fn new(line: Arc<Line>, stall_time_max: Duration) -> Self {
        Self { line, buffer: BytesMut::new(), stall_time_max, least: AtomicU8::new(rank("notice")) }
    }

    /// From now on the client is told what is of a level or above it (`client_min_messages`).
    pub(super) fn tell_from(&self, level: &str) {
        self.least.store(rank(level), Ordering::Relaxed);
    }

    fn is_told(&self, message: &PgWireBackendMessage) -> bool {
        let PgWireBackendMessage::NoticeResponse(notice) = message else { return true };
        let level = notice.fields.iter().find(|(field, _)| *field == b'V').map_or("", |(_, level)| level);
        rank(level) >= self.least.load(Ordering::Relaxed)
    }

    /// Adds a message to what goes out with the next [`flush`](Self::flush), unless it is none for the client.
    pub(super) fn put(&mut self, message: PgWireBackendMessage) {
        if !self.is_told(&message) {
            return;
        }
        // A message that cannot be encoded has a text with a zero byte or a count beyond the protocol's; what is there
        // stays whole.
        let whole = self.buffer.len();
        if message.encode(&mut self.buffer).is_err() {
            self.buffer.truncate(whole);
        }
    }

    /// Writes all of it; `stalled` is called now and then while the client does not take it.
    pub(super) async fn flush(&mut self, mut stalled: impl FnMut()) -> Result<(), Broken> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let mut way = self.line.way.lock().await;
        let Way { writer, rest } = &mut *way;
        self.line.is_whole.store(false, Ordering::Relaxed);
        let mut waited = Duration::ZERO;
        while rest.has_remaining() || self.buffer.has_remaining() {
            let next = if rest.has_remaining() { &mut *rest } else { &mut self.buffer };
            match tokio::time::timeout(STALLED_AFTER, writer.write_buf(next)).await {
                Ok(written) => {
                    if written? == 0 {
                        return Err(Broken::Gone);
                    }
                    waited = Duration::ZERO;
                }
                Err(_) => {
                    stalled();
                    waited += STALLED_AFTER;
                    if waited >= self.stall_time_max {
                        return Err(Broken::Gone);
                    }
                }
            }
        }
        writer.flush().await?;
        self.line.is_whole.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Gives back what nothing is written into for a while.
    pub(super) fn rest(&mut self) {
        if self.buffer.is_empty() && self.buffer.capacity() > RESTING_BYTES_MAX {
            self.buffer = BytesMut::new();
        }
    }

    /// Says good-bye: encrypted connections have a last record.
    pub(super) async fn close(&mut self) {
        let _ = tokio::time::timeout(STALLED_AFTER, self.flush(|| {})).await;
        let goodbye = async { self.line.way.lock().await.writer.shutdown().await };
        let _ = tokio::time::timeout(STALLED_AFTER, goodbye).await;
    }
}

/// The message for an error. `statement` is the text that its place is in.
pub(super) fn error_response(error: &Error, statement: Option<&str>, fatal: bool) -> PgWireBackendMessage {
    let severity = if fatal { "FATAL" } else { "ERROR" };
    PgWireBackendMessage::ErrorResponse(ErrorResponse::new(fields(severity, error, statement)))
}

/// The message for an error of a statement, with where it occurred if that is not in the statement: a line of a COPY, a
/// parameter.
pub(super) fn failure(error: &Error, statement: Option<&str>, context: Option<String>) -> PgWireBackendMessage {
    let mut fields = fields("ERROR", error, statement);
    fields.extend(context.map(|context| (b'W', context.replace('\0', ""))));
    PgWireBackendMessage::ErrorResponse(ErrorResponse::new(fields))
}

/// The message for something that is worth knowing.
pub(super) fn notice(severity: &str, error: &Error) -> PgWireBackendMessage {
    PgWireBackendMessage::NoticeResponse(NoticeResponse::new(fields(severity, error, None)))
}

fn fields(severity: &str, error: &Error, statement: Option<&str>) -> Vec<(u8, String)> {
    let clean = |text: &str| text.replace('\0', "");
    let mut fields = vec![
        (b'S', severity.to_owned()),
        (b'V', severity.to_owned()),
        (b'C', sqlstate::of(error).to_owned()),
        (b'M', clean(error.message())),
    ];
    if let Some(hint) = error.hint() {
        fields.push((b'H', clean(hint)));
    }
    if let Some(detail) = error.detail() {
        fields.push((b'D', clean(detail)));
    }
    let about = error.about();
    let named = [(b's', &about.schema), (b't', &about.table), (b'c', &about.column), (b'n', &about.constraint)];
    fields.extend(named.into_iter().filter_map(|(field, name)| Some((field, clean(name.as_deref()?)))));
    if error.kind() == ErrorKind::Bug {
        fields.push((b'D', "This is a mistake of the engine; other statements are not affected.".to_owned()));
    }
    if let Some(place) = statement.and_then(|statement| sqlstate::position(error, statement)) {
        fields.push((b'P', place.to_string()));
    }
    fields
}

#[cfg(test)]
mod tests {
    use bytes::BufMut;
    use tokio::io::duplex;

    use super::*;

    /// A client's end of a connection with so much room, and the server's.
    fn connected(room: usize) -> (tokio::io::DuplexStream, Inbox, Outbox) {
        let (client, server) = duplex(room);
        let (reader, writer) = tokio::io::split(Box::new(server) as Box<dyn Socket>);
        let line = Line::new(writer);
        let inbox = Inbox::new(reader, line.clone(), BytesMut::new(), ProtocolVersion::PROTOCOL3_0, 1000);
        (client, inbox, Outbox::new(line, Duration::from_secs(9)))
    }

    const QUESTION: &[u8] = b"S\0\0\0\x19server_encoding\0UTF8\0";

    #[tokio::test]
    async fn one_who_sends_no_more_is_asked_and_one_who_has_gone_is_noticed() {
        let (mut client, mut inbox, mut outbox) = connected(1000);
        client.shutdown().await.unwrap();
        let waited = tokio::time::timeout(Duration::from_secs(1), inbox.left()).await;
        assert!(waited.is_err(), "it is there");
        outbox.buffer.put_slice(b"answer");
        outbox.flush(|| {}).await.unwrap();
        let mut got = BytesMut::new();
        while !got.ends_with(b"answer") {
            client.read_buf(&mut got).await.unwrap();
        }
        let questions = (got.len() - 6) / QUESTION.len();
        assert_eq!(got[..got.len() - 6], QUESTION.repeat(questions));
        // At once, and after 50, 150, 350 and 750 ms.
        assert!((2..=5).contains(&questions), "{questions}");
        drop(client);
        tokio::time::timeout(Duration::from_secs(60), inbox.left()).await.unwrap();
    }

    #[tokio::test]
    async fn a_question_that_was_broken_off_ends_before_the_next_message() {
        let (mut client, mut inbox, mut outbox) = connected(10);
        client.shutdown().await.unwrap();
        assert!(tokio::time::timeout(Duration::from_secs(1), inbox.left()).await.is_err());
        outbox.buffer.put_slice(b"answer");
        let sent = tokio::spawn(async move { outbox.flush(|| {}).await.is_ok() });
        let mut got = BytesMut::new();
        while got.len() < QUESTION.len() + 6 {
            client.read_buf(&mut got).await.unwrap();
        }
        assert_eq!(got, [QUESTION, b"answer"].concat()[..]);
        assert!(sent.await.unwrap());
    }
}
