//! What CREATE INDEX says of an index beside its columns: the access method, the order and the operator class of each
//! column, INCLUDE and WITH.

use diligence_base::{Error, Result};
use diligence_catalog::operator_classes::{method_oid, named_class};
use diligence_catalog::rules::{BTREE, IndexForm, Key, PartForm};
use diligence_types::SqlType;
use sqlparser::ast::{self, BinaryOperator, Expr, IndexType};

use super::definitions::lower;
use super::tables::Declaration;

/// The only method that keeps an order.
const IS_ORDERED: &str = BTREE;

/// What a statement says of an index. Fails with 42704 where a method or a class is unknown, 0A000 where the method
/// has no such thing.
pub(super) fn form_of(create: &ast::CreateIndex) -> Result<IndexForm> {
    let method = create.using.as_ref().map_or(BTREE.to_owned(), method);
    let lacks = |what: &str| {
        let message = format!("access method \"{method}\" does not support {what}");
        Error::unsupported(message).with_code("0A000").with_hint("leave out USING, or take USING btree")
    };
    if method_oid(&method).is_none() {
        return Err(Error::input(format!("access method \"{method}\" does not exist")).with_code("42704"));
    }
    match method.as_str() {
        BTREE => {}
        _ if create.unique => return Err(lacks("unique indexes")),
        "hash" | "brin" | "gin" if !create.include.is_empty() => return Err(lacks("included columns")),
        "hash" | "spgist" if create.columns.len() > 1 => return Err(lacks("multicolumn indexes")),
        _ => {}
    }
    let mut parts = Vec::with_capacity(create.columns.len());
    for column in &create.columns {
        let options = &column.column.options;
        if method != IS_ORDERED && options.asc.is_some() {
            return Err(lacks("ASC/DESC options"));
        }
        if method != IS_ORDERED && options.nulls_first.is_some() {
            return Err(lacks("NULLS FIRST/LAST options"));
        }
        let is_descending = options.asc == Some(false);
        let nulls_first = options.nulls_first.unwrap_or(is_descending);
        let class = column.operator_class.as_ref().and_then(|name| name.0.last()?.as_ident());
        parts.push(PartForm { operator_class: class.map(lower), is_descending, nulls_first, operator: None });
    }
    let included = create.include.iter().map(lower).collect();
    let options = create.with.iter().map(option).collect::<Result<_>>()?;
    Ok(IndexForm { method, parts, included, options })
}

fn method(named: &IndexType) -> String {
    match named {
        IndexType::Custom(name) => lower(name),
        other => other.to_string().to_lowercase(),
    }
}

/// `name = value`, or a name alone.
fn option(expression: &Expr) -> Result<(String, String)> {
    let name = |expression: &Expr| match expression {
        Expr::Identifier(name) => Some(lower(name)),
        _ => None,
    };
    let value = |expression: &Expr| match expression {
        Expr::Value(value) => value.value.clone().into_string().unwrap_or_else(|| value.to_string()),
        other => other.to_string(),
    };
    let parts = match expression {
        Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => name(left).map(|name| (name, value(right))),
        other => name(other).map(|name| (name, "true".to_owned())),
    };
    let (name, value) = parts.ok_or_else(|| {
        Error::input(format!("{expression} is no parameter of an index")).with_code("42601").with_hint("name = value")
    })?;
    checked(&name, &value)?;
    Ok((name, value))
}

/// Fails with 22023 if there is no such parameter, or not with this value.
fn checked(name: &str, value: &str) -> Result<()> {
    let (least, most) = match name {
        "fillfactor" => (10, 100),
        "pages_per_range" => (1, 131_072),
        "gin_pending_list_limit" => (64, i64::from(i32::MAX)),
        "deduplicate_items" | "autosummarize" | "fastupdate" | "buffering" => return Ok(()),
        _ => return Err(Error::input(format!("unrecognized parameter \"{name}\"")).with_code("22023")),
    };
    let number = value.parse::<i64>().map_err(|_| {
        Error::input(format!("invalid value for integer option \"{name}\": {value}")).with_code("22023")
    })?;
    if (least..=most).contains(&number) {
        return Ok(());
    }
    let error = Error::input(format!("value {number} out of bounds for option \"{name}\"")).with_code("22023");
    Err(error.with_detail(format!("Valid values are between \"{least}\" and \"{most}\".")))
}

/// Gives the last key of a table the form that a statement says; `called` is what the index is called after, if it is
/// not named. Fails with 42704 or 42804 for an operator class that is not there or not for the column, 42703 for a
/// column of INCLUDE that is not there.
pub(super) fn put_form(declaration: &mut Declaration, mut form: IndexForm, called: Option<&[String]>) -> Result<()> {
    if let Some(column) = form.included.iter().find(|column| !declaration.has_column(column)) {
        return Err(Error::input(format!("column \"{column}\" does not exist")).with_code("42703"));
    }
    let Some(mut key) = declaration.rules.keys.pop() else { return Ok(()) };
    let types = key_types(declaration, &key);
    for (part, sql_type) in form.parts.iter_mut().zip(types) {
        let Some(name) = &part.operator_class else { continue };
        match (named_class(&form.method, name), sql_type) {
            (Some(class), Some(sql_type)) if !class.accepts(&sql_type) => {
                let message = format!("operator class \"{name}\" does not accept data type {sql_type}");
                return Err(Error::input(message).with_code("42804"));
            }
            // Extensions bring classes of their own for these.
            (None, _) if matches!(form.method.as_str(), BTREE | "hash") => {
                let method = &form.method;
                let message = format!("operator class \"{name}\" does not exist for access method \"{method}\"");
                let hint = "leave it out: the index finds rows as well without it";
                return Err(Error::input(message).with_code("42704").with_hint(hint));
            }
            _ => {}
        }
    }
    if let Some(called) = called.filter(|_| !form.included.is_empty()) {
        let names = called.iter().chain(&form.included).map(String::as_str).collect::<Vec<_>>();
        let wanted = format!("{}_{}_idx", declaration.name.name, names.join("_"));
        key.name = declaration.free_name(None, wanted)?;
    }
    key.form = (!form.is_plain()).then_some(form);
    declaration.rules.keys.push(key);
    Ok(())
}

/// The types of a key's values.
fn key_types(declaration: &Declaration, key: &Key) -> Vec<Option<SqlType>> {
    let of_column = |name: &String| {
        let field = declaration.fields.iter().find(|field| field.name() == name);
        field.and_then(|field| SqlType::of_field(field))
    };
    match &key.computed {
        Some(computed) => computed.function.sql_types().iter().cloned().map(Some).collect(),
        None => key.columns.iter().map(of_column).collect(),
    }
}
