//! What a plan gives, in a form in which it can be seen that one plan's rows hold all that another one wants.
//!
//! A [signature](super::signature) says only whether two plans are the same. A shape takes a plan apart:
//!
//! ```text
//!   SELECT town, sum(amount) FROM sales JOIN shops ON ... WHERE day < '1998-09-02' GROUP BY town
//!
//!   core         sales joined with shops on these keys    what rows there are; compared as a whole
//!   conditions   { sales.day < 1998-09-02 }               which of them count; a set
//!   keys         { shops.town }                           what is kept apart; a set
//!   values       { sum(sales.amount) }                    what is computed; a set
//! ```
//!
//! Every expression is written over *leaves*, which are columns of tables (or of inner parts that are not taken apart).
//! So it does not matter which columns a plan reads, in which order they go along, and where they are renamed.
//!
//! Rows that come in an [order](super::order) have it in their shape. Of the first so many in an order, the conditions
//! belong to the core: a row less is another row more at the end, so what is wanted with other conditions is not there.
//!
//! Invariant: a condition in the set may be applied to the rows that come out with the same effect as where its plan
//! has it. Others, such as one below the side of a join that is padded with NULLs, belong to the core.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion_common::{JoinSide, JoinType};
use datafusion_expr::{AggregateUDF, Operator};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::Column as ColumnExpr;

use super::canonical::{Canonical, canonical, terms_of};
use super::cells::Kind;
use super::cut::ShareRequest;
use super::order::{Order, Places};
use super::parameters::{Parameter, parameter};
use super::parts;
use super::regroup;
use super::signature::{Signature, Writer, sides_apart};
use crate::expressions::Expr;
use crate::options::QueryOptions;
use crate::plan::{Aggregate, AggregateCall, Node, PairFilter, Plan, Scan, SortKey};

/// Nodes of expressions that are written for one plan at most: expressions of expressions of expressions may grow
/// without end.
const NODES_MAX: usize = 5000;

/// Bits of a leaf's number that say which column it is.
const COLUMN_BITS: u32 = 20;

/// A plan taken apart.
pub(crate) struct Shape {
    /// What rows there are.
    pub core: Signature,
    /// Which of them count.
    pub(super) conditions: Vec<Condition>,
    /// What is grouped by; of a plan without groups, its columns. In the order of the output.
    pub keys: Vec<Canonical>,
    /// What is computed for each group; `None` for a plan without groups.
    pub(super) groups: Option<Groups>,
    /// The order of the rows, and which places of it; `None` if it does not count.
    pub(super) order: Option<Order>,
    /// What is given, and wanted, if some places of an order turn out to be all.
    whole: Option<Arc<Shape>>,
}

/// What can be said of a query's part.
#[derive(Default)]
pub(crate) struct Shapes {
    /// What it gives.
    pub kept: Option<Arc<Shape>>,
    /// The same, or what a part of it gives, where that can be had from a state that has more; and the depth below
    /// which that is. What is to be looked for first comes first.
    pub wanted: Vec<(usize, Arc<Shape>)>,
}

impl Shapes {
    /// That of the part below a query's cut, or of what is below some of its nodes; of its plan as it was planned.
    pub fn of(planned: &Plan, request: &ShareRequest, options: &QueryOptions) -> Self {
        let plan = request.plan.as_deref().unwrap_or(planned);
        let part = |depth| parts::part_below(plan, depth);
        let shape = |depth| Shape::of(part(depth)?, options).map(Arc::new);
        let in_order = |plan, from| {
            let depth = parts::depth_of_order(plan, from)?;
            Some((depth, Arc::new(Shape::in_order(parts::part_below(plan, depth)?, options)?)))
        };
        // Where more groups were expected than there are, all of the plan may be there of a query before they were
        // counted. Nothing above the cut differs.
        let is_counted = part(request.depth).is_some_and(|part| !parts::is_small(part));
        let uncut = if is_counted { in_order(planned, 0) } else { None };
        let in_order = in_order(plan, request.depth);
        let comes_in_order = |depth| depth == request.depth && part(depth).is_some_and(|part| part.ordered);
        let kept = match &in_order {
            Some((depth, shape)) if comes_in_order(*depth) => Some(shape.clone()),
            _ => shape(request.depth),
        };
        // As few as may be, then all in order; then all, to be put in order above.
        let whole = in_order.as_ref().and_then(|(depth, shape)| Some((*depth, shape.whole.clone()?)));
        let mut wanted: Vec<_> = uncut.into_iter().chain(in_order).chain(whole).collect();
        let depth = parts::depth_of_rows(plan, request.depth);
        if part(depth).is_some_and(|part| !part.ordered) {
            let rows = if depth == request.depth { kept.clone() } else { shape(depth) };
            wanted.extend(rows.map(|rows| (depth, rows)));
        }
        Self { kept, wanted }
    }
}

