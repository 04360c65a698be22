//! The log that statements write: entries wait in memory until somebody syncs them, and whoever comes first syncs for
//! all (group commit).
//!
//! ```text
//!   append ──▶ queue ──▶ one of those who wait writes and syncs all that has gathered ──▶ all of them go on
//! ```
//!
//! Behind what is synced stands a mark, so that damage before it is told from what a crash has torn. It is written when
//! the sync has ended, and waits for no other; where that goes wrong, it goes in front of the next records.
//!
//! When a write fails, all entries that are not synced are lost, and the file is what it was before; after that entries
//! may come again. When a sync fails, nobody knows what the disk has: nothing more is written until the database is
//! opened again.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use diligence_base::seams::{Disk, DiskFile};
use diligence_base::{Error, Result};
use diligence_catalog::journal::{Entry, Journal, LogPosition, Staged};
use diligence_catalog::{NewRows, StoredCluster, micros_now};
use parking_lot::{Condvar, Mutex};

use crate::files::{FILE_HEAD_BYTES, MARK_BYTES, Purpose, RecordFile, create, failed, frame, mark};
use crate::record::{encode_entry, encode_group, encode_moment, encode_rows, encode_stored};

/// Rows that are more than this go into the log before their entry.
const STAGED_BYTES_MAX: usize = 4 << 20;
/// By so much the file grows at once: as much as it has, within these.
const GROWTH_BYTES: Range<u64> = 64 << 10..4 << 20;
/// Statements of one log's time have numbers from its own range.
const STATEMENTS_BITS: u32 = 40;

/// A log in a database's folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogInfo {
    /// Its number.
    pub number: u64,
    /// Bytes of its file, with those that it has taken in advance.
    pub file_bytes: u64,
    /// Bytes of what is written in it; of an earlier one than the present, nobody has counted them.
    pub bytes: Option<u64>,
    /// The place of its first record in the order of all; `None` if its beginning cannot be read.
    pub first_record: Option<u64>,
    /// How many it has: changes, and rows that came before theirs. `None` if the log behind it does not say where it
    /// begins.
    pub records: Option<u64>,
    /// How many of them no crash can take away.
    pub synced_records: Option<u64>,
    /// Whether an image has all of it, so that opening the database does not read it.
    pub is_covered: bool,
}

/// The newest log of a database.
#[derive(Debug)]
pub struct Log {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    state: Mutex<State>,
    /// Told whenever somebody has written, or has failed to.
    written: Condvar,
    /// Statements whose rows are in the log before their entry.
    staged: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct State {
    target: Target,
    /// Records that are not in the file.
    queue: Vec<Vec<u8>>,
    queued_bytes: usize,
    /// The last entry's position, and the last one that is synced.
    appended: LogPosition,
    synced: LogPosition,
    /// Entries that were lost, by their positions, and why.
    lost: Vec<(LogPosition, LogPosition, Error)>,
    /// Whether the catalog still builds on lost entries.
    is_lost: bool,
    /// How often entries were lost.
    losses: u64,
    /// Why nothing more is written.
    failed: Option<Error>,
    is_writing: bool,
    next_statement: u64,
    /// Segments that entries refer to, with the number of the last such log.
    segments: HashMap<u64, u64>,
    /// The last moment that was written, if entries say when they are made.
    moment: Option<i64>,
}

impl State {
    /// The moment of what happens now, in microseconds since 1970, if entries have one. Clocks may be set back; the log
    /// is in order.
    fn now(&mut self) -> Option<i64> {
        self.moment = self.moment.map(|last| last.max(micros_now()));
        self.moment
    }
}

/// The file, and how far it is.
#[derive(Clone, Debug)]
struct Target {
    path: PathBuf,
    number: u64,
    file: Arc<dyn DiskFile>,
    /// Where records end.
    end: u64,
    /// Where the file ends.
    allocated: u64,
    /// The place of its first record.
    first: u64,
    /// The place of the next record.
    next: u64,
    /// The place of the first record that is not synced.
    synced: u64,
    /// Whether a mark belongs where they end.
    wants_mark: bool,
}

/// How a write went wrong.
struct Failure {
    error: Error,
    /// Whether what is on the disk is no longer known.
    is_final: bool,
}

impl Log {
    /// Begins the log of this number, whose first record has the place `next`. Fails with kind `File`.
    pub fn begin(disk: Arc<dyn Disk>, folder: &Path, number: u64, next: u64) -> Result<Self> {
        let target = Target::create(&*disk, folder, number, next)?;
        let state = State {
            target,
            queue: Vec::new(),
            queued_bytes: 0,
            appended: 0,
            synced: 0,
            lost: Vec::new(),
            is_lost: false,
            losses: 0,
            failed: None,
            is_writing: false,
            next_statement: number << STATEMENTS_BITS,
            segments: HashMap::new(),
            moment: None,
        };
        let (state, written, staged) = (Mutex::new(state), Condvar::new(), Arc::default());
        Ok(Self { disk, folder: folder.to_owned(), state, written, staged })
    }

