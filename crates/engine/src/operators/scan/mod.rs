//! Reads a table: the source of most pipelines.
//!
//! I/O and decoding are separate: the scan keeps a few clusters in flight on the I/O stage and hands fetched ones to
//! the packets that pull (`read_ahead`); only decoding happens in a packet. So a slow disk or object store never holds
//! a worker. What other scans have decoded of the same clusters is neither fetched nor decoded again ([`Scans`]).
//!
//! Invariants:
//! * What is fetched is reserved before it is read, and what decoding needs before it begins.
//! * A pull decodes about a batch of rows, even where filters drop all of them.

mod promises;
mod read_ahead;
#[cfg(test)]
mod tests;

use crate::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use arrow::datatypes::SchemaRef;
use datafusion_expr::Operator as ExprOperator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{BinaryExpr, Column as ColumnExpr, Literal, in_list};
use datafusion_physical_expr::utils::conjunction;
use diligence_base::{Error, ErrorKind, Result};
use diligence_disk::IoPool;
use diligence_memory::Reservation;
use diligence_storage::{Cluster, Decode, DecodeRequest, Decoded, Fetch, RowFilter, ScanRequest, SharedColumns, Table};

use self::promises::Promises;
use self::read_ahead::{Next, ReadAhead, Ready, Step};
use crate::batch::Batch;
use crate::expressions::PredicateFilter;
use crate::flow::{Pull, QueryContext, Source, SourceState};
use crate::knobs::Knobs;
use crate::operators::runtime_filter::RuntimeFilter;
use crate::operators::sort::BoundedColumn;
use crate::plan::Scan;
use crate::reuse::columns::Scans;

/// Where a scan's I/O happens.
#[derive(Clone)]
pub struct Io {
    /// Threads that block for local files.
    pub pool: Arc<IoPool>,
    /// Drives requests to object stores.
    pub runtime: tokio::runtime::Handle,
    /// True if everything happens on the calling thread (the inline executor).
    pub inline: bool,
    /// How far scans read ahead.
    pub knobs: Arc<Knobs>,
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
    /// Columns of clusters that were there already, because other scans had decoded them.
    pub columns_shared: AtomicUsize,
    /// Conditions of which it was known of all rows of a cluster whether they are true, because other scans had asked.
    pub answers_shared: AtomicUsize,
    /// What was not read of files for that.
    pub bytes_shared: AtomicUsize,
    /// The most scans of the table that ran when this one came to a cluster, itself among them; 0 if it does not share.
    pub scans_most: AtomicUsize,
    /// Clusters that it read when another scan that still ran had just read them.
    pub cohort_reads: AtomicUsize,
    /// The most scans that read one of those one after the other, itself as the last; 0 if none did.
    pub cohort_scans_most: AtomicUsize,
    /// Bytes fetched.
    pub bytes: AtomicUsize,
}

/// What other scans have decoded, and may want.
#[derive(Clone)]
pub(crate) struct ScanSharing {
    /// Where it is.
    pub scans: Arc<Scans>,
    /// Rows in a batch at most.
    pub batch_rows: usize,
}

/// A scan as planned, with the join filters of this run.
pub struct ScanSource {
    scan: Scan,
    table: Arc<dyn Table>,
    runtime_filters: Vec<(Arc<RuntimeFilter>, usize)>,
    /// Which rows may be among the first that are wanted, by a column of the table.
    bounded: Option<BoundedColumn>,
    ordered: bool,
    io: Io,
    progress: Arc<ScanProgress>,
    sharing: Option<ScanSharing>,
    shared: OnceLock<Result<Arc<SharedScan>>>,
}

impl ScanSource {
    /// A scan of a table, whose clusters come in file order if `ordered`. What is read is decided when the pipeline
    /// starts, because the join filters are known only then.
    pub(crate) fn new(
        (scan, table): (Scan, Arc<dyn Table>),
        runtime_filters: Vec<(Arc<RuntimeFilter>, usize)>,
        bounded: Option<BoundedColumn>,
        ordered: bool,
        io: Io,
        progress: Arc<ScanProgress>,
        sharing: Option<ScanSharing>,
    ) -> Arc<Self> {
        Arc::new(Self {
            scan,
            table,
            runtime_filters,
            bounded,
            ordered,
            io,
            progress,
            sharing,
            shared: OnceLock::new(),
        })
    }

    fn shared(&self) -> Result<Arc<SharedScan>> {
        self.shared.get_or_init(|| self.start().map(Arc::new)).clone()
    }

