//! How many queries of one template go together: as many as pay.
//!
//! A run for several queries costs more the more their constants cut its rows, and each query has more to look through
//! to find its own. How much is known when they have run. So it is measured: for batches of 1, of 2 and 3, of 4 to 7,
//! and so on, the work for each query, which is its part of the run and what it has made of the state. Where a larger
//! batch has cost more for each query than a smaller one, batches stay below it; for some time, as the next constants
//! may be others.
//!
//! ```text
//!   queries in a run          1      2..3     4..7     8..15    16..31    32..63     64
//!   ms of work for each       40      24       15       11        18        --       --        --> 15 at most
//! ```
//!
//! What has not been measured is not held against anything: batches form as queries wait, and never for the sake of a
//! measurement. A run by itself says little, as its constants may have chosen few rows or many, and others have been at
//! work beside it. So what counts is the middle one of the last few of a class, and nothing is known of a class before
//! it has had some.
//!
//! How many groups a query has is often expected to be far more than there are, as joins of tables whose conditions
//! have to do with each other are. So that is measured, too: one whose groups are expected to be too many to be kept
//! runs for itself at first, and the next ones of its template by what it has had.

use std::collections::HashMap;
use std::time::Duration;

use diligence_base::limits::MERGED_QUERIES_MAX;

use crate::matching::signature::Signature;

/// Batches of so many queries and of fewer than twice as many are one class.
const CLASSES: usize = MERGED_QUERIES_MAX.ilog2() as usize + 1;

/// A batch has to cost so many percent of a smaller one, for each query, to be avoided: measurements differ by chance.
const DEARER_PERCENT: u64 = 125;

/// Runs of a class of which the middle one counts.
const RUNS: usize = 5;

/// Runs of a class by which it is found to be dearer than a smaller one, at least.
const RUNS_SURE: usize = 3;

/// Runs of a class with which larger ones are compared, at least. Small batches are seldom while many queries come.
const RUNS_COMPARED: usize = 2;

/// How long a measurement counts.
const FRESH: Duration = Duration::from_secs(30);

/// How long a batch is avoided whose rows became too many to be kept: all its work was in vain.
const OUTGROWN: Duration = Duration::from_secs(60);

/// The part, as its divisor, that a query has in the average of what queries make of their states.
const AVERAGE_DIVISOR: u64 = 8;

/// Templates that are remembered.
const TEMPLATES_MAX: usize = 1000;

/// What runs have cost.
#[derive(Default)]
pub(super) struct Together {
    templates: HashMap<Signature, Measurements>,
}

/// Of one template.
#[derive(Default)]
struct Measurements {
    classes: [Class; CLASSES],
    /// Bytes of one query's groups in the last two runs, the later one first.
    groups_bytes: [Option<usize>; 2],
}

/// Batches of about a size.
#[derive(Clone, Copy, Default)]
struct Class {
    /// What the last runs have cost for each of their queries, the latest first.
    runs: [Option<Measured>; RUNS],
    /// What the queries have made of the states since, on the average.
    own: Option<Measured>,
    /// When the rows of one were too many.
    outgrown_ns: Option<u64>,
}

#[derive(Clone, Copy)]
struct Measured {
    /// Nanoseconds of work.
    cost_ns: u64,
    at_ns: u64,
}

impl Together {
    /// How many queries of a template may go together, at least one.
    pub fn limit(&self, template: &Signature, now_ns: u64) -> usize {
        let Some(measured) = self.templates.get(template) else { return MERGED_QUERIES_MAX };
        let mut least = u64::MAX;
        for (class, costs) in measured.classes.iter().enumerate() {
            if costs.is_outgrown(now_ns) || costs.cost(RUNS_SURE, now_ns).is_some_and(|cost| is_dearer(cost, least)) {
                return ((1 << class) - 1).max(1);
            }
            least = least.min(costs.cost(RUNS_COMPARED, now_ns).unwrap_or(u64::MAX));
        }
        MERGED_QUERIES_MAX
    }

    /// Whether not even one query's rows are few enough to be kept, as far as is known.
    pub fn is_outgrown(&self, template: &Signature, now_ns: u64) -> bool {
        self.templates.get(template).is_some_and(|measured| measured.classes[0].is_outgrown(now_ns))
    }

