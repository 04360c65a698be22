//! Reading a spill file, ahead of whoever wants it.
//!
//! The cluster that is wanted next is always asked for; those after it only as far as there is memory.

use std::collections::BTreeMap;
use std::io;
use std::ops::{Deref, Range};
use std::sync::{Arc, Weak};
use std::task::{Poll, Waker};

use bytes::Bytes;
use diligence_base::Result;
use diligence_base::limits::TEMP_READ_AHEAD_CLUSTERS;
use diligence_base::sync::{Latch, Mutex};

use super::buffers::{ClusterBuffer, SpillBuffers};
use super::stored::{FileShared, Stored, checksum_of};
use crate::failures;
use crate::files::{self, PAGE_BYTES, Transfer};
use crate::info::count;
use crate::request_log::Request;
use crate::volumes::Progress;

/// Clusters that were read ahead.
static READER: Latch = Latch::new("spill reader");

/// How a file is read.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions {
    /// Clusters asked for before they are wanted.
    pub ahead: usize,
    /// Whether a cluster is freed as soon as it is in memory. Then nobody can read it again.
    pub recycle: bool,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { ahead: TEMP_READ_AHEAD_CLUSTERS, recycle: false }
    }
}

/// A cluster in memory. It counts against the operator's buffers until it, and all bytes made of it, are dropped.
pub struct Cluster {
    buffer: ClusterBuffer,
    bytes: usize,
}

impl Cluster {
    /// Its bytes, which begin at a page of memory; nothing is copied.
    pub fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl Deref for Cluster {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer.bytes()[..self.bytes]
    }
}

impl AsRef<[u8]> for Cluster {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cluster({} bytes)", self.bytes)
    }
}

/// Reads clusters of a spill file in their order.
pub struct SpillReader {
    shared: Arc<ReadShared>,
    buffers: SpillBuffers,
    options: ReadOptions,
    /// The cluster that is wanted next.
    next: usize,
    /// The first that has not been asked for.
    ahead: usize,
    /// Whether the one that is wanted next has failed, and is to be asked for again. Those behind it are there, or on
    /// their way, and with `recycle` nowhere else.
    again: bool,
    end: usize,
}

/// What a reader shares with its requests.
struct ReadShared {
    file: Arc<FileShared>,
    recycle: bool,
    state: Mutex<ReadState>,
}

#[derive(Default)]
struct ReadState {
    arrived: BTreeMap<usize, Result<Cluster>>,
    /// Changed by every seek: what was asked for before is not wanted any more.
    epoch: u64,
    waker: Option<Waker>,
}

impl SpillReader {
    pub(super) fn new(
        file: Arc<FileShared>,
        buffers: SpillBuffers,
        clusters: Range<usize>,
        options: ReadOptions,
    ) -> Self {
        let shared =
            Arc::new(ReadShared { file, recycle: options.recycle, state: Mutex::named(&READER, ReadState::default()) });
        Self { shared, buffers, options, next: clusters.start, ahead: clusters.start, again: false, end: clusters.end }
    }

    /// The buffers it reads into.
    pub fn buffers(&self) -> &SpillBuffers {
        &self.buffers
    }

    /// The number of the cluster that comes next.
    pub fn position(&self) -> usize {
        self.next
    }

    /// Goes on with another cluster, before the reader's end. What was read ahead is dropped; with `recycle` it is
    /// lost.
    pub fn seek(&mut self, cluster: usize) {
        if cluster == self.next {
            return;
        }
        let arrived = {
            let mut state = self.shared.state.lock();
            state.epoch += 1;
            std::mem::take(&mut state.arrived)
        };
        drop(arrived);
        (self.next, self.ahead, self.again) = (cluster, cluster, false);
    }

    /// The next cluster; `None` at the end. After `Pending` the waker is woken when it is worth asking again. After an
    /// error the reader stands where it stood.
    pub fn poll_next(&mut self, waker: &Waker) -> Poll<Option<Result<Cluster>>> {
        if self.next >= self.end {
            return Poll::Ready(None);
        }
        if self.ahead == self.next || self.again {
            match self.poll_ask_next(waker) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(Ok(())) => {}
            }
        }
        self.ask_ahead();
        let mut state = self.shared.state.lock();
        match state.arrived.remove(&self.next) {
            None => {
                state.waker = Some(waker.clone());
                count(&self.shared.file.space.counters.waits, 1);
                Poll::Pending
            }
            Some(Err(error)) => {
                drop(state);
                self.again = true;
                Poll::Ready(Some(Err(error)))
            }
            Some(Ok(mut cluster)) => {
                drop(state);
                cluster.buffer.is_wanted();
                self.next += 1;
                Poll::Ready(Some(Ok(cluster)))
            }
        }
    }

    /// Asks for the cluster that is wanted now.
    fn poll_ask_next(&mut self, waker: &Waker) -> Poll<Result<()>> {
        let stored = match self.shared.file.poll_stored(self.next, waker) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(stored) => stored?,
        };
        let buffer = match self.buffers.poll_take(waker) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(buffer) => buffer?,
        };
        self.ask(self.next, stored, buffer);
        (self.ahead, self.again) = (self.ahead.max(self.next + 1), false);
        Poll::Ready(Ok(()))
    }

    /// Asks for clusters after it, if they are written and there is memory.
    fn ask_ahead(&mut self) {
        while self.ahead < self.end && self.ahead - self.next <= self.options.ahead {
            let Some(stored) = self.shared.file.stored(self.ahead) else { return };
            let Some(buffer) = self.buffers.try_take_ahead() else { return };
            self.ask(self.ahead, stored, buffer);
            self.ahead += 1;
        }
    }

    fn ask(&self, cluster: usize, stored: Stored, buffer: ClusterBuffer) {
        let request = ReadRequest {
            reader: Arc::downgrade(&self.shared),
            epoch: self.shared.state.lock().epoch,
            cluster,
            stored,
            progress: Progress::new(length_of(stored), self.shared.file.space.volumes.is_direct(stored.place)),
            buffer: Some(buffer),
            outcome: None,
            held: None,
        };
        self.shared.file.space.submit(false, move || request.start());
    }
}

