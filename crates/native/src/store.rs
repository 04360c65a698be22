//! A database's folder while it is open: recovery at the beginning, then a log, and checkpoints from time to time.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use diligence_base::ids::ObjectId;
use diligence_base::seams::Disk;
use diligence_base::{Error, Result};
use diligence_catalog::{
    Catalog, CatalogSnapshot, EarlierHistory, MovedKeys, NativeTable, Object, Piece, PieceRows, Relation, micros_now,
};
use diligence_storage::BufferPool;
use diligence_storage::key_file::KeyFile;
use diligence_storage::segment::{FormatChoice, Segment};
use parking_lot::{Condvar, Mutex};

use crate::checkpoints::{CheckpointInfo, CheckpointRecord, Checkpoints};
use crate::files::{Purpose, RecordFile, damaged, failed, parent_of};
use crate::image;
use crate::lock::ReadersLock;
use crate::log::{Log, LogInfo};
use crate::past::{PastFiles, Retained};
use crate::replay::{LostIndex, Replay, Replayed, Surroundings};
use crate::segments::{SegmentSizes, Segments, Wear};

/// Bytes of logs before a checkpoint is due.
const CHECKPOINT_BYTES: u64 = 64 << 20;
/// One part of that is enough where a table has very many rows in memory.
const CHECKPOINT_PART: u64 = 16;
/// Logs before a checkpoint is due, however short they are: every opening begins one.
const LOGS_MAX: u64 = 8;
/// How often somebody looks whether one is due.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How a folder is opened.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// The folder; made if it is not there.
    pub folder: PathBuf,
    /// Where it is.
    pub disk: Arc<dyn Disk>,
    /// Bytes of logs before a checkpoint is due.
    pub checkpoint_bytes: u64,
    /// How many rows segments have.
    pub sizes: SegmentSizes,
    /// The format of segments that are written from now on.
    pub format: Arc<FormatChoice>,
    /// What segments are read through; each is read from the disk whenever it is scanned, if `None`.
    pub buffer: Option<Arc<BufferPool>>,
    /// What says whether other processes read the folder; nobody else does, if `None`.
    pub readers: Option<Arc<ReadersLock>>,
}

impl StoreOptions {
    /// A folder on a disk.
    pub fn new(folder: impl Into<PathBuf>, disk: Arc<dyn Disk>) -> Self {
        let (folder, sizes, format) = (folder.into(), SegmentSizes::default(), Arc::default());
        Self { folder, disk, checkpoint_bytes: CHECKPOINT_BYTES, sizes, format, buffer: None, readers: None }
    }
}

/// A database's folder. Used from any thread.
pub struct Store {
    pub(crate) options: StoreOptions,
    pub(crate) catalog: Arc<Catalog>,
    log: Arc<Log>,
    pub(crate) segments: Arc<Segments>,
    past: Arc<PastFiles>,
    /// One checkpoint at a time.
    kept: Mutex<Kept>,
    checkpoints: Mutex<CheckpointRecord>,
    lost_indexes: Vec<LostIndex>,
    stop: Mutex<bool>,
    stopped: Condvar,
}

/// What the folder has.
#[derive(Clone, Copy, Debug)]
struct Kept {
    /// The first log that recovery would read.
    first_log: u64,
    image_bytes: u64,
    /// Of the logs before the present one.
    earlier_bytes: u64,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Store({})", self.options.folder.display())
    }
}

