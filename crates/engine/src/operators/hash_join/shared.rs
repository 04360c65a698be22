//! What the packets of a join share.

use std::sync::{Arc, OnceLock};
use std::task::Waker;

use diligence_base::limits::TEMP_WRITES_MAX;
use diligence_disk::{SpillBuffers, SpillMemory, TempSpace};
use diligence_memory::Reservation;

use super::config::Config;
use super::spill::counts::SpillCounts;
use super::spill::dump::Dump;
use super::spill::filters::SpilledFilters;
use super::spill::partitions::{Partitions, fan_out};
use super::spill::resident::Resident;
use super::table::built::Built;
use super::table::held::Published;
use crate::reuse::tables::{Lendable, Offer};
use crate::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

/// Clusters that a join reserves when it starts: two to read with, two to write with. With them it can do everything.
pub(super) const CLUSTERS_MIN: usize = 4;

pub(super) const BUFFERS: SpillMemory =
    SpillMemory { clusters_min: CLUSTERS_MIN, clusters_max: usize::MAX, writes_max: TEMP_WRITES_MAX };

/// What the packets of a join share.
#[derive(Default)]
pub(super) struct Shared {
    pub published: Arc<Published>,
    pub at_rest: Mutex<AtRest>,
    /// The complete table as other queries may have it, as long as it is in memory.
    pub offered: Mutex<Option<(Offer, Arc<dyn Lendable>)>>,
    /// The complete table is on its way to temp space, or there: for packets that look before each batch.
    pub is_leaving: AtomicBool,
    /// The buffers of spill files, with what the join needs at least; `None` while there is no memory for them, or
    /// somebody has them.
    pub buffers: Mutex<Option<SpillBuffers>>,
    /// Where to spill, until it is known that nothing is; and a reservation for buffers that are made only then.
    pub temp: Mutex<Option<(TempSpace, Reservation)>>,
    /// What packets have kept of the build side before that, all together.
    pub kept_bytes: AtomicUsize,
    /// Set when the join does not fit.
    pub partitions: OnceLock<Arc<Partitions>>,
    /// Those of the build side that are in memory, while it comes in.
    pub resident: OnceLock<Resident>,
    /// The filters of a build side that does not fit, and the keys that they are wanted of.
    pub filters: OnceLock<SpilledFilters>,
    pub filter_keys: Vec<usize>,
    pub counts: Arc<SpillCounts>,
    /// Packets that may own a spill file, numbered.
    owners: AtomicU64,
}

impl Shared {
    /// Of a join of whose build side these keys are wanted in filters.
    pub fn new(filter_keys: Vec<usize>) -> Self {
        Self { filter_keys, ..Self::default() }
    }

    pub fn next_owner(&self) -> u64 {
        self.owners.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether rows can go to temp space.
    pub fn can_spill(&self) -> bool {
        self.temp.lock().is_some()
    }

    /// The buffers of spill files, which are made now if there was no memory for them before. `None` if there is far
    /// too little, and will be.
    pub fn buffers(&self) -> Option<SpillBuffers> {
        let mut buffers = self.buffers.lock();
        if buffers.is_none() {
            let (space, mut reservation) =
                self.temp.lock().as_ref().map(|(space, none)| (space.clone(), none.sibling()))?;
            if reservation.grow_to_free(CLUSTERS_MIN * space.cluster_bytes()).is_err() {
                self.temp.lock().take();
                return None;
            }
            *buffers = SpillBuffers::new(&space, reservation, BUFFERS).ok();
        }
        buffers.clone()
    }

    /// Nothing is spilled, nor will be.
    pub fn end_spilling(&self) {
        self.buffers.lock().take();
        self.temp.lock().take();
    }

    /// From now on rows are partitioned; `memory_bytes` is about what the join may have, `filters` the keys of which
    /// filters are made, while the build side comes in. `None` without temp space.
    pub fn partition(
        &self,
        config: &Config,
        memory_bytes: usize,
        filters: Option<&[usize]>,
    ) -> Option<&Arc<Partitions>> {
        let buffers = self.buffers()?;
        if let Some(filters) = filters.filter(|_| !config.table.keys.is_empty()) {
            // A scan that knows the only key has asked it of every row, unless NULL has to pass there.
            let has_hashes = filters.len() != 1 || config.table.keys.len() != 1 || config.table.null_equal;
            let new = || SpilledFilters::new(filters, has_hashes, memory_bytes, buffers.sibling());
            self.filters.get_or_init(new);
        }
        Some(self.partitions.get_or_init(|| {
            let partitions = match config.can_partition() {
                true => fan_out(memory_bytes, buffers.space().cluster_bytes()),
                false => 1,
            };
            Arc::new(Partitions::new(0, partitions, memory_bytes, buffers, &self.counts))
        }))
    }

    /// Whether the probe side may still read the table.
    pub fn is_published(&self) -> bool {
        self.published.held.lock().is_some()
    }

    /// The complete table, for a packet that probes it; `None` if it is not in memory.
    pub fn table(&self) -> Option<Arc<Built>> {
        match &*self.at_rest.lock() {
            AtRest::Ready(built) => Some(built.clone()),
            _ => None,
        }
    }

    /// A packet of the probe side lets go of the table.
    pub fn let_go(&self, table: Option<Arc<Built>>) {
        if table.is_none() {
            return;
        }
        drop(table);
        let waiting = match &mut *self.at_rest.lock() {
            AtRest::Leaving(built, waiting) if Arc::strong_count(built) == 1 => waiting.take(),
            _ => None,
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// The probe side has ended, and unmatched rows have come out. What has still to be written of the table, if it was
    /// on its way to temp space.
    pub fn end_probe(&self, config: &Arc<Config>) -> Option<Dump> {
        let offered = self.offered.lock().take();
        offered.into_iter().for_each(|(offer, table)| offer.end(&table));
        self.published.held.lock().take();
        self.published.remaining.lock().take();
        match std::mem::replace(&mut *self.at_rest.lock(), AtRest::Done) {
            AtRest::Leaving(built, _) => Some(Dump::new(built, config.table.clone(), self.next_owner())),
            AtRest::Going(dump) => Some(dump),
            _ => None,
        }
    }
}

/// Where a complete build side is; see [`at_rest`](super::at_rest).
#[derive(Default)]
pub(super) enum AtRest {
    #[default]
    Coming,
    Ready(Arc<Built>),
    /// With whoever waits for the probe side to let go of it.
    Leaving(Arc<Built>, Option<Waker>),
    Going(Dump),
    Done,
}

/// What a packet of the probe side has of the table.
pub(super) struct Borrowed {
    shared: Arc<Shared>,
    table: Option<Arc<Built>>,
}

impl Borrowed {
    pub fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: shared.clone(), table: None }
    }

    /// Before a batch: takes the table, or lets go of it if it is to leave.
    pub fn look(&mut self) -> Option<&Built> {
        if self.shared.is_leaving.load(Ordering::Acquire) {
            self.shared.let_go(self.table.take());
        } else if self.table.is_none() {
            self.table = self.shared.table();
        }
        self.get()
    }

    /// The table that the present batch is looked up in.
    pub fn get(&self) -> Option<&Built> {
        self.table.as_deref()
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        self.shared.let_go(self.table.take());
    }
}
