//! Expressions as bytes: the physical ones, which an [`Expr`] is made of anew.
//!
//! A part that an expression has in several places is written once: later places name it by its number, so that the
//! bytes grow with what there is, not with the ways to it.

use std::sync::Arc;

use arrow::compute::CastOptions;
use arrow::datatypes::{DataType, Schema};
use datafusion_common::ScalarValue;
use datafusion_common::config::ConfigOptions;
use datafusion_common::metadata::FieldMetadata;
use datafusion_expr::Operator;
use datafusion_expr::physical_planning_context::{ScalarSubqueryResults, SubqueryIndex};
use datafusion_physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column as ColumnExpr, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal,
    NegativeExpr, NotExpr, TryCastExpr,
};
use datafusion_physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion_physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_datafusion;

use super::form::damaged;
use super::{DEPTH_MAX, PlanReader, PlanWriter, STACK_GROWTH, STACK_RED_ZONE};
use crate::expressions::{Expr, TryExpr};

type Physical = Arc<dyn PhysicalExpr>;

/// Operators by their numbers.
const OPERATORS: [Operator; 39] = [
    Operator::Eq,
    Operator::NotEq,
    Operator::Lt,
    Operator::LtEq,
    Operator::Gt,
    Operator::GtEq,
    Operator::Plus,
    Operator::Minus,
    Operator::Multiply,
    Operator::Divide,
    Operator::Modulo,
    Operator::And,
    Operator::Or,
    Operator::IsDistinctFrom,
    Operator::IsNotDistinctFrom,
    Operator::RegexMatch,
    Operator::RegexIMatch,
    Operator::RegexNotMatch,
    Operator::RegexNotIMatch,
    Operator::LikeMatch,
    Operator::ILikeMatch,
    Operator::NotLikeMatch,
    Operator::NotILikeMatch,
    Operator::BitwiseAnd,
    Operator::BitwiseOr,
    Operator::BitwiseXor,
    Operator::BitwiseShiftRight,
    Operator::BitwiseShiftLeft,
    Operator::StringConcat,
    Operator::AtArrow,
    Operator::ArrowAt,
    Operator::Arrow,
    Operator::LongArrow,
    Operator::HashArrow,
    Operator::HashLongArrow,
    Operator::AtAt,
    Operator::IntegerDivide,
    Operator::HashMinus,
    Operator::AtQuestion,
];

/// The numbers of kinds of expressions.
mod kinds {
    pub const KNOWN: u8 = 0;
    pub const COLUMN: u8 = 1;
    pub const LITERAL: u8 = 2;
    pub const BINARY: u8 = 3;
    pub const CASE: u8 = 4;
    pub const CAST: u8 = 5;
    pub const TRY_CAST: u8 = 6;
    pub const IN_LIST: u8 = 7;
    pub const IS_NULL: u8 = 8;
    pub const IS_NOT_NULL: u8 = 9;
    pub const LIKE: u8 = 10;
    pub const NEGATIVE: u8 = 11;
    pub const NOT: u8 = 12;
    pub const FUNCTION: u8 = 13;
    pub const SUBQUERY: u8 = 14;
    pub const TRY: u8 = 15;
}

