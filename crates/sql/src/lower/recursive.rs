//! Recursive queries, and the work tables that their steps read.

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::work_table::WorkTableExec;
use diligence_base::{Error, Result};
use diligence_engine::plan::{Node, Plan, Recursive, WorkTable, WorkTableId};

use arrow::datatypes::SchemaRef;

use super::Lowering;

/// A recursive query whose step is being lowered.
pub(super) struct Around {
    name: String,
    table: WorkTableId,
    /// The columns of its rows.
    schema: SchemaRef,
}

impl Lowering {
    pub(super) fn recursive(&mut self, query: &RecursiveQueryExec) -> Result<Plan> {
        let schema = query.schema();
        let base = Box::new(self.plan(query.static_term(), false)?);
        let table = WorkTableId(self.work_tables);
        self.work_tables += 1;
        let name = query.name().to_owned();
        self.around.push(Around { name: name.clone(), table, schema: schema.clone() });
        let step = self.plan(query.recursive_term(), false);
        self.around.pop();
        let step = Box::new(step?);
        let is_distinct = query.is_distinct();
        Ok(Plan::new(Node::Recursive(Recursive { name, base, step, table, is_distinct }), schema))
    }

    /// The rows of the innermost recursive query of this name. DataFusion does not tell which columns of them are read,
    /// but columns have one name each.
    pub(super) fn work_table(&self, exec: &WorkTableExec) -> Result<Plan> {
        let unknown = || Error::bug(format!("the work table {} belongs to no recursive query", exec.name()));
        let around = self.around.iter().rev().find(|around| around.name == exec.name()).ok_or_else(unknown)?;
        let schema = WorkTableExec::schema(exec);
        let columns = schema.fields().iter().map(|field| around.schema.index_of(field.name()).map_err(|_| unknown()));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let node = Node::WorkTable(WorkTable { table: around.table, name: around.name.clone(), columns });
        Ok(Plan::new(node, schema))
    }
}
