//! Orders inner joins by their cost, and puts the smaller side first: it is the one that is built.
//!
//! DataFusion joins in the order of the FROM clause. Here a tree of inner joins is flattened into relations and
//! conditions; sizes are estimated from the tables' statistics ([`cardinality`](super::cardinality)); and the cheapest
//! tree, bushy ones included, is found by dynamic programming over the connected sets of relations (Moerkotte and
//! Neumann, "Analysis of Two Existing and One New Dynamic Programming Algorithm", VLDB 2006, the subset-driven
//! variant). Above
//! [`EXHAUSTIVE_RELATIONS_MAX`] relations the pair that costs least is joined first, again and again.
//!
//! Invariant: the rows and the columns of the tree stay the same; only their order of computation changes.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, NullEquality, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Join, JoinConstraint, JoinType, LogicalPlan, Operator, Projection};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use super::cardinality::{Cardinality, estimate, join_rows};

/// Up to this many relations all orders are looked at: 3^10 pairs of sets take some milliseconds.
const EXHAUSTIVE_RELATIONS_MAX: usize = 10;

/// What a row costs where it is put into a hash table, where it looks one up, and where it comes out of a join, in
/// proportion. Building writes memory at random, probing reads it, most of it filtered by tags.
const BUILD_COST: f64 = 2.0;
const PROBE_COST: f64 = 0.7;
const OUTPUT_COST: f64 = 1.0;

/// The rule.
#[derive(Debug, Default)]
pub struct JoinOrder;

impl OptimizerRule for JoinOrder {
    fn name(&self) -> &str {
        "join_order"
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        reorder(plan)
    }
}

/// The plan with every tree of inner joins in it in its best order.
fn reorder(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !is_reorderable(&plan) {
        return plan.map_children(reorder);
    }
    let mut graph = Graph::default();
    graph.flatten(plan.clone());
    let mut changed = false;
    for relation in &mut graph.relations {
        let rewritten = reorder(std::mem::take(relation))?;
        changed |= rewritten.transformed;
        *relation = rewritten.data;
    }
    let Some(tree) = graph.best_tree() else { return Ok(Transformed::no(plan)) };
    if !changed && tree.is_shape_of(&plan) {
        return Ok(Transformed::no(plan));
    }
    let columns = plan.schema().columns();
    let ordered = graph.build(&tree)?;
    if ordered.schema().columns() == columns {
        return Ok(Transformed::yes(ordered));
    }
    let expressions = columns.into_iter().map(Expr::Column).collect();
    let projection = Projection::try_new_with_schema(expressions, Arc::new(ordered), plan.schema().clone())?;
    Ok(Transformed::yes(LogicalPlan::Projection(projection)))
}

/// True for a join that may be put in another place among others like it.
fn is_reorderable(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Join(join)
        if join.join_type == JoinType::Inner && join.null_equality == NullEquality::NullEqualsNothing)
}

/// A set of relations, one bit each.
type Set = u64;

/// A condition on several relations.
struct Condition {
    relations: Set,
    kind: ConditionKind,
}

enum ConditionKind {
    /// Two expressions that must be equal, and the relations that each reads.
    Equal(Expr, Set, Expr, Set),
    Other(Expr),
}

/// The relations and conditions of a tree of inner joins.
#[derive(Default)]
struct Graph {
    relations: Vec<LogicalPlan>,
    conditions: Vec<Condition>,
}

/// An order of joins. The first input is the build side.
#[derive(Clone, Debug, PartialEq)]
enum Tree {
    Relation(usize),
    Join(Arc<Tree>, Arc<Tree>),
}

#[derive(Clone)]
struct Best {
    tree: Arc<Tree>,
    cost: f64,
    size: Cardinality,
}

impl Graph {
    fn flatten(&mut self, plan: LogicalPlan) {
        let mut equal = Vec::new();
        let mut other = Vec::new();
        self.collect(plan, &mut equal, &mut other);
        for (left, right) in equal {
            let (left_set, right_set) = (self.relations_of(&left), self.relations_of(&right));
            let relations = left_set | right_set;
            let separate = left_set != 0 && right_set != 0 && left_set & right_set == 0;
            let kind = if separate {
                ConditionKind::Equal(left, left_set, right, right_set)
            } else {
                ConditionKind::Other(left.eq(right))
            };
            self.conditions.push(Condition { relations, kind });
        }
        for condition in other {
            let relations = self.relations_of(&condition);
            self.conditions.push(Condition { relations, kind: ConditionKind::Other(condition) });
        }
    }

