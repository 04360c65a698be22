//! A snapshot of a server, read from its system tables.

use std::time::Instant;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use diligence_base::{Error, Result};
use diligence_client::blocking::Connection;

/// The comment that marks these statements, so that the dashboard does not show itself.
const MARK: &str = "/* diligence top */";

/// A snapshot of a server.
pub struct Snapshot {
    /// The time at which it was taken.
    pub at: Instant,
    /// The server's stages, in the order in which a statement passes them.
    pub front: Vec<FrontStage>,
    /// The engine's stages.
    pub stages: Vec<EngineStage>,
    /// Active queries, then the latest that ended.
    pub queries: Vec<Query>,
    /// The number of sessions.
    pub sessions: u64,
    /// Reserved memory.
    pub memory_bytes: u64,
    /// The memory budget; 0 if unknown, which it is while nothing is reserved.
    pub budget_bytes: u64,
    /// Temporary disk space in use.
    pub temp_bytes: u64,
}

/// A row of `system.server`.
#[derive(Clone, Debug, Default)]
pub struct FrontStage {
    /// Its name.
    pub name: String,
    /// Statements in its queue.
    pub queued: Option<u64>,
    /// The capacity of its queue.
    pub queue_max: Option<u64>,
    /// Statements on its threads.
    pub running: Option<u64>,
    /// The number of its threads.
    pub running_max: Option<u64>,
    /// Statements completed since the start.
    pub done_total: u64,
    /// Statements rejected since the start.
    pub refused_total: u64,
    /// Total time in the queue since the start.
    pub wait_us_total: Option<u64>,
}

/// A row of `system.stages`.
#[derive(Clone, Debug, Default)]
pub struct EngineStage {
    /// Its name.
    pub name: String,
    /// Packets in its queue.
    pub queued: u64,
    /// Packets running on workers.
    pub running: u64,
    /// Turns since the start.
    pub turns_total: u64,
    /// Total time on workers since the start.
    pub service_us_total: u64,
}

/// A row of `system.queries`.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Its ID; negative while it waits for admission.
    pub id: i64,
    /// `running`, `finished`, …
    pub state: String,
    /// The elapsed time.
    pub elapsed_us: u64,
    /// Clusters read.
    pub clusters_done: u64,
    /// Clusters to read.
    pub clusters_total: u64,
    /// Its reserved memory; the peak, if it has ended.
    pub memory_bytes: u64,
    /// Its text.
    pub statement: String,
    /// Its position in the admission queue and the reason for waiting, if it waits.
    pub waiting: Option<(u64, String)>,
}

impl Query {
    /// Whether it has not ended.
    pub fn is_active(&self) -> bool {
        ["waiting", "queued", "running"].contains(&self.state.as_str())
    }
}

impl Snapshot {
    /// Takes a snapshot. Fails if the connection is lost or the user may not read the system tables.
    pub fn take(connection: &mut Connection) -> Result<Self> {
        let mut rows = |sql: &str| Rows::read(connection, sql);
        let front = rows(
            "SELECT stage, queued, queue_max, running, running_max, done_total, refused_total, wait_us_total FROM system.server",
        )?;
        let front = front.0.iter().map(|row| FrontStage {
            name: text(row, 0),
            queued: number(row, 1),
            queue_max: number(row, 2),
            running: number(row, 3),
            running_max: number(row, 4),
            done_total: number(row, 5).unwrap_or(0),
            refused_total: number(row, 6).unwrap_or(0),
            wait_us_total: number(row, 7),
        });
        let front = front.collect();
        let stages = rows("SELECT name, queued, running, turns_total, service_us_total FROM system.stages")?;
        let stages = stages.0.iter().map(|row| EngineStage {
            name: text(row, 0),
            queued: number(row, 1).unwrap_or(0),
            running: number(row, 2).unwrap_or(0),
            turns_total: number(row, 3).unwrap_or(0),
            service_us_total: number(row, 4).unwrap_or(0),
        });
        let stages = stages.collect();
        let queries = rows(&format!(
            "SELECT id, state, elapsed_us, clusters_done, clusters_total, \
             CASE WHEN state IN ('queued', 'running') THEN memory_bytes ELSE memory_peak_bytes END, statement, position, reason \
             FROM system.queries WHERE statement NOT LIKE '{MARK}%' \
             ORDER BY state IN ('queued', 'running') DESC, state = 'waiting' DESC, position, id DESC LIMIT 100"
        ))?;
        let queries = queries.0.iter().map(|row| Query {
            id: text(row, 0).parse().unwrap_or(0),
            state: text(row, 1),
            elapsed_us: number(row, 2).unwrap_or(0),
            clusters_done: number(row, 3).unwrap_or(0),
            clusters_total: number(row, 4).unwrap_or(0),
            memory_bytes: number(row, 5).unwrap_or(0),
            statement: text(row, 6),
            waiting: number(row, 7).map(|position| (position, text(row, 8))),
        });
        let queries = queries.collect();
        let sums = rows(
            "SELECT (SELECT count(*) FROM system.sessions), (SELECT sum(bytes) FROM system.memory), \
             (SELECT max(budget_bytes) FROM system.memory), (SELECT sum(used_bytes) FROM system.temp)",
        )?;
        let sum = |index| sums.0.first().and_then(|row| number(row, index)).unwrap_or(0);
        Ok(Self {
            at: Instant::now(),
            front,
            stages,
            queries,
            sessions: sum(0),
            memory_bytes: sum(1),
            budget_bytes: sum(2),
            temp_bytes: sum(3),
        })
    }
}

/// Rows in text form; NULL is `None`.
struct Rows(Vec<Vec<Option<String>>>);

impl Rows {
    fn read(connection: &mut Connection, sql: &str) -> Result<Self> {
        let batches = connection.rows(&format!("{MARK} {sql}"))?;
        let rows = batches.iter().map(texts).collect::<std::result::Result<Vec<_>, _>>();
        let rows = rows.map_err(|error| Error::bug(error.to_string()))?;
        Ok(Self(rows.into_iter().flatten().collect()))
    }
}

fn texts(batch: &RecordBatch) -> std::result::Result<Vec<Vec<Option<String>>>, ArrowError> {
    let options = FormatOptions::default();
    let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &options));
    let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
    let value = |column: usize, row| batch.column(column).is_valid(row).then(|| columns[column].value(row).to_string());
    Ok((0..batch.num_rows()).map(|row| (0..batch.num_columns()).map(|column| value(column, row)).collect()).collect())
}

fn text(row: &[Option<String>], index: usize) -> String {
    row.get(index).cloned().flatten().unwrap_or_default()
}

fn number(row: &[Option<String>], index: usize) -> Option<u64> {
    row.get(index)?.as_ref()?.parse().ok()
}
