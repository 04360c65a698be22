//! A complete table that several queries probe, and what a join does to have one, or to let others have its own.
//!
//! ```text
//!   begins:  asks --> Table ---> adopts it; the build side's pipelines do not run
//!              ^ `--> Wait       its packet sleeps until it is worth asking again
//!              |  `-> Build ---> runs; then offers what it has built, if that is in memory as a whole
//!              +--- woken
//! ```
//! What readers share nobody writes to. Which rows have found a partner is noted in bits of the reader's own, and the
//! filters for its scans, which watch themselves, are its own as well.
//!
//! Invariant: what pays for a table is given back when its last reader has let go of it, whoever made it. Before it is
//! lent it belongs to the query that made it, and may go to temp space; afterwards it does not.

use std::any::Any;
use std::sync::Arc;
use std::task::Waker;

use arrow::array::ArrayRef;
use arrow::buffer::NullBuffer;
use diligence_base::{Error, Result};

use super::assemble::{Chunk, Filters, key_bounds};
use super::at_rest::AtRest;
use super::emit::marks_held;
use super::held::{Bits, Held};
use super::keys::words_are_ordered;
use super::{Built, Config, Lookup, Shared, Table};
use crate::flow::Setup;
use crate::memory::{QueryMemory, Reservation};
use crate::operators::runtime_filter::{FilterWork, RuntimeFilter};
use crate::reuse::tables::{Answer, Claim, Lendable, Lent, TableWish};
use crate::sync::Mutex;

/// A complete table as its readers see it.
pub(super) struct SharedTable {
    /// Before what pays for it, also when it goes.
    lookup: Arc<Lookup>,
    filters: Vec<(usize, FilterContent)>,
    rows: usize,
    columns: Vec<ArrayRef>,
    valid: Option<NullBuffer>,
    bytes: usize,
    cost_ns: u64,
    paid: Arc<Paid>,
}

impl SharedTable {
    /// What is complete in memory.
    fn of(built: &Built, cost_ns: u64) -> Option<Arc<Self>> {
        let Built { lookup, filters, held } = built;
        let paid = held.paid.clone().filter(|_| held.is_complete)?;
        Some(Arc::new(Self {
            lookup: lookup.clone(),
            filters: filters.clone(),
            rows: held.rows,
            columns: held.columns.clone(),
            valid: held.valid.clone(),
            bytes: built.bytes(),
            cost_ns,
            paid,
        }))
    }
}

impl Lendable for SharedTable {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn cost_ns(&self) -> u64 {
        self.cost_ns
    }

    fn is_leaving(&self) -> bool {
        self.paid.0.lock().fate == Fate::Leaving
    }

    fn lend(&self, memory: &QueryMemory, operator: &'static str, bytes_max: usize) -> Lent {
        let mut payment = self.paid.0.lock();
        match payment.fate {
            Fate::Lent => Lent::Before,
            Fate::Own if self.bytes <= bytes_max => {
                payment.fate = Fate::Lent;
                payment.reservation.move_to(memory, operator);
                Lent::Now
            }
            Fate::Own | Fate::Leaving => Lent::No,
        }
    }
}

/// What pays for a table, and whose it is.
pub(super) struct Paid(Mutex<Payment>);

struct Payment {
    reservation: Reservation,
    fate: Fate,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Own,
    Lent,
    Leaving,
}

impl Paid {
    pub fn new(reservation: Reservation) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Payment { reservation, fate: Fate::Own })))
    }

    pub fn bytes(&self) -> usize {
        self.0.lock().reservation.bytes()
    }

    pub fn sibling(&self) -> Reservation {
        self.0.lock().reservation.sibling()
    }

    pub fn is_lent(&self) -> bool {
        self.0.lock().fate == Fate::Lent
    }

    /// From now on nobody else may have it. False if somebody has.
    pub fn leave(&self) -> bool {
        let mut payment = self.0.lock();
        if payment.fate == Fate::Lent {
            return false;
        }
        payment.fate = Fate::Leaving;
        true
    }
}

/// What a build side says of one of its keys to scans of the probe side.
#[derive(Clone)]
pub(super) enum FilterContent {
    /// There is no key.
    Empty,
    /// The filter, and the smallest and largest word, if they are in the order of the values.
    Work(Arc<FilterWork>, Option<(u64, u64)>),
    /// The dense table of one key, and the same.
    Table(Arc<Table>, Option<(u64, u64)>),
}

