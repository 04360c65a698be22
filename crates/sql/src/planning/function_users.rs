//! What calls a function that is to go: views, defaults, generated columns and conditions of tables.

use std::ops::ControlFlow;

use diligence_base::{Error, Result};
use diligence_catalog::rules::TableRules;
use diligence_catalog::{NativeTable, Relation, RelationName};
use sqlparser::ast::{self, Expr, Visit};

use super::around::Around;
use super::definitions::lower;
use crate::walking::{each_expression, walk};

const HINT: &str = "Use DROP ... CASCADE to drop the dependent objects too.";

impl Around<'_> {
    /// The views that go with a function. Fails with 2BP01 if there are any, or a table calls it, and it does not
    /// `cascade`. Of several functions of a name it is not told which one is called.
    pub(super) fn callers_of(&self, function: &RelationName, cascade: bool) -> Result<Vec<RelationName>> {
        let shown = function.routine().unwrap_or(&function.name);
        let Some(name) = self.only_of_its_name(function) else { return Ok(vec![]) };
        let catalog = &self.at.snapshot.catalog;
        let depends = |what: String| {
            let message = format!("cannot drop function {shown} because other objects depend on it");
            let detail = format!("{what} depends on function {shown}");
            Err(Error::input(message).with_code("2BP01").with_detail(detail).with_hint(HINT))
        };
        let mut views = Vec::new();
        for object in catalog.objects() {
            match &object.relation {
                Relation::View(view) => {
                    let query = view.query()?;
                    if !calls(query.as_ref(), name) && !selects_from(query.as_ref(), name) {
                        continue;
                    }
                    if !cascade {
                        return depends(format!("view {}", object.name));
                    }
                    views.push(object.name.clone());
                }
                Relation::Native(table) if !cascade => {
                    if let Some(caller) = caller_in(table, name) {
                        return depends(format!("{caller} of table {}", object.name));
                    }
                }
                _ => {}
            }
        }
        let more = self.dependent_views(&views, true)?;
        views.extend(more);
        Ok(views)
    }

    /// The name of a function that shares it with no other.
    pub(super) fn only_of_its_name<'f>(&self, function: &'f RelationName) -> Option<&'f str> {
        let shown = function.routine().unwrap_or(&function.name);
        let name = shown.split('(').next().unwrap_or(shown);
        (self.at.snapshot.catalog.routines(&function.schema, name).len() <= 1).then_some(name)
    }
}

/// The columns of a table that are computed by one of these functions.
pub(super) fn computed_by(rules: &TableRules, functions: &[&str]) -> Vec<String> {
    let is_called = |value: &Expr| functions.iter().any(|name| calls(value, name));
    let columns = rules.generated.iter().filter(|(_, value)| is_called(value));
    columns.map(|(column, _)| column.clone()).collect()
}

/// Takes away the defaults and conditions of a table that call one of these functions; gives what went.
pub(super) fn without_calls(rules: &mut TableRules, functions: &[&str], table: &str) -> Vec<String> {
    let goes = |expression: &Expr| functions.iter().any(|name| calls(expression, name));
    let mut gone = Vec::new();
    rules.defaults.retain(|column, value| {
        let goes = goes(value);
        if goes {
            gone.push(format!("default value for column {column} of table {table}"));
        }
        !goes
    });
    gone.sort_unstable();
    rules.checks.retain(|check| {
        let goes = goes(&check.condition);
        if goes {
            gone.push(format!("constraint {} on table {table}", check.name));
        }
        !goes
    });
    let unproven = std::mem::take(&mut rules.unproven);
    rules.unproven = unproven.into_iter().filter(|name| rules.has_name(name)).collect();
    gone
}

fn is_called(name: &ast::ObjectName, wanted: &str) -> bool {
    name.0.last().and_then(|part| part.as_ident()).is_some_and(|last| lower(last) == wanted)
}

fn calls(tree: &impl Visit, name: &str) -> bool {
    let visit = |part: &Expr| match part {
        Expr::Function(function) if is_called(&function.name, name) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    each_expression(tree, visit).is_break()
}

/// Whether a query selects from a function. What is a table's name is not one's.
fn selects_from(query: &ast::Query, name: &str) -> bool {
    struct Functions<'n>(&'n str);
    impl ast::Visitor for Functions<'_> {
        type Break = ();

        fn pre_visit_table_factor(&mut self, factor: &ast::TableFactor) -> ControlFlow<()> {
            let is_it = match factor {
                ast::TableFactor::Table { name, args: Some(_), .. } | ast::TableFactor::Function { name, .. } => {
                    is_called(name, self.0)
                }
                _ => false,
            };
            if is_it { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
    walk(query, &mut Functions(name)).is_break()
}

/// What of a table calls a function.
fn caller_in(table: &NativeTable, name: &str) -> Option<String> {
    let rules = table.rules();
    let default = rules.defaults.iter().find(|(_, value)| calls(value.as_ref(), name));
    let check = || rules.checks.iter().find(|check| calls(check.condition.as_ref(), name));
    default
        .map(|(column, _)| format!("default value for column {column}"))
        .or_else(|| generated_by(table, name))
        .or_else(|| check().map(|check| format!("constraint {}", check.name)))
}

/// The column of a table that is computed by a function.
fn generated_by(table: &NativeTable, name: &str) -> Option<String> {
    let mut generated = table.rules().generated.iter();
    generated.find(|(_, value)| calls(value.as_ref(), name)).map(|(column, _)| format!("column {column}"))
}
