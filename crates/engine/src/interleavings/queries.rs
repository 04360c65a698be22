//! Whole queries: their answers, and what is left of them however they end.

use std::sync::{Arc, Weak};
use std::task::Waker;

use diligence_base::ids::QueryId;
use diligence_base::seams::ManualClock;
use diligence_base::{ErrorKind, Result};
use diligence_disk::{MemoryTempFiles, TempOptions};
use diligence_memory::{Broker, QueryMemory, Reservation};
use shuttle::thread;

use super::stages::scheduler;
use super::{DrivenSpawn, eventually, interleave};
use crate::batch::Batch;
use crate::flow::{Accept, QueryContext, Sink, SinkState, Source, SourceState};
use crate::operators::result::ResultSink;
use crate::operators::values::Values;
use crate::options::QueryOptions;
use crate::pipeline::{Branch, Graph, Part, PipelineSpec, SinkSpec};
use crate::plan::Pact;
use crate::plan::{Aggregate, Node, Plan};
use crate::query::tests::{
    below, column, exchange, expr, filter, keys, numbers, options, read, schema, self_join, sort,
};
use crate::query::{QueryInfo, QueryRun, QueryState, QueryStream};
use crate::stages::{PolicyKind, Scheduler, StageId};
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::{Engine, EngineOptions};

/// An engine of two workers whose quantum is over after a few batches.
pub(super) fn engine() -> Arc<Engine> {
    let clock = Arc::new(ManualClock::stepping(300_000));
    let options = EngineOptions {
        workers: 2,
        memory_bytes: 1 << 30,
        clock,
        spawn: Arc::new(DrivenSpawn),
        temp: TempOptions { threads: 0, files: Arc::new(MemoryTempFiles::default()), ..TempOptions::default() },
        ..EngineOptions::default()
    };
    Engine::start(options).unwrap()
}

/// Every group of these rows once.
fn distinct(input: Plan) -> Plan {
    let aggregate = Aggregate {
        input: Box::new(input),
        groups: vec![expr(column())],
        grouping_sets: vec![vec![false]],
        has_grouping_id: false,
        aggregates: Vec::new(),
        limit: None,
    };
    Plan::new(Node::Aggregate(aggregate), schema())
}

/// A build side behind an exchange, a probe side, a sort: every way of handing on work.
fn joined() -> Plan {
    sort(self_join(exchange(numbers(6), Pact::RoundRobin, 2), filter(numbers(8), below(5))), None)
}

/// A query that is not worth sorting ends in the reader's port directly: it can be ahead of its reader, and wait.
fn streamed() -> Plan {
    exchange(numbers(24), Pact::Hash(vec![expr(column())]), 2)
}

pub(super) fn start(engine: &Arc<Engine>, plan: &Plan) -> QueryStream {
    engine.run(plan, options(2)).unwrap()
}

/// Waits until no query runs; what has become of each.
fn ended(engine: &Engine) -> Vec<QueryInfo> {
    eventually(|| engine.queries().iter().all(|query| query.state != QueryState::Running && query.packets == 0));
    assert_eq!(engine.broker().reserved_bytes(), 0, "an ended query holds memory");
    eventually(|| engine.stages().iter().all(|stage| stage.queued + stage.running == 0));
    engine.queries()
}

fn states(engine: &Engine) -> Vec<QueryState> {
    ended(engine).iter().map(|query| query.state).collect()
}

pub(super) fn sorted(rows: Result<Vec<i64>>) -> Vec<i64> {
    let mut rows = rows.unwrap();
    rows.sort_unstable();
    rows
}

#[test]
fn a_join_answers_the_same_under_any_schedule() {
    interleave(1_000, || {
        let engine = engine();
        assert_eq!(read(start(&engine, &joined())).unwrap(), vec![0, 1, 2, 3, 4]);
        assert_eq!(states(&engine), [QueryState::Finished], "a query that was read to its end is not cancelled");
    });
}

#[test]
fn groups_and_first_rows_are_the_same_under_any_schedule() {
    interleave(1_000, || {
        let engine = engine();
        let union = Plan::new(Node::Union { inputs: vec![numbers(5), numbers(7)] }, schema());
        let groups = start(&engine, &distinct(union));
        let first = start(&engine, &sort(numbers(9), Some(3)));
        assert_eq!(sorted(read(groups)), (0..7).collect::<Vec<_>>());
        assert_eq!(read(first).unwrap(), vec![0, 1, 2]);
        assert_eq!(states(&engine), [QueryState::Finished; 2]);
    });
}

