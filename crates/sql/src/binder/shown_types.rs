//! Types that clients are told of, and no expression has: a column of the catalog that is `"char"` in PostgreSQL is a
//! `varchar` to every expression, and `"char"` to clients that select it as it is. Drivers know such columns by their
//! types.

use std::collections::HashMap;

use diligence_catalog::types::shown_type;
use diligence_types::SqlType;

use crate::algebra::{Column, ColumnId, Relation, Scalar, WithId};

/// How many operators are looked at for one column: of deep queries the types are left out.
const STEPS_MAX: usize = 1_000;

/// The places of the columns that come as they are from columns with such a type, and its name.
pub(crate) fn shown_types(relation: &Relation, columns: &[Column]) -> Vec<(usize, String)> {
    // What expressions take such columns for.
    let may_be = |sql_type: &SqlType| matches!(sql_type, SqlType::Varchar(None) | SqlType::BigInt);
    // The type is that of the field, where there is one.
    let known = |relation: &Relation, id: ColumnId| match relation {
        Relation::Scan(scan) => {
            let (position, _) = scan.columns.iter().find(|(_, column)| column.id == id)?;
            Some(scan.table.schema().fields().get(*position).and_then(|field| shown_type(field)).map(str::to_owned))
        }
        _ => None,
    };
    let shown = |(place, column): (usize, &Column)| {
        let name = may_be(&column.sql_type).then(|| Traced::new(&known).of_column(relation, column.id))??;
        Some((place, name))
    };
    match reads_shown(relation) {
        true => columns.iter().enumerate().filter_map(shown).collect(),
        false => vec![],
    }
}

/// Whether a relation reads a table that has such columns.
fn reads_shown(relation: &Relation) -> bool {
    let within = || match relation {
        Relation::Scan(scan) => scan.table.schema().fields().iter().any(|field| shown_type(field).is_some()),
        Relation::Definitions { definitions, input } => {
            reads_shown(input) || definitions.iter().any(|(_, relation, _)| reads_shown(relation))
        }
        other => other.inputs().into_iter().any(reads_shown),
    };
    stacker::maybe_grow(128 * 1024, 2 * 1024 * 1024, within)
}

/// What is known of columns whose values come as they are from where it is known.
pub(super) struct Traced<'r, T> {
    /// What is known of a column of a relation, or that nothing is; `None` if it is what is known of its origin.
    known: &'r dyn Fn(&Relation, ColumnId) -> Option<Option<T>>,
    /// The common table expressions met so far.
    definitions: HashMap<WithId, (&'r Relation, &'r [Column])>,
    steps: usize,
}

impl<'r, T: PartialEq> Traced<'r, T> {
    pub(super) fn new(known: &'r dyn Fn(&Relation, ColumnId) -> Option<Option<T>>) -> Self {
        Self { known, definitions: HashMap::new(), steps: 0 }
    }

    /// What is known of a column of a relation.
    pub(super) fn of_column(&mut self, relation: &'r Relation, id: ColumnId) -> Option<T> {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            return None;
        }
        stacker::maybe_grow(128 * 1024, 2 * 1024 * 1024, || self.of_operator(relation, id))
    }

    fn of_operator(&mut self, relation: &'r Relation, id: ColumnId) -> Option<T> {
        if let Some(known) = (self.known)(relation, id) {
            return known;
        }
        let place = |columns: &[Column]| columns.iter().position(|column| column.id == id);
        match relation {
            Relation::Map { input, columns } => match columns.iter().find(|(column, _)| column.id == id) {
                Some((_, Scalar::Column { id, .. })) => self.of_column(input, *id),
                Some(_) => None,
                None => self.of_column(input, id),
            },
            Relation::Aggregate(aggregate) => match aggregate.groups.iter().find(|(column, _)| column.id == id)? {
                (_, Scalar::Column { id, .. }) => self.of_column(&aggregate.input, *id),
                _ => None,
            },
            Relation::Set(set) => {
                let place = place(&set.columns)?;
                let mut all = set.inputs.iter().map(|(input, columns)| self.of_column(input, *columns.get(place)?));
                let first = all.next()??;
                all.all(|known| known.as_ref() == Some(&first)).then_some(first)
            }
            Relation::With(table) => {
                let (definition, columns) = *self.definitions.get(&table.id)?;
                self.of_column(definition, columns.get(place(&table.columns)?)?.id)
            }
            Relation::Definitions { definitions, input } => {
                let named = definitions.iter().map(|(id, relation, columns)| (*id, (relation, columns.as_slice())));
                self.definitions.extend(named);
                self.of_column(input, id)
            }
            // What the first term says.
            Relation::Recursive(recursive) => {
                let (base, columns) = &recursive.base;
                self.of_column(base, *columns.get(place(&recursive.columns)?)?)
            }
            // What is computed has the type that it has.
            other if other.produced().contains(&id) => None,
            other => {
                let input = other.inputs().into_iter().find(|input| input.column_ids().contains(&id))?;
                self.of_column(input, id)
            }
        }
    }
}
