//! Ctrl-C: cancels the statement that runs, and ends the process when none does or when pressed again.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::failure::Failure;

/// The exit code of a process that an interrupt ended, as shells expect it: 128 + SIGINT.
const INTERRUPTED: i32 = 130;

/// Ends a statement.
type Cancel = Box<dyn FnOnce() + Send>;

/// What an interrupt means at this moment.
#[derive(Default)]
enum Target {
    /// Nothing runs: the process ends.
    #[default]
    Process,
    /// A statement is on its way; it can be cancelled once it is planned.
    Statement(Option<Cancel>),
    /// A statement was asked to stop and has not yet.
    Stopping,
}

/// Says what an interrupt means; one per process.
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
                Target::Statement(Some(cancel)) => cancel(),
                Target::Statement(None) => {}
                Target::Process | Target::Stopping => std::process::exit(INTERRUPTED),
            }
        })
        .map_err(|error| Failure::Other(format!("cannot handle interrupts: {error}")))?;
        Ok(Self { target })
    }

    /// From now on an interrupt is for a statement, until the guard is dropped.
    pub fn statement(&self) -> Guard<'_> {
        *self.target.lock() = Target::Statement(None);
        Guard { interrupt: self }
    }
}

/// While it lives, an interrupt is for a statement.
pub struct Guard<'a> {
    interrupt: &'a Interrupt,
}

impl Guard<'_> {
    /// The statement is on its way, and this is how it is cancelled. Done at once if there was an interrupt before.
    pub fn cancels(&self, cancel: impl FnOnce() + Send + 'static) {
        let mut target = self.interrupt.target.lock();
        match &*target {
            Target::Stopping => {
                drop(target);
                cancel();
            }
            Target::Process | Target::Statement(_) => *target = Target::Statement(Some(Box::new(cancel))),
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
