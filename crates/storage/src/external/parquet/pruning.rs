//! Leaves out row groups that cannot hold a row for which a predicate is true: by the minima and maxima in the footer,
//! which are a zone map, and by Bloom filters for equality.
//!
//! Floating-point minima and maxima are not used: writers leave NaN out of them, but NaN compares with everything here.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, UInt64Array, new_null_array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::nullif;
use arrow::datatypes::{DataType, Field};
use datafusion_common::ScalarValue;
use datafusion_physical_expr::PhysicalExpr;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::basic::{ConvertedType, LogicalType, Type as PhysicalType};
use parquet::bloom_filter::Sbbf;
use parquet::file::metadata::RowGroupMetaData;
use parquet::schema::types::ColumnDescriptor;

use super::footer::{is_interval, is_uuid};
use super::guard::guard;
use super::infinities::with_infinities;
use super::{ParquetFile, ParquetTable};
use crate::Zone;
use crate::external::schema::{conform, is_wider, logical_type};
use crate::zones::{ZoneMap, may_be_true};

/// A Bloom filter longer than this is not read while planning.
const BLOOM_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Tries a predicate on the row groups of a table's files.
pub(super) struct Pruner<'a> {
    table: &'a ParquetTable,
    predicate: Option<&'a Arc<dyn PhysicalExpr>>,
}

impl<'a> Pruner<'a> {
    pub fn new(table: &'a ParquetTable, predicate: Option<&'a Arc<dyn PhysicalExpr>>) -> Self {
        Self { table, predicate }
    }

    /// For each row group of a file whether it may hold a wanted row. Empty: all may, also where the predicate fails,
    /// as it will for a row then, if one is looked at.
    pub fn row_groups(&self, file: &ParquetFile) -> Vec<bool> {
        let Some(predicate) = self.predicate else { return Vec::new() };
        let statistics = RowGroupStatistics { table: self.table, file };
        may_be_true(predicate, &self.table.schema, &statistics).unwrap_or_default()
    }
}

/// The footer's statistics of a file's row groups, by the table's column names and types.
struct RowGroupStatistics<'a> {
    table: &'a ParquetTable,
    file: &'a ParquetFile,
}

impl RowGroupStatistics<'_> {
    fn bound(&self, column: usize, bound: Bound) -> Option<ArrayRef> {
        let target = self.table.schema.field(column).data_type();
        match (self.file.flat_leaf(column), self.file.roots[column]) {
            (Some(leaf), _) => self.file.bounds(leaf, target, bound),
            // The file does not have the column: every value is NULL.
            (None, None) => Some(new_null_array(target, self.zones())),
            (None, Some(_)) => None,
        }
    }
}

impl ZoneMap for RowGroupStatistics<'_> {
    fn zones(&self) -> usize {
        self.file.metadata.num_row_groups()
    }

    fn least(&self, column: usize) -> Option<ArrayRef> {
        self.bound(column, Bound::Min)
    }

    fn greatest(&self, column: usize) -> Option<ArrayRef> {
        self.bound(column, Bound::Max)
    }

    fn nulls(&self, column: usize) -> Option<UInt64Array> {
        match (self.file.flat_leaf(column), self.file.roots[column]) {
            (Some(leaf), _) => Some(self.file.null_counts(leaf)),
            (None, None) => self.rows(),
            (None, Some(_)) => None,
        }
    }

    fn rows(&self) -> Option<UInt64Array> {
        let rows = self.file.metadata.row_groups().iter().map(|group| group.num_rows() as u64);
        Some(UInt64Array::from_iter_values(rows))
    }

    fn lacks(&self, column: usize, values: &[ScalarValue]) -> Option<BooleanBuffer> {
        let leaf = self.file.flat_leaf(column)?;
        let groups = self.file.metadata.row_groups();
        if groups.iter().all(|group| group.column(leaf).bloom_filter_offset().is_none()) {
            return None;
        }
        let field_type = self.file.field_of(leaf).map(|field| logical_type(field.data_type()))?;
        let is_alike =
            |value: &ScalarValue| value.data_type() == field_type || is_text(&value.data_type(), &field_type);
        if *self.table.schema.field(column).data_type() != field_type || !values.iter().all(is_alike) {
            return None;
        }
        let lacks = |group: usize| {
            let group = &groups[group];
            let Some(filter) = self.file.bloom_filter(group, leaf) else { return false };
            !values.iter().any(|value| may_contain(&filter, value, group.column(leaf).column_type()))
        };
        Some(BooleanBuffer::collect_bool(groups.len(), lacks))
    }
}

