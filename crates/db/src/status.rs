//! What a database does at this moment: for metrics, boards and listings, so that servers and shells need not know the
//! engine.

use std::sync::Arc;

use diligence_base::sync::latches;
use diligence_engine::Engine;
use diligence_engine::stages::StageId;
use diligence_engine::tuning::{Decision, Outcome};
use diligence_pool::Pool;

pub use diligence_base::sync::LatchInfo;
pub use diligence_base::units::display_bytes;
pub use diligence_disk::{BufferInfo, DirectoryInfo, ShardInfo, TempInfo};
pub use diligence_engine::flow::profile::display_ns;
pub use diligence_engine::query::{Progress, QueryInfo, QueryState};
pub use diligence_engine::reuse::{BuildInfo, SharingInfo};
pub use diligence_engine::stages::{StageInfo, WorkerInfo};
pub use diligence_memory::HolderInfo;
pub use diligence_native::{CheckpointInfo, Checkpoints, LogInfo};
pub use diligence_pool::{PoolNumbers, ProcessInfo, ProcessState};

/// The status of a database's engine. Cheap to clone; each method tells of the moment when it is called, and none of
/// them runs a query or waits for one.
#[derive(Clone)]
pub struct Status(Arc<Engine>, Arc<Pool>);

impl Status {
    pub(crate) fn new(engine: Arc<Engine>, pool: Arc<Pool>) -> Self {
        Self(engine, pool)
    }

    /// The processes that compute functions in other languages.
    pub fn pool(&self) -> Vec<ProcessInfo> {
        self.1.processes()
    }

    /// For Python and for WebAssembly: how many processes there are, their bounds, and how many have started and ended.
    pub fn pool_numbers(&self) -> [PoolNumbers; 2] {
        self.1.numbers()
    }

    /// How many answers such processes have given since the database was opened.
    pub fn pool_calls(&self) -> usize {
        self.1.calls()
    }

    /// Queries that wait for memory or run, and those that ended last, as `system.queries` has them.
    pub fn queries(&self) -> Vec<QueryInfo> {
        self.0.queries()
    }

    /// The engine's stages, each with its queue, its counters and times in microseconds.
    pub fn stages(&self) -> Vec<StageInfo> {
        self.0.stages()
    }

    /// The policy in force within a stage: its own, or that of all; `None` for threads that no policy serves.
    pub fn policy_of(&self, stage: &str) -> Option<String> {
        let policies = self.0.policy();
        let place = StageId::ALL.iter().position(|known| known.name() == stage)?;
        Some(policies.of_stages[place].unwrap_or(policies.global).to_string())
    }

    /// How many workers may serve the stage of a name at once; `None` if all may, or no stage has the name.
    pub fn workers_of(&self, stage: &str) -> Option<usize> {
        let stage = StageId::ALL.into_iter().find(|known| known.name() == stage)?;
        self.0.stage_workers().of(stage)
    }

    /// The workers, each with the packet that it runs now.
    pub fn workers(&self) -> Vec<WorkerInfo> {
        self.0.workers()
    }

    /// What the tuner has decided, or what it would: the last so many, oldest first.
    pub fn tuning(&self) -> Vec<Decision> {
        self.0.tuning().decisions()
    }

    /// How many decisions the tuner has made since the database was opened, by their outcome.
    pub fn tuning_totals(&self) -> Vec<(Outcome, u64)> {
        self.0.tuning().totals()
    }

    /// What the tuner does: `off`, `observe` or `on`.
    pub fn tuning_mode(&self) -> String {
        self.0.tuning_mode().to_string()
    }

    /// The latches: what the threads of this process did with the locks of the engine, whichever database is theirs.
    pub fn latches(&self) -> Vec<LatchInfo> {
        latches()
    }

    /// What queries share: counters, and the states that are built or kept.
    pub fn sharing(&self) -> SharingInfo {
        self.0.sharing()
    }

    /// The memory budget of the process, in bytes.
    pub fn memory_budget_bytes(&self) -> usize {
        self.0.broker().budget_bytes()
    }

    /// Who has reserved memory, and how many bytes: queries with their operators, tables and caches.
    pub fn memory_holders(&self) -> Vec<HolderInfo> {
        self.0.broker().holders()
    }

    /// Bytes that are reserved, by all holders together.
    pub fn memory_reserved_bytes(&self) -> usize {
        self.memory_holders().iter().map(|holder| holder.bytes).sum()
    }

    /// The buffer of clusters that tables on disk are read through: its bytes and counters.
    pub fn buffer(&self) -> BufferInfo {
        self.0.buffer().info()
    }

    /// Temp space: its directories, bytes and counters.
    pub fn temp(&self) -> TempInfo {
        self.0.temp().info()
    }
}
