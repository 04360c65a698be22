//! Which of up to 64 queries want a row, by the value of one column.
//!
//! The constants that the queries compare a column with, in order, cut its values into *classes*: below the first
//! constant, the first constant itself, between the first and the second, and so on. For all values of a class the
//! queries' comparisons come out the same, so a table from class to mask answers for all queries at once: one search
//! per value, however many queries there are.
//!
//! ```text
//!   constants            10        20        20 queries: q0: x < 20, q1: x >= 10, q2: x = 20
//!   class        0        1   2     3   4
//!   mask        q0      q0q1 q0q1 q1q2  q1
//! ```
//!
//! (SharedDB and CJOIN call such a mask a query set: Giannikis et al., "SharedDB: Killing One Thousand Queries With One
//! Stone", VLDB 2012, section 3; Candea et al., "A Scalable, Predictable Join Operator for Highly Concurrent Data
//! Warehouses", VLDB 2009.)
//!
//! Invariant: NULL is in no class; no query that compares the column wants it.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, UInt32Array};
use arrow::datatypes::*;
use datafusion_common::ScalarValue;
use datafusion_expr::Operator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{BinaryExpr, Column as ColumnExpr, Literal, in_list};
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::{from_arrow, from_datafusion};

/// Values between the first and the last constant for which a table is kept, with a place for each of them.
const TABLE_VALUES_MAX: i128 = 16 * 1024;

/// How a condition compares its column with its constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Comparison {
    /// Less than the constant.
    Less,
    /// At most the constant.
    AtMost,
    /// Greater than the constant.
    Greater,
    /// At least the constant.
    AtLeast,
    /// Equal to one of the constants.
    Among,
}

impl Comparison {
    /// `column operator constant`, if it is one of these.
    pub fn of(operator: Operator) -> Option<Self> {
        match operator {
            Operator::Lt => Some(Self::Less),
            Operator::LtEq => Some(Self::AtMost),
            Operator::Gt => Some(Self::Greater),
            Operator::GtEq => Some(Self::AtLeast),
            Operator::Eq => Some(Self::Among),
            _ => None,
        }
    }
}

/// A constant in a form that is quick to compare.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ClassKey {
    Number(i64),
    Text(Box<str>),
}

impl ClassKey {
    /// The form of a constant; `None` for NULL and for types whose comparisons are left as they are: floats, wide
    /// decimals, nested types.
    pub fn of(value: &ScalarValue) -> Option<Self> {
        use ScalarValue::*;
        Some(match value {
            Int8(number) => ClassKey::Number((*number)?.into()),
            Int16(number) => ClassKey::Number((*number)?.into()),
            Int32(number) | Date32(number) => ClassKey::Number((*number)?.into()),
            Int64(number) => ClassKey::Number((*number)?),
            UInt8(number) => ClassKey::Number((*number)?.into()),
            UInt16(number) => ClassKey::Number((*number)?.into()),
            UInt32(number) => ClassKey::Number((*number)?.into()),
            TimestampSecond(number, _)
            | TimestampMillisecond(number, _)
            | TimestampMicrosecond(number, _)
            | TimestampNanosecond(number, _) => ClassKey::Number((*number)?),
            Decimal128(number, precision, _) if *precision <= 18 => ClassKey::Number(i64::try_from((*number)?).ok()?),
            Utf8(text) | Utf8View(text) | LargeUtf8(text) => ClassKey::Text(text.as_deref()?.into()),
            _ => return None,
        })
    }
}

/// What one query says of one column: all of these hold.
pub(crate) type Terms = Vec<(Comparison, Vec<ScalarValue>)>;

/// The classes of a column's values and who wants them.
#[derive(Debug)]
pub(crate) struct Lookup {
    /// Ascending.
    keys: Vec<ClassKey>,
    /// The same as they were written.
    constants: Vec<ScalarValue>,
    /// The kind of each class, of which there are twice as many as constants, and one: classes of one kind have the
    /// same mask.
    kinds: Vec<u32>,
    /// By kind, each once. The first is zero, the mask of NULL.
    masks: Vec<u64>,
    table: Option<Table>,
}