/// A condition over leaves.
#[derive(Clone)]
pub(super) struct Condition {
    pub form: Canonical,
    /// The same, if it compares one leaf with constants; `column` is the leaf.
    pub range: Option<Parameter>,
}

/// What is computed for each group.
pub(super) struct Groups {
    /// In the order of the output, behind the keys.
    pub calls: Vec<Call>,
    /// What can be put together from parts, if all can: see [`regroup`].
    pub cells: Option<Vec<Cell>>,
}

/// An aggregate over leaves.
#[derive(PartialEq)]
pub(super) struct Call {
    function: AggregateUDF,
    result: DataType,
    is_distinct: bool,
    ignores_nulls: bool,
    arguments: Vec<Canonical>,
    filter: Option<Canonical>,
}

/// A value of which results are put together.
pub(super) struct Cell {
    pub value: CellValue,
    /// Which of the calls gives it, if one does.
    pub call: Option<usize>,
}

/// The same, as it is compared.
#[derive(PartialEq)]
pub(super) struct CellValue {
    kind: Kind,
    /// None for a count of rows.
    arguments: Vec<Canonical>,
    filter: Option<Canonical>,
}

impl Shape {
    /// The shape of a plan that is run with these options; `None` if it has parts that cannot be compared.
    pub fn of(plan: &Plan, options: &QueryOptions) -> Option<Self> {
        let mut walk = Walk::new(options);
        let (keys, groups) = match &plan.node {
            Node::Aggregate(aggregate) => {
                let is_plain = matches!(aggregate.grouping_sets.as_slice(), [set] if !set.contains(&true));
                if !is_plain || aggregate.has_grouping_id || aggregate.limit.is_some() {
                    return None;
                }
                let columns = walk.rows(&aggregate.input, true)?;
                let keys = walk.all(&aggregate.groups, &columns)?;
                (keys, Some(walk.groups(aggregate, &columns)?))
            }
            _ => {
                let columns = walk.rows(plan, true)?;
                (columns.iter().map(canonical).collect::<Option<Vec<_>>>()?, None)
            }
        };
        Some(Self { core: walk.writer.end().0, conditions: walk.conditions, keys, groups, order: None, whole: None })
    }

    /// The shape of a plan that sorts, with nothing above that but what computes columns and cuts; `None` for other
    /// plans, and if it has parts that cannot be compared.
    pub fn in_order(plan: &Plan, options: &QueryOptions) -> Option<Self> {
        let mut walk = Walk::new(options);
        let (columns, order) = walk.in_order(plan, Places::ALL)?;
        let keys = columns.iter().map(canonical).collect::<Option<Vec<_>>>()?;
        let (core, conditions) = (walk.writer.end().0, walk.conditions);
        let only_places = order.places != Places::ALL;
        let whole = Self { core, conditions, keys, groups: None, order: Some(order.clone()), whole: None };
        if !only_places {
            return Some(whole);
        }
        let conditions = whole.conditions.iter().map(|condition| condition.form.clone()).collect();
        Some(Self {
            core: whole.core.with("places", conditions),
            conditions: Vec::new(),
            keys: whole.keys.clone(),
            groups: None,
            order: Some(Order { only_places, ..order }),
            whole: Some(Arc::new(whole)),
        })
    }

    /// The shape of a state that was built for this one and has so many rows.
    pub fn of_state(self: &Arc<Self>, rows: usize) -> Arc<Self> {
        let are_all = self.order.as_ref().is_some_and(|order| order.places.are_all_of(rows));
        self.whole.as_ref().filter(|_| are_all).unwrap_or(self).clone()
    }

