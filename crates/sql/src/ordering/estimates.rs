//! How many rows each operator gives, and what its columns' values are like: guesses from the tables' statistics.
//!
//! Ranges assume evenly spread values, and conditions on different columns are taken as independent: the rules of
//! System R (Selinger and others, "Access Path Selection in a Relational Database Management System", 1979, section 4).
//! A join on keys keeps one pair in `max(distinct left, distinct right)`, or one in the number of rows that the unique
//! side had before it was filtered: every foreign key finds its one partner. Keys of several columns have at most as
//! many values as their table has rows. A wrong guess costs time, never rows.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_common::{ColumnStatistics, ScalarValue};
use diligence_engine::plan::estimates;

use super::expressions::{self, Values, ValuesOfColumn};
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
/// The same of a column whose least and greatest values are known, so that its files were too rich in values to say
/// how many there are.
const EQUAL_OF_MANY: f64 = 0.005;
/// For values of which statistics say that there are none: they can be old, or shortened.
const NONE: f64 = 0.0002;
/// For `LIKE` with a fixed beginning of up to three characters, and for each one more.
const LIKE_PREFIX: (f64, f64) = (0.05, 0.8);
/// The same for any other `LIKE`, by the characters that stand for themselves.
const LIKE_ANYWHERE: (f64, f64) = (0.1, 0.9);
/// What a pattern keeps at least.
const LIKE_MIN: f64 = 0.002;
/// For conditions of no known form.
const UNKNOWN: f64 = 0.2;
/// What a condition between two relations keeps, equality aside.
const UNKNOWN_JOIN_CONDITION: f64 = 0.3;
/// A column is taken as unique if it has this share of its rows as distinct values.
const UNIQUE_SHARE: f64 = 0.95;
/// Elements of a list up to which it is looked through for values that it has twice.
const LIST_LOOKED_THROUGH_MAX: usize = 50;
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
#[derive(Clone, Debug)]
struct ColumnValues {
    distinct: f64,
    /// The same of its base table, and how many rows that has.
    base: (f64, f64),
    /// Whether that is known, and no guess.
    counted: bool,
    /// Whether no two rows of its base table have the same value.
    unique: bool,
    /// From the least to the greatest value.
    extent: Option<Arc<Extent>>,
    /// The share of NULLs.
    nulls: Option<f64>,
}

/// Where a column's values lie.
#[derive(Debug)]
enum Extent {
    /// On a line, in steps of which each is a value; a step of zero has values anywhere.
    Numbers {
        low: f64,
        high: f64,
        step: f64,
    },
    Texts {
        low: String,
        high: String,
    },
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

    /// How many values an expression has; of a column that is unique in its table, before it was filtered.
    fn distinct(&self, scalar: &Scalar) -> f64 {
        match self.values(scalar) {
            Some(values) => values.distinct,
            None => self.values_of(scalar, self.rows, |values| values.distinct).most,
        }
    }

    fn values_of(&self, scalar: &Scalar, rows: f64, distinct: fn(&ColumnValues) -> f64) -> Values {
        let column = |id| {
            let values = self.columns.get(&id);
            let span = values.and_then(|values| values.extent.as_deref()).and_then(Extent::span);
            ValuesOfColumn { distinct: values.map_or(rows, distinct), span }
        };
        expressions::values(scalar, rows, &column)
    }

    /// What is known of a computed column.
    fn computed(&self, scalar: &Scalar) -> Option<ColumnValues> {
        if let Some(id) = column_of(scalar) {
            return self.columns.get(&id).cloned();
        }
        let values = self.values_of(scalar, self.rows, |values| values.distinct);
        let (distinct, counted) = (values.most, values.is_counted);
        let none =
            ColumnValues { distinct, base: (distinct, self.rows), counted, unique: false, extent: None, nulls: None };
        (distinct < self.rows).then_some(none)
    }