#[test]
fn an_exchange_keeps_all_rows_under_any_schedule() {
    interleave(1_000, || {
        let engine = engine();
        let pacts = [Pact::Hash(vec![expr(column())]), Pact::Range(keys())];
        for pact in pacts {
            let rows = sorted(read(start(&engine, &exchange(numbers(12), pact, 2))));
            assert_eq!(rows, (0..12).collect::<Vec<_>>());
        }
        let twice = sorted(read(start(&engine, &exchange(numbers(5), Pact::Broadcast, 2))));
        assert_eq!(twice, (0..5).flat_map(|row| [row, row]).collect::<Vec<_>>());
        assert_eq!(states(&engine), [QueryState::Finished; 3]);
    });
}

/// Here the ends do not exist before the producers have started.
#[test]
fn an_exchange_that_merges_waits_for_its_producers() {
    interleave(4_000, || {
        let engine = engine();
        let mut merged = exchange(sort(numbers(7), None), Pact::Merge(keys()), 1);
        merged.ordered = true;
        assert_eq!(read(start(&engine, &merged)).unwrap(), (0..7).collect::<Vec<_>>());
    });
}

#[test]
fn a_query_may_be_cancelled_at_any_moment() {
    interleave(2_000, || {
        let engine = engine();
        let cancelled = start(&engine, &joined());
        let other = start(&engine, &streamed());
        let token = cancelled.cancel_token();
        let cancelling = thread::spawn(move || token.cancel());
        match read(cancelled) {
            Ok(rows) => assert_eq!(rows, vec![0, 1, 2, 3, 4]),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Cancelled),
        }
        cancelling.join().unwrap();
        assert_eq!(sorted(read(other)), (0..24).collect::<Vec<_>>(), "the other query is not touched");
        let states = states(&engine);
        assert!(matches!(states[0], QueryState::Cancelled | QueryState::Finished));
        assert_eq!(states[1..], [QueryState::Finished]);
    });
}

#[test]
fn a_reader_may_leave_at_any_moment() {
    interleave(2_000, || {
        let engine = engine();
        for batches in 0..3 {
            let mut stream = start(&engine, &streamed());
            for _ in 0..batches {
                stream.next_blocking().unwrap().unwrap();
            }
        }
        assert_eq!(states(&engine), [QueryState::Cancelled; 3]);
    });
}

#[test]
fn a_query_without_memory_fails_alone() {
    interleave(1_000, || {
        let engine = engine();
        let poor = QueryOptions { memory_limit_bytes: Some(100), ..options(2) };
        let failing = engine.run(&joined(), poor).unwrap();
        let other = start(&engine, &joined());
        assert_eq!(read(failing).unwrap_err().kind(), ErrorKind::Resource);
        assert_eq!(read(other).unwrap(), vec![0, 1, 2, 3, 4]);
        assert_eq!(states(&engine), [QueryState::Failed, QueryState::Finished]);
    });
}

#[test]
fn policies_change_while_queries_run() {
    interleave(1_000, || {
        let engine = engine();
        let streams = [start(&engine, &joined()), start(&engine, &joined())];
        for policy in [PolicyKind::DGated, PolicyKind::TGated(1), PolicyKind::Fcfs] {
            engine.set_policy(policy);
        }
        for stream in streams {
            assert_eq!(read(stream).unwrap(), vec![0, 1, 2, 3, 4]);
        }
        assert_eq!(states(&engine), [QueryState::Finished; 2]);
    });
}

#[test]
fn an_engine_may_be_let_go_while_queries_run() {
    interleave(2_000, || {
        let engine = engine();
        let broker: Arc<Broker> = engine.broker().clone();
        let scheduler: Weak<Scheduler> = Arc::downgrade(engine.scheduler());
        let dropped = start(&engine, &joined());
        let mut kept = start(&engine, &streamed());
        drop(engine);
        assert!(kept.next_blocking().unwrap().is_ok(), "a stream keeps its engine");
        // The last stream ends the engine, while packets of both queries are anywhere.
        let leaving = thread::spawn(move || drop(dropped));
        drop(kept);
        leaving.join().unwrap();
        assert_eq!(broker.reserved_bytes(), 0, "a query outlives its engine");
        assert!(scheduler.upgrade().is_none(), "packets hold their scheduler and it holds them");
    });
}

/// What must hold in the life of a sink.
struct Life {
    parts: usize,
    parts_begun: AtomicUsize,
    parts_done: AtomicUsize,
    completed: AtomicBool,
    memory: QueryMemory,
}

/// A sink that keeps nothing but watches its life; as a source, what comes after it.
struct Watched(Arc<Life>);

struct WatchedState {
    life: Arc<Life>,
    reservation: Reservation,
}

impl SinkState for WatchedState {
    fn push(&mut self, _batch: Batch, _waker: &Waker) -> Result<Accept> {
        assert_eq!(self.life.parts_begun.load(Ordering::Relaxed), 0, "rows come before parts");
        self.reservation.grow(10)?;
        Ok(Accept::More)
    }
}

