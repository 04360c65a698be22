//! A statement and its location in the text that it comes from.

use std::fmt;

use diligence_base::Span;

/// A statement and the location of its first character. Lines and columns count from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The file, if any.
    pub source: Option<String>,
    /// The statement's text.
    pub statement: String,
    /// The line of its first character.
    pub line: u64,
    /// The column of its first character.
    pub column: u64,
}

impl Location {
    /// Whether the statement is an EXPLAIN.
    pub fn is_explain(&self) -> bool {
        let mut rest = self.statement.trim_start();
        while let Some(comment) = rest.strip_prefix("--") {
            rest = comment.split_once('\n').map_or("", |(_, rest)| rest).trim_start();
        }
        let word = rest.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
        word.eq_ignore_ascii_case("explain")
    }

    /// The column in the source of a position in the statement.
    pub fn column_of(&self, span: Span) -> u64 {
        if span.line <= 1 { self.column + span.column.saturating_sub(1) } else { span.column }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.source.as_deref().unwrap_or("SQL"), self.line, self.column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(column: u64, statement: &str) -> Location {
        Location { source: None, statement: statement.to_owned(), line: 1, column }
    }

    #[test]
    fn columns_are_those_of_the_source() {
        let location = at(11, "SELECT 1");
        assert_eq!(location.column_of(Span { line: 1, column: 8 }), 18);
        assert_eq!(location.column_of(Span { line: 2, column: 8 }), 8);
    }

    #[test]
    fn a_plan_is_known_by_its_first_word() {
        assert!(at(1, " -- why\n\n explain analyze select 1").is_explain());
        assert!(!at(1, "select 'explain'").is_explain());
        assert!(!at(1, "explains").is_explain());
        assert!(!at(1, "-- explain").is_explain());
    }
}
