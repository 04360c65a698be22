//! Where the rows of a table are by a key: what finds them, and what keeps keys unique.
//!
//! An index is a list of [runs](Run). A change adds a run and merges it with those that are not much longer, so a
//! version has few, and shares most with the version before. An entry counts only if its row is in the version; so
//! nothing is taken out when a row goes, and a run is good for every version that comes after it. A row keeps its key
//! as long as it keeps its number, so an entry's row need not be read to see that it has the key.
//!
//! When the runs in memory have become many, a checkpoint writes them to a [key file](diligence_storage::key_file),
//! merged with those files that are not much longer, and without entries of rows that are gone. So an index needs next
//! to no memory, and is there when the database is opened again.
//!
//! Invariant: runs in files are before those in memory, and have all rows whose numbers are smaller than `covered`, and
//! no others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use diligence_base::{Error, Result};
use diligence_memory::Reservation;
use diligence_storage::key_file::KeyFile;

use crate::key_store::KeyStore;
use crate::keys::SortedKeys;
use crate::rules::Key;
use crate::run::{Bound, EntryCursor, Run};
use crate::run_writer::{merged, merged_in_file};

/// A run is merged with the one before it unless that is longer by this factor.
const RUN_GROWTH: usize = 4;
/// A lookup of many keys goes along a run instead of searching in it, if there are more than one for so many entries.
const ENTRIES_PER_SEARCH: usize = 32;

/// Entries are thrown away once they are twice as many as the rows and so many.
const REST_ROWS: usize = 4096;

/// A table's rows by one key, in one version.
#[derive(Clone, Debug)]
pub(crate) struct KeyIndex {
    runs: Vec<Arc<Run>>,
    /// Rows with smaller numbers are in the runs that are in files.
    covered: i64,
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
    /// Bytes in memory, but for what the buffer has of its files.
    pub bytes: usize,
    /// Bytes of its files.
    pub file_bytes: u64,
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

impl Default for KeyIndex {
    fn default() -> Self {
        Self::of_runs(Vec::new(), None)
    }
}

/// Runs of an index that have become one in a file.
#[derive(Clone, Debug)]
pub(crate) struct MovedRuns {
    /// Where they were among the index's runs.
    from: usize,
    before: Vec<Arc<Run>>,
    /// `None` if all of their rows are gone.
    run: Option<Arc<Run>>,
    covered: i64,
}

impl MovedRuns {
    /// Whether there was something left to write.
    pub(crate) fn has_file(&self) -> bool {
        self.run.is_some()
    }
}

impl KeyIndex {
    /// One of these runs in memory, in the place of another one that may have been used.
    pub(crate) fn of_runs(runs: Vec<Arc<Run>>, before: Option<&Self>) -> Self {
        let use_counts = before.map(|before| before.use_counts.clone()).unwrap_or_default();
        Self { runs, covered: i64::MIN, use_counts, broken: None }
    }

    /// One of these runs in files, which have all rows with numbers that are smaller than `covered`.
    pub(crate) fn of_files(runs: Vec<Arc<Run>>, covered: i64) -> Self {
        Self { covered, ..Self::of_runs(runs, None) }
    }

    /// Its files, in the order in which they were written, and the number from which on rows are in none.
    pub(crate) fn files(&self) -> (Vec<Arc<KeyFile>>, i64) {
        (self.runs.iter().filter_map(|run| run.file().cloned()).collect(), self.covered)
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

    /// The numbers of rows that have a key, if they are there. Fails with kind `File` if a file cannot be read.
    pub(crate) fn candidates(&self, key: &[u8]) -> Result<Vec<i64>> {
        let mut numbers = Vec::new();
        self.runs.iter().try_for_each(|run| run.find(key, |number| numbers.push(number)))?;
        Ok(numbers)
    }

    /// Calls `meet` with every row number that has one of these keys, of those that no other row may have, and with the
    /// key's place among them. Fails with kind `File` if a file cannot be read.
    pub(crate) fn meet(&self, keys: &SortedKeys<'_>, mut meet: impl FnMut(i64, usize)) -> Result<()> {
        for run in &self.runs {
            if keys.len() * ENTRIES_PER_SEARCH < run.len() {
                for (place, key) in keys.compared() {
                    run.find(&key, |number| meet(number, place))?;
                }
                continue;
            }
            run.find_all(keys.compared(), &mut meet)?;
        }
        Ok(())
    }

    /// Where the keys of these ranges are. Fails with kind `File` if a file cannot be read.
    pub(crate) fn find(&self, ranges: &[KeyRange]) -> Result<Found<'_>> {
        let (mut entries, mut all) = (0, Vec::with_capacity(ranges.len()));
        for range in ranges {
            let mut spans = Vec::new();
            for (place, run) in self.runs.iter().enumerate() {
                let (first, end) = span(run, range)?;
                entries += end.saturating_sub(first);
                if first < end {
                    spans.push((place, first, end));
                }
            }
            all.push(spans);
        }
        Ok(Found { index: self, spans: all, entries })
    }

