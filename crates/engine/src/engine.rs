//! The engine: primed workers, the I/O stage, the memory broker, and the queries that run on them.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use diligence_base::ids::QueryId;
use diligence_base::{Error, Result};
use diligence_disk::{BufferPool, IoPool, TempOptions, TempSpace};
use diligence_memory::{Broker, QueryMemory};

use crate::knobs::Knobs;
use crate::launcher::{Launcher, Listed};
use crate::matching::common::with_common_parts;
use crate::operators::MEMORY_DIVISOR;
use crate::operators::result::ResultSink;
use crate::operators::scan::Io;
use crate::options::{EngineOptions, Mode, QueryOptions, SharingMode};
use crate::pipeline::Graph;
use crate::plan::bytes::PlanPass;
use crate::plan::{Plan, PlanTables};
use crate::query::{Inline, KeptRows, QueryInfo, QueryStream};
use crate::reuse::SharingInfo;
use crate::reuse::columns::Scans;
use crate::reuse::retained::Retained;
use crate::reuse::tables::Tables;
use crate::sharing::{RunningPlan, SharingOffer};
use crate::short::run_short;
use crate::stages::{Crew, Policies, Scheduler, StageInfo, StageWorkers, WorkerInfo};
use crate::sync::{self, atomic::AtomicU64};
use crate::tuned::{policy_knobs, workers_knobs};
use crate::tuning::settings::KnobId;
use crate::tuning::{Machine, Tuning, TuningMode};

/// The part of what a query may have, as its divisor, that a common part of its plan is expected to have at most: half
/// of what may stay in memory of one, as these are guesses.
const COMMON_PART_BYTES_DIVISOR: usize = 2 * MEMORY_DIVISOR;

/// Threads that drive requests to object stores and DataFusion's file writers.
const RUNTIME_THREADS: usize = 2;
/// Threads for statements that wait for others: those of procedures, above all. They are started when they are needed,
/// and end when they were not for a while.
const BLOCKING_THREADS_MAX: usize = 4096;

