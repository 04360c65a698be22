//! What the packets of a sort share, and its phases.

use std::sync::Arc;
use std::sync::OnceLock;

use arrow::datatypes::SchemaRef;
use diligence_base::{Error, Result};

use super::encoding::KeyEncoder;
use super::gather::Pick;
use super::keys::SortedKeys;
use super::merge::{self, Bounds, Splitter};
use super::run_builder::RunBuilder;
use super::top_rows::TopRows;
use super::{Run, Sizes};
use crate::batch::Batch;
use crate::memory::Reservation;
use crate::pipeline::{Accept, Setup, Sink, SinkState};
use crate::plan::SortKey;
use crate::sync::{Mutex, atomic::AtomicU64};

/// Where the rows of a sort go.
pub(super) struct SortSink {
    shared: Arc<Shared>,
}

/// What the sink, its packets and the source share.
pub(super) struct Shared {
    pub encoder: KeyEncoder,
    pub schema: SchemaRef,
    /// Rows wanted.
    pub fetch: Option<usize>,
    pub sizes: Sizes,
    /// Top-N: some packet holds enough rows with leads up to this one. All ones if no packet does.
    pub lead_bound: AtomicU64,
    phase: Mutex<Phase>,
}

/// The phases of a sort.
///
/// ```text
///   Collecting --parts--> Merging --complete--> Sorted
///       (runs)        (runs, ranges)       (payloads, picks)
/// ```
enum Phase {
    /// Packets bring their runs.
    Collecting { runs: Vec<Run>, reservation: Option<Reservation> },
    /// Ranges are being merged.
    Merging(Arc<Merge>),
    /// Rows can be read.
    Sorted(Arc<Sorted>),
}

/// Runs, and the ranges in which they are merged.
struct Merge {
    keys: Vec<SortedKeys>,
    payloads: Vec<Batch>,
    /// One less than ranges.
    splitters: Vec<Splitter>,
    /// The order of each range's rows, once it is merged.
    ranges: Vec<OnceLock<Vec<Pick>>>,
    reservation: Mutex<Option<Reservation>>,
}

/// Rows in order.
pub(super) struct Sorted {
    /// The payloads of the runs.
    pub payloads: Vec<Batch>,
    /// The order of the rows, range after range. Empty if there is one run, which is in order.
    pub picks: Vec<Vec<Pick>>,
    /// Rows that come out.
    pub rows: usize,
    _reservation: Option<Reservation>,
}

impl Shared {
    pub fn new(keys: &[SortKey], fetch: Option<usize>, schema: &SchemaRef, sizes: Sizes) -> Result<Self> {
        Ok(Self {
            encoder: KeyEncoder::new(keys)?,
            schema: schema.clone(),
            fetch,
            sizes,
            lead_bound: AtomicU64::new(u64::MAX),
            phase: Mutex::new(Phase::Collecting { runs: Vec::new(), reservation: None }),
        })
    }

    /// The rows wanted, if they are few enough for top-N.
    pub fn top_rows(&self) -> Option<usize> {
        self.fetch.filter(|&fetch| fetch <= self.sizes.top_rows_max)
    }

