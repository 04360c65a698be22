//! Rival engines, each a Python process that runs statements for us.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
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

/// What a rival answered.
pub struct Answer {
    /// Milliseconds for running the statement and fetching its rows.
    pub ms: f64,
    /// The rows, if they were asked for.
    pub rows: Vec<Vec<Value>>,
}

impl Rival {
    /// Starts a rival over a folder of Parquet files. Engines with files of their own load them once and keep them there.
    pub fn start(name: &str, data: &Path, threads: usize) -> Result<Self> {
        let home = Path::new("bench/rivals");
        let python = home.join("venv/bin/python");
        if !python.exists() {
            return Err(Error::input(format!("there is no {}", python.display()))
                .with_hint("run bench/rivals/setup, and start diligence-bench in the project's folder"));
        }
        let failed = |error: std::io::Error| Error::resource(format!("the rival {name} does not start: {error}"));
        let mut process = Command::new(python)
            .arg(home.join("driver.py"))
            .arg(name)
            .arg(data)
            .arg(threads.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
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
        let lost = |error: std::io::Error| Error::resource(format!("the rival has gone: {error}"));
        writeln!(self.input, "{}", json!({"sql": sql, "rows": rows})).map_err(lost)?;
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

    /// Runs clients at once, each with its own statements, again and again for so many seconds. Returns the milliseconds of all
    /// statements, and the seconds until the last had ended.
    pub fn run_clients(&mut self, statements: &[Vec<String>], seconds: u64) -> Result<(Vec<f64>, f64)> {
        let lost = |error: std::io::Error| Error::resource(format!("the rival has gone: {error}"));
        writeln!(self.input, "{}", json!({"clients": statements, "seconds": seconds})).map_err(lost)?;
        self.input.flush().map_err(lost)?;
        let answer = self.read()?;
        if let Some(error) = answer["error"].as_str() {
            return Err(Error::value(format!("{} says: {error}", self.name)));
        }
        let latencies = answer["latencies"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
        Ok((latencies, answer["seconds"].as_f64().unwrap_or(f64::NAN)))
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