impl std::fmt::Debug for SpillReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SpillReader({} at {} of {})", self.shared.file.number, self.next, self.end)
    }
}

/// A cluster on its way from the disk. Whatever becomes of it, dropping it tells the reader.
struct ReadRequest {
    /// Nobody wants the cluster any more if it is gone.
    reader: Weak<ReadShared>,
    epoch: u64,
    cluster: usize,
    stored: Stored,
    progress: Progress,
    buffer: Option<ClusterBuffer>,
    outcome: Option<Result<Cluster>>,
    /// While it is read: its place is not free before.
    held: Option<Arc<ReadShared>>,
}

/// The bytes to be read: whole pages, for direct files.
fn length_of(stored: Stored) -> usize {
    (stored.bytes as usize).next_multiple_of(PAGE_BYTES)
}

impl ReadRequest {
    fn start(mut self) -> Option<Box<dyn Transfer>> {
        let reader = self.reader.upgrade()?;
        if reader.state.lock().epoch != self.epoch {
            return None;
        }
        let file = &reader.file;
        file.space.note(Request::Read, file.number, [(self.cluster, self.stored.place)].into_iter());
        self.held = Some(reader);
        Some(Box::new(self))
    }

    /// What was read, when all of it was or something went wrong.
    fn outcome(&mut self, file: &FileShared, result: io::Result<usize>) -> Option<Result<Cluster>> {
        let Stored { place, bytes, checksum } = self.stored;
        let space = &file.space;
        match self.progress.advance(result, io::ErrorKind::UnexpectedEof) {
            Ok(false) => return None,
            Ok(true) => {}
            Err(error) => return Some(Err(failures::not_read(space.volumes.path(place), &error))),
        }
        let buffer = self.buffer.take()?;
        let bytes = bytes as usize;
        count(&space.counters.reads, self.progress.calls);
        count(&space.counters.read_bytes, self.progress.bytes() as u64);
        if checksum_of(&buffer.bytes()[..bytes]) != checksum {
            let (_, offset) = space.volumes.locate(place);
            return Some(Err(failures::damaged(space.volumes.path(place), offset)));
        }
        Some(Ok(Cluster { buffer, bytes }))
    }
}

impl Transfer for ReadRequest {
    fn request(&mut self) -> files::Request<'_> {
        let (Some(reader), Some(buffer)) = (&self.held, &mut self.buffer) else {
            unreachable!("it has both from its start to its end")
        };
        let (file, offset) = reader.file.space.volumes.locate(self.stored.place);
        let rest = &mut buffer.bytes_mut()[self.progress.done()..self.progress.bytes()];
        files::Request { file, offset: offset + self.progress.done() as u64, memory: files::Memory::Read(rest) }
    }

    fn done(mut self: Box<Self>, result: io::Result<usize>) -> Option<Box<dyn Transfer>> {
        let reader = self.held.clone()?;
        let Some(outcome) = self.outcome(&reader.file, result) else { return Some(self) };
        let is_read = outcome.is_ok();
        self.outcome = Some(outcome);
        if reader.recycle && is_read {
            reader.file.free(self.cluster);
        }
        None
    }
}

impl Drop for ReadRequest {
    fn drop(&mut self) {
        let Some(reader) = self.reader.upgrade() else { return };
        let outcome: Result<Cluster> = self.outcome.take().unwrap_or_else(|| Err(failures::stopped()));
        let (unwanted, waker) = {
            let mut state = reader.state.lock();
            let unwanted =
                if state.epoch == self.epoch { state.arrived.insert(self.cluster, outcome) } else { Some(outcome) };
            (unwanted, state.waker.take())
        };
        drop(unwanted);
        waker.into_iter().for_each(Waker::wake);
    }
}
