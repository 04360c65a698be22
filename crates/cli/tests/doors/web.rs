//! Files on web servers, as they are: without parts of files, without lists, and sometimes without an answer.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::{Ran, diligence, run};

/// A server of one file, as simple as Python's; what it was asked is in the list.
struct Server {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
}

const CONTENT: &str = "a,b\n1,one\n2,two\n";

fn serve() -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let heard = asked.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let heard = heard.clone();
            std::thread::spawn(move || answer(stream.unwrap(), &heard));
        }
    });
    Server { address, asked }
}

fn answer(stream: TcpStream, heard: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut request = String::new();
    if reader.read_line(&mut request).is_err() || request.is_empty() {
        return;
    }
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|bytes| bytes > 2) {
        line.clear();
    }
    heard.lock().unwrap().push(request.trim().to_owned());
    let mut words = request.split(' ');
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    let (status, body) = match (method, path) {
        ("GET" | "HEAD", "/x.csv") => ("200 OK", CONTENT),
        ("GET" | "HEAD", _) => ("404 Not Found", "<!DOCTYPE html><p>nothing here"),
        _ => ("501 Unsupported method", "<!DOCTYPE html><p>no such method"),
    };
    let body = if method == "HEAD" { "" } else { body };
    let length = if method == "HEAD" { CONTENT.len() } else { body.len() };
    let mut stream = stream;
    let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
}

#[test]
fn a_server_that_gives_no_parts_is_read_whole() {
    let home = tempfile::tempdir().unwrap();
    let server = serve();
    let query = format!("SELECT sum(a) AS s, max(b) AS m FROM '{}/x.csv'", server.address);
    let ran = run(home.path(), &["sql", "--format", "csv", &query], "");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "s,m\n3,two\n"), "{}", ran.stderr);
}

#[test]
fn what_a_server_does_not_have_is_said_quickly() {
    let home = tempfile::tempdir().unwrap();
    let server = serve();
    let begun = Instant::now();
    let url = format!("{}/nothing.csv", server.address);
    let ran = run(home.path(), &["sql", &format!("SELECT * FROM '{url}'")], "");
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.starts_with(&format!("error: {url}: there is no such file")), "{}", ran.stderr);
    assert!(!server.asked.lock().unwrap().iter().any(|request| request.starts_with("PROPFIND")));

    let ran = run(home.path(), &["sql", &format!("SELECT * FROM '{}/*.csv'", server.address)], "");
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.contains("does not tell which files it has") && !ran.stderr.contains("DOCTYPE"),
        "{}",
        ran.stderr
    );

    let url = format!("{}/y.csv", server.address);
    let ran = run(home.path(), &["sql", &format!("COPY (SELECT 1 AS a) TO '{url}'")], "");
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.contains(&url) && ran.stderr.contains("501") && !ran.stderr.contains("DOCTYPE"),
        "{}",
        ran.stderr
    );
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

#[test]
fn planning_that_waits_is_cancelled() {
    let home = tempfile::tempdir().unwrap();
    // Connections are made, and never answered.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let query = format!("SELECT * FROM 'http://{}/x.csv'", silent.local_addr().unwrap());
    let child =
        diligence(home.path()).args(["sql", &query]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (_connection, _) = silent.accept().unwrap();
    let begun = Instant::now();
    // SAFETY: the child has not been waited for, so its number is its own.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let ran: Ran = child.wait_with_output().unwrap().into();
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("cancelled"), "{}", ran.stderr);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}
