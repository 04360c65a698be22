//! What a plan computes, in a form in which two plans can be compared: the operators, their expressions by structure,
//! the states of the tables, and the settings that a run depends on. (QPipe encodes a query in the same way: "all
//! parameters, operations and attributes", in prefix order; Harizopoulos, "Staged Database Systems", section 4.2.1.)
//!
//! There are two forms. The *exact* signature has every constant. The *template* leaves out the constants in conditions
//! of scans and filters, and lists them as the plan's parameters: plans of one template differ in nothing else.
//!
//! Invariants:
//! * Plans with equal exact signatures give the same rows, row by row in the same columns. Names and the order of
//!   commutative operands and of conditions do not count.
//! * What is volatile, what has effects, and what we do not know in all its parts has no signature.
//! * A table is compared by its [identity](Table::identity), a value that stands for one state of its content.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Weak};

use arrow::datatypes::{DataType, Schema};
use datafusion_common::{JoinSide, JoinType};
use datafusion_expr::physical_planning_context::ScalarSubqueryResults;
use datafusion_expr::{AggregateUDF, Operator};
use datafusion_physical_expr::PhysicalExpr;
use diligence_base::ids::TableIdentity;
use diligence_storage::Table;

use super::canonical::{Canonical, canonical_within, terms_of};
use super::parameters::{OpenCondition, Parameters, form_of, parameter};
use super::parts;
use crate::expressions::Expr;
use crate::options::QueryOptions;
use crate::plan::{
    Aggregate, HashJoin, Node, PairFilter, Plan, PlanTables, RuntimeFilterId, Scan, SortKey, WorkTableId,
};

/// What a plan, or all plans of a template, compute. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Signature {
    items: Arc<[Item]>,
    hash: u64,
    /// What tells whether the tables stand. They are not kept alive, and count for nothing where two are compared.
    tables: Arc<[Weak<dyn Table>]>,
}

/// One word of a signature.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Item {
    Word(&'static str),
    Text(String),
    Number(usize),
    Type(DataType),
    Function(AggregateUDF),
    Expression(Canonical),
    Table(TableIdentity),
}

impl PartialEq for Signature {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.items == other.items
    }
}

impl Eq for Signature {}

impl Hash for Signature {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Signature {
    /// One that stands for nothing but a text.
    #[cfg(test)]
    pub fn of_text(text: &str) -> Self {
        let mut writer = Writer::new(&QueryOptions::default());
        writer.text(&text);
        writer.end().0
    }

    /// Whether anybody can still read the tables that it names: if not, nobody will ask for the same again.
    pub fn tables_stand(&self) -> bool {
        self.tables.iter().all(|table| table.strong_count() > 0)
    }

    /// Whether all its tables are such that other content is another table, whenever somebody asks.
    pub fn tables_are_watched(&self) -> bool {
        self.tables.iter().all(|table| table.upgrade().is_some_and(|table| table.is_watched()))
    }

    /// The exact signature of a plan that is run with these options; `None` if it cannot be shared.
    pub fn exact(plan: &Plan, options: &QueryOptions) -> Option<Self> {
        let mut writer = Writer::new(options);
        writer.plan(plan, false)?;
        Some(writer.end().0)
    }

    /// This with a word and a set of expressions, in whatever order they come.
    pub(super) fn with(&self, word: &'static str, mut expressions: Vec<Canonical>) -> Self {
        expressions.sort_by_key(Canonical::hash_value);
        let more = [Item::Word(word), Item::Number(expressions.len())];
        let expressions = expressions.into_iter().map(Item::Expression);
        Self::of_items(self.items.iter().cloned().chain(more).chain(expressions), self.tables.clone())
    }

    fn of_items(items: impl IntoIterator<Item = Item>, tables: Arc<[Weak<dyn Table>]>) -> Self {
        let items: Arc<[Item]> = items.into_iter().collect();
        let mut hasher = DefaultHasher::new();
        items.hash(&mut hasher);
        Self { items, hash: hasher.finish(), tables }
    }

    /// The same of a part of a plan, and whether it has all the filters that its scans use; those that joins above it
    /// make are left out.
    pub fn part(plan: &Plan, options: &QueryOptions) -> Option<(Self, bool)> {
        let mut writer = Writer { open_filters: OpenFilters::LeftOut { any: false }, ..Writer::new(options) };
        writer.plan(plan, false)?;
        let is_closed = matches!(writer.open_filters, OpenFilters::LeftOut { any: false });
        Some((writer.end().0, is_closed))
    }

