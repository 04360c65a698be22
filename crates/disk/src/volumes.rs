//! The large files of temp space, one per directory, and which of their clusters are free.
//!
//! * A cluster that was freed is taken before a file grows, and the lowest one first: so files stay dense, and what the
//!   page cache still holds is overwritten in place.
//! * Whoever asks for several gets them side by side if there is room for that in what the files have already.
//! * Directories take turns. Files grow in large steps, the shortest first. A file whose end is free for long gives it
//!   back.
//!
//! Invariants: a cluster is free or belongs to one place in one spill file. The lock is not held during a call of the
//! system; meanwhile `resizing` keeps everybody else from changing a length.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use diligence_base::limits::TEMP_GROWTH_BYTES;
use diligence_base::sync::{Condvar, Latch, Mutex};
use diligence_base::{Error, Result};

use crate::extents::FreeExtents;
use crate::failures;
use crate::files::{PAGE_BYTES, TempFile, TempFiles};
use crate::info::DirectoryInfo;
use crate::options::TempOptions;

/// Which clusters of temp files are free.
static PLACES: Latch = Latch::new("temp space");

/// Where a cluster is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    /// Which of the directories.
    pub directory: u16,
    /// In clusters from the beginning of the directory's file.
    pub position: u32,
}

/// The files and their free clusters.
pub(crate) struct Volumes {
    cluster_bytes: u64,
    quota_clusters: u64,
    directories: Vec<Directory>,
    state: Mutex<State>,
    resized: Condvar,
}

struct Directory {
    path: PathBuf,
    file: Arc<dyn TempFile>,
}

struct State {
    volumes: Vec<Volume>,
    /// Whose turn it is.
    next: usize,
    resizing: bool,
    recycled_total: u64,
}

/// What is known of a directory's file.
#[derive(Default)]
struct Volume {
    /// Its length in clusters.
    clusters: u32,
    free: FreeExtents,
    /// Clusters below were in use before.
    touched: u32,
}

impl State {
    fn free(&self) -> usize {
        self.volumes.iter().map(|volume| volume.free.clusters()).sum()
    }

    fn clusters(&self) -> u64 {
        self.volumes.iter().map(|volume| u64::from(volume.clusters)).sum()
    }

    /// Clusters that are free already: side by side if possible.
    fn take(&mut self, clusters: usize) -> Option<Vec<Place>> {
        if self.free() < clusters {
            return None;
        }
        let count = self.volumes.len();
        let turns: Vec<usize> = (0..count).map(|turn| (self.next + turn) % count).collect();
        self.next = (self.next + 1) % count;
        let mut places = Vec::with_capacity(clusters);
        let run = u32::try_from(clusters).ok();
        let side_by_side =
            turns.iter().find_map(|&index| Some((index, self.volumes[index].free.take_run(run?)?, run?)));
        if let Some((index, start, length)) = side_by_side {
            self.placed(index, start, length, &mut places);
        }
        while places.len() < clusters {
            for &index in &turns {
                let wanted = u32::try_from(clusters - places.len()).unwrap_or(u32::MAX);
                if wanted == 0 {
                    break;
                }
                if let Some((start, length)) = self.volumes[index].free.take_lowest(wanted) {
                    self.placed(index, start, length, &mut places);
                }
            }
        }
        Some(places)
    }

    fn placed(&mut self, index: usize, start: u32, length: u32, places: &mut Vec<Place>) {
        let volume = &mut self.volumes[index];
        self.recycled_total += u64::from(volume.touched.min(start + length).saturating_sub(start));
        volume.touched = volume.touched.max(start + length);
        places.extend((start..start + length).map(|position| Place { directory: index as u16, position }));
    }
}

impl Volumes {
    /// Removes leftovers and makes a file in each directory.
    pub fn open(options: &TempOptions) -> Result<Self> {
        if options.directories.is_empty() || options.directories.len() > usize::from(u16::MAX) {
            return Err(Error::input("temp space needs a directory"));
        }
        let open = |path: &PathBuf| {
            let files: &dyn TempFiles = options.files.as_ref();
            // What cannot be listed may still be written to.
            let _ = files.remove_leftovers(path);
            let file = files.create(path, options.direct).map_err(|error| failures::unusable(path, &error))?;
            Ok(Directory { path: path.clone(), file })
        };
        let directories = options.directories.iter().map(open).collect::<Result<Vec<_>>>()?;
        let volumes = directories.iter().map(|_| Volume::default()).collect();
        Ok(Self {
            cluster_bytes: options.cluster_bytes as u64,
            quota_clusters: options.quota_bytes.map_or(u64::MAX, |bytes| bytes / options.cluster_bytes as u64),
            directories,
            state: Mutex::named(&PLACES, State { volumes, next: 0, resizing: false, recycled_total: 0 }),
            resized: Condvar::new(),
        })
    }

