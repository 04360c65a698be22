//! Comparisons that DataFusion answers wrongly, or plans so that they do not run, as others that mean the same.
//!
//! - `x IN (1, f(y))`, a list of more than constants: its physical expression evaluates some of the list once and for
//!   all. What is no constant becomes `OR x = f(y)`.
//! - `b IS TRUE` and its kin are never NULL, but are planned as an `IS NOT DISTINCT FROM` that says it may be, and what
//!   is above a SELECT DISTINCT of one does not accept that. They become what they are planned as.
//! - `nullif(x, y)` and `CASE x WHEN y` compare the bits of floats, so that 0.0 is not -0.0. They become conditions `x
//!   = y`.
//!
//! Comes after type coercion: both sides of what is made here are of one type.

use std::sync::Arc;

use arrow::datatypes::Field;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Case, InList};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, Union, lit, not};
use datafusion::optimizer::AnalyzerRule;

/// The rule.
#[derive(Debug)]
pub struct Comparisons;

impl AnalyzerRule for Comparisons {
    fn name(&self) -> &str {
        "comparisons"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(in_node)?;
        if !plan.transformed {
            return Ok(plan.data);
        }
        // What may be NULL has changed, also for whoever reads a subquery's columns.
        let plan = plan.data.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Union(union) => Ok(Transformed::yes(LogicalPlan::Union(with_nulls(union)?))),
            node => node.recompute_schema().map(Transformed::yes),
        })?;
        Ok(plan.data)
    }
}

/// The union, of which a column may be NULL where one of an input may: its schema is not recomputed as others are.
fn with_nulls(union: Union) -> Result<Union> {
    let may_be_null = |index: usize| union.inputs.iter().any(|input| input.schema().field(index).is_nullable());
    let fields = union.schema.iter().enumerate().map(|(index, (qualifier, field))| {
        let is_nullable = field.is_nullable() || may_be_null(index);
        (qualifier.cloned(), Arc::new(Field::clone(field).with_nullable(is_nullable)))
    });
    let schema = DFSchema::new_with_metadata(fields.collect(), union.schema.metadata().clone())?;
    Ok(Union { inputs: union.inputs, schema: Arc::new(schema) })
}

fn in_node(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let schema = merge_schema(&node.inputs());
    let names = (!matches!(node, LogicalPlan::Values(_))).then(|| NamePreserver::new(&node));
    let rewritten = |expression: Expr| {
        let name = names.as_ref().map(|names| names.save(&expression));
        let rewritten = expression.transform_up(|part| other_form(part, &schema))?;
        Ok(rewritten.update_data(|expression| match name {
            Some(name) => name.restore(expression),
            None => expression,
        }))
    };
    node.map_expressions(|expression| match expression {
        // The columns are named by what is grouped by.
        Expr::GroupingSet(_) => expression.map_children(rewritten),
        expression => rewritten(expression),
    })
}

fn other_form(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expression {
        Expr::InList(list) if list.list.iter().any(|item| !is_constant(item)) && !list.expr.is_volatile() => {
            Ok(Transformed::yes(one_by_one(list)))
        }
        Expr::IsTrue(value) => Ok(Transformed::yes(is(*value, true, schema))),
        Expr::IsFalse(value) => Ok(Transformed::yes(is(*value, false, schema))),
        Expr::IsNotTrue(value) => Ok(Transformed::yes(is_not(*value, true, schema))),
        Expr::IsNotFalse(value) => Ok(Transformed::yes(is_not(*value, false, schema))),
        Expr::IsUnknown(value) => Ok(Transformed::yes(Expr::IsNull(value))),
        Expr::IsNotUnknown(value) => Ok(Transformed::yes(Expr::IsNotNull(value))),
        Expr::ScalarFunction(function) if function.name() == "nullif" => match function.args.as_slice() {
            [value, other] if are_floats(value, other, schema) && !value.is_volatile() => {
                let null = ScalarValue::try_from(value.get_type(schema)?)?;
                let when_then_expr = vec![(Box::new(value.clone().eq(other.clone())), Box::new(lit(null)))];
                let case = Case { expr: None, when_then_expr, else_expr: Some(Box::new(value.clone())) };
                Ok(Transformed::yes(Expr::Case(case)))
            }
            _ => Ok(Transformed::no(Expr::ScalarFunction(function))),
        },
        Expr::Case(Case { expr: Some(value), when_then_expr, else_expr })
            if when_then_expr.iter().all(|(when, _)| are_floats(&value, when, schema)) && !value.is_volatile() =>
        {
            let compared = |(when, then): (Box<Expr>, Box<Expr>)| (Box::new(value.as_ref().clone().eq(*when)), then);
            let when_then_expr = when_then_expr.into_iter().map(compared).collect();
            Ok(Transformed::yes(Expr::Case(Case { expr: None, when_then_expr, else_expr })))
        }
        expression => Ok(Transformed::no(expression)),
    }
}

/// The constants of a list as one, and a comparison with each of the others.
fn one_by_one(list: InList) -> Expr {
    let InList { expr, list, negated } = list;
    let (constants, others): (Vec<_>, Vec<_>) = list.into_iter().partition(is_constant);
    let (operator, between) = if negated { (Operator::NotEq, Operator::And) } else { (Operator::Eq, Operator::Or) };
    let mut parts = Vec::with_capacity(others.len() + 1);
    if !constants.is_empty() {
        parts.push(Expr::InList(InList { expr: expr.clone(), list: constants, negated }));
    }
    parts.extend(others.into_iter().map(|other| binary(Expr::clone(&expr), operator, other)));
    balanced(&parts, between)
}

/// The parts, of which there is one at least, with an operator between them, no deeper than it has to be.
fn balanced(parts: &[Expr], operator: Operator) -> Expr {
    match parts {
        [part] => part.clone(),
        parts => {
            let (left, right) = parts.split_at(parts.len() / 2);
            binary(balanced(left, operator), operator, balanced(right, operator))
        }
    }
}

fn binary(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr { left: Box::new(left), op, right: Box::new(right) })
}

fn is(value: Expr, truth: bool, schema: &DFSchema) -> Expr {
    match may_be_null(&value, schema) {
        true => binary(value, Operator::IsNotDistinctFrom, lit(truth)),
        false if truth => value,
        false => not(value),
    }
}

fn is_not(value: Expr, truth: bool, schema: &DFSchema) -> Expr {
    match may_be_null(&value, schema) {
        true => binary(value, Operator::IsDistinctFrom, lit(truth)),
        false if truth => not(value),
        false => value,
    }
}

fn may_be_null(value: &Expr, schema: &DFSchema) -> bool {
    value.nullable(schema).unwrap_or(true)
}

/// Whether an expression is the same for all rows, and evaluates without any.
fn is_constant(expression: &Expr) -> bool {
    let varies = |part: &Expr| {
        let subquery =
            matches!(part, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_));
        Ok(subquery || matches!(part, Expr::Column(_) | Expr::OuterReferenceColumn(..) | Expr::Placeholder(_)))
    };
    // The closure never fails.
    !expression.exists(varies).unwrap_or(true) && !expression.is_volatile()
}

fn are_floats(left: &Expr, right: &Expr, schema: &DFSchema) -> bool {
    match (left.get_type(schema), right.get_type(schema)) {
        (Ok(left), Ok(right)) => left == right && left.is_floating(),
        _ => false,
    }
}
