//! What the system says that this process holds in memory.

use std::fs::File;
use std::io::{Read, Seek};

/// The system's account of this process.
pub(crate) struct Resident {
    file: File,
    page_bytes: usize,
}

impl Resident {
    /// `None` where the system keeps none.
    pub fn open() -> Option<Self> {
        // SAFETY: it gives a number and touches no memory of ours.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let mut resident = Self { file: File::open("/proc/self/statm").ok()?, page_bytes: page_bytes.try_into().ok()? };
        resident.bytes().map(|_| resident)
    }

    /// Bytes that the process holds at the moment. Allocates nothing.
    pub fn bytes(&mut self) -> Option<usize> {
        let mut text = [0; 128];
        self.file.rewind().ok()?;
        let read = self.file.read(&mut text).ok()?;
        // All pages, then those in memory.
        let pages = std::str::from_utf8(&text[..read]).ok()?.split_ascii_whitespace().nth(1)?;
        Some(pages.parse::<usize>().ok()? * self.page_bytes)
    }
}
