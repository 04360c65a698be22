//! A query that is planned.

use arrow::datatypes::SchemaRef;
use diligence_engine::plan::{Needs, Node, Plan, PlanTables};

/// Something that gives rows.
#[derive(Clone, Debug)]
pub struct Query {
    /// What the engine runs.
    pub plan: Plan,
    /// The tables that it names.
    pub tables: PlanTables,
    /// Whether it locks something until its transaction ends.
    pub is_locking: bool,
    /// Whether it calls procedures, which run statements of their own.
    pub is_calling: bool,
}

impl Query {
    /// One that locks nothing and calls no procedure.
    pub fn new(plan: Plan, tables: PlanTables) -> Self {
        Self { plan, tables, is_locking: false, is_calling: false }
    }

    /// What running it is expected to need.
    pub fn needs(&self) -> Needs {
        self.plan.needs(&self.tables)
    }

    /// Whether rows are written.
    pub fn is_writing(&self) -> bool {
        matches!(self.plan.node, Node::Write(_))
    }

    /// The columns that come out.
    pub fn schema(&self) -> &SchemaRef {
        &self.plan.schema
    }
}
