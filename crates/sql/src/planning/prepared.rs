//! PREPARE and EXECUTE: statements that a session keeps by name, to be planned with other values each time.

use std::collections::HashMap;
use std::time::SystemTime;

use datafusion_common::ScalarValue;
use diligence_base::{Error, ErrorKind, Result};
use diligence_types::SqlType;
use sqlparser::ast;

use super::around::Around;
use super::statements::BoundStatement;
use super::{Planned, Planner};
use crate::algebra::{Constant, Scalar};
use crate::binder;
use crate::errors;
use crate::lowering::{self, LoweringOptions};
use crate::parse::{Parsed, SyntaxTree, with_stack};
use crate::statement::{Command, Statement};

/// Prepared statements that a session may have.
const PREPARED_MAX: usize = 10_000;

/// A statement that a session keeps.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    /// The types of its parameters as PREPARE says them; fewer than it has, perhaps.
    pub(super) types: Vec<SqlType>,
    pub(super) statement: Parsed,
    /// As it is shown.
    info: PreparedInfo,
}

/// A statement that a session keeps by name: a row of `pg_prepared_statements`.
#[derive(Clone, Debug)]
pub struct PreparedInfo {
    /// The statement that has prepared it, or what a client has sent.
    pub statement: String,
    /// When it was prepared.
    pub since: SystemTime,
    /// The names of its parameters' types.
    pub types: Vec<String>,
}

impl Planner {
    /// The statements that PREPARE has made, by name.
    pub fn prepared(&self) -> Vec<(String, PreparedInfo)> {
        let prepared = self.prepared.lock();
        prepared.iter().map(|(name, prepared)| (name.clone(), prepared.info.clone())).collect()
    }

    /// Forgets them.
    pub fn forget_prepared(&self) {
        self.prepared.lock().clear();
    }
}

impl Around<'_> {
    pub(super) fn prepare(&self, statement: &ast::Statement, parsed: &Parsed) -> Result<Statement> {
        let shown = statement.to_string();
        let ast::Statement::Prepare { name, data_types, statement } = statement else {
            return Err(Error::bug("not a PREPARE"));
        };
        let name = prepared_name(name);
        let types = data_types.iter().map(|data_type| Ok(binder::named_type(data_type, self)?.base().clone()));
        let types = types.collect::<Result<Vec<_>>>()?;
        let inner = SyntaxTree::Statement(statement.clone());
        let statement = Parsed { statement: inner, depth: parsed.depth };
        // Bound now to find mistakes now; planned again at each EXECUTE, over the tables as they are then.
        let around = Around::new(self.planner, self.at, self.names, types.clone()).without_rows();
        let parameters = match around.bind(&statement.statement, &statement)? {
            BoundStatement::Other(_) => {
                let error = Error::input("PREPARE takes a query or an INSERT").with_code("42601");
                return Err(error.with_hint("other statements have no parameters: send them as they are"));
            }
            bound => parameters_of(&bound),
        };
        let types_shown = parameters.iter().map(|sql_type| sql_type.without_modifier().to_string()).collect();
        let mut prepared = self.planner.prepared.lock();
        if prepared.contains_key(&name) {
            let error = Error::input(format!("a prepared statement named '{name}' exists already"));
            return Err(error.with_code("42P05").with_hint(format!("DEALLOCATE {name} drops it")));
        }
        if prepared.len() >= PREPARED_MAX {
            return Err(Error::resource(format!("a session has at most {PREPARED_MAX} prepared statements"))
                .with_hint("DEALLOCATE the ones that are no longer needed"));
        }
        let info = PreparedInfo { statement: shown, since: SystemTime::now(), types: types_shown };
        prepared.insert(name, Prepared { types, statement, info });
        Ok(Statement::Command(Command::Nothing("PREPARE")))
    }

    pub(super) fn execute(&self, statement: &ast::Statement) -> Result<Statement> {
        let ast::Statement::Execute { name: Some(name), parameters, using, .. } = statement else {
            return Err(Error::unsupported("EXECUTE IMMEDIATE is not supported"));
        };
        let name = match name.0.as_slice() {
            [part] => part.as_ident().map(prepared_name).unwrap_or_default(),
            _ => name.to_string(),
        };
        let Prepared { types, statement, .. } = {
            let prepared = self.planner.prepared.lock();
            prepared.get(&name).cloned().ok_or_else(|| no_prepared(&name, &prepared))?
        };
        let given = parameters.iter().chain(using.iter().map(|value| &value.expr)).collect::<Vec<_>>();
        with_stack(statement.depth, || {
            let types = Around::new(self.planner, self.at, self.names, types).without_rows();
            let bound = types.bind(&statement.statement, &statement)?;
            let wanted = parameters_of(&bound);
            if given.len() != wanted.len() {
                let message = format!("wrong number of parameters for prepared statement \"{name}\"");
                let hint = format!("expected {} parameters, found {}", wanted.len(), given.len());
                return Err(Error::input(message).with_code("42601").with_hint(hint));
            }
            let values = given.iter().zip(&wanted).enumerate().map(|(index, (value, sql_type))| {
                self.value(value, sql_type).map_err(|error| error.context(format!("EXECUTE {name}, ${}", index + 1)))
            });
            let values = values.collect::<Result<Vec<_>>>()?;
            let planned = match types.lacks_moment.get() {
                false => types.planned(bound, &values)?,
                // Now that it is known, the tables are those of then.
                true => {
                    let valued = Around::new(self.planner, self.at, self.names, wanted).with_values(&values);
                    let bound = valued.bind(&statement.statement, &statement)?;
                    valued.planned(bound, &values)?
                }
            };
            match planned {
                Planned::Query(query, _) => Ok(Statement::Query(query.as_ref().clone())),
                Planned::Other(statement) => Ok(*statement),
            }
        })
    }

    /// The value of an expression in the type of a parameter.
    fn value(&self, expression: &ast::Expr, sql_type: &SqlType) -> Result<ScalarValue> {
        binder::refuse_queries(expression, "EXECUTE parameter")?;
        let scalar = binder::bind_value(expression, sql_type, self)?;
        self.constant(expression, &scalar).map(|constant| constant.value)
    }

    /// The value of an expression that was bound. Fails with 42601 if it is not known, and as computing it does.
    pub(super) fn constant(&self, expression: &ast::Expr, scalar: &Scalar) -> Result<Constant> {
        let options = LoweringOptions {
            zone: binder::Context::zone(self).to_owned(),
            options: self.at.session.options.clone(),
            keeps_parameters: false,
        };
        match lowering::value_of(scalar, &options) {
            Err(error) if error.kind() == ErrorKind::Bug => {
                Err(Error::input(format!("{expression} is not a constant")).with_code("42601"))
            }
            known => known,
        }
    }
}

/// The types of a statement's parameters.
fn parameters_of(bound: &BoundStatement) -> Vec<SqlType> {
    match bound {
        BoundStatement::Query(rows) | BoundStatement::Write { rows, .. } => rows.parameters.clone(),
        BoundStatement::Several(several) => several.parameters.clone(),
        BoundStatement::Explain { .. } | BoundStatement::Other(_) => vec![],
    }
}

/// A prepared statement's name as it is looked up.
fn prepared_name(name: &ast::Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() }
}

pub(super) fn no_prepared(name: &str, prepared: &HashMap<String, Prepared>) -> Error {
    let names = prepared.keys().cloned().collect::<Vec<_>>();
    let error = Error::input(format!("no prepared statement is named '{name}'")).with_code("26000");
    errors::suggest(error, name, &names)
}
