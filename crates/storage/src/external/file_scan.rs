//! What files give for a scan, whatever their format.

use std::sync::Arc;

use crate::Cluster;

/// The clusters of a scan.
#[derive(Default)]
pub(crate) struct FileScan {
    /// Clusters with the number of their file.
    pub clusters: Vec<(usize, Arc<dyn Cluster>)>,
    /// Clusters left out.
    pub clusters_pruned: usize,
}
