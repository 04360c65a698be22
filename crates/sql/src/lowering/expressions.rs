//! Expressions of the algebra as physical expressions, which the engine compiles.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion_common::ScalarValue;
use datafusion_common::config::ConfigOptions;
use datafusion_expr::Operator;
use datafusion_expr::ScalarUDF;
use datafusion_expr::physical_planning_context::{ScalarSubqueryResults, SubqueryIndex};
use datafusion_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion_physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column as ColumnExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NegativeExpr,
    NotExpr, in_list,
};
use datafusion_physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion_physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use diligence_base::{Error, Result, wanted};
use diligence_engine::expressions::TryExpr;
use diligence_storage::foreign_error::{from_arrow, from_datafusion};
use diligence_types::SqlType;
use diligence_types::coercion::{CastOptions, is_arrows};
use diligence_types::functions::{Body, ScalarCall, Special};
use diligence_types::values::value_at;

use super::composites::{ArrayOf, CastTo, FieldOf, RecordOf};
use super::parameters;
use crate::algebra::{ColumnId, Comparison, Constant, Relation, Scalar, Subquery, SubqueryKind};
use crate::tried::is_marker;

/// The positions of columns in a plan's rows.
pub(super) type Positions = HashMap<ColumnId, usize>;

/// Where subqueries that give one value are collected while the expressions that read them are lowered.
pub(super) struct SubqueryValues {
    /// What expressions read; a run fills it.
    pub results: ScalarSubqueryResults,
    /// The subqueries so far; their number never exceeds that of the slots.
    pub subqueries: Vec<Subquery>,
    slots: usize,
}

impl SubqueryValues {
    /// Room for so many subqueries.
    pub(super) fn new(slots: usize) -> Self {
        Self { results: ScalarSubqueryResults::new(slots), subqueries: vec![], slots }
    }
}

/// What expressions are lowered with.
#[derive(Clone, Copy)]
pub(super) struct Expressions<'a> {
    /// The session's time zone.
    pub zone: &'a str,
    /// What functions of DataFusion are called with.
    pub options: &'a Arc<ConfigOptions>,
    /// Whether parameters are functions, which values take the place of later.
    pub keeps_parameters: bool,
}

