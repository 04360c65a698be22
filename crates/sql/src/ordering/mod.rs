//! The order of inner joins, by their cost.
//!
//! A tree of inner joins and the filters among them is flattened into relations and conditions. The cheapest tree,
//! bushy ones included, is found by dynamic programming over the connected sets of relations (Moerkotte and Neumann,
//! "Analysis of Two Existing and One New Dynamic Programming Algorithm", VLDB 2006, the subset-driven variant). Above
//! [`EXHAUSTIVE_RELATIONS_MAX`] relations the pair that gives the fewest rows is joined first, again and again. Sizes
//! come from [`estimates`]. Before that, semi and anti joins go down to the relation that they ask about ([`sinking`]).
//!
//! Columns that equalities make equal are an equivalence class ([`classes`]): any two of its relations can be joined on
//! it, whether the statement compares them or not, and a join compares one pair of a class.
//!
//! Invariant: the rows stay the same; only the order of their computation changes.

mod classes;
pub(crate) mod estimates;
mod expressions;
mod sinking;

use std::collections::HashMap;

use diligence_base::{Error, Result, wanted};

use self::classes::Classes;
use self::estimates::{Cardinality, estimate, join_rows, joined};
use self::sinking::sunk;
use crate::algebra::{ColumnId, Comparison, Join, JoinKind, Relation, Scalar};

/// Up to this many relations all orders are looked at: 3^10 pairs of sets take some milliseconds.
const EXHAUSTIVE_RELATIONS_MAX: usize = 10;

/// What a row costs where it is put into a hash table, where it looks one up, and where it comes out of a join, in
/// proportion. Building writes memory at random, probing reads it, most of it filtered by tags.
const BUILD_COST: f64 = 2.0;
const PROBE_COST: f64 = 0.7;
const OUTPUT_COST: f64 = 1.0;

/// An equal relation with every tree of inner joins in it in its best order.
pub(crate) fn ordered(relation: Relation) -> Result<Relation> {
    wanted::check()?;
    stacker::maybe_grow(128 * 1024, 2 * 1024 * 1024, || match relation {
        Relation::Join(join) if let Some(relation) = sunk(&join) => ordered(relation),
        Relation::Join(join) if join.kind == JoinKind::Inner => {
            let mut graph = Graph::default();
            graph.flatten(Relation::Join(join))?;
            graph.best()
        }
        mut other => {
            for input in other.inputs_mut() {
                let taken = std::mem::replace(input, Relation::one_row());
                *input = ordered(taken)?;
            }
            Ok(other)
        }
    })
}

/// A set of relations, one bit each.
type Set = u64;

/// A condition on relations.
struct GraphCondition {
    relations: Set,
    scalar: Scalar,
    /// The relations that each side of an equality reads, if they are apart.
    sides: Option<(Set, Set)>,
    /// The class of an equality of two columns.
    class: Option<usize>,
}

/// The relations and conditions of a tree of inner joins.
#[derive(Default)]
struct Graph {
    relations: Vec<Relation>,
    conditions: Vec<Scalar>,
}

#[derive(Clone, Copy, Debug)]
enum Tree {
    Relation(usize),
    /// Of two sets.
    Join(Set, Set),
}

struct Best {
    tree: Tree,
    cost: f64,
    size: Cardinality,
}

impl Graph {
    fn flatten(&mut self, relation: Relation) -> Result<()> {
        match relation {
            Relation::Join(Join { kind: JoinKind::Inner, left, right, on }) => {
                self.flatten(*left)?;
                self.flatten(*right)?;
                self.conditions.extend(on.conjuncts());
            }
            Relation::Filter { input, condition } if is_inner_join(&input) => {
                self.flatten(*input)?;
                self.conditions.extend(condition.conjuncts());
            }
            other => self.relations.push(ordered(other)?),
        }
        Ok(())
    }

