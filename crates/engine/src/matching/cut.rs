//! Where a plan is cut in two: what is worth sharing, and what each query does for itself.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use diligence_base::limits::SHARED_STATE_BYTES_MAX;
use diligence_base::units::display_bytes;

use super::canonical::canonical;
use super::merge::{Template, Way};
use super::parts::{is_small, part_below, rows_touched, topmost_aggregate, with_part};
use super::signature::Signature;
use crate::expressions::Expr;
use crate::options::{QueryOptions, SharingMode};
use crate::plan::{AggregateCall, Node, Plan};

/// What a query would share.
#[derive(Clone)]
pub(crate) struct ShareRequest {
    /// The query's plan, if another one gives the same and has its groups in [the order of all](in_one_order).
    pub plan: Option<Arc<Plan>>,
    /// How many nodes of the plan are above the cut.
    pub depth: usize,
    /// What is below the cut.
    pub exact: Signature,
    /// The same without its constants, and those; `None` if it cannot be merged.
    pub template: Option<Template>,
    /// The template of its topmost aggregate, if it would be cut there but for how many groups are expected: how many
    /// there are is worth knowing.
    pub measured_for: Option<Signature>,
}

/// Why a query is to run for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alone {
    Off,
    /// It is expected to touch fewer rows than this.
    Small(usize),
    /// Its rows are expected to be too many to be kept, or nothing is known of them.
    Large,
    /// It has something that cannot be compared.
    Unknown,
}

impl fmt::Display for Alone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Alone::Off => f.write_str("it is off"),
            Alone::Small(rows) => write!(f, "it is expected to touch fewer than {rows} rows"),
            Alone::Large => {
                let bytes = display_bytes(SHARED_STATE_BYTES_MAX / 2);
                write!(f, "it is not known that its rows have at most {bytes}")
            }
            Alone::Unknown => f.write_str(
                "it has a function whose value may differ from one call to the next, or an operator that is not \
                 compared (windows, rows in the statement, recursion)",
            ),
        }
    }
}

impl ShareRequest {
    /// What a query with this plan would share, or why it is to run for itself. `groups_bytes` are those that one query
    /// of a template has had.
    pub fn of(
        plan: &Plan,
        options: &QueryOptions,
        groups_bytes: impl FnOnce(&Signature) -> Option<usize>,
    ) -> Result<Self, Alone> {
        if matches!(options.sharing, SharingMode::Off | SharingMode::Scans) {
            return Err(Alone::Off);
        }
        if rows_touched(plan, options.sharing_rows_min) < options.sharing_rows_min {
            return Err(Alone::Small(options.sharing_rows_min));
        }
        let reordered = in_one_order(plan).map(Arc::new);
        let Some((depth, aggregate)) = topmost_aggregate(reordered.as_deref().unwrap_or(plan)) else {
            return Self::of_all(plan, options);
        };
        let mut template = Self::template(aggregate, options);
        if !is_small(aggregate) {
            let Some(own) = template.as_mut().filter(|own| own.way == Way::Cells && reads_all(plan, depth)) else {
                return Self::of_all(plan, options);
            };
            match groups_bytes(&own.signature).filter(|bytes| *bytes <= SHARED_STATE_BYTES_MAX / 2) {
                Some(bytes) => own.queries_max = (SHARED_STATE_BYTES_MAX / bytes.max(1)).min(own.queries_max),
                None => {
                    return Ok(Self { measured_for: Some(own.signature.clone()), ..Self::of_all(plan, options)? });
                }
            }
        }
        // What is below may speak of a scalar subquery above: then all of the plan is compared.
        let Some(exact) = Signature::exact(aggregate, options) else { return Self::of_all(plan, options) };
        Ok(Self { depth, exact, template, plan: reordered, measured_for: None })
    }

    /// The same of all of a plan, without a cut.
    fn of_all(plan: &Plan, options: &QueryOptions) -> Result<Self, Alone> {
        let exact = Signature::exact(plan, options);
        if exact.is_some() && !is_small(plan) {
            return Err(Alone::Large);
        }
        let exact = exact.ok_or(Alone::Unknown)?;
        let template = Self::template(plan, options);
        Ok(Self { depth: 0, exact, template, plan: None, measured_for: None })
    }

    fn template(part: &Plan, options: &QueryOptions) -> Option<Template> {
        Template::of(part, options).filter(|_| options.sharing == SharingMode::All)
    }
}

/// The plan with the keys and values of its topmost aggregate in an order that does not depend on how a query lists
/// them, and with a projection above that gives them as they were; `None` if they are in that order, or cannot be put
/// in one.
fn in_one_order(plan: &Plan) -> Option<Plan> {
    let (depth, aggregate) = topmost_aggregate(plan)?;
    let Node::Aggregate(node) = &aggregate.node else { return None };
    let is_plain = matches!(node.grouping_sets.as_slice(), [set] if !set.contains(&true));
    if !is_plain || node.has_grouping_id || node.limit.is_some() || aggregate.ordered {
        return None;
    }
    let width = node.groups.len();
    let key = |key: &Expr| canonical(key.physical()).map(|key| key.hash_value());
    let value = |call: &AggregateCall| {
        let mut hasher = DefaultHasher::new();
        call.function.fun().hash(&mut hasher);
        call.function.is_distinct().hash(&mut hasher);
        for expression in call.arguments.iter().chain(&call.filter) {
            key(expression)?.hash(&mut hasher);
        }
        Some(hasher.finish())
    };
    let keys = order_of(node.groups.iter().map(key))?;
    let values = order_of(node.aggregates.iter().map(value))?;
    // For each column of the ordered aggregate the one of the query's.
    let columns = keys.iter().copied().chain(values.iter().map(|value| width + value)).collect::<Vec<_>>();
    if columns.is_sorted() {
        return None;
    }
    let schema = Arc::new(aggregate.schema.project(&columns).ok()?);
    let mut ordered = Plan { schema: schema.clone(), ..aggregate.clone() };
    if let Node::Aggregate(ordered) = &mut ordered.node {
        ordered.groups = keys.iter().map(|key| node.groups[*key].clone()).collect();
        ordered.aggregates = values.iter().map(|value| node.aggregates[*value].clone()).collect();
    }
    let mut places = vec![0; columns.len()];
    columns.iter().enumerate().for_each(|(place, column)| places[*column] = place);
    let expressions =
        places.into_iter().map(|place| Expr::column(place, &schema)).collect::<Result<Vec<_>, _>>().ok()?;
    let node = Node::Project { input: Box::new(ordered), expressions };
    let as_it_was = Plan { node, schema: aggregate.schema.clone(), ..*aggregate };
    Some(with_part(plan, depth, as_it_was))
}

/// The places of these, in their order; `None` if one is unknown.
fn order_of(of: impl Iterator<Item = Option<u64>>) -> Option<Vec<usize>> {
    let of = of.collect::<Option<Vec<_>>>()?;
    let mut order = (0..of.len()).collect::<Vec<_>>();
    order.sort_by_key(|place| of[*place]);
    Some(order)
}

/// Whether what is above a depth reads all rows, and does not stop after some of them as they come.
fn reads_all(plan: &Plan, depth: usize) -> bool {
    let above = (0..depth).rev().filter_map(|depth| part_below(plan, depth));
    let first = above.map(|plan| &plan.node).find(|node| matches!(node, Node::Sort { .. } | Node::Limit { .. }));
    first.is_none_or(|node| matches!(node, Node::Sort { .. }))
}
