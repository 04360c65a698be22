//! Rows that come from outside of a plan while it runs: COPY … FROM STDIN.
//!
//! A short queue is between whoever sends them and the plan, so neither is far ahead of the other. The sender says when
//! the rows have ended: if it goes away before, the plan fails.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion_common::DataFusionError;
use datafusion_common::error::Result as DataFusionResult;
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion_physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, ReplaceChildrenOptions,
};
use diligence_base::Error;
use diligence_engine::plan::{Foreign, Node, Plan};
use diligence_storage::foreign_error::to_datafusion;
use futures::Stream;
use futures::channel::mpsc;
use parking_lot::Mutex;

/// Batches that wait for the plan, beside the one that its sender has.
const BATCHES_WAITING: usize = 1;

/// What is sent.
enum Sent {
    Rows(RecordBatch),
    End,
}

/// Sends rows to a plan.
pub struct RowsSender(mpsc::Sender<Sent>);

impl RowsSender {
    /// Ready when there is room for a batch: true, or false if nobody takes any more. The context's waker is told.
    pub fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        self.0.poll_ready(context).map(|ready| ready.is_ok())
    }

    /// Sends a batch, for which there is room. It is dropped if nobody takes any more.
    pub fn send(&mut self, rows: RecordBatch) {
        let _ = self.0.start_send(Sent::Rows(rows));
    }

    /// Says, where there is room, that all rows were sent.
    pub fn end(&mut self) {
        let _ = self.0.start_send(Sent::End);
    }
}

/// A plan of rows with these columns, and who sends them. The plan runs once.
pub fn incoming(schema: SchemaRef) -> (RowsSender, Plan) {
    let (sender, receiver) = mpsc::channel(BATCHES_WAITING);
    let properties = PlanProperties::new(
        EquivalenceProperties::new(schema.clone()),
        Partitioning::UnknownPartitioning(1),
        EmissionType::Incremental,
        Boundedness::Bounded,
    );
    let receiver = Mutex::new(Some(receiver));
    let operator = Arc::new(IncomingExec { properties: Arc::new(properties), schema: schema.clone(), receiver });
    (RowsSender(sender), Plan::new(Node::Foreign(Foreign { operator, inputs: Vec::new() }), schema))
}

/// Gives the rows in the order in which they come.
struct IncomingExec {
    properties: Arc<PlanProperties>,
    schema: SchemaRef,
    /// Taken by the one run.
    receiver: Mutex<Option<mpsc::Receiver<Sent>>>,
}

impl fmt::Debug for IncomingExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IncomingExec")
    }
}

impl DisplayAs for IncomingExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Incoming")
    }
}

impl ExecutionPlan for IncomingExec {
    fn name(&self) -> &str {
        "Incoming"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DataFusionResult<TreeNodeRecursion>,
    ) -> DataFusionResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn reset_state(self: Arc<Self>) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, _partition: usize, _context: Arc<TaskContext>) -> DataFusionResult<SendableRecordBatchStream> {
        let receiver = self.receiver.lock().take();
        let receiver = receiver.ok_or_else(|| DataFusionError::Internal("incoming rows are read twice".into()))?;
        Ok(Box::pin(IncomingStream { receiver, schema: self.schema.clone(), has_ended: false }))
    }
}

struct IncomingStream {
    receiver: mpsc::Receiver<Sent>,
    schema: SchemaRef,
    has_ended: bool,
}

impl Stream for IncomingStream {
    type Item = DataFusionResult<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        let next = std::task::ready!(Pin::new(&mut self.receiver).poll_next(context));
        self.has_ended = !matches!(next, Some(Sent::Rows(_)));
        Poll::Ready(match next {
            Some(Sent::Rows(rows)) => Some(Ok(rows)),
            Some(Sent::End) => None,
            None => Some(Err(to_datafusion(Error::cancelled()))),
        })
    }
}

impl RecordBatchStream for IncomingStream {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
