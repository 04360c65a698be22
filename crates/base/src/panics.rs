//! Panics that are part of the plan: libraries panic on damaged files, and whoever calls them makes an error of it.
//!
//! The message of such a panic would look like a crash on standard error. So the process's panic hook is wrapped once,
//! and says nothing about a panic under [`caught_quietly`]. All other panics are reported as before.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// How many calls of [`caught_quietly`] are under way on this thread.
    static EXPECTED: Cell<usize> = const { Cell::new(0) };
}

/// Runs something that may panic, as code does that believes what a file says; `None` if it did.
pub fn caught_quietly<T>(work: impl FnOnce() -> T) -> Option<T> {
    static HOOK: Once = Once::new();
    // The hook cannot be exchanged by a thread that is panicking itself.
    if !std::thread::panicking() {
        HOOK.call_once(|| {
            let hook = take_hook();
            set_hook(Box::new(move |panic| {
                if EXPECTED.get() == 0 {
                    hook(panic);
                }
            }));
        });
    }
    EXPECTED.set(EXPECTED.get() + 1);
    let done = catch_unwind(AssertUnwindSafe(work));
    EXPECTED.set(EXPECTED.get() - 1);
    done.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_none_and_the_next_one_is_expected_no_more() {
        assert_eq!(caught_quietly(|| 1), Some(1));
        let nested = caught_quietly(|| {
            assert_eq!(caught_quietly(|| -> u8 { panic!("inner") }), None);
            assert_eq!(EXPECTED.get(), 1);
            panic!("outer")
        });
        assert_eq!(nested, None::<()>);
        assert_eq!(EXPECTED.get(), 0);
    }
}
