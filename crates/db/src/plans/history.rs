//! What plans have used when they ran: what a server expects of them the next time.

use std::sync::Arc;
use std::time::Duration;

use diligence_base::limits::CHEAP_WORK_MAX;
use parking_lot::Mutex;

/// What a statement has used so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// The most memory that its operators had reserved.
    pub memory_bytes: usize,
    /// Time on workers, of all of them together. Unlike the time that has gone by, it does not grow when other queries
    /// run as well.
    pub worked: Duration,
}

/// What a plan used when it ran last. For a plan that has not run yet: what one like it used.
#[derive(Debug, Default)]
pub struct PlanHistory {
    last: Mutex<Option<Used>>,
    /// The history of all statements that differ in constants only, and are expected to need about the same.
    template: Option<Arc<PlanHistory>>,
}

impl PlanHistory {
    /// The history of a statement of a template.
    pub fn of(template: Arc<PlanHistory>) -> Self {
        Self { last: Mutex::default(), template: Some(template) }
    }

    /// The history of its template: of whichever statement of it runs next. Itself if it has no template.
    pub fn shared(self: &Arc<Self>) -> Arc<PlanHistory> {
        self.template.clone().unwrap_or_else(|| self.clone())
    }

    /// What the plan used the last time, or else a plan of its template; `None` if none has run.
    pub fn used(&self) -> Option<Used> {
        let own = *self.last.lock();
        own.or_else(|| self.template.as_ref()?.used())
    }

    /// Notes what the plan used this time. A statement that did not come to its end may have needed more than it used.
    pub fn note(&self, used: Used, is_complete: bool) {
        if let Some(template) = &self.template {
            template.note(used, is_complete);
        }
        let mut last = self.last.lock();
        *last = match *last {
            Some(before) if !is_complete => Some(Used {
                memory_bytes: before.memory_bytes.max(used.memory_bytes),
                worked: before.worked.max(used.worked),
            }),
            // What is cheap so far may have been going to be heavy.
            None if !is_complete && used.worked <= CHEAP_WORK_MAX => None,
            _ => Some(used),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_that_was_ended_early_does_not_seem_cheap() {
        let used = |milliseconds| Used { memory_bytes: 0, worked: Duration::from_millis(milliseconds) };
        let history = PlanHistory::default();
        history.note(used(1), false);
        assert_eq!(history.used(), None);
        history.note(used(900), false);
        history.note(used(1), false);
        assert_eq!(history.used(), Some(used(900)));
        history.note(used(1), true);
        assert_eq!(history.used(), Some(used(1)));
    }
}
