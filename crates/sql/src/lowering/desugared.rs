//! Operators that the engine does not have, written with others.

use diligence_base::{Error, Result};
use diligence_engine::plan::WindowFunction;
use diligence_types::SqlType;
use diligence_types::functions::{Candidate, resolve_aggregate, resolve_scalar};

use super::Lowering;
use crate::algebra::{
    Aggregate, AggregateItem, Column, ColumnId, Comparison, Constant, Join, JoinKind, Limit, Relation, Scalar, SetKind,
    SetOperation, SortKey, Window, WindowFrame, WindowItem, WindowKind,
};

impl Lowering<'_> {
    /// The operator written with others, if the engine does not have it.
    pub(super) fn desugared(&self, relation: &Relation) -> Result<Option<Relation>> {
        Ok(match relation {
            Relation::Set(set) if set.kind != SetKind::Union || !set.is_all => Some(self.set(set)?),
            Relation::Distinct { input, on, keeps_all: true } => Some(self.distinct_on(input, on)),
            Relation::Limit(limit) if limit.ties.is_some() || !is_known(limit) => Some(self.numbered_limit(limit)?),
            Relation::Join(join) if join.kind == JoinKind::Single => Some(self.single(join)?),
            Relation::Join(join) if join.kind == JoinKind::Anti => self.anti_of_doubt(join),
            Relation::Filter { input, condition } => match &**input {
                Relation::Filter { input, condition: inner } => {
                    let both = Scalar::all([inner.clone(), condition.clone()]);
                    Some(Relation::Filter { input: input.clone(), condition: both })
                }
                _ => None,
            },
            _ => None,
        })
    }

    fn numbered(
        &self,
        input: Relation,
        partition: Vec<Scalar>,
        order: Vec<SortKey>,
        items: Vec<(Column, WindowFunction)>,
    ) -> Relation {
        let item = |(column, function): (Column, WindowFunction)| {
            let frame = WindowFrame::known(datafusion_expr::WindowFrame::new(None));
            let kind = WindowKind::Engine(function);
            (column, WindowItem { kind, arguments: vec![], filter: None, order: vec![], frame })
        };
        let items = items.into_iter().map(item).collect();
        Relation::Window(Window { input: Box::new(input), partition, order, items })
    }

    fn number(&self, name: &str) -> Column {
        self.numbers.named(name, SqlType::BigInt, false)
    }

    fn set(&self, set: &SetOperation) -> Result<Relation> {
        if set.kind == SetKind::Union {
            let union = SetOperation { is_all: true, ..set.clone() };
            let on = set.columns.iter().map(|column| column.id).collect();
            return Ok(Relation::Distinct { input: Box::new(Relation::Set(union)), on, keeps_all: false });
        }
        let mut inputs = set.inputs.iter();
        let Some((first, ids)) = inputs.next() else { return Err(Error::bug("a set operation without inputs")) };
        let mut current = first.clone();
        let left = columns_of(first, ids)?;
        let kind = if set.kind == SetKind::Intersect { JoinKind::Semi } else { JoinKind::Anti };
        for (right, ids) in inputs {
            let right_columns = columns_of(right, ids)?;
            let mut right = right.clone();
            let mut pairs = left
                .iter()
                .zip(&right_columns)
                .map(|(left, right)| Scalar::compare(Comparison::IsNotDistinctFrom, left.scalar(), right.scalar()));
            let mut on = pairs.by_ref().collect::<Vec<_>>();
            if set.is_all {
                // Of equal rows the first of one side is the partner of the first of the other.
                let scalars = |columns: &[Column]| columns.iter().map(Column::scalar).collect::<Vec<_>>();
                let (a, b) = (self.number("row_number"), self.number("row_number"));
                on.push(Scalar::equal(a.scalar(), b.scalar()));
                let number = |column| vec![(column, WindowFunction::RowNumber)];
                current = self.numbered(current, scalars(&left), vec![], number(a));
                right = self.numbered(right, scalars(&right_columns), vec![], number(b));
            }
            let (l, r) = (Box::new(current), Box::new(right));
            current = Relation::Join(Join { kind: kind.clone(), left: l, right: r, on: Scalar::all(on) });
        }
        let mapped = set.columns.iter().cloned().zip(left.iter().map(Column::scalar)).collect();
        let mapped = current.mapped(mapped);
        if set.is_all {
            return Ok(mapped);
        }
        let on = set.columns.iter().map(|column| column.id).collect();
        Ok(Relation::Distinct { input: Box::new(mapped), on, keeps_all: false })
    }

    /// The first row of each group, in the input's order.
    fn distinct_on(&self, input: &Relation, on: &[ColumnId]) -> Relation {
        let order = crate::unnesting::order_of(input);
        let columns = input.columns();
        let partition = columns.iter().filter(|column| on.contains(&column.id)).map(Column::scalar).collect();
        let number = self.number("row_number");
        let first = Scalar::equal(number.scalar(), Scalar::Constant(Constant::bigint(1)));
        let numbered =
            self.numbered(input.clone(), partition, order.clone(), vec![(number, WindowFunction::RowNumber)]);
        let filtered = numbered.filtered(first);
        match order.is_empty() {
            true => filtered,
            false => Relation::Sort { input: Box::new(filtered), keys: order },
        }
    }

    /// A limit WITH TIES, or of a number that is computed: rows are numbered.
    fn numbered_limit(&self, limit: &Limit) -> Result<Relation> {
        let mut has_parameter = false;
        for count in [&limit.fetch, &limit.skip].into_iter().flatten() {
            count.visit(&mut |scalar| has_parameter |= matches!(scalar, Scalar::Parameter { .. }));
        }
        if has_parameter {
            // With its value it is a limit that is known, and costs far less.
            return Err(Error::input("there is no value for the number of rows").with_code("08P01"));
        }
        let order = match &limit.ties {
            Some(keys) => keys.clone(),
            None => crate::unnesting::order_of(&limit.input),
        };
        let (number, rank) = (self.number("row_number"), self.number("rank"));
        let last = if limit.ties.is_some() { rank.scalar() } else { number.scalar() };
        let items = vec![(number.clone(), WindowFunction::RowNumber), (rank, WindowFunction::Rank)];
        let numbered = self.numbered((*limit.input).clone(), vec![], order.clone(), items);
        let zero = || Scalar::Constant(Constant::bigint(0));
        let known = |scalar: &Scalar| match scalar.nullable() {
            true => Scalar::Coalesce(vec![scalar.clone(), zero()]),
            false => scalar.clone(),
        };
        let skip = limit.skip.as_ref().map(known);
        let mut conditions = Vec::new();
        if let Some(skip) = &skip {
            conditions.push(Scalar::compare(Comparison::Greater, number.scalar(), skip.clone()));
        }
        if let Some(fetch) = &limit.fetch {
            let most = match skip {
                Some(skip) => {
                    let bigint = Candidate { sql_type: SqlType::BigInt, literal: None };
                    let call = resolve_scalar("+", &[bigint.clone(), bigint])?;
                    Scalar::Call { call, arguments: vec![skip, fetch.clone()] }
                }
                None => fetch.clone(),
            };
            let within = Scalar::compare(Comparison::LessOrEqual, last, most);
            conditions.push(match fetch.nullable() {
                true => Scalar::any([Scalar::IsNull(Box::new(fetch.clone())), within]),
                false => within,
            });
        }
        let filtered = numbered.filtered(Scalar::all(conditions));
        Ok(match order.is_empty() {
            true => filtered,
            false => Relation::Sort { input: Box::new(filtered), keys: order },
        })
    }

    /// A join with at most one partner: a left join, behind an aggregate that refuses a second one unless there can be
    /// none.
    fn single(&self, join: &Join) -> Result<Relation> {
        let rights = join.right.column_ids();
        let lefts = join.left.column_ids();
        let mut keys = Vec::new();
        let mut is_keyed = true;
        for term in join.on.clone().conjuncts() {
            let Scalar::Compare { comparison, left, right } = term else {
                is_keyed = false;
                continue;
            };
            let equal = matches!(comparison, Comparison::Equal | Comparison::IsNotDistinctFrom);
            let of = |scalar: &Scalar, ids: &std::collections::BTreeSet<ColumnId>| {
                let columns = scalar.columns();
                !columns.is_empty() && columns.is_subset(ids)
            };
            if equal && of(&left, &lefts) && of(&right, &rights) {
                keys.push((comparison, *left, *right));
            } else if equal && of(&right, &lefts) && of(&left, &rights) {
                keys.push((comparison, *right, *left));
            } else {
                is_keyed = false;
            }
        }
        if is_keyed && is_unique(&join.right, &keys) {
            return Ok(Relation::Join(Join { kind: JoinKind::Left, ..join.clone() }));
        }
        if is_keyed && !keys.is_empty() {
            // One row for each key.
            let groups = keys.iter().map(|(_, _, inner)| {
                let column = self.numbers.named("key", inner.sql_type(), inner.nullable());
                (column, inner.clone())
            });
            let groups = groups.collect::<Vec<_>>();
            let on = keys.iter().zip(&groups).map(|((comparison, outer, _), (column, _))| {
                Scalar::compare(*comparison, outer.clone(), column.scalar())
            });
            let on = Scalar::all(on.collect::<Vec<_>>());
            let aggregates = join.right.columns().into_iter().map(|column| self.only(column));
            let aggregates = aggregates.collect::<Result<Vec<_>>>()?;
            // What the aggregate gives has other numbers than what it reads.
            let shown =
                aggregates.iter().map(|(old, column, _)| (Column { nullable: true, ..old.clone() }, column.scalar()));
            let shown = shown.collect::<Vec<_>>();
            let aggregates = aggregates.into_iter().map(|(_, column, item)| (column, item)).collect();
            let right = Relation::Aggregate(Aggregate { input: join.right.clone(), groups, sets: None, aggregates });
            let joined = Join { kind: JoinKind::Left, left: join.left.clone(), right: Box::new(right), on };
            return Ok(Relation::Join(joined).mapped(shown));
        }
        // Each left row gets a number, by which its partners are counted.
        let number = self.number("row_number");
        let numbered =
            self.numbered((*join.left).clone(), vec![], vec![], vec![(number.clone(), WindowFunction::RowNumber)]);
        let joined =
            Join { kind: JoinKind::Left, left: Box::new(numbered), right: join.right.clone(), on: join.on.clone() };
        let all = [join.left.columns(), join.right.columns()].concat();
        let aggregates = all.into_iter().map(|column| self.only(column)).collect::<Result<Vec<_>>>()?;
        let shown = aggregates.iter().map(|(old, column, _)| {
            (Column { nullable: old.nullable || rights.contains(&old.id), ..old.clone() }, column.scalar())
        });
        let shown = shown.collect::<Vec<_>>();
        let aggregates = aggregates.into_iter().map(|(_, column, item)| (column, item)).collect();
        let key = self.numbers.named("key", SqlType::BigInt, false);
        let groups = vec![(key, number.scalar())];
        let input = Box::new(Relation::Join(joined));
        Ok(Relation::Aggregate(Aggregate { input, groups, sets: None, aggregates }).mapped(shown))
    }

    /// The value of a column in the only row of its group: the column, that of the aggregate, and the aggregate.
    fn only(&self, column: Column) -> Result<(Column, Column, AggregateItem)> {
        let candidate = Candidate { sql_type: column.sql_type.clone(), literal: None };
        let call = resolve_aggregate("single_value", &[candidate])?;
        let new = Column { id: self.numbers.column(), nullable: true, ..column.clone() };
        let arguments = vec![column.scalar()];
        Ok((
            column,
            new,
            AggregateItem { call, arguments, is_distinct: false, filter: None, order: vec![], made: None },
        ))
    }
}

