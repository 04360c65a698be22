//! Reads for the buffer: who waits for which range, what is read next, and how ranges come into memory.

use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use diligence_base::seams::DiskFile;
use diligence_base::sync::Mutex;
use diligence_base::{Error, Result};

use super::{BufferedFile, Done, Failure, FileInBuffer, Gone, RangeId, Wanted};

/// A thread takes so many bytes at once, about: the others find something too.
const GROUP_BYTES: u64 = 4 << 20;
/// Ranges at most so far from each other are read one after the other, and what lies between them: behind each read
/// that is not followed at once, the system reads as much ahead in vain. (So twice as much came from the disk.)
const GAP_BYTES: u64 = 256 << 10;

/// Somebody who wants some ranges of a cluster.
pub(super) struct RangeRequest {
    /// Whether nobody wants it any more.
    gone: Arc<Gone>,
    progress: Mutex<Progress>,
}

struct Progress {
    /// Ranges that are not there yet, and one for the asking.
    left: usize,
    parts: Vec<Option<Bytes>>,
    /// Bytes that the buffer counts.
    counted_bytes: usize,
    failure: Option<Failure>,
    /// `None` once he has been told.
    done: Option<Done>,
}

/// A range that somebody waits for: which of those that he wants.
pub(super) struct Waiter {
    pub request: Arc<RangeRequest>,
    pub part: usize,
}

/// A range that is to be read.
pub(super) struct Job {
    pub id: RangeId,
    pub wanted: Wanted,
    pub is_kept: bool,
    pub file: Arc<FileInBuffer>,
}

impl Job {
    /// Where it ends in its file.
    fn end(&self) -> u64 {
        self.id.offset.saturating_add(self.wanted.bytes as u64)
    }
}

fn place(id: RangeId) -> (u64, u64, usize) {
    (id.file, id.offset, id.bytes)
}

impl RangeRequest {
    pub fn new(parts: usize, gone: Arc<Gone>, done: Done) -> Arc<Self> {
        let parts_there = (0..parts).map(|_| None).collect();
        let progress =
            Progress { left: parts + 1, parts: parts_there, counted_bytes: 0, failure: None, done: Some(done) };
        Arc::new(Self { gone, progress: Mutex::new(progress) })
    }

    pub fn is_wanted(&self) -> bool {
        !self.gone.is_set()
    }

    /// A range is there; the buffer counts so many of its bytes.
    pub fn bring(&self, part: usize, bytes: Bytes, counted_bytes: usize) {
        self.step(|progress| {
            progress.counted_bytes += counted_bytes;
            progress.parts[part] = Some(bytes);
        });
    }

    /// A range could not be had.
    pub fn fail(&self, failure: Failure) {
        self.step(|progress| {
            progress.failure.get_or_insert(failure);
        });
    }

    /// All that is to be read has been asked for.
    pub fn begun(&self) {
        self.step(|_| ());
    }

    /// One step further; with the last one he is told.
    fn step(&self, note: impl FnOnce(&mut Progress)) {
        let (done, read, counted_bytes) = {
            let mut progress = self.progress.lock();
            note(&mut progress);
            progress.left -= 1;
            if progress.left > 0 {
                return;
            }
            let parts = std::mem::take(&mut progress.parts);
            let read = match progress.failure.take() {
                Some(failure) => Err(failure),
                None => parts.into_iter().collect::<Option<Vec<_>>>().ok_or_else(missing),
            };
            (progress.done.take(), read, progress.counted_bytes)
        };
        if let Some(done) = done {
            done(read, counted_bytes);
        }
    }
}

fn missing() -> Failure {
    Failure::Read(Error::bug("a range that was read is not there"))
}

/// What is to be read and no thread has begun, of all queries.
#[derive(Default)]
pub(super) struct Waiting {
    /// By file, place and length.
    jobs: BTreeMap<(u64, u64, usize), Job>,
    /// Where the last group ended: the next one begins behind it, and after the last file with the first.
    head: (u64, u64, usize),
}

impl Waiting {
    pub fn add(&mut self, jobs: Vec<Job>) {
        self.jobs.extend(jobs.into_iter().map(|job| (place(job.id), job)));
    }