    /// How many combinations of values a key of several columns has before anything was filtered, and whether that is
    /// the number of rows, because the columns by themselves would have more.
    fn combinations<'a>(&self, key: impl Iterator<Item = &'a Scalar>) -> (f64, bool) {
        let (mut combinations, mut rows) = (1.0, 0.0f64);
        for scalar in key {
            let read = scalar.columns();
            let known = read.iter().filter_map(|id| Some(self.columns.get(id)?.base.1));
            let base_rows = known.reduce(f64::max).unwrap_or(self.rows);
            let distinct = self.values_of(scalar, base_rows, |values| values.base.0).most;
            combinations *= distinct;
            rows = rows.max(base_rows);
        }
        if combinations > rows { (rows, true) } else { (combinations, false) }
    }

    /// Whether a column has each of its values once, as far as statistics tell.
    fn is_unique(&self, scalar: &Scalar) -> bool {
        self.values(scalar).is_some_and(|values| values.unique)
    }

    /// Both sides' columns.
    fn beside(&self, other: &Self, rows: f64) -> Self {
        let mut columns = HashMap::clone(&self.columns);
        columns.extend(other.columns.iter().map(|(id, values)| (*id, values.clone())));
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
                if let Some(values) = input.computed(scalar) {
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
    let pairs = left.rows * right.rows * UNKNOWN_JOIN_CONDITION.powi(others as i32);
    let partners = match keys {
        [] => 1.0,
        [(a, b)] => {
            let (a_distinct, b_distinct) = (left.distinct(a), right.distinct(b));
            match (left.is_unique(a), right.is_unique(b)) {
                (true, false) => a_distinct,
                (false, true) => b_distinct,
                _ => a_distinct.max(b_distinct),
            }
        }
        // Where there are fewer rows than combinations, the key tells the rows of the smaller table apart.
        _ => {
            let (a, a_fills) = left.combinations(keys.iter().map(|(a, _)| *a));
            let (b, b_fills) = right.combinations(keys.iter().map(|(_, b)| *b));
            if a_fills && b_fills { a.min(b) } else { a.max(b) }
        }
    };
    (pairs / partners.max(1.0)).max(1.0)
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
        // Half of the rows if all may have a partner, else those that have none.
        JoinKind::Anti => left.with_rows((left.rows - rows).max(left.rows * 0.5)),
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
            base: (distinct, rows),
            counted: values.is_some_and(|values| values.counted),
            unique,
            extent: values.and_then(|values| values.extent.clone()),
            nulls: values.and_then(|values| values.nulls),
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
    let step = match data_type {
        DataType::Date32 | DataType::Date64 => Some(86_400.0),
        DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale) => {
            Some(10f64.powi(-i32::from(*scale)))
        }
        data_type if data_type.is_integer() => Some(1.0),
        _ => None,
    };
    let bounds = column.min_value.get_value().zip(column.max_value.get_value());
    let extent = bounds.and_then(|(low, high)| match (text(low), text(high)) {
        (Some(low), Some(high)) => Some(Extent::Texts { low: low.to_owned(), high: high.to_owned() }),
        _ => Some(Extent::Numbers { low: number(low)?, high: number(high)?, step: step.unwrap_or_default() }),
    });
    let steps = match extent {
        Some(Extent::Numbers { low, high, step }) if step > 0.0 => Some((high - low) / step + 1.0),
        _ => None,
    };
    let counted = column.distinct_count.get_value().map(|&count| count as f64);
    let most = match (counted, steps) {
        (Some(counted), Some(steps)) => Some(counted.min(steps)),
        (one, other) => one.or(other),
    };
    let nulls = column.null_count.get_value().map(|&nulls| (nulls as f64 / rows).clamp(0.0, 1.0));
    if most.is_none() && extent.is_none() && nulls.is_none() {
        return None;
    }
    let distinct = most.map_or(rows * EQUAL_DEFAULT, |most| most.min(rows)).max(1.0);
    let counted = most.is_some();
    let unique = counted && distinct >= UNIQUE_SHARE * rows;
    Some(ColumnValues { distinct, base: (distinct, rows), counted, unique, extent: extent.map(Arc::new), nulls })
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
        ranges.values().fold(kept, |kept, range| kept * range.share())
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
        let extent = self.input.columns.get(&column)?.extent.as_ref()?;
        let range = match comparison {
            Comparison::Less => Range { low: 0.0, high: extent.below(&value.value, false)? },
            Comparison::LessOrEqual => Range { low: 0.0, high: extent.below(&value.value, true)? },
            Comparison::Greater => Range { low: extent.below(&value.value, true)?, high: 1.0 },
            Comparison::GreaterOrEqual => Range { low: extent.below(&value.value, false)?, high: 1.0 },
            _ => return None,
        };
        Some((column, range))
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
            Scalar::Like { value, pattern, is_negated, .. } => {
                let part = match pattern.as_constant().and_then(|constant| text(&constant.value)) {
                    Some(pattern) => self.like(value, pattern),
                    None => LIKE_ANYWHERE.0,
                };
                if *is_negated { 1.0 - part } else { part }
            }
            Scalar::InList { value, list, is_negated } => {
                let mut met: Vec<&Scalar> = Vec::new();
                let mut part = 0.0;
                for element in list.iter().filter(|element| element.as_constant().is_none_or(|one| !one.is_null())) {
                    // Long lists seldom have a value twice, and looking would take its time.
                    if list.len() > LIST_LOOKED_THROUGH_MAX || !met.contains(&element) {
                        met.push(element);
                        part += self.equality(value, element);
                    }
                }
                if *is_negated { (1.0 - part).max(0.0) } else { part.min(1.0) }
            }
            Scalar::And(terms) => self.conjunction(&terms.iter().collect::<Vec<_>>()),
            Scalar::Or(terms) => {
                terms.iter().map(|term| self.condition(term)).fold(0.0, |any, term| any + term - any * term)
            }
            Scalar::Compare { comparison, left, right } => match comparison {
                Comparison::Equal | Comparison::IsNotDistinctFrom => self.equality(left, right),
                Comparison::NotEqual | Comparison::IsDistinctFrom => 1.0 - self.equality(left, right),
                _ => match self.bound(scalar) {
                    Some((_, range)) => range.share(),
                    None => RANGE_DEFAULT,
                },
            },
            Scalar::Column { .. } => 0.5,
            Scalar::Subquery(subquery) if matches!(subquery.kind, SubqueryKind::Value) => 0.5,
            Scalar::Call { call, .. } if call.overload.name.starts_with(['~', '!']) => LIKE_ANYWHERE.0,
            _ => UNKNOWN,
        }
    }

    fn equality(&self, left: &Scalar, right: &Scalar) -> f64 {
        match (left.as_constant(), right.as_constant()) {
            (None, None) => self.equal(left).min(self.equal(right)),
            (None, Some(_)) => self.equal_to(left, right),
            (Some(_), None) => self.equal_to(right, left),
            (Some(_), Some(_)) => EQUAL_DEFAULT,
        }
    }

    /// The share of rows with one given value.
    fn equal(&self, scalar: &Scalar) -> f64 {
        match self.input.values(scalar) {
            Some(values) if values.counted => 1.0 / values.distinct.max(1.0),
            Some(ColumnValues { extent: Some(_), .. }) => EQUAL_OF_MANY,
            Some(_) => EQUAL_DEFAULT,
            None => match self.input.values_of(scalar, self.input.rows, |values| values.distinct) {
                Values { most, is_counted: true } => 1.0 / most.max(1.0),
                Values { .. } => EQUAL_DEFAULT,
            },
        }
    }

    /// The same of a value that may be known.
    fn equal_to(&self, scalar: &Scalar, value: &Scalar) -> f64 {
        let extent = self.input.values(scalar).and_then(|values| values.extent.as_ref());
        match extent.zip(value.as_constant()) {
            Some((extent, value)) if extent.lacks(&value.value) => NONE,
            _ => self.equal(scalar),
        }
    }

    /// The share of rows with a text that is like a pattern.
    fn like(&self, value: &Scalar, pattern: &str) -> f64 {
        let prefix = pattern.split(['%', '_', '\\']).next().unwrap_or_default();
        if prefix.is_empty() {
            let characters = pattern.chars().filter(|character| !matches!(character, '%' | '_' | '\\')).count();
            return by_length(LIKE_ANYWHERE, characters);
        }
        if prefix.len() == pattern.len() {
            return self.equal(value);
        }
        match self.input.values(value).and_then(|values| values.extent.as_deref()) {
            Some(Extent::Texts { low, high })
                if high.as_str() < prefix || low.as_str() > prefix && !low.starts_with(prefix) =>
            {
                NONE
            }
            _ => by_length(LIKE_PREFIX, prefix.chars().count()),
        }
    }

    fn null_share(&self, scalar: &Scalar) -> f64 {
        self.input.values(scalar).and_then(|values| values.nulls).unwrap_or(EQUAL_DEFAULT)
    }
}

