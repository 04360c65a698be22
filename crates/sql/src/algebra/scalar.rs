//! Expressions over columns.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use datafusion_expr::{ScalarUDF, Volatility};
use diligence_base::{Error, Result};
use diligence_types::SqlType;
use diligence_types::functions::{Body, ScalarCall, Special, Stability};

use super::{Column, ColumnId, Relation};

/// A value that is known when a statement is planned. The Arrow value has the type's Arrow type, NULLs too.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Constant {
    /// The value.
    pub value: ScalarValue,
    /// What it means.
    pub sql_type: SqlType,
}

/// The first value of an array. Of a list's elements it says all that the array does, such as that they are `uuid`;
/// [`ScalarValue::try_from_array`] keeps no more than their name. Fails if the array is empty.
pub(crate) fn first_value(array: &ArrayRef) -> datafusion_common::error::Result<ScalarValue> {
    match array.data_type() {
        DataType::List(item) if !array.is_empty() && array.is_valid(0) => {
            let elements = array.as_list::<i32>().value(0);
            let offsets = OffsetBuffer::from_lengths([elements.len()]);
            Ok(ScalarValue::List(Arc::new(ListArray::try_new(item.clone(), offsets, elements, None)?)))
        }
        _ => ScalarValue::try_from_array(array, 0),
    }
}

impl Constant {
    /// NULL of a type.
    pub(crate) fn null(sql_type: SqlType) -> Self {
        // Every type of ours has a NULL in Arrow.
        let value = ScalarValue::try_new_null(&sql_type.arrow()).unwrap_or(ScalarValue::Null);
        Self { value, sql_type }
    }

    /// A truth value.
    pub(crate) fn boolean(value: bool) -> Self {
        Self { value: ScalarValue::Boolean(Some(value)), sql_type: SqlType::Boolean }
    }

    /// An `integer`.
    pub(crate) fn integer(value: i32) -> Self {
        Self { value: ScalarValue::Int32(Some(value)), sql_type: SqlType::Integer }
    }

    /// A `bigint`.
    pub(crate) fn bigint(value: i64) -> Self {
        Self { value: ScalarValue::Int64(Some(value)), sql_type: SqlType::BigInt }
    }

    /// A `text`.
    pub(crate) fn text(value: impl Into<String>) -> Self {
        Self { value: ScalarValue::Utf8View(Some(value.into())), sql_type: SqlType::Text }
    }

    /// Whether it is NULL.
    pub(crate) fn is_null(&self) -> bool {
        self.value.is_null()
    }

    /// The value as a distance of a frame, in rows or, with RANGE, in the order's values. Fails with 22004 for NULL,
    /// 22013 for a negative one.
    pub(crate) fn distance(&self, is_range: bool, is_start: bool) -> Result<ScalarValue> {
        let offset = if is_start { "frame starting offset" } else { "frame ending offset" };
        if self.is_null() {
            return Err(Error::input(format!("{offset} must not be null")).with_code("22004"));
        }
        let is_negative = match &self.value {
            ScalarValue::IntervalMonthDayNano(Some(interval)) => {
                // As PostgreSQL compares intervals: a month is 30 days, a day 24 hours.
                let days = i128::from(interval.months) * 30 + i128::from(interval.days);
                days * 86_400_000_000_000 + i128::from(interval.nanoseconds) < 0
            }
            ScalarValue::Float64(Some(value)) if value.is_nan() => true,
            other => ScalarValue::new_zero(&other.data_type())
                .is_ok_and(|zero| other.partial_cmp(&zero) == Some(std::cmp::Ordering::Less)),
        };
        match (is_negative, is_range, &self.value) {
            (true, true, _) => {
                Err(Error::input("invalid preceding or following size in window function").with_code("22013"))
            }
            (true, false, _) => Err(Error::input(format!("{offset} must not be negative")).with_code("22013")),
            (false, false, ScalarValue::Int64(Some(rows))) => Ok(ScalarValue::UInt64(u64::try_from(*rows).ok())),
            (false, false, other) => Err(Error::bug(format!("a number of rows is {other}"))),
            (false, true, other) => Ok(other.clone()),
        }
    }

    /// The truth value, if it is one and not NULL.
    pub(crate) fn as_bool(&self) -> Option<bool> {
        match self.value {
            ScalarValue::Boolean(value) => value,
            _ => None,
        }
    }
}

/// How two values of one type are compared. The result is NULL if either is; of `IS [NOT] DISTINCT FROM` never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    IsDistinctFrom,
    IsNotDistinctFrom,
}

