//! The paper's experiments (Wang & Cherniack 2006, section 4), simulated: the six sorts over the tables of Table 5
//! (Tables 6 and 7), and HHJ against SHJ over those of Table 8 (Tables 9 and 10).
//!
//! What the paper does not say is chosen so that its own request counts come out, see [`RUN_KIB`] and [`FAN_IN`]; the
//! rest follows its section 4: 1 MB of memory for each operator, 1 GB of RAM, dirty pages flushed beyond 30 % of it.
//! Records of joins fall into partitions at random, from a fixed seed.

use diligence_base::Result;

use crate::blocks::cache::{Cache, Counts, Replay};
use crate::blocks::disk::{Allocation, Placed, mean_region_blocks};
use crate::blocks::join::{self, Method, Relation};
use crate::blocks::sequence::Sequence;
use crate::blocks::sort::{self, Sort, Variant};

/// The size of a block in KiB: a page of Postgres.
pub const BLOCK_KIB: u32 = 8;
/// Blocks in a MiB.
pub const MIB_BLOCKS: u32 = 1024 / BLOCK_KIB;
/// How many runs are merged at a time. With 6, the write requests of Table 7 (five times the table when it is small or
/// medium-1, six times when it is larger) are those of initial runs between 0.57 and 0.94 MB.
pub const FAN_IN: usize = 6;
/// The size of an initial run in KiB.
pub const RUN_KIB: u32 = 768;
/// Memory of a join, |M|, in blocks.
pub const MEMORY_BLOCKS: u32 = MIB_BLOCKS;
/// Records in a block of a join's inputs and partitions: a row of Supplier or Partsupp takes about 200 bytes.
const RECORDS_PER_BLOCK: usize = 40;

/// A table of the sort experiments: the paper's Tables 5 to 7.
pub struct SortTable {
    /// The paper's name of it.
    pub name: &'static str,
    /// Its size in MB.
    pub megabytes: f64,
    /// Actual reads in percent of the requests, Table 6: PPMS, PPMS-NR, MMS-NR and MMS.
    pub read_percent: [f64; 4],
    /// Actual writes in percent of the requests, Table 7, in the order of [`sort::VARIANTS`].
    pub write_percent: [f64; 6],
}

/// The tables of the sort experiments.
pub const SORT_TABLES: [SortTable; 6] = [
    SortTable {
        name: "Small-1",
        megabytes: 438.7,
        read_percent: [16.7, 62.7, 41.3, 16.5],
        write_percent: [4.1, 90.0, 92.2, 52.3, 22.4, 24.0],
    },
    SortTable {
        name: "Small-2",
        megabytes: 492.3,
        read_percent: [18.5, 72.5, 41.3, 16.4],
        write_percent: [47.2, 66.0, 91.0, 51.2, 25.8, 24.5],
    },
    SortTable {
        name: "Medium-1",
        megabytes: 731.3,
        read_percent: [27.0, 88.4, 46.9, 15.2],
        write_percent: [77.6, 100.0, 100.0, 56.6, 33.4, 27.1],
    },
    SortTable {
        name: "Medium-2",
        megabytes: 1224.8,
        read_percent: [63.0, 92.2, 57.7, 36.4],
        write_percent: [100.0, 100.0, 100.0, 66.8, 50.2, 46.9],
    },
    SortTable {
        name: "Large-1",
        megabytes: 1902.0,
        read_percent: [100.0, 100.0, 56.9, 40.2],
        write_percent: [100.0, 100.0, 100.0, 66.5, 50.2, 46.1],
    },
    SortTable {
        name: "Large-2",
        megabytes: 2448.5,
        read_percent: [100.0, 100.0, 59.3, 44.1],
        write_percent: [100.0, 99.0, 100.0, 66.8, 50.9, 50.3],
    },
];

impl SortTable {
    /// The paper's percentage of actual reads for a sort, where it has one: not for MMS(1) and MMS(2).
    pub fn paper_read_percent(&self, variant: &Variant) -> Option<f64> {
        let place = [sort::EMS, sort::EMS_NR, sort::MMS_NR, sort::MMS].iter().position(|of| of.name == variant.name)?;
        Some(self.read_percent[place])
    }
}

