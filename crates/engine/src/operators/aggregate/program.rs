//! An aggregate as planned, turned into what is kept and how it is read out.
//!
//! Aggregates are taken apart into *arguments* (evaluated once per batch, however many aggregates read them), *views*
//! (which rows a FILTER leaves) and *states*; each aggregate's *output* names the states that it is computed from.

use std::sync::Arc;

use arrow::array::Array;
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion_functions_aggregate::average::Avg;
use datafusion_functions_aggregate::bit_and_or_xor::bit_or_udaf;
use datafusion_functions_aggregate::count::Count;
use datafusion_functions_aggregate::min_max::{Max, Min};
use datafusion_functions_aggregate::sum::Sum;
use datafusion_physical_expr::aggregate::AggregateFunctionExpr;
use datafusion_physical_expr::expressions::CastExpr;
use diligence_base::{Error, Result};

use super::key_layout::KeyLayout;
use super::output::{self, Output};
use super::states::count::RowCounts;
use super::states::distinct::DistinctState;
use super::states::foreign::ForeignState;
use super::states::min_max::{any_bits_state, min_max_state};
use super::states::sum::{SumKind, SumState};
use super::states::{Placement, State, count_nulls};
use crate::batch::{Batch, Column, Selection, to_logical};
use crate::expressions::Expr;
use crate::plan;
use crate::plan::average::AverageKind;

/// One of the sets of GROUPING SETS; a plain GROUP BY has one without masks.
pub(super) struct GroupingSet {
    /// Which group columns are NULL in it.
    pub masked: Vec<bool>,
    /// Its `__grouping_id`.
    pub id: u64,
}

impl GroupingSet {
    /// The group columns that are not NULL in it.
    pub fn seen(&self, columns: &[Column]) -> Vec<Column> {
        let seen = columns.iter().zip(&self.masked).filter(|(_, masked)| !**masked);
        seen.map(|(column, _)| column.clone()).collect()
    }
}

/// A value that aggregates read.
struct Argument {
    view: usize,
    expression: Expr,
}

/// How to make one vector of states.
enum StateSpec {
    Rows { view: usize },
    Nulls { argument: usize },
    Sum { argument: usize, kind: SumKind },
    MinMax { argument: usize, max: bool, data_type: DataType },
    AnyBits { argument: usize },
    Distinct { argument: usize, layout: Arc<KeyLayout>, sum: Option<SumKind> },
    Foreign { view: usize, function: Arc<AggregateFunctionExpr>, arguments: Vec<usize>, types: Arc<[DataType]> },
}

/// The whole aggregate.
pub(super) struct Program {
    pub groups: Vec<Expr>,
    pub sets: Vec<GroupingSet>,
    pub layout: Arc<KeyLayout>,
    /// False for the one group of no GROUP BY.
    pub grouped: bool,
    pub has_grouping_id: bool,
    pub limit: Option<usize>,
    pub output_schema: SchemaRef,
    pub outputs: Vec<Output>,
    /// True if states cannot be flushed cheaply.
    pub has_foreign: bool,
    /// Which rows count: all, or those that a filter keeps.
    views: Vec<Option<Expr>>,
    arguments: Vec<Argument>,
    specs: Vec<StateSpec>,
}

/// A batch's values for the states.
pub(super) struct Inputs {
    views: Vec<Selection>,
    arguments: Vec<Option<Column>>,
}

