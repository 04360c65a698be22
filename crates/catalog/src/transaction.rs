//! A transaction: changes that nobody else sees until they are committed, all at once.
//!
//! ```text
//!   begin ──▶ start: the names as all see them
//!             own:   a catalog of its own, in which the statements of the transaction run
//!   refresh   own becomes what it has changed since start, on top of what all see now; start becomes that
//!   commit    the same onto what all see, as one change
//! ```
//! Since no node of a catalog ever changes, a savepoint is the two roots, and a rollback drops them.
//!
//! Of two transactions that take away one row, the second to commit fails (40001): first committer wins. A row that is
//! only added meets nothing. PostgreSQL would have the second one wait for the first.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use diligence_base::Result;
use diligence_memory::Reservation;
use diligence_storage::foreign_error::from_arrow;
use parking_lot::Mutex;

use crate::carried::Carried;
use crate::catalog::{objects_mut, put};
use crate::journal::{Entry, Staged};
use crate::memory::conflict;
use crate::references::{self, ChangedTable};
use crate::snapshot::{Root, Schema};
use crate::{Catalog, CatalogChange, MemoryRelation, Object, Relation, RelationName, RowChange};

/// A transaction of one session. Used from any thread.
#[derive(Debug)]
pub struct Transaction {
    base: Arc<Catalog>,
    own: Arc<Catalog>,
    start: Mutex<Arc<Root>>,
}

/// The changes of a transaction up to a moment.
#[derive(Clone, Debug)]
pub struct TransactionMark {
    start: Arc<Root>,
    own: Arc<Root>,
}

impl PartialEq for TransactionMark {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.start, &other.start) && Arc::ptr_eq(&self.own, &other.own)
    }
}

/// What a transaction has done to one table.
struct TableDifference {
    deleted: Vec<i64>,
    inserted: Vec<RecordBatch>,
    memory: Option<Reservation>,
}

impl Transaction {
    /// Begins with what all see now.
    pub fn begin(base: Arc<Catalog>) -> Self {
        let start = base.snapshot().0;
        Self { own: Arc::new(base.fork(start.clone())), base, start: Mutex::new(start) }
    }

    /// Where its statements run.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.own
    }

    /// What has been changed up to now.
    pub fn mark(&self) -> TransactionMark {
        let start = self.start.lock().clone();
        TransactionMark { start, own: self.own.snapshot().0 }
    }

    /// Takes back what has been changed since.
    pub fn back_to(&self, mark: &TransactionMark) {
        *self.start.lock() = mark.start.clone();
        self.own.become_root(mark.own.clone());
    }

    /// Sees what others have committed meanwhile, beneath its own changes. Fails with code 40001, and changes nothing,
    /// if they do not go together.
    pub fn refresh(&self) -> Result<()> {
        let mut start = self.start.lock();
        let now = self.base.snapshot().0;
        if Arc::ptr_eq(&*start, &now) {
            return Ok(());
        }
        let mut root = now.clone();
        let mut changed = VecDeque::new();
        for change in differences(&start, &self.own.snapshot().0)? {
            self.base.carry(&mut root, change, true, &mut changed)?;
        }
        self.own.become_root(root);
        *start = now;
        Ok(())
    }

    /// Makes all its changes everybody's. Fails with code 40001 if they do not go together with what others have
    /// committed meanwhile; if `is_alone`, also if others have committed anything; and as a log fails. Then nothing of
    /// them is kept.
    pub fn commit(&self, is_alone: bool) -> Result<()> {
        let start = self.start.lock();
        let own = self.own.snapshot().0;
        if Arc::ptr_eq(&*start, &own) {
            return Ok(());
        }
        let changes = differences(&start, &own)?;
        self.base.commit_all(changes, is_alone.then_some(&*start), true)
    }
}

