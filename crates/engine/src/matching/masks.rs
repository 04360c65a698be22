//! The rows that any of several queries wants, each with a mask of those that do.
//!
//! Masks are made at the scans and filters, from the constants in the queries' conditions, and go up beside the rows;
//! how [joins](super::mask_joins) put them together depends on their kind. Comparisons of columns are looked up for all
//! queries at once; other conditions are evaluated for each query that has another one.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_expr::Operator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{BinaryExpr, Column as ColumnExpr};
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_datafusion;

use super::canonical::terms_of;
use super::mask_joins::{Chooses, beside, chosen, joined, mask_field, padded, padded_side};
use super::parameters::{Parameter, Parameters, form_of, parameter};
use super::signature::{sides_apart, sides_masked};
use crate::expressions::Expr;
use crate::plan::mask_lookup::{Lookup, Terms};
use crate::plan::{Mask, Node, Plan, Scan, SortKey};

/// The plan over the rows of all queries; the mask is its last column. The queries are of one template.
pub(super) fn with_mask(plan: &Plan, queries: &[Arc<Parameters>]) -> Result<Plan> {
    let all = bits_of(queries.len());
    let mut masks = Masks { queries, all, places: 0, is_costly: false };
    match masks.plan(plan, true)? {
        (plan, true) => Ok(plan),
        (_, false) => Err(Error::bug("a template without parameters")),
    }
}

/// The bits of so many queries.
pub(super) fn bits_of(queries: usize) -> u64 {
    u64::MAX >> (64 - queries.clamp(1, 64))
}

/// Of rows that have masks of so many queries as their last column, those that may be among the `wanted` first of some
/// query, by columns of them.
pub(super) fn first_of_each(rows: Plan, keys: &[SortKey], wanted: usize, queries: usize) -> Plan {
    let schema = rows.schema.clone();
    let width = schema.fields().len() - 1;
    let node = Mask {
        input: Box::new(rows),
        queries: bits_of(queries),
        lookups: vec![],
        conditions: vec![],
        masks: vec![width],
        unwanted: vec![],
        first: Some((keys.to_vec(), wanted)),
        columns: (0..width).collect(),
    };
    Plan::new(Node::Mask(node), schema)
}

struct Masks<'a> {
    queries: &'a [Arc<Parameters>],
    /// Their bits.
    all: u64,
    /// Scans and filters passed so far, in the order in which signatures count them.
    places: usize,
    /// Whether the rows are grouped by keys for their masks: there are none where all queries say the same.
    is_costly: bool,
}

