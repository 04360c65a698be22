//! A page cache that replays a sequence: which blocks it moves from and to disk, in how many transfers, with how many
//! seeks.
//!
//! A page holds one block. A written page is dirty and reaches the disk late: when it is evicted, or when more pages
//! are dirty than may be (*delayed buffer flushing*, Wang & Cherniack 2006, section 2.1). A block that is freed before
//! it is written back never is, and its page is the first to be evicted.
//!
//! Two policies of replacement. LRU evicts the page that was not used for the longest time. Optimal (Belady's) sees the
//! rest of the sequence: it evicts pages whose content nobody wants again, least recently used first, and then the page
//! that is read again last; what nobody wants again it does not write back. Dirty content that is neither written anew
//! nor freed up to the end of the sequence counts as wanted after it.
//!
//! Always true: a read finds the block in the cache or on disk, never neither (`Replay` asserts it); whole blocks are
//! written, so that a write never reads.

use std::collections::BTreeSet;

use crate::blocks::disk::{Act, Placed};

const NONE: u32 = u32::MAX;

/// Which page makes room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// The one not used for the longest time.
    Lru,
    /// The one whose content is read again last, or never.
    Optimal,
}

impl Replacement {
    /// Both policies.
    pub const ALL: [Self; 2] = [Self::Lru, Self::Optimal];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lru => "LRU",
            Self::Optimal => "OPT",
        }
    }
}

/// A cache. All sizes are in blocks and at least 1.
#[derive(Clone, Copy, Debug)]
pub struct Cache {
    /// How many pages it has.
    pub pages: u32,
    /// Which page makes room.
    pub replacement: Replacement,
    /// More dirty pages than this are written back at once, those first that are dirty the longest. `pages`: only
    /// evicted pages are written back.
    pub dirty_max: u32,
    /// How many pages are written back together, by ascending address.
    pub flush_pages: u32,
    /// The largest transfer: adjacent blocks moved one after the other in one direction are one transfer up to this
    /// size.
    pub transfer_blocks_max: u32,
}

impl Cache {
    /// The cache of the paper's Tables 1 and 2: a page is written back only when it is evicted, and alone.
    pub fn flushing_on_eviction(pages: u32, replacement: Replacement) -> Self {
        Self { pages, replacement, dirty_max: pages, flush_pages: 1, transfer_blocks_max: 1 }
    }
}

/// A block moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// From disk into a page.
    In(u32),
    /// From a page to disk.
    Out(u32),
}

/// What a replay cost, in blocks unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads asked for.
    pub read_requests: u64,
    /// Writes asked for.
    pub write_requests: u64,
    /// Moved from disk.
    pub blocks_in: u64,
    /// Moved to disk.
    pub blocks_out: u64,
    /// Dirty when they were freed or, with the optimal policy, when nobody wanted them again: never written.
    pub blocks_dropped: u64,
    /// Left dirty at the end: not counted as moved.
    pub blocks_left: u64,
    /// Transfers of one or more adjacent blocks.
    pub transfers: u64,
    /// Moves that do not follow the one before on disk: also the number of sequential runs.
    pub seeks: u64,
}

impl Counts {
    /// The paper's *I/O count*: blocks moved from and to disk (section 1).
    pub fn ios(&self) -> u64 {
        self.blocks_in + self.blocks_out
    }

    /// Blocks per transfer; 0 without any.
    pub fn mean_transfer_blocks(&self) -> f64 {
        ratio(self.ios(), self.transfers)
    }

    /// Blocks per sequential run; 0 without any.
    pub fn mean_run_blocks(&self) -> f64 {
        ratio(self.ios(), self.seeks)
    }
}

/// A share or mean; 0 if there is nothing to divide by.
pub fn ratio(count: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { count as f64 / of as f64 }
}

/// A replay in progress.
pub struct Replay<'a> {
    placed: &'a Placed,
    cache: Cache,
    /// For each step, the next step at the same address; `NONE` without one.
    next: Vec<u32>,
    step: u32,
    /// The address in each page, in the order in which pages were first used.
    frames: Vec<Page>,
    /// The page of each address.
    resident: Vec<u32>,
    /// Which addresses hold on disk what was last written there.
    on_disk: Vec<bool>,
    /// Pages in the order of their eviction.
    order: BTreeSet<(Rank, u32)>,
    /// Dirty pages by the step that made them dirty.
    dirty: BTreeSet<(u32, u32)>,
    moves: Vec<Move>,
    counts: Counts,
    last: Option<Move>,
    transfer_blocks: u32,
}

