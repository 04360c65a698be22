//! How a table is divided and ordered: DISTRIBUTED BY and CLUSTERED BY.

use arrow::array::ArrayRef;
use diligence_base::{Error, Result};
use diligence_catalog::NativeTable;
use diligence_catalog::distribution::{Distribution, FRAGMENTS_DEFAULT, FRAGMENTS_MAX, Placement, Strategy, texts_of};
use diligence_storage::foreign_error::{from_arrow, from_datafusion};
use diligence_types::SqlType;
use sqlparser::ast::{self, Expr, SqlOption};

use super::around::Around;
use super::column_names::refuse_twice;
use super::definitions::lower;
use super::tables::Declaration;
use crate::binder;
use crate::errors;
use crate::parse::{CLUSTERED, DISTRIBUTED, HASH, RANGE, ROUND_ROBIN, UNIFORM};

impl Around<'_> {
    /// What the options of a statement make of a table's distribution; `None` if none is about that. Fails with code
    /// 42703 for a column that is not there, 0A000 for one whose values cannot decide, 22023 for a number of fragments
    /// out of range or bounds that do not ascend, and as a value fails that is none of its column.
    pub(super) fn distribution(
        &self,
        options: &[SqlOption],
        declaration: &Declaration,
    ) -> Result<Option<Distribution>> {
        let mut distribution = declaration.rules.distribution.clone();
        let mut is_met = false;
        for option in options {
            let SqlOption::KeyValue { key, value: Expr::Function(call) } = option else { continue };
            match key.value.as_str() {
                CLUSTERED => distribution.clustered = columns_of(&arguments_of(call), declaration)?,
                DISTRIBUTED => distribution.strategy = self.strategy(call, declaration)?,
                _ => continue,
            }
            is_met = true;
        }
        if !is_met {
            return Ok(None);
        }
        check(&distribution, declaration)?;
        Ok(Some(distribution))
    }

    fn strategy(&self, call: &ast::Function, declaration: &Declaration) -> Result<Strategy> {
        let name = call.name.0.last().and_then(|part| part.as_ident()).map_or("", |name| name.value.as_str());
        let arguments = arguments_of(call);
        let (first, others) = arguments.split_first().ok_or_else(wrong)?;
        Ok(match name {
            ROUND_ROBIN => Strategy::RoundRobin { fragments: count_of(first)? },
            HASH => Strategy::Hash { columns: columns_of(others, declaration)?, fragments: count_of(first)? },
            UNIFORM => {
                let column = one_of(columns_of(others, declaration)?)?;
                Strategy::Uniform { column, fragments: count_of(first)?, bounds: None }
            }
            RANGE => {
                let (column, others) = others.split_first().ok_or_else(wrong)?;
                let column = one_of(columns_of(std::slice::from_ref(column), declaration)?)?;
                if others.len() + 1 > usize::from(FRAGMENTS_MAX) {
                    return Err(out_of_range(&(others.len() + 1).to_string()));
                }
                if !is_null(first) && usize::from(count_of(first)?) != others.len() + 1 {
                    let message = format!("{} bounds make {} fragments", others.len(), others.len() + 1);
                    let error = Error::input(message).with_code("22023");
                    return Err(error.with_hint("leave FRAGMENTS out, or write as many bounds less one"));
                }
                let field = declaration.fields.iter().find(|field| *field.name() == column);
                let field = field.ok_or_else(|| Error::bug("a column is not there"))?;
                let sql_type = SqlType::of_field(field).ok_or_else(|| not_by(&column))?;
                let bound = |expression: &&Expr| {
                    let scalar = binder::bind_value(expression, &sql_type, self)?;
                    let value = self.constant(expression, &scalar)?.value;
                    let value: ArrayRef = value.to_array().map_err(from_datafusion)?;
                    let value = arrow::compute::cast(&value, field.data_type()).map_err(from_arrow)?;
                    Ok(texts_of(&value)?.remove(0))
                };
                let bounds = others.iter().map(bound).collect::<Result<Vec<_>>>()?;
                Strategy::Range { column, bounds }
            }
            _ => return Err(wrong()),
        })
    }
}

/// The same distribution with bounds from a table's rows, if it takes bounds from rows. Fails with kind `File` if they
/// cannot be read.
pub(super) fn with_bounds_of(distribution: &Distribution, table: &NativeTable) -> Result<Distribution> {
    match &distribution.strategy {
        Strategy::Uniform { column, .. } => distribution.with_bounds_of(&table.sampled_values(column)?),
        _ => Ok(distribution.clone()),
    }
}

