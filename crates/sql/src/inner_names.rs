//! Names that the planner works with in the place of those that a statement gives twice.
//!
//! DataFusion wants different names in every SELECT. Where a statement has one twice, inner names stand for it: the
//! wanted name, [`MARK`] and a number, or, where only the planner knows the wanted name, [`MARK`], a number, [`MARK`]
//! and the expression's text.

/// Ends the wanted name within an inner name. Nobody types it.
const MARK: char = '\u{1f}';

/// What DataFusion says of names that come twice.
pub(crate) const COMPLAINT: &str = "require unique expression names";

/// An inner name with this number. `text` is the expression, for where no name is wanted.
pub(crate) fn inner(name: Option<&str>, number: usize, text: &str) -> String {
    match name {
        Some(name) => format!("{name}{MARK}{number}"),
        None => format!("{MARK}{number}{MARK}{text}"),
    }
}

/// Whether a name is an inner one.
pub(crate) fn is_inner(name: &str) -> bool {
    name.contains(MARK)
}

/// Whether only the planner knows the name that is wanted in the place of this inner one.
pub(crate) fn is_unnamed(name: &str) -> bool {
    name.starts_with(MARK)
}

/// The wanted part of a name that may be an inner one; the expression's text where no name is wanted.
pub(crate) fn wanted(name: &str) -> &str {
    match name.split_once(MARK) {
        None => name,
        Some(("", rest)) => rest.split_once(MARK).map_or(rest, |(_, text)| text),
        Some((name, _)) => name,
    }
}
