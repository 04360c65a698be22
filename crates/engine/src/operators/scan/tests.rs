//! Scans of clusters whose reads end when the test says so, under little memory.

use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::task::Wake;
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use datafusion_common::Statistics;
use diligence_base::ErrorKind;
use diligence_base::ids::{QueryId, TableIdentity, TableVersion};
use diligence_base::limits::READ_AHEAD_CLUSTERS;
use diligence_base::seams::{ManualClock, SystemClock, ThreadSpawn};
use diligence_memory::{Broker, QueryMemory};
use diligence_storage::{Chunk, Fetch, Fetched, FirstStep, SharedItem, Table, TableScan};
use futures::channel::oneshot;
use parking_lot::Mutex;
use proptest::prelude::*;

use super::*;

/// How a cluster's bytes come.
#[derive(Clone, Debug)]
enum Reading {
    /// On an I/O thread; counts the reads.
    Blocking(Arc<AtomicUsize>),
    /// When the other end says so.
    Waiting(Arc<Mutex<Vec<oneshot::Sender<()>>>>),
}

/// A cluster of one row, its number, and its place.
#[derive(Clone, Debug)]
struct TestCluster {
    number: i64,
    fetch_bytes: usize,
    decode_bytes: usize,
    /// Steps that give no chunk.
    empty_steps: usize,
    /// Reads that come one after the other where it is not fetched as a whole; if there are none, it cannot be.
    reads: usize,
    reading: Reading,
}

#[derive(Debug)]
struct TestTable(Vec<TestCluster>, TableIdentity);

impl TestTable {
    fn new(clusters: Vec<TestCluster>) -> Self {
        Self(clusters, TableIdentity::of_new(TableVersion(1)))
    }
}

impl Table for TestTable {
    fn schema(&self) -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("v", DataType::Int64, false)]))
    }

    fn identity(&self) -> TableIdentity {
        self.1
    }

    fn statistics(&self) -> Statistics {
        Statistics::new_unknown(&self.schema())
    }

    fn scan(&self, _request: &ScanRequest) -> Result<TableScan> {
        let clusters = self.0.iter().map(|cluster| Arc::new(cluster.clone()) as Arc<dyn Cluster>);
        Ok(TableScan { clusters: clusters.collect(), clusters_pruned: 0 })
    }

    fn describe(&self) -> String {
        "a table of a test".to_owned()
    }
}

impl Cluster for TestCluster {
    fn rows(&self) -> Option<usize> {
        Some(1)
    }

    fn bytes(&self, _columns: &[usize]) -> usize {
        self.fetch_bytes
    }

    fn fetch(&self, _columns: &[usize]) -> Fetch {
        self.read(self.fetch_bytes, InSteps(0))
    }

    fn fetch_in_steps(&self, _columns: &[usize], _step_bytes: usize) -> Option<FirstStep> {
        let first = || FirstStep { bytes: READ_BYTES, fetch: self.read(READ_BYTES, InSteps(self.reads)) };
        (self.reads > 0).then(first)
    }

    fn decode(&self, fetched: Fetched, request: &DecodeRequest) -> Result<Box<dyn Decode>> {
        let InSteps(reads) = *fetched.content.downcast().unwrap_or_else(|_| Box::new(InSteps(0)));
        Ok(Box::new(TestDecode { cluster: self.clone(), shared: request.shared.clone(), step: 0, reads, asked: false }))
    }

    fn describe(&self) -> String {
        format!("cluster {}", self.number)
    }

    fn place(&self) -> Option<u64> {
        Some(self.number as u64)
    }
}

/// Bytes of a read where a cluster is fetched in steps.
const READ_BYTES: usize = 20;

/// What is fetched: so many reads are missing.
struct InSteps(usize);

impl TestCluster {
    fn read(&self, bytes: usize, content: InSteps) -> Fetch {
        let fetched = Fetched { bytes, content: Box::new(content) };
        match self.reading.clone() {
            Reading::Blocking(reads) => Fetch::Blocking(Box::new(move || {
                reads.fetch_add(1, Ordering::Relaxed);
                Ok(fetched)
            })),
            Reading::Waiting(gates) => {
                let (open, opened) = oneshot::channel();
                gates.lock().push(open);
                Fetch::Waiting(Box::pin(async move {
                    let _ = opened.await;
                    Ok(fetched)
                }))
            }
        }
    }
}

