//! Aggregates that run on DataFusion's accumulators: everything that has no native state.
//!
//! Without GROUP BY an `Accumulator`, as DataFusion does; with it a `GroupsAccumulator`, or the adapter that keeps an
//! `Accumulator` per group. States travel between vectors as the arrays of `state`, which carry the order of
//! order-sensitive functions with them.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use arrow::array::{Array, ArrayRef, BooleanArray, UInt32Array, new_empty_array, new_null_array};
use arrow::compute::take;
use arrow::datatypes::DataType;
use datafusion_expr::{Accumulator, EmitTo, GroupsAccumulator};
use datafusion_physical_expr::GroupsAccumulatorAdapter;
use datafusion_physical_expr::aggregate::AggregateFunctionExpr;
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::{from_arrow, from_datafusion};

use super::Placement;
use crate::batch::compacted;

/// The states of one aggregate in DataFusion's hands.
pub(in super::super) struct ForeignState {
    held: Held,
    /// Types of the arguments, those of its ORDER BY included.
    arguments: Arc<[DataType]>,
    result: DataType,
    /// Groups that the accumulator knows.
    groups: usize,
    ids: Vec<usize>,
    /// Arrays that `state` gives.
    columns: usize,
}

/// The mutexes are never locked: they only say that nobody reads an accumulator while it is shared.
enum Held {
    One(Mutex<Box<dyn Accumulator>>),
    Groups(Mutex<Box<dyn GroupsAccumulator>>),
    /// States as arrays, by group: to be merged into others.
    States(Vec<ArrayRef>),
    /// Results by group.
    Results(ArrayRef),
}

impl ForeignState {
    pub fn new(function: &Arc<AggregateFunctionExpr>, arguments: Arc<[DataType]>, grouped: bool) -> Result<Self> {
        let result = function.field().data_type().clone();
        let held = if !grouped {
            Held::One(Mutex::new(function.create_accumulator().map_err(from_datafusion)?))
        } else if function.groups_accumulator_supported() {
            Held::Groups(Mutex::new(function.create_groups_accumulator().map_err(from_datafusion)?))
        } else {
            let function = function.clone();
            Held::Groups(Mutex::new(Box::new(GroupsAccumulatorAdapter::new(move || function.create_accumulator()))))
        };
        let columns = function.state_fields().map_err(from_datafusion)?.len();
        Ok(Self { held, arguments, result, groups: 0, ids: Vec::new(), columns })
    }

    /// Adds a batch's values, all logical.
    pub fn update(&mut self, values: &[ArrayRef], placement: Placement<'_>) -> Result<()> {
        self.place(placement)?;
        match &mut self.held {
            Held::One(one) => unlocked(one)?.update_batch(values).map_err(from_datafusion),
            Held::Groups(groups) => {
                unlocked(groups)?.update_batch(values, &self.ids, None, placement.groups).map_err(from_datafusion)
            }
            Held::States(_) | Held::Results(_) => Err(Error::bug("a finished aggregate got more rows")),
        }
    }

    /// Makes groups without rows known: a row that a filter leaves out is what DataFusion itself uses.
    pub fn resize(&mut self, groups: usize) -> Result<()> {
        if let Held::Groups(accumulator) = &mut self.held
            && self.groups < groups
        {
            let nulls = self.arguments.iter().map(|argument| new_null_array(argument, 1)).collect::<Vec<_>>();
            let nobody = BooleanArray::from(vec![false]);
            let last = [groups - 1];
            unlocked(accumulator)?.update_batch(&nulls, &last, Some(&nobody), groups).map_err(from_datafusion)?;
            self.groups = groups;
        }
        Ok(())
    }

    /// Turns the accumulator into the arrays of its states.
    pub fn freeze(&mut self) -> Result<()> {
        let states = match &mut self.held {
            Held::One(one) => {
                let states = unlocked(one)?.state().map_err(from_datafusion)?;
                states.iter().map(|state| state.to_array()).collect::<Result<Vec<_>, _>>().map_err(from_datafusion)?
            }
            Held::Groups(_) if self.groups == 0 => Vec::new(),
            Held::Groups(groups) => unlocked(groups)?.state(EmitTo::All).map_err(from_datafusion)?,
            Held::States(_) => return Ok(()),
            Held::Results(_) => return Err(Error::bug("a finished aggregate was asked for its state")),
        };
        self.held = Held::States(states);
        Ok(())
    }

    /// Merges another's groups `range`; the other is frozen.
    pub fn merge(&mut self, other: &ForeignState, range: Range<usize>, placement: Placement<'_>) -> Result<()> {
        let Held::States(states) = &other.held else {
            return Err(Error::bug("an aggregate was merged before its state was taken"));
        };
        if states.is_empty() {
            return Ok(());
        }
        let states = states.iter().map(|state| state.slice(range.start, range.len())).collect::<Vec<_>>();
        self.place(placement)?;
        match &mut self.held {
            Held::One(one) => unlocked(one)?.merge_batch(&states).map_err(from_datafusion),
            Held::Groups(groups) => {
                unlocked(groups)?.merge_batch(&states, &self.ids, placement.groups).map_err(from_datafusion)
            }
            Held::States(_) | Held::Results(_) => Err(Error::bug("a finished aggregate got more states")),
        }
    }

