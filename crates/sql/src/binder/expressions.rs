//! Every kind of expression.

use diligence_base::{Error, Result};
use diligence_types::SqlType;
use diligence_types::functions::path_text;
use diligence_types::sql_type::Category;
use sqlparser::ast::{BinaryOperator, CaseWhen, CastKind, DataType, Expr, UnaryOperator, Value, ValueWithSpan};

use super::scope::{Clause, Level};
use super::subqueries::subquery_scalar;
use super::syntax::{bare_name, sign_of, unnested, written};
use super::{Binder, STACK_GROWTH, STACK_RED_ZONE, literals, name_place, normalized, place, placed, unsupported};
use crate::algebra::{Comparison, Constant, Scalar, SubqueryKind};
use crate::parse::WHOLE_ROW;
use crate::tried::marker;

impl Binder<'_> {
    /// An expression with a type. Fails like [`scalar`](Self::scalar).
    pub(super) fn typed_scalar(&self, expression: &Expr, level: &Level<'_>) -> Result<Scalar> {
        let scalar = self.scalar(expression, level)?;
        self.typed(scalar)
    }

    /// A condition. Fails like [`scalar`](Self::scalar), and with 42804 if it is not `boolean`.
    pub(super) fn condition(&self, expression: &Expr, level: &Level<'_>, what: &str) -> Result<Scalar> {
        let scalar = match unnested(expression) {
            // Rows are no condition: DuckDB's function of the name is meant.
            Expr::Function(function) if bare_name(function) == "regexp_matches" && function.over.is_none() => {
                let arguments = self.arguments("regexp_like", written(function), level)?;
                self.named_call("regexp_like", arguments, level)?
            }
            _ => self.scalar(expression, level)?,
        };
        let message = |from: &SqlType| format!("argument of {what} must be type boolean, not type {from}");
        self.wanted(scalar, &SqlType::Boolean, message).map_err(|error| placed(error, || place(expression)))
    }

    /// An expression; literals may have no type yet. Fails with kind `Input` and PostgreSQL's SQLSTATE if it means
    /// nothing.
    pub(super) fn scalar(&self, expression: &Expr, level: &Level<'_>) -> Result<Scalar> {
        stacker::maybe_grow(STACK_RED_ZONE, STACK_GROWTH, || match expression {
            Expr::Identifier(name) => self.identifier(name, level),
            Expr::CompoundIdentifier(names) => self.compound(names, level),
            Expr::Value(value) => match self.column_instead(&value.value, level)? {
                Some(column) => Ok(column),
                None => self.literal(&value.value).map_err(|error| placed(error, || place(expression))),
            },
            Expr::Nested(inner) => self.scalar(inner, level),
            Expr::BinaryOp { left, op, right } => {
                let sides = [left.as_ref(), right.as_ref()];
                let found = self.binary(expression, left, op, right, level);
                found.map_err(|error| placed(at_literal(error, sides.into_iter()), || place(left.as_ref())))
            }
            Expr::Function(function) => self
                .function(function, level)
                .map_err(|error| placed(error, || function.name.0.last()?.as_ident().and_then(name_place))),
            Expr::Case { conditions, else_result, .. } => self.other(expression, level).map_err(|error| {
                let values = conditions.iter().map(|arm| &arm.result).chain(else_result.as_deref());
                placed(at_literal(error, values), || place(expression))
            }),
            Expr::Array(array) => self
                .other(expression, level)
                .map_err(|error| placed(at_literal(error, array.elem.iter()), || place(expression))),
            other => self.other(other, level).map_err(|error| placed(error, || place(other))),
        })
    }

    pub(super) fn scalars<'e>(
        &self,
        expressions: impl IntoIterator<Item = &'e Expr>,
        level: &Level<'_>,
    ) -> Result<Vec<Scalar>> {
        expressions.into_iter().map(|expression| self.scalar(expression, level)).collect()
    }

    /// What is rarer. Kept apart from [`scalar`](Self::scalar), whose frames lie on the stack once per level.
    fn other(&self, expression: &Expr, level: &Level<'_>) -> Result<Scalar> {
        for kind in [Self::predicate, Self::worded_call, Self::constructor] {
            if let Some(scalar) = kind(self, expression, level)? {
                return Ok(scalar);
            }
        }
        match expression {
            Expr::Cast { kind, expr, data_type, .. } => {
                let is_try = matches!(kind, CastKind::TryCast | CastKind::SafeCast);
                self.cast_as_written(expr, data_type, is_try, level)
            }
            Expr::UnaryOp { op, expr } => self.unary(op, expr, level),
            Expr::Convert { is_try, expr, data_type: Some(data_type), .. } => {
                self.explicit(self.scalar(expr, level)?, &self.sql_type(data_type)?, *is_try)
            }
            Expr::TypedString(typed) if is_path(&typed.data_type) => {
                self.as_path(self.literal(&typed.value.value)?, false)
            }
            Expr::TypedString(typed) => {
                let to = self.timed_type(&typed.data_type)?;
                self.explicit(self.literal(&typed.value.value)?, &to, false)
            }
            Expr::Interval(interval) => self.interval(interval, level),
            Expr::Case { operand, conditions, else_result, .. } => self.without_rows("CASE", level, || {
                self.case(operand.as_deref(), conditions, else_result.as_deref(), level)
            }),
            Expr::Subquery(query) => {
                let rows = self.one_column(query, level)?;
                Ok(subquery_scalar(SubqueryKind::Value, rows))
            }
            Expr::CompoundFieldAccess { root, access_chain } => self.accessed(root, access_chain, level),
            Expr::Named { expr, .. } => self.scalar(expr, level),
            Expr::Lambda(_) => Err(unsupported("a lambda outside of a function that takes one")),
            other => Err(unsupported(other)),
        }
    }

    fn cast_as_written(&self, inner: &Expr, to: &DataType, is_try: bool, level: &Level<'_>) -> Result<Scalar> {
        if let Expr::Value(value) = inner
            && let Some(column) = self.column_instead(&value.value, level)?
        {
            return Ok(column);
        }
        if is_path(to) {
            return self.as_path(self.scalar(inner, level)?, is_try);
        }
        let (scalar, to) = (self.cast_input(inner, level)?, self.cast_type(to)?);
        if let Some(made) = self.json_as_type(inner, &scalar.sql_type(), &to, is_try, level)? {
            return Ok(made);
        }
        // What a domain demands is looked at beside the value.
        let scalar = match &to {
            SqlType::Domain(_) => self.evaluated_once(scalar, level)?,
            _ => self.looked_up(scalar, &to, level)?,
        };
        self.explicit(scalar, &to, is_try)
    }

    /// A text as a path of JSON. Fails with 42601 if it is known and no path, unless that is to be NULL.
    fn as_path(&self, scalar: Scalar, is_try: bool) -> Result<Scalar> {
        let text = self.explicit(scalar, &SqlType::Text, is_try)?;
        match &text {
            Scalar::Constant(Constant { value, .. }) => match value.try_as_str() {
                Some(Some(path)) => match path_text(path) {
                    Err(_) if is_try => Ok(Scalar::Constant(Constant::null(SqlType::Text))),
                    path => Ok(Scalar::Constant(Constant::text(path?))),
                },
                _ => Ok(text),
            },
            _ if is_try => {
                let arguments = vec![self.call("jsonpath of text", vec![text])?];
                Ok(Scalar::Asked { function: marker(), arguments, sql_type: SqlType::Text })
            }
            _ => self.call("jsonpath of text", vec![text]),
        }
    }

    /// What a cast is of: an array of nothing, or of such arrays, gets its type from the cast.
    fn cast_input(&self, expression: &Expr, level: &Level<'_>) -> Result<Scalar> {
        match is_empty_array(expression) {
            true => self.array(vec![]),
            false => self.scalar(expression, level),
        }
    }

    fn unary(&self, op: &UnaryOperator, inner: &Expr, level: &Level<'_>) -> Result<Scalar> {
        if let (UnaryOperator::Minus, Expr::Value(ValueWithSpan { value: Value::Number(text, _), .. })) = (op, inner) {
            return Ok(Scalar::Constant(literals::number(text, true)?));
        }
        if *op == UnaryOperator::Not || *op == UnaryOperator::BangNot {
            return Ok(self.condition(inner, level, "NOT")?.negate());
        }
        let scalar = self.scalar(inner, level)?;
        let sign = match op {
            UnaryOperator::Plus => return Ok(scalar),
            UnaryOperator::Minus => "-",
            UnaryOperator::BitwiseNot => "~",
            UnaryOperator::PGSquareRoot => "|/",
            UnaryOperator::PGCubeRoot => "||/",
            UnaryOperator::PGAbs => "@",
            UnaryOperator::PGPrefixFactorial if scalar.sql_type().category() == Category::Numeric => {
                return self.call("factorial", vec![scalar]);
            }
            UnaryOperator::PGPrefixFactorial => "!!",
            other => return Err(unsupported(format!("the operator {other}"))),
        };
        self.operator(sign, vec![scalar])
    }

    fn binary(
        &self,
        whole: &Expr,
        left: &Expr,
        op: &BinaryOperator,
        right: &Expr,
        level: &Level<'_>,
    ) -> Result<Scalar> {
        let sign = match op {
            BinaryOperator::And | BinaryOperator::Or => {
                let what = if *op == BinaryOperator::And { "AND" } else { "OR" };
                let terms = chain(whole, op).into_iter().map(|term| self.condition(term, level, what));
                let terms = terms.collect::<Result<Vec<_>>>()?;
                return Ok(if *op == BinaryOperator::And { Scalar::all(terms) } else { Scalar::any(terms) });
            }
            BinaryOperator::Xor => {
                let (left, right) = (self.condition(left, level, "XOR")?, self.condition(right, level, "XOR")?);
                return Ok(Scalar::compare(Comparison::NotEqual, left, right));
            }
            BinaryOperator::Overlaps => {
                let mut arguments = self.pair(left, level)?;
                arguments.extend(self.pair(right, level)?);
                return self.call("overlaps", arguments);
            }
            op => sign_of(op),
        };
        if let Expr::Subquery(query) = unnested(right)
            && is_row(unnested(left))
        {
            return self.row_and_subquery(left, &sign, query, level);
        }
        let is_of_rows = is_whole_row(left) || is_whole_row(right);
        let (mut left, right) = (self.scalar(left, level)?, self.scalar(right, level)?);
        if ["~", "~*", "!~", "!~*"].contains(&sign.as_str()) {
            left = self.padded(left)?;
        }
        // Rows of tables are values: their NULLs are equal, where those of ROW(…) are unknown.
        match (sign.as_str(), &left, &right) {
            ("=", Scalar::Record { .. }, Scalar::Record { .. }) if is_of_rows => {
                self.compare(Comparison::IsNotDistinctFrom, left, right)
            }
            ("<>", Scalar::Record { .. }, Scalar::Record { .. }) if is_of_rows => {
                self.compare(Comparison::IsDistinctFrom, left, right)
            }
            _ => self.operator(&sign, vec![left, right]),
        }
    }

    /// The two parts of a side of OVERLAPS.
    fn pair(&self, side: &Expr, level: &Level<'_>) -> Result<Vec<Scalar>> {
        match self.scalar(side, level)? {
            Scalar::Record { fields, .. } if fields.len() == 2 => Ok(fields),
            _ => {
                Err(Error::input("wrong number of parameters on a side of OVERLAPS: two are wanted").with_code("42601"))
            }
        }
    }

    /// `timestamp(3)`: rounded to so many digits behind the seconds' point.
    pub(super) fn with_seconds_digits(&self, scalar: Scalar, digits: Option<i32>) -> Result<Scalar> {
        match digits {
            None => Ok(scalar),
            Some(digits) => {
                let digits = Scalar::Constant(Constant::integer(digits));
                self.call("seconds_digits", vec![scalar, digits])
            }
        }
    }

    fn case(
        &self,
        operand: Option<&Expr>,
        conditions: &[CaseWhen],
        otherwise: Option<&Expr>,
        level: &Level<'_>,
    ) -> Result<Scalar> {
        // As PostgreSQL has it, a literal in quotes that is compared is a text, whatever it is compared with.
        let operand = operand.map(|operand| self.typed_scalar(operand, level)).transpose()?;
        let operand = operand.map(|operand| self.evaluated_once(operand, level)).transpose()?;
        let mut tests = Vec::with_capacity(conditions.len());
        let mut values = Vec::with_capacity(conditions.len() + 1);
        for arm in conditions {
            tests.push(match &operand {
                None => self.condition(&arm.condition, level, "CASE/WHEN")?,
                Some(operand) => {
                    let value = self.scalar(&arm.condition, level)?;
                    self.compare(Comparison::Equal, operand.clone(), value)
                        .map_err(|error| placed(error, || place(&arm.condition)))?
                }
            });
            values.push(self.scalar(&arm.result, level)?);
        }
        // The type of ELSE is looked at first, as in PostgreSQL.
        let otherwise = otherwise.map(|otherwise| self.scalar(otherwise, level)).transpose()?;
        let has_otherwise = otherwise.is_some();
        let (values, sql_type) = self.in_common(otherwise.into_iter().chain(values).collect(), "CASE")?;
        let mut values = values.into_iter();
        let otherwise = if has_otherwise { values.next().map(Box::new) } else { None };
        Ok(Scalar::Case { arms: tests.into_iter().zip(values).collect(), otherwise, sql_type })
    }

    /// A value that may be looked at several times: what changes with each evaluation is computed before, where it can
    /// be.
    pub(super) fn evaluated_once(&self, scalar: Scalar, level: &Level<'_>) -> Result<Scalar> {
        if matches!(scalar, Scalar::Column { .. } | Scalar::Constant(_) | Scalar::Parameter { .. }) {
            return Ok(scalar);
        }
        let can_wait = level.clause.get() == Clause::Select && !level.in_aggregate.get() && !level.in_window.get();
        if !can_wait || !scalar.is_volatile() {
            return Ok(scalar);
        }
        let scalar = self.typed(scalar)?;
        let column = self.column_for("value", &scalar);
        level.hoisted.borrow_mut().push((column.clone(), scalar));
        Ok(column.scalar())
    }
}

