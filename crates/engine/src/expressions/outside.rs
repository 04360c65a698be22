//! Functions whose values come from outside of the engine, and take their time.
//!
//! The engine calls them as it calls any function that it has no kernel for, with two differences: while it waits for
//! longer than a moment, another thread has its place ([`stages`](crate::stages)), and no plan that calls one takes the
//! short path, whose thread is somebody else's.

use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, UInt32Array, new_null_array};
use arrow::buffer::NullBuffer;
use arrow::compute::{filter, take};
use arrow::datatypes::DataType;
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use datafusion_physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::{from_arrow, to_datafusion};
use diligence_types::values::value_at;

use crate::stages::{Caller, briefly_outside, outside};

/// A function whose values come from outside. May be called from many threads at once.
pub trait Outside: Debug + Send + Sync {
    /// Its name.
    fn name(&self) -> &str;

    /// What tells it from others of its name: two that have both in common are the same function.
    fn identity(&self) -> u64;

    /// The type of its values.
    fn returns(&self) -> DataType;

    /// How its values may change.
    fn volatility(&self) -> Volatility;

    /// Whether a NULL among its arguments makes the value NULL without a call.
    fn is_strict(&self) -> bool;

    /// Whether it mostly takes a moment. If so, it has its caller [leave](Caller::leave) as soon as it takes longer.
    fn is_brief(&self) -> bool {
        false
    }

    /// Its values for these rows: as many as rows, of its type. Waits for them as long as the caller does; called on a
    /// thread that may wait.
    fn call(&self, arguments: &[ArrayRef], rows: usize, caller: &dyn Caller) -> Result<ArrayRef>;
}

/// The function as one that expressions can call.
pub fn outside_function(function: Arc<dyn Outside>) -> Arc<ScalarUDF> {
    // What is stable within a statement is not what an earlier one has left, and others share nothing else.
    let volatility = match function.volatility() {
        Volatility::Immutable => Volatility::Immutable,
        Volatility::Stable | Volatility::Volatile => Volatility::Volatile,
    };
    let signature = Signature::variadic_any(volatility);
    Arc::new(ScalarUDF::from(OutsideFunction { function, signature }))
}

/// Whether a function's values come from outside.
pub fn is_outside(function: &ScalarUDF) -> bool {
    function.inner().downcast_ref::<OutsideFunction>().is_some()
}

/// What tells a function whose values come from outside from others of its name; `None` for all others.
pub fn outside_identity(function: &ScalarUDF) -> Option<u64> {
    function.inner().downcast_ref::<OutsideFunction>().map(|own| own.function.identity())
}

/// Whether an expression calls a function whose values come from outside.
pub(crate) fn calls_outside(physical: &Arc<dyn PhysicalExpr>) -> bool {
    let mut found = false;
    // Nothing in here fails.
    let _ = physical.apply(|node| {
        found |= node.downcast_ref::<ScalarFunctionExpr>().is_some_and(|function| is_outside(function.fun()));
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found
}

#[derive(Debug)]
struct OutsideFunction {
    function: Arc<dyn Outside>,
    signature: Signature,
}

impl PartialEq for OutsideFunction {
    fn eq(&self, other: &Self) -> bool {
        let key = |of: &Self| (of.function.identity(), of.function.volatility(), of.function.is_strict());
        key(self) == key(other) && self.function.name() == other.function.name()
    }
}

impl Eq for OutsideFunction {}

impl Hash for OutsideFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.function.identity().hash(state);
    }
}

impl ScalarUDFImpl for OutsideFunction {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> datafusion_common::Result<DataType> {
        Ok(self.function.returns())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> datafusion_common::Result<ColumnarValue> {
        let is_one = |value: &ColumnarValue| matches!(value, ColumnarValue::Scalar(_));
        // One value for all rows is computed once.
        let is_one = self.function.volatility() != Volatility::Volatile && arguments.args.iter().all(is_one);
        let rows = if is_one { arguments.number_rows.min(1) } else { arguments.number_rows };
        let columns = arguments.args.iter().map(|argument| argument.to_array(rows));
        let columns = columns.collect::<datafusion_common::Result<Vec<_>>>()?;
        let values = self.values(&columns, rows).map_err(to_datafusion)?;
        match is_one && rows == 1 {
            true => Ok(ColumnarValue::Scalar(value_at(&values, 0)?)),
            false => Ok(ColumnarValue::Array(values)),
        }
    }
}

impl OutsideFunction {
    fn values(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let nulls = columns.iter().filter_map(|column| column.logical_nulls());
        let nulls = nulls.filter(|nulls| self.function.is_strict() && nulls.null_count() > 0);
        let nulls = nulls.reduce(|all, one| NullBuffer::union(Some(&all), Some(&one)).unwrap_or(all));
        let Some(nulls) = nulls else { return self.called(columns, rows) };
        let is_called = BooleanArray::new(nulls.inner().clone(), None);
        let called = is_called.true_count();
        if called == 0 {
            return Ok(new_null_array(&self.function.returns(), rows));
        }
        let columns = columns.iter().map(|column| filter(column, &is_called).map_err(from_arrow));
        let values = self.called(&columns.collect::<Result<Vec<_>>>()?, called)?;
        let mut next = 0..called as u32;
        let places = nulls.iter().map(|is_called| if is_called { next.next() } else { None });
        take(&values, &UInt32Array::from_iter(places), None).map_err(from_arrow)
    }

