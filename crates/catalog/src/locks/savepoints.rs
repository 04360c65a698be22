//! Locks that were taken behind a savepoint: they are free when the transaction goes back to it.
//!
//! ```text
//!   mark ──▶ what is taken from now on lies in a layer of its own
//!   back_to a mark: its layer and those behind it are free        the mark is dropped: its layer becomes part of the
//!                                                                 one before, when the next mark is made
//! ```
//! Invariant: an owner without marks has one layer, 0.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Weak};

use diligence_base::ids::ObjectId;

use super::{AdvisoryHold, Held, LockOwner, Locks, State, Wanted};

/// What has a table locked: an owner, and the layer of its transaction that has taken the locks.
pub(super) type Holders = BTreeMap<(LockOwner, u64), Held>;

/// The locks of an owner up to a moment.
#[derive(Clone, Debug)]
pub struct LockMark(Arc<u64>);

/// The marks of an owner, in order.
#[derive(Debug, Default)]
pub(super) struct Marks {
    marks: Vec<(u64, Weak<u64>)>,
    /// Whether anything was taken since the last one.
    is_used: bool,
    /// Whether numbers of applications were taken behind any.
    has_numbers: bool,
}

impl Marks {
    /// The layer of what is taken now.
    fn layer(&self) -> u64 {
        self.marks.last().map_or(0, |(layer, _)| *layer)
    }
}

impl Locks {
    /// The locks that the owner has now. What it takes from now on may be given back without them.
    pub fn mark(&self, owner: LockOwner) -> LockMark {
        let mut state = self.state.lock();
        state.forget_marks(owner);
        let marks = state.marks.entry(owner).or_default();
        if let Some(mark) = marks.marks.last().filter(|_| !marks.is_used).and_then(|(_, mark)| mark.upgrade()) {
            return LockMark(mark);
        }
        let mark = Arc::new(marks.layer() + 1);
        marks.marks.push((*mark, Arc::downgrade(&mark)));
        marks.is_used = false;
        LockMark(mark)
    }

    /// Gives back what the owner has taken since a mark of the same transaction, but numbers that stay.
    pub fn back_to(&self, owner: LockOwner, mark: &LockMark) {
        let mut state = self.state.lock();
        let layer = *mark.0;
        let Some(marks) = state.marks.get_mut(&owner) else { return };
        marks.marks.retain(|(other, _)| *other <= layer);
        marks.is_used = false;
        let freed_tables = state.free_layers(owner, layer);
        let mut freed_numbers = HashSet::new();
        state.advisory.retain(|key, holds| {
            let before = holds.len();
            holds.retain(|hold| hold.owner != owner || hold.is_lasting || hold.layer < layer);
            if holds.len() < before {
                freed_numbers.insert(*key);
            }
            !holds.is_empty()
        });
        // Who finds that the owner still has what it wants waits again.
        state.wake(owner, |wanted| match wanted.table() {
            Some(table) => freed_tables.contains(&table),
            None => freed_numbers.iter().any(|key| Wanted::Advisory(*key) == wanted),
        });
    }
}

impl State {
    /// The layer of what an owner takes now.
    pub(super) fn layer_used(&mut self, owner: LockOwner) -> u64 {
        self.marks.get_mut(&owner).map_or(0, |marks| {
            marks.is_used = true;
            marks.layer()
        })
    }

    /// The layer of a number that an owner takes until its transaction ends.
    pub(super) fn layer_of_number(&mut self, owner: LockOwner) -> u64 {
        let layer = self.layer_used(owner);
        if let Some(marks) = self.marks.get_mut(&owner) {
            marks.has_numbers = true;
        }
        layer
    }

    /// Frees the layers of an owner from one on; the tables of which it had something there.
    pub(super) fn free_layers(&mut self, owner: LockOwner, from: u64) -> HashSet<ObjectId> {
        let mut freed = HashSet::new();
        let Some(of_owner) = self.of_owners.get_mut(&owner) else { return freed };
        of_owner.retain(|table| {
            let Some(holders) = self.tables.get_mut(table) else { return false };
            while let Some(layer) = first_layer(holders, owner, from) {
                holders.remove(&(owner, layer));
                freed.insert(*table);
            }
            let has_more = from > 0 && first_layer(holders, owner, 0).is_some();
            if holders.is_empty() {
                self.tables.remove(table);
            }
            has_more
        });
        if of_owner.is_empty() {
            self.of_owners.remove(&owner);
        }
        freed
    }

    /// Forgets the last marks that nobody has any more: nobody goes back to them.
    fn forget_marks(&mut self, owner: LockOwner) {
        while let Some(marks) = self.marks.get_mut(&owner)
            && let Some((layer, _)) = marks.marks.pop_if(|(_, mark)| mark.strong_count() == 0)
        {
            // What lies in the layer before may have been taken behind its mark.
            let before = marks.layer();
            marks.is_used = true;
            let has_numbers = marks.has_numbers;
            for table in self.of_owners.get(&owner).into_iter().flatten() {
                let Some(holders) = self.tables.get_mut(table) else { continue };
                if let Some(held) = holders.remove(&(owner, layer)) {
                    holders.entry((owner, before)).or_default().take_over(held);
                }
            }
            if !has_numbers {
                continue;
            }
            let mut holds = self.advisory.values_mut().flatten();
            while let Some(hold) = holds.find(|hold| hold.owner == owner && hold.layer == layer) {
                hold.layer = before;
            }
        }
    }
}

impl Held {
    /// What the same owner has besides.
    fn take_over(&mut self, other: Self) {
        for mode in other.modes {
            if !self.modes.contains(&mode) {
                self.modes.push(mode);
            }
        }
        let sets = other.rows.into_iter().chain([other.keys, other.kept, other.gone]);
        let own = self.rows.iter_mut().chain([&mut self.keys, &mut self.kept, &mut self.gone]);
        for (own, set) in own.zip(sets) {
            set.runs.into_iter().for_each(|run| own.add(run));
        }
    }
}

/// The first layer of an owner, from one on.
fn first_layer(holders: &Holders, owner: LockOwner, from: u64) -> Option<u64> {
    holders.range((owner, from)..=(owner, u64::MAX)).next().map(|((_, layer), _)| *layer)
}

/// Whether a number is the same, but for how often it was taken.
pub(super) fn is_same_hold(hold: &AdvisoryHold, other: &AdvisoryHold) -> bool {
    let what = |hold: &AdvisoryHold| (hold.owner, hold.is_shared, hold.is_lasting, hold.layer);
    what(hold) == what(other)
}