    /// Clusters that are free already; `None` if a file has to grow. Does not block.
    pub fn try_take(&self, clusters: usize) -> Option<Vec<Place>> {
        self.state.lock().take(clusters)
    }

    /// So many clusters; files grow where they must. Blocks.
    pub fn take(&self, clusters: usize) -> Result<Vec<Place>> {
        let mut state = self.state.lock();
        loop {
            if let Some(places) = state.take(clusters) {
                return Ok(places);
            }
            if state.resizing {
                self.resized.wait(&mut state);
                continue;
            }
            state.resizing = true;
            let missing = (clusters - state.free()) as u64;
            let (total, mut shortest) = (state.clusters(), (0..self.directories.len()).collect::<Vec<_>>());
            shortest.sort_by_key(|&index| state.volumes[index].clusters);
            let lengths: Vec<u32> = state.volumes.iter().map(|volume| volume.clusters).collect();
            drop(state);
            let grown = self.grow(missing, total, &shortest, &lengths);
            state = self.state.lock();
            state.resizing = false;
            self.resized.notify_all();
            for (index, clusters) in grown? {
                let volume = &mut state.volumes[index];
                volume.free.insert(volume.clusters, clusters);
                volume.clusters += clusters;
            }
        }
    }

    /// Makes files longer: by at least `missing` clusters, all of the shortest ones if possible. Which ones, and by how
    /// many.
    fn grow(&self, missing: u64, total: u64, shortest: &[usize], lengths: &[u32]) -> Result<Vec<(usize, u32)>> {
        let mut quota = self.quota_clusters.saturating_sub(total);
        if quota < missing {
            return Err(failures::quota_exceeded(self.quota_clusters.saturating_mul(self.cluster_bytes)));
        }
        let mut grown: Vec<(usize, u32)> = Vec::new();
        let mut refusal = None;
        for (turn, &index) in shortest.iter().enumerate() {
            let is_stripe = grown.first().is_none_or(|(first, _)| lengths[*first] == lengths[index]);
            if !is_stripe {
                break;
            }
            // The first one that grows has to grow far enough; the others need not.
            let least = if grown.is_empty() { missing } else { 1 };
            let share = (quota / (shortest.len() - turn) as u64).max(least).min(quota);
            match self.grow_one(index, u64::from(lengths[index]), least, share) {
                Ok(step) => {
                    quota -= step;
                    grown.extend((step > 0).then_some((index, step as u32)));
                }
                Err(error) => drop(refusal.get_or_insert(error)),
            }
        }
        match refusal {
            Some(error) if grown.is_empty() => Err(error),
            _ if grown.is_empty() => Err(Error::resource("a temp file is as long as it can be")),
            _ => Ok(grown),
        }
    }

    /// Makes one file longer, by `least` clusters at least and `most` at most, or not at all if that is asked for or
    /// the file is as long as it can be.
    fn grow_one(&self, index: usize, length: u64, least: u64, most: u64) -> Result<u64> {
        let Directory { path, file } = &self.directories[index];
        let usual = (length * self.cluster_bytes).clamp(*TEMP_GROWTH_BYTES.start(), *TEMP_GROWTH_BYTES.end());
        let mut step = (usual / self.cluster_bytes).max(least).min(most).min(u64::from(u32::MAX) - length);
        while step >= least {
            match file.grow(length * self.cluster_bytes, (length + step) * self.cluster_bytes) {
                Ok(()) => return Ok(step),
                // What is left of a nearly full disk may still be enough.
                Err(error) if failures::is_full(&error) && step > least => step = (step / 2).max(least),
                Err(error) => return Err(failures::not_written(path, &error)),
            }
        }
        Ok(0)
    }

