//! What DataFusion evaluates: any physical expression, on the logical forms of exactly the values it reads.
//!
//! What it reads are columns of the batch, or sub-expressions that we evaluate ourselves first. The latter only under
//! nodes that always evaluate all their children: under others, DataFusion decides which rows a child sees.
//!
//! What reads one value, and always gives the same for it, is computed of the values of a dictionary, and the rows look
//! theirs up. If that fails, it may be for a value that no row has; from then on it is computed of the rows.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow::compute::{concat, take};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::Column as ColumnExpr;
use datafusion_physical_expr_common::physical_expr::is_volatile;
use diligence_base::Result;
use diligence_storage::foreign_error::{from_arrow, from_datafusion};

use super::Node;
use crate::batch::{Batch, to_logical};
use crate::expressions::operand::Operand;
use crate::expressions::outside::calls_outside;
use crate::expressions::pieces::{measured, note_made};
use crate::expressions::read_columns;
use crate::expressions::remembered::Remembered;
use crate::sync::atomic::{AtomicBool, Ordering};

/// What is computed of a dictionary is remembered if it has no more bytes.
const REMEMBERED_BYTES_MAX: usize = 1 << 20;

/// A physical expression over inputs of its own.
#[derive(Debug)]
pub(in crate::expressions) struct Foreign {
    physical: Arc<dyn PhysicalExpr>,
    pub(in crate::expressions) inputs: Vec<Node>,
    /// A field per input.
    schema: SchemaRef,
    pub(in crate::expressions) volatile: bool,
    /// Whether it waits for something outside of the engine, which takes longer than anything else.
    pub(in crate::expressions) outside: bool,
    /// What it has given for the values of dictionaries, and for NULL behind them.
    remembered: Remembered<ArrayRef>,
    /// Whether it has failed for a value of a dictionary.
    fails: AtomicBool,
}

impl Foreign {
    /// The whole expression, over the columns it reads.
    pub(in crate::expressions) fn over_columns(physical: &Arc<dyn PhysicalExpr>, input: &Schema) -> Result<Self> {
        let columns = read_columns(physical)?;
        let schema = Arc::new(input.project(&columns).map_err(from_arrow)?);
        let inputs = columns.iter().map(|&index| Node::column(index, input.field(index).data_type())).collect();
        let (volatile, outside) = (is_volatile(physical), calls_outside(physical));
        Self::new(renumbered(physical, &columns)?, inputs, schema, volatile, outside)
    }

    /// The expression over values, with their fields, for some of its children, which it must evaluate for every row
    /// anyway. `None` stands for a child that stays as it is and reads no columns.
    pub(in crate::expressions) fn over_children(
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
        Self::new(physical, inputs, Arc::new(Schema::new(fields)), volatile, outside)
    }

    fn new(
        physical: Arc<dyn PhysicalExpr>,
        inputs: Vec<Node>,
        schema: SchemaRef,
        volatile: bool,
        outside: bool,
    ) -> Result<Self> {
        let (physical, fails) = (measured(physical)?, AtomicBool::new(false));
        Ok(Self { physical, inputs, schema, volatile, outside, remembered: Remembered::default(), fails })
    }

    /// The values for a batch's rows.
    pub(in crate::expressions) fn evaluate(&self, batch: &Batch) -> Result<Operand> {
        let mut arrays = Vec::with_capacity(self.inputs.len());
        for (input, field) in self.inputs.iter().zip(self.schema.fields()) {
            let operand = input.evaluate(batch)?;
            if !operand.constant
                && let Some(found) = self.of_dictionary(&operand.array)?
            {
                return Ok(Operand::rows(found));
            }
            arrays.push(to_logical(&operand.into_array(batch.rows())?, field.data_type())?);
        }
        self.of_arrays(arrays, batch.rows())
    }

    fn of_arrays(&self, arrays: Vec<ArrayRef>, rows: usize) -> Result<Operand> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let input = RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options).map_err(from_arrow)?;
        let operand = Operand::from_columnar(self.physical.evaluate(&input).map_err(from_datafusion)?)?;
        debug_assert!(operand.constant || operand.array.len() == rows, "a value for every row");
        note_made(&operand.array);
        Ok(operand)
    }

    /// What it gives for the rows of a dictionary, by the values of this; `None` if it had better be computed of rows.
    fn of_dictionary(&self, array: &ArrayRef) -> Result<Option<ArrayRef>> {
        let ([field], DataType::Dictionary(..)) = (self.schema.fields().as_ref(), array.data_type()) else {
            return Ok(None);
        };
        let dictionary = array.as_any_dictionary();
        let values = dictionary.values();
        let is_fit = !self.volatile && !self.outside && !self.fails.load(Ordering::Relaxed);
        if !is_fit || values.is_empty() || !self.remembered.is_worth(values, array.len()) {
            return Ok(None);
        }
        let found = match self.remembered.of(values) {
            Some(found) => found,
            None => {
                let null = new_null_array(field.data_type(), 1);
                let with_null = concat(&[&to_logical(values, field.data_type())?, &null]).map_err(from_arrow)?;
                let rows = with_null.len();
                let Ok(found) = self.of_arrays(vec![with_null], rows).and_then(|found| found.into_array(rows)) else {
                    self.fails.store(true, Ordering::Relaxed);
                    return Ok(None);
                };
                if found.get_array_memory_size() <= REMEMBERED_BYTES_MAX {
                    self.remembered.put(values, &found);
                }
                found
            }
        };
        let null = values.len();
        let keys = dictionary.normalized_keys().into_iter().enumerate();
        let places = keys.map(|(row, key)| if dictionary.is_null(row) { null } else { key } as u32);
        let places = UInt32Array::from_iter_values(places);
        take(&found, &places, None).map(Some).map_err(from_arrow)
    }
}

