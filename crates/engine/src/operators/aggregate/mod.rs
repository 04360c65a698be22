//! Groups and aggregates.
//!
//! The life of a row: a packet evaluates the group columns and the arguments of a batch ([`program`]), turns the group
//! columns into key words ([`key_encoding`]), finds the number of each row's group in its own table ([`key_table`], or
//! [`direct`] for few values), and adds the arguments to vectors of states by these numbers ([`states`]). A full table
//! is sorted by hash partition and cut into chunks, one for each piece of the partitions ([`group_table`], [`local`]).
//! When all packets are done, partitions are merged independently of each other ([`sink`]), and packets of the next
//! pipeline read them ([`finished`], [`source`]).
//!
//! Where memory is short, pieces of the partitions go to temp space, the largest first; the others stay, and both are
//! brought together in the end ([`spill`]). Groups that are complete and that nobody has read yet go there, too, when
//! somebody else needs their memory.
//!
//! This is Gamma's local and global aggregation (DeWitt et al., "A Performance Analysis of the Gamma Database Machine",
//! 1988, section 7) with the partitions of a hybrid hash join for the global phase.
//!
//! Not here: sorting for order-sensitive aggregates. Their input comes sorted, in one packet, or their DataFusion
//! accumulators carry the order in their states.
//!
//! Invariants:
//! * The answer does not depend on the number of packets, on flushes or on physical forms; sums of floats aside, whose
//!   additions are associated differently.
//! * A flushed chunk is a set of groups with partial states in the order of their partitions; nothing else is known
//!   about it. It shares no memory with others, so that a piece is free when its chunks are written.

mod arena;
mod direct;
mod finished;
mod group_table;
mod groups;
mod key_decoding;
mod key_encoding;
mod key_layout;
mod key_table;
mod local;
mod output;
mod program;
mod shared;
mod short_strings;
mod sink;
mod source;
mod spill;
mod states;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use diligence_base::Result;

use crate::flow::{Sink, Source};
use crate::plan;
use groups::Tuning;
use program::Program;
use shared::SharedAggregate;
use sink::AggregateSink;
use source::AggregateSource;
pub(super) use states::sum::overflow as sum_overflow;

/// The two ends of an aggregate: the sink of one pipeline and the source of the next.
pub struct AggregateParts {
    /// Takes the input's rows.
    pub sink: Arc<dyn Sink>,
    /// Gives the groups once the sink is complete, in the planned output's columns and no order.
    pub source: Arc<dyn Source>,
}

/// Compiles an aggregate for one run.
///
/// Fails with kind `Unsupported` if a group column's type has no equality, with what DataFusion says if an accumulator
/// cannot be made.
pub fn aggregate(
    plan: &plan::Aggregate,
    input_schema: &SchemaRef,
    output_schema: &SchemaRef,
) -> Result<AggregateParts> {
    build(plan, input_schema, output_schema, Tuning::default())
}

fn build(plan: &plan::Aggregate, input: &SchemaRef, output: &SchemaRef, tuning: Tuning) -> Result<AggregateParts> {
    let program = Arc::new(Program::new(plan, input, output)?);
    // Accumulators are made here once, so that what DataFusion cannot do is said before anything runs.
    program.states()?;
    let shared = Arc::new(SharedAggregate::new(program, tuning));
    Ok(AggregateParts { sink: Arc::new(AggregateSink(shared.clone())), source: Arc::new(AggregateSource::new(shared)) })
}
