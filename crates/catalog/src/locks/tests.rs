//! Locks, their queues and their ends.

use std::sync::atomic::AtomicUsize;
use std::task::Wake;

use super::*;

const T: ObjectId = ObjectId(7);

fn rows(rows: &[i64]) -> LockRequest<'_> {
    LockRequest { rows, row_mode: RowLock::NoKeyUpdate, ..LockRequest::of_table(T, TableLock::RowExclusive, false) }
}

fn code<T>(result: Result<T>) -> Option<&'static str> {
    result.err().and_then(|error| error.code())
}

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn is_ready(wait: &mut LockWait) -> bool {
    let waker = Waker::from(Arc::new(Count::default()));
    Pin::new(wait).poll(&mut Context::from_waker(&waker)).is_ready()
}

#[test]
fn a_set_finds_what_was_added_however_it_came() {
    let mut random = diligence_base::seams::Random::new(3);
    for _ in 0..50 {
        let (mut set, mut model) = (NumberSet::default(), std::collections::BTreeSet::new());
        for _ in 0..40 {
            let mut numbers = (0..random.below(30)).map(|_| random.below(500) as u64).collect::<Vec<_>>();
            numbers.sort_unstable();
            numbers.dedup();
            let found = set.first_of(&numbers);
            assert_eq!(found.is_some(), numbers.iter().any(|number| model.contains(number)));
            assert!(found.is_none_or(|found| model.contains(&found) && numbers.contains(&found)));
            model.extend(numbers.iter().copied());
            set.add(numbers);
        }
        assert!(set.runs.len() < 12, "{}", set.runs.len());
    }
}

#[test]
fn modes_exclude_each_other_as_in_postgresql() {
    // A letter for each mode that excludes the one of the row.
    let expected = ["-------x", "------xx", "----xxxx", "---xxxxx", "--xx-xxx", "--xxxxxx", "-xxxxxxx", "xxxxxxxx"];
    for (mode, expected) in TableLock::ALL.iter().zip(expected) {
        let found = TableLock::ALL.iter().map(|other| if mode.excludes(*other) { 'x' } else { '-' });
        assert_eq!(found.collect::<String>(), expected, "{mode:?}");
    }
    let expected = ["---x", "--xx", "-xxx", "xxxx"];
    for (mode, expected) in RowLock::ALL.iter().zip(expected) {
        let found = RowLock::ALL.iter().map(|other| if mode.excludes(*other) { 'x' } else { '-' });
        assert_eq!(found.collect::<String>(), expected, "{mode:?}");
    }
}

#[test]
fn the_first_that_waits_goes_on_and_the_others_follow_it() {
    let locks = Arc::new(Locks::default());
    let [a, b, c, d] = std::array::from_fn(|_| locks.new_owner());
    locks.take(a, &rows(&[1, 2])).unwrap();
    for owner in [b, c] {
        assert_eq!(code(locks.take(owner, &rows(&[2]))), Some(MUST_WAIT));
    }
    assert_eq!(code(locks.take(d, &rows(&[1, 5]))), Some(MUST_WAIT));
    let [mut for_b, mut for_c, mut for_d] = [b, c, d].map(|owner| locks.wait(owner).unwrap());
    assert!(!is_ready(&mut for_b) && !is_ready(&mut for_c) && !is_ready(&mut for_d));
    locks.release(a);
    assert!(is_ready(&mut for_b) && !is_ready(&mut for_c) && is_ready(&mut for_d));
    // Its row has another number now.
    locks.take(b, &rows(&[9])).unwrap();
    locks.advance(b);
    assert!(!is_ready(&mut for_c));
    locks.release(b);
    assert!(is_ready(&mut for_c));
    // One that goes away lets the next one go on.
    locks.take(a, &rows(&[1])).unwrap();
    for owner in [b, c] {
        locks.take(owner, &rows(&[1])).unwrap_err();
    }
    let (for_b, mut for_c) = (locks.wait(b).unwrap(), locks.wait(c).unwrap());
    locks.release(a);
    drop(for_b);
    locks.advance(b);
    assert!(is_ready(&mut for_c));
    assert!(locks.wait(a).is_none());
}

