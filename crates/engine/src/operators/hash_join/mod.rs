//! Joins: on equal keys, by one hash table, built by all packets of the build side together and read by all of the
//! probe side.
//!
//! ```text
//!   build packets --chunks--> parts: table, columns, runtime filters --> probe packets --picks--> output
//!                                                                    \--> unmatched rows, after the probe
//! ```
//!
//! The *left* input is the build side. [`config`] says what a join is, [`output`] knows the join types. [`build`] is
//! the sink, which makes the [`table`], and [`probe`] the operator; what their packets share is in [`shared`].
//!
//! That is all as long as the build side fits. When a reservation is refused, the join becomes a *hybrid* one (DeWitt
//! et al., *Implementation Techniques for Main Memory Database Systems*, SIGMOD 1984; for Gamma, see section 9 of its
//! evaluation):
//! ```text
//!   build rows --hash--> partitions in memory  --> table     <-- probe rows of these
//!                   \--> partitions on disk                       \--> partitions on disk, of the others
//!                               \______________ pairs, after the probe ______________/
//! ```
//! [`spill`] has the files; [`build`] decides what stays (dynamic destaging: the largest partition goes whenever memory
//! is short); [`pairs`] joins what was written, by the same means. A pair that does not fit is split into pairs of the
//! next level; where most of it fits, only the rest is written again (Gamma's own way, Simple hash join). A table that
//! is complete goes as well, if somebody else needs the memory ([`at_rest`]), unless several queries have it
//! ([`table_share`]).
//!
//! Invariants:
//! * Output columns are picks of the probe batch and of contiguous build arrays: no value is copied here.
//! * Packets share nothing that they write to on the way, except single bits of matched rows, where the join type asks.
//! * A hash table is made of parts by the upper bits of the hash, each on its own; partitions are told by other bits of
//!   it.
//! * Whatever is in temp space, and whenever it went there: the same rows come out, each once.

mod at_rest;
mod build;
mod config;
mod output;
mod pairs;
mod probe;
mod shared;
mod spill;
mod table;
mod table_share;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion_common::{JoinType, NullEquality};
use diligence_base::{Error, Result};

use self::at_rest::TableAtRest;
use self::build::Build;
use self::config::Config;
use self::output::PairJoin;
use self::pairs::source::Pairs;
use self::probe::Probe;
use self::probe::unmatched::Unmatched;
use self::shared::Shared;
#[cfg(test)]
use self::spill::counts::Spilled;
use self::table::spec::Wanted;
pub(crate) use self::table_share::{Begin, TableShare};
use crate::flow::{Operator, Sink, Source};
use crate::operators::runtime_filter::RuntimeFilter;
use crate::plan;
use crate::reuse::tables::TableSharing;

/// The three places of a join in the pipelines.
pub struct JoinParts {
    /// Where the left input's pipeline ends.
    pub build: Arc<dyn Sink>,
    /// What happens to the right input's batches.
    pub probe: Arc<dyn Operator>,
    /// What comes out after all probe packets have finished, one after another, each with its name: build rows without
    /// a partner, and all that has to do with rows in temp space.
    pub after_probe: Vec<(Arc<dyn Source>, &'static str)>,
    /// The table, as something that can give memory back.
    at_rest: Arc<TableAtRest>,
    filters: Vec<(Arc<RuntimeFilter>, usize)>,
}

impl JoinParts {
    /// How its table is shared with joins of the same build side; `None` if it is not.
    pub(crate) fn share(&self, join: &plan::HashJoin, sharing: &TableSharing) -> Option<TableShare> {
        let TableAtRest { config, shared } = &*self.at_rest;
        let table = &config.table;
        let keeps = (&table.stored, table.null_equal, table.null_aware, table.keeps_unmatchable, &shared.filter_keys);
        let request = sharing.request(join, &keeps)?;
        Some(TableShare::new(request, config.clone(), shared.clone(), self.filters.clone()))
    }

    /// What it has spilled.
    #[cfg(test)]
    fn spilled(&self) -> Spilled {
        self.at_rest.shared.counts.get()
    }
}

/// Makes a join ready to run once. Each filter is filled from the build side's key at its position in `join.on`.
pub fn hash_join(
    join: &plan::HashJoin,
    output_schema: &SchemaRef,
    filters: &[(Arc<RuntimeFilter>, usize)],
) -> Result<JoinParts> {
    if join.on.is_empty() {
        return Err(Error::bug("a hash join has no keys"));
    }
    if join.null_aware && (join.join_type != JoinType::LeftAnti || join.on.len() != 1) {
        return Err(Error::unsupported("NOT IN over several columns, or outside of a WHERE, cannot be run as a join"));
    }
    let mut wanted = Wanted::default();
    let pairs = PairJoin::new(
        join.join_type,
        &join.left.schema,
        &join.right.schema,
        join.filter.as_ref(),
        join.projection.as_deref(),
        output_schema,
        &mut wanted,
    )?;
    let null_equal = join.null_equality == NullEquality::NullEqualsNull;
    let config = Config::new("HashJoin", join.on.clone(), pairs, wanted, null_equal, join.null_aware)?;
    Ok(parts(config.with_mirror(join, output_schema)?, filters))
}

/// The same for a join that may have a condition, but has no keys: each row of the one side meets each of the other, as
/// far as the condition does not [bound](table::ranges) what it meets.
pub fn nested_loop_join(join: &plan::NestedLoopJoin, output_schema: &SchemaRef) -> Result<JoinParts> {
    let mut wanted = Wanted::default();
    let pairs = PairJoin::new(
        join.join_type,
        &join.left.schema,
        &join.right.schema,
        join.filter.as_ref(),
        join.projection.as_deref(),
        output_schema,
        &mut wanted,
    )?;
    let ranges = join.filter.as_ref().and_then(|filter| pairs.ranges(&filter.schema));
    let config = Config::new("NestedLoopJoin", vec![], pairs, wanted, false, false)?;
    Ok(parts(config.with_ranges(ranges), &[]))
}

fn parts(config: Config, filters: &[(Arc<RuntimeFilter>, usize)]) -> JoinParts {
    let config = Arc::new(config);
    let mut filter_keys: Vec<usize> = filters.iter().map(|(_, key)| *key).collect();
    filter_keys.sort_unstable();
    filter_keys.dedup();
    let shared = Arc::new(Shared::new(filter_keys));
    let mut after_probe: Vec<(Arc<dyn Source>, &'static str)> = vec![];
    if config.table.marks_rows {
        let unmatched = Unmatched {
            name: config.table.name,
            pairs: config.pairs.clone(),
            published: shared.published.clone(),
            null_aware: config.table.null_aware && !config.pairs.has_residual(),
        };
        after_probe.push((Arc::new(unmatched), "Unmatched rows"));
    }
    after_probe.push((Arc::new(Pairs::new(config.clone(), shared.clone())), "Spilled pairs"));
    let at_rest = Arc::new(TableAtRest { config: config.clone(), shared: shared.clone() });
    JoinParts {
        build: Arc::new(Build::new(at_rest.clone(), filters.to_vec())),
        probe: Arc::new(Probe { config, shared }),
        after_probe,
        at_rest,
        filters: filters.to_vec(),
    }
}
