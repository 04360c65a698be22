//! Iceberg tables of the format's versions 1 to 3, by the metadata in their folder.
//!
//! `metadata` finds the newest state, `manifest` its files, in lists that `avro` reads. `schema` has the columns, which
//! files have by their numbers, and `deletes` the rows that are gone.

mod avro;
mod deletes;
mod manifest;
mod metadata;
mod schema;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use arrow::array::UInt64Array;
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::ScalarValue;
use diligence_base::ids::TableVersion;
use diligence_base::{Error, Result};
use serde_json::Value as Json;

use self::avro::Value;
use self::deletes::Deletes;
use self::manifest::ListedFile;
use super::ICEBERG_METADATA;
use super::fields::{By, LakeField, LakeType};
use super::place::Place;
use super::table::{Bounds, Lake, LakeFile, LakeParts, LakeTable, unknown};
use crate::RowFilter;
use crate::external::options::Format;
use crate::external::options::LakeMoment;

/// The property that has names of columns in files without numbers.
const NAME_MAPPING: &str = "schema.name-mapping.default";

/// Opens a table in its last state, or in the one that is meant, by the newest of its metadata, or by those in the file
/// of this name.
pub(super) fn open(mut place: Place, file: Option<&str>, moment: Option<LakeMoment>) -> Result<LakeTable> {
    let metadata = metadata::read(&place, file)?;
    let name = place.name.clone();
    place.told = Some(metadata.location.trim_end_matches('/').to_owned());
    let snapshot = metadata.snapshot(&name, moment)?;
    // A past state is read with the columns that it had.
    let past = snapshot.filter(|_| moment.is_some()).and_then(|snapshot| snapshot.schema_id);
    let schema = past.and_then(|id| metadata.schema(id)).or_else(|| metadata.schema(metadata.current_schema_id));
    let schema = schema.or(metadata.schema.as_ref());
    let schema = schema.ok_or_else(|| Error::file(format!("{name}: its metadata have no schema")))?;
    let mut fields = schema::fields(&name, schema)?;
    if let Some(mapping) = metadata.properties.get(NAME_MAPPING) {
        let mapping: Json = serde_json::from_str(mapping)
            .map_err(|error| Error::file(format!("{name}: its name mapping cannot be read: {error}")))?;
        schema::map_names(&mut fields, &mapping);
    }
    let specs = Specs::new(&metadata);
    let (data, deletes) = match snapshot {
        Some(snapshot) => manifest::files(&place, snapshot)?,
        None => (Vec::new(), Vec::new()),
    };
    let deletes = Deletes::new(&name, &fields, &data, deletes)?;
    let mut hasher = DefaultHasher::new();
    let id = snapshot.map(|snapshot| snapshot.snapshot_id);
    (&name, &metadata.table_uuid, id, schema.to_string()).hash(&mut hasher);
    let mut files = Vec::with_capacity(data.len());
    for (number, file) in data.iter().enumerate() {
        (&file.path, file.rows).hash(&mut hasher);
        files.push(LakeFile {
            path: file.path.clone(),
            bytes: file.bytes,
            rows: Some(file.rows),
            rows_gone: deletes.count_of(number),
            constants: Vec::new(),
            fallbacks: specs.identities(file, &fields),
        });
    }
    let state = match id {
        Some(id) => format!("snapshot {id}"),
        None => "no snapshot".to_owned(),
    };
    Ok(LakeTable::new(LakeParts {
        format: Format::Iceberg,
        place,
        state,
        version: TableVersion(hasher.finish()),
        lake: Box::new(IcebergLake { columns: fields.clone(), specs, data, deletes }),
        fields,
        by: By::IdsOrNames,
        files,
        watched: vec![ICEBERG_METADATA],
    }))
}

/// How partitions are made of columns.
struct Specs(HashMap<i64, Vec<PartitionField>>);

struct PartitionField {
    /// The number of the column that it is made of.
    column: i64,
    name: String,
    transform: String,
}

