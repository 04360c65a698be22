//! The clusters of a scan on their way from the table to packets.
//!
//! ```text
//!   clusters --order--> queued --begin--> being read --arrived--> ready --next--> held by a packet
//!      ^                   |                                        |                  |
//!      +-------------------+-------- when memory is short ----------+------------------+
//! ```
//!
//! Unless packets get the clusters in order, what other scans have decoded as a whole goes from `clusters` to a packet
//! at once, which chooses it when it is about to go on: first of all what another scan has just read. As long as there
//! is something like that, nothing is ordered: by then others may have left more. What was fetched goes first, because
//! others may wait for what is to be left of it.
//!
//! Reading ahead is a luxury; reading at all is not. So a refused reservation is an error only if no cluster is
//! anywhere to the right of `clusters`: otherwise the packet waits for memory that this very scan holds. What a packet
//! needs to decode the cluster that it holds goes before what was read ahead, which is then dropped and read again
//! later. Where clusters are large for the memory that there is, their beginnings are fetched, and the packet that
//! holds one reads on step by step.
//!
//! Invariants:
//! * In order, a cluster is handed out when all before it have been and have the memory to be decoded. So, where
//!   several packets decode, the first of their clusters can always be decoded to its end, whatever others wait for.
//! * A cluster in the buffer goes from `queued` to `ready` at once, with no more memory than the buffer has for it.
//! * At most so many per packet as the knob says are queued, being read or ready, and their bytes are reserved.
//! * A packet that waits is woken when a cluster arrives and when one is released, one of which is bound to happen; and
//!   one of them when another packet finds something decoded, as there may be more.
//! * Nothing is read, and nothing is reserved but for reads that cannot be broken off, once all packets have left.
//! * The lock is taken a few times per cluster, not per batch.

use crate::sync::atomic::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;

use crate::sync::{Latch, Mutex};
use diligence_base::limits::READ_AHEAD_CLUSTERS;
use diligence_base::{Error, Result};
use diligence_memory::{QueryMemory, Reservation};
use diligence_storage::{Cluster, Fetch, Fetched, FirstStep, Gone, Hint};
use futures::FutureExt;
use futures::future::{AbortHandle, abortable};

use super::promises::Promises;
use super::{Io, ScanProgress};
use crate::reuse::columns::{Attendance, Choice, ClusterColumns};

/// Clusters on their way to the packets of a scan.
static CLUSTERS: Latch = Latch::new("scan");

/// For so many clusters nothing is read ahead after memory was refused. What was read in vain by then is little, and a
/// shortage that other queries made is soon forgotten.
const SHORT_CLUSTERS: usize = 8;

/// A cluster is fetched as a whole if all that may be under way are no more than this part of what the query can count
/// on, as its divisor; otherwise in steps, if it can be. What a scan holds nobody can ask back, and others need the
/// rest. If the scans of the query have more than that together, none reads ahead.
const WHOLE_PART: usize = 4;

/// A second cluster is decoded beside another if the scans of the query have no more than this part of what it can
/// count on then, as its divisor.
const DECODE_PART: usize = 2;

/// For each packet, how many clusters an ordered scan may be beyond the first that is not decoded: what comes of them
/// waits for that.
const IN_ORDER_AHEAD: usize = 2;

/// Bytes of a column that a step brings: so many make a read worth its while, and more gain nothing.
const STEP_BYTES: std::ops::RangeInclusive<usize> = 64 << 10..=1 << 20;

/// The clusters of a scan that no packet has decoded yet.
pub(super) struct ReadAhead {
    /// Which clusters do not matter any more, if that is known before they are read.
    promises: Option<Promises>,
    /// What is fetched, by position in the table.
    columns: Vec<usize>,
    /// Whether packets get the clusters in file order.
    ordered: bool,
    /// What becomes of clusters in their buffer.
    hint: Hint,
    /// Whether nothing more is wanted, for those who read.
    gone: Arc<Gone>,
    io: Io,
    progress: Arc<ScanProgress>,
    queue: Mutex<Queue>,
}

