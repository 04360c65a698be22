//! Joins on any condition, by looking at all pairs.
//!
//! The left side is held in arrays; each probe batch is paired with it, at most a batch of pairs at a time. Without a
//! condition nothing is evaluated, and an inner join is a cross product made of picks.
//!
//! Invariant: as for [hash joins](super::hash_join), rows come out in the order of the probe rows within a batch, and no
//! value moves.

use std::sync::{Arc, OnceLock};
use std::task::Waker;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion_common::JoinType;
use diligence_base::{Error, Result};

use super::hash_join::cross_pairs::{CrossHeld, CrossPairs};
use super::hash_join::emit::{
    Bits, Held, InWork, PairJoin, Published, StoredSource, Wanted, marks_held, needs_held_rows,
};
use super::hash_join::incoming::{AllIn, Incoming, check_rows};
use super::hash_join::{Assembly, JoinParts, Unmatched};
use crate::batch::Batch;
use crate::pipeline::{Accept, Flow, Operator, OperatorState, Output, Setup, Sink, SinkState, Source};
use crate::plan;
use crate::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};

/// Makes a join ready to run once.
pub fn nested_loop_join(join: &plan::NestedLoopJoin, output_schema: &SchemaRef) -> Result<JoinParts> {
    let mut wanted = Wanted::default();
    let pairs = PairJoin::new(
        join.join_type,
        &join.left.schema,
        &join.right.schema,
        join.filter.as_ref(),
        join.projection.as_deref(),
        output_schema,
        &mut wanted,
    )?;
    let pairs = Arc::new(pairs);
    let shared = Arc::new(Shared::default());
    let published = shared.published.clone();
    let mut after_probe: Vec<(Arc<dyn Source>, &'static str)> = vec![];
    if marks_held(join.join_type) {
        let (pairs, published) = (pairs.clone(), published.clone());
        let unmatched = Unmatched { name: "NestedLoopJoinUnmatched", pairs, published, null_aware: false };
        after_probe.push((Arc::new(unmatched), "Unmatched rows"));
    }
    let build = Build { stored: wanted.columns, join_type: join.join_type, shared: shared.clone() };
    Ok(JoinParts { build: Arc::new(build), probe: Arc::new(Probe { pairs, shared }), after_probe, give_back: None })
}

#[derive(Default)]
struct Shared {
    /// Of each batch of the held side, how many rows it has: a join may want no columns at all.
    collected: Mutex<Vec<Incoming<usize>>>,
    published: Arc<Published>,
    /// Whether all held rows are marked as matched: without a condition one probe row matches all.
    all_matched: AtomicBool,
}

struct Build {
    stored: Vec<(StoredSource, DataType)>,
    join_type: JoinType,
    shared: Arc<Shared>,
}

impl Sink for Build {
    fn name(&self) -> &'static str {
        "NestedLoopJoinBuild"
    }

    fn open(&self, setup: &Setup) -> Result<Box<dyn SinkState>> {
        Ok(Box::new(BuildState {
            sources: self.stored.iter().map(|(source, _)| *source).collect(),
            incoming: Some(Incoming::new(&self.stored, setup.memory.reservation("NestedLoopJoin"))),
            shared: self.shared.clone(),
        }))
    }

    fn complete(&self) -> Result<()> {
        let packets = std::mem::take(&mut *self.shared.collected.lock());
        let rows = packets.iter().map(Incoming::rows).sum();
        check_rows(rows)?;
        // Beside the chunks.
        let arrays = packets.iter().map(Incoming::assembly_bytes).sum();
        let AllIn { chunks, columns: incoming, mut reservation } = AllIn::new(packets, self.stored.len());
        if let Some(reservation) = &mut reservation {
            reservation.grow(arrays)?;
        }
        let places = chunks.iter().enumerate();
        let places: Vec<(usize, usize)> =
            places.flat_map(|(packet, chunks)| (0..chunks.len()).map(move |chunk| (packet, chunk))).collect();
        let mut columns = Vec::with_capacity(self.stored.len());
        let mut bytes = 0;
        for (chunks, (_, logical)) in incoming.into_iter().zip(&self.stored) {
            let assembly = Assembly::new(chunks, &places, logical);
            (0..assembly.pieces()).try_for_each(|piece| assembly.work(piece))?;
            let (column, column_bytes) = assembly.finish()?;
            columns.push(column);
            bytes += column_bytes;
        }
        if let Some(reservation) = &mut reservation {
            // The chunks are gone.
            reservation.resize(bytes + if marks_held(self.join_type) { rows / 8 } else { 0 })?;
        }
        let matched = marks_held(self.join_type).then(|| Bits::new(rows));
        let held = Held { rows, columns, matched, valid: None, is_complete: true, later: None, reservation };
        *self.shared.published.held.lock() = Some(Arc::new(held));
        Ok(())
    }
}

