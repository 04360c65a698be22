//! How many values an expression has: at most one for each combination of its columns' values, and fewer where its form
//! says so. A year has twelve months, however many days a table has; a CASE of three constants has three values.

use diligence_types::SqlType;
use diligence_types::functions::unit_size;

use crate::algebra::{ColumnId, Scalar};

/// Values of a truth value, NULL aside.
const TRUTH_VALUES: f64 = 2.0;

/// What is known of a column.
pub(super) struct ValuesOfColumn {
    /// How many values it has.
    pub distinct: f64,
    /// From the least to the greatest, in seconds if they are times.
    pub span: Option<f64>,
}

/// How many values an expression has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Values {
    /// At most so many.
    pub most: f64,
    /// Whether its form says so, so that it has about as many: the months of a year. Otherwise it may have far fewer:
    /// the first letters of names.
    pub is_counted: bool,
}

impl Values {
    fn counted(most: f64) -> Self {
        Self { most, is_counted: true }
    }
}

/// How many values an expression has in so many rows.
pub(super) fn values(scalar: &Scalar, rows: f64, column: &dyn Fn(ColumnId) -> ValuesOfColumn) -> Values {
    let formed = formed(scalar, rows, column);
    if formed.is_some() && rows <= 1.0 {
        return Values::counted(1.0);
    }
    let combinations = match scalar.is_volatile() {
        true => rows,
        false => scalar.columns().into_iter().map(|id| column(id).distinct).product::<f64>(),
    };
    let most = combinations.min(rows).max(1.0);
    match formed {
        Some(values) => Values { most: values.most.clamp(1.0, most), ..values },
        None => Values { most, is_counted: false },
    }
}

/// What the form of an expression says.
fn formed(scalar: &Scalar, rows: f64, column: &dyn Fn(ColumnId) -> ValuesOfColumn) -> Option<Values> {
    let all = |parts: &mut dyn Iterator<Item = &Scalar>| {
        parts
            .map(|part| values(part, rows, column))
            .reduce(|sum, part| Values { most: sum.most + part.most, is_counted: sum.is_counted && part.is_counted })
    };
    match scalar {
        Scalar::Constant(_) | Scalar::Parameter { .. } => Some(Values::counted(1.0)),
        Scalar::Cast { input, .. } => formed(input, rows, column),
        Scalar::Case { arms, otherwise, .. } => {
            // Equal constants are one value.
            let mut met: Vec<&Scalar> = Vec::new();
            let arms = arms.iter().map(|(_, value)| value).chain(otherwise.as_deref());
            arms.for_each(|arm| {
                if !met.contains(&arm) {
                    met.push(arm)
                }
            });
            all(&mut met.into_iter())
        }
        Scalar::Coalesce(parts) => all(&mut parts.iter()),
        Scalar::Call { call, arguments } => match (call.overload.name, arguments.as_slice()) {
            ("extract" | "date_part", [field, time, ..]) => periods(field, time, true, column),
            ("date_trunc", [field, time, ..]) => periods(field, time, false, column),
            ("%" | "mod", [_, divisor]) => {
                let divisor = divisor.as_constant()?.value.to_string().parse::<f64>().ok()?;
                Some(Values::counted(divisor.abs().max(1.0)))
            }
            ("sign", _) => Some(Values::counted(3.0)),
            _ if call.returns == SqlType::Boolean => Some(Values::counted(TRUTH_VALUES)),
            _ => None,
        },
        other if other.sql_type() == SqlType::Boolean && !matches!(other, Scalar::Column { .. }) => {
            Some(Values::counted(TRUTH_VALUES))
        }
        _ => None,
    }
}