impl FilterContent {
    /// For all keys that a filter is wanted of; nothing for those of which none can be made.
    pub fn all(
        config: &Config,
        filters: &Filters,
        table: Option<&Arc<Table>>,
        chunks: &[Chunk],
        works: Vec<(usize, FilterWork)>,
    ) -> Vec<(usize, Self)> {
        let mut contents: Vec<(usize, Self)> = Vec::new();
        let mut works: Vec<_> = works.into_iter().map(|(key, work)| (key, Arc::new(work))).collect();
        for &(_, key) in filters {
            if contents.iter().any(|(other, _)| *other == key) {
                continue;
            }
            let Some(table) = table else {
                contents.push((key, Self::Empty));
                continue;
            };
            let has_null = |chunk: &Chunk| chunk.keys[key].nulls.is_some();
            if config.null_equal && chunks.iter().any(has_null) {
                // NULL would have to pass.
                continue;
            }
            let bounds = Some(key_bounds(chunks.iter(), key)).filter(|(min, max)| min <= max);
            let bounds = bounds
                .filter(|_| words_are_ordered(config.keys[key].build.data_type()) && config.keys[key].kind.is_word());
            if let Some(place) = works.iter().position(|(other, _)| *other == key) {
                contents.push((key, Self::Work(works.swap_remove(place).1, bounds)));
            } else if let (1, Table::Dense(_)) = (config.keys.len(), &**table) {
                contents.push((key, Self::Table(table.clone(), bounds)));
            }
        }
        contents
    }
}

/// Fills the filters of a join from what its build side says.
pub(super) fn fill_filters(config: &Config, filters: &Filters, contents: &[(usize, FilterContent)]) -> Result<()> {
    for (filter, key) in filters {
        let logical = config.keys[*key].build.data_type();
        match contents.iter().find(|(other, _)| other == key) {
            Some((_, FilterContent::Empty)) => filter.set_empty(),
            Some((_, FilterContent::Work(work, bounds))) => filter.set_work(work.clone(), *bounds, logical)?,
            Some((_, FilterContent::Table(table, bounds))) => filter.set_table(table.clone(), *bounds, logical)?,
            None => {}
        }
    }
    Ok(())
}

/// What is to be done for a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// The build side is to be run.
    Fill,
    /// Another query does it: ask again when woken.
    Wait,
    /// The table is there; so many nanoseconds of work are saved.
    Filled(u64),
}

/// A join's table, as it is shared.
pub(crate) struct TableShare {
    wish: TableWish,
    config: Arc<Config>,
    shared: Arc<Shared>,
    filters: Vec<(Arc<RuntimeFilter>, usize)>,
    claim: Mutex<Option<Claim>>,
}

impl TableShare {
    pub(super) fn new(
        wish: TableWish,
        config: Arc<Config>,
        shared: Arc<Shared>,
        filters: Vec<(Arc<RuntimeFilter>, usize)>,
    ) -> Self {
        Self { wish, config, shared, filters, claim: Mutex::default() }
    }

    /// Whether it is there, or being built.
    pub fn is_here(&self) -> bool {
        self.wish.is_here()
    }

    /// Asks for the table, before the first pipeline of the build side starts.
    pub fn begin(&self, setup: &Setup, waker: &Waker) -> Result<Begin> {
        match self.wish.ask(waker) {
            Answer::Wait => Ok(Begin::Wait),
            Answer::Alone => Ok(Begin::Fill),
            Answer::Build(claim) => {
                *self.claim.lock() = Some(claim);
                Ok(Begin::Fill)
            }
            Answer::Table(table) => {
                let table: Arc<dyn Any + Send + Sync> = table;
                let table = table.downcast().map_err(|_| Error::bug("what is lent as a join's table is none"))?;
                self.adopt(&table, setup)?;
                Ok(Begin::Filled(table.cost_ns))
            }
        }
    }

    /// The build side has been run, with so many nanoseconds of work, and the table is complete: others may have it.
    pub fn built(&self, cost_ns: u64) {
        let Some(claim) = self.claim.lock().take() else { return };
        let built = self.shared.table();
        let table = built.as_ref().and_then(|built| SharedTable::of(built, cost_ns));
        self.shared.let_go(built);
        let Some(table) = table else { return claim.outgrown() };
        let lendable: Arc<dyn Lendable> = table.clone();
        let offer = claim.built(&lendable);
        *self.shared.offered.lock() = Some((offer, lendable));
        if table.is_leaving() {
            // It may have been asked to before it was noted.
            self.shared.offered.lock().take();
        }
    }

    /// Probes another query's table.
    fn adopt(&self, table: &Arc<SharedTable>, setup: &Setup) -> Result<()> {
        fill_filters(&self.config, &self.filters, &table.filters)?;
        let mut own = setup.memory.reservation(self.config.name);
        let matched = marks_held(self.config.pairs.join_type).then(|| Bits::new(table.rows));
        if matched.is_some() {
            own.overdraw(table.rows / 8);
        }
        let held = Arc::new(Held {
            rows: table.rows,
            columns: table.columns.clone(),
            matched,
            valid: table.valid.clone(),
            is_complete: true,
            later: None,
            paid: Some(Paid::new(own)),
            _lent: Some(table.clone()),
        });
        *self.shared.published.held.lock() = Some(held.clone());
        let built = Built { lookup: table.lookup.clone(), filters: Vec::new(), held };
        *self.shared.at_rest.lock() = AtRest::Ready(Arc::new(built));
        Ok(())
    }
}
