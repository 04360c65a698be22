//! The block requests of external merge sorts (Wang & Cherniack 2006, sections 1.1 and 3.1, Figures 1, 2 and 4).
//!
//! Two choices make the six sorts of the paper's Table 4 and Figure 6. *When to merge*: lazily, once all runs of a
//! level are there (EMS), or eagerly, as soon as there are as many as are merged at a time (MMS). *Which runs to
//! recycle*: those of all levels, of none (`-NR`), or of the first levels only. The paper describes MMS(1) as recycling
//! "during the level0 and level1 merges"; its Table 7 says what that means: of the six times that a large table is
//! written, MMS(1) saves two and MMS(2) three. So MMS(k) recycles the runs of levels 0 to k.
//!
//! What is recycled is freed while it is merged, block by block, and a merge of such runs writes its output over what
//! was freed, first freed first taken, before it takes new blocks. What is not recycled stays until the sort ends, as
//! in the paper's `-NR` sorts, which keep all runs in one file that only grows.

use std::collections::VecDeque;
use std::ops::Range;

use diligence_base::{Error, Result};

use crate::blocks::sequence::{Block, Sequence};

/// When runs are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merging {
    /// When all runs of a level are there.
    Lazy,
    /// When as many runs of a level are there as are merged at a time.
    Eager,
}

/// A sort of the paper.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// Its name. The paper's lazy sort with recycling is Postgres' polyphase sort, PPMS.
    pub name: &'static str,
    /// When runs are merged.
    pub merging: Merging,
    /// Runs of levels below this are recycled.
    pub recycled_levels: u32,
}

/// Lazy, recycling every run.
pub const EMS: Variant = Variant { name: "EMS", merging: Merging::Lazy, recycled_levels: u32::MAX };
/// Lazy without recycling: the EMS of the paper's Figures 1 and 2.
pub const EMS_NR: Variant = Variant { name: "EMS-NR", merging: Merging::Lazy, recycled_levels: 0 };
/// Eager without recycling.
pub const MMS_NR: Variant = Variant { name: "MMS-NR", merging: Merging::Eager, recycled_levels: 0 };
/// Eager, recycling the runs of levels 0 and 1.
pub const MMS_1: Variant = Variant { name: "MMS(1)", merging: Merging::Eager, recycled_levels: 2 };
/// Eager, recycling the runs of levels 0, 1 and 2.
pub const MMS_2: Variant = Variant { name: "MMS(2)", merging: Merging::Eager, recycled_levels: 3 };
/// Eager, recycling every run.
pub const MMS: Variant = Variant { name: "MMS", merging: Merging::Eager, recycled_levels: u32::MAX };

/// The six sorts, as the paper's Table 7 orders them.
pub const VARIANTS: [Variant; 6] = [EMS, EMS_NR, MMS_NR, MMS_1, MMS_2, MMS];

/// What is sorted, and with how much memory.
#[derive(Clone, Copy, Debug)]
pub struct Sort {
    /// The size of the input.
    pub input_blocks: u32,
    /// The size of an initial run: what memory holds.
    pub run_blocks: u32,
    /// How many runs are merged at a time: at least 2.
    pub fan_in: usize,
    /// Whether the sort says of each block of its input, once it is read, that it is of no more use. The paper's do
    /// not.
    pub drops_input: bool,
}

/// The requests of a sort: the input `input` is read, runs `run-LEVEL.NUMBER` are written and merged, the last run is
/// read in order and all of them are deleted. An input error if the memory or the fan-in is too small to sort.
pub fn requests(sort: Sort, variant: Variant, block_bytes: u64) -> Result<Sequence> {
    if sort.run_blocks == 0 || sort.fan_in < 2 {
        return Err(Error::input("a sort needs memory for at least one block and merges at least two runs at a time"));
    }
    let mut sequence = Sequence::new(block_bytes);
    let input = sequence.file("input");
    let mut sorter = Sorter { sequence, sort, variant, levels: Vec::new(), made: Vec::new(), free: VecDeque::new() };
    for first in (0..sort.input_blocks).step_by(sort.run_blocks as usize) {
        let last = sort.input_blocks.min(first + sort.run_blocks);
        sorter.initial_run(input, first..last)?;
        if variant.merging == Merging::Eager {
            sorter.merge_full_levels()?;
        }
    }
    sorter.finish()
}

/// A sorted run.
#[derive(Clone, Copy)]
struct Run {
    file: u32,
    blocks: u32,
    /// 0 for an initial run, else one more than the level of the runs that were merged for it.
    level: u32,
}

struct Sorter {
    sequence: Sequence,
    sort: Sort,
    variant: Variant,
    /// The runs that are not merged yet, by level.
    levels: Vec<Vec<Run>>,
    /// How many runs there were of each level.
    made: Vec<u32>,
    /// Freed blocks whose places wait for a new block.
    free: VecDeque<Block>,
}

impl Sorter {
    /// Fills the memory with input, sorts it and writes it.
    fn initial_run(&mut self, input: u32, blocks: Range<u32>) -> Result<()> {
        let run = self.new_run(blocks.len() as u32, 0);
        for number in blocks {
            self.sequence.read(input, number)?;
            if self.sort.drops_input {
                self.sequence.free(input, number)?;
            }
        }
        for number in 0..run.blocks {
            self.sequence.write(run.file, number)?;
        }
        self.add(0, run);
        Ok(())
    }

