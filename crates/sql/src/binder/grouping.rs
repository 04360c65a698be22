//! Groups. Calls of aggregates are bound in `aggregates`.
//!
//! Expressions above a GROUP BY are bound over the columns of FROM first, their aggregates as columns of their own.
//! Once all are bound, what is equal to a group's expression becomes the group's column; a column that is left then is
//! in no group (42803).

use std::collections::{BTreeSet, HashMap, HashSet};

use diligence_base::{Error, Result};
use diligence_types::SqlType;
use diligence_types::functions::resolve_aggregate;
use sqlparser::ast::{Expr, Function, FunctionArg, FunctionArgExpr, GroupByExpr, GroupByWithModifier};

use super::collations::{grouping_key, unlabelled};
use super::order::item_at;
use super::scope::{Clause, GroupingCall, Item, Level, Tracker};
use super::syntax::{bare_name, written};
use super::{Binder, STACK_GROWTH, STACK_RED_ZONE, name_place, normalized, unsupported};
use crate::algebra::{Aggregate, AggregateItem, Column, ColumnId, Constant, GroupingSets, Relation, Scalar};
use crate::errors;
use crate::parse::{EMPTY_SET, GROUPING_SETS};

/// Grouping sets of one GROUP BY at most, as in PostgreSQL.
const GROUPING_SETS_MAX: usize = 4096;
/// Parts of a CUBE at most, as in PostgreSQL.
const CUBE_PARTS_MAX: usize = 12;
/// Arguments of GROUPING at most: bits of an `integer`.
const GROUPING_ARGUMENTS_MAX: usize = 31;

/// What a SELECT is grouped by.
#[derive(Default)]
pub(super) struct Groups {
    /// Whether there is a GROUP BY at all.
    is_given: bool,
    /// The expressions, over the columns of FROM.
    scalars: Vec<Scalar>,
    /// The groups that items of the SELECT list are.
    of_items: HashMap<usize, usize>,
    /// The sets, if there are several: positions among the expressions.
    sets: Option<Vec<Vec<usize>>>,
    /// What each group is above the aggregates.
    columns: Vec<Scalar>,
    /// Columns that the groups' keys determine, and what they are above the aggregates.
    determined: Vec<(ColumnId, Scalar)>,
    /// The set's position.
    set_index: Option<Column>,
}

