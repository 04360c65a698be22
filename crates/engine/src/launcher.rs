//! What it takes to start a run of a plan: the parts of an engine that live as long as anybody who may start one.
//!
//! Apart from the engine itself, because a run may be started by the end of another one, on a worker, and a worker must
//! never be the last to know the engine, whose end waits for the workers.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Weak};

use diligence_base::Result;
use diligence_base::ids::QueryId;
use diligence_base::limits::QUERY_HISTORY_MAX;
use diligence_base::seams::Clock;
use diligence_disk::{BufferPool, TempSpace};
use diligence_memory::Broker;

use crate::flow::{QueryContext, Sink};
use crate::knobs::Knobs;
use crate::operators::result::Outcome;
use crate::operators::scan::Io;
use crate::options::{Mode, QueryOptions, SharingMode};
use crate::pipeline::{CompileContext, Graph, compile};
use crate::plan::{Plan, PlanTables, with_first_rows, with_fragments, with_sorted_percentiles};
use crate::query::{QueryInfo, QueryRun, QueryState};
use crate::reuse::columns::Scans;
use crate::reuse::tables::{TableSharing, Tables};
use crate::stages::Scheduler;
use crate::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};
use crate::tuning::counters::{CLASSES, ClassCounters, class_of, logarithm};

/// Starts runs.
pub(crate) struct Launcher {
    pub scheduler: Arc<Scheduler>,
    pub io: Io,
    pub buffer: Arc<BufferPool>,
    pub scans: Arc<Scans>,
    pub tables: Arc<Tables>,
    pub broker: Arc<Broker>,
    pub temp: TempSpace,
    pub clock: Arc<dyn Clock>,
    pub mode: Mode,
    pub workers: usize,
    pub knobs: Arc<Knobs>,
    pub next_query: AtomicU64,
    pub registry: Arc<RunRegistry>,
}

/// Whether people see a run as a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listed {
    Yes,
    /// It works for others, which show it.
    No,
}

impl Launcher {
    /// A number that no query has had.
    pub fn next_id(&self) -> QueryId {
        QueryId(self.next_query.fetch_add(1, Ordering::Relaxed))
    }

    /// What the operators of a plan are opened with; its memory account is made here.
    pub fn context(&self, id: QueryId, plan: &Plan, options: &QueryOptions) -> QueryContext {
        let memory = self.broker.account(id, options.memory_limit_bytes);
        if !options.waits_for_memory {
            memory.go_ahead(options.starts_again);
        }
        let batch_rows = plan.batch_rows(
            options.batch_rows.clamp(1, self.knobs.batch_rows.get()),
            memory.batch_bytes(),
            &options.tables,
        );
        QueryContext {
            memory,
            temp: Some(self.temp.clone()),
            batch_rows,
            packets: options.packets.unwrap_or(self.knobs.packets.get()).max(1),
        }
    }

    /// What a query may have of memory.
    pub fn limit_bytes(&self, options: &QueryOptions) -> usize {
        let budget = self.broker.budget_bytes();
        options.memory_limit_bytes.unwrap_or(budget).min(budget)
    }

