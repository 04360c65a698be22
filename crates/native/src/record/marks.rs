//! What records had no place for before, in comments under names that no column has.

/// Of a constraint that older rows may break, with its name behind.
pub(super) const UNPROVEN: &str = "\u{1}unproven ";
/// Of a materialized view with an answer: its query is the comment.
pub(super) const MATERIALIZED: &str = "\u{1}materialized";
/// Of one without an answer.
pub(super) const UNPOPULATED: &str = "\u{1}unpopulated";
/// Of a table's distribution.
pub(super) const DISTRIBUTION: &str = "\u{1}distribution";
/// Of a table that is held against no reference.
pub(super) const REFERENCES_OFF: &str = "\u{1}references off";
/// Of a trigger, with its name behind.
pub(super) const TRIGGER: &str = "\u{1}trigger ";
/// Of what CREATE STATISTICS made, with its name behind.
pub(super) const STATISTICS: &str = "\u{1}statistics ";
/// Of the columns that ON DELETE changes, with the constraint's name behind.
pub(super) const SET_COLUMNS: &str = "\u{1}set ";
/// Of what an index was declared with, with its name behind.
pub(super) const INDEX: &str = "\u{1}index ";

/// Between names in a comment.
pub(super) const BETWEEN: &str = "\u{12}";
