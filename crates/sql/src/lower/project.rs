//! Projections. Plain columns fold into what is below wherever that can choose its columns.

use arrow::datatypes::SchemaRef;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use diligence_base::Result;
use diligence_engine::expressions::Expr;
use diligence_engine::plan::{Node, Plan};

use super::Lowering;
use crate::expression::expression;

impl Lowering {
    pub(super) fn projection(&mut self, projection: &ProjectionExec, ordered: bool) -> Result<Plan> {
        let input = self.plan(projection.input(), ordered)?;
        let expressions = projection
            .expr()
            .iter()
            .map(|projected| expression(projected.expr.clone(), &input.schema))
            .collect::<Result<Vec<_>>>()?;
        let plain = expressions.iter().map(Expr::as_column).collect::<Option<Vec<_>>>();
        match plain {
            Some(plain) => columns(input, &plain, projection.schema()),
            None => Ok(project_node(input, expressions, projection.schema())),
        }
    }
}

/// These columns of a plan, in this order.
pub(super) fn columns(mut plan: Plan, columns: &[usize], schema: SchemaRef) -> Result<Plan> {
    let unchanged = columns.len() == plan.schema.fields().len() && columns.iter().copied().eq(0..columns.len());
    if !unchanged {
        match &mut plan.node {
            Node::Scan(scan) => scan.columns = columns.iter().map(|&column| scan.columns[column]).collect(),
            Node::Project { expressions, .. } => {
                *expressions = columns.iter().map(|&column| expressions[column].clone()).collect();
            }
            _ => {
                let chosen = columns.iter().map(|&column| Expr::column(column, &plan.schema));
                let chosen = chosen.collect::<Result<Vec<_>>>()?;
                return Ok(project_node(plan, chosen, schema));
            }
        }
    }
    plan.schema = schema;
    Ok(plan)
}

fn project_node(input: Plan, expressions: Vec<Expr>, schema: SchemaRef) -> Plan {
    let (ordered, rows_estimate) = (input.ordered, input.rows_estimate);
    let mut plan = Plan::new(Node::Project { input: Box::new(input), expressions }, schema);
    (plan.ordered, plan.rows_estimate) = (ordered, rows_estimate);
    plan
}
