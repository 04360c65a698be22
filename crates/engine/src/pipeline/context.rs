//! What compiling a plan needs of the engine around it.

use std::collections::HashMap;
use std::sync::Arc;

use crate::flow::QueryContext;
use crate::operators::recursive::WorkTable;
use crate::operators::runtime_filter::RuntimeFilter;
use crate::operators::scan::{Io, ScanProgress, ScanSharing};
use crate::operators::sort::SpillTo;
use crate::plan::{PlanTables, RuntimeFilterId, SortPlan, WorkTableId};
use crate::reuse::columns::Scans;
use crate::reuse::tables::TableSharing;

/// What compiling needs of the engine.
#[derive(Clone)]
pub struct CompileContext {
    /// What the plan's operators are opened with.
    pub query: QueryContext,
    /// The tables that the plan names.
    pub live: PlanTables,
    /// Where scans do their I/O.
    pub io: Io,
    /// Where scans find what those of other queries have decoded, if they may.
    pub(crate) scans: Option<Arc<Scans>>,
    /// What joins share with those of other queries.
    pub(crate) tables: Option<TableSharing>,
    /// Batches that a producer may be ahead of its consumer.
    pub port_credits: usize,
    /// Which runs of a sort are merged when.
    pub sort_plan: SortPlan,
    /// The work tables of the recursive queries around the plan.
    pub work_tables: HashMap<WorkTableId, Arc<WorkTable>>,
    /// The filters of joins around the plan, which are filled.
    pub(crate) runtime_filters: HashMap<RuntimeFilterId, Arc<RuntimeFilter>>,
    /// Where the plan's scans count, in the order in which they are compiled, if somebody around it has a place for
    /// that.
    pub(crate) progress: Vec<Arc<ScanProgress>>,
}

impl CompileContext {
    /// What a scan of the plan shares with others.
    pub(super) fn scan_sharing(&self) -> Option<ScanSharing> {
        let scans = self.scans.clone()?;
        Some(ScanSharing { scans, batch_rows: self.query.batch_rows })
    }

    /// Where a sort of the plan puts what does not fit in memory.
    pub(super) fn spill_to(&self) -> Option<SpillTo> {
        let space = self.query.temp.clone()?;
        Some(SpillTo { space, plan: self.sort_plan })
    }
}
