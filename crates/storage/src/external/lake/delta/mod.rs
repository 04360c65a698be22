//! Delta Lake tables: the protocol's version 3 for readers, as far as its features are in [`READER_FEATURES`].
//!
//! `log` finds the state of a version: the newest checkpoint before it and the commits behind that. `actions` are what
//! a log consists of, `checkpoint` reads those of Parquet files, `schema` the columns, `deletion` the rows that are
//! gone.

mod actions;
mod checkpoint;
mod deletion;
mod log;
mod schema;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringArray, UInt64Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::ScalarValue;
use diligence_base::ids::TableVersion;
use diligence_base::{Error, Result};
use serde_json::Value;

use self::actions::{Add, DeletionVector, FileCount, FileStatistics, MetaData, Protocol};
use super::fields::{By, LakeField, LakeType};
use super::place::Place;
use super::table::{Bounds, Lake, LakeFile, LakeParts, LakeTable, unknown};
use super::{DELTA_LOG, unsupported};
use crate::RowFilter;
use crate::external::options::Format;
use crate::external::options::LakeMoment;
use crate::external::partitions::percent_decoded;
use crate::external::schema::type_name;

/// What readers must know of and this one knows of. Others are refused by their names.
const READER_FEATURES: [&str; 12] = [
    "columnMapping",
    "deletionVectors",
    "timestampNtz",
    "typeWidening",
    "typeWidening-preview",
    "v2Checkpoint",
    "vacuumProtocolCheck",
    "variantType",
    "variantType-preview",
    "variantShredding",
    "variantShredding-preview",
    // Only writers have to know of it; some tables list it for both.
    "domainMetadata",
];

/// The protocol's version for readers.
const READER_VERSION: i32 = 3;

/// Opens a table in its last state, or in the one that is meant.
pub(super) fn open(mut place: Place, moment: Option<LakeMoment>) -> Result<LakeTable> {
    let state = log::read(&place, moment)?;
    let name = place.name.clone();
    check(&name, &state.protocol)?;
    let MetaData { schema_string, partition_columns, configuration, format, .. } = &state.metadata;
    if let Some(format) = format.as_ref().filter(|format| !format.provider.eq_ignore_ascii_case("parquet")) {
        return Err(unsupported(&name, format!("a table of Delta Lake with {} files", format.provider)));
    }
    // The property counts only where the protocol has the feature.
    let mapping = configuration.get("delta.columnMapping.mode").cloned().flatten();
    let mapping = mapping.filter(|_| has_mapping(&state.protocol));
    let (by, is_mapped) = match mapping.as_deref().unwrap_or("none") {
        "none" => (By::Names, false),
        "name" => (By::Names, true),
        "id" => (By::Ids, true),
        other => return Err(unsupported(&name, format!("the column mapping mode '{other}'"))),
    };
    let fields = schema::fields(&name, schema_string, is_mapped)?;
    let mut partitions = Vec::with_capacity(partition_columns.len());
    for column in partition_columns {
        let place = fields.iter().position(|field| field.name == *column);
        let missing = || Error::file(format!("{name}: the partition column '{column}' is not in its schema"));
        partitions.push(place.ok_or_else(missing)?);
    }
    let (mut files, mut known) = (Vec::with_capacity(state.files.len()), Vec::with_capacity(state.files.len()));
    for add in state.files {
        let Add { path, partition_values, size, stats, deletion_vector, .. } = add;
        let mut constants = Vec::with_capacity(partitions.len());
        for &column in &partitions {
            let text = fields[column].names.iter().find_map(|name| partition_values.get(name)).cloned().flatten();
            let value = partition_value(&fields[column], text.as_deref())
                .ok_or_else(|| wrong_partition(&name, &path, &fields[column], text.as_deref()))?;
            constants.push((column, value));
        }
        let count: Option<FileCount> = stats.as_deref().and_then(|stats| serde_json::from_str(stats).ok());
        let rows_gone = deletion_vector.as_ref().map_or(Some(0), |vector| u64::try_from(vector.cardinality).ok());
        files.push(LakeFile {
            path: percent_decoded(&path),
            bytes: u64::try_from(size).unwrap_or(0),
            rows: count.and_then(|count| count.num_records),
            rows_gone,
            constants,
            fallbacks: Vec::new(),
        });
        known.push(FileKnown { stats, vector: deletion_vector });
    }
    let mut hasher = DefaultHasher::new();
    (&name, state.version, &state.metadata.id, state.fingerprint).hash(&mut hasher);
    place.told = None;
    Ok(LakeTable::new(LakeParts {
        format: Format::Delta,
        place,
        state: format!("version {}", state.version),
        version: TableVersion(hasher.finish()),
        lake: Box::new(DeltaLake { name, columns: fields.clone(), known }),
        fields,
        by,
        files,
        watched: vec![DELTA_LOG],
    }))
}

/// Whether a table can be read. Fails with code 0A000 if not, by the feature's name.
fn check(name: &str, protocol: &Protocol) -> Result<()> {
    let version = protocol.min_reader_version;
    if version > READER_VERSION {
        return Err(unsupported(name, format!("Delta Lake's protocol for readers in version {version}")));
    }
    let wanted = protocol.reader_features.iter().flatten();
    let unknown = wanted.filter(|feature| !READER_FEATURES.contains(&feature.as_str()));
    let unknown = unknown.map(|feature| format!("'{feature}'")).collect::<Vec<_>>();
    match unknown.as_slice() {
        [] => Ok(()),
        [one] => Err(unsupported(name, format!("Delta Lake's reader feature {one}"))),
        several => Err(unsupported(name, format!("Delta Lake's reader features {} together", several.join(", ")))),
    }
}

