//! Where the blocks of a sequence lie on disk, and how contiguous that leaves each file.
//!
//! Two ways to give places out. *Groups* (Wang & Cherniack 2006, section 2.1, "Block Grouping", as ext2 did): a file
//! that needs a block gets the next free group of adjacent blocks and uses it up before it gets another.
//! *Preallocated*: every file is one stretch, and a block lies where its number says, as in the engine's own temp
//! files.
//!
//! Always true: places are given out when a block is first written, in the order of the requests; no place is given out
//! twice, except that a block written over another takes that one's place. Blocks that existed before the sequence
//! began lie first, each file in one stretch.

use std::ops::Range;

use diligence_base::{Error, Result};

use crate::blocks::sequence::{Block, Request, Sequence};

/// A block has no place yet.
const NONE: u32 = u32::MAX;

/// How places are given out.
#[derive(Clone, Copy, Debug)]
pub enum Allocation {
    /// So many adjacent blocks at a time.
    Groups(u32),
    /// All of a file's blocks in one stretch, by their numbers.
    Preallocated,
}

/// What a request does to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Its content is wanted.
    Read,
    /// It gets a new content.
    Write,
    /// Its content is of no more use.
    Free,
}

/// A request with its place.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// What happens.
    pub act: Act,
    /// Where: a block's position on disk, from 0.
    pub address: u32,
}

/// A sequence with a place for every request.
pub struct Placed {
    /// One for each request, in their order.
    pub steps: Vec<Step>,
    /// One more than the last address.
    pub address_count: u32,
    /// The first address that did not hold anything before the sequence began.
    pub first_new: u32,
    /// The address of each block of each file, by file and number; `NONE` for those that no request names.
    addresses: Vec<Vec<u32>>,
}

impl Placed {
    /// Gives every request its place. An input error if there are more places than 32 bits can number.
    pub fn new(sequence: &Sequence, allocation: Allocation) -> Result<Self> {
        let mut disk = Disk {
            allocation,
            next: 0,
            addresses: vec![Vec::new(); sequence.file_count()],
            reserved: vec![0..0; sequence.file_count()],
        };
        disk.place_what_was_there(sequence)?;
        let first_new = disk.next;
        if matches!(allocation, Allocation::Preallocated) {
            disk.stretch_files(sequence)?;
        }
        let steps = sequence.requests().iter().map(|request| disk.step(request)).collect::<Result<_>>()?;
        Ok(Self { steps, address_count: disk.next, first_new, addresses: disk.addresses })
    }

    /// A file's blocks by number, in contiguous stretches of disk: how many seeks it takes to read the file in order. A
    /// block that was recycled counts where its file had it.
    pub fn regions(&self, file: u32) -> Vec<Range<u32>> {
        let mut regions: Vec<Range<u32>> = Vec::new();
        for address in self.addresses[file as usize].iter().copied().filter(|address| *address != NONE) {
            match regions.last_mut() {
                Some(region) if region.end == address => region.end += 1,
                _ => regions.push(address..address + 1),
            }
        }
        regions
    }
}

/// The blocks of these files over the number of their contiguous regions (Wang & Cherniack 2006, section 4.2.3); 0
/// without any.
pub fn mean_region_blocks(placed: &Placed, files: impl Iterator<Item = u32>) -> f64 {
    let (mut blocks, mut count) = (0u64, 0u64);
    for file in files {
        for region in placed.regions(file) {
            blocks += u64::from(region.end - region.start);
            count += 1;
        }
    }
    if count == 0 { 0.0 } else { blocks as f64 / count as f64 }
}

struct Disk {
    allocation: Allocation,
    next: u32,
    addresses: Vec<Vec<u32>>,
    /// What is left of each file's last group.
    reserved: Vec<Range<u32>>,
}

impl Disk {
    /// A stretch for each file with blocks that were there before: those whose first request does not write them.
    fn place_what_was_there(&mut self, sequence: &Sequence) -> Result<()> {
        let mut written: Vec<Vec<bool>> = vec![Vec::new(); sequence.file_count()];
        for request in sequence.requests() {
            match *request {
                Request::Write { block, .. } => set(&mut written[block.file as usize], block.number, true, false),
                Request::Read(block) | Request::Free(block) => {
                    let file = block.file as usize;
                    if !written[file].get(block.number as usize).copied().unwrap_or(false) {
                        set(&mut self.addresses[file], block.number, block.number, NONE);
                    }
                }
            }
        }
        for file in 0..self.addresses.len() {
            let stretch = self.take(self.addresses[file].len() as u32)?;
            for address in self.addresses[file].iter_mut().filter(|address| **address != NONE) {
                *address += stretch.start;
            }
        }
        Ok(())
    }

