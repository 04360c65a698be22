//! A statement's rows on their way into a table that has triggers, or whose followers have some.
//!
//! ```text
//!   BEFORE of the table ─▶ its rows change ─▶ RETURNING ─┐
//!        ┌────────────────────────────────────────────────┘
//!        └▶ for each change, the first first: BEFORE of the tables whose rows follow it ─▶ these rows change
//!                                              └▶ AFTER of its table
//! ```

use std::collections::{HashMap, HashSet, VecDeque};

use arrow::compute::{concat_batches, interleave_record_batch};
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
    /// What was done, row by row; all of one kind after the other, if it is empty.
    order: Vec<Operation>,
    /// What others may follow.
    led: Option<LedChange>,
}

impl Done {
    /// Runs what is behind the change of each row.
    fn after_rows(&self, triggers: &Arc<Triggers>) -> Result<()> {
        let mut next = HashMap::<Operation, usize>::new();
        let mut after = |operation: Operation| {
            let row = next.entry(operation).or_default();
            *row += 1;
            triggers.after(operation, self.rows(operation), *row - 1)
        };
        if !self.order.is_empty() {
            return self.order.iter().try_for_each(|operation| after(*operation));
        }
        for operation in [Operation::Update, Operation::Delete, Operation::Insert] {
            let Transition { old, new } = self.rows(operation);
            (0..old.or(new).map_or(0, RecordBatch::num_rows)).try_for_each(|_| after(operation))?;
        }
        Ok(())
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

/// A statement's rows, when everything has run that runs before they change.
#[derive(Default)]
struct Prepared {
    /// What is done with them, row by row.
    order: Vec<Operation>,
    /// Of all rows that something was to be done with, whether it is.
    kept: Vec<bool>,
    /// The numbers of rows that change, and the rows before and after it.
    updated: Vec<i64>,
    old: Vec<RecordBatch>,
    new: Vec<RecordBatch>,
    /// The numbers of rows that go, and the rows.
    removed: Vec<i64>,
    gone: Vec<RecordBatch>,
    /// Rows that come.
    come: Vec<RecordBatch>,
}

impl Prepared {
    /// Fails with code 27000 if what ran before the change has itself changed one of the rows that were there.
    fn are_there(&self, triggers: &Triggers, table: &ObjectRef) -> Result<()> {
        if triggers.catalog().has_rows(table, self.updated.iter().chain(&self.removed)) {
            return Ok(());
        }
        let message = "tuple to be updated was already modified by an operation triggered by the current command";
        let hint = "Consider using an AFTER trigger instead of a BEFORE trigger to propagate changes to other rows.";
        Err(Error::value(message).with_code("27000").with_hint(hint))
    }

    /// Adds rows and runs what is before them. Where something runs before changes of several kinds, it runs row by
    /// row. Nothing runs any more before rows that come, if they are `proposed`.
    fn add(
        &mut self,
        triggers: &Triggers,
        table: &ObjectRef,
        steps: RowSteps,
        has_values: bool,
        proposed: bool,
    ) -> Result<()> {
        let RowSteps { mut updated, updates, mut removed, inserts, order, .. } = steps;
        let order = order.into_iter().map(|step| match step {
            Step::Insert => Operation::Insert,
            Step::Update if has_values => Operation::Update,
            Step::Update | Step::Delete | Step::Lock => Operation::Delete,
        });
        let order = order.collect::<Vec<_>>();
        if !has_values {
            removed.append(&mut updated);
        }
        let catalog = triggers.catalog();
        let (updates, inserts) = (whole(updates)?.filter(|_| has_values), whole(inserts)?);
        let (old, gone) = (catalog.rows_of(table, &updated)?, catalog.rows_of(table, &removed)?);
        let count = |operation: Operation| order.iter().filter(|one| **one == operation).count();
        let kinds = [Operation::Update, Operation::Delete, Operation::Insert];
        let runs = |kind: &&Operation| {
            count(**kind) > 0 && triggers.is_before_rows(**kind) && !(proposed && **kind == Operation::Insert)
        };
        let turns = match kinds.iter().filter(runs).count() > 1 {
            true => order.iter().map(|kind| (*kind, 1)).collect::<Vec<_>>(),
            false => kinds.iter().map(|kind| (*kind, count(*kind))).filter(|(_, rows)| *rows > 0).collect(),
        };
        let (mut next, mut kept) = (HashMap::<Operation, usize>::new(), HashMap::<Operation, VecDeque<bool>>::new());
        for (kind, rows) in turns {
            let first = next.entry(kind).or_default();
            let (from, to) = (*first, *first + rows);
            *first = to;
            let missing = || Error::bug("rows that change have no values");
            let own = match kind {
                Operation::Update => {
                    let old = old.slice(from, rows);
                    let new = updates.as_ref().ok_or_else(missing)?.slice(from, rows);
                    let (new, own) = triggers.before(kind, Some(&old), new)?;
                    self.old.push(filter_record_batch(&old, &own).map_err(from_arrow)?);
                    self.new.push(new);
                    self.updated.extend(kept_of(&updated[from..to], &own));
                    own
                }
                Operation::Delete => {
                    let (gone, own) = triggers.before(kind, None, gone.slice(from, rows))?;
                    self.gone.push(gone);
                    self.removed.extend(kept_of(&removed[from..to], &own));
                    own
                }
                Operation::Insert | Operation::Truncate => {
                    let new = inserts.as_ref().ok_or_else(missing)?.slice(from, rows);
                    let (new, own) = match proposed {
                        true => (new, BooleanArray::from(vec![true; rows])),
                        false => triggers.before(kind, None, new)?,
                    };
                    self.come.push(new);
                    own
                }
            };
            kept.entry(kind).or_default().extend((0..rows).map(|row| own.value(row)));
        }
        for kind in order {
            let is_kept = kept.get_mut(&kind).and_then(VecDeque::pop_front).unwrap_or(false);
            self.kept.push(is_kept);
            self.order.extend(is_kept.then_some(kind));
        }
        Ok(())
    }
}

/// The rows that something was done with, in this order, as RETURNING sees them.
fn in_order(
    order: &[Operation],
    new: Option<&RecordBatch>,
    gone: Option<&RecordBatch>,
    come: Option<&RecordBatch>,
) -> Result<Vec<RecordBatch>> {
    let batches = new.into_iter().chain(gone).chain(come).collect::<Vec<_>>();
    let [_, _, ..] = batches.as_slice() else { return Ok(batches.into_iter().cloned().collect()) };
    let (gone_at, come_at) = (usize::from(new.is_some()), usize::from(new.is_some()) + usize::from(gone.is_some()));
    let mut next = vec![0; batches.len()];
    let places = order.iter().map(|operation| {
        let batch = match operation {
            Operation::Update => 0,
            Operation::Delete => gone_at,
            Operation::Insert | Operation::Truncate => come_at,
        };
        next[batch] += 1;
        (batch, next[batch] - 1)
    });
    let places = places.collect::<Vec<_>>();
    interleave_record_batch(&batches, &places).map(|rows| vec![rows]).map_err(from_arrow)
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
            let locked = catalog.lock_change(owner, table, self.planned(table), &[], &inserted)?;
            match way {
                ChangeWay::InsertNew(keys) => {
                    let new = catalog.insert_new(&locked, table, &rows, memory, keys);
                    let new = new.map_err(|error| catalog.refused(&locked, table, &inserted, error))?;
                    let filtered = |rows: &[RecordBatch]| {
                        let pairs = rows.iter().zip(&new);
                        pairs.map(|(rows, new)| filter_record_batch(rows, new)).collect::<Result<Vec<_>, _>>()
                    };
                    rows = filtered(&rows).map_err(from_arrow)?;
                    returned = filtered(&returned).map_err(from_arrow)?;
                }
                ChangeWay::Insert { replace } => {
                    let came = catalog.insert(table, &inserted, memory, *replace);
                    came.map_err(|error| catalog.refused(&locked, table, &inserted, error))?;
                }
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
            order: vec![],
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
        memory: Reservation,
        returned: impl Iterator<Item = RecordBatch>,
    ) -> Result<(u64, Vec<RecordBatch>)> {
        let (catalog, owner) = (triggers.catalog(), self.writer.owner);
        // What waits has run no trigger yet.
        let update = if has_values { RowLock::NoKeyUpdate } else { RowLock::Update };
        for (rows, mode) in [(&steps.updated, update), (&steps.removed, RowLock::Update)] {
            catalog.lock_rows(owner, table, rows, mode)?;
        }
        let all = [steps.updated.as_slice(), &steps.removed].concat();
        let since = catalog.own_followed(table, &all)?;
        triggers.before_statement()?;
        let returned = returned.zip(&steps.done);
        let returned = returned.map(|(rows, done)| filter_record_batch(&rows, done).map_err(from_arrow));
        let returned = returned.collect::<Result<Vec<_>>>()?;
        let mut prepared = Prepared::default();
        self.lock_met(&triggers.catalog(), table, &steps)?;
        prepared.add(triggers, table, steps, has_values, false)?;
        triggers.catalog().stay_followed(since.as_ref())?;
        prepared.are_there(triggers, table)?;
        self.apply_prepared(triggers, table, prepared, memory, returned)
    }

    /// Has rows come that are not there, and others change, as the triggers that see them first leave them.
    pub(super) fn propose(
        &self,
        table: &ObjectRef,
        proposed: &Proposed,
        batches: Vec<RecordBatch>,
        memory: Reservation,
    ) -> Result<(u64, Vec<RecordBatch>)> {
        let triggers = self.writer.triggers.as_ref().ok_or_else(|| Error::bug("rows are proposed to no trigger"))?;
        triggers.before_statement()?;
        let step = |number: i32| proposed.steps.get(number as usize).copied().unwrap_or(Step::Delete);
        let (mut met, mut prepared) = (Met::default(), Prepared::default());
        // What runs before a row changes runs before the next one is proposed.
        let by_row = triggers.is_before_rows(Operation::Update);
        for batch in batches {
            let size = if by_row { 1 } else { batch.num_rows().max(1) };
            for first in (0..batch.num_rows()).step_by(size) {
                let rows = batch.slice(first, size);
                let (rows, _) = triggers.before(Operation::Insert, None, rows)?;
                if rows.num_rows() == 0 {
                    continue;
                }
                let beside = triggers.catalog().rows_with_key(table, &proposed.key_name, &rows)?;
                let judged = triggers.judged(&proposed.judged, &rows, beside)?;
                let (twice, key) = (Some(proposed.twice), Some(&proposed.key));
                let steps = judged.iter().map(|rows| proposed.layout.unchecked(rows)).collect::<Result<Vec<_>>>()?;
                let steps = RowSteps::of(&steps, &proposed.layout, step, &mut met, twice, key)?;
                self.lock_met(&triggers.catalog(), table, &steps)?;
                prepared.add(triggers, table, steps, true, true)?;
            }
        }
        prepared.are_there(triggers, table)?;
        self.apply_prepared(triggers, table, prepared, memory, vec![])
    }

    /// Changes rows for which everything has run that runs before it, and runs what is behind the change. `beside` is
    /// what the plan gives beside rows that something was to be done with.
    fn apply_prepared(
        &self,
        triggers: &Arc<Triggers>,
        table: &ObjectRef,
        prepared: Prepared,
        mut memory: Reservation,
        mut beside: Vec<RecordBatch>,
    ) -> Result<(u64, Vec<RecordBatch>)> {
        let Prepared { order, kept, updated, old, new, removed, gone, come } = prepared;
        let (old, new, gone, come) = (whole(old)?, whole(new)?, whole(gone)?, whole(come)?);
        let pairs = updated.len();
        let deleted = updated.into_iter().chain(removed).collect::<Vec<_>>();
        let inserted = new.iter().chain(&come).filter(|rows| rows.num_rows() > 0).cloned().collect::<Vec<_>>();
        keep(&mut memory, &inserted);
        let catalog = triggers.catalog();
        let led = match order.is_empty() {
            false => {
                let inserted = as_new(&inserted);
                self.changed_alone(&catalog, table, RowChange { deleted, inserted, memory, pairs })?
            }
            true => None,
        };
        let shown = in_order(&order, new.as_ref(), gone.as_ref(), come.as_ref())?;
        if triggers.returned.is_some() {
            // What is beside rows that something was done with, row by row.
            let kept = BooleanArray::from(kept);
            let all = whole(beside)?.filter(|rows| rows.num_columns() > 0);
            let all = all.map(|rows| filter_record_batch(&rows, &kept).map_err(from_arrow)).transpose()?;
            beside = all.into_iter().collect();
        }
        let count = order.len() as u64;
        let given = triggers.given(&shown, beside)?;
        let done = Done {
            table: table.clone(),
            triggers: Some(triggers.clone()),
            operations: triggers.operations.clone(),
            updated: old.zip(new),
            gone,
            come,
            order,
            led,
        };
        self.behind(triggers, done)?;
        Ok((count, given))
    }

    /// Changes rows. What refers to them follows at once, or is to be asked for if that is given.
    fn changed_alone(&self, catalog: &Catalog, table: &ObjectRef, change: RowChange) -> Result<Option<LedChange>> {
        let (owner, planned) = (self.writer.owner, self.planned(table));
        let locked = catalog.lock_change(owner, table, planned, &change.deleted, &change.inserted)?;
        let inserted = change.inserted.clone();
        let follows = self.writer.triggers.as_ref().is_some_and(|triggers| !triggers.followers.is_empty());
        let led = match follows {
            true => catalog.change_alone(table, change).map(Some),
            false => catalog.change(table, change).map(|()| None),
        };
        led.map_err(|error| catalog.refused(&locked, table, &inserted, error))
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
            order: vec![],
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