/// What the names in `own` are, beside those of `start`.
fn differences(start: &Root, own: &Root) -> Result<Vec<Carried>> {
    let mut changes = Vec::new();
    let none = BTreeMap::new();
    let schemas = start.schemas.keys().chain(own.schemas.keys()).collect::<BTreeSet<_>>();
    for name in schemas {
        let (before, after) = (start.schemas.get(name), own.schemas.get(name));
        if let (Some(before), Some(after)) = (before, after)
            && Arc::ptr_eq(before, after)
        {
            continue;
        }
        if let (None, Some(made)) = (before, after) {
            changes.push(Carried::CreateSchema(name.clone(), Schema::new(made.id)));
        }
        let objects = |schema: Option<&Arc<Schema>>| schema.map_or(none.clone(), |schema| schema.objects.clone());
        let (before_objects, after_objects) = (objects(before), objects(after));
        for name in before_objects.keys().chain(after_objects.keys()).collect::<BTreeSet<_>>() {
            let change = match (before_objects.get(name), after_objects.get(name)) {
                (Some(before), Some(after)) if before.version == after.version => None,
                (Some(before), Some(after)) => match (&before.relation, &after.relation) {
                    (Relation::Memory(was), Relation::Memory(is))
                        if before.id == after.id && is.is_declared_as(was) =>
                    {
                        row_change(was, is)?.map(|rows| Carried::Rows(after.clone(), rows))
                    }
                    _ => Some(Carried::Put(after.clone(), Some(before.clone()))),
                },
                (None, Some(after)) => Some(Carried::Put(after.clone(), None)),
                (Some(before), None) => Some(Carried::Drop(before.clone())),
                (None, None) => None,
            };
            changes.extend(change);
        }
        if after.is_none() {
            changes.push(Carried::DropSchema(name.clone()));
        }
    }
    Ok(changes)
}

/// What has become of a table's rows; `None` if nothing.
fn row_change(was: &MemoryRelation, is: &MemoryRelation) -> Result<Option<RowChange>> {
    let TableDifference { deleted, inserted, memory } = difference(was, is)?;
    let Some(mut memory) = memory.filter(|_| !deleted.is_empty() || !inserted.is_empty()) else { return Ok(None) };
    memory.grow(inserted.iter().map(RecordBatch::get_array_memory_size).sum())?;
    Ok(Some(RowChange { deleted, inserted, memory, pairs: 0 }))
}

fn difference(was: &MemoryRelation, is: &MemoryRelation) -> Result<TableDifference> {
    // Rows of before have smaller numbers than those that came.
    let first_new = was.next_number();
    let kept = is.batches().iter().zip(is.numbers());
    let pieces = kept.clone().map(|(rows, numbers)| (numbers.at(0), (numbers, rows.num_rows())));
    let pieces = pieces.collect::<BTreeMap<_, _>>();
    let mut deleted = Vec::new();
    for (rows, numbers) in was.batches().iter().zip(was.numbers()) {
        let rows = rows.num_rows();
        if pieces.get(&numbers.at(0)).is_some_and(|(same, count)| *same == numbers && *count == rows) {
            continue;
        }
        let is_there = |number: i64| {
            let piece = pieces.range(..=number).next_back();
            piece.is_some_and(|(_, (numbers, count))| numbers.position(number, *count).is_some())
        };
        deleted.extend((0..rows).map(|row| numbers.at(row)).filter(|number| !is_there(*number)));
    }
    let mut inserted = Vec::new();
    for (rows, numbers) in kept {
        let count = rows.num_rows();
        if numbers.at(count - 1) < first_new {
            continue;
        }
        let is_new = BooleanArray::from_iter((0..count).map(|row| Some(numbers.at(row) >= first_new)));
        inserted.push(match is_new.true_count() == count {
            true => rows.clone(),
            false => filter_record_batch(rows, &is_new).map_err(from_arrow)?,
        });
    }
    let memory = is.counted().or_else(|| was.counted()).map(Reservation::sibling);
    Ok(TableDifference { deleted, inserted, memory })
}

impl Catalog {
    /// A catalog with these names, in which ids and versions are those of no other.
    fn fork(&self, root: Arc<Root>) -> Self {
        Self::with_root(root, self.shared())
    }

