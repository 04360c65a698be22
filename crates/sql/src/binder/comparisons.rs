//! Comparisons: of values, rows and lists of values, and what values are ordered, grouped and compared by.

use diligence_base::{Error, Result};
use diligence_types::SqlType;
use diligence_types::coercion;
use diligence_types::functions::{self, Body, ScalarCall, resolve_scalar};
use diligence_types::record_type::RecordType;

use super::Binder;
use super::collations::{COMPARISON, grouping_key, unlabelled};
use super::common_types::{beside_literals, has_length, has_unknown, is_open_parameter, with_room};
use super::fields::{are_structs, with_nulls_of};
use super::operators::{comparison_of, has_entries};
use crate::algebra::{Column, Comparison, Constant, Relation, Scalar};

impl Binder<'_> {
    /// A comparison: of rows, part by part. Fails with 42883 if there is no such operator for the types.
    pub(super) fn compare(&self, comparison: Comparison, left: Scalar, right: Scalar) -> Result<Scalar> {
        match self.structs_alike(left, right)? {
            (Scalar::Record { fields: left, sql_type: one }, Scalar::Record { fields: right, sql_type: other })
                if !are_structs([&one, &other]) =>
            {
                self.compare_rows(comparison, left, right)
            }
            (left, right) => {
                if let Some(value) = beside_null(&left, &right) {
                    let is_null = Scalar::IsNull(Box::new(self.typed(value.clone())?));
                    return Ok(match comparison {
                        Comparison::IsNotDistinctFrom => is_null,
                        Comparison::IsDistinctFrom => is_null.negate(),
                        _ => Scalar::Constant(Constant::null(SqlType::Boolean)),
                    });
                }
                if let (SqlType::Record(left), SqlType::Record(right)) = (left.sql_type(), right.sql_type()) {
                    refuse_dissimilar(&left, &right)?;
                }
                // NULLs within lists, structs and maps have the types of the other side.
                let left = with_nulls_of(left, &right.sql_type());
                let right = with_nulls_of(right, &left.sql_type());
                let (left, right) = self.fields_in_common(left, right)?;
                let types = (left.sql_type(), right.sql_type());
                let (left, right) = match types.0 != types.1 && has_entries(&types.0) && has_entries(&types.1) {
                    true => self.entries_in_common(left, right)?,
                    false => (left, right),
                };
                let left = self.beside_type(left, &right.sql_type())?;
                let right = self.beside_type(right, &left.sql_type())?;
                // IS DISTINCT FROM has the types of `=`.
                let sign = match comparison {
                    Comparison::IsDistinctFrom | Comparison::IsNotDistinctFrom => "=",
                    other => other.sign(),
                };
                let candidates = [Self::candidate(&left), Self::candidate(&right)];
                let mut call = resolve_scalar(sign, &candidates)?;
                let derived = self.derived_collation([&left, &right])?;
                self.collated_call(&mut call, &derived)?;
                derived.decided(COMPARISON)?;
                let same = call.arguments.len() >= 2 && call.arguments[0].is_same(&call.arguments[1]);
                // Arrays have an operator of their own, which knows the collation, and maps one.
                let is_nested = matches!(call.arguments.first(), Some(SqlType::Array(_) | SqlType::Map(_)));
                let has_key = same && !is_nested && functions::order_key(&call.arguments[0]).is_some();
                let is_special =
                    matches!(&call.overload.body, Body::Special(special) if comparison_of(*special).is_some());
                if has_key || is_special {
                    let sides = [left, right].into_iter().zip(&call.arguments);
                    let sides = sides.map(|(side, to)| self.held_as(side, to)).collect::<Result<_>>()?;
                    return self.keyed_comparison(comparison, sides);
                }
                let (call, mut sides) = with_room(sign, call, vec![left, right])?;
                if sign == comparison.sign() {
                    return self.called(call, sides);
                }
                let right = sides.pop().ok_or_else(|| Error::bug("no sides"))?;
                self.compare_nulls(comparison, call, sides.remove(0), right)
            }
        }
    }

    /// Two maps, or lists of structs or maps, of one type. Fails with 42804 if what is in them has none in common.
    fn entries_in_common(&self, left: Scalar, right: Scalar) -> Result<(Scalar, Scalar)> {
        let (sides, _) = self.in_common(vec![left, right], "comparison")?;
        let mut sides = sides.into_iter();
        sides.next().zip(sides.next()).ok_or_else(|| Error::bug("a comparison of other than two values"))
    }

    /// IS [NOT] DISTINCT FROM by a function that is `=`.
    fn compare_nulls(&self, comparison: Comparison, call: ScalarCall, left: Scalar, right: Scalar) -> Result<Scalar> {
        let is_null = |side: &Scalar| Scalar::IsNull(Box::new(side.clone()));
        let both = Scalar::And(vec![is_null(&left), is_null(&right)]);
        let (left_null, right_null) = (is_null(&left), is_null(&right));
        let either = Scalar::Or(vec![left_null, right_null]);
        let equal = self.called(call, vec![left, right])?;
        let not_distinct = Scalar::Case {
            arms: vec![(both, Scalar::boolean(true)), (either, Scalar::boolean(false))],
            otherwise: Some(Box::new(equal)),
            sql_type: SqlType::Boolean,
        };
        Ok(if comparison == Comparison::IsDistinctFrom { not_distinct.negate() } else { not_distinct })
    }

    /// Rows, part by part: equal if all parts are, less by the first part that differs. Fails with 42601 for another
    /// number of parts.
    fn compare_rows(&self, comparison: Comparison, left: Vec<Scalar>, right: Vec<Scalar>) -> Result<Scalar> {
        if left.len() != right.len() {
            return Err(Error::input("unequal number of entries in row expressions").with_code("42601"));
        }
        if left.is_empty() {
            return Err(Error::input("cannot compare rows of zero length").with_code("0A000"));
        }
        let pairs = left.into_iter().zip(right);
        use Comparison::{
            Equal, Greater, GreaterOrEqual, IsDistinctFrom, IsNotDistinctFrom, Less, LessOrEqual, NotEqual,
        };
        match comparison {
            Equal | IsNotDistinctFrom => {
                let parts = pairs.map(|(left, right)| self.compare(comparison, left, right));
                Ok(Scalar::all(parts.collect::<Result<Vec<_>>>()?))
            }
            NotEqual | IsDistinctFrom => {
                let parts = pairs.map(|(left, right)| self.compare(comparison, left, right));
                Ok(Scalar::any(parts.collect::<Result<Vec<_>>>()?))
            }
            Less | LessOrEqual | Greater | GreaterOrEqual => {
                let strict = if matches!(comparison, Less | LessOrEqual) { Less } else { Greater };
                let mut pairs = pairs.rev();
                let Some((left, right)) = pairs.next() else { return Err(Error::bug("a row without parts")) };
                let mut result = self.compare(comparison, left, right)?;
                for (left, right) in pairs {
                    let before = self.compare(strict, left.clone(), right.clone())?;
                    let equal = self.compare(Equal, left, right)?;
                    result = Scalar::any([before, Scalar::all([equal, result])]);
                }
                Ok(result)
            }
        }
    }

    /// A comparison of two values of one type.
    pub(super) fn keyed_comparison(&self, comparison: Comparison, mut sides: Vec<Scalar>) -> Result<Scalar> {
        let right = sides.pop();
        let left = sides.pop();
        Ok(match (left, right) {
            (Some(left), Some(right)) if comparison.is_of_equality() => {
                Scalar::compare(comparison, self.equality_key(left)?, self.equality_key(right)?)
            }
            (Some(left), Some(right)) => Scalar::compare(comparison, self.key(left)?, self.key(right)?),
            // Only ever called with two.
            _ => Scalar::boolean(false),
        })
    }

    /// What a value sorts, groups and joins by: itself, or the key of its type. Fails with 42P21 if it has two
    /// collations.
    pub(super) fn key(&self, scalar: Scalar) -> Result<Scalar> {
        let sql_type = scalar.sql_type();
        self.check_decided(&sql_type)?;
        let scalar = unlabelled(scalar);
        Ok(match functions::order_key(&sql_type) {
            None => scalar,
            Some(call) => Scalar::Call { call, arguments: vec![scalar] },
        })
    }

    /// What a value is grouped by. Fails as [`key`](Self::key) does.
    pub(super) fn group_key(&self, scalar: Scalar) -> Result<Scalar> {
        let sql_type = scalar.sql_type();
        self.check_decided(&sql_type)?;
        let scalar = unlabelled(scalar);
        Ok(match grouping_key(&sql_type) {
            None => scalar,
            Some(call) => Scalar::Call { call, arguments: vec![scalar] },
        })
    }

    /// What a value is compared for equality by. Fails as [`key`](Self::key) does.
    pub(super) fn equality_key(&self, scalar: Scalar) -> Result<Scalar> {
        let sql_type = scalar.sql_type();
        match functions::is_equal_as_held(&sql_type) {
            true => self.check_decided(&sql_type).map(|()| unlabelled(scalar)),
            false => self.key(scalar),
        }
    }

    /// Keys of columns by their numbers, computed on top of a relation where the type has one; else the columns. Fails
    /// with 42P21 if one has two collations.
    pub(super) fn with_keys(&self, relation: Relation, columns: &[Column]) -> Result<(Relation, Vec<Column>)> {
        let mut computed = Vec::new();
        columns.iter().try_for_each(|column| self.check_decided(&column.sql_type))?;
        let keys = columns.iter().map(|column| match grouping_key(&column.sql_type) {
            None => column.clone(),
            Some(call) => {
                let key = Scalar::Call { call, arguments: vec![column.scalar()] };
                let key_column = self.numbers.named(&column.name, key.sql_type(), column.nullable);
                computed.push((key_column.clone(), key));
                key_column
            }
        });
        let keys = keys.collect();
        Ok((relation.mapped(computed), keys))
    }

    /// `value IN (a, b, …)`. Fails with 42883 if an element is not compared with the value.
    pub(super) fn in_list(&self, value: Scalar, list: Vec<Scalar>, is_negated: bool) -> Result<Scalar> {
        let is_row = |scalar: &Scalar| matches!(scalar.sql_type(), SqlType::Record(_));
        let types = std::iter::once(&value).chain(&list).map(Scalar::sql_type).collect::<Vec<_>>();
        let common = if types.iter().any(|sql_type| matches!(sql_type, SqlType::Record(_))) {
            None
        } else {
            coercion::common_type(&types).filter(compares)
        };
        let Some(common) = common else {
            let last = list.len().saturating_sub(1);
            let mut value = Some(value);
            let mut parts = Vec::with_capacity(list.len());
            for (index, element) in list.into_iter().enumerate() {
                let left = if index == last { value.take() } else { value.clone() };
                let Some(left) = left else { break };
                let _ = is_row(&left);
                parts.push(self.compare(Comparison::Equal, left, element)?);
            }
            let any = Scalar::any(parts);
            return Ok(if is_negated { any.negate() } else { any });
        };
        let values = std::iter::once(&value).chain(&list).collect::<Vec<_>>();
        let common = beside_literals(common, &values);
        let derived = self.derived_collation(values)?;
        let common = match derived.decided(COMPARISON)? {
            Some(collation) => common.with_collation(Some(&collation)),
            None => common,
        };
        let value = Box::new(self.equality_key(self.held_as(value, &common)?)?);
        // A text for a parameter may be longer than those that it is compared with, and is not cut.
        let any_length = if has_length(&common) { common.without_modifier() } else { common.clone() };
        let list = list.into_iter().map(|element| {
            let to = if is_open_parameter(&element) { &any_length } else { &common };
            self.equality_key(self.held_as(element, to)?)
        });
        Ok(Scalar::InList { value, list: list.collect::<Result<_>>()?, is_negated })
    }
}

