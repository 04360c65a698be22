//! Values in the places of names: a statement of a body becomes one with parameters.

use std::ops::ControlFlow;

use sqlparser::ast::{
    CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident,
    ObjectName, OrderByKind, Query, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, Statement, Value, VisitorMut,
};

use super::NameConflict;
use super::current::{CURRENT_OF, compare_numbers};
use crate::parse::{Parsed, SyntaxTree, expression};
use crate::walking::walk_mut;

/// Between the parts of a parameter that says which variable it stands for.
const BETWEEN: char = '\u{1}';

/// What stands for a name.
#[derive(Clone, Debug)]
pub struct Place {
    /// The parameter, counted from 1.
    pub number: usize,
    /// The type that it has, as it is written; what its value says without one.
    pub type_name: Option<String>,
}

/// What a parameter says of the variable that it stands for, whose name may be a column's as well.
pub(crate) struct VariableName {
    /// The name, with others in front of it.
    pub names: Vec<Ident>,
    /// Whether the column is meant, if there is one; otherwise that is an error.
    pub is_column_first: bool,
}

impl VariableName {
    /// Of a parameter that says it.
    pub(crate) fn of(parameter: &str) -> Option<Self> {
        let mut parts = parameter.strip_prefix('$')?.split(BETWEEN).skip(1);
        let is_column_first = parts.next()? == "column";
        Some(Self { names: parts.map(|name| Ident::with_quote('"', name)).collect(), is_column_first })
    }

    /// Of an expression that is such a parameter, or one that is cast.
    fn of_expression(expression: &Expr) -> Option<Self> {
        match expression {
            Expr::Cast { expr, .. } => Self::of_expression(expr),
            Expr::Value(value) => match &value.value {
                Value::Placeholder(name) => Self::of(name),
                _ => None,
            },
            _ => None,
        }
    }
}

/// The number of a parameter, counted from 1.
pub(crate) fn number_of(parameter: &str) -> Option<usize> {
    parameter.strip_prefix('$')?.split(BETWEEN).next()?.parse().ok()
}

/// The statement with parameters in the places of the names that `find` knows: of one name, or of one in front of
/// others. Only statements with rows have such names. `conflict` says what names mean that are columns' as well.
pub fn placed(parsed: &Parsed, conflict: NameConflict, find: &mut dyn FnMut(&[String]) -> Option<Place>) -> Parsed {
    let mut parsed = parsed.clone();
    if let SyntaxTree::Statement(statement) = &mut parsed.statement
        && matches!(
            statement.as_ref(),
            Statement::Query(_)
                | Statement::Insert(_)
                | Statement::Update(_)
                | Statement::Delete(_)
                | Statement::Merge(_)
                | Statement::Call(_)
        )
    {
        let _ = walk_mut(&mut **statement, &mut Names { find, conflict });
    }
    parsed
}

struct Names<'f> {
    find: &'f mut dyn FnMut(&[String]) -> Option<Place>,
    conflict: NameConflict,
}

impl Names<'_> {
    /// The variable of `name.*`, unless a table has the name.
    fn row_of(&mut self, name: &ObjectName) -> Option<Expr> {
        let [part] = name.0.as_slice() else { return None };
        let names = vec![lower(part.as_ident()?)];
        let place = (self.find)(&names)?;
        Some(parameter(&place, &names, NameConflict::Column))
    }

    /// `f(name.*)`: `f(name)`. ROW has its parts instead.
    fn rows_of_call(&mut self, function: &mut Function) {
        let is_row =
            matches!(function.name.0.as_slice(), [only] if only.as_ident().is_some_and(|name| lower(name) == "row"));
        let FunctionArguments::List(list) = &mut function.args else { return };
        for argument in list.args.iter_mut().filter(|_| !is_row) {
            if let FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(name)) = argument
                && let Some(row) = self.row_of(name)
            {
                *argument = FunctionArg::Unnamed(FunctionArgExpr::Expr(row));
            }
        }
    }
}

