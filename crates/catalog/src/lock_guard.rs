//! Locks that a statement has by itself.

use std::sync::Arc;

use crate::locks::{LockOwner, Locks};

/// Locks of a statement outside of a transaction; given back when it is dropped. A statement that waits has nothing
/// meanwhile.
#[derive(Debug)]
#[must_use]
pub struct LockGuard(pub(crate) Option<(Arc<Locks>, LockOwner)>);

impl Drop for LockGuard {
    fn drop(&mut self) {
        if let Some((locks, owner)) = &self.0 {
            locks.end_statement(*owner);
        }
    }
}
