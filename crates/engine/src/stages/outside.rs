//! Work that waits for something outside of the engine, in the middle of a turn: a function of a process, say.
//!
//! Most of what waits leaves a waker and gives its worker up. An expression cannot: it is a call, which has to come
//! back with values. So the worker waits, and another thread takes its place ([`Scheduler::leave`]); no other query is
//! held up. What waits asks every few milliseconds whether its query still wants the values. Where values come within a
//! moment, threads that come and go cost more than they do: what knows that says itself when it will wait for longer.
//!
//! [`Scheduler::leave`]: super::Scheduler

use std::cell::RefCell;
use std::fmt;
use std::sync::{Arc, Weak};

use diligence_base::Error;
use diligence_base::function_limits::FunctionLimits;

use crate::sync::atomic::{AtomicBool, Ordering};

/// How serious a message is, as PostgreSQL says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Told because it was asked for.
    Info,
    /// What may be of use.
    Notice,
    /// What may be wrong.
    Warning,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Info => "INFO",
            Self::Notice => "NOTICE",
            Self::Warning => "WARNING",
        })
    }
}

/// What those outside have to say to the client whose statement runs.
#[derive(Clone, Debug)]
pub struct Message {
    /// How serious it is.
    pub level: Level,
    /// Its text, SQLSTATE, detail and hint: those of an error that is none.
    pub said: Error,
}

impl Message {
    /// The SQLSTATE of a notice that has none of its own.
    const SUCCESS: &str = "00000";

    /// A notice.
    pub fn notice(text: impl Into<String>) -> Self {
        Self { level: Level::Notice, said: Error::input(text.into()).with_code(Self::SUCCESS) }
    }

    /// Its text.
    pub fn text(&self) -> &str {
        self.said.message()
    }
}

/// Whose work it is: a query, as far as those outside are concerned.
pub trait Caller: Send + Sync {
    /// Whether nobody wants the values any more.
    fn is_stopped(&self) -> bool;

    /// What those outside have to say to the client that has asked.
    fn printed(&self, message: Message);

    /// What the functions in other languages may take that it calls, if that is less than they may take anyway.
    fn function_limits(&self) -> FunctionLimits {
        FunctionLimits::default()
    }

    /// The thread will wait, from now on. Of a caller that [`outside`] gives, may be said again and again.
    fn leave(&self) {}

    /// The thread goes on.
    fn come_back(&self) {}

    /// A job of another thread begins, without which the caller's work does not count as ended.
    fn job_begins(&self) {}

    /// One of these has ended, and has dropped what it held.
    fn job_ended(self: Arc<Self>) {}
}

thread_local! {
    /// Whose work this thread does.
    static CALLER: RefCell<Option<Weak<dyn Caller>>> = const { RefCell::new(None) };
}

/// Puts back who was there before.
struct Before(Option<Weak<dyn Caller>>);

impl Drop for Before {
    fn drop(&mut self) {
        let before = self.0.take();
        CALLER.with(|caller| *caller.borrow_mut() = before);
    }
}

/// Does some work of a caller on this thread.
pub fn on_behalf_of<T>(caller: Weak<dyn Caller>, work: impl FnOnce() -> T) -> T {
    let _before = Before(CALLER.with(|known| known.borrow_mut().replace(caller)));
    work()
}

/// Whose work this thread does.
pub fn caller() -> Option<Arc<dyn Caller>> {
    CALLER.with(|caller| caller.borrow().as_ref().and_then(Weak::upgrade))
}

/// Somebody who plans a statement, or computes a value beside all queries: nobody can stop him.
struct Alone;

impl Caller for Alone {
    fn is_stopped(&self) -> bool {
        false
    }

    fn printed(&self, _message: Message) {}
}

/// A caller whose thread waits, or may: it leaves once, and is told that the thread is back, however that comes back.
struct Away<'c> {
    caller: &'c dyn Caller,
    has_left: AtomicBool,
}

impl<'c> Away<'c> {
    fn of(caller: &'c dyn Caller) -> Self {
        Self { caller, has_left: AtomicBool::new(false) }
    }
}

impl Caller for Away<'_> {
    fn is_stopped(&self) -> bool {
        self.caller.is_stopped()
    }

    fn printed(&self, message: Message) {
        self.caller.printed(message);
    }

    fn function_limits(&self) -> FunctionLimits {
        self.caller.function_limits()
    }

    fn leave(&self) {
        if !self.has_left.swap(true, Ordering::Relaxed) {
            self.caller.leave();
        }
    }
}

impl Drop for Away<'_> {
    fn drop(&mut self) {
        if self.has_left.load(Ordering::Relaxed) {
            self.caller.come_back();
        }
    }
}

/// Waits for something outside of the engine; what waits is told for whom.
pub fn outside<T>(wait: impl FnOnce(&dyn Caller) -> T) -> T {
    briefly_outside(|caller| {
        caller.leave();
        wait(caller)
    })
}

/// The same for what mostly takes a moment: it has the caller leave as soon as it takes longer.
pub fn briefly_outside<T>(wait: impl FnOnce(&dyn Caller) -> T) -> T {
    match caller() {
        None => wait(&Alone),
        Some(caller) => wait(&Away::of(caller.as_ref())),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::sync::Mutex;

    #[derive(Default)]
    struct Noted(Mutex<Vec<String>>);

    impl Caller for Noted {
        fn is_stopped(&self) -> bool {
            true
        }

        fn printed(&self, message: Message) {
            self.0.lock().push(message.text().to_owned());
        }

        fn leave(&self) {
            self.printed(Message::notice("leaves"));
        }

        fn come_back(&self) {
            self.printed(Message::notice("comes back"));
        }
    }

    #[test]
    fn what_waits_knows_for_whom_and_a_panic_comes_back_as_well() {
        let (noted, other) = (Arc::new(Noted::default()), Arc::new(Noted::default()));
        let weak = |noted: &Arc<Noted>| Arc::downgrade(noted) as Weak<dyn Caller>;
        assert!(!outside(|caller| caller.is_stopped()), "nobody's work");
        on_behalf_of(weak(&noted), || {
            on_behalf_of(weak(&other), || outside(|caller| caller.printed(Message::notice("inner"))));
            let panicked = std::panic::catch_unwind(|| outside(|_| panic!("as it happens")));
            assert!(panicked.is_err() && outside(|caller| caller.is_stopped()));
        });
        assert!(!outside(|caller| caller.is_stopped()));
        assert_eq!(*other.0.lock(), ["leaves", "inner", "comes back"]);
        on_behalf_of(weak(&other), || {
            other.0.lock().clear();
            briefly_outside(|caller| caller.printed(Message::notice("at once")));
            briefly_outside(|caller| {
                caller.leave();
                caller.printed(Message::notice("later"));
                caller.leave();
            });
        });
        assert_eq!(*other.0.lock(), ["at once", "leaves", "later", "comes back"]);
        assert_eq!(*noted.0.lock(), ["leaves", "comes back"].repeat(2));
    }
}
