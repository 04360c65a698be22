//! A part of the buffer, under one lock: descriptors of ranges, and which of them go first.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use diligence_memory::Reservation;

use super::reads::Waiter;
use super::{RangeId, ShardInfo};

/// Bytes of a range.
pub(super) struct Held {
    pub bytes: Vec<u8>,
    /// What counts them, if the buffer keeps them. Behind them, as it goes after them.
    pub memory: Option<Reservation>,
}

impl Held {
    pub fn counted_bytes(&self) -> usize {
        self.memory.as_ref().map_or(0, Reservation::bytes)
    }
}

/// A range that somebody reads, whatever becomes of it in the buffer.
pub(super) struct Pin(Arc<Held>);

impl Pin {
    pub fn bytes(held: &Arc<Held>) -> Bytes {
        Bytes::from_owner(Self(held.clone()))
    }
}

impl AsRef<[u8]> for Pin {
    fn as_ref(&self) -> &[u8] {
        &self.0.bytes
    }
}

pub(super) enum State {
    /// These are told when it is there.
    Reading(Vec<Waiter>),
    Present(Arc<Held>),
}

pub(super) struct Descriptor {
    pub state: State,
    is_kept: bool,
    /// Whether it was found since somebody looked whether it should go.
    was_used: bool,
    /// Its place in the queue: entries of others with its range are out of date.
    stamp: u64,
}

/// Which ranges go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Victims {
    /// Of those that are tossed, what nobody reads.
    Tossed,
    /// Of those that are kept, what nobody reads.
    Kept,
    /// Of those that are tossed, whoever reads them.
    PinnedTossed,
    /// Of those that are kept, whoever reads them.
    PinnedKept,
}

impl Victims {
    fn are_pinned(self) -> bool {
        matches!(self, Self::PinnedTossed | Self::PinnedKept)
    }
}

#[derive(Default)]
pub(super) struct Shard {
    pub descriptors: BTreeMap<RangeId, Descriptor>,
    /// What goes next, first those that are tossed, then those that are kept: ranges with their stamps.
    tossed: VecDeque<(RangeId, u64)>,
    kept: VecDeque<(RangeId, u64)>,
    stamps: u64,
    bytes: usize,
    pub hits_total: u64,
    pub joins_total: u64,
    pub misses_total: u64,
    evictions_total: u64,
    tosses_total: u64,
}

impl Descriptor {
    pub fn read_for(waiter: Waiter, is_kept: bool) -> Self {
        Self { state: State::Reading(vec![waiter]), is_kept, was_used: false, stamp: 0 }
    }
}

impl Shard {
    /// A range that is here.
    pub fn present(&self, id: RangeId) -> Option<Arc<Held>> {
        match &self.descriptors.get(&id)?.state {
            State::Present(held) => Some(held.clone()),
            State::Reading(_) => None,
        }
    }

    /// Somebody has found a range; from now on it is kept, if he says so.
    pub fn use_again(&mut self, id: RangeId, is_kept: bool) {
        let Some(descriptor) = self.descriptors.get_mut(&id) else { return };
        descriptor.was_used = true;
        if is_kept && !descriptor.is_kept {
            descriptor.is_kept = true;
            self.line_up(id);
        }
    }

    /// Puts a range at the end of its queue.
    fn line_up(&mut self, id: RangeId) {
        self.stamps += 1;
        let Some(descriptor) = self.descriptors.get_mut(&id) else { return };
        descriptor.stamp = self.stamps;
        let queue = if descriptor.is_kept { &mut self.kept } else { &mut self.tossed };
        queue.push_back((id, self.stamps));
        // What went otherwise leaves its entries behind.
        if queue.len() > 2 * self.descriptors.len() + 16 {
            let descriptors = &self.descriptors;
            queue.retain(|(id, stamp)| descriptors.get(id).is_some_and(|descriptor| descriptor.stamp == *stamp));
        }
    }

