//! What COMMENT ON may say something of, but for tables and their columns, whose rules have it.

use diligence_base::ids::ObjectId;

use super::Subject;

/// What a comment is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// The database, a schema, a view or its column, a sequence, a function or a type.
    Subject(Subject),
    /// An index of a table.
    Index(ObjectId, String),
    /// A constraint of a table or a domain.
    Constraint(ObjectId, String),
    /// A trigger of a table or a view.
    Trigger(ObjectId, String),
    /// A role.
    Role(String),
}
