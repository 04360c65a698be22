//! Ourselves as a process that runs statements for `diligence-bench`, as `bench/rivals/driver.py` is for rivals: a JSON
//! object on a line in, one out.

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use diligence_base::sync::Mutex;
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
        data: vec![arguments.folder.clone()],
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
        if let Some(clients) = request["clients"].as_u64() {
            answer(&crowd(&database, &request, clients))?;
            continue;
        }
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

/// Clients with sessions of their own ask the same statements, each beginning with another one.
fn crowd(database: &Database, request: &Value, clients: u64) -> Value {
    let statements = request["statements"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let statements = statements.collect::<Vec<_>>();
    let end = Instant::now() + Duration::from_secs_f64(request["seconds"].as_f64().unwrap_or(1.0));
    let first_error = Mutex::new(None);
    let (answers, errors) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for client in 0..clients as usize {
            let (statements, first_error, answers, errors) = (&statements, &first_error, &answers, &errors);
            scope.spawn(move || {
                let session = database.session();
                // Their number is a prime, so each step takes a client through all of them.
                let step = 2 * client % 42 + 1;
                for turn in 0.. {
                    let Some(sql) = statements.get((client + turn * step) % statements.len().max(1)) else { break };
                    if Instant::now() >= end {
                        break;
                    }
                    match session.execute(sql).and_then(|result| result.collect()) {
                        Ok(_) => answers.fetch_add(1, Ordering::Relaxed),
                        Err(error) => {
                            first_error.lock().get_or_insert_with(|| format!("{error}: {sql}"));
                            errors.fetch_add(1, Ordering::Relaxed)
                        }
                    };
                }
            });
        }
    });
    json!({
        "answers": answers.into_inner(), "errors": errors.into_inner(), "first_error": first_error.into_inner(),
    })
}

fn answer(answer: &Value) -> Result<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{answer}")
        .and_then(|()| output.flush())
        .map_err(|error| Error::resource(format!("the benchmark has gone: {error}")))
}
