//! `diligence serve` as whoever runs it sees it: its configuration, its log, SIGHUP, and a folder that lives.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::support::{diligence, run};

/// A server over HTTP, as long as it lives.
struct Server {
    child: Child,
    /// `127.0.0.1:12345`.
    place: String,
}

impl Server {
    fn start(home: &Path, more: &[&str]) -> Self {
        let mut command = diligence(home);
        command.args(["serve", "--postgres", "off", "--http", "0", "--memory", "256MiB"]).args(more);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let place = line.trim().trim_start_matches("http://").trim_end_matches('/').to_owned();
        Self { child, place }
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(std::process::Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }

    /// The answer to a request, with its head.
    fn ask(&self, line: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.place).unwrap();
        let (place, length) = (&self.place, body.len());
        let head = format!("{line} HTTP/1.1\r\nHost: {place}\r\nConnection: close\r\nContent-Length: {length}\r\n");
        write!(stream, "{head}Content-Type: application/sql\r\n\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn sql(&self, sql: &str) -> String {
        self.ask("POST /v1/sql", sql)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks until it is so.
fn soon(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_server_logs_reloads_and_sees_new_files() {
    let home = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(home.path().join(name), text).unwrap();
    std::fs::create_dir(home.path().join("data")).unwrap();
    std::fs::create_dir(home.path().join("ends")).unwrap();
    write("data/a.csv", "x\n1\n");
    write("init.sql", "CREATE VIEW v AS SELECT x + 98764 AS y FROM a;");
    write("ends/one.sql", "-- endpoint: GET /api/one\nSELECT y FROM v");
    let config = "data = 'data'\nendpoints = 'ends'\ninit = 'init.sql'\nlog-file = 'log'\nlog-format = 'json'\n\
                  slow-statement = '1ms'\n";
    write("server.toml", config);
    let log = || std::fs::read_to_string(home.path().join("log")).unwrap_or_default();
    let mut server = Server::start(home.path(), &["--config", "server.toml"]);
    assert!(server.ask("GET /api/one", "").contains("98765"));

    let failed = server.sql("SELECT * FROM nowhere");
    assert!(failed.contains("42P01"), "{failed}");
    server.sql("SELECT count(*) FROM generate_series(1::BIGINT, 3000000) AS s(i)");
    let metrics = server.ask("GET /metrics", "");
    for wanted in [
        "diligence_build_info{version=",
        "diligence_errors_total{sqlstate=\"42P01\"} 1",
        "diligence_statement_seconds_bucket{door=\"http\",le=\"+Inf\"} ",
    ] {
        assert!(metrics.contains(wanted), "{wanted}: {metrics}");
    }
    for wanted in ["the server has started", "\"code\":\"42P01\"", "a statement was slow", "Query: "] {
        assert!(log().contains(wanted), "{wanted}: {}", log());
    }
    let lines = log().lines().map(serde_json::from_str::<serde_json::Value>).collect::<Result<Vec<_>, _>>();
    assert!(lines.unwrap().iter().all(|line| line["time"].is_string() && line["level"].is_string()));

    write("data/b.csv", "x\n7\n8\n9\n");
    soon("the new file is a table", || server.sql("SELECT sum(x) + 98740 AS n FROM b").contains("98764"));
    std::fs::remove_file(home.path().join("data/b.csv")).unwrap();
    soon("the file that went is none", || server.sql("SELECT 1 FROM b").contains("42P01"));

    write("ends/two.sql", "-- endpoint: GET /api/two\nSELECT y FROM v");
    write("server.toml", &format!("{config}running-max = 3\n"));
    server.signal("HUP");
    soon("SIGHUP was heard", || server.ask("GET /api/two", "").contains("98765"));
    soon("what cannot change is said", || log().contains("running-max"));
    write("ends/three.sql", "-- endpoint: GET /api/three\nSELECT y FROM nowhere");
    server.signal("HUP");
    soon("the mistake is said", || log().contains("three.sql"));
    assert!(server.ask("GET /api/two", "").contains("98765"));
    server.signal("TERM");
    assert!(server.child.wait().unwrap().success());
    assert!(log().contains("the server has stopped"));
}

#[test]
fn a_hangup_waits_until_the_database_is_open() {
    let home = tempfile::tempdir().unwrap();
    let init = "SELECT count(*) FROM generate_series(1::BIGINT, 300000000) AS s(i);";
    std::fs::write(home.path().join("init.sql"), init).unwrap();
    let mut command = diligence(home.path());
    command.args(["serve", "--postgres", "off", "--http", "0", "--memory", "256MiB"]);
    command.args(["--init", "init.sql", "--log-file", "log"]);
    let mut server = Server { child: command.stdout(Stdio::piped()).spawn().unwrap(), place: String::new() };
    let log = home.path().join("log");
    soon("the log is begun", || log.exists());
    server.signal("HUP");
    let mut line = String::new();
    BufReader::new(server.child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("http://"), "{line:?}");
    server.place = line.trim().trim_start_matches("http://").trim_end_matches('/').to_owned();
    soon("SIGHUP is heeded", || std::fs::read_to_string(&log).unwrap().contains("SIGHUP: users"));
    assert!(server.ask("GET /nowhere", "").contains("there is nothing at /nowhere"));
    server.signal("TERM");
    assert!(server.child.wait().unwrap().success());
}

#[test]
fn mistakes_end_the_start_and_are_all_told() {
    let home = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(home.path().join(name), text).unwrap();
    std::fs::create_dir(home.path().join("ends")).unwrap();
    write("ends/one.sql", "-- endpoint: GET /api/one\nSELECT * FROM nowhere");
    write("ends/two.sql", "-- endpoint: GET /api/two\nSELECT 1 FROM system.tables WHERE nothing = 1");
    let start = |more: &[&str]| run(home.path(), &[&["serve", "--postgres", "off", "--http", "0"], more].concat(), "");
    let ran = start(&["--endpoints", "ends"]);
    assert!(ran.code != Some(0) && ran.stderr.contains("one.sql") && ran.stderr.contains("two.sql"), "{}", ran.stderr);
    write("ends/three.sql", "-- endpoint: GET /api/three\n-- param: a money\nSELECT $a");
    write("ends/four.sql", "-- endpoint: GET /api/four\nSELECT $a");
    let ran = start(&["--endpoints", "ends"]);
    assert!(ran.code != Some(0) && ran.stderr.contains("three.sql") && ran.stderr.contains("four.sql"));
    write("init.sql", "SELECT 1;\nSELECT * FROM nowhere;");
    let ran = start(&["--init", "init.sql"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("init.sql:2"), "{}", ran.stderr);
    write("server.toml", "sesions-max = 3");
    let ran = start(&["--config", "server.toml"]);
    assert!(ran.code == Some(2) && ran.stderr.contains("sessions-max"), "{}", ran.stderr);
}
