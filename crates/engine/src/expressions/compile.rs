//! From DataFusion's physical expressions to nodes.
//!
//! What is not recognized becomes [`Foreign`], at the smallest sub-tree that DataFusion can evaluate with the same
//! meaning: a node that evaluates all its children anyway takes theirs as inputs, any other is DataFusion's as a whole.
//!
//! Generated expressions have thousands of nodes, so nothing is done twice: a sub-tree that is DataFusion's as a whole
//! is made into a node by the first parent that is ours, types are found once (`facts`), and what is ours is known
//! before children are compiled.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion_common::ScalarValue;
use datafusion_expr::Operator;
use datafusion_physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column as ColumnExpr, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal,
    NegativeExpr, NotExpr, TryCastExpr,
};
use datafusion_physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use diligence_base::{Result, wanted};
use diligence_storage::foreign_error::from_datafusion;

use super::facts::{Fact, Facts};
use super::node::Node;
use super::node::arithmetic::{Arithmetic, ArithmeticWay};
use super::node::case::Case;
use super::node::cast::Cast;
use super::node::compare::{Compare, Comparison, Constant, has_natives};
use super::node::dates::{DatePart, Extract, Part, TimePart};
use super::node::foreign::Foreign;
use super::node::logic::{Connective, Junction};
use super::node::members::Members;
use super::node::strings::{Pattern, is_string, owned, text_of};
use super::node::test::{Predicate, Test};
use super::remembered::Remembered;

/// The node of an expression over batches of `input`, and what is known of its values. Fails if it does not type-check
/// there.
pub(super) fn compile(physical: &Arc<dyn PhysicalExpr>, input: &Schema) -> Result<(Node, Fact)> {
    let compiler = Compiler { input, facts: Facts::new(input) };
    Ok((compiler.node(physical)?, compiler.facts.of(physical)?))
}

/// Compiles the parts of one expression.
struct Compiler<'a> {
    /// Of the batches that it is evaluated on.
    input: &'a Schema,
    facts: Facts<'a>,
}

/// What became of a part.
enum Compiled {
    /// A node, of our own or with children of our own.
    Node(Node),
    /// DataFusion's as a whole.
    Foreign,
}