struct TestDecode {
    cluster: TestCluster,
    shared: Option<Arc<dyn SharedColumns>>,
    step: usize,
    /// Reads that are missing, and whether one was asked for.
    reads: usize,
    asked: bool,
}

impl Decode for TestDecode {
    fn step(&mut self) -> Result<Decoded> {
        assert!(!self.asked, "a step without what it asked for");
        if self.reads > 0 {
            self.asked = true;
            return Ok(Decoded::Read(self.cluster.read(READ_BYTES, InSteps(0))));
        }
        self.step += 1;
        if self.step <= self.cluster.empty_steps {
            return Ok(Decoded::Again);
        }
        if self.step > self.cluster.empty_steps + 1 {
            return Ok(Decoded::Done);
        }
        let found = self.shared.as_ref().and_then(|shared| Some(shared.windows(SharedItem::Column(0))?[0].clone()));
        let column = found.unwrap_or_else(|| Arc::new(Int64Array::from(vec![self.cluster.number])));
        if let Some(shared) = &self.shared {
            shared.put(SharedItem::Column(0), &column);
            shared.complete(1);
        }
        Ok(Decoded::Chunk(Chunk { columns: vec![column], rows: 1 }))
    }

    fn bytes(&self) -> usize {
        self.cluster.decode_bytes + if self.asked { READ_BYTES } else { 0 }
    }

    fn bring(&mut self, read: Fetched) -> Result<()> {
        assert!(std::mem::take(&mut self.asked) && read.bytes == READ_BYTES);
        self.reads -= 1;
        Ok(())
    }
}

/// A packet of a scan as its queue would treat it: it waits until it is woken.
struct TestPacket {
    state: Option<Box<dyn SourceState>>,
    woken: Arc<Woken>,
    rows: Vec<i64>,
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl TestPacket {
    fn can_run(&self) -> bool {
        self.state.is_some() && self.woken.0.load(Ordering::Relaxed)
    }

    fn pull(&mut self) -> Result<()> {
        let Some(state) = &mut self.state else { return Ok(()) };
        self.woken.0.store(false, Ordering::Relaxed);
        match state.pull(&Waker::from(self.woken.clone()))? {
            Pull::Wait => return Ok(()),
            Pull::Again => {}
            Pull::Batch(batch) => {
                let array = batch.to_record_batch(&TestTable::new(vec![]).schema())?.column(0).clone();
                self.rows.extend_from_slice(array.as_primitive::<Int64Type>().values());
            }
            Pull::Done => self.state = None,
            Pull::NoMemory(error) => return Err(error),
        }
        self.woken.0.store(true, Ordering::Relaxed);
        Ok(())
    }
}

struct TestScan {
    memory: QueryMemory,
    packets: Vec<TestPacket>,
    runtime: tokio::runtime::Runtime,
}

/// What another scan of the same table has left: these clusters.
fn left_of(table: &Arc<dyn Table>, clusters: &[TestCluster], left: impl Iterator<Item = usize>) -> ScanSharing {
    let scans = Scans::new(&Broker::new(1 << 20), Arc::new(ManualClock::stepping(1)), 50);
    let clusters = clusters.iter().map(|cluster| Arc::new(cluster.clone()) as Arc<dyn Cluster>).collect::<Vec<_>>();
    let [_wants_it_as_well, scan] =
        [(); 2].map(|()| scans.attend(table, &clusters, &[0], [].iter(), BATCH_ROWS, true).unwrap());
    for index in left {
        let columns = scan.take(clusters[index].as_ref(), false).unwrap();
        assert!(columns.put(SharedItem::Column(0), &(Arc::new(Int64Array::from(vec![index as i64])) as ArrayRef)));
        columns.complete(1);
    }
    ScanSharing { scans, batch_rows: BATCH_ROWS }
}

const BATCH_ROWS: usize = 100;

impl TestScan {
    fn new(clusters: Vec<TestCluster>, packets: usize, ordered: bool, limit_bytes: usize, io_threads: usize) -> Self {
        Self::of(Arc::new(TestTable::new(clusters)), packets, ordered, limit_bytes, io_threads, None)
    }