    fn collect(&mut self, plan: LogicalPlan, equal: &mut Vec<(Expr, Expr)>, other: &mut Vec<Expr>) {
        match plan {
            LogicalPlan::Join(join) if is_reorderable(&LogicalPlan::Join(join.clone())) => {
                self.collect(Arc::unwrap_or_clone(join.left), equal, other);
                self.collect(Arc::unwrap_or_clone(join.right), equal, other);
                equal.extend(join.on);
                for condition in join.filter.map(split_conjunction_owned).unwrap_or_default() {
                    match condition {
                        Expr::BinaryExpr(equality) if equality.op == Operator::Eq => {
                            equal.push((*equality.left, *equality.right));
                        }
                        condition => other.push(condition),
                    }
                }
            }
            relation => self.relations.push(relation),
        }
    }

    fn relations_of(&self, expression: &Expr) -> Set {
        let columns = expression.column_refs();
        let reads = |relation: &LogicalPlan| columns.iter().any(|column| relation.schema().has_column(column));
        self.relations.iter().enumerate().filter(|(_, relation)| reads(relation)).map(|(index, _)| 1 << index).sum()
    }

    /// The cheapest tree; `None` if there are too many relations for a set or a condition belongs nowhere.
    fn best_tree(&self) -> Option<Arc<Tree>> {
        if self.relations.len() > Set::BITS as usize || self.conditions.iter().any(|condition| condition.relations == 0)
        {
            return None;
        }
        let leaves: Vec<Best> = self
            .relations
            .iter()
            .enumerate()
            .map(|(index, relation)| Best {
                tree: Arc::new(Tree::Relation(index)),
                cost: 0.0,
                size: estimate(relation),
            })
            .collect();
        if leaves.len() <= EXHAUSTIVE_RELATIONS_MAX {
            let best = self.exhaustive(&leaves);
            if best.is_some() {
                return best;
            }
        }
        self.greedy(leaves)
    }

    /// Dynamic programming over all connected sets. `None` if the relations are not all connected.
    fn exhaustive(&self, leaves: &[Best]) -> Option<Arc<Tree>> {
        let all: Set = (1 << leaves.len()) - 1;
        let mut table: Vec<Option<Best>> = vec![None; all as usize + 1];
        for (index, leaf) in leaves.iter().enumerate() {
            table[1 << index] = Some(leaf.clone());
        }
        for set in 1..=all {
            // Proper subsets of a set are smaller numbers: they are done.
            let mut part = (set - 1) & set;
            while part > 0 {
                let rest = set & !part;
                if part < rest
                    && let (Some(left), Some(right)) = (&table[part as usize], &table[rest as usize])
                    && self.connects(part, rest)
                {
                    let joined = self.join(left, part, right, rest);
                    let slot = &mut table[set as usize];
                    if slot.as_ref().is_none_or(|best| joined.cost < best.cost) {
                        *slot = Some(joined);
                    }
                }
                part = (part - 1) & set;
            }
        }
        table.pop().flatten().map(|best| best.tree)
    }

    /// Joins the pair that costs least until one is left; pairs without a condition only when there is no other.
    fn greedy(&self, leaves: Vec<Best>) -> Option<Arc<Tree>> {
        let mut open: Vec<(Set, Best)> =
            leaves.into_iter().enumerate().map(|(index, leaf)| (1 << index, leaf)).collect();
        while open.len() > 1 {
            let mut choice: Option<(bool, f64, usize, usize, Best)> = None;
            for left in 0..open.len() {
                for right in left + 1..open.len() {
                    let apart = !self.connects(open[left].0, open[right].0);
                    let joined = self.join(&open[left].1, open[left].0, &open[right].1, open[right].0);
                    let better = choice
                        .as_ref()
                        .is_none_or(|(other_apart, size, ..)| (apart, joined.size.rows) < (*other_apart, *size));
                    if better {
                        choice = Some((apart, joined.size.rows, left, right, joined));
                    }
                }
            }
            let (_, _, left, right, joined) = choice?;
            let set = open[left].0 | open[right].0;
            open.remove(right);
            open[left] = (set, joined);
        }
        open.pop().map(|(_, best)| best.tree)
    }

    fn connects(&self, left: Set, right: Set) -> bool {
        self.conditions.iter().any(|condition| {
            condition.relations & !(left | right) == 0
                && condition.relations & left != 0
                && condition.relations & right != 0
        })
    }