/// The kinds of the numbers from the first constant to the last.
#[derive(Debug)]
struct Table {
    first: i64,
    kinds: Vec<u32>,
}

impl Lookup {
    /// The lookup for queries that say this of the column, in the order of their bits; a query without terms wants
    /// every value, NULL included, and may not be among them.
    pub fn new(queries: &[Terms]) -> Result<Self> {
        let unknown = || Error::bug("a parameter of a type without an order");
        let mut sorted = Vec::new();
        for value in queries.iter().flatten().flat_map(|(_, constants)| constants) {
            sorted.push((ClassKey::of(value).ok_or_else(unknown)?, value.clone()));
        }
        sorted.sort_by(|left, right| left.0.cmp(&right.0));
        sorted.dedup_by(|left, right| left.0 == right.0);
        let (keys, constants): (Vec<_>, Vec<_>) = sorted.into_iter().unzip();
        let mut masks = vec![0u64; keys.len() * 2 + 1];
        for (query, terms) in queries.iter().enumerate() {
            let mut wanted = vec![true; masks.len()];
            for (comparison, values) in terms {
                let points = values.iter().map(|value| {
                    let key = ClassKey::of(value).ok_or_else(unknown)?;
                    keys.binary_search(&key).map(|place| place * 2 + 1).map_err(|_| unknown())
                });
                let points = points.collect::<Result<Vec<_>>>()?;
                for (class, wanted) in wanted.iter_mut().enumerate() {
                    *wanted &= match (comparison, points.first()) {
                        (Comparison::Among, _) => points.contains(&class),
                        (Comparison::Less, Some(&point)) => class < point,
                        (Comparison::AtMost, Some(&point)) => class <= point,
                        (Comparison::Greater, Some(&point)) => class > point,
                        (Comparison::AtLeast, Some(&point)) => class >= point,
                        (_, None) => false,
                    };
                }
            }
            for (mask, wanted) in masks.iter_mut().zip(wanted) {
                *mask |= u64::from(wanted) << query;
            }
        }
        let mut by_kind = vec![0];
        let kind = |mask: u64| {
            let known = by_kind.iter().position(|other| *other == mask);
            known.unwrap_or_else(|| {
                by_kind.push(mask);
                by_kind.len() - 1
            }) as u32
        };
        let kinds: Vec<u32> = masks.into_iter().map(kind).collect();
        let table = table(&keys, &kinds);
        Ok(Self { keys, constants, kinds, masks: by_kind, table })
    }

    /// How many different masks there are, zero included.
    pub fn kinds(&self) -> usize {
        self.masks.len()
    }

    /// The mask of the values of a kind.
    pub fn mask_of(&self, kind: usize) -> u64 {
        self.masks[kind]
    }

    /// Adds to each row's code the kind of its value, times `stride`.
    pub fn add_kinds(&self, values: &ArrayRef, stride: u32, codes: &mut [u32]) -> Result<()> {
        self.each(values, codes, |code, kind| *code += kind * stride)
    }

    /// Clears in each row's mask the queries that do not want its value.
    pub fn restrict(&self, values: &ArrayRef, rows: &mut [u64]) -> Result<()> {
        self.each(values, rows, |row, kind| *row &= self.masks[kind as usize])
    }

    fn kinds_of(&self, values: &ArrayRef) -> Result<Vec<u32>> {
        let mut kinds = vec![0; values.len()];
        self.each(values, &mut kinds, |place, kind| *place = kind)?;
        Ok(kinds)
    }