/// The struct or the map that is compared with a NULL that has no type.
fn beside_null<'s>(left: &'s Scalar, right: &'s Scalar) -> Option<&'s Scalar> {
    let is_nothing = |side: &Scalar| matches!(side, Scalar::Constant(constant) if constant.is_null() && constant.sql_type == SqlType::Unknown);
    let value = match (is_nothing(left), is_nothing(right)) {
        (true, false) => right,
        (false, true) => left,
        _ => return None,
    };
    Some(value).filter(|value| matches!(value.sql_type(), SqlType::Record(_) | SqlType::Map(_)))
}

/// Whether values of a type are equal or not.
fn compares(sql_type: &SqlType) -> bool {
    !matches!(sql_type, SqlType::Json | SqlType::Void | SqlType::Unknown)
}

/// Fails with 42804 if rows of two types are not compared: they have other numbers of columns, or columns of types
/// without a common one.
fn refuse_dissimilar(left: &RecordType, right: &RecordType) -> Result<()> {
    if left.len() != right.len() {
        let message = "cannot compare record types with different numbers of columns";
        return Err(Error::input(message).with_code("42804"));
    }
    for (place, (left, right)) in left.iter().zip(right.iter()).enumerate() {
        let types = [left, right].map(|field| field.sql_type.base().uncollated());
        let is_nested = |sql_type: &SqlType| matches!(sql_type.innermost(), SqlType::Record(_) | SqlType::Map(_));
        let may_differ = types.iter().any(|sql_type| has_unknown(sql_type) || is_nested(sql_type));
        if !may_differ && types[0] != types[1] && coercion::common_type(&types).is_none() {
            let [left, right] = types.map(|sql_type| sql_type.without_modifier());
            let message =
                format!("cannot compare dissimilar column types {left} and {right} at record column {}", place + 1);
            return Err(Error::input(message).with_code("42804"));
        }
    }
    Ok(())
}
