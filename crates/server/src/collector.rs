//! A collector of OpenTelemetry: where it is, and how something is posted to it.
//!
//! OTLP over HTTP/1.1, with JSON as its body, and unencrypted: a collector stands beside the server, or in the same
//! private network, and passes on what it gets over whatever encryption its destination wants.

use std::fmt;
use std::io;
use std::str::FromStr;
use std::time::Duration;

use axum::http::Uri;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The port of OTLP over HTTP.
const PORT: u16 = 4318;
/// How long a collector may take to answer.
const TIME_MAX: Duration = Duration::from_secs(10);
/// Bytes of an answer that are looked at: its first line is in them.
const ANSWER_BYTES_MAX: usize = 4096;

/// Where a collector listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    host: String,
    port: u16,
    /// What stands before `/v1/traces`; empty, or a slash and more.
    path: String,
}

impl FromStr for Collector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "expected the URL of a collector, such as http://127.0.0.1:4318".to_owned();
        let uri: Uri = text.trim().parse().map_err(|_| expected())?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                let why = "a collector is spoken to without encryption";
                return Err(format!("{why}: run one on this machine, which sends on what it gets over TLS"));
            }
            _ => return Err(expected()),
        }
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(expected)?;
        if uri.query().is_some() {
            return Err(expected());
        }
        Ok(Self {
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: uri.port_u16().unwrap_or(PORT),
            path: uri.path().trim_end_matches('/').to_owned(),
        })
    }
}

impl fmt::Display for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, path } = self;
        match host.contains(':') {
            true => write!(f, "http://[{host}]:{port}{path}"),
            false => write!(f, "http://{host}:{port}{path}"),
        }
    }
}

impl Collector {
    /// Posts a JSON text about `what`: `traces` or `metrics`. Fails if the collector cannot be reached, takes too long,
    /// or refuses it.
    pub(crate) async fn post(&self, what: &str, body: &str) -> io::Result<()> {
        match tokio::time::timeout(TIME_MAX, self.exchange(what, body)).await {
            Ok(done) => done,
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the collector does not answer")),
        }
    }

    async fn exchange(&self, what: &str, body: &str) -> io::Result<()> {
        let mut stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        let (path, length, version) = (&self.path, body.len(), env!("CARGO_PKG_VERSION"));
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let head = format!(
            "POST {path}/v1/{what} HTTP/1.1\r\nHost: {host}:{}\r\nUser-Agent: diligence/{version}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n",
            self.port
        );
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body.as_bytes()).await?;
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
        ] {
            assert_eq!(shown(text).as_deref(), Ok(expected), "{text}");
        }
        assert!(shown("https://collector").unwrap_err().contains("TLS"));
        for wrong in ["", "collector", "127.0.0.1:4318", "ftp://a", "http://", "http://a?b=c"] {
            assert!(shown(wrong).is_err(), "{wrong}");
        }
    }
}
