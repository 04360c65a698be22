//! A right side computed for all values of the columns that it reads, at once.
//!
//! The *domain* of a dependent join is the set of distinct values of the left's columns that its right side reads. The
//! right side is joined with the domain as far down as possible; from there up each operator treats the domain's
//! columns as what tells one left row's rows from another's: groups and DISTINCT get them as further keys, windows and
//! limits as a partition, set operations as further columns (Neumann and Kemper, section 3).
//!
//! Where a filter compares all of the domain's columns with expressions over its own rows, these stand in for the
//! domain, which is then not read at all (section 4).

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};

use diligence_base::{Error, Result};
use diligence_types::SqlType;

use super::numbered;
use crate::algebra::{
    Column, ColumnId, Comparison, Constant, FunctionItem, Join, JoinKind, Limit, Numbers, Recursive, Relation, Scalar,
    SetKind, SetOperation, SortKey, TableFunction, WithId,
};

/// The columns that stand for the domain's in a relation, by the left's columns.
pub(super) type Standing = HashMap<ColumnId, Column>;

/// The values of the left's columns.
pub(super) struct Domain {
    /// The left side's rows, to be copied.
    source: Relation,
    /// The left's columns that the right side reads, and the source's.
    columns: Vec<(Column, Column)>,
    /// Common table expressions and recursive queries whose rows have the domain's columns behind their own: how many
    /// their own are.
    carrying: RefCell<HashMap<WithId, usize>>,
}

impl Domain {
    /// The domain of columns of the left, each with the source's column that has its values.
    pub(super) fn new(source: Relation, columns: Vec<(Column, Column)>) -> Self {
        Self { source, columns, carrying: RefCell::default() }
    }

    /// The relation joined with the domain, and where the domain's columns are in it. Fails with kind `Unsupported`
    /// where no rule fits.
    pub(super) fn pushed(&self, relation: Relation, numbers: &Numbers) -> Result<(Relation, Standing)> {
        stacker::maybe_grow(super::STACK_RED_ZONE, super::STACK_GROWTH, || self.push(relation, numbers))
    }

    fn outer(&self) -> BTreeSet<ColumnId> {
        self.columns.iter().map(|(outer, _)| outer.id).collect()
    }

    fn depends(&self, relation: &Relation) -> bool {
        let outer = self.outer();
        relation.free_columns().iter().any(|id| outer.contains(id)) || self.carries(relation)
    }

    /// Whether rows with the domain's columns are read in a relation.
    fn carries(&self, relation: &Relation) -> bool {
        match relation {
            Relation::With(table) => self.carrying.borrow().contains_key(&table.id),
            other => other.inputs().into_iter().any(|input| self.carries(input)),
        }
    }

    /// The domain itself, under new numbers.
    fn instance(&self, numbers: &Numbers) -> (Relation, Standing) {
        let (copy, renamed) = self.source.with_new_ids(numbers);
        let standing: Standing = self
            .columns
            .iter()
            .map(|(outer, inner)| {
                let id = renamed.get(&inner.id).copied().unwrap_or(inner.id);
                (outer.id, Column { id, ..inner.clone() })
            })
            .collect();
        let on = self.columns.iter().filter_map(|(outer, _)| Some(standing.get(&outer.id)?.id)).collect();
        (Relation::Distinct { input: Box::new(copy), on, keeps_all: false }, standing)
    }

    /// The domain's columns of a relation, in one order.
    fn in_order(&self, standing: &Standing) -> Result<Vec<Column>> {
        let columns = self.columns.iter().map(|(outer, _)| standing.get(&outer.id).cloned());
        columns.collect::<Option<_>>().ok_or_else(|| Error::bug("a relation lost a column of its domain"))
    }

    fn standing_of(&self, columns: &[Column]) -> Standing {
        self.columns.iter().zip(columns).map(|((outer, _), column)| (outer.id, column.clone())).collect()
    }

    /// New columns for the domain's in an operator that makes its own.
    fn fresh(&self, numbers: &Numbers) -> Vec<Column> {
        self.columns.iter().map(|(outer, _)| Column { id: numbers.column(), ..outer.clone() }).collect()
    }

    /// `a` and `b` are rows of one value of the domain.
    fn same(&self, left: &Standing, right: &Standing) -> Result<Scalar> {
        let (left, right) = (self.in_order(left)?, self.in_order(right)?);
        let pairs = left.iter().zip(&right).map(|(left, right)| {
            let comparison = match left.nullable || right.nullable {
                true => Comparison::IsNotDistinctFrom,
                false => Comparison::Equal,
            };
            Scalar::compare(comparison, left.scalar(), right.scalar())
        });
        Ok(Scalar::all(pairs))
    }

