//! TRY: an expression that is NULL in rows for which another one fails.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, new_null_array};
use arrow::datatypes::{DataType, Schema};
use datafusion_common::{Result, ScalarValue, internal_err};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;
use diligence_base::ErrorKind;
use diligence_storage::foreign_error::{from_datafusion, to_datafusion};

use crate::batch::concat_arrays;

/// The value of an expression; NULL in rows for which it cannot be computed. Errors that are no matter of the row's
/// values (memory, cancellation, a broken invariant) stay errors.
#[derive(Debug)]
pub struct TryExpr {
    tried: Arc<dyn PhysicalExpr>,
}

impl TryExpr {
    /// Tries an expression.
    pub fn new(tried: Arc<dyn PhysicalExpr>) -> Self {
        Self { tried }
    }

    /// The expression that is tried.
    pub fn tried(&self) -> &Arc<dyn PhysicalExpr> {
        &self.tried
    }

    /// The values of rows that may fail: halves are tried until what fails is alone.
    fn of_rows(&self, batch: &RecordBatch) -> Result<ArrayRef> {
        let rows = batch.num_rows();
        match self.tried.evaluate(batch).and_then(|value| value.into_array(rows)) {
            Err(error) => {
                let error = from_datafusion(error);
                if !matches!(error.kind(), ErrorKind::Value | ErrorKind::Input | ErrorKind::Unsupported) {
                    return Err(to_datafusion(error));
                }
            }
            values => return values,
        }
        if rows < 2 {
            return Ok(new_null_array(&self.tried.data_type(batch.schema_ref())?, rows));
        }
        let half = rows / 2;
        let halves = [self.of_rows(&batch.slice(0, half))?, self.of_rows(&batch.slice(half, rows - half))?];
        concat_arrays(&halves, &self.tried.data_type(batch.schema_ref())?).map_err(to_datafusion)
    }
}

impl PartialEq for TryExpr {
    fn eq(&self, other: &Self) -> bool {
        self.tried.as_ref() == other.tried.as_ref()
    }
}

impl Eq for TryExpr {}

impl Hash for TryExpr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.tried.hash(state);
    }
}

impl fmt::Display for TryExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TRY({})", self.tried)
    }
}

impl PhysicalExpr for TryExpr {
    fn data_type(&self, input: &Schema) -> Result<DataType> {
        self.tried.data_type(input)
    }

    fn nullable(&self, _input: &Schema) -> Result<bool> {
        Ok(true)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        // What reads no row gives one value for all of them.
        match (self.tried.evaluate(batch), batch.num_rows()) {
            (Ok(value), _) => Ok(value),
            (Err(_), 0) => Ok(ColumnarValue::Scalar(ScalarValue::try_new_null(&self.data_type(batch.schema_ref())?)?)),
            (Err(_), _) => self.of_rows(batch).map(ColumnarValue::Array),
        }
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.tried]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let [tried] = children.as_slice() else { return internal_err!("TRY has one part") };
        Ok(Arc::new(Self::new(tried.clone())))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Int32Array};
    use arrow::datatypes::{Field, Int32Type};
    use datafusion_expr::Operator;
    use datafusion_physical_expr::expressions::{BinaryExpr, Column, lit};

    use super::*;

    #[test]
    fn rows_that_fail_are_null() {
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int32, true)]));
        let values = Int32Array::from(vec![Some(1), Some(0), None, Some(5), Some(0)]);
        let batch = RecordBatch::try_new(schema, vec![Arc::new(values)]).unwrap();
        let divided = BinaryExpr::new(lit(10_i32), Operator::Divide, Arc::new(Column::new("a", 0)));
        let tried = TryExpr::new(Arc::new(divided));
        let found = tried.evaluate(&batch).unwrap().into_array(5).unwrap();
        let found = found.as_primitive::<Int32Type>().iter().collect::<Vec<_>>();
        assert_eq!(found, [Some(10), None, None, Some(2), None]);
        let none = tried.evaluate(&batch.slice(0, 0)).unwrap().into_array(0).unwrap();
        assert!(none.is_empty());
    }
}
