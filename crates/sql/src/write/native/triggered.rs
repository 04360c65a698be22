//! A statement's rows on their way into a table that has triggers, or whose followers have some.
//!
//! ```text
//!   BEFORE of the table ─▶ its rows change ─▶ RETURNING ─┐
//!        ┌────────────────────────────────────────────────┘
//!        └▶ for each change, the first first: BEFORE of the tables whose rows follow it ─▶ these rows change
//!                                              └▶ AFTER of its table
//! ```

use std::collections::{HashSet, VecDeque};

use arrow::compute::concat_batches;
use diligence_catalog::rules::ReferenceAction;
use diligence_catalog::transaction::{Following, LedChange};

use super::*;
use crate::write::triggers::{Operation, Transition, Triggers};

/// What was done with rows of a table, before its triggers behind that have run.
struct Done {
    table: ObjectRef,
    /// What runs; nothing, if the table has no triggers.
    triggers: Option<Arc<Triggers>>,
    operations: Vec<Operation>,
    /// The rows that changed, before and after it.
    updated: Option<(RecordBatch, RecordBatch)>,
    /// Those that went.
    gone: Option<RecordBatch>,
    /// Those that came.
    come: Option<RecordBatch>,
    /// What others may follow.
    led: Option<LedChange>,
}

impl Done {
    /// Runs what is behind the change of each row.
    fn after_rows(&self, triggers: &Triggers) -> Result<()> {
        let in_order = [Operation::Update, Operation::Delete, Operation::Insert];
        in_order.into_iter().try_for_each(|operation| triggers.after(operation, self.rows(operation)))
    }

    /// The rows that something was done with.
    fn rows(&self, operation: Operation) -> Transition<'_> {
        match operation {
            Operation::Insert => Transition { old: None, new: self.come.as_ref() },
            Operation::Update => Transition {
                old: self.updated.as_ref().map(|(old, _)| old),
                new: self.updated.as_ref().map(|(_, new)| new),
            },
            Operation::Delete => Transition { old: self.gone.as_ref(), new: None },
            Operation::Truncate => Transition::default(),
        }
    }
}

impl NativeOperation {
    /// Rows that come, with what runs before and behind them. Gives their number.
    pub(super) fn insert_triggered(
        &self,
        triggers: &Arc<Triggers>,
        table: &ObjectRef,
        layout: &Layout,
        way: &ChangeWay,
        batches: &[RecordBatch],
        mut memory: Reservation,
    ) -> Result<u64> {
        triggers.before_statement()?;
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
        let count = rows.iter().map(|rows| rows.num_rows() as u64).sum();
        self.give_back(triggers.given(&rows, returned)?);
        let done = Done {
            table: table.clone(),
            triggers: Some(triggers.clone()),
            operations: triggers.operations.clone(),
            updated: None,
            gone: None,
            come: whole(rows)?,
            led: None,
        };
        self.behind(triggers, done)?;
        Ok(count)
    }

