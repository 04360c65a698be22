//! A collector of OpenTelemetry: where it is, and how something is posted to it.
//!
//! OTLP over HTTP/1.1, with JSON or Protocol Buffers as its body; encrypted where the URL begins with `https`. Headers
//! that a collector wants besides, such as a key, and the form of the body are those of the environment variables that
//! OpenTelemetry has for them.

use std::fmt;
use std::io;
use std::str::FromStr;
use std::time::Duration;

use axum::http::Uri;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// The port of OTLP over HTTP.
const PORT: u16 = 4318;
/// The port of encrypted HTTP.
const ENCRYPTED_PORT: u16 = 443;
/// Headers for the collector: `key=value,key=value`.
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
/// The form of the body: `http/json` or `http/protobuf`.
const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
/// How long a collector may take to answer.
const TIME_MAX: Duration = Duration::from_secs(10);
/// Bytes of an answer that are looked at: its first line is in them.
const ANSWER_BYTES_MAX: usize = 4096;

/// The form of what is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    Protobuf,
}

impl Form {
    /// The form of an environment variable's value; JSON if it has none. Fails with a message for one that is not
    /// spoken.
    fn named(name: Option<&str>) -> Result<Self, String> {
        match name.map(str::trim) {
            None | Some("" | "http/json") => Ok(Self::Json),
            Some("http/protobuf") => Ok(Self::Protobuf),
            Some(other) => Err(format!("{PROTOCOL} is '{other}'; http/json and http/protobuf are spoken")),
        }
    }

    fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/x-protobuf",
        }
    }
}

/// Where a collector listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    is_encrypted: bool,
    host: String,
    port: u16,
    /// What stands before `/v1/traces`; empty, or a slash and more.
    path: String,
    form: Form,
}

impl FromStr for Collector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "expected the URL of a collector, such as http://127.0.0.1:4318".to_owned();
        let uri: Uri = text.trim().parse().map_err(|_| expected())?;
        let is_encrypted = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(expected()),
        };
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(expected)?;
        if uri.query().is_some() {
            return Err(expected());
        }
        Ok(Self {
            is_encrypted,
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: uri.port_u16().unwrap_or(if is_encrypted { ENCRYPTED_PORT } else { PORT }),
            path: uri.path().trim_end_matches('/').to_owned(),
            form: Form::named(std::env::var(PROTOCOL).ok().as_deref())?,
        })
    }
}

impl fmt::Display for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { is_encrypted, port, path, .. } = self;
        let scheme = if *is_encrypted { "https" } else { "http" };
        write!(f, "{scheme}://{}:{port}{path}", self.named_host())
    }
}

/// The headers that a text names, whose values may have bytes written as `%20`. What is no header is left out.
fn headers(text: &str) -> Vec<(String, String)> {
    let is_plain = |text: &str| text.chars().all(|c| c.is_ascii_graphic() || c == ' ');
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    let pairs = pairs.map(|(name, value)| (name.trim().to_owned(), unescaped(value.trim())));
    pairs
        .filter(|(name, value)| !name.is_empty() && !name.contains([' ', ':']) && is_plain(name) && is_plain(value))
        .collect()
}

fn unescaped(text: &str) -> String {
    let mut parts = text.split('%');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..2).and_then(|code| u8::from_str_radix(code, 16).ok()).filter(u8::is_ascii);
        match code {
            Some(code) => {
                out.push(char::from(code));
                out.push_str(&part[2..]);
            }
            None => {
                out.push('%');
                out.push_str(part);
            }
        }
    }
    out
}

impl Collector {
    /// The form of what it gets.
    pub(crate) fn form(&self) -> Form {
        self.form
    }

    /// Posts a message of this form about `what`: `traces` or `metrics`. Fails if the collector cannot be reached,
    /// takes too long, or refuses it.
    pub(crate) async fn post(&self, what: &str, body: &[u8]) -> io::Result<()> {
        match tokio::time::timeout(TIME_MAX, self.exchange(what, body)).await {
            Ok(done) => done,
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the collector does not answer")),
        }
    }

    async fn exchange(&self, what: &str, body: &[u8]) -> io::Result<()> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        if !self.is_encrypted {
            return self.talk(stream, what, body).await;
        }
        let stream = diligence_client::encrypt(&self.host, stream).await;
        self.talk(stream.map_err(|error| io::Error::other(error.message().to_owned()))?, what, body).await
    }

    /// The host as it stands in URLs.
    fn named_host(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() }
    }

    async fn talk(&self, mut stream: impl AsyncRead + AsyncWrite + Unpin, what: &str, body: &[u8]) -> io::Result<()> {
        let (path, length, version) = (&self.path, body.len(), env!("CARGO_PKG_VERSION"));
        let media_type = self.form.media_type();
        let named = headers(&std::env::var(HEADERS).unwrap_or_default());
        let named = named.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect::<String>();
        let head = format!(
            "POST {path}/v1/{what} HTTP/1.1\r\nHost: {}:{}\r\nUser-Agent: diligence/{version}\r\n\
             Content-Type: {media_type}\r\nContent-Length: {length}\r\n{named}Connection: close\r\n\r\n",
            self.named_host(),
            self.port
        );
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body).await?;
        stream.flush().await?;
        let mut answer = Vec::new();
        let mut part = [0; 512];
        while !answer.contains(&b'\n') && answer.len() < ANSWER_BYTES_MAX {
            match stream.read(&mut part).await? {
                0 => break,
                count => answer.extend_from_slice(&part[..count]),
            }
        }
        let answer = String::from_utf8_lossy(&answer);
        let line = answer.lines().next().unwrap_or_default();
        match line.split(' ').nth(1) {
            Some(status) if line.starts_with("HTTP/") && status.starts_with('2') => Ok(()),
            _ => Err(io::Error::other(format!("the collector answers \"{}\"", line.trim()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_has_a_url() {
        let shown = |text: &str| text.parse::<Collector>().map(|collector| collector.to_string());
        for (text, expected) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318"),
            ("http://collector", "http://collector:4318"),
            ("http://[::1]:9/otlp/", "http://[::1]:9/otlp"),
            ("https://collector/otlp", "https://collector:443/otlp"),
            ("https://collector:4318", "https://collector:4318"),
        ] {
            assert_eq!(shown(text).as_deref(), Ok(expected), "{text}");
        }
        for wrong in ["", "collector", "127.0.0.1:4318", "ftp://a", "http://", "http://a?b=c"] {
            assert!(shown(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_form_has_a_name() {
        assert_eq!(Form::named(None), Ok(Form::Json));
        assert_eq!(Form::named(Some("http/json")), Ok(Form::Json));
        assert_eq!(Form::named(Some(" http/protobuf ")).map(Form::media_type), Ok("application/x-protobuf"));
        assert!(Form::named(Some("grpc")).unwrap_err().contains("http/protobuf"));
    }

    #[test]
    fn headers_come_from_a_text() {
        let found = |text: &str| {
            headers(text).iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>().join("|")
        };
        assert_eq!(found("api-key=a1, x=Basic%20YQ=="), "api-key: a1|x: Basic YQ==");
        assert_eq!(found("a=50%"), "a: 50%");
        for none in ["", "a", "=b", "a=b%0d%0aX", "a b=c"] {
            assert_eq!(found(none), "", "{none}");
        }
    }
}
