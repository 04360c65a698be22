//! Atomics: on a thread that a driver owns, whoever touches one lets others go first.
//!
//! A driver sees every access in one order, so an `Ordering` that is too weak stays hidden from it.

use std::ops::{Deref, DerefMut};

pub use std::sync::atomic::Ordering;

use super::driver::driver;

/// An atomic of the standard library; every access to it goes through `deref`.
#[derive(Debug, Default)]
pub struct Atomic<A>(A);

impl<A> Deref for Atomic<A> {
    type Target = A;

    #[inline]
    fn deref(&self) -> &A {
        if let Some(driver) = driver() {
            driver.step();
        }
        &self.0
    }
}

impl<A> DerefMut for Atomic<A> {
    #[inline]
    fn deref_mut(&mut self) -> &mut A {
        &mut self.0
    }
}

macro_rules! atomic {
    ($($name:ident: $value:ty),*) => {$(
        #[doc = concat!("The standard library's `", stringify!($name), "`.")]
        pub type $name = Atomic<std::sync::atomic::$name>;

        impl Atomic<std::sync::atomic::$name> {
            /// An atomic of this value.
            #[inline]
            pub const fn new(value: $value) -> Self {
                Self(std::sync::atomic::$name::new(value))
            }

            /// The value.
            #[inline]
            pub fn into_inner(self) -> $value {
                self.0.into_inner()
            }
        }
    )*};
}

atomic!(AtomicBool: bool, AtomicU8: u8, AtomicU64: u64, AtomicUsize: usize);
