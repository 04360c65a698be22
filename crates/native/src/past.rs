//! The past of a database before it was opened: images and logs that stay as long as it is retained.
//!
//! ```text
//!   folder/  history       for how long the past is retained, and since when
//!            image-000004  everything at a moment, which it says
//!            log-000004    what has happened since then, each change behind its moment
//!            image-000009  …
//! ```
//!
//! What there was at a moment is read from the newest image before it and from the logs behind that image. Nothing of
//! it is in memory before somebody asks, and the last answers stay for a minute. What there was since the opening is in
//! the catalog ([`History`](diligence_catalog::History)).
//!
//! Invariant: as long as the past is retained, there are an image as old as that, or the beginning of the database, all
//! logs behind it, and all segments to which these refer.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use diligence_base::seams::Disk;
use diligence_base::{Error, ErrorKind, Result};
use diligence_catalog::{Catalog, CatalogSnapshot, EarlierHistory};
use parking_lot::{Mutex, MutexGuard};

use crate::directories::{read_text, write_text};
use crate::files::{Purpose, RecordFile, damaged, failed};
use crate::record::{files_of, is_end, moment_in};
use crate::replay::{Replay, Surroundings};
use crate::segments::Segments;

/// The file that says how long the past is retained.
const FILE: &str = "history";
/// It, while it is written.
const FILE_NEW: &str = "history.new";
/// Moments that stay in memory when they have been read.
const READ_MAX: usize = 2;
/// How long one stays after it was asked for.
const READ_STAYS: Duration = Duration::from_secs(60);
/// The moment of an image that says none: of a time whose past was not retained.
const UNKNOWN: i64 = i64::MIN;

/// How the past is retained, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retained {
    /// For how long.
    pub retention: i64,
    /// Since when, since 1970.
    pub since: i64,
}

/// Makes what a recovery into an empty catalog asks for.
type MakeSurroundings = Box<dyn Fn(&Arc<Catalog>) -> Box<dyn Surroundings> + Send + Sync>;

/// The files of the past. Used from any thread. Of its locks, `read` is taken first.
pub(crate) struct PastFiles {
    folder: PathBuf,
    disk: Arc<dyn Disk>,
    catalog: Arc<Catalog>,
    segments: Arc<Segments>,
    surroundings: OnceLock<MakeSurroundings>,
    files: Mutex<Files>,
    /// What was read. No file is removed while somebody has it.
    read: Mutex<Vec<ReadMoment>>,
}

#[derive(Default)]
struct Files {
    retained: Option<Retained>,
    /// The images by number, with the moments that they are of. The first one may be the beginning of the database,
    /// which has no image.
    images: BTreeMap<u64, i64>,
    /// The segments and key files to which images refer, and the logs of earlier processes, by their numbers.
    references: BTreeMap<u64, HashSet<u64>>,
    /// Whether these are those of all images and logs.
    is_found: bool,
    /// The last log before the database was opened.
    last_log: u64,
    /// Up to when it is the past of an earlier process.
    end: i64,
}

/// What there was from one moment to another one, which is no part of it.
pub(crate) struct ReadMoment {
    from: i64,
    to: i64,
    snapshot: CatalogSnapshot,
    used: Instant,
}

impl PastFiles {
    /// Those of a folder. Fails with kind `File` if it cannot be read, with code XX001 if its file about them is
    /// damaged.
    pub fn open(folder: &Path, disk: Arc<dyn Disk>, catalog: Arc<Catalog>, segments: Arc<Segments>) -> Result<Self> {
        let path = folder.join(FILE);
        let parsed = |text: String| {
            let numbers = text.split_whitespace().map(str::parse::<i64>).collect::<std::result::Result<Vec<_>, _>>();
            match numbers.as_deref() {
                Ok([retention, since]) if *retention > 0 => Ok(Retained { retention: *retention, since: *since }),
                _ => Err(Error::file(format!("{}: it is damaged", path.display()))
                    .with_code("XX001")
                    .with_hint("remove it: without it, only the past is not found")),
            }
        };
        let retained = read_text(&*disk, &path)?.map(parsed).transpose()?;
        let files = Mutex::new(Files { retained, ..Files::default() });
        let (surroundings, read) = (OnceLock::new(), Mutex::default());
        Ok(Self { folder: folder.to_owned(), disk, catalog, segments, surroundings, files, read })
    }

