//! Hash tables of joins that several queries probe: one query makes the table of its build side, and others with an
//! equal one read it.
//!
//! ```text
//!   nobody has it --> Building (whoever asked first; others wait) --> Here, as long as anybody reads it
//!                        |                                              +--> retained, or gone
//!                        |
//!                        +--> gone, if its query ends before: whoever waits asks again, and one of them begins anew
//! ```
//!
//! A table belongs to the query that made it, and goes to temp space like any other of its query, until it is
//! [lent](Lendable::lend): then it counts as a shared state, stays where it is, and is retained like one. One that
//! was asked for before is retained even if nobody came while it was there.
//!
//! Invariants:
//! * A query asks when everything outside of the table's own part of the plan is there that this part waits for. So
//!   whoever builds a table waits for nobody but those who build tables of parts of that part, and queries cannot wait
//!   in a circle.
//! * Only complete tables in memory are read, and nobody writes to them: which rows have found a partner is noted by
//!   each reader for itself.
//! * No lock is held while a table is lent or dropped, or somebody is woken.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Weak};
use std::task::Waker;

use diligence_base::limits::{SHARED_STATE_BUDGET_PART, SHARED_STATE_BYTES_MAX};
use diligence_base::seams::Clock;
use diligence_memory::Broker;

pub(crate) use super::lendable::{Lendable, Lent};
use super::retained::{Asset, Kept, Query, Retained};
use super::{BuildInfo, SharingInfo};
use crate::matching::parts;
use crate::matching::signature::Signature;
use crate::options::{QueryOptions, SharingMode};
use crate::plan::{HashJoin, estimates};
use crate::sync::{Latch, Mutex};

/// Hash tables of joins that others may read.
static REGISTRY: Latch = Latch::new("join tables");

/// Tables that are remembered for having been built, or for having been too large.
const REMEMBERED_MAX: usize = 1000;

/// Entries above which those of tables that are gone are looked for.
const ENTRIES_MANY: usize = 64;

/// By what the budget is divided for the tables that are lent: they do not go to temp space.
const LENT_BUDGET_PART: usize = 4;

/// The operator that people see them held by.
const LENT_NAME: &str = "Shared tables";

/// How long a table that did not fit counts as one that does not: memory may have been short for a moment only.
const OUTGROWN_NS: u64 = 60_000_000_000;

/// All tables that are or may be shared.
pub(crate) struct Tables {
    retained: Arc<Retained>,
    broker: Arc<Broker>,
    clock: Arc<dyn Clock>,
    registry: Mutex<TableRegistry>,
}

#[derive(Default)]
struct TableRegistry {
    entries: HashMap<Signature, TableEntry>,
    /// These were built before.
    built_before: HashSet<Signature>,
    /// These did not fit, and when that was.
    outgrown: HashMap<Signature, u64>,
    builds_total: u64,
    reads_total: u64,
    /// Nanoseconds of work that was not done because a table was read.
    saved_ns_total: u64,
    closed: bool,
}

enum TableEntry {
    Building(Building),
    Here(Weak<dyn Lendable>),
}

struct Building {
    /// Whose it is.
    claim: u64,
    waiting: Vec<Weak<Ticket>>,
    since_ns: u64,
    label: String,
}

/// What a query is told that asks for a table.
pub(crate) enum Answer {
    /// It is there.
    Table(Arc<dyn Lendable>),
    /// Another query builds it: the waker is woken when it is worth asking again.
    Wait,
    /// The query builds it, for whoever asks meanwhile.
    Build(Claim),
    /// The query builds it for itself.
    Alone,
}

/// What a query waits with: when the table is there, it finds it here, even if the query that made it has ended
/// meanwhile.
#[derive(Default)]
struct Ticket(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    waker: Option<Waker>,
    given: Option<Arc<dyn Lendable>>,
}

