//! The engine: primed workers, the I/O stage, the memory broker, and the queries that run on them.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Weak};

use datafusion_execution::TaskContext;
use datafusion_execution::config::SessionConfig;
use datafusion_execution::runtime_env::RuntimeEnv;
use diligence_base::ids::QueryId;
use diligence_base::limits::{IO_THREADS, QUERY_HISTORY_MAX};
use diligence_base::seams::{Clock, ManualClock, Spawn, SystemClock, ThreadSpawn};
use diligence_base::{Error, Result};

use crate::memory::{Broker, QueryMemory, default_budget_bytes};
use crate::operators::foreign::ForeignPool;
use crate::operators::result::ResultSink;
use crate::operators::scan::Io;
use crate::operators::sort::SpillTo;
use crate::pipeline::{Graph, Setup, Surroundings, compile};
use crate::plan::Plan;
use crate::query::{Inline, QueryInfo, QueryOptions, QueryRun, QueryStream};
use crate::stages::{IoPool, PolicyKind, Scheduler, StageInfo, WorkerInfo};
use crate::sync::{
    self, Mutex,
    atomic::{AtomicU64, Ordering},
};
use crate::temp::{TempOptions, TempSpace};

/// Threads that drive requests to object stores and DataFusion's file writers.
const RUNTIME_THREADS: usize = 2;

/// Nanoseconds that the inline executor's clock moves at every look: a quantum is over after a few hundred looks, so that
/// packets interleave without any dependence on real time.
const INLINE_STEP_NS: u64 = 10_000;

/// On which threads packets run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// On primed workers.
    Threads,
    /// On the thread that reads the result, in an order given by a seed.
    Inline {
        /// The seed.
        seed: u64,
    },
}

/// How an engine is started.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Worker threads. Default: one per core.
    pub workers: usize,
    /// The memory budget in bytes. Default: 70 % of the machine's or the container's memory.
    pub memory_bytes: usize,
    /// Which packet runs next.
    pub policy: PolicyKind,
    /// On which threads packets run.
    pub mode: Mode,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Threads.
    pub spawn: Arc<dyn Spawn>,
    /// Where rows go that do not fit in memory. Its clock and threads are taken from the fields here.
    pub temp: TempOptions,
    /// What DataFusion operators find object stores in.
    pub runtime_env: Arc<RuntimeEnv>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: default_budget_bytes(),
            policy: PolicyKind::default(),
            mode: Mode::Threads,
            clock: Arc::new(SystemClock::default()),
            spawn: Arc::new(ThreadSpawn),
            temp: TempOptions::default(),
            runtime_env: Arc::default(),
        }
    }
}

impl EngineOptions {
    /// Packets run on the reader's thread in an order given by `seed`, and time stands still but for its looks.
    pub fn inline(seed: u64) -> Self {
        Self {
            workers: 2,
            mode: Mode::Inline { seed },
            clock: Arc::new(ManualClock::stepping(INLINE_STEP_NS)),
            ..Self::default()
        }
    }
}

/// Runs plans. One per process is meant; several do not share anything.
pub struct Engine {
    scheduler: Arc<Scheduler>,
    io: Io,
    broker: Arc<Broker>,
    tables: QueryMemory,
    temp: TempSpace,
    clock: Arc<dyn Clock>,
    mode: Mode,
    workers: usize,
    runtime_env: Arc<RuntimeEnv>,
    runtime: Option<tokio::runtime::Runtime>,
    next_query: AtomicU64,
    books: Arc<Mutex<Books>>,
}

/// Running queries and the last ended ones.
#[derive(Default)]
struct Books {
    running: BTreeMap<QueryId, Weak<QueryRun>>,
    ended: VecDeque<QueryInfo>,
}

