//! Stages: queues of packets, the workers that serve them, the policy that decides what runs next, and their counters.
//!
//! ```text
//!   submit / wake            pop (policy)              run one quantum
//!   ------------->  [queue]  ------------->  worker  ----------------->  finished
//!                      ^                        |
//!                      |------- yielded --------|-- waiting for a waker (in no queue)
//! ```
//!
//! Workers are primed: started once with the engine, one per core, and never for a query (Bortvedt's primed-process
//! pool). A packet runs for one quantum and goes back to its stage's queue, so nobody owns a thread and parallelism is
//! elastic. Nothing here knows what a packet computes.
//!
//! A packet may wait in the middle of a turn for something outside of the engine (`outside`). Meanwhile another thread
//! takes its worker's place, so that as many work as before.
//!
//! Invariants:
//! * A packet is in at most one queue and runs on at most one worker.
//! * Nothing starves: every so often the scheduler serves the packet that has waited longest, whatever the policy says.

mod gated;
#[cfg(test)]
mod gated_tests;
mod info;
mod outside;
mod packet;
mod policies;
mod policy;
mod policy_kind;
mod scheduler;
mod stage_workers;

pub use info::{StageCounters, StageInfo, WorkerInfo};
pub use outside::{Caller, Level, Message, briefly_outside, caller, on_behalf_of, outside};
pub use packet::{Arrival, Packet, PacketState, Quantum, Queueing, Step, Work};
pub use policies::Policies;
pub use policy::Policy;
pub use policy_kind::PolicyKind;
pub use scheduler::{Crew, Scheduler};
pub use stage_workers::StageWorkers;

/// The stages of the engine. A packet's stage is that of its pipeline's source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum StageId {
    /// Decodes clusters and carries their rows as far as they go.
    Scan,
    /// Reads and finishes hash tables.
    Join,
    /// Merges and reads groups.
    Aggregate,
    /// Merges and reads sorted runs.
    Sort,
    /// Carries rows that came through a port.
    Exchange,
    /// Computes functions over windows.
    Window,
    /// Runs the steps of recursive queries.
    Recursive,
    /// Takes rows that come from outside.
    Incoming,
    /// Rows that are known already.
    Values,
    /// Has states at rest give memory back.
    Memory,
}

impl StageId {
    /// All stages, in the order in which a gated policy visits them.
    pub const ALL: [StageId; 10] = [
        StageId::Scan,
        StageId::Join,
        StageId::Aggregate,
        StageId::Sort,
        StageId::Exchange,
        StageId::Window,
        StageId::Recursive,
        StageId::Incoming,
        StageId::Values,
        StageId::Memory,
    ];

    /// The name in `system.stages` and EXPLAIN.
    pub fn name(self) -> &'static str {
        match self {
            StageId::Scan => "scan",
            StageId::Join => "join",
            StageId::Aggregate => "aggregate",
            StageId::Sort => "sort",
            StageId::Exchange => "exchange",
            StageId::Window => "window",
            StageId::Recursive => "recursive",
            StageId::Incoming => "incoming",
            StageId::Values => "values",
            StageId::Memory => "memory",
        }
    }
}
