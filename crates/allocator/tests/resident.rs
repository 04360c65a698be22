//! What is freed goes back to the system when there is too much of it, and when nobody uses it.
//!
//! One test in this file, because it looks at what the whole process holds.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use diligence_allocator::{RESIDENT_BASE_BYTES, keep_within, tidy};

fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// Waits until the process holds less than so much.
fn wait_below(bytes: usize) {
    let begin = Instant::now();
    while resident_bytes() >= bytes {
        assert!(begin.elapsed() < Duration::from_secs(20), "{} bytes are still held", resident_bytes());
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_is_freed_goes_back_when_there_is_too_much_or_nobody_uses_it() {
    static BUDGET: AtomicUsize = AtomicUsize::new(400 << 20);
    static CHARGED: AtomicUsize = AtomicUsize::new(0);
    keep_within(
        Duration::from_secs(5),
        || Some(BUDGET.load(Ordering::Relaxed)),
        |bytes| CHARGED.store(bytes, Ordering::Relaxed),
    );
    let blocks = |bytes: usize| (0..bytes >> 20).map(|_| vec![1_u8; 1 << 20]).collect::<Vec<_>>();
    let held = blocks(300 << 20);
    assert!(resident_bytes() > 300 << 20);
    drop(held);
    // With this budget it is too much, and less than is given back for being quiet.
    let quiet = Instant::now();
    BUDGET.store(16 << 20, Ordering::Relaxed);
    let keeper = blocks(8 << 20);
    wait_below((16 << 20) * 11 / 10 + RESIDENT_BASE_BYTES);
    assert!(quiet.elapsed() < Duration::from_secs(4), "it went back, but late");
    drop(keeper);
    drop(blocks(60 << 20));
    wait_below(50 << 20);
    others_free_what_one_has_allocated();
    // What is in use cannot go back: it is charged, as far as that goes.
    let held = blocks(200 << 20);
    wait_until_charged(&CHARGED, 2 << 20);
    drop(held);
    wait_until_charged(&CHARGED, 0);
}

fn wait_until_charged(charged: &AtomicUsize, bytes: usize) {
    let begin = Instant::now();
    while charged.load(Ordering::Relaxed) != bytes {
        assert!(begin.elapsed() < Duration::from_secs(20), "{charged:?} bytes are charged, not {bytes}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Small blocks in pages that a thread still uses, freed by another: they go back once that thread has looked.
fn others_free_what_one_has_allocated() {
    const BYTES: usize = 220 << 20;
    let (give, take) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    let allocates = thread::spawn(move || {
        let blocks = (0..BYTES / 3000).map(|_| vec![1_u8; 3000]).collect::<Vec<_>>();
        give.send(blocks).unwrap();
        while ended.try_recv() == Err(mpsc::TryRecvError::Empty) {
            tidy();
            thread::sleep(Duration::from_millis(1));
        }
    });
    drop(take.recv().unwrap());
    wait_below(100 << 20);
    end.send(()).unwrap();
    allocates.join().unwrap();
}
