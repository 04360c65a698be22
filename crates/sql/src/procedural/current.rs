//! The row that a cursor stands on: `WHERE CURRENT OF c`.
//!
//! A cursor's query gives, behind its own columns, the numbers of the rows that its rows were made of
//! ([`numbered`]). A statement that changes the row of a cursor compares numbers: what it compares with is asked for by
//! names, [`CURRENT_OF`] first, then the cursor's, then those of the table.

use sqlparser::ast::{
    BinaryOperator, Expr, FromTable, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident, LockClause,
    ObjectName, Query, SelectItem, SetExpr, Statement, TableFactor, TableWithJoins, Value,
};

use crate::parse::{self, KEY_SHARE, NO_KEY_UPDATE, Parsed, SyntaxTree, lower, parts_of};

/// The first of the names by which the number of a cursor's row is asked for.
pub const CURRENT_OF: &str = parse::CURRENT_OF;

/// What the column of a row's number is called.
const NUMBER: &str = "ctid";

/// A cursor's query whose rows can be found again.
#[derive(Clone, Debug)]
pub struct Numbered {
    /// The query. It gives as many numbers as there are tables behind its columns.
    pub query: Parsed,
    /// The names of the tables, each with what is in front of it.
    pub tables: Vec<Vec<String>>,
    /// Whether it locks rows.
    pub is_locking: bool,
}

/// A cursor's query with the numbers of rows: of the tables whose rows it locks, or of the one table that it reads.
/// There are no tables if none of its rows is one of a table.
pub fn numbered(parsed: &Parsed) -> Numbered {
    let mut numbered = Numbered { query: parsed.clone(), tables: vec![], is_locking: false };
    let SyntaxTree::Statement(statement) = &mut numbered.query.statement else { return numbered };
    let Statement::Query(query) = statement.as_mut() else { return numbered };
    let Query { body, locks, .. } = query.as_mut();
    numbered.is_locking = !locks.is_empty();
    let SetExpr::Select(select) = body.as_mut() else { return numbered };
    let select = select.as_mut();
    let is_grouped = match &select.group_by {
        GroupByExpr::Expressions(keys, _) => !keys.is_empty(),
        GroupByExpr::All(_) => true,
    };
    if is_grouped || select.having.is_some() || select.distinct.is_some() || select.into.is_some() {
        return numbered;
    }
    let tables = match (locks.as_slice(), select.from.as_slice()) {
        ([], [TableWithJoins { relation, joins }]) if joins.is_empty() => vec![relation],
        ([], _) => vec![],
        (_, from) => from.iter().flat_map(all_of).collect(),
    };
    for factor in tables {
        let TableFactor::Table { name, alias, args: None, .. } = factor else { continue };
        let Some(parts) = parts_of(name) else { continue };
        let mut qualifier = match alias {
            Some(alias) => vec![alias.name.clone()],
            None => name.0.iter().filter_map(|part| part.as_ident().cloned()).collect::<Vec<_>>(),
        };
        if !locks.is_empty() && !locks.iter().any(|lock| is_of(lock, &qualifier)) {
            continue;
        }
        qualifier.push(Ident::new(NUMBER));
        numbered.tables.push(parts);
        let alias = Ident::with_quote('"', format!("number of a row {}", numbered.tables.len()));
        select.projection.push(SelectItem::ExprWithAlias { expr: Expr::CompoundIdentifier(qualifier), alias });
    }
    numbered
}

/// The tables of a part of FROM, those in parentheses as well.
fn all_of(from: &TableWithJoins) -> Vec<&TableFactor> {
    let factors = std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation));
    let inner = factors.map(|factor| match factor {
        TableFactor::NestedJoin { table_with_joins, alias: None } => all_of(table_with_joins),
        factor => vec![factor],
    });
    inner.flatten().collect()
}

/// Whether a clause locks rows of what is called so.
fn is_of(lock: &LockClause, qualifier: &[Ident]) -> bool {
    let Some(parts) = lock.of.as_ref().and_then(parts_of) else { return true };
    let named = match parts.split_first() {
        Some((first, rest)) if first == NO_KEY_UPDATE || first == KEY_SHARE => rest,
        _ => parts.as_slice(),
    };
    let own = qualifier.last().map(lower);
    named.is_empty() || named.last() == own.as_ref()
}

/// Has a statement that changes the row of a cursor compare numbers.
pub(super) fn compare_numbers(statement: &mut Statement) {
    replace_condition(statement, |cursor, column, table| {
        let asked = [CURRENT_OF.to_owned(), cursor].into_iter().chain(table).map(|part| Ident::with_quote('"', part));
        compared(column, Expr::CompoundIdentifier(asked.collect()))
    });
}

/// The cursor whose row a statement changes, and the names of the table. `None` for any other statement.
pub fn changed_at_cursor(parsed: &Parsed) -> Option<(String, Vec<String>)> {
    let SyntaxTree::Statement(statement) = &parsed.statement else { return None };
    let (table, condition) = match statement.as_ref() {
        Statement::Update(update) => (Some(&update.table), &update.selection),
        Statement::Delete(delete) => {
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
            (from.first(), &delete.selection)
        }
        _ => return None,
    };
    let cursor = cursor_of(condition.as_ref()?)?;
    let TableFactor::Table { name, .. } = &table?.relation else { return None };
    Some((cursor, parts_of(name)?))
}

