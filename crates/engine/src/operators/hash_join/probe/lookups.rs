//! Looks the keys of a batch up in a table.
//!
//! Three ways through a batch, the fastest that fits:
//! * no two build rows have the same keys and no condition is left: each row has at most one partner, found in one
//!   pass;
//! * only existence is asked for and no condition is left: one pass, without pairs;
//! * otherwise pairs of rows, at most a batch of them per call, whose keys (where the table compares hashes) and
//!   condition are then tested column by column. Without keys, these are pairs of all rows, or of those in
//!   [ranges](crate::operators::hash_join::table::ranges).

use std::sync::{Arc, Weak};

use arrow::array::Array;
use arrow::buffer::NullBuffer;
use datafusion_common::JoinType;
use diligence_base::{Error, Result};

use super::cross_pairs::{CrossHeld, CrossPairs};
use crate::batch::{Batch, nulls_of, views};
use crate::flow::{Flow, Output};
use crate::operators::hash_join::config::Config;
use crate::operators::hash_join::output::{InWork, needs_held_rows};
use crate::operators::hash_join::table::built::{Built, KeyValues, Lookup};
use crate::operators::hash_join::table::hash_table::{Found, Table, hash_as_word};
use crate::operators::hash_join::table::held::{Bits, Held, ProbeSeen};
use crate::operators::hash_join::table::packing::NO_CODE;
use crate::operators::hash_join::table::ranges::RangeIndex;
use crate::operators::key_words::{KeyColumn, KeyData, hash_rows};
use crate::sync::atomic::Ordering;

/// Looks batches up in a table.
pub(in super::super) struct Lookups {
    config: Arc<Config>,
    seen: Arc<ProbeSeen>,
    batch_rows: usize,
    /// Of the batch being worked on; the vectors are used again for the next.
    keys: Vec<KeyColumn>,
    words: Vec<u64>,
    hashes: Vec<u64>,
    found: Found,
    marked_runs: MarkedRuns,
    pending: Option<Pending>,
}

/// Runs of build rows with equal hashes that are all marked, as seen last: where many rows of both sides have the same
/// key, its run is walked a few times, and not once for each of them.
#[derive(Default)]
struct MarkedRuns {
    /// Whose they are.
    held: Weak<Held>,
    /// Where they begin, each in a place that follows from it.
    positions: Vec<u32>,
}

/// Runs that are remembered.
const MARKED_RUNS: usize = 4096;

impl MarkedRuns {
    /// Forgets what is of another build side.
    fn are_of(&mut self, held: &Arc<Held>) {
        let held = Arc::downgrade(held);
        if !self.held.ptr_eq(&held) {
            self.positions.clear();
            self.positions.resize(MARKED_RUNS, u32::MAX);
            self.held = held;
        }
    }

    /// Whether all rows of a run are marked.
    fn has(&mut self, table: &Table, matched: &Bits, word: u64, position: u32, end: u32, rows: &mut Vec<u32>) -> bool {
        let place = &mut self.positions[position as usize % MARKED_RUNS];
        if *place == position {
            return true;
        }
        let mut next = Some(position);
        while let Some(at) = next {
            rows.clear();
            next = table.run(word, at, end, LOOKED_AT, rows);
            if rows.iter().any(|row| !matched.get(*row as usize)) {
                return false;
            }
        }
        *place = position;
        true
    }
}

/// Rows of a run that are looked at together.
const LOOKED_AT: usize = 16;

/// A batch whose pairs are being made.
struct Pending {
    work: InWork,
    /// The next of `found`, and where in its run to go on.
    candidate: usize,
    position: Option<u32>,
    /// Pairs that are not of equal keys: those of NULLs, in a null-aware join with a condition.
    cross: Vec<CrossPairs>,
}

impl Lookups {
    pub fn new(config: Arc<Config>, seen: Arc<ProbeSeen>, batch_rows: usize) -> Self {
        Self {
            config,
            seen,
            batch_rows: batch_rows.max(1),
            keys: vec![],
            words: vec![],
            hashes: vec![],
            found: Found::default(),
            marked_runs: MarkedRuns::default(),
            pending: None,
        }
    }

    /// Whether a batch is not done with.
    pub fn is_busy(&self) -> bool {
        self.pending.is_some()
    }

