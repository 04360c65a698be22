//! Functions of the rows around each row: ranks, neighbours, aggregates over frames.
//!
//! Rows come sorted: those of a partition side by side, in the partition's order. They go on in the same order, with
//! one more column per function, as soon as all functions are certain of their values:
//!
//! ```text
//!   push   where partitions and peers begin is noted                           rows.rs, starts.rs
//!          functions to the end of the partition take what they need of them   columns.rs
//!          the batch waits, in temp space if there is no memory                buffer.rs
//!   next   frames of the oldest batch are found, as far as they are certain    frames.rs, range.rs
//!          if all are: rows are read where frames begin and where they end     framed.rs
//!          functions give a value for each frame                               function.rs
//!            counts and exact sums: a difference of prefix sums                sums.rs
//!            sums of floats: blocks                                            floats.rs, blocks.rs
//!            variances, correlations, regressions: moments of blocks           moments.rs, blocks.rs
//!            least and greatest values: those that no later one beats          extremes.rs
//!            first, last, nth value, lag, lead: taken by position              picks.rs
//!            other aggregates: DataFusion's accumulators                       accumulated.rs
//!            EXCLUDE, and numbers that each row says for itself: row by row     by_row.rs
//!          ranks look only at where partitions and peers begin                 ranking.rs
//!          the batch goes on; what frames to come begin with stays            buffer.rs
//! ```
//!
//! How many rows wait depends on the functions: none for ranks, running aggregates and `lag`; as many as the frame
//! reaches ahead for frames with a bound, and `lead`; a partition where a value depends on its last row. Rows that
//! wait, and those that frames still begin with, are in one queue, which goes to temp space from its front. It has
//! three kinds of readers: one takes the rows that go on, the others are, for each kind of frame, where frames begin
//! and where they end. So what functions keep does not depend on how long frames are: two batches or so, and a value
//! for some thousand rows between. Three kinds of function have more: aggregates whose value is all rows, such as
//! `array_agg`; `nth_value` from the front or the end, which keeps n rows; and those that are found row by row, which
//! keep the frame, or the partition.
//!
//! What cannot be taken back from an aggregate (DataFusion's accumulators say so: `string_agg`, for one) is
//! accumulated anew for each frame: time in proportion to rows times frame, as its definition has it.
//!
//! Invariants:
//! * Many partitions in a batch cost no more than one: nothing is done per partition but by functions that say so.
//! * Values do not depend on how rows were cut into batches.
//! * Bytes are reserved before they are held.

mod accumulated;
mod blocks;
mod buffer;
mod by_row;
mod choice;
mod columns;
mod extremes;
mod floats;
mod framed;
mod frames;
mod function;
mod moments;
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
mod turn;

pub use source::WindowSource;
