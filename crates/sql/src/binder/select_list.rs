//! The SELECT list: expressions, and what `*` stands for.

use diligence_base::{Error, Result, Span};
use diligence_types::SqlType;
use sqlparser::ast::{
    ExceptSelectItem, ExcludeSelectItem, Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, RenameSelectItem,
    ReplaceSelectItem, Select, SelectFlavor, SelectItem, SelectItemQualifiedWildcardKind, WildcardAdditionalOptions,
};

use super::scope::{Item, Level};
use super::syntax::{bare_name, written};
use super::{Binder, name_place, normalized, place, placed, unsupported};
use crate::algebra::{Column, ColumnId, Scalar};
use crate::errors;

/// The function, and what it calls elements.
pub(super) const UNNEST: &str = "unnest";

impl Binder<'_> {
    /// The SELECT list.
    pub(super) fn items<'e>(&self, select: &'e Select, level: &Level<'_>) -> Result<Vec<Item<'e>>> {
        let mut items = Vec::with_capacity(select.projection.len());
        if select.flavor == SelectFlavor::FromFirstNoSelect && select.projection.is_empty() {
            self.wildcard(&mut items, None, level)?;
        }
        for projected in &select.projection {
            if self.columns_item(&mut items, projected, level)? {
                continue;
            }
            match projected {
                SelectItem::UnnamedExpr(expression) => self.unnamed_item(&mut items, expression, level)?,
                SelectItem::ExprWithAlias { expr, alias } => self.named_item(&mut items, expr, alias, level)?,
                SelectItem::ExprWithAliases { expr, .. } => {
                    return Err(errors::at(unsupported("several names for an expression"), place(expr)));
                }
                SelectItem::Wildcard(options) => self.wildcard(&mut items, Some(options), level)?,
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                    self.wildcard_of(&mut items, name, options, level)?;
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::Expr(expr), options) => {
                    let row = self.typed_scalar(expr, level)?;
                    let first = items.len();
                    self.expand(&mut items, row, place(expr))?;
                    self.with_options(&mut items, first, options, level)?;
                }
            }
        }
        Ok(items)
    }

    /// An expression over each of several columns (`COLUMNS(*)`). `false` if it is none.
    fn columns_item<'e>(
        &self,
        items: &mut Vec<Item<'e>>,
        projected: &'e SelectItem,
        level: &Level<'_>,
    ) -> Result<bool> {
        let (SelectItem::UnnamedExpr(expression) | SelectItem::ExprWithAlias { expr: expression, .. }) = projected
        else {
            return Ok(false);
        };
        let Some(expanded) = self.of_columns(expression, level)? else { return Ok(false) };
        for (column, each) in expanded {
            let scalar = self.scalar(&each, level).map_err(|error| placed(error, || place(expression)))?;
            let name = match (projected, &each) {
                (SelectItem::ExprWithAlias { alias, .. }, _) => {
                    self.alias_of_columns(&normalized(alias), column.as_deref(), expression)?
                }
                (_, each) => column.unwrap_or_else(|| self.item_name(each, &scalar)),
            };
            items.push(Item { name, scalar, expression: Some(expression) });
        }
        Ok(true)
    }

    fn unnamed_item<'e>(&self, items: &mut Vec<Item<'e>>, expression: &'e Expr, level: &Level<'_>) -> Result<()> {
        if self.unpacked(items, expression, level)? {
            return Ok(());
        }
        let scalar = match unnested_argument(expression) {
            Some(argument) => {
                let argument = self.scalar(argument, level)?;
                // The columns of a struct, as in DuckDB.
                if matches!(argument.sql_type(), SqlType::Record(_)) {
                    return self.expand(items, argument, place(expression));
                }
                self.named_call("unnest", vec![argument], level).map_err(|error| placed(error, || place(expression)))?
            }
            None => self.scalar(expression, level)?,
        };
        let name = self.item_name(expression, &scalar);
        items.push(Item { name, scalar, expression: Some(expression) });
        Ok(())
    }

    fn named_item<'e>(
        &self,
        items: &mut Vec<Item<'e>>,
        expression: &'e Expr,
        alias: &Ident,
        level: &Level<'_>,
    ) -> Result<()> {
        let first = items.len();
        if self.unpacked(items, expression, level)? {
            // The fields of structs keep their names.
            let elements = items.iter_mut().skip(first).filter(|item| item.name == UNNEST);
            elements.for_each(|item| item.name = normalized(alias));
            return Ok(());
        }
        let scalar = self.scalar(expression, level)?;
        items.push(Item { name: normalized(alias), scalar, expression: Some(expression) });
        Ok(())
    }

    /// `t.*`: the columns of a source, or the fields of a row.
    fn wildcard_of<'e>(
        &self,
        items: &mut Vec<Item<'e>>,
        name: &ObjectName,
        options: &'e WildcardAdditionalOptions,
        level: &Level<'_>,
    ) -> Result<()> {
        let names = name.0.iter().filter_map(|part| part.as_ident()).cloned().collect::<Vec<Ident>>();
        let found = std::iter::successors(Some(level), |level| level.outer).find_map(|at| at.names.source(&names));
        let first = items.len();
        match found {
            Some(source) => {
                for column in source.starred() {
                    self.reads_of(source, column.id);
                    self.met_column(column, level);
                    let (name, scalar) = (column.name.clone(), column.scalar());
                    items.push(Item { name, scalar, expression: None });
                }
            }
            None => {
                let row = self.compound_row(&names, level)?;
                self.expand(items, row, None)?;
            }
        }
        self.with_options(items, first, options, level)
    }

    /// The name of a column without AS: a scalar subquery's is that of its column, even behind `*`.
    fn item_name(&self, expression: &Expr, scalar: &Scalar) -> String {
        if let (Expr::Subquery(_), Scalar::Subquery(subquery)) = (expression, scalar)
            && let Some(column) = subquery.columns.first()
        {
            return column.name.clone();
        }
        self.column_name(expression)
    }

    /// Column names and a row: `x.*` where `x` is a column that is a record.
    fn compound_row(&self, names: &[Ident], level: &Level<'_>) -> Result<Scalar> {
        match names {
            [name] => match self.known_identifier(name, level)? {
                Some(scalar) => Ok(scalar),
                None => {
                    let error = Error::input(format!("no table or alias is named '{}' here", name.value));
                    let known = level.names.sources.iter().filter_map(|source| source.name.clone()).collect::<Vec<_>>();
                    let error = errors::at(error.with_code("42P01"), name_place(name));
                    Err(errors::suggest(error, &name.value, &known))
                }
            },
            names => self.compound(names, level),
        }
    }

    /// `(row).*`.
    fn expand<'e>(&self, items: &mut Vec<Item<'e>>, row: Scalar, at: Option<Span>) -> Result<()> {
        let sql_type = row.sql_type();
        let SqlType::Record(fields) = &sql_type else {
            let error = Error::input(format!("type {sql_type} is not composite")).with_code("42809");
            return Err(errors::at(error, at));
        };
        for (index, field) in fields.iter().enumerate() {
            let scalar = Scalar::Field { input: Box::new(row.clone()), index, sql_type: field.sql_type.clone() };
            items.push(Item { name: field.name.clone(), scalar, expression: None });
        }
        Ok(())
    }

    fn wildcard<'e>(
        &self,
        items: &mut Vec<Item<'e>>,
        options: Option<&'e WildcardAdditionalOptions>,
        level: &Level<'_>,
    ) -> Result<()> {
        if level.names.sources.is_empty() {
            return Err(Error::input("SELECT * with no tables specified is not valid").with_code("42601"));
        }
        let first = items.len();
        for column in level.names.columns() {
            self.reads(&level.names, column.id);
            items.push(Item { name: column.name.clone(), scalar: column.scalar(), expression: None });
        }
        match options {
            Some(options) => self.with_options(items, first, options, level),
            None => Ok(()),
        }
    }

    /// EXCLUDE, EXCEPT, REPLACE, RENAME and ILIKE behind `*`, whose items begin at a place. Fails with 42703 for a name
    /// that `*` does not show.
    fn with_options<'e>(
        &self,
        items: &mut Vec<Item<'e>>,
        first: usize,
        options: &'e WildcardAdditionalOptions,
        level: &Level<'_>,
    ) -> Result<()> {
        if options.opt_alias.is_some() {
            return Err(unsupported("a name for *"));
        }
        if let Some(pattern) = &options.opt_ilike {
            let pattern = pattern.pattern.to_lowercase();
            retain_from(items, first, |item| is_like(&item.name.to_lowercase(), &pattern));
        }
        for parts in excluded(options) {
            self.exclude(items, first, &parts, level)?;
        }
        if let Some(replaced) = &options.opt_replace {
            self.replace(items, first, replaced, level)?;
        }
        rename(items, first, options)
    }

    /// Takes a column out of those that `*` shows: of one table if the name says so, of each table that has such a
    /// column otherwise.
    fn exclude(&self, items: &mut Vec<Item<'_>>, first: usize, parts: &[&Ident], level: &Level<'_>) -> Result<()> {
        let Some((name, table)) = parts.split_last() else { return Ok(()) };
        let of_table = self.column_of(table, name, level)?;
        let named = match of_table {
            Some(_) => None,
            None => Some(items[shown_place(items, first, name)?].name.clone()),
        };
        retain_from(items, first, |item| match &named {
            Some(named) => item.name != *named,
            None => item.scalar.as_column() != of_table,
        });
        Ok(())
    }

    fn replace<'e>(
        &self,
        items: &mut [Item<'e>],
        first: usize,
        replaced: &'e ReplaceSelectItem,
        level: &Level<'_>,
    ) -> Result<()> {
        for element in &replaced.items {
            let index = shown_place(items, first, &element.column_name)?;
            items[index].scalar = self.scalar(&element.expr, level)?;
            items[index].expression = Some(&element.expr);
        }
        Ok(())
    }

    /// The column that a name with a table's name in front means; `None` for any other name. Fails with 42703 if the
    /// table has no such column.
    fn column_of(&self, table: &[&Ident], name: &Ident, level: &Level<'_>) -> Result<Option<ColumnId>> {
        let names = table.iter().map(|part| (*part).clone()).collect::<Vec<_>>();
        let mut levels = std::iter::successors(Some(level), |level| level.outer);
        let Some(source) = levels.find_map(|at| at.names.source(&names)) else { return Ok(None) };
        let wanted = normalized(name);
        let exact = source.columns.iter().find(|column| column.name == wanted);
        let found = exact.or_else(|| source.columns.iter().find(|column| column.name.eq_ignore_ascii_case(&wanted)));
        let found = found.ok_or_else(|| {
            let error = Error::input(format!("no column is named '{}'", name.value)).with_code("42703");
            let known = source.columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>();
            errors::suggest(errors::at(error, name_place(name)), &name.value, &known)
        })?;
        Ok(Some(found.id))
    }
    /// Notes that `t.*` shows a column, which may be one of a level around.
    fn met_column(&self, column: &Column, level: &Level<'_>) {
        let is_own = level.names.sources.iter().any(|source| source.columns.iter().any(|own| own.id == column.id));
        if is_own {
            let place = (None, column.name.clone());
            level.references.borrow_mut().entry(column.id).or_insert(place);
        } else {
            let around = std::iter::successors(level.outer, |level| level.outer);
            for at in around {
                if at.names.sources.iter().any(|source| source.columns.iter().any(|own| own.id == column.id)) {
                    at.is_read.set(true);
                    at.read.borrow_mut().insert(column.id);
                    return;
                }
            }
        }
    }
}

