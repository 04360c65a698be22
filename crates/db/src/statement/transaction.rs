//! Transactions of a session: statements between BEGIN and COMMIT are seen by others all at once, or never.
//!
//! Servers that answer BEGIN themselves call the methods; a session's own statements do the same.

use std::sync::Arc;

use diligence_base::limits::SAVEPOINTS_MAX;
use diligence_base::{Error, Result};
use diligence_catalog::Isolation;
use diligence_catalog::locks::MUST_WAIT;
use diligence_catalog::transaction::TransactionMark;
use diligence_engine::stages::caller;
use diligence_sql::{DeferredTrigger, TransactionStep};

use super::CancelToken;
use crate::put_off::PutOff;
use crate::remembered::SessionMark;
use crate::sender::Sender;
use crate::session::Session;

impl Session {
    /// Begins a transaction. Fails with code 25001 if the session is in one.
    pub fn begin(&self, isolation: Isolation) -> Result<()> {
        self.savepoints().clear();
        self.planner().catalogs().begin(isolation)
    }

    /// Ends the transaction: others see its changes when this returns. Runs the triggers that were put off, and may
    /// wait for a disk. Fails with code 40001 if its changes do not go together with what others have committed
    /// meanwhile, with kind `File` if they cannot be kept, and as the triggers do; then nothing of them is there.
    pub fn commit(&self) -> Result<()> {
        self.commit_unless(&CancelToken::default())
    }

    /// The same; fails with kind `Cancelled` if it is cancelled while it waits for other transactions.
    pub fn commit_unless(&self, token: &CancelToken) -> Result<()> {
        if let Err(error) = self.run_put_off(|_| true).and_then(|()| self.wait_for_deferred(token)) {
            self.roll_back();
            return Err(error);
        }
        *self.put_off() = PutOff::default();
        self.savepoints().clear();
        self.parts().cursors().end_transaction();
        let committed = self.planner().catalogs().commit();
        let undone = self.remembered().end(committed.is_ok());
        self.restore(undone);
        self.has_said(committed.is_ok());
        committed
    }

    /// Whether what a statement changes now waits for no disk, and so does [`commit`](Self::commit) if `ends` says that
    /// this is meant.
    pub fn commits_at_once(&self, ends: bool) -> bool {
        (!ends || !self.has_put_off()) && self.planner().catalogs().commits_at_once(ends)
    }

    /// Waits for other transactions that take rows away which have unique keys that were deferred. Fails with code
    /// 55P03 if it may not wait as long, with 40P01 if such a transaction waits for this one, and with kind
    /// `Cancelled`.
    fn wait_for_deferred(&self, token: &CancelToken) -> Result<()> {
        loop {
            let error = match self.planner().catalogs().wait_for_deferred() {
                Err(error) if error.code() == Some(MUST_WAIT) => error,
                // What they have done is looked at when the changes come.
                Err(error) if error.code() == Some("40001") => return Ok(()),
                done => return done,
            };
            if let Some(wait) = self.may_go_on(Some(error), &mut 0)? {
                token.wait_for(wait)?;
            }
        }
    }

    /// Whether [`commit`](Self::commit) runs triggers first, or may wait for other transactions.
    pub fn has_put_off(&self) -> bool {
        !self.put_off().is_done() || self.planner().catalogs().defers_keys()
    }

    /// Runs triggers that were put off, and those that come meanwhile, one after the other. Fails as they do.
    fn run_put_off(&self, fits: impl Fn(&DeferredTrigger) -> bool) -> Result<()> {
        if self.put_off().is_done() {
            return Ok(());
        }
        let run = || loop {
            let next = self.put_off().next(&fits);
            let Some(next) = next else { return Ok(()) };
            next.run()?;
        };
        match caller() {
            Some(_) => run(),
            None => Arc::new(Sender::new(|| false, self.printed().clone())).sends(run),
        }
    }

    /// Runs those that SET CONSTRAINTS has no longer wait.
    pub(super) fn run_no_longer_deferred(&self) -> Result<()> {
        self.run_put_off(|trigger| !trigger.is_deferred())
    }