    fn best(self) -> Result<Relation> {
        let Self { relations, conditions } = self;
        if relations.len() > Set::BITS as usize {
            return Ok(in_order_of(relations, conditions));
        }
        let mut owners: HashMap<ColumnId, usize> = HashMap::new();
        for (index, relation) in relations.iter().enumerate() {
            owners.extend(relation.column_ids().into_iter().map(|id| (id, index)));
        }
        let set_of = |scalar: &Scalar| {
            scalar.columns().iter().filter_map(|id| owners.get(id)).fold(0, |set: Set, index| set | 1 << index)
        };
        let classes = Classes::of(&conditions, |id| owners.get(&id).copied());
        let conditions = conditions.into_iter().chain(classes.implied()).map(|scalar| {
            let relations = set_of(&scalar);
            let sides = match &scalar {
                Scalar::Compare { comparison: Comparison::Equal | Comparison::IsNotDistinctFrom, left, right } => {
                    let (left, right) = (set_of(left), set_of(right));
                    (left != 0 && right != 0 && left & right == 0).then_some((left, right))
                }
                _ => None,
            };
            let class = sides.and_then(|_| classes.class_of(&scalar));
            GraphCondition { relations, scalar, sides, class }
        });
        let search = Search { conditions: conditions.collect() };
        let leaves: Vec<Best> = relations
            .iter()
            .enumerate()
            .map(|(index, relation)| Best { tree: Tree::Relation(index), cost: 0.0, size: estimate(relation) })
            .collect();
        let all = if leaves.len() == Set::BITS as usize { Set::MAX } else { (1 << leaves.len()) - 1 };
        let table = match leaves.len() <= EXHAUSTIVE_RELATIONS_MAX && search.is_connected(leaves.len()) {
            true => search.exhaustive(leaves),
            false => search.greedy(leaves),
        };
        let mut relations = relations.into_iter().map(Some).collect::<Vec<_>>();
        let mut conditions = search.conditions.into_iter().map(Some).collect::<Vec<_>>();
        built(all, &table, &mut relations, &mut conditions)
    }
}

fn is_inner_join(relation: &Relation) -> bool {
    match relation {
        Relation::Join(join) => join.kind == JoinKind::Inner,
        Relation::Filter { input, .. } => is_inner_join(input),
        _ => false,
    }
}

/// Too many relations for a set: as they are written.
fn in_order_of(relations: Vec<Relation>, conditions: Vec<Scalar>) -> Relation {
    let mut open = conditions;
    let mut relations = relations.into_iter();
    let mut current = relations.next().unwrap_or_else(Relation::one_row);
    let mut known = current.column_ids();
    for relation in relations {
        known.extend(relation.column_ids());
        let (now, later): (Vec<_>, Vec<_>) = open.into_iter().partition(|scalar| scalar.columns().is_subset(&known));
        open = later;
        let on = Scalar::all(now);
        current =
            Relation::Join(Join { kind: JoinKind::Inner, left: Box::new(current), right: Box::new(relation), on });
    }
    current.filtered(Scalar::all(open))
}

struct Search {
    conditions: Vec<GraphCondition>,
}

impl Search {
    /// Whether conditions lead from each relation to every other.
    fn is_connected(&self, relations: usize) -> bool {
        let mut reached: Set = 1;
        loop {
            let grown = self.conditions.iter().fold(reached, |reached, condition| {
                if condition.relations & reached != 0 { reached | condition.relations } else { reached }
            });
            if grown == reached {
                return reached.count_ones() as usize == relations;
            }
            reached = grown;
        }
    }

    /// Whether a condition reads both sets; it may read others as well. So whatever
    /// [`is_connected`](Self::is_connected) can be built of pairs that are.
    fn connects(&self, left: Set, right: Set) -> bool {
        self.conditions.iter().any(|condition| condition.relations & left != 0 && condition.relations & right != 0)
    }

    /// Whether a condition becomes decidable where two sets are joined.
    fn decides(&self, left: Set, right: Set) -> bool {
        self.conditions.iter().any(|condition| joins(condition.relations, left, right))
    }

    /// The rows of two sets joined by all conditions that become decidable.
    fn rows(&self, left: &Cardinality, left_set: Set, right: &Cardinality, right_set: Set) -> f64 {
        let mut keys = Vec::new();
        let mut others = 0;
        let mut met = Vec::new();
        for condition in self.conditions.iter().filter(|condition| joins(condition.relations, left_set, right_set)) {
            // One pair of a class says all.
            if let Some(class) = condition.class {
                if met.contains(&class) {
                    continue;
                }
                met.push(class);
            }
            match (&condition.scalar, condition.sides) {
                (Scalar::Compare { left: a, right: b, .. }, Some((a_set, b_set))) => {
                    if a_set & !left_set == 0 && b_set & !right_set == 0 {
                        keys.push((&**a, &**b));
                    } else if b_set & !left_set == 0 && a_set & !right_set == 0 {
                        keys.push((&**b, &**a));
                    } else {
                        others += 1;
                    }
                }
                _ => others += 1,
            }
        }
        join_rows(left, right, &keys, others)
    }

    fn cost(left: &Best, right: &Best, rows: f64) -> f64 {
        let (build, probe) = if left.size.rows <= right.size.rows { (left, right) } else { (right, left) };
        left.cost + right.cost + BUILD_COST * build.size.rows + PROBE_COST * probe.size.rows + OUTPUT_COST * rows
    }

