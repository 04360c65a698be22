//! A table of ours under DataFusion's table interface.
//!
//! A provider is one state of a table: it is made when a statement is planned and thrown away with it. It promises
//! DataFusion to apply every filter row by row (`Exact`), so that no filter is left above a scan; [`TableScanExec`]
//! keeps the promise.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Statistics};
use datafusion::error::Result;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::create_physical_expr;
use datafusion::physical_plan::ExecutionPlan;
use diligence_catalog::{FileRelation, MemoryRelation, ObjectRef};
use diligence_storage::Table;

use super::scan::TableScanExec;
use super::selectivity::selectivity;

/// A table in one state of its content, under its name in the statement.
#[derive(Debug)]
pub struct StoredTable {
    name: String,
    table: Arc<dyn Table>,
    defaults: HashMap<String, Expr>,
    temporary: bool,
    /// Where INSERT goes, if the table can be written to.
    memory: Option<(ObjectRef, Arc<MemoryRelation>)>,
    /// The files that the table is, if INSERT adds to them.
    files: Option<Arc<FileRelation>>,
}

impl StoredTable {
    /// The table under a name, for EXPLAIN and errors.
    pub fn new(name: impl Into<String>, table: Arc<dyn Table>) -> Self {
        Self { name: name.into(), table, defaults: HashMap::new(), temporary: false, memory: None, files: None }
    }

    /// A table in memory in one version.
    pub fn of_memory(name: impl Into<String>, object: ObjectRef, memory: Arc<MemoryRelation>) -> Self {
        let mut stored = Self::new(name, memory.table());
        stored.memory = Some((object, memory));
        stored
    }

    /// The present state of files. Fails as opening them does.
    pub fn of_files(name: impl Into<String>, files: Arc<FileRelation>) -> diligence_base::Result<Self> {
        let mut stored = Self::new(name, files.table()?);
        stored.files = Some(files);
        Ok(stored)
    }

    /// The same with values for columns that an INSERT leaves out.
    pub fn with_defaults(mut self, defaults: HashMap<String, Expr>) -> Self {
        self.defaults = defaults;
        self
    }

    /// The same, shown as temporary: it exists for this statement only.
    pub fn temporary(mut self) -> Self {
        self.temporary = true;
        self
    }

    /// Where INSERT goes, if the table can be written to.
    pub fn memory(&self) -> Option<ObjectRef> {
        self.memory.as_ref().map(|(object, _)| object.clone())
    }

    /// The files that the table is, if INSERT adds to them.
    pub fn files(&self) -> Option<&Arc<FileRelation>> {
        self.files.as_ref()
    }

    /// The table.
    pub fn table(&self) -> &Arc<dyn Table> {
        &self.table
    }
}

#[async_trait]
impl TableProvider for StoredTable {
    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn table_type(&self) -> TableType {
        if self.temporary { TableType::Temporary } else { TableType::Base }
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.defaults.get(column)
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = self.table.schema();
        let columns = projection.cloned().unwrap_or_else(|| (0..schema.fields().len()).collect());
        let conjuncts = filters.iter().flat_map(split_conjunction).collect::<Vec<_>>();
        let statistics = estimate(self.table.statistics(), &schema, &conjuncts);
        let table_schema = DFSchema::try_from(schema.as_ref().clone())?;
        let filters = conjuncts
            .into_iter()
            .map(|filter| {
                let props = session.execution_props();
                create_physical_expr(filter, &table_schema, props, &PhysicalPlanningContext::default())
            })
            .collect::<Result<Vec<_>>>()?;
        let scan = TableScanExec::new(self.name.clone(), self.table.clone(), columns, filters, limit, statistics)?;
        Ok(Arc::new(scan))
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        filters
            .iter()
            .map(|filter| {
                let exact = is_row_condition(filter)?;
                Ok(if exact { TableProviderFilterPushDown::Exact } else { TableProviderFilterPushDown::Unsupported })
            })
            .collect()
    }

    fn statistics(&self) -> Option<Statistics> {
        Some(self.table.statistics())
    }
}

/// True if a condition can be decided row by row from the table's columns alone, always with the same answer. One that
/// looks at no column is not about rows.
fn is_row_condition(filter: &Expr) -> Result<bool> {
    if filter.is_volatile() {
        return Ok(false);
    }
    let mut decidable = true;
    let mut columns = false;
    filter.apply(|expr| {
        columns |= matches!(expr, Expr::Column(_));
        let foreign = matches!(
            expr,
            Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
                | Expr::OuterReferenceColumn(..)
        );
        if foreign {
            decidable = false;
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(decidable && columns)
}

/// The table's statistics after the filters: exact without any, estimates otherwise.
fn estimate(statistics: Statistics, schema: &Schema, conjuncts: &[&Expr]) -> Statistics {
    if conjuncts.is_empty() {
        return statistics;
    }
    let kept = selectivity(conjuncts, schema, &statistics);
    let scale = |count: Precision<usize>| match count {
        Precision::Exact(count) | Precision::Inexact(count) => {
            Precision::Inexact(((count as f64 * kept).ceil() as usize).max(usize::from(count > 0)))
        }
        Precision::Absent => Precision::Absent,
    };
    let num_rows = scale(statistics.num_rows);
    Statistics {
        num_rows,
        total_byte_size: scale(statistics.total_byte_size),
        column_statistics: statistics
            .column_statistics
            .into_iter()
            .map(|column| {
                let mut column = column.to_inexact();
                column.null_count = Precision::Absent;
                column.byte_size = Precision::Absent;
                column.sum_value = Precision::Absent;
                if let (Precision::Inexact(distinct), Precision::Inexact(rows)) = (column.distinct_count, num_rows) {
                    column.distinct_count = Precision::Inexact(distinct.min(rows));
                }
                column
            })
            .collect(),
    }
}
