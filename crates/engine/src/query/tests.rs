//! Whole queries over rows that are known: pipelines, exchanges, cancellation, errors and panics, on workers and
//! inline.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use datafusion_common::{JoinType, NullEquality, Result as DataFusionResult, ScalarValue};
use datafusion_expr::physical_planning_context::{ScalarSubqueryResults, SubqueryIndex};
use datafusion_expr::{ColumnarValue, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use datafusion_physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion_physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion_physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use diligence_base::ErrorKind;
use diligence_base::ids::{QueryId, TableVersion};
use diligence_base::limits::IO_THREADS;
use diligence_base::seams::{Spawn, SystemClock, Thread, ThreadSpawn};
use diligence_memory::QueryMemory;
use diligence_storage::Table;
use diligence_storage::memory::MemoryTable;
use parking_lot::Mutex;

use crate::expressions::Expr;
use crate::flow::{Pull, QueryContext, Sink, Source, SourceState};
use crate::operators::result::ResultSink;
use crate::options::QueryOptions;
use crate::pipeline::{Branch, Graph, Part, PipelineSpec, SinkSpec};
use crate::plan::{HashJoin, Node, Pact, Plan, PlanTables, Scan, SortKey};
use crate::query::{QueryRun, QueryState, QueryStream};
use crate::stages::{Arrival, Policies, PolicyKind, Quantum, Scheduler, StageId, Step, Work};
use crate::{Engine, EngineOptions};

pub(crate) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]))
}

/// A table of so many numbers in clusters of a thousand, whose order matters.
pub(crate) fn in_order(rows: usize) -> (Plan, PlanTables) {
    let Node::Values { batches } = numbers(rows as i64).node else { unreachable!("numbers are values") };
    let all = arrow::compute::concat_batches(&schema(), &batches).unwrap();
    let clusters = (0..rows).step_by(1000).map(|row| all.slice(row, 1000.min(rows - row))).collect();
    let table: Arc<dyn Table> = Arc::new(MemoryTable::new("n", schema(), clusters, TableVersion(1)).unwrap());
    let scan = Scan::new(table.as_ref(), "n", vec![0]);
    let plan = Plan { ordered: true, ..Plan::new(Node::Scan(scan), schema()) };
    (plan, [table].into_iter().collect())
}

pub(crate) fn numbers(count: i64) -> Plan {
    let batches = (0..count)
        .step_by(1000)
        .map(|start| {
            let array: ArrayRef = Arc::new(Int64Array::from_iter_values(start..count.min(start + 1000)));
            RecordBatch::try_new(schema(), vec![array]).unwrap()
        })
        .collect();
    Plan::new(Node::Values { batches }, schema())
}

pub(crate) fn column() -> Arc<dyn PhysicalExpr> {
    Arc::new(Column::new("n", 0))
}

pub(crate) fn expr(physical: Arc<dyn PhysicalExpr>) -> Expr {
    Expr::new(physical, &schema()).unwrap()
}

pub(crate) fn below(bound: i64) -> Expr {
    let bound = Arc::new(Literal::new(ScalarValue::Int64(Some(bound))));
    expr(Arc::new(BinaryExpr::new(column(), Operator::Lt, bound)))
}

pub(crate) fn filter(input: Plan, predicate: Expr) -> Plan {
    Plan::new(Node::Filter { input: Box::new(input), predicate }, schema())
}

pub(crate) fn sort(input: Plan, fetch: Option<usize>) -> Plan {
    Plan::new(Node::Sort { input: Box::new(input), keys: keys(), fetch }, schema())
}

pub(crate) fn keys() -> Vec<SortKey> {
    vec![SortKey { expression: expr(column()), options: SortOptions::default() }]
}

pub(crate) fn exchange(input: Plan, pact: Pact, consumers: usize) -> Plan {
    Plan::new(Node::Exchange { input: Box::new(input), pact, consumers }, schema())
}

/// Joins a plan with itself on its column; the output has the right side's column only.
pub(crate) fn self_join(left: Plan, right: Plan) -> Plan {
    let join = HashJoin {
        left: Box::new(left),
        right: Box::new(right),
        on: vec![(expr(column()), expr(column()))],
        filter: None,
        join_type: JoinType::Inner,
        null_equality: NullEquality::NullEqualsNothing,
        null_aware: false,
        projection: Some(vec![1]),
        runtime_filters: Vec::new(),
    };
    Plan::new(Node::HashJoin(join), schema())
}

pub(crate) fn read(mut stream: QueryStream) -> diligence_base::Result<Vec<i64>> {
    let mut rows = Vec::new();
    while let Some(batch) = stream.next_blocking() {
        rows.extend(batch?.column(0).as_primitive::<Int64Type>().values().iter().copied());
    }
    Ok(rows)
}

