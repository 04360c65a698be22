//! Aggregates of all rows of a group at once: in an order (`array_agg(x ORDER BY y)`, WITHIN GROUP), each once
//! (DISTINCT), or because the value is made of all of them (`string_agg`, `mode`, percentiles).
//!
//! Rows are kept as they come, each with the number of its group. When the values are wanted, one sort puts the rows of
//! all groups in order, by group first; DISTINCT leaves out a row whose keys are those of the row before:
//!
//! ```text
//!   columns   arguments | keys of the order     one piece for each batch
//!   groups    2 0 1 0 …                         one number for each row
//!                 |  sorted by (group, keys), once each
//!   values    one of each group's stretch of arguments      of_rows.rs, or an accumulator of the function
//! ```
//!
//! States are lists of such rows, so they can be merged, and go to temp space, like those of any other aggregate. Of
//! rows that count once, or of which only the number counts (`mode`), repetitions are left out from time to time: many
//! rows of few values take little memory. The number is then one more column of the rows.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, ListArray, StructArray, UInt32Array, new_empty_array,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{SortOptions, concat, filter, take};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Int64Type, Schema};
use datafusion_common::{Result, ScalarValue, exec_datafusion_err};
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::utils::AggregateOrderSensitivity;
use datafusion_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion_physical_expr::expressions::Column;

use super::of_rows::{RowsFunction, Stretches};
use super::percentiles::percentiles;
use super::row_order::RowOrder;
use crate::SqlType;
use crate::values::value_at;

/// What is computed of a group's rows.
#[derive(Clone, Debug)]
pub enum Computed {
    /// One of our own.
    Function(RowsFunction),
    /// An aggregate that takes rows in any order, one after the other.
    Aggregate(Arc<AggregateUDF>),
}

impl Computed {
    /// Whether it only matters how many rows have a key.
    fn counts_rows(&self) -> bool {
        matches!(self, Self::Function(RowsFunction::Mode))
    }
}

/// An aggregate of a group's rows in an order, or each once. Its arguments are those of the function, and behind them
/// the keys of the order.
#[derive(Debug)]
struct Rows {
    name: String,
    computed: Computed,
    /// The accumulators' maker, of an aggregate.
    aggregate: Option<Arc<AggregateFunctionExpr>>,
    /// How many of the arguments are the function's; the rest are keys.
    arguments: usize,
    keys: Vec<SortOptions>,
    is_distinct: bool,
    types: Vec<DataType>,
    returns: SqlType,
    signature: Signature,
}

/// The aggregate of arguments of these types, and of keys of these types with the directions in which they sort.
/// `is_distinct`: of rows with equal keys the first counts. Fails if an aggregate does not take the arguments.
pub fn rows_udaf(
    computed: Computed,
    arguments: &[DataType],
    keys: &[(DataType, SortOptions)],
    is_distinct: bool,
    returns: &SqlType,
) -> Result<Arc<AggregateUDF>> {
    let types = arguments.iter().chain(keys.iter().map(|(data_type, _)| data_type)).cloned().collect::<Vec<_>>();
    let aggregate = match &computed {
        Computed::Function(_) => None,
        Computed::Aggregate(function) => {
            let fields = arguments.iter().enumerate();
            let fields = fields.map(|(index, data_type)| Field::new(index.to_string(), data_type.clone(), true));
            let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
            let columns = (0..arguments.len())
                .map(|index| -> Arc<dyn PhysicalExpr> { Arc::new(Column::new(&index.to_string(), index)) });
            let builder = AggregateExprBuilder::new(function.clone(), columns.collect()).schema(schema);
            Some(Arc::new(builder.alias(function.name()).build()?))
        }
    };
    let name = match &computed {
        // The engine sorts many values instead (`plan/percentiles`), and knows them by this name.
        Computed::Function(function @ RowsFunction::Percentile(_))
            if keys.iter().any(|(_, options)| options.descending) =>
        {
            format!("{} desc", function.name())
        }
        Computed::Function(function) => function.name().to_owned(),
        Computed::Aggregate(function) => function.name().to_owned(),
    };
    Ok(Arc::new(AggregateUDF::from(Rows {
        name,
        computed,
        aggregate,
        arguments: arguments.len(),
        keys: keys.iter().map(|(_, options)| *options).collect(),
        is_distinct,
        signature: Signature::any(types.len(), Volatility::Immutable),
        types,
        returns: returns.clone(),
    })))
}

