//! Aggregates whose steps primed processes take: `CREATE AGGREGATE` of functions in other languages.
//!
//! ```text
//!   rows of a packet, by group ---- steps, in a process ----> partial states
//!   partial states, two at a time -- combine, in a process --> one state of each group
//!   states of other packets, or from temp space ------------> the same way
//! ```
//!
//! Rows are gathered until there are many of them, since the way to a process is long. A group may have several partial
//! states, in the order of its rows; they are combined when there are many, and when the group's state is asked for. So
//! every packet has states of its own, and they are put together as those of any other aggregate.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int32Array, UInt32Array, new_null_array};
use arrow::compute::{and, concat, filter, interleave, is_not_null, prep_null_mask_filter, take};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::{Result, ScalarValue, exec_datafusion_err};
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::utils::AggregateOrderSensitivity;
use datafusion_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility};
use diligence_base::Error;
use diligence_engine::batch::compacted;
use diligence_engine::expressions::Outside;
use diligence_engine::stages::{Caller, briefly_outside, outside};
use diligence_storage::foreign_error::to_datafusion;
use diligence_types::values::value_at;

/// Rows that are gathered before they go to a process, and their bytes.
const ROWS_GATHERED_MAX: usize = 1 << 16;
const BYTES_GATHERED_MAX: usize = 16 << 20;

/// Partial states beside one of each group that may wait to be combined.
const PARTIAL_STATES_MAX: usize = 4096;

/// What makes partial states of rows, in a process.
pub(crate) trait StepFunction: Send + Sync + std::fmt::Debug {
    /// What tells it from others.
    fn identity(&self) -> u64;

    /// Arrays that have as many values as rows together. The first column has the numbers of the rows' groups; the rows
    /// of a group follow each other. The last row of a group in an array has a state, which the rows of the group in
    /// that array make; other values say nothing.
    fn states(&self, columns: &[ArrayRef], rows: usize, caller: &dyn Caller) -> diligence_base::Result<Vec<ArrayRef>>;
}

/// An aggregate that is made of functions.
#[derive(Debug)]
pub(crate) struct Combined {
    /// What it is called.
    pub name: String,
    /// What makes states of rows.
    pub step: Arc<dyn StepFunction>,
    /// Whether rows with a NULL are passed over.
    pub skips_nulls: bool,
    /// What makes a state of two, the one of earlier rows first. A strict one is not called with a NULL: the other is
    /// the state.
    pub combine: Arc<dyn Outside>,
    /// The state of a group without rows.
    pub first: ScalarValue,
    /// How many arguments it has.
    pub arguments: usize,
}

impl Combined {
    /// The aggregate as the engine calls it. What it gives is the state.
    pub(crate) fn udaf(self) -> Arc<AggregateUDF> {
        let signature = Signature::any(self.arguments, Volatility::Immutable);
        Arc::new(AggregateUDF::from(CombinedFunction { parts: Arc::new(self), signature }))
    }

    fn state_type(&self) -> DataType {
        self.combine.returns()
    }

    /// The states that two states each make.
    fn combined(&self, left: &ArrayRef, right: &ArrayRef) -> Result<ArrayRef> {
        let both = and(&is_not_null(left)?, &is_not_null(right)?)?;
        let called = both.true_count();
        if !self.combine.is_strict() || called == left.len() {
            return self.called(left, right);
        }
        let are_two = match called {
            0 => new_null_array(&self.state_type(), 0),
            _ => self.called(&filter(left, &both)?, &filter(right, &both)?)?,
        };
        let mut next = 0;
        let places = (0..left.len()).map(|row| match (both.value(row), left.is_null(row)) {
            (true, _) => {
                next += 1;
                (0, next - 1)
            }
            (false, true) => (2, row),
            (false, false) => (1, row),
        });
        Ok(interleave(&[are_two.as_ref(), left.as_ref(), right.as_ref()], &places.collect::<Vec<_>>())?)
    }

    fn called(&self, left: &ArrayRef, right: &ArrayRef) -> Result<ArrayRef> {
        let values = outside(|caller| match caller.is_stopped() {
            true => Err(Error::cancelled()),
            false => self.combine.call(&[left.clone(), right.clone()], left.len(), caller),
        });
        let values = values.map_err(to_datafusion)?;
        if (values.len(), values.data_type()) != (left.len(), &self.state_type()) {
            return Err(exec_datafusion_err!("{} gave other states than were asked for", self.name));
        }
        Ok(values)
    }
}

#[derive(Debug)]
struct CombinedFunction {
    parts: Arc<Combined>,
    signature: Signature,
}