impl Engine {
    /// Starts the workers and the I/O threads. Fails if the system has no threads left.
    pub fn start(options: EngineOptions) -> Result<Arc<Self>> {
        if options.workers == 0 {
            return Err(Error::input("an engine needs at least one worker"));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(RUNTIME_THREADS)
            .thread_name("diligence-runtime")
            .enable_all()
            .build()
            .map_err(|error| Error::resource(format!("the system refuses to start the I/O runtime: {error}")))?;
        let clock = options.clock.clone();
        let (pool, scheduler) = match start_threads(&options, runtime.handle()) {
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
        Ok(Arc::new(Self {
            scheduler,
            io: Io { pool, runtime: runtime.handle().clone(), inline },
            tables: broker.table_account(),
            broker,
            temp,
            clock,
            mode: options.mode,
            workers: options.workers,
            runtime_env: options.runtime_env,
            runtime: Some(runtime),
            next_query: AtomicU64::new(1),
            books: Arc::default(),
        }))
    }

    /// Starts a query. Its rows come out of the stream, which keeps the engine alive; dropping the stream cancels it.
    pub fn run(self: &Arc<Self>, plan: &Plan, options: QueryOptions) -> Result<QueryStream> {
        // Foreign operators are started with the plan and may look for a runtime.
        let _entered = sync::enter(&self.io.runtime);
        let id = QueryId(self.next_query.fetch_add(1, Ordering::Relaxed));
        let (result, receiver) = ResultSink::new(plan.schema.clone());
        let setup = self.setup(id, &options);
        let graph = compile(plan, result.clone(), &self.surroundings(&setup, &options))?;
        let on_end = {
            let books = Arc::downgrade(&self.books);
            Box::new(move |id| {
                if let Some(books) = books.upgrade() {
                    books.lock().ended(id);
                }
            })
        };
        let clock = self.clock.clone();
        let scheduler = self.scheduler.clone();
        let run = QueryRun::start(id, options.label, graph, setup, result, clock, scheduler, on_end);
        self.books.lock().started(&run);
        let inline = (self.mode != Mode::Threads)
            .then(|| Inline { scheduler: self.scheduler.clone(), runtime: self.io.runtime.clone() });
        Ok(QueryStream::new(run, receiver, plan.schema.clone(), inline).keeping(self.clone()))
    }

    /// The plan and its pipelines, as text.
    pub fn explain(&self, plan: &Plan, options: &QueryOptions) -> Result<String> {
        let _entered = sync::enter(&self.io.runtime);
        let (result, _receiver) = ResultSink::new(plan.schema.clone());
        let graph: Graph = compile(plan, result, &self.surroundings(&self.setup(QueryId(0), options), options))?;
        Ok(format!("{plan}\n{graph}"))
    }

    fn surroundings(&self, setup: &Setup, options: &QueryOptions) -> Surroundings {
        let config = SessionConfig::new().with_batch_size(setup.batch_rows).with_target_partitions(1);
        let runtime_env =
            RuntimeEnv { memory_pool: Arc::new(ForeignPool::new(&setup.memory)), ..self.runtime_env.as_ref().clone() };
        let task = TaskContext::default().with_session_config(config).with_runtime(Arc::new(runtime_env));
        Surroundings {
            io: self.io.clone(),
            task: Arc::new(task),
            batch_rows: setup.batch_rows,
            spill_to: Some(SpillTo { space: self.temp.clone(), plan: options.sort_plan }),
            work_tables: HashMap::new(),
        }
    }

    fn setup(&self, id: QueryId, options: &QueryOptions) -> Setup {
        Setup {
            memory: self.broker.account(id, options.memory_limit_bytes),
            temp: Some(self.temp.clone()),
            batch_rows: options.batch_rows.max(1),
            packets: options.packets.unwrap_or(self.workers).max(1),
        }
    }

    /// Drives requests to object stores; entered on every worker.
    pub fn io_handle(&self) -> tokio::runtime::Handle {
        self.io.runtime.clone()
    }

    /// The memory budget.
    pub fn broker(&self) -> &Arc<Broker> {
        &self.broker
    }

    /// Worker threads.
    pub fn worker_count(&self) -> usize {
        self.workers
    }

    /// The policy in force.
    pub fn policy(&self) -> PolicyKind {
        self.scheduler.policy()
    }

    /// Changes the policy, for the queries that run as well. The inline executor keeps its own.
    pub fn set_policy(&self, policy: PolicyKind) {
        if self.mode == Mode::Threads {
            self.scheduler.set_policy(policy);
        }
    }

    /// Running queries and the last ended ones, oldest first.
    pub fn queries(&self) -> Vec<QueryInfo> {
        let (mut infos, running) = {
            let books = self.books.lock();
            let running: Vec<_> = books.running.values().filter_map(Weak::upgrade).collect();
            (books.ended.iter().cloned().collect::<Vec<_>>(), running)
        };
        infos.extend(running.iter().map(|run| run.info()));
        infos.sort_by_key(|info| info.id);
        infos.dedup_by_key(|info| info.id);
        infos
    }

    /// Cancels a running query. False if there is none with this number.
    pub fn cancel(&self, id: QueryId) -> bool {
        let run = self.books.lock().running.get(&id).and_then(Weak::upgrade);
        run.inspect(|run| run.cancel()).is_some()
    }

    /// The stages at this moment, those of I/O last.
    pub fn stages(&self) -> Vec<StageInfo> {
        let mut stages = self.scheduler.stages();
        stages.push(self.io.pool.info());
        stages.push(self.temp.stage());
        stages
    }

    /// Cohorts that the gated policy in force has admitted, and the packets in them.
    pub fn cohorts(&self) -> (u64, u64) {
        self.scheduler.cohorts()
    }

    /// The workers at this moment.
    pub fn workers(&self) -> Vec<WorkerInfo> {
        self.scheduler.workers()
    }

    /// The engine's scheduler: for measuring what a packet costs.
    pub fn scheduler(&self) -> &Arc<Scheduler> {
        &self.scheduler
    }

    /// Temp space: where rows go that do not fit in memory.
    pub fn temp(&self) -> &TempSpace {
        &self.temp
    }

    /// The account of the tables in memory: what they hold is held outside of any query, and counts against the budget.
    pub fn table_memory(&self) -> &QueryMemory {
        &self.tables
    }
}

/// Starts the I/O threads and the workers: all of them or none.
fn start_threads(options: &EngineOptions, runtime: &tokio::runtime::Handle) -> Result<(Arc<IoPool>, Arc<Scheduler>)> {
    let (clock, spawn) = (&options.clock, options.spawn.as_ref());
    match options.mode {
        Mode::Inline { seed } => Ok((IoPool::start(0, clock.clone(), spawn)?, Scheduler::inline(seed, clock.clone()))),
        Mode::Threads => {
            let pool = IoPool::start(IO_THREADS, clock.clone(), spawn)?;
            Scheduler::start(options.workers, options.policy, clock.clone(), spawn, runtime.clone())
                .inspect_err(|_| pool.stop())
                .map(|scheduler| (pool.clone(), scheduler))
        }
    }
}

impl Books {
    /// Enters a query. It may have ended already: then `ended` was told of a query that was not in the books.
    fn started(&mut self, run: &Arc<QueryRun>) {
        self.running.insert(run.id(), Arc::downgrade(run));
        if run.has_ended() {
            self.ended(run.id());
        }
    }

    fn ended(&mut self, id: QueryId) {
        if let Some(run) = self.running.remove(&id).and_then(|run| run.upgrade()) {
            // What waits for a slow reader is still reserved, but soon it is not.
            self.remember(QueryInfo { memory_bytes: 0, ..run.info() });
        }
    }

    fn remember(&mut self, info: QueryInfo) {
        if self.ended.len() >= QUERY_HISTORY_MAX {
            self.ended.pop_front();
        }
        self.ended.push_back(info);
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let running: Vec<_> = self.books.lock().running.values().filter_map(Weak::upgrade).collect();
        for run in running {
            run.cancel();
        }
        self.scheduler.stop();
        self.io.pool.stop();
        // The workers are gone, but packets that were cancelled in a queue have still to drop what they hold. Each holds its
        // query, and that the scheduler: nobody else would ever drop them.
        let entered = sync::enter(&self.io.runtime);
        while self.scheduler.run_one() {}
        drop(entered);
        self.temp.close();
        if let Some(runtime) = self.runtime.take() {
            // The engine may be dropped inside async code, where waiting is not allowed.
            runtime.shutdown_background();
        }
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Engine({} workers, {:?})", self.workers, self.mode)
    }
}