impl PlanWriter<'_> {
    pub(super) fn expressions<'e>(
        &mut self,
        all: impl IntoIterator<Item = &'e Expr, IntoIter: ExactSizeIterator>,
    ) -> Result<()> {
        let mut all = all.into_iter();
        self.output.count(all.len());
        all.try_for_each(|expression| self.expression(expression))
    }

    pub(super) fn expression(&mut self, expression: &Expr) -> Result<()> {
        self.physical(expression.physical())
    }

    pub(super) fn maybe(&mut self, expression: Option<&Expr>) -> Result<()> {
        self.output.flag(expression.is_some());
        expression.map_or(Ok(()), |expression| self.expression(expression))
    }

    pub(super) fn physical(&mut self, node: &Physical) -> Result<()> {
        stacker::maybe_grow(STACK_RED_ZONE, STACK_GROWTH, || self.kind(node))
    }

    fn several<'e>(&mut self, all: impl IntoIterator<Item = &'e Physical, IntoIter: ExactSizeIterator>) -> Result<()> {
        let mut all = all.into_iter();
        self.output.count(all.len());
        all.try_for_each(|node| self.physical(node))
    }

    fn kind(&mut self, node: &Physical) -> Result<()> {
        if let Some(column) = node.downcast_ref::<ColumnExpr>() {
            self.output.byte(kinds::COLUMN);
            self.output.text(column.name());
            self.output.count(column.index());
            return Ok(());
        }
        // The plan holds all its parts while it is written, so none has the address of another.
        let address = Arc::as_ptr(node).cast::<()>();
        if let Some(number) = self.known.get(&address) {
            let number = *number;
            self.output.byte(kinds::KNOWN);
            self.output.count(number);
            return Ok(());
        }
        if let Some(literal) = node.downcast_ref::<Literal>() {
            self.output.byte(kinds::LITERAL);
            let field = literal.return_field(&Schema::empty()).map_err(from_datafusion)?;
            self.output.metadata(field.metadata());
            self.output.value(literal.value())?;
        } else if let Some(binary) = node.downcast_ref::<BinaryExpr>() {
            self.output.byte(kinds::BINARY);
            self.output.one_of(&OPERATORS, binary.op())?;
            self.output.flag(fails_on_overflow(binary)?);
            self.several([binary.left(), binary.right()])?;
        } else if let Some(case) = node.downcast_ref::<CaseExpr>() {
            self.output.byte(kinds::CASE);
            self.several(case.expr().as_slice().iter().copied())?;
            self.several(case.else_expr().as_slice().iter().copied())?;
            let arms = case.when_then_expr();
            self.output.count(arms.len());
            for (when, then) in arms {
                self.physical(when)?;
                self.physical(then)?;
            }
        } else if let Some(cast) = node.downcast_ref::<CastExpr>() {
            self.output.byte(kinds::CAST);
            let options = cast.cast_options();
            if *options != cast_options(options.safe) {
                return Err(Error::unsupported("a cast with formats of its own cannot be written as bytes"));
            }
            self.output.flag(options.safe);
            self.output.flag(cast.has_explicit_metadata() || cast.has_explicit_nullability());
            self.output.field(cast.target_field())?;
            self.physical(cast.expr())?;
        } else if let Some(cast) = node.downcast_ref::<TryCastExpr>() {
            self.output.byte(kinds::TRY_CAST);
            self.output.data_type(cast.cast_type())?;
            self.physical(cast.expr())?;
        } else if let Some(list) = node.downcast_ref::<InListExpr>() {
            self.output.byte(kinds::IN_LIST);
            self.output.flag(list.negated());
            self.physical(list.expr())?;
            self.several(list.list())?;
        } else if let Some(test) = node.downcast_ref::<IsNullExpr>() {
            self.output.byte(kinds::IS_NULL);
            self.physical(test.arg())?;
        } else if let Some(test) = node.downcast_ref::<IsNotNullExpr>() {
            self.output.byte(kinds::IS_NOT_NULL);
            self.physical(test.arg())?;
        } else if let Some(like) = node.downcast_ref::<LikeExpr>() {
            self.output.byte(kinds::LIKE);
            self.output.flag(like.negated());
            self.output.flag(like.case_insensitive());
            self.several([like.expr(), like.pattern()])?;
        } else if let Some(negative) = node.downcast_ref::<NegativeExpr>() {
            self.output.byte(kinds::NEGATIVE);
            self.physical(negative.arg())?;
        } else if let Some(not) = node.downcast_ref::<NotExpr>() {
            self.output.byte(kinds::NOT);
            self.physical(not.arg())?;
        } else if let Some(call) = node.downcast_ref::<ScalarFunctionExpr>() {
            self.call(call)?;
        } else if let Some(tried) = node.downcast_ref::<TryExpr>() {
            self.output.byte(kinds::TRY);
            self.physical(tried.tried())?;
        } else if let Some(value) = node.downcast_ref::<ScalarSubqueryExpr>() {
            self.subquery_value(value)?;
        } else {
            return Err(Error::unsupported(format!("the expression {node} cannot be written as bytes")));
        }
        self.known.insert(address, self.known.len());
        Ok(())
    }

    fn call(&mut self, call: &ScalarFunctionExpr) -> Result<()> {
        self.output.byte(kinds::FUNCTION);
        self.output.text(call.name());
        let field = call.return_field(&Schema::empty()).map_err(from_datafusion)?;
        self.output.field(&field)?;
        self.configuration(call.config_options())?;
        let name = self.functions.name_of(call.fun())?;
        self.function_name(&name)?;
        if self.functions.is_live(&name) {
            self.beside.functions.entry(name).or_insert_with(|| Arc::new(call.fun().clone()));
        }
        self.several(call.args())
    }

    fn subquery_value(&mut self, value: &ScalarSubqueryExpr) -> Result<()> {
        let place = self.subqueries.iter().rposition(|known| ScalarSubqueryResults::ptr_eq(known, value.results()));
        let place = place.ok_or_else(|| Error::bug("an expression reads a subquery's value outside of its node"))?;
        let field = value.return_field(&Schema::empty()).map_err(from_datafusion)?;
        #[allow(deprecated, reason = "nothing else tells the slot")]
        let index = value.index();
        self.output.byte(kinds::SUBQUERY);
        self.output.count(place);
        self.output.count(index.as_usize());
        self.output.flag(field.is_nullable());
        self.output.data_type(field.data_type())
    }

    /// What functions are called with: what differs from what they are without any setting.
    fn configuration(&mut self, options: &ConfigOptions) -> Result<()> {
        let address = std::ptr::from_ref(options);
        if let Some(place) = self.configurations.iter().position(|known| *known == address) {
            self.output.count(place);
            return Ok(());
        }
        self.output.count(self.configurations.len());
        self.configurations.push(address);
        let plain = ConfigOptions::default().entries();
        let own = options.entries();
        let differs = own.into_iter().zip(plain).filter(|(own, plain)| own.value != plain.value);
        let differs = differs.map(|(own, _)| (own.key, own.value)).collect::<Vec<_>>();
        self.output.count(differs.len());
        for (key, value) in differs {
            let value = value.ok_or_else(|| Error::unsupported(format!("{key} without a value cannot be written")))?;
            self.output.text(&key);
            self.output.text(&value);
        }
        Ok(())
    }
}

