//! DataFusion's errors while planning, as a person can act on them: where in the statement, what was expected, and the
//! nearest name to one that is unknown.
//!
//! Rule names and other signs of how the planner works inside are left out; only a bug keeps them.

use std::collections::HashSet;
use std::fmt;

use datafusion::common::{Column, DataFusionError, Diagnostic, SchemaError};
use datafusion::sql::sqlparser::parser::ParserError;
use diligence_base::{Error, ErrorKind, Span};
use diligence_storage::foreign_error::from_datafusion;

use crate::inner_names::{COMPLAINT, wanted};
use crate::messages::told;

/// Names listed in a hint at most.
const NAMES_LISTED_MAX: usize = 12;

/// What the session knows, to find the name that was meant.
pub trait KnownNames {
    /// Tables and views, as a user would write them.
    fn relations(&self) -> Vec<String>;
    /// Functions of every kind.
    fn functions(&self) -> Vec<String>;
    /// The columns of a table by its alias anywhere in the statement: empty if they are not known, `None` if there is
    /// no such alias.
    fn columns(&self, _alias: &str) -> Option<Vec<String>> {
        None
    }
    /// What else has the name of a table that is not known: a file, or a folder that is no table. The message and the
    /// hint.
    fn instead_of(&self, _name: &str) -> Option<(String, String)> {
        None
    }
}

/// A name in FROM that stands for nothing. Made in the middle of DataFusion's planner, often to be thrown away (it also
/// asks for the names of common table expressions), so it is cheap; [`planning`] makes an error of it.
#[derive(Debug)]
pub(crate) struct UnknownRelation {
    /// The name as resolved, for the message.
    pub name: String,
    /// The schema, if that is what is unknown.
    pub schema: Option<String>,
}

impl fmt::Display for UnknownRelation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no table is named '{}'", self.name)
    }
}

impl std::error::Error for UnknownRelation {}

/// An error of the tokenizer or the parser.
pub fn syntax(error: DataFusionError) -> Error {
    let root = error.find_root();
    let DataFusionError::SQL(parser_error, _) = root else { return from_datafusion(error) };
    match parser_error.as_ref() {
        ParserError::RecursionLimitExceeded => Error::input("the statement nests too deep").with_code("54001"),
        ParserError::ParserError(message) | ParserError::TokenizerError(message) => {
            parser_message(message).with_code("42601")
        }
    }
}

/// The same error with its place, where one is known.
pub fn at(error: Error, place: Option<Span>) -> Error {
    match place {
        Some(place) => error.with_span(place),
        None => error,
    }
}

/// The same error about a statement that ends at `end`: the parser says that it found its last word, or nothing of
/// where it was.
pub(crate) fn at_end(error: Error, end: Span) -> Error {
    let beyond = error.span().is_some_and(|place| (place.line, place.column) >= (end.line, end.column));
    let expected = match error.message().split_once(", found ").or_else(|| error.message().split_once(" found ")) {
        Some((expected, _)) if beyond => Some(format!("{expected}, found the end of the statement")),
        _ => None,
    };
    let unplaced = error.span().is_none() && error.message().ends_with("the end of the statement");
    match expected {
        Some(text) => at(Error::input(text), Some(end)),
        None if unplaced => error.with_span(end),
        None => error,
    }
}