    fn start(&self) -> Result<SharedScan> {
        let nothing = self.runtime_filters.iter().any(|(filter, _)| filter.is_empty_build()) || self.is_never_true()?;
        let mut clusters = if nothing {
            Vec::new()
        } else {
            let predicate = self.pruning_predicate();
            let request = ScanRequest { columns: self.scan.columns.clone(), predicate };
            let is_whole = self.scan.filters.is_empty() && self.runtime_filters.is_empty() && self.bounded.is_none();
            let limit = self.scan.limit.filter(|_| is_whole);
            let planned = match limit.and_then(|rows| self.table.at_most(rows)) {
                Some(table) => table.scan(&request)?,
                None => self.table.scan(&request)?,
            };
            self.progress.clusters_pruned.fetch_add(planned.clusters_pruned, Ordering::Relaxed);
            planned.clusters
        };
        self.progress.clusters_total.fetch_add(clusters.len(), Ordering::Relaxed);
        let promises = match &self.bounded {
            Some(bounded) if !self.ordered => Promises::sorted(&bounded.bound, bounded.column, &mut clusters)?,
            _ => None,
        };
        let schema = self.scan.table_schema.clone();
        let conditions = PredicateFilter::all_of(&self.scan.filters, &schema)?;
        let join_filters = self.runtime_filters.iter().map(|(filter, column)| filter.row_filter(*column));
        let join_filters = join_filters.collect::<Vec<_>>();
        let mut fetched_columns = self.scan.columns.clone();
        fetched_columns.extend(conditions.iter().flat_map(|filter| filter.columns().iter().copied()));
        fetched_columns.extend(join_filters.iter().flat_map(|filter| filter.columns().iter().copied()));
        fetched_columns.sort_unstable();
        fetched_columns.dedup();
        let attendance = self.sharing.as_ref().and_then(|sharing| {
            // Whoever leaves early decodes no more than he needs.
            let leaves = self.scan.limit.is_none();
            let conditions = conditions.iter().map(PredicateFilter::condition);
            let (table, columns, rows) = (&self.table, &fetched_columns, sharing.batch_rows);
            sharing.scans.attend(table, &clusters, columns, conditions, rows, leaves)
        });
        let answers = attendance.iter().flat_map(|attendance| attendance.answers()).chain(std::iter::repeat(None));
        let conditions = conditions.into_iter().zip(answers).map(|(filter, answer)| filter.with_answer(answer));
        let conditions = conditions.map(|filter| Arc::new(filter) as Arc<dyn RowFilter>);
        let bound = self.bounded.iter().map(|BoundedColumn { bound, column, arrives }| {
            // A value that is known without decoding is asked once for all rows.
            let counts = *arrives && clusters.iter().all(|cluster| cluster.holds(*column));
            bound.row_filter(*column, counts)
        });
        let bound = bound.collect::<Vec<_>>();
        let filters = conditions.chain(join_filters).chain(bound).collect();
        let (io, progress) = (self.io.clone(), self.progress.clone());
        Ok(SharedScan {
            filters,
            columns: self.scan.columns.clone(),
            rows_left: AtomicUsize::new(self.scan.limit.unwrap_or(usize::MAX)),
            progress: self.progress.clone(),
            read_ahead: ReadAhead::new(clusters, promises, fetched_columns, self.ordered, io, progress, attendance),
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
        let schema = self.scan.table_schema.clone();
        let mut conditions: Vec<Arc<dyn PhysicalExpr>> =
            self.scan.filters.iter().map(|filter| filter.physical().clone()).collect();
        for (filter, column) in &self.runtime_filters {
            let Some((low, high)) = filter.bounds() else { continue };
            for (operator, bound) in [(ExprOperator::GtEq, low), (ExprOperator::LtEq, high)] {
                let column = Arc::new(ColumnExpr::new(schema.field(*column).name(), *column));
                conditions.push(Arc::new(BinaryExpr::new(column, operator, Arc::new(Literal::new(bound)))));
            }
            // Where an index has the column, few keys are looked up in it.
            conditions.extend(self.one_of(filter, *column, &schema));
        }
        (!conditions.is_empty()).then(|| conjunction(conditions))
    }
}

impl ScanSource {
    /// That a column has one of the keys of a join, if these are few and an index finds them.
    fn one_of(&self, filter: &RuntimeFilter, column: usize, schema: &SchemaRef) -> Option<Arc<dyn PhysicalExpr>> {
        let table = &self.table;
        let own: Arc<dyn PhysicalExpr> = Arc::new(ColumnExpr::new(schema.field(column).name(), column));
        let (first, _) = filter.bounds()?;
        let first: Arc<dyn PhysicalExpr> = Arc::new(Literal::new(first));
        // One key tells whether there is an index at all.
        table.access(&(Arc::new(BinaryExpr::new(own.clone(), ExprOperator::Eq, first)) as Arc<dyn PhysicalExpr>))?;
        let keys = filter.few_keys()?.into_iter().map(|key| Arc::new(Literal::new(key)) as Arc<dyn PhysicalExpr>);
        in_list(own, keys.collect(), &false, schema).ok()
    }
}

impl Source for ScanSource {
    fn name(&self) -> &'static str {
        "Scan"
    }

    fn packets_max(&self) -> usize {
        match self.shared() {
            Ok(shared) => shared.read_ahead.clusters(),
            // Opening reports the error.
            Err(_) => 1,
        }
    }

    fn held_back(&self) -> usize {
        match self.shared.get() {
            Some(Ok(shared)) => shared.read_ahead.held_back(),
            _ => 0,
        }
    }

    fn open(&self, context: &QueryContext) -> Result<Box<dyn SourceState>> {
        let shared = self.shared()?;
        shared.read_ahead.join(context.packets);
        Ok(Box::new(ScanState { shared, held: None, context: context.clone() }))
    }
}

/// What the packets of one scan share.
struct SharedScan {
    columns: Vec<usize>,
    filters: Vec<Arc<dyn RowFilter>>,
    /// What is left of the limit.
    rows_left: AtomicUsize,
    progress: Arc<ScanProgress>,
    read_ahead: Arc<ReadAhead>,
}

/// One packet's view.
struct ScanState {
    shared: Arc<SharedScan>,
    held: Option<HeldCluster>,
    context: QueryContext,
}

/// A cluster that this packet decodes.
struct HeldCluster {
    index: usize,
    cluster: Arc<dyn Cluster>,
    decoder: Option<Box<dyn Decode>>,
    /// Whether what decoding needs is reserved.
    is_admitted: bool,
    /// What is read before the next step.
    reading: Option<ScanReading>,
    /// Bytes that decoding needs beyond those fetched, as far as they are reserved.
    decode_bytes: usize,
    /// The bytes fetched and what decoding needs.
    reservation: Reservation,
}

/// A read that a decoder asked for.
enum ScanReading {
    Wanted(Fetch),
    Begun(Arc<Step>),
}

impl SourceState for ScanState {
    fn place(&self) -> Option<usize> {
        // One that is not admitted may be put back.
        self.held.as_ref().filter(|held| held.is_admitted).map(|held| held.index)
    }

