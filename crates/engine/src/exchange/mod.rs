//! The exchange: the only place where rows change hands between pipelines (Volcano's exchange; Gamma's split tables).
//!
//! Movement is a value: a [`Pact`] says which consumer gets which row.

mod pact;

pub use pact::Pact;