    /// Ends the transaction; nothing of it is left.
    pub fn roll_back(&self) {
        self.savepoints().clear();
        self.parts().cursors().end_transaction();
        *self.put_off() = PutOff::default();
        let undone = self.remembered().end(false);
        self.restore(undone);
        self.has_said(false);
        self.planner().catalogs().roll_back();
    }

    /// Changes what the transaction sees of others, from its next statement on.
    pub fn set_isolation(&self, isolation: Isolation) {
        self.planner().catalogs().set_isolation(isolation);
    }

    /// What the transaction has changed up to now; `None` outside of one.
    pub fn transaction_mark(&self) -> Option<SessionMark> {
        self.planner().catalogs().savepoint().map(|names| self.mark(names))
    }

    /// The same at the begin of a statement, which keeps its locks when it is taken back to be done anew.
    pub(super) fn statement_mark(&self) -> Option<SessionMark> {
        self.planner().catalogs().mark().map(|names| self.mark(names))
    }

    fn mark(&self, names: TransactionMark) -> SessionMark {
        let said = self.said().count();
        let put_off = self.put_off().mark();
        self.remembered().mark(names, said, put_off)
    }

    /// Takes back what the transaction has changed since, and gives back what it has locked.
    pub fn back_to(&self, mark: &SessionMark) {
        self.said().back_to(mark.said);
        self.put_off().back_to(mark.put_off);
        let undone = self.remembered().back_to(mark);
        self.restore(undone);
        self.planner().catalogs().back_to(&mark.names);
    }

    /// Does what a statement says, and gives its tag.
    pub(super) fn step(&self, step: TransactionStep) -> Result<&'static str> {
        let is_inside = self.planner().catalogs().isolation().is_some();
        let inside = || match is_inside {
            true => Ok(()),
            false => Err(Error::input("there is no transaction").with_code("25P01")),
        };
        Ok(match step {
            TransactionStep::Begin(isolation) => {
                self.begin(isolation)?;
                "BEGIN"
            }
            TransactionStep::Commit => {
                inside()?;
                self.commit()?;
                "COMMIT"
            }
            TransactionStep::RollBack => {
                inside()?;
                self.roll_back();
                "ROLLBACK"
            }
            TransactionStep::Chain { commits } => {
                let Some(isolation) = self.planner().catalogs().isolation() else {
                    let what = if commits { "COMMIT" } else { "ROLLBACK" };
                    let message = format!("{what} AND CHAIN can only be used in transaction blocks");
                    return Err(Error::input(message).with_code("25P01"));
                };
                if commits {
                    self.commit()?;
                } else {
                    self.roll_back();
                }
                self.begin(isolation)?;
                if commits { "COMMIT" } else { "ROLLBACK" }
            }
            TransactionStep::Savepoint(name) => {
                inside()?;
                let mark = self.transaction_mark().ok_or_else(|| Error::bug("a transaction has ended"))?;
                let mut savepoints = self.savepoints();
                if savepoints.len() >= SAVEPOINTS_MAX {
                    let error = Error::resource(format!("a transaction has at most {SAVEPOINTS_MAX} savepoints"));
                    return Err(error.with_code("54000").with_hint("RELEASE those that are not needed"));
                }
                savepoints.push((name, mark));
                "SAVEPOINT"
            }
            TransactionStep::Release(name) => {
                inside()?;
                let place = self.place_of(&name)?;
                self.savepoints().truncate(place);
                "RELEASE"
            }
            TransactionStep::RollBackTo(name) => {
                inside()?;
                let place = self.place_of(&name)?;
                self.savepoints().truncate(place + 1);
                let mark = self.savepoints().last().map(|(_, mark)| mark.clone());
                if let Some(mark) = mark {
                    self.back_to(&mark);
                }
                "ROLLBACK"
            }
        })
    }

    fn place_of(&self, name: &str) -> Result<usize> {
        let place = self.savepoints().iter().rposition(|(known, _)| known == name);
        place.ok_or_else(|| Error::input(format!("no savepoint is named '{name}'")).with_code("3B001"))
    }
}