/// What a simulated operator cost.
pub struct SimulationOutcome {
    /// The replay.
    pub counts: Counts,
    /// Blocks in a contiguous region of its temporary files, on average.
    pub region_blocks: f64,
}

/// Sorts a table of the given size, as [`Sort::drops_input`] says.
pub fn sort(
    megabytes: f64,
    variant: Variant,
    drops_input: bool,
    cache: Cache,
    group_blocks: u32,
) -> Result<SimulationOutcome> {
    let input_blocks = (megabytes * f64::from(MIB_BLOCKS)).round() as u32;
    let sort = Sort { input_blocks, run_blocks: RUN_KIB / BLOCK_KIB, fan_in: FAN_IN, drops_input };
    let sequence = sort::requests(sort, variant, u64::from(BLOCK_KIB) << 10)?;
    replay(&sequence, cache, group_blocks, &["input"])
}

/// A pair of tables of the join experiments: the paper's Tables 8 to 10.
pub struct JoinTables {
    /// The paper's name of them.
    pub name: &'static str,
    /// The sizes of Supplier, which is built with, and Partsupp, in MB.
    pub megabytes: (u32, u32),
    /// Table 9: actual I/Os and their mean size in KB, of HHJ and SHJ.
    pub transfers: Option<[(u64, f64); 2]>,
    /// Table 10: blocks in a contiguous region, of HHJ and SHJ.
    pub region_blocks: Option<[u32; 2]>,
}

/// The tables of the join experiments.
pub const JOIN_TABLES: [JoinTables; 6] = [
    JoinTables {
        name: "Small-1",
        megabytes: (4, 292),
        transfers: Some([(7130, 57.7), (5061, 60.3)]),
        region_blocks: Some([8, 48]),
    },
    JoinTables { name: "Small-2", megabytes: (6, 439), transfers: None, region_blocks: None },
    JoinTables {
        name: "Medium-1",
        megabytes: (12, 877),
        transfers: Some([(44_376, 42.3), (37_654, 49.9)]),
        region_blocks: Some([8, 18]),
    },
    JoinTables { name: "Medium-2", megabytes: (18, 1316), transfers: None, region_blocks: None },
    JoinTables {
        name: "Large-1",
        megabytes: (26, 1902),
        transfers: Some([(179_683, 32.0), (172_835, 33.5)]),
        region_blocks: Some([8, 8]),
    },
    JoinTables { name: "Large-2", megabytes: (28, 2048), transfers: None, region_blocks: None },
];

/// The partitions of a join of these tables.
pub fn partitions(tables: &JoinTables) -> Result<u32> {
    join::partition_count(tables.megabytes.0 * MIB_BLOCKS, MEMORY_BLOCKS)
}

/// Joins a pair of tables.
pub fn join(tables: &JoinTables, method: Method, cache: Cache, group_blocks: u32) -> Result<SimulationOutcome> {
    let count = partitions(tables)?;
    let mut random = MmixRandom(1);
    let mut records = |megabytes: u32| -> Vec<u32> {
        let records = (megabytes * MIB_BLOCKS) as usize * RECORDS_PER_BLOCK;
        (0..records).map(|_| random.below(count)).collect()
    };
    let (supplier, partsupp) = (records(tables.megabytes.0), records(tables.megabytes.1));
    let relation = |name, partitions| Relation { name, partitions, records_per_block: RECORDS_PER_BLOCK };
    let (build, probe) = (relation("supplier", supplier.as_slice()), relation("partsupp", partsupp.as_slice()));
    let sequence = join::requests(&build, &probe, method, count, MEMORY_BLOCKS, u64::from(BLOCK_KIB) << 10)?;
    replay(&sequence, cache, group_blocks, &["supplier", "partsupp"])
}

fn replay(sequence: &Sequence, cache: Cache, group_blocks: u32, inputs: &[&str]) -> Result<SimulationOutcome> {
    let placed = Placed::new(sequence, Allocation::Groups(group_blocks))?;
    let temporary = (0..sequence.file_count() as u32).filter(|file| !inputs.contains(&sequence.name(*file)));
    let region_blocks = mean_region_blocks(&placed, temporary);
    Ok(SimulationOutcome { counts: Replay::new(&placed, cache).run(), region_blocks })
}

