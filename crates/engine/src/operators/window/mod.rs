//! Functions of the rows around each row: ranks, neighbours, aggregates over frames.
//!
//! Rows come sorted: those of a partition side by side, in the partition's order. They go on in the same order, with one more
//! column per function, as soon as all functions are certain of their values:
//!
//! ```text
//!   push   where partitions and peers begin is noted                           rows.rs, starts.rs
//!          arguments are evaluated, functions take what they need of them      columns.rs, and kept.rs behind a FILTER
//!          the batch waits, in temp space if there is no memory                buffer.rs
//!   next   frames of the oldest batch are found, as far as they are certain    frames.rs, range.rs
//!          if all are: functions that look back, or to the end of the
//!          partition, take what they need of its rows                          columns.rs
//!          functions give a value for each frame                               function.rs
//!            counts and exact sums: a difference of prefix sums                sums.rs
//!            sums of floats: blocks                                            floats.rs
//!            least and greatest values: those that no later one beats          extremes.rs
//!            first, last, nth value, lag, lead: taken by position              picks.rs
//!            other aggregates: DataFusion's accumulators                       accumulated.rs
//!          ranks look only at where partitions and peers begin                 ranking.rs
//!          other window functions: a partition at once                         evaluated.rs
//!          the batch goes on
//! ```
//!
//! How many rows wait depends on the functions: none for ranks, running aggregates and `lag`; as many as the frame reaches ahead
//! for frames with a bound, and `lead`; a partition where a value depends on its last row. What functions keep of rows does
//! not depend on the size of a partition while frames are bounded, or begin with the partition. Nor does it where they end with it, but
//! for sums of floats, aggregates of DataFusion, and values from the frame's front; an exact sum then takes its rows a second time,
//! when they go on. What is kept of rows in between is in memory: if it does not fit, the query ends with an error.
//!
//! Invariants:
//! * Many partitions in a batch cost no more than one: nothing is done per partition but by functions that say so.
//! * Values do not depend on how rows were cut into batches.
//! * Bytes are reserved before they are held.

mod accumulated;
mod buffer;
mod columns;
mod evaluated;
mod extremes;
mod floats;
mod frames;
mod function;
mod kept;
mod picks;
mod pieces;
mod range;
mod ranking;
mod rows;
mod source;
mod starts;
mod sums;
#[cfg(test)]
mod tests;

pub use source::WindowSource;