impl Store {
    /// Reads a folder into an empty catalog and keeps all changes of the catalog from then on. Fails with kind `File`
    /// if the folder cannot be read or written or is damaged, `Resource` if the rows do not fit into memory; then the
    /// folder is as it was.
    pub fn open(options: StoreOptions, catalog: Arc<Catalog>, surroundings: &dyn Surroundings) -> Result<Self> {
        let StoreOptions { folder, disk, .. } = &options;
        make_folder(&**disk, folder)?;
        let StoreOptions { sizes, format, buffer, .. } = &options;
        let segments = Segments::open(folder, disk.clone(), *sizes, format.clone(), buffer.clone())?;
        let segments = Arc::new(segments);
        catalog.store_keys_in(segments.clone());
        let past = PastFiles::open(folder, disk.clone(), catalog.clone(), segments.clone())?;
        let Recovered { kept, next, last, moment, lost_indexes } =
            recover(&**disk, folder, &catalog, surroundings, &segments)?;
        let retained = past.retained();
        // What there is now has been there since the last change.
        let since = retained.map(|Retained { since, .. }| moment.map_or(since, |moment| moment.max(since)));
        past.begin(last, since.unwrap_or(i64::MAX));
        if retained.is_some() {
            past.find_images(1)?;
        }
        // What a crash has left, or a table that is gone; the next checkpoint finds out what the past needs.
        let opened = segments.opened();
        swept(&options, &segments, |number| opened.contains(&number) || retained.is_some())?;
        let log = Arc::new(Log::begin(disk.clone(), folder, last + 1, next)?);
        log.keep_moments(since);
        let past = Arc::new(past);
        if let (Some(Retained { retention, .. }), Some(since)) = (retained, since) {
            let earlier: Weak<dyn EarlierHistory> = Arc::<PastFiles>::downgrade(&past);
            catalog.resume_history(retention, since, earlier);
        }
        catalog.keep_in(log.clone());
        catalog.store_rows_in(segments.clone());
        let (kept, stop) = (Mutex::new(kept), Mutex::new(false));
        let checkpoints = Mutex::default();
        let stopped = Condvar::new();
        Ok(Self { catalog, log, segments, past, kept, checkpoints, options, lost_indexes, stop, stopped })
    }

    /// The indexes that it was opened without, as nothing computes them any more. They are gone.
    pub fn lost_indexes(&self) -> &[LostIndex] {
        &self.lost_indexes
    }

    /// The directories of other disks into which segments are written, beside the folder.
    pub fn directories(&self) -> Vec<PathBuf> {
        self.segments.directories()
    }

    /// Has fragments of tables be written into these directories as well from now on, one after the other, the first
    /// one into the folder; what is in others stays there until it is written anew. Kept when the database is closed.
    /// Fails with code 42P17 for a path that is not absolute, with 58P01 for a directory that is not there, and with
    /// kind `File` if it cannot be written; then all is as it was.
    pub fn set_directories(&self, directories: &[PathBuf]) -> Result<()> {
        self.segments.set_directories(directories)
    }

    /// Retains the past of the database for so many microseconds from now on; not at all, if that is 0. Kept when the
    /// database is closed: images and logs stay as long. Fails with kind `File`; then all is as it was.
    pub fn retain_history(&self, retention: i64) -> Result<()> {
        let kept = self.kept.lock();
        let begins = retention > 0 && self.past.retained().is_none();
        if begins {
            if !self.past.has_image(kept.first_log) {
                self.past.find_images(kept.first_log)?;
            }
            self.log.keep_moments(Some(micros_now()));
        }
        let now = self.log.moment().unwrap_or_else(micros_now);
        let retained = self.past.retain(retention, now);
        if self.past.retained().is_none() {
            self.log.keep_moments(None);
        }
        drop(kept);
        retained?;
        self.catalog.retain_history(retention);
        Ok(())
    }

    /// What reads definitions of the past before the database was opened, for an empty catalog. Without it, that past
    /// is not found. Called once.
    pub fn read_past_with(
        &self,
        surroundings: impl Fn(&Arc<Catalog>) -> Box<dyn Surroundings> + Send + Sync + 'static,
    ) {
        self.past.read_with(Box::new(surroundings));
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.options.folder
    }

    /// Writes an image of everything, so that opening the database takes no longer than reading that, and removes the
    /// logs before it. Statements go on meanwhile. Fails with kind `File`; then all is as it was.
    pub fn checkpoint(&self) -> Result<()> {
        self.checkpoint_with(&HashSet::new())
    }

    /// As [`checkpoint`](Self::checkpoint). Clusters of the tables in `whole` are written anew if any of their rows is
    /// gone, and not only if many are. Fails as that does.
    pub fn checkpoint_with(&self, whole: &HashSet<ObjectId>) -> Result<()> {
        let (began_us, began) = (micros_now(), Instant::now());
        let made = self.write_checkpoint(whole);
        if let Some(outcome) = made.clone().transpose() {
            self.checkpoints.lock().add(began_us, began.elapsed(), outcome);
        }
        made.map(|_| ())
    }

    /// The checkpoints since the folder was opened.
    pub fn checkpoints(&self) -> Checkpoints {
        self.checkpoints.lock().totals.clone()
    }

    /// The last checkpoints since the folder was opened, oldest first, with those that failed.
    pub fn last_checkpoints(&self) -> Vec<CheckpointInfo> {
        self.checkpoints.lock().last()
    }

