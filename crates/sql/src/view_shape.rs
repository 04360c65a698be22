//! Which views have the rows of one relation, so that these can be changed through them, as in PostgreSQL.

use std::ops::ControlFlow;

use diligence_base::{Error, Result};
use diligence_catalog::{DEFAULT_SCHEMA, Object, Relation, RelationName, SessionSnapshot, View};
use sqlparser::ast::{self, Expr, ObjectName, SelectItem, SetExpr, TableFactor};

use crate::parse::{lower, parts_of};
use crate::walking::each_expression;

/// What stands in front of a view's name where a condition is that of its WITH CHECK OPTION.
pub(crate) const OF_VIEW: &str = "view \u{1}";

/// Functions that make one row of several, or several of one.
const COUNTING: [&str; 16] = [
    "array_agg",
    "avg",
    "bool_and",
    "bool_or",
    "count",
    "every",
    "generate_series",
    "json_agg",
    "jsonb_agg",
    "max",
    "min",
    "percentile_cont",
    "string_agg",
    "stddev",
    "sum",
    "unnest",
];

/// A view whose rows are those of one relation.
pub(crate) struct SimpleView {
    /// The relation, as the view names it.
    pub(crate) of: ObjectName,
    /// What the view calls it.
    pub(crate) called: String,
    /// What its columns stand for: all of them, in order, `None` for those that are the relation's in the relation's
    /// order.
    pub(crate) items: Vec<Option<Expr>>,
    /// The rows that it has.
    pub(crate) condition: Option<Expr>,
    /// `local` or `cascaded`.
    pub(crate) check_option: Option<String>,
}

/// What a view's statement says about WITH CHECK OPTION.
pub(crate) fn check_option(view: &View) -> Option<String> {
    option(view, CHECK_OPTION)
}

/// Whether what a view reads is read under the rights of who reads the view (security_invoker).
pub(crate) fn is_invoker(view: &View) -> bool {
    option(view, INVOKER).and_then(|text| truth(&text)).unwrap_or(false)
}

/// Fails with 22023 if a view has no such options, or not with these values.
pub(crate) fn check_options(options: &[ast::SqlOption]) -> Result<()> {
    for option in options {
        let ast::SqlOption::KeyValue { key, value } = option else {
            return Err(Error::input(format!("{option} is no option of a view")).with_code("42601"));
        };
        let (name, text) = (key.value.to_lowercase(), option_text(value));
        let wrong = |kind: &str| {
            let message = format!("invalid value for {kind} option \"{name}\": {text}");
            Err(Error::input(message).with_code("22023"))
        };
        match name.as_str() {
            CHECK_OPTION if !["local", "cascaded"].contains(&text.as_str()) => {
                return wrong("enum").map_err(|error: Error| error.with_detail(CHECK_OPTIONS));
            }
            CHECK_OPTION => {}
            INVOKER | BARRIER if truth(&text).is_none() => return wrong("boolean"),
            INVOKER | BARRIER => {}
            _ => return Err(Error::input(format!("unrecognized parameter \"{name}\"")).with_code("22023")),
        }
    }
    Ok(())
}

/// Options of views.
const CHECK_OPTION: &str = "check_option";
const INVOKER: &str = "security_invoker";
const BARRIER: &str = "security_barrier";
const CHECK_OPTIONS: &str = "Valid values are \"local\" and \"cascaded\".";

/// The value of an option, in small letters.
fn option(view: &View, wanted: &str) -> Option<String> {
    let ast::Statement::CreateView(create) = view.source.as_ref() else { return None };
    let ast::CreateTableOptions::With(options) = &create.options else { return None };
    options.iter().find_map(|option| match option {
        ast::SqlOption::KeyValue { key, value } if key.value.eq_ignore_ascii_case(wanted) => Some(option_text(value)),
        _ => None,
    })
}

fn option_text(value: &Expr) -> String {
    let text = match value {
        Expr::Value(value) => value.clone().value.into_string().unwrap_or_else(|| value.to_string()),
        Expr::Identifier(word) => word.value.clone(),
        other => other.to_string(),
    };
    text.to_lowercase()
}