    /// The hash table that a join makes of its left input, of which it keeps what `keeps` says. `None` if it cannot be
    /// shared, or if it lacks rows that a filter of a join above it has taken away.
    pub fn table(join: &HashJoin, keeps: &impl std::fmt::Debug, options: &QueryOptions) -> Option<Self> {
        let mut writer = Writer { open_filters: OpenFilters::Refused, ..Writer::new(options) };
        writer.word("table");
        writer.text(keeps);
        writer.number(join.on.len());
        for (key, _) in &join.on {
            writer.expression(key)?;
            writer.items.push(Item::Type(key.data_type().clone()));
        }
        writer.plan(&join.left, false)?;
        Some(writer.end().0)
    }

    /// The template of a plan of which so many nodes, and an aggregate right below them, are above what rows of several
    /// queries can go through together; and its parameters, scan by scan in the order of the plan. `None` if there are
    /// none, or if a run for several queries could not tell their rows apart.
    pub fn template(plan: &Plan, above: usize, options: &QueryOptions) -> Option<(Self, Parameters)> {
        let mut writer = Writer { parameters: Some(Parameters::default()), ..Writer::new(options) };
        let point = parts::part_below(plan, above)?;
        if above > 0 {
            let nothing = Plan::new(Node::Union { inputs: Vec::new() }, point.schema.clone());
            writer.plan(&parts::with_part(plan, above, nothing), false)?;
            // Places are counted from the point on, as masks are made there.
            writer.places = 0;
        }
        if let Node::Aggregate(aggregate) = &point.node {
            writer.aggregate(aggregate)?;
        }
        writer.plan(parts::rows_of(point), true)?;
        let (signature, parameters) = writer.end();
        (parameters.len() > 0).then_some((signature, parameters))
    }
}

/// For each side of a join, whether the rows that come out are as many whatever else is among that side's rows: then
/// rows of several queries can be joined in one go.
pub(super) fn sides_apart(join_type: JoinType, null_aware: bool) -> (bool, bool) {
    match join_type {
        _ if null_aware => (false, false),
        JoinType::Inner => (true, true),
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti => (true, false),
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti => (false, true),
        JoinType::Full | JoinType::LeftMark | JoinType::RightMark => (false, false),
    }
}

/// For each side of a join, whether a run for several queries can tell its rows apart: also of the side that only
/// chooses rows of the other one, or is padded with NULLs, if that is by keys alone.
pub(super) fn sides_masked(join: &HashJoin) -> (bool, bool) {
    let is_by_keys = join.filter.is_none() && !join.null_aware && !join.on.is_empty();
    match join.join_type {
        JoinType::Full | JoinType::LeftMark | JoinType::RightMark => (false, false),
        _ if is_by_keys => (true, true),
        join_type => sides_apart(join_type, join.null_aware),
    }
}

/// Writes signatures.
pub(super) struct Writer {
    items: Vec<Item>,
    /// The tables that plans name.
    live: PlanTables,
    tables: Vec<Weak<dyn Table>>,
    /// Of a template.
    parameters: Option<Parameters>,
    /// Scans and filters so far.
    places: usize,
    /// The join filters so far: their numbers in a plan do not count, but which join makes which scan's.
    filters: Vec<RuntimeFilterId>,
    open_filters: OpenFilters,
    /// The common parts so far: as of filters, their numbers do not count.
    parts: Vec<WorkTableId>,
    /// The scalar subqueries so far, of whose values expressions may speak.
    subqueries: Vec<ScalarSubqueryResults>,
}

/// What becomes of a scan's join filter that a join outside of the written part makes.
enum OpenFilters {
    Written,
    /// There is no signature.
    Refused,
    LeftOut {
        any: bool,
    },
}

impl Writer {
    /// One for exact signatures of what is run with these options.
    pub fn new(options: &QueryOptions) -> Self {
        let mut writer = Self {
            items: Vec::new(),
            live: options.tables.clone(),
            tables: Vec::new(),
            parameters: None,
            places: 0,
            filters: Vec::new(),
            open_filters: OpenFilters::Written,
            parts: Vec::new(),
            subqueries: Vec::new(),
        };
        writer.options(options);
        writer
    }

    pub fn end(self) -> (Signature, Parameters) {
        (Signature::of_items(self.items, self.tables.into()), self.parameters.unwrap_or_default())
    }

    pub fn word(&mut self, word: &'static str) {
        self.items.push(Item::Word(word));
    }

    pub fn number(&mut self, number: usize) {
        self.items.push(Item::Number(number));
    }

    fn numbers(&mut self, numbers: &[usize]) {
        self.number(numbers.len());
        numbers.iter().for_each(|&number| self.number(number));
    }

    pub fn text(&mut self, value: &impl std::fmt::Debug) {
        self.items.push(Item::Text(format!("{value:?}")));
    }

