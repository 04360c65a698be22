//! The ground floor: what every room needs and none owns.
//!
//! * [`duration`]: lengths of time as settings write them.
//! * [`error`]: one error type, its kinds named after what the caller does next.
//! * [`function_limits`]: what a function in another language may take.
//! * [`ids`]: newtypes for everything that is counted.
//! * [`limits`]: every bound of the engine with its unit and its reason.
//! * [`panics`]: panics that are expected, as errors.
//! * [`recent`]: so many values at most, the latest that were used.
//! * [`seams`]: the clock, randomness, threads and files, so that a test can replace them.
//! * [`sync`]: locks, atomics and parking, so that a test can choose the schedule.
//! * [`units`]: numbers with their units, for people.
//! * [`waits`]: whether a thread has waited.
//! * [`wanted`]: whether the work of a thread is still wanted.
//!
//! Invariant: nothing here knows SQL, Arrow or another crate of the project.

pub mod duration;
pub mod error;
pub mod function_limits;
pub mod ids;
pub mod limits;
pub mod panics;
pub mod recent;
pub mod seams;
pub mod sync;
pub mod units;
pub mod waits;
pub mod wanted;

pub use error::{About, Error, ErrorKind, Result, Span};
