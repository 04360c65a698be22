//! Every kind of expression.

use datafusion_common::ScalarValue;
use diligence_base::{Error, Result};
use diligence_types::SqlType;
use diligence_types::functions::has_function;
use diligence_types::sql_type::OidKind;
use sqlparser::ast::{
    AccessExpr, BinaryOperator, CaseWhen, CastKind, CeilFloorKind, DateTimeField, Expr, FunctionArg, FunctionArgExpr,
    FunctionArguments, Query, Subscript, TrimWhereField, UnaryOperator, Value, ValueWithSpan,
};

use super::functions::{bare_name, written};
use super::operators::{Way, record, row, sign_comparison};
use super::scope::{Clause, Level};
use super::{Binder, Rows, STACK_GROWTH, STACK_RED_ZONE, literals, name_place, normalized, place, placed, unsupported};
use crate::algebra::{
    Column, Comparison, Constant, FunctionItem, Quantifier, Relation, Scalar, Subquery, SubqueryKind, TableFunction,
};

/// The function that takes an element of an array.
const SUBSCRIPT: &str = "array_get";
/// The function that takes a part of an array.
const SLICE: &str = "array_slice";

impl Binder<'_> {
    /// An expression with a type. Fails like [`scalar`](Self::scalar).
    pub(super) fn typed_scalar(&self, expression: &Expr, level: &Level<'_>) -> Result<Scalar> {
        let scalar = self.scalar(expression, level)?;
        self.typed(scalar)
    }

    /// A condition. Fails like [`scalar`](Self::scalar), and with 42804 if it is not `boolean`.
    pub(super) fn condition(&self, expression: &Expr, level: &Level<'_>, what: &str) -> Result<Scalar> {
        let scalar = self.scalar(expression, level)?;
        let message = |from: &SqlType| format!("argument of {what} must be type boolean, not type {from}");
        self.wanted(scalar, &SqlType::Boolean, message).map_err(|error| placed(error, || place(expression)))
    }

    /// An expression; literals may have no type yet. Fails with kind `Input` and PostgreSQL's SQLSTATE if it means
    /// nothing.
    pub(super) fn scalar(&self, expression: &Expr, level: &Level<'_>) -> Result<Scalar> {
        stacker::maybe_grow(STACK_RED_ZONE, STACK_GROWTH, || match expression {
            Expr::Identifier(name) => self.identifier(name, level),
            Expr::CompoundIdentifier(names) => self.compound(names, level),
            Expr::Value(value) => self.literal(&value.value).map_err(|error| placed(error, || place(expression))),
            Expr::Nested(inner) => self.scalar(inner, level),
            Expr::BinaryOp { left, op, right } => {
                self.binary(expression, left, op, right, level).map_err(|error| placed(error, || place(left.as_ref())))
            }
            Expr::Function(function) => self
                .function(function, level)
                .map_err(|error| placed(error, || function.name.0.last()?.as_ident().and_then(name_place))),
            other => self.other(other, level).map_err(|error| placed(error, || place(other))),
        })
    }

    fn scalars<'e>(&self, expressions: impl IntoIterator<Item = &'e Expr>, level: &Level<'_>) -> Result<Vec<Scalar>> {
        expressions.into_iter().map(|expression| self.scalar(expression, level)).collect()
    }

    /// What is rarer. Kept apart from [`scalar`](Self::scalar), whose frames lie on the stack once per level.
    fn other(&self, expression: &Expr, level: &Level<'_>) -> Result<Scalar> {
        match expression {
            Expr::UnaryOp { op, expr } => self.unary(op, expr, level),
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
                let matches = self.operator("~", vec![value, pattern])?;
                Ok(if *negated { matches.negate() } else { matches })
            }
            Expr::RLike { negated, expr, pattern, .. } => {
                let matches = self.operator("~", vec![self.scalar(expr, level)?, self.scalar(pattern, level)?])?;
                Ok(if *negated { matches.negate() } else { matches })
            }
            Expr::AnyOp { left, compare_op, right, .. } => {
                self.any_or_all(left, compare_op, right, Quantifier::Any, level)
            }
            Expr::AllOp { left, compare_op, right } => self.any_or_all(left, compare_op, right, Quantifier::All, level),
            Expr::Cast { kind, expr, data_type, .. } => {
                let is_try = matches!(kind, CastKind::TryCast | CastKind::SafeCast);
                let (scalar, to) = (self.scalar(expr, level)?, self.sql_type(data_type)?);
                let scalar = self.looked_up(scalar, &to, level)?;
                let scalar = self.explicit(scalar, &to, is_try)?;
                self.with_seconds_digits(scalar, literals::seconds_digits(data_type))
            }
            Expr::Convert { is_try, expr, data_type: Some(data_type), .. } => {
                self.explicit(self.scalar(expr, level)?, &self.sql_type(data_type)?, *is_try)
            }
            Expr::TypedString(typed) => {
                let to = self.sql_type(&typed.data_type)?;
                let scalar = self.explicit(self.literal(&typed.value.value)?, &to, false)?;
                self.with_seconds_digits(scalar, literals::seconds_digits(&typed.data_type))
            }
            Expr::Interval(interval) => self.interval(interval, level),
            Expr::AtTimeZone { timestamp, time_zone } => {
                let (timestamp, zone) = (self.scalar(timestamp, level)?, self.scalar(time_zone, level)?);
                self.call("timezone", vec![zone, timestamp])
            }
            Expr::Extract { field, expr, .. } => {
                let name = match field {
                    DateTimeField::Custom(name) => name.value.to_lowercase(),
                    other => other.to_string().to_lowercase(),
                };
                let field = Scalar::Constant(Constant::text(name));
                self.call("extract", vec![field, self.scalar(expr, level)?])
            }
            Expr::IsNormalized { expr, form, negated } => {
                let mut arguments = vec![self.scalar(expr, level)?];
                arguments.extend(form.map(|form| Scalar::Constant(Constant::text(form.to_string()))));
                let is_normal = self.call("is_normalized", arguments)?;
                Ok(if *negated { is_normal.negate() } else { is_normal })
            }
            Expr::Ceil { expr, field } => self.rounded("ceil", expr, field, level),
            Expr::Floor { expr, field } => self.rounded("floor", expr, field, level),
            Expr::Position { expr, r#in } => {
                let (wanted, text) = (self.scalar(expr, level)?, self.scalar(r#in, level)?);
                self.call(if has_function("position") { "position" } else { "strpos" }, vec![text, wanted])
            }
            Expr::Substring { expr, substring_from, substring_for, shorthand, .. } => {
                let mut arguments = vec![self.scalar(expr, level)?];
                match (substring_from, substring_for) {
                    (from, Some(length)) => {
                        let from = from.as_ref().map(|from| self.scalar(from, level)).transpose()?;
                        arguments.push(from.unwrap_or_else(|| Scalar::Constant(Constant::integer(1))));
                        arguments.push(self.scalar(length, level)?);
                    }
                    (Some(from), None) => arguments.push(self.scalar(from, level)?),
                    (None, None) => {}
                }
                self.call(if *shorthand { "substr" } else { "substring" }, arguments)
            }
            Expr::Trim { trim_where, trim_what, expr, trim_characters } => {
                let name = match trim_where {
                    Some(TrimWhereField::Leading) => "ltrim",
                    Some(TrimWhereField::Trailing) => "rtrim",
                    Some(TrimWhereField::Both) | None => "btrim",
                };
                let mut arguments = vec![self.scalar(expr, level)?];
                let characters = trim_what.iter().map(AsRef::as_ref).chain(trim_characters.iter().flatten());
                arguments.extend(self.scalars(characters, level)?);
                self.call(name, arguments)
            }
            Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
                let parts = [expr, overlay_what, overlay_from].into_iter().chain(overlay_for);
                let arguments = self.scalars(parts.map(AsRef::as_ref), level)?;
                self.call("overlay", arguments)
            }
            Expr::Collate { expr, collation } => {
                let name = collation.0.last().and_then(|part| part.as_ident()).map(|name| name.value.clone());
                let name = name.unwrap_or_default();
                if !["C", "POSIX", "default", "ucs_basic"].iter().any(|known| name.eq_ignore_ascii_case(known)) {
                    let error = unsupported(format!("the collation \"{name}\""));
                    return Err(error.with_hint("texts are sorted by their bytes, as by the collation \"C\""));
                }
                self.scalar(expr, level)
            }
            Expr::Case { operand, conditions, else_result, .. } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref(), level)
            }
            Expr::Exists { subquery, negated } => {
                let rows = self.subquery(subquery, level)?;
                let exists = subquery_scalar(SubqueryKind::Exists, rows);
                Ok(if *negated { exists.negate() } else { exists })
            }
            Expr::Subquery(query) => {
                let rows = self.one_column(query, level)?;
                Ok(subquery_scalar(SubqueryKind::Value, rows))
            }
            Expr::Tuple(parts) => {
                let fields = self.scalars(parts, level)?;
                Ok(row(fields))
            }
            Expr::Struct { values, fields } => {
                let names = values.iter().enumerate().map(|(index, value)| match (fields.get(index), value) {
                    (Some(field), _) if field.field_name.is_some() => {
                        field.field_name.as_ref().map(normalized).unwrap_or_default()
                    }
                    (_, Expr::Named { name, .. }) => normalized(name),
                    _ => format!("f{}", index + 1),
                });
                let names = names.collect::<Vec<_>>();
                let values = values.iter().map(|value| match value {
                    Expr::Named { expr, .. } => self.typed_scalar(expr, level),
                    other => self.typed_scalar(other, level),
                });
                Ok(record(values.collect::<Result<_>>()?, names.into_iter()))
            }
            Expr::Dictionary(fields) => {
                let values = fields.iter().map(|field| self.typed_scalar(&field.value, level));
                let names = fields.iter().map(|field| normalized(&field.key));
                Ok(record(values.collect::<Result<_>>()?, names))
            }
            Expr::Map(map) => {
                let keys = self.scalars(map.entries.iter().map(|entry| entry.key.as_ref()), level)?;
                let values = self.scalars(map.entries.iter().map(|entry| entry.value.as_ref()), level)?;
                let arguments = vec![self.array(keys)?, self.array(values)?];
                self.call("map", arguments)
            }
            Expr::Array(array) => {
                let elements = self.scalars(&array.elem, level)?;
                self.array(elements)
            }
            Expr::CompoundFieldAccess { root, access_chain } => self.accessed(root, access_chain, level),
            Expr::Named { expr, .. } => self.scalar(expr, level),
            Expr::Lambda(_) => Err(unsupported("a lambda outside of a function that takes one")),
            other => Err(unsupported(other)),
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
            UnaryOperator::PGPrefixFactorial => return self.call("factorial", vec![scalar]),
            other => return Err(unsupported(format!("the operator {other}"))),
        };
        self.operator(sign, vec![scalar])
    }

    fn null_test(&self, inner: &Expr, is_negated: bool, level: &Level<'_>) -> Result<Scalar> {
        let scalar = self.typed_scalar(inner, level)?;
        // A row is NULL if all fields are, and not NULL if none is.
        if let Scalar::Record { fields, .. } = scalar {
            let tests = fields.into_iter().map(|field| {
                let test = Scalar::IsNull(Box::new(field));
                if is_negated { test.negate() } else { test }
            });
            return Ok(Scalar::all(tests));
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
        let (left, right) = (self.scalar(left, level)?, self.scalar(right, level)?);
        self.operator(&sign, vec![left, right])
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

    pub(super) fn between(&self, value: Scalar, low: Scalar, high: Scalar) -> Result<Scalar> {
        let from = self.compare(Comparison::GreaterOrEqual, value.clone(), low)?;
        let to = self.compare(Comparison::LessOrEqual, value, high)?;
        Ok(Scalar::all([from, to]))
    }

    /// LIKE and ILIKE; with `any`, of any of several patterns.
    fn like(
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
                    (first, None) => first,
                    _ => {
                        let error = Error::input("invalid escape string").with_code("22019");
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
                .map(|pattern| self.like_one(value.clone(), pattern, escape, is_negated, ignores_case))
                .collect::<Result<Vec<_>>>()?;
            return Ok(match quantifier {
                Quantifier::Any => Scalar::any(terms),
                Quantifier::All => Scalar::all(terms),
            });
        }
        let pattern = self.scalar(pattern, level)?;
        self.like_one(value, pattern, escape, is_negated, ignores_case)
    }

    fn like_one(
        &self,
        value: Scalar,
        pattern: Scalar,
        escape: Option<char>,
        is_negated: bool,
        ignores_case: bool,
    ) -> Result<Scalar> {
        let is_text = |scalar: &Scalar| {
            matches!(
                scalar.sql_type(),
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
        // The blanks of char(n) count in LIKE, as they are stored.
        let value = Box::new(self.cast(value, &SqlType::Text, super::operators::Way::Implicit)?);
        let pattern = Box::new(self.cast(pattern, &SqlType::Text, super::operators::Way::Implicit)?);
        Ok(Scalar::Like { value, pattern, escape, is_negated, ignores_case })
    }

    fn rounded(&self, name: &str, inner: &Expr, field: &CeilFloorKind, level: &Level<'_>) -> Result<Scalar> {
        let scalar = self.scalar(inner, level)?;
        match field {
            CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) => self.call(name, vec![scalar]),
            CeilFloorKind::DateTimeField(field) => Err(unsupported(format!("{name} to {field}"))),
            CeilFloorKind::Scale(scale) => {
                let scale = self.literal(&scale.value)?;
                self.call(name, vec![scalar, scale])
            }
        }
    }

    /// The rows of a query with names where they have numbers of tables and types, as PostgreSQL shows them.
    pub(super) fn with_names_of_objects(&self, mut rows: super::Rows) -> Result<super::Rows> {
        let withs = super::Withs::default();
        let mut computed = Vec::new();
        for output in &mut rows.outputs {
            let level = Level::new(None, &withs, super::scope::Namespace::default(), Clause::Select);
            let name = match (name_function(&output.scalar.sql_type()), output.scalar.sql_type()) {
                (Some(function), _) => self.named_call(function, vec![output.scalar.clone()], &level)?,
                (None, SqlType::Array(_)) if VECTORS.contains(&output.name.as_str()) => {
                    let blank = Scalar::Constant(Constant::text(" "));
                    self.named_call("array_to_string", vec![output.scalar.clone(), blank], &level)?
                }
                _ => continue,
            };
            let column = self.column_for(&output.name, &name);
            output.scalar = column.scalar();
            computed.push((column, name));
        }
        rows.relation = mapped_in_order(rows.relation, computed);
        Ok(rows)
    }

    /// A text that names a table or a type is looked up where it is cast to its number; a literal when it is bound.
    fn looked_up(&self, scalar: Scalar, to: &SqlType, level: &Level<'_>) -> Result<Scalar> {
        if matches!(to, SqlType::Text | SqlType::Varchar(_) | SqlType::Name)
            && let Some(function) = name_function(&scalar.sql_type())
        {
            return self.named_call(function, vec![scalar], level);
        }
        let function = match to {
            SqlType::Oid(OidKind::Class) => "to_regclass",
            SqlType::Oid(OidKind::Type) => "to_regtype",
            _ => return Ok(scalar),
        };
        let is_name = match &scalar {
            Scalar::Constant(_) => false,
            Scalar::Parameter { sql_type: SqlType::Unknown, .. } => true,
            other => matches!(other.sql_type(), SqlType::Text | SqlType::Varchar(_) | SqlType::Name),
        };
        if !is_name {
            return Ok(scalar);
        }
        let name = self.cast(scalar, &SqlType::Text, Way::Explicit)?;
        self.named_call(function, vec![name], level)
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
        let operand = operand.map(|operand| self.scalar(operand, level)).transpose()?;
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
        values.extend(otherwise.map(|otherwise| self.scalar(otherwise, level)).transpose()?);
        let (mut values, sql_type) = self.in_common(values, "CASE")?;
        let otherwise = if values.len() > tests.len() { values.pop().map(Box::new) } else { None };
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

    /// ARRAY[…] of elements. Fails with 42804 if they have no common type.
    pub(super) fn array(&self, elements: Vec<Scalar>) -> Result<Scalar> {
        let types = elements.iter().map(Scalar::sql_type).collect::<Vec<_>>();
        // Without a type yet, so that a cast or a context gives one.
        if types.iter().all(|sql_type| *sql_type == SqlType::Unknown) {
            return Ok(Scalar::Array { elements, sql_type: SqlType::array_of(SqlType::Unknown) });
        }
        let (elements, common) = self.in_common(elements, "ARRAY")?;
        Ok(Scalar::Array { elements, sql_type: SqlType::array_of(common) })
    }

    /// Subscripts, slices and fields behind a value.
    fn accessed(&self, root: &Expr, chain: &[AccessExpr], level: &Level<'_>) -> Result<Scalar> {
        // `t.a[1]`, `s.t.a.b`: the names up to the first subscript are one.
        let mut names = match root {
            Expr::Identifier(name) => vec![name.clone()],
            Expr::CompoundIdentifier(names) => names.clone(),
            _ => vec![],
        };
        let mut chain = chain.iter().peekable();
        if !names.is_empty() {
            while let Some(AccessExpr::Dot(Expr::Identifier(name))) = chain.peek() {
                names.push(name.clone());
                chain.next();
            }
        }
        let mut scalar = match names.as_slice() {
            [] => self.typed_scalar(root, level)?,
            [name] => self.identifier(name, level)?,
            names => self.compound(names, level)?,
        };
        for access in chain {
            scalar = match access {
                AccessExpr::Dot(Expr::Identifier(name)) => self.field(scalar, name)?,
                // A call as a method: what is before the point is the first argument.
                AccessExpr::Dot(Expr::Function(function)) if function.over.is_none() => {
                    let name = bare_name(function);
                    let mut arguments = vec![scalar];
                    arguments.extend(self.arguments(&name, written(function), level)?);
                    self.named_call(&name, arguments, level)?
                }
                AccessExpr::Dot(other) => return Err(unsupported(format!(".{other}"))),
                AccessExpr::Subscript(Subscript::Index { index }) => {
                    let index = self.scalar(index, level)?;
                    self.subscript(scalar, index)?
                }
                AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, stride: None })
                    if is_text(&scalar) =>
                {
                    let low = match lower_bound {
                        Some(low) => self.scalar(low, level)?,
                        None => Scalar::Constant(Constant::integer(1)),
                    };
                    let mut arguments = vec![scalar, low.clone()];
                    if let Some(high) = upper_bound {
                        let length = self.operator("-", vec![self.scalar(high, level)?, low])?;
                        let number = |number| Scalar::Constant(Constant::integer(number));
                        let length = self.operator("+", vec![length, number(1)])?;
                        // An end before the start is an empty part.
                        arguments.push(self.call("greatest", vec![length, number(0)])?);
                    }
                    self.call("substr", arguments)?
                }
                AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, stride: None }) => {
                    let bound = |bound: &Option<Expr>, open: i32| match bound {
                        Some(bound) => self.scalar(bound, level),
                        None => Ok(Scalar::Constant(Constant::integer(open))),
                    };
                    let (low, high) = (bound(lower_bound, 1)?, bound(upper_bound, i32::MAX)?);
                    self.call(SLICE, vec![scalar, low, high])?
                }
                AccessExpr::Subscript(_) => return Err(unsupported("a slice with a step")),
            };
        }
        Ok(scalar)
    }

    fn subscript(&self, scalar: Scalar, index: Scalar) -> Result<Scalar> {
        match scalar.sql_type() {
            SqlType::Record(_) => match &index {
                Scalar::Constant(constant) => match constant.value.try_as_str() {
                    Some(Some(name)) => self.field(scalar, &sqlparser::ast::Ident::with_quote('"', name)),
                    _ => Err(Error::input("a field of a struct is named by a text").with_code("42804")),
                },
                _ => Err(Error::input("a field of a struct is named by a literal").with_code("42804")),
            },
            SqlType::Array(_) => self.call(SUBSCRIPT, vec![scalar, index]),
            _ if is_text(&scalar) => {
                let one = Scalar::Constant(Constant::integer(1));
                self.call("substr", vec![scalar, index, one])
            }
            SqlType::Map(_) => self.call("map_extract_value", vec![scalar, index]),
            SqlType::Json | SqlType::Jsonb => self.operator("->", vec![scalar, index]),
            other => {
                let message = format!("cannot subscript type {other} because it does not support subscripting");
                Err(Error::input(message).with_code("42804"))
            }
        }
    }

    /// A subquery's rows.
    pub(super) fn subquery(&self, query: &Query, level: &Level<'_>) -> Result<Rows> {
        let rows = self.query(query, Some(level), level.withs)?;
        self.settled(rows)
    }

    /// The rows of a subquery that must have one column. Fails with 42601 if it has more.
    pub(super) fn one_column(&self, query: &Query, level: &Level<'_>) -> Result<Rows> {
        let rows = self.subquery(query, level)?;
        if rows.outputs.len() != 1 {
            let error = match rows.outputs.len() {
                0 => Error::input("a subquery whose value is used needs a column")
                    .with_hint("say what it selects: (SELECT column FROM …)"),
                _ => Error::input("subquery must return only one column"),
            };
            return Err(placed(error.with_code("42601"), || place(query)));
        }
        Ok(rows)
    }

    fn any_or_all(
        &self,
        left: &Expr,
        op: &BinaryOperator,
        right: &Expr,
        quantifier: Quantifier,
        level: &Level<'_>,
    ) -> Result<Scalar> {
        let left = self.scalar(left, level)?;
        let sign = sign_of(op);
        match unnested(right) {
            Expr::Subquery(query) => {
                let rows = self.subquery(query, level)?;
                self.quantified(left, &sign, quantifier, rows)
            }
            other => {
                let array = self.scalar(other, level)?;
                self.over_array(left, &sign, quantifier, array)
            }
        }
    }

    /// `left sign ANY/ALL (array)`. Fails with 42809 if it is no array.
    pub(super) fn over_array(&self, left: Scalar, sign: &str, quantifier: Quantifier, array: Scalar) -> Result<Scalar> {
        let array = match array.sql_type() {
            SqlType::Unknown => {
                let element = match left.sql_type() {
                    SqlType::Unknown => SqlType::Text,
                    other => other,
                };
                self.cast(array, &SqlType::array_of(element), super::operators::Way::Implicit)?
            }
            SqlType::Array(_) => array,
            _ => {
                let error = Error::input("op ANY/ALL (array) requires array on right side").with_code("42809");
                return Err(error.with_hint("write ARRAY[…], or IN (…) for a list"));
            }
        };
        let elements = match array {
            Scalar::Array { elements, .. } => elements,
            Scalar::Constant(constant) if constant.is_null() => {
                return Ok(Scalar::Constant(Constant::null(SqlType::Boolean)));
            }
            Scalar::Constant(constant) => constant_elements(&constant)?,
            array => return self.over_elements(left, sign, quantifier, array),
        };
        match (sign, quantifier) {
            ("=", Quantifier::Any) if !elements.is_empty() => return self.in_list(left, elements, false),
            ("<>", Quantifier::All) if !elements.is_empty() => return self.in_list(left, elements, true),
            _ => {}
        }
        let terms = elements.into_iter().map(|element| self.operator(sign, vec![left.clone(), element]));
        let terms = terms.collect::<Result<Vec<_>>>()?;
        Ok(match quantifier {
            Quantifier::Any => Scalar::any(terms),
            Quantifier::All => Scalar::all(terms),
        })
    }

    /// The same of an array that is known with each row: of the rows that it unnests to.
    fn over_elements(&self, left: Scalar, sign: &str, quantifier: Quantifier, array: Scalar) -> Result<Scalar> {
        let element = array.sql_type().innermost().clone();
        let column = self.numbers.named("element", element, true);
        let is_null = array.nullable().then(|| Scalar::IsNull(Box::new(array.clone())));
        let item = FunctionItem { array, columns: vec![column.clone()] };
        let relation = Relation::TableFunction(TableFunction {
            input: Box::new(Relation::one_row()),
            items: vec![item],
            ordinality: None,
            keeps_all: false,
        });
        let output = super::Output { name: column.name.clone(), scalar: column.scalar() };
        let any = self.quantified(left, sign, quantifier, Rows { relation, outputs: vec![output] })?;
        Ok(match is_null {
            None => any,
            Some(is_null) => Scalar::Case {
                arms: vec![(is_null, Scalar::Constant(Constant::null(SqlType::Boolean)))],
                otherwise: Some(Box::new(any)),
                sql_type: SqlType::Boolean,
            },
        })
    }

    /// `left sign ANY/ALL (subquery)`, `left IN (subquery)`. Fails with 42601 if the sides have another number of
    /// columns, 42883 if there is no such operator.
    pub(super) fn quantified(&self, left: Scalar, sign: &str, quantifier: Quantifier, rows: Rows) -> Result<Scalar> {
        let columns = rows.columns();
        let is_whole = matches!(columns.as_slice(), [one] if matches!(one.sql_type, SqlType::Record(_)));
        let left = match left {
            Scalar::Record { fields, .. } if !is_whole && columns.len() == fields.len() => fields,
            Scalar::Record { fields, .. } if !is_whole => {
                let few = columns.len() < fields.len();
                let message = if few { "subquery has too few columns" } else { "subquery has too many columns" };
                return Err(Error::input(message).with_code("42601"));
            }
            one if columns.len() == 1 => vec![one],
            _ => {
                let message =
                    if columns.is_empty() { "subquery has too few columns" } else { "subquery has too many columns" };
                return Err(Error::input(message).with_code("42601"));
            }
        };
        let comparison = sign_comparison(sign);
        let is_plain = left.len() == 1 || matches!(comparison, Some(Comparison::Equal | Comparison::NotEqual));
        // The comparison that each pair of columns makes, and their types.
        let mut sides = Vec::with_capacity(left.len());
        if let Some(comparison) = comparison.filter(|_| is_plain) {
            for (left, column) in left.iter().zip(&columns) {
                match self.compare(comparison, left.clone(), column.scalar())? {
                    Scalar::Compare { left, right, .. } => sides.push((*left, *right)),
                    _ => break,
                }
            }
            if sides.len() == left.len() {
                let (mut keys, mut computed, mut compared) = (Vec::new(), Vec::new(), Vec::new());
                for ((left, right), column) in sides.into_iter().zip(&columns) {
                    keys.push(left);
                    let right_column = match right.as_column() {
                        Some(id) if id == column.id => column.clone(),
                        _ => {
                            let column = self.column_for(&column.name, &right);
                            computed.push((column.clone(), right));
                            column
                        }
                    };
                    compared.push(right_column);
                }
                let kind = SubqueryKind::Quantified { left: keys, comparison, quantifier };
                let relation = rows.relation.mapped(computed);
                return Ok(Scalar::Subquery(Box::new(Subquery { kind, relation, columns: compared })));
            }
        }
        // What no comparison of columns says is computed with each row of the subquery: is it TRUE for one, for all?
        let test = match (left.len(), columns.first()) {
            (1, Some(column)) => {
                let left = left.into_iter().next().ok_or_else(|| Error::bug("a side without a value"))?;
                self.operator(sign, vec![left, column.scalar()])?
            }
            _ => {
                let right = row(columns.iter().map(Column::scalar).collect());
                self.operator(sign, vec![row(left), right])?
            }
        };
        let column = self.column_for("test", &test);
        let kind =
            SubqueryKind::Quantified { left: vec![Scalar::boolean(true)], comparison: Comparison::Equal, quantifier };
        let relation = rows.relation.mapped(vec![(column.clone(), test)]);
        Ok(Scalar::Subquery(Box::new(Subquery { kind, relation, columns: vec![column] })))
    }
}

