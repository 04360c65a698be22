//! The names of the columns of what a statement makes.

use std::collections::HashSet;

use diligence_base::{Error, Result};
use sqlparser::ast::Ident;

use crate::binder::Bound;
use crate::parse::lower;

/// Gives the first columns these names. Fails with 42601 if there are more names than columns, and with 42701 if a
/// name comes twice.
pub(super) fn rename(rows: &mut Bound, names: &[&Ident], what: &str) -> Result<()> {
    if names.len() > rows.columns.len() {
        let message = match what {
            "CREATE TABLE AS" => "too many column names were specified".to_owned(),
            what => format!("{what} specifies too many column names"),
        };
        return Err(Error::input(message).with_code("42601"));
    }
    for (column, name) in rows.columns.iter_mut().zip(names) {
        column.name = lower(name);
    }
    refuse_twice(rows.columns.iter().map(|column| column.name.as_str()))
}

/// Fails with 42701 if a name comes twice.
pub(super) fn refuse_twice<'n>(names: impl Iterator<Item = &'n str>) -> Result<()> {
    let mut met = HashSet::new();
    for name in names {
        if !met.insert(name) {
            let error = Error::input(format!("column \"{name}\" specified more than once"));
            return Err(error.with_code("42701").with_hint("give one of them another name with AS"));
        }
    }
    Ok(())
}