    /// Calls `meet` with the keys of a range and the numbers of their rows, in order or in the opposite one, until it
    /// says false. Fails with kind `File` if a file cannot be read.
    pub(crate) fn walk(
        &self,
        range: &KeyRange,
        descending: bool,
        mut meet: impl FnMut(&[u8], i64) -> bool,
    ) -> Result<()> {
        let mut spans = Vec::new();
        for run in &self.runs {
            let (first, end) = span(run, range)?;
            if first < end {
                let cursor = run.cursor(if descending { end - 1 } else { first })?;
                spans.push(Span { cursor, first, end });
            }
        }
        loop {
            let next = spans.iter().enumerate();
            let next = match descending {
                false => next.min_by(|(_, left), (_, right)| left.place().cmp(&right.place())),
                true => next.max_by(|(_, left), (_, right)| left.place().cmp(&right.place())),
            };
            let Some(next) = next.map(|(place, _)| place) else { return Ok(()) };
            let Span { cursor, first, end } = &mut spans[next];
            if !meet(cursor.key(), cursor.number()) {
                return Ok(());
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
            cursor.go_to(if descending { *end - 1 } else { *first })?;
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
        let mut runs = vec![Arc::new(run)];
        let mut entries = keys.len();
        while let Some(last) = index.runs.pop_if(|last| !last.is_fixed() && last.len() < entries * RUN_GROWTH) {
            entries += last.len();
            runs.push(last);
        }
        index.runs.extend(match runs.len() {
            1 => runs.pop(),
            _ => merged(&runs, memory, None)?.map(Arc::new),
        });
        Ok(index)
    }

    /// The index without entries of rows that `is_there` denies; as it is, if some are in files, from which checkpoints
    /// take them. Fails with kind `Resource` if memory is short.
    pub(crate) fn swept(&self, memory: &Reservation, is_there: &dyn Fn(i64) -> bool) -> Result<Self> {
        if self.runs.iter().any(|run| run.is_fixed()) {
            return Ok(self.clone());
        }
        let runs = merged(&self.runs, memory, Some(is_there))?;
        Ok(Self::of_runs(runs.into_iter().map(Arc::new).collect(), Some(self)))
    }

    /// From which run on they become one in a file, in a table of so many rows; `None` if too few entries are in
    /// memory.
    fn moves_from(&self, rows: usize, entries_min: usize) -> Option<usize> {
        let in_memory = self.runs.iter().position(|run| run.file().is_none()).unwrap_or(self.runs.len());
        let has_files = in_memory > 0;
        if self.is_broken() {
            return None;
        }
        if has_files && self.is_worn(rows) {
            return Some(0);
        }
        let mut entries = self.runs[in_memory..].iter().map(|run| run.len()).sum::<usize>();
        if entries < entries_min.max(1) {
            return None;
        }
        let mut from = in_memory;
        while let Some(before) = from.checked_sub(1).filter(|before| self.runs[*before].len() < entries * RUN_GROWTH) {
            entries += self.runs[before].len();
            from = before;
        }
        Some(from)
    }

    /// Has runs that will be moved stay as they are until then.
    pub(crate) fn fix(&self, rows: usize, entries_min: usize) {
        let from = self.moves_from(rows, entries_min).unwrap_or(self.runs.len());
        self.runs[from..].iter().for_each(|run| run.fix());
    }

    /// Writes runs to a file, if so many entries are in memory, or a third of them are of rows that are gone. `covered`
    /// is a number that no row has, nor any that comes before the next one. Fails with kind `File` if it cannot be
    /// written or read, and `Resource` if memory is short.
    pub(crate) fn moved(
        &self,
        store: &dyn KeyStore,
        (rows, entries_min): (usize, usize),
        covered: i64,
        memory: &Reservation,
        is_there: &dyn Fn(i64) -> bool,
    ) -> Result<Option<MovedRuns>> {
        let Some(from) = self.moves_from(rows, entries_min) else { return Ok(None) };
        let before = self.runs[from..].to_vec();
        let run = merged_in_file(&before, memory, store.begin_keys()?, Some(is_there))?.map(Arc::new);
        if let Some(file) = run.as_ref().and_then(|run| run.file()) {
            store.finish_keys(file)?;
        }
        Ok(Some(MovedRuns { from, before, run, covered }))
    }

    /// The index with all that is in memory in a file. Fails as [`moved`](Self::moved).
    pub(crate) fn all_moved(&self, store: &dyn KeyStore, covered: i64, memory: &Reservation) -> Result<Self> {
        let all_rows = self.len();
        Ok(match self.moved(store, (all_rows, 1), covered, memory, &|_| true)? {
            Some(moved) => self.with_moved(&moved),
            None => Self { covered, ..self.clone() },
        })
    }

    /// Bytes of its runs in memory.
    pub(crate) fn bytes_in_memory(&self) -> usize {
        self.runs.iter().filter(|run| run.file().is_none()).map(|run| run.bytes()).sum()
    }

    /// The index with runs in a file, if it still has those that were moved; as it is otherwise.
    pub(crate) fn with_moved(&self, moved: &MovedRuns) -> Self {
        let MovedRuns { from, before, run, covered } = moved;
        let own = self.runs.get(*from..from + before.len());
        let is_same = |own: &[Arc<Run>]| own.iter().zip(before).all(|(own, before)| Arc::ptr_eq(own, before));
        if !own.is_some_and(is_same) {
            return self.clone();
        }
        let mut index = self.clone();
        drop(index.runs.splice(*from..from + before.len(), run.clone()));
        index.covered = *covered;
        index
    }

    /// Whether most of its rows are gone, where so many rows are there.
    pub(crate) fn is_mostly_gone(&self, rows: usize) -> bool {
        !self.is_broken() && self.len() > 2 * rows + REST_ROWS
    }

    /// Whether a third of its entries are of rows that are gone, where so many rows are there: files are written anew
    /// then, as worn clusters of rows are.
    fn is_worn(&self, rows: usize) -> bool {
        !self.is_broken() && 2 * self.len() > 3 * rows + REST_ROWS
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
            file_bytes: self.runs.iter().filter_map(|run| Some(run.file()?.bytes())).sum(),
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

    /// The numbers of the rows, in order, each once; also of rows that are gone. It counts as a use. Fails with kind
    /// `File` if a file cannot be read.
    pub(crate) fn numbers(&self) -> Result<Vec<i64>> {
        let mut numbers = Vec::with_capacity(self.entries);
        for (place, from, to) in self.spans.iter().flatten() {
            self.index.runs[*place].numbers(*from, *to, |number| {
                numbers.push(number);
                true
            })?;
        }
        if !numbers.is_sorted() {
            numbers.sort_unstable();
        }
        numbers.dedup();
        self.index.count_use(numbers.len());
        Ok(numbers)
    }
}

/// Of a run the entries of a range: from which one to which.
fn span(run: &Run, range: &KeyRange) -> Result<(usize, usize)> {
    let KeyRange { from, to } = range;
    Ok((run.before(&from.bytes, from.is_behind)?, run.before(&to.bytes, to.is_behind)?))
}

/// Entries of a run that are still to come, and the next one.
struct Span {
    cursor: EntryCursor,
    first: usize,
    end: usize,
}

impl Span {
    fn place(&self) -> (&[u8], i64) {
        (self.cursor.key(), self.cursor.number())
    }
}
