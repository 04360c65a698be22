//! The buffer of clusters: ranges of immutable files that queries read, kept packed as they are in the file (after
//! Volcano's buffer manager; Graefe & Thakkar, "Tuning a Parallel Database Algorithm on a Shared-memory
//! Multiprocessor", 1992).
//!
//! ```text
//!                 read                     a thread takes it          its checksum is right
//!   absent ----------------> being read ----------------------------> present ------ evicted ----> absent
//!     ^                        |     ^  whoever wants it meanwhile       |
//!     |   it could not be      |     +- is told when it is there         +--> pinned by whoever reads it
//!     +--- read, or nobody ----+
//!          wants it any more
//! ```
//!
//! A descriptor belongs to one range: a column's part of a cluster. Queries want some columns of a cluster and leave
//! the others, and each such part is under a checksum of its own; so a descriptor for the whole cluster would be a list
//! of these anyway. All ranges of a cluster are in one shard, so that a scan takes one lock for a cluster, once,
//! whatever it wants of it. To let go of one takes none: a pin is a reference, counted where it is.
//!
//! What is to be read waits in one queue for all queries, in the order of the files; whatever thread comes next takes
//! what lies near to each other, whoever asked for it, and goes on behind it ([`reads`]).
//!
//! *Hints.* What is looked up by key, and scans that fit, are kept: the ranges that were not used for longest go first,
//! when others need their room. A scan of more than a part of the buffer is tossed: what it reads stays only where
//! there is room, and goes first; so no scan flushes the buffer, and one that is repeated finds as much of itself as
//! has found room.
//!
//! What is here is *spare*: memory that no query needs. Whoever is short has it dropped at once, and for some time
//! nothing is kept then. It is dropped after decoded columns: packed, the same values take a third of the memory.
//!
//! Invariants:
//! * No lock is held while anything is read, reserved, dropped or told; none is held while another is taken.
//! * What is being read arrives, or fails, for all who wait: none of them does the reading, so none takes it along when
//!   he goes.
//! * Bytes are handed out only if they are what the checksum says.
//! * Bytes that are kept are reserved until the last pin is gone. Others are counted by those who asked for them.

mod info;
mod reads;
mod shard;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::task::{Poll, Waker};

use bytes::Bytes;
use diligence_base::limits::COLUMNS_REST;
use diligence_base::seams::{Clock, DiskFile};
use diligence_base::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use diligence_base::sync::{Condvar, Latch, Mutex};
use diligence_base::{Error, Result};
use diligence_memory::{Broker, QueryMemory, Reclaim};

pub use self::info::{BufferInfo, ShardInfo};
use self::reads::{Job, RangeRequest, Waiter, Waiting};
use self::shard::{Descriptor, Held, Pin, Shard, State, Victims};
use crate::IoPool;

/// The part of the memory budget, in percent, that the buffer may have while no query needs it.
pub const BUFFER_PERCENT: usize = 20;
/// And at most.
pub const BUFFER_PERCENT_MAX: usize = 80;

/// A scan is kept if it reads no more than this part of the buffer, as its divisor: two such scans fit beside each
/// other.
const KEPT_PART: usize = 2;

/// Each shard has a lock of its own. A scan takes one once for each cluster, so few are enough.
const SHARDS: usize = 4;
static LATCHES: [Latch; SHARDS] =
    [Latch::new("buffer 0"), Latch::new("buffer 1"), Latch::new("buffer 2"), Latch::new("buffer 3")];
/// What is to be read.
static READS: Latch = Latch::new("buffer reads");

/// A file whose ranges are read through the buffer. Its bytes never change.
pub trait BufferedFile: Send + Sync {
    /// Opens it. Blocks the calling thread. Fails with kind `File`, also if it is not the file that it was.
    fn open(&self) -> Result<Arc<dyn DiskFile>>;
    /// An error of the system when it was read, as one about the file.
    fn error(&self, error: &io::Error) -> Error;
}

