//! The partitions of a build side that are in memory while it comes in: a store for each, to which all packets add.
//!
//! Because stores are shared, whichever packet is short of memory can take rows out of a partition that goes to temp
//! space: nobody waits for the packet that brought them, and no more partitions are spilled than memory is short of.
//!
//! Invariants:
//! * Rows of a spilled partition leave its store, and none come in.
//! * A store's lock is held for one batch's rows at most, but for a look at all of them when no more come.

use diligence_base::{ErrorKind, Result};
use diligence_memory::Reservation;

use super::partitions::Partitions;
use crate::batch::Batch;
use crate::operators::hash_join::table::assemble::finishing_bytes;
use crate::operators::hash_join::table::finishing::FinishingBytes;
use crate::operators::hash_join::table::incoming::Incoming;
use crate::operators::hash_join::table::rows::BuildRows;
use crate::operators::hash_join::table::spec::TableSpec;
use crate::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

/// The part of the memory that the blocks being filled with strings may have, over all partitions.
const BLOCKS_SHARE: usize = 32;

/// See the module.
pub(in super::super) struct Resident {
    stores: Vec<Store>,
}

struct Store {
    rows: Mutex<Incoming>,
    /// What its reservation has, to be looked at without the lock.
    bytes: AtomicUsize,
}

/// What became of rows.
pub(in super::super) enum Kept {
    Yes,
    /// Not: their partition is in temp space.
    Spilled,
    /// Not: there is no memory for them.
    Refused,
}

impl Resident {
    /// No rows in any of so many partitions. `memory_bytes` is about what the join may have.
    pub fn new(spec: &TableSpec, partitions: usize, memory_bytes: usize, reservation: &Reservation) -> Self {
        let block_bytes = memory_bytes / BLOCKS_SHARE / partitions;
        let finishing = FinishingBytes::new(spec);
        let rows = || Incoming::in_blocks(spec, reservation.sibling(), block_bytes);
        let store = |_| Store { rows: Mutex::new(rows().with_finishing(finishing)), bytes: AtomicUsize::new(0) };
        Self { stores: (0..partitions).map(store).collect() }
    }

    /// Keeps rows in memory. Up to `borrow_bytes` they are kept even if they are refused, and `borrowed` says how many
    /// were.
    pub fn keep(
        &self,
        partition: usize,
        rows: BuildRows,
        partitions: &Partitions,
        borrow_bytes: usize,
        borrowed: &mut usize,
    ) -> Result<Kept> {
        let store = &self.stores[partition];
        let mut own = store.rows.lock();
        if partitions.is_spilled(partition) {
            return Ok(Kept::Spilled);
        }
        *borrowed = 0;
        let room = match own.make_room(&rows) {
            Err(error) if error.kind() == ErrorKind::Resource => {
                let Some(room) = own.borrow_room(&rows, borrow_bytes) else {
                    return Ok(Kept::Refused);
                };
                *borrowed = room.bytes();
                room
            }
            room => room?,
        };
        own.push(room, rows)?;
        // Whoever keeps rows sees that they are spilled, or whoever spills sees that there are some.
        store.bytes.store(own.bytes(), Ordering::SeqCst);
        Ok(Kept::Yes)
    }

    fn bytes(&self, partition: usize) -> usize {
        self.stores[partition].bytes.load(Ordering::SeqCst)
    }

    /// Some rows of a partition that was spilled, as a batch for temp space; `None` if there are none in memory.
    pub fn pop_spilled(&self, spec: &TableSpec, partitions: &Partitions) -> Option<(usize, Batch, Reservation)> {
        let spilled = |partition: &usize| self.bytes(*partition) > 0 && partitions.is_spilled(*partition);
        for partition in (0..self.stores.len()).filter(spilled) {
            let store = &self.stores[partition];
            let mut own = store.rows.lock();
            let popped = own.pop();
            store.bytes.store(own.bytes(), Ordering::Relaxed);
            drop(own);
            if let Some((chunk, columns, reservation)) = popped {
                return Some((partition, BuildRows::of_chunk(chunk, columns).into_spilled(spec), reservation));
            }
        }
        None
    }

    /// Spills the partition that holds most, if that is anything, and so many bytes: from then on its rows are there to
    /// be popped.
    pub fn spill_largest(&self, partitions: &Partitions, bytes_min: usize) -> bool {
        let is_worth = |partition: usize| self.bytes(partition) >= bytes_min.max(1);
        let resident = |partition: &usize| is_worth(*partition) && !partitions.is_spilled(*partition);
        let largest = (0..self.stores.len()).filter(resident).max_by_key(|partition| self.bytes(*partition));
        largest.inspect(|partition| partitions.spill(*partition)).is_some()
    }

    /// Bytes that finishing the rows needs on top of what is reserved with them.
    pub fn finishing_bytes(&self, spec: &TableSpec) -> usize {
        let stores: Vec<_> = self.stores.iter().map(|store| store.rows.lock()).collect();
        finishing_bytes(spec, stores.iter().map(|rows| &**rows), true)
    }

    /// Takes all rows out.
    pub fn take_all(&self) -> Vec<Incoming> {
        let take = |store: &Store| {
            let mut own = store.rows.lock();
            let none = Incoming::nothing(own.sibling());
            store.bytes.store(0, Ordering::Relaxed);
            std::mem::replace(&mut *own, none)
        };
        self.stores.iter().map(take).filter(|store| !store.is_empty()).collect()
    }
}