/// Least goes first: the policy's class, then the last use.
type Rank = (u32, u32);

struct Page {
    address: u32,
    rank: Rank,
    /// The step that made it dirty.
    dirty_since: Option<u32>,
}

impl<'a> Replay<'a> {
    /// Starts with an empty cache.
    pub fn new(placed: &'a Placed, cache: Cache) -> Self {
        assert!(
            cache.pages > 0 && cache.flush_pages > 0 && cache.transfer_blocks_max > 0,
            "a cache of at least one page"
        );
        let addresses = placed.address_count as usize;
        let next = match cache.replacement {
            Replacement::Lru => Vec::new(),
            Replacement::Optimal => next_steps(placed),
        };
        let mut on_disk = vec![false; addresses];
        on_disk[..placed.first_new as usize].fill(true);
        Self {
            placed,
            cache,
            next,
            step: 0,
            frames: Vec::new(),
            resident: vec![NONE; addresses],
            on_disk,
            order: BTreeSet::new(),
            dirty: BTreeSet::new(),
            moves: Vec::new(),
            counts: Counts::default(),
            last: None,
            transfer_blocks: 0,
        }
    }

    /// Replays everything that is left.
    pub fn run(mut self) -> Counts {
        while self.advance().is_some() {}
        self.counts()
    }

    /// Replays one request and returns what had to be moved for it; `None` at the end.
    pub fn advance(&mut self) -> Option<&[Move]> {
        let step = *self.placed.steps.get(self.step as usize)?;
        self.moves.clear();
        match step.act {
            Act::Read => {
                self.counts.read_requests += 1;
                let page = match self.resident[step.address as usize] {
                    NONE => {
                        assert!(
                            self.on_disk[step.address as usize],
                            "a read found its block neither cached nor on disk"
                        );
                        let page = self.admit(step.address);
                        self.transfer(Move::In(step.address));
                        page
                    }
                    page => page,
                };
                self.touch(page);
            }
            Act::Write => {
                self.counts.write_requests += 1;
                self.on_disk[step.address as usize] = false;
                let page = match self.resident[step.address as usize] {
                    NONE => self.admit(step.address),
                    page => page,
                };
                self.frames[page as usize].dirty_since.get_or_insert(self.step);
                let since = self.frames[page as usize].dirty_since.unwrap_or(self.step);
                self.dirty.insert((since, page));
                self.touch(page);
                while self.dirty.len() > self.cache.dirty_max as usize {
                    self.flush(None);
                }
            }
            Act::Free => {
                let page = self.resident[step.address as usize];
                if page != NONE {
                    let last_use = self.frames[page as usize].rank.1;
                    self.drop_content(page);
                    self.reorder(page, (0, last_use));
                }
            }
        }
        self.step += 1;
        Some(&self.moves)
    }

    /// The addresses in the cache's pages, in the order in which the pages were first used.
    pub fn pages(&self) -> impl Iterator<Item = u32> {
        self.frames.iter().map(|page| page.address)
    }

    /// What it cost up to here.
    pub fn counts(&self) -> Counts {
        Counts { blocks_left: self.dirty.len() as u64, ..self.counts }
    }

    /// Notes a use of a page at this step, and drops what the optimal policy knows to be of no more use.
    fn touch(&mut self, page: u32) {
        let wanted = match self.cache.replacement {
            Replacement::Lru => 1,
            Replacement::Optimal => match self.next[self.step as usize] {
                NONE if self.frames[page as usize].dirty_since.is_none() => 0,
                NONE => 1,
                next if self.placed.steps[next as usize].act == Act::Read => NONE - next,
                _ => 0,
            },
        };
        if wanted == 0 {
            self.drop_content(page);
        }
        self.reorder(page, (wanted, self.step));
    }

    fn reorder(&mut self, page: u32, rank: Rank) {
        let old = std::mem::replace(&mut self.frames[page as usize].rank, rank);
        self.order.remove(&(old, page));
        self.order.insert((rank, page));
    }

    fn drop_content(&mut self, page: u32) {
        if let Some(since) = self.frames[page as usize].dirty_since.take() {
            self.dirty.remove(&(since, page));
            self.counts.blocks_dropped += 1;
        }
    }

