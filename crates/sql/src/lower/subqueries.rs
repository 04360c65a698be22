//! Subqueries that give one value and do not depend on the row: they run first, and expressions read the values.

use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use diligence_base::Result;
use diligence_engine::plan::{Node, Plan};

use super::Lowering;

impl Lowering {
    pub(super) fn scalar_subqueries(&mut self, exec: &ScalarSubqueryExec, ordered: bool) -> Result<Plan> {
        let mut links = exec.subqueries().iter().collect::<Vec<_>>();
        links.sort_by_key(|link| link.index.as_usize());
        let subqueries = links.iter().map(|link| self.plan(&link.plan, false)).collect::<Result<Vec<_>>>()?;
        let input = self.plan(exec.input(), ordered)?;
        let (schema, rows_estimate) = (input.schema.clone(), input.rows_estimate);
        let node = Node::ScalarSubqueries { input: Box::new(input), subqueries, results: exec.results().clone() };
        let mut plan = Plan::new(node, schema);
        plan.rows_estimate = rows_estimate;
        Ok(plan)
    }
}