impl Comparison {
    /// The comparison that is true exactly where this one is false.
    pub(crate) fn negated(self) -> Self {
        match self {
            Self::Equal => Self::NotEqual,
            Self::NotEqual => Self::Equal,
            Self::Less => Self::GreaterOrEqual,
            Self::LessOrEqual => Self::Greater,
            Self::Greater => Self::LessOrEqual,
            Self::GreaterOrEqual => Self::Less,
            Self::IsDistinctFrom => Self::IsNotDistinctFrom,
            Self::IsNotDistinctFrom => Self::IsDistinctFrom,
        }
    }

    /// Whether it asks only whether values are equal.
    pub(crate) fn is_of_equality(self) -> bool {
        matches!(self, Self::Equal | Self::NotEqual | Self::IsDistinctFrom | Self::IsNotDistinctFrom)
    }

    /// The comparison with its sides exchanged.
    pub(crate) fn swapped(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
            other => other,
        }
    }

    /// Its sign.
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "<>",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::IsDistinctFrom => "IS DISTINCT FROM",
            Self::IsNotDistinctFrom => "IS NOT DISTINCT FROM",
        }
    }
}

/// A typed expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scalar {
    /// A column.
    Column {
        /// Its number.
        id: ColumnId,
        /// Its type.
        sql_type: SqlType,
        /// Whether a value may be NULL.
        nullable: bool,
    },
    /// A value known now.
    Constant(Constant),
    /// `$1`, `$2`, …, counted from 0: a value known when the plan is run.
    Parameter {
        /// Which one, from 0 on.
        index: usize,
        /// Its type; [`SqlType::Unknown`] until the context decides.
        sql_type: SqlType,
    },
    /// A function's or an operator's value.
    Call {
        /// What is called.
        call: ScalarCall,
        /// The arguments, cast already.
        arguments: Vec<Scalar>,
    },
    /// The same value in another type. `types::coercion` says what each pair of types means.
    Cast {
        /// The value.
        input: Box<Scalar>,
        /// The type that it becomes.
        to: SqlType,
        /// Whether a value that does not fit becomes NULL instead of an error (TRY_CAST).
        is_try: bool,
        /// Whether the statement says the cast: an explicit one cuts texts that are too long for a varchar.
        is_explicit: bool,
    },
    /// A comparison of two expressions of one type.
    Compare {
        /// How.
        comparison: Comparison,
        /// The left side.
        left: Box<Scalar>,
        /// The right side.
        right: Box<Scalar>,
    },
    /// True if all are, false if any is false, else NULL. Never fewer than two.
    And(Vec<Scalar>),
    /// False if all are, true if any is true, else NULL. Never fewer than two.
    Or(Vec<Scalar>),
    /// NOT.
    Not(Box<Scalar>),
    /// IS NULL.
    IsNull(Box<Scalar>),
    /// `value IN (a, b, …)` with elements of the value's type; NULL if no element is equal and the value or an element
    /// is NULL.
    InList {
        /// What is looked for.
        value: Box<Scalar>,
        /// Where.
        list: Vec<Scalar>,
        /// NOT IN.
        is_negated: bool,
    },
    /// LIKE and ILIKE of texts, with the escape character (backslash where the statement says none).
    Like {
        /// The text.
        value: Box<Scalar>,
        /// The pattern.
        pattern: Box<Scalar>,
        /// The character that makes the next one stand for itself; `None` for `ESCAPE ''`.
        escape: Option<char>,
        /// NOT LIKE.
        is_negated: bool,
        /// ILIKE.
        ignores_case: bool,
    },
    /// CASE: the value of the first arm whose condition is true.
    Case {
        /// Conditions and values.
        arms: Vec<(Scalar, Scalar)>,
        /// The value where none is true; NULL if absent.
        otherwise: Option<Box<Scalar>>,
        /// The type of all values.
        sql_type: SqlType,
    },
    /// COALESCE of expressions of one type.
    Coalesce(Vec<Scalar>),
    /// A row of values.
    Record {
        /// The fields' values.
        fields: Vec<Scalar>,
        /// The record's type.
        sql_type: SqlType,
    },
    /// A field of a record.
    Field {
        /// The record.
        input: Box<Scalar>,
        /// The field's position.
        index: usize,
        /// The field's type.
        sql_type: SqlType,
    },
    /// ARRAY[…] of elements of one type.
    Array {
        /// The elements.
        elements: Vec<Scalar>,
        /// The array's type.
        sql_type: SqlType,
    },
    /// What a function about the session answers (`has_table_privilege`), or does (`nextval`).
    Asked {
        /// The function, which has what it looks at.
        function: Arc<ScalarUDF>,
        /// Its arguments.
        arguments: Vec<Scalar>,
        /// The answer's type.
        sql_type: SqlType,
    },
    /// A subquery. None is left after `unnesting`.
    Subquery(Box<Subquery>),
}

