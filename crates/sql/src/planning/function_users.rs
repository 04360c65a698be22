//! What calls a function that is to go: views, materialized views, defaults, generated columns, conditions, indexes and
//! triggers of tables, defaults and conditions of domains.

use std::ops::ControlFlow;
use std::sync::Arc;

use diligence_base::{Error, Result};
use diligence_catalog::authority::Topic;
use diligence_catalog::rules::{Key, TableRules};
use diligence_catalog::{DEFAULT_SCHEMA, DomainDefinition, NativeTable, Object, Relation, RelationName, Trigger};
use sqlparser::ast::{self, Expr, Visit};

use super::around::Around;
use super::definitions::lower;
use crate::parse;
use crate::statement::Command;
use crate::walking::{each_expression, walk};

const HINT: &str = "Use DROP ... CASCADE to drop the dependent objects too.";

/// A function that shares its name with no other of its schema.
#[derive(Clone, Copy)]
pub(super) struct Called<'f> {
    schema: &'f str,
    name: &'f str,
}

impl Called<'_> {
    /// Whether a name in what is kept in a schema means it. Without a schema, it means what is there or in the default
    /// one.
    fn is_meant(self, name: &ast::ObjectName, within: &str) -> bool {
        let mut parts = name.0.iter().rev().filter_map(|part| part.as_ident()).map(lower);
        parts.next().is_some_and(|last| last == self.name)
            && match parts.next() {
                Some(schema) => schema == self.schema,
                None => self.schema == within || self.schema == DEFAULT_SCHEMA,
            }
    }
}

impl Around<'_> {
    /// The views that go with a function. Fails with 2BP01 if there are any, or a table calls it, and it does not
    /// `cascade`. Of several functions of a name, only views tell which one they call.
    pub(super) fn callers_of(&self, function: &RelationName, cascade: bool) -> Result<Vec<RelationName>> {
        let shown = function.routine().unwrap_or(&function.name);
        let name = shown.split('(').next().unwrap_or(shown);
        let (is_only, called) = (self.only_of_its_name(function).is_some(), Called { schema: &function.schema, name });
        let is_it = |view: &Object| is_only || self.calls_routine(view, function);
        let catalog = &self.at.snapshot.catalog;
        let (mut views, mut users) = (Vec::new(), Vec::new());
        for object in catalog.all_objects() {
            if !cascade && is_only {
                let asking = object.relation.triggers().iter();
                let asking = asking.filter(|trigger| asks(trigger, &[called], &object.name.schema));
                let kind = object.relation.kind();
                users.extend(asking.map(|trigger| format!("trigger {} on {kind} {}", trigger.name, object.name)));
            }
            match &object.relation {
                Relation::Domain(domain) if !cascade && is_only => {
                    users.extend(domain_parts(domain, &[called], &object.name))
                }
                Relation::View(view) => {
                    let query = view.query()?;
                    let within = object.name.schema.as_str();
                    let is_named =
                        calls(query.as_ref(), called, within) || selects_from(query.as_ref(), called, within);
                    if is_named && is_it(object) {
                        users.push(format!("view {}", object.name));
                        views.push(object.name.clone());
                    }
                }
                Relation::Native(table) => {
                    if let Some(view) = &table.rules().materialized {
                        let (query, within) = (parse::query(&view.query)?, object.name.schema.as_str());
                        let is_named = calls(&query, called, within) || selects_from(&query, called, within);
                        if is_named && is_it(object) {
                            users.push(format!("materialized view {}", object.name));
                            views.push(object.name.clone());
                        }
                    }
                    if !cascade && is_only {
                        users.extend(callers_in(table, called, &object.name));
                    }
                }
                _ => {}
            }
        }
        if !cascade && !users.is_empty() {
            let message = format!("cannot drop function {shown} because other objects depend on it");
            let depends = users.iter().map(|user| format!("{user} depends on function {shown}"));
            let detail = depends.chain(self.dependents_above(&views)).collect::<Vec<_>>().join("\n");
            return Err(Error::input(message).with_code("2BP01").with_detail(detail).with_hint(HINT));
        }
        let more = self.dependent_views(&views, true)?;
        views.extend(more);
        Ok(views)
    }

    /// A function that shares its name with no other of its schema.
    pub(super) fn only_of_its_name<'f>(&self, function: &'f RelationName) -> Option<Called<'f>> {
        let shown = function.routine().unwrap_or(&function.name);
        let name = shown.split('(').next().unwrap_or(shown);
        let is_only = self.at.snapshot.catalog.routines(&function.schema, name).len() <= 1;
        is_only.then_some(Called { schema: &function.schema, name })
    }
}