    /// A stretch for each file that some request writes, as long as its highest number.
    fn stretch_files(&mut self, sequence: &Sequence) -> Result<()> {
        let mut lengths = vec![0u32; sequence.file_count()];
        for request in sequence.requests() {
            if let Request::Write { block, over: None } = request {
                let length = &mut lengths[block.file as usize];
                *length = (*length).max(block.number + 1);
            }
        }
        for (file, length) in lengths.into_iter().enumerate() {
            self.reserved[file] = self.take(length)?;
        }
        Ok(())
    }

    /// The next places.
    fn take(&mut self, blocks: u32) -> Result<Range<u32>> {
        let first = self.next;
        // The last number is NONE.
        let end = first.checked_add(blocks).filter(|end| *end != NONE);
        self.next = end.ok_or_else(|| Error::input("the sequence needs more blocks of disk than can be numbered"))?;
        Ok(first..self.next)
    }

    fn step(&mut self, request: &Request) -> Result<Step> {
        Ok(match *request {
            Request::Read(block) => Step { act: Act::Read, address: self.address(block) },
            Request::Free(block) => Step { act: Act::Free, address: self.address(block) },
            Request::Write { block, over } => {
                let address = match over {
                    Some(old) => self.address(old),
                    None => match self.address(block) {
                        NONE => self.new_address(block)?,
                        own => own,
                    },
                };
                set(&mut self.addresses[block.file as usize], block.number, address, NONE);
                Step { act: Act::Write, address }
            }
        })
    }

    fn address(&self, block: Block) -> u32 {
        self.addresses[block.file as usize].get(block.number as usize).copied().unwrap_or(NONE)
    }

    fn new_address(&mut self, block: Block) -> Result<u32> {
        let file = block.file as usize;
        match self.allocation {
            Allocation::Preallocated => Ok(self.reserved[file].start + block.number),
            Allocation::Groups(group_blocks) => {
                if self.reserved[file].is_empty() {
                    self.reserved[file] = self.take(group_blocks)?;
                }
                self.reserved[file].start += 1;
                Ok(self.reserved[file].start - 1)
            }
        }
    }
}

fn set<T: Copy>(values: &mut Vec<T>, index: u32, value: T, empty: T) {
    let index = index as usize;
    if index >= values.len() {
        values.resize(index + 1, empty);
    }
    values[index] = value;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(log: &str, allocation: Allocation) -> Result<Vec<u32>> {
        let placed = Placed::new(&Sequence::parse(log.as_bytes())?, allocation)?;
        Ok(placed.steps.iter().map(|step| step.address).collect())
    }

    /// Section 2.2.2: A, B and D of file R and C of file S, groups of two blocks, before and after file-level grouping.
    #[test]
    fn groups_are_those_of_the_papers_example() -> Result<()> {
        let groups = Allocation::Groups(2);
        assert_eq!(addresses("block 1\nw R 0\nw R 1\nw S 0\nw R 2", groups)?, [0, 1, 2, 4]);
        assert_eq!(addresses("block 1\nw R 0\nw R 1\nw R 2\nw S 0", groups)?, [0, 1, 2, 4]);
        let scattered = Sequence::parse("block 1\nw R 0\nw R 1\nw S 0\nw R 2".as_bytes())?;
        assert_eq!(Placed::new(&scattered, groups)?.regions(0), [0..2, 4..5]);
        let grouped = Sequence::parse("block 1\nw R 0\nw R 1\nw R 2\nw S 0".as_bytes())?;
        assert_eq!(Placed::new(&grouped, groups)?.regions(0), [0..3]);
        Ok(())
    }

    #[test]
    fn what_was_there_lies_first_and_a_recycled_place_is_the_old_one() -> Result<()> {
        let log = "block 1\nw a 0\nr in 1\nr in 0\nf a 0\nw b 0 over a 0\nw b 1\nf b 1\nw b 1";
        assert_eq!(addresses(log, Allocation::Groups(1))?, [2, 1, 0, 2, 2, 3, 3, 3]);
        let sparse = "block 1\nr in 7\nr in 5\nw a 0";
        assert_eq!(addresses(sparse, Allocation::Groups(1))?, [7, 5, 8]);
        Ok(())
    }

    #[test]
    fn preallocated_files_keep_their_numbers() -> Result<()> {
        let log = "block 1\nw a 2\nw b 0\nw a 0\nr a 2";
        assert_eq!(addresses(log, Allocation::Preallocated)?, [2, 3, 0, 2]);
        Ok(())
    }
}
