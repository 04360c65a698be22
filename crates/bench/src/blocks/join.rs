//! The block requests of partitioned hash joins: Hybrid Hash Join and Sort-Hash Join (Wang & Cherniack 2006, section
//! 3.2, Figure 5).
//!
//! Both cut the two inputs into the same number of partitions and then join partition by partition. HHJ keeps partition
//! 0 in memory and writes a block of another partition when its output buffer is full. SHJ writes every partition, but
//! sorts records by partition first, with replacement selection in the memory that the output buffers leave: so it
//! writes several blocks of one file one after the other.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use diligence_base::{Error, Result};

use crate::blocks::sequence::Sequence;

/// How the inputs are partitioned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Hybrid Hash Join.
    Hybrid,
    /// Sort-Hash Join.
    Sorted,
}

impl Method {
    /// Both methods.
    pub const ALL: [Self; 2] = [Self::Hybrid, Self::Sorted];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hybrid => "HHJ",
            Self::Sorted => "SHJ",
        }
    }
}

/// The number of partitions, formula (1) with a fudge factor of 1: ⌈(|R| − |M|) / (|M| − 1)⌉ + 1. `build_blocks` is
/// |R|, `memory_blocks` is |M|; 1 if the build side fits. An input error if there are not at least two blocks of
/// memory, or more partitions than blocks.
pub fn partition_count(build_blocks: u32, memory_blocks: u32) -> Result<u32> {
    if memory_blocks < 2 {
        return Err(Error::input("a hash join needs at least two blocks of memory"));
    }
    let partitions = build_blocks.saturating_sub(memory_blocks).div_ceil(memory_blocks - 1) + 1;
    if partitions >= memory_blocks {
        return Err(Error::input(format!(
            "{memory_blocks} blocks of memory cannot buffer the {partitions} partitions of a build side of {build_blocks}"
        )));
    }
    Ok(partitions)
}

/// How many blocks of one file SHJ writes one after the other, on average, formula (2): 2 (|M| − N) / N. Replacement
/// selection makes runs of twice its memory, which the N partitions share. The paper rounds; whether up or down cannot
/// be read. The comparison with a whole number of blocks that [`grouping_pays`] makes comes out the same unrounded and
/// rounded up; rounded down it would contradict the paper's own example, where 8/3 pays with groups of 2.
pub fn blocks_together(memory_blocks: u32, partitions: u32) -> f64 {
    2.0 * f64::from(memory_blocks.saturating_sub(partitions)) / f64::from(partitions)
}

/// Whether SHJ pays: it writes more blocks of one file one after the other than the file system gives out at a time
/// (section 3.2).
pub fn grouping_pays(memory_blocks: u32, partitions: u32, group_blocks: u32) -> bool {
    2 * u64::from(memory_blocks.saturating_sub(partitions)) > u64::from(group_blocks) * u64::from(partitions)
}

/// An input of a join.
pub struct Relation<'a> {
    /// The file that it is read from.
    pub name: &'a str,
    /// The partition of each record, in the order in which they are read.
    pub partitions: &'a [u32],
    /// How many records a block holds: of the input and of the partitions.
    pub records_per_block: usize,
}

/// Appends the requests that read a relation and write its partitions to files `NAME-PARTITION`, and returns the number
/// of blocks in each of them. `count` partitions, with `memory_blocks` of memory.
pub fn partition(
    sequence: &mut Sequence,
    relation: &Relation,
    method: Method,
    count: u32,
    memory_blocks: u32,
) -> Result<Vec<u32>> {
    let mut outputs = Outputs::new(sequence, relation, method, count);
    let input = sequence.file(relation.name);
    // Replacement selection: a record of a smaller partition than the last one that left must wait for the next run.
    let heap_records = match method {
        Method::Hybrid => 0,
        Method::Sorted => memory_blocks.saturating_sub(count) as usize * relation.records_per_block,
    };
    let mut heap: BinaryHeap<Reverse<(u32, u32, usize)>> = BinaryHeap::with_capacity(heap_records + 1);
    let (mut run, mut last) = (0, 0);
    for (index, partition) in relation.partitions.iter().copied().enumerate() {
        if index % relation.records_per_block == 0 {
            sequence.read(input, (index / relation.records_per_block) as u32)?;
        }
        // Figure 5 removes a record before it inserts the next: the one that comes meets the run of the one that left.
        if heap.len() == heap_records {
            match heap.pop() {
                Some(Reverse(first)) => {
                    (run, last) = (first.0, first.1);
                    outputs.add(sequence, last)?;
                }
                None => {
                    outputs.add(sequence, partition)?;
                    continue;
                }
            }
        }
        heap.push(Reverse((run + u32::from(partition < last), partition, index)));
    }
    while let Some(Reverse((_, partition, _))) = heap.pop() {
        outputs.add(sequence, partition)?;
    }
    outputs.finish(sequence)
}

/// The requests of a whole join: both inputs are partitioned, then each pair of partitions is read, build side first,
/// and deleted.
pub fn requests(
    build: &Relation,
    probe: &Relation,
    method: Method,
    count: u32,
    memory_blocks: u32,
    block_bytes: u64,
) -> Result<Sequence> {
    let mut sequence = Sequence::new(block_bytes);
    let mut sides = Vec::new();
    for relation in [build, probe] {
        sides.push((relation.name, partition(&mut sequence, relation, method, count, memory_blocks)?));
    }
    for number in 0..count {
        for (name, lengths) in &sides {
            let file = sequence.file(&partition_name(name, number));
            for block in 0..lengths[number as usize] {
                sequence.read(file, block)?;
            }
            sequence.free_file(file);
        }
    }
    Ok(sequence)
}

