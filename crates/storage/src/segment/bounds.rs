//! The zone map of a segment, the least and the greatest values of its columns: made while it is written, asked while a
//! scan is planned.
//!
//! Floating-point numbers have none, because NaN compares with everything here, and nested values have none. Long texts
//! are shortened: the least one to its beginning, the greatest to a beginning that is made greater.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, BooleanBufferBuilder, PrimitiveArray, StringViewArray,
    UInt32Array, UInt64Array, new_null_array,
};
use arrow::compute::{concat, max, max_boolean, max_string_view, min, min_boolean, min_string_view};
use arrow::datatypes::*;
use datafusion_physical_expr::PhysicalExpr;
use diligence_base::Result;

use super::Candidates;
use super::layout::{Bounds, Footer, WINDOW_ROWS, windows_of};
use crate::external::{conform, is_wider};
use crate::foreign_error::from_arrow;
use crate::zones::{ZoneMap, may_be_true};

/// Bytes of a text in bounds at most.
const TEXT_BYTES_MAX: usize = 48;

/// The bounds of a column, gathered cluster by cluster.
#[derive(Debug)]
pub(super) struct GatheredBounds {
    data_type: DataType,
    /// `None` for types that have no bounds.
    sides: Option<Sides>,
    is_exact: bool,
    nulls: [Vec<u32>; 2],
}

/// Of clusters, and of windows.
#[derive(Debug, Default)]
struct Sides {
    least: [Vec<ArrayRef>; 2],
    greatest: [Vec<ArrayRef>; 2],
}

impl GatheredBounds {
    pub fn new(data_type: &DataType) -> Self {
        let sides = has_bounds(data_type).then(Sides::default);
        Self { data_type: data_type.clone(), sides, is_exact: true, nulls: Default::default() }
    }

    /// Adds the column of a cluster.
    pub fn add(&mut self, array: &ArrayRef) -> Result<()> {
        let windows = (0..windows_of(array.len())).map(|window| {
            let start = window * WINDOW_ROWS;
            array.slice(start, WINDOW_ROWS.min(array.len() - start))
        });
        let windows = windows.collect::<Vec<_>>();
        let counts = windows.iter().map(|window| window.logical_null_count() as u32).collect::<Vec<_>>();
        self.nulls[0].push(counts.iter().sum());
        self.nulls[1].extend(counts);
        let Some(sides) = &mut self.sides else { return Ok(()) };
        let (least, greatest, is_exact) = extremes(&windows, &self.data_type)?;
        self.is_exact &= is_exact;
        // A window of which it is not known leaves it unknown of the cluster.
        let whole = extremes(std::slice::from_ref(array), &self.data_type)?;
        sides.least[0].push(whole.0);
        sides.greatest[0].push(whole.1);
        sides.least[1].push(least);
        sides.greatest[1].push(greatest);
        Ok(())
    }

    /// The bounds; `None` if the type has none.
    pub fn finish(self) -> Result<Option<Bounds>> {
        let Some(Sides { least, greatest }) = self.sides else { return Ok(None) };
        let all = |pieces: [Vec<ArrayRef>; 2]| {
            let pieces = pieces.iter().flatten().map(|piece| &**piece).collect::<Vec<_>>();
            if pieces.is_empty() {
                return Ok(new_null_array(&self.data_type, 0));
            }
            concat(&pieces).map_err(from_arrow)
        };
        let nulls = UInt32Array::from(self.nulls.concat());
        Ok(Some(Bounds { is_exact: self.is_exact, least: all(least)?, greatest: all(greatest)?, nulls }))
    }
}

fn has_bounds(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Boolean | Utf8View | Decimal128(..) | Decimal256(..) | Date32 | Date64 | Time32(_) | Time64(_)
        | Timestamp(..) => true,
        other => other.is_integer(),
    }
}