/// A subquery inside of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Subquery {
    /// What is asked of its rows.
    pub kind: SubqueryKind,
    /// Its rows; columns that it does not produce itself come from around it.
    pub relation: Relation,
    /// The columns of each row, in the order of its SELECT list.
    pub columns: Vec<Column>,
}

/// What is asked of a subquery's rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SubqueryKind {
    /// Whether there is a row.
    Exists,
    /// The value of its only column in its only row; NULL if there is no row, an error (21000) if there are several.
    Value,
    /// An array of all values of its only column, in the order of the rows; empty if there is none.
    Array,
    /// `left comparison ANY/ALL (subquery)`, `left IN (subquery)`. Several left sides are a row: equal if all are.
    Quantified {
        /// The left side, one expression per column, of the columns' types.
        left: Vec<Scalar>,
        /// How each is compared.
        comparison: Comparison,
        /// With how many of the rows.
        quantifier: Quantifier,
    },
}

/// With how many of a subquery's rows a comparison must be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Quantifier {
    /// With at least one: IN, ANY, SOME.
    Any,
    /// With every one: ALL. `NOT IN` is `<> ALL`.
    All,
}

impl Subquery {
    /// The type of its value.
    pub(crate) fn sql_type(&self) -> SqlType {
        match (&self.kind, self.columns.first()) {
            (SubqueryKind::Exists | SubqueryKind::Quantified { .. }, _) => SqlType::Boolean,
            (SubqueryKind::Value, Some(column)) => column.sql_type.clone(),
            (SubqueryKind::Array, Some(column)) => SqlType::array_of(column.sql_type.clone()),
            (_, None) => SqlType::Unknown,
        }
    }
}

impl Scalar {
    /// TRUE or FALSE.
    pub(crate) fn boolean(value: bool) -> Self {
        Self::Constant(Constant::boolean(value))
    }

    /// A comparison.
    pub(crate) fn compare(comparison: Comparison, left: Scalar, right: Scalar) -> Self {
        Self::Compare { comparison, left: Box::new(left), right: Box::new(right) }
    }

    /// `left = right`.
    pub(crate) fn equal(left: Scalar, right: Scalar) -> Self {
        Self::compare(Comparison::Equal, left, right)
    }

    /// All of the conditions; TRUE if there is none. ANDs among them are taken apart.
    pub(crate) fn all(conditions: impl IntoIterator<Item = Scalar>) -> Self {
        let mut terms = Vec::new();
        for condition in conditions {
            match condition {
                Self::And(inner) => terms.extend(inner),
                Self::Constant(constant) if constant.as_bool() == Some(true) => {}
                other => terms.push(other),
            }
        }
        match terms.len() {
            0 => Self::boolean(true),
            1 => terms.remove(0),
            _ => Self::And(terms),
        }
    }

    /// Any of the conditions; FALSE if there is none.
    pub(crate) fn any(conditions: impl IntoIterator<Item = Scalar>) -> Self {
        let mut terms = Vec::new();
        for condition in conditions {
            match condition {
                Self::Or(inner) => terms.extend(inner),
                Self::Constant(constant) if constant.as_bool() == Some(false) => {}
                other => terms.push(other),
            }
        }
        match terms.len() {
            0 => Self::boolean(false),
            1 => terms.remove(0),
            _ => Self::Or(terms),
        }
    }

    /// The negation.
    pub(crate) fn negate(self) -> Self {
        Self::Not(Box::new(self))
    }

    /// The conditions that must all be true for this one to be.
    pub(crate) fn conjuncts(self) -> Vec<Scalar> {
        match self {
            Self::And(terms) => terms.into_iter().flat_map(Self::conjuncts).collect(),
            Self::Constant(constant) if constant.as_bool() == Some(true) => vec![],
            other => vec![other],
        }
    }

    /// A cast; the expression itself if it has the type.
    pub(crate) fn cast(self, to: SqlType, is_explicit: bool) -> Self {
        if self.sql_type() == to {
            return self;
        }
        Self::Cast { input: Box::new(self), to, is_try: false, is_explicit }
    }