    fn push(&self, relation: Relation, numbers: &Numbers) -> Result<(Relation, Standing)> {
        if !self.depends(&relation) {
            let (domain, standing) = self.instance(numbers);
            if is_one_row(&relation) {
                return Ok((domain, standing));
            }
            let join = Join {
                kind: JoinKind::Inner,
                left: Box::new(domain),
                right: Box::new(relation),
                on: Scalar::boolean(true),
            };
            return Ok((Relation::Join(join), standing));
        }
        match relation {
            Relation::Filter { input, condition } => self.filter(*input, condition, numbers),
            Relation::Map { input, columns } => {
                let (input, standing) = self.pushed(*input, numbers)?;
                let columns = columns.into_iter().map(|(column, scalar)| (column, replaced(scalar, &standing)));
                Ok((input.mapped(columns.collect()), standing))
            }
            Relation::Join(join) => self.join(join, numbers),
            Relation::Sort { input, keys } => {
                let (input, standing) = self.pushed(*input, numbers)?;
                let keys = replaced_keys(keys, &standing);
                Ok((Relation::Sort { input: Box::new(input), keys }, standing))
            }
            Relation::Distinct { input, mut on, keeps_all } => {
                let (input, standing) = self.pushed(*input, numbers)?;
                on.extend(self.in_order(&standing)?.iter().map(|column| column.id));
                Ok((Relation::Distinct { input: Box::new(input), on, keeps_all }, standing))
            }
            Relation::Limit(limit) => self.limit(limit, numbers),
            Relation::Window(mut window) => {
                let (input, standing) = self.pushed(*window.input, numbers)?;
                window.input = Box::new(input);
                window.partition = window.partition.into_iter().map(|key| replaced(key, &standing)).collect();
                window.partition.extend(self.in_order(&standing)?.iter().map(Column::scalar));
                window.order = replaced_keys(window.order, &standing);
                for (_, item) in &mut window.items {
                    let arguments = std::mem::take(&mut item.arguments);
                    item.arguments = arguments.into_iter().map(|argument| replaced(argument, &standing)).collect();
                    item.filter = item.filter.take().map(|filter| replaced(filter, &standing));
                }
                Ok((Relation::Window(window), standing))
            }
            Relation::Aggregate(aggregate) => self.aggregate(aggregate, numbers),
            Relation::Set(set) => self.set(set, numbers),
            Relation::Values { columns, rows } => self.values(columns, rows, numbers),
            Relation::TableFunction(function) => {
                let (input, standing) = self.pushed(*function.input, numbers)?;
                let items = function
                    .items
                    .into_iter()
                    .map(|item| FunctionItem { array: replaced(item.array, &standing), columns: item.columns });
                let function = TableFunction { input: Box::new(input), items: items.collect(), ..function };
                Ok((Relation::TableFunction(function), standing))
            }
            Relation::Recursive(recursive) => self.recursive(recursive, numbers),
            Relation::With(mut table) => {
                let columns = self.fresh(numbers);
                table.columns.extend(columns.iter().cloned());
                Ok((Relation::With(table), self.standing_of(&columns)))
            }
            Relation::Definitions { definitions, input } => {
                let mut pushed = Vec::with_capacity(definitions.len());
                for (id, relation, mut columns) in definitions {
                    if self.depends(&relation) {
                        let (relation, standing) = self.pushed(relation, numbers)?;
                        self.carrying.borrow_mut().insert(id, columns.len());
                        columns.extend(self.in_order(&standing)?);
                        pushed.push((id, relation, columns));
                    } else {
                        pushed.push((id, relation, columns));
                    }
                }
                let (input, standing) = self.pushed(*input, numbers)?;
                Ok((Relation::Definitions { definitions: pushed, input: Box::new(input) }, standing))
            }
            Relation::Scan(_) | Relation::Apply(_) => Err(Error::bug("a dependent scan or join was not unnested")),
        }
    }

