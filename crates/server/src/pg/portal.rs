//! Statements that were prepared, and portals: statements with their parameters, which run as far as they are read.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use diligence_db::postgres::field_type;
use diligence_db::{Description, ParsedStatement};

use crate::encoding::columns::{Columns, Rows};
use crate::execution::{CommandDone, RunningStatement};
use crate::session::commands::Command;

/// A prepared statement.
pub(super) struct Prepared {
    /// As it was sent.
    pub(super) text: String,
    pub(super) kind: PreparedKind,
    /// The types of parameters as the client declared them: zeros, or nothing, for those that it left to the statement.
    pub(super) declared: Vec<u32>,
    /// The types of parameters as the client knows them.
    pub(super) parameters: Vec<u32>,
    /// What DECLARE reads, if that has the parameters.
    pub(super) query: Option<Arc<Prepared>>,
}

/// What a statement is to the session.
pub(super) enum PreparedKind {
    /// Nothing but space and comments.
    Empty,
    /// One that the session answers.
    Command(Command),
    /// One for the engine.
    Statement(ParsedStatement, Description),
}

impl Prepared {
    /// The columns that the client was told of, if it was; `None` for a statement without rows, too.
    pub(super) fn described(&self) -> Option<&SchemaRef> {
        match &self.kind {
            PreparedKind::Statement(_, description) => description.schema.as_ref(),
            PreparedKind::Command(_) | PreparedKind::Empty => None,
        }
    }
}

/// Whether two results have the same columns for a client: as many, of the same names and types. What a type has in
/// parentheses may differ: of a decimal it may depend on values, and clients read any.
pub(super) fn same_columns(one: &Schema, other: &Schema) -> bool {
    let alike = |(one, other): (&FieldRef, &FieldRef)| {
        let types = [one, other].map(|field| field_type(field).oid);
        one.name() == other.name() && types[0] == types[1]
    };
    one.fields().len() == other.fields().len() && one.fields().iter().zip(other.fields()).all(alike)
}

/// A statement with its parameters.
pub(super) struct Portal {
    pub(super) statement: Arc<Prepared>,
    pub(super) values: Vec<ArrayRef>,
    pub(super) forms: Vec<i16>,
    pub(super) state: PortalState,
    /// Rows sent so far.
    pub(super) sent: u64,
    /// What a statement with RETURNING has done, when it has given all rows.
    pub(super) written: Option<CommandDone>,
}

/// How far a portal is.
///
/// ```text
/// Bound ── execute ──▶ Running ── last row ──▶ Done
///   ╰──────────── a command ─────────────────────▲
/// ```
pub(super) enum PortalState {
    Bound,
    Running(Box<Reading>),
    Done,
}

/// A query that is read.
pub(super) struct Reading {
    pub(super) running: RunningStatement,
    pub(super) columns: Columns,
    /// Rows that are there, and how many of them were sent.
    pub(super) rows: Option<(Arc<Rows>, usize)>,
}

impl Reading {
    pub(super) fn new(running: RunningStatement, columns: Columns) -> Self {
        Self { running, columns, rows: None }
    }
}
