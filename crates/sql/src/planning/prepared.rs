//! PREPARE and EXECUTE: statements that a session keeps by name, to be planned with other values each time.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::SystemTime;

use datafusion_common::ScalarValue;
use diligence_base::{Error, ErrorKind, Result};
use diligence_types::SqlType;
use sqlparser::ast;

use super::around::Around;
use super::bound::BoundStatement;
use super::{Planned, Planner};
use crate::algebra::{Constant, Scalar};
use crate::binder;
use crate::errors;
use crate::lowering::{self, LoweringOptions};
use crate::parse::{self, EXECUTED, Parsed, SyntaxTree, parts_of, with_stack};
use crate::procedural;
use crate::statement::{Command, Statement};
use crate::walking::each_expression_mut;

/// Prepared statements that a session may have.
const PREPARED_MAX: usize = 10_000;

/// A statement that a session keeps.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    /// The types of its parameters as PREPARE says them; fewer than it has, perhaps.
    pub(super) types: Vec<SqlType>,
    /// The names of its parameters, `$x`, in the order of their numbers; none, if they have numbers only.
    pub(super) names: Vec<String>,
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
        let mut inner = statement.clone();
        let names = numbered(&mut inner)?;
        let inner = SyntaxTree::Statement(inner);
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
        prepared.insert(name, Prepared { types, names, statement, info });
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
        let Prepared { types, names, statement, .. } = {
            let prepared = self.planner.prepared.lock();
            prepared.get(&name).cloned().ok_or_else(|| no_prepared(&name, &prepared))?
        };
        let given = parameters.iter().chain(using.iter().map(|value| &value.expr)).collect::<Vec<_>>();
        let given = in_order(given, &names)?;
        with_stack(statement.depth, || {
            let types = Around::new(self.planner, self.at, self.names, types).without_rows();
            let bound = types.bind(&statement.statement, &statement)?;
            let wanted = parameters_of(&bound);
            refuse_other_number(&name, given.len(), wanted.len())?;
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

    /// `CREATE TABLE … AS EXECUTE p(…)` with the query of the prepared statement, whose parameters are these values;
    /// `None` of others. Fails with 42809 if it is no query, and as EXECUTE does.
    pub(super) fn with_executed(&self, create: &ast::CreateTable) -> Result<Option<ast::CreateTable>> {
        let Some((name, given)) = create.query.as_deref().and_then(executed) else { return Ok(None) };
        let Prepared { types, names, statement, .. } = {
            let prepared = self.planner.prepared.lock();
            prepared.get(&name).cloned().ok_or_else(|| no_prepared(&name, &prepared))?
        };
        let given = in_order(given, &names)?;
        let mut query = match &statement.statement {
            SyntaxTree::Statement(inner) => match inner.as_ref() {
                ast::Statement::Query(query) => query.clone(),
                _ => return Err(Error::input("prepared statement is not a SELECT").with_code("42809")),
            },
            _ => return Err(Error::input("prepared statement is not a SELECT").with_code("42809")),
        };
        with_stack(statement.depth, || {
            let around = Around::new(self.planner, self.at, self.names, types).without_rows();
            let wanted = parameters_of(&around.bind(&statement.statement, &statement)?);
            refuse_other_number(&name, given.len(), wanted.len())?;
            let value = |(value, sql_type): (&&ast::Expr, &SqlType)| {
                binder::refuse_queries(value, "EXECUTE parameter")?;
                parse::expression(&format!("CAST(({value}) AS {sql_type})"))
            };
            let values = given.iter().zip(&wanted).map(value).collect::<Result<Vec<_>>>()?;
            let done = each_expression_mut(&mut query, |expression| {
                if let ast::Expr::Value(value) = expression
                    && let ast::Value::Placeholder(parameter) = &value.value
                    && let Some(number) = procedural::number_of(parameter)
                    && let Some(value) = number.checked_sub(1).and_then(|place| values.get(place))
                {
                    *expression = value.clone();
                }
                ControlFlow::Continue(())
            });
            debug_assert!(done.is_continue());
            Ok(Some(ast::CreateTable { query: Some(query), ..create.clone() }))
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

/// Fails with 42601 if EXECUTE gives another number of values than there are parameters.
fn refuse_other_number(name: &str, given: usize, wanted: usize) -> Result<()> {
    if given == wanted {
        return Ok(());
    }
    let message = format!("wrong number of parameters for prepared statement \"{name}\"");
    let hint = format!("expected {wanted} parameters, found {given}");
    Err(Error::input(message).with_code("42601").with_hint(hint))
}

/// The name of the prepared statement that EXECUTE in the place of a query runs, and the values that it gives.
fn executed(query: &ast::Query) -> Option<(String, Vec<&ast::Expr>)> {
    let ast::SetExpr::Select(select) = query.body.as_ref() else { return None };
    let [from] = select.from.as_slice() else { return None };
    let ast::TableFactor::Table { name, args: Some(arguments), .. } = &from.relation else { return None };
    if parts_of(name)? != [EXECUTED] {
        return None;
    }
    let value = |argument| match argument {
        &ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ref value)) => Some(value),
        _ => None,
    };
    let mut values = arguments.args.iter().map(value);
    let ast::Expr::Value(prepared) = values.next()?? else { return None };
    let ast::Value::SingleQuotedString(prepared) = &prepared.value else { return None };
    Some((prepared.clone(), values.collect::<Option<Vec<_>>>()?))
}

/// The types of a statement's parameters.
fn parameters_of(bound: &BoundStatement) -> Vec<SqlType> {
    match bound {
        BoundStatement::Query(rows) | BoundStatement::Write { rows, .. } => rows.parameters.clone(),
        BoundStatement::Several(several) => several.parameters.clone(),
        BoundStatement::Explain { .. } | BoundStatement::Other(_) => vec![],
    }
}

/// Gives parameters with names, `$x`, numbers in the order in which they come, and gives these names. Fails with 42P02
/// if others have numbers already.
fn numbered(statement: &mut ast::Statement) -> Result<Vec<String>> {
    let (mut names, mut has_numbers) = (Vec::<String>::new(), false);
    let done = each_expression_mut(statement, |expression| {
        if let ast::Expr::Value(value) = expression
            && let ast::Value::Placeholder(parameter) = &mut value.value
            && let Some(name) = parameter.strip_prefix('$').map(str::to_lowercase)
        {
            if procedural::number_of(parameter).is_some() {
                has_numbers = true;
            } else {
                let place = names.iter().position(|known| *known == name).unwrap_or(names.len());
                if place == names.len() {
                    names.push(name);
                }
                *parameter = format!("${}", place + 1);
            }
        }
        ControlFlow::Continue(())
    });
    debug_assert!(done.is_continue());
    match has_numbers && !names.is_empty() {
        true => Err(Error::input("the parameters of a statement have names or numbers, not both").with_code("42P02")),
        false => Ok(names),
    }
}

/// The values of EXECUTE, `x := 4`, in the order of the parameters' names; as they are, if they have none. Fails with
/// 42601 if one is missing, and for a name that is no parameter's.
fn in_order<'e>(given: Vec<&'e ast::Expr>, names: &[String]) -> Result<Vec<&'e ast::Expr>> {
    let named = |value: &'e ast::Expr| match value {
        ast::Expr::BinaryOp { left, op: ast::BinaryOperator::Assignment, right } => match left.as_ref() {
            ast::Expr::Identifier(name) => Some((name.value.to_lowercase(), right.as_ref())),
            _ => None,
        },
        _ => None,
    };
    let all = given.iter().map(|value| named(value)).collect::<Option<Vec<_>>>();
    let Some(all) = all.filter(|all| !all.is_empty()) else { return Ok(given) };
    if let Some((unknown, _)) = all.iter().find(|(name, _)| !names.contains(name)) {
        return Err(Error::input(format!("the statement has no parameter ${unknown}")).with_code("42601"));
    }
    let value = |name: &String| {
        let found = all.iter().find(|(known, _)| known == name).map(|(_, value)| *value);
        found.ok_or_else(|| Error::input(format!("EXECUTE gives no value for ${name}")).with_code("42601"))
    };
    names.iter().map(value).collect()
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