    /// The type of its values.
    pub(crate) fn sql_type(&self) -> SqlType {
        match self {
            Self::Column { sql_type, .. }
            | Self::Parameter { sql_type, .. }
            | Self::Case { sql_type, .. }
            | Self::Record { sql_type, .. }
            | Self::Field { sql_type, .. }
            | Self::Array { sql_type, .. }
            | Self::Asked { sql_type, .. } => sql_type.clone(),
            Self::Constant(constant) => constant.sql_type.clone(),
            Self::Call { call, .. } => call.returns.clone(),
            Self::Cast { to, .. } => to.clone(),
            Self::Compare { .. }
            | Self::And(_)
            | Self::Or(_)
            | Self::Not(_)
            | Self::IsNull(_)
            | Self::InList { .. }
            | Self::Like { .. } => SqlType::Boolean,
            Self::Coalesce(inputs) => inputs.first().map_or(SqlType::Unknown, Self::sql_type),
            Self::Subquery(subquery) => subquery.sql_type(),
        }
    }

    /// Whether a value may be NULL. True where nothing says otherwise.
    pub(crate) fn nullable(&self) -> bool {
        match self {
            Self::Column { nullable, .. } => *nullable,
            Self::Constant(constant) => constant.is_null(),
            Self::Parameter { .. } | Self::Field { .. } | Self::Asked { .. } => true,
            Self::Call { call, arguments } => match call.overload.body {
                Body::Special(
                    Special::Add | Special::Subtract | Special::Multiply | Special::Negate | Special::Concatenate,
                ) => arguments.iter().any(Self::nullable),
                _ => true,
            },
            Self::Cast { input, is_try, .. } => *is_try || input.nullable(),
            Self::Compare { comparison, left, right } => match comparison {
                Comparison::IsDistinctFrom | Comparison::IsNotDistinctFrom => false,
                _ => left.nullable() || right.nullable(),
            },
            Self::And(terms) | Self::Or(terms) => terms.iter().any(Self::nullable),
            Self::Not(input) => input.nullable(),
            Self::IsNull(_) | Self::Record { .. } | Self::Array { .. } => false,
            Self::InList { value, list, .. } => value.nullable() || list.iter().any(Self::nullable),
            Self::Like { value, pattern, .. } => value.nullable() || pattern.nullable(),
            Self::Case { arms, otherwise, .. } => {
                arms.iter().any(|(_, value)| value.nullable())
                    || otherwise.as_ref().is_none_or(|otherwise| otherwise.nullable())
            }
            Self::Coalesce(inputs) => inputs.iter().all(Self::nullable),
            Self::Subquery(subquery) => !matches!(subquery.kind, SubqueryKind::Exists | SubqueryKind::Array),
        }
    }

    /// The expressions right below, those of a subquery's left side included (its relation's are not).
    pub(crate) fn children(&self) -> Vec<&Scalar> {
        match self {
            Self::Column { .. } | Self::Constant(_) | Self::Parameter { .. } => vec![],
            Self::Call { arguments: inputs, .. }
            | Self::Asked { arguments: inputs, .. }
            | Self::And(inputs)
            | Self::Or(inputs)
            | Self::Coalesce(inputs)
            | Self::Record { fields: inputs, .. }
            | Self::Array { elements: inputs, .. } => inputs.iter().collect(),
            Self::Cast { input, .. } | Self::Not(input) | Self::IsNull(input) | Self::Field { input, .. } => {
                vec![input]
            }
            Self::Compare { left, right, .. } => vec![left, right],
            Self::InList { value, list, .. } => std::iter::once(value.as_ref()).chain(list).collect(),
            Self::Like { value, pattern, .. } => vec![value, pattern],
            Self::Case { arms, otherwise, .. } => {
                let arms = arms.iter().flat_map(|(condition, value)| [condition, value]);
                arms.chain(otherwise.as_deref()).collect()
            }
            Self::Subquery(subquery) => match &subquery.kind {
                SubqueryKind::Quantified { left, .. } => left.iter().collect(),
                _ => vec![],
            },
        }
    }

    /// The same, to be changed.
    pub(crate) fn children_mut(&mut self) -> Vec<&mut Scalar> {
        match self {
            Self::Column { .. } | Self::Constant(_) | Self::Parameter { .. } => vec![],
            Self::Call { arguments: inputs, .. }
            | Self::Asked { arguments: inputs, .. }
            | Self::And(inputs)
            | Self::Or(inputs)
            | Self::Coalesce(inputs)
            | Self::Record { fields: inputs, .. }
            | Self::Array { elements: inputs, .. } => inputs.iter_mut().collect(),
            Self::Cast { input, .. } | Self::Not(input) | Self::IsNull(input) | Self::Field { input, .. } => {
                vec![input]
            }
            Self::Compare { left, right, .. } => vec![left, right],
            Self::InList { value, list, .. } => std::iter::once(value.as_mut()).chain(list).collect(),
            Self::Like { value, pattern, .. } => vec![value, pattern],
            Self::Case { arms, otherwise, .. } => {
                let arms = arms.iter_mut().flat_map(|(condition, value)| [condition, value]);
                arms.chain(otherwise.as_deref_mut()).collect()
            }
            Self::Subquery(subquery) => match &mut subquery.kind {
                SubqueryKind::Quantified { left, .. } => left.iter_mut().collect(),
                _ => vec![],
            },
        }
    }

