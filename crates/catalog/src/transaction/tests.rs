//! Tests of transactions that wait for a disk: what others see of them, and what is left when the disk fails.

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use diligence_base::ids::TableVersion;
use diligence_memory::QueryMemory;
use parking_lot::Condvar;

use super::*;
use crate::guard::LockWay;
use crate::journal::Journal;
use crate::locks::{MUST_WAIT, RowLock};
use crate::{CatalogSnapshot, DEFAULT_SCHEMA, ObjectRef};

/// A log whose disk answers when it is told to.
#[derive(Debug, Default)]
struct HeldLog {
    state: Mutex<HeldState>,
    told: Condvar,
}

#[derive(Debug, Default)]
struct HeldState {
    appended: LogPosition,
    synced: LogPosition,
    /// What syncs end with; they wait, if `None`.
    answer: Option<bool>,
    is_lost: bool,
}

impl HeldLog {
    fn answers(&self, answer: Option<bool>) {
        self.state.lock().answer = answer;
        self.told.notify_all();
    }
}

/// A test that fails leaves no thread waiting.
struct Ends<'a>(&'a HeldLog);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.answers(Some(false));
        }
    }
}

impl Journal for HeldLog {
    fn stage(&self, _rows: &[NewRows]) -> Result<Staged> {
        Ok(Staged::default())
    }

    fn append(&self, _entries: Vec<(Staged, Entry)>) -> Result<LogPosition> {
        let mut state = self.state.lock();
        if state.is_lost {
            return Err(conflict());
        }
        state.appended += 1;
        self.told.notify_all();
        Ok(state.appended)
    }

    fn sync(&self, position: LogPosition) -> Result<()> {
        let mut state = self.state.lock();
        loop {
            if state.synced >= position {
                return Ok(());
            }
            match state.answer {
                None => self.told.wait(&mut state),
                Some(true) => state.synced = state.appended,
                Some(false) => {
                    state.is_lost = true;
                    return Err(Error::file("the disk failed"));
                }
            }
        }
    }

    fn synced(&self) -> LogPosition {
        self.state.lock().synced
    }

    fn has_lost(&self) -> bool {
        self.state.lock().is_lost
    }

    fn forget_lost(&self) {
        self.state.lock().is_lost = false;
    }
}

fn batch(values: &[i64]) -> RecordBatch {
    RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from(values.to_vec())) as ArrayRef)]).unwrap()
}

fn values(snapshot: &CatalogSnapshot, name: &RelationName) -> Vec<i64> {
    let Relation::Native(table) = &snapshot.get(name).unwrap().relation else { panic!("no table") };
    let pieces = table.pieces().iter().map(|piece| piece.read().unwrap());
    pieces.flat_map(|rows| rows.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
}

fn code<T>(result: Result<T>) -> Option<&'static str> {
    result.err().and_then(|error| error.code())
}

/// A table of 1 and 2, which is kept in a log that answers yes.
fn two_rows() -> (Arc<Catalog>, Arc<HeldLog>, ObjectRef) {
    let (catalog, log) = (Arc::new(Catalog::default()), Arc::new(HeldLog::default()));
    catalog.keep_in(log.clone());
    log.answers(Some(true));
    let name = RelationName::new(DEFAULT_SCHEMA, "t");
    let memory = QueryMemory::unbounded().reservation("a table in memory");
    let rows = batch(&[1, 2]);
    let table = NativeTable::new(&name, &rows.schema(), &[rows], memory, TableVersion(1)).unwrap();
    catalog.create(&name, Relation::Native(Arc::new(table)), false).unwrap();
    let table = catalog.snapshot().get(&name).unwrap().reference();
    (catalog, log, table)
}

/// Replaces the row of a number.
fn replace(on: &Catalog, by: LockOwner, table: &ObjectRef, row: i64, value: i64) -> Result<()> {
    let (deleted, inserted) = (vec![row], vec![NewRows::Memory(batch(&[value]))]);
    let _locked = on.lock_change(by, table, None, &deleted, &inserted)?;
    let memory = QueryMemory::unbounded().reservation("a table in memory");
    on.change(table, RowChange { deleted, inserted, memory, pairs: 0 })
}

#[test]
fn who_tells_a_client_what_it_sees_waits_for_the_disk() {
    for is_kept in [true, false] {
        let (catalog, log, table) = two_rows();
        let name = table.name.clone();
        log.answers(None);
        let alone = catalog.locks().new_owner();
        let [ann, bob] = [(); 2].map(|()| Transaction::begin(catalog.clone()));
        replace(ann.catalog(), alone, &table, 0, 10).unwrap();
        let before = log.state.lock().appended;
        std::thread::scope(|scope| {
            let _ends = Ends(&log);
            let first = scope.spawn(|| ann.commit(false));
            let mut state = log.state.lock();
            while state.appended == before {
                log.told.wait(&mut state);
            }
            drop(state);
            // Her change is in the log, and may still be lost.
            assert_eq!(code(replace(bob.catalog(), alone, &table, 0, 20)), Some(MUST_WAIT));
            let wait = catalog.locks().wait(bob.owner).unwrap();
            bob.refresh().unwrap();
            assert_eq!(values(&bob.catalog().snapshot(), &name), [1, 2]);
            assert!(wait.is_waiting() && !bob.waits_at_end());
            log.answers(Some(is_kept));
            assert_eq!(first.join().unwrap().is_ok(), is_kept);
            assert!(!wait.is_waiting());
        });
        log.answers(Some(true));
        let replaced = replace(bob.catalog(), alone, &table, 0, 20);
        assert_eq!(code(replaced), is_kept.then_some("40001"));
        bob.refresh().unwrap();
        let seen = if is_kept { [2, 10] } else { [2, 20] };
        assert_eq!(values(&bob.catalog().snapshot(), &name), seen);
        bob.commit(false).unwrap();
        assert_eq!(values(&catalog.snapshot(), &name), seen);
    }
}