    /// What reads definitions of the past. Called once; nothing is read before.
    pub fn read_with(&self, surroundings: MakeSurroundings) {
        let _ = self.surroundings.set(surroundings);
    }

    pub fn retained(&self) -> Option<Retained> {
        self.files.lock().retained
    }

    /// Retains the past for so many microseconds, and since now if it was not before; not at all if that is 0. Fails
    /// with kind `File` if that cannot be kept.
    pub fn retain(&self, retention: i64, now: i64) -> Result<()> {
        let mut files = self.files.lock();
        let since = files.retained.map_or(now, |retained| retained.since);
        let retained = (retention > 0).then_some(Retained { retention, since });
        if retained == files.retained {
            return Ok(());
        }
        let path = self.folder.join(FILE);
        match retained {
            Some(Retained { retention, since }) => {
                write_text(&*self.disk, &self.folder.join(FILE_NEW), &path, &format!("{retention} {since}\n"))?;
            }
            None => {
                let removed = self.disk.remove_file(&path).and_then(|()| self.disk.sync_folder(&self.folder));
                removed.map_err(|error| failed(&path, &error))?;
            }
        }
        files.retained = retained;
        Ok(())
    }

    /// The database has been opened: up to this log its files are of earlier processes.
    pub fn begin(&self, last_log: u64, end: i64) {
        let mut files = self.files.lock();
        (files.last_log, files.end) = (last_log, end);
    }

    /// Finds the images from a number on, without reading them, and what leads on from them. Fails with kind `File` if
    /// the folder cannot be read.
    pub fn find_images(&self, from: u64) -> Result<()> {
        let (folder, disk) = (&self.folder, &*self.disk);
        let last_log = self.files.lock().last_log;
        let logs = Purpose::Log.numbers(disk, folder)?.into_iter().collect::<HashSet<_>>();
        // Images before a log that is missing lead nowhere.
        let whole = (from.max(1)..=last_log).rev().take_while(|number| logs.contains(number)).last();
        let first = whole.unwrap_or(last_log + 1).max(from);
        let numbers = Purpose::Image.numbers(disk, folder)?;
        let mut images = BTreeMap::new();
        if first == 1 && !numbers.contains(&1) {
            images.insert(1, UNKNOWN);
        }
        for number in numbers.into_iter().filter(|number| *number >= first) {
            // One that cannot be read is no part of the past.
            images.extend(self.moment_of(number).ok().map(|moment| (number, moment)));
        }
        self.files.lock().images.extend(images);
        Ok(())
    }

    /// The moment that an image is of.
    fn moment_of(&self, image: u64) -> Result<i64> {
        let path = Purpose::Image.path(&self.folder, image);
        let mut file = RecordFile::open(&*self.disk, &path, Purpose::Image)?.ok_or_else(|| damaged(&path, 0))?;
        let first = file.read()?.ok_or_else(|| file.damaged())?;
        Ok(moment_in(&first).unwrap_or(UNKNOWN))
    }