/// The place of an item that `*` shows under a name. Fails with 42703 if there is none.
fn shown_place(items: &[Item<'_>], first: usize, name: &Ident) -> Result<usize> {
    let wanted = normalized(name);
    let found = items[first..].iter().position(|item| item.name == wanted);
    let folded = || items[first..].iter().position(|item| item.name.eq_ignore_ascii_case(&wanted));
    found.or_else(folded).map(|index| first + index).ok_or_else(|| {
        let error = Error::input(format!("no column is named '{}'", name.value)).with_code("42703");
        let known = items[first..].iter().map(|item| item.name.clone()).collect::<Vec<_>>();
        errors::suggest(errors::at(error, name_place(name)), &name.value, &known)
    })
}

/// Keeps the items in front of a place, and of the others some.
fn retain_from(items: &mut Vec<Item<'_>>, first: usize, keeps: impl Fn(&Item<'_>) -> bool) {
    let mut index = 0;
    items.retain(|item| {
        index += 1;
        index <= first || keeps(item)
    });
}

/// The names in EXCLUDE and EXCEPT, each with its parts.
fn excluded(options: &WildcardAdditionalOptions) -> Vec<Vec<&Ident>> {
    fn parts(name: &ObjectName) -> Vec<&Ident> {
        name.0.iter().filter_map(|part| part.as_ident()).collect()
    }
    let mut excluded = match &options.opt_exclude {
        Some(ExcludeSelectItem::Single(name)) => vec![parts(name)],
        Some(ExcludeSelectItem::Multiple(names)) => names.iter().map(parts).collect(),
        None => vec![],
    };
    if let Some(ExceptSelectItem { first_element, additional_elements }) = &options.opt_except {
        excluded.push(vec![first_element]);
        excluded.extend(additional_elements.iter().map(|name| vec![name]));
    }
    excluded
}

