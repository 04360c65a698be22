//! What ALTER says that it alters: a table, or what is renamed and moved as one.

use diligence_base::{Error, Result};
use diligence_catalog::{Object, Relation};
use sqlparser::ast;

/// What ALTER says that it alters. The parser's tree has it where it has a place for the name of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AlteredKind {
    /// ALTER TABLE, which renames anything.
    Table,
    /// ALTER VIEW.
    View,
    /// ALTER MATERIALIZED VIEW.
    MaterializedView,
    /// ALTER SEQUENCE.
    Sequence,
    /// ALTER TYPE, of the attributes of a composite type.
    Type,
}

impl AlteredKind {
    /// What a statement says.
    pub(super) fn of(alter: &ast::AlterTable) -> Self {
        let kinds = [Self::View, Self::MaterializedView, Self::Sequence, Self::Type];
        let said = alter.on_cluster.as_ref().map(|kind| kind.value.as_str());
        kinds.into_iter().find(|kind| said == Some(kind.word())).unwrap_or(Self::Table)
    }

    /// What it is called.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::View => "view",
            Self::MaterializedView => "materialized view",
            Self::Sequence => "sequence",
            Self::Type => "type",
        }
    }

    /// The statement's tag.
    pub(super) fn tag(self) -> &'static str {
        match self {
            Self::Table => "ALTER TABLE",
            Self::View => "ALTER VIEW",
            Self::MaterializedView => "ALTER MATERIALIZED VIEW",
            Self::Sequence => "ALTER SEQUENCE",
            Self::Type => "ALTER TYPE",
        }
    }

    /// Fails with 42809 if an object is something else.
    pub(super) fn check(self, object: &Object) -> Result<()> {
        let relation = &object.relation;
        let is_it = match self {
            Self::Table => true,
            Self::View => matches!(relation, Relation::View(_)),
            Self::MaterializedView => relation.materialized().is_some(),
            Self::Sequence => matches!(relation, Relation::Sequence(_)),
            Self::Type => relation.is_type(),
        };
        if is_it {
            return Ok(());
        }
        let message = format!("\"{}\" is not a {}", object.name.name, self.word());
        let error = Error::input(message).with_code("42809");
        Err(error.with_hint(format!("it is {}", relation.a_kind())))
    }
}