    fn of(
        table: Arc<dyn Table>,
        packets: usize,
        ordered: bool,
        limit_bytes: usize,
        io_threads: usize,
        sharing: Option<ScanSharing>,
    ) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let pool = IoPool::start(io_threads, Arc::new(SystemClock::default()), Arc::new(ThreadSpawn)).unwrap();
        let io = Io { pool, runtime: runtime.handle().clone(), inline: false, knobs: Arc::new(Knobs::new(2)) };
        let scan = Scan::new(table.as_ref(), "t", vec![0]);
        let source = ScanSource::new((scan, table), vec![], None, ordered, io, Arc::default(), sharing);
        let memory = Broker::new(usize::MAX).account(QueryId(1), Some(limit_bytes));
        let context = QueryContext { memory: memory.clone(), temp: None, batch_rows: BATCH_ROWS, packets };
        let packets = (0..packets).map(|_| TestPacket {
            state: Some(source.open(&context).unwrap()),
            woken: Arc::new(Woken(AtomicBool::new(true))),
            rows: vec![],
        });
        Self { memory, packets: packets.collect(), runtime }
    }

    /// Runs requests as far as they get.
    fn serve(&self) {
        for _ in 0..20 {
            self.runtime.block_on(tokio::task::yield_now());
        }
    }

    /// Pulls in turn until all are done.
    fn run(&mut self) -> Result<Vec<i64>> {
        while self.packets.iter().any(|packet| packet.state.is_some()) {
            assert!(self.packets.iter().any(TestPacket::can_run), "all packets wait for nothing");
            for packet in self.packets.iter_mut().filter(|packet| packet.can_run()) {
                packet.pull()?;
            }
        }
        let mut rows = self.packets.iter().flat_map(|packet| packet.rows.clone()).collect::<Vec<_>>();
        rows.sort_unstable();
        Ok(rows)
    }
}

fn blocking(number: i64, bytes: usize, decode_bytes: usize) -> TestCluster {
    TestCluster {
        number,
        fetch_bytes: bytes,
        decode_bytes,
        empty_steps: 0,
        reads: 0,
        reading: Reading::Blocking(Arc::default()),
    }
}

#[test]
fn a_pull_ends_where_filters_drop_everything() {
    let cluster = TestCluster { empty_steps: 500, ..blocking(7, 10, 0) };
    let mut scan = TestScan::new(vec![cluster], 1, false, 100, 0);
    let mut pulls = 0;
    while scan.packets[0].state.is_some() {
        scan.packets[0].pull().unwrap();
        pulls += 1;
    }
    assert_eq!(scan.packets[0].rows, [7]);
    assert!(pulls > 500, "{pulls}");
}

#[test]
fn a_scan_has_room_where_one_cluster_has() {
    for packets in 1..4 {
        let clusters = (0..5).map(|number| blocking(number, 50, 0)).collect();
        let mut scan = TestScan::new(clusters, packets, false, 64, 0);
        assert_eq!(scan.run().unwrap(), [0, 1, 2, 3, 4]);
        assert_eq!(scan.memory.reserved_bytes(), 0);
    }
}

#[test]
fn what_decoding_needs_is_reserved_and_goes_before_reading_ahead() {
    for packets in 1..4 {
        let clusters = || (0..5).map(|number| blocking(number, 50, 40)).collect();
        let mut scan = TestScan::new(clusters(), packets, false, 100, 0);
        assert_eq!(scan.run().unwrap(), [0, 1, 2, 3, 4]);
        assert!(scan.memory.peak_bytes() >= 90);
        let error = TestScan::new(clusters(), packets, false, 70, 0).run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Resource);
    }
}

#[test]
fn what_is_large_for_the_memory_is_read_in_steps() {
    for (packets, ordered) in [(1, false), (1, true), (3, false)] {
        // As a whole each would fit, but leave others nothing.
        let clusters = (0..5).map(|number| TestCluster { reads: 4, ..blocking(number, 500, 30) }).collect::<Vec<_>>();
        let reads = match &clusters[0].reading {
            Reading::Blocking(reads) => reads.clone(),
            Reading::Waiting(_) => panic!("these block"),
        };
        let mut scan = TestScan::new(clusters, packets, ordered, 1000, 0);
        assert_eq!(scan.run().unwrap(), [0, 1, 2, 3, 4]);
        assert_eq!(reads.load(Ordering::Relaxed), 5, "the first read and four more");
        assert!(scan.memory.peak_bytes() < 500, "{}", scan.memory.peak_bytes());
        assert_eq!(scan.memory.reserved_bytes(), 0);
    }
}

