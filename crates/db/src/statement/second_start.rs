//! A query that was refused memory before it gave rows starts again, as one that waits for more: first for half of the
//! budget, then for all that comes back when others have ended. So of queries that do not fit together, none fails that
//! has room alone.

use std::sync::Arc;

use diligence_base::{Error, Result};
use diligence_engine::QueryOptions;
use diligence_engine::query::QueryStream;
use diligence_memory::OUT_OF_MEMORY;
use diligence_sql::Query;

use crate::session::Session;

/// How a query starts again.
pub(crate) struct SecondStart {
    session: Session,
    query: Arc<Query>,
    options: QueryOptions,
    /// What it waits for the next times, the next one last, as a divisor of what it may have.
    grants: Vec<usize>,
}

impl SecondStart {
    /// Of a query that starts with these options; `None` if others start it again, or it must not wait.
    pub(super) fn of(session: &Session, query: &Arc<Query>, options: &QueryOptions) -> Option<Self> {
        let is_left = options.waits_for_memory && !options.starts_again;
        let (session, query, options) = (session.clone(), query.clone(), options.clone());
        is_left.then(|| Self { session, query, options, grants: vec![1, 2] })
    }

    /// Whether it may start again after this error.
    pub(super) fn is_for(&self, error: &Error) -> bool {
        error.code() == Some(OUT_OF_MEMORY) && !self.grants.is_empty()
    }

    /// The query once more: it reads what it read before. Fails as starting it does.
    pub(super) fn start(&mut self) -> Result<QueryStream> {
        let options = QueryOptions { memory_grant_divisor: self.grants.pop(), ..self.options.clone() };
        self.session.in_runtime(|| self.session.run_query(&self.query, options))
    }
}
