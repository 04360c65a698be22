//! Rows that are many on their way to the segments of a table that has several fragments, or a clustering key.
//!
//! All packets of a statement share one buffer for each fragment, so clusters are full however many fragments there
//! are. The packet that fills one encodes it.
//!
//! Where the rows themselves decide on the bounds between fragments, all are written as if there were one fragment, and
//! once more when the last one has come.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arrow::array::{Array, ArrayRef, RecordBatch, UInt64Array};
use arrow::compute::take;
use diligence_base::Result;
use diligence_catalog::distribution::{Distribution, FragmentRows, Placement, Strategy};
use diligence_engine::batch::bytes_needed;
use diligence_memory::Reservation;
use diligence_storage::foreign_error::from_arrow;
use diligence_storage::segment::{SegmentBlock, SegmentWriter};
use parking_lot::{Mutex, RwLock};

use super::load::{CLUSTER_BYTES, CLUSTERS_MAX, LAST_PART, Load};

/// Bytes of rows that wait in all fragments together, about.
const WAITING_BYTES: usize = 256 << 20;
/// Bytes of a fragment's rows that make a cluster, at least, where there are many fragments.
const FRAGMENT_BYTES_MIN: usize = 1 << 20;

/// Values that bounds are taken from, at most.
const SAMPLED_VALUES: usize = 1 << 18;

/// The fragments of a table that is written.
pub(super) struct Divided {
    state: RwLock<Arc<State>>,
    /// What bounds are taken from; `None` if there are bounds.
    sample: Mutex<Option<Sample>>,
    arrived: AtomicI64,
    /// Segments that have as many clusters as they may.
    full: Mutex<Vec<(u16, SegmentWriter)>>,
    /// Rows without memory, for others of their kind.
    memory: Mutex<Reservation>,
}

struct State {
    distribution: Distribution,
    placement: Placement,
    fragments: Vec<Mutex<Fragment>>,
}

#[derive(Default)]
struct Fragment {
    waiting: Waiting,
    segment: Option<SegmentWriter>,
}

#[derive(Default)]
struct Waiting {
    batches: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
    memory: Option<Reservation>,
}

impl Waiting {
    fn add(&mut self, batch: RecordBatch, memory: Reservation) {
        self.rows += batch.num_rows();
        self.bytes += memory.bytes();
        self.batches.push(batch);
        match &mut self.memory {
            Some(all) => all.absorb(memory),
            None => self.memory = Some(memory),
        }
    }
}

/// Values that are spread over the rows that have come.
struct Sample {
    values: Vec<ArrayRef>,
    count: usize,
    /// One of so many rows is taken.
    every: usize,
}

impl Default for Sample {
    fn default() -> Self {
        Self { values: Vec::new(), count: 0, every: 1 }
    }
}

impl Sample {
    fn add(&mut self, values: &ArrayRef) -> Result<()> {
        let some = |values: &ArrayRef, every: usize| {
            let chosen = UInt64Array::from_iter_values((0..values.len() as u64).step_by(every));
            take(values, &chosen, None).map_err(from_arrow)
        };
        let values = some(values, self.every)?;
        self.count += values.len();
        self.values.push(values);
        if self.count > SAMPLED_VALUES {
            self.every *= 2;
            self.values = self.values.iter().map(|values| some(values, 2)).collect::<Result<_>>()?;
            self.count = self.values.iter().map(|values| values.len()).sum();
        }
        Ok(())
    }
}

/// What a fragment leaves at its end.
pub(super) struct Rest {
    /// Segments that are to be finished, with their fragments.
    pub(super) segments: Vec<(u16, SegmentWriter)>,
    /// Rows that stay in memory, and what they are counted in.
    pub(super) batches: Vec<RecordBatch>,
    pub(super) memory: Vec<Reservation>,
}

