//! Arithmetic between constants, checked before DataFusion's simplifier folds it: that one wraps around.
//!
//! At run time overflow is found by the engine (`expression`). What the simplifier folds never gets there, so it
//! is computed here by the engine first. As in other databases a constant that overflows is an error wherever it
//! stands, also where no row would have asked for it.

use arrow::datatypes::{DataType, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator, Volatility};
use datafusion::optimizer::{AnalyzerRule, OptimizerConfig, OptimizerRule};
use datafusion::physical_expr::create_physical_expr;
use diligence_base::ErrorKind;
use diligence_engine::batch::Batch;
use diligence_storage::foreign_error::to_datafusion;

use crate::expression::expression;

/// The rule. It changes nothing; it fails where a constant overflows.
///
/// It runs on the statement as it was written, and again before the simplifier: an expression over a subquery's
/// constant becomes a constant when projections are merged.
#[derive(Debug)]
pub struct ConstantOverflow;

impl AnalyzerRule for ConstantOverflow {
    fn name(&self) -> &str {
        "constant_overflow"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        check(&plan)?;
        Ok(plan)
    }
}

impl OptimizerRule for ConstantOverflow {
    fn name(&self) -> &str {
        "constant_overflow"
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        check(&plan)?;
        Ok(Transformed::no(plan))
    }
}

fn check(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            let mut constants = Vec::new();
            if collect(expression, &mut constants)? == Part::Computed {
                constants.push(expression);
            }
            constants.into_iter().try_for_each(compute)?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(())
}

/// What an expression is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Constants, without arithmetic between them.
    Constant,
    /// Constants, with arithmetic between them.
    Computed,
    /// Something that is known at run time.
    Variable,
}

/// Tells what an expression is, and collects the largest constants with arithmetic below it.
fn collect<'e>(expression: &'e Expr, constants: &mut Vec<&'e Expr>) -> Result<Part> {
    let mut children = Vec::new();
    expression.apply_children(|child| {
        children.push((child, collect(child, constants)?));
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !is_constant(expression) || children.iter().any(|(_, part)| *part == Part::Variable) {
        constants.extend(children.iter().filter(|(_, part)| *part == Part::Computed).map(|(child, _)| *child));
        return Ok(Part::Variable);
    }
    let computed = is_arithmetic(expression) || children.iter().any(|(_, part)| *part == Part::Computed);
    Ok(if computed { Part::Computed } else { Part::Constant })
}

/// Whether an expression is constant if those that it is made of are.
fn is_constant(expression: &Expr) -> bool {
    match expression {
        Expr::Literal(..)
        | Expr::Alias(_)
        | Expr::BinaryExpr(_)
        | Expr::Not(_)
        | Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsTrue(_)
        | Expr::IsNotTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsNotFalse(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotUnknown(_)
        | Expr::Negative(_)
        | Expr::Between(_)
        | Expr::Case(_)
        | Expr::Cast(_)
        | Expr::TryCast(_)
        | Expr::InList(_) => true,
        Expr::ScalarFunction(function) => function.func.signature().volatility == Volatility::Immutable,
        _ => false,
    }
}

fn is_arithmetic(expression: &Expr) -> bool {
    let Expr::BinaryExpr(binary) = expression else { return false };
    matches!(binary.op, Operator::Plus | Operator::Minus | Operator::Multiply)
}

/// Computes a constant as the engine would, and fails if it overflows. Other mistakes are left to whom they concern.
fn compute(constant: &Expr) -> Result<()> {
    let schema = DFSchema::empty();
    let physical = match constant.get_type(&schema) {
        Ok(DataType::Null) | Err(_) => return Ok(()),
        Ok(_) => create_physical_expr(constant, &schema, &ExecutionProps::new(), &PhysicalPlanningContext::default()),
    };
    let Ok(physical) = physical else { return Ok(()) };
    let one_row = Batch::new(Vec::new(), 1);
    match expression(physical, &Schema::empty()).and_then(|computed| computed.evaluate(&one_row)) {
        Err(error) if error.kind() == ErrorKind::Value && error.message().contains("overflow") => {
            Err(to_datafusion(error.with_hint("cast to a wider type, such as DECIMAL(38, 0) or DOUBLE")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::planning::golden::{planner, statement};

    #[test]
    fn a_constant_that_overflows_is_an_error_of_the_statement() {
        let planner = planner();
        for sql in [
            "SELECT 9223372036854775807 + 1",
            "SELECT id FROM people WHERE id < -9223372036854775807 - 2",
            "SELECT id FROM people WHERE id IN (SELECT 9223372036854775807 * 2)",
            "SELECT id * (9223372036854775807 + 1) FROM people",
            "SELECT most + 1 FROM (SELECT 9223372036854775807 AS most)",
            "SELECT CAST(0 AS INT UNSIGNED) - CAST(1 AS INT UNSIGNED)",
            "SELECT CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0)) + 1",
        ] {
            let error = statement(&planner, sql).unwrap_err();
            assert!(error.message().contains("arithmetic overflow"), "{sql}: {error}");
            assert!(error.hint().is_some(), "{sql}");
        }
    }

    #[test]
    fn what_fits_and_what_is_not_computed_is_not() {
        let planner = planner();
        for sql in [
            "SELECT 9223372036854775806 + 1, -9223372036854775807 - 1",
            "SELECT CASE WHEN false THEN 9223372036854775807 + 1 ELSE 0 END",
            "SELECT CAST(9223372036854775807 AS DECIMAL(38, 0)) + 1, 9223372036854775807 + 1.0e0",
            "SELECT id + 9223372036854775807 FROM people",
            "SELECT DATE '2026-01-01' + INTERVAL '1' DAY, 1 / 0 + id FROM people WHERE id > 1000000",
        ] {
            if let Err(error) = statement(&planner, sql) {
                assert!(!error.message().contains("overflow"), "{sql}: {error}");
            }
        }
    }
}
