//! The source of what comes of pairs, each packet with one at a time.

use std::sync::Arc;
use std::task::{Poll, Waker};

use diligence_base::{Error, ErrorKind, Result};
use diligence_disk::{SpillBuffers, TempSpace};
use diligence_memory::{QueryMemory, Reservation};

use super::loading::{KeptInTable, Loading, copied};
use super::overflow::Overflow;
use super::pair::{Pair, rows_of};
use super::splitting::Splitting;
use super::work::PairWork;
use crate::batch::Batch;
use crate::flow::{Flow, Output, Pull, QueryContext, Source, SourceState};
use crate::operators::hash_join::config::Config;
use crate::operators::hash_join::probe::lookups::Lookups;
use crate::operators::hash_join::probe::unmatched::UnmatchedState;
use crate::operators::hash_join::shared::{BUFFERS, CLUSTERS_MIN, Shared};
use crate::operators::hash_join::spill::dump::Dump;
use crate::operators::hash_join::table::assemble::Assembling;
use crate::operators::hash_join::table::built::Built;
use crate::operators::hash_join::table::held::{Bits, Later, Published};
use crate::operators::hash_join::table::incoming::check_rows;
use crate::sync::{Mutex, atomic::Ordering};
use crate::temp::GatheringReader;

/// Clusters that rows of a pair must be more than, to be split because somebody else needs memory.
const ASKED_CLUSTERS: usize = 8;

/// Clusters that stay free for others when one more packet begins.
const CLUSTERS_FREE: usize = 4;

/// The source.
pub(in super::super) struct Pairs {
    config: Arc<Config>,
    shared: Arc<Shared>,
    queue: Arc<Mutex<PairQueue>>,
}

/// What is left to do.
#[derive(Default)]
struct PairQueue {
    /// A table that has still to be written.
    dump: Option<Dump>,
    pairs: Vec<Pair>,
    /// Packets that are at work: they may bring new pairs.
    working: usize,
    /// Those of them that wait for the memory of the others.
    stuck: usize,
    waiting: Vec<Waker>,
}

impl Pairs {
    pub fn new(config: Arc<Config>, shared: Arc<Shared>) -> Self {
        Self { config, shared, queue: Arc::default() }
    }
}

impl Source for Pairs {
    fn name(&self) -> &'static str {
        self.config.table.name
    }

    fn packets_max(&self) -> usize {
        let dump = self.shared.end_probe(&self.config);
        let Some(partitions) = self.shared.partitions.get() else {
            // Nothing is spilled any more.
            self.shared.end_spilling();
            return 0;
        };
        let mut queue = self.queue.lock();
        if let Some(dump) = dump {
            queue.dump = Some(dump);
            return partitions.len();
        }
        queue.pairs = Pair::all(partitions, u64::MAX / 100, self.config.can_partition());
        queue.pairs.len()
    }

    fn open(&self, context: &QueryContext) -> Result<Box<dyn SourceState>> {
        let temp = context.temp.clone().ok_or_else(|| Error::bug("a join has spilled without temp space"))?;
        Ok(Box::new(PairsState {
            config: self.config.clone(),
            shared: self.shared.clone(),
            queue: self.queue.clone(),
            memory: context.memory.clone(),
            temp,
            buffers: None,
            is_stuck: false,
            owner: self.shared.next_owner(),
            batch_rows: context.batch_rows,
            step: PairStep::Idle,
            out: Output::default(),
        }))
    }
}

struct PairsState {
    config: Arc<Config>,
    shared: Arc<Shared>,
    queue: Arc<Mutex<PairQueue>>,
    memory: QueryMemory,
    temp: TempSpace,
    /// What it reads and writes with while it is at work, and whether they are those that the join has anyhow.
    buffers: Option<(SpillBuffers, bool)>,
    is_stuck: bool,
    owner: u64,
    batch_rows: usize,
    step: PairStep,
    out: Output,
}

/// What a packet is at.
#[derive(Default)]
enum PairStep {
    #[default]
    Idle,
    Dump(Dump),
    Load(Box<PairWork>, Loading),
    Assemble(Box<PairWork>, Assembling, usize),
    Probe(Box<PairWork>, Probing),
    Unmatched(Box<PairWork>, UnmatchedState),
    Later(Box<PairWork>, GatheringReader, usize),
    Split(Box<Splitting>),
}