/// A row group's number of NULLs in a leaf, if it is known.
fn nulls_in(group: &RowGroupMetaData, leaf: usize) -> Option<u64> {
    let chunk = group.column(leaf);
    if chunk.column_descr().max_def_level() == 0 {
        return Some(0);
    }
    let nulls = chunk.statistics()?.null_count_opt()?;
    (nulls <= group.num_rows() as u64).then_some(nulls)
}

fn is_text(one: &DataType, other: &DataType) -> bool {
    let is_text = |data_type: &DataType| matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    is_text(one) && is_text(other)
}

/// Whether a Bloom filter may have seen a value; true for types it cannot be asked about.
fn may_contain(filter: &Sbbf, value: &ScalarValue, physical: PhysicalType) -> bool {
    match (value, physical) {
        (
            ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)) | ScalarValue::LargeUtf8(Some(text)),
            PhysicalType::BYTE_ARRAY,
        ) => filter.check(&text.as_str()),
        (ScalarValue::BinaryView(Some(bytes)) | ScalarValue::Binary(Some(bytes)), PhysicalType::BYTE_ARRAY) => {
            filter.check(bytes.as_slice())
        }
        (ScalarValue::Int32(Some(number)) | ScalarValue::Date32(Some(number)), PhysicalType::INT32) => {
            filter.check(number)
        }
        (ScalarValue::Int16(Some(number)), PhysicalType::INT32) => filter.check(&i32::from(*number)),
        (ScalarValue::Int8(Some(number)), PhysicalType::INT32) => filter.check(&i32::from(*number)),
        (ScalarValue::Int64(Some(number)), PhysicalType::INT64) => filter.check(number),
        (ScalarValue::Decimal128(Some(number), ..), PhysicalType::INT32) => {
            i32::try_from(*number).is_ok_and(|number| filter.check(&number))
        }
        (ScalarValue::Decimal128(Some(number), ..), PhysicalType::INT64) => {
            i64::try_from(*number).is_ok_and(|number| filter.check(&number))
        }
        _ => true,
    }
}

/// A side of a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Bound {
    Min,
    Max,
}

impl ParquetFile {
    /// The leaf of a column of the table, if the file has it and it is no list, struct or map.
    pub(super) fn flat_leaf(&self, column: usize) -> Option<usize> {
        let root = self.roots.get(column).copied().flatten()?;
        let leaves = self.leaves[root].clone();
        (leaves.len() == 1 && !self.schema.field(root).data_type().is_nested()).then_some(leaves.start)
    }

    /// The field that a leaf of a flat column belongs to.
    pub(super) fn field_of(&self, leaf: usize) -> Option<&Field> {
        self.leaves.iter().position(|leaves| leaves.contains(&leaf)).map(|root| self.schema.field(root))
    }

    /// Each row group's least or greatest value of a leaf, in the table's type; NULL where unknown.
    pub(super) fn bounds(&self, leaf: usize, target: &DataType, bound: Bound) -> Option<ArrayRef> {
        self.bounds_of(self.metadata.row_groups(), leaf, target, bound)
    }

    /// Where a column's values lie in a row group.
    pub(super) fn zone(&self, column: usize, target: &DataType, row_group: usize) -> Option<Zone> {
        let leaf = self.flat_leaf(column)?;
        let group = self.metadata.row_groups().get(row_group..=row_group)?;
        let nulls = nulls_in(&group[0], leaf);
        let end = |bound| {
            let values = self.bounds_of(group, leaf, target, bound)?;
            ScalarValue::try_from_array(&values, 0).ok().filter(|value| !value.is_null())
        };
        let bounds = match nulls == Some(group[0].num_rows() as u64) {
            true => None,
            false => Some((end(Bound::Min)?, end(Bound::Max)?)),
        };
        Some(Zone { bounds, may_have_nulls: nulls != Some(0) })
    }