    /// The key that is a leaf and nothing else.
    pub fn key_of_leaf(&self, leaf: usize) -> Option<usize> {
        self.keys.iter().position(|key| leaf_of(key.physical()) == Some(leaf))
    }
}

/// The leaf, if an expression over leaves is just one.
pub(super) fn leaf_of(physical: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    physical.downcast_ref::<ColumnExpr>().map(ColumnExpr::index)
}

pub(super) type Physical = Arc<dyn PhysicalExpr>;

/// The rows that an aggregate is computed of.
pub(super) struct Body {
    /// Which of them count.
    pub conditions: Vec<Condition>,
    /// Their columns over leaves.
    pub columns: Vec<Physical>,
    /// What is grouped by.
    pub keys: Vec<Canonical>,
    /// What is computed for each group.
    pub calls: Vec<Call>,
}

impl Body {
    /// That of an aggregate that is run with these options; `None` if it has parts that cannot be compared.
    pub fn of(aggregate: &Aggregate, options: &QueryOptions) -> Option<Self> {
        let mut walk = Walk::new(options);
        let columns = walk.rows(&aggregate.input, true)?;
        let keys = walk.all(&aggregate.groups, &columns)?;
        let calls = aggregate.aggregates.iter().map(|call| walk.call(call, &columns));
        let calls = calls.collect::<Option<Vec<_>>>()?;
        Some(Self { conditions: walk.conditions, columns, keys, calls })
    }
}

pub(super) struct Walk {
    writer: Writer,
    conditions: Vec<Condition>,
    leaves: usize,
    nodes_left: usize,
}

impl Walk {
    pub fn new(options: &QueryOptions) -> Self {
        Self { writer: Writer::new(options), conditions: Vec::new(), leaves: 0, nodes_left: NODES_MAX }
    }

    /// Writes what is sorted, and returns these places of it: their columns over leaves, and their order.
    fn in_order(&mut self, plan: &Plan, places: Places) -> Option<(Vec<Physical>, Order)> {
        match &plan.node {
            Node::Project { input, expressions } => {
                let (columns, order) = self.in_order(input, places)?;
                Some((self.projected(expressions, &columns)?, order))
            }
            Node::Limit { input, skip, fetch } => self.in_order(input, places.below_limit(*skip, *fetch)),
            Node::Sort { input, keys, fetch } => {
                let columns = self.rows(input, true)?;
                let key = |key: &SortKey| Some((self.written(key.expression.physical(), &columns)?, key.options));
                let keys = keys.iter().map(key).collect::<Option<Vec<_>>>()?;
                Some((columns, Order { keys, places: places.below_limit(0, *fetch), only_places: false }))
            }
            _ => None,
        }
    }

    /// Writes what rows a plan gives, as a bag, and returns its columns over leaves. With `apart`, conditions may be
    /// applied to the rows that come out on top as well.
    fn rows(&mut self, plan: &Plan, apart: bool) -> Option<Vec<Physical>> {
        match &plan.node {
            Node::Scan(scan) => self.scan(scan, apart),
            Node::Filter { input, predicate } => {
                let columns = self.rows(input, apart)?;
                self.filter(&[predicate], &input.schema, &columns, apart)?;
                Some(columns)
            }
            Node::Project { input, expressions } => {
                let columns = self.rows(input, apart)?;
                self.projected(expressions, &columns)
            }
            // Order is nothing to a bag.
            Node::Sort { input, fetch: None, .. } => self.rows(input, apart),
            Node::HashJoin(join) if !is_mark(join.join_type) => {
                self.writer.word("hash join");
                self.writer.text(&(join.join_type, join.null_equality, join.null_aware));
                let apart = if apart { sides_apart(join.join_type, join.null_aware) } else { Default::default() };
                let (left, right) = self.sides(&join.left, &join.right, join.join_type, apart)?;
                let mut pairs = Vec::new();
                for (key, other) in &join.on {
                    pairs.push((self.written(key.physical(), &left)?, self.written(other.physical(), &right)?));
                }
                pairs.sort_by_key(|(key, other)| (key.hash_value(), other.hash_value()));
                self.writer.number(pairs.len());
                for (key, other) in pairs {
                    self.writer.canonical(key);
                    self.writer.canonical(other);
                }
                self.pairs(join.filter.as_ref(), &left, &right)?;
                joined(join.join_type, left, right, join.projection.as_deref())
            }
            Node::NestedLoopJoin(join) if !is_mark(join.join_type) => {
                self.writer.word("nested loop join");
                self.writer.text(&join.join_type);
                let apart = if apart { sides_apart(join.join_type, false) } else { Default::default() };
                let (left, right) = self.sides(&join.left, &join.right, join.join_type, apart)?;
                self.pairs(join.filter.as_ref(), &left, &right)?;
                joined(join.join_type, left, right, join.projection.as_deref())
            }
            _ => {
                self.writer.word("as it is");
                self.writer.plan(plan, false)?;
                let place = self.next_place()?;
                Some((0..plan.schema.fields().len()).map(|column| leaf(place, column)).collect())
            }
        }
    }