#[test]
fn who_waits_for_each_other_is_told() {
    let locks = Arc::new(Locks::default());
    let [a, b, c] = std::array::from_fn(|_| locks.new_owner());
    locks.take(a, &rows(&[1])).unwrap();
    locks.take(b, &rows(&[2])).unwrap();
    locks.take(c, &rows(&[3])).unwrap();
    assert_eq!(code(locks.take(a, &rows(&[2]))), Some(MUST_WAIT));
    let _a = locks.wait(a).unwrap();
    assert_eq!(code(locks.take(b, &rows(&[3]))), Some(MUST_WAIT));
    let _b = locks.wait(b).unwrap();
    assert_eq!(code(locks.take(c, &rows(&[1]))), Some("40P01"));
    assert!(locks.wait(c).is_none(), "it does not wait");
    // Numbers of applications are in the same queues.
    locks.release(c);
    let [a, b] = std::array::from_fn(|_| locks.new_owner());
    let (one, two) = (AdvisoryKey::One(1), AdvisoryKey::Two(0, 1));
    let shared = AdvisoryLock { is_shared: true, is_lasting: false };
    let alone = AdvisoryLock { is_shared: false, is_lasting: true };
    locks.take_advisory(a, one, shared).unwrap();
    locks.take_advisory(b, one, shared).unwrap();
    assert!(!locks.try_advisory(b, one, alone) && locks.try_advisory(b, two, alone));
    assert_eq!(code(locks.take_advisory(a, two, alone)), Some(MUST_WAIT));
    let mut waits = locks.wait(a).unwrap();
    assert_eq!(code(locks.take_advisory(b, one, alone)), Some("40P01"));
    // What stays is not freed by the end of a transaction, what does not is.
    locks.end_transaction(b);
    assert!(!is_ready(&mut waits));
    assert!(locks.release_advisory(b, two, false) && !locks.release_advisory(b, two, false));
    assert!(is_ready(&mut waits) && locks.try_advisory(a, one, alone));
}

#[test]
fn going_back_to_a_mark_frees_what_was_taken_behind_it() {
    let locks = Arc::new(Locks::default());
    let [a, b] = std::array::from_fn(|_| locks.new_owner());
    let is_free = |row: i64| {
        let is_free = locks.try_take(b, &rows(&[row])).is_some();
        locks.end_transaction(b);
        is_free
    };
    let free = |rows: &[i64]| rows.iter().map(|row| is_free(*row)).collect::<Vec<_>>();
    locks.take(a, &rows(&[1])).unwrap();
    let first = locks.mark(a);
    locks.take(a, &rows(&[1, 2])).unwrap();
    let second = locks.mark(a);
    locks.take(a, &rows(&[3])).unwrap();
    assert_eq!(code(locks.take(b, &rows(&[3]))), Some(MUST_WAIT));
    let mut waits = locks.wait(b).unwrap();
    assert!(!is_ready(&mut waits));
    locks.back_to(a, &second);
    assert!(is_ready(&mut waits));
    assert_eq!(free(&[1, 2, 3]), [false, false, true]);
    // One can go back to it again, and to the one before it.
    locks.take(a, &rows(&[3])).unwrap();
    locks.back_to(a, &second);
    assert_eq!(free(&[3]), [true]);
    locks.back_to(a, &first);
    assert_eq!(free(&[1, 2]), [false, true]);
    // What lies behind a mark that is forgotten lies behind the one before it.
    locks.take(a, &rows(&[2])).unwrap();
    let (third, advisory) = (locks.mark(a), AdvisoryLock { is_shared: false, is_lasting: false });
    locks.take(a, &rows(&[4])).unwrap();
    locks.take_advisory(a, AdvisoryKey::One(1), advisory).unwrap();
    locks.take_advisory(a, AdvisoryKey::One(2), AdvisoryLock { is_lasting: true, ..advisory }).unwrap();
    drop((second, third));
    let fourth = locks.mark(a);
    locks.take(a, &rows(&[5])).unwrap();
    let shown = locks.shown().into_iter().filter(|lock| lock.kind == "tuple").map(|lock| (lock.owner, lock.count));
    assert_eq!(shown.collect::<Vec<_>>(), [(a, 4)]);
    locks.back_to(a, &fourth);
    assert_eq!(free(&[1, 2, 4, 5]), [false, false, false, true]);
    locks.back_to(a, &first);
    assert_eq!(free(&[1, 2, 4, 5]), [false, true, true, true]);
    assert!(locks.try_advisory(b, AdvisoryKey::One(1), advisory));
    assert!(!locks.try_advisory(b, AdvisoryKey::One(2), advisory));
    // Many savepoints, one after the other, leave one layer.
    for row in 10..200 {
        drop(locks.mark(a));
        locks.take(a, &rows(&[row])).unwrap();
    }
    drop(locks.mark(a));
    assert!(locks.state.lock().tables[&T].len() <= 3);
    locks.end_transaction(a);
    assert_eq!(free(&[1, 2, 4, 5, 10, 199]), [true; 6]);
    assert!(locks.state.lock().marks.is_empty());
}
