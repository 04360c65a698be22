//! Common table expressions in the places that read them.

use std::collections::HashMap;

use crate::algebra::{Column, ColumnId, Numbers, Relation, Scalar, WithId};
use crate::unnesting::has_volatile;

/// Operators that the definitions of one WITH become in the places that read them, at most. Of a chain in which each
/// reads the one before twice, copies of copies would be as many as two to the length of the chain.
const COPIES_MAX: usize = 250;

/// A relation whose common table expressions stand where they are read, as long as they are read once or are small,
/// and each place may compute them ([`Numbers::materialized`]). The engine finds equal parts of a plan again and
/// computes them once, where that is cheaper than to filter each by itself.
pub(super) fn inlined(mut relation: Relation, numbers: &Numbers) -> Relation {
    stacker::maybe_grow(128 * 1024, 2 * 1024 * 1024, || {
        for scalar in relation.scalars_mut() {
            inline_scalar(scalar, numbers);
        }
        for input in relation.inputs_mut() {
            let taken = std::mem::replace(input, Relation::one_row());
            *input = inlined(taken, numbers);
        }
        let Relation::Definitions { definitions, input } = relation else { return relation };
        let mut kept: Vec<(WithId, Relation, Vec<Column>)> = Vec::new();
        let mut input = *input;
        let mut definitions = definitions;
        let mut room = COPIES_MAX;
        // Later ones read earlier ones: the last goes first.
        while let Some((id, definition, columns)) = definitions.pop() {
            let places = reads(&input, id)
                + definitions.iter().map(|(_, other, _)| reads(other, id)).sum::<usize>()
                + kept.iter().map(|(_, other, _)| reads(other, id)).sum::<usize>();
            if places == 0 {
                continue;
            }
            let copied = if places == 1 { 0 } else { operators(&definition) * places };
            if numbers.materialized(id) != Some(true) && copied <= room {
                room -= copied;
                replace(&mut input, id, &definition, &columns, numbers);
                for (_, other, _) in definitions.iter_mut().chain(&mut kept) {
                    replace(other, id, &definition, &columns, numbers);
                }
            } else {
                // A subquery of one value is computed before the rest, and so before the rows that are kept. The steps
                // of a recursion run by themselves.
                let with_steps = !has_volatile(&definition);
                let others = definitions.iter_mut().chain(&mut kept).map(|(_, other, _)| other);
                for other in others.chain(std::iter::once(&mut input)) {
                    replace_in_subqueries(other, id, &definition, &columns, numbers);
                    if with_steps {
                        replace_in_steps(other, id, &definition, &columns, numbers);
                    }
                }
                kept.push((id, definition, columns));
            }
        }
        if kept.is_empty() {
            return input;
        }
        kept.reverse();
        Relation::Definitions { definitions: kept, input: Box::new(input) }
    })
}

fn inline_scalar(scalar: &mut Scalar, numbers: &Numbers) {
    if let Scalar::Subquery(subquery) = scalar {
        let taken = std::mem::replace(&mut subquery.relation, Relation::one_row());
        subquery.relation = inlined(taken, numbers);
    }
    for child in scalar.children_mut() {
        inline_scalar(child, numbers);
    }
}

/// In how many places the rows of a definition are read.
fn reads(relation: &Relation, id: WithId) -> usize {
    let own = match relation {
        Relation::With(table) if table.id == id => 1,
        _ => 0,
    };
    let mut nested = 0;
    for scalar in relation.scalars() {
        scalar.visit(&mut |part| {
            if let Scalar::Subquery(subquery) = part {
                nested += reads(&subquery.relation, id);
            }
        });
    }
    own + nested + relation.inputs().into_iter().map(|input| reads(input, id)).sum::<usize>()
}

/// The operators of a relation.
fn operators(relation: &Relation) -> usize {
    1 + relation.inputs().into_iter().map(operators).sum::<usize>()
}

/// Puts copies of a definition into the places that read it.
fn replace(relation: &mut Relation, id: WithId, definition: &Relation, columns: &[Column], numbers: &Numbers) {
    if let Relation::With(table) = relation
        && table.id == id
    {
        let (copy, renamed) = definition.with_new_ids(numbers);
        // The place's own numbers stay.
        let own: HashMap<ColumnId, ColumnId> = columns
            .iter()
            .zip(&table.columns)
            .map(|(column, own)| (renamed.get(&column.id).copied().unwrap_or(column.id), own.id))
            .collect();
        let distinct = own.len() == table.columns.len();
        let mut copy = copy;
        if distinct && own.keys().all(|id| renamed.values().any(|new| new == id)) {
            copy.rename(&own);
            *relation = copy;
        } else {
            // One column in several places: each gets a name of its own.
            let mapped = columns.iter().zip(&table.columns).map(|(column, own)| {
                let inner = renamed.get(&column.id).copied().unwrap_or(column.id);
                let scalar = Column { id: inner, ..column.clone() }.scalar();
                (own.clone(), scalar)
            });
            *relation = copy.mapped(mapped.collect());
        }
        return;
    }
    for scalar in relation.scalars_mut() {
        replace_in_scalar(scalar, id, definition, columns, numbers);
    }
    for input in relation.inputs_mut() {
        replace(input, id, definition, columns, numbers);
    }
}

/// Puts copies of a definition into the subqueries that read it.
fn replace_in_subqueries(
    relation: &mut Relation,
    id: WithId,
    definition: &Relation,
    columns: &[Column],
    numbers: &Numbers,
) {
    for scalar in relation.scalars_mut() {
        replace_in_scalar(scalar, id, definition, columns, numbers);
    }
    for input in relation.inputs_mut() {
        replace_in_subqueries(input, id, definition, columns, numbers);
    }
}

/// Puts copies of a definition into the steps of recursive queries that read it.
fn replace_in_steps(relation: &mut Relation, id: WithId, definition: &Relation, columns: &[Column], numbers: &Numbers) {
    if let Relation::Recursive(recursive) = relation {
        replace(&mut recursive.step.0, id, definition, columns, numbers);
    }
    for input in relation.inputs_mut() {
        replace_in_steps(input, id, definition, columns, numbers);
    }
}

fn replace_in_scalar(scalar: &mut Scalar, id: WithId, definition: &Relation, columns: &[Column], numbers: &Numbers) {
    if let Scalar::Subquery(subquery) = scalar {
        replace(&mut subquery.relation, id, definition, columns, numbers);
    }
    for child in scalar.children_mut() {
        replace_in_scalar(child, id, definition, columns, numbers);
    }
}
