//! Rows that are known already: VALUES lists, DESCRIBE, FROM-less SELECTs.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::Schema;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::{DataSource, DataSourceExec};
use datafusion::physical_plan::ExecutionPlan;
use diligence_base::Result;
use diligence_engine::plan::{Node, Plan};
use diligence_storage::foreign_error::from_arrow;

use super::limit;

/// Where the rows are.
pub(super) enum Rows<'a> {
    /// There are none.
    None,
    /// One row, NULL in every column.
    OneOfNulls,
    /// In a list of batches.
    Memory(&'a MemorySourceConfig),
}

impl<'a> Rows<'a> {
    pub(super) fn of_memory_source(exec: &'a dyn ExecutionPlan) -> Option<Self> {
        exec.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<MemorySourceConfig>().map(Rows::Memory)
    }
}

pub(super) fn values(exec: &Arc<dyn ExecutionPlan>, rows: Rows<'_>) -> Result<Plan> {
    let schema = exec.schema();
    let mut fetch = None;
    let batches = match rows {
        Rows::None => vec![],
        Rows::OneOfNulls => {
            // The columns may be declared not nullable: nobody reads them.
            let fields = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
            let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
            let columns: Vec<ArrayRef> =
                schema.fields().iter().map(|field| new_null_array(field.data_type(), 1)).collect();
            let options = RecordBatchOptions::new().with_row_count(Some(1));
            vec![RecordBatch::try_new_with_options(schema, columns, &options).map_err(from_arrow)?]
        }
        Rows::Memory(source) => {
            fetch = source.fetch();
            let batches = source.partitions().iter().flatten().filter(|batch| batch.num_rows() > 0);
            let batches = batches.map(|batch| match source.projection() {
                Some(columns) => batch.project(columns).map_err(from_arrow),
                None => Ok(batch.clone()),
            });
            batches.collect::<Result<Vec<_>>>()?
        }
    };
    let known = batches.iter().map(RecordBatch::num_rows).sum();
    let mut plan = Plan::new(Node::Values { batches }, schema);
    plan.rows_estimate = Some(known);
    match fetch {
        Some(fetch) if fetch < known => Ok(limit::limit_node(plan, 0, Some(fetch))),
        _ => Ok(plan),
    }
}
