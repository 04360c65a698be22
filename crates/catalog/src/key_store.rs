//! Where the keys of indexes go that need not be in memory.

use std::fmt::Debug;
use std::sync::Arc;

use diligence_base::Result;
use diligence_storage::key_file::{KeyFile, KeyFileWriter};

/// Where the keys of indexes go when they are many: files. Used from any thread.
pub trait KeyStore: Send + Sync + Debug {
    /// Begins a file. Fails with kind `File` if it cannot be made.
    fn begin_keys(&self) -> Result<KeyFileWriter>;
    /// One that was begun here has ended: it is found after a crash from now on, and goes when nothing has it any more.
    /// Fails with kind `File`.
    fn finish_keys(&self, file: &Arc<KeyFile>) -> Result<()>;
}
