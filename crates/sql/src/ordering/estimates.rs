//! How many rows each operator gives, and what its columns' values are like: guesses from the tables' statistics.
//!
//! Ranges assume evenly spread values, and conditions on different columns are taken as independent: the rules of
//! System R (Selinger and others, "Access Path Selection in a Relational Database Management System", 1979, section 4).
//! A join on keys keeps one pair in `max(distinct left, distinct right)`, or one in the number of rows that the unique
//! side had before it was filtered: every foreign key finds its one partner. A wrong guess costs time, never rows.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_common::{ColumnStatistics, ScalarValue};
use diligence_engine::plan::estimates;

use crate::algebra::{
    Aggregate, ColumnId, Comparison, Constant, Join, JoinKind, Relation, Scalar, Scan, SetKind, SubqueryKind,
};

/// Rows of something of which nothing is known: the engine's number.
const UNKNOWN_ROWS: f64 = estimates::UNKNOWN_ROWS as f64;
/// Rows of a WITH, whose query is elsewhere.
const WITH_ROWS: f64 = 10_000.0;
/// For a comparison of which nothing is known.
const RANGE_DEFAULT: f64 = 1.0 / 3.0;
/// For `column = value` without a count of distinct values.
const EQUAL_DEFAULT: f64 = 0.1;
/// For `LIKE` with a fixed beginning.
const LIKE_PREFIX: f64 = 0.05;
/// For any other `LIKE`.
const LIKE_ANYWHERE: f64 = 0.1;
/// For conditions of no known form.
const UNKNOWN: f64 = 0.2;
/// What a condition between two relations keeps, equality aside.
const UNKNOWN_JOIN_CONDITION: f64 = 0.3;
/// A column is taken as unique if it has this share of its rows as distinct values.
const UNIQUE_SHARE: f64 = 0.95;
/// Elements of an array that becomes rows.
const ELEMENTS: f64 = 10.0;

/// The size of a relation.
#[derive(Clone, Debug)]
pub(crate) struct Cardinality {
    /// Rows; at least one, so that products stay comparable.
    pub rows: f64,
    /// What is known of columns; shared until it changes.
    columns: Arc<HashMap<ColumnId, ColumnValues>>,
}

/// What is known of a column's values.
#[derive(Clone, Copy, Debug)]
struct ColumnValues {
    distinct: f64,
    /// Whether that is known, and no guess.
    counted: bool,
    /// Whether no two rows of its base table have the same value.
    unique: bool,
    /// The least and the greatest value, on a line.
    range: Option<(f64, f64)>,
    /// The share of NULLs.
    nulls: Option<f64>,
}

/// The part of a column's values that conditions leave, as a share of its whole range.
#[derive(Clone, Copy)]
struct Range {
    low: f64,
    high: f64,
}

impl Cardinality {
    fn of_rows(rows: f64) -> Self {
        Self { rows: rows.max(1.0), columns: Arc::default() }
    }

    fn with_rows(&self, rows: f64) -> Self {
        Self { rows: rows.max(1.0), columns: self.columns.clone() }
    }

    /// The rows as a whole number, for plans.
    pub(crate) fn whole_rows(&self) -> usize {
        self.rows.round() as usize
    }

    fn values(&self, scalar: &Scalar) -> Option<&ColumnValues> {
        column_of(scalar).and_then(|id| self.columns.get(&id))
    }

    fn distinct(&self, scalar: &Scalar) -> f64 {
        match self.values(scalar) {
            Some(values) => values.distinct,
            None if scalar.columns().is_empty() => 1.0,
            None => self.rows,
        }
    }

    /// Whether a column has each of its values once, as far as statistics tell.
    fn is_unique(&self, scalar: &Scalar) -> bool {
        self.values(scalar).is_some_and(|values| values.unique)
    }

    /// Both sides' columns.
    fn beside(&self, other: &Self, rows: f64) -> Self {
        let mut columns = HashMap::clone(&self.columns);
        columns.extend(other.columns.iter().map(|(id, values)| (*id, *values)));
        Self { rows: rows.max(1.0), columns: Arc::new(columns) }
    }
}

