//! What the system has done for this process and on its disk.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use diligence_base::{Error, Result};

const SECTOR_BYTES: u64 = 512;

/// Totals; the difference of two is what happened between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes that came from the disk for this process (`read_bytes` of `/proc/self/io`).
    pub read_bytes: u64,
    /// Bytes of pages that this process made dirty and did not drop before they were written (`write_bytes` without
    /// `cancelled_write_bytes`). A page that is written again while it is dirty counts once.
    pub written_bytes: u64,
    /// What the disk has done, for whomever: 0 where the system does not say.
    pub disk_requests: u64,
    pub disk_bytes: u64,
}

impl Counters {
    /// Until now; the disk is that of a folder.
    pub fn now(folder: &Path) -> Result<Self> {
        let io = std::fs::read_to_string("/proc/self/io")
            .map_err(|error| Error::file(format!("cannot read /proc/self/io: {error}")))?;
        Ok(Self::of_texts(&io, &disk_statistics(folder).unwrap_or_default()))
    }

    fn of_texts(io: &str, disk: &str) -> Self {
        let of_process = |name: &str| -> u64 {
            let line = io.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
        };
        // Documentation/block/stat.rst: reads, reads merged, sectors read, ms, writes, writes merged, sectors written,
        // ...
        let of_disk: Vec<u64> = disk.split_whitespace().map_while(|number| number.parse().ok()).collect();
        let at = |index: usize| of_disk.get(index).copied().unwrap_or(0);
        Self {
            read_bytes: of_process("read_bytes:"),
            written_bytes: of_process("write_bytes:").saturating_sub(of_process("cancelled_write_bytes:")),
            disk_requests: at(0) + at(4),
            disk_bytes: (at(2) + at(6)) * SECTOR_BYTES,
        }
    }

    /// What happened since then. Bytes that were dropped may have been counted before.
    pub fn since(&self, then: &Self) -> Self {
        Self {
            read_bytes: self.read_bytes.saturating_sub(then.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(then.written_bytes),
            disk_requests: self.disk_requests.saturating_sub(then.disk_requests),
            disk_bytes: self.disk_bytes.saturating_sub(then.disk_bytes),
        }
    }

    /// KiB of a request at the disk, on average; 0 without any.
    pub fn disk_request_kib(&self) -> f64 {
        if self.disk_requests == 0 { 0.0 } else { self.disk_bytes as f64 / 1024.0 / self.disk_requests as f64 }
    }
}

fn disk_statistics(folder: &Path) -> Option<String> {
    let device = std::fs::metadata(folder).ok()?.dev();
    let path = format!("/sys/dev/block/{}:{}/stat", libc::major(device), libc::minor(device));
    std::fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_dropped_before_it_was_written_does_not_count() {
        let io = "rchar: 9\nwchar: 9\nsyscr: 1\nsyscw: 1\nread_bytes: 4096\nwrite_bytes: 81920\ncancelled_write_bytes: 8192\n";
        let disk = "  10  1  80  5  30  2  240  7  0  9  9";
        let counters = Counters::of_texts(io, disk);
        let expected =
            Counters { read_bytes: 4096, written_bytes: 73_728, disk_requests: 40, disk_bytes: 320 * SECTOR_BYTES };
        assert_eq!(counters, expected);
        assert_eq!(counters.disk_request_kib(), 4.0);
        assert_eq!(counters.since(&counters), Counters::default());
        assert_eq!(Counters::of_texts("", ""), Counters::default());
    }

    #[test]
    fn the_system_counts_what_this_process_reads_and_writes() {
        assert!(Counters::now(&std::env::temp_dir()).is_ok());
    }
}
