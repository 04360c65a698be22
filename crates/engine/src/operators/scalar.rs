//! A scalar subquery's end: its one value goes where the outer query's expressions look for it.

use std::sync::Arc;
use std::task::Waker;

use datafusion_common::ScalarValue;
use datafusion_expr::physical_planning_context::{ScalarSubqueryResults, SubqueryIndex};
use diligence_base::{Error, Result};
use diligence_memory::Reservation;
use diligence_storage::foreign_error::from_datafusion;
use diligence_types::values::value_at;

use arrow::datatypes::SchemaRef;

use crate::batch::{Batch, to_logical};
use crate::flow::{Accept, QueryContext, Sink, SinkState};
use crate::sync::Mutex;

/// The sink of a subquery that gives one column and at most one row.
pub struct ScalarSink(Arc<SharedScalar>);

struct SharedScalar {
    schema: SchemaRef,
    value: Mutex<Option<ScalarValue>>,
    /// Of the value, until the query ends: it may be a list of many rows.
    reservation: Mutex<Option<Reservation>>,
    /// Of this run.
    results: ScalarSubqueryResults,
    /// Of the plan, for readers that a run cannot give slots of its own. The first run fills it.
    of_plan: ScalarSubqueryResults,
    index: usize,
}

impl ScalarSink {
    /// A sink that fills the slot `index` of the run, and that of the plan if it is empty.
    pub fn new(
        schema: SchemaRef,
        results: ScalarSubqueryResults,
        of_plan: ScalarSubqueryResults,
        index: usize,
    ) -> Arc<Self> {
        Arc::new(Self(Arc::new(SharedScalar {
            schema,
            value: Mutex::default(),
            reservation: Mutex::default(),
            results,
            of_plan,
            index,
        })))
    }
}

impl Sink for ScalarSink {
    fn name(&self) -> &'static str {
        "Scalar"
    }

    fn open(&self, context: &QueryContext) -> Result<Box<dyn SinkState>> {
        let reservation = context.memory.reservation("a scalar subquery");
        Ok(Box::new(ScalarState { shared: self.0.clone(), reservation: Some(reservation) }))
    }

    fn complete(&self) -> Result<()> {
        let shared = &self.0;
        let value = match shared.value.lock().take() {
            Some(value) => value,
            None => ScalarValue::try_from(shared.schema.field(0).data_type()).map_err(from_datafusion)?,
        };
        let index = SubqueryIndex::new(shared.index);
        // It refuses a second value: another run was first.
        let _ = shared.of_plan.set(index, value.clone());
        shared.results.set(index, value).map_err(from_datafusion)
    }
}

struct ScalarState {
    shared: Arc<SharedScalar>,
    /// Until there is a value.
    reservation: Option<Reservation>,
}

impl SinkState for ScalarState {
    fn push(&mut self, batch: Batch, _waker: &Waker) -> Result<Accept> {
        let mut value = self.shared.value.lock();
        if value.is_some() || batch.rows() > 1 {
            return Err(Error::value("more than one row returned by a subquery used as an expression")
                .with_code("21000")
                .with_hint("add LIMIT 1 or an aggregate to the subquery, or compare with IN or ANY"));
        }
        let array = to_logical(&batch.flat(0)?, self.shared.schema.field(0).data_type())?;
        if let Some(mut reservation) = self.reservation.take() {
            reservation.grow(batch.bytes())?;
            *self.shared.reservation.lock() = Some(reservation);
        }
        *value = Some(value_at(&array, 0).map_err(from_datafusion)?);
        Ok(Accept::More)
    }
}
