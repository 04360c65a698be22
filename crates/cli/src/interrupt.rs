//! Ctrl-C: cancels the statement that runs, and ends the process when none does or when pressed again.

use std::sync::Arc;

use diligence_db::CancelToken;
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
    /// A statement is on its way; it can be cancelled once it is planned.
    Statement(CancelToken),
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
                Target::Statement(token) => token.cancel(),
                Target::Process | Target::Stopping => std::process::exit(INTERRUPTED),
            }
        })
        .map_err(|error| Failure::Other(format!("cannot handle interrupts: {error}")))?;
        Ok(Self { target })
    }

    /// From now on an interrupt is for a statement, until the guard is dropped.
    pub fn statement(&self) -> Guard<'_> {
        *self.target.lock() = Target::Statement(CancelToken::default());
        Guard { interrupt: self }
    }
}

/// While it lives, an interrupt is for a statement.
pub struct Guard<'a> {
    interrupt: &'a Interrupt,
}

impl Guard<'_> {
    /// The statement is planned, and this is how it is cancelled. Done at once if there was an interrupt before.
    pub fn cancels(&self, token: CancelToken) {
        let mut target = self.interrupt.target.lock();
        match &*target {
            Target::Stopping => token.cancel(),
            Target::Process | Target::Statement(_) => *target = Target::Statement(token),
        }
    }

    /// True once there was an interrupt.
    pub fn interrupted(&self) -> bool {
        matches!(*self.interrupt.target.lock(), Target::Stopping)
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        *self.interrupt.target.lock() = Target::Process;
    }
}
