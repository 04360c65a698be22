//! Values of many bytes in the middle of an expression, such as the texts in `length(repeat(s, 1000))`.
//!
//! They are there while a batch is computed, nobody reserves them, and no operator sees how wide they are. So an
//! expression that calls a function in its middle that makes texts or lists is computed of few rows at first, then of
//! as many as have about half a megabyte of such values if they are as wide as those before.
//!
//! Values in the middle are measured where they are made: what DataFusion evaluates as a whole has [`MeasuredCall`]
//! around such calls.

use std::cell::Cell;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion_common::Result as DataFusionResult;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_expr::{ColumnarValue, Operator};
use datafusion_physical_expr::expressions::BinaryExpr;
use datafusion_physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use diligence_base::Result;
use diligence_base::limits::{BATCH_BYTES, BATCH_ROWS_MAX, BATCH_ROWS_MIN};
use diligence_storage::foreign_error::from_datafusion;

use super::outside::calls_outside;
use crate::batch::{Batch, estimated_bytes, has_known_width};
use crate::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of the values in the middle that are to be there at once.
const BYTES: usize = *BATCH_BYTES.start();
/// By how much rows become more at a time.
const GROWTH: usize = 8;

thread_local! {
    /// Bytes of the values in the middle that this thread has made, since somebody began to count.
    static MADE_BYTES: Cell<usize> = const { Cell::new(0) };
}

/// How many rows an expression is computed of at once.
#[derive(Debug)]
pub(super) struct Pieces {
    rows: AtomicUsize,
}

impl Pieces {
    /// Of an expression with wide values in its middle; `None` for all others, and for those that wait for something
    /// outside, which had better get many rows.
    pub fn of(physical: &Arc<dyn PhysicalExpr>) -> Option<Self> {
        let mut is_wide_inside = false;
        let look = |node: &Arc<dyn PhysicalExpr>| {
            is_wide_inside |= !Arc::ptr_eq(node, physical) && makes_wide(node);
            Ok(if is_wide_inside { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        };
        // Nothing in here fails.
        let _ = physical.apply(look);
        (is_wide_inside && !calls_outside(physical)).then(|| Self { rows: AtomicUsize::new(BATCH_ROWS_MIN) })
    }

    /// What is computed of the rows of a batch, piece by piece; of a batch without rows once.
    pub fn each<T>(&self, batch: &Batch, mut compute: impl FnMut(&Batch) -> Result<T>) -> Result<Vec<T>> {
        let mut found = Vec::new();
        let mut first = 0;
        while first < batch.rows() || found.is_empty() {
            let rows = self.rows.load(Ordering::Relaxed).min(batch.rows() - first);
            MADE_BYTES.set(0);
            found.push(match rows == batch.rows() {
                true => compute(batch)?,
                false => compute(&batch.slice(first, rows))?,
            });
            self.note(rows, MADE_BYTES.get());
            first += rows;
        }
        Ok(found)
    }

    /// So many bytes were made of so many rows.
    fn note(&self, rows: usize, bytes: usize) {
        let most = rows.max(self.rows.load(Ordering::Relaxed)).saturating_mul(GROWTH).min(BATCH_ROWS_MAX);
        let fitting = (rows as u128 * BYTES as u128 / bytes.max(1) as u128).min(most as u128) as usize;
        self.rows.store(fitting.max(BATCH_ROWS_MIN), Ordering::Relaxed);
    }
}

/// Notes values that were made in the middle of an expression, or at its end.
pub(super) fn note_made(array: &dyn Array) {
    if !has_known_width(array.data_type()) {
        MADE_BYTES.set(MADE_BYTES.get().saturating_add(estimated_bytes(array, None)));
    }
}

/// The same expression, which notes what calls below its root make.
pub(super) fn measured(physical: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
    let measure = |node: Arc<dyn PhysicalExpr>| match makes_wide(&node) {
        true => Ok(Transformed::yes(Arc::new(MeasuredCall(node)) as Arc<dyn PhysicalExpr>)),
        false => Ok(Transformed::no(node)),
    };
    let below = |child: Arc<dyn PhysicalExpr>| child.transform_up(measure);
    Ok(physical.map_children(below).map_err(from_datafusion)?.data)
}

/// Whether a call makes texts, lists or the like.
fn makes_wide(node: &Arc<dyn PhysicalExpr>) -> bool {
    if let Some(function) = node.downcast_ref::<ScalarFunctionExpr>() {
        return !has_known_width(function.return_type());
    }
    node.downcast_ref::<BinaryExpr>().is_some_and(|binary| *binary.op() == Operator::StringConcat)
}

/// An expression whose values are noted.
#[derive(Debug)]
struct MeasuredCall(Arc<dyn PhysicalExpr>);

impl PartialEq for MeasuredCall {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_ref() == other.0.as_ref()
    }
}

impl Eq for MeasuredCall {}

impl Hash for MeasuredCall {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl fmt::Display for MeasuredCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl PhysicalExpr for MeasuredCall {
    fn data_type(&self, input: &Schema) -> DataFusionResult<DataType> {
        self.0.data_type(input)
    }

