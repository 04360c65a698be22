//! Our tables as DataFusion's planner sees them, and what comes back in the physical plan.

mod incoming;
mod provider;
mod scan;
pub mod selectivity;

pub use incoming::{RowsSender, incoming};
pub use provider::StoredTable;
pub use scan::TableScanExec;
