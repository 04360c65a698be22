//! Expressions over the columns of a batch.
//!
//! An [`Expr`] is made from a DataFusion physical expression, which keeps its meaning, its type and its text. When it
//! is made, it is compiled into a tree of nodes of our own (`compile`, `node`), which run vectorized kernels on the
//! physical forms that columns come in: 64-bit decimals, dictionaries, picked rows. What we have no kernel for is
//! evaluated by DataFusion, sub-tree by sub-tree, on the logical forms of exactly the values that it reads (`foreign`).
//!
//! The life of a condition such as `l_shipdate >= '1994-01-01' AND l_shipdate < '1995-01-01' AND l_quantity < 24`:
//! 1. [`Expr::new`] compiles it: the two comparisons of one column become a range, cheap terms go first (`logic`).
//! 2. [`Expr::select`] asks the first term for a bitmap of rows (`test`, `compare`), joins it with the next one's while
//!    many rows are left, and goes on with row numbers once few are.
//! 3. The row numbers are the [`Selection`].
//!
//! Invariants:
//! * The values are those that DataFusion gives; only the physical form may be narrower, and may differ from batch to
//!   batch. A result of logical type `Decimal128(p, s)` may be a `Decimal64(min(p, 18), s)`, also for `p` above 18:
//!   then the values were seen to fit in 64 bits. Nothing may be concluded from the precision of a narrow array.
//! * Errors are DataFusion's, but never more of them: behind AND, OR and CASE, an expression is evaluated for the rows
//!   that need it and no others, wherever the rows were cut into batches.

mod bits;
mod compile;
mod facts;
#[cfg(test)]
mod judged;
mod node;
mod operand;
mod outside;
mod overflow;
mod pieces;
mod predicate_filter;
mod remembered;
mod tried;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{Column as ColumnExpr, LikeExpr, Literal};
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_datafusion;

use self::facts::Fact;
pub(crate) use self::node::strings::SoughtText;
use self::node::strings::text_of;
use self::node::{Node, foreign};
pub use self::outside::{Outside, is_outside, outside_function, outside_identity};
use self::pieces::Pieces;
pub use self::predicate_filter::PredicateFilter;
pub(crate) use self::predicate_filter::stored_number;
pub use self::tried::TryExpr;
use crate::batch::{Batch, Column, Selection, concat_arrays};

/// An expression, ready to be evaluated on batches of one schema. Cheap to clone.
///
/// Two are equal if their physical expressions are, and what they read has equal types: they then give the same values
/// for the same batch, volatile functions aside.
#[derive(Clone)]
pub struct Expr {
    physical: Arc<dyn PhysicalExpr>,
    data_type: DataType,
    nullable: bool,
    /// Positions of the columns it reads, ascending.
    columns: Arc<[usize]>,
    /// Whether it waits for something outside of the engine.
    calls_outside: bool,
    /// The logical types of those columns.
    column_types: Arc<[DataType]>,
    /// The expression over just those columns.
    node: Arc<Node>,
    /// How many rows it is computed of at once, if what it makes on the way may be wide.
    pieces: Option<Arc<Pieces>>,
}

impl Expr {
    /// The expression over batches of `input`. Fails if it does not type-check there.
    pub fn new(physical: Arc<dyn PhysicalExpr>, input: &Schema) -> Result<Self> {
        let columns = read_columns(&physical)?;
        let dense = foreign::renumbered(&physical, &columns)?;
        let dense_schema =
            input.project(&columns).map_err(|_| Error::bug("an expression reads a column that its input lacks"))?;
        let (node, Fact { data_type, nullable }) = compile::compile(&dense, &dense_schema)?;
        let node = Arc::new(node);
        let column_types = dense_schema.fields().iter().map(|field| field.data_type().clone()).collect();
        let calls_outside = outside::calls_outside(&physical);
        let pieces = Pieces::of(&physical).map(Arc::new);
        Ok(Self { physical, data_type, nullable, columns: columns.into(), calls_outside, column_types, node, pieces })
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

    /// Whether evaluating it waits for something outside of the engine.
    pub fn calls_outside(&self) -> bool {
        self.calls_outside
    }

    /// Whether a row may make it fail; also if nobody knows.
    pub(crate) fn may_fail(&self) -> bool {
        self.node.may_fail()
    }

    /// The values for a batch's rows: as many as rows, in the logical type or a narrow form of it.
    pub fn evaluate(&self, batch: &Batch) -> Result<Column> {
        if let Some(index) = self.as_column() {
            return Ok(batch.column(index).clone());
        }
        let batch = batch.project(&self.columns);
        let Some(pieces) = &self.pieces else {
            return Ok(Column::flat_array(self.node.evaluate(&batch)?.into_array(batch.rows())?));
        };
        let values = pieces.each(&batch, |piece| self.node.evaluate(piece)?.into_array(piece.rows()))?;
        Ok(Column::flat_array(concat_arrays(&values, &self.data_type)?))
    }

    /// The rows for which the expression, a condition, is true.
    pub fn select(&self, batch: &Batch) -> Result<Selection> {
        if self.data_type != DataType::Boolean {
            return Err(Error::bug(format!("a condition has type {}", self.data_type)));
        }
        let batch = batch.project(&self.columns);
        let Some(pieces) = &self.pieces else { return self.node.select(&batch) };
        let bits = pieces.each(&batch, |piece| self.node.rows_that_are(true, piece))?;
        Ok(node::selection(&bits::joined(bits)))
    }
}

impl Expr {
    /// The text that a condition looks for in a column, and nothing else.
    pub(crate) fn sought_text(&self) -> Option<(usize, SoughtText)> {
        let like = self.physical.downcast_ref::<LikeExpr>()?;
        if like.negated() || like.case_insensitive() {
            return None;
        }
        let column = like.expr().downcast_ref::<ColumnExpr>()?.index();
        let pattern = like.pattern().downcast_ref::<Literal>()?;
        Some((column, SoughtText::of(text_of(pattern.value())?)?))
    }
}

/// Positions of the columns that an expression reads, ascending.
fn read_columns(physical: &Arc<dyn PhysicalExpr>) -> Result<Vec<usize>> {
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
    Ok(columns)
}

impl PartialEq for Expr {
    fn eq(&self, other: &Self) -> bool {
        self.column_types == other.column_types && self.physical.as_ref() == other.physical.as_ref()
    }
}

impl Eq for Expr {}

impl Hash for Expr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.physical.hash(state);
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
