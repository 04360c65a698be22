//! Whole queries: their answers, and what is left of them however they end.

use std::sync::{Arc, Weak};

use diligence_base::seams::ManualClock;
use diligence_base::{ErrorKind, Result};
use shuttle::thread;

use super::{DrivenSpawn, eventually, interleave};
use crate::exchange::Pact;
use crate::memory::Broker;
use crate::plan::{Aggregate, Node, Plan};
use crate::query::tests::{
    below, column, exchange, expr, filter, keys, numbers, options, read, schema, self_join, sort,
};
use crate::query::{QueryInfo, QueryOptions, QueryState, QueryStream};
use crate::stages::{PolicyKind, Scheduler};
use crate::{Engine, EngineOptions};

/// An engine of two workers whose quantum is over after a few batches.
fn engine() -> Arc<Engine> {
    let clock = Arc::new(ManualClock::stepping(300_000));
    let options = EngineOptions {
        workers: 2,
        memory_bytes: 1 << 30,
        clock,
        spawn: Arc::new(DrivenSpawn),
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

fn start(engine: &Engine, plan: &Plan) -> QueryStream {
    engine.run(plan, options(2)).unwrap()
}

/// Waits until no query runs; what has become of each.
fn ended(engine: &Engine) -> Vec<QueryInfo> {
    eventually(|| engine.queries().iter().all(|query| query.state != QueryState::Running && query.packets == 0));
    let queries = engine.queries();
    eventually(|| engine.stages().iter().all(|stage| stage.queued + stage.running == 0));
    assert_eq!(engine.broker().reserved_bytes(), 0, "an ended query holds memory");
    queries
}

fn states(engine: &Engine) -> Vec<QueryState> {
    ended(engine).iter().map(|query| query.state).collect()
}

fn sorted(rows: Result<Vec<i64>>) -> Vec<i64> {
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
        let mut merged = exchange(sort(numbers(7), None), Pact::Merge(keys()), 1);
        merged.ordered = true;
        assert_eq!(read(start(&engine, &merged)).unwrap(), (0..7).collect::<Vec<_>>());
        assert_eq!(states(&engine), [QueryState::Finished; 4]);
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
fn an_engine_may_be_dropped_while_queries_run() {
    interleave(2_000, || {
        let engine = engine();
        let broker: Arc<Broker> = engine.broker().clone();
        let scheduler: Weak<Scheduler> = Arc::downgrade(engine.scheduler());
        let mut streams = [start(&engine, &joined()), start(&engine, &streamed())];
        let first = streams[1].next_blocking();
        assert!(first.unwrap().is_ok());
        drop(engine);
        assert_eq!(broker.reserved_bytes(), 0, "a query outlives its engine");
        for stream in streams {
            if let Err(error) = read(stream) {
                assert_eq!(error.kind(), ErrorKind::Cancelled);
            }
        }
        assert!(scheduler.upgrade().is_none(), "packets hold their scheduler and it holds them");
    });
}
