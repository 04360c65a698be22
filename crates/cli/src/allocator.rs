//! The allocator of the process.

use std::ffi::c_long;

use diligence_base::limits::purge_delay_ms;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The number of `mi_option_purge_delay`, which the bindings do not name.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// Has what is freed go back to the system as soon as a budget of so many bytes wants it.
pub fn keep_within(budget_bytes: usize) {
    let delay = c_long::try_from(purge_delay_ms(budget_bytes)).unwrap_or(c_long::MAX);
    // SAFETY: it stores a number; other threads read it atomically.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, delay) };
}
