//! Temp space, as a sort uses it.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use diligence_disk::TempSpace;

use crate::flow::profile::Spills;
use crate::plan::SortPlan;

/// Temp space, as a sort uses it.
#[derive(Clone)]
pub(super) struct Disk {
    /// The operator's name in errors about memory.
    pub name: &'static str,
    pub space: TempSpace,
    pub plan: SortPlan,
    pub spills: Arc<Spills>,
    pub schema: SchemaRef,
    /// Rows that are wanted of a run.
    pub rows_wanted: usize,
}

/// Clusters of memory that a packet has reserved from beginning to end, beside its buffers: one for rows while it
/// collects, one for a batch on its way to the disk.
const WORK_CLUSTERS: usize = 2;

impl Disk {
    /// What a packet has reserved at least.
    pub fn work_bytes(&self) -> usize {
        WORK_CLUSTERS * self.space.cluster_bytes()
    }
}
