//! Values in the places of names: a statement of a body becomes one with parameters.

use std::convert::Infallible;
use std::ops::ControlFlow;

use sqlparser::ast::{CastKind, DataType, Expr, Ident, Statement, Value, VisitMut, VisitorMut};

use crate::parse::{Parsed, SyntaxTree, expression};

/// What stands for a name.
#[derive(Clone, Debug)]
pub struct Place {
    /// The parameter, counted from 1.
    pub number: usize,
    /// The type that it has, as it is written; what its value says without one.
    pub type_name: Option<String>,
}

/// The statement with parameters in the places of the names that `find` knows: of one name, or of one in front of
/// others. Only statements with rows have such names.
pub fn placed(parsed: &Parsed, find: &mut dyn FnMut(&[String]) -> Option<Place>) -> Parsed {
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
        let _ = statement.visit(&mut Names { find });
    }
    parsed
}

struct Names<'f> {
    find: &'f mut dyn FnMut(&[String]) -> Option<Place>,
}

impl VisitorMut for Names<'_> {
    type Break = Infallible;

    fn post_visit_expr(&mut self, given: &mut Expr) -> ControlFlow<Infallible> {
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
            *given = parameter(&place);
        }
        ControlFlow::Continue(())
    }
}

fn parameter(place: &Place) -> Expr {
    let value = Expr::Value(Value::Placeholder(format!("${}", place.number)).into());
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
        let parsed = placed(&parsed, &mut |names| {
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
}
