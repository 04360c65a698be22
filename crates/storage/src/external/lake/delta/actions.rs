//! What a log consists of: a line of JSON for each action.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

/// A line: one of these, or none that readers need.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Action {
    pub add: Option<Add>,
    pub remove: Option<Remove>,
    pub meta_data: Option<MetaData>,
    pub protocol: Option<Protocol>,
    pub commit_info: Option<CommitInfo>,
    pub sidecar: Option<Sidecar>,
}

/// A file that is the table's from now on.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Add {
    pub path: String,
    #[serde(default)]
    pub partition_values: HashMap<String, Option<String>>,
    #[serde(default)]
    pub size: i64,
    pub stats: Option<String>,
    pub deletion_vector: Option<DeletionVector>,
}

/// A file that is the table's no longer.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Remove {
    pub path: String,
    pub deletion_vector: Option<DeletionVector>,
}

/// Which rows of a file are gone.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeletionVector {
    pub storage_type: String,
    pub path_or_inline_dv: String,
    pub offset: Option<i64>,
    pub size_in_bytes: i64,
    pub cardinality: i64,
}

impl DeletionVector {
    /// What tells it from others of the same file.
    pub fn key(&self) -> String {
        format!("{}{}@{}", self.storage_type, self.path_or_inline_dv, self.offset.unwrap_or(-1))
    }
}

/// The table's columns and settings.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MetaData {
    #[serde(default)]
    pub id: String,
    pub schema_string: String,
    #[serde(default)]
    pub partition_columns: Vec<String>,
    #[serde(default)]
    pub configuration: HashMap<String, Option<String>>,
    pub format: Option<FileFormat>,
}

/// The format of the data files.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct FileFormat {
    #[serde(default)]
    pub provider: String,
}

/// What readers must know of.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Protocol {
    pub min_reader_version: i32,
    pub reader_features: Option<Vec<String>>,
}

/// When a commit was made, if the table keeps that.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CommitInfo {
    /// Milliseconds since 1970.
    pub in_commit_timestamp: Option<i64>,
}

/// A file with a part of a checkpoint.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sidecar {
    pub path: String,
}

/// How many rows a file has.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FileCount {
    pub num_records: Option<u64>,
}

/// What is known of one column of a file.
#[derive(Debug, Default)]
pub(super) struct FileStatistics {
    pub least: Option<Value>,
    pub greatest: Option<Value>,
    pub nulls: Option<u64>,
}

impl FileStatistics {
    /// What the statistics of a file say of the column that has one of these names; `None` if they cannot be read.
    pub fn of(stats: &str, names: &[String]) -> Option<Self> {
        let mut json = serde_json::Deserializer::from_str(stats);
        json.deserialize_map(OfFile(names)).ok()
    }
}

struct OfFile<'a>(&'a [String]);

impl<'de> Visitor<'de> for OfFile<'_> {
    type Value = FileStatistics;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the statistics of a file")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut statistics = FileStatistics::default();
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            match key.as_ref() {
                "minValues" => statistics.least = map.next_value_seed(OfColumn(self.0))?,
                "maxValues" => statistics.greatest = map.next_value_seed(OfColumn(self.0))?,
                "nullCount" => {
                    let count = map.next_value_seed(OfColumn(self.0))?;
                    statistics.nulls = count.and_then(|count| count.as_u64());
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(statistics)
    }
}

/// The value of one of these names in an object.
struct OfColumn<'a>(&'a [String]);

impl<'de> DeserializeSeed<'de> for OfColumn<'_> {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for OfColumn<'_> {
    type Value = Option<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of columns")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            if self.0.iter().any(|name| *name == key) {
                found = Some(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}