/// The size of a relation of whose inputs the sizes are known, in the order of [`Relation::inputs`].
pub(crate) fn of(relation: &Relation, inputs: &[Cardinality]) -> Cardinality {
    let first = || inputs.first().cloned().unwrap_or_else(|| Cardinality::of_rows(UNKNOWN_ROWS));
    match relation {
        Relation::Scan(scan) => of_scan(scan),
        Relation::Values { rows, .. } => Cardinality::of_rows(rows.len() as f64),
        Relation::With(_) => Cardinality::of_rows(WITH_ROWS),
        Relation::Map { columns, .. } => {
            let input = first();
            let mut known = None;
            for (column, scalar) in columns {
                if let Some(values) = input.values(scalar).copied() {
                    known.get_or_insert_with(|| HashMap::clone(&input.columns)).insert(column.id, values);
                }
            }
            match known {
                Some(columns) => Cardinality { rows: input.rows, columns: Arc::new(columns) },
                None => input,
            }
        }
        Relation::Filter { condition, .. } => filtered(&first(), &conjuncts(condition)),
        Relation::Join(join) => match inputs {
            [left, right] => of_join(join, left, right),
            _ => Cardinality::of_rows(UNKNOWN_ROWS),
        },
        Relation::Aggregate(aggregate) => of_aggregate(aggregate, &first()),
        Relation::Distinct { on, .. } => {
            let input = first();
            let groups = on.iter().map(|id| input.columns.get(id).map_or(input.rows, |values| values.distinct));
            let rows = groups.product::<f64>().min(input.rows);
            input.with_rows(rows)
        }
        Relation::Limit(limit) => {
            let input = first();
            match &limit.fetch {
                Some(Scalar::Constant(Constant { value: ScalarValue::Int64(Some(rows)), .. })) => {
                    input.with_rows(input.rows.min(*rows as f64))
                }
                _ => input,
            }
        }
        Relation::Set(set) => {
            let rows = inputs.iter().map(|input| input.rows);
            Cardinality::of_rows(match set.kind {
                SetKind::Union => rows.sum(),
                SetKind::Intersect => rows.fold(f64::MAX, f64::min) * 0.5,
                SetKind::Except => first().rows * 0.5,
            })
        }
        Relation::Recursive(_) => Cardinality::of_rows(inputs.iter().map(|input| input.rows * 10.0).sum()),
        Relation::TableFunction(_) => {
            let input = first();
            input.with_rows(input.rows * ELEMENTS)
        }
        Relation::Definitions { .. } => inputs.last().cloned().unwrap_or_else(first),
        Relation::Window(_) | Relation::Sort { .. } | Relation::Apply(_) => first(),
    }
}

/// The size of a relation and all below it.
pub(crate) fn estimate(relation: &Relation) -> Cardinality {
    stacker::maybe_grow(128 * 1024, 2 * 1024 * 1024, || {
        let inputs = relation.inputs().into_iter().map(estimate).collect::<Vec<_>>();
        of(relation, &inputs)
    })
}

/// The rows of an inner join on these pairs of keys, left one first, and so many other conditions.
pub(crate) fn join_rows(left: &Cardinality, right: &Cardinality, keys: &[(&Scalar, &Scalar)], others: usize) -> f64 {
    let mut rows = left.rows * right.rows * UNKNOWN_JOIN_CONDITION.powi(others as i32);
    // Keys of several columns are rarely independent: the most selective one counts fully, each further one by its
    // square root of what is left.
    let mut shares: Vec<f64> = keys
        .iter()
        .map(|(a, b)| {
            let (a_distinct, b_distinct) = (left.distinct(a), right.distinct(b));
            let partners = match (left.is_unique(a), right.is_unique(b)) {
                (true, false) => a_distinct,
                (false, true) => b_distinct,
                _ => a_distinct.max(b_distinct),
            };
            1.0 / partners.max(1.0)
        })
        .collect();
    shares.sort_by(f64::total_cmp);
    for (index, share) in shares.into_iter().enumerate() {
        rows *= share.powf(0.5f64.powi(index as i32));
    }
    rows.max(1.0)
}

/// An inner join of so many rows.
pub(crate) fn joined(left: &Cardinality, right: &Cardinality, rows: f64) -> Cardinality {
    left.beside(right, rows)
}