impl Expressions<'_> {
    /// The expression over rows with these columns. Fails with kind `Bug` where a column is not among them.
    pub(super) fn lower(
        &self,
        scalar: &Scalar,
        positions: &Positions,
        schema: &Schema,
        values: &mut SubqueryValues,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        wanted::check()?;
        stacker::maybe_grow(128 * 1024, 2 * 1024 * 1024, || self.expression(scalar, positions, schema, values))
    }

    fn expression(
        &self,
        scalar: &Scalar,
        positions: &Positions,
        schema: &Schema,
        values: &mut SubqueryValues,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let mut lower = |scalar: &Scalar| self.lower(scalar, positions, schema, &mut *values);
        Ok(match scalar {
            Scalar::Column { id, sql_type, .. } => {
                let position = positions.get(id);
                let position =
                    position.ok_or_else(|| Error::bug(format!("the column {id} is not where it is read")))?;
                column_at(*position, sql_type, schema)
            }
            Scalar::Constant(constant) => literal(held(constant)?),
            Scalar::Parameter { index, sql_type } if self.keeps_parameters => {
                parameters::function(*index, sql_type, schema, self.options).map_err(from_datafusion)?
            }
            Scalar::Parameter { index, .. } => {
                return Err(
                    Error::input(format!("there is no value for the parameter ${}", index + 1)).with_code("08P01")
                );
            }
            Scalar::Call { call, arguments } => {
                let arguments = arguments.iter().map(&mut lower).collect::<Result<Vec<_>>>()?;
                self.call(call, arguments, schema)?
            }
            Scalar::Asked { function, arguments, sql_type } => {
                let mut arguments = arguments.iter().map(&mut lower).collect::<Result<Vec<_>>>()?;
                if is_marker(function) {
                    let tried = arguments.pop().ok_or_else(|| Error::bug("TRY of nothing"))?;
                    return Ok(Arc::new(TryExpr::new(tried)));
                }
                self.function(function.as_ref().clone(), arguments, sql_type)
            }
            Scalar::Cast { input, to, is_try, is_explicit } => {
                let from = input.sql_type();
                let input = lower(input)?;
                self.cast(input, &from, to, *is_try, *is_explicit)
            }
            Scalar::Compare { comparison, left, right } => binary(lower(left)?, operator(*comparison), lower(right)?),
            Scalar::And(terms) => chained(terms.iter().map(lower), Operator::And)?,
            Scalar::Or(terms) => chained(terms.iter().map(lower), Operator::Or)?,
            Scalar::Not(inner) => match &**inner {
                Scalar::IsNull(value) => Arc::new(IsNotNullExpr::new(lower(value)?)),
                inner => Arc::new(NotExpr::new(lower(inner)?)),
            },
            Scalar::IsNull(inner) => Arc::new(IsNullExpr::new(lower(inner)?)),
            Scalar::InList { value, list, is_negated } => {
                let value = lower(value)?;
                let list = list.iter().map(lower).collect::<Result<Vec<_>>>()?;
                one_of(value, list, *is_negated, schema)?
            }
            Scalar::Like { value, pattern, escape, is_negated, ignores_case } => {
                let value = lower(value)?;
                let pattern = match *escape {
                    Some('\\') => lower(pattern)?,
                    escape => literal(with_escape(pattern, escape)?),
                };
                Arc::new(LikeExpr::new(*is_negated, *ignores_case, value, pattern))
            }
            Scalar::Case { arms, otherwise, sql_type } => {
                let arms = arms.iter().map(|(when, then)| Ok((lower(when)?, lower(then)?)));
                let arms = arms.collect::<Result<Vec<_>>>()?;
                let otherwise = otherwise.as_deref().map(lower).transpose()?;
                case(arms, otherwise, sql_type)?
            }
            Scalar::Coalesce(inputs) => {
                first_known(inputs.iter().map(lower).collect::<Result<_>>()?, &scalar.sql_type())?
            }
            Scalar::Record { fields, sql_type } => {
                let fields = fields.iter().map(lower).collect::<Result<Vec<_>>>()?;
                self.function(ScalarUDF::from(RecordOf::new(sql_type.clone())), fields, sql_type)
            }
            Scalar::Field { input, index, sql_type } => {
                let record = input.sql_type();
                let input = lower(input)?;
                self.function(ScalarUDF::from(FieldOf::new(record, *index, sql_type.clone())), vec![input], sql_type)
            }
            Scalar::Array { elements, sql_type } => {
                let elements = elements.iter().map(lower).collect::<Result<Vec<_>>>()?;
                self.function(ScalarUDF::from(ArrayOf::new(sql_type.clone())), elements, sql_type)
            }
            Scalar::Subquery(subquery) => value_of(subquery, values)?,
        })
    }

    /// A value in another type.
    pub(super) fn cast(
        &self,
        input: Arc<dyn PhysicalExpr>,
        from: &SqlType,
        to: &SqlType,
        is_try: bool,
        is_explicit: bool,
    ) -> Arc<dyn PhysicalExpr> {
        if from.has_collation() || to.has_collation() {
            let (from, to) = (from.uncollated(), to.uncollated());
            return if from == to { input } else { self.cast(input, &from, &to, is_try, is_explicit) };
        }
        if from.arrow() == to.arrow() && from.is_same(to) && from.without_modifier() == to.clone() {
            return input;
        }
        // All strings are held alike; only those that are padded with blanks change.
        let is_plain = |sql_type: &SqlType| matches!(sql_type, SqlType::Varchar(_) | SqlType::Name | SqlType::Unknown);
        if matches!(to, SqlType::Text | SqlType::Varchar(None)) && (is_plain(from) || *from == SqlType::Text) {
            return input;
        }
        if !is_try && is_arrows(from, to) {
            return Arc::new(CastExpr::new(input, to.arrow(), None));
        }
        let options = CastOptions { zone: self.zone.to_owned(), is_explicit, is_try };
        self.function(ScalarUDF::from(CastTo::new(from.clone(), to.clone(), options)), vec![input], to)
    }

    fn function(
        &self,
        udf: ScalarUDF,
        arguments: Vec<Arc<dyn PhysicalExpr>>,
        returns: &SqlType,
    ) -> Arc<dyn PhysicalExpr> {
        let name = udf.name().to_owned();
        let field = Arc::new(returns.field(&name, true));
        Arc::new(ScalarFunctionExpr::new(&name, Arc::new(udf), arguments, field, self.options.clone()))
    }

    fn call(
        &self,
        call: &ScalarCall,
        mut arguments: Vec<Arc<dyn PhysicalExpr>>,
        schema: &Schema,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        // Also an operator whose result Arrow's kernels do not hold is a function.
        if let Some(udf) = call.udf() {
            let field = Arc::new(call.returns.field(call.overload.name, true));
            let name = udf.name().to_owned();
            return Ok(Arc::new(ScalarFunctionExpr::new(&name, udf, arguments, field, self.options.clone())));
        }
        let Body::Special(special) = call.overload.body else {
            return Err(Error::bug(format!("{} cannot be called", call.overload.name)));
        };
        let right = if arguments.len() > 1 { arguments.pop() } else { None };
        let Some(left) = arguments.pop() else { return Err(Error::bug("an operator without operands")) };
        let operator = match special {
            Special::Add => Operator::Plus,
            Special::Subtract => Operator::Minus,
            Special::Multiply => Operator::Multiply,
            Special::Divide => Operator::Divide,
            Special::Modulo => Operator::Modulo,
            Special::Equal => Operator::Eq,
            Special::NotEqual => Operator::NotEq,
            Special::Less => Operator::Lt,
            Special::LessOrEqual => Operator::LtEq,
            Special::Greater => Operator::Gt,
            Special::GreaterOrEqual => Operator::GtEq,
            Special::Concatenate => Operator::StringConcat,
            Special::Negate => {
                if call.returns.arrow().is_integer() {
                    // The least integer has no opposite: subtraction says so.
                    let zero = ScalarValue::new_zero(&call.returns.arrow()).map_err(from_datafusion)?;
                    return Ok(checked(literal(zero), Operator::Minus, left));
                }
                let given = known_type(&left, call.arguments.first(), schema)?;
                return Ok(shaped(Arc::new(NegativeExpr::new(left)), given, &call.returns));
            }
        };
        let Some(right) = right else { return Err(Error::bug("an operator with one operand")) };
        let left_type = known_type(&left, call.arguments.first(), schema)?;
        let right_type = known_type(&right, call.arguments.get(1), schema)?;
        let coercer = BinaryTypeCoercer::new(&left_type, &operator, &right_type);
        let given = coercer.get_result_type().map_err(from_datafusion)?;
        Ok(match special {
            Special::Add | Special::Subtract | Special::Multiply => {
                shaped(checked(left, operator, right), given, &call.returns)
            }
            _ => shaped(binary(left, operator, right), given, &call.returns),
        })
    }
}

