//! Parse: text becomes statements, and a statement a syntax tree.

use diligence_base::Result;
use diligence_sql::parse;

use crate::plans::ParsedStatement;
use crate::session::Session;

impl Session {
    /// Cuts a script at its semicolons. Fails with kind `Input` on what is no token of SQL, such as a quote that is
    /// not closed.
    pub fn split(sql: &str) -> Result<Vec<String>> {
        parse::split(sql)
    }

    /// The text of a statement whose parameters are of the types that their sender declares, by their places; those
    /// without a type are what the statement takes them for. Fails as [`split`](Self::split) does.
    pub fn with_declared(sql: &str, types: &[Option<&str>]) -> Result<String> {
        parse::with_declared(sql, types)
    }

    /// The syntax tree of exactly one statement. Fails with kind `Input` if the text is none, or several, or if it
    /// nests too deep.
    pub fn parse(&self, sql: &str) -> Result<ParsedStatement> {
        Ok(ParsedStatement::new(sql.trim(), self.planner().parse(sql)?))
    }
}
