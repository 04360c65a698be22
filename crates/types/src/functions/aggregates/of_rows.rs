//! What is computed of all rows of a group: lists, texts, modes, exact deviations of distinct values.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewBuilder, ListArray, StringViewBuilder, UInt32Array, make_comparator,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{SortOptions, take};
use arrow::datatypes::{DataType, Int64Type};
use datafusion_common::{Result, exec_datafusion_err};

use super::super::columns::{Read, Write};
use super::super::decimal::{Decimal, overflow};
use super::super::errors::value_error;
use super::super::numeric::moment;
use super::external;
use super::percentiles::Percentile;

/// Bytes that one text or bytea may have: as in PostgreSQL.
const TEXT_BYTES_MAX: usize = (1 << 30) - 1;

/// An aggregate of all rows of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowsFunction {
    /// `array_agg(value)`; of arrays, which must have the same dimensions.
    ArrayAgg,
    /// `string_agg(value, delimiter)` of texts and of bytea. Each row's delimiter stands in front of its value.
    StringAgg,
    /// `mode(value)`, of values in order: the first of the most frequent ones.
    Mode,
    /// `percentile_disc(fraction, value)` and `percentile_cont`, of values in order; of one fraction or an array of
    /// them.
    Percentile(Percentile),
    /// `variance` and `stddev` of decimals.
    Deviation {
        /// One degree of freedom less than values.
        is_sample: bool,
        /// The root of the variance.
        is_root: bool,
    },
    /// DuckDB's `list(value)` of arrays, which may have any dimensions.
    List,
}

/// The rows of all groups, group by group.
pub(super) struct Stretches<'a> {
    /// The function's arguments.
    pub arguments: &'a [ArrayRef],
    /// The keys of the order, for functions that compare them.
    pub keys: &'a [ArrayRef],
    /// For how many rows each stands, if not for itself.
    pub numbers: Option<&'a ArrayRef>,
    /// Behind the last row of each group.
    pub ends: &'a [usize],
}

impl Stretches<'_> {
    /// The rows of each group.
    fn ranges(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins.zip(self.ends).map(|(begin, &end)| begin..end)
    }
}

impl RowsFunction {
    /// All of them; none has another place in a later version.
    pub(in crate::functions) const ALL: [Self; 10] = [
        Self::ArrayAgg,
        Self::StringAgg,
        Self::Mode,
        Self::Percentile(Percentile::Discrete),
        Self::Percentile(Percentile::Continuous),
        Self::Deviation { is_sample: false, is_root: false },
        Self::Deviation { is_sample: false, is_root: true },
        Self::Deviation { is_sample: true, is_root: false },
        Self::Deviation { is_sample: true, is_root: true },
        Self::List,
    ];

    /// Its name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Self::ArrayAgg => "array_agg",
            Self::StringAgg => "string_agg",
            Self::Mode => "mode",
            Self::Percentile(Percentile::Discrete) => "percentile_disc",
            Self::Percentile(Percentile::Continuous) => "percentile_cont",
            Self::Deviation { is_sample: true, is_root: false } => "var_samp",
            Self::Deviation { is_sample: true, is_root: true } => "stddev_samp",
            Self::Deviation { is_sample: false, is_root: false } => "var_pop",
            Self::Deviation { is_sample: false, is_root: true } => "stddev_pop",
            Self::List => "list",
        }
    }

    /// The argument whose NULLs do not count.
    pub(super) fn ignores_nulls_of(self) -> Option<usize> {
        match self {
            Self::ArrayAgg | Self::List => None,
            Self::StringAgg | Self::Mode | Self::Deviation { .. } => Some(0),
            Self::Percentile(_) => Some(1),
        }
    }

    /// Whether it tells equal values by their keys.
    pub(super) fn compares_keys(self) -> bool {
        self == Self::Mode
    }

    /// The values of the groups, of a type. Percentiles are [computed](super::percentiles) of rows that are not sorted.
    pub(super) fn values(self, rows: &Stretches<'_>, returns: &DataType) -> Result<ArrayRef> {
        match self {
            Self::ArrayAgg => {
                if let Some(arrays) = rows.arguments[0].as_list_opt::<i32>() {
                    rows.ranges().try_for_each(|range| same_dimensions(arrays, range))?;
                }
                lists(rows, returns)
            }
            Self::List => lists(rows, returns),
            Self::StringAgg => texts(rows, returns),
            Self::Mode => modes(rows),
            Self::Percentile(_) => Err(exec_datafusion_err!("a percentile of sorted rows")),
            Self::Deviation { is_sample, is_root } => deviations(rows, returns, is_sample, is_root),
        }
    }
}

