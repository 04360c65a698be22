//! Hash tables that queries share: whoever waits for one is woken, whatever becomes of the query that builds it, and
//! none is left behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use shuttle::thread;

use super::interleave;
use super::queries::engine;
use super::scans::{ended, scan};
use crate::Engine;
use crate::options::QueryOptions;
use crate::options::SharingMode;
use crate::plan::{Plan, PlanTables};
use crate::query::tests::{numbers, options, read, self_join};
use crate::query::{QueryState, QueryStream};

/// A join of `build` with the numbers below `probe`, that may share its table.
fn start(engine: &Arc<Engine>, (build, tables): &(Plan, PlanTables), probe: i64) -> QueryStream {
    let (sharing, tables) = (SharingMode::States, tables.clone());
    let options = QueryOptions { sharing, sharing_rows_min: 0, tables, ..options(4) };
    engine.run(&self_join(build.clone(), numbers(probe)), options).unwrap()
}

fn sorted(stream: QueryStream) -> Vec<i64> {
    super::queries::sorted(read(stream))
}

#[test]
fn one_table_serves_two_queries() {
    static READS: AtomicU64 = AtomicU64::new(0);
    interleave(1_000, || {
        let engine = engine();
        engine.set_retained_percent(0);
        let build = scan(None, false);
        let (first, second) = (start(&engine, &build, 3), start(&engine, &build, 5));
        assert_eq!((sorted(second), sorted(first)), ((0..5).collect(), (0..3).collect()));
        let sharing = engine.sharing();
        assert_eq!(sharing.tables_built_total + sharing.tables_read_total, 2);
        assert_eq!(ended(&engine), [QueryState::Finished; 2]);
        READS.fetch_add(sharing.tables_read_total, Ordering::Relaxed);
    });
    assert!(READS.load(Ordering::Relaxed) > 0, "nobody ever found the other one's table");
}

#[test]
fn whoever_builds_it_may_be_cancelled_and_whoever_waits_may_leave() {
    interleave(2_000, || {
        let engine = engine();
        engine.set_retained_percent(0);
        let build = scan(None, false);
        let cancelled = start(&engine, &build, 2);
        let token = cancelled.cancel_token();
        let cancelling = thread::spawn(move || token.cancel());
        let (left, stays) = (start(&engine, &build, 4), start(&engine, &build, 5));
        drop(left);
        assert_eq!(sorted(stays), (0..5).collect::<Vec<_>>());
        let _ = read(cancelled);
        cancelling.join().unwrap();
        let states = ended(&engine);
        assert!(states.iter().all(|state| *state != QueryState::Failed), "{states:?}");
        assert_eq!(states[2], QueryState::Finished);
    });
}

#[test]
fn an_engine_may_be_let_go_while_a_query_waits_for_a_table() {
    interleave(1_000, || {
        let engine = engine();
        let build = scan(None, false);
        let streams = [3, 4].map(|probe| start(&engine, &build, probe));
        drop(engine);
        drop(streams);
    });
}
