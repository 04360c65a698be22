//! Joins: on equal keys, by one hash table, built by all packets of the build side together and read by all of the
//! probe side.
//!
//! ```text
//!   build packets --chunks--> parts: table, columns, runtime filters --> probe packets --picks--> output
//!                                                                    \--> unmatched rows, after the probe
//! ```
//!
//! The *left* input is the build side. [`keys`] turns keys into words and hashes and [`packing`] words into codes;
//! [`incoming`] collects the build side's rows and [`columns`] keeps them; [`table`] finds the rows of a key and
//! [`table_work`] makes it; [`build`] and
//! [`probe`] are the sink and the operator; [`emit`] knows the join types.
//!
//! That is all as long as the build side fits. When a reservation is refused, the join becomes a *hybrid* one (DeWitt
//! et al., *Implementation Techniques for Main Memory Database Systems*, SIGMOD 1984; for Gamma, see section 9 of its
//! evaluation):
//! ```text
//!   build rows --hash--> partitions in memory  --> table     <-- probe rows of these
//!                   \--> partitions on disk                       \--> partitions on disk, of the others
//!                               \______________ pairs, after the probe ______________/
//! ```
//! [`shared_table`] is how a table is had by several queries at once.
//!
//! [`partitions`] has the files; [`build`] decides what stays (dynamic destaging: the largest partition goes whenever
//! memory is short);
//! [`pairs`] joins what was written, by the same means. [`rows`] knows how build rows look on disk; [`dump`] writes a
//! table that is complete already. A pair that does not fit is split into pairs of the next level; where most of it
//! fits, only the rest is written again ([`overflow`]: Gamma's own way, Simple hash join).
//!
//! Invariants:
//! * Output columns are picks of the probe batch and of contiguous build arrays: no value is copied here.
//! * Packets share nothing that they write to on the way, except single bits of matched rows, where the join type asks.
//! * A hash table is made of parts by the upper bits of the hash, each on its own; partitions are told by other bits of
//!   it.
//! * Whatever is in temp space, and whenever it went there: the same rows come out, each once.

mod assemble;
mod at_rest;
mod build;
mod columns;
mod cross_pairs;
mod dump;
mod emit;
mod held;
mod incoming;
pub(super) mod keys;
mod loading;
mod mirror;
mod overflow;
mod packing;
mod pair;
mod pairs;
mod partitions;
mod probe;
mod resident;
mod rows;
mod shared_table;
mod shared_vec;
mod spill_counts;
mod spilled_filters;
mod splitting;
mod table;
mod table_work;
#[cfg(test)]
mod tests;
mod unmatched;

use std::sync::{Arc, OnceLock};

use arrow::array::BinaryViewArray;
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion_common::{JoinType, NullEquality};
use diligence_base::limits::TEMP_WRITES_MAX;
use diligence_base::{Error, Result};

use crate::expressions::Expr;
use crate::flow::{Operator, Sink, Source};
use crate::memory::Reservation;
use crate::operators::runtime_filter::RuntimeFilter;
use crate::plan;
use crate::reuse::tables::{Lendable, Offer, TableSharing};
use crate::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
};
use crate::temp::{SpillBuffers, SpillMemory, TempSpace};

pub(crate) use shared_table::{Begin, TableShare};
pub(super) use table::Table;
use unmatched::Unmatched;

use at_rest::{AtRest, TableAtRest};
use emit::{PairJoin, StoredSource, Wanted, marks_held};
use held::{Held, Published};
use keys::KeyKind;
use partitions::{Partitions, fan_out};
use resident::Resident;
use shared_table::FilterContent;
use spill_counts::SpillCounts;
#[cfg(test)]
use spill_counts::Spilled;
use spilled_filters::SpilledFilters;

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
        let keeps =
            (&config.stored, config.null_equal, config.null_aware, config.keeps_unmatchable, &shared.filter_keys);
        let wish = sharing.wish(join, &keeps)?;
        Some(TableShare::new(wish, config.clone(), shared.clone(), self.filters.clone()))
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
    let keys = join.on.iter().map(|(build, probe)| Key::new(build, probe)).collect::<Result<Vec<_>>>()?;
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
    let config = Config::new("HashJoin", keys, pairs, wanted, null_equal, join.null_aware);
    let mirrored = config.mirrored(join, output_schema)?.map(Arc::new);
    Ok(parts(Config { mirrored, ..config }, filters))
}

/// The same for a join that may have a condition, but has no keys: each row of the one side meets each of the other.
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
    Ok(parts(Config::new("NestedLoopJoin", vec![], pairs, wanted, false, false), &[]))
}

