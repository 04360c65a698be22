//! Where the rows of a table are by a key: what finds them, and what keeps keys unique.
//!
//! An index is a list of [runs](Run). A change adds a run and merges it with those that are not much longer, so a
//! version has few, and shares most with the version before. An entry counts only if its row is in the version; so
//! nothing is taken out when a row goes, and a run is good for every version that comes after it. A row keeps its key
//! as long as it keeps its number, so an entry's row need not be read to see that it has the key.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use diligence_base::{Error, Result};
use diligence_memory::Reservation;

use crate::keys::SortedKeys;
use crate::rules::Key;
use crate::run::{Bound, Run};

/// A run is merged with the one before it unless that is longer by this factor.
const RUN_GROWTH: usize = 4;
/// A lookup of many keys goes along a run instead of searching in it, if there are more than one for so many entries.
const ENTRIES_PER_SEARCH: usize = 32;

/// Entries are thrown away once they are twice as many as the rows and so many.
const REST_ROWS: usize = 4096;

/// A table's rows by one key, in one version.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyIndex {
    runs: Vec<Arc<Run>>,
    use_counts: Arc<UseCounts>,
    /// Why it lacks rows: a file was damaged when the database was opened. Then it finds none.
    broken: Option<Error>,
}

/// How often the versions of an index were used since the database was opened.
#[derive(Debug, Default)]
pub(crate) struct UseCounts {
    scans: AtomicU64,
    rows: AtomicU64,
}

/// What is known of an index.
#[derive(Clone, Debug)]
pub struct IndexState<'a> {
    /// What it is an index of.
    pub key: &'a Key,
    /// How many entries it has, those of rows that are gone included.
    pub entries: usize,
    /// How many runs they are in.
    pub runs: usize,
    /// Bytes in memory.
    pub bytes: usize,
    /// How many scans have found rows by it since the database was opened.
    pub scans: u64,
    /// How many rows they have found.
    pub rows_found: u64,
    /// Whether it lacks rows, because a file was damaged.
    pub is_broken: bool,
}

/// Keys from a bound to another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyRange {
    pub(crate) from: Bound,
    pub(crate) to: Bound,
}

/// Where the keys of some ranges are in an index.
pub(crate) struct Found<'a> {
    index: &'a KeyIndex,
    /// Of which run, from which entry to which; by range.
    spans: Vec<Vec<(usize, usize, usize)>>,
    entries: usize,
}

impl KeyIndex {
    /// One of these runs, in the place of another one that may have been used.
    pub(crate) fn of_runs(runs: Vec<Arc<Run>>, before: Option<&Self>) -> Self {
        let use_counts = before.map(|before| before.use_counts.clone()).unwrap_or_default();
        Self { runs, use_counts, broken: None }
    }

    /// One of rows that could not be read.
    pub(crate) fn broken(error: Error) -> Self {
        Self { broken: Some(error), ..Self::default() }
    }

    /// One without entries, in the place of this one.
    pub(crate) fn emptied(&self) -> Self {
        Self::of_runs(Vec::new(), Some(self))
    }

    /// Whether it lacks rows.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// Fails with kind `File`, and code XX001, if it lacks rows.
    pub(crate) fn check(&self) -> Result<()> {
        match &self.broken {
            None => Ok(()),
            Some(error) => {
                let hint = "restore the file from a backup; until then no rows are added to the table";
                Err(error.clone().with_hint(hint))
            }
        }
    }

    /// The numbers of rows that have a key, if they are there.
    pub(crate) fn candidates(&self, key: &[u8]) -> Vec<i64> {
        let mut numbers = Vec::new();
        self.runs.iter().for_each(|run| run.find(key, |number| numbers.push(number)));
        numbers
    }

    /// Calls `meet` with every row number that has one of these keys, of those that no other row may have, and with the
    /// key's place among them.
    pub(crate) fn meet(&self, keys: &SortedKeys<'_>, mut meet: impl FnMut(i64, usize)) {
        for run in &self.runs {
            if keys.len() * ENTRIES_PER_SEARCH < run.len() {
                for (place, key) in keys.compared() {
                    run.find(&key, |number| meet(number, place));
                }
                continue;
            }
            run.find_all(keys.compared(), &mut meet);
        }
    }

