//! Groups found by array lookup, where keys have few values.
//!
//! Columns that arrive as codes into a small dictionary (or as picks of a few values, as after a join with a small
//! table), booleans, integers from a small range and a few short strings are each turned into a small number; together
//! they are an index into an array of group numbers. The array only remembers what the hash table said: an index that
//! is met for the first time is looked up there, and when a dictionary changes the array is forgotten.

use std::sync::{Arc, Weak};

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, StringViewArray, UInt32Array};
use arrow::datatypes::*;
use diligence_base::Result;

use super::key_encoding::dictionary_parts;
use super::short_strings::ShortStrings;
use crate::batch::Column;

/// Values that one column may have at most.
const COLUMN_VALUES_MAX: usize = 4096;
/// Numbers between the least and the greatest of a column, at most: days of some decades are few.
const RANGE_MAX: usize = 16 * 1024;
/// Combinations of values at most: their group numbers stay in the L1 and L2 caches.
const COMBINATIONS_MAX: usize = 64 * 1024;
/// Rows of a table whose attributes are keys, at most, and combinations of them with values of other columns: their
/// group numbers stay in an L2 cache.
const ROW_COMBINATIONS_MAX: usize = 512 * 1024;
/// How often the array may be forgotten, because there are too many groups, before rows of tables are given up.
const ROWS_FORGOTTEN_MAX: usize = 2;
/// How often the codes may change their meaning, beyond one in four batches, before this way is given up.
const CHANGES_MAX: usize = 16;
/// Batches that could not be coded before this way is given up.
const MISSES_MAX: usize = 8;

/// A group number not known yet.
const UNKNOWN: u32 = u32::MAX;
/// The same, and one row with it is already on the list of rows to look up.
const LISTED: u32 = u32::MAX - 1;

/// How a column's values become small numbers. The last number is NULL's.
enum Coder {
    /// By their place in this array.
    Values(ArrayRef),
    /// By their distance from `base`.
    Range { base: i64, size: usize },
    /// By the order of their first appearance.
    Strings { known: ShortStrings, room: usize },
    /// By the row of a table that they are all of: its columns, and how many rows it has.
    Rows { columns: Vec<Weak<dyn Array>>, rows: usize },
}

/// The array and what its indexes mean.
#[derive(Default)]
pub(super) struct DirectGroups {
    coders: Vec<Coder>,
    groups: Vec<u32>,
    codes: Vec<u32>,
    batches: usize,
    changes: usize,
    misses: usize,
    /// Whether columns are coded by rows of tables where they can be.
    by_rows: bool,
    /// What was under the picks of the batch before, by column: what is there again is a table.
    met: Vec<Option<Weak<dyn Array>>>,
    forgotten: usize,
}

impl DirectGroups {
    /// Codes the rows of a batch, with an array of at most so many bytes. False if its columns do not have few values.
    pub fn code(&mut self, columns: &[Column], rows: usize, bytes_max: usize) -> Result<bool> {
        self.batches += 1;
        let given_up = self.misses > MISSES_MAX || self.changes > CHANGES_MAX + self.batches / 4;
        if columns.is_empty() || given_up {
            return Ok(false);
        }
        let known = std::mem::take(&mut self.coders);
        let coders_before = known.len();
        let of_rows = self.columns_of_rows(columns);
        let sources =
            if self.by_rows { Self::by_rows(columns, &of_rows, known)? } else { Self::by_values(columns, known)? };
        let combinations_max = match self.by_rows {
            true => ROW_COMBINATIONS_MAX.min(bytes_max / size_of::<u32>()),
            false => COMBINATIONS_MAX.min(bytes_max / size_of::<u32>()),
        };
        let combinations = sources.iter().flatten().try_fold(1usize, |product, source| {
            product.checked_mul(source.coder.values() + 1).filter(|&product| product <= combinations_max)
        });
        let Some((combinations, sources)) = combinations.zip(sources) else {
            let may_go_by_rows = !self.by_rows && self.forgotten == 0 && of_rows.iter().any(Option::is_some);
            self.by_rows |= may_go_by_rows;
            self.misses += usize::from(!may_go_by_rows);
            return Ok(false);
        };
        let had_coders = coders_before > 0;
        if coders_before != sources.len() || sources.iter().any(|source| source.changed) {
            self.changes += usize::from(had_coders);
            self.groups.clear();
            self.groups.resize(combinations, UNKNOWN);
        }
        self.codes.clear();
        self.codes.resize(rows, 0);
        let mut factor = 1;
        for source in sources {
            source.add_codes(&mut self.codes, factor);
            factor *= source.coder.values() as u32 + 1;
            self.coders.push(source.coder);
        }
        Ok(true)
    }

