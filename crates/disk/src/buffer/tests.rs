//! The buffer of clusters: what is found again, what goes first, whom a failure reaches, and what is counted.

use std::path::PathBuf;
use std::sync::mpsc;

use diligence_base::ErrorKind;
use diligence_base::ids::QueryId;
use diligence_base::seams::{CrashDisk, Disk, DiskFault, FaultyDisk, ManualClock, OpenMode, Random, ThreadSpawn};

use super::*;

const PATH: &str = "/file";
/// Bytes of a range.
const RANGE: usize = 1000;
const RANGES: usize = 100;

/// A file of a disk.
struct File(FaultyDisk);

impl BufferedFile for File {
    fn open(&self) -> Result<Arc<dyn DiskFile>> {
        self.0.open(&PathBuf::from(PATH), OpenMode::READ).map_err(|error| self.error(&error))
    }

    fn error(&self, error: &io::Error) -> Error {
        Error::file(format!("{PATH}: {error}"))
    }
}

fn content() -> Vec<u8> {
    let mut random = Random::new(1);
    (0..RANGE * RANGES).map(|_| random.below(256) as u8).collect()
}

fn disk(bytes: Vec<u8>) -> Arc<dyn Disk> {
    Arc::new(CrashDisk::holding([(PATH, bytes)]))
}

struct Stage {
    content: Vec<u8>,
    disk: FaultyDisk,
    broker: Arc<Broker>,
    clock: Arc<ManualClock>,
    threads: Arc<IoPool>,
    pool: Arc<BufferPool>,
    file: Arc<FileInBuffer>,
}

impl Stage {
    /// A buffer that may have the half of a budget of so many ranges, and so many threads.
    fn new(budget: usize, threads: usize, disk: FaultyDisk) -> Self {
        let broker = Broker::new(budget * RANGE);
        let clock = Arc::new(ManualClock::stepping(1));
        let threads = IoPool::start(threads, clock.clone(), Arc::new(ThreadSpawn)).unwrap();
        let pool = BufferPool::new(&broker, clock.clone(), threads.clone(), 50);
        let file = pool.add(Arc::new(File(disk.clone())));
        Self { content: content(), disk, broker, clock, threads, pool, file }
    }

    fn healthy(budget: usize, threads: usize) -> Self {
        Self::new(budget, threads, FaultyDisk::counting(disk(content())))
    }

    fn bytes_of(&self, range: usize) -> &[u8] {
        &self.content[range * RANGE..(range + 1) * RANGE]
    }

    fn wanted(&self, ranges: &[usize]) -> Vec<Wanted> {
        let wanted = ranges.iter().map(|&range| Wanted {
            offset: (range * RANGE) as u64,
            bytes: RANGE,
            checksum: crc32fast::hash(self.bytes_of(range)),
        });
        wanted.collect()
    }

    /// Asks for ranges of cluster 0.
    fn ask(&self, ranges: &[usize], hint: Hint) -> Asked {
        let (told, tells) = mpsc::channel();
        let gone = Arc::<Gone>::default();
        let done: Done = Box::new(move |read, counted| drop(told.send((read, counted))));
        self.file.read(0, &self.wanted(ranges), hint, gone.clone(), done);
        Asked { gone, tells, expected: ranges.iter().flat_map(|range| self.bytes_of(*range).to_vec()).collect() }
    }

    /// Has the one thread of its pool wait until the result is dropped.
    fn blocked(&self) -> mpsc::Sender<()> {
        let (sender, receiver) = mpsc::channel::<()>();
        self.threads.submit(Box::new(move || {
            let _ = receiver.recv();
        }));
        while self.threads.info().running == 0 {
            std::thread::yield_now();
        }
        sender
    }

    /// What is counted is what is there, and nothing is being read.
    fn check(&self) -> BufferInfo {
        let info = self.pool.info();
        assert_eq!(info.sum(|shard| shard.reading as u64), 0);
        assert_eq!(info.sum(|shard| shard.bytes as u64), self.pool.reclaimable_bytes() as u64);
        assert_eq!(info.sum(|shard| shard.bytes as u64), self.broker.reserved_bytes() as u64);
        assert_eq!(info.sum(|shard| shard.bytes as u64), info.sum(|shard| (shard.ranges * RANGE) as u64));
        info
    }
}

struct Asked {
    gone: Arc<Gone>,
    tells: mpsc::Receiver<(Result<Vec<Bytes>, Failure>, usize)>,
    expected: Vec<u8>,
}

impl Asked {
    fn told(&self) -> Result<usize, Failure> {
        let (read, counted) = self.tells.recv().unwrap();
        assert_eq!(read?.concat(), self.expected);
        assert!(self.tells.recv().is_err(), "told once");
        Ok(counted)
    }
}