impl Compiler<'_> {
    fn node(&self, physical: &Arc<dyn PhysicalExpr>) -> Result<Node> {
        match self.part(physical)? {
            Compiled::Node(node) => Ok(node),
            Compiled::Foreign => Foreign::over_columns(physical, self.input).map(Node::Foreign),
        }
    }

    fn part(&self, physical: &Arc<dyn PhysicalExpr>) -> Result<Compiled> {
        wanted::check()?;
        let own = if let Some(column) = physical.downcast_ref::<ColumnExpr>() {
            Some(Node::column(column.index(), &self.data_type(physical)?))
        } else if let Some(literal) = physical.downcast_ref::<Literal>() {
            Some(Node::Literal(literal.value().to_array().map_err(from_datafusion)?))
        } else if let Some(binary) = physical.downcast_ref::<BinaryExpr>() {
            self.binary(physical, binary)?
        } else if let Some(not) = physical.downcast_ref::<NotExpr>() {
            let is_condition = self.data_type(not.arg())? == DataType::Boolean;
            if is_condition { Some(Node::Not(Box::new(self.node(not.arg())?))) } else { None }
        } else if let Some(test) = physical.downcast_ref::<IsNullExpr>() {
            Some(Node::IsNull { input: Box::new(self.node(test.arg())?), negated: false })
        } else if let Some(test) = physical.downcast_ref::<IsNotNullExpr>() {
            Some(Node::IsNull { input: Box::new(self.node(test.arg())?), negated: true })
        } else if let Some(cast) = physical.downcast_ref::<CastExpr>() {
            let from = self.data_type(cast.expr())?;
            Some(Node::Cast(Cast::new(self.node(cast.expr())?, from, cast.cast_type(), cast.cast_options())))
        } else if let Some(like) = physical.downcast_ref::<LikeExpr>() {
            self.like(like)?
        } else if let Some(list) = physical.downcast_ref::<InListExpr>() {
            self.list(list)?
        } else if let Some(case) = physical.downcast_ref::<CaseExpr>() {
            self.case(physical, case)?
        } else if let Some(function) = physical.downcast_ref::<ScalarFunctionExpr>() {
            self.function(physical, function)?
        } else {
            None
        };
        match own {
            Some(node) => Ok(Compiled::Node(node)),
            None => self.foreign(physical),
        }
    }

    fn data_type(&self, physical: &Arc<dyn PhysicalExpr>) -> Result<DataType> {
        if let Some(binary) = physical.downcast_ref::<BinaryExpr>()
            && matches!(binary.op(), Operator::And | Operator::Or)
        {
            return Ok(DataType::Boolean);
        }
        Ok(self.facts.of(physical)?.data_type)
    }

    /// The field of a part's values, without a name.
    fn field(&self, physical: &Arc<dyn PhysicalExpr>) -> Result<Field> {
        let field = Field::new("", self.data_type(physical)?, true);
        Ok(field.with_metadata(self.facts.metadata(physical)?))
    }

    /// What is not ours: over children of ours, or as a whole.
    fn foreign(&self, physical: &Arc<dyn PhysicalExpr>) -> Result<Compiled> {
        if !evaluates_all_children(physical) {
            return Ok(Compiled::Foreign);
        }
        let compiled = |child: &Arc<dyn PhysicalExpr>| match literal(child) {
            Some(_) => Ok(None),
            None => self.part(child).map(Some),
        };
        let children = physical.children().into_iter().map(compiled).collect::<Result<Vec<_>>>()?;
        // Without work of our own in between, DataFusion had better do it all in one go.
        let is_ours = |part: &Compiled| match part {
            Compiled::Node(node) => !matches!(node, Node::Column { .. } | Node::Foreign(_)),
            Compiled::Foreign => false,
        };
        if !children.iter().flatten().any(is_ours) {
            return Ok(Compiled::Foreign);
        }
        let nodes = physical.children().into_iter().zip(children).map(|(child, part)| match part {
            None => Ok(None),
            Some(Compiled::Node(node)) => Ok(Some((node, self.field(child)?))),
            Some(Compiled::Foreign) => {
                let node = Node::Foreign(Foreign::over_columns(child, self.input)?);
                Ok(Some((node, self.field(child)?)))
            }
        });
        let nodes = nodes.collect::<Result<Vec<_>>>()?;
        Foreign::over_children(physical, nodes).map(|node| Compiled::Node(Node::Foreign(node)))
    }

    fn binary(&self, physical: &Arc<dyn PhysicalExpr>, binary: &BinaryExpr) -> Result<Option<Node>> {
        let (left_type, right_type) = (self.data_type(binary.left())?, self.data_type(binary.right())?);
        match binary.op() {
            Operator::And | Operator::Or => {
                let connective = if *binary.op() == Operator::And { Connective::And } else { Connective::Or };
                let mut terms = Vec::new();
                for term in terms_of(physical, *binary.op()) {
                    if self.data_type(term)? != DataType::Boolean {
                        return Ok(None);
                    }
                    terms.push(self.node(term)?);
                }
                Ok(Some(Node::Junction(Junction::new(connective, terms))))
            }
            Operator::Plus | Operator::Minus | Operator::Multiply => {
                let result = self.data_type(physical)?;
                let Some(way) = ArithmeticWay::of(binary.op(), &left_type, &right_type, &result) else {
                    return Ok(None);
                };
                let checked = left_type.is_integer() && fails_on_overflow(binary)?;
                let (left, right) = (self.node(binary.left())?, self.node(binary.right())?);
                Ok(Some(Node::Arithmetic(Arithmetic::new(way, (left, left_type), (right, right_type), checked))))
            }
            operator => {
                if let Some(comparison) = Comparison::from_operator(operator) {
                    if let Some(constant) = literal(binary.right())
                        && let Some(test) = self.test(binary.left(), comparison, constant)?
                    {
                        return Ok(Some(test));
                    }
                    if let Some(constant) = literal(binary.left())
                        && let Some(test) = self.test(binary.right(), comparison.mirrored(), constant)?
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
                    left: Box::new(self.node(binary.left())?),
                    right: Box::new(self.node(binary.right())?),
                    data_type: left_type,
                })))
            }
        }
    }

    fn test(
        &self,
        physical: &Arc<dyn PhysicalExpr>,
        comparison: Comparison,
        constant: &ScalarValue,
    ) -> Result<Option<Node>> {
        let value_type = value_type(self.data_type(physical)?);
        let predicate = if is_string(&value_type) && is_string(&self::value_type(constant.data_type())) {
            text_of(constant).map(|text| Predicate::Text(comparison, owned(text)))
        } else if value_type == constant.data_type() {
            Constant::from_scalar(constant).map(|constant| Predicate::Compare(comparison, constant))
        } else {
            None
        };
        let Some(predicate) = predicate else { return Ok(None) };
        Ok(Some(Node::Test(Test {
            input: Box::new(self.node(physical)?),
            predicate,
            value_type,
            remembered: Remembered::default(),
        })))
    }

    fn like(&self, like: &LikeExpr) -> Result<Option<Node>> {
        let value_type = value_type(self.data_type(like.expr())?);
        let Some(pattern) = literal(like.pattern()).and_then(text_of).filter(|_| is_string(&value_type)) else {
            return Ok(None);
        };
        let predicate = Predicate::Like(Pattern::new(pattern, like.negated(), like.case_insensitive()));
        Ok(Some(Node::Test(Test {
            input: Box::new(self.node(like.expr())?),
            predicate,
            value_type,
            remembered: Remembered::default(),
        })))
    }

    fn list(&self, list: &InListExpr) -> Result<Option<Node>> {
        let value_type = value_type(self.data_type(list.expr())?);
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
            input: Box::new(self.node(list.expr())?),
            predicate,
            value_type,
            remembered: Remembered::default(),
        })))
    }

    fn function(&self, physical: &Arc<dyn PhysicalExpr>, function: &ScalarFunctionExpr) -> Result<Option<Node>> {
        match (function.name(), function.args()) {
            ("starts_with", [text, prefix]) => {
                let value_type = value_type(self.data_type(text)?);
                let Some(prefix) = literal(prefix).and_then(text_of).filter(|_| is_string(&value_type)) else {
                    return Ok(None);
                };
                let predicate = Predicate::Like(Pattern::starting_with(prefix));
                Ok(Some(Node::Test(Test {
                    input: Box::new(self.node(text)?),
                    predicate,
                    value_type,
                    remembered: Remembered::default(),
                })))
            }
            // DataFusion's; PostgreSQL's gives floats.
            ("date_part", [part, date])
                if self.data_type(date)? == DataType::Date32 && *function.return_type() == DataType::Int32 =>
            {
                let Some(part) = literal(part).and_then(text_of).and_then(Part::from_name) else { return Ok(None) };
                Ok(Some(Node::DatePart(DatePart { input: Box::new(self.node(date)?), part })))
            }
            ("extract", [part, date]) => {
                let DataType::Decimal128(precision, 0) = *function.return_type() else { return Ok(None) };
                let name = literal(part).and_then(text_of);
                let part = match self.data_type(date)? {
                    DataType::Date32 => name.and_then(Part::from_name).map(TimePart::Date),
                    DataType::Timestamp(TimeUnit::Microsecond, None) => name.and_then(TimePart::from_name),
                    _ => None,
                };
                let Some(part) = part else { return Ok(None) };
                let beyond = Box::new(Node::Foreign(Foreign::over_columns(physical, self.input)?));
                Ok(Some(Node::Extract(Extract { input: Box::new(self.node(date)?), part, precision, beyond })))
            }
            _ => Ok(None),
        }
    }

    fn case(&self, physical: &Arc<dyn PhysicalExpr>, case: &CaseExpr) -> Result<Option<Node>> {
        let result_type = self.data_type(physical)?;
        let results = case.when_then_expr().iter().map(|(_, then)| then).chain(case.else_expr());
        for result in results {
            // DataFusion casts what differs; such plans are rare.
            if self.data_type(result)? != result_type {
                return Ok(None);
            }
        }
        let mut arms = Vec::with_capacity(case.when_then_expr().len());
        for (when, then) in case.when_then_expr() {
            let condition = match case.expr() {
                None if self.data_type(when)? == DataType::Boolean => self.node(when)?,
                None => return Ok(None),
                Some(base) => {
                    // Only a column is as good to look at once per arm as once. The zeros of floats differ here, so no
                    // floats.
                    let is_float = self.data_type(base)?.is_floating();
                    let test = match literal(when) {
                        Some(constant) if base.is::<ColumnExpr>() && !is_float => {
                            self.test(base, Comparison::Equal, constant)?
                        }
                        _ => None,
                    };
                    let Some(test) = test else { return Ok(None) };
                    test
                }
            };
            arms.push((condition, self.node(then)?));
        }
        let otherwise = case.else_expr().map(|otherwise| self.node(otherwise).map(Box::new)).transpose()?;
        Ok(Some(Node::Case(Case { arms, otherwise, data_type: result_type })))
    }
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
