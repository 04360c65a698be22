//! Declustering: which fragment of its table a row belongs to, and in which order the rows of a fragment lie on disk.
//!
//! The strategies are those of Gamma (DeWitt et al., "A Performance Analysis of the Gamma Database Machine", 1988,
//! section 2.2): round robin, hashed, and ranges, whose bounds are given or make fragments of equal size.
//!
//! A table declares a [`Distribution`]; a [`Placement`] is one made ready for the table's columns. The fragment of a
//! row follows from its values and its number alone, so a log that is replayed gives each row its fragment again.
//!
//! Invariant: a row whose key is NULL is in the first fragment, if fragments have keys.

mod bounds;
mod hashes;
mod placement;
mod strategy;
#[cfg(test)]
mod tests;
mod values;

pub use placement::{FragmentRows, Placement};
pub use strategy::{Distribution, Strategy};
pub use values::texts_of;

/// Fragments of a table at most.
pub const FRAGMENTS_MAX: u16 = 64;
/// Fragments of a table that is declared without a number.
pub const FRAGMENTS_DEFAULT: u16 = 8;