    /// Where the keys of these ranges are.
    pub(crate) fn find(&self, ranges: &[KeyRange]) -> Found<'_> {
        let mut entries = 0;
        let spans = ranges.iter().map(|KeyRange { from, to }| {
            let spans = self.runs.iter().enumerate().filter_map(|(place, run)| {
                let first = run.before(&from.bytes, from.is_behind);
                let end = run.before(&to.bytes, to.is_behind);
                entries += end.saturating_sub(first);
                (first < end).then_some((place, first, end))
            });
            spans.collect()
        });
        let spans = spans.collect();
        Found { index: self, spans, entries }
    }

    /// Calls `meet` with the keys of a range and the numbers of their rows, in order or in the opposite one, until it
    /// says false.
    pub(crate) fn walk(&self, range: &KeyRange, descending: bool, mut meet: impl FnMut(&[u8], i64) -> bool) {
        let KeyRange { from, to } = range;
        let spans = self.runs.iter().map(|run| {
            let (first, end) = (run.before(&from.bytes, from.is_behind), run.before(&to.bytes, to.is_behind));
            let mut key = Vec::new();
            let at = if descending { end.saturating_sub(1) } else { first };
            (first < end).then(|| (run.entry(at, &mut key), key, run, first, end))
        });
        let mut spans = spans.flatten().collect::<Vec<_>>();
        loop {
            let next = spans.iter().enumerate();
            let next = match descending {
                false => next.min_by(|(_, left), (_, right)| (&left.1, left.0).cmp(&(&right.1, right.0))),
                true => next.max_by(|(_, left), (_, right)| (&left.1, left.0).cmp(&(&right.1, right.0))),
            };
            let Some(next) = next.map(|(place, _)| place) else { return };
            let (number, key, run, first, end) = &mut spans[next];
            if !meet(key, *number) {
                return;
            }
            if descending {
                *end -= 1
            } else {
                *first += 1
            }
            if first == end {
                spans.swap_remove(next);
                continue;
            }
            *number = run.entry(if descending { *end - 1 } else { *first }, key);
        }
    }

    /// A scan has found so many rows.
    pub(crate) fn count_use(&self, rows: usize) {
        self.use_counts.scans.fetch_add(1, Ordering::Relaxed);
        self.use_counts.rows.fetch_add(rows as u64, Ordering::Relaxed);
    }

    /// The index with more entries. Fails with kind `Resource` if there is no memory for them.
    pub(crate) fn with(&self, keys: &SortedKeys<'_>, memory: &Reservation) -> Result<Self> {
        if self.is_broken() {
            return Ok(self.clone());
        }
        let Some(run) = keys.run(memory)? else { return Ok(self.clone()) };
        let mut index = self.clone();
        let mut merged = vec![Arc::new(run)];
        let mut entries = keys.len();
        while let Some(last) = index.runs.pop_if(|last| last.len() < entries * RUN_GROWTH) {
            entries += last.len();
            merged.push(last);
        }
        index.runs.extend(match merged.len() {
            1 => merged.pop(),
            _ => Run::merged(&merged, memory, None)?.map(Arc::new),
        });
        Ok(index)
    }

    /// The index without entries of rows that `is_there` denies. Fails with kind `Resource` if memory is short.
    pub(crate) fn swept(&self, memory: &Reservation, is_there: &dyn Fn(i64) -> bool) -> Result<Self> {
        let runs = Run::merged(&self.runs, memory, Some(is_there))?;
        Ok(Self::of_runs(runs.into_iter().map(Arc::new).collect(), Some(self)))
    }

    /// Whether most of its rows are gone, where so many rows are there.
    pub(crate) fn is_mostly_gone(&self, rows: usize) -> bool {
        !self.is_broken() && self.len() > 2 * rows + REST_ROWS
    }

    /// How many entries it has, those of rows that are gone included.
    pub(crate) fn len(&self) -> usize {
        self.runs.iter().map(|run| run.len()).sum()
    }

    /// Its state, for people.
    pub(crate) fn state<'a>(&self, key: &'a Key) -> IndexState<'a> {
        IndexState {
            key,
            entries: self.len(),
            runs: self.runs.len(),
            bytes: self.runs.iter().map(|run| run.bytes()).sum(),
            scans: self.use_counts.scans.load(Ordering::Relaxed),
            rows_found: self.use_counts.rows.load(Ordering::Relaxed),
            is_broken: self.is_broken(),
        }
    }
}

impl Found<'_> {
    /// How many entries there are, those of rows that are gone included.
    pub(crate) fn entries(&self) -> usize {
        self.entries
    }

    /// The numbers of the rows, in order, each once; also of rows that are gone. It counts as a use.
    pub(crate) fn numbers(&self) -> Vec<i64> {
        let mut numbers = Vec::with_capacity(self.entries);
        for (place, from, to) in self.spans.iter().flatten() {
            self.index.runs[*place].numbers(*from, *to, |number| {
                numbers.push(number);
                true
            });
        }
        if !numbers.is_sorted() {
            numbers.sort_unstable();
        }
        numbers.dedup();
        self.index.count_use(numbers.len());
        numbers
    }
}