/// The least and the greatest of each array, and whether they are values.
fn extremes(arrays: &[ArrayRef], data_type: &DataType) -> Result<(ArrayRef, ArrayRef, bool)> {
    fn of<T: ArrowPrimitiveType>(arrays: &[ArrayRef], data_type: &DataType) -> (ArrayRef, ArrayRef, bool)
    where
        T::Native: arrow::array::ArrowNativeTypeOp,
    {
        let side = |one: fn(&PrimitiveArray<T>) -> Option<T::Native>| -> ArrayRef {
            let values = arrays.iter().map(|array| one(array.as_primitive::<T>()));
            Arc::new(values.collect::<PrimitiveArray<T>>().with_data_type(data_type.clone()))
        };
        (side(min::<T>), side(max::<T>), true)
    }
    use DataType::*;
    Ok(match data_type {
        Int8 => of::<Int8Type>(arrays, data_type),
        Int16 => of::<Int16Type>(arrays, data_type),
        Int32 => of::<Int32Type>(arrays, data_type),
        Int64 => of::<Int64Type>(arrays, data_type),
        UInt8 => of::<UInt8Type>(arrays, data_type),
        UInt16 => of::<UInt16Type>(arrays, data_type),
        UInt32 => of::<UInt32Type>(arrays, data_type),
        UInt64 => of::<UInt64Type>(arrays, data_type),
        Date32 => of::<Date32Type>(arrays, data_type),
        Date64 => of::<Date64Type>(arrays, data_type),
        Decimal128(..) => of::<Decimal128Type>(arrays, data_type),
        Decimal256(..) => of::<Decimal256Type>(arrays, data_type),
        Time32(TimeUnit::Second) => of::<Time32SecondType>(arrays, data_type),
        Time32(_) => of::<Time32MillisecondType>(arrays, data_type),
        Time64(TimeUnit::Nanosecond) => of::<Time64NanosecondType>(arrays, data_type),
        Time64(_) => of::<Time64MicrosecondType>(arrays, data_type),
        Timestamp(TimeUnit::Second, _) => of::<TimestampSecondType>(arrays, data_type),
        Timestamp(TimeUnit::Millisecond, _) => of::<TimestampMillisecondType>(arrays, data_type),
        Timestamp(TimeUnit::Microsecond, _) => of::<TimestampMicrosecondType>(arrays, data_type),
        Timestamp(TimeUnit::Nanosecond, _) => of::<TimestampNanosecondType>(arrays, data_type),
        Boolean => {
            let least = arrays.iter().map(|array| min_boolean(array.as_boolean())).collect::<BooleanArray>();
            let greatest = arrays.iter().map(|array| max_boolean(array.as_boolean())).collect::<BooleanArray>();
            (Arc::new(least), Arc::new(greatest), true)
        }
        _ => {
            let least = arrays.iter().map(|array| min_string_view(array.as_string_view())).collect::<Vec<_>>();
            let greatest = arrays.iter().map(|array| max_string_view(array.as_string_view())).collect::<Vec<_>>();
            let is_short = |text: &Option<&str>| text.is_none_or(|text| text.len() <= TEXT_BYTES_MAX);
            let is_exact = least.iter().chain(&greatest).all(is_short);
            let least = least.into_iter().map(|text| text.map(beginning)).collect::<StringViewArray>();
            let greatest = greatest.into_iter().map(|text| text.and_then(greater)).collect::<StringViewArray>();
            (Arc::new(least), Arc::new(greatest), is_exact)
        }
    })
}

fn beginning(text: &str) -> &str {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// A short text that is not less than this one; `None` if there is none.
fn greater(text: &str) -> Option<String> {
    let mut short = beginning(text).to_owned();
    if short.len() == text.len() {
        return Some(short);
    }
    while let Some(last) = short.pop() {
        if let Some(next) = (last as u32 + 1..=char::MAX as u32).find_map(char::from_u32) {
            short.push(next);
            return Some(short);
        }
    }
    None
}

/// One side of the bounds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Least,
    Greatest,
}

/// A file's columns as a table with certain columns sees them.
pub(super) struct Seen<'a> {
    pub footer: &'a Footer,
    /// The table's columns.
    pub schema: &'a SchemaRef,
    /// For each of them the file's.
    pub roots: &'a [Option<usize>],
}