/// A probe file on its way through a table.
struct Probing {
    built: Arc<Built>,
    lookups: Lookups,
    reader: Option<GatheringReader>,
    /// Rows read so far, and those of the batch at hand.
    rows: usize,
    batch_rows: usize,
}

impl SourceState for PairsState {
    fn pull(&mut self, waker: &Waker) -> Result<Pull> {
        if let Some(batch) = self.out.take() {
            return Ok(Pull::Batch(batch));
        }
        if std::mem::take(&mut self.is_stuck) {
            self.queue.lock().stuck -= 1;
        }
        let pull = match std::mem::take(&mut self.step) {
            PairStep::Idle => return self.claim(waker),
            PairStep::Dump(dump) => self.dump(dump, waker),
            PairStep::Load(work, loading) => self.load(work, loading, waker),
            PairStep::Assemble(work, assembling, task) => self.assemble(work, assembling, task),
            PairStep::Probe(work, probing) => self.probe(work, probing, waker),
            PairStep::Unmatched(work, unmatched) => self.unmatched(work, unmatched),
            PairStep::Later(work, reader, rows) => self.later(work, reader, rows, waker),
            PairStep::Split(splitting) => self.split(splitting, waker),
        };
        match (pull?, self.out.take()) {
            (_, Some(batch)) => Ok(Pull::Batch(batch)),
            (pull, None) => Ok(pull),
        }
    }
}

impl PairsState {
    /// Takes something to do.
    fn claim(&mut self, waker: &Waker) -> Result<Pull> {
        let queue = self.queue.clone();
        let mut queue = queue.lock();
        if self.config.is_void(&self.shared.published.seen) {
            queue.pairs.clear();
        }
        if let Some(dump) = queue.dump.take() {
            queue.working += 1;
            self.step = PairStep::Dump(dump);
            return Ok(Pull::Again);
        }
        queue.pairs.retain(|pair| pair.matters(&self.config));
        let Some(pair) = queue.pairs.pop() else {
            if queue.working == 0 {
                return Ok(Pull::Done);
            }
            queue.waiting.push(waker.clone());
            return Ok(Pull::Wait);
        };
        // Marks of rows that were in a table once would be lost in a mirror.
        let mirrored = self.config.mirrored.as_ref().filter(|_| !self.shared.is_leaving.load(Ordering::Acquire));
        let reversed = mirrored.and_then(|mirrored| Some((mirrored.clone(), pair.reversed_bytes()?)));
        let table_bytes = reversed.as_ref().map_or(pair.table_bytes(), |(_, bytes)| *bytes);
        let Some(table) = self.take_buffers(table_bytes, queue.working == 0)? else {
            queue.pairs.push(pair);
            queue.waiting.push(waker.clone());
            return Ok(Pull::Wait);
        };
        queue.working += 1;
        drop(queue);
        let buffers = self.buffers()?;
        let work = PairWork::new(pair, &self.config, reversed.map(|(mirrored, _)| mirrored), &buffers);
        if work.is_reversed {
            self.shared.counts.reversed();
        }
        self.begin_loading(Box::new(work), table);
        Ok(Pull::Again)
    }

    /// Takes the buffers that the join has anyhow, or others, and reserves about what a table needs. `None` if others
    /// are at work and there is no memory for it beside them.
    fn take_buffers(&mut self, table_bytes: usize, is_alone: bool) -> Result<Option<Reservation>> {
        let shared = self.shared.buffers.lock().take();
        let own = if shared.is_some() { CLUSTERS_FREE } else { CLUSTERS_FREE + CLUSTERS_MIN };
        let own = own * self.temp.cluster_bytes();
        let mut table = self.memory.revocable(self.config.table.name);
        let fits = table.grow(table_bytes + own).is_ok();
        if !is_alone && !fits {
            *self.shared.buffers.lock() = shared;
            return Ok(None);
        }
        table.shrink(own);
        if let Some(shared) = shared {
            self.buffers = Some((shared, true));
            return Ok(Some(table));
        }
        match SpillBuffers::new(&self.temp, self.memory.reservation(self.config.table.name), BUFFERS) {
            Err(error) if error.kind() == ErrorKind::Resource && !is_alone => return Ok(None),
            buffers => self.buffers = Some((buffers?, false)),
        }
        Ok(Some(table))
    }