    /// The present log's number.
    pub fn number(&self) -> u64 {
        self.state.lock().target.number
    }

    /// Bytes of records in the file.
    pub fn bytes(&self) -> u64 {
        self.state.lock().target.end - FILE_HEAD_BYTES
    }

    /// The logs that are in the folder, up to the present one, without what images say of them. Fails with kind `File`
    /// if the folder cannot be read.
    pub fn files(&self) -> Result<Vec<LogInfo>> {
        let present = self.state.lock().target.info();
        let numbers = Purpose::Log.numbers(&*self.disk, &self.folder)?;
        let mut files = vec![present];
        let mut behind = present;
        for number in numbers.into_iter().rev().filter(|number| *number < present.number) {
            let path = Purpose::Log.path(&self.folder, number);
            // A checkpoint may have removed it meanwhile.
            let Ok(meta) = self.disk.meta(&path) else { continue };
            let opened = RecordFile::open(&*self.disk, &path, Purpose::Log);
            let first_record = opened.ok().flatten().map(|file| file.next);
            let next = behind.first_record.filter(|_| behind.number == number + 1);
            // The log behind it was begun when all of its records were synced.
            let records = next.zip(first_record).map(|(next, first)| next.saturating_sub(first));
            let (file_bytes, bytes, synced_records) = (meta.bytes, None, records);
            behind = LogInfo { number, file_bytes, bytes, first_record, records, synced_records, is_covered: false };
            files.push(behind);
        }
        files.reverse();
        Ok(files)
    }

    /// Whether an entry of the present log, or of an earlier one that was not forgotten, refers to a segment.
    pub fn refers_to(&self, segment: u64) -> bool {
        self.state.lock().segments.contains_key(&segment)
    }

    /// Whether it is an entry of a log before this one, and of none since.
    pub fn referred_before(&self, segment: u64, number: u64) -> bool {
        self.state.lock().segments.get(&segment).is_some_and(|log| *log < number)
    }

    /// Has entries say when they are made from now on, in microseconds since 1970 and after `last`; or not, if that is
    /// `None`.
    pub fn keep_moments(&self, last: Option<i64>) {
        self.state.lock().moment = last;
    }

    /// Now, in microseconds since 1970, if entries say when they are made: no earlier one is younger, no later one
    /// older.
    pub fn moment(&self) -> Option<i64> {
        self.state.lock().now()
    }

    /// No log before this one is read any more.
    pub fn forget_before(&self, number: u64) {
        self.state.lock().segments.retain(|_, log| *log >= number);
    }

    /// Begins the next file. Called where nobody appends and all is synced. False if a statement's rows are in the
    /// present one before their entry. Fails with kind `File`.
    pub fn rotate(&self) -> Result<bool> {
        let mut state = self.state.lock();
        while state.is_writing {
            self.written.wait(&mut state);
        }
        // What the present one has is not known: none may follow it.
        if let Some(error) = &state.failed {
            return Err(error.clone());
        }
        if self.staged.load(Ordering::Acquire) > 0 || !state.queue.is_empty() {
            return Ok(false);
        }
        // Rows whose statement has failed meanwhile: the next log counts them, too.
        if state.target.synced < state.target.next {
            let synced = state.target.file.sync().map_err(|error| failed(&state.target.path, &error));
            synced.inspect_err(|error| state.failed = Some(closed(error)))?;
            state.target.synced = state.target.next;
        }
        let target = Target::create(&*self.disk, &self.folder, state.target.number + 1, state.target.next)?;
        state.next_statement = target.number << STATEMENTS_BITS;
        state.target = target;
        Ok(true)
    }

