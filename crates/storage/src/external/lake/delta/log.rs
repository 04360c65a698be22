//! The state of a version: the newest checkpoint before it, and the commits behind that.
//!
//! The folder of the log is listed; the hint at the last checkpoint is not needed.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use diligence_base::{Error, Result};

use super::actions::{Action, Add, DeletionVector, MetaData, Protocol};
use super::checkpoint;
use crate::external::lake::place::{Entry, Place};
use crate::external::lake::{DELTA_LOG, LAKE_FILES_MAX};
use crate::external::options::LakeMoment;

/// The table in one version.
pub(super) struct State {
    pub version: i64,
    pub protocol: Protocol,
    pub metadata: MetaData,
    pub files: Vec<Add>,
    /// Differs where the same version is of another table.
    pub fingerprint: u64,
}

/// What a folder of a log has.
struct Listing {
    /// When each commit's file was changed last, in microseconds since 1970, if that is known.
    commits: BTreeMap<i64, Option<i64>>,
    /// The files of checkpoints, by version; each a whole checkpoint.
    checkpoints: BTreeMap<i64, Vec<String>>,
}

fn listing(entries: Vec<Entry>) -> Listing {
    let mut listing = Listing { commits: BTreeMap::new(), checkpoints: BTreeMap::new() };
    let mut parts: BTreeMap<(i64, usize), Vec<String>> = BTreeMap::new();
    for Entry { name, modified } in entries {
        let Some((digits, rest)) = name.split_at_checked(20) else { continue };
        let Some(version) = digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok()).flatten() else {
            continue;
        };
        let words = rest.trim_start_matches('.').split('.').collect::<Vec<_>>();
        match words.as_slice() {
            ["json"] => drop(listing.commits.insert(version, modified)),
            ["checkpoint", "parquet"] | ["checkpoint", _, "parquet" | "json"] => {
                listing.checkpoints.insert(version, vec![name.clone()]);
            }
            ["checkpoint", _, of, "parquet"] => {
                let Ok(of) = of.parse::<usize>() else { continue };
                let parts = parts.entry((version, of)).or_default();
                parts.push(name.clone());
                if parts.len() == of {
                    listing.checkpoints.entry(version).or_insert_with(|| parts.clone());
                }
            }
            _ => {}
        }
    }
    listing
}

/// Reads the log as of a moment; of now, if it is `None`. Fails with kind `File` if it is damaged, or has begun later.
pub(super) fn read(place: &Place, moment: Option<LakeMoment>) -> Result<State> {
    let name = &place.name;
    let listing = listing(place.list(DELTA_LOG)?);
    let newest = listing.commits.keys().next_back().or(listing.checkpoints.keys().next_back()).copied();
    let Some(newest) = newest else {
        return Err(Error::file(format!("{name}: this is no Delta Lake table: there is no log in {DELTA_LOG}")));
    };
    let newest = newest.max(listing.checkpoints.keys().next_back().copied().unwrap_or(newest));
    let version = match moment {
        None => newest,
        Some(LakeMoment::Version(version)) if version > newest || version < 0 => {
            return Err(Error::input(format!("{name} has no version {version}; its last one is {newest}")));
        }
        Some(LakeMoment::Version(version)) => version,
        Some(LakeMoment::Time(time)) => version_at(place, &listing, time)?,
    };
    let checkpoint = listing.checkpoints.range(..=version).next_back();
    let mut replay = Replay::new(name);
    let first = match checkpoint {
        Some((at, files)) => {
            checkpoint::read(place, files, &mut |action| replay.apply(action))?;
            at + 1
        }
        None => 0,
    };
    for at in first..=version {
        if !listing.commits.contains_key(&at) {
            let oldest = listing.checkpoints.keys().next().or(listing.commits.keys().next()).copied().unwrap_or(0);
            return Err(Error::file(format!(
                "{name}: version {version} cannot be read: commit {at} is not in its log"
            ))
            .with_hint(format!("logs are cleaned; the oldest version may be {oldest}")));
        }
        let path = format!("{DELTA_LOG}/{at:020}.json");
        let (source, bytes) = place.read(&path)?;
        checkpoint::lines(&source, &bytes, &mut |action| replay.apply(action))?;
    }
    replay.finish(version)
}