    fn buffers(&self) -> Result<SpillBuffers> {
        let buffers = self.buffers.as_ref().map(|(buffers, _)| buffers.clone());
        buffers.ok_or_else(|| Error::bug("a spilled pair was read without buffers"))
    }

    /// Done with what it claimed; there may be new pairs.
    fn release(&mut self, pairs: Vec<Pair>) -> Result<Pull> {
        if let Some((buffers, is_shared)) = self.buffers.take() {
            buffers.release_spare();
            if is_shared {
                *self.shared.buffers.lock() = Some(buffers);
            }
        }
        let waiting = {
            let mut queue = self.queue.lock();
            queue.working -= 1;
            queue.pairs.extend(pairs);
            std::mem::take(&mut queue.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
        Ok(Pull::Again)
    }

    /// There is no memory for the next step. Waits for others that are at work and will give back theirs.
    fn short(&mut self, error: Error, waker: &Waker) -> Result<Pull> {
        if let Some((buffers, _)) = &self.buffers {
            buffers.release_spare();
        }
        let mut queue = self.queue.lock();
        if error.kind() != ErrorKind::Resource || queue.working <= queue.stuck + 1 {
            return Err(error);
        }
        queue.stuck += 1;
        queue.waiting.push(waker.clone());
        self.is_stuck = true;
        Ok(Pull::Wait)
    }

    fn dump(&mut self, mut dump: Dump, waker: &Waker) -> Result<Pull> {
        let partitions = self.shared.partitions.get().ok_or_else(|| Error::bug("a table was dumped nowhere"))?;
        match dump.poll(partitions, waker) {
            Poll::Pending => {
                self.step = PairStep::Dump(dump);
                return Ok(Pull::Wait);
            }
            Poll::Ready(done) => done?,
        }
        drop(dump);
        let pairs = Pair::all(partitions, u64::MAX / 100, self.config.can_partition());
        self.release(pairs)
    }

    /// `table` may hold what the table needs.
    fn begin_loading(&mut self, work: Box<PairWork>, table: Reservation) {
        let loading = Loading::new(&work.config, table, self.temp.cluster_bytes());
        self.step = PairStep::Load(work, loading);
    }

    fn load(&mut self, mut work: Box<PairWork>, mut loading: Loading, waker: &Waker) -> Result<Pull> {
        if let Some(pull) = self.write_overflow(&mut work, waker) {
            self.step = PairStep::Load(work, loading);
            return pull.or_else(|error| self.short(error, waker));
        }
        let batch = match work.next_build(waker) {
            Poll::Pending => {
                self.step = PairStep::Load(work, loading);
                return Ok(Pull::Wait);
            }
            // Nothing could be read beside what is kept: that is enough for a block, or to be split.
            Poll::Ready(Err(error)) if error.kind() == ErrorKind::Resource && !loading.is_empty() => {
                return self.enough(work, loading, false);
            }
            Poll::Ready(Err(error)) => {
                self.step = PairStep::Load(work, loading);
                return self.short(error, waker);
            }
            Poll::Ready(Ok(batch)) => batch,
        };
        let Some(batch) = batch else {
            work.build = None;
            return self.begin_assembling(work, loading);
        };
        let Some(batch) = work.staying(batch)? else {
            self.step = PairStep::Load(work, loading);
            return Ok(Pull::Again);
        };
        let mut kept = loading.keep(&batch)?;
        if matches!(kept, KeptInTable::No(_)) {
            self.buffers()?.release_spare();
            kept = loading.keep(&batch)?;
        }
        // A small table is probed, and gone, sooner than split.
        let is_large = loading.bytes() > ASKED_CLUSTERS * self.temp.cluster_bytes();
        let is_worth_splitting = is_large && !work.in_blocks && work.pair.can_split;
        match kept {
            KeptInTable::Yes if is_worth_splitting && loading.is_asked()? => self.enough(work, loading, true),
            KeptInTable::Yes => {
                self.step = PairStep::Load(work, loading);
                Ok(Pull::Again)
            }
            // With rows in memory that are still to be told apart, it is those that are too many.
            KeptInTable::No(error) if loading.is_empty() && !work.overflow.as_ref().is_some_and(Overflow::has_rows) => {
                let half = batch.rows() / 2;
                if half == 0 {
                    work.next.push_front(batch);
                    // Less than this there is not: it is needed to go on.
                    let is_harder = loading.hold_firm();
                    self.step = PairStep::Load(work, loading);
                    return if is_harder { Ok(Pull::Again) } else { self.short(error, waker) };
                }
                // A smaller piece, perhaps.
                work.next.push_front(batch.slice(half, batch.rows() - half));
                work.next.push_front(batch.slice(0, half));
                self.step = PairStep::Load(work, loading);
                Ok(Pull::Again)
            }
            KeptInTable::No(_) => {
                work.next.push_front(batch);
                self.enough(work, loading, false)
            }
        }
    }

    /// Writes the rows that a pair puts aside, before it goes on. `None` if there are none any more.
    fn write_overflow(&self, work: &mut PairWork, waker: &Waker) -> Option<Result<Pull>> {
        match work.overflow.as_mut()?.poll_writes(self.owner, waker) {
            Poll::Pending => Some(Ok(Pull::Wait)),
            Poll::Ready(written) => written.err().map(Err),
        }
    }

    /// More build rows than these do not fit, or somebody else needs memory.
    fn enough(&mut self, mut work: Box<PairWork>, mut loading: Loading, is_asked: bool) -> Result<Pull> {
        if work.is_reversed {
            drop(loading);
            let PairWork { pair, .. } = *work;
            let work = PairWork::new(pair, &self.config, None, &self.buffers()?);
            self.begin_loading(Box::new(work), self.memory.revocable(self.config.table.name));
            return Ok(Pull::Again);
        }
        if !work.in_blocks && work.pair.can_split {
            if work.overflows(&mut loading, is_asked, &self.buffers()?, &self.shared.counts) {
                self.step = PairStep::Load(work, loading);
                return Ok(Pull::Again);
            }
            let splitting =
                Splitting::new(work, loading, self.buffers()?, &self.config, &self.shared.counts, self.owner);
            self.step = PairStep::Split(Box::new(splitting));
            return Ok(Pull::Again);
        }
        work.in_blocks = true;
        self.begin_assembling(work, loading)
    }

    fn begin_assembling(&mut self, mut work: Box<PairWork>, loading: Loading) -> Result<Pull> {
        if work.in_blocks {
            self.shared.counts.block();
            if work.later.is_none() && self.config.pairs.asks_all_held() {
                let rows = rows_of(&work.pair.probe) as usize;
                check_rows(rows)?;
                let mut reservation = self.memory.reservation(self.config.table.name);
                reservation.overdraw(rows / 8);
                work.later = Some((Arc::new(Bits::new(rows)), reservation));
            }
        }
        let assembling = Assembling::new(&work.config.table, loading.into_all(), &[], 1, true)?;
        self.step = PairStep::Assemble(work, assembling, 0);
        Ok(Pull::Again)
    }

    fn assemble(&mut self, work: Box<PairWork>, assembling: Assembling, task: usize) -> Result<Pull> {
        if task < assembling.tasks() {
            assembling.work(task, &self.memory)?;
            self.step = PairStep::Assemble(work, assembling, task + 1);
            return Ok(Pull::Again);
        }
        let later = work.later.as_ref().map(|(matched, _)| Later::new(matched.clone()));
        let is_complete = !work.in_blocks && work.overflow.is_none();
        let built = assembling.finish(&[], is_complete, later, |_| {})?;
        let buffers = self.buffers()?;
        let reader = work.probes(&buffers);
        let seen = self.shared.published.seen.clone();
        let lookups = Lookups::new(work.config.clone(), seen, self.batch_rows);
        let probing = Probing { built: Arc::new(built), lookups, reader, rows: 0, batch_rows: 0 };
        self.step = PairStep::Probe(work, probing);
        Ok(Pull::Again)
    }

    fn probe(&mut self, mut work: Box<PairWork>, mut probing: Probing, waker: &Waker) -> Result<Pull> {
        if let Some(pull) = self.write_overflow(&mut work, waker) {
            self.step = PairStep::Probe(work, probing);
            return pull.or_else(|error| self.short(error, waker));
        }
        if probing.lookups.is_busy() {
            probing.lookups.more(&probing.built, &mut self.out)?;
            self.step = PairStep::Probe(work, probing);
            return Ok(Pull::Again);
        }
        let next = match &mut probing.reader {
            None => None,
            Some(reader) => match work.read(reader, waker) {
                Poll::Pending => {
                    self.step = PairStep::Probe(work, probing);
                    return Ok(Pull::Wait);
                }
                Poll::Ready(Err(error)) => {
                    self.step = PairStep::Probe(work, probing);
                    return self.short(error, waker);
                }
                Poll::Ready(Ok(next)) => next,
            },
        };
        let mut is_over = next.is_none();
        if let Some(batch) = next {
            probing.rows += std::mem::replace(&mut probing.batch_rows, batch.rows());
            if let Some(later) = &probing.built.held.later {
                later.first_row.store(probing.rows, Ordering::Relaxed);
            }
            if let Some(batch) = work.looked_up(self.unpinned(batch)?)? {
                is_over = probing.lookups.push(&probing.built, batch, &mut self.out)? == Flow::Done;
            }
        }
        if !is_over {
            self.step = PairStep::Probe(work, probing);
            return Ok(Pull::Again);
        }
        let held = probing.built.held.clone();
        if !work.config.table.marks_rows {
            drop((probing, held));
            return self.next_block(work);
        }
        let published = Arc::new(Published::reading(&self.shared.published.seen));
        let is_plain = self.config.table.null_aware && !self.config.pairs.has_residual();
        let unmatched = UnmatchedState::new(held, work.config.pairs.clone(), published, is_plain, self.batch_rows);
        self.step = PairStep::Unmatched(work, unmatched);
        Ok(Pull::Again)
    }

    /// What comes out may be kept by whoever is downstream: it must not keep the last clusters that there are to read
    /// with.
    fn unpinned(&self, batch: Batch) -> Result<Batch> {
        match self.buffers()?.at_hand() {
            0 | 1 => copied(&batch),
            _ => Ok(batch),
        }
    }

    fn unmatched(&mut self, work: Box<PairWork>, mut unmatched: UnmatchedState) -> Result<Pull> {
        match unmatched.next()? {
            Pull::Done => {
                drop(unmatched);
                self.next_block(work)
            }
            pull => {
                self.step = PairStep::Unmatched(work, unmatched);
                Ok(pull)
            }
        }
    }

    fn next_block(&mut self, mut work: Box<PairWork>) -> Result<Pull> {
        if work.build.is_some() {
            self.begin_loading(work, self.memory.revocable(self.config.table.name));
            return Ok(Pull::Again);
        }
        let reader = match (&work.later, &work.pair.probe) {
            (Some(_), Some(probe)) => GatheringReader::new(probe.clone().into_reader(&self.buffers()?)),
            _ => {
                let overflown = work.overflown();
                drop(work);
                return self.release(overflown.into_iter().collect());
            }
        };
        self.step = PairStep::Later(work, reader, 0);
        Ok(Pull::Again)
    }

    fn later(&mut self, work: Box<PairWork>, mut reader: GatheringReader, rows: usize, waker: &Waker) -> Result<Pull> {
        let batch = match reader.poll_next(waker) {
            Poll::Pending => {
                self.step = PairStep::Later(work, reader, rows);
                return Ok(Pull::Wait);
            }
            Poll::Ready(Some(Err(error))) => {
                self.step = PairStep::Later(work, reader, rows);
                return self.short(error, waker);
            }
            Poll::Ready(batch) => batch.transpose()?,
        };
        let (Some(batch), Some((matched, _))) = (batch, &work.later) else {
            drop((work, reader));
            return self.release(vec![]);
        };
        let batch = self.unpinned(batch)?;
        let pairs = &self.config.pairs;
        pairs.emit_later(&pairs.shape.probe_part(&batch), matched, rows, &mut self.out)?;
        self.step = PairStep::Later(work, reader, rows + batch.rows());
        Ok(Pull::Again)
    }

    fn split(&mut self, mut splitting: Box<Splitting>, waker: &Waker) -> Result<Pull> {
        match splitting.poll(waker) {
            Poll::Pending => {
                self.step = PairStep::Split(splitting);
                return Ok(Pull::Wait);
            }
            Poll::Ready(Ok(false)) => {
                self.step = PairStep::Split(splitting);
                return Ok(Pull::Again);
            }
            Poll::Ready(Ok(true)) => {}
            Poll::Ready(Err(error)) => {
                self.step = PairStep::Split(splitting);
                return self.short(error, waker);
            }
        }
        let pairs = splitting.finish();
        self.release(pairs)
    }
}
