//! Elements of arrays as rows.
//!
//! Each input row is joined with the elements of its arrays, side by side: the first elements of all arrays make the
//! first row, the second ones the second; an array that has fewer is padded with NULLs. A row without elements gives no
//! row, or one of NULLs (`keeps_all`).
//!
//! One input row may have millions of elements, so a batch of input goes out in pieces of at most a batch's rows each.
//! Where arrays are computed, such as `generate_series` of two columns, few input rows are taken at first.
//!
//! Invariants:
//! * Rows come out in the order of the input's rows, and of the elements within a row.
//! * Values do not move: columns of the input and elements are picked.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray, UInt32Array, new_null_array};
use arrow::compute::take;
use arrow::datatypes::DataType;
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_arrow;

use super::widening::Widening;
use crate::batch::{Batch, Column};
use crate::expressions::Expr;
use crate::flow::{Flow, Operator, OperatorState, Output, QueryContext};
use crate::plan;

/// The operator as planned.
pub struct UnnestRows {
    node: Arc<Planned>,
}

struct Planned {
    kept: Vec<usize>,
    arrays: Vec<UnnestedArray>,
    ordinality: bool,
    keeps_all: bool,
}

#[derive(Clone)]
struct UnnestedArray {
    array: Expr,
    splits: bool,
}

impl UnnestRows {
    /// The operator of a node. Fails with kind `Bug` if what is to be unnested is no array.
    pub fn new(node: &plan::Unnest) -> Result<Arc<Self>> {
        let arrays = node.arrays.iter().map(|(array, splits)| match array.data_type() {
            DataType::List(_) => Ok(UnnestedArray { array: array.clone(), splits: *splits }),
            other => Err(Error::bug(format!("elements of the type {other} are to become rows"))),
        });
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        let planned =
            Planned { kept: node.kept.clone(), arrays, ordinality: node.ordinality, keeps_all: node.keeps_all };
        Ok(Arc::new(Self { node: Arc::new(planned) }))
    }
}

impl Operator for UnnestRows {
    fn name(&self) -> &'static str {
        "Unnest"
    }

    fn open(&self, context: &QueryContext) -> Result<Box<dyn OperatorState>> {
        let made = self.node.arrays.iter().map(|unnested| &unnested.array).filter(|array| array.as_column().is_none());
        let widening = Widening::of(made.map(Expr::data_type), context.batch_bytes());
        let (node, batch_rows) = (self.node.clone(), context.batch_rows.max(1));
        Ok(Box::new(UnnestState { node, batch_rows, widening, current: None }))
    }
}

struct UnnestState {
    node: Arc<Planned>,
    batch_rows: usize,
    /// How many input rows are taken at once, where arrays are computed.
    widening: Option<Widening>,
    current: Option<Unnesting>,
}

/// A batch of input on its way out.
struct Unnesting {
    input: Batch,
    lists: Vec<ListArray>,
    /// The input row at hand, and how many of its rows are out.
    row: usize,
    element: usize,
}

impl OperatorState for UnnestState {
    fn rows_max(&self) -> usize {
        self.widening.as_ref().map_or(usize::MAX, Widening::rows)
    }

    fn push(&mut self, input: Batch, out: &mut Output) -> Result<Flow> {
        let columns = self.node.arrays.iter().map(|unnested| unnested.array.evaluate(&input));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        if let Some(widening) = &mut self.widening {
            let made =
                self.node.arrays.iter().zip(&columns).filter(|(unnested, _)| unnested.array.as_column().is_none());
            widening.note(input.rows(), made.map(|(_, column)| column.bytes()).sum());
        }
        let lists = columns.iter().map(|column| {
            let array = column.flat()?;
            array.as_list_opt::<i32>().cloned().ok_or_else(|| Error::bug("an array of another type than planned"))
        });
        let lists = lists.collect::<Result<Vec<_>>>()?;
        self.current = Some(Unnesting { input, lists, row: 0, element: 0 });
        self.more(out)
    }

    fn more(&mut self, out: &mut Output) -> Result<Flow> {
        let Some(mut current) = self.current.take() else { return Ok(Flow::NeedInput) };
        let batch = current.next(&self.node, self.batch_rows)?;
        out.emit(batch);
        if current.row < current.input.rows() {
            self.current = Some(current);
            return Ok(Flow::MoreOutput);
        }
        Ok(Flow::NeedInput)
    }
}

