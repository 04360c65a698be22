//! Errors of statements, as a person can act on them: where in the text, what was expected, and the nearest name to one
//! that is unknown.

use std::collections::HashSet;

use diligence_base::{Error, ErrorKind, Span};
use sqlparser::parser::ParserError;

/// Columns of transactions, which rows do not have.
const SYSTEM_COLUMNS: [&str; 4] = ["xmin", "xmax", "cmin", "cmax"];

/// Names listed in a hint at most.
const NAMES_LISTED_MAX: usize = 12;

/// An error of the tokenizer or the parser.
pub fn syntax(error: &ParserError) -> Error {
    match error {
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
        Some(text) => at(Error::input(text).with_code("42601"), Some(end)),
        None if unplaced => error.with_span(end),
        None => error,
    }
}

/// What to use in place of a column that every table of PostgreSQL's has, and none has here.
pub(crate) fn system_column_hint(name: &str) -> Option<&'static str> {
    SYSTEM_COLUMNS.contains(&name.to_lowercase().as_str()).then_some(
        "rows have no numbers of transactions here: compare a column of your own that each change sets, \
         or ctid, which each update changes",
    )
}

/// The error with the nearest known name as its hint, or the known names if there are few.
pub fn suggest(error: Error, name: &str, known: &[String]) -> Error {
    let mut met = HashSet::new();
    // Names that no statement can write are not for people.
    let known = known.iter().filter(|name| !name.starts_with('\u{1}') && met.insert(name.as_str()));
    let known = known.cloned().collect::<Vec<_>>();
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