/// An error of the planner.
pub fn planning(error: DataFusionError, known: &dyn KnownNames) -> Error {
    let diagnostic = error.diagnostic().cloned();
    let place = diagnostic.as_ref().and_then(|diagnostic| diagnostic.span).map(place_of);
    let planned = match inner(&error) {
        DataFusionError::SchemaError(schema_error, _) => {
            let code = match schema_error.as_ref() {
                SchemaError::FieldNotFound { .. } => "42703",
                SchemaError::AmbiguousReference { .. } => "42702",
                SchemaError::DuplicateQualifiedField { .. } | SchemaError::DuplicateUnqualifiedField { .. } => "42701",
            };
            unknown_or_ambiguous(schema_error, known).with_code(code)
        }
        DataFusionError::SQL(..) => return at(syntax(error), place),
        DataFusionError::External(external) => match external.downcast_ref::<UnknownRelation>() {
            Some(unknown) => {
                let code = if unknown.schema.is_some() { "3F000" } else { "42P01" };
                unknown_relation(unknown, known).with_code(code)
            }
            None => from_datafusion(error),
        },
        DataFusionError::Plan(message) => from_message(message, diagnostic.as_ref(), known),
        DataFusionError::NotImplemented(message)
        | DataFusionError::Internal(message)
        | DataFusionError::Configuration(message)
        | DataFusionError::Execution(message) => told(message).unwrap_or_else(|| from_datafusion(error)),
        _ => from_datafusion(error),
    };
    let planned = tidy(planned);
    if planned.span().is_none() { at(planned, place) } else { planned }
}

/// The error inside wrappers that only add what they were doing.
fn inner(error: &DataFusionError) -> &DataFusionError {
    match error {
        DataFusionError::Context(_, error) | DataFusionError::Diagnostic(_, error) => inner(error),
        DataFusionError::Shared(error) => inner(error),
        DataFusionError::Collection(errors) => errors.first().map_or(error, inner),
        other => other,
    }
}

fn place_of(span: datafusion::common::Span) -> Span {
    Span { line: span.start.line, column: span.start.column }
}

fn from_message(message: &str, diagnostic: Option<&Diagnostic>, known: &dyn KnownNames) -> Error {
    // "Invalid function 'foo'.\nDid you mean 'bar'?"
    if let Some(name) = message.strip_prefix("Invalid function '").and_then(|rest| rest.split('\'').next()) {
        let functions = known.functions();
        if functions.contains(&name.to_lowercase()) {
            let error = Error::input(format!("{name}() is a window function: it needs OVER (…) behind it"));
            return error.with_hint(format!("for example {name}() OVER (ORDER BY …)"));
        }
        let error = Error::input(format!("no function is named '{name}'")).with_code("42883");
        return suggest(error, name, &functions);
    }
    if let Some(name) = message.strip_prefix("table function '").and_then(|rest| rest.split('\'').next()) {
        return Error::input(format!("no table function is named '{name}'")).with_code("42883");
    }
    // "Projections require unique expression names but the expression "a" at position 0 and …"
    if let Some((_, rest)) = message.split_once(COMPLAINT) {
        let name = rest.split('"').nth(1).unwrap_or_default();
        return Error::input(format!("the column '{}' appears twice", wanted(name)))
            .with_hint("give one of them another name with AS");
    }
    if let Some(error) = told(message) {
        return error;
    }
    let error = Error::input(message);
    let help = diagnostic.and_then(|diagnostic| diagnostic.helps.first()).map(|help| help.message.clone());
    match help {
        Some(help) => error.with_hint(help),
        None => error,
    }
}

fn unknown_relation(unknown: &UnknownRelation, known: &dyn KnownNames) -> Error {
    if let Some(schema) = &unknown.schema {
        let error = Error::input(format!("no schema is named '{schema}'"));
        // `FROM lineitem.parquet` without quotes reads as a table of a schema.
        return if diligence_catalog::looks_like_path(&unknown.name) {
            error.with_hint(format!("to read a file, put its name in quotes: '{}'", unknown.name))
        } else {
            error
        };
    }
    if let Some((message, hint)) = known.instead_of(&unknown.name) {
        return Error::input(message).with_hint(hint);
    }
    let relations = known.relations();
    let error = Error::input(unknown.to_string());
    if relations.is_empty() {
        return error.with_hint("there are no tables yet: open a folder with --data, or use CREATE TABLE");
    }
    suggest(error, &unknown.name, &relations)
}

