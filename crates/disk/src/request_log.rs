//! A log of block requests, for the I/O laboratory (`diligence-bench blocks --replay`). A block is a cluster, files
//! have numbers:
//!
//! ```text
//! block 1048576        a block is 1 MiB
//! # 3 0 is at 0 57     where it will be: directory 0, the 57th cluster of the file there
//! w 3 0                cluster 0 of spill file 3 is written
//! r 3 0                it is read
//! f 3 0                nobody wants it any more
//! w 4 1 over 3 0       cluster 1 of spill file 4 is written where it was
//! ```
//!
//! Lines stand in the order in which requests were made; requests of several threads at once in any order.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use diligence_base::sync::Mutex;
use diligence_base::{Error, Result};

use crate::volumes::Place;

/// What is asked of a cluster.
#[derive(Clone, Copy)]
pub(crate) enum Request {
    Read,
    Write,
    Free,
}

/// Where requests are written to. Lines that cannot be written are lost: a query does not fail for its log.
pub(crate) struct RequestLog(Mutex<Lines>);

struct Lines {
    text: BufWriter<File>,
    /// The file and the cluster that were written to a place last.
    holders: HashMap<Place, (u64, usize)>,
}

impl RequestLog {
    pub fn create(path: &Path, cluster_bytes: usize) -> Result<Self> {
        let create = || {
            let mut text = BufWriter::new(File::create(path)?);
            writeln!(text, "block {cluster_bytes}")?;
            Ok(text)
        };
        let text = create().map_err(|error: io::Error| {
            Error::input(format!("cannot write the log of block requests {}: {error}", path.display()))
        })?;
        Ok(Self(Mutex::new(Lines { text, holders: HashMap::new() })))
    }

    pub fn note(&self, request: Request, file: u64, clusters: impl Iterator<Item = (usize, Place)>) {
        let mut lines = self.0.lock();
        let Lines { text, holders } = &mut *lines;
        for (cluster, place) in clusters {
            let _ = match request {
                Request::Read => writeln!(text, "r {file} {cluster}"),
                Request::Free => writeln!(text, "f {file} {cluster}"),
                Request::Write => {
                    let at = writeln!(text, "# {file} {cluster} is at {} {}", place.directory, place.position);
                    at.and_then(|()| match holders.insert(place, (file, cluster)) {
                        None => writeln!(text, "w {file} {cluster}"),
                        Some((file_before, before)) => writeln!(text, "w {file} {cluster} over {file_before} {before}"),
                    })
                }
            };
        }
    }

    /// Makes the lines so far readable.
    pub fn flush(&self) {
        let _ = self.0.lock().text.flush();
    }
}