    /// Dynamic programming over all connected sets.
    fn exhaustive(&self, leaves: Vec<Best>) -> HashMap<Set, Best> {
        let all: Set = (1 << leaves.len()) - 1;
        let mut table: Vec<Option<Best>> = (0..=all).map(|_| None).collect();
        for (index, leaf) in leaves.into_iter().enumerate() {
            table[1 << index] = Some(leaf);
        }
        for set in 1..=all {
            // Proper subsets of a set are smaller numbers: they are done.
            let mut part = (set - 1) & set;
            let mut best: Option<Best> = None;
            while part > 0 {
                let rest = set & !part;
                if part < rest
                    && let (Some(left), Some(right)) = (&table[part as usize], &table[rest as usize])
                    && self.connects(part, rest)
                {
                    // A set has one size, however it is made.
                    let size = match &best {
                        Some(best) => best.size.clone(),
                        None => joined(&left.size, &right.size, self.rows(&left.size, part, &right.size, rest)),
                    };
                    let cost = Self::cost(left, right, size.rows);
                    if best.as_ref().is_none_or(|best| cost < best.cost) {
                        let (build, probe) =
                            if left.size.rows <= right.size.rows { (part, rest) } else { (rest, part) };
                        best = Some(Best { tree: Tree::Join(build, probe), cost, size });
                    }
                }
                part = (part - 1) & set;
            }
            if best.is_some() {
                table[set as usize] = best;
            }
        }
        let found = table.into_iter().enumerate();
        found.filter_map(|(set, best)| Some((set as Set, best?))).collect()
    }

    /// Joins the pair that gives the fewest rows until one is left; pairs without a condition only when there is no
    /// other.
    fn greedy(&self, leaves: Vec<Best>) -> HashMap<Set, Best> {
        let mut done: HashMap<Set, Best> = HashMap::new();
        let mut open: Vec<Set> = Vec::with_capacity(leaves.len());
        for (index, leaf) in leaves.into_iter().enumerate() {
            open.push(1 << index);
            done.insert(1 << index, leaf);
        }
        // The rows of each pair of open sets, and whether no condition connects them; computed once per pair.
        let mut pairs: HashMap<(Set, Set), (bool, f64)> = HashMap::new();
        while open.len() > 1 {
            let mut choice: Option<((bool, f64), Set, Set)> = None;
            for (position, left) in open.iter().enumerate() {
                for right in &open[position + 1..] {
                    let measure = *pairs.entry((*left, *right)).or_insert_with(|| {
                        let apart = !self.decides(*left, *right);
                        (apart, self.rows(&done[left].size, *left, &done[right].size, *right))
                    });
                    if choice.as_ref().is_none_or(|(best, ..)| measure < *best) {
                        choice = Some((measure, *left, *right));
                    }
                }
            }
            let Some(((_, rows), left, right)) = choice else { break };
            let (a, b) = (&done[&left], &done[&right]);
            let cost = Self::cost(a, b, rows);
            let (build, probe) = if a.size.rows <= b.size.rows { (left, right) } else { (right, left) };
            let best = Best { tree: Tree::Join(build, probe), cost, size: joined(&a.size, &b.size, rows) };
            open.retain(|set| *set != left && *set != right);
            open.push(left | right);
            done.insert(left | right, best);
        }
        done
    }
}

/// True if a condition on these relations is decidable with both sets, but with neither alone.
fn joins(relations: Set, left: Set, right: Set) -> bool {
    relations & !(left | right) == 0 && relations & !left != 0 && relations & !right != 0
}

/// The joins of a set. Every condition goes to the lowest join that has all its relations.
fn built(
    set: Set,
    table: &HashMap<Set, Best>,
    relations: &mut [Option<Relation>],
    conditions: &mut [Option<GraphCondition>],
) -> Result<Relation> {
    // Of a class one pair is compared: the columns of each side are equal already.
    let taken = |conditions: &mut [Option<GraphCondition>]| {
        let fits = conditions.iter_mut().filter(|slot| slot.as_ref().is_some_and(|one| one.relations & !set == 0));
        let mut met = Vec::new();
        let mut is_new = |condition: &GraphCondition| match condition.class {
            Some(class) if met.contains(&class) => false,
            class => {
                met.extend(class);
                true
            }
        };
        let found = fits.filter_map(|slot| slot.take().filter(&mut is_new));
        Scalar::all(found.map(|condition| condition.scalar).collect::<Vec<_>>())
    };
    match table.get(&set).map(|best| best.tree) {
        Some(Tree::Relation(index)) => {
            let relation = relations[index].take().ok_or_else(|| Error::bug("a relation is joined twice"))?;
            Ok(relation.filtered(taken(conditions)))
        }
        Some(Tree::Join(left, right)) => {
            let left = Box::new(built(left, table, relations, conditions)?);
            let right = Box::new(built(right, table, relations, conditions)?);
            let on = taken(conditions);
            Ok(Relation::Join(Join { kind: JoinKind::Inner, left, right, on }))
        }
        None => Err(Error::bug("joined relations have no order")),
    }
}