/// A range that somebody wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Where it begins in its file.
    pub offset: u64,
    /// How many bytes it has.
    pub bytes: usize,
    /// Their CRC-32.
    pub checksum: u32,
}

/// What is to become of ranges when they have been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// They are likely to be wanted again.
    Keep,
    /// They are part of a scan that wants so many bytes in all.
    Scan {
        /// The bytes.
        bytes: usize,
    },
}

/// Why a range could not be had.
#[derive(Clone, Debug)]
pub enum Failure {
    /// It could not be read.
    Read(Error),
    /// Its bytes are not what was written: this one, by its position among those that were wanted.
    Checksum(usize),
}

/// Whether nobody wants any more what was asked for.
#[derive(Debug, Default)]
pub struct Gone(AtomicBool);

impl Gone {
    /// Nobody does.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What is told to whoever has asked for ranges: the bytes of each, and how many of them the buffer counts.
pub type Done = Box<dyn FnOnce(Result<Vec<Bytes>, Failure>, usize) + Send>;

/// The buffer. One for each memory budget.
pub struct BufferPool {
    memory: QueryMemory,
    broker: Arc<Broker>,
    clock: Arc<dyn Clock>,
    threads: Arc<IoPool>,
    percent: AtomicUsize,
    /// Until when nothing is kept, since a query was short of memory; on the clock.
    rests_until_ns: AtomicU64,
    shards: [Mutex<Shard>; SHARDS],
    /// Bytes of all ranges that are present.
    bytes: AtomicUsize,
    waiting: Mutex<Waiting>,
    next_file: AtomicU64,
    reads_total: AtomicU64,
    read_bytes_total: AtomicU64,
    read_ns_total: AtomicU64,
}

/// A file in the buffer, until nobody has it any more, and nothing of it is read: then its ranges go.
pub struct FileInBuffer {
    pool: Arc<BufferPool>,
    number: u64,
    file: Arc<dyn BufferedFile>,
}

/// Which range of which file: those of one cluster lie side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RangeId {
    file: u64,
    cluster: u32,
    offset: u64,
    bytes: usize,
}

impl RangeId {
    fn shard(self) -> usize {
        // Files have many clusters or few, so both count.
        (self.file as usize).wrapping_mul(31).wrapping_add(self.cluster as usize) % SHARDS
    }
}

impl BufferPool {
    /// A buffer that may have so many percent of the budget, and whose reads are done by these threads. It is
    /// [spare](Broker::add_spare): who is noted later goes first.
    pub fn new(broker: &Arc<Broker>, clock: Arc<dyn Clock>, threads: Arc<IoPool>, percent: usize) -> Arc<Self> {
        let pool = Arc::new(Self {
            memory: broker.retained_account(),
            broker: broker.clone(),
            clock,
            threads,
            percent: AtomicUsize::new(percent),
            rests_until_ns: AtomicU64::new(0),
            shards: std::array::from_fn(|shard| Mutex::named(&LATCHES[shard], Shard::default())),
            bytes: AtomicUsize::new(0),
            waiting: Mutex::named(&READS, Waiting::default()),
            next_file: AtomicU64::new(0),
            reads_total: AtomicU64::new(0),
            read_bytes_total: AtomicU64::new(0),
            read_ns_total: AtomicU64::new(0),
        });
        let spare: Arc<dyn Reclaim> = pool.clone();
        broker.add_spare(Arc::downgrade(&spare));
        pool
    }

    /// A file is read through the buffer from now on.
    pub fn add(self: &Arc<Self>, file: Arc<dyn BufferedFile>) -> Arc<FileInBuffer> {
        let number = self.next_file.fetch_add(1, Ordering::Relaxed);
        Arc::new(FileInBuffer { pool: self.clone(), number, file })
    }

