//! Room for a batch: blocks one after the other, which are all given back at once.
//!
//! It grows by pages of its own, so it is in nobody's way who allocates as well. Beside a machine of WebAssembly, in
//! tests, addresses are places in a memory of this module.

use core::mem::size_of;

/// Blocks begin at multiples of these bytes.
const ALIGNMENT: usize = 8;
const PAGE_BYTES: usize = 64 << 10;

/// The room that is there: from `next` to `end` it is free.
struct Room {
    start: usize,
    next: usize,
    end: usize,
}

static mut ROOM: Room = Room { start: 0, next: 0, end: 0 };

/// # Safety
/// Nobody else has it meanwhile.
unsafe fn with_room<T>(use_it: impl FnOnce(&mut Room) -> T) -> T {
    // SAFETY: a module has one thread; no function here calls another that takes the room.
    use_it(unsafe { &mut *core::ptr::addr_of_mut!(ROOM) })
}

/// The address of so many free bytes, a multiple of 8; `None` if there is no more memory. They stay until the next
/// batch.
pub fn allocate(bytes: usize) -> Option<u32> {
    let bytes = bytes.checked_add(ALIGNMENT - 1)? / ALIGNMENT * ALIGNMENT;
    // SAFETY: nothing in here takes the room once more.
    unsafe {
        with_room(|room| {
            if bytes > room.end - room.next {
                room.grow(bytes)?;
            }
            let address = room.next;
            room.next += bytes;
            u32::try_from(address).ok()
        })
    }
}

/// Makes a block longer, if it is the last one and there is room behind it.
pub(crate) fn extend(address: u32, bytes: usize, more: usize) -> bool {
    // SAFETY: as in `allocate`.
    unsafe {
        with_room(|room| {
            let end = address as usize + (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
            let wanted = address as usize + (more + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
            let fits = end == room.next && wanted <= room.end;
            if fits {
                room.next = wanted;
            }
            fits
        })
    }
}

/// Gives all blocks back.
pub fn reset() {
    // SAFETY: as in `allocate`.
    unsafe { with_room(|room| room.next = room.start) }
}

impl Room {
    /// Gets room for a block of so many bytes, and for as much as there is already.
    fn grow(&mut self, bytes: usize) -> Option<()> {
        let wanted = bytes.max(self.end - self.start).max(PAGE_BYTES);
        let pages = wanted.checked_add(PAGE_BYTES - 1)? / PAGE_BYTES;
        let from = platform::grow(pages)?;
        if from != self.end {
            // Others have grown the memory meanwhile: what lies in the old room stays there, and is used no more.
            self.start = from;
            self.next = from;
        }
        self.end = from + pages * PAGE_BYTES;
        Some(())
    }
}

/// A slice of the memory.
///
/// # Safety
/// So many values of the type lie there, are aligned, and are not changed while the slice is used.
pub(crate) unsafe fn slice<'m, T>(address: u32, count: usize) -> &'m [T] {
    if count == 0 || size_of::<T>() == 0 {
        return &[];
    }
    // SAFETY: as the caller says.
    unsafe { core::slice::from_raw_parts(platform::pointer(address) as *const T, count) }
}

/// A slice that is written.
///
/// # Safety
/// As of [`slice`], and nobody else has it.
pub(crate) unsafe fn slice_mut<'m, T>(address: u32, count: usize) -> &'m mut [T] {
    if count == 0 || size_of::<T>() == 0 {
        return &mut [];
    }
    // SAFETY: as the caller says.
    unsafe { core::slice::from_raw_parts_mut(platform::pointer(address) as *mut T, count) }
}

#[cfg(target_arch = "wasm32")]
mod platform {
    /// The address of so many new pages.
    pub(super) fn grow(pages: usize) -> Option<usize> {
        match core::arch::wasm32::memory_grow(0, pages) {
            usize::MAX => None,
            before => Some(before * super::PAGE_BYTES),
        }
    }

    pub(super) fn pointer(address: u32) -> *mut u8 {
        address as *mut u8
    }

    #[no_mangle]
    extern "C" fn diligence_alloc(bytes: u32) -> u32 {
        super::allocate(bytes as usize).unwrap_or(0)
    }

    #[no_mangle]
    extern "C" fn diligence_reset() {
        super::reset();
    }
}

#[cfg(not(target_arch = "wasm32"))]
mod platform {
    const PAGES: usize = 16;

    static mut MEMORY: [u64; PAGES * super::PAGE_BYTES / 8] = [0; PAGES * super::PAGE_BYTES / 8];
    /// Pages that are taken. Nothing lies at the address 0.
    static mut TAKEN: usize = 1;

    pub(super) fn grow(pages: usize) -> Option<usize> {
        // SAFETY: one thread at a time has the memory.
        unsafe {
            let before = TAKEN;
            if pages > PAGES - before {
                return None;
            }
            TAKEN += pages;
            Some(before * super::PAGE_BYTES)
        }
    }

    pub(super) fn pointer(address: u32) -> *mut u8 {
        // SAFETY: addresses are those of blocks, which lie in the memory.
        unsafe { (core::ptr::addr_of_mut!(MEMORY) as *mut u8).add(address as usize) }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::{Mutex, MutexGuard};

    use super::*;

    static ALONE: Mutex<()> = Mutex::new(());

    /// Has the memory for a test alone, with nothing in it.
    pub(crate) fn alone() -> MutexGuard<'static, ()> {
        let alone = ALONE.lock().unwrap_or_else(|error| error.into_inner());
        reset();
        alone
    }

    #[test]
    fn blocks_lie_one_after_the_other_until_all_are_given_back() {
        let _alone = alone();
        let first = allocate(3).unwrap();
        assert_eq!((allocate(9), first % 8), (Some(first + 8), 0));
        let last = allocate(1).unwrap();
        assert_eq!(last, first + 24);
        assert!(!extend(first, 3, 30) && extend(last, 1, 30));
        assert_eq!(allocate(1), Some(last + 32));
        assert_eq!(allocate(100 << 20), None);
        reset();
        assert_eq!(allocate(1), Some(first));
    }
}
