//! What can be asked of an expression, and how one becomes another.

use std::collections::BTreeSet;

use datafusion_expr::Volatility;
use diligence_base::{Error, Result};
use diligence_types::SqlType;
use diligence_types::functions::{Body, Special, Stability};

use super::{ColumnId, Comparison, Constant, Scalar, SubqueryKind};

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
