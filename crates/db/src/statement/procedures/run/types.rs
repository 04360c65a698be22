//! The types of a procedure's variables.

use super::*;

impl Run<'_> {
    /// NULL of a type, or of a table's rows. Fails with 42704 if there is neither.
    pub(super) fn null_of(&self, named: &str) -> Result<Typed> {
        match self.ask(&format!("SELECT CAST(NULL AS {named}) LIMIT 0")) {
            Ok(ran) => Ok(ran.nulls().pop().map_or_else(|| Typed::null(SqlType::Text), |(_, value)| value)),
            Err(error) => self.row_of(named).map_err(|_| error),
        }
    }

    /// A row of NULLs of a table.
    pub(super) fn row_of(&self, table: &str) -> Result<Typed> {
        if let Some(columns) = self.session.planner().row_columns(table).map_err(without_place)? {
            let nulls = columns.into_iter().map(|(name, sql_type)| (name, Typed::null(sql_type)));
            return Ok(Typed::null(Typed::row(nulls.collect())?.sql_type));
        }
        let row = Typed::row(self.ask(&format!("SELECT * FROM {table} LIMIT 0"))?.nulls())?;
        Ok(Typed::null(row.sql_type))
    }

    /// NULL of the type of a column, or of another variable.
    pub(super) fn like(&self, named: &str) -> Result<Typed> {
        let parts = named.split('.').map(|part| part.trim().trim_matches('"').to_owned()).collect::<Vec<_>>();
        if let Some(known) = self.scopes.named(&parts)? {
            return Ok(Typed::null(known.sql_type));
        }
        let Some((table, column)) = named.rsplit_once('.') else {
            return Err(Error::input(format!("relation \"{named}\" does not exist")).with_code("42P01"));
        };
        if let Some(columns) = self.session.planner().row_columns(table).map_err(without_place)? {
            let wanted = match column.trim().strip_prefix('"') {
                Some(quoted) => quoted.trim_end_matches('"').to_owned(),
                None => column.trim().to_lowercase(),
            };
            let missing = || {
                let message = format!("column \"{wanted}\" of relation \"{table}\" does not exist");
                Error::input(message).with_code("42703")
            };
            let found = columns.into_iter().find(|(name, _)| *name == wanted).ok_or_else(missing)?;
            return Ok(Typed::null(found.1));
        }
        let mut columns = self.ask(&format!("SELECT {column} FROM {table} LIMIT 0"))?.nulls();
        columns.pop().map(|(_, value)| value).ok_or_else(|| Error::bug("a column without a type"))
    }
}