    /// The expression with every part replaced by what `change` makes of it, the innermost first. Subqueries' relations
    /// are left alone. Fails where `change` does.
    pub(crate) fn transform(mut self, change: &mut dyn FnMut(Scalar) -> Result<Scalar>) -> Result<Scalar> {
        for child in self.children_mut() {
            let taken = std::mem::replace(child, Scalar::Constant(Constant::boolean(false)));
            *child = taken.transform(change)?;
        }
        change(self)
    }

    /// Calls `visit` with the expression and every part of it; a subquery's relation is not entered.
    pub(crate) fn visit<'s>(&'s self, visit: &mut dyn FnMut(&'s Scalar)) {
        visit(self);
        for child in self.children() {
            child.visit(visit);
        }
    }

    /// Adds the columns that it reads, those that its subqueries need from around them included.
    pub(crate) fn add_columns(&self, columns: &mut BTreeSet<ColumnId>) {
        self.visit(&mut |scalar| match scalar {
            Self::Column { id, .. } => {
                columns.insert(*id);
            }
            Self::Subquery(subquery) => columns.extend(subquery.relation.free_columns()),
            _ => {}
        });
    }

    /// The columns that it reads.
    pub(crate) fn columns(&self) -> BTreeSet<ColumnId> {
        let mut columns = BTreeSet::new();
        self.add_columns(&mut columns);
        columns
    }

    /// Whether each evaluation may give another value.
    pub(crate) fn is_volatile(&self) -> bool {
        let mut volatile = false;
        self.visit(&mut |scalar| {
            volatile |= match scalar {
                Self::Call { call, .. } => call.overload.stability == Stability::Volatile,
                Self::Asked { function, .. } => function.signature().volatility == Volatility::Volatile,
                _ => false,
            };
        });
        volatile
    }

    /// Whether a subquery is in it.
    pub(crate) fn has_subquery(&self) -> bool {
        let mut found = false;
        self.visit(&mut |scalar| found |= matches!(scalar, Self::Subquery(_)));
        found
    }

    /// The column's number, if the expression is just a column.
    pub(crate) fn as_column(&self) -> Option<ColumnId> {
        match self {
            Self::Column { id, .. } => Some(*id),
            _ => None,
        }
    }

    /// The value, if it is known now.
    pub(crate) fn as_constant(&self) -> Option<&Constant> {
        match self {
            Self::Constant(constant) => Some(constant),
            _ => None,
        }
    }

    /// The expression with columns replaced by expressions, where `replacement` has one; inside of subqueries too.
    pub(crate) fn substituted(self, replacement: &dyn Fn(ColumnId) -> Option<Scalar>) -> Scalar {
        let replaced = self.transform(&mut |scalar| {
            Ok(match scalar {
                Self::Column { id, .. } => replacement(id).unwrap_or(scalar),
                Self::Subquery(mut subquery) => {
                    subquery.relation.substitute_free(replacement);
                    Self::Subquery(subquery)
                }
                other => other,
            })
        });
        // Nothing in here fails.
        replaced.unwrap_or_else(|_: Error| Scalar::boolean(false))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{StringViewArray, new_null_array};

    use super::*;

    #[test]
    fn a_value_says_what_its_elements_are() {
        let wanted = SqlType::array_of(SqlType::Uuid).arrow();
        let DataType::List(item) = &wanted else { panic!("an array") };
        let texts = Arc::new(StringViewArray::from_iter_values(["a", "b", "c"]));
        let two = ListArray::new(item.clone(), OffsetBuffer::from_lengths([2, 1]), texts, None);
        let value = first_value(&(Arc::new(two) as ArrayRef)).unwrap();
        assert_eq!(value.data_type(), wanted);
        let ScalarValue::List(list) = value else { panic!("a list") };
        // Nothing of other rows is behind it.
        assert_eq!((list.len(), list.values().len()), (1, 2));
        let null = first_value(&new_null_array(&wanted, 1)).unwrap();
        assert!(null.is_null() && null.data_type() == wanted);
    }
}
