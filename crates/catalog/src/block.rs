//! The changes of one statement that makes several, as one whose WITH writes: others see all of them at once, or none.
//!
//! In a transaction of the session they are changes of that, and going back means back to where the statement began.
//! Outside of one they are a transaction of their own, which no other statement of the session is in. Its locks stay
//! while the statement is started anew, so it waits as a transaction does.

use std::sync::Arc;

use diligence_base::Result;
use parking_lot::Mutex;

use crate::transaction::{Transaction, TransactionMark};
use crate::{Catalog, SessionCatalogs};

/// The changes of a statement that makes several. Dropped before it is committed, nothing of them is left.
#[derive(Debug)]
pub struct StatementBlock {
    within: Within,
    /// What had been changed when it began; `None` once it has ended.
    begun: Mutex<Option<TransactionMark>>,
}

#[derive(Debug)]
enum Within {
    /// The transaction of the session.
    Session(SessionCatalogs),
    /// One of its own.
    Own(Transaction),
}

impl SessionCatalogs {
    /// Begins a statement that makes several changes.
    pub fn begin_block(&self) -> StatementBlock {
        match self.mark() {
            Some(mark) => StatementBlock { within: Within::Session(self.clone()), begun: Mutex::new(Some(mark)) },
            None => {
                let own = Transaction::begin_as(self.shared().clone(), self.owner()).of_statement();
                let begun = Mutex::new(Some(own.mark()));
                StatementBlock { within: Within::Own(own), begun }
            }
        }
    }
}

impl StatementBlock {
    /// Where its changes are made.
    pub fn catalog(&self) -> Arc<Catalog> {
        match &self.within {
            Within::Session(catalogs) => catalogs.catalog(),
            Within::Own(own) => own.catalog().clone(),
        }
    }

    /// Takes back what it has changed. It keeps its locks.
    pub fn undo(&self) {
        if let Some(begun) = &*self.begun.lock() {
            match &self.within {
                Within::Session(catalogs) => catalogs.back_to(begun),
                Within::Own(own) => own.back_to(begun),
            }
        }
    }

    /// Begins anew, with what others have committed meanwhile. Fails with code 40001 if that does not go together with
    /// what the transaction has changed before.
    pub fn begin_anew(&self) -> Result<()> {
        let mark = match &self.within {
            Within::Session(catalogs) => catalogs.mark(),
            Within::Own(own) => {
                own.refresh()?;
                Some(own.mark())
            }
        };
        *self.begun.lock() = mark;
        Ok(())
    }

    /// Whether [`commit`](Self::commit) waits for no disk.
    pub fn commits_at_once(&self) -> bool {
        match &self.within {
            Within::Session(_) => true,
            Within::Own(own) => {
                let is_kept = own.catalog().inside().is_some_and(|inside| inside.base.journal().is_some());
                !is_kept || !own.waits_at_end()
            }
        }
    }

    /// Ends it: its changes stay, and those of a statement by itself are everybody's. Fails as
    /// [`SessionCatalogs::commit`] does; then nothing of them is left.
    pub fn commit(&self) -> Result<()> {
        if let Within::Own(own) = &self.within {
            own.commit(false)?;
        }
        *self.begun.lock() = None;
        Ok(())
    }
}

impl Drop for StatementBlock {
    fn drop(&mut self) {
        self.undo();
    }
}