    /// The group of each row, as far as known. Returns one row of each combination that is not.
    pub fn find(&mut self, ids: &mut Vec<u32>) -> Vec<u32> {
        ids.clear();
        let groups = self.groups.as_slice();
        // Codes are less than the number of combinations.
        ids.extend(self.codes.iter().map(|&code| groups[code as usize]));
        let mut unknown = Vec::new();
        if ids.iter().fold(false, |any, &id| any | (id == UNKNOWN)) {
            for (row, &code) in self.codes.iter().enumerate() {
                let group = &mut self.groups[code as usize];
                if *group == UNKNOWN {
                    *group = LISTED;
                    unknown.push(row as u32);
                }
            }
        }
        unknown
    }

    /// Remembers the groups of the rows that `find` returned and finds again.
    pub fn learn(&mut self, rows: &[u32], groups: &[u32], ids: &mut Vec<u32>) {
        for (&row, &group) in rows.iter().zip(groups) {
            self.groups[self.codes[row as usize] as usize] = group;
        }
        let still_unknown = self.find(ids);
        debug_assert!(still_unknown.is_empty());
    }

    /// Group numbers have changed.
    pub fn forget(&mut self) {
        self.groups.fill(UNKNOWN);
        if self.by_rows {
            self.forgotten += 1;
            // There are so many groups that rows are hardly met again before they are forgotten.
            if self.forgotten > ROWS_FORGOTTEN_MAX {
                (self.by_rows, self.groups) = (false, Vec::new());
                self.coders.clear();
            }
        }
    }

    fn by_values(columns: &[Column], known: Vec<Coder>) -> Result<Option<Vec<DirectSource>>> {
        let mut known = known.into_iter();
        columns.iter().map(|column| DirectSource::new(column, known.next())).collect()
    }

    /// Columns of one row of a table together, the others by their values.
    fn by_rows(columns: &[Column], of_rows: &[Option<usize>], known: Vec<Coder>) -> Result<Option<Vec<DirectSource>>> {
        let mut known = known.into_iter();
        let mut sources = Vec::with_capacity(columns.len());
        for (place, column) in columns.iter().enumerate() {
            let source = match of_rows[place] {
                Some(first) if first < place => continue,
                Some(first) => {
                    let together = columns.iter().zip(of_rows).filter(|(_, of)| **of == Some(first));
                    DirectSource::of_rows(together.map(|(column, _)| column), known.next())
                }
                None => DirectSource::new(column, known.next())?,
            };
            let Some(source) = source else { return Ok(None) };
            sources.push(source);
        }
        Ok(Some(sources))
    }

    /// For each column that is one of a table's, which was there in the batch before as well, the first column with the
    /// same rows.
    fn columns_of_rows(&mut self, columns: &[Column]) -> Vec<Option<usize>> {
        let met = |column: &Column| {
            let (values, picks) = column.parts();
            picks.is_some().then(|| Arc::downgrade(values))
        };
        let before = std::mem::replace(&mut self.met, columns.iter().map(met).collect());
        let is_table = |place: usize| match (before.get(place), &self.met[place]) {
            (Some(Some(before)), Some(now)) => before.ptr_eq(now),
            _ => false,
        };
        let same = |one: &Column, other: &Column| match (one.parts(), other.parts()) {
            ((values, Some(picks)), (others, Some(other_picks))) => {
                values.len() == others.len() && Arc::ptr_eq(picks, other_picks)
            }
            _ => false,
        };
        let first = |place: usize| {
            let first = (0..place).find(|&other| is_table(other) && same(&columns[other], &columns[place]));
            is_table(place).then(|| first.unwrap_or(place))
        };
        (0..columns.len()).map(first).collect()
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        (self.groups.capacity() + self.codes.capacity()) * 4
    }
}

