//! PREPARE and EXECUTE: statements that a session keeps by name, to be planned with other values each time.

use arrow::datatypes::FieldRef;
use datafusion::common::{DFSchema, ParamValues, ScalarValue};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Execute, Expr, LogicalPlan, Statement as LogicalStatement};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::parser::Statement as ParsedStatement;
use datafusion::sql::sqlparser::ast;
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_datafusion;

use super::names::Names;
use super::own::{Prepared, no_prepared};
use super::parameters::inner;
use super::{Planner, Planning};
use crate::errors;
use crate::parse::{self, Parsed};
use crate::statement::{Command, Statement};

/// Prepared statements that a session may have.
const PREPARED_MAX: usize = 10_000;

impl Planner {
    pub(super) fn prepare(&self, at: &Planning<'_>, statement: ast::Statement, depth: usize) -> Result<Statement> {
        let ast::Statement::Prepare { name, .. } = &statement else { return Err(Error::bug("not a PREPARE")) };
        let name = name.value.to_lowercase();
        let parsed = Parsed { statement: ParsedStatement::Statement(Box::new(statement)), refused: None, depth };
        // Planned now to find mistakes now; planned again at each EXECUTE, over the tables as they are then.
        self.logical(at, parsed.statement.clone(), |_, _| Ok(()))?;
        let mut prepared = self.prepared.lock();
        if prepared.contains_key(&name) {
            return Err(Error::input(format!("a prepared statement named '{name}' exists already"))
                .with_hint(format!("DEALLOCATE {name} drops it")));
        }
        if prepared.len() >= PREPARED_MAX {
            return Err(Error::resource(format!("a session has at most {PREPARED_MAX} prepared statements"))
                .with_hint("DEALLOCATE the ones that are no longer needed"));
        }
        prepared.insert(name, Prepared { types: vec![], statement: parsed });
        Ok(Statement::Command(Command::Nothing("PREPARE")))
    }

    pub(super) fn execute(&self, at: &Planning<'_>, execute: Execute) -> Result<Statement> {
        let name = execute.name.to_lowercase();
        let parsed = {
            let prepared = self.prepared.lock();
            prepared.get(&name).cloned().ok_or_else(|| no_prepared(&name, &prepared))?.statement
        };
        let with_values = |plan, values: Vec<ScalarValue>| {
            let values = ParamValues::from(values);
            let plan = inner(plan)?.replace_params_with_values(&values);
            self.planned(at, plan.map_err(|error| errors::planning(error, at))?, None)
        };
        parse::with_stack(parsed.depth, || {
            let done = self.logical(at, parsed.statement.clone(), |plan, names| {
                let LogicalPlan::Statement(LogicalStatement::Prepare(prepare)) = &plan else {
                    return Err(Error::bug("a prepared statement planned to something else"));
                };
                let values = parameters(at, execute.parameters, &prepare.fields)
                    .map_err(|error| error.context(format!("EXECUTE {name}")))?;
                if names.has_guessed() { Ok(Err(values)) } else { with_values(plan, values).map(Ok) }
            })?;
            done.or_else(|values| {
                let plan_with = |plan, _: &Names<'_>| with_values(plan, values.clone());
                self.logical_with(at, parsed.statement, &values, plan_with)
            })
        })
    }
}

/// The values of parameters with these types; those of unknown type keep their own.
fn parameters(at: &Planning<'_>, given: Vec<Expr>, fields: &[FieldRef]) -> Result<Vec<ScalarValue>> {
    if !fields.is_empty() && given.len() != fields.len() {
        return Err(Error::input(format!("expected {} parameters, found {}", fields.len(), given.len())));
    }
    let options = at.session.state.config_options().clone();
    let simplifier = ExprSimplifier::new(SimplifyContext::builder().with_config_options(options).build());
    let values = given.into_iter().enumerate().map(|(index, expr)| {
        let text = expr.to_string();
        let coerced = simplifier.coerce(expr, &DFSchema::empty()).map_err(from_datafusion)?;
        let Expr::Literal(value, _) = simplifier.simplify(coerced).map_err(from_datafusion)? else {
            return Err(Error::input(format!("the parameter ${} is not a constant: {text}", index + 1)));
        };
        match fields.get(index) {
            Some(field) => value.cast_to(field.data_type()).map_err(from_datafusion),
            None => Ok(value),
        }
    });
    values.collect()
}
