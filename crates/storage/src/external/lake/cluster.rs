//! Clusters of a lake's table: those of its Parquet files without the rows that are gone, and whole files that are not
//! looked at before they are read.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use arrow::buffer::BooleanBuffer;
use diligence_base::{Error, Result};

use crate::external::source::wait;
use crate::{
    Cluster, Decode, DecodeRequest, Decoded, DeletedRows, Fetch, Fetched, FirstStep, RowFilter, ScanRequest, Zone,
};

/// A part of a file.
pub(super) struct LakeCluster {
    /// The part, with the table's columns.
    pub inner: Arc<dyn Cluster>,
    /// Its number in the table.
    pub place: u64,
    /// Which of its rows are there; all if `None`.
    pub live: Option<BooleanBuffer>,
    /// What else tells rows that are gone.
    pub filters: Vec<Arc<dyn RowFilter>>,
}

impl fmt::Debug for LakeCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl LakeCluster {
    /// These columns, and those that tell which rows are gone.
    fn looked_at(&self, columns: &[usize]) -> Vec<usize> {
        let mut all = columns.to_vec();
        for column in self.filters.iter().flat_map(|filter| filter.columns()) {
            if !all.contains(column) {
                all.push(*column);
            }
        }
        all
    }
}

impl Cluster for LakeCluster {
    fn rows(&self) -> Option<usize> {
        if !self.filters.is_empty() {
            return None;
        }
        match &self.live {
            Some(live) => Some(live.count_set_bits()),
            None => self.inner.rows(),
        }
    }

    fn bytes(&self, columns: &[usize]) -> usize {
        self.inner.bytes(&self.looked_at(columns))
    }

    fn fetch(&self, columns: &[usize]) -> Fetch {
        self.inner.fetch(&self.looked_at(columns))
    }

    fn fetch_in_steps(&self, columns: &[usize], step_bytes: usize) -> Option<FirstStep> {
        self.inner.fetch_in_steps(&self.looked_at(columns), step_bytes)
    }

    fn decode(&self, fetched: Fetched, request: &DecodeRequest) -> Result<Box<dyn Decode>> {
        let mut request = request.clone();
        request.deleted = self.live.as_ref().map(|live| Arc::new(DeletedRows::of(live.clone())));
        // A condition may fail for a row that is gone: it must not see it.
        request.filters.splice(0..0, self.filters.iter().cloned());
        self.inner.decode(fetched, &request)
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn place(&self) -> Option<u64> {
        // With a filter of its own, a cluster whose columns are all decoded elsewhere may lack those of the filter.
        if self.filters.is_empty() { self.inner.place().map(|_| self.place) } else { None }
    }

    fn zone(&self, column: usize) -> Option<Zone> {
        self.inner.zone(column)
    }

    fn holds(&self, column: usize) -> bool {
        self.inner.holds(column)
    }
}

/// The data files of a table, by their numbers.
pub(super) trait DataFiles: Send + Sync {
    /// How many rows of a file there are, if that is known.
    fn live_rows(&self, file: usize) -> Option<usize>;
    /// Its length.
    fn file_bytes(&self, file: usize) -> u64;
    /// What messages call it.
    fn file_name(&self, file: usize) -> String;
    /// The clusters of a file that may have wanted rows. Reads its footer and its deletions: blocks the calling thread.
    fn clusters(&self, file: usize, request: &ScanRequest) -> Result<Vec<Arc<dyn Cluster>>>;
}

/// A file whose footer is read with its rows: for tables of so many files that to read all footers before the first
/// row would take too long.
pub(super) struct WholeFile {
    pub table: Arc<dyn DataFiles>,
    pub file: usize,
    pub request: ScanRequest,
}

impl fmt::Debug for WholeFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}

/// What was fetched of a file: its parts.
struct Parts(VecDeque<(Arc<dyn Cluster>, Fetched)>);

impl Cluster for WholeFile {
    fn rows(&self) -> Option<usize> {
        self.table.live_rows(self.file)
    }

    fn bytes(&self, _: &[usize]) -> usize {
        // Which columns take how much of it only the footer says.
        self.table.file_bytes(self.file) as usize
    }

    fn fetch(&self, columns: &[usize]) -> Fetch {
        let (table, file, request, columns) = (self.table.clone(), self.file, self.request.clone(), columns.to_vec());
        Fetch::Blocking(Box::new(move || {
            let (mut parts, mut bytes) = (VecDeque::new(), 0);
            for cluster in table.clusters(file, &request)? {
                let fetched = match cluster.fetch(&columns) {
                    Fetch::Ready(fetched) => fetched,
                    Fetch::Blocking(read) => read()?,
                    Fetch::Buffered(read) => read.wait()?,
                    Fetch::Waiting(read) => wait(read)?,
                };
                bytes += fetched.bytes;
                parts.push_back((cluster, fetched));
            }
            Ok(Fetched { bytes, content: Box::new(Parts(parts)) })
        }))
    }

    fn decode(&self, fetched: Fetched, request: &DecodeRequest) -> Result<Box<dyn Decode>> {
        let parts = fetched.content.downcast::<Parts>();
        let parts = parts.map_err(|_| Error::bug("what was fetched from another cluster came to a lake's file"))?;
        let request = DecodeRequest { shared: None, ..request.clone() };
        let mut decode = WholeDecode { parts: parts.0, current: None, request };
        decode.open_next()?;
        Ok(Box::new(decode))
    }

    fn describe(&self) -> String {
        self.table.file_name(self.file)
    }
}

struct WholeDecode {
    parts: VecDeque<(Arc<dyn Cluster>, Fetched)>,
    current: Option<Box<dyn Decode>>,
    request: DecodeRequest,
}

impl WholeDecode {
    fn open_next(&mut self) -> Result<()> {
        self.current = match self.parts.pop_front() {
            Some((cluster, fetched)) => Some(cluster.decode(fetched, &self.request)?),
            None => None,
        };
        Ok(())
    }
}

impl Decode for WholeDecode {
    fn step(&mut self) -> Result<Decoded> {
        let Some(current) = &mut self.current else { return Ok(Decoded::Done) };
        match current.step()? {
            Decoded::Done => {
                self.open_next()?;
                Ok(if self.current.is_some() { Decoded::Again } else { Decoded::Done })
            }
            decoded => Ok(decoded),
        }
    }

    fn bytes(&self) -> usize {
        self.current.as_ref().map_or(0, |current| current.bytes())
    }

    fn bring(&mut self, read: Fetched) -> Result<()> {
        match &mut self.current {
            Some(current) => current.bring(read),
            None => Err(Error::bug("a file that has ended was brought something")),
        }
    }
}
