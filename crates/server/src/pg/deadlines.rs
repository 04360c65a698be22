//! How long a session may take: for a statement, for a transaction, and at rest.

use diligence_base::{Error, ErrorKind};
use tokio::time::Instant;

use super::trouble::Trouble;
use super::wire::Broken;
use crate::sqlstate;

/// When something has to end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Deadline {
    pub(super) at: Instant,
    pub(super) of: Over,
}

/// What is over then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
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

/// Whichever comes first.
pub(super) fn sooner(one: Option<Deadline>, other: Option<Deadline>) -> Option<Deadline> {
    [one, other].into_iter().flatten().min_by_key(|deadline| deadline.at)
}