    /// The logs that are in the folder, oldest first. Fails with kind `File` if the folder cannot be read.
    pub fn logs(&self) -> Result<Vec<LogInfo>> {
        let StoreOptions { folder, disk, .. } = &self.options;
        let mut logs = self.log.files()?;
        // One that was begun meanwhile covers them all, and what it made superfluous is still listed.
        let newest = Purpose::Image.numbers(&**disk, folder)?.pop().unwrap_or_default();
        logs.iter_mut().for_each(|log| log.is_covered = log.number < newest);
        Ok(logs)
    }

    /// Bytes of records in the present log.
    pub fn log_bytes(&self) -> u64 {
        self.log.bytes()
    }

    /// Makes a checkpoint. Gives the bytes of its image and of the logs before it; nothing if there is none now.
    fn write_checkpoint(&self, whole: &HashSet<ObjectId>) -> Result<Option<(u64, u64)>> {
        let StoreOptions { folder, disk, .. } = &self.options;
        let mut kept = self.kept.lock();
        let before = self.log.bytes();
        let mut keys_written = 0;
        let begun = self.catalog.at_rest(|snapshot| {
            let is_begun = self.log.rotate()?;
            let moment = self.log.moment();
            if is_begun {
                keys_written = self.segments.keys_written();
                native_tables(&snapshot).for_each(|(_, table)| self.segments.fix_keys(table));
            }
            Ok(is_begun.then(|| (snapshot, self.log.number(), self.catalog.next_object(), moment)))
        })?;
        // A statement that loads many rows comes first.
        let Some((snapshot, number, next_object, moment)) = begun else { return Ok(None) };
        kept.earlier_bytes += before;
        let log_bytes = kept.earlier_bytes;
        let mut moved = HashMap::new();
        let mut stored = Vec::new();
        for (object, table) in native_tables(&snapshot) {
            let wear = if whole.contains(&object.id) { Wear::Any } else { Wear::Much };
            let pieces = match self.segments.store(table, wear) {
                // Where rows cannot be read any more, those of the table stay where they are.
                Err(error) if error.code() == Some("XX001") => vec![],
                stored => stored?,
            };
            let keys = match self.segments.store_keys(table) {
                // Where keys cannot be read any more, they stay where they are.
                Err(error) if error.code() == Some("XX001") => MovedKeys::default(),
                keys => keys?,
            };
            keys_written += keys.files() as u64;
            if !pieces.is_empty() || !keys.is_empty() {
                moved.insert(object.id, Arc::new(table.with_stored(&pieces)?.with_moved_keys(&keys)));
                stored.push((object.reference(), table.origin(), pieces, keys));
            }
        }
        if !stored.is_empty() {
            self.segments.sync()?;
        }
        let image_bytes = image::write(&**disk, folder, number, &snapshot, next_object, &moved, moment)?;
        self.segments.note_keys(keys_written);
        let keys = key_files_of(&snapshot, &moved).into_keys();
        let referred = segments_of(&snapshot, &moved).into_keys().chain(keys).collect::<HashSet<_>>();
        drop((snapshot, moved));
        for (table, origin, pieces, keys) in stored {
            // Rows and keys that stay in memory are no loss.
            let _ = self.catalog.store_rows(&table, origin, &pieces, &keys);
        }
        *kept = Kept { first_log: number, image_bytes, earlier_bytes: 0 };
        self.past.add_image(number, moment, referred);
        self.remove_superfluous(number)?;
        Ok(Some((image_bytes, log_bytes)))
    }

    /// Removes images, logs and segments that neither the image of this number, which is the newest one, needs, nor the
    /// past. What cannot be removed now is removed at the next checkpoint. Fails with kind `File` if the folder cannot
    /// be read.
    fn remove_superfluous(&self, newest: u64) -> Result<()> {
        let StoreOptions { folder, disk, .. } = &self.options;
        let mut unread = self.past.unread();
        let first = self.past.forget_superfluous(newest, micros_now(), &mut unread);
        for purpose in [Purpose::Image, Purpose::Log] {
            for old in purpose.numbers(&**disk, folder)?.into_iter().filter(|old| *old < first) {
                let _ = disk.remove_file(&purpose.path(folder, old));
            }
        }
        self.log.forget_before(first);
        if !self.past.find_references(newest) {
            return Ok(());
        }
        let is_referred = |segment| self.past.refers_to(segment) || self.log.refers_to(segment);
        let swept = swept(&self.options, &self.segments, is_referred);
        drop(unread);
        swept
    }

