//! Conditions of a query in a server's SQL.
//!
//! Invariant: a row for which the engine's condition is true is one for which the text is true there. The engine asks
//! its condition again, so the text may let others pass; it must never fail where the condition would not.

use std::sync::Arc;

use chrono::{DateTime, Datelike, NaiveDate};
use datafusion_common::ScalarValue;
use datafusion_expr::Operator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use diligence_types::SqlType;

use crate::columns::RemoteColumn;

/// How deep conditions are looked into.
const DEPTH_MAX: usize = 64;

/// Values of a list that is sent.
const LIST_MAX: usize = 10_000;

/// What of a condition the server can be asked, if there is any.
pub(crate) fn condition(condition: &Arc<dyn PhysicalExpr>, columns: &[RemoteColumn]) -> Option<String> {
    let (mut open, mut parts) = (vec![condition], Vec::new());
    while let Some(next) = open.pop() {
        match next.downcast_ref::<BinaryExpr>() {
            Some(binary) if *binary.op() == Operator::And => open.extend([binary.right(), binary.left()]),
            _ => parts.extend(Asked { columns, is_denied: false, depth: 0 }.whole(next)),
        }
    }
    (!parts.is_empty()).then(|| parts.join(" AND "))
}

/// What a value is compared with.
struct Operand {
    /// In SQL.
    sql: String,
    /// Its type there.
    sql_type: SqlType,
}

#[derive(Clone, Copy)]
struct Asked<'a> {
    columns: &'a [RemoteColumn],
    /// Whether what is false is wanted: then no other row may be true there.
    is_denied: bool,
    depth: usize,
}