/// How many periods of a unit the times of a column are in; where they repeat (months of any year), at most as many as
/// there are.
fn periods(
    field: &Scalar,
    time: &Scalar,
    repeats: bool,
    column: &dyn Fn(ColumnId) -> ValuesOfColumn,
) -> Option<Values> {
    let unit = unit_size(&field.as_constant()?.value.to_string())?;
    let (columns, repeated) = (time.columns(), if repeats { unit.values } else { None });
    let span = columns.first().filter(|_| columns.len() == 1).and_then(|id| column(*id).span);
    let passed = span.map(|span| (span / unit.seconds).floor() + 1.0);
    Some(Values::counted(match (repeated, passed) {
        (Some(repeated), Some(passed)) => passed.min(repeated),
        (one, other) => one.or(other)?,
    }))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use datafusion_common::ScalarValue;
    use diligence_types::functions::{Candidate, resolve_scalar};

    use super::*;
    use crate::algebra::{Comparison, Constant};

    fn column(number: u32, sql_type: SqlType) -> Scalar {
        Scalar::Column { id: ColumnId(number), sql_type, nullable: true }
    }

    fn constant(value: ScalarValue, sql_type: SqlType) -> Scalar {
        Scalar::Constant(Constant { value, sql_type })
    }

    fn text(value: &str) -> Scalar {
        constant(ScalarValue::from(value), SqlType::Text)
    }

    fn call(name: &str, arguments: Vec<Scalar>) -> Scalar {
        let types = arguments.iter().map(|argument| Candidate { sql_type: argument.sql_type(), literal: None });
        let types = types.collect::<Vec<_>>();
        Scalar::Call { call: resolve_scalar(name, &types).unwrap(), arguments }
    }

    /// Seven years of days, and prices.
    fn most(scalar: &Scalar) -> Values {
        let columns =
            HashMap::from([(0, (2557.0, Some(2556.0 * 86_400.0))), (1, (100_000.0, None)), (2, (25.0, None))]);
        values(scalar, 1_000_000.0, &|id| {
            let (distinct, span) = columns[&id.0];
            ValuesOfColumn { distinct, span }
        })
    }

    #[test]
    fn periods_of_times_are_counted_by_the_calendar() {
        let day = || column(0, SqlType::Date);
        assert_eq!(most(&call("extract", vec![text("month"), day()])), Values::counted(12.0));
        assert_eq!(most(&call("extract", vec![text("year"), day()])), Values::counted(7.0));
        let timestamp =
            Scalar::Cast { input: Box::new(day()), to: SqlType::Timestamp, is_try: false, is_explicit: false };
        assert_eq!(most(&call("date_trunc", vec![text("month"), timestamp])), Values::counted(84.0));
    }

    #[test]
    fn a_case_has_the_values_of_its_arms() {
        let cheap = |value| Scalar::Compare {
            comparison: Comparison::Less,
            left: Box::new(column(1, SqlType::BigInt)),
            right: Box::new(constant(ScalarValue::Int64(Some(value)), SqlType::BigInt)),
        };
        let arms = vec![(cheap(1), text("a")), (cheap(2), text("b")), (cheap(3), text("a"))];
        let case = Scalar::Case { arms, otherwise: None, sql_type: SqlType::Text };
        assert_eq!(most(&case), Values::counted(2.0));
        assert_eq!(most(&cheap(1)), Values::counted(2.0));
    }

    #[test]
    fn other_expressions_have_at_most_the_combinations_of_their_columns() {
        let sum = call("+", vec![column(1, SqlType::BigInt), column(2, SqlType::BigInt)]);
        assert_eq!(most(&sum), Values { most: 1_000_000.0, is_counted: false });
        let twice = call("+", vec![column(2, SqlType::BigInt), column(2, SqlType::BigInt)]);
        assert_eq!(most(&twice), Values { most: 25.0, is_counted: false });
        let remainder =
            call("%", vec![column(1, SqlType::BigInt), constant(ScalarValue::Int64(Some(8)), SqlType::BigInt)]);
        assert_eq!(most(&remainder), Values::counted(8.0));
        assert_eq!(most(&call("random", vec![])).most, 1_000_000.0);
    }
}