/// Each group's values as a list; NULL for a group without rows.
fn lists(rows: &Stretches<'_>, returns: &DataType) -> Result<ArrayRef> {
    let DataType::List(field) = returns else { return Err(exec_datafusion_err!("array_agg gives lists")) };
    let values = &rows.arguments[0];
    let offset = |end: &usize| i32::try_from(*end).map_err(|_| exec_datafusion_err!("an array has too many elements"));
    let offsets = std::iter::once(Ok(0)).chain(rows.ends.iter().map(offset)).collect::<Result<Vec<_>>>()?;
    let nulls = NullBuffer::from_iter(rows.ranges().map(|range| !range.is_empty()));
    Ok(Arc::new(ListArray::try_new(field.clone(), OffsetBuffer::new(offsets.into()), values.clone(), Some(nulls))?))
}

/// Fails unless arrays can be the parts of an array with one more dimension, as PostgreSQL's `array_agg` has it.
fn same_dimensions(arrays: &ListArray, rows: std::ops::Range<usize>) -> Result<()> {
    let fails = |message: &str, code| Err(external(value_error(message, code)));
    let mut first = None;
    for row in rows {
        if arrays.is_null(row) {
            return fails("cannot accumulate null arrays", "22004");
        }
        let dimensions = dimensions(&arrays.value(row));
        if dimensions.contains(&0) {
            return fails("cannot accumulate empty arrays", "2202E");
        }
        match &first {
            None => first = Some(dimensions),
            Some(first) if *first != dimensions => {
                return fails("cannot accumulate arrays of different dimensionality", "2202E");
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// The lengths of an array's dimensions; the first element of each has those of the rest.
fn dimensions(elements: &ArrayRef) -> Vec<usize> {
    let mut lengths = vec![elements.len()];
    if let Some(inner) = elements.as_list_opt::<i32>()
        && !inner.is_empty()
        && inner.is_valid(0)
    {
        lengths.extend(dimensions(&inner.value(0)));
    }
    lengths
}

/// Each group's texts in one, each but the first behind its delimiter.
fn texts(rows: &Stretches<'_>, returns: &DataType) -> Result<ArrayRef> {
    let [values, delimiters] = rows.arguments else { return Err(exec_datafusion_err!("string_agg of two arguments")) };
    let joined = |row: usize, first: bool, all: &mut Vec<u8>, value: &[u8], delimiter: Option<&[u8]>| {
        if let Some(delimiter) = delimiter.filter(|_| !first) {
            all.extend_from_slice(delimiter);
        }
        all.extend_from_slice(value);
        match all.len() > TEXT_BYTES_MAX {
            true => Err(external(value_error(format!("a value of string_agg is too long at its row {row}"), "54000"))),
            false => Ok(()),
        }
    };
    let mut all = Vec::new();
    match returns {
        DataType::Utf8View => {
            let (values, delimiters) = (values.as_string_view(), delimiters.as_string_view());
            let mut builder = StringViewBuilder::with_capacity(rows.ends.len());
            for range in rows.ranges() {
                all.clear();
                for row in range.clone() {
                    let delimiter = delimiters.is_valid(row).then(|| delimiters.value(row).as_bytes());
                    joined(row, row == range.start, &mut all, values.value(row).as_bytes(), delimiter)?;
                }
                let text = std::str::from_utf8(&all).map_err(|_| exec_datafusion_err!("texts are no text"))?;
                builder.append_option((!range.is_empty()).then_some(text));
            }
            Ok(Arc::new(builder.finish()))
        }
        DataType::BinaryView => {
            let (values, delimiters) = (values.as_binary_view(), delimiters.as_binary_view());
            let mut builder = BinaryViewBuilder::with_capacity(rows.ends.len());
            for range in rows.ranges() {
                all.clear();
                for row in range.clone() {
                    let delimiter = delimiters.is_valid(row).then(|| delimiters.value(row));
                    joined(row, row == range.start, &mut all, values.value(row), delimiter)?;
                }
                builder.append_option((!range.is_empty()).then_some(&all));
            }
            Ok(Arc::new(builder.finish()))
        }
        other => Err(exec_datafusion_err!("string_agg gives no {other}")),
    }
}

/// The first of each group's most frequent values.
fn modes(rows: &Stretches<'_>) -> Result<ArrayRef> {
    let [key] = rows.keys else { return Err(exec_datafusion_err!("mode has one order")) };
    let compare = make_comparator(key, key, SortOptions::default())?;
    let numbers = rows.numbers.and_then(|numbers| numbers.as_primitive_opt::<Int64Type>());
    let number = |row: usize| numbers.map_or(1, |numbers| numbers.value(row));
    let places = rows.ranges().map(|range| {
        let (mut best, mut most) = (None, 0);
        let (mut begin, mut count) = (range.start, 0);
        for row in range.clone() {
            count += number(row);
            if row + 1 == range.end || compare(row, row + 1).is_ne() {
                if count > most {
                    (best, most) = (Some(begin as u32), count);
                }
                (begin, count) = (row + 1, 0);
            }
        }
        best
    });
    let places = places.collect::<UInt32Array>();
    Ok(take(&rows.arguments[0], &places, None)?)
}

/// Each group's variance or deviation, exactly.
fn deviations(rows: &Stretches<'_>, returns: &DataType, is_sample: bool, is_root: bool) -> Result<ArrayRef> {
    let column = <Decimal as Read>::column(&rows.arguments[0]);
    let column = column.ok_or_else(|| exec_datafusion_err!("a deviation of other values than decimals"))?;
    let mut builder = <Option<Decimal> as Write>::builder(rows.ends.len(), returns).map_err(external)?;
    for range in rows.ranges() {
        let count = i64::try_from(range.len()).map_err(|_| external(overflow()))?;
        let add = |(sum, squares): (Decimal, Decimal), row: usize| match Decimal::at(&column, row) {
            Some(value) => Ok((sum.add(value)?, squares.add(value.multiply(value)?)?)),
            None => Ok((sum, squares)),
        };
        let sums = range.clone().try_fold((Decimal::ZERO, Decimal::ZERO), add);
        let value = sums.and_then(|(sum, squares)| moment(count, sum, squares, is_sample, is_root));
        value.and_then(|value| value.append(&mut builder)).map_err(external)?;
    }
    <Option<Decimal> as Write>::finish(builder).map_err(external)
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringViewArray};

    use super::*;

    #[test]
    fn the_first_of_the_most_frequent_values_is_the_mode() {
        let values: ArrayRef = Arc::new(StringViewArray::from(vec!["a", "b", "B", "c", "C", "d"]));
        let keys: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 2, 3, 3, 4]));
        let (arguments, keys) = ([values], [keys]);
        let rows = Stretches { arguments: &arguments, keys: &keys, numbers: None, ends: &[6, 6] };
        let modes = RowsFunction::Mode.values(&rows, &DataType::Utf8View).unwrap();
        assert_eq!(modes.as_string_view().iter().collect::<Vec<_>>(), [Some("b"), None]);
    }

    #[test]
    fn arrays_of_other_lengths_are_no_dimension() {
        let arrays = |rows: Vec<Option<Vec<Option<i64>>>>| {
            Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(rows)) as ArrayRef
        };
        let message = |rows: Vec<Option<Vec<Option<i64>>>>| {
            let (ends, arguments) = ([rows.len()], [arrays(rows)]);
            let field = Arc::new(arrow::datatypes::Field::new("item", arguments[0].data_type().clone(), true));
            let rows = Stretches { arguments: &arguments, keys: &[], numbers: None, ends: &ends };
            let list = DataType::List(field);
            // A list takes all of them.
            assert_eq!(RowsFunction::List.values(&rows, &list).unwrap().len(), 1);
            RowsFunction::ArrayAgg.values(&rows, &list).map_or_else(|error| error.to_string(), |_| "fits".into())
        };
        let row = |values: &[i64]| Some(values.iter().copied().map(Some).collect::<Vec<_>>());
        assert_eq!(message(vec![row(&[1, 2]), row(&[3, 4])]), "fits");
        assert!(message(vec![row(&[1]), row(&[3, 4])]).contains("different dimensionality"));
        assert!(message(vec![row(&[])]).contains("empty arrays"));
        assert!(message(vec![row(&[1]), None]).contains("null arrays"));
    }
}