fn engines() -> Vec<Arc<Engine>> {
    let threads = [1, 2, 4].map(|workers| EngineOptions { workers, ..EngineOptions::default() });
    let inline = (0..10).map(EngineOptions::inline);
    threads.into_iter().chain(inline).map(|options| Engine::start(options).unwrap()).collect()
}

pub(crate) fn options(batch_rows: usize) -> QueryOptions {
    QueryOptions { batch_rows, ..QueryOptions::default() }
}

/// Waits until a condition holds; fails after ten seconds.
pub(crate) fn eventually(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < end, "still not true after ten seconds: {what}");
        std::thread::yield_now();
    }
}

#[test]
fn a_sorted_filter_answers_the_same_everywhere() {
    let plan = sort(filter(numbers(20_000), below(15_000)), None);
    for engine in engines() {
        for batch_rows in [7, 8192] {
            let rows = read(engine.run(&plan, options(batch_rows)).unwrap()).unwrap();
            assert_eq!(rows, (0..15_000).collect::<Vec<_>>(), "{engine:?}");
        }
    }
}

#[test]
fn every_pact_keeps_all_rows() {
    let pacts = [
        Pact::Pipeline,
        Pact::RoundRobin,
        Pact::Hash(vec![expr(column())]),
        Pact::Range(keys()),
        Pact::Gather,
        Pact::Broadcast,
    ];
    for engine in engines() {
        for pact in &pacts {
            let name = pact.to_string();
            let copies = if matches!(pact, Pact::Broadcast) { 3 } else { 1 };
            let plan = sort(exchange(numbers(10_000), pact.clone(), 3), None);
            let rows = read(engine.run(&plan, options(100)).unwrap()).unwrap();
            let expected: Vec<i64> = (0..10_000).flat_map(|n| std::iter::repeat_n(n, copies)).collect();
            assert!(rows == expected, "{name} on {engine:?}: {} rows", rows.len());
        }
    }
}

#[test]
fn a_merge_exchange_keeps_the_order_of_sorted_producers() {
    let mut plan = exchange(sort(numbers(10_000), None), Pact::Merge(keys()), 1);
    plan.ordered = true;
    for engine in engines() {
        let rows = read(engine.run(&plan, options(64)).unwrap()).unwrap();
        assert_eq!(rows, (0..10_000).collect::<Vec<_>>(), "{engine:?}");
    }
}

#[test]
fn a_join_waits_for_its_build_side_and_a_limit_ends_early() {
    let join = self_join(filter(numbers(20_000), below(5_000)), numbers(20_000));
    let limited =
        Plan::new(Node::Limit { input: Box::new(sort(join.clone(), None)), skip: 10, fetch: Some(5) }, schema());
    let any = Plan::new(Node::Limit { input: Box::new(join.clone()), skip: 0, fetch: Some(17) }, schema());
    for engine in engines() {
        assert_eq!(read(engine.run(&sort(join.clone(), None), options(512)).unwrap()).unwrap().len(), 5_000);
        assert_eq!(read(engine.run(&limited, options(512)).unwrap()).unwrap(), vec![10, 11, 12, 13, 14]);
        assert_eq!(read(engine.run(&any, options(512)).unwrap()).unwrap().len(), 17);
        eventually("all memory is given back", || engine.broker().reserved_bytes() == 0);
    }
}

#[test]
fn a_union_of_nothing_and_something_is_something() {
    let union = Plan::new(Node::Union { inputs: vec![numbers(0), numbers(3), numbers(2)] }, schema());
    for engine in engines() {
        let rows = read(engine.run(&sort(union.clone(), None), options(8192)).unwrap()).unwrap();
        assert_eq!(rows, vec![0, 0, 1, 1, 2]);
    }
}

#[test]
fn a_dropped_stream_cancels_its_query_and_leaves_nothing() {
    let engine = Engine::start(EngineOptions { workers: 2, ..EngineOptions::default() }).unwrap();
    let plan = self_join(numbers(50_000), exchange(numbers(50_000), Pact::Hash(vec![expr(column())]), 2));
    for batches in 0..30 {
        let mut stream = engine.run(&plan, options(50)).unwrap();
        for _ in 0..batches {
            stream.next_blocking();
        }
        drop(stream);
    }
    eventually("no query runs", || engine.queries().iter().all(|query| query.state != QueryState::Running));
    eventually("no packet is left", || engine.queries().iter().all(|query| query.packets == 0));
    eventually("all memory is given back", || engine.broker().reserved_bytes() == 0);
    eventually("the stages are empty", || engine.stages().iter().all(|stage| stage.queued + stage.running == 0));
}