struct Queue {
    /// Clusters queued, being read or ready at most.
    window: usize,
    /// Clusters that are still to be decoded one at a time, because memory was refused.
    short: usize,
    /// Whether a cluster that was fetched as a whole could not be decoded for want of memory: then those that can be
    /// are fetched in steps.
    in_steps: bool,
    /// Whether clusters are fetched in steps: what these need is not known before.
    has_steps: bool,
    /// Whether nothing more is wanted.
    is_stopped: bool,
    /// Packets that have not left.
    packets: usize,
    /// Clusters that packets hold.
    held: usize,
    /// Those among them whose decoding has its memory.
    decoding: usize,
    /// Not asked for yet.
    clusters: VecDeque<(usize, Arc<dyn Cluster>)>,
    /// Fetches that have not begun.
    queued: BTreeMap<usize, Order>,
    /// Fetches that have begun and not arrived.
    reading: usize,
    /// Requests to object stores, queued or begun: they can be broken off.
    requests: BTreeMap<usize, AbortHandle>,
    ready: BTreeMap<usize, Ready>,
    /// For ordered scans: the first cluster that no packet has had.
    next_in_order: usize,
    /// Those before it that were put back.
    returned: BTreeSet<usize>,
    /// Those that packets hold.
    places: BTreeSet<usize>,
    /// Packets that wait for a cluster, or for the memory of one.
    waiting: Vec<Waker>,
    /// What is shared with other scans, until nothing more is wanted.
    attendance: Option<Arc<Attendance>>,
}

struct Order {
    cluster: Arc<dyn Cluster>,
    columns: Option<Arc<ClusterColumns>>,
    reservation: Reservation,
}

/// A cluster that was fetched, or could not be.
pub(super) struct Ready {
    pub index: usize,
    pub cluster: Arc<dyn Cluster>,
    /// What other scans have decoded of it, which was not fetched, and what they want of it.
    pub columns: Option<Arc<ClusterColumns>>,
    pub fetched: Result<Fetched>,
    /// The bytes fetched.
    pub reservation: Reservation,
}

/// What a packet gets.
pub(super) enum Next {
    /// A cluster, which it holds until [`ReadAhead::released`] or [`ReadAhead::put_back`].
    Cluster(Box<Ready>),
    /// The waker will be woken.
    Wait,
    /// Order again: what there was to wait for has just gone.
    Again,
    End,
}

/// A read for the next step of a cluster.
pub(super) struct Step(Mutex<FetchProgress>);

enum FetchProgress {
    Reading(Waker),
    /// What was read, and its bytes.
    Read(Result<Fetched>, Reservation),
    Taken,
}

impl Step {
    fn arrived(&self, read: Result<Fetched>, reservation: Reservation) {
        let before = std::mem::replace(&mut *self.0.lock(), FetchProgress::Read(read, reservation));
        if let FetchProgress::Reading(waker) = before {
            waker.wake();
        }
    }

    /// What was read, with its bytes; `None` as long as it is not there, and the waker is woken when it is.
    pub fn take(&self, waker: &Waker) -> Option<(Result<Fetched>, Reservation)> {
        let mut progress = self.0.lock();
        if let FetchProgress::Reading(last) = &mut *progress {
            last.clone_from(waker);
            return None;
        }
        match std::mem::replace(&mut *progress, FetchProgress::Taken) {
            FetchProgress::Read(read, reservation) => Some((read, reservation)),
            FetchProgress::Reading(_) | FetchProgress::Taken => None,
        }
    }
}

impl Queue {
    /// Clusters that hold memory before a packet takes them.
    fn ahead(&self) -> usize {
        self.queued.len() + self.reading + self.ready.len()
    }

    /// Clusters that hold memory.
    fn under_way(&self) -> usize {
        self.ahead() + self.held
    }

    /// Whether memory was refused of late, and a cluster is under way.
    fn is_one_at_a_time(&self) -> bool {
        self.short > 0 && self.under_way() > 0
    }

    /// For ordered scans: the cluster that a packet may have next. Each gets its memory before the next is handed out.
    fn next_in_order(&self) -> Option<usize> {
        let next = self.returned.first().copied().unwrap_or(self.next_in_order);
        let reach = IN_ORDER_AHEAD * self.packets.max(1);
        let is_near = self.places.first().is_none_or(|first| next < first + reach);
        (self.held == self.decoding && is_near).then_some(next)
    }

    /// Gives up what nobody has begun to read or to decode.
    fn give_up_ahead(&mut self) {
        let queued = std::mem::take(&mut self.queued).into_iter().map(|(index, order)| (index, order.cluster));
        let ready = std::mem::take(&mut self.ready).into_iter().map(|(index, ready)| (index, ready.cluster));
        self.clusters.extend(queued.chain(ready));
        self.sort_clusters();
    }

    fn sort_clusters(&mut self) {
        self.clusters.make_contiguous().sort_by_key(|(index, _)| *index);
    }
}