impl Asked<'_> {
    fn deeper(self) -> Option<Self> {
        (self.depth < DEPTH_MAX).then_some(Self { depth: self.depth + 1, ..self })
    }

    /// All of a condition.
    fn whole(self, condition: &Arc<dyn PhysicalExpr>) -> Option<String> {
        let asked = self.deeper()?;
        if let Some(binary) = condition.downcast_ref::<BinaryExpr>() {
            let joined = match binary.op() {
                Operator::And => "AND",
                Operator::Or => "OR",
                operator => return asked.compared(binary.left(), *operator, binary.right()),
            };
            return Some(format!("({} {joined} {})", asked.whole(binary.left())?, asked.whole(binary.right())?));
        }
        if let Some(not) = condition.downcast_ref::<NotExpr>() {
            let denied = Self { is_denied: !self.is_denied, ..asked };
            return Some(format!("(NOT {})", denied.whole(not.arg())?));
        }
        if let Some(test) = condition.downcast_ref::<IsNullExpr>() {
            return Some(format!("({} IS NULL)", asked.column(test.arg())?.quoted));
        }
        if let Some(test) = condition.downcast_ref::<IsNotNullExpr>() {
            return Some(format!("({} IS NOT NULL)", asked.column(test.arg())?.quoted));
        }
        if let Some(list) = condition.downcast_ref::<InListExpr>() {
            return asked.listed(list);
        }
        if let Some(like) = condition.downcast_ref::<LikeExpr>() {
            return asked.like(like);
        }
        let column = asked.column(condition)?;
        (column.sql_type == SqlType::Boolean).then(|| column.quoted.clone())
    }

    fn column(&self, expression: &Arc<dyn PhysicalExpr>) -> Option<&RemoteColumn> {
        let column = expression.downcast_ref::<Column>()?;
        self.columns.get(column.index()).filter(|known| known.name == column.name())
    }

    /// A column, or a whole number that becomes a wider one.
    fn operand(&self, expression: &Arc<dyn PhysicalExpr>) -> Option<Operand> {
        if let Some(column) = self.column(expression) {
            return Some(Operand { sql: column.selected(), sql_type: column.sql_type.clone() });
        }
        let cast = expression.downcast_ref::<CastExpr>()?;
        let column = self.column(cast.expr())?;
        let is_whole = |sql_type: &SqlType| matches!(sql_type, SqlType::SmallInt | SqlType::Integer | SqlType::BigInt);
        let wide = SqlType::of_arrow(cast.cast_type())?;
        let name = match (&column.sql_type, &wide) {
            (SqlType::SmallInt, SqlType::Integer) => "int4",
            (SqlType::SmallInt | SqlType::Integer, SqlType::BigInt) => "int8",
            (from, SqlType::Numeric(_)) if is_whole(from) => "numeric",
            (from, SqlType::Double) if is_whole(from) || *from == SqlType::Real => "float8",
            _ => return None,
        };
        Some(Operand { sql: format!("{}::pg_catalog.{name}", column.quoted), sql_type: wide })
    }

    fn compared(
        self,
        left: &Arc<dyn PhysicalExpr>,
        operator: Operator,
        right: &Arc<dyn PhysicalExpr>,
    ) -> Option<String> {
        let (operand, value, operator) = match (self.operand(left), self.operand(right)) {
            (Some(operand), None) => (operand, literal(right)?, operator),
            (None, Some(operand)) => (operand, literal(left)?, operator.swap()?),
            _ => return None,
        };
        let sign = match operator {
            Operator::Eq => "=",
            Operator::NotEq => "<>",
            Operator::Lt => "<",
            Operator::LtEq => "<=",
            Operator::Gt => ">",
            Operator::GtEq => ">=",
            _ => return None,
        };
        let value = constant(value, &operand.sql_type)?;
        let is_equal = operator == Operator::Eq && !self.is_denied;
        Some(format!("({} {sign} {value})", collated(&operand, is_equal)))
    }

    fn listed(self, list: &InListExpr) -> Option<String> {
        let operand = self.operand(list.expr())?;
        if list.list().len() > LIST_MAX {
            return None;
        }
        let values = list.list().iter().map(|value| constant(literal(value)?, &operand.sql_type));
        let values = values.collect::<Option<Vec<_>>>().filter(|values| !values.is_empty())?;
        let not = if list.negated() { "NOT " } else { "" };
        let is_equal = list.negated() == self.is_denied;
        Some(format!("({} {not}IN ({}))", collated(&operand, is_equal), values.join(", ")))
    }

    fn like(self, like: &LikeExpr) -> Option<String> {
        let operand = self.operand(like.expr()).filter(|operand| is_text(&operand.sql_type))?;
        let pattern = text_of(literal(like.pattern())?)?;
        // What small letters are depends on the server, and how an escape is read on more than one thing.
        if like.case_insensitive() || pattern.contains('\\') {
            return None;
        }
        let not = if like.negated() { "NOT " } else { "" };
        Some(format!("({} {not}LIKE {})", collated(&operand, false), quoted(pattern)?))
    }
}

fn literal(expression: &Arc<dyn PhysicalExpr>) -> Option<&ScalarValue> {
    expression.downcast_ref::<Literal>().map(Literal::value)
}

fn is_text(sql_type: &SqlType) -> bool {
    matches!(sql_type, SqlType::Text | SqlType::Varchar(_) | SqlType::Name)
}

/// An operand whose texts compare as bytes. Where a row too many is no matter (`is_equal`), equal texts are those that
/// the server calls so, which an index there finds.
fn collated(operand: &Operand, is_equal: bool) -> String {
    match is_text(&operand.sql_type) && !is_equal {
        true => format!("{}::pg_catalog.text COLLATE pg_catalog.\"C\"", operand.sql),
        false => operand.sql.clone(),
    }
}

fn text_of(value: &ScalarValue) -> Option<&str> {
    match value {
        ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) | ScalarValue::Utf8View(text) => text.as_deref(),
        _ => None,
    }
}

fn quoted(text: &str) -> Option<String> {
    // No text there has a zero.
    (!text.contains('\0')).then(|| format!("'{}'", text.replace('\'', "''")))
}

