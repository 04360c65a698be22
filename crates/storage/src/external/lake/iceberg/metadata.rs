//! The metadata of an Iceberg table: which file of it is the newest, and what it says.

use std::collections::HashMap;
use std::io::Read;

use diligence_base::{Error, Result};
use serde::Deserialize;
use serde_json::Value as Json;

use crate::external::lake::place::Place;
use crate::external::lake::{ICEBERG_METADATA, LOG_FILE_BYTES_MAX, is_iceberg_metadata, unsupported};
use crate::external::options::LakeMoment;

/// The newest version of the format that is read.
const FORMAT_VERSION_MAX: i64 = 3;

/// What a file of metadata says.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Metadata {
    pub format_version: i64,
    #[serde(default)]
    pub table_uuid: String,
    #[serde(default)]
    pub location: String,
    #[serde(default)]
    pub last_updated_ms: i64,
    /// Of the first version of the format.
    pub schema: Option<Json>,
    #[serde(default)]
    pub schemas: Vec<Json>,
    #[serde(default)]
    pub current_schema_id: i64,
    pub partition_spec: Option<Json>,
    #[serde(default)]
    pub partition_specs: Vec<Json>,
    pub current_snapshot_id: Option<i64>,
    #[serde(default)]
    pub snapshots: Vec<Snapshot>,
    #[serde(default)]
    pub snapshot_log: Vec<SnapshotLogEntry>,
    #[serde(default)]
    pub properties: HashMap<String, String>,
    pub encryption_keys: Option<Json>,
    pub view_uuid: Option<Json>,
}

/// A state of the table.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Snapshot {
    pub snapshot_id: i64,
    #[serde(default)]
    pub timestamp_ms: i64,
    pub manifest_list: Option<String>,
    #[serde(default)]
    pub manifests: Vec<String>,
    pub schema_id: Option<i64>,
}

/// When a state was the last one.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct SnapshotLogEntry {
    pub snapshot_id: i64,
    pub timestamp_ms: i64,
}

/// Reads the newest metadata of a table, or those in the file of this name.
pub(super) fn read(place: &Place, file: Option<&str>) -> Result<Metadata> {
    let name = &place.name;
    let metadata = match file {
        Some(file) => read_file(place, file)?,
        None => newest(place)?,
    };
    if metadata.view_uuid.is_some() {
        return Err(unsupported(name, "an Iceberg view"));
    }
    if !(1..=FORMAT_VERSION_MAX).contains(&metadata.format_version) {
        return Err(unsupported(name, format!("Iceberg's format in version {}", metadata.format_version)));
    }
    if metadata.encryption_keys.as_ref().is_some_and(|keys| keys.as_array().is_none_or(|keys| !keys.is_empty())) {
        return Err(unsupported(name, "Iceberg's encryption"));
    }
    Ok(metadata)
}

fn newest(place: &Place) -> Result<Metadata> {
    let name = &place.name;
    let mut newest: Option<(i64, i64, Metadata)> = None;
    let entries = place.list(ICEBERG_METADATA)?;
    let numbered = entries.iter().filter(|entry| is_iceberg_metadata(&entry.name));
    let numbered = numbered.filter_map(|entry| Some((number_of(&entry.name)?, &entry.name))).collect::<Vec<_>>();
    let Some(last) = last_number(place, &numbered)? else {
        let what = format!("there is no file of metadata in {ICEBERG_METADATA}");
        return Err(Error::file(format!("{name}: this is no Iceberg table: {what}")));
    };
    // Of several that writers have made at once, the table's is the one that was made last.
    for (_, file) in numbered.iter().filter(|(number, _)| *number == last) {
        let metadata = read_file(place, file)?;
        if newest.as_ref().is_none_or(|(number, time, _)| (last, metadata.last_updated_ms) > (*number, *time)) {
            newest = Some((last, metadata.last_updated_ms, metadata));
        }
    }
    let (_, _, metadata) = newest.ok_or_else(|| Error::bug("the newest metadata is not there"))?;
    Ok(metadata)
}

