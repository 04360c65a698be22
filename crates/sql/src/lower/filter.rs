//! Filters. A condition right above a scan becomes the scan's own.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use diligence_base::Result;
use diligence_engine::plan::{Node, Plan, Scan};
use diligence_storage::foreign_error::from_datafusion;

use super::{Lowering, limit, project};
use crate::expression::expression;

impl Lowering {
    pub(super) fn filter(&mut self, filter: &FilterExec, ordered: bool) -> Result<Plan> {
        // A filter that stops after so many rows depends on which ones come first, if there is an order.
        let ordered = ordered || (filter.fetch().is_some() && limit::has_order(filter.input()));
        let input = self.plan(filter.input(), ordered)?;
        let mut plan = filtered(input, filter.predicate())?;
        if let Some(columns) = filter.projection() {
            plan.ordered = ordered;
            plan = project::columns(plan, columns, filter.schema())?;
        }
        match filter.fetch() {
            Some(fetch) => Ok(limit::limit_node(plan, 0, Some(fetch))),
            None => Ok(plan),
        }
    }
}

/// The rows of a plan for which a condition over its columns is true.
fn filtered(mut input: Plan, predicate: &Arc<dyn PhysicalExpr>) -> Result<Plan> {
    let mut left = Vec::new();
    match &mut input.node {
        // A scan with a limit already stops by itself; a filter must see all that it lets through.
        Node::Scan(scan) if scan.limit.is_none() => {
            for conjunct in split_conjunction(predicate) {
                if !absorb(scan, conjunct)? {
                    left.push(conjunct.clone());
                }
            }
        }
        _ => left.push(predicate.clone()),
    }
    if left.is_empty() {
        // What DataFusion expected of the scan alone is too much now.
        input.rows_estimate = None;
        return Ok(input);
    }
    let predicate = expression(conjunction(left), &input.schema)?;
    let (schema, ordered) = (input.schema.clone(), input.ordered);
    let mut plan = Plan::new(Node::Filter { input: Box::new(input), predicate }, schema);
    plan.ordered = ordered;
    Ok(plan)
}

/// Gives a condition over a scan's output to the scan. False if it must stay where it is: it is not about single rows,
/// or gives another answer each time.
fn absorb(scan: &mut Scan, conjunct: &Arc<dyn PhysicalExpr>) -> Result<bool> {
    if is_volatile(conjunct) || collect_columns(conjunct).is_empty() {
        return Ok(false);
    }
    let table = scan.table.schema();
    let over_table = conjunct.clone().transform(|node| {
        let Some(column) = node.downcast_ref::<Column>() else { return Ok(Transformed::no(node)) };
        let index = scan.columns[column.index()];
        Ok(Transformed::yes(Arc::new(Column::new(table.field(index).name(), index)) as Arc<dyn PhysicalExpr>))
    });
    scan.filters.push(expression(over_table.map_err(from_datafusion)?.data, &table)?);
    Ok(true)
}
