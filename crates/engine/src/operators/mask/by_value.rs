//! Conditions of several queries on one column: where its values are few, each is looked at once, and the rows look up
//! which queries want their values.

use arrow::array::{Array, new_null_array};
use diligence_base::Result;

use super::clear_unless;
use crate::batch::{Batch, Column, concat_arrays};
use crate::expressions::Expr;

/// Values are few if there are so many rows for each.
const ROWS_PER_VALUE: usize = 4;

/// Conditions on one column, each with the queries that have it.
pub(super) struct ColumnConditions {
    column: usize,
    conditions: Vec<(Expr, u64)>,
}

impl ColumnConditions {
    /// Takes out those that read one column, as several do, and that no value makes fail: values are looked at that no
    /// row may have.
    pub fn take_from(conditions: &mut Vec<(Expr, u64)>) -> Vec<Self> {
        let mut taken: Vec<Self> = Vec::new();
        for (condition, queries) in std::mem::take(conditions) {
            match condition.columns() {
                &[column] if !condition.may_fail() => match taken.iter_mut().find(|known| known.column == column) {
                    Some(known) => known.conditions.push((condition, queries)),
                    None => taken.push(Self { column, conditions: vec![(condition, queries)] }),
                },
                _ => conditions.push((condition, queries)),
            }
        }
        let (several, alone): (Vec<_>, Vec<_>) = taken.into_iter().partition(|known| known.conditions.len() > 1);
        conditions.extend(alone.into_iter().flat_map(|known| known.conditions));
        several
    }

    /// Clears the bits of the queries that do not want a row's value.
    pub fn restrict(&self, input: &Batch, rows: &mut [u64]) -> Result<()> {
        let (values, Some(picks)) = input.column(self.column).parts() else { return self.restrict_all(input, rows) };
        if values.len() > rows.len() / ROWS_PER_VALUE {
            return self.restrict_all(input, rows);
        }
        // Behind the values a NULL, where rows have none of them.
        let looked_at = match picks.nulls() {
            None => values.clone(),
            Some(_) => concat_arrays(&[values.clone(), new_null_array(values.data_type(), 1)], values.data_type())?,
        };
        let mut masks = vec![u64::MAX; looked_at.len()];
        let all = Batch::new(vec![Column::flat_array(looked_at); input.columns().len()], masks.len());
        self.restrict_all(&all, &mut masks)?;
        match picks.nulls() {
            None => rows.iter_mut().zip(picks.values()).for_each(|(row, pick)| *row &= masks[*pick as usize]),
            Some(_) => rows.iter_mut().zip(picks.iter()).for_each(|(row, pick)| {
                *row &= masks[pick.map_or(values.len(), |pick| pick as usize)];
            }),
        }
        Ok(())
    }

    fn restrict_all(&self, input: &Batch, rows: &mut [u64]) -> Result<()> {
        self.conditions.iter().try_for_each(|(condition, queries)| clear_unless(condition, *queries, input, rows))
    }
}
