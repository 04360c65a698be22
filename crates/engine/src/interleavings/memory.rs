//! The memory broker: what is reserved is counted once, never above a bound, and comes back.

use std::sync::Arc;
use std::task::{Wake, Waker};

use diligence_base::ids::QueryId;
use diligence_memory::{Broker, QueryMemory};
use shuttle::thread;

use super::interleave;

const BUDGET_BYTES: usize = 100;
const LIMIT_BYTES: usize = 60;

/// An operator's life: grows, shrinks, hands over. Returns how often it was refused.
fn operate(memory: &QueryMemory, broker: &Broker, step: usize) -> u64 {
    let mut refused = 0;
    let mut own = memory.reservation("Sort");
    for bytes in [10 * step, 15, 7 * step] {
        let before = own.bytes();
        match own.grow(bytes) {
            Ok(()) => assert_eq!(own.bytes(), before + bytes),
            Err(_) => {
                assert_eq!(own.bytes(), before, "a refusal takes nothing");
                refused += 1;
            }
        }
        assert!(broker.taken_bytes() <= BUDGET_BYTES && memory.reserved_bytes() <= LIMIT_BYTES);
    }
    let mut other = memory.reservation("Sort");
    refused += u64::from(other.grow(5).is_err());
    let both = own.bytes() + other.bytes();
    own.absorb(other);
    assert_eq!(own.bytes(), both);
    refused + u64::from(own.resize(12).is_err())
}

#[test]
fn what_is_reserved_stays_within_its_bounds_and_comes_back() {
    interleave(4_000, || {
        let broker = Broker::new(BUDGET_BYTES);
        let accounts: Vec<_> = (0..2).map(|query| broker.account(QueryId(query), Some(LIMIT_BYTES))).collect();
        let threads: Vec<_> = (0..4)
            .map(|index| {
                let (memory, broker) = (accounts[index % 2].clone(), broker.clone());
                thread::spawn(move || operate(&memory, &broker, index + 1))
            })
            .collect();
        let refused: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        // The broker counts its own refusals; a query's limit refuses before it is asked.
        assert!(broker.refusals_total() <= refused);
        assert_eq!(broker.reserved_bytes(), 0);
        for account in accounts {
            assert_eq!(account.reserved_bytes(), 0);
            assert!(account.peak_bytes() <= LIMIT_BYTES);
        }
    });
}

#[test]
fn a_smaller_budget_leaves_what_is_reserved_and_refuses_the_rest() {
    interleave(2_000, || {
        let broker = Broker::new(BUDGET_BYTES);
        let memory = broker.account(QueryId(1), None);
        let thread = {
            let (memory, broker) = (memory.clone(), broker.clone());
            thread::spawn(move || {
                let mut reservation = memory.reservation("HashJoin");
                reservation.grow(80).unwrap();
                broker.set_budget_bytes(40);
                assert!(reservation.grow(1).is_err());
                assert_eq!(reservation.bytes(), 80);
            })
        };
        let mut other = memory.reservation("Sort");
        let granted = other.grow(20).is_ok();
        assert!(broker.taken_bytes() <= BUDGET_BYTES);
        thread.join().unwrap();
        assert_eq!(broker.reserved_bytes(), if granted { 20 } else { 0 });
        drop(other);
        assert_eq!((broker.reserved_bytes(), memory.reserved_bytes()), (0, 0));
    });
}

/// Waits as a packet does: looks, sleeps until it is woken, looks again.
fn wait_for_room(memory: &QueryMemory) {
    let waker = unparking();
    while memory.poll_room(&waker).is_pending() {
        thread::park();
    }
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn unparking() -> Waker {
    Waker::from(Arc::new(Unpark(thread::current())))
}

#[test]
fn nobody_waits_for_memory_for_ever() {
    interleave(4_000, || {
        let broker = Broker::new(320);
        let threads: Vec<_> = (0..3)
            .map(|index| {
                let memory = broker.account(QueryId(index), None);
                thread::spawn(move || {
                    let waker = unparking();
                    while memory.poll_admit(100, &waker).is_pending() {
                        thread::park();
                    }
                    let (mut rows, mut batch) = (memory.revocable("Sort"), memory.reservation("Scan"));
                    for _ in 0..3 {
                        wait_for_room(&memory);
                        // The slack may be used up by the others; then the batch comes later.
                        let _ = batch.grow(4);
                        if rows.is_asked() || rows.grow(60).is_err() {
                            rows.resize(0).unwrap();
                        }
                    }
                    drop((rows, batch));
                    memory.end_grant();
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!((broker.taken_bytes(), broker.reserved_bytes(), broker.queue().len()), (0, 0, 0));
    });
}
