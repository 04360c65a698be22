//! Integer arithmetic between constants, checked before DataFusion's simplifier folds it: that one wraps around.
//!
//! At run time integers are checked by the engine (`lower::expression`); this is the same for what never gets there.

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Expr, LogicalPlan, Operator};
use datafusion::optimizer::AnalyzerRule;
use diligence_base::Error;
use diligence_storage::foreign_error::to_datafusion;

/// The rule. It changes nothing; it fails where a constant overflows.
#[derive(Debug)]
pub struct ConstantOverflow;

impl AnalyzerRule for ConstantOverflow {
    fn name(&self) -> &str {
        "constant_overflow"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.apply_with_subqueries(|node| {
            node.apply_expressions(|expression| {
                constant(expression)?;
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        Ok(plan)
    }
}

/// The value of an expression of integers that is made of constants alone.
fn constant(expression: &Expr) -> Result<Option<i128>> {
    match expression {
        Expr::Literal(value, _) => Ok(integer(value)),
        Expr::Alias(alias) => constant(&alias.expr),
        Expr::Cast(cast) => {
            let value = constant(&cast.expr)?;
            Ok(value.filter(|&value| fits(value, cast.field.data_type())))
        }
        Expr::BinaryExpr(binary) => {
            let (Some(left), Some(right)) = (constant(&binary.left)?, constant(&binary.right)?) else {
                return Ok(None);
            };
            let value = match binary.op {
                Operator::Plus => left.checked_add(right),
                Operator::Minus => left.checked_sub(right),
                Operator::Multiply => left.checked_mul(right),
                _ => return Ok(None),
            };
            let Some(data_type) = type_of(&binary.left) else { return Ok(None) };
            match value.filter(|&value| fits(value, &data_type)) {
                Some(value) => Ok(Some(value)),
                None => {
                    let error =
                        Error::value(format!("arithmetic overflow: {left} {} {right} is no {data_type}", binary.op));
                    Err(to_datafusion(error.with_hint("cast to a wider type, such as DECIMAL(38, 0) or DOUBLE")))
                }
            }
        }
        other => {
            other.apply_children(|child| {
                constant(child)?;
                Ok(TreeNodeRecursion::Continue)
            })?;
            Ok(None)
        }
    }
}

/// The type of an expression that has a [`constant`] value. Both sides of an operator have the same after type coercion.
fn type_of(expression: &Expr) -> Option<DataType> {
    match expression {
        Expr::Literal(value, _) => Some(value.data_type()),
        Expr::Alias(alias) => type_of(&alias.expr),
        Expr::Cast(cast) => Some(cast.field.data_type().clone()),
        Expr::BinaryExpr(binary) => type_of(&binary.left),
        _ => None,
    }
}

fn integer(value: &ScalarValue) -> Option<i128> {
    match value {
        ScalarValue::Int8(value) => value.map(i128::from),
        ScalarValue::Int16(value) => value.map(i128::from),
        ScalarValue::Int32(value) => value.map(i128::from),
        ScalarValue::Int64(value) => value.map(i128::from),
        ScalarValue::UInt8(value) => value.map(i128::from),
        ScalarValue::UInt16(value) => value.map(i128::from),
        ScalarValue::UInt32(value) => value.map(i128::from),
        ScalarValue::UInt64(value) => value.map(i128::from),
        _ => None,
    }
}

/// False also for what is no integer type: such a constant is not ours.
fn fits(value: i128, data_type: &DataType) -> bool {
    match data_type {
        DataType::Int8 => i8::try_from(value).is_ok(),
        DataType::Int16 => i16::try_from(value).is_ok(),
        DataType::Int32 => i32::try_from(value).is_ok(),
        DataType::Int64 => i64::try_from(value).is_ok(),
        DataType::UInt8 => u8::try_from(value).is_ok(),
        DataType::UInt16 => u16::try_from(value).is_ok(),
        DataType::UInt32 => u32::try_from(value).is_ok(),
        DataType::UInt64 => u64::try_from(value).is_ok(),
        _ => false,
    }
}
