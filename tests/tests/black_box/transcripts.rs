//! What real clients said to the server, replayed: its answers must be those that were recorded.
//!
//! The transcripts are in `tests/transcripts`; `tests/clients/record.py` makes them, and says how a line is read. What
//! is random (the key of a session) is not compared.

use std::net::SocketAddr;
use std::path::Path;

use diligence_client::{Address, Connection};
use diligence_db::{Database, DatabaseOptions};
use diligence_server::{Server, ServerOptions};

/// A line: who says it, what kind of message it is (`None` without one), and its body.
struct Line {
    number: usize,
    from_client: bool,
    kind: Option<u8>,
    body: Vec<u8>,
}

fn line(number: usize, text: &str) -> Line {
    let wrong = || -> ! { panic!("line {number} is no message: {text}") };
    let mut parts = text.splitn(3, ' ');
    let from_client = match parts.next() {
        Some(">") => true,
        Some("<") => false,
        _ => wrong(),
    };
    let kind = match parts.next() {
        Some("-") => None,
        Some(kind) => unescaped(kind).first().copied(),
        None => wrong(),
    };
    Line { number, from_client, kind, body: unescaped(parts.next().unwrap_or_default()) }
}

fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next() {
            Some(b't') => b'\t',
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b'x') => {
                let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16)).unwrap() as u8;
                digit() * 16 + digit()
            }
            Some(other) => other,
            None => panic!("an escape without an end: {text}"),
        });
    }
    bytes
}

/// The message as it is sent.
fn whole(line: &Line) -> Vec<u8> {
    let mut bytes: Vec<u8> = line.kind.into_iter().collect();
    bytes.extend((line.body.len() as i32 + 4).to_be_bytes());
    bytes.extend(&line.body);
    bytes
}

/// A description of rows without the numbers of tables and columns, which are the database's: behind each name, which
/// ends with a zero, six bytes for these and twelve for the type.
fn without_origins(body: &[u8]) -> Vec<u8> {
    let mut shown = body.to_vec();
    let mut place = 2;
    while let Some(name) = shown.get(place..).and_then(|rest| rest.iter().position(|byte| *byte == 0)) {
        let origin = place + name + 1;
        shown[origin..origin + 6].fill(0);
        place = origin + 18;
    }
    shown
}

async fn replay(address: &Address, name: &str, transcript: &str) {
    let mut connection = Connection::open_silently(address).await.unwrap();
    for (number, text) in transcript.lines().enumerate().filter(|(_, text)| !text.starts_with('#')) {
        let line = line(number + 1, text);
        let place = format!("{name}, line {}", line.number);
        if line.from_client {
            connection.send(&whole(&line)).await.unwrap();
            continue;
        }
        let Some(kind) = line.kind else {
            // The answer to a request for encryption is one letter.
            assert_eq!(connection.letter().await.unwrap(), line.body[0], "{place}");
            continue;
        };
        let message = connection.next().await.unwrap_or_else(|error| panic!("{place}: {error}"));
        let shown = |kind: u8, body: &[u8]| match kind {
            b'T' => format!("T {}", without_origins(body).escape_ascii()),
            _ => format!("{} {}", kind.escape_ascii(), body.escape_ascii()),
        };
        if kind == b'K' && message.kind == b'K' {
            assert_eq!(message.body.len(), line.body.len(), "{place}");
            continue;
        }
        assert_eq!(shown(message.kind, message.body), shown(kind, &line.body), "{place}");
    }
}

#[test]
fn real_clients_are_answered_as_they_were() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts");
    let mut replayed = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "txt") {
            continue;
        }
        let options =
            DatabaseOptions { data: vec![folder.join("data")], workers: Some(2), ..DatabaseOptions::default() };
        let database = Database::open(options).unwrap();
        let postgres = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        let transcript = std::fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        runtime.block_on(async {
            let server = Server::start(database, ServerOptions { postgres, ..ServerOptions::default() }).await.unwrap();
            let address = Address::Tcp(server.addresses().postgres.unwrap());
            replay(&address, &name, &transcript).await;
            assert!(server.drain().await, "{name}: a session is left");
        });
        replayed += 1;
    }
    assert_eq!(replayed, 4, "psql, psycopg, asyncpg and pgjdbc");
}
