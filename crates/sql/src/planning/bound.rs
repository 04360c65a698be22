//! Statements with everything that they name found: what comes of the syntax tree, and what is planned.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use diligence_storage::Writer;
use diligence_types::SqlType;

use super::Description;
use crate::algebra::Column;
use crate::binder::{self, Bound};
use crate::front;
use crate::statement::Statement;
use crate::write::native::{NativeWriter, Returned};
use crate::written::WrittenRows;

/// A statement with everything that it names found.
pub(super) enum BoundStatement {
    /// Gives rows.
    Query(Bound),
    /// Writes rows.
    Write {
        /// What it is called when it is done.
        tag: &'static str,
        /// The rows.
        rows: Bound,
        /// Where they go.
        writer: Arc<dyn Writer>,
        /// What RETURNING gives when it is done.
        returning: Option<(SchemaRef, Arc<Returned>)>,
        /// The writer, if another run may have one like it. One that calls triggers has them planned for this run.
        again: Option<Arc<NativeWriter>>,
    },
    /// Several that are one: those of its WITH that write, and itself.
    Several(BoundSeveral),
    /// Shows a plan.
    Explain {
        /// What is explained.
        statement: Box<BoundStatement>,
        analyze: bool,
        json: bool,
        verbose: bool,
    },
    /// Anything else, which has no parameters.
    Other(Statement),
}

/// Several statements that are one, with everything that they name found.
pub(super) struct BoundSeveral {
    /// Those of the WITH, in their order.
    pub(super) before: Vec<BoundPart>,
    /// The statement itself.
    pub(super) last: Box<BoundStatement>,
    /// The types of the parameters of all of them.
    pub(super) parameters: Vec<SqlType>,
}

/// A statement of a WITH.
pub(super) struct BoundPart {
    pub(super) name: String,
    pub(super) statement: BoundStatement,
    pub(super) gives: Arc<WrittenRows>,
}

impl BoundStatement {
    /// What it takes and gives.
    pub(super) fn described(self) -> Description {
        match self {
            Self::Query(bound) => Description::new(bound.parameters.clone(), Some(schema_of(&bound))),
            Self::Write { rows, returning, .. } => {
                Description::new(rows.parameters, returning.map(|(schema, _)| schema))
            }
            Self::Several(BoundSeveral { parameters, last, .. }) => {
                Description::new(parameters, last.described().schema)
            }
            Self::Explain { statement, .. } => {
                Description { schema: Some(Statement::plan_schema()), ..statement.described() }
            }
            Self::Other(statement) => {
                let schema = match &statement {
                    Statement::Query(query) => Some(query.schema().clone()),
                    Statement::Explain { .. } => Some(Statement::plan_schema()),
                    Statement::Maintain(maintenance) => maintenance.schema(),
                    Statement::Call(called) => called.schema(),
                    _ => None,
                };
                Description { schema, ..Description::default() }
            }
        }
    }
}

/// The columns of a bound query as results have them.
pub(super) fn schema_of(bound: &Bound) -> SchemaRef {
    let schema = front::with_computed(&schema_of_columns(&bound.columns), &bound.computed);
    let schema = front::with_shown(&schema, &binder::shown_types(&bound.relation, &bound.columns));
    front::with_origins(&schema, &bound.origins)
}

/// The columns that a view or a table has that is made of a query: those of times with their modifiers, those of
/// numerics and texts without what are none.
pub(super) fn declared_schema(bound: &Bound) -> SchemaRef {
    let mut columns = bound.columns.clone();
    let computed = binder::without_modifiers(&bound.relation, &columns);
    binder::add_modifiers(&bound.relation, &mut columns);
    front::with_computed(&schema_of_columns(&columns), &computed)
}

fn schema_of_columns(columns: &[Column]) -> SchemaRef {
    let fields = columns.iter().map(|column| column.sql_type.field(&column.name, true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}
