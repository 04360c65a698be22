//! A server's doors: whole sessions of PostgreSQL's protocol and whole HTTP connections, thrown at a server in this
//! process.
//!
//! What is looked at: no session panics, every connection comes to an end, and what comes back is whole messages of the
//! protocol (the last one may break off, for the client leaves). Answers that say the engine made a mistake are
//! counted, as where SQL is fuzzed.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use diligence_client::message::{self, Message};
use diligence_db::{Database, DatabaseOptions};
use diligence_server::{Limits, Server, ServerOptions};
use tokio::runtime::Runtime;

use super::Target;
use crate::panics::{NETWORK_THREAD, network_panic};

/// Memory of the database: more than the samples need.
const MEMORY_BYTES: usize = 64 << 20;

/// How long a statement may run: a changed number may ask for billions of rows.
const STATEMENT_TIME_MAX: Duration = Duration::from_secs(2);

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(15);

/// How long a client waits before it says that it sends no more.
const A_MOMENT: Duration = Duration::from_millis(20);

/// Bytes of an answer that are read; a changed statement may have more.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// Messages that servers send, and nobody else.
const ANSWERS: &[u8] = b"RSKZTDCEINGHWnst123cdvA";

/// What an answer is taken apart as; says how many mistakes of the engine are in it.
type Check = fn(&[u8]) -> Result<usize, String>;

/// A server with one door looked at.
pub struct ServerTarget {
    _runtime: Runtime,
    server: Arc<Server>,
    door: SocketAddr,
    check: Check,
    answered: usize,
    silent: usize,
    mistakes: usize,
}

impl ServerTarget {
    /// The door for PostgreSQL's protocol.
    pub fn wire() -> Result<Self, String> {
        Self::start(|addresses| addresses.postgres, check_wire)
    }

    /// The door for HTTP.
    pub fn http() -> Result<Self, String> {
        Self::start(|addresses| addresses.http, check_http)
    }

    fn start(door: fn(diligence_server::Addresses) -> Option<SocketAddr>, check: Check) -> Result<Self, String> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name(NETWORK_THREAD)
            .enable_all()
            .build()
            .map_err(|error| format!("no runtime: {error}"))?;
        let folder = Path::new("fuzz-endpoints");
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(folder.join("numbers.sql"), ENDPOINT))
            .and_then(|()| std::fs::write(folder.join("add.sql"), CHANGE))
            .map_err(|error| format!("no endpoint: {error}"))?;
        let database =
            DatabaseOptions { memory_bytes: Some(MEMORY_BYTES), workers: Some(1), ..DatabaseOptions::default() };
        let database = Database::open(database).map_err(|error| error.to_string())?;
        let any_port = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let options = ServerOptions {
            postgres: any_port,
            http: any_port,
            endpoints: Some(folder.to_owned()),
            limits: Limits { statement_time_max: STATEMENT_TIME_MAX, ..Limits::default() },
            ..ServerOptions::default()
        };
        let server = runtime.block_on(Server::start(database, options)).map_err(|error| error.to_string())?;
        let door = door(server.addresses()).ok_or("a server without a door")?;
        Ok(Self { _runtime: runtime, server, door, check, answered: 0, silent: 0, mistakes: 0 })
    }
}

impl ServerTarget {
    /// Everything up to the end of the connection. A client that sends no more is one that leaves, whose statements are
    /// cancelled; so that is only said when nothing has come for a moment.
    fn answer(&self, stream: &mut TcpStream) -> Result<Vec<u8>, String> {
        let (mut answer, mut piece, mut has_left) = (Vec::new(), [0; 16 * 1024], false);
        let waits = |stream: &TcpStream, time| {
            stream.set_read_timeout(Some(time)).map_err(|error| format!("no time limit: {error}"))
        };
        waits(stream, A_MOMENT)?;
        while answer.len() < ANSWER_BYTES_MAX {
            match stream.read(&mut piece) {
                Ok(0) => break,
                Ok(read) => answer.extend(&piece[..read]),
                Err(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
                Err(_) if has_left => {
                    let sessions = self.server.registry().count();
                    return Err(format!("no end after {PATIENCE:?}; {sessions} sessions"));
                }
                Err(_) => {
                    has_left = true;
                    let _ = stream.shutdown(Shutdown::Write);
                    waits(stream, PATIENCE)?;
                }
            }
        }
        Ok(answer)
    }
}

impl Target for ServerTarget {
    fn run(&mut self, input: &[u8]) -> Result<(), String> {
        let lost = |error: std::io::Error| format!("the server is lost: {error}");
        let mut stream = TcpStream::connect(self.door).map_err(lost)?;
        // The server may close before it has read everything.
        let _ = stream.write_all(input);
        let answer = self.answer(&mut stream)?;
        if let Some(panic) = network_panic() {
            return Err(format!("a session panicked: {panic}"));
        }
        if answer.is_empty() {
            self.silent += 1;
        } else {
            self.answered += 1;
        }
        self.mistakes += (self.check)(&answer)?;
        Ok(())
    }