    /// Frees clusters. True if it is worth to call [`Self::trim`].
    pub fn free(&self, mut places: Vec<Place>) -> bool {
        places.sort_unstable();
        let mut state = self.state.lock();
        let side_by_side =
            |a: &Place, b: &Place| a.directory == b.directory && a.position.checked_add(1) == Some(b.position);
        for run in places.chunk_by(side_by_side) {
            let volume = &mut state.volumes[usize::from(run[0].directory)];
            volume.free.insert(run[0].position, run.len() as u32);
        }
        !state.resizing && (0..self.directories.len()).any(|index| self.surplus(&state.volumes[index]).is_some())
    }

    /// Where to cut a file whose end is free: it keeps as much again as it uses, and a step.
    fn surplus(&self, volume: &Volume) -> Option<u32> {
        let used = volume.clusters - volume.free.clusters() as u32;
        let step = TEMP_GROWTH_BYTES.end() / self.cluster_bytes;
        let keep = (2 * u64::from(used) + step).max(u64::from(volume.free.tail_start(volume.clusters)));
        u32::try_from(keep + step).is_ok_and(|end| end <= volume.clusters).then_some(keep as u32)
    }

    /// Gives back what files have at their ends and do not need. Blocks.
    pub fn trim(&self) {
        for (index, directory) in self.directories.iter().enumerate() {
            let mut state = self.state.lock();
            let volume = &mut state.volumes[index];
            let (Some(keep), false) = (self.surplus(volume), state.resizing) else { continue };
            let volume = &mut state.volumes[index];
            let before = volume.clusters;
            volume.free.cut_tail(keep, before);
            volume.clusters = keep;
            volume.touched = volume.touched.min(keep);
            state.resizing = true;
            drop(state);
            let cut = directory.file.truncate(u64::from(keep) * self.cluster_bytes);
            let mut state = self.state.lock();
            state.resizing = false;
            if cut.is_err() {
                let volume = &mut state.volumes[index];
                volume.free.insert(keep, before - keep);
                volume.clusters = before;
            }
            self.resized.notify_all();
        }
    }

    /// The path of a place's directory, for errors.
    pub fn path(&self, place: Place) -> &PathBuf {
        &self.directories[usize::from(place.directory)].path
    }

    /// Whether a place is in a file that goes past the page cache.
    pub fn is_direct(&self, place: Place) -> bool {
        self.directories[usize::from(place.directory)].file.is_direct()
    }

    /// The file and the byte where a place is.
    pub fn locate(&self, place: Place) -> (&dyn TempFile, u64) {
        (self.directories[usize::from(place.directory)].file.as_ref(), u64::from(place.position) * self.cluster_bytes)
    }

    /// Clusters taken that had been used before.
    pub fn recycled_total(&self) -> u64 {
        self.state.lock().recycled_total
    }

    /// The directories at this moment.
    pub fn info(&self) -> Vec<DirectoryInfo> {
        let state = self.state.lock();
        let infos = self.directories.iter().zip(&state.volumes).map(|(directory, volume)| DirectoryInfo {
            path: directory.path.clone(),
            clusters_used: volume.clusters as usize - volume.free.clusters(),
            clusters_free: volume.free.clusters(),
            is_direct: directory.file.is_direct(),
            is_named: directory.file.is_named(),
        });
        infos.collect()
    }
}

impl Place {
    /// Whether another place is the next one on the same disk.
    pub fn is_before(self, other: Place) -> bool {
        self.directory == other.directory && self.position.checked_add(1) == Some(other.position)
    }
}

/// How far a transfer of several requests has come.
pub(crate) struct Progress {
    bytes: usize,
    done: usize,
    /// Calls of the system so far.
    pub calls: u64,
    /// Where to go on after a short one: at the beginning of a page, if the file is direct.
    unit: usize,
}

impl Progress {
    pub fn new(bytes: usize, is_direct: bool) -> Self {
        Self { bytes, done: 0, calls: 0, unit: if is_direct { PAGE_BYTES } else { 1 } }
    }

    /// Bytes that the transfer has.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where to go on.
    pub fn done(&self) -> usize {
        self.done
    }

    /// Counts what came of a request: true if that was all. None at all is an error of the kind `end`.
    pub fn advance(&mut self, result: io::Result<usize>, end: io::ErrorKind) -> io::Result<bool> {
        self.calls += 1;
        let reached = match result {
            Ok(some) => self.done + some,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(false),
            Err(error) => return Err(error),
        };
        let next = if reached >= self.bytes { reached } else { reached / self.unit * self.unit };
        if next == self.done {
            return Err(end.into());
        }
        self.done = next;
        Ok(self.done >= self.bytes)
    }
}
