//! What a policy is: it decides which packet runs next.

use std::sync::Arc;

use super::{Arrival, Packet};

/// Decides what runs next. Called under the scheduler's lock, so every call is short.
pub trait Policy: Send {
    /// A packet is ready to run.
    fn push(&mut self, packet: Arc<Packet>, arrival: Arrival);
    /// The packet that runs next. `None` where packets wait only if as many of their stages have turns as may: the end
    /// of one of these turns lets the next in.
    fn pop(&mut self) -> Option<Arc<Packet>>;
    /// The packet that has waited longest, for the guard against starvation.
    fn pop_oldest(&mut self) -> Option<Arc<Packet>>;
    /// The packet that runs next of those that are urgent.
    fn pop_urgent(&mut self) -> Option<Arc<Packet>> {
        None
    }
    /// Whether a packet goes before others, whose turns are cut short for it.
    fn is_urgent(&self, _packet: &Packet) -> bool {
        false
    }
    /// Whether such a packet waits.
    fn has_urgent(&self) -> bool {
        false
    }
    /// Whether the policy wants to hear of the end of every turn.
    fn follows_turns(&self) -> bool {
        false
    }
    /// A packet's turn has ended, after so many nanoseconds. If it yielded, it is pushed next, under the same lock.
    /// Told of packets that an earlier policy has chosen as well.
    fn turn_ended(&mut self, _packet: &Arc<Packet>, _worked_ns: u64) {}
    /// Every stage may have so many turns beyond the number of workers that may serve it: as many as wait for something
    /// outside of the engine, which others may have to bring about, or any number, when packets move to another policy.
    fn allow_beyond(&mut self, _turns: usize) {}
    /// Cohorts admitted so far and the packets in them; zero for policies without gates.
    fn cohorts(&self) -> (u64, u64) {
        (0, 0)
    }
}
