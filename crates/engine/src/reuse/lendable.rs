//! What a hash table must do so that other queries may read it.

use std::any::Any;

use diligence_memory::QueryMemory;

/// A complete table as it is lent. What is in it is known to the operator that made it, and to those like it.
pub(crate) trait Lendable: Any + Send + Sync {
    /// Bytes that it is counted with.
    fn bytes(&self) -> usize;
    /// Nanoseconds of work in which it was built.
    fn cost_ns(&self) -> u64;
    /// Whether it is on its way to temp space.
    fn is_leaving(&self) -> bool;
    /// Has another account count it, if it has at most so many bytes: from now on it stays in memory as long as anybody
    /// reads it.
    fn lend(&self, memory: &QueryMemory, operator: &'static str, bytes_max: usize) -> Lent;
}

/// Whether a table is lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lent {
    /// Not: it is on its way to temp space, or too large.
    No,
    /// From now on.
    Now,
    /// It was already.
    Before,
}
