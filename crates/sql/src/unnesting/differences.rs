//! Which rows may come out otherwise when they are computed a second time.
//!
//! Rows reach an operator in an order that depends on which worker was ready first. What depends on that order is
//! another value each time: the elements of an array without ORDER BY, the rows below LIMIT, the last digits of a sum
//! of floating-point numbers. Two copies of such rows do not match each other, so a statement that reads them in two
//! places must compute them once, as PostgreSQL does with all common table expressions that are read twice.

use datafusion_expr::{WindowFrameBound, WindowFrameUnits};
use diligence_engine::plan::WindowFunction;
use diligence_types::SqlType;
use diligence_types::functions::AggregateCall;

use crate::algebra::{AggregateItem, Relation, Scalar, SortKey, Window, WindowFrame, WindowItem, WindowKind};

/// Aggregates whose result does not depend on the order of the rows.
const OF_ANY_ORDER: [&str; 23] = [
    "approx_count_distinct",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "count",
    "count_if",
    "countif",
    "every",
    "grouping",
    "histogram",
    "max",
    "median",
    "min",
    "percentile_cont",
    "percentile_disc",
    "quantile_cont",
    "quantile_disc",
    "range_agg",
    "range_intersect_agg",
    "regr_count",
    "single_value",
];

/// Aggregates that add: they depend on the order of the rows where they add floating-point numbers.
const OF_SUMS: [&str; 9] =
    ["avg", "mean", "sum", "stddev", "stddev_pop", "stddev_samp", "var_pop", "var_samp", "variance"];

/// Whether the rows of a relation may be others when they are computed again.
pub(crate) fn may_differ(relation: &Relation) -> bool {
    let own = match relation {
        Relation::Limit(limit) => limit.fetch.is_some() || limit.skip.is_some(),
        Relation::Distinct { keeps_all, .. } => *keeps_all,
        Relation::Scan(scan) => scan.sample.is_some(),
        Relation::Aggregate(aggregate) => aggregate.aggregates.iter().any(|(_, item)| aggregate_may_differ(item)),
        Relation::Window(window) => window.items.iter().any(|(_, item)| window_may_differ(item, window)),
        _ => false,
    };
    own || relation.scalars().into_iter().any(scalar_may_differ) || relation.inputs().into_iter().any(may_differ)
}

fn scalar_may_differ(scalar: &Scalar) -> bool {
    let mut differs = scalar.is_volatile();
    scalar.visit(&mut |part| {
        if let Scalar::Subquery(subquery) = part {
            differs |= may_differ(&subquery.relation);
        }
    });
    differs
}

fn aggregate_may_differ(item: &AggregateItem) -> bool {
    item.made.is_some() || call_may_differ(&item.call, &item.arguments, &[&item.order])
}

/// Whether an aggregate of rows in these orders, the first of which comes first, may be another value each time.
fn call_may_differ(call: &AggregateCall, arguments: &[Scalar], orders: &[&[SortKey]]) -> bool {
    let name = call.overload.name;
    if OF_ANY_ORDER.contains(&name) {
        return false;
    }
    if OF_SUMS.contains(&name) {
        let is_float = |sql_type: &SqlType| matches!(sql_type, SqlType::Real | SqlType::Double);
        return is_float(&call.returns) || call.arguments.iter().any(is_float);
    }
    // Rows that are equal in the order have equal arguments, if these are what they are ordered by.
    let is_ordered = |argument: &Scalar| {
        matches!(argument, Scalar::Constant(_))
            || orders.iter().any(|keys| keys.iter().any(|key| key.scalar == *argument))
    };
    !arguments.iter().all(is_ordered)
}

fn window_may_differ(item: &WindowItem, window: &Window) -> bool {
    match &item.kind {
        WindowKind::Engine(
            WindowFunction::Rank | WindowFunction::DenseRank | WindowFunction::PercentRank | WindowFunction::CumeDist,
        ) => false,
        WindowKind::Engine(_) => true,
        WindowKind::Aggregate { call, .. } => {
            cuts_peers(&item.frame) || call_may_differ(call, &item.arguments, &[&item.order, &window.order])
        }
    }
}

/// Whether a frame can hold some of the rows that are equal in the window's order, and not the others.
fn cuts_peers(frame: &WindowFrame) -> bool {
    let is_open = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::Preceding(distance) | WindowFrameBound::Following(distance) => distance.is_null(),
        WindowFrameBound::CurrentRow => false,
    };
    let WindowFrame { frame, distances, .. } = frame;
    let is_whole = is_open(&frame.start_bound) && is_open(&frame.end_bound) && distances.iter().all(Option::is_none);
    frame.units == WindowFrameUnits::Rows && !is_whole
}
