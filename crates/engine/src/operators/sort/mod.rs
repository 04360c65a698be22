//! Orders rows; with a bound on the rows wanted, finds the first ones without ordering the rest.
//!
//! ```text
//!   packets        push   keys become codes; about 64 Ki rows at a time become a run:           run_builder.rs
//!                         entries (code, row number) are sorted, then the payload is copied in that order
//!                  or     only rows below the threshold are kept: top-N                         top_rows.rs
//!   finishing      parts  samples of the runs cut the order into ranges                         merge.rs
//!                  part   one range of all runs is merged into a list of picks (run, row)
//!   one packet     pull   the next picks of the list are gathered into a batch                  source.rs, sorted.rs
//! ```
//!
//! When memory is short:
//!
//! ```text
//!   packets        push   the runs that a packet holds become one on the disk             run_builder.rs, merge_job.rs
//!                         and several on the disk one, if there are too many              plan/sort_plan
//!   packets        pull   while there are still too many, runs are merged; then           merge_source.rs, external.rs
//!                         range after range is merged, and its rows are gathered          front.rs
//!   one packet     pull   the rows of the ranges come in their order                      source.rs
//!   another        asked  runs in memory that are merged become one on the disk           leaving.rs
//! ```
//!
//! A run holds its keys and its payload apart, both in order. On the disk (run_file.rs) it is a file of batches, each
//! of which is a run again: so merging what was read is merging runs in memory.
//!
//! Of rows that several queries want, each in the same order, [`FirstOfEach`] says which may be among the first ones of
//! a query.
//!
//! Rows with equal keys come in any order. How runs are cut depends on how packets shared the work, so which order they
//! come in, and which of them a top-N keeps, may differ from run to run of the same query.
//!
//! Invariants:
//! * All runs of one sort have keys of one form, whatever physical form the batches had.
//! * Bytes are reserved before they are held, by the packet that holds them; finished runs take their reservation
//!   along.

mod bound;
mod disk;
mod encoding;
mod external;
mod first_of_each;
mod front;
mod gather;
mod keys;
mod leaving;
mod merge;
mod merge_job;
mod merge_source;
mod rows_before;
mod run_builder;
mod run_file;
mod shared;
mod sink;
mod sorted;
mod source;
#[cfg(test)]
mod tests;
mod top_rows;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use diligence_base::Result;
use diligence_disk::TempSpace;

use crate::batch::Batch;
use crate::flow::{Sink, Source};
use crate::plan::{SortKey, SortPlan};
pub(crate) use bound::{BoundedColumn, FirstRowsBound};
pub(crate) use first_of_each::FirstOfEach;
use keys::SortedKeys;
use merge_source::{MergeSource, Nowhere};
use shared::SharedSort;
use sink::SortSink;
use source::SortSource;

/// A sort in two pipelines, and one beside the second for rows on the disk.
pub struct SortParts {
    /// Takes the rows; where the first pipeline ends.
    pub sink: Arc<dyn Sink>,
    /// Merges what is on the disk, on many packets, after the sink is complete; has no packets if nothing is there.
    pub merge: Option<MergeParts>,
    /// Gives the rows in order, to one packet, after the sink is complete; where the next pipeline begins.
    pub source: Arc<dyn Source>,
    /// Which rows may be among the first, if few are wanted.
    pub(crate) bound: Option<Arc<FirstRowsBound>>,
}

/// Where a sort puts what does not fit in memory.
#[derive(Clone, Debug)]
pub struct SpillTo {
    /// Temp space.
    pub space: TempSpace,
    /// Which runs are merged when.
    pub plan: SortPlan,
}

/// Orders rows of `schema` by `keys`, and keeps the first `fetch` if given. Fails if a key's type has no order.
///
/// Without keys rows come in any order. Without `spill_to`, running out of memory is an error.
pub fn sort(
    keys: &[SortKey],
    fetch: Option<usize>,
    schema: &SchemaRef,
    spill_to: Option<&SpillTo>,
) -> Result<SortParts> {
    sort_with(keys, fetch, schema, spill_to, Sizes::default())
}

fn sort_with(
    keys: &[SortKey],
    fetch: Option<usize>,
    schema: &SchemaRef,
    spill_to: Option<&SpillTo>,
    sizes: Sizes,
) -> Result<SortParts> {
    let shared = Arc::new(SharedSort::new(keys, fetch, schema, spill_to, sizes)?);
    Ok(SortParts {
        sink: Arc::new(SortSink::new(shared.clone())),
        merge: spill_to
            .map(|_| MergeParts { source: Arc::new(MergeSource::new(shared.clone())), sink: Arc::new(Nowhere) }),
        bound: shared.bound.clone(),
        source: Arc::new(SortSource::new(shared)),
    })
}

/// A pipeline that hands its rows to another one itself.
pub struct MergeParts {
    /// Where the work is done.
    pub source: Arc<dyn Source>,
    /// Where nothing arrives.
    pub sink: Arc<dyn Sink>,
}

/// How the work is cut.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    /// Rows in a run, about. 64 Ki entries of 16 bytes fit a core's second-level cache and are sorted in a quantum or
    /// two.
    run_rows: usize,
    /// Bytes in a run, about: wide rows make shorter runs, so that their payload is put in order in the cache.
    run_bytes: usize,
    /// Rows in a range of the merge, about: a few milliseconds of work.
    range_rows: usize,
    /// Ranges of a merge at most. Above this many rows ranges grow, because each costs a search in every run.
    ranges_max: usize,
    /// The most rows that are wanted for which top-N is used. Above, it would hold and throw away as many rows as a
    /// sort orders, in steps that are longer than a quantum.
    top_rows_max: usize,
    /// The most rows that are wanted for which top-N trusts that they fit in memory, and reserves nothing for writing
    /// them to the disk before they turn out to be long. There may be a thousand small top-Ns at once.
    top_rows_few: usize,
    /// Rows that top-N holds beyond twice the rows wanted, before it throws away.
    top_slack_rows: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            run_rows: 64 * 1024,
            run_bytes: 8 * 1024 * 1024,
            range_rows: 64 * 1024,
            ranges_max: 4096,
            top_rows_max: 128 * 1024,
            top_rows_few: 1024,
            top_slack_rows: 256,
        }
    }
}

/// Rows in order: keys and payload of the same rows.
struct Run {
    keys: SortedKeys,
    payload: Batch,
}

impl Run {
    /// Bytes that it holds, and those of its places in a merge.
    fn bytes(&self) -> Result<usize> {
        Ok(self.keys.bytes() + gather::held_bytes(&self.payload)? + self.keys.len() * size_of::<gather::Pick>())
    }
}