    /// Writes what is queued; with `position`, syncs it, unless somebody else has meanwhile.
    fn write(&self, position: Option<LogPosition>) -> Result<()> {
        let mut state = self.state.lock();
        loop {
            if let Some(position) = position {
                // First, since entries behind lost ones may have been synced meanwhile.
                let is_lost = |lost: &&(u64, u64, Error)| (lost.0..=lost.1).contains(&position);
                if let Some((_, _, error)) = state.lost.iter().rev().find(is_lost) {
                    return Err(error.clone());
                }
                if state.synced >= position {
                    return Ok(());
                }
            }
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            if !state.is_writing {
                break;
            }
            self.written.wait(&mut state);
        }
        state.is_writing = true;
        let (queue, to) = (std::mem::take(&mut state.queue), state.appended);
        state.queued_bytes = 0;
        let mut target = state.target.clone();
        drop(state);
        let outcome = target.write(&queue, position.is_some());
        let mut state = self.state.lock();
        state.is_writing = false;
        let outcome = match outcome {
            Ok(()) => {
                state.target = target;
                if position.is_some() {
                    state.synced = to;
                }
                Ok(())
            }
            Err(Failure { error, is_final }) => {
                let lost = (state.synced + 1, state.appended, error.clone());
                if lost.0 <= lost.1 {
                    state.lost.push(lost);
                }
                state.is_lost = true;
                state.losses += 1;
                state.queue.clear();
                state.queued_bytes = 0;
                if is_final {
                    state.failed = Some(closed(&error));
                }
                Err(error)
            }
        };
        drop(state);
        self.written.notify_all();
        outcome
    }
}

/// The error of all changes that come after one that has left the disk in a state that is not known.
fn closed(error: &Error) -> Error {
    let closed = Error::file(format!("the database takes no more changes: {}", error.message()));
    closed.with_code("25006").with_hint("open it again when the disk is well; what was acknowledged is kept")
}

impl Journal for Log {
    fn stage(&self, rows: &[NewRows]) -> Result<Staged> {
        let is_some = |rows: &&NewRows| rows.batch().is_none_or(|batch| batch.num_rows() > 0);
        let mut staged = Staged::default();
        if !rows.iter().any(|rows| is_some(&rows)) {
            return Ok(staged);
        }
        let mut state = self.state.lock();
        state.next_statement += 1;
        (staged.statement, staged.losses) = (state.next_statement, state.losses);
        drop(state);
        let mut bytes = 0;
        for rows in rows.iter().filter(is_some) {
            let record = match rows {
                NewRows::Memory(batch) => encode_rows(staged.statement, batch)?,
                NewRows::Stored(StoredCluster { segment, cluster, deleted, fragment, .. }) => {
                    staged.segments.push(segment.number());
                    encode_stored(staged.statement, segment, *cluster, deleted.as_deref(), *fragment)
                }
            };
            bytes += record.len();
            staged.encoded.push(record);
            if bytes < STAGED_BYTES_MAX {
                continue;
            }
            let mut state = self.state.lock();
            if staged.guard.is_none() {
                self.staged.fetch_add(1, Ordering::AcqRel);
                staged.guard = Some(Box::new(Outstanding(self.staged.clone())));
            }
            state.queued_bytes += bytes;
            state.queue.append(&mut staged.encoded);
            drop(state);
            bytes = 0;
            self.write(None)?;
        }
        Ok(staged)
    }

    fn append(&self, entries: Vec<(Staged, Entry)>) -> Result<LogPosition> {
        let records = entries.iter().map(|(staged, entry)| encode_entry(entry, staged.statement));
        let mut records = records.collect::<Result<Vec<_>>>()?;
        let record = match records.pop() {
            Some(only) if records.is_empty() => only,
            last => encode_group(records.into_iter().chain(last)),
        };
        let mut state = self.state.lock();
        if let Some(error) = &state.failed {
            return Err(error.clone());
        }
        // Rows that came before their entry may have been lost with others.
        let losses = state.losses;
        let lost_rows = |(staged, _): &(Staged, Entry)| staged.guard.is_some() && staged.losses != losses;
        if state.is_lost || entries.iter().any(lost_rows) {
            let error = Error::file("a change before this one could not be kept, and this one builds on it");
            return Err(error.with_code("40001").with_hint("run the statement again"));
        }
        state.queued_bytes += record.len();
        let moment = state.now().map(encode_moment);
        let number = state.target.number;
        let segments = entries.iter().flat_map(|(staged, _)| &staged.segments);
        state.segments.extend(segments.map(|segment| (*segment, number)));
        state.queue.extend(entries.into_iter().flat_map(|(staged, _)| staged.encoded));
        state.queue.extend(moment);
        state.queue.push(record);
        state.appended += 1;
        Ok(state.appended)
    }

