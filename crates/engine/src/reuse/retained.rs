//! States that are kept when their readers have ended, for queries that come later.
//!
//! A state is kept while the tables that it was made of stand: a signature names them by values, and tells whether
//! anybody holds such rows; when nobody does, no later query can read them. What is kept is memory that no query needs.
//! Whoever is short has it dropped, at once ([`Broker::add_spare`]); together the states have a part of the budget at
//! most.
//!
//! What goes first is what saves least: the *value* of a state is the work that it cost, times the queries that have
//! used it, for each of its bytes. A state that was valuable long ago must not stay for ever, so values rise with time:
//! each is counted from the value of what was dropped last (GreedyDual-Size with frequency: Cao & Irani, "Cost-Aware
//! WWW Proxy Caching Algorithms", USITS 1997, section 4; Cherkasova, "Improving WWW Proxies Performance with
//! Greedy-Dual-Size-Frequency Caching Policy", HP Labs 1998).
//!
//! Invariants:
//! * A retained state holds no table, no run and no grant, and its bytes are in no query's account.
//! * No lock is held while rows are dropped: that may wake whoever waits for memory.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Poll, Waker};

use diligence_base::Result;
use diligence_base::limits::RETAINED_STATES_MAX;
use diligence_base::seams::Clock;
use diligence_memory::{Broker, QueryMemory, Reclaim};

use super::lendable::Lendable;
use super::{BuildInfo, SharedRows, SharingInfo};
use crate::matching::merge::Portion;
use crate::matching::shape::Shape;
use crate::matching::signature::Signature;
use crate::matching::subsumption::Residual;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Latch, Mutex};

/// States that are kept.
static SHELF: Latch = Latch::new("retained states");

/// States that are looked at for one query at most.
pub(crate) const CANDIDATES_MAX: usize = 32;

/// All states that are kept.
pub(crate) struct Retained {
    memory: QueryMemory,
    broker: Arc<Broker>,
    clock: Arc<dyn Clock>,
    percent: AtomicUsize,
    shelf: Mutex<Shelf>,
}

#[derive(Default)]
struct Shelf {
    entries: HashMap<EntryId, RetainedEntry>,
    entries_made: u64,
    by_signature: HashMap<Signature, EntryId>,
    /// By what their rows are of.
    by_core: HashMap<Signature, Vec<EntryId>>,
    bytes: usize,
    /// The value of what was dropped last.
    floor: f64,
    hits_total: u64,
    subsumed_total: u64,
    drops_total: u64,
    closed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct EntryId(u64);

/// What is kept.
pub(crate) enum Asset {
    Rows(Arc<SharedRows>),
    /// A hash table, which counts as a shared state already.
    Table(Arc<dyn Lendable>),
}

struct RetainedEntry {
    asset: Asset,
    /// The queries that it answers.
    queries: Vec<Query>,
    uses: u64,
    value: f64,
    kept: Kept,
}

/// One of the queries that a state answers.
pub(crate) struct Query {
    pub exact: Signature,
    /// What it gives, if that can be said.
    pub shape: Option<Arc<Shape>>,
    /// Its part, if the state is of several.
    pub portion: Option<Portion>,
}

impl Query {
    fn core(&self) -> Option<&Signature> {
        self.shape.as_ref().map(|shape| &shape.core)
    }
}

/// A state to be kept.
#[derive(Clone)]
pub(crate) struct Kept {
    /// Nanoseconds of work in which it was built.
    pub cost_ns: u64,
    /// When it was complete.
    pub since_ns: u64,
    /// A statement that it was built for.
    pub label: String,
}

/// A state that a query can read.
pub(crate) struct Hit {
    pub state: Arc<SharedRows>,
    pub portion: Option<Portion>,
    /// Queries that have read it since it was built, this one included.
    pub uses: u64,
    pub kept: Kept,
}

impl Asset {
    fn bytes(&self) -> usize {
        match self {
            Asset::Rows(state) => state.bytes(),
            Asset::Table(table) => table.bytes(),
        }
    }

