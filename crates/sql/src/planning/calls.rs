//! CALL and DO: procedures that are run.

use std::sync::Arc;

use diligence_base::{Error, Result};
use sqlparser::ast;

use super::around::Around;
use crate::binder;
use crate::parse::{self, DO};
use crate::procedural::{self, Gives, Procedure};
use crate::statement::{Called, Query, Statement};

/// Whether a call stands for DO.
pub(super) fn is_do(call: &ast::Function) -> bool {
    matches!(call.name.0.as_slice(), [part] if part.as_ident().is_some_and(|name| name.value == DO))
}

/// Whether CALL is of one of DuckDB's functions that give rows, such as `pragma_table_info('t')`.
pub(super) fn gives_rows(call: &ast::Function) -> bool {
    let of_duckdb = |name: &str| name.starts_with("pragma_") || name.starts_with("duckdb_");
    matches!(call.name.0.as_slice(), [part] if part.as_ident().is_some_and(|name| of_duckdb(&name.value)))
}

/// What DO does. Fails with 0A000 for a language without such blocks, and as the block is read.
pub(super) fn do_block(call: &ast::Function) -> Result<Statement> {
    let texts = match &call.args {
        ast::FunctionArguments::List(list) => list.args.iter().filter_map(text_of).collect::<Vec<_>>(),
        _ => vec![],
    };
    let [language, body] = texts.as_slice() else {
        return Err(Error::input("DO takes a block as a text").with_code("42601"));
    };
    if !language.eq_ignore_ascii_case("plpgsql") {
        let error = Error::unsupported(format!("language \"{language}\" does not support inline code execution"));
        return Err(error.with_code("0A000"));
    }
    let procedure = Procedure {
        name: "inline_code_block".to_owned(),
        parameters: vec![],
        block: Arc::new(procedural::read(body)?),
        gives: Gives::Nothing,
        has_outputs: false,
        output: None,
        acts_as: None,
        settings: vec![],
    };
    Ok(Statement::Call(Called { tag: "DO", procedure: Arc::new(procedure), arguments: None }))
}

fn text_of(argument: &ast::FunctionArg) -> Option<String> {
    let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ast::Expr::Value(value))) = argument else { return None };
    match &value.value {
        ast::Value::SingleQuotedString(text) | ast::Value::EscapedStringLiteral(text) => Some(text.clone()),
        ast::Value::DollarQuotedString(text) => Some(text.value.clone()),
        _ => None,
    }
}

impl Around<'_> {
    /// CALL. Fails with 42883 if there is no such procedure, and 42809 if it is a function.
    pub(super) fn call(&self, call: &ast::Function) -> Result<Statement> {
        let (procedure, arguments) = binder::called(call, self)?;
        let arguments = match arguments.is_empty() {
            true => None,
            false => {
                let mut query = parse::query("SELECT 1")?;
                if let ast::SetExpr::Select(select) = query.body.as_mut() {
                    select.projection = arguments.into_iter().map(ast::SelectItem::UnnamedExpr).collect();
                }
                let planned = self.front(binder::bind_query(&query, self)?, &[], false)?;
                Some(Query { is_locking: false, ..self.query(planned) })
            }
        };
        Ok(Statement::Call(Called { tag: "CALL", procedure: Arc::new(procedure), arguments }))
    }
}
