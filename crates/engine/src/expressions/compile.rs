//! From DataFusion's physical expressions to nodes.
//!
//! What is not recognized becomes [`Foreign`], at the smallest sub-tree that DataFusion can evaluate with the same
//! meaning: a node that evaluates all its children anyway takes theirs as inputs, any other is DataFusion's as a whole.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion_common::ScalarValue;
use datafusion_expr::Operator;
use datafusion_physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column as ColumnExpr, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal,
    NegativeExpr, NotExpr, TryCastExpr,
};
use datafusion_physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use diligence_base::Result;
use diligence_storage::foreign_error::from_datafusion;

use super::arithmetic::Arithmetic;
use super::case::Case;
use super::cast::Cast;
use super::compare::{Compare, Comparison, Constant, has_natives};
use super::dates::{DatePart, Part};
use super::foreign::Foreign;
use super::logic::{Connective, Junction};
use super::members::Members;
use super::node::Node;
use super::strings::{Pattern, is_string, owned, text_of};
use super::test::{Predicate, Remembered, Test};

/// The node of an expression over batches of `input`.
pub(super) fn compile(physical: &Arc<dyn PhysicalExpr>, input: &Schema) -> Result<Node> {
    let own = if let Some(column) = physical.downcast_ref::<ColumnExpr>() {
        Some(Node::column(column.index(), &data_type(physical, input)?))
    } else if let Some(literal) = physical.downcast_ref::<Literal>() {
        Some(Node::Literal(literal.value().to_array().map_err(from_datafusion)?))
    } else if let Some(binary) = physical.downcast_ref::<BinaryExpr>() {
        compile_binary(physical, binary, input)?
    } else if let Some(not) = physical.downcast_ref::<NotExpr>() {
        let is_condition = data_type(not.arg(), input)? == DataType::Boolean;
        if is_condition { Some(Node::Not(Box::new(compile(not.arg(), input)?))) } else { None }
    } else if let Some(test) = physical.downcast_ref::<IsNullExpr>() {
        Some(Node::IsNull { input: Box::new(compile(test.arg(), input)?), negated: false })
    } else if let Some(test) = physical.downcast_ref::<IsNotNullExpr>() {
        Some(Node::IsNull { input: Box::new(compile(test.arg(), input)?), negated: true })
    } else if let Some(cast) = physical.downcast_ref::<CastExpr>() {
        let from = data_type(cast.expr(), input)?;
        Some(Node::Cast(Cast::new(compile(cast.expr(), input)?, from, cast.cast_type(), cast.cast_options())))
    } else if let Some(like) = physical.downcast_ref::<LikeExpr>() {
        compile_like(like, input)?
    } else if let Some(list) = physical.downcast_ref::<InListExpr>() {
        compile_list(list, input)?
    } else if let Some(case) = physical.downcast_ref::<CaseExpr>() {
        compile_case(physical, case, input)?
    } else if let Some(function) = physical.downcast_ref::<ScalarFunctionExpr>() {
        compile_function(function, input)?
    } else {
        None
    };
    match own {
        Some(node) => Ok(node),
        None => compile_foreign(physical, input),
    }
}

fn data_type(physical: &Arc<dyn PhysicalExpr>, input: &Schema) -> Result<DataType> {
    physical.data_type(input).map_err(from_datafusion)
}

fn literal(physical: &Arc<dyn PhysicalExpr>) -> Option<&ScalarValue> {
    physical.downcast_ref::<Literal>().map(Literal::value)
}

/// The type of single values: what a dictionary is of, or the type itself.
fn value_type(data_type: DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, value_type) => *value_type,
        other => other,
    }
}

fn compile_foreign(physical: &Arc<dyn PhysicalExpr>, input: &Schema) -> Result<Node> {
    if evaluates_all_children(physical) {
        let compiled = |child: &Arc<dyn PhysicalExpr>| match literal(child) {
            Some(_) => Ok(None),
            None => compile(child, input).map(Some),
        };
        let children = physical.children().into_iter().map(compiled).collect::<Result<Vec<_>>>()?;
        // Without work of our own in between, DataFusion had better do it all in one go.
        let is_ours = |node: &Node| !matches!(node, Node::Column { .. } | Node::Foreign(_));
        if children.iter().flatten().any(is_ours) {
            return Foreign::over_children(physical, children, input).map(Node::Foreign);
        }
    }
    Foreign::over_columns(physical, input).map(Node::Foreign)
}