fn columns_of(relation: &Relation, ids: &[ColumnId]) -> Result<Vec<Column>> {
    let columns = relation.columns();
    let found = ids.iter().map(|id| columns.iter().find(|column| column.id == *id).cloned());
    found.collect::<Option<_>>().ok_or_else(|| Error::bug("a set operation compares a column that is not there"))
}

/// Whether both numbers of a limit are known now.
fn is_known(limit: &Limit) -> bool {
    let known = |scalar: &Option<Scalar>| scalar.as_ref().is_none_or(|scalar| scalar.as_constant().is_some());
    known(&limit.skip) && known(&limit.fetch)
}

fn is_one_at_most(limit: &Limit) -> bool {
    let one = |fetch: &Constant| [0, 1].iter().any(|rows| *fetch == Constant::bigint(*rows));
    limit.ties.is_none() && limit.fetch.as_ref().and_then(Scalar::as_constant).is_some_and(one)
}

/// Whether no two rows of a relation are equal in all keys.
fn is_unique(relation: &Relation, keys: &[(Comparison, Scalar, Scalar)]) -> bool {
    let columns = keys.iter().filter_map(|(_, _, inner)| inner.as_column()).collect::<Vec<_>>();
    is_unique_in(relation, &columns)
}

fn is_unique_in(relation: &Relation, columns: &[ColumnId]) -> bool {
    match relation {
        Relation::Aggregate(aggregate) => {
            aggregate.sets.is_none() && aggregate.groups.iter().all(|(column, _)| columns.contains(&column.id))
        }
        Relation::Distinct { on, .. } => on.iter().all(|id| columns.contains(id)),
        Relation::Filter { input, .. } | Relation::Sort { input, .. } => is_unique_in(input, columns),
        Relation::Map { input, columns: computed } => {
            let below = columns.iter().map(|id| match computed.iter().find(|(column, _)| column.id == *id) {
                Some((_, scalar)) => scalar.as_column(),
                None => Some(*id),
            });
            is_unique_in(input, &below.flatten().collect::<Vec<_>>())
        }
        Relation::Join(join) => match join.kind {
            JoinKind::Semi | JoinKind::Anti | JoinKind::Mark(_) | JoinKind::Single => is_unique_in(&join.left, columns),
            JoinKind::Left => is_left_join_unique(join, columns),
            _ => false,
        },
        Relation::Limit(limit) => is_one_at_most(limit) || is_unique_in(&limit.input, columns),
        Relation::Values { rows, .. } => rows.len() <= 1,
        _ => false,
    }
}

/// A left join keeps its left side's rows apart if each has one partner at most.
fn is_left_join_unique(join: &Join, columns: &[ColumnId]) -> bool {
    is_unique_in(&join.left, columns) && has_one_partner(join)
}

/// Whether each row of the left side has one partner at most, as far as the relations say.
pub(super) fn has_one_partner(join: &Join) -> bool {
    let rights = join.right.column_ids();
    let keys = join.on.clone().conjuncts().into_iter().filter_map(|term| match term {
        Scalar::Compare { comparison: Comparison::Equal | Comparison::IsNotDistinctFrom, left, right } => {
            let lone = |scalar: &Scalar, other: &Scalar| {
                scalar.as_column().filter(|id| rights.contains(id) && other.columns().is_disjoint(&rights))
            };
            lone(&left, &right).or_else(|| lone(&right, &left))
        }
        _ => None,
    });
    is_unique_in(&join.right, &keys.collect::<Vec<_>>())
}
