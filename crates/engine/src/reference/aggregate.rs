//! The slow judge of aggregates: rows of scalars in a map by group, one value after the other.
//!
//! Counts, sums, averages, extremes and their DISTINCT forms are computed here from scratch; every other function is
//! DataFusion's `Accumulator`, given the rows of one group in the order in which they came.

use std::collections::BTreeMap;

use arrow::array::{ArrayRef, AsArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion_common::ScalarValue;
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::{from_arrow, from_datafusion};

use super::sort::{compare_floats, only_one};
use crate::batch::{Batch, concat_arrays, to_logical};
use crate::expressions::Expr;
use crate::plan::{Aggregate, AggregateCall};

/// The values of one row.
pub type Row = Vec<ScalarValue>;

/// The rows of an aggregate over batches, in the order of their groups' text.
pub fn aggregate(plan: &Aggregate, batches: &[Batch], input: &SchemaRef, output: &SchemaRef) -> Result<Vec<Row>> {
    let groups = plan.groups.iter().map(|group| values(group, batches)).collect::<Result<Vec<_>>>()?;
    let rows = batches.iter().map(Batch::rows).sum::<usize>();
    let sets = if plan.has_grouping_id { plan.grouping_sets.clone() } else { vec![vec![false; groups.len()]] };
    let mut members: BTreeMap<String, (Row, Vec<u32>)> = BTreeMap::new();
    for (number, masked) in sets.iter().enumerate() {
        let id = plan.has_grouping_id.then(|| grouping_id(&sets, number, output.field(groups.len()).data_type()));
        let id = id.transpose()?;
        let key_of = |row: Option<usize>| {
            let mut key = Vec::new();
            for (column, group) in groups.iter().enumerate() {
                key.push(match row {
                    Some(row) if !masked[column] => scalar(group, row)?,
                    _ => ScalarValue::try_from(plan.groups[column].data_type()).map_err(from_datafusion)?,
                });
            }
            key.extend(id.clone());
            Ok::<_, Error>(key)
        };
        for row in 0..rows {
            let key = key_of(Some(row))?;
            members.entry(text(&key)).or_insert_with(|| (key, Vec::new())).1.push(row as u32);
        }
        // A grand total exists even without rows: the only group of no GROUP BY, or of an empty grouping set.
        let total = groups.is_empty() || (plan.has_grouping_id && masked.iter().all(|&masked| masked));
        if rows == 0 && total {
            let key = key_of(None)?;
            members.entry(text(&key)).or_insert_with(|| (key, Vec::new()));
        }
    }
    let inputs = plan.aggregates.iter().map(|call| Inputs::new(call, batches, input)).collect::<Result<Vec<_>>>()?;
    members
        .into_values()
        .map(|(mut row, members)| {
            for (call, inputs) in plan.aggregates.iter().zip(&inputs) {
                row.push(inputs.result(call, &members)?);
            }
            Ok(row)
        })
        .collect()
}

/// The masks as bits, the first column's the highest, and above them how many equal sets came before.
fn grouping_id(sets: &[Vec<bool>], number: usize, data_type: &DataType) -> Result<ScalarValue> {
    let masked = &sets[number];
    let before = sets[..number].iter().filter(|other| *other == masked).count() as u64;
    let bits = masked.iter().fold(0u64, |bits, &masked| bits << 1 | masked as u64);
    let id = bits | before.checked_shl(masked.len() as u32).unwrap_or(0);
    ScalarValue::UInt64(Some(id)).cast_to(data_type).map_err(from_datafusion)
}

/// An expression's values over all batches, logical.
fn values(expression: &Expr, batches: &[Batch]) -> Result<ArrayRef> {
    let arrays = batches
        .iter()
        .map(|batch| to_logical(&expression.evaluate(batch)?.flat()?, expression.data_type()))
        .collect::<Result<Vec<_>>>()?;
    concat_arrays(&arrays, expression.data_type())
}

/// A value, with minus zero made zero: they are one group and one distinct value.
fn scalar(array: &ArrayRef, row: usize) -> Result<ScalarValue> {
    Ok(match ScalarValue::try_from_array(array, row).map_err(from_datafusion)? {
        ScalarValue::Float64(Some(0.0)) => ScalarValue::Float64(Some(0.0)),
        ScalarValue::Float32(Some(0.0)) => ScalarValue::Float32(Some(0.0)),
        other => other,
    })
}

/// What tells groups apart.
pub fn text(row: &[ScalarValue]) -> String {
    row.iter().map(scalar_text).collect::<Vec<_>>().join(" | ")
}

/// Unlike `Debug`, tells a NULL in a list from nothing.
fn scalar_text(value: &ScalarValue) -> String {
    match value {
        ScalarValue::List(list) => format!("{list:?}"),
        other => format!("{other:?}"),
    }
}

/// One aggregate's arguments and filter over all rows.
struct Inputs {
    arguments: Vec<ArrayRef>,
    filter: Option<ArrayRef>,
}

impl Inputs {
    fn new(call: &AggregateCall, batches: &[Batch], input: &SchemaRef) -> Result<Self> {
        let mut expressions = call.arguments.clone();
        for order in call.function.order_bys() {
            expressions.push(Expr::new(order.expr.clone(), input)?);
        }
        let arguments = expressions.iter().map(|argument| values(argument, batches)).collect::<Result<_>>()?;
        let filter = call.filter.as_ref().map(|filter| values(filter, batches)).transpose()?;
        Ok(Self { arguments, filter })
    }

    fn result(&self, call: &AggregateCall, rows: &[u32]) -> Result<ScalarValue> {
        let counts = |row: &u32| {
            self.filter.as_ref().is_none_or(|filter| {
                let filter = filter.as_boolean();
                arrow::array::Array::is_valid(filter, *row as usize) && filter.value(*row as usize)
            })
        };
        let rows = rows.iter().copied().filter(counts).collect::<Vec<_>>();
        let field = call.function.field();
        let result = field.data_type();
        let name = call.function.fun().name();
        if name == "count" && self.arguments.len() <= 1 && !call.function.is_distinct() {
            let counted = match self.arguments.first() {
                Some(argument) => self.some(argument, &rows, false)?.len(),
                None => rows.len(),
            };
            return Ok(ScalarValue::Int64(Some(counted as i64)));
        }
        if let [argument] = self.arguments.as_slice() {
            let values = self.some(argument, &rows, call.function.is_distinct())?;
            match name {
                "count" => return Ok(ScalarValue::Int64(Some(values.len() as i64))),
                "sum" if let Some(sum) = sum(&values, result)? => return Ok(sum),
                "avg" if let Some(average) = average(&values, argument.data_type(), result)? => return Ok(average),
                "min" | "max" => return extreme(&values, result, name == "max"),
                _ => {}
            }
        }
        let mut accumulator = call.function.create_accumulator().map_err(from_datafusion)?;
        let rows = UInt32Array::from(rows);
        let arguments = self.arguments.iter().map(|argument| take(argument, &rows, None));
        let arguments = arguments.collect::<Result<Vec<_>, _>>().map_err(from_arrow)?;
        accumulator.update_batch(&arguments).map_err(from_datafusion)?;
        accumulator.evaluate().map_err(from_datafusion)
    }

    /// The values of these rows that are not NULL, each only once if `distinct`.
    fn some(&self, argument: &ArrayRef, rows: &[u32], distinct: bool) -> Result<Vec<ScalarValue>> {
        let mut values = Vec::new();
        let mut known = BTreeMap::new();
        for &row in rows {
            let value = ScalarValue::try_from_array(argument, row as usize).map_err(from_datafusion)?;
            let key = scalar_text(&scalar(argument, row as usize)?);
            if !value.is_null() && (!distinct || known.insert(key, ()).is_none()) {
                values.push(value);
            }
        }
        Ok(values)
    }
}

fn sum(values: &[ScalarValue], result: &DataType) -> Result<Option<ScalarValue>> {
    let any = !values.is_empty();
    let overflow = || Error::value(format!("arithmetic overflow: a sum does not fit {result}"));
    Ok(Some(match result {
        DataType::Int64 => {
            let sum = i64::try_from(exact_sum(values)).map_err(|_| overflow())?;
            ScalarValue::Int64(any.then_some(sum))
        }
        DataType::UInt64 => {
            let sum = u64::try_from(exact_sum(values)).map_err(|_| overflow())?;
            ScalarValue::UInt64(any.then_some(sum))
        }
        DataType::Float64 => ScalarValue::Float64(any.then(|| float_sum(values))),
        DataType::Decimal128(precision, scale) => {
            let sum = exact_sum(values);
            if sum.unsigned_abs() >= 10u128.pow(u32::from(*precision)) {
                return Err(overflow());
            }
            ScalarValue::Decimal128(any.then_some(sum), *precision, *scale)
        }
        _ => return Ok(None),
    }))
}

fn float_sum(values: &[ScalarValue]) -> f64 {
    values.iter().fold(0.0, |sum, value| match value {
        ScalarValue::Float64(Some(value)) => sum + value,
        _ => sum,
    })
}

fn exact_sum(values: &[ScalarValue]) -> i128 {
    values.iter().fold(0i128, |sum, value| match value {
        ScalarValue::Int64(Some(value)) => sum + i128::from(*value),
        ScalarValue::UInt64(Some(value)) => sum + i128::from(*value),
        ScalarValue::Decimal128(Some(value), _, _) => sum + value,
        _ => sum,
    })
}

fn average(values: &[ScalarValue], argument: &DataType, result: &DataType) -> Result<Option<ScalarValue>> {
    let count = values.len();
    Ok(match (argument, result) {
        (DataType::Float64, DataType::Float64) => {
            Some(ScalarValue::Float64((count > 0).then(|| float_sum(values) / count as f64)))
        }
        // Beyond 25 digits DataFusion adds up in 256 bits.
        (DataType::Decimal128(1..=25, from), DataType::Decimal128(precision, scale)) => {
            let average = match count {
                0 => None,
                _ => {
                    let shift = 10i128.pow((scale - from) as u32);
                    let average = exact_sum(values).checked_mul(shift).map(|sum| sum / count as i128);
                    let fits = average.filter(|average| average.abs() < 10i128.pow(*precision as u32));
                    Some(fits.ok_or_else(|| Error::value("an average does not fit"))?)
                }
            };
            Some(ScalarValue::Decimal128(average, *precision, *scale))
        }
        _ => None,
    })
}

fn extreme(values: &[ScalarValue], result: &DataType, max: bool) -> Result<ScalarValue> {
    use std::cmp::Ordering;
    let order = |a: &ScalarValue, b: &ScalarValue| match (a, b) {
        (ScalarValue::Float64(Some(a)), ScalarValue::Float64(Some(b))) => compare_floats(*a, *b),
        (ScalarValue::Float32(Some(a)), ScalarValue::Float32(Some(b))) => compare_floats((*a).into(), (*b).into()),
        _ => a.partial_cmp(b).unwrap_or(Ordering::Equal),
    };
    let best = if max { values.iter().max_by(|a, b| order(a, b)) } else { values.iter().min_by(|a, b| order(a, b)) };
    match best {
        Some(ScalarValue::Float64(Some(best))) => Ok(ScalarValue::Float64(Some(only_one(*best)))),
        Some(ScalarValue::Float32(Some(best))) => Ok(ScalarValue::Float32(Some(only_one((*best).into()) as f32))),
        Some(best) => Ok(best.clone()),
        None => ScalarValue::try_from(result).map_err(from_datafusion),
    }
}
