//! Every kind of expression.

use diligence_base::{Error, Result};
use diligence_types::SqlType;
use diligence_types::functions::has_function;
use diligence_types::sql_type::Category;
use sqlparser::ast::{
    BinaryOperator, CaseWhen, CastKind, CeilFloorKind, DateTimeField, Expr, TrimWhereField, UnaryOperator, Value,
    ValueWithSpan,
};

use super::functions::{bare_name, written};
use super::operators::{Way, record, row};
use super::scope::{Clause, Level};
use super::subqueries::subquery_scalar;
use super::{Binder, STACK_GROWTH, STACK_RED_ZONE, literals, name_place, normalized, place, placed, unsupported};
use crate::algebra::{Comparison, Constant, Quantifier, Scalar, SubqueryKind};
use crate::parse::WHOLE_ROW;

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
                let matches = self.operator("~", vec![self.padded(value)?, pattern])?;
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
                if let Expr::Value(value) = expr.as_ref()
                    && let Some(column) = self.column_instead(&value.value, level)?
                {
                    return Ok(column);
                }
                let is_try = matches!(kind, CastKind::TryCast | CastKind::SafeCast);
                let (scalar, to) = (self.cast_input(expr, level)?, self.cast_type(data_type)?);
                if let Some(made) = self.json_as_type(expr, &scalar.sql_type(), &to, is_try, level)? {
                    return Ok(made);
                }
                // What a domain demands is looked at beside the value.
                let scalar = match &to {
                    SqlType::Domain(_) => self.evaluated_once(scalar, level)?,
                    _ => self.looked_up(scalar, &to, level)?,
                };
                self.explicit(scalar, &to, is_try)
            }
            Expr::Convert { is_try, expr, data_type: Some(data_type), .. } => {
                self.explicit(self.scalar(expr, level)?, &self.sql_type(data_type)?, *is_try)
            }
            Expr::TypedString(typed) => {
                let to = self.timed_type(&typed.data_type)?;
                self.explicit(self.literal(&typed.value.value)?, &to, false)
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
                self.part_of("extract", &name, self.scalar(expr, level)?, level)
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
            Expr::Collate { expr, collation } => self.collated(expr, collation, level),
            Expr::Case { operand, conditions, else_result, .. } => self.without_rows("CASE", level, || {
                self.case(operand.as_deref(), conditions, else_result.as_deref(), level)
            }),
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
                // A NULL is of the type that others decide.
                let values = fields.iter().map(|field| match self.scalar(&field.value, level)? {
                    null @ Scalar::Constant(_) if matches!(&null, Scalar::Constant(value) if value.is_null()) => {
                        Ok(null)
                    }
                    value => self.typed(value),
                });
                let names = fields.iter().map(|field| normalized(&field.key));
                Ok(record(values.collect::<Result<_>>()?, names))
            }
            Expr::Map(map) => {
                let keys = self.scalars(map.entries.iter().map(|entry| entry.key.as_ref()), level)?;
                let values = self.scalars(map.entries.iter().map(|entry| entry.value.as_ref()), level)?;
                let arguments = vec![self.array(keys)?, self.array(values)?];
                self.call("map", arguments)
            }
            // DuckDB's `[]` gets its type from what is around it.
            Expr::Array(array) if array.named && array.elem.is_empty() => {
                let error = Error::input("cannot determine type of empty array").with_code("42P18");
                Err(error.with_hint("Explicitly cast to the desired type, for example ARRAY[]::integer[]"))
            }
            Expr::Array(array) => {
                let elements = self.scalars(&array.elem, level)?;
                self.array(if array.named { self.with_own_digits(elements)? } else { elements })
            }
            Expr::CompoundFieldAccess { root, access_chain } => self.accessed(root, access_chain, level),
            Expr::Named { expr, .. } => self.scalar(expr, level),
            Expr::Lambda(_) => Err(unsupported("a lambda outside of a function that takes one")),
            other => Err(unsupported(other)),
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

    pub(super) fn between(&self, value: Scalar, low: Scalar, high: Scalar) -> Result<Scalar> {
        let from = self.compare(Comparison::GreaterOrEqual, value.clone(), low)?;
        let to = self.compare(Comparison::LessOrEqual, value, high)?;
        Ok(Scalar::all([from, to]))
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

    /// Literals of an `ARRAY[…]`, each with the digits behind the point that it is written with. Fails like
    /// [`cast`](Self::cast).
    fn with_own_digits(&self, elements: Vec<Scalar>) -> Result<Vec<Scalar>> {
        let scale = |element: &Scalar| match element.as_constant()?.sql_type {
            SqlType::Numeric(Some((_, scale))) => Some(scale),
            SqlType::SmallInt | SqlType::Integer | SqlType::BigInt => Some(0),
            _ => None,
        };
        let is_null = |element: &&Scalar| element.as_constant().is_some_and(Constant::is_null);
        let scales = elements.iter().filter(|element| !is_null(element)).map(scale).collect::<Option<Vec<_>>>();
        match scales {
            Some(scales) if scales.windows(2).any(|pair| pair[0] != pair[1]) => {
                let elements = elements.into_iter();
                elements.map(|element| self.cast(element, &SqlType::NUMERIC, Way::Implicit)).collect()
            }
            _ => Ok(elements),
        }
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

/// An expression without the parentheses around it.
pub(super) fn unnested(mut expression: &Expr) -> &Expr {
    while let Expr::Nested(inner) = expression {
        expression = inner;
    }
    expression
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

/// An operator's sign in PostgreSQL.
pub(super) fn sign_of(op: &BinaryOperator) -> String {
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

/// Whether it is an array without elements, or with such arrays only.
fn is_empty_array(expression: &Expr) -> bool {
    match expression {
        Expr::Nested(inner) => is_empty_array(inner),
        Expr::Array(array) => array.elem.iter().all(is_empty_array),
        _ => false,
    }
}
