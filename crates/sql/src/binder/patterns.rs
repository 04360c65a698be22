//! LIKE, ILIKE and what they are compared with: one pattern, or any or all of several.

use diligence_base::{Error, Result};
use diligence_types::SqlType;
use diligence_types::collation::Collation;
use sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, FunctionArguments, ValueWithSpan};

use super::collations::{nondeterministic, unlabelled};
use super::operators::Way;
use super::scope::Level;
use super::syntax::{bare_name, unnested, written};
use super::{Binder, unsupported};
use crate::algebra::{Constant, Quantifier, Scalar};

impl Binder<'_> {
    /// LIKE and ILIKE; with `any`, of any of several patterns.
    pub(super) fn like(
        &self,
        value: &Expr,
        pattern: &Expr,
        escape: Option<&ValueWithSpan>,
        (is_negated, is_any, ignores_case): (bool, bool, bool),
        level: &Level<'_>,
    ) -> Result<Scalar> {
        let value = self.scalar(value, level)?;
        let escape = match escape.map(|escape| self.literal(&escape.value)).transpose()? {
            None => Some('\\'),
            Some(Scalar::Constant(constant)) => {
                let text = constant.value.try_as_str().flatten().unwrap_or_default();
                let mut characters = text.chars();
                match (characters.next(), characters.next()) {
                    _ if constant.is_null() => return Ok(Scalar::Constant(Constant::null(SqlType::Boolean))),
                    (first, None) => first,
                    _ => {
                        let error = Error::input("invalid escape string").with_code("22025");
                        return Err(error.with_hint("an escape string is empty or one character"));
                    }
                }
            }
            Some(_) => return Err(unsupported("ESCAPE with a value that is not known yet")),
        };
        let sign = match (is_negated, ignores_case) {
            (false, false) => "~~",
            (true, false) => "!~~",
            (false, true) => "~~*",
            (true, true) => "!~~*",
        };
        // ANY, SOME and ALL of an array, of a list or of a query's rows.
        let quantified = match unnested(pattern) {
            other if is_any => Some((Quantifier::Any, other)),
            Expr::Function(function) if function.over.is_none() => {
                let quantifier = match bare_name(function).as_str() {
                    "all" => Some(Quantifier::All),
                    "any" | "some" => Some(Quantifier::Any),
                    _ => None,
                };
                if let (Some(quantifier), FunctionArguments::Subquery(query)) = (quantifier, &function.args) {
                    return self.quantified(value, sign, quantifier, self.subquery(query, level)?);
                }
                match (quantifier, written(function)) {
                    (Some(quantifier), [FunctionArg::Unnamed(FunctionArgExpr::Expr(array))]) => {
                        Some((quantifier, array))
                    }
                    _ => None,
                }
            }
            _ => None,
        };
        if let Some((quantifier, patterns)) = quantified {
            let value = self.padded(value)?;
            let patterns = match unnested(patterns) {
                Expr::Subquery(query) => {
                    return self.quantified(value, sign, quantifier, self.subquery(query, level)?);
                }
                Expr::Tuple(patterns) => self.scalars(patterns, level)?,
                other => match self.scalar(other, level)? {
                    Scalar::Array { elements, .. } => elements,
                    array => return self.over_array(value, sign, quantifier, array),
                },
            };
            let terms = patterns
                .into_iter()
                .map(|pattern| self.like_one(value.clone(), pattern, escape, (is_negated, ignores_case)))
                .collect::<Result<Vec<_>>>()?;
            return Ok(match quantifier {
                Quantifier::Any => Scalar::any(terms),
                Quantifier::All => Scalar::all(terms),
            });
        }
        let pattern = self.scalar(pattern, level)?;
        self.like_one(value, pattern, escape, (is_negated, ignores_case))
    }

    /// The operator of a LIKE as the LIKE that it is; `None` if it is another operator.
    pub(super) fn like_by_sign(&self, sign: &str, sides: &[Scalar]) -> Option<Result<Scalar>> {
        let form = match sign {
            "~~" => (false, false),
            "!~~" => (true, false),
            "~~*" => (false, true),
            "!~~*" => (true, true),
            _ => return None,
        };
        let [value, pattern] = sides else { return None };
        Some(self.like_one(value.clone(), pattern.clone(), Some('\\'), form))
    }

    /// LIKE of one pattern: whether it is negated, and whether it ignores case.
    fn like_one(
        &self,
        value: Scalar,
        pattern: Scalar,
        escape: Option<char>,
        (is_negated, ignores_case): (bool, bool),
    ) -> Result<Scalar> {
        let is_text = |scalar: &Scalar| {
            matches!(
                scalar.sql_type().uncollated(),
                SqlType::Unknown | SqlType::Text | SqlType::Varchar(_) | SqlType::Char(_) | SqlType::Name
            )
        };
        if !is_text(&value) || !is_text(&pattern) {
            let sign = match (is_negated, ignores_case) {
                (false, false) => "~~",
                (true, false) => "!~~",
                (false, true) => "~~*",
                (true, true) => "!~~*",
            };
            return self.call(sign, vec![value, pattern]);
        }
        let what = if ignores_case { "ILIKE" } else { "LIKE" };
        let derived = self.derived_collation([&value, &pattern])?;
        // A pattern that is not known yet gets backslashes in place of its own escape character.
        let (pattern, escape) = match escape {
            Some('\\') => (pattern, escape),
            _ if pattern.as_constant().is_some() => (pattern, escape),
            own => {
                let own = own.map(String::from).unwrap_or_default();
                (self.call("like_escape", vec![pattern, Scalar::Constant(Constant::text(own))])?, Some('\\'))
            }
        };
        // DuckDB's collations have a LIKE.
        if let Some((case, accents)) = derived.collation().and_then(Collation::folds) {
            let plain = |scalar: Scalar| {
                let text = unlabelled(self.cast(scalar, &SqlType::Text, Way::Implicit)?);
                if accents { self.call("strip_accents", vec![text]) } else { Ok(text) }
            };
            let (value, pattern) = (Box::new(plain(value)?), Box::new(plain(pattern)?));
            let ignores_case = ignores_case || case;
            return Ok(Scalar::Like { value, pattern, escape, is_negated, ignores_case });
        }
        if derived.collation().is_some_and(|collation| !collation.is_deterministic()) {
            return Err(nondeterministic(what));
        }
        // LIKE goes by characters, whichever collation it is.
        if ignores_case {
            derived.decided(what)?;
        }
        // The blanks of char(n) count in LIKE.
        let value = if has_a_blank_end(&pattern, escape) { value } else { self.padded(value)? };
        let value = Box::new(unlabelled(self.cast(value, &SqlType::Text, Way::Implicit)?));
        let pattern = Box::new(unlabelled(self.cast(pattern, &SqlType::Text, Way::Implicit)?));
        Ok(Scalar::Like { value, pattern, escape, is_negated, ignores_case })
    }

    /// A value of `char(n)` as a text with the blanks that fill it, which are not held; one of `bpchar` with those that
    /// it has; any other value as it is.
    pub(super) fn padded(&self, value: Scalar) -> Result<Scalar> {
        let length = match value.sql_type().uncollated() {
            SqlType::Char(Some(length)) => length,
            SqlType::Char(None) => return Ok(value.cast(SqlType::Text, false)),
            _ => return Ok(value),
        };
        let length = i32::try_from(length).unwrap_or(i32::MAX);
        let text = self.cast(value, &SqlType::Text, Way::Implicit)?;
        self.call("rpad", vec![text, Scalar::Constant(Constant::integer(length))])
    }

    /// A value of `char(n)` as one of `bpchar`, whose blanks at the end are held.
    pub(super) fn with_blanks(&self, value: Scalar) -> Result<Scalar> {
        Ok(match self.padded(value)? {
            Scalar::Call { mut call, arguments } => {
                call.returns = SqlType::Char(None);
                Scalar::Call { call, arguments }
            }
            other => other.cast(SqlType::Char(None), false),
        })
    }
}

/// Whether blanks at the end of a value change nothing for a pattern: it ends with `%`, and nothing in front of that
/// stands for a blank.
fn has_a_blank_end(pattern: &Scalar, escape: Option<char>) -> bool {
    let Scalar::Constant(constant) = pattern else { return false };
    let text = constant.value.try_as_str().flatten().unwrap_or_default();
    let is_plain = |c: char| c != ' ' && c != '_' && Some(c) != escape;
    text.ends_with('%') && text.chars().all(is_plain)
}
