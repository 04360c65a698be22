//! Equivalence classes of columns, which equalities make equal, and the equalities that follow from others: of
//! `a = b AND b = c` also `a = c`.

use std::collections::{HashMap, HashSet};

use crate::algebra::{ColumnId, Comparison, Scalar};

/// Columns of a class at most: more have very many pairs, and all pairs must be there.
const MEMBERS_MAX: usize = 12;

/// The equivalence classes of the columns of relations.
pub(super) struct Classes {
    /// The class of each column that is compared with one of another relation.
    of_columns: HashMap<ColumnId, usize>,
    implied: Vec<Scalar>,
}

/// Both columns of an equality of columns of one type.
fn columns(condition: &Scalar) -> Option<[&Scalar; 2]> {
    let Scalar::Compare { comparison: Comparison::Equal, left, right } = condition else { return None };
    let (left, right) = (left.as_ref(), right.as_ref());
    let is_column = |scalar: &Scalar| scalar.as_column().is_some();
    (is_column(left) && is_column(right) && left.sql_type() == right.sql_type()).then_some([left, right])
}

impl Classes {
    /// The classes that these conditions make; `owner` says which relation a column is of.
    pub fn of(conditions: &[Scalar], owner: impl Fn(ColumnId) -> Option<usize>) -> Self {
        let mut members: Vec<Vec<(ColumnId, &Scalar)>> = Vec::new();
        let mut of_columns: HashMap<ColumnId, usize> = HashMap::new();
        let mut pairs = Vec::new();
        for [left, right] in conditions.iter().filter_map(columns) {
            let (Some(left_id), Some(right_id)) = (left.as_column(), right.as_column()) else { continue };
            // Columns of a query around this one are no relation's here.
            if owner(left_id).is_none() || owner(right_id).is_none() || owner(left_id) == owner(right_id) {
                continue;
            }
            pairs.push((left_id, right_id));
            match (of_columns.get(&left_id).copied(), of_columns.get(&right_id).copied()) {
                (None, None) => {
                    of_columns.extend([(left_id, members.len()), (right_id, members.len())]);
                    members.push(vec![(left_id, left), (right_id, right)]);
                }
                (Some(class), None) => {
                    of_columns.insert(right_id, class);
                    members[class].push((right_id, right));
                }
                (None, Some(class)) => {
                    of_columns.insert(left_id, class);
                    members[class].push((left_id, left));
                }
                (Some(one), Some(other)) if one != other => {
                    let moved = std::mem::take(&mut members[other]);
                    of_columns.extend(moved.iter().map(|(id, _)| (*id, one)));
                    members[one].extend(moved);
                }
                _ => {}
            }
        }
        // Two columns of one relation in a class: its own rows are compared, too. Such classes are left as they are
        // written.
        let is_plain = |class: &[(ColumnId, &Scalar)]| {
            let owners = class.iter().map(|(id, _)| owner(*id)).collect::<HashSet<_>>();
            owners.len() == class.len() && class.len() <= MEMBERS_MAX
        };
        of_columns.retain(|_, class| is_plain(&members[*class]));
        let mut implied = Vec::new();
        for class in members.iter().filter(|class| class.len() > 2 && is_plain(class)) {
            for (index, (one_id, one)) in class.iter().enumerate() {
                for (other_id, other) in &class[index + 1..] {
                    let is_said = pairs.contains(&(*one_id, *other_id)) || pairs.contains(&(*other_id, *one_id));
                    if !is_said {
                        implied.push(Scalar::Compare {
                            comparison: Comparison::Equal,
                            left: Box::new((*one).clone()),
                            right: Box::new((*other).clone()),
                        });
                    }
                }
            }
        }
        Self { of_columns, implied }
    }

    /// The equalities that follow and that no condition says.
    pub fn implied(&self) -> Vec<Scalar> {
        self.implied.clone()
    }

    /// The class of the columns that a condition compares, if it is an equality of two of one class.
    pub fn class_of(&self, condition: &Scalar) -> Option<usize> {
        let [left, right] = columns(condition)?;
        let class = *self.of_columns.get(&left.as_column()?)?;
        (self.of_columns.get(&right.as_column()?) == Some(&class)).then_some(class)
    }
}

#[cfg(test)]
mod tests {
    use diligence_types::SqlType;

    use super::*;
    use crate::algebra::Numbers;

    #[test]
    fn what_follows_is_found_and_belongs_to_its_class() {
        let numbers = Numbers::default();
        let columns =
            (0..6).map(|place| numbers.named(format!("c{place}"), SqlType::Integer, false)).collect::<Vec<_>>();
        let ids = columns.iter().map(|column| column.id).collect::<Vec<_>>();
        let equal = |one: usize, other: usize| Scalar::Compare {
            comparison: Comparison::Equal,
            left: Box::new(columns[one].scalar()),
            right: Box::new(columns[other].scalar()),
        };
        // Each column is of a relation of its own.
        let owner = |id: ColumnId| ids.iter().position(|known| *known == id);
        let conditions = [equal(0, 1), equal(2, 1), equal(3, 4)];
        let classes = Classes::of(&conditions, owner);
        assert_eq!(classes.implied(), [equal(0, 2)]);
        let class = classes.class_of(&equal(0, 1));
        assert!(class.is_some() && class == classes.class_of(&equal(0, 2)));
        assert!(classes.class_of(&equal(3, 4)).is_some_and(|other| Some(other) != class));
        assert_eq!(classes.class_of(&equal(0, 3)), None);
        // Classes that a later equality joins are one.
        let classes = Classes::of(&[equal(0, 1), equal(2, 3), equal(1, 3)], owner);
        assert_eq!(classes.implied().len(), 3);
        // Two columns of one relation: everything that is written is compared.
        let classes = Classes::of(&conditions, |id| owner(id).map(|place| if place == 2 { 0 } else { place }));
        assert_eq!((classes.implied().len(), classes.class_of(&equal(0, 1))), (0, None));
    }
}