impl CombinedFunction {
    fn key(&self) -> (u64, u64, &ScalarValue, bool, bool, usize) {
        let Combined { step, combine, first, skips_nulls, arguments, .. } = self.parts.as_ref();
        (step.identity(), combine.identity(), first, *skips_nulls, combine.is_strict(), *arguments)
    }
}

impl PartialEq for CombinedFunction {
    fn eq(&self, other: &Self) -> bool {
        self.parts.name == other.parts.name && self.key() == other.key()
    }
}

impl Eq for CombinedFunction {}

impl Hash for CombinedFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.parts.name, self.parts.step.identity(), self.parts.combine.identity()).hash(state);
    }
}

impl AggregateUDFImpl for CombinedFunction {
    fn name(&self) -> &str {
        &self.parts.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.parts.state_type())
    }

    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(OneGroup(States { groups: 1, ..States::new(self.parts.clone()) })))
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let field =
            |what: &str, data_type| Arc::new(Field::new(format!("{}[{what}]", arguments.name), data_type, true));
        Ok(vec![field("has rows", DataType::Boolean), field("state", self.parts.state_type())])
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(States::new(self.parts.clone())))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        // What an aggregate of a function that is not immutable gave is nothing for others.
        match self.parts.combine.volatility() {
            Volatility::Immutable => AggregateOrderSensitivity::Insensitive,
            Volatility::Stable | Volatility::Volatile => AggregateOrderSensitivity::HardRequirement,
        }
    }
}

/// The groups of a packet, or of a partition.
#[derive(Debug)]
struct States {
    parts: Arc<Combined>,
    groups: usize,
    /// Rows that no process has seen, piece by piece, with the group of each.
    rows: Vec<Vec<ArrayRef>>,
    row_ids: Vec<u32>,
    row_bytes: usize,
    /// Partial states, piece by piece, with the group of each; those of a group in the order of its rows.
    states: Vec<ArrayRef>,
    state_ids: Vec<u32>,
    state_bytes: usize,
}

impl States {
    fn new(parts: Arc<Combined>) -> Self {
        Self {
            parts,
            groups: 0,
            rows: Vec::new(),
            row_ids: Vec::new(),
            row_bytes: 0,
            states: Vec::new(),
            state_ids: Vec::new(),
            state_bytes: 0,
        }
    }

    /// Takes rows, of which those that the steps pass over are left out.
    fn add(&mut self, columns: &[ArrayRef], ids: &[usize], wanted: Option<&BooleanArray>) -> Result<()> {
        let mut wanted = wanted.map(|wanted| match wanted.null_count() {
            0 => wanted.clone(),
            _ => prep_null_mask_filter(wanted),
        });
        for column in columns.iter().filter(|_| self.parts.skips_nulls) {
            let Some(nulls) = column.logical_nulls().filter(|nulls| nulls.null_count() > 0) else { continue };
            let are_there = BooleanArray::new(nulls.into_inner(), None);
            wanted = Some(match wanted {
                Some(wanted) => and(&wanted, &are_there)?,
                None => are_there,
            });
        }
        let columns = match &wanted {
            Some(wanted) => columns.iter().map(|column| filter(column, wanted)).collect::<Result<Vec<_>, _>>()?,
            None => columns.to_vec(),
        };
        match &wanted {
            Some(wanted) => {
                let kept = ids.iter().zip(wanted.values().iter()).filter(|(_, wanted)| *wanted);
                self.row_ids.extend(kept.map(|(&id, _)| id as u32));
            }
            None => self.row_ids.extend(ids.iter().map(|&id| id as u32)),
        }
        if columns.first().is_none_or(|column| column.is_empty()) {
            return Ok(());
        }
        let columns =
            columns.iter().map(compacted).collect::<diligence_base::Result<Vec<_>>>().map_err(to_datafusion)?;
        self.row_bytes += columns.iter().map(|column| column.get_array_memory_size()).sum::<usize>();
        self.rows.push(columns);
        match self.row_ids.len() >= ROWS_GATHERED_MAX || self.row_bytes >= BYTES_GATHERED_MAX {
            true => self.step(),
            false => Ok(()),
        }
    }

    fn push(&mut self, states: ArrayRef, ids: impl IntoIterator<Item = u32>) {
        if !states.is_empty() {
            self.state_bytes += states.get_array_memory_size();
            self.states.push(states);
            self.state_ids.extend(ids);
        }
    }

