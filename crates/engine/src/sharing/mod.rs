//! Queries that run at the same time share what they have in common (QPipe's run-time query merging; Harizopoulos,
//! "Staged Database Systems", section 4.2).
//!
//! The life of a query that may share:
//! 1. [`ShareRequest::of`](crate::matching::cut::ShareRequest::of) *cuts* its plan: below the cut is what others may
//!    want as well, most often the topmost aggregate with all below it. The part below the cut gets its
//!    [signatures](crate::matching::signature).
//! 2. [`RunningPlan::bind`](running) looks for a state with the same signature, or with the same rows and more columns.
//!    If there is one, the query becomes its reader. If not, a run is started that builds it; or the query waits, if
//!    another run of the same template is at work, or if enough are.
//! 3. Queries that wait and differ only in the constants of their scans' conditions go together, [as many as
//!    pay](together): one run [groups by the keys and a mask of the queries](crate::matching::regroup) that want the
//!    row, which the scan [gives each row](crate::matching::masks); or keeps the rows with their masks, where groups
//!    cannot be [put together](crate::matching::merge).
//! 4. The run ends in a [spool] that keeps the rows. Every reader then runs its own plan, with these rows in the place
//!    of what is below the cut; of a merged run, with what it makes of the cells, or of the rows, with its bit.
//!
//! Beside that, scans of one table share what they decode, and joins with equal build sides their hash tables
//! ([`crate::reuse`]); and what one plan has in several places, a query computes
//! [once](crate::matching::common).
//!
//! Invariants:
//! * Nothing is shared but finished states, and columns of clusters that are decoded as a whole. A run that builds one
//!   waits for nobody who reads it, so queries cannot wait in a circle, and a slow reader holds up nobody.
//! * A query that waits holds no memory, and no worker.
//! * A build goes on while it has a reader, whoever was the first. One that fails is tried again by each of its readers
//!   alone, so an error belongs to the query that gets it.

mod registry;
mod running;
mod share;
mod spool;
#[cfg(test)]
mod tests;
mod together;

use crate::matching::signature::Signature;

pub(crate) use running::RunningPlan;

/// Whom a query can go with: equal for queries that one run can answer, as those of a template. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SharingKey(Signature);

impl std::fmt::Debug for SharingKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SharingKey")
    }
}

/// What a query could share if it came now: for whoever decides when it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharingOffer {
    /// Whom it can go with.
    pub key: SharingKey,
    /// Whether what it wants is retained: then nothing has to be run for it but what it makes of that.
    pub is_kept: bool,
}
