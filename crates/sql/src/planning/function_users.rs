//! What calls a function that is to go: views, defaults, generated columns and conditions of tables.

use std::ops::ControlFlow;

use diligence_base::{Error, Result};
use diligence_catalog::{NativeTable, Relation, RelationName};
use sqlparser::ast::{self, Expr, Visit};

use super::around::Around;
use super::definitions::lower;
use crate::walking::{each_expression, walk};

const HINT: &str = "Use DROP ... CASCADE to drop the dependent objects too.";

impl Around<'_> {
    /// The views that go with a function. Fails with 2BP01 if there are any and it does not `cascade`, or if a table
    /// calls it. Of several functions of a name it is not told which one is called.
    pub(super) fn callers_of(&self, function: &RelationName, cascade: bool) -> Result<Vec<RelationName>> {
        let shown = function.routine().unwrap_or(&function.name);
        let name = shown.split('(').next().unwrap_or(shown);
        let catalog = &self.at.snapshot.catalog;
        if catalog.routines(&function.schema, name).len() > 1 {
            return Ok(vec![]);
        }
        let depends = |what: String, hint: &str| {
            let message = format!("cannot drop function {shown} because other objects depend on it");
            let detail = format!("{what} depends on function {shown}");
            Err(Error::input(message).with_code("2BP01").with_detail(detail).with_hint(hint))
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
                        return depends(format!("view {}", object.name), HINT);
                    }
                    views.push(object.name.clone());
                }
                Relation::Native(table) => {
                    if let Some(column) = caller_in(table, name) {
                        let hint = "ALTER TABLE takes away what calls it first";
                        return depends(format!("{column} of table {}", object.name), hint);
                    }
                }
                _ => {}
            }
        }
        let more = self.dependent_views(&views, true)?;
        views.extend(more);
        Ok(views)
    }
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
    let generated = || rules.generated.iter().find(|(_, value)| calls(value.as_ref(), name));
    let check = || rules.checks.iter().find(|check| calls(check.condition.as_ref(), name));
    default
        .map(|(column, _)| format!("default value for column {column}"))
        .or_else(|| generated().map(|(column, _)| format!("column {column}")))
        .or_else(|| check().map(|check| format!("constraint {}", check.name)))
}