/// What [`rows_udaf`] was given for an aggregate: what is computed, the types of the arguments and those of the keys
/// with their directions, whether rows count once, and what comes out. `None` if it did not make it.
pub(super) type Made = (Computed, Vec<DataType>, Vec<(DataType, SortOptions)>, bool, SqlType);

/// What an aggregate was made of.
pub(in crate::functions) fn made_of(function: &AggregateUDF) -> Option<Made> {
    let rows: &Rows = function.inner().downcast_ref()?;
    let (arguments, keys) = rows.types.split_at_checked(rows.arguments)?;
    let keys = keys.iter().cloned().zip(rows.keys.iter().copied()).collect();
    Some((rows.computed.clone(), arguments.to_vec(), keys, rows.is_distinct, rows.returns.clone()))
}

impl PartialEq for Rows {
    fn eq(&self, other: &Self) -> bool {
        let is_same = match (&self.computed, &other.computed) {
            (Computed::Function(one), Computed::Function(other)) => one == other,
            (Computed::Aggregate(one), Computed::Aggregate(other)) => one == other,
            _ => false,
        };
        is_same
            && (self.arguments, self.is_distinct) == (other.arguments, other.is_distinct)
            && (&self.keys, &self.types, &self.returns) == (&other.keys, &other.types, &other.returns)
    }
}

impl Eq for Rows {}

impl Hash for Rows {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.name, self.arguments, self.is_distinct, &self.types).hash(state);
    }
}

impl AggregateUDFImpl for Rows {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match &self.aggregate {
            Some(aggregate) => aggregate.field().data_type().clone(),
            None => self.returns.arrow(),
        })
    }

    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(OneGroup { collected: Collected::new(self.share()), groups: 1 }))
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let rows = DataType::List(row_field(&self.row_types()));
        Ok(vec![Arc::new(Field::new(format!("{}[rows]", arguments.name), rows, true))])
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Collected::new(self.share())))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        match self.is_sorted() {
            true => AggregateOrderSensitivity::Insensitive,
            false => AggregateOrderSensitivity::HardRequirement,
        }
    }
}

impl Rows {
    fn is_sorted(&self) -> bool {
        !self.keys.is_empty()
    }

    /// The types of a row's columns.
    fn row_types(&self) -> Vec<DataType> {
        let number = self.computed.counts_rows().then_some(DataType::Int64);
        self.types.iter().cloned().chain(number).collect()
    }

    fn share(&self) -> Arc<Shared> {
        Arc::new(Shared {
            computed: self.computed.clone(),
            aggregate: self.aggregate.clone(),
            arguments: self.arguments,
            keys: self.keys.clone(),
            is_distinct: self.is_distinct,
            types: self.row_types(),
            returns: match &self.aggregate {
                Some(aggregate) => aggregate.field().data_type().clone(),
                None => self.returns.arrow(),
            },
        })
    }
}

/// What all groups have in common.
#[derive(Debug)]
struct Shared {
    computed: Computed,
    aggregate: Option<Arc<AggregateFunctionExpr>>,
    arguments: usize,
    keys: Vec<SortOptions>,
    is_distinct: bool,
    types: Vec<DataType>,
    returns: DataType,
}

/// The rows of all groups.
#[derive(Debug)]
struct Collected {
    shared: Arc<Shared>,
    /// Columns, piece by piece.
    pieces: Vec<Vec<ArrayRef>>,
    /// The group of each row.
    ids: Vec<u32>,
    groups: usize,
    bytes: usize,
    /// From so many rows on repetitions are left out.
    thin_rows: usize,
}

/// Rows of which repetitions are left out, at first.
const THIN_ROWS: usize = if cfg!(test) { 4 } else { 1 << 16 };

/// The field of a row in a list of rows.
fn row_field(types: &[DataType]) -> FieldRef {
    Arc::new(Field::new_list_field(DataType::Struct(row_fields(types)), true))
}