/// Runs plans. One per process is meant; several do not share anything.
pub struct Engine {
    launcher: Arc<Launcher>,
    pub(crate) running: Arc<RunningPlan>,
    tables: QueryMemory,
    kept: QueryMemory,
    tuning: Arc<Tuning>,
    plan_pass: Option<Arc<dyn PlanPass>>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Engine {
    /// Starts the workers and the I/O threads. Fails if the system has no threads left.
    pub fn start(options: EngineOptions) -> Result<Arc<Self>> {
        if options.workers == 0 {
            return Err(Error::input("an engine needs at least one worker"));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(RUNTIME_THREADS)
            .max_blocking_threads(BLOCKING_THREADS_MAX)
            .thread_name("diligence-runtime")
            .enable_all()
            .build()
            .map_err(|error| Error::resource(format!("the system refuses to start the I/O runtime: {error}")))?;
        let clock = options.clock.clone();
        let knobs = Arc::new(Knobs::new(options.workers));
        let (pool, scheduler) = match start_threads(&options, &knobs, runtime.handle()) {
            Ok(started) => started,
            Err(error) => {
                // An engine may be started inside async code, where waiting is not allowed.
                runtime.shutdown_background();
                return Err(error);
            }
        };
        let inline = options.mode != Mode::Threads;
        let temp = TempOptions {
            clock: clock.clone(),
            spawn: options.spawn.clone(),
            threads: if inline { 0 } else { options.temp.threads },
            ..options.temp
        };
        let temp = match TempSpace::open(&temp) {
            Ok(temp) => temp,
            Err(error) => {
                scheduler.stop();
                pool.stop();
                runtime.shutdown_background();
                return Err(error);
            }
        };
        let broker = Broker::new(options.memory_bytes);
        let (tables, kept) = (broker.table_account(), broker.kept_account());
        // What was noted first is dropped last.
        let buffer = BufferPool::new(&broker, clock.clone(), pool.clone(), options.buffer_percent);
        let scans = Scans::new(&broker, clock.clone(), options.columns_percent);
        scans.keep_answers(options.retained_percent > 0);
        let retained = Retained::new(&broker, clock.clone(), options.retained_percent);
        let launcher = Arc::new(Launcher {
            scheduler,
            io: Io { pool, runtime: runtime.handle().clone(), inline, knobs: knobs.clone() },
            buffer,
            scans,
            tables: Tables::new(retained.clone(), broker.clone(), clock.clone()),
            broker,
            temp,
            clock,
            mode: options.mode,
            workers: options.workers,
            knobs,
            next_query: AtomicU64::new(1),
            registry: Arc::default(),
        });
        let running = RunningPlan::new(launcher.clone(), retained);
        let tuning = Arc::new(Tuning::new(launcher.as_ref()));
        // A worker must not be the last to know whose it is.
        let (machine, tuner) = (Arc::downgrade(&launcher), tuning.clone());
        launcher.scheduler.set_watch(Box::new(move |now_ns| {
            let Some(machine) = machine.upgrade() else { return };
            // If not at all, nothing is said: somebody may have turned the tuner on again since.
            if let Some(next_ns) = tuner.look(now_ns, machine.as_ref()) {
                machine.scheduler.watch_at(Some(next_ns));
            }
        }));
        let plan_pass = options.plan_pass;
        let engine = Self { launcher, running, tables, kept, tuning, plan_pass, runtime: Some(runtime) };
        engine.set_tuning_mode(options.tuning);
        Ok(Arc::new(engine))
    }

    /// Starts a query, or has it wait for what another one builds. Its rows come out of the stream, which keeps the
    /// engine alive; dropping the stream cancels it. Fails if the plan cannot be compiled: a bug, or an expression that
    /// has no value on its own. What goes wrong later is an error of the stream.
    pub fn run(self: &Arc<Self>, plan: &Plan, options: QueryOptions) -> Result<QueryStream> {
        let launcher = &self.launcher;
        // Readers and writers of object stores look for a runtime when they start.
        let _entered = sync::enter(&launcher.io.runtime);
        let passed = self.passed(plan)?;
        let plan = passed.as_ref().unwrap_or(plan);
        let with_parts = self.with_common_parts(plan, &options);
        let plan = with_parts.as_ref().unwrap_or(plan);
        let (result, receiver) = ResultSink::ahead(plan.schema.clone(), launcher.knobs.port_credits.get());
        let run = match self.running.request(plan, &options) {
            Err(_) => {
                let id = launcher.next_id();
                let context = launcher.context(id, plan, &options);
                let graph = launcher.compile(plan, result.clone(), &context, &options)?;
                let run = launcher.create(context, id, &options, result, Listed::Yes, Box::new(|_| {}));
                run.launch(graph);
                run
            }
            Ok(request) => self.running.bind(request, plan, result, options),
        };
        let inline = (launcher.mode != Mode::Threads)
            .then(|| Inline { scheduler: launcher.scheduler.clone(), runtime: launcher.io.runtime.clone() });
        Ok(QueryStream::new(run, receiver, plan.schema.clone(), inline).keeping(self.clone()))
    }

    /// What runs in the place of a plan, if anything does.
    fn passed(&self, plan: &Plan) -> Result<Option<Plan>> {
        self.plan_pass.as_ref().map(|pass| pass.pass(plan)).transpose()
    }

    /// What a query with this plan would share if it came now; `None` if it is to run for itself. Queries with the same
    /// key that come while others of them run or wait share runs, so whoever lets queries in should not part them.
    pub fn sharing_offer(&self, plan: &Plan, options: &QueryOptions) -> Option<SharingOffer> {
        let with_parts = self.with_common_parts(plan, options);
        let request = self.running.request(with_parts.as_ref().unwrap_or(plan), options).ok()?;
        self.running.offer(&request)
    }

    /// The plan, its pipelines, and what it could share, as text. Fails as [`run`](Self::run) does.
    pub fn explain(&self, plan: &Plan, options: &QueryOptions) -> Result<String> {
        let with_parts = self.with_common_parts(plan, options);
        let plan = with_parts.as_ref().unwrap_or(plan);
        let (graph, sharing) = self.compile(plan, options)?;
        let (plan, tables) = self.launcher.as_run(plan, options)?;
        Ok(format!("{}\n{graph}\nSharing: {sharing}\n", plan.shown(&tables)))
    }

    /// What a plan could share, as text. Fails as [`run`](Self::run) does.
    pub fn explain_sharing(&self, plan: &Plan, options: &QueryOptions) -> Result<String> {
        let with_parts = self.with_common_parts(plan, options);
        self.compile(with_parts.as_ref().unwrap_or(plan), options).map(|(_, sharing)| sharing)
    }

    /// The plan with what it has several times computed once; `None` if there is nothing of the kind.
    fn with_common_parts(&self, plan: &Plan, options: &QueryOptions) -> Option<Plan> {
        with_common_parts(plan, options, self.launcher.limit_bytes(options) / COMMON_PART_BYTES_DIVISOR)
    }

    fn compile(&self, plan: &Plan, options: &QueryOptions) -> Result<(Graph, String)> {
        let _entered = sync::enter(&self.launcher.io.runtime);
        let (result, _receiver) = ResultSink::new(plan.schema.clone());
        let context = self.launcher.context(QueryId(0), plan, options);
        let graph = self.launcher.compile(plan, result, &context, options)?;
        let sharing = match self.running.request(plan, options) {
            Ok(request) => self.running.explain(&request, plan, options),
            Err(_) if options.sharing == SharingMode::Scans => "what its scans decode, and no more".to_owned(),
            Err(why) if options.sharing == SharingMode::Off || graph.scans.is_empty() => format!("no, because {why}"),
            Err(why) => format!("what its scans decode, and no more, because {why}"),
        };
        let tables = graph.tables_text();
        Ok((graph, sharing + &tables))
    }

    /// What queries share at the moment, and what they have shared.
    pub fn sharing(&self) -> SharingInfo {
        self.running.info()
    }

    /// The part of the budget, in percent, that finished states may have while no query needs it.
    pub fn retained_percent(&self) -> usize {
        self.running.retained().percent()
    }

    /// Changes that part. With 0, nothing is kept for later queries, and none finds what was.
    pub fn set_retained_percent(&self, percent: usize) {
        self.running.retained().set_percent(percent);
        self.launcher.scans.keep_answers(percent > 0);
    }

    /// The rows of a plan of these tables, at once and on this thread, if it is a short one ([`short`](crate::short));
    /// `None`, and nothing was done, if it is not. Reads and commits may wait for a disk. Fails as the plan's
    /// expressions, tables and writers do.
    pub fn run_short(&self, plan: &Plan, tables: &PlanTables) -> Result<Option<Vec<RecordBatch>>> {
        let passed = self.passed(plan)?;
        run_short(passed.as_ref().unwrap_or(plan), tables, &self.launcher.scans)
    }

    /// The part of the budget, in percent, that columns which scans have decoded may have for other scans while no
    /// query needs it.
    pub fn columns_percent(&self) -> usize {
        self.launcher.scans.percent()
    }

    /// Changes that part. With 0, every scan decodes what it needs itself.
    pub fn set_columns_percent(&self, percent: usize) {
        self.launcher.scans.set_percent(percent);
    }

    /// The buffer of clusters, which tables on disk are read through.
    pub fn buffer(&self) -> &Arc<BufferPool> {
        &self.launcher.buffer
    }

    /// Drives requests to object stores; entered on every worker.
    pub fn io_handle(&self) -> tokio::runtime::Handle {
        self.launcher.io.runtime.clone()
    }

    /// The memory budget.
    pub fn broker(&self) -> &Arc<Broker> {
        &self.launcher.broker
    }

    /// For who keeps the whole process within the budget: the budget in bytes, `None` once the engine is gone, and what
    /// the process holds too much, which takes part of the budget ([`Broker::charge`]).
    pub fn process_budget(&self) -> (impl Fn() -> Option<usize> + use<>, impl Fn(usize) + use<>) {
        let broker = Arc::downgrade(self.broker());
        let charged = broker.clone();
        let budget = move || Some(broker.upgrade()?.budget_bytes());
        let charge = move |bytes| charged.upgrade().iter().for_each(|broker| broker.charge(bytes));
        (budget, charge)
    }

    /// Worker threads.
    pub fn worker_count(&self) -> usize {
        self.launcher.workers
    }

    /// The policies in force.
    pub fn policy(&self) -> Policies {
        self.launcher.scheduler.policy()
    }

    /// Changes the policies, for the queries that run as well; the tuner leaves them alone from now on. The inline
    /// executor keeps its own.
    pub fn set_policy(&self, policies: impl Into<Policies>) {
        if self.launcher.mode == Mode::Threads {
            let turn = || self.launcher.scheduler.set_policy(policies.into());
            self.tuning.pin(&policy_knobs(), self.launcher.as_ref(), turn);
        }
    }

    /// The tuner may change the policies again.
    pub fn release_policy(&self) {
        self.tuning.release(&policy_knobs());
    }

    /// How many workers may serve each stage at once.
    pub fn stage_workers(&self) -> StageWorkers {
        self.launcher.scheduler.limits()
    }

    /// Changes how many workers may serve each stage at once, for the queries that run as well; the tuner leaves them
    /// alone from now on. The inline executor has one thread.
    pub fn set_stage_workers(&self, limits: StageWorkers) {
        if self.launcher.mode == Mode::Threads {
            let turn = || self.launcher.scheduler.set_limits(limits);
            self.tuning.pin(&workers_knobs(), self.launcher.as_ref(), turn);
        }
    }

    /// The tuner may change the workers of stages again.
    pub fn release_stage_workers(&self) {
        self.tuning.release(&workers_knobs());
    }

    /// What a knob is set to.
    pub fn knob(&self, knob: KnobId) -> usize {
        self.launcher.value(knob)
    }

    /// Turns a knob, or as far as it goes, for queries that come, and for turns from now on; the tuner leaves it alone
    /// until it is [released](Self::release_knob).
    pub fn set_knob(&self, knob: KnobId, value: usize) {
        let machine = self.launcher.as_ref();
        self.tuning.pin(&[knob], machine, || machine.turn(knob, value));
    }

    /// The tuner may turn a knob again.
    pub fn release_knob(&self, knob: KnobId) {
        self.tuning.release(&[knob]);
    }

    /// What the tuner has decided.
    pub fn tuning(&self) -> &Tuning {
        &self.tuning
    }

    /// What the tuner does.
    pub fn tuning_mode(&self) -> TuningMode {
        self.tuning.mode()
    }

    /// Has the tuner do something else. What it has turned goes back unless it goes on turning. The inline executor
    /// has none: its order of packets is its seed's.
    pub fn set_tuning_mode(&self, mode: TuningMode) {
        let goes_on = self.tuning.set_mode(mode, self.launcher.as_ref());
        let is_watched = goes_on && self.launcher.mode == Mode::Threads;
        self.launcher.scheduler.watch_at(is_watched.then_some(0));
    }

    /// Running queries and the last ended ones, oldest first.
    pub fn queries(&self) -> Vec<QueryInfo> {
        self.launcher.registry.infos()
    }

    /// Cancels a running query. False if there is none with this number.
    pub fn cancel(&self, id: QueryId) -> bool {
        self.launcher.registry.find(id).inspect(|run| run.cancel()).is_some()
    }

    /// The stages at this moment, those of I/O last.
    pub fn stages(&self) -> Vec<StageInfo> {
        let mut stages = self.launcher.scheduler.stages();
        stages.push(self.launcher.io.pool.info().into());
        stages.push(self.launcher.temp.pool().into());
        stages
    }

    /// Cohorts that the gated policies in force have admitted, and the packets in them.
    pub fn cohorts(&self) -> (u64, u64) {
        self.launcher.scheduler.cohorts()
    }

    /// The workers at this moment.
    pub fn workers(&self) -> Vec<WorkerInfo> {
        self.launcher.scheduler.workers()
    }

    /// Has every worker call `tidy` after each turn: for an allocator that wants to know when a thread has nothing
    /// under way. To be said once; later ones are ignored.
    pub fn between_turns(&self, tidy: fn()) {
        self.launcher.scheduler.set_between_turns(tidy);
    }

    /// The engine's scheduler: for measuring what a packet costs.
    pub fn scheduler(&self) -> &Arc<Scheduler> {
        &self.launcher.scheduler
    }

    /// Temp space: where rows go that do not fit in memory.
    pub fn temp(&self) -> &TempSpace {
        &self.launcher.temp
    }

    /// The account of the tables in memory: what they hold is held outside of any query, and counts against the budget.
    pub fn table_memory(&self) -> &QueryMemory {
        &self.tables
    }

    /// The account of rows that sessions keep: of cursors and of procedures.
    pub fn kept_memory(&self) -> &QueryMemory {
        &self.kept
    }

    /// A place for rows of these columns that are to be read more than once, or later.
    pub fn keep_rows(&self, schema: SchemaRef) -> KeptRows {
        KeptRows::new(schema, &self.kept, self.temp())
    }
}

/// Starts the I/O threads and the workers: all of them or none.
fn start_threads(
    options: &EngineOptions,
    knobs: &Arc<Knobs>,
    runtime: &tokio::runtime::Handle,
) -> Result<(Arc<IoPool>, Arc<Scheduler>)> {
    let (clock, spawn) = (&options.clock, &options.spawn);
    match options.mode {
        Mode::Inline { seed } => {
            Ok((IoPool::start(0, clock.clone(), spawn.clone())?, Scheduler::inline(seed, knobs.clone(), clock.clone())))
        }
        Mode::Threads => {
            let pool = IoPool::start(knobs.io_threads.get(), clock.clone(), spawn.clone())?;
            Scheduler::start(
                Crew { workers: options.workers, nice: options.worker_nice, is_pinned: options.pin_workers },
                options.policy,
                knobs.clone(),
                clock.clone(),
                spawn.clone(),
                runtime.clone(),
            )
            .inspect_err(|_| pool.stop())
            .map(|scheduler| (pool.clone(), scheduler))
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // The queries first, so that nothing is started for them when what they share ends.
        self.running.close();
        for run in self.launcher.registry.running() {
            run.cancel();
        }
        self.launcher.scheduler.stop();
        self.launcher.io.pool.stop();
        self.launcher.buffer.close();
        // The workers are gone, but packets that were cancelled in a queue have still to drop what they hold. Each
        // holds its query, and that the scheduler: nobody else would ever drop them.
        let entered = sync::enter(&self.launcher.io.runtime);
        while self.launcher.scheduler.run_one() {}
        drop(entered);
        self.launcher.temp.close();
        if let Some(runtime) = self.runtime.take() {
            // The engine may be dropped inside async code, where waiting is not allowed.
            runtime.shutdown_background();
        }
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Engine({} workers, {:?})", self.launcher.workers, self.launcher.mode)
    }
}
