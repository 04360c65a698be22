//! What happens to a batch: one file or folder per operator.

pub mod aggregate;
pub mod common;
pub mod filter;
pub mod fragment_wise;
pub mod hash_join;
mod hashing;
pub mod incoming;
mod key_words;
pub mod limit;
pub mod mask;
pub mod project;
pub mod recursive;
pub mod result;
pub mod runtime_filter;
pub mod scalar;
pub mod scan;
pub mod sort;
pub mod unnest;
pub mod values;
pub(crate) mod widening;
pub mod window;
pub(crate) mod work_table;
pub mod write;

pub(crate) use work_table::MEMORY_DIVISOR;