    /// Figure 4, *MultiLevelMerge*: merges level by level up to one that is not full.
    fn merge_full_levels(&mut self) -> Result<()> {
        let mut level = 0;
        while self.levels[level].len() == self.sort.fan_in {
            let runs = std::mem::take(&mut self.levels[level]);
            self.merge(level, &runs)?;
            level += 1;
        }
        Ok(())
    }

    /// Merges what is left level by level until there is one run, reads it and deletes everything.
    fn finish(mut self) -> Result<Sequence> {
        let mut level = 0;
        while self.levels.iter().map(Vec::len).sum::<usize>() > 1 {
            let runs = std::mem::take(&mut self.levels[level]);
            for together in runs.chunks(self.sort.fan_in) {
                match together {
                    // A run that is left alone moves up as it is: to copy it would sort nothing.
                    [run] => self.add(level + 1, *run),
                    runs => self.merge(level, runs)?,
                }
            }
            level += 1;
        }
        if let Some(run) = self.levels.iter().flatten().next().copied() {
            for number in 0..run.blocks {
                self.sequence.read(run.file, number)?;
            }
        }
        for file in 1..self.sequence.file_count() as u32 {
            self.sequence.free_file(file);
        }
        Ok(self.sequence)
    }

    /// Merges the runs into one of the next level.
    ///
    /// The keys of all runs are spread alike, so that the merge takes from every run in proportion to its length: when
    /// `t` of `n` output blocks are done, the fraction t/n of every run is consumed. A block is read when its first
    /// record is needed and, if its run is recycled, freed when its last one is taken. So in the paper's Figure 2 both
    /// runs of one block are half consumed when E1 is written, and free when E2 is.
    fn merge(&mut self, level: usize, runs: &[Run]) -> Result<()> {
        let total: u32 = runs.iter().map(|run| run.blocks).sum();
        let output = self.new_run(total, level as u32 + 1);
        let recycles = (level as u32) < self.variant.recycled_levels;
        let mut read = vec![0u32; runs.len()];
        let mut consumed = vec![0u32; runs.len()];
        for number in 0..total {
            let share = |run: &Run| u64::from(number + 1) * u64::from(run.blocks);
            for (run, read) in runs.iter().zip(&mut read) {
                while u64::from(*read) * u64::from(total) < share(run) {
                    self.sequence.read(run.file, *read)?;
                    *read += 1;
                }
            }
            for (run, consumed) in runs.iter().zip(&mut consumed) {
                while run.level < self.variant.recycled_levels
                    && u64::from(*consumed + 1) * u64::from(total) <= share(run)
                {
                    self.sequence.free(run.file, *consumed)?;
                    self.free.push_back(Block { file: run.file, number: *consumed });
                    *consumed += 1;
                }
            }
            match if recycles { self.free.pop_front() } else { None } {
                Some(old) => self.sequence.write_over(output.file, number, old)?,
                None => self.sequence.write(output.file, number)?,
            }
        }
        self.add(level + 1, output);
        Ok(())
    }

    fn new_run(&mut self, blocks: u32, level: u32) -> Run {
        let index = level as usize;
        if self.made.len() <= index {
            self.made.resize(index + 1, 0);
        }
        let file = self.sequence.file(&format!("run-{level}.{}", self.made[index]));
        self.made[index] += 1;
        Run { file, blocks, level }
    }

    fn add(&mut self, level: usize, run: Run) {
        if self.levels.len() <= level {
            self.levels.resize_with(level + 1, Vec::new);
        }
        self.levels[level].push(run);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::blocks::sequence::Request;

    /// Every variant reads the input once, writes and reads it once per level, whatever the number of runs, and ends
    /// with everything freed; those that recycle everything keep about one copy of the input.
    #[test]
    fn every_variant_reads_what_it_writes() -> Result<()> {
        for input_blocks in [0, 1, 3, 4, 5, 35, 36, 37, 200] {
            for variant in VARIANTS {
                let sort = Sort { input_blocks, run_blocks: 4, fan_in: 3, drops_input: false };
                let sequence = requests(sort, variant, 1)?;
                let (mut reads, mut writes, mut live) = (0u32, 0u32, HashSet::new());
                let (mut places, mut places_max) = (0usize, 0usize);
                for request in sequence.requests() {
                    match *request {
                        Request::Read(_) => reads += 1,
                        Request::Write { block, over } => {
                            writes += 1;
                            live.insert(block);
                            places += usize::from(over.is_none());
                            places_max = places_max.max(places);
                        }
                        Request::Free(block) => assert!(live.remove(&block), "{}", variant.name),
                    }
                }
                assert!(live.is_empty(), "{}", variant.name);
                assert_eq!(reads, writes + input_blocks, "{} of {input_blocks}", variant.name);
                if variant.recycled_levels == u32::MAX {
                    assert!(places_max <= input_blocks as usize + 3 * 3, "{} keeps {places_max} places", variant.name);
                } else if variant.recycled_levels == 0 {
                    assert_eq!(places_max, writes as usize);
                }
            }
        }
        Ok(())
    }

    #[test]
    fn too_little_memory_is_refused() {
        for (run_blocks, fan_in) in [(0, 2), (1, 1)] {
            assert!(requests(Sort { input_blocks: 1, run_blocks, fan_in, drops_input: false }, MMS, 1).is_err());
        }
    }
}
