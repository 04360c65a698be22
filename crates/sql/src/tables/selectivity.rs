//! How many rows a condition keeps, guessed from column statistics.
//!
//! Used for the estimates that choose join sides and join orders; a wrong guess costs time, never rows. Ranges assume
//! evenly spread values, and conditions on different columns are taken as independent: the rules of System R (Selinger
//! and others, "Access Path Selection in a Relational Database Management System", 1979, section 4).

use std::collections::HashMap;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Like, Operator};

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

/// The share of rows, above 0 and at most 1, for which all conditions are true. The statistics are of the schema's
/// columns, which the conditions name without qualifier.
pub fn selectivity(conjuncts: &[&Expr], schema: &Schema, statistics: &Statistics) -> f64 {
    Estimator { schema, statistics }.conjunction(conjuncts).clamp(1e-9, 1.0)
}

struct Estimator<'a> {
    schema: &'a Schema,
    statistics: &'a Statistics,
}

/// The part of a column's values that conditions leave, as a share of its whole range.
#[derive(Clone, Copy)]
struct Range {
    low: f64,
    high: f64,
}

impl Estimator<'_> {
    /// Bounds on one column from several conjuncts cut one range; everything else multiplies.
    fn conjunction(&self, conjuncts: &[&Expr]) -> f64 {
        let mut ranges: HashMap<&str, Range> = HashMap::new();
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
    fn bound<'e>(&self, expr: &'e Expr) -> Option<(&'e str, Range)> {
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return None };
        let (column, op, value) = match (column_of(left), literal(right), column_of(right), literal(left)) {
            (Some(column), Some(value), _, _) => (column, *op, value),
            (_, _, Some(column), Some(value)) => (column, op.swap()?, value),
            _ => return None,
        };
        let place = self.place(column, value)?;
        match op {
            Operator::Lt | Operator::LtEq => Some((column, Range { low: 0.0, high: place })),
            Operator::Gt | Operator::GtEq => Some((column, Range { low: place, high: 1.0 })),
            _ => None,
        }
    }

    /// Where a value lies in a column's range, from 0 to 1.
    fn place(&self, column: &str, value: &ScalarValue) -> Option<f64> {
        let statistics = self.column(column)?;
        let low = number(statistics.min_value.get_value()?)?;
        let high = number(statistics.max_value.get_value()?)?;
        let value = number(value)?;
        if high <= low {
            return None;
        }
        Some(((value - low) / (high - low)).clamp(0.0, 1.0))
    }

    fn condition(&self, expr: &Expr) -> f64 {
        match expr {
            Expr::Alias(alias) => self.condition(&alias.expr),
            Expr::Literal(ScalarValue::Boolean(Some(true)), _) => 1.0,
            Expr::Literal(ScalarValue::Boolean(_), _) => 0.0,
            Expr::Not(inner) => 1.0 - self.condition(inner),
            Expr::IsNull(inner) => self.null_share(inner),
            Expr::IsNotNull(inner) => 1.0 - self.null_share(inner),
            Expr::Like(like) => self.like(like),
            Expr::Between(Between { expr, negated, low, high }) => {
                let part = match (column_of(expr), literal(low), literal(high)) {
                    (Some(column), Some(low), Some(high)) => {
                        match (self.place(column, low), self.place(column, high)) {
                            (Some(low), Some(high)) => (high - low).max(0.001),
                            _ => RANGE_DEFAULT * RANGE_DEFAULT,
                        }
                    }
                    _ => RANGE_DEFAULT * RANGE_DEFAULT,
                };
                if *negated { 1.0 - part } else { part }
            }
            Expr::InList(list) => {
                let one = column_of(&list.expr).map_or(EQUAL_DEFAULT, |column| self.equal(column));
                let part = (one * list.list.len() as f64).min(1.0);
                if list.negated { 1.0 - part } else { part }
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
                Operator::And => self.conjunction(&[left.as_ref(), right.as_ref()]),
                Operator::Or => {
                    let (left, right) = (self.condition(left), self.condition(right));
                    left + right - left * right
                }
                Operator::Eq | Operator::IsNotDistinctFrom => self.equality(left, right),
                Operator::NotEq | Operator::IsDistinctFrom => 1.0 - self.equality(left, right),
                Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => match self.bound(expr) {
                    Some((_, range)) => (range.high - range.low).max(0.001),
                    None => RANGE_DEFAULT,
                },
                Operator::LikeMatch | Operator::ILikeMatch | Operator::RegexMatch => LIKE_ANYWHERE,
                Operator::NotLikeMatch | Operator::NotILikeMatch | Operator::RegexNotMatch => 1.0 - LIKE_ANYWHERE,
                _ => UNKNOWN,
            },
            _ => UNKNOWN,
        }
    }

    fn equality(&self, left: &Expr, right: &Expr) -> f64 {
        match (column_of(left), column_of(right)) {
            (Some(left), Some(right)) => self.equal(left).min(self.equal(right)),
            (Some(column), None) | (None, Some(column)) => self.equal(column),
            (None, None) => EQUAL_DEFAULT,
        }
    }

    /// The share of rows with one given value in a column.
    fn equal(&self, column: &str) -> f64 {
        let Some(statistics) = self.column(column) else { return EQUAL_DEFAULT };
        if let Some(&distinct) = statistics.distinct_count.get_value() {
            return 1.0 / distinct.max(1) as f64;
        }
        // Whole numbers cannot have more distinct values than their range is wide, nor than there are rows.
        let step = match self.schema.field_with_name(column).map(|field| field.data_type()) {
            Ok(DataType::Date32 | DataType::Date64) => Some(86_400.0),
            Ok(data_type) if data_type.is_integer() => Some(1.0),
            _ => None,
        };
        let low = statistics.min_value.get_value().and_then(number);
        let high = statistics.max_value.get_value().and_then(number);
        match (step, low, high, self.statistics.num_rows.get_value()) {
            (Some(step), Some(low), Some(high), Some(&rows)) => {
                1.0 / ((high - low) / step + 1.0).min(rows as f64).max(1.0)
            }
            _ => EQUAL_DEFAULT,
        }
    }

    fn null_share(&self, expr: &Expr) -> f64 {
        let nulls = column_of(expr).and_then(|column| self.column(column)?.null_count.get_value().copied());
        match (nulls, self.statistics.num_rows.get_value()) {
            (Some(nulls), Some(&rows)) if rows > 0 => (nulls as f64 / rows as f64).clamp(0.0, 1.0),
            _ => EQUAL_DEFAULT,
        }
    }

    fn like(&self, like: &Like) -> f64 {
        let prefix = literal(&like.pattern)
            .and_then(|pattern| pattern.try_as_str().flatten())
            .is_some_and(|pattern| !pattern.starts_with(['%', '_']));
        let part = if prefix { LIKE_PREFIX } else { LIKE_ANYWHERE };
        if like.negated { 1.0 - part } else { part }
    }

    fn column(&self, name: &str) -> Option<&ColumnStatistics> {
        self.statistics.column_statistics.get(self.schema.index_of(name).ok()?)
    }
}

