//! DataFusion's options as a session's settings, and SET.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::FunctionRegistry;
use datafusion::sql::sqlparser::ast;
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::{from_datafusion, to_datafusion};

use super::{Planner, SessionParts};
use crate::errors;
use crate::state::{fix_options, set_defaults};
use crate::statement::Statement;

/// One of DataFusion's options.
#[derive(Clone, Debug)]
pub struct PlannerOption {
    /// Its name, `datafusion.…`.
    pub name: String,
    /// Its value, if it has one.
    pub value: Option<String>,
    /// The value that RESET gives it.
    pub default: Option<String>,
    /// What it does.
    pub description: &'static str,
}

impl Planner {
    /// DataFusion's options with their values.
    pub fn datafusion_options(&self) -> Vec<PlannerOption> {
        let session = self.session();
        let mut built_in = ConfigOptions::default();
        set_defaults(&mut built_in);
        fix_options(&mut built_in);
        let defaults = built_in.entries().into_iter().map(|entry| (entry.key, entry.value)).collect::<HashMap<_, _>>();
        let entries = session.state.config_options().entries().into_iter();
        let options = entries.map(|entry| PlannerOption {
            default: defaults.get(&entry.key).cloned().flatten(),
            name: entry.key,
            value: entry.value,
            description: entry.description,
        });
        options.collect()
    }

    /// Changes one of DataFusion's options, for statements planned from now on. Fails on one that the engine relies on.
    pub fn set_datafusion_option(&self, name: &str, value: &str) -> Result<()> {
        self.change(|options| {
            options.set(name, value)?;
            let wanted = value_of(options, name);
            fix_options(options);
            if value_of(options, name) != wanted {
                let error = Error::input(format!("the setting '{name}' is fixed: the engine relies on it"));
                return Err(to_datafusion(error));
            }
            Ok(())
        })
    }

    /// Gives one of DataFusion's options its default back.
    pub fn reset_datafusion_option(&self, name: &str) -> Result<()> {
        let default = self.datafusion_options().into_iter().find(|option| option.name == name);
        let default = default.and_then(|option| option.default).unwrap_or_default();
        self.change(|options| options.set(name, &default))
    }

    fn change(&self, change: impl FnOnce(&mut ConfigOptions) -> DataFusionResult<()>) -> Result<()> {
        let snapshot = self.catalogs.snapshot();
        let at = self.planning(&snapshot);
        let mut session = self.session.write();
        let mut state = session.state.clone();
        change(state.config_mut().options_mut()).map_err(|error| errors::planning(error, &at))?;
        fix_options(state.config_mut().options_mut());
        state.mark_start_execution();
        // Some functions hold settings (the time zone of now()).
        let options = state.config_options().clone();
        let changed = state
            .scalar_functions()
            .values()
            .filter_map(|function| function.inner().with_updated_config(&options).map(Arc::new));
        for function in changed.collect::<Vec<_>>() {
            state.register_udf(function).map_err(from_datafusion)?;
        }
        let is_own = session.is_own;
        *session = SessionParts::new(state, is_own);
        Ok(())
    }
}

fn value_of(options: &ConfigOptions, name: &str) -> Option<String> {
    options.entries().into_iter().find(|entry| entry.key == name).and_then(|entry| entry.value)
}

pub(super) fn setting_name(name: &ast::ObjectName) -> String {
    name.to_string().replace('"', "").to_lowercase()
}

pub(super) fn set_statement(set: ast::Set) -> Result<Statement> {
    let (name, values) = match set {
        ast::Set::SingleAssignment { variable, values, .. } => (setting_name(&variable), values),
        ast::Set::SetTimeZone { value, .. } => ("datafusion.execution.time_zone".to_owned(), vec![value]),
        other => {
            return Err(Error::unsupported(format!("{other} is not supported")).with_hint("write SET name = value"));
        }
    };
    let name = if name == "timezone" || name == "time.zone" { "datafusion.execution.time_zone".into() } else { name };
    let [value] = values.as_slice() else {
        return Err(Error::input(format!("expected one value for '{name}', found {}", values.len())));
    };
    let value = match value {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::SingleQuotedString(text) | ast::Value::DoubleQuotedString(text) => text.clone(),
            other => other.to_string(),
        },
        ast::Expr::Identifier(word) => word.value.clone(),
        other => other.to_string(),
    };
    if value.eq_ignore_ascii_case("default") {
        return Ok(Statement::Reset { name: Some(name) });
    }
    Ok(Statement::Set { name, value })
}