    fn sync(&self, position: LogPosition) -> Result<()> {
        self.write(Some(position))
    }

    fn synced(&self) -> LogPosition {
        self.state.lock().synced
    }

    fn has_lost(&self) -> bool {
        self.state.lock().is_lost
    }

    fn forget_lost(&self) {
        self.state.lock().is_lost = false;
    }
}

/// A statement whose rows are in the log before their entry, until that is there or never comes.
struct Outstanding(Arc<AtomicUsize>);

impl Drop for Outstanding {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Target {
    fn create(disk: &dyn Disk, folder: &Path, number: u64, next: u64) -> Result<Self> {
        let path = Purpose::Log.path(folder, number);
        // One that could not be begun before. It has no records.
        let _ = disk.remove_file(&path);
        let made = || -> std::io::Result<Arc<dyn DiskFile>> {
            let file = create(disk, &path, Purpose::Log, number, next)?;
            file.sync()?;
            disk.sync_folder(folder)?;
            Ok(file)
        };
        let file = made().map_err(|error| {
            // A file without records may stay behind: it says nothing.
            let _ = disk.remove_file(&path);
            failed(&path, &error)
        })?;
        let (end, allocated) = (FILE_HEAD_BYTES, FILE_HEAD_BYTES);
        Ok(Self { path, number, file, end, allocated, first: next, next, synced: next, wants_mark: false })
    }

    fn info(&self) -> LogInfo {
        LogInfo {
            number: self.number,
            file_bytes: self.allocated,
            bytes: Some(self.end - FILE_HEAD_BYTES),
            first_record: Some(self.first),
            records: Some(self.next - self.first),
            synced_records: Some(self.synced - self.first),
            is_covered: false,
        }
    }

    fn write(&mut self, records: &[Vec<u8>], syncs: bool) -> std::result::Result<(), Failure> {
        let bytes = records.iter().map(|record| record.len() + 16).sum::<usize>();
        let mut frames = Vec::with_capacity(bytes + MARK_BYTES as usize);
        if self.wants_mark {
            frames.extend_from_slice(&mark(self.number, self.end, self.next));
        }
        let mut next = self.next;
        for record in records {
            frame(&mut frames, next, record).map_err(|error| Failure { error, is_final: false })?;
            next += 1;
        }
        let end = self.end + frames.len() as u64;
        if end > self.allocated {
            let growth = self.allocated.clamp(GROWTH_BYTES.start, GROWTH_BYTES.end);
            let to = end.next_multiple_of(growth);
            // With zeros, so that a later sync writes records alone: not that the file has grown, nor where it lies.
            let grown = self.file.preallocate(self.allocated, to);
            let grown = grown.and_then(|()| self.file.write_all_at(&vec![0; (to - end) as usize], end));
            grown.map_err(|error| Failure { error: failed(&self.path, &error), is_final: false })?;
            self.allocated = to;
        }
        if let Err(error) = self.file.write_all_at(&frames, self.end) {
            // What is there of them must never be read.
            let cleared = self.file.truncate(self.end).and_then(|()| self.file.sync());
            self.allocated = self.end;
            return Err(Failure { error: failed(&self.path, &error), is_final: cleared.is_err() });
        }
        (self.end, self.next) = (end, next);
        self.wants_mark = false;
        if syncs {
            self.file.sync().map_err(|error| Failure { error: failed(&self.path, &error), is_final: true })?;
            self.synced = self.next;
            self.wants_mark = true;
            self.put_mark();
        }
        Ok(())
    }

    /// Puts a mark behind what is synced, if there is room for it. Nobody waits for it to be on the disk, and nothing
    /// is lost without it.
    fn put_mark(&mut self) {
        let end = self.end + MARK_BYTES;
        let mark = mark(self.number, self.end, self.next);
        if end <= self.allocated && self.file.write_all_at(&mark, self.end).is_ok() {
            (self.end, self.wants_mark) = (end, false);
        }
    }
}
