//! UNION ALL.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use diligence_base::{Error, Result};
use diligence_engine::plan::{Node, Plan};

use super::Lowering;

impl Lowering {
    pub(super) fn union(&mut self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Plan> {
        let inputs = inputs.iter().map(|input| self.plan(input, false)).collect::<Result<Vec<_>>>()?;
        let Some(first) = inputs.first() else { return Err(Error::bug("a union of nothing")) };
        let schema = first.schema.clone();
        Ok(Plan::new(Node::Union { inputs }, schema))
    }
}
