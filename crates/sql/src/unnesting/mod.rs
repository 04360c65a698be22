//! Subqueries turned into joins.
//!
//! A subquery inside of an expression becomes a join between the expression's input and the subquery's rows: EXISTS and
//! IN a semi, anti or mark join, a scalar subquery a join with at most one partner. Where the subquery reads columns of
//! the input, the join is *dependent*: its right side would have to be computed for each row of the left. Dependent
//! joins are then pushed down until nothing on their right side depends on the left any more (Neumann and Kemper,
//! "Unnesting Arbitrary Queries", BTW 2015):
//!
//! 1. Conditions that read columns of the left are pulled up into the join's condition where nothing is in their way
//!    (`pulled`); that is all that EXISTS, IN and most LATERAL joins need.
//! 2. An aggregate without groups over rows that are chosen by equalities becomes an aggregate grouped by the compared
//!    expressions, joined from the left (`aggregates`).
//! 3. Anything else is computed for all distinct values of the columns that it reads, its *domain*, at once
//!    (`domain`): groups, windows, limits and set operations get the domain's columns as further keys.
//!
//! What CASE and its kin ask for in some rows only must not fail in others (`guards`).
//!
//! A scalar subquery that depends on nothing stays an expression: it is computed once, before the rest.
//!
//! Invariant: the result has no free column that the relation given did not have, and no [`Relation::Apply`].

mod aggregates;
mod differences;
mod domain;
mod guards;
mod pulled;

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};

use diligence_base::{Error, Result, wanted};
use diligence_types::SqlType;
use diligence_types::functions::{Candidate, resolve_aggregate};

use crate::algebra::{
    Aggregate, AggregateItem, Column, ColumnId, Comparison, Constant, Join, JoinKind, Limit, Numbers, Quantifier,
    Relation, Scalar, SortKey, Subquery, SubqueryKind, Window, WindowItem, WindowKind, WithId, WithTable,
};

use self::aggregates::Grouped;
pub(crate) use self::differences::may_differ;
use self::domain::Domain;

/// Bytes of stack that must be left before going one operator deeper, and how much is added if there is less.
const STACK_RED_ZONE: usize = 128 * 1024;
const STACK_GROWTH: usize = 2 * 1024 * 1024;

/// An equal relation without dependent joins, whose expressions have only subqueries that give one value and depend on
/// nothing. Fails with kind `Unsupported` for what no rule fits.
pub(crate) fn unnest(relation: Relation, numbers: &Numbers) -> Result<Relation> {
    Unnesting { numbers, values: RefCell::default(), once: RefCell::default() }.relation(relation)
}

struct Unnesting<'a> {
    numbers: &'a Numbers,
    /// The values of subqueries that were joined so far, by their texts. Binding may have put one into several places,
    /// as `x` of `x BETWEEN a AND b`; its columns must not come into the same rows twice.
    values: RefCell<HashMap<String, Scalar>>,
    /// The common table expressions that are computed once, and with the rest of the query, so that no subquery that is
    /// computed before the rest can read them: those that would be others if they were computed again, and what reads
    /// them.
    once: RefCell<BTreeSet<WithId>>,
}