impl Seen<'_> {
    /// One side of each cluster's, and behind those of each window's, bounds in the table's type.
    pub fn side(&self, column: usize, side: Side) -> Option<ArrayRef> {
        let target = self.schema.field(column).data_type();
        let Some(root) = self.roots[column] else { return Some(new_null_array(target, self.entry_count())) };
        let bounds = self.footer.bounds[root].as_ref()?;
        let values = match side {
            Side::Least => &bounds.least,
            Side::Greatest => &bounds.greatest,
        };
        if values.data_type() == target {
            return Some(values.clone());
        }
        let is_kept = is_wider(values.data_type(), target) && !target.is_floating();
        if is_kept { conform(values.clone(), target, false).ok() } else { None }
    }

    /// How many rows each cluster, and each window, has.
    pub fn rows(&self) -> Vec<u64> {
        let clusters = self.footer.clusters.iter().map(|cluster| cluster.rows);
        let windows = clusters
            .clone()
            .flat_map(|rows| (0..windows_of(rows)).map(move |window| WINDOW_ROWS.min(rows - window * WINDOW_ROWS)));
        clusters.clone().chain(windows).map(|rows| rows as u64).collect()
    }

    fn entry_count(&self) -> usize {
        let clusters = &self.footer.clusters;
        clusters.len() + clusters.iter().map(|cluster| windows_of(cluster.rows)).sum::<usize>()
    }

    /// The rows of clusters, and of windows, for which a predicate over the table's columns may be true. It may of all
    /// rows also where it fails, as it will for a row then, if one is looked at.
    pub fn candidates(&self, predicate: &Arc<dyn PhysicalExpr>) -> Candidates {
        let Some(entries) = may_be_true(predicate, self.schema, self) else { return Candidates::default() };
        let (of_clusters, mut of_windows) = entries.split_at(self.footer.clusters.len().min(entries.len()));
        let (mut clusters, mut rows) = (of_clusters.to_vec(), HashMap::new());
        for (number, cluster) in self.footer.clusters.iter().enumerate().take(clusters.len()) {
            let Some((windows, behind)) = of_windows.split_at_checked(windows_of(cluster.rows)) else { break };
            of_windows = behind;
            clusters[number] &= windows.contains(&true);
            if clusters[number] && windows.contains(&false) {
                let mut bits = BooleanBufferBuilder::new(cluster.rows);
                for (window, may) in windows.iter().enumerate() {
                    bits.append_n(WINDOW_ROWS.min(cluster.rows - window * WINDOW_ROWS), *may);
                }
                rows.insert(number, bits.finish());
            }
        }
        Candidates { clusters, rows }
    }
}

impl ZoneMap for Seen<'_> {
    fn zones(&self) -> usize {
        self.entry_count()
    }

    fn least(&self, column: usize) -> Option<ArrayRef> {
        self.side(column, Side::Least)
    }

    fn greatest(&self, column: usize) -> Option<ArrayRef> {
        self.side(column, Side::Greatest)
    }

    fn nulls(&self, column: usize) -> Option<UInt64Array> {
        match self.roots[column] {
            None => ZoneMap::rows(self),
            Some(root) => {
                let counts = self.footer.bounds[root].as_ref()?.nulls.iter().map(|count| count.map(u64::from));
                Some(counts.collect())
            }
        }
    }

    fn rows(&self) -> Option<UInt64Array> {
        Some(UInt64Array::from(Seen::rows(self)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_shortened_outwards() {
        let long = "ä".repeat(40);
        assert_eq!(beginning(&long), "ä".repeat(24));
        let greatest = greater(&long).unwrap();
        assert!(greatest.as_str() > long.as_str() && greatest.len() <= TEXT_BYTES_MAX + 4, "{greatest}");
        assert_eq!(greater("short").as_deref(), Some("short"));
        // Behind the last character there is none.
        assert_eq!(greater(&char::MAX.to_string().repeat(20)), None);
        let mixed = format!("a{}", char::MAX.to_string().repeat(20));
        assert_eq!(greater(&mixed).as_deref(), Some("b"));
        // Some numbers are no characters.
        assert!(greater(&"\u{d7ff}".repeat(30)).unwrap() > "\u{d7ff}".repeat(30));
    }
}
