//! mimalloc as the global allocator.
//!
//! Not the `mimalloc` crate: that asks for each object by its alignment, for which mimalloc takes a block of the
//! alignment's bytes more, whichever they are, and finds an aligned place in it. Objects of 8 KiB, 64 KiB or 128 KiB,
//! of which arrays of a batch are made, then have blocks of the next size: a third more, or twice as much. But blocks
//! of such sizes are aligned anyway.

use std::alloc::{GlobalAlloc, Layout};
use std::ptr;

use libmimalloc_sys as mi;

/// What any block is aligned to that has room for it.
const ALIGNED: usize = 8;

/// mimalloc, with blocks that are no larger than needed.
pub(crate) struct Allocator;

impl Allocator {
    /// A block from `take`, which is given its bytes, if that is aligned; else one from `take_aligned`.
    #[inline]
    fn block(layout: Layout, take: impl Fn(usize) -> *mut u8, take_aligned: impl Fn() -> *mut u8) -> *mut u8 {
        if layout.align() <= ALIGNED {
            return take(layout.size());
        }
        let block = take(layout.size().next_multiple_of(layout.align()));
        if block.is_null() || block.addr().is_multiple_of(layout.align()) {
            return block;
        }
        // SAFETY: it came from mimalloc just now, and nobody knows it.
        unsafe { mi::mi_free(block.cast()) };
        take_aligned()
    }
}

// SAFETY: blocks come from mimalloc, have the bytes that are asked for and their alignment, and go back to it. Nothing
// here panics: the size of a layout, rounded up to its alignment, does not overflow.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: mimalloc takes any size and any power of two.
        Self::block(
            layout,
            |bytes| unsafe { mi::mi_malloc(bytes) }.cast(),
            || unsafe { mi::mi_malloc_aligned(layout.size(), layout.align()) }.cast(),
        )
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        Self::block(
            layout,
            |bytes| unsafe { mi::mi_zalloc(bytes) }.cast(),
            || unsafe { mi::mi_zalloc_aligned(layout.size(), layout.align()) }.cast(),
        )
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        // SAFETY: the caller has it from here.
        unsafe { mi::mi_free(block.cast()) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if layout.align() <= ALIGNED {
            // SAFETY: the caller has it from here.
            return unsafe { mi::mi_realloc(block.cast(), bytes) }.cast();
        }
        // SAFETY: the caller has the block from here, and promises that the new size is a layout's; as many bytes are
        // copied as both have.
        unsafe {
            let usable = mi::mi_usable_size(block.cast());
            if bytes <= usable && bytes >= usable / 2 {
                return block;
            }
            let new = self.alloc(Layout::from_size_align_unchecked(bytes, layout.align()));
            if !new.is_null() {
                ptr::copy_nonoverlapping(block, new, layout.size().min(bytes));
                mi::mi_free(block.cast());
            }
            new
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every size and alignment: aligned, zeroed where that is asked for, and the same bytes after a change of size.
    #[test]
    fn blocks_are_aligned_and_keep_their_bytes() {
        for align in (0..13).map(|bits| 1_usize << bits) {
            for bytes in [1, 7, 8, 24, 63, 500, 4096, 5000, 8192, 65_536, 70_000, 131_072, 1 << 20, 3_000_000] {
                let layout = Layout::from_size_align(bytes, align).unwrap();
                // SAFETY: each block is used within its bytes, and freed once.
                unsafe {
                    let block = Allocator.alloc_zeroed(layout);
                    assert!(block.addr().is_multiple_of(align), "{bytes} bytes aligned to {align}");
                    assert!((0..bytes).all(|at| *block.add(at) == 0));
                    (0..bytes).for_each(|at| *block.add(at) = (at % 251) as u8);
                    let mut block = (block, bytes);
                    for next in [bytes * 3, bytes, bytes.div_ceil(3)] {
                        let layout = Layout::from_size_align(block.1, align).unwrap();
                        let new = Allocator.realloc(block.0, layout, next);
                        assert!(new.addr().is_multiple_of(align), "{next} bytes aligned to {align}");
                        let kept = next.min(bytes.div_ceil(3));
                        assert!((0..kept).all(|at| *new.add(at) == (at % 251) as u8));
                        block = (new, next);
                    }
                    Allocator.dealloc(block.0, Layout::from_size_align(block.1, align).unwrap());
                }
            }
        }
    }

    /// What the arrays of a batch have: powers of two, aligned as Arrow wants it.
    #[test]
    fn powers_of_two_have_blocks_of_their_size() {
        for bytes in [4096, 8192, 16_384, 32_768, 65_536, 131_072, 1 << 20] {
            for align in [8, 64, 128] {
                let layout = Layout::from_size_align(bytes, align).unwrap();
                // SAFETY: it is freed once.
                unsafe {
                    let block = Allocator.alloc(layout);
                    assert_eq!(mi::mi_usable_size(block.cast()), bytes, "aligned to {align}");
                    Allocator.dealloc(block, layout);
                }
            }
        }
    }
}
