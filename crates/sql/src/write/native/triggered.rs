//! A statement's rows on their way into a table that has triggers.

use arrow::compute::{cast, concat_batches};

use super::*;
use crate::write::triggers::{Operation, Triggers};

impl NativeOperation {
    /// Rows that come, with what runs before and behind them. Gives their number.
    pub(super) fn insert_triggered(
        &self,
        triggers: &Triggers,
        table: &ObjectRef,
        layout: &Layout,
        way: &ChangeWay,
        batches: &[RecordBatch],
        mut memory: Reservation,
    ) -> Result<u64> {
        triggers.statement(true)?;
        let (mut rows, mut returned) = (Vec::new(), Vec::new());
        for batch in batches {
            let (values, kept) = triggers.before(Operation::Insert, None, layout.values(batch)?)?;
            returned.push(filter_record_batch(&layout.returned(batch)?, &kept).map_err(from_arrow)?);
            rows.push(values);
        }
        keep(&mut memory, &rows);
        let (catalog, owner) = (triggers.catalog(), self.writer.owner);
        if rows.iter().any(|rows| rows.num_rows() > 0) || matches!(way, ChangeWay::Insert { replace: true }) {
            let inserted = as_new(&rows);
            let _locked = catalog.lock_change(owner, table, &[], &inserted)?;
            match way {
                ChangeWay::InsertNew(keys) => {
                    let new = catalog.insert_new(table, &rows, memory, keys)?;
                    let filtered = |rows: &[RecordBatch]| {
                        let pairs = rows.iter().zip(&new);
                        pairs.map(|(rows, new)| filter_record_batch(rows, new)).collect::<Result<Vec<_>, _>>()
                    };
                    rows = filtered(&rows).map_err(from_arrow)?;
                    returned = filtered(&returned).map_err(from_arrow)?;
                }
                ChangeWay::Insert { replace } => catalog.insert(table, &inserted, memory, *replace)?,
                _ => return Err(Error::bug("rows that change take another way")),
            }
        }
        for rows in &rows {
            triggers.after(Operation::Insert, None, Some(rows))?;
        }
        triggers.statement(false)?;
        let count = rows.iter().map(|rows| rows.num_rows() as u64).sum();
        self.give_back(given(triggers, rows, returned)?);
        Ok(count)
    }

    /// The same of rows that go, or give way to others.
    pub(super) fn apply_triggered(
        &self,
        triggers: &Triggers,
        table: &ObjectRef,
        steps: RowSteps,
        has_values: bool,
        mut memory: Reservation,
        returned: impl Iterator<Item = RecordBatch>,
    ) -> Result<(u64, Vec<RecordBatch>)> {
        let RowSteps { mut updated, updates, mut removed, inserts, done } = steps;
        triggers.statement(true)?;
        let (catalog, owner) = (triggers.catalog(), self.writer.owner);
        if !has_values {
            removed.append(&mut updated);
        }
        let whole = |batches: Vec<RecordBatch>| match batches.first() {
            Some(first) => concat_batches(&first.schema(), &batches).map_err(from_arrow).map(Some),
            None => Ok(None),
        };
        let (updates, inserts) = (whole(updates)?.filter(|_| has_values), whole(inserts)?);
        let mut old = catalog.rows_of(table, &updated)?;
        let mut new = updates.filter(|rows| rows.num_rows() > 0);
        if let Some(rows) = new.take() {
            let (rows, kept) = triggers.before(Operation::Update, Some(&old), rows)?;
            old = filter_record_batch(&old, &kept).map_err(from_arrow)?;
            updated = kept_of(&updated, &kept);
            new = Some(rows);
        }
        let (gone, kept) = triggers.before(Operation::Delete, None, catalog.rows_of(table, &removed)?)?;
        removed = kept_of(&removed, &kept);
        let come = match inserts.filter(|rows| rows.num_rows() > 0) {
            Some(rows) => Some(triggers.before(Operation::Insert, None, rows)?.0),
            None => None,
        };
        let count = updated.len() + removed.len() + come.as_ref().map_or(0, RecordBatch::num_rows);
        let pairs = updated.len();
        let deleted = updated.iter().chain(&removed).copied().collect::<Vec<_>>();
        let inserted = new.iter().chain(&come).filter(|rows| rows.num_rows() > 0).cloned().collect::<Vec<_>>();
        keep(&mut memory, &inserted);
        if count > 0 {
            let inserted = as_new(&inserted);
            let _locked = catalog.lock_change(owner, table, &deleted, &inserted)?;
            catalog.change(table, RowChange { deleted, inserted, memory, pairs })?;
        }
        if let Some(new) = &new {
            triggers.after(Operation::Update, Some(&old), Some(new))?;
        }
        triggers.after(Operation::Delete, Some(&gone), None)?;
        if let Some(come) = &come {
            triggers.after(Operation::Insert, None, Some(come))?;
        }
        triggers.statement(false)?;
        let returned = returned.zip(&done).map(|(rows, done)| filter_record_batch(&rows, done).map_err(from_arrow));
        let returned = returned.collect::<Result<Vec<_>>>()?;
        let shown = match (inserted.is_empty(), has_values) {
            (true, false) => vec![gone],
            _ => inserted,
        };
        Ok((count as u64, given(triggers, shown, returned)?))
    }
}

fn kept_of(numbers: &[i64], kept: &BooleanArray) -> Vec<i64> {
    numbers.iter().enumerate().filter(|(place, _)| kept.value(*place)).map(|(_, number)| *number).collect()
}

/// What a statement gives back: what the plan has computed or, where rows may be others, columns of the rows.
fn given(triggers: &Triggers, rows: Vec<RecordBatch>, returned: Vec<RecordBatch>) -> Result<Vec<RecordBatch>> {
    let (Some(places), Some(first)) = (&triggers.returned, returned.first()) else { return Ok(returned) };
    let schema = first.schema();
    let shown = rows.iter().map(|rows| {
        let columns = places.iter().zip(schema.fields());
        let columns = columns.map(|(place, field)| cast(rows.column(*place), field.data_type()).map_err(from_arrow));
        RecordBatch::try_new(schema.clone(), columns.collect::<Result<Vec<_>>>()?).map_err(from_arrow)
    });
    shown.collect()
}
