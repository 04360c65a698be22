//! Cuts a plan into pipelines.
//!
//! A plan is walked from the top. The *tail* is what rows meet on their way up: the operators between here and the next
//! sink. A streaming node puts itself in front of the tail; a node that must keep rows ends the pipeline below with a
//! sink and starts a new one, whose source reads what was kept, in front of the tail.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion_common::JoinType;
use datafusion_expr::physical_planning_context::ScalarSubqueryResults;
use diligence_base::{Error, Result};
use diligence_storage::Table;

use super::context::CompileContext;
use super::graph::{Branch, Graph, Part, PipelineSpec, SinkSpec, TableSpec};
use super::nested::NestedRuns;
use super::progress::room_bytes;
use crate::exchange::port::Receiver;
use crate::exchange::{Exchange, InOrder};
use crate::expressions::Expr;
use crate::flow::{Operator, Sink, Source};
use crate::operators::aggregate::aggregate;
use crate::operators::common::CommonRows;
use crate::operators::filter::Filter;
use crate::operators::fragment_wise::FragmentWiseSource;
use crate::operators::hash_join::{JoinParts, TableShare, hash_join, nested_loop_join};
use crate::operators::incoming::IncomingSource;
use crate::operators::limit::limit;
use crate::operators::mask::MaskRows;
use crate::operators::project::Project;
use crate::operators::recursive::{RecursiveSource, WorkTableSource};
use crate::operators::runtime_filter::RuntimeFilter;
use crate::operators::scalar::ScalarSink;
use crate::operators::scan::ScanSource;
use crate::operators::sort::{BoundedColumn, sort};
use crate::operators::unnest::UnnestRows;
use crate::operators::values::Values;
use crate::operators::window::WindowSource;
use crate::operators::write::write;
use crate::plan::estimates::table_rows;
use crate::plan::{
    Aggregate, Common, CommonPart, HashJoin, Node, Pact, Plan, RuntimeFilterId, Scan, SortKey, WorkTableId,
    filters_from_outside,
};
use crate::stages::StageId;

/// A table, or a LIMIT, of so many rows at most is read in order by one packet: an exchange costs more than it gains.
const SERIAL_ROWS_MAX: usize = if cfg!(test) { 3 } else { 131_072 };

/// Cuts `plan` into pipelines that end in `result`.
pub fn compile(plan: &Plan, result: Arc<dyn Sink>, context: &CompileContext) -> Result<Graph> {
    let mut compiler = Compiler {
        context,
        graph: Graph {
            pipelines: Vec::new(),
            sinks: Vec::new(),
            tables: Vec::new(),
            scans: Vec::new(),
            groups: None,
            held: None,
        },
        runtime_filters: HashMap::new(),
        common: HashMap::new(),
        streamed: HashMap::new(),
        gates: Vec::new(),
    };
    let sink = compiler.sink(result, "Result", StageId::Exchange);
    compiler.node(plan, Tail::new(sink))?;
    Ok(compiler.graph)
}

/// How many scans a plan has.
fn scans_in(plan: &Plan) -> usize {
    let own = usize::from(matches!(plan.node, Node::Scan(_)));
    plan.inputs().into_iter().fold(own, |sum, input| sum + scans_in(input))
}

/// What rows meet between a node and the next sink.
#[derive(Clone)]
struct Tail {
    operators: Vec<Part<dyn Operator>>,
    /// How many of the operators, from the first on, work on each batch by itself.
    by_batch: usize,
    /// Where rows end behind the operators.
    branches: Vec<Branch>,
    serial: bool,
    /// Whether the sink puts rows of several packets in order.
    orders: bool,
    after_sinks: Vec<usize>,
    /// Which rows of a node may matter to a top-N above it, by one of the node's columns.
    bounded: Option<BoundedColumn>,
}

impl Tail {
    fn new(sink: usize) -> Self {
        Self::to(vec![Branch::to(sink)])
    }

    fn to(branches: Vec<Branch>) -> Self {
        let (operators, after_sinks) = (Vec::new(), Vec::new());
        Self { operators, by_batch: 0, branches, serial: false, orders: false, after_sinks, bounded: None }
    }

