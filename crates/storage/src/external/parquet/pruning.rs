//! Leaves out row groups that cannot hold a row for which a predicate is true: by the minima and maxima in the footer,
//! which are a zone map, and by Bloom filters for equality.
//!
//! Floating-point minima and maxima are not used: writers leave NaN out of them, but NaN compares with everything here.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, UInt64Array, new_null_array};
use arrow::compute::nullif;
use arrow::datatypes::{DataType, Field};
use datafusion_common::pruning::PruningStatistics;
use datafusion_common::{Column, ScalarValue};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_pruning::{PruningPredicate, PruningPredicateBuilder};
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::basic::{ConvertedType, LogicalType, Type as PhysicalType};
use parquet::bloom_filter::Sbbf;
use parquet::file::metadata::RowGroupMetaData;

use super::footer::{guard, is_interval, is_uuid};
use super::{ParquetFile, ParquetTable};
use crate::external::schema::{conform, is_wider, logical_type};

/// A Bloom filter longer than this is not read while planning.
const BLOOM_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// A predicate made ready to be tried on row groups.
pub(super) struct Pruner<'a> {
    table: &'a ParquetTable,
    predicate: Option<PruningPredicate>,
}

impl<'a> Pruner<'a> {
    /// A predicate that cannot be used for pruning keeps everything.
    pub fn new(table: &'a ParquetTable, predicate: Option<&Arc<dyn PhysicalExpr>>) -> Self {
        let predicate = predicate
            .and_then(|predicate| {
                let builder = PruningPredicateBuilder::new().with_file_schema(table.schema.clone());
                builder.try_build(predicate.clone()).ok()
            })
            .filter(|predicate| !predicate.always_true() || !predicate.literal_guarantees().is_empty());
        Self { table, predicate }
    }

    /// For each row group of a file whether it may hold a wanted row. Empty: all may, also where the predicate fails,
    /// as it will for a row then, if one is looked at.
    pub fn row_groups(&self, file: &ParquetFile) -> Vec<bool> {
        let Some(predicate) = &self.predicate else { return Vec::new() };
        let statistics = RowGroupStatistics { table: self.table, file };
        predicate.prune(&statistics).unwrap_or_default()
    }
}

/// The footer's statistics of a file's row groups, by the table's column names and types.
struct RowGroupStatistics<'a> {
    table: &'a ParquetTable,
    file: &'a ParquetFile,
}

impl RowGroupStatistics<'_> {
    /// The column of the table and its leaf in the file.
    fn find(&self, column: &Column) -> Option<(usize, Option<usize>)> {
        let index = self.table.schema.index_of(&column.name).ok()?;
        Some((index, self.file.flat_leaf(index)))
    }

    fn bound(&self, column: &Column, bound: Bound) -> Option<ArrayRef> {
        let (index, leaf) = self.find(column)?;
        let target = self.table.schema.field(index).data_type();
        match (leaf, self.file.roots[index]) {
            (Some(leaf), _) => self.file.bounds(leaf, target, bound),
            // The file does not have the column: every value is NULL.
            (None, None) => Some(new_null_array(target, self.num_containers())),
            (None, Some(_)) => None,
        }
    }
}

impl PruningStatistics for RowGroupStatistics<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bound(column, Bound::Min)
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bound(column, Bound::Max)
    }

    fn num_containers(&self) -> usize {
        self.file.metadata.num_row_groups()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        let (index, leaf) = self.find(column)?;
        match (leaf, self.file.roots[index]) {
            (Some(leaf), _) => Some(Arc::new(self.file.null_counts(leaf))),
            (None, None) => self.row_counts(),
            (None, Some(_)) => None,
        }
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        let rows = self.file.metadata.row_groups().iter().map(|group| group.num_rows() as u64);
        Some(Arc::new(UInt64Array::from_iter_values(rows)))
    }

    #[allow(clippy::mutable_key_type, reason = "the interface is DataFusion's; scalars are not changed here")]
    fn contained(&self, column: &Column, values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        let (index, leaf) = self.find(column)?;
        let leaf = leaf?;
        let groups = self.file.metadata.row_groups();
        if groups.iter().all(|group| group.column(leaf).bloom_filter_offset().is_none()) {
            return None;
        }
        let table_type = self.table.schema.field(index).data_type();
        let field_type = self.file.field_of(leaf).map(|field| logical_type(field.data_type()))?;
        if *table_type != field_type {
            return None;
        }
        // What a Bloom filter rules out is false; it never says that all values are wanted ones.
        let answers = groups.iter().map(|group| {
            let filter = self.file.bloom_filter(group, leaf)?;
            let may = values.iter().any(|value| may_contain(&filter, value, group.column(leaf).column_type()));
            if may { None } else { Some(false) }
        });
        Some(answers.collect())
    }
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
                Bound::Min => converter.row_group_mins(self.metadata.row_groups()),
                Bound::Max => converter.row_group_maxes(self.metadata.row_groups()),
            }
        };
        let bounds = guard(&self.source, "its statistics cannot be read", read).ok()?;
        let groups = self.metadata.row_groups();
        let untrusted = groups.iter().map(|group| Some(!is_trusted(group, leaf))).collect::<BooleanArray>();
        let bounds = if untrusted.true_count() == 0 { bounds } else { nullif(&bounds, &untrusted).ok()? };
        if bounds.len() != groups.len() {
            return None;
        }
        conform(bounds, target, false).ok()
    }

    /// Each row group's number of NULLs in a leaf; NULL where unknown.
    pub(super) fn null_counts(&self, leaf: usize) -> UInt64Array {
        let groups = self.metadata.row_groups().iter();
        groups
            .map(|group| {
                let chunk = group.column(leaf);
                if chunk.column_descr().max_def_level() == 0 {
                    return Some(0);
                }
                let nulls = chunk.statistics()?.null_count_opt()?;
                (nulls <= group.num_rows() as u64).then_some(nulls)
            })
            .collect()
    }

    fn bloom_filter(&self, group: &RowGroupMetaData, leaf: usize) -> Option<Sbbf> {
        let chunk = group.column(leaf);
        // These have other values here than in the file.
        if is_interval(chunk.column_descr())
            || is_uuid(chunk.column_descr())
            || chunk.column_type() == PhysicalType::INT96
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
