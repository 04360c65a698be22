//! The second face of locks, atomics and parking, for unit tests.
//!
//! On a thread of the system everything is as in the engine. On a thread of shuttle, each operation first takes its
//! turn: a lock has a twin that shuttle knows and that is held along with the real one, an atomic access is preceded by
//! a scheduling point, and parking is shuttle's.

use std::ops::{Deref, DerefMut};
use std::sync::{PoisonError, TryLockError};

use tokio::runtime::{EnterGuard, Handle};

/// True on a thread that shuttle drives.
fn is_driven() -> bool {
    shuttle::current::try_get_current_task().is_some()
}

/// As the engine's, except on a thread that shuttle drives: all of them are one thread of the system, which cannot be
/// in and out of a runtime in any order. Nothing that is tested there looks for a runtime.
pub fn enter(runtime: &Handle) -> Option<EnterGuard<'_>> {
    (!is_driven()).then(|| runtime.enter())
}

/// A lock with parking_lot's manners: no poison.
#[derive(Debug, Default)]
pub struct Mutex<T> {
    value: parking_lot::Mutex<T>,
    turn: shuttle::sync::Mutex<()>,
}

pub struct MutexGuard<'a, T> {
    // Fields are dropped in this order: whoever gets the turn next finds the value free.
    value: Option<parking_lot::MutexGuard<'a, T>>,
    turn: Option<shuttle::sync::MutexGuard<'a, ()>>,
    mutex: &'a Mutex<T>,
}

impl<T> Mutex<T> {
    pub fn new(value: T) -> Self {
        Self { value: parking_lot::Mutex::new(value), turn: shuttle::sync::Mutex::new(()) }
    }

    pub fn lock(&self) -> MutexGuard<'_, T> {
        let turn = is_driven().then(|| self.turn.lock().unwrap_or_else(PoisonError::into_inner));
        MutexGuard { value: Some(self.value.lock()), turn, mutex: self }
    }

    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let turn = match is_driven().then(|| self.turn.try_lock()) {
            None => None,
            Some(Ok(turn)) => Some(turn),
            Some(Err(TryLockError::Poisoned(poisoned))) => Some(poisoned.into_inner()),
            Some(Err(TryLockError::WouldBlock)) => return None,
        };
        Some(MutexGuard { value: Some(self.value.try_lock()?), turn, mutex: self })
    }

    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("the value is given up only while its holder waits")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("the value is given up only while its holder waits")
    }
}

/// A condition variable.
#[derive(Debug)]
pub struct Condvar {
    real: parking_lot::Condvar,
    driven: shuttle::sync::Condvar,
}

impl Condvar {
    pub fn new() -> Self {
        Self { real: parking_lot::Condvar::new(), driven: shuttle::sync::Condvar::new() }
    }

    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        match guard.turn.take() {
            Some(turn) => {
                guard.value = None;
                guard.turn = Some(self.driven.wait(turn).unwrap_or_else(PoisonError::into_inner));
                guard.value = Some(guard.mutex.value.lock());
            }
            None => self.real.wait(guard.value.as_mut().expect("a waiting thread held the lock")),
        }
    }

    pub fn notify_one(&self) {
        if is_driven() {
            self.driven.notify_one();
        } else {
            self.real.notify_one();
        }
    }

    pub fn notify_all(&self) {
        if is_driven() {
            self.driven.notify_all();
        } else {
            self.real.notify_all();
        }
    }
}

pub mod atomic {
    //! Atomics: whoever touches one lets others go first.

    use std::ops::{Deref, DerefMut};
    use std::time::Duration;

    pub use std::sync::atomic::Ordering;

    /// An atomic of the standard library; every access to it goes through `deref`.
    #[derive(Debug, Default)]
    pub struct Atomic<A>(A);

    impl<A> Deref for Atomic<A> {
        type Target = A;

        fn deref(&self) -> &A {
            if super::is_driven() {
                // Shuttle has no time: this is a scheduling point and nothing else.
                shuttle::thread::sleep(Duration::ZERO);
            }
            &self.0
        }
    }

    impl<A> DerefMut for Atomic<A> {
        fn deref_mut(&mut self) -> &mut A {
            &mut self.0
        }
    }

    macro_rules! atomic {
        ($($name:ident: $value:ty),*) => {$(
            pub type $name = Atomic<std::sync::atomic::$name>;

            impl Atomic<std::sync::atomic::$name> {
                pub const fn new(value: $value) -> Self {
                    Self(std::sync::atomic::$name::new(value))
                }

                #[allow(dead_code, reason = "not every type is taken apart")]
                pub fn into_inner(self) -> $value {
                    self.0.into_inner()
                }
            }
        )*};
    }

    atomic!(AtomicBool: bool, AtomicU8: u8, AtomicU64: u64, AtomicUsize: usize);
}

pub mod thread {
    //! Threads: who am I, park and unpark.

    use std::time::Duration;

    use super::is_driven;

    pub enum Thread {
        System(std::thread::Thread),
        Driven(shuttle::thread::Thread),
    }

    impl Thread {
        pub fn unpark(&self) {
            match self {
                Thread::System(thread) => thread.unpark(),
                Thread::Driven(thread) => thread.unpark(),
            }
        }
    }

    pub fn current() -> Thread {
        if is_driven() { Thread::Driven(shuttle::thread::current()) } else { Thread::System(std::thread::current()) }
    }

    pub fn yield_now() {
        if is_driven() { shuttle::thread::yield_now() } else { std::thread::yield_now() }
    }

    pub fn park() {
        if is_driven() { shuttle::thread::park() } else { std::thread::park() }
    }

    pub fn park_timeout(timeout: Duration) {
        if is_driven() { shuttle::thread::park_timeout(timeout) } else { std::thread::park_timeout(timeout) }
    }
}