    fn bounded(self, bounded: Option<BoundedColumn>) -> Self {
        Self { bounded, ..self }
    }

    fn with(mut self, operator: Arc<dyn Operator>, name: impl Into<String>) -> Self {
        self.operators.insert(0, Part::new(operator, name));
        self.by_batch = 0;
        self
    }

    /// An operator that works on each batch by itself, and gives all rows of one before it takes the next.
    fn with_by_batch(self, operator: Arc<dyn Operator>, name: impl Into<String>) -> Self {
        let by_batch = self.by_batch + 1;
        Self { by_batch, ..self.with(operator, name) }
    }
}

struct Compiler<'a> {
    context: &'a CompileContext,
    graph: Graph,
    /// The filters that joins make, and the sinks that fill them.
    runtime_filters: HashMap<RuntimeFilterId, (Arc<RuntimeFilter>, usize)>,
    /// The common parts, and the sinks that fill them.
    common: HashMap<WorkTableId, (Arc<CommonRows>, usize)>,
    /// The common parts whose rows go to all of their places as they come, and where these places that were met so far
    /// take them.
    streamed: HashMap<WorkTableId, Vec<Branch>>,
    /// Sinks that everything compiled at the moment waits for (scalar subqueries).
    gates: Vec<usize>,
}

impl Compiler<'_> {
    fn sink(&mut self, sink: Arc<dyn Sink>, name: impl Into<String>, stage: StageId) -> usize {
        self.graph.sinks.push(SinkSpec { sink: Part::new(sink, name), stage });
        self.graph.sinks.len() - 1
    }

    fn pipeline(&mut self, stage: StageId, source: Arc<dyn Source>, name: impl Into<String>, tail: Tail) -> usize {
        let mut after_sinks = tail.after_sinks;
        after_sinks.extend(&self.gates);
        self.graph.pipelines.push(PipelineSpec {
            stage,
            source: Part::new(source, name),
            operators: tail.operators,
            branches: tail.branches,
            branching: Arc::default(),
            serial: tail.serial,
            in_order: false,
            exact_packets: false,
            after_sinks,
            after_pipelines: Vec::new(),
            after_started: Vec::new(),
        });
        self.graph.pipelines.len() - 1
    }

    /// Compiles a node in front of a tail. Returns the pipelines that feed the tail.
    fn node(&mut self, plan: &Plan, mut tail: Tail) -> Result<Vec<usize>> {
        tail.serial |= plan.ordered;
        // Only nodes pass it on that give a row of theirs, or several, for each of those below.
        let bounded = tail.bounded.take();
        let name = plan.node.shown(&self.context.live).to_string();
        match &plan.node {
            Node::Scan(scan) => self.scan(scan, name, tail, bounded),
            Node::Values { batches } => {
                let source = Values::new(batches, self.context.query.batch_rows);
                Ok(vec![self.pipeline(StageId::Values, source, name, tail)])
            }
            Node::Filter { input, predicate } => {
                let bounded = bounded.filter(|_| !predicate.calls_outside());
                let bounded = bounded.map(|bounded| BoundedColumn { arrives: false, ..bounded });
                tail.orders = false;
                self.node(input, tail.with_by_batch(Filter::new(predicate.clone()), name).bounded(bounded))
            }
            Node::Project { input, expressions } => {
                let bounded = bounded.filter(|_| !expressions.iter().any(Expr::calls_outside));
                let bounded = bounded.and_then(|bounded| {
                    Some(BoundedColumn { column: expressions[bounded.column].as_column()?, ..bounded })
                });
                self.node(input, tail.with_by_batch(Project::new(expressions.clone()), name).bounded(bounded))
            }
            Node::Mask(mask) => self.node(&mask.input, tail.with(MaskRows::new(mask), name)),
            Node::Unnest(unnest) => self.node(&unnest.input, tail.with_by_batch(UnnestRows::new(unnest)?, name)),
            Node::Limit { input, skip, fetch } => self.node(input, tail.with(limit(*skip, *fetch), name)),
            Node::Sort { input, keys, fetch } => {
                self.sort((input.as_ref(), keys.as_slice(), *fetch), &plan.schema, &name, tail)
            }
            Node::HashJoin(join) => {
                let bounded = bounded.and_then(|BoundedColumn { bound, column, arrives }| {
                    let arrives = arrives && matches!(join.join_type, JoinType::Right | JoinType::RightMark);
                    Some(BoundedColumn { bound, column: join.probe_column(column)?, arrives })
                });
                self.hash_join(plan, join, name, tail, bounded)
            }
            Node::NestedLoopJoin(join) => {
                let parts = nested_loop_join(join, &plan.schema)?;
                self.join(parts, None, (&join.left, &join.right), name, (tail, None), |_, _| {})
            }
            Node::Aggregate(node) => self.aggregate(node, &plan.schema, &name, tail),
            Node::Union { inputs } => {
                let mut feeding = Vec::new();
                // Each input has an order of its own.
                tail.orders = false;
                for input in inputs {
                    feeding.extend(self.node(input, tail.clone().bounded(bounded.clone()))?);
                }
                Ok(feeding)
            }
            Node::ScalarSubqueries { input, subqueries, results } => {
                self.scalar_subqueries(input, subqueries, results, tail)
            }
            Node::Exchange { input, pact, consumers } => self.exchange(input, pact, *consumers, &name, tail),
            Node::Window(window) => {
                let receiver = self.gathered(&window.input, format!("Input of {name}"))?;
                let source = WindowSource::new(window, &plan.schema, receiver)?;
                Ok(vec![self.pipeline(StageId::Window, source, name, tail)])
            }
            Node::Write(node) => {
                let (sink, written) = write(node.writer.clone(), node.input.schema.clone(), self.context.io.clone());
                let sink = self.sink(sink, &name, StageId::Exchange);
                self.node(&node.input, Tail { orders: node.writer.keeps_order(), ..Tail::new(sink) })?;
                tail.after_sinks.push(sink);
                Ok(vec![self.pipeline(StageId::Exchange, written, "Written", tail)])
            }
            Node::Recursive(query) => {
                let receiver = self.gathered(&query.base, format!("Base of {name}"))?;
                let plans = NestedRuns::new(self.context, compile);
                let source = RecursiveSource::new(query, &plan.schema, receiver, Box::new(plans));
                Ok(vec![self.pipeline(StageId::Recursive, source, name, tail)])
            }
            Node::FragmentWise { input, fragments } => self.fragment_wise(input, *fragments, name, tail),
            Node::Common(common) => self.common_parts(common, tail),
            Node::WorkTable(table) if self.streamed.contains_key(&table.table) => {
                self.streamed_place(table.table, tail)?;
                Ok(Vec::new())
            }
            Node::WorkTable(table) if self.common.contains_key(&table.table) => {
                let (rows, sink) = &self.common[&table.table];
                tail.after_sinks.push(*sink);
                let source = rows.source();
                Ok(vec![self.pipeline(StageId::Values, source, name, tail)])
            }
            Node::WorkTable(table) => {
                let rows = self.context.work_tables.get(&table.table).cloned();
                let source = WorkTableSource::new(rows, table.columns.clone());
                Ok(vec![self.pipeline(StageId::Recursive, source, name, tail)])
            }
            Node::Incoming(incoming) => {
                let source = IncomingSource::new(incoming)?;
                Ok(vec![self.pipeline(StageId::Incoming, source, name, tail)])
            }
        }
    }

    fn scan(
        &mut self,
        scan: &Scan,
        name: String,
        mut tail: Tail,
        bounded: Option<BoundedColumn>,
    ) -> Result<Vec<usize>> {
        let mut filters = Vec::new();
        for (id, column) in &scan.runtime_filters {
            // A filter nobody makes filters nothing.
            if let Some((filter, sink)) = self.runtime_filters.get(id) {
                filters.push((filter.clone(), *column));
                tail.after_sinks.push(*sink);
            } else if let Some(filter) = self.context.runtime_filters.get(id) {
                filters.push((filter.clone(), *column));
            }
        }
        let table = self.context.live.get(scan.table)?;
        let progress = self.context.progress.get(self.graph.scans.len()).cloned().unwrap_or_default();
        self.graph.scans.push(progress.clone());
        let io = self.context.io.clone();
        let sharing = self.context.scan_sharing();
        let bounded = bounded.map(|bounded| BoundedColumn { column: scan.columns[bounded.column], ..bounded });
        let splits = tail.serial && self.is_split(scan, table.as_ref());
        // Row groups of what filters leave would be small.
        tail.orders &= scan.filters.is_empty() && filters.is_empty();
        let mut scan = scan.clone();
        if splits {
            // Which rows are the first ones is known behind the exchange.
            scan.limit = None;
        }
        let source = ScanSource::new((scan, table), filters, bounded, tail.serial, io, progress, sharing);
        if splits {
            return Ok(self.scan_in_order(source, name, tail));
        }
        Ok(vec![self.pipeline(StageId::Scan, source, name, tail)])
    }

    fn sort(
        &mut self,
        (input, keys, fetch): (&Plan, &[SortKey], Option<usize>),
        schema: &SchemaRef,
        name: &str,
        mut tail: Tail,
    ) -> Result<Vec<usize>> {
        let parts = sort(keys, fetch, schema, self.context.spill_to().as_ref())?;
        let sink = self.sink(parts.sink, name, StageId::Sort);
        let column = keys.first().and_then(|key| key.expression.as_column());
        let bounded = parts.bound.zip(column);
        let bounded = bounded.map(|(bound, column)| BoundedColumn { bound, column, arrives: true });
        self.node(input, Tail::new(sink).bounded(bounded))?;
        if let Some(merge) = parts.merge {
            let mut beside = Tail::new(self.sink(merge.sink, "Sorted", StageId::Sort));
            beside.after_sinks.push(sink);
            self.pipeline(StageId::Sort, merge.source, "Merge of spilled runs", beside);
        }
        tail.after_sinks.push(sink);
        Ok(vec![self.pipeline(StageId::Sort, parts.source, "Sorted", tail)])
    }

    fn scalar_subqueries(
        &mut self,
        input: &Plan,
        subqueries: &[Plan],
        results: &ScalarSubqueryResults,
        tail: Tail,
    ) -> Result<Vec<usize>> {
        let fresh = ScalarSubqueryResults::new(subqueries.len());
        let input = input.reading(results, &fresh)?;
        let before = self.gates.len();
        let mut sinks = Vec::new();
        for (index, subquery) in subqueries.iter().enumerate() {
            let sink = ScalarSink::new(subquery.schema.clone(), fresh.clone(), results.clone(), index);
            let sink = self.sink(sink, format!("Scalar {index}"), StageId::Exchange);
            self.node(subquery, Tail::new(sink))?;
            sinks.push(sink);
        }
        self.gates.extend(sinks);
        let feeding = self.node(&input, tail);
        self.gates.truncate(before);
        feeding
    }

    fn exchange(&mut self, input: &Plan, pact: &Pact, consumers: usize, name: &str, tail: Tail) -> Result<Vec<usize>> {
        let consumers = if tail.serial { 1 } else { consumers };
        let exchange = Exchange::ahead(pact.clone(), consumers, self.context.port_credits);
        let sink = self.sink(exchange.clone(), name, StageId::Exchange);
        let mut below = Tail::new(sink);
        below.serial = tail.serial && !matches!(pact, Pact::Merge(_));
        let producers = self.node(input, below)?;
        let consumer = self.pipeline(StageId::Exchange, exchange, format!("From exchange {pact}"), tail);
        let spec = &mut self.graph.pipelines[consumer];
        spec.after_started = producers;
        spec.exact_packets = true;
        Ok(vec![consumer])
    }

    /// The rows of a plan, brought together for one packet.
    fn gathered(&mut self, input: &Plan, name: String) -> Result<Receiver> {
        let exchange = Exchange::ahead(Pact::Gather, 1, self.context.port_credits);
        let receiver = exchange.take_receiver().ok_or_else(|| Error::bug("an exchange without an end"))?;
        let sink = self.sink(exchange, name, StageId::Exchange);
        self.node(input, Tail::new(sink))?;
        Ok(receiver)
    }

    fn fragment_wise(&mut self, input: &Plan, fragments: usize, name: String, mut tail: Tail) -> Result<Vec<usize>> {
        let mut context = self.context.clone();
        for id in filters_from_outside(input) {
            if let Some((filter, sink)) = self.runtime_filters.get(&id) {
                context.runtime_filters.insert(id, filter.clone());
                tail.after_sinks.push(*sink);
            }
        }
        // All fragments count together.
        context.progress = (0..scans_in(input)).map(|_| Arc::default()).collect();
        self.graph.scans.extend(context.progress.iter().cloned());
        let plans = NestedRuns::new(&context, compile);
        let source = FragmentWiseSource::new(input.clone(), fragments, Box::new(plans));
        Ok(vec![self.pipeline(StageId::Recursive, source, name, tail)])
    }

    fn common_parts(&mut self, common: &Common, tail: Tail) -> Result<Vec<usize>> {
        for part in &common.parts {
            if common.is_streamed(part) {
                self.streamed.insert(part.table, Vec::new());
                continue;
            }
            let rows = CommonRows::new(part.places, common.parts.len());
            let sink = self.sink(rows.clone(), format!("Part {}", part.table.0), StageId::Exchange);
            self.node(&part.plan, Tail::new(sink))?;
            self.common.insert(part.table, (rows, sink));
        }
        let feeding = self.node(&common.input, tail)?;
        for part in &common.parts {
            if let Some(places) = self.streamed.remove(&part.table) {
                self.streamed_part(part, places)?;
            }
        }
        Ok(feeding)
    }

    /// A place of a common part whose rows go to all places as they come: they go through this tail.
    fn streamed_place(&mut self, part: WorkTableId, tail: Tail) -> Result<()> {
        let [Branch { operators, sink }] = tail.branches.as_slice() else {
            return Err(Error::bug("a place of a common part has several branches"));
        };
        if !tail.after_sinks.is_empty() || !operators.is_empty() || tail.serial {
            return Err(Error::bug("a place of a common part cannot take rows as they come"));
        }
        let places = self.streamed.entry(part).or_default();
        places.push(Branch { operators: tail.operators, sink: *sink });
        Ok(())
    }

    /// A common part whose rows go to all of its places as they come: none of them waits for anything. If the places
    /// would need too much memory side by side, the rows are kept, and read by one place after the other.
    fn streamed_part(&mut self, part: &CommonPart, places: Vec<Branch>) -> Result<()> {
        let groups = self.graph.groups.take();
        let query = &self.context.query;
        let minima = places.iter().map(|place| self.graph.sinks[place.sink].sink.part.bytes_min(query));
        let tail = if minima.fold(0, usize::saturating_add) <= room_bytes(&query.memory) {
            Tail::to(places)
        } else {
            let rows = CommonRows::new(part.places, 1);
            let sink = self.sink(rows.clone(), format!("Part {}", part.table.0), StageId::Exchange);
            for Branch { operators, sink: own } in places {
                let tail = Tail { operators, after_sinks: vec![sink], ..Tail::new(own) };
                self.pipeline(StageId::Values, rows.source(), format!("Part {}", part.table.0), tail);
            }
            Tail::new(sink)
        };
        self.node(&part.plan, tail)?;
        // What the part groups is below what its places do.
        self.graph.groups = groups.or(self.graph.groups.take());
        Ok(())
    }

    fn aggregate(&mut self, node: &Aggregate, schema: &SchemaRef, name: &str, mut tail: Tail) -> Result<Vec<usize>> {
        let parts = aggregate(node, &node.input.schema, schema)?;
        let sink = self.sink(parts.sink, name, StageId::Aggregate);
        self.node(&node.input, Tail::new(sink))?;
        tail.after_sinks.push(sink);
        let groups = self.pipeline(StageId::Aggregate, parts.source, "Groups", tail);
        // Of aggregates above each other, the upper one is the last to be cut.
        self.graph.groups = Some(self.graph.pipelines[groups].source.totals.clone());
        Ok(vec![groups])
    }

    /// Whether several packets read a scan whose order matters.
    fn is_split(&self, scan: &Scan, table: &dyn Table) -> bool {
        self.context.query.packets > 1
            && table_rows(table) > SERIAL_ROWS_MAX
            && scan.limit.is_none_or(|rows| rows > SERIAL_ROWS_MAX)
    }

    /// A scan by several packets, whose rows are put in order behind what they can do with each batch by itself: in
    /// the sink if it does that, else in an exchange to one packet that does the rest.
    fn scan_in_order(&mut self, source: Arc<dyn Source>, name: String, mut tail: Tail) -> Vec<usize> {
        let is_all = tail.by_batch == tail.operators.len();
        if tail.orders && is_all {
            let scan = self.pipeline(StageId::Scan, source, name, tail);
            let spec = &mut self.graph.pipelines[scan];
            (spec.serial, spec.in_order) = (false, true);
            return vec![scan];
        }
        let exchange = InOrder::new(self.context.port_credits);
        let sink = self.sink(exchange.clone(), "In order", StageId::Exchange);
        let rest = tail.operators.split_off(tail.by_batch);
        let operators = std::mem::replace(&mut tail.operators, rest);
        let below = Tail { operators, after_sinks: tail.after_sinks.clone(), ..Tail::new(sink) };
        let scan = self.pipeline(StageId::Scan, source, name, below);
        self.graph.pipelines[scan].in_order = true;
        let consumer = self.pipeline(StageId::Exchange, exchange, "In order", tail);
        let spec = &mut self.graph.pipelines[consumer];
        spec.after_started = vec![scan];
        spec.exact_packets = true;
        vec![consumer]
    }

    fn hash_join(
        &mut self,
        plan: &Plan,
        join: &HashJoin,
        name: String,
        tail: Tail,
        bounded: Option<BoundedColumn>,
    ) -> Result<Vec<usize>> {
        let made: Vec<_> = join.runtime_filters.iter().map(|&(id, key)| (id, RuntimeFilter::new(), key)).collect();
        let filters: Vec<_> = made.iter().map(|(_, filter, key)| (filter.clone(), *key)).collect();
        let parts = hash_join(join, &plan.schema, &filters)?;
        let share = self.context.tables.as_ref().and_then(|sharing| parts.share(join, sharing));
        self.join(parts, share, (&join.left, &join.right), name, (tail, bounded), |compiler, build| {
            for (id, filter, _) in made {
                compiler.runtime_filters.insert(id, (filter, build));
            }
        })
    }

    /// Compiles a join of either kind, whose probe side may be bounded.
    fn join(
        &mut self,
        parts: JoinParts,
        share: Option<TableShare>,
        (left, right): (&Plan, &Plan),
        name: String,
        (mut tail, bounded): (Tail, Option<BoundedColumn>),
        built: impl FnOnce(&mut Self, usize),
    ) -> Result<Vec<usize>> {
        let build = self.sink(parts.build, format!("Build of {name}"), StageId::Join);
        let first = self.graph.pipelines.len();
        self.node(left, Tail::new(build))?;
        if let Some(share) = share {
            let (pipelines, gates) = (first..self.graph.pipelines.len(), self.gates.clone());
            self.graph.tables.push(TableSpec { share, sink: build, pipelines, gates });
        }
        built(self, build);
        tail.after_sinks.push(build);
        let mut feeding = self.node(right, tail.clone().with(parts.probe, name).bounded(bounded))?;
        for (source, name) in parts.after_probe {
            let rest = self.pipeline(StageId::Join, source, name, tail.clone());
            self.graph.pipelines[rest].after_pipelines = feeding.clone();
            feeding.push(rest);
        }
        Ok(feeding)
    }
}