fn of_join(join: &Join, left: &Cardinality, right: &Cardinality) -> Cardinality {
    let mut keys = Vec::new();
    let mut others = 0;
    let terms = conjuncts(&join.on);
    for term in &terms {
        match term {
            Scalar::Compare { comparison: Comparison::Equal | Comparison::IsNotDistinctFrom, left: a, right: b } => {
                let of_left = |scalar: &Scalar| scalar.columns().iter().any(|id| left.columns.contains_key(id));
                if of_left(a) || !of_left(b) { keys.push((&**a, &**b)) } else { keys.push((&**b, &**a)) }
            }
            _ => others += 1,
        }
    }
    let rows = join_rows(left, right, &keys, others);
    match &join.kind {
        JoinKind::Inner => left.beside(right, rows),
        JoinKind::Left => left.beside(right, rows.max(left.rows)),
        JoinKind::Single => left.beside(right, left.rows),
        JoinKind::Full => left.beside(right, rows.max(left.rows).max(right.rows)),
        JoinKind::Semi => left.with_rows(left.rows.min(rows)),
        JoinKind::Anti => left.with_rows(left.rows * 0.5),
        JoinKind::Mark(_) => left.clone(),
    }
}

fn of_aggregate(aggregate: &Aggregate, input: &Cardinality) -> Cardinality {
    if aggregate.groups.is_empty() {
        return Cardinality::of_rows(1.0);
    }
    let groups: f64 = aggregate.groups.iter().map(|(_, scalar)| input.distinct(scalar)).product();
    let sets = aggregate.sets.as_ref().map_or(1, |sets| sets.sets.len().max(1));
    let rows = groups.min(input.rows).max(1.0) * sets as f64;
    let mut columns = HashMap::new();
    for (column, scalar) in &aggregate.groups {
        let values = input.values(scalar);
        let distinct = values.map_or(rows, |values| values.distinct.min(rows));
        let unique = aggregate.groups.len() == 1 && sets == 1;
        let values = ColumnValues {
            distinct,
            counted: values.is_some_and(|values| values.counted),
            unique,
            range: values.and_then(|values| values.range),
            nulls: values.and_then(|v| v.nulls),
        };
        columns.insert(column.id, values);
    }
    Cardinality { rows, columns: Arc::new(columns) }
}

fn of_scan(scan: &Scan) -> Cardinality {
    let statistics = scan.table.statistics();
    let rows = (estimates::table_rows(scan.table.as_ref()) as f64).max(1.0);
    let schema = scan.table.schema();
    let values = |(index, column): &(usize, crate::algebra::Column)| {
        let known = statistics.column_statistics.get(*index)?;
        Some((column.id, base_values(known, schema.field(*index).data_type(), rows)?))
    };
    let columns = scan.columns.iter().filter_map(values).collect();
    let share = scan.sample.map_or(1.0, |(share, _)| share);
    Cardinality { rows: (rows * share).max(1.0), columns: Arc::new(columns) }
}

/// Distinct values: counted, or at most as many as the column's range has whole numbers or days.
fn base_values(column: &ColumnStatistics, data_type: &DataType, rows: f64) -> Option<ColumnValues> {
    let range = column.min_value.get_value().zip(column.max_value.get_value());
    let range = range.and_then(|(low, high)| Some((number(low)?, number(high)?)));
    let step = match data_type {
        DataType::Date32 | DataType::Date64 => Some(86_400.0),
        DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale) => {
            Some(10f64.powi(-i32::from(*scale)))
        }
        data_type if data_type.is_integer() => Some(1.0),
        _ => None,
    };
    let steps = range.zip(step).map(|((low, high), step)| (high - low) / step + 1.0);
    let counted = column.distinct_count.get_value().map(|&count| count as f64);
    let most = match (counted, steps) {
        (Some(counted), Some(steps)) => Some(counted.min(steps)),
        (one, other) => one.or(other),
    };
    let nulls = column.null_count.get_value().map(|&nulls| (nulls as f64 / rows).clamp(0.0, 1.0));
    if most.is_none() && range.is_none() && nulls.is_none() {
        return None;
    }
    let distinct = most.map_or(rows * EQUAL_DEFAULT, |most| most.min(rows)).max(1.0);
    let counted = most.is_some();
    Some(ColumnValues { distinct, counted, unique: counted && distinct >= UNIQUE_SHARE * rows, range, nulls })
}