/// A column of the rows. A condition on a table's own rows may meet another Arrow type than the SQL type's.
fn column_at(position: usize, sql_type: &SqlType, schema: &Schema) -> Arc<dyn PhysicalExpr> {
    let field = schema.field(position);
    let column: Arc<dyn PhysicalExpr> = Arc::new(ColumnExpr::new(field.name(), position));
    match is_alike(field.data_type(), &sql_type.arrow()) {
        true => column,
        false => Arc::new(CastExpr::new(column, sql_type.arrow(), None)),
    }
}

/// Whether a value is in a list. What depends on the row is compared for each row: a list that is searched is a set of
/// values that are known.
fn one_of(
    value: Arc<dyn PhysicalExpr>,
    list: Vec<Arc<dyn PhysicalExpr>>,
    is_negated: bool,
    schema: &Schema,
) -> Result<Arc<dyn PhysicalExpr>> {
    if list.iter().all(|item| item.is::<Literal>()) {
        return in_list(value, list, &is_negated, schema).map_err(from_datafusion);
    }
    let equal = list.into_iter().map(|item| Ok(binary(value.clone(), Operator::Eq, item)));
    let found = chained(equal, Operator::Or)?;
    Ok(if is_negated { Arc::new(NotExpr::new(found)) } else { found })
}

