//! Parameters of statements, `$1`, `$2`, …: how many there are, and their types and values as DataFusion's planner
//! takes them.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, IntervalUnit};
use datafusion::common::{ParamValues, ScalarValue, plan_datafusion_err};
use datafusion::logical_expr::{DdlStatement, LogicalPlan, Statement as LogicalStatement};
use datafusion::sql::parser::Statement as ParsedStatement;
use datafusion::sql::sqlparser::ast::{self, Visit, Visitor};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_datafusion;

use super::Planning;
use crate::errors;
use crate::parse::Parsed;

/// Parameters of a statement at most; the wire protocol counts them in 16 bits.
const PARAMETERS_MAX: usize = u16::MAX as usize;

/// The statement inside of a PREPARE, with values for its parameters.
pub(super) fn with_values(at: &Planning<'_>, plan: LogicalPlan, values: &[ScalarValue]) -> Result<LogicalPlan> {
    let plan = inner(plan)?;
    if matches!(plan, LogicalPlan::Ddl(DdlStatement::CreateView(_))) {
        return Err(Error::input("a view cannot have parameters"));
    }
    plan.replace_params_with_values(&ParamValues::from(values.to_vec())).map_err(|error| errors::planning(error, at))
}

/// The statement inside of a PREPARE.
pub(super) fn inner(plan: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Statement(LogicalStatement::Prepare(prepare)) => Ok(Arc::unwrap_or_clone(prepare.input)),
        other => Err(Error::bug(format!("a prepared statement planned to {}", other.display()))),
    }
}

/// The statement as a PREPARE with these types: the only way to tell DataFusion's planner the types of parameters.
pub(super) fn prepare(parsed: &Parsed, types: Vec<ast::DataType>) -> Result<ParsedStatement> {
    let ParsedStatement::Statement(statement) = &parsed.statement else {
        return Err(Error::unsupported("this statement cannot have parameters"));
    };
    let prepare =
        ast::Statement::Prepare { name: ast::Ident::new("statement"), data_types: types, statement: statement.clone() };
    Ok(ParsedStatement::Statement(Box::new(prepare)))
}

/// A type as a statement would write it.
pub(super) fn syntax_of(data_type: &DataType) -> Result<ast::DataType> {
    let text = type_text(data_type)?;
    let parsed = Parser::new(&GenericDialect {}).try_with_sql(&text).and_then(|mut parser| parser.parse_data_type());
    parsed.map_err(|error| Error::bug(format!("the type {text} did not parse: {error}")))
}

/// The types of values as a statement would write them.
pub(super) fn types_of(values: &[ScalarValue]) -> Result<Vec<ast::DataType>> {
    values.iter().map(|value| syntax_of(&value.data_type())).collect()
}

fn type_text(data_type: &DataType) -> Result<String> {
    Ok(match data_type {
        DataType::Boolean => "BOOLEAN".into(),
        DataType::Int8 => "TINYINT".into(),
        DataType::Int16 => "SMALLINT".into(),
        DataType::Int32 => "INT".into(),
        DataType::Int64 => "BIGINT".into(),
        DataType::UInt8 => "TINYINT UNSIGNED".into(),
        DataType::UInt16 => "SMALLINT UNSIGNED".into(),
        DataType::UInt32 => "INT UNSIGNED".into(),
        DataType::UInt64 => "BIGINT UNSIGNED".into(),
        DataType::Float32 => "REAL".into(),
        DataType::Float64 => "DOUBLE".into(),
        DataType::Null | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "TEXT".into(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "BYTEA".into(),
        DataType::Date32 | DataType::Date64 => "DATE".into(),
        DataType::Time32(_) | DataType::Time64(_) => "TIME".into(),
        DataType::Timestamp(_, None) => "TIMESTAMP".into(),
        DataType::Timestamp(_, Some(_)) => "TIMESTAMP WITH TIME ZONE".into(),
        DataType::Interval(IntervalUnit::MonthDayNano | IntervalUnit::DayTime | IntervalUnit::YearMonth) => {
            "INTERVAL".into()
        }
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => format!("DECIMAL({precision},{scale})"),
        DataType::List(field) | DataType::LargeList(field) => format!("{}[]", type_text(field.data_type())?),
        other => return Err(Error::unsupported(format!("parameters of type {other} are not supported"))),
    })
}

/// The largest number behind a dollar sign. A PREPARE's parameters are its own.
pub(super) fn count(parsed: &Parsed) -> Result<usize> {
    struct Count(usize);
    impl Visitor for Count {
        type Break = ();
        fn pre_visit_value(&mut self, value: &ast::ValueWithSpan) -> ControlFlow<()> {
            if let ast::Value::Placeholder(name) = &value.value
                && let Some(number) = name.strip_prefix('$').and_then(|number| number.parse().ok())
            {
                self.0 = self.0.max(number);
            }
            ControlFlow::Continue(())
        }
    }
    let ParsedStatement::Statement(statement) = &parsed.statement else { return Ok(0) };
    if matches!(**statement, ast::Statement::Prepare { .. }) {
        return Ok(0);
    }
    let mut count = Count(0);
    let _ = statement.visit(&mut count);
    if count.0 > PARAMETERS_MAX {
        return Err(Error::input(format!("a statement has at most {PARAMETERS_MAX} parameters")).with_code("54000"));
    }
    Ok(count.0)
}

/// The types that parameters are cast to at once: `$1::BIGINT`.
pub(super) fn cast_types(parsed: &Parsed) -> HashMap<usize, ast::DataType> {
    struct Casts(HashMap<usize, ast::DataType>);
    impl Visitor for Casts {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
            if let ast::Expr::Cast { expr, data_type, .. } = expr
                && let ast::Expr::Value(ast::ValueWithSpan { value: ast::Value::Placeholder(name), .. }) = expr.as_ref()
                && let Some(number) = name.strip_prefix('$').and_then(|number| number.parse().ok())
            {
                self.0.entry(number).or_insert_with(|| data_type.clone());
            }
            ControlFlow::Continue(())
        }
    }
    let mut casts = Casts(HashMap::new());
    if let ParsedStatement::Statement(statement) = &parsed.statement {
        let _ = statement.visit(&mut casts);
    }
    casts.0
}

/// The value of a parameter, an array of one row, as [`Planner::plan`](super::Planner::plan) takes it. Fails if the
/// array is empty.
pub fn parameter_value(array: &ArrayRef) -> Result<ScalarValue> {
    if array.is_empty() {
        return Err(from_datafusion(plan_datafusion_err!("a parameter without a value")));
    }
    ScalarValue::try_from_array(array, 0).map_err(from_datafusion)
}
