//! Messages in and out: pgwire's forms of them over a socket, with limits, and without a thread while waiting.

use std::io;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use diligence_base::panics::caught_quietly;
use diligence_base::{Error, ErrorKind};
use pgwire::messages::response::{ErrorResponse, NoticeResponse};
use pgwire::messages::{DecodeContext, PgWireBackendMessage, PgWireFrontendMessage, ProtocolVersion};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};

use crate::sqlstate;

/// A connection, encrypted or not.
pub(super) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Socket for T {}

/// Bytes that are read ahead while a statement runs: enough for a driver's pipeline. More stays in the socket.
const AHEAD_BYTES_MAX: usize = 64 * 1024;
/// A buffer at rest is given back when it is larger.
const RESTING_BYTES_MAX: usize = 4 * 1024;
/// How long a write may wait before its query is said to be stalled.
const STALLED_AFTER: Duration = Duration::from_secs(1);

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

/// What comes from the client.
pub(super) struct Inbox {
    reader: ReadHalf<Box<dyn Socket>>,
    buffer: BytesMut,
    context: DecodeContext,
    message_bytes_max: usize,
}

impl Inbox {
    pub(super) fn new(
        reader: ReadHalf<Box<dyn Socket>>,
        buffer: BytesMut,
        version: ProtocolVersion,
        message_bytes_max: usize,
    ) -> Self {
        let mut context = DecodeContext::new(version);
        context.awaiting_frontend_ssl = false;
        context.awaiting_frontend_startup = false;
        Self { reader, buffer, context, message_bytes_max }
    }

    /// Takes messages of so many bytes from now on: less is enough for strangers.
    pub(super) fn allow(&mut self, message_bytes_max: usize) {
        self.message_bytes_max = message_bytes_max;
    }

    /// Whether a whole message is there already.
    pub(super) fn has_message(&self) -> bool {
        self.message_bytes().is_ok_and(|bytes| bytes.is_some_and(|bytes| self.buffer.len() >= bytes))
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
    pub(super) async fn next(&mut self) -> Result<PgWireFrontendMessage, Broken> {
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

    fn decode(&mut self, bytes: usize) -> Result<PgWireFrontendMessage, Broken> {
        let kind = self.buffer[0];
        let mut message = self.buffer.split_to(bytes);
        // pgwire's decoders trust the lengths within a message.
        match caught_quietly(|| PgWireFrontendMessage::decode(&mut message, &self.context)) {
            Some(Ok(Some(decoded))) => Ok(decoded),
            Some(Ok(None) | Err(_)) | None => {
                let text = format!("a message of kind '{}' is malformed", kind.escape_ascii());
                Err(Broken::Malformed(Error::input(text).with_code(sqlstate::PROTOCOL)))
            }
        }
    }

    /// Ends when the client has left; reads ahead a little meanwhile. May be dropped and called again.
    pub(super) async fn left(&mut self) {
        while self.buffer.len() < AHEAD_BYTES_MAX {
            match self.reader.read_buf(&mut self.buffer).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
        std::future::pending::<()>().await;
    }
}

/// What goes to the client.
pub(super) struct Outbox {
    writer: WriteHalf<Box<dyn Socket>>,
    pub(super) buffer: BytesMut,
    stall_time_max: Duration,
}

impl Outbox {
    pub(super) fn new(writer: WriteHalf<Box<dyn Socket>>, stall_time_max: Duration) -> Self {
        Self { writer, buffer: BytesMut::new(), stall_time_max }
    }

    /// Adds a message to what goes out with the next [`flush`](Self::flush).
    pub(super) fn put(&mut self, message: PgWireBackendMessage) {
        // A message that cannot be encoded has a text with a zero byte or a count beyond the protocol's; what is there stays whole.
        let whole = self.buffer.len();
        if message.encode(&mut self.buffer).is_err() {
            self.buffer.truncate(whole);
        }
    }

    /// Writes all of it; `stalled` is called once if the client is slow to take it.
    pub(super) async fn flush(&mut self, mut stalled: impl FnMut()) -> Result<(), Broken> {
        let mut waited = Duration::ZERO;
        while self.buffer.has_remaining() {
            match tokio::time::timeout(STALLED_AFTER, self.writer.write_buf(&mut self.buffer)).await {
                Ok(written) => {
                    if written? == 0 {
                        return Err(Broken::Gone);
                    }
                    waited = Duration::ZERO;
                }
                Err(_) => {
                    if waited.is_zero() {
                        stalled();
                    }
                    waited += STALLED_AFTER;
                    if waited >= self.stall_time_max {
                        return Err(Broken::Gone);
                    }
                }
            }
        }
        self.writer.flush().await?;
        if self.buffer.capacity() > RESTING_BYTES_MAX {
            self.buffer = BytesMut::new();
        }
        Ok(())
    }

    /// Says good-bye: encrypted connections have a last record.
    pub(super) async fn close(&mut self) {
        let _ = tokio::time::timeout(STALLED_AFTER, self.flush(|| {})).await;
        let _ = tokio::time::timeout(STALLED_AFTER, self.writer.shutdown()).await;
    }
}

/// The message for an error. `statement` is the text that its place is in.
pub(super) fn error_response(error: &Error, statement: Option<&str>, fatal: bool) -> PgWireBackendMessage {
    let severity = if fatal { "FATAL" } else { "ERROR" };
    PgWireBackendMessage::ErrorResponse(ErrorResponse::new(fields(severity, error, statement)))
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
    if error.kind() == ErrorKind::Bug {
        fields.push((b'D', "This is a mistake of the engine; other statements are not affected.".to_owned()));
    }
    if let Some(place) = statement.and_then(|statement| sqlstate::position(error, statement)) {
        fields.push((b'P', place.to_string()));
    }
    fields
}