impl Unnesting<'_> {
    fn relation(&self, relation: Relation) -> Result<Relation> {
        wanted::check()?;
        stacker::maybe_grow(STACK_RED_ZONE, STACK_GROWTH, || self.operator(relation))
    }

    fn operator(&self, relation: Relation) -> Result<Relation> {
        match relation {
            Relation::Filter { input, condition } => {
                let input = self.relation(*input)?;
                self.filter(input, condition)
            }
            Relation::Apply(apply) => {
                let left = self.relation(*apply.left)?;
                let mut right = *apply.right;
                let mut on = apply.on;
                if on.has_subquery() {
                    right = right.filtered(std::mem::replace(&mut on, Scalar::boolean(true)));
                }
                let right = self.relation(right)?;
                self.dependent(apply.kind, left, right, on)
            }
            Relation::Definitions { definitions, input } => {
                let unnested = definitions.into_iter().map(|(id, definition, columns)| {
                    let definition = self.relation(definition)?;
                    if self.is_materialized(id, &definition) || reads_any(&definition, &self.once.borrow()) {
                        self.once.borrow_mut().insert(id);
                    }
                    Ok((id, definition, columns))
                });
                let definitions = unnested.collect::<Result<Vec<_>>>()?;
                Ok(Relation::Definitions { definitions, input: Box::new(self.relation(*input)?) })
            }
            Relation::Join(join) if join.on.has_subquery() => self.join_with_subquery(join),
            Relation::Values { columns, rows } if rows.iter().flatten().any(Scalar::has_subquery) => {
                self.values(columns, rows)
            }
            mut other => {
                for input in other.inputs_mut() {
                    let taken = std::mem::replace(input, Relation::one_row());
                    *input = self.relation(taken)?;
                }
                self.scalars(other)
            }
        }
    }

    /// Whether a common table expression is computed once. One that would be another each time always is.
    fn is_materialized(&self, id: WithId, definition: &Relation) -> bool {
        let is_materialized = match self.numbers.materialized(id) {
            Some(true) => true,
            Some(false) => has_volatile(definition),
            None => may_differ(definition),
        };
        if is_materialized {
            self.numbers.set_materialized(id, true);
        }
        is_materialized
    }

    /// Takes the subqueries out of the expressions of an operator with one input.
    fn scalars(&self, mut relation: Relation) -> Result<Relation> {
        if !relation.scalars().into_iter().any(Scalar::has_subquery) {
            return Ok(relation);
        }
        let is_limit = matches!(relation, Relation::Limit(_));
        let mut input = match relation.inputs_mut().into_iter().next() {
            Some(input) => std::mem::replace(input, Relation::one_row()),
            None => return Err(Error::bug("a subquery in an operator without input")),
        };
        for scalar in relation.scalars_mut() {
            let taken = std::mem::replace(scalar, Scalar::boolean(false));
            if is_limit && !taken.columns().is_empty() {
                let error = Error::input("argument of LIMIT must not contain variables").with_code("42P10");
                return Err(error);
            }
            // How many rows LIMIT keeps is known before the rows.
            let once = if is_limit { self.once.take() } else { BTreeSet::new() };
            let (changed, joined) = self.extracted(taken, input)?;
            self.once.borrow_mut().extend(once);
            *scalar = changed;
            input = joined;
        }
        if let Some(slot) = relation.inputs_mut().into_iter().next() {
            *slot = input;
        }
        Ok(relation)
    }

    /// The rows of an input for which a condition with subqueries is true.
    fn filter(&self, mut input: Relation, condition: Scalar) -> Result<Relation> {
        let (nested, plain): (Vec<_>, Vec<_>) = condition.conjuncts().into_iter().partition(Scalar::has_subquery);
        input = input.filtered(Scalar::all(plain));
        for conjunct in nested {
            input = self.conjunct(input, conjunct)?;
        }
        Ok(input)
    }

    fn conjunct(&self, input: Relation, conjunct: Scalar) -> Result<Relation> {
        let (is_negated, inner) = match conjunct {
            Scalar::Not(inner) => match *inner {
                // Two negations are none.
                Scalar::Not(inner) => return self.conjunct(input, *inner),
                inner => (true, inner),
            },
            other => (false, other),
        };
        match inner {
            Scalar::Subquery(subquery) => match *subquery {
                Subquery { kind: SubqueryKind::Exists, relation, .. } => {
                    let right = self.relation(relation)?;
                    let kind = if is_negated { JoinKind::Anti } else { JoinKind::Semi };
                    self.dependent(kind, input, right, Scalar::boolean(true))
                }
                Subquery { kind: SubqueryKind::Quantified { left, comparison, quantifier }, relation, columns } => {
                    self.quantified_filter(input, left, comparison, quantifier, relation, &columns, is_negated)
                }
                other => self.plain_conjunct(input, Scalar::Subquery(Box::new(other)), is_negated),
            },
            other => self.plain_conjunct(input, other, is_negated),
        }
    }

    fn plain_conjunct(&self, input: Relation, inner: Scalar, is_negated: bool) -> Result<Relation> {
        let (condition, input) = self.extracted(inner, input)?;
        Ok(input.filtered(if is_negated { condition.negate() } else { condition }))
    }

    /// `left comparison ANY/ALL (relation)` as a condition that rows must fulfil.
    #[allow(clippy::too_many_arguments, reason = "the parts of one condition, taken apart by its only caller")]
    fn quantified_filter(
        &self,
        input: Relation,
        left: Vec<Scalar>,
        comparison: Comparison,
        quantifier: Quantifier,
        relation: Relation,
        columns: &[Column],
        is_negated: bool,
    ) -> Result<Relation> {
        let right = self.relation(relation)?;
        let (left, input) = self.all_extracted(left, input)?;
        let all = quantifier == Quantifier::All;
        // ALL is true where no pair fails; a negated ANY where no pair holds. A pair of which nobody knows spoils both.
        let on = pair_condition(left, if all { comparison.negated() } else { comparison }, columns);
        if all == is_negated {
            self.dependent(JoinKind::Semi, input, right, on)
        } else {
            self.dependent(JoinKind::Anti, input, right, is_not_false(on))
        }
    }

    fn all_extracted(&self, scalars: Vec<Scalar>, mut input: Relation) -> Result<(Vec<Scalar>, Relation)> {
        let mut changed = Vec::with_capacity(scalars.len());
        for scalar in scalars {
            let (scalar, joined) = self.extracted(scalar, input)?;
            changed.push(scalar);
            input = joined;
        }
        Ok((changed, input))
    }

    /// An expression over an input without its subqueries, and the input joined with them.
    fn extracted(&self, scalar: Scalar, input: Relation) -> Result<(Scalar, Relation)> {
        if !scalar.has_subquery() {
            return Ok((scalar, input));
        }
        let scalar = guards::with_guards(scalar, &input.columns());
        let mut input = Some(input);
        let changed = scalar.transform(&mut |part| match part {
            Scalar::Subquery(subquery) => {
                let below = input.take().ok_or_else(|| Error::bug("a subquery without an input"))?;
                let text = format!("{subquery}\n{}", subquery.relation);
                if let Some(known) = self.known(&text, &below) {
                    input = Some(below);
                    return Ok(known);
                }
                let (value, joined) = self.subquery(*subquery, below)?;
                if !value.has_subquery() {
                    self.values.borrow_mut().insert(text, value.clone());
                }
                input = Some(joined);
                Ok(value)
            }
            other => Ok(other),
        })?;
        let input = input.ok_or_else(|| Error::bug("an input was lost"))?;
        Ok((changed, input))
    }

    /// The value of a subquery of this text, if the rows have it already.
    fn known(&self, text: &str, rows: &Relation) -> Option<Scalar> {
        let value = self.values.borrow().get(text).cloned()?;
        value.columns().is_subset(&rows.column_ids()).then_some(value)
    }

    /// The value of one subquery for each row of an input.
    fn subquery(&self, subquery: Subquery, input: Relation) -> Result<(Scalar, Relation)> {
        let Subquery { kind, relation, columns } = subquery;
        match kind {
            SubqueryKind::Value => {
                let right = self.relation(relation)?;
                self.value(right, columns, input)
            }
            SubqueryKind::Array => {
                let right = self.relation(relation)?;
                let (array, column) = self.array_of(right, &columns)?;
                let (value, input) = self.value(array, vec![column.clone()], input)?;
                let empty = Scalar::Array { elements: vec![], sql_type: column.sql_type };
                Ok((Scalar::Coalesce(vec![value, empty]), input))
            }
            SubqueryKind::Exists => {
                let right = self.relation(relation)?;
                if !right.is_correlated() {
                    let (exists, column) = self.has_rows(right)?;
                    return self.value(exists, vec![column], input);
                }
                let mark = self.numbers.named("exists", SqlType::Boolean, false);
                let scalar = mark.scalar();
                let joined = self.dependent(JoinKind::Mark(mark), input, right, Scalar::boolean(true))?;
                Ok((scalar, joined))
            }
            SubqueryKind::Quantified { left, comparison, quantifier } => {
                let right = self.relation(relation)?;
                // What is in it was taken out before, from the inside out.
                let all = quantifier == Quantifier::All;
                let on = pair_condition(left, if all { comparison.negated() } else { comparison }, &columns);
                let mark = self.numbers.named("any", SqlType::Boolean, on.nullable());
                let scalar = mark.scalar();
                let joined = self.dependent(JoinKind::Mark(mark), input, right, on)?;
                Ok((if all { scalar.negate() } else { scalar }, joined))
            }
        }
    }

    fn value(&self, right: Relation, columns: Vec<Column>, input: Relation) -> Result<(Scalar, Relation)> {
        if !right.is_correlated() && !reads_any(&right, &self.once.borrow()) {
            let subquery = Subquery { kind: SubqueryKind::Value, relation: right, columns };
            return Ok((Scalar::Subquery(Box::new(subquery)), input));
        }
        let Some(column) = columns.into_iter().next() else { return Err(Error::bug("a subquery without a column")) };
        let joined = self.dependent(JoinKind::Single, input, right, Scalar::boolean(true))?;
        Ok((Column { nullable: true, ..column }.scalar(), joined))
    }

    /// One row: whether a relation has any.
    fn has_rows(&self, relation: Relation) -> Result<(Relation, Column)> {
        let one = Limit {
            input: Box::new(relation),
            skip: None,
            fetch: Some(Scalar::Constant(Constant::bigint(1))),
            ties: None,
        };
        let count = self.numbers.named("count", SqlType::BigInt, false);
        let rows = count.scalar();
        let call = resolve_aggregate("count", &[])?;
        let item =
            AggregateItem { call, arguments: vec![], is_distinct: false, filter: None, order: vec![], made: None };
        let counted = Relation::Aggregate(Aggregate {
            input: Box::new(Relation::Limit(one)),
            groups: vec![],
            sets: None,
            aggregates: vec![(count, item)],
        });
        let exists = self.numbers.named("exists", SqlType::Boolean, false);
        let test = Scalar::compare(Comparison::Greater, rows, Scalar::Constant(Constant::bigint(0)));
        Ok((counted.mapped(vec![(exists.clone(), test)]), exists))
    }

    /// One row: an array of the values of a relation's only column, in the relation's order; NULL if there are none.
    fn array_of(&self, relation: Relation, columns: &[Column]) -> Result<(Relation, Column)> {
        let [element] = columns else { return Err(Error::bug("an array of a subquery with several columns")) };
        let order = order_of(&relation);
        let candidate = Candidate { sql_type: element.sql_type.clone(), literal: None };
        let call = resolve_aggregate("array_agg", &[candidate])?;
        let array = self.numbers.named("array", SqlType::array_of(element.sql_type.clone()), true);
        let item = AggregateItem {
            call,
            arguments: vec![element.scalar()],
            is_distinct: false,
            filter: None,
            order,
            made: None,
        };
        let relation = Relation::Aggregate(Aggregate {
            input: Box::new(relation),
            groups: vec![],
            sets: None,
            aggregates: vec![(array.clone(), item)],
        });
        Ok((relation, array))
    }

    /// VALUES with subqueries: each row is computed by itself.
    fn values(&self, columns: Vec<Column>, rows: Vec<Vec<Scalar>>) -> Result<Relation> {
        let mut inputs = Vec::with_capacity(rows.len());
        let is_one = rows.len() == 1;
        for row in rows {
            let (row, input) = self.all_extracted(row, Relation::one_row())?;
            let fresh = |column: &Column| match is_one {
                true => column.clone(),
                false => Column { id: self.numbers.column(), ..column.clone() },
            };
            let mapped = columns.iter().map(fresh).zip(row).collect::<Vec<_>>();
            let ids = mapped.iter().map(|(column, _)| column.id).collect::<Vec<_>>();
            inputs.push((input.mapped(mapped), ids));
        }
        if is_one && let Some((relation, _)) = inputs.pop() {
            return Ok(relation);
        }
        Ok(Relation::Set(crate::algebra::SetOperation {
            kind: crate::algebra::SetKind::Union,
            is_all: true,
            inputs,
            columns,
        }))
    }

    /// A join whose condition has subqueries.
    fn join_with_subquery(&self, join: Join) -> Result<Relation> {
        let left = self.relation(*join.left)?;
        let right = self.relation(*join.right)?;
        if join.kind == JoinKind::Inner {
            let pairs =
                Join { kind: JoinKind::Inner, left: Box::new(left), right: Box::new(right), on: Scalar::boolean(true) };
            return self.filter(Relation::Join(pairs), join.on);
        }
        let (lefts, rights) = (left.column_ids(), right.column_ids());
        let (mut left, mut right) = (left, right);
        let mut on = Vec::new();
        let mut both = Vec::new();
        for conjunct in join.on.conjuncts() {
            if !conjunct.has_subquery() {
                on.push(conjunct);
                continue;
            }
            let read = subquery_columns(&conjunct);
            if read.is_disjoint(&lefts) {
                let (conjunct, joined) = self.extracted(conjunct, right)?;
                right = joined;
                on.push(conjunct);
            } else if read.is_disjoint(&rights) {
                let (conjunct, joined) = self.extracted(conjunct, left)?;
                left = joined;
                on.push(conjunct);
            } else {
                both.push(conjunct);
            }
        }
        if both.is_empty() {
            let (left, right) = (Box::new(left), Box::new(right));
            return Ok(Relation::Join(Join { kind: join.kind, left, right, on: Scalar::all(on) }));
        }
        if join.kind == JoinKind::Full {
            let error = Error::unsupported("a FULL JOIN on a subquery that reads both sides is not supported");
            return Err(
                error.with_hint("write it as the UNION ALL of a LEFT JOIN and the rows of the right side alone")
            );
        }
        // The right side with the whole condition depends on the left.
        on.extend(both);
        let right = self.relation(right.filtered(Scalar::all(on)))?;
        self.dependent(join.kind, left, right, Scalar::boolean(true))
    }

    /// A join whose right side may read columns of the left.
    fn dependent(&self, kind: JoinKind, left: Relation, right: Relation, on: Scalar) -> Result<Relation> {
        let lefts = left.column_ids();
        let is_read = |relation: &Relation| relation.free_columns().iter().any(|id| lefts.contains(id));
        if !is_read(&right) {
            return Ok(Relation::Join(Join { kind, left: Box::new(left), right: Box::new(right), on }));
        }
        // Conditions on columns from further out go up as well: only one side of the join has to know these then.
        let outer = right.free_columns().union(&lefts).copied().collect();
        let pulled = pulled::pulled(right, &outer, &kind, &on);
        let right = match pulled.or_else(|right| pulled::pulled(*right, &lefts, &kind, &on)) {
            Ok(pulled) => {
                // Rows for which a condition is NULL are not there: only the question itself may be unknown.
                let tells_unknown = matches!(&kind, JoinKind::Mark(mark) if mark.nullable);
                let conditions = pulled.conditions.into_iter().map(|term| match tells_unknown {
                    true => is_true(term),
                    false => term,
                });
                // What reads a column that is computed above the join is looked at there. Only inner joins have those.
                let read = on.columns();
                let is_above = pulled.columns.iter().any(|(column, _)| read.contains(&column.id));
                let (on, above) = if is_above { (Scalar::boolean(true), on) } else { (on, Scalar::boolean(true)) };
                let conditions = Scalar::all(conditions.collect::<Vec<_>>().into_iter().chain([on]));
                let join = Join { kind, left: Box::new(left), right: Box::new(pulled.relation), on: conditions };
                return Ok(Relation::Join(join).mapped(pulled.columns).filtered(above));
            }
            Err(right) => *right,
        };
        let right = match Grouped::of(right, &lefts, self.numbers) {
            Ok(grouped) => return grouped.joined(kind, left, on, self.numbers),
            Err(right) => *right,
        };
        self.over_domain(kind, left, right, on)
    }

    /// The general way: the right side for all values of the columns that it reads, at once.
    fn over_domain(&self, kind: JoinKind, mut left: Relation, right: Relation, on: Scalar) -> Result<Relation> {
        let read = right.free_columns();
        let outer = left.columns().into_iter().filter(|column| read.contains(&column.id)).collect::<Vec<_>>();
        let (source, definitions) = self.domain_of(&mut left, &outer)?;
        let (right, columns) = source.pushed(right, self.numbers)?;
        let mut conditions = vec![on];
        for column in &outer {
            let Some(inner) = columns.get(&column.id) else { return Err(Error::bug("a domain lost a column")) };
            let comparison = match column.nullable {
                true => Comparison::IsNotDistinctFrom,
                false => Comparison::Equal,
            };
            conditions.push(Scalar::compare(comparison, column.scalar(), inner.scalar()));
        }
        let join = Join { kind, left: Box::new(left), right: Box::new(right), on: Scalar::all(conditions) };
        let joined = Relation::Join(join);
        Ok(match definitions.is_empty() {
            true => joined,
            false => Relation::Definitions { definitions, input: Box::new(joined) },
        })
    }

    /// The domain of these columns of the left side, and the definitions that it and the left side read from then on:
    /// what gives the columns is read twice, once for the left side's rows and once for their values.
    fn domain_of(&self, left: &mut Relation, outer: &[Column]) -> Result<(Domain, Vec<OuterDefinition>)> {
        let lost = || Error::bug("a copy lost a column");
        let mut definitions = Vec::new();
        let wanted = outer.iter().map(|column| column.id).collect();
        let source = source_of(left, &wanted, &mut definitions);
        if source.is_correlated() {
            let (copy, renamed) = source.with_new_ids(self.numbers);
            let domain = outer.iter().map(|column| {
                let id = renamed.get(&column.id).copied().unwrap_or(column.id);
                (column.clone(), Column { id, ..column.clone() })
            });
            return Ok((Domain::new(copy, domain.collect()), definitions));
        }
        let columns = match source {
            // Defined already, for a subquery before this one.
            Relation::With(_) => source.columns(),
            _ => {
                let columns = source.columns();
                let (copy, renamed) = source.with_new_ids(self.numbers);
                let defined = copy.columns();
                let own = defined.iter().map(|defined| {
                    let is_own = |column: &&Column| renamed.get(&column.id).unwrap_or(&column.id) == &defined.id;
                    columns.iter().find(is_own).cloned()
                });
                let own = own.collect::<Option<Vec<_>>>().ok_or_else(lost)?;
                let id = self.numbers.with();
                *source = Relation::With(WithTable { id, name: "outer".to_owned(), columns: own.clone() });
                self.is_materialized(id, &copy);
                definitions.push((id, copy, defined));
                own
            }
        };
        let Relation::With(table) = source else { return Err(lost()) };
        let fresh = columns.iter().map(|column| Column { id: self.numbers.column(), ..column.clone() });
        let fresh = fresh.collect::<Vec<_>>();
        let domain = outer.iter().map(|column| {
            let position = columns.iter().position(|other| other.id == column.id)?;
            Some((column.clone(), fresh[position].clone()))
        });
        let domain = domain.collect::<Option<Vec<_>>>().ok_or_else(lost)?;
        let table = WithTable { columns: fresh, ..table.clone() };
        Ok((Domain::new(Relation::With(table), domain), definitions))
    }
}