    /// A range is to be read now: gives up if nobody waits for it any more, and gives those who did.
    pub fn give_up(&mut self, id: RangeId) -> Option<Vec<Waiter>> {
        let Some(State::Reading(waiters)) = self.descriptors.get(&id).map(|descriptor| &descriptor.state) else {
            return None;
        };
        if waiters.iter().any(|waiter| waiter.request.is_wanted()) {
            return None;
        }
        Some(self.arrived(id, None))
    }

    /// A range has been read, or could not be: who waits for it. It stays if the buffer counts it.
    pub fn arrived(&mut self, id: RangeId, held: Option<&Arc<Held>>) -> Vec<Waiter> {
        let Some(descriptor) = self.descriptors.get_mut(&id) else { return Vec::new() };
        let State::Reading(waiters) = &mut descriptor.state else { return Vec::new() };
        let waiters = std::mem::take(waiters);
        match held {
            Some(held) if held.memory.is_some() => {
                descriptor.state = State::Present(held.clone());
                self.bytes += held.bytes.len();
                self.line_up(id);
            }
            held => {
                self.descriptors.remove(&id);
                self.tosses_total += u64::from(held.is_some());
            }
        }
        waiters
    }

    /// Takes out so many bytes, or what there is of them. What was used meanwhile goes last.
    pub fn evict(&mut self, bytes: usize, victims: Victims) -> Vec<Arc<Held>> {
        let mut gone = Vec::new();
        let mut freed = 0;
        let entries = self.queue(victims).len();
        // Once around to see what was not used again, and once more for the rest.
        for _ in 0..2 * entries {
            if freed >= bytes {
                break;
            }
            let Some((id, stamp)) = self.queue(victims).pop_front() else { break };
            let Some(descriptor) = self.descriptors.get_mut(&id).filter(|descriptor| descriptor.stamp == stamp) else {
                continue;
            };
            let State::Present(held) = &descriptor.state else { continue };
            let stays = !victims.are_pinned() && Arc::strong_count(held) > 1;
            if std::mem::take(&mut descriptor.was_used) || stays {
                self.queue(victims).push_back((id, stamp));
                continue;
            }
            if let Some(held) = self.remove(id) {
                freed += held.bytes.len();
                self.evictions_total += 1;
                gone.push(held);
            }
        }
        gone
    }

    fn queue(&mut self, victims: Victims) -> &mut VecDeque<(RangeId, u64)> {
        match victims {
            Victims::Tossed | Victims::PinnedTossed => &mut self.tossed,
            Victims::Kept | Victims::PinnedKept => &mut self.kept,
        }
    }

    fn remove(&mut self, id: RangeId) -> Option<Arc<Held>> {
        match self.descriptors.remove(&id)?.state {
            State::Present(held) => {
                self.bytes -= held.bytes.len();
                Some(held)
            }
            State::Reading(_) => None,
        }
    }

    /// Takes out all ranges of a file, which nobody reads any more.
    pub fn forget(&mut self, file: u64) -> Vec<Arc<Held>> {
        let first = RangeId { file, cluster: 0, offset: 0, bytes: 0 };
        let last = RangeId { file, cluster: u32::MAX, offset: u64::MAX, bytes: usize::MAX };
        let ids = self.descriptors.range(first..=last).map(|(id, _)| *id).collect::<Vec<_>>();
        ids.into_iter().filter_map(|id| self.remove(id)).collect()
    }

    pub fn info(&self) -> ShardInfo {
        let (mut ranges, mut pinned_bytes) = (0, 0);
        for descriptor in self.descriptors.values() {
            if let State::Present(held) = &descriptor.state {
                ranges += 1;
                pinned_bytes += if Arc::strong_count(held) > 1 { held.bytes.len() } else { 0 };
            }
        }
        ShardInfo {
            ranges,
            bytes: self.bytes,
            pinned_bytes,
            reading: self.descriptors.len() - ranges,
            hits_total: self.hits_total,
            joins_total: self.joins_total,
            misses_total: self.misses_total,
            evictions_total: self.evictions_total,
            tosses_total: self.tosses_total,
            ..ShardInfo::default()
        }
    }
}