/// What a pattern keeps that has so many characters that stand for themselves.
fn by_length((few, each): (f64, f64), characters: usize) -> f64 {
    (few * each.powi(characters.saturating_sub(3).min(100) as i32)).max(LIKE_MIN)
}

impl Range {
    /// The share of values that are in it.
    fn share(&self) -> f64 {
        (self.high - self.low).max(NONE)
    }
}

impl Extent {
    /// The share of values that are less than a value, or equal to it if `with_equal`. `None` if the value has no place
    /// among them.
    fn below(&self, value: &ScalarValue, with_equal: bool) -> Option<f64> {
        match self {
            Self::Numbers { low, high, step } => {
                let value = number(value)?;
                let (place, span) = (value - low + if with_equal { *step } else { 0.0 }, high - low + step);
                Some(match span > 0.0 {
                    true => (place / span).clamp(0.0, 1.0),
                    // All values are one.
                    false => f64::from(u8::from(value > *low || with_equal && value == *low)),
                })
            }
            Self::Texts { low, high } => {
                let value = text(value)?;
                if value < low.as_str() || value == low.as_str() && !with_equal {
                    return Some(0.0);
                }
                if value > high.as_str() || value == high.as_str() && with_equal {
                    return Some(1.0);
                }
                // What lies between two texts begins as both do.
                let common = low.bytes().zip(high.bytes()).take_while(|(low, high)| low == high).count();
                let place = |text: &str| digits(text.as_bytes().get(common..).unwrap_or_default());
                let span = place(high) - place(low);
                Some(if span > 0.0 { ((place(value) - place(low)) / span).clamp(0.0, 1.0) } else { 0.5 })
            }
        }
    }