    /// A plan as it runs with what the query may have, and the tables that it names then.
    pub fn as_run<'a>(&self, plan: &'a Plan, options: &QueryOptions) -> Result<(Cow<'a, Plan>, PlanTables)> {
        let mut tables = options.tables.clone();
        let plan = with_sorted_percentiles(plan, self.limit_bytes(options), &tables)?;
        let plan = with_first_rows(plan, &mut tables);
        let plan = if options.fragment_wise { with_fragments(plan, &tables) } else { plan };
        Ok((plan, tables))
    }

    /// Cuts a plan, as it runs, into pipelines that end in `result`.
    pub fn compile(
        &self,
        plan: &Plan,
        result: Arc<dyn Sink>,
        context: &QueryContext,
        options: &QueryOptions,
    ) -> Result<Graph> {
        let (plan, live) = self.as_run(plan, options)?;
        let shares = options.sharing != SharingMode::Off;
        let context = CompileContext {
            query: context.clone(),
            live,
            io: self.io.clone(),
            scans: shares.then(|| self.scans.clone()),
            tables: TableSharing::new(&self.tables, options),
            port_credits: self.knobs.port_credits.get(),
            sort_plan: options.sort_plan,
            work_tables: HashMap::new(),
            runtime_filters: HashMap::new(),
            progress: Vec::new(),
        };
        compile(&plan, result, &context)
    }

    /// A run that is in the registry and waits to be launched.
    pub fn create(
        &self,
        context: QueryContext,
        id: QueryId,
        options: &QueryOptions,
        result: Arc<dyn Outcome>,
        listed: Listed,
        on_end: Box<dyn FnOnce(QueryId) + Send>,
    ) -> Arc<QueryRun> {
        let registry = Arc::downgrade(&self.registry);
        let on_end = Box::new(move |id| {
            if let Some(registry) = registry.upgrade() {
                registry.ended(id);
            }
            on_end(id);
        });
        let (clock, scheduler) = (self.clock.clone(), self.scheduler.clone());
        let run = QueryRun::new(id, options, context, result, clock, scheduler, on_end);
        self.registry.enter(&run, listed);
        run
    }
}

/// Running queries and the last ended ones.
#[derive(Default)]
pub(crate) struct RunRegistry(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    running: BTreeMap<QueryId, (Weak<QueryRun>, Listed)>,
    ended: VecDeque<QueryInfo>,
    /// Queries that have ended well, by what they used of workers.
    classes: [ClassCounters; CLASSES],
}

impl RunRegistry {
    fn enter(&self, run: &Arc<QueryRun>, listed: Listed) {
        self.0.lock().running.insert(run.id(), (Arc::downgrade(run), listed));
    }

    fn ended(&self, id: QueryId) {
        let mut entries = self.0.lock();
        let Some((run, Listed::Yes)) = entries.running.remove(&id) else { return };
        // What waits for a slow reader is still reserved, but soon it is not.
        let Some(info) = run.upgrade().map(|run| QueryInfo { memory_bytes: 0, ..run.info() }) else { return };
        if info.state == QueryState::Finished {
            let class = &mut entries.classes[class_of(info.waits.worked_ns)];
            *class = class.and(ClassCounters { ended: 1, logarithms: logarithm(info.elapsed_ns) });
        }
        if entries.ended.len() >= QUERY_HISTORY_MAX {
            entries.ended.pop_front();
        }
        entries.ended.push_back(info);
    }

    /// How many queries run, and how many have ended well in each class.
    pub fn counted(&self) -> (u64, [ClassCounters; CLASSES]) {
        let entries = self.0.lock();
        (entries.running.len() as u64, entries.classes)
    }

    /// Every run that has not ended.
    pub fn running(&self) -> Vec<Arc<QueryRun>> {
        self.0.lock().running.values().filter_map(|(run, _)| run.upgrade()).collect()
    }

    /// A run that has not ended.
    pub fn find(&self, id: QueryId) -> Option<Arc<QueryRun>> {
        self.0.lock().running.get(&id).and_then(|(run, _)| run.upgrade())
    }

    /// Running queries and the last ended ones, oldest first.
    pub fn infos(&self) -> Vec<QueryInfo> {
        let (mut infos, running) = {
            let entries = self.0.lock();
            let listed = entries.running.values().filter(|(_, listed)| *listed == Listed::Yes);
            let running: Vec<_> = listed.filter_map(|(run, _)| run.upgrade()).collect();
            (entries.ended.iter().cloned().collect::<Vec<_>>(), running)
        };
        infos.extend(running.iter().map(|run| run.info()));
        infos.sort_by_key(|info| info.id);
        infos.dedup_by_key(|info| info.id);
        infos
    }
}