/// A function that panics on the value 777.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Panics(Signature);

impl ScalarUDFImpl for Panics {
    fn name(&self) -> &str {
        "panics"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> DataFusionResult<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let array = args.args[0].to_array(args.number_rows)?;
        assert!(!array.as_primitive::<Int64Type>().values().contains(&777), "the value 777 has come");
        Ok(ColumnarValue::Scalar(ScalarValue::Boolean(Some(true))))
    }
}

#[test]
fn a_panic_ends_one_query_and_twenty_others_go_on() {
    let function = Arc::new(ScalarUDF::from(Panics(Signature::any(1, Volatility::Volatile))));
    let call = ScalarFunctionExpr::new(
        "panics",
        function,
        vec![column()],
        Arc::new(Field::new("panics", DataType::Boolean, true)),
        Arc::default(),
    );
    let panicking = filter(numbers(5_000), expr(Arc::new(call)));
    let healthy = sort(self_join(numbers(5_000), numbers(5_000)), None);
    let engine = Engine::start(EngineOptions { workers: 2, ..EngineOptions::default() }).unwrap();
    let others: Vec<_> = (0..20).map(|_| engine.run(&healthy, options(100)).unwrap()).collect();
    let error = read(engine.run(&panicking, options(100)).unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Bug);
    assert!(error.message().contains("777"), "{error}");
    for other in others {
        assert_eq!(read(other).unwrap().len(), 5_000);
    }
    eventually("all memory is given back", || engine.broker().reserved_bytes() == 0);
}

#[test]
fn a_query_over_its_memory_fails_with_advice_and_others_do_not() {
    let engine = Engine::start(EngineOptions { workers: 2, ..EngineOptions::default() }).unwrap();
    let plan = sort(numbers(100_000), None);
    let limited = QueryOptions { memory_limit_bytes: Some(50_000), ..QueryOptions::default() };
    let error = read(engine.run(&plan, limited).unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Resource);
    assert!(error.hint().unwrap().contains("memory"));
    assert_eq!(read(engine.run(&plan, options(8192)).unwrap()).unwrap().len(), 100_000);
}

#[test]
fn policies_change_while_queries_run() {
    let engine = Engine::start(EngineOptions { workers: 2, ..EngineOptions::default() }).unwrap();
    let plan = sort(self_join(numbers(20_000), numbers(20_000)), None);
    let streams: Vec<_> = (0..10).map(|_| engine.run(&plan, options(100)).unwrap()).collect();
    let of_stages = "two_level(6), scan: t_gated(2), sort: fcfs".parse().unwrap();
    for policies in PolicyKind::ALL.into_iter().map(Policies::from).chain([of_stages]) {
        engine.set_policy(policies);
        assert_eq!(engine.policy(), policies);
    }
    for stream in streams {
        assert_eq!(read(stream).unwrap().len(), 20_000);
    }
}

#[test]
fn a_profile_counts_rows_per_operator() {
    let engine = Engine::start(EngineOptions { workers: 2, ..EngineOptions::default() }).unwrap();
    let mut stream = engine.run(&filter(numbers(10_000), below(100)), options(8192)).unwrap();
    while stream.next_blocking().is_some() {}
    let profile = stream.profile();
    let rows: Vec<u64> = profile.pipelines[0].operators.iter().map(|operator| operator.counts.rows).collect();
    assert_eq!(rows, vec![10_000, 100, 100]);
    assert!(profile.to_string().contains("Filter n@0 < 100: 100 rows"), "{profile}");
}

#[test]
fn the_end_of_a_stream_is_the_end_of_its_query() {
    let plan = sort(self_join(numbers(30_000), numbers(30_000)), None);
    for engine in engines() {
        for _ in 0..5 {
            let mut stream = engine.run(&plan, options(8192)).unwrap();
            while let Some(batch) = stream.next_blocking() {
                batch.unwrap();
            }
            assert_eq!(engine.broker().reserved_bytes(), 0, "{engine:?}");
            let elapsed_ns = stream.profile().elapsed_ns;
            drop(stream);
            let query = engine.queries().pop().unwrap();
            assert_eq!((query.state, query.packets, query.memory_bytes), (QueryState::Finished, 0, 0), "{engine:?}");
            assert_eq!(query.elapsed_ns, elapsed_ns, "the profile was final");
            assert!(query.error.is_none());
        }
        let limited = QueryOptions { memory_limit_bytes: Some(50_000), ..options(8192) };
        assert!(read(engine.run(&plan, limited).unwrap()).is_err());
        assert_eq!(engine.broker().reserved_bytes(), 0, "{engine:?}");
        assert_eq!(engine.queries().pop().unwrap().state, QueryState::Failed);
    }
}

