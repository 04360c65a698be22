//! The Parquet library on bytes that others wrote.

use diligence_base::Result;
use diligence_base::panics::caught_quietly;

use crate::external::source::Source;

/// Runs code of the Parquet library on untrusted bytes: its errors get the file's name, and its panics become errors.
pub(super) fn guard<T>(source: &Source, what: &str, work: impl FnOnce() -> parquet::errors::Result<T>) -> Result<T> {
    match caught_quietly(work) {
        Some(Ok(value)) => Ok(value),
        Some(Err(error)) => Err(source.error(format!("{what} ({error})"))),
        None => Err(source.error(what)),
    }
}