    /// The same of rows that go, or give way to others.
    pub(super) fn apply_triggered(
        &self,
        triggers: &Arc<Triggers>,
        table: &ObjectRef,
        steps: RowSteps,
        has_values: bool,
        mut memory: Reservation,
        returned: impl Iterator<Item = RecordBatch>,
    ) -> Result<(u64, Vec<RecordBatch>)> {
        let RowSteps { mut updated, updates, mut removed, inserts, done } = steps;
        triggers.before_statement()?;
        let catalog = triggers.catalog();
        if !has_values {
            removed.append(&mut updated);
        }
        let (updates, inserts) = (whole(updates)?.filter(|_| has_values), whole(inserts)?);
        let mut old = catalog.rows_of(table, &updated)?;
        let mut new = updates.filter(|rows| rows.num_rows() > 0);
        let mut changed = BooleanArray::from(vec![true; updated.len()]);
        if let Some(rows) = new.take() {
            let (rows, kept) = triggers.before(Operation::Update, Some(&old), rows)?;
            old = filter_record_batch(&old, &kept).map_err(from_arrow)?;
            updated = kept_of(&updated, &kept);
            (new, changed) = (Some(rows), kept);
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
        let led = match count > 0 {
            true => {
                let inserted = as_new(&inserted);
                self.changed_alone(&catalog, table, RowChange { deleted, inserted, memory, pairs })?
            }
            false => None,
        };
        let returned = returned.zip(&done).map(|(rows, done)| filter_record_batch(&rows, done).map_err(from_arrow));
        let mut returned = returned.collect::<Result<Vec<_>>>()?;
        let shown = match (inserted.is_empty(), has_values) {
            (true, false) => vec![gone.clone()],
            _ => inserted,
        };
        if triggers.returned.is_some() {
            // What is beside rows that something was done with, row by row.
            let beside = whole(returned)?.filter(|rows| rows.num_columns() > 0);
            let kept = if has_values { &changed } else { &kept };
            let beside = beside.map(|rows| filter_record_batch(&rows, kept).map_err(from_arrow)).transpose()?;
            returned = beside.into_iter().collect();
        }
        let given = triggers.given(&shown, returned)?;
        let done = Done {
            table: table.clone(),
            triggers: Some(triggers.clone()),
            operations: triggers.operations.clone(),
            updated: new.map(|new| (old, new)),
            gone: Some(gone),
            come,
            led,
        };
        self.behind(triggers, done)?;
        Ok((count as u64, given))
    }

    /// Changes rows. What refers to them follows at once, or is to be asked for if that is given.
    fn changed_alone(&self, catalog: &Catalog, table: &ObjectRef, change: RowChange) -> Result<Option<LedChange>> {
        let _locked = catalog.lock_change(self.writer.owner, table, &change.deleted, &change.inserted)?;
        let follows = self.writer.triggers.as_ref().is_some_and(|triggers| !triggers.followers.is_empty());
        match follows {
            true => catalog.change_alone(table, change).map(Some),
            false => catalog.change(table, change).map(|()| None),
        }
    }

    /// Has rows of other tables follow a change, and theirs, and runs what is behind all of it.
    fn behind(&self, triggers: &Arc<Triggers>, first: Done) -> Result<()> {
        let catalog = triggers.catalog();
        let (mut queue, mut all, mut begun) = (VecDeque::from([first]), Vec::new(), HashSet::new());
        while let Some(mut done) = queue.pop_front() {
            if let Some(led) = done.led.take() {
                for (table, reference) in catalog.referring(&done.table) {
                    let Following::Rows(change) = catalog.following(&led, &table, &reference)? else { continue };
                    let own = triggers.followers.get(&(table.id, reference.name.clone()));
                    let went = done.gone.as_ref().is_some_and(|gone| gone.num_rows() > 0);
                    let action = if went { reference.on_delete } else { reference.on_update };
                    let operation = match (&change, action) {
                        (Some(change), _) if change.pairs == 0 => Operation::Delete,
                        (Some(_), _) => Operation::Update,
                        (None, ReferenceAction::Refuse | ReferenceAction::Restrict) => continue,
                        (None, ReferenceAction::Cascade) if went => Operation::Delete,
                        (None, _) => Operation::Update,
                    };
                    let is_first = begun.insert((table.id, operation == Operation::Update));
                    if let Some(own) = own.filter(|_| is_first) {
                        own.before_statement_of(operation)?;
                    }
                    queue.push_back(self.follow(&catalog, own, &table, (operation, change))?);
                }
                all.push(led);
            }
            let Some(own) = &done.triggers else { continue };
            done.after_rows(own)?;
            let is_last = |operation: &&Operation| {
                !queue.iter().any(|later| later.table.id == done.table.id && later.operations.contains(operation))
            };
            // What began last ends first.
            for operation in done.operations.iter().rev().filter(is_last) {
                own.after_statement(*operation, done.rows(*operation))?;
            }
        }
        catalog.end_well(&all)
    }

    /// Has rows of a table follow others, with what runs before it.
    fn follow(
        &self,
        catalog: &Catalog,
        triggers: Option<&Arc<Triggers>>,
        table: &ObjectRef,
        (operation, change): (Operation, Option<RowChange>),
    ) -> Result<Done> {
        let mut done = Done {
            table: table.clone(),
            triggers: triggers.cloned(),
            operations: vec![operation],
            updated: None,
            gone: None,
            come: None,
            led: None,
        };
        let Some(RowChange { deleted, inserted, mut memory, pairs }) = change else { return Ok(done) };
        let (mut replaced, mut removed) = (deleted[..pairs].to_vec(), deleted[pairs..].to_vec());
        let new = whole(inserted.iter().filter_map(NewRows::batch).cloned().collect())?;
        let mut inserted = Vec::new();
        if let Some(new) = new.filter(|_| pairs > 0) {
            let old = catalog.rows_of(table, &replaced)?;
            let (old, new) = match triggers {
                None => (old, new),
                Some(triggers) => {
                    let (new, kept) = triggers.before(Operation::Update, Some(&old), new)?;
                    replaced = kept_of(&replaced, &kept);
                    (filter_record_batch(&old, &kept).map_err(from_arrow)?, new)
                }
            };
            inserted.push(new.clone());
            done.updated = Some((old, new));
        }
        if !removed.is_empty() {
            let mut gone = catalog.rows_of(table, &removed)?;
            if let Some(triggers) = triggers {
                let (rows, kept) = triggers.before(Operation::Delete, None, gone)?;
                removed = kept_of(&removed, &kept);
                gone = rows;
            }
            done.gone = Some(gone);
        }
        let pairs = replaced.len();
        let deleted = replaced.into_iter().chain(removed).collect::<Vec<_>>();
        if !deleted.is_empty() {
            inserted.retain(|rows| rows.num_rows() > 0);
            keep(&mut memory, &inserted);
            let change = RowChange { deleted, inserted: as_new(&inserted), memory, pairs };
            done.led = self.changed_alone(catalog, table, change)?;
        }
        Ok(done)
    }
}

fn whole(batches: Vec<RecordBatch>) -> Result<Option<RecordBatch>> {
    match batches.first() {
        Some(first) => concat_batches(&first.schema(), &batches).map_err(from_arrow).map(Some),
        None => Ok(None),
    }
}

fn kept_of(numbers: &[i64], kept: &BooleanArray) -> Vec<i64> {
    numbers.iter().enumerate().filter(|(place, _)| kept.value(*place)).map(|(_, number)| *number).collect()
}