    /// Looks up a batch.
    pub fn push(&mut self, built: &Built, input: Batch, out: &mut Output) -> Result<Flow> {
        let Built { held, lookup, .. } = built;
        let config = self.config.clone();
        let pairs = &config.pairs;
        // Without all held rows at hand, that there are none here says nothing.
        if needs_held_rows(pairs.join_type) && held.rows == 0 {
            return Ok(if held.is_complete { Flow::Done } else { Flow::NeedInput });
        }
        if self.probe_has_null(&input)? {
            return Ok(Flow::Done);
        }
        if config.table.keys.is_empty() && held.rows > 0 {
            return self.push_without_keys(input, built, out);
        }
        let Some(table) = &lookup.table else {
            // Only NULLs on the build side, or nothing.
            if needs_held_rows(pairs.join_type) && !(config.table.null_aware && pairs.has_residual()) {
                return Ok(if held.is_complete { Flow::Done } else { Flow::NeedInput });
            }
            if config.table.null_aware {
                return self.begin_pairs(input, built, out);
            }
            if held.later.is_none() {
                pairs.emit_alone(&pairs.shape.probe_part(&input), out)?;
            }
            return Ok(Flow::NeedInput);
        };
        self.look_up(&input, table)?;
        if pairs.is_right_existence() && !pairs.has_residual() && table.packing().is_some() {
            table.find_any(&self.words, &self.hashes, &mut self.found);
            pairs.exist(held, &pairs.shape.probe_part(&input), &self.found.probe, out)?;
            return Ok(Flow::NeedInput);
        }
        table.find(&self.words, &self.hashes, &mut self.found);
        if pairs.has_residual() {
            return self.begin_pairs(input, built, out);
        }
        if table.is_unique() {
            let Found { probe, position, .. } = &mut self.found;
            for (key, values) in self.keys.iter().zip(&lookup.values) {
                compare(key, values, probe, position);
            }
            pairs.emit_unique(held, &pairs.shape.probe_part(&input), probe, position, out)?;
            return Ok(Flow::NeedInput);
        }
        if self.marks_only() && table.packing().is_some() {
            self.mark_runs(held, table);
            return Ok(Flow::NeedInput);
        }
        if pairs.is_right_existence() && self.first_candidates_fit(table, lookup) {
            pairs.exist(held, &pairs.shape.probe_part(&input), &self.found.probe, out)?;
            return Ok(Flow::NeedInput);
        }
        self.begin_pairs(input, built, out)
    }

    /// Whether each row that found candidates has the same keys as the first of them, as is so unless different keys
    /// have the same hash: then the others need not be looked at where one partner is enough.
    fn first_candidates_fit(&self, table: &Table, lookup: &Lookup) -> bool {
        let Found { probe, position, end } = &self.found;
        let mut rows = Vec::with_capacity(probe.len());
        for ((&row, &position), &end) in probe.iter().zip(position).zip(end) {
            table.run(self.words[row as usize], position, end, 1, &mut rows);
        }
        let mut probe = probe.clone();
        for (key, values) in self.keys.iter().zip(&lookup.values) {
            compare(key, values, &mut probe, &mut rows);
        }
        probe.len() == self.found.probe.len()
    }

    /// Each row may have any held row as a partner.
    fn push_without_keys(&mut self, input: Batch, built: &Built, out: &mut Output) -> Result<Flow> {
        let config = self.config.clone();
        let pairs = &config.pairs;
        if !pairs.has_residual() {
            if let Some(matched) = built.held.matched.as_ref().filter(|matched| !matched.get(0)) {
                matched.set_all();
            }
            if self.marks_only() {
                // Nothing more to learn.
                return Ok(Flow::Done);
            }
            if pairs.is_right_existence() {
                let all: Vec<u32> = (0..input.rows() as u32).collect();
                pairs.exist(&built.held, &pairs.shape.probe_part(&input), &all, out)?;
                return Ok(Flow::NeedInput);
            }
        }
        self.begin_pairs(input, built, out)
    }

    /// Goes on with the batch.
    pub fn more(&mut self, built: &Built, out: &mut Output) -> Result<Flow> {
        self.pairs(&built.held, &built.lookup, out)
    }

    /// Whether, of a build row, it only matters that it has a partner.
    fn marks_only(&self) -> bool {
        matches!(self.config.pairs.join_type, JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark)
    }

    /// Whether, in a null-aware join without a condition, nothing can come out any more, as some probe key is NULL.
    pub fn probe_has_null(&self, input: &Batch) -> Result<bool> {
        if !self.config.table.null_aware || self.config.pairs.has_residual() {
            return Ok(false);
        }
        let seen = &self.seen;
        if !seen.row.load(Ordering::Relaxed) {
            seen.row.store(true, Ordering::Relaxed);
        }
        if seen.null.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let key = self.config.only_probe_key(input)?;
        if key.logical_null_count() > 0 {
            seen.null.store(true, Ordering::Relaxed);
            return Ok(true);
        }
        Ok(false)
    }