fn truth(text: &str) -> Option<bool> {
    match text {
        "true" | "on" | "yes" | "1" => Some(true),
        "false" | "off" | "no" | "0" => Some(false),
        _ => None,
    }
}

impl SimpleView {
    /// Fails with what a view has that such views have not, in PostgreSQL's words.
    pub(crate) fn of(view: &View) -> std::result::Result<Self, &'static str> {
        let ast::Statement::CreateView(create) = view.source.as_ref() else { return Err("made by no statement") };
        let query = create.query.as_ref();
        if query.with.is_some() {
            return Err("WITH");
        }
        if query.limit_clause.is_some() || query.fetch.is_some() {
            return Err("LIMIT or OFFSET");
        }
        let SetExpr::Select(select) = query.body.as_ref() else { return Err("UNION, INTERSECT, or EXCEPT") };
        let is_grouped = match &select.group_by {
            ast::GroupByExpr::All(_) => true,
            ast::GroupByExpr::Expressions(keys, _) => !keys.is_empty(),
        };
        if select.distinct.is_some() {
            return Err("DISTINCT");
        }
        if is_grouped {
            return Err("GROUP BY");
        }
        if select.having.is_some() {
            return Err("HAVING");
        }
        let [from] = select.from.as_slice() else { return Err("no single table") };
        let TableFactor::Table { name, alias, args: None, sample: None, .. } = &from.relation else {
            return Err("no single table");
        };
        if !from.joins.is_empty() {
            return Err("no single table");
        }
        if alias.as_ref().is_some_and(|alias| !alias.columns.is_empty()) {
            return Err("other names of columns");
        }
        let own = name.0.last().and_then(|part| part.as_ident()).map(lower).unwrap_or_default();
        let called = alias.as_ref().map_or(own, |alias| lower(&alias.name));
        let mut items = Vec::new();
        let others = select.projection.len().saturating_sub(1);
        for item in &select.projection {
            match item {
                SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => {
                    let count = view.schema.fields().len().saturating_sub(others);
                    items.extend((0..count).map(|_| None));
                }
                SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. } => {
                    if counts(value) {
                        return Err("aggregate functions, window functions, or set-returning functions");
                    }
                    items.push(Some(value.clone()));
                }
                _ => return Err("other columns"),
            }
        }
        if items.len() != view.schema.fields().len() {
            return Err("other columns");
        }
        let condition = select.selection.clone();
        Ok(Self { of: name.clone(), called, items, condition, check_option: check_option(view) })
    }

    /// The relation's column that an expression is.
    pub(crate) fn column_of(&self, value: &Expr) -> Option<String> {
        match value {
            Expr::Identifier(name) => Some(lower(name)),
            Expr::CompoundIdentifier(names) => match names.as_slice() {
                [.., of, name] if lower(of) == self.called => Some(lower(name)),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Whether an expression is not of one row.
fn counts(value: &Expr) -> bool {
    let is_one = |part: &Expr| match part {
        Expr::Function(function) => {
            let name = function.name.0.last().and_then(|part| part.as_ident()).map(lower).unwrap_or_default();
            function.over.is_some() || COUNTING.contains(&name.as_str())
        }
        _ => false,
    };
    let visit = |part: &Expr| if is_one(part) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    each_expression(value, visit).is_break()
}

/// Whether rows of a view can be changed, for those who ask.
pub(crate) fn is_updatable(snapshot: &SessionSnapshot, object: &Object) -> bool {
    let Relation::View(view) = &object.relation else {
        return matches!(object.relation, Relation::Native(_)) && object.relation.materialized().is_none();
    };
    let Ok(simple) = SimpleView::of(view) else { return false };
    let Some(parts) = parts_of(&simple.of) else { return false };
    let found = match parts.as_slice() {
        [name] => [object.name.schema.as_str(), DEFAULT_SCHEMA]
            .iter()
            .find_map(|schema| snapshot.catalog.resolve(&RelationName::new(*schema, name))),
        [.., schema, name] => snapshot.catalog.resolve(&RelationName::new(schema, name)),
        [] => None,
    };
    found.is_some_and(|found| found.id != object.id && is_updatable(snapshot, found))
}