    /// What a run for one query of the template has cost, in nanoseconds of work.
    pub fn alone_ns(&self, template: &Signature) -> Option<u64> {
        self.templates.get(template)?.classes[0].runs.iter().flatten().map(|measured| measured.cost_ns).min()
    }

    /// Bytes that the groups of one query of the template have at most, by the last two runs.
    pub fn groups_bytes(&self, template: &Signature) -> Option<usize> {
        self.templates.get(template)?.groups_bytes.into_iter().flatten().max()
    }

    /// Notes how many bytes the groups of one query had.
    pub fn note_groups(&mut self, template: &Signature, bytes: usize) {
        let measured = self.of(template);
        measured.groups_bytes = [Some(bytes), measured.groups_bytes[0]];
    }

    /// Notes that a run for so many queries has worked for so long.
    pub fn note(&mut self, template: &Signature, queries: usize, worked_ns: u64, now_ns: u64) {
        let measured = Measured { cost_ns: worked_ns / queries.max(1) as u64, at_ns: now_ns };
        let class = self.class(template, queries);
        class.runs.rotate_right(1);
        class.runs[0] = Some(measured);
        class.outgrown_ns = None;
    }

    /// Notes that one of so many queries has worked for so long over the state of their run.
    pub fn note_own(&mut self, template: &Signature, queries: usize, worked_ns: u64, now_ns: u64) {
        let class = self.class(template, queries);
        let before = class.own.filter(|own| own.is_fresh(now_ns)).map_or(worked_ns, |own| own.cost_ns);
        let cost_ns = before - before / AVERAGE_DIVISOR + worked_ns / AVERAGE_DIVISOR;
        class.own = Some(Measured { cost_ns, at_ns: now_ns });
    }

    /// Notes that the rows of a run for so many queries were too many to be kept.
    pub fn note_outgrown(&mut self, template: &Signature, queries: usize, now_ns: u64) {
        self.class(template, queries).outgrown_ns = Some(now_ns);
    }

    fn class(&mut self, template: &Signature, queries: usize) -> &mut Class {
        &mut self.of(template).classes[queries.clamp(1, MERGED_QUERIES_MAX).ilog2() as usize]
    }

    fn of(&mut self, template: &Signature) -> &mut Measurements {
        if self.templates.len() >= TEMPLATES_MAX && !self.templates.contains_key(template) {
            self.templates.clear();
        }
        self.templates.entry(template.clone()).or_default()
    }
}

impl Class {
    fn is_outgrown(&self, now_ns: u64) -> bool {
        self.outgrown_ns.is_some_and(|at_ns| is_within(OUTGROWN, at_ns, now_ns))
    }

    /// What a query of such a batch costs, if so many runs have been measured: its part of the middle one of the last,
    /// and what it makes of the state.
    fn cost(&self, runs_min: usize, now_ns: u64) -> Option<u64> {
        let fresh = |measured: &Measured| measured.is_fresh(now_ns).then_some(measured.cost_ns);
        let mut runs: Vec<u64> = self.runs.iter().flatten().filter_map(fresh).collect();
        if runs.len() < runs_min {
            return None;
        }
        runs.sort_unstable();
        Some(runs[(runs.len() - 1) / 2] + self.own.as_ref().and_then(fresh).unwrap_or(0))
    }
}

impl Measured {
    fn is_fresh(&self, now_ns: u64) -> bool {
        is_within(FRESH, self.at_ns, now_ns)
    }
}

fn is_within(duration: Duration, at_ns: u64, now_ns: u64) -> bool {
    u128::from(now_ns.saturating_sub(at_ns)) < duration.as_nanos()
}

