//! What was written to temp space, joined after the probe: each partition's build rows with its probe rows.
//!
//! ```text
//!            fits                                 more of the build side          all has been met
//!   load ----------> table --> probe --> unmatched ----------> load   \------------> later --> next pair
//!     |                 ^                                                      (rows of the probe side that
//!     |                 | one key, or all levels used: a block of it            depend on all blocks)
//!     +-- does not fit -+
//!     |
//!     +-- most fits ---> overflow: the rest of both sides, as one pair more; the load goes on
//!     |
//!     +----------------> split: two more files for each partition of the next level, as pairs of their own
//! ```
//! Pairs are worked on by several packets. One whose table would not fit beside those of others waits for them, so that
//! a pair is only split when it does not fit alone.
//!
//! Invariants:
//! * A table is made of rows for which finishing is reserved as well: it is never given up half way.
//! * Whatever the order of pairs and blocks, a build row comes out once, with its pair, and a probe row without a
//!   partner once, when it has met all build rows of its pair.

mod loading;
mod overflow;
mod pair;
pub(super) mod source;
mod splitting;
mod work;