fn unknown_or_ambiguous(error: &SchemaError, known: &dyn KnownNames) -> Error {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => unknown_column(field, valid_fields, known),
        SchemaError::AmbiguousReference { field } if field.relation.is_some() => {
            Error::input(format!("the column '{}' is ambiguous: the table has two of this name", field.flat_name()))
                .with_hint("give one of them another name with AS")
        }
        SchemaError::AmbiguousReference { field } => {
            Error::input(format!("the column '{}' is ambiguous: it is in more than one table", field.flat_name()))
                .with_hint(format!("write which one is meant: table.{}", field.name()))
        }
        SchemaError::DuplicateQualifiedField { qualifier, name } => {
            Error::input(format!("the column '{qualifier}.{name}' appears twice"))
                .with_hint("give one of them another name with AS")
        }
        SchemaError::DuplicateUnqualifiedField { name } => Error::input(format!("the column '{name}' appears twice"))
            .with_hint("give one of them another name with AS"),
    }
}

fn unknown_column(field: &Column, valid: &[Column], known: &dyn KnownNames) -> Error {
    if let Some(relation) = &field.relation
        && !valid.iter().any(|column| column.relation.as_ref() == Some(relation))
    {
        // The valid ones are those of the innermost query; the alias may belong to one around it.
        if let Some(columns) = known.columns(relation.table()).filter(|columns| !columns.contains(&field.name)) {
            let error = Error::input(format!("no column is named '{}'", field.flat_name()));
            return suggest(error, field.name(), &columns);
        }
        let error = Error::input(format!("no table or alias is named '{relation}' here"));
        let mut relations = valid
            .iter()
            .filter_map(|column| column.relation.as_ref())
            .map(|name| name.table().to_owned())
            .filter(|name| !is_internal(name))
            .collect::<Vec<_>>();
        relations.sort();
        relations.dedup();
        return suggest(error, relation.table(), &relations);
    }
    let error = Error::input(format!("no column is named '{}'", field.flat_name()));
    if let Some(other_case) = valid.iter().find(|column| column.name().eq_ignore_ascii_case(field.name())) {
        return error.with_hint(format!(
            "did you mean \"{}\"? Names without double quotes are read as lower case",
            other_case.name()
        ));
    }
    let names = valid
        .iter()
        .filter(|column| field.relation.is_none() || column.relation == field.relation)
        .filter(|column| !column.relation.as_ref().is_some_and(|relation| is_internal(relation.table())))
        .map(|column| column.name().to_owned())
        .filter(|name| !is_internal(name))
        .collect::<Vec<_>>();
    suggest(error, field.name(), &names)
}

/// True for a name that the planner made up.
fn is_internal(name: &str) -> bool {
    name.starts_with("__")
}

/// The error with the nearest known name as its hint, or the known names if there are few.
pub fn suggest(error: Error, name: &str, known: &[String]) -> Error {
    let mut met = HashSet::new();
    let known = known.iter().filter(|name| met.insert(name.as_str())).cloned().collect::<Vec<_>>();
    let known = known.as_slice();
    if let Some(nearest) = nearest(name, known) {
        return error.with_hint(format!("did you mean '{nearest}'?"));
    }
    match known.len() {
        0 => error,
        1..=NAMES_LISTED_MAX => error.with_hint(format!("there are: {}", known.join(", "))),
        _ => error,
    }
}

/// The known name that a mistyped one most likely stands for.
pub fn nearest<'a>(name: &str, known: &'a [String]) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let (distance, nearest) = known
        .iter()
        .map(|candidate| (strsim::damerau_levenshtein(&lower, &candidate.to_lowercase()), candidate.as_str()))
        .min_by_key(|(distance, candidate)| (*distance, candidate.len().abs_diff(name.len())))?;
    // One slip in three letters is a slip (in two, one); more is another word, unless it is the beginning of the name.
    let letters = lower.chars().count();
    let beginning = letters >= 3 && nearest.to_lowercase().starts_with(&lower);
    (letters >= 2 && distance * 3 <= letters.max(3) || beginning).then_some(nearest)
}