/// The expression with its columns numbered by their places in `columns`, which is ascending.
pub(in crate::expressions) fn renumbered(
    physical: &Arc<dyn PhysicalExpr>,
    columns: &[usize],
) -> Result<Arc<dyn PhysicalExpr>> {
    let renumber = |node: Arc<dyn PhysicalExpr>| {
        let Some(column) = node.downcast_ref::<ColumnExpr>() else { return Ok(Transformed::no(node)) };
        let index = columns.partition_point(|&other| other < column.index());
        let column: Arc<dyn PhysicalExpr> = Arc::new(ColumnExpr::new(column.name(), index));
        Ok(Transformed::yes(column))
    };
    Ok(physical.clone().transform(renumber).map_err(from_datafusion)?.data)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use arrow::array::{DictionaryArray, Int32Array, StringArray, StringViewArray};
    use datafusion_common::ScalarValue;
    use datafusion_expr::{ColumnarValue, Volatility, create_udf};
    use datafusion_physical_expr::ScalarFunctionExpr;

    use super::*;

    /// The length of a text, 0 of NULL; an error for a text.
    fn lengths(fails_for: &'static str, asked: &Arc<AtomicUsize>) -> Foreign {
        let asked = asked.clone();
        let length = move |arguments: &[ColumnarValue]| {
            let texts = arguments[0].to_array(1)?;
            asked.fetch_add(texts.len(), std::sync::atomic::Ordering::Relaxed);
            let texts = texts.as_string_view();
            if texts.iter().any(|text| text == Some(fails_for)) {
                return datafusion_common::exec_err!("it was that text");
            }
            let lengths = texts.iter().map(|text| text.map_or(0, str::len) as i32);
            Ok(ColumnarValue::Array(Arc::new(Int32Array::from_iter_values(lengths))))
        };
        let arguments = vec![DataType::Utf8View];
        let function = create_udf("length", arguments, DataType::Int32, Volatility::Immutable, Arc::new(length));
        let schema = Schema::new(vec![Field::new("text", DataType::Utf8View, true)]);
        let column: Arc<dyn PhysicalExpr> = Arc::new(ColumnExpr::new("text", 0));
        let returns = Arc::new(Field::new("length", DataType::Int32, true));
        let call = ScalarFunctionExpr::new("length", Arc::new(function), vec![column], returns, Arc::default());
        Foreign::over_columns(&(Arc::new(call) as Arc<dyn PhysicalExpr>), &schema).unwrap()
    }

    #[test]
    fn a_function_is_computed_of_the_values_of_a_dictionary() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "bb", "ccc", "never"]));
        let keys = (0..2_000).map(|row| (row % 5 > 0).then_some(row % 3)).collect::<Int32Array>();
        let expected = keys.iter().map(|key| key.map_or(0, |key| key + 1)).collect::<Vec<_>>();
        let codes: ArrayRef = Arc::new(DictionaryArray::new(keys, texts));
        for (fails_for, asked_at_all) in [("no text", 5), ("never", 5 + 2 * 2_000)] {
            let asked = Arc::default();
            let lengths = lengths(fails_for, &asked);
            for _ in 0..2 {
                let found = lengths.evaluate(&Batch::from_arrays(vec![codes.clone()], 2_000)).unwrap();
                let found = found.into_array(2_000).unwrap();
                let found = found.as_primitive::<arrow::datatypes::Int32Type>().values().to_vec();
                assert_eq!(found, expected);
            }
            assert_eq!(asked.load(std::sync::atomic::Ordering::Relaxed), asked_at_all);
        }
    }

    #[test]
    fn rows_of_no_dictionary_are_computed_one_by_one() {
        let asked = Arc::default();
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["a"; 100]));
        let found = lengths("no text", &asked).evaluate(&Batch::from_arrays(vec![texts], 100)).unwrap();
        assert_eq!(ScalarValue::try_from_array(&found.array, 99).unwrap(), ScalarValue::Int32(Some(1)));
        assert_eq!(asked.load(std::sync::atomic::Ordering::Relaxed), 100);
    }
}
