//! Who gets memory, who waits for it, who gives it back.

use std::sync::Arc;
use std::task::{Poll, Wake, Waker};

use diligence_base::ids::QueryId;
use diligence_base::sync::Mutex;
use diligence_base::{ErrorKind, Result};

use super::*;

#[test]
fn a_refused_reservation_takes_nothing_and_a_dropped_one_gives_back() {
    let broker = Broker::new(1000);
    let memory = broker.account(QueryId(1), Some(800));
    let mut first = memory.reservation("Sort");
    first.grow(700).unwrap();
    assert_eq!(first.grow(200).unwrap_err().kind(), ErrorKind::Resource);
    assert_eq!((memory.reserved_bytes(), broker.reserved_bytes()), (700, 700));
    let other = broker.account(QueryId(2), None);
    let mut second = other.reservation("HashJoin");
    assert!(second.grow(400).unwrap_err().message().contains("budget"));
    assert_eq!((other.reserved_bytes(), broker.refusals_total()), (0, 1));
    second.grow(300).unwrap();
    drop(first);
    assert_eq!((memory.peak_bytes(), broker.reserved_bytes()), (700, 300));
}

#[test]
fn who_holds_more_than_its_share_gives_way_to_who_holds_less() {
    let broker = Broker::new(1000);
    let (large, small) = (broker.account(QueryId(1), None), broker.account(QueryId(2), None));
    let mut rows = large.revocable("Sort");
    rows.grow(1000).unwrap();
    assert!(rows.grow(1).is_err(), "it is the one to spill");
    assert!(!rows.is_asked());
    let mut wanted = small.revocable("HashJoin");
    // Below its share: the other is asked, and a little may be had at once.
    wanted.grow(30).unwrap();
    assert!(rows.is_asked() && !wanted.is_asked());
    assert!(wanted.grow(460).is_err(), "more than the slack has");
    assert!(small.poll_room(Waker::noop()).is_pending());
    assert!(large.poll_room(Waker::noop()).is_ready(), "who is asked goes on");
    rows.shrink(500);
    assert!(!rows.is_asked() && small.poll_room(Waker::noop()).is_ready());
    wanted.grow(470).unwrap();
    assert!(wanted.grow(1).is_err(), "its share is used up: it spills");
    assert_eq!((broker.taken_bytes(), broker.asks_total()), (1000, 2));
}

#[test]
fn what_is_needed_to_go_on_is_had_while_anybody_can_give_back() {
    let broker = Broker::new(3200);
    let memory = broker.account(QueryId(1), None);
    let (mut rows, mut batch) = (memory.revocable("Sort"), memory.reservation("Scan"));
    rows.grow(3200).unwrap();
    batch.grow(800).unwrap();
    assert!(rows.is_asked());
    assert_eq!(batch.grow(1).unwrap_err().kind(), ErrorKind::Resource, "of small budgets the slack is a quarter");
    assert!(memory.poll_room(Waker::noop()).is_ready(), "it must run in order to spill");
    drop(rows);
    batch.grow(2400).unwrap();
    let error = batch.grow(1).unwrap_err();
    assert!(error.message().contains("Scan needs 1 B more"), "{error}");
    assert_eq!(error.code(), None, "nobody else holds anything");
    assert_eq!(broker.holders().len(), 1);
}

#[test]
fn a_burst_within_one_batch_may_take_twice_the_slack_while_somebody_gives_back() {
    let (mib, budget) = (1 << 20, 16 << 20);
    let broker = Broker::new(budget);
    let (large, small) = (broker.account(QueryId(1), None), broker.account(QueryId(2), None));
    let mut rows = large.revocable("Sort");
    while rows.grow(mib / 4).is_ok() {}
    let slack = slack_bytes(budget);
    let mut batches = small.reservation("Scan");
    while broker.taken_bytes() + mib <= budget + 2 * slack {
        batches.grow(mib).unwrap();
    }
    assert!(rows.is_asked() && small.poll_room(Waker::noop()).is_pending(), "its packets wait before the next");
    assert_eq!(batches.grow(mib).unwrap_err().kind(), ErrorKind::Resource);
    // When nobody has anything to give back, waiting is of no use.
    drop(rows);
    assert!(batches.grow(mib).is_err() && small.poll_room(Waker::noop()).is_ready());
}