impl Program {
    /// Compiles an aggregate. Fails if an expression does not type-check over the input.
    pub fn new(plan: &plan::Aggregate, input: &SchemaRef, output: &SchemaRef) -> Result<Self> {
        let grouped = !plan.groups.is_empty() || plan.has_grouping_id;
        let mut columns = plan.groups.iter().map(|group| (group.data_type().clone(), true)).collect::<Vec<_>>();
        if plan.has_grouping_id {
            columns.push((output.field(plan.groups.len()).data_type().clone(), false));
        }
        let mut program = Self {
            groups: plan.groups.clone(),
            sets: grouping_sets(plan),
            layout: Arc::new(KeyLayout::new(&columns)?),
            grouped,
            has_grouping_id: plan.has_grouping_id,
            limit: plan.limit,
            output_schema: output.clone(),
            outputs: Vec::new(),
            has_foreign: false,
            views: Vec::new(),
            arguments: Vec::new(),
            specs: Vec::new(),
        };
        for call in &plan.aggregates {
            let output = program.add_call(call, input)?;
            program.outputs.push(output);
        }
        let expected = columns.len() + program.outputs.len();
        if output.fields().len() != expected {
            return Err(Error::bug(format!(
                "an aggregate of {expected} columns was planned with {}",
                output.fields().len()
            )));
        }
        Ok(program)
    }

    fn add_call(&mut self, call: &plan::AggregateCall, input: &SchemaRef) -> Result<Output> {
        let view = self.add_view(call.filter.as_ref());
        match self.add_native(call, view, input)? {
            Some(output) => Ok(output),
            None => self.add_foreign(call, view, input),
        }
    }

    /// The aggregate on states of our own, if it can.
    fn add_native(&mut self, call: &plan::AggregateCall, view: usize, input: &SchemaRef) -> Result<Option<Output>> {
        let function = call.function.fun().inner();
        let field = call.function.field();
        let result = field.data_type();
        let distinct = call.function.is_distinct();
        if function.is::<Count>() && !distinct {
            return Ok(match call.arguments.as_slice() {
                [] => Some(Output::Count { rows: self.add_state(StateSpec::Rows { view }), nulls: None }),
                [argument] => Some(self.add_count(argument, view)),
                _ => None,
            });
        }
        let [argument] = call.arguments.as_slice() else { return Ok(None) };
        // What is summed up need not be as wide as the sum.
        let summed = function.is::<Sum>().then(|| unwidened(argument, input)).transpose()?.flatten();
        let argument = summed.as_ref().unwrap_or(argument);
        let (sum, average) = (sum_kind(argument.data_type(), result), AverageKind::new(argument.data_type(), result));
        let is_sum = function.is::<Sum>() && sum.is_some();
        let is_average = function.is::<Avg>() && average.is_some();
        let is_min_max = function.is::<Min>() || function.is::<Max>();
        if is_min_max {
            let max = function.is::<Max>();
            if argument.data_type() != result || min_max_state(result, max, false).is_none() {
                return Ok(None);
            }
            let argument = self.add_argument(argument, view);
            let state = self.add_state(StateSpec::MinMax { argument, max, data_type: result.clone() });
            return Ok(Some(Output::MinMax { state }));
        }
        if *call.function.fun() == *bit_or_udaf() && *argument.data_type() == DataType::UInt64 {
            let argument = self.add_argument(argument, view);
            return Ok(Some(Output::MinMax { state: self.add_state(StateSpec::AnyBits { argument }) }));
        }
        if !(is_sum || is_average || function.is::<Count>()) {
            return Ok(None);
        }
        let kind = match (is_sum, is_average) {
            (true, _) => sum,
            (_, true) => average.as_ref().map(output::sum_kind),
            _ => None,
        };
        // Distinct values are kept as keys, which have no sums in 256 bits.
        if distinct && is_sum && matches!(argument.data_type(), DataType::Decimal256(..)) {
            return Ok(None);
        }
        if distinct {
            let layout = DistinctState::layout(argument.data_type(), self.grouped)?;
            let argument = self.add_argument(argument, view);
            let state = self.add_state(StateSpec::Distinct { argument, layout, sum: kind });
            return Ok(Some(match (is_sum, average.filter(|_| is_average)) {
                (true, _) => Output::DistinctSum { state, data_type: result.clone() },
                (_, Some(kind)) => Output::DistinctAverage { state, kind },
                _ => Output::DistinctCount { state },
            }));
        }
        let Some(kind) = kind else { return Ok(None) };
        let count = is_average.then(|| self.add_count(argument, view));
        let argument = self.add_argument(argument, view);
        let sum = self.add_state(StateSpec::Sum { argument, kind });
        Ok(match (count, average) {
            (Some(Output::Count { rows, nulls }), Some(kind)) => Some(Output::Average { sum, rows, nulls, kind }),
            _ => Some(Output::Sum { state: sum, data_type: result.clone() }),
        })
    }