    pub fn table(&mut self, identity: TableIdentity) -> Option<()> {
        let table = self.live.find(identity)?;
        self.items.push(Item::Table(identity));
        self.tables.push(Arc::downgrade(&table.origin().unwrap_or(table)));
        Some(())
    }

    pub fn canonical(&mut self, expression: Canonical) {
        self.items.push(Item::Expression(expression));
    }

    /// Whoever runs under other limits, or cuts batches otherwise, may see another error.
    fn options(&mut self, options: &QueryOptions) {
        self.text(&(options.memory_limit_bytes, options.packets, options.batch_rows, options.sort_plan));
    }

    /// Writes a plan. With `apart`, rows of several queries may go together from here to the top.
    pub fn plan(&mut self, plan: &Plan, apart: bool) -> Option<()> {
        self.number(usize::from(plan.ordered));
        match &plan.node {
            Node::Scan(scan) => self.scan(scan, apart && !plan.ordered),
            Node::Filter { input, predicate } => {
                self.word("filter");
                let place = self.next_place();
                if apart && self.parameters.is_some() {
                    let terms = terms_of(predicate.physical(), Operator::And);
                    self.conditions(&terms, place, &input.schema)?;
                } else {
                    self.expression(predicate)?;
                }
                self.plan(input, apart)
            }
            Node::Project { input, expressions } => {
                self.word("project");
                self.expressions(expressions)?;
                self.plan(input, apart)
            }
            Node::Limit { input, skip, fetch } => {
                self.word("limit");
                self.text(&(skip, fetch));
                self.plan(input, false)
            }
            Node::Sort { input, keys, fetch } => {
                self.word("sort");
                self.text(fetch);
                self.keys(keys)?;
                self.plan(input, false)
            }
            Node::HashJoin(join) => self.hash_join(join, apart),
            Node::NestedLoopJoin(join) => {
                self.word("nested loop join");
                self.text(&(join.join_type, &join.projection));
                self.pairs(join.filter.as_ref())?;
                let (left, right) = sides_apart(join.join_type, false);
                self.plan(&join.left, apart && left)?;
                self.plan(&join.right, apart && right)
            }
            Node::Aggregate(aggregate) => {
                self.aggregate(aggregate)?;
                self.plan(&aggregate.input, false)
            }
            Node::Union { inputs } => {
                self.word("union");
                self.number(inputs.len());
                inputs.iter().try_for_each(|input| self.plan(input, false))
            }
            Node::ScalarSubqueries { input, subqueries, results } if self.parameters.is_none() => {
                self.word("subqueries");
                self.number(subqueries.len());
                subqueries.iter().try_for_each(|subquery| self.plan(subquery, false))?;
                self.subqueries.push(results.clone());
                self.plan(input, false)
            }
            Node::Common(common) if self.parameters.is_none() => {
                self.word("common");
                self.number(common.parts.len());
                for part in &common.parts {
                    self.plan(&part.plan, false)?;
                    self.parts.push(part.table);
                }
                self.plan(&common.input, false)
            }
            Node::WorkTable(table) => {
                let part = self.parts.iter().position(|part| *part == table.table)?;
                self.word("part");
                self.numbers(&[part]);
                Some(())
            }
            // Known rows are compared with nothing, functions of windows not in all their parts.
            Node::Values { .. }
            | Node::Window(_)
            | Node::ScalarSubqueries { .. }
            | Node::Exchange { .. }
            | Node::Recursive(_)
            | Node::Common(_)
            | Node::Mask(_)
            | Node::Write(_)
            | Node::Unnest(_)
            | Node::FragmentWise { .. }
            | Node::Incoming(_) => None,
        }
    }

    fn hash_join(&mut self, join: &HashJoin, apart: bool) -> Option<()> {
        self.word("hash join");
        self.text(&(join.join_type, join.null_equality, join.null_aware, &join.projection));
        self.number(join.runtime_filters.len());
        for &(id, key) in &join.runtime_filters {
            self.filter(id);
            self.number(key);
        }
        self.number(join.on.len());
        for (left, right) in &join.on {
            self.expression(left)?;
            self.expression(right)?;
        }
        self.pairs(join.filter.as_ref())?;
        let (left, right) = sides_masked(join);
        self.plan(&join.left, apart && left)?;
        self.plan(&join.right, apart && right)
    }

