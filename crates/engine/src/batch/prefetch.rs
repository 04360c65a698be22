//! Asking for memory before it is read, so that several cache misses are waited for at once.

use arrow::buffer::Buffer;

use super::views;

const CACHE_LINE_BYTES: usize = 64;

/// How many rows ahead memory is asked for: as many misses as a core can wait for at once.
pub(crate) const AHEAD: usize = 12;

/// Asks for the cache line of a value that will be read soon. The index may be any.
#[inline(always)]
pub(crate) fn prefetch<T>(values: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing and cannot fault, wherever the address is.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(values.as_ptr().wrapping_add(index).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (values, index);
}

/// Asks for the bytes of a long string, or for the first two cache lines of them. The view may be that of a NULL.
#[inline(always)]
pub(crate) fn prefetch_text(view: u128, buffers: &[Buffer]) {
    let (buffer, offset) = views::place(view);
    if let Some(bytes) = buffers.get(buffer).filter(|_| views::is_long(view)) {
        prefetch(bytes.as_slice(), offset);
        prefetch(bytes.as_slice(), offset + CACHE_LINE_BYTES.min(views::length(view) - 1));
    }
}