impl Coder {
    /// How many values, NULL not included.
    fn values(&self) -> usize {
        match self {
            Self::Values(values) => values.len(),
            Self::Range { size, .. } => *size,
            Self::Strings { room, .. } => *room,
            Self::Rows { rows, .. } => *rows,
        }
    }
}

/// A column with its coder.
struct DirectSource {
    coder: Coder,
    changed: bool,
    codes: Codes,
}

enum Codes {
    /// Places in the coder's values; NULL where there is none.
    Places(UInt32Array),
    /// Integers.
    Numbers(ArrayRef),
}

impl DirectSource {
    fn new(column: &Column, known: Option<Coder>) -> Result<Option<Self>> {
        let (values, picks) = column.parts();
        if let DataType::Dictionary(..) = values.data_type() {
            let dictionary = values.as_any_dictionary();
            if dictionary.values().len() > COLUMN_VALUES_MAX {
                return Ok(None);
            }
            let (values, codes) = dictionary_parts(&column.flat()?)?;
            return Ok(Some(Self::places(values, codes, known)));
        }
        if let Some(picks) = picks
            && values.len() <= COLUMN_VALUES_MAX
            && values.len() * 2 <= picks.len().max(64)
        {
            return Ok(Some(Self::places(values.clone(), picks.as_ref().clone(), known)));
        }
        if let DataType::Utf8View = values.data_type() {
            return Ok(Self::strings(column.flat()?.as_string_view(), known));
        }
        if !is_small_number(values.data_type()) {
            return Ok(None);
        }
        let values = column.flat()?;
        let Some((least, greatest)) = bounds(&values) else {
            // Only NULLs: any range will do.
            let base = match known {
                Some(Coder::Range { base, .. }) => base,
                _ => 0,
            };
            return Ok(Some(Self::range(values, known, base, base)));
        };
        match greatest.checked_sub(least) {
            Some(span) if span < RANGE_MAX as i64 => Ok(Some(Self::range(values, known, least, greatest))),
            _ => Ok(None),
        }
    }

    fn places(values: ArrayRef, codes: UInt32Array, known: Option<Coder>) -> Self {
        let same = |known: &ArrayRef| {
            Arc::ptr_eq(known, &values)
                || (known.len() == values.len() && values.len() <= 64 && known.to_data() == values.to_data())
        };
        let (coder, changed) = match known {
            Some(Coder::Values(known)) if same(&known) => (Coder::Values(known), false),
            _ => (Coder::Values(values), true),
        };
        Self { coder, changed, codes: Codes::Places(codes) }
    }

