//! Nodes as bytes. Inputs come first: expressions are made anew over their schemas.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion_common::{JoinSide, JoinType, NullEquality};
use datafusion_expr::physical_planning_context::ScalarSubqueryResults;
use datafusion_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion_physical_expr::PhysicalSortExpr;
use datafusion_physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use diligence_base::ids::{TableId, TableIdentity, TableVersion, TableView};
use diligence_base::{Error, Result};
use diligence_storage::foreign_error::from_datafusion;

use super::form::{BytesRead, damaged};
use super::{DEPTH_MAX, PlanReader, PlanWriter, STACK_GROWTH, STACK_RED_ZONE};
use crate::expressions::Expr;
use crate::plan::{
    Aggregate, AggregateCall, Common, CommonPart, Exclusion, HashJoin, NestedLoopJoin, Node, Pact, PairFilter, Plan,
    Recursive, RuntimeFilterId, Scan, SortKey, Unnest, Window, WindowCall, WindowFunction, WorkTable, WorkTableId,
    Write,
};

const JOIN_TYPES: [JoinType; 10] = [
    JoinType::Inner,
    JoinType::Left,
    JoinType::Right,
    JoinType::Full,
    JoinType::LeftSemi,
    JoinType::RightSemi,
    JoinType::LeftAnti,
    JoinType::RightAnti,
    JoinType::LeftMark,
    JoinType::RightMark,
];
const NULL_EQUALITIES: [NullEquality; 2] = [NullEquality::NullEqualsNothing, NullEquality::NullEqualsNull];
const JOIN_SIDES: [JoinSide; 3] = [JoinSide::Left, JoinSide::Right, JoinSide::None];
const FRAME_UNITS: [WindowFrameUnits; 3] = [WindowFrameUnits::Rows, WindowFrameUnits::Range, WindowFrameUnits::Groups];
const EXCLUSIONS: [Exclusion; 4] = [Exclusion::NoOthers, Exclusion::CurrentRow, Exclusion::Group, Exclusion::Ties];

/// The numbers of nodes.
mod kinds {
    pub const SCAN: u8 = 0;
    pub const VALUES: u8 = 1;
    pub const FILTER: u8 = 2;
    pub const PROJECT: u8 = 3;
    pub const LIMIT: u8 = 4;
    pub const SORT: u8 = 5;
    pub const HASH_JOIN: u8 = 6;
    pub const NESTED_LOOP_JOIN: u8 = 7;
    pub const AGGREGATE: u8 = 8;
    pub const WINDOW: u8 = 9;
    pub const WRITE: u8 = 10;
    pub const UNION: u8 = 11;
    pub const SCALAR_SUBQUERIES: u8 = 12;
    pub const EXCHANGE: u8 = 13;
    pub const RECURSIVE: u8 = 14;
    pub const UNNEST: u8 = 15;
    pub const WORK_TABLE: u8 = 16;
    pub const COMMON: u8 = 17;
    pub const FRAGMENT_WISE: u8 = 18;
}

/// The numbers of window functions.
mod windows {
    pub const ROW_NUMBER: u8 = 0;
    pub const RANK: u8 = 1;
    pub const DENSE_RANK: u8 = 2;
    pub const PERCENT_RANK: u8 = 3;
    pub const CUME_DIST: u8 = 4;
    pub const NTILE: u8 = 5;
    pub const SHIFT: u8 = 6;
    pub const NTH: u8 = 7;
    pub const NTILE_OF: u8 = 8;
    pub const SHIFT_OF: u8 = 9;
    pub const NTH_OF: u8 = 10;
    pub const AGGREGATE: u8 = 11;
}

/// The numbers of frames' bounds.
mod bounds {
    pub const PRECEDING: u8 = 0;
    pub const CURRENT_ROW: u8 = 1;
    pub const FOLLOWING: u8 = 2;
}

