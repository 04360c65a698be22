//! What is said when temp space fails: where, what happened, and what to do.

use std::io;
use std::path::Path;

use diligence_base::Error;
use diligence_base::units::display_bytes;

/// Whether a disk or somebody's share of it is full.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}

/// A directory cannot be used at all.
pub(crate) fn unusable(directory: &Path, error: &io::Error) -> Error {
    Error::input(format!("cannot make a temp file in {}: {error}", directory.display()))
        .with_hint("name another directory with --temp-dir")
}

/// Temp space has reached its own limit.
pub(crate) fn quota_exceeded(quota_bytes: u64) -> Error {
    Error::resource(format!("temp space is full: its quota is {}", display_bytes(quota_bytes as usize))).with_hint(
        "raise the quota of temp space, raise --memory so that less is spilled, or run fewer queries at once",
    )
}

/// A file could not grow or be written.
pub(crate) fn not_written(directory: &Path, error: &io::Error) -> Error {
    if is_full(error) {
        return Error::resource(format!("the disk of temp space {} is full: {error}", directory.display()))
            .with_hint("free space there, name a directory on another disk with --temp-dir, or raise --memory");
    }
    Error::file(format!("cannot write to temp space {}: {error}", directory.display()))
        .with_hint("check the disk, or name a directory on another one with --temp-dir")
}

/// A cluster could not be read.
pub(crate) fn not_read(directory: &Path, error: &io::Error) -> Error {
    Error::file(format!("cannot read from temp space {}: {error}", directory.display()))
        .with_hint("check the disk, or name a directory on another one with --temp-dir")
}

/// A cluster is not what was written.
pub(crate) fn damaged(directory: &Path, byte: u64) -> Error {
    Error::file(format!(
        "temp space {} is damaged: the cluster at byte {byte} is not what was written (its checksum differs)",
        directory.display()
    ))
    .with_hint("run the query again; if it happens again, check the disk and the memory of the machine")
}

/// The engine ends while something is being read or written.
pub(crate) fn stopped() -> Error {
    Error::cancelled().context("temp space was closed")
}