impl Binder<'_> {
    /// GROUPING(a, b): which of its arguments a row's set leaves out.
    pub(super) fn grouping_call(&self, function: &Function, level: &Level<'_>) -> Result<Scalar> {
        let name = bare_name(function);
        self.trackers.borrow_mut().push(Tracker::new(level.depth));
        let arguments = self.arguments(&name, written(function), level);
        let tracker = self.trackers.borrow_mut().pop();
        let arguments = arguments?;
        if arguments.len() > GROUPING_ARGUMENTS_MAX {
            return Err(Error::input("GROUPING must have fewer than 32 arguments").with_code("54023"));
        }
        // In a subquery, it may be of the groups of a query around it.
        let target = level.at(tracker.and_then(|tracker| tracker.innermost).unwrap_or(level.depth));
        if !target.clause.get().has_aggregates() {
            let message = format!("grouping operations are not allowed in {}", target.clause.get().name());
            return Err(Error::input(message).with_code("42803"));
        }
        let column = self.numbers.named("grouping", SqlType::Integer, false);
        let scalar = column.scalar();
        if target.depth < level.depth {
            target.read.borrow_mut().insert(column.id);
        }
        target.groupings.borrow_mut().push(GroupingCall { column, arguments });
        Ok(scalar)
    }

    /// GROUP BY. Fails with 42P10 for a position that is not in the list, 42803 for an aggregate in it.
    pub(super) fn groups(&self, by: &GroupByExpr, items: &[Item], level: &Level<'_>) -> Result<Groups> {
        let mut groups = Groups::default();
        let was = level.clause.replace(Clause::GroupBy);
        match by {
            GroupByExpr::All(modifiers) => {
                if let Some(modifier) = modifiers.first() {
                    return Err(unsupported(format!("GROUP BY ALL {modifier}")));
                }
                groups.is_given = true;
                for (index, item) in items.iter().enumerate() {
                    if !self.has_aggregate(&item.scalar, level) {
                        self.group_of_item(index, items, level, &mut groups)?;
                    }
                }
            }
            GroupByExpr::Expressions(expressions, modifiers) => {
                groups.is_given = !expressions.is_empty();
                let (is_distinct, expressions) = distinct_sets(expressions);
                let mut parts = Vec::with_capacity(expressions.len());
                for expression in expressions {
                    parts.push(self.grouping_sets(expression, items, level, &mut groups)?);
                }
                for modifier in modifiers {
                    let singles = parts.drain(..).map(|sets| sets.into_iter().flatten().collect()).collect::<Vec<_>>();
                    parts = match modifier {
                        GroupByWithModifier::Rollup => vec![rollup(&singles)],
                        GroupByWithModifier::Cube => vec![cube(&singles)?],
                        other => return Err(unsupported(format!("GROUP BY … {other}"))),
                    };
                }
                groups.sets = product(parts)?;
                if let Some(sets) = groups.sets.as_mut().filter(|_| is_distinct) {
                    let mut seen = HashSet::new();
                    sets.retain(|set| seen.insert(set.iter().copied().collect::<BTreeSet<_>>()));
                }
            }
        }
        level.clause.set(was);
        Ok(groups)
    }

    /// The sets that one part of GROUP BY stands for.
    fn grouping_sets(
        &self,
        expression: &Expr,
        items: &[Item],
        level: &Level<'_>,
        groups: &mut Groups,
    ) -> Result<Vec<Vec<usize>>> {
        let mut tuples = |tuples: &[Vec<Expr>]| {
            let one = |tuple: &Vec<Expr>| self.group_tuple(tuple, items, level, groups);
            tuples.iter().map(one).collect::<Result<Vec<_>>>()
        };
        match expression {
            Expr::Rollup(parts) => Ok(rollup(&tuples(parts)?)),
            Expr::Cube(parts) => cube(&tuples(parts)?),
            Expr::GroupingSets(sets) => {
                let mut all = Vec::new();
                for set in sets {
                    match set.as_slice() {
                        [nested @ (Expr::Rollup(_) | Expr::Cube(_) | Expr::GroupingSets(_) | Expr::Function(_))] => {
                            all.extend(self.grouping_sets(nested, items, level, groups)?);
                        }
                        tuple => all.push(self.group_tuple(tuple, items, level, groups)?),
                    }
                }
                Ok(all)
            }
            Expr::Function(function) if bare_name(function) == EMPTY_SET => Ok(vec![vec![]]),
            Expr::Function(function) if bare_name(function) == GROUPING_SETS => {
                let mut all = Vec::new();
                for argument in written(function) {
                    let FunctionArg::Unnamed(FunctionArgExpr::Expr(part)) = argument else {
                        return Err(unsupported(format!("{argument} in GROUP BY")));
                    };
                    all.extend(self.grouping_sets(part, items, level, groups)?);
                }
                Ok(all)
            }
            // Within GROUPING SETS the parser reads them as functions.
            Expr::Function(function) if matches!(bare_name(function).as_str(), "rollup" | "cube") => {
                let mut parts = Vec::new();
                for argument in written(function) {
                    let FunctionArg::Unnamed(FunctionArgExpr::Expr(part)) = argument else {
                        return Err(unsupported(format!("{argument} in GROUP BY")));
                    };
                    parts.push(self.group_tuple(std::slice::from_ref(part), items, level, groups)?);
                }
                if bare_name(function) == "rollup" { Ok(rollup(&parts)) } else { cube(&parts) }
            }
            other => Ok(vec![self.group_tuple(std::slice::from_ref(other), items, level, groups)?]),
        }
    }

    /// The groups of a parenthesized list.
    fn group_tuple(
        &self,
        expressions: &[Expr],
        items: &[Item],
        level: &Level<'_>,
        groups: &mut Groups,
    ) -> Result<Vec<usize>> {
        let mut indexes = Vec::with_capacity(expressions.len());
        for expression in expressions {
            match expression {
                Expr::Tuple(parts) => indexes.extend(self.group_tuple(parts, items, level, groups)?),
                Expr::Nested(inner) if matches!(**inner, Expr::Tuple(_) | Expr::Nested(_)) => {
                    indexes.extend(self.group_tuple(std::slice::from_ref(inner), items, level, groups)?);
                }
                other => indexes.push(self.group(other, items, level, groups)?),
            }
        }
        Ok(indexes)
    }

    /// One expression of GROUP BY: a position or a name of the list, or an expression over FROM.
    fn group(&self, expression: &Expr, items: &[Item], level: &Level<'_>, groups: &mut Groups) -> Result<usize> {
        if let Some(item) = item_at(expression, "GROUP BY", items.len())? {
            return self.group_of_item(item, items, level, groups);
        }
        if let Expr::Identifier(name) = expression {
            // A column of FROM goes before a name of the list.
            let wanted = normalized(name);
            let named = items.iter().enumerate().filter(|(_, item)| item.name == wanted);
            let named = named.map(|(index, _)| index).collect::<Vec<_>>();
            let is_known = level.names.columns().any(|column| column.name == wanted);
            if let Some(first) = named.first().filter(|_| !is_known) {
                if named.iter().any(|index| items[*index].scalar != items[*first].scalar) {
                    let message = format!("GROUP BY \"{wanted}\" is ambiguous");
                    return Err(errors::at(Error::input(message).with_code("42702"), name_place(name)));
                }
                return self.group_of_item(*first, items, level, groups);
            }
        }
        let scalar = self.typed_scalar(expression, level)?;
        // An item that is the same expression is the group.
        if let Some(index) = items.iter().position(|item| Relation::are_alike(&item.scalar, &scalar)) {
            return self.group_of_item(index, items, level, groups);
        }
        let known = groups.scalars.iter().position(|other| Relation::are_alike(other, &scalar));
        Ok(known.unwrap_or_else(|| groups.add(scalar)))
    }

    fn group_of_item(&self, index: usize, items: &[Item], level: &Level<'_>, groups: &mut Groups) -> Result<usize> {
        if let Some(group) = groups.of_items.get(&index) {
            return Ok(*group);
        }
        let item = &items[index];
        if self.has_aggregate(&item.scalar, level) {
            let error = Error::input("aggregate functions are not allowed in GROUP BY").with_code("42803");
            return Err(errors::at(error, item.place()));
        }
        let group = groups.add(self.typed(item.scalar.clone())?);
        groups.of_items.insert(index, group);
        Ok(group)
    }

    /// Whether an aggregate or a window function of a level is in an expression.
    fn has_aggregate(&self, scalar: &Scalar, level: &Level<'_>) -> bool {
        let aggregates = level.aggregates.borrow();
        let uses = level.window_uses.borrow();
        let ids = aggregates.iter().map(|(column, _)| column.id);
        let ids = ids.chain(uses.iter().flat_map(|window| window.items.iter().map(|(column, _)| column.id)));
        let ids = ids.collect::<HashSet<ColumnId>>();
        !ids.is_empty() && scalar.columns().iter().any(|id| ids.contains(id))
    }

    /// Whether a SELECT has groups.
    pub(super) fn is_grouped(&self, groups: &Groups, has_having: bool, level: &Level<'_>) -> bool {
        let has_calls = !level.aggregates.borrow().is_empty() || !level.groupings.borrow().is_empty();
        groups.is_given || has_having || has_calls
    }

    /// Puts groups and aggregates on top of FROM and WHERE. Fails if a type has no groups.
    pub(super) fn aggregated(&self, relation: Relation, groups: &mut Groups, level: &Level<'_>) -> Result<Relation> {
        let mut aggregates = level.aggregates.take();
        for column in determined(groups, level) {
            let item = self.first_of(&column.scalar())?;
            let shown = self.numbers.named(&column.name, column.sql_type.clone(), true);
            groups.determined.push((column.id, shown.scalar()));
            aggregates.push((shown, item));
        }
        let has_sets = groups.sets.is_some();
        let mut columns = Vec::with_capacity(groups.scalars.len());
        for scalar in &groups.scalars {
            let nullable = has_sets || scalar.nullable();
            let name = self.name_of(scalar, level);
            self.check_decided(&scalar.sql_type())?;
            match grouping_key(&scalar.sql_type()) {
                None => {
                    let column = self.numbers.named(name, scalar.sql_type(), nullable);
                    groups.columns.push(column.scalar());
                    columns.push((column, unlabelled(scalar.clone())));
                }
                // Groups by the key; what is shown is the first of a group's values.
                Some(call) => {
                    let key = Scalar::Call { call, arguments: vec![unlabelled(scalar.clone())] };
                    let column = self.numbers.named(&name, key.sql_type(), nullable);
                    let item = self.first_of(scalar)?;
                    let shown = self.numbers.named(name, scalar.sql_type(), true);
                    // Of a set without the group it is NULL, as the key is.
                    let is_there = Scalar::IsNull(Box::new(column.scalar())).negate();
                    groups.columns.push(Scalar::Case {
                        arms: vec![(is_there, shown.scalar())],
                        otherwise: None,
                        sql_type: scalar.sql_type(),
                    });
                    aggregates.push((shown, item));
                    columns.push((column, key));
                }
            }
        }
        let sets = groups.sets.as_ref().map(|sets| {
            let set_index = self.numbers.named("set", SqlType::BigInt, false);
            let included = |set: &Vec<usize>| (0..groups.scalars.len()).map(|group| set.contains(&group)).collect();
            GroupingSets { sets: sets.iter().map(included).collect(), set_index }
        });
        groups.set_index = sets.as_ref().map(|sets| sets.set_index.clone());
        for mut direct in level.directs.take() {
            self.above_groups(vec![&mut direct], groups, level)?;
        }
        let aggregate = Aggregate { input: Box::new(relation), groups: columns, sets, aggregates };
        Ok(Relation::Aggregate(aggregate))
    }

    /// Whichever value of a group comes first. Fails with 0A000 for a type that has no such aggregate.
    fn first_of(&self, scalar: &Scalar) -> Result<AggregateItem> {
        let first = ["first", "first_value", "any_value"];
        let first = first.into_iter().find_map(|first| resolve_aggregate(first, &[Self::candidate(scalar)]).ok());
        let call = first.ok_or_else(|| unsupported(format!("GROUP BY of {}", scalar.sql_type())))?;
        Ok(AggregateItem {
            call,
            arguments: vec![scalar.clone()],
            is_distinct: false,
            filter: None,
            order: vec![],
            made: None,
        })
    }

    /// A name for a group's column.
    fn name_of(&self, scalar: &Scalar, level: &Level<'_>) -> String {
        let column = scalar.as_column();
        let references = level.references.borrow();
        let name = column.and_then(|id| references.get(&id)).map(|(_, name)| name.clone());
        let name = name.map(|name| name.rsplit('.').next().unwrap_or_default().to_owned());
        name.unwrap_or_else(|| "group".to_owned())
    }

    /// Expressions above the groups: what is a group's expression becomes its column. Fails with 42803 for a column
    /// that is in no group.
    pub(super) fn above_groups(&self, scalars: Vec<&mut Scalar>, groups: &Groups, level: &Level<'_>) -> Result<()> {
        let inputs = level.names.ids();
        let groupings = level.groupings.borrow();
        let mut masks = HashMap::with_capacity(groupings.len());
        for grouping in groupings.iter() {
            masks.insert(grouping.column.id, self.grouping_mask(grouping, groups)?);
        }
        let alike = groups.scalars.iter().enumerate().filter(|(_, group)| group.has_subquery());
        let alike = alike.map(|(index, group)| (index, Relation::numbered_alike(group))).collect();
        let above = Above { groups, alike, inputs: &inputs, masks: &masks, level };
        for scalar in scalars {
            above.replace(scalar)?;
        }
        Ok(())
    }

    /// The bits that GROUPING has in each set.
    fn grouping_mask(&self, grouping: &GroupingCall, groups: &Groups) -> Result<Scalar> {
        let mut indexes = Vec::with_capacity(grouping.arguments.len());
        for argument in &grouping.arguments {
            let index = groups.scalars.iter().position(|group| Relation::are_alike(group, argument));
            indexes.push(index.ok_or_else(|| {
                let message = "arguments to GROUPING must be grouping expressions of the associated query level";
                Error::input(message).with_code("42803")
            })?);
        }
        let mask = |set: &[usize]| indexes.iter().fold(0, |mask, index| mask << 1 | i32::from(!set.contains(index)));
        let integer = |value: i32| Scalar::Constant(Constant::integer(value));
        let (Some(sets), Some(set_index)) = (&groups.sets, &groups.set_index) else { return Ok(integer(0)) };
        let arms = sets.iter().enumerate().map(|(index, set)| {
            let index = Scalar::Constant(Constant::bigint(index as i64));
            (Scalar::equal(set_index.scalar(), index), integer(mask(set)))
        });
        Ok(Scalar::Case { arms: arms.collect(), otherwise: Some(Box::new(integer(0))), sql_type: SqlType::Integer })
    }
}