    fn filter(&self, input: Relation, condition: Scalar, numbers: &Numbers) -> Result<(Relation, Standing)> {
        if !self.depends(&input)
            && let Some((standing, rest)) = self.stand_ins(&input, &condition, numbers)
        {
            let (columns, keys): (Vec<_>, Vec<_>) = standing.into_iter().unzip();
            let known = keys.iter().filter(|key| key.nullable()).cloned();
            let known = known.map(|key| Scalar::IsNull(Box::new(key)).negate());
            let standing = self.standing_of(&columns);
            let mapped = input.filtered(Scalar::all(known)).mapped(columns.into_iter().zip(keys).collect());
            return Ok((mapped.filtered(replaced(rest, &standing)), standing));
        }
        let (input, standing) = self.pushed(input, numbers)?;
        Ok((input.filtered(replaced(condition, &standing)), standing))
    }

    /// Expressions over the input that a condition says to be equal to the domain's columns, if it does so of all,
    /// under new columns; and the rest of the condition.
    fn stand_ins(
        &self,
        input: &Relation,
        condition: &Scalar,
        numbers: &Numbers,
    ) -> Option<(Vec<(Column, Scalar)>, Scalar)> {
        let own = input.column_ids();
        let of_input = |scalar: &Scalar| {
            let columns = scalar.columns();
            !columns.is_empty() && columns.iter().all(|id| own.contains(id)) && !scalar.is_volatile()
        };
        let mut found: HashMap<ColumnId, Scalar> = HashMap::new();
        let mut rest = Vec::new();
        for term in condition.clone().conjuncts() {
            let pair = match &term {
                Scalar::Compare { comparison: Comparison::Equal, left, right } => match (&**left, &**right) {
                    (Scalar::Column { id, .. }, inner) if of_input(inner) => Some((*id, inner.clone())),
                    (inner, Scalar::Column { id, .. }) if of_input(inner) => Some((*id, inner.clone())),
                    _ => None,
                },
                _ => None,
            };
            match pair {
                Some((id, inner))
                    if self.columns.iter().any(|(outer, _)| outer.id == id) && !found.contains_key(&id) =>
                {
                    found.insert(id, inner);
                }
                _ => rest.push(term),
            }
        }
        let stand_in = |(outer, _): &(Column, Column)| {
            let scalar = found.get(&outer.id)?.clone();
            Some((Column { id: numbers.column(), nullable: false, ..outer.clone() }, scalar))
        };
        let columns = self.columns.iter().map(stand_in).collect::<Option<Vec<_>>>()?;
        Some((columns, Scalar::all(rest)))
    }

    fn join(&self, join: Join, numbers: &Numbers) -> Result<(Relation, Standing)> {
        let Join { kind, left, right, on } = join;
        let (of_left, of_right) = (self.depends(&left), self.depends(&right));
        if kind == JoinKind::Inner && !(of_left && of_right) {
            // The side that does not depend on it stays as it is.
            let (left, right, standing) = if of_left || !of_right {
                let (left, standing) = self.pushed(*left, numbers)?;
                (left, *right, standing)
            } else {
                let (right, standing) = self.pushed(*right, numbers)?;
                (*left, right, standing)
            };
            let on = replaced(on, &standing);
            return Ok((Relation::Join(Join { kind, left: Box::new(left), right: Box::new(right), on }), standing));
        }
        let (left, standing) = self.pushed(*left, numbers)?;
        let mut on = replaced(on, &standing);
        let needs_right = of_right || kind == JoinKind::Full;
        if !needs_right {
            return Ok((Relation::Join(Join { kind, left: Box::new(left), right, on }), standing));
        }
        let (right, other) = self.pushed(*right, numbers)?;
        on = Scalar::all([self.same(&standing, &other)?, on]);
        let is_full = kind == JoinKind::Full;
        let joined = Relation::Join(Join { kind, left: Box::new(left), right: Box::new(right), on });
        if !is_full {
            return Ok((joined, standing));
        }
        // Rows of either side alone know the domain from their side only.
        let columns = self.fresh(numbers);
        let (lefts, rights) = (self.in_order(&standing)?, self.in_order(&other)?);
        let sides = lefts.iter().zip(&rights);
        let either = sides.map(|(left, right)| {
            let padded = |column: &Column| Column { nullable: true, ..column.clone() }.scalar();
            Scalar::Coalesce(vec![padded(left), padded(right)])
        });
        let standing = self.standing_of(&columns);
        Ok((joined.mapped(columns.into_iter().zip(either).collect()), standing))
    }