    /// Computes keys, words and, where needed, hashes.
    fn look_up(&mut self, input: &Batch, table: &Table) -> Result<()> {
        let mut spare = std::mem::take(&mut self.keys).into_iter();
        for key in 0..self.config.table.keys.len() {
            let words = spare.next().map_or(vec![], KeyColumn::into_words);
            self.keys.push(self.config.probe_key(key, input, words)?);
        }
        if table.needs_hashes() {
            hash_rows(&self.keys, &mut self.hashes);
        }
        match table.packing() {
            Some(packing) => packing.pack(&self.keys, &mut self.words),
            None => {
                self.words.clear();
                self.words.extend(self.hashes.iter().map(|&hash| hash_as_word(hash)));
                if !self.config.table.null_equal {
                    for nulls in self.keys.iter().filter_map(|key| key.nulls.as_ref()) {
                        for (word, valid) in self.words.iter_mut().zip(nulls) {
                            *word = if valid { *word } else { NO_CODE };
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Marks the build rows that have a partner. A run whose first row is marked is marked already, or by another
    /// packet at this moment.
    fn mark_runs(&self, held: &Held, table: &Table) {
        let Some(matched) = &held.matched else { return };
        let mut rows = Vec::with_capacity(2 * self.batch_rows);
        for (index, &probe) in self.found.probe.iter().enumerate() {
            let (word, end) = (self.words[probe as usize], self.found.end[index]);
            let before = rows.len();
            let mut next = table.run(word, self.found.position[index], end, 1, &mut rows);
            if matched.get(rows[before] as usize) {
                rows.truncate(before);
                continue;
            }
            while let Some(position) = next {
                next = table.run(word, position, end, self.batch_rows, &mut rows);
                if rows.len() > self.batch_rows {
                    matched.set(&rows);
                    rows.clear();
                }
            }
        }
        matched.set(&rows);
    }

    fn begin_pairs(&mut self, input: Batch, built: &Built, out: &mut Output) -> Result<Flow> {
        let Built { held, lookup, .. } = built;
        if lookup.table.is_none() {
            self.found = Found::default();
        }
        let mut cross = Vec::new();
        if self.config.table.keys.is_empty() {
            let index = self.config.ranges.as_ref().and_then(|spec| {
                let index = lookup.ranges.get_or_init(|| RangeIndex::new(spec, held));
                index.as_ref()?.ranges(&input)
            });
            cross.push(match index {
                Some((some, ranges)) => CrossPairs::new(some, CrossHeld::Ranges(ranges)),
                None => CrossPairs::new((0..input.rows() as u32).collect(), CrossHeld::All(held.rows)),
            });
        } else if self.config.table.null_aware {
            // NOT IN with a condition: a NULL on either side might be equal to anything that fulfils the condition.
            let key = self.config.only_probe_key(&input)?;
            let nulls = key.logical_nulls();
            let is_null = |row: &u32| nulls.as_ref().is_some_and(|nulls| nulls.is_null(*row as usize));
            let (null, other): (Vec<u32>, Vec<u32>) = (0..input.rows() as u32).partition(is_null);
            cross.push(CrossPairs::new(null, CrossHeld::All(held.rows)));
            cross.push(CrossPairs::new(other, CrossHeld::Rows(lookup.null_rows.clone())));
        }
        let work = self.config.pairs.begin(input, self.batch_rows);
        self.pending = Some(Pending { work, candidate: 0, position: None, cross });
        self.pairs(held, lookup, out)
    }

    /// Makes the next pairs.
    fn pairs(&mut self, held: &Arc<Held>, lookup: &Lookup, out: &mut Output) -> Result<Flow> {
        let Some(mut pending) = self.pending.take() else {
            return Err(Error::bug("a join without a batch was asked for more"));
        };
        let (mut probe, mut build) = (Vec::with_capacity(self.batch_rows), Vec::with_capacity(self.batch_rows));
        if let Some(table) = &lookup.table {
            self.fill(held, table, &mut pending, &mut probe, &mut build);
        }
        if self.marks_only()
            && let Some(matched) = &held.matched
        {
            // One partner is enough.
            retain(&mut probe, &mut build, |_, other| !matched.get(other));
        }
        // Of candidates whose hashes are equal, those whose keys are.
        for (key, values) in self.keys.iter().zip(&lookup.values) {
            compare(key, values, &mut probe, &mut build);
        }
        let mut is_done = pending.candidate == self.found.probe.len();
        let mut complete =
            self.found.probe.get(pending.candidate).map_or(pending.work.batch.rows(), |&row| row as usize);
        if is_done {
            for cross in &mut pending.cross {
                if self.config.pairs.is_right_existence() {
                    while cross.next_probe().is_some_and(|row| pending.work.matched[row as usize]) {
                        cross.skip_probe();
                    }
                }
                cross.fill(self.batch_rows, &mut probe, &mut build);
                is_done &= cross.is_done();
            }
            if !is_done {
                // Without keys there is but one list of pairs, and it is in the order of the probe rows.
                let in_order = pending.cross.first().filter(|_| self.config.table.keys.is_empty());
                complete = in_order.and_then(CrossPairs::next_probe).map_or(0, |row| row as usize);
            }
        }
        self.config.pairs.consume(held, &mut pending.work, probe, build, complete, out)?;
        if is_done {
            return Ok(Flow::NeedInput);
        }
        self.pending = Some(pending);
        Ok(Flow::MoreOutput)
    }

    /// Appends pairs of candidates until there is a batch of them.
    fn fill(
        &mut self,
        held: &Arc<Held>,
        table: &Table,
        pending: &mut Pending,
        probe: &mut Vec<u32>,
        build: &mut Vec<u32>,
    ) {
        let unique = table.is_unique();
        let once = self.config.pairs.is_right_existence();
        let marked = held.matched.as_ref().filter(|_| !unique && self.marks_only());
        let mut runs = std::mem::take(&mut self.marked_runs);
        let mut looked_at = Vec::with_capacity(LOOKED_AT);
        if marked.is_some() {
            runs.are_of(held);
        }
        while pending.candidate < self.found.probe.len() && build.len() < self.batch_rows {
            let row = self.found.probe[pending.candidate];
            let first = self.found.position[pending.candidate];
            if unique {
                build.push(first);
                probe.push(row);
                pending.candidate += 1;
                continue;
            }
            if once && pending.work.matched[row as usize] {
                (pending.candidate, pending.position) = (pending.candidate + 1, None);
                continue;
            }
            let word = self.words[row as usize];
            let room = self.batch_rows - build.len();
            let end = self.found.end[pending.candidate];
            if pending.position.is_none()
                && let Some(matched) = marked
                && runs.has(table, matched, word, first, end, &mut looked_at)
            {
                pending.candidate += 1;
                continue;
            }
            pending.position = table.run(word, pending.position.unwrap_or(first), end, room, build);
            probe.resize(build.len(), row);
            if pending.position.is_none() {
                pending.candidate += 1;
            }
        }
        self.marked_runs = runs;
    }
}

/// Keeps the pairs whose values of one key are equal. NULLs, where they come so far, are equal to each other.
fn compare(key: &KeyColumn, values: &KeyValues, probe: &mut Vec<u32>, build: &mut Vec<u32>) {
    match (&key.data, values) {
        (KeyData::Words(words), KeyValues::Words(others, nulls)) => {
            let equal = |row: usize, other: usize| words[row] == others[other];
            retain_equal(probe, build, key.nulls.as_ref(), nulls.as_ref(), equal);
        }
        (KeyData::Bytes(values, _), KeyValues::Bytes(others)) => {
            let buffers = (values.data_buffers(), others.data_buffers());
            let (own, other_views): (&[u128], &[u128]) = (values.views(), others.views());
            let equal = |row: usize, other: usize| views::equal(own[row], buffers.0, other_views[other], buffers.1);
            retain_equal(probe, build, key.nulls.as_ref(), nulls_of(others).as_ref(), equal);
        }
        // Both sides have the same kind of keys.
        _ => retain(probe, build, |_, _| false),
    }
}

#[inline(always)]
fn retain_equal(
    probe: &mut Vec<u32>,
    build: &mut Vec<u32>,
    probe_nulls: Option<&NullBuffer>,
    build_nulls: Option<&NullBuffer>,
    equal: impl Fn(usize, usize) -> bool,
) {
    if probe_nulls.is_none() && build_nulls.is_none() {
        return retain(probe, build, equal);
    }
    let is_null = |nulls: Option<&NullBuffer>, row: usize| nulls.is_some_and(|nulls| nulls.is_null(row));
    retain(probe, build, |row, other| match (is_null(probe_nulls, row), is_null(build_nulls, other)) {
        (false, false) => equal(row, other),
        (left, right) => left && right,
    });
}

/// Keeps the pairs for which a test is true.
#[inline(always)]
fn retain(probe: &mut Vec<u32>, build: &mut Vec<u32>, test: impl Fn(usize, usize) -> bool) {
    let mut kept = 0;
    for pair in 0..probe.len() {
        let (row, other) = (probe[pair], build[pair]);
        let keep = test(row as usize, other as usize);
        (probe[kept], build[kept]) = (row, other);
        kept += keep as usize;
    }
    probe.truncate(kept);
    build.truncate(kept);
}
