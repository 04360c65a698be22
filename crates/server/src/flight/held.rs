//! Sessions of tokens, as long as connections hold them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::session::FlightSession;

/// How long a session waits for a new connection with its token.
const TOKEN_REST: Duration = Duration::from_secs(60);

/// What has the sessions of all tokens.
pub(super) trait Forgets: Send + Sync {
    /// Forgets a token over whose session no connection is left.
    fn forget_unused(&self, token: &str);
}

/// A session with the connections over which it is used.
pub(super) struct TokenSession {
    pub(super) session: Arc<FlightSession>,
    pub(super) connections: AtomicUsize,
}

impl TokenSession {
    /// A session that no connection uses yet.
    pub(super) fn new(session: Arc<FlightSession>) -> Self {
        Self { session, connections: AtomicUsize::new(0) }
    }
}

/// A token's session, held by a connection.
pub(super) struct Held {
    tokens: Weak<dyn Forgets>,
    token: String,
    held: Arc<TokenSession>,
}

impl Held {
    /// Holds a session of these.
    pub(super) fn new(tokens: Weak<dyn Forgets>, token: &str, held: Arc<TokenSession>) -> Self {
        held.connections.fetch_add(1, Ordering::AcqRel);
        Self { tokens, token: token.to_owned(), held }
    }

    /// The session.
    pub(super) fn session(&self) -> Arc<FlightSession> {
        self.held.session.clone()
    }

    /// Whether it holds this session.
    pub(super) fn is_of(&self, session: &Arc<FlightSession>) -> bool {
        Arc::ptr_eq(&self.held.session, session)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.held.connections.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        let (tokens, token) = (self.tokens.clone(), std::mem::take(&mut self.token));
        // Without a runtime the server has ended, and everything with it.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            tokio::time::sleep(TOKEN_REST).await;
            if let Some(tokens) = tokens.upgrade() {
                tokens.forget_unused(&token);
            }
        });
    }
}