/// A constant that compares with values of a type as it does here.
fn constant(value: &ScalarValue, with: &SqlType) -> Option<String> {
    let typed = |text: String, name: &str| Some(format!("'{text}'::pg_catalog.{name}"));
    let is_exact =
        matches!(with, SqlType::SmallInt | SqlType::Integer | SqlType::BigInt | SqlType::Numeric(_) | SqlType::Oid(_));
    match value {
        ScalarValue::Int8(Some(number)) if is_exact => typed(number.to_string(), "int8"),
        ScalarValue::Int16(Some(number)) if is_exact => typed(number.to_string(), "int2"),
        ScalarValue::Int32(Some(number)) if is_exact => typed(number.to_string(), "int4"),
        ScalarValue::Int64(Some(number)) if is_exact => typed(number.to_string(), "int8"),
        ScalarValue::Decimal128(Some(number), _, scale) if is_exact => {
            typed(pointed(number.to_string(), *scale)?, "numeric")
        }
        ScalarValue::Decimal256(Some(number), _, scale) if is_exact => {
            typed(pointed(number.to_string(), *scale)?, "numeric")
        }
        ScalarValue::Float32(Some(number)) if *with == SqlType::Real => typed(number.to_string(), "float4"),
        ScalarValue::Float64(Some(number)) if *with == SqlType::Double => typed(number.to_string(), "float8"),
        ScalarValue::Boolean(Some(truth)) if *with == SqlType::Boolean => Some(truth.to_string()),
        ScalarValue::Date32(Some(days)) if *with == SqlType::Date => {
            let date = NaiveDate::from_num_days_from_ce_opt(days.checked_add(719_163)?)?;
            let is_plain = (1..=9999).contains(&date.year());
            is_plain.then(|| typed(date.format("%Y-%m-%d").to_string(), "date")).flatten()
        }
        ScalarValue::TimestampMicrosecond(Some(time), zone) => {
            let name = match (with, zone) {
                (SqlType::Timestamp, None) => "timestamp",
                (SqlType::TimestampTz, Some(_)) => "timestamptz",
                _ => return None,
            };
            let moment = DateTime::from_timestamp_micros(*time)?;
            let is_plain = (1..=9999).contains(&moment.year());
            is_plain.then(|| typed(moment.format("%Y-%m-%d %H:%M:%S%.6f+00").to_string(), name)).flatten()
        }
        ScalarValue::Binary(Some(bytes)) | ScalarValue::BinaryView(Some(bytes)) if *with == SqlType::Bytea => {
            typed(bytes.iter().fold("\\x".to_owned(), |text, byte| format!("{text}{byte:02x}")), "bytea")
        }
        value => {
            let text = text_of(value)?;
            match with {
                SqlType::Uuid => {
                    let is_one = text.len() == 36
                        && text.bytes().enumerate().all(|(place, byte)| match place {
                            8 | 13 | 18 | 23 => byte == b'-',
                            _ => byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'),
                        });
                    is_one.then(|| typed(text.to_owned(), "uuid")).flatten()
                }
                with if is_text(with) => Some(format!("{}::pg_catalog.text", quoted(text)?)),
                _ => None,
            }
        }
    }
}

