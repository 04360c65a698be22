//! How one run answers several queries of a template: by cells, or by rows.
//!
//! ```text
//!   SELECT town, sum(amount)                                         SELECT town, median(amount)
//!   ... WHERE day > ... GROUP BY town                                ... WHERE day > ... GROUP BY town
//!
//!   Aggregate by town and mask      the run                          Project town, amount, mask
//!     Scan sales, with masks                                           Scan sales, with masks
//!   --------------------------------------------------------------------------------------------
//!   Aggregate by town               each query                       Aggregate by town: median(amount)
//!     cells with its bit                                               rows with its bit
//! ```
//!
//! A run *by cells* goes as far as the groups: its answers are put together from [parts](super::regroup). There are
//! never more cells than rows, and a row is grouped once for all queries, so it is taken wherever it is exact. A run
//! *by rows* goes as far as what chooses and computes rows, which are kept with the [mask](super::masks) of the queries
//! that want them (as in CJOIN: Candea, Polyzotis & Vingralek, "A Scalable, Predictable Join Operator for Highly
//! Concurrent Data Warehouses", VLDB 2009). What is above, each query does for itself: aggregates that cannot be put
//! together (medians, sums of floats), or none at all. It is taken where the rows of at least
//! two queries are expected to be few enough to be kept.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use diligence_base::limits::{MERGED_QUERIES_MAX, SHARED_STATE_BYTES_MAX};
use diligence_base::{Error, Result};

use super::masks::{first_of_each, with_mask};
use super::parameters::Parameters;
use super::signature::Signature;
use super::{pair_conditions, parts, regroup};
use crate::expressions::Expr;
use crate::options::QueryOptions;
use crate::plan::{Node, Plan, SortKey, estimates};

/// First rows of a query at most for which a run looks at once for all.
const FIRST_ROWS_MAX: usize = 1000;

/// How many times as many rows as a query wants are kept for it, about, until its first ones are known: the logarithm
/// of all rows, in each packet.
const FIRST_ROWS_KEPT: usize = 32;

/// How far a run for several queries goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// To groups by the keys and the mask.
    Cells,
    /// To rows with their masks.
    Rows,
    /// To the groups of each of several templates: see [`page`](super::page).
    Page,
}

/// One query's part of a state that was built for several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Portion {
    /// Its bit in the masks.
    pub bit: usize,
    pub way: Way,
}

/// What queries have in common that differ only in the constants of their scans' conditions.
#[derive(Clone)]
pub(crate) struct Template {
    pub signature: Signature,
    /// What this query differs in.
    pub parameters: Arc<Parameters>,
    pub way: Way,
    /// Queries whose rows together are expected to be few enough to be kept; at least two.
    pub queries_max: usize,
    /// Fewer queries than these run one by one.
    pub queries_min: usize,
}

impl Template {
    /// That of what is below a query's cut; `None` if it cannot be merged with others.
    pub fn of(part: &Plan, options: &QueryOptions) -> Option<Self> {
        let lifted = pair_conditions::lifted(part).ok()?;
        let part = lifted.as_ref().unwrap_or(part);
        let above = depth_of_point(part);
        let point = parts::part_below(part, above)?;
        let cells = match &point.node {
            Node::Aggregate(node) if above == 0 && regroup::can_merge(node) => Some(node),
            _ => None,
        };
        let (way, queries_max, queries_min) = if let Some(node) = cells {
            (Way::Cells, MERGED_QUERIES_MAX, regroup::queries_min(node, part.rows_estimate, &options.tables))
        } else {
            let rows = parts::rows_of(point);
            let kept = match first_rows(part, above) {
                Some((_, wanted)) => {
                    rows.rows_estimate.unwrap_or(usize::MAX).min(wanted.saturating_mul(FIRST_ROWS_KEPT))
                }
                None => rows.rows_estimate?,
            };
            let bytes = kept.saturating_mul(estimates::row_bytes(&rows.schema)).max(1);
            let queries = (SHARED_STATE_BYTES_MAX / 2 / bytes).min(MERGED_QUERIES_MAX);
            if queries < 2 || rows.ordered {
                return None;
            }
            (Way::Rows, queries, 1)
        };
        let (signature, parameters) = Signature::template(part, above, options)?;
        Some(Self { signature, parameters: Arc::new(parameters), way, queries_max, queries_min })
    }
}

/// How many nodes of a part are above the point up to which its queries' rows can go together.
fn depth_of_point(part: &Plan) -> usize {
    parts::topmost_aggregate(part).map_or_else(|| parts::depth_of_rows(part, 0), |(depth, _)| depth)
}

/// The order in which each query wants few first rows of those that are so far below, and how many. `None` where groups
/// are made of these rows: their order is another one, and they need all rows.
fn first_rows(part: &Plan, above: usize) -> Option<(&[SortKey], usize)> {
    let Node::Sort { input, keys, fetch: Some(wanted) } = &parts::part_below(part, above.checked_sub(1)?)?.node else {
        return None;
    };
    if matches!(input.node, Node::Aggregate(_)) {
        return None;
    }
    let are_columns = keys.iter().all(|key| key.expression.as_column().is_some());
    (are_columns && *wanted <= FIRST_ROWS_MAX).then_some((keys, *wanted))
}

/// The run for several queries of a template, of one of which `part` is what is below its cut.
pub(crate) fn merged(way: Way, part: &Plan, queries: &[Arc<Parameters>]) -> Result<Plan> {
    let lifted = pair_conditions::lifted(part)?;
    let part = lifted.as_ref().unwrap_or(part);
    match way {
        Way::Cells => regroup::merged(part, queries),
        Way::Rows => {
            let above = depth_of_point(part);
            let point = parts::part_below(part, above).ok_or_else(|| Error::bug("a part without a point"))?;
            let rows = with_mask(parts::rows_of(point), queries)?;
            Ok(match first_rows(part, above) {
                Some((keys, wanted)) => first_of_each(rows, keys, wanted, queries.len()),
                None => rows,
            })
        }
        Way::Page => Err(Error::bug("a page was merged as one template")),
    }
}

/// What `part` would have given, from its portion of the rows of such a run.
pub(crate) fn own_part(part: &Plan, portion: Portion, schema: SchemaRef, batches: Vec<RecordBatch>) -> Result<Plan> {
    if portion.way == Way::Cells {
        return regroup::own_groups(part, schema, batches, portion.bit);
    }
    let above = depth_of_point(part);
    let point = parts::part_below(part, above).ok_or_else(|| Error::bug("a part without a point"))?;
    let rows = parts::rows_of(point);
    let width = rows.schema.fields().len();
    let predicate = Expr::new(regroup::has_bit(width, portion.bit, &schema), &schema)?;
    let input = Box::new(Plan::new(Node::Values { batches }, schema.clone()));
    let with_masks = Plan::new(Node::Filter { input, predicate }, schema.clone());
    let expressions = (0..width).map(|column| Expr::column(column, &schema)).collect::<Result<Vec<_>>>()?;
    let own = Plan {
        node: Node::Project { input: Box::new(with_masks), expressions },
        schema: rows.schema.clone(),
        rows_estimate: rows.rows_estimate,
        ordered: false,
    };
    let mut point = point.clone();
    match &mut point.node {
        Node::Aggregate(aggregate) => *aggregate.input = own,
        _ => point = own,
    }
    Ok(parts::with_part(part, above, point))
}
