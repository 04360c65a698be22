//! Ctrl-C cancels the running statement. It ends the process if no statement is running or if it is pressed again.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::failure::Failure;

/// The exit code of a process that an interrupt ended, by the convention of shells: 128 + SIGINT.
const INTERRUPTED: i32 = 130;

/// Cancels a statement.
type Cancel = Box<dyn FnOnce() + Send>;

/// What an interrupt applies to at this moment.
#[derive(Default)]
enum InterruptTarget {
    /// No statement is running: the process ends.
    #[default]
    Process,
    /// A statement is running; it can be cancelled once it is planned.
    Statement(Option<Cancel>),
    /// A statement was cancelled and has not ended yet.
    Stopping,
}

/// The handler of interrupts; one per process.
pub struct Interrupt {
    target: Arc<Mutex<InterruptTarget>>,
}

impl Interrupt {
    /// Installs the handler for SIGINT. Fails if the system refuses it.
    pub fn install() -> Result<Self, Failure> {
        let target = Arc::new(Mutex::new(InterruptTarget::default()));
        let on_signal = Arc::clone(&target);
        // The handler runs on a thread of its own, so it may lock.
        ctrlc::set_handler(move || {
            let was = std::mem::replace(&mut *on_signal.lock(), InterruptTarget::Stopping);
            match was {
                InterruptTarget::Statement(Some(cancel)) => cancel(),
                InterruptTarget::Statement(None) => {}
                InterruptTarget::Process | InterruptTarget::Stopping => std::process::exit(INTERRUPTED),
            }
        })
        .map_err(|error| Failure::Other(format!("cannot handle interrupts: {error}")))?;
        Ok(Self { target })
    }

    /// Directs interrupts to a statement until the guard is dropped, and then to what they were directed to before.
    /// That is interrupted as well if the statement was.
    pub fn statement(&self) -> InterruptGuard<'_> {
        let before = std::mem::replace(&mut *self.target.lock(), InterruptTarget::Statement(None));
        InterruptGuard { interrupt: self, before }
    }
}

/// Directs interrupts to a statement while it exists.
pub struct InterruptGuard<'a> {
    interrupt: &'a Interrupt,
    before: InterruptTarget,
}

impl InterruptGuard<'_> {
    /// Sets how the statement is cancelled. Cancels it at once if an interrupt has occurred.
    pub fn cancels(&self, cancel: impl FnOnce() + Send + 'static) {
        let mut target = self.interrupt.target.lock();
        match &*target {
            InterruptTarget::Stopping => {
                drop(target);
                cancel();
            }
            InterruptTarget::Process | InterruptTarget::Statement(_) => {
                *target = InterruptTarget::Statement(Some(Box::new(cancel)))
            }
        }
    }

    /// Whether an interrupt has occurred.
    pub fn interrupted(&self) -> bool {
        matches!(*self.interrupt.target.lock(), InterruptTarget::Stopping)
    }
}

impl Drop for InterruptGuard<'_> {
    fn drop(&mut self) {
        let mut target = self.interrupt.target.lock();
        *target = match (std::mem::take(&mut self.before), &*target) {
            (InterruptTarget::Statement(_), InterruptTarget::Stopping) => InterruptTarget::Stopping,
            (before, _) => before,
        };
    }
}
