//! What functions in SQL give: rows as values, where the columns of a query are the fields of a row.

use diligence_base::{Error, Result};
use diligence_types::SqlType;
use diligence_types::record_type::RecordType;
use sqlparser::ast::{DataType, Expr, Query};

use super::scope::Level;
use super::subqueries::subquery_scalar;
use super::{Binder, Output, Rows};
use crate::algebra::{Constant, Scalar, SubqueryKind};
use crate::procedural::record_of;
use crate::routines::Definition;

impl Binder<'_> {
    /// The type that a function is declared to give. The name of a table stands for its row. Fails with 42704 for a
    /// type that there is not.
    pub(super) fn result_type(&self, data_type: &DataType) -> Result<SqlType> {
        match self.sql_type(data_type) {
            Ok(sql_type) => Ok(sql_type),
            Err(error) => Ok(record_of(&self.row_columns(data_type, error)?)),
        }
    }

    /// The value of a body. If the function gives a row, the columns of its query are the row's. Fails with 42P13 if
    /// there are more or fewer.
    pub(super) fn body_value(&self, value: &Expr, returns: Option<&SqlType>, level: &Level<'_>) -> Result<Scalar> {
        if let (Some(whole @ SqlType::Record(fields)), Expr::Subquery(query)) = (returns, value) {
            let rows = self.subquery(query, level)?;
            let rows = if is_row(&rows) { rows } else { self.as_row(rows, whole, fields)? };
            return Ok(subquery_scalar(SubqueryKind::Value, rows));
        }
        let value = self.scalar(value, level)?;
        let value = self.typed(value)?;
        let Some(whole @ SqlType::Record(fields)) = returns else { return Ok(value) };
        match (&value, fields.first()) {
            (Scalar::Constant(constant), _) if constant.is_null() => {
                Ok(Scalar::Constant(Constant::null(whole.clone())))
            }
            (value, _) if matches!(value.sql_type(), SqlType::Record(_)) => Ok(value.clone()),
            (_, Some(only)) if fields.len() == 1 => {
                let field = self.result_of(value, &only.sql_type, false)?;
                Ok(Scalar::Record { fields: vec![field], sql_type: whole.clone() })
            }
            _ => Err(mismatch(&whole.to_string(), 1, fields.len())),
        }
    }

    /// The rows of a function's query as one value: an array of them if the function gives any number. Fails with
    /// 42P13 if the query has more or fewer columns than are declared.
    pub(super) fn rows_value(&self, definition: &Definition, query: &Query, level: &Level<'_>) -> Result<Scalar> {
        let rows = self.subquery(query, level)?;
        let (types, whole) = self.spread(definition, self.routine_columns(definition)?, &rows);
        let kind = if definition.gives_rows { SubqueryKind::Array } else { SubqueryKind::Value };
        let types = match types.is_empty() {
            true => rows.columns().into_iter().map(|column| (column.name, column.sql_type)).collect(),
            false => types,
        };
        let whole = match (whole, types.as_slice()) {
            (None, [_]) => None,
            (None, types) => Some(record_of(types)),
            (whole, _) => whole,
        };
        let rows = match &whole {
            Some(whole @ SqlType::Record(fields)) => self.as_row(rows, whole, fields)?,
            _ => self.in_declared(rows, &types)?,
        };
        Ok(subquery_scalar(kind, rows))
    }

    /// The columns that a function's query gives: those of the declared composite type, unless the query gives values
    /// of the type. With the type, if its columns they are.
    pub(super) fn spread(
        &self,
        definition: &Definition,
        declared: Vec<(String, SqlType)>,
        rows: &Rows,
    ) -> (Vec<(String, SqlType)>, Option<SqlType>) {
        let spread = match declared.as_slice() {
            [(name, whole @ SqlType::Record(fields))] if *name == definition.name && !is_row(rows) => {
                let columns = fields.iter().map(|field| (field.name.clone(), field.sql_type.clone())).collect();
                Some((columns, Some(whole.clone())))
            }
            _ => None,
        };
        spread.unwrap_or((declared, None))
    }

    /// Rows whose only column is a row of what were their columns. Fails with 42P13 for more or fewer columns.
    fn as_row(&self, mut rows: Rows, whole: &SqlType, fields: &RecordType) -> Result<Rows> {
        if rows.outputs.len() != fields.len() {
            return Err(mismatch(&whole.to_string(), rows.outputs.len(), fields.len()));
        }
        let values = rows.outputs.drain(..).zip(fields.iter());
        let values = values.map(|(output, field)| self.result_of(output.scalar, &field.sql_type, false));
        let row = Scalar::Record { fields: values.collect::<Result<_>>()?, sql_type: whole.clone() };
        let column = self.column_for("row", &row);
        rows.outputs.push(Output { name: column.name.clone(), scalar: column.scalar() });
        rows.relation = rows.relation.mapped(vec![(column, row)]);
        Ok(rows)
    }

    /// Rows whose columns have the types and the names that are declared. Fails with 42P13 for more or fewer columns.
    fn in_declared(&self, mut rows: Rows, types: &[(String, SqlType)]) -> Result<Rows> {
        if rows.outputs.len() != types.len() {
            return Err(mismatch(&types.len().to_string(), rows.outputs.len(), types.len()));
        }
        let mut computed = Vec::with_capacity(types.len());
        for (output, (name, sql_type)) in rows.outputs.iter_mut().zip(types) {
            let value = std::mem::replace(&mut output.scalar, Scalar::boolean(false));
            let scalar = self.result_of(value, sql_type, false)?;
            let column = self.column_for(name, &scalar);
            (output.name, output.scalar) = (name.clone(), column.scalar());
            computed.push((column, scalar));
        }
        rows.relation = rows.relation.mapped(computed);
        Ok(rows)
    }
}

/// Whether rows have one column, which is a row.
fn is_row(rows: &Rows) -> bool {
    matches!(rows.outputs.as_slice(), [only] if matches!(only.scalar.sql_type(), SqlType::Record(_)))
}

fn mismatch(declared: &str, given: usize, wanted: usize) -> Error {
    let error = Error::input(format!("return type mismatch in function declared to return {declared}"));
    let few = if given < wanted { "few" } else { "many" };
    error.with_code("42P13").with_detail(format!("Final statement returns too {few} columns."))
}
