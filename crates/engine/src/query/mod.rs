//! Queries: start, run, cancel, profile, result.

mod info;
mod kept_rows;
#[cfg(test)]
mod pause_tests;
mod run;
#[cfg(test)]
mod spill_tests;
mod stream;
#[cfg(test)]
pub(crate) mod tests;

pub use info::{QueryInfo, QueryState, Waits};
pub use kept_rows::KeptRows;
pub use run::{Printed, QueryRun};
pub(crate) use run::{catch, shared};
pub(crate) use stream::Inline;
pub use stream::{CancelToken, Progress, QueryStream};