/// A common table expression: what it gives, its columns included.
type OuterDefinition = (WithId, Relation, Vec<Column>);

/// The part of a relation that columns come from and whose rows all come through: what is above it, joins with
/// subqueries before, does not change which values there are. So each subquery of a row is computed for values of the
/// row itself, and not of what the subqueries before it made of it, which would be twice as large each time.
/// Definitions above the part are taken out, to stand above what reads it.
fn source_of<'r>(
    relation: &'r mut Relation,
    wanted: &BTreeSet<ColumnId>,
    definitions: &mut Vec<OuterDefinition>,
) -> &'r mut Relation {
    if let Relation::Definitions { definitions: own, input } = relation {
        definitions.append(own);
        *relation = std::mem::replace(&mut **input, Relation::one_row());
        return source_of(relation, wanted, definitions);
    }
    let comes_through = match relation {
        Relation::Map { input, .. } | Relation::Sort { input, .. } => wanted.is_subset(&input.column_ids()),
        Relation::Window(window) => wanted.is_subset(&window.input.column_ids()),
        Relation::Join(join) => {
            let keeps_left = matches!(join.kind, JoinKind::Left | JoinKind::Single | JoinKind::Mark(_));
            keeps_left && wanted.is_subset(&join.left.column_ids())
        }
        _ => false,
    };
    if !comes_through {
        return relation;
    }
    match relation {
        Relation::Map { input, .. } | Relation::Sort { input, .. } => source_of(input, wanted, definitions),
        Relation::Window(window) => source_of(&mut window.input, wanted, definitions),
        Relation::Join(join) => source_of(&mut join.left, wanted, definitions),
        other => other,
    }
}

