//! A fixed number of values that several workers fill, each its own range, and that is a plain vector afterwards.
//!
//! This is the one place of the join with shared mutable memory: finishing work is cut into parts that write disjoint
//! ranges of one array, and no safe type lends disjoint ranges, known only at run time, to threads that we do not
//! start.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Range;

/// `len` values, all zero at first.
pub(super) struct SharedVec<T> {
    pointer: *mut T,
    len: usize,
    capacity: usize,
    owned: PhantomData<T>,
}

// SAFETY: it owns its values like a vector, and only hands out references through an unsafe method whose contract is
// that ranges do not overlap.
unsafe impl<T: Send> Send for SharedVec<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for SharedVec<T> {}

impl<T: Copy> SharedVec<T> {
    /// Takes over a vector, best one of zeros, which the system gives without touching it.
    pub fn new(values: Vec<T>) -> Self {
        let mut values = ManuallyDrop::new(values);
        prefer_huge_pages(values.as_mut_ptr().cast(), size_of_val(&values[..]));
        Self { pointer: values.as_mut_ptr(), len: values.len(), capacity: values.capacity(), owned: PhantomData }
    }

    /// A range to write and read.
    ///
    /// # Safety
    /// While the result lives nobody else uses an overlapping range.
    #[expect(clippy::mut_from_ref, reason = "disjointness is the caller's promise")]
    pub unsafe fn range_mut(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.len, "a part reached beyond the shared array");
        // SAFETY: the range is inside the allocation (checked above), its values are initialized, and it is used by
        // this caller alone (the contract).
        unsafe { std::slice::from_raw_parts_mut(self.pointer.add(range.start), range.end - range.start) }
    }

    /// Where the bytes from `start` are, if there are `len` of them. Bytes of different callers may share a value.
    pub fn byte_pointer(&self, start: usize, len: usize) -> *mut u8 {
        assert!(start + len <= self.len * size_of::<T>(), "a part reached beyond the shared array");
        // SAFETY: inside the allocation, checked above.
        unsafe { self.pointer.cast::<u8>().add(start) }
    }

    /// The values as a vector again.
    pub fn into_vec(self) -> Vec<T> {
        let shared = ManuallyDrop::new(self);
        // SAFETY: these are the parts of the vector given to `new`, and this value is not dropped.
        unsafe { Vec::from_raw_parts(shared.pointer, shared.len, shared.capacity) }
    }
}

/// Bytes from which huge pages are asked for: below, what is wasted at the ends weighs more.
const HUGE_BYTES: usize = 8 << 20;

/// Asks the system to back large memory that nobody has touched yet by huge pages. Random lookups in a large table miss
/// the TLB on nearly every row otherwise, and the first touch of each small page costs a fault.
fn prefer_huge_pages(pointer: *mut u8, bytes: usize) {
    #[cfg(target_os = "linux")]
    if bytes >= HUGE_BYTES {
        const PAGE: usize = 4096;
        let start = pointer.align_offset(PAGE);
        let len = (bytes - start) / PAGE * PAGE;
        // SAFETY: whole pages inside memory that is ours; the advice does not change what is in them. If it is not
        // taken, nothing is lost.
        unsafe { libc::madvise(pointer.add(start).cast(), len, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (pointer, bytes);
}

impl<T> Drop for SharedVec<T> {
    fn drop(&mut self) {
        // SAFETY: these are the parts of the vector given to `new`, and `into_vec` did not take them.
        drop(unsafe { Vec::from_raw_parts(self.pointer, self.len, self.capacity) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_fill_their_own_ranges() {
        let shared = SharedVec::new(vec![0u32; 1000]);
        std::thread::scope(|scope| {
            for part in 0..4usize {
                let shared = &shared;
                scope.spawn(move || {
                    // SAFETY: each thread has its own quarter.
                    let range = unsafe { shared.range_mut(part * 250..(part + 1) * 250) };
                    range.fill(part as u32 + 1);
                });
            }
        });
        let values = shared.into_vec();
        assert_eq!(values.iter().map(|&value| value as usize).sum::<usize>(), 250 * (1 + 2 + 3 + 4));
    }
}