    /// The first rows of each value of the domain: rows are numbered.
    fn limit(&self, limit: Limit, numbers: &Numbers) -> Result<(Relation, Standing)> {
        let order = match (&limit.ties, &*limit.input) {
            (Some(keys), _) => keys.clone(),
            (None, input) => super::order_of(input),
        };
        let with_ties = limit.ties.is_some();
        let (input, standing) = self.pushed(*limit.input, numbers)?;
        let order = replaced_keys(order, &standing);
        let partition = self.in_order(&standing)?.iter().map(Column::scalar).collect();
        let number = numbers.named("row_number", SqlType::BigInt, false);
        let place = number.scalar();
        let skip = limit.skip.map(|skip| replaced(skip, &standing));
        let fetch = limit.fetch.map(|fetch| replaced(fetch, &standing));
        if with_ties && skip.is_some() {
            let error =
                Error::unsupported("OFFSET with FETCH FIRST … WITH TIES in a subquery that depends on outer rows");
            return Err(error.with_hint("number the rows with row_number() and choose by the number"));
        }
        let numbered = numbered(input, partition, order, number, with_ties);
        let mut conditions = Vec::new();
        if let Some(skip) = &skip {
            conditions.push(Scalar::compare(Comparison::Greater, place.clone(), or_zero(skip.clone())));
        }
        if let Some(fetch) = fetch {
            let last = match &skip {
                Some(skip) => sum(or_zero(skip.clone()), fetch.clone())?,
                None => fetch.clone(),
            };
            let within = Scalar::compare(Comparison::LessOrEqual, place, last);
            conditions.push(match fetch.nullable() {
                true => Scalar::any([Scalar::IsNull(Box::new(fetch)), within]),
                false => within,
            });
        }
        Ok((numbered.filtered(Scalar::all(conditions)), standing))
    }

    fn aggregate(&self, mut aggregate: crate::algebra::Aggregate, numbers: &Numbers) -> Result<(Relation, Standing)> {
        let (input, standing) = self.pushed(*aggregate.input, numbers)?;
        aggregate.input = Box::new(input);
        for (_, scalar) in &mut aggregate.groups {
            let taken = std::mem::replace(scalar, Scalar::boolean(false));
            *scalar = replaced(taken, &standing);
        }
        for (_, item) in &mut aggregate.aggregates {
            let arguments = std::mem::take(&mut item.arguments);
            item.arguments = arguments.into_iter().map(|argument| replaced(argument, &standing)).collect();
            item.filter = item.filter.take().map(|filter| replaced(filter, &standing));
            item.order = replaced_keys(std::mem::take(&mut item.order), &standing);
        }
        let was_single = aggregate.groups.is_empty() && aggregate.sets.is_none();
        // The set without groups, which has a row also where there are no rows.
        let empty_set = aggregate.sets.as_ref().and_then(|sets| {
            let is_empty = |(_, set): &(usize, &Vec<bool>)| !set.iter().any(|is_in| *is_in);
            let mut empty = sets.sets.iter().enumerate().filter(is_empty).map(|(place, _)| place as i64);
            empty.next().filter(|_| empty.next().is_none())
        });
        let keys = self.fresh(numbers);
        let domain = self.in_order(&standing)?;
        aggregate.groups.extend(keys.iter().cloned().zip(domain.iter().map(Column::scalar)));
        if let Some(sets) = &mut aggregate.sets {
            sets.sets.iter_mut().for_each(|set| set.resize(aggregate.groups.len(), true));
        }
        let standing = self.standing_of(&keys);
        if !was_single && empty_set.is_none() {
            return Ok((Relation::Aggregate(aggregate), standing));
        }
        // Each value of the domain has one row, also where there are no rows to aggregate.
        let (all, of_all) = self.instance(numbers);
        let mut counts = Vec::new();
        for (column, item) in &mut aggregate.aggregates {
            if let Some(nothing) = item.of_no_rows() {
                let raw = Column { id: numbers.column(), nullable: true, ..column.clone() };
                let counted = Scalar::Coalesce(vec![raw.scalar(), nothing]).cast(column.sql_type.clone(), false);
                counts.push((std::mem::replace(column, raw), counted));
            }
        }
        if let (Some(place), Some(sets)) = (empty_set, &mut aggregate.sets) {
            let raw = Column { id: numbers.column(), nullable: true, ..sets.set_index.clone() };
            let index = Scalar::Coalesce(vec![raw.scalar(), Scalar::Constant(Constant::bigint(place))]);
            counts.push((std::mem::replace(&mut sets.set_index, raw), index));
        }
        let on = self.same(&of_all, &standing)?;
        let join =
            Join { kind: JoinKind::Left, left: Box::new(all), right: Box::new(Relation::Aggregate(aggregate)), on };
        Ok((Relation::Join(join).mapped(counts), of_all))
    }

