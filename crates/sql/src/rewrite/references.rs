//! Unqualified names of merged keys, and stars, replaced by what they stand for in one SELECT.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Distinct, ExcludeSelectItem, Expr, GroupByExpr, Ident, OrderBy, OrderByKind, Query, ReplaceSelectItem, Select,
    SelectItem, VisitMut, VisitorMut, WildcardAdditionalOptions,
};
use datafusion::sql::sqlparser::tokenizer::Span;

use super::columns::{Column, exact};
use super::finish;

/// The merged keys that an unqualified name can mean.
pub(super) struct Names(HashMap<String, Column>);

impl Names {
    /// Those of these columns that are merged, and the only ones of their name.
    pub fn of(columns: &[Column]) -> Self {
        let mut count = HashMap::new();
        columns.iter().for_each(|column| *count.entry(column.name.as_str()).or_insert(0) += 1);
        let named = columns.iter().filter(|column| column.merged && count[column.name.as_str()] == 1);
        Self(named.map(|column| (column.name.clone(), column.clone())).collect())
    }

    fn get(&self, expression: &Expr, normalize: &dyn Fn(&Ident) -> String) -> Option<(&Column, Span)> {
        match expression {
            Expr::Identifier(ident) => Some((self.0.get(&normalize(ident))?, ident.span)),
            Expr::Nested(inner) => self.get(inner, normalize),
            _ => None,
        }
    }
}

/// Replaces names in a part of a SELECT, but not in the queries in it: there they may mean something else.
pub(super) fn replace_names(part: &mut impl VisitMut, names: &Names, normalize: &dyn Fn(&Ident) -> String) {
    finish(part.visit(&mut Replace { names, normalize, queries: 0, parameters: Vec::new() }));
}

struct Replace<'a> {
    names: &'a Names,
    normalize: &'a dyn Fn(&Ident) -> String,
    /// Queries around the place.
    queries: usize,
    /// Parameters of the lambda functions around the place.
    parameters: Vec<String>,
}

impl VisitorMut for Replace<'_> {
    type Break = Infallible;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<Infallible> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Infallible> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<Infallible> {
        if let Expr::Lambda(lambda) = expression {
            self.parameters.extend(lambda.params.iter().map(|parameter| (self.normalize)(&parameter.name)));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<Infallible> {
        if let Expr::Lambda(lambda) = expression {
            self.parameters.truncate(self.parameters.len() - lambda.params.iter().count());
        }
        if self.queries == 0
            && let Expr::Identifier(ident) = &*expression
            && let Some(column) = self.names.0.get(&(self.normalize)(ident))
            && !self.parameters.contains(&column.name)
        {
            *expression = column.value(ident.span);
        }
        ControlFlow::Continue(())
    }
}

/// Replaces stars and names in a SELECT over these columns, and in the ORDER BY behind it.
pub(super) fn replace(
    select: &mut Select,
    order_by: Option<&mut OrderBy>,
    columns: &[Column],
    normalize: &dyn Fn(&Ident) -> String,
) {
    let mut names = Names::of(columns);
    // A column that is computed cannot have the name of one that is taken from a table beside it.
    let taken = taken_names(&select.projection, normalize);
    let mut items = Vec::with_capacity(select.projection.len());
    for mut item in std::mem::take(&mut select.projection) {
        match &mut item {
            SelectItem::Wildcard(options) => match star(options, columns, &names, &taken, normalize) {
                Some(columns) => items.extend(columns),
                None => items.push(item),
            },
            SelectItem::UnnamedExpr(expression) => match names.get(expression, normalize) {
                Some((column, span)) => items.push(shown(column, span, &taken)),
                None => {
                    replace_names(expression, &names, normalize);
                    items.push(item);
                }
            },
            _ => {
                replace_names(&mut item, &names, normalize);
                items.push(item);
            }
        }
    }
    select.projection = items;
    if let Some(Distinct::On(expressions)) = &mut select.distinct {
        replace_names(expressions, &names, normalize);
    }
    replace_names(&mut select.selection, &names, normalize);
    if let GroupByExpr::Expressions(..) = &select.group_by {
        replace_names(&mut select.group_by, &names, normalize);
    }
    replace_names(&mut select.having, &names, normalize);
    replace_names(&mut select.named_window, &names, normalize);
    replace_names(&mut select.qualify, &names, normalize);
    if let Some(OrderBy { kind: OrderByKind::Expressions(expressions), .. }) = order_by {
        // ORDER BY sees the SELECT list first.
        let outputs = select.projection.iter().filter_map(|item| output_name(item, normalize)).collect::<HashSet<_>>();
        names.0.retain(|name, _| !outputs.contains(name));
        replace_names(expressions, &names, normalize);
    }
}

/// A column as an item of the SELECT list.
fn shown(column: &Column, span: Span, taken: &HashSet<String>) -> SelectItem {
    let expression = column.value(span);
    if column.sources.len() == 1 || taken.contains(&column.name) || taken.contains("*") {
        return SelectItem::UnnamedExpr(expression);
    }
    SelectItem::ExprWithAlias { expr: expression, alias: exact(&column.name, span) }
}

/// The names of the columns that a SELECT list takes from tables by their qualified names; `*` if there may be any.
fn taken_names(items: &[SelectItem], normalize: &dyn Fn(&Ident) -> String) -> HashSet<String> {
    let names = items.iter().filter_map(|item| match item {
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last().map(normalize),
        SelectItem::QualifiedWildcard(..) => Some("*".to_owned()),
        _ => None,
    });
    names.collect()
}

fn output_name(item: &SelectItem, normalize: &dyn Fn(&Ident) -> String) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(Expr::Identifier(ident)) => Some(normalize(ident)),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last().map(normalize),
        SelectItem::ExprWithAlias { alias, .. } => Some(normalize(alias)),
        _ => None,
    }
}

