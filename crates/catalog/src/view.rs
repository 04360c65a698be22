//! A query with a name.
//!
//! A view keeps its statement, not its plan: every use plans it again, so that it follows its tables when they change
//! or are made anew, and says so when they are gone.

use arrow::datatypes::SchemaRef;
use sqlparser::ast::Statement;

/// A query with a name.
#[derive(Debug)]
pub struct View {
    /// The `CREATE VIEW` statement.
    pub statement: Statement,
    /// How deep that statement nests in levels of the parser.
    pub depth: usize,
    /// Its columns when it was made.
    pub schema: SchemaRef,
}

impl View {
    /// The text of the statement that made it.
    pub fn definition(&self) -> String {
        self.statement.to_string()
    }
}
