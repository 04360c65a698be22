//! A folder that is read as it was at its last checkpoint, while another process may have it open and go on.
//!
//! Nothing is written there, so nothing is kept: every change but those of temporary objects is refused.

use std::sync::Arc;

use diligence_base::{Error, Result};
use diligence_catalog::journal::{Entry, Journal, LogPosition, Staged};
use diligence_catalog::{Catalog, NewRows};

use crate::files::{Purpose, RecordFile, damaged};
use crate::lock::ReadersLock;
use crate::replay::{Replay, Surroundings};
use crate::segments::Segments;
use crate::store::StoreOptions;

/// How often the newest image is looked for, while checkpoints remove those before it.
const ATTEMPTS: usize = 100;

/// A folder that is read. No segment is removed from it as long as this lives.
#[derive(Debug)]
pub struct FolderReader {
    _segments: Segments,
    _readers: ReadersLock,
    /// The number of the image; `None` if there was no checkpoint yet.
    image: Option<u64>,
}

impl FolderReader {
    /// Reads the newest image of a folder into an empty catalog, which refuses changes from then on. Fails with kind
    /// `File` if there is no folder, or it cannot be read or is damaged, `Resource` if the rows do not fit into memory.
    pub fn open(options: &StoreOptions, catalog: &Catalog, surroundings: &dyn Surroundings) -> Result<Self> {
        let StoreOptions { folder, disk, .. } = options;
        let readers = ReadersLock::of(folder)?.read()?;
        let StoreOptions { sizes, format, buffer, .. } = options;
        let segments = Segments::there(folder, disk.clone(), *sizes, format.clone(), buffer.clone())?;
        let mut opened = None;
        for _ in 0..ATTEMPTS {
            let Some(&number) = Purpose::Image.numbers(&**disk, folder)?.last() else { break };
            let path = Purpose::Image.path(folder, number);
            match RecordFile::open(&**disk, &path, Purpose::Image) {
                Ok(Some(file)) => {
                    opened = Some((number, file));
                    break;
                }
                Ok(None) => return Err(damaged(&path, 0)),
                // A checkpoint has removed it, and has made another one before.
                Err(_) if disk.meta(&path).is_err() => {}
                Err(error) => return Err(error),
            }
        }
        let image = opened.as_ref().map(|(number, _)| *number);
        if let Some((_, file)) = opened {
            let mut replay = Replay::new(catalog, surroundings, &segments);
            let replayed = replay.file(file)?;
            if !replayed.is_complete {
                return Err(replayed.file.damaged());
            }
            // The process that writes says which are lost.
            replay.settle_indexes()?;
        }
        catalog.keep_in(Arc::new(Refusal));
        Ok(Self { _segments: segments, _readers: readers, image })
    }

    /// The number of the image that was read; `None` if there was no checkpoint yet, and so nothing to be read.
    pub fn image(&self) -> Option<u64> {
        self.image
    }
}

/// Keeps nothing.
#[derive(Debug)]
struct Refusal;

impl Journal for Refusal {
    fn stage(&self, _rows: &[NewRows]) -> Result<Staged> {
        Ok(Staged::default())
    }

    fn append(&self, _entries: Vec<(Staged, Entry)>) -> Result<LogPosition> {
        let error = Error::file("the database is open for reading only, as of its last checkpoint").with_code("25006");
        Err(error.with_hint("another process has it open: end that, or have it serve and connect to it"))
    }

    fn sync(&self, _position: LogPosition) -> Result<()> {
        Ok(())
    }

    fn synced(&self) -> LogPosition {
        LogPosition::MAX
    }

    fn has_lost(&self) -> bool {
        false
    }

    fn forget_lost(&self) {}
}
