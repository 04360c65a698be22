//! ALTER FUNCTION, ALTER PROCEDURE and ALTER ROUTINE with what CREATE FUNCTION says of a function beside its body: how
//! its values change, whether it is NULL for a NULL, whose rights it has, its settings.

use std::sync::Arc;

use diligence_base::{Error, Result};
use diligence_catalog::{Relation, Routine};
use sqlparser::ast::{
    self, FunctionBehavior, FunctionCalledOnNull, FunctionDefinitionSetParam, FunctionParallel, FunctionSecurity,
    FunctionSetValue, Ident, ObjectName,
};

use super::around::Around;
use super::authority::Words;
use super::settings::setting_name;
use crate::routines::Definition;
use crate::statement::{Command, Statement};

impl Around<'_> {
    /// ALTER FUNCTION with attributes; the words behind ALTER. Fails with 42883 if there is no such function, 42501 for
    /// one of somebody else, 42P13 for what a procedure does not have, 42704 for an unknown setting, and 42601.
    pub(super) fn alter_routine(&self, words: &mut Words) -> Result<Statement> {
        let tag = match words.word()?.as_str() {
            "procedure" => "ALTER PROCEDURE",
            "routine" => "ALTER ROUTINE",
            _ => "ALTER FUNCTION",
        };
        let object = self.routine_in(words)?;
        let Relation::Routine(routine) = &object.relation else { return Err(words.wrong()) };
        let ast::Statement::CreateFunction(create) = routine.source.as_ref() else {
            let error = Error::unsupported(format!("{tag} of a macro is not supported")).with_code("0A000");
            return Err(error.with_hint("CREATE OR REPLACE MACRO makes it anew"));
        };
        if words.is_end() {
            return Err(words.wrong());
        }
        let (mut create, is_procedure) = (create.clone(), routine.is_procedure());
        while !words.is_end() {
            if words.take(&["restrict"]) {
                words.end()?;
                break;
            }
            if !alter_settings(words, &mut create)? && !alter_security(words, &mut create)? {
                alter_values(words, &mut create)?;
                if is_procedure {
                    let error = Error::input("invalid attribute in procedure definition").with_code("42P13");
                    return Err(error.with_hint("a procedure has SECURITY, SET and RESET"));
                }
            }
        }
        let made = ast::Statement::CreateFunction(create);
        let made = self.with_settings(&made)?.unwrap_or(made);
        Definition::of(&made)?;
        let routine = Arc::new(Routine { source: Arc::new(made), depth: routine.depth });
        let name = object.name.clone();
        Ok(Statement::Command(Command::CreateRoutine { name, routine, or_replace: true, others: vec![], tag }))
    }
}

/// SET and RESET; whether one of them comes.
fn alter_settings(words: &mut Words, create: &mut ast::CreateFunction) -> Result<bool> {
    if words.take(&["reset", "all"]) {
        create.set_params.clear();
        return Ok(true);
    }
    let resets = words.take(&["reset"]);
    if !resets && !words.take(&["set"]) {
        return Ok(false);
    }
    let mut parts = vec![Ident::new(words.name()?.0)];
    while words.take(&["."]) {
        parts.push(Ident::new(words.name()?.0));
    }
    let name = ObjectName::from(parts);
    let known = setting_name(&name);
    let value = match resets {
        true => None,
        false if words.take(&["from", "current"]) => Some(FunctionSetValue::FromCurrent),
        false => {
            if !words.take(&["="]) {
                words.expect(&["to"])?;
            }
            match words.take(&["default"]) {
                true => None,
                false => Some(FunctionSetValue::Values(words.list(Words::value)?)),
            }
        }
    };
    create.set_params.retain(|set| setting_name(&set.name) != known);
    create.set_params.extend(value.map(|value| FunctionDefinitionSetParam { name, value }));
    Ok(true)
}

/// SECURITY DEFINER and SECURITY INVOKER; whether one of them comes.
fn alter_security(words: &mut Words, create: &mut ast::CreateFunction) -> Result<bool> {
    if !words.take(&["external", "security"]) && !words.take(&["security"]) {
        return Ok(false);
    }
    create.security = Some(match words.word()?.as_str() {
        "definer" => FunctionSecurity::Definer,
        "invoker" => FunctionSecurity::Invoker,
        _ => return Err(words.wrong()),
    });
    Ok(true)
}

/// What is said of a function's values. Hints for a planner are read, and have no effect. Fails with 42601 if something
/// else comes.
fn alter_values(words: &mut Words, create: &mut ast::CreateFunction) -> Result<()> {
    if words.take(&["called", "on", "null", "input"]) {
        create.called_on_null = Some(FunctionCalledOnNull::CalledOnNullInput);
    } else if words.take(&["strict"]) || words.take(&["returns", "null", "on", "null", "input"]) {
        create.called_on_null = Some(FunctionCalledOnNull::Strict);
    } else if words.take(&["immutable"]) {
        create.behavior = Some(FunctionBehavior::Immutable);
    } else if words.take(&["stable"]) {
        create.behavior = Some(FunctionBehavior::Stable);
    } else if words.take(&["volatile"]) {
        create.behavior = Some(FunctionBehavior::Volatile);
    } else if words.take(&["parallel"]) {
        create.parallel = Some(match words.word()?.as_str() {
            "safe" => FunctionParallel::Safe,
            "restricted" => FunctionParallel::Restricted,
            "unsafe" => FunctionParallel::Unsafe,
            _ => {
                let message = "parameter \"parallel\" must be SAFE, RESTRICTED, or UNSAFE";
                return Err(Error::input(message).with_code("42601"));
            }
        });
    } else if words.take(&["cost"]) || words.take(&["rows"]) {
        words.value()?;
    } else if !words.take(&["leakproof"]) && !words.take(&["not", "leakproof"]) {
        return Err(words.wrong());
    }
    Ok(())
}
