//! A condition as a filter that a scan applies while it decodes.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::datatypes::Schema;
use diligence_base::Result;
use diligence_storage::RowFilter;

use super::node::Node;
use super::{Expr, compile, foreign, read_columns};
use crate::batch::Batch;

/// A condition over the columns of a table.
#[derive(Debug)]
pub struct PredicateFilter {
    /// Positions in the table's schema, ascending.
    columns: Vec<usize>,
    /// The condition over just those columns.
    node: Node,
}

impl PredicateFilter {
    /// The filter of a condition over `table`'s schema. `None` for a condition that reads no column: such a one says
    /// nothing about rows, and could not tell how many there are.
    pub fn new(condition: &Expr, table: &Schema) -> Result<Option<Self>> {
        let columns = read_columns(condition.physical())?;
        if columns.is_empty() {
            return Ok(None);
        }
        let dense = foreign::renumbered(condition.physical(), &columns)?;
        let schema = table.project(&columns).map_err(diligence_storage::foreign_error::from_arrow)?;
        Ok(Some(Self { node: compile::compile(&dense, &schema)?, columns }))
    }

    /// The filter behind the scan's interface.
    pub fn shared(condition: &Expr, table: &Schema) -> Result<Option<Arc<dyn RowFilter>>> {
        Ok(Self::new(condition, table)?.map(|filter| Arc::new(filter) as Arc<dyn RowFilter>))
    }
}

impl RowFilter for PredicateFilter {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn keep(&self, columns: &[ArrayRef]) -> Result<BooleanArray> {
        let rows = columns.first().map_or(0, |column| column.len());
        if rows == 0 {
            return Ok(BooleanArray::from(Vec::<bool>::new()));
        }
        let batch = Batch::from_arrays(columns.to_vec(), rows);
        Ok(BooleanArray::new(self.node.rows_that_are(true, &batch)?, None))
    }
}
