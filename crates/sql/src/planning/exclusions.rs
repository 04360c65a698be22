//! Exclusion constraints: which rows of a table may not stand beside each other.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use diligence_base::{Error, Result};
use diligence_catalog::operator_classes::method_oid;
use diligence_catalog::rules::{BTREE, ComputedKey, IndexForm, Key, KeyKind, PartForm, RowFunction};
use diligence_types::SqlType;
use sqlparser::ast;

use super::around::Around;
use super::called::unnested;
use super::definitions::lower;
use super::indexes::{IndexParts, SIDES};
use super::tables::{Declaration, deferral, signed};
use crate::errors;
use crate::parse::{self, EXCLUDES};

/// Operators of which the sides can be exchanged, so that it does not matter which of two rows came first.
const COMMUTATIVE: [&str; 4] = ["=", "<>", "&&", "-|-"];

impl Around<'_> {
    /// EXCLUDE, which the parser has as UNIQUE with a comment. Fails with 42704 if there is no such access method,
    /// 0A000 if it has no such constraints, 42809 if an operator cannot be part of one, 42703 and 42883 if there is no
    /// such column or operator.
    pub(super) fn add_exclusion(
        &self,
        declaration: &mut Declaration,
        constraint: &ast::UniqueConstraint,
        said: &str,
    ) -> Result<()> {
        let mut said = said.split(EXCLUDES).skip(1);
        let mut next = || said.next().unwrap_or_default();
        let (method, condition, included) = (next().to_lowercase(), next(), signed(next()));
        let method = if method.is_empty() { BTREE.to_owned() } else { method };
        let mut compared = constraint.columns.iter().zip(said.map(operator)).collect::<Vec<_>>();
        check_method(&method, &compared.iter().map(|(_, operator)| operator.as_str()).collect::<Vec<_>>())?;
        if let Some(column) = included.iter().find(|column| !declaration.has_column(column)) {
            return Err(Error::input(format!("column \"{column}\" does not exist")).with_code("42703"));
        }
        let mut called = IndexParts::of(&constraint.columns).called;
        called.extend(included.iter().cloned());
        let wanted = format!("{}_{}_excl", declaration.name.name, called.join("_"));
        let name = declaration.free_name(constraint.name.as_ref(), wanted)?;
        // Rows are found by the columns that are compared by `=`, so these come first.
        compared.sort_by_key(|(_, operator)| operator != "=");
        let (columns, operators): (Vec<_>, Vec<_>) = compared.into_iter().unzip();
        let classes = columns.iter().map(|column| column.operator_class.as_ref()?.0.last()?.as_ident().map(lower));
        let parts = classes.zip(&operators).map(|(operator_class, operator)| {
            let operator = Some(operator.clone());
            PartForm { operator_class, operator, ..PartForm::default() }
        });
        let form = IndexForm { method, parts: parts.collect(), included, options: vec![] };
        let columns = columns.into_iter().cloned().collect::<Vec<_>>();
        let IndexParts { columns, expressions, .. } = self.index_parts(&columns, &declaration.name);
        let is_missing = |(name, expression): &(&String, &Option<Arc<ast::Expr>>)| {
            expression.is_none() && !declaration.has_column(name)
        };
        if let Some((column, _)) = columns.iter().zip(&expressions).find(is_missing) {
            let error = Error::input(format!("column \"{column}\" named in key does not exist")).with_code("42703");
            let known = declaration.fields.iter().map(|field| field.name().clone()).collect::<Vec<_>>();
            return Err(errors::suggest(error, column, &known));
        }
        let condition = match condition {
            "" => None,
            text => Some(self.kept_rule(unnested(&parse::expression(text)?), &declaration.name)),
        };
        let (table, schema) = (&declaration.name.name, declaration.schema());
        let function = self.index_function(table, &schema, &columns, &expressions, condition.as_deref(), &operators)?;
        let computed = Some(ComputedKey { expressions, condition, function });
        let deferral = deferral(constraint.characteristics.as_ref())?;
        let key = Key::of_columns(name, columns, KeyKind::Exclusion, false);
        declaration.rules.keys.push(Key { computed, deferral, form: Some(form), ..key });
        Ok(())
    }

    /// What says of two rows with values of these types whether they exclude each other: the columns of each are called
    /// after its side. Fails with 42883 if there is no such operator.
    pub(super) fn comparison(
        &self,
        operators: &[String],
        sql_types: &[SqlType],
        types: &[DataType],
    ) -> Result<Arc<dyn RowFunction>> {
        let of_side = |side: &'static str| {
            let places = sql_types.iter().zip(types).enumerate();
            places.map(move |(place, (sql_type, own))| {
                sql_type.field(&format!("{side}{place}"), true).with_data_type(own.clone())
            })
        };
        let schema = Arc::new(Schema::new(SIDES.into_iter().flat_map(of_side).collect::<Vec<_>>()));
        let [one, other] = SIDES;
        let compared = operators.iter().enumerate();
        let compared = compared.map(|(place, operator)| format!("{one}{place} {operator} {other}{place}"));
        let condition = parse::expression(&compared.collect::<Vec<_>>().join(" AND "))?;
        let (names, condition) = (["excludes".to_owned()], [Some(Arc::new(condition))]);
        self.index_function("excluded", &schema, &names, &condition, None, &[])
    }
}

/// An operator's name, as it stands between two values: `OPERATOR(pg_catalog.=)` is `=`.
fn operator(said: &str) -> String {
    let called = said.strip_suffix(')').and_then(|said| said.split_once('(')).map(|(_, name)| name);
    let name = called.map_or(said, |called| called.rsplit('.').next().unwrap_or(called));
    if name == "!=" { "<>".to_owned() } else { name.to_owned() }
}

/// Fails where an access method does not serve a constraint of these operators.
fn check_method(method: &str, operators: &[&str]) -> Result<()> {
    let lacks = |what: &str| {
        let message = format!("access method \"{method}\" does not support {what}");
        Err(Error::unsupported(message).with_code("0A000").with_hint("write EXCLUDE USING gist"))
    };
    match method {
        _ if method_oid(method).is_none() => {
            return Err(Error::input(format!("access method \"{method}\" does not exist")).with_code("42704"));
        }
        "gin" | "brin" => return lacks("exclusion constraints"),
        "hash" | "spgist" if operators.len() > 1 => return lacks("multicolumn indexes"),
        _ => {}
    }
    if let Some(operator) = operators.iter().find(|operator| !COMMUTATIVE.contains(operator)) {
        let error = Error::input(format!("operator {operator} is not commutative")).with_code("42809");
        let detail = "Only commutative operators can be used in exclusion constraints.";
        return Err(error.with_detail(detail).with_hint(format!("such are {}", COMMUTATIVE.join(", "))));
    }
    if let Some(operator) = operators.iter().find(|operator| matches!(method, BTREE | "hash") && **operator != "=") {
        let message =
            format!("operator {operator} is not a member of an operator family of access method \"{method}\"");
        return Err(Error::input(message).with_code("42809").with_hint("write EXCLUDE USING gist"));
    }
    Ok(())
}