/// The columns that are read outside of aggregates and are in no group, but in a table whose primary key is in every
/// set of groups: in each group they have one value.
fn determined(groups: &Groups, level: &Level<'_>) -> Vec<Column> {
    let place = |id: &ColumnId| groups.scalars.iter().position(|group| group.as_column() == Some(*id));
    let is_in_all = |group: usize| groups.sets.as_ref().is_none_or(|sets| sets.iter().all(|set| set.contains(&group)));
    let references = level.references.borrow();
    let mut found = Vec::new();
    for source in level.names.sources.iter().filter(|source| !source.key.is_empty()) {
        if source.key.iter().all(|id| place(id).is_some_and(is_in_all)) {
            let read = |column: &&Column| references.contains_key(&column.id) && place(&column.id).is_none();
            found.extend(source.columns.iter().filter(read).cloned());
        }
    }
    found
}

impl Groups {
    /// Whether an expression of GROUP BY reads one of these columns.
    pub(super) fn reads(&self, columns: &HashSet<ColumnId>) -> bool {
        self.scalars.iter().any(|scalar| scalar.columns().iter().any(|id| columns.contains(id)))
    }

    fn add(&mut self, scalar: Scalar) -> usize {
        self.scalars.push(scalar);
        self.scalars.len() - 1
    }