/// The numbers of pacts.
mod pacts {
    pub const PIPELINE: u8 = 0;
    pub const ROUND_ROBIN: u8 = 1;
    pub const HASH: u8 = 2;
    pub const RANGE: u8 = 3;
    pub const BROADCAST: u8 = 4;
    pub const GATHER: u8 = 5;
    pub const MERGE: u8 = 6;
}

impl PlanWriter<'_> {
    pub(super) fn plan(&mut self, plan: &Plan) -> Result<()> {
        stacker::maybe_grow(STACK_RED_ZONE, STACK_GROWTH, || {
            self.schema(&plan.schema)?;
            self.output.option(plan.rows_estimate.map(|rows| rows as u64));
            self.output.flag(plan.ordered);
            self.node(&plan.node)
        })
    }

    fn plans<'n>(&mut self, plans: impl IntoIterator<Item = &'n Plan, IntoIter: ExactSizeIterator>) -> Result<()> {
        let mut plans = plans.into_iter();
        self.output.count(plans.len());
        plans.try_for_each(|plan| self.plan(plan))
    }

    fn node(&mut self, node: &Node) -> Result<()> {
        match node {
            Node::Scan(scan) => self.scan(scan),
            Node::Values { batches } => {
                self.output.byte(kinds::VALUES);
                self.output.batches(batches)
            }
            Node::Filter { input, predicate } => {
                self.output.byte(kinds::FILTER);
                self.plan(input)?;
                self.expression(predicate)
            }
            Node::Project { input, expressions } => {
                self.output.byte(kinds::PROJECT);
                self.plan(input)?;
                self.expressions(expressions)
            }
            Node::Limit { input, skip, fetch } => {
                self.output.byte(kinds::LIMIT);
                self.plan(input)?;
                self.output.count(*skip);
                self.output.option(fetch.map(|fetch| fetch as u64));
                Ok(())
            }
            Node::Sort { input, keys, fetch } => {
                self.output.byte(kinds::SORT);
                self.plan(input)?;
                self.keys(keys)?;
                self.output.option(fetch.map(|fetch| fetch as u64));
                Ok(())
            }
            Node::HashJoin(join) => self.hash_join(join),
            Node::NestedLoopJoin(join) => {
                self.output.byte(kinds::NESTED_LOOP_JOIN);
                self.plan(&join.left)?;
                self.plan(&join.right)?;
                self.pairs(join.filter.as_ref())?;
                self.output.one_of(&JOIN_TYPES, &join.join_type)?;
                self.projection(join.projection.as_deref());
                Ok(())
            }
            Node::Aggregate(aggregate) => self.aggregate(aggregate),
            Node::Window(window) => self.window(window),
            Node::Write(write) => {
                self.output.byte(kinds::WRITE);
                self.plan(&write.input)?;
                self.output.count(self.beside.writers.len());
                self.beside.writers.push(write.writer.clone());
                Ok(())
            }
            Node::Union { inputs } => {
                self.output.byte(kinds::UNION);
                self.plans(inputs)
            }
            Node::ScalarSubqueries { input, subqueries, results } => {
                self.output.byte(kinds::SCALAR_SUBQUERIES);
                self.output.count(subqueries.len());
                self.subqueries.push(results.clone());
                subqueries.iter().try_for_each(|subquery| self.plan(subquery))?;
                self.plan(input)?;
                self.subqueries.pop();
                Ok(())
            }
            Node::Exchange { input, pact, consumers } => {
                self.output.byte(kinds::EXCHANGE);
                self.plan(input)?;
                self.output.count(*consumers);
                self.pact(pact)
            }
            Node::Recursive(query) => {
                self.output.byte(kinds::RECURSIVE);
                self.output.text(&query.name);
                self.output.number(u64::from(query.table.0));
                self.output.flag(query.is_distinct);
                self.plan(&query.base)?;
                self.plan(&query.step)
            }
            Node::Unnest(unnest) => self.unnest(unnest),
            Node::WorkTable(table) => {
                self.output.byte(kinds::WORK_TABLE);
                self.output.text(&table.name);
                self.output.number(u64::from(table.table.0));
                self.output.counts(&table.columns);
                Ok(())
            }
            Node::Common(common) => self.common(common),
            Node::FragmentWise { input, fragments } => {
                self.output.byte(kinds::FRAGMENT_WISE);
                self.output.count(*fragments);
                self.plan(input)
            }
            Node::Incoming(_) => {
                Err(Error::unsupported("a plan of rows that are sent while it runs cannot be written as bytes"))
            }
            Node::Mask(_) => Err(Error::unsupported("what several queries run together cannot be written as bytes")),
        }
    }

    fn window(&mut self, window: &Window) -> Result<()> {
        self.output.byte(kinds::WINDOW);
        self.plan(&window.input)?;
        self.expressions(&window.partition_by)?;
        self.keys(&window.order_by)?;
        self.output.count(window.calls.len());
        window.calls.iter().try_for_each(|call| self.window_call(call))
    }

    fn unnest(&mut self, unnest: &Unnest) -> Result<()> {
        self.output.byte(kinds::UNNEST);
        self.plan(&unnest.input)?;
        self.output.counts(&unnest.kept);
        self.output.count(unnest.arrays.len());
        for (array, is_of_records) in &unnest.arrays {
            self.output.flag(*is_of_records);
            self.expression(array)?;
        }
        self.output.flag(unnest.ordinality);
        self.output.flag(unnest.keeps_all);
        Ok(())
    }

    fn common(&mut self, common: &Common) -> Result<()> {
        self.output.byte(kinds::COMMON);
        self.output.count(common.parts.len());
        for part in &common.parts {
            self.output.number(u64::from(part.table.0));
            self.output.count(part.places);
            self.plan(&part.plan)?;
        }
        self.plan(&common.input)
    }

    fn scan(&mut self, scan: &Scan) -> Result<()> {
        self.output.byte(kinds::SCAN);
        let TableIdentity { table, version, view } = scan.table;
        self.output.number(table.0);
        self.output.number(version.0);
        self.output.flag(view.is_numbered);
        self.output.flag(view.is_without_index);
        self.output.option(view.fragment.map(u64::from));
        self.output.option(view.choice);
        self.schema(&scan.table_schema)?;
        self.output.text(&scan.name);
        self.output.counts(&scan.columns);
        self.expressions(&scan.filters)?;
        self.runtime_filters(&scan.runtime_filters);
        self.output.option(scan.limit.map(|limit| limit as u64));
        Ok(())
    }

    fn hash_join(&mut self, join: &HashJoin) -> Result<()> {
        self.output.byte(kinds::HASH_JOIN);
        self.plan(&join.left)?;
        self.plan(&join.right)?;
        self.output.count(join.on.len());
        for (left, right) in &join.on {
            self.expression(left)?;
            self.expression(right)?;
        }
        self.pairs(join.filter.as_ref())?;
        self.output.one_of(&JOIN_TYPES, &join.join_type)?;
        self.output.one_of(&NULL_EQUALITIES, &join.null_equality)?;
        self.output.flag(join.null_aware);
        self.projection(join.projection.as_deref());
        self.runtime_filters(&join.runtime_filters);
        Ok(())
    }

    fn aggregate(&mut self, aggregate: &Aggregate) -> Result<()> {
        self.output.byte(kinds::AGGREGATE);
        self.plan(&aggregate.input)?;
        self.expressions(&aggregate.groups)?;
        self.output.count(aggregate.grouping_sets.len());
        for set in &aggregate.grouping_sets {
            self.output.count(set.len());
            set.iter().for_each(|is_masked| self.output.flag(*is_masked));
        }
        self.output.flag(aggregate.has_grouping_id);
        self.output.count(aggregate.aggregates.len());
        for call in &aggregate.aggregates {
            self.aggregate_function(&call.function)?;
            self.expressions(&call.arguments)?;
            self.maybe(call.filter.as_ref())?;
        }
        self.output.option(aggregate.limit.map(|limit| limit as u64));
        Ok(())
    }

    fn aggregate_function(&mut self, function: &AggregateFunctionExpr) -> Result<()> {
        let name = self.functions.name_of_aggregate(function.fun())?;
        self.function_name(&name)?;
        self.output.text(function.name());
        let flags = [function.is_distinct(), function.ignore_nulls(), function.is_reversed()];
        flags.into_iter().for_each(|flag| self.output.flag(flag));
        let arguments = function.expressions();
        self.output.count(arguments.len());
        arguments.iter().try_for_each(|argument| self.physical(argument))?;
        self.output.count(function.order_bys().len());
        for key in function.order_bys() {
            self.output.sort_options(key.options);
            self.physical(&key.expr)?;
        }
        Ok(())
    }

    fn window_call(&mut self, call: &WindowCall) -> Result<()> {
        match &call.function {
            WindowFunction::RowNumber => self.output.byte(windows::ROW_NUMBER),
            WindowFunction::Rank => self.output.byte(windows::RANK),
            WindowFunction::DenseRank => self.output.byte(windows::DENSE_RANK),
            WindowFunction::PercentRank => self.output.byte(windows::PERCENT_RANK),
            WindowFunction::CumeDist => self.output.byte(windows::CUME_DIST),
            WindowFunction::Ntile(parts) => {
                self.output.byte(windows::NTILE);
                self.output.number(*parts);
            }
            WindowFunction::Shift { offset, default, ignore_nulls } => {
                self.output.byte(windows::SHIFT);
                self.output.signed(*offset);
                self.output.value(default)?;
                self.output.flag(*ignore_nulls);
            }
            WindowFunction::Nth { nth, ignore_nulls } => {
                self.output.byte(windows::NTH);
                self.output.signed(*nth);
                self.output.flag(*ignore_nulls);
            }
            WindowFunction::NtileOf => self.output.byte(windows::NTILE_OF),
            WindowFunction::ShiftOf { is_ahead, ignore_nulls } => {
                self.output.byte(windows::SHIFT_OF);
                self.output.flag(*is_ahead);
                self.output.flag(*ignore_nulls);
            }
            WindowFunction::NthOf { ignore_nulls } => {
                self.output.byte(windows::NTH_OF);
                self.output.flag(*ignore_nulls);
            }
            WindowFunction::Aggregate(function) => {
                self.output.byte(windows::AGGREGATE);
                self.aggregate_function(function)?;
            }
        }
        self.expressions(&call.arguments)?;
        self.maybe(call.filter.as_ref())?;
        self.output.one_of(&FRAME_UNITS, &call.frame.units)?;
        self.bound(&call.frame.start_bound)?;
        self.bound(&call.frame.end_bound)?;
        self.output.one_of(&EXCLUSIONS, &call.excludes)
    }

    fn bound(&mut self, bound: &WindowFrameBound) -> Result<()> {
        let (number, distance) = match bound {
            WindowFrameBound::Preceding(distance) => (bounds::PRECEDING, distance),
            WindowFrameBound::Following(distance) => (bounds::FOLLOWING, distance),
            WindowFrameBound::CurrentRow => {
                self.output.byte(bounds::CURRENT_ROW);
                return Ok(());
            }
        };
        self.output.byte(number);
        self.output.value(distance)
    }

    fn pact(&mut self, pact: &Pact) -> Result<()> {
        let mut keyed = |number, keys: &[SortKey]| {
            self.output.byte(number);
            self.keys(keys)
        };
        match pact {
            Pact::Range(keys) => return keyed(pacts::RANGE, keys),
            Pact::Merge(keys) => return keyed(pacts::MERGE, keys),
            Pact::Hash(keys) => {
                self.output.byte(pacts::HASH);
                return self.expressions(keys);
            }
            Pact::Pipeline => self.output.byte(pacts::PIPELINE),
            Pact::RoundRobin => self.output.byte(pacts::ROUND_ROBIN),
            Pact::Broadcast => self.output.byte(pacts::BROADCAST),
            Pact::Gather => self.output.byte(pacts::GATHER),
        }
        Ok(())
    }

    fn keys(&mut self, keys: &[SortKey]) -> Result<()> {
        self.output.count(keys.len());
        for key in keys {
            self.output.sort_options(key.options);
            self.expression(&key.expression)?;
        }
        Ok(())
    }

    fn pairs(&mut self, filter: Option<&PairFilter>) -> Result<()> {
        self.output.flag(filter.is_some());
        let Some(filter) = filter else { return Ok(()) };
        self.schema(&filter.schema)?;
        self.output.count(filter.columns.len());
        for (side, column) in &filter.columns {
            self.output.one_of(&JOIN_SIDES, side)?;
            self.output.count(*column);
        }
        self.expression(&filter.expression)
    }

    fn projection(&mut self, columns: Option<&[usize]>) {
        self.output.flag(columns.is_some());
        columns.into_iter().for_each(|columns| self.output.counts(columns));
    }

    fn runtime_filters(&mut self, filters: &[(RuntimeFilterId, usize)]) {
        self.output.count(filters.len());
        for (id, place) in filters {
            self.output.number(u64::from(id.0));
            self.output.count(*place);
        }
    }
}

