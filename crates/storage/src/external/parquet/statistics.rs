//! What the footers of a table's files say about it, for the optimizer.

use std::cmp::Ordering;

use arrow::array::{Array, ArrayRef};
use datafusion_common::stats::Precision;
use datafusion_common::{ColumnStatistics, ScalarValue, Statistics};
use parquet::basic::{Encoding, Type as PhysicalType};
use parquet::file::metadata::ColumnChunkMetaData;

use super::pruning::Bound;
use super::{ParquetFile, ParquetTable};

/// Bytes of a dictionary page that are its header.
const PAGE_HEADER_BYTES: usize = 20;

/// Statistics over all files.
pub(super) fn collect(table: &ParquetTable) -> Statistics {
    let rows = table.files.iter().flat_map(|file| file.metadata.row_groups()).map(|group| group.num_rows() as usize);
    let rows = rows.sum::<usize>();
    let columns = (0..table.schema.fields().len()).map(|column| column_statistics(table, column, rows));
    let columns = columns.collect::<Vec<_>>();
    let bytes = columns.iter().filter_map(|column| column.byte_size.get_value().copied()).sum::<usize>();
    Statistics {
        num_rows: Precision::Exact(rows),
        total_byte_size: Precision::Inexact(bytes),
        column_statistics: columns,
    }
}

fn column_statistics(table: &ParquetTable, column: usize, rows: usize) -> ColumnStatistics {
    let bytes = Precision::Inexact(bytes_in_memory(table, column, rows));
    let mut statistics = ColumnStatistics::new_unknown().with_byte_size(bytes);
    // Nested columns have neither minima nor maxima.
    let nested = |file: &ParquetFile| file.roots[column].is_some() && file.flat_leaf(column).is_none();
    if table.files.iter().any(nested) {
        return statistics;
    }
    statistics.null_count = null_count(table, column);
    let mins = bounds(table, column, Bound::Min);
    let maxes = bounds(table, column, Bound::Max);
    let exact = table.files.iter().all(|file| bounds_are_exact(file, column));
    let precise = |value: ScalarValue| if exact { Precision::Exact(value) } else { Precision::Inexact(value) };
    if let (Some(mins), Some(maxes)) = (&mins, &maxes) {
        if let Some(min) = extreme(mins, Ordering::Less) {
            statistics.min_value = precise(min);
        }
        if let Some(max) = extreme(maxes, Ordering::Greater) {
            statistics.max_value = precise(max);
        }
    }
    let values = rows.saturating_sub(statistics.null_count.get_value().copied().unwrap_or(0));
    if let Some(distinct) = distinct_count(table, column, mins.as_deref(), maxes.as_deref()) {
        statistics.distinct_count = Precision::Inexact(distinct.clamp(1, values.max(1)));
    }
    statistics
}

/// NULLs in the column, if all files say it.
fn null_count(table: &ParquetTable, column: usize) -> Precision<usize> {
    let mut nulls = 0u64;
    for file in &table.files {
        match file.flat_leaf(column) {
            Some(leaf) => {
                let counts = file.null_counts(leaf);
                if counts.null_count() > 0 {
                    return Precision::Absent;
                }
                nulls += counts.values().iter().sum::<u64>();
            }
            None => nulls += file.metadata.row_groups().iter().map(|group| group.num_rows() as u64).sum::<u64>(),
        }
    }
    Precision::Exact(nulls as usize)
}

/// One side of every row group's range, file by file; `None` if a row group with values does not have it.
fn bounds(table: &ParquetTable, column: usize, bound: Bound) -> Option<Vec<ArrayRef>> {
    let target = table.schema.field(column).data_type();
    let mut all = Vec::with_capacity(table.files.len());
    for file in &table.files {
        let Some(leaf) = file.flat_leaf(column) else { continue };
        let bounds = file.bounds(leaf, target, bound)?;
        let nulls = file.null_counts(leaf);
        for (index, group) in file.metadata.row_groups().iter().enumerate() {
            let only_nulls = !nulls.is_null(index) && nulls.value(index) == group.num_rows() as u64;
            if bounds.is_null(index) && !only_nulls {
                return None;
            }
        }
        all.push(bounds);
    }
    Some(all)
}

/// Whether the bounds are values of the column, not shortened ones.
fn bounds_are_exact(file: &ParquetFile, column: usize) -> bool {
    let Some(leaf) = file.flat_leaf(column) else { return true };
    file.metadata.row_groups().iter().all(|group| {
        let chunk = group.column(leaf);
        match chunk.column_type() {
            PhysicalType::BYTE_ARRAY | PhysicalType::FIXED_LEN_BYTE_ARRAY => {
                chunk.statistics().is_some_and(|s| s.min_is_exact() && s.max_is_exact())
            }
            _ => true,
        }
    })
}