impl Sink for Watched {
    fn name(&self) -> &'static str {
        "Watched"
    }

    fn open(&self, context: &QueryContext) -> Result<Box<dyn SinkState>> {
        Ok(Box::new(WatchedState { life: self.0.clone(), reservation: context.memory.reservation("Watched") }))
    }

    fn parts(&self) -> Result<usize> {
        assert_eq!(self.0.memory.reserved_bytes(), 0, "the packets' states are gone before the parts");
        Ok(self.0.parts)
    }

    fn part(&self, index: usize, _setup: &QueryContext) -> Result<()> {
        assert!(index < self.0.parts && !self.0.completed.load(Ordering::Relaxed));
        self.0.parts_begun.fetch_add(1, Ordering::Relaxed);
        self.0.parts_done.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn complete(&self) -> Result<()> {
        assert_eq!(self.0.parts_done.load(Ordering::Relaxed), self.0.parts, "complete before its parts are done");
        assert!(!self.0.completed.swap(true, Ordering::Relaxed), "complete twice");
        Ok(())
    }
}

struct After(Arc<Life>, Arc<Values>);

impl Source for After {
    fn name(&self) -> &'static str {
        "After"
    }

    fn packets_max(&self) -> usize {
        self.1.packets_max()
    }

    fn open(&self, context: &QueryContext) -> Result<Box<dyn SourceState>> {
        assert!(self.0.completed.load(Ordering::Relaxed), "started before what it waits for");
        self.1.open(context)
    }
}

fn part<T: ?Sized>(part: Arc<T>) -> Part<T> {
    Part { part, name: String::new(), totals: Arc::default() }
}

/// A pipeline that fills the watched sink, and one after it whose rows are the result.
fn watched(life: &Arc<Life>, result: Arc<ResultSink>) -> Graph {
    let Node::Values { batches } = numbers(3).node else { unreachable!("numbers are values") };
    let values = || Values::new(&batches, 1);
    let pipeline = |source: Arc<dyn Source>, sink, after_sinks| PipelineSpec {
        stage: StageId::Values,
        source: part(source),
        operators: Vec::new(),
        branches: vec![Branch::to(sink)],
        branching: Arc::default(),
        serial: false,
        in_order: false,
        exact_packets: false,
        after_sinks,
        after_pipelines: Vec::new(),
        after_started: Vec::new(),
    };
    let sink = |sink: Arc<dyn Sink>| SinkSpec { sink: part(sink), stage: StageId::Sort };
    Graph {
        pipelines: vec![
            pipeline(values(), 0, Vec::new()),
            pipeline(Arc::new(After(life.clone(), values())), 1, vec![0]),
        ],
        sinks: vec![sink(Arc::new(Watched(life.clone()))), sink(result)],
        tables: Vec::new(),
        scans: Vec::new(),
        groups: None,
        held: None,
    }
}

#[test]
fn a_query_goes_through_its_life_once_and_in_order() {
    interleave(3_000, || {
        let scheduler = scheduler(2, PolicyKind::ProcessorSharing);
        let broker = Broker::new(usize::MAX);
        let memory = broker.account(QueryId(1), None);
        let life = Arc::new(Life {
            parts: 3,
            parts_begun: AtomicUsize::new(0),
            parts_done: AtomicUsize::new(0),
            completed: AtomicBool::new(false),
            memory: memory.clone(),
        });
        let (result, receiver) = ResultSink::new(schema());
        let graph = watched(&life, result.clone());
        let context = QueryContext { memory: memory.clone(), temp: None, batch_rows: 1, packets: 2 };
        let ends = Arc::new(AtomicUsize::new(0));
        let on_end = {
            let ends = ends.clone();
            Box::new(move |_| {
                // Rows that nobody has read yet are there still.
                let left = broker.holders().into_iter().find(|holder| holder.operator != "Result");
                assert_eq!(left, None, "a query ends before its states are gone");
                ends.fetch_add(1, Ordering::Relaxed);
            })
        };
        let clock = Arc::new(ManualClock::stepping(300_000));
        let run =
            QueryRun::new(QueryId(1), &QueryOptions::default(), context, result, clock, scheduler.clone(), on_end);
        run.launch(graph);
        let cancelling = {
            let run = run.clone();
            thread::spawn(move || run.cancel())
        };
        match read(QueryStream::new(run.clone(), receiver, schema(), None)) {
            Ok(rows) => assert_eq!(rows.len(), 3),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}"),
        }
        cancelling.join().unwrap();
        eventually(|| ends.load(Ordering::Relaxed) > 0);
        scheduler.stop();
        assert_eq!(ends.load(Ordering::Relaxed), 1);
        let info = run.info();
        assert_eq!((info.packets, info.memory_bytes), (0, 0));
        assert!(matches!(info.state, QueryState::Finished | QueryState::Cancelled));
    });
}
