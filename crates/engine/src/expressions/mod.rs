//! Expressions over the columns of a batch.
//!
//! An [`Expr`] is made from a DataFusion physical expression, which keeps its meaning, its type and its text. What we
//! have kernels of our own for runs on narrow physical forms (64-bit decimals, dictionary values); the rest is evaluated
//! by DataFusion on the logical forms of exactly those columns that it reads.
//!
//! Invariant: the result is the same either way, errors included; only the physical form of the result may be narrower.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::Column as ColumnExpr;
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_datafusion;

use crate::batch::{Batch, Column, Selection, to_logical};

/// An expression, ready to be evaluated on batches of one schema.
#[derive(Clone)]
pub struct Expr {
    physical: Arc<dyn PhysicalExpr>,
    data_type: DataType,
    nullable: bool,
    /// Positions of the columns it reads, ascending.
    columns: Vec<usize>,
    /// The expression over just those columns, and their schema.
    dense: Arc<dyn PhysicalExpr>,
    dense_schema: SchemaRef,
}

impl Expr {
    /// The expression over batches of `input`. Fails if it does not type-check there.
    pub fn new(physical: Arc<dyn PhysicalExpr>, input: &Schema) -> Result<Self> {
        let data_type = physical.data_type(input).map_err(from_datafusion)?;
        let nullable = physical.nullable(input).map_err(from_datafusion)?;
        let mut columns = Vec::new();
        physical
            .apply(|node| {
                if let Some(column) = node.downcast_ref::<ColumnExpr>() {
                    columns.push(column.index());
                }
                Ok(TreeNodeRecursion::Continue)
            })
            .map_err(from_datafusion)?;
        columns.sort_unstable();
        columns.dedup();
        let dense = physical
            .clone()
            .transform(|node| {
                let Some(column) = node.downcast_ref::<ColumnExpr>() else { return Ok(Transformed::no(node)) };
                let index = columns.partition_point(|&other| other < column.index());
                let column: Arc<dyn PhysicalExpr> = Arc::new(ColumnExpr::new(column.name(), index));
                Ok(Transformed::yes(column))
            })
            .map_err(from_datafusion)?
            .data;
        let dense_schema = Arc::new(
            input.project(&columns).map_err(|_| Error::bug("an expression reads a column that its input lacks"))?,
        );
        Ok(Self { physical, data_type, nullable, columns, dense, dense_schema })
    }

    /// The column at `index` of `input`.
    pub fn column(index: usize, input: &Schema) -> Result<Self> {
        let name = input.field(index).name();
        Self::new(Arc::new(ColumnExpr::new(name, index)), input)
    }

    /// The DataFusion expression it was made from.
    pub fn physical(&self) -> &Arc<dyn PhysicalExpr> {
        &self.physical
    }

    /// The logical type of its values.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Whether a value may be NULL.
    pub fn nullable(&self) -> bool {
        self.nullable
    }

    /// Positions of the columns it reads, ascending.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The position of the column, if the expression is just a column.
    pub fn as_column(&self) -> Option<usize> {
        self.physical.downcast_ref::<ColumnExpr>().map(ColumnExpr::index)
    }

    /// The values for a batch's rows: as many as rows, in the logical type or a narrow form of it.
    pub fn evaluate(&self, batch: &Batch) -> Result<Column> {
        if let Some(index) = self.as_column() {
            return Ok(batch.column(index).clone());
        }
        let input = self.dense_input(batch)?;
        let value = self.dense.evaluate(&input).map_err(from_datafusion)?;
        Ok(Column::flat_array(value.into_array(batch.rows()).map_err(from_datafusion)?))
    }

    /// The rows for which the expression, a condition, is true.
    pub fn select(&self, batch: &Batch) -> Result<Selection> {
        let mask = self.evaluate(batch)?.flat()?;
        let Some(mask) = mask.as_boolean_opt() else {
            return Err(Error::bug(format!("a condition has type {}", mask.data_type())));
        };
        Ok(Selection::from_mask(mask))
    }

    fn dense_input(&self, batch: &Batch) -> Result<RecordBatch> {
        let arrays = self
            .columns
            .iter()
            .zip(self.dense_schema.fields())
            .map(|(&index, field)| to_logical(&batch.flat(index)?, field.data_type()))
            .collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.rows()));
        RecordBatch::try_new_with_options(self.dense_schema.clone(), arrays, &options)
            .map_err(diligence_storage::foreign_error::from_arrow)
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.physical.fmt(f)
    }
}

impl fmt::Debug for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Expr({self})")
    }
}
