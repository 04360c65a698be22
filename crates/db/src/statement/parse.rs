//! Parse: text becomes statements, and a statement a syntax tree.

use diligence_base::Result;
use diligence_sql::parse::{self, SyntaxTree};

use crate::plans::ParsedStatement;
use crate::session::Session;

impl Session {
    /// Cuts a script at its semicolons. Fails with kind `Input` on what is no token of SQL, such as a quote that is
    /// not closed.
    pub fn split(sql: &str) -> Result<Vec<String>> {
        parse::split(sql)
    }

    /// Whether a statement is a COPY that writes its rows to the standard output of this process.
    pub fn copies_to_standard_output(sql: &str) -> bool {
        const NAMES: [&str; 4] = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];
        parse::parse_one(sql).is_ok_and(|parsed| match parsed.statement {
            SyntaxTree::CopyTo(copy) => NAMES.contains(&copy.target.as_str()),
            _ => false,
        })
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