/// The condition on a pair of a left row and a subquery's row. Rows of several values are equal where all of these are,
/// and differ where any of them does.
fn pair_condition(left: Vec<Scalar>, comparison: Comparison, columns: &[Column]) -> Scalar {
    let pairs = left.into_iter().zip(columns);
    let terms = pairs.map(|(left, column)| Scalar::compare(comparison, left, column.scalar()));
    if comparison == Comparison::NotEqual { Scalar::any(terms) } else { Scalar::all(terms) }
}

/// Whether a relation computes something that is another value each time.
pub(crate) fn has_volatile(relation: &Relation) -> bool {
    relation.scalars().into_iter().any(Scalar::is_volatile) || relation.inputs().into_iter().any(has_volatile)
}

/// Whether a relation, or a subquery in its expressions, reads one of these common table expressions.
fn reads_any(relation: &Relation, definitions: &BTreeSet<WithId>) -> bool {
    if definitions.is_empty() {
        return false;
    }
    let mut reads = matches!(relation, Relation::With(table) if definitions.contains(&table.id));
    for scalar in relation.scalars() {
        scalar.visit(&mut |part| {
            if let Scalar::Subquery(subquery) = part {
                reads |= reads_any(&subquery.relation, definitions);
            }
        });
    }
    reads || relation.inputs().into_iter().any(|input| reads_any(input, definitions))
}