/// Does something in the session's transaction, or in one of its own, which is kept if `keeps` says so.
pub(super) fn in_transaction<T>(
    session: &Session,
    isolation: Isolation,
    keeps: bool,
    body: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let is_inside = session.planner().catalogs().isolation().is_some();
    if !is_inside {
        session.begin(isolation)?;
    }
    // Whatever it looks at first, this is the moment.
    session.planner().catalogs().note_seen();
    let done = body();
    if is_inside {
        return done;
    }
    match (&done, keeps) {
        (Ok(_), true) => session.commit()?,
        _ => session.roll_back(),
    }
    done
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;

    use crate::{Database, Session};

    fn one(session: &Session, sql: &str) -> i64 {
        let rows = session.execute(sql).unwrap().collect().unwrap();
        rows[0].column(0).as_primitive::<Int64Type>().value(0)
    }

    fn run(session: &Session, statements: &[&str]) {
        for statement in statements {
            session.execute(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
    }

    fn code(session: &Session, sql: &str) -> &'static str {
        session.execute(sql).map(|_| ()).unwrap_err().code().unwrap_or("none")
    }

    const SUM: &str = "SELECT coalesce(sum(a), 0)::bigint FROM t";

    #[test]
    fn others_see_a_transaction_all_at_once_or_never() {
        let database = Database::in_memory().unwrap();
        let (ann, bob) = (database.session(), database.session());
        run(&ann, &["CREATE TABLE t (a BIGINT)", "INSERT INTO t VALUES (1), (2)"]);
        run(&ann, &["BEGIN", "INSERT INTO t VALUES (10)", "UPDATE t SET a = a + 100 WHERE a = 1"]);
        run(&ann, &["CREATE TABLE u AS SELECT * FROM t", "SAVEPOINT s", "DELETE FROM t", "DROP TABLE u"]);
        assert_eq!((one(&ann, SUM), one(&bob, SUM)), (0, 3));
        assert_eq!(code(&ann, "SELECT * FROM u"), "42P01");
        run(&ann, &["ROLLBACK TO s"]);
        assert_eq!((one(&ann, SUM), one(&bob, SUM)), (113, 3));
        // What others commit is beneath its own changes.
        run(&bob, &["INSERT INTO t VALUES (1000)"]);
        assert_eq!((one(&ann, SUM), one(&bob, SUM)), (1113, 1003));
        run(&ann, &["COMMIT"]);
        assert_eq!((one(&ann, SUM), one(&bob, SUM)), (1113, 1113));
        assert_eq!(one(&bob, "SELECT count(*) FROM u"), 3);
        run(&ann, &["BEGIN", "DROP TABLE u", "TRUNCATE TABLE t", "ROLLBACK"]);
        assert_eq!((one(&ann, SUM), one(&bob, "SELECT count(*) FROM u")), (1113, 3));
        assert_eq!(code(&ann, "COMMIT"), "25P01");
        run(&ann, &["BEGIN"]);
        assert_eq!(code(&ann, "BEGIN"), "25001");
        assert_eq!(code(&ann, "ROLLBACK TO nowhere"), "3B001");
    }

    #[test]
    fn the_first_to_commit_a_row_wins() {
        let database = Database::in_memory().unwrap();
        let (ann, bob) = (database.session(), database.session());
        run(&ann, &["CREATE TABLE t (a BIGINT)", "INSERT INTO t VALUES (1), (2)"]);
        run(&ann, &["BEGIN ISOLATION LEVEL REPEATABLE READ", "UPDATE t SET a = 10 WHERE a = 1"]);
        run(&bob, &["UPDATE t SET a = 20 WHERE a = 2"]);
        assert_eq!(one(&ann, SUM), 12, "it sees what was there when it began");
        run(&ann, &["COMMIT"]);
        assert_eq!(one(&ann, SUM), 30);
        // What others have changed meanwhile it cannot change.
        run(&ann, &["BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT * FROM t"]);
        run(&bob, &["UPDATE t SET a = 12 WHERE a = 10"]);
        assert_eq!(code(&ann, "UPDATE t SET a = 11 WHERE a = 10"), "40001");
        run(&ann, &["ROLLBACK"]);
        // One that is serializable shares the time with nobody.
        run(&ann, &["BEGIN ISOLATION LEVEL SERIALIZABLE", "INSERT INTO t SELECT sum(a) FROM t"]);
        run(&bob, &["INSERT INTO t VALUES (1)"]);
        assert_eq!(code(&ann, "COMMIT"), "40001");
        assert_eq!(one(&ann, SUM), 33);
    }

    /// Runs a statement that has to wait, on a thread of its own; returns when it waits.
    fn waits(session: &Session, sql: &'static str) -> std::thread::JoinHandle<Result<u64, &'static str>> {
        let (session, locks) = (session.clone(), session.planner().catalogs().locks().clone());
        let owner = session.planner().catalogs().owner();
        let handle = std::thread::spawn(move || {
            let mut result = session.execute(sql).map_err(|error| error.code().unwrap_or("none"))?;
            let mut rows = 0;
            while let Some(batch) = result.next_blocking() {
                rows += batch.map_err(|error| error.code().unwrap_or("none"))?.num_rows() as u64;
            }
            Ok(rows)
        });
        while !locks.shown().iter().any(|lock| lock.owner == owner && !lock.is_granted) {
            assert!(!handle.is_finished(), "{sql} does not wait");
            std::thread::yield_now();
        }
        handle
    }

    #[test]
    fn a_statement_waits_for_the_rows_and_keys_of_an_open_transaction() {
        for ends_well in [true, false] {
            let database = Database::in_memory().unwrap();
            let (ann, bob, carl) = (database.session(), database.session(), database.session());
            let end = if ends_well { "COMMIT" } else { "ROLLBACK" };
            run(&ann, &["CREATE TABLE t (id INT PRIMARY KEY, a BIGINT)", "INSERT INTO t VALUES (1, 1), (2, 2)"]);
            // Inside of a block, and by itself; what was committed meanwhile is seen.
            run(&ann, &["BEGIN", "UPDATE t SET a = a + 10 WHERE id = 1"]);
            run(&bob, &["BEGIN"]);
            let in_block = waits(&bob, "UPDATE t SET a = a + 100 WHERE id = 1");
            let alone = waits(&carl, "UPDATE t SET a = a + 1000 WHERE id = 1");
            run(&database.session(), &["UPDATE t SET a = a + 1 WHERE id = 2"]);
            run(&ann, &[end]);
            in_block.join().unwrap().unwrap();
            run(&bob, &["COMMIT"]);
            alone.join().unwrap().unwrap();
            assert_eq!(one(&ann, SUM), if ends_well { 1114 } else { 1104 });
            // Keys that come.
            run(&ann, &["BEGIN", "INSERT INTO t VALUES (3, 0)"]);
            let twice = waits(&bob, "INSERT INTO t VALUES (3, 5)");
            run(&ann, &[end]);
            let expected = if ends_well { Err("23505") } else { Ok(0) };
            assert_eq!(twice.join().unwrap(), expected);
            // What a condition is no longer true of is left alone.
            run(&ann, &["BEGIN", "UPDATE t SET a = -1 WHERE id = 2"]);
            let gone = waits(&bob, "DELETE FROM t WHERE id = 2 AND a > 0");
            run(&ann, &[end]);
            gone.join().unwrap().unwrap();
            assert_eq!(one(&ann, "SELECT count(*) FROM t WHERE id = 2"), i64::from(ends_well));
        }
    }

    #[test]
    fn truncate_takes_all_rows_or_fails_and_waits_for_those_who_change_what_goes_along() {
        let database = Database::in_memory().unwrap();
        let (ann, bob) = (database.session(), database.session());
        run(&ann, &["CREATE TABLE t (a BIGINT PRIMARY KEY)", "CREATE TABLE u (a BIGINT REFERENCES t)"]);
        run(&ann, &["INSERT INTO t VALUES (1), (2)", "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT * FROM t"]);
        run(&bob, &["INSERT INTO t VALUES (3)"]);
        assert_eq!(code(&ann, "TRUNCATE t CASCADE"), "40001");
        run(&ann, &["ROLLBACK", "BEGIN", "SELECT * FROM t"]);
        run(&bob, &["INSERT INTO t VALUES (4)"]);
        run(&ann, &["TRUNCATE t CASCADE", "COMMIT"]);
        assert_eq!(one(&bob, SUM), 0);
        for begins in [true, false] {
            run(&bob, &["INSERT INTO t VALUES (1)", "BEGIN", "INSERT INTO u VALUES (1)"]);
            run(&ann, if begins { &["BEGIN"] } else { &[] });
            let waits = waits(&ann, "TRUNCATE t CASCADE");
            run(&bob, &["COMMIT"]);
            waits.join().unwrap().unwrap();
            run(&ann, if begins { &["COMMIT"] } else { &[] });
            assert_eq!(one(&bob, SUM) + one(&bob, "SELECT count(*) FROM u"), 0);
        }
    }

    #[test]
    fn rows_are_locked_by_select_and_who_waits_for_each_other_is_told() {
        let database = Database::in_memory().unwrap();
        let (ann, bob, carl) = (database.session(), database.session(), database.session());
        run(&ann, &["CREATE TABLE jobs (id INT PRIMARY KEY, done BOOLEAN)"]);
        run(&ann, &["INSERT INTO jobs SELECT i, false FROM generate_series(1, 5) s(i)"]);
        let next = "SELECT id::bigint FROM jobs WHERE NOT done ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1";
        run(&ann, &["BEGIN"]);
        run(&bob, &["BEGIN"]);
        assert_eq!((one(&ann, next), one(&bob, next), one(&ann, next)), (1, 2, 1));
        // A statement by itself gives its rows back.
        assert_eq!((one(&carl, next), one(&carl, next)), (3, 3));
        assert_eq!(code(&carl, "SELECT * FROM jobs WHERE id = 1 FOR SHARE NOWAIT"), "55P03");
        run(&carl, &["SET lock_timeout = '20ms'"]);
        assert_eq!(code(&carl, "UPDATE jobs SET done = true WHERE id = 2"), "55P03");
        // The queue of jobs in one statement.
        let take = "UPDATE jobs SET done = true WHERE id = (SELECT id FROM jobs WHERE NOT done ORDER BY id                     LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id::bigint";
        assert_eq!((one(&carl, take), one(&carl, take)), (3, 4));
        let ann_waits = waits(&ann, "UPDATE jobs SET done = true WHERE id = 2");
        assert_eq!(code(&bob, "UPDATE jobs SET done = true WHERE id = 1"), "40P01");
        run(&bob, &["ROLLBACK"]);
        ann_waits.join().unwrap().unwrap();
        run(&ann, &["COMMIT"]);
        assert_eq!(one(&ann, "SELECT count(*) FROM jobs WHERE done"), 3);
        // Tables and numbers.
        run(&ann, &["BEGIN", "LOCK TABLE jobs IN SHARE MODE", "SELECT pg_advisory_xact_lock(7)"]);
        let bob_waits = waits(&bob, "DELETE FROM jobs WHERE id = 5");
        let carl_waits = waits(&database.session(), "SELECT pg_advisory_lock(7)");
        run(&ann, &["COMMIT"]);
        bob_waits.join().unwrap().unwrap();
        carl_waits.join().unwrap().unwrap();
        // What was taken behind a savepoint is free when the block goes back to it; what was there before is not.
        run(&ann, &["BEGIN", "UPDATE jobs SET done = false WHERE id = 1", "SAVEPOINT s"]);
        run(&ann, &["UPDATE jobs SET done = false WHERE id = 2", "SELECT pg_advisory_xact_lock(8)"]);
        let bob_waits = waits(&bob, "UPDATE jobs SET done = true WHERE id = 2");
        let carl_waits = waits(&database.session(), "SELECT pg_advisory_lock(8)");
        run(&ann, &["ROLLBACK TO s"]);
        bob_waits.join().unwrap().unwrap();
        carl_waits.join().unwrap().unwrap();
        assert_eq!(code(&carl, "UPDATE jobs SET done = true WHERE id = 1"), "55P03");
        run(&ann, &["COMMIT"]);
        // One that is cancelled while it waits does not go on.
        run(&ann, &["BEGIN", "DELETE FROM jobs"]);
        let mut result = bob.start("UPDATE jobs SET done = false").unwrap();
        assert!(result.work_blocking().unwrap());
        result.cancel_token().cancel();
        assert_eq!(result.next_blocking().unwrap().unwrap_err().kind(), diligence_base::ErrorKind::Cancelled);
    }
}
