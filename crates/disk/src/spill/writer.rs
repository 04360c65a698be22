//! Writing a spill file: bytes into clusters, clusters to the disk.
//!
//! A write request takes clusters of one file that come one after another, finds places for them, side by side if
//! possible, and writes those that do lie side by side with one call.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::{Arc, Weak};
use std::task::{Poll, Waker};

use diligence_base::{Error, Result};

use super::buffers::{ClusterBuffer, SpillBuffers};
use super::file::SpillFile;
use super::stored::{FileShared, Stored, checksum_of};
use crate::failures;
use crate::files::{self, PAGE_BYTES, Transfer};
use crate::info::count;
use crate::request_log::Request;
use crate::space::Space;
use crate::volumes::{Place, Progress};

/// Clusters that are written with one call at most.
const CALL_CLUSTERS_MAX: usize = 256;

/// When full clusters go to the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grouping {
    /// Each at once.
    #[default]
    None,
    /// When [`SpillWriter::submit`] says so: several at once, side by side.
    ByFile,
}

/// Writes one spill file from its beginning to its end. Dropping it drops the file.
pub struct SpillWriter {
    file: Arc<FileShared>,
    buffers: SpillBuffers,
    grouping: Grouping,
    /// The cluster that is being filled, and how far.
    current: Option<(ClusterBuffer, usize)>,
    /// Filled clusters that wait for their group.
    full: Vec<(ClusterBuffer, usize)>,
    bytes: u64,
}

impl SpillWriter {
    /// A writer of a new file.
    pub fn new(buffers: &SpillBuffers, grouping: Grouping) -> Self {
        let file = FileShared::new(&buffers.0.space);
        Self { file, buffers: buffers.clone(), grouping, current: None, full: Vec::new(), bytes: 0 }
    }

    /// Room for at least `bytes` bytes (at most a cluster), all in one cluster: if the present one has less left, it is
    /// closed. What was written there counts after [`Self::advance`]. After `Pending` the waker is woken when it is
    /// worth asking again. Fails if an earlier write has failed, or if there is no memory for another cluster.
    pub fn poll_room(&mut self, bytes: usize, waker: &Waker) -> Poll<Result<&mut [u8]>> {
        if bytes > self.buffers.0.space.cluster_bytes {
            return Poll::Ready(Err(Error::bug(format!("{bytes} bytes do not fit into a cluster of temp space"))));
        }
        if self.room() < bytes.max(1) {
            self.close_cluster();
        }
        if self.current.is_none() {
            self.file.check()?;
            match self.buffers.poll_take_to_write(waker) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(buffer) => self.current = Some((buffer?, 0)),
            }
        }
        let Some((buffer, filled)) = &mut self.current else { unreachable!("it was taken above") };
        Poll::Ready(Ok(&mut buffer.bytes_mut()[*filled..]))
    }

    /// Bytes left in the present cluster; 0 without one.
    pub fn room(&self) -> usize {
        self.current.as_ref().map_or(0, |(buffer, filled)| buffer.bytes().len() - filled)
    }

    /// Counts bytes that were written into the room.
    pub fn advance(&mut self, bytes: usize) {
        if let Some((buffer, filled)) = &mut self.current {
            assert!(*filled + bytes <= buffer.bytes().len(), "more was written than there was room");
            *filled += bytes;
            self.bytes += bytes as u64;
        }
        if self.room() == 0 {
            self.close_cluster();
        }
    }

    /// Appends some of the bytes, across clusters, and says how many: all, unless it has to wait after the first of
    /// them. Fails as [`Self::poll_room`] does.
    pub fn poll_append(&mut self, bytes: &[u8], waker: &Waker) -> Poll<Result<usize>> {
        let mut taken = 0;
        while taken < bytes.len() {
            match self.poll_room(1, waker) {
                Poll::Pending if taken == 0 => return Poll::Pending,
                Poll::Pending => break,
                Poll::Ready(room) => {
                    let room = room?;
                    let some = room.len().min(bytes.len() - taken);
                    room[..some].copy_from_slice(&bytes[taken..taken + some]);
                    self.advance(some);
                    taken += some;
                }
            }
        }
        Poll::Ready(Ok(taken))
    }

    /// Ends the present cluster, however little it holds: readers see where it ended.
    pub fn close_cluster(&mut self) {
        match self.current.take() {
            Some((_, 0)) | None => {}
            Some(full) => self.full.push(full),
        }
        if self.grouping == Grouping::None {
            self.submit();
        }
    }

    /// Sends the full clusters to the disk as one group.
    pub fn submit(&mut self) {
        if self.full.is_empty() {
            return;
        }
        let clusters = std::mem::take(&mut self.full);
        let space = self.file.space.clone();
        self.buffers.writes_begin(clusters.len());
        let request = WriteRequest {
            file: Arc::downgrade(&self.file),
            file_number: self.file.number,
            first: self.file.announce(clusters.len()),
            count: clusters.len(),
            // Only growing files takes time, and that is for the I/O thread.
            places: space.volumes.try_take(clusters.len()).unwrap_or_default(),
            clusters,
            stored: Vec::new(),
            run: 0..0,
            progress: Progress::new(0, false),
            buffers: self.buffers.clone(),
            space: space.clone(),
            is_noted: false,
            outcome: None,
            held: None,
        };
        space.submit(request.places.is_empty(), move || request.start());
    }

    /// Full clusters that wait for [`Self::submit`].
    pub fn waiting_clusters(&self) -> usize {
        self.full.len()
    }

    /// The number that the present or next cluster has in the file.
    pub fn next_cluster(&self) -> usize {
        self.file.clusters() + self.full.len()
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Ends the file. What is on its way to the disk stays so; readers wait for it, and get the error if it does not
    /// arrive.
    pub fn finish(mut self) -> SpillFile {
        self.close_cluster();
        self.submit();
        SpillFile(self.file)
    }
}