impl PlanReader<'_> {
    pub(super) fn plan(&mut self) -> Result<Plan> {
        if self.depth > DEPTH_MAX {
            return Err(damaged("a plan has too many nodes within each other"));
        }
        self.depth += 1;
        let read = stacker::maybe_grow(STACK_RED_ZONE, STACK_GROWTH, || {
            let schema = self.schema()?;
            let rows_estimate = self.maybe_size()?;
            let ordered = self.input.flag()?;
            Ok(Plan { node: self.node(&schema)?, schema, rows_estimate, ordered })
        });
        self.depth -= 1;
        read
    }

    fn boxed(&mut self) -> Result<Box<Plan>> {
        Ok(Box::new(self.plan()?))
    }

    fn maybe_size(&mut self) -> Result<Option<usize>> {
        let size = self.input.option()?;
        size.map(|size| usize::try_from(size).map_err(|_| damaged("a number is too large"))).transpose()
    }

    fn id(&mut self) -> Result<u32> {
        u32::try_from(self.input.number()?).map_err(|_| damaged("a number is too large"))
    }

    fn node(&mut self, schema: &SchemaRef) -> Result<Node> {
        Ok(match self.input.byte()? {
            kinds::SCAN => self.scan()?,
            kinds::VALUES => Node::Values { batches: self.input.batches()? },
            kinds::FILTER => {
                let input = self.boxed()?;
                let predicate = self.expression(&input.schema)?;
                Node::Filter { input, predicate }
            }
            kinds::PROJECT => {
                let input = self.boxed()?;
                let expressions = self.expressions(&input.schema)?;
                if expressions.len() != schema.fields().len() {
                    return Err(damaged("columns are missing"));
                }
                Node::Project { input, expressions }
            }
            kinds::LIMIT => Node::Limit { input: self.boxed()?, skip: self.input.size()?, fetch: self.maybe_size()? },
            kinds::SORT => {
                let input = self.boxed()?;
                let keys = self.keys(&input.schema)?;
                Node::Sort { input, keys, fetch: self.maybe_size()? }
            }
            kinds::HASH_JOIN => self.hash_join()?,
            kinds::NESTED_LOOP_JOIN => {
                let (left, right) = (self.boxed()?, self.boxed()?);
                let filter = self.pairs(&left, &right)?;
                let join_type = self.input.one_of(&JOIN_TYPES, "kind of join")?;
                let projection = self.projection(&left, &right)?;
                Node::NestedLoopJoin(NestedLoopJoin { left, right, filter, join_type, projection })
            }
            kinds::AGGREGATE => self.aggregate()?,
            kinds::WINDOW => {
                let input = self.boxed()?;
                let partition_by = self.expressions(&input.schema)?;
                let order_by = self.keys(&input.schema)?;
                let count = self.input.count()?;
                let calls = (0..count).map(|_| self.window_call(&input.schema));
                let calls = calls.collect::<Result<Vec<_>>>()?;
                Node::Window(Window { input, partition_by, order_by, calls })
            }
            kinds::WRITE => {
                let input = self.boxed()?;
                let place = self.input.size()?;
                Node::Write(Write { input, writer: self.live.writer(place)? })
            }
            kinds::UNION => {
                let count = self.input.count()?;
                Node::Union { inputs: (0..count).map(|_| self.plan()).collect::<Result<_>>()? }
            }
            kinds::SCALAR_SUBQUERIES => {
                let slots = self.input.count()?;
                let results = ScalarSubqueryResults::new(slots);
                self.subqueries.push((results.clone(), slots));
                let subqueries = (0..slots).map(|_| self.plan()).collect::<Result<Vec<_>>>()?;
                let input = self.boxed()?;
                self.subqueries.pop();
                Node::ScalarSubqueries { input, subqueries, results }
            }
            kinds::EXCHANGE => {
                let input = self.boxed()?;
                let consumers = self.input.size()?;
                let pact = self.pact(&input.schema)?;
                Node::Exchange { input, pact, consumers }
            }
            kinds::RECURSIVE => {
                let (name, table) = (self.input.text()?, WorkTableId(self.id()?));
                let is_distinct = self.input.flag()?;
                Node::Recursive(Recursive { name, base: self.boxed()?, step: self.boxed()?, table, is_distinct })
            }
            kinds::UNNEST => {
                let input = self.boxed()?;
                let kept = self.places(input.schema.fields().len())?;
                let count = self.input.count()?;
                let arrays = (0..count).map(|_| {
                    let is_of_records = self.input.flag()?;
                    Ok((self.expression(&input.schema)?, is_of_records))
                });
                let arrays = arrays.collect::<Result<Vec<_>>>()?;
                let (ordinality, keeps_all) = (self.input.flag()?, self.input.flag()?);
                Node::Unnest(Unnest { input, kept, arrays, ordinality, keeps_all })
            }
            kinds::WORK_TABLE => {
                let (name, table) = (self.input.text()?, WorkTableId(self.id()?));
                Node::WorkTable(WorkTable { table, name, columns: self.input.counts()? })
            }
            kinds::COMMON => {
                let count = self.input.count()?;
                let parts = (0..count).map(|_| {
                    let (table, places) = (WorkTableId(self.id()?), self.input.size()?);
                    Ok(CommonPart { plan: self.plan()?, table, places })
                });
                let parts = parts.collect::<Result<Vec<_>>>()?;
                Node::Common(Common { parts, input: self.boxed()? })
            }
            kinds::FRAGMENT_WISE => {
                let fragments = self.input.size()?;
                Node::FragmentWise { input: self.boxed()?, fragments }
            }
            other => return Err(damaged(format_args!("there is no node of number {other}"))),
        })
    }

    fn scan(&mut self) -> Result<Node> {
        let (table, version) = (TableId(self.input.number()?), TableVersion(self.input.number()?));
        let (is_numbered, is_without_index) = (self.input.flag()?, self.input.flag()?);
        let fragment = self.input.option()?.map(u16::try_from).transpose();
        let fragment = fragment.map_err(|_| damaged("a number is too large"))?;
        let view = TableView { is_numbered, is_without_index, fragment, choice: self.input.option()? };
        let table = TableIdentity { table, version, view };
        let table_schema = self.schema()?;
        let name = self.input.text()?;
        let columns = self.places(table_schema.fields().len())?;
        let filters = self.expressions(&table_schema)?;
        let runtime_filters = self.runtime_filters(table_schema.fields().len())?;
        let limit = self.maybe_size()?;
        Ok(Node::Scan(Scan { table, table_schema, name, columns, filters, runtime_filters, limit }))
    }

    fn hash_join(&mut self) -> Result<Node> {
        let (left, right) = (self.boxed()?, self.boxed()?);
        let count = self.input.count()?;
        let on = (0..count).map(|_| Ok((self.expression(&left.schema)?, self.expression(&right.schema)?)));
        let on = on.collect::<Result<Vec<_>>>()?;
        let filter = self.pairs(&left, &right)?;
        let join_type = self.input.one_of(&JOIN_TYPES, "kind of join")?;
        let null_equality = self.input.one_of(&NULL_EQUALITIES, "way to compare NULLs")?;
        let null_aware = self.input.flag()?;
        let projection = self.projection(&left, &right)?;
        let runtime_filters = self.runtime_filters(on.len())?;
        Ok(Node::HashJoin(HashJoin {
            left,
            right,
            on,
            filter,
            join_type,
            null_equality,
            null_aware,
            projection,
            runtime_filters,
        }))
    }

    fn aggregate(&mut self) -> Result<Node> {
        let input = self.boxed()?;
        let groups = self.expressions(&input.schema)?;
        let grouping_sets = self.input.all(|input| input.all(BytesRead::flag))?;
        if grouping_sets.iter().any(|set| set.len() != groups.len()) {
            return Err(damaged("a grouping set has other columns"));
        }
        let has_grouping_id = self.input.flag()?;
        let count = self.input.count()?;
        let aggregates = (0..count).map(|_| {
            let function = Arc::new(self.aggregate_function(&input.schema)?);
            let (arguments, filter) = (self.expressions(&input.schema)?, self.maybe(&input.schema)?);
            Ok(AggregateCall { function, arguments, filter })
        });
        let aggregates = aggregates.collect::<Result<Vec<_>>>()?;
        let limit = self.maybe_size()?;
        Ok(Node::Aggregate(Aggregate { input, groups, grouping_sets, has_grouping_id, aggregates, limit }))
    }

    fn aggregate_function(&mut self, schema: &SchemaRef) -> Result<AggregateFunctionExpr> {
        let name = self.function_name()?;
        let function = self.functions.aggregate_named(&name)?;
        let alias = self.input.text()?;
        let [is_distinct, ignores_nulls, is_reversed] = [self.input.flag()?, self.input.flag()?, self.input.flag()?];
        let count = self.input.count()?;
        let arguments = (0..count).map(|_| self.physical(schema)).collect::<Result<Vec<_>>>()?;
        let count = self.input.count()?;
        let order = (0..count).map(|_| {
            let options = self.input.sort_options()?;
            Ok(PhysicalSortExpr { expr: self.physical(schema)?, options })
        });
        let order = order.collect::<Result<Vec<_>>>()?;
        AggregateExprBuilder::new(function, arguments)
            .schema(schema.clone())
            .alias(alias)
            .with_distinct(is_distinct)
            .with_ignore_nulls(ignores_nulls)
            .with_reversed(is_reversed)
            .order_by(order)
            .build()
            .map_err(from_datafusion)
    }

    fn window_call(&mut self, schema: &SchemaRef) -> Result<WindowCall> {
        let function = match self.input.byte()? {
            windows::ROW_NUMBER => WindowFunction::RowNumber,
            windows::RANK => WindowFunction::Rank,
            windows::DENSE_RANK => WindowFunction::DenseRank,
            windows::PERCENT_RANK => WindowFunction::PercentRank,
            windows::CUME_DIST => WindowFunction::CumeDist,
            windows::NTILE => WindowFunction::Ntile(self.input.number()?),
            windows::SHIFT => {
                let (offset, default) = (self.input.signed()?, self.input.value()?);
                WindowFunction::Shift { offset, default, ignore_nulls: self.input.flag()? }
            }
            windows::NTH => WindowFunction::Nth { nth: self.input.signed()?, ignore_nulls: self.input.flag()? },
            windows::NTILE_OF => WindowFunction::NtileOf,
            windows::SHIFT_OF => {
                WindowFunction::ShiftOf { is_ahead: self.input.flag()?, ignore_nulls: self.input.flag()? }
            }
            windows::NTH_OF => WindowFunction::NthOf { ignore_nulls: self.input.flag()? },
            windows::AGGREGATE => WindowFunction::Aggregate(Arc::new(self.aggregate_function(schema)?)),
            other => return Err(damaged(format_args!("there is no window function of number {other}"))),
        };
        let (arguments, filter) = (self.expressions(schema)?, self.maybe(schema)?);
        let units = self.input.one_of(&FRAME_UNITS, "unit of frames")?;
        let frame = Arc::new(WindowFrame::new_bounds(units, self.bound()?, self.bound()?));
        let excludes = self.input.one_of(&EXCLUSIONS, "exclusion")?;
        Ok(WindowCall { function, arguments, filter, frame, excludes })
    }

    fn bound(&mut self) -> Result<WindowFrameBound> {
        Ok(match self.input.byte()? {
            bounds::PRECEDING => WindowFrameBound::Preceding(self.input.value()?),
            bounds::CURRENT_ROW => WindowFrameBound::CurrentRow,
            bounds::FOLLOWING => WindowFrameBound::Following(self.input.value()?),
            other => return Err(damaged(format_args!("there is no bound of number {other}"))),
        })
    }

    fn pact(&mut self, schema: &Schema) -> Result<Pact> {
        Ok(match self.input.byte()? {
            pacts::PIPELINE => Pact::Pipeline,
            pacts::ROUND_ROBIN => Pact::RoundRobin,
            pacts::HASH => Pact::Hash(self.expressions(schema)?),
            pacts::RANGE => Pact::Range(self.keys(schema)?),
            pacts::BROADCAST => Pact::Broadcast,
            pacts::GATHER => Pact::Gather,
            pacts::MERGE => Pact::Merge(self.keys(schema)?),
            other => return Err(damaged(format_args!("there is no pact of number {other}"))),
        })
    }

    fn keys(&mut self, schema: &Schema) -> Result<Vec<SortKey>> {
        let count = self.input.count()?;
        let keys = (0..count).map(|_| {
            let options = self.input.sort_options()?;
            Ok(SortKey { expression: self.expression(schema)?, options })
        });
        keys.collect()
    }

    fn pairs(&mut self, left: &Plan, right: &Plan) -> Result<Option<PairFilter>> {
        if !self.input.flag()? {
            return Ok(None);
        }
        let schema = self.schema()?;
        let columns = self.input.all(|input| Ok((input.one_of(&JOIN_SIDES, "side of a join")?, input.size()?)))?;
        let is_there = |(side, column): &(JoinSide, usize)| match side {
            JoinSide::Left => *column < left.schema.fields().len(),
            JoinSide::Right => *column < right.schema.fields().len(),
            JoinSide::None => true,
        };
        if columns.len() != schema.fields().len() || !columns.iter().all(is_there) {
            return Err(damaged("a condition reads columns that are not there"));
        }
        let expression: Expr = self.expression(&schema)?;
        Ok(Some(PairFilter { expression, columns, schema }))
    }

    fn projection(&mut self, left: &Plan, right: &Plan) -> Result<Option<Vec<usize>>> {
        // A mark join has one column more.
        let columns = left.schema.fields().len() + right.schema.fields().len() + 1;
        Ok(if self.input.flag()? { Some(self.places(columns)?) } else { None })
    }

    fn runtime_filters(&mut self, columns: usize) -> Result<Vec<(RuntimeFilterId, usize)>> {
        let count = self.input.count()?;
        let filters = (0..count).map(|_| {
            let (id, column) = (RuntimeFilterId(self.id()?), self.input.size()?);
            match column < columns {
                true => Ok((id, column)),
                false => Err(damaged(format_args!("there is no column {column}"))),
            }
        });
        filters.collect()
    }

    /// Places among so many columns.
    fn places(&mut self, columns: usize) -> Result<Vec<usize>> {
        let places = self.input.counts()?;
        match places.iter().find(|place| **place >= columns) {
            Some(place) => Err(damaged(format_args!("there is no column {place}"))),
            None => Ok(places),
        }
    }
}
