//! The type that several expressions take where they meet.

use super::{CastContext, cast_context};
use crate::SqlType;
use crate::sql_type::record_type::RecordType;
use crate::sql_type::{NUMERIC_PRECISION, NUMERIC_SCALE, RecordField};

/// The type that all become where branches of a CASE or inputs of a UNION meet (manual, section 10.5). `None` if there
/// is none. Of nothing but unknown literals it is `text`. It has no collation: which one it is, the types do not say.
pub fn common_type(types: &[SqlType]) -> Option<SqlType> {
    if types.iter().any(SqlType::has_collation) {
        return common_type(&types.iter().map(SqlType::uncollated).collect::<Vec<_>>());
    }
    let mut known = types.iter().filter(|sql_type| **sql_type != SqlType::Unknown);
    let Some(first) = known.clone().next() else {
        return (!types.is_empty()).then_some(SqlType::Text);
    };
    if known.clone().all(|sql_type| sql_type == first) {
        return Some(first.clone());
    }
    if let Some(merged) = of_nested(&known.clone().collect::<Vec<_>>()) {
        return merged;
    }
    let is_implicit = |from: &SqlType, to: &SqlType| cast_context(from, to) == Some(CastContext::Implicit);
    let mut chosen = first;
    for other in known.clone() {
        if other.is_same(chosen) {
            continue;
        }
        if other.category() != chosen.category() {
            return None;
        }
        if !chosen.is_preferred() && is_implicit(chosen, other) && !is_implicit(other, chosen) {
            chosen = other;
        }
    }
    if !known.clone().all(|sql_type| is_implicit(sql_type, chosen)) {
        return None;
    }
    if matches!(chosen, SqlType::Numeric(_)) {
        return Some(known.fold(None, merged_numeric).unwrap_or(SqlType::NUMERIC));
    }
    let is_one = known.all(|sql_type| sql_type == chosen);
    Some(if is_one { chosen.clone() } else { chosen.without_modifier() })
}

/// The numeric that holds all values of one and of another number's type.
fn merged_numeric(merged: Option<SqlType>, other: &SqlType) -> Option<SqlType> {
    let digits = |sql_type: &SqlType| match sql_type {
        SqlType::SmallInt => Some((5, 0)),
        SqlType::Integer => Some((10, 0)),
        SqlType::BigInt => Some((19, 0)),
        SqlType::Numeric(Some((precision, scale))) => Some((i32::from(*precision) - i32::from(*scale), *scale)),
        _ => None,
    };
    let Some(merged) = merged else { return Some(decimal(digits(other))) };
    let both = digits(&merged).zip(digits(other));
    Some(decimal(both.map(|(left, right)| (left.0.max(right.0), left.1.max(right.1)))))
}

/// The numeric with so many digits before and behind the point.
fn decimal(digits: Option<(i32, i8)>) -> SqlType {
    match digits {
        Some((before, behind))
            if before + i32::from(behind) <= i32::from(NUMERIC_PRECISION) && behind <= NUMERIC_SCALE =>
        {
            SqlType::decimal((before + i32::from(behind)).max(1) as u8, behind)
        }
        _ => SqlType::NUMERIC,
    }
}

/// The common type of types that all consist of others. The outer `None`: they do not.
fn of_nested(types: &[&SqlType]) -> Option<Option<SqlType>> {
    match types.first()? {
        SqlType::Array(_) => {
            let elements: Vec<SqlType> = types.iter().map(|array| array.element().cloned()).collect::<Option<_>>()?;
            Some(common_type(&elements).map(SqlType::array_of))
        }
        SqlType::Record(first) => {
            let records = types.iter().map(|sql_type| match sql_type {
                SqlType::Record(record) => Some(record),
                _ => None,
            });
            // Structs with other columns have all columns in common.
            if let Some(columns) = records.collect::<Option<Vec<_>>>().and_then(|records| RecordType::merged(&records))
            {
                let field = |(name, found): (&str, Vec<&RecordField>)| {
                    let types = found.into_iter().map(|field| field.sql_type.clone()).collect::<Vec<_>>();
                    Some(RecordField { name: name.to_owned(), sql_type: common_type(&types)? })
                };
                return Some(columns.into_iter().map(field).collect::<Option<_>>().map(SqlType::Record));
            }
            let mut fields: Vec<RecordField> = vec![];
            for (index, field) in first.iter().enumerate() {
                let mut column = vec![];
                for sql_type in types {
                    match sql_type {
                        SqlType::Record(other) if other.len() == first.len() => {
                            column.push(other[index].sql_type.clone());
                        }
                        SqlType::Record(_) => return Some(None),
                        _ => return None,
                    }
                }
                match common_type(&column) {
                    Some(sql_type) => fields.push(RecordField { name: field.name.clone(), sql_type }),
                    None => return Some(None),
                }
            }
            Some(Some(SqlType::Record(first.with(fields))))
        }
        SqlType::Map(_) => {
            let (mut keys, mut values) = (vec![], vec![]);
            for sql_type in types {
                let SqlType::Map(pair) = sql_type else { return None };
                keys.push(pair.0.clone());
                values.push(pair.1.clone());
            }
            Some(common_type(&keys).zip(common_type(&values)).map(|pair| SqlType::Map(pair.into())))
        }
        _ => None,
    }
}
