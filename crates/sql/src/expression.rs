//! An expression of DataFusion's for the engine: the same, but integers that overflow are an error instead of wrapping
//! around.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_expr::Operator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::BinaryExpr;
use diligence_base::Result;
use diligence_engine::expressions::Expr;
use diligence_storage::foreign_error::from_datafusion;

/// An expression over rows of this schema.
pub(crate) fn expression(physical: Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Expr> {
    let checked = physical.transform_up(|node| match node.downcast_ref::<BinaryExpr>() {
        Some(binary) if matches!(binary.op(), Operator::Plus | Operator::Minus | Operator::Multiply) => {
            Ok(Transformed::yes(Arc::new(binary.clone().with_fail_on_overflow(true)) as Arc<dyn PhysicalExpr>))
        }
        _ => Ok(Transformed::no(node)),
    });
    Expr::new(checked.map_err(from_datafusion)?.data, schema)
}