    /// Has `combine` look at each row and the kind of its value.
    fn each<R>(&self, values: &ArrayRef, rows: &mut [R], combine: impl Fn(&mut R, u32)) -> Result<()> {
        use DataType::*;
        match values.data_type() {
            Int8 => self.numbers::<Int8Type, R>(values, rows, i64::from, combine),
            Int16 => self.numbers::<Int16Type, R>(values, rows, i64::from, combine),
            Int32 => self.numbers::<Int32Type, R>(values, rows, i64::from, combine),
            Int64 => self.numbers::<Int64Type, R>(values, rows, |number| number, combine),
            UInt8 => self.numbers::<UInt8Type, R>(values, rows, i64::from, combine),
            UInt16 => self.numbers::<UInt16Type, R>(values, rows, i64::from, combine),
            UInt32 => self.numbers::<UInt32Type, R>(values, rows, i64::from, combine),
            Date32 => self.numbers::<Date32Type, R>(values, rows, i64::from, combine),
            Timestamp(TimeUnit::Second, _) => {
                self.numbers::<TimestampSecondType, R>(values, rows, |number| number, combine)
            }
            Timestamp(TimeUnit::Millisecond, _) => {
                self.numbers::<TimestampMillisecondType, R>(values, rows, |number| number, combine)
            }
            Timestamp(TimeUnit::Microsecond, _) => {
                self.numbers::<TimestampMicrosecondType, R>(values, rows, |number| number, combine)
            }
            Timestamp(TimeUnit::Nanosecond, _) => {
                self.numbers::<TimestampNanosecondType, R>(values, rows, |number| number, combine)
            }
            Decimal32(..) => self.numbers::<Decimal32Type, R>(values, rows, i64::from, combine),
            Decimal64(..) => self.numbers::<Decimal64Type, R>(values, rows, |number| number, combine),
            // Constants have at most 18 digits: what is beyond 64 bits is beyond all of them.
            Decimal128(..) => {
                let clamped = |number: i128| number.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
                self.numbers::<Decimal128Type, R>(values, rows, clamped, combine)
            }
            Utf8 => self.texts(values.as_string::<i32>().iter(), rows, combine),
            LargeUtf8 => self.texts(values.as_string::<i64>().iter(), rows, combine),
            Utf8View => self.texts(values.as_string_view().iter(), rows, combine),
            Dictionary(..) => {
                let dictionary = values.as_any_dictionary();
                let kinds = self.kinds_of(dictionary.values())?;
                let codes = arrow::compute::cast(dictionary.keys(), &UInt32).map_err(from_arrow)?;
                let codes: &UInt32Array = codes.as_primitive();
                for (row, code) in rows.iter_mut().zip(codes.iter()) {
                    combine(row, code.map_or(0, |code| kinds[code as usize]));
                }
            }
            other => return Err(Error::bug(format!("a parameter over a column of type {other}"))),
        }
        Ok(())
    }