impl Specs {
    fn new(metadata: &metadata::Metadata) -> Self {
        let fields = |fields: &Json| {
            let fields = fields.as_array().into_iter().flatten().filter_map(|field| {
                Some(PartitionField {
                    column: field.get("source-id")?.as_i64()?,
                    name: field.get("name")?.as_str()?.to_owned(),
                    transform: field.get("transform")?.as_str()?.to_owned(),
                })
            });
            fields.collect::<Vec<_>>()
        };
        let mut specs = HashMap::new();
        if let Some(spec) = &metadata.partition_spec {
            specs.insert(0, fields(spec));
        }
        for spec in &metadata.partition_specs {
            let id = spec.get("spec-id").and_then(Json::as_i64).unwrap_or(0);
            specs.insert(id, spec.get("fields").map(fields).unwrap_or_default());
        }
        Self(specs)
    }

    /// The columns that have one value in a file because its partition is made of them, with that value.
    fn identities(&self, file: &ListedFile, fields: &[LakeField]) -> Vec<(usize, ScalarValue)> {
        let spec = self.0.get(&file.spec).into_iter().flatten().filter(|field| field.transform == "identity");
        let values = spec.filter_map(|field| {
            let column = fields.iter().position(|column| column.id.map(i64::from) == Some(field.column))?;
            let LakeType::Plain(ty) = &fields[column].ty else { return None };
            let value = part_of(&file.partition, &field.name)?;
            Some((column, schema::partition_value(value, ty)?))
        });
        values.collect()
    }

    /// The least and the greatest value that a column has in a file by its partition; `None` if that says nothing.
    fn range(&self, file: &ListedFile, id: i64, ty: &DataType) -> Option<(ScalarValue, ScalarValue)> {
        self.0.get(&file.spec)?.iter().filter(|field| field.column == id).find_map(|field| {
            let value = part_of(&file.partition, &field.name)?;
            if field.transform == "identity" {
                let value = schema::partition_value(value, ty).filter(|value| !value.is_null())?;
                return Some((value.clone(), value));
            }
            let Value::Whole(number) = value else { return None };
            range_of(&field.transform, *number, ty)
        })
    }
}

/// A field of a partition; its name may have been changed to one that Avro allows.
fn part_of<'a>(partition: &'a Value, name: &str) -> Option<&'a Value> {
    let Value::Record(fields) = partition else { return None };
    fields.iter().find(|(field, _)| field.as_ref() == name).map(|(_, value)| value)
}

/// The values whose transform is a number: from the least to the greatest.
fn range_of(transform: &str, number: i64, ty: &DataType) -> Option<(ScalarValue, ScalarValue)> {
    if let Some(width) = transform.strip_prefix("truncate[").and_then(|rest| rest.strip_suffix(']')) {
        let (width, least) = (width.parse::<i64>().ok()?, number);
        let greatest = least.checked_add(width.checked_sub(1)?)?;
        return match ty {
            DataType::Int32 => {
                Some((ScalarValue::Int32(i32::try_from(least).ok()), ScalarValue::Int32(i32::try_from(greatest).ok())))
            }
            DataType::Int64 => Some((ScalarValue::Int64(Some(least)), ScalarValue::Int64(Some(greatest)))),
            _ => None,
        };
    }
    let day_of = |months: i64| {
        let (year, month) = (1970 + months.div_euclid(12), 1 + months.rem_euclid(12));
        let first = chrono::NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, u32::try_from(month).ok()?, 1)?;
        Some(first.signed_duration_since(chrono::NaiveDate::default()).num_days())
    };
    let next = number.checked_add(1)?;
    // Hours since 1970 of the first value, and of the first that is too great.
    let (begin, end) = match transform {
        "year" => (day_of(number.checked_mul(12)?)?.checked_mul(24)?, day_of(next.checked_mul(12)?)?.checked_mul(24)?),
        "month" => (day_of(number)?.checked_mul(24)?, day_of(next)?.checked_mul(24)?),
        "day" => (number.checked_mul(24)?, next.checked_mul(24)?),
        "hour" => (number, next),
        _ => return None,
    };
    let in_units = |units: i64| Some((begin.checked_mul(units)?, end.checked_mul(units)?.checked_sub(1)?));
    match ty {
        DataType::Date32 if transform != "hour" => {
            let (least, greatest) = (i32::try_from(begin / 24).ok()?, i32::try_from(end / 24 - 1).ok()?);
            Some((ScalarValue::Date32(Some(least)), ScalarValue::Date32(Some(greatest))))
        }
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            let (least, greatest) = in_units(3_600_000_000)?;
            let value = |time| ScalarValue::TimestampMicrosecond(Some(time), zone.clone());
            Some((value(least), value(greatest)))
        }
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
            let (least, greatest) = in_units(3_600_000_000_000)?;
            let value = |time| ScalarValue::TimestampNanosecond(Some(time), zone.clone());
            Some((value(least), value(greatest)))
        }
        _ => None,
    }
}

