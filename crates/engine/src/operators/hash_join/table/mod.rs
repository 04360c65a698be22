//! A join's table in memory: its rows coming in, what is made of them, and who may have it.
//!
//! [`spec`] says what is kept of the build side's rows, [`rows`] the forms that they have on their way; [`incoming`]
//! collects them in [chunks](chunk), whose columns [`columns`] keeps, strings of few values as
//! [`codes`]; [`packing`] turns keys into codes; [`assemble`]
//! makes of all chunks what the probe side reads ([`built`], [`held`]), by [`table_work`] the [`hash_table`] that finds
//! the rows of a key; [`ranges`] finds rows between bounds. [`paid`] and [`lent`] know whose a complete table is,
//! [`filters`] what scans are told of it.

pub(super) mod assemble;
pub(super) mod built;
mod chunk;
mod codes;
mod columns;
pub(super) mod filters;
pub(super) mod finishing;
pub(super) mod hash_table;
pub(super) mod held;
pub(super) mod incoming;
pub(super) mod lent;
pub(super) mod packing;
pub(super) mod paid;
pub(super) mod ranges;
pub(super) mod rows;
mod shared_vec;
pub(super) mod spec;
mod table_work;