/// Whether a node evaluates every child for every row, whatever the values are.
fn evaluates_all_children(physical: &Arc<dyn PhysicalExpr>) -> bool {
    if let Some(binary) = physical.downcast_ref::<BinaryExpr>() {
        return !matches!(binary.op(), Operator::And | Operator::Or);
    }
    if let Some(function) = physical.downcast_ref::<ScalarFunctionExpr>() {
        return !function.fun().short_circuits() && !physical.children().is_empty();
    }
    if let Some(list) = physical.downcast_ref::<InListExpr>() {
        return list.list().iter().all(|member| literal(member).is_some());
    }
    physical.is::<LikeExpr>() || physical.is::<NegativeExpr>() || physical.is::<TryCastExpr>()
}

fn compile_binary(physical: &Arc<dyn PhysicalExpr>, binary: &BinaryExpr, input: &Schema) -> Result<Option<Node>> {
    let (left_type, right_type) = (data_type(binary.left(), input)?, data_type(binary.right(), input)?);
    match binary.op() {
        Operator::And | Operator::Or => {
            let connective = if *binary.op() == Operator::And { Connective::And } else { Connective::Or };
            let mut terms = Vec::new();
            for term in terms_of(physical, *binary.op()) {
                if data_type(term, input)? != DataType::Boolean {
                    return Ok(None);
                }
                terms.push(compile(term, input)?);
            }
            Ok(Some(Node::Junction(Junction::new(connective, terms))))
        }
        Operator::Plus | Operator::Minus | Operator::Multiply => {
            let result = data_type(physical, input)?;
            let checked = left_type.is_integer() && fails_on_overflow(binary)?;
            let left = compile(binary.left(), input)?;
            let right = compile(binary.right(), input)?;
            let node = Arithmetic::new(binary.op(), (left, left_type), (right, right_type), &result, checked);
            Ok(node.map(Node::Arithmetic))
        }
        operator => {
            if let Some(comparison) = Comparison::from_operator(operator) {
                if let Some(constant) = literal(binary.right())
                    && let Some(test) = compile_test(binary.left(), comparison, constant, input)?
                {
                    return Ok(Some(test));
                }
                if let Some(constant) = literal(binary.left())
                    && let Some(test) = compile_test(binary.right(), comparison.mirrored(), constant, input)?
                {
                    return Ok(Some(test));
                }
            } else if !matches!(operator, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom) {
                return Ok(None);
            }
            if left_type != right_type || left_type.is_nested() || matches!(left_type, DataType::Dictionary(..)) {
                return Ok(None);
            }
            Ok(Some(Node::Compare(Compare {
                operator: *operator,
                left: Box::new(compile(binary.left(), input)?),
                right: Box::new(compile(binary.right(), input)?),
                data_type: left_type,
            })))
        }
    }
}

/// The operands of a chain of one connective, in order. A chain may be thousands long (a generated OR), so this does
/// not recurse into its left side.
fn terms_of(physical: &Arc<dyn PhysicalExpr>, operator: Operator) -> Vec<&Arc<dyn PhysicalExpr>> {
    let mut terms = Vec::new();
    let mut todo = vec![physical];
    while let Some(next) = todo.pop() {
        match next.downcast_ref::<BinaryExpr>() {
            Some(binary) if *binary.op() == operator => {
                todo.push(binary.right());
                todo.push(binary.left());
            }
            _ => terms.push(next),
        }
    }
    terms
}

/// Whether integer overflow is an error. The flag has no accessor, but it takes part in equality.
fn fails_on_overflow(binary: &BinaryExpr) -> Result<bool> {
    let one: Arc<dyn PhysicalExpr> = Arc::new(Literal::new(ScalarValue::Int32(Some(1))));
    let wrapping: Arc<dyn PhysicalExpr> = Arc::new(BinaryExpr::new(one.clone(), *binary.op(), one.clone()));
    let same: Arc<dyn PhysicalExpr> = Arc::new(binary.clone());
    let same = same.with_new_children(vec![one.clone(), one]).map_err(from_datafusion)?;
    Ok(same != wrapping)
}