    fn numbers<T: ArrowPrimitiveType, R>(
        &self,
        values: &ArrayRef,
        rows: &mut [R],
        number: impl Fn(T::Native) -> i64,
        combine: impl Fn(&mut R, u32),
    ) {
        let values = values.as_primitive::<T>();
        let (below, above) = (self.kinds[0], self.kinds[self.kinds.len() - 1]);
        let kind = |value: T::Native| {
            let value = number(value);
            let Some(table) = &self.table else { return self.kinds[self.class_of(&ClassKey::Number(value))] };
            let place = value.wrapping_sub(table.first) as u64 as usize;
            match table.kinds.get(place) {
                Some(kind) => *kind,
                None if value < table.first => below,
                None => above,
            }
        };
        let each = rows.iter_mut().zip(values.values());
        match values.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => each.for_each(|(row, value)| combine(row, kind(*value))),
            Some(nulls) => each
                .zip(nulls.iter())
                .for_each(|((row, value), is_valid)| combine(row, if is_valid { kind(*value) } else { 0 })),
        }
    }

    fn texts<'a, R>(
        &self,
        values: impl Iterator<Item = Option<&'a str>>,
        rows: &mut [R],
        combine: impl Fn(&mut R, u32),
    ) {
        for (row, value) in rows.iter_mut().zip(values) {
            let kind = value.map_or(0, |value| {
                let place = self.keys.binary_search_by(|key| match key {
                    ClassKey::Text(text) => text.as_ref().cmp(value),
                    ClassKey::Number(_) => std::cmp::Ordering::Less,
                });
                self.kinds[place.map_or_else(|gap| gap * 2, |point| point * 2 + 1)]
            });
            combine(row, kind);
        }
    }

    fn class_of(&self, key: &ClassKey) -> usize {
        self.keys.binary_search(key).map_or_else(|gap| gap * 2, |point| point * 2 + 1)
    }

    /// Conditions on the column that hold for every value that some query wants: they prune clusters, and drop rows
    /// early.
    pub fn union(&self, table: &Schema, index: usize) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
        let column = || Arc::new(ColumnExpr::new(table.field(index).name(), index)) as Arc<dyn PhysicalExpr>;
        let literal = |point: usize| Arc::new(Literal::new(self.constants[point].clone())) as Arc<dyn PhysicalExpr>;
        let compare = |operator, point| Arc::new(BinaryExpr::new(column(), operator, literal(point))) as _;
        let wanted = (0..self.kinds.len()).filter(|&class| self.kinds[class] != 0).collect::<Vec<_>>();
        let (Some(&first), Some(&last)) = (wanted.first(), wanted.last()) else {
            return Ok(vec![Arc::new(Literal::new(ScalarValue::Boolean(Some(false))))]);
        };
        if let [only] = wanted.as_slice()
            && only % 2 == 1
        {
            return Ok(vec![compare(Operator::Eq, only / 2)]);
        }
        if wanted.iter().all(|class| class % 2 == 1) {
            let members = wanted.iter().map(|class| literal(class / 2)).collect();
            return Ok(vec![in_list(column(), members, &false, table).map_err(from_datafusion)?]);
        }
        let mut bounds = Vec::new();
        match (first, first % 2) {
            (0, _) => {}
            (class, 1) => bounds.push(compare(Operator::GtEq, class / 2)),
            (class, _) => bounds.push(compare(Operator::Gt, class / 2 - 1)),
        }
        match (last, last % 2) {
            (class, _) if class + 1 == self.kinds.len() => {}
            (class, 1) => bounds.push(compare(Operator::LtEq, class / 2)),
            (class, _) => bounds.push(compare(Operator::Lt, class / 2)),
        }
        Ok(bounds)
    }
}

/// A place for each number from the first key to the last, if they are few.
fn table(keys: &[ClassKey], kinds: &[u32]) -> Option<Table> {
    let (Some(ClassKey::Number(first)), Some(ClassKey::Number(last))) = (keys.first(), keys.last()) else {
        return None;
    };
    let values = i128::from(*last) - i128::from(*first) + 1;
    if values > TABLE_VALUES_MAX {
        return None;
    }
    let mut by_number = Vec::with_capacity(values as usize);
    for (place, key) in keys.iter().enumerate() {
        let ClassKey::Number(number) = key else { return None };
        // The gap before the key, then the key.
        by_number.resize((number - first) as usize, kinds[place * 2]);
        by_number.push(kinds[place * 2 + 1]);
    }
    Some(Table { first: *first, kinds: by_number })
}

#[cfg(test)]
mod tests {
    use arrow::array::{Date32Array, Decimal128Array, DictionaryArray, Int64Array, StringArray, StringViewArray};
    use datafusion_physical_expr::PhysicalExpr;

    use super::*;

    fn int(value: i64) -> ScalarValue {
        ScalarValue::Int64(Some(value))
    }

    fn masks(lookup: &Lookup, values: ArrayRef) -> Vec<u64> {
        let mut rows = vec![u64::MAX; values.len()];
        lookup.restrict(&values, &mut rows).unwrap();
        rows
    }