fn is_cancelled(told: &Result<usize, Failure>) -> bool {
    matches!(told, Err(Failure::Read(error)) if error.kind() == ErrorKind::Cancelled)
}

#[test]
fn what_was_read_is_found_again_until_its_file_goes() {
    let stage = Stage::healthy(100, 0);
    let wanted = stage.wanted(&[3, 4, 7]);
    assert!(stage.file.find(0, &wanted, Hint::Keep).is_none());
    assert_eq!(stage.ask(&[3, 4, 7], Hint::Keep).told().unwrap(), 3 * RANGE);
    let operations = stage.disk.operations();
    let found = stage.file.find(0, &wanted, Hint::Keep).unwrap();
    assert_eq!(found.concat(), [stage.bytes_of(3), stage.bytes_of(4), stage.bytes_of(7)].concat());
    assert_eq!(stage.ask(&[4, 3], Hint::Keep).told().unwrap(), 2 * RANGE);
    assert_eq!(stage.file.read_here(0, &wanted, Hint::Keep).unwrap().concat(), found.concat());
    assert_eq!(stage.disk.operations(), operations, "nothing is read again");
    let info = stage.check();
    assert_eq!((info.sum(|shard| shard.hits_total), info.sum(|shard| shard.misses_total)), (8, 3));
    assert_eq!(info.sum(|shard| shard.pinned_bytes as u64), 3 * RANGE as u64);
    // They lie near to each other.
    assert_eq!((info.reads_total, info.read_bytes_total), (1, 3 * RANGE as u64));
    // The same range of another cluster is another one, and one of which the length is another too.
    assert!(stage.file.find(1, &wanted, Hint::Keep).is_none());
    drop(stage.file);
    assert_eq!(stage.pool.info().sum(|shard| shard.ranges as u64), 0);
    assert_eq!(stage.broker.reserved_bytes(), 3 * RANGE, "what is read stays counted");
    drop(found);
    assert_eq!(stage.broker.reserved_bytes(), 0);
}

#[test]
fn whoever_wants_what_is_being_read_waits_for_it() {
    let stage = Stage::healthy(100, 1);
    let blocked = stage.blocked();
    let asked = [stage.ask(&[1, 2], Hint::Keep), stage.ask(&[2, 3], Hint::Keep), stage.ask(&[2], Hint::Keep)];
    assert_eq!(stage.pool.info().sum(|shard| shard.reading as u64), 3);
    // One goes, the others get what they wanted all the same.
    asked[0].gone.set();
    drop(blocked);
    assert!(asked.iter().skip(1).all(|asked| asked.told().is_ok()));
    let first = asked[0].told();
    assert!(is_cancelled(&first), "nobody else wanted range 1: {first:?}");
    let info = stage.check();
    assert_eq!((info.sum(|shard| shard.misses_total), info.sum(|shard| shard.joins_total)), (3, 2));
    assert_eq!(info.sum(|shard| shard.ranges as u64), 2);
    stage.threads.stop();
}

#[test]
fn what_nobody_wants_any_more_is_not_read() {
    let stage = Stage::healthy(100, 1);
    let blocked = stage.blocked();
    let asked = [stage.ask(&[1, 2], Hint::Keep), stage.ask(&[2, 3], Hint::Keep)];
    asked.iter().for_each(|asked| asked.gone.set());
    drop(blocked);
    assert!(asked.iter().all(|asked| is_cancelled(&asked.told())));
    assert_eq!((stage.check().reads_total, stage.disk.operations()), (0, 0));
    assert!(stage.ask(&[1, 2, 3], Hint::Keep).told().is_ok());
    stage.threads.stop();
}

#[test]
fn a_thread_that_waits_reads_what_no_other_has_begun() {
    let stage = Stage::healthy(100, 1);
    let blocked = stage.blocked();
    let asked = stage.ask(&[1, 5], Hint::Keep);
    let read = stage.file.read_here(0, &stage.wanted(&[5, 9]), Hint::Keep).unwrap();
    assert_eq!(read.concat(), [stage.bytes_of(5), stage.bytes_of(9)].concat());
    drop(blocked);
    asked.told().unwrap();
    let info = stage.check();
    assert_eq!((info.sum(|shard| shard.misses_total), info.read_bytes_total), (3, 3 * RANGE as u64));
    stage.threads.stop();
}