    /// Makes partial states of the rows that were gathered.
    fn step(&mut self) -> Result<()> {
        let (rows, ids) = (std::mem::take(&mut self.rows), std::mem::take(&mut self.row_ids));
        self.row_bytes = 0;
        if ids.is_empty() {
            return Ok(());
        }
        let (order, ids) = by_group(&ids);
        let groups = Int32Array::from_iter_values(ids.iter().map(|&id| id as i32));
        let mut columns: Vec<ArrayRef> = vec![Arc::new(groups)];
        for place in 0..self.parts.arguments {
            let pieces = rows.iter().map(|piece| piece[place].as_ref()).collect::<Vec<_>>();
            let column = concat(&pieces)?;
            columns.push(match &order {
                Some(order) => take(&column, order, None)?,
                None => column,
            });
        }
        drop(rows);
        let states = briefly_outside(|caller| match caller.is_stopped() {
            true => Err(Error::cancelled()),
            false => self.parts.step.states(&columns, ids.len(), caller),
        });
        let mut from = 0;
        for states in states.map_err(to_datafusion)? {
            let of_part = ids.get(from..from + states.len());
            let of_part = of_part.ok_or_else(|| exec_datafusion_err!("{} gave too many states", self.parts.name))?;
            let is_last = |row: &usize| of_part.get(row + 1).is_none_or(|next| *next != of_part[*row]);
            let last = (0..of_part.len()).filter(is_last).collect::<Vec<_>>();
            let places = UInt32Array::from_iter_values(last.iter().map(|&row| row as u32));
            from += of_part.len();
            let of_last = last.iter().map(|&row| of_part[row]).collect::<Vec<_>>();
            self.push(take(&states, &places, None)?, of_last);
        }
        if from != ids.len() {
            return Err(exec_datafusion_err!("{} gave too few states", self.parts.name));
        }
        match self.state_ids.len() > 2 * self.groups + PARTIAL_STATES_MAX {
            true => self.combine(),
            false => Ok(()),
        }
    }

    /// Leaves at most one partial state of each group: neighbors are combined, again and again.
    fn combine(&mut self) -> Result<()> {
        loop {
            let Some(states) = self.in_one_piece()? else { return Ok(()) };
            let (order, ids) = by_group(&self.state_ids);
            let states = match &order {
                Some(order) => take(&states, order, None)?,
                None => states,
            };
            let (mut left, mut right, mut alone) = (Vec::new(), Vec::new(), Vec::new());
            let mut begin = 0;
            for group in ids.chunk_by(|one, other| one == other) {
                let end = begin + group.len() as u32;
                let mut row = begin;
                while row + 1 < end {
                    left.push(row);
                    right.push(row + 1);
                    row += 2;
                }
                alone.extend((row < end).then_some(row));
                begin = end;
            }
            let of = |rows: &[u32]| rows.iter().map(|&row| ids[row as usize]).collect::<Vec<_>>();
            let (of_pairs, of_alone) = (of(&left), of(&alone));
            if left.is_empty() {
                self.forget();
                self.push(states, ids);
                return Ok(());
            }
            let part = |rows: Vec<u32>| take(&states, &UInt32Array::from(rows), None);
            let made = self.parts.combined(&part(left)?, &part(right)?)?;
            // The last of an odd number comes behind the pairs of its group: groups are put in order as they stand.
            let alone = part(alone)?;
            self.forget();
            self.push(made, of_pairs);
            self.push(alone, of_alone);
        }
    }

    fn forget(&mut self) {
        self.states.clear();
        self.state_ids.clear();
        self.state_bytes = 0;
    }

