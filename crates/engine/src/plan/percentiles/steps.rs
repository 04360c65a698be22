//! The three steps that no expression of DataFusion takes: what stands for a value while it is put in order, whether a
//! row is one of those that a quantile is made of, and the quantile.

use std::fmt;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowNumericType, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray, RecordBatch,
};
use arrow::datatypes::{
    DataType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, Float16Type, Float32Type, Float64Type,
    Int32Type, Int64Type, Schema, UInt64Type,
};
use datafusion_common::{Result, internal_err};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;

use super::quantile::{Float, Quantile, middle};

/// A step over the values of other expressions.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct PercentileStep {
    kind: StepKind,
    operands: Vec<Arc<dyn PhysicalExpr>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum StepKind {
    Rank(DataType),
    IsNear(Quantile),
    Value(Quantile, DataType),
}

/// The type of what stands for values while they are put in order: for a float its rank, for a narrow decimal its
/// digits, any other value for itself. `None` for types of which no quantile is taken here.
pub(super) fn rank_type(values: &DataType) -> Option<DataType> {
    match values {
        DataType::Float16 => Some(DataType::Int16),
        DataType::Float32 | DataType::Decimal32(..) => Some(DataType::Int32),
        DataType::Float64 | DataType::Decimal64(..) => Some(DataType::Int64),
        DataType::Decimal128(..) | DataType::Decimal256(..) => Some(values.clone()),
        _ => None,
    }
}

impl PercentileStep {
    /// What [stands for](rank_type) a value.
    pub fn rank(value: Arc<dyn PhysicalExpr>, of: DataType) -> Arc<dyn PhysicalExpr> {
        Arc::new(Self { kind: StepKind::Rank(of), operands: vec![value] })
    }

    /// Whether the row with a number (`UInt64`, from 1 on) has a value that the quantile is made of, where so many
    /// values (`Int64`, NULL for none) come first.
    pub fn is_near(
        quantile: Quantile,
        number: Arc<dyn PhysicalExpr>,
        count: Arc<dyn PhysicalExpr>,
    ) -> Arc<dyn PhysicalExpr> {
        Arc::new(Self { kind: StepKind::IsNear(quantile), operands: vec![number, count] })
    }

    /// The quantile of so many values (`Int64`) of a type, from [what stands for](rank_type) the two that it is made
    /// of; NULL where there are none.
    pub fn value(quantile: Quantile, of: DataType, operands: [Arc<dyn PhysicalExpr>; 3]) -> Arc<dyn PhysicalExpr> {
        Arc::new(Self { kind: StepKind::Value(quantile, of), operands: operands.into() })
    }
}

impl fmt::Display for PercentileStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            StepKind::Rank(_) => f.write_str("rank")?,
            StepKind::IsNear(quantile) => write!(f, "near {quantile}")?,
            StepKind::Value(quantile, _) => write!(f, "{quantile}")?,
        }
        let operands = self.operands.iter().map(ToString::to_string).collect::<Vec<_>>();
        write!(f, "({})", operands.join(", "))
    }
}

impl PhysicalExpr for PercentileStep {
    fn data_type(&self, _input: &Schema) -> Result<DataType> {
        match &self.kind {
            StepKind::Rank(of) => match rank_type(of) {
                Some(ranks) => Ok(ranks),
                None => internal_err!("ranks of {of}"),
            },
            StepKind::IsNear(_) => Ok(DataType::Boolean),
            StepKind::Value(_, of) => Ok(of.clone()),
        }
    }

