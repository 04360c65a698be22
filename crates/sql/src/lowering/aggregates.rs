//! Groups and aggregates.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion_common::ScalarValue;
use datafusion_expr::Aggregate as LogicalAggregate;
use datafusion_expr::Operator;
use datafusion_physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion_physical_expr::expressions::{BinaryExpr, CaseExpr, CastExpr, Column as ColumnExpr};
use datafusion_physical_expr::{PhysicalExpr, PhysicalSortExpr};
use diligence_base::{Error, Result};
use diligence_engine::expressions::Expr;
use diligence_engine::plan::{self, Node, Plan};
use diligence_storage::foreign_error::from_datafusion;
use diligence_types::SqlType;
use diligence_types::functions::{
    AggregateBody, AggregateCall, Computed, RowsFunction, extreme_udaf, order_key, rows_udaf,
};

use super::expressions::{SubqueryValues, literal};
use super::{Lowered, Lowering, field};
use crate::algebra::{Aggregate, AggregateItem, Column, ColumnId, Relation, Scalar, SortKey};
use crate::ordering::estimates;

impl Lowering<'_> {
    pub(super) fn aggregate(
        &mut self,
        aggregate: &Aggregate,
        needed: &BTreeSet<ColumnId>,
        values: &mut SubqueryValues,
    ) -> Result<Lowered> {
        let wanted = aggregate.aggregates.iter().filter(|(column, _)| needed.contains(&column.id));
        let wanted = wanted.cloned().collect::<Vec<_>>();
        let aggregate = Aggregate { aggregates: wanted, ..aggregate.clone() };
        let mut below = BTreeSet::new();
        let as_relation = Relation::Aggregate(Aggregate { input: Box::new(Relation::one_row()), ..aggregate.clone() });
        as_relation.scalars().iter().for_each(|scalar| scalar.add_columns(&mut below));
        // The input's order shows in what collects values, if nothing else is asked for.
        let shows_order = aggregate.aggregates.iter().any(|(_, item)| item.order.is_empty() && collects(&item.call));
        let ordered = shows_order && super::has_order(&aggregate.input);
        let lowered = self.relation(&aggregate.input, &below, ordered, values)?;
        let size = estimates::of(&as_relation, std::slice::from_ref(&lowered.size));
        let groups = aggregate.groups.iter().map(|(_, scalar)| self.expression(scalar, &lowered, values));
        let groups = groups.collect::<Result<Vec<_>>>()?;
        let calls = aggregate.aggregates.iter().map(|(column, item)| self.call(column, item, &lowered, values));
        let calls = calls.collect::<Result<Vec<_>>>()?;
        let sets = match &aggregate.sets {
            None => vec![vec![false; groups.len()]],
            Some(sets) => sets.sets.iter().map(|set| set.iter().map(|is_in| !is_in).collect()).collect(),
        };
        let mut fields = Vec::new();
        let mut output: Vec<Column> = Vec::new();
        for ((column, _), group) in aggregate.groups.iter().zip(&groups) {
            let nullable = group.nullable() || aggregate.sets.is_some();
            fields.push(field(column).with_data_type(group.data_type().clone()).with_nullable(nullable));
            output.push(Column { nullable, ..column.clone() });
        }
        let has_sets = aggregate.sets.is_some();
        let ids = grouping_ids(&sets, groups.len());
        if has_sets {
            fields.push(Field::new("__grouping_id", grouping_type(&sets, groups.len()), false));
        }
        for call in &calls {
            fields.push(call.function.field().as_ref().clone());
        }
        let schema = Arc::new(Schema::new(fields));
        let has_groups = groups.len();
        let node = Node::Aggregate(plan::Aggregate {
            input: Box::new(lowered.plan),
            groups,
            grouping_sets: sets,
            has_grouping_id: has_sets,
            aggregates: calls,
            limit: None,
        });
        let mut plan = Plan::new(node, schema.clone());
        plan.rows_estimate = Some(size.whole_rows());
        // Behind it: the set's position for its id, and results in their own types.
        let mut columns: Vec<(Column, Arc<dyn PhysicalExpr>)> = Vec::new();
        let mut is_plain = !has_sets;
        let at = |position: usize| -> Arc<dyn PhysicalExpr> {
            Arc::new(ColumnExpr::new(schema.field(position).name(), position))
        };
        for (position, column) in output.into_iter().enumerate() {
            columns.push((column, at(position)));
        }
        if let Some(sets) = &aggregate.sets {
            let id_type = schema.field(has_groups).data_type();
            columns.push((sets.set_index.clone(), set_index(at(has_groups), id_type, &ids)?));
        }
        let first = has_groups + usize::from(has_sets);
        for (index, (column, _)) in aggregate.aggregates.iter().enumerate() {
            let (given, own) = (schema.field(first + index).data_type(), column.sql_type.arrow());
            let value = at(first + index);
            if *given == own {
                columns.push((column.clone(), value));
            } else {
                is_plain = false;
                columns.push((column.clone(), Arc::new(CastExpr::new(value, own, None))));
            }
        }
        let lowered =
            Lowered { plan, columns: columns.iter().map(|(column, _)| column.id).collect(), size: size.clone() };
        if is_plain {
            return Ok(lowered);
        }
        self.computed(lowered, columns)
    }

    fn call(
        &self,
        column: &Column,
        item: &AggregateItem,
        lowered: &Lowered,
        values: &mut SubqueryValues,
    ) -> Result<plan::AggregateCall> {
        let (function, arguments) = self.function(item, column, false, lowered, values)?;
        let arguments = arguments.into_iter().map(|argument| Expr::new(argument, lowered.schema()));
        let filter = item.filter.as_ref().map(|filter| self.expression(filter, lowered, values)).transpose()?;
        Ok(plan::AggregateCall {
            function: Arc::new(function),
            arguments: arguments.collect::<Result<Vec<_>>>()?,
            filter,
        })
    }

    /// The aggregate with its arguments. DISTINCT and ORDER BY are left out where they make no difference. A window
    /// gives the keys of an order with the arguments, so what has one is computed of all rows of a frame.
    pub(super) fn function(
        &self,
        item: &AggregateItem,
        column: &Column,
        is_window: bool,
        lowered: &Lowered,
        values: &mut SubqueryValues,
    ) -> Result<(AggregateFunctionExpr, Vec<Arc<dyn PhysicalExpr>>)> {
        let call = &item.call;
        if let Some(made) = &item.made {
            let positions = lowered.positions();
            let lower = |scalar: &Scalar| self.expressions.lower(scalar, &positions, lowered.schema(), values);
            let arguments = item.arguments.iter().map(lower).collect::<Result<Vec<_>>>()?;
            let function = AggregateExprBuilder::new(made.function.clone(), arguments.clone())
                .schema(lowered.schema().clone())
                .alias(&column.name)
                .build()
                .map_err(from_datafusion)?;
            return Ok((function, arguments));
        }
        let mut arguments = self.arguments(call, &item.arguments, lowered, values)?;
        let is_distinct = item.is_distinct && counts_copies(call);
        let is_sorted = collects(call) || matches!(call.overload.body, AggregateBody::Rows(_));
        let order = item.order.iter().filter(|_| is_sorted);
        let mut order = order.flat_map(SortKey::physical).collect::<Vec<_>>();
        let is_ordered = !order.is_empty();
        // Rows with such keys are sorted, but not compared one by one.
        let is_nested = |key: &SortKey| matches!(key.scalar.sql_type(), SqlType::Array(_) | SqlType::Record(_));
        let is_of_rows = is_ordered && is_window || order.iter().any(is_nested);
        let computed = self.of_rows(call, is_distinct, is_ordered).or_else(|| match &call.overload.body {
            AggregateBody::DataFusion { function, .. } if is_of_rows => Some(Computed::Aggregate(function())),
            _ => None,
        });
        let Some(computed) = computed else {
            let order = order.iter().map(|key| {
                let positions = lowered.positions();
                let expr = self.expressions.lower(&key.scalar, &positions, lowered.schema(), values)?;
                let options = arrow::compute::SortOptions { descending: key.descending, nulls_first: key.nulls_first };
                Ok(PhysicalSortExpr { expr, options })
            });
            let order = order.collect::<Result<Vec<_>>>()?;
            let function = self.aggregate_of(call, arguments.clone(), &column.name, lowered, is_distinct, order)?;
            return Ok((function, arguments));
        };
        if is_distinct {
            // Rows are told apart by their arguments; as in PostgreSQL, these are an order as well.
            for argument in &item.arguments {
                let scalar = match order_key(&argument.sql_type()) {
                    Some(call) => Scalar::Call { call, arguments: vec![argument.clone()] },
                    None => argument.clone(),
                };
                if order.iter().all(|key| key.scalar != scalar) {
                    order.push(SortKey { scalar, descending: false, nulls_first: false });
                }
            }
        }
        let types = arguments.iter().map(|argument| argument.data_type(lowered.schema()).map_err(from_datafusion));
        let types = types.collect::<Result<Vec<_>>>()?;
        let mut keys = Vec::with_capacity(order.len());
        for key in &order {
            let expr = self.expressions.lower(&key.scalar, &lowered.positions(), lowered.schema(), values)?;
            let options = arrow::compute::SortOptions { descending: key.descending, nulls_first: key.nulls_first };
            keys.push((expr.data_type(lowered.schema()).map_err(from_datafusion)?, options));
            arguments.push(expr);
        }
        let function = rows_udaf(computed, &types, &keys, is_distinct, &call.returns).map_err(from_datafusion)?;
        let function = AggregateExprBuilder::new(function, arguments.clone())
            .schema(lowered.schema().clone())
            .alias(&column.name)
            .build()
            .map_err(from_datafusion)?;
        Ok((function, arguments))
    }

    /// What is computed of all rows of a group at once; `None` where rows may come one by one.
    fn of_rows(&self, call: &AggregateCall, is_distinct: bool, is_ordered: bool) -> Option<Computed> {
        let is_nested = matches!(call.arguments.first(), Some(SqlType::Array(_)));
        match (&call.overload.body, call.overload.name) {
            (AggregateBody::Rows(function), _) => Some(Computed::Function(*function)),
            (AggregateBody::DataFusion { .. }, "array_agg") if is_distinct || is_ordered || is_nested => {
                Some(Computed::Function(RowsFunction::ArrayAgg))
            }
            // The engine has states of distinct values for these.
            (AggregateBody::DataFusion { .. }, "count" | "avg" | "median") => None,
            (AggregateBody::DataFusion { .. }, "sum") if call.returns != SqlType::Interval => None,
            (AggregateBody::DataFusion { function, .. }, _) if is_distinct => Some(Computed::Aggregate(function())),
            (AggregateBody::Rewritten, name) if is_distinct => {
                let (is_sample, is_root) = match name {
                    "variance" | "var_samp" => (true, false),
                    "var_pop" => (false, false),
                    "stddev" | "stddev_samp" => (true, true),
                    "stddev_pop" => (false, true),
                    _ => return None,
                };
                Some(Computed::Function(RowsFunction::Deviation { is_sample, is_root }))
            }
            _ => None,
        }
    }

    /// The arguments of an aggregate in the types that DataFusion's takes. One without arguments counts rows.
    fn arguments(
        &self,
        call: &AggregateCall,
        arguments: &[Scalar],
        lowered: &Lowered,
        values: &mut SubqueryValues,
    ) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
        if arguments.is_empty() {
            return Ok(vec![literal(ScalarValue::Int64(Some(1)))]);
        }
        let positions = lowered.positions();
        let mut lower = |scalar: &Scalar| self.expressions.lower(scalar, &positions, lowered.schema(), values);
        let mut physical = arguments.iter().map(&mut lower).collect::<Result<Vec<_>>>()?;
        match &call.overload.body {
            AggregateBody::DataFusion { casts, .. } => {
                let wanted = casts(&call.arguments);
                for ((physical, argument), to) in physical.iter_mut().zip(arguments).zip(wanted) {
                    if let Some(to) = to {
                        *physical = self.expressions.cast(physical.clone(), &argument.sql_type(), &to, false, false);
                    }
                }
            }
            AggregateBody::Extreme { .. } => {
                let Some(argument) = arguments.first() else { return Err(Error::bug("the least of no values")) };
                let key = match order_key(&argument.sql_type()) {
                    Some(call) => Scalar::Call { call, arguments: vec![argument.clone()] },
                    None => argument.clone(),
                };
                physical.push(lower(&key)?);
            }
            AggregateBody::Rows(_) | AggregateBody::Rewritten | AggregateBody::Average => {}
        }
        Ok(physical)
    }

    /// An aggregate of arguments in the types that its accumulators take.
    fn aggregate_of(
        &self,
        call: &AggregateCall,
        arguments: Vec<Arc<dyn PhysicalExpr>>,
        name: &str,
        lowered: &Lowered,
        is_distinct: bool,
        order: Vec<PhysicalSortExpr>,
    ) -> Result<AggregateFunctionExpr> {
        let function = match &call.overload.body {
            AggregateBody::DataFusion { function, .. } => function(),
            AggregateBody::Extreme { is_greatest } => extreme_udaf(*is_greatest),
            AggregateBody::Rows(_) | AggregateBody::Rewritten | AggregateBody::Average => {
                return Err(Error::bug(format!("the aggregate {} was not rewritten", call.overload.name)));
            }
        };
        AggregateExprBuilder::new(function, arguments)
            .schema(lowered.schema().clone())
            .alias(name)
            .with_distinct(is_distinct)
            .order_by(order)
            .build()
            .map_err(from_datafusion)
    }
}

