//! Which consumer gets which row.

use std::fmt;

use super::SortKey;
use crate::expressions::Expr;

/// How an exchange routes rows from P producers to C consumers.
#[derive(Clone, Debug)]
pub enum Pact {
    /// Producer i feeds consumer i: nothing moves between packets. P = C.
    Pipeline,
    /// Whole batches, in turn.
    RoundRobin,
    /// Rows by the hash of these keys: equal keys meet at one consumer.
    Hash(Vec<Expr>),
    /// Rows by where their key lies among sampled bounds: consumer i gets keys before those of consumer i + 1.
    Range(Vec<SortKey>),
    /// Every row to every consumer.
    Broadcast,
    /// Every row to the one consumer, in no order.
    Gather,
    /// Every row to the one consumer, merged by these keys: each producer's rows are in that order already.
    Merge(Vec<SortKey>),
}

impl fmt::Display for Pact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Pact::Pipeline => "pipeline",
            Pact::RoundRobin => "round-robin",
            Pact::Hash(_) => "hash",
            Pact::Range(_) => "range",
            Pact::Broadcast => "broadcast",
            Pact::Gather => "gather",
            Pact::Merge(_) => "merge",
        })
    }
}
