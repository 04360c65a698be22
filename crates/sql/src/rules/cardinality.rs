//! How many rows a logical plan gives, and how many distinct values its columns have: guesses for the join order.
//!
//! Sizes start at the tables' statistics. A join on keys keeps one pair in `max(distinct left, distinct right)`, or one
//! in the number of rows that the unique side had before it was filtered: every foreign key finds its one partner
//! (Selinger and others, 1979).

use std::collections::HashMap;

use datafusion::common::{Column, ColumnStatistics, ScalarValue, Statistics};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan, TableScan};

use super::join_order::plain_column;
use crate::tables::selectivity;

/// Rows of a table of which nothing is known.
const UNKNOWN_ROWS: f64 = 1000.0;
/// What a condition keeps of which nothing is known.
const UNKNOWN_CONDITION: f64 = 0.25;
/// What a condition between two relations keeps, equality aside.
const UNKNOWN_JOIN_CONDITION: f64 = 0.3;
/// A column is taken as unique if it has this share of its rows as distinct values.
const UNIQUE_SHARE: f64 = 0.95;

/// The size of a plan's output.
#[derive(Clone, Debug)]
pub struct Cardinality {
    /// Rows; at least one, so that products stay comparable.
    pub rows: f64,
    columns: HashMap<Column, Values>,
}

/// What is known of a column's values.
#[derive(Clone, Copy, Debug)]
struct Values {
    distinct: f64,
    /// True if no two rows of its base table have the same value.
    unique: bool,
}

impl Cardinality {
    fn of_rows(rows: f64) -> Self {
        Self { rows: rows.max(1.0), columns: HashMap::new() }
    }

    fn values(&self, expression: &Expr) -> Values {
        plain_column(expression)
            .and_then(|column| self.columns.get(column))
            .copied()
            .unwrap_or(Values { distinct: self.rows, unique: false })
    }

    fn limited(mut self, rows: f64) -> Self {
        self.rows = self.rows.min(rows).max(1.0);
        self
    }
}

/// The size of an inner join on these pairs of keys, left one first, and so many other conditions.
pub fn join_rows(left: &Cardinality, right: &Cardinality, keys: &[(&Expr, &Expr)], others: usize) -> Cardinality {
    let mut rows = left.rows * right.rows * UNKNOWN_JOIN_CONDITION.powi(others as i32);
    // Keys of several columns are rarely independent: the most selective one counts fully, each further one by its
    // square root of what is left.
    let mut shares: Vec<f64> = keys
        .iter()
        .map(|(a, b)| {
            let (a, b) = (left.values(a), right.values(b));
            let partners = match (a.unique, b.unique) {
                (true, false) => a.distinct,
                (false, true) => b.distinct,
                _ => a.distinct.max(b.distinct),
            };
            1.0 / partners.max(1.0)
        })
        .collect();
    shares.sort_by(f64::total_cmp);
    for (index, share) in shares.into_iter().enumerate() {
        rows *= share.powf(0.5f64.powi(index as i32));
    }
    let mut columns = left.columns.clone();
    columns.extend(right.columns.iter().map(|(column, values)| (column.clone(), *values)));
    Cardinality { rows: rows.max(1.0), columns }
}

