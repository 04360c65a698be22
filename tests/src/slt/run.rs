//! One script in one weather.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use diligence_db::{Database, DatabaseOptions};
use parking_lot::Mutex;
use sqllogictest::{
    QueryExpect, Record, Runner, StatementExpect, default_normalizer, default_validator, strict_column_validator,
};

use super::adapter::{Adapter, Door};
use super::display::ColumnLetter;
use super::scripts::Script;
use super::watchdog::Watchdog;
use super::weathers::Weather;
use super::wire::Wire;
use crate::{data, idle};

/// What came of a script.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Records that did what they should.
    pub passed: usize,
    /// A text per record that did not: its place, the SQL, what was expected and what came.
    pub failures: Vec<String>,
}

/// Runs the script from its first record to its last, against a database of its own.
pub fn run(script: &Script, weather: &Weather, temporary: &Path, watchdog: &Watchdog) -> Outcome {
    let mut outcome = Outcome::default();
    // A panic that reaches the caller of the library is a failure of the record that ran, and of nothing else.
    let ran = catch_unwind(AssertUnwindSafe(|| run_records(script, weather, temporary, watchdog, &mut outcome)));
    match ran {
        Ok(Ok(())) => {}
        Ok(Err(message)) => outcome.failures.push(format!("tests/slt/{}: {message}", script.name)),
        Err(_) => outcome.failures.push(format!("tests/slt/{}: the library panicked", script.name)),
    }
    outcome
}

fn run_records(
    script: &Script,
    weather: &Weather,
    temporary: &Path,
    watchdog: &Watchdog,
    outcome: &mut Outcome,
) -> Result<(), String> {
    let scratch = tempfile::Builder::new()
        .prefix("slt-")
        .tempdir_in(temporary)
        .map_err(|error| format!("no scratch folder: {error}"))?;
    // COPY makes no folder for a file: scripts that need some find these.
    for folder in ["t", "u", "v", "w"] {
        std::fs::create_dir(scratch.path().join(folder)).map_err(|error| format!("no scratch folder: {error}"))?;
    }
    let tables = script.scale_factor.map(|scale_factor| data::tpch(temporary, scale_factor)).transpose();
    let folder = weather.kept.map(|_| scratch.path().join("database"));
    let options = DatabaseOptions {
        folder,
        data: tables.map_err(|error| error.to_string())?.into_iter().collect(),
        ..weather.options()
    };
    let database = Database::open(options).map_err(|error| format!("the database does not open: {error}"))?;
    let door = match weather.over_the_wire {
        false => Door::Session(Arc::new(database.session())),
        true => {
            let wire = Wire::open(&database).map_err(|error| format!("the server does not start: {error}"))?;
            Door::Wire(Arc::new(Mutex::new(wire)))
        }
    };

    let connect = || {
        let adapter =
            Adapter { door: door.clone(), watchdog: watchdog.clone(), twice: weather.twice, changing: vec![] };
        async move { Ok(adapter) }
    };
    let mut runner = Runner::new(connect);
    runner.with_column_validator(strict_column_validator);
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("slt").join("data");
    let mut updated = updates().then(String::new);
    for record in &script.records {
        let original = record;
        let record = with_places(record, &data, scratch.path());
        if let Some(text) = &mut updated {
            let output = futures::executor::block_on(runner.apply_record(record));
            let (validator, normalizer) = (default_validator, default_normalizer);
            let columns = strict_column_validator;
            let anew = sqllogictest::update_record_with_output(original, &output, " ", validator, normalizer, columns);
            // What fails and should not stays, for somebody to see.
            let anew = anew.as_ref().filter(|anew| expects_error(anew) == expects_error(original)).unwrap_or(original);
            text.push_str(&format!("{anew}\n"));
            continue;
        }
        let counts = matches!(record, Record::Statement { .. } | Record::Query { .. });
        let may_change = weather.kept.is_some() && matches!(record, Record::Statement { .. });
        match runner.run(record) {
            Ok(_) => outcome.passed += usize::from(counts),
            Err(error) => {
                outcome.failures.push(format!("{}\n{}", error.location(), error.kind()));
            }
        }
        if may_change && let Err(error) = database.checkpoint() {
            outcome.failures.push(format!("tests/slt/{}: a checkpoint failed: {error}", script.name));
        }
    }
    if let Some(text) = updated {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("slt").join(&script.name);
        let text = format!("{}\n", text.trim_end());
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    // The server goes before its database is looked at.
    drop(runner);
    drop(door);
    idle::wait(&database)
}

/// Whether answers take the place of those in the scripts.
fn updates() -> bool {
    std::env::var_os("DILIGENCE_SLT_UPDATE").is_some()
}

fn expects_error(record: &Record<ColumnLetter>) -> bool {
    match record {
        Record::Statement { expected, .. } => matches!(expected, StatementExpect::Error(_)),
        Record::Query { expected, .. } => matches!(expected, QueryExpect::Error(_)),
        _ => false,
    }
}

/// The record with its placeholders replaced.
fn with_places(record: &Record<ColumnLetter>, data: &Path, scratch: &Path) -> Record<ColumnLetter> {
    let mut record = record.clone();
    if let Record::Statement { sql, .. } | Record::Query { sql, .. } = &mut record {
        for (placeholder, path) in [("__DATA__", data), ("__SCRATCH__", scratch)] {
            *sql = sql.replace(placeholder, &path.display().to_string());
        }
    }
    record
}