/// A constant pattern of LIKE with backslashes in the place of its escapes.
fn with_escape(pattern: &Scalar, escape: Option<char>) -> Result<ScalarValue> {
    match pattern.as_constant().map(|constant| &constant.value) {
        Some(ScalarValue::Utf8View(Some(text))) => Ok(ScalarValue::Utf8View(Some(with_backslashes(text, escape)?))),
        _ => {
            let error = Error::unsupported("LIKE with an ESCAPE and a pattern that is not a constant");
            Err(error.with_hint("write the pattern with backslashes and leave ESCAPE out"))
        }
    }
}

/// COALESCE: the first of several values that is not NULL.
fn first_known(mut values: Vec<Arc<dyn PhysicalExpr>>, sql_type: &SqlType) -> Result<Arc<dyn PhysicalExpr>> {
    let last = values.pop().ok_or_else(|| Error::bug("a COALESCE of nothing"))?;
    if values.is_empty() {
        return Ok(last);
    }
    let is_known = |value: &Arc<dyn PhysicalExpr>| Arc::new(IsNotNullExpr::new(value.clone())) as Arc<dyn PhysicalExpr>;
    let arms = values.into_iter().map(|value| (is_known(&value), value)).collect();
    case(arms, Some(last), sql_type)
}

/// An expression that gives values of an Arrow type, in that of the type that is wanted.
fn shaped(expression: Arc<dyn PhysicalExpr>, given: DataType, returns: &SqlType) -> Arc<dyn PhysicalExpr> {
    let wanted = returns.arrow();
    if given == wanted { expression } else { Arc::new(CastExpr::new(expression, wanted, None)) }
}

/// The Arrow type of an operand. That of an operation is its SQL type's: to ask it would be to ask all that it is made
/// of.
fn known_type(operand: &Arc<dyn PhysicalExpr>, sql_type: Option<&SqlType>, schema: &Schema) -> Result<DataType> {
    match sql_type {
        Some(sql_type) if operand.is::<BinaryExpr>() || operand.is::<NegativeExpr>() => Ok(sql_type.arrow()),
        _ => operand.data_type(schema).map_err(from_datafusion),
    }
}

fn value_of(subquery: &Subquery, values: &mut SubqueryValues) -> Result<Arc<dyn PhysicalExpr>> {
    let (SubqueryKind::Value, [column, ..]) = (&subquery.kind, subquery.columns.as_slice()) else {
        return Err(Error::bug("a subquery was not unnested"));
    };
    let found = values.subqueries.iter().position(|other| other == subquery);
    let index = found.unwrap_or_else(|| {
        values.subqueries.push(subquery.clone());
        values.subqueries.len() - 1
    });
    if index >= values.slots {
        return Err(Error::bug("more subqueries than were counted"));
    }
    let data_type = column.sql_type.arrow();
    Ok(Arc::new(ScalarSubqueryExpr::new(data_type, true, SubqueryIndex::new(index), values.results.clone())))
}

/// How many subqueries the expressions of a relation and all below it have.
pub(super) fn subqueries_in(relation: &Relation) -> usize {
    let mut count = 0;
    for scalar in relation.scalars() {
        scalar.visit(&mut |part| count += usize::from(matches!(part, Scalar::Subquery(_))));
    }
    count + relation.inputs().into_iter().map(subqueries_in).sum::<usize>()
}