/// Digits with a point before the last `scale`.
fn pointed(digits: String, scale: i8) -> Option<String> {
    let scale = usize::try_from(scale).ok()?;
    if scale == 0 {
        return Some(digits);
    }
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(digits) => ("-", digits.to_owned()),
        None => ("", digits),
    };
    let padded = format!("{digits:0>width$}", width = scale + 1);
    let (whole, behind) = padded.split_at(padded.len() - scale);
    Some(format!("{sign}{whole}.{behind}"))
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;
    use datafusion_physical_expr::expressions::{in_list, lit};

    use super::*;

    fn columns() -> Vec<RemoteColumn> {
        let column = |name: &str, told: &str| RemoteColumn::new(name, format!("\"{name}\""), told, true, false);
        vec![
            column("i", "integer"),
            column("t", "text"),
            column("u", "uuid"),
            column("n", "numeric(10,2)"),
            column("b", "boolean"),
            column("d", "date"),
            column("j", "jsonb"),
            column("r", "inet"),
        ]
    }

    fn at(name: &str) -> Arc<dyn PhysicalExpr> {
        let place = columns().iter().position(|column| column.name == name).unwrap();
        Arc::new(Column::new(name, place))
    }

    fn compare(name: &str, operator: Operator, value: ScalarValue) -> Arc<dyn PhysicalExpr> {
        Arc::new(BinaryExpr::new(at(name), operator, lit(value)))
    }

    fn asked(expression: Arc<dyn PhysicalExpr>) -> String {
        condition(&expression, &columns()).unwrap_or_default()
    }

    #[test]
    fn what_means_the_same_is_asked() {
        let text = |text: &str| ScalarValue::Utf8View(Some(text.to_owned()));
        assert_eq!(asked(compare("i", Operator::Eq, ScalarValue::Int32(Some(-5)))), "(\"i\" = '-5'::pg_catalog.int4)");
        assert_eq!(asked(compare("t", Operator::Eq, text("it's"))), "(\"t\" = 'it''s'::pg_catalog.text)");
        assert_eq!(
            asked(compare("t", Operator::Lt, text("x"))),
            "(\"t\"::pg_catalog.text COLLATE pg_catalog.\"C\" < 'x'::pg_catalog.text)"
        );
        assert_eq!(
            asked(Arc::new(NotExpr::new(compare("t", Operator::Eq, text("x"))))),
            "(NOT (\"t\"::pg_catalog.text COLLATE pg_catalog.\"C\" = 'x'::pg_catalog.text))"
        );
        assert_eq!(
            asked(compare("n", Operator::GtEq, ScalarValue::Decimal128(Some(-5), 10, 2))),
            "(\"n\" >= '-0.05'::pg_catalog.numeric)"
        );
        assert_eq!(
            asked(compare("d", Operator::Gt, ScalarValue::Date32(Some(0)))),
            "(\"d\" > '1970-01-01'::pg_catalog.date)"
        );
        let schema = arrow::datatypes::Schema::new(vec![arrow::datatypes::Field::new("i", DataType::Int32, true)]);
        let list = vec![lit(ScalarValue::Int32(Some(1))), lit(ScalarValue::Int32(Some(2)))];
        let list = in_list(at("i"), list, &true, &schema).unwrap();
        assert_eq!(asked(list), "(\"i\" NOT IN ('1'::pg_catalog.int4, '2'::pg_catalog.int4))");
        assert_eq!(asked(Arc::new(IsNullExpr::new(at("j")))), "(\"j\" IS NULL)");
        assert_eq!(asked(at("b")), "\"b\"");
    }

    #[test]
    fn what_does_not_is_left_out() {
        let text = |text: &str| ScalarValue::Utf8View(Some(text.to_owned()));
        for condition in [
            compare("u", Operator::Eq, text("no uuid")),
            compare("j", Operator::Eq, text("{}")),
            compare("r", Operator::Eq, text("1.2.3.4")),
            compare("t", Operator::Eq, text("\0")),
            compare("i", Operator::Eq, ScalarValue::Int32(None)),
            compare("d", Operator::Lt, ScalarValue::Date32(Some(i32::MAX))),
        ] {
            assert_eq!(asked(condition.clone()), "", "{condition}");
            // Of an AND the rest is asked, of an OR nothing.
            let other = compare("i", Operator::Gt, ScalarValue::Int32(Some(3)));
            let both = Arc::new(BinaryExpr::new(condition.clone(), Operator::And, other.clone()));
            assert_eq!(asked(both), "(\"i\" > '3'::pg_catalog.int4)");
            assert_eq!(asked(Arc::new(BinaryExpr::new(condition, Operator::Or, other))), "");
        }
    }
}