#[test]
fn a_failure_reaches_all_who_wait_and_the_next_one_reads_again() {
    for fault in [DiskFault::Broken, DiskFault::Gone] {
        // Opening fails, or reading; what lies near to each other is tried alone then.
        for at in [0, 1] {
            let stage = Stage::new(100, 1, FaultyDisk::failing(disk(content()), fault, at));
            let blocked = stage.blocked();
            let asked = [stage.ask(&[1, 2], Hint::Keep), stage.ask(&[2], Hint::Keep), stage.ask(&[2, 40], Hint::Keep)];
            drop(blocked);
            let told = asked.each_ref().map(Asked::told);
            for told in &told {
                let is_fine = fault == DiskFault::Broken && at == 1;
                assert!(told.is_ok() == is_fine, "{fault:?} {at} {told:?}");
                assert!(is_fine || matches!(told, Err(Failure::Read(error)) if error.message().contains(PATH)));
            }
            stage.check();
            stage.disk.heal();
            stage.ask(&[1, 2, 40], Hint::Keep).told().unwrap();
            assert_eq!(stage.check().sum(|shard| shard.ranges as u64), 3);
            stage.threads.stop();
        }
    }
}

#[test]
fn other_bytes_than_were_written_are_an_error_of_their_range_alone() {
    for flipped in [0, RANGE / 2, RANGE - 1] {
        let mut bytes = content();
        bytes[4 * RANGE + flipped] ^= 16;
        let stage = Stage::new(100, 1, FaultyDisk::counting(disk(bytes)));
        let blocked = stage.blocked();
        let asked = [stage.ask(&[3, 4, 5], Hint::Keep), stage.ask(&[4], Hint::Keep), stage.ask(&[5], Hint::Keep)];
        drop(blocked);
        let told = asked.each_ref().map(Asked::told);
        assert!(matches!(&told, [Err(Failure::Checksum(1)), Err(Failure::Checksum(0)), Ok(_)]), "{told:?}");
        let again = stage.file.read_here(0, &stage.wanted(&[4]), Hint::Keep);
        assert!(matches!(again, Err(Failure::Checksum(0))));
        assert_eq!(stage.check().sum(|shard| shard.ranges as u64), 2);
        stage.threads.stop();
    }
}

#[test]
fn what_an_engine_that_stops_has_not_read_is_told_so() {
    let stage = Stage::healthy(100, 1);
    let blocked = stage.blocked();
    let asked = [stage.ask(&[1, 2], Hint::Keep), stage.ask(&[2, 3], Hint::Keep)];
    let stopping = stage.threads.clone();
    let stopping = std::thread::spawn(move || stopping.stop());
    while stage.threads.info().queued > 0 {
        std::thread::yield_now();
    }
    drop(blocked);
    stopping.join().unwrap();
    stage.pool.close();
    assert!(asked.iter().all(|asked| is_cancelled(&asked.told())));
    assert_eq!(stage.check().sum(|shard| shard.ranges as u64), 0);
}

#[test]
fn a_large_scan_does_not_flush_what_is_kept() {
    // The buffer has room for 8 ranges.
    let stage = Stage::healthy(16, 0);
    let hot = [0, 1, 2, 3, 4, 5];
    stage.ask(&hot, Hint::Keep).told().unwrap();
    let scan = Hint::Scan { bytes: 50 * RANGE };
    for _ in 0..3 {
        for range in 10..60 {
            stage.ask(&[range], scan).told().unwrap();
        }
    }
    let info = stage.check();
    assert!(stage.file.find(0, &stage.wanted(&hot), Hint::Keep).is_some());
    // Two of its ranges found room, and stayed there.
    assert!(stage.file.find(0, &stage.wanted(&[10, 11]), scan).is_some());
    assert_eq!((info.sum(|shard| shard.ranges as u64), info.sum(|shard| shard.evictions_total)), (8, 0));
    assert_eq!((info.sum(|shard| shard.hits_total), info.sum(|shard| shard.tosses_total)), (4, 3 * 48));
    // They go first when others are kept, unless somebody else wants them too.
    stage.ask(&[11], Hint::Keep).told().unwrap();
    stage.ask(&[70], Hint::Scan { bytes: RANGE }).told().unwrap();
    assert!(stage.file.find(0, &stage.wanted(&[10]), scan).is_none());
    assert!(stage.file.find(0, &stage.wanted(&[0, 1, 2, 3, 4, 5, 11, 70]), scan).is_some());
    // Then those that were not used for longest; what somebody reads stays.
    let pinned = stage.file.find(0, &stage.wanted(&[0]), scan).unwrap();
    for range in 80..95 {
        stage.ask(&[range], Hint::Keep).told().unwrap();
    }
    assert!(stage.file.find(0, &stage.wanted(&[0, 94]), scan).is_some());
    assert!(stage.file.find(0, &stage.wanted(&[70]), scan).is_none());
    assert_eq!(stage.check().sum(|shard| shard.ranges as u64), 8);
    drop(pinned);
}

