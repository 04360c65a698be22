//! The door as its clients see it: requests over a socket, answers as bytes.

mod changing;
mod listed;
mod notices;
mod public;
mod scripts;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue, header};
use diligence_db::{Database, DatabaseOptions};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::is_own_name;
use crate::config::{ServerOptions, Users};
use crate::server::Server;

/// A server over HTTP, with the folders that it has.
struct Door {
    server: Arc<Server>,
    database: Database,
    address: SocketAddr,
    folders: Vec<TempDir>,
}

/// An answer.
#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    /// A header's value.
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    fn tag(&self) -> &str {
        self.header("etag").unwrap_or_else(|| panic!("no ETag: {self:?}"))
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    fn rows(&self) -> Value {
        self.json()["rows"].clone()
    }

    /// The SQLSTATE of a failure.
    fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }
}

impl Door {
    /// A server with endpoints, files of this text, and users. With `is_kept` its database is in a folder.
    async fn open(is_kept: bool, endpoints: &[(&str, &str)], users: Option<&str>) -> Self {
        let mut folders = vec![tempfile::tempdir().unwrap()];
        for (name, text) in endpoints {
            let path = folders[0].path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let mut options = DatabaseOptions { workers: Some(2), ..DatabaseOptions::default() };
        if is_kept {
            folders.push(tempfile::tempdir().unwrap());
            options.folder = Some(folders[1].path().to_owned());
        }
        let database = Database::open(options).unwrap();
        let options = ServerOptions {
            postgres: None,
            http: Some("127.0.0.1:0".parse().unwrap()),
            endpoints: Some(folders[0].path().to_owned()),
            users: users.map(|text| Users::parse(text).unwrap()),
            ..ServerOptions::default()
        };
        let server = Server::start(database.clone(), options).await.unwrap();
        let address = server.addresses().http.unwrap();
        Self { server, database, address, folders }
    }

    /// The folder of the endpoints.
    fn folder(&self) -> &std::path::Path {
        self.folders[0].path()
    }

    /// Runs statements at the database itself.
    fn run(&self, statements: &[&str]) {
        let session = self.database.session();
        for statement in statements {
            session.execute(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
    }

    /// Sends a request: its first line without the version, headers, and a body.
    async fn ask(&self, line: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let mut head = format!("{line} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.address);
        headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
        if !body.is_empty() {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let text = String::from_utf8(answer).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{line}: {text}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
        let body = match head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
            true => unchunked(body),
            false => body.to_owned(),
        };
        Answer { status, head: head.to_owned(), body }
    }

    /// Sends JSON.
    async fn send(&self, line: &str, body: &str) -> Answer {
        self.ask(line, &[("Content-Type", "application/json")], body).await
    }

    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.ask(&format!("GET {path}"), headers, "").await
    }

    async fn close(self) {
        self.server.stop().await;
    }
}

#[test]
fn only_names_of_this_machine_are_its_own() {
    let own = |host: &str| {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_str(host).unwrap());
        is_own_name(&headers)
    };
    for host in ["localhost", "localhost:8123", "127.0.0.1:8123", "[::1]:80", "LOCALHOST"] {
        assert!(own(host), "{host}");
    }
    for host in ["evil.example", "localhost.evil.example:8123", "127.0.0.1.evil.example"] {
        assert!(!own(host), "{host}");
    }
}

#[tokio::test]
async fn every_refusal_is_an_error_of_json() {
    let door = Door::open(false, &[], None).await;
    for (line, status, allowed, told) in [
        ("GET /v1/sql", 405, Some("POST"), "/v1/sql does not take GET"),
        ("POST /v1/queries", 405, Some("GET,HEAD"), "/v1/queries does not take POST"),
        ("GET /v1/queries/7", 405, Some("DELETE"), "does not take GET"),
        ("DELETE /metrics", 405, Some("GET,HEAD"), "/metrics does not take DELETE"),
        ("POST /healthz", 405, Some("GET,HEAD"), "/healthz does not take POST"),
        ("DELETE /v1/queries/seven", 400, None, "seven"),
        ("GET /nowhere", 404, None, "there is nothing at /nowhere"),
        ("POST /v1/sql?fmt=csv", 400, None, "the parameter 'fmt' is not known"),
        ("POST /v1/sql?format=html", 400, None, "no format of rows is named 'html'"),
    ] {
        let answer = door.ask(line, &[], "").await;
        assert_eq!((answer.status, answer.header("allow")), (status, allowed), "{line}");
        let error = &answer.json()["error"];
        assert!(error["message"].as_str().unwrap().contains(told), "{line}: {error}");
        let hint = error["hint"].as_str().unwrap_or_default();
        assert!(allowed.is_none_or(|allowed| hint.contains(&allowed.replace(',', ", "))), "{line}: {error}");
    }
    door.close().await;
}

#[tokio::test]
async fn the_address_may_name_the_format() {
    let door = Door::open(false, &[], None).await;
    let headers = [("Content-Type", "application/sql"), ("Accept", "application/json")];
    for (name, body) in [("csv", "x\n4\n"), ("jsonl", "{\"x\":4}\n")] {
        let answer = door.ask(&format!("POST /v1/sql?format={name}"), &headers, "SELECT 4 AS x").await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(answer.body.ends_with(body), "{answer:?}");
    }
    door.close().await;
}

/// The pieces of a chunked body, put together.
fn unchunked(mut rest: &str) -> String {
    let mut body = String::new();
    loop {
        let (length, behind) = rest.split_once("\r\n").unwrap();
        let length = usize::from_str_radix(length, 16).unwrap();
        if length == 0 {
            return body;
        }
        body.push_str(&behind[..length]);
        rest = &behind[length + 2..];
    }
}