/// A statement that changes the row of a cursor as the text of one that changes the row of a number; no row, if there
/// is none.
pub fn at_number(parsed: &Parsed, number: Option<i64>) -> Option<String> {
    let SyntaxTree::Statement(statement) = &parsed.statement else { return None };
    let mut statement = statement.as_ref().clone();
    replace_condition(&mut statement, |_, column, _| match number {
        Some(number) => compared(column, Expr::Value(Value::Number(number.to_string(), false).into())),
        None => Expr::Value(Value::Boolean(false).into()),
    });
    Some(statement.to_string())
}

fn compared(column: Vec<Ident>, with: Expr) -> Expr {
    let left = Box::new(Expr::CompoundIdentifier(column));
    Expr::BinaryOp { left, op: BinaryOperator::Eq, right: Box::new(with) }
}

/// Gives a statement that changes the row of a cursor another condition: of the cursor, the column of the table that
/// has the number of the row, and the names of the table.
fn replace_condition(statement: &mut Statement, other: impl FnOnce(String, Vec<Ident>, Vec<String>) -> Expr) {
    let (table, condition) = match statement {
        Statement::Update(update) => (Some(&update.table), &mut update.selection),
        Statement::Delete(delete) => {
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
            (from.first(), &mut delete.selection)
        }
        _ => return,
    };
    let Some(cursor) = condition.as_ref().and_then(cursor_of) else { return };
    let Some(TableFactor::Table { name, alias, .. }) = table.map(|table| &table.relation) else { return };
    let Some(parts) = parts_of(name) else { return };
    let mut column = match alias {
        Some(alias) => vec![alias.name.clone()],
        None => name.0.iter().filter_map(|part| part.as_ident().cloned()).collect(),
    };
    column.push(Ident::new(NUMBER));
    *condition = Some(other(cursor, column, parts));
}

/// The cursor whose row a condition is about.
fn cursor_of(condition: &Expr) -> Option<String> {
    let Expr::Function(function) = condition else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    match (is_current_of(&function.name), list.args.as_slice()) {
        (true, [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(cursor)))]) => match &cursor.value {
            Value::SingleQuotedString(cursor) => Some(cursor.clone()),
            _ => None,
        },
        _ => None,
    }
}

fn is_current_of(name: &ObjectName) -> bool {
    parts_of(name).is_some_and(|parts| parts == [CURRENT_OF])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse_one;

    #[test]
    fn a_statement_at_a_cursor_is_one_of_a_number() {
        for (sql, number, expected) in [
            ("UPDATE s.t SET a = $1 WHERE CURRENT OF c", Some(7), "UPDATE s.t SET a = $1 WHERE s.t.ctid = 7"),
            ("DELETE FROM t AS x WHERE CURRENT OF c RETURNING a", None, "DELETE FROM t AS x WHERE false RETURNING a"),
        ] {
            let parsed = parse_one(sql).unwrap();
            let (cursor, table) = changed_at_cursor(&parsed).unwrap();
            assert_eq!((cursor.as_str(), table.last().unwrap().as_str()), ("c", "t"), "{sql}");
            assert_eq!(at_number(&parsed, number).unwrap(), expected);
        }
        assert!(changed_at_cursor(&parse_one("DELETE FROM t WHERE a = 1").unwrap()).is_none());
    }

    #[test]
    fn rows_of_cursors_have_numbers_where_they_are_rows_of_tables() {
        for (sql, tables, expected) in [
            ("SELECT a FROM t", vec!["t"], "SELECT a, t.ctid AS \"number of a row 1\" FROM t"),
            ("SELECT a FROM s.t x", vec!["s.t"], "SELECT a, x.ctid AS \"number of a row 1\" FROM s.t x"),
            (
                "SELECT a FROM t JOIN u ON true FOR UPDATE OF u",
                vec!["u"],
                "SELECT a, u.ctid AS \"number of a row 1\" FROM t JOIN u ON true FOR UPDATE OF u",
            ),
            ("SELECT a FROM t, u", vec![], "SELECT a FROM t, u"),
            ("SELECT DISTINCT a FROM t", vec![], "SELECT DISTINCT a FROM t"),
            ("SELECT a FROM t GROUP BY a", vec![], "SELECT a FROM t GROUP BY a"),
            ("SELECT a FROM f(1)", vec![], "SELECT a FROM f(1)"),
        ] {
            let numbered = numbered(&parse_one(sql).unwrap());
            let SyntaxTree::Statement(statement) = numbered.query.statement else { panic!("another statement") };
            assert_eq!(statement.to_string(), expected);
            assert_eq!(numbered.tables.iter().map(|parts| parts.join(".")).collect::<Vec<_>>(), tables, "{sql}");
        }
    }
}
