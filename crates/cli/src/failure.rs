//! How the command fails: what is printed, and with which exit code.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use diligence_base::{Error, Span};

use crate::output::WriteError;
use crate::sources::Place;

/// Why a run of the command ended early.
#[derive(Debug)]
pub enum Failure {
    /// The command line cannot be followed. Exit code 2.
    Usage(String),
    /// A statement failed, and where it stands in its source. Exit code 1.
    Statement(Error, Option<Place>),
    /// Something else failed while running. Exit code 1.
    Other(String),
    /// Whoever read the output has gone: no error. Exit code 0.
    OutputClosed,
}

impl Failure {
    /// From an error of an output.
    pub fn output(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::OutputClosed,
            _ => Failure::Other(format!("cannot write the output: {error}")),
        }
    }

    /// Shows it on standard error and gives the exit code.
    pub fn report(&self) -> ExitCode {
        match self {
            Failure::OutputClosed => ExitCode::SUCCESS,
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

/// Says something on standard error. Where nobody can hear it, the exit code still tells.
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
            Failure::Statement(error, place) => {
                write!(f, "error: {}", error.message())?;
                match (error.span(), place) {
                    (Some(span), Some(place)) => write_excerpt(f, place, span)?,
                    (None, Some(place)) if place.source.is_some() => write!(f, "\n --> {place}")?,
                    _ => {}
                }
                if let Some(hint) = error.hint() {
                    write!(f, "\nhint: {hint}")?;
                }
                Ok(())
            }
        }
    }
}

/// The widest excerpt that is shown of a line; statements made by programs have very long lines.
const EXCERPT_CHARACTERS_MAX: usize = 120;

/// The line of the statement that the span points into, with a caret under the character.
fn write_excerpt(f: &mut fmt::Formatter<'_>, place: &Place, span: Span) -> fmt::Result {
    let lines = place.statement.lines().count() as u64;
    let Some(line) = place.statement.lines().nth(span.line.saturating_sub(1) as usize) else {
        return Ok(());
    };
    // The end of the text is a place too: one past the last character.
    let characters = line.chars().count();
    let column = (span.column.max(1) as usize - 1).min(characters);
    let first = column.saturating_sub(EXCERPT_CHARACTERS_MAX / 2);
    let excerpt = line.chars().skip(first).take(EXCERPT_CHARACTERS_MAX).collect::<String>();
    // A tab is one column here and in the caret's line.
    let excerpt = excerpt.replace(|c: char| c.is_control(), " ");
    let before = line.chars().skip(first).take(column - first).collect::<String>();
    let indent = unicode_width::UnicodeWidthStr::width(before.as_str());

    let number = place.line + span.line.saturating_sub(1);
    if let Some(source) = &place.source {
        write!(f, "\n --> {source}:{number}:{}", place.column_of(span))?;
    }
    if place.source.is_none() && lines == 1 && place.line == 1 {
        // A one-liner from the command line needs no line number.
        return write!(f, "\n  {excerpt}\n  {}^", " ".repeat(indent));
    }
    let margin = " ".repeat(number.to_string().len());
    write!(f, "\n {number} | {excerpt}\n {margin} | {}^", " ".repeat(indent))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(statement: &str, source: Option<&str>, line: u64) -> Place {
        Place { source: source.map(str::to_owned), statement: statement.to_owned(), line, column: 1 }
    }

    fn error(line: u64, column: u64) -> Error {
        Error::input("no column named 'x'").with_span(Span { line, column }).with_hint("did you mean 'y'?")
    }

    #[test]
    fn the_caret_stands_under_the_character() {
        let failure = Failure::Statement(error(1, 8), Some(place("SELECT x FROM t", None, 1)));
        let expected = "error: no column named 'x'\n  SELECT x FROM t\n         ^\nhint: did you mean 'y'?";
        assert_eq!(failure.to_string(), expected);
    }

    #[test]
    fn a_file_is_named_with_the_line_in_the_file() {
        let failure = Failure::Statement(error(2, 3), Some(place("SELECT\n  x\nFROM t", Some("q.sql"), 9)));
        let expected = "error: no column named 'x'\n --> q.sql:10:3\n 10 |   x\n    |   ^\nhint: did you mean 'y'?";
        assert_eq!(failure.to_string(), expected);
    }

    #[test]
    fn wide_characters_tabs_and_places_outside_the_text_are_survived() {
        let failure = Failure::Statement(error(1, 14), Some(place("SELECT '日本', x", None, 1)));
        let caret = format!("\n  SELECT '日本', x\n{}^", " ".repeat(2 + "SELECT '".len() + 4 + "', ".len()));
        assert!(failure.to_string().contains(&caret), "{failure}");
        for (line, column) in [(1, 4), (1, 900), (0, 0), (7, 1)] {
            let failure = Failure::Statement(error(line, column), Some(place("\tSELECT", None, 1)));
            assert!(failure.to_string().starts_with("error: no column"), "{failure}");
        }
        let long = format!("{}x", " ".repeat(10_000));
        let shown = Failure::Statement(error(1, 10_001), Some(place(&long, None, 1))).to_string();
        assert!(shown.len() < 400 && shown.contains('x'), "{shown}");
    }
}
