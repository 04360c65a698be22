//! Queries: start, run, cancel, profile, result.

mod info;
mod kept_rows;
#[cfg(test)]
mod pause_tests;
mod run;
pub(crate) mod shared;
mod shown;
#[cfg(test)]
mod spill_tests;
mod stream;
mod tables;
#[cfg(test)]
pub(crate) mod tests;
mod work;

pub use info::{QueryInfo, QueryState, Waits};
pub use kept_rows::KeptRows;
pub use run::{Printed, QueryRun};
pub(crate) use stream::Inline;
pub use stream::{CancelToken, Progress, QueryStream};
pub(crate) use work::catch;