    /// Columns with the same picks. `None` if there are none.
    fn of_rows<'c>(mut columns: impl Iterator<Item = &'c Column> + Clone, known: Option<Coder>) -> Option<Self> {
        let now: Vec<_> = columns.clone().map(|column| Arc::downgrade(column.parts().0)).collect();
        let (values, picks) = columns.next()?.parts();
        let (rows, codes) = (values.len(), Codes::Places(picks?.as_ref().clone()));
        let same = |before: &[Weak<dyn Array>]| {
            before.len() == now.len() && before.iter().zip(&now).all(|(before, now)| before.ptr_eq(now))
        };
        let changed = !matches!(&known, Some(Coder::Rows { columns, .. }) if same(columns));
        Some(Self { coder: Coder::Rows { columns: now, rows }, changed, codes })
    }

    fn strings(strings: &StringViewArray, known: Option<Coder>) -> Option<Self> {
        let (mut known, old_room) = match known {
            Some(Coder::Strings { known, room }) => (known, room),
            _ => (ShortStrings::new(), 0),
        };
        let numbers = known.code(strings)?;
        let codes = UInt32Array::new(numbers.into(), Array::nulls(strings).cloned());
        let room = known.room();
        Some(Self { coder: Coder::Strings { known, room }, changed: room != old_room, codes: Codes::Places(codes) })
    }

    fn range(values: ArrayRef, known: Option<Coder>, least: i64, greatest: i64) -> Self {
        if let Some(Coder::Range { base, size }) = known
            && least >= base
            && greatest.checked_sub(base).is_some_and(|span| span < size as i64)
        {
            return Self { coder: Coder::Range { base, size }, changed: false, codes: Codes::Numbers(values) };
        }
        // Room on both sides, so that the next batches fit, too.
        let span = (greatest - least) as usize + 1;
        let size = if span * 2 <= COLUMN_VALUES_MAX { (span * 2).next_power_of_two().max(16) } else { span + span / 8 };
        let base = least.saturating_sub(((size - span) / 2) as i64);
        Self { coder: Coder::Range { base, size }, changed: true, codes: Codes::Numbers(values) }
    }

    fn add_codes(&self, codes: &mut [u32], factor: u32) {
        let null = self.coder.values() as u32;
        match (&self.codes, &self.coder) {
            (Codes::Places(places), _) => match Array::nulls(places).filter(|nulls| nulls.null_count() > 0) {
                None => {
                    codes.iter_mut().zip(places.values()).for_each(|(code, &place)| *code += place.min(null) * factor);
                }
                Some(nulls) => {
                    codes.iter_mut().zip(places.values()).zip(nulls.iter()).for_each(|((code, &place), valid)| {
                        *code += if valid { place.min(null) } else { null } * factor
                    })
                }
            },
            (Codes::Numbers(values), Coder::Range { base, .. }) => {
                let (base, nulls) = (*base, values.logical_nulls().filter(|nulls| nulls.null_count() > 0));
                numbers(values, |row, number| {
                    let valid = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
                    let place = if valid { number.wrapping_sub(base) as u32 } else { null };
                    codes[row] += place.min(null) * factor;
                });
            }
            (Codes::Numbers(_), _) => {}
        }
    }
}

fn is_small_number(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(data_type, Boolean | Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | Date32)
}

/// Calls `each` with every row's number, NULLs with anything.
#[inline(always)]
fn numbers(values: &ArrayRef, mut each: impl FnMut(usize, i64)) {
    fn all<T: ArrowPrimitiveType>(values: &ArrayRef, mut each: impl FnMut(usize, i64))
    where
        T::Native: Into<i64>,
    {
        values.as_primitive::<T>().values().iter().enumerate().for_each(|(row, &value)| each(row, value.into()));
    }
    match values.data_type() {
        DataType::Boolean => {
            values.as_boolean().values().iter().enumerate().for_each(|(row, value)| each(row, value as i64));
        }
        DataType::Int8 => all::<Int8Type>(values, each),
        DataType::Int16 => all::<Int16Type>(values, each),
        DataType::Int32 => all::<Int32Type>(values, each),
        DataType::Int64 => all::<Int64Type>(values, each),
        DataType::UInt8 => all::<UInt8Type>(values, each),
        DataType::UInt16 => all::<UInt16Type>(values, each),
        DataType::UInt32 => all::<UInt32Type>(values, each),
        DataType::Date32 => all::<Date32Type>(values, each),
        _ => {}
    }
}

/// The least and the greatest number, `None` if all are NULL.
fn bounds(values: &ArrayRef) -> Option<(i64, i64)> {
    let (mut least, mut greatest) = (i64::MAX, i64::MIN);
    match values.logical_nulls().filter(|nulls| nulls.null_count() > 0) {
        None => numbers(values, |_, number| {
            least = least.min(number);
            greatest = greatest.max(number);
        }),
        Some(nulls) => numbers(values, |row, number| {
            if nulls.is_valid(row) {
                least = least.min(number);
                greatest = greatest.max(number);
            }
        }),
    }
    (least <= greatest).then_some((least, greatest))
}
