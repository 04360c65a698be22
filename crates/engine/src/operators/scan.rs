//! Reads a table: the source of most pipelines.
//!
//! I/O and decoding are separate: the scan keeps a few clusters in flight on the I/O stage and hands fetched ones to the
//! packets that pull; only decoding happens in a packet. So a slow disk or object store never holds a worker.
//!
//! Invariants:
//! * At most `READ_AHEAD_CLUSTERS` per packet are in flight or waiting, and their bytes are reserved.
//! * The lock is taken once per cluster, not per batch.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use datafusion_expr::Operator as ExprOperator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{BinaryExpr, Column as ColumnExpr, Literal};
use datafusion_physical_expr::utils::conjunction;
use diligence_base::limits::READ_AHEAD_CLUSTERS;
use diligence_base::{Error, Result};
use diligence_storage::{Cluster, Decode, DecodeRequest, Fetch, Fetched, RowFilter, ScanRequest};

use crate::batch::Batch;
use crate::expressions::PredicateFilter;
use crate::memory::Reservation;
use crate::operators::runtime_filter::RuntimeFilter;
use crate::pipeline::{Pull, Setup, Source, SourceState};
use crate::plan::Scan;
use crate::stages::IoPool;
use crate::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

/// Where a scan's I/O happens.
#[derive(Clone)]
pub struct Io {
    /// Threads that block for local files.
    pub pool: Arc<IoPool>,
    /// Drives requests to object stores.
    pub runtime: tokio::runtime::Handle,
    /// True if everything happens on the calling thread (the inline executor).
    pub inline: bool,
}

/// How far a scan is, for progress displays.
#[derive(Debug, Default)]
pub struct ScanProgress {
    /// Clusters that were decoded to their end.
    pub clusters_done: AtomicUsize,
    /// Clusters that are to be read.
    pub clusters_total: AtomicUsize,
    /// Clusters that statistics or join filters left out.
    pub clusters_pruned: AtomicUsize,
    /// Bytes fetched.
    pub bytes: AtomicUsize,
}

/// A scan as planned, with the join filters of this run.
pub struct ScanSource {
    scan: Scan,
    runtime_filters: Vec<(Arc<RuntimeFilter>, usize)>,
    ordered: bool,
    io: Io,
    progress: Arc<ScanProgress>,
    shared: OnceLock<Result<Arc<Shared>>>,
}

impl ScanSource {
    /// A scan whose clusters come in file order if `ordered`. What is read is decided when the pipeline starts, because the
    /// join filters are known only then.
    pub fn new(
        scan: Scan,
        runtime_filters: Vec<(Arc<RuntimeFilter>, usize)>,
        ordered: bool,
        io: Io,
        progress: Arc<ScanProgress>,
    ) -> Arc<Self> {
        Arc::new(Self { scan, runtime_filters, ordered, io, progress, shared: OnceLock::new() })
    }

    fn shared(&self) -> Result<Arc<Shared>> {
        self.shared.get_or_init(|| self.start().map(Arc::new)).clone()
    }

    fn start(&self) -> Result<Shared> {
        let nothing = self.runtime_filters.iter().any(|(filter, _)| filter.is_empty_build()) || self.is_never_true()?;
        let clusters = if nothing {
            Vec::new()
        } else {
            let predicate = self.pruning_predicate();
            let request = ScanRequest { columns: self.scan.columns.clone(), predicate };
            let planned = self.scan.table.scan(&request)?;
            self.progress.clusters_pruned.fetch_add(planned.clusters_pruned, Ordering::Relaxed);
            planned.clusters
        };
        self.progress.clusters_total.fetch_add(clusters.len(), Ordering::Relaxed);
        let schema = self.scan.table.schema();
        let mut filters: Vec<Arc<dyn RowFilter>> = Vec::new();
        for filter in &self.scan.filters {
            let Some(filter) = PredicateFilter::shared(filter, &schema)? else { continue };
            filters.push(filter);
        }
        for (filter, column) in &self.runtime_filters {
            filters.push(filter.row_filter(*column));
        }
        let mut fetched_columns = self.scan.columns.clone();
        fetched_columns.extend(filters.iter().flat_map(|filter| filter.columns().iter().copied()));
        fetched_columns.sort_unstable();
        fetched_columns.dedup();
        Ok(Shared {
            fetched_columns,
            filters,
            columns: self.scan.columns.clone(),
            rows_left: AtomicUsize::new(self.scan.limit.unwrap_or(usize::MAX)),
            ordered: self.ordered,
            io: self.io.clone(),
            progress: self.progress.clone(),
            queue: Mutex::new(Queue {
                window: READ_AHEAD_CLUSTERS,
                clusters: clusters.into_iter().enumerate().collect(),
                in_flight: 0,
                next_in_order: 0,
                ready: BTreeMap::new(),
                waiting: Vec::new(),
            }),
        })
    }