/// The last version that was there at a time.
fn version_at(place: &Place, listing: &Listing, time: i64) -> Result<i64> {
    let name = &place.name;
    let mut found = None;
    let mut earliest = None;
    for (version, modified) in &listing.commits {
        let path = format!("{DELTA_LOG}/{version:020}.json");
        let at = match commit_time(place, &path)? {
            Some(time) => Some(time),
            None => modified.or_else(|| place.modified(&path)),
        };
        let Some(at) = at else { continue };
        earliest.get_or_insert(at);
        if at <= time {
            found = Some(*version);
        }
    }
    found.ok_or_else(|| {
        let earliest = earliest.and_then(chrono::DateTime::from_timestamp_micros);
        let earliest = earliest.map_or_else(|| "later".to_owned(), |at| at.format("%F %T%.f UTC").to_string());
        Error::input(format!("{name} has no version of that time; its log begins {earliest}"))
    })
}

/// When a commit was made, in microseconds since 1970, if it says so itself.
fn commit_time(place: &Place, path: &str) -> Result<Option<i64>> {
    let (source, bytes) = place.read(path)?;
    // It is the first action where a table keeps it.
    let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let mut time = None;
    checkpoint::lines(&source, first, &mut |action| {
        time = action.commit_info.and_then(|info| info.in_commit_timestamp);
        Ok(())
    })?;
    Ok(time.and_then(|time| time.checked_mul(1000)))
}

/// Applies actions, in the order of their versions.
struct Replay<'a> {
    name: &'a str,
    protocol: Option<Protocol>,
    metadata: Option<MetaData>,
    /// In the order in which they came.
    files: Vec<Option<Add>>,
    /// Their places.
    places: HashMap<(String, Option<String>), usize>,
}

impl<'a> Replay<'a> {
    fn new(name: &'a str) -> Self {
        Self { name, protocol: None, metadata: None, files: Vec::new(), places: HashMap::new() }
    }

    fn apply(&mut self, action: Action) -> Result<()> {
        let key =
            |path: &str, vector: &Option<DeletionVector>| (path.to_owned(), vector.as_ref().map(DeletionVector::key));
        let Action { add, remove, meta_data, protocol, .. } = action;
        if let Some(remove) = remove
            && let Some(place) = self.places.remove(&key(&remove.path, &remove.deletion_vector))
        {
            self.files[place] = None;
        }
        if let Some(add) = add {
            let key = key(&add.path, &add.deletion_vector);
            match self.places.get(&key) {
                Some(place) => self.files[*place] = Some(add),
                None if self.files.len() >= LAKE_FILES_MAX => {
                    let what = format!("{}: a table of a lake has at most {LAKE_FILES_MAX} files", self.name);
                    return Err(Error::resource(what));
                }
                None => {
                    self.places.insert(key, self.files.len());
                    self.files.push(Some(add));
                }
            }
        }
        self.metadata = meta_data.or(self.metadata.take());
        self.protocol = protocol.or(self.protocol.take());
        Ok(())
    }

    fn finish(self, version: i64) -> Result<State> {
        let missing = |what: &str| Error::file(format!("{}: its log has no {what}; it is damaged", self.name));
        let metadata = self.metadata.ok_or_else(|| missing("action 'metaData'"))?;
        let protocol = self.protocol.ok_or_else(|| missing("action 'protocol'"))?;
        let files = self.files.into_iter().flatten().collect::<Vec<_>>();
        let mut hasher = DefaultHasher::new();
        for file in &files {
            (&file.path, file.size, file.deletion_vector.as_ref().map(DeletionVector::key)).hash(&mut hasher);
        }
        Ok(State { version, protocol, metadata, files, fingerprint: hasher.finish() })
    }
}