    /// Rows of the view less those where the argument is NULL.
    fn add_count(&mut self, argument: &Expr, view: usize) -> Output {
        let rows = self.add_state(StateSpec::Rows { view });
        let nulls = argument.nullable().then(|| {
            let argument = self.add_argument(argument, view);
            self.add_state(StateSpec::Nulls { argument })
        });
        Output::Count { rows, nulls }
    }

    fn add_foreign(&mut self, call: &plan::AggregateCall, view: usize, input: &SchemaRef) -> Result<Output> {
        // As DataFusion's AggregateExec: the accumulator gets the ORDER BY's expressions behind its arguments.
        let mut expressions = call.arguments.clone();
        for order in call.function.order_bys() {
            expressions.push(Expr::new(order.expr.clone(), input)?);
        }
        let arguments = expressions.iter().map(|expression| self.add_argument(expression, view)).collect();
        let types = expressions.iter().map(|expression| expression.data_type().clone()).collect();
        let state = self.specs.len();
        self.specs.push(StateSpec::Foreign { view, function: call.function.clone(), arguments, types });
        self.has_foreign = true;
        Ok(Output::Foreign { state })
    }

    fn add_view(&mut self, filter: Option<&Expr>) -> usize {
        let same = |view: &Option<Expr>| match (view, filter) {
            (None, None) => true,
            (Some(view), Some(filter)) => view == filter,
            _ => false,
        };
        self.views.iter().position(same).unwrap_or_else(|| {
            self.views.push(filter.cloned());
            self.views.len() - 1
        })
    }

    fn add_argument(&mut self, expression: &Expr, view: usize) -> usize {
        let same = |argument: &Argument| argument.view == view && argument.expression == *expression;
        self.arguments.iter().position(same).unwrap_or_else(|| {
            self.arguments.push(Argument { view, expression: expression.clone() });
            self.arguments.len() - 1
        })
    }

    fn add_state(&mut self, spec: StateSpec) -> usize {
        for (index, known) in self.specs.iter_mut().enumerate() {
            let same = match (known, &spec) {
                (StateSpec::Rows { view: a }, StateSpec::Rows { view: b }) => a == b,
                (StateSpec::Nulls { argument: a }, StateSpec::Nulls { argument: b }) => a == b,
                (StateSpec::Sum { argument: a, kind: k }, StateSpec::Sum { argument: b, kind: l }) => a == b && k == l,
                (StateSpec::MinMax { argument: a, max: m, .. }, StateSpec::MinMax { argument: b, max: n, .. }) => {
                    a == b && m == n
                }
                (StateSpec::AnyBits { argument: a }, StateSpec::AnyBits { argument: b }) => a == b,
                (StateSpec::Distinct { argument: a, sum: s, .. }, StateSpec::Distinct { argument: b, sum, .. })
                    if a == b && s.zip(*sum).is_none_or(|(s, sum)| s == sum) =>
                {
                    // One of them may only count.
                    *s = s.or(*sum);
                    true
                }
                _ => false,
            };
            if same {
                return index;
            }
        }
        self.specs.push(spec);
        self.specs.len() - 1
    }

    /// Whether there are pairs of groups and values, which can be spilled apart.
    pub fn has_distinct(&self) -> bool {
        self.specs.iter().any(|spec| matches!(spec, StateSpec::Distinct { .. }))
    }