/// A subquery as an expression.
pub(super) fn subquery_scalar(kind: SubqueryKind, rows: Rows) -> Scalar {
    let columns = rows.columns();
    Scalar::Subquery(Box::new(Subquery { kind, relation: rows.relation, columns }))
}

/// An expression without the parentheses around it.
pub(super) fn unnested(mut expression: &Expr) -> &Expr {
    while let Expr::Nested(inner) = expression {
        expression = inner;
    }
    expression
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

/// An operator's sign in PostgreSQL.
fn sign_of(op: &BinaryOperator) -> String {
    match op {
        BinaryOperator::NotEq => "<>".to_owned(),
        // The parser's generic dialect reads PostgreSQL's power as an exclusive or.
        BinaryOperator::BitwiseXor | BinaryOperator::PGExp => "^".to_owned(),
        BinaryOperator::PGBitwiseXor => "#".to_owned(),
        BinaryOperator::DuckIntegerDivide | BinaryOperator::MyIntegerDivide => "//".to_owned(),
        BinaryOperator::PGCustomBinaryOperator(parts) => parts.last().cloned().unwrap_or_default(),
        BinaryOperator::Custom(sign) => sign.clone(),
        other => other.to_string(),
    }
}

/// The elements of an array that is known.
pub(super) fn constant_elements(constant: &Constant) -> Result<Vec<Scalar>> {
    let element = constant.sql_type.innermost().clone();
    let ScalarValue::List(list) = &constant.value else { return Err(Error::bug("an array's value is no list")) };
    let values = list.values();
    let values = (0..values.len()).map(|index| {
        let value = ScalarValue::try_from_array(values, index)
            .map_err(|error| Error::bug(format!("an array's element cannot be read: {error}")))?;
        Ok(Scalar::Constant(Constant { value, sql_type: element.clone() }))
    });
    values.collect()
}

/// Whether a value is a text, or a literal in quotes.
fn is_text(scalar: &Scalar) -> bool {
    matches!(scalar.sql_type(), SqlType::Text | SqlType::Varchar(_) | SqlType::Char(_) | SqlType::Unknown)
}

/// Columns of `pg_index` that are vectors in PostgreSQL: clients read their numbers with blanks between them.
const VECTORS: [&str; 4] = ["indkey", "indoption", "indclass", "indcollation"];

/// The function that gives the names of what numbers of a type stand for.
fn name_function(sql_type: &SqlType) -> Option<&'static str> {
    match sql_type {
        SqlType::Oid(OidKind::Class) => Some("name of regclass"),
        SqlType::Oid(OidKind::Type) => Some("name of regtype"),
        SqlType::Oid(OidKind::Namespace) => Some("name of regnamespace"),
        _ => None,
    }
}

/// Columns computed of a relation's, below its sort and its limit: what has subqueries becomes joins, which keep no
/// order.
fn mapped_in_order(relation: Relation, columns: Vec<(Column, Scalar)>) -> Relation {
    match relation {
        Relation::Sort { input, keys } => Relation::Sort { input: Box::new(input.mapped(columns)), keys },
        Relation::Limit(limit) => {
            let input = Box::new(mapped_in_order(*limit.input, columns));
            Relation::Limit(crate::algebra::Limit { input, ..limit })
        }
        Relation::Definitions { definitions, input } => {
            Relation::Definitions { definitions, input: Box::new(mapped_in_order(*input, columns)) }
        }
        other => other.mapped(columns),
    }
}