/// The name of a partition's file.
pub fn partition_name(relation: &str, partition: u32) -> String {
    format!("{relation}-{partition}")
}

/// The output buffers of a relation's partitions, one block each.
struct Outputs {
    files: Vec<u32>,
    /// Records in each buffer.
    buffered: Vec<usize>,
    /// Blocks written of each partition.
    blocks: Vec<u32>,
    records_per_block: usize,
    /// HHJ's partition 0 stays in memory.
    first_written: u32,
}

impl Outputs {
    fn new(sequence: &mut Sequence, relation: &Relation, method: Method, count: u32) -> Self {
        let files = (0..count).map(|number| sequence.file(&partition_name(relation.name, number))).collect();
        Self {
            files,
            buffered: vec![0; count as usize],
            blocks: vec![0; count as usize],
            records_per_block: relation.records_per_block,
            first_written: if method == Method::Hybrid { 1 } else { 0 },
        }
    }

    fn add(&mut self, sequence: &mut Sequence, partition: u32) -> Result<()> {
        if partition < self.first_written {
            return Ok(());
        }
        self.buffered[partition as usize] += 1;
        if self.buffered[partition as usize] == self.records_per_block {
            self.write(sequence, partition as usize)?;
        }
        Ok(())
    }

    fn write(&mut self, sequence: &mut Sequence, partition: usize) -> Result<()> {
        sequence.write(self.files[partition], self.blocks[partition])?;
        self.buffered[partition] = 0;
        self.blocks[partition] += 1;
        Ok(())
    }

    fn finish(mut self, sequence: &mut Sequence) -> Result<Vec<u32>> {
        for partition in 0..self.files.len() {
            if self.buffered[partition] > 0 {
                self.write(sequence, partition)?;
            }
        }
        Ok(self.blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::sequence::Request;

    #[test]
    fn formulas_are_the_papers() -> Result<()> {
        // Section 3.2: 19 pages with 7 of memory make 3 partitions, and sorting pays with groups of 2 blocks.
        assert_eq!(partition_count(19, 7)?, 3);
        assert!((blocks_together(7, 3) - 8.0 / 3.0).abs() < 1e-12);
        assert!(grouping_pays(7, 3, 2));
        assert!(!grouping_pays(7, 3, 3));
        // A whole number that is just reached does not pay: it must be greater.
        assert!(grouping_pays(10, 4, 2) && !grouping_pays(10, 4, 3));
        assert_eq!(partition_count(7, 7)?, 1);
        assert_eq!(partition_count(8, 7)?, 2);
        assert!(partition_count(100, 1).is_err());
        assert!(partition_count(100, 7).is_err());
        Ok(())
    }

    /// Both methods write each record once, except those that HHJ keeps, and read every block that they wrote.
    #[test]
    fn both_methods_read_what_they_write() -> Result<()> {
        let build: Vec<u32> = (0..100).map(|index| index * 7 % 5).collect();
        let probe: Vec<u32> = (0..333).map(|index| index * index % 5).collect();
        for method in Method::ALL {
            let relation = |name, partitions| Relation { name, partitions, records_per_block: 4 };
            let sequence = requests(&relation("r", &build), &relation("s", &probe), method, 5, 12, 1)?;
            let (mut reads, mut writes, mut frees) = (0, 0, 0);
            for request in sequence.requests() {
                match request {
                    Request::Read(_) => reads += 1,
                    Request::Write { .. } => writes += 1,
                    Request::Free(_) => frees += 1,
                }
            }
            let input_blocks = 100usize.div_ceil(4) + 333usize.div_ceil(4);
            assert_eq!(reads, writes + input_blocks);
            assert_eq!(frees, writes);
            let written =
                |records: &[u32], partition| records.iter().filter(|of| **of == partition).count().div_ceil(4);
            let first = if method == Method::Hybrid { 1 } else { 0 };
            let expected: usize = (first..5).map(|number| written(&build, number) + written(&probe, number)).sum();
            assert_eq!(writes, expected, "{}", method.name());
        }
        Ok(())
    }

    /// Formula (2) holds for random partitions: the mean number of blocks together is within a tenth of it. (With few
    /// partitions it is more: a record of the partition that is being written still joins the run.)
    #[test]
    fn sorting_groups_as_many_blocks_as_the_formula_says() -> Result<()> {
        let (count, memory_blocks) = (32, 232);
        let mut state = 1u64;
        let partitions: Vec<u32> = (0..400_000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) as u32 % count
            })
            .collect();
        let relation = Relation { name: "r", partitions: &partitions, records_per_block: 10 };
        let mut sequence = Sequence::new(1);
        partition(&mut sequence, &relation, Method::Sorted, count, memory_blocks)?;
        let writes: Vec<u32> = sequence
            .requests()
            .iter()
            .filter_map(|request| match request {
                Request::Write { block, .. } => Some(block.file),
                _ => None,
            })
            .collect();
        let changes = writes.windows(2).filter(|pair| pair[0] != pair[1]).count() + 1;
        let together = writes.len() as f64 / changes as f64;
        let formula = blocks_together(memory_blocks, count);
        assert!((together / formula - 1.0).abs() < 0.1, "{together} blocks together, {formula} by the formula");
        Ok(())
    }
}