/// The value that is `Less`, or `Greater`, than all others; `None` if there is no value.
pub(crate) fn extreme(bounds: &[ArrayRef], side: Ordering) -> Option<ScalarValue> {
    let mut best: Option<ScalarValue> = None;
    for array in bounds {
        for index in 0..array.len() {
            if array.is_null(index) {
                continue;
            }
            let value = ScalarValue::try_from_array(array, index).ok()?;
            if best.as_ref().is_none_or(|best| value.partial_cmp(best) == Some(side)) {
                best = Some(value);
            }
        }
    }
    best
}

/// Bytes of the column as an array.
fn bytes_in_memory(table: &ParquetTable, column: usize, rows: usize) -> usize {
    if let Some(width) = table.schema.field(column).data_type().primitive_width() {
        return rows * width;
    }
    let mut bytes = 0i64;
    for file in &table.files {
        let Some(root) = file.roots[column] else { continue };
        for group in file.metadata.row_groups() {
            for leaf in file.leaves[root].clone() {
                let chunk = group.column(leaf);
                let unencoded = chunk.unencoded_byte_array_data_bytes().unwrap_or(0);
                bytes = bytes.saturating_add(unencoded.max(chunk.uncompressed_size()).max(0));
            }
        }
    }
    bytes as usize + rows * 16
}

/// How many different values some rows show.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeenValues {
    pub values: f64,
    pub rows: f64,
}

fn distinct_count(
    table: &ParquetTable,
    column: usize,
    mins: Option<&[ArrayRef]>,
    maxes: Option<&[ArrayRef]>,
) -> Option<usize> {
    let leaves = table.files.iter().filter_map(|file| Some((file, file.flat_leaf(column)?)));
    let groups = leaves.flat_map(|(file, leaf)| file.metadata.row_groups().iter().map(move |group| group.column(leaf)));
    let seen = groups.map(|chunk| {
        let stated = chunk.statistics().and_then(|statistics| statistics.distinct_count_opt());
        let values = stated.map(|count| count as f64).or_else(|| dictionary_values(chunk))?;
        Some(SeenValues { values, rows: chunk.num_values().max(1) as f64 })
    });
    distinct_values(seen, mins, maxes)
}

/// About how many different values a column has, of whose row groups some are known to show so many, and some ranges
/// are known. Footers rarely say it. An upper bound is the width of the range of whole numbers; where all pages are
/// dictionary-coded, the size of the dictionary page tells how many values it has. Row groups with equal ranges are
/// taken to draw from the same values, row groups with disjoint ranges from different ones.
pub(crate) fn distinct_values(
    seen: impl Iterator<Item = Option<SeenValues>>,
    mins: Option<&[ArrayRef]>,
    maxes: Option<&[ArrayRef]>,
) -> Option<usize> {
    let ranges = mins.zip(maxes).and_then(|(mins, maxes)| whole_ranges(mins, maxes));
    let width = |(low, high): &(i128, i128)| (high - low + 1) as f64;
    let whole = ranges.as_ref().and_then(|ranges| {
        let low = ranges.iter().map(|range| range.0).min()?;
        let high = ranges.iter().map(|range| range.1).max()?;
        Some(width(&(low, high)))
    });
    let mut sum = 0f64;
    let mut largest = 0f64;
    let mut known = true;
    for seen in seen {
        match seen {
            Some(SeenValues { values, rows }) => {
                let behind = values_behind(values, rows);
                let behind = whole.map_or(behind, |whole| behind.min(whole));
                sum += behind;
                largest = largest.max(behind);
            }
            None => known = false,
        }
    }
    let by_dictionary = known.then(|| match (&ranges, whole) {
        (Some(ranges), Some(whole)) => {
            let overlap = ranges.iter().map(width).sum::<f64>() / whole;
            sum / overlap.max(1.0)
        }
        _ => largest,
    });
    let estimate = match (by_dictionary, whole) {
        (Some(values), Some(whole)) => values.min(whole),
        (Some(values), None) => values,
        (None, Some(whole)) => whole,
        (None, None) => return None,
    };
    Some(estimate.min(usize::MAX as f64 / 2.0) as usize)
}

/// The ranges of row groups as whole numbers, for types that are whole numbers inside.
fn whole_ranges(mins: &[ArrayRef], maxes: &[ArrayRef]) -> Option<Vec<(i128, i128)>> {
    let mut ranges = Vec::new();
    for (mins, maxes) in mins.iter().zip(maxes) {
        for index in 0..mins.len() {
            if mins.is_null(index) || maxes.is_null(index) {
                continue;
            }
            let low = whole_number(&ScalarValue::try_from_array(mins, index).ok()?)?;
            let high = whole_number(&ScalarValue::try_from_array(maxes, index).ok()?)?;
            ranges.push((low, high.max(low)));
        }
    }
    (!ranges.is_empty()).then_some(ranges)
}

