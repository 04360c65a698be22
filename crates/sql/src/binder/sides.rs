//! A part of FROM as what is around it sees it: rows, and the names of their columns.

use diligence_base::{Error, Result};
use sqlparser::ast::TableAlias;

use super::scope::{Namespace, Source};
use super::{name_place, normalized};
use crate::algebra::{Column, Relation};
use crate::errors;

/// A part of FROM: its rows and its names.
pub(super) struct JoinedSide {
    pub relation: Relation,
    pub names: Namespace,
}

/// A source under its alias, or else its own name and what may stand in front of it. Fails with 42P10 if the alias
/// names more columns than there are.
pub(super) fn named(
    relation: Relation,
    mut columns: Vec<Column>,
    alias: Option<&TableAlias>,
    own: Option<(String, Vec<String>)>,
) -> Result<JoinedSide> {
    let source = match alias {
        None => {
            let (name, qualifiers) = own.unzip();
            let mut source = Source::new(name, columns);
            source.qualifiers = qualifiers.unwrap_or_default();
            source
        }
        Some(alias) => {
            let name = normalized(&alias.name);
            if alias.columns.len() > columns.len() {
                let message = format!(
                    "table \"{name}\" has {} columns available but {} columns specified",
                    columns.len(),
                    alias.columns.len()
                );
                return Err(errors::at(Error::input(message).with_code("42P10"), name_place(&alias.name)));
            }
            for (column, definition) in columns.iter_mut().zip(&alias.columns) {
                column.name = normalized(&definition.name);
            }
            Source::new(Some(name), columns)
        }
    };
    Ok(JoinedSide { relation, names: Namespace::of(source) })
}