fn conjuncts(condition: &Scalar) -> Vec<&Scalar> {
    match condition {
        Scalar::And(terms) => terms.iter().flat_map(conjuncts).collect(),
        other => vec![other],
    }
}

/// The rows of an input for which all conditions are true.
fn filtered(input: &Cardinality, conditions: &[&Scalar]) -> Cardinality {
    let share = Estimator { input }.conjunction(conditions).clamp(1e-9, 1.0);
    let rows = (input.rows * share).max(1.0);
    let mut columns = HashMap::clone(&input.columns);
    for values in columns.values_mut() {
        // A unique column is counted before the filter: a foreign key meets what is left of its partners.
        if !values.unique {
            values.distinct = values.distinct.min(rows);
        }
    }
    Cardinality { rows, columns: Arc::new(columns) }
}

struct Estimator<'a> {
    input: &'a Cardinality,
}

impl Estimator<'_> {
    /// Bounds on one column from several conjuncts cut one range; everything else multiplies.
    fn conjunction(&self, conjuncts: &[&Scalar]) -> f64 {
        let mut ranges: HashMap<ColumnId, Range> = HashMap::new();
        let mut kept = 1.0;
        for conjunct in conjuncts {
            match self.bound(conjunct) {
                Some((column, range)) => {
                    let cut = ranges.entry(column).or_insert(Range { low: 0.0, high: 1.0 });
                    cut.low = cut.low.max(range.low);
                    cut.high = cut.high.min(range.high);
                }
                None => kept *= self.condition(conjunct),
            }
        }
        // An empty range may be wrong by a little: statistics can be old, values unevenly spread.
        ranges.values().fold(kept, |kept, range| kept * (range.high - range.low).max(0.001))
    }

    /// For `column < value` and its kin: which part of the column's range is left.
    fn bound(&self, scalar: &Scalar) -> Option<(ColumnId, Range)> {
        let Scalar::Compare { comparison, left, right } = scalar else { return None };
        let (column, comparison, value) =
            match (column_of(left), right.as_constant(), column_of(right), left.as_constant()) {
                (Some(column), Some(value), _, _) => (column, *comparison, value),
                (_, _, Some(column), Some(value)) => (column, comparison.swapped(), value),
                _ => return None,
            };
        let place = self.place(column, value)?;
        match comparison {
            Comparison::Less | Comparison::LessOrEqual => Some((column, Range { low: 0.0, high: place })),
            Comparison::Greater | Comparison::GreaterOrEqual => Some((column, Range { low: place, high: 1.0 })),
            _ => None,
        }
    }

    /// Where a value lies in a column's range, from 0 to 1.
    fn place(&self, column: ColumnId, value: &Constant) -> Option<f64> {
        let (low, high) = self.input.columns.get(&column)?.range?;
        let value = number(&value.value)?;
        (high > low).then(|| ((value - low) / (high - low)).clamp(0.0, 1.0))
    }

    fn condition(&self, scalar: &Scalar) -> f64 {
        match scalar {
            Scalar::Constant(constant) if constant.as_bool() == Some(true) => 1.0,
            Scalar::Constant(_) => 0.0,
            Scalar::Not(inner) => match &**inner {
                Scalar::IsNull(value) => 1.0 - self.null_share(value),
                inner => 1.0 - self.condition(inner),
            },
            Scalar::IsNull(inner) => self.null_share(inner),
            Scalar::Like { pattern, is_negated, .. } => {
                let prefix = match pattern.as_constant().map(|constant| &constant.value) {
                    Some(ScalarValue::Utf8View(Some(text))) => !text.starts_with(['%', '_']),
                    _ => false,
                };
                let part = if prefix { LIKE_PREFIX } else { LIKE_ANYWHERE };
                if *is_negated { 1.0 - part } else { part }
            }
            Scalar::InList { value, list, is_negated } => {
                let part = (self.equal(value) * list.len() as f64).min(1.0);
                if *is_negated { 1.0 - part } else { part }
            }
            Scalar::And(terms) => self.conjunction(&terms.iter().collect::<Vec<_>>()),
            Scalar::Or(terms) => {
                terms.iter().map(|term| self.condition(term)).fold(0.0, |any, term| any + term - any * term)
            }
            Scalar::Compare { comparison, left, right } => match comparison {
                Comparison::Equal | Comparison::IsNotDistinctFrom => self.equality(left, right),
                Comparison::NotEqual | Comparison::IsDistinctFrom => 1.0 - self.equality(left, right),
                _ => match self.bound(scalar) {
                    Some((_, range)) => (range.high - range.low).max(0.001),
                    None => RANGE_DEFAULT,
                },
            },
            Scalar::Column { .. } => 0.5,
            Scalar::Subquery(subquery) if matches!(subquery.kind, SubqueryKind::Value) => 0.5,
            Scalar::Call { call, .. } if call.overload.name.starts_with(['~', '!']) => LIKE_ANYWHERE,
            _ => UNKNOWN,
        }
    }

    fn equality(&self, left: &Scalar, right: &Scalar) -> f64 {
        match (column_of(left), column_of(right)) {
            (Some(_), Some(_)) => self.equal(left).min(self.equal(right)),
            (Some(_), None) => self.equal(left),
            (None, Some(_)) => self.equal(right),
            (None, None) => EQUAL_DEFAULT,
        }
    }

    /// The share of rows with one given value.
    fn equal(&self, scalar: &Scalar) -> f64 {
        let values = self.input.values(scalar).filter(|values| values.counted);
        values.map_or(EQUAL_DEFAULT, |values| 1.0 / values.distinct.max(1.0))
    }

    fn null_share(&self, scalar: &Scalar) -> f64 {
        self.input.values(scalar).and_then(|values| values.nulls).unwrap_or(EQUAL_DEFAULT)
    }
}