    fn readers(&self) -> usize {
        let holders = match self {
            Asset::Rows(state) => Arc::strong_count(state),
            Asset::Table(table) => Arc::strong_count(table),
        };
        holders - 1
    }
}

impl RetainedEntry {
    fn is_read(&self) -> bool {
        self.asset.readers() > 0
    }

    /// Its rows, if they are that.
    fn rows(&self) -> Option<&Arc<SharedRows>> {
        match &self.asset {
            Asset::Rows(state) => Some(state),
            Asset::Table(_) => None,
        }
    }

    fn used(&mut self, floor: f64) {
        self.uses += 1;
        self.value = floor + self.saved();
    }

    /// Whether a query can still ask for it.
    fn stands(&self) -> bool {
        self.queries.iter().any(|query| query.exact.tables_stand())
    }

    fn hit(&mut self, floor: f64, portion: Option<Portion>) -> Option<Hit> {
        let state = self.rows()?.clone();
        self.used(floor);
        Some(Hit { state, portion, uses: self.uses, kept: self.kept.clone() })
    }

    /// Nanoseconds saved for each byte.
    fn saved(&self) -> f64 {
        self.kept.cost_ns as f64 * (self.uses + 1) as f64 / self.asset.bytes().max(1) as f64
    }
}

impl Shelf {
    /// The state with the fewest rows that has what a plan of this shape gives.
    fn more(&self, wanted: &Shape, rows_max: usize) -> Option<(EntryId, Option<Portion>, Residual)> {
        let ids = self.by_core.get(&wanted.core)?.iter().rev().take(CANDIDATES_MAX);
        let entries = ids.filter_map(|id| Some((*id, self.entries.get(id)?)));
        let entries = entries.filter_map(|(id, entry)| Some((id, entry, entry.rows()?.rows())));
        let entries = entries.filter(|(.., rows)| *rows <= rows_max);
        let queries = entries.flat_map(|(id, entry, rows)| entry.queries.iter().map(move |query| (id, rows, query)));
        let fitting = queries.filter_map(|(id, rows, query)| {
            let residual = Residual::of(query.shape.as_ref()?, query.portion.is_some(), wanted)?;
            Some((rows, (id, query.portion, residual)))
        });
        fitting.min_by_key(|(rows, _)| *rows).map(|(_, found)| found)
    }

    fn remove(&mut self, id: EntryId) -> Option<RetainedEntry> {
        let entry = self.entries.remove(&id)?;
        self.bytes -= entry.asset.bytes();
        for core in entry.queries.iter().filter_map(Query::core) {
            if let Some(entries) = self.by_core.get_mut(core) {
                entries.retain(|other| *other != id);
                if entries.is_empty() {
                    self.by_core.remove(core);
                }
            }
        }
        for query in &entry.queries {
            if self.by_signature.get(&query.exact) == Some(&id) {
                self.by_signature.remove(&query.exact);
            }
        }
        Some(entry)
    }

    /// Takes away the least valuable states until at most `bytes` are kept, and no more than `entries`; of those that
    /// are read at the moment, whose bytes come back later, only if `also_read`.
    fn shrink(&mut self, bytes: usize, entries: usize, also_read: bool) -> Vec<RetainedEntry> {
        let mut gone = Vec::new();
        if self.bytes <= bytes && self.entries.len() <= entries {
            return gone;
        }
        let choices = self.entries.iter().filter(|(_, entry)| also_read || !entry.is_read());
        let mut choices: Vec<_> = choices.map(|(id, entry)| (entry.value, *id)).collect();
        choices.sort_by(|left, right| left.0.total_cmp(&right.0).then(left.1.cmp(&right.1)));
        for (value, id) in choices {
            if self.bytes <= bytes && self.entries.len() <= entries {
                break;
            }
            self.floor = self.floor.max(value);
            gone.extend(self.remove(id));
        }
        self.drops_total += gone.len() as u64;
        gone
    }