    fn summary(&self) -> String {
        format!("{} answered, {} without an answer, {} internal errors", self.answered, self.silent, self.mistakes)
    }
}

/// Whole messages of a server.
fn check_wire(mut answer: &[u8]) -> Result<usize, String> {
    let mut mistakes = 0;
    // Requests for encryption are answered by a letter.
    while answer.first() == Some(&b'N') && answer.get(1).is_none_or(|next| *next != 0) {
        answer = &answer[1..];
    }
    while let Some((message, length)) = Message::first(answer)? {
        let kind = message.kind;
        if !ANSWERS.contains(&kind) {
            return Err(format!("the server sends a message '{}'", kind.escape_ascii()));
        }
        let is_sound = match kind {
            b'T' => message.columns().is_some(),
            b'D' => message.values().is_some(),
            b'C' => message.text().is_some(),
            b'E' | b'N' => message.failure().is_some_and(|failure| failure.code.len() == 5),
            b'Z' => matches!(message.body, b"I" | b"T" | b"E"),
            b'1' | b'2' | b'3' | b'I' | b'c' | b'n' | b's' => message.body.is_empty(),
            _ => true,
        };
        if !is_sound {
            return Err(format!("a message '{}' of the server is malformed: {:?}", kind.escape_ascii(), message.body));
        }
        let is_mistake = |failure: message::Failure| failure.code == "XX000";
        mistakes += usize::from(kind == b'E' && message.failure().is_some_and(is_mistake));
        answer = &answer[length..];
    }
    Ok(mistakes)
}

/// Whole answers of HTTP; those with status 500 are mistakes.
fn check_http(mut answer: &[u8]) -> Result<usize, String> {
    let mut mistakes = 0;
    let shown = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
    while !answer.is_empty() {
        let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(mistakes) };
        let head = String::from_utf8_lossy(&answer[..end]).to_lowercase();
        let status = head.strip_prefix("http/1.").and_then(|rest| rest.get(2..5)?.parse::<u16>().ok());
        match status {
            None => return Err(format!("no status: {}", shown(answer))),
            Some(status) => mistakes += usize::from(status == 500),
        }
        answer = &answer[end + 4..];
        let field = |name: &str| head.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()));
        if field("transfer-encoding:").is_some() {
            // The rest of the connection is this answer's chunks, and whatever follows them.
            let Some(end) = answer.windows(5).position(|five| five == b"0\r\n\r\n") else { return Ok(mistakes) };
            answer = &answer[end + 5..];
        } else {
            let length = field("content-length:").map_or(Ok(0), |length| length.parse::<usize>());
            let length = length.map_err(|_| format!("no length: {head}"))?;
            answer = answer.get(length..).unwrap_or_default();
        }
    }
    Ok(mistakes)
}

const ENDPOINT: &str = "-- endpoint: GET /api/numbers\n-- param: least integer = 1\n-- param: word text = x\n\
                        -- param: day date = 2024-01-01\nSELECT value, $word AS word, $day AS day FROM generate_series(1, 5) AS g(value) \
                        WHERE value >= $least ORDER BY value\n";

const CHANGE: &str = "-- endpoint: PUT /api/numbers/{n}\n-- param: n integer\n-- param: word text = x\n\
                      -- param: flag boolean = f\n-- body: 1kB\nCREATE TABLE IF NOT EXISTS numbers (n BIGINT PRIMARY KEY, word TEXT);\n\
                      DELETE FROM numbers WHERE $flag;\nINSERT INTO numbers VALUES ($n, $word) RETURNING n, word\n";

