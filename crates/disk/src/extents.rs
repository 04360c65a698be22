//! The free clusters of one file, as extents.
//!
//! Invariant: extents do not overlap and do not touch: neighbours are one extent.

use std::collections::BTreeMap;

/// Free clusters by position.
#[derive(Debug, Default)]
pub(crate) struct FreeExtents {
    /// Position of the first cluster and number of clusters.
    extents: BTreeMap<u32, u32>,
    clusters: usize,
}

impl FreeExtents {
    /// How many clusters are free.
    pub fn clusters(&self) -> usize {
        self.clusters
    }

    /// Frees `clusters` clusters from `start` on.
    pub fn insert(&mut self, mut start: u32, clusters: u32) {
        self.clusters += clusters as usize;
        let mut end = start + clusters;
        if let Some((&before, &length)) = self.extents.range(..start).next_back() {
            debug_assert!(before + length <= start, "a cluster was freed twice");
            if before + length == start {
                start = before;
            }
        }
        if let Some((&after, &length)) = self.extents.range(end - 1..).next() {
            debug_assert!(after >= end, "a cluster was freed twice");
            if after == end {
                self.extents.remove(&after);
                end += length;
            }
        }
        self.extents.insert(start, end - start);
    }

    /// The lowest `clusters` clusters that lie side by side.
    pub fn take_run(&mut self, clusters: u32) -> Option<u32> {
        let (&start, &length) = self.extents.iter().find(|(_, length)| **length >= clusters)?;
        self.take_front(start, length, clusters);
        Some(start)
    }

    /// The lowest extent, or its first `clusters_max` clusters: its start and length.
    pub fn take_lowest(&mut self, clusters_max: u32) -> Option<(u32, u32)> {
        let (&start, &length) = self.extents.iter().next()?;
        let taken = length.min(clusters_max);
        self.take_front(start, length, taken);
        Some((start, taken))
    }

    fn take_front(&mut self, start: u32, length: u32, taken: u32) {
        self.extents.remove(&start);
        if length > taken {
            self.extents.insert(start + taken, length - taken);
        }
        self.clusters -= taken as usize;
    }

    /// Where the free clusters begin that reach up to `end`.
    pub fn tail_start(&self, end: u32) -> u32 {
        match self.extents.last_key_value() {
            Some((&start, &length)) if start + length == end => start,
            _ => end,
        }
    }

    /// Takes away all clusters from `start` to `end`, which are free.
    pub fn cut_tail(&mut self, start: u32, end: u32) {
        let Some((extent, length)) = self.extents.pop_last() else { return };
        debug_assert!(extent <= start && extent + length == end, "the tail is free");
        if extent < start {
            self.extents.insert(extent, start - extent);
        }
        self.clusters -= (end - start) as usize;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use diligence_base::seams::Random;

    use super::*;

    #[test]
    fn neighbours_are_one_extent_and_the_lowest_goes_first() {
        let mut free = FreeExtents::default();
        free.insert(8, 2);
        free.insert(0, 1);
        free.insert(2, 3);
        assert_eq!((free.take_run(2), free.take_run(3)), (Some(2), None));
        free.insert(5, 3);
        assert_eq!(free.take_run(6), Some(4), "4 to 10 grew together");
        assert_eq!(free.take_lowest(5), Some((0, 1)));
        assert_eq!((free.take_lowest(5), free.clusters()), (None, 0));
    }

    #[test]
    fn free_clusters_are_those_of_a_plain_set() {
        const CLUSTERS: u32 = 40;
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let (mut free, mut set) = (FreeExtents::default(), BTreeSet::new());
            for _ in 0..60 {
                let (start, length) = (random.below(CLUSTERS as usize) as u32, 1 + random.below(4) as u32);
                match random.below(3) {
                    0 if (start..start + length).all(|position| !set.contains(&position)) => {
                        free.insert(start, length);
                        set.extend(start..start + length);
                    }
                    1 => {
                        let run = set.iter().copied().find(|&from| (from..from + length).all(|p| set.contains(&p)));
                        assert_eq!(free.take_run(length), run, "seed {seed}");
                        run.inspect(|&from| set.retain(|p| !(from..from + length).contains(p)));
                    }
                    _ => {
                        let end = set.last().map_or(0, |last| last + 1);
                        let start = (0..end).rev().take_while(|p| set.contains(p)).last().unwrap_or(end);
                        assert_eq!(free.tail_start(end), start, "seed {seed}");
                        if end - start > 3 {
                            free.cut_tail(start + 2, end);
                            set.retain(|&position| position < start + 2);
                        }
                    }
                }
                assert_eq!(free.clusters(), set.len(), "seed {seed}");
            }
        }
    }
}
