//! The scan of a table of ours in DataFusion's physical plan.
//!
//! Lowering turns it into the engine's own scan. It can also run by itself, for the rare trees that stay inside a foreign
//! operator as a whole (a recursive query reads its tables once per iteration): then it reads cluster after cluster in order.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Statistics, internal_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, conjunction};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, ReplaceChildrenOptions, StatisticsArgs,
};
use diligence_storage::foreign_error::{from_arrow, from_datafusion, to_datafusion};
use diligence_storage::{Cluster, Decode, DecodeRequest, Fetch, Fetched, RowFilter, ScanRequest, Table};
use futures::stream;

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

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("a table scan has one partition, not {partition}");
        }
        let schema = self.schema();
        let request = ScanRequest { columns: self.columns.clone(), predicate: self.predicate() };
        let filters = self
            .filters
            .iter()
            .map(|filter| Ok(Arc::new(PredicateFilter::new(filter, &self.table.schema())?) as Arc<dyn RowFilter>))
            .collect::<Result<Vec<_>>>()?;
        let mut fetched_columns = self.columns.clone();
        fetched_columns.extend(filters.iter().flat_map(|filter| filter.columns()));
        fetched_columns.sort_unstable();
        fetched_columns.dedup();
        let reader = Reader {
            schema: schema.clone(),
            fetched_columns,
            decode_request: DecodeRequest {
                columns: self.columns.clone(),
                filters,
                batch_rows: context.session_config().batch_size(),
                narrow: false,
            },
            clusters: None,
            decode: None,
        };
        let table = self.table.clone();
        let rows = stream::try_unfold((reader, table, request), |(mut reader, table, request)| async move {
            let batch = reader.next(table.as_ref(), &request).await.map_err(to_datafusion)?;
            Ok(batch.map(|batch| (batch, (reader, table, request))))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

/// Reads cluster after cluster.
struct Reader {
    schema: SchemaRef,
    fetched_columns: Vec<usize>,
    decode_request: DecodeRequest,
    clusters: Option<std::vec::IntoIter<Arc<dyn Cluster>>>,
    decode: Option<Box<dyn Decode>>,
}

impl Reader {
    async fn next(&mut self, table: &dyn Table, request: &ScanRequest) -> diligence_base::Result<Option<RecordBatch>> {
        loop {
            if let Some(decode) = &mut self.decode {
                if let Some(chunk) = decode.next()? {
                    let options = RecordBatchOptions::new().with_row_count(Some(chunk.rows));
                    let batch = RecordBatch::try_new_with_options(self.schema.clone(), chunk.columns, &options);
                    return Ok(Some(batch.map_err(from_arrow)?));
                }
                self.decode = None;
            }
            if self.clusters.is_none() {
                self.clusters = Some(table.scan(request)?.clusters.into_iter());
            }
            let Some(cluster) = self.clusters.as_mut().and_then(Iterator::next) else { return Ok(None) };
            let fetched = fetch(cluster.fetch(&self.fetched_columns)).await?;
            self.decode = Some(cluster.decode(fetched, &self.decode_request)?);
        }
    }
}

/// Runs a fetch: on the I/O threads if a runtime was entered, here otherwise.
async fn fetch(fetch: Fetch) -> diligence_base::Result<Fetched> {
    match (fetch, tokio::runtime::Handle::try_current()) {
        (Fetch::Ready(fetched), _) => Ok(fetched),
        (Fetch::Blocking(read), Ok(handle)) => match handle.spawn_blocking(read).await {
            Ok(fetched) => fetched,
            Err(error) if error.is_cancelled() => Err(diligence_base::Error::cancelled()),
            Err(_) => Err(diligence_base::Error::bug("reading a cluster panicked")),
        },
        (Fetch::Blocking(read), Err(_)) => read(),
        (Fetch::Waiting(read), _) => read.await,
    }
}

/// A condition over a table's schema as a decoder applies it.
struct PredicateFilter {
    columns: Vec<usize>,
    /// The condition over just those columns, and their schema.
    dense: Arc<dyn PhysicalExpr>,
    schema: SchemaRef,
}

impl PredicateFilter {
    fn new(predicate: &Arc<dyn PhysicalExpr>, table: &Schema) -> Result<Self> {
        let mut columns = collect_columns(predicate).iter().map(Column::index).collect::<Vec<_>>();
        columns.sort_unstable();
        columns.dedup();
        let dense = predicate
            .clone()
            .transform(|node| {
                let Some(column) = node.downcast_ref::<Column>() else { return Ok(Transformed::no(node)) };
                let index = columns.partition_point(|&other| other < column.index());
                Ok(Transformed::yes(Arc::new(Column::new(column.name(), index)) as Arc<dyn PhysicalExpr>))
            })?
            .data;
        let schema = Arc::new(table.project(&columns)?);
        Ok(Self { columns, dense, schema })
    }
}

impl RowFilter for PredicateFilter {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn keep(&self, columns: &[ArrayRef]) -> diligence_base::Result<BooleanArray> {
        // A condition without columns never gets here: DataFusion folds it away before it reaches a scan.
        let rows = columns.first().map_or(0, |column| column.len());
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns.to_vec(), &options);
        let mask = self.dense.evaluate(&batch.map_err(from_arrow)?).map_err(from_datafusion)?;
        let mask = mask.into_array(rows).map_err(from_datafusion)?;
        mask.as_boolean_opt()
            .cloned()
            .ok_or_else(|| diligence_base::Error::bug(format!("a condition has type {}", mask.data_type())))
    }
}
