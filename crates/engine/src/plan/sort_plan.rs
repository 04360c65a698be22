//! Which runs are merged when: the block requests of a sort, as numbers and without doing anything.
//!
//! Runs have *levels*: what packets sort in memory is level 0, and a merge makes a run one level above the highest that
//! it reads. The last merge writes nothing: its rows go to whoever wants them. Whatever the plan, at the end as few and
//! as short runs are merged as it takes to let the last merge read all that are left: a Huffman tree of merges (Knuth,
//! volume 3, section 5.4.9).
//!
//! The plans are those of Wang & Cherniack, *Improving Query I/O Performance by Permuting and Refining Block Request
//! Sequences* (2006), sections 3.1 and 4.1:
//!
//! ```text
//!   EMS       lazy: merges once the input has ended
//!   MMS       eager: merges as soon as a level has as many runs as a merge can read, so they may still be in the page
//!             cache
//!   MMS(n)    eager; frees the clusters of what it reads one by one up to level n, and run by run above
//!   -NR       frees clusters run by run at every level ("no recycling")
//!   cost      whatever writes least: lazy, and frees clusters one by one
//! ```
//!
//! While the input goes on, its rows and those who bring them have most of the memory. An eager merge gets what is
//! left, which may be enough for two runs: each row is written again for every few others. The end has all the memory,
//! and merges what it must.

use std::fmt;
use std::str::FromStr;

use diligence_base::Error;

/// Clusters of memory per run that is merged: one is read while the one before is worked on (Graefe & Thakkar, *Tuning
/// a Parallel Database Algorithm on a Shared-memory Multiprocessor*, 1992, section 7: read-ahead).
pub(crate) const CLUSTERS_PER_INPUT: usize = 2;

/// Clusters of memory for what a merge writes: one is filled while the one before is written.
pub(crate) const CLUSTERS_WRITTEN: usize = 2;

/// Runs that a merge reads at least.
pub(crate) const FAN_IN_MIN: usize = 2;

/// When runs are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timing {
    /// When the input has ended.
    Lazy,
    /// When a level is full.
    Eager,
    /// When it costs least.
    Cheapest,
}

/// Which runs a sort merges when, and whether it frees clusters while it reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortPlan {
    timing: Timing,
    /// Merges that make runs of up to this level free each cluster when it is read.
    recycle_up_to: usize,
}

/// The plans with their names.
const NAMED: [(&str, SortPlan); 7] = [
    ("cost", SortPlan::COST),
    ("ems", SortPlan::EMS),
    ("ems-nr", SortPlan::EMS.without_recycling()),
    ("mms", SortPlan::MMS),
    ("mms(1)", SortPlan::mms(1)),
    ("mms(2)", SortPlan::mms(2)),
    ("mms-nr", SortPlan::MMS.without_recycling()),
];

impl SortPlan {
    /// Merges when it costs least, and frees what it has read.
    pub const COST: Self = Self { timing: Timing::Cheapest, recycle_up_to: usize::MAX };
    /// External merge sort.
    pub const EMS: Self = Self { timing: Timing::Lazy, recycle_up_to: usize::MAX };
    /// Multilevel merge sort.
    pub const MMS: Self = Self::mms(usize::MAX);

    /// Multilevel merge sort that recycles clusters up to a level.
    pub const fn mms(levels: usize) -> Self {
        Self { timing: Timing::Eager, recycle_up_to: levels }
    }

    /// The plan that frees clusters run by run.
    pub const fn without_recycling(self) -> Self {
        Self { recycle_up_to: 0, ..self }
    }

    /// Whether a merge that makes a run of this level frees each cluster when it is read. The last merge, which makes
    /// none, always does: nothing is written that the clusters could be scattered by.
    pub(crate) fn recycles(&self, level: usize) -> bool {
        level <= self.recycle_up_to
    }

    /// What to merge while the input goes on, after a run was added: some of `runs`, by place. `fan_in` is at least 2.
    pub(crate) fn merge_early(&self, runs: &[RunSize], fan_in: usize) -> Option<Vec<usize>> {
        debug_assert!(fan_in >= FAN_IN_MIN, "a merge reads two runs at least");
        let is_time = self.timing == Timing::Eager;
        let highest = runs.iter().map(|run| run.level).max().filter(|_| is_time)?;
        let at_level = |level: usize| (0..runs.len()).filter(move |&place| runs[place].level == level);
        let full = (0..=highest).find(|&level| at_level(level).count() >= fan_in)?;
        Some(at_level(full).take(fan_in).collect())
    }
}

