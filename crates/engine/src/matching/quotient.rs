//! An average, from the sum and the count of each of its parts: what `avg` would have given for all rows together.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, AsArray, Decimal128Array, Float64Array, RecordBatch};
use arrow::datatypes::{DataType, Decimal128Type, Int64Type, Schema};
use datafusion_common::{Result, exec_datafusion_err, internal_err};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;

use crate::plan::average::AverageKind;

/// The quotient of a decimal sum and a count, cut off as `avg` does, or of an integer sum and a count as a float; NULL
/// where the count is NULL or zero.
#[derive(Debug)]
pub(super) struct Quotient {
    sum: Arc<dyn PhysicalExpr>,
    count: Arc<dyn PhysicalExpr>,
    /// Of the values that were averaged.
    argument: DataType,
    result: DataType,
}

impl Quotient {
    pub fn new(sum: Arc<dyn PhysicalExpr>, count: Arc<dyn PhysicalExpr>, argument: DataType, result: DataType) -> Self {
        Self { sum, count, argument, result }
    }
}

impl PartialEq for Quotient {
    fn eq(&self, other: &Self) -> bool {
        self.sum.as_ref() == other.sum.as_ref()
            && self.count.as_ref() == other.count.as_ref()
            && (&self.argument, &self.result) == (&other.argument, &other.result)
    }
}

impl Eq for Quotient {}

impl Hash for Quotient {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.sum.hash(state);
        self.count.hash(state);
        self.result.hash(state);
    }
}

impl fmt::Display for Quotient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} / {}", self.sum, self.count)
    }
}

impl PhysicalExpr for Quotient {
    fn data_type(&self, _input: &Schema) -> Result<DataType> {
        Ok(self.result.clone())
    }

    fn nullable(&self, _input: &Schema) -> Result<bool> {
        Ok(true)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let rows = batch.num_rows();
        let (sums, counts) =
            (self.sum.evaluate(batch)?.into_array(rows)?, self.count.evaluate(batch)?.into_array(rows)?);
        if self.argument == DataType::Int64 && self.result == DataType::Float64 {
            let (sums, counts) = (sums.as_primitive::<Int64Type>(), counts.as_primitive::<Int64Type>());
            let average = |row: usize| {
                let is_known = sums.is_valid(row) && counts.is_valid(row) && counts.value(row) != 0;
                is_known.then(|| sums.value(row) as f64 / counts.value(row) as f64)
            };
            let averages: Float64Array = (0..rows).map(average).collect();
            return Ok(ColumnarValue::Array(Arc::new(averages)));
        }
        let Some(kind) = AverageKind::new(&self.argument, &self.result) else {
            return internal_err!("an average of {} as {}", self.argument, self.result);
        };
        let (sums, counts) = (sums.as_primitive::<Decimal128Type>(), counts.as_primitive::<Int64Type>());
        let average = |row: usize| {
            if sums.is_null(row) || counts.is_null(row) || counts.value(row) == 0 {
                return Ok(None);
            }
            let average = kind.divide(sums.value(row), counts.value(row));
            let overflow = || exec_datafusion_err!("arithmetic overflow: an average does not fit {}", self.result);
            average.map(Some).ok_or_else(overflow)
        };
        let averages = (0..rows).map(average).collect::<Result<Vec<_>>>()?;
        let averages = Decimal128Array::from(averages).with_data_type(self.result.clone());
        Ok(ColumnarValue::Array(Arc::new(averages)))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.sum, &self.count]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let [sum, count] = children.as_slice() else { return internal_err!("an average has two parts") };
        let (argument, result) = (self.argument.clone(), self.result.clone());
        Ok(Arc::new(Self::new(sum.clone(), count.clone(), argument, result)))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