impl Ticket {
    fn wake(&self, given: Option<&Arc<dyn Lendable>>) {
        let waker = {
            let mut waiting = self.0.lock();
            waiting.given = given.cloned();
            waiting.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}

/// The right to build a table, until it is built or given up.
pub(crate) struct Claim {
    tables: Arc<Tables>,
    signature: Signature,
    label: String,
    number: u64,
}

impl Tables {
    /// None yet.
    pub fn new(retained: Arc<Retained>, broker: Arc<Broker>, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { retained, broker, clock, registry: Mutex::named(&REGISTRY, TableRegistry::default()) })
    }

    /// Bytes that a table may have at most.
    fn bytes_max(&self) -> usize {
        SHARED_STATE_BYTES_MAX.min(self.broker.budget_bytes() / SHARED_STATE_BUDGET_PART)
    }

    fn ask(self: &Arc<Self>, wanted: &Signature, label: &str, ticket: &Arc<Ticket>, waker: &Waker) -> Answer {
        let given = {
            let mut waiting = ticket.0.lock();
            waiting.waker = Some(waker.clone());
            waiting.given.take()
        };
        if let Some(table) = given {
            self.registry.lock().note_read(table.as_ref());
            return Answer::Table(table);
        }
        loop {
            let table = {
                let mut registry = self.registry.lock();
                if registry.closed || registry.is_outgrown(wanted, self.clock.now_ns()) {
                    return Answer::Alone;
                }
                match registry.entries.get_mut(wanted) {
                    Some(TableEntry::Building(building)) => {
                        let own = Arc::downgrade(ticket);
                        if !building.waiting.iter().any(|other| other.ptr_eq(&own)) {
                            building.waiting.push(own);
                        }
                        return Answer::Wait;
                    }
                    Some(TableEntry::Here(table)) => table.upgrade(),
                    None => None,
                }
            };
            if let Some(table) = table.or_else(|| self.retained.find_table(wanted)) {
                if self.lend(wanted, &table, label) {
                    self.registry.lock().note_read(table.as_ref());
                    return Answer::Table(table);
                }
                if table.is_leaving() {
                    self.forget(wanted, &table);
                    continue;
                }
                // No room for more that does not go to temp space.
                return Answer::Alone;
            }
            let mut registry = self.registry.lock();
            match registry.entries.get(wanted) {
                Some(TableEntry::Building(_)) => continue,
                Some(TableEntry::Here(table)) if table.strong_count() > 0 => continue,
                _ => {}
            }
            registry.builds_total += 1;
            let (number, label) = (registry.builds_total, label.to_owned());
            let building =
                Building { claim: number, waiting: Vec::new(), since_ns: self.clock.now_ns(), label: label.clone() };
            registry.enter(wanted.clone(), TableEntry::Building(building));
            return Answer::Build(Claim { tables: self.clone(), signature: wanted.clone(), label, number });
        }
    }

    /// Has a table count as a shared state from now on, and keeps it. False if it is on its way to temp space, or there
    /// is no room.
    fn lend(&self, signature: &Signature, table: &Arc<dyn Lendable>, label: &str) -> bool {
        let room =
            (self.broker.budget_bytes() / LENT_BUDGET_PART).saturating_sub(self.retained.memory().held_by(LENT_NAME));
        let lent = table.lend(self.retained.memory(), LENT_NAME, room);
        if lent == Lent::Now {
            let query = Query { exact: signature.clone(), shape: None, portion: None };
            let kept = Kept { cost_ns: table.cost_ns(), since_ns: self.clock.now_ns(), label: label.to_owned() };
            self.retained.keep(Asset::Table(table.clone()), vec![query], kept);
        }
        lent != Lent::No
    }

    /// A table is on its way to temp space.
    fn forget(&self, signature: &Signature, gone: &Arc<dyn Lendable>) {
        let mut registry = self.registry.lock();
        if let Some(TableEntry::Here(table)) = registry.entries.get(signature)
            && std::ptr::addr_eq(table.as_ptr(), Arc::as_ptr(gone))
        {
            registry.entries.remove(signature);
        }
    }

    /// Nobody waits for a table any more, nor finds one.
    pub fn close(&self) {
        let waiting = {
            let mut registry = self.registry.lock();
            registry.closed = true;
            std::mem::take(&mut registry.entries)
        };
        waiting.into_values().for_each(|entry| entry.wake(None));
    }

    /// Adds what is shared, and what was, to what people are shown.
    pub fn describe(&self, info: &mut SharingInfo) {
        let now_ns = self.clock.now_ns();
        let registry = self.registry.lock();
        (info.tables_built_total, info.tables_read_total) = (registry.builds_total, registry.reads_total);
        info.saved_ns_total += registry.saved_ns_total;
        let building = registry.entries.values().filter_map(|entry| match entry {
            TableEntry::Building(building) => Some(BuildInfo {
                state: "building table",
                queries: 1,
                readers: 1 + building.waiting.iter().filter(|ticket| ticket.strong_count() > 0).count(),
                elapsed_ns: now_ns.saturating_sub(building.since_ns),
                bytes: 0,
                uses: 0,
                value: 0.0,
                label: building.label.clone(),
            }),
            TableEntry::Here(_) => None,
        });
        info.builds.extend(building);
    }
}

impl TableRegistry {
    /// Whether a table did not fit a short while ago.
    fn is_outgrown(&self, signature: &Signature, now_ns: u64) -> bool {
        self.outgrown.get(signature).is_some_and(|at_ns| now_ns.saturating_sub(*at_ns) < OUTGROWN_NS)
    }

