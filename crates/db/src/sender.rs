//! Who has sent the statement that a session runs: procedures show it what they print, and ask whether it has gone.

use std::sync::{Arc, Weak};

use diligence_engine::query::Printed;
use diligence_engine::stages::{Caller, Message, on_behalf_of};

/// Who has sent a statement.
pub(crate) struct Sender {
    has_gone: Box<dyn Fn() -> bool + Send + Sync>,
    printed: Printed,
}

impl Sender {
    /// Whoever is shown what a statement prints; `has_gone` says whether it still waits for the statement.
    pub(crate) fn new(has_gone: impl Fn() -> bool + Send + Sync + 'static, printed: Printed) -> Self {
        Self { has_gone: Box::new(has_gone), printed }
    }

    /// Does something on this thread that it has sent: triggers print for it.
    pub(crate) fn sends<T>(self: &Arc<Self>, body: impl FnOnce() -> T) -> T {
        let own: Weak<Self> = Arc::downgrade(self);
        on_behalf_of(own, body)
    }
}

impl Caller for Sender {
    fn is_stopped(&self) -> bool {
        (self.has_gone)()
    }

    fn printed(&self, message: Message) {
        self.printed.add(message);
    }
}
