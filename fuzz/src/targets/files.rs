//! A file reader: opens the input as a file, plans a scan, and reads what there is.

use std::sync::Arc;

use arrow::array::Array;
use diligence_base::Result;
use diligence_base::limits::BATCH_ROWS_MAX;
use diligence_base::seams::{CrashDisk, Disk};
use diligence_storage::external::{OpenOptions, open};
use diligence_storage::{Chunk, DecodeRequest, Fetch, ScanRequest, Table};

use super::Target;

/// Rows read of one input at most: a damaged count may promise billions.
const ROWS_MAX: usize = 200_000;

/// Reads inputs as files of one name, which tells the format.
pub struct FileTarget {
    name: &'static str,
    read: usize,
    refused: usize,
}

impl FileTarget {
    /// Files of this name.
    pub fn new(name: &'static str) -> Self {
        Self { name, read: 0, refused: 0 }
    }
}

impl Target for FileTarget {
    fn run(&mut self, input: &[u8]) -> std::result::Result<(), String> {
        let files = CrashDisk::holding([(self.name, input)]);
        match read(self.name, Arc::new(files)) {
            Ok(None) => self.read += 1,
            Ok(Some(broken)) => return Err(broken),
            Err(error) => {
                self.refused += 1;
                if !error.to_string().contains(self.name) {
                    return Err(format!("an error does not name its file: {error:?}"));
                }
            }
        }
        Ok(())
    }

    fn summary(&self) -> String {
        format!("{} read to the end, {} refused", self.read, self.refused)
    }
}

/// Few, so that pages come in several steps.
const STEP_BYTES: usize = 100;

/// Reads everything. A broken promise comes back as a text.
fn read(name: &str, files: Arc<dyn Disk>) -> Result<Option<String>> {
    let table = open(name, &OpenOptions::default(), files)?;
    let columns: Vec<usize> = (0..table.schema().fields().len()).collect();
    // Planning uses the statistics; they must be computable whatever they say.
    let _ = table.statistics();
    let _ = table.describe();
    let scan = table.scan(&ScanRequest { columns: columns.clone(), predicate: None })?;
    let mut rows = 0;
    for cluster in scan.clusters {
        // As a whole, and in steps where that is possible, in turn.
        let in_steps = (rows / 2 % 2 == 1).then(|| cluster.fetch_in_steps(&columns, STEP_BYTES)).flatten();
        let fetched = match in_steps.map_or_else(|| cluster.fetch(&columns), |first| first.fetch) {
            Fetch::Ready(fetched) => fetched,
            Fetch::Blocking(fetch) => fetch()?,
            Fetch::Waiting(fetch) => futures::executor::block_on(fetch)?,
            Fetch::Buffered(fetch) => fetch.wait()?,
        };
        let request = DecodeRequest {
            columns: columns.clone(),
            filters: Vec::new(),
            batch_rows: BATCH_ROWS_MAX,
            // Both physical forms, in turn.
            narrow: rows % 2 == 1,
            shared: None,
            deleted: None,
        };
        let mut decode = cluster.decode(fetched, &request)?;
        while let Some(chunk) = decode.next()? {
            if let Some(broken) = broken_promise(&chunk) {
                return Ok(Some(broken));
            }
            rows += chunk.rows;
            if rows > ROWS_MAX {
                return Ok(None);
            }
        }
    }
    Ok(None)
}

fn broken_promise(chunk: &Chunk) -> Option<String> {
    if chunk.rows == 0 || chunk.rows > BATCH_ROWS_MAX {
        return Some(format!("a chunk has {} rows", chunk.rows));
    }
    for column in &chunk.columns {
        if column.len() != chunk.rows {
            return Some(format!("a column has {} values in a chunk of {} rows", column.len(), chunk.rows));
        }
        if let Err(error) = column.to_data().validate_full() {
            return Some(format!("a column is no valid array: {error}"));
        }
    }
    None
}