    /// Reads to which segments and key files the images and the logs of earlier processes refer, once. What cannot be
    /// read is no part of the past any more. False if that is the case of the newest image or of a log behind it, so
    /// that it is not known what may go.
    pub fn find_references(&self, newest: u64) -> bool {
        let (images, last_log) = {
            let files = self.files.lock();
            if files.is_found || files.retained.is_none() {
                return true;
            }
            (files.images.keys().copied().collect::<Vec<_>>(), files.last_log)
        };
        let mut references = BTreeMap::<u64, HashSet<u64>>::new();
        let mut unreadable = None;
        let logs = images.first().copied().unwrap_or(newest)..=last_log;
        let images = images.into_iter().map(|number| (Purpose::Image, number));
        for (purpose, number) in images.chain(logs.map(|number| (Purpose::Log, number))) {
            match self.look_through(purpose, number) {
                Ok(found) => references.entry(number).or_default().extend(found),
                Err(_) => unreadable = unreadable.max(Some(number)),
            }
        }
        let mut files = self.files.lock();
        for (number, found) in references {
            files.references.entry(number).or_default().extend(found);
        }
        match unreadable {
            Some(unreadable) if unreadable >= newest => return false,
            Some(unreadable) => files.images = files.images.split_off(&(unreadable + 1)),
            None => {}
        }
        files.is_found = true;
        true
    }

    /// The files to which the records of an image or of a log refer.
    fn look_through(&self, purpose: Purpose, number: u64) -> Result<HashSet<u64>> {
        let path = purpose.path(&self.folder, number);
        let (mut found, mut is_complete) = (HashSet::new(), false);
        let file = match purpose {
            // The beginning of the database.
            Purpose::Image if number == 1 && self.disk.meta(&path).is_err() => return Ok(found),
            _ => RecordFile::open(&*self.disk, &path, purpose)?,
        };
        // A log that was not begun to its end has no records.
        let Some(mut file) = file else {
            return if purpose == Purpose::Log { Ok(found) } else { Err(damaged(&path, 0)) };
        };
        while let Some(record) = file.read()? {
            is_complete = is_end(&record);
            found.extend(files_of(&record)?);
        }
        match purpose {
            Purpose::Image if !is_complete => Err(file.damaged()),
            Purpose::Image => Ok(found),
            Purpose::Log => file.check_end().map(|()| found),
        }
    }

    /// There is another image, of a moment if the past is retained, which refers to these files.
    pub fn add_image(&self, number: u64, moment: Option<i64>, references: HashSet<u64>) {
        let mut files = self.files.lock();
        files.images.insert(number, moment.unwrap_or(UNKNOWN));
        files.references.entry(number).or_default().extend(references);
    }

    /// Whether an image or a log refers to a segment or key file, as far as that is known.
    pub fn refers_to(&self, file: u64) -> bool {
        self.files.lock().references.values().any(|references| references.contains(&file))
    }

    /// Whether an image or a log before this image refers to a segment or key file, or may do so.
    pub fn may_refer_before(&self, image: u64, file: u64) -> bool {
        let files = self.files.lock();
        files.retained.is_some() && !files.is_found
            || files.references.range(..image).any(|(_, references)| references.contains(&file))
    }

    /// Whether the image of this number is known.
    pub fn has_image(&self, image: u64) -> bool {
        self.files.lock().images.contains_key(&image)
    }

    /// Whether files of the past are not retained any more. `newest` is the number of the newest image.
    pub fn has_superfluous(&self, newest: u64, now: i64) -> bool {
        let files = self.files.lock();
        let first = files.first_kept(newest, now);
        files.retained.is_some()
            && files.images.contains_key(&newest)
            && files.images.first_key_value().is_some_and(|(image, _)| *image < first)
    }

    /// Forgets files that are not retained any more and what was read of them, and gives the number of the first image
    /// and log that stay.
    pub fn forget_superfluous(&self, newest: u64, now: i64, read: &mut Vec<ReadMoment>) -> u64 {
        let mut files = self.files.lock();
        let oldest = files.retained.map_or(i64::MAX, |retained| now.saturating_sub(retained.retention));
        read.retain(|read| read.to > oldest);
        let first = files.first_kept(newest, now);
        files.images = files.images.split_off(&first);
        files.references = files.references.split_off(&first);
        first
    }

