//! Medians and percentiles of groups whose values may not fit in memory, by sorting them.
//!
//! DataFusion's accumulators keep all values of a group. A sort goes to temp space and so does a window, so where a
//! query's values are expected to need more than a part of what it may have, they are put in order and numbered, and
//! the aggregate keeps only the two around the place that is wanted:
//!
//! ```text
//!                                   Project    k, median(low, high, count)           quantile.rs, steps.rs
//!                                   Aggregate  by k: min(r) if near, max(r) if near, count(r)
//!                                   Project    k, r, whether number is near the middle of count
//!   Aggregate  by k: median(x)      Window     row_number(), count(r) of each k
//!      |                    becomes Sort       by k, r
//!    input                          Project    k, rank(x) as r                       quantile.rs
//!                                      |
//!                                    input
//! ```
//!
//! Several percentiles of one value have one window; several values have one each, one above the other. A FILTER makes
//! the value NULL where it is not true. Where equal values count once (DISTINCT), they have one number
//! (`dense_rank()`), and a second window finds the greatest. Grouping sets are one sort, too, in which each row comes
//! once for each set (`sets.rs`).
//!
//! Invariants:
//! * Answers are those of the accumulators, bit by bit. (Where they depend on the order of rows, as medians of an even
//!   number of floats with a NaN that has a sign, the answer is that of one of these orders.)
//! * What could answer otherwise is left as it is: keys that have no order of ours, and whatever stands beside an
//!   aggregate that may tell the order of its rows. (Decimals with more digits than their type says, which no
//!   expression lets pass, are an error here, as they are in any sort.)
//! * Nothing below an aggregate runs more than once.

mod columns;
mod quantile;
mod rewrite;
mod rows;
mod sets;
mod steps;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use datafusion_functions_aggregate::median::Median;
use datafusion_functions_aggregate::percentile_cont::PercentileCont;
use datafusion_physical_expr::expressions::Literal;
use diligence_base::Result;

use self::quantile::Quantile;
use self::rows::rows_most;
use self::steps::rank_type;
use super::{Aggregate, AggregateCall, Node, Plan, PlanTables};
use crate::expressions::Expr;

/// The part of what a query may have, as its divisor, above which values are sorted: accumulators double their arrays,
/// and each packet has some until they are merged.
const MEMORY_DIVISOR: usize = 8;

/// What a set of values has beside each of them.
const DISTINCT_BYTES: usize = 8;

/// What the number of a row's group has.
const GROUP_BYTES: usize = 4;

/// What a text is taken to have, with its view.
const TEXT_BYTES: usize = 48;

/// Our own percentiles (`types`), of a share, a value and the value as the key of their order: by the name, which
/// quantile of the ascending values a share stands for.
const OWN: [(&str, fn(f64) -> Quantile); 4] = [
    ("percentile_cont", Quantile::exactly_at),
    ("percentile_cont desc", |share| Quantile::exactly_at(1.0 - share)),
    ("percentile_disc", |share| Quantile::first_with(share, false)),
    ("percentile_disc desc", |share| Quantile::first_with(share, true)),
];

/// Aggregates whose answer is the same in whatever order their rows come, but for the last digits of floats.
const WITHOUT_ORDER: &[&str] = &[
    "approx_distinct",
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "covar_pop",
    "covar_samp",
    "max",
    "median",
    "min",
    "percentile_cont",
    "percentile_cont desc",
    "percentile_disc",
    "percentile_disc desc",
    "regr_avgx",
    "regr_avgy",
    "regr_count",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
    "stddev",
    "stddev_pop",
    "sum",
    "var",
    "var_pop",
];

/// The plan as it runs where a query may have so many bytes: with the values of percentiles sorted where they are
/// expected not to fit.
pub(crate) fn with_sorted_percentiles<'p>(
    plan: &'p Plan,
    memory_bytes: usize,
    tables: &PlanTables,
) -> Result<Cow<'p, Plan>> {
    if !any_is_large(plan, memory_bytes, tables) {
        return Ok(Cow::Borrowed(plan));
    }
    let mut plan = plan.clone();
    sort_large(&mut plan, memory_bytes, tables)?;
    Ok(Cow::Owned(plan))
}

fn any_is_large(plan: &Plan, memory_bytes: usize, tables: &PlanTables) -> bool {
    large(plan, memory_bytes, tables).is_some()
        || plan.inputs().into_iter().any(|input| any_is_large(input, memory_bytes, tables))
}

fn sort_large(plan: &mut Plan, memory_bytes: usize, tables: &PlanTables) -> Result<()> {
    if let Some(aggregate) = large(plan, memory_bytes, tables) {
        *plan = rewrite::sorted(plan, aggregate)?;
    }
    plan.inputs_mut().into_iter().try_for_each(|input| sort_large(input, memory_bytes, tables))
}