    /// True if a condition that reads no column is not true.
    fn is_never_true(&self) -> Result<bool> {
        let row = Batch::new(Vec::new(), 1);
        for condition in self.scan.filters.iter().filter(|condition| condition.columns().is_empty()) {
            if condition.select(&row)?.rows(1) == 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The query's conditions and the bounds of the join filters, over the table's schema.
    fn pruning_predicate(&self) -> Option<Arc<dyn PhysicalExpr>> {
        let schema = self.scan.table.schema();
        let mut conditions: Vec<Arc<dyn PhysicalExpr>> =
            self.scan.filters.iter().map(|filter| filter.physical().clone()).collect();
        for (filter, column) in &self.runtime_filters {
            let Some((low, high)) = filter.bounds() else { continue };
            for (operator, bound) in [(ExprOperator::GtEq, low), (ExprOperator::LtEq, high)] {
                let column = Arc::new(ColumnExpr::new(schema.field(*column).name(), *column));
                conditions.push(Arc::new(BinaryExpr::new(column, operator, Arc::new(Literal::new(bound)))));
            }
        }
        (!conditions.is_empty()).then(|| conjunction(conditions))
    }
}

impl Source for ScanSource {
    fn name(&self) -> &'static str {
        "Scan"
    }

    fn packets_max(&self) -> usize {
        match self.shared() {
            Ok(shared) => shared.queue.lock().clusters.len(),
            // Opening reports the error.
            Err(_) => 1,
        }
    }

    fn open(&self, setup: &Setup) -> Result<Box<dyn SourceState>> {
        let shared = self.shared()?;
        shared.queue.lock().window = READ_AHEAD_CLUSTERS * setup.packets.max(1);
        Ok(Box::new(State {
            shared,
            decoding: None,
            reservation: setup.memory.reservation("Scan"),
            setup: setup.clone(),
        }))
    }
}

/// What the packets of one scan share.
struct Shared {
    /// Columns to output and columns that filters look at, by position in the table.
    fetched_columns: Vec<usize>,
    columns: Vec<usize>,
    filters: Vec<Arc<dyn RowFilter>>,
    /// What is left of the limit.
    rows_left: AtomicUsize,
    ordered: bool,
    io: Io,
    progress: Arc<ScanProgress>,
    queue: Mutex<Queue>,
}

struct Queue {
    /// Clusters in flight or ready at most.
    window: usize,
    /// Not asked for yet.
    clusters: VecDeque<(usize, Arc<dyn Cluster>)>,
    in_flight: usize,
    /// For ordered scans: the cluster that comes next.
    next_in_order: usize,
    ready: BTreeMap<usize, Ready>,
    /// Packets that wait for a cluster.
    waiting: Vec<Waker>,
}

struct Ready {
    cluster: Arc<dyn Cluster>,
    fetched: Result<Fetched>,
    reservation: Reservation,
}

enum Next {
    Cluster(Box<Ready>),
    Wait,
    End,
}

impl Shared {
    /// Starts fetches until the window is full. Fetches run outside the lock.
    fn read_ahead(self: &Arc<Self>, setup: &Setup) -> Result<()> {
        loop {
            let (index, cluster, reservation) = {
                let mut queue = self.queue.lock();
                if queue.in_flight + queue.ready.len() >= queue.window {
                    return Ok(());
                }
                let Some((_, cluster)) = queue.clusters.front() else { return Ok(()) };
                let mut reservation = setup.memory.reservation("Scan");
                if let Err(error) = reservation.grow(cluster.bytes(&self.fetched_columns)) {
                    // Reading ahead is a luxury; reading at all is not.
                    return if queue.in_flight + queue.ready.len() > 0 { Ok(()) } else { Err(error) };
                }
                let Some((index, cluster)) = queue.clusters.pop_front() else { return Ok(()) };
                queue.in_flight += 1;
                (index, cluster, reservation)
            };
            self.fetch(index, cluster, reservation);
        }
    }

