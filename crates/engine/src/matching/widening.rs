//! The rows of a plan with more columns of its tables, and with other conditions: what several queries over the same
//! joins need of them together.
//!
//! ```text
//!        Join [town, amount]                     Join [town, amount, day, name]
//!       /    \                      becomes     /    \
//!   shops    sales where day < 3            shops    sales
//!   [town]   [amount]                       [town,   [amount, day]
//!                                            name]
//! ```
//!
//! What is added are *leaves*, columns of tables, as [shapes](super::shape) name them; they come behind the columns
//! that a node has. Of the conditions that may be applied to the rows that come out on top as well, only those stay
//! that all of the queries have.
//!
//! Invariant: nodes are numbered as in a shape, which is made of the same plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::datatypes::{Field, Schema};
use datafusion_common::JoinType;
use datafusion_expr::Operator;
use datafusion_physical_expr::conjunction;
use diligence_base::{Error, Result};

use super::canonical::{Canonical, terms_of};
use super::shape::{Physical, Walk, is_mark, joined, leaf, leaf_number, place_of_leaf};
use super::signature::sides_apart;
use crate::expressions::Expr;
use crate::options::QueryOptions;
use crate::plan::mask_lookup::Lookup;
use crate::plan::{HashJoin, NestedLoopJoin, Node, Plan, Scan};

/// What is asked of a plan.
pub(super) struct Wider<'a> {
    /// The conditions that stay.
    pub kept: &'a [Canonical],
    /// The leaves that are added.
    pub leaves: &'a BTreeSet<usize>,
    /// Leaves that each query compares with constants: their scans read what any of them wants.
    pub lookups: &'a BTreeMap<usize, Arc<Lookup>>,
}

/// A plan, and where its leaves are.
pub(super) struct Widened {
    pub plan: Plan,
    pub places: BTreeMap<usize, usize>,
    /// The columns that it had, over leaves.
    columns: Vec<Physical>,
}

/// The plan with these columns and conditions. Fails if it has no [shape](super::shape).
pub(super) fn widened(plan: &Plan, wider: &Wider<'_>, options: &QueryOptions) -> Result<Widened> {
    let mut work = Widening { wider, walk: Walk::new(options) };
    work.plan(plan, true)
}

struct Widening<'a> {
    wider: &'a Wider<'a>,
    walk: Walk,
}

impl Widening<'_> {
    fn plan(&mut self, plan: &Plan, apart: bool) -> Result<Widened> {
        match &plan.node {
            Node::Scan(scan) => self.scan(scan, plan, apart),
            Node::Filter { input, predicate } => {
                let below = self.plan(input, apart)?;
                let terms = self.staying(terms_of(predicate.physical(), Operator::And), &below.columns, apart)?;
                if terms.is_empty() {
                    return Ok(below);
                }
                let predicate = Expr::new(conjunction(terms), &below.plan.schema)?;
                let schema = below.plan.schema.clone();
                let filter = Plan::new(Node::Filter { input: Box::new(below.plan), predicate }, schema);
                Ok(Widened { plan: filter, ..below })
            }
            Node::Project { input, expressions } => {
                let below = self.plan(input, apart)?;
                self.project(below, expressions, plan)
            }
            // Order is nothing to rows that are grouped.
            Node::Sort { input, fetch: None, .. } => self.plan(input, apart),
            Node::HashJoin(join) if !is_mark(join.join_type) => self.hash_join(join, plan, apart),
            Node::NestedLoopJoin(join) if !is_mark(join.join_type) => self.nested_loop_join(join, plan, apart),
            _ => {
                let place = self.next_place()?;
                let width = plan.schema.fields().len();
                let places = (0..width).map(|column| (leaf_number(place, column), column)).collect();
                let columns = (0..width).map(|column| leaf(place, column)).collect();
                Ok(Widened { plan: plan.clone(), places, columns })
            }
        }
    }

    fn next_place(&mut self) -> Result<usize> {
        self.walk.next_place().ok_or_else(unknown)
    }

    /// Of conditions over these columns, those that stay.
    fn staying(&mut self, terms: Vec<&Physical>, columns: &[Physical], apart: bool) -> Result<Vec<Physical>> {
        let mut staying = Vec::new();
        for term in terms {
            let form = self.walk.written(term, columns).ok_or_else(unknown)?;
            if !apart || self.wider.kept.contains(&form) {
                staying.push(term.clone());
            }
        }
        Ok(staying)
    }

    fn scan(&mut self, scan: &Scan, plan: &Plan, apart: bool) -> Result<Widened> {
        let place = self.next_place()?;
        let table = scan.table_schema.clone();
        let all: Vec<_> = (0..table.fields().len()).map(|column| leaf(place, column)).collect();
        let terms = scan.filters.iter().flat_map(|filter| terms_of(filter.physical(), Operator::And)).collect();
        let mut filters = self.staying(terms, &all, apart)?;
        let mut wider = scan.clone();
        for &leaf in self.wider.leaves {
            let (own, column) = place_of_leaf(leaf);
            if own != place {
                continue;
            }
            if !wider.columns.contains(&column) {
                wider.columns.push(column);
            }
            if let Some(lookup) = self.wider.lookups.get(&leaf).filter(|_| apart) {
                filters.extend(lookup.union(&table, column)?);
            }
        }
        wider.filters = filters.into_iter().map(|filter| Expr::new(filter, &table)).collect::<Result<_>>()?;
        let columns = scan.columns.iter().map(|&column| all[column].clone()).collect();
        let mut places = BTreeMap::new();
        for (place_in_rows, &column) in wider.columns.iter().enumerate() {
            places.entry(leaf_number(place, column)).or_insert(place_in_rows);
        }
        let added = wider.columns[scan.columns.len()..].iter().map(|&column| table.field(column).clone());
        let schema = Arc::new(beside(&plan.schema, added));
        let plan = Plan { node: Node::Scan(wider), schema, rows_estimate: None, ordered: plan.ordered };
        Ok(Widened { plan, places, columns })
    }

    fn project(&mut self, below: Widened, expressions: &[Expr], plan: &Plan) -> Result<Widened> {
        let columns = self.walk.projected(expressions, &below.columns).ok_or_else(unknown)?;
        let mut expressions = expressions.to_vec();
        let mut places = BTreeMap::new();
        let mut added = Vec::new();
        for (&leaf, &column) in below.places.iter().filter(|(leaf, _)| self.wider.leaves.contains(leaf)) {
            let there = expressions.iter().position(|expression| expression.as_column() == Some(column));
            places.insert(leaf, there.unwrap_or(expressions.len()));
            if there.is_none() {
                expressions.push(Expr::column(column, &below.plan.schema)?);
                added.push(below.plan.schema.field(column).clone());
            }
        }
        let schema = Arc::new(beside(&plan.schema, added));
        let plan = Plan::new(Node::Project { input: Box::new(below.plan), expressions }, schema);
        Ok(Widened { plan, places, columns })
    }

    fn hash_join(&mut self, join: &HashJoin, plan: &Plan, apart: bool) -> Result<Widened> {
        let apart = if apart { sides_apart(join.join_type, join.null_aware) } else { Default::default() };
        let (left, right) = (self.plan(&join.left, apart.0)?, self.plan(&join.right, apart.1)?);
        let sides = Sides::of(join.join_type, &join.left, &left, &right);
        let (projection, places, schema) = sides.widened(join.projection.as_deref(), plan, self.wider.leaves);
        let columns = joined(join.join_type, left.columns, right.columns, join.projection.as_deref());
        let (left, right) = (Box::new(left.plan), Box::new(right.plan));
        let node = Node::HashJoin(HashJoin { left, right, projection: Some(projection), ..join.clone() });
        Ok(Widened { plan: Plan::new(node, schema), places, columns: columns.ok_or_else(unknown)? })
    }

    fn nested_loop_join(&mut self, join: &NestedLoopJoin, plan: &Plan, apart: bool) -> Result<Widened> {
        let apart = if apart { sides_apart(join.join_type, false) } else { Default::default() };
        let (left, right) = (self.plan(&join.left, apart.0)?, self.plan(&join.right, apart.1)?);
        let sides = Sides::of(join.join_type, &join.left, &left, &right);
        let (projection, places, schema) = sides.widened(join.projection.as_deref(), plan, self.wider.leaves);
        let columns = joined(join.join_type, left.columns, right.columns, join.projection.as_deref());
        let (left, right) = (Box::new(left.plan), Box::new(right.plan));
        let node = Node::NestedLoopJoin(NestedLoopJoin { left, right, projection: Some(projection), ..join.clone() });
        Ok(Widened { plan: Plan::new(node, schema), places, columns: columns.ok_or_else(unknown)? })
    }
}