/// The aggregate, if it has percentiles that can be sorted, and values of these that may be too many.
fn large<'p>(plan: &'p Plan, memory_bytes: usize, tables: &PlanTables) -> Option<&'p Aggregate> {
    let Node::Aggregate(aggregate) = &plan.node else { return None };
    let row_bytes = can_sort(aggregate)?;
    let bytes = rows_most(&aggregate.input, tables).map(|rows| rows.saturating_mul(row_bytes));
    bytes.is_none_or(|bytes| bytes > memory_bytes / MEMORY_DIVISOR).then_some(aggregate)
}

/// What an aggregate's percentiles keep of a row, in bytes; `None` if it has none, or if something else in it could
/// answer otherwise.
fn can_sort(aggregate: &Aggregate) -> Option<usize> {
    let sets = match (aggregate.has_grouping_id, aggregate.grouping_sets.as_slice()) {
        (true, sets) => sets.len(),
        (false, [set]) if !set.contains(&true) => 1,
        _ => return None,
    };
    let have_order = aggregate.groups.iter().all(|key| has_order(key.data_type()));
    let (percentiles, others): (Vec<_>, Vec<_>) =
        aggregate.aggregates.iter().partition(|call| quantile_of(call).is_some());
    let is_free = |call: &&AggregateCall| {
        WITHOUT_ORDER.contains(&call.function.fun().name()) && call.function.order_bys().is_empty()
    };
    if percentiles.is_empty() || !have_order || !others.iter().all(is_free) {
        return None;
    }
    // Each set has groups of its own, with all values.
    Some(percentiles.into_iter().map(kept_bytes).sum::<usize>().saturating_mul(sets))
}

/// What a percentile keeps of a row, in bytes.
fn kept_bytes(call: &AggregateCall) -> usize {
    let width = |argument: &Expr| argument.data_type().primitive_width().unwrap_or(TEXT_BYTES);
    let width = match call.arguments.len() {
        // Ours keep all of them, and the row's group.
        3 => call.arguments.iter().map(width).sum::<usize>() + GROUP_BYTES,
        _ => value_of(call).map_or(0, width),
    };
    if call.function.is_distinct() { width + DISTINCT_BYTES } else { width }
}

/// Whether values of a type are put in order as they are, and the least and the greatest of them are found.
fn is_own_rank(values: &DataType) -> bool {
    use DataType::*;
    matches!(
        values,
        Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64 | Date32 | Timestamp(..) | Time64(_) | Utf8View
    )
}

/// Whether rows with equal keys of a type come side by side when they are sorted.
fn has_order(key: &DataType) -> bool {
    match key {
        DataType::Boolean
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => true,
        DataType::Dictionary(_, values) => has_order(values),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => has_order(field.data_type()),
        DataType::Struct(fields) => fields.iter().all(|field| has_order(field.data_type())),
        other => other.is_primitive(),
    }
}

/// The value of which a call wants a quantile. Our own `percentile_cont` has it behind the share.
fn value_of(call: &AggregateCall) -> Option<&Expr> {
    let is_own = call.arguments.len() == 3 && OWN.iter().any(|(name, _)| call.function.fun().name() == *name);
    call.arguments.get(usize::from(is_own))
}

/// The quantile that a call asks for, if it can be had by sorting.
fn quantile_of(call: &AggregateCall) -> Option<Quantile> {
    let function = &call.function;
    let of = value_of(call)?.data_type();
    if of != function.field().data_type() {
        return None;
    }
    let kind = function.fun().inner();
    match call.arguments.as_slice() {
        [_] if kind.is::<Median>() && rank_type(of).is_some() => Some(Quantile::Median),
        [share, value, key] if value == key => {
            let (_, quantile) = OWN.iter().find(|(name, _)| function.fun().name() == *name)?;
            let ScalarValue::Float64(Some(share)) = share.physical().downcast_ref::<Literal>()?.value() else {
                return None;
            };
            let quantile = (0.0..=1.0).contains(share).then(|| quantile(*share))?;
            let is_known = match quantile {
                Quantile::Discrete { .. } => rank_type(of).is_some() || is_own_rank(of),
                _ => *of == DataType::Float64,
            };
            is_known.then_some(quantile)
        }
        [_, share] if kind.is::<PercentileCont>() && of.is_floating() => {
            let share = match share.physical().downcast_ref::<Literal>()?.value() {
                ScalarValue::Float64(Some(share)) => *share,
                ScalarValue::Float32(Some(share)) => f64::from(*share),
                _ => return None,
            };
            let is_descending = function.order_bys().first().is_some_and(|key| key.options.descending);
            let is_share = (0.0..=1.0).contains(&share);
            is_share.then(|| Quantile::at(if is_descending { 1.0 - share } else { share }))
        }
        _ => None,
    }
}