    pub fn projected(&mut self, expressions: &[Expr], columns: &[Physical]) -> Option<Vec<Physical>> {
        expressions.iter().map(|expression| self.over_leaves(expression.physical(), columns)).collect()
    }

    fn scan(&mut self, scan: &Scan, apart: bool) -> Option<Vec<Physical>> {
        if scan.limit.is_some() {
            return None;
        }
        self.writer.word("scan");
        self.writer.table(scan.table)?;
        let place = self.next_place()?;
        let schema = scan.table_schema.clone();
        let all: Vec<_> = (0..schema.fields().len()).map(|column| leaf(place, column)).collect();
        self.filter(&scan.filters.iter().collect::<Vec<_>>(), &schema, &all, apart)?;
        Some(scan.columns.iter().map(|&column| all[column].clone()).collect())
    }

    /// The number of the next scan, or inner part that is not taken apart.
    pub fn next_place(&mut self) -> Option<usize> {
        self.leaves += 1;
        (self.leaves < 1 << COLUMN_BITS).then_some(self.leaves)
    }

    /// Takes conditions over rows of this schema, and with these columns.
    fn filter(&mut self, filters: &[&Expr], schema: &Schema, columns: &[Physical], apart: bool) -> Option<()> {
        let mut others = Vec::new();
        for term in filters.iter().flat_map(|filter| terms_of(filter.physical(), Operator::And)) {
            let form = self.written(term, columns)?;
            if !apart {
                others.push(form);
                continue;
            }
            let range = parameter(term, schema).and_then(|range| {
                let column = leaf_of(&columns[range.column])?;
                Some(Parameter { column, ..range })
            });
            if self.conditions.iter().all(|other| other.form != form) {
                self.conditions.push(Condition { form, range });
            }
        }
        if !others.is_empty() {
            others.sort_by_key(Canonical::hash_value);
            self.writer.word("filter");
            self.writer.number(others.len());
            others.into_iter().for_each(|form| self.writer.canonical(form));
        }
        Some(())
    }

    /// Writes both sides of a join.
    fn sides(
        &mut self,
        left: &Plan,
        right: &Plan,
        join_type: JoinType,
        apart: (bool, bool),
    ) -> Option<(Vec<Physical>, Vec<Physical>)> {
        let (left, right) = (self.rows(left, apart.0)?, self.rows(right, apart.1)?);
        // Where a row is padded, an expression is NULL, whatever it would be for a NULL.
        let are_leaves = |columns: &[Physical]| columns.iter().all(|column| leaf_of(column).is_some());
        let pads_left = matches!(join_type, JoinType::Right | JoinType::Full);
        let pads_right = matches!(join_type, JoinType::Left | JoinType::Full);
        ((!pads_left || are_leaves(&left)) && (!pads_right || are_leaves(&right))).then_some((left, right))
    }

    fn pairs(&mut self, filter: Option<&PairFilter>, left: &[Physical], right: &[Physical]) -> Option<()> {
        let Some(filter) = filter else {
            self.writer.word("all pairs");
            return Some(());
        };
        let side = |(side, column): &(JoinSide, usize)| match side {
            JoinSide::Left => left[*column].clone(),
            _ => right[*column].clone(),
        };
        let columns: Vec<_> = filter.columns.iter().map(side).collect();
        self.writer.word("pairs");
        let form = self.written(filter.expression.physical(), &columns)?;
        self.writer.canonical(form);
        Some(())
    }