impl Unnesting {
    /// The next rows, at most so many.
    fn next(&mut self, node: &Planned, rows_max: usize) -> Result<Batch> {
        let mut rows: Vec<u32> = Vec::new();
        let mut elements: Vec<Vec<Option<u32>>> = self.lists.iter().map(|_| Vec::new()).collect();
        let mut numbers: Vec<Option<i64>> = Vec::new();
        while self.row < self.input.rows() && rows.len() < rows_max {
            let lengths = self.lists.iter().map(|list| length(list, self.row));
            let found = lengths.max().unwrap_or(0);
            let padded = found == 0 && node.keeps_all;
            let total = if padded { 1 } else { found };
            let end = total.min(self.element + (rows_max - rows.len()));
            for element in self.element..end {
                rows.push(self.row as u32);
                numbers.push((!padded).then_some(element as i64 + 1));
                for (list, picked) in self.lists.iter().zip(&mut elements) {
                    let is_there = element < length(list, self.row);
                    picked.push(is_there.then(|| list.value_offsets()[self.row] as u32 + element as u32));
                }
            }
            if end == total {
                self.row += 1;
                self.element = 0;
            } else {
                self.element = end;
            }
        }
        let count = rows.len();
        let picks = UInt32Array::from(rows);
        let mut columns = self.input.project(&node.kept).pick(&picks)?.columns().to_vec();
        for ((list, picked), unnested) in self.lists.iter().zip(elements).zip(&node.arrays) {
            let values = list.values();
            let picked = UInt32Array::from(picked);
            let values = match values.is_empty() {
                true => new_null_array(values.data_type(), count),
                false => take(values, &picked, None).map_err(from_arrow)?,
            };
            match unnested.splits {
                true => columns.extend(fields_of(&values)?.into_iter().map(Column::flat_array)),
                false => columns.push(Column::flat_array(values)),
            }
        }
        if node.ordinality {
            columns.push(Column::flat_array(Arc::new(Int64Array::from(numbers))));
        }
        Ok(Batch::new(columns, count))
    }
}

/// The elements of a row's array; none if it is NULL.
fn length(list: &ListArray, row: usize) -> usize {
    if list.is_null(row) { 0 } else { list.value_length(row) as usize }
}

/// The fields of records; NULL where the record is.
fn fields_of(records: &ArrayRef) -> Result<Vec<ArrayRef>> {
    let records = records.as_struct_opt().ok_or_else(|| Error::bug("elements that are to be split are no records"))?;
    let fields = records.columns().iter().map(|column| {
        let nulls = arrow::buffer::NullBuffer::union(records.nulls(), column.nulls());
        let data = column.to_data().into_builder().nulls(nulls).build().map_err(from_arrow)?;
        Ok(arrow::array::make_array(data))
    });
    fields.collect()
}

#[cfg(test)]
mod tests {
    use arrow::array::types::Int32Type;
    use arrow::datatypes::{Field, Schema};
    use datafusion_expr::{ColumnarValue, Volatility, create_udf};
    use datafusion_physical_expr::{PhysicalExpr, ScalarFunctionExpr};
    use diligence_base::limits::{BATCH_ROWS_MAX, BATCH_ROWS_MIN};

    use super::*;
    use diligence_memory::QueryMemory;

