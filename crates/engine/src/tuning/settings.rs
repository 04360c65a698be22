//! What the tuner may turn, and how far.

use crate::stages::{PolicyKind, StageId};

/// A knob, as the tuner knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KnobId {
    /// Packets that may work on one pipeline.
    Packets,
    /// The quantum, in microseconds.
    Quantum,
    /// Batches that a producer may be ahead.
    PortCredits,
    /// Clusters that a scan may have in flight for each packet.
    ReadAhead,
    /// Rows in a batch.
    BatchRows,
    /// Threads that wait for files.
    IoThreads,
    /// Which of [`POLICIES`] decides across stages.
    Policy,
    /// Which of [`STAGE_POLICIES`] decides within one.
    PolicyOf(StageId),
    /// Workers that may serve a stage at once; as many as there are is no limit.
    WorkersOf(StageId),
}

/// How many there are.
pub const KNOBS: usize = 17;

/// Policies across stages, from what is best for the shortest queries to what is best for long ones that have data in
/// common.
pub const POLICIES: [PolicyKind; 5] = [
    PolicyKind::TwoLevel(2),
    PolicyKind::TwoLevel(6),
    PolicyKind::TwoLevel(18),
    PolicyKind::ProcessorSharing,
    PolicyKind::CGated(10),
];

/// Policies within a stage; `None` is that across stages.
pub const STAGE_POLICIES: [Option<PolicyKind>; 3] = [None, Some(PolicyKind::Fcfs), Some(PolicyKind::TGated(2))];

/// A value of a knob that stands for a policy which is not among those above: the tuner leaves it alone.
pub const OTHER: usize = usize::MAX;

impl KnobId {
    /// All of them. Stages whose packets come from no other stage, or are few, have no policies and no numbers of
    /// workers worth trying.
    pub const ALL: [KnobId; KNOBS] = [
        KnobId::Packets,
        KnobId::Quantum,
        KnobId::PortCredits,
        KnobId::ReadAhead,
        KnobId::BatchRows,
        KnobId::IoThreads,
        KnobId::Policy,
        KnobId::PolicyOf(StageId::Scan),
        KnobId::PolicyOf(StageId::Join),
        KnobId::PolicyOf(StageId::Aggregate),
        KnobId::PolicyOf(StageId::Sort),
        KnobId::PolicyOf(StageId::Exchange),
        KnobId::WorkersOf(StageId::Scan),
        KnobId::WorkersOf(StageId::Join),
        KnobId::WorkersOf(StageId::Aggregate),
        KnobId::WorkersOf(StageId::Sort),
        KnobId::WorkersOf(StageId::Exchange),
    ];

    /// Its place in [`ALL`](Self::ALL).
    pub fn index(self) -> usize {
        Self::ALL.iter().position(|knob| *knob == self).unwrap_or(0)
    }

    /// The setting that it is, and of which stage.
    pub fn name(self) -> String {
        match self {
            KnobId::Packets => "packets".into(),
            KnobId::Quantum => "quantum".into(),
            KnobId::PortCredits => "port_credits".into(),
            KnobId::ReadAhead => "read_ahead".into(),
            KnobId::BatchRows => "batch_rows".into(),
            KnobId::IoThreads => "io_threads".into(),
            KnobId::Policy => "stage_policy".into(),
            KnobId::PolicyOf(stage) => format!("stage_policy {}", stage.name()),
            KnobId::WorkersOf(stage) => format!("stage_workers {}", stage.name()),
        }
    }

    /// A value of it, for people.
    pub fn shown(self, value: usize) -> String {
        let policy = match self {
            KnobId::Quantum => return format!("{value}us"),
            KnobId::Policy => POLICIES.get(value).map(PolicyKind::to_string),
            KnobId::PolicyOf(_) => {
                STAGE_POLICIES.get(value).map(|kind| kind.map_or("none".into(), |kind| kind.to_string()))
            }
            _ => Some(value.to_string()),
        };
        policy.unwrap_or_else(|| "other".into())
    }

