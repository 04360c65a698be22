//! What the sink of a sort, its packets and the source share, and its phases.

use std::sync::{Arc, OnceLock};

use arrow::datatypes::SchemaRef;
use diligence_base::{Error, Result};
use diligence_disk::SpillBuffers;
use diligence_memory::{QueryMemory, Reservation};

use super::disk::Disk;
use super::encoding::KeyEncoder;
use super::external::{Brought, External, take};
use super::gather::{Pick, held_bytes};
use super::keys::SortedKeys;
use super::merge::{self, Bounds, Splitter};
use super::run_file::DiskRun;
use super::sorted::{Sorted, SortedRows};
use super::{FirstRowsBound, Run, Sizes, SpillTo};
use crate::batch::Batch;
use crate::plan::{SortKey, sort_plan};
use crate::sync::{Latch, Mutex, atomic::AtomicU64};

/// What packets have sorted.
static PHASE: Latch = Latch::new("sort");

/// What the sink, its packets and the source share.
pub(super) struct SharedSort {
    pub encoder: KeyEncoder,
    pub schema: SchemaRef,
    /// Rows wanted.
    pub fetch: Option<usize>,
    pub sizes: Sizes,
    /// Where rows go that do not fit in memory.
    disk: Option<Disk>,
    /// Of the query that runs it.
    pub memory: OnceLock<QueryMemory>,
    /// Packets that a pipeline may have.
    pub packets: OnceLock<usize>,
    /// Top-N: some packet holds enough rows with leads up to this one. All ones if no packet does.
    pub lead_bound: AtomicU64,
    /// The same for the scan that the rows come from.
    pub bound: Option<Arc<FirstRowsBound>>,
    phase: Mutex<SortPhase>,
}

/// The phases of a sort.
///
/// ```text
///                          in memory:  Merging --complete--> Sorted
///                                    (runs, ranges)     (payloads, picks)
///   Collecting ------parts------+
///     (runs)               on disk:  -------complete-------> External
///                                                          (runs, ranges)
/// ```
enum SortPhase {
    /// Packets bring their runs.
    Collecting(Collected),
    /// Ranges are being merged.
    Merging(Arc<Merge>),
    /// Rows can be read.
    Sorted(Arc<SortedRows>),
    /// Runs can be merged, and rows read meanwhile.
    External(Arc<External>),
}

/// What packets have brought.
#[derive(Default)]
struct Collected {
    memory: Vec<Run>,
    disk: Vec<DiskRun>,
    buffers: Vec<SpillBuffers>,
    /// Packets that have left their runs here.
    left: usize,
    reservation: Option<Reservation>,
}

/// Runs, and the ranges in which they are merged.
pub(super) struct Merge {
    keys: Vec<SortedKeys>,
    payloads: Vec<Batch>,
    /// One less than ranges.
    splitters: Vec<Splitter>,
    /// Where they cut the runs, between the merges of the range before one and of the range behind it: the first of
    /// them looks, the second takes it.
    cuts: Vec<Mutex<Option<Bounds>>>,
    /// The order of each range's rows, once it is merged.
    ranges: Vec<OnceLock<Vec<Pick>>>,
    reservation: Option<Reservation>,
}

impl Merge {
    /// How many ranges there are.
    pub fn ranges(&self) -> usize {
        self.ranges.len()
    }

    /// Merges a range, as far as its rows are among the first `wanted`.
    pub fn merge_range(&self, index: usize, wanted: usize) -> Result<()> {
        let keys: Vec<&SortedKeys> = self.keys.iter().collect();
        let cut = |index: usize| {
            let mut other = self.cuts[index].lock();
            other.take().unwrap_or_else(|| {
                let bounds = merge::bounds(&keys, Some(self.splitters[index]));
                *other = Some(bounds.clone());
                bounds
            })
        };
        let from: Bounds = index.checked_sub(1).map_or_else(|| vec![0; keys.len()], cut);
        let to = if index < self.cuts.len() { cut(index) } else { merge::bounds(&keys, None) };
        let total = |bounds: &Bounds| bounds.iter().map(|&row| row as usize).sum::<usize>();
        let (first, end) = (total(&from), total(&to));
        // What lies behind the rows wanted is not merged.
        let count = end.min(wanted).saturating_sub(first);
        // Picks were reserved with the runs.
        let picks = if count == 0 { Vec::new() } else { merge::merge(&keys, &from, &to, count) };
        self.ranges[index].set(picks).map_err(|_| Error::bug("a range of a sort was merged twice"))
    }
}

/// What a finished sort has for its reader.
pub(super) enum SortResult {
    Sorted(Arc<SortedRows>),
    External(Arc<External>),
}

