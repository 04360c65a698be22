//! What a join does to have a complete table that another query has built, or to let others have its own.
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

use diligence_base::{Error, Result};

use super::config::Config;
use super::shared::{AtRest, Shared};
use super::table::built::Built;
use super::table::filters::fill_filters;
use super::table::held::{Bits, Held};
use super::table::lent::SharedTable;
use super::table::paid::Paid;
use crate::flow::QueryContext;
use crate::operators::runtime_filter::RuntimeFilter;
use crate::reuse::tables::{Answer, Claim, Lendable, TableRequest};
use crate::sync::Mutex;

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
    request: TableRequest,
    config: Arc<Config>,
    shared: Arc<Shared>,
    filters: Vec<(Arc<RuntimeFilter>, usize)>,
    claim: Mutex<Option<Claim>>,
}

impl TableShare {
    pub(super) fn new(
        request: TableRequest,
        config: Arc<Config>,
        shared: Arc<Shared>,
        filters: Vec<(Arc<RuntimeFilter>, usize)>,
    ) -> Self {
        Self { request, config, shared, filters, claim: Mutex::default() }
    }

    /// Whether it is there, or being built.
    pub fn is_here(&self) -> bool {
        self.request.is_here()
    }

    /// Asks for the table, before the first pipeline of the build side starts.
    pub fn begin(&self, context: &QueryContext, waker: &Waker) -> Result<Begin> {
        match self.request.ask(waker) {
            Answer::Wait => Ok(Begin::Wait),
            Answer::Alone => Ok(Begin::Fill),
            Answer::Build(claim) => {
                *self.claim.lock() = Some(claim);
                Ok(Begin::Fill)
            }
            Answer::Table(table) => {
                let table: Arc<dyn Any + Send + Sync> = table;
                let table = table.downcast().map_err(|_| Error::bug("what is lent as a join's table is none"))?;
                self.adopt(&table, context)?;
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
    fn adopt(&self, table: &Arc<SharedTable>, context: &QueryContext) -> Result<()> {
        fill_filters(&self.config.table, &self.filters, &table.filters)?;
        let mut own = context.memory.reservation(self.config.table.name);
        let matched = self.config.table.marks_rows.then(|| Bits::new(table.rows));
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