impl State {
    fn of(distribution: Distribution, load: &Load) -> Result<Self> {
        let placement = Placement::new(&distribution, &load.columns)?;
        let fragments = (0..placement.fragments()).map(|_| Mutex::default()).collect();
        Ok(Self { distribution, placement, fragments })
    }
}

impl Divided {
    /// `takes_bounds` says that bounds which come from rows come from these. `memory` counts what the rows are counted
    /// in. Fails as [`Placement::new`] does.
    pub(super) fn new(
        distribution: &Distribution,
        load: &Load,
        takes_bounds: bool,
        memory: Reservation,
    ) -> Result<Option<Self>> {
        let state = State::of(distribution.clone(), load)?;
        let is_unknown = matches!(distribution.strategy, Strategy::Uniform { bounds: None, .. }) && takes_bounds;
        if state.placement.fragments() == 1 && state.placement.clustered().is_empty() && !is_unknown {
            return Ok(None);
        }
        let sample = Mutex::new(is_unknown.then(Sample::default));
        let state = RwLock::new(Arc::new(state));
        let (arrived, memory) = (AtomicI64::new(0), Mutex::new(memory));
        Ok(Some(Self { state, sample, arrived, full: Mutex::default(), memory }))
    }

    /// How the rows are distributed, with the bounds that were taken from them.
    pub(super) fn distribution(&self) -> Distribution {
        self.state.read().distribution.clone()
    }

    /// Takes rows with the table's columns, which have so many bytes. Gives what is to be written. Fails with kind
    /// `Resource` if memory is short.
    pub(super) fn add(&self, load: &Load, batch: RecordBatch, bytes: usize) -> Result<Vec<SegmentBlock>> {
        let mut memory = self.memory.lock().sibling();
        let mut due = self.grown(load, &mut memory, bytes)?;
        if let Some(sample) = self.sample.lock().as_mut()
            && let Some(column) = self.distribution().strategy.columns().first()
            && let Some(values) = batch.column_by_name(column)
        {
            sample.add(values)?;
        }
        due.extend(self.divide(load, &batch, memory)?);
        Ok(due)
    }

    /// Takes the bounds from the rows that have come, and divides those that are in segments anew. Blocks the calling
    /// thread. Fails with kind `File` if they cannot be read or written.
    fn divide_anew(&self, load: &Load, sample: Sample) -> Result<()> {
        let before = self.state.read().clone();
        let distribution = before.distribution.with_bounds_of(&sample.values)?;
        let mut written = std::mem::take(&mut *self.full.lock());
        for fragment in &before.fragments {
            written.extend(fragment.lock().segment.take().map(|segment| (0, segment)));
        }
        if written.is_empty() || distribution == before.distribution {
            // The few rows that there are may still be divided where they come into the table.
            *self.full.lock() = written;
            return Ok(());
        }
        *self.state.write() = Arc::new(State::of(distribution, load)?);
        let divided = |batch: RecordBatch| {
            let mut memory = self.memory.lock().sibling();
            let blocks = self.grown(load, &mut memory, bytes_of(&batch))?;
            let blocks = blocks.into_iter().chain(self.divide(load, &batch, memory)?);
            blocks.into_iter().try_for_each(SegmentBlock::write)
        };
        let columns = (0..load.columns.fields().len()).collect::<Vec<_>>();
        for (_, writer) in written {
            let count = writer.clusters();
            let view = load.row_store.finish(writer)?.view(&load.columns, &load.ids);
            for cluster in 0..count {
                divided(view.read(cluster, &columns, None)?)?;
            }
        }
        for fragment in &before.fragments {
            let Waiting { batches, memory, .. } = std::mem::take(&mut fragment.lock().waiting);
            drop(memory);
            batches.into_iter().try_for_each(divided)?;
        }
        Ok(())
    }