/// The column that an expression is, seen through casts.
fn column_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Column(column) => Some(column.name()),
        Expr::Cast(cast) => column_of(&cast.expr),
        Expr::TryCast(cast) => column_of(&cast.expr),
        Expr::Alias(alias) => column_of(&alias.expr),
        _ => None,
    }
}

fn literal(expr: &Expr) -> Option<&ScalarValue> {
    match expr {
        Expr::Literal(value, _) => Some(value),
        _ => None,
    }
}

/// A value on a line, where it has a place there.
fn number(value: &ScalarValue) -> Option<f64> {
    let text = match value {
        ScalarValue::Utf8(Some(text)) | ScalarValue::LargeUtf8(Some(text)) | ScalarValue::Utf8View(Some(text)) => text,
        ScalarValue::Decimal32(Some(value), _, scale) => {
            return Some(f64::from(*value) / 10f64.powi(i32::from(*scale)));
        }
        ScalarValue::Decimal64(Some(value), _, scale) => return Some(*value as f64 / 10f64.powi(i32::from(*scale))),
        ScalarValue::Decimal128(Some(value), _, scale) => return Some(*value as f64 / 10f64.powi(i32::from(*scale))),
        // Dates in seconds, like timestamps, so that one may bound the other.
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

#[cfg(test)]
mod tests {
    use arrow::datatypes::Field;
    use datafusion::common::stats::Precision;
    use datafusion::logical_expr::{col, lit};

    use super::*;

    fn kept(conjuncts: &[Expr]) -> f64 {
        let schema =
            Schema::new(vec![Field::new("a", DataType::Int64, true), Field::new("s", DataType::Utf8View, true)]);
        let a = ColumnStatistics {
            null_count: Precision::Exact(100),
            min_value: Precision::Exact(ScalarValue::Int64(Some(0))),
            max_value: Precision::Exact(ScalarValue::Int64(Some(99))),
            ..ColumnStatistics::new_unknown()
        };
        let s = ColumnStatistics { distinct_count: Precision::Inexact(4), ..ColumnStatistics::new_unknown() };
        let statistics = Statistics {
            num_rows: Precision::Exact(1000),
            total_byte_size: Precision::Absent,
            column_statistics: vec![a, s],
        };
        selectivity(&conjuncts.iter().collect::<Vec<_>>(), &schema, &statistics)
    }

    #[test]
    fn ranges_are_cut_and_independent_columns_multiply() {
        let close = |left: f64, right: f64| assert!((left - right).abs() < 0.01, "{left} is not about {right}");
        close(kept(&[col("a").lt(lit(50i64))]), 0.5);
        close(kept(&[col("a").gt_eq(lit(25i64)), col("a").lt(lit(50i64))]), 0.25);
        close(kept(&[col("a").eq(lit(7i64))]), 0.01);
        close(kept(&[col("s").eq(lit("x")), col("a").lt(lit(50i64))]), 0.125);
        close(kept(&[col("a").is_null()]), 0.1);
        close(kept(&[col("s").eq(lit("x")).or(col("a").lt(lit(50i64)))]), 0.625);
        assert!(kept(&[col("a").gt(lit(1000i64))]) > 0.0);
    }
}
