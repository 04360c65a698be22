//! Rival engines, each a Python process that runs statements for us; and ourselves in the same form.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use diligence_base::{Error, Result};
use serde_json::{Value, json};

/// A rival with its data loaded.
pub struct Rival {
    name: String,
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// What a contestant may use.
pub struct Limits {
    /// Memory, if the engine can be told.
    pub memory_bytes: u64,
    /// Where it puts what does not fit.
    pub temp: PathBuf,
}

/// What a rival answered.
pub struct Answer {
    /// Milliseconds for running the statement and fetching its rows.
    pub ms: f64,
    /// The rows, if they were asked for.
    pub rows: Vec<Vec<Value>>,
}

/// Clients that are served together.
pub struct Pool {
    /// The statements of each client; it begins again if it needs more.
    pub clients: Vec<Vec<String>>,
    /// When statements are due, in seconds from the start, whichever client is free then (an open loop); without, each
    /// client sends its next statement when it has the answer to the last (a closed loop).
    pub starts: Option<Vec<f64>>,
}

/// What came of one statement.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// The pool of its client.
    pub pool: usize,
    /// Milliseconds from when it was due until it was sent.
    pub queue_ms: f64,
    /// Milliseconds from when it was due until its last row was there.
    pub latency_ms: f64,
    /// How it ended.
    pub outcome: Outcome,
}

/// How a statement ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With all its rows.
    Answered,
    /// The server said that it has too much to do (SQLSTATE 53300).
    Refused,
    /// With an error.
    Failed,
}

impl Rival {
    /// Starts a rival over a folder of Parquet files. Engines with files of their own load them once and keep them
    /// there.
    pub fn start(name: &str, data: &Path, threads: usize) -> Result<Self> {
        Self::start_python(name, data, threads, None)
    }

    /// The same with limits.
    pub fn start_limited(name: &str, data: &Path, threads: usize, limits: &Limits) -> Result<Self> {
        Self::start_python(name, data, threads, Some(limits))
    }

    /// Ourselves with limits, as a process of its own; `direct`: temp space past the page cache.
    pub fn start_own(data: &Path, workers: usize, limits: &Limits, direct: bool) -> Result<Self> {
        let program = std::env::current_exe()
            .map_err(|error| Error::resource(format!("the benchmark does not know its own program: {error}")))?;
        let mut command = Command::new(program);
        command.arg("serve").arg(data).arg(workers.to_string()).arg(limits.memory_bytes.to_string()).arg(&limits.temp);
        command.args(direct.then_some("--direct"));
        Self::start_process("diligence", command)
    }

    fn start_python(name: &str, data: &Path, threads: usize, limits: Option<&Limits>) -> Result<Self> {
        let home = Path::new("bench/rivals");
        let python = home.join("venv/bin/python");
        if !python.exists() {
            return Err(Error::input(format!("there is no {}", python.display()))
                .with_hint("run bench/rivals/setup, and start diligence-bench in the project's folder"));
        }
        let mut command = Command::new(python);
        command.arg(home.join("driver.py")).arg(name).arg(data).arg(threads.to_string());
        if let Some(limits) = limits {
            command.arg(limits.memory_bytes.to_string()).arg(&limits.temp);
        }
        Self::start_process(name, command)
    }

    fn start_process(name: &str, mut command: Command) -> Result<Self> {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| Error::resource(format!("{name} does not start: {error}")))?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(Error::bug("a child process without pipes"));
        };
        let mut rival = Self { name: name.to_owned(), process, input, output: BufReader::new(output) };
        rival.read()?;
        Ok(rival)
    }

    /// The name that it was started with.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs one statement.
    pub fn run(&mut self, sql: &str, rows: bool) -> Result<Answer> {
        self.ask(&json!({"sql": sql, "rows": rows}))
    }

    /// Runs statements by many clients at once for so many seconds, ourselves only: an object with the numbers of
    /// `answers` and `errors` and the `first_error`.
    pub fn run_crowd(&mut self, statements: &[String], clients: usize, seconds: f64) -> Result<Value> {
        let lost = |error: std::io::Error| Error::resource(format!("the rival has gone: {error}"));
        let request = json!({"statements": statements, "clients": clients, "seconds": seconds});
        writeln!(self.input, "{request}").map_err(lost)?;
        self.input.flush().map_err(lost)?;
        self.read()
    }

    /// Writes the rows of a query into one Parquet file with Snappy compression.
    pub fn copy(&mut self, query: &str, path: &Path) -> Result<Answer> {
        self.ask(&json!({"sql": query, "rows": false, "copy_to": path}))
    }

    fn ask(&mut self, request: &Value) -> Result<Answer> {
        let lost = |error: std::io::Error| Error::resource(format!("the rival has gone: {error}"));
        writeln!(self.input, "{request}").map_err(lost)?;
        self.input.flush().map_err(lost)?;
        let answer = self.read()?;
        if let Some(error) = answer["error"].as_str() {
            return Err(Error::value(format!("{} says: {error}", self.name)));
        }
        let rows = answer["rows"]
            .as_array()
            .map_or_else(Vec::new, |rows| rows.iter().map(|row| row.as_array().cloned().unwrap_or_default()).collect());
        Ok(Answer { ms: answer["ms"].as_f64().unwrap_or(f64::NAN), rows })
    }

    /// Runs pools of clients at once for so many seconds. Returns what came of each statement, in no order, and the
    /// seconds until the last had ended.
    pub fn run_clients(&mut self, pools: &[Pool], seconds: f64) -> Result<(Vec<Record>, f64)> {
        let lost = |error: std::io::Error| Error::resource(format!("the rival has gone: {error}"));
        let pools: Vec<_> = pools.iter().map(|pool| json!({"clients": pool.clients, "starts": pool.starts})).collect();
        writeln!(self.input, "{}", json!({"pools": pools, "seconds": seconds})).map_err(lost)?;
        self.input.flush().map_err(lost)?;
        let answer = self.read()?;
        if let Some(error) = answer["error"].as_str() {
            return Err(Error::value(format!("{} says: {error}", self.name)));
        }
        let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
        let records = answer["records"].as_array().into_iter().flatten().map(|record| Record {
            pool: record[0].as_u64().unwrap_or(0) as usize,
            queue_ms: number(&record[1]),
            latency_ms: number(&record[2]),
            outcome: if record[3].is_null() { Outcome::Answered } else { Outcome::Failed },
        });
        Ok((records.collect(), number(&answer["seconds"])))
    }

    /// The largest that its process has been, in bytes; 0 where the system does not say.
    pub fn peak_resident_bytes(&self) -> u64 {
        self.of_proc("status", "VmHWM:") * 1024
    }

    /// Bytes that storage has read for its process so far, and written.
    pub fn io_bytes(&self) -> (u64, u64) {
        (self.of_proc("io", "read_bytes:"), self.of_proc("io", "write_bytes:"))
    }

    /// A number that the system keeps of its process.
    fn of_proc(&self, file: &str, name: &str) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/{file}", self.process.id())).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|value| value.split_whitespace().next()?.parse().ok()).unwrap_or(0)
    }

    fn read(&mut self) -> Result<Value> {
        let mut line = String::new();
        let read = self.output.read_line(&mut line);
        match read {
            Ok(1..) => serde_json::from_str(&line)
                .map_err(|error| Error::bug(format!("{} answered something odd: {error}", self.name))),
            _ => Err(Error::resource(format!("the rival {} ended", self.name))),
        }
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        // It holds nothing worth saving.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