impl ReadAhead {
    pub fn new(
        clusters: Vec<Arc<dyn Cluster>>,
        promises: Option<Promises>,
        columns: Vec<usize>,
        ordered: bool,
        io: Io,
        progress: Arc<ScanProgress>,
        attendance: Option<Arc<Attendance>>,
    ) -> Arc<Self> {
        let buffered = clusters.iter().filter(|cluster| cluster.is_buffered());
        let hint = Hint::Scan { bytes: buffered.map(|cluster| cluster.bytes(&columns)).sum() };
        let queue = Queue {
            window: READ_AHEAD_CLUSTERS,
            short: 0,
            in_steps: false,
            has_steps: false,
            is_stopped: false,
            packets: 0,
            held: 0,
            decoding: 0,
            clusters: clusters.into_iter().enumerate().collect(),
            queued: BTreeMap::new(),
            reading: 0,
            requests: BTreeMap::new(),
            ready: BTreeMap::new(),
            next_in_order: 0,
            returned: BTreeSet::new(),
            places: BTreeSet::new(),
            waiting: Vec::new(),
            attendance,
        };
        let queue = Mutex::named(&CLUSTERS, queue);
        Arc::new(Self { promises, columns, ordered, hint, gone: Arc::default(), io, progress, queue })
    }

    /// Clusters not asked for yet.
    pub fn clusters(&self) -> usize {
        self.queue.lock().clusters.len()
    }

    /// One of at most `packets` packets comes. All come before the first pulls.
    pub fn join(&self, packets: usize) {
        let mut queue = self.queue.lock();
        queue.packets += 1;
        queue.window = self.io.knobs.read_ahead.get() * packets.max(1);
    }

    /// A packet goes; with the last one all fetches end.
    pub fn leave(&self) {
        let is_last = {
            let mut queue = self.queue.lock();
            queue.packets -= 1;
            queue.packets == 0
        };
        if is_last {
            self.stop();
        }
    }