    /// All partial states; `None` if there are none.
    fn in_one_piece(&self) -> Result<Option<ArrayRef>> {
        Ok(match self.states.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            pieces => Some(concat(&pieces.iter().map(AsRef::as_ref).collect::<Vec<_>>())?),
        })
    }

    /// Whether each group has a state, and the states.
    fn complete(&mut self) -> Result<(BooleanArray, ArrayRef)> {
        self.step()?;
        self.combine()?;
        let mut places = vec![None; self.groups];
        for (place, &id) in (0_u32..).zip(&self.state_ids) {
            let of_group = places.get_mut(id as usize);
            *of_group.ok_or_else(|| exec_datafusion_err!("{} has a state of no group", self.parts.name))? = Some(place);
        }
        let has_rows = BooleanArray::from_iter(places.iter().map(|place| Some(place.is_some())));
        let states = match self.in_one_piece()? {
            Some(states) => take(&states, &UInt32Array::from(places), None)?,
            None => new_null_array(&self.parts.state_type(), self.groups),
        };
        Ok((has_rows, states))
    }

    /// Takes the first groups out: whether each has a state, and the states.
    fn taken(&mut self, emit: EmitTo) -> Result<(BooleanArray, ArrayRef)> {
        let (has_rows, states) = self.complete()?;
        let count = match emit {
            EmitTo::All => self.groups,
            EmitTo::First(count) => count.min(self.groups),
        };
        let left = (count..self.groups).filter(|&group| has_rows.value(group)).map(|group| group as u32);
        let left = left.collect::<Vec<_>>();
        let ids = left.iter().map(|&group| group - count as u32).collect::<Vec<_>>();
        self.forget();
        self.groups -= count;
        if self.groups == 0 {
            return Ok((has_rows, states));
        }
        let rest = take(&states, &UInt32Array::from(left), None)?;
        self.push(rest, ids);
        let first = UInt32Array::from_iter_values(0..count as u32);
        let has_rows = BooleanArray::from_iter((0..count).map(|group| Some(has_rows.value(group))));
        Ok((has_rows, take(&states, &first, None)?))
    }

    /// The states, with the first state for groups without rows.
    fn values(&self, has_rows: &BooleanArray, states: ArrayRef) -> Result<ArrayRef> {
        if self.parts.first.is_null() || has_rows.true_count() == has_rows.len() {
            return Ok(states);
        }
        let first = self.parts.first.to_array()?;
        let places = (0..states.len()).map(|group| if has_rows.value(group) { (0, group) } else { (1, 0) });
        Ok(interleave(&[states.as_ref(), first.as_ref()], &places.collect::<Vec<_>>())?)
    }

    /// Takes states that [`taken`](Self::taken) gave.
    fn add_states(&mut self, columns: &[ArrayRef], ids: &[usize]) -> Result<()> {
        let [has_rows, states] = columns else { return Err(exec_datafusion_err!("a state of two columns is not two")) };
        let has_rows = has_rows.as_boolean_opt();
        let has_rows = has_rows.ok_or_else(|| exec_datafusion_err!("whether there are rows is no truth value"))?;
        // What was gathered here comes before.
        self.step()?;
        let is_there = |row: &usize| has_rows.is_valid(*row) && has_rows.value(*row);
        let there = (0..states.len()).filter(is_there).collect::<Vec<_>>();
        let places = UInt32Array::from_iter_values(there.iter().map(|&row| row as u32));
        let of_there = there.iter().map(|&row| ids[row] as u32).collect::<Vec<_>>();
        self.push(take(states, &places, None)?, of_there);
        match self.state_ids.len() > 2 * self.groups + PARTIAL_STATES_MAX {
            true => self.combine(),
            false => Ok(()),
        }
    }

    fn bytes(&self) -> usize {
        let ids = (self.row_ids.capacity() + self.state_ids.capacity()) * size_of::<u32>();
        let pieces = self.rows.len() * (self.parts.arguments + 2) + self.states.len();
        self.row_bytes + self.state_bytes + ids + pieces * size_of::<ArrayRef>()
    }
}

/// In which order rows of these groups follow each other by group, as they came within one, and their groups then;
/// no order if they do already.
fn by_group(ids: &[u32]) -> (Option<UInt32Array>, Vec<u32>) {
    if ids.is_sorted() {
        return (None, ids.to_vec());
    }
    let mut order = (0..ids.len() as u32).collect::<Vec<_>>();
    order.sort_by_key(|&row| ids[row as usize]);
    let sorted = order.iter().map(|&row| ids[row as usize]).collect();
    (Some(UInt32Array::from(order)), sorted)
}

impl GroupsAccumulator for States {
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
        let (has_rows, states) = self.taken(emit_to)?;
        self.values(&has_rows, states)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let (has_rows, states) = self.taken(emit_to)?;
        Ok(vec![Arc::new(has_rows), states])
    }

    fn merge_batch(&mut self, values: &[ArrayRef], group_indices: &[usize], total_num_groups: usize) -> Result<()> {
        self.groups = self.groups.max(total_num_groups);
        self.add_states(values, group_indices)
    }

    fn convert_to_state(&self, values: &[ArrayRef], opt_filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let mut states = Self::new(self.parts.clone());
        let groups = (0..values.first().map_or(0, |values| values.len())).collect::<Vec<_>>();
        states.update_batch(values, &groups, opt_filter, groups.len())?;
        states.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        self.bytes()
    }
}

/// All rows are one group's.
#[derive(Debug)]
struct OneGroup(States);

impl Accumulator for OneGroup {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let rows = values.first().map_or(0, |values| values.len());
        self.0.add(values, &vec![0; rows], None)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let (has_rows, states) = self.0.complete()?;
        value_at(&self.0.values(&has_rows, states)?, 0)
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.0.bytes()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let (has_rows, states) = self.0.complete()?;
        Ok(vec![ScalarValue::Boolean(Some(has_rows.value(0))), value_at(&states, 0)?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let rows = states.first().map_or(0, |column| column.len());
        self.0.add_states(states, &vec![0; rows])
    }
}