#[test]
fn more_of_the_slack_may_be_had_while_other_queries_hold_memory() {
    let budget = 64 << 20;
    let slack = slack_bytes(budget);
    let (little, large) = (64 << 10, 1 << 20);
    let taken_at_most = |others_hold: bool, limit_bytes: Option<usize>, step: usize| {
        let broker = Broker::new(budget);
        let [other, query] = [(1, None), (2, limit_bytes)].map(|(id, limit)| broker.account(QueryId(id), limit));
        let mut held = other.reservation("Aggregate");
        if others_hold {
            held.grow(budget / 2).unwrap();
        }
        let mut wanted = query.reservation("Sort");
        while wanted.grow(step).is_ok() {}
        wanted.bytes() + held.bytes()
    };
    assert_eq!(taken_at_most(false, None, large), budget + slack / 2, "alone");
    assert_eq!(taken_at_most(false, None, little), budget + slack, "alone");
    assert_eq!(taken_at_most(true, None, large), budget + slack);
    assert_eq!(taken_at_most(true, None, little), budget + 2 * slack);
    // What others hold is nothing to a query that is at its own limit.
    let limit = budget / 4;
    let own = taken_at_most(false, Some(limit), large);
    assert_eq!(taken_at_most(true, Some(limit), large), budget / 2 + own);
}

#[test]
fn within_its_own_limit_a_query_asks_its_own() {
    let broker = Broker::new(32_000);
    let memory = broker.account(QueryId(1), Some(3200));
    let (mut rows, mut batch) = (memory.revocable("Sort"), memory.reservation("Scan"));
    rows.grow(3200).unwrap();
    assert!(rows.grow(1).is_err() && !rows.is_asked(), "it spills");
    batch.grow(800).unwrap();
    assert!(rows.is_asked());
    assert!(batch.grow(1).unwrap_err().message().contains("the query's own memory limit"));
}

/// A state at rest of so many bytes, which gives back a hundred at a time.
struct Table(Mutex<Reservation>);

impl Reclaim for Table {
    fn reclaimable_bytes(&self) -> usize {
        self.0.lock().bytes()
    }

    fn poll_reclaim(&self, _: usize, _: &Waker) -> Poll<Result<()>> {
        self.0.lock().shrink(100);
        Poll::Ready(Ok(()))
    }
}

#[test]
fn a_state_at_rest_gives_back_when_somebody_needs_memory() {
    let broker = Broker::new(1000);
    let (host, other) = (broker.account(QueryId(1), None), broker.account(QueryId(2), None));
    let starts = Arc::new(Wakes::default());
    host.set_giving(starts.clone());
    let mut held = host.revocable("HashJoin");
    held.grow(900).unwrap();
    held.rest();
    assert!(broker.holders().iter().all(|holder| holder.is_revocable && holder.bytes == 900));
    let table = Arc::new(Table(Mutex::new(held)));
    let state: Arc<dyn Reclaim> = table.clone();
    host.keep_at_rest(&state);
    let mut batch = other.reservation("Scan");
    batch.grow(350).unwrap();
    assert_eq!(starts.count(), 1);
    assert!(other.poll_room(Waker::noop()).is_pending() && host.poll_room(Waker::noop()).is_ready());
    let mut steps = 0;
    while let Poll::Ready(reclaimed) = host.poll_reclaim(Waker::noop())
        && !reclaimed.unwrap()
    {
        steps += 1;
    }
    assert_eq!((steps, table.reclaimable_bytes()), (4, 500), "as much as was asked");
    assert!(other.poll_room(Waker::noop()).is_ready());
    // One that is gone, or firm again, is asked for nothing.
    table.0.lock().hold_firm();
    drop((state, table));
    batch.grow(650).unwrap();
    assert!(batch.grow(1).is_err());
    assert!(!host.is_reclaiming());
}

/// Gives back all at once.
struct Shelf(Mutex<Option<Reservation>>);

impl Reclaim for Shelf {
    fn reclaimable_bytes(&self) -> usize {
        self.0.lock().as_ref().map_or(0, Reservation::bytes)
    }

    fn poll_reclaim(&self, _: usize, _: &Waker) -> Poll<Result<()>> {
        let kept = self.0.lock().take();
        drop(kept);
        Poll::Ready(Ok(()))
    }
}