    fn scan(&mut self, scan: &Scan, apart: bool) -> Option<()> {
        self.word("scan");
        self.table(scan.table)?;
        self.numbers(&scan.columns);
        self.text(&scan.limit);
        self.word("filters");
        for &(id, column) in &scan.runtime_filters {
            let is_open = !self.filters.contains(&id);
            match &mut self.open_filters {
                OpenFilters::Refused if is_open => return None,
                OpenFilters::LeftOut { any } if is_open => {
                    *any = true;
                    continue;
                }
                _ => {}
            }
            self.filter(id);
            self.number(column);
        }
        self.word("conditions");
        let (place, schema) = (self.next_place(), scan.table_schema.clone());
        let is_open = self.parameters.is_some() && apart && scan.limit.is_none();
        let mut left = Vec::new();
        let mut open = Vec::new();
        for condition in scan.filters.iter().flat_map(|filter| terms_of(filter.physical(), Operator::And)) {
            match parameter(condition, &schema).filter(|_| is_open) {
                Some(parameter) => open.push(parameter),
                None => left.push(condition),
            }
        }
        if is_open {
            self.conditions(&left, place, &schema)?;
        } else {
            let left = left.into_iter().map(|condition| canonical_within(condition, &self.subqueries));
            let left = left.collect::<Option<Vec<_>>>()?;
            self.unordered(left);
        }
        // The same conditions on the same columns, in whatever order they were written.
        open.sort_by_key(|parameter| (parameter.column, parameter.comparison as u8));
        self.number(open.len());
        for mut parameter in open {
            self.numbers(&[parameter.column, parameter.comparison as usize]);
            parameter.scan = place;
            self.parameters.iter_mut().for_each(|parameters| parameters.comparisons.push(parameter.clone()));
        }
        Some(())
    }

    fn next_place(&mut self) -> usize {
        self.places += 1;
        self.places - 1
    }

    /// Writes conditions of which all must hold, without the constants of those that have some: these are what queries
    /// of a template differ in.
    fn conditions(&mut self, conditions: &[&Arc<dyn PhysicalExpr>], place: usize, input: &Schema) -> Option<()> {
        let (mut left, mut open) = (Vec::new(), Vec::new());
        for condition in conditions {
            match form_of(condition, input) {
                Some(form) => {
                    self.parameters.iter_mut().for_each(|parameters| {
                        parameters.conditions.push(OpenCondition { place, condition: (*condition).clone() });
                    });
                    open.push(form);
                }
                None => left.push(canonical_within(condition, &self.subqueries)?),
            }
        }
        self.unordered(left);
        self.unordered(open);
        Some(())
    }

    /// Writes expressions in an order of their own.
    fn unordered(&mut self, mut expressions: Vec<Canonical>) {
        expressions.sort_by_key(Canonical::hash_value);
        self.number(expressions.len());
        self.items.extend(expressions.into_iter().map(Item::Expression));
    }

    fn filter(&mut self, id: RuntimeFilterId) {
        let place = self.filters.iter().position(|other| *other == id).unwrap_or_else(|| {
            self.filters.push(id);
            self.filters.len() - 1
        });
        self.number(place);
    }

    fn aggregate(&mut self, aggregate: &Aggregate) -> Option<()> {
        self.word("aggregate");
        self.expressions(&aggregate.groups)?;
        self.text(&(&aggregate.grouping_sets, aggregate.has_grouping_id, aggregate.limit));
        self.number(aggregate.aggregates.len());
        for call in &aggregate.aggregates {
            let function = &call.function;
            if !function.order_bys().is_empty() || !function.order_sensitivity().is_insensitive() {
                return None;
            }
            self.items.push(Item::Function(function.fun().clone()));
            self.items.push(Item::Type(function.field().data_type().clone()));
            self.text(&(function.is_distinct(), function.ignore_nulls(), function.is_reversed()));
            self.expressions(&call.arguments)?;
            self.expressions(call.filter.as_slice())?;
        }
        Some(())
    }

    fn pairs(&mut self, filter: Option<&PairFilter>) -> Option<()> {
        let Some(filter) = filter else {
            self.word("all pairs");
            return Some(());
        };
        self.word("pairs");
        for (side, column) in &filter.columns {
            self.numbers(&[usize::from(*side == JoinSide::Left), *column]);
        }
        self.expression(&filter.expression)
    }

    fn keys(&mut self, keys: &[SortKey]) -> Option<()> {
        self.number(keys.len());
        for key in keys {
            self.text(&key.options);
            self.expression(&key.expression)?;
        }
        Some(())
    }

    fn expressions(&mut self, expressions: &[Expr]) -> Option<()> {
        self.number(expressions.len());
        expressions.iter().try_for_each(|expression| self.expression(expression))
    }

    fn expression(&mut self, expression: &Expr) -> Option<()> {
        self.items.push(Item::Expression(canonical_within(expression.physical(), &self.subqueries)?));
        Some(())
    }
}