fn whole_number(value: &ScalarValue) -> Option<i128> {
    match value {
        ScalarValue::Int8(Some(v)) => Some(i128::from(*v)),
        ScalarValue::Int16(Some(v)) => Some(i128::from(*v)),
        ScalarValue::Int32(Some(v)) | ScalarValue::Date32(Some(v)) => Some(i128::from(*v)),
        ScalarValue::Int64(Some(v))
        | ScalarValue::TimestampSecond(Some(v), _)
        | ScalarValue::TimestampMillisecond(Some(v), _)
        | ScalarValue::TimestampMicrosecond(Some(v), _)
        | ScalarValue::TimestampNanosecond(Some(v), _) => Some(i128::from(*v)),
        ScalarValue::UInt8(Some(v)) => Some(i128::from(*v)),
        ScalarValue::UInt16(Some(v)) => Some(i128::from(*v)),
        ScalarValue::UInt32(Some(v)) => Some(i128::from(*v)),
        ScalarValue::UInt64(Some(v)) => Some(i128::from(*v)),
        // Halved, so that the width of a range cannot overflow.
        ScalarValue::Decimal128(Some(v), ..) => Some((*v).clamp(i128::MIN / 4, i128::MAX / 4)),
        ScalarValue::Boolean(Some(v)) => Some(i128::from(*v)),
        _ => None,
    }
}

/// About how many values the chunk's dictionary has, if all its data pages use it.
fn dictionary_values(chunk: &ColumnChunkMetaData) -> Option<f64> {
    let mask = chunk.page_encoding_stats_mask()?;
    let mut encodings = mask.encodings().peekable();
    encodings.peek()?;
    if !encodings.all(|e| matches!(e, Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY)) {
        return None;
    }
    let bytes = chunk.data_page_offset().checked_sub(chunk.dictionary_page_offset()?)?;
    let bytes = usize::try_from(bytes).ok()?.saturating_sub(PAGE_HEADER_BYTES) as f64;
    let width = match chunk.column_type() {
        PhysicalType::BOOLEAN => return Some(2.0),
        PhysicalType::INT32 | PhysicalType::FLOAT => 4.0,
        PhysicalType::INT64 | PhysicalType::DOUBLE => 8.0,
        PhysicalType::INT96 => 12.0,
        PhysicalType::FIXED_LEN_BYTE_ARRAY => f64::from(chunk.column_descr().type_length().max(1)),
        PhysicalType::BYTE_ARRAY => {
            let text = chunk.unencoded_byte_array_data_bytes()? as f64;
            4.0 + text / (chunk.num_values().max(1) as f64)
        }
    };
    // As written, the dictionary may be compressed: this is too few, by a factor of two or three at most.
    let least = (bytes / width).ceil().max(1.0);
    // What the whole chunk has uncompressed, less the codes of its rows, is the dictionary again; for many values this
    // is the better guess.
    let rows = chunk.num_values().max(1) as f64;
    let uncompressed_bits = chunk.uncompressed_size().max(0) as f64 * 8.0;
    let no_nulls = chunk.statistics().and_then(|statistics| statistics.null_count_opt()) == Some(0);
    // The width of the codes tells how many values there are at least: as many as the next narrower width has no room
    // for. Codes in runs take less.
    let level_bits = if no_nulls { 0.0 } else { rows };
    let fits = |code_width: i32| {
        let values = 2f64.powi(code_width - 1) + 1.0;
        values * width * 8.0 + f64::from(code_width) * rows + level_bits <= uncompressed_bits
    };
    let code_width = (2..=24).take_while(|code_width| fits(*code_width)).last();
    let least = code_width.map_or(least, |code_width| least.max(2f64.powi(code_width - 1) + 1.0));
    let code_bits = least.log2().ceil() + if no_nulls { 0.0 } else { 1.0 };
    let uncompressed = (chunk.uncompressed_size().max(0) as f64 - rows * code_bits / 8.0) / width;
    let many = uncompressed > rows / 50.0 && uncompressed < 4.0 * least;
    Some(if many { uncompressed.max(least).min(rows) } else { least })
}

/// How many values a column has of which so many rows show so many different ones, if rows draw their values at random:
/// `seen = values * (1 - exp(-rows / values))`, solved for `values`.
fn values_behind(seen: f64, rows: f64) -> f64 {
    if seen >= rows * 0.98 {
        // Nearly every row has a value of its own, and there is no telling how many more there are.
        return f64::INFINITY;
    }
    let mut values = seen;
    for _ in 0..20 {
        values = seen / -(-rows / values).exp_m1();
    }
    values
}

#[cfg(test)]
mod tests {
    use super::values_behind;

    #[test]
    fn the_values_behind_a_sample_are_found() {
        for (values, rows) in [(200_000f64, 122_880f64), (50.0, 1000.0), (1e6, 122_880.0), (3.0, 10.0)] {
            let seen = values * (1.0 - (-rows / values).exp());
            let found = values_behind(seen, rows);
            assert!((found / values - 1.0).abs() < 0.3, "{found} of {values}");
        }
        assert_eq!(values_behind(100.0, 100.0), f64::INFINITY);
    }
}