impl PlanReader<'_> {
    pub(super) fn expressions(&mut self, schema: &Schema) -> Result<Vec<Expr>> {
        let count = self.input.count()?;
        (0..count).map(|_| self.expression(schema)).collect()
    }

    pub(super) fn expression(&mut self, schema: &Schema) -> Result<Expr> {
        Expr::new(self.physical(schema)?, schema)
    }

    pub(super) fn maybe(&mut self, schema: &Schema) -> Result<Option<Expr>> {
        Ok(if self.input.flag()? { Some(self.expression(schema)?) } else { None })
    }

    pub(super) fn physical(&mut self, schema: &Schema) -> Result<Physical> {
        if self.depth > DEPTH_MAX {
            return Err(damaged("an expression has too many parts within each other"));
        }
        self.depth += 1;
        let read = stacker::maybe_grow(STACK_RED_ZONE, STACK_GROWTH, || self.kind(schema));
        self.depth -= 1;
        read
    }

    fn several(&mut self, schema: &Schema) -> Result<Vec<Physical>> {
        let count = self.input.count()?;
        (0..count).map(|_| self.physical(schema)).collect()
    }

    fn pair(&mut self, schema: &Schema) -> Result<[Physical; 2]> {
        <[Physical; 2]>::try_from(self.several(schema)?).map_err(|_| damaged("two operands are expected"))
    }

    fn one_or_none(&mut self, schema: &Schema) -> Result<Option<Physical>> {
        let mut several = self.several(schema)?;
        match several.len() {
            0 | 1 => Ok(several.pop()),
            _ => Err(damaged("one operand is expected")),
        }
    }

    fn kind(&mut self, schema: &Schema) -> Result<Physical> {
        let node: Physical = match self.input.byte()? {
            kinds::COLUMN => {
                let (name, index) = (self.input.text()?, self.input.size()?);
                if index >= schema.fields().len() {
                    return Err(damaged(format_args!("there is no column {index}")));
                }
                return Ok(Arc::new(ColumnExpr::new(&name, index)));
            }
            kinds::KNOWN => {
                let number = self.input.size()?;
                return self.known.get(number).cloned().ok_or_else(|| damaged("an expression is not known"));
            }
            kinds::LITERAL => {
                let metadata = self.input.metadata()?;
                let metadata = (!metadata.is_empty()).then(|| FieldMetadata::from(&metadata));
                Arc::new(Literal::new_with_metadata(self.input.value()?, metadata))
            }
            kinds::BINARY => {
                let operator = self.input.one_of(&OPERATORS, "operator")?;
                let fails = self.input.flag()?;
                let [left, right] = self.pair(schema)?;
                Arc::new(BinaryExpr::new(left, operator, right).with_fail_on_overflow(fails))
            }
            kinds::CASE => {
                let (of, otherwise) = (self.one_or_none(schema)?, self.one_or_none(schema)?);
                let count = self.input.count()?;
                let arms = (0..count).map(|_| Ok((self.physical(schema)?, self.physical(schema)?)));
                let arms = arms.collect::<Result<Vec<_>>>()?;
                Arc::new(CaseExpr::try_new(of, arms, otherwise).map_err(from_datafusion)?)
            }
            kinds::CAST => {
                let (safe, is_explicit) = (self.input.flag()?, self.input.flag()?);
                let field = Arc::new(self.input.field()?);
                let (of, options) = (self.physical(schema)?, Some(cast_options(safe)));
                Arc::new(match is_explicit {
                    true => CastExpr::new_with_target_field(of, field, options),
                    false => CastExpr::new(of, field.data_type().clone(), options),
                })
            }
            kinds::TRY_CAST => {
                let to = self.input.data_type()?;
                Arc::new(TryCastExpr::new(self.physical(schema)?, to))
            }
            kinds::IN_LIST => {
                let negated = self.input.flag()?;
                let of = self.physical(schema)?;
                let list = self.several(schema)?;
                Arc::new(InListExpr::try_new(of, list, negated, schema).map_err(from_datafusion)?)
            }
            kinds::IS_NULL => Arc::new(IsNullExpr::new(self.physical(schema)?)),
            kinds::IS_NOT_NULL => Arc::new(IsNotNullExpr::new(self.physical(schema)?)),
            kinds::LIKE => {
                let (negated, ignores_case) = (self.input.flag()?, self.input.flag()?);
                let [of, pattern] = self.pair(schema)?;
                Arc::new(LikeExpr::new(negated, ignores_case, of, pattern))
            }
            kinds::NEGATIVE => Arc::new(NegativeExpr::new(self.physical(schema)?)),
            kinds::NOT => Arc::new(NotExpr::new(self.physical(schema)?)),
            kinds::TRY => Arc::new(TryExpr::new(self.physical(schema)?)),
            kinds::FUNCTION => {
                let name = self.input.text()?;
                let field = Arc::new(self.input.field()?);
                let options = self.configuration()?;
                let function = self.function_name()?;
                let live = if self.functions.is_live(&function) { self.live.function(&function) } else { None };
                let function = live.map_or_else(|| self.functions.named(&function), Ok)?;
                let arguments = self.several(schema)?;
                Arc::new(ScalarFunctionExpr::new(&name, function, arguments, field, options))
            }
            kinds::SUBQUERY => {
                let (place, index) = (self.input.size()?, self.input.size()?);
                let nullable = self.input.flag()?;
                let data_type = self.input.data_type()?;
                let (results, slots) =
                    self.subqueries.get(place).ok_or_else(|| damaged("there is no such subquery"))?;
                if index >= *slots {
                    return Err(damaged("there is no such subquery"));
                }
                Arc::new(ScalarSubqueryExpr::new(data_type, nullable, SubqueryIndex::new(index), results.clone()))
            }
            other => return Err(damaged(format_args!("there is no expression of number {other}"))),
        };
        self.known.push(node.clone());
        Ok(node)
    }

    fn configuration(&mut self) -> Result<Arc<ConfigOptions>> {
        let place = self.input.size()?;
        if let Some(known) = self.configurations.get(place) {
            return Ok(known.clone());
        }
        if place > self.configurations.len() {
            return Err(damaged("a configuration is not known"));
        }
        let mut options = ConfigOptions::default();
        for (key, value) in self.input.all(|input| Ok((input.text()?, input.text()?)))? {
            options.set(&key, &value).map_err(from_datafusion)?;
        }
        let options = Arc::new(options);
        self.configurations.push(options.clone());
        Ok(options)
    }
}

fn cast_options(safe: bool) -> CastOptions<'static> {
    let plain: Physical = Arc::new(Literal::new(ScalarValue::Null));
    let plain = CastExpr::new(plain, DataType::Null, None);
    CastOptions { safe, ..plain.cast_options().clone() }
}

/// Whether an integer that leaves its type is an error: two operations are equal only if both say so, and those of
/// constants are compared quickly.
fn fails_on_overflow(binary: &BinaryExpr) -> Result<bool> {
    let constant = || -> Physical { Arc::new(Literal::new(ScalarValue::Null)) };
    let whole: Physical = Arc::new(binary.clone());
    let small = whole.with_new_children(vec![constant(), constant()]).map_err(from_datafusion)?;
    let failing = BinaryExpr::new(constant(), *binary.op(), constant()).with_fail_on_overflow(true);
    Ok(small.downcast_ref::<BinaryExpr>().is_some_and(|small| *small == failing))
}