    fn pull(&mut self, waker: &Waker) -> Result<Pull> {
        if self.shared.rows_left.load(Ordering::Relaxed) == 0 {
            self.shared.read_ahead.stop();
            return Ok(Pull::Done);
        }
        let decoder = match &mut self.held {
            Some(HeldCluster { reading: Some(_), .. }) => return self.read_on(waker),
            Some(HeldCluster { decoder: Some(decoder), is_admitted: true, .. }) => decoder,
            Some(_) => return self.admit(waker),
            None => return self.take_cluster(waker),
        };
        let chunk = match decoder.step()? {
            Decoded::Chunk(chunk) => chunk,
            Decoded::Again => return Ok(Pull::Again),
            Decoded::Read(fetch) => {
                if let Some(held) = &mut self.held {
                    held.reading = Some(ScanReading::Wanted(fetch));
                }
                return self.read_on(waker);
            }
            Decoded::Done => {
                self.let_go();
                self.shared.progress.clusters_done.fetch_add(1, Ordering::Relaxed);
                return Ok(Pull::Again);
            }
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
            self.shared.read_ahead.stop();
            return Ok(Pull::Done);
        }
        Ok(Pull::Batch(if left < wanted { batch.slice(0, left) } else { batch }))
    }
}

impl ScanState {
    fn take_cluster(&mut self, waker: &Waker) -> Result<Pull> {
        match self.shared.read_ahead.order(&self.context.memory) {
            Err(error) if error.kind() == ErrorKind::Resource => return Ok(Pull::NoMemory(error)),
            ordered => ordered?,
        }
        let Ready { index, cluster, columns, fetched, reservation } =
            match self.shared.read_ahead.next(&self.context.memory, waker) {
                Next::End => return Ok(Pull::Done),
                Next::Wait => return Ok(Pull::Wait),
                Next::Again => return Ok(Pull::Again),
                Next::Cluster(ready) => *ready,
            };
        if self.shared.read_ahead.is_hopeless(index) {
            drop((columns, fetched, reservation));
            self.shared.read_ahead.left_out(1);
            self.shared.read_ahead.released(index, false);
            return Ok(Pull::Again);
        }
        // From here on it is given back, whatever happens.
        let held = HeldCluster {
            index,
            cluster,
            decoder: None,
            is_admitted: false,
            reading: None,
            decode_bytes: 0,
            reservation,
        };
        let held = self.held.insert(held);
        let request = DecodeRequest {
            columns: self.shared.columns.clone(),
            filters: self.shared.filters.clone(),
            batch_rows: self.context.batch_rows,
            narrow: true,
            shared: columns.map(|columns| columns as Arc<dyn SharedColumns>),
            deleted: None,
        };
        held.decoder = Some(held.cluster.decode(fetched?, &request)?);
        self.admit(waker)
    }