    /// Empty states.
    pub fn states(&self) -> Result<Vec<State>> {
        let always_seen = |argument: &usize| !self.grouped || self.views[self.arguments[*argument].view].is_some();
        self.specs
            .iter()
            .map(|spec| {
                Ok(match spec {
                    StateSpec::Rows { .. } => State::Rows(RowCounts::new()),
                    StateSpec::Nulls { .. } => State::Nulls(Vec::new()),
                    StateSpec::Sum { argument, kind } => State::Sum(SumState::new(*kind, always_seen(argument))),
                    StateSpec::MinMax { argument, max, data_type } => State::MinMax(
                        min_max_state(data_type, *max, always_seen(argument))
                            .ok_or_else(|| Error::bug("a native min or max lost its type"))?,
                    ),
                    StateSpec::AnyBits { argument } => State::MinMax(any_bits_state(always_seen(argument))),
                    StateSpec::Distinct { layout, sum, .. } => {
                        State::Distinct(Box::new(DistinctState::new(layout.clone(), *sum)))
                    }
                    StateSpec::Foreign { function, types, .. } => {
                        State::Foreign(ForeignState::new(function, types.clone(), self.grouped)?)
                    }
                })
            })
            .collect()
    }

    /// Evaluates filters and arguments on a batch, each once.
    pub fn evaluate(&self, batch: &Batch) -> Result<Inputs> {
        let views = self
            .views
            .iter()
            .map(|view| view.as_ref().map_or(Ok(Selection::All), |filter| filter.select(batch)))
            .collect::<Result<Vec<_>>>()?;
        let mut picked: Vec<Option<Batch>> = vec![None; views.len()];
        let arguments = self
            .arguments
            .iter()
            .map(|argument| {
                let source = match &views[argument.view] {
                    Selection::All => batch,
                    Selection::None => return Ok(None),
                    // A filter comes first, so that an argument is not computed where the filter guards it.
                    Selection::Rows(rows) => match &mut picked[argument.view] {
                        Some(picked) => picked,
                        slot => slot.insert(batch.pick(rows)?),
                    },
                };
                argument.expression.evaluate(source).map(Some)
            })
            .collect::<Result<_>>()?;
        Ok(Inputs { views, arguments })
    }

    /// The types of what is made of a batch's rows: group columns and arguments.
    pub fn made_types(&self) -> impl Iterator<Item = &DataType> {
        let arguments = self.arguments.iter().map(|argument| &argument.expression);
        let made = self.groups.iter().chain(arguments).filter(|expression| expression.as_column().is_none());
        made.map(Expr::data_type)
    }

    /// Bytes of that.
    pub fn made_bytes(&self, groups: &[Column], inputs: &Inputs) -> usize {
        let arguments = self.arguments.iter().map(|argument| &argument.expression).zip(&inputs.arguments);
        let arguments = arguments.filter_map(|(expression, column)| Some((expression, column.as_ref()?)));
        let made = self.groups.iter().zip(groups).chain(arguments);
        made.filter(|(expression, _)| expression.as_column().is_none()).map(|(_, column)| column.bytes()).sum()
    }

    /// Adds a batch to the states; `placement` says where its rows belong.
    pub fn update(&self, states: &mut [State], inputs: &Inputs, placement: Placement<'_>) -> Result<()> {
        let picked = inputs
            .views
            .iter()
            .map(|view| match (view, placement.ids) {
                (Selection::Rows(rows), Some(ids)) => rows.values().iter().map(|&row| ids[row as usize]).collect(),
                _ => Vec::new(),
            })
            .collect::<Vec<Vec<u32>>>();
        let place = |view: usize| match &inputs.views[view] {
            Selection::All => Some(placement),
            Selection::None => None,
            Selection::Rows(rows) => {
                let ids = placement.ids.map(|_| picked[view].as_slice());
                Some(Placement { ids, rows: Array::len(rows), appended: false, ..placement })
            }
        };
        for (spec, state) in self.specs.iter().zip(states) {
            match (spec, state) {
                (StateSpec::Rows { view }, State::Rows(counts)) => {
                    if let Some(placement) = place(*view) {
                        counts.update(placement);
                    }
                }
                (StateSpec::Nulls { argument }, State::Nulls(counts)) => {
                    if let Some((column, placement)) = self.input(inputs, *argument, &place) {
                        count_nulls(counts, column_nulls(column)?.as_ref(), placement);
                    }
                }
                (StateSpec::Sum { argument, .. }, State::Sum(sums)) => {
                    if let Some((column, placement)) = self.input(inputs, *argument, &place) {
                        sums.update(&column.flat()?, placement)?;
                    }
                }
                (StateSpec::MinMax { argument, .. } | StateSpec::AnyBits { argument }, State::MinMax(values)) => {
                    if let Some((column, placement)) = self.input(inputs, *argument, &place) {
                        values.update(&column.flat()?, placement)?;
                    }
                }
                (StateSpec::Distinct { argument, .. }, State::Distinct(distinct)) => {
                    if let Some((column, placement)) = self.input(inputs, *argument, &place) {
                        distinct.update(column, placement)?;
                    }
                }
                (StateSpec::Foreign { view, arguments, types, .. }, State::Foreign(foreign)) => {
                    if let Some(placement) = place(*view) {
                        let values = arguments
                            .iter()
                            .zip(types.iter())
                            .map(|(&argument, logical)| match &inputs.arguments[argument] {
                                Some(column) => to_logical(&column.flat()?, logical),
                                None => Err(Error::bug("an argument was not evaluated")),
                            })
                            .collect::<Result<Vec<_>>>()?;
                        foreign.update(&values, placement)?;
                    }
                }
                _ => return Err(Error::bug("an aggregate's states are out of order")),
            }
        }
        Ok(())
    }