#[test]
fn a_scan_that_ends_in_the_middle_of_a_step_gives_its_memory_back_when_the_read_is_done() {
    let gates = Arc::new(Mutex::new(Vec::new()));
    let cluster = TestCluster { reads: 2, reading: Reading::Waiting(gates.clone()), ..blocking(7, 500, 30) };
    let mut scan = TestScan::new(vec![cluster], 1, false, 1000, 0);
    scan.packets[0].pull().unwrap();
    for _ in 0..2 {
        scan.serve();
        gates.lock().drain(..).for_each(|gate| assert!(gate.send(()).is_ok()));
        scan.serve();
        while scan.packets[0].can_run() && gates.lock().is_empty() {
            scan.packets[0].pull().unwrap();
        }
    }
    // The packet waits for its second step.
    scan.packets[0].state = None;
    assert_eq!(scan.memory.reserved_bytes(), READ_BYTES);
    gates.lock().drain(..).for_each(|gate| assert!(gate.send(()).is_ok()));
    scan.serve();
    assert_eq!(scan.memory.reserved_bytes(), 0);
}

#[test]
fn reads_that_have_not_begun_end_with_the_last_packet() {
    let (unblock, blocked) = mpsc::channel::<()>();
    let clusters = (0..3).map(|number| blocking(number, 50, 0)).collect::<Vec<_>>();
    let reads = clusters.iter().map(|cluster| match &cluster.reading {
        Reading::Blocking(reads) => reads.clone(),
        Reading::Waiting(_) => panic!("these block"),
    });
    let reads = reads.collect::<Vec<_>>();
    let mut scan = TestScan::new(vec![], 1, false, 1000, 0);
    let pool = IoPool::start(1, Arc::new(SystemClock::default()), Arc::new(ThreadSpawn)).unwrap();
    let io = Io {
        pool: pool.clone(),
        runtime: scan.runtime.handle().clone(),
        inline: false,
        knobs: Arc::new(Knobs::new(2)),
    };
    // The only I/O thread is busy.
    pool.submit(Box::new(move || blocked.recv().unwrap()));
    let read_ahead = ReadAhead::new(
        clusters.into_iter().map(|cluster| Arc::new(cluster) as Arc<dyn Cluster>).collect(),
        None,
        vec![0],
        false,
        io,
        Arc::default(),
        None,
    );
    read_ahead.join(1);
    read_ahead.order(&scan.memory).unwrap();
    assert_eq!(scan.memory.reserved_bytes(), 100);
    read_ahead.leave();
    assert_eq!(scan.memory.reserved_bytes(), 0);
    unblock.send(()).unwrap();
    // What was submitted before this has run when this has.
    let (done, is_done) = mpsc::channel();
    pool.submit(Box::new(move || done.send(()).unwrap()));
    is_done.recv_timeout(Duration::from_secs(60)).unwrap();
    assert!(reads.iter().all(|reads| reads.load(Ordering::Relaxed) == 0));
    pool.stop();
    assert_eq!(scan.run().unwrap(), [] as [i64; 0]);
}