/// Fails where a table of these columns cannot be distributed so, as [`Around::distribution`] does.
pub(super) fn check(distribution: &Distribution, declaration: &Declaration) -> Result<()> {
    let is_special = |column: &&String| {
        let field = declaration.fields.iter().find(|field| field.name() == *column);
        let kind = field.and_then(|field| SqlType::of_field(field));
        kind.is_some_and(|kind| is_other_as_text(kind.base()))
    };
    if let Some(column) = distribution.strategy.columns().iter().find(is_special) {
        return Err(not_by(column));
    }
    let placement = Placement::new(distribution, &declaration.schema())?;
    if !placement.ascends() {
        let error = Error::input("the bounds between fragments do not ascend").with_code("22023");
        return Err(error.with_hint("list each bound once, the least one first"));
    }
    Ok(())
}

/// Whether values are held as texts that have another order, or are not equal where the values are.
fn is_other_as_text(sql_type: &SqlType) -> bool {
    use SqlType as T;
    matches!(
        sql_type,
        T::Char(_)
            | T::Enum(_)
            | T::Json
            | T::Jsonb
            | T::TimeTz
            | T::Range(_)
            | T::Multirange(_)
            | T::Network(_)
            | T::Search(_)
    )
}

fn not_by(column: &str) -> Error {
    let error = Error::unsupported(format!("rows cannot be distributed by the column \"{column}\"")).with_code("0A000");
    error.with_hint("choose a column of numbers, texts, dates or times, or ROUND ROBIN")
}

fn wrong() -> Error {
    let error = Error::input("a table is distributed by columns").with_code("42601");
    error.with_hint(
        "write DISTRIBUTED BY ROUND ROBIN, HASH (a), RANGE (a) VALUES (10, 20) or RANGE (a) UNIFORM, each with \
         FRAGMENTS and their number, if you like",
    )
}

fn out_of_range(number: &str) -> Error {
    let error = Error::input(format!("a table has 1 to {FRAGMENTS_MAX} fragments, not {number}")).with_code("22023");
    error.with_hint(format!("write FRAGMENTS and a number from 1 to {FRAGMENTS_MAX}"))
}

fn is_null(argument: &Expr) -> bool {
    matches!(argument, Expr::Value(value) if value.value == ast::Value::Null)
}

fn count_of(argument: &Expr) -> Result<u16> {
    let Expr::Value(value) = argument else { return Err(wrong()) };
    match &value.value {
        ast::Value::Null => Ok(FRAGMENTS_DEFAULT),
        ast::Value::Number(text, _) => {
            let count = text.parse::<u16>().ok().filter(|count| (1..=FRAGMENTS_MAX).contains(count));
            count.ok_or_else(|| out_of_range(text))
        }
        _ => Err(wrong()),
    }
}

fn one_of(columns: Vec<String>) -> Result<String> {
    <[String; 1]>::try_from(columns).map(|[column]| column).map_err(|_| wrong())
}

fn columns_of(arguments: &[&Expr], declaration: &Declaration) -> Result<Vec<String>> {
    let name = |argument: &&Expr| {
        let Expr::Identifier(name) = argument else { return Err(wrong()) };
        let name = lower(name);
        if declaration.has_column(&name) {
            return Ok(name);
        }
        let error = Error::input(format!("column \"{name}\" named in key does not exist")).with_code("42703");
        let known = declaration.fields.iter().map(|field| field.name().clone()).collect::<Vec<_>>();
        Err(errors::suggest(error, &name, &known))
    };
    let names = arguments.iter().map(name).collect::<Result<Vec<_>>>()?;
    refuse_twice(names.iter().map(String::as_str))?;
    Ok(names)
}

fn arguments_of(call: &ast::Function) -> Vec<&Expr> {
    let list = match &call.args {
        ast::FunctionArguments::List(list) => list.args.as_slice(),
        _ => &[],
    };
    let argument = |argument| match argument {
        &ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ref argument)) => Some(argument),
        _ => None,
    };
    list.iter().filter_map(argument).collect()
}

/// A query whose rows are in the order of these columns, by their places from one on.
pub(super) fn ordered(query: &ast::Query, places: &[usize]) -> Result<ast::Query> {
    if places.is_empty() {
        return Ok(query.clone());
    }
    let places = places.iter().map(|place| format!("{place} ASC")).collect::<Vec<_>>().join(", ");
    let mut ordered = crate::parse::query(&format!("SELECT * FROM (SELECT 1) AS rows ORDER BY {places}"))?;
    if let ast::SetExpr::Select(select) = ordered.body.as_mut() {
        for from in &mut select.from {
            if let ast::TableFactor::Derived { subquery, .. } = &mut from.relation {
                **subquery = query.clone();
            }
        }
    }
    Ok(ordered)
}
