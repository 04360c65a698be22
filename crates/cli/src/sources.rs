//! Where SQL text comes from, and where a statement stands in it.

use std::fmt;
use std::io::Read;
use std::path::Path;

use diligence_base::Span;

use crate::failure::Failure;

/// A text with SQL statements.
#[derive(Clone, Debug)]
pub struct Source {
    /// The file it is from; none for the command line and the prompt.
    pub name: Option<String>,
    /// The statements, separated by semicolons.
    pub text: String,
}

impl Source {
    /// SQL typed by the user.
    pub fn typed(text: impl Into<String>) -> Self {
        Self { name: None, text: text.into() }
    }

    /// The content of a file; of standard input if it is `-`.
    pub fn file(path: &Path) -> Result<Self, Failure> {
        if path == Path::new("-") {
            return Self::standard_input();
        }
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::Usage(format!("cannot read {}: {error}", path.display())))?;
        Ok(Self { name: Some(path.display().to_string()), text: without_mark(text) })
    }

    /// All of standard input.
    pub fn standard_input() -> Result<Self, Failure> {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .map_err(|error| Failure::Usage(format!("cannot read SQL from standard input: {error}")))?;
        Ok(Self { name: Some("standard input".to_owned()), text: without_mark(text) })
    }

    /// Finds the places of statements that were cut from this text, in order.
    pub fn places(&self, statements: &[String]) -> Vec<Place> {
        let mut from = 0;
        let places = statements.iter().map(|statement| {
            // A statement that was not cut out verbatim gets the place where the search stands.
            let at = self.text[from..].find(statement.as_str()).map_or(from, |offset| from + offset);
            let before = &self.text[..at];
            let line = before.matches('\n').count() as u64 + 1;
            let column = before.chars().rev().take_while(|&character| character != '\n').count() as u64 + 1;
            if self.text[at..].starts_with(statement.as_str()) {
                from = at + statement.len();
            }
            Place { source: self.name.clone(), statement: statement.clone(), line, column }
        });
        places.collect()
    }
}

/// The text without the mark that editors on Windows put before it.
fn without_mark(text: String) -> String {
    match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    }
}

/// A statement and where it begins. Lines and columns count from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, if any.
    pub source: Option<String>,
    /// The statement's text.
    pub statement: String,
    /// The line of its first character.
    pub line: u64,
    /// The column of its first character.
    pub column: u64,
}

impl Place {
    /// Whether the statement shows a plan.
    pub fn is_explain(&self) -> bool {
        let mut rest = self.statement.trim_start();
        while let Some(comment) = rest.strip_prefix("--") {
            rest = comment.split_once('\n').map_or("", |(_, rest)| rest).trim_start();
        }
        let word = rest.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
        word.eq_ignore_ascii_case("explain")
    }

    /// The column in the source of a place in the statement.
    pub fn column_of(&self, span: Span) -> u64 {
        if span.line <= 1 { self.column + span.column.saturating_sub(1) } else { span.column }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.source.as_deref().unwrap_or("SQL"), self.line, self.column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_have_places() {
        let source =
            Source { name: Some("a.sql".to_owned()), text: "-- é\nSELECT 1; SELECT 1;\n\n  SELECT 2".to_owned() };
        let statements = ["SELECT 1", "SELECT 1", "SELECT 2"].map(str::to_owned);
        let places = source.places(&statements).iter().map(Place::to_string).collect::<Vec<_>>();
        assert_eq!(places, ["a.sql:2:1", "a.sql:2:11", "a.sql:4:3"]);
        let place = &source.places(&statements)[1];
        assert_eq!(place.column_of(Span { line: 1, column: 8 }), 18);
        assert_eq!(place.column_of(Span { line: 2, column: 8 }), 8);
    }

    #[test]
    fn a_plan_is_known_by_its_first_word() {
        let place = |text: &str| Place { source: None, statement: text.to_owned(), line: 1, column: 1 };
        assert!(place(" -- why\n\n explain analyze select 1").is_explain());
        assert!(!place("select 'explain'").is_explain());
        assert!(!place("explains").is_explain());
        assert!(!place("-- explain").is_explain());
    }

    #[test]
    fn a_statement_that_was_rewritten_does_not_panic() {
        let source = Source::typed("select  1; select 2");
        let places = source.places(&["select 1".to_owned(), "select 2".to_owned()]);
        assert_eq!((places[0].column, places[1].column), (1, 12));
    }
}
