//! Where on the disk a file is (FIEMAP), and how contiguous the files are that lie scattered in it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Extents of a file, by where they begin in it: where they begin on the disk, and their bytes.
pub type Extents = BTreeMap<u64, (u64, u64)>;

/// `FS_IOC_FIEMAP`: `_IOWR('f', 11, struct fiemap)` of linux/fs.h, whose head has 32 bytes.
const FIEMAP: libc::c_ulong = 0xC020_660B;
/// Extents that are asked for with one call: a preallocated piece of a temp file has a few.
const EXTENTS_MAX: usize = 64;

/// `struct fiemap_extent` of linux/fiemap.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    reserved_too: [u32; 3],
}

/// `struct fiemap` with room for some extents.
#[repr(C)]
struct Request {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [RawExtent; EXTENTS_MAX],
}

/// The extents of a part of a file, from `from` to `to` bytes. Fails where the file system does not tell.
pub fn of_file(file: &File, from: u64, to: u64) -> io::Result<Extents> {
    let mut found = Extents::new();
    let mut start = from;
    while start < to {
        let mut request = Request {
            start,
            length: to - start,
            flags: 0,
            mapped_extents: 0,
            extent_count: EXTENTS_MAX as u32,
            reserved: 0,
            extents: [RawExtent::default(); EXTENTS_MAX],
        };
        // SAFETY: the descriptor is open; the request has the layout of linux/fiemap.h and says how many extents there
        // is room for.
        if unsafe { libc::ioctl(file.as_raw_fd(), FIEMAP as _, &raw mut request) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let mapped = &request.extents[..(request.mapped_extents as usize).min(EXTENTS_MAX)];
        found.extend(mapped.iter().map(|extent| (extent.logical, (extent.physical, extent.length))));
        match mapped.last() {
            Some(last) if mapped.len() == EXTENTS_MAX => start = last.logical + last.length,
            _ => break,
        }
    }
    Ok(found)
}

/// How files lie that have their clusters in a larger one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Files with a cluster at least.
    pub files: u64,
    pub clusters: u64,
    /// Stretches of clusters of one file that follow each other in the file and lie side by side in the large one: what
    /// it takes one seek each to read.
    pub regions: u64,
    /// The same on the disk: side by side in the large file may be far apart there.
    pub extents: u64,
}

impl Layout {
    /// Clusters in a region on average (Wang & Cherniack 2006, section 4.2.3); 0 without any.
    pub fn region_clusters(&self) -> f64 {
        if self.regions == 0 { 0.0 } else { self.clusters as f64 / self.regions as f64 }
    }

    /// Extents of a file on average; 0 without any.
    pub fn extents_per_file(&self) -> f64 {
        if self.files == 0 { 0.0 } else { self.extents as f64 / self.files as f64 }
    }

    /// Reads a log of block requests, as the engine writes it: `# FILE CLUSTER is at DIRECTORY POSITION` says where
    /// each cluster of `cluster_bytes` is. Each file counts as it lay when it was written; `extents` are those of the
    /// large file.
    pub fn of_log(log: &str, cluster_bytes: u64, extents: &Extents) -> Self {
        let mut files: BTreeMap<u64, BTreeMap<u64, (u64, u64)>> = BTreeMap::new();
        for line in log.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let ["#", file, cluster, "is", "at", directory, position] = words[..] else { continue };
            let number = |word: &str| word.parse::<u64>().ok();
            if let (Some(file), Some(cluster), Some(directory), Some(position)) =
                (number(file), number(cluster), number(directory), number(position))
            {
                files.entry(file).or_default().insert(cluster, (directory, position));
            }
        }
        let mut layout = Self::default();
        for clusters in files.values() {
            let places: Vec<(u64, u64)> = clusters.values().copied().collect();
            let follows = |(directory, position): (u64, u64), next: (u64, u64)| next == (directory, position + 1);
            let breaks = |apart: &dyn Fn((u64, u64), (u64, u64)) -> bool| {
                1 + places.windows(2).filter(|pair| apart(pair[0], pair[1])).count() as u64
            };
            layout.files += 1;
            layout.clusters += places.len() as u64;
            layout.regions += breaks(&|a, b| !follows(a, b));
            layout.extents += breaks(&|a, b| {
                let on_disk = |place: (u64, u64)| physical(extents, place.1 * cluster_bytes);
                let is_near = match (on_disk(a), on_disk(b)) {
                    (Some(a), Some(b)) => a + cluster_bytes == b,
                    _ => true,
                };
                !follows(a, b) || !is_near
            });
        }
        layout
    }
}

/// Where a byte is on the disk, if that is known.
fn physical(extents: &Extents, byte: u64) -> Option<u64> {
    let (start, (physical, length)) = extents.range(..=byte).next_back()?;
    (byte < start + length).then(|| physical + byte - start)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "block 10\n# 1 0 is at 0 4\nw 1 0\n# 1 1 is at 0 5\nw 1 1\nr 1 0\n# 2 0 is at 0 6\nw 2 0\n# 1 2 is at 0 7\nw 1 2";

    #[test]
    fn clusters_side_by_side_are_a_region_and_extents_may_cut_it() {
        let layout = Layout::of_log(LOG, 10, &Extents::new());
        assert_eq!(layout, Layout { files: 2, clusters: 4, regions: 3, extents: 3 });
        assert_eq!((layout.region_clusters(), layout.extents_per_file()), (4.0 / 3.0, 1.5));
        // The large file is in two pieces on the disk: the second begins with its cluster 5.
        let extents = Extents::from([(0, (1000, 50)), (50, (5000, 50))]);
        assert_eq!(Layout::of_log(LOG, 10, &extents).extents, 4);
        assert_eq!(Layout::of_log("", 10, &extents), Layout::default());
    }

    #[test]
    fn the_requests_head_has_the_size_that_the_number_of_the_call_says() {
        assert_eq!(std::mem::offset_of!(Request, extents), (FIEMAP >> 16 & 0x3FFF) as usize);
        assert_eq!(size_of::<RawExtent>(), 56);
    }
}