fn compile_test(
    physical: &Arc<dyn PhysicalExpr>,
    comparison: Comparison,
    constant: &ScalarValue,
    input: &Schema,
) -> Result<Option<Node>> {
    let value_type = value_type(data_type(physical, input)?);
    let predicate = if is_string(&value_type) && is_string(&self::value_type(constant.data_type())) {
        text_of(constant).map(|text| Predicate::Text(comparison, owned(text)))
    } else if value_type == constant.data_type() {
        Constant::from_scalar(constant).map(|constant| Predicate::Compare(comparison, constant))
    } else {
        None
    };
    let Some(predicate) = predicate else { return Ok(None) };
    Ok(Some(Node::Test(Test {
        input: Box::new(compile(physical, input)?),
        predicate,
        value_type,
        remembered: Remembered::default(),
    })))
}

fn compile_like(like: &LikeExpr, input: &Schema) -> Result<Option<Node>> {
    let value_type = value_type(data_type(like.expr(), input)?);
    let Some(pattern) = literal(like.pattern()).and_then(text_of).filter(|_| is_string(&value_type)) else {
        return Ok(None);
    };
    let predicate = Predicate::Like(Pattern::new(pattern, like.negated(), like.case_insensitive()));
    Ok(Some(Node::Test(Test {
        input: Box::new(compile(like.expr(), input)?),
        predicate,
        value_type,
        remembered: Remembered::default(),
    })))
}

fn compile_list(list: &InListExpr, input: &Schema) -> Result<Option<Node>> {
    let value_type = value_type(data_type(list.expr(), input)?);
    let Some(literals) = list.list().iter().map(literal).collect::<Option<Vec<_>>>() else { return Ok(None) };
    let fits = |literal: &&ScalarValue| {
        literal.is_null()
            || self::value_type(literal.data_type()) == value_type
            || (is_string(&value_type) && text_of(literal).is_some())
    };
    if !(is_string(&value_type) || has_natives(&value_type)) || !literals.iter().all(fits) {
        return Ok(None);
    }
    let Some(members) = Members::new(&literals, list.negated()) else { return Ok(None) };
    let predicate = Predicate::Among(members);
    Ok(Some(Node::Test(Test {
        input: Box::new(compile(list.expr(), input)?),
        predicate,
        value_type,
        remembered: Remembered::default(),
    })))
}

fn compile_function(function: &ScalarFunctionExpr, input: &Schema) -> Result<Option<Node>> {
    match (function.name(), function.args()) {
        ("starts_with", [text, prefix]) => {
            let value_type = value_type(data_type(text, input)?);
            let Some(prefix) = literal(prefix).and_then(text_of).filter(|_| is_string(&value_type)) else {
                return Ok(None);
            };
            let predicate = Predicate::Like(Pattern::starting_with(prefix));
            Ok(Some(Node::Test(Test {
                input: Box::new(compile(text, input)?),
                predicate,
                value_type,
                remembered: Remembered::default(),
            })))
        }
        ("date_part", [part, date]) if data_type(date, input)? == DataType::Date32 => {
            let Some(part) = literal(part).and_then(text_of).and_then(Part::from_name) else { return Ok(None) };
            Ok(Some(Node::DatePart(DatePart { input: Box::new(compile(date, input)?), part })))
        }
        _ => Ok(None),
    }
}

fn compile_case(physical: &Arc<dyn PhysicalExpr>, case: &CaseExpr, input: &Schema) -> Result<Option<Node>> {
    let result_type = data_type(physical, input)?;
    let results = case.when_then_expr().iter().map(|(_, then)| then).chain(case.else_expr());
    for result in results {
        // DataFusion casts what differs; such plans are rare.
        if data_type(result, input)? != result_type {
            return Ok(None);
        }
    }
    let mut arms = Vec::with_capacity(case.when_then_expr().len());
    for (when, then) in case.when_then_expr() {
        let condition = match case.expr() {
            None if data_type(when, input)? == DataType::Boolean => compile(when, input)?,
            None => return Ok(None),
            Some(base) => {
                // Only a column is as good to look at once per arm as once. The zeros of floats differ here, so no
                // floats.
                let is_float = data_type(base, input)?.is_floating();
                let test = match literal(when) {
                    Some(constant) if base.is::<ColumnExpr>() && !is_float => {
                        compile_test(base, Comparison::Equal, constant, input)?
                    }
                    _ => None,
                };
                let Some(test) = test else { return Ok(None) };
                test
            }
        };
        arms.push((condition, compile(then, input)?));
    }
    let otherwise = case.else_expr().map(|otherwise| compile(otherwise, input).map(Box::new)).transpose()?;
    Ok(Some(Node::Case(Case { arms, otherwise, data_type: result_type })))
}
