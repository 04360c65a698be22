//! What a session keeps of statements: those that were prepared, and those that wait to be fetched.

use arrow::datatypes::{DataType, SchemaRef};
use diligence_db::ParsedStatement;

use super::parameters::Parameters;
use crate::session::commands::Command;

/// The bytes that clients call something by its number.
pub(super) fn handle_of(number: u64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// The number behind such bytes; `None` if they are nobody's.
pub(super) fn number_of(handle: &[u8]) -> Option<u64> {
    handle.try_into().ok().map(u64::from_be_bytes)
}

/// What a statement is to the session.
#[derive(Clone)]
pub(super) enum Kind {
    /// One that the session answers.
    Command(Command),
    /// One for the engine.
    Statement(ParsedStatement),
}

/// A prepared statement.
pub(super) struct Prepared {
    /// As it was sent.
    pub(super) text: String,
    pub(super) kind: Kind,
    /// The types of its parameters.
    pub(super) parameters: Vec<DataType>,
    /// Its columns; `None` for a statement without rows.
    pub(super) schema: Option<SchemaRef>,
    /// The values that were bound to it.
    pub(super) bound: Option<Parameters>,
}

impl Prepared {
    /// The same with these values.
    pub(super) fn with(&self, values: Parameters) -> Self {
        Self {
            text: self.text.clone(),
            kind: self.kind.clone(),
            parameters: self.parameters.clone(),
            schema: self.schema.clone(),
            bound: Some(values),
        }
    }
}

/// A statement whose ticket was given out.
pub(super) struct Offer {
    pub(super) text: String,
    pub(super) what: Offered,
}

/// What comes out of it.
pub(super) enum Offered {
    /// The rows of a statement, run with each row of the values; its columns, if they are known before it is run.
    Rows(Kind, Parameters, Option<SchemaRef>),
    /// Nothing: it is done.
    Done,
}