    /// The part of the budget, in percent, that it may have.
    pub fn percent(&self) -> usize {
        self.percent.load(Ordering::Relaxed)
    }

    /// Changes that part; with 0, nothing is kept.
    pub fn set_percent(&self, percent: usize) {
        self.percent.store(percent, Ordering::Relaxed);
        self.let_go(self.bytes.load(Ordering::Relaxed).saturating_sub(self.bytes_max()));
    }

    /// Bytes that it may have.
    fn bytes_max(&self) -> usize {
        self.broker.budget_bytes() / 100 * self.percent()
    }

    /// The buffer at this moment.
    pub fn info(&self) -> BufferInfo {
        let shards = self.shards.iter().zip(&LATCHES).map(|(shard, latch)| {
            let info = shard.lock().info();
            ShardInfo { latch: latch.info(), ..info }
        });
        BufferInfo {
            shards: shards.collect(),
            bytes_max: self.bytes_max(),
            reads_total: self.reads_total.load(Ordering::Relaxed),
            read_bytes_total: self.read_bytes_total.load(Ordering::Relaxed),
            read_ns_total: self.read_ns_total.load(Ordering::Relaxed),
        }
    }

    /// The threads have gone: what they were still to read fails for all who wait for it. What is asked for later is
    /// read by whoever asks.
    pub fn close(&self) {
        let left = self.waiting.lock().take_all();
        for job in left {
            self.publish(&job, Err(Failure::Read(Error::cancelled())));
        }
        self.let_go(usize::MAX);
    }

    fn is_kept(&self, hint: Hint) -> bool {
        match hint {
            Hint::Keep => true,
            Hint::Scan { bytes } => bytes <= self.bytes_max() / KEPT_PART,
        }
    }

    /// Memory is short, or was a moment ago.
    fn rests(&self) -> bool {
        self.broker.is_wanted() || self.clock.now_ns() < self.rests_until_ns.load(Ordering::Relaxed)
    }

    /// Drops so many bytes of what nobody reads, or what there is; those of this shard before others, and what is
    /// tossed before what is kept.
    fn evict(&self, bytes: usize, first: usize) -> usize {
        self.evict_by(bytes, first, [Victims::Tossed, Victims::Kept])
    }

    /// Lets go of so many bytes, or what there is; of what somebody reads only where there is nothing else. That stays
    /// counted until he lets it go too.
    fn let_go(&self, bytes: usize) {
        let freed = self.evict(bytes, 0);
        self.evict_by(bytes - freed.min(bytes), 0, [Victims::PinnedTossed, Victims::PinnedKept]);
    }

    fn evict_by(&self, bytes: usize, first: usize, victims: [Victims; 2]) -> usize {
        let mut freed = 0;
        for victims in victims {
            for shard in (0..SHARDS).map(|next| (first + next) % SHARDS) {
                if freed >= bytes {
                    return freed;
                }
                let gone = self.shards[shard].lock().evict(bytes - freed, victims);
                let gone_bytes = gone.iter().map(|held| held.bytes.len()).sum::<usize>();
                self.bytes.fetch_sub(gone_bytes, Ordering::Relaxed);
                freed += gone_bytes;
            }
        }
        freed
    }

