//! DuckDB's TRY: NULL where an expression fails.

use std::ops::ControlFlow;

use diligence_base::{Error, ErrorKind, Result};
use sqlparser::ast::{CastKind, Expr, VisitorMut};

use super::Binder;
use super::scope::Level;
use crate::algebra::Scalar;
use crate::tried::marker;

impl Binder<'_> {
    /// `TRY(expression)`. Fails with 0A000 for subqueries, and as binding does where no value is to blame.
    pub(super) fn tried(&self, expression: &Expr, level: &Level<'_>) -> Result<Scalar> {
        let bound = match self.typed_scalar(expression, level) {
            // A literal is read now, as what it is cast to.
            Err(error) if is_of_values(&error) => {
                let mut forgiving = expression.clone();
                let _ = sqlparser::ast::VisitMut::visit(&mut forgiving, &mut Forgiving);
                self.typed_scalar(&forgiving, level)?
            }
            other => other?,
        };
        if bound.has_subquery() {
            let error = Error::unsupported(format!("TRY of {expression} is not supported")).with_code("0A000");
            return Err(error.with_hint("TRY takes no subquery: select in FROM what it needs"));
        }
        let sql_type = bound.sql_type();
        Ok(Scalar::Asked { function: marker(), arguments: vec![bound], sql_type })
    }
}

/// Whether an error is one of values that are read or computed with.
fn is_of_values(error: &Error) -> bool {
    error.kind() == ErrorKind::Value || error.code().is_some_and(|code| code.starts_with("22"))
}

/// Makes casts give NULL where they fail.
struct Forgiving;

impl VisitorMut for Forgiving {
    type Break = ();

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        match expression {
            Expr::Cast { kind, .. } => *kind = CastKind::TryCast,
            Expr::TypedString(typed) => {
                *expression = Expr::Cast {
                    kind: CastKind::TryCast,
                    expr: Box::new(Expr::Value(typed.value.clone())),
                    data_type: typed.data_type.clone(),
                    array: false,
                    format: None,
                };
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