struct IcebergLake {
    columns: Vec<LakeField>,
    specs: Specs,
    data: Vec<ListedFile>,
    deletes: Deletes,
}

impl Lake for IcebergLake {
    fn bounds(&self, column: usize) -> Option<Bounds> {
        let field = &self.columns[column];
        let LakeType::Plain(ty) = &field.ty else { return None };
        let id = i64::from(field.id?);
        let of = |bounds: &[(i64, Vec<u8>)]| {
            let (_, bytes) = bounds.iter().find(|(column, _)| *column == id)?;
            schema::bound(bytes, ty)
        };
        // Not a number is beyond all bounds.
        let is_bounded = !ty.is_floating();
        let null = ScalarValue::try_from(ty).ok()?;
        let (mut least, mut greatest, mut nulls) = (Vec::new(), Vec::new(), Vec::new());
        for file in &self.data {
            let range = if is_bounded { self.specs.range(file, id, ty) } else { None };
            let (first, last) = range.unzip();
            least.push(of(&file.least).or(first).unwrap_or_else(|| null.clone()));
            greatest.push(of(&file.greatest).or(last).unwrap_or_else(|| null.clone()));
            nulls.push(file.nulls.iter().find(|(column, _)| *column == id).map(|(_, nulls)| *nulls));
        }
        let array = |values: Vec<ScalarValue>| match values.is_empty() {
            true => Some(unknown(ty, 0)),
            false => ScalarValue::iter_to_array(values).ok(),
        };
        Some(Bounds { least: array(least)?, greatest: array(greatest)?, nulls: UInt64Array::from(nulls) })
    }

    fn deleted(&self, place: &Place, file: usize, rows: u64) -> Result<Option<BooleanBuffer>> {
        self.deletes.deleted(place, file, &self.data[file].path, rows)
    }

    fn filters(&self, place: &Place, file: usize) -> Result<Vec<Arc<dyn RowFilter>>> {
        self.deletes.filters(place, file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_ranges_of_their_columns() {
        let date = |day: i32| ScalarValue::Date32(Some(day));
        assert_eq!(range_of("year", 54, &DataType::Date32), Some((date(19_723), date(20_088))));
        assert_eq!(range_of("month", -1, &DataType::Date32), Some((date(-31), date(-1))));
        assert_eq!(range_of("day", 7, &DataType::Date32), Some((date(7), date(7))));
        assert_eq!(range_of("hour", 7, &DataType::Date32), None);
        let time = |time| ScalarValue::TimestampMicrosecond(Some(time), None);
        let stamp = DataType::Timestamp(TimeUnit::Microsecond, None);
        assert_eq!(range_of("hour", 1, &stamp), Some((time(3_600_000_000), time(7_199_999_999))));
        let number = |number| ScalarValue::Int64(Some(number));
        assert_eq!(range_of("truncate[10]", -10, &DataType::Int64), Some((number(-10), number(-1))));
        assert_eq!(range_of("bucket[4]", 1, &DataType::Int64), None);
        assert_eq!(range_of("year", i64::MAX, &DataType::Date32), None);
    }
}
