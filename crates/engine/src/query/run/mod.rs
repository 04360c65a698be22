//! One run of a query: its packets carry its graph on ([`GraphProgress`] says what comes next) until it ends.
//!
//! A run is made before its pipelines are known: a query may wait for what another one builds ([`crate::sharing`]).
//! Until it is launched it holds no memory, and it can be cancelled as any other.
//!
//! A query ends when all sinks are complete, when something fails, or when it is cancelled. However it ends: every
//! packet drops its states, and jobs of I/O threads that change something end, then the graph is dropped with
//! everything in it, then the query counts as ended, and only then the reader hears of it. So whoever has seen the end
//! of a stream finds its memory free and its state final.

pub(crate) mod shared;
mod shown;
mod tables;
mod work;

use std::sync::{Arc, OnceLock, Weak};
use std::task::{Poll, Waker};

use diligence_base::function_limits::FunctionLimits;
use diligence_base::ids::QueryId;
use diligence_base::limits::{PRINTED_BYTES_MAX, QUERY_GRANT_BYTES, READER_RESTS};
use diligence_base::seams::Clock;
use diligence_base::{Error, ErrorKind};

use self::shared::Shared;
use self::shown::Traced;
use self::tables::TablesRead;
pub(crate) use self::work::catch;
use self::work::{AdmissionWork, GivingBack, PartsWork, PipelineWork, ReclaimWork, drop_quietly};
use super::info::QueryState;
use crate::flow::QueryContext;
use crate::operators::result::Outcome;
use crate::operators::scan::ScanProgress;
use crate::options::QueryOptions;
use crate::pipeline::{Graph, GraphProgress, PipelinePacket, room_bytes};
use crate::stages::{Arrival, Caller, Message, Packet, Scheduler, StageId, Work};
use crate::sync::{
    Latch, Mutex,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

/// How far queries are.
static STATUS: Latch = Latch::new("query");

/// What a query counts as having used when it starts, at most: more than any policy calls little, and far from the
/// largest number.
const LONG_NS: u64 = u64::MAX / 2;

pub(super) struct Status {
    pub(super) graph: Option<Arc<Graph>>,
    pub(super) progress: GraphProgress,
    /// The packets that wait for tables of other queries.
    pub(super) table_packets: Vec<Arc<Packet>>,
    traced: Vec<Traced>,
    /// The packet that waits for the query's grant, until it has it.
    pub(super) admission: Option<Arc<Packet>>,
    /// The packet that has states at rest give memory back, while it does.
    pub(super) reclaiming: Option<Arc<Packet>>,
    pub(super) launched: bool,
    /// Packets that are not finished, and jobs of other threads that have not ended.
    pub(super) live: usize,
    pub(super) state: QueryState,
    pub(super) error: Option<Error>,
    pub(super) ended_ns: Option<u64>,
}

/// One run of a query.
pub struct QueryRun {
    pub(super) id: QueryId,
    pub(super) label: String,
    pub(super) context: QueryContext,
    pub(super) started_ns: u64,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) scheduler: Arc<Scheduler>,
    /// What its packets have used of workers.
    attained_ns: Arc<AtomicU64>,
    pub(super) result: Arc<dyn Outcome>,
    /// Known when it is launched.
    pub(super) scans: OnceLock<Vec<Arc<ScanProgress>>>,
    /// What it shares with other queries, if it does.
    pub(super) shared: OnceLock<Shared>,
    tables_read: TablesRead,
    pub(super) stopped: AtomicBool,
    /// What functions in other languages may take.
    function_limits: FunctionLimits,
    /// What it is sure of before it starts.
    grant_bytes: AtomicUsize,
    /// Whether that was asked for, because it was refused less.
    is_grant_asked: bool,
    /// Whether it has given up its grant until somebody reads again.
    paused: AtomicBool,
    /// When it was asked to for the first time since its reader took something, on the clock; 0 if it was not.
    rests_since_ns: AtomicU64,
    pub(super) status: Mutex<Status>,
    /// What functions outside of the engine have printed, until its reader takes it.
    printed: Printed,
    /// Told once when the query has ended.
    pub(super) on_end: Mutex<Option<Box<dyn FnOnce(QueryId) + Send>>>,
}