    /// Takes bytes of the buffer's part of the budget for a range; false if they are not there.
    fn make_room(&self, bytes: usize, is_kept: bool, shard: usize) -> bool {
        let bytes_max = self.bytes_max();
        let take = || {
            let taken = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| {
                now.checked_add(bytes).filter(|sum| *sum <= bytes_max)
            });
            taken.is_ok()
        };
        if bytes > bytes_max || self.rests() {
            return false;
        }
        if take() {
            return true;
        }
        let missing = (self.bytes.load(Ordering::Relaxed) + bytes).saturating_sub(bytes_max);
        is_kept && self.evict(missing, shard) >= missing && take()
    }

    /// What was read of a range, or why nothing was, for all who wait for it.
    fn publish(&self, job: &Job, read: Result<Vec<u8>, Failure>) {
        let shard = job.id.shard();
        let (held, failure) = match read {
            Err(failure) => (None, Some(failure)),
            Ok(bytes) => {
                let mut memory = self.memory.reservation("Buffer");
                let has_room = self.make_room(bytes.len(), job.is_kept, shard);
                let is_counted = has_room && memory.grow(bytes.len()).is_ok();
                if has_room && !is_counted {
                    self.bytes.fetch_sub(bytes.len(), Ordering::Relaxed);
                }
                let memory = is_counted.then_some(memory);
                (Some(Arc::new(Held { bytes, memory })), None)
            }
        };
        let waiters = self.shards[shard].lock().arrived(job.id, held.as_ref());
        for Waiter { request, part } in waiters {
            match (&held, &failure) {
                (Some(held), _) => request.bring(part, Pin::bytes(held), held.counted_bytes()),
                (None, Some(Failure::Checksum(_))) => request.fail(Failure::Checksum(part)),
                (None, Some(failure)) => request.fail(failure.clone()),
                (None, None) => {}
            }
        }
        // Somebody who came to wait meanwhile did not see it; whoever comes later does.
        if self.broker.is_wanted() {
            self.evict(1, shard);
        }
    }

    /// Reads what waits, group by group, until nothing does.
    fn serve(&self) {
        loop {
            let group = self.waiting.lock().take_group();
            if group.is_empty() {
                return;
            }
            self.read_group(group);
        }
    }

    fn read_group(&self, group: Vec<Job>) {
        let mut wanted = Vec::with_capacity(group.len());
        for job in group {
            // What nobody waits for any more is not read.
            let given_up = self.shards[job.id.shard()].lock().give_up(job.id);
            match given_up {
                None => wanted.push(job),
                Some(left) => {
                    left.into_iter().for_each(|waiter| waiter.request.fail(Failure::Read(Error::cancelled())))
                }
            }
        }
        let Some(file) = wanted.first().map(|job| job.file.clone()) else { return };
        let opened = reads::open(&*file.file);
        for run in reads::runs(wanted) {
            let start_ns = self.clock.now_ns();
            let read = reads::read(&opened, &*file.file, &run);
            self.reads_total.fetch_add(1, Ordering::Relaxed);
            self.read_ns_total.fetch_add(self.clock.now_ns().saturating_sub(start_ns), Ordering::Relaxed);
            for (job, read) in run.iter().zip(read) {
                if let Ok(bytes) = &read {
                    self.read_bytes_total.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                }
                self.publish(job, read);
            }
        }
    }
}

impl Reclaim for BufferPool {
    fn reclaimable_bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn poll_reclaim(&self, bytes: usize, _waker: &Waker) -> Poll<Result<()>> {
        self.rests_until_ns.store(self.clock.now_ns() + COLUMNS_REST.as_nanos() as u64, Ordering::Relaxed);
        self.let_go(bytes);
        Poll::Ready(Ok(()))
    }
}

impl FileInBuffer {
    fn id(&self, cluster: u32, wanted: &Wanted) -> RangeId {
        RangeId { file: self.number, cluster, offset: wanted.offset, bytes: wanted.bytes }
    }

    fn shard(&self, cluster: u32) -> &Mutex<Shard> {
        &self.pool.shards[RangeId { file: self.number, cluster, offset: 0, bytes: 0 }.shard()]
    }

    /// These ranges of a cluster, pinned, if all of them are here.
    pub fn find(&self, cluster: u32, wanted: &[Wanted], hint: Hint) -> Option<Vec<Bytes>> {
        let is_kept = self.pool.is_kept(hint);
        let mut shard = self.shard(cluster).lock();
        let mut found = Vec::with_capacity(wanted.len());
        for wanted in wanted {
            found.push(shard.present(self.id(cluster, wanted))?);
        }
        for wanted in wanted {
            shard.use_again(self.id(cluster, wanted), is_kept);
        }
        shard.hits_total += wanted.len() as u64;
        Some(found.iter().map(Pin::bytes).collect())
    }

