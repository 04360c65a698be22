//! Markers: columns that say in which rows a source of FROM is there, where an outer join may make rows up.

use super::Binder;
use super::scope::Namespace;
use crate::algebra::{Column, ColumnId, Relation, Scalar};

impl Binder<'_> {
    /// Puts the markers that were asked for into a FROM clause's relation, each right above its source.
    pub(super) fn with_markers(&self, mut relation: Relation, names: &Namespace) -> Relation {
        for (marker, columns) in names.used_markers() {
            place_marker(&mut relation, &marker, &columns);
        }
        relation
    }
}

/// Puts a marker above the lowest relation of a tree of joins that has all of these columns.
fn place_marker(relation: &mut Relation, marker: &Column, columns: &[ColumnId]) {
    let sides = match relation {
        Relation::Join(join) => Some((&mut join.left, &mut join.right)),
        Relation::Apply(apply) => Some((&mut apply.left, &mut apply.right)),
        Relation::Filter { input, .. } => return place_marker(input, marker, columns),
        _ => None,
    };
    if let Some((left, right)) = sides {
        for side in [left, right] {
            let ids = side.column_ids();
            if columns.iter().all(|id| ids.contains(id)) {
                return place_marker(side, marker, columns);
            }
        }
    }
    let input = Box::new(std::mem::replace(relation, Relation::one_row()));
    *relation = Relation::Map { input, columns: vec![(marker.clone(), Scalar::boolean(true))] };
}