    fn nullable(&self, input: &Schema) -> Result<bool> {
        match (&self.kind, self.operands.as_slice()) {
            (StepKind::Rank(_), [value]) => value.nullable(input),
            (StepKind::IsNear(_), _) => Ok(false),
            _ => Ok(true),
        }
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let array = |operand: &Arc<dyn PhysicalExpr>| operand.evaluate(batch)?.into_array(batch.num_rows());
        let arrays = self.operands.iter().map(array).collect::<Result<Vec<_>>>()?;
        let values = match (&self.kind, arrays.as_slice()) {
            (StepKind::Rank(DataType::Float16), [values]) => ranks::<Float16Type>(values),
            (StepKind::Rank(DataType::Float32), [values]) => ranks::<Float32Type>(values),
            (StepKind::Rank(DataType::Float64), [values]) => ranks::<Float64Type>(values),
            (StepKind::Rank(DataType::Decimal32(..)), [values]) => digits::<Decimal32Type, Int32Type>(values),
            (StepKind::Rank(DataType::Decimal64(..)), [values]) => digits::<Decimal64Type, Int64Type>(values),
            (StepKind::IsNear(quantile), [numbers, counts]) => near(*quantile, numbers, counts),
            (StepKind::Value(quantile, of), [low, high, counts]) => match (of, quantile) {
                (DataType::Float16, _) => floats::<Float16Type>(*quantile, low, high, counts),
                (DataType::Float32, _) => floats::<Float32Type>(*quantile, low, high, counts),
                (DataType::Float64, _) => floats::<Float64Type>(*quantile, low, high, counts),
                (DataType::Decimal32(..), Quantile::Median) => decimals::<Decimal32Type, Int32Type>(low, high, of),
                (DataType::Decimal64(..), Quantile::Median) => decimals::<Decimal64Type, Int64Type>(low, high, of),
                (DataType::Decimal128(..), Quantile::Median) => {
                    decimals::<Decimal128Type, Decimal128Type>(low, high, of)
                }
                (DataType::Decimal256(..), Quantile::Median) => {
                    decimals::<Decimal256Type, Decimal256Type>(low, high, of)
                }
                (DataType::Decimal32(..), Quantile::Discrete { .. }) => of_digits::<Decimal32Type, Int32Type>(low, of),
                (DataType::Decimal64(..), Quantile::Discrete { .. }) => of_digits::<Decimal64Type, Int64Type>(low, of),
                (_, Quantile::Discrete { .. }) => low.clone(),
                _ => return internal_err!("a quantile of {of}"),
            },
            _ => return internal_err!("a step of a quantile over {} operands", self.operands.len()),
        };
        Ok(ColumnarValue::Array(values))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.operands.iter().collect()
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(Self { kind: self.kind.clone(), operands: children }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn ranks<T: Float>(values: &ArrayRef) -> ArrayRef {
    Arc::new(values.as_primitive::<T>().unary::<_, T::Rank>(T::rank))
}

fn digits<T: ArrowPrimitiveType, R: ArrowPrimitiveType<Native = T::Native>>(values: &ArrayRef) -> ArrayRef {
    Arc::new(values.as_primitive::<T>().reinterpret_cast::<R>())
}

fn of_digits<T: ArrowPrimitiveType, R: ArrowPrimitiveType<Native = T::Native>>(
    digits: &ArrayRef,
    of: &DataType,
) -> ArrayRef {
    Arc::new(digits.as_primitive::<R>().reinterpret_cast::<T>().with_data_type(of.clone()))
}

fn near(quantile: Quantile, numbers: &ArrayRef, counts: &ArrayRef) -> ArrayRef {
    let (numbers, counts) = (numbers.as_primitive::<UInt64Type>(), counts.as_primitive::<Int64Type>());
    let mut last = (0, (0, 0));
    let is_near = |row: usize| {
        let count = if counts.is_valid(row) { counts.value(row) as u64 } else { 0 };
        let number = numbers.value(row);
        // Rows behind the values have NULLs.
        if number == 0 || number > count {
            return false;
        }
        if last.0 != count {
            last = (count, quantile.places(count));
        }
        let (lower, upper) = last.1;
        number - 1 == lower || number - 1 == upper
    };
    Arc::new(BooleanArray::from((0..numbers.len()).map(is_near).collect::<Vec<_>>()))
}

/// What `value` makes of two that stand for values and of how many there are; NULL where there are none.
fn values<'a, R: ArrowPrimitiveType, V>(
    low: &'a ArrayRef,
    high: &'a ArrayRef,
    value: impl Fn(R::Native, R::Native, usize) -> V + 'a,
) -> impl Iterator<Item = Option<V>> + 'a {
    let (low, high) = (low.as_primitive::<R>(), high.as_primitive::<R>());
    (0..low.len()).map(move |row| low.is_valid(row).then(|| value(low.value(row), high.value(row), row)))
}

fn floats<T: Float>(quantile: Quantile, low: &ArrayRef, high: &ArrayRef, counts: &ArrayRef) -> ArrayRef {
    let counts = counts.as_primitive::<Int64Type>();
    let value = |low, high, row| quantile.of_floats::<T>(T::of_rank(low), T::of_rank(high), counts.value(row) as u64);
    Arc::new(values::<T::Rank, _>(low, high, value).collect::<PrimitiveArray<T>>())
}

/// The medians of decimals. Of an odd number there is one in the middle, which is both: a sum of equal ones, halved, is
/// each of them.
fn decimals<T: ArrowNumericType, R: ArrowPrimitiveType<Native = T::Native>>(
    low: &ArrayRef,
    high: &ArrayRef,
    of: &DataType,
) -> ArrayRef {
    let values = values::<R, _>(low, high, |low, high, _| middle::<T>(low, high));
    Arc::new(values.collect::<PrimitiveArray<T>>().with_data_type(of.clone()))
}