impl SharedSort {
    pub fn new(
        keys: &[SortKey],
        fetch: Option<usize>,
        schema: &SchemaRef,
        spill_to: Option<&SpillTo>,
        sizes: Sizes,
    ) -> Result<Self> {
        let disk = spill_to.map(|SpillTo { space, plan }| Disk {
            name: name_of(fetch, &sizes),
            space: space.clone(),
            plan: *plan,
            spills: Arc::default(),
            schema: schema.clone(),
            rows_wanted: fetch.unwrap_or(usize::MAX),
        });
        Ok(Self {
            encoder: KeyEncoder::new(keys)?,
            schema: schema.clone(),
            fetch,
            sizes,
            disk,
            memory: OnceLock::new(),
            packets: OnceLock::new(),
            lead_bound: AtomicU64::new(u64::MAX),
            bound: top_rows(fetch, &sizes).and_then(|wanted| FirstRowsBound::new(keys, wanted)),
            phase: Mutex::named(&PHASE, SortPhase::Collecting(Collected::default())),
        })
    }

    /// The rows wanted, if they are few enough for top-N.
    pub fn top_rows(&self) -> Option<usize> {
        top_rows(self.fetch, &self.sizes)
    }

    /// The name that EXPLAIN shows.
    pub fn name(&self) -> &'static str {
        name_of(self.fetch, &self.sizes)
    }

    /// Temp space; must be asked for only after it was used.
    pub fn disk(&self) -> Result<&Disk> {
        self.disk.as_ref().ok_or_else(|| Error::bug("a sort without temp space went there"))
    }

    /// Temp space, if there is any.
    pub fn disk_if_any(&self) -> Option<&Disk> {
        self.disk.as_ref()
    }

    /// Takes a packet's runs in memory, what they have reserved, and the buffers that it has reserved as its minimum.
    pub fn collect(&self, more: Vec<Run>, reserved: Reservation, minimal: Option<SpillBuffers>) -> Result<()> {
        self.collected(|collected| {
            collected.memory.extend(more);
            absorb(&mut collected.reservation, reserved);
            collected.buffers.extend(minimal);
        })
    }

    /// The same of a packet that may go to the disk: others may go on for long, as those of a union's other inputs do.
    /// So until they end, what it has reserved can be asked for, and one of them [takes the runs
    /// back](Self::take_left). Only as many packets as run at once leave more than what their runs, of so many bytes,
    /// hold.
    pub fn leave(
        &self,
        more: Vec<Run>,
        run_bytes: usize,
        mut reserved: Reservation,
        minimal: Option<SpillBuffers>,
    ) -> Result<()> {
        let packets = self.packets.get().copied().unwrap_or(1);
        let dropped = self.collected(|collected| {
            collected.left += 1;
            collected.memory.extend(more);
            let (kept, dropped) = if collected.left > packets { (None, minimal) } else { (minimal, None) };
            if dropped.is_some() {
                reserved.shrink(reserved.bytes().saturating_sub(run_bytes));
            }
            absorb(&mut collected.reservation, reserved);
            collected.buffers.extend(kept);
            dropped
        })?;
        drop(dropped);
        Ok(())
    }

    /// The runs in memory of packets that have ended, with what is reserved for them.
    pub fn take_left(&self) -> Result<Option<(Vec<Run>, Reservation)>> {
        self.collected(|collected| {
            let runs = std::mem::take(&mut collected.memory);
            let held = runs.iter().map(Run::bytes).sum::<Result<usize>>()?;
            Ok(match &mut collected.reservation {
                Some(reservation) if !runs.is_empty() => Some((runs, reservation.split(held))),
                _ => None,
            })
        })?
    }

    /// Takes runs on the disk.
    pub fn collect_disk(&self, runs: impl IntoIterator<Item = DiskRun>) -> Result<()> {
        self.collected(|collected| collected.disk.extend(runs))
    }

    /// Runs on the disk that are to be merged now: if the sort can merge `fan_in` of them.
    pub fn claim_merge(&self, fan_in: usize) -> Result<Option<Vec<DiskRun>>> {
        let plan = self.disk()?.plan;
        self.collected(|collected| {
            // Long rows need memory that nobody knows to be there while packets still collect.
            if collected.disk.iter().any(|run| run.long_bytes() > 0) {
                return None;
            }
            let sizes: Vec<_> = collected.disk.iter().map(DiskRun::size).collect();
            plan.merge_early(&sizes, fan_in.max(sort_plan::FAN_IN_MIN)).map(|places| take(&mut collected.disk, &places))
        })
    }

    fn collected<T>(&self, change: impl FnOnce(&mut Collected) -> T) -> Result<T> {
        match &mut *self.phase.lock() {
            SortPhase::Collecting(collected) => Ok(change(collected)),
            _ => Err(Error::bug("a packet brought rows to a sort that was finished")),
        }
    }

    /// Whether packets may still bring rows.
    pub fn is_collecting(&self) -> bool {
        matches!(*self.phase.lock(), SortPhase::Collecting(_))
    }

    /// The rows in order, or how they are to be merged.
    pub fn result(&self) -> Result<SortResult> {
        match &*self.phase.lock() {
            SortPhase::Sorted(sorted) => Ok(SortResult::Sorted(sorted.clone())),
            SortPhase::External(external) => Ok(SortResult::External(external.clone())),
            _ => Err(Error::bug("a sort was read before it was finished")),
        }
    }

    /// Moves on to merging.
    pub fn begin_merge(&self) -> Result<Arc<Merge>> {
        let mut phase = self.phase.lock();
        let SortPhase::Collecting(collected) = &mut *phase else {
            return Err(Error::bug("a sort was cut into parts twice"));
        };
        // Nothing will be written any more.
        collected.buffers.clear();
        let runs = std::mem::take(&mut collected.memory);
        let mut reservation = collected.reservation.take();
        if let Some(reservation) = &mut reservation {
            let held = runs.iter().map(Run::bytes).sum::<Result<usize>>()?;
            reservation.shrink(reservation.bytes().saturating_sub(held));
            // From now on nobody is there who could give back anything.
            reservation.hold_firm();
        }
        let (keys, payloads): (Vec<_>, Vec<_>) = runs.into_iter().map(|run| (run.keys, run.payload)).unzip();
        let splitters = if keys.len() < 2 {
            Vec::new()
        } else {
            let rows: usize = keys.iter().map(SortedKeys::len).sum();
            let ranges = rows.div_ceil(self.sizes.range_rows).clamp(1, self.sizes.ranges_max);
            let keys: Vec<&SortedKeys> = keys.iter().collect();
            merge::splitters(&keys, &vec![0; keys.len()], &merge::bounds(&keys, None), ranges)
        };
        // One run is in order as it is.
        let ranges = if keys.len() < 2 { 0 } else { splitters.len() + 1 };
        let merge = Arc::new(Merge {
            keys,
            payloads,
            cuts: splitters.iter().map(|_| Mutex::default()).collect(),
            splitters,
            ranges: (0..ranges).map(|_| OnceLock::new()).collect(),
            reservation,
        });
        *phase = SortPhase::Merging(merge.clone());
        Ok(merge)
    }

    /// True if some rows are on the disk.
    pub fn has_spilled(&self) -> Result<bool> {
        self.collected(|collected| !collected.disk.is_empty())
    }

    /// Moves on to merging what is on the disk.
    pub fn begin_external(&self) -> Result<()> {
        let Collected { memory, disk, reservation, buffers, .. } = self.collected(std::mem::take)?;
        let Some(mut reservation) = reservation else {
            return Err(Error::bug("a sort on the disk has reserved nothing"));
        };
        let Some(own_memory) = self.memory.get() else { return Err(Error::bug("a sort that nobody ran has rows")) };
        reservation.hold_firm();
        let brought = Brought { disk, memory, reservation, buffers };
        let external = Arc::new(External::new(brought, self.disk()?.clone(), own_memory.clone()));
        external.rest();
        *self.phase.lock() = SortPhase::External(external);
        Ok(())
    }

    pub fn merging(&self) -> Result<Arc<Merge>> {
        match &*self.phase.lock() {
            SortPhase::Merging(merge) => Ok(merge.clone()),
            _ => Err(Error::bug("a sort was merged out of turn")),
        }
    }

    /// Moves on to reading. Keys are not needed any more.
    pub fn end_merge(&self, merge: Arc<Merge>) -> Result<()> {
        let mut phase = self.phase.lock();
        // Drop the phase's own reference, so that ours is the last.
        *phase = SortPhase::Collecting(Collected::default());
        let Merge { keys, payloads, ranges, mut reservation, .. } =
            Arc::into_inner(merge).ok_or_else(|| Error::bug("a sort was completed while it was merged"))?;
        let picks = ranges
            .into_iter()
            .map(|range| range.into_inner().ok_or_else(|| Error::bug("a range of a sort was not merged")))
            .collect::<Result<Vec<_>>>()?;
        // Keys are gone, and so are the places of rows that nobody wants.
        let rows: usize = keys.iter().map(SortedKeys::len).sum();
        let given: usize = picks.iter().map(Vec::len).sum();
        let freed = keys.iter().map(SortedKeys::bytes).sum::<usize>() + (rows - given) * size_of::<Pick>();
        drop(keys);
        if let Some(reservation) = &mut reservation {
            reservation.shrink(freed);
        }
        let wanted = self.fetch.unwrap_or(usize::MAX);
        let rows: usize = payloads.iter().map(Batch::rows).sum();
        let held = (rows, payloads.iter().map(held_bytes).sum::<Result<usize>>()?);
        let sorted = Sorted { payloads, picks, rows: rows.min(wanted), held, reservation };
        let sorted = Arc::new(SortedRows::new(sorted, self.schema.clone(), self.disk.as_ref(), self.memory.get()));
        *phase = SortPhase::Sorted(sorted.clone());
        drop(phase);
        sorted.rest();
        Ok(())
    }
}

fn top_rows(fetch: Option<usize>, sizes: &Sizes) -> Option<usize> {
    fetch.filter(|&fetch| fetch <= sizes.top_rows_max)
}

fn name_of(fetch: Option<usize>, sizes: &Sizes) -> &'static str {
    if top_rows(fetch, sizes).is_some() { "TopN" } else { "Sort" }
}

fn absorb(held: &mut Option<Reservation>, more: Reservation) {
    match held {
        Some(held) => held.absorb(more),
        None => *held = Some(more),
    }
}