fn parts(config: Config, filters: &[(Arc<RuntimeFilter>, usize)]) -> JoinParts {
    let config = Arc::new(config);
    let mut filter_keys: Vec<usize> = filters.iter().map(|(_, key)| *key).collect();
    filter_keys.sort_unstable();
    filter_keys.dedup();
    let shared = Arc::new(Shared { filter_keys, ..Shared::default() });
    let mut after_probe: Vec<(Arc<dyn Source>, &'static str)> = vec![];
    if marks_held(config.pairs.join_type) {
        let unmatched = Unmatched {
            name: config.name,
            pairs: config.pairs.clone(),
            published: shared.published.clone(),
            null_aware: config.null_aware && !config.pairs.has_residual(),
        };
        after_probe.push((Arc::new(unmatched), "Unmatched rows"));
    }
    after_probe.push((Arc::new(pairs::Pairs::new(config.clone(), shared.clone())), "Spilled pairs"));
    let at_rest = Arc::new(TableAtRest { config: config.clone(), shared: shared.clone() });
    JoinParts {
        build: Arc::new(build::Build::new(at_rest.clone(), filters.to_vec())),
        probe: Arc::new(probe::Probe { config, shared }),
        after_probe,
        at_rest,
        filters: filters.to_vec(),
    }
}

/// A pair of keys.
struct Key {
    kind: KeyKind,
    build: Expr,
    probe: Expr,
}

impl Key {
    fn new(build: &Expr, probe: &Expr) -> Result<Self> {
        fn values(logical: &DataType) -> &DataType {
            match logical {
                DataType::Dictionary(_, values) => values,
                other => other,
            }
        }
        if values(build.data_type()) != values(probe.data_type()) {
            let types = format!("{} and {}", build.data_type(), probe.data_type());
            return Err(Error::bug(format!("a join's keys have different types: {types}")));
        }
        Ok(Self { kind: KeyKind::of(build.data_type())?, build: build.clone(), probe: probe.clone() })
    }
}

/// What a join is, as all its packets see it.
struct Config {
    /// As who it reserves memory.
    name: &'static str,
    /// None in a nested-loop join.
    keys: Vec<Key>,
    /// Where the byte strings of each key are kept, for those that have no words.
    key_columns: Vec<Option<usize>>,
    null_equal: bool,
    null_aware: bool,
    /// Whether build rows that cannot match may come out.
    keeps_unmatchable: bool,
    stored: Vec<(StoredSource, DataType)>,
    pairs: Arc<PairJoin>,
    /// The join with its sides exchanged, for pairs in temp space.
    mirrored: Option<Arc<Config>>,
    /// In such a one, the columns of spilled build rows that the keys are in.
    probes_spilled: Option<Vec<usize>>,
}

impl Config {
    fn new(
        name: &'static str,
        keys: Vec<Key>,
        pairs: PairJoin,
        mut wanted: Wanted,
        null_equal: bool,
        null_aware: bool,
    ) -> Self {
        // Where hashes are compared, byte strings must be at hand to compare them in turn.
        let key_columns = keys.iter().enumerate().map(|(index, key)| match key.kind {
            KeyKind::Word => None,
            KeyKind::Bytes => Some(match (key.build.as_column(), key.build.data_type()) {
                (Some(column), logical @ (DataType::Utf8View | DataType::BinaryView)) => {
                    wanted.keep(StoredSource::Input(column), logical)
                }
                _ => wanted.keep(StoredSource::Key(index), &DataType::BinaryView),
            }),
            KeyKind::Rows(..) => Some(wanted.keep(StoredSource::Key(index), &DataType::BinaryView)),
        });
        Self {
            name,
            key_columns: key_columns.collect(),
            keys,
            null_equal,
            null_aware,
            keeps_unmatchable: marks_held(pairs.join_type) && pairs.join_type != JoinType::LeftSemi,
            stored: wanted.columns,
            pairs: Arc::new(pairs),
            mirrored: None,
            probes_spilled: None,
        }
    }

    /// Whether rows can be told apart by their keys. Not without keys, nor in a null-aware join with a condition: there
    /// a NULL meets all rows.
    fn can_partition(&self) -> bool {
        !(self.keys.is_empty() || self.null_aware && self.pairs.has_residual())
    }

    /// Whether nothing can come out any more because a key of the probe side of `NOT IN` was NULL.
    fn is_void(&self, shared: &Shared) -> bool {
        self.null_aware && !self.pairs.has_residual() && shared.published.seen.null.load(Ordering::Relaxed)
    }
}

/// Clusters that a join reserves when it starts: two to read with, two to write with. With them it can do everything.
const CLUSTERS_MIN: usize = 4;

const BUFFERS: SpillMemory =
    SpillMemory { clusters_min: CLUSTERS_MIN, clusters_max: usize::MAX, writes_max: TEMP_WRITES_MAX };

/// What the packets of a join share.
#[derive(Default)]
struct Shared {
    gathered: Mutex<build::Gathered>,
    published: Arc<Published>,
    at_rest: Mutex<AtRest>,
    /// The complete table as other queries may have it, as long as it is in memory.
    offered: Mutex<Option<(Offer, Arc<dyn Lendable>)>>,
    /// The complete table is on its way to temp space, or there: for packets that look before each batch.
    is_leaving: AtomicBool,
    /// The buffers of spill files, with what the join needs at least; `None` while there is no memory for them, or
    /// somebody has them.
    buffers: Mutex<Option<SpillBuffers>>,
    /// Where to spill, until it is known that nothing is; and a reservation for buffers that are made only then.
    temp: Mutex<Option<(TempSpace, Reservation)>>,
    /// Set when the join does not fit.
    partitions: OnceLock<Arc<Partitions>>,
    /// Those of the build side that are in memory, while it comes in.
    resident: OnceLock<Resident>,
    /// The filters of a build side that does not fit, and the keys that they are wanted of.
    filters: OnceLock<SpilledFilters>,
    filter_keys: Vec<usize>,
    counts: Arc<SpillCounts>,
    /// Packets that may own a spill file, numbered.
    owners: AtomicU64,
}

impl Shared {
    fn next_owner(&self) -> u64 {
        self.owners.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether rows can go to temp space.
    fn can_spill(&self) -> bool {
        self.temp.lock().is_some()
    }

    /// The buffers of spill files, which are made now if there was no memory for them before. `None` if there is far
    /// too little, and will be.
    fn buffers(&self) -> Option<SpillBuffers> {
        let mut buffers = self.buffers.lock();
        if buffers.is_none() {
            let (space, mut reservation) =
                self.temp.lock().as_ref().map(|(space, none)| (space.clone(), none.sibling()))?;
            if reservation.grow_to_spill(CLUSTERS_MIN * space.cluster_bytes()).is_err() {
                self.temp.lock().take();
                return None;
            }
            *buffers = SpillBuffers::new(&space, reservation, BUFFERS).ok();
        }
        buffers.clone()
    }

    /// Nothing is spilled, nor will be.
    fn end_spilling(&self) {
        self.buffers.lock().take();
        self.temp.lock().take();
    }

    /// From now on rows are partitioned; `memory_bytes` is about what the join may have, `filters` the keys of which
    /// filters are made, while the build side comes in. `None` without temp space.
    fn partition(&self, config: &Config, memory_bytes: usize, filters: Option<&[usize]>) -> Option<&Arc<Partitions>> {
        let buffers = self.buffers()?;
        if let Some(filters) = filters.filter(|_| !config.keys.is_empty()) {
            // A scan that knows the only key has asked it of every row, unless NULL has to pass there.
            let has_hashes = filters.len() != 1 || config.keys.len() != 1 || config.null_equal;
            let new = || SpilledFilters::new(filters, has_hashes, memory_bytes, buffers.sibling());
            self.filters.get_or_init(new);
        }
        Some(self.partitions.get_or_init(|| {
            let partitions = match config.can_partition() {
                true => fan_out(memory_bytes, buffers.space().cluster_bytes()),
                false => 1,
            };
            Arc::new(Partitions::new(0, partitions, memory_bytes, buffers, &self.counts))
        }))
    }
}

/// A complete build side, or what of it is in memory.
struct Built {
    /// Before what pays for it, also when it goes.
    lookup: Arc<Lookup>,
    /// What it says to scans of the probe side, by key.
    filters: Vec<(usize, FilterContent)>,
    held: Arc<Held>,
}

/// How probe rows find build rows.
struct Lookup {
    /// `None` if no build row can match.
    table: Option<Arc<Table>>,
    /// Values to compare where the table only compares hashes; otherwise empty.
    values: Vec<KeyValues>,
    /// Build rows with a NULL key, where a null-aware join has a condition on pairs.
    null_rows: Arc<[u32]>,
}

/// The build side's values of one key, row by row.
enum KeyValues {
    Words(Vec<u64>, Option<NullBuffer>),
    Bytes(BinaryViewArray),
}
