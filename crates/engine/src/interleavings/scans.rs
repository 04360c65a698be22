//! Scans: clusters arrive from I/O threads, each once, whoever waits is woken, and reads in flight give back their
//! memory.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion_common::Statistics;
use diligence_base::Result;
use diligence_base::ids::{TableIdentity, TableVersion};
use diligence_storage::memory::MemoryTable;
use diligence_storage::{Cluster, Decode, DecodeRequest, Fetch, Fetched, ScanRequest, Table, TableScan};
use shuttle::thread;

use super::queries::{engine, sorted};
use super::{eventually, interleave};
use crate::Engine;
use crate::options::QueryOptions;
use crate::plan::{Node, Plan, PlanTables, Scan};
use crate::query::tests::{numbers, options, read, schema};
use crate::query::{QueryState, QueryStream};

pub(super) const ROWS: i64 = 12;

/// How what is there comes to a scan: made of a cluster's place and its rows.
type Coming = Arc<dyn Fn(usize, Fetched) -> Fetch + Send + Sync>;

/// A table in memory whose clusters come through the I/O threads, as those of files do.
struct Slow(MemoryTable, Coming);

impl std::fmt::Debug for Slow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Table for Slow {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }

    fn identity(&self) -> TableIdentity {
        self.0.identity()
    }

    fn statistics(&self) -> Statistics {
        self.0.statistics()
    }

    fn scan(&self, request: &ScanRequest) -> Result<TableScan> {
        let mut scan = self.0.scan(request)?;
        for (place, cluster) in scan.clusters.iter_mut().enumerate() {
            *cluster = Arc::new(SlowCluster(cluster.clone(), place, self.1.clone()));
        }
        Ok(scan)
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

struct SlowCluster(Arc<dyn Cluster>, usize, Coming);

impl std::fmt::Debug for SlowCluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Cluster for SlowCluster {
    fn rows(&self) -> Option<usize> {
        self.0.rows()
    }

    fn bytes(&self, _columns: &[usize]) -> usize {
        1000
    }

    fn fetch(&self, columns: &[usize]) -> Fetch {
        match self.0.fetch(columns) {
            Fetch::Ready(fetched) => (self.2)(self.1, fetched),
            other => other,
        }
    }

    fn decode(&self, fetched: Fetched, request: &DecodeRequest) -> Result<Box<dyn Decode>> {
        self.0.decode(fetched, request)
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

/// Six clusters of two rows, and the table that has them.
pub(super) fn scan(limit: Option<usize>, ordered: bool) -> (Plan, PlanTables) {
    scan_by(limit, ordered, |_, fetched| {
        Fetch::Blocking(Box::new(|| {
            thread::yield_now();
            Ok(fetched)
        }))
    })
}

/// The same, whose clusters come in another way, of their places and their rows.
pub(super) fn scan_of(coming: impl Fn(usize, Fetched) -> Fetch + Send + Sync + 'static) -> (Plan, PlanTables) {
    scan_by(None, false, coming)
}

fn scan_by(
    limit: Option<usize>,
    ordered: bool,
    coming: impl Fn(usize, Fetched) -> Fetch + Send + Sync + 'static,
) -> (Plan, PlanTables) {
    let Node::Values { batches } = numbers(ROWS).node else { unreachable!("numbers are values") };
    let clusters = (0..ROWS as usize).step_by(2).map(|row| batches[0].slice(row, 2)).collect();
    let table = MemoryTable::new("n", schema(), clusters, TableVersion(1)).unwrap();
    let table: Arc<dyn Table> = Arc::new(Slow(table, Arc::new(coming)));
    let scan = Scan { limit, ..Scan::new(table.as_ref(), "n", vec![0]) };
    let mut plan = Plan::new(Node::Scan(scan), schema());
    plan.ordered = ordered;
    (plan, [table].into_iter().collect())
}

/// Starts a scan.
pub(super) fn read_table(engine: &Arc<Engine>, (plan, tables): &(Plan, PlanTables)) -> QueryStream {
    engine.run(plan, QueryOptions { tables: tables.clone(), ..options(2) }).unwrap()
}

/// Waits until every query has ended; a read that is still in flight then gives back its memory when it arrives.
pub(super) fn ended(engine: &Engine) -> Vec<QueryState> {
    eventually(|| engine.queries().iter().all(|query| query.state != QueryState::Running && query.packets == 0));
    eventually(|| engine.broker().reserved_bytes() == 0);
    engine.queries().iter().map(|query| query.state).collect()
}

#[test]
fn every_cluster_is_read_once() {
    interleave(1_000, || {
        let engine = engine();
        let any = read_table(&engine, &scan(None, false));
        let ordered = read_table(&engine, &scan(None, true));
        assert_eq!(read(ordered).unwrap(), (0..ROWS).collect::<Vec<_>>());
        assert_eq!(sorted(read(any)), (0..ROWS).collect::<Vec<_>>());
        assert_eq!(ended(&engine), [QueryState::Finished; 2]);
    });
}

#[test]
fn a_scan_that_has_enough_leaves_nothing_behind() {
    interleave(1_000, || {
        let engine = engine();
        for limit in [1, 3] {
            assert_eq!(read(read_table(&engine, &scan(Some(limit), false))).unwrap().len(), limit);
        }
        assert_eq!(ended(&engine), [QueryState::Finished; 2]);
    });
}

#[test]
fn a_scan_may_be_left_or_cancelled_while_it_reads() {
    interleave(2_000, || {
        let engine = engine();
        let cancelled = read_table(&engine, &scan(None, false));
        let token = cancelled.cancel_token();
        let cancelling = thread::spawn(move || token.cancel());
        let mut left = read_table(&engine, &scan(None, false));
        left.next_blocking().unwrap().unwrap();
        drop(left);
        let _ = read(cancelled);
        cancelling.join().unwrap();
        // What is left of so few rows fits into the port: either may have finished by itself.
        let states = ended(&engine);
        assert!(states.iter().all(|state| matches!(state, QueryState::Cancelled | QueryState::Finished)), "{states:?}");
    });
}

#[test]
fn an_engine_may_be_dropped_while_it_reads() {
    interleave(2_000, || {
        let engine = engine();
        let broker = engine.broker().clone();
        let stream = read_table(&engine, &scan(None, false));
        drop(engine);
        // The stream keeps the engine; with it goes everything.
        drop(stream);
        assert_eq!(broker.reserved_bytes(), 0, "a read outlives its engine");
    });
}
