//! Whether anything is left of the queries that a database ran.

use std::time::{Duration, Instant};

use diligence_db::Database;
use diligence_engine::query::QueryState;

/// How long the packets of an ended query may take to go: a quantum each, on a machine that may be busy.
const PATIENCE: Duration = Duration::from_secs(10);

/// Waits until no query runs, no packet is queued or running, and no byte is reserved but those of the tables in
/// memory; says what is left if something is.
pub fn wait(database: &Database) -> Result<(), String> {
    let end = Instant::now() + PATIENCE;
    loop {
        match leftovers(database) {
            None => return Ok(()),
            Some(left) if Instant::now() > end => return Err(format!("{left}, {PATIENCE:?} after the last statement")),
            Some(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// What is left of queries, if anything is.
pub fn leftovers(database: &Database) -> Option<String> {
    let engine = database.engine();
    if let Some(query) = engine.queries().into_iter().find(|query| query.state == QueryState::Running) {
        return Some(format!("a query still runs: {}", query.label));
    }
    if let Some(stage) = engine.stages().into_iter().find(|stage| stage.queued > 0 || stage.running > 0) {
        return Some(format!("stage {} still has packets", stage.name));
    }
    // What is kept for later queries is nobody's.
    let sharing = engine.sharing();
    let buffer = engine.buffer().info().shards.iter().map(|shard| shard.bytes).sum::<usize>();
    let kept = sharing.retained_bytes + sharing.columns_bytes + engine.table_memory().reserved_bytes() + buffer;
    match engine.broker().reserved_bytes().saturating_sub(kept) {
        0 => None,
        bytes => Some(format!("{bytes} bytes are still reserved")),
    }
}