#[test]
fn requests_under_way_are_broken_off_with_the_last_packet() {
    let gates = Arc::default();
    let cluster = TestCluster { reading: Reading::Waiting(Arc::clone(&gates)), ..blocking(0, 50, 0) };
    let mut scan = TestScan::new(vec![cluster], 1, false, 1000, 0);
    scan.packets[0].pull().unwrap();
    scan.serve();
    assert!(!gates.lock()[0].is_canceled());
    assert_eq!(scan.memory.reserved_bytes(), 50);
    scan.packets[0].state = None;
    scan.serve();
    assert!(gates.lock()[0].is_canceled());
    assert_eq!(scan.memory.reserved_bytes(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn every_cluster_is_decoded_once_in_whatever_order_things_happen(
        sizes in prop::collection::vec((0usize..50, 0usize..50, 0usize..3), 1..25),
        packets in 1usize..4,
        ordered in any::<bool>(),
        spare_bytes in 0usize..120,
        left in prop::option::of(prop::collection::vec(any::<bool>(), 25)),
        turns in prop::collection::vec(any::<u8>(), 1..60),
    ) {
        let packets = if ordered { 1 } else { packets };
        let gates: Arc<Mutex<Vec<oneshot::Sender<()>>>> = Arc::default();
        let clusters = sizes.iter().enumerate().map(|(number, &(bytes, decode_bytes, empty_steps))| TestCluster {
            number: number as i64,
            fetch_bytes: bytes,
            decode_bytes,
            empty_steps,
            reads: 0,
            reading: Reading::Waiting(gates.clone()),
        });
        // Any cluster alone has room.
        let limit = sizes.iter().map(|size| size.0 + size.1).max().unwrap() + spare_bytes;
        let clusters = clusters.collect::<Vec<_>>();
        let table: Arc<dyn Table> = Arc::new(TestTable::new(clusters.clone()));
        let sharing = left.map(|left| left_of(&table, &clusters, (0..clusters.len()).filter(|index| left[*index])));
        let mut scan = TestScan::of(table, packets, ordered, limit, 0, sharing.clone());
        let mut idle = 0;
        for turn in turns.into_iter().cycle() {
            if scan.packets.iter().all(|packet| packet.state.is_none()) {
                break;
            }
            let choice = turn as usize % (packets + 1);
            if let Some(ScanSharing { scans, .. }) = sharing.as_ref().filter(|_| turn == u8::MAX) {
                // What was left goes.
                scans.set_percent(0);
                scans.set_percent(50);
            }
            match scan.packets.get_mut(choice) {
                Some(packet) if packet.can_run() => {
                    packet.pull().unwrap();
                    idle = 0;
                }
                Some(_) => idle += 1,
                None => {
                    // One read ends.
                    let gate = {
                        let mut gates = gates.lock();
                        let count = gates.len();
                        (count > 0).then(|| gates.swap_remove(turn as usize / (packets + 1) % count))
                    };
                    let ended = gate.is_some_and(|gate| gate.send(()).is_ok());
                    scan.serve();
                    idle = if ended { 0 } else { idle + 1 };
                }
            }
            if idle > 200 {
                // The turns that repeat may be only some packets'; nothing else may be possible, though.
                let can_run = scan.packets.iter().any(TestPacket::can_run);
                prop_assert!(can_run || !gates.lock().is_empty(), "all packets wait for nothing");
                for packet in scan.packets.iter_mut().filter(|packet| packet.can_run()) {
                    packet.pull().unwrap();
                }
                for gate in std::mem::take(&mut *gates.lock()) {
                    let _ = gate.send(());
                }
                scan.serve();
            }
        }
        let mut rows = scan.packets.iter().flat_map(|packet| packet.rows.clone()).collect::<Vec<_>>();
        if !ordered {
            rows.sort_unstable();
        }
        prop_assert_eq!(rows, (0..sizes.len() as i64).collect::<Vec<_>>());
        drop(scan.packets);
        prop_assert_eq!(scan.memory.reserved_bytes(), 0);
    }
}

#[test]
fn what_others_have_left_is_taken_before_anything_is_read() {
    let gates: Arc<Mutex<Vec<oneshot::Sender<()>>>> = Arc::default();
    let clusters =
        (0..6).map(|number| TestCluster { reading: Reading::Waiting(gates.clone()), ..blocking(number, 10, 0) });
    let clusters = clusters.collect::<Vec<_>>();
    let table: Arc<dyn Table> = Arc::new(TestTable::new(clusters.clone()));
    let sharing = left_of(&table, &clusters, [1, 4, 5].into_iter());
    let mut scan = TestScan::of(table, 1, false, 100, 0, Some(sharing));
    while scan.packets[0].rows.len() < 2 {
        assert!(gates.lock().is_empty());
        scan.packets[0].pull().unwrap();
    }
    while scan.packets[0].can_run() {
        scan.packets[0].pull().unwrap();
    }
    assert_eq!(scan.packets[0].rows, [5, 4, 1], "what was read last comes first");
    assert_eq!(gates.lock().len(), READ_AHEAD_CLUSTERS, "others are read beside the last of them");
}
