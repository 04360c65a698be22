//! How long a session may take: for a statement, for a transaction, and at rest.

use std::time::Duration;

use diligence_base::{Error, ErrorKind};
use tokio::time::Instant;

use super::session::{Block, PgSession, Trouble};
use super::wire::Broken;
use crate::sqlstate;

/// When something has to end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Deadline {
    at: Instant,
    of: Over,
}

/// What is over then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    /// The time of a statement: it fails, and the session goes on.
    Statement,
    /// The time of a transaction. The session ends with it, and with each of those below.
    Transaction,
    /// The time that a session may rest within a transaction, with its locks.
    RestInTransaction,
    /// The time that it may rest outside of one.
    Rest,
}

impl Deadline {
    /// Ends when it has come; never, if there is none. What becomes of the statement and the session then.
    pub(super) async fn over(deadline: Option<Self>) -> Trouble {
        match deadline {
            None => std::future::pending().await,
            Some(deadline) => {
                tokio::time::sleep_until(deadline.at).await;
                deadline.trouble()
            }
        }
    }

    fn trouble(self) -> Trouble {
        let error = |text, code| Error::new(ErrorKind::Cancelled, text).with_code(code);
        let ends = |text, code| Trouble::Broken(Broken::Malformed(error(text, code)));
        match self.of {
            Over::Statement => {
                let text = "the statement took longer than statement_timeout allows";
                Trouble::Failed(error(text, sqlstate::CANCELLED))
            }
            Over::Transaction => ends("terminating connection due to transaction timeout", "25P04"),
            Over::RestInTransaction => ends("terminating connection due to idle-in-transaction timeout", "25P03"),
            Over::Rest => ends("terminating connection due to idle-session timeout", "57P05"),
        }
    }
}

impl PgSession {
    /// When a statement that begins now has to end.
    pub(super) fn deadline(&self) -> Option<Deadline> {
        let now = Instant::now();
        let statement = self.settings.timeout().map(|time| Deadline { at: now + time, of: Over::Statement });
        sooner(statement, self.transaction_deadline(now))
    }

    /// When a session that rests since then has to do something.
    pub(super) fn rest_deadline(&self, since: Instant) -> Option<Deadline> {
        let until = |name, of| self.settings.duration(name).map(|time| Deadline { at: since + time, of });
        match self.block {
            Block::None => until("idle_session_timeout", Over::Rest),
            Block::Open | Block::Failed => sooner(
                until("idle_in_transaction_session_timeout", Over::RestInTransaction),
                self.transaction_deadline(since),
            ),
        }
    }

    /// When the transaction has to end that goes on, or that begins now.
    fn transaction_deadline(&self, now: Instant) -> Option<Deadline> {
        let time: Duration = self.settings.duration("transaction_timeout")?;
        Some(Deadline { at: self.block_began.unwrap_or(now) + time, of: Over::Transaction })
    }
}

fn sooner(one: Option<Deadline>, other: Option<Deadline>) -> Option<Deadline> {
    [one, other].into_iter().flatten().min_by_key(|deadline| deadline.at)
}
