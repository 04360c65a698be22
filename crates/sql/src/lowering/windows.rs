//! Functions of windows.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion_expr as df;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{CastExpr, Column as ColumnExpr};
use diligence_base::{Error, Result};
use diligence_engine::expressions::Expr;
use diligence_engine::plan::{self, Node, Plan, WindowCall, WindowFunction};

use super::expressions::SubqueryValues;
use super::{Lowered, Lowering, LoweringOptions};
use crate::algebra::{AggregateItem, Column, ColumnId, SortKey, Window, WindowItem, WindowKind};
use crate::unnesting::order_of;

impl Lowering<'_> {
    pub(super) fn window(
        &mut self,
        window: &Window,
        needed: &BTreeSet<ColumnId>,
        values: &mut SubqueryValues,
    ) -> Result<Lowered> {
        let items = window.items.iter().filter(|(column, _)| needed.contains(&column.id)).collect::<Vec<_>>();
        let made = window.items.iter().map(|(column, _)| column.id).collect::<BTreeSet<_>>();
        let mut below = needed.difference(&made).copied().collect::<BTreeSet<_>>();
        if items.is_empty() {
            return self.relation(&window.input, &below, super::has_order(&window.input), values);
        }
        window.partition.iter().for_each(|scalar| scalar.add_columns(&mut below));
        window.order.iter().for_each(|key| key.scalar.add_columns(&mut below));
        for (_, item) in &items {
            item.scalars().for_each(|scalar| scalar.add_columns(&mut below));
        }
        let partition = window.partition.iter().map(|scalar| SortKey {
            scalar: scalar.clone(),
            descending: false,
            nulls_first: false,
        });
        let mut keys = partition.chain(window.order.iter().cloned()).collect::<Vec<_>>();
        // Those of a partition that has no order as well.
        if !keys.is_empty() && window.order.is_empty() {
            keys.extend(order_of(&window.input));
        }
        // Without keys the rows stay in the order in which they are.
        let mut lowered = match keys.is_empty() {
            true => self.relation(&window.input, &below, super::has_order(&window.input), values)?,
            false => {
                let mut sorted = self.sort(&window.input, &keys, None, &below, true, values)?;
                sorted.plan.ordered = true;
                sorted
            }
        };
        lowered.plan.rows_estimate = Some(lowered.size.whole_rows());
        let partition_by = window.partition.iter().map(|scalar| self.expression(scalar, &lowered, values));
        let partition_by = partition_by.collect::<Result<Vec<_>>>()?;
        let order_by = self.sort_keys(&window.order, &lowered, values)?;
        let mut fields = lowered.schema().fields().iter().map(|field| field.as_ref().clone()).collect::<Vec<_>>();
        let mut calls = Vec::with_capacity(items.len());
        for (column, item) in &items {
            let (call, data_type) = self.window_call(column, item, &lowered, values)?;
            fields.push(super::field(column).with_data_type(data_type).with_nullable(true));
            calls.push(call);
        }
        let schema = Arc::new(Schema::new(fields));
        let inputs = lowered.columns.len();
        let size = lowered.size.clone();
        let mut columns = lowered.columns.clone();
        columns.extend(items.iter().map(|(column, _)| column.id));
        let ordered = lowered.plan.ordered;
        let node = Node::Window(plan::Window { input: Box::new(lowered.plan), partition_by, order_by, calls });
        let mut plan = Plan::new(node, schema.clone());
        plan.ordered = ordered;
        plan.rows_estimate = Some(size.whole_rows());
        let lowered = Lowered { plan, columns, size };
        let is_own = |(index, (column, _)): (usize, &&(Column, WindowItem))| {
            *schema.field(inputs + index).data_type() == column.sql_type.arrow()
        };
        if items.iter().enumerate().all(is_own) {
            return Ok(lowered);
        }
        let below = window.input.columns();
        let mut all: Vec<(Column, Arc<dyn PhysicalExpr>)> = Vec::new();
        for (position, id) in lowered.columns[..inputs].iter().enumerate() {
            if let Some(column) = below.iter().find(|column| column.id == *id) {
                all.push((column.clone(), Arc::new(ColumnExpr::new(schema.field(position).name(), position))));
            }
        }
        for (index, (column, _)) in items.iter().enumerate() {
            let position = inputs + index;
            let value: Arc<dyn PhysicalExpr> = Arc::new(ColumnExpr::new(schema.field(position).name(), position));
            let own = column.sql_type.arrow();
            let value = match *schema.field(position).data_type() == own {
                true => value,
                false => Arc::new(CastExpr::new(value, own, None)),
            };
            all.push((column.clone(), value));
        }
        self.computed(lowered, all)
    }

    fn window_call(
        &self,
        column: &Column,
        item: &WindowItem,
        lowered: &Lowered,
        values: &mut SubqueryValues,
    ) -> Result<(WindowCall, arrow::datatypes::DataType)> {
        use arrow::datatypes::DataType;
        let positions = lowered.positions();
        let filter = item.filter.as_ref().map(|filter| self.expression(filter, lowered, values)).transpose()?;
        let (function, arguments, data_type) = match &item.kind {
            WindowKind::Engine(function) => {
                let arguments = item.arguments.iter();
                let arguments =
                    arguments.map(|scalar| self.expressions.lower(scalar, &positions, lowered.schema(), values));
                let arguments = arguments.collect::<Result<Vec<_>>>()?;
                let data_type = match function {
                    WindowFunction::RowNumber
                    | WindowFunction::Rank
                    | WindowFunction::DenseRank
                    | WindowFunction::Ntile(_) => DataType::UInt64,
                    WindowFunction::NtileOf => DataType::Int64,
                    WindowFunction::PercentRank | WindowFunction::CumeDist => DataType::Float64,
                    _ => column.sql_type.arrow(),
                };
                (function.clone(), arguments, data_type)
            }
            WindowKind::Aggregate { call, is_distinct } => {
                let item = AggregateItem {
                    call: call.clone(),
                    arguments: item.arguments.clone(),
                    is_distinct: *is_distinct,
                    filter: None,
                    order: item.order.clone(),
                    made: None,
                };
                let (function, arguments) = self.function(&item, column, true, lowered, values)?;
                let data_type = function.field().data_type().clone();
                (WindowFunction::Aggregate(Arc::new(function)), arguments, data_type)
            }
        };
        let arguments = arguments.into_iter().map(|argument| Expr::new(argument, lowered.schema()));
        let frame = Arc::new(self.frame(item)?);
        let excludes = item.frame.excludes;
        let call = WindowCall { function, arguments: arguments.collect::<Result<Vec<_>>>()?, filter, frame, excludes };
        Ok((call, data_type))
    }

    /// The frame with the distances that are known by now.
    fn frame(&self, item: &WindowItem) -> Result<df::WindowFrame> {
        let mut frame = item.frame.frame.clone();
        let [start, end] = &item.frame.distances;
        let bounds = [&mut frame.start_bound, &mut frame.end_bound];
        for (index, (bound, distance)) in bounds.into_iter().zip([start, end]).enumerate() {
            let Some(distance) = distance else { continue };
            let options = LoweringOptions {
                zone: self.expressions.zone.to_owned(),
                options: self.expressions.options.clone(),
                keeps_parameters: false,
            };
            let Some(constant) = super::evaluated(distance, &options) else {
                let error = Error::unsupported("a frame's offset that is not known before the rows are read");
                return Err(error.with_code("0A000").with_hint("use a literal, a parameter or an expression of them"));
            };
            let distance = constant.distance(frame.units == df::WindowFrameUnits::Range, index == 0)?;
            *bound = match bound {
                df::WindowFrameBound::Preceding(_) => df::WindowFrameBound::Preceding(distance),
                _ => df::WindowFrameBound::Following(distance),
            };
        }
        Ok(frame)
    }
}
