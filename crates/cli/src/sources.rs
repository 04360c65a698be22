//! The sources of SQL text: the command line, files and standard input.

use std::io::Read;
use std::path::Path;

use crate::failure::Failure;
use crate::location::Location;

/// A text with SQL statements.
#[derive(Clone, Debug)]
pub struct Source {
    /// The name of the file; none for the command line and the prompt.
    pub name: Option<String>,
    /// The statements, separated by semicolons.
    pub text: String,
    /// The line of the file with which the text begins.
    pub first_line: u64,
}

impl Source {
    /// SQL typed by the user.
    pub fn typed(text: impl Into<String>) -> Self {
        Self { name: None, text: text.into(), first_line: 1 }
    }

    /// The content of a file, or of standard input if the path is `-`. Fails if it cannot be read.
    pub fn file(path: &Path) -> Result<Self, Failure> {
        if path == Path::new("-") {
            return Self::standard_input();
        }
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::Usage(format!("cannot read {}: {error}", path.display())))?;
        Ok(Self { name: Some(path.display().to_string()), text: without_byte_order_mark(text), first_line: 1 })
    }

    /// All of standard input. Fails if it cannot be read.
    pub fn standard_input() -> Result<Self, Failure> {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .map_err(|error| Failure::Usage(format!("cannot read SQL from standard input: {error}")))?;
        Ok(Self { name: Some("standard input".to_owned()), text: without_byte_order_mark(text), first_line: 1 })
    }

    /// The locations of statements that were split from this text, in order.
    pub fn locations(&self, statements: &[String]) -> Vec<Location> {
        let mut from = 0;
        let locations = statements.iter().map(|statement| {
            // A statement that does not occur verbatim gets the location where the search stopped.
            let at = self.text[from..].find(statement.as_str()).map_or(from, |offset| from + offset);
            let before = &self.text[..at];
            let line = before.matches('\n').count() as u64 + self.first_line;
            let column = before.chars().rev().take_while(|&character| character != '\n').count() as u64 + 1;
            if self.text[at..].starts_with(statement.as_str()) {
                from = at + statement.len();
            }
            Location { source: self.name.clone(), statement: statement.clone(), line, column }
        });
        locations.collect()
    }
}

/// The text without the byte order mark that editors on Windows add.
fn without_byte_order_mark(text: String) -> String {
    match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_have_locations() {
        let source = Source {
            name: Some("a.sql".to_owned()),
            text: "-- é\nSELECT 1; SELECT 1;\n\n  SELECT 2".to_owned(),
            first_line: 1,
        };
        let statements = ["SELECT 1", "SELECT 1", "SELECT 2"].map(str::to_owned);
        let locations = source.locations(&statements).iter().map(Location::to_string).collect::<Vec<_>>();
        assert_eq!(locations, ["a.sql:2:1", "a.sql:2:11", "a.sql:4:3"]);
    }

    #[test]
    fn a_statement_that_was_rewritten_does_not_panic() {
        let source = Source::typed("select  1; select 2");
        let locations = source.locations(&["select 1".to_owned(), "select 2".to_owned()]);
        assert_eq!((locations[0].column, locations[1].column), (1, 12));
    }
}