/// An error about a value that a literal cannot be, with the place of the only literal in quotes among expressions.
fn at_literal<'e>(error: Error, expressions: impl Iterator<Item = &'e Expr>) -> Error {
    if error.span().is_some() || !error.code().is_some_and(|code| code.starts_with("22")) {
        return error;
    }
    let is_quoted = |expression: &&Expr| {
        matches!(expression, Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(_), .. }))
    };
    let mut quoted = expressions.filter(is_quoted);
    match (quoted.next(), quoted.next()) {
        (Some(only), None) => placed(error, || place(only)),
        _ => error,
    }
}

/// Whether an operand is `(a, b)` or `ROW(a, b)`.
fn is_row(operand: &Expr) -> bool {
    match operand {
        Expr::Tuple(_) => true,
        Expr::Function(function) => function.over.is_none() && bare_name(function) == "row",
        _ => false,
    }
}

/// Whether an operand is `t.*`, or a name, which is a row of the table of that name where it is a record.
fn is_whole_row(operand: &Expr) -> bool {
    match unnested(operand) {
        Expr::Function(function) => bare_name(function) == WHOLE_ROW,
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => true,
        _ => false,
    }
}

/// The terms of a chain of one operator, in order.
fn chain<'e>(whole: &'e Expr, op: &BinaryOperator) -> Vec<&'e Expr> {
    let mut terms = Vec::new();
    let mut open = vec![whole];
    while let Some(expression) = open.pop() {
        match expression {
            Expr::BinaryOp { left, op: other, right } if other == op => {
                open.push(right);
                open.push(left);
            }
            other => terms.push(other),
        }
    }
    terms
}

/// Whether it is an array without elements, or with such arrays only.
fn is_empty_array(expression: &Expr) -> bool {
    match expression {
        Expr::Nested(inner) => is_empty_array(inner),
        Expr::Array(array) => array.elem.iter().all(is_empty_array),
        _ => false,
    }
}

/// Whether a type is that of paths of JSON, whose values are texts.
fn is_path(data_type: &DataType) -> bool {
    match data_type {
        DataType::Custom(name, _) => {
            let parts = name.0.iter().map(|part| part.as_ident().map(normalized)).collect::<Option<Vec<_>>>();
            let parts = parts.unwrap_or_default();
            let parts = parts.iter().map(String::as_str).collect::<Vec<_>>();
            matches!(parts.as_slice(), ["jsonpath"] | ["pg_catalog", "jsonpath"])
        }
        _ => false,
    }
}