    fn fetch(self: &Arc<Self>, index: usize, cluster: Arc<dyn Cluster>, reservation: Reservation) {
        let fetch = caught(&cluster, || Ok(cluster.fetch(&self.fetched_columns)));
        let own = self.clone();
        match fetch {
            Err(error) => own.arrived(index, Ready { cluster, fetched: Err(error), reservation }),
            Ok(Fetch::Ready(fetched)) => own.arrived(index, Ready { cluster, fetched: Ok(fetched), reservation }),
            Ok(Fetch::Blocking(read)) => self.io.pool.submit(Box::new(move || {
                let fetched = caught(&cluster, read);
                own.arrived(index, Ready { cluster, fetched, reservation });
            })),
            Ok(Fetch::Waiting(read)) if self.io.inline => {
                let fetched = self.io.runtime.block_on(read);
                own.arrived(index, Ready { cluster, fetched, reservation });
            }
            Ok(Fetch::Waiting(read)) => {
                self.io.runtime.spawn(async move {
                    let fetched = futures::FutureExt::catch_unwind(AssertUnwindSafe(read))
                        .await
                        .unwrap_or_else(|_| Err(Error::bug(format!("reading {} panicked", cluster.describe()))));
                    own.arrived(index, Ready { cluster, fetched, reservation });
                });
            }
        }
    }

    fn arrived(&self, index: usize, ready: Ready) {
        if let Ok(fetched) = &ready.fetched {
            self.progress.bytes.fetch_add(fetched.bytes, Ordering::Relaxed);
        }
        let waiting = {
            let mut queue = self.queue.lock();
            queue.in_flight -= 1;
            queue.ready.insert(index, ready);
            std::mem::take(&mut queue.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    fn next(&self, waker: &Waker) -> Next {
        let mut queue = self.queue.lock();
        let ready = if self.ordered {
            let next = queue.next_in_order;
            queue.ready.remove(&next)
        } else {
            queue.ready.pop_first().map(|(_, ready)| ready)
        };
        match ready {
            Some(ready) => {
                queue.next_in_order += 1;
                Next::Cluster(Box::new(ready))
            }
            None if queue.in_flight == 0 && queue.clusters.is_empty() => Next::End,
            None => {
                queue.waiting.push(waker.clone());
                Next::Wait
            }
        }
    }

    fn stop(&self) {
        let mut queue = self.queue.lock();
        queue.clusters.clear();
        queue.ready.clear();
    }
}

fn caught<T>(cluster: &Arc<dyn Cluster>, read: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(Error::bug(format!("reading {} panicked", cluster.describe()))))
}

/// One packet's view.
struct State {
    shared: Arc<Shared>,
    decoding: Option<Box<dyn Decode>>,
    /// The bytes of the cluster being decoded.
    reservation: Reservation,
    setup: Setup,
}

impl SourceState for State {
    fn pull(&mut self, waker: &Waker) -> Result<Pull> {
        let Some(decoder) = &mut self.decoding else { return self.open_cluster(waker) };
        let Some(chunk) = decoder.next()? else {
            self.decoding = None;
            self.reservation.resize(0)?;
            self.shared.progress.clusters_done.fetch_add(1, Ordering::Relaxed);
            return Ok(Pull::Again);
        };
        let batch = Batch::from(chunk);
        let wanted = batch.rows();
        let left = self
            .shared
            .rows_left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                Some(if left == usize::MAX { left } else { left.saturating_sub(wanted) })
            })
            .unwrap_or(0);
        if left == 0 {
            self.shared.stop();
            return Ok(Pull::Done);
        }
        Ok(Pull::Batch(if left < wanted { batch.slice(0, left) } else { batch }))
    }
}

impl State {
    fn open_cluster(&mut self, waker: &Waker) -> Result<Pull> {
        if self.shared.rows_left.load(Ordering::Relaxed) == 0 {
            return Ok(Pull::Done);
        }
        self.shared.read_ahead(&self.setup)?;
        match self.shared.next(waker) {
            Next::End => Ok(Pull::Done),
            Next::Wait => Ok(Pull::Wait),
            Next::Cluster(ready) => {
                let Ready { cluster, fetched, reservation } = *ready;
                // The next read starts while this cluster is decoded.
                self.shared.read_ahead(&self.setup)?;
                self.reservation.absorb(reservation);
                let request = DecodeRequest {
                    columns: self.shared.columns.clone(),
                    filters: self.shared.filters.clone(),
                    batch_rows: self.setup.batch_rows,
                    narrow: true,
                };
                self.decoding = Some(cluster.decode(fetched?, &request)?);
                Ok(Pull::Again)
            }
        }
    }
}