/// Whether DISTINCT makes a difference.
fn counts_copies(call: &AggregateCall) -> bool {
    !matches!(
        call.overload.name,
        "min"
            | "max"
            | "bool_and"
            | "bool_or"
            | "every"
            | "bit_and"
            | "bit_or"
            | "any_value"
            | "first"
            | "first_value"
            | "last"
            | "last_value"
            | "approx_distinct"
            | "approx_count_distinct"
            | "single_value"
    )
}

/// Whether an aggregate shows the order of its rows.
fn collects(call: &AggregateCall) -> bool {
    matches!(call.overload.name, "array_agg" | "string_agg" | "first_value" | "last_value" | "first" | "last" | "list")
}

/// The engine's numbers of the sets: which groups are masked, the first one's bit the highest; above them a number that
/// tells equal sets apart.
fn grouping_ids(sets: &[Vec<bool>], groups: usize) -> Vec<u64> {
    let mut seen: Vec<(&Vec<bool>, u64)> = Vec::new();
    let mut ids = Vec::with_capacity(sets.len());
    for masked in sets {
        let bits = masked.iter().fold(0, |bits, &masked| bits << 1 | u64::from(masked));
        let ordinal = match seen.iter_mut().find(|(other, _)| *other == masked) {
            Some((_, count)) => {
                *count += 1;
                *count
            }
            None => {
                seen.push((masked, 0));
                0
            }
        };
        ids.push(bits | ordinal.checked_shl(groups as u32).unwrap_or(0));
    }
    ids
}

fn grouping_type(sets: &[Vec<bool>], groups: usize) -> DataType {
    let most = sets.iter().map(|set| sets.iter().filter(|other| *other == set).count() - 1).max().unwrap_or(0);
    LogicalAggregate::grouping_id_type(groups, most)
}

/// The position of a set in the statement, by the engine's number of it.
fn set_index(id: Arc<dyn PhysicalExpr>, id_type: &DataType, ids: &[u64]) -> Result<Arc<dyn PhysicalExpr>> {
    let arms = ids.iter().enumerate().map(|(index, value)| {
        let value = ScalarValue::UInt64(Some(*value)).cast_to(id_type).map_err(from_datafusion)?;
        let equal: Arc<dyn PhysicalExpr> = Arc::new(BinaryExpr::new(id.clone(), Operator::Eq, literal(value)));
        Ok((equal, literal(ScalarValue::Int64(Some(index as i64)))))
    });
    let arms = arms.collect::<Result<Vec<_>>>()?;
    let otherwise = Some(literal(ScalarValue::Int64(None)));
    Ok(Arc::new(CaseExpr::try_new(None, arms, otherwise).map_err(from_datafusion)?))
}