#[test]
fn an_engine_that_nobody_needs_leaves_nothing() {
    let plan = self_join(numbers(50_000), exchange(numbers(50_000), Pact::Hash(vec![expr(column())]), 2));
    for batches in 0..30 {
        let engine = Engine::start(EngineOptions { workers: 2, ..EngineOptions::default() }).unwrap();
        let mut streams: Vec<_> = (0..3).map(|_| engine.run(&plan, options(50)).unwrap()).collect();
        for _ in 0..batches {
            streams[0].next_blocking();
        }
        let scheduler = Arc::downgrade(engine.scheduler());
        let broker = Arc::downgrade(engine.broker());
        drop(engine);
        assert!(scheduler.strong_count() > 0, "a stream keeps its engine");
        assert!(streams[0].next_blocking().unwrap().is_ok());
        drop(streams);
        eventually("the scheduler is dropped", || scheduler.strong_count() == 0);
        eventually("every reservation is dropped", || broker.strong_count() == 0);
    }
}

/// Starts so many threads, and counts those that live.
#[derive(Debug)]
struct FewThreads {
    left: AtomicUsize,
    alive: Arc<AtomicUsize>,
}

impl Spawn for FewThreads {
    fn spawn(&self, name: String, body: Box<dyn FnOnce() + Send>) -> std::io::Result<Box<dyn Thread>> {
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        taken.map_err(|_| std::io::Error::other("no more threads"))?;
        let alive = self.alive.clone();
        alive.fetch_add(1, Ordering::Relaxed);
        let counted = move || {
            body();
            alive.fetch_sub(1, Ordering::Relaxed);
        };
        ThreadSpawn.spawn(name, Box::new(counted))
    }
}

#[test]
fn an_engine_that_cannot_start_leaves_no_thread() {
    for threads in 0..IO_THREADS + 3 {
        let alive = Arc::<AtomicUsize>::default();
        let spawn = Arc::new(FewThreads { left: AtomicUsize::new(threads), alive: alive.clone() });
        let error = Engine::start(EngineOptions { workers: 3, spawn, ..EngineOptions::default() }).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Resource);
        assert_eq!(alive.load(Ordering::Relaxed), 0, "of {threads} threads");
    }
}

/// A source that says when it is opened, and may take its time.
struct Opens {
    seen: Arc<Mutex<Vec<&'static str>>>,
    name: &'static str,
    /// Opening ends when this one was opened, or after a while.
    waits_for: Option<&'static str>,
}

impl Source for Opens {
    fn name(&self) -> &'static str {
        self.name
    }

    fn packets_max(&self) -> usize {
        1
    }

    fn open(&self, _setup: &QueryContext) -> diligence_base::Result<Box<dyn SourceState>> {
        let end = Instant::now() + Duration::from_millis(200);
        while self.waits_for.is_some_and(|other| !self.seen.lock().contains(&other)) && Instant::now() < end {
            std::thread::yield_now();
        }
        self.seen.lock().push(self.name);
        Ok(Box::new(Nothing))
    }
}

struct Nothing;

impl SourceState for Nothing {
    fn pull(&mut self, _waker: &Waker) -> diligence_base::Result<Pull> {
        Ok(Pull::Done)
    }
}

/// The end of a short pipeline starts what can be started, on a worker, while the states of the slow one are being
/// opened.
#[test]
fn a_pipeline_has_not_started_before_its_states_are_open() {
    let engine = Engine::start(EngineOptions { workers: 2, ..EngineOptions::default() }).unwrap();
    let (result, receiver) = ResultSink::new(schema());
    let seen = Arc::<Mutex<Vec<&'static str>>>::default();
    let pipeline = |name, waits_for, after_started| PipelineSpec {
        stage: StageId::Values,
        source: Part {
            part: Arc::new(Opens { seen: seen.clone(), name, waits_for }),
            name: name.into(),
            totals: Arc::default(),
        },
        operators: Vec::new(),
        branches: vec![Branch::to(0)],
        branching: Arc::default(),
        serial: false,
        in_order: false,
        exact_packets: true,
        after_sinks: Vec::new(),
        after_pipelines: Vec::new(),
        after_started,
    };
    let sink = Part { part: result.clone() as Arc<dyn Sink>, name: "Result".into(), totals: Arc::default() };
    let graph = Graph {
        pipelines: vec![
            pipeline("short", None, vec![]),
            pipeline("slow", Some("reader"), vec![]),
            pipeline("reader", None, vec![1]),
        ],
        sinks: vec![SinkSpec { sink, stage: StageId::Exchange }],
        tables: Vec::new(),
        scans: Vec::new(),
        groups: None,
        held: None,
    };
    let context = QueryContext { memory: QueryMemory::unbounded(), temp: None, batch_rows: 8192, packets: 2 };
    let (clock, scheduler) = (Arc::new(SystemClock::default()), engine.scheduler().clone());
    let run = QueryRun::new(QueryId(1), &QueryOptions::default(), context, result, clock, scheduler, Box::new(|_| {}));
    run.launch(graph);
    eventually("the result has ended", || matches!(receiver.receive(Waker::noop()), Poll::Ready(None)));
    assert!(run.has_ended());
    assert_eq!(*seen.lock(), ["short", "slow", "reader"]);
}