impl VisitorMut for Names<'_> {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<()> {
        compare_numbers(statement);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, given: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = given {
            self.rows_of_call(function);
        }
        let names = match given {
            Expr::Identifier(name) => vec![lower(name)],
            Expr::CompoundIdentifier(names) => names.iter().map(lower).collect(),
            Expr::Value(value) => match &value.value {
                Value::Placeholder(name) => vec![name.clone()],
                _ => return ControlFlow::Continue(()),
            },
            _ => return ControlFlow::Continue(()),
        };
        if let Some(place) = (self.find)(&names) {
            let is_numbered = names.first().is_some_and(|name| name.starts_with('$') || name == CURRENT_OF);
            let conflict = if is_numbered { NameConflict::Variable } else { self.conflict };
            *given = parameter(&place, &names, conflict);
        }
        ControlFlow::Continue(())
    }

    /// What ORDER BY and GROUP BY name may be what the list calls its expressions, before anything else.
    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let SetExpr::Select(select) = query.body.as_mut() else { return ControlFlow::Continue(()) };
        for item in &mut select.projection {
            if let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) = item
                && let Some(row) = self.row_of(name)
            {
                let kind = SelectItemQualifiedWildcardKind::Expr(row);
                *item = SelectItem::QualifiedWildcard(kind, options.clone());
            }
        }
        let has_all = select
            .projection
            .iter()
            .any(|item| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)));
        let aliases = select.projection.iter().filter_map(|item| match item {
            SelectItem::ExprWithAlias { alias, .. } => Some(lower(alias)),
            _ => None,
        });
        let aliases = aliases.collect::<Vec<_>>();
        let restore = |expression: &mut Expr, or_all: bool| {
            let known = VariableName::of_expression(expression).filter(|known| known.names.len() == 1);
            if let Some(name) = known.and_then(|mut known| known.names.pop())
                && (or_all || aliases.contains(&name.value))
            {
                *expression = Expr::Identifier(name);
            }
        };
        if let GroupByExpr::Expressions(expressions, _) = &mut select.group_by {
            expressions.iter_mut().for_each(|expression| restore(expression, false));
        }
        if let Some(order_by) = &mut query.order_by
            && let OrderByKind::Expressions(expressions) = &mut order_by.kind
        {
            expressions.iter_mut().for_each(|by| restore(&mut by.expr, has_all));
        }
        ControlFlow::Continue(())
    }
}

fn parameter(place: &Place, names: &[String], conflict: NameConflict) -> Expr {
    let which = match conflict {
        NameConflict::Variable => String::new(),
        NameConflict::Refused => format!("{BETWEEN}none{BETWEEN}{}", names.join(&BETWEEN.to_string())),
        NameConflict::Column => format!("{BETWEEN}column{BETWEEN}{}", names.join(&BETWEEN.to_string())),
    };
    let value = Expr::Value(Value::Placeholder(format!("${}{which}", place.number)).into());
    match place.type_name.as_deref().and_then(data_type) {
        None => value,
        Some(data_type) => {
            Expr::Cast { kind: CastKind::Cast, expr: Box::new(value), data_type, array: false, format: None }
        }
    }
}

/// The tree of a type's name.
fn data_type(name: &str) -> Option<DataType> {
    match expression(&format!("CAST(NULL AS {name})")).ok()? {
        Expr::Cast { data_type, .. } => Some(data_type),
        _ => None,
    }
}

fn lower(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse_one;

    #[test]
    fn names_that_are_known_become_parameters() {
        let parsed = parse_one("UPDATE t SET a = a + x, b = (SELECT r.c FROM r WHERE q = $1) WHERE x > y").unwrap();
        let mut found = Vec::new();
        let parsed = placed(&parsed, NameConflict::Variable, &mut |names| {
            let type_name = match names.join(".").as_str() {
                "x" => Some("integer".to_owned()),
                "r.c" | "$1" => None,
                _ => return None,
            };
            found.push(names.join("."));
            Some(Place { number: found.len(), type_name })
        });
        let SyntaxTree::Statement(statement) = parsed.statement else { panic!("another statement") };
        assert_eq!(
            statement.to_string(),
            "UPDATE t SET a = a + CAST($1 AS INTEGER), b = (SELECT $2 FROM r WHERE q = $3) WHERE CAST($4 AS INTEGER) > y"
        );
        assert_eq!(found, ["x", "r.c", "$1", "x"]);
    }

    #[test]
    fn parameters_say_which_variable_they_stand_for_but_for_names_of_the_list() {
        let parsed = parse_one("SELECT r.c + 1 AS x FROM t WHERE x = 1 GROUP BY x ORDER BY x, y").unwrap();
        let mut count = 0;
        let parsed = placed(&parsed, NameConflict::Column, &mut |_| {
            count += 1;
            Some(Place { number: count, type_name: None })
        });
        let SyntaxTree::Statement(statement) = parsed.statement else { panic!("another statement") };
        let shown = statement.to_string().replace(BETWEEN, ":");
        let expected =
            "SELECT $1:column:r:c + 1 AS x FROM t WHERE $2:column:x = 1 GROUP BY \"x\" ORDER BY \"x\", $5:column:y";
        assert_eq!(shown, expected);
        let known = VariableName::of("$1\u{1}none\u{1}r\u{1}c").unwrap();
        assert!(!known.is_column_first && known.names.len() == 2);
        assert!(VariableName::of("$1").is_none());
        assert_eq!((number_of("$12\u{1}none\u{1}x"), number_of("$3"), number_of("x")), (Some(12), Some(3), None));
    }
}