/// The column that an expression is, seen through casts.
fn column_of(scalar: &Scalar) -> Option<ColumnId> {
    match scalar {
        Scalar::Column { id, .. } => Some(*id),
        Scalar::Cast { input, .. } => column_of(input),
        _ => None,
    }
}

/// A value on a line, where it has a place there. Dates are in seconds, like timestamps, so that one may bound the
/// other.
fn number(value: &ScalarValue) -> Option<f64> {
    let text = match value {
        ScalarValue::Utf8(Some(text)) | ScalarValue::LargeUtf8(Some(text)) | ScalarValue::Utf8View(Some(text)) => text,
        ScalarValue::Decimal32(Some(value), _, scale) => {
            return Some(f64::from(*value) / 10f64.powi(i32::from(*scale)));
        }
        ScalarValue::Decimal64(Some(value), _, scale) => return Some(*value as f64 / 10f64.powi(i32::from(*scale))),
        ScalarValue::Decimal128(Some(value), _, scale) => return Some(*value as f64 / 10f64.powi(i32::from(*scale))),
        ScalarValue::Date32(Some(days)) => return Some(f64::from(*days) * 86_400.0),
        ScalarValue::Date64(Some(milliseconds)) => return Some(*milliseconds as f64 / 1e3),
        ScalarValue::TimestampSecond(Some(value), _) => return Some(*value as f64),
        ScalarValue::TimestampMillisecond(Some(value), _) => return Some(*value as f64 / 1e3),
        ScalarValue::TimestampMicrosecond(Some(value), _) => return Some(*value as f64 / 1e6),
        ScalarValue::TimestampNanosecond(Some(value), _) => return Some(*value as f64 / 1e9),
        other if other.data_type().is_numeric() => {
            return match other.cast_to(&DataType::Float64).ok()? {
                ScalarValue::Float64(value) => value,
                _ => None,
            };
        }
        _ => return None,
    };
    // The first eight bytes, as digits of a number in base 256: close enough for a range.
    let bytes = text.bytes().chain(std::iter::repeat(0)).take(8);
    Some(bytes.fold(0.0, |number, byte| number * 256.0 + f64::from(byte)))
}