impl Masks<'_> {
    /// The plan, and whether it has a mask now.
    fn plan(&mut self, plan: &Plan, apart: bool) -> Result<(Plan, bool)> {
        if !apart {
            self.places += places_in(plan);
            return Ok((plan.clone(), false));
        }
        let mut changed = plan.clone();
        let masked = match &mut changed.node {
            Node::Scan(scan) => {
                let place = self.next_place();
                return match self.scan(scan, place, plan)? {
                    Some(masked) => Ok((masked, true)),
                    None => Ok((plan.clone(), false)),
                };
            }
            Node::Filter { input, predicate } => {
                let place = self.next_place();
                let (below, masked) = self.plan(input, true)?;
                return self.filter(below, predicate, masked, place, plan);
            }
            Node::Project { input, expressions } => {
                let (below, masked) = self.plan(input, true)?;
                if masked {
                    expressions.push(Expr::column(below.schema.fields().len() - 1, &below.schema)?);
                }
                **input = below;
                masked
            }
            Node::HashJoin(join) => {
                let sides = sides_masked(join);
                let chooses = Chooses::of(join.join_type);
                let padded_side = padded_side(join.join_type);
                let by_keys = chooses.map(|chooses| chooses.right).or(padded_side);
                let masked = self.sides(&mut join.left, &mut join.right, sides, by_keys)?;
                if let Some(chooses) = chooses.filter(|chooses| chooses.is_masked(masked)) {
                    return chosen(join.clone(), chooses, plan, masked, self.all).map(|chosen| (chosen, true));
                }
                if let Some(is_right) = padded_side.filter(|right| if *right { masked.1 } else { masked.0 }) {
                    return padded(join.clone(), is_right, plan, masked, self.all).map(|padded| (padded, true));
                }
                return joined(changed, plan, masked, |node| match node {
                    Node::HashJoin(join) => Some((join.join_type, &mut join.projection)),
                    _ => None,
                });
            }
            Node::NestedLoopJoin(join) => {
                let sides = sides_apart(join.join_type, false);
                let masked = self.sides(&mut join.left, &mut join.right, sides, None)?;
                return joined(changed, plan, masked, |node| match node {
                    Node::NestedLoopJoin(join) => Some((join.join_type, &mut join.projection)),
                    _ => None,
                });
            }
            _ => {
                self.places += places_in(plan);
                false
            }
        };
        if masked {
            changed.schema = beside(&plan.schema, [mask_field()]);
        }
        Ok((changed, masked))
    }

    /// Both sides of a join; `by_keys`: whether the right one, or the left one, counts by its keys as well.
    fn sides(
        &mut self,
        left: &mut Plan,
        right: &mut Plan,
        apart: (bool, bool),
        by_keys: Option<bool>,
    ) -> Result<(bool, bool)> {
        let is_costly = self.is_costly;
        self.is_costly = is_costly || by_keys == Some(false);
        let (below_left, left_masked) = self.plan(left, apart.0)?;
        self.is_costly = is_costly || by_keys == Some(true);
        let (below_right, right_masked) = self.plan(right, apart.1)?;
        self.is_costly = is_costly;
        (*left, *right) = (below_left, below_right);
        Ok((left_masked, right_masked))
    }

    fn next_place(&mut self) -> usize {
        self.places += 1;
        self.places - 1
    }

    /// The open conditions of a place, each with the queries that have it: those that all have, and the others.
    fn conditions(&self, place: usize, input: &Schema) -> Result<(Vec<Expr>, Vec<(Expr, u64)>)> {
        let mut found: Vec<(Expr, u64)> = Vec::new();
        for (query, parameters) in self.queries.iter().enumerate() {
            for open in parameters.conditions.iter().filter(|open| open.place == place) {
                let condition = Expr::new(open.condition.clone(), input)?;
                match found.iter_mut().find(|(other, _)| *other == condition) {
                    Some((_, queries)) => *queries |= 1 << query,
                    None => found.push((condition, 1 << query)),
                }
            }
        }
        let (common, own): (Vec<_>, Vec<_>) = found.into_iter().partition(|(_, queries)| *queries == self.all);
        Ok((common.into_iter().map(|(condition, _)| condition).collect(), own))
    }

    /// A filter over rows that have masks or not: what all queries want of them, with the masks of those that do.
    fn filter(&self, below: Plan, predicate: &Expr, masked: bool, place: usize, plan: &Plan) -> Result<(Plan, bool)> {
        let width = plan.schema.fields().len();
        let schema = below.schema.clone();
        let (mut common, conditions) = self.conditions(place, &plan.schema)?;
        for term in terms_of(predicate.physical(), Operator::And) {
            if form_of(term, &plan.schema).is_none() {
                common.push(Expr::new(term.clone(), &schema)?);
            }
        }
        let both = common.into_iter().map(|condition| condition.physical().clone());
        let both = both.reduce(|left, right| Arc::new(BinaryExpr::new(left, Operator::And, right)));
        let kept = match both {
            Some(predicate) => {
                let predicate = Expr::new(predicate, &schema)?;
                let node = Node::Filter { input: Box::new(below), predicate };
                Plan { node, schema, rows_estimate: plan.rows_estimate, ordered: plan.ordered }
            }
            None => below,
        };
        if conditions.is_empty() {
            return Ok((kept, masked));
        }
        let node = Mask {
            input: Box::new(kept),
            queries: self.all,
            lookups: vec![],
            conditions,
            masks: if masked { vec![width] } else { vec![] },
            unwanted: vec![],
            first: None,
            columns: (0..width).collect(),
        };
        Ok((Plan::new(Node::Mask(node), beside(&plan.schema, [mask_field()])), true))
    }

    /// A scan that reads what any query wants, and the masks of its rows; `None` if the queries do not differ here.
    fn scan(&self, scan: &mut Scan, place: usize, plan: &Plan) -> Result<Option<Plan>> {
        let here = |query: &Arc<Parameters>| -> Vec<Parameter> {
            query.comparisons.iter().filter(|parameter| parameter.scan == place).cloned().collect()
        };
        let queries: Vec<_> = self.queries.iter().map(here).collect();
        let mut columns: Vec<usize> = queries.iter().flatten().map(|parameter| parameter.column).collect();
        columns.sort_unstable();
        columns.dedup();
        let table = scan.table_schema.clone();
        let (mut filters, conditions) = self.conditions(place, &table)?;
        let are_equal = |pair: &[Vec<Parameter>]| {
            let is_in = |one: &Parameter, others: &[Parameter]| others.iter().any(|other| one.is_same(other));
            let both = (pair[0].as_slice(), pair[1].as_slice());
            [both, (both.1, both.0)].iter().all(|(some, others)| some.iter().all(|one| is_in(one, others)))
        };
        let is_one = self.is_costly && queries.windows(2).all(are_equal);
        if conditions.is_empty() && (columns.is_empty() || is_one) {
            return Ok(None);
        }
        for filter in &scan.filters {
            for condition in terms_of(filter.physical(), Operator::And) {
                if parameter(condition, &table).is_none() && form_of(condition, &table).is_none() {
                    filters.push(Expr::new(condition.clone(), &table)?);
                }
            }
        }
        let width = scan.columns.len();
        let mut place_of = |column: usize| {
            scan.columns.iter().position(|&other| other == column).unwrap_or_else(|| {
                scan.columns.push(column);
                scan.columns.len() - 1
            })
        };
        let mut lookups = Vec::new();
        for column in columns {
            let terms = |query: &Vec<Parameter>| -> Terms {
                let of_column = query.iter().filter(|parameter| parameter.column == column);
                of_column.map(|parameter| (parameter.comparison, parameter.constants.clone())).collect()
            };
            let lookup = Lookup::new(&queries.iter().map(terms).collect::<Vec<_>>())?;
            for condition in lookup.union(&table, column)? {
                filters.push(Expr::new(condition, &table)?);
            }
            lookups.push((place_of(column), Arc::new(lookup)));
        }
        conditions.iter().flat_map(|(condition, _)| condition.columns()).for_each(|column| {
            place_of(*column);
        });
        scan.filters = filters;
        let added = scan.columns[width..].iter().map(|&column| table.field(column).clone());
        let schema = beside(&plan.schema, added);
        let moved = |condition: &Expr| {
            let moved = condition.physical().clone().transform_down(|node| {
                let Some(column) = node.downcast_ref::<ColumnExpr>() else { return Ok(Transformed::no(node)) };
                let place = scan.columns.iter().position(|other| *other == column.index()).unwrap_or_default();
                let moved: Arc<dyn PhysicalExpr> = Arc::new(ColumnExpr::new(schema.field(place).name(), place));
                Ok(Transformed::yes(moved))
            });
            Expr::new(moved.map_err(from_datafusion)?.data, &schema)
        };
        let conditions = conditions.iter().map(|(condition, queries)| Ok((moved(condition)?, *queries)));
        let conditions = conditions.collect::<Result<Vec<_>>>()?;
        let scan = Plan { node: Node::Scan(scan.clone()), schema, rows_estimate: None, ordered: plan.ordered };
        let (input, queries, columns) = (Box::new(scan), self.all, (0..width).collect());
        let (masks, unwanted, first) = (vec![], vec![], None);
        let node = Mask { input, queries, lookups, conditions, masks, unwanted, first, columns };
        Ok(Some(Plan::new(Node::Mask(node), beside(&plan.schema, [mask_field()]))))
    }
}

fn places_in(plan: &Plan) -> usize {
    let own = usize::from(matches!(plan.node, Node::Scan(_) | Node::Filter { .. }));
    own + plan.inputs().into_iter().map(places_in).sum::<usize>()
}
