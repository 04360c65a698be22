//! Whether the work of this thread is still wanted.
//!
//! Planning runs on the threads of a stage, in one go, and can take long for a statement that is large enough. Its
//! client may have gone meanwhile, or wait no more. Work that is to notice runs [`while_wanted`], and asks
//! [`check`] wherever it comes by often: at each operator, at each part of an expression, at each set of relations.

use std::cell::RefCell;

use crate::{Error, Result};

thread_local! {
    /// What says that the work of this thread was given up; `None` if nobody can give it up.
    static GIVEN_UP: RefCell<Option<Box<dyn Fn() -> bool>>> = const { RefCell::new(None) };
}

/// Does some work, on this thread, in which [`check`] fails from the time on at which `is_given_up` says so. Within
/// other such work, only the inner one's word counts.
pub fn while_wanted<T>(is_given_up: impl Fn() -> bool + 'static, work: impl FnOnce() -> T) -> T {
    struct Outer(Option<Box<dyn Fn() -> bool>>);
    impl Drop for Outer {
        fn drop(&mut self) {
            GIVEN_UP.set(self.0.take());
        }
    }
    let _outer = Outer(GIVEN_UP.replace(Some(Box::new(is_given_up))));
    work()
}

/// Fails with kind `Cancelled` if the work of this thread was given up.
pub fn check() -> Result<()> {
    let is_given_up = GIVEN_UP.with_borrow(|given_up| given_up.as_ref().is_some_and(|given_up| given_up()));
    if is_given_up { Err(Error::cancelled()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    #[test]
    fn work_is_wanted_until_it_is_given_up() {
        check().unwrap();
        let is_given_up = Rc::new(Cell::new(false));
        let seen = is_given_up.clone();
        while_wanted(
            move || seen.get(),
            || {
                check().unwrap();
                is_given_up.set(true);
                check().unwrap_err();
                while_wanted(|| false, || check().unwrap());
                check().unwrap_err();
            },
        );
        check().unwrap();
    }
}
