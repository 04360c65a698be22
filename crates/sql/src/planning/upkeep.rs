//! VACUUM, OPTIMIZE and ANALYZE, and what cannot run inside a transaction block.
//!
//! Statistics are those of the rows that a statement sees, so ANALYZE looks at its tables and columns and does nothing.
//! VACUUM has a checkpoint made, which gives back the room of rows that are gone. VACUUM FULL and OPTIMIZE have it
//! write their tables anew wherever any row is gone.

use std::sync::Arc;

use diligence_base::{Error, Result};
use diligence_catalog::{Object, Relation, Resolved};
use sqlparser::ast::{self, Expr};

use super::around::Around;
use super::definitions::lower;
use super::maintenance::arguments;
use crate::statement::{Command, Maintenance, Statement};

impl Around<'_> {
    /// Fails with 25001 in a transaction block, as PostgreSQL does for what it commits by itself.
    pub(super) fn outside_of_blocks(&self, what: &str) -> Result<()> {
        if self.planner.catalogs().isolation().is_none() {
            return Ok(());
        }
        let error = Error::input(format!("{what} cannot run inside a transaction block")).with_code("25001");
        Err(error.with_hint("end the transaction first, or run it in a session of its own"))
    }

    /// VACUUM, OPTIMIZE and ANALYZE. Fails with 42P01 for a table that is not there, 42703 and 42701 for a column that
    /// is not or is there twice, 0A000 for columns without ANALYZE, and for all but ANALYZE with 25001 in a transaction
    /// block.
    pub(super) fn upkeep(&self, call: &ast::Function) -> Result<Statement> {
        let mut given = arguments(call);
        let what = match given.next() {
            Some(Some(Expr::Value(value))) => match &value.value {
                ast::Value::SingleQuotedString(what) => what.as_str(),
                _ => return Err(Error::bug("upkeep of no kind")),
            },
            _ => return Err(Error::bug("upkeep of no kind")),
        };
        let tag = match what {
            "ANALYZE" => "ANALYZE",
            "OPTIMIZE" => "OPTIMIZE",
            _ => "VACUUM",
        };
        if tag != "ANALYZE" {
            self.outside_of_blocks(tag)?;
        }
        let (mut table, mut named) = (None, Vec::new());
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
            if let Resolved::Object(object) = &found {
                named.push(object.clone());
            }
            table = Some((name, found));
        }
        if tag == "ANALYZE" {
            return Ok(Statement::Command(Command::Nothing(tag)));
        }
        let whole = match (what.contains("FULL") || tag == "OPTIMIZE", table.is_some()) {
            (false, _) => vec![],
            (true, true) => named,
            (true, false) => self.native_tables(),
        };
        Ok(Statement::Maintain(Maintenance::Vacuum { whole, tag }))
    }

    /// The tables of the database that a session may name.
    pub(super) fn native_tables(&self) -> Vec<Arc<Object>> {
        let snapshot = self.at.snapshot;
        let tables = snapshot.names().into_iter().filter_map(|name| match snapshot.get(&name) {
            Some(Resolved::Object(object)) if matches!(object.relation, Relation::Native(_)) => Some(object),
            _ => None,
        });
        tables.collect()
    }

    /// Fails for columns that the table before them has not.
    fn upkeep_columns(
        &self,
        table: Option<&(diligence_catalog::RelationName, Resolved)>,
        columns: &[Expr],
        what: &str,
    ) -> Result<()> {
        if !what.contains("ANALYZE") {
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