impl Default for SortPlan {
    fn default() -> Self {
        Self::COST
    }
}

impl fmt::Display for SortPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMED.iter().find(|(_, plan)| plan == self) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "mms({})", self.recycle_up_to),
        }
    }
}

impl FromStr for SortPlan {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let known = NAMED.iter().find(|(name, _)| name.eq_ignore_ascii_case(text.trim()));
        known.map(|(_, plan)| *plan).ok_or_else(|| {
            let names: Vec<_> = NAMED.iter().map(|(name, _)| *name).collect();
            Error::input(format!("'{text}' is no sort plan")).with_hint(format!("one of {}", names.join(", ")))
        })
    }
}

/// What planning needs to know of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunSize {
    /// 0 as sorted in memory; otherwise one more than the highest that was merged into it.
    pub level: usize,
    /// Bytes on the disk.
    pub bytes: u64,
}

/// How many runs a merge can read that has so many clusters of memory: 2 at least.
pub(crate) fn fan_in(memory_clusters: usize) -> usize {
    (memory_clusters.saturating_sub(CLUSTERS_WRITTEN) / CLUSTERS_PER_INPUT).max(FAN_IN_MIN)
}

/// What to merge next, by place, when the input has ended, the last merge can read `last` runs and those before it
/// `fan_in`, at least 2 each. `None` if the last one can read all of them.
///
/// The last merge reads fewer: beside its runs there are rows that wait to be read. So the two must not be mixed up: to
/// merge all runs that can be merged, where fewer would do, writes the whole input once more.
pub(crate) fn merge_late(runs: &[RunSize], fan_in: usize, last: usize) -> Option<Vec<usize>> {
    let surplus = runs.len().checked_sub(last).filter(|surplus| *surplus > 0)?;
    // A merge of `fan_in` runs makes `fan_in - 1` fewer. The shortest runs are in the one that is not full, which comes
    // first.
    Some(shortest(runs, (surplus - 1) % (fan_in - 1) + 2))
}