    /// Has ranges of a cluster be read, as far as they are not here and nobody reads them already; `done` is told when
    /// they are there, perhaps at once, on whatever thread. It is told of a failure too, and that nothing was read
    /// where `gone` is set before it is, which says that nobody wants it any more.
    pub fn read(self: &Arc<Self>, cluster: u32, wanted: &[Wanted], hint: Hint, gone: Arc<Gone>, done: Done) {
        let request = RangeRequest::new(wanted.len(), gone, done);
        let jobs = self.claim(cluster, wanted, hint, &request);
        if !jobs.is_empty() {
            self.pool.waiting.lock().add(jobs);
            let pool = self.pool.clone();
            self.pool.threads.submit(Box::new(move || pool.serve()));
        }
        request.begun();
    }

    /// These ranges of a cluster, read by this thread as far as no other is at it. Blocks the calling thread. Fails as
    /// their file does.
    pub fn read_here(self: &Arc<Self>, cluster: u32, wanted: &[Wanted], hint: Hint) -> Result<Vec<Bytes>, Failure> {
        let told = Arc::new((Mutex::new(None), Condvar::new()));
        let own = told.clone();
        let done: Done = Box::new(move |read, _| {
            *own.0.lock() = Some(read);
            own.1.notify_one();
        });
        let request = RangeRequest::new(wanted.len(), Arc::default(), done);
        let mut jobs = self.claim(cluster, wanted, hint, &request);
        // What others want and no thread has begun is read here as well.
        jobs.extend(self.pool.waiting.lock().take(wanted.iter().map(|wanted| self.id(cluster, wanted))));
        jobs.sort_by_key(|job| job.id);
        self.pool.read_group(jobs);
        request.begun();
        let mut read = told.0.lock();
        loop {
            if let Some(read) = read.take() {
                return read;
            }
            told.1.wait(&mut read);
        }
    }

    /// Notes a request for ranges: what is to be read of them by whoever has asked.
    fn claim(self: &Arc<Self>, cluster: u32, wanted: &[Wanted], hint: Hint, request: &Arc<RangeRequest>) -> Vec<Job> {
        let is_kept = self.pool.is_kept(hint);
        let (mut found, mut jobs) = (Vec::new(), Vec::new());
        {
            let mut shard = self.shard(cluster).lock();
            for (part, wanted) in wanted.iter().enumerate() {
                let id = self.id(cluster, wanted);
                let waiter = Waiter { request: request.clone(), part };
                if let Some(held) = shard.present(id) {
                    shard.use_again(id, is_kept);
                    shard.hits_total += 1;
                    found.push((part, held));
                } else if let Some(Descriptor { state: State::Reading(waiters), .. }) = shard.descriptors.get_mut(&id) {
                    waiters.push(waiter);
                    shard.joins_total += 1;
                } else {
                    shard.descriptors.insert(id, Descriptor::read_for(waiter, is_kept));
                    shard.misses_total += 1;
                    jobs.push(Job { id, wanted: *wanted, is_kept, file: self.clone() });
                }
            }
        }
        for (part, held) in found {
            request.bring(part, Pin::bytes(&held), held.counted_bytes());
        }
        jobs
    }
}

impl Drop for FileInBuffer {
    fn drop(&mut self) {
        for shard in &self.pool.shards {
            let gone = shard.lock().forget(self.number);
            self.pool.bytes.fetch_sub(gone.iter().map(|held| held.bytes.len()).sum(), Ordering::Relaxed);
        }
    }
}

impl std::fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BufferPool({} bytes)", self.bytes.load(Ordering::Relaxed))
    }
}

impl std::fmt::Debug for FileInBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FileInBuffer({})", self.number)
    }
}