/// Notes that it had a turn.
struct Noted(QueryId, Arc<Mutex<Vec<u64>>>);

impl Work for Noted {
    fn run(&mut self, _quantum: &Quantum<'_>) -> Step {
        self.1.lock().push(self.0.0);
        Step::Done
    }
}

#[test]
fn a_query_that_is_known_to_take_long_is_behind_others_from_the_start() {
    let clock = Arc::new(SystemClock::default());
    let scheduler = Scheduler::inline(1, Arc::new(crate::knobs::Knobs::new(1)), clock.clone());
    scheduler.set_policy(Policies::default());
    let turns = Arc::new(Mutex::new(Vec::new()));
    for (id, work_expected_ns) in [(1, 7_000_000), (2, 0), (3, u64::MAX), (4, 1_000_000)] {
        let context = QueryContext { memory: QueryMemory::unbounded(), temp: None, batch_rows: 8192, packets: 1 };
        let (result, _receiver) = ResultSink::new(schema());
        let (options, scheduler) = (QueryOptions { work_expected_ns, ..QueryOptions::default() }, scheduler.clone());
        let run = QueryRun::new(QueryId(id), &options, context, result, clock.clone(), scheduler, Box::new(|_| {}));
        run.packet(StageId::Scan, Box::new(Noted(QueryId(id), turns.clone()))).submit(Arrival::New);
    }
    while scheduler.run_one() {}
    assert_eq!(*turns.lock(), [2, 4, 1, 3]);
}

/// A function that gives 1, then 2, then 3.
#[derive(Debug)]
struct Ticks(Signature, AtomicI64);

impl PartialEq for Ticks {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Ticks {}

impl std::hash::Hash for Ticks {
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
}

impl ScalarUDFImpl for Ticks {
    fn name(&self) -> &str {
        "ticks"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> DataFusionResult<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        Ok(ColumnarValue::Scalar(ScalarValue::Int64(Some(1 + self.1.fetch_add(1, Ordering::Relaxed)))))
    }
}

#[test]
fn runs_of_a_plan_have_values_of_their_own_for_its_subqueries() {
    let ticks = ScalarFunctionExpr::new(
        "ticks",
        Arc::new(ScalarUDF::from(Ticks(Signature::nullary(Volatility::Volatile), AtomicI64::new(0)))),
        vec![],
        Arc::new(Field::new("n", DataType::Int64, true)),
        Arc::default(),
    );
    let project = |input, expression| {
        Plan::new(Node::Project { input: Box::new(input), expressions: vec![expr(expression)] }, schema())
    };
    let results = ScalarSubqueryResults::new(1);
    let value = ScalarSubqueryExpr::new(DataType::Int64, true, SubqueryIndex::new(0), results.clone());
    let node = Node::ScalarSubqueries {
        input: Box::new(project(numbers(3), Arc::new(value))),
        subqueries: vec![project(numbers(1), Arc::new(ticks))],
        results,
    };
    let plan = Plan::new(node, schema());
    let mut next = 1;
    for engine in engines() {
        assert_eq!(read(engine.run(&plan, options(8192)).unwrap()).unwrap(), vec![next; 3], "{engine:?}");
        // All at once, and somebody asks for the plan meanwhile.
        let streams: Vec<_> = (0..10).map(|_| engine.run(&plan, options(8192)).unwrap()).collect();
        engine.explain(&plan, &options(8192)).unwrap();
        let mut values: Vec<_> = streams
            .into_iter()
            .map(|stream| {
                let rows = read(stream).unwrap();
                assert_eq!(rows, vec![rows[0]; 3], "{engine:?}");
                rows[0]
            })
            .collect();
        values.sort_unstable();
        assert_eq!(values, (next + 1..next + 11).collect::<Vec<_>>(), "{engine:?}");
        next += 11;
    }
}
