//! Calls of functions in other languages, which processes compute.

use std::sync::Arc;

use datafusion_expr::Volatility;
use diligence_base::{Error, Result};
use diligence_pool::Kind;
use diligence_types::SqlType;
use sqlparser::ast::{
    BinaryOperator, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments,
    Ident, ObjectName, Query,
};

use super::Binder;
use super::routines::call_of;
use super::scope::Level;
use super::syntax::written;
use crate::algebra::Scalar;
use crate::procedural::record_of;
use crate::programs::{Carried, Program, ProgramCall};
use crate::routines::{Body, Definition, RoutineParameter, cast};

impl Binder<'_> {
    /// A call of a function that a process computes.
    pub(super) fn program(
        &self,
        definition: &Definition,
        program: &Program,
        arguments: &[Expr],
        level: &Level<'_>,
    ) -> Result<Scalar> {
        let call = self.program_call(definition, program)?;
        let mut bound = Vec::with_capacity(arguments.len());
        for ((argument, parameter), (_, carried)) in arguments.iter().zip(&definition.parameters).zip(&call.parameters)
        {
            bound.push(match carried.has_parts() {
                // JSON has arrays of any number of dimensions.
                true => {
                    let argument = self.typed_scalar(&parameter.cast(argument), level)?;
                    self.explicit(argument, &carried.sql_type, false)?
                }
                false => self.argument_held(parameter, argument, level)?.cast(carried.sql_type.clone(), true),
            });
        }
        // Its rows are of this time.
        if program.volatility != Volatility::Immutable {
            self.is_transient.set(true);
        }
        let function = self.context.program(&call)?;
        let sql_type = call.returns.sql_type;
        let value = Scalar::Asked { function, arguments: bound, sql_type };
        match &definition.returns {
            Some(returns) => {
                let returns = self.result_type(returns)?;
                self.result_of(value, &returns, true).map_err(|error| of_volatile(error, &returns, program))
            }
            None if !definition.gives_rows && !definition.columns.is_empty() => {
                Ok(value.cast(record_of(&self.routine_columns(definition)?), true))
            }
            None => Ok(value),
        }
    }

    /// A call of an aggregate that a process computes: its argument is the JSON of the group's rows, with what the call
    /// says of DISTINCT, ORDER BY, FILTER and OVER. A strict one does not see rows with a NULL.
    pub(super) fn group_program(
        &self,
        name: &str,
        routines: Vec<Definition>,
        function: &Function,
        level: &Level<'_>,
    ) -> Result<Scalar> {
        let no_call = || Error::input(format!("the aggregate function {name} takes values")).with_code("42883");
        let call = call_of(written(function)).ok_or_else(no_call)?;
        let (definition, arguments) = self.routine_for(name, routines, &call, level)?;
        let Body::Program(program) = &definition.body else { return Err(no_call()) };
        let program_call = self.program_call(&definition, program)?;
        let parameters = definition.parameters.iter().zip(&program_call.parameters);
        let values = arguments.iter().zip(parameters).map(|(argument, (parameter, (_, carried)))| {
            let value = parameter.cast(argument);
            // What JSON would write in another way goes as its text.
            match carried.kind {
                Kind::Boolean | Kind::SmallInt | Kind::Integer | Kind::BigInt => value,
                _ if carried.has_parts() => cast(&cast(&value, &DataType::JSON), &DataType::Text),
                _ => cast(&value, &DataType::Text),
            }
        });
        let values = values.collect::<Vec<_>>();
        let mut group = function.clone();
        group.name = function_named("json_agg");
        let are_there = values.iter().map(|value| Expr::IsNotNull(Box::new(Expr::Nested(Box::new(value.clone())))));
        if let Some(are_there) = are_there.filter(|_| definition.is_strict).reduce(both) {
            let filter = group.filter.take().map(Expr::Nested);
            group.filter = Some(Box::new(filter.into_iter().fold(are_there, both)));
        }
        let row = FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: values.into_iter().map(|value| FunctionArg::Unnamed(FunctionArgExpr::Expr(value))).collect(),
            clauses: vec![],
        });
        let row = Function { name: function_named("jsonb_build_array"), args: row, ..plain(function) };
        let FunctionArguments::List(list) = &mut group.args else { return Err(no_call()) };
        list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(row)))];
        let group = self.typed_scalar(&cast(&Expr::Function(group), &DataType::Text), level)?;
        if program.volatility != Volatility::Immutable {
            self.is_transient.set(true);
        }
        let asked = self.context.program(&program_call)?;
        let value = Scalar::Asked { function: asked, arguments: vec![group], sql_type: program_call.returns.sql_type };
        match &definition.returns {
            Some(returns) => Ok(value.cast(self.sql_type(returns)?, true)),
            None => Ok(value),
        }
    }

    /// What a call of such a function needs. Fails with 0A000 for types that no process gets.
    pub(super) fn program_call<'d>(&self, definition: &'d Definition, program: &'d Program) -> Result<ProgramCall<'d>> {
        let parameter = |parameter: &RoutineParameter| {
            let data_type = parameter.data_type.as_ref().ok_or_else(|| Error::bug("a parameter without a type"))?;
            let carried = Carried::argument(self.result_type(data_type)?.base(), program.form)?;
            Ok((parameter.name.trim_matches('"').to_owned(), carried))
        };
        let returns = match &definition.returns {
            _ if definition.gives_rows => Carried::value(&SqlType::Text, program.form)?,
            Some(returns) => Carried::value(self.result_type(returns)?.base(), program.form)?,
            None if definition.columns.is_empty() => Carried::nothing(),
            None => Carried::value(&record_of(&self.routine_columns(definition)?), program.form)?,
        };
        let columns = match definition.gives_rows {
            true => self.program_columns(definition)?.into_iter().map(|(name, _)| name).collect(),
            false => vec![],
        };
        Ok(ProgramCall {
            name: &definition.name,
            program,
            parameters: definition.parameters.iter().map(parameter).collect::<Result<_>>()?,
            returns,
            columns,
            is_strict: definition.is_strict,
        })
    }

    /// The columns of the rows that it gives: of a composite type, or of a table's row, the columns in it.
    fn program_columns(&self, definition: &Definition) -> Result<Vec<(String, SqlType)>> {
        let columns = self.routine_columns(definition)?;
        Ok(match columns.as_slice() {
            [(name, SqlType::Record(fields))] if *name == definition.name && fields.is_row() => {
                fields.iter().map(|field| (field.name.clone(), field.sql_type.clone())).collect()
            }
            _ => columns,
        })
    }

    /// What makes rows of the JSON that such a function gives: a list of rows, which are lists of texts.
    pub(super) fn program_rows(&self, definition: &Definition) -> Result<Arc<Query>> {
        let columns = self.program_columns(definition)?;
        // As it is declared, unless that is the name of a row.
        let declared = |place: usize, sql_type: &SqlType| {
            let (_, given) = definition.columns.get(place).filter(|_| definition.columns.len() == columns.len())?;
            self.sql_type(given).is_ok_and(|known| known == *sql_type).then(|| given.to_string())
        };
        let column = |(place, (name, sql_type)): (usize, &(String, SqlType))| {
            let wanted = declared(place, sql_type).unwrap_or_else(|| sql_type.to_string());
            format!("CAST(given ->> {place} AS {wanted}) AS \"{}\"", name.replace('"', "\"\""))
        };
        let columns = columns.iter().enumerate().map(column).collect::<Vec<_>>().join(", ");
        let query = crate::parse::query(&format!("SELECT {columns} FROM json_array_elements($1) AS rows(given)"))?;
        Ok(Arc::new(query))
    }

    /// The rows that such a function gives as an array of them.
    pub(super) fn program_array(
        &self,
        definition: &Definition,
        program: &Program,
        arguments: &[Expr],
        level: &Level<'_>,
    ) -> Result<Scalar> {
        let query = self.program_rows(definition)?;
        let value = self.program(definition, program, arguments, level)?.cast(SqlType::Json, true);
        self.with_template(vec![value], || self.rows_value(definition, &query, level))
    }
}

/// The error for a value of a domain, with what to do if that is because the function is volatile.
fn of_volatile(error: Error, returns: &SqlType, program: &Program) -> Error {
    match (returns, program.volatility) {
        (SqlType::Domain(domain), Volatility::Volatile) if error.code() == Some("0A000") => {
            let base = domain.base.below_domains();
            error.with_hint(format!("make the function IMMUTABLE or STABLE, or have it return {base}"))
        }
        _ => error,
    }
}

/// The name of a function.
fn function_named(name: &str) -> ObjectName {
    ObjectName::from(vec![Ident::new(name)])
}

/// A call with none of the clauses that another has.
fn plain(function: &Function) -> Function {
    Function {
        over: None,
        filter: None,
        null_treatment: None,
        within_group: vec![],
        parameters: FunctionArguments::None,
        ..function.clone()
    }
}

/// One condition and another.
fn both(left: Expr, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::And, right: Box::new(right) }
}