    /// Has a reservation grow, by rows that go on to segments before their clusters are full, if need be.
    fn grown(&self, load: &Load, memory: &mut Reservation, bytes: usize) -> Result<Vec<SegmentBlock>> {
        if memory.grow(bytes).is_ok() {
            return Ok(vec![]);
        }
        let mut due = Vec::new();
        let state = self.state.read().clone();
        for (number, fragment) in (0..).zip(&state.fragments) {
            let mut fragment = fragment.lock();
            if fragment.waiting.rows > 0 {
                due.extend(self.store(load, &state, number, &mut fragment)?);
            }
        }
        memory.grow(bytes)?;
        Ok(due)
    }

    fn divide(&self, load: &Load, batch: &RecordBatch, mut memory: Reservation) -> Result<Vec<SegmentBlock>> {
        let state = self.state.read().clone();
        let first = self.arrived.fetch_add(batch.num_rows() as i64, Ordering::Relaxed);
        let mut due = Vec::new();
        for FragmentRows { fragment, rows, .. } in state.placement.split(batch, first)? {
            let bytes = bytes_of(&rows);
            let mut own = memory.sibling();
            memory.shrink(bytes.min(memory.bytes()));
            due.extend(self.grown(load, &mut own, bytes)?);
            let bytes_max = (WAITING_BYTES / state.fragments.len()).clamp(FRAGMENT_BYTES_MIN, CLUSTER_BYTES);
            let mut slot = state.fragments[usize::from(fragment)].lock();
            let waiting = &slot.waiting;
            let is_full =
                waiting.rows + rows.num_rows() > load.row_store.cluster_rows() || waiting.bytes + bytes > bytes_max;
            if is_full && slot.waiting.rows > 0 {
                due.extend(self.store(load, &state, fragment, &mut slot)?);
            }
            slot.waiting.add(rows, own);
            let full = slot.segment.take_if(|segment| segment.clusters() >= CLUSTERS_MAX);
            drop(slot);
            if let Some(full) = full {
                self.full.lock().push((fragment, full));
            }
        }
        Ok(due)
    }

    /// Encodes the rows of the fragment of this number as a cluster.
    fn store(&self, load: &Load, state: &State, number: u16, fragment: &mut Fragment) -> Result<Vec<SegmentBlock>> {
        let Waiting { mut batches, memory, .. } = std::mem::take(&mut fragment.waiting);
        if !state.placement.clustered().is_empty() {
            batches = vec![state.placement.ordered(&batches)?.0];
        }
        let mut segment = match fragment.segment.take() {
            Some(segment) => segment,
            None => load.row_store.begin(&load.columns, &load.ids, number)?,
        };
        segment.encode_cluster(&batches)?;
        drop((batches, memory));
        let due = segment.due();
        fragment.segment = Some(segment);
        Ok(due)
    }

    /// What is left when all rows have come. Blocks the calling thread. Fails with kind `File` if it cannot be written.
    pub(super) fn end(&self, load: &Load) -> Result<Rest> {
        if let Some(sample) = self.sample.lock().take() {
            self.divide_anew(load, sample)?;
        }
        let mut rest = Rest { segments: std::mem::take(&mut *self.full.lock()), batches: vec![], memory: vec![] };
        let state = self.state.read().clone();
        let mut stay = |waiting: Waiting| {
            rest.batches.extend(waiting.batches);
            rest.memory.extend(waiting.memory);
        };
        for (number, fragment) in (0..).zip(&state.fragments) {
            let mut fragment = fragment.lock();
            let is_many = fragment.waiting.rows >= load.row_store.cluster_rows() / LAST_PART;
            if fragment.segment.is_some() && is_many {
                self.store(load, &state, number, &mut fragment)?.into_iter().try_for_each(SegmentBlock::write)?;
            }
            stay(std::mem::take(&mut fragment.waiting));
            rest.segments.extend(fragment.segment.take().map(|segment| (number, segment)));
        }
        Ok(rest)
    }
}

fn bytes_of(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|column| bytes_needed(column)).sum()
}