/// The sides of a join whose columns come out, widened.
struct Sides<'a> {
    /// How many columns the first of them had, and has.
    first_before: usize,
    first_now: usize,
    sides: Vec<&'a Widened>,
}

impl<'a> Sides<'a> {
    fn of(join_type: JoinType, left_before: &Plan, left: &'a Widened, right: &'a Widened) -> Self {
        let first = (left_before.schema.fields().len(), left.plan.schema.fields().len());
        match join_type {
            JoinType::LeftSemi | JoinType::LeftAnti => Self::new(first, vec![left]),
            JoinType::RightSemi | JoinType::RightAnti => Self::new((usize::MAX, usize::MAX), vec![right]),
            _ => Self::new(first, vec![left, right]),
        }
    }

    fn new((first_before, first_now): (usize, usize), sides: Vec<&'a Widened>) -> Self {
        Self { first_before, first_now, sides }
    }

    /// What comes out of the join now: the columns that did, at their places, and behind them the leaves.
    fn widened(
        &self,
        projection: Option<&[usize]>,
        plan: &Plan,
        leaves: &BTreeSet<usize>,
    ) -> (Vec<usize>, BTreeMap<usize, usize>, Arc<Schema>) {
        let moved = |column: usize| match column.checked_sub(self.first_before) {
            Some(of_second) => self.first_now + of_second,
            None => column,
        };
        let mut columns: Vec<usize> = match projection {
            Some(columns) => columns.iter().map(|&column| moved(column)).collect(),
            None => (0..plan.schema.fields().len()).map(moved).collect(),
        };
        let (mut places, mut added) = (BTreeMap::new(), Vec::new());
        let mut before = 0;
        for side in &self.sides {
            for (&leaf, &column) in side.places.iter().filter(|(leaf, _)| leaves.contains(leaf)) {
                let there = columns.iter().position(|other| *other == before + column);
                places.insert(leaf, there.unwrap_or(columns.len()));
                if there.is_none() {
                    columns.push(before + column);
                    // The other side's rows may have no partner.
                    added.push(side.plan.schema.field(column).clone().with_nullable(true));
                }
            }
            before += side.plan.schema.fields().len();
        }
        (columns, places, Arc::new(beside(&plan.schema, added)))
    }
}

fn beside(schema: &Schema, added: impl IntoIterator<Item = Field>) -> Schema {
    let own = schema.fields().iter().cloned();
    Schema::new(own.chain(added.into_iter().map(Arc::new)).collect::<Vec<_>>())
}

fn unknown() -> Error {
    Error::bug("a plan with a shape has none")
}
