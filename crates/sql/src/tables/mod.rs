//! Our tables as DataFusion's planner sees them, and what comes back in the physical plan.

mod provider;
mod scan;
pub mod selectivity;

pub use provider::StoredTable;
pub use scan::TableScanExec;