    fn groups(&mut self, aggregate: &Aggregate, columns: &[Physical]) -> Option<Groups> {
        let calls = aggregate.aggregates.iter().map(|call| self.call(call, columns));
        let calls = calls.collect::<Option<Vec<_>>>()?;
        let cells = match regroup::cells_of(aggregate) {
            None => None,
            Some(cells) => {
                let cells = cells.into_iter().map(|(kind, arguments, filter, call)| {
                    let counts_rows = kind == Kind::Count && arguments.iter().all(|argument| !argument.nullable());
                    let arguments = if counts_rows { vec![] } else { self.all(&arguments, columns)? };
                    let filter = self.optional(filter.as_ref(), columns)?;
                    Some(Cell { value: CellValue { kind, arguments, filter }, call })
                });
                Some(cells.collect::<Option<Vec<_>>>()?)
            }
        };
        Some(Groups { calls, cells })
    }

    fn call(&mut self, call: &AggregateCall, columns: &[Physical]) -> Option<Call> {
        let function = &call.function;
        if !function.order_bys().is_empty() || !function.order_sensitivity().is_insensitive() {
            return None;
        }
        Some(Call {
            function: function.fun().clone(),
            result: function.field().data_type().clone(),
            is_distinct: function.is_distinct(),
            ignores_nulls: function.ignore_nulls(),
            arguments: self.all(&call.arguments, columns)?,
            filter: self.optional(call.filter.as_ref(), columns)?,
        })
    }

    fn all(&mut self, expressions: &[Expr], columns: &[Physical]) -> Option<Vec<Canonical>> {
        expressions.iter().map(|expression| self.written(expression.physical(), columns)).collect()
    }

    fn optional(&mut self, expression: Option<&Expr>, columns: &[Physical]) -> Option<Option<Canonical>> {
        match expression {
            None => Some(None),
            Some(expression) => Some(Some(self.written(expression.physical(), columns)?)),
        }
    }

    /// An expression over these columns, over leaves, as it is compared.
    pub fn written(&mut self, physical: &Physical, columns: &[Physical]) -> Option<Canonical> {
        canonical(&self.over_leaves(physical, columns)?)
    }

    fn over_leaves(&mut self, physical: &Physical, columns: &[Physical]) -> Option<Physical> {
        if let Some(column) = physical.downcast_ref::<ColumnExpr>() {
            let definition = columns.get(column.index())?;
            self.nodes_left = self.nodes_left.checked_sub(nodes_in(definition))?;
            return Some(definition.clone());
        }
        self.nodes_left = self.nodes_left.checked_sub(1)?;
        let children = physical.children();
        if children.is_empty() {
            return Some(physical.clone());
        }
        let children =
            children.into_iter().map(|child| self.over_leaves(child, columns)).collect::<Option<Vec<_>>>()?;
        physical.clone().with_new_children(children).ok()
    }
}

fn nodes_in(physical: &Physical) -> usize {
    1 + physical.children().into_iter().map(nodes_in).sum::<usize>()
}

pub(super) fn leaf(place: usize, column: usize) -> Physical {
    Arc::new(ColumnExpr::new("", leaf_number(place, column)))
}

/// The number of a leaf: a column of a scan, or of an inner part.
pub(super) fn leaf_number(place: usize, column: usize) -> usize {
    place << COLUMN_BITS | column
}

/// The scan, or inner part, of a leaf, and the column there.
pub(super) fn place_of_leaf(leaf: usize) -> (usize, usize) {
    (leaf >> COLUMN_BITS, leaf & ((1 << COLUMN_BITS) - 1))
}

pub(super) fn is_mark(join_type: JoinType) -> bool {
    matches!(join_type, JoinType::LeftMark | JoinType::RightMark)
}

/// What comes out of a join.
pub(super) fn joined(
    join_type: JoinType,
    left: Vec<Physical>,
    right: Vec<Physical>,
    projection: Option<&[usize]>,
) -> Option<Vec<Physical>> {
    let full = match join_type {
        JoinType::LeftSemi | JoinType::LeftAnti => left,
        JoinType::RightSemi | JoinType::RightAnti => right,
        _ => left.into_iter().chain(right).collect(),
    };
    match projection {
        None => Some(full),
        Some(columns) => columns.iter().map(|&column| full.get(column).cloned()).collect(),
    }
}
