//! The allocator of our programs, and how much of what was freed it may keep.
//!
//! What operators free they soon want again. What goes back to the system in between comes back page by page, each
//! cleared by the kernel: when memory went back after some milliseconds, a sort of 2 GB within 1 GB spent half of its
//! processor time on that. So it goes back only when the process comes near the most that it may hold ([`Bounds`]), or
//! has been quiet for some time. A thread looks at what the system says that the process holds.
//!
//! The system clears and maps huge pages (2 MiB) at once, which is cheap, but one of which a part has gone back comes
//! whole with the next touch: what the process holds and what it uses drift apart. So processes with small budgets have
//! none.
//!
//! What one thread has allocated and another has freed is free only when the first one looks: threads that allocate
//! much call [`tidy`] now and then.
//!
//! Linking this crate is enough to use the allocator.

mod bounds;
mod global;
mod resident;

use std::cell::Cell;
use std::ffi::{c_long, c_ulong};
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub use bounds::RESIDENT_BASE_BYTES;
use bounds::{Bounds, Looks};
use resident::Resident;

#[global_allocator]
static ALLOCATOR: global::Allocator = global::Allocator;

/// How long a process that people use may stand still before it counts as quiet. Somebody who thinks between two
/// questions does not make it so: where a host has to find each page, a gigabyte that comes again takes seconds.
pub const QUIET: Duration = Duration::from_secs(60);

/// With a smaller budget there are no huge pages: what is lost on them is more than what is left beside the budget.
const HUGE_PAGES_BUDGET_BYTES: usize = 4 << 30;

/// The number of `mi_option_purge_delay`, which the bindings do not name: it is that of the version that `Cargo.toml`
/// pins.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// Milliseconds after which the allocator gives back by itself: none that anybody waits for. Below zero it never would,
/// not even if told to.
const NEVER_MS: c_long = c_long::MAX / 1000;

/// Milliseconds after which the allocator gives back by itself where nobody looks.
const BY_ITSELF_MS: c_long = 1000;

/// Has what is freed go back to the system when the process comes near 1.1 times its budget and
/// [`RESIDENT_BASE_BYTES`], or when it holds the same for as long as `quiet`, which is [`QUIET`] where people use it.
/// `budget` gives the bytes of the budget at the moment; with `None` this ends.
///
/// What the process holds too much all the same is told to `charge`, in bytes, again and again until it is 0: whoever
/// keeps the budget is to have so much less in use.
///
/// Call it once, before much is allocated. Where the system does not say what a process holds, memory goes back after a
/// second.
pub fn keep_within(
    quiet: Duration,
    budget: impl Fn() -> Option<usize> + Send + 'static,
    charge: impl Fn(usize) + Send + 'static,
) {
    let (Some(mut resident), Some(budget_bytes)) = (Resident::open(), budget()) else { return };
    if budget_bytes < HUGE_PAGES_BUDGET_BYTES {
        without_huge_pages();
    }
    set_purge_delay(NEVER_MS);
    let started = thread::Builder::new().name("diligence-memory".to_owned()).spawn(move || {
        let began = Instant::now();
        let mut looks = Looks::default();
        while let Some(bounds) = budget().map(|budget| Bounds::within(budget, quiet)) {
            let Some(mut bytes) = resident.bytes() else { break };
            let look = looks.look(&bounds, bytes, began.elapsed());
            if look.is_too_much {
                give_back();
                bytes = resident.bytes().unwrap_or(bytes);
                looks.gave_back(bytes);
            }
            if let Some(bytes) = looks.charge(&bounds, bytes, look.is_too_much, began.elapsed()) {
                charge(bytes);
            }
            thread::sleep(look.next);
        }
        set_purge_delay(BY_ITSELF_MS);
    });
    // Without the thread memory goes back after a second, as the allocator does it by itself.
    if started.is_err() {
        set_purge_delay(BY_ITSELF_MS);
    }
}

fn set_purge_delay(ms: c_long) {
    // SAFETY: it stores a number; other threads read it atomically.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, ms) };
}

/// How often memory went back: threads that have not looked since are to look.
static ROUNDS: AtomicU32 = AtomicU32::new(0);

/// How long threads have to look at what of theirs is free before it goes back: they do after a quantum of work.
const TIDYING: Duration = Duration::from_millis(4);

/// Takes back what this thread has allocated and others have freed, if memory is about to go back to the system: else
/// that would not be found. Call it where nothing is under way, often: it only reads a number most of the time.
pub fn tidy() {
    thread_local! {
        static SEEN: Cell<u32> = const { Cell::new(0) };
    }
    let rounds = ROUNDS.load(Ordering::Relaxed);
    if SEEN.replace(rounds) != rounds {
        // SAFETY: any thread may call it at any time.
        unsafe { libmimalloc_sys::mi_collect(false) };
    }
}

/// Gives back to the system what is free, whichever thread has freed it.
fn give_back() {
    ROUNDS.fetch_add(1, Ordering::Relaxed);
    thread::sleep(TIDYING);
    // For a thread that has never allocated anything the allocator does nothing.
    drop(black_box(Box::new(0_u8)));
    // SAFETY: any thread may call it at any time.
    unsafe { libmimalloc_sys::mi_collect(true) };
}

fn without_huge_pages() {
    // The process goes on with them if the system refuses.
    #[cfg(target_os = "linux")]
    // SAFETY: it changes how the system maps memory from now on, and touches none.
    unsafe {
        let (disabled, none): (c_ulong, c_ulong) = (1, 0);
        libc::prctl(libc::PR_SET_THP_DISABLE, disabled, none, none, none)
    };
}