    /// The group that an item of the list is, above the aggregates.
    pub(super) fn of_item(&self, index: usize) -> Option<Scalar> {
        self.of_items.get(&index).and_then(|group| self.columns.get(*group)).cloned()
    }
}

/// Replaces what is below the groups by what is above.
struct Above<'g, 's> {
    groups: &'g Groups,
    /// The groups with subqueries, as [`Relation::numbered_alike`] has them.
    alike: Vec<(usize, Scalar)>,
    inputs: &'g HashMap<ColumnId, &'g Column>,
    masks: &'g HashMap<ColumnId, Scalar>,
    level: &'g Level<'s>,
}

impl Above<'_, '_> {
    fn group_of(&self, scalar: &Scalar) -> Option<usize> {
        let same = self.groups.scalars.iter().position(|group| group == scalar);
        if same.is_some() || self.alike.is_empty() || !scalar.has_subquery() {
            return same;
        }
        let scalar = Relation::numbered_alike(scalar);
        self.alike.iter().find(|(_, group)| *group == scalar).map(|(index, _)| *index)
    }

    fn replace(&self, scalar: &mut Scalar) -> Result<()> {
        if let Some(index) = self.group_of(scalar) {
            *scalar = self.groups.columns[index].clone();
            return Ok(());
        }
        if let Scalar::Column { id, .. } = scalar {
            if let Some(mask) = self.masks.get(id) {
                *scalar = mask.clone();
            } else if let Some((_, above)) = self.groups.determined.iter().find(|(known, _)| known == id) {
                *scalar = above.clone();
            } else if let Some(column) = self.inputs.get(id) {
                return Err(self.ungrouped(column));
            }
            return Ok(());
        }
        stacker::maybe_grow(STACK_RED_ZONE, STACK_GROWTH, || {
            if let Scalar::Subquery(subquery) = scalar {
                self.replace_in(&mut subquery.relation)?;
            }
            scalar.children_mut().into_iter().try_for_each(|child| self.replace(child))
        })
    }