/// What a star stands for; `None` if it has options that are DataFusion's to understand, or to complain about.
fn star(
    options: &WildcardAdditionalOptions,
    columns: &[Column],
    names: &Names,
    taken: &HashSet<String>,
    normalize: &dyn Fn(&Ident) -> String,
) -> Option<Vec<SelectItem>> {
    if options.opt_ilike.is_some() || options.opt_rename.is_some() || options.opt_alias.is_some() {
        return None;
    }
    let mut left_out = Vec::new();
    if let Some(exclude) = &options.opt_exclude {
        let excluded = match exclude {
            ExcludeSelectItem::Single(name) => std::slice::from_ref(name),
            ExcludeSelectItem::Multiple(names) => names.as_slice(),
        };
        for name in excluded {
            let [part] = name.0.as_slice() else { return None };
            left_out.push(normalize(part.as_ident()?));
        }
    }
    if let Some(except) = &options.opt_except {
        left_out.extend(std::iter::once(&except.first_element).chain(&except.additional_elements).map(normalize));
    }
    let mut replaced = HashMap::new();
    if let Some(ReplaceSelectItem { items }) = &options.opt_replace {
        for item in items {
            let mut expression = item.expr.clone();
            replace_names(&mut expression, names, normalize);
            replaced.insert(normalize(&item.column_name), (expression, item.column_name.clone()));
        }
    }
    // Every option must mean one column, and no column two options.
    let once = |name: &String| columns.iter().filter(|column| column.name == *name).count() == 1;
    let distinct = left_out.iter().chain(replaced.keys()).collect::<HashSet<_>>().len();
    let repeated = distinct != left_out.len() + options.opt_replace.as_ref().map_or(0, |replace| replace.items.len());
    if repeated || !left_out.iter().chain(replaced.keys()).all(once) {
        return None;
    }
    let span = options.wildcard_token.0.span;
    let items = columns.iter().filter(|column| !left_out.contains(&column.name)).map(|column| {
        match replaced.remove(&column.name) {
            Some((expr, alias)) => SelectItem::ExprWithAlias { expr, alias },
            None => shown(column, span, taken),
        }
    });
    Some(items.collect())
}