    /// Takes away what was made of tables that have changed since.
    fn sweep(&mut self) -> Vec<RetainedEntry> {
        let fallen = self.entries.iter().filter(|(_, entry)| !entry.stands()).map(|(id, _)| *id);
        let fallen: Vec<_> = fallen.collect();
        self.drops_total += fallen.len() as u64;
        fallen.into_iter().filter_map(|id| self.remove(id)).collect()
    }
}

impl Retained {
    /// Nothing yet. States may have so many percent of the budget.
    pub fn new(broker: &Arc<Broker>, clock: Arc<dyn Clock>, percent: usize) -> Arc<Self> {
        let percent = AtomicUsize::new(percent);
        let memory = broker.retained_account();
        let retained = Arc::new(Self {
            memory,
            broker: broker.clone(),
            clock,
            percent,
            shelf: Mutex::named(&SHELF, Shelf::default()),
        });
        let spare: Arc<dyn Reclaim> = retained.clone();
        broker.add_spare(Arc::downgrade(&spare));
        retained
    }

    /// The account that they are in.
    pub(crate) fn memory(&self) -> &QueryMemory {
        &self.memory
    }

    pub fn percent(&self) -> usize {
        self.percent.load(Ordering::Relaxed)
    }

    /// Changes the part of the budget; with 0, nothing is kept, and nothing that was kept is read.
    pub fn set_percent(&self, percent: usize) {
        self.percent.store(percent, Ordering::Relaxed);
        let gone = self.shelf.lock().shrink(self.bytes_max(), RETAINED_STATES_MAX, true);
        drop(gone);
    }

    fn bytes_max(&self) -> usize {
        self.broker.budget_bytes() / 100 * self.percent()
    }

    pub fn is_on(&self) -> bool {
        self.percent() > 0
    }

    /// The state that answers exactly this.
    pub(crate) fn find(&self, wanted: &Signature) -> Option<Hit> {
        self.look_up(wanted, |entry, floor| {
            let portion = entry.queries.iter().find(|query| query.exact == *wanted)?.portion;
            entry.hit(floor, portion)
        })
    }

    /// The hash table that this stands for.
    pub(crate) fn find_table(&self, wanted: &Signature) -> Option<Arc<dyn Lendable>> {
        self.look_up(wanted, |entry, floor| {
            let Asset::Table(table) = &entry.asset else { return None };
            let table = table.clone();
            entry.used(floor);
            Some(table)
        })
    }

    /// Reads what is kept under a signature, with the value of what was dropped last.
    fn look_up<T>(&self, wanted: &Signature, read: impl FnOnce(&mut RetainedEntry, f64) -> Option<T>) -> Option<T> {
        if !self.is_on() {
            return None;
        }
        let mut shelf = self.shelf.lock();
        let id = *shelf.by_signature.get(wanted)?;
        let floor = shelf.floor;
        let found = read(shelf.entries.get_mut(&id)?, floor)?;
        shelf.hits_total += 1;
        Some(found)
    }

    /// A state that has what a plan of this shape gives, and more, and what is to be made of it: the one with the
    /// fewest rows, and none with more than `rows_max`.
    pub(crate) fn find_more(&self, wanted: &Shape, rows_max: usize) -> Option<(Hit, Residual)> {
        let mut shelf = self.shelf.lock();
        let (id, portion, residual) = shelf.more(wanted, rows_max).filter(|_| self.is_on())?;
        let floor = shelf.floor;
        let hit = shelf.entries.get_mut(&id)?.hit(floor, portion)?;
        shelf.hits_total += 1;
        shelf.subsumed_total += 1;
        Some((hit, residual))
    }

    /// Whether [`find`](Self::find) would find one.
    pub(crate) fn has(&self, wanted: &Signature) -> bool {
        self.is_on() && self.shelf.lock().by_signature.contains_key(wanted)
    }

    /// What is to be made of what [`find_more`](Self::find_more) would find.
    pub(crate) fn more(&self, wanted: &Shape, rows_max: usize) -> Option<Residual> {
        let found = self.shelf.lock().more(wanted, rows_max)?;
        self.is_on().then_some(found.2)
    }

