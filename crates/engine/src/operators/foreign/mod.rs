//! DataFusion operators that we do not have natively, fed by our pipelines.
//!
//! A foreign operator is a DataFusion `ExecutionPlan` whose leaves are [`InputExec`]s, each standing for one of our
//! plans. For every run the leaves are bound to ports; one packet polls the operator's stream, waiting like any other
//! packet when an input has nothing yet.
//!
//! **Memory.** What an operator reserves at DataFusion's memory pool counts as its query's (`pool`). The operators that
//! lowering leaves to DataFusion keep no rows beside that: UNNEST takes one batch apart, of so few rows that the result
//! is about a batch again, in rows and in bytes ([`pieces`]); table functions make a batch at a time; and writers of
//! files reserve what they collect.

mod pieces;
mod pool;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{DataFusionError, Result as DataFusionResult};
use datafusion_execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_plan::execution_plan::{ReplaceChildrenOptions, reset_plan_states};
use datafusion_physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use diligence_base::{Error, ErrorKind, Result};
use diligence_memory::{MORE_MEMORY_HINT, Reservation};
use diligence_storage::foreign_error::{from_datafusion, to_datafusion};
use futures::{Stream, StreamExt};

pub use pool::ForeignPool;

use crate::batch::Batch;
use crate::exchange::port::Receiver;
use crate::flow::{Pull, Setup, Source, SourceState};
use crate::sync::Mutex;

/// Stands in a foreign operator's tree for one of our plans.
pub struct InputExec {
    index: usize,
    properties: Arc<PlanProperties>,
    schema: SchemaRef,
    /// The stream of the run that this leaf is bound to; taken by the one call of `execute`.
    stream: Mutex<Option<SendableRecordBatchStream>>,
}

impl InputExec {
    /// The leaf for input `index`, with the properties (schema, order, statistics) of the plan that it stands for.
    pub fn new(index: usize, properties: Arc<PlanProperties>) -> Self {
        let schema = properties.eq_properties.schema().clone();
        Self { index, properties, schema, stream: Mutex::new(None) }
    }

    /// Which input it stands for.
    pub fn index(&self) -> usize {
        self.index
    }

    fn bound(&self, stream: SendableRecordBatchStream) -> Self {
        Self {
            index: self.index,
            properties: self.properties.clone(),
            schema: self.schema.clone(),
            stream: Mutex::new(Some(stream)),
        }
    }
}

impl fmt::Debug for InputExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InputExec({})", self.index)
    }
}

impl DisplayAs for InputExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Input {}", self.index)
    }
}

impl ExecutionPlan for InputExec {
    fn name(&self) -> &str {
        "Input"
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
        self.stream.lock().take().ok_or_else(|| {
            DataFusionError::Internal("an input of a foreign operator was executed twice or without being bound".into())
        })
    }
}

/// The rows behind a port, as a DataFusion stream.
struct PortStream {
    receiver: Receiver,
    schema: SchemaRef,
    /// Rows and bytes in a batch at most.
    batch_rows: usize,
    batch_bytes: usize,
    /// A batch, and how many of its rows have gone on.
    batch: Option<(RecordBatch, usize)>,
}

impl Stream for PortStream {
    type Item = DataFusionResult<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let (batch, first) = match self.batch.take() {
            Some(rest) => rest,
            None => match std::task::ready!(self.receiver.receive(context.waker())) {
                Some(batch) => {
                    let batch = batch.and_then(|batch| batch.to_record_batch(&self.schema));
                    (batch.map_err(to_datafusion)?, 0)
                }
                None => return Poll::Ready(None),
            },
        };
        let rows = pieces::rows_within(&batch, first, pieces::elements_max(&batch, self.batch_rows, self.batch_bytes));
        let piece = batch.slice(first, rows);
        self.batch = (first + rows < batch.num_rows()).then_some((batch, first + rows));
        Poll::Ready(Some(Ok(piece)))
    }
}

