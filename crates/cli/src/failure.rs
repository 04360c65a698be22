//! Why the command fails: the message that is printed, and the exit code.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use diligence_base::{Error, Span};

use crate::location::Location;
use crate::output::WriteError;

/// The result of a subcommand.
pub type Done = Result<(), Failure>;

/// Why a run of the command ended early.
#[derive(Debug)]
pub enum Failure {
    /// The command line is invalid. Exit code 2.
    Usage(String),
    /// A statement failed, at this location in its source. Exit code 1.
    Statement(Error, Option<Location>),
    /// Something else failed. Exit code 1.
    Other(String),
    /// The reader of the output has closed it, which is not an error. Exit code 0.
    OutputClosed,
    /// A script has ended itself with this exit code, which is not an error.
    Ended(u8),
}

impl Failure {
    /// The failure for an error while writing output.
    pub fn output(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::OutputClosed,
            _ => Failure::Other(format!("cannot write the output: {error}")),
        }
    }

    /// Prints the failure on standard error and returns the exit code.
    pub fn report(&self) -> ExitCode {
        match self {
            Failure::OutputClosed => ExitCode::SUCCESS,
            Failure::Ended(code) => ExitCode::from(*code),
            Failure::Usage(_) => {
                complain(self);
                ExitCode::from(2)
            }
            Failure::Statement(..) | Failure::Other(_) => {
                complain(self);
                ExitCode::from(1)
            }
        }
    }
}

/// Prints a line on standard error. If that is closed, the exit code still reports the failure.
pub fn complain(what: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "{what}");
}

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Output(error) => Failure::output(&error),
            WriteError::Value(error) => Failure::Statement(error, None),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(message) => write!(f, "error: {message}"),
            Failure::Other(message) => write!(f, "error: {message}"),
            Failure::OutputClosed => write!(f, "the output was closed"),
            Failure::Ended(code) => write!(f, "ended with exit code {code}"),
            Failure::Statement(error, location) => {
                write!(f, "error: {}", error.message())?;
                match (error.span(), location) {
                    (Some(span), Some(location)) => write_excerpt(f, location, span)?,
                    (None, Some(location)) if location.source.is_some() => write!(f, "\n --> {location}")?,
                    _ => {}
                }
                if let Some(detail) = error.detail() {
                    write!(f, "\ndetail: {detail}")?;
                }
                if let Some(hint) = error.hint() {
                    write!(f, "\nhint: {hint}")?;
                }
                Ok(())
            }
        }
    }
}

/// The widest excerpt of a line; generated statements can have very long lines.
const EXCERPT_CHARACTERS_MAX: usize = 120;

/// The line of the statement that the span points into, with a caret under the character.
fn write_excerpt(f: &mut fmt::Formatter<'_>, location: &Location, span: Span) -> fmt::Result {
    let lines = location.statement.lines().count() as u64;
    let Some(line) = location.statement.lines().nth(span.line.saturating_sub(1) as usize) else {
        return Ok(());
    };
    // A span can point to the end of the text, one past the last character.
    let characters = line.chars().count();
    let column = (span.column.max(1) as usize - 1).min(characters);
    let first = column.saturating_sub(EXCERPT_CHARACTERS_MAX / 2);
    let excerpt = line.chars().skip(first).take(EXCERPT_CHARACTERS_MAX).collect::<String>();
    // A tab is one column here and in the caret's line.
    let excerpt = excerpt.replace(|c: char| c.is_control(), " ");
    let before = line.chars().skip(first).take(column - first).collect::<String>();
    let indent = unicode_width::UnicodeWidthStr::width(before.as_str());

    let number = location.line + span.line.saturating_sub(1);
    if let Some(source) = &location.source {
        write!(f, "\n --> {source}:{number}:{}", location.column_of(span))?;
    }
    if location.source.is_none() && lines == 1 && location.line == 1 {
        // A single line from the command line needs no line number.
        return write!(f, "\n  {excerpt}\n  {}^", " ".repeat(indent));
    }
    let margin = " ".repeat(number.to_string().len());
    write!(f, "\n {number} | {excerpt}\n {margin} | {}^", " ".repeat(indent))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(statement: &str, source: Option<&str>, line: u64) -> Location {
        Location { source: source.map(str::to_owned), statement: statement.to_owned(), line, column: 1 }
    }

    fn error(line: u64, column: u64) -> Error {
        Error::input("no column named 'x'").with_span(Span { line, column }).with_hint("did you mean 'y'?")
    }

    #[test]
    fn the_caret_stands_under_the_character() {
        let failure = Failure::Statement(error(1, 8), Some(location("SELECT x FROM t", None, 1)));
        let expected = "error: no column named 'x'\n  SELECT x FROM t\n         ^\nhint: did you mean 'y'?";
        assert_eq!(failure.to_string(), expected);
    }

    #[test]
    fn a_file_is_named_with_the_line_in_the_file() {
        let failure = Failure::Statement(error(2, 3), Some(location("SELECT\n  x\nFROM t", Some("q.sql"), 9)));
        let expected = "error: no column named 'x'\n --> q.sql:10:3\n 10 |   x\n    |   ^\nhint: did you mean 'y'?";
        assert_eq!(failure.to_string(), expected);
    }

    #[test]
    fn wide_characters_tabs_and_places_outside_the_text_are_survived() {
        let failure = Failure::Statement(error(1, 14), Some(location("SELECT '日本', x", None, 1)));
        let caret = format!("\n  SELECT '日本', x\n{}^", " ".repeat(2 + "SELECT '".len() + 4 + "', ".len()));
        assert!(failure.to_string().contains(&caret), "{failure}");
        for (line, column) in [(1, 4), (1, 900), (0, 0), (7, 1)] {
            let failure = Failure::Statement(error(line, column), Some(location("\tSELECT", None, 1)));
            assert!(failure.to_string().starts_with("error: no column"), "{failure}");
        }
        let long = format!("{}x", " ".repeat(10_000));
        let shown = Failure::Statement(error(1, 10_001), Some(location(&long, None, 1))).to_string();
        assert!(shown.len() < 400 && shown.contains('x'), "{shown}");
    }
}
