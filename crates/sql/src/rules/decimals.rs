//! Decimals beside a DOUBLE or a REAL become DOUBLE.
//!
//! DataFusion compares and unites a decimal and a float as `DECIMAL(30, 15)`: it would cast the float, lose digits, and
//! fail on a large value or a NaN. A decimal literal beside a DOUBLE column means a DOUBLE, and so does a column of
//! decimals. Only beside a constant float a column stays what it is, so that statistics and keys serve.
//!
//! Comes before type coercion, which adds those casts.

use arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, DecimalType};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator, cast};

/// The plan with its decimals as said above.
pub(super) fn beside_doubles(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    plan.transform_up_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        let has = |kind: fn(&DataType) -> bool| schema.fields().iter().any(|field| kind(field.data_type()));
        let may_meet = has(DataType::is_decimal) && has(DataType::is_floating);
        if !may_meet && !has_decimals(&node)? {
            return Ok(Transformed::no(node));
        }
        let named = !matches!(node, LogicalPlan::Values(_));
        let names = NamePreserver::new(&node);
        node.map_expressions(|expression| {
            let name = named.then(|| names.save(&expression));
            let changed = expression.transform_up(|expression| beside(expression, &schema))?;
            Ok(changed.update_data(|expression| match name {
                Some(name) => name.restore(expression),
                None => expression,
            }))
        })
    })
}

/// Whether a node's own expressions have a decimal literal.
fn has_decimals(node: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    node.apply_expressions(|expression| {
        found |=
            expression.exists(|part| Ok(matches!(part, Expr::Literal(value, _) if value.data_type().is_decimal())))?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// The expression with those of its decimals as DOUBLE that meet a DOUBLE or a REAL in it.
fn beside(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if let Expr::Cast(cast) = &expression
        && matches!(cast.field.data_type(), DataType::Float32 | DataType::Float64)
        && let Expr::Literal(value, _) = cast.expr.as_ref()
        && let Some(double) = double(value)
    {
        // From its text: through the digits of a decimal the last bit may differ.
        return Ok(Transformed::yes(Expr::Literal(double.cast_to(cast.field.data_type())?, None)));
    }
    let meeting = meeting(&expression);
    // What arithmetic gives has a type that does not depend on this rule.
    let is_arithmetic = matches!(&expression, Expr::BinaryExpr(binary) if binary.op.is_numerical_operators());
    let float_varies =
        !is_arithmetic && meeting.iter().any(|part| !is_constant(part) && is_of(part, schema, DataType::is_floating));
    let decimal = |part: &&Expr| (is_constant(part) || float_varies) && is_of(part, schema, DataType::is_decimal);
    if !meeting.iter().any(decimal) || !meeting.iter().any(|part| is_of(part, schema, DataType::is_floating)) {
        return Ok(Transformed::no(expression));
    }
    let values = meeting.iter().filter(|part| decimal(part)).map(|part| Expr::clone(part)).collect::<Vec<_>>();
    expression.map_children(|child| {
        if !values.contains(&child) {
            return Ok(Transformed::no(child));
        }
        Ok(Transformed::yes(match &child {
            Expr::Literal(value, _) => match double(value) {
                Some(double) => Expr::Literal(double, None),
                None => cast(child, DataType::Float64),
            },
            _ => cast(child, DataType::Float64),
        }))
    })
}

/// The parts of an expression that are brought to one type.
fn meeting(expression: &Expr) -> Vec<&Expr> {
    match expression {
        Expr::BinaryExpr(binary) if meets(binary.op) => vec![&binary.left, &binary.right],
        Expr::Between(between) => vec![&between.expr, &between.low, &between.high],
        Expr::InList(list) => std::iter::once(list.expr.as_ref()).chain(&list.list).collect(),
        Expr::ScalarFunction(function) => function.args.iter().collect(),
        Expr::AggregateFunction(function) => function.params.args.iter().collect(),
        Expr::WindowFunction(function) => function.params.args.iter().collect(),
        Expr::Case(case) => {
            let results = case.when_then_expr.iter().map(|(_, then)| then.as_ref()).chain(case.else_expr.as_deref());
            let tests = case.when_then_expr.iter().map(|(when, _)| when.as_ref());
            match &case.expr {
                Some(value) => results.chain(tests).chain(std::iter::once(value.as_ref())).collect(),
                None => results.collect(),
            }
        }
        _ => Vec::new(),
    }
}

fn meets(operator: Operator) -> bool {
    operator.supports_propagation() || operator.is_numerical_operators()
}

fn is_of(expression: &Expr, schema: &DFSchema, kind: impl Fn(&DataType) -> bool) -> bool {
    // What has no type, or none yet, is not ours.
    expression.get_type(schema).is_ok_and(|data_type| kind(&data_type))
}

/// Literals, and arithmetic of literals.
fn is_constant(expression: &Expr) -> bool {
    match expression {
        Expr::Literal(..) => true,
        Expr::Negative(inner) => is_constant(inner),
        Expr::BinaryExpr(binary) => is_constant(&binary.left) && is_constant(&binary.right),
        _ => false,
    }
}

fn double(value: &ScalarValue) -> Option<ScalarValue> {
    let text = match value {
        ScalarValue::Decimal128(Some(digits), precision, scale) => {
            Decimal128Type::format_decimal(*digits, *precision, *scale)
        }
        ScalarValue::Decimal256(Some(digits), precision, scale) => {
            Decimal256Type::format_decimal(*digits, *precision, *scale)
        }
        _ => return None,
    };
    text.parse().ok().map(|value| ScalarValue::Float64(Some(value)))
}