    /// Nobody reads the past until this is dropped.
    pub fn unread(&self) -> MutexGuard<'_, Vec<ReadMoment>> {
        self.read.lock()
    }

    /// Gives up what was read a while ago.
    pub fn trim(&self) {
        // Whoever reads comes first.
        if let Some(mut read) = self.read.try_lock() {
            read.retain(|read| read.used.elapsed() < READ_STAYS);
        }
    }

    /// Reads what there was at a moment, by way of an image, up to a log.
    fn read(&self, make: &MakeSurroundings, moment: i64, image: (u64, i64), last_log: u64) -> Result<ReadMoment> {
        let catalog = Arc::new(self.catalog.of_past());
        let surroundings = make(&catalog);
        let mut replay = Replay::new(&catalog, &*surroundings, &self.segments).until(moment);
        let (number, made) = image;
        let path = Purpose::Image.path(&self.folder, number);
        if number > 1 || self.disk.meta(&path).is_ok() {
            let file = RecordFile::open(&*self.disk, &path, Purpose::Image)?.ok_or_else(|| damaged(&path, 0))?;
            let replayed = replay.file(file)?;
            if !replayed.is_complete {
                return Err(replayed.file.damaged());
            }
        }
        for log in number..=last_log {
            if replay.next_moment().is_some() {
                break;
            }
            let path = Purpose::Log.path(&self.folder, log);
            if let Some(file) = RecordFile::open(&*self.disk, &path, Purpose::Log)? {
                replay.file(file)?;
            }
        }
        let (from, to) = (replay.moment().unwrap_or(made), replay.next_moment().unwrap_or(i64::MAX));
        Ok(ReadMoment { from, to, snapshot: catalog.snapshot(), used: Instant::now() })
    }
}

impl Files {
    /// The first image that the past needs; the newest one, if nothing is retained.
    fn first_kept(&self, newest: u64, now: i64) -> u64 {
        let Some(Retained { retention, since }) = self.retained else { return newest };
        let oldest = now.saturating_sub(retention).max(since);
        let before = self.images.iter().rev().find(|(_, moment)| **moment <= oldest);
        before.or_else(|| self.images.first_key_value()).map_or(newest, |(number, _)| (*number).min(newest))
    }
}

impl EarlierHistory for PastFiles {
    fn at(&self, moment: i64) -> Result<Option<CatalogSnapshot>> {
        let mut read = self.read.lock();
        let (images, last_log) = {
            let files = self.files.lock();
            if !files.retained.is_some_and(|Retained { since, .. }| (since..files.end).contains(&moment)) {
                return Ok(None);
            }
            let earlier = files.images.range(..=files.last_log + 1).filter(|(_, made)| **made <= moment);
            (earlier.map(|(number, made)| (*number, *made)).collect::<Vec<_>>(), files.last_log)
        };
        if let Some(found) = read.iter_mut().find(|read| (read.from..read.to).contains(&moment)) {
            found.used = Instant::now();
            return Ok(Some(found.snapshot.clone()));
        }
        let Some(make) = self.surroundings.get() else { return Ok(None) };
        if read.len() >= READ_MAX
            && let Some(oldest) = (0..read.len()).min_by_key(|place| read[*place].used)
        {
            read.swap_remove(oldest);
        }
        let mut failure = None;
        for image in images.into_iter().rev() {
            match self.read(make, moment, image, last_log) {
                Ok(found) => {
                    let snapshot = found.snapshot.clone();
                    read.push(found);
                    return Ok(Some(snapshot));
                }
                // An earlier one leads there as well, over more logs.
                Err(error) if error.kind() == ErrorKind::File => failure = failure.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        failure.map_or(Ok(None), Err)
    }

    fn oldest(&self) -> Option<i64> {
        let files = self.files.lock();
        let (_, first) = files.images.first_key_value()?;
        let oldest = files.retained?.since.max(*first);
        (oldest < files.end).then_some(oldest)
    }
}
