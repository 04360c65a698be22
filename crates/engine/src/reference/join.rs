//! The plain join: every pair of rows is looked at, with SQL's three-valued logic spelled out.

use arrow::array::Array;
use arrow::datatypes::DataType;
use datafusion_common::{JoinType, ScalarValue};

/// A row: one value per column.
pub type Row = Vec<ScalarValue>;

/// A condition on a pair of rows: true, false or unknown.
pub type PairCondition<'a> = &'a dyn Fn(&[ScalarValue], &[ScalarValue]) -> Option<bool>;

/// What is joined how.
pub struct Join<'a> {
    /// Which rows come out.
    pub join_type: JoinType,
    /// Positions of equal columns: in the left row, in the right row. Empty: every pair is equal.
    pub on: &'a [(usize, usize)],
    /// Whether NULL keys are equal to each other.
    pub null_equal: bool,
    /// `NOT IN` semantics, for `LeftAnti` on one key.
    pub null_aware: bool,
    /// A further condition on pairs.
    pub condition: Option<PairCondition<'a>>,
    /// The types of the columns, for rows of NULLs.
    pub types: (&'a [DataType], &'a [DataType]),
}

impl Join<'_> {
    /// The rows that come out, in no order, with all columns of the join type.
    pub fn run(&self, left: &[Row], right: &[Row]) -> Vec<Row> {
        use JoinType::*;
        let joins = |l: &Row, r: &Row| self.joins(l, r);
        let nulls = |types: &[DataType]| -> Row {
            let null = |logical| ScalarValue::try_new_null(logical).expect("every type of a test has a NULL");
            types.iter().map(null).collect()
        };
        let left_has_partner = |l: &Row| right.iter().any(|r| joins(l, r));
        let right_has_partner = |r: &Row| left.iter().any(|l| joins(l, r));
        let lonely_left = || left.iter().filter(|l| !left_has_partner(l));
        let lonely_right = || right.iter().filter(|r| !right_has_partner(r));
        let mut rows = Vec::new();
        if matches!(self.join_type, Inner | Left | Right | Full) {
            for l in left {
                rows.extend(right.iter().filter(|r| joins(l, r)).map(|r| [l.clone(), r.clone()].concat()));
            }
        }
        if matches!(self.join_type, Left | Full) {
            rows.extend(lonely_left().map(|l| [l.clone(), nulls(self.types.1)].concat()));
        }
        if matches!(self.join_type, Right | Full) {
            rows.extend(lonely_right().map(|r| [nulls(self.types.0), r.clone()].concat()));
        }
        let marked = |row: &Row, mark: bool| [row.clone(), vec![ScalarValue::Boolean(Some(mark))]].concat();
        match self.join_type {
            Inner | Left | Right | Full => {}
            LeftSemi => rows.extend(left.iter().filter(|l| left_has_partner(l)).cloned()),
            LeftAnti => rows.extend(lonely_left().cloned()),
            LeftMark => rows.extend(left.iter().map(|l| marked(l, left_has_partner(l)))),
            RightSemi => rows.extend(right.iter().filter(|r| right_has_partner(r)).cloned()),
            RightAnti => rows.extend(lonely_right().cloned()),
            RightMark => rows.extend(right.iter().map(|r| marked(r, right_has_partner(r)))),
        }
        rows
    }

    /// Whether two rows are partners. In `NOT IN`, a row is also excluded by one that it is not known to differ from.
    fn joins(&self, left: &Row, right: &Row) -> bool {
        if self.condition.is_some_and(|condition| condition(left, right) != Some(true)) {
            return false;
        }
        self.on.iter().all(|&(l, r)| {
            let (l, r) = (&left[l], &right[r]);
            match (l.is_null(), r.is_null()) {
                (false, false) => same(l, r),
                (true, true) => self.null_equal || self.null_aware,
                _ => self.null_aware,
            }
        })
    }
}

/// Whether two values of one type, not NULL, are equal: the two zeros are, and all NaNs; inside of nested
/// values NULLs are equal to each other.
fn same(left: &ScalarValue, right: &ScalarValue) -> bool {
    use ScalarValue::*;
    let rows = |left: &dyn Array, right: &dyn Array| {
        let value = |array: &dyn Array, row| ScalarValue::try_from_array(array, row).expect("a value of a test");
        left.len() == right.len() && (0..left.len()).all(|row| same(&value(left, row), &value(right, row)))
    };
    match (left, right) {
        (Float16(Some(l)), Float16(Some(r))) => l == r || l.is_nan() && r.is_nan(),
        (Float32(Some(l)), Float32(Some(r))) => l == r || l.is_nan() && r.is_nan(),
        (Float64(Some(l)), Float64(Some(r))) => l == r || l.is_nan() && r.is_nan(),
        (List(l), List(r)) if l.is_valid(0) && r.is_valid(0) => rows(&l.value(0), &r.value(0)),
        (Struct(l), Struct(r)) if l.is_valid(0) && r.is_valid(0) => {
            l.columns().iter().zip(r.columns()).all(|(l, r)| rows(l, r))
        }
        _ => left == right,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(values: &[Option<i32>]) -> Vec<Row> {
        values.iter().map(|&value| vec![ScalarValue::Int32(value)]).collect()
    }

    #[test]
    fn not_in_excludes_what_is_not_known_to_differ() {
        let types = [DataType::Int32];
        let mut join = Join {
            join_type: JoinType::LeftAnti,
            on: &[(0, 0)],
            null_equal: false,
            null_aware: true,
            condition: None,
            types: (&types, &types),
        };
        let left = rows(&[Some(1), Some(2), None]);
        assert_eq!(join.run(&left, &rows(&[Some(1)])), rows(&[Some(2)]));
        assert_eq!(join.run(&left, &rows(&[Some(1), None])), rows(&[]));
        assert_eq!(join.run(&left, &[]), left);
        join.null_aware = false;
        assert_eq!(join.run(&left, &rows(&[Some(1), None])), rows(&[Some(2), None]));
    }

    #[test]
    fn the_zeros_are_one_value_and_so_are_all_nans() {
        let float = |value: f64| ScalarValue::Float64(Some(value));
        assert!(same(&float(0.0), &float(-0.0)) && same(&float(f64::NAN), &float(f64::NAN)));
        assert!(same(&float(f64::NAN), &float(-f64::NAN)) && !same(&float(0.0), &float(5e-324)));
        assert!(!same(&float(f64::NAN), &float(f64::INFINITY)));
        let list = |value: Option<f64>| {
            let values = [ScalarValue::Float64(value), float(1.0)];
            ScalarValue::List(ScalarValue::new_list_nullable(&values, &DataType::Float64))
        };
        assert!(same(&list(Some(0.0)), &list(Some(-0.0))) && same(&list(None), &list(None)));
        assert!(!same(&list(Some(0.0)), &list(None)));
    }

    #[test]
    fn outer_joins_pad_with_nulls() {
        let types = [DataType::Int32];
        let join = Join {
            join_type: JoinType::Full,
            on: &[(0, 0)],
            null_equal: false,
            null_aware: false,
            condition: None,
            types: (&types, &types),
        };
        let out = join.run(&rows(&[Some(1), None]), &rows(&[Some(1), Some(3)]));
        let pair = |l, r| vec![ScalarValue::Int32(l), ScalarValue::Int32(r)];
        assert_eq!(out, vec![pair(Some(1), Some(1)), pair(None, None), pair(None, Some(3))]);
    }
}
