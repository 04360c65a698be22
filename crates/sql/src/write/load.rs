//! Where many rows of a statement go: into clusters of segments. How large these are.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use diligence_catalog::journal::RowStore;
use diligence_catalog::{NativeTable, NewRows, RelationName, StoredCluster};
use diligence_storage::segment::Segment;

/// Bytes of rows that make a cluster, at most, unless one batch has more.
pub(super) const CLUSTER_BYTES: usize = 16 << 20;
/// Clusters of one segment, at most.
pub(super) const CLUSTERS_MAX: usize = 64;
/// The last rows of a packet make a cluster if they are one in so many of the most that one has.
pub(super) const LAST_PART: usize = 4;

/// Where many rows of a statement go.
#[derive(Clone)]
pub(super) struct Load {
    pub(super) row_store: Arc<dyn RowStore>,
    pub(super) name: RelationName,
    pub(super) columns: SchemaRef,
    pub(super) ids: Vec<u32>,
    /// The table, if it is there.
    pub(super) table: Option<Arc<NativeTable>>,
}

impl Load {
    /// The clusters of a segment as rows of the table.
    pub(super) fn clusters(
        &self,
        segment: &Arc<Segment>,
        count: usize,
        fragment: u16,
    ) -> impl Iterator<Item = NewRows> {
        (0..count).map(move |cluster| {
            let rows = NewRows::Stored(StoredCluster::new(segment.clone(), cluster).in_fragment(fragment));
            self.table.as_ref().map_or(rows.clone(), |table| table.as_own(rows))
        })
    }
}
