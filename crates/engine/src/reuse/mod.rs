//! What queries have made and others can have: decoded [columns], [hash tables](tables) of joins, and
//! [rows](retained) of whole results or groups.
//!
//! Whoever makes a thing leaves it here under what stands for it (a [signature](crate::matching::signature), a column
//! of a cluster), and whoever wants the same finds it. Which queries run for whom is decided elsewhere
//! ([`crate::sharing`]).
//!
//! Invariants:
//! * Only what is complete is found, and nobody writes to it.
//! * What no query reads is spare: it is dropped before a query waits, spills or fails.

pub(crate) mod columns;
mod info;
mod lendable;
pub(crate) mod retained;
mod rows;
pub(crate) mod tables;

pub use info::{BuildInfo, SharingInfo};
pub(crate) use rows::SharedRows;