    #[test]
    fn each_class_has_the_queries_whose_comparisons_hold() {
        use Comparison::*;
        let queries = [
            vec![(Less, vec![int(20)])],
            vec![(AtLeast, vec![int(10)])],
            vec![(Among, vec![int(20)])],
            vec![(Greater, vec![int(10)]), (AtMost, vec![int(i64::MAX)])],
            vec![(Among, vec![])],
        ];
        let values = [Some(i64::MIN), Some(9), Some(10), Some(11), Some(20), Some(21), Some(i64::MAX), None];
        let expected: Vec<u64> = vec![1, 1, 3, 11, 14, 10, 10, 0];
        assert_eq!(masks(&Lookup::new(&queries).unwrap(), Arc::new(Int64Array::from(values.to_vec()))), expected);
        // The kinds are those of the masks, each once.
        let lookup = Lookup::new(&queries).unwrap();
        let mut codes = vec![100; values.len()];
        lookup.add_kinds(&(Arc::new(Int64Array::from(values.to_vec())) as ArrayRef), 7, &mut codes).unwrap();
        let of_kinds = codes.iter().map(|code| lookup.mask_of((code - 100) as usize / 7));
        assert_eq!((of_kinds.collect::<Vec<_>>(), lookup.kinds()), (expected.clone(), 7));
        // Without the far constant there is a table, which answers the same.
        let near = [&queries[..3], &[vec![(Greater, vec![int(10)])]]].concat();
        let lookup = Lookup::new(&near).unwrap();
        assert!(lookup.table.is_some());
        assert_eq!(masks(&lookup, Arc::new(Int64Array::from(values.to_vec()))), expected);
    }

    #[test]
    fn strings_dates_and_decimals_in_any_form() {
        use Comparison::*;
        let text = |text: &str| ScalarValue::Utf8View(Some(text.into()));
        let lookup =
            Lookup::new(&[vec![(Among, vec![text("b"), text("d")])], vec![(AtLeast, vec![text("c")])]]).unwrap();
        let words = ["a", "b", "c", "d"];
        let expected = [0, 1, 2, 3];
        assert_eq!(masks(&lookup, Arc::new(StringViewArray::from_iter_values(words))), expected);
        assert_eq!(masks(&lookup, Arc::new(StringArray::from_iter_values(words))), expected);
        let coded: DictionaryArray<Int32Type> = words.into_iter().collect();
        assert_eq!(masks(&lookup, Arc::new(coded)), expected);
        let date = Lookup::new(&[vec![(Less, vec![ScalarValue::Date32(Some(0))])]]).unwrap();
        assert_eq!(masks(&date, Arc::new(Date32Array::from(vec![-1, 0]))), [1, 0]);
        let decimal = Lookup::new(&[vec![(AtLeast, vec![ScalarValue::Decimal128(Some(5), 15, 2)])]]).unwrap();
        let wide = Decimal128Array::from(vec![4, 5, i128::MAX, i128::MIN]).with_precision_and_scale(38, 2).unwrap();
        assert_eq!(masks(&decimal, Arc::new(wide)), [0, 1, 1, 0]);
    }

    #[test]
    fn the_union_bounds_what_anybody_wants() {
        use Comparison::*;
        let shown = |queries: &[Terms]| {
            let fields = ["a", "b", "c", "x"].map(|name| Field::new(name, DataType::Int64, true));
            let union = Lookup::new(queries).unwrap().union(&Schema::new(fields.to_vec()), 3).unwrap();
            union
                .iter()
                .map(|condition: &Arc<dyn PhysicalExpr>| condition.to_string())
                .collect::<Vec<_>>()
                .join(" and ")
        };
        let between = |low, high| vec![(AtLeast, vec![int(low)]), (Less, vec![int(high)])];
        assert_eq!(shown(&[between(1, 5), between(3, 9)]), "x@3 >= 1 and x@3 < 9");
        assert_eq!(shown(&[vec![(Greater, vec![int(4)])], vec![(AtLeast, vec![int(7)])]]), "x@3 > 4");
        assert_eq!(shown(&[vec![(AtMost, vec![int(4)])], vec![(AtLeast, vec![int(4)])]]), "");
        assert_eq!(shown(&[between(5, 1)]), "false");
        assert_eq!(shown(&[vec![(Among, vec![int(4)])]]), "x@3 = 4");
        assert!(shown(&[vec![(Among, vec![int(4)])], vec![(Among, vec![int(7), int(9)])]]).starts_with("x@3 IN"));
    }
}