    fn set(&self, set: SetOperation, numbers: &Numbers) -> Result<(Relation, Standing)> {
        let SetOperation { kind, is_all, inputs, mut columns } = set;
        let mut pushed = Vec::with_capacity(inputs.len());
        for (input, mut ids) in inputs {
            let (input, standing) = self.pushed(input, numbers)?;
            ids.extend(self.in_order(&standing)?.iter().map(|column| column.id));
            pushed.push((input, ids));
        }
        let own = self.fresh(numbers);
        columns.extend(own.iter().cloned());
        let set = SetOperation { kind, is_all, inputs: pushed, columns };
        Ok((Relation::Set(set), self.standing_of(&own)))
    }

    fn values(&self, columns: Vec<Column>, rows: Vec<Vec<Scalar>>, numbers: &Numbers) -> Result<(Relation, Standing)> {
        let is_one = rows.len() == 1;
        let mut inputs = Vec::with_capacity(rows.len());
        for row in rows {
            let (domain, standing) = self.instance(numbers);
            let fresh = |column: &Column| match is_one {
                true => column.clone(),
                false => Column { id: numbers.column(), ..column.clone() },
            };
            let mapped = columns.iter().map(fresh).zip(row.into_iter().map(|scalar| replaced(scalar, &standing)));
            let mapped = mapped.collect::<Vec<_>>();
            let mut ids = mapped.iter().map(|(column, _)| column.id).collect::<Vec<_>>();
            ids.extend(self.in_order(&standing)?.iter().map(|column| column.id));
            let relation = domain.mapped(mapped);
            if is_one {
                return Ok((relation, standing));
            }
            inputs.push((relation, ids));
        }
        let own = self.fresh(numbers);
        let columns = columns.into_iter().chain(own.iter().cloned()).collect();
        let set = SetOperation { kind: SetKind::Union, is_all: true, inputs, columns };
        Ok((Relation::Set(set), self.standing_of(&own)))
    }

    fn recursive(&self, recursive: Recursive, numbers: &Numbers) -> Result<(Relation, Standing)> {
        let Recursive { id, name, base, step, is_distinct, mut columns } = recursive;
        let (base_relation, standing) = self.pushed(*base.0, numbers)?;
        let mut base_columns = base.1;
        base_columns.extend(self.in_order(&standing)?.iter().map(|column| column.id));
        self.carrying.borrow_mut().insert(id, columns.len());
        let (step_relation, standing) = self.pushed(*step.0, numbers)?;
        let mut step_columns = step.1;
        step_columns.extend(self.in_order(&standing)?.iter().map(|column| column.id));
        let own = self.fresh(numbers);
        columns.extend(own.iter().cloned());
        let recursive = Recursive {
            id,
            name,
            base: (Box::new(base_relation), base_columns),
            step: (Box::new(step_relation), step_columns),
            is_distinct,
            columns,
        };
        Ok((Relation::Recursive(recursive), self.standing_of(&own)))
    }
}

fn is_one_row(relation: &Relation) -> bool {
    matches!(relation, Relation::Values { columns, rows } if columns.is_empty() && rows.len() == 1)
}

fn replaced(scalar: Scalar, standing: &Standing) -> Scalar {
    scalar.substituted(&|id| standing.get(&id).map(Column::scalar))
}

fn replaced_keys(keys: Vec<SortKey>, standing: &Standing) -> Vec<SortKey> {
    keys.into_iter().map(|key| SortKey { scalar: replaced(key.scalar, standing), ..key }).collect()
}

fn or_zero(number: Scalar) -> Scalar {
    match number.nullable() {
        true => Scalar::Coalesce(vec![number, Scalar::Constant(Constant::bigint(0))]),
        false => number,
    }
}

/// The sum of two `bigint`s.
fn sum(left: Scalar, right: Scalar) -> Result<Scalar> {
    use diligence_types::functions::{Candidate, resolve_scalar};
    let bigint = Candidate { sql_type: SqlType::BigInt, literal: None };
    let call = resolve_scalar("+", &[bigint.clone(), bigint])?;
    Ok(Scalar::Call { call, arguments: vec![left, right] })
}
