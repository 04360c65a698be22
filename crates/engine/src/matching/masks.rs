//! The rows that any of several queries wants, each with a mask of those that do.
//!
//! Masks are made at the scans, from the constants that the queries compare columns with, and go up beside the rows: an
//! inner join keeps the queries that want both sides' rows, any other join those of the one side whose rows it lets
//! through or completes.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion_common::JoinType;
use datafusion_expr::Operator;
use diligence_base::{Error, Result};

use super::parameters::{Parameter, parameter};
use super::signature::{sides_apart, terms_of};
use crate::expressions::Expr;
use crate::plan::mask_lookup::{Lookup, Terms};
use crate::plan::{Mask, Node, Plan, Scan};

/// The column of masks.
pub(super) fn mask_field() -> Field {
    Field::new("queries", DataType::UInt64, false)
}

/// The plan over the rows of all queries; the mask is its last column. The queries are of one template.
pub(super) fn with_mask(plan: &Plan, queries: &[Vec<Parameter>]) -> Result<Plan> {
    let mut masks = Masks { queries, scans: 0 };
    match masks.plan(plan, true)? {
        (plan, true) => Ok(plan),
        (_, false) => Err(Error::bug("a template without parameters")),
    }
}

struct Masks<'a> {
    queries: &'a [Vec<Parameter>],
    /// Scans passed so far, in the order in which signatures count them.
    scans: usize,
}

impl Masks<'_> {
    /// The plan, and whether it has a mask now.
    fn plan(&mut self, plan: &Plan, apart: bool) -> Result<(Plan, bool)> {
        if !apart {
            self.scans += scans_in(plan);
            return Ok((plan.clone(), false));
        }
        let mut changed = plan.clone();
        let masked = match &mut changed.node {
            Node::Scan(scan) => {
                let place = self.scans;
                self.scans += 1;
                return match self.scan(scan, place, plan)? {
                    Some(masked) => Ok((masked, true)),
                    None => Ok((plan.clone(), false)),
                };
            }
            Node::Filter { input, .. } => {
                let (below, masked) = self.plan(input, true)?;
                **input = below;
                masked
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
                let sides = sides_apart(join.join_type, join.null_aware);
                let masked = self.sides(&mut join.left, &mut join.right, sides)?;
                return joined(changed, plan, masked, |node| match node {
                    Node::HashJoin(join) => Some((join.join_type, &mut join.projection)),
                    _ => None,
                });
            }
            Node::NestedLoopJoin(join) => {
                let sides = sides_apart(join.join_type, false);
                let masked = self.sides(&mut join.left, &mut join.right, sides)?;
                return joined(changed, plan, masked, |node| match node {
                    Node::NestedLoopJoin(join) => Some((join.join_type, &mut join.projection)),
                    _ => None,
                });
            }
            _ => {
                self.scans += scans_in(plan);
                false
            }
        };
        if masked {
            changed.schema = beside(&plan.schema, [mask_field()]);
        }
        Ok((changed, masked))
    }

    fn sides(&mut self, left: &mut Plan, right: &mut Plan, apart: (bool, bool)) -> Result<(bool, bool)> {
        let (below_left, left_masked) = self.plan(left, apart.0)?;
        let (below_right, right_masked) = self.plan(right, apart.1)?;
        (*left, *right) = (below_left, below_right);
        Ok((left_masked, right_masked))
    }

    /// A scan that reads what any query wants, and the masks of its rows; `None` if the queries do not differ here.
    fn scan(&self, scan: &mut Scan, place: usize, plan: &Plan) -> Result<Option<Plan>> {
        let here = |query: &[Parameter]| -> Vec<Parameter> {
            query.iter().filter(|parameter| parameter.scan == place).cloned().collect()
        };
        let queries: Vec<_> = self.queries.iter().map(|query| here(query)).collect();
        let mut columns: Vec<usize> = queries.iter().flatten().map(|parameter| parameter.column).collect();
        columns.sort_unstable();
        columns.dedup();
        if columns.is_empty() {
            return Ok(None);
        }
        let table = scan.table.schema();
        let mut filters = Vec::new();
        for filter in &scan.filters {
            for condition in terms_of(filter.physical(), Operator::And) {
                if parameter(condition, &table).is_none() {
                    filters.push(Expr::new(condition.clone(), &table)?);
                }
            }
        }
        let width = scan.columns.len();
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
            let place = scan.columns.iter().position(|&other| other == column).unwrap_or_else(|| {
                scan.columns.push(column);
                scan.columns.len() - 1
            });
            lookups.push((place, Arc::new(lookup)));
        }
        scan.filters = filters;
        let added = scan.columns[width..].iter().map(|&column| table.field(column).clone());
        let schema = beside(&plan.schema, added);
        let scan = Plan { node: Node::Scan(scan.clone()), schema, rows_estimate: None, ordered: plan.ordered };
        let node = Node::Mask(Mask { input: Box::new(scan), lookups, masks: vec![], columns: (0..width).collect() });
        Ok(Some(Plan::new(node, beside(&plan.schema, [mask_field()]))))
    }
}

/// A join whose sides have got masks as their last columns: they come out behind the join's own columns, as one.
fn joined(
    mut changed: Plan,
    plan: &Plan,
    (left, right): (bool, bool),
    projection_of: impl Fn(&mut Node) -> Option<(JoinType, &mut Option<Vec<usize>>)>,
) -> Result<(Plan, bool)> {
    let widths = |plan: &Plan| plan.inputs().iter().map(|input| input.schema.fields().len()).collect::<Vec<_>>();
    let (before, after) = (widths(plan), widths(&changed));
    let Some((join_type, projection)) = projection_of(&mut changed.node) else {
        return Err(Error::bug("a join that is none"));
    };
    let (has_left, has_right) = match join_type {
        JoinType::LeftSemi | JoinType::LeftAnti => (true, false),
        JoinType::RightSemi | JoinType::RightAnti => (false, true),
        _ => (true, true),
    };
    // Where the right side's columns begin in the join's full output.
    let (start_before, start_after) = if has_left { (before[0], after[0]) } else { (0, 0) };
    let full = start_before + if has_right { before[1] } else { 0 };
    let moved = |column: usize| if column < start_before { column } else { column - start_before + start_after };
    let mut columns: Vec<usize> = match projection.take() {
        Some(columns) => columns.into_iter().map(moved).collect(),
        None => (0..full).map(moved).collect(),
    };
    let width = columns.len();
    if left {
        columns.push(before[0]);
    }
    if right {
        columns.push(start_after + before[1]);
    }
    *projection = Some(columns);
    if !left && !right {
        return Ok((plan.clone(), false));
    }
    let masks = usize::from(left) + usize::from(right);
    changed.schema = beside(&plan.schema, (0..masks).map(|_| mask_field()));
    if masks == 1 {
        return Ok((changed, true));
    }
    let node = Mask {
        input: Box::new(changed),
        lookups: vec![],
        masks: vec![width, width + 1],
        columns: (0..width).collect(),
    };
    Ok((Plan::new(Node::Mask(node), beside(&plan.schema, [mask_field()])), true))
}

fn beside(schema: &SchemaRef, fields: impl IntoIterator<Item = Field>) -> SchemaRef {
    let own = schema.fields().iter().cloned();
    Arc::new(Schema::new(own.chain(fields.into_iter().map(Arc::new)).collect::<Vec<_>>()))
}

fn scans_in(plan: &Plan) -> usize {
    usize::from(matches!(plan.node, Node::Scan(_))) + plan.inputs().into_iter().map(scans_in).sum::<usize>()
}