    /// Reserves what decoding needs. Only then more is read ahead.
    fn admit(&mut self, waker: &Waker) -> Result<Pull> {
        let Some(held) = &mut self.held else {
            return Err(Error::bug("a scan admits a cluster that it does not hold"));
        };
        let bytes = held.decoder.as_ref().map_or(0, |decoder| decoder.bytes());
        held.is_admitted = match self.shared.read_ahead.make_room(&self.context.memory, &mut held.reservation, bytes) {
            // The cluster stays.
            Err(error) if error.kind() == ErrorKind::Resource => return Ok(Pull::NoMemory(error)),
            is_admitted => is_admitted?,
        };
        held.decode_bytes = bytes;
        if !held.is_admitted {
            if let Some(HeldCluster { index, cluster, decoder, reservation, .. }) = self.held.take() {
                drop((decoder, reservation));
                self.shared.read_ahead.put_back(index, cluster, waker);
            }
            return Ok(Pull::Wait);
        }
        // The next read starts while this cluster is decoded.
        self.shared.read_ahead.order(&self.context.memory)?;
        Ok(Pull::Again)
    }

    /// Goes on with what the decoder has asked for: reads it, and brings it when it is there.
    fn read_on(&mut self, waker: &Waker) -> Result<Pull> {
        let Some(held) = &mut self.held else { return Err(Error::bug("a scan reads a cluster that it does not hold")) };
        let Some(decoder) = &mut held.decoder else { return Err(Error::bug("a scan reads for no decoder")) };
        let read_ahead = &self.shared.read_ahead;
        match held.reading.take() {
            None => Ok(Pull::Again),
            Some(ScanReading::Wanted(fetch)) => {
                let bytes = decoder.bytes();
                let more = bytes.saturating_sub(held.decode_bytes);
                if let Err(error) = read_ahead.make_room_for_step(&mut held.reservation, more) {
                    held.reading = Some(ScanReading::Wanted(fetch));
                    return Ok(Pull::NoMemory(error));
                }
                // What is read is counted until it has arrived, also if the scan ends before that.
                let part = held.reservation.split(more);
                held.decode_bytes = bytes.max(held.decode_bytes);
                held.reading = Some(ScanReading::Begun(read_ahead.read_step(&held.cluster, fetch, part, waker)));
                self.read_on(waker)
            }
            Some(ScanReading::Begun(step)) => {
                let Some((read, part)) = step.take(waker) else {
                    held.reading = Some(ScanReading::Begun(step));
                    return Ok(Pull::Wait);
                };
                held.reservation.absorb(part);
                decoder.bring(read?)?;
                let bytes = decoder.bytes();
                match bytes.checked_sub(held.decode_bytes) {
                    None => held.reservation.shrink(held.decode_bytes - bytes),
                    Some(0) => {}
                    // The pages that came are longer than those before.
                    Some(more) => read_ahead.make_room_for_step(&mut held.reservation, more)?,
                }
                held.decode_bytes = bytes;
                Ok(Pull::Again)
            }
        }
    }

    /// Drops the cluster, if there is one.
    fn let_go(&mut self) {
        if let Some(held) = self.held.take() {
            let (index, was_decoding) = (held.index, held.is_admitted);
            drop(held);
            self.shared.read_ahead.released(index, was_decoding);
        }
    }
}

impl Drop for ScanState {
    fn drop(&mut self) {
        self.let_go();
        self.shared.read_ahead.leave();
    }
}