struct BuildState {
    sources: Vec<StoredSource>,
    /// Gone once handed over.
    incoming: Option<Incoming<usize>>,
    shared: Arc<Shared>,
}

impl SinkState for BuildState {
    fn push(&mut self, batch: Batch, _waker: &Waker) -> Result<Accept> {
        let columns = self.sources.iter().map(|source| match source {
            StoredSource::Input(index) => Ok(batch.column(*index).clone()),
            StoredSource::Key(_) => Err(Error::bug("a nested-loop join has no keys")),
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let Some(incoming) = &mut self.incoming else {
            return Err(Error::bug("a join's held side went on after its end"));
        };
        let room = incoming.make_room(size_of::<usize>(), &columns)?;
        incoming.push(room, batch.rows(), batch.rows(), &columns)?;
        Ok(Accept::More)
    }

    fn finish(&mut self, _waker: &Waker) -> Result<Accept> {
        self.shared.collected.lock().extend(self.incoming.take());
        Ok(Accept::More)
    }
}

struct Probe {
    pairs: Arc<PairJoin>,
    shared: Arc<Shared>,
}

impl Operator for Probe {
    fn name(&self) -> &'static str {
        "NestedLoopJoin"
    }

    fn open(&self, setup: &Setup) -> Result<Box<dyn OperatorState>> {
        Ok(Box::new(ProbeState {
            pairs: self.pairs.clone(),
            shared: self.shared.clone(),
            held: OnceLock::new(),
            batch_rows: setup.batch_rows.max(1),
            pending: None,
        }))
    }
}

struct ProbeState {
    pairs: Arc<PairJoin>,
    shared: Arc<Shared>,
    held: OnceLock<Arc<Held>>,
    batch_rows: usize,
    pending: Option<(InWork, CrossPairs)>,
}

impl OperatorState for ProbeState {
    fn push(&mut self, input: Batch, out: &mut Output) -> Result<Flow> {
        let held = self.held()?;
        let pairs = self.pairs.clone();
        if held.rows == 0 {
            if needs_held_rows(pairs.join_type) {
                return Ok(Flow::Done);
            }
            pairs.emit_alone(&pairs.shape.probe_part(&input), out)?;
            return Ok(Flow::NeedInput);
        }
        if !pairs.has_residual() {
            if let Some(matched) = &held.matched
                && !self.shared.all_matched.swap(true, Ordering::Relaxed)
            {
                matched.set_all();
            }
            match pairs.join_type {
                // Nothing more to learn.
                JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => return Ok(Flow::Done),
                JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
                    let all: Vec<u32> = (0..input.rows() as u32).collect();
                    pairs.emit_existing(&pairs.shape.probe_part(&input), &all, out)?;
                    return Ok(Flow::NeedInput);
                }
                _ => {}
            }
        }
        let rows = (0..input.rows() as u32).collect();
        self.pending = Some((pairs.begin(input, self.batch_rows), CrossPairs::new(rows, CrossHeld::All(held.rows))));
        self.more(out)
    }

    fn more(&mut self, out: &mut Output) -> Result<Flow> {
        let held = self.held()?;
        let Some((mut work, mut cross)) = self.pending.take() else {
            return Err(Error::bug("a join without a batch was asked for more"));
        };
        if self.pairs.is_right_existence() {
            while cross.next_probe().is_some_and(|row| work.matched[row as usize]) {
                cross.skip_probe();
            }
        }
        let (mut probe, mut build) = (Vec::with_capacity(self.batch_rows), Vec::with_capacity(self.batch_rows));
        cross.fill(self.batch_rows, &mut probe, &mut build);
        let complete = cross.next_probe().map_or(work.batch.rows(), |row| row as usize);
        self.pairs.consume(&held, &mut work, probe, build, complete, out)?;
        if cross.is_done() {
            return Ok(Flow::NeedInput);
        }
        self.pending = Some((work, cross));
        Ok(Flow::MoreOutput)
    }
}

impl ProbeState {
    fn held(&self) -> Result<Arc<Held>> {
        if let Some(held) = self.held.get() {
            return Ok(held.clone());
        }
        let held = self.shared.published.held.lock().clone();
        let held = held.ok_or_else(|| Error::bug("a join was probed before its held side was in"))?;
        Ok(self.held.get_or_init(|| held).clone())
    }
}