    /// The name that EXPLAIN shows.
    pub fn name(&self) -> &'static str {
        if self.top_rows().is_some() { "TopN" } else { "Sort" }
    }

    /// Takes a packet's runs and what they have reserved.
    pub fn collect(&self, more: Vec<Run>, reserved: Reservation) -> Result<()> {
        match &mut *self.phase.lock() {
            Phase::Collecting { runs, reservation } => {
                runs.extend(more);
                absorb(reservation, reserved);
                Ok(())
            }
            _ => Err(Error::bug("a packet brought rows to a sort that was finished")),
        }
    }

    /// The rows in order.
    pub fn sorted(&self) -> Result<Arc<Sorted>> {
        match &*self.phase.lock() {
            Phase::Sorted(sorted) => Ok(sorted.clone()),
            _ => Err(Error::bug("a sort was read before it was finished")),
        }
    }

    /// Moves on to merging.
    fn begin_merge(&self) -> Result<Arc<Merge>> {
        let mut phase = self.phase.lock();
        let Phase::Collecting { runs, reservation } = &mut *phase else {
            return Err(Error::bug("a sort was cut into parts twice"));
        };
        let runs = std::mem::take(runs);
        let reservation = reservation.take();
        let (keys, payloads): (Vec<_>, Vec<_>) = runs.into_iter().map(|run| (run.keys, run.payload)).unzip();
        let splitters = if keys.len() < 2 {
            Vec::new()
        } else {
            let rows: usize = keys.iter().map(SortedKeys::len).sum();
            let ranges = rows.div_ceil(self.sizes.range_rows).clamp(1, self.sizes.ranges_max);
            merge::splitters(&keys, ranges)
        };
        // One run is in order as it is.
        let ranges = if keys.len() < 2 { 0 } else { splitters.len() + 1 };
        let merge = Arc::new(Merge {
            keys,
            payloads,
            splitters,
            ranges: (0..ranges).map(|_| OnceLock::new()).collect(),
            reservation: Mutex::new(reservation),
        });
        *phase = Phase::Merging(merge.clone());
        Ok(merge)
    }

    fn merging(&self) -> Result<Arc<Merge>> {
        match &*self.phase.lock() {
            Phase::Merging(merge) => Ok(merge.clone()),
            _ => Err(Error::bug("a sort was merged out of turn")),
        }
    }

    /// Moves on to reading. Keys are not needed any more.
    fn end_merge(&self, merge: Arc<Merge>) -> Result<()> {
        let mut phase = self.phase.lock();
        // Drop the phase's own reference, so that ours is the last.
        *phase = Phase::Collecting { runs: Vec::new(), reservation: None };
        let Merge { keys, payloads, ranges, reservation, .. } =
            Arc::into_inner(merge).ok_or_else(|| Error::bug("a sort was completed while it was merged"))?;
        let picks = ranges
            .into_iter()
            .map(|range| range.into_inner().ok_or_else(|| Error::bug("a range of a sort was not merged")))
            .collect::<Result<Vec<_>>>()?;
        let mut reservation = reservation.into_inner();
        if let Some(reservation) = &mut reservation {
            reservation.shrink(keys.iter().map(SortedKeys::bytes).sum());
        }
        drop(keys);
        let wanted = self.fetch.unwrap_or(usize::MAX);
        let rows: usize = payloads.iter().map(Batch::rows).sum();
        let sorted = Sorted { payloads, picks, rows: rows.min(wanted), _reservation: reservation };
        *phase = Phase::Sorted(Arc::new(sorted));
        Ok(())
    }
}

impl SortSink {
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

impl Sink for SortSink {
    fn name(&self) -> &'static str {
        self.shared.name()
    }

    fn open(&self, setup: &Setup) -> Result<Box<dyn SinkState>> {
        let shared = self.shared.clone();
        Ok(match shared.top_rows() {
            Some(0) => Box::new(Nothing),
            Some(wanted) => Box::new(TopRows::new(shared, wanted, setup)),
            None => Box::new(RunBuilder::new(shared, setup)),
        })
    }

    fn parts(&self) -> Result<usize> {
        Ok(self.shared.begin_merge()?.ranges.len())
    }

    fn part(&self, index: usize, setup: &Setup) -> Result<()> {
        let merge = self.shared.merging()?;
        let from: Bounds = match index.checked_sub(1) {
            None => vec![0; merge.keys.len()],
            Some(before) => merge::bounds(&merge.keys, Some(merge.splitters[before])),
        };
        let to = merge::bounds(&merge.keys, merge.splitters.get(index).copied());
        let total = |bounds: &Bounds| bounds.iter().map(|&row| row as usize).sum::<usize>();
        let (first, end) = (total(&from), total(&to));
        // What lies behind the rows wanted is not merged.
        let count = end.min(self.shared.fetch.unwrap_or(usize::MAX)).saturating_sub(first);
        let mut reservation = setup.memory.reservation(self.shared.name());
        reservation.grow(count * size_of::<Pick>())?;
        let picks = if count == 0 { Vec::new() } else { merge::merge(&merge.keys, &from, &to, count) };
        absorb(&mut merge.reservation.lock(), reservation);
        merge.ranges[index].set(picks).map_err(|_| Error::bug("a range of a sort was merged twice"))
    }

    fn complete(&self) -> Result<()> {
        self.shared.end_merge(self.shared.merging()?)
    }
}

/// Takes nothing: no rows are wanted.
struct Nothing;

impl SinkState for Nothing {
    fn push(&mut self, _batch: Batch, _waker: &std::task::Waker) -> Result<Accept> {
        Ok(Accept::Enough)
    }
}

fn absorb(held: &mut Option<Reservation>, more: Reservation) {
    match held {
        Some(held) => held.absorb(more),
        None => *held = Some(more),
    }
}
