//! Scans of our tables.

use diligence_base::Result;
use diligence_engine::plan::{Node, Plan, Scan};

use super::Lowering;
use crate::expression::expression;
use crate::tables::TableScanExec;

impl Lowering {
    pub(super) fn scan(&mut self, scan: &TableScanExec) -> Result<Plan> {
        let table_schema = scan.table.schema();
        let filters = scan.filters.iter().map(|filter| expression(filter.clone(), &table_schema));
        let node = Node::Scan(Scan {
            table: scan.table.clone(),
            name: scan.name.clone(),
            columns: scan.columns.clone(),
            filters: filters.collect::<Result<Vec<_>>>()?,
            runtime_filters: vec![],
            // Whether a LIMIT is really next to the scan shows when it is lowered.
            limit: None,
        });
        Ok(Plan::new(node, datafusion::physical_plan::ExecutionPlan::schema(scan)))
    }
}
