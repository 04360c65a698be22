//! The columns of tables and views that a query's columns are, as drivers ask: where a grid of rows can be edited, its
//! editor must know which table to change.

use std::collections::HashMap;

use sqlparser::ast::ObjectName;

use super::Binder;
use super::shown_types::Traced;
use crate::algebra::{Column, ColumnId, Relation};

/// A column of a table or a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The number by which clients know the table or view.
    pub relation: u32,
    /// The place of the column, from 1 on.
    pub place: i16,
}

impl Binder<'_> {
    /// Notes what the columns of a table or a view are. Those of a table within a view are not what clients see.
    pub(super) fn note_origins(&self, name: &ObjectName, columns: &[Column]) {
        if self.view_depth.get() > 0 || self.routine_depth.get() > 0 {
            return;
        }
        let Some(relation) = self.context.oid(name) else { return };
        let origins = columns.iter().zip(1..).map(|(column, place)| (column.id, Origin { relation, place }));
        self.origins.borrow_mut().extend(origins);
    }
}

/// Per column of a query, the column of a table or a view whose values come as they are. Those of UNION and of
/// recursive queries are none, as in PostgreSQL.
pub(super) fn of_columns(
    relation: &Relation,
    columns: &[Column],
    known: &HashMap<ColumnId, Origin>,
) -> Vec<Option<Origin>> {
    if known.is_empty() {
        return vec![];
    }
    let origin = |relation: &Relation, id: ColumnId| {
        let is_new = matches!(relation, Relation::Set(_) | Relation::Recursive(_)) && relation.produced().contains(&id);
        match known.get(&id) {
            Some(origin) => Some(Some(*origin)),
            None => is_new.then_some(None),
        }
    };
    columns.iter().map(|column| Traced::new(&origin).of_column(relation, column.id)).collect()
}
