//! VACUUM and ANALYZE, and what cannot run inside a transaction block.
//!
//! What the two are for is done all the time: rows that are gone hold no room, and statistics are those of the rows
//! that a statement sees. So they look at their tables and columns, and do nothing.

use diligence_base::{Error, Result};
use sqlparser::ast::{self, Expr};

use super::around::Around;
use super::definitions::lower;
use super::maintenance::arguments;
use crate::statement::{Command, Statement};

impl Around<'_> {
    /// Fails with 25001 in a transaction block, as PostgreSQL does for what it commits by itself.
    pub(super) fn outside_of_blocks(&self, what: &str) -> Result<()> {
        if self.planner.catalogs().isolation().is_none() {
            return Ok(());
        }
        let error = Error::input(format!("{what} cannot run inside a transaction block")).with_code("25001");
        Err(error.with_hint("end the transaction first, or run it in a session of its own"))
    }

    /// VACUUM and ANALYZE. Fails with 42P01 for a table that is not there, 42703 and 42701 for a column that is not or
    /// is there twice, 0A000 for columns without ANALYZE, and for VACUUM with 25001 in a transaction block.
    pub(super) fn upkeep(&self, call: &ast::Function) -> Result<Statement> {
        let mut given = arguments(call);
        let what = match given.next() {
            Some(Some(Expr::Value(value))) => match &value.value {
                ast::Value::SingleQuotedString(what) => what.as_str(),
                _ => return Err(Error::bug("upkeep of no kind")),
            },
            _ => return Err(Error::bug("upkeep of no kind")),
        };
        let tag = if what == "ANALYZE" { "ANALYZE" } else { "VACUUM" };
        if tag == "VACUUM" {
            self.outside_of_blocks(tag)?;
        }
        let mut table = None;
        for argument in given {
            let name = match argument {
                Some(Expr::Identifier(name)) => ast::ObjectName::from(vec![name.clone()]),
                Some(Expr::CompoundIdentifier(names)) => ast::ObjectName::from(names.clone()),
                Some(Expr::Nested(column)) => {
                    self.upkeep_columns(table.as_ref(), std::slice::from_ref(&**column), what)?;
                    continue;
                }
                Some(Expr::Tuple(columns)) => {
                    self.upkeep_columns(table.as_ref(), columns, what)?;
                    continue;
                }
                _ => return Err(names_of_tables(tag)),
            };
            let name = self.relation_name(&name)?;
            let found = self.at.snapshot.get(&name).ok_or_else(|| self.unknown(&name))?;
            table = Some((name, found));
        }
        Ok(Statement::Command(Command::Nothing(tag)))
    }

    /// Fails for columns that the table before them has not.
    fn upkeep_columns(
        &self,
        table: Option<&(diligence_catalog::RelationName, diligence_catalog::Resolved)>,
        columns: &[Expr],
        what: &str,
    ) -> Result<()> {
        if what == "VACUUM" {
            let error = Error::unsupported("ANALYZE option must be specified when a column list is provided");
            return Err(error.with_code("0A000").with_hint("write VACUUM (ANALYZE) t (c, …)"));
        }
        let (name, found) = table.ok_or_else(|| names_of_tables(what))?;
        let schema = found.schema()?;
        let mut seen = Vec::with_capacity(columns.len());
        for column in columns {
            let Expr::Identifier(column) = column else { return Err(names_of_tables(what)) };
            let column = lower(column);
            if schema.index_of(&column).is_err() {
                let message = format!("column \"{column}\" of relation \"{}\" does not exist", name.name);
                return Err(Error::input(message).with_code("42703"));
            }
            if seen.contains(&column) {
                let message = format!("column \"{column}\" of relation \"{}\" appears more than once", name.name);
                return Err(Error::input(message).with_code("42701"));
            }
            seen.push(column);
        }
        Ok(())
    }
}

fn names_of_tables(tag: &str) -> Error {
    let error = Error::input(format!("{tag} takes names of tables, and of columns in parentheses behind one"));
    error.with_code("42601")
}
