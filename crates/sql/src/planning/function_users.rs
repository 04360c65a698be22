//! What calls a function that is to go: views, defaults, generated columns, conditions and indexes of tables.

use std::ops::ControlFlow;

use diligence_base::{Error, Result};
use diligence_catalog::rules::{Key, TableRules};
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
        let (mut views, mut users) = (Vec::new(), Vec::new());
        for object in catalog.objects() {
            match &object.relation {
                Relation::View(view) => {
                    let query = view.query()?;
                    if calls(query.as_ref(), name) || selects_from(query.as_ref(), name) {
                        users.push(format!("view {}", object.name));
                        views.push(object.name.clone());
                    }
                }
                Relation::Native(table) if !cascade => users.extend(callers_in(table, name, &object.name.to_string())),
                _ => {}
            }
        }
        if !cascade && !users.is_empty() {
            let message = format!("cannot drop function {shown} because other objects depend on it");
            let depends = users.iter().map(|user| format!("{user} depends on function {shown}"));
            let detail = depends.collect::<Vec<_>>().join("\n");
            return Err(Error::input(message).with_code("2BP01").with_detail(detail).with_hint(HINT));
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

/// Takes away the defaults, conditions and indexes of a table that call one of these functions; gives what went.
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
    rules.keys.retain(|key| {
        let goes = functions.iter().any(|name| key_calls(key, name));
        if goes {
            gone.push(key_shown(key, table));
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
fn callers_in(table: &NativeTable, name: &str, shown: &str) -> Vec<String> {
    let rules = table.rules();
    let mut callers = rules
        .defaults
        .iter()
        .filter(|(_, value)| calls(value.as_ref(), name))
        .map(|(column, _)| format!("default value for column {column} of table {shown}"))
        .collect::<Vec<_>>();
    callers.sort_unstable();
    callers.extend(computed_by(rules, &[name]).iter().map(|column| format!("column {column} of table {shown}")));
    let checks = rules.checks.iter().filter(|check| calls(check.condition.as_ref(), name));
    callers.extend(checks.map(|check| format!("constraint {} on table {shown}", check.name)));
    callers.extend(rules.keys.iter().filter(|key| key_calls(key, name)).map(|key| key_shown(key, shown)));
    callers
}

/// Whether an index is over values of a function, or of rows that it chooses.
fn key_calls(key: &Key, name: &str) -> bool {
    let Some(computed) = &key.computed else { return false };
    let mut expressions = computed.expressions.iter().flatten().chain(&computed.condition);
    expressions.any(|expression| calls(expression.as_ref(), name))
}

/// An index as messages call it.
fn key_shown(key: &Key, table: &str) -> String {
    match key.kind.is_constraint() {
        true => format!("constraint {} on table {table}", key.name),
        false => format!("index {}", key.name),
    }
}
