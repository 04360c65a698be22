//! The rows of one partition of both sides in temp space.

use crate::operators::hash_join::config::Config;
use crate::operators::hash_join::output::needs_held_rows;
use crate::operators::hash_join::spill::partitions::{Partitions, Side};
use crate::plan::estimates::HASH_ROW_BYTES_MAKING;
use crate::temp::BatchFile;

/// How often rows are partitioned at most. With four partitions each time a thousandth of a side is left; what does not
/// fit then is one key, or as good as that.
pub(super) const LEVELS_MAX: u32 = if cfg!(test) { 3 } else { 6 };

/// The share of a side, in percent, above which a partition of it is taken for one that cannot be split.
const HEAVY_PERCENT: u64 = 80;

/// A partition in temp space.
pub(super) struct Pair {
    pub build: Option<BatchFile>,
    pub probe: Option<BatchFile>,
    /// How often its rows were partitioned.
    pub level: u32,
    pub can_split: bool,
}

impl Pair {
    /// The pairs that partitions have written, of a build side of so many rows.
    pub fn all(partitions: &Partitions, build_rows: u64, can_split: bool) -> Vec<Self> {
        let level = partitions.level + 1;
        let pair = |partition| {
            let [build, probe] = [Side::Build, Side::Probe].map(|side| partitions.finish(side, partition));
            let can_split = can_split && !is_heavy(&build, build_rows) && level < LEVELS_MAX;
            Pair { build, probe, level, can_split }
        };
        let pairs = (0..partitions.len()).map(pair);
        pairs.filter(|pair| pair.build.is_some() || pair.probe.is_some()).collect()
    }

    /// Whether a row can come out.
    pub fn matters(&self, config: &Config) -> bool {
        let join_type = config.pairs.join_type;
        match (&self.build, &self.probe) {
            (None, _) => !needs_held_rows(join_type),
            (Some(_), None) => config.table.marks_rows,
            _ => true,
        }
    }

    /// Bytes of its table while that is made, about.
    pub fn table_bytes(&self) -> usize {
        table_bytes(&self.build)
    }

    /// The same for a table of the probe side, if that is smaller.
    pub fn reversed_bytes(&self) -> Option<usize> {
        let bytes = table_bytes(&self.probe);
        (self.build.is_some() && self.probe.is_some() && bytes < self.table_bytes()).then_some(bytes)
    }
}

/// Whether a partition has nearly all rows of a build side.
pub(super) fn is_heavy(build: &Option<BatchFile>, build_rows: u64) -> bool {
    rows_of(build) * 100 > build_rows * HEAVY_PERCENT
}

pub(super) fn rows_of(file: &Option<BatchFile>) -> u64 {
    file.as_ref().map_or(0, BatchFile::rows)
}

fn table_bytes(file: &Option<BatchFile>) -> usize {
    let bytes = |file: &BatchFile| 2 * file.unpacked_bytes() as usize + HASH_ROW_BYTES_MAKING * file.rows() as usize;
    file.as_ref().map_or(0, bytes)
}
