//! Joins and groups fragment by fragment, where tables are divided by what is joined on or grouped by.
//!
//! Rows with equal keys are in fragments of one number if both tables have one rule (DeWitt et al., "A Performance
//! Analysis of the Gamma Database Machine", 1988, section 2.2). So each pair of fragments can be joined by itself, and
//! each fragment grouped by itself: with hash tables that are as much smaller, and without one packet waiting for
//! another.
//!
//! The plan is looked at from its top: the largest parts that can be run so are, if they have a join or groups.

use std::borrow::Cow;
use std::collections::HashSet;

use datafusion_common::JoinType;
use diligence_base::{Error, Result};

use super::{Aggregate, HashJoin, Node, Plan, PlanTables, RuntimeFilterId, Scan};

/// Rows that a part is expected to read, at least: to start with a fragment costs as much as some thousands.
const ROWS_MIN: usize = 1 << 16;

/// What is known of a plan whose tables are all divided by one rule.
struct Divided {
    rule: String,
    fragments: usize,
    /// For each column that the rule looks at the output columns that have its value.
    keys: Vec<Vec<usize>>,
    /// Whether there is a join or are groups in it.
    gains: bool,
}

impl Divided {
    /// The same where the output has other columns: for each of them, or some, the column that it was.
    fn with_columns(self, was: impl Iterator<Item = (usize, Option<usize>)>) -> Self {
        let mut keys = vec![Vec::new(); self.keys.len()];
        for (now, was) in was {
            for (key, before) in keys.iter_mut().zip(&self.keys) {
                if was.is_some_and(|was| before.contains(&was)) {
                    key.push(now);
                }
            }
        }
        Self { keys, ..self }
    }
}

/// The plan with the parts that are run fragment by fragment; the plan itself, if there is no such part.
pub(crate) fn with_fragments<'p>(plan: Cow<'p, Plan>, tables: &PlanTables) -> Cow<'p, Plan> {
    if !any(&plan, tables) {
        return plan;
    }
    let mut plan = plan.into_owned();
    put(&mut plan, tables);
    Cow::Owned(plan)
}

/// How many fragments a part has that is worth being run fragment by fragment.
fn fragments_of(plan: &Plan, tables: &PlanTables) -> Option<usize> {
    let divided = divided(plan, tables).filter(|divided| divided.gains)?;
    (plan.needs(tables).rows >= ROWS_MIN).then_some(divided.fragments)
}

fn any(plan: &Plan, tables: &PlanTables) -> bool {
    fragments_of(plan, tables).is_some()
        || !runs_often(plan) && plan.inputs().into_iter().any(|input| any(input, tables))
}

/// What is below is run again and again already, inside of one packet.
fn runs_often(plan: &Plan) -> bool {
    matches!(plan.node, Node::Recursive(_) | Node::FragmentWise { .. })
}

fn put(plan: &mut Plan, tables: &PlanTables) {
    if let Some(fragments) = fragments_of(plan, tables) {
        let (schema, rows_estimate) = (plan.schema.clone(), plan.rows_estimate);
        let nothing = Plan::new(Node::Values { batches: Vec::new() }, schema.clone());
        let input = Box::new(std::mem::replace(plan, nothing));
        *plan = Plan { rows_estimate, ..Plan::new(Node::FragmentWise { input, fragments }, schema) };
    } else if !runs_often(plan) {
        plan.inputs_mut().into_iter().for_each(|input| put(input, tables));
    }
}

fn divided(plan: &Plan, tables: &PlanTables) -> Option<Divided> {
    // Who depends on an order gets it from one packet.
    if plan.ordered {
        return None;
    }
    match &plan.node {
        Node::Scan(scan) => divided_scan(scan, tables),
        Node::Filter { input, .. } => divided(input, tables),
        Node::Project { input, expressions } => {
            let was = expressions.iter().map(|expression| expression.as_column()).enumerate();
            Some(divided(input, tables)?.with_columns(was))
        }
        Node::HashJoin(join) => divided_join(join, tables),
        Node::Aggregate(aggregate) => divided_groups(aggregate, tables),
        _ => None,
    }
}