    /// Removes what the past does not need any more, if a checkpoint does not do that.
    fn trim_past(&self) {
        self.catalog.trim_history();
        self.past.trim();
        if let Some(kept) = self.kept.try_lock()
            && self.past.has_superfluous(kept.first_log, micros_now())
        {
            // The next time may go better.
            let _ = self.remove_superfluous(kept.first_log);
        }
    }

    /// Whether opening the database would take long without a checkpoint.
    pub fn is_checkpoint_due(&self) -> bool {
        let Some(kept) = self.kept.try_lock().map(|kept| *kept) else { return false };
        let bytes = kept.earlier_bytes + self.log.bytes();
        let limit = self.options.checkpoint_bytes.max(kept.image_bytes / 2);
        let few = (self.options.checkpoint_bytes / CHECKPOINT_PART).max(kept.image_bytes / 2);
        bytes > limit
            || bytes > few
                && native_tables(&self.catalog.snapshot()).any(|(_, table)| self.segments.fills_cluster(table))
            || self.segments.unused_bytes(|segment| self.is_of_past(segment, kept.first_log)) > limit
            || self.segments.has_new_keys()
            || bytes > 0 && self.log.number() - kept.first_log > LOGS_MAX
    }

    /// Whether a segment stays beyond the next checkpoint, as the past needs it that was before the newest image.
    fn is_of_past(&self, segment: u64, newest: u64) -> bool {
        self.past.may_refer_before(newest, segment) || self.log.referred_before(segment, newest)
    }