fn row_fields(types: &[DataType]) -> Fields {
    let fields = types.iter().enumerate();
    fields.map(|(index, data_type)| Field::new(index.to_string(), data_type.clone(), true)).collect()
}

impl Collected {
    fn new(shared: Arc<Shared>) -> Self {
        let is_thinned = shared.computed.counts_rows() || shared.is_distinct && !shared.keys.is_empty();
        let thin_rows = if is_thinned { THIN_ROWS } else { usize::MAX };
        Self { shared, pieces: Vec::new(), ids: Vec::new(), groups: 0, bytes: 0, thin_rows }
    }

    /// Takes rows, of which those that the function passes over are left out.
    fn add(&mut self, columns: &[ArrayRef], ids: &[usize], wanted: Option<&BooleanArray>) -> Result<()> {
        let nulls = match &self.shared.computed {
            Computed::Function(function) => {
                function.ignores_nulls_of().and_then(|index| columns[index].logical_nulls())
            }
            Computed::Aggregate(_) => None,
        };
        let is_there =
            nulls.filter(|nulls| nulls.null_count() > 0).map(|nulls| BooleanArray::new(nulls.into_inner(), None));
        let wanted = match (wanted, is_there) {
            (Some(wanted), Some(there)) => Some(arrow::compute::and(&truths(wanted), &there)?),
            (Some(wanted), None) => Some(truths(wanted)),
            (None, there) => there,
        };
        let rows = ids.len();
        let columns = match &wanted {
            Some(wanted) => columns.iter().map(|column| filter(column, wanted)).collect::<Result<Vec<_>, _>>()?,
            None => columns.to_vec(),
        };
        let kept = columns.first().map_or(rows, |column| column.len());
        if kept == 0 {
            return Ok(());
        }
        match &wanted {
            Some(wanted) => {
                let kept = ids.iter().zip(wanted.values().iter()).filter(|(_, wanted)| *wanted);
                self.ids.extend(kept.map(|(&id, _)| id as u32));
            }
            None => self.ids.extend(ids.iter().map(|&id| id as u32)),
        }
        let mut columns = columns.iter().map(owned).collect::<Result<Vec<_>>>()?;
        if self.shared.computed.counts_rows() {
            columns.push(Arc::new(Int64Array::from_value(1, kept)));
        }
        self.push(columns);
        self.thin()
    }