/// The number of the newest metadata: of the hint, if there is one, and those after it; otherwise the greatest.
fn last_number(place: &Place, numbered: &[(i64, &String)]) -> Result<Option<i64>> {
    let greatest = numbered.iter().map(|(number, _)| *number).max();
    let has = |number: i64| numbered.iter().any(|(other, _)| *other == number);
    if !place.list(ICEBERG_METADATA)?.iter().any(|entry| entry.name == "version-hint.text") {
        return Ok(greatest);
    }
    let (_, hint) = place.read(&format!("{ICEBERG_METADATA}/version-hint.text"))?;
    let hint = std::str::from_utf8(&hint).ok().and_then(|hint| hint.trim().parse::<i64>().ok());
    let Some(mut number) = hint.filter(|number| has(*number)) else { return Ok(greatest) };
    while has(number + 1) {
        number += 1;
    }
    Ok(Some(number))
}

/// The number in the name of a file: `v3.metadata.json`, `00003-….metadata.json`.
fn number_of(name: &str) -> Option<i64> {
    let digits = name.strip_prefix('v').unwrap_or(name);
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}

fn read_file(place: &Place, file: &str) -> Result<Metadata> {
    let (source, bytes) = place.read(&format!("{ICEBERG_METADATA}/{file}"))?;
    let mut unpacked = Vec::new();
    let text = match bytes.starts_with(&[0x1f, 0x8b]) {
        true => {
            let mut reader = flate2::read::MultiGzDecoder::new(bytes.as_ref()).take(LOG_FILE_BYTES_MAX);
            let failed = |error| source.error(format!("it cannot be unpacked: {error}"));
            reader.read_to_end(&mut unpacked).map_err(failed)?;
            unpacked.as_slice()
        }
        false => bytes.as_ref(),
    };
    serde_json::from_slice(text).map_err(|error| source.error(format!("this is no metadata of Iceberg: {error}")))
}

impl Metadata {
    /// The state that is meant; `None` if the table has none yet. The flag says whether it is a past one.
    pub fn snapshot(&self, table: &str, moment: Option<LakeMoment>) -> Result<Option<&Snapshot>> {
        let by_id = |id: i64| self.snapshots.iter().find(|snapshot| snapshot.snapshot_id == id);
        let id = match moment {
            None => match self.current_snapshot_id {
                None | Some(-1) => return Ok(None),
                Some(id) => id,
            },
            Some(LakeMoment::Version(id)) => id,
            Some(LakeMoment::Time(time)) => {
                let logged = self.snapshot_log.iter().map(|entry| (entry.timestamp_ms, entry.snapshot_id));
                let made = self.snapshots.iter().map(|snapshot| (snapshot.timestamp_ms, snapshot.snapshot_id));
                let all = if self.snapshot_log.is_empty() { made.collect::<Vec<_>>() } else { logged.collect() };
                let at = all.iter().filter(|(at, _)| at.saturating_mul(1000) <= time).max_by_key(|(at, _)| *at);
                match at {
                    Some((_, id)) => *id,
                    None => return Err(Error::input(format!("{table} has no snapshot of that time"))),
                }
            }
        };
        let missing = || match moment {
            None => Error::file(format!("{table}: its metadata has no snapshot {id}, which is the last one")),
            Some(_) => Error::input(format!("{table} has no snapshot {id}")).with_hint("snapshots expire"),
        };
        by_id(id).map(Some).ok_or_else(missing)
    }

    /// The schemas, the current one first.
    pub fn schema(&self, id: i64) -> Option<&Json> {
        let of_id = |schema: &&Json| schema.get("schema-id").and_then(Json::as_i64).unwrap_or(0) == id;
        self.schemas.iter().find(of_id)
    }
}