    fn bounds_of(&self, groups: &[RowGroupMetaData], leaf: usize, target: &DataType, bound: Bound) -> Option<ArrayRef> {
        let field = self.field_of(leaf)?;
        let logical = logical_type(field.data_type());
        if logical.is_floating() || !is_wider(&logical, target) {
            return None;
        }
        let field = Field::new(field.name(), logical, true);
        let descriptor = self.metadata.file_metadata().schema_descr();
        let read = || {
            let converter = StatisticsConverter::from_column_index(leaf, &field, descriptor)?;
            match bound {
                Bound::Min => converter.row_group_mins(groups),
                Bound::Max => converter.row_group_maxes(groups),
            }
        };
        let bounds = guard(&self.source, "its statistics cannot be read", read).ok()?;
        let untrusted = groups.iter().map(|group| Some(!is_trusted(group, leaf))).collect::<BooleanArray>();
        let bounds = if untrusted.true_count() == 0 { bounds } else { nullif(&bounds, &untrusted).ok()? };
        if bounds.len() != groups.len() {
            return None;
        }
        let bounds = conform(bounds, target, false).ok()?;
        Some(if self.is_by_duckdb() { with_infinities(bounds) } else { bounds })
    }

    /// Each row group's number of NULLs in a leaf; NULL where unknown.
    pub(super) fn null_counts(&self, leaf: usize) -> UInt64Array {
        self.metadata.row_groups().iter().map(|group| nulls_in(group, leaf)).collect()
    }

    fn bloom_filter(&self, group: &RowGroupMetaData, leaf: usize) -> Option<Sbbf> {
        let chunk = group.column(leaf);
        // These have other values here than in the file.
        if is_interval(chunk.column_descr())
            || is_uuid(chunk.column_descr())
            || chunk.column_type() == PhysicalType::INT96
            || self.is_by_duckdb() && is_time(chunk.column_descr())
        {
            return None;
        }
        let offset = u64::try_from(chunk.bloom_filter_offset()?).ok()?;
        let length = u64::try_from(chunk.bloom_filter_length()?).ok()?;
        // An object store's round trip costs more than it usually saves.
        if !self.source.is_local() || length > BLOOM_BYTES_MAX || offset.checked_add(length)? > self.source.bytes {
            return None;
        }
        let bytes = self.source.read_one_now(offset..offset + length).ok()?;
        guard(&self.source, "its Bloom filter cannot be read", || Sbbf::from_bytes(&bytes)).ok()
    }
}

/// Whether a leaf has dates or timestamps.
fn is_time(column: &ColumnDescriptor) -> bool {
    let told = matches!(column.logical_type_ref(), Some(LogicalType::Date | LogicalType::Timestamp(_)));
    told || matches!(
        column.converted_type(),
        ConvertedType::DATE | ConvertedType::TIMESTAMP_MICROS | ConvertedType::TIMESTAMP_MILLIS
    )
}

/// Whether the minima and maxima of a chunk are in the order that comparisons use.
fn is_trusted(group: &RowGroupMetaData, leaf: usize) -> bool {
    let chunk = group.column(leaf);
    let Some(statistics) = chunk.statistics() else { return false };
    if is_interval(chunk.column_descr()) || is_uuid(chunk.column_descr()) {
        return false;
    }
    if !statistics.is_min_max_deprecated() {
        return chunk.column_type() != PhysicalType::INT96;
    }
    // The old fields compared bytes as signed numbers, whatever they meant.
    let descriptor = chunk.column_descr();
    let unsigned = matches!(
        descriptor.converted_type(),
        ConvertedType::UINT_8 | ConvertedType::UINT_16 | ConvertedType::UINT_32 | ConvertedType::UINT_64
    ) || matches!(descriptor.logical_type_ref(), Some(LogicalType::Integer(integer)) if !integer.is_signed);
    matches!(chunk.column_type(), PhysicalType::INT32 | PhysicalType::INT64 | PhysicalType::BOOLEAN) && !unsigned
}