/// The places of the shortest runs, ascending; of equally short ones, the oldest.
pub(crate) fn shortest(runs: &[RunSize], count: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..runs.len()).collect();
    places.sort_by_key(|&place| runs[place].bytes);
    places.truncate(count);
    places.sort_unstable();
    places
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The runs of a sort, named as in the paper's figures, and the block requests that make them.
    #[derive(Default)]
    struct Traced {
        runs: Vec<(String, RunSize)>,
        requests: Vec<String>,
        read: u64,
        merged_level: usize,
    }

    impl Traced {
        fn sizes(&self) -> Vec<RunSize> {
            self.runs.iter().map(|(_, size)| *size).collect()
        }

        fn merge(&mut self, places: &[usize], name: &str) {
            assert!(places.is_sorted());
            let mut merged: Vec<_> = places.iter().rev().map(|&place| self.runs.remove(place)).collect();
            merged.reverse();
            self.requests.extend(merged.iter().map(|(name, _)| format!("R{name}")));
            let bytes = merged.iter().map(|(_, run)| run.bytes).sum();
            self.read += bytes;
            self.requests.extend((1..=bytes).map(|page| format!("W{name}{page}")));
            let level = 1 + merged.iter().map(|(_, run)| run.level).max().unwrap();
            self.merged_level = self.merged_level.max(level);
            self.runs.push((name.to_string(), RunSize { level, bytes }));
        }
    }

    /// Sorts so many runs of a page, up to the last merge.
    fn traced(plan: SortPlan, pages: usize, fan_in: usize) -> Traced {
        let mut traced = Traced::default();
        let letter = |number: usize| char::from(b'A' + (number % 26) as u8).to_string();
        let mut merges = pages..;
        for page in 0..pages {
            traced.requests.push(format!("R{}", letter(page)));
            traced.requests.push(format!("W{}'", letter(page)));
            traced.runs.push((format!("{}'", letter(page)), RunSize { level: 0, bytes: 1 }));
            while let Some(places) = plan.merge_early(&traced.sizes(), fan_in) {
                assert!(places.len() <= fan_in && places.len() > 1);
                traced.merge(&places, &letter(merges.next().unwrap()));
            }
        }
        while let Some(places) = merge_late(&traced.sizes(), fan_in, fan_in) {
            assert!(places.len() <= fan_in && places.len() > 1);
            traced.merge(&places, &letter(merges.next().unwrap()));
        }
        assert!(traced.runs.len() <= fan_in);
        traced
    }

    #[test]
    fn the_block_requests_are_those_of_figure_2() {
        let lazy = "RA WA' RB WB' RC WC' RD WD' RA' RB' WE1 WE2 RC' RD' WF1 WF2";
        assert_eq!(traced(SortPlan::EMS, 4, 2).requests.join(" "), lazy);
        let eager = "RA WA' RB WB' RA' RB' WE1 WE2 RC WC' RD WD' RC' RD' WF1 WF2";
        // The last merge, E and F, is not the plan's any more; in the figure neither.
        let mms = traced(SortPlan::MMS, 4, 2).requests.join(" ");
        assert!(mms.starts_with(eager), "{mms}");
    }

    #[test]
    fn merges_at_the_end_read_least() {
        for fan_in in 2..7 {
            for pages in 1..100 {
                let read = |plan| traced(plan, pages, fan_in).read;
                let (lazy, cost, eager) = (read(SortPlan::EMS), read(SortPlan::COST), read(SortPlan::MMS));
                let case = format!("{pages} runs, {fan_in} at a time: {lazy}, {cost}, {eager}");
                assert!(lazy == cost && cost <= eager, "{case}");
            }
        }
    }

    #[test]
    fn levels_are_the_logarithm_of_the_runs() {
        // The last merge is a level of its own: 64 runs at a fan-in of 4 make two levels on the disk and the last
        // merge.
        for (pages, fan_in, levels) in
            [(4, 4, 0), (5, 4, 1), (16, 4, 1), (17, 4, 2), (64, 4, 2), (65, 4, 3), (1024, 2, 9)]
        {
            assert_eq!(traced(SortPlan::EMS, pages, fan_in).merged_level, levels, "{pages} runs, {fan_in} at a time");
        }
    }

    #[test]
    fn recycling_stops_at_its_level() {
        let levels =
            |plan: &str| (1..5).map(|level| plan.parse::<SortPlan>().unwrap().recycles(level)).collect::<Vec<_>>();
        assert_eq!(levels("MMS"), [true; 4]);
        assert_eq!(levels("ems"), [true; 4]);
        assert_eq!(levels("mms(1)"), [true, false, false, false]);
        assert_eq!(levels("mms(2)"), [true, true, false, false]);
        assert_eq!(levels("mms-nr"), [false; 4]);
        assert_eq!(levels("ems-nr"), [false; 4]);
    }

    #[test]
    fn plans_are_called_by_name() {
        for (name, plan) in NAMED {
            assert_eq!((plan.to_string().as_str(), name.parse::<SortPlan>().unwrap()), (name, plan));
        }
        assert!("quick".parse::<SortPlan>().unwrap_err().hint().unwrap().contains("mms(1)"));
    }

    #[test]
    fn a_merge_reads_two_clusters_per_run_and_writes_with_two() {
        assert_eq!([0, 5, 6, 7, 8, 100].map(fan_in), [2, 2, 2, 2, 3, 49]);
    }

    proptest! {
        #[test]
        fn the_end_merges_as_little_as_possible(
            sizes in prop::collection::vec(1_u64..50, 1..7),
            fan_in in 2_usize..5,
            last in 2_usize..5,
        ) {
            let runs: Vec<RunSize> = sizes.iter().map(|&bytes| RunSize { level: 0, bytes }).collect();
            let mut left = runs.clone();
            let mut read = 0;
            while let Some(places) = merge_late(&left, fan_in, last) {
                let merged: Vec<_> = places.iter().rev().map(|&place| left.remove(place)).collect();
                let bytes = merged.iter().map(|run| run.bytes).sum();
                read += bytes;
                left.push(RunSize { level: 1, bytes });
            }
            prop_assert_eq!(read, least(&sizes, fan_in, last));
        }
    }

    /// Bytes that must be read before `last` runs are left, found by trying everything.
    fn least(sizes: &[u64], fan_in: usize, last: usize) -> u64 {
        if sizes.len() <= last {
            return 0;
        }
        let subsets = (0..1_u32 << sizes.len()).filter(|set| (2..=fan_in as u32).contains(&set.count_ones()));
        let cost = |set: u32| {
            let (merged, mut kept): (Vec<_>, Vec<_>) =
                sizes.iter().enumerate().partition(|(place, _)| set >> place & 1 == 1);
            let bytes = merged.iter().map(|(_, bytes)| **bytes).sum::<u64>();
            kept.push((0, &bytes));
            bytes + least(&kept.iter().map(|(_, bytes)| **bytes).collect::<Vec<_>>(), fan_in, last)
        };
        subsets.map(cost).min().unwrap()
    }
}