    /// A page for an address that has none.
    fn admit(&mut self, address: u32) -> u32 {
        let page = if (self.frames.len() as u32) < self.cache.pages {
            self.frames.push(Page { address, rank: (0, self.step), dirty_since: None });
            self.frames.len() as u32 - 1
        } else {
            self.evict(address)
        };
        self.resident[address as usize] = page;
        self.order.insert((self.frames[page as usize].rank, page));
        page
    }

    fn evict(&mut self, address: u32) -> u32 {
        let (_, page) = self.order.pop_first().expect("a full cache has a page to evict");
        if self.frames[page as usize].dirty_since.is_some() {
            self.flush(Some(page));
        }
        let frame = &mut self.frames[page as usize];
        self.resident[frame.address as usize] = NONE;
        frame.address = address;
        page
    }

    /// Writes back the given page and those that are dirty the longest, by ascending address.
    fn flush(&mut self, first: Option<u32>) {
        let others = self.dirty.iter().map(|(_, page)| *page).filter(|page| Some(*page) != first);
        let mut pages: Vec<u32> = first.into_iter().chain(others).take(self.cache.flush_pages as usize).collect();
        pages.sort_by_key(|page| self.frames[*page as usize].address);
        for page in pages {
            let frame = &mut self.frames[page as usize];
            let address = frame.address;
            if let Some(since) = frame.dirty_since.take() {
                self.dirty.remove(&(since, page));
            }
            self.on_disk[address as usize] = true;
            self.transfer(Move::Out(address));
        }
    }

    fn transfer(&mut self, step: Move) {
        self.moves.push(step);
        let (address, out) = match step {
            Move::In(address) => (address, false),
            Move::Out(address) => (address, true),
        };
        *(if out { &mut self.counts.blocks_out } else { &mut self.counts.blocks_in }) += 1;
        let (follows, same_direction) = match self.last {
            Some(Move::In(last)) => (last + 1 == address, !out),
            Some(Move::Out(last)) => (last + 1 == address, out),
            None => (false, false),
        };
        self.counts.seeks += u64::from(!follows);
        if follows && same_direction && self.transfer_blocks < self.cache.transfer_blocks_max {
            self.transfer_blocks += 1;
        } else {
            self.transfer_blocks = 1;
            self.counts.transfers += 1;
        }
        self.last = Some(step);
    }
}

/// For each step, the next one at the same address.
fn next_steps(placed: &Placed) -> Vec<u32> {
    let mut later = vec![NONE; placed.address_count as usize];
    let mut next = vec![NONE; placed.steps.len()];
    for (index, step) in placed.steps.iter().enumerate().rev() {
        next[index] = std::mem::replace(&mut later[step.address as usize], index as u32);
    }
    next
}

#[cfg(test)]
mod tests {
    use diligence_base::Result;

    use super::*;
    use crate::blocks::disk::Allocation;
    use crate::blocks::sequence::Sequence;