impl RecordBatchStream for PortStream {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// A foreign operator in one run.
pub struct ForeignSource {
    stream: Mutex<Option<SendableRecordBatchStream>>,
}

impl ForeignSource {
    /// Binds the operator's leaves to these ports, by input index, whose batches have so many rows and bytes at most,
    /// and starts its stream. DataFusion starts work at the first poll.
    pub fn new(
        operator: &Arc<dyn ExecutionPlan>,
        inputs: Vec<Receiver>,
        task: &Arc<TaskContext>,
        (batch_rows, batch_bytes): (usize, usize),
    ) -> Result<Arc<Self>> {
        let mut inputs: Vec<Option<Receiver>> = inputs.into_iter().map(Some).collect();
        // Operators hold the state of a run; each run gets fresh ones.
        let operator = reset_plan_states(operator.clone()).map_err(from_datafusion)?;
        let bound = operator
            .transform_up(|node| {
                let Some(input) = node.downcast_ref::<InputExec>() else {
                    return Ok(Transformed::no(node));
                };
                let receiver = inputs
                    .get_mut(input.index)
                    .and_then(Option::take)
                    .ok_or_else(|| DataFusionError::Internal("a foreign operator reads an input twice".into()))?;
                let schema = input.schema.clone();
                let stream = Box::pin(PortStream { receiver, schema, batch_rows, batch_bytes, batch: None });
                let bound: Arc<dyn ExecutionPlan> = Arc::new(input.bound(stream));
                Ok(Transformed::yes(bound))
            })
            .map_err(from_datafusion)?
            .data;
        let stream = datafusion_physical_plan::execute_stream(bound, task.clone()).map_err(from_datafusion)?;
        Ok(Arc::new(Self { stream: Mutex::new(Some(stream)) }))
    }
}

impl Source for ForeignSource {
    fn name(&self) -> &'static str {
        "Foreign"
    }

    fn packets_max(&self) -> usize {
        1
    }

    fn open(&self, setup: &Setup) -> Result<Box<dyn SourceState>> {
        let stream = self.stream.lock().take().ok_or_else(|| Error::bug("a foreign operator has two readers"))?;
        let reservation = setup.memory.reservation("a foreign operator");
        Ok(Box::new(State { stream, batch_rows: setup.batch_rows, rest: None, reservation }))
    }
}

struct State {
    stream: SendableRecordBatchStream,
    batch_rows: usize,
    /// What is left of a batch that was larger than ours may be.
    rest: Option<Batch>,
    /// Of such a batch, until its last piece is handed on.
    reservation: Reservation,
}

impl SourceState for State {
    fn pull(&mut self, waker: &Waker) -> Result<Pull> {
        let batch = match self.rest.take() {
            Some(rest) => rest,
            None => match self.stream.poll_next_unpin(&mut Context::from_waker(waker)) {
                Poll::Pending => return Ok(Pull::Wait),
                Poll::Ready(None) => return Ok(Pull::Done),
                Poll::Ready(Some(batch)) => Batch::from_record_batch(&batch.map_err(failed)?),
            },
        };
        if batch.rows() == 0 {
            return Ok(Pull::Again);
        }
        if batch.rows() > self.batch_rows {
            if self.reservation.bytes() == 0 {
                self.reservation.grow(batch.bytes())?;
            }
            self.rest = Some(batch.slice(self.batch_rows, batch.rows() - self.batch_rows));
            return Ok(Pull::Batch(batch.slice(0, self.batch_rows)));
        }
        self.reservation.resize(0)?;
        Ok(Pull::Batch(batch))
    }
}

/// What DataFusion says, with the advice that its own refusals of memory lack.
fn failed(error: DataFusionError) -> Error {
    let error = from_datafusion(error);
    match (error.kind(), error.hint()) {
        (ErrorKind::Resource, None) => error.with_hint(MORE_MEMORY_HINT),
        _ => error,
    }
}
