//! What becomes of a statement, and of the block that it stands in.

use diligence_base::Error;

use super::wire::Broken;

/// What ends a statement, or the session.
pub(super) enum Trouble {
    /// The statement failed; the session goes on.
    Failed(Error),
    /// The connection cannot go on.
    Broken(Broken),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Trouble::Failed(error)
    }
}

impl From<Broken> for Trouble {
    fn from(broken: Broken) -> Self {
        Trouble::Broken(broken)
    }
}

pub(super) type Outcome<T = ()> = std::result::Result<T, Trouble>;

/// A block of statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// None: every statement stands by itself.
    None,
    /// Statements are its parts.
    Open,
    /// A statement failed: nothing but ROLLBACK goes on.
    Failed,
}