    fn note_read(&mut self, table: &dyn Lendable) {
        self.reads_total += 1;
        self.saved_ns_total += table.cost_ns();
    }

    fn note_outgrown(&mut self, signature: &Signature, now_ns: u64) {
        if self.outgrown.len() >= REMEMBERED_MAX {
            self.outgrown.clear();
        }
        self.outgrown.insert(signature.clone(), now_ns);
    }

    fn note_built(&mut self, signature: &Signature) {
        if self.built_before.len() >= REMEMBERED_MAX {
            self.built_before.clear();
        }
        self.built_before.insert(signature.clone());
    }

    fn enter(&mut self, signature: Signature, entry: TableEntry) {
        if self.entries.len() >= ENTRIES_MANY {
            self.entries.retain(|_, entry| match entry {
                TableEntry::Building(_) => true,
                TableEntry::Here(table) => table.strong_count() > 0,
            });
        }
        self.entries.insert(signature, entry);
    }
}

impl TableEntry {
    /// Those that still wait for it.
    fn tickets(self) -> Vec<Arc<Ticket>> {
        match self {
            TableEntry::Building(building) => building.waiting.iter().filter_map(Weak::upgrade).collect(),
            TableEntry::Here(_) => Vec::new(),
        }
    }

    fn wake(self, given: Option<&Arc<dyn Lendable>>) {
        self.tickets().iter().for_each(|ticket| ticket.wake(given));
    }
}

impl Claim {
    /// The table is complete: whoever waits for it has it now. To be ended when its query has done with it.
    pub fn built(self, table: &Arc<dyn Lendable>) -> Offer {
        let waiting = {
            let mut registry = self.tables.registry.lock();
            let waiting = registry.entries.remove(&self.signature);
            if table.bytes() > self.tables.bytes_max() {
                registry.note_outgrown(&self.signature, self.tables.clock.now_ns());
            } else if !registry.closed {
                registry.enter(self.signature.clone(), TableEntry::Here(Arc::downgrade(table)));
            }
            waiting.map(TableEntry::tickets).unwrap_or_default()
        };
        let is_lent = !waiting.is_empty()
            && table.bytes() <= self.tables.bytes_max()
            && self.tables.lend(&self.signature, table, &self.label);
        waiting.iter().for_each(|ticket| ticket.wake(is_lent.then_some(table)));
        Offer { tables: self.tables.clone(), signature: self.signature.clone(), label: self.label.clone() }
    }