#[test]
fn memory_goes_to_queries_before_they_spill_or_wait() {
    let stage = Stage::healthy(100, 0);
    stage.ask(&(0..40).collect::<Vec<_>>(), Hint::Keep).told().unwrap();
    assert_eq!(stage.check().sum(|shard| shard.bytes as u64), 40 * RANGE as u64);
    let query = stage.broker.account(QueryId(1), None);
    let mut sort = query.reservation("Sort");
    sort.grow(80 * RANGE).unwrap();
    assert!(stage.pool.reclaimable_bytes() <= 20 * RANGE);
    assert_eq!(stage.broker.reserved_bytes(), 80 * RANGE + stage.pool.reclaimable_bytes());
    // For some time nothing is kept; what is read is counted by whoever asked.
    assert_eq!(stage.ask(&[50, 51], Hint::Keep).told().unwrap(), 0);
    drop(sort);
    assert_eq!(stage.ask(&[50, 51], Hint::Keep).told().unwrap(), 0);
    stage.clock.advance(10 * COLUMNS_REST.as_nanos() as u64);
    assert_eq!(stage.ask(&[50, 51], Hint::Keep).told().unwrap(), 2 * RANGE);
    stage.check();
    // What is read goes too, so that nobody asks for it again and again; it stays counted.
    let pinned = stage.file.find(0, &stage.wanted(&[50]), Hint::Keep).unwrap();
    let mut sort = query.reservation("Sort");
    assert!(sort.grow(100 * RANGE).is_err());
    assert_eq!((stage.pool.reclaimable_bytes(), stage.broker.reserved_bytes()), (0, RANGE));
    drop(pinned);
    sort.grow(80 * RANGE).unwrap();
    drop(sort);
    stage.pool.set_percent(0);
    assert_eq!(stage.check().sum(|shard| shard.ranges as u64), 0);
    assert_eq!(stage.ask(&[50, 51], Hint::Keep).told().unwrap(), 0);
}

#[test]
fn reads_of_several_queries_are_in_the_order_of_the_file() {
    let stage = Stage::healthy(100, 0);
    let other = stage.pool.add(Arc::new(File(stage.disk.clone())));
    let job = |file: &Arc<FileInBuffer>, offset: u64, bytes: usize| {
        let wanted = Wanted { offset, bytes, checksum: 0 };
        Job { id: file.id(0, &wanted), wanted, is_kept: true, file: file.clone() }
    };
    let mut waiting = Waiting::default();
    let far = 10 << 20;
    waiting.add(vec![job(&other, 0, 10), job(&stage.file, far, 10), job(&stage.file, 500, 10)]);
    waiting.add(vec![job(&stage.file, 100, 400), job(&stage.file, 0, 100), job(&stage.file, 600, 70 << 10)]);
    let mut groups = Vec::new();
    loop {
        let group = waiting.take_group();
        if group.is_empty() {
            break;
        }
        if groups.len() == 1 {
            // It lies behind, so its turn comes when all others have had theirs.
            waiting.add(vec![job(&stage.file, 20, 10)]);
        }
        let runs = reads::runs(group).into_iter();
        let offsets = |run: Vec<Job>| run.iter().map(|job| (job.id.file, job.id.offset)).collect::<Vec<_>>();
        groups.push(runs.map(offsets).collect::<Vec<_>>());
    }
    let expected = [
        vec![vec![(0, 0), (0, 100), (0, 500), (0, 600)]],
        vec![vec![(0, far)]],
        vec![vec![(1, 0)]],
        vec![vec![(0, 20)]],
    ];
    assert_eq!(groups, expected);
}

#[test]
fn many_threads_find_what_was_written() {
    let stage = Stage::healthy(30, 2);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let stage = &stage;
            scope.spawn(move || {
                let mut random = Random::new(thread);
                for _ in 0..500 {
                    let first = random.below(RANGES - 4);
                    let ranges = (first..=first + random.below(4)).collect::<Vec<_>>();
                    let hint = if random.chance(50) { Hint::Keep } else { Hint::Scan { bytes: 100 * RANGE } };
                    match random.below(4) {
                        0 => {
                            let read = stage.file.read_here(0, &stage.wanted(&ranges), hint).unwrap();
                            assert_eq!(read.concat(), stage.content[first * RANGE..(first + ranges.len()) * RANGE]);
                        }
                        1 => {
                            let asked = stage.ask(&ranges, hint);
                            asked.gone.set();
                            let told = asked.told();
                            assert!(told.is_ok() || is_cancelled(&told));
                        }
                        _ => drop(stage.ask(&ranges, hint).told().unwrap()),
                    }
                }
            });
        }
    });
    assert!(stage.check().sum(|shard| shard.bytes as u64) <= 15 * RANGE as u64);
    stage.threads.stop();
}
