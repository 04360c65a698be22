//! Conditions with constants on pairs of rows, above their joins.
//!
//! A condition such as `a.name LIKE '%x%' OR b.day < 5` is part of the join. Queries that go together and have other
//! constants in it get masks of it, and masks are made by scans and filters. So the join of a run for several queries
//! gives all pairs with equal keys, and a filter above it has the condition:
//!
//! ```text
//!   HashJoin on a.k = b.k and a.x = b.x and (a.y > 3 OR b.z = 4)      Project the join's columns
//!     a                                                                 Filter a.y > 3 OR b.z = 4
//!     b                                                   becomes         HashJoin on a.k = b.k and a.x = b.x
//!                                                                           a
//!                                                                           b
//! ```
//!
//! Only inner joins: of any other, pairs that a condition leaves out say which rows come out without a partner.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{JoinSide, JoinType};
use datafusion_expr::Operator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{BinaryExpr, Column as ColumnExpr};
use diligence_base::Result;
use diligence_storage::foreign_error::from_datafusion;

use super::canonical::terms_of;
use super::parameters::form_of;
use crate::expressions::Expr;
use crate::plan::{HashJoin, Node, PairFilter, Plan};

/// The plan with such conditions above their joins; `None` if it has none. Its columns and rows are the same.
pub(super) fn lifted(plan: &Plan) -> Result<Option<Plan>> {
    if !has_any(plan) {
        return Ok(None);
    }
    let mut changed = plan.clone();
    for input in changed.inputs_mut() {
        if let Some(lifted) = lifted(input)? {
            *input = lifted;
        }
    }
    let open = match &changed.node {
        Node::HashJoin(join) => open_terms(join),
        _ => vec![],
    };
    let Node::HashJoin(join) = &mut changed.node else { return Ok(Some(changed)) };
    match join.filter.take() {
        Some(filter) if !open.is_empty() => above(changed, filter, &open).map(Some),
        filter => {
            join.filter = filter;
            Ok(Some(changed))
        }
    }
}

fn has_any(plan: &Plan) -> bool {
    let own = matches!(&plan.node, Node::HashJoin(join) if !open_terms(join).is_empty());
    own || plan.inputs().into_iter().any(has_any)
}

/// The terms of a join's condition on pairs in whose constants queries may differ.
fn open_terms(join: &HashJoin) -> Vec<Arc<dyn PhysicalExpr>> {
    let Some(filter) = join.filter.as_ref().filter(|_| join.join_type == JoinType::Inner) else { return vec![] };
    let terms = terms_of(filter.expression.physical(), Operator::And).into_iter();
    terms.filter(|term| form_of(term, &filter.schema).is_some()).cloned().collect()
}

/// A join, whose condition has been taken out, with these terms of it above and the others in it.
fn above(mut plan: Plan, filter: PairFilter, open: &[Arc<dyn PhysicalExpr>]) -> Result<Plan> {
    let outer = Plan { node: Node::Values { batches: vec![] }, ..plan.clone() };
    let Node::HashJoin(join) = &mut plan.node else { return Ok(plan) };
    let rest = terms_of(filter.expression.physical(), Operator::And).into_iter();
    let rest = all(rest.filter(|term| !open.iter().any(|other| other == *term)).cloned());
    let left = join.left.schema.fields().len();
    let full: Vec<_> = join.left.schema.fields().iter().chain(join.right.schema.fields()).cloned().collect();
    let mut columns = join.projection.take().unwrap_or_else(|| (0..full.len()).collect());
    let width = columns.len();
    let mut places = Vec::with_capacity(filter.columns.len());
    for (side, column) in &filter.columns {
        let column = if *side == JoinSide::Left { *column } else { left + *column };
        places.push(columns.iter().position(|other| *other == column).unwrap_or_else(|| {
            columns.push(column);
            columns.len() - 1
        }));
    }
    let added = columns[width..].iter().map(|column| full[*column].clone());
    let schema = Arc::new(Schema::new(outer.schema.fields().iter().cloned().chain(added).collect::<Vec<_>>()));
    join.projection = Some(columns);
    join.filter = match rest {
        Some(rest) => Some(PairFilter { expression: Expr::new(rest, &filter.schema)?, ..filter }),
        None => None,
    };
    plan.schema = schema.clone();
    let moved = |term: &Arc<dyn PhysicalExpr>| {
        let moved = term.clone().transform_down(|node| {
            let Some(column) = node.downcast_ref::<ColumnExpr>() else { return Ok(Transformed::no(node)) };
            let place = places[column.index()];
            let moved: Arc<dyn PhysicalExpr> = Arc::new(ColumnExpr::new(schema.field(place).name(), place));
            Ok(Transformed::yes(moved))
        });
        Ok(moved.map_err(from_datafusion)?.data)
    };
    let moved = open.iter().map(moved).collect::<Result<Vec<_>>>()?;
    let Some(predicate) = all(moved.into_iter()) else { return Ok(plan) };
    let predicate = Expr::new(predicate, &schema)?;
    let filter =
        Plan { node: Node::Filter { input: Box::new(plan), predicate }, schema: schema.clone(), ..outer.clone() };
    let expressions = (0..width).map(|column| Expr::column(column, &schema)).collect::<Result<Vec<_>>>()?;
    Ok(Plan { node: Node::Project { input: Box::new(filter), expressions }, ..outer })
}

fn all(terms: impl Iterator<Item = Arc<dyn PhysicalExpr>>) -> Option<Arc<dyn PhysicalExpr>> {
    terms.reduce(|left, right| Arc::new(BinaryExpr::new(left, Operator::And, right)))
}