impl QueryRun {
    /// A query whose pipelines are not known yet. It does nothing before [`launch`](Self::launch).
    pub(crate) fn new(
        id: QueryId,
        options: &QueryOptions,
        context: QueryContext,
        result: Arc<dyn Outcome>,
        clock: Arc<dyn Clock>,
        scheduler: Arc<Scheduler>,
        on_end: Box<dyn FnOnce(QueryId) + Send>,
    ) -> Arc<Self> {
        let grant_bytes = options.memory_grant_divisor.map(|divisor| context.memory.limit_bytes() / divisor.max(1));
        let run = Arc::new(Self {
            id,
            label: options.label.clone(),
            context,
            started_ns: clock.now_ns(),
            clock,
            scheduler,
            attained_ns: Arc::new(AtomicU64::new(options.work_expected_ns.min(LONG_NS))),
            result,
            scans: OnceLock::new(),
            shared: OnceLock::new(),
            tables_read: TablesRead::default(),
            stopped: AtomicBool::new(false),
            function_limits: options.function_limits,
            grant_bytes: AtomicUsize::new(grant_bytes.unwrap_or(QUERY_GRANT_BYTES)),
            is_grant_asked: grant_bytes.is_some(),
            paused: AtomicBool::new(false),
            rests_since_ns: AtomicU64::new(0),
            status: Mutex::named(
                &STATUS,
                Status {
                    progress: GraphProgress::default(),
                    table_packets: Vec::new(),
                    traced: Vec::new(),
                    graph: None,
                    admission: None,
                    reclaiming: None,
                    launched: false,
                    live: 0,
                    state: QueryState::Running,
                    error: None,
                    ended_ns: None,
                },
            ),
            printed: Printed::default(),
            on_end: Mutex::new(Some(on_end)),
        });
        run.context.memory.set_giving(Arc::new(GivingBack(Arc::downgrade(&run))));
        run
    }

    /// A packet of this query.
    pub(super) fn packet(&self, stage: StageId, work: Box<dyn Work>) -> Arc<Packet> {
        Packet::beside(self.attained_ns.clone(), self.id, stage, work, &self.scheduler)
    }

    /// Starts the query, once: every pipeline that waits for nothing gets its packets. Nothing happens if it was
    /// cancelled.
    pub(crate) fn launch(self: &Arc<Self>, graph: Graph) {
        {
            let mut status = self.status.lock();
            if status.state != QueryState::Running {
                return;
            }
            status.progress = GraphProgress::new(&graph);
            status.traced = graph.pipelines.iter().map(|pipeline| Traced::new(pipeline, &graph)).collect();
            let _ = self.scans.set(graph.scans.clone());
            status.graph = Some(Arc::new(graph));
            status.launched = true;
            // While it starts, the query counts as one packet, so that it cannot end in between.
            status.live += 1;
        }
        if self.poll_admit(Waker::noop()).is_ready() {
            self.start_pipelines();
            self.packets_ended(1);
        } else {
            let work = AdmissionWork { run: self.clone() };
            let packet = self.packet(StageId::Scan, Box::new(work));
            self.status.lock().admission = Some(packet.clone());
            packet.submit(Arrival::New);
        }
    }

    /// Has it be sure of no more than so many bytes: it is known to need little. To be said before it is launched.
    pub(crate) fn need_little(&self, bytes: usize) {
        if !self.is_grant_asked {
            self.grant_bytes.fetch_min(bytes, Ordering::Relaxed);
        }
    }

    /// What its operators are opened with.
    pub(crate) fn context(&self) -> &QueryContext {
        &self.context
    }

    /// Says what it shares, once.
    pub(crate) fn share(&self, shared: Shared) {
        let _ = self.shared.set(shared);
    }

    /// Nanoseconds of work that it does not do because of a run or a state that it shares, as far as they are known.
    pub(crate) fn saved_ns(&self) -> u64 {
        self.shared.get().map_or(0, Shared::saved_ns)
    }

