//! Ctrl-C: cancels the statement that runs, and ends the process when none does or when pressed again.

use std::sync::Arc;

use diligence_db::Database;
use parking_lot::Mutex;

use crate::failure::Failure;

/// The exit code of a process that an interrupt ended, as shells expect it: 128 + SIGINT.
const INTERRUPTED: i32 = 130;

/// What an interrupt means at this moment.
#[derive(Debug, Default)]
enum Target {
    /// Nothing runs: the process ends.
    #[default]
    Process,
    /// A statement runs in this database.
    Statement(Database),
    /// A statement was asked to stop and has not yet.
    Stopping,
}

/// Says what an interrupt means; one per process.
#[derive(Debug)]
pub struct Interrupt {
    target: Arc<Mutex<Target>>,
}

impl Interrupt {
    /// Takes over the process's SIGINT.
    pub fn install() -> Result<Self, Failure> {
        let target = Arc::new(Mutex::new(Target::default()));
        let on_signal = Arc::clone(&target);
        // The handler runs on a thread of its own, so it may lock.
        ctrlc::set_handler(move || {
            let was = std::mem::replace(&mut *on_signal.lock(), Target::Stopping);
            match was {
                Target::Statement(database) => cancel_queries(&database),
                Target::Process | Target::Stopping => std::process::exit(INTERRUPTED),
            }
        })
        .map_err(|error| Failure::Other(format!("cannot handle interrupts: {error}")))?;
        Ok(Self { target })
    }

    /// From now on an interrupt cancels what runs in the database, until the guard is dropped.
    pub fn cancels(&self, database: &Database) -> Guard<'_> {
        *self.target.lock() = Target::Statement(database.clone());
        Guard { interrupt: self }
    }
}

/// The command runs one statement at a time, so every query that runs belongs to it: also those that a statement waits
/// for before it gives a result, as COPY does.
fn cancel_queries(database: &Database) {
    let engine = database.engine();
    for query in engine.queries() {
        engine.cancel(query.id);
    }
}

/// While it lives, an interrupt cancels a statement.
pub struct Guard<'a> {
    interrupt: &'a Interrupt,
}

impl Guard<'_> {
    /// True once there was an interrupt. A statement that was still being planned then has no query that could have been
    /// cancelled.
    pub fn interrupted(&self) -> bool {
        matches!(*self.interrupt.target.lock(), Target::Stopping)
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        *self.interrupt.target.lock() = Target::Process;
    }
}