/// The size of a plan.
pub fn estimate(plan: &LogicalPlan) -> Cardinality {
    match plan {
        LogicalPlan::TableScan(scan) => table_scan(scan),
        LogicalPlan::SubqueryAlias(alias) => {
            let input = estimate(&alias.input);
            let columns = alias
                .input
                .schema()
                .columns()
                .iter()
                .zip(alias.schema.columns())
                .filter_map(|(inner, outer)| Some((outer, *input.columns.get(inner)?)))
                .collect();
            Cardinality { rows: input.rows, columns }
        }
        LogicalPlan::Projection(projection) => {
            let input = estimate(&projection.input);
            let columns = projection
                .expr
                .iter()
                .zip(projection.schema.columns())
                .filter_map(|(expression, outer)| Some((outer, *input.columns.get(plain_column(expression)?)?)))
                .collect();
            Cardinality { rows: input.rows, columns }
        }
        LogicalPlan::Filter(filter) => {
            let input = estimate(&filter.input);
            let conditions = split_conjunction(&filter.predicate).len();
            let rows = input.rows * UNKNOWN_CONDITION.powi(conditions as i32);
            input.limited(rows)
        }
        LogicalPlan::Aggregate(aggregate) => {
            let input = estimate(&aggregate.input);
            let groups: f64 = aggregate.group_expr.iter().map(|group| input.values(group).distinct).product();
            let rows = groups.min(input.rows).max(1.0);
            let mut columns = HashMap::new();
            for (group, outer) in aggregate.group_expr.iter().zip(aggregate.schema.columns()) {
                let distinct = input.values(group).distinct.min(rows);
                columns.insert(outer, Values { distinct, unique: aggregate.group_expr.len() == 1 });
            }
            Cardinality { rows, columns }
        }
        LogicalPlan::Join(join) => {
            let (left, right) = (estimate(&join.left), estimate(&join.right));
            let keys: Vec<_> = join.on.iter().map(|(a, b)| (a, b)).collect();
            let others = join.filter.iter().map(|filter| split_conjunction(filter).len()).sum();
            let inner = join_rows(&left, &right, &keys, others);
            match join.join_type {
                JoinType::Inner => inner,
                JoinType::Left => Cardinality { rows: inner.rows.max(left.rows), ..inner },
                JoinType::Right => Cardinality { rows: inner.rows.max(right.rows), ..inner },
                JoinType::Full => Cardinality { rows: inner.rows.max(left.rows + right.rows), ..inner },
                JoinType::LeftSemi => left.limited(inner.rows),
                JoinType::RightSemi => right.limited(inner.rows),
                JoinType::LeftAnti => {
                    let rows = left.rows * 0.5;
                    left.limited(rows)
                }
                JoinType::RightAnti => {
                    let rows = right.rows * 0.5;
                    right.limited(rows)
                }
                JoinType::LeftMark => left,
                JoinType::RightMark => right,
            }
        }
        LogicalPlan::Union(union) => Cardinality::of_rows(union.inputs.iter().map(|input| estimate(input).rows).sum()),
        LogicalPlan::Limit(limit) => {
            let input = estimate(&limit.input);
            match limit.fetch.as_deref() {
                Some(Expr::Literal(ScalarValue::Int64(Some(rows)), _)) => input.limited(*rows as f64),
                _ => input,
            }
        }
        LogicalPlan::Distinct(_) => {
            Cardinality::of_rows(plan.inputs().first().map_or(1.0, |input| estimate(input).rows))
        }
        LogicalPlan::Values(values) => Cardinality::of_rows(values.values.len() as f64),
        LogicalPlan::EmptyRelation(_) => Cardinality::of_rows(1.0),
        other => match other.inputs().as_slice() {
            [input] => estimate(input),
            _ => Cardinality::of_rows(UNKNOWN_ROWS),
        },
    }
}

fn table_scan(scan: &TableScan) -> Cardinality {
    let statistics = source_as_provider(&scan.source).ok().and_then(|provider| provider.statistics());
    let schema = scan.source.schema();
    let statistics = statistics.unwrap_or_else(|| Statistics::new_unknown(&schema));
    let base = statistics.num_rows.get_value().map_or(UNKNOWN_ROWS, |&rows| rows as f64).max(1.0);
    let filters: Vec<&Expr> = scan.filters.iter().flat_map(split_conjunction).collect();
    let kept = if filters.is_empty() { 1.0 } else { selectivity::selectivity(&filters, &schema, &statistics) };
    let rows = (base * kept).max(1.0);
    let columns = scan
        .projected_schema
        .columns()
        .into_iter()
        .filter_map(|column| {
            let (index, _) = schema.column_with_name(&column.name)?;
            let distinct = distinct(statistics.column_statistics.get(index)?, base)?;
            // A unique column is counted before the filter: a foreign key meets what is left of its partners.
            let unique = distinct >= UNIQUE_SHARE * base;
            let distinct = if unique { distinct } else { distinct.min(rows) };
            Some((column, Values { distinct, unique }))
        })
        .collect();
    Cardinality { rows, columns }
}

/// Distinct values of a column: counted, or at most as many as its range has whole numbers or days.
fn distinct(column: &ColumnStatistics, rows: f64) -> Option<f64> {
    let counted = column.distinct_count.get_value().map(|&count| count as f64);
    let range = column
        .min_value
        .get_value()
        .zip(column.max_value.get_value())
        .and_then(|(low, high)| Some(whole_number(high)? - whole_number(low)? + 1.0));
    let most = match (counted, range) {
        (Some(counted), Some(range)) => counted.min(range),
        (Some(count), None) | (None, Some(count)) => count,
        (None, None) => return None,
    };
    Some(most.min(rows).max(1.0))
}

fn whole_number(value: &ScalarValue) -> Option<f64> {
    match value {
        ScalarValue::Int8(value) => value.map(f64::from),
        ScalarValue::Int16(value) => value.map(f64::from),
        ScalarValue::Int32(value) | ScalarValue::Date32(value) => value.map(f64::from),
        ScalarValue::Int64(value) => value.map(|value| value as f64),
        ScalarValue::UInt8(value) => value.map(f64::from),
        ScalarValue::UInt16(value) => value.map(f64::from),
        ScalarValue::UInt32(value) => value.map(f64::from),
        ScalarValue::UInt64(value) => value.map(|value| value as f64),
        ScalarValue::Decimal128(value, ..) => value.map(|value| value as f64),
        _ => None,
    }
}