    /// From the least value to the greatest, where that is a number.
    fn span(&self) -> Option<f64> {
        match self {
            Self::Numbers { low, high, .. } => Some(high - low),
            Self::Texts { .. } => None,
        }
    }

    /// Whether no row has a value.
    fn lacks(&self, value: &ScalarValue) -> bool {
        match self {
            Self::Numbers { low, high, .. } => number(value).is_some_and(|value| value < *low || value > *high),
            Self::Texts { low, high } => text(value).is_some_and(|value| value < low.as_str() || value > high.as_str()),
        }
    }
}

/// The first eight bytes, as digits of a number in base 256: close enough for a range.
fn digits(bytes: &[u8]) -> f64 {
    let bytes = bytes.iter().copied().chain(std::iter::repeat(0)).take(8);
    bytes.fold(0.0, |number, byte| number * 256.0 + f64::from(byte))
}

fn text(value: &ScalarValue) -> Option<&str> {
    match value {
        ScalarValue::Utf8(Some(text)) | ScalarValue::LargeUtf8(Some(text)) | ScalarValue::Utf8View(Some(text)) => {
            Some(text)
        }
        _ => None,
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
    Some(match value {
        ScalarValue::Decimal32(Some(value), _, scale) => f64::from(*value) / 10f64.powi(i32::from(*scale)),
        ScalarValue::Decimal64(Some(value), _, scale) => *value as f64 / 10f64.powi(i32::from(*scale)),
        ScalarValue::Decimal128(Some(value), _, scale) => *value as f64 / 10f64.powi(i32::from(*scale)),
        ScalarValue::Date32(Some(days)) => f64::from(*days) * 86_400.0,
        ScalarValue::Date64(Some(milliseconds)) => *milliseconds as f64 / 1e3,
        ScalarValue::TimestampSecond(Some(value), _) => *value as f64,
        ScalarValue::TimestampMillisecond(Some(value), _) => *value as f64 / 1e3,
        ScalarValue::TimestampMicrosecond(Some(value), _) => *value as f64 / 1e6,
        ScalarValue::TimestampNanosecond(Some(value), _) => *value as f64 / 1e9,
        other if other.data_type().is_numeric() => match other.cast_to(&DataType::Float64).ok()? {
            ScalarValue::Float64(value) => return value,
            _ => return None,
        },
        _ => return None,
    })
}