fn is_dearer(cost_ns: u64, than_ns: u64) -> bool {
    u128::from(cost_ns) * 100 > u128::from(than_ns) * u128::from(DEARER_PERCENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn noted(runs: &[(usize, u64)]) -> (Together, Signature) {
        let (mut together, template) = (Together::default(), Signature::of_text("t"));
        for (queries, cost_ns) in runs {
            together.note(&template, *queries, cost_ns * *queries as u64, 0);
        }
        (together, template)
    }

    /// Each of these runs so often.
    fn times(count: usize, runs: &[(usize, u64)]) -> (Together, Signature) {
        noted(&runs.iter().flat_map(|run| std::iter::repeat_n(*run, count)).collect::<Vec<_>>())
    }

    #[test]
    fn nothing_is_limited_without_evidence() {
        let (together, template) = noted(&[]);
        assert_eq!(together.limit(&template, 0), 64);
        let (together, template) = noted(&[(1, 100), (1, 100), (20, 500), (20, 500), (64, 20), (64, 20), (64, 20)]);
        assert_eq!(together.limit(&template, 0), 64, "two dear runs may be chance");
        let (together, template) = noted(&[(1, 10), (20, 500), (20, 500), (20, 500)]);
        assert_eq!(together.limit(&template, 0), 64, "so may a cheap one");
    }

    #[test]
    fn larger_batches_that_cost_more_are_avoided_for_some_time() {
        let (together, template) = times(3, &[(1, 100), (3, 50), (9, 20), (20, 30)]);
        assert_eq!(together.limit(&template, SECOND), 15);
        assert_eq!(together.limit(&template, 31 * SECOND), 64);
        let (together, template) = times(3, &[(1, 100), (2, 126)]);
        assert_eq!(together.limit(&template, SECOND), 1);
        let (together, template) = times(3, &[(1, 100), (2, 125)]);
        assert_eq!(together.limit(&template, SECOND), 64, "as much is not more");
    }

    #[test]
    fn a_run_unlike_the_others_changes_nothing() {
        let (mut together, template) = times(RUNS, &[(1, 100), (20, 90)]);
        for odd in [10_000, 1] {
            for queries in [1, 20] {
                together.note(&template, queries, odd * queries as u64, 0);
                assert_eq!(together.limit(&template, 0), 64, "{odd} of {queries}");
                (0..RUNS).for_each(|_| together.note(&template, 1, 100, 0));
                (0..RUNS).for_each(|_| together.note(&template, 20, 90 * 20, 0));
            }
        }
    }

    #[test]
    fn what_queries_make_of_their_states_counts() {
        let (mut together, template) = times(3, &[(1, 1000), (10, 100)]);
        assert_eq!(together.limit(&template, 0), 64);
        together.note_own(&template, 10, 1200, 0);
        assert_eq!(together.limit(&template, 0), 7);
        together.note_own(&template, 1, 100, 0);
        assert_eq!(together.limit(&template, 0), 64, "so do lone ones");
        // One of many is not yet the average.
        together.note_own(&template, 10, 1600, 0);
        assert_eq!(together.limit(&template, 0), 64);
        (0..20).for_each(|_| together.note_own(&template, 10, 1600, 0));
        assert_eq!(together.limit(&template, 0), 7);
        assert_eq!(together.limit(&template, 31 * SECOND), 64);
        assert_eq!(together.alone_ns(&template), Some(1000), "of the run alone");
    }

    #[test]
    fn what_outgrew_is_avoided_and_tried_again() {
        let (mut together, template) = noted(&[(1, 100)]);
        together.note_outgrown(&template, 40, 0);
        assert_eq!(together.limit(&template, 59 * SECOND), 31);
        assert!(!together.is_outgrown(&template, 0));
        assert_eq!(together.limit(&template, 61 * SECOND), 64);
        together.note_outgrown(&template, 1, 61 * SECOND);
        assert!(together.is_outgrown(&template, 62 * SECOND));
        assert_eq!(together.limit(&template, 62 * SECOND), 1);
        together.note(&template, 1, 100, 63 * SECOND);
        assert!(!together.is_outgrown(&template, 63 * SECOND));
    }

    #[test]
    fn groups_are_as_many_as_in_the_last_two_runs() {
        let (mut together, template) = noted(&[(1, 100)]);
        assert_eq!(together.groups_bytes(&template), None);
        for (bytes, expected) in [(70, 70), (50, 70), (60, 60)] {
            together.note_groups(&template, bytes);
            assert_eq!(together.groups_bytes(&template), Some(expected));
        }
    }

    #[test]
    fn templates_are_forgotten_before_they_become_many() {
        let mut together = Together::default();
        for number in 0..3 * TEMPLATES_MAX {
            together.note(&Signature::of_text(&number.to_string()), 1, 1, 0);
            assert!(together.templates.len() <= TEMPLATES_MAX);
        }
    }
}