/// RENAME behind `*`.
fn rename(items: &mut [Item<'_>], first: usize, options: &WildcardAdditionalOptions) -> Result<()> {
    let renamed = match &options.opt_rename {
        Some(RenameSelectItem::Single(one)) => std::slice::from_ref(one),
        Some(RenameSelectItem::Multiple(several)) => several,
        None => &[],
    };
    let found = renamed.iter().map(|one| Ok((shown_place(items, first, &one.ident)?, normalized(&one.alias))));
    for (index, name) in found.collect::<Result<Vec<_>>>()? {
        let old = std::mem::replace(&mut items[index].name, name.clone());
        items[first..].iter_mut().filter(|item| item.name == old).for_each(|item| item.name.clone_from(&name));
    }
    Ok(())
}

/// What `unnest(…)` takes apart.
fn unnested_argument(expression: &Expr) -> Option<&Expr> {
    let Expr::Function(function) = expression else { return None };
    match written(function) {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))]
            if function.over.is_none() && bare_name(function) == "unnest" =>
        {
            // Series give rows by themselves.
            let is_series = matches!(argument, Expr::Function(inner) if bare_name(inner) == "generate_series");
            (!is_series).then_some(argument)
        }
        _ => None,
    }
}

/// Whether a name is like a pattern, for `* ILIKE '…'`.
pub(super) fn is_like(name: &str, pattern: &str) -> bool {
    let (name, pattern) = (name.chars().collect::<Vec<_>>(), pattern.chars().collect::<Vec<_>>());
    // Which prefixes of the name the pattern so far is like.
    let mut like = vec![false; name.len() + 1];
    like[0] = true;
    for sign in pattern {
        let mut next = vec![false; name.len() + 1];
        match sign {
            '%' => {
                let mut any = false;
                for (index, is_like) in like.iter().enumerate() {
                    any |= is_like;
                    next[index] = any;
                }
            }
            sign => {
                for index in 0..name.len() {
                    next[index + 1] = like[index] && (sign == '_' || sign == name[index]);
                }
            }
        }
        like = next;
    }
    like[name.len()]
}