    fn rows(batch_rows: usize, ordinality: bool, keeps_all: bool) -> Vec<(i32, Option<i32>, Option<i32>)> {
        let lists = |lists: Vec<Option<Vec<Option<i32>>>>| {
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists)) as ArrayRef
        };
        let ids: ArrayRef = Arc::new(arrow::array::Int32Array::from(vec![1, 2, 3, 4]));
        let first = lists(vec![Some(vec![Some(10), None, Some(12)]), None, Some(vec![]), Some(vec![Some(40)])]);
        let second = lists(vec![Some(vec![Some(7)]), None, Some(vec![]), Some(vec![Some(8), Some(9)])]);
        let item = || DataType::List(Arc::new(Field::new_list_field(DataType::Int32, true)));
        let schema = Schema::new(vec![
            Field::new("id", DataType::Int32, false),
            Field::new("a", item(), true),
            Field::new("b", item(), true),
        ]);
        let arrays = [1, 2].map(|index| (Expr::column(index, &schema).unwrap(), false)).to_vec();
        let empty = plan::Plan::new(plan::Node::Values { batches: vec![] }, Arc::new(schema));
        let node = plan::Unnest { input: Box::new(empty), kept: vec![0], arrays, ordinality, keeps_all };
        let context = QueryContext { memory: QueryMemory::unbounded(), temp: None, batch_rows, packets: 1 };
        let mut state = UnnestRows::new(&node).unwrap().open(&context).unwrap();
        let mut out = Output::default();
        let mut flow = state.push(Batch::from_arrays(vec![ids, first, second], 4), &mut out).unwrap();
        while flow == Flow::MoreOutput {
            flow = state.more(&mut out).unwrap();
        }
        let mut found = Vec::new();
        while let Some(batch) = out.take() {
            assert!(batch.rows() <= batch_rows);
            let column = |index: usize| batch.flat(index).unwrap();
            let (ids, a, b) = (column(0), column(1), column(2));
            let value = |array: &ArrayRef, row: usize| {
                array.is_valid(row).then(|| array.as_primitive::<Int32Type>().value(row))
            };
            for row in 0..batch.rows() {
                found.push((value(&ids, row).unwrap(), value(&a, row), value(&b, row)));
            }
        }
        found
    }

    #[test]
    fn elements_come_side_by_side_and_shorter_arrays_are_padded() {
        let all = vec![
            (1, Some(10), Some(7)),
            (1, None, None),
            (1, Some(12), None),
            (4, Some(40), Some(8)),
            (4, None, Some(9)),
        ];
        for batch_rows in [1, 2, 3, BATCH_ROWS_MAX] {
            assert_eq!(rows(batch_rows, false, false), all, "{batch_rows} rows in a batch");
        }
        let mut kept = all.clone();
        kept.splice(3..3, [(2, None, None), (3, None, None)]);
        assert_eq!(rows(2, true, true), kept);
    }

    #[test]
    fn few_rows_are_taken_at_once_where_arrays_are_computed() {
        let lists = || DataType::List(Arc::new(Field::new_list_field(DataType::Int32, true)));
        let longer = |arguments: &[ColumnarValue]| {
            let numbers = arguments[0].to_array(1)?;
            let lists = numbers.as_primitive::<Int32Type>().iter().map(|length| Some(vec![length; 10_000]));
            Ok(ColumnarValue::Array(Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists))))
        };
        let function = create_udf("longer", vec![DataType::Int32], lists(), Volatility::Immutable, Arc::new(longer));
        let schema = Schema::new(vec![Field::new("n", DataType::Int32, false), Field::new("l", lists(), true)]);
        let column: Arc<dyn PhysicalExpr> = Arc::new(datafusion_physical_expr::expressions::Column::new("n", 0));
        let field = Arc::new(Field::new("longer", lists(), true));
        let call = ScalarFunctionExpr::new("longer", Arc::new(function), vec![column], field, Arc::default());
        let made = Expr::new(Arc::new(call), &schema).unwrap();
        let rows_max = |array: Expr, rows: Option<usize>| {
            let input = Box::new(plan::Plan::new(plan::Node::Values { batches: vec![] }, Arc::new(schema.clone())));
            let arrays = vec![(array, false)];
            let node = plan::Unnest { input, kept: vec![0], arrays, ordinality: false, keeps_all: false };
            let context =
                QueryContext { memory: QueryMemory::unbounded(), temp: None, batch_rows: BATCH_ROWS_MAX, packets: 1 };
            let mut state = UnnestRows::new(&node).unwrap().open(&context).unwrap();
            if let Some(rows) = rows {
                let numbers: ArrayRef = Arc::new(arrow::array::Int32Array::from(vec![7; rows]));
                let nothing = new_null_array(&lists(), rows);
                let input = Batch::from_arrays(vec![numbers, nothing], rows);
                state.push(input, &mut Output::default()).unwrap();
            }
            state.rows_max()
        };
        assert_eq!(rows_max(made.clone(), None), BATCH_ROWS_MIN);
        let fitting = rows_max(made, Some(BATCH_ROWS_MIN));
        assert!(fitting < 128, "40 kB a row: {fitting}");
        assert_eq!(rows_max(Expr::column(1, &schema).unwrap(), Some(10)), usize::MAX);
    }
}