impl std::fmt::Debug for SpillWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SpillWriter({}, {} bytes)", self.file.number, self.bytes)
    }
}

/// Clusters on their way to the disk. Whatever becomes of it, dropping it tells the file and gives back buffers and
/// places.
struct WriteRequest {
    /// Nobody wants the clusters any more if it is gone.
    file: Weak<FileShared>,
    file_number: u64,
    /// The number of the first cluster in the file.
    first: usize,
    count: usize,
    clusters: Vec<(ClusterBuffer, usize)>,
    /// Empty if they have still to be found.
    places: Vec<Place>,
    /// Where the clusters are when they are written.
    stored: Vec<Stored>,
    /// Those that lie side by side and are being written, and how far that has come.
    run: Range<usize>,
    progress: Progress,
    buffers: SpillBuffers,
    space: Arc<Space>,
    /// Whether the request log knows of it.
    is_noted: bool,
    outcome: Option<Result<Vec<Stored>>>,
    /// While it is written: if the file is dropped meanwhile, its places are not free before.
    held: Option<Arc<FileShared>>,
}

impl WriteRequest {
    fn start(mut self) -> Option<Box<dyn Transfer>> {
        let file = self.file.upgrade()?;
        let ready = file.check().and_then(|()| self.prepare());
        self.held = Some(file);
        match ready {
            Ok(()) => Some(Box::new(self)),
            Err(error) => {
                self.outcome = Some(Err(error));
                None
            }
        }
    }

    /// Finds places, and the first clusters to write.
    fn prepare(&mut self) -> Result<()> {
        if self.places.is_empty() {
            self.places = self.space.volumes.take(self.clusters.len())?;
        }
        let numbered = self.places.iter().enumerate().map(|(index, place)| (self.first + index, *place));
        self.space.note(Request::Write, self.file_number, numbered);
        self.is_noted = true;
        let stored = self.clusters.iter().zip(&self.places).map(|((buffer, filled), place)| Stored {
            place: *place,
            bytes: *filled as u32,
            checksum: checksum_of(&buffer.bytes()[..*filled]),
        });
        self.stored = stored.collect();
        self.next_run();
        Ok(())
    }

    /// Goes on with the next clusters that lie side by side.
    fn next_run(&mut self) {
        let start = self.run.end;
        let rest = &self.places[start..];
        let side_by_side = rest.chunk_by(|a, b| a.is_before(*b)).next().map_or(0, <[Place]>::len);
        self.run = start..start + side_by_side.min(CALL_CLUSTERS_MAX);
        let bytes = self.run.clone().map(|cluster| self.bytes_to_write(cluster).len()).sum();
        let is_direct = rest.first().is_some_and(|place| self.space.volumes.is_direct(*place));
        self.progress = Progress::new(bytes, is_direct);
    }

    /// All of a cluster; of the last one that lies beside the others, what it holds.
    fn bytes_to_write(&self, cluster: usize) -> &[u8] {
        let (buffer, filled) = &self.clusters[cluster];
        let is_last = cluster + 1 == self.run.end;
        if is_last { &buffer.bytes()[..filled.next_multiple_of(PAGE_BYTES)] } else { buffer.bytes() }
    }

    /// Counts what came of a request: true if all clusters are written.
    fn advance(&mut self, result: io::Result<usize>) -> Result<bool> {
        let place = self.places[self.run.start];
        let is_run_written = self
            .progress
            .advance(result, io::ErrorKind::WriteZero)
            .map_err(|error| failures::not_written(self.space.volumes.path(place), &error))?;
        if !is_run_written {
            return Ok(false);
        }
        count(&self.space.counters.writes, self.progress.calls);
        count(&self.space.counters.written_bytes, self.progress.bytes() as u64);
        self.next_run();
        Ok(self.run.is_empty())
    }
}

impl Transfer for WriteRequest {
    fn request(&mut self) -> files::Request<'_> {
        let (file, offset) = self.space.volumes.locate(self.places[self.run.start]);
        let done = self.progress.done();
        let mut slices: Vec<IoSlice<'_>> =
            self.run.clone().map(|cluster| IoSlice::new(self.bytes_to_write(cluster))).collect();
        let mut rest = slices.as_mut_slice();
        IoSlice::advance_slices(&mut rest, done);
        files::Request { file, offset: offset + done as u64, memory: files::Memory::Write(rest.to_vec()) }
    }

    fn done(mut self: Box<Self>, result: io::Result<usize>) -> Option<Box<dyn Transfer>> {
        self.outcome = Some(match self.advance(result) {
            Ok(false) => return Some(self),
            Ok(true) => Ok(std::mem::take(&mut self.stored)),
            Err(error) => Err(error),
        });
        None
    }
}

impl Drop for WriteRequest {
    fn drop(&mut self) {
        // A request that did not run belongs to a file that was dropped, or to a temp space that was closed.
        let outcome = self.outcome.take().unwrap_or_else(|| Err(failures::stopped()));
        let places = std::mem::take(&mut self.places);
        if outcome.is_err() && self.is_noted {
            let unused = places.into_iter().enumerate().map(|(index, place)| (self.first + index, place));
            self.space.free(self.file_number, &unused.collect::<Vec<_>>());
        } else if outcome.is_err() {
            self.space.free_places(places);
        }
        self.clusters.clear();
        if let Some(file) = self.file.upgrade() {
            file.written(self.first, self.count, outcome);
        }
        self.buffers.writes_end(self.count);
    }
}
