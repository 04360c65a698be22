//! Work that waits for something outside of the engine, in the middle of a turn: a function of a process, say.
//!
//! Most of what waits leaves a waker and gives its worker up. An expression cannot: it is a call, which has to come
//! back with values. So the worker waits, and another thread takes its place ([`Scheduler::leave`]); no other query is
//! held up. What waits asks every few milliseconds whether its query still wants the values.
//!
//! [`Scheduler::leave`]: super::Scheduler

use std::cell::RefCell;
use std::sync::{Arc, Weak};

/// Whose work it is: a query, as far as those outside are concerned.
pub trait Caller: Send + Sync {
    /// Whether nobody wants the values any more.
    fn is_stopped(&self) -> bool;

    /// What those outside have to say to whoever asked.
    fn printed(&self, text: &str);

    /// The thread will wait, from now on.
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

    fn printed(&self, _text: &str) {}
}

/// Tells the caller that the thread is back, however it comes back.
struct Away<'c>(&'c dyn Caller);

impl Drop for Away<'_> {
    fn drop(&mut self) {
        self.0.come_back();
    }
}

/// Waits for something outside of the engine; what waits is told for whom.
pub fn outside<T>(wait: impl FnOnce(&dyn Caller) -> T) -> T {
    match caller() {
        None => wait(&Alone),
        Some(caller) => {
            caller.leave();
            let _away = Away(caller.as_ref());
            wait(caller.as_ref())
        }
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

        fn printed(&self, text: &str) {
            self.0.lock().push(text.to_owned());
        }

        fn leave(&self) {
            self.printed("leaves");
        }

        fn come_back(&self) {
            self.printed("comes back");
        }
    }

    #[test]
    fn what_waits_knows_for_whom_and_a_panic_comes_back_as_well() {
        let (noted, other) = (Arc::new(Noted::default()), Arc::new(Noted::default()));
        let weak = |noted: &Arc<Noted>| Arc::downgrade(noted) as Weak<dyn Caller>;
        assert!(!outside(|caller| caller.is_stopped()), "nobody's work");
        on_behalf_of(weak(&noted), || {
            on_behalf_of(weak(&other), || outside(|caller| caller.printed("inner")));
            let panicked = std::panic::catch_unwind(|| outside(|_| panic!("as it happens")));
            assert!(panicked.is_err() && outside(|caller| caller.is_stopped()));
        });
        assert!(!outside(|caller| caller.is_stopped()));
        assert_eq!(*other.0.lock(), ["leaves", "inner", "comes back"]);
        assert_eq!(*noted.0.lock(), ["leaves", "comes back"].repeat(2));
    }
}