#[test]
fn what_is_spare_is_dropped_before_anybody_is_asked() {
    let broker = Broker::new(1000);
    let (host, other) = (broker.account(QueryId(1), None), broker.account(QueryId(2), None));
    let retained = broker.retained_account();
    let shelf = Arc::new(Shelf(Mutex::new(None)));
    let spare: Arc<dyn Reclaim> = shelf.clone();
    broker.add_spare(Arc::downgrade(&spare));
    let fill = || {
        let mut state = host.reservation("Shared state");
        state.grow(600).unwrap();
        state.move_to(&retained, "Shared states");
        *shelf.0.lock() = Some(state);
        assert_eq!((host.reserved_bytes(), retained.reserved_bytes(), broker.taken_bytes()), (0, 600, 600));
    };
    fill();
    let holders = broker.holders();
    assert_eq!((holders.len(), holders[0].query, holders[0].operator), (1, None, "Shared states"));
    assert!(holders[0].is_revocable);
    // More than a fair share: it would spill, if there were nothing spare.
    let mut rows = other.revocable("Sort");
    rows.grow(900).unwrap();
    assert_eq!((broker.taken_bytes(), broker.asks_total(), broker.refusals_total()), (900, 0, 0));
    drop(rows);
    fill();
    assert!(other.poll_admit(1000, Waker::noop()).is_ready());
    other.end_grant();
    fill();
    broker.set_budget_bytes(599);
    assert_eq!(broker.taken_bytes(), 0);
    broker.set_budget_bytes(1000);
    fill();
    let mut held = other.reservation("Scan");
    held.overdraw(500);
    assert!(broker.poll_room(Waker::noop()).is_ready());
    assert!(!broker.is_wanted() && broker.taken_bytes() == 500);
    // What is granted and not used yet stays granted.
    held.shrink(500);
    assert!(host.poll_admit(800, Waker::noop()).is_ready());
    let mut state = host.reservation("Shared state");
    state.grow(100).unwrap();
    assert_eq!(broker.taken_bytes(), 800);
    state.move_to(&retained, "Shared states");
    assert_eq!((broker.taken_bytes(), broker.reserved_bytes()), (900, 100));
    drop(state);
    host.end_grant();
    assert_eq!(broker.taken_bytes(), 0);
}

#[test]
fn nobody_waits_for_a_state_that_has_nothing() {
    let broker = Broker::new(1000);
    let (host, other) = (broker.account(QueryId(1), None), broker.account(QueryId(2), None));
    let mut held = host.revocable("HashJoin");
    held.grow(1000).unwrap();
    held.rest();
    let mut batch = other.reservation("Scan");
    batch.grow(100).unwrap();
    assert!(other.poll_room(Waker::noop()).is_pending());
    // No state was noted that would have these bytes.
    assert!(matches!(host.poll_reclaim(Waker::noop()), Poll::Ready(Ok(true))));
    assert!(!host.is_reclaiming());
    assert!(other.poll_room(Waker::noop()).is_ready(), "it is not asked again");
    // What it reserves from now on it may be able to give back.
    other.0.owe();
    held.overdraw(1);
    assert!(other.poll_room(Waker::noop()).is_pending());
    drop(held);
    assert!(other.poll_room(Waker::noop()).is_ready());
}

#[test]
fn a_query_is_admitted_when_its_grant_is_free() {
    let broker = Broker::new(1000);
    let [first, second, third] = [1, 2, 3].map(|query| broker.account(QueryId(query), None));
    let admitted = |memory: &QueryMemory, bytes| memory.poll_admit(bytes, Waker::noop()).is_ready();
    assert!(admitted(&first, 600));
    assert_eq!((broker.taken_bytes(), broker.reserved_bytes()), (600, 0));
    assert!(!admitted(&second, 600));
    assert!(!admitted(&third, 100), "it came later");
    assert_eq!(broker.queue(), [QueryId(2), QueryId(3)]);
    let mut rows = first.revocable("Sort");
    rows.grow(1000).unwrap();
    assert_eq!(broker.taken_bytes(), 1000, "the grant is part of it");
    drop(rows);
    assert_eq!(broker.taken_bytes(), 600);
    second.leave_queue();
    assert!(admitted(&third, 100));
    first.end_grant();
    assert!(admitted(&second, 600));
    drop((first, second, third));
    assert_eq!((broker.taken_bytes(), broker.queue().len()), (0, 0));
}

#[test]
fn somebody_is_always_admitted() {
    let broker = Broker::new(1000);
    let mut tables = broker.table_account().reservation("a table in memory");
    tables.grow(990).unwrap();
    let [first, second] = [1, 2].map(|query| broker.account(QueryId(query), None));
    assert!(first.poll_admit(500, Waker::noop()).is_ready(), "there is nobody to wait for");
    assert!(second.poll_admit(500, Waker::noop()).is_pending());
    drop(first);
    assert!(second.poll_admit(500, Waker::noop()).is_ready());
}

