//! Ourselves as a process that runs statements for `diligence-bench`, as `bench/rivals/driver.py` is for rivals: a JSON
//! object on a line in, one out.

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use diligence_base::{Error, Result};
use diligence_db::{Database, DatabaseOptions, Session};
use diligence_disk::TempOptions;
use serde_json::{Value, json};

use crate::answers::values;
use crate::setup;

/// What to run on, and with what.
#[derive(Args)]
pub struct ServeArguments {
    /// The folder whose files are the tables.
    folder: PathBuf,
    /// Worker threads.
    workers: usize,
    /// The memory budget, in bytes.
    memory_bytes: usize,
    /// Where rows go that do not fit.
    temp: PathBuf,
    /// Past the page cache.
    #[arg(long)]
    direct: bool,
}

/// Answers until the input ends.
pub fn run(arguments: &ServeArguments) -> Result<Value> {
    let temp = TempOptions {
        directories: vec![arguments.temp.clone()],
        direct: arguments.direct,
        ..TempOptions::within(arguments.memory_bytes)
    };
    let options = DatabaseOptions {
        data: Some(arguments.folder.clone()),
        workers: Some(arguments.workers),
        memory_bytes: Some(arguments.memory_bytes),
        temp: Some(temp),
        settings: setup::settings(),
        ..DatabaseOptions::default()
    };
    let database = Database::open(options)?;
    let (budget, charge) = database.engine().process_budget();
    diligence_allocator::keep_within(diligence_allocator::QUIET, budget, charge);
    database.engine().between_turns(diligence_allocator::tidy);
    let session = database.session();
    answer(&json!({"ready": true}))?;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| Error::resource(format!("the benchmark has gone: {error}")))?;
        let request: Value =
            serde_json::from_str(&line).map_err(|error| Error::input(format!("no request: {error}")))?;
        answer(&ran(&session, &request).unwrap_or_else(|error| json!({"error": error.to_string()})))?;
    }
    Ok(Value::Null)
}

fn ran(session: &Session, request: &Value) -> Result<Value> {
    let query = request["sql"].as_str().ok_or_else(|| Error::input("a request without sql"))?;
    let copy = request["copy_to"].as_str().map(|path| format!("COPY ({query}) TO '{path}' STORED AS PARQUET"));
    let start = Instant::now();
    let batches = session.execute(copy.as_deref().unwrap_or(query))?.collect()?;
    let ms = start.elapsed().as_secs_f64() * 1e3;
    let rows = if request["rows"] == true { values(&batches)? } else { Vec::new() };
    Ok(json!({"ms": ms, "rows": rows}))
}

fn answer(answer: &Value) -> Result<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{answer}")
        .and_then(|()| output.flush())
        .map_err(|error| Error::resource(format!("the benchmark has gone: {error}")))
}