    /// The values that the tuner may set, in order; it goes from one to the next. Narrower than what a person may set:
    /// what is beyond has never paid anywhere.
    pub fn steps(self, workers: usize) -> Vec<usize> {
        match self {
            KnobId::Packets | KnobId::WorkersOf(_) => (1..=workers.max(1)).collect(),
            KnobId::Quantum => vec![500, 1000, 2000, 4000, 8000],
            KnobId::PortCredits => vec![2, 4, 8, 16],
            KnobId::ReadAhead => vec![1, 2, 3, 4, 6, 8],
            KnobId::BatchRows => vec![1024, 2048, 4096, 8192],
            KnobId::IoThreads => vec![2, 4, 6, 8, 12, 16],
            KnobId::Policy => (0..POLICIES.len()).collect(),
            KnobId::PolicyOf(_) => (0..STAGE_POLICIES.len()).collect(),
        }
    }
}

/// What all knobs are set to, and what the tuner may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Worker threads.
    pub workers: usize,
    /// Their values.
    pub values: [usize; KNOBS],
    /// What they are when nobody turns them.
    pub homes: [usize; KNOBS],
    /// Which of them a person has set: these stay as they are.
    pub pinned: [bool; KNOBS],
    /// Whether the tuner may turn them, and not only say what it would.
    pub may_turn: bool,
}

impl Settings {
    /// What a knob is set to.
    pub fn of(&self, knob: KnobId) -> usize {
        self.values[knob.index()]
    }

    /// What it is when nobody turns it.
    pub fn home(&self, knob: KnobId) -> usize {
        self.homes[knob.index()]
    }

    /// The next value up or down; `None` at the end, where the value is none of the tuner's, or where a person has set
    /// it.
    pub fn next(&self, knob: KnobId, direction: Direction) -> Option<usize> {
        if self.pinned[knob.index()] {
            return None;
        }
        let steps = knob.steps(self.workers);
        let place = steps.iter().position(|step| *step == self.of(knob))?;
        match direction {
            Direction::Up => steps.get(place + 1).copied(),
            Direction::Down => place.checked_sub(1).map(|place| steps[place]),
        }
    }

    /// The direction of home; `None` if it is there.
    pub fn homeward(&self, knob: KnobId) -> Option<Direction> {
        match self.of(knob).cmp(&self.home(knob)) {
            std::cmp::Ordering::Less => Some(Direction::Up),
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Greater => Some(Direction::Down),
        }
    }
}

/// Which way a knob is turned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To more, or to what is later in the order.
    Up,
    /// To less.
    Down,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_in_order_and_within_what_a_person_may_set() {
        for workers in [0, 1, 2, 64] {
            let knobs = crate::knobs::Knobs::new(workers);
            for knob in KnobId::ALL {
                let steps = knob.steps(workers);
                assert!(steps.is_sorted() && !steps.is_empty());
                let limits = match knob {
                    KnobId::Packets | KnobId::WorkersOf(_) => knobs.packets.limits(),
                    KnobId::Quantum => knobs.quantum_us.limits(),
                    KnobId::PortCredits => knobs.port_credits.limits(),
                    KnobId::ReadAhead => knobs.read_ahead.limits(),
                    KnobId::BatchRows => knobs.batch_rows.limits(),
                    KnobId::IoThreads => knobs.io_threads.limits(),
                    KnobId::Policy | KnobId::PolicyOf(_) => 0..=steps.len() - 1,
                };
                assert!(steps.iter().all(|step| limits.contains(step)), "{knob:?} {steps:?} {limits:?}");
            }
        }
        let numbers: Vec<_> = KnobId::ALL.into_iter().map(KnobId::index).collect();
        assert_eq!(numbers, (0..KNOBS).collect::<Vec<_>>());
    }
}