/// Pieces of PostgreSQL's protocol.
pub const WIRE_TOKENS: &[&[u8]] = &[
    b"Q\0\0\0\x0dSELECT 1\0",
    b"S\0\0\0\x04",
    b"H\0\0\0\x04",
    b"X\0\0\0\x04",
    b"E\0\0\0\x09\0\0\0\0\0",
    b"D\0\0\0\x06P\0",
    b"C\0\0\0\x06S\0",
    b"d\0\0\0\x051",
    b"c\0\0\0\x04",
    b"f\0\0\0\x05\0",
    b"p\0\0\0\x08x\0\0\0",
    b"\0\0\0\x08\x04\xd2\x16\x2f",
    b"\0\0\0\0",
    b"\0\0\0\x04",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\0\0\0",
    b"\0\x03\0\0",
    b"\0\x03\0\x02",
    b"$1",
    b"\0",
];

/// Sessions as drivers have them.
pub fn wire_corpus() -> Vec<Vec<u8>> {
    let session = |talk: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = message::startup("ann", "diligence", &[("application_name", "fuzz"), ("DateStyle", "ISO")]);
        talk(&mut bytes);
        message::terminate(&mut bytes);
        bytes
    };
    let ssl = b"\0\0\0\x08\x04\xd2\x16\x2f".to_vec();
    let simple = [
        "SELECT 1; SELECT 'two', 3.5, NULL",
        "SELECT * FROM generate_series(1, 100)",
        "BEGIN; SELECT 1; SAVEPOINT a; ROLLBACK TO a; COMMIT",
        "SET statement_timeout = '1s'; SHOW server_version; SHOW ALL; RESET ALL",
        "COPY (SELECT 1 AS a, 'x' AS b) TO STDOUT (FORMAT csv)",
        "SELECT ARRAY[1, 2], DATE '2024-02-29', TIMESTAMP '2024-01-01 00:00:01', INTERVAL '1 month', true, 'é'",
        "DECLARE c CURSOR FOR SELECT * FROM generate_series(1, 9); FETCH 3 FROM c; CLOSE c",
        "PREPARE p AS SELECT $1; EXECUTE p(1); DEALLOCATE p",
        "SELECT relname FROM pg_catalog.pg_class LIMIT 2; LISTEN a; UNLISTEN *; DISCARD ALL",
    ];
    let mut corpus: Vec<_> = simple.iter().map(|sql| session(&|bytes| message::query(bytes, sql))).collect();
    for binary in [false, true] {
        corpus.push(session(&|bytes| {
            message::parse(bytes, "s", "SELECT $1::bigint, $2::text, $3::numeric, $4::timestamp, $5::bigint[]");
            message::put(bytes, b'D', |body| body.extend(b"Ss\0"));
            let values = [Some("7"), Some("é"), Some("1.50"), None, Some("{1,NULL,3}")];
            message::bind(bytes, "s", &values, binary);
            message::describe(bytes);
            message::execute(bytes, 1);
            message::execute(bytes, 0);
            message::put(bytes, b'C', |body| body.extend(b"Ss\0"));
            message::sync(bytes);
        }));
    }
    corpus.push(session(&|bytes| {
        // Parameters in binary, whose types the client names.
        message::put(bytes, b'P', |body| body.extend(b"\0SELECT $1 + $2, $3\0\0\x03\0\0\0\x14\0\0\x02\xbd\0\0\x04\x5a"));
        message::put(bytes, b'B', |body| {
            body.extend(b"\0\0\0\x01\0\x01\0\x03\0\0\0\x08\0\0\0\0\0\0\0\x05\0\0\0\x08\x40\x08\0\0\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\0\0\0\0")
        });
        message::execute(bytes, 0);
        message::sync(bytes);
    }));
    corpus.push(session(&|bytes| {
        message::query(bytes, "COPY nowhere FROM STDIN");
        message::put(bytes, b'd', |body| body.extend(b"1\tx\n"));
        message::put(bytes, b'c', |_| {});
        message::sync(bytes);
    }));
    corpus.push([ssl, session(&|bytes| message::query(bytes, "SELECT 1"))].concat());
    corpus.push(message::cancel(1, b"1234"));
    corpus
}