fn divided_scan(scan: &Scan, tables: &PlanTables) -> Option<Divided> {
    if scan.limit.is_some() {
        return None;
    }
    let table = tables.find(scan.table)?;
    let declustering = table.declustering()?;
    let condition = scan.condition();
    // One fragment is read by all packets, and few rows are found by an index at once.
    let (wanted, _) = table.fragments(condition.as_ref())?;
    if wanted < 2 || condition.is_some_and(|condition| table.access(&condition).is_some()) {
        return None;
    }
    let columns_of = |key: &usize| {
        let places = scan.columns.iter().enumerate().filter(|(_, column)| *column == key);
        places.map(|(place, _)| place).collect()
    };
    let keys = declustering.columns.iter().map(columns_of).collect();
    Some(Divided { rule: declustering.rule, fragments: declustering.fragments, keys, gains: false })
}

fn divided_join(join: &HashJoin, tables: &PlanTables) -> Option<Divided> {
    // NOT IN asks for a NULL anywhere.
    if join.null_aware {
        return None;
    }
    let (left, right) = (divided(&join.left, tables)?, divided(&join.right, tables)?);
    if left.rule != right.rule {
        return None;
    }
    let is_joined = |(left, right): (&Vec<usize>, &Vec<usize>)| {
        join.on.iter().any(|(on_left, on_right)| {
            on_left.as_column().is_some_and(|column| left.contains(&column))
                && on_right.as_column().is_some_and(|column| right.contains(&column))
        })
    };
    if !left.keys.iter().zip(&right.keys).all(is_joined) {
        return None;
    }
    // Which sides come out, with values in all rows.
    let width = join.left.schema.fields().len();
    let (shown_left, shown_right) = match join.join_type {
        JoinType::Inner => (true, Some(width)),
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => (true, None),
        JoinType::Right => (false, Some(width)),
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => (false, Some(0)),
        JoinType::Full => (false, None),
    };
    let keys = left.keys.iter().zip(&right.keys).map(|(left, right)| {
        let left = left.iter().copied().filter(|_| shown_left);
        let right = shown_right.into_iter().flat_map(|first| right.iter().map(move |column| first + column));
        left.chain(right).collect()
    });
    let all = Divided { keys: keys.collect(), gains: true, ..left };
    Some(match &join.projection {
        None => all,
        Some(columns) => all.with_columns(columns.iter().map(|column| Some(*column)).enumerate()),
    })
}

fn divided_groups(aggregate: &Aggregate, tables: &PlanTables) -> Option<Divided> {
    let is_plain = matches!(aggregate.grouping_sets.as_slice(), [] | [_])
        && aggregate.grouping_sets.iter().flatten().all(|is_null| !is_null);
    if !is_plain || aggregate.limit.is_some() || aggregate.groups.is_empty() {
        return None;
    }
    let was = aggregate.groups.iter().map(|group| group.as_column()).enumerate();
    let divided = Divided { gains: true, ..divided(&aggregate.input, tables)?.with_columns(was) };
    divided.keys.iter().all(|key| !key.is_empty()).then_some(divided)
}

/// The plan of one fragment of its tables. Fails if there are more than a table can have.
pub(crate) fn of_fragment(plan: &Plan, fragment: usize) -> Result<Plan> {
    fn put(plan: &mut Plan, fragment: u16) {
        if let Node::Scan(scan) = &mut plan.node {
            scan.table.view.fragment = Some(fragment);
        }
        plan.inputs_mut().into_iter().for_each(|input| put(input, fragment));
    }
    let number = u16::try_from(fragment).map_err(|_| Error::bug(format!("no table has a fragment {fragment}")))?;
    let mut plan = plan.clone();
    put(&mut plan, number);
    Ok(plan)
}

/// The filters of scans in a part that joins outside of it make.
pub(crate) fn filters_from_outside(plan: &Plan) -> Vec<RuntimeFilterId> {
    fn visit(plan: &Plan, used: &mut Vec<RuntimeFilterId>, made: &mut HashSet<RuntimeFilterId>) {
        match &plan.node {
            Node::Scan(scan) => used.extend(scan.runtime_filters.iter().map(|(id, _)| *id)),
            Node::HashJoin(join) => made.extend(join.runtime_filters.iter().map(|(id, _)| *id)),
            _ => {}
        }
        plan.inputs().into_iter().for_each(|input| visit(input, used, made));
    }
    let (mut used, mut made) = (Vec::new(), HashSet::new());
    visit(plan, &mut used, &mut made);
    used.retain(|id| !made.contains(id));
    used
}