    /// Applies all changes of a transaction or of a statement, as one, with what follows from them in tables that refer
    /// to each other. With `start`, nobody may have changed anything since. `is_carried` says that the changes were
    /// made before, in a transaction.
    pub(crate) fn commit_all(&self, changes: Vec<Carried>, start: Option<&Arc<Root>>, is_carried: bool) -> Result<()> {
        // Nobody makes the next version of a table meanwhile.
        let changed = changes.iter().filter_map(|change| match change {
            Carried::Rows(object, _) => Some(object.clone()),
            _ => None,
        });
        let mut changed = changed.collect::<Vec<_>>();
        changed.sort_by_key(|object| object.id);
        let staged = changes.iter().map(|change| match change {
            Carried::Rows(_, rows) => self.staged(&rows.inserted),
            Carried::Put(object, _) => match &object.relation {
                Relation::Memory(table) => self.staged(table.batches()),
                _ => Ok(Staged::default()),
            },
            _ => Ok(Staged::default()),
        });
        let staged = staged.collect::<Result<Vec<_>>>()?;
        let writing = changed.iter().map(|object| object.writer.lock()).collect::<Vec<_>>();
        let (position, before) = self.append(staged, |root| {
            if start.is_some_and(|start| !Arc::ptr_eq(start, root)) {
                return Err(conflict());
            }
            let (mut told, mut entries) = (Vec::new(), Vec::new());
            let mut changed = VecDeque::new();
            for change in changes {
                let (more, entry) = self.carry(root, change, is_carried, &mut changed)?;
                told.extend(more);
                entries.push((None, entry));
            }
            // A change of one table may ask for one of another, and so on; each row goes once.
            while let Some(table) = changed.pop_front() {
                references::follow(root, &table, |root, change| {
                    let staged = match (&change, self.journal()) {
                        (Carried::Rows(_, rows), Some(journal)) => journal.stage(&rows.inserted)?,
                        _ => Staged::default(),
                    };
                    let (more, entry) = self.carry(root, change, false, &mut changed)?;
                    told.extend(more);
                    entries.push((Some(staged), entry));
                    Ok(())
                })?;
            }
            Ok((told, entries))
        })?;
        drop((writing, before));
        self.settle(position)
    }

    /// Makes one change of a transaction to the names. Fails with code 40001 if it does not go together with them.
    fn carry(
        &self,
        root: &mut Arc<Root>,
        change: Carried,
        is_carried: bool,
        changed: &mut VecDeque<ChangedTable>,
    ) -> Result<(Vec<CatalogChange>, Option<Entry>)> {
        let told =
            |object: &Object, is_naming| CatalogChange { name: object.name.clone(), object: object.id, is_naming };
        let is_as_it_was = |root: &Root, name: &RelationName, was: Option<&Arc<Object>>| {
            root.get(name).map(|object| (object.id, object.version)) == was.map(|object| (object.id, object.version))
        };
        Ok(match change {
            Carried::CreateSchema(name, schema) => {
                if root.schemas.contains_key(&name) {
                    return Err(conflict());
                }
                let id = schema.id;
                Arc::make_mut(root).schemas.insert(name.clone(), schema);
                (vec![], Some(Entry::CreateSchema { id, name }))
            }
            Carried::DropSchema(name) => {
                if root.schemas.get(&name).is_none_or(|schema| !schema.objects.is_empty()) {
                    return Err(conflict());
                }
                Arc::make_mut(root).schemas.remove(&name);
                (vec![], Some(Entry::DropSchema { name }))
            }
            Carried::Put(object, was) => {
                if !is_as_it_was(root, &object.name, was.as_ref()) {
                    return Err(conflict());
                }
                put(root, Object::clone(&object))?;
                let changes = was.iter().filter(|was| was.id != object.id).map(|was| told(was, true));
                let changes = changes.chain([told(&object, true)]).collect();
                (changes, object.relation.is_kept().then(|| Entry::Create(object.clone())))
            }
            Carried::Drop(object) => {
                if root.get(&object.name).is_none_or(|now| now.id != object.id) {
                    return Err(conflict());
                }
                if let Some(objects) = objects_mut(root, &object.name.schema) {
                    objects.remove(&object.name.name);
                }
                let entry = object.relation.is_kept().then(|| Entry::Drop { name: object.name.clone() });
                (vec![told(&object, true)], entry)
            }
            Carried::Rows(object, change) => {
                let now = root.get(&object.name).filter(|now| now.id == object.id).cloned().ok_or_else(conflict)?;
                let Relation::Memory(table) = &now.relation else { return Err(conflict()) };
                let RowChange { mut deleted, inserted, memory, pairs } = change;
                let in_order = deleted.clone();
                deleted.sort_unstable();
                let table = table.changed(&deleted, &inserted, memory, self.next_table_version())?;
                let relation = Relation::Memory(Arc::new(table));
                let after = Arc::new(Object { relation, version: self.next_version(), ..Object::clone(&now) });
                put(root, Object::clone(&after))?;
                changed.push_back(ChangedTable { before: now, after, deleted: in_order, inserted, pairs, is_carried });
                let entry = Entry::Change { table: object.id, name: object.name.clone(), deleted, replace: false };
                (vec![told(&object, false)], Some(entry))
            }
        })
    }
}
