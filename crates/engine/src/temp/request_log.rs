//! A log of block requests, for the I/O laboratory: one line each,
//! `r|w|f <file> <cluster of the file> <directory> <cluster of the directory's file>` for a read, a write, a freed cluster.
//!
//! Lines stand in the order in which requests were made; requests of several threads at once in any order.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use diligence_base::{Error, Result};

use super::volumes::Place;
use crate::sync::Mutex;

/// What is asked of a cluster.
#[derive(Clone, Copy)]
pub(super) enum Request {
    Read,
    Write,
    Free,
}

/// Where requests are written to. Lines that cannot be written are lost: a query does not fail for its log.
pub(super) struct RequestLog(Mutex<BufWriter<File>>);

impl RequestLog {
    pub fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).map_err(|error| {
            Error::input(format!("cannot write the log of block requests {}: {error}", path.display()))
        })?;
        Ok(Self(Mutex::new(BufWriter::new(file))))
    }

    pub fn note(&self, request: Request, file: u64, clusters: impl Iterator<Item = (usize, Place)>) {
        let letter = match request {
            Request::Read => 'r',
            Request::Write => 'w',
            Request::Free => 'f',
        };
        let mut log = self.0.lock();
        for (cluster, place) in clusters {
            let _ = writeln!(log, "{letter} {file} {cluster} {} {}", place.directory, place.position);
        }
    }

    /// Makes the lines so far readable.
    pub fn flush(&self) {
        let _ = self.0.lock().flush();
    }
}