    fn input<'a, 'b>(
        &self,
        inputs: &'a Inputs,
        argument: usize,
        place: &impl Fn(usize) -> Option<Placement<'b>>,
    ) -> Option<(&'a Column, Placement<'b>)> {
        Some((inputs.arguments[argument].as_ref()?, place(self.arguments[argument].view)?))
    }
}

/// Where a column is NULL, without moving its values if that can be.
fn column_nulls(column: &Column) -> Result<Option<NullBuffer>> {
    let (values, picks) = column.parts();
    match picks {
        Some(picks) if values.logical_null_count() == 0 => Ok(Array::nulls(picks.as_ref()).cloned()),
        _ => Ok(column.flat()?.logical_nulls()),
    }
}

/// A decimal of 128 bits without its cast to one of 256 bits with as many digits behind the point.
fn unwidened(argument: &Expr, input: &SchemaRef) -> Result<Option<Expr>> {
    let DataType::Decimal256(_, scale) = argument.data_type() else { return Ok(None) };
    let Some(cast) = argument.physical().downcast_ref::<CastExpr>() else { return Ok(None) };
    let inner = Expr::new(cast.expr().clone(), input)?;
    Ok(matches!(inner.data_type(), DataType::Decimal128(_, own) if own == scale).then_some(inner))
}

/// How DataFusion's `sum` adds up values of a type, if natively done here.
fn sum_kind(argument: &DataType, result: &DataType) -> Option<SumKind> {
    match (argument, result) {
        (DataType::Int64, DataType::Int64) | (DataType::UInt64, DataType::UInt64) => Some(SumKind::Exact),
        (DataType::Float64, DataType::Float64) => Some(SumKind::Float),
        (DataType::Decimal128(_, from), DataType::Decimal128(_, to)) if from == to => Some(SumKind::Exact),
        (DataType::Decimal128(_, from) | DataType::Decimal256(_, from), DataType::Decimal256(_, to)) if from == to => {
            Some(SumKind::ExactWidest)
        }
        _ => None,
    }
}

fn grouping_sets(plan: &plan::Aggregate) -> Vec<GroupingSet> {
    let columns = plan.groups.len();
    if !plan.has_grouping_id {
        return vec![GroupingSet { masked: vec![false; columns], id: 0 }];
    }
    let sets = plan.grouping_sets.iter().zip(plan.grouping_ids());
    sets.map(|(masked, id)| GroupingSet { masked: masked.clone(), id }).collect()
}

/// Evaluates the group columns of a batch.
pub(super) fn evaluate_groups(program: &Program, batch: &Batch) -> Result<Vec<Column>> {
    program.groups.iter().map(|group| group.evaluate(batch)).collect()
}
