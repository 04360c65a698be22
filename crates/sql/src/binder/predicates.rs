//! Expressions that are true, false or unknown: tests, comparisons with several values, patterns.

use diligence_base::Result;
use diligence_types::SqlType;
use sqlparser::ast::Expr;

use super::Binder;
use super::scope::Level;
use super::subqueries::subquery_scalar;
use crate::algebra::{Comparison, Constant, Quantifier, Scalar, SubqueryKind};

impl Binder<'_> {
    /// A predicate; `None` if the expression is none.
    pub(super) fn predicate(&self, expression: &Expr, level: &Level<'_>) -> Result<Option<Scalar>> {
        let test = match expression {
            Expr::IsNull(inner) => self.null_test(inner, false, level),
            Expr::IsNotNull(inner) => self.null_test(inner, true, level),
            Expr::IsTrue(inner) => self.truth_test(inner, Some(true), false, level),
            Expr::IsNotTrue(inner) => self.truth_test(inner, Some(true), true, level),
            Expr::IsFalse(inner) => self.truth_test(inner, Some(false), false, level),
            Expr::IsNotFalse(inner) => self.truth_test(inner, Some(false), true, level),
            Expr::IsUnknown(inner) => self.truth_test(inner, None, false, level),
            Expr::IsNotUnknown(inner) => self.truth_test(inner, None, true, level),
            Expr::IsDistinctFrom(left, right) => {
                let (left, right) = (self.scalar(left, level)?, self.scalar(right, level)?);
                self.compare(Comparison::IsDistinctFrom, left, right)
            }
            Expr::IsNotDistinctFrom(left, right) => {
                let (left, right) = (self.scalar(left, level)?, self.scalar(right, level)?);
                self.compare(Comparison::IsNotDistinctFrom, left, right)
            }
            Expr::IsNormalized { expr, form, negated } => {
                let mut arguments = vec![self.scalar(expr, level)?];
                arguments.extend(form.map(|form| Scalar::Constant(Constant::text(form.to_string()))));
                let is_normal = self.call("is_normalized", arguments)?;
                Ok(if *negated { is_normal.negate() } else { is_normal })
            }
            Expr::Exists { subquery, negated } => {
                let exists = subquery_scalar(SubqueryKind::Exists, self.subquery(subquery, level)?);
                Ok(if *negated { exists.negate() } else { exists })
            }
            other => match self.membership(other, level)? {
                Some(membership) => return Ok(Some(membership)),
                None => return self.match_of_pattern(other, level),
            },
        };
        test.map(Some)
    }

    /// A comparison with several values: IN, BETWEEN, ANY, ALL; `None` if the expression is none.
    fn membership(&self, expression: &Expr, level: &Level<'_>) -> Result<Option<Scalar>> {
        let test = match expression {
            Expr::InList { expr, list, negated } => {
                let value = self.scalar(expr, level)?;
                let list = self.scalars(list, level)?;
                self.in_list(value, list, *negated)
            }
            Expr::InSubquery { expr, subquery, negated } => {
                let left = self.scalar(expr, level)?;
                let rows = self.subquery(subquery, level)?;
                let (comparison, quantifier) = match negated {
                    false => (Comparison::Equal, Quantifier::Any),
                    true => (Comparison::NotEqual, Quantifier::All),
                };
                self.quantified(left, comparison.sign(), quantifier, rows)
            }
            Expr::InUnnest { expr, array_expr, negated } => {
                let (left, array) = (self.scalar(expr, level)?, self.scalar(array_expr, level)?);
                let any = self.over_array(left, "=", Quantifier::Any, array)?;
                Ok(if *negated { any.negate() } else { any })
            }
            Expr::Between { expr, negated, low, high } => {
                let (value, low, high) =
                    (self.scalar(expr, level)?, self.scalar(low, level)?, self.scalar(high, level)?);
                let between = self.between(value, low, high)?;
                Ok(if *negated { between.negate() } else { between })
            }
            Expr::AnyOp { left, compare_op, right, .. } => {
                self.any_or_all(left, compare_op, right, Quantifier::Any, level)
            }
            Expr::AllOp { left, compare_op, right } => self.any_or_all(left, compare_op, right, Quantifier::All, level),
            _ => return Ok(None),
        };
        test.map(Some)
    }

    /// Whether a text matches a pattern; `None` if the expression is another.
    fn match_of_pattern(&self, expression: &Expr, level: &Level<'_>) -> Result<Option<Scalar>> {
        let test = match expression {
            Expr::Like { negated, any, expr, pattern, escape_char } => {
                self.like(expr, pattern, escape_char.as_ref(), (*negated, *any, false), level)
            }
            Expr::ILike { negated, any, expr, pattern, escape_char } => {
                self.like(expr, pattern, escape_char.as_ref(), (*negated, *any, true), level)
            }
            Expr::SimilarTo { negated, expr, pattern, escape_char } => {
                let (value, pattern) = (self.scalar(expr, level)?, self.scalar(pattern, level)?);
                let mut arguments = vec![pattern];
                arguments.extend(escape_char.as_ref().map(|escape| self.literal(&escape.value)).transpose()?);
                let pattern = self.call("similar_to_escape", arguments)?;
                let matches = self.operator("~", vec![self.padded(value)?, pattern])?;
                Ok(if *negated { matches.negate() } else { matches })
            }
            Expr::RLike { negated, expr, pattern, .. } => {
                let matches = self.operator("~", vec![self.scalar(expr, level)?, self.scalar(pattern, level)?])?;
                Ok(if *negated { matches.negate() } else { matches })
            }
            _ => return Ok(None),
        };
        test.map(Some)
    }

    fn null_test(&self, inner: &Expr, is_negated: bool, level: &Level<'_>) -> Result<Scalar> {
        let scalar = self.typed_scalar(inner, level)?;
        // A row is NULL if all fields are, and not NULL if none is. A struct is a value, whatever is in it.
        if let Scalar::Record { fields, sql_type: SqlType::Record(kind) } = &scalar
            && kind.is_row()
        {
            let tests = fields.iter().map(|field| {
                let test = Scalar::IsNull(Box::new(field.clone()));
                if is_negated { test.negate() } else { test }
            });
            return Ok(Scalar::all(tests));
        }
        // So is one that is held; the fields of a row that is NULL are NULL.
        if let SqlType::Record(fields) = scalar.sql_type()
            && fields.is_row()
            && !fields.is_empty()
        {
            let row = self.evaluated_once(scalar, level)?;
            let tests = fields.iter().enumerate().map(|(index, field)| {
                let value = Scalar::Field { input: Box::new(row.clone()), index, sql_type: field.sql_type.clone() };
                let test = Scalar::IsNull(Box::new(value));
                if is_negated { test.negate() } else { test }
            });
            return Ok(Scalar::all(tests.collect::<Vec<_>>()));
        }
        let test = Scalar::IsNull(Box::new(scalar));
        Ok(if is_negated { test.negate() } else { test })
    }

    fn truth_test(&self, inner: &Expr, value: Option<bool>, is_negated: bool, level: &Level<'_>) -> Result<Scalar> {
        let word = match value {
            Some(true) => "TRUE",
            Some(false) => "FALSE",
            None => "UNKNOWN",
        };
        let what = format!("IS {}{word}", if is_negated { "NOT " } else { "" });
        let scalar = self.condition(inner, level, &what)?;
        let Some(value) = value else {
            let test = Scalar::IsNull(Box::new(scalar));
            return Ok(if is_negated { test.negate() } else { test });
        };
        let comparison = if is_negated { Comparison::IsDistinctFrom } else { Comparison::IsNotDistinctFrom };
        Ok(Scalar::compare(comparison, scalar, Scalar::boolean(value)))
    }

    pub(super) fn between(&self, value: Scalar, low: Scalar, high: Scalar) -> Result<Scalar> {
        let from = self.compare(Comparison::GreaterOrEqual, value.clone(), low)?;
        let to = self.compare(Comparison::LessOrEqual, value, high)?;
        Ok(Scalar::all([from, to]))
    }
}
