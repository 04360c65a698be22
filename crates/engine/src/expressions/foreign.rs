//! What DataFusion evaluates: any physical expression, on the logical forms of exactly the values it reads.
//!
//! What it reads are columns of the batch, or sub-expressions that we evaluate ourselves first. The latter only under
//! nodes that always evaluate all their children: under others, DataFusion decides which rows a child sees.

use std::sync::Arc;

use arrow::array::{Array, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::Column as ColumnExpr;
use datafusion_physical_expr_common::physical_expr::is_volatile;
use diligence_base::Result;
use diligence_storage::foreign_error::{from_arrow, from_datafusion};

use super::node::Node;
use super::operand::Operand;
use super::outside::calls_outside;
use super::read_columns;
use crate::batch::{Batch, to_logical};

/// A physical expression over inputs of its own.
#[derive(Debug)]
pub(super) struct Foreign {
    physical: Arc<dyn PhysicalExpr>,
    pub(super) inputs: Vec<Node>,
    /// A field per input.
    schema: SchemaRef,
    pub(super) volatile: bool,
    /// Whether it waits for something outside of the engine, which takes longer than anything else.
    pub(super) outside: bool,
}

impl Foreign {
    /// The whole expression, over the columns it reads.
    pub(super) fn over_columns(physical: &Arc<dyn PhysicalExpr>, input: &Schema) -> Result<Self> {
        let columns = read_columns(physical)?;
        let schema = Arc::new(input.project(&columns).map_err(from_arrow)?);
        let inputs = columns.iter().map(|&index| Node::column(index, input.field(index).data_type())).collect();
        let (volatile, outside) = (is_volatile(physical), calls_outside(physical));
        Ok(Self { physical: renumbered(physical, &columns)?, inputs, schema, volatile, outside })
    }

    /// The expression over values, with their fields, for some of its children, which it must evaluate for every row
    /// anyway. `None` stands for a child that stays as it is and reads no columns.
    pub(super) fn over_children(
        physical: &Arc<dyn PhysicalExpr>,
        children: Vec<Option<(Node, Field)>>,
    ) -> Result<Self> {
        let mut inputs = Vec::new();
        let mut fields: Vec<FieldRef> = Vec::new();
        let mut new_children = Vec::with_capacity(children.len());
        for (child, node) in physical.children().into_iter().zip(children) {
            let Some((node, field)) = node else {
                new_children.push(child.clone());
                continue;
            };
            let name = format!("input{}", inputs.len());
            new_children.push(Arc::new(ColumnExpr::new(&name, inputs.len())) as Arc<dyn PhysicalExpr>);
            fields.push(Arc::new(field.with_name(name)));
            inputs.push(node);
        }
        let (volatile, outside) = (physical.is_volatile_node(), calls_outside(physical));
        let physical = physical.clone().with_new_children(new_children).map_err(from_datafusion)?;
        Ok(Self { physical, inputs, schema: Arc::new(Schema::new(fields)), volatile, outside })
    }

    /// The values for a batch's rows.
    pub(super) fn evaluate(&self, batch: &Batch) -> Result<Operand> {
        let arrays = self.inputs.iter().zip(self.schema.fields()).map(|(input, field)| {
            let operand = input.evaluate(batch)?;
            to_logical(&operand.into_array(batch.rows())?, field.data_type())
        });
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.rows()));
        let input = RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options).map_err(from_arrow)?;
        let operand = Operand::from_columnar(self.physical.evaluate(&input).map_err(from_datafusion)?)?;
        debug_assert!(operand.constant || operand.array.len() == batch.rows(), "a value for every row");
        Ok(operand)
    }
}

/// The expression with its columns numbered by their places in `columns`, which is ascending.
pub(super) fn renumbered(physical: &Arc<dyn PhysicalExpr>, columns: &[usize]) -> Result<Arc<dyn PhysicalExpr>> {
    let renumber = |node: Arc<dyn PhysicalExpr>| {
        let Some(column) = node.downcast_ref::<ColumnExpr>() else { return Ok(Transformed::no(node)) };
        let index = columns.partition_point(|&other| other < column.index());
        let column: Arc<dyn PhysicalExpr> = Arc::new(ColumnExpr::new(column.name(), index));
        Ok(Transformed::yes(column))
    };
    Ok(physical.clone().transform(renumber).map_err(from_datafusion)?.data)
}
