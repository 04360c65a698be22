//! DataFusion's memory pool over a query's own account: what its operators reserve counts as the query's, and is
//! refused as the query's.

use std::fmt;

use crate::sync::Mutex;
use datafusion_common::{DataFusionError, Result};
use datafusion_execution::memory_pool::{MemoryLimit, MemoryPool, MemoryReservation};
use diligence_memory::{QueryMemory, Reservation};

/// The pool of one run.
#[derive(Debug)]
pub struct ForeignPool {
    held: Mutex<Reservation>,
    limit_bytes: usize,
}

impl ForeignPool {
    /// A pool that takes from this account.
    pub fn new(memory: &QueryMemory) -> Self {
        Self { held: Mutex::new(memory.reservation("a foreign operator")), limit_bytes: memory.limit_bytes() }
    }
}

impl fmt::Display for ForeignPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.name(), self.reserved())
    }
}

impl MemoryPool for ForeignPool {
    fn name(&self) -> &str {
        "diligence"
    }

    fn grow(&self, _: &MemoryReservation, additional: usize) {
        // DataFusion calls this where it cannot stop any more. The next `try_grow` is refused.
        self.held.lock().overdraw(additional);
    }

    fn shrink(&self, _: &MemoryReservation, shrink: usize) {
        self.held.lock().shrink(shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let mut held = self.held.lock();
        // Who makes do with less troubles nobody.
        let grown =
            if reservation.consumer().can_spill() { held.grow_if_free(additional) } else { held.grow(additional) };
        grown.map_err(exhausted)
    }

    fn reserved(&self) -> usize {
        self.held.lock().bytes()
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.limit_bytes)
    }
}

/// A refusal as DataFusion's operators know it: some of them then write to disk and try again.
fn exhausted(error: diligence_base::Error) -> DataFusionError {
    DataFusionError::ResourcesExhausted(error.message().to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion_execution::memory_pool::MemoryConsumer;
    use diligence_base::ids::QueryId;
    use diligence_memory::Broker;

    use super::*;

    #[test]
    fn who_can_spill_has_nobody_asked_to_give_back() {
        let broker = Broker::new(1000);
        let memory = broker.account(QueryId(1), None);
        let mut rows = memory.revocable("Sort");
        rows.grow(900).unwrap();
        let pool: Arc<dyn MemoryPool> = Arc::new(ForeignPool::new(&memory));
        let modest = MemoryConsumer::new("ParquetSink").with_can_spill(true).register(&pool);
        // A little is left for what comes unforeseen.
        modest.try_grow(50).unwrap();
        assert!(modest.try_grow(1).is_err() && !rows.is_asked());
        let other = MemoryConsumer::new("HashJoinInput").register(&pool);
        other.try_grow(50).unwrap();
        assert!(!rows.is_asked());
        other.try_grow(1).unwrap();
        assert!(rows.is_asked());
    }

    #[test]
    fn what_an_operator_reserves_is_the_querys() {
        let broker = Broker::new(1000);
        let memory = broker.account(QueryId(1), Some(500));
        let pool: Arc<dyn MemoryPool> = Arc::new(ForeignPool::new(&memory));
        let operator = MemoryConsumer::new("HashJoinInput").register(&pool);
        operator.try_grow(400).unwrap();
        assert_eq!((memory.reserved_bytes(), broker.reserved_bytes()), (400, 400));
        let error = operator.try_grow(200).unwrap_err();
        assert!(matches!(&error, DataFusionError::ResourcesExhausted(message) if message.contains("own memory limit")));
        operator.grow(200);
        assert_eq!((memory.reserved_bytes(), pool.reserved()), (600, 600));
        drop(operator);
        assert_eq!((memory.reserved_bytes(), broker.reserved_bytes()), (0, 0));
    }
}