    /// Keeps a state that was built for these queries, if there is room and nobody waits for memory.
    pub(crate) fn keep(&self, asset: Asset, queries: Vec<Query>, kept: Kept) {
        let bytes_max = self.bytes_max();
        let are_watched = queries.iter().all(|query| query.exact.tables_are_watched());
        let bytes = asset.bytes();
        if queries.is_empty() || !are_watched || bytes > bytes_max || self.broker.is_wanted() {
            return;
        }
        if let Asset::Rows(state) = &asset {
            state.belongs_to(&self.memory);
        }
        let gone = {
            let mut shelf = self.shelf.lock();
            if shelf.closed {
                return;
            }
            let mut gone = shelf.sweep();
            let id = EntryId(shelf.entries_made);
            shelf.entries_made += 1;
            for query in &queries {
                if let Some(core) = query.core() {
                    let entries = shelf.by_core.entry(core.clone()).or_default();
                    if entries.last() != Some(&id) {
                        entries.push(id);
                    }
                }
                // The same again, built at the same time: the later one stays.
                if let Some(other) = shelf.by_signature.insert(query.exact.clone(), id)
                    && let Some(entry) = shelf.entries.get_mut(&other)
                {
                    entry.queries.retain(|entry| entry.exact != query.exact);
                    if entry.queries.is_empty() {
                        gone.extend(shelf.remove(other));
                    }
                }
            }
            shelf.bytes += bytes;
            let mut entry = RetainedEntry { asset, queries, uses: 0, value: 0.0, kept };
            entry.value = shelf.floor + entry.saved();
            shelf.entries.insert(id, entry);
            gone.extend(shelf.shrink(bytes_max, RETAINED_STATES_MAX, true));
            gone
        };
        drop(gone);
        // Somebody who came to wait meanwhile did not see it; whoever comes later does.
        if self.broker.is_wanted() {
            self.drop_some(bytes);
        }
    }

    /// Drops states of so many bytes, if there are: those that nobody reads first.
    fn drop_some(&self, bytes: usize) {
        let gone = {
            let mut shelf = self.shelf.lock();
            let left = shelf.bytes.saturating_sub(bytes);
            let mut gone = shelf.sweep();
            for also_read in [false, true] {
                gone.extend(shelf.shrink(left, RETAINED_STATES_MAX, also_read));
            }
            gone
        };
        drop(gone);
    }

    /// Keeps nothing any more.
    pub fn close(&self) {
        let gone = {
            let mut shelf = self.shelf.lock();
            shelf.closed = true;
            shelf.shrink(0, 0, true)
        };
        drop(gone);
    }

    /// Adds what is kept, and what was, to what people are shown.
    pub fn describe(&self, info: &mut SharingInfo) {
        let now_ns = self.clock.now_ns();
        let (gone, mut rows) = {
            let mut shelf = self.shelf.lock();
            let gone = shelf.sweep();
            (info.retained_hits_total, info.subsumed_total) = (shelf.hits_total, shelf.subsumed_total);
            info.retained_drops_total = shelf.drops_total;
            (info.retained_bytes, info.retained_states) = (shelf.bytes, shelf.entries.len());
            let row = |entry: &RetainedEntry| BuildInfo {
                state: match entry.asset {
                    Asset::Rows(_) => "retained",
                    Asset::Table(_) => "retained table",
                },
                queries: entry.queries.len(),
                readers: entry.asset.readers(),
                elapsed_ns: now_ns.saturating_sub(entry.kept.since_ns),
                bytes: entry.asset.bytes(),
                uses: entry.uses,
                value: entry.saved(),
                label: entry.kept.label.clone(),
            };
            (gone, shelf.entries.values().map(row).collect::<Vec<_>>())
        };
        drop(gone);
        rows.sort_by(|left, right| right.value.total_cmp(&left.value));
        info.builds.extend(rows);
    }
}

impl Reclaim for Retained {
    fn reclaimable_bytes(&self) -> usize {
        self.shelf.lock().bytes
    }

    fn poll_reclaim(&self, bytes: usize, _waker: &Waker) -> Poll<Result<()>> {
        self.drop_some(bytes);
        Poll::Ready(Ok(()))
    }
}