    /// Nothing more is wanted.
    pub fn stop(&self) {
        // What is dropped may be large; it is dropped outside the lock.
        let (clusters, queued, ready, requests, waiting, attendance) = {
            let mut queue = self.queue.lock();
            queue.is_stopped = true;
            self.gone.set();
            (
                std::mem::take(&mut queue.clusters),
                std::mem::take(&mut queue.queued),
                std::mem::take(&mut queue.ready),
                std::mem::take(&mut queue.requests),
                std::mem::take(&mut queue.waiting),
                queue.attendance.take(),
            )
        };
        requests.into_values().for_each(|request| request.abort());
        drop((clusters, queued, ready, attendance));
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Orders fetches until the window is full or memory is short, or what comes next need not be fetched.
    pub fn order(self: &Arc<Self>, memory: &QueryMemory) -> Result<()> {
        loop {
            let (index, fetch) = {
                let mut queue = self.queue.lock();
                self.leave_out(&mut queue);
                if queue.ahead() >= queue.window || queue.is_one_at_a_time() {
                    return Ok(());
                }
                // Several scans of a query may read at once, and each has planned for itself.
                if queue.under_way() > 0 && memory.held_by("Scan") > memory.share_bytes() / WHOLE_PART {
                    return Ok(());
                }
                let Choice::Read(position) = self.choose(&queue) else { return Ok(()) };
                let Some((_, cluster)) = queue.clusters.get(position).cloned() else { return Ok(()) };
                let shared = queue.attendance.as_ref().and_then(|attendance| attendance.take(cluster.as_ref(), false));
                let columns = match &shared {
                    None => Some(self.columns.clone()),
                    Some(shared) => (!shared.is_all()).then(|| shared.missing(&self.columns)),
                };
                let mut reservation = memory.reservation("Scan");
                let fetch = match &columns {
                    None => None,
                    Some(columns) => match self.reserve(&cluster, columns, &mut queue, &mut reservation, memory) {
                        Ok(fetch) => Some(fetch),
                        Err(error) => return if queue.under_way() > 0 { Ok(()) } else { Err(error) },
                    },
                };
                let Some((index, cluster)) = queue.clusters.remove(position) else { return Ok(()) };
                queue.queued.insert(index, Order { cluster, columns: shared, reservation });
                (index, fetch)
            };
            match fetch {
                Some(fetch) => self.fetch(index, fetch),
                None => self.read(index, || Ok(Fetched::nothing())),
            }
        }
    }

    /// Reserves what a fetch of these columns brings: of the whole cluster, or of its beginning.
    fn reserve(
        &self,
        cluster: &Arc<dyn Cluster>,
        columns: &[usize],
        queue: &mut Queue,
        reservation: &mut Reservation,
        memory: &QueryMemory,
    ) -> Result<Result<Fetch>> {
        let bytes = cluster.bytes(columns);
        // Of each packet one is decoded, and the others are read.
        let under_way = queue.window + queue.window / READ_AHEAD_CLUSTERS;
        let share = memory.share_bytes() / WHOLE_PART / under_way.max(1);
        let whole = |reservation: &mut Reservation| {
            let fetch = caught(cluster, || Ok(cluster.fetch_hinted(columns, self.hint)));
            // What is in the buffer is counted there.
            if !(cluster.is_buffered() && matches!(fetch, Ok(Fetch::Ready(_)))) {
                reservation.grow(bytes)?;
            }
            Ok(fetch)
        };
        if bytes <= share && !queue.in_steps {
            return whole(reservation);
        }
        let step_bytes = (share / columns.len().max(1)).clamp(*STEP_BYTES.start(), *STEP_BYTES.end());
        match caught(cluster, || Ok(cluster.fetch_in_steps(columns, step_bytes)))? {
            None => whole(reservation),
            Some(FirstStep { bytes, fetch }) => {
                reservation.grow(bytes)?;
                queue.has_steps = true;
                Ok(Ok(fetch))
            }
        }
    }

    /// Whether the cluster at a position does not matter any more.
    pub fn is_hopeless(&self, position: usize) -> bool {
        self.promises.as_ref().is_some_and(|promises| promises.is_hopeless(position))
    }

    /// So many clusters need not be decoded after all.
    pub fn left_out(&self, clusters: usize) {
        self.progress.clusters_total.fetch_sub(clusters, Ordering::Relaxed);
        self.progress.clusters_pruned.fetch_add(clusters, Ordering::Relaxed);
    }

    /// Leaves out what is not asked for yet and does not matter any more: all behind the first such cluster.
    fn leave_out(&self, queue: &mut Queue) {
        if self.promises.is_none() {
            return;
        }
        let left = queue.clusters.partition_point(|(index, _)| !self.is_hopeless(*index));
        self.left_out(queue.clusters.len() - left);
        queue.clusters.truncate(left);
    }

    /// Which of the clusters that are not asked for yet comes next.
    fn choose(&self, queue: &Queue) -> Choice {
        match &queue.attendance {
            // Those that promise most come first, decoded or not.
            Some(attendance) if self.promises.is_some() => {
                attendance.choose(&queue.clusters.iter().take(1).cloned().collect())
            }
            Some(attendance) if !self.ordered => attendance.choose(&queue.clusters),
            _ => Choice::Read(0),
        }
    }

    /// A cluster that is not asked for yet and that others have decoded.
    fn take_decoded(&self, queue: &mut Queue, memory: &QueryMemory) -> Option<Ready> {
        if queue.is_one_at_a_time() {
            return None;
        }
        let Choice::Here(position) = self.choose(queue) else { return None };
        let (_, cluster) = queue.clusters.get(position)?;
        let columns = queue.attendance.as_ref()?.take(cluster.as_ref(), true)?;
        let (index, cluster) = queue.clusters.remove(position)?;
        let ready = Ready {
            index,
            cluster,
            columns: Some(columns),
            fetched: Ok(Fetched::nothing()),
            reservation: memory.reservation("Scan"),
        };
        self.note(&ready);
        Some(ready)
    }

    /// Fetches a queued cluster, on the I/O stage unless its bytes are in memory.
    fn fetch(self: &Arc<Self>, index: usize, fetch: Result<Fetch>) {
        let own = self.clone();
        match fetch {
            Err(error) => own.read(index, || Err(error)),
            Ok(Fetch::Ready(fetched)) => own.read(index, || Ok(fetched)),
            Ok(Fetch::Blocking(read)) => self.io.pool.submit(Box::new(move || own.read(index, read))),
            Ok(Fetch::Buffered(read)) => {
                // Others may wait for the same reads, so none of them is given up.
                let Some(Order { cluster, columns, mut reservation }) = own.begin(index) else { return };
                let done = move |fetched: Result<Fetched>, counted: usize| {
                    reservation.shrink(counted);
                    own.arrived(Ready { index, cluster, columns, fetched, reservation });
                };
                read.begin(self.gone.clone(), Box::new(done));
            }
            Ok(Fetch::Waiting(read)) if self.io.inline => own.read(index, || self.io.runtime.block_on(read)),
            Ok(Fetch::Waiting(read)) => {
                let (request, handle) = abortable(async move {
                    let Some(Order { cluster, columns, reservation }) = own.begin(index) else { return };
                    let fetched =
                        AssertUnwindSafe(read).catch_unwind().await.unwrap_or_else(|_| Err(panicked(&cluster)));
                    own.arrived(Ready { index, cluster, columns, fetched, reservation });
                });
                self.queue.lock().requests.insert(index, handle);
                self.io.runtime.spawn(request);
            }
        }
    }

    fn read(&self, index: usize, read: impl FnOnce() -> Result<Fetched>) {
        let Some(Order { cluster, columns, reservation }) = self.begin(index) else { return };
        let fetched = caught(&cluster, read);
        self.arrived(Ready { index, cluster, columns, fetched, reservation });
    }

    /// Takes a queued fetch to run it; `None` if it was given up since.
    fn begin(&self, index: usize) -> Option<Order> {
        let mut queue = self.queue.lock();
        let order = queue.queued.remove(&index)?;
        queue.reading += 1;
        Some(order)
    }

    /// Counts what was read of a cluster, and what need not be.
    fn note(&self, ready: &Ready) {
        let Ok(fetched) = &ready.fetched else { return };
        let progress = &self.progress;
        progress.bytes.fetch_add(fetched.bytes, Ordering::Relaxed);
        let Some(found) = ready.columns.as_ref().map(|columns| columns.found()) else { return };
        progress.columns_shared.fetch_add(found.columns, Ordering::Relaxed);
        progress.answers_shared.fetch_add(found.answers, Ordering::Relaxed);
        progress.bytes_shared.fetch_add(found.saved_bytes, Ordering::Relaxed);
        progress.scans_most.fetch_max(found.scans, Ordering::Relaxed);
        if found.cohort > 1 {
            progress.cohort_reads.fetch_add(1, Ordering::Relaxed);
            progress.cohort_scans_most.fetch_max(found.cohort, Ordering::Relaxed);
        }
    }

    fn arrived(&self, ready: Ready) {
        self.note(&ready);
        let waiting = {
            let mut queue = self.queue.lock();
            queue.reading -= 1;
            queue.requests.remove(&ready.index);
            if self.ordered && queue.clusters.front().is_some_and(|(first, _)| *first < ready.index) {
                // A cluster that was put back comes before it and may need its memory, which is given back before
                // anybody can ask for it.
                let Ready { index, cluster, .. } = ready;
                queue.clusters.push_front((index, cluster));
                queue.sort_clusters();
            } else if !queue.is_stopped {
                queue.ready.insert(ready.index, ready);
            }
            std::mem::take(&mut queue.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// A cluster for a packet.
    pub fn next(&self, memory: &QueryMemory, waker: &Waker) -> Next {
        let mut queue = self.queue.lock();
        let next = if self.ordered { queue.next_in_order() } else { queue.ready.keys().next().copied() };
        if let Some(ready) = next.and_then(|next| queue.ready.remove(&next)) {
            queue.returned.remove(&ready.index);
            queue.next_in_order = queue.next_in_order.max(ready.index + 1);
            if self.ordered {
                queue.places.insert(ready.index);
            }
            queue.held += 1;
            return Next::Cluster(Box::new(ready));
        }
        if let Some(ready) = self.take_decoded(&mut queue, memory) {
            queue.held += 1;
            let waiting = queue.waiting.pop();
            drop(queue);
            waiting.into_iter().for_each(Waker::wake);
            return Next::Cluster(Box::new(ready));
        }
        if queue.is_stopped || queue.ahead() == 0 && queue.clusters.is_empty() {
            return Next::End;
        }
        if queue.under_way() == 0 {
            return Next::Again;
        }
        queue.waiting.push(waker.clone());
        Next::Wait
    }

    /// Packets of an ordered scan that wait until others have decoded what comes first. 0 if somebody changes that.
    pub fn held_back(&self) -> usize {
        let Some(queue) = self.queue.try_lock() else { return 0 };
        let is_order = self.ordered && queue.reading == 0 && !queue.is_stopped && queue.next_in_order().is_none();
        if is_order { queue.waiting.len() } else { 0 }
    }

    /// Reserves what decoding a held cluster needs, if need be in place of what was read ahead. False if the packet has
    /// to wait for the memory of others, or to have it fetched in steps: it is to put its cluster back. It waits also
    /// where scans would have more than their part, if another packet decodes a cluster.
    pub fn make_room(&self, memory: &QueryMemory, reservation: &mut Reservation, bytes: usize) -> Result<bool> {
        let is_much = memory.held_by("Scan").saturating_add(bytes) > memory.share_bytes() / DECODE_PART;
        let mut queue = self.queue.lock();
        if queue.decoding > 0 && (is_much || self.ordered && queue.has_steps) {
            queue.short = SHORT_CLUSTERS;
            queue.give_up_ahead();
            return Ok(false);
        }
        let mut grown = reservation.grow(bytes);
        if grown.is_err() {
            queue.short = SHORT_CLUSTERS;
            queue.give_up_ahead();
            grown = reservation.grow(bytes);
        }
        match grown {
            Ok(()) => {
                queue.decoding += 1;
                // In order, the next one could not be handed out before.
                let waiting = if self.ordered { std::mem::take(&mut queue.waiting) } else { Vec::new() };
                drop(queue);
                waiting.into_iter().for_each(Waker::wake);
                Ok(true)
            }
            Err(error) if queue.held == 1 && queue.reading == 0 => {
                if std::mem::replace(&mut queue.in_steps, true) {
                    Err(error)
                } else {
                    Ok(false)
                }
            }
            Err(_) => Ok(false),
        }
    }

    /// Reserves what the next step of a cluster needs that is being decoded, if need be in place of what was read
    /// ahead: it cannot be put back, and frees what it holds when it goes on.
    pub fn make_room_for_step(&self, reservation: &mut Reservation, bytes: usize) -> Result<()> {
        if reservation.grow(bytes).is_ok() {
            return Ok(());
        }
        let mut queue = self.queue.lock();
        queue.short = SHORT_CLUSTERS;
        queue.give_up_ahead();
        drop(queue);
        reservation.grow_to_free(bytes)
    }

    /// What a step reads of a cluster that is being decoded; the waker is woken when it is there.
    pub fn read_step(
        &self,
        cluster: &Arc<dyn Cluster>,
        fetch: Fetch,
        reservation: Reservation,
        waker: &Waker,
    ) -> Arc<Step> {
        let step = Arc::new(Step(Mutex::new(FetchProgress::Reading(waker.clone()))));
        let (own, cluster, progress) = (step.clone(), cluster.clone(), self.progress.clone());
        let arrived = move |read: Result<Fetched>| {
            if let Ok(read) = &read {
                progress.bytes.fetch_add(read.bytes, Ordering::Relaxed);
            }
            own.arrived(read, reservation);
        };
        match fetch {
            Fetch::Ready(read) => arrived(Ok(read)),
            Fetch::Blocking(read) => self.io.pool.submit(Box::new(move || arrived(caught(&cluster, read)))),
            Fetch::Buffered(read) => read.begin(self.gone.clone(), Box::new(move |read, _| arrived(read))),
            Fetch::Waiting(read) if self.io.inline => arrived(caught(&cluster, || self.io.runtime.block_on(read))),
            Fetch::Waiting(read) => {
                self.io.runtime.spawn(async move {
                    arrived(AssertUnwindSafe(read).catch_unwind().await.unwrap_or_else(|_| Err(panicked(&cluster))));
                });
            }
        }
        step
    }

    /// A held cluster, whose bytes were dropped, is to be read again; the packet waits.
    pub fn put_back(&self, index: usize, cluster: Arc<dyn Cluster>, waker: &Waker) {
        let waiting = {
            let mut queue = self.queue.lock();
            queue.held -= 1;
            queue.places.remove(&index);
            if self.ordered {
                queue.returned.insert(index);
                queue.give_up_ahead();
            }
            if !queue.is_stopped {
                queue.clusters.push_front((index, cluster));
                queue.sort_clusters();
            }
            // There may be room now for a packet that waits, and this one must not wait for what has just gone.
            queue.waiting.push(waker.clone());
            std::mem::take(&mut queue.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// A held cluster was decoded, or is not wanted any more; its memory is free.
    pub fn released(&self, index: usize, was_decoding: bool) {
        let waiting = {
            let mut queue = self.queue.lock();
            queue.held -= 1;
            queue.places.remove(&index);
            queue.decoding -= usize::from(was_decoding);
            queue.short = queue.short.saturating_sub(1);
            std::mem::take(&mut queue.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}

fn caught<T>(cluster: &Arc<dyn Cluster>, read: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(panicked(cluster)))
}

fn panicked(cluster: &Arc<dyn Cluster>) -> Error {
    Error::bug(format!("reading {} panicked", cluster.describe()))
}
