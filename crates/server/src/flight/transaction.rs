//! Transactions and settings of a session: what the actions of Flight SQL and the statements BEGIN, COMMIT, SET and so
//! on do.
//!
//! A session has one transaction at most, whoever began it, and every statement of the session is in it. Calls that
//! name a transaction must name that one. To commit a transaction in which a statement has failed is an error, so that
//! nobody takes it for committed. A commit that fails ends the transaction; clients may roll it back all the same.

use diligence_base::{Error, Result};

use super::prepared::number_of;
use super::session::{FlightSession, Open, State};
use crate::registry::InBlock;
use crate::session::commands::{Lasts, TransactionMode};
use crate::session::settings::{SHARED, Value, shared};
use crate::sqlstate;

/// A transaction that a call begins for itself. Dropped before its end, it is rolled back.
pub(super) struct OwnTransaction<'s> {
    session: &'s FlightSession,
    is_over: bool,
}

impl OwnTransaction<'_> {
    /// Makes the changes everybody's. Fails as a COMMIT does; then nothing of them is there.
    pub(super) async fn commit(mut self) -> Result<()> {
        let committed = self.session.commit().await;
        // Either way.
        self.is_over = true;
        committed
    }
}

impl Drop for OwnTransaction<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.session.roll_back();
        }
    }
}

impl FlightSession {
    /// Begins a transaction, and gives its number. Fails with code 25001 if there is one.
    pub(super) fn begin(&self, mode: TransactionMode) -> Result<u64> {
        let number = self.number();
        let mut state = self.state.lock();
        if state.open.is_some() {
            let error = Error::input("there is a transaction already: a session has one at a time");
            return Err(error.with_code(sqlstate::ACTIVE_TRANSACTION).with_hint("open another connection for another"));
        }
        self.session.begin(mode.isolation.unwrap_or_default())?;
        state.open = Some(Open { number, writes: mode.writes.unwrap_or(true), has_failed: false });
        drop(state);
        self.entry.is_in(InBlock::Yes);
        Ok(number)
    }

