//! Joins on equal keys: one hash table, built by all packets of the build side together and read by all of the probe side.
//!
//! ```text
//!   build packets --chunks--> parts: table, columns, runtime filters --> probe packets --picks--> output
//!                                                                    \--> unmatched rows, after the probe
//! ```
//!
//! The *left* input is the build side. [`keys`] turns keys into words and hashes and [`packing`] words into codes;
//! [`incoming`] collects the build side's rows and [`columns`] keeps them; [`table`] finds the rows of a key and [`table_work`] makes it; [`build`] and
//! [`probe`] are the sink and the operator; [`emit`] knows the join types.
//!
//! Invariants:
//! * Output columns are picks of the probe batch and of contiguous build arrays: no value is copied here.
//! * Packets share nothing that they write to on the way, except single bits of matched rows, where the join type asks.
//! * A hash table is made of partitions by the upper bits of the hash, each on its own: that is where a variant that spills
//!   would cut.

mod build;
mod columns;
pub(super) mod cross_pairs;
pub(super) mod emit;
pub(super) mod incoming;
pub(super) mod keys;
mod packing;
mod probe;
mod shared_vec;
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
use diligence_base::{Error, Result};

use crate::expressions::Expr;
use crate::operators::runtime_filter::RuntimeFilter;
use crate::pipeline::{Operator, Sink, Source};
use crate::plan;
use crate::sync::Mutex;

pub(super) use columns::Assembly;
pub(super) use table::Table;
pub(super) use unmatched::Unmatched;

use emit::{PairJoin, Published, StoredSource, Wanted, marks_held};
use keys::KeyKind;

/// The three places of a join in the pipelines.
pub struct JoinParts {
    /// Where the left input's pipeline ends.
    pub build: Arc<dyn Sink>,
    /// What happens to the right input's batches.
    pub probe: Arc<dyn Operator>,
    /// Build rows that come out after all probe packets have finished.
    pub unmatched: Option<Arc<dyn Source>>,
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
    let key_columns = key_columns.collect();
    let pairs = Arc::new(pairs);
    let null_aware_plain = join.null_aware && !pairs.has_residual();
    let config = Arc::new(Config {
        keys,
        key_columns,
        null_equal: join.null_equality == NullEquality::NullEqualsNull,
        null_aware: join.null_aware,
        keeps_unmatchable: marks_held(join.join_type) && join.join_type != JoinType::LeftSemi,
        stored: wanted.columns,
        pairs: pairs.clone(),
    });
    let shared = Arc::new(Shared::default());
    let unmatched = marks_held(join.join_type).then(|| {
        let published = shared.published.clone();
        Arc::new(Unmatched { name: "HashJoinUnmatched", pairs, published, null_aware: null_aware_plain }) as _
    });
    Ok(JoinParts {
        build: Arc::new(build::Build::new(config.clone(), shared.clone(), filters.to_vec())),
        probe: Arc::new(probe::Probe { config, shared }),
        unmatched,
    })
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
    keys: Vec<Key>,
    /// Where the byte strings of each key are kept, for those that have no words.
    key_columns: Vec<Option<usize>>,
    null_equal: bool,
    null_aware: bool,
    /// Whether build rows that cannot match may come out.
    keeps_unmatchable: bool,
    stored: Vec<(StoredSource, DataType)>,
    pairs: Arc<PairJoin>,
}

/// What the packets of a join share.
#[derive(Default)]
struct Shared {
    collected: Mutex<incoming::Collected<build::Chunk>>,
    published: Arc<Published>,
    lookup: OnceLock<Arc<Lookup>>,
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
