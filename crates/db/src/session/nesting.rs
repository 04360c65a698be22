//! Procedures and triggers that run within each other, and how many may.

use std::sync::atomic::{AtomicUsize, Ordering};

use diligence_base::{Error, Result};

use super::Session;

/// Procedures within each other at most: a thread waits for each.
const PROCEDURES_MAX: usize = 64;
/// The same of all sessions: procedures that others have called.
const CALLED_MAX: usize = 1024;

/// A procedure that runs, until it is dropped.
pub(crate) struct Within<'s> {
    depth: Counted<'s>,
    _called: Option<Counted<'s>>,
}

/// One of several that are counted, until it is dropped.
pub(crate) struct Counted<'c> {
    count: &'c AtomicUsize,
    /// How many there were before.
    others: usize,
}

impl<'c> Counted<'c> {
    fn one_more(count: &'c AtomicUsize) -> Self {
        Self { count, others: count.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Session {
    /// A trigger begins. The statement that fires it waits for it: the session runs no other meanwhile but those within
    /// it.
    pub(crate) fn enter_trigger(&self) -> Counted<'_> {
        Counted::one_more(&self.0.triggers)
    }

    /// A procedure begins. Fails with 54001 if too many run within each other, with 53000 if that many do in all
    /// sessions.
    pub(crate) fn enter_procedure(&self) -> Result<Within<'_>> {
        let mut within = Within { depth: Counted::one_more(&self.0.depth), _called: None };
        if within.depth.others >= PROCEDURES_MAX {
            let message =
                format!("stack depth limit exceeded: more than {PROCEDURES_MAX} procedures within each other");
            return Err(Error::resource(message).with_code("54001"));
        }
        if within.depth.others > 0 {
            let called = Counted::one_more(self.database().procedures_called());
            if called.others >= CALLED_MAX {
                let message = format!("more than {CALLED_MAX} procedures run that other procedures have called");
                let hint = "each holds a thread; run fewer statements at once that nest them";
                return Err(Error::resource(message).with_code("53000").with_hint(hint));
            }
            within._called = Some(called);
        }
        Ok(within)
    }
}
