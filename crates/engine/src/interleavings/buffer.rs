//! The buffer of clusters: several who want the same ranges, of whom some go; reads that fail; memory that is taken
//! back meanwhile. Everybody is told once, and nothing stays being read.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use diligence_base::ids::QueryId;
use diligence_base::seams::{DiskFile, ManualClock};
use diligence_base::sync::{Condvar, Mutex};
use diligence_base::{Error, ErrorKind, Result};
use diligence_disk::{BufferPool, BufferedFile, Done, Failure, FileInBuffer, Gone, Hint, IoPool, Wanted};
use diligence_memory::Broker;
use diligence_storage::{BufferedFetch, Fetch, FetchDone, Fetched};
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;

use super::scans::{ROWS, ended, scan_of};
use super::{DrivenSpawn, interleave};
use crate::query::QueryState;
use crate::query::tests::read;

/// Bytes of a range. Each has the number of its place in the file.
const RANGE: usize = 100;

/// A file whose read of a number fails.
#[derive(Debug, Default)]
struct Numbers {
    reads: Arc<AtomicUsize>,
    failing: Option<usize>,
}

impl DiskFile for Numbers {
    fn bytes(&self) -> io::Result<u64> {
        Ok(1 << 20)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        thread::yield_now();
        if self.failing == Some(self.reads.fetch_add(1, Ordering::Relaxed)) {
            return Err(io::ErrorKind::Other.into());
        }
        buffer.iter_mut().zip(offset..).for_each(|(byte, at)| *byte = (at / RANGE as u64) as u8);
        Ok(buffer.len())
    }

    fn write_at(&self, _: &[io::IoSlice<'_>], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn preallocate(&self, _: u64, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn truncate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl BufferedFile for Numbers {
    fn open(&self) -> Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(Self { reads: self.reads.clone(), failing: self.failing }))
    }

    fn error(&self, error: &io::Error) -> Error {
        Error::file(error.to_string())
    }
}

fn wanted(ranges: &[usize]) -> Vec<Wanted> {
    let wanted = ranges.iter().map(|&range| Wanted {
        offset: (range * RANGE) as u64,
        bytes: RANGE,
        checksum: crc32fast::hash(&[range as u8; RANGE]),
    });
    wanted.collect()
}

/// Asks for ranges, and waits to be told.
fn ask(file: &Arc<FileInBuffer>, ranges: &[usize], gone: &Arc<Gone>) -> Result<(), Failure> {
    let told = Arc::new((Mutex::new(Vec::new()), Condvar::new()));
    let own = told.clone();
    let done: Done = Box::new(move |read, _| {
        own.0.lock().push(read);
        own.1.notify_one();
    });
    file.read(0, &wanted(ranges), Hint::Keep, gone.clone(), done);
    let mut read = told.0.lock();
    while read.is_empty() {
        told.1.wait(&mut read);
    }
    assert_eq!(read.len(), 1, "told once");
    let read = read.remove(0)?;
    assert!(read.iter().zip(ranges).all(|(bytes, range)| **bytes == [*range as u8; RANGE]));
    Ok(())
}

fn is_cancelled(told: &Result<(), Failure>) -> bool {
    matches!(told, Err(Failure::Read(error)) if error.kind() == ErrorKind::Cancelled)
}

#[test]
fn all_who_want_a_range_are_told_whoever_goes_and_whatever_fails() {
    interleave(2_000, || {
        // Room for four ranges.
        let broker = Broker::new(8 * RANGE);
        let clock = Arc::new(ManualClock::stepping(1));
        let threads = IoPool::start(2, clock.clone(), Arc::new(DrivenSpawn)).unwrap();
        let pool = BufferPool::new(&broker, clock, threads.clone(), 50);
        let failing = thread_rng().gen_bool(0.5).then(|| thread_rng().gen_range(0..3));
        let file = pool.add(Arc::new(Numbers { failing, ..Numbers::default() }));
        let gone = Arc::<Gone>::default();
        let wants: [&'static [usize]; 2] = [&[1, 2, 3], &[2, 9]];
        let readers = [(wants[0], gone.clone()), (wants[1], Arc::default())].map(|(ranges, gone)| {
            let file = file.clone();
            thread::spawn(move || ask(&file, ranges, &gone))
        });
        let (own, memory) = (file.clone(), broker.account(QueryId(1), None));
        let blocking = thread::spawn(move || own.read_here(0, &wanted(&[3, 2]), Hint::Scan { bytes: 3 * RANGE }));
        let taking = thread::spawn(move || drop(memory.reservation("Sort").grow(6 * RANGE)));
        gone.set();
        let [first, second] = readers.map(|reader| reader.join().unwrap());
        let third = blocking.join().unwrap();
        taking.join().unwrap();
        assert!(first.is_ok() || failing.is_some() || is_cancelled(&first), "{first:?}");
        assert!(second.is_ok() || failing.is_some() && !is_cancelled(&second), "{second:?}");
        assert!(third.is_ok() || failing.is_some(), "{third:?}");
        drop(third);
        // One read fails, and only that one.
        assert!(ask(&file, &[1, 2, 3, 9], &Arc::default()).is_ok() || failing.is_some());
        threads.stop();
        let info = pool.info();
        assert_eq!(info.sum(|shard| shard.reading as u64), 0);
        assert_eq!(info.sum(|shard| shard.bytes as u64), broker.reserved_bytes() as u64);
        drop(file);
        assert_eq!(broker.reserved_bytes(), 0);
    });
}

/// Rows that come when a range of the engine's buffer is there.
struct Through {
    file: Arc<FileInBuffer>,
    range: usize,
    rows: Fetched,
}

impl BufferedFetch for Through {
    fn begin(self: Box<Self>, gone: Arc<Gone>, done: FetchDone) {
        let Self { file, range, rows } = *self;
        let done: Done = Box::new(move |read, counted| match read {
            Ok(_) => done(Ok(rows), counted),
            Err(Failure::Read(error)) => done(Err(error), counted),
            Err(Failure::Checksum(_)) => done(Err(Error::bug("other bytes than were written")), counted),
        });
        file.read(0, &wanted(&[range]), Hint::Keep, gone, done);
    }

    fn wait(self: Box<Self>) -> Result<Fetched> {
        Ok(self.rows)
    }
}

#[test]
fn a_scan_through_the_buffer_may_be_cancelled_while_another_waits_for_its_reads() {
    interleave(2_000, || {
        let engine = super::queries::engine();
        let file = engine.buffer().add(Arc::<Numbers>::default());
        let own = file.clone();
        let plan =
            scan_of(move |place, rows| Fetch::Buffered(Box::new(Through { file: own.clone(), range: place, rows })));
        let start = || super::scans::read_table(&engine, &plan);
        let cancelled = start();
        let token = cancelled.cancel_token();
        let cancelling = thread::spawn(move || token.cancel());
        let stays = start();
        assert_eq!(super::queries::sorted(read(stays)), (0..ROWS).collect::<Vec<_>>());
        let _ = read(cancelled);
        cancelling.join().unwrap();
        drop((plan, file));
        assert_eq!(ended(&engine)[1], QueryState::Finished);
        assert_eq!(engine.buffer().info().sum(|shard| shard.reading as u64), 0);
    });
}