    /// The table is not in memory, or not as a whole: whoever wants it builds one for itself.
    pub fn outgrown(self) {
        self.tables.registry.lock().note_outgrown(&self.signature, self.tables.clock.now_ns());
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let given_up = {
            let mut registry = self.tables.registry.lock();
            let own = registry.entries.get(&self.signature);
            // Of a table that was built, and went, somebody may build another by now.
            let is_own = matches!(own, Some(TableEntry::Building(building)) if building.claim == self.number);
            is_own.then(|| registry.entries.remove(&self.signature)).flatten()
        };
        given_up.into_iter().for_each(|entry| entry.wake(None));
    }
}

/// A table that others may have, as its query sees it.
pub(crate) struct Offer {
    tables: Arc<Tables>,
    signature: Signature,
    label: String,
}

impl Offer {
    /// Its query has done with the table: it is retained if the like was built before.
    pub fn end(self, table: &Arc<dyn Lendable>) {
        let was_built = {
            let mut registry = self.tables.registry.lock();
            let was_built = registry.built_before.contains(&self.signature);
            registry.note_built(&self.signature);
            was_built && !registry.closed && !registry.is_outgrown(&self.signature, self.tables.clock.now_ns())
        };
        if was_built && self.tables.retained.is_on() {
            self.tables.lend(&self.signature, table, &self.label);
        }
    }
}

/// What a query needs to share its tables.
#[derive(Clone)]
pub(crate) struct TableSharing {
    tables: Arc<Tables>,
    options: Arc<QueryOptions>,
}

impl TableSharing {
    /// `None` if a query is not to share them.
    pub fn new(tables: &Arc<Tables>, options: &QueryOptions) -> Option<Self> {
        let is_on = matches!(options.sharing, SharingMode::States | SharingMode::All);
        is_on.then(|| Self { tables: tables.clone(), options: Arc::new(options.clone()) })
    }

    /// What stands for the table of a join that keeps what `keeps` says of its rows; `None` if it is not to be shared:
    /// it would save little, be too large, or cannot be compared.
    pub fn request(&self, join: &HashJoin, keeps: &impl fmt::Debug) -> Option<TableRequest> {
        let rows_min = self.options.sharing_rows_min;
        if parts::rows_touched(&join.left, rows_min) < rows_min {
            return None;
        }
        let row_bytes = estimates::row_bytes(&join.left.schema) + estimates::HASH_ROW_BYTES;
        let bytes = join.left.rows_estimate.map_or(0, |rows| rows.saturating_mul(row_bytes));
        if bytes > self.tables.bytes_max() {
            return None;
        }
        let signature = Signature::table(join, keeps, &self.options)?;
        // Others may change while somebody reads a table made of them.
        signature.tables_are_watched().then(|| TableRequest {
            sharing: self.clone(),
            signature,
            ticket: Arc::default(),
        })
    }
}

/// A table that a query would share.
pub(crate) struct TableRequest {
    sharing: TableSharing,
    signature: Signature,
    ticket: Arc<Ticket>,
}

impl TableRequest {
    /// Asks for it.
    pub fn ask(&self, waker: &Waker) -> Answer {
        self.sharing.tables.ask(&self.signature, &self.sharing.options.label, &self.ticket, waker)
    }

    /// Whether it is there, or being built.
    pub fn is_here(&self) -> bool {
        let tables = &self.sharing.tables;
        let is_here = match tables.registry.lock().entries.get(&self.signature) {
            Some(TableEntry::Building(_)) => true,
            Some(TableEntry::Here(table)) => table.strong_count() > 0,
            None => false,
        };
        is_here || tables.retained.has(&self.signature)
    }
}