    fn called(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        if rows == 0 {
            return Ok(new_null_array(&self.function.returns(), 0));
        }
        let call = |caller: &dyn Caller| match caller.is_stopped() {
            true => Err(Error::cancelled()),
            false => self.function.call(columns, rows, caller),
        };
        let values = if self.function.is_brief() { briefly_outside(call) } else { outside(call) }?;
        if (values.len(), values.data_type()) != (rows, &self.function.returns()) {
            let (name, found) = (self.function.name(), values.data_type());
            return Err(Error::bug(format!("{name} gave {} values of {found} for {rows} rows", values.len())));
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Int64Array, RecordBatch};
    use arrow::datatypes::{Field, Int64Type, Schema};
    use datafusion_common::config::ConfigOptions;
    use datafusion_physical_expr::expressions::{Column, lit};

    use super::*;
    use crate::batch::Batch;
    use crate::expressions::Expr;
    use crate::sync::Mutex;

    /// Sums of its arguments, NULLs being 1000; notes how many rows it was asked for.
    #[derive(Debug)]
    struct Sum(bool, Volatility, Mutex<Vec<usize>>);

    impl Outside for Sum {
        fn name(&self) -> &str {
            "sum_of"
        }

        fn identity(&self) -> u64 {
            1
        }

        fn returns(&self) -> DataType {
            DataType::Int64
        }

        fn volatility(&self) -> Volatility {
            self.1
        }

        fn is_strict(&self) -> bool {
            self.0
        }

        fn call(&self, arguments: &[ArrayRef], rows: usize, _caller: &dyn Caller) -> Result<ArrayRef> {
            self.2.lock().push(rows);
            let sum = |row: usize| {
                let values = arguments.iter().map(|column| column.as_primitive::<Int64Type>());
                values.map(|values| if values.is_valid(row) { values.value(row) } else { 1000 }).sum::<i64>()
            };
            Ok(Arc::new(Int64Array::from_iter_values((0..rows).map(sum))))
        }
    }

    fn evaluated(function: &Arc<Sum>, with_column: bool) -> Vec<Option<i64>> {
        let schema = Schema::new(vec![Field::new("a", DataType::Int64, true)]);
        let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]));
        let batch = RecordBatch::try_new(Arc::new(schema.clone()), vec![values]).unwrap();
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new("a", 0));
        let arguments = vec![if with_column { column } else { lit(5_i64) }, lit(10_i64)];
        let udf = outside_function(function.clone());
        let field = Arc::new(Field::new("sum_of", DataType::Int64, true));
        let call = ScalarFunctionExpr::new("sum_of", udf, arguments, field, Arc::new(ConfigOptions::default()));
        let call: Arc<dyn PhysicalExpr> = Arc::new(call);
        assert!(calls_outside(&call));
        let expression = Expr::new(call, &schema).unwrap();
        let values = expression.evaluate(&Batch::from_record_batch(&batch)).unwrap().flat().unwrap();
        values.as_primitive::<Int64Type>().iter().collect()
    }

    #[test]
    fn a_strict_function_is_not_called_for_nulls_and_a_constant_is_computed_once() {
        let function = |strict, volatility| Arc::new(Sum(strict, volatility, Mutex::default()));
        let strict = function(true, Volatility::Volatile);
        assert_eq!(evaluated(&strict, true), [Some(11), None, Some(13)]);
        let other = function(false, Volatility::Immutable);
        assert_eq!(evaluated(&other, true), [Some(11), Some(1010), Some(13)]);
        assert_eq!(evaluated(&other, false), [Some(15); 3]);
        let volatile = function(false, Volatility::Volatile);
        assert_eq!(evaluated(&volatile, false), [Some(15); 3]);
        let asked = |function: &Arc<Sum>| function.2.lock().clone();
        assert_eq!((asked(&strict), asked(&other), asked(&volatile)), (vec![2], vec![3, 1], vec![3]));
    }
}
