//! Functions that statements make: CREATE FUNCTION … LANGUAGE sql, and DuckDB's CREATE MACRO.
//!
//! A routine keeps its statement, as a view does; every use puts its body in the place of the call. Among the objects
//! of a schema it has a name that no relation can have: a function and a table may be called alike, and functions of
//! one name differ in their arguments.

use std::sync::Arc;

use sqlparser::ast::{
    CreateFunction, Expr, FunctionBehavior, FunctionCalledOnNull, FunctionSecurity, FunctionSetValue, MacroDefinition,
    Statement, Value,
};

use crate::RelationName;

/// What the names of routines begin with among those of a schema's objects.
const PREFIX: &str = "\u{1}routine ";

/// The function whose call is the body of the macro that CREATE AGGREGATE makes.
pub const AGGREGATE_FOLD: &str = "aggregate fold";

/// A function that a statement made.
#[derive(Debug)]
pub struct Routine {
    /// The `CREATE FUNCTION` or `CREATE MACRO` statement.
    pub source: Arc<Statement>,
    /// How deep that statement nests in levels of the parser.
    pub depth: usize,
}

impl Routine {
    /// The text of the statement that made it.
    pub fn definition(&self) -> String {
        text_of(&self.source)
    }

    /// The same, where a procedure is made by CREATE PROCEDURE, as PostgreSQL writes it.
    pub fn statement(&self) -> String {
        match self.source.as_ref() {
            Statement::CreateFunction(create) if self.is_procedure() => {
                let made = CreateFunction { return_type: None, ..create.clone() };
                Statement::CreateFunction(made).to_string().replacen(" FUNCTION ", " PROCEDURE ", 1)
            }
            other => text_of(other),
        }
    }

    /// Whether it is an aggregate: of a language for them, or made of functions.
    pub fn is_aggregate(&self) -> bool {
        let is_fold = match self.source.as_ref() {
            Statement::CreateMacro { definition: MacroDefinition::Expr(Expr::Function(call)), .. } => {
                let name = call.name.0.last().and_then(|part| part.as_ident());
                name.is_some_and(|name| name.value == AGGREGATE_FOLD)
            }
            _ => false,
        };
        is_fold || self.language() == "python_aggregate"
    }

    /// The language of its body, in lower case.
    pub fn language(&self) -> String {
        match self.source.as_ref() {
            Statement::CreateFunction(create) => create.language.as_ref().map(|language| language.value.to_lowercase()),
            _ => None,
        }
        .unwrap_or_else(|| "sql".to_owned())
    }

    /// How its values may change, as `pg_proc` says it: `i`, `s` or `v`.
    pub fn volatility(&self) -> &'static str {
        match self.source.as_ref() {
            Statement::CreateFunction(create) => match create.behavior {
                Some(FunctionBehavior::Immutable) => "i",
                Some(FunctionBehavior::Stable) => "s",
                Some(FunctionBehavior::Volatile) | None => "v",
            },
            _ => "v",
        }
    }

    /// Whether it is a procedure, which CALL runs.
    pub fn is_procedure(&self) -> bool {
        let Statement::CreateFunction(create) = self.source.as_ref() else { return false };
        matches!(&create.return_type, Some(returns) if returns.to_string() == "\"procedure\"")
    }

    /// Whether it does what its owner may do, whoever calls it: SECURITY DEFINER.
    pub fn acts_as_owner(&self) -> bool {
        matches!(self.source.as_ref(), Statement::CreateFunction(create)
            if matches!(create.security, Some(FunctionSecurity::Definer)))
    }

    /// What its settings are while it runs.
    pub fn settings(&self) -> Vec<(String, String)> {
        match self.source.as_ref() {
            Statement::CreateFunction(create) => settings_of(create),
            _ => vec![],
        }
    }

    /// Whether it is NULL if an argument is.
    pub fn is_strict(&self) -> bool {
        let strict = Some(FunctionCalledOnNull::Strict);
        matches!(self.source.as_ref(), Statement::CreateFunction(create) if create.called_on_null == strict
            || create.called_on_null == Some(FunctionCalledOnNull::ReturnsNullOnNullInput))
    }
}

/// The text of a statement. Of a macro without parameters the tree has no parentheses, which its text must have.
fn text_of(statement: &Statement) -> String {
    match statement {
        Statement::CreateMacro { or_replace, temporary, name, args: None, definition } => Statement::CreateMacro {
            or_replace: *or_replace,
            temporary: *temporary,
            name: name.clone(),
            args: Some(vec![]),
            definition: definition.clone(),
        }
        .to_string(),
        other => other.to_string(),
    }
}

/// What a function's settings are while it runs, by name: SET name = value. Of several of one name the last counts.
pub fn settings_of(create: &CreateFunction) -> Vec<(String, String)> {
    let mut settings = Vec::<(String, String)>::new();
    for set in &create.set_params {
        let name = set.name.to_string().replace('"', "").to_lowercase();
        settings.retain(|(known, _)| *known != name);
        if let FunctionSetValue::Values(values) = &set.value {
            let value = values.iter().map(setting_value).collect::<Vec<_>>().join(", ");
            settings.push((name, value));
        }
    }
    settings
}

/// A value as SET takes it: a name in quotes keeps them, a text loses them.
fn setting_value(value: &Expr) -> String {
    match value {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => text.clone(),
            other => other.to_string(),
        },
        other => other.to_string(),
    }
}

impl RelationName {
    /// The name of a routine. `arguments` tell those of one name apart; a macro has none.
    pub fn of_routine(schema: &str, name: &str, arguments: Option<&str>) -> Self {
        let arguments = arguments.map(|arguments| format!("({arguments})")).unwrap_or_default();
        Self::new(schema, format!("{PREFIX}{name}{arguments}"))
    }

    /// The routine's name with its arguments, if it is one's.
    pub fn routine(&self) -> Option<&str> {
        self.name.strip_prefix(PREFIX)
    }
}