    pub fn take_all(&mut self) -> Vec<Job> {
        std::mem::take(&mut self.jobs).into_values().collect()
    }

    /// Those of these ranges that are waiting.
    pub fn take(&mut self, ids: impl Iterator<Item = RangeId>) -> Vec<Job> {
        ids.filter_map(|id| self.jobs.remove(&place(id))).collect()
    }

    /// The next ranges of one file, near to each other, whoever wants them; none if nothing is waiting.
    pub fn take_group(&mut self) -> Vec<Job> {
        let mut group: Vec<Job> = Vec::new();
        let mut next = self.jobs.range(self.head..).next().or_else(|| self.jobs.first_key_value()).map(|(at, _)| *at);
        while let Some(at) = next
            && let Some(job) = self.jobs.remove(&at)
        {
            let (file, end) = (job.id.file, job.end());
            self.head = (file, end, 0);
            group.push(job);
            let near = (file, end, 0)..=(file, end.saturating_add(GAP_BYTES), usize::MAX);
            let is_open = group.first().is_some_and(|first| end - first.id.offset < GROUP_BYTES);
            next = is_open.then(|| self.jobs.range(near).next().map(|(at, _)| *at)).flatten();
        }
        group
    }
}

/// Ranges of one file, in order, as they are read: those near to each other together.
pub(super) fn runs(jobs: Vec<Job>) -> Vec<Vec<Job>> {
    let mut runs: Vec<Vec<Job>> = Vec::new();
    for job in jobs {
        let is_near = |run: &Vec<Job>| match (run.first(), run.last()) {
            (Some(first), Some(last)) => {
                let gap = job.id.offset.checked_sub(last.end());
                gap.is_some_and(|gap| gap <= GAP_BYTES) && last.end() - first.id.offset < GROUP_BYTES
            }
            _ => false,
        };
        match runs.last_mut().filter(|run| is_near(run)) {
            Some(run) => run.push(job),
            None => runs.push(vec![job]),
        }
    }
    runs
}

/// Opens a file.
pub(super) fn open(file: &dyn BufferedFile) -> Result<Arc<dyn DiskFile>> {
    caught(|| file.open())
}

/// Reads ranges near to each other of a file that was opened, each into memory of its own. Where they cannot be read
/// together, each is tried alone: what is broken is not the others' fault.
pub(super) fn read(
    opened: &Result<Arc<dyn DiskFile>>,
    file: &dyn BufferedFile,
    run: &[Job],
) -> Vec<Result<Vec<u8>, Failure>> {
    let filled = match opened {
        Ok(opened) => caught(|| fill(opened.as_ref(), run).map_err(|error| file.error(&error))),
        Err(error) => return run.iter().map(|_| Err(Failure::Read(error.clone()))).collect(),
    };
    match filled {
        Ok(filled) => run.iter().zip(filled).map(|(job, bytes)| checked(job, bytes)).collect(),
        Err(_) if run.len() > 1 => run.iter().flat_map(|job| read(opened, file, std::slice::from_ref(job))).collect(),
        Err(error) => vec![Err(Failure::Read(error))],
    }
}

/// The bytes of ranges near to each other, each in memory of its own, so that one can go without the others. What lies
/// between them is read as well, and forgotten.
fn fill(file: &dyn DiskFile, run: &[Job]) -> io::Result<Vec<Vec<u8>>> {
    let (mut filled, mut between) = (Vec::with_capacity(run.len()), Vec::new());
    let mut at = run.first().map_or(0, |first| first.id.offset);
    for job in run {
        let gap = job.id.offset.saturating_sub(at) as usize;
        if gap > between.len() {
            between.resize(gap, 0);
        }
        file.read_exact_at(&mut between[..gap], at)?;
        let mut bytes = vec![0; job.wanted.bytes];
        file.read_exact_at(&mut bytes, job.id.offset)?;
        at = job.end();
        filled.push(bytes);
    }
    Ok(filled)
}

fn caught<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(Error::bug("reading a file panicked")))
}

fn checked(job: &Job, bytes: Vec<u8>) -> Result<Vec<u8>, Failure> {
    if crc32fast::hash(&bytes) == job.wanted.checksum { Ok(bytes) } else { Err(Failure::Checksum(0)) }
}
