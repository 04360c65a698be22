//! What stages and workers have done: the counters, and what system tables show of them.

use diligence_base::ids::WorkerId;
use diligence_disk::PoolInfo;

use super::StageId;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// What a stage has done so far.
#[derive(Debug, Default)]
pub struct StageCounters {
    pub(super) queued: AtomicUsize,
    pub(super) running: AtomicUsize,
    pub(super) packets_total: AtomicU64,
    pub(super) turns_total: AtomicU64,
    pub(super) waits_total: AtomicU64,
    pub(super) wait_ns_total: AtomicU64,
    pub(super) service_ns_total: AtomicU64,
}

impl StageCounters {
    /// What they say now of the stage with this name.
    pub(super) fn info(&self, name: &'static str) -> StageInfo {
        StageInfo {
            name,
            queued: self.queued.load(Ordering::Relaxed),
            running: self.running.load(Ordering::Relaxed),
            packets_total: self.packets_total.load(Ordering::Relaxed),
            turns_total: self.turns_total.load(Ordering::Relaxed),
            waits_total: self.waits_total.load(Ordering::Relaxed),
            wait_ns_total: self.wait_ns_total.load(Ordering::Relaxed),
            service_ns_total: self.service_ns_total.load(Ordering::Relaxed),
        }
    }
}

/// A stage at one moment: what `system.stages` shows.
#[derive(Clone, Debug)]
pub struct StageInfo {
    /// Its name.
    pub name: &'static str,
    /// Packets in its queue.
    pub queued: usize,
    /// Packets on workers.
    pub running: usize,
    /// Packets that ever entered.
    pub packets_total: u64,
    /// Turns that packets had on workers.
    pub turns_total: u64,
    /// Turns that ended waiting for something other than a worker.
    pub waits_total: u64,
    /// Time spent in its queue, in nanoseconds.
    pub wait_ns_total: u64,
    /// Time spent on workers, in nanoseconds.
    pub service_ns_total: u64,
}

impl From<PoolInfo> for StageInfo {
    /// Threads for what blocks are a stage as well: its packets are their jobs, which have one turn each.
    fn from(pool: PoolInfo) -> Self {
        Self {
            name: pool.name,
            queued: pool.queued,
            running: pool.running,
            packets_total: pool.jobs_total,
            turns_total: pool.jobs_total - pool.queued as u64,
            waits_total: 0,
            wait_ns_total: pool.wait_ns_total,
            service_ns_total: pool.service_ns_total,
        }
    }
}

/// A worker at one moment: what `system.workers` shows.
#[derive(Clone, Debug)]
pub struct WorkerInfo {
    /// Its number.
    pub id: WorkerId,
    /// Whether it is the express worker, which runs packets of short queries only.
    pub is_express: bool,
    /// The stage whose packet it runs, if any.
    pub stage: Option<&'static str>,
    /// The query whose packet it runs, if any.
    pub query: Option<u64>,
    /// Turns it has given.
    pub turns_total: u64,
    /// Time it has worked, in nanoseconds.
    pub busy_ns_total: u64,
    /// The longest turn that it has given, in nanoseconds: so long others had to wait behind one.
    pub turn_ns_max: u64,
}

/// What a worker writes of itself.
#[derive(Debug, Default)]
pub(super) struct WorkerSlot {
    /// 0 when idle, else 1 + the stage.
    pub(super) stage: AtomicUsize,
    pub(super) query: AtomicU64,
    pub(super) turns_total: AtomicU64,
    pub(super) busy_ns_total: AtomicU64,
    pub(super) turn_ns_max: AtomicU64,
}

impl WorkerSlot {
    /// What the worker with this number does now.
    pub(super) fn info(&self, index: usize, is_express: bool) -> WorkerInfo {
        let stage = self.stage.load(Ordering::Relaxed).checked_sub(1).map(|stage| StageId::ALL[stage].name());
        WorkerInfo {
            id: WorkerId(index as u32),
            is_express,
            stage,
            query: stage.map(|_| self.query.load(Ordering::Relaxed)),
            turns_total: self.turns_total.load(Ordering::Relaxed),
            busy_ns_total: self.busy_ns_total.load(Ordering::Relaxed),
            turn_ns_max: self.turn_ns_max.load(Ordering::Relaxed),
        }
    }
}