    /// Begins a transaction for one call, if there is none.
    pub(super) fn begin_own(&self) -> Result<Option<OwnTransaction<'_>>> {
        if self.state.lock().open.is_some() {
            return Ok(None);
        }
        self.begin(TransactionMode::default())?;
        Ok(Some(OwnTransaction { session: self, is_over: false }))
    }

    /// Whether a transaction was ended by a commit that failed, the last of this session. To roll it back is nothing.
    pub(super) fn has_lost(&self, named: &[u8]) -> bool {
        let number = number_of(named);
        number.is_some() && self.state.lock().lost == number
    }

    /// Fails with code 25P01 unless the transaction that a call names is open; a call need not name one.
    pub(super) fn check_transaction(&self, named: Option<&[u8]>) -> Result<()> {
        let Some(named) = named.filter(|named| !named.is_empty()) else { return Ok(()) };
        let number = number_of(named);
        if number.is_some() && self.state.lock().open.map(|open| open.number) == number {
            return Ok(());
        }
        let error = Error::input("no transaction with this number is open in this session").with_code("25P01");
        Err(error.with_hint("it has been committed or rolled back, or belongs to another session"))
    }

    /// Ends the transaction: its changes are everybody's. Fails with code 25P02 if it has failed, and as a COMMIT does;
    /// then nothing of them is there.
    pub(super) async fn commit(&self) -> Result<()> {
        let open = self.state.lock().open;
        let committed = match open {
            Some(open) if open.has_failed => {
                let error = Error::input("the transaction has failed, so it was rolled back");
                Err(error.with_code(sqlstate::FAILED_TRANSACTION))
            }
            _ => self.execution().commit(&self.session).await,
        };
        if committed.is_err() {
            self.session.roll_back();
        }
        let mut state = self.state.lock();
        self.ended(&mut state, committed.is_ok());
        state.lost = open.filter(|_| committed.is_err()).map(|open| open.number);
        committed
    }

    /// Ends the transaction; nothing of it is left.
    pub(super) fn roll_back(&self) {
        self.session.roll_back();
        self.ended(&mut self.state.lock(), false);
    }

    fn ended(&self, state: &mut State, commits: bool) {
        state.open = None;
        state.savepoints.clear();
        let undone = state.changes.end(commits);
        self.undo(state, undone);
        self.entry.is_in(InBlock::No);
    }

    fn fails(&self, state: &mut State) {
        if let Some(open) = &mut state.open {
            open.has_failed = true;
            self.entry.is_in(InBlock::Failed);
        }
    }

    /// Passes an outcome on; a transaction that is open has failed with it.
    pub(super) fn noted<T>(&self, outcome: Result<T>) -> Result<T> {
        if outcome.is_err() {
            self.fails(&mut self.state.lock());
        }
        outcome
    }

    fn inside(&self) -> Result<()> {
        if self.state.lock().open.is_some() {
            return Ok(());
        }
        Err(Error::input("savepoints belong to transactions, and there is none").with_code("25P01"))
    }

    /// Sets a savepoint.
    pub(super) fn savepoint(&self, name: &str) -> Result<()> {
        self.inside()?;
        self.allowed()?;
        let mark = self.session.transaction_mark();
        self.state.lock().changes.savepoint(name, mark)
    }

    /// Forgets a savepoint.
    pub(super) fn release(&self, name: &str) -> Result<()> {
        self.inside()?;
        self.allowed()?;
        self.state.lock().changes.release(name)
    }

    /// Takes back what the transaction has done since a savepoint.
    pub(super) fn back_to(&self, name: &str) -> Result<()> {
        self.inside()?;
        let mut state = self.state.lock();
        let (undone, mark) = state.changes.back_to(name)?;
        if let Some(mark) = mark {
            self.session.back_to(&mark);
        }
        self.undo(&mut state, undone);
        if let Some(open) = &mut state.open {
            open.has_failed = false;
        }
        self.entry.is_in(InBlock::Yes);
        Ok(())
    }

    /// What SET TRANSACTION says.
    pub(super) fn set_transaction(&self, mode: TransactionMode) {
        if let Some(isolation) = mode.isolation {
            self.session.set_isolation(isolation);
        }
        if let (Some(open), Some(writes)) = (&mut self.state.lock().open, mode.writes) {
            open.writes = writes;
        }
    }

    /// Changes a setting of the client's or of the engine's; gives it its first value back if there is none.
    pub(super) fn change_setting(&self, name: &str, value: Option<&str>, lasts: Lasts) -> Result<()> {
        let mut state = self.state.lock();
        if state.open.is_none() && lasts == Lasts::Block {
            // As long as the transaction, and there is none.
            return Ok(());
        }
        let was = setting_now(&state, name);
        let is_shared = shared(name).is_some();
        match value {
            Some(value) if state.settings.has(name) && !is_shared => drop(state.settings.set(name, value)?),
            None if state.settings.has(name) && !is_shared => drop(state.settings.reset(name)),
            value => drop(self.session.set_within(name, value, lasts == Lasts::Block)?),
        }
        if is_shared {
            self.shared_changed(&mut state);
        }
        self.tell_facts(&state);
        if let Some(was) = was {
            state.changes.note(was, lasts);
        }
        Ok(())
    }

    /// Gives all settings their first values back.
    pub(super) fn reset_all(&self) -> Result<()> {
        let mut state = self.state.lock();
        let changed = state.settings.changed().into_iter().filter_map(|name| setting_now(&state, name));
        let changed = changed.collect::<Vec<_>>();
        self.session.reset_all_within()?;
        state.settings.reset_all();
        self.shared_changed(&mut state);
        self.tell_facts(&state);
        changed.into_iter().for_each(|was| state.changes.note(was, Lasts::Session));
        Ok(())
    }

    /// A setting's value.
    pub(super) fn setting(&self, name: &str) -> Result<String> {
        match self.state.lock().settings.get(name) {
            Some(value) => Ok(value),
            None => self.session.setting(name),
        }
    }

    /// Makes settings of the client what they were, when those of the session are.
    fn undo(&self, state: &mut State, settings: Vec<Value>) {
        settings.into_iter().for_each(|was| drop(state.settings.restore(was)));
        self.shared_changed(state);
        self.tell_facts(state);
    }

    /// Takes over the session's settings that are the client's as well.
    fn shared_changed(&self, state: &mut State) {
        for name in SHARED {
            if let Ok(value) = self.session.setting(name) {
                drop(state.settings.set(name, &value));
            }
        }
    }
}

/// What a setting of the client is that is about to be changed, if that is to be remembered here.
fn setting_now(state: &State, name: &str) -> Option<Value> {
    let is_here = state.open.is_some() && shared(name).is_none();
    state.settings.now(name).filter(|_| is_here)
}