    /// Notes where rows go. Accumulators take all groups that are new to them for groups of these rows; one of which a
    /// filter has left out all rows would have a value that nobody gave it. So those are made known before, as groups
    /// without rows.
    fn place(&mut self, placement: Placement<'_>) -> Result<()> {
        self.ids.clear();
        match placement.ids {
            Some(ids) => self.ids.extend(ids.iter().map(|&id| id as usize)),
            None => self.ids.resize(placement.rows, 0),
        }
        if self.groups < placement.groups {
            // Groups are numbered as their first rows come.
            let next = self.ids.iter().fold(self.groups, |next, &id| next + usize::from(id == next));
            if next < placement.groups {
                self.resize(placement.groups)?;
            }
            self.groups = placement.groups;
        }
        Ok(())
    }

    /// The states of `order`'s groups, in that order, once they are frozen.
    pub fn permuted(&self, order: &[u32]) -> Result<Self> {
        let Held::States(states) = &self.held else { return Err(Error::bug("a frozen aggregate has no state")) };
        let order = UInt32Array::from(order.to_vec());
        let states = states.iter().map(|state| take(state, &order, None)).collect::<Result<_, _>>();
        let held = Held::States(states.map_err(from_arrow)?);
        let (arguments, result) = (self.arguments.clone(), self.result.clone());
        Ok(Self { held, arguments, result, groups: order.values().len(), ids: Vec::new(), columns: self.columns })
    }

    /// Takes the states of groups `range` out, all before it having been taken.
    pub fn take_columns(&mut self, range: Range<usize>) -> Result<Vec<ArrayRef>> {
        if let Held::Groups(groups) = &mut self.held {
            let first = if range.end == self.groups { EmitTo::All } else { EmitTo::First(range.len()) };
            return unlocked(groups)?.state(first).map_err(from_datafusion);
        }
        self.freeze()?;
        match &self.held {
            Held::States(states) => Ok(states.iter().map(|state| state.slice(range.start, range.len())).collect()),
            _ => Err(Error::bug("a frozen aggregate has no state")),
        }
    }

    pub fn column_count(&self) -> usize {
        self.columns
    }

    /// Frozen states out of such columns. Accumulators may keep what they merge, but not the clusters that it was read
    /// into.
    pub fn of_columns(&self, columns: &[ArrayRef]) -> Result<Self> {
        let groups = columns.first().map_or(0, |column| column.len());
        let columns = columns.iter().map(compacted).collect::<Result<Vec<_>>>()?;
        let (arguments, result) = (self.arguments.clone(), self.result.clone());
        Ok(Self { held: Held::States(columns), arguments, result, groups, ids: Vec::new(), columns: self.columns })
    }

    /// Computes the results of all groups.
    pub fn finish(&mut self) -> Result<()> {
        let results = match &mut self.held {
            Held::One(one) => {
                unlocked(one)?.evaluate().and_then(|result| result.to_array()).map_err(from_datafusion)?
            }
            // The adapter cannot make an array of nothing.
            Held::Groups(_) if self.groups == 0 => new_empty_array(&self.result),
            Held::Groups(groups) => unlocked(groups)?.evaluate(EmitTo::All).map_err(from_datafusion)?,
            Held::Results(_) => return Ok(()),
            Held::States(_) => return Err(Error::bug("an aggregate's state was finished before it was merged")),
        };
        self.held = Held::Results(results);
        Ok(())
    }

    /// The results of groups `range`, which keep no others alive.
    pub fn output(&self, range: Range<usize>) -> Result<ArrayRef> {
        match &self.held {
            Held::Results(results) => compacted(&results.slice(range.start, range.len())),
            _ => Err(Error::bug("an aggregate was read before it was finished")),
        }
    }

    pub fn bytes(&self) -> usize {
        let held = match &self.held {
            Held::One(one) => one.lock().map_or(0, |one| one.size()),
            Held::Groups(groups) => groups.lock().map_or(0, |groups| groups.size()),
            Held::States(states) => states.iter().map(|state| state.get_array_memory_size()).sum(),
            Held::Results(results) => results.get_array_memory_size(),
        };
        held + self.ids.capacity() * size_of::<usize>()
    }
}

fn unlocked<T: ?Sized>(mutex: &mut Mutex<Box<T>>) -> Result<&mut Box<T>> {
    mutex.get_mut().map_err(|_| Error::bug("an accumulator was left by a panic"))
}