    /// Makes checkpoints when they are due, until [`stop`](Self::stop). For a thread of its own.
    pub fn make_checkpoints(&self) {
        let mut stop = self.stop.lock();
        while !*stop {
            self.stopped.wait_for(&mut stop, LOOK_EVERY);
            drop(stop);
            self.trim_past();
            stop = self.stop.lock();
            if !*stop && self.is_checkpoint_due() {
                drop(stop);
                // The next one may go better: a full disk is the statements' to report.
                let _ = self.checkpoint();
                stop = self.stop.lock();
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn log_for_tests(&self) -> Arc<Log> {
        self.log.clone()
    }

    /// Ends [`make_checkpoints`](Self::make_checkpoints).
    pub fn stop(&self) {
        *self.stop.lock() = true;
        self.stopped.notify_all();
    }
}

/// Removes the files of segments that nobody has, but for those that are kept; none, while other processes read. Fails
/// with kind `File` if the folder cannot be read.
fn swept(options: &StoreOptions, segments: &Segments, is_kept: impl Fn(u64) -> bool) -> Result<()> {
    match &options.readers {
        None => segments.sweep(is_kept),
        Some(readers) => readers.alone(|| segments.sweep(is_kept)).unwrap_or(Ok(())),
    }
}

/// The segments that tables have rows in, by number.
pub(crate) fn segments_of(
    snapshot: &CatalogSnapshot,
    moved: &HashMap<ObjectId, Arc<NativeTable>>,
) -> HashMap<u64, Arc<Segment>> {
    let tables = snapshot.all_objects().filter_map(|object| match &object.relation {
        Relation::Native(table) => Some(moved.get(&object.id).unwrap_or(table)),
        _ => None,
    });
    let segment = |piece: &Piece| match piece.rows() {
        PieceRows::Stored(stored) => Some((stored.view.segment().number(), stored.view.segment().clone())),
        PieceRows::Memory(_) => None,
    };
    tables.flat_map(|table| table.pieces().iter().filter_map(segment).collect::<Vec<_>>()).collect()
}

/// The files that tables have keys in, by number.
pub(crate) fn key_files_of(
    snapshot: &CatalogSnapshot,
    moved: &HashMap<ObjectId, Arc<NativeTable>>,
) -> HashMap<u64, Arc<KeyFile>> {
    let tables = native_tables(snapshot).map(|(object, table)| moved.get(&object.id).unwrap_or(table));
    let files = |table: &Arc<NativeTable>| table.key_files().into_iter().flat_map(|keys| keys.files);
    tables.flat_map(files).map(|file| (file.number(), file)).collect()
}

/// The tables whose rows are kept.
fn native_tables(snapshot: &CatalogSnapshot) -> impl Iterator<Item = (&Arc<Object>, &Arc<NativeTable>)> {
    snapshot.all_objects().filter(|object| !object.name.is_temporary()).filter_map(|object| match &object.relation {
        Relation::Native(table) => Some((object, table)),
        _ => None,
    })
}

/// Makes a database's folder, and those above it, if it is not there, and has the disk keep their names. Fails with
/// kind `File`.
pub fn make_folder(disk: &dyn Disk, folder: &Path) -> Result<()> {
    let made = disk.create_folders(folder).map_err(|error| failed(folder, &error))?;
    let sync = |of: &Path| {
        let parent = parent_of(of);
        disk.sync_folder(parent).map_err(|error| failed(parent, &error))
    };
    if made.is_empty() && is_begun(disk, folder)? {
        return Ok(());
    }
    // Whoever made it may have ended before the disk had its name.
    sync(folder)?;
    for above in folder.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty() && above.parent().is_some()) {
        match made.iter().any(|made| made == above) {
            true => sync(above)?,
            // One that was there before may be on a disk that nobody writes to.
            false => drop(sync(above)),
        }
    }
    Ok(())
}

/// Whether a database has been opened in a folder before: then the disk has the folder's name.
fn is_begun(disk: &dyn Disk, folder: &Path) -> Result<bool> {
    let has = |purpose: Purpose| purpose.numbers(disk, folder).map(|numbers| !numbers.is_empty());
    Ok(has(Purpose::Image)? || has(Purpose::Log)?)
}

/// What recovery has found.
struct Recovered {
    /// What the folder has.
    kept: Kept,
    /// The place of the next record.
    next: u64,
    /// The number of the last log.
    last: u64,
    /// That of the last change that says one.
    moment: Option<i64>,
    lost_indexes: Vec<LostIndex>,
}

/// Reads the newest image and the logs behind it.
fn recover(
    disk: &dyn Disk,
    folder: &Path,
    catalog: &Catalog,
    surroundings: &dyn Surroundings,
    segments: &Arc<Segments>,
) -> Result<Recovered> {
    let images = Purpose::Image.numbers(disk, folder)?;
    let logs = Purpose::Log.numbers(disk, folder)?;
    let mut replay = Replay::new(catalog, surroundings, segments).storing_keys(segments.clone());
    let mut kept = Kept { first_log: 1, image_bytes: 0, earlier_bytes: 0 };
    if let Some(&number) = images.last() {
        let path = Purpose::Image.path(folder, number);
        let file = RecordFile::open(disk, &path, Purpose::Image)?;
        let Replayed { is_complete, bytes, file, .. } = replay.file(file.ok_or_else(|| damaged(&path, 0))?)?;
        if !is_complete {
            return Err(file.damaged());
        }
        (kept.first_log, kept.image_bytes) = (number, bytes);
    }
    let mut last = kept.first_log - 1;
    let mut before: Option<RecordFile> = None;
    for number in logs.into_iter().filter(|number| *number >= kept.first_log) {
        let path = Purpose::Log.path(folder, number);
        if number != last + 1 {
            let missing = Purpose::Log.path(folder, last + 1);
            return Err(Error::file(format!("{}: the file is missing", missing.display())).with_code("XX001"));
        }
        let opened = RecordFile::open(disk, &path, Purpose::Log)?;
        // A log is begun when all records of the one before it are on the disk, and knows how many these are.
        if let (Some(file), Some(before)) = (&opened, &before)
            && file.next > before.next
        {
            return Err(before.damaged());
        }
        let Some(file) = opened.filter(|file| before.as_ref().is_none_or(|before| before.next == file.next)) else {
            // One that was not begun to its end has no records, and none comes after it; the one before it went on.
            let is_empty = match RecordFile::open(disk, &path, Purpose::Log)? {
                Some(mut file) => file.read()?.is_none(),
                None => true,
            };
            if !is_empty || disk.meta(&Purpose::Log.path(folder, number + 1)).is_ok() {
                return Err(before.map_or_else(|| damaged(&path, 0), |before| before.damaged()));
            }
            disk.remove_file(&path).map_err(|error| failed(&path, &error))?;
            break;
        };
        let replayed = replay.file(file)?;
        replayed.file.check_end()?;
        kept.earlier_bytes += replayed.bytes;
        (before, last) = (Some(replayed.file), number);
    }
    if let Some(before) = &before {
        // What was read may be in the memory of the system alone, and the next log will build on it.
        before.sync()?;
    }
    // So may be the name of the image. What only earlier ones refer to is removed next.
    disk.sync_folder(folder).map_err(|error| failed(folder, &error))?;
    let (next, moment) = (before.map_or(1, |before| before.next), replay.moment());
    Ok(Recovered { kept, next, last, moment, lost_indexes: replay.settle_indexes()? })
}