/// A constant's value as columns of its type hold it: what is said of an array's elements, such as that they are
/// `varchar`, is not in the value of a literal.
fn held(constant: &Constant) -> Result<ScalarValue> {
    let is_list = match &constant.sql_type {
        SqlType::Array(element) => !matches!(**element, SqlType::Record(_) | SqlType::Map(_)),
        _ => false,
    };
    let wanted = constant.sql_type.arrow();
    match is_list && is_alike(&constant.value.data_type(), &wanted) {
        true => held_as(&constant.value, &wanted),
        false => Ok(constant.value.clone()),
    }
}

/// A value in an Arrow type that holds such values.
pub(super) fn held_as(value: &ScalarValue, wanted: &DataType) -> Result<ScalarValue> {
    if value.data_type() == *wanted {
        return Ok(value.clone());
    }
    let array = value.to_array_of_size(1).map_err(from_datafusion)?;
    let options = arrow::compute::CastOptions { safe: false, ..Default::default() };
    let array = arrow::compute::cast_with_options(&array, wanted, &options).map_err(from_arrow)?;
    value_at(&array, 0).map_err(from_datafusion)
}

pub(super) fn literal(value: ScalarValue) -> Arc<dyn PhysicalExpr> {
    Arc::new(Literal::new(value))
}

fn binary(left: Arc<dyn PhysicalExpr>, operator: Operator, right: Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
    Arc::new(BinaryExpr::new(left, operator, right))
}

fn checked(left: Arc<dyn PhysicalExpr>, operator: Operator, right: Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
    Arc::new(BinaryExpr::new(left, operator, right).with_fail_on_overflow(true))
}

/// Terms joined by AND or OR, as a tree that is as deep as its logarithm.
fn chained(
    terms: impl Iterator<Item = Result<Arc<dyn PhysicalExpr>>>,
    operator: Operator,
) -> Result<Arc<dyn PhysicalExpr>> {
    let mut level = terms.collect::<Result<Vec<_>>>()?;
    while level.len() > 1 {
        let mut next = Vec::with_capacity(level.len().div_ceil(2));
        let mut pairs = level.into_iter();
        while let Some(left) = pairs.next() {
            next.push(match pairs.next() {
                Some(right) => binary(left, operator, right),
                None => left,
            });
        }
        level = next;
    }
    level.pop().ok_or_else(|| Error::bug("a condition of nothing"))
}

fn case(
    arms: Vec<(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)>,
    otherwise: Option<Arc<dyn PhysicalExpr>>,
    sql_type: &SqlType,
) -> Result<Arc<dyn PhysicalExpr>> {
    let otherwise = match otherwise {
        Some(otherwise) => otherwise,
        None => literal(Constant::null(sql_type.clone()).value),
    };
    Ok(Arc::new(CaseExpr::try_new(None, arms, Some(otherwise)).map_err(from_datafusion)?))
}

pub(super) fn operator(comparison: Comparison) -> Operator {
    match comparison {
        Comparison::Equal => Operator::Eq,
        Comparison::NotEqual => Operator::NotEq,
        Comparison::Less => Operator::Lt,
        Comparison::LessOrEqual => Operator::LtEq,
        Comparison::Greater => Operator::Gt,
        Comparison::GreaterOrEqual => Operator::GtEq,
        Comparison::IsDistinctFrom => Operator::IsDistinctFrom,
        Comparison::IsNotDistinctFrom => Operator::IsNotDistinctFrom,
    }
}

/// A LIKE pattern whose escape character is another, written with backslashes. Fails with 22025 if it ends in an
/// escape.
fn with_backslashes(pattern: &str, escape: Option<char>) -> Result<String> {
    let mut written = String::with_capacity(pattern.len());
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        if Some(character) == escape {
            let Some(next) = characters.next() else {
                return Err(Error::input("LIKE pattern must not end with escape character").with_code("22025"));
            };
            written.push('\\');
            written.push(next);
        } else {
            if character == '\\' {
                written.push('\\');
            }
            written.push(character);
        }
    }
    Ok(written)
}

/// Whether two Arrow types hold values alike, the names and nullability of nested fields aside.
pub(super) fn is_alike(left: &DataType, right: &DataType) -> bool {
    left == right || left.equals_datatype(right)
}