    pub(super) fn poll_admit(&self, waker: &Waker) -> Poll<()> {
        // Of a small budget something is left for tables in memory, and for another query.
        let part = if self.is_grant_asked { 1 } else { 2 };
        let bytes = self.grant_bytes.load(Ordering::Relaxed).min(self.context.memory.limit_bytes() / part);
        self.context.memory.poll_admit(bytes, waker)
    }

    /// Gives up its grant, if nothing of it can go on before its reader takes a batch: if all its packets are among the
    /// `waiting` ones, which have no credit at its result, or wait for these. It must [resume](Self::poll_resume)
    /// before a batch is taken. False if it goes on.
    pub(super) fn pause(&self) -> bool {
        let paused = {
            let status = self.status.lock();
            self.only_its_reader_is_missing(&status) && self.context.memory.pause()
        };
        if paused {
            self.paused.store(true, Ordering::Release);
        }
        paused
    }

    fn only_its_reader_is_missing(&self, status: &Status) -> bool {
        let at_result = self.result.waiting();
        // Those behind them wait for these.
        let behind = || status.graph.as_ref().map_or(0, |graph| graph.held_back());
        status.state == QueryState::Running
            && (status.live == at_result || at_result > 0 && status.live == at_result + behind())
    }

    /// Whether it has given up its grant until somebody reads again.
    pub(super) fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Acquire)
    }

    /// Its reader has taken something.
    pub(super) fn is_read(&self) {
        self.rests_since_ns.store(0, Ordering::Relaxed);
    }

    /// Somebody waits to be admitted: gives up its grant, if nobody has read since it was asked for the first time, a
    /// while ago.
    pub(super) fn rest(&self) {
        if self.is_paused() || !self.only_its_reader_is_missing(&self.status.lock()) {
            return self.is_read();
        }
        let now_ns = self.clock.now_ns().max(1);
        let since = self.rests_since_ns.compare_exchange(0, now_ns, Ordering::Relaxed, Ordering::Relaxed);
        if since.is_err_and(|since_ns| now_ns.saturating_sub(since_ns) >= READER_RESTS.as_nanos() as u64) {
            self.pause();
        }
    }

    /// If somebody waits to be admitted, has all other queries give up their grants whose readers rest. False if nobody
    /// waits.
    pub(super) fn have_others_rest(&self) -> bool {
        self.context.memory.have_others_rest()
    }

    /// Ready when a query that was paused has its grant again, or has been stopped.
    pub(super) fn poll_resume(&self, waker: &Waker) -> Poll<()> {
        if self.stopped.load(Ordering::Acquire) || self.has_ended() {
            self.context.memory.leave_queue();
            return Poll::Ready(());
        }
        let ready = self.poll_admit(waker);
        if ready.is_ready() {
            self.is_read();
            self.paused.store(false, Ordering::Release);
        }
        ready
    }

    /// A state at rest is asked for memory: a packet sees to it.
    pub(super) fn start_reclaiming(self: &Arc<Self>) {
        let packet = {
            let mut status = self.status.lock();
            if status.state != QueryState::Running || status.live == 0 || status.reclaiming.is_some() {
                // One that is at work looks again before it ends.
                return;
            }
            let packet = self.packet(StageId::Memory, Box::new(ReclaimWork { run: self.clone() }));
            status.live += 1;
            status.reclaiming = Some(packet.clone());
            packet
        };
        packet.submit(Arrival::New);
    }

    /// Its packets look at what they are asked for.
    pub(super) fn wake_packets(&self) {
        let packets: Vec<_> = {
            let status = self.status.lock();
            status.traced.iter().flat_map(|traced| &traced.packets).cloned().collect()
        };
        packets.into_iter().for_each(|packet| packet.submit(Arrival::Woken));
    }

    /// Itself, for what waits outside of the engine in its name.
    pub(super) fn as_caller(self: &Arc<Self>) -> Weak<dyn Caller> {
        Arc::downgrade(self) as Weak<dyn Caller>
    }

    /// What functions outside of the engine print.
    pub(super) fn printed(&self) -> &Printed {
        &self.printed
    }

    /// Its number.
    pub fn id(&self) -> QueryId {
        self.id
    }

    /// Ends the query. Packets that wait are woken to drop what they hold.
    pub fn cancel(self: &Arc<Self>) {
        self.stop(QueryState::Cancelled, Error::cancelled());
    }

    /// True once no packet is left and the graph is dropped.
    pub fn has_ended(&self) -> bool {
        self.status.lock().ended_ns.is_some()
    }

    /// Ends the query with an error.
    pub(crate) fn fail(self: &Arc<Self>, error: Error) {
        let state = if error.kind() == ErrorKind::Cancelled { QueryState::Cancelled } else { QueryState::Failed };
        self.stop(state, error);
    }

    fn stop(self: &Arc<Self>, state: QueryState, error: Error) {
        let packets = {
            let mut status = self.status.lock();
            if status.state != QueryState::Running {
                return;
            }
            status.state = state;
            status.error = Some(error);
            self.stopped.store(true, Ordering::Release);
            // A query between two packets would otherwise never notice.
            status.live += 1;
            let pipelines = status.traced.iter().flat_map(|traced| &traced.packets);
            let others = status.admission.iter().chain(&status.reclaiming).chain(&status.table_packets);
            pipelines.chain(others).cloned().collect::<Vec<_>>()
        };
        for packet in packets {
            packet.submit(Arrival::Woken);
        }
        self.packets_ended(1);
    }

    pub(super) fn graph(&self) -> Option<Arc<Graph>> {
        self.status.lock().graph.clone()
    }

    /// Starts every pipeline whose conditions hold, until none is left.
    pub(super) fn start_pipelines(self: &Arc<Self>) {
        let Some(graph) = self.graph() else { return };
        self.ask_for_tables(&graph);
        while let Some(index) = self.next_startable(&graph) {
            match catch(|| graph.open(index, &self.context)) {
                Ok(packets) if packets.is_empty() => self.pipeline_finished(&graph, index),
                Ok(packets) => self.submit(&graph, index, packets),
                Err(error) => return self.fail(error),
            }
            // What has no rows to begin with is done at once, and others may have waited for it.
            self.ask_for_tables(&graph);
        }
    }

    /// A pipeline that may start, which counts as opening.
    fn next_startable(&self, graph: &Graph) -> Option<usize> {
        // The broker has locks of its own.
        let room_bytes = room_bytes(&self.context.memory);
        let mut status = self.status.lock();
        if status.state != QueryState::Running {
            return None;
        }
        status.progress.next_pipeline(graph, &self.context, room_bytes)
    }

    fn submit(self: &Arc<Self>, graph: &Graph, index: usize, packets: Vec<PipelinePacket>) {
        let stage = graph.pipelines[index].stage;
        let packets: Vec<_> = packets
            .into_iter()
            .map(|packet| {
                let work = PipelineWork { run: self.clone(), pipeline: index, packet: Some(packet) };
                self.packet(stage, Box::new(work))
            })
            .collect();
        {
            let mut status = self.status.lock();
            status.live += packets.len();
            status.progress.started(index, packets.len());
            status.traced[index].packets_total += packets.len();
            status.traced[index].packets.extend(packets.iter().cloned());
        }
        for packet in packets {
            packet.submit(Arrival::New);
        }
    }

    pub(super) fn packet_finished(self: &Arc<Self>, index: usize) {
        let last = self.status.lock().progress.packet_finished(index);
        if last && let Some(graph) = self.graph() {
            self.pipeline_finished(&graph, index);
            self.start_pipelines();
        }
    }

    /// All packets of a pipeline are done; perhaps sinks of it have everything now.
    fn pipeline_finished(self: &Arc<Self>, graph: &Arc<Graph>, index: usize) {
        let full = self.status.lock().progress.pipeline_finished(graph, index);
        for sink in full {
            match catch(|| graph.sinks[sink].sink.part.parts()) {
                Err(error) => return self.fail(error),
                Ok(0) => self.sink_filled(graph, sink),
                Ok(parts) => self.submit_parts(graph, index, sink, parts),
            }
        }
    }

    fn submit_parts(self: &Arc<Self>, graph: &Graph, index: usize, sink: usize, parts: usize) {
        let next = Arc::new(AtomicUsize::new(0));
        let packets: Vec<_> = (0..parts.min(self.context.packets))
            .map(|_| {
                let work = PartsWork {
                    run: self.clone(),
                    sink,
                    spec: Some(graph.sinks[sink].clone()),
                    next: next.clone(),
                    parts,
                };
                self.packet(graph.sinks[sink].stage, Box::new(work))
            })
            .collect();
        {
            let mut status = self.status.lock();
            status.live += packets.len();
            status.progress.parts_started(sink, packets.len());
            status.traced[index].packets_total += packets.len();
            status.traced[index].packets.extend(packets.iter().cloned());
        }
        for packet in packets {
            packet.submit(Arrival::New);
        }
    }

    pub(super) fn parts_finished(self: &Arc<Self>, sink: usize) {
        let last = self.status.lock().progress.parts_finished(sink);
        if last && let Some(graph) = self.graph() {
            self.sink_filled(&graph, sink);
            self.start_pipelines();
        }
    }

    fn sink_filled(self: &Arc<Self>, graph: &Graph, sink: usize) {
        match catch(|| graph.sinks[sink].sink.part.complete()) {
            Ok(()) => {
                self.offer_table(graph, sink);
                self.status.lock().progress.completed(sink);
            }
            Err(error) => self.fail(error),
        }
    }

    /// Packets have dropped their states; the last one ends the query.
    pub(super) fn packets_ended(self: &Arc<Self>, count: usize) {
        let graph = {
            let mut status = self.status.lock();
            if status.live > count {
                status.live -= count;
                return;
            }
            if status.state == QueryState::Running {
                if status.progress.is_complete() {
                    status.state = QueryState::Finished;
                } else {
                    status.state = QueryState::Failed;
                    status.error = Some(Error::bug("a query has no packet left but is not complete"));
                }
            }
            for traced in &mut status.traced {
                for packet in std::mem::take(&mut traced.packets) {
                    traced.waits.queued_ns += packet.waited_ns();
                    traced.waits.worked_ns += packet.worked_ns();
                }
            }
            status.table_packets.clear();
            status.graph.take()
        };
        // Hash tables and groups may take a while to free: not under the lock, and before anybody hears of the end.
        drop_quietly(graph);
        self.context.memory.end_grant();
        // One that was paused may stand in it, and nobody may ask any more.
        self.context.memory.leave_queue();
        let error = {
            let mut status = self.status.lock();
            status.live -= count;
            status.ended_ns = Some(self.clock.now_ns());
            status.error.clone()
        };
        if let Some(on_end) = self.on_end.lock().take() {
            on_end(self.id);
        }
        self.result.end(error);
    }
}

/// What functions outside of the engine print for a query, until somebody takes it. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Printed(Arc<Mutex<Vec<Message>>>);

impl Printed {
    /// What was printed since this was asked last; what was too much is lost.
    pub fn take(&self) -> Vec<Message> {
        std::mem::take(&mut *self.0.lock())
    }

    /// Something is printed; it is lost if too much is there already.
    pub fn add(&self, message: Message) {
        let mut printed = self.0.lock();
        let held = printed.iter().map(|message| message.text().len()).sum::<usize>();
        if held + message.text().len() <= PRINTED_BYTES_MAX {
            printed.push(message);
        }
    }
}

impl Caller for QueryRun {
    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    fn printed(&self, message: Message) {
        self.printed.add(message);
    }

    fn function_limits(&self) -> FunctionLimits {
        self.function_limits
    }

    fn leave(&self) {
        self.scheduler.leave();
    }

    fn come_back(&self) {
        self.scheduler.come_back();
    }

    fn job_begins(&self) {
        self.status.lock().live += 1;
    }

    fn job_ended(self: Arc<Self>) {
        self.packets_ended(1);
    }
}

impl std::fmt::Debug for QueryRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "QueryRun({})", self.id)
    }
}