impl Around<'_> {
    /// What takes away the default and the conditions of a domain that call one of these functions, and what they are;
    /// `None` if none does.
    pub(super) fn domain_without_calls(
        &self,
        object: &Object,
        domain: &DomainDefinition,
        functions: &[Called<'_>],
    ) -> Option<(Vec<Command>, Vec<String>)> {
        let gone = domain_parts(domain, functions, &object.name);
        if gone.is_empty() {
            return None;
        }
        let goes = |value: &Expr| functions.iter().any(|called| calls(value, *called, &object.name.schema));
        let mut definition = domain.clone();
        definition.default.take_if(|value| goes(value));
        let (going, checks) = definition.checks.into_iter().partition::<Vec<_>, _>(|check| goes(&check.condition));
        definition.checks = checks;
        let (reference, name) = (object.reference(), object.name.clone());
        let (definition, memory) = (Arc::new(definition), self.planner.options.tables.clone());
        let change = Command::ChangeDomain { object: reference, definition, name, memory };
        let forgotten = going.into_iter().map(|check| Topic::Constraint(object.id, check.name));
        let forgotten = forgotten.filter_map(|topic| self.forgotten(topic));
        Some((std::iter::once(change).chain(forgotten).collect(), gone))
    }
}

/// What of a domain calls one of these functions.
fn domain_parts(domain: &DomainDefinition, functions: &[Called<'_>], name: &RelationName) -> Vec<String> {
    let goes = |value: &Expr| functions.iter().any(|called| calls(value, *called, &name.schema));
    let default = domain.default.iter().filter(|value| goes(value));
    let mut parts = default.map(|_| format!("default value of domain {name}")).collect::<Vec<_>>();
    let checks = domain.checks.iter().filter(|check| goes(&check.condition));
    parts.extend(checks.map(|check| format!("constraint {} on domain {name}", check.name)));
    parts
}

/// The columns of a table that are computed by one of these functions.
pub(super) fn computed_by(rules: &TableRules, functions: &[Called<'_>], table: &RelationName) -> Vec<String> {
    let is_called = |value: &Expr| functions.iter().any(|called| calls(value, *called, &table.schema));
    let columns = rules.generated.iter().filter(|(_, value)| is_called(value));
    columns.map(|(column, _)| column.clone()).collect()
}

/// Takes away the defaults, conditions and indexes of a table that call one of these functions; gives what went.
pub(super) fn without_calls(rules: &mut TableRules, functions: &[Called<'_>], of: &RelationName) -> Vec<String> {
    let RelationName { schema, name: table } = of;
    let goes = |expression: &Expr| functions.iter().any(|called| calls(expression, *called, schema));
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
        let goes = functions.iter().any(|called| computes(key, *called, schema));
        if goes {
            gone.push(shown_key(key, table));
        }
        !goes
    });
    let unproven = std::mem::take(&mut rules.unproven);
    rules.unproven = unproven.into_iter().filter(|name| rules.has_name(name)).collect();
    gone
}

/// Whether the condition of a trigger calls one of these functions. One that names rows as a whole is no expression to
/// the parser.
pub(super) fn asks(trigger: &Trigger, functions: &[Called<'_>], within: &str) -> bool {
    let condition = trigger.when.as_deref().map(parse::expression);
    let Some(Ok(condition)) = condition else { return false };
    functions.iter().any(|called| calls(&condition, *called, within))
}

fn calls(tree: &impl Visit, called: Called<'_>, within: &str) -> bool {
    let visit = |part: &Expr| match part {
        Expr::Function(function) if called.is_meant(&function.name, within) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    each_expression(tree, visit).is_break()
}

/// Whether an index calls a function.
fn computes(key: &Key, called: Called<'_>, within: &str) -> bool {
    let Some(computed) = &key.computed else { return false };
    let mut expressions = computed.expressions.iter().flatten().chain(&computed.condition);
    expressions.any(|expression| calls(expression.as_ref(), called, within))
}

/// An index or a constraint in messages.
fn shown_key(key: &Key, table: &str) -> String {
    match key.kind.is_constraint() {
        true => format!("constraint {} on table {table}", key.name),
        false => format!("index {}", key.name),
    }
}

/// Whether a query selects from a function. What is a table's name is not one's.
fn selects_from(query: &ast::Query, called: Called<'_>, within: &str) -> bool {
    struct Functions<'n>(Called<'n>, &'n str);
    impl ast::Visitor for Functions<'_> {
        type Break = ();

        fn pre_visit_table_factor(&mut self, factor: &ast::TableFactor) -> ControlFlow<()> {
            let is_it = match factor {
                ast::TableFactor::Table { name, args: Some(_), .. } | ast::TableFactor::Function { name, .. } => {
                    self.0.is_meant(name, self.1)
                }
                _ => false,
            };
            if is_it { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
    walk(query, &mut Functions(called, within)).is_break()
}

/// What of a table calls a function.
fn callers_in(table: &NativeTable, called: Called<'_>, name: &RelationName) -> Vec<String> {
    let (rules, within, shown) = (table.rules(), name.schema.as_str(), name.to_string());
    let mut callers = rules
        .defaults
        .iter()
        .filter(|(_, value)| calls(value.as_ref(), called, within))
        .map(|(column, _)| format!("default value for column {column} of table {shown}"))
        .collect::<Vec<_>>();
    callers.sort_unstable();
    let computed = computed_by(rules, &[called], name);
    callers.extend(computed.iter().map(|column| format!("column {column} of table {shown}")));
    let checks = rules.checks.iter().filter(|check| calls(check.condition.as_ref(), called, within));
    callers.extend(checks.map(|check| format!("constraint {} on table {shown}", check.name)));
    callers.extend(rules.keys.iter().filter(|key| computes(key, called, within)).map(|key| shown_key(key, &shown)));
    callers
}
