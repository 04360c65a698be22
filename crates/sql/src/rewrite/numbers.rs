//! Which literals are DOUBLE.
//!
//! A literal with a point is a DECIMAL of just its digits (`datafusion.sql_parser.parse_float_as_decimal`). DataFusion
//! takes one with an exponent for a decimal too. It is a DOUBLE here, as in the SQL standard, and so are one of more
//! digits than a DECIMAL has and a negative zero, which only a DOUBLE can be.

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, ExactNumberInfo, Expr, UnaryOperator, Value, ValueWithSpan, Values,
};

/// Digits that a DECIMAL has at most.
const DECIMAL_DIGITS_MAX: usize = 38;

/// Makes a literal that is a DOUBLE one in the tree; leaves every other expression alone.
pub(super) fn double(expression: &mut Expr) {
    let whole = match expression {
        Expr::Value(ValueWithSpan { value: Value::Number(text, _), .. }) if is_double(text) => expression,
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } if number(expr).is_some_and(is_zero) => expression,
        _ => return,
    };
    make_double(whole);
}

/// Makes the decimals of a VALUES column DOUBLE if something else in the column is: rows have one type.
pub(super) fn same_in_columns(values: &mut Values) {
    let columns = values.rows.first().map_or(0, |row| row.content.len());
    for column in 0..columns {
        let in_column = |row: &Vec<Expr>| row.get(column).is_some_and(is_double_expression);
        if !values.rows.iter().any(|row| in_column(&row.content)) {
            continue;
        }
        for row in &mut values.rows {
            if let Some(expression) = row.content.get_mut(column)
                && number(unsigned(expression)).is_some_and(|text| text.contains('.'))
            {
                make_double(expression);
            }
        }
    }
}

/// `1.5` to `CAST('1.5' AS DOUBLE)`: text keeps all digits, and the planner folds the cast.
fn make_double(expression: &mut Expr) {
    let negative = matches!(expression, Expr::UnaryOp { .. });
    let Expr::Value(ValueWithSpan { value: Value::Number(text, _), span }) = unsigned(expression) else { return };
    let text = format!("{}{}", if negative { "-" } else { "" }, text.replace('_', ""));
    let value = ValueWithSpan { value: Value::SingleQuotedString(text), span: *span };
    *expression = Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::Value(value)),
        data_type: DataType::Double(ExactNumberInfo::None),
        array: false,
        format: None,
    };
}

fn unsigned(expression: &Expr) -> &Expr {
    match expression {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => expr,
        other => other,
    }
}

/// The text of a number.
fn number(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::Value(ValueWithSpan { value: Value::Number(text, _), .. }) => Some(text),
        _ => None,
    }
}

fn is_double_expression(expression: &Expr) -> bool {
    match expression {
        Expr::Cast { data_type, .. } => {
            matches!(data_type, DataType::Double(_) | DataType::DoublePrecision | DataType::Float(_) | DataType::Real)
        }
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
            number(expr).is_some_and(|text| is_double(text) || is_zero(text))
        }
        other => number(other).is_some_and(is_double),
    }
}

fn is_double(text: &str) -> bool {
    text.contains(['e', 'E']) || text.bytes().filter(u8::is_ascii_digit).count() > DECIMAL_DIGITS_MAX
}

/// Whether a number is a zero with a point.
fn is_zero(text: &str) -> bool {
    text.contains('.') && text.bytes().all(|byte| matches!(byte, b'0' | b'.' | b'_'))
}

#[cfg(test)]
mod tests {
    use crate::parse::parse_one;

    fn rewritten(sql: &str) -> String {
        parse_one(sql, "generic").unwrap().statement.to_string()
    }

    #[test]
    fn an_exponent_makes_a_double() {
        for (literal, expected) in [
            ("1.5", "1.5"),
            ("-1.5", "-1.5"),
            ("1e3", "CAST('1e3' AS DOUBLE)"),
            ("1.5E-3", "CAST('1.5E-3' AS DOUBLE)"),
            ("-1e3", "-CAST('1e3' AS DOUBLE)"),
            ("-0.0", "CAST('-0.0' AS DOUBLE)"),
            ("0", "0"),
            ("12345678901234567890123456789012345678", "12345678901234567890123456789012345678"),
            ("1234567890.12345678901234567890123456789", "CAST('1234567890.12345678901234567890123456789' AS DOUBLE)"),
        ] {
            assert_eq!(rewritten(&format!("SELECT {literal}")), format!("SELECT {expected}"));
        }
        assert_eq!(rewritten("SET x = 1e3"), "SET x = 1e3");
    }

    #[test]
    fn a_column_of_values_has_one_type() {
        assert_eq!(
            rewritten("VALUES (1.5, 2.5), (1e300, -1), (-2.5, 3)"),
            "VALUES (CAST('1.5' AS DOUBLE), 2.5), (CAST('1e300' AS DOUBLE), -1), (CAST('-2.5' AS DOUBLE), 3)"
        );
    }
}