#[test]
fn a_query_that_wants_all_waits_for_what_can_come_back() {
    let broker = Broker::new(1000);
    let mut tables = broker.table_account().reservation("a table in memory");
    tables.grow(300).unwrap();
    let [running, whole, later] = [1, 2, 3].map(|query| broker.account(QueryId(query), None));
    assert!(running.poll_admit(100, Waker::noop()).is_ready());
    let mut rows = running.reservation("Sort");
    rows.grow(400).unwrap();
    assert!(whole.poll_admit(1000, Waker::noop()).is_pending());
    assert!(later.poll_admit(1, Waker::noop()).is_pending(), "nobody goes before it");
    drop(rows);
    assert!(whole.poll_admit(1000, Waker::noop()).is_pending(), "the other is still sure of its own");
    running.end_grant();
    assert!(whole.poll_admit(1000, Waker::noop()).is_ready());
    assert_eq!(broker.taken_bytes(), 875, "all that is ever granted");
    assert!(later.poll_admit(1, Waker::noop()).is_pending());
    // What it has is sure, whatever others take.
    let others = broker.account(QueryId(4), None);
    let mut others = others.reservation("Scan");
    others.grow(125).unwrap();
    assert_eq!(others.grow(500).unwrap_err().code(), Some(OUT_OF_MEMORY), "it may be had when that has ended");
    whole.reservation("Aggregate").grow(575).unwrap();
}

#[test]
fn a_query_that_needs_little_is_not_behind_those_that_wait_for_much() {
    let broker = Broker::new(1000);
    let [running, waiting, little] = [1, 2, 3].map(|query| broker.account(QueryId(query), None));
    assert!(running.poll_admit(1000, Waker::noop()).is_ready());
    assert!(waiting.poll_admit(500, Waker::noop()).is_pending());
    little.go_ahead(false);
    assert!(little.poll_admit(500, Waker::noop()).is_ready());
    assert_eq!(broker.queue(), [QueryId(2)]);
    little.end_grant();
    assert_eq!(broker.taken_bytes(), 875, "it had none to give up");
}

#[test]
fn grants_that_are_not_used_leave_something_to_a_query_that_needs_little() {
    let broker = Broker::new(1000);
    let [first, second, little] = [1, 2, 3].map(|query| broker.account(QueryId(query), None));
    assert!(first.poll_admit(500, Waker::noop()).is_ready());
    assert!(second.poll_admit(376, Waker::noop()).is_pending());
    assert!(second.poll_admit(375, Waker::noop()).is_ready());
    little.go_ahead(false);
    assert!(little.poll_admit(500, Waker::noop()).is_ready());
    let mut rows = little.reservation("Sort");
    rows.grow(125).unwrap();
    assert_eq!((broker.taken_bytes(), broker.asks_total()), (1000, 0));
}

#[test]
fn a_refusal_names_who_holds_the_memory() {
    let broker = Broker::new(1000);
    let memory = broker.account(QueryId(1), None);
    let (mut row, mut batch) = (memory.reservation("Aggregate of one row"), memory.reservation("Scan"));
    row.grow(900).unwrap();
    let error = batch.grow(800).unwrap_err();
    assert!(error.message().contains("Scan needs 800 B more, q1 holds 900 B already (Aggregate of one row 900 B) and"));
    let error = row.grow(800).unwrap_err();
    assert!(error.message().contains("q1 holds 900 B already and the memory budget"), "it is said once: {error}");
}

#[test]
fn who_can_start_again_takes_no_more_beyond_the_budget_than_can_be_given_back() {
    const MIB: usize = 1 << 20;
    let broker = Broker::new(48 * MIB);
    let [sorts, first, second, nested] = [1, 2, 3, 4].map(|query| broker.account(QueryId(query), None));
    let (mut rows, mut buffers) = (sorts.revocable("Sort"), sorts.reservation("Sort"));
    rows.grow(4 * MIB).unwrap();
    buffers.grow(44 * MIB).unwrap();
    first.go_ahead(true);
    second.go_ahead(true);
    nested.go_ahead(false);
    let (mut some, mut more) = (first.reservation("Sort"), second.reservation("Sort"));
    some.grow(3 * MIB).unwrap();
    assert!(rows.is_asked(), "who can give back is asked first");
    let error = more.grow(3 * MIB).unwrap_err();
    assert_eq!((error.kind(), second.reserved_bytes()), (ErrorKind::Resource, 0), "the 4 MiB are lent already");
    more.grow(2 * MIB).unwrap();
    assert!(more.grow(2 * MIB).is_err(), "two times a little is not a little");
    assert!(more.grow_to_free(2 * MIB).is_err() && more.grow_for_one_row(2 * MIB).is_err(), "nor is it overdrawn");
    let mut own = nested.reservation("Sort");
    own.grow(5 * MIB).unwrap();
    drop((rows, own));
    more.grow(3 * MIB).unwrap_err();
    buffers.shrink(10 * MIB);
    more.grow(3 * MIB).unwrap();
}

