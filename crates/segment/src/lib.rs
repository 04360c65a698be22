//! Columns packed into chunks, and read from them: the codecs of segments.
//!
//! The life of a column's rows:
//! 1. [`encode`] looks at the values of one column of one cluster, chooses a codec by what they are, and gives bytes.
//!    Somebody else writes them, with a checksum.
//! 2. When they have been read again, [`Chunk::open`] finds the parts of the bytes. Nothing is decoded but what says
//!    where values lie.
//! 3. [`Chunk::read`] gives the values of some rows as an array, of all or of selected ones, in the type's narrow form
//!    if that is welcome. Values lie in vectors of 1,024: only those are decoded that have a wanted row.
//! 4. Or it is asked of the values where they are packed: which rows are in some ranges ([`Chunk::are_within`]), and
//!    which have some of the values that are stored once for several rows ([`Chunk::values`], [`Chunk::are_among`]).
//!
//! Rooms, each imports only those before it: `damage`, `bits`, `distinct`, `integers`, `comparing`, `decimals`,
//! `symbols`, `views`, `texts`, `chunk`, `values`.
//!
//! Invariants: what comes out is what went in, to the bit, NULLs included; damaged bytes give an error or other values,
//! never a panic and never a text that is not UTF-8 (whoever reads a chunk holds it against its checksum first). This
//! crate knows no file, no query and no thread.

mod bits;
mod chunk;
mod comparing;
mod damage;
mod decimals;
mod distinct;
mod integers;
mod symbols;
#[cfg(test)]
mod tests;
mod texts;
mod values;
mod views;

pub use chunk::{Chunk, encode};
pub use damage::Damaged;
pub use distinct::distinct;