/// "Expected: an expression, found: FROM at Line: 1, Column: 8".
fn parser_message(message: &str) -> Error {
    let (text, place) = match message.rfind(" at Line: ") {
        Some(cut) => (&message[..cut], read_place(&message[cut..])),
        None => (message, None),
    };
    let text = text.trim().trim_end_matches('.');
    let text = match text.strip_prefix("Expected: ") {
        Some(rest) => {
            let rest = rest.replacen(", found: ", ", found ", 1);
            let rest = match rest.strip_suffix("found EOF") {
                Some(rest) => format!("{rest}found the end of the statement"),
                None => rest,
            };
            format!("expected {rest}")
        }
        None => text.to_owned(),
    };
    at(Error::input(text), place)
}

fn read_place(text: &str) -> Option<Span> {
    let (line, column) = text.trim().strip_prefix("at Line: ")?.split_once(", Column: ")?;
    let column = column.split(|character: char| !character.is_ascii_digit()).next()?;
    Some(Span { line: line.trim().parse().ok()?, column: column.parse().ok()? })
}

/// One sentence without a full stop, without backtraces and without DataFusion's request for a report to itself.
fn tidy(error: Error) -> Error {
    let message = error.message();
    let cut = message.split(DataFusionError::BACK_TRACE_SEP).next().unwrap_or(message);
    let cut = cut.split(".\nThis issue was likely caused by a bug in DataFusion").next().unwrap_or(cut);
    let cut = cut.trim().trim_end_matches('.');
    if cut == message {
        return error;
    }
    let mut tidied = Error::new(error.kind(), cut);
    if let Some(hint) = error.hint() {
        tidied = tidied.with_hint(hint);
    }
    at(tidied, error.span())
}

/// A panic while planning, as an error: a bug, but only of this one statement.
pub(crate) fn panicked(payload: Box<dyn std::any::Any + Send>) -> Error {
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    Error::new(ErrorKind::Bug, format!("planning the statement panicked: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parser_message_gives_its_place() {
        let error = parser_message("Expected: an expression, found: FROM at Line: 2, Column: 8");
        assert_eq!(error.message(), "expected an expression, found FROM");
        assert_eq!(error.span(), Some(Span { line: 2, column: 8 }));
        let error = parser_message("Expected: identifier, found: EOF");
        assert_eq!(error.message(), "expected identifier, found the end of the statement");
    }

    #[test]
    fn what_ends_too_early_is_shown_at_its_end() {
        let end = Span { line: 1, column: 24 };
        let error = parser_message("Expected: ), found: 1 at Line: 1, Column: 24");
        let error = at_end(error, end);
        assert_eq!(error.message(), "expected ), found the end of the statement");
        let error = at_end(parser_message("Expected: an expression, found: EOF"), end);
        assert_eq!(
            (error.message(), error.span()),
            ("expected an expression, found the end of the statement", Some(end))
        );
        let error = at_end(parser_message("Expected: ), found: x at Line: 1, Column: 8"), end);
        assert_eq!(error.message(), "expected ), found x");
    }

    #[test]
    fn hints_name_each_name_once() {
        let known = ["n_name", "n_key", "n_name"].map(String::from);
        assert_eq!(suggest(Error::input("x"), "zzzz", &known).hint(), Some("there are: n_name, n_key"));
    }

    #[test]
    fn the_nearest_name_is_one_slip_away_or_begins_alike() {
        let known = ["lineitem", "orders", "customer"].map(String::from);
        assert_eq!(nearest("lineitm", &known), Some("lineitem"));
        assert_eq!(nearest("Order", &known), Some("orders"));
        assert_eq!(nearest("cust", &known), Some("customer"));
        assert_eq!(nearest("supplier", &known), None);
    }
}