/// A linear congruential generator (Knuth's MMIX): the same partitions in every run, whatever the version of a library.
struct MmixRandom(u64);

impl MmixRandom {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (((self.0 >> 32) * u64::from(limit)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::cache::{Replacement, ratio};

    /// Table 7 for Large-1, everything a sixteenth of its size: the writes that recycling saves, within a percentage
    /// point of the paper's where a whole number of levels is saved.
    #[test]
    fn recycling_saves_the_writes_of_the_first_levels() -> Result<()> {
        let scale = 16;
        let input_blocks = 1902 * MIB_BLOCKS / scale;
        let run_blocks = RUN_KIB / BLOCK_KIB / scale;
        let sort = Sort { input_blocks, run_blocks, fan_in: FAN_IN, drops_input: false };
        let cache = Cache {
            dirty_max: 300 * MIB_BLOCKS / scale,
            ..Cache::flushing_on_eviction(800 * MIB_BLOCKS / scale, Replacement::Lru)
        };
        let written = |variant| -> Result<f64> {
            let counts = replay(&sort::requests(sort, variant, 1)?, cache, 8, &["input"])?.counts;
            assert_eq!(counts.write_requests, 6 * u64::from(input_blocks));
            Ok(100.0 * ratio(counts.blocks_out, counts.write_requests))
        };
        for (variant, paper) in [(sort::MMS_NR, 100.0), (sort::MMS_1, 66.5), (sort::MMS_2, 50.2)] {
            let percent = written(variant)?;
            assert!((percent - paper).abs() < 1.0, "{}: {percent} % written, {paper} % in the paper", variant.name);
        }
        assert!(written(sort::MMS)? < written(sort::MMS_2)?);
        assert!(written(sort::EMS)? > 99.0);
        Ok(())
    }

    /// Table 6 for Medium-1, a sixteenth of its size: a table that fits the cache is read once, if its own input does
    /// not push its runs out.
    #[test]
    fn dropping_the_input_keeps_the_runs_cached() -> Result<()> {
        let scale = 16;
        let read = |drops_input| -> Result<u64> {
            let (input_blocks, run_blocks) = (731 * MIB_BLOCKS / scale, RUN_KIB / BLOCK_KIB / scale);
            let sort = Sort { input_blocks, run_blocks, fan_in: FAN_IN, drops_input };
            let cache = Cache::flushing_on_eviction(800 * MIB_BLOCKS / scale, Replacement::Lru);
            let counts = replay(&sort::requests(sort, sort::MMS, 1)?, cache, 8, &["input"])?.counts;
            Ok(counts.blocks_in - u64::from(input_blocks))
        };
        assert_eq!(read(true)?, 0);
        assert!(read(false)? > 0);
        Ok(())
    }

    /// Table 10: HHJ's regions are the file system's groups; SHJ's are as long as the formula says, and at least a
    /// group.
    #[test]
    fn regions_follow_formula_2() -> Result<()> {
        for tables in &JOIN_TABLES {
            let count = partitions(tables)?;
            let mut random = MmixRandom(1);
            let records = (tables.megabytes.0 * MIB_BLOCKS) as usize * RECORDS_PER_BLOCK;
            let partitions: Vec<u32> = (0..records).map(|_| random.below(count)).collect();
            let relation = Relation { name: "r", partitions: &partitions, records_per_block: RECORDS_PER_BLOCK };
            let region_blocks = |method| -> Result<f64> {
                let mut sequence = Sequence::new(1);
                join::partition(&mut sequence, &relation, method, count, MEMORY_BLOCKS)?;
                let cache = Cache::flushing_on_eviction(1, Replacement::Lru);
                Ok(replay(&sequence, cache, 8, &["r"])?.region_blocks)
            };
            let hybrid = region_blocks(Method::Hybrid)?;
            assert!((7.5..=8.5).contains(&hybrid), "{}: {hybrid}", tables.name);
            let sorted = region_blocks(Method::Sorted)?;
            let formula = join::blocks_together(MEMORY_BLOCKS, count);
            assert!((0.75..1.35).contains(&(sorted / formula.max(8.0))), "{}: {sorted}, {formula}", tables.name);
        }
        Ok(())
    }
}