    /// Leaves out repetitions, if there are many rows: of each group's rows with equal keys the first stays, with their
    /// number. Does so less often where few rows are.
    fn thin(&mut self) -> Result<()> {
        if self.ids.len() < self.thin_rows {
            return Ok(());
        }
        let before = self.ids.len();
        let columns = self.columns()?;
        let Shared { arguments, keys, .. } = &*self.shared;
        let order = RowOrder::new(&columns[*arguments..arguments + keys.len()], keys)?;
        let (mut rows, ends) = self.by_group();
        let numbers = columns.last().and_then(|column| column.as_primitive_opt::<Int64Type>());
        let numbers = numbers.filter(|_| self.shared.computed.counts_rows());
        let (mut kept, mut ids, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        let mut begin = 0;
        for (group, &end) in (0..).zip(&ends) {
            order.sort(&mut rows[begin..end]);
            for same in rows[begin..end].chunk_by(|&a, &b| order.is_same(a, b)) {
                kept.push(same[0]);
                ids.push(group);
                counts.extend(numbers.map(|numbers| same.iter().map(|&row| numbers.value(row as usize)).sum::<i64>()));
            }
            begin = end;
        }
        let picks = UInt32Array::from(kept);
        let mut columns = columns.iter().map(|column| take(column, &picks, None)).collect::<Result<Vec<_>, _>>()?;
        if numbers.is_some()
            && let Some(numbers) = columns.last_mut()
        {
            *numbers = Arc::new(Int64Array::from(counts));
        }
        (self.pieces, self.bytes, self.ids) = (Vec::new(), 0, ids);
        let columns = columns.iter().map(owned).collect::<Result<Vec<_>>>()?;
        self.push(columns);
        let is_worth_it = self.ids.len() <= before - before / 4;
        self.thin_rows = (self.ids.len() * if is_worth_it { 2 } else { 4 }).max(THIN_ROWS);
        Ok(())
    }

    fn push(&mut self, columns: Vec<ArrayRef>) {
        self.bytes += columns.iter().map(|column| column.get_array_memory_size()).sum::<usize>();
        self.pieces.push(columns);
    }

    /// All rows in one piece.
    fn columns(&mut self) -> Result<Vec<ArrayRef>> {
        if self.pieces.len() != 1 {
            let pieces = std::mem::take(&mut self.pieces);
            let types = &self.shared.types;
            let columns = types.iter().enumerate().map(|(index, data_type)| {
                let parts = pieces.iter().map(|piece| piece[index].as_ref()).collect::<Vec<_>>();
                if parts.is_empty() { Ok(new_empty_array(data_type)) } else { Ok(concat(&parts)?) }
            });
            let columns = columns.collect::<Result<Vec<_>>>()?;
            self.bytes = 0;
            self.push(columns);
        }
        Ok(self.pieces[0].clone())
    }

    /// Takes the first groups out, with their rows.
    fn take(&mut self, emit: EmitTo) -> Result<Self> {
        let count = match emit {
            EmitTo::All => self.groups,
            EmitTo::First(count) => count.min(self.groups),
        };
        let nothing = Self::new(self.shared.clone());
        if count == self.groups {
            return Ok(std::mem::replace(self, nothing));
        }
        let columns = self.columns()?;
        let is_first = self.ids.iter().map(|&id| (id as usize) < count).collect::<Vec<_>>();
        let first = BooleanArray::from(is_first);
        let rest = arrow::compute::not(&first)?;
        let part = |wanted: &BooleanArray, less: usize, groups: usize| -> Result<Self> {
            let mut part = Self::new(self.shared.clone());
            let ids = self.ids.iter().zip(wanted.values().iter()).filter(|(_, wanted)| *wanted);
            part.ids = ids.map(|(&id, _)| id - less as u32).collect();
            part.groups = groups;
            if !part.ids.is_empty() {
                part.push(columns.iter().map(|column| filter(column, wanted)).collect::<Result<Vec<_>, _>>()?);
            }
            Ok(part)
        };
        let taken = part(&first, 0, count)?;
        *self = part(&rest, count, self.groups - count)?;
        Ok(taken)
    }

    /// The rows by group, as they came within a group, and where each group ends.
    fn by_group(&self) -> (Vec<u32>, Vec<usize>) {
        let mut ends = vec![0; self.groups];
        for &id in &self.ids {
            ends[id as usize] += 1;
        }
        let mut sum = 0;
        for end in &mut ends {
            (*end, sum) = (sum, sum + *end);
        }
        let mut order = vec![0; self.ids.len()];
        for (row, &id) in (0..).zip(&self.ids) {
            let place = &mut ends[id as usize];
            order[*place] = row;
            *place += 1;
        }
        (order, ends)
    }

    /// The rows by group, in order, each once if asked for, and where each group ends.
    fn in_order(&self, keys: &[ArrayRef]) -> Result<(Vec<u32>, Vec<usize>)> {
        let (mut rows, ends) = self.by_group();
        if keys.is_empty() {
            return Ok((rows, ends));
        }
        let order = RowOrder::new(keys, &self.shared.keys)?;
        let mut begin = 0;
        for &end in &ends {
            order.sort(&mut rows[begin..end]);
            begin = end;
        }
        if !self.shared.is_distinct {
            return Ok((rows, ends));
        }
        let mut kept = Vec::with_capacity(rows.len());
        let mut kept_ends = Vec::with_capacity(ends.len());
        let mut begin = 0;
        for &end in &ends {
            let group = &rows[begin..end];
            kept.extend(group.chunk_by(|&a, &b| order.is_same(a, b)).filter_map(|same| same.first()));
            kept_ends.push(kept.len());
            begin = end;
        }
        Ok((kept, kept_ends))
    }

    /// The values of all groups.
    fn values(&mut self) -> Result<ArrayRef> {
        if self.groups == 0 {
            return Ok(new_empty_array(&self.shared.returns));
        }
        let columns = self.columns()?;
        let (arguments, rest) = columns.split_at(self.shared.arguments);
        let (keys, numbers) = rest.split_at(self.shared.keys.len());
        if let Computed::Function(RowsFunction::Percentile(kind)) = &self.shared.computed {
            let order = RowOrder::new(keys, &self.shared.keys)?;
            let (rows, ends) = self.by_group();
            return percentiles(*kind, arguments, rows, &ends, &order, &self.shared.returns);
        }
        let (order, ends) = self.in_order(keys)?;
        let order = UInt32Array::from(order);
        let sorted = |column: &ArrayRef| take(column, &order, None);
        match &self.shared.computed {
            Computed::Function(function) => {
                let keys = if function.compares_keys() { keys } else { &[] };
                let arguments = arguments.iter().map(sorted).collect::<Result<Vec<_>, _>>()?;
                let keys = keys.iter().map(sorted).collect::<Result<Vec<_>, _>>()?;
                let numbers = numbers.first().map(sorted).transpose()?;
                let stretches =
                    Stretches { arguments: &arguments, keys: &keys, numbers: numbers.as_ref(), ends: &ends };
                function.values(&stretches, &self.shared.returns)
            }
            Computed::Aggregate(_) => {
                let Some(aggregate) = &self.shared.aggregate else {
                    return Err(exec_datafusion_err!("an aggregate without accumulators"));
                };
                let arguments = arguments.iter().map(sorted).collect::<Result<Vec<_>, _>>()?;
                let mut begin = 0;
                let values = ends.iter().map(|&end| {
                    let mut accumulator = aggregate.create_accumulator()?;
                    if end > begin {
                        let rows = arguments.iter().map(|column| column.slice(begin, end - begin));
                        accumulator.update_batch(&rows.collect::<Vec<_>>())?;
                    }
                    begin = end;
                    accumulator.evaluate()
                });
                ScalarValue::iter_to_array(values.collect::<Result<Vec<_>>>()?)
            }
        }
    }

    /// The rows of each group as a list.
    fn lists(&mut self) -> Result<ListArray> {
        let columns = self.columns()?;
        let (order, ends) = self.by_group();
        let order = UInt32Array::from(order);
        let columns = columns.iter().map(|column| take(column, &order, None)).collect::<Result<Vec<_>, _>>()?;
        let offset = |end: usize| i32::try_from(end).map_err(|_| exec_datafusion_err!("too many rows in one state"));
        let offsets = std::iter::once(Ok(0)).chain(ends.into_iter().map(offset)).collect::<Result<Vec<_>>>()?;
        let types = &self.shared.types;
        let rows = StructArray::try_new(row_fields(types), columns, None)?;
        Ok(ListArray::try_new(row_field(types), OffsetBuffer::new(offsets.into()), Arc::new(rows), None)?)
    }

    /// Takes the rows of such lists, each of a group.
    fn add_lists(&mut self, states: &[ArrayRef], groups: &[usize]) -> Result<()> {
        let lists = states.first().and_then(|lists| lists.as_list_opt::<i32>());
        let lists = lists.ok_or_else(|| exec_datafusion_err!("rows of an aggregate came as something else"))?;
        let offsets = lists.value_offsets();
        let (Some(&first), Some(&last)) = (offsets.first(), offsets.last()) else { return Ok(()) };
        if last == first {
            return Ok(());
        }
        for (row, &group) in groups.iter().enumerate() {
            let length = (offsets[row + 1] - offsets[row]) as usize;
            self.ids.extend(std::iter::repeat_n(group as u32, length));
        }
        let rows = lists.values().slice(first as usize, (last - first) as usize);
        let rows = rows.as_struct_opt().ok_or_else(|| exec_datafusion_err!("rows of an aggregate are no rows"))?;
        self.push(rows.columns().iter().map(owned).collect::<Result<Vec<_>>>()?);
        self.thin()
    }

    fn held(&self) -> usize {
        self.bytes + self.ids.capacity() * size_of::<u32>() + self.pieces.capacity() * size_of::<Vec<ArrayRef>>()
    }
}

impl GroupsAccumulator for Collected {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.groups = self.groups.max(total_num_groups);
        self.add(values, group_indices, opt_filter)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        self.take(emit_to)?.values()
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![Arc::new(self.take(emit_to)?.lists()?)])
    }

    fn merge_batch(&mut self, values: &[ArrayRef], group_indices: &[usize], total_num_groups: usize) -> Result<()> {
        self.groups = self.groups.max(total_num_groups);
        self.add_lists(values, group_indices)
    }

    fn convert_to_state(&self, values: &[ArrayRef], opt_filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let mut rows = Self::new(self.shared.clone());
        let groups = (0..values.first().map_or(0, |values| values.len())).collect::<Vec<_>>();
        rows.update_batch(values, &groups, opt_filter, groups.len())?;
        rows.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        self.held()
    }
}

