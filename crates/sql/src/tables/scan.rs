//! The scan of a table of ours in DataFusion's physical plan.
//!
//! Lowering turns it into the engine's own scan, wherever it is: DataFusion never runs it.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, internal_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, conjunction};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, ReplaceChildrenOptions, StatisticsArgs,
};
use diligence_storage::Table;

/// A scan of a table: which columns, under which conditions.
pub struct TableScanExec {
    /// The name in the statement.
    pub name: String,
    /// What is read.
    pub table: Arc<dyn Table>,
    /// Positions in the table's schema, in output order.
    pub columns: Vec<usize>,
    /// Conditions over the *table's* schema, all of which every row fulfils.
    pub filters: Vec<Arc<dyn PhysicalExpr>>,
    /// Rows wanted at most, by whoever is above. A hint: more may come.
    pub limit: Option<usize>,
    /// Of the rows that come out.
    statistics: Arc<Statistics>,
    properties: Arc<PlanProperties>,
}

impl TableScanExec {
    /// A scan. `statistics` is over all columns of the table, after the filters.
    pub fn new(
        name: String,
        table: Arc<dyn Table>,
        columns: Vec<usize>,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        limit: Option<usize>,
        statistics: Statistics,
    ) -> Result<Self> {
        let schema = Arc::new(table.schema().project(&columns)?);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        let statistics = Arc::new(statistics.project(Some(&columns)));
        Ok(Self { name, table, columns, filters, limit, statistics, properties: Arc::new(properties) })
    }

    /// The filters as one condition over the table's schema; `None` without any.
    pub fn predicate(&self) -> Option<Arc<dyn PhysicalExpr>> {
        (!self.filters.is_empty()).then(|| conjunction(self.filters.iter().cloned()))
    }
}

impl fmt::Debug for TableScanExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TableScanExec({}, columns {:?}, {} filters)", self.name, self.columns, self.filters.len())
    }
}

impl DisplayAs for TableScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TableScanExec: {}", self.name)?;
        match self.predicate() {
            Some(predicate) => write!(f, " where {predicate}"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for TableScanExec {
    fn name(&self) -> &str {
        "TableScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for filter in &self.filters {
            if f(filter)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("a table scan has no inputs") }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("a table scan has no inputs") }
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(self.statistics.clone())
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        internal_err!("a table scan was left to DataFusion")
    }
}
