//! The files of a snapshot, from its list of manifests and the manifests.

use std::sync::Arc;

use diligence_base::{Error, Result};

use super::avro::{self, Value};
use super::metadata::Snapshot;
use crate::external::lake::place::Place;
use crate::external::lake::{LAKE_FILES_MAX, unsupported};

/// What a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Data,
    PositionDeletes,
    EqualityDeletes,
}

/// A file of a snapshot.
#[derive(Debug)]
pub(super) struct ListedFile {
    pub content: Content,
    pub path: String,
    pub format: String,
    pub rows: u64,
    pub bytes: u64,
    /// When it came: rows of older files are gone by it.
    pub sequence: i64,
    pub spec: i64,
    pub partition: Arc<Value>,
    /// The least and greatest values by the numbers of columns.
    pub least: Vec<(i64, Vec<u8>)>,
    pub greatest: Vec<(i64, Vec<u8>)>,
    pub nulls: Vec<(i64, u64)>,
    pub equality_ids: Vec<i64>,
    /// Of deletes of one data file: which.
    pub referenced: Option<String>,
    /// Of a deletion vector: where it is in its file.
    pub blob: Option<(u64, u64)>,
}

/// A manifest as a list has it.
struct Manifest {
    path: String,
    /// The manifest says it itself if `None`.
    spec: Option<i64>,
    /// 0 before the format had them.
    sequence: i64,
    has_deletes: bool,
}

/// The data files of a snapshot, and the files of deletes.
pub(super) fn files(place: &Place, snapshot: &Snapshot) -> Result<(Vec<ListedFile>, Vec<ListedFile>)> {
    let (mut data, mut deletes) = (Vec::new(), Vec::new());
    for manifest in manifests(place, snapshot)? {
        let (source, bytes) = place.read(&manifest.path)?;
        let read = avro::read(&source, &bytes)?;
        let noted = read.notes.get("partition-spec-id").and_then(|id| std::str::from_utf8(id).ok()?.parse().ok());
        let spec = manifest.spec.or(noted).unwrap_or(0);
        for entry in &read.records {
            // What is 2 is no longer there.
            if entry.whole("status") == Some(2) {
                continue;
            }
            let damaged = |what: &str| source.error(format!("an entry of the manifest has no {what}"));
            let file = entry.get("data_file").ok_or_else(|| damaged("file"))?;
            if file.get("key_metadata").is_some() {
                return Err(unsupported(&place.name, "Iceberg's encryption"));
            }
            let sequence = entry.whole("sequence_number").unwrap_or(manifest.sequence);
            let mut listed = listed(file, sequence, spec).ok_or_else(|| damaged("path"))?;
            if let (Content::Data, true) = (listed.content, manifest.has_deletes) {
                listed.content = Content::PositionDeletes;
            }
            let is_vector = listed.content == Content::PositionDeletes && listed.format.eq_ignore_ascii_case("puffin");
            if !listed.format.eq_ignore_ascii_case("parquet") && !is_vector {
                return Err(unsupported(&place.name, format!("an Iceberg table with {} files", listed.format)));
            }
            match listed.content {
                Content::Data => data.push(listed),
                _ => deletes.push(listed),
            }
            if data.len() + deletes.len() > LAKE_FILES_MAX {
                let what = format!("{}: a table of a lake has at most {LAKE_FILES_MAX} files", place.name);
                return Err(Error::resource(what));
            }
        }
    }
    Ok((data, deletes))
}

fn manifests(place: &Place, snapshot: &Snapshot) -> Result<Vec<Manifest>> {
    let Some(list) = &snapshot.manifest_list else {
        let plain = |path: &String| Manifest { path: path.clone(), spec: None, sequence: 0, has_deletes: false };
        return Ok(snapshot.manifests.iter().map(plain).collect());
    };
    let (source, bytes) = place.read(list)?;
    let read = avro::read(&source, &bytes)?;
    let manifests = read.records.iter().map(|record| {
        if record.get("key_metadata").is_some() {
            return Err(unsupported(&place.name, "Iceberg's encryption"));
        }
        let path = record.text("manifest_path").ok_or_else(|| source.error("a manifest in the list has no path"))?;
        Ok(Manifest {
            path: path.to_owned(),
            spec: record.whole("partition_spec_id"),
            sequence: record.whole("sequence_number").unwrap_or(0),
            has_deletes: record.whole("content") == Some(1),
        })
    });
    manifests.collect()
}

fn listed(file: &Value, sequence: i64, spec: i64) -> Option<ListedFile> {
    let count = |name: &str| file.whole(name).and_then(|count| u64::try_from(count).ok());
    let bounds = |name: &str| {
        let bounds = file.array(name).iter().filter_map(|entry| match entry.get("value")? {
            Value::Bytes(bytes) => Some((entry.whole("key")?, bytes.clone())),
            _ => None,
        });
        bounds.collect::<Vec<_>>()
    };
    let nulls = file.array("null_value_counts").iter();
    let nulls = nulls.filter_map(|entry| Some((entry.whole("key")?, u64::try_from(entry.whole("value")?).ok()?)));
    let ids = file.array("equality_ids").iter().filter_map(|id| match id {
        Value::Whole(id) => Some(*id),
        _ => None,
    });
    Some(ListedFile {
        content: match file.whole("content").unwrap_or(0) {
            0 => Content::Data,
            1 => Content::PositionDeletes,
            2 => Content::EqualityDeletes,
            _ => return None,
        },
        path: file.text("file_path")?.to_owned(),
        format: file.text("file_format")?.to_owned(),
        rows: count("record_count")?,
        bytes: count("file_size_in_bytes")?,
        sequence,
        spec,
        partition: Arc::new(file.get("partition").cloned().unwrap_or(Value::Null)),
        least: bounds("lower_bounds"),
        greatest: bounds("upper_bounds"),
        nulls: nulls.collect(),
        equality_ids: ids.collect(),
        referenced: file.text("referenced_data_file").map(str::to_owned),
        blob: count("content_offset").zip(count("content_size_in_bytes")),
    })
}