/// All rows are one group's.
#[derive(Debug)]
struct OneGroup {
    collected: Collected,
    groups: usize,
}

impl Accumulator for OneGroup {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.collected.groups = self.groups;
        let rows = values.first().map_or(0, |values| values.len());
        self.collected.add(values, &vec![0; rows], None)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.collected.groups = self.groups;
        value_at(&self.collected.values()?, 0)
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.collected.held()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.collected.groups = self.groups;
        Ok(vec![ScalarValue::List(Arc::new(self.collected.lists()?))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.collected.groups = self.groups;
        let lists = states.first().map_or(0, |lists| lists.len());
        self.collected.add_lists(states, &vec![0; lists])
    }
}

/// The array with nothing else behind it: a slice of a batch, or views of one, would keep it alive.
fn owned(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Utf8View => Arc::new(array.as_string_view().gc()),
        DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
        _ => {
            let needed = array.to_data().get_slice_memory_size()?;
            if array.get_array_memory_size() <= 2 * needed + 1024 {
                return Ok(array.clone());
            }
            let rows = UInt32Array::from_iter_values(0..array.len() as u32);
            take(array, &rows, None)?
        }
    })
}

/// The mask with NULLs as false.
fn truths(mask: &BooleanArray) -> BooleanArray {
    if mask.null_count() > 0 { arrow::compute::prep_null_mask_filter(mask) } else { mask.clone() }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringViewArray};
    use arrow::datatypes::Int64Type;
    use datafusion_functions_aggregate::sum::sum_udaf;

    use super::*;

    const ASCENDING: SortOptions = SortOptions { descending: false, nulls_first: false };

    fn collected(computed: Computed, keys: usize, is_distinct: bool, returns: &SqlType) -> Collected {
        let keys = vec![(DataType::Int64, ASCENDING); keys];
        let udaf = rows_udaf(computed, &[DataType::Int64], &keys, is_distinct, returns).unwrap();
        let rows = udaf.inner().downcast_ref::<Rows>().unwrap();
        Collected::new(rows.share())
    }

    fn ints(values: &[Option<i64>]) -> ArrayRef {
        Arc::new(Int64Array::from(values.to_vec()))
    }

    #[test]
    fn rows_of_each_group_come_in_order_and_once() {
        let array = Computed::Function(RowsFunction::ArrayAgg);
        let mut all = collected(array, 1, true, &SqlType::array_of(SqlType::BigInt));
        let values = ints(&[Some(3), Some(1), None, Some(3), Some(2), Some(1)]);
        all.update_batch(&[values.clone(), values], &[0, 1, 0, 0, 0, 1], None, 3).unwrap();
        // Through the states, and in two parts.
        let mut first = all.state(EmitTo::First(1)).unwrap();
        let rest = all.state(EmitTo::All).unwrap();
        let mut merged = Collected::new(all.shared.clone());
        merged.merge_batch(&rest, &[1, 2], 3).unwrap();
        merged.merge_batch(&std::mem::take(&mut first), &[0], 3).unwrap();
        let values = merged.evaluate(EmitTo::All).unwrap();
        let values = values.as_list::<i32>();
        let of = |row: usize| values.value(row).as_primitive::<Int64Type>().iter().collect::<Vec<_>>();
        assert_eq!((of(0), of(1)), (vec![Some(2), Some(3), None], vec![Some(1)]));
        assert!(values.is_null(2), "a group without rows has no array");
    }

    #[test]
    fn an_aggregate_of_distinct_rows_takes_each_once() {
        let mut sums = collected(Computed::Aggregate(sum_udaf()), 1, true, &SqlType::BigInt);
        let (values, wanted) = (ints(&[Some(4), Some(4), Some(5), Some(9)]), vec![true, true, true, false]);
        sums.update_batch(&[values.clone(), values], &[0, 0, 0, 0], Some(&BooleanArray::from(wanted)), 1).unwrap();
        assert_eq!(sums.evaluate(EmitTo::All).unwrap().as_primitive::<Int64Type>().value(0), 9);
    }

    /// Whatever was left out on the way, the values are those of all rows; and few values take little memory.
    #[test]
    fn repetitions_are_left_out_on_the_way() {
        let mode = || collected(Computed::Function(RowsFunction::Mode), 1, false, &SqlType::BigInt);
        let (mut all, mut other) = (mode(), mode());
        // Of group 0 the 2 is the most frequent, of group 1 the 7 as often as the 8.
        let values = ints(&[Some(1), Some(2), Some(8), Some(2), Some(7), None, Some(3), Some(2), Some(1)]);
        let groups = [0, 0, 1, 0, 1, 0, 0, 0, 0];
        for collected in [&mut all, &mut other] {
            for _ in 0..100 {
                collected.update_batch(&[values.clone(), values.clone()], &groups, None, 3).unwrap();
            }
            assert!(collected.ids.len() < 20, "{} rows", collected.ids.len());
        }
        // A hundred and one more of 3 in group 0 come from elsewhere.
        let threes = ints(&[Some(3); 101]);
        other.update_batch(&[threes.clone(), threes], &[0; 101], None, 3).unwrap();
        let states = other.state(EmitTo::All).unwrap();
        all.merge_batch(&states, &[0, 1, 2], 3).unwrap();
        let modes = all.evaluate(EmitTo::All).unwrap();
        assert_eq!(modes.as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), [Some(2), Some(7), None]);
        let many = ints(&[Some(3); 300]);
        let mut all = mode();
        all.merge_batch(&states, &[0, 1, 2], 3).unwrap();
        all.update_batch(&[many.clone(), many], &[0; 300], None, 3).unwrap();
        assert_eq!(all.evaluate(EmitTo::First(1)).unwrap().as_primitive::<Int64Type>().value(0), 3);

        let array =
            || collected(Computed::Function(RowsFunction::ArrayAgg), 1, true, &SqlType::array_of(SqlType::BigInt));
        let mut all = array();
        for _ in 0..100 {
            all.update_batch(&[values.clone(), values.clone()], &groups, None, 2).unwrap();
        }
        assert!(all.ids.len() < 20, "{} rows", all.ids.len());
        let arrays = all.evaluate(EmitTo::All).unwrap();
        let first = arrays.as_list::<i32>().value(0);
        assert_eq!(first.as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), [Some(1), Some(2), Some(3), None]);
    }

    #[test]
    fn one_group_is_asked_again_and_again() {
        let text = DataType::Utf8View;
        let computed = Computed::Function(RowsFunction::StringAgg);
        let udaf = rows_udaf(computed, &[text.clone(), text], &[], false, &SqlType::Text).unwrap();
        let rows = udaf.inner().downcast_ref::<Rows>().unwrap();
        let mut one = OneGroup { collected: Collected::new(rows.share()), groups: 1 };
        assert!(one.evaluate().unwrap().is_null());
        let texts = |values: Vec<Option<&str>>| Arc::new(StringViewArray::from(values)) as ArrayRef;
        one.update_batch(&[texts(vec![Some("a"), None, Some("b")]), texts(vec![Some("1"), Some("2"), Some("3")])])
            .unwrap();
        assert_eq!(one.evaluate().unwrap(), ScalarValue::Utf8View(Some("a3b".to_owned())));
        one.update_batch(&[texts(vec![Some("c")]), texts(vec![None])]).unwrap();
        assert_eq!(one.evaluate().unwrap(), ScalarValue::Utf8View(Some("a3bc".to_owned())));
    }
}
