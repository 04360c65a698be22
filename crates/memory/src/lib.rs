//! Memory: one budget per process, an account per query, a reservation per operator.
//!
//! ```text
//!   Broker (budget) --grant--> Account of a query --reservation--> operator
//!      |                          ^     ^
//!      |--ask the largest---------+     |--wait at the next batch, until memory is back
//! ```
//!
//! A reservation is taken *before* bytes are held. When the budget is short:
//!
//! * A *revocable* reservation (rows that may go to temp space) is refused, and its operator spills what it holds. If
//!   its query has less than its fair share of the budget, the query that has the most is asked to give back instead.
//! * What is reserved for a state *at rest* (complete, with no packet that works on it) is given back by a packet that
//!   has the state go to temp space ([`Reclaim`]).
//! * A *firm* one (what an operator needs to go on) makes the broker ask whoever holds the most that can be given back.
//!   It is granted out of a small slack above the budget, and its query's packets wait before their next batch until
//!   memory is back. Where several packets use up the slack within one batch, twice as much may be taken while somebody
//!   gives back.
//! * What is *spare*, because no query needs it (retained states), is dropped at once by whoever is short, before any
//!   of this.
//! * If nobody has anything to give back, a query's firm one may still have what is left of the first half of the
//!   slack, and a little one all of it. If other queries hold memory, which they give back when they end, each may have
//!   twice as much of the slack. Then it is refused with an error of kind `Resource`, which ends its query.
//!
//! A query is *admitted* when its grant, the bytes that it is sure of, is free; until then it waits in a queue. An
//! eighth of the budget is never granted. One that goes ahead without a grant, and is started again where it is refused
//! memory, has no more of the slack than can be given back, but for a little: so of many that do not fit together, most
//! come to stand in the queue.
//!
//! Invariants:
//! * Every byte counted in a broker belongs to exactly one live [`Reservation`], or to the unused part of a query's
//!   grant; dropping it gives them back.
//! * What is reserved is never more than the budget and the slack, but for what was overdrawn: because it was held
//!   already, for one row that cannot be divided, or for the buffers with which more is given back.
//! * A packet of a query that is asked to give back never waits for memory: so whoever waits, waits for one that runs.

mod broker;
mod machine;

pub use broker::{Broker, Giving, HolderInfo, MORE_MEMORY_HINT, OUT_OF_MEMORY, QueryMemory, Reclaim, Reservation};
pub use machine::default_budget_bytes;