/// Whether columns may have other names in files: from version 2 of the protocol on, or as a feature of version 3.
fn has_mapping(protocol: &Protocol) -> bool {
    match &protocol.reader_features {
        Some(features) if protocol.min_reader_version >= READER_VERSION => {
            features.iter().any(|feature| feature == "columnMapping")
        }
        _ => protocol.min_reader_version == 2,
    }
}

fn wrong_partition(name: &str, path: &str, field: &LakeField, text: Option<&str>) -> Error {
    let (column, text) = (&field.name, text.unwrap_or_default());
    let ty = type_name(field.arrow(true).data_type());
    Error::file(format!("{name}: the log gives the partition column '{column}' of {path} the value '{text}', no {ty}"))
}

/// The value of a partition column from its text; `None` if it is none.
fn partition_value(field: &LakeField, text: Option<&str>) -> Option<ScalarValue> {
    let LakeType::Plain(ty) = &field.ty else { return None };
    // An empty text is NULL, also where texts are wanted.
    match text.filter(|text| !text.is_empty()) {
        None => ScalarValue::try_from(ty).ok(),
        Some(text) if *ty == DataType::BinaryView => Some(ScalarValue::BinaryView(Some(text.as_bytes().to_vec()))),
        Some(text) => {
            let value = ScalarValue::Utf8(Some(text.to_owned())).cast_to(ty).ok()?;
            (!value.is_null()).then_some(value)
        }
    }
}

/// What the log knows of a file, as it has it.
struct FileKnown {
    stats: Option<String>,
    vector: Option<DeletionVector>,
}

struct DeltaLake {
    name: String,
    columns: Vec<LakeField>,
    known: Vec<FileKnown>,
}

/// Digits of a decimal that a number of JSON, as it is read here, has exactly.
const EXACT_DIGITS_MAX: u8 = 15;

/// A bound as a text that casts to the column's type; `None` if that would not be the bound.
fn bound_text(value: &Value, ty: &DataType) -> Option<String> {
    match (value, ty) {
        (Value::String(text), DataType::Utf8View | DataType::Date32 | DataType::Timestamp(..)) => Some(text.clone()),
        (Value::Number(number), _) if ty.is_integer() => number.as_i64().map(|number| number.to_string()),
        (Value::Number(number), DataType::Decimal128(precision, scale)) => match number.as_i64() {
            Some(whole) => Some(whole.to_string()),
            None if *precision <= EXACT_DIGITS_MAX => {
                Some(format!("{:.*}", usize::try_from(*scale).ok()?, number.as_f64()?))
            }
            None => None,
        },
        _ => None,
    }
}

impl Lake for DeltaLake {
    fn bounds(&self, column: usize) -> Option<Bounds> {
        let field = &self.columns[column];
        let LakeType::Plain(ty) = &field.ty else { return None };
        let files = self.known.len();
        let (mut least, mut greatest, mut nulls) =
            (Vec::with_capacity(files), Vec::with_capacity(files), Vec::with_capacity(files));
        for known in &self.known {
            let stats = known.stats.as_deref().and_then(|stats| FileStatistics::of(stats, &field.names));
            let stats = stats.unwrap_or_default();
            least.push(stats.least.as_ref().and_then(|value| bound_text(value, ty)));
            greatest.push(stats.greatest.as_ref().and_then(|value| bound_text(value, ty)));
            nulls.push(stats.nulls);
        }
        let is_bounded =
            matches!(ty, DataType::Utf8View | DataType::Date32 | DataType::Timestamp(..) | DataType::Decimal128(..))
                || ty.is_integer();
        let (least, greatest) = match is_bounded {
            true => (typed(least, ty)?, later(typed(greatest, ty)?)?),
            false => (unknown(ty, files), unknown(ty, files)),
        };
        Some(Bounds { least, greatest, nulls: UInt64Array::from(nulls) })
    }

    fn deleted(&self, place: &Place, file: usize, rows: u64) -> Result<Option<BooleanBuffer>> {
        match &self.known[file].vector {
            Some(vector) => deletion::live_rows(&self.name, place, vector, rows).map(Some),
            None => Ok(None),
        }
    }

    fn filters(&self, _: &Place, _: usize) -> Result<Vec<Arc<dyn RowFilter>>> {
        Ok(Vec::new())
    }
}

/// Texts in a type; what does not convert is not known.
fn typed(texts: Vec<Option<String>>, ty: &DataType) -> Option<ArrayRef> {
    let texts = StringArray::from(texts);
    cast_with_options(&texts, ty, &CastOptions { safe: true, ..CastOptions::default() }).ok()
}

/// The greatest values of timestamps, which the log has in milliseconds, as the end of the millisecond.
fn later(greatest: ArrayRef) -> Option<ArrayRef> {
    let DataType::Timestamp(TimeUnit::Microsecond, zone) = greatest.data_type().clone() else { return Some(greatest) };
    use arrow::array::{AsArray, TimestampMicrosecondArray};
    use arrow::datatypes::TimestampMicrosecondType;
    let values = greatest.as_primitive::<TimestampMicrosecondType>();
    let later = values.iter().map(|value| value.map(|value| value.saturating_add(999)));
    let later: TimestampMicrosecondArray = later.collect();
    Some(Arc::new(later.with_timezone_opt(zone)))
}
