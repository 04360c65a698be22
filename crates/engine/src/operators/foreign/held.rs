//! The memory of DataFusion's window operators, which hold rows without telling the memory pool. Windows are our own, but not
//! those inside of an operator that runs its input itself: a recursive query's.
//!
//! A window operator gives back every row that it takes, with more columns. So it holds the rows that have gone in and have
//! not come out. A *watch* stands on both sides of it and counts them:
//!
//! ```text
//!   input --> Watch(rows in) --> window operator --> Watch(rows out) -->
//! ```
//!
//! Invariant: the reservation is that of the rows inside, in proportion, and empty once the output is dropped.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use crate::sync::Mutex;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_common::{Result, internal_err};
use datafusion_execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion_physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, replace_children_if_necessary,
};
use futures::{Stream, StreamExt};

use super::pool::exhausted;
use crate::batch::Batch;
use crate::memory::{QueryMemory, Reservation};

/// Window operators keep the batches that come in, and put them together into one.
const COPIES: usize = 2;

/// The operator with a watch around it, if it is one that holds rows without telling.
pub(super) fn watched(
    operator: &Arc<dyn ExecutionPlan>,
    memory: &QueryMemory,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if !operator.is::<WindowAggExec>() && !operator.is::<BoundedWindowAggExec>() {
        return Ok(None);
    }
    let reservation = memory.reservation("a window");
    let held = Arc::new(Mutex::new(Held { reservation, rows: 0 }));
    let watch = |inner: &Arc<dyn ExecutionPlan>, side| {
        Arc::new(Watch { inner: inner.clone(), side, held: held.clone() }) as Arc<dyn ExecutionPlan>
    };
    let inputs = operator.children().into_iter().map(|input| watch(input, Side::In)).collect();
    let inside = replace_children_if_necessary(operator.clone(), inputs)?;
    Ok(Some(watch(&inside, Side::Out)))
}

/// What an operator holds.
#[derive(Debug)]
struct Held {
    reservation: Reservation,
    rows: usize,
}

impl Held {
    fn take(&mut self, batch: &RecordBatch) -> diligence_base::Result<()> {
        self.reservation.grow(COPIES * Batch::from_record_batch(batch).bytes())?;
        self.rows += batch.num_rows();
        Ok(())
    }

    fn give(&mut self, rows: usize) {
        let left = self.rows.saturating_sub(rows);
        let bytes = self.reservation.bytes() as u128 * left as u128 / self.rows.max(1) as u128;
        self.reservation.shrink(self.reservation.bytes() - bytes as usize);
        self.rows = left;
    }
}

#[derive(Clone, Copy, Debug)]
enum Side {
    In,
    Out,
}

/// Counts the rows that go into an operator, or come out of it. To everyone who asks, it is what it counts.
struct Watch {
    inner: Arc<dyn ExecutionPlan>,
    side: Side,
    held: Arc<Mutex<Held>>,
}

impl Watch {
    fn around(&self, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(inner), true) => Ok(Arc::new(Watch { inner, side: self.side, held: self.held.clone() })),
            _ => internal_err!("a watch has one input"),
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl DisplayAs for Watch {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_as(format, f)
    }
}

impl ExecutionPlan for Watch {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.inner.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.inner]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.around(children)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.around(children)
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let inner = self.inner.execute(partition, context)?;
        Ok(Box::pin(WatchStream { inner, side: self.side, held: self.held.clone() }))
    }
}

struct WatchStream {
    inner: SendableRecordBatchStream,
    side: Side,
    held: Arc<Mutex<Held>>,
}

impl Stream for WatchStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(batch) = ready!(self.inner.poll_next_unpin(context)).transpose()? else { return Poll::Ready(None) };
        match self.side {
            Side::In => self.held.lock().take(&batch).map_err(exhausted)?,
            Side::Out => self.held.lock().give(batch.num_rows()),
        }
        Poll::Ready(Some(Ok(batch)))
    }
}

impl RecordBatchStream for WatchStream {
    fn schema(&self) -> SchemaRef {
        self.inner.schema()
    }
}

impl Drop for WatchStream {
    fn drop(&mut self) {
        if matches!(self.side, Side::Out) {
            // The operator is gone, and all rows with it.
            self.held.lock().give(usize::MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array};

    use super::*;

    #[test]
    fn rows_that_come_out_give_back_their_share() {
        let memory = QueryMemory::unbounded();
        let mut held = Held { reservation: memory.reservation("a window"), rows: 0 };
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..800));
        let batch = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
        held.take(&batch).unwrap();
        let whole = memory.reserved_bytes();
        assert!(whole >= COPIES * 800 * 8);
        held.give(600);
        assert_eq!(memory.reserved_bytes(), whole / 4);
        held.take(&batch).unwrap();
        held.give(1000);
        assert_eq!(memory.reserved_bytes(), 0);
    }
}