#[test]
fn whoever_waits_is_woken() {
    let broker = Broker::new(1000);
    let [large, small] = [1, 2].map(|query| broker.account(QueryId(query), None));
    let mut rows = large.revocable("Sort");
    rows.grow(1000).unwrap();
    let mut batch = small.reservation("Scan");
    batch.grow(10).unwrap();
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(wakes.clone());
    assert!(small.poll_room(&waker).is_pending());
    rows.shrink(5);
    assert_eq!(wakes.count(), 0, "it is still short");
    rows.shrink(5);
    assert_eq!(wakes.count(), 1);
    assert!(small.poll_room(&waker).is_ready());
}

/// Counts wake-ups.
#[derive(Default)]
struct Wakes(std::sync::atomic::AtomicUsize);

impl Wakes {
    fn count(&self) -> usize {
        self.0.load(std::sync::atomic::Ordering::Relaxed)
    }
}

impl Giving for Wakes {
    fn rest(&self) {}

    fn wake_packets(&self) {}

    fn start_reclaiming(&self) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

#[test]
fn an_overdrawn_account_refuses_until_it_is_given_back() {
    let broker = Broker::new(1000);
    let tables = broker.table_account();
    let mut held = tables.reservation("a table in memory");
    held.overdraw(1500);
    assert_eq!((tables.reserved_bytes(), broker.reserved_bytes()), (1500, 1500));
    let error = tables.reservation("a table in memory").grow(1).unwrap_err();
    assert!(error.message().contains("the tables in memory hold 1.5 KiB already"), "{error}");
    held.shrink(600);
    tables.reservation("a table in memory").grow(100).unwrap();
}

#[test]
fn what_is_charged_is_given_back_by_others_and_given_up_before_a_firm_reservation_fails() {
    let broker = Broker::new(1000);
    let mut held = broker.account(QueryId(1), None).revocable("Sort");
    held.grow(900).unwrap();
    broker.charge(80);
    assert!(!held.is_asked());
    broker.charge(200);
    assert!(held.is_asked() && held.grow(1).is_err());
    held.shrink(100);
    broker.charge(150);
    assert_eq!((broker.taken_bytes(), broker.reserved_bytes()), (950, 800));
    let charged = || broker.holders().iter().find(|holder| holder.operator == "Allocator").map(|holder| holder.bytes);
    assert_eq!(charged(), Some(150));
    let mut firm = broker.table_account().reservation("a table in memory");
    assert!(held.grow(100).is_err(), "who can spill does so instead");
    firm.grow(50).unwrap();
    assert_eq!((charged(), broker.taken_bytes()), (Some(150), 1000));
    drop(held);
    broker.charge(950);
    assert_eq!((charged(), broker.taken_bytes()), (Some(950), 1000));
    firm.grow(50).unwrap();
    assert_eq!((charged(), broker.taken_bytes()), (None, 100));
    broker.charge(0);
    drop(firm);
    assert_eq!(broker.taken_bytes(), 0);
}

#[test]
fn what_is_held_is_settled_and_one_row_may_have_as_much_again() {
    let broker = Broker::new(1000);
    let memory = broker.account(QueryId(1), Some(600));
    assert_eq!((memory.limit_bytes(), broker.account(QueryId(2), None).limit_bytes()), (600, 1000));
    let mut held = memory.reservation("Aggregate");
    held.settle(700);
    assert_eq!((held.bytes(), memory.reserved_bytes(), broker.reserved_bytes()), (700, 700, 700));
    held.settle(500);
    assert_eq!((held.bytes(), broker.reserved_bytes()), (500, 500));
    held.grow_for_one_row(100).unwrap();
    held.grow_for_one_row(600).unwrap();
    assert_eq!(held.bytes(), 1200);
    assert_eq!(held.grow_for_one_row(1).unwrap_err().kind(), ErrorKind::Resource);
    assert_eq!(held.bytes(), 1200);
}

#[test]
fn an_absorbed_reservation_is_counted_once() {
    let memory = QueryMemory::unbounded();
    let mut first = memory.reservation("Aggregate");
    let mut second = memory.reservation("Aggregate");
    first.grow(10).unwrap();
    second.grow(5).unwrap();
    first.absorb(second);
    assert_eq!((first.bytes(), memory.reserved_bytes()), (15, 15));
    first.resize(4).unwrap();
    assert_eq!(memory.reserved_bytes(), 4);
    let part = first.split(3);
    assert_eq!((first.bytes(), part.bytes(), first.split(9).bytes()), (1, 3, 1));
    drop(part);
    assert_eq!(memory.reserved_bytes(), 0);
}