    fn nullable(&self, input: &Schema) -> DataFusionResult<bool> {
        self.0.nullable(input)
    }

    fn return_field(&self, input: &Schema) -> DataFusionResult<FieldRef> {
        self.0.return_field(input)
    }

    fn evaluate(&self, batch: &RecordBatch) -> DataFusionResult<ColumnarValue> {
        let values = self.0.evaluate(batch)?;
        if let ColumnarValue::Array(array) = &values {
            note_made(array);
        }
        Ok(values)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.0]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> DataFusionResult<Arc<dyn PhysicalExpr>> {
        match (children.pop(), children.is_empty()) {
            (Some(child), true) => Ok(Arc::new(Self(child))),
            _ => datafusion_common::internal_err!("a measured expression has one child"),
        }
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_sql(f)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, AsArray, Int64Array, StringViewArray};
    use arrow::datatypes::{Field, Int64Type};
    use datafusion_expr::{Volatility, create_udf};
    use datafusion_physical_expr::expressions::{Column, lit};

    use super::*;
    use crate::expressions::{Expr, PredicateFilter};
    use crate::sync::Mutex;
    use diligence_storage::RowFilter;

    /// Calls a function of one argument.
    fn call(
        name: &str,
        (from, to): (DataType, DataType),
        argument: Arc<dyn PhysicalExpr>,
        function: impl Fn(&ArrayRef) -> ArrayRef + Send + Sync + 'static,
    ) -> Arc<dyn PhysicalExpr> {
        let invoke = move |arguments: &[ColumnarValue]| {
            arguments[0].to_array(1).map(|array| ColumnarValue::Array(function(&array)))
        };
        let function = create_udf(name, vec![from], to.clone(), Volatility::Immutable, Arc::new(invoke));
        let field = Arc::new(Field::new(name, to, true));
        Arc::new(ScalarFunctionExpr::new(name, Arc::new(function), vec![argument], field, Arc::default()))
    }

    /// The lengths of texts that have so many bytes as a number says; notes of how many rows they are made.
    fn lengths(asked: &Arc<Mutex<Vec<usize>>>) -> Arc<dyn PhysicalExpr> {
        let asked = asked.clone();
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new("n", 0));
        let wide = call("wide", (DataType::Int64, DataType::Utf8View), column, move |numbers| {
            asked.lock().push(numbers.len());
            let numbers = numbers.as_primitive::<Int64Type>().values().iter();
            Arc::new(StringViewArray::from_iter_values(numbers.map(|&number| "x".repeat(number as usize))))
        });
        call("length", (DataType::Utf8View, DataType::Int64), wide, |texts| {
            let lengths = texts.as_string_view().iter().map(|text| text.map(|text| text.len() as i64));
            Arc::new(lengths.collect::<Int64Array>())
        })
    }

    #[test]
    fn few_rows_are_computed_at_once_where_values_on_the_way_are_wide() {
        let schema = Schema::new(vec![Field::new("n", DataType::Int64, false)]);
        let batch = |bytes: i64| {
            let numbers = (0..BATCH_ROWS_MAX as i64).map(|row| bytes + row % 2);
            Batch::from_arrays(vec![Arc::new(Int64Array::from_iter_values(numbers))], BATCH_ROWS_MAX)
        };
        let (narrow, wide) = (batch(1), batch(BYTES as i64 / 100));
        let asked = Arc::<Mutex<Vec<usize>>>::default();
        let lengths = lengths(&asked);
        let expression = Expr::new(lengths.clone(), &schema).unwrap();
        let is_odd = BinaryExpr::new(lengths, Operator::Eq, lit(BYTES as i64 / 100 + 1));
        let condition = Expr::new(Arc::new(is_odd), &schema).unwrap();
        let filter = PredicateFilter::new(&condition, &schema).unwrap().unwrap();
        for batch in [&narrow, &narrow, &wide, &wide] {
            let found = expression.evaluate(batch).unwrap().flat().unwrap();
            assert_eq!(found.as_primitive::<Int64Type>(), batch.flat(0).unwrap().as_primitive::<Int64Type>());
        }
        let rows = std::mem::take(&mut *asked.lock());
        assert_eq!(rows[..4], [16, 128, 1024, BATCH_ROWS_MAX - 16 - 128 - 1024]);
        assert_eq!(rows.iter().sum::<usize>(), 4 * BATCH_ROWS_MAX);
        // One piece is too wide, since nobody knew it before.
        assert_eq!(rows[4..6], [BATCH_ROWS_MAX; 2]);
        assert!(rows.len() > 80 && rows[6..].iter().all(|&rows| rows <= 101), "{rows:?}");

        assert_eq!(condition.select(&wide).unwrap().rows(BATCH_ROWS_MAX), BATCH_ROWS_MAX / 2);
        assert_eq!(filter.keep(&[wide.flat(0).unwrap()]).unwrap().true_count(), BATCH_ROWS_MAX / 2);
        assert!(asked.lock().iter().all(|&rows| rows <= 128));
    }
}