/// True where a condition is true, false where it is false or NULL.
fn is_true(condition: Scalar) -> Scalar {
    match condition.nullable() {
        true => Scalar::Coalesce(vec![condition, Scalar::boolean(false)]),
        false => condition,
    }
}

/// True where a condition is true or NULL.
pub(crate) fn is_not_false(condition: Scalar) -> Scalar {
    let terms = condition.conjuncts().into_iter().map(|term| match term.nullable() {
        true => Scalar::Or(vec![term.clone(), Scalar::IsNull(Box::new(term))]),
        false => term,
    });
    Scalar::all(terms)
}

/// The columns that the subqueries in an expression read from around them.
fn subquery_columns(scalar: &Scalar) -> BTreeSet<ColumnId> {
    let mut columns = BTreeSet::new();
    scalar.visit(&mut |part| {
        if let Scalar::Subquery(subquery) = part {
            columns.extend(subquery.relation.free_columns());
            if let SubqueryKind::Quantified { left, .. } = &subquery.kind {
                left.iter().for_each(|left| left.add_columns(&mut columns));
            }
        }
    });
    columns
}

/// The order in which a relation's rows come.
pub(super) fn order_of(relation: &Relation) -> Vec<SortKey> {
    match relation {
        Relation::Sort { keys, .. } => keys.clone(),
        Relation::Limit(limit) => order_of(&limit.input),
        Relation::Map { input, .. } | Relation::Filter { input, .. } => order_of(input),
        Relation::Definitions { input, .. } => order_of(input),
        _ => vec![],
    }
}

/// Numbers the rows of each partition in an order.
fn numbered(input: Relation, partition: Vec<Scalar>, order: Vec<SortKey>, number: Column, with_ties: bool) -> Relation {
    use diligence_engine::plan::WindowFunction;
    let kind = WindowKind::Engine(if with_ties { WindowFunction::Rank } else { WindowFunction::RowNumber });
    let frame = crate::algebra::WindowFrame::known(datafusion_expr::WindowFrame::new(None));
    let item = WindowItem { kind, arguments: vec![], filter: None, order: vec![], frame };
    Relation::Window(Window { input: Box::new(input), partition, order, items: vec![(number, item)] })
}