#[test]
fn statements_of_which_nobody_hears_pass_the_locks_of_those_that_wait_for_the_disk() {
    for is_kept in [true, false] {
        let (catalog, log, table) = two_rows();
        let name = table.name.clone();
        log.answers(None);
        let alone = catalog.locks().new_owner();
        let [ann, bob, carl, dora] = [(); 4].map(|()| Transaction::begin(catalog.clone()).of_statement());
        replace(ann.catalog(), alone, &table, 0, 10).unwrap();
        assert_eq!(code(replace(bob.catalog(), alone, &table, 0, 20)), Some(MUST_WAIT));
        let appended = |count: LogPosition| {
            let mut state = log.state.lock();
            while state.appended < count {
                log.told.wait(&mut state);
            }
        };
        let before = log.state.lock().appended;
        std::thread::scope(|scope| {
            let _ends = Ends(&log);
            let first = scope.spawn(|| ann.commit(false));
            appended(before + 1);
            // He is in the queue until this is dropped; if there is nothing, it is his turn already.
            let wait = catalog.locks().wait(bob.owner);
            while wait.as_ref().is_some_and(|wait| wait.is_waiting()) {
                std::thread::yield_now();
            }
            // Only those see her change that build on it, and they go on seeing it.
            assert_eq!(code(replace(bob.catalog(), alone, &table, 0, 20)), Some("40001"));
            bob.refresh().unwrap();
            assert_eq!(values(&bob.catalog().snapshot(), &name), [2, 10]);
            bob.refresh().unwrap();
            replace(bob.catalog(), alone, &table, 2, 20).unwrap();
            assert_eq!(values(&bob.catalog().snapshot(), &name), [2, 20]);
            assert_eq!(values(&catalog.snapshot(), &name), [1, 2]);
            dora.refresh().unwrap();
            assert_eq!(values(&dora.catalog().snapshot(), &name), [1, 2]);
            // A statement by itself would answer at once: it waits.
            assert_eq!(code(replace(&catalog, alone, &table, 0, 30)), Some(MUST_WAIT));
            // So does the end of a transaction that has only looked.
            let locked = carl.catalog().lock_row(alone, &table, 0, RowLock::Update, LockWay::Fail);
            assert_eq!(code(locked), Some("55P03"), "bob has it");
            let second = scope.spawn(|| bob.commit(false));
            appended(before + 2);
            let locked = || carl.catalog().lock_row(alone, &table, 0, RowLock::Update, LockWay::Wait);
            while code(locked()) == Some(MUST_WAIT) {
                std::thread::yield_now();
            }
            carl.refresh().unwrap();
            assert_eq!(values(&carl.catalog().snapshot(), &name), [2, 20]);
            assert!(carl.waits_at_end() && !dora.waits_at_end());
            let third = scope.spawn(|| carl.commit(false));
            assert!(!third.is_finished());
            log.answers(Some(is_kept));
            for thread in [first, second, third] {
                assert_eq!(thread.join().unwrap().is_ok(), is_kept);
            }
        });
        let now = if is_kept { [2, 20] } else { [1, 2] };
        assert_eq!(values(&catalog.snapshot(), &name), now);
        log.answers(Some(true));
        // New rows have the numbers of those that were lost.
        let erin = Transaction::begin(catalog.clone());
        replace(erin.catalog(), alone, &table, 1, 40).unwrap();
        erin.commit(false).unwrap();
        assert_eq!(values(&catalog.snapshot(), &name), [now.into_iter().find(|value| *value != 2).unwrap(), 40]);
    }
}

#[test]
fn who_has_seen_what_was_lost_keeps_nothing() {
    let (catalog, log, table) = two_rows();
    let name = table.name.clone();
    let alone = catalog.locks().new_owner();
    log.answers(None);
    let [ann, bob, carl] = [(); 3].map(|()| Transaction::begin(catalog.clone()).of_statement());
    replace(ann.catalog(), alone, &table, 0, 10).unwrap();
    std::thread::scope(|scope| {
        let _ends = Ends(&log);
        let before = log.state.lock().appended;
        let first = scope.spawn(|| ann.commit(false));
        let mut state = log.state.lock();
        while state.appended == before {
            log.told.wait(&mut state);
        }
        drop(state);
        while code(replace(bob.catalog(), alone, &table, 0, 20)) != Some("40001") {
            std::thread::yield_now();
        }
        bob.refresh().unwrap();
        replace(bob.catalog(), alone, &table, 2, 20).unwrap();
        log.answers(Some(false));
        first.join().unwrap().unwrap_err();
    });
    log.answers(Some(true));
    // The number of ann's row is another row's now.
    replace(carl.catalog(), alone, &table, 1, 30).unwrap();
    carl.commit(false).unwrap();
    assert_eq!(code(bob.refresh()), Some("40001"));
    assert_eq!(code(bob.commit(false)), Some("40001"));
    assert_eq!(values(&catalog.snapshot(), &name), [1, 30]);
}