    /// Two sets joined by all conditions that become decidable.
    fn join(&self, left: &Best, left_set: Set, right: &Best, right_set: Set) -> Best {
        let mut keys = Vec::new();
        let mut others = 0;
        for condition in self.conditions.iter().filter(|condition| joins(condition.relations, left_set, right_set)) {
            match &condition.kind {
                ConditionKind::Equal(a, a_set, b, b_set) => {
                    if a_set & !left_set == 0 && b_set & !right_set == 0 {
                        keys.push((a, b));
                    } else if b_set & !left_set == 0 && a_set & !right_set == 0 {
                        keys.push((b, a));
                    } else {
                        others += 1;
                    }
                }
                ConditionKind::Other(_) => others += 1,
            }
        }
        let size = join_rows(&left.size, &right.size, &keys, others);
        let (build, probe) = if left.size.rows <= right.size.rows { (left, right) } else { (right, left) };
        let cost = left.cost
            + right.cost
            + BUILD_COST * build.size.rows
            + PROBE_COST * probe.size.rows
            + OUTPUT_COST * size.rows;
        Best { tree: Arc::new(Tree::Join(build.tree.clone(), probe.tree.clone())), cost, size }
    }

    /// The joins of a tree as a plan. Every condition goes to the lowest join that has all its relations.
    fn build(self, tree: &Tree) -> Result<LogicalPlan> {
        let Graph { relations, conditions } = self;
        let mut conditions: Vec<Option<Condition>> = conditions.into_iter().map(Some).collect();
        build(tree, &relations, &mut conditions).map(|(plan, _)| plan)
    }
}

/// True if a condition on these relations is decidable with both sets, but with neither alone.
fn joins(relations: Set, left: Set, right: Set) -> bool {
    relations & !(left | right) == 0 && relations & !left != 0 && relations & !right != 0
}

fn build(tree: &Tree, relations: &[LogicalPlan], conditions: &mut [Option<Condition>]) -> Result<(LogicalPlan, Set)> {
    let (left, right) = match tree {
        Tree::Relation(index) => return Ok((relations[*index].clone(), 1 << index)),
        Tree::Join(left, right) => (left, right),
    };
    let (left, left_set) = build(left, relations, conditions)?;
    let (right, right_set) = build(right, relations, conditions)?;
    let set = left_set | right_set;
    let mut on = Vec::new();
    let mut filters = Vec::new();
    for slot in conditions.iter_mut() {
        if slot.as_ref().is_none_or(|condition| condition.relations & !set != 0) {
            continue;
        }
        match slot.take().map(|condition| condition.kind) {
            Some(ConditionKind::Equal(a, a_set, b, b_set)) => {
                if a_set & !left_set == 0 && b_set & !right_set == 0 {
                    on.push((a, b));
                } else if b_set & !left_set == 0 && a_set & !right_set == 0 {
                    on.push((b, a));
                } else {
                    filters.push(a.eq(b));
                }
            }
            Some(ConditionKind::Other(filter)) => filters.push(filter),
            None => {}
        }
    }
    let join = Join::try_new(
        Arc::new(left),
        Arc::new(right),
        on,
        conjunction(filters),
        JoinType::Inner,
        JoinConstraint::On,
        NullEquality::NullEqualsNothing,
        false,
    )?;
    Ok((LogicalPlan::Join(join), set))
}

impl Tree {
    /// True if a plan joins its relations, counted from the left, in this order already.
    fn is_shape_of(&self, plan: &LogicalPlan) -> bool {
        fn shape(plan: &LogicalPlan, next: &mut usize) -> Tree {
            match plan {
                LogicalPlan::Join(join) if is_reorderable(plan) => {
                    let left = shape(&join.left, next);
                    let right = shape(&join.right, next);
                    Tree::Join(Arc::new(left), Arc::new(right))
                }
                _ => {
                    *next += 1;
                    Tree::Relation(*next - 1)
                }
            }
        }
        *self == shape(plan, &mut 0)
    }
}

/// The column that an expression is, if it is just one.
pub(super) fn plain_column(expression: &Expr) -> Option<&Column> {
    match expression {
        Expr::Column(column) => Some(column),
        Expr::Alias(alias) => plain_column(&alias.expr),
        Expr::Cast(cast) => plain_column(&cast.expr),
        _ => None,
    }
}
