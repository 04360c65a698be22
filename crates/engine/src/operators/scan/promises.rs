//! What clusters promise a top-N: how near to the first rows those of each may be, by its zone map.

use std::sync::Arc;

use diligence_base::Result;
use diligence_storage::Cluster;

use crate::operators::sort::FirstRowsBound;

/// The best that a row of each cluster may be.
pub(super) struct Promises {
    bound: Arc<FirstRowsBound>,
    /// By the cluster's position.
    leads: Vec<u64>,
}

impl Promises {
    /// Puts first the clusters that may have the first rows. `None`, and they stay as they are, if nothing tells them
    /// apart.
    pub fn sorted(
        bound: &Arc<FirstRowsBound>,
        column: usize,
        clusters: &mut Vec<Arc<dyn Cluster>>,
    ) -> Result<Option<Self>> {
        let mut promised = Vec::with_capacity(clusters.len());
        for cluster in clusters.iter() {
            let lead = cluster.zone(column).map_or(Ok(0), |zone| bound.best_of(&zone))?;
            promised.push((lead, cluster.clone()));
        }
        let first = promised.first().map(|(lead, _)| *lead);
        if promised.iter().all(|(lead, _)| Some(*lead) == first) {
            return Ok(None);
        }
        promised.sort_by_key(|(lead, _)| *lead);
        let (leads, sorted) = promised.into_iter().unzip();
        *clusters = sorted;
        Ok(Some(Self { bound: bound.clone(), leads }))
    }

    /// Whether no row of the cluster at a position matters any more.
    pub fn is_hopeless(&self, position: usize) -> bool {
        self.leads.get(position).is_some_and(|lead| self.bound.is_behind(*lead))
    }
}
