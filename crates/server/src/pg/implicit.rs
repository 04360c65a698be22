//! Implicit blocks: statements that a client sends together are one transaction, as in PostgreSQL.
//!
//! Together are the statements of a script, and those between two Syncs, as drivers send a batch. The block begins with
//! the first of them and is committed behind the last. If one fails, nothing of the others stays. BEGIN among them
//! makes it a block like others, which takes in what was done before it; COMMIT and ROLLBACK end it, and the next
//! statement begins another.
//!
//! A statement that comes with its own Sync, as nearly all do, stands by itself: no block is opened for it.

use diligence_base::{Error, ErrorKind, Result};

use super::portal::{Prepared, PreparedKind};
use super::session::PgSession;
use super::trouble::{Block, Outcome};
use crate::session::commands::{Command, Discarded};
use crate::sqlstate;

impl PgSession {
    /// Begins an implicit block for a statement that others follow, if it is in no block. Fails as
    /// [`open_block`](Self::open_block) does.
    pub(super) fn open_implicit_block(&mut self, statement: &Prepared) -> Result<()> {
        if self.block != Block::None || !may_be_part(&statement.kind) {
            return Ok(());
        }
        self.open_block(self.settings.isolation(), !self.settings.is_read_only())?;
        self.is_deferrable = self.settings.is_deferrable();
        self.is_implicit = true;
        Ok(())
    }

    /// The same before an Execute, unless its Sync is there already, or it may end transactions itself. Fails in the
    /// same way.
    pub(super) fn open_pipeline(&mut self, statement: &Prepared) -> Outcome {
        if !may_commit(&statement.text) && !self.inbox.has_sync_next() {
            self.open_implicit_block(statement)?;
        }
        Ok(())
    }

    /// Commits the implicit block, if there is one. Fails as COMMIT does.
    pub(super) async fn end_implicit_block(&mut self) -> Outcome {
        if self.is_implicit { self.end_block(true).await } else { Ok(()) }
    }
}

/// Whether a statement runs a procedure or a block of code, which may have COMMIT in it.
fn may_commit(text: &str) -> bool {
    let word = text.split_whitespace().next().unwrap_or_default();
    ["call", "do"].iter().any(|known| word.eq_ignore_ascii_case(known))
}

/// Whether a statement may be part of an implicit block. What begins and ends transactions knows itself what to do.
fn may_be_part(kind: &PreparedKind) -> bool {
    let PreparedKind::Command(command) = kind else { return !matches!(kind, PreparedKind::Empty) };
    let ends = matches!(command, Command::Commit | Command::Rollback | Command::Chain { .. });
    let begins = matches!(command, Command::Begin(_) | Command::Start(_));
    !ends && !begins && !matches!(command, Command::Discard(Discarded::All))
}

/// Whether a statement that an implicit block refuses runs by itself, behind what was before it. What PostgreSQL
/// refuses as well (VACUUM) does so only where nothing was; what it lets into blocks (COPY to a file) does so anywhere.
pub(super) fn stands_alone(error: &Error, is_first: bool) -> bool {
    let is_refused = error.code() == Some(sqlstate::ACTIVE_TRANSACTION);
    is_refused && (is_first || error.kind() == ErrorKind::Unsupported)
}
