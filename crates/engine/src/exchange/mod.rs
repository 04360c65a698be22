//! The exchange: the only place where rows change hands between pipelines (Volcano's exchange; Gamma's split tables).
//!
//! Movement is a value: a [`Pact`](crate::plan::Pact) says which consumer gets which row, and [`Exchange::new`] returns
//! the matched ends: a sink for the producing pipeline, a source for the consuming one. What is between them are
//! [`port`]s, bounded by credits: a producer that is ahead waits for its consumer, in no thread.
//!
//! Invariant: an exchange neither loses nor invents a row, and with one packet on each side it changes nothing.

mod in_order;
mod merge;
pub mod port;
mod route;

pub use in_order::InOrder;
pub use merge::Merger;
pub use route::Exchange;