    /// Random requests for a few blocks of two files, with frees, from a seed.
    fn random_log(seed: u64, requests: usize, frees: bool) -> Result<Sequence> {
        let mut state = seed;
        let mut below = |limit: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % limit) as u32
        };
        let mut sequence = Sequence::new(1);
        let file = sequence.file("f");
        let mut freed = [false; 6];
        for _ in 0..requests {
            let number = below(6);
            let index = number as usize;
            match below(4) {
                0 | 1 if !freed[index] => sequence.read(file, number)?,
                2 if frees && !freed[index] => {
                    sequence.free(file, number)?;
                    freed[index] = true;
                }
                _ => {
                    sequence.write(file, number)?;
                    freed[index] = false;
                }
            }
        }
        Ok(sequence)
    }

    /// LRU as a list: blocks in and out.
    fn lru_judge(placed: &Placed, pages: usize) -> (u64, u64) {
        let (mut list, mut moved): (Vec<(u32, bool)>, (u64, u64)) = (Vec::new(), (0, 0));
        for step in &placed.steps {
            let found = list.iter().position(|(address, _)| *address == step.address).map(|place| list.remove(place));
            if step.act == Act::Free {
                // What is freed goes first: to the front of those that are freed already.
                if found.is_some() {
                    list.insert(0, (step.address, false));
                }
                continue;
            }
            if found.is_none() {
                moved.0 += u64::from(step.act == Act::Read);
                if list.len() == pages {
                    moved.1 += u64::from(list.remove(0).1);
                }
            }
            list.push((step.address, step.act == Act::Write || found.is_some_and(|(_, dirty)| dirty)));
        }
        moved
    }

    #[test]
    fn lru_moves_what_a_list_moves() -> Result<()> {
        for seed in 0..300 {
            let placed = Placed::new(&random_log(seed, 60, true)?, Allocation::Groups(1))?;
            for pages in 1..=6 {
                let counts = Replay::new(&placed, Cache::flushing_on_eviction(pages, Replacement::Lru)).run();
                let judged = lru_judge(&placed, pages as usize);
                assert_eq!((counts.blocks_in, counts.blocks_out), judged, "seed {seed}, {pages} pages");
            }
        }
        Ok(())
    }

    /// The fewest blocks read that any policy gets by with: tries every eviction.
    fn fewest_reads(steps: &[crate::blocks::disk::Step], pages: usize, cached: &mut Vec<u32>) -> u64 {
        let Some((step, rest)) = steps.split_first() else { return 0 };
        if step.act == Act::Free || cached.contains(&step.address) {
            return fewest_reads(rest, pages, cached);
        }
        let read = u64::from(step.act == Act::Read);
        if cached.len() < pages {
            cached.push(step.address);
            let fewest = fewest_reads(rest, pages, cached);
            cached.pop();
            return read + fewest;
        }
        let evictions = (0..pages).map(|page| {
            let old = std::mem::replace(&mut cached[page], step.address);
            let fewest = fewest_reads(rest, pages, cached);
            cached[page] = old;
            fewest
        });
        read + evictions.min().unwrap_or(0)
    }

    #[test]
    fn optimal_reads_as_little_as_possible() -> Result<()> {
        for seed in 0..200 {
            let placed = Placed::new(&random_log(seed, 16, seed % 2 == 0)?, Allocation::Groups(1))?;
            for pages in 1..=3 {
                let cache = Cache::flushing_on_eviction(pages, Replacement::Optimal);
                let fewest = fewest_reads(&placed.steps, pages as usize, &mut Vec::new());
                assert_eq!(Replay::new(&placed, cache).run().blocks_in, fewest, "seed {seed}, {pages} pages");
            }
        }
        Ok(())
    }

    fn counts(log: &str, cache: Cache) -> Result<Counts> {
        Ok(Replay::new(&Placed::new(&Sequence::parse(log.as_bytes())?, Allocation::Groups(4))?, cache).run())
    }

    #[test]
    fn what_is_freed_or_recycled_is_never_written() -> Result<()> {
        let cache = Cache::flushing_on_eviction(2, Replacement::Lru);
        let kept = counts("block 1\nw a 0\nw a 1\nw a 2\nw a 3", cache)?;
        assert_eq!((kept.blocks_out, kept.blocks_dropped, kept.blocks_left), (2, 0, 2));
        let freed = counts("block 1\nw a 0\nw a 1\nf a\nw a 2\nw a 3", cache)?;
        assert_eq!((freed.blocks_out, freed.blocks_dropped, freed.blocks_left), (0, 2, 2));
        let recycled = counts("block 1\nw a 0\nw a 1\nw b 0 over a 0\nw b 1 over a 1", cache)?;
        assert_eq!((recycled.blocks_out, recycled.blocks_left), (0, 2));
        Ok(())
    }

    #[test]
    fn dirty_pages_beyond_the_bound_are_written_together_by_address() -> Result<()> {
        let cache = Cache { dirty_max: 3, flush_pages: 4, ..Cache::flushing_on_eviction(8, Replacement::Lru) };
        // Addresses 0, 4, 1, 5: two sequential runs, and as many transfers if one may hold two blocks.
        let log = "block 1\nw a 0\nw b 0\nw a 1\nw b 1";
        let single = counts(log, cache)?;
        assert_eq!((single.blocks_out, single.transfers, single.seeks), (4, 4, 2));
        let merged = counts(log, Cache { transfer_blocks_max: 8, ..cache })?;
        assert_eq!((merged.blocks_out, merged.transfers, merged.seeks), (4, 2, 2));
        assert_eq!((merged.mean_transfer_blocks(), merged.mean_run_blocks()), (2.0, 2.0));
        Ok(())
    }

    #[test]
    fn reads_and_writes_are_transfers_of_their_own() -> Result<()> {
        let cache = Cache { transfer_blocks_max: 8, ..Cache::flushing_on_eviction(1, Replacement::Lru) };
        // Address 2 goes out when address 0 is read again: no seek but the first and the one back to 0.
        let mixed = counts("block 1\nr in 0\nr in 1\nw a 0\nr in 0", cache)?;
        assert_eq!((mixed.ios(), mixed.transfers, mixed.seeks), (4, 3, 2));
        Ok(())
    }
}
