//! `FROM generate_series(1, 3) AS i`: the alias of a function in FROM names its column as well, as PostgreSQL has it,
//! where the statement uses it so.
//!
//! DataFusion's functions have a name of their own for it (`value`), which stays as it is otherwise.

use std::collections::HashSet;
use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, TableAlias, TableAliasColumnDef, TableFactor, VisitorMut};

use super::{finish, walk};

/// Gives functions in FROM the name of their column.
pub(super) fn name(statement: &mut Statement) {
    let mut used = Used::default();
    finish(walk(statement, &mut used));
    let Used { mut aliases, columns, tables } = used;
    aliases.retain(|alias| columns.contains(alias) && !tables.contains(alias));
    if !aliases.is_empty() {
        finish(walk(statement, &mut Name(aliases)));
    }
}

/// The names that a statement uses, in lower case.
#[derive(Default)]
struct Used {
    /// Functions in FROM.
    aliases: HashSet<String>,
    /// Alone.
    columns: HashSet<String>,
    /// In front of the name of a column that is another one.
    tables: HashSet<String>,
}

impl VisitorMut for Used {
    type Break = Infallible;

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<Infallible> {
        self.aliases.extend(alias(table).map(|alias| alias.name.value.to_lowercase()));
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<Infallible> {
        match expression {
            Expr::Identifier(name) => {
                self.columns.insert(name.value.to_lowercase());
            }
            Expr::CompoundIdentifier(names) => {
                if let [table, column] = names.as_slice() {
                    let same = table.value.eq_ignore_ascii_case(&column.value);
                    let used = if same { &mut self.columns } else { &mut self.tables };
                    used.insert(table.value.to_lowercase());
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// The alias of a function in FROM that has no list of columns.
fn alias(table: &mut TableFactor) -> Option<&mut TableAlias> {
    let alias = match table {
        TableFactor::Table { alias, args: Some(_), .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::UNNEST { alias, .. } => alias.as_mut()?,
        _ => return None,
    };
    alias.columns.is_empty().then_some(alias)
}

/// The aliases that name columns.
struct Name(HashSet<String>);

impl VisitorMut for Name {
    type Break = Infallible;

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<Infallible> {
        if let Some(alias) = alias(table)
            && self.0.contains(&alias.name.value.to_lowercase())
        {
            alias.columns.push(TableAliasColumnDef { name: alias.name.clone(), data_type: None });
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use crate::parse::parse_one;

    #[test]
    fn an_alias_that_is_used_as_a_column_is_one() {
        let rewritten = |sql: &str| parse_one(sql, "generic").unwrap().statement.to_string();
        for (sql, expected) in [
            ("SELECT i FROM generate_series(1, 2) AS i", "SELECT i FROM generate_series(1, 2) AS i (i)"),
            ("SELECT i.i + 1 FROM f(1) i", "SELECT i.i + 1 FROM f(1) i (i)"),
            ("SELECT u FROM unnest([1]) AS u", "SELECT u FROM UNNEST([1]) AS u (u)"),
            ("SELECT value FROM generate_series(1, 2) AS i", "SELECT value FROM generate_series(1, 2) AS i"),
            ("SELECT i, i.value FROM generate_series(1, 2) AS i", "SELECT i, i.value FROM generate_series(1, 2) AS i"),
            ("SELECT j FROM f(1) AS i (j)", "SELECT j FROM f(1) AS i (j)"),
            ("SELECT t FROM t", "SELECT t FROM t"),
        ] {
            assert_eq!(rewritten(sql), expected);
        }
    }
}