/// Pieces of HTTP.
pub const HTTP_TOKENS: &[&[u8]] = &[
    b"GET",
    b"POST",
    b"DELETE",
    b"PUT",
    b"HEAD",
    b"OPTIONS",
    b"HTTP/1.1",
    b"\r\n",
    b"\r\n\r\n",
    b"Host: localhost\r\n",
    b"Content-Length: 8\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Content-Type: application/json\r\n",
    b"Content-Type: application/x-www-form-urlencoded\r\n",
    b"Origin: http://localhost\r\n",
    b"Sec-Fetch-Site: cross-site\r\n",
    b"Diligence-Transaction: serializable\r\n",
    b"Accept: text/csv\r\n",
    b"Accept-Encoding: zstd\r\n",
    b"Expect: 100-continue\r\n",
    b"/v1/sql",
    b"/v1/queries/",
    b"/api/numbers/",
    b"&flag=on",
    b"?format=",
    b"%00",
    b"%ff",
    b"\"sql\"",
    b"\"parameters\"",
    b"[null, 1e999, -0.0]",
    b"18446744073709551616",
    b"{",
    b"\\u0000",
];

/// Connections as browsers and programs have them.
pub fn http_corpus() -> Vec<Vec<u8>> {
    let get = |path: &str, more: &str| {
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}Connection: close\r\n\r\n").into_bytes()
    };
    let post = |kind: &str, accept: &str, more: &str, body: &str| {
        format!(
            "POST /v1/sql HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nAccept: {accept}\r\n{more}Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    };
    let put = |path: &str, kind: &str, body: &str| {
        format!(
            "PUT {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    };
    let json = "application/json";
    let mut corpus = vec![
        get("/healthz", ""),
        get("/metrics", "Accept-Encoding: gzip\r\n"),
        get("/openapi.json", ""),
        get("/v1/queries", ""),
        get("/api/numbers?least=2&word=a%20b&day=2024-02-29", "Accept: text/csv\r\n"),
        get("/api/numbers?format=json", "If-None-Match: \"x\"\r\n"),
        post(json, json, "", r#"{"sql": "SELECT $1 + 1 AS a, $2 AS b", "parameters": [1.5, "x"], "timeout_ms": 500}"#),
        post(json, "text/csv", "Accept-Encoding: gzip\r\n", r#"{"sql": "SELECT * FROM generate_series(1, 50)"}"#),
        post("application/sql", "application/x-ndjson", "", "SELECT 1 AS a, NULL AS b, 'é' AS c"),
        post("application/sql", "application/vnd.apache.arrow.stream", "Accept-Encoding: zstd\r\n", "SELECT 1"),
        post("application/sql", json, "", "SELECT nothing FROM nowhere"),
        post("application/sql", json, "Diligence-Transaction: true\r\n", "SELECT 1 AS a; SET timezone = 'UTC'; SELECT 2"),
        put("/api/numbers/7", json, r#"{"word": "é", "flag": true}"#),
        put("/api/numbers/8?word=a", "application/x-www-form-urlencoded", "flag=on"),
        b"DELETE /v1/queries/7 HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        b"POST /v1/sql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/sql\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nSELECT 1\r\n0\r\n\r\n"
            .to_vec(),
    ];
    // Two requests on one connection.
    let both = [post("application/sql", "text/csv", "", "SELECT 1"), get("/readyz", "")].concat();
    corpus.push(both);
    corpus
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_are_none_are_told() {
        let mut good = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I".to_vec();
        assert_eq!(check_wire(&good), Ok(0));
        good.extend(b"D\0\0\0\xff");
        assert_eq!(check_wire(&good), Ok(0), "the last one may break off");
        assert!(check_wire(b"Q\0\0\0\x05\0").is_err());
        assert!(check_wire(b"D\0\0\0\x06\0\x01").is_err());
        assert_eq!(check_wire(b"E\0\0\0\x18SERROR\0CXX000\0Mbug\0\0"), Ok(1));
        assert_eq!(check_http(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 404 no\r\n\r\n"), Ok(0));
        assert_eq!(check_http(b"HTTP/1.1 500 no\r\n\r\n"), Ok(1));
        assert!(check_http(b"what\r\n\r\n").is_err());
    }

    #[test]
    fn sound_sessions_are_answered_and_leave_nothing() {
        let folder = tempfile::tempdir().unwrap();
        std::env::set_current_dir(folder.path()).unwrap();
        let mut wire = ServerTarget::wire().unwrap();
        for input in wire_corpus() {
            wire.run(&input).unwrap();
        }
        // A cancel request has no answer.
        assert_eq!(wire.silent, 1);
        let mut http = ServerTarget::http().unwrap();
        for input in http_corpus() {
            http.run(&input).unwrap();
        }
        // A statement that takes longer than a moment on a busy machine is cancelled.
        assert!(http.answered > 0 && http.mistakes == 0 && wire.mistakes == 0);
    }
}
