//! What a query computes that reads nothing: `SELECT $1 + 1`. Procedures compute such values again and again, and to
//! plan or to run a query for each would take a hundred times as long as to compute it.

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use diligence_base::Result;
use diligence_catalog::{SessionSnapshot, Uses};
use diligence_engine::batch::{Batch, to_logical};
use diligence_engine::expressions::Expr;
use diligence_engine::plan::{Node, Plan};
use diligence_storage::foreign_error::{from_arrow, from_datafusion};

use super::Planner;
use crate::binder::instant;
use crate::expression::expression;
use crate::lowering::parameters::as_columns;

/// The expressions of a query of one row, over the values of its parameters.
#[derive(Debug)]
pub struct Formula {
    expressions: Vec<Expr>,
    /// The types of the values.
    types: Vec<DataType>,
    /// Whether it takes the time of the transaction, behind the values.
    takes_now: bool,
    schema: SchemaRef,
    uses: Uses,
}

impl Formula {
    /// The formula of a plan; `None` if it does not compute one row of nothing.
    pub(super) fn new(plan: &Plan, types: &[DataType], uses: Uses) -> Result<Option<Self>> {
        let Node::Project { input, expressions } = &plan.node else { return Ok(None) };
        let Node::Values { batches } = &input.node else { return Ok(None) };
        let rows = batches.iter().map(RecordBatch::num_rows).sum::<usize>();
        if rows != 1 || expressions.iter().any(Expr::calls_outside) {
            return Ok(None);
        }
        let now = instant(0).data_type();
        let given = types.iter().chain([&now]).map(|given| Field::new("parameter", given.clone(), true));
        let given = Schema::new(given.collect::<Vec<_>>());
        let mut computed = Vec::with_capacity(expressions.len());
        for own in expressions {
            let Some(columns) = as_columns(own.physical()).map_err(from_datafusion)? else { return Ok(None) };
            computed.push(expression(columns, &given)?);
        }
        let takes_now = computed.iter().any(|own| own.columns().contains(&types.len()));
        Ok(Some(Self { expressions: computed, types: types.to_vec(), takes_now, schema: plan.schema.clone(), uses }))
    }

    /// The columns of its row.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Whether planning it anew would give the same, over the names of a snapshot of the planner's session.
    pub fn is_current(&self, planner: &Planner, at: &SessionSnapshot) -> bool {
        planner.is_current(&self.uses, at)
    }

    /// Its row for these values, each an array of one of the parameter's type. Fails as its expressions do.
    pub fn row(&self, values: &[ArrayRef], planner: &Planner) -> Result<RecordBatch> {
        let mut columns = values.to_vec();
        if self.takes_now {
            columns.push(instant(planner.catalogs().now()).to_array().map_err(from_datafusion)?);
        }
        debug_assert!(values.iter().zip(&self.types).all(|(value, given)| value.data_type() == given));
        let given = Batch::from_arrays(columns, 1);
        let computed = self.expressions.iter().zip(self.schema.fields());
        let computed = computed.map(|(own, field)| to_logical(&own.evaluate(&given)?.flat()?, field.data_type()));
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        RecordBatch::try_new_with_options(self.schema.clone(), computed.collect::<Result<_>>()?, &options)
            .map_err(from_arrow)
    }
}
