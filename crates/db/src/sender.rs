//! Who has sent the statement that a session runs: procedures show it what they print, and ask whether it has gone.

use std::sync::Arc;

use diligence_engine::query::Printed;
use diligence_engine::stages::Caller;

/// Who has sent a statement.
#[derive(Clone)]
pub(crate) struct Sender {
    has_gone: Arc<dyn Fn() -> bool + Send + Sync>,
    printed: Printed,
}

impl Sender {
    /// Whoever is shown what a statement prints; `has_gone` says whether it still waits for the statement.
    pub(crate) fn new(has_gone: impl Fn() -> bool + Send + Sync + 'static, printed: Printed) -> Self {
        Self { has_gone: Arc::new(has_gone), printed }
    }
}

impl Caller for Sender {
    fn is_stopped(&self) -> bool {
        (self.has_gone)()
    }

    fn printed(&self, text: &str) {
        self.printed.add(text);
    }
}