    fn replace_in(&self, relation: &mut Relation) -> Result<()> {
        relation.scalars_mut().into_iter().try_for_each(|scalar| self.replace(scalar))?;
        relation.inputs_mut().into_iter().try_for_each(|input| self.replace_in(input))
    }

    fn ungrouped(&self, column: &Column) -> Error {
        let references = self.level.references.borrow();
        let (place, name) = match references.get(&column.id) {
            Some((place, name)) => (*place, name.as_str()),
            None => (None, column.name.as_str()),
        };
        let message =
            format!("column \"{name}\" must appear in the GROUP BY clause or be used in an aggregate function");
        errors::at(Error::input(message).with_code("42803"), place)
    }
}

/// Whether GROUP BY is DISTINCT, which is spelled as a first part of it, and the other parts.
fn distinct_sets(expressions: &[Expr]) -> (bool, &[Expr]) {
    match expressions {
        [Expr::Function(function), rest @ ..] if bare_name(function) == "group by distinct" => (true, rest),
        _ => (false, expressions),
    }
}

/// ROLLUP: all parts, all but the last, …, none.
fn rollup(parts: &[Vec<usize>]) -> Vec<Vec<usize>> {
    (0..=parts.len()).rev().map(|length| parts[..length].concat()).collect()
}

/// CUBE: all subsets. Fails with 54011 if there are too many parts.
fn cube(parts: &[Vec<usize>]) -> Result<Vec<Vec<usize>>> {
    if parts.len() > CUBE_PARTS_MAX {
        return Err(Error::input(format!("CUBE is limited to {CUBE_PARTS_MAX} elements")).with_code("54011"));
    }
    let all = (0..1usize << parts.len()).rev();
    let subset = |bits: usize| {
        let is_in = |part: &usize| bits >> (parts.len() - 1 - part) & 1 == 1;
        (0..parts.len()).filter(is_in).flat_map(|part| parts[part].iter().copied()).collect()
    };
    Ok(all.map(subset).collect())
}

/// Every combination of the parts' sets; `None` if it is one set of all groups. Fails with 54001 if there are too many.
fn product(parts: Vec<Vec<Vec<usize>>>) -> Result<Option<Vec<Vec<usize>>>> {
    if parts.iter().all(|sets| sets.len() == 1) {
        return Ok(None);
    }
    let mut all = vec![vec![]];
    for sets in parts {
        if all.len() * sets.len() > GROUPING_SETS_MAX {
            let message = format!("too many grouping sets present (maximum {GROUPING_SETS_MAX})");
            return Err(Error::input(message).with_code("54001"));
        }
        let combined =
            all.iter().flat_map(|left: &Vec<usize>| sets.iter().map(|right| [left.as_slice(), right].concat()));
        all = combined.collect();
    }
    Ok(Some(all))
}
