//! Columns of plans as expressions, and projections to them.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{CaseExpr, Column as ColumnExpr};
use diligence_base::Result;
use diligence_storage::foreign_error::from_datafusion;

use crate::expressions::Expr;
use crate::plan::{Node, Plan};

/// A projection to columns with names.
pub(super) fn project(input: Plan, columns: Vec<(String, Expr)>) -> Plan {
    let field =
        |(name, expression): &(String, Expr)| Field::new(name, expression.data_type().clone(), expression.nullable());
    let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
    let rows_estimate = input.rows_estimate;
    let expressions = columns.into_iter().map(|(_, expression)| expression).collect();
    Plan { rows_estimate, ..Plan::new(Node::Project { input: Box::new(input), expressions }, schema) }
}

/// The columns of a plan with their names.
pub(super) fn all_columns(plan: &Plan) -> Result<Vec<(String, Expr)>> {
    let fields = plan.schema.fields().iter().enumerate();
    fields.map(|(index, field)| Ok((field.name().clone(), Expr::column(index, &plan.schema)?))).collect()
}

/// Some of a plan's columns.
pub(super) fn columns(indexes: &[usize], schema: &Schema) -> Result<Vec<Expr>> {
    indexes.iter().map(|&index| Expr::column(index, schema)).collect()
}

/// A column, not yet compiled.
pub(super) fn column(index: usize, schema: &Schema) -> Arc<dyn PhysicalExpr> {
    Arc::new(ColumnExpr::new(schema.field(index).name(), index))
}

/// A value where a condition is true, and NULL where it is not: there it is not computed, either.
pub(super) fn where_true(
    condition: Arc<dyn PhysicalExpr>,
    value: Arc<dyn PhysicalExpr>,
    input: &Schema,
) -> Result<Expr> {
    let value = CaseExpr::try_new(None, vec![(condition, value)], None).map_err(from_datafusion)?;
    Expr::new(Arc::new(value), input)
}
