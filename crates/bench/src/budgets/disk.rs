//! How fast the disk is: a file written and read past the page cache, from front to back.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Instant;

use diligence_base::{Error, Result};

/// What is written and read: more than a disk's own cache is likely to have.
const FILE_BYTES: usize = 1 << 30;
const REQUEST_BYTES: usize = 4 << 20;
/// What `O_DIRECT` asks of an address.
const ALIGNMENT: usize = 4096;

/// Bytes per second.
#[derive(Clone, Copy, Debug)]
pub struct Bandwidth {
    pub read: f64,
    pub write: f64,
}

impl Bandwidth {
    /// Measures the disk that a folder is on.
    pub fn of(folder: &Path) -> Result<Self> {
        let path = folder.join(format!("bandwidth-{}", std::process::id()));
        let measured = measure(&path);
        // It is gone, or was never made.
        let _ = std::fs::remove_file(&path);
        measured.map_err(|error| Error::file(format!("cannot measure the disk with {}: {error}", path.display())))
    }

    /// Seconds that it takes at least to move so much.
    pub fn seconds(&self, read_bytes: u64, written_bytes: u64) -> f64 {
        read_bytes as f64 / self.read + written_bytes as f64 / self.write
    }
}

fn measure(path: &Path) -> std::io::Result<Bandwidth> {
    let direct =
        |flags| OpenOptions::new().read(true).write(true).create(true).truncate(true).custom_flags(flags).open(path);
    // Some file systems know no O_DIRECT: then the write is measured until it is synced, and the read is one of memory.
    let mut file: File = direct(libc::O_DIRECT).or_else(|_| direct(0))?;
    let mut buffer = vec![0_u8; REQUEST_BYTES + ALIGNMENT];
    let aligned = buffer.as_ptr().align_offset(ALIGNMENT);
    let buffer = &mut buffer[aligned..aligned + REQUEST_BYTES];
    // Not zeros: somebody below may have a short cut for those.
    buffer
        .iter_mut()
        .zip((0_u32..).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8))
        .for_each(|(to, from)| *to = from);
    let start = Instant::now();
    for _ in 0..FILE_BYTES / REQUEST_BYTES {
        file.write_all(buffer)?;
    }
    file.sync_data()?;
    let write = FILE_BYTES as f64 / start.elapsed().as_secs_f64();
    file.seek(SeekFrom::Start(0))?;
    let start = Instant::now();
    for _ in 0..FILE_BYTES / REQUEST_BYTES {
        file.read_exact(buffer)?;
    }
    Ok(Bandwidth { read: FILE_BYTES as f64 / start.elapsed().as_secs_f64(), write })
}
